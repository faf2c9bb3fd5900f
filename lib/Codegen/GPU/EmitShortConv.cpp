//===- EmitShortConv.cpp - k3.kda.short_conv on a GPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A thread has a run of channels and a tile of rows, with the last inputs in registers. The block whose tile has the first
// row of a sequence also advances the sequence's state: it alone reads the old state, so that nobody overwrites what
// another block still needs.
//
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/Tile/Runs.h"
#include "lib/Codegen/GPU/Tile/Sequences.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

constexpr int64_t maxTaps = 8, maxThreads = 128;
/// Rows of a tile in prefill, and those that are loaded together.
constexpr int64_t prefillRows = 32, rowsInFlight = 8;

int64_t channelRun(KdaShortConvOp op) { return getRunLength(getStaticNamedDim(op, "C"), 4); }

int64_t threadsOf(KdaShortConvOp op) {
  int64_t runs = getStaticNamedDim(op, "C") / channelRun(op);
  return llvm::alignTo(std::min(runs, maxThreads), 32);
}

class ConvEmitter {
public:
  using Run = SmallVector<Value>;

  ConvEmitter(const GpuBuilder &g, KdaShortConvOp op)
      : g(g), op(op), channels(getStaticNamedDim(op, "C")), run(channelRun(op)),
        history(cast<ShapedType>(op.getWeight().getType()).getDimSize(1) - 1), x(g, op.getX(), run, true),
        out(g, op.getOut(), run), state(g, op.getState(), run) {}

  void emit() {
    int64_t tile = g.config.getGrid().front().getTile();
    Value rows = g.dim(op.getX(), 0);
    channel = g.mul(g.add(g.mul(g.blockId(1), g.threads()), g.threadId()), run);
    Value low = g.mul(g.blockId(0), tile), high = g.min(g.add(low, tile), rows);
    Value isActive = g.lt(low, rows);
    if (channels % (g.threads() * run) != 0)
      isActive = g.logicalAnd(isActive, g.lt(channel, channels));
    g.ifThen(isActive, [&] {
      loadWeights();
      Value n = findSequence(g, op.getCu(), low);
      if (tile == 1)
        return emitPart(n, low, high);
      OpBuilder &b = g.b;
      scf::WhileOp::create(
          b, g.loc, TypeRange{g.i32(), g.i32()}, ValueRange{n, low},
          [&](OpBuilder &inner, Location loc, ValueRange args) {
            OpBuilder::InsertionGuard guard(b);
            b.setInsertionPointToEnd(inner.getInsertionBlock());
            scf::ConditionOp::create(b, loc, g.lt(args[1], high), args);
          },
          [&](OpBuilder &inner, Location loc, ValueRange args) {
            OpBuilder::InsertionGuard guard(b);
            b.setInsertionPointToEnd(inner.getInsertionBlock());
            Value next = g.add(args[0], 1);
            Value end = g.min(g.load(op.getCu(), {next}, /*readOnly=*/true), high);
            // A sequence may have no rows.
            g.ifThen(g.lt(args[1], end), [&] { emitPart(args[0], args[1], end); });
            scf::YieldOp::create(b, loc, ValueRange{next, end});
          });
    });
  }

private:
  /// weight[c, j] of the thread's channels, by tap.
  void loadWeights() {
    RunTensor weight(g, op.getWeight(), getRunLength(run * (history + 1), 8), true);
    int64_t piece = getRunLength(run * (history + 1), 8);
    Value start = g.element(op.getWeight(), {channel});
    Run all;
    for (int64_t i = 0; i < run * (history + 1); i += piece)
      all.append(weight.load(g.advance(start, i, weight.elementType())));
    taps.assign(history + 1, Run());
    for (int64_t i = 0; i < run; ++i)
      for (int64_t j = 0; j <= history; ++j)
        taps[j].push_back(all[i * (history + 1) + j]);
  }

  /// Rows [low, high) of sequence n, which are in one tile. The first rows of a sequence, which need the old state, are
  /// done with its first row, also where they are in the next tile.
  void emitPart(Value n, Value low, Value high) {
    Value first = g.load(op.getCu(), {n}, /*readOnly=*/true);
    Value end = g.load(op.getCu(), {g.add(n, 1)}, /*readOnly=*/true);
    Value free = g.add(first, history), isStart = g.eq(first, low);
    Value begin = g.select(isStart, low, g.max(low, free));
    Value stop = g.select(isStart, g.min(end, g.max(high, free)), high);
    g.ifThen(g.lt(begin, stop), [&] {
      SmallVector<Value> window = g.ifThenElse(
          isStart,
          [&] {
            Value slot = g.load(op.getSlots(), {n}, /*readOnly=*/true);
            SmallVector<Run> old;
            for (int64_t j = 0; j < history; ++j)
              old.push_back(state.load({slot, g.i32(j), channel}));
            advanceState(slot, old, first, end);
            return flatten(old);
          },
          [&] {
            SmallVector<Run> earlier;
            for (int64_t j = 0; j < history; ++j)
              earlier.push_back(x.load({g.add(begin, j - history), channel}));
            return flatten(earlier);
          });
      walk(begin, stop, window);
    });
  }

  /// state[j] = input number length - history + j of the sequence; inputs before its first row are the old state.
  void advanceState(Value slot, ArrayRef<Run> old, Value first, Value end) {
    Value length = g.sub(end, first);
    SmallVector<Run> next;
    for (int64_t j = 0; j < history; ++j) {
      Value row = g.add(end, j - history);
      next.push_back(g.ifThenElse(
          g.ge(row, first), [&] { return x.load({row, channel}); },
          [&] {
            // Old entry number length + j.
            Run picked = old.back();
            for (int64_t k = history - 2; k > j; --k)
              for (auto [value, other] : llvm::zip_equal(picked, old[k]))
                value = g.select(g.eq(length, k - j), other, value);
            return picked;
          }));
    }
    for (int64_t j = 0; j < history; ++j)
      state.store(next[j], {slot, g.i32(j), channel});
  }

  void walk(Value low, Value high, ArrayRef<Value> window) {
    int64_t step = std::min(g.config.getGrid().front().getTile(), rowsInFlight);
    g.loop(low, high, g.i32(step), window, [&](Value start, ValueRange carried) {
      SmallVector<Run> inputs = unflatten(carried);
      for (int64_t i = 0; i < step; ++i)
        inputs.push_back(x.load({g.min(g.add(start, i), g.sub(high, 1)), channel}));
      for (int64_t i = 0; i < step; ++i) {
        Value row = g.add(start, i);
        auto store = [&] { storeRow(row, ArrayRef(inputs).slice(i, history + 1)); };
        if (i == 0)
          store();
        else
          g.ifThen(g.lt(row, high), store);
      }
      return flatten(ArrayRef(inputs).take_back(history));
    });
  }

  /// `inputs`: of the row and those before it, oldest first.
  void storeRow(Value row, ArrayRef<Run> inputs) {
    Run results;
    for (int64_t i = 0; i < run; ++i) {
      Value sum = g.mul(taps[0][i], inputs[0][i]);
      for (int64_t j = 1; j <= history; ++j)
        sum = g.fma(taps[j][i], inputs[j][i], sum);
      results.push_back(op.getSilu() ? g.silu(sum) : sum);
    }
    out.store(results, {row, channel});
  }

  static SmallVector<Value> flatten(ArrayRef<Run> runs) {
    SmallVector<Value> values;
    for (const Run &one : runs)
      values.append(one);
    return values;
  }
  SmallVector<Run> unflatten(ValueRange values) const {
    SmallVector<Run> runs;
    for (int64_t j = 0; j < history; ++j)
      runs.emplace_back(values.slice(j * run, run));
    return runs;
  }

  const GpuBuilder &g;
  KdaShortConvOp op;
  int64_t channels, run, history;
  RunTensor x, out, state;
  Value channel;
  SmallVector<Run> taps;
};

} // namespace

std::optional<GpuLaunch> k3::configureKdaShortConv(KdaShortConvOp op, Phase phase, const GpuTarget &) {
  int64_t channels = getStaticNamedDim(op, "C"), taps = getStaticNamedDim(op, "taps");
  if (ShapedType::isDynamic(channels) || ShapedType::isDynamic(taps) || channels == 0 || taps > maxTaps)
    return std::nullopt;
  GpuLaunch launch;
  launch.strategy = "window";
  launch.threads = threadsOf(op);
  launch.grid = {{"T", phase == Phase::decode ? 1 : prefillRows}, {"C", launch.threads * channelRun(op)}};
  return launch;
}

LogicalResult k3::emitKdaShortConv(OpBuilder &b, KdaShortConvOp op, KernelConfigAttr config, const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  ConvEmitter(g, op).emit();
  return success();
}
