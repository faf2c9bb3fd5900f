//===- SkinnyProduct.cpp - products of few rows with a bf16 matrix -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Tile/SkinnyProduct.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

namespace {
/// Groups of a pass where there are more than eight rows of an f32 x.
constexpr int64_t manyGroups = 4;
/// Steps whose loads are in flight while as many are multiplied; many inputs need registers for their sums.
constexpr int64_t stepsAhead = 4, stepsAheadOfMany = 1;
/// Threads of a multiprocessor at least, which leaves each 128 registers: without a limit ptxas takes more, or fewer
/// and spills.
constexpr int64_t residentThreads = 512;
} // namespace

int64_t SkinnyShape::sharedBytes() const {
  if (!batch)
    return SkinnySums{tiles, slices, manyGroups}.sharedBytes();
  return std::max(SkinnySums{tiles, slices, /*groups=*/1}.sharedBytes(), batch->sharedBytes());
}

SkinnyShape SkinnyShape::choose(int64_t rows, int64_t depth, int64_t copies, Type inputType, bool fewInputs,
                                const GpuTarget &target) {
  SkinnyShape shape;
  shape.rows = rows;
  shape.depth = depth;
  int64_t steps = depth / SkinnyOperands::stepDepth, tiles = llvm::divideCeil(rows, SkinnyOperands::tileRows);
  if (fewInputs) {
    // Enough steps per slice to have loads in flight; more slices where there are few rows.
    int64_t most = tiles * copies < target.multiprocessors ? 16 : 8;
    while (shape.slices < most && steps / (2 * shape.slices) >= stepsAhead)
      shape.slices *= 2;
  }
  while (shape.tiles * 2 * shape.slices <= 8 && shape.tiles < tiles &&
         (!fewInputs || tiles * copies / (2 * shape.tiles) >= target.multiprocessors))
    shape.tiles *= 2;
  if (inputType.isBF16())
    shape.batch = SmallBatchShape::choose(rows, depth, copies, shape.warps(), shape.tiles, fewInputs, target);
  return shape;
}

namespace {

class Emitter {
public:
  Emitter(const GpuBuilder &g, const SkinnyShape &shape, const SkinnyOperands &operands, Value end, Value firstRow)
      : g(g), shape(shape), operands(operands), end(end), firstRow(firstRow) {
    Value lane = g.laneId(), warp = g.warpId();
    quad = g.rem(lane, 4);
    group = g.div(lane, 4);
    slice = shape.slices == 1 ? g.i32(0) : g.rem(warp, shape.slices);
    tile = shape.slices == 1 ? warp : g.div(warp, shape.slices);
    Value row = g.add(g.add(firstRow, g.mul(tile, SkinnyOperands::tileRows)), group);
    // Rows past the end are read as the last one, and their sums dropped.
    for (int64_t half : {0, 8})
      weights.push_back(atLane(operands.weightRow(g.min(g.add(row, half), shape.rows - 1)), g.bf16()));
    int64_t steps = shape.depth / SkinnyOperands::stepDepth;
    stepsPerSlice = steps / shape.slices;
    slicesWithMore = steps % shape.slices;
    first = g.add(g.mul(slice, stepsPerSlice), g.min(slice, slicesWithMore));
  }

  /// Inputs from `begin` on, 8 * groups of them.
  void emit(Value begin, int64_t groups) {
    inputs.clear();
    for (int64_t i = 0; i < groups; ++i) {
      Value input = g.min(g.add(g.add(begin, SkinnyOperands::groupInputs * i), group), g.sub(end, 1));
      inputs.push_back(atLane(operands.inputRow(input), operands.inputType));
    }
    SkinnySums{shape.tiles, shape.slices, groups}.store(g, operands, tile, slice, begin, end, firstRow, shape.rows,
                                                        multiply(groups));
  }

private:
  using Values = SmallVector<Value>;
  static constexpr int64_t stepWords = SkinnyOperands::stepWords;

  Value atLane(Value row, Type type) { return g.advance(row, g.mul(quad, SkinnyOperands::laneDepth), type); }

  Values load(Value step, int64_t count) {
    Values words;
    for (int64_t i = 0; i < count; ++i) {
      Values pointers;
      for (Value row : weights)
        pointers.push_back(g.advance(row, g.mul(g.add(step, i), SkinnyOperands::stepDepth), g.bf16()));
      words.append(loadWeightStep(g, pointers));
    }
    return words;
  }

  /// sums + the products of one step; `words` as `load` gives them.
  Values multiplyOne(ValueRange words, Value step, ValueRange sums, Value isInside = {}) {
    Values next;
    Value offset = g.mul(step, SkinnyOperands::stepDepth), zero = operands.inputType.isBF16() ? g.i32(0) : g.f32(0);
    for (auto [i, input] : llvm::enumerate(inputs)) {
      Value pointer = g.advance(input, offset, operands.inputType);
      auto load = [&] { return operands.loadInput(pointer); };
      auto getZeros = [&] { return Values(operands.inputType.isBF16() ? 4 : 8, zero); };
      Values values = isInside ? g.ifThenElse(isInside, load, getZeros) : load();
      next.append(multiplyStep(g, operands, words, splitInput(g, operands, values), sums.slice(4 * i, 4)));
    }
    return next;
  }

  Values multiplySteps(ValueRange words, Value step, ValueRange sums) {
    Values next(sums);
    for (int64_t i = 0; i < static_cast<int64_t>(words.size()) / stepWords; ++i)
      next = multiplyOne(words.slice(i * stepWords, stepWords), g.add(step, i), next);
    return next;
  }

  /// The sums of the warp's slice, four per group of inputs.
  Values multiply(int64_t groups) {
    Values sums(4 * groups, g.f32(0));
    int64_t ahead = std::min(groups == 1 ? stepsAhead : stepsAheadOfMany, stepsPerSlice);
    if (ahead > 0) {
      int64_t rounds = stepsPerSlice / ahead, rest = stepsPerSlice % ahead;
      Values words = load(first, ahead);
      if (rounds > 1) {
        Values inits(sums);
        inits.append(words);
        Values carried = g.loop(g.i32(1), g.i32(rounds), g.i32(1), inits, [&](Value round, ValueRange args) {
          Value step = g.add(first, g.mul(round, ahead));
          Values next = load(step, ahead);
          Values results = multiplySteps(args.drop_front(4 * groups), g.sub(step, ahead), args.take_front(4 * groups));
          results.append(next);
          return results;
        });
        sums.assign(carried.begin(), carried.begin() + 4 * groups);
        words.assign(carried.begin() + 4 * groups, carried.end());
      }
      Value step = g.add(first, rounds * ahead);
      Values last = load(step, rest);
      sums = multiplySteps(words, g.sub(step, ahead), sums);
      sums = multiplySteps(last, step, sums);
    }
    if (slicesWithMore > 0)
      sums = g.ifThenElse(
          g.lt(slice, slicesWithMore),
          [&] {
            Value step = g.add(first, stepsPerSlice);
            return multiplySteps(load(step, 1), step, sums);
          },
          [&] { return sums; });
    if (int64_t rest = shape.depth % SkinnyOperands::stepDepth)
      sums =
          g.ifThenElse(g.eq(slice, shape.slices - 1), [&] { return multiplyRest(rest, sums); }, [&] { return sums; });
    return sums;
  }

  /// The last step, of which only some lanes have values.
  Values multiplyRest(int64_t rest, const Values &sums) {
    Value step = g.i32(shape.depth / SkinnyOperands::stepDepth),
          isInside = g.lt(quad, rest / SkinnyOperands::laneDepth);
    Values words = g.ifThenElse(isInside, [&] { return load(step, 1); }, [&] { return Values(stepWords, g.i32(0)); });
    return multiplyOne(words, step, sums, isInside);
  }

  const GpuBuilder &g;
  const SkinnyShape &shape;
  const SkinnyOperands &operands;
  Value end, firstRow;
  Value quad, group, slice, tile, first;
  int64_t stepsPerSlice, slicesWithMore;
  Values weights, inputs; ///< of the lane, at its first k
};

} // namespace

void k3::emitSkinnyProduct(const GpuBuilder &g, const SkinnyShape &shape, const SkinnyOperands &operands, Value begin,
                           Value end, Value firstRow) {
  g.setMinBlocks(std::max<int64_t>(residentThreads / g.threads(), 1));
  constexpr int64_t few = SkinnyOperands::groupInputs;
  Value count = g.sub(end, begin);
  g.ifThen(g.logicalAnd(g.gt(count, 0), g.le(count, few)),
           [&] { Emitter(g, shape, operands, end, firstRow).emit(begin, 1); });
  g.ifThen(g.gt(count, few), [&] {
    if (shape.batch)
      return emitSmallBatch(g, *shape.batch, operands, begin, end, firstRow, shape.tiles);
    Emitter emitter(g, shape, operands, end, firstRow);
    g.loop(begin, end, g.i32(manyGroups * few), [&](Value start) {
      emitter.emit(start, manyGroups);
      g.barrier(); // before the next sums
    });
  });
}
