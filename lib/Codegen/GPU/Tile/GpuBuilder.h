//===- GpuBuilder.h - short spelling of GPU kernel code -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What emitters of kernels write with. Integers are i32 unless said otherwise: thread and block numbers, sizes, loop
// counters. Offsets into tensors are computed in 64 bits from them (`element`), so tensors may be of any size. Floats
// are f32; tensors of bf16 are widened when they are read and rounded (to nearest, ties to even) when they are written.
//
// A block has `threads()` threads along x. Everything called collective must be reached by all threads of the block (or
// of the warp, where it says so).
//
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_TILE_GPUBUILDER_H
#define K3_CODEGEN_GPU_TILE_GPUBUILDER_H

#include "dialects/k3/IR/K3Ops.h"
#include "lib/Codegen/Common/GpuTarget.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace mlir::k3 {

/// How values of several threads are combined.
enum class Reduction { Add, Max, Min };

class GpuBuilder {
public:
  /// `b` is inside a kernel function. `threads` and shared memory are those of the config.
  GpuBuilder(OpBuilder &b, Location loc, const GpuTarget &target, KernelConfigAttr config);

  int64_t threads() const { return config.getThreads(); }
  int64_t warps() const { return config.getThreads() / target.warpSize; }
  func::FuncOp kernel() const { return func; }

  //===--- types ---===//
  Type i1() const { return b.getI1Type(); }
  Type i8() const { return b.getI8Type(); }
  Type i16() const { return b.getI16Type(); }
  Type i32() const { return b.getI32Type(); }
  Type i64() const { return b.getI64Type(); }
  Type f32() const { return b.getF32Type(); }
  Type bf16() const { return b.getBF16Type(); }
  VectorType vectorOf(int64_t count, Type element) const { return VectorType::get({count}, element); }
  /// Address spaces as in PTX: generic, global, shared of the block, shared of the cluster.
  static constexpr unsigned genericSpace = 0, globalSpace = 1, sharedSpace = 3, clusterSpace = 7;
  Type pointerType(unsigned space) const;

  //===--- constants ---===//
  Value i32(int64_t value) const;
  Value i64(int64_t value) const;
  Value f32(double value) const;
  Value boolean(bool value) const;
  /// A constant of the type of `like` (a float type takes it as a float).
  Value constant(int64_t value, Type type) const;

  //===--- where this thread is (i32) ---===//
  Value threadId() const;
  /// `threadId() % 32`
  Value laneId() const;
  /// `threadId() / 32`, known to be the same in all threads of a warp.
  Value warpId() const;
  Value blockId(unsigned axis = 0) const;
  /// Blocks along an axis.
  Value gridSize(unsigned axis = 0) const;
  /// Number of this block in its cluster.
  Value clusterRank() const;

  //===--- arithmetic: on integers, index or floats of one type; the second operand may be a number ---===//
  Value add(Value x, Value y) const;
  Value sub(Value x, Value y) const;
  Value mul(Value x, Value y) const;
  /// Integers: not negative. Floats: correctly rounded (slow; see `quotient`).
  Value div(Value x, Value y) const;
  Value rem(Value x, Value y) const;
  /// Integers: signed. Floats: the other operand where one is NaN.
  Value min(Value x, Value y) const;
  Value max(Value x, Value y) const;
  Value add(Value x, int64_t y) const { return add(x, constant(y, x.getType())); }
  Value sub(Value x, int64_t y) const { return sub(x, constant(y, x.getType())); }
  Value mul(Value x, int64_t y) const { return mul(x, constant(y, x.getType())); }
  Value div(Value x, int64_t y) const { return div(x, constant(y, x.getType())); }
  Value rem(Value x, int64_t y) const { return rem(x, constant(y, x.getType())); }
  Value min(Value x, int64_t y) const { return min(x, constant(y, x.getType())); }
  Value max(Value x, int64_t y) const { return max(x, constant(y, x.getType())); }
  Value ceilDiv(Value x, int64_t y) const { return div(add(x, y - 1), y); }

  /// Bits; `shr` shifts in zeros.
  Value bitAnd(Value x, Value y) const;
  Value bitOr(Value x, Value y) const;
  Value bitXor(Value x, Value y) const;
  Value shl(Value x, Value y) const;
  Value shr(Value x, Value y) const;
  Value bitAnd(Value x, int64_t y) const { return bitAnd(x, constant(y, x.getType())); }
  Value bitOr(Value x, int64_t y) const { return bitOr(x, constant(y, x.getType())); }
  Value bitXor(Value x, int64_t y) const { return bitXor(x, constant(y, x.getType())); }
  Value shl(Value x, int64_t y) const { return shl(x, constant(y, x.getType())); }
  Value shr(Value x, int64_t y) const { return shr(x, constant(y, x.getType())); }

  /// Signed integers, or floats (false if one is NaN). i1.
  Value lt(Value x, Value y) const;
  Value le(Value x, Value y) const;
  Value gt(Value x, Value y) const { return lt(y, x); }
  Value ge(Value x, Value y) const { return le(y, x); }
  Value eq(Value x, Value y) const;
  Value ne(Value x, Value y) const;
  Value lt(Value x, int64_t y) const { return lt(x, constant(y, x.getType())); }
  Value le(Value x, int64_t y) const { return le(x, constant(y, x.getType())); }
  Value gt(Value x, int64_t y) const { return gt(x, constant(y, x.getType())); }
  Value ge(Value x, int64_t y) const { return ge(x, constant(y, x.getType())); }
  Value eq(Value x, int64_t y) const { return eq(x, constant(y, x.getType())); }
  Value ne(Value x, int64_t y) const { return ne(x, constant(y, x.getType())); }
  Value logicalAnd(Value x, Value y) const { return bitAnd(x, y); }
  Value logicalOr(Value x, Value y) const { return bitOr(x, y); }
  Value logicalNot(Value x) const { return bitXor(x, boolean(true)); }
  Value select(Value condition, Value x, Value y) const;

  //===--- conversions ---===//
  /// Signed integers (or index) to i32, i64, index.
  Value toI32(Value x) const;
  Value toI64(Value x) const;
  Value toIndex(Value x) const;
  /// i1 and unsigned narrow integers.
  Value zeroExtend(Value x, Type type) const;
  Value truncate(Value x, Type type) const;
  /// A signed integer, or bf16, as f32; f32 as it is.
  Value toF32(Value x) const;
  Value toBf16(Value x) const;
  /// f32 rounded to bf16 and widened again.
  Value roundToBf16(Value x) const;
  /// Two f32 rounded to bf16 in an i32, `low` in the low half.
  Value packBf16(Value low, Value high) const;
  /// The two bf16 of an i32 as f32: {low half, high half}.
  std::pair<Value, Value> unpackBf16(Value pair) const;
  Value bitcast(Value x, Type type) const;

  //===--- floats ---===//
  /// x * y + z with one rounding.
  Value fma(Value x, Value y, Value z) const;
  Value neg(Value x) const;
  Value abs(Value x) const;
  /// 2^x: relative error 2^-22; results below 2^-126 are 0.
  Value exp2(Value x) const;
  /// e^x: relative error 2^-21; results below 2^-126 are 0.
  Value exp(Value x) const;
  /// e^x from 2^(x log2 e): the relative error is that of `exp2` and |x| 2^-23.
  Value fastExp(Value x) const;
  /// x > 0 and normal; absolute error 2^-22 in [0.5, 2], relative 2^-22 outside.
  Value log2(Value x) const;
  Value log(Value x) const;
  /// log(1 + x), x > -1: relative error 2^-21 for x <= 1.
  Value log1p(Value x) const;
  /// 1 / x and 1 / sqrt(x) with relative error 2^-23 and 2^-22; not for subnormals.
  Value reciprocal(Value x) const;
  /// x / y = x * reciprocal(y).
  Value quotient(Value x, Value y) const { return mul(x, reciprocal(y)); }
  Value rsqrt(Value x) const;
  Value sqrt(Value x) const;
  /// Relative error 2^-20.
  Value sigmoid(Value x) const;
  Value tanh(Value x) const;
  /// log(1 + e^x)
  Value softplus(Value x) const;
  Value silu(Value x) const { return mul(x, sigmoid(x)); }
  /// The gated unit of k3.glu on scalars.
  Value glu(Activation activation, double beta, double linearBeta, Value gate, Value up) const;

  //===--- tensors in global memory ---===//
  /// Size of a dimension.
  Value dim(Value memref, int64_t dim) const;
  /// Its size if static, else ShapedType::kDynamic.
  static int64_t staticDim(Value memref, int64_t dim) { return cast<MemRefType>(memref.getType()).getDimSize(dim); }
  static Type elementType(Value memref) { return cast<MemRefType>(memref.getType()).getElementType(); }
  /// Address of the first element, ptr<1>.
  Value base(Value memref) const;
  /// Address of an element (ptr<1>); missing trailing indices are 0. Indices are integers of any type or index.
  Value element(Value memref, ValueRange indices) const;
  /// The pointer `offset` elements of `elementType` further.
  Value advance(Value pointer, Value offset, Type elementType) const;
  Value advance(Value pointer, int64_t offset, Type elementType) const;
  /// Whether a memref is an argument with `k3.expert_group`: a table of pointers, one for each expert.
  bool isExpertTable(Value memref) const;
  /// Such a table, and pointer number `index` of it (ptr<1>).
  Value expertTable(Value table) const;
  Value expert(Value table, Value index) const;
  /// One element as f32 (floats) or as it is (integers). `readOnly`: nothing writes it while the kernel runs.
  Value load(Value memref, ValueRange indices, bool readOnly = false) const;
  /// f32 rounded to the element type, or an integer as it is.
  void store(Value value, Value memref, ValueRange indices) const;

  //===--- runs of elements behind any pointer ---===//
  /// The largest run of `elementType` that one instruction moves: 16 bytes.
  static int64_t vectorLength(Type elementType) { return 128 / elementType.getIntOrFloatBitWidth(); }
  /// One value of any LLVM type, with an alignment of its size (at most 16 bytes). `readOnly` makes it ld.global.nc.
  Value loadRaw(Value pointer, Type type, bool readOnly = false) const;
  void storeRaw(Value value, Value pointer) const;
  /// `count` elements (a power of two, at most vectorLength) from an aligned address, each as f32.
  SmallVector<Value> loadFloats(Value pointer, Type elementType, int64_t count, bool readOnly = false) const;
  /// The reverse; bf16 elements are rounded.
  void storeFloats(ArrayRef<Value> values, Value pointer, Type elementType) const;

  //===--- shared memory ---===//
  /// The block's dynamic shared memory from byte `offset` on, ptr<3>. It starts at a multiple of 1024 bytes.
  Value shared(int64_t offset) const;
  Value shared(Value offset) const;
  /// Waits for all threads of the block; what they wrote before is seen after. Collective.
  void barrier() const;
  /// The same for `count` threads (whole warps) that agree on `id` (1 to 15).
  void barrier(int64_t id, int64_t count) const;
  void barrier(Value id, int64_t count) const;
  /// Orders the threads of a warp and their accesses to memory.
  void warpBarrier() const;

  //===--- warps: i32 or f32, all 32 lanes take part ---===//
  /// Of lane `laneId() ^ mask`.
  Value shuffleXor(Value value, int64_t mask) const;
  Value shuffleDown(Value value, int64_t distance) const;
  /// Of lane number `lane`.
  Value shuffleFrom(Value value, Value lane) const;
  /// i32 with bit l set where lane l has `condition`.
  Value ballot(Value condition) const;
  Value combine(Reduction reduction, Value x, Value y) const;
  /// Of runs of `width` lanes (a power of two); every lane gets its run's result.
  Value warpReduce(Value value, Reduction reduction, int64_t width = 32) const;
  /// Of all threads of the block; every thread gets the result. Uses `4 * warps()` bytes of shared memory from `offset`
  /// on, which may be used again afterwards. Collective; the order of additions is fixed.
  Value blockReduce(Value value, Reduction reduction, int64_t offset) const;

  //===--- control flow ---===//
  using LoopBody = function_ref<SmallVector<Value>(Value iv, ValueRange carried)>;
  /// for (i = low; i < high; i += step), integers of one type; the body gives the next carried values.
  SmallVector<Value> loop(Value low, Value high, Value step, ValueRange inits, LoopBody body) const;
  void loop(Value low, Value high, Value step, function_ref<void(Value)> body) const;
  void loop(Value high, function_ref<void(Value)> body) const { loop(i32(0), high, i32(1), body); }
  /// Threads share 0 <= i < count: thread t does t, t + threads(), ...
  void forThreads(Value count, function_ref<void(Value)> body) const;
  void forThreads(int64_t count, function_ref<void(Value)> body) const;
  void ifThen(Value condition, function_ref<void()> body) const;
  SmallVector<Value> ifThenElse(Value condition, function_ref<SmallVector<Value>()> then,
                                function_ref<SmallVector<Value>()> otherwise) const;
  /// Thread 0 of the block alone.
  void ifFirstThread(function_ref<void()> body) const { ifThen(eq(threadId(), 0), body); }

  //===--- kernels one after the other ---===//
  /// The kernel may be launched while the one in front of it still runs. All threads call this, outside of any branch, before
  /// they touch memory that a kernel may write; without a call the kernel begins with it. Here the kernel in front has
  /// ended and all that it wrote is seen, and the one behind may be launched.
  void waitForPrevious() const { waitForPrevious(b, func); }
  static void waitForPrevious(OpBuilder &b, func::FuncOp kernel);

  //===--- instructions ---===//
  /// PTX text with operands $0 (the result, if there is one), $1, ...; `volatile_`: it does more than give a result.
  Value ptx(Type result, StringRef text, ValueRange operands, bool volatile_ = false) const;
  void ptx(StringRef text, ValueRange operands) const;
  Value intrinsic(Type result, StringRef name, ValueRange operands) const;
  /// Tensor map number `index` of the config: a generic pointer to a parameter of the kernel.
  Value tensorMap(unsigned index) const;
  /// Blocks of the kernel wait for each other, by atomic accesses to global memory: it is launched with as many blocks along
  /// x as run at once, at most as many as the config says, and works with any number of them (`gridSize`).
  void setResident() const;
  /// At least `count` blocks per multiprocessor (`.minnctapersm`), which limits registers.
  void setMinBlocks(int64_t count) const;

  OpBuilder &b;
  Location loc;
  const GpuTarget &target;
  KernelConfigAttr config;

private:
  func::FuncOp func;
  BlockArgument extraArgument(StringRef attrName, Attribute attr, Type type) const;
};

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_TILE_GPUBUILDER_H
