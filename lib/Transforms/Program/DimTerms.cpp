//===- DimTerms.cpp - sizes of a function's values as terms -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/Program/DimTerms.h"
#include "dialects/k3/IR/ModelAttrs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::k3;

LogicalResult DimTerms::setFromAttributes(func::FuncOp function) {
  for (auto [index, argument] : llvm::enumerate(function.getArguments())) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    auto names = function.getArgAttrOfType<ArrayAttr>(index, kDimsAttr);
    if (!type || (!names && type.hasStaticShape()))
      continue;
    if (!names || static_cast<int64_t>(names.size()) != static_cast<int64_t>(type.getNumDynamicDims()))
      return function.emitError() << "expected argument #" << index << " to name its " << type.getNumDynamicDims()
                                  << " dynamic dimensions in " << kDimsAttr << ", got " << (names ? names.size() : 0);
    SmallVector<TermAttr> dims;
    unsigned next = 0;
    for (int64_t size : type.getShape()) {
      if (!ShapedType::isDynamic(size)) {
        dims.push_back(constant(size));
        continue;
      }
      auto name = dyn_cast<StringAttr>(names[next++]);
      TermAttr term = name ? TermAttr::getDim(context, name) : TermAttr();
      if (!term)
        return function.emitError() << "expected " << kDimsAttr << " of argument #" << index
                                    << " to be names like \"T\" or \"N+1\", got " << names[next - 1];
      dims.push_back(term);
    }
    set(argument, dims);
  }
  return success();
}

TermAttr DimTerms::getFolded(OpFoldResult size) {
  if (std::optional<int64_t> value = getConstantIntValue(size))
    return constant(*value);
  return getIndex(cast<Value>(size));
}

/// The operand that destination `resultNumber` of a call is passed as: the last tensors are the destinations.
static Value getCallDestination(func::CallOp call, unsigned resultNumber) {
  return call.getOperand(call.getNumOperands() - call.getNumResults() + resultNumber);
}

TermAttr DimTerms::getDim(Value tensor, int64_t dim) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!type.isDynamicDim(dim))
    return constant(type.getDimSize(dim));
  if (auto it = known.find(tensor); it != known.end())
    return it->second[dim];
  Operation *op = tensor.getDefiningOp();
  if (!op)
    return {};
  unsigned resultNumber = cast<OpResult>(tensor).getResultNumber();
  return TypeSwitch<Operation *, TermAttr>(op)
      .Case([&](tensor::EmptyOp empty) { return getFolded(empty.getMixedSizes()[dim]); })
      .Case([&](tensor::ExpandShapeOp expand) { return getFolded(expand.getMixedOutputShape()[dim]); })
      .Case([&](tensor::CollapseShapeOp collapse) {
        TermAttr size = constant(1);
        for (int64_t source : collapse.getReassociationIndices()[dim]) {
          TermAttr factor = getDim(collapse.getSrc(), source);
          size = size && factor ? TermAttr::multiply(size, factor) : TermAttr();
        }
        return size;
      })
      .Case([&](tensor::ExtractSliceOp slice) {
        llvm::SmallBitVector dropped = slice.getDroppedDims();
        SmallVector<OpFoldResult> sizes;
        for (auto [index, size] : llvm::enumerate(slice.getMixedSizes()))
          if (!dropped.test(index))
            sizes.push_back(size);
        return getFolded(sizes[dim]);
      })
      .Case([&](tensor::InsertSliceOp insert) { return getDim(insert.getDest(), dim); })
      .Case([&](tensor::CastOp cast) { return getDim(cast.getSource(), dim); })
      .Case([&](DestinationStyleOpInterface dps) { return getDim(dps.getDpsInitOperand(resultNumber)->get(), dim); })
      .Case([&](func::CallOp call) { return getDim(getCallDestination(call, resultNumber), dim); })
      .Default([](Operation *) { return TermAttr(); });
}

TermAttr DimTerms::getIndex(Value index) {
  if (std::optional<int64_t> value = getConstantIntValue(index))
    return constant(*value);
  Operation *op = index.getDefiningOp();
  if (!op)
    return {};
  auto binary = [&](TermAttr (*combine)(TermAttr, TermAttr)) {
    TermAttr lhs = getIndex(op->getOperand(0)), rhs = getIndex(op->getOperand(1));
    return lhs && rhs ? combine(lhs, rhs) : TermAttr();
  };
  auto divide = [&](TermAttr (*combine)(TermAttr, int64_t)) {
    TermAttr lhs = getIndex(op->getOperand(0));
    std::optional<int64_t> rhs = getConstantIntValue(op->getOperand(1));
    return lhs && rhs ? combine(lhs, *rhs) : TermAttr();
  };
  if (auto dim = dyn_cast<tensor::DimOp>(op)) {
    std::optional<int64_t> position = dim.getConstantIndex();
    return position && isa<RankedTensorType>(dim.getSource().getType()) ? getDim(dim.getSource(), *position)
                                                                        : TermAttr();
  }
  if (isa<arith::MulIOp>(op))
    return binary(TermAttr::multiply);
  if (isa<arith::AddIOp>(op))
    return binary(TermAttr::sum);
  if (isa<arith::CeilDivSIOp, arith::CeilDivUIOp>(op))
    return divide(TermAttr::ceilDiv);
  if (isa<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp>(op))
    return divide(TermAttr::exactDiv);
  return {};
}
