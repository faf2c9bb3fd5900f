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

/// Queries q [H, lr] of one row against the cache rows `first` to `last` (exclusive, at least one) of sequence n, a
/// page at a time for all heads: a page is read once. Returns the weighted sum of the rows' first columns, written to
/// `sum` [H, l], the maximum of the scores and the sum of the weights (online softmax).
static SmallVector<Value> attendRows(TensorBuilder &b, Value q, Value cache, Value pageTable, Value n,
                                     double scaleValue, OpFoldResult first, Value last, Value sum) {
  OpFoldResult page = b.size(cache, 1), heads = b.size(q, 0), latent = b.size(sum, 1);
  Value zero = b.index(0), scale = b.f32(scaleValue);
  Value lowest = b.f32(-std::numeric_limits<float>::infinity());
  return b.forEach(
      b.divIndex(first, page), b.ceilDivIndex(last, page),
      {b.fill(sum, b.f32(0)), b.filled({heads}, lowest), b.zeros({heads})},
      [&](Value p, ValueRange state) -> SmallVector<Value> {
        Value pageId = b.loadIndex(pageTable, {n, p}), pageStart = b.mulIndex(p, page);
        OpFoldResult begin = b.getIndexAttr(0);
        if (getConstantIntValue(first) != 0)
          begin = b.select(b.lessIndex(pageStart, first), b.subIndex(first, pageStart), zero);
        Value rows = b.subIndex(b.minIndex(page, b.subIndex(last, pageStart)), begin);
        Value keys = b.slice(cache, {Dim::at(pageId), Dim::range(begin, rows), Dim::all()});
        Value values = b.slice(keys, {Dim::all(), Dim::range(zero, latent)});
        // Sized by the page, not by its rows in use, so that the temporary has a bound.
        SmallVector<Dim> used{Dim::all(), Dim::range(zero, rows)};
        Value scores = b.fill(b.slice(b.empty({heads, page}), used), b.f32(0));
        scores = b.generic("hsd", "d", {{q, "hd"}, {keys, "sd"}}, Arg{scores, "hs"},
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
        Value weights = b.generic("hs", "", {{highest, "h"}}, Arg{scores, "hs"},
                                  [](TensorBuilder &b, ValueRange args) { return b.exp(b.sub(args[1], args[0])); });
        Value total =
            b.map(shrink, state[2], [](TensorBuilder &b, ValueRange args) { return b.mul(args[1], args[0]); });
        total = b.generic("hs", "s", {{weights, "hs"}}, Arg{total, "h"},
                          [](TensorBuilder &b, ValueRange args) { return b.add(args[1], args[0]); });
        Value sum = b.generic("hl", "", {{shrink, "h"}}, Arg{state[0], "hl"},
                              [](TensorBuilder &b, ValueRange args) { return b.mul(args[1], args[0]); });
        sum = b.generic("hsl", "s", {{weights, "hs"}, {values, "sl"}}, Arg{sum, "hl"},
                        [](TensorBuilder &b, ValueRange args) { return b.add(args[2], b.mul(args[0], args[1])); });
        return {sum, highest, total};
      });
}

/// sum [H, l] / total [H], in place.
static Value divideRows(TensorBuilder &b, Value sum, Value total) {
  return b.generic("hl", "", {{total, "h"}}, Arg{sum, "hl"},
                   [](TensorBuilder &b, ValueRange args) { return b.div(args[1], args[0]); });
}

Decomposed k3::decompose(MlaAttendOp op, TensorBuilder &b) {
  return forEachRow(b, op.getCu(), op.getLengths(), op.getOut(),
                    [&](Value t, Value position, Value n, ValueRange carried) -> SmallVector<Value> {
                      SmallVector<Dim> at{Dim::at(t), Dim::all(), Dim::all()};
                      SmallVector<Value> state = attendRows(b, b.slice(op.getQ(), at), op.getCache(), op.getPageTable(),
                                                            n, op.getScale().convertToDouble(), b.getIndexAttr(0),
                                                            b.addIndex(position, b.index(1)), b.slice(carried[0], at));
                      return {b.put(divideRows(b, state[0], state[2]), carried[0], at)};
                    });
}

namespace {
/// How k3.mla.attend_partial deals the tiles of all sequences to runs.
struct Runs {
  Runs(TensorBuilder &b, Value lengths, OpFoldResult runs, int64_t tile) : b(b), lengths(lengths), tile(b.index(tile)) {
    Value total = b.forEach(b.index(0), b.size(lengths, 0), b.index(0),
                            [&](Value n, Value sum) { return b.addIndex(sum, tilesOf(n)); });
    each = b.divIndex(total, runs);
    rest = b.remIndex(total, runs);
  }
  /// Cache rows that sequence n sees, and their tiles.
  Value contextOf(Value n) const { return b.addIndex(b.loadIndex(lengths, {n}), b.index(1)); }
  Value tilesOf(Value n) const { return b.ceilDivIndex(contextOf(n), tile); }
  /// The first tile of a run; that of the next run is its end.
  Value begin(Value run) const { return b.addIndex(b.mulIndex(run, each), b.minIndex(run, rest)); }
  /// The run that has a tile.
  Value of(Value tileNumber) const {
    Value one = b.index(1), longer = b.addIndex(each, one), border = b.mulIndex(rest, longer);
    Value divisor = b.select(b.lessIndex(each, one), one, each); // 0 only where no tile is behind the border
    return b.select(b.lessIndex(tileNumber, border), b.divIndex(tileNumber, longer),
                    b.addIndex(rest, b.divIndex(b.subIndex(tileNumber, border), divisor)));
  }
  Value count(Value condition) const { return b.select(condition, b.index(1), b.index(0)); }

  TensorBuilder &b;
  Value lengths, tile, each, rest;
};
} // namespace

Decomposed k3::decompose(MlaAttendPartialOp op, TensorBuilder &b) {
  Value zero = b.index(0), one = b.index(1);
  Runs runs(b, op.getLengths(), b.size(op.getParts(), 0), op.getTile());
  return b.forEach(
      zero, b.size(op.getParts(), 0), {op.getOut(), op.getParts(), op.getStates()}, [&](Value r, ValueRange outs) {
        Value begin = runs.begin(r), end = runs.begin(b.addIndex(r, one));
        SmallVector<Value> carried{zero};
        llvm::append_range(carried, outs);
        // Carried: the first tile of the sequence, and the destinations.
        SmallVector<Value> done = b.forEach(
            zero, b.size(op.getLengths(), 0), carried, [&](Value n, ValueRange carried) -> SmallVector<Value> {
              Value start = carried[0], stop = b.addIndex(start, runs.tilesOf(n));
              Value isLate = b.lessIndex(start, begin), isCut = b.lessIndex(end, stop); // begins before, goes on after
              Value low = b.select(isLate, begin, start), high = b.minIndex(end, stop);
              Value mine = runs.count(b.lessIndex(low, high));
              Value whole = b.select(isLate, zero, b.select(isCut, zero, mine));
              Value first = b.mulIndex(b.subIndex(low, start), runs.tile);
              Value last = b.minIndex(b.mulIndex(b.subIndex(high, start), runs.tile), runs.contextOf(n));
              Value q = b.slice(op.getQ(), {Dim::at(n), Dim::all(), Dim::all()});
              auto attend = [&](Value sum) {
                return attendRows(b, q, op.getCache(), op.getPageTable(), n, op.getScale().convertToDouble(), first,
                                  last, sum);
              };
              // Loops of one or no turn.
              Value out = b.forEach(zero, whole, carried[1], [&](Value, Value out) {
                SmallVector<Dim> at{Dim::at(n), Dim::all(), Dim::all()};
                SmallVector<Value> state = attend(b.slice(out, at));
                return b.put(divideRows(b, state[0], state[2]), out, at);
              });
              SmallVector<Value> parts = b.forEach(
                  zero, b.subIndex(mine, whole), {carried[2], carried[3]},
                  [&](Value, ValueRange outs) -> SmallVector<Value> {
                    Value kind = b.select(isLate, zero, one);
                    SmallVector<Dim> at{Dim::at(r), Dim::at(kind), Dim::all(), Dim::all()};
                    SmallVector<Value> state = attend(b.slice(outs[0], at));
                    Value states = outs[1];
                    for (int64_t i = 0; i < 2; ++i) {
                      SmallVector<Dim> column{Dim::at(r), Dim::at(kind), Dim::all(), Dim::at(b.getIndexAttr(i))};
                      states = b.put(b.copy(state[1 + i], b.slice(states, column)), states, column);
                    }
                    return {b.put(state[0], outs[0], at), states};
                  });
              return {stop, out, parts[0], parts[1]};
            });
        return SmallVector<Value>(llvm::drop_begin(done));
      });
}

Decomposed k3::decompose(MlaAttendMergeOp op, TensorBuilder &b) {
  Value zero = b.index(0), one = b.index(1);
  OpFoldResult heads = b.size(op.getOut(), 1);
  Runs runs(b, op.getLengths(), b.size(op.getParts(), 0), op.getTile());
  SmallVector<Value> done = b.forEach(
      zero, b.size(op.getLengths(), 0), {zero, op.getOut()}, [&](Value n, ValueRange carried) -> SmallVector<Value> {
        Value start = carried[0], stop = b.addIndex(start, runs.tilesOf(n));
        Value first = runs.of(start), last = runs.of(b.subIndex(stop, one)), end = b.addIndex(last, one);
        Value out = b.forEach(zero, runs.count(b.lessIndex(first, last)), carried[1], [&](Value, Value out) {
          auto partAt = [&](Value r) {
            return SmallVector<Dim>{Dim::at(r), Dim::at(b.select(b.lessIndex(first, r), zero, one)), Dim::all()};
          };
          auto stateAt = [&](Value r, int64_t column) {
            SmallVector<Dim> at = partAt(r);
            at.push_back(Dim::at(b.getIndexAttr(column)));
            return b.slice(op.getStates(), at);
          };
          Value highest = b.filled({heads}, b.f32(-std::numeric_limits<float>::infinity()));
          highest = b.forEach(first, end, highest, [&](Value r, Value highest) {
            return b.map(stateAt(r, 0), highest,
                         [](TensorBuilder &b, ValueRange args) { return b.max(args[1], args[0]); });
          });
          SmallVector<Dim> at{Dim::at(n), Dim::all(), Dim::all()};
          SmallVector<Value> sums = b.forEach(
              first, end, {b.fill(b.slice(out, at), b.f32(0)), b.zeros({heads})},
              [&](Value r, ValueRange sums) -> SmallVector<Value> {
                Value factor = b.map({stateAt(r, 0), highest}, b.empty({heads}),
                                     [](TensorBuilder &b, ValueRange args) { return b.exp(b.sub(args[0], args[1])); });
                SmallVector<Dim> part = partAt(r);
                part.push_back(Dim::all());
                Value sum = b.generic(
                    "hl", "", {{factor, "h"}, {b.slice(op.getParts(), part), "hl"}}, Arg{sums[0], "hl"},
                    [](TensorBuilder &b, ValueRange args) { return b.add(args[2], b.mul(args[0], args[1])); });
                Value total = b.map({factor, stateAt(r, 1)}, sums[1], [](TensorBuilder &b, ValueRange args) {
                  return b.add(args[2], b.mul(args[0], args[1]));
                });
                return {sum, total};
              });
          return b.put(divideRows(b, sums[0], sums[1]), out, at);
        });
        return {stop, out};
      });
  return {done[1]};
}
