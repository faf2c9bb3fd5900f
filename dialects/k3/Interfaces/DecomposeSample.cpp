//===- DecomposeSample.cpp - the choice of a token, as upstream ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// One row after the other, one element after the other, with scalars that loops carry: nothing has the size of the
// vocabulary. A threshold among the logits is found by halving the range of their keys, integers in the order of the
// floats.
//
//===----------------------------------------------------------------------===//
#include "dialects/k3/Interfaces/Decompose.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace mlir::k3;

namespace {

using Predicate = arith::CmpIPredicate;

class RowSampler {
public:
  RowSampler(SampleOp op, TensorBuilder &b, Value row);
  /// The chosen id, i32.
  Value choose();

private:
  /// A logit as it is in a loop over the vocabulary.
  struct Element {
    Value id;     ///< index
    Value x, key; ///< f32, i32
    Value usable; ///< i1: not banned
    Value finite; ///< i1
  };
  /// What a logit counts for.
  enum class Measure { Count, Weight, Floored };
  /// Of the logits in falling order, equal ones by rising id, the first ones: those above `key` and `count` that equal it.
  struct Prefix {
    Value key, count; ///< i32, i64
  };

  //===--- scalars ---===//
  Value integer(Type type, int64_t value) { return arith::ConstantOp::create(b, b.getIntegerAttr(type, value)); }
  Value i32(int64_t value) { return integer(b.getI32Type(), value); }
  Value i64(int64_t value) { return integer(b.getI64Type(), value); }
  Value f64(double value) { return arith::ConstantOp::create(b, b.getF64FloatAttr(value)); }
  static int64_t bitsOf(double value) {
    int64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }
  Value addI(Value x, Value y) { return b.createOrFold<arith::AddIOp>(x, y); }
  Value subI(Value x, Value y) { return b.createOrFold<arith::SubIOp>(x, y); }
  Value andI(Value x, Value y) { return b.createOrFold<arith::AndIOp>(x, y); }
  Value orI(Value x, Value y) { return b.createOrFold<arith::OrIOp>(x, y); }
  Value xorI(Value x, Value y) { return b.createOrFold<arith::XOrIOp>(x, y); }
  Value compare(Predicate how, Value x, Value y) { return b.createOrFold<arith::CmpIOp>(how, x, y); }
  Value less(Value x, Value y) { return compare(Predicate::slt, x, y); }
  Value bitcast(Type type, Value x) { return arith::BitcastOp::create(b, type, x); }
  Value widen(Value x) { return arith::ExtFOp::create(b, b.getF64Type(), x); }
  Value toI64(Value x) { return b.createOrFold<arith::ExtSIOp>(b.getI64Type(), x); }
  Value toF64(Value x) { return arith::SIToFPOp::create(b, b.getF64Type(), x); }
  Value parameter(int64_t position) {
    return tensor::ExtractOp::create(b, op.getParameters(), ValueRange{row, b.index(position)});
  }
  Value parameterAsFloat(int64_t position) { return bitcast(b.getF32Type(), parameter(position)); }
  /// A float of at least 0 and below 2^52 as the nearest integer.
  Value nearest(Value x) {
    return subI(bitcast(b.getI64Type(), b.add(x, f64(0x1p52))), i64(bitsOf(0x1p52)));
  }
  /// floor(x y / 2^64) of unsigned integers.
  Value mulHigh(Value x, Value y) { return arith::MulUIExtendedOp::create(b, x, y).getHigh(); }

  //===--- the vocabulary ---===//
  using Body = llvm::function_ref<SmallVector<Value>(const Element &, ValueRange)>;
  /// Over all ids if `wanted`, else over none.
  SmallVector<Value> forEachLogit(Value wanted, ValueRange values, Body body);
  Value keyOf(Value x);
  Value logitOf(Value key);
  Value weightOf(Value x);
  Value measureOf(Value x, Measure measure);
  /// Sum over `prefix` of what is at least `low` (i64, so that it may be above all keys).
  Value sumFrom(Value wanted, const Prefix &prefix, Measure measure, Value low);
  /// The first logits of `prefix`, in its order, up to the one with which their sum exceeds `target`.
  Prefix cut(Value wanted, const Prefix &prefix, Measure measure, Value target);

  SampleOp op;
  TensorBuilder &b;
  Value row;
  int64_t vocabulary, scale;
  Value ban;
  Value highest, inverse, floor; ///< f64, f64, i64
};

} // namespace

RowSampler::RowSampler(SampleOp op, TensorBuilder &b, Value row)
    : op(op), b(b), row(row), vocabulary(cast<ShapedType>(op.getLogits().getType()).getDimSize(1)),
      scale(std::min<int64_t>(51, 62 - llvm::Log2_64(static_cast<uint64_t>(vocabulary)))) {
  ban = b.createOrFold<arith::IndexCastOp>(b.getIndexType(), parameter(7));
}

//===----------------------------------------------------------------------===//
// Logits
//===----------------------------------------------------------------------===//

Value RowSampler::keyOf(Value x) {
  // -0 is 0.
  Value bits = bitcast(b.getI32Type(), b.add(x, b.f32(0)));
  return xorI(bits, andI(arith::ShRSIOp::create(b, bits, i32(31)), i32(INT32_MAX)));
}

Value RowSampler::logitOf(Value key) {
  return bitcast(b.getF32Type(), xorI(key, andI(arith::ShRSIOp::create(b, key, i32(31)), i32(INT32_MAX))));
}

SmallVector<Value> RowSampler::forEachLogit(Value wanted, ValueRange values, Body body) {
  Value end = b.select(wanted, b.index(vocabulary), b.index(0));
  return b.forEach(b.getIndexAttr(0), end, values, [&](Value id, ValueRange carried) {
    Element element;
    element.id = id;
    element.x = tensor::ExtractOp::create(b, op.getLogits(), ValueRange{row, id});
    element.key = keyOf(element.x);
    Value word = tensor::ExtractOp::create(b, op.getBanned(), ValueRange{ban, b.divIndex(id, b.getIndexAttr(32))});
    Value bit = b.createOrFold<arith::IndexCastOp>(b.getI32Type(), b.remIndex(id, b.getIndexAttr(32)));
    element.usable =
        compare(Predicate::eq, andI(arith::ShRUIOp::create(b, word, bit), i32(1)), i32(0));
    element.finite =
        less(andI(bitcast(b.getI32Type(), element.x), i32(INT32_MAX)), i32(0x7f800000));
    return body(element, carried);
  });
}

/// round(2^scale e^((x - highest) / t)) of an x that is not above the highest.
Value RowSampler::weightOf(Value x) {
  // e^y = 2^k e^r with k the integer nearest to y / ln 2; ln 2 in two parts, the first with enough trailing zeros that k
  // times it is exact. Adding `round` leaves k in the lowest bits.
  constexpr double round = 0x1.8p52;
  Value y = b.mul(b.sub(widen(x), highest), inverse);
  // Weights there are 0, whatever the scale.
  y = b.select(arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, y, f64(-100)), f64(-100), y);
  Value shifted = b.add(b.mul(y, f64(1.4426950408889634)), f64(round)), k = b.sub(shifted, f64(round));
  Value r = b.sub(y, b.mul(k, f64(0.69314718036912381649)));
  r = b.sub(r, b.mul(k, f64(1.9082149292705877e-10)));
  Value sum = f64(1.0 / 479001600);
  for (double factorial : {39916800.0, 3628800.0, 362880.0, 40320.0, 5040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0})
    sum = b.add(b.mul(sum, r), f64(1 / factorial));
  constexpr int64_t bias = 1023;
  Value exponent = addI(bitcast(b.getI64Type(), shifted), i64(bias + scale - bitsOf(round)));
  Value power = bitcast(b.getF64Type(), arith::ShLIOp::create(b, exponent, i64(52)));
  return nearest(b.mul(sum, power));
}

Value RowSampler::measureOf(Value x, Measure measure) {
  if (measure == Measure::Count)
    return i64(1);
  Value weight = weightOf(x);
  return measure == Measure::Weight ? weight : b.select(less(weight, floor), i64(0), weight);
}

//===----------------------------------------------------------------------===//
// Logits in falling order
//===----------------------------------------------------------------------===//

Value RowSampler::sumFrom(Value wanted, const Prefix &prefix, Measure measure, Value low) {
  // Carried: the sum, and how many equal the last key of the prefix.
  return forEachLogit(wanted, {i64(0), i64(0)}, [&](const Element &element, ValueRange carried) -> SmallVector<Value> {
    Value equal = andI(element.usable, compare(Predicate::eq, element.key, prefix.key));
    Value above = andI(element.usable, compare(Predicate::sgt, element.key, prefix.key));
    Value inside = orI(above, andI(equal, less(carried[1], prefix.count)));
    inside = andI(inside, compare(Predicate::sge, toI64(element.key), low));
    Value value = b.select(inside, measureOf(element.x, measure), i64(0));
    return {addI(carried[0], value), addI(carried[1], b.select(equal, i64(1), i64(0)))};
  })[0];
}

RowSampler::Prefix RowSampler::cut(Value wanted, const Prefix &prefix, Measure measure, Value target) {
  // The largest key from which on the sum exceeds `target`, in [low, high), and the sum from `high` on.
  constexpr int64_t least = INT32_MIN, halvings = 32;
  Value rounds = b.select(wanted, b.index(halvings), b.index(0));
  SmallVector<Value> found = b.forEach(
      b.getIndexAttr(0), rounds, {i64(least), i64(-least), i64(0)}, [&](Value, ValueRange carried) -> SmallVector<Value> {
        Value middle = arith::ShRSIOp::create(b, addI(carried[0], carried[1]), i64(1));
        Value sum = sumFrom(wanted, prefix, measure, middle), reached = less(target, sum);
        return {b.select(reached, middle, carried[0]), b.select(reached, carried[1], middle),
                b.select(reached, carried[2], sum)};
      });
  Value key = arith::TruncIOp::create(b, b.getI32Type(), found[0]);
  // All that equal it count for the same.
  Value each = arith::MaxSIOp::create(b, measureOf(logitOf(key), measure), i64(1));
  Value count = addI(arith::DivSIOp::create(b, subI(target, found[2]), each), i64(1));
  return {b.select(wanted, key, prefix.key), b.select(wanted, count, prefix.count)};
}

//===----------------------------------------------------------------------===//
// The row
//===----------------------------------------------------------------------===//

Value RowSampler::choose() {
  Value looked = compare(Predicate::ne, parameter(0), i32(0));
  Value temperature = parameterAsFloat(1), topK = parameter(2), topP = parameterAsFloat(3);

  // Carried: whether all are finite, the highest key and its id, the number of tokens.
  SmallVector<Value> seen =
      forEachLogit(looked, {i32(1), i32(INT32_MIN), i32(-1), i32(0)},
                   [&](const Element &element, ValueRange carried) -> SmallVector<Value> {
                     Value higher = andI(element.usable, less(carried[1], element.key));
                     Value id = b.createOrFold<arith::IndexCastOp>(b.getI32Type(), element.id);
                     return {b.select(element.finite, carried[0], i32(0)), b.select(higher, element.key, carried[1]),
                             b.select(higher, id, carried[2]), addI(carried[3], b.select(element.usable, i32(1), i32(0)))};
                   });
  Value fit = andI(compare(Predicate::ne, seen[0], i32(0)), less(i32(0), seen[3]));
  Value likeliest = b.select(fit, seen[2], i32(-1));
  Value warm = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, temperature, b.f32(0));
  Value sampled = andI(fit, warm);

  highest = widen(logitOf(seen[1]));
  inverse = b.div(f64(1), widen(b.select(warm, temperature, b.f32(1))));
  floor = nearest(b.mul(widen(parameterAsFloat(4)), f64(std::ldexp(1.0, int(scale)))));

  Prefix prefix = {i32(INT32_MIN), i64(0)};
  Value cutsK = andI(sampled, andI(less(i32(0), topK), less(topK, seen[3])));
  prefix = cut(cutsK, prefix, Measure::Count, subI(toI64(topK), i64(1)));

  Value cutsP = andI(sampled, arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, topP, b.f32(1)));
  Value total = sumFrom(cutsP, prefix, Measure::Weight, i64(INT32_MIN));
  // The sum must reach p times the total: exceed the largest integer below that.
  Value reach = b.mul(widen(topP), toF64(total));
  Value below = arith::FPToSIOp::create(b, b.getI64Type(), reach);
  Value whole = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, toF64(below), reach);
  below = b.select(whole, subI(below, i64(1)), below);
  below = arith::MaxSIOp::create(b, arith::MinSIOp::create(b, below, subI(total, i64(1))), i64(0));
  prefix = cut(cutsP, prefix, Measure::Weight, below);

  total = sumFrom(sampled, prefix, Measure::Floored, i64(INT32_MIN));
  auto unsignedWord = [&](int64_t position) -> Value {
    return arith::ExtUIOp::create(b, b.getI64Type(), parameter(position));
  };
  Value random = orI(unsignedWord(5), arith::ShLIOp::create(b, unsignedWord(6), i64(32)));
  Value target = mulHigh(arith::ShLIOp::create(b, random, i64(64 - 53)), total);

  // In falling order the choice is the last one of a prefix; else the first, by rising id, that exceeds the target.
  Value inOrder = orI(cutsK, cutsP);
  prefix = cut(inOrder, prefix, Measure::Floored, target);
  target = b.select(inOrder, subI(prefix.count, i64(1)), target);
  SmallVector<Value> chosen =
      forEachLogit(sampled, {i64(0), i32(-1)}, [&](const Element &element, ValueRange carried) -> SmallVector<Value> {
        Value hit = b.select(compare(Predicate::eq, element.key, prefix.key), i64(1), i64(0));
        Value value = b.select(inOrder, hit, measureOf(element.x, Measure::Floored));
        value = b.select(element.usable, value, i64(0));
        Value sum = addI(carried[0], value);
        Value reached = andI(less(carried[1], i32(0)), less(target, sum));
        Value id = b.createOrFold<arith::IndexCastOp>(b.getI32Type(), element.id);
        return {sum, b.select(reached, id, carried[1])};
      });
  return b.select(sampled, chosen[1], likeliest);
}

Decomposed k3::decompose(SampleOp op, TensorBuilder &b) {
  return {b.forEach(b.getIndexAttr(0), b.size(op.getIds(), 0), op.getIds(), [&](Value row, Value ids) -> Value {
    Value id = RowSampler(op, b, row).choose();
    return tensor::InsertOp::create(b, id, ids, ValueRange{row});
  })};
}
