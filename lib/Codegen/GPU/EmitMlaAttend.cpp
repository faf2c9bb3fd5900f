//===- EmitMlaAttend.cpp - attention over the latent cache on a GPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/LatentAttention.h"
#include "lib/Codegen/GPU/Tile/Sequences.h"

#include <cmath>

using namespace mlir;
using namespace mlir::k3;

//===----------------------------------------------------------------------===//
// k3.mla.attend: a block has some tokens and heads, and goes over all that they see
//===----------------------------------------------------------------------===//

template <typename OpTy>
static std::optional<AttentionPlan> planBlocks(OpTy op, bool rounded, bool oneToken, const GpuTarget &target) {
  return AttentionPlan::make(getStaticNamedDim(op, "H"), getStaticNamedDim(op, "lr"), getStaticNamedDim(op, "l"),
                             getStaticNamedDim(op, "page"), getElementTypeOrSelf(op.getCache().getType()), rounded,
                             oneToken, target);
}

static std::optional<AttentionPlan> planAttend(MlaAttendOp op, bool oneToken, const GpuTarget &target) {
  return planBlocks(op, op.getBf16X(), oneToken, target);
}

/// The sums of a row, times `factor`, to the row of a tensor that starts at `place`, a thread's first column.
static void storeSums(const GpuBuilder &g, const LatentAttention::Result &result, Value factor, Value place) {
  for (size_t i = 0; i < result.sums.size(); i += 2)
    g.storeFloats({g.mul(result.sums[i], factor), g.mul(result.sums[i + 1], factor)}, g.advance(place, 4 * i, g.f32()),
                  g.f32());
}

std::optional<GpuLaunch> k3::configureMlaAttend(MlaAttendOp op, Phase phase, const GpuTarget &target) {
  bool oneToken = phase == Phase::decode;
  std::optional<AttentionPlan> plan = planAttend(op, oneToken, target);
  if (!plan)
    return std::nullopt;
  GpuLaunch launch;
  launch.strategy = oneToken ? "step" : "rows";
  launch.grid = {{"T", plan->tokens}, {"H", plan->heads}};
  launch.threads = AttentionPlan::threads;
  launch.sharedBytes = plan->sharedBytes;
  return launch;
}

LogicalResult k3::emitMlaAttend(OpBuilder &b, MlaAttendOp op, KernelConfigAttr config, const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  AttentionPlan plan = *planAttend(op, config.getStrategy() == "step", target);
  g.setMinBlocks(1); // all registers that there are
  LatentAttention attention(g, plan, op.getQ(), op.getCache(), op.getPageTable(), op.getScale().convertToDouble());
  // Tokens late in their sequence see most: they come first.
  Value block = g.sub(g.sub(g.gridSize(0), 1), g.blockId(0));
  Value first = g.mul(block, plan.tokens), head = g.mul(g.blockId(1), plan.heads);
  Value end = g.min(g.add(first, plan.tokens), g.toI32(g.dim(op.getQ(), 0)));
  g.ifThen(g.lt(first, end), [&] {
    attention.start();
    // The block's tokens, sequence by sequence.
    g.loop(g.i32(0), g.i32(plan.tokens), g.i32(1), {first, g.i32(0)}, [&](Value, ValueRange carried) {
      Value low = carried[0], fetched = carried[1];
      return g.ifThenElse(
          g.lt(low, end),
          [&] {
            Value n = findSequence(g, op.getCu(), low);
            Value begin = g.load(op.getCu(), {n}, true), high = g.min(g.load(op.getCu(), {g.add(n, 1)}, true), end);
            Value before = g.sub(g.load(op.getLengths(), {n}, true), begin); // of the sequence, from row 0 of the step
            Value limit = g.add(before, high);
            Value tiles = g.ceilDiv(limit, AttentionPlan::tileRows);
            QueryRows rows{first, head, g.add(g.add(before, first), 1), low, high};
            Value next =
                attention.attend(rows, n, g.i32(0), tiles, limit, fetched, [&](const LatentAttention::Result &result) {
                  storeSums(g, result, g.reciprocal(result.total),
                            g.element(op.getOut(), {result.token, result.head, result.column}));
                });
            return SmallVector<Value>{high, next};
          },
          [&] { return SmallVector<Value>{low, fetched}; });
    });
  });
  return success();
}

//===----------------------------------------------------------------------===//
// k3.mla.attend_partial: a block has some heads and a run of tiles
//===----------------------------------------------------------------------===//

namespace {
/// How the tiles of all sequences are dealt to runs. All i32.
class TileRuns {
public:
  /// All lanes of the warp.
  TileRuns(const GpuBuilder &g, Value lengths, Value parts) : g(g), lengths(lengths) {
    Value runs = g.toI32(g.dim(parts, 0));
    Value total =
        g.warpReduce(forLanes({g.i32(0)}, [&](Value, Value tiles,
                                              ValueRange sum) { return SmallVector<Value>{g.add(sum[0], tiles)}; })[0],
                     Reduction::Add);
    each = g.div(total, runs);
    rest = g.rem(total, runs);
  }

  Value contextOf(Value n) const { return g.add(g.load(lengths, {n}, /*readOnly=*/true), 1); }
  Value tilesOf(Value n) const { return g.ceilDiv(contextOf(n), AttentionPlan::tileRows); }
  /// The first tile of a run; that of the next run is its end.
  Value begin(Value run) const { return g.add(g.mul(run, each), g.min(run, rest)); }
  /// The run that has a tile.
  Value of(Value tile) const {
    Value border = g.mul(rest, g.add(each, 1));
    Value behind = g.add(rest, g.div(g.sub(tile, border), g.max(each, 1)));
    return g.select(g.lt(tile, border), g.div(tile, g.add(each, 1)), behind);
  }

  /// Lanes share the sequences, 32 at a time: `body` gets a sequence and its tiles, 0 for numbers past the last one.
  SmallVector<Value> forLanes(ValueRange inits,
                              function_ref<SmallVector<Value>(Value n, Value tiles, ValueRange carried)> body) const {
    Value sequences = g.toI32(g.dim(lengths, 0)), lane = g.laneId();
    return g.loop(g.i32(0), sequences, g.i32(32), inits, [&](Value first, ValueRange carried) {
      Value n = g.add(first, lane);
      Value tiles = g.ifThenElse(
          g.lt(n, sequences), [&] { return SmallVector<Value>{tilesOf(n)}; },
          [&] { return SmallVector<Value>{g.i32(0)}; })[0];
      return body(n, tiles, carried);
    });
  }

  /// The sequences [first, end) that have tiles in [low, high), and the first tile of the first one.
  struct Sequences {
    Value first, end, start;
  };
  Sequences inRange(Value low, Value high) const {
    Value lane = g.laneId(), sequences = g.toI32(g.dim(lengths, 0)), zero = g.i32(0);
    SmallVector<Value> counts = forLanes({zero, zero, zero, zero}, [&](Value n, Value tiles, ValueRange carried) {
      Value upTo = tiles; // of this and the lanes before
      for (int64_t distance = 1; distance < 32; distance *= 2) {
        Value before = g.shuffleFrom(upTo, g.max(g.sub(lane, distance), 0));
        upTo = g.add(upTo, g.select(g.ge(lane, distance), before, zero));
      }
      Value stop = g.add(carried[0], upTo), start = g.sub(stop, tiles), exists = g.lt(n, sequences);
      Value isBefore = g.logicalAnd(exists, g.le(stop, low)), begins = g.logicalAnd(exists, g.lt(start, high));
      return SmallVector<Value>{g.shuffleFrom(stop, g.i32(31)), g.add(carried[1], g.zeroExtend(isBefore, g.i32())),
                                g.add(carried[2], g.zeroExtend(begins, g.i32())),
                                g.max(carried[3], g.select(isBefore, stop, zero))};
    });
    return {g.warpReduce(counts[1], Reduction::Add), g.warpReduce(counts[2], Reduction::Add),
            g.warpReduce(counts[3], Reduction::Max)};
  }

private:
  const GpuBuilder &g;
  Value lengths, each, rest;
};
} // namespace

std::optional<GpuLaunch> k3::configureMlaAttendPartial(MlaAttendPartialOp op, Phase, const GpuTarget &target) {
  std::optional<AttentionPlan> plan = planBlocks(op, /*rounded=*/false, /*oneToken=*/true, target);
  if (!plan || op.getTile() != AttentionPlan::tileRows)
    return std::nullopt;
  GpuLaunch launch;
  launch.strategy = "runs";
  // Blocks with the same run and other heads read the same rows: side by side.
  launch.grid = {{"H", plan->heads}, {"R", 1}};
  launch.threads = AttentionPlan::threads;
  launch.sharedBytes = plan->sharedBytes;
  return launch;
}

LogicalResult k3::emitMlaAttendPartial(OpBuilder &b, MlaAttendPartialOp op, KernelConfigAttr config,
                                       const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  g.setMinBlocks(1); // all registers that there are
  AttentionPlan plan = *planBlocks(op, /*rounded=*/false, /*oneToken=*/true, target);
  LatentAttention attention(g, plan, op.getQ(), op.getCache(), op.getPageTable(), op.getScale().convertToDouble());
  Value head = g.mul(g.blockId(0), plan.heads), run = g.blockId(1);
  TileRuns runs(g, op.getLengths(), op.getParts());
  Value begin = runs.begin(run), end = runs.begin(g.add(run, 1));
  g.ifThen(g.lt(begin, end), [&] {
    attention.start();
    TileRuns::Sequences sequences = runs.inRange(begin, end);
    g.loop(sequences.first, sequences.end, g.i32(1), {sequences.start, g.i32(0)}, [&](Value n, ValueRange carried) {
      Value start = carried[0], context = runs.contextOf(n), stop = g.add(start, runs.tilesOf(n));
      Value low = g.max(begin, start), high = g.min(end, stop);
      Value startsHere = g.ge(start, begin), isWhole = g.logicalAnd(startsHere, g.le(stop, end));
      QueryRows rows{n, head, context, n, g.add(n, 1)};
      Value fetched = attention.attend(
          rows, n, g.sub(low, start), g.sub(high, start), context, carried[1],
          [&](const LatentAttention::Result &result) {
            g.ifThenElse(
                isWhole,
                [&] {
                  storeSums(g, result, g.reciprocal(result.total),
                            g.element(op.getOut(), {result.token, result.head, result.column}));
                  return SmallVector<Value>();
                },
                [&] {
                  Value kind = g.zeroExtend(startsHere, g.i32());
                  storeSums(g, result, g.f32(1), g.element(op.getParts(), {run, kind, result.head, result.column}));
                  g.ifThen(g.eq(result.column, 0), [&] {
                    constexpr double ln2 = 0.693147180559945309;
                    g.storeFloats({g.mul(result.maximum, g.f32(ln2)), result.total},
                                  g.element(op.getStates(), {run, kind, result.head}), g.f32());
                  });
                  return SmallVector<Value>();
                });
          });
      return SmallVector<Value>{stop, fetched};
    });
  });
  return success();
}

//===----------------------------------------------------------------------===//
// k3.mla.attend_merge: a block has a sequence, a head and some columns, its warps take the parts in turn
//===----------------------------------------------------------------------===//

static constexpr int64_t mergeColumns = 128, mergeWarps = 8;

std::optional<GpuLaunch> k3::configureMlaAttendMerge(MlaAttendMergeOp op, Phase, const GpuTarget &) {
  int64_t latent = getStaticNamedDim(op, "l");
  if (ShapedType::isDynamic(latent) || latent % 4 != 0 || op.getTile() != AttentionPlan::tileRows)
    return std::nullopt;
  GpuLaunch launch;
  launch.strategy = "columns";
  launch.grid = {{"N", 1}, {"H", 1}, {"l", mergeColumns}};
  launch.threads = 32 * mergeWarps;
  launch.sharedBytes = mergeWarps * mergeColumns * 4;
  return launch;
}

LogicalResult k3::emitMlaAttendMerge(OpBuilder &b, MlaAttendMergeOp op, KernelConfigAttr config,
                                     const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  int64_t latent = getStaticNamedDim(op, "l");
  Value n = g.blockId(0), head = g.blockId(1), lane = g.laneId(), warp = g.warpId();
  Value column = g.add(g.mul(g.blockId(2), mergeColumns), g.mul(lane, 4));
  TileRuns runs(g, op.getLengths(), op.getParts());
  g.ifThen(g.lt(n, g.toI32(g.dim(op.getLengths(), 0))), [&] {
    SmallVector<Value> before = runs.forLanes({g.i32(0)}, [&](Value other, Value tiles, ValueRange sum) {
      return SmallVector<Value>{g.add(sum[0], g.select(g.lt(other, n), tiles, g.i32(0)))};
    });
    Value start = g.warpReduce(before[0], Reduction::Add), last = g.sub(g.add(start, runs.tilesOf(n)), 1);
    Value firstRun = runs.of(start), endRun = g.add(runs.of(last), 1);
    auto kindOf = [&](Value run) { return g.zeroExtend(g.eq(run, firstRun), g.i32()); };
    auto stateOf = [&](Value run) {
      return g.loadFloats(g.element(op.getStates(), {run, kindOf(run), head}), g.f32(), 2, /*readOnly=*/true);
    };
    g.ifThen(g.lt(g.add(firstRun, 1), endRun), [&] {
      // Every warp for itself: the highest maximum, and the sum of all weights relative to it.
      Value step = g.i32(32), mine = g.add(firstRun, lane);
      Value maximum = g.warpReduce(g.loop(mine, endRun, step, {g.f32(-INFINITY)},
                                          [&](Value run, ValueRange highest) {
                                            return SmallVector<Value>{g.max(highest[0], stateOf(run)[0])};
                                          })[0],
                                   Reduction::Max);
      auto factorOf = [&](Value partMaximum) { return g.exp(g.sub(partMaximum, maximum)); };
      Value total = g.warpReduce(g.loop(mine, endRun, step, {g.f32(0)},
                                        [&](Value run, ValueRange sum) {
                                          SmallVector<Value> state = stateOf(run);
                                          return SmallVector<Value>{g.fma(factorOf(state[0]), state[1], sum[0])};
                                        })[0],
                                 Reduction::Add);
      Value inside = g.lt(column, latent);
      SmallVector<Value> sums =
          g.loop(g.add(firstRun, warp), endRun, g.i32(mergeWarps), SmallVector<Value>(4, g.f32(0)),
                 [&](Value run, ValueRange sums) {
                   Value factor = factorOf(stateOf(run)[0]);
                   SmallVector<Value> values = g.ifThenElse(
                       inside,
                       [&] {
                         return g.loadFloats(g.element(op.getParts(), {run, kindOf(run), head, column}), g.f32(), 4,
                                             /*readOnly=*/true);
                       },
                       [&] { return SmallVector<Value>(4, g.f32(0)); });
                   for (auto [value, sum] : llvm::zip_equal(values, sums))
                     value = g.fma(factor, value, sum);
                   return values;
                 });
      Value place = g.add(g.mul(warp, mergeColumns * 4), g.mul(lane, 16));
      g.storeFloats(sums, g.shared(place), g.f32());
      g.barrier();
      g.ifThen(g.logicalAnd(g.eq(warp, 0), inside), [&] {
        for (int64_t other = 1; other < mergeWarps; ++other) {
          Value from = g.shared(g.add(place, other * mergeColumns * 4));
          for (auto [sum, value] : llvm::zip_equal(sums, g.loadFloats(from, g.f32(), 4)))
            sum = g.add(sum, value);
        }
        Value inverse = g.reciprocal(total);
        for (Value &sum : sums)
          sum = g.mul(sum, inverse);
        g.storeFloats(sums, g.element(op.getOut(), {n, head, column}), g.f32());
      });
    });
  });
  return success();
}
