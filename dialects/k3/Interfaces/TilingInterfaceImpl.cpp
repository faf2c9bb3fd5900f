//===- TilingInterfaceImpl.cpp - tiling of the structured ops from their shape tables -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/Interfaces/Interfaces.h"
#include "dialects/k3/Interfaces/StructuredOpList.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"
#include "mlir/Interfaces/TilingInterface.h"

using namespace mlir;
using namespace mlir::k3;

/// Offsets and sizes of the slice of operand `number` that a tile of the loops needs.
static void getSlice(OpBuilder &b, Operation *op, unsigned number, ArrayRef<OpFoldResult> tileOffsets,
                     ArrayRef<OpFoldResult> tileSizes, SmallVectorImpl<OpFoldResult> &offsets,
                     SmallVectorImpl<OpFoldResult> &sizes) {
  SmallVector<StringRef> loops = getLoopNames(op);
  Value value = op->getOperand(number);
  for (auto [dim, name] : llvm::enumerate(getDimNames(op, number))) {
    const auto *loop = llvm::find(loops, name.name);
    if (loop == loops.end()) {
      offsets.push_back(b.getIndexAttr(0));
      sizes.push_back(tensor::getMixedSize(b, op->getLoc(), value, dim));
    } else {
      offsets.push_back(tileOffsets[loop - loops.begin()]);
      sizes.push_back(tileSizes[loop - loops.begin()]);
    }
  }
}

namespace {
template <typename OpTy> struct StructuredTiling : public TilingInterface::ExternalModel<StructuredTiling<OpTy>, OpTy> {
  SmallVector<utils::IteratorType> getLoopIteratorTypes(Operation *op) const {
    return SmallVector<utils::IteratorType>(getLoopNames(op).size(), utils::IteratorType::parallel);
  }

  SmallVector<Range> getIterationDomain(Operation *op, OpBuilder &b) const {
    SmallVector<Range> domain;
    for (StringRef loop : getLoopNames(op))
      domain.push_back({b.getIndexAttr(0), getNamedDim(b, op, loop), b.getIndexAttr(1)});
    return domain;
  }

  FailureOr<TilingResult> getTiledImplementation(Operation *op, OpBuilder &b, ArrayRef<OpFoldResult> offsets,
                                                 ArrayRef<OpFoldResult> sizes) const {
    SmallVector<Value> operands;
    SmallVector<Operation *> slices;
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isa<RankedTensorType>(operand.get().getType())) {
        operands.push_back(operand.get());
        continue;
      }
      SmallVector<OpFoldResult> sliceOffsets, sliceSizes;
      getSlice(b, op, operand.getOperandNumber(), offsets, sizes, sliceOffsets, sliceSizes);
      SmallVector<OpFoldResult> strides(sliceOffsets.size(), b.getIndexAttr(1));
      auto slice = tensor::ExtractSliceOp::create(b, op->getLoc(), operand.get(), sliceOffsets, sliceSizes, strides);
      operands.push_back(slice);
      slices.push_back(slice);
    }
    SmallVector<Type> types;
    for (OpOperand &init : cast<DestinationStyleOpInterface>(op).getDpsInitsMutable())
      types.push_back(operands[init.getOperandNumber()].getType());
    Operation *tiled = mlir::clone(b, op, types, operands);
    return TilingResult{{tiled}, SmallVector<Value>(tiled->getResults()), slices};
  }

  LogicalResult getResultTilePosition(Operation *op, OpBuilder &b, unsigned resultNumber,
                                      ArrayRef<OpFoldResult> offsets, ArrayRef<OpFoldResult> sizes,
                                      SmallVector<OpFoldResult> &resultOffsets,
                                      SmallVector<OpFoldResult> &resultSizes) const {
    unsigned number = cast<DestinationStyleOpInterface>(op).getDpsInitOperand(resultNumber)->getOperandNumber();
    getSlice(b, op, number, offsets, sizes, resultOffsets, resultSizes);
    return success();
  }

  /// A tile of the result is a tile of the loops where every result dimension is a loop; then producers can be fused.
  FailureOr<TilingResult> generateResultTileValue(Operation *op, OpBuilder &b, unsigned resultNumber,
                                                  ArrayRef<OpFoldResult> offsets, ArrayRef<OpFoldResult> sizes) const {
    SmallVector<OpFoldResult> loopOffsets, loopSizes;
    if (failed(getIterationDomainTileFromResultTile(op, b, resultNumber, offsets, sizes, loopOffsets, loopSizes)))
      return failure();
    return getTiledImplementation(op, b, loopOffsets, loopSizes);
  }

  LogicalResult getIterationDomainTileFromResultTile(Operation *op, OpBuilder &b, unsigned resultNumber,
                                                     ArrayRef<OpFoldResult> offsets, ArrayRef<OpFoldResult> sizes,
                                                     SmallVectorImpl<OpFoldResult> &loopOffsets,
                                                     SmallVectorImpl<OpFoldResult> &loopSizes) const {
    unsigned number = cast<DestinationStyleOpInterface>(op).getDpsInitOperand(resultNumber)->getOperandNumber();
    SmallVector<DimName> names = getDimNames(op, number);
    for (StringRef loop : getLoopNames(op)) {
      const auto *it = llvm::find_if(names, [&](const DimName &name) { return name.name == loop; });
      if (it == names.end()) {
        loopOffsets.push_back(b.getIndexAttr(0));
        loopSizes.push_back(getNamedDim(b, op, loop));
      } else {
        loopOffsets.push_back(offsets[it - names.begin()]);
        loopSizes.push_back(sizes[it - names.begin()]);
      }
    }
    return success();
  }
};
} // namespace

void k3::registerTilingInterfaceExternalModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, K3Dialect *) {
    forEachStructuredOp([&]<typename OpTy>() { OpTy::template attachInterface<StructuredTiling<OpTy>>(*context); });
  });
}
