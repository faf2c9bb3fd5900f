//===- DecomposeKda.cpp - KDA ops as upstream ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/Interfaces/Decompose.h"

using namespace mlir;
using namespace mlir::k3;

//===----------------------------------------------------------------------===//
// Short convolution
//===----------------------------------------------------------------------===//

Decomposed k3::decompose(KdaShortConvOp op, TensorBuilder &b) {
  Value x = op.getX(), zero = b.index(0);
  OpFoldResult taps = b.size(op.getWeight(), 1), channels = b.size(x, 1), history = b.size(op.getState(), 1);
  // Taps outermost, so that a tap's weights are contiguous.
  Value weight = b.generic("jc", "", {{op.getWeight(), "cj"}}, Arg{b.empty({taps, channels}), "jc"},
                           [](TensorBuilder &, ValueRange args) { return args[0]; });

  auto sequence = [&](Value n, ValueRange carried) -> SmallVector<Value> {
    Value begin = b.loadIndex(op.getCu(), {n}), end = b.loadIndex(op.getCu(), {b.addIndex(n, b.index(1))});
    Value slot = b.loadIndex(op.getSlots(), {n}), rows = b.subIndex(end, begin), state = carried[1];
    auto stateRow = [&](Value row) { return SmallVector<Dim>{Dim::at(slot), Dim::at(row), Dim::all()}; };
    // Input `position` counted from the oldest row of the state, in a sequence that is not empty: is it in the state,
    // and its row there or in x. The row that is not meant is clamped to one that exists.
    auto input = [&](Value position) {
      Value inState = b.lessIndex(position, history);
      Value old = b.minIndex(position, b.subIndex(history, b.index(1)));
      Value current = b.select(inState, zero, b.subIndex(position, history));
      return std::tuple(inState, b.slice(state, stateRow(old)),
                        b.slice(x, {Dim::at(b.addIndex(begin, current)), Dim::all()}));
    };

    Value out = b.forEach(zero, rows, carried[0], [&](Value i, Value out) {
      SmallVector<Dim> at{Dim::at(b.addIndex(begin, i)), Dim::all()};
      Value row = b.slice(out, at);
      Value sum = b.fill(b.accumulator(row), b.f32(0));
      sum = b.forEach(zero, taps, sum, [&](Value j, Value sum) {
        Value tap = b.slice(weight, {Dim::at(j), Dim::all()});
        auto [inState, old, current] = input(b.addIndex(i, j));
        return b.map({old, current, tap}, sum, [inState = inState](TensorBuilder &b, ValueRange args) {
          return b.add(args[3], b.mul(b.select(inState, args[0], args[1]), args[2]));
        });
      });
      if (op.getSilu())
        sum = b.map({}, sum, [](TensorBuilder &b, ValueRange args) { return b.mul(args[0], b.sigmoid(args[0])); });
      return b.put(b.finish(sum, row), out, at);
    });

    // The last `history` inputs, oldest first: what was at row r + rows of state|x moves to row r. An empty sequence
    // has nothing to move. Through a row of its own: source and destination are rows of one buffer.
    state = b.forEach(zero, b.select(b.lessIndex(zero, rows), b.index(history), zero), state, [&](Value r, Value next) {
      state = next;
      auto [inState, old, current] = input(b.addIndex(r, rows));
      Value row = b.map({old, current}, b.empty({channels}), [inState = inState](TensorBuilder &b, ValueRange args) {
        return b.select(inState, args[0], args[1]);
      });
      return b.put(b.copy(row, b.slice(next, stateRow(r))), next, stateRow(r));
    });
    return {out, state};
  };
  return b.forEach(zero, b.size(op.getSlots(), 0), {op.getOut(), op.getState()}, sequence);
}

//===----------------------------------------------------------------------===//
// Gates and norm
//===----------------------------------------------------------------------===//

Value k3::emitGate(TensorBuilder &b, GateKind kind, Value rate, double bound, Value logit) {
  if (kind == GateKind::bounded_sigmoid)
    return b.mul(b.f32(bound), b.sigmoid(b.mul(rate, logit)));
  return b.neg(b.mul(rate, b.softplus(logit)));
}

Decomposed k3::decompose(KdaGateOp op, TensorBuilder &b) {
  OpFoldResult heads = b.size(op.getZ(), 1);
  double bound = op.getLowerBound() ? op.getLowerBound()->convertToDouble() : 0;
  Value rate = op.getALog() ? b.map(b.slice(op.getALog(), {Dim::range(b.index(0), heads)}), b.empty({heads}),
                                    [](TensorBuilder &b, ValueRange args) { return b.exp(args[0]); })
                            : b.filled({heads}, b.f32(1));
  return {b.generic("thk", "", {{op.getZ(), "thk"}, {op.getDtBias(), "hk"}, {rate, "h"}}, Arg{op.getOut(), "thk"},
                    [&](TensorBuilder &b, ValueRange args) {
                      return emitGate(b, op.getKind(), args[2], bound, b.add(args[0], args[1]));
                    })};
}

Decomposed k3::decompose(KdaGatedNormOp op, TensorBuilder &b) {
  double eps = op.getEps().convertToDouble();
  Value zero = b.index(0);
  return {b.forEach(zero, b.size(op.getX(), 0), op.getOut(), [&](Value t, Value out) {
    return b.forEach(zero, b.size(op.getX(), 1), out, [&](Value h, Value out) {
      SmallVector<Dim> at{Dim::at(t), Dim::at(h), Dim::all()};
      Value row = b.slice(op.getX(), at);
      Value factor = emitRmsFactor(b, row, eps);
      Value gated = b.map({row, op.getWeight(), b.slice(op.getGate(), at)}, b.slice(out, at),
                          [&](TensorBuilder &b, ValueRange args) {
                            return b.mul(b.mul(b.mul(args[0], factor), args[1]), b.sigmoid(args[2]));
                          });
      return b.put(gated, out, at);
    });
  })};
}

//===----------------------------------------------------------------------===//
// Recurrence
//===----------------------------------------------------------------------===//

namespace {
/// What k3.kda.scan and k3.kda.recurrent_step share; g may be null, [.., H] or [.., H, K].
struct Recurrence {
  Value q, k, v, beta, g;
  double scale;
  bool l2norm, delta;
};
} // namespace

/// `row` times `factor`, and over its length with l2norm, in a fresh f32 tensor.
static Value emitKey(TensorBuilder &b, Value row, double factor, bool l2norm) {
  Value scale = b.f32(factor);
  if (l2norm) {
    Value squares = b.sum(row, [](TensorBuilder &b, ValueRange args) { return b.mul(args[0], args[0]); });
    scale = b.mul(scale, b.rsqrt(b.add(squares, b.f32(1e-6))));
  }
  return b.map(row, b.empty(b.sizes(row)), [&](TensorBuilder &b, ValueRange args) { return b.mul(args[0], scale); });
}

namespace {
/// What the recurrence needs of one token and head; `decay` is null, a scalar or [K].
struct HeadStep {
  Value q, k, beta, decay;
  bool delta;
  llvm::function_ref<Value(Value j)> value;
};
} // namespace

/// S <- S diag(decay); e = b (v - S k); S <- S + e k^T, one row of S = state[slot, h] after another; `read(j, S q, out)`
/// gives the new `out`. Returns {out, state}.
static SmallVector<Value> emitRows(TensorBuilder &b, const HeadStep &step, OpFoldResult rows, Value slot, Value h,
                                   Value out, Value state, llvm::function_ref<Value(Value, Value, Value)> read) {
  return b.forEach(b.index(0), rows, {out, state}, [&](Value j, ValueRange carried) -> SmallVector<Value> {
    SmallVector<Dim> rowAt{Dim::at(slot), Dim::at(h), Dim::at(j), Dim::all()};
    Value row = b.slice(carried[1], rowAt);
    if (step.decay && !isa<RankedTensorType>(step.decay.getType()))
      row = b.map({}, row, [&](TensorBuilder &b, ValueRange args) { return b.mul(args[0], step.decay); });
    else if (step.decay)
      row = b.map(step.decay, row, [](TensorBuilder &b, ValueRange args) { return b.mul(args[1], args[0]); });

    Value error = step.value(j);
    auto product = [](TensorBuilder &b, ValueRange args) { return b.mul(args[0], args[1]); };
    if (step.delta)
      error = b.sub(error, b.sum({row, step.k}, product));
    error = b.mul(step.beta, error);
    row = b.map(step.k, row, [&](TensorBuilder &b, ValueRange args) { return b.add(args[1], b.mul(error, args[0])); });
    return {read(j, b.sum({row, step.q}, product), carried[0]), b.put(row, carried[1], rowAt)};
  });
}

/// One token t and head h; returns {out, state}.
static SmallVector<Value> emitStep(TensorBuilder &b, const Recurrence &r, Value t, Value h, Value slot, Value out,
                                   Value state) {
  SmallVector<Dim> at{Dim::at(t), Dim::at(h), Dim::all()};
  Value decay;
  if (r.g && cast<RankedTensorType>(r.g.getType()).getRank() == 2) {
    decay = b.exp(b.load(r.g, {t, h}));
  } else if (r.g) {
    Value g = b.slice(r.g, at);
    decay = b.map(g, b.empty(b.sizes(g)), [](TensorBuilder &b, ValueRange args) { return b.exp(args[0]); });
  }
  auto value = [&](Value j) { return b.load(r.v, {t, h, j}); };
  HeadStep step{emitKey(b, b.slice(r.q, at), r.scale, r.l2norm), emitKey(b, b.slice(r.k, at), 1, r.l2norm),
                b.sigmoid(b.load(r.beta, {t, h})), decay, r.delta, value};
  return emitRows(b, step, b.size(r.v, 2), slot, h, out, state,
                  [&](Value j, Value sum, Value out) { return b.store(sum, out, {t, h, j}); });
}

/// Row n and channels [first, first + size) of a convolution with silu, as a fresh f32 tensor; `state` is advanced.
static Value emitConv(TensorBuilder &b, Value x, Value weight, Value n, Value slot, Value first, OpFoldResult size,
                      Value &state) {
  OpFoldResult history = b.size(state, 1);
  Dim channels = Dim::range(first, size);
  auto stateRow = [&](OpFoldResult row) { return SmallVector<Dim>{Dim::at(slot), Dim::at(row), channels}; };
  auto tap = [&](OpFoldResult j) { return b.slice(weight, {channels, Dim::at(j)}); };
  auto product = [](TensorBuilder &b, ValueRange args) { return b.add(args[2], b.mul(args[0], args[1])); };
  Value input = b.slice(x, {Dim::at(n), channels});
  Value sum = b.forEach(b.index(0), history, b.zeros({size}), [&](Value j, Value sum) {
    return b.map({b.slice(state, stateRow(j)), tap(j)}, sum, product);
  });
  sum = b.map({input, tap(history)}, sum, product);
  sum = b.map({}, sum, [](TensorBuilder &b, ValueRange args) { return b.mul(args[0], b.sigmoid(args[0])); });
  // Through a row of its own: source and destination are rows of one buffer.
  Value last = b.subIndex(history, b.index(1));
  state = b.forEach(b.index(0), last, state, [&](Value r, Value next) {
    Value row = b.copy(b.slice(next, stateRow(b.addIndex(r, b.index(1)))), b.empty({size}));
    return b.put(b.copy(row, b.slice(next, stateRow(r))), next, stateRow(r));
  });
  state = b.put(b.copy(input, b.slice(state, stateRow(last))), state, stateRow(last));
  return sum;
}

Decomposed k3::decompose(KdaDecodeStepOp op, TensorBuilder &b) {
  Value zero = b.index(0);
  OpFoldResult heads = b.size(op.getZ(), 1), keys = b.size(op.getZ(), 2), values = b.size(op.getGate(), 2);
  bool bounded = op.getKind() == GateKind::bounded_sigmoid;
  double bound = bounded ? op.getLowerBound()->convertToDouble() : 0;
  auto head = [&](Value n, Value h, Value slot, ValueRange carried) -> SmallVector<Value> {
    SmallVector<Dim> at{Dim::at(n), Dim::at(h), Dim::all()};
    Value firstKey = b.mulIndex(h, keys), firstValue = b.mulIndex(h, values);
    Value convQ = carried[2], convK = carried[3], convV = carried[4];
    Value q = emitConv(b, op.getQ(), op.getQWeight(), n, slot, firstKey, keys, convQ);
    Value k = emitConv(b, op.getK(), op.getKWeight(), n, slot, firstKey, keys, convK);
    Value v = emitConv(b, op.getV(), op.getVWeight(), n, slot, firstValue, values, convV);
    Value rate = op.getALog() ? b.exp(b.load(op.getALog(), {h})) : b.f32(1);
    Value z = b.slice(op.getZ(), at), bias = b.slice(op.getDtBias(), {Dim::at(h), Dim::all()});
    Value decay = b.map({z, bias}, b.empty({keys}), [&](TensorBuilder &b, ValueRange args) {
      Value y = b.add(args[0], args[1]);
      return b.exp(bounded ? b.mul(b.f32(bound), b.sigmoid(b.mul(rate, y))) : b.neg(b.mul(rate, b.softplus(y))));
    });
    auto value = [&](Value j) { return b.load(v, {j}); };
    HeadStep step{emitKey(b, q, op.getScale().convertToDouble(), op.getL2norm()), emitKey(b, k, 1, op.getL2norm()),
                  b.sigmoid(b.load(op.getBeta(), {n, h})), decay, op.getDelta(), value};
    SmallVector<Value> results =
        emitRows(b, step, values, slot, h, b.empty({values}), carried[1],
                 [&](Value j, Value sum, Value out) { return b.store(sum, out, {j}); });
    Value factor = emitRmsFactor(b, results[0], op.getEps().convertToDouble());
    Value gated = b.map({results[0], op.getNormWeight(), b.slice(op.getGate(), at)}, b.slice(carried[0], at),
                        [&](TensorBuilder &b, ValueRange args) {
                          return b.mul(b.mul(b.mul(args[0], factor), args[1]), b.sigmoid(args[2]));
                        });
    return {b.put(gated, carried[0], at), results[1], convQ, convK, convV};
  };
  return b.forEach(zero, b.size(op.getSlots(), 0),
                   {op.getOut(), op.getState(), op.getConvQ(), op.getConvK(), op.getConvV()},
                   [&](Value n, ValueRange carried) {
                     Value slot = b.loadIndex(op.getSlots(), {n});
                     return b.forEach(zero, heads, carried,
                                      [&](Value h, ValueRange carried) { return head(n, h, slot, carried); });
                   });
}

Decomposed k3::decompose(KdaRecurrentStepOp op, TensorBuilder &b) {
  Recurrence r{op.getQ(),      op.getK(),    op.getV(), op.getBeta(), op.getG(), op.getScale().convertToDouble(),
               op.getL2norm(), op.getDelta()};
  Value zero = b.index(0);
  return b.forEach(zero, b.size(op.getSlots(), 0), {op.getOut(), op.getState()}, [&](Value n, ValueRange carried) {
    Value slot = b.loadIndex(op.getSlots(), {n});
    return b.forEach(zero, b.size(op.getQ(), 1), carried,
                     [&](Value h, ValueRange carried) { return emitStep(b, r, n, h, slot, carried[0], carried[1]); });
  });
}

Decomposed k3::decompose(KdaScanOp op, TensorBuilder &b) {
  Recurrence r{op.getQ(),      op.getK(),    op.getV(), op.getBeta(), op.getG(), op.getScale().convertToDouble(),
               op.getL2norm(), op.getDelta()};
  Value zero = b.index(0);
  return b.forEach(zero, b.size(op.getSlots(), 0), {op.getOut(), op.getState()}, [&](Value n, ValueRange carried) {
    Value begin = b.loadIndex(op.getCu(), {n}), end = b.loadIndex(op.getCu(), {b.addIndex(n, b.index(1))});
    Value slot = b.loadIndex(op.getSlots(), {n});
    // Heads outside: the state of one head stays in cache while the tokens pass.
    return b.forEach(zero, b.size(op.getQ(), 1), carried, [&](Value h, ValueRange carried) {
      return b.forEach(begin, end, carried,
                       [&](Value t, ValueRange carried) { return emitStep(b, r, t, h, slot, carried[0], carried[1]); });
    });
  });
}
