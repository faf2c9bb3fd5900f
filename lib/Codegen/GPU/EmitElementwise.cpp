//===- EmitElementwise.cpp - ops on runs of a row, one by one, on a GPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// All these ops are a matrix of rows and runs, and a thread does one run of `rows` rows, whose loads are all in flight
// before the first result is stored. A block is a rectangle of threads: along a row as far as the row goes, then down.
//
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/Tile/Runs.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

constexpr int64_t blockThreads = 256;

/// How a matrix [rows, width] is cut.
struct Cut {
  int64_t width, run;
  /// Threads of a block along a row and down.
  int64_t across, down;
  int64_t threads() const { return llvm::alignTo(across * down, 32); }
};

/// `runUnit`: runs must not cross multiples of it (a head's end).
Cut makeCut(int64_t width, int64_t runUnit, ValueRange tensors) {
  Cut cut;
  cut.width = width;
  cut.run = getRunLength(runUnit, tensors);
  int64_t runs = width / cut.run;
  cut.across = std::min(runs, blockThreads);
  // Blocks that all do the same.
  for (int64_t parts = llvm::divideCeil(runs, blockThreads); parts > 1 && runs / parts >= blockThreads / 2; ++parts)
    if (runs % parts == 0) {
      cut.across = runs / parts;
      break;
    }
  cut.down = std::max<int64_t>(blockThreads / cut.across, 1);
  return cut;
}

/// The launch for op dimensions `rows` and `columns`; the columns of the op's matrix are `columns` times `width / size`.
std::optional<GpuLaunch> launchElementwise(const Cut &cut, Phase phase, StringRef rows, StringRef columns,
                                           int64_t elementsPerColumn = 1) {
  // Decoding has few rows: then threads side by side matter more than loads in flight.
  int64_t rowsPerThread = phase == Phase::decode ? 1 : 4;
  GpuLaunch launch;
  launch.strategy = "elementwise";
  launch.grid = {{rows, cut.down * rowsPerThread}};
  if (cut.across * cut.run < cut.width) {
    if (cut.across * cut.run % elementsPerColumn != 0)
      return std::nullopt;
    launch.grid.push_back({columns, cut.across * cut.run / elementsPerColumn});
  }
  launch.threads = cut.threads();
  return launch;
}

/// Emits the code of one thread. `load(row, column)` gives what `store(row, column, loaded)` turns into results; rows and
/// the first column of the run are i32.
void forRuns(const GpuBuilder &g, const Cut &cut, Value rows, function_ref<SmallVector<Value>(Value, Value)> load,
             function_ref<void(Value, Value, ArrayRef<Value>)> store) {
  int64_t rowsPerBlock = g.config.getGrid().front().getTile(), rowsPerThread = rowsPerBlock / cut.down;
  Value thread = g.threadId();
  Value column = g.mul(cut.down == 1 ? thread : g.rem(thread, cut.across), cut.run);
  Value down = cut.down == 1 ? g.i32(0) : g.div(thread, cut.across);
  Value isActive = cut.across * cut.down == g.threads() ? g.boolean(true)
                   : cut.down == 1                      ? g.lt(thread, cut.across)
                                                        : g.lt(down, cut.down);
  if (cut.across * cut.run < cut.width) {
    column = g.add(column, g.mul(g.blockId(1), cut.across * cut.run));
    if (cut.width % (cut.across * cut.run) != 0)
      isActive = g.logicalAnd(isActive, g.lt(column, cut.width));
  }
  Value first = g.add(g.mul(g.blockId(0), rowsPerBlock), down);
  g.ifThen(g.logicalAnd(isActive, g.lt(first, rows)), [&] {
    SmallVector<Value> row;
    SmallVector<SmallVector<Value>> loaded;
    for (int64_t i = 0; i < rowsPerThread; ++i) {
      row.push_back(g.add(first, i * cut.down));
      // Rows past the end are read as the last one, so that no load waits for a branch.
      loaded.push_back(load(i == 0 ? first : g.min(row[i], g.sub(rows, 1)), column));
    }
    for (int64_t i = 0; i < rowsPerThread; ++i) {
      auto finish = [&] { store(row[i], column, loaded[i]); };
      if (i == 0)
        finish();
      else
        g.ifThen(g.lt(row[i], rows), finish);
    }
  });
}

bool isPositive(int64_t size) { return !ShapedType::isDynamic(size) && size > 0; }

template <typename Op> Cut cutColumns(Op op, StringRef columns, ValueRange tensors) {
  int64_t width = getStaticNamedDim(op, columns);
  return makeCut(width, width, tensors);
}

/// Two inputs [T, n] to one output.
template <typename Op>
void emitBinary(OpBuilder &b, Op op, Value x, Value y, KernelConfigAttr config, const GpuTarget &target,
                function_ref<Value(const GpuBuilder &, Value, Value)> combine) {
  GpuBuilder g(b, op.getLoc(), target, config);
  Cut cut = cutColumns(op, "n", {x, y, op.getOut()});
  RunTensor first(g, x, cut.run, true), second(g, y, cut.run, true), out(g, op.getOut(), cut.run);
  forRuns(
      g, cut, g.dim(x, 0),
      [&](Value row, Value column) {
        SmallVector<Value> values = first.load({row, column});
        values.append(second.load({row, column}));
        return values;
      },
      [&](Value row, Value column, ArrayRef<Value> values) {
        SmallVector<Value> results;
        for (int64_t i = 0; i < cut.run; ++i)
          results.push_back(combine(g, values[i], values[cut.run + i]));
        out.store(results, {row, column});
      });
}

} // namespace

//===----------------------------------------------------------------------===//
// k3.glu, k3.sigmoid_gate
//===----------------------------------------------------------------------===//

std::optional<GpuLaunch> k3::configureGlu(GluOp op, Phase phase, const GpuTarget &) {
  if (!isPositive(getStaticNamedDim(op, "n")))
    return std::nullopt;
  return launchElementwise(cutColumns(op, "n", {op.getGate(), op.getUp(), op.getOut()}), phase, "T", "n");
}

LogicalResult k3::emitGlu(OpBuilder &b, GluOp op, KernelConfigAttr config, const GpuTarget &target) {
  emitBinary(b, op, op.getGate(), op.getUp(), config, target, [&](const GpuBuilder &g, Value gate, Value up) {
    return g.glu(op.getActivation(), op.getBeta().convertToDouble(), op.getLinearBeta().convertToDouble(), gate, up);
  });
  return success();
}

std::optional<GpuLaunch> k3::configureSigmoidGate(SigmoidGateOp op, Phase phase, const GpuTarget &) {
  if (!isPositive(getStaticNamedDim(op, "n")))
    return std::nullopt;
  return launchElementwise(cutColumns(op, "n", {op.getX(), op.getGate(), op.getOut()}), phase, "T", "n");
}

LogicalResult k3::emitSigmoidGate(OpBuilder &b, SigmoidGateOp op, KernelConfigAttr config, const GpuTarget &target) {
  emitBinary(b, op, op.getX(), op.getGate(), config, target,
             [](const GpuBuilder &g, Value x, Value gate) { return g.mul(x, g.sigmoid(gate)); });
  return success();
}

//===----------------------------------------------------------------------===//
// k3.gather_rows
//===----------------------------------------------------------------------===//

std::optional<GpuLaunch> k3::configureGatherRows(GatherRowsOp op, Phase phase, const GpuTarget &) {
  if (!isPositive(getStaticNamedDim(op, "d")))
    return std::nullopt;
  return launchElementwise(cutColumns(op, "d", {op.getTable(), op.getOut()}), phase, "T", "d");
}

LogicalResult k3::emitGatherRows(OpBuilder &b, GatherRowsOp op, KernelConfigAttr config, const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  Cut cut = cutColumns(op, "d", {op.getTable(), op.getOut()});
  RunTensor table(g, op.getTable(), cut.run, true), out(g, op.getOut(), cut.run);
  forRuns(
      g, cut, g.dim(op.getIds(), 0),
      [&](Value row, Value column) {
        Value id = g.load(op.getIds(), {row}, /*readOnly=*/true);
        return table.load({id, column});
      },
      [&](Value row, Value column, ArrayRef<Value> values) { out.store(values, {row, column}); });
  return success();
}

//===----------------------------------------------------------------------===//
// k3.attn_res.accumulate
//===----------------------------------------------------------------------===//

std::optional<GpuLaunch> k3::configureAttnResAccumulate(AttnResAccumulateOp op, Phase phase, const GpuTarget &) {
  if (!isPositive(getStaticNamedDim(op, "d")))
    return std::nullopt;
  return launchElementwise(cutColumns(op, "d", {op.getDelta(), op.getStream()}), phase, "T", "d");
}

LogicalResult k3::emitAttnResAccumulate(OpBuilder &b, AttnResAccumulateOp op, KernelConfigAttr config,
                                        const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  Cut cut = cutColumns(op, "d", {op.getDelta(), op.getStream()});
  RunTensor delta(g, op.getDelta(), cut.run, true), stream(g, op.getStream(), cut.run);
  forRuns(
      g, cut, g.dim(op.getDelta(), 0),
      [&](Value row, Value column) {
        SmallVector<Value> values = delta.load({row, column});
        if (!op.getInit())
          for (auto [value, old] : llvm::zip_equal(values, stream.load({op.getSlot(), row, column})))
            value = g.add(old, value);
        return values;
      },
      [&](Value row, Value column, ArrayRef<Value> values) { stream.store(values, {op.getSlot(), row, column}); });
  return success();
}

//===----------------------------------------------------------------------===//
// k3.latent_moe.combine
//===----------------------------------------------------------------------===//

/// Choices whose runs are in flight together.
static constexpr int64_t choicesInFlight = 8;

std::optional<GpuLaunch> k3::configureMoeCombine(MoeCombineOp op, Phase, const GpuTarget &) {
  if (!isPositive(getStaticNamedDim(op, "n")) || !isPositive(getStaticNamedDim(op, "k")))
    return std::nullopt;
  // A row is k rows of y, which are loads enough.
  return launchElementwise(cutColumns(op, "n", {op.getY(), op.getOut()}), Phase::decode, "T", "n");
}

LogicalResult k3::emitMoeCombine(OpBuilder &b, MoeCombineOp op, KernelConfigAttr config, const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  Cut cut = cutColumns(op, "n", {op.getY(), op.getOut()});
  int64_t choices = getStaticNamedDim(op, "k");
  RunTensor y(g, op.getY(), cut.run, true), out(g, op.getOut(), cut.run);
  forRuns(
      g, cut, g.dim(op.getOut(), 0),
      [&](Value row, Value column) {
        SmallVector<Value> sums(cut.run, g.f32(0)), old;
        if (op.getAccumulate())
          old = out.load({row, column});
        for (int64_t start = 0; start < choices; start += choicesInFlight) {
          SmallVector<Value> weights;
          SmallVector<SmallVector<Value>> parts;
          for (int64_t i = start; i < std::min(start + choicesInFlight, choices); ++i) {
            parts.push_back(y.load({row, g.i32(i), column}));
            weights.push_back(g.load(op.getWeights(), {row, g.i32(i)}, /*readOnly=*/true));
          }
          for (auto [weight, part] : llvm::zip_equal(weights, parts))
            for (auto [sum, value] : llvm::zip_equal(sums, part))
              sum = g.fma(weight, value, sum);
        }
        if (op.getAccumulate())
          for (auto [sum, value] : llvm::zip_equal(sums, old))
            sum = g.add(value, sum);
        return sums;
      },
      [&](Value row, Value column, ArrayRef<Value> values) { out.store(values, {row, column}); });
  return success();
}

//===----------------------------------------------------------------------===//
// k3.kda.gate
//===----------------------------------------------------------------------===//

static Cut cutGate(KdaGateOp op) {
  int64_t heads = getStaticNamedDim(op, "H"), keys = getStaticNamedDim(op, "K");
  return makeCut(heads * keys, keys, {op.getZ(), op.getOut()});
}

std::optional<GpuLaunch> k3::configureKdaGate(KdaGateOp op, Phase phase, const GpuTarget &) {
  int64_t keys = getStaticNamedDim(op, "K");
  if (!isPositive(getStaticNamedDim(op, "H")) || !isPositive(keys))
    return std::nullopt;
  // A part of a row is whole heads.
  return launchElementwise(cutGate(op), phase, "T", "H", keys);
}

LogicalResult k3::emitKdaGate(OpBuilder &b, KdaGateOp op, KernelConfigAttr config, const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  Cut cut = cutGate(op);
  int64_t keys = getStaticNamedDim(op, "K");
  RunTensor z(g, op.getZ(), cut.run, true), bias(g, op.getDtBias(), cut.run, true), out(g, op.getOut(), cut.run);
  bool isBounded = op.getKind() == GateKind::bounded_sigmoid;
  forRuns(
      g, cut, g.dim(op.getZ(), 0),
      [&](Value row, Value column) {
        return z.load({row, g.div(column, keys), g.rem(column, keys)});
      },
      [&](Value row, Value column, ArrayRef<Value> values) {
        Value head = g.div(column, keys), key = g.rem(column, keys);
        SmallVector<Value> biases = bias.load({head, key}), results;
        Value rate = op.getALog() ? g.exp(g.load(op.getALog(), {head}, /*readOnly=*/true)) : Value();
        for (auto [value, shift] : llvm::zip_equal(values, biases)) {
          Value y = g.add(value, shift);
          if (isBounded)
            results.push_back(
                g.mul(g.f32(op.getLowerBound()->convertToDouble()), g.sigmoid(rate ? g.mul(rate, y) : y)));
          else
            results.push_back(g.mul(g.neg(rate), g.softplus(y)));
        }
        out.store(results, {row, head, key});
      });
  return success();
}
