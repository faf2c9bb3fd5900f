//===- DecomposeChunkedKda.cpp - chunked KDA as upstream ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/Interfaces/Decompose.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::k3;

static Value multiplyAdd(TensorBuilder &b, ValueRange args) { return b.add(args[2], b.mul(args[0], args[1])); }

/// [rows, K] times `factor`, each row divided by its length with l2norm, in `out`, rows past them untouched.
static Value emitKeys(TensorBuilder &b, Value in, OpFoldResult rows, double factor, bool l2norm, Value out) {
  return b.forEach(b.index(0), rows, out, [&](Value i, Value out) {
    SmallVector<Dim> at{Dim::at(i), Dim::all()};
    Value row = b.slice(in, at), scale = b.f32(factor);
    if (l2norm) {
      Value squares = b.sum(row, [](TensorBuilder &b, ValueRange args) { return b.mul(args[0], args[0]); });
      scale = b.mul(scale, b.rsqrt(b.add(squares, b.f32(1e-6))));
    }
    return b.put(b.map(row, b.slice(out, at), [&](TensorBuilder &b, ValueRange args) { return b.mul(args[0], scale); }),
                 out, at);
  });
}

namespace {
/// Of one chunk and head: [L, L] scores of queries and keys with earlier keys, and [L, K], what each row still decays
/// by until the end of the chunk, as an exponent.
struct Scores {
  Value aqk, akk, remaining;
};
} // namespace

/// out[j] += sum_d row[d] keys[j, d]
static Value emitRowScores(TensorBuilder &b, Value row, Value keys, Value out) {
  return b.generic("jd", "d", {{row, "d"}, {keys, "jd"}}, Arg{out, "j"}, multiplyAdd);
}

/// Scores of row i with keys whose decay up to row i is already in them: j <= i for queries, j < i for keys.
static void emitScoresOfRow(TensorBuilder &b, Value q, Value k, Value decayedKeys, Value i, Scores &scores) {
  Value zero = b.index(0);
  SmallVector<Dim> row{Dim::at(i), Dim::all()};
  auto emit = [&](Value from, Value count, Value matrix) {
    SmallVector<Dim> at{Dim::at(i), Dim::range(zero, count)};
    Value keys = b.slice(decayedKeys, {Dim::range(zero, count), Dim::all()});
    return b.put(emitRowScores(b, b.slice(from, row), keys, b.slice(matrix, at)), matrix, at);
  };
  scores.aqk = emit(q, b.addIndex(i, b.index(1)), scores.aqk);
  scores.akk = emit(k, i, scores.akk);
}

/// exp(G_i - G_j) as exp(G_i - R) exp(R - G_j), R a row of G in the middle, or zero.
static void emitFactoredScores(TensorBuilder &b, Anchor anchor, Value q, Value k, Value gates, Value last, Value rows,
                               Scores &scores) {
  Value reference = anchor == Anchor::mid_row ? b.slice(gates, {Dim::at(b.divIndex(rows, b.index(2))), Dim::all()})
                                              : b.zeros({b.size(k, 1)});
  auto shift = [&](Value keys, bool up) {
    return b.generic("id", "", {{keys, "id"}, {gates, "id"}, {reference, "d"}}, Arg{b.empty(b.sizes(keys)), "id"},
                     [&](TensorBuilder &b, ValueRange args) {
                       return b.mul(args[0], b.exp(up ? b.sub(args[1], args[2]) : b.sub(args[2], args[1])));
                     });
  };
  Value shiftedQ = shift(q, true), shiftedK = shift(k, true), decayedKeys = shift(k, false);
  SmallVector<Value> results =
      b.forEach(b.index(0), rows, {scores.aqk, scores.akk}, [&](Value i, ValueRange carried) -> SmallVector<Value> {
        Scores row{carried[0], carried[1], {}};
        emitScoresOfRow(b, shiftedQ, shiftedK, decayedKeys, i, row);
        return {row.aqk, row.akk};
      });
  scores.aqk = results[0];
  scores.akk = results[1];
  scores.remaining = b.generic("id", "", {{gates, "id"}, {last, "d"}}, Arg{scores.remaining, "id"},
                               [](TensorBuilder &b, ValueRange args) { return b.sub(args[1], args[0]); });
}

/// exp(G_i - G_j) for every pair. The exponent is the sum of the gates between the rows, not the difference of two
/// sums: after a gate of -1000 that would have lost what a gate of -0.001 adds.
static void emitPairwiseScores(TensorBuilder &b, Value q, Value k, Value g, Value rows, Scores &scores) {
  Value zero = b.index(0);
  Value decayedKeys = b.empty(b.sizes(k));
  SmallVector<Value> results =
      b.forEach(zero, rows, {scores.aqk, scores.akk, b.fill(scores.remaining, b.f32(0)), decayedKeys},
                [&](Value i, ValueRange carried) -> SmallVector<Value> {
                  SmallVector<Dim> earlier{Dim::range(zero, i), Dim::all()};
                  SmallVector<Dim> used{Dim::range(zero, b.addIndex(i, b.index(1))), Dim::all()};
                  Value gate = b.slice(g, {Dim::at(i), Dim::all()});
                  Value sums = b.generic("jd", "", {{gate, "d"}}, Arg{b.slice(carried[2], earlier), "jd"},
                                         [](TensorBuilder &b, ValueRange args) { return b.add(args[1], args[0]); });
                  sums = b.put(sums, carried[2], earlier);
                  Value decayed =
                      b.map({b.slice(k, used), b.slice(sums, used)}, b.slice(carried[3], used),
                            [](TensorBuilder &b, ValueRange args) { return b.mul(args[0], b.exp(args[1])); });
                  decayed = b.put(decayed, carried[3], used);
                  Scores row{carried[0], carried[1], {}};
                  emitScoresOfRow(b, q, k, decayed, i, row);
                  return {row.aqk, row.akk, sums, decayed};
                });
  scores = {results[0], results[1], results[2]};
}

/// [L, K] of which the first `rows` are the log-decays of head h from the logits at `inAt`.
static Value emitGateRows(TensorBuilder &b, KdaChunkPrepareOp op, ArrayRef<Dim> inAt, Value rows, Value h) {
  Value rate = op.getALog() ? b.exp(b.load(op.getALog(), {h})) : b.f32(1);
  double bound = op.getLowerBound() ? op.getLowerBound()->convertToDouble() : 0;
  Value bias = b.slice(op.getDtBias(), {Dim::at(h), Dim::all()});
  Value all = b.empty({b.size(op.getQg(), 2), b.size(op.getQ(), 2)});
  SmallVector<Dim> used{Dim::range(b.index(0), rows), Dim::all()};
  Value made = b.generic("id", "", {{b.slice(op.getG(), inAt), "id"}, {bias, "d"}}, Arg{b.slice(all, used), "id"},
                         [&](TensorBuilder &b, ValueRange args) {
                           return emitGate(b, *op.getGate(), rate, bound, b.add(args[0], args[1]));
                         });
  return b.put(made, all, used);
}

Decomposed k3::decompose(KdaChunkPrepareOp op, TensorBuilder &b) {
  Value zero = b.index(0), one = b.index(1);
  OpFoldResult length = b.size(op.getQg(), 2), keyDim = b.size(op.getQ(), 2);

  auto chunkAndHead = [&](Value c, Value h, ValueRange carried) -> SmallVector<Value> {
    Value begin = b.loadIndex(op.getChunks(), {c, zero}), rows = b.loadIndex(op.getChunks(), {c, one});
    SmallVector<Dim> inAt{Dim::range(begin, rows), Dim::at(h), Dim::all()};
    SmallVector<Dim> outAt{Dim::at(c), Dim::at(h), Dim::all(), Dim::all()};
    SmallVector<Dim> used{Dim::range(zero, rows), Dim::all()};
    SmallVector<OpFoldResult> shape{length, keyDim};

    // Queries, keys and the running sum of gates; rows past the chunk's end are zero.
    Value q =
        emitKeys(b, b.slice(op.getQ(), inAt), rows, op.getScale().convertToDouble(), op.getL2norm(), b.zeros(shape));
    Value k = emitKeys(b, b.slice(op.getK(), inAt), rows, 1, op.getL2norm(), b.zeros(shape));
    Value last = b.zeros({keyDim});
    Value gateRows = op.getGate() ? emitGateRows(b, op, inAt, rows, h) : b.slice(op.getG(), inAt);
    SmallVector<Value> summed = b.forEach(zero, rows, {b.zeros(shape), last}, [&](Value i, ValueRange values) {
      SmallVector<Dim> at{Dim::at(i), Dim::all()};
      Value g = b.slice(gateRows, at);
      Value running = b.map(g, values[1], [](TensorBuilder &b, ValueRange args) { return b.add(args[1], args[0]); });
      return SmallVector<Value>{b.put(b.copy(running, b.slice(values[0], at)), values[0], at), running};
    });
    Value gates = summed[0];
    last = summed[1];

    // Parts in f32 are made in place; of others a sum is not rounded before it is complete.
    auto part = [&](unsigned i) { return b.accumulator(b.slice(carried[i], outAt)); };
    auto put = [&](Value value, unsigned i) {
      return b.put(b.finish(value, b.slice(carried[i], outAt)), carried[i], outAt);
    };
    auto scaled = [&](unsigned i, Value keys) {
      return b.map({keys, gates}, part(i),
                   [](TensorBuilder &b, ValueRange args) { return b.mul(args[0], b.exp(args[1])); });
    };
    Value qg = scaled(0, q);
    // kd holds its exponent first.
    Scores scores{b.fill(part(4), b.f32(0)), b.zeros({length, length}), part(3)};
    if (op.getAnchor() == Anchor::pairwise || op.getAnchor() == Anchor::tile_row)
      emitPairwiseScores(b, q, k, gateRows, rows, scores);
    else
      emitFactoredScores(b, op.getAnchor(), q, k, gates, last, rows, scores);
    Value kd =
        b.map(k, scores.remaining, [](TensorBuilder &b, ValueRange args) { return b.mul(args[0], b.exp(args[1])); });
    Value aqk = scores.aqk, akk = scores.akk;

    // (I + strict_lower(diag(b) Akk)) [w, u] = diag(b) [exp(G) k, v], by rows from the first.
    Value w = scaled(1, k);
    Value u = b.fill(part(2), b.f32(0));
    u = b.put(b.copy(b.slice(op.getV(), inAt), b.slice(u, used)), u, used);
    SmallVector<Value> solved = b.forEach(zero, rows, {w, u}, [&](Value i, ValueRange values) {
      Value beta = b.sigmoid(b.load(op.getBeta(), {b.addIndex(begin, i), h}));
      Value coefficients = b.slice(akk, {Dim::at(i), Dim::range(zero, i)});
      auto solve = [&](Value matrix) {
        SmallVector<Dim> at{Dim::at(i), Dim::all()};
        // Through a row of its own: the rows it depends on are in the same buffer.
        Value row = b.copy(b.slice(matrix, at), b.empty({b.size(matrix, 1)}));
        Value before = b.slice(matrix, {Dim::range(zero, i), Dim::all()});
        row = b.generic("jd", "j", {{coefficients, "j"}, {before, "jd"}}, Arg{row, "d"},
                        [](TensorBuilder &b, ValueRange args) { return b.sub(args[2], b.mul(args[0], args[1])); });
        Value out =
            b.map(row, b.slice(matrix, at), [&](TensorBuilder &b, ValueRange args) { return b.mul(args[0], beta); });
        return b.put(out, matrix, at);
      };
      return SmallVector<Value>{solve(values[0]), solve(values[1])};
    });

    SmallVector<Dim> lastAt{Dim::at(c), Dim::at(h), Dim::all()};
    Value gl = b.map(last, b.slice(carried[5], lastAt),
                     [](TensorBuilder &b, ValueRange args) { return b.exp(args[0]); });
    return {put(qg, 0), put(solved[0], 1), put(solved[1], 2),
            put(kd, 3), put(aqk, 4),       b.put(gl, carried[5], lastAt)};
  };

  return b.forEach(zero, b.size(op.getChunks(), 0), op.getDpsInits(), [&](Value c, ValueRange carried) {
    return b.forEach(zero, b.size(op.getQ(), 1), carried,
                     [&](Value h, ValueRange carried) { return chunkAndHead(c, h, carried); });
  });
}

Decomposed k3::decompose(KdaChunkScanOp op, TensorBuilder &b) {
  Value zero = b.index(0), one = b.index(1);

  auto chunk = [&](Value c, Value h, Value slot, ValueRange carried) -> SmallVector<Value> {
    Value begin = b.loadIndex(op.getChunks(), {c, zero}), rows = b.loadIndex(op.getChunks(), {c, one});
    SmallVector<Dim> at{Dim::at(c), Dim::at(h), Dim::all(), Dim::all()};
    SmallVector<Dim> usedAt{Dim::at(c), Dim::at(h), Dim::range(zero, rows), Dim::all()};
    SmallVector<Dim> stateAt{Dim::at(slot), Dim::at(h), Dim::all(), Dim::all()};
    SmallVector<Dim> outAt{Dim::range(begin, rows), Dim::at(h), Dim::all()};
    Value state = b.slice(carried[1], stateAt); // [V, K]

    Value u = b.slice(op.getU(), at);
    Value fresh = b.copy(u, b.empty(b.sizes(u)));
    fresh = b.generic("ivk", "k", {{b.slice(op.getW(), at), "ik"}, {state, "vk"}}, Arg{fresh, "iv"},
                      [](TensorBuilder &b, ValueRange args) { return b.sub(args[2], b.mul(args[0], args[1])); });

    // Sums that need an f32 tensor of their own get one of constant size.
    Value sums = b.slice(carried[0], outAt);
    if (!cast<RankedTensorType>(sums.getType()).getElementType().isF32())
      sums = b.slice(b.empty(b.sizes(u)), {Dim::range(zero, rows), Dim::all()});
    Value out = b.fill(sums, b.f32(0));
    out = b.generic("ivk", "k", {{b.slice(op.getQg(), usedAt), "ik"}, {state, "vk"}}, Arg{out, "iv"}, multiplyAdd);
    out = b.generic("ijv", "j", {{b.slice(op.getAqk(), usedAt), "ij"}, {fresh, "jv"}}, Arg{out, "iv"}, multiplyAdd);

    Value decay = b.slice(op.getGl(), {Dim::at(c), Dim::at(h), Dim::all()});
    state = b.generic("vk", "", {{decay, "k"}}, Arg{state, "vk"},
                      [](TensorBuilder &b, ValueRange args) { return b.mul(args[1], args[0]); });
    state = b.generic("vik", "i", {{fresh, "iv"}, {b.slice(op.getKd(), at), "ik"}}, Arg{state, "vk"}, multiplyAdd);
    out = b.finish(out, b.slice(carried[0], outAt));
    return {b.put(out, carried[0], outAt), b.put(state, carried[1], stateAt)};
  };

  return b.forEach(zero, b.size(op.getSlots(), 0), {op.getOut(), op.getState()}, [&](Value n, ValueRange carried) {
    Value slot = b.loadIndex(op.getSlots(), {n});
    Value begin = b.loadIndex(op.getChunkCu(), {n}), end = b.loadIndex(op.getChunkCu(), {b.addIndex(n, one)});
    return b.forEach(zero, b.size(op.getW(), 1), carried, [&](Value h, ValueRange carried) {
      return b.forEach(begin, end, carried, [&](Value c, ValueRange carried) { return chunk(c, h, slot, carried); });
    });
  });
}
