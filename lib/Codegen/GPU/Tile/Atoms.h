//===- Atoms.h - matrix and copy instructions of a GPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// One function per instruction, in the order in which a kernel needs them: copies, barriers that copies complete,
// products of warps, products of warpgroups. A warpgroup is four warps of which the first has a number divisible by 4.
//
// Fragments. `lane` = 4 g + t, two neighbouring bf16 of a row share an i32, the lower index in the low half.
//   8 x 8 matrix, one i32:        row g, columns 2t, 2t + 1
//   A of a 16 x 16 step, 4 i32:   (rows, k) blocks of 8 in the order (0, 0), (1, 0), (0, 1), (1, 1)
//   B of a 16 x 8 step, 2 i32:    element [k][n] at row n = g and k = 2t, 2t + 1, blocks of 8 k; so B given by rows of n
//                                 with k contiguous is loaded as it lies
//   16 x 8 sums, 4 f32:           rows g, g, g + 8, g + 8; columns 2t, 2t + 1, 2t, 2t + 1
//   64 x n sums of a warpgroup:   warp w has rows 16 w ...; n / 8 times the 16 x 8 sums
// So sums rounded in pairs (`toFragments`) are the A of a next product over their columns.
//
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_TILE_ATOMS_H
#define K3_CODEGEN_GPU_TILE_ATOMS_H

#include "lib/Codegen/GPU/Tile/GpuBuilder.h"

namespace mlir::k3 {

//===--- 8 x 8 matrices in shared memory ---===//

/// 1, 2 or 4 matrices of 8 rows of 16 bytes. `row` (ptr<3>, 16-byte aligned): lanes 8 i to 8 i + 7 point at the rows of
/// matrix i. `transposed`: each matrix comes transposed. All lanes of a warp.
SmallVector<Value> loadMatrices(const GpuBuilder &g, Value row, int64_t count, bool transposed = false);
void storeMatrices(const GpuBuilder &g, Value row, ValueRange registers, bool transposed = false);
/// The 8 x 8 matrix of a warp, transposed.
Value transposeMatrix(const GpuBuilder &g, Value matrix);

//===--- copies from global to shared memory by threads (cp.async) ---===//

/// `bytes` (4, 8 or 16, of which both addresses are multiples) from ptr<1> to ptr<3>; with `used` (i32, at most `bytes`)
/// only that many are read and the others become 0. Done after `waitCopies`, seen by other threads after a barrier, by
/// wgmma and bulk copies after `fenceAsync` of this thread before that barrier.
void copyAsync(const GpuBuilder &g, Value to, Value from, int64_t bytes, Value used = {});
/// Closes a group of copies of this thread.
void commitCopies(const GpuBuilder &g);
/// All but the last `pending` groups of this thread are done.
void waitCopies(const GpuBuilder &g, int64_t pending);

//===--- barriers in shared memory (8 bytes, ptr<3>) ---===//

/// A phase ends after `count` arrivals and all bytes that were announced. By one thread; then `fenceBarriers` and a
/// barrier of the block.
void initBarrier(const GpuBuilder &g, Value bar, int64_t count);
void fenceBarriers(const GpuBuilder &g);
void arrive(const GpuBuilder &g, Value bar);
/// Arrives and announces `bytes` of bulk copies for this phase.
void arriveExpecting(const GpuBuilder &g, Value bar, Value bytes);
/// Until the phase of this parity (i32, 0 or 1; the first phase has 0) has ended. Waiting for parity 1 at first is no wait.
void waitBarrier(const GpuBuilder &g, Value bar, Value parity);

//===--- bulk copies, by one thread ---===//

/// The box of a tensor map (see GpuBuilder::tensorMap) at `coordinates` (i32, last dimension first) to shared memory
/// (128-byte aligned; by 8 times the swizzle if there is one), completing `bar`. Elements outside the tensor are 0.
void loadBox(const GpuBuilder &g, Value to, Value map, ValueRange coordinates, Value bar);
/// The reverse, in the open group of bulk stores; elements outside the tensor are not written. What threads wrote needs
/// `fenceAsync` in each of them and a barrier first.
void storeBox(const GpuBuilder &g, Value map, ValueRange coordinates, Value from);
/// `bytes` (i32, a multiple of 16) from ptr<1>.
void loadBulk(const GpuBuilder &g, Value to, Value from, Value bytes, Value bar);
void commitStores(const GpuBuilder &g);
/// All but the last `pending` groups of stores have been read from shared memory, or, with `written`, have arrived.
void waitStores(const GpuBuilder &g, int64_t pending, bool written = false);
/// What this thread wrote to shared memory is seen by wgmma and bulk copies that come after a following barrier.
void fenceAsync(const GpuBuilder &g);

//===--- products of a warp ---===//

/// sums + a b for one step of 16 x 8 x 16 in bf16; a: 4, b: 2, sums: 4 values.
SmallVector<Value> multiplyStep(const GpuBuilder &g, ValueRange a, ValueRange b, ValueRange sums);
/// Sums of 16 (or 64) x n as A fragments of n / 16 steps.
SmallVector<SmallVector<Value>> toFragments(const GpuBuilder &g, ValueRange sums);

//===--- products of a warpgroup (wgmma) ---===//

/// Where a bf16 matrix lies in shared memory. `leading` and `stride` in bytes:
///   rows of the matrix (m or n) with k contiguous: 8 rows are swizzle bytes apart each, groups of 8 rows `stride` (8 times
///   the swizzle if dense); k goes on inside a row, 32 bytes per step. Rows longer than the swizzle are further matrices.
///   Transposed (k rows of swizzle / 2 contiguous m or n): groups of 8 k rows are `stride` apart, blocks of swizzle / 2
///   columns `leading`.
/// Address and steps may be added to the descriptor: `advanceDescriptor`.
Value makeDescriptor(const GpuBuilder &g, Value pointer, int64_t stride, int64_t leading = 16, int64_t swizzle = 128);
Value advanceDescriptor(const GpuBuilder &g, Value descriptor, int64_t bytes);
Value advanceDescriptor(const GpuBuilder &g, Value descriptor, Value bytes);

struct WgmmaForm {
  bool overwrite = false;   ///< sums = a b instead of sums + a b
  bool negateA = false;
  bool transposeA = false;  ///< of a descriptor: m is contiguous
  bool transposeB = false;  ///< n is contiguous
};
/// One step of 64 x n x 16, n = 2 * sums.size(): A from registers (4 i32) or a descriptor (i64), B from a descriptor.
/// Sums and A must not be touched before a wait. All threads of the warpgroup.
SmallVector<Value> wgmma(const GpuBuilder &g, ValueRange a, Value b, ValueRange sums, WgmmaForm form = {});
/// Before the first wgmma after registers of its operands were written.
void wgmmaFence(const GpuBuilder &g);
/// Closes a group of wgmmas.
void wgmmaCommit(const GpuBuilder &g);
/// All but the last `pending` groups are done. Returns `values`, sums that are now complete (and fragments, i32, that must
/// not be overwritten earlier); uses of them cannot move up. `kept`: fragments that a wgmma still reads until here.
SmallVector<Value> wgmmaWait(const GpuBuilder &g, int64_t pending, ValueRange values, ValueRange kept = {});
/// Registers per thread of this warpgroup from here on: fewer in some, more in others (multiples of 8, 24 to 240).
void setRegisters(const GpuBuilder &g, int64_t count, bool increase);

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_TILE_ATOMS_H
