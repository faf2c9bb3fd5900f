//===- ImportModelTest.cpp - options and stored forms of the importer -----===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/import/ImportModel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

#include <set>

using namespace mlir;
using mlir::k3::importModel;
using mlir::k3::ImportOptions;
using ::k3::frontend::Dtype;
using ::k3::frontend::ModelConfig;
using ::k3::frontend::TensorForm;
using ::k3::frontend::TensorPlan;

using Types = std::set<std::string>;

namespace {

class ImportModelTest : public ::testing::Test {
protected:
  ImportModelTest()
      : config(*::k3::frontend::readModelConfig(K3_SOURCE_DIR "/models/k3-nano/config.json")), plan(config) {}

  /// The message of the one error the options lead to.
  std::string errorOf(const ImportOptions &options) {
    std::string message;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) { message += diagnostic.str(); });
    EXPECT_FALSE(importModel(context, config, options));
    return message;
  }

  /// Types of the arguments with that `k3.weight` in all functions.
  std::set<std::string> typesOf(ModuleOp module, StringRef key) {
    std::set<std::string> types;
    for (auto function : module.getOps<func::FuncOp>())
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        if (auto weight = function.getArgAttrOfType<StringAttr>(i, "k3.weight"); weight && weight.getValue() == key) {
          std::string text;
          llvm::raw_string_ostream(text) << function.getArgument(i).getType();
          types.insert(text);
        }
    return types;
  }

  /// Stores the template of that key in the form, by position.
  std::function<const TensorForm *(uint32_t)> storedAs(std::string key, size_t form) {
    return [this, key, form](uint32_t index) -> const TensorForm * {
      const auto &entry = plan.templates()[index];
      return entry.key == key ? &entry.forms.at(form) : &entry.forms.front();
    };
  }

  MLIRContext context;
  ModelConfig config;
  TensorPlan plan;
};

TEST_F(ImportModelTest, RefusesWhatHasNoKernels) {
  ImportOptions options;
  options.activations = Dtype::BF16;
  EXPECT_EQ(errorOf(options), "expected activations of dtype F32, got BF16");
  options = {};
  options.convState = Dtype::F16;
  EXPECT_EQ(errorOf(options), "expected a conv state of dtype F32 or BF16, got F16");
  options = {};
  options.kvCache = Dtype::F8_E4M3;
  EXPECT_EQ(errorOf(options), "expected a latent cache of dtype F32 or BF16, got F8_E4M3");
  options = {};
  options.pageTokens = 0;
  EXPECT_EQ(errorOf(options), "expected a positive page size, got 0");
}

TEST_F(ImportModelTest, WeightsHaveTheirStoredForm) {
  ImportOptions options;
  std::string packed = "block_sparse_moe.experts.w1.weight_packed";
  OwningOpRef<ModuleOp> module = importModel(context, config, options);
  ASSERT_TRUE(module && succeeded(verify(*module)));
  EXPECT_EQ(typesOf(*module, packed), Types({"tensor<24x96x80xi8>"}));
  EXPECT_EQ(typesOf(*module, "self_attn.q_conv1d.weight"), Types({"tensor<256x4xf32>"}));
  EXPECT_EQ(typesOf(*module, "self_attn.A_log"), Types({"tensor<64xf32>"}));

  // A header that counts 4-bit codes describes the same bytes.
  ASSERT_EQ(plan.find(packed, 1)->forms.at(1).dtype, Dtype::F4);
  options.storedForm = storedAs(packed, 1);
  module = importModel(context, config, options);
  ASSERT_TRUE(module && succeeded(verify(*module)));
  EXPECT_EQ(typesOf(*module, packed), Types({"tensor<24x96x80xi8>"}));

  for (const auto &[form, type] : {std::pair<size_t, const char *>(2, "tensor<256x4xbf16>"), {3, "tensor<256x4xbf16>"}}) {
    options.storedForm = storedAs("self_attn.q_conv1d.weight", form);
    module = importModel(context, config, options);
    ASSERT_TRUE(module && succeeded(verify(*module)));
    EXPECT_EQ(typesOf(*module, "self_attn.q_conv1d.weight"), Types({type}));
  }

  // Not padded: one value per head.
  const auto &forms = plan.find("self_attn.A_log", 0)->forms;
  for (size_t form = 0; form < forms.size(); ++form) {
    options.storedForm = storedAs("self_attn.A_log", form);
    module = importModel(context, config, options);
    ASSERT_TRUE(module && succeeded(verify(*module)));
    std::string element = forms[form].dtype == Dtype::F32 ? "f32" : "bf16";
    bool padded = forms[form].shape == std::vector<int64_t>{64};
    EXPECT_EQ(typesOf(*module, "self_attn.A_log"), Types({(padded ? "tensor<64x" : "tensor<4x") + element + ">"}));
  }
}

TEST_F(ImportModelTest, LeavesOutOptionalWeightsOnly) {
  ImportOptions options;
  options.storedForm = [](uint32_t) -> const TensorForm * { return nullptr; };
  OwningOpRef<ModuleOp> module = importModel(context, config, options);
  ASSERT_TRUE(module && succeeded(verify(*module)));
  EXPECT_TRUE(typesOf(*module, "self_attn.A_log").empty());
  EXPECT_EQ(typesOf(*module, "self_attn.dt_bias"), Types({"tensor<256xf32>"}));
}

TEST_F(ImportModelTest, OneFunctionPerKindAndPhase) {
  OwningOpRef<ModuleOp> module = importModel(context, config);
  size_t kinds = 0;
  for (const auto &layer : config.layers) {
    std::string name = "layer_" + mlir::k3::getLayerKindName(layer);
    for (const char *phase : {"prefill_", "decode_"})
      EXPECT_TRUE(module->lookupSymbol<func::FuncOp>(phase + name)) << phase << name;
    bool isFirst = true;
    for (const auto &other : config.layers) {
      if (&other == &layer)
        break;
      isFirst &= other != layer;
    }
    kinds += isFirst;
  }
  auto functions = module->getOps<func::FuncOp>();
  EXPECT_EQ(std::distance(functions.begin(), functions.end()), static_cast<long>(2 * (kinds + 2)));
}

} // namespace
