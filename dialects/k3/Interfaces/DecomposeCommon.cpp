//===- DecomposeCommon.cpp - ops every layer uses, as upstream ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/Interfaces/Decompose.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::k3;

//===----------------------------------------------------------------------===//
// Shared pieces
//===----------------------------------------------------------------------===//

Value k3::emitRmsFactor(TensorBuilder &b, Value row, double eps) {
  Value squares = b.sum(row, [](TensorBuilder &b, ValueRange args) { return b.mul(args[0], args[0]); });
  OpFoldResult size = b.size(row, 0);
  std::optional<int64_t> constant = getConstantIntValue(size);
  Value count = constant ? b.f32(*constant)
                         : arith::SIToFPOp::create(b, b.getF32Type(),
                                                   arith::IndexCastOp::create(b, b.getI32Type(), b.index(size)))
                               .getResult();
  return b.rsqrt(b.add(b.div(squares, count), b.f32(eps)));
}

Value k3::emitGlu(TensorBuilder &b, Activation activation, double beta, double linearBeta, Value gate, Value up) {
  if (activation == Activation::swiglu)
    return b.mul(b.mul(gate, b.sigmoid(gate)), up);
  auto cap = [&](Value x, double bound) { return b.mul(b.f32(bound), b.tanh(b.mul(x, b.f32(1 / bound)))); };
  return b.mul(b.mul(cap(gate, beta), b.sigmoid(gate)), cap(up, linearBeta));
}

std::pair<Value, Value> k3::emitE2M1Pair(TensorBuilder &b, Value byte) {
  Type i32 = b.getI32Type();
  auto constant = [&](int64_t value) -> Value { return arith::ConstantOp::create(b, b.getI32IntegerAttr(value)); };
  Value bits = b.createOrFold<arith::ExtUIOp>(i32, byte);
  auto decode = [&](Value code) -> Value {
    // Twice the magnitude is an integer: 0 1 2 3 4 6 8 12.
    Value exponent = arith::AndIOp::create(b, arith::ShRUIOp::create(b, code, constant(1)), constant(3));
    Value mantissa = arith::AndIOp::create(b, code, constant(1));
    Value isSubnormal = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, exponent, constant(0));
    Value shift = arith::SelectOp::create(b, isSubnormal, constant(0), arith::SubIOp::create(b, exponent, constant(1)));
    Value implicitBit = arith::SelectOp::create(b, isSubnormal, constant(0), constant(2));
    Value twice = arith::ShLIOp::create(b, arith::OrIOp::create(b, implicitBit, mantissa), shift);
    Value magnitude = b.mul(arith::SIToFPOp::create(b, b.getF32Type(), twice), b.f32(0.5));
    // The sign goes into the sign bit, so that -0 stays -0.
    Value sign = arith::ShLIOp::create(b, arith::AndIOp::create(b, code, constant(8)), constant(28));
    Value signedBits = arith::OrIOp::create(b, arith::BitcastOp::create(b, i32, magnitude), sign);
    return arith::BitcastOp::create(b, b.getF32Type(), signedBits);
  };
  return {decode(arith::AndIOp::create(b, bits, constant(15))), decode(arith::ShRUIOp::create(b, bits, constant(4)))};
}

Value k3::emitE8M0(TensorBuilder &b, Value code) {
  auto constant = [&](int64_t value) -> Value { return arith::ConstantOp::create(b, b.getI32IntegerAttr(value)); };
  Value bits = b.createOrFold<arith::ExtUIOp>(b.getI32Type(), code);
  auto is = [&](int64_t value) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, bits, constant(value));
  };
  Value pattern = arith::ShLIOp::create(b, bits, constant(23));
  pattern = arith::SelectOp::create(b, is(0), constant(0x00400000), pattern);
  pattern = arith::SelectOp::create(b, is(255), constant(0x7FC00000), pattern);
  return arith::BitcastOp::create(b, b.getF32Type(), pattern);
}

/// A [.., K] tensor as [.., K / inner, inner].
static Value splitLast(TensorBuilder &b, Value tensor, int64_t inner) {
  auto type = cast<RankedTensorType>(tensor.getType());
  int64_t last = type.getRank() - 1;
  SmallVector<OpFoldResult> sizes = b.sizes(tensor);
  SmallVector<int64_t> shape(type.getShape());
  int64_t size = shape[last];
  shape[last] = ShapedType::isDynamic(size) ? size : size / inner;
  shape.push_back(inner);
  sizes[last] = getAsOpFoldResult(b.divIndex(sizes[last], b.getIndexAttr(inner)));
  sizes.push_back(b.getIndexAttr(inner));
  SmallVector<ReassociationIndices> groups;
  for (int64_t dim = 0; dim < last; ++dim)
    groups.push_back({dim});
  groups.push_back({last, last + 1});
  return tensor::ExpandShapeOp::create(b, RankedTensorType::get(shape, type.getElementType()), tensor, groups, sizes);
}

std::pair<Value, Value> k3::splitEvenOdd(TensorBuilder &b, Value x) {
  Value pairs = splitLast(b, splitLast(b, x, 32), 2); // [K / 32, 16, 2]
  auto part = [&](int64_t parity) {
    Value elements = b.slice(pairs, {Dim::all(), Dim::all(), Dim::at(b.getIndexAttr(parity))});
    return b.copy(elements, b.empty(b.sizes(elements)));
  };
  return {part(0), part(1)};
}

Value k3::emitMatVec(TensorBuilder &b, Value x, Value odd, Value weight, Value scale, Value out) {
  if (!scale)
    return b.generic("nk", "k", {{x, "k"}, {weight, "nk"}}, Arg{out, "n"},
                     [](TensorBuilder &b, ValueRange args) { return b.add(args[2], b.mul(args[0], args[1])); });
  // A byte holds two weights: loops over rows, groups of 32 weights, 16 bytes.
  Value bytes = splitLast(b, weight, 16);
  return b.generic("ngj", "gj", {{x, "gj"}, {odd, "gj"}, {bytes, "ngj"}, {scale, "ng"}}, Arg{out, "n"},
                   [](TensorBuilder &b, ValueRange args) {
                     auto [low, high] = emitE2M1Pair(b, args[2]);
                     Value products = b.add(b.mul(args[0], low), b.mul(args[1], high));
                     return b.add(args[4], b.mul(products, emitE8M0(b, args[3])));
                   });
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

Decomposed k3::decompose(GatherRowsOp op, TensorBuilder &b) {
  return {b.forEach(b.index(0), b.size(op.getIds(), 0), op.getOut(), [&](Value t, Value out) {
    Value row = b.slice(op.getTable(), {Dim::at(b.loadIndex(op.getIds(), {t})), Dim::all()});
    SmallVector<Dim> at{Dim::at(t), Dim::all()};
    return b.put(b.copy(row, b.slice(out, at)), out, at);
  })};
}

Decomposed k3::decompose(LinearOp op, TensorBuilder &b) {
  Value out = b.accumulator(op.getOut());
  if (!op.getAccumulate())
    out = b.fill(out, b.f32(0));
  out = b.generic("tnk", "k", {{op.getX(), "tk"}, {op.getWeight(), "nk"}}, Arg{out, "tn"},
                  [&](TensorBuilder &b, ValueRange args) {
                    Value x = op.getBf16X() ? b.widen(b.narrow(args[0], b.getBF16Type())) : args[0];
                    return b.add(args[2], b.mul(x, args[1]));
                  });
  return {b.finish(out, op.getOut())};
}

Decomposed k3::decompose(MxContractOp op, TensorBuilder &b) {
  return {b.forEach(b.index(0), b.size(op.getX(), 0), op.getOut(), [&](Value t, Value out) {
    SmallVector<Dim> at{Dim::at(t), Dim::all()};
    Value x = b.slice(op.getX(), at), row = b.slice(out, at);
    if (op.getBf16X())
      x = b.copy(x, b.empty(b.sizes(x), b.getBF16Type()));
    auto [even, odd] = splitEvenOdd(b, x);
    Value sums = b.accumulator(row);
    if (!op.getAccumulate())
      sums = b.fill(sums, b.f32(0));
    sums = emitMatVec(b, even, odd, op.getWeight(), op.getScale(), sums);
    return b.put(b.finish(sums, row), out, at);
  })};
}

Decomposed k3::decompose(RmsNormOp op, TensorBuilder &b) {
  double eps = op.getEps().convertToDouble();
  return {b.forEach(b.index(0), b.size(op.getX(), 0), op.getOut(), [&](Value t, Value out) {
    SmallVector<Dim> at{Dim::at(t), Dim::all()};
    Value row = b.slice(op.getX(), at);
    Value factor = emitRmsFactor(b, row, eps);
    Value normed = b.map({row, op.getWeight()}, b.slice(out, at),
                         [&](TensorBuilder &b, ValueRange args) { return b.mul(b.mul(args[0], factor), args[1]); });
    return b.put(normed, out, at);
  })};
}

Decomposed k3::decompose(GluOp op, TensorBuilder &b) {
  return {b.map({op.getGate(), op.getUp()}, op.getOut(), [&](TensorBuilder &b, ValueRange args) {
    return emitGlu(b, op.getActivation(), op.getBeta().convertToDouble(), op.getLinearBeta().convertToDouble(), args[0],
                   args[1]);
  })};
}

Decomposed k3::decompose(SigmoidGateOp op, TensorBuilder &b) {
  return {b.map({op.getX(), op.getGate()}, op.getOut(),
                [](TensorBuilder &b, ValueRange args) { return b.mul(args[0], b.sigmoid(args[1])); })};
}
