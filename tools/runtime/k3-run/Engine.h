//===- Engine.h - an open model -----------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3RUN_ENGINE_H
#define K3_TOOLS_K3RUN_ENGINE_H

#include "k3rt/k3rt.h"
#include "runtime/src/text/Tokenizer.h"
#include "tools/runtime/k3-run/Options.h"

#include <functional>
#include <memory>

namespace k3run {

/// What follows a token: the one that the engine chose, or -1 and the logits
/// [vocab] to choose from. Valid until the next step.
struct Next {
  int32_t token = -1;
  const float *logits = nullptr;
};

/// Owns an engine of the C API and its tokenizer. Functions that can fail return
/// false with one line in `error`.
class Engine {
public:
  Engine() = default;
  ~Engine() { k3rt_engine_close(engine); }
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  [[nodiscard]] bool open(const Options &options, std::string &error);

  const k3rt_model_info &info() const { return modelInfo; }
  /// False when the artifact has no tokenizer.
  [[nodiscard]] bool needTokenizer(std::string &error) const;
  const k3rt::Tokenizer &tokenizer() const { return *textTokenizer; }

  [[nodiscard]] bool createSequence(k3rt_sequence &sequence,
                                    std::string &error);
  void freeSequence(k3rt_sequence sequence);

  /// Feeds `count` >= 1 tokens; `logits` [vocab] after the last one is valid
  /// until the next step.
  [[nodiscard]] bool step(k3rt_sequence sequence, const int32_t *tokens,
                          size_t count, const float *&logits,
                          std::string &error);
  /// The same, and chooses what follows if the engine can.
  [[nodiscard]] bool stepChoosing(k3rt_sequence sequence,
                                  const int32_t *tokens, size_t count,
                                  const k3rt_choice &choice, Next &next,
                                  std::string &error);
  /// Feeds tokens and calls `visit(i, logits)` with the logits after each.
  [[nodiscard]] bool
  stepAll(k3rt_sequence sequence, const int32_t *tokens, size_t count,
          const std::function<void(size_t, const float *)> &visit,
          std::string &error);

  /// State `name` of `layer`, see k3rt_sequence_read_state.
  [[nodiscard]] bool readState(k3rt_sequence sequence, uint32_t layer,
                               const char *name, uint64_t capacity,
                               std::vector<float> &values, std::string &error);
  /// The same, of whatever size it is; false if the layer has no such state.
  [[nodiscard]] bool findState(k3rt_sequence sequence, uint32_t layer,
                               const char *name, std::vector<float> &values);
  [[nodiscard]] bool writeState(k3rt_sequence sequence, uint32_t layer,
                                const char *name,
                                const std::vector<float> &values,
                                std::string &error);
  /// See k3rt_prefix_attach and k3rt_prefix_store.
  [[nodiscard]] bool attachPrefix(k3rt_sequence sequence,
                                  const std::vector<int32_t> &tokens,
                                  uint64_t &reused, std::string &error);
  [[nodiscard]] bool storePrefix(k3rt_sequence sequence, std::string &error);
  /// Memory with these options.
  [[nodiscard]] bool plan(const Options &options, k3rt_memory_plan &plan,
                          std::string &error);
  uint32_t threads();
  /// The processor: its name, and on a GPU who does large products.
  k3rt_device_info device();
  [[nodiscard]] bool setTrace(k3rt_trace_fn trace, void *user,
                              std::string &error);

  /// For calls of the C API that have no function here.
  k3rt_engine *handle() { return engine; }
  /// False with the engine's message in `error` unless `status` is K3RT_OK.
  [[nodiscard]] bool check(k3rt_status status, std::string &error) const;

private:
  k3rt_engine *engine = nullptr;
  k3rt_model_info modelInfo = {};
  std::unique_ptr<k3rt::Tokenizer> textTokenizer;
};

/// Sequences that the command runs at the same time.
uint32_t sequencesAtATime(const Options &options);

/// The engine options of the command line; `options` must outlive the result.
k3rt_engine_options engineOptions(const Options &options);

/// Largest resident memory of this process so far, in bytes.
uint64_t peakMemory();

} // namespace k3run

#endif // K3_TOOLS_K3RUN_ENGINE_H
