//===- RandomWeightsTest.cpp - weights made up in memory -----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/artifact/RandomWeights.h"
#include "test/unit/Runtime/TestEngine.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace toy;
using namespace k3::artifact;

namespace {

void addWeight(ArtifactT &index, const char *name, DType dtype, std::vector<int64_t> shape, bool experts = false) {
  auto weight = std::make_unique<WeightT>();
  weight->name = name;
  weight->dtype = dtype;
  weight->shape = std::move(shape);
  weight->is_expert_group = experts;
  index.weights.push_back(std::move(weight));
}

struct Progressed {
  std::vector<uint64_t> done;
  uint64_t total = 0;
};

/// Makes the weights of an index and keeps them.
class Made {
public:
  explicit Made(const ArtifactT &index, uint64_t seed = 1, uint32_t threads = 2) {
    flatbuffers::FlatBufferBuilder builder;
    FinishArtifactBuffer(builder, Artifact::Pack(builder, &index));
    k3rt::ThreadPool pool;
    EXPECT_TRUE(pool.start(threads).ok());
    k3rt::Progress progress = {[](void *user, uint64_t done, uint64_t total) {
                                 auto *seen = static_cast<Progressed *>(user);
                                 seen->done.push_back(done);
                                 seen->total = total;
                               },
                               &progressed};
    status = k3rt::makeRandomWeights(*GetArtifact(builder.GetBufferPointer()), seed, pool, progress, memory, tensors);
  }

  std::string bytes() const { return std::string(memory.data(), memory.size()); }
  template <typename Element> std::vector<Element> read(size_t tensor, size_t count) const {
    std::vector<Element> out(count);
    memcpy(out.data(), tensors[tensor], count * sizeof(Element));
    return out;
  }
  std::vector<double> bf16(size_t tensor, size_t count) const {
    std::vector<double> out;
    for (uint16_t high : read<uint16_t>(tensor, count)) {
      uint32_t bits = uint32_t(high) << 16;
      float value;
      memcpy(&value, &bits, sizeof(value));
      out.push_back(double(value));
    }
    return out;
  }
  std::vector<double> f32(size_t tensor, size_t count) const {
    std::vector<float> values = read<float>(tensor, count);
    return std::vector<double>(values.begin(), values.end());
  }

  k3rt::Status status;
  k3rt::Allocation memory;
  std::vector<const char *> tensors;
  Progressed progressed;
};

double largest(const std::vector<double> &values) {
  double out = 0;
  for (double value : values)
    out = std::max(out, std::fabs(value));
  return out;
}

double mean(const std::vector<double> &values) {
  double sum = 0;
  for (double value : values)
    sum += value;
  return sum / double(values.size());
}

double meanSquare(const std::vector<double> &values) {
  double sum = 0;
  for (double value : values)
    sum += value * value;
  return sum / double(values.size());
}

TEST(RandomWeights, MatricesAreUniformWithVarianceOneByInFeatures) {
  ArtifactT index;
  addWeight(index, "q_proj.weight", DType::BF16, {96, 768});
  addWeight(index, "gate.weight", DType::F32, {96, 768});
  addWeight(index, "q_conv1d.weight", DType::F32, {20000, 4});
  Made made(index);
  ASSERT_TRUE(made.status.ok()) << made.status.message();
  std::vector<std::pair<std::vector<double>, double>> all = {
      {made.bf16(0, 96 * 768), 768}, {made.f32(1, 96 * 768), 768}, {made.f32(2, 80000), 4}};
  for (const auto &[values, inFeatures] : all) {
    double limit = std::sqrt(3 / inFeatures);
    EXPECT_LE(largest(values), limit * 1.005); // bf16 rounds
    EXPECT_GE(largest(values), limit * 0.99);
    EXPECT_NEAR(meanSquare(values) * inFeatures, 1, 0.03);
    EXPECT_NEAR(mean(values) * std::sqrt(inFeatures), 0, 0.02);
  }
}

TEST(RandomWeights, GainsAreOneAndBiasesSmall) {
  ArtifactT index;
  addWeight(index, "input_layernorm.weight", DType::BF16, {321});
  addWeight(index, "o_norm.weight", DType::F32, {65});
  addWeight(index, "self_attn.A_log", DType::F32, {1, 1, 64, 1});
  addWeight(index, "self_attn.dt_bias", DType::F32, {640});
  addWeight(index, "gate.e_score_correction_bias", DType::F32, {640});
  Made made(index);
  ASSERT_TRUE(made.status.ok()) << made.status.message();
  EXPECT_EQ(made.bf16(0, 321), std::vector<double>(321, 1.0));
  EXPECT_EQ(made.f32(1, 65), std::vector<double>(65, 1.0));
  for (size_t tensor : {2, 3, 4}) {
    std::vector<double> values = made.f32(tensor, tensor == 2 ? 64 : 640);
    EXPECT_LE(largest(values), 0.1f);
    EXPECT_GT(largest(values), 0.08);
  }
}

TEST(RandomWeights, MxFp4HasTheVarianceOfAMatrix) {
  constexpr size_t experts = 3, out = 64, in = 1024;
  ArtifactT index;
  addWeight(index, "experts.{E}.w1.weight_packed", DType::U8, {experts, out, in / 2}, true);
  addWeight(index, "experts.{E}.w1.weight_scale", DType::U8, {experts, out, in / 32}, true);
  Made made(index);
  ASSERT_TRUE(made.status.ok()) << made.status.message();
  ASSERT_EQ(made.tensors.size(), 2 * experts);
  const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (size_t expert = 0; expert < experts; ++expert) {
    auto packed = made.read<uint8_t>(expert, out * in / 2);
    auto scales = made.read<uint8_t>(experts + expert, out * in / 32);
    std::vector<double> values;
    for (size_t i = 0; i < out * in; ++i) {
      uint8_t code = packed[i / 2] >> (i % 2 * 4) & 15;
      values.push_back((code & 8 ? -1 : 1) * magnitudes[code & 7] * std::ldexp(1.0, scales[i / 32] - 127));
    }
    EXPECT_GT(meanSquare(values) * in, 0.5);
    EXPECT_LT(meanSquare(values) * in, 2);
  }
}

TEST(RandomWeights, EveryTensorIsItsOwn) {
  ArtifactT index;
  addWeight(index, "a.weight", DType::BF16, {3, 5});
  addWeight(index, "b.weight", DType::BF16, {3, 5});
  addWeight(index, "experts.{E}.w1.weight", DType::BF16, {2, 3, 5}, true);
  addWeight(index, "c.weight", DType::F32, {3, 5});
  Made made(index);
  ASSERT_TRUE(made.status.ok()) << made.status.message();
  ASSERT_EQ(made.tensors.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(made.tensors[i]) % 64, 0u);
    for (size_t j = 0; j < i; ++j)
      EXPECT_NE(made.bf16(i, 15), made.bf16(j, 15)) << i << " " << j;
  }
}

// Large enough for several pieces of work.
TEST(RandomWeights, DependOnSeedAndNameAlone) {
  ArtifactT index;
  addWeight(index, "a.weight", DType::F32, {1100, 1001});
  addWeight(index, "b.weight", DType::BF16, {1100, 1001});
  Made one(index, 7, 1), three(index, 7, 3), other(index, 8, 3);
  EXPECT_EQ(one.bytes(), three.bytes());
  EXPECT_NE(one.f32(0, 1100 * 1001), other.f32(0, 1100 * 1001));
  std::swap(index.weights[0], index.weights[1]);
  Made swapped(index, 7, 2);
  EXPECT_EQ(swapped.f32(1, 1100 * 1001), one.f32(0, 1100 * 1001));
  EXPECT_EQ(swapped.bf16(0, 1100 * 1001), one.bf16(1, 1100 * 1001));

  const Progressed &progressed = one.progressed;
  EXPECT_GT(progressed.done.size(), 5u);
  EXPECT_TRUE(std::is_sorted(progressed.done.begin(), progressed.done.end()));
  EXPECT_EQ(progressed.done.back(), progressed.total);
  EXPECT_GE(progressed.total, 1100u * 1001 * 6);
}

// A tensor is put together from pieces of one block, which it shares with those that are made alike alone.
TEST(RandomWeights, TensorsAreCutOutOfBlocks) {
  using k3rt::RandomWeights;
  constexpr int64_t width = 1024;
  ArtifactT index;
  addWeight(index, "a.weight", DType::BF16, {5000, width});
  addWeight(index, "b.weight", DType::BF16, {70, width});
  addWeight(index, "narrow.weight", DType::BF16, {70, width / 2});
  addWeight(index, "wide.weight", DType::F32, {70, width});
  addWeight(index, "w.weight_packed", DType::U8, {7, width});
  addWeight(index, "w.weight_scale", DType::U8, {7, width});
  addWeight(index, "v.weight_packed", DType::U8, {7, width / 2});
  flatbuffers::FlatBufferBuilder builder;
  FinishArtifactBuffer(builder, Artifact::Pack(builder, &index));
  const Artifact &packed = *GetArtifact(builder.GetBufferPointer());
  RandomWeights random(packed, 7), other(packed, 8);
  EXPECT_EQ(random.blockOf(0), random.blockOf(1));
  EXPECT_EQ(random.blockOf(4), random.blockOf(6)) << "codes are codes at every width";
  EXPECT_EQ(random.numBlocks(), 5u);
  std::string block(RandomWeights::blockBytes, '\0'), otherBlock = block;
  random.writeBlock(random.blockOf(0), 0, block.size(), block.data());
  other.writeBlock(other.blockOf(0), 0, block.size(), otherBlock.data());
  EXPECT_FALSE(block == otherBlock);
  for (size_t tensor : {0, 1}) {
    std::string values(random.size(tensor), '\0'), want;
    random.write(tensor, 0, values.size(), values.data());
    for (uint64_t begin = 0; begin < values.size(); begin += RandomWeights::pieceBytes) {
      uint64_t offset = random.pieceOffset(tensor, begin / RandomWeights::pieceBytes);
      EXPECT_EQ(offset % 64, 0u);
      EXPECT_LE(offset, RandomWeights::blockBytes - RandomWeights::pieceBytes);
      want += block.substr(offset, std::min(RandomWeights::pieceBytes, values.size() - begin));
    }
    EXPECT_TRUE(values == want) << tensor;
    // In the middle of two pieces.
    std::string part(64, '\0');
    uint64_t begin = tensor == 0 ? RandomWeights::pieceBytes - 24 : 1000;
    random.write(tensor, begin, part.size(), part.data());
    EXPECT_EQ(part, want.substr(begin, part.size()));
  }
  EXPECT_NE(random.pieceOffset(0, 0), random.pieceOffset(0, 1));
  EXPECT_NE(random.pieceOffset(0, 0), random.pieceOffset(1, 0));
}

TEST(RandomWeights, TooMany) {
  ArtifactT index;
  for (const char *name : {"a", "b"})
    addWeight(index, name, DType::BF16, {int64_t(1) << 30, int64_t(1) << 16});
  Made made(index);
  EXPECT_EQ(made.status.code(), K3RT_OUT_OF_MEMORY);
  EXPECT_EQ(made.status.message(), "cannot allocate 281474976710656 bytes for random weights");
}

TEST(RandomWeights, RunAnArtifactWithoutWeights) {
  Folder folder;
  toy::Options options;
  options.weights = Weights::none;
  std::string path = writeModel(folder, options);
  TestEngine refused;
  EXPECT_EQ(refused.open(path), K3RT_BAD_ARTIFACT);
  auto run = [&](uint64_t seed, uint32_t threads) {
    TestEngine engine(path, [&](auto &o) {
      o.random_weights = seed;
      o.threads = threads;
    });
    return engine.feed(engine.create(), prompt(9, 3));
  };
  Logits logits = run(5, 1);
  ASSERT_EQ(logits.size(), 64u);
  EXPECT_EQ(run(5, 3), logits);
  EXPECT_NE(run(6, 1), logits);
}

// What is stored is not read, even where it is missing.
TEST(RandomWeights, TakeThePlaceOfStoredOnes) {
  Folder folder;
  toy::Options options;
  options.weights = Weights::beside;
  std::string path = writeModel(folder, options);
  ASSERT_EQ(remove(folder.path("model.k3w").c_str()), 0);
  TestEngine engine(path, [](auto &o) { o.random_weights = 5; });
  options.weights = Weights::none;
  Folder bare;
  TestEngine without(writeModel(bare, options), [](auto &o) { o.random_weights = 5; });
  EXPECT_EQ(engine.feed(engine.create(), {1, 2, 3}), without.feed(without.create(), {1, 2, 3}));
}

} // namespace
