//===- Options.h - command line of k3-run -------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3RUN_OPTIONS_H
#define K3_TOOLS_K3RUN_OPTIONS_H

#include "runtime/src/text/Chat.h"
#include "runtime/src/text/Sampler.h"
#include "runtime/src/text/StopMatcher.h"

#include <optional>
#include <string>
#include <vector>

namespace k3run {

enum class Command {
  generate,
  chat,
  score,
  verify,
  canary,
  batch,
  replay,
  plan,
  help,
  version
};

/// An artifact inside a file; `offset` is not 0 in a self-contained executable.
struct ArtifactLocation {
  std::string path;
  uint64_t offset = 0;
};

struct Options {
  Command command = Command::generate;
  ArtifactLocation artifact;
  bool json = false;

  // engine
  uint32_t threads = 0;
  uint64_t memoryLimit = 0;
  uint64_t context = 0;
  uint32_t prefillWindow = 0;
  std::string weightsDir;
  bool poison = false;
  bool verifyWeights = false;
  bool deterministic = false;
  std::string trapFolder; ///< empty = no trap for NaN and infinity
  uint32_t maxSequences = 0; ///< 0: what the command needs
  uint64_t prefixCacheBytes = 0;
  std::string device; ///< "cpu", "cuda:0"; empty = cpu
  bool graph = true;
  int32_t cublas = 0; ///< as in k3rt_engine_options

  // generate and chat
  std::optional<std::string> prompt;
  std::string promptFile; ///< "-": standard input; empty: none
  bool promptSpecials = false;
  bool beginToken = true;
  uint64_t maxTokens = 256;
  bool ignoreEos = false;
  k3rt::SamplerOptions sampler;
  bool seedGiven = false;
  k3rt::StopOptions stops;
  bool speculate = false;
  uint32_t draftTokens = 0; ///< of a draft at most; 0: not given

  /// What drafts are made of, 0 = none.
  uint32_t mostDrafted() const {
    constexpr uint32_t usual = 5;
    return !speculate ? 0 : draftTokens != 0 ? draftTokens : usual;
  }

  // chat
  std::string messagesFile;
  std::string system;
  k3rt::ChatOptions chat;

  // score, and canary if given
  std::string textFile;

  // canary
  std::vector<uint64_t> contexts; ///< empty: chosen
  std::vector<std::pair<std::string, std::string>> against; ///< name, artifact
  std::string htmlFile;
  // batch
  std::string batchInput, batchOutput = "-";
  bool unordered = false, overwrite = false;
  uint32_t tokenBudget = 0;
  uint64_t prefixInterval = 0;

  // replay
  std::string dumpFolder;

  // verify
  std::string goldenFile;
  bool roundedActivations = false; ///< judge as what computes in bf16
  double meanTolerance = 0.05, likeliestShare = 0.975; ///< of rounded activations
  double logitTolerance = 1e-4;
  double layerTolerance = 1e-5;
  double stateTolerance = 5e-5;
  double lossTolerance = 1e-4;
  double routerMargin = 1e-5;
};

/// Reads the arguments (without the program's name). With `embedded`, the
/// artifact is already known and is not among them. False with one line in
/// `error`.
[[nodiscard]] bool
parseOptions(const std::vector<std::string> &arguments,
             const std::optional<ArtifactLocation> &embedded, Options &options,
             std::string &error);

/// The text of --help; `program` as the user called it.
std::string helpText(const std::string &program, bool embedded);

/// A size with an optional K, M, G or T (powers of 1024).
[[nodiscard]] bool parseSize(const std::string &text, uint64_t &bytes);

} // namespace k3run

#endif // K3_TOOLS_K3RUN_OPTIONS_H
