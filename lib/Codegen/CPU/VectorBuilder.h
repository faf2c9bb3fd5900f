//===- VectorBuilder.h - what emitters write vector code with -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_CPU_VECTORBUILDER_H
#define K3_CODEGEN_CPU_VECTORBUILDER_H

#include "lib/Codegen/CPU/MathBuilder.h"
#include "lib/Codegen/Common/TargetModel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::k3 {

/// Emits code on vectors of the target's `lanes` f32 values, on memrefs of f32 or bf16 (widened and rounded in
/// registers) and on scf loops over index values. All loads and stores take the index of their first element; the
/// innermost dimension of a memref that is loaded as vectors is contiguous.
class VectorBuilder : public MathBuilder {
public:
  VectorBuilder(OpBuilder &b, Location loc, const TargetModel &target)
      : MathBuilder(b, loc, VectorType::get({static_cast<int64_t>(target.lanes)}, b.getF32Type()), target.fma,
                    /*hasScale=*/target.avx512),
        target(target) {}

  const TargetModel &getTarget() const { return target; }
  int64_t lanes() const { return target.lanes; }
  VectorType vectorType() const { return cast<VectorType>(type); }
  /// The same elementary functions on one f32.
  MathBuilder scalar() const { return MathBuilder(b, loc, b.getF32Type(), target.fma); }

  // Index arithmetic; operations on constants fold.
  Value index(int64_t value) const;
  Value addIndex(Value x, Value y) const;
  Value subIndex(Value x, Value y) const;
  Value mulIndex(Value x, Value y) const;
  /// Unsigned division and remainder.
  Value divIndex(Value x, Value y) const;
  Value remIndex(Value x, Value y) const;
  Value minIndex(Value x, Value y) const;
  /// Size of a dimension of a memref: a constant if static.
  Value dim(Value memref, int64_t dim) const;
  /// i32 element of a memref as an index.
  Value loadIndex(Value memref, ValueRange indices) const;

  // Memory.
  Value zero() const { return constant(0.0); }
  Value load(Value memref, ValueRange indices) const;
  /// Only the first `count` lanes are read; the others are 0.
  Value loadPartial(Value memref, ValueRange indices, int64_t count) const;
  Value loadMasked(Value memref, ValueRange indices, Value mask) const;
  void store(Value vector, Value memref, ValueRange indices) const;
  void storePartial(Value vector, Value memref, ValueRange indices, int64_t count) const;
  void storeMasked(Value vector, Value memref, ValueRange indices, Value mask) const;
  /// Asks for the memory around an element, which need not be there, to be in the cache of that level (1 to 3) soon.
  void prefetch(Value memref, ValueRange indices, int64_t level = 1) const;
  /// The same for memory that will be written: takes it from the core that wrote it last.
  void prefetchForWrite(Value memref, ValueRange indices) const;
  /// `count` elements as they are stored.
  Value loadRaw(Value memref, ValueRange indices, int64_t count) const;
  /// As many as there are lanes of them (f32 or bf16) as f32.
  Value fromStored(Value raw) const;
  /// One element as f32.
  Value loadScalar(Value memref, ValueRange indices) const;
  void storeScalar(Value value, Value memref, ValueRange indices) const;
  /// Memory for the whole call of the kernel, 64-byte aligned, of f32 if nothing else is said. The pass
  /// k3-place-temporaries decides where it is.
  Value temporary(ArrayRef<int64_t> shape, Type elementType = {}) const;
  /// Lanes below `count`.
  Value mask(int64_t count) const;
  Value mask(Value count) const;

  /// Writes lane l of the first `count` lanes to [first + l, column] of a matrix.
  void storeColumn(Value vector, Value memref, Value first, Value column, int64_t count) const;

  Value broadcast(Value scalar) const;
  Value reduceAdd(Value vector) const;
  Value reduceMax(Value vector) const;
  /// The four sums over the lanes of four vectors, as vector<4xf32>; cheaper than one after the other.
  Value reduceAdd4(ArrayRef<Value> vectors) const;
  /// The sums over the lanes of any number of vectors, as scalars.
  SmallVector<Value> reduceAddAll(ArrayRef<Value> vectors) const;
  Value extract(Value vector, int64_t lane) const;
  /// In every group of four lanes, those of x (0 to 3) and of y (4 to 7) that `pick` names.
  Value shuffleFours(Value x, Value y, ArrayRef<int64_t> pick) const;
  /// Rows and columns of a square of as many vectors as there are lanes exchanged.
  SmallVector<Value> transpose(ArrayRef<Value> rows) const;
  /// A vector of bf16 bits (i16) to f32, and back with round to nearest even.
  Value widen(Value bits) const;
  Value narrow(Value vector) const;
  /// f32 rounded to what bf16 holds.
  Value roundToBf16(Value vector) const;
  /// Two vectors of f32 as one of bf16, `low` first, and sum + the products of pairs of neighbours: AVX512-BF16 only.
  Value packBf16(Value low, Value high) const;
  Value dotBf16(Value x, Value y, Value sum) const;
  /// A pair of neighbours of bf16 in every lane.
  Value loadPair(Value memref, ValueRange indices) const;
  /// Rounds elements [start, start + size) of a row of f32 into the row `to` of bf16; size is a multiple of two
  /// vectors.
  void packRow(Value from, ValueRange fromRow, Value start, Value size, Value to, Value toRow) const;

  // Control flow.
  using LoopBody = function_ref<SmallVector<Value>(Value iv, ValueRange args)>;
  /// Returns the values after the last iteration.
  SmallVector<Value> loop(Value low, Value high, Value step, ValueRange inits, LoopBody body) const;
  void loop(Value low, Value high, Value step, function_ref<void(Value iv)> body) const;
  /// Calls `body(offset, lanes)` for whole vectors of `size` (a static size) in a loop, then once for the rest with
  /// fewer lanes, threading `args` through.
  SmallVector<Value>
  loopVectors(int64_t size, ValueRange inits,
              function_ref<SmallVector<Value>(Value offset, int64_t count, ValueRange args)> body) const;
  void loopVectors(int64_t size, function_ref<void(Value offset, int64_t count)> body) const;
  /// Covers [0, size) (a static size) by blocks of `width` (a multiple of the lanes), then by single vectors, the last
  /// with fewer lanes: calls `body` with the first element of each vector of the block and the lanes in each.
  void loopColumns(int64_t size, int64_t width, function_ref<void(ArrayRef<Value> at, int64_t count)> body) const;
  /// Covers [0, size) by blocks of the given sizes, largest first, each in a loop of its own; the last must be 1.
  void loopBlocks(Value size, ArrayRef<int64_t> blocks, function_ref<void(Value start, int64_t block)> body) const;
  void ifThen(Value condition, function_ref<void()> body) const;
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) const;
  Value select(Value condition, Value x, Value y) const;

  // Pointers, for memory that is reached through a table.
  /// Address of the element of a memref of rank 0, such as the base buffer of an extract_strided_metadata.
  Value basePointer(Value memref) const;
  /// Pointer number `index` of the table at `table`.
  Value loadPointer(Value table, Value index) const;
  /// A view of shape `sizes` and `strides` (in elements) at `pointer` + `offset` elements.
  Value viewPointer(Value pointer, Value offset, ArrayRef<OpFoldResult> sizes, ArrayRef<OpFoldResult> strides,
                    Type elementType) const;

private:
  TargetModel target;
};

} // namespace mlir::k3

#endif // K3_CODEGEN_CPU_VECTORBUILDER_H
