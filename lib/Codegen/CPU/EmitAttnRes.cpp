//===- EmitAttnRes.cpp - k3.attn_res.mix to vector code -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A row at a time: one pass over its sources for their scores, one that mixes them, one over the mix for its norm, all
// but the first in the first level cache. What there is to compute takes less time than memory does: half of every row
// was written by another thread, and layers ago. So the row that comes next is asked for meanwhile, and the lines of
// the result before they are written.
//
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "lib/Codegen/CPU/Emitters.h"
#include "lib/Codegen/CPU/VectorBuilder.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

class MixEmitter {
public:
  MixEmitter(OpBuilder &b, const TargetModel &target, AttnResMixOp op)
      : v(b, op.getLoc(), target), op(op), slots(getStaticNamedDim(op, "R")), width(getStaticNamedDim(op, "d")) {}

  void emit() {
    weights = v.temporary({slots});
    v.loop(v.index(0), v.dim(op.getOut(), 0), v.index(1), [&](Value t) {
      v.loopVectors(width, [&](Value c, int64_t) { v.prefetchForWrite(op.getOut(), {t, c}); });
      computeWeights(t);
      mix(t);
      if (op.getOutWeight())
        norm(t);
    });
  }

private:
  /// softmax(l)_s to weights[s].
  void computeWeights(Value t) {
    MathBuilder s = v.scalar();
    Value zero = v.index(0), one = v.index(1), following = v.addIndex(t, one);
    SmallVector<Value> top = v.loop(zero, op.getSources(), one, s.constant(lowest), [&](Value source, ValueRange args) {
      SmallVector<Value> sums =
          v.loopVectors(width, {v.zero(), v.zero()}, [&](Value c, int64_t count, ValueRange inner) {
            v.prefetch(op.getStream(), {source, following, c}, /*level=*/2);
            Value x = v.loadPartial(op.getStream(), {source, t, c}, count);
            Value weight = v.mul(v.loadPartial(op.getNormWeight(), {c}, count),
                                 v.loadPartial(op.getProjWeight(), {zero, c}, count));
            return SmallVector<Value>{v.fma(x, x, inner[0]), v.fma(x, weight, inner[1])};
          });
      Value score = s.mul(inverseRms(v.reduceAdd(sums[0]), op.getEps()), v.reduceAdd(sums[1]));
      v.storeScalar(score, weights, {source});
      return SmallVector<Value>{s.max(args[0], score)};
    });
    SmallVector<Value> total = v.loop(zero, op.getSources(), one, s.constant(0.0), [&](Value source, ValueRange args) {
      Value weight = s.exp(s.sub(v.loadScalar(weights, {source}), top[0]));
      v.storeScalar(weight, weights, {source});
      return SmallVector<Value>{s.add(args[0], weight)};
    });
    inverseTotal = v.broadcast(s.div(s.constant(1.0), total[0]));
  }

  /// sum_s weights[s] * v_s to the row of `out`.
  void mix(Value t) {
    constexpr int64_t vectors = 4;
    v.loopColumns(width, vectors * v.lanes(), [&](ArrayRef<Value> at, int64_t count) {
      SmallVector<Value> sums =
          v.loop(v.index(0), op.getSources(), v.index(1), SmallVector<Value>(at.size(), v.zero()),
                 [&](Value source, ValueRange args) {
                   SmallVector<Value> next(args);
                   Value weight = v.broadcast(v.loadScalar(weights, {source}));
                   for (auto [sum, c] : llvm::zip_equal(next, at))
                     sum = v.fma(weight, v.loadPartial(op.getStream(), {source, t, c}, count), sum);
                   return next;
                 });
      for (auto [sum, c] : llvm::zip_equal(sums, at))
        v.storePartial(v.mul(sum, inverseTotal), op.getOut(), {t, c}, count);
    });
  }

  void norm(Value t) {
    SmallVector<Value> squares = v.loopVectors(width, v.zero(), [&](Value c, int64_t count, ValueRange args) {
      Value x = v.loadPartial(op.getOut(), {t, c}, count);
      return SmallVector<Value>{v.fma(x, x, args[0])};
    });
    Value factor = v.broadcast(inverseRms(v.reduceAdd(squares[0]), *op.getOutEps()));
    v.loopVectors(width, [&](Value c, int64_t count) {
      Value x = v.mul(v.loadPartial(op.getOut(), {t, c}, count), factor);
      v.storePartial(v.mul(x, v.loadPartial(op.getOutWeight(), {c}, count)), op.getOut(), {t, c}, count);
    });
  }

  /// rsqrt(squares / width + eps)
  Value inverseRms(Value squares, const APFloat &eps) {
    MathBuilder s = v.scalar();
    Value mean = s.mul(squares, s.constant(1.0 / static_cast<double>(width)));
    return s.rsqrt(s.add(mean, s.constant(eps.convertToDouble())));
  }

  /// Below every score.
  static constexpr double lowest = -3e38;

  VectorBuilder v;
  AttnResMixOp op;
  int64_t slots, width;
  Value weights;      // [R]: scores, then exp of their distances from the highest
  Value inverseTotal; // 1 / sum of weights
};

} // namespace

void k3::populateAttnResEmitter(RewritePatternSet &patterns, const TargetModel &target) {
  patterns.add<EmitterClassPattern<AttnResMixOp, MixEmitter>>(patterns.getContext(), target);
}
