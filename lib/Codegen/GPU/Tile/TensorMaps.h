//===- TensorMaps.h - matrices that tensor copies read and write -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_TILE_TENSORMAPS_H
#define K3_CODEGEN_GPU_TILE_TENSORMAPS_H

#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/Tile/GpuBuilder.h"

namespace mlir::k3 {

/// The tensor map of boxes of a matrix, an operand (on tensors) of a kernel's root: an argument [rows, columns], or one
/// [rows, a, b] whose last two dimensions are collapsed. Nothing for other views, and for rows that do not start at
/// multiples of 16 bytes.
std::optional<TensorMapSpec> mapMatrix(Value matrix, int64_t boxRows, int64_t boxColumns, int64_t swizzle);

/// The same matrix when the kernel is emitted; `index`: of the map in the config.
class MatrixMap {
public:
  MatrixMap(const GpuBuilder &g, unsigned index);
  /// A box from (row, column) on (i32; the column a multiple of the box's) to shared memory, completing `bar`. By one
  /// thread.
  void load(Value to, Value row, Value column, Value bar) const;
  /// The reverse; see `storeBox`.
  void store(Value from, Value row, Value column) const;

private:
  /// As tensor copies take them.
  SmallVector<Value> place(Value row, Value column) const;
  const GpuBuilder &g;
  Value map;
  /// Of three dimensions: the size of the last one.
  int64_t innerSize = 0;
};

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_TILE_TENSORMAPS_H
