//===- TensorMaps.cpp - matrices that tensor copies read and write -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Tile/TensorMaps.h"
#include "lib/Codegen/GPU/Tile/Atoms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::k3;

std::optional<TensorMapSpec> k3::mapMatrix(Value matrix, int64_t boxRows, int64_t boxColumns, int64_t swizzle) {
  auto collapse = matrix.getDefiningOp<tensor::CollapseShapeOp>();
  auto argument = dyn_cast<BlockArgument>(collapse ? collapse.getSrc() : matrix);
  if (!argument || !isa<func::FuncOp>(argument.getOwner()->getParentOp()))
    return std::nullopt;
  auto type = cast<RankedTensorType>(argument.getType());
  int64_t columns = cast<RankedTensorType>(matrix.getType()).getDimSize(1), inner = type.getShape().back();
  if (ShapedType::isDynamic(columns) || ShapedType::isDynamic(inner) || type.getRank() != (collapse ? 3 : 2))
    return std::nullopt;
  if (collapse && (collapse.getReassociationIndices().front().size() != 1 || inner % boxColumns != 0))
    return std::nullopt;
  constexpr int64_t rowAlignment = 16;
  if (inner * type.getElementTypeBitWidth() / 8 % rowAlignment != 0)
    return std::nullopt;
  TensorMapSpec spec;
  spec.binding = llvm::count_if(argument.getOwner()->getArguments().take_front(argument.getArgNumber()),
                                [](BlockArgument before) { return isa<RankedTensorType>(before.getType()); });
  spec.box = {boxRows};
  if (collapse)
    spec.box.push_back(1);
  spec.box.push_back(boxColumns);
  spec.swizzle = swizzle;
  return spec;
}

MatrixMap::MatrixMap(const GpuBuilder &g, unsigned index) : g(g), map(g.tensorMap(index)) {
  TensorMapAttr spec = g.config.getTensorMaps()[index];
  if (spec.getBox().size() < 3)
    return;
  int64_t binding = spec.getBinding();
  for (BlockArgument argument : g.kernel().getArguments())
    if (auto type = dyn_cast<MemRefType>(argument.getType()); type && binding-- == 0)
      innerSize = type.getShape().back();
}

SmallVector<Value> MatrixMap::place(Value row, Value column) const {
  if (innerSize == 0)
    return {column, row};
  return {g.rem(column, innerSize), g.div(column, innerSize), row};
}

void MatrixMap::load(Value to, Value row, Value column, Value bar) const {
  loadBox(g, to, map, place(row, column), bar);
}

void MatrixMap::store(Value from, Value row, Value column) const { storeBox(g, map, place(row, column), from); }
