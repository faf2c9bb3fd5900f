//===- MemoryPlanTest.cpp - planned sizes of large models ----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/state/MemoryPlan.h"
#include "runtime/src/artifact/CheckArtifact.h"
#include "test/unit/Runtime/ToyModel.h"

#include <gtest/gtest.h>

using namespace k3::artifact;
using k3rt::EngineOptions;
using k3rt::MemoryPlan;

namespace {

/// The toy's programs over other layers.
struct Layers {
  int kda = 0, mla = 0;
  int64_t heads = 96, key = 128, channels = 12288, latent = 576;
  int64_t page = 64;
};

class Planned {
public:
  explicit Planned(const Layers &layers) {
    toy::Options options;
    options.weights = toy::Weights::none;
    toy::Model model = toy::make(options);
    ArtifactT &index = model.index;
    index.model->max_position_embeddings = 1 << 20;
    index.states.clear();
    index.layers.clear();
    for (auto &program : index.programs)
      for (auto &kind : program->layer_kinds)
        kind->groups.clear();
    auto state = [&](const char *name, uint32_t layer, StateKind kind,
                     DType dtype, std::vector<int64_t> shape,
                     uint32_t pageTokens = 0) {
      auto out = std::make_unique<StateT>();
      out->name = name;
      out->layer = layer;
      out->kind = kind;
      out->dtype = dtype;
      out->shape = std::move(shape);
      out->page_tokens = pageTokens;
      index.states.push_back(std::move(out));
      return uint32_t(index.states.size() - 1);
    };
    for (int i = 0; i < layers.kda + layers.mla; ++i) {
      auto layer = std::make_unique<LayerT>();
      layer->kind = i < layers.kda ? 0 : 1;
      auto number = uint32_t(i);
      if (i < layers.kda) {
        layer->states = {state("kda", number, StateKind::Kda, DType::F32,
                               {layers.heads, layers.key, layers.key})};
        for (const char *name : {"conv_q", "conv_k", "conv_v"})
          layer->states.push_back(state(name, number, StateKind::Conv,
                                        DType::BF16, {3, layers.channels}));
      } else {
        layer->states = {state("kv", number, StateKind::KvCache, DType::BF16,
                               {layers.page, layers.latent},
                               uint32_t(layers.page))};
      }
      index.layers.push_back(std::move(layer));
    }
    FinishArtifactBuffer(builder, Artifact::Pack(builder, &index));
    k3rt::Status status = k3rt::checkArtifact(get(), 0, uint64_t(1) << 40);
    EXPECT_TRUE(status.ok()) << status.message();
  }

  const Artifact &get() const {
    return *GetArtifact(builder.GetBufferPointer());
  }
  MemoryPlan plan(const EngineOptions &options) const {
    MemoryPlan out;
    k3rt::Status status = k3rt::planMemory(get(), options, out);
    EXPECT_TRUE(status.ok()) << status.message();
    return out;
  }

private:
  flatbuffers::FlatBufferBuilder builder;
};

EngineOptions options(uint32_t sequences, uint64_t context,
                      uint64_t limit = 0) {
  EngineOptions out;
  out.threads = 1;
  out.maxSequences = sequences;
  out.maxContext = context;
  out.memoryLimit = limit;
  return out;
}

// Kimi K3: 69 KDA layers of 96 heads x 128 x 128 in f32, 3 rows of q, k and v
// in bf16; 24 MLA layers of 512 + 64 in bf16.
TEST(MemoryPlan, StatesDoNotGrowWithLength) {
  Planned k3({69, 24});
  for (uint64_t tokens : {uint64_t(12), uint64_t(1000), uint64_t(128 << 10)}) {
    MemoryPlan plan = k3.plan(options(1, tokens));
    EXPECT_EQ(plan.recurrentPerSequence, 434110464u);
    EXPECT_EQ(plan.convPerSequence, 69u * 3 * 3 * 12288 * 2);
    EXPECT_EQ(plan.kvPerToken, 24u * 576 * 2);
    EXPECT_EQ(plan.statePool, plan.recurrentPerSequence + plan.convPerSequence);
    // Whole pages of the cache, and nothing rounded to the size of a state.
    EXPECT_EQ(plan.kvPool, (tokens + 63) / 64 * 64 * plan.kvPerToken);
  }
  MemoryPlan plan = k3.plan(options(3, 1000));
  EXPECT_EQ(plan.statePool,
            3 * (plan.recurrentPerSequence + plan.convPerSequence));
  EXPECT_EQ(plan.pages, 3 * 16u);
}

TEST(MemoryPlan, AnyMixOfLayers) {
  for (auto [kda, mla] : {std::pair(20, 7), std::pair(69, 24), std::pair(5, 1),
                          std::pair(1, 0), std::pair(0, 4)}) {
    Planned model({kda, mla, 32, 128, 4096});
    MemoryPlan plan = model.plan(options(2, 100));
    EXPECT_EQ(plan.recurrentPerSequence,
              uint64_t(kda) * 32 * 128 * 128 * sizeof(float));
    EXPECT_EQ(plan.kvPerToken, uint64_t(mla) * 1152);
    EXPECT_EQ(plan.kvPool, mla ? 2u * 128 * uint64_t(mla) * 1152 : 0u);
    EXPECT_EQ(plan.pageTokens, mla ? 64u : 0u);
  }
}

// What the plan says fits, fits; one byte less of the fixed parts does not.
TEST(MemoryPlan, LimitsAreKept) {
  Planned k3({69, 24});
  MemoryPlan full = k3.plan(options(2, 100000));
  EXPECT_EQ(k3.plan(options(2, 100000, full.total())).pages, full.pages);
  MemoryPlan less = k3.plan(options(2, 100000, full.total() - 1));
  EXPECT_EQ(less.pages, full.pages - 1);
  EXPECT_LE(less.total(), full.total() - 1);
  // A page for each sequence is the least.
  uint64_t fixed = full.total() - full.kvPool;
  EXPECT_EQ(k3.plan(options(2, 100000, fixed + 2 * full.pageBytes())).pages,
            2u);
  MemoryPlan none;
  k3rt::Status status = k3rt::planMemory(
      k3.get(), options(2, 100000, fixed + 2 * full.pageBytes() - 1), none);
  EXPECT_EQ(status.code(), K3RT_OUT_OF_MEMORY);
  EXPECT_NE(status.message().find(std::to_string(fixed + 2 * full.pageBytes())),
            std::string::npos)
      << status.message();
  Planned recurrentOnly({1, 0});
  uint64_t total = recurrentOnly.plan(options(2, 100)).total();
  EXPECT_EQ(recurrentOnly.plan(options(2, 100, total)).total(), total);
  EXPECT_EQ(
      k3rt::planMemory(recurrentOnly.get(), options(2, 100, total - 1), none)
          .code(),
      K3RT_OUT_OF_MEMORY);
}

// As many as the plan says fit, with all their pages; one more does not.
TEST(MemoryPlan, CapacityIsWhatFits) {
  for (const auto &layers :
       {std::pair(69, 24), std::pair(1, 0), std::pair(0, 4)}) {
    Planned model({layers.first, layers.second});
    bool paged = layers.second != 0;
    for (uint64_t limit : {uint64_t(1) << 20, uint64_t(1) << 30,
                           uint64_t(3) << 32, uint64_t(1) << 38})
      for (uint64_t tokens : {1, 12, 1000, 1 << 17, 1 << 20}) {
        EngineOptions asked = options(7, 3, limit);
        uint64_t count = k3rt::planCapacity(model.get(), asked, tokens);
        auto holds = [&](uint64_t sequences) {
          asked.maxSequences = uint32_t(sequences);
          asked.maxContext = tokens;
          MemoryPlan plan;
          return k3rt::planMemory(model.get(), asked, plan).ok() &&
                 plan.total() <= limit &&
                 (!paged || plan.pages == sequences * ((tokens + 63) / 64));
        };
        if (count != 0) {
          EXPECT_TRUE(holds(count)) << limit << " " << tokens;
        }
        EXPECT_FALSE(holds(count + 1)) << limit << " " << tokens;
      }
    EXPECT_EQ(k3rt::planCapacity(model.get(), options(1, 1, 1 << 30),
                                 (1 << 20) + 1),
              0u);
  }
}

TEST(MemoryPlan, HugeRequestsAreRefused) {
  Planned k3({69, 24});
  MemoryPlan none;
  // 2^20 sequences of 2^20 tokens: more pages than there are numbers for.
  k3rt::Status status =
      k3rt::planMemory(k3.get(), options(1 << 20, 1 << 20), none);
  EXPECT_EQ(status.code(), K3RT_OUT_OF_MEMORY);
  EXPECT_NE(status.message().find("1048576 sequences of 1048576 tokens"),
            std::string::npos)
      << status.message();
}

} // namespace
