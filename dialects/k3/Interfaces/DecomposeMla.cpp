//===- DecomposeMla.cpp - MLA ops as upstream ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/Interfaces/Decompose.h"

using namespace mlir;
using namespace mlir::k3;

/// Calls `body(row, position in the sequence, sequence, carried)` for every row of the step.
static SmallVector<Value> forEachRow(TensorBuilder &b, Value cu, Value lengths, ValueRange values,
                                     llvm::function_ref<SmallVector<Value>(Value, Value, Value, ValueRange)> body) {
  return b.forEach(b.index(0), b.size(lengths, 0), values, [&](Value n, ValueRange values) {
    Value begin = b.loadIndex(cu, {n}), end = b.loadIndex(cu, {b.addIndex(n, b.index(1))});
    Value length = b.loadIndex(lengths, {n});
    return b.forEach(begin, end, values, [&](Value t, ValueRange values) {
      return body(t, b.addIndex(length, b.subIndex(t, begin)), n, values);
    });
  });
}

Decomposed k3::decompose(MlaAppendOp op, TensorBuilder &b) {
  OpFoldResult latent = b.size(op.getNormWeight(), 0), width = b.size(op.getKv(), 1), page = b.size(op.getCache(), 1);
  Value zero = b.index(0), rest = b.subIndex(width, latent);
  double eps = op.getEps().convertToDouble();
  return forEachRow(
      b, op.getCu(), op.getLengths(), op.getCache(),
      [&](Value t, Value position, Value n, ValueRange carried) -> SmallVector<Value> {
        Value pageId = b.loadIndex(op.getPageTable(), {n, b.divIndex(position, page)}),
              row = b.remIndex(position, page);
        auto part = [&](OpFoldResult offset, OpFoldResult size) {
          return SmallVector<Dim>{Dim::at(pageId), Dim::at(row), Dim::range(offset, size)};
        };
        Value kv = b.slice(op.getKv(), {Dim::at(t), Dim::range(zero, latent)});
        Value factor = emitRmsFactor(b, kv, eps);
        Value normed = b.map({kv, op.getNormWeight()}, b.slice(carried[0], part(zero, latent)),
                             [&](TensorBuilder &b, ValueRange args) { return b.mul(b.mul(args[0], factor), args[1]); });
        Value cache = b.put(normed, carried[0], part(zero, latent));
        Value key =
            b.copy(b.slice(op.getKv(), {Dim::at(t), Dim::range(latent, rest)}), b.slice(cache, part(latent, rest)));
        return {b.put(key, cache, part(latent, rest))};
      });
}

Decomposed k3::decompose(MlaAbsorbOp op, TensorBuilder &b) {
  OpFoldResult nope = b.getIndexAttr(op.getNope()), latent = b.size(op.getKvB(), 2);
  Value zero = b.index(0), rest = b.subIndex(b.size(op.getQ(), 2), nope);
  auto part = [&](OpFoldResult offset, OpFoldResult size) {
    return SmallVector<Dim>{Dim::all(), Dim::all(), Dim::range(offset, size)};
  };
  Value q = b.slice(op.getQ(), part(zero, nope));
  Value keys = b.slice(op.getKvB(), {Dim::all(), Dim::range(zero, nope), Dim::all()});
  Value absorbed = b.fill(b.slice(op.getOut(), part(zero, latent)), b.f32(0));
  absorbed = b.generic("thjl", "j", {{q, "thj"}, {keys, "hjl"}}, Arg{absorbed, "thl"},
                       [](TensorBuilder &b, ValueRange args) { return b.add(args[2], b.mul(args[0], args[1])); });
  Value out = b.put(absorbed, op.getOut(), part(zero, latent));
  Value shared = b.copy(b.slice(op.getQ(), part(nope, rest)), b.slice(out, part(latent, rest)));
  return {b.put(shared, out, part(latent, rest))};
}

Decomposed k3::decompose(MlaExpandOp op, TensorBuilder &b) {
  Value values =
      b.slice(op.getKvB(), {Dim::all(), Dim::range(b.getIndexAttr(op.getNope()), b.size(op.getOut(), 2)), Dim::all()});
  Value sum = b.fill(b.accumulator(op.getOut()), b.f32(0));
  sum = b.generic("thjl", "l", {{values, "hjl"}, {op.getX(), "thl"}}, Arg{sum, "thj"},
                  [](TensorBuilder &b, ValueRange args) { return b.add(args[2], b.mul(args[0], args[1])); });
  return {b.finish(sum, op.getOut())};
}

Decomposed k3::decompose(MlaAttendOp op, TensorBuilder &b) {
  OpFoldResult page = b.size(op.getCache(), 1), heads = b.size(op.getQ(), 1), latent = b.size(op.getOut(), 2);
  Value zero = b.index(0), one = b.index(1), scale = b.f32(op.getScale().convertToDouble());
  Value lowest = b.f32(-std::numeric_limits<float>::infinity());
  return forEachRow(
      b, op.getCu(), op.getLengths(), op.getOut(),
      [&](Value t, Value position, Value n, ValueRange carried) -> SmallVector<Value> {
        SmallVector<Dim> at{Dim::at(t), Dim::all(), Dim::all()};
        Value q = b.slice(op.getQ(), at), visible = b.addIndex(position, one);
        // Online softmax, a page at a time for all heads: a page is read once. Carried: the weighted sum, the maximum
        // and the sum of weights so far.
        Value sum = b.fill(b.slice(carried[0], at), b.f32(0));
        SmallVector<Value> state = b.forEach(
            zero, b.ceilDivIndex(visible, page), {sum, b.filled({heads}, lowest), b.zeros({heads})},
            [&](Value p, ValueRange state) -> SmallVector<Value> {
              Value pageId = b.loadIndex(op.getPageTable(), {n, p});
              Value rows = b.minIndex(page, b.subIndex(visible, b.mulIndex(p, page)));
              Value keys = b.slice(op.getCache(), {Dim::at(pageId), Dim::range(zero, rows), Dim::all()});
              Value values = b.slice(keys, {Dim::all(), Dim::range(zero, latent)});
              // Sized by the page, not by its rows in use, so that the temporary has a bound.
              SmallVector<Dim> used{Dim::all(), Dim::range(zero, rows)};
              Value scores = b.fill(b.slice(b.empty({heads, page}), used), b.f32(0));
              scores =
                  b.generic("hsd", "d", {{q, "hd"}, {keys, "sd"}}, Arg{scores, "hs"},
                            [](TensorBuilder &b, ValueRange args) { return b.add(args[2], b.mul(args[0], args[1])); });
              scores = b.map({}, scores, [&](TensorBuilder &b, ValueRange args) { return b.mul(args[0], scale); });
              Value pageHighest = b.generic("hs", "s", {{scores, "hs"}}, Arg{b.filled({heads}, lowest), "h"},
                                            [](TensorBuilder &b, ValueRange args) { return b.max(args[1], args[0]); });
              // The new maximum, in place, and what the sums so far shrink by.
              SmallVector<Value> scaling =
                  b.generic("h", "", {{pageHighest, "h"}}, {{state[1], "h"}, {b.empty({heads}), "h"}},
                            [](TensorBuilder &b, ValueRange args) -> SmallVector<Value> {
                              Value highest = b.max(args[1], args[0]);
                              return {highest, b.exp(b.sub(args[1], highest))};
                            });
              Value highest = scaling[0], shrink = scaling[1];
              Value weights =
                  b.generic("hs", "", {{highest, "h"}}, Arg{scores, "hs"},
                            [](TensorBuilder &b, ValueRange args) { return b.exp(b.sub(args[1], args[0])); });
              Value total =
                  b.map(shrink, state[2], [](TensorBuilder &b, ValueRange args) { return b.mul(args[1], args[0]); });
              total = b.generic("hs", "s", {{weights, "hs"}}, Arg{total, "h"},
                                [](TensorBuilder &b, ValueRange args) { return b.add(args[1], args[0]); });
              Value sum = b.generic("hl", "", {{shrink, "h"}}, Arg{state[0], "hl"},
                                    [](TensorBuilder &b, ValueRange args) { return b.mul(args[1], args[0]); });
              sum =
                  b.generic("hsl", "s", {{weights, "hs"}, {values, "sl"}}, Arg{sum, "hl"},
                            [](TensorBuilder &b, ValueRange args) { return b.add(args[2], b.mul(args[0], args[1])); });
              return {sum, highest, total};
            });
        Value mean = b.generic("hl", "", {{state[2], "h"}}, Arg{state[0], "hl"},
                               [](TensorBuilder &b, ValueRange args) { return b.div(args[1], args[0]); });
        return {b.put(mean, carried[0], at)};
      });
}
