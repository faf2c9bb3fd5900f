//===- TensorBuilder.cpp - short spelling of tensor code for decompositions -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/Interfaces/TensorBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::k3;

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

Value TensorBuilder::f32(double value) {
  return arith::ConstantOp::create(*this, getF32FloatAttr(static_cast<float>(value)));
}
Value TensorBuilder::add(Value a, Value b) { return createOrFold<arith::AddFOp>(a, b); }
Value TensorBuilder::sub(Value a, Value b) { return createOrFold<arith::SubFOp>(a, b); }
Value TensorBuilder::mul(Value a, Value b) { return createOrFold<arith::MulFOp>(a, b); }
Value TensorBuilder::div(Value a, Value b) { return createOrFold<arith::DivFOp>(a, b); }
Value TensorBuilder::max(Value a, Value b) { return createOrFold<arith::MaximumFOp>(a, b); }
Value TensorBuilder::neg(Value a) { return createOrFold<arith::NegFOp>(a); }
Value TensorBuilder::exp(Value a) { return createOrFold<math::ExpOp>(a); }
Value TensorBuilder::tanh(Value a) { return createOrFold<math::TanhOp>(a); }
Value TensorBuilder::rsqrt(Value a) { return createOrFold<math::RsqrtOp>(a); }

Value TensorBuilder::sigmoid(Value a) {
  Value decay = exp(neg(createOrFold<math::AbsFOp>(a)));
  Value positive = createOrFold<arith::CmpFOp>(arith::CmpFPredicate::OGE, a, f32(0));
  Value numerator = select(positive, f32(1), decay);
  return div(numerator, add(f32(1), decay));
}

Value TensorBuilder::softplus(Value a) {
  Value decay = exp(neg(createOrFold<math::AbsFOp>(a)));
  return add(max(a, f32(0)), createOrFold<math::Log1pOp>(decay));
}

Value TensorBuilder::widen(Value a) { return a.getType().isBF16() ? createOrFold<arith::ExtFOp>(getF32Type(), a) : a; }

Value TensorBuilder::narrow(Value a, Type type) {
  return a.getType() == type ? a : createOrFold<arith::TruncFOp>(type, a);
}

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

Value TensorBuilder::index(int64_t value) { return arith::ConstantIndexOp::create(*this, value); }
Value TensorBuilder::index(OpFoldResult value) { return getValueOrCreateConstantIndexOp(*this, getLoc(), value); }
Value TensorBuilder::addIndex(OpFoldResult a, OpFoldResult b) {
  return createOrFold<arith::AddIOp>(index(a), index(b));
}
Value TensorBuilder::subIndex(OpFoldResult a, OpFoldResult b) {
  return createOrFold<arith::SubIOp>(index(a), index(b));
}
Value TensorBuilder::mulIndex(OpFoldResult a, OpFoldResult b) {
  return createOrFold<arith::MulIOp>(index(a), index(b));
}
Value TensorBuilder::divIndex(OpFoldResult a, OpFoldResult b) {
  return createOrFold<arith::DivUIOp>(index(a), index(b));
}
Value TensorBuilder::remIndex(OpFoldResult a, OpFoldResult b) {
  return createOrFold<arith::RemUIOp>(index(a), index(b));
}
Value TensorBuilder::minIndex(OpFoldResult a, OpFoldResult b) {
  return createOrFold<arith::MinSIOp>(index(a), index(b));
}
Value TensorBuilder::ceilDivIndex(OpFoldResult a, OpFoldResult b) {
  return createOrFold<arith::CeilDivUIOp>(index(a), index(b));
}
Value TensorBuilder::lessIndex(OpFoldResult a, OpFoldResult b) {
  return createOrFold<arith::CmpIOp>(arith::CmpIPredicate::slt, index(a), index(b));
}

Value TensorBuilder::select(Value condition, Value a, Value b) {
  return createOrFold<arith::SelectOp>(condition, a, b);
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

OpFoldResult TensorBuilder::size(Value tensor, int64_t dim) {
  return tensor::getMixedSize(*this, getLoc(), tensor, dim);
}

SmallVector<OpFoldResult> TensorBuilder::sizes(Value tensor) { return tensor::getMixedSizes(*this, getLoc(), tensor); }

Value TensorBuilder::empty(ArrayRef<OpFoldResult> sizes, Type element) {
  return tensor::EmptyOp::create(*this, sizes, element ? element : Type(getF32Type()));
}

Value TensorBuilder::filled(ArrayRef<OpFoldResult> sizes, Value value) { return fill(empty(sizes), value); }

Value TensorBuilder::fill(Value tensor, Value value) {
  Type element = cast<RankedTensorType>(tensor.getType()).getElementType();
  return linalg::FillOp::create(*this, narrow(value, element), tensor).getResult(0);
}

namespace {
struct SliceParts {
  SmallVector<OpFoldResult> offsets, sizes, strides;
  SmallVector<int64_t> shape; ///< without the dropped dimensions
};
} // namespace

static SliceParts getParts(TensorBuilder &b, Value tensor, ArrayRef<Dim> dims) {
  SliceParts parts;
  for (auto [number, dim] : llvm::enumerate(dims)) {
    OpFoldResult one = b.getIndexAttr(1);
    parts.strides.push_back(one);
    parts.offsets.push_back(dim.offset ? getAsOpFoldResult(b.index(dim.offset)) : OpFoldResult(b.getIndexAttr(0)));
    OpFoldResult size = dim.drop ? one : dim.size ? dim.size : b.size(tensor, number);
    if (auto value = dyn_cast<Value>(size))
      size = getAsOpFoldResult(value);
    parts.sizes.push_back(size);
    if (!dim.drop)
      parts.shape.push_back(getConstantIntValue(size).value_or(ShapedType::kDynamic));
  }
  return parts;
}

Value TensorBuilder::slice(Value tensor, ArrayRef<Dim> dims) {
  SliceParts parts = getParts(*this, tensor, dims);
  auto type = RankedTensorType::get(parts.shape, cast<RankedTensorType>(tensor.getType()).getElementType());
  return tensor::ExtractSliceOp::create(*this, type, tensor, parts.offsets, parts.sizes, parts.strides);
}

Value TensorBuilder::put(Value part, Value tensor, ArrayRef<Dim> dims) {
  SliceParts parts = getParts(*this, tensor, dims);
  return tensor::InsertSliceOp::create(*this, part, tensor, parts.offsets, parts.sizes, parts.strides);
}

static SmallVector<Value> toValues(TensorBuilder &b, ArrayRef<OpFoldResult> indices) {
  return llvm::map_to_vector(indices, [&](OpFoldResult index) { return b.index(index); });
}

Value TensorBuilder::load(Value tensor, ArrayRef<OpFoldResult> indices) {
  return widen(tensor::ExtractOp::create(*this, tensor, toValues(*this, indices)));
}

Value TensorBuilder::loadIndex(Value tensor, ArrayRef<OpFoldResult> indices) {
  Value element = tensor::ExtractOp::create(*this, tensor, toValues(*this, indices));
  return createOrFold<arith::IndexCastOp>(getIndexType(), element);
}

Value TensorBuilder::store(Value value, Value tensor, ArrayRef<OpFoldResult> indices) {
  Type element = cast<RankedTensorType>(tensor.getType()).getElementType();
  return tensor::InsertOp::create(*this, narrow(value, element), tensor, toValues(*this, indices));
}

Value TensorBuilder::storeIndex(Value value, Value tensor, ArrayRef<OpFoldResult> indices) {
  Type element = cast<RankedTensorType>(tensor.getType()).getElementType();
  return tensor::InsertOp::create(*this, createOrFold<arith::IndexCastOp>(element, value), tensor,
                                  toValues(*this, indices));
}

Value TensorBuilder::copy(Value from, Value to) {
  return map(from, to, [](TensorBuilder &, ValueRange args) { return args[0]; });
}

Value TensorBuilder::accumulator(Value destination) {
  bool exact = cast<RankedTensorType>(destination.getType()).getElementType().isF32();
  return exact ? destination : empty(sizes(destination));
}

Value TensorBuilder::finish(Value accumulated, Value destination) {
  bool exact = cast<RankedTensorType>(destination.getType()).getElementType().isF32();
  return exact ? accumulated : copy(accumulated, destination);
}

//===----------------------------------------------------------------------===//
// Structured code
//===----------------------------------------------------------------------===//

SmallVector<Value> TensorBuilder::generic(StringRef loops, StringRef reductions, ArrayRef<Arg> ins, ArrayRef<Arg> outs,
                                          Body body) {
  SmallVector<utils::IteratorType> iterators;
  for (char loop : loops)
    iterators.push_back(reductions.contains(loop) ? utils::IteratorType::reduction : utils::IteratorType::parallel);
  SmallVector<Value> inputs, outputs;
  SmallVector<AffineMap> maps;
  SmallVector<Type> types;
  auto addMap = [&](const Arg &arg) {
    SmallVector<AffineExpr> exprs;
    for (char loop : arg.loops) {
      assert(loops.contains(loop) && "operand indexed by an unknown loop");
      exprs.push_back(getAffineDimExpr(loops.find(loop)));
    }
    maps.push_back(AffineMap::get(loops.size(), 0, exprs, getContext()));
  };
  for (const Arg &in : ins) {
    inputs.push_back(in.value);
    addMap(in);
  }
  for (const Arg &out : outs) {
    outputs.push_back(out.value);
    types.push_back(out.value.getType());
    addMap(out);
  }
  auto op = linalg::GenericOp::create(
      *this, types, inputs, outputs, maps, iterators, [&](OpBuilder &nested, Location loc, ValueRange args) {
        TensorBuilder b(loc, nested);
        SmallVector<Value> wide = llvm::map_to_vector(args, [&](Value arg) { return b.widen(arg); });
        SmallVector<Value> results = body(b, wide);
        for (auto [result, out] : llvm::zip_equal(results, args.take_back(outs.size())))
          result = b.narrow(result, out.getType());
        linalg::YieldOp::create(b, results);
      });
  return SmallVector<Value>(op.getResults());
}

Value TensorBuilder::generic(StringRef loops, StringRef reductions, ArrayRef<Arg> ins, Arg out,
                             llvm::function_ref<Value(TensorBuilder &, ValueRange)> body) {
  return generic(loops, reductions, ins, ArrayRef<Arg>(out),
                 [&](TensorBuilder &b, ValueRange args) { return SmallVector<Value>{body(b, args)}; })
      .front();
}

Value TensorBuilder::map(ValueRange ins, Value out, llvm::function_ref<Value(TensorBuilder &, ValueRange)> body) {
  StringRef loops = StringRef("abcdef").take_front(cast<RankedTensorType>(out.getType()).getRank());
  SmallVector<Arg> args;
  for (Value in : ins)
    args.push_back({in, loops});
  return generic(loops, "", args, Arg{out, loops}, body);
}

Value TensorBuilder::sum(ValueRange ins, llvm::function_ref<Value(TensorBuilder &, ValueRange)> body) {
  SmallVector<Arg> args;
  for (Value in : ins)
    args.push_back({in, "i"});
  Value total = generic("i", "i", args, Arg{zeros({}), ""}, [&](TensorBuilder &b, ValueRange values) {
    return b.add(values.back(), body(b, values.drop_back()));
  });
  return load(total);
}

SmallVector<Value> TensorBuilder::forEach(OpFoldResult begin, OpFoldResult end, ValueRange values,
                                          llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(*this, index(begin), index(end), index(1), values);
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToStart(loop.getBody());
  scf::YieldOp::create(*this, body(loop.getInductionVar(), loop.getRegionIterArgs()));
  return SmallVector<Value>(loop.getResults());
}

Value TensorBuilder::forEach(OpFoldResult begin, OpFoldResult end, Value value,
                             llvm::function_ref<Value(Value, Value)> body) {
  return forEach(begin, end, ValueRange(value),
                 [&](Value i, ValueRange carried) { return SmallVector<Value>{body(i, carried[0])}; })
      .front();
}
