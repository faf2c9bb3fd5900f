//===- LibraryProduct.cpp - kernels that a library can stand in for -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/Program/LibraryProduct.h"
#include "dialects/k3/IR/K3Ops.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlir::k3;

/// The argument that a tensor is all of, in whatever shape.
static BlockArgument getWholeArgument(Value tensor) {
  if (auto collapse = tensor.getDefiningOp<tensor::CollapseShapeOp>())
    tensor = collapse.getSrc();
  return dyn_cast<BlockArgument>(tensor);
}

static int64_t getBinding(BlockArgument argument) {
  return llvm::count_if(argument.getOwner()->getArguments().take_front(argument.getArgNumber()),
                        [](BlockArgument before) { return isa<RankedTensorType>(before.getType()); });
}

/// Among a kernel's scalars: sizes of all tensors come first.
static int64_t getScalar(BlockArgument index) {
  int64_t position = 0;
  for (BlockArgument argument : index.getOwner()->getArguments()) {
    if (auto type = dyn_cast<RankedTensorType>(argument.getType()))
      position += type.getNumDynamicDims();
    else if (argument.getArgNumber() < index.getArgNumber())
      ++position;
  }
  return position;
}

namespace {
struct Destination {
  BlockArgument argument;
  int64_t slot = -1; ///< scalar with the number of the matrix
};
} // namespace

/// One of the matrices of an argument, or all of it.
static std::optional<Destination> getDestination(Value out) {
  auto slice = out.getDefiningOp<tensor::ExtractSliceOp>();
  if (!slice) {
    BlockArgument whole = getWholeArgument(out);
    return whole ? std::optional(Destination{whole}) : std::nullopt;
  }
  auto argument = dyn_cast<BlockArgument>(slice.getSource());
  RankedTensorType type = slice.getSourceType();
  if (!argument || type.getRank() != 3)
    return std::nullopt;
  // Rows are all there are: they follow from the step's size, as those of the product do.
  ArrayRef<int64_t> offsets = slice.getStaticOffsets(), sizes = slice.getStaticSizes();
  bool isMatrix = sizes[0] == 1 && offsets[1] == 0 && offsets[2] == 0 && sizes[2] == type.getDimSize(2) &&
                  ShapedType::isDynamic(sizes[1]) && type.isDynamicDim(1) &&
                  llvm::all_of(slice.getStaticStrides(), [](int64_t stride) { return stride == 1; });
  if (!isMatrix)
    return std::nullopt;
  if (offsets[0] == 0)
    return Destination{argument};
  if (!ShapedType::isDynamic(offsets[0]))
    return std::nullopt;
  auto slot = dyn_cast<BlockArgument>(slice.getOffsets().front());
  return slot ? std::optional(Destination{argument, getScalar(slot)}) : std::nullopt;
}

DenseI64ArrayAttr k3::getLibraryProduct(func::FuncOp kernel) {
  LinearOp product;
  kernel.walk([&](LinearOp op) { product = op; });
  if (!product || !getElementTypeOrSelf(product.getX().getType()).isBF16() ||
      !getElementTypeOrSelf(product.getWeight().getType()).isBF16())
    return {};
  BlockArgument x = getWholeArgument(product.getX());
  auto weight = dyn_cast<BlockArgument>(product.getWeight());
  std::optional<Destination> out = getDestination(product.getOut());
  if (!x || !weight || !out)
    return {};
  return DenseI64ArrayAttr::get(kernel.getContext(), {getBinding(x), getBinding(weight), getBinding(out->argument),
                                                      product.getAccumulate(), out->slot});
}
