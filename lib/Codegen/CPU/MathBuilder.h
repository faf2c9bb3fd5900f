//===- MathBuilder.h - f32 arithmetic and elementary functions as ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_CPU_MATHBUILDER_H
#define K3_CODEGEN_CPU_MATHBUILDER_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mlir::k3 {

/// Emits arithmetic on one type, f32 or a vector of f32. The elementary functions are branch-free, call nothing, and
/// keep NaN. Errors (measured over their whole range): exp 1 ulp, sigmoid 2.5, tanh 2, softplus 3, rsqrt 1.
class MathBuilder {
public:
  /// `hasScale`: the type is a vector of 16 and the target has AVX-512, which scales by powers of two.
  MathBuilder(OpBuilder &b, Location loc, Type type, bool hasFma, bool hasScale = false)
      : b(b), loc(loc), type(type), hasFma(hasFma), hasScale(hasScale) {}

  OpBuilder &builder() const { return b; }
  Location getLoc() const { return loc; }

  Value constant(double value) const;
  /// A constant of the i32 type of the same shape.
  Value constantInt(int32_t value) const;

  Value add(Value x, Value y) const;
  Value sub(Value x, Value y) const;
  Value mul(Value x, Value y) const;
  Value div(Value x, Value y) const;
  Value neg(Value x) const;
  Value abs(Value x) const;
  /// x * y + z, fused where the target can.
  Value fma(Value x, Value y, Value z) const;
  /// x > y ? x : y; y where either is NaN.
  Value max(Value x, Value y) const;
  Value min(Value x, Value y) const;

  Value exp(Value x) const;
  /// 1 / (1 + exp(-x))
  Value sigmoid(Value x) const;
  /// x * sigmoid(x)
  Value silu(Value x) const;
  Value tanh(Value x) const;
  /// log(1 + exp(x))
  Value softplus(Value x) const;
  /// silu(gate) * up
  Value swiglu(Value gate, Value up) const;
  /// beta tanh(gate / beta) sigmoid(gate) * linearBeta tanh(up / linearBeta)
  Value situ(Value gate, Value up, double beta, double linearBeta) const;
  Value sqrt(Value x) const;
  /// 1 / sqrt(x)
  Value rsqrt(Value x) const;

protected:
  /// c[0] x^(n-1) + ... + c[n-1]
  Value polynomial(Value x, ArrayRef<double> coefficients) const;
  /// x * 2^n for integer n, given as f32, in one instruction.
  Value scale(Value x, Value n) const;
  /// x * 2^n for integer n in [-250, 250], with gradual underflow.
  Value scaleByPowerOfTwo(Value x, Value n) const;
  Type intType() const;
  /// exp(x) = 2^n (1 + rest), |rest| < 0.42; `bits`: of an f32 whose low bits are n.
  struct ReducedExp {
    Value n, bits, rest;
  };
  ReducedExp reduceExp(Value x) const;
  /// exp(x) and 1 - exp(x) for x <= 0, both to the last bits; exp(x) is 1.6e-38 or more.
  struct Decay {
    Value exp, rest;
  };
  Decay decay(Value x) const;

  OpBuilder &b;
  Location loc;
  Type type;
  bool hasFma, hasScale;
};

} // namespace mlir::k3

#endif // K3_CODEGEN_CPU_MATHBUILDER_H
