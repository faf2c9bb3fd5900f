//===- CostTest.cpp - bytes and products of a step, by hand --------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-bench/Cost.h"
#include "frontend/ModelConfig.h"
#include "frontend/TensorPlan.h"

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <sstream>

using namespace k3::artifact;
using namespace k3bench;
using k3::frontend::Dtype;
using k3::frontend::TensorTemplate;

namespace {

std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

//===----------------------------------------------------------------------===//
// An index with the weights and states of models/k3-nano, states in f32
//===----------------------------------------------------------------------===//

class NanoIndex {
public:
  NanoIndex() {
    std::string path = K3_SOURCE_DIR "/models/k3-nano/config.json";
    auto config = k3::frontend::readModelConfig(path);
    EXPECT_TRUE(bool(config)) << config.status().message();
    if (!config)
      return;
    k3::frontend::TensorPlan plan(*config);
    index.model = std::make_unique<ModelInfoT>();
    index.model->config_json = readFile(path);
    auto program = std::make_unique<ProgramT>();
    program->phase = Phase::Decode;
    program->prologue.push_back(groupOf({addWeight(*plan.find("embed_tokens.weight"))}, BindingKind::Weight, 0));
    std::vector<uint32_t> head;
    for (const TensorTemplate &entry : plan.templates())
      if (!entry.isPerLayer() && entry.key != "embed_tokens.weight")
        head.push_back(addWeight(entry));
    for (size_t i = 0; i < config->layers.size(); ++i)
      addLayer(plan, config->layers[i], int64_t(i), *program);
    program->epilogue.push_back(groupOf(head, BindingKind::Weight, 0));
    index.programs.push_back(std::move(program));
  }

  const Artifact &packed() {
    builder.Clear();
    builder.Finish(Artifact::Pack(builder, &index));
    return *flatbuffers::GetRoot<Artifact>(builder.GetBufferPointer());
  }

  ArtifactT index;

private:
  uint32_t addWeight(const TensorTemplate &entry) {
    auto weight = std::make_unique<WeightT>();
    weight->name = entry.nameTemplate;
    const auto &form = entry.forms.front();
    weight->dtype = form.dtype == Dtype::F32 ? DType::F32 : form.dtype == Dtype::BF16 ? DType::BF16 : DType::U8;
    weight->shape = form.shape;
    weight->is_expert_group = entry.isPerExpert();
    if (entry.isPerExpert())
      weight->shape.insert(weight->shape.begin(), entry.numExperts);
    index.weights.push_back(std::move(weight));
    return uint32_t(index.weights.size() - 1);
  }

  static void bind(DispatchT &dispatch, BindingKind kind, uint32_t position, bool writes = false) {
    auto binding = std::make_unique<BindingT>();
    binding->kind = kind;
    binding->index = position;
    binding->writes = writes;
    dispatch.bindings.push_back(std::move(binding));
  }

  /// One dispatch that binds all weights and updates `states` states of the layer.
  static std::unique_ptr<GroupT> groupOf(const std::vector<uint32_t> &weights, BindingKind kind, uint32_t states) {
    auto dispatch = std::make_unique<DispatchT>();
    for (size_t i = 0; i < weights.size(); ++i)
      bind(*dispatch, kind, kind == BindingKind::Weight ? weights[i] : uint32_t(i));
    for (uint32_t i = 0; i < states; ++i)
      bind(*dispatch, BindingKind::LayerState, i, true);
    auto group = std::make_unique<GroupT>();
    group->dispatches.push_back(std::move(dispatch));
    return group;
  }

  void addState(LayerT &layer, uint32_t number, StateKind kind, std::vector<int64_t> shape, uint32_t page = 0) {
    auto state = std::make_unique<StateT>();
    state->layer = number;
    state->kind = kind;
    state->shape = std::move(shape);
    state->page_tokens = page;
    layer.states.push_back(uint32_t(index.states.size()));
    index.states.push_back(std::move(state));
  }

  void addLayer(const k3::frontend::TensorPlan &plan, const k3::frontend::LayerKind &form, int64_t number,
                ProgramT &program) {
    auto layer = std::make_unique<LayerT>();
    for (const TensorTemplate &entry : plan.templates())
      if (entry.isPerLayer() && entry.hasLayer(number))
        layer->weights.push_back(addWeight(entry));
    if (form.isKda) {
      addState(*layer, uint32_t(number), StateKind::Kda, {4, 64, 64});
      for (int window = 0; window < 3; ++window)
        addState(*layer, uint32_t(number), StateKind::Conv, {3, 256});
    } else {
      addState(*layer, uint32_t(number), StateKind::KvCache, {64, 128}, 64);
    }
    std::string name = std::string(form.isKda ? "kda" : "mla") + (form.isMoe ? "_moe" : "_dense");
    auto [found, isNew] = kinds.try_emplace(name, uint32_t(kinds.size()));
    layer->kind = found->second;
    if (isNew) {
      auto kind = std::make_unique<LayerKindT>();
      kind->name = name;
      kind->groups.push_back(groupOf(layer->weights, BindingKind::LayerWeight, uint32_t(layer->states.size())));
      if (!form.isKda) {
        // The cache is read, too, and some weights are used twice.
        auto group = groupOf(layer->weights, BindingKind::LayerWeight, 0);
        bind(*group->dispatches[0], BindingKind::LayerState, 0);
        kind->groups.push_back(std::move(group));
      }
      program.layer_kinds.push_back(std::move(kind));
    }
    index.layers.push_back(std::move(layer));
  }

  std::map<std::string, uint32_t> kinds;
  flatbuffers::FlatBufferBuilder builder;
};

//===----------------------------------------------------------------------===//
// By hand, from the tensors as models/k3-nano stores them
//===----------------------------------------------------------------------===//

constexpr double bf16 = 2, f32 = 4;
constexpr double hidden = 320, width = 256, dim = 64, heads = 4;

// Weights a row is multiplied with, then bytes: matrices, short convolutions, vectors.
constexpr double kdaMatrices = 5 * width * hidden + dim * hidden + width * dim + heads * hidden;
constexpr double kdaConv = 3 * width * 4;
constexpr double kdaBytes = bf16 * kdaMatrices + f32 * (kdaConv + 64 + width + dim);
constexpr double mlaMatrices = 96 * hidden + 384 * 96 + 128 * hidden + 512 * 96 + 2 * width * hidden;
constexpr double mlaBytes = bf16 * (mlaMatrices + 2 * 96);
constexpr double denseMatrices = 3 * 640 * hidden;
constexpr double moeMatrices = 24 * hidden + 2 * 160 * hidden + 3 * 192 * hidden;
constexpr double moeBytes = bf16 * (moeMatrices + 160) + f32 * 24;
constexpr double expertMatrices = 3 * 96 * 160;
constexpr double expertBytes = expertMatrices / 2 + expertMatrices / 32; // MXFP4
// Four norms and two projections to one value per layer.
constexpr double everyLayer = 6 * hidden * bf16;
constexpr double headBytes = bf16 * (4352 * hidden + 3 * hidden);
// Six kda layers, the first dense, three mla layers; 4 of 24 experts.
constexpr double weightBytes =
    6 * kdaBytes + 3 * mlaBytes + bf16 * denseMatrices + 8 * (moeBytes + 4 * expertBytes) + 9 * everyLayer + headBytes;
// Per sequence: read and written.
constexpr double slotBytes = 6 * 2 * f32 * (heads * dim * dim + 3 * 3 * width);
constexpr double rowBytes = 3 * f32 * 128;

StepSize decodeOf(uint64_t sequences, uint64_t context) {
  StepSize size;
  size.sequences = size.rows = size.logitRows = sequences;
  size.context = context;
  return size;
}

class CostOfNano : public testing::Test {
protected:
  void SetUp() override {
    artifact = &nano.packed();
    k3rt::Status status = model.init(*artifact);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  const Program &program() const { return *artifact->programs()->Get(0); }

  NanoIndex nano;
  const Artifact *artifact = nullptr;
  CostModel model;
};

TEST_F(CostOfNano, DecodeOfOneSequence) {
  Cost cost = model.step(program(), decodeOf(1, 64));
  EXPECT_EQ(cost.weightBytes, weightBytes);
  EXPECT_EQ(cost.stateBytes, slotBytes + rowBytes * (64 + 1 + 1));
  // Summed up over the headers of models/k3-nano: 16933888 for the weights.
  EXPECT_EQ(cost.bytes(), 16933888 + 998400);
}

TEST_F(CostOfNano, DecodeOfManySequences) {
  Cost cost = model.step(program(), decodeOf(8, 100));
  // A token leaves an expert out with 20/24.
  double chosen = 24 * (1 - std::pow(20.0 / 24, 8));
  EXPECT_NEAR(cost.weightBytes, weightBytes + 8 * (chosen - 4) * expertBytes, 1);
  EXPECT_EQ(cost.stateBytes, 8 * (slotBytes + rowBytes * (100 + 1 + 1)));
}

TEST_F(CostOfNano, PrefillProducts) {
  StepSize size;
  size.rows = 100;
  double perRow = 6 * (kdaMatrices + kdaConv) + 3 * mlaMatrices + denseMatrices +
                  8 * (moeMatrices + 4 * expertMatrices) + 9 * 2 * hidden;
  double perLogits = 4352 * hidden + hidden;
  EXPECT_NEAR(model.step(program(), size).flops, 2 * (100 * perRow + perLogits), 1);
  // All experts are needed by then, but for one in a million.
  EXPECT_NEAR(model.step(program(), size).weightBytes, weightBytes + 8 * 20 * expertBytes, 1);
  EXPECT_NEAR(model.step(program(), size).stateBytes, slotBytes + rowBytes * 200, 1e-6);
}

TEST_F(CostOfNano, LayersOfAKind) {
  Cost kda = model.layer(program(), 1, decodeOf(1, 64));
  EXPECT_EQ(kda.weightBytes, kdaBytes + moeBytes + 4 * expertBytes + everyLayer);
  EXPECT_EQ(kda.stateBytes, slotBytes / 6);
  Cost mla = model.layer(program(), 3, decodeOf(1, 64));
  EXPECT_EQ(mla.weightBytes, mlaBytes + moeBytes + 4 * expertBytes + everyLayer);
  EXPECT_EQ(mla.stateBytes, rowBytes / 3 * 66);
}

TEST_F(CostOfNano, DispatchesOutsideLayers) {
  const Dispatch &embedding = *program().prologue()->Get(0)->dispatches()->Get(0);
  Cost rows = model.prologueDispatch(embedding, decodeOf(8, 64));
  EXPECT_EQ(rows.bytes(), 8 * hidden * bf16);
  EXPECT_EQ(rows.flops, 0);
  StepSize size;
  size.rows = 100;
  size.logitRows = 3;
  const Dispatch &head = *program().epilogue()->Get(0)->dispatches()->Get(0);
  EXPECT_EQ(model.epilogueDispatch(head, size).bytes(), headBytes);
  EXPECT_EQ(model.epilogueDispatch(head, size).flops, 3 * 2 * (4352 + 1) * hidden);
  size.logitRows = 0;
  EXPECT_EQ(model.epilogueDispatch(head, size).bytes(), 0);
}

TEST_F(CostOfNano, ConfigWithoutTheNumberOfExperts) {
  auto errorFor = [&](const std::string &config) {
    nano.index.model->config_json = config;
    return CostModel().init(nano.packed()).message();
  };
  for (const char *config : {"", "{", "[]", "{}", R"({"text_config": 3})", R"({"num_experts_per_token": "4"})",
                             R"({"num_experts_per_token": 4.5})"})
    EXPECT_EQ(errorFor(config), "config.json inside has no num_experts_per_token, but there are experts") << config;
  EXPECT_EQ(errorFor(R"({"num_experts_per_token": 0})"),
            "config.json inside: num_experts_per_token is 0, but there are 24 experts");
  EXPECT_EQ(errorFor(R"({"num_experts_per_token": 25})"),
            "config.json inside: num_experts_per_token is 25, but there are 24 experts");
  EXPECT_EQ(errorFor(R"({"num_experts_per_token": 24})"), "");
}

} // namespace
