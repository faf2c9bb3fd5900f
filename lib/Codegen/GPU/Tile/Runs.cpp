//===- Runs.cpp - rows of tensors in runs of aligned elements -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Tile/Runs.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include <numeric>

using namespace mlir;
using namespace mlir::k3;

namespace {
/// Numbers that divide offset and strides of a memref, in elements; 0 divides only 0.
struct Factors {
  int64_t offset = 0;
  SmallVector<int64_t> strides;
};
} // namespace

static int64_t staticOr(int64_t size, int64_t otherwise) { return ShapedType::isDynamic(size) ? otherwise : size; }

static Factors getFactors(Value memref);

/// What only the ops that made the view know.
static Factors getFactorsOfView(Value memref) {
  auto type = cast<MemRefType>(memref.getType());
  Factors factors;
  Operation *op = memref.getDefiningOp();
  if (auto subview = dyn_cast_or_null<memref::SubViewOp>(op)) {
    Factors source = getFactors(subview.getSource());
    factors.offset = source.offset;
    llvm::SmallBitVector dropped = subview.getDroppedDims();
    for (auto [dim, offset, step] : llvm::enumerate(subview.getMixedOffsets(), subview.getMixedStrides())) {
      factors.offset =
          std::gcd(factors.offset, source.strides[dim] * getConstantIntValue(offset).value_or(1));
      if (!dropped[dim])
        factors.strides.push_back(source.strides[dim] * getConstantIntValue(step).value_or(1));
    }
    return factors;
  }
  if (auto expand = dyn_cast_or_null<memref::ExpandShapeOp>(op)) {
    Factors source = getFactors(expand.getSrc());
    factors.offset = source.offset;
    factors.strides.resize(type.getRank());
    for (auto [dim, group] : llvm::enumerate(expand.getReassociationIndices())) {
      int64_t stride = source.strides[dim];
      for (int64_t inner : llvm::reverse(group)) {
        factors.strides[inner] = stride;
        stride *= staticOr(type.getDimSize(inner), 1);
      }
    }
    return factors;
  }
  if (auto collapse = dyn_cast_or_null<memref::CollapseShapeOp>(op)) {
    Factors source = getFactors(collapse.getSrc());
    factors.offset = source.offset;
    for (ReassociationIndices &group : collapse.getReassociationIndices())
      factors.strides.push_back(source.strides[group.back()]);
    return factors;
  }
  if (auto cast = dyn_cast_or_null<memref::CastOp>(op))
    return getFactors(cast.getSource());
  if (isa<BlockArgument>(memref) && type.getLayout().isIdentity()) {
    factors.strides.resize(type.getRank());
    int64_t stride = 1;
    for (int64_t dim = type.getRank() - 1; dim >= 0; --dim) {
      factors.strides[dim] = stride;
      stride *= staticOr(type.getDimSize(dim), 1);
    }
    return factors;
  }
  factors.offset = 1;
  factors.strides.assign(type.getRank(), 1);
  return factors;
}

static Factors getFactors(Value memref) {
  Factors factors = getFactorsOfView(memref);
  auto [strides, offset] = cast<MemRefType>(memref.getType()).getStridesAndOffset();
  factors.offset = staticOr(offset, factors.offset);
  for (auto [factor, stride] : llvm::zip_equal(factors.strides, strides))
    factor = staticOr(stride, factor);
  return factors;
}

int64_t k3::getAlignedElements(Value memref) {
  Factors factors = getFactors(memref);
  if (factors.strides.empty())
    return 1;
  int64_t common = factors.offset;
  for (int64_t stride : ArrayRef(factors.strides).drop_back())
    common = std::gcd(common, stride);
  int64_t most = GpuBuilder::vectorLength(GpuBuilder::elementType(memref));
  return common == 0 ? most : getRunLength(common, most);
}

int64_t k3::getRunLength(int64_t width, int64_t most) {
  int64_t run = 1;
  while (run < most && width % (2 * run) == 0)
    run *= 2;
  return run;
}

int64_t k3::getRunLength(int64_t width, ValueRange tensors) {
  int64_t most = 4;
  for (Value tensor : tensors)
    most = std::max(most, GpuBuilder::vectorLength(getElementTypeOrSelf(tensor.getType())));
  return getRunLength(width, most);
}

SmallVector<Value> RunTensor::load(ValueRange indices) const {
  return load(g.element(memref, indices));
}

SmallVector<Value> RunTensor::load(Value pointer) const {
  SmallVector<Value> values;
  for (int64_t start = 0; start < run; start += piece)
    values.append(g.loadFloats(g.advance(pointer, start, elementType()), elementType(), piece, readOnly));
  return values;
}

void RunTensor::store(ArrayRef<Value> values, ValueRange indices) const { store(values, g.element(memref, indices)); }

void RunTensor::store(ArrayRef<Value> values, Value pointer) const {
  assert(static_cast<int64_t>(values.size()) == run);
  for (int64_t start = 0; start < run; start += piece)
    g.storeFloats(values.slice(start, piece), g.advance(pointer, start, elementType()), elementType());
}
