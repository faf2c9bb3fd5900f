//===- EmitNorm.cpp - norms of rows on a GPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A row stays in the registers of the threads that share it, a warp for short rows and a block for long ones, so that it
// is read once.
//
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/Tile/Runs.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

/// Rows up to this many runs are a warp's.
constexpr int64_t runsOfWarp = 128;
constexpr int64_t warpsPerBlock = 8;
/// f32 values of a row that a thread keeps at most.
constexpr int64_t maxKept = 64;

/// How rows of `width` elements are shared by threads.
struct RowShape {
  int64_t width, run;
  /// Threads of a row: one warp, or the block.
  int64_t threads;
  bool isWarp() const { return threads == 32; }
  int64_t blockThreads() const { return isWarp() ? 32 * warpsPerBlock : threads; }
  int64_t rowsPerBlock() const { return isWarp() ? warpsPerBlock : 1; }
  int64_t sharedBytes() const { return isWarp() ? 0 : 4 * threads / 32; }
};

std::optional<RowShape> makeRowShape(int64_t width, ValueRange tensors, const GpuTarget &target) {
  if (ShapedType::isDynamic(width) || width == 0)
    return std::nullopt;
  RowShape shape;
  shape.width = width;
  shape.run = getRunLength(width, tensors);
  int64_t runs = width / shape.run;
  if (runs <= runsOfWarp && runs * shape.run <= 32 * maxKept) {
    shape.threads = 32;
    return shape;
  }
  // Two runs per thread, four where that is more than 512 threads.
  int64_t threads = llvm::divideCeil(runs, 2);
  if (threads > 512)
    threads = llvm::divideCeil(runs, 4);
  shape.threads = std::min<int64_t>(llvm::alignTo(std::max<int64_t>(threads, 64), 32), target.maxThreadsPerBlock);
  if (static_cast<int64_t>(llvm::divideCeil(runs, shape.threads)) * shape.run > maxKept)
    return std::nullopt;
  return shape;
}

/// The runs of one thread in a row.
class RowOfThread {
public:
  RowOfThread(const GpuBuilder &g, const RowShape &shape) : g(g), shape(shape) {
    Value thread = shape.isWarp() ? g.laneId() : g.threadId();
    int64_t runs = shape.width / shape.run;
    for (int64_t first = 0; first < runs; first += shape.threads) {
      Value number = g.add(thread, first);
      inside.push_back(first + shape.threads <= runs ? Value() : g.lt(number, runs));
      starts.push_back(g.mul(number, shape.run));
    }
  }

  int64_t size() const { return starts.size(); }

  /// `load(start)` for every run; zeros outside of the row.
  SmallVector<SmallVector<Value>> load(function_ref<SmallVector<Value>(Value)> body) const {
    SmallVector<SmallVector<Value>> kept;
    for (auto [start, isInside] : llvm::zip_equal(starts, inside)) {
      if (!isInside) {
        kept.push_back(body(start));
        continue;
      }
      kept.push_back(g.ifThenElse(
          isInside, [&] { return body(start); }, [&] { return SmallVector<Value>(shape.run, g.f32(0)); }));
    }
    return kept;
  }

  void forEach(function_ref<void(int64_t number, Value start)> body) const {
    for (int64_t i = 0; i < size(); ++i) {
      if (inside[i])
        g.ifThen(inside[i], [&] { body(i, starts[i]); });
      else
        body(i, starts[i]);
    }
  }

  /// Over the threads of the row.
  Value reduceAdd(Value value) const {
    return shape.isWarp() ? g.warpReduce(value, Reduction::Add) : g.blockReduce(value, Reduction::Add, /*offset=*/0);
  }

private:
  const GpuBuilder &g;
  const RowShape &shape;
  SmallVector<Value> starts, inside;
};

Value sumOfSquares(const GpuBuilder &g, ArrayRef<SmallVector<Value>> runs) {
  Value sum = g.f32(0);
  for (const SmallVector<Value> &run : runs)
    for (Value value : run)
      sum = g.fma(value, value, sum);
  return sum;
}

/// 1 / sqrt(sum / width + eps)
Value inverseRms(const GpuBuilder &g, Value sum, int64_t width, double eps) {
  return g.rsqrt(g.fma(sum, g.f32(1.0 / static_cast<double>(width)), g.f32(eps)));
}

} // namespace

//===----------------------------------------------------------------------===//
// k3.rms_norm
//===----------------------------------------------------------------------===//

static std::optional<RowShape> shapeOf(RmsNormOp op, const GpuTarget &target) {
  return makeRowShape(getStaticNamedDim(op, "d"), {op.getX(), op.getOut()}, target);
}

std::optional<GpuLaunch> k3::configureRmsNorm(RmsNormOp op, Phase, const GpuTarget &target) {
  std::optional<RowShape> shape = shapeOf(op, target);
  if (!shape)
    return std::nullopt;
  GpuLaunch launch;
  launch.strategy = "row";
  launch.grid = {{"T", shape->rowsPerBlock()}};
  launch.threads = shape->blockThreads();
  launch.sharedBytes = shape->sharedBytes();
  return launch;
}

LogicalResult k3::emitRmsNorm(OpBuilder &b, RmsNormOp op, KernelConfigAttr config, const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  RowShape shape = *shapeOf(op, target);
  shape.threads = config.getGrid().front().getTile() == 1 ? config.getThreads() : 32;
  RowOfThread row(g, shape);
  RunTensor x(g, op.getX(), shape.run, true), weight(g, op.getWeight(), shape.run, true), out(g, op.getOut(), shape.run);
  Value t = shape.isWarp() ? g.add(g.mul(g.blockId(), warpsPerBlock), g.warpId()) : g.blockId();
  // The condition is that of a whole warp or block.
  g.ifThen(g.lt(t, g.dim(op.getX(), 0)), [&] {
    SmallVector<SmallVector<Value>> values = row.load([&](Value start) { return x.load({t, start}); });
    // Loaded before the sum is known.
    SmallVector<SmallVector<Value>> scales = row.load([&](Value start) { return weight.load(ValueRange{start}); });
    Value factor =
        inverseRms(g, row.reduceAdd(sumOfSquares(g, values)), shape.width, op.getEps().convertToDouble());
    row.forEach([&](int64_t i, Value start) {
      SmallVector<Value> results;
      for (auto [value, scale] : llvm::zip_equal(values[i], scales[i]))
        results.push_back(g.mul(g.mul(value, factor), scale));
      out.store(results, {t, start});
    });
  });
  return success();
}

//===----------------------------------------------------------------------===//
// k3.kda.gated_norm: a warp per token and head
//===----------------------------------------------------------------------===//

/// Tokens whose rows a warp has in flight.
static int64_t tokensInFlight(const RowShape &shape, Phase phase) {
  return phase == Phase::decode || shape.width > 256 ? 1 : 4;
}

static std::optional<RowShape> shapeOf(KdaGatedNormOp op, const GpuTarget &target) {
  std::optional<RowShape> shape =
      makeRowShape(getStaticNamedDim(op, "V"), {op.getX(), op.getGate(), op.getOut()}, target);
  if (shape && !shape->isWarp())
    return std::nullopt;
  return shape;
}

std::optional<GpuLaunch> k3::configureKdaGatedNorm(KdaGatedNormOp op, Phase phase, const GpuTarget &target) {
  std::optional<RowShape> shape = shapeOf(op, target);
  if (!shape)
    return std::nullopt;
  GpuLaunch launch;
  launch.strategy = "row";
  launch.grid = {{"T", tokensInFlight(*shape, phase)}, {"H", warpsPerBlock}};
  launch.threads = shape->blockThreads();
  return launch;
}

LogicalResult k3::emitKdaGatedNorm(OpBuilder &b, KdaGatedNormOp op, KernelConfigAttr config, const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  RowShape shape = *shapeOf(op, target);
  RowOfThread row(g, shape);
  RunTensor x(g, op.getX(), shape.run, true), gate(g, op.getGate(), shape.run, true),
      weight(g, op.getWeight(), shape.run, true), out(g, op.getOut(), shape.run);
  int64_t tokens = config.getGrid().front().getTile();
  Value count = g.dim(op.getX(), 0), first = g.mul(g.blockId(0), tokens);
  Value head = g.add(g.mul(g.blockId(1), warpsPerBlock), g.warpId());
  g.ifThen(g.logicalAnd(g.lt(head, g.dim(op.getX(), 1)), g.lt(first, count)), [&] {
    SmallVector<Value> t;
    SmallVector<SmallVector<SmallVector<Value>>> values, gates;
    for (int64_t i = 0; i < tokens; ++i) {
      t.push_back(g.add(first, i));
      Value from = i == 0 ? first : g.min(t[i], g.sub(count, 1));
      values.push_back(row.load([&](Value start) { return x.load({from, head, start}); }));
      gates.push_back(row.load([&](Value start) { return gate.load({from, head, start}); }));
    }
    SmallVector<SmallVector<Value>> scales = row.load([&](Value start) { return weight.load(ValueRange{start}); });
    for (int64_t i = 0; i < tokens; ++i) {
      Value sum = row.reduceAdd(sumOfSquares(g, values[i]));
      Value factor = inverseRms(g, sum, shape.width, op.getEps().convertToDouble());
      auto store = [&] {
        row.forEach([&](int64_t part, Value start) {
          SmallVector<Value> results;
          for (auto [value, scale, logit] : llvm::zip_equal(values[i][part], scales[part], gates[i][part]))
            results.push_back(g.mul(g.mul(g.mul(value, factor), scale), g.sigmoid(logit)));
          out.store(results, {t[i], head, start});
        });
      };
      if (i == 0)
        store();
      else
        g.ifThen(g.lt(t[i], count), store);
    }
  });
  return success();
}
