//===- TensorBuilder.h - short spelling of tensor code for decompositions -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Decompositions compute in f32: values read from tensors are widened, values written are rounded to the tensor's
// element type. Everything written goes through a slice of a destination that is put back, so that one-shot
// bufferization updates destinations in place.
//
//===----------------------------------------------------------------------===//
#ifndef K3_INTERFACES_TENSORBUILDER_H
#define K3_INTERFACES_TENSORBUILDER_H

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Builders.h"

namespace mlir::k3 {

/// One dimension of a slice: everything, a range, or one index (which drops the dimension).
struct Dim {
  static Dim all() { return {}; }
  static Dim range(OpFoldResult offset, OpFoldResult size) { return {offset, size, false}; }
  static Dim at(OpFoldResult offset) { return {offset, {}, true}; }

  OpFoldResult offset, size;
  bool drop = false;
};

/// An operand of a generic op and the loops that index it, one character each ("td").
struct Arg {
  Value value;
  StringRef loops;
};

class TensorBuilder : public ImplicitLocOpBuilder {
public:
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  //===--- scalars (f32) ---===//
  Value f32(double value);
  Value add(Value a, Value b);
  Value sub(Value a, Value b);
  Value mul(Value a, Value b);
  Value div(Value a, Value b);
  Value max(Value a, Value b);
  Value neg(Value a);
  Value exp(Value a);
  Value tanh(Value a);
  Value rsqrt(Value a);
  /// 1 / (1 + exp(-a)), through exp(-|a|), which cannot overflow.
  Value sigmoid(Value a);
  /// log(1 + exp(a)) = max(a, 0) + log1p(exp(-|a|)).
  Value softplus(Value a);
  /// bf16 as f32; other values as they are.
  Value widen(Value a);
  /// f32 rounded to `type` (bf16); a value that has the type as it is.
  Value narrow(Value a, Type type);

  //===--- indices ---===//
  Value index(int64_t value);
  Value index(OpFoldResult value);
  Value addIndex(OpFoldResult a, OpFoldResult b);
  Value subIndex(OpFoldResult a, OpFoldResult b);
  Value mulIndex(OpFoldResult a, OpFoldResult b);
  Value divIndex(OpFoldResult a, OpFoldResult b);
  Value remIndex(OpFoldResult a, OpFoldResult b);
  Value minIndex(OpFoldResult a, OpFoldResult b);
  Value ceilDivIndex(OpFoldResult a, OpFoldResult b);
  /// a < b
  Value lessIndex(OpFoldResult a, OpFoldResult b);
  Value select(Value condition, Value a, Value b);

  //===--- tensors ---===//
  OpFoldResult size(Value tensor, int64_t dim);
  SmallVector<OpFoldResult> sizes(Value tensor);
  Value empty(ArrayRef<OpFoldResult> sizes, Type element = {});
  /// A fresh f32 tensor (a scalar without sizes) holding `value` everywhere.
  Value filled(ArrayRef<OpFoldResult> sizes, Value value);
  Value zeros(ArrayRef<OpFoldResult> sizes) { return filled(sizes, f32(0)); }
  /// `tensor` overwritten with `value` (f32, rounded to the element type).
  Value fill(Value tensor, Value value);
  Value slice(Value tensor, ArrayRef<Dim> dims);
  /// `tensor` with the slice `dims` replaced by `part`.
  Value put(Value part, Value tensor, ArrayRef<Dim> dims);
  /// One element, widened to f32; an i32 element as an index by loadIndex.
  Value load(Value tensor, ArrayRef<OpFoldResult> indices = {});
  Value loadIndex(Value tensor, ArrayRef<OpFoldResult> indices);
  /// `tensor` with one element replaced by `value` (f32, rounded to the element type).
  Value store(Value value, Value tensor, ArrayRef<OpFoldResult> indices);
  Value storeIndex(Value value, Value tensor, ArrayRef<OpFoldResult> indices);
  /// `from` written over `to` element by element, converted to its element type; shapes agree.
  Value copy(Value from, Value to);
  /// `destination` itself if it can accumulate in f32, else a fresh f32 tensor of its shape. Pass the result to
  /// `finish`.
  Value accumulator(Value destination);
  Value finish(Value accumulated, Value destination);

  //===--- structured code ---===//
  using Body = llvm::function_ref<SmallVector<Value>(TensorBuilder &, ValueRange)>;
  /// A linalg.generic: `loops` in nest order, those in `reductions` are sequential. The body gets all operands (bf16
  /// widened to f32) and gives the outs' new values; scalars from outside may be used in it.
  SmallVector<Value> generic(StringRef loops, StringRef reductions, ArrayRef<Arg> ins, ArrayRef<Arg> outs, Body body);
  /// The same for one result.
  Value generic(StringRef loops, StringRef reductions, ArrayRef<Arg> ins, Arg out,
                llvm::function_ref<Value(TensorBuilder &, ValueRange)> body);
  /// All loops parallel, every operand indexed by all of them.
  Value map(ValueRange ins, Value out, llvm::function_ref<Value(TensorBuilder &, ValueRange)> body);
  /// Sum of `body` over the one-dimensional `ins`, as a scalar.
  Value sum(ValueRange ins, llvm::function_ref<Value(TensorBuilder &, ValueRange)> body);

  /// scf.for over [begin, end) carrying `values`.
  SmallVector<Value> forEach(OpFoldResult begin, OpFoldResult end, ValueRange values,
                             llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body);
  /// The same carrying one value.
  Value forEach(OpFoldResult begin, OpFoldResult end, Value value, llvm::function_ref<Value(Value, Value)> body);
};

} // namespace mlir::k3

#endif // K3_INTERFACES_TENSORBUILDER_H
