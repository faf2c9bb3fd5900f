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

/// score[i, j] = sum_d a[i, d] k[j, d] exp(G[i, d] - G[j, d]) for the first `rows` rows i and all j <= i, or j < i if
/// `strict`; the rest of `score` [L, L] is zero.
static Value emitScores(TensorBuilder &b, Anchor anchor, Value a, Value k, Value gates, Value rows, bool strict,
                        Value score) {
  score = b.fill(score, b.f32(0));
  Value zero = b.index(0), one = b.index(1);
  Value shiftedK = k, reference;
  if (anchor != Anchor::pairwise) {
    // exp(G_i - R) and exp(R - G_j) separately; R is a row of G in the middle, or zero.
    OpFoldResult width = b.size(k, 1);
    if (anchor == Anchor::mid_row)
      reference = b.slice(gates, {Dim::at(b.divIndex(rows, b.index(2))), Dim::all()});
    else
      reference = b.zeros({width});
    auto shift = [&](Value keys, bool up) {
      return b.generic("id", "", {{keys, "id"}, {gates, "id"}, {reference, "d"}}, Arg{b.empty(b.sizes(keys)), "id"},
                       [&](TensorBuilder &b, ValueRange args) {
                         Value exponent = up ? b.sub(args[1], args[2]) : b.sub(args[2], args[1]);
                         return b.mul(args[0], b.exp(exponent));
                       });
    };
    a = shift(a, true);
    shiftedK = shift(k, false);
  }
  return b.forEach(zero, rows, score, [&](Value i, Value score) {
    Value count = strict ? i : b.addIndex(i, one);
    SmallVector<Dim> at{Dim::at(i), Dim::range(zero, count)}, rowAt{Dim::at(i), Dim::all()};
    SmallVector<Dim> before{Dim::range(zero, count), Dim::all()};
    Value row = b.slice(a, rowAt), keys = b.slice(shiftedK, before), out = b.slice(score, at);
    if (anchor != Anchor::pairwise)
      out = b.generic("jd", "d", {{row, "d"}, {keys, "jd"}}, Arg{out, "j"}, multiplyAdd);
    else
      out = b.generic("jd", "d", {{row, "d"}, {keys, "jd"}, {b.slice(gates, rowAt), "d"}, {b.slice(gates, before), "jd"}},
                      Arg{out, "j"}, [](TensorBuilder &b, ValueRange args) {
                        Value product = b.mul(b.mul(args[0], args[1]), b.exp(b.sub(args[2], args[3])));
                        return b.add(args[4], product);
                      });
    return b.put(out, score, at);
  });
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
    Value q = emitKeys(b, b.slice(op.getQ(), inAt), rows, op.getScale().convertToDouble(), op.getL2norm(),
                       b.zeros(shape));
    Value k = emitKeys(b, b.slice(op.getK(), inAt), rows, 1, op.getL2norm(), b.zeros(shape));
    Value last = b.zeros({keyDim});
    SmallVector<Value> summed = b.forEach(zero, rows, {b.zeros(shape), last}, [&](Value i, ValueRange values) {
      SmallVector<Dim> at{Dim::at(i), Dim::all()};
      Value g = b.slice(op.getG(), {Dim::at(b.addIndex(begin, i)), Dim::at(h), Dim::all()});
      Value running = b.map(g, values[1], [](TensorBuilder &b, ValueRange args) { return b.add(args[1], args[0]); });
      return SmallVector<Value>{b.put(b.copy(running, b.slice(values[0], at)), values[0], at), running};
    });
    Value gates = summed[0];
    last = summed[1];

    auto scaled = [&](Value destination, Value keys, llvm::function_ref<Value(TensorBuilder &, Value)> exponent) {
      return b.generic("id", "", {{keys, "id"}, {gates, "id"}}, Arg{b.slice(destination, outAt), "id"},
                       [&](TensorBuilder &b, ValueRange args) {
                         return b.mul(args[0], b.exp(exponent(b, args[1])));
                       });
    };
    auto plain = [](TensorBuilder &, Value gate) { return gate; };
    Value qg = scaled(carried[0], q, plain);
    Value kd = b.generic("id", "", {{k, "id"}, {gates, "id"}, {last, "d"}}, Arg{b.slice(carried[3], outAt), "id"},
                         [&](TensorBuilder &b, ValueRange args) {
                           return b.mul(args[0], b.exp(b.sub(args[2], args[1])));
                         });
    Value aqk = emitScores(b, op.getAnchor(), q, k, gates, rows, /*strict=*/false, b.slice(carried[4], outAt));
    Value akk = emitScores(b, op.getAnchor(), k, k, gates, rows, /*strict=*/true, b.empty({length, length}));

    // (I + strict_lower(diag(b) Akk)) [w, u] = diag(b) [exp(G) k, v], by rows from the first.
    Value w = scaled(carried[1], k, plain);
    Value u = b.fill(b.slice(carried[2], outAt), b.f32(0));
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
        Value out = b.map(row, b.slice(matrix, at), [&](TensorBuilder &b, ValueRange args) { return b.mul(args[0], beta); });
        return b.put(out, matrix, at);
      };
      return SmallVector<Value>{solve(values[0]), solve(values[1])};
    });

    SmallVector<Dim> lastAt{Dim::at(c), Dim::at(h), Dim::all()};
    Value gl = b.copy(last, b.slice(carried[5], lastAt));
    return {b.put(qg, carried[0], outAt),  b.put(solved[0], carried[1], outAt), b.put(solved[1], carried[2], outAt),
            b.put(kd, carried[3], outAt),  b.put(aqk, carried[4], outAt),       b.put(gl, carried[5], lastAt)};
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

    Value out = b.fill(b.slice(carried[0], outAt), b.f32(0));
    out = b.generic("ivk", "k", {{b.slice(op.getQg(), usedAt), "ik"}, {state, "vk"}}, Arg{out, "iv"}, multiplyAdd);
    out = b.generic("ijv", "j", {{b.slice(op.getAqk(), usedAt), "ij"}, {fresh, "jv"}}, Arg{out, "iv"}, multiplyAdd);

    Value decay = b.slice(op.getGl(), {Dim::at(c), Dim::at(h), Dim::all()});
    decay = b.map(decay, b.empty(b.sizes(decay)), [](TensorBuilder &b, ValueRange args) { return b.exp(args[0]); });
    state = b.generic("vk", "", {{decay, "k"}}, Arg{state, "vk"},
                      [](TensorBuilder &b, ValueRange args) { return b.mul(args[1], args[0]); });
    state = b.generic("vik", "i", {{fresh, "iv"}, {b.slice(op.getKd(), at), "ik"}}, Arg{state, "vk"}, multiplyAdd);
    return {b.put(out, carried[0], outAt), b.put(state, carried[1], stateAt)};
  };

  return b.forEach(zero, b.size(op.getSlots(), 0), {op.getOut(), op.getState()}, [&](Value n, ValueRange carried) {
    Value slot = b.loadIndex(op.getSlots(), {n});
    Value begin = b.loadIndex(op.getChunkCu(), {n}), end = b.loadIndex(op.getChunkCu(), {b.addIndex(n, one)});
    return b.forEach(zero, b.size(op.getW(), 1), carried, [&](Value h, ValueRange carried) {
      return b.forEach(begin, end, carried,
                       [&](Value c, ValueRange carried) { return chunk(c, h, slot, carried); });
    });
  });
}
