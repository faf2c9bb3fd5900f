//===- EmitCommon.cpp - ops every layer uses, on a GPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/Tile/GpuBuilder.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

/// Elements that every thread moves at once: the longest run that is one instruction in all of the row's tensors.
static int64_t getRun(ArrayRef<Value> tensors, int64_t width) {
  int64_t run = 8;
  for (Value tensor : tensors)
    run = std::min(run, GpuBuilder::vectorLength(getElementTypeOrSelf(tensor.getType())));
  return width % run == 0 ? run : 1;
}

//===----------------------------------------------------------------------===//
// k3.rms_norm: one block per row, which stays in registers
//===----------------------------------------------------------------------===//

/// Runs of a row that a thread keeps at most.
static constexpr int64_t maxRuns = 8;

std::optional<GpuLaunch> k3::configureRmsNorm(RmsNormOp op, Phase, const GpuTarget &target) {
  int64_t width = getStaticNamedDim(op, "d");
  if (ShapedType::isDynamic(width) || width == 0)
    return std::nullopt;
  int64_t runs = width / getRun({op.getX(), op.getWeight(), op.getOut()}, width);
  if (runs > maxRuns * target.maxThreadsPerBlock)
    return std::nullopt;
  GpuLaunch launch;
  launch.strategy = "row";
  launch.grid = {{"T", 1}};
  // One run per thread up to 512 threads.
  launch.threads = llvm::alignTo(std::clamp<int64_t>(runs, llvm::divideCeil(runs, maxRuns), 512), target.warpSize);
  launch.sharedBytes = 4 * launch.threads / target.warpSize;
  return launch;
}

static void emitNormOfRow(const GpuBuilder &g, RmsNormOp op, Value row) {
  Value x = op.getX(), weight = op.getWeight(), out = op.getOut();
  int64_t width = GpuBuilder::staticDim(x, 1), run = getRun({x, weight, out}, width);
  Value zero = g.f32(0), squares = zero;

  // What a thread keeps: run number threadId + i * threads, zeros past the row's end.
  SmallVector<Value> starts, inside;
  SmallVector<SmallVector<Value>> kept;
  for (int64_t first = 0; first < width / run; first += g.threads()) {
    Value number = g.add(g.threadId(), first);
    bool whole = first + g.threads() <= width / run;
    inside.push_back(whole ? Value() : g.lt(number, width / run));
    starts.push_back(g.mul(number, run));
    auto load = [&] { return g.loadFloats(g.element(x, {row, starts.back()}), g.elementType(x), run, true); };
    kept.push_back(whole ? load() : g.ifThenElse(inside.back(), load, [&] { return SmallVector<Value>(run, zero); }));
    for (Value value : kept.back())
      squares = g.fma(value, value, squares);
  }
  squares = g.blockReduce(squares, Reduction::Add, /*offset=*/0);
  Value mean = g.mul(squares, g.f32(1.0 / static_cast<double>(width)));
  Value factor = g.rsqrt(g.add(mean, g.f32(op.getEps().convertToDouble())));

  for (auto [start, isInside, values] : llvm::zip_equal(starts, inside, kept)) {
    auto store = [&, start = start, values = ArrayRef<Value>(values)] {
      SmallVector<Value> scales = g.loadFloats(g.element(weight, {start}), g.elementType(weight), run, true);
      SmallVector<Value> results;
      for (auto [value, scale] : llvm::zip_equal(values, scales))
        results.push_back(g.mul(g.mul(value, factor), scale));
      g.storeFloats(results, g.element(out, {row, start}), g.elementType(out));
    };
    if (isInside)
      g.ifThen(isInside, store);
    else
      store();
  }
}

LogicalResult k3::emitRmsNorm(OpBuilder &b, RmsNormOp op, KernelConfigAttr config, const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  Value row = g.blockId();
  // A grid has at least one block, also without rows.
  g.ifThen(g.lt(row, g.dim(op.getX(), 0)), [&] { emitNormOfRow(g, op, row); });
  return success();
}
