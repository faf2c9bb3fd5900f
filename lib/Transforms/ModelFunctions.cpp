//===- ModelFunctions.cpp - queries and edits of a model's functions -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/ModelFunctions.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::k3;
using llvm::StringLiteral;

std::optional<Phase> k3::getPhase(func::FuncOp function) {
  if (auto phase = function->getAttrOfType<PhaseAttr>(kPhaseAttr))
    return phase.getValue();
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Inputs of a step
//===----------------------------------------------------------------------===//

namespace {
struct StepInput {
  StringLiteral name;
  SmallVector<StringRef, 2> dims;
  int64_t columns = 0; ///< static second dimension, 0 if there is none
};
} // namespace

static constexpr StringLiteral inputNames[] = {"tokens",     "cu",     "slots",    "lengths",
                                               "page_table", "chunks", "chunk_cu", "logit_rows"};

static StepInput getStepInput(StringRef name) {
  if (name == "tokens")
    return {"tokens", {"T"}};
  if (name == "cu")
    return {"cu", {"N+1"}};
  if (name == "slots")
    return {"slots", {"N"}};
  if (name == "lengths")
    return {"lengths", {"N"}};
  if (name == "page_table")
    return {"page_table", {"N", "M"}};
  if (name == "chunks")
    return {"chunks", {"C"}, 2};
  if (name == "chunk_cu")
    return {"chunk_cu", {"N+1"}};
  if (name == "sampling")
    return {"sampling", {"R"}, 8};
  assert(name == "logit_rows" && "not an input of a step");
  return {"logit_rows", {"R"}};
}

ArrayRef<StringLiteral> k3::getStepInputNames() { return inputNames; }

RankedTensorType k3::getStepInputType(MLIRContext *context, StringRef name) {
  StepInput input = getStepInput(name);
  SmallVector<int64_t> shape(input.dims.size(), ShapedType::kDynamic);
  if (input.columns)
    shape.push_back(input.columns);
  return RankedTensorType::get(shape, IntegerType::get(context, 32));
}

DictionaryAttr k3::getStepInputAttrs(MLIRContext *context, StringRef name) {
  Builder b(context);
  return b.getDictionaryAttr({b.getNamedAttr(kInputAttr, b.getStringAttr(name)),
                              b.getNamedAttr(kDimsAttr, b.getStrArrayAttr(getStepInput(name).dims))});
}

Value k3::getOrAddStepInput(func::FuncOp function, StringRef name) {
  unsigned position = function.getNumArguments();
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i) {
    auto input = function.getArgAttrOfType<StringAttr>(i, kInputAttr);
    if (!input)
      continue;
    if (input.getValue() == name)
      return function.getArgument(i);
    position = i + 1;
  }
  MLIRContext *context = function.getContext();
  // Cannot fail: a function type takes any argument.
  (void)function.insertArgument(position, getStepInputType(context, name), getStepInputAttrs(context, name),
                                NameLoc::get(StringAttr::get(context, name)));
  return function.getArgument(position);
}

//===----------------------------------------------------------------------===//
// State pools
//===----------------------------------------------------------------------===//

RankedTensorType k3::getPoolType(Type stateType) {
  constexpr int64_t any = ShapedType::kDynamic;
  if (auto kda = dyn_cast<KdaStateType>(stateType)) {
    int64_t outer = kda.getValue(), inner = kda.getKey();
    if (kda.getRow() == StateRow::key)
      std::swap(outer, inner);
    return RankedTensorType::get({any, kda.getHeads(), outer, inner}, kda.getElementType());
  }
  if (auto conv = dyn_cast<ConvStateType>(stateType))
    return RankedTensorType::get({any, conv.getTaps(), conv.getChannels()}, conv.getElementType());
  if (auto cache = dyn_cast<KvCacheType>(stateType))
    return RankedTensorType::get({any, cache.getPage(), cache.getLatent() + cache.getRope()}, cache.getElementType());
  return {};
}

StringRef k3::getPoolDim(Type stateType) { return isa<KvCacheType>(stateType) ? "P" : "S"; }

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

OpFoldResult k3::getRows(OpBuilder &builder, Location loc, Value x) {
  auto type = cast<RankedTensorType>(x.getType());
  if (!type.isDynamicDim(0))
    return builder.getIndexAttr(type.getDimSize(0));
  while (auto op = x.getDefiningOp<DestinationStyleOpInterface>())
    x = op.getTiedOpOperand(cast<OpResult>(x))->get();
  if (auto empty = x.getDefiningOp<tensor::EmptyOp>())
    return empty.getMixedSizes().front();
  return tensor::DimOp::create(builder, loc, x, 0).getResult();
}

Value k3::createEmpty(OpBuilder &builder, Location loc, ArrayRef<OpFoldResult> sizes, Type elementType) {
  return tensor::EmptyOp::create(builder, loc, sizes, elementType);
}

void k3::eraseDeadOps(func::FuncOp function) {
  for (Block &block : function.getBody())
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
}
