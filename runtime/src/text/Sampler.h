//===- Sampler.h - choosing the next token ------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_TEXT_SAMPLER_H
#define K3RT_TEXT_SAMPLER_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

namespace k3rt {

/// How to choose a token from logits. The defaults are K3's published ones: the
/// model's own distribution, unchanged. Filters work in the order of the fields.
struct SamplerOptions {
  /// Always the highest logit; the fields from temperature to minP and the seed
  /// are not used.
  bool greedy = false;
  /// Ids that are never chosen (Tokenizer::neverSampledIds is the usual list).
  std::vector<int32_t> bannedIds;
  /// > 0. Logits of tokens seen so far (prompt and answer) are divided by it if
  /// positive, multiplied if negative. 1: off.
  float repetitionPenalty = 1;
  /// >= 0. Logits are divided by it; 0 means greedy.
  float temperature = 1;
  /// Keep the topK highest logits; 0: all.
  int32_t topK = 0;
  /// In (0, 1]. Keep the smallest set of most likely tokens whose probabilities
  /// (after topK) reach topP. 1: all.
  float topP = 1;
  /// In [0, 1]. Keep tokens at least minP times as likely as the likeliest. 0:
  /// all.
  float minP = 0;
  /// Same seed, options and logits: same tokens, on every machine.
  uint64_t seed = 0;
};

/// Chooses tokens for one sequence. Ties go to the lower id. Uses neither the C
/// library's exp nor the standard distributions, so that results depend only on
/// IEEE-754 arithmetic.
class Sampler {
public:
  /// False with one line in `error` when an option is out of range or an id in
  /// bannedIds is not in [0, vocabSize).
  [[nodiscard]] bool init(const SamplerOptions &options, uint32_t vocabSize,
                          std::string &error);

  /// Records a token of the prompt for the repetition penalty. Tokens chosen by
  /// sample() are recorded by it.
  void observe(int32_t id);

  /// Moves to place `step` of the random stream of the seed: where the sampler
  /// would be after `step` non-greedy choices.
  void seek(uint64_t step);

  const SamplerOptions &settings() const { return options; }
  bool isGreedy() const { return options.greedy || options.temperature == 0; }
  /// The 53 random bits that a choice `ahead` choices from now uses.
  uint64_t randomBits(uint64_t ahead) const;
  /// Goes on as if sample() had chosen `id`.
  void take(int32_t id);

  /// Chooses one id from `logits` [vocabSize]. False with one line in `error`
  /// when a logit is not finite (whether banned or not: the model is broken) or
  /// every id is banned; no token is chosen then and the random state stays.
  [[nodiscard]] bool sample(const float *logits, int32_t &id,
                            std::string &error);

private:
  struct Candidate {
    float logit;
    int32_t id;
  };

  void collect(const float *logits);
  /// The same, without some that are not among the topK highest.
  void collectTop(const float *logits);
  int32_t choose();
  int32_t chooseAny(double floorWeight);
  int32_t chooseTopP(double floorWeight);
  double nextUniform();

  SamplerOptions options;
  uint32_t vocabSize = 0;
  uint64_t state = 0;
  std::vector<bool> banned;
  bool bansAny = false;
  std::unordered_set<int32_t> seen;
  std::vector<Candidate> candidates;
  std::vector<double> weights;
  std::vector<int32_t> blockKeys, sortedKeys;
};

/// e^x for x <= 0 in double precision from basic IEEE operations only (relative
/// error below 1e-15 above -700, 0 below -708). Declared for its test.
double expNonPositive(double x);

} // namespace k3rt

#endif // K3RT_TEXT_SAMPLER_H
