//===- EmitShortConv.cpp - k3.kda.short_conv to vector code -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Channels are lanes. The last inputs of a sequence stay in registers while its rows are walked, so that the state is
// read and written once. With many sequences of one row each there is little to compute, and what there is to read comes
// from far in pieces too short for the hardware to follow: it is asked for while the sequences before are at work.
//
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "lib/Codegen/CPU/Emitters.h"
#include "lib/Codegen/CPU/VectorBuilder.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

/// Sequences that memory is asked for ahead: one takes less time than memory does.
constexpr int64_t sequencesAhead = 2;

class ShortConvEmitter {
public:
  ShortConvEmitter(OpBuilder &b, const TargetModel &target, KdaShortConvOp op)
      : v(b, op.getLoc(), target), op(op), channels(getStaticNamedDim(op, "C")), taps(getStaticNamedDim(op, "taps")) {}

  void emit() {
    weight = v.temporary({taps, channels});
    v.loopVectors(channels, [&](Value c, int64_t count) { transposeWeight(c, count); });
    Value zero = v.index(0), one = v.index(1), sequences = v.dim(op.getSlots(), 0);
    v.loop(zero, v.minIndex(v.index(sequencesAhead), sequences), one, [&](Value n) {
      v.loopVectors(channels, [&](Value c, int64_t) { prefetch(n, c); });
    });
    Value last = v.subIndex(sequences, one);
    v.loop(zero, sequences, one, [&](Value n) {
      Value low = v.loadIndex(op.getCu(), {n}), high = v.loadIndex(op.getCu(), {v.addIndex(n, one)});
      Value slot = v.loadIndex(op.getSlots(), {n});
      Value later = v.minIndex(v.addIndex(n, v.index(sequencesAhead)), last);
      // An empty sequence leaves its state alone.
      v.ifThen(v.compare(arith::CmpIPredicate::ult, low, high), [&] {
        v.loopVectors(channels, [&](Value c, int64_t count) {
          prefetch(later, c);
          emitSequence(slot, low, high, c, count);
        });
      });
    });
  }

private:
  /// weight[c + lane, j] to lane of [j, c]: the weights of all these channels lie one after the other.
  void transposeWeight(Value c, int64_t count) {
    OpBuilder &b = v.builder();
    SmallVector<ReassociationIndices> rows{{0, 1}};
    assert(memref::CollapseShapeOp::isGuaranteedCollapsible(cast<MemRefType>(op.getWeight().getType()), rows));
    Value flat = memref::CollapseShapeOp::create(b, v.getLoc(), op.getWeight(), rows);
    Value all = v.loadRaw(flat, {v.mulIndex(c, v.index(taps))}, count * taps);
    for (int64_t j = 0; j < taps; ++j) {
      SmallVector<int64_t> elements;
      for (int64_t lane = 0; lane < v.lanes(); ++lane)
        elements.push_back(std::min(lane, count - 1) * taps + j);
      Value ofTap = vector::ShuffleOp::create(b, v.getLoc(), all, all, elements);
      v.storePartial(v.fromStored(ofTap), weight, {v.index(j), c}, count);
    }
  }

  /// Asks for what sequence n needs first of the channels from c on.
  void prefetch(Value n, Value c) {
    Value slot = v.loadIndex(op.getSlots(), {n});
    for (int64_t r = 0; r < taps - 1; ++r)
      v.prefetch(op.getState(), {slot, v.index(r), c}, /*level=*/2);
    Value row = v.loadIndex(op.getCu(), {n});
    v.prefetch(op.getX(), {row, c});
    v.prefetchForWrite(op.getOut(), {row, c});
  }

  void emitSequence(Value slot, Value low, Value high, Value c, int64_t count) {
    SmallVector<Value> tap, old;
    for (int64_t j = 0; j < taps; ++j)
      tap.push_back(v.loadPartial(weight, {v.index(j), c}, count));
    for (int64_t r = 0; r < taps - 1; ++r)
      old.push_back(v.loadPartial(op.getState(), {slot, v.index(r), c}, count));
    old = v.loop(low, high, v.index(1), old, [&](Value t, ValueRange args) {
      SmallVector<Value> window(args);
      window.push_back(v.loadPartial(op.getX(), {t, c}, count));
      Value sum = v.mul(window[0], tap[0]);
      for (int64_t j = 1; j < taps; ++j)
        sum = v.fma(window[j], tap[j], sum);
      v.storePartial(op.getSilu() ? v.silu(sum) : sum, op.getOut(), {t, c}, count);
      window.erase(window.begin());
      return window;
    });
    for (int64_t r = 0; r < taps - 1; ++r)
      v.storePartial(old[r], op.getState(), {slot, v.index(r), c}, count);
  }

  VectorBuilder v;
  KdaShortConvOp op;
  int64_t channels, taps;
  Value weight; // [taps, channels]
};

} // namespace

void k3::populateShortConvEmitter(RewritePatternSet &patterns, const TargetModel &target) {
  patterns.add<EmitterClassPattern<KdaShortConvOp, ShortConvEmitter>>(patterns.getContext(), target);
}
