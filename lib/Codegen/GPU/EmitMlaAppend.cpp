//===- EmitMlaAppend.cpp - k3.mla.append on a GPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/Tile/Runs.h"
#include "lib/Codegen/GPU/Tile/Sequences.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

//===----------------------------------------------------------------------===//
// k3.mla.append: a warp per row
//===----------------------------------------------------------------------===//

/// f32 values of a row that a lane keeps at most.
static constexpr int64_t maxKept = 64;

std::optional<GpuLaunch> k3::configureMlaAppend(MlaAppendOp op, Phase phase, const GpuTarget &) {
  int64_t width = getStaticNamedDim(op, "lr"), latent = getStaticNamedDim(op, "l"), page = getStaticNamedDim(op, "page");
  if (ShapedType::isDynamic(width) || ShapedType::isDynamic(latent) || ShapedType::isDynamic(page) || latent == 0 ||
      page == 0)
    return std::nullopt;
  int64_t run = getRunLength(latent, 4);
  if (static_cast<int64_t>(llvm::divideCeil(latent / run, 32)) * run > maxKept)
    return std::nullopt;
  int64_t warps = phase == Phase::decode ? 1 : 4;
  GpuLaunch launch;
  launch.strategy = "warp";
  launch.grid = {{"T", warps}};
  launch.threads = 32 * warps;
  return launch;
}

LogicalResult k3::emitMlaAppend(OpBuilder &b, MlaAppendOp op, KernelConfigAttr config, const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  int64_t width = getStaticNamedDim(op, "lr"), latent = getStaticNamedDim(op, "l"), page = getStaticNamedDim(op, "page");
  int64_t run = getRunLength(latent, 4);
  RunTensor kv(g, op.getKv(), run, true), weight(g, op.getNormWeight(), run, true), cache(g, op.getCache(), run);
  Value lane = g.laneId(), row = g.add(g.mul(g.blockId(), g.warps()), g.warpId());
  g.ifThen(g.lt(row, g.dim(op.getKv(), 0)), [&] {
    SmallVector<Value> starts, inside;
    SmallVector<SmallVector<Value>> values;
    Value squares = g.f32(0);
    for (int64_t first = 0; first < latent / run; first += 32) {
      Value number = g.add(lane, first);
      starts.push_back(g.mul(number, run));
      inside.push_back(first + 32 <= latent / run ? Value() : g.lt(number, latent / run));
      auto load = [&] { return kv.load({row, starts.back()}); };
      values.push_back(inside.back() ? g.ifThenElse(inside.back(), load,
                                                    [&] { return SmallVector<Value>(run, g.f32(0)); })
                                     : load());
      for (Value value : values.back())
        squares = g.fma(value, value, squares);
    }
    Value n = findSequence(g, op.getCu(), row);
    Value position = g.add(g.load(op.getLengths(), {n}, /*readOnly=*/true),
                           g.sub(row, g.load(op.getCu(), {n}, /*readOnly=*/true)));
    Value id = g.load(op.getPageTable(), {n, g.div(position, page)}, /*readOnly=*/true);
    Value place = g.rem(position, page);

    // The part that is kept as it is.
    for (int64_t first = latent; first < width; first += 32) {
      Value column = g.add(lane, first);
      auto copy = [&] { g.store(g.load(op.getKv(), {row, column}, /*readOnly=*/true), op.getCache(), {id, place, column}); };
      if (first + 32 <= width)
        copy();
      else
        g.ifThen(g.lt(column, width), copy);
    }
    squares = g.warpReduce(squares, Reduction::Add);
    Value factor = g.rsqrt(g.fma(squares, g.f32(1.0 / static_cast<double>(latent)), g.f32(op.getEps().convertToDouble())));
    for (size_t part = 0; part < starts.size(); ++part) {
      auto store = [&] {
        SmallVector<Value> results = weight.load(ValueRange{starts[part]});
        for (auto [result, value] : llvm::zip_equal(results, values[part]))
          result = g.mul(g.mul(value, factor), result);
        cache.store(results, {id, place, starts[part]});
      };
      if (inside[part])
        g.ifThen(inside[part], store);
      else
        store();
    }
  });
  return success();
}
