//===- StageInterpreter.h - runs structured IR on the fp64 reference ------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What the functions of a model mean between structured and chunk: every structured op is the function of lib/Reference
// that its description names, in fp64, with value semantics. So a pass that changes what a model computes shows as a
// difference far above rounding, whatever code generation does later.
//
//===----------------------------------------------------------------------===//
#ifndef K3_TEST_UNIT_PIPELINES_STAGEINTERPRETER_H
#define K3_TEST_UNIT_PIPELINES_STAGEINTERPRETER_H

#include "dialects/k3/IR/K3Ops.h"
#include "frontend/TensorPlan.h"
#include "lib/Reference/Safetensors.h"
#include "lib/Reference/View.h"
#include "lib/Transforms/Stage.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mlir::k3::test {

using ::k3::ref::Index;
using ::k3::ref::Vec;

/// A tensor of floats, i32 or bytes, or an index. Elements are shared and never changed.
struct Array {
  std::vector<int64_t> shape;
  std::shared_ptr<const Vec> floats;
  std::shared_ptr<const std::vector<int32_t>> ints;
  std::shared_ptr<const std::vector<uint8_t>> bytes;
  int64_t index = 0;
};

/// The sequences of one step. Sequence n has slot slots[n] and the pages from slots[n] * pagesPerSequence on.
struct Batch {
  std::vector<int32_t> tokens;
  std::vector<int32_t> cu;      ///< [N+1]
  std::vector<int32_t> slots;   ///< [N]
  std::vector<int32_t> lengths; ///< [N] tokens before this step
};

class StageModel {
public:
  /// Imports a model directory and runs the stages up to and including `stage`. Null with `error` set on failure.
  static std::unique_ptr<StageModel> load(MLIRContext &context, const std::string &directory, Stage stage,
                                          std::string &error);

  /// Logits of all rows, [T, vocab]. States are those of earlier steps, zero before the first.
  Vec step(Phase phase, const Batch &batch);

  /// The pool of a layer: [slots, ...] or [pages, ...]; null before the first step or if the layer has none.
  const Array *getState(int64_t layer, const std::string &name) const;

  ModuleOp getModule() { return *module; }
  const ::k3::frontend::ModelConfig &getConfig() const { return config; }

  static constexpr int64_t slots = 3, pagesPerSequence = 2, chunkRows = 16;

private:
  explicit StageModel(::k3::frontend::ModelConfig config) : config(std::move(config)), plan(this->config) {}

  std::vector<Array> call(StringRef function, int64_t layer, Array &stream, const Batch &batch);
  Array getWeight(StringRef key, int64_t layer);
  Array getInput(StringRef name, const Batch &batch);

  ::k3::frontend::ModelConfig config;
  ::k3::frontend::TensorPlan plan;
  ::k3::ref::Tensors tensors;
  OwningOpRef<ModuleOp> module;
  std::map<std::pair<int64_t, std::string>, Array> states, weights;
};

} // namespace mlir::k3::test

#endif // K3_TEST_UNIT_PIPELINES_STAGEINTERPRETER_H
