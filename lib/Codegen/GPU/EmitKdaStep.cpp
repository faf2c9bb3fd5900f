//===- EmitKdaStep.cpp - k3.kda.recurrent_step on a GPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The state is all that costs: it is read once and written once, 16 bytes per thread. A few lanes share a row [value, :]
// of the state, so that prediction and output are sums over those lanes; a warp has several rows at a time in registers.
// The update does not wait for a second pass, because S q after it is (S a) q + e (k q).
//
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/Tile/Runs.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

/// Inside the root, on the sum of squares (flash-linear-attention's l2norm).
constexpr double l2Eps = 1e-6;
constexpr int64_t blockWarps = 4;
/// f32 values of the state that a thread holds, of one row and of all its rows.
constexpr int64_t maxPerRow = 16, maxHeld = 32;

struct StepShape {
  int64_t keys, values, run;
  /// Lanes of a row, and runs per lane.
  int64_t lanes, parts;
  /// Rows that a lane has a part of.
  int64_t rows;
  int64_t rowsPerWarp() const { return 32 / lanes * rows; }
  int64_t rowsPerBlock() const { return blockWarps * rowsPerWarp(); }
};

std::optional<StepShape> shapeOf(KdaRecurrentStepOp op) {
  StepShape shape;
  shape.keys = getStaticNamedDim(op, "K");
  shape.values = getStaticNamedDim(op, "V");
  if (ShapedType::isDynamic(shape.keys) || ShapedType::isDynamic(shape.values) || shape.keys == 0 || shape.values == 0)
    return std::nullopt;
  shape.run = getRunLength(shape.keys, 4);
  for (shape.lanes = 8; shape.lanes <= 32; shape.lanes *= 2) {
    shape.parts = llvm::divideCeil(shape.keys, shape.lanes * shape.run);
    if (shape.parts * shape.run <= maxPerRow || shape.lanes == 32)
      break;
  }
  int64_t perRow = shape.parts * shape.run;
  if (perRow > maxHeld)
    return std::nullopt;
  shape.rows = std::clamp<int64_t>(maxHeld / perRow, 1, 4);
  return shape;
}

class StepEmitter {
public:
  using Runs = SmallVector<SmallVector<Value>>; // of a lane, by part

  StepEmitter(const GpuBuilder &g, KdaRecurrentStepOp op, const StepShape &shape)
      : g(g), op(op), shape(shape), state(g, op.getState(), shape.run) {}

  void emit() {
    n = g.blockId(0), h = g.blockId(1);
    Value lane = g.laneId(), warp = g.warpId();
    g.ifThen(g.lt(n, g.dim(op.getQ(), 0)), [&] {
      laneOfRow = g.rem(lane, shape.lanes);
      for (int64_t part = 0; part < shape.parts; ++part) {
        int64_t first = part * shape.lanes * shape.run;
        starts.push_back(g.add(g.mul(laneOfRow, shape.run), first));
        bool whole = first + shape.lanes * shape.run <= shape.keys;
        inside.push_back(whole ? Value() : g.lt(starts.back(), shape.keys));
      }
      Value firstRow = g.add(g.mul(g.blockId(2), shape.rowsPerBlock()),
                             g.add(g.mul(warp, shape.rowsPerWarp()), g.div(lane, shape.lanes)));
      emitRows(firstRow);
    });
  }

private:
  void emitRows(Value firstRow) {
    // The state first, because it takes longest to arrive.
    Value slot = g.load(op.getSlots(), {n}, /*readOnly=*/true);
    SmallVector<Value> row, pointer;
    SmallVector<Runs> held;
    for (int64_t r = 0; r < shape.rows; ++r) {
      row.push_back(g.add(firstRow, r * (32 / shape.lanes)));
      // Rows past the end are read as the last one and not written.
      pointer.push_back(g.element(op.getState(), {slot, h, g.min(row[r], shape.values - 1)}));
      held.push_back(loadParts([&](int64_t part) { return state.load(at(pointer[r], part)); }));
    }
    loadInputs(row);
    SmallVector<Value> predicted, output;
    for (Runs &values : held) {
      Value sumK = g.f32(0), sumQ = g.f32(0);
      for (int64_t part = 0; part < shape.parts; ++part)
        for (int64_t i = 0; i < shape.run; ++i) {
          Value &s = values[part][i];
          if (decay)
            s = g.mul(s, (*decay)[part][i]);
          sumK = g.fma(s, key[part][i], sumK);
          sumQ = g.fma(s, query[part][i], sumQ);
        }
      predicted.push_back(sumK);
      output.push_back(sumQ);
    }
    for (int64_t r = 0; r < shape.rows; ++r) {
      Value sumQ = reduce(output[r]);
      Value error = g.mul(rate, op.getDelta() ? g.sub(value[r], reduce(predicted[r])) : value[r]);
      for (int64_t part = 0; part < shape.parts; ++part)
        for (int64_t i = 0; i < shape.run; ++i)
          held[r][part][i] = g.fma(error, key[part][i], held[r][part][i]);
      auto store = [&] {
        for (int64_t part = 0; part < shape.parts; ++part)
          ifInside(part, [&] { state.store(held[r][part], at(pointer[r], part)); });
        g.ifThen(g.eq(laneOfRow, 0),
                 [&] { g.store(g.fma(error, queryKey, sumQ), op.getOut(), {n, h, row[r]}); });
      };
      if (shape.values % shape.rowsPerBlock() == 0)
        store();
      else
        g.ifThen(g.lt(row[r], shape.values), store);
    }
  }

  /// Scaled queries, unit keys, decays; values of the rows; the rate.
  void loadInputs(ArrayRef<Value> row) {
    RunTensor q(g, op.getQ(), shape.run, true), k(g, op.getK(), shape.run, true);
    query = loadParts([&](int64_t part) { return q.load({n, h, starts[part]}); });
    key = loadParts([&](int64_t part) { return k.load({n, h, starts[part]}); });
    if (Value gates = op.getG()) {
      if (cast<MemRefType>(gates.getType()).getRank() == 2) {
        decay.emplace(shape.parts,
                      SmallVector<Value>(shape.run, g.exp(g.load(gates, {n, h}, /*readOnly=*/true))));
      } else {
        RunTensor perChannel(g, gates, shape.run, true);
        decay = loadParts([&](int64_t part) { return perChannel.load({n, h, starts[part]}); });
        for (SmallVector<Value> &run : *decay)
          for (Value &gate : run)
            gate = g.exp(gate);
      }
    }
    for (Value at : row)
      value.push_back(g.load(op.getV(), {n, h, g.min(at, shape.values - 1)}, /*readOnly=*/true));
    rate = g.sigmoid(g.load(op.getBeta(), {n, h}, /*readOnly=*/true));
    Value queryFactor = g.f32(op.getScale().convertToDouble());
    if (op.getL2norm()) {
      queryFactor = g.mul(queryFactor, inverseLength(query));
      scale(key, inverseLength(key));
    }
    scale(query, queryFactor);
    queryKey = g.f32(0);
    for (int64_t part = 0; part < shape.parts; ++part)
      for (int64_t i = 0; i < shape.run; ++i)
        queryKey = g.fma(query[part][i], key[part][i], queryKey);
    queryKey = reduce(queryKey);
  }

  Value inverseLength(const Runs &runs) {
    Value sum = g.f32(0);
    for (const SmallVector<Value> &run : runs)
      for (Value x : run)
        sum = g.fma(x, x, sum);
    return g.rsqrt(g.add(reduce(sum), g.f32(l2Eps)));
  }
  void scale(Runs &runs, Value factor) {
    for (SmallVector<Value> &run : runs)
      for (Value &x : run)
        x = g.mul(x, factor);
  }
  Value reduce(Value x) { return g.warpReduce(x, Reduction::Add, shape.lanes); }

  Value at(Value pointer, int64_t part) { return g.advance(pointer, starts[part], state.elementType()); }

  Runs loadParts(function_ref<SmallVector<Value>(int64_t)> load) {
    Runs runs;
    for (int64_t part = 0; part < shape.parts; ++part)
      runs.push_back(!inside[part]
                         ? load(part)
                         : g.ifThenElse(
                               inside[part], [&] { return load(part); },
                               [&] { return SmallVector<Value>(shape.run, g.f32(0)); }));
    return runs;
  }
  void ifInside(int64_t part, function_ref<void()> body) {
    if (inside[part])
      g.ifThen(inside[part], body);
    else
      body();
  }

  const GpuBuilder &g;
  KdaRecurrentStepOp op;
  StepShape shape;
  RunTensor state;
  Value n, h, laneOfRow;
  SmallVector<Value> starts, inside; ///< per part
  Runs query, key;
  std::optional<Runs> decay;
  SmallVector<Value> value; ///< per row
  Value rate, queryKey;
};

} // namespace

std::optional<GpuLaunch> k3::configureKdaRecurrentStep(KdaRecurrentStepOp op, Phase, const GpuTarget &) {
  std::optional<StepShape> shape = shapeOf(op);
  if (!shape)
    return std::nullopt;
  GpuLaunch launch;
  launch.strategy = "rows";
  launch.grid = {{"N", 1}, {"H", 1}, {"V", shape->rowsPerBlock()}};
  launch.threads = 32 * blockWarps;
  return launch;
}

LogicalResult k3::emitKdaRecurrentStep(OpBuilder &b, KdaRecurrentStepOp op, KernelConfigAttr config,
                                       const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  StepEmitter(g, op, *shapeOf(op)).emit();
  return success();
}
