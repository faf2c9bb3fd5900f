//===- ToyModel.h - a small model to run the runtime with ----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Three layers: kda, mla, kda; hidden size 8; residual stream of 2 slots. All
// values are integers modulo 1009, all per channel h:
//   embedding  x = table[token]
//   kda        s = 3 s + w x;  c = x + 2 u[-1] + 3 u[-2] with u = x mod 251;
//              x = s + c           states: "kda" s, "conv_q" the last two u
//   mla        x = x + expert[position mod 3] + sum_j (j mod 5 + 1) x_j over
//   all
//              positions so far    state: "kv" the x_j; moves the stream from
//              slot 0 to slot 1
//   logits[v]  = sum_h x_h ((7 v + h) mod 13 + 1)
// The prefill program computes kda in chunks, the decode program step by step.
// Token 62 makes everything NaN, token 63 makes the embedding kernel fail.
//===----------------------------------------------------------------------===//
#ifndef K3_TEST_RUNTIME_TOYMODEL_H
#define K3_TEST_RUNTIME_TOYMODEL_H

#include "runtime/schemas/k3_artifact_generated.h"

#include <string>
#include <vector>

namespace toy {

constexpr int hidden = 8, layers = 3, experts = 3, modulus = 1009;
constexpr int32_t nanToken = 62, failToken = 63;
constexpr int32_t failCode = 7;
constexpr uint32_t banSets = 3; ///< that GPU programs tell apart

enum class Weights { embedded, beside, expertsApart, none };
enum class Targets { cpu, gpu, both };

struct Options {
  uint32_t vocab = 64;
  uint32_t pageTokens = 4;
  uint32_t chunkRows = 5;
  uint32_t maxTokens = 64;
  uint32_t maxSequences = 8;
  uint32_t maxLogitRows = 16;
  bool decodeProgram = true;
  Weights weights = Weights::embedded;
  Targets targets = Targets::cpu;
  // Of the GPU's programs.
  uint32_t embedCluster = 1; ///< blocks of the embedding kernel
  bool residentEmbed = false; ///< its blocks wait for each other
  bool chunkedDecode = false; ///< as prefill, with groups of two dispatches
  bool choosesTokens = false; ///< after the head
  bool startEarly = false;   ///< all kernels but that of the convolution
  bool tensorMaps = false;   ///< of a weight, a buffer and a state, which nobody reads
};

/// Set: engines and models are for this device where a test does not say
/// otherwise.
extern const char *testDevice;

/// A whole artifact in pieces that tests can change before they are written.
struct Model {
  k3::artifact::ArtifactT index;
  std::string code, cubin, tokenizer, weightBytes;
};
Model make(const Options &options = {});

/// The bytes of model.k3a; sets offsets and hashes. Weights that lie beside are
/// the bytes of model.k3w.
std::string serialize(Model &model);

/// The header and `index`, with the right hashes, in front of `blobs`, which
/// begin at blobsBegin.
std::string assemble(const k3::artifact::ArtifactT &index,
                     const std::string &blobs);
constexpr uint64_t blobsBegin = 64 << 10;

/// A folder that is removed with the object.
class Folder {
public:
  Folder();
  ~Folder();
  std::string path(const std::string &name) const { return root + "/" + name; }
  /// Returns the path.
  std::string write(const std::string &name, const std::string &bytes) const;

private:
  std::string root;
};

/// Writes model.k3a (and model.k3w if it is used) and returns the path.
std::string writeModel(const Folder &folder, const Options &options = {});

//===----------------------------------------------------------------------===//
// What the model computes, one sequence at a time, from the formulas above.
//===----------------------------------------------------------------------===//

class Oracle {
public:
  explicit Oracle(uint32_t vocab = 64) : vocab(vocab) {}

  /// Takes one token and returns its logits [vocab].
  std::vector<float> next(int32_t token);

  uint64_t length() const { return cache.size(); }
  /// As k3rt_sequence_read_state.
  std::vector<float> state(uint32_t layer, const std::string &name) const;
  /// The stream after a layer, for the last token.
  const std::vector<int> &afterLayer(uint32_t layer) const {
    return outputs[layer];
  }

private:
  void kda(int which, std::vector<int> &x);
  void mla(std::vector<int> &x);

  uint32_t vocab;
  struct {
    int s[hidden] = {};
    int newer[hidden] = {}, older[hidden] = {};
  } recurrent[2];
  std::vector<std::vector<int>> cache;
  std::vector<int> outputs[layers];
};

} // namespace toy

#endif // K3_TEST_RUNTIME_TOYMODEL_H
