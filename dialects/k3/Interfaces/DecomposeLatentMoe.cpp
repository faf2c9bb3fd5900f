//===- DecomposeLatentMoe.cpp - LatentMoE ops as upstream ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/Interfaces/Decompose.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::k3;

/// Index of the first element of `scores` [E] that equals its maximum. In range also when elements are NaN.
static Value emitArgMax(TensorBuilder &b, Value scores) {
  Value lowest = b.filled({}, b.f32(-std::numeric_limits<float>::infinity()));
  Value highest = b.load(b.generic("e", "e", {{scores, "e"}}, Arg{lowest, ""},
                                   [](TensorBuilder &b, ValueRange args) { return b.max(args[1], args[0]); }));
  // Two reductions rather than one of (value, index) pairs: both vectorize.
  Type i32 = b.getI32Type();
  Value last = arith::IndexCastOp::create(b, i32, b.subIndex(b.size(scores, 0), b.getIndexAttr(1)));
  Value first = linalg::FillOp::create(b, last, b.empty({}, i32)).getResult(0);
  first = b.generic("e", "e", {{scores, "e"}}, Arg{first, ""}, [&](TensorBuilder &b, ValueRange args) -> Value {
    Value position = arith::IndexCastOp::create(b, i32, linalg::IndexOp::create(b, 0));
    Value hit = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, args[0], highest);
    return arith::MinSIOp::create(b, args[1], arith::SelectOp::create(b, hit, position, last));
  });
  return b.loadIndex(first, {});
}

Decomposed k3::decompose(MoeRouteOp op, TensorBuilder &b) {
  OpFoldResult experts = b.size(op.getLogits(), 1), topK = b.size(op.getIds(), 1);
  Value zero = b.index(0);
  auto token = [&](Value t, ValueRange carried) -> SmallVector<Value> {
    SmallVector<Dim> at{Dim::at(t), Dim::all()};
    Value scores = b.map(b.slice(op.getLogits(), at), b.empty({experts}),
                         [](TensorBuilder &b, ValueRange args) { return b.sigmoid(args[0]); });
    Value biased = b.map({scores, op.getBias()}, b.empty({experts}),
                         [](TensorBuilder &b, ValueRange args) { return b.add(args[0], args[1]); });
    SmallVector<Value> chosen =
        b.forEach(zero, topK, {carried[0], carried[1], b.zeros({}), biased},
                  [&](Value i, ValueRange values) -> SmallVector<Value> {
                    Value id = emitArgMax(b, values[3]), score = b.load(scores, {id});
                    Value taken = b.store(b.f32(-std::numeric_limits<float>::infinity()), values[3], {id});
                    return {b.storeIndex(id, values[0], {t, i}), b.store(score, values[1], {t, i}),
                            b.store(b.add(b.load(values[2]), score), values[2], {}), taken};
                  });
    Value scale = b.f32(op.getScale().convertToDouble());
    if (op.getRenormalize())
      scale = b.div(scale, b.add(b.load(chosen[2]), b.f32(1e-20)));
    Value weights =
        b.map({}, b.slice(chosen[1], at), [&](TensorBuilder &b, ValueRange args) { return b.mul(args[0], scale); });
    return {chosen[0], b.put(weights, chosen[1], at)};
  };
  return b.forEach(zero, b.size(op.getLogits(), 0), {op.getIds(), op.getWeights()}, token);
}

Decomposed k3::decompose(MoePlanOp op, TensorBuilder &b) {
  OpFoldResult tokens = b.size(op.getIds(), 0), topK = b.size(op.getIds(), 1);
  Value zero = b.index(0), one = b.index(1);
  Value experts = b.subIndex(b.size(op.getOffsets(), 0), one);
  /// Every slot in rising order.
  auto forEachSlot = [&](ValueRange values, llvm::function_ref<SmallVector<Value>(Value, Value, ValueRange)> body) {
    return b.forEach(zero, tokens, values, [&](Value t, ValueRange values) {
      return b.forEach(zero, topK, values, [&](Value i, ValueRange values) {
        return body(b.addIndex(b.mulIndex(t, topK), i), b.loadIndex(op.getIds(), {t, i}), values);
      });
    });
  };
  auto increment = [&](Value tensor, Value position) {
    return b.storeIndex(b.addIndex(b.loadIndex(tensor, {position}), one), tensor, {position});
  };

  // offsets[e + 1] counts expert e, then sums up what is before it.
  Value none = arith::ConstantOp::create(b, b.getI32IntegerAttr(0));
  Value offsets = linalg::FillOp::create(b, none, op.getOffsets()).getResult(0);
  offsets = forEachSlot(offsets, [&](Value, Value id, ValueRange values) -> SmallVector<Value> {
    return {increment(values[0], b.addIndex(id, one))};
  })[0];
  offsets = b.forEach(zero, experts, offsets, [&](Value e, Value offsets) {
    Value next = b.addIndex(e, one);
    Value end = b.addIndex(b.loadIndex(offsets, {e}), b.loadIndex(offsets, {next}));
    return b.storeIndex(end, offsets, {next});
  });

  // A cursor per expert walks through its range.
  Value cursors = b.copy(b.slice(offsets, {Dim::range(zero, experts)}), b.empty({experts}, b.getI32Type()));
  SmallVector<Value> sorted =
      forEachSlot({op.getPerm(), cursors}, [&](Value slot, Value id, ValueRange values) -> SmallVector<Value> {
        Value position = b.loadIndex(values[1], {id});
        Value perm = b.storeIndex(slot, values[0], {b.divIndex(position, topK), b.remIndex(position, topK)});
        return {perm, increment(values[1], id)};
      });
  if (Value progress = op.getProgress())
    return {linalg::FillOp::create(b, none, progress).getResult(0), offsets, sorted[0]};
  return {offsets, sorted[0]};
}

namespace {
/// The products of all slots with their experts' matrices.
struct SlotProducts {
  Value x, offsets, perm, weight, scale, upWeight, upScale;
  bool roundsX;
  std::optional<Activation> activation;
  double beta = 0, linearBeta = 0;

  Value emit(TensorBuilder &b, Value out) const;
};
} // namespace

Value SlotProducts::emit(TensorBuilder &b, Value out) const {
  OpFoldResult topK = b.size(perm, 1);
  Value zero = b.index(0), one = b.index(1);
  bool perSlot = cast<RankedTensorType>(x.getType()).getRank() == 3;
  auto matrix = [&](Value weights, Value expert) {
    return weights ? b.slice(weights, {Dim::at(expert), Dim::all(), Dim::all()}) : Value();
  };
  return b.forEach(zero, b.size(weight, 0), out, [&](Value e, Value out) {
    Value begin = b.loadIndex(offsets, {e}), end = b.loadIndex(offsets, {b.addIndex(e, one)});
    Value ownWeight = matrix(weight, e), ownScale = matrix(scale, e);
    Value ownUpWeight = matrix(upWeight, e), ownUpScale = matrix(upScale, e);
    return b.forEach(begin, end, out, [&](Value position, Value out) {
      Value slot = b.loadIndex(perm, {b.divIndex(position, topK), b.remIndex(position, topK)});
      Value token = b.divIndex(slot, topK), choice = b.remIndex(slot, topK);
      Value row = perSlot ? b.slice(x, {Dim::at(token), Dim::at(choice), Dim::all()})
                          : b.slice(x, {Dim::at(token), Dim::all()});
      if (roundsX)
        row = b.copy(row, b.empty(b.sizes(row), b.getBF16Type()));
      Value odd;
      if (ownScale)
        std::tie(row, odd) = splitEvenOdd(b, row);
      SmallVector<Dim> at{Dim::at(token), Dim::at(choice), Dim::all()};
      Value place = b.slice(out, at);
      Value product = emitMatVec(b, row, odd, ownWeight, ownScale, b.fill(b.accumulator(place), b.f32(0)));
      if (ownUpWeight) {
        Value up = emitMatVec(b, row, odd, ownUpWeight, ownUpScale, b.zeros({b.size(out, 2)}));
        product = b.map(up, product, [&](TensorBuilder &b, ValueRange args) {
          return emitGlu(b, *activation, beta, linearBeta, args[1], args[0]);
        });
      }
      return b.put(b.finish(product, place), out, at);
    });
  });
}

Decomposed k3::decompose(MoeGroupedContractOp op, TensorBuilder &b) {
  SlotProducts products{op.getX(),        op.getOffsets(),  op.getPerm(),   op.getWeight(),
                        op.getScale(),    op.getUpWeight(), op.getUpScale(), op.getBf16X(),
                        op.getActivation(), op.getBeta().convertToDouble(), op.getLinearBeta().convertToDouble()};
  return {products.emit(b, op.getOut())};
}

Decomposed k3::decompose(MoeExpertMlpOp op, TensorBuilder &b) {
  SlotProducts gated{op.getX(),     op.getOffsets(),  op.getPerm(),   op.getWeight(),
                     op.getScale(), op.getUpWeight(), op.getUpScale(), op.getBf16X(),
                     op.getActivation(), op.getBeta().convertToDouble(), op.getLinearBeta().convertToDouble()};
  Value inner = gated.emit(b, op.getInner());
  SlotProducts down{inner,   op.getOffsets(), op.getPerm(), op.getDownWeight(), op.getDownScale(),
                    Value(), Value(),         op.getBf16X(), std::nullopt};
  return {inner, down.emit(b, op.getOut()), op.getProgress()};
}

Decomposed k3::decompose(MoeCombineOp op, TensorBuilder &b) {
  Value out = b.accumulator(op.getOut());
  if (!op.getAccumulate())
    out = b.fill(out, b.f32(0));
  out = b.generic("tkn", "k", {{op.getY(), "tkn"}, {op.getWeights(), "tk"}}, Arg{out, "tn"},
                  [](TensorBuilder &b, ValueRange args) { return b.add(args[2], b.mul(args[0], args[1])); });
  return {b.finish(out, op.getOut())};
}
