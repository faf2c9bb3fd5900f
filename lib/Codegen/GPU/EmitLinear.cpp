//===- EmitLinear.cpp - k3.linear of few rows on a GPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/Tile/Runs.h"
#include "lib/Codegen/GPU/Tile/SkinnyProduct.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

static constexpr StringRef strategyGemv = "gemv", strategyDot = "dot";

/// Rows of x of a block where there may be very many.
static constexpr int64_t prefillInputs = 256;

static void storeSum(const GpuBuilder &g, LinearOp op, Value sum, Value input, Value row) {
  if (op.getAccumulate())
    sum = g.add(g.load(op.getOut(), {input, row}), sum);
  g.store(sum, op.getOut(), {input, row});
}

//===----------------------------------------------------------------------===//
// bf16 weights on tensor cores
//===----------------------------------------------------------------------===//

static SkinnyShape skinnyShapeOf(LinearOp op, Phase phase, const GpuTarget &target) {
  return SkinnyShape::choose(getStaticNamedDim(op, "n"), getStaticNamedDim(op, "k"), /*copies=*/1,
                             getElementTypeOrSelf(op.getX().getType()), phase == Phase::decode, target);
}

static void emitGemv(const GpuBuilder &g, LinearOp op, const GpuTarget &target) {
  bool isPrefill = g.config.getGrid().size() > 1;
  SkinnyShape shape = skinnyShapeOf(op, isPrefill ? Phase::prefill : Phase::decode, target);
  RunTensor x(g, op.getX(), 8, true);
  auto weightRow = [&](Value row) { return g.element(op.getWeight(), {row}); };
  auto inputRow = [&](Value input) { return g.element(op.getX(), {input}); };
  auto loadInput = [&](Value pointer) { return x.load(pointer); };
  auto loadPairs = [&](Value pointer) {
    Value four = g.loadRaw(pointer, g.vectorOf(4, g.i32()), /*readOnly=*/true);
    SmallVector<Value> words;
    for (int64_t i = 0; i < 4; ++i)
      words.push_back(vector::ExtractOp::create(g.b, g.loc, four, ArrayRef<int64_t>{i}));
    return words;
  };
  auto store = [&](Value input, Value row, Value sum) { storeSum(g, op, sum, input, row); };
  int64_t terms = op.getBf16X() ? 1 : target.xTerms;
  SkinnyOperands operands{weightRow, inputRow, loadInput, x.elementType(), terms, store};
  if (x.elementType().isBF16())
    operands.loadInput = loadPairs;
  Value inputs = g.dim(op.getX(), 0), begin = g.i32(0), end = inputs;
  if (isPrefill) {
    begin = g.mul(g.blockId(1), prefillInputs);
    end = g.min(g.add(begin, prefillInputs), inputs);
  }
  emitSkinnyProduct(g, shape, operands, begin, end, g.mul(g.blockId(0), shape.rowsPerBlock()));
}

//===----------------------------------------------------------------------===//
// Any weights: a warp has some rows, its lanes share k
//===----------------------------------------------------------------------===//

namespace {
constexpr int64_t dotWarps = 8, dotRows = 2, dotInputs = 4;
} // namespace

static void emitDot(const GpuBuilder &g, LinearOp op) {
  int64_t depth = getStaticNamedDim(op, "k"), rows = getStaticNamedDim(op, "n");
  int64_t run = getRunLength(depth, ValueRange{op.getWeight()}), stride = 32 * run;
  RunTensor weight(g, op.getWeight(), run, true), x(g, op.getX(), run, true);
  Value lane = g.laneId(), count = g.dim(op.getX(), 0);
  Value firstRow = g.mul(g.add(g.mul(g.blockId(0), dotWarps), g.warpId()), dotRows);
  Value begin = g.mul(g.blockId(1), prefillInputs), end = g.min(g.add(begin, prefillInputs), count);
  g.ifThen(g.lt(firstRow, rows), [&] {
    SmallVector<Value> weights;
    for (int64_t r = 0; r < dotRows; ++r)
      weights.push_back(g.element(op.getWeight(), {g.min(g.add(firstRow, r), rows - 1)}));
    g.loop(begin, end, g.i32(dotInputs), [&](Value firstInput) {
      SmallVector<Value> inputs;
      for (int64_t i = 0; i < dotInputs; ++i)
        inputs.push_back(g.element(op.getX(), {g.min(g.add(firstInput, i), g.sub(end, 1))}));
      auto multiply = [&](Value k, ValueRange sums) {
        SmallVector<Value> next(sums);
        SmallVector<SmallVector<Value>> w, v;
        for (Value row : weights)
          w.push_back(weight.load(g.advance(row, k, weight.elementType())));
        for (Value row : inputs) {
          v.push_back(x.load(g.advance(row, k, x.elementType())));
          if (op.getBf16X())
            for (Value &value : v.back())
              value = g.roundToBf16(value);
        }
        for (int64_t r = 0; r < dotRows; ++r)
          for (int64_t i = 0; i < dotInputs; ++i)
            for (int64_t j = 0; j < run; ++j) {
              Value &sum = next[r * dotInputs + i];
              sum = g.fma(w[r][j], v[i][j], sum);
            }
        return next;
      };
      SmallVector<Value> sums(dotRows * dotInputs, g.f32(0));
      Value own = g.mul(lane, run);
      int64_t whole = depth / stride * stride;
      if (whole > 0)
        sums = g.loop(g.i32(0), g.i32(whole), g.i32(stride), sums,
                      [&](Value start, ValueRange carried) { return multiply(g.add(start, own), carried); });
      if (whole < depth)
        sums = g.ifThenElse(
            g.lt(own, depth - whole), [&] { return multiply(g.add(own, whole), sums); }, [&] { return sums; });
      for (Value &sum : sums)
        sum = g.warpReduce(sum, Reduction::Add);
      for (int64_t r = 0; r < dotRows; ++r)
        for (int64_t i = 0; i < dotInputs; ++i) {
          Value row = g.add(firstRow, r), input = g.add(firstInput, i);
          Value isStored = g.logicalAnd(g.eq(lane, r * dotInputs + i),
                                        g.logicalAnd(g.lt(row, rows), g.lt(input, end)));
          g.ifThen(isStored, [&] { storeSum(g, op, sums[r * dotInputs + i], input, row); });
        }
    });
  });
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

std::optional<GpuLaunch> k3::configureLinear(LinearOp op, Phase phase, const GpuTarget &target) {
  int64_t depth = getStaticNamedDim(op, "k"), rows = getStaticNamedDim(op, "n");
  if (ShapedType::isDynamic(depth) || ShapedType::isDynamic(rows) || depth == 0 || rows == 0)
    return std::nullopt;
  GpuLaunch launch;
  if (SkinnyShape::supports(depth) && getElementTypeOrSelf(op.getWeight().getType()).isBF16()) {
    SkinnyShape shape = skinnyShapeOf(op, phase, target);
    launch.strategy = strategyGemv;
    launch.grid = {{"n", shape.rowsPerBlock()}};
    if (phase == Phase::prefill)
      launch.grid.push_back({"T", prefillInputs});
    launch.threads = shape.threads();
    launch.sharedBytes = shape.sharedBytes();
    return launch;
  }
  launch.strategy = strategyDot;
  launch.grid = {{"n", dotWarps * dotRows}, {"T", prefillInputs}};
  launch.threads = 32 * dotWarps;
  return launch;
}

LogicalResult k3::emitLinear(OpBuilder &b, LinearOp op, KernelConfigAttr config, const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  if (config.getStrategy() == strategyDot) {
    emitDot(g, op);
    return success();
  }
  bool xIsBf16 = getElementTypeOrSelf(op.getX().getType()).isBF16();
  if (getAlignedElements(op.getWeight()) < 8 || (xIsBf16 && getAlignedElements(op.getX()) < 8))
    return op.emitOpError("expected rows of the weight, and of a bf16 x, that are aligned to 16 bytes");
  emitGemv(g, op, target);
  return success();
}
