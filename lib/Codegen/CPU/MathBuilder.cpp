//===- MathBuilder.cpp - f32 arithmetic and elementary functions as ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/CPU/MathBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::k3;

static Value constantOf(OpBuilder &b, Location loc, Type type, TypedAttr scalar) {
  if (auto shaped = dyn_cast<ShapedType>(type))
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(shaped, Attribute(scalar)));
  return arith::ConstantOp::create(b, loc, scalar);
}

Value MathBuilder::constant(double value) const { return constantOf(b, loc, type, b.getF32FloatAttr(value)); }

Value MathBuilder::constantInt(int32_t value) const {
  return constantOf(b, loc, intType(), b.getI32IntegerAttr(value));
}

Type MathBuilder::intType() const {
  if (auto shaped = dyn_cast<ShapedType>(type))
    return shaped.clone(b.getI32Type());
  return b.getI32Type();
}

Value MathBuilder::add(Value x, Value y) const { return arith::AddFOp::create(b, loc, x, y); }
Value MathBuilder::sub(Value x, Value y) const { return arith::SubFOp::create(b, loc, x, y); }
Value MathBuilder::mul(Value x, Value y) const { return arith::MulFOp::create(b, loc, x, y); }
Value MathBuilder::div(Value x, Value y) const { return arith::DivFOp::create(b, loc, x, y); }
Value MathBuilder::neg(Value x) const { return arith::NegFOp::create(b, loc, x); }
Value MathBuilder::abs(Value x) const { return math::AbsFOp::create(b, loc, x); }
Value MathBuilder::sqrt(Value x) const { return math::SqrtOp::create(b, loc, x); }
Value MathBuilder::rsqrt(Value x) const { return div(constant(1), sqrt(x)); }

Value MathBuilder::fma(Value x, Value y, Value z) const {
  // Without the instruction math.fma would become a call of fmaf.
  return hasFma ? Value(math::FmaOp::create(b, loc, x, y, z)) : add(mul(x, y), z);
}

// A comparison and a select in this operand order are exactly one maxps / minps.
Value MathBuilder::max(Value x, Value y) const {
  return arith::SelectOp::create(b, loc, arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, x, y), x, y);
}
Value MathBuilder::min(Value x, Value y) const {
  return arith::SelectOp::create(b, loc, arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x, y), x, y);
}

Value MathBuilder::polynomial(Value x, ArrayRef<double> coefficients) const {
  Value p = constant(coefficients.front());
  for (double c : coefficients.drop_front())
    p = fma(p, x, constant(c));
  return p;
}

Value MathBuilder::scale(Value x, Value n) const {
  Value all = arith::ConstantOp::create(b, loc, b.getI16IntegerAttr(-1));
  Value currentRounding = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(4));
  return LLVM::CallIntrinsicOp::create(b, loc, type, b.getStringAttr("llvm.x86.avx512.mask.scalef.ps.512"),
                                       ValueRange{x, n, constant(0.0), all, currentRounding})
      .getResult(0);
}

Value MathBuilder::scaleByPowerOfTwo(Value x, Value n) const {
  // In two halves, so that neither factor leaves the exponent range.
  Value half = arith::ShRSIOp::create(b, loc, n, constantInt(1));
  Value rest = arith::SubIOp::create(b, loc, n, half);
  for (Value part : {half, rest}) {
    Value bits = arith::ShLIOp::create(b, loc, arith::AddIOp::create(b, loc, part, constantInt(127)), constantInt(23));
    x = mul(x, arith::BitcastOp::create(b, loc, type, bits));
  }
  return x;
}

/// Adding it leaves an integer of few bits in the low bits of an f32: 1.5 * 2^23.
static constexpr float shifter = 12582912.0f;

MathBuilder::ReducedExp MathBuilder::reduceExp(Value x) const {
  // x = n ln2 + r, |r| <= ln2 / 2.
  Value shifted = fma(x, constant(1.44269504088896341), constant(shifter));
  Value n = sub(shifted, constant(shifter));
  Value r = fma(n, constant(-0.693359375), x);
  r = fma(n, constant(2.12194440e-4), r);
  Value p = polynomial(
      r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1});
  return {n, arith::BitcastOp::create(b, loc, intType(), shifted), fma(p, mul(r, r), r)};
}

Value MathBuilder::exp(Value x) const {
  // Beyond these the result is 0 or infinity anyway. The bound is the first operand, so that NaN stays NaN.
  x = min(constant(89.0), x);
  x = max(constant(-104.0), x);
  ReducedExp reduced = reduceExp(x);
  Value p = add(reduced.rest, constant(1.0));
  if (hasScale)
    return scale(p, reduced.n);
  return scaleByPowerOfTwo(
      p, arith::SubIOp::create(b, loc, reduced.bits, constantInt(llvm::bit_cast<int32_t>(shifter))));
}

MathBuilder::Decay MathBuilder::decay(Value x) const {
  // Here 2^n is a normal number still, and the result as good as 0.
  ReducedExp reduced = reduceExp(max(constant(-87.0), x));
  Value bits = arith::ShLIOp::create(b, loc, reduced.bits, constantInt(23));
  bits = arith::AddIOp::create(b, loc, bits, constantInt(127 << 23));
  Value power = arith::BitcastOp::create(b, loc, type, bits);
  return {fma(reduced.rest, power, power), fma(neg(reduced.rest), power, sub(constant(1.0), power))};
}

Value MathBuilder::sigmoid(Value x) const {
  Value one = constant(1.0);
  return div(one, add(one, exp(neg(x))));
}

Value MathBuilder::silu(Value x) const {
  // x / (1 + exp(-x)): for very negative x the denominator is infinite and the result -0.
  return div(x, add(constant(1.0), exp(neg(x))));
}

Value MathBuilder::tanh(Value x) const {
  // (1 - e) / (1 + e) with e = exp(-2 |x|)
  Value rest = decay(mul(abs(x), constant(-2.0))).rest;
  return math::CopySignOp::create(b, loc, div(rest, sub(constant(2.0), rest)), x);
}

Value MathBuilder::softplus(Value x) const {
  // max(x, 0) + log1p(t), t = exp(-|x|) in [0, 1]; log1p(t) = 2 atanh(s), s = t / (2 + t) <= 1/3.
  Value t = exp(neg(abs(x)));
  Value s = div(t, add(t, constant(2.0)));
  Value z = mul(s, s);
  Value p = polynomial(z, {0.10393793134679948, 0.08732356233913934, 0.11132354999799758, 0.1428515289366334,
                           0.20000005384227287, 0.3333333332501694});
  Value twice = add(s, s);
  Value log1p = fma(mul(twice, z), p, twice);
  return add(max(constant(0.0), x), log1p);
}

Value MathBuilder::swiglu(Value gate, Value up) const { return mul(silu(gate), up); }

Value MathBuilder::situ(Value gate, Value up, double beta, double linearBeta) const {
  // Every factor is a fraction (see tanh; the sigmoid is 1 or e over 1 + e with e = exp(-|gate|)), with a denominator
  // from 1 to 2, so that one division is enough.
  Value size = abs(gate), one = constant(1.0), two = constant(2.0);
  Decay ofGate = decay(mul(size, constant(-2 / beta))), ofUp = decay(mul(abs(up), constant(-2 / linearBeta)));
  Value e = beta == 4 ? mul(ofGate.exp, ofGate.exp) : exp(neg(size));
  Value isNegative = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, gate, constant(0.0));
  Value sigmoid = arith::SelectOp::create(b, loc, isNegative, e, one);
  Value top = mul(mul(ofGate.rest, ofUp.rest), mul(sigmoid, constant(beta * linearBeta)));
  Value bottom = mul(mul(sub(two, ofGate.rest), sub(two, ofUp.rest)), add(one, e));
  return math::CopySignOp::create(b, loc, div(top, bottom), mul(gate, up));
}
