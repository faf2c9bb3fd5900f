//===- StagesTest.cpp - every stage computes the same model ---------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Interprets the IR after structured, fuse and chunk and compares it with the whole-model reference, which knows nothing
// of the IR. Both are fp64, so whatever is above rounding is a wrong pass.
//
//===----------------------------------------------------------------------===//
#include "StageInterpreter.h"
#include "../Reference/TestSupport.h"
#include "frontend/import/ImportModel.h"
#include "lib/Pipelines/Stages.h"
#include "lib/Reference/ModelReference.h"
#include "lib/Support/Registration.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace mlir::k3;
using namespace mlir::k3::test;
using ::k3::ref::test::maxDifference;
using ::k3::ref::test::relativeDifference;
using Ints = std::vector<int32_t>;

namespace {

constexpr double tolerance = 1e-9; // relative; fp64 leaves about 1e-12

class StagesTest : public ::testing::TestWithParam<std::tuple<const char *, Stage>> {
protected:
  void SetUp() override {
    DialectRegistry registry;
    registerAllK3Dialects(registry);
    context.appendDialectRegistry(registry);
    std::string directory = std::string(K3_SOURCE_DIR) + "/models/" + std::get<0>(GetParam()), error;
    ASSERT_EQ(::k3::ref::readCheckpoint(directory, reference), "");
    model = StageModel::load(context, directory, std::get<1>(GetParam()), error);
    ASSERT_TRUE(model) << error;
    ::k3::ref::Tensors golden;
    ASSERT_EQ(::k3::ref::readSafetensors(
                  std::string(K3_SOURCE_DIR) + "/test/golden/" + std::get<0>(GetParam()) + ".safetensors", golden),
              "");
    prompt = golden.at("p37.input_ids").ints();
    goldenLogits = golden.at("p37.logits").floats();
  }

  /// A sequence as the reference sees it.
  struct Sequence {
    ::k3::ref::State state;
    int32_t slot;
  };
  Sequence start(int32_t slot) { return {::k3::ref::initialState(reference.config), slot}; }

  /// Runs the same tokens through both and compares logits and states.
  void expectStep(Phase phase, std::vector<std::pair<Sequence *, Ints>> work) {
    Batch batch;
    batch.cu = {0};
    Vec expected;
    for (auto &[sequence, tokens] : work) {
      batch.tokens.insert(batch.tokens.end(), tokens.begin(), tokens.end());
      batch.cu.push_back(static_cast<int32_t>(batch.tokens.size()));
      batch.slots.push_back(sequence->slot);
      batch.lengths.push_back(static_cast<int32_t>(sequence->state.length));
      if (tokens.empty())
        continue;
      Vec logits = ::k3::ref::forward(reference.config, reference.weights, tokens, sequence->state);
      expected.insert(expected.end(), logits.begin(), logits.end());
    }
    EXPECT_LT(relativeDifference(model->step(phase, batch), expected), tolerance);
    for (auto &[sequence, tokens] : work)
      expectState(*sequence);
  }

  void expectState(const Sequence &sequence) {
    for (size_t layer = 0; layer < sequence.state.layers.size(); ++layer) {
      const auto &want = sequence.state.layers[layer];
      for (auto [name, values] : {std::pair<const char *, const Vec &>("kda", want.kda), {"conv_q", want.qConv},
                                  {"conv_k", want.kConv}, {"conv_v", want.vConv}, {"kv", want.cache}}) {
        const Array *pool = model->getState(layer, name);
        if (values.empty()) // A state of the other kind of layer, or a cache without tokens.
          continue;
        ASSERT_TRUE(pool) << "layer " << layer << " " << name;
        Index perSlot = pool->floats->size() / StageModel::slots;
        auto got = ::k3::ref::View(*pool->floats).slice(sequence.slot * perSlot, values.size());
        EXPECT_LT(relativeDifference(got, values), tolerance) << "layer " << layer << " " << name;
      }
    }
  }

  Ints slice(size_t from, size_t to) const { return Ints(prompt.begin() + from, prompt.begin() + to); }

  MLIRContext context;
  ::k3::ref::Checkpoint reference;
  std::unique_ptr<StageModel> model;
  Ints prompt;
  std::vector<float> goldenLogits;
};

/// 37 rows: two whole chunks and a tail.
TEST_P(StagesTest, PrefillWhole) {
  Sequence sequence = start(1);
  expectStep(Phase::prefill, {{&sequence, prompt}});
  // Against the other implementation, too, in a slot that is still zero.
  Vec logits = model->step(Phase::prefill, {prompt, {0, static_cast<int32_t>(prompt.size())}, {0}, {0}});
  EXPECT_LT(maxDifference(logits, goldenLogits), 1e-4);
}

/// Two ragged sequences and an empty one, then more of each, then decode of two of them: slots, lengths and boundaries.
TEST_P(StagesTest, RaggedPrefillThenDecode) {
  Sequence a = start(2), b = start(0), idle = start(1);
  expectStep(Phase::prefill, {{&a, slice(0, 19)}, {&idle, {}}, {&b, slice(5, 8)}});
  expectStep(Phase::prefill, {{&b, slice(8, 25)}, {&a, slice(19, 20)}});
  expectStep(Phase::decode, {{&a, slice(20, 21)}, {&b, slice(25, 26)}});
  expectStep(Phase::decode, {{&b, slice(26, 27)}});
  expectStep(Phase::decode, {{&b, slice(27, 28)}, {&a, slice(21, 22)}});
}

/// Every way in which a checkpoint may store a tensor passes every stage and its contract.
void expectEveryStoredFormPasses(const std::string &name) {
  auto config = ::k3::frontend::readModelConfig(std::string(K3_SOURCE_DIR) + "/models/" + name + "/config.json");
  ASSERT_TRUE(config.ok()) << config.message();
  DialectRegistry registry;
  registerAllK3Dialects(registry);
  MLIRContext context(registry);
  ::k3::frontend::TensorPlan plan(*config);
  for (uint32_t index = 0; index < plan.templates().size(); ++index) {
    const auto &entry = plan.templates()[index];
    for (size_t form = 1; form < entry.forms.size(); ++form) {
      ImportOptions options;
      options.storedForm = [&](uint32_t other) { return &plan.templates()[other].forms[other == index ? form : 0]; };
      OwningOpRef<ModuleOp> module = importModel(context, *config, options);
      ASSERT_TRUE(module);
      PassManager manager(&context);
      StageOptions stageOptions;
      for (Stage stage : {Stage::Import, Stage::Model, Stage::Structured, Stage::Fuse, Stage::Chunk})
        getStageBuilder(stage)(manager, stageOptions);
      EXPECT_TRUE(succeeded(manager.run(*module))) << entry.key << " in form " << form;
    }
  }
}

TEST(StoredFormsTest, KimiK3) { expectEveryStoredFormPasses("k3-nano"); }
TEST(StoredFormsTest, KimiLinear) { expectEveryStoredFormPasses("kimi-linear-nano"); }

INSTANTIATE_TEST_SUITE_P(Models, StagesTest,
                         ::testing::Combine(::testing::Values("k3-nano", "kimi-linear-nano"),
                                            ::testing::Values(Stage::Structured, Stage::Fuse, Stage::Chunk)),
                         [](const auto &info) {
                           std::string name = std::get<0>(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name + "_" + getStageName(std::get<1>(info.param)).str();
                         });

} // namespace
