//===- EmitSample.cpp - choice of a token from its logits on a GPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A block per row, which goes over the logits several times: they come from the L2 cache, as the product that made them
// has just left them there. First the highest and whether all are finite; for greedy rows that is all. A place in the
// order of falling logits (top-k, top-p, the choice among what they leave) is found digit by digit of the logits' keys,
// integers in the order of the floats, with a histogram in shared memory for each digit. A place in the order of the ids
// is found from sums over tiles. Weights are integers, so that sums are the same in any order and atomic operations do
// no harm.
//
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/Tile/GpuBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace mlir::k3;

/// Logits that a lane takes at once, and a warp.
static constexpr int64_t perLane = 4, perTile = 32 * perLane;
/// Digits of a key, from the top: 11, 11 and 10 bits.
static constexpr int64_t digits = 3, digitBits = 11, bins = 1 << digitBits;

namespace {
/// Shared memory, in bytes.
struct Layout {
  int64_t sums, warpSums, found, scratch, size; ///< sums of bins or tiles are at 0
  explicit Layout(int64_t vocabulary)
      : sums(std::max(bins, static_cast<int64_t>(llvm::divideCeil(vocabulary, perTile)))), warpSums(8 * sums),
        found(warpSums + 8 * 32), scratch(found + 16), size(scratch + 4 * 32) {}
};
} // namespace

std::optional<GpuLaunch> k3::configureSample(SampleOp op, Phase, const GpuTarget &target) {
  int64_t vocabulary = getStaticNamedDim(op, "V"), size = Layout(vocabulary).size;
  if (vocabulary > INT32_MAX / 2 || size > target.sharedBytesPerBlock)
    return std::nullopt;
  GpuLaunch launch;
  launch.strategy = "row";
  launch.grid = {{"R", 1}};
  // Logits that come one by one need more registers than 1024 threads have.
  int64_t most = vocabulary % perLane == 0 ? 1024 : 512;
  launch.threads = std::clamp<int64_t>(llvm::PowerOf2Ceil(llvm::divideCeil(vocabulary, 4 * perLane)), 64, most);
  launch.sharedBytes = size;
  return launch;
}

namespace {

class SampleEmitter {
public:
  SampleEmitter(GpuBuilder &g, SampleOp op);
  void emit();

private:
  /// Logits of a lane: values, and which of them may be chosen.
  struct Run {
    Value first; ///< id, i32
    SmallVector<Value> logits, usable;
  };
  struct Place {
    Value index, before; ///< of sums; the sum of those before it, i64
    Value total;         ///< i64
  };

  Type f64() const { return g.b.getF64Type(); }
  Value f64(double value) const { return arith::ConstantOp::create(g.b, g.loc, g.b.getF64FloatAttr(value)); }
  static int64_t bitsOf(double value) {
    int64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }
  Value widen(Value x) const { return arith::ExtFOp::create(g.b, g.loc, f64(), x); }
  Value toF64(Value x) const { return arith::SIToFPOp::create(g.b, g.loc, f64(), x); }
  Value nearest(Value x) const;
  Value unsignedLess(Value x, Value y) const {
    return arith::CmpIOp::create(g.b, g.loc, arith::CmpIPredicate::ult, x, y);
  }
  Value parameter(int64_t position) const { return g.load(op.getParameters(), {row, g.i32(position)}, /*readOnly=*/true); }
  Value parameterAsFloat(int64_t position) const { return g.bitcast(parameter(position), g.f32()); }

  Run loadRun(Value tile) const;
  Value keyOf(Value x) const;
  Value logitOf(Value key) const;
  Value weightOf(Value x) const;
  Value flooredWeightOf(Value x) const;
  SmallVector<Value> scan();
  Place locate(int64_t count, function_ref<Value(Value total)> target);
  Value shuffleFrom64(Value value, Value lane) const;
  Value exclusiveSum(Value value, Value &total) const;
  void addToBin(Value digit, Value value) const;
  Value reachP(Value total) const;
  Value reachRandom(Value total) const;
  std::pair<Value, Value> descend();
  Value chooseByPlace(Value inOrder, Value key, Value place);

  GpuBuilder &g;
  mutable SampleOp op; ///< a handle
  const int64_t vocabulary, tiles, scale;
  const Layout layout;
  Value row, lane, warp, logits, banned;
  // Of a sampled row.
  Value temperature, topK, topP;
  Value highest, inverse, floor;      ///< f64, f64, i64
  Value cutsK, cutsP;                 ///< i1
};

} // namespace

SampleEmitter::SampleEmitter(GpuBuilder &g, SampleOp op)
    : g(g), op(op), vocabulary(getStaticNamedDim(op, "V")), tiles(llvm::divideCeil(vocabulary, perTile)),
      scale(std::min<int64_t>(51, 62 - llvm::Log2_64(static_cast<uint64_t>(vocabulary)))), layout(vocabulary) {
  row = g.blockId();
  lane = g.laneId();
  warp = g.warpId();
}

//===----------------------------------------------------------------------===//
// Logits, keys and weights
//===----------------------------------------------------------------------===//

/// What of a tile belongs to this lane; nothing usable behind the last tile.
SampleEmitter::Run SampleEmitter::loadRun(Value tile) const {
  Run run;
  run.first = g.add(g.mul(tile, perTile), g.mul(lane, perLane));
  bool aligned = vocabulary % perLane == 0;
  SmallVector<Value> loaded = g.ifThenElse(
      g.lt(run.first, vocabulary),
      [&] {
        SmallVector<Value> values;
        Value pointer = g.advance(logits, run.first, g.f32());
        if (aligned)
          values = g.loadFloats(pointer, g.f32(), perLane, /*readOnly=*/true);
        for (int64_t i = 0; !aligned && i < perLane; ++i) {
          auto one = [&] {
            return SmallVector<Value>{g.loadRaw(g.advance(pointer, i, g.f32()), g.f32(), /*readOnly=*/true)};
          };
          values.append(i == 0 ? one()
                               : g.ifThenElse(g.lt(g.add(run.first, i), vocabulary), one,
                                              [&] { return SmallVector<Value>{g.f32(0)}; }));
        }
        Value word = g.loadRaw(g.advance(banned, g.div(run.first, 32), g.i32()), g.i32(), /*readOnly=*/true);
        values.push_back(g.shr(word, g.rem(run.first, 32)));
        return values;
      },
      [&] {
        SmallVector<Value> values(perLane, g.f32(0));
        values.push_back(g.i32(-1));
        return values;
      });
  Value bans = loaded.pop_back_val();
  run.logits = loaded;
  for (int64_t i = 0; i < perLane; ++i) {
    Value usable = g.eq(g.bitAnd(bans, int64_t(1) << i), 0);
    run.usable.push_back(aligned ? usable : g.logicalAnd(usable, g.lt(g.add(run.first, i), vocabulary)));
  }
  return run;
}

/// Signed integers in the order of the logits; -0 is 0.
Value SampleEmitter::keyOf(Value x) const {
  Value bits = g.bitcast(g.add(x, g.f32(0)), g.i32());
  return g.bitXor(bits, g.shr(arith::ShRSIOp::create(g.b, g.loc, bits, g.i32(31)), 1));
}

Value SampleEmitter::logitOf(Value key) const {
  return g.bitcast(g.bitXor(key, g.shr(arith::ShRSIOp::create(g.b, g.loc, key, g.i32(31)), 1)), g.f32());
}

/// Of a float of at least 0 and below 2^52.
Value SampleEmitter::nearest(Value x) const {
  return g.sub(g.bitcast(g.add(x, f64(0x1p52)), g.i64()), g.i64(bitsOf(0x1p52)));
}

/// round(2^scale e^((x - highest) / t)) of an x that is not above the highest.
Value SampleEmitter::weightOf(Value x) const {
  // e^y = 2^k e^r with k the integer nearest to y / ln 2, which adding `round` leaves in the lowest bits.
  constexpr double round = 0x1.8p52, ln2 = 0.69314718055994530942, ln2Rest = 2.3190468138462996e-17;
  Value y = g.mul(g.sub(widen(x), highest), inverse);
  // Weights there are 0, whatever the scale.
  y = g.select(g.lt(y, f64(-100)), f64(-100), y);
  Value shifted = g.fma(y, f64(1.4426950408889634), f64(round)), k = g.sub(shifted, f64(round));
  Value r = g.fma(k, f64(-ln2Rest), g.fma(k, f64(-ln2), y));
  Value sum = f64(1.0 / 479001600);
  for (double factorial : {39916800.0, 3628800.0, 362880.0, 40320.0, 5040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0})
    sum = g.fma(sum, r, f64(1 / factorial));
  constexpr int64_t bias = 1023;
  Value exponent = g.add(g.bitcast(shifted, g.i64()), g.i64(bias + scale - bitsOf(round)));
  return nearest(g.mul(sum, g.bitcast(g.shl(exponent, 52), f64())));
}

Value SampleEmitter::flooredWeightOf(Value x) const {
  Value weight = weightOf(x);
  return g.select(g.lt(weight, floor), g.i64(0), weight);
}

/// Over the whole row: {whether a logit is not finite, highest key, its lowest id, number of tokens}, i32, in all threads.
SmallVector<Value> SampleEmitter::scan() {
  constexpr int64_t inFlight = 4;
  int64_t stride = g.warps() * inFlight, rounds = llvm::divideCeil(tiles, stride);
  Value absent = g.i32(INT32_MIN);
  SmallVector<Value> own = g.loop(
      warp, g.i32(rounds * stride), g.i32(stride), {g.i32(0), absent, g.i32(INT32_MAX), g.i32(0)},
      [&](Value first, ValueRange carried) {
        SmallVector<Value> state(carried);
        SmallVector<Run> runs;
        for (int64_t i = 0; i < inFlight; ++i)
          runs.push_back(loadRun(g.add(first, i * g.warps())));
        for (const Run &run : runs)
          for (int64_t i = 0; i < perLane; ++i) {
            Value magnitude = g.bitAnd(g.bitcast(run.logits[i], g.i32()), INT32_MAX);
            state[0] = g.select(g.ge(magnitude, 0x7f800000), g.i32(1), state[0]);
            Value key = g.select(run.usable[i], keyOf(run.logits[i]), absent);
            // Ids rise.
            Value higher = g.lt(state[1], key);
            state[1] = g.select(higher, key, state[1]);
            state[2] = g.select(higher, g.add(run.first, i), state[2]);
            state[3] = g.add(state[3], g.zeroExtend(run.usable[i], g.i32()));
          }
        return state;
      });
  Value bad = g.blockReduce(own[0], Reduction::Max, layout.scratch);
  Value key = g.blockReduce(own[1], Reduction::Max, layout.scratch);
  Value id = g.select(g.eq(own[1], key), own[2], g.i32(INT32_MAX));
  id = g.blockReduce(id, Reduction::Min, layout.scratch);
  Value count = g.blockReduce(own[3], Reduction::Add, layout.scratch);
  return {bad, key, id, count};
}

//===----------------------------------------------------------------------===//
// Sums in shared memory
//===----------------------------------------------------------------------===//

Value SampleEmitter::shuffleFrom64(Value value, Value lane) const {
  Value low = g.shuffleFrom(g.truncate(value, g.i32()), lane);
  Value high = g.shuffleFrom(g.truncate(g.shr(value, 32), g.i32()), lane);
  return g.bitOr(g.zeroExtend(low, g.i64()), g.shl(g.zeroExtend(high, g.i64()), 32));
}

/// Over the lanes before this one, and over all of the warp.
Value SampleEmitter::exclusiveSum(Value value, Value &total) const {
  Value sum = value;
  for (int64_t distance = 1; distance < 32; distance *= 2) {
    Value other = shuffleFrom64(sum, g.bitAnd(g.sub(lane, distance), 31));
    sum = g.add(sum, g.select(g.lt(lane, distance), g.i64(0), other));
  }
  total = shuffleFrom64(sum, g.i32(31));
  return g.sub(sum, value);
}

/// The first of `count` sums with which the sum of them up to there exceeds `target(total)`, which must be below the
/// total. Collective.
SampleEmitter::Place SampleEmitter::locate(int64_t count, function_ref<Value(Value total)> target) {
  int64_t each = llvm::divideCeil(count, g.threads());
  Value first = g.mul(g.threadId(), each), sums = g.shared(0);
  g.barrier();
  SmallVector<Value> own;
  Value sum = g.i64(0);
  for (int64_t i = 0; i < each; ++i) {
    Value index = g.add(first, i), pointer = g.advance(sums, index, g.i64());
    auto load = [&] { return SmallVector<Value>{g.loadRaw(pointer, g.i64())}; };
    own.push_back(each * g.threads() == count
                      ? load()[0]
                      : g.ifThenElse(g.lt(index, count), load, [&] { return SmallVector<Value>{g.i64(0)}; })[0]);
    sum = g.add(sum, own.back());
  }
  Value warpTotal, warpSums = g.shared(layout.warpSums);
  Value before = exclusiveSum(sum, warpTotal);
  g.ifThen(g.eq(lane, 0), [&] { g.storeRaw(warpTotal, g.advance(warpSums, warp, g.i64())); });
  g.barrier();
  Value total = g.i64(0);
  for (int64_t i = 0; i < g.warps(); ++i) {
    Value other = g.loadRaw(g.advance(warpSums, i, g.i64()), g.i64());
    before = g.add(before, g.select(g.lt(g.i32(i), warp), other, g.i64(0)));
    total = g.add(total, other);
  }
  Value wanted = target(total), found = g.shared(layout.found);
  for (int64_t i = 0; i < each; ++i) {
    Value end = g.add(before, own[i]);
    g.ifThen(g.logicalAnd(g.le(before, wanted), g.lt(wanted, end)), [&] {
      g.storeRaw(before, found);
      g.storeRaw(g.add(first, i), g.advance(found, 8, g.i8()));
    });
    before = end;
  }
  g.barrier();
  return {g.loadRaw(g.advance(found, 8, g.i8()), g.i32()), g.loadRaw(found, g.i64()), total};
}

/// Adds to a 64-bit sum by two 32-bit operations, which shared memory does by itself; the carry is where the lower half
/// gets smaller.
void SampleEmitter::addToBin(Value digit, Value value) const {
  Value pointer = g.advance(g.shared(0), digit, g.i64());
  Value address = LLVM::PtrToIntOp::create(g.b, g.loc, g.i32(), pointer);
  Value low = g.truncate(value, g.i32()), high = g.truncate(g.shr(value, 32), g.i32());
  Value old = g.ptx(g.i32(), "atom.shared.add.u32 $0, [$1], $2;", {address, low}, /*volatile_=*/true);
  high = g.add(high, g.zeroExtend(unsignedLess(g.add(old, low), old), g.i32()));
  g.ifThen(g.ne(high, 0), [&] { g.ptx("red.shared.add.u32 [$0], $1;", {g.add(address, 4), high}); });
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

/// The sum must reach p times the total: the largest integer below that is what it must exceed.
Value SampleEmitter::reachP(Value total) const {
  Value reach = g.mul(widen(topP), toF64(total));
  Value below = arith::FPToSIOp::create(g.b, g.loc, g.i64(), reach);
  below = g.select(g.eq(toF64(below), reach), g.sub(below, 1), below);
  below = arith::MinSIOp::create(g.b, g.loc, below, g.sub(total, 1));
  return arith::MaxSIOp::create(g.b, g.loc, below, g.i64(0));
}

/// floor(total random / 2^53).
Value SampleEmitter::reachRandom(Value total) const {
  Value low = g.zeroExtend(parameter(5), g.i64()), high = g.zeroExtend(parameter(6), g.i64());
  Value fraction = g.shl(g.bitOr(low, g.shl(high, 32)), 64 - 53);
  return g.ptx(g.i64(), "mul.hi.u64 $0, $1, $2;", {fraction, total});
}

/// In the order of falling logits: top-k, top-p and the choice each find a place among what those before leave. Gives the
/// key that is chosen and which of the logits that have it, i64.
std::pair<Value, Value> SampleEmitter::descend() {
  constexpr int64_t stages = 3;
  Value sign = g.i32(INT32_MIN);
  // Carried: the last key that is left and how many have it that are left; at first nothing is left out.
  SmallVector<Value> last = g.loop(
      g.i32(0), g.i32(stages), g.i32(1), {sign, g.i64(0)}, [&](Value stage, ValueRange carried) -> SmallVector<Value> {
        Value lastKey = carried[0], lastCount = carried[1];
        Value counts = g.eq(stage, 0), chooses = g.eq(stage, 2);
        Value wanted = g.select(counts, cutsK, g.select(chooses, g.boolean(true), cutsP));
        Value least = g.select(chooses, floor, g.i64(0));
        auto measure = [&](Value x) {
          return g.ifThenElse(
              counts, [&] { return SmallVector<Value>{g.i64(1)}; },
              [&] {
                Value weight = weightOf(x);
                return SmallVector<Value>{g.select(g.lt(weight, least), g.i64(0), weight)};
              })[0];
        };
        auto cut = [&]() -> SmallVector<Value> {
          // Carried: the digits found (keys as unsigned numbers), the sum of what is above them, the target.
          SmallVector<Value> found = g.loop(
              g.i32(0), g.i32(digits), g.i32(1), {g.i32(0), g.i64(0), g.i64(0)},
              [&](Value digit, ValueRange state) -> SmallVector<Value> {
                Value top = g.eq(digit, 0), lowest = g.eq(digit, digits - 1);
                Value shift = g.select(top, g.i32(21), g.select(lowest, g.i32(0), g.i32(10)));
                Value width = g.select(lowest, g.i32(10), g.i32(digitBits));
                Value mask = g.sub(g.shl(g.i32(1), width), 1);
                // A shift by all bits is none.
                Value known = g.select(top, g.i32(31), g.add(shift, width));
                auto binOf = [&](Value key) {
                  return g.sub(mask, g.bitAnd(g.shr(g.bitXor(key, sign), shift), mask));
                };
                auto matches = [&](Value key) {
                  Value same = g.eq(g.shr(g.bitXor(key, sign), known), state[0]);
                  return g.logicalOr(top, same);
                };
                g.barrier();
                g.forThreads(bins, [&](Value bin) { g.storeRaw(g.i64(0), g.advance(g.shared(0), bin, g.i64())); });
                g.barrier();
                int64_t rounds = llvm::divideCeil(tiles, g.warps());
                g.loop(warp, g.i32(rounds * g.warps()), g.i32(g.warps()), [&](Value tile) {
                  Run run = loadRun(tile);
                  for (int64_t i = 0; i < perLane; ++i) {
                    Value key = keyOf(run.logits[i]);
                    Value inside = g.logicalAnd(run.usable[i], g.logicalAnd(g.lt(lastKey, key), matches(key)));
                    g.ifThen(inside, [&] {
                      Value value = measure(run.logits[i]);
                      g.ifThen(g.ne(value, 0), [&] { addToBin(binOf(key), value); });
                    });
                  }
                });
                // Those that equal the last key count together.
                Value some = g.logicalAnd(g.ne(lastCount, 0), matches(lastKey));
                g.ifThen(g.logicalAnd(g.eq(g.threadId(), 0), some), [&] {
                  addToBin(binOf(lastKey), g.mul(lastCount, measure(logitOf(lastKey))));
                });
                Value target;
                Place place = locate(bins, [&](Value total) {
                  Value random = g.select(chooses, reachRandom(total), reachP(total));
                  Value first = g.select(counts, g.sub(g.toI64(topK), 1), random);
                  target = g.select(top, first, state[2]);
                  return g.sub(target, state[1]);
                });
                Value number = g.bitOr(g.shl(state[0], width), g.sub(mask, place.index));
                return {number, g.add(state[1], place.before), target};
              });
          Value key = g.bitXor(found[0], sign);
          // All that equal it count for the same.
          Value each = arith::MaxSIOp::create(g.b, g.loc, measure(logitOf(key)), g.i64(1));
          Value count = arith::DivSIOp::create(g.b, g.loc, g.sub(found[2], found[1]), each);
          return {key, g.add(count, 1)};
        };
        return g.ifThenElse(wanted, cut, [&] { return SmallVector<Value>{lastKey, lastCount}; });
      });
  return {last[0], g.sub(last[1], 1)};
}

/// In the order of the ids: number `place` of those whose logit has `key`, or the choice among all tokens. Stores it.
Value SampleEmitter::chooseByPlace(Value inOrder, Value key, Value place) {
  auto measure = [&](const Run &run, int64_t i) {
    return g.ifThenElse(
        run.usable[i],
        [&] {
          return g.ifThenElse(
              inOrder,
              [&] { return SmallVector<Value>{g.zeroExtend(g.eq(keyOf(run.logits[i]), key), g.i64())}; },
              [&] { return SmallVector<Value>{flooredWeightOf(run.logits[i])}; });
        },
        [&] { return SmallVector<Value>{g.i64(0)}; })[0];
  };
  auto measureRun = [&](Value tile, SmallVector<Value> &values) {
    Run run = loadRun(tile);
    Value sum = g.i64(0);
    for (int64_t i = 0; i < perLane; ++i) {
      values.push_back(measure(run, i));
      sum = g.add(sum, values.back());
    }
    return sum;
  };
  g.barrier();
  int64_t rounds = llvm::divideCeil(tiles, g.warps());
  g.loop(warp, g.i32(rounds * g.warps()), g.i32(g.warps()), [&](Value tile) {
    SmallVector<Value> values;
    Value total;
    exclusiveSum(measureRun(tile, values), total);
    g.ifThen(g.logicalAnd(g.eq(lane, 0), g.lt(tile, tiles)),
             [&] { g.storeRaw(total, g.advance(g.shared(0), tile, g.i64())); });
  });
  Value target;
  Place found = locate(tiles, [&](Value total) {
    target = g.select(inOrder, place, reachRandom(total));
    return target;
  });
  // All warps do the same; the one lane of each that finds the token agrees with the others.
  SmallVector<Value> values;
  Value total, sum = exclusiveSum(measureRun(found.index, values), total);
  sum = g.add(sum, found.before);
  Value chosen = g.i32(-1);
  for (int64_t i = 0; i < perLane; ++i) {
    Value end = g.add(sum, values[i]), hit = g.logicalAnd(g.le(sum, target), g.lt(target, end));
    Value id = g.add(g.add(g.mul(found.index, perTile), g.mul(lane, perLane)), i);
    chosen = g.select(hit, id, chosen);
    sum = end;
  }
  return g.warpReduce(chosen, Reduction::Max);
}

void SampleEmitter::emit() {
  auto store = [&](Value id) { g.ifFirstThread([&] { g.store(id, op.getIds(), {row}); }); };
  g.ifThen(g.lt(row, g.dim(op.getLogits(), 0)), [&] {
    Value looked = g.ne(parameter(0), 0);
    Value id = g.ifThenElse(
        looked,
        [&] {
          logits = g.element(op.getLogits(), {row});
          banned = g.element(op.getBanned(), {parameter(7)});
          temperature = parameterAsFloat(1);
          SmallVector<Value> seen = scan();
          Value fit = g.logicalAnd(g.eq(seen[0], 0), g.gt(seen[3], 0));
          Value sampled = g.logicalAnd(fit, g.gt(temperature, g.f32(0)));
          return g.ifThenElse(
              sampled,
              [&] {
                highest = widen(logitOf(seen[1]));
                inverse = arith::DivFOp::create(g.b, g.loc, f64(1), widen(temperature));
                floor = nearest(g.mul(widen(parameterAsFloat(4)), f64(std::ldexp(1.0, int(scale)))));
                topK = parameter(2);
                topP = parameterAsFloat(3);
                cutsK = g.logicalAnd(g.gt(topK, 0), g.lt(topK, seen[3]));
                cutsP = g.lt(topP, g.f32(1));
                Value inOrder = g.logicalOr(cutsK, cutsP);
                SmallVector<Value> place = g.ifThenElse(
                    inOrder,
                    [&] {
                      auto [key, number] = descend();
                      return SmallVector<Value>{key, number};
                    },
                    [&] { return SmallVector<Value>{g.i32(0), g.i64(0)}; });
                return SmallVector<Value>{chooseByPlace(inOrder, place[0], place[1])};
              },
              [&] { return SmallVector<Value>{g.select(fit, seen[2], g.i32(-1))}; });
        },
        [&] { return SmallVector<Value>{g.i32(-1)}; })[0];
    store(id);
  });
}

LogicalResult k3::emitSample(OpBuilder &b, SampleOp op, KernelConfigAttr config, const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  g.setMinBlocks(1); // all registers that there are
  SampleEmitter(g, op).emit();
  return success();
}
