//===- AddSampling.cpp - tokens chosen where the logits are -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/ModelFunctions.h"
#include "lib/Transforms/Passes.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_ADDSAMPLING
#include "lib/Transforms/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {
struct AddSamplingPass : k3::impl::AddSamplingBase<AddSamplingPass> {
  using AddSamplingBase::AddSamplingBase;
  LogicalResult initialize(MLIRContext *context) override;
  void runOnOperation() override;
};
} // namespace

LogicalResult AddSamplingPass::initialize(MLIRContext *context) {
  if (banSets >= 1)
    return success();
  return emitError(UnknownLoc::get(context)) << "expected at least 1 set of banned tokens, got " << banSets.getValue();
}

/// The returned value that is written over the argument with the output `logits`.
static Value findLogits(func::FuncOp function) {
  for (Value result : function.getBody().front().getTerminator()->getOperands()) {
    Value written = result;
    while (auto op = written.getDefiningOp<DestinationStyleOpInterface>())
      written = op.getTiedOpOperand(cast<OpResult>(written))->get();
    auto argument = dyn_cast<BlockArgument>(written);
    if (!argument)
      continue;
    auto output = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kOutputAttr);
    if (output && output.getValue() == "logits")
      return result;
  }
  return {};
}

void AddSamplingPass::runOnOperation() {
  func::FuncOp function = getOperation();
  if (function.isExternal())
    return;
  Value logits = findLogits(function);
  if (!logits)
    return;
  auto type = cast<RankedTensorType>(logits.getType());
  Operation *terminator = function.getBody().front().getTerminator();
  OpBuilder b(terminator);
  auto locOf = [&](StringRef name) { return NameLoc::get(b.getStringAttr(name), terminator->getLoc()); };
  auto addArgument = [&](unsigned position, ArrayRef<int64_t> shape, StringRef role, StringRef name,
                         ArrayRef<StringRef> dims) -> Value {
    SmallVector<NamedAttribute> attrs = {b.getNamedAttr(role, b.getStringAttr(name))};
    if (!dims.empty())
      attrs.push_back(b.getNamedAttr(kDimsAttr, b.getStrArrayAttr(dims)));
    // Cannot fail: a function type takes any argument.
    (void)function.insertArgument(position, RankedTensorType::get(shape, b.getI32Type()), b.getDictionaryAttr(attrs),
                                  locOf(name));
    return function.getArgument(position);
  };
  Value parameters = getOrAddStepInput(function, "sampling");
  int64_t words = llvm::divideCeil(type.getDimSize(1), 32);
  Value banned = addArgument(cast<BlockArgument>(parameters).getArgNumber() + 1, {banSets, words}, kInputAttr, "banned", {});
  Value ids = addArgument(function.getNumArguments(), {type.getDimSize(0)}, kOutputAttr, "ids", {"R"});
  auto sample = SampleOp::create(b, locOf("sample"), ids.getType(), logits, parameters, banned, ids, KernelConfigAttr());
  terminator->insertOperands(terminator->getNumOperands(), sample.getResults());
  function.setFunctionType(b.getFunctionType(function.getArgumentTypes(), terminator->getOperandTypes()));
}
