//===- EmitRoute.cpp - choice of experts and their order on a GPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/Tile/GpuBuilder.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

static constexpr int64_t allLanes = -1;

//===----------------------------------------------------------------------===//
// k3.latent_moe.route: a warp per token, which takes out the largest score k times
//===----------------------------------------------------------------------===//

/// Experts per lane at most, and choices: one per lane.
static constexpr int64_t maxScores = 32, maxChoices = 32;

std::optional<GpuLaunch> k3::configureMoeRoute(MoeRouteOp op, Phase phase, const GpuTarget &) {
  int64_t experts = getStaticNamedDim(op, "E"), choices = getStaticNamedDim(op, "k");
  if (ShapedType::isDynamic(experts) || ShapedType::isDynamic(choices) || experts == 0 || choices == 0 ||
      experts > 32 * maxScores || choices > maxChoices)
    return std::nullopt;
  int64_t warps = phase == Phase::decode ? 1 : 4;
  GpuLaunch launch;
  launch.strategy = "warp";
  launch.grid = {{"T", warps}};
  launch.threads = 32 * warps;
  return launch;
}

/// Bits of an f32 as an i32 of the same order, above INT32_MIN.
static Value orderedBits(const GpuBuilder &g, Value x) {
  Value bits = g.bitcast(x, g.i32());
  Value ordered = g.select(g.lt(bits, 0), g.bitXor(bits, INT32_MAX), bits);
  return g.max(ordered, int64_t(INT32_MIN) + 1);
}

static Value warpMax(const GpuBuilder &g, Value x) {
  return g.intrinsic(g.i32(), "llvm.nvvm.redux.sync.max", {x, g.i32(allLanes)});
}
static Value warpMin(const GpuBuilder &g, Value x) {
  return g.intrinsic(g.i32(), "llvm.nvvm.redux.sync.min", {x, g.i32(allLanes)});
}

/// The number of the best expert for lane i < k, in falling order.
static Value chooseExperts(const GpuBuilder &g, SmallVector<Value> scores, int64_t choices) {
  Value lane = g.laneId();
  SmallVector<Value> inits = {g.i32(0)};
  inits.append(scores);
  SmallVector<Value> results =
      g.loop(g.i32(0), g.i32(choices), g.i32(1), inits, [&](Value choice, ValueRange carried) {
        SmallVector<Value> left(carried.drop_front());
        SmallVector<Value> level(left);
        while (level.size() > 1) {
          SmallVector<Value> next;
          for (size_t i = 0; i + 1 < level.size(); i += 2)
            next.push_back(g.max(level[i], level[i + 1]));
          if (level.size() % 2)
            next.push_back(level.back());
          level = std::move(next);
        }
        Value best = warpMax(g, level.front());
        // The lowest number of those that have it.
        Value mine = g.i32(INT32_MAX);
        for (int64_t i = static_cast<int64_t>(left.size()) - 1; i >= 0; --i)
          mine = g.select(g.eq(left[i], best), g.add(lane, 32 * i), mine);
        Value winner = warpMin(g, mine);
        SmallVector<Value> next = {g.select(g.eq(lane, choice), winner, carried.front())};
        for (auto [i, score] : llvm::enumerate(left))
          next.push_back(g.select(g.eq(winner, g.add(lane, 32 * i)), g.i32(INT32_MIN), score));
        return next;
      });
  return results.front();
}

LogicalResult k3::emitMoeRoute(OpBuilder &b, MoeRouteOp op, KernelConfigAttr config, const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  int64_t experts = getStaticNamedDim(op, "E"), choices = getStaticNamedDim(op, "k");
  Value lane = g.laneId();
  Value token = g.add(g.mul(g.blockId(), g.warps()), g.warpId());
  g.ifThen(g.lt(token, g.dim(op.getLogits(), 0)), [&] {
    SmallVector<Value> scores;
    for (int64_t first = 0; first < experts; first += 32) {
      Value expert = g.add(lane, first);
      auto score = [&] {
        Value sigmoid = g.sigmoid(g.load(op.getLogits(), {token, expert}, /*readOnly=*/true));
        return SmallVector<Value>{orderedBits(g, g.add(sigmoid, g.load(op.getBias(), {expert}, /*readOnly=*/true)))};
      };
      if (first + 32 <= experts)
        scores.append(score());
      else
        scores.append(
            g.ifThenElse(g.lt(expert, experts), score, [&] { return SmallVector<Value>{g.i32(INT32_MIN)}; }));
    }
    Value chosen = chooseExperts(g, scores, choices);
    Value isChoice = g.lt(lane, choices);
    Value weight = g.ifThenElse(
        isChoice,
        [&] {
          return SmallVector<Value>{g.sigmoid(g.load(op.getLogits(), {token, chosen}, /*readOnly=*/true))};
        },
        [&] { return SmallVector<Value>{g.f32(0)}; })[0];
    if (op.getRenormalize())
      weight = g.quotient(weight, g.add(g.warpReduce(weight, Reduction::Add), g.f32(1e-20)));
    weight = g.mul(weight, g.f32(op.getScale().convertToDouble()));
    g.ifThen(isChoice, [&] {
      g.store(chosen, op.getIds(), {token, lane});
      g.store(weight, op.getWeights(), {token, lane});
    });
  });
  return success();
}

//===----------------------------------------------------------------------===//
// k3.latent_moe.plan: a stable counting sort by one block
//===----------------------------------------------------------------------===//
//
// Every warp has a range of slots and counts them by expert; sums over the warps before it and over the experts before
// each give where its slots of an expert start; then it walks its range again and places them. A warp takes 32 slots at a
// time: lanes with the same expert find each other, so that the order inside the 32 is known without further steps.

namespace {
class PlanEmitter {
public:
  PlanEmitter(const GpuBuilder &g, MoePlanOp op)
      : g(g), op(op), experts(getStaticNamedDim(op, "E1") - 1), choices(getStaticNamedDim(op, "k")) {}

  void emit() {
    Value slots = g.mul(g.dim(op.getIds(), 0), choices);
    // Few slots need few warps, and then less memory has to be cleared.
    Value warps = g.min(g.max(g.ceilDiv(slots, 32), 1), g.warps());
    Value perWarp = g.mul(g.ceilDiv(g.div(g.add(slots, g.sub(warps, 1)), warps), 32), 32);
    Value warp = g.warpId();
    Value begin = g.min(g.mul(warp, perWarp), slots), end = g.min(g.add(begin, perWarp), slots);

    g.forThreads(g.mul(warps, experts), [&](Value i) { g.storeRaw(g.i32(0), word(i)); });
    if (Value progress = op.getProgress())
      g.forThreads(slots, [&](Value i) { g.store(g.i32(0), progress, {g.div(i, choices), g.rem(i, choices)}); });
    g.barrier();
    walk(warp, begin, end, [](Value, Value, Value, Value) {});
    g.barrier();
    scan(warps, slots);
    g.barrier();
    walk(warp, begin, end, [&](Value slot, Value expert, Value rank, Value before) {
      Value position = g.add(g.add(g.loadRaw(word(g.add(expert, startsAt())), g.i32()), before), rank);
      g.store(slot, op.getPerm(), {g.div(position, choices), g.rem(position, choices)});
    });
  }

  /// Counts of every warp, then where each expert starts, then sums of warps.
  static int64_t sharedBytes(int64_t experts, int64_t warps) { return 4 * (warps * experts + experts + warps); }

private:
  int64_t startsAt() const { return g.warps() * experts; }
  int64_t sumsAt() const { return startsAt() + experts; }
  Value word(Value number) { return g.advance(g.shared(int64_t(0)), number, g.i32()); }

  /// Goes through the warp's slots and adds them to its counts; `visit(slot, expert, rank, before)` for each, where
  /// `rank` counts those of the same expert among the 32, and `before` is the count before them.
  void walk(Value warp, Value begin, Value end, function_ref<void(Value, Value, Value, Value)> visit) {
    Value lane = g.laneId(), row = g.mul(warp, experts);
    Value lower = g.sub(g.shl(g.i32(1), lane), 1);
    auto loadId = [&](Value start) {
      Value slot = g.add(start, lane);
      return g.ifThenElse(
          g.lt(slot, end),
          [&] {
            Value id = g.load(op.getIds(), {g.div(slot, choices), g.rem(slot, choices)}, /*readOnly=*/true);
            return SmallVector<Value>{id};
          },
          [&] { return SmallVector<Value>{g.i32(-1)}; });
    };
    // The next ids are on their way while these are counted.
    g.loop(begin, end, g.i32(32), loadId(begin), [&](Value start, ValueRange carried) {
      Value expert = carried.front();
      SmallVector<Value> next = loadId(g.add(start, 32));
      Value same = g.intrinsic(g.i32(), "llvm.nvvm.match.any.sync.i32", {g.i32(allLanes), expert});
      Value rank = count(g.bitAnd(same, lower)), isSlot = g.ge(expert, 0);
      Value counter = word(g.add(row, expert));
      Value before = g.ifThenElse(
          isSlot, [&] { return SmallVector<Value>{g.loadRaw(counter, g.i32())}; },
          [&] { return SmallVector<Value>{g.i32(0)}; })[0];
      g.ifThen(isSlot, [&] { visit(g.add(start, lane), expert, rank, before); });
      g.warpBarrier();
      g.ifThen(g.logicalAnd(isSlot, g.eq(rank, 0)), [&] { g.storeRaw(g.add(before, count(same)), counter); });
      g.warpBarrier();
      return next;
    });
  }

  /// Counts become sums over the warps before; every expert gets its start.
  void scan(Value warps, Value slots) {
    Value expert = g.threadId(), lane = g.laneId();
    Value isExpert = g.lt(expert, experts);
    Value total = g.ifThenElse(
        isExpert,
        [&] {
          return g.loop(g.i32(0), warps, g.i32(1), ValueRange{g.i32(0)}, [&](Value w, ValueRange sum) {
            Value counter = word(g.add(g.mul(w, experts), expert));
            Value own = g.loadRaw(counter, g.i32());
            g.storeRaw(sum[0], counter);
            return SmallVector<Value>{g.add(sum[0], own)};
          });
        },
        [&] { return SmallVector<Value>{g.i32(0)}; })[0];
    // Inclusive over the warp's experts.
    Value inclusive = total;
    for (int64_t distance = 1; distance < 32; distance *= 2) {
      Value other = g.shuffleFrom(inclusive, g.max(g.sub(lane, distance), 0));
      inclusive = g.add(inclusive, g.select(g.ge(lane, distance), other, g.i32(0)));
    }
    Value warp = g.div(g.threadId(), 32);
    g.ifThen(g.eq(lane, 31), [&] { g.storeRaw(inclusive, word(g.add(warp, sumsAt()))); });
    g.barrier();
    // Every warp sums those before it.
    Value own = g.loadRaw(word(g.add(g.min(lane, g.warps() - 1), sumsAt())), g.i32());
    Value earlier = g.warpReduce(g.select(g.lt(lane, warp), own, g.i32(0)), Reduction::Add);
    Value start = g.add(earlier, g.sub(inclusive, total));
    g.ifThen(isExpert, [&] {
      g.storeRaw(start, word(g.add(expert, startsAt())));
      g.store(start, op.getOffsets(), {expert});
    });
    g.ifFirstThread([&] { g.store(slots, op.getOffsets(), {g.i32(experts)}); });
  }

  Value count(Value bits) { return g.intrinsic(g.i32(), "llvm.ctpop.i32", {bits}); }

  const GpuBuilder &g;
  MoePlanOp op;
  int64_t experts, choices;
};
} // namespace

std::optional<GpuLaunch> k3::configureMoePlan(MoePlanOp op, Phase phase, const GpuTarget &target) {
  int64_t ends = getStaticNamedDim(op, "E1"), choices = getStaticNamedDim(op, "k");
  if (ShapedType::isDynamic(ends) || ShapedType::isDynamic(choices) || ends < 2 || choices == 0 ||
      ends - 1 > target.maxThreadsPerBlock)
    return std::nullopt;
  GpuLaunch launch;
  launch.strategy = "block";
  launch.threads = target.maxThreadsPerBlock;
  // A thread per expert; decoding has few slots.
  if (phase == Phase::decode)
    launch.threads = llvm::alignTo(std::max<int64_t>(ends - 1, 256), 32);
  launch.sharedBytes = PlanEmitter::sharedBytes(ends - 1, launch.threads / 32);
  return launch;
}

LogicalResult k3::emitMoePlan(OpBuilder &b, MoePlanOp op, KernelConfigAttr config, const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  g.setMinBlocks(1); // there is only one
  PlanEmitter(g, op).emit();
  return success();
}
