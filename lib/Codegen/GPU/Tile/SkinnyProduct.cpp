//===- SkinnyProduct.cpp - products of few rows with a bf16 matrix -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Tile/SkinnyProduct.h"
#include "lib/Codegen/GPU/Tile/Atoms.h"
#include "lib/Codegen/GPU/Tile/Split.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

namespace {
/// Words between two inputs' sums of a tile, so that the lanes of a warp write to different banks.
constexpr int64_t sumStride = 20;
/// Steps whose loads are in flight while as many are multiplied; many inputs need registers for their sums.
constexpr int64_t stepsAhead = 4, stepsAheadOfMany = 1;
/// Threads of a multiprocessor at least, which leaves each 128 registers: without a limit ptxas takes more, or fewer and
/// spills.
constexpr int64_t residentThreads = 512;
} // namespace

int64_t SkinnyShape::sharedBytes() const { return warps() * manyInputs * sumStride * 4; }

SkinnyShape SkinnyShape::choose(int64_t rows, int64_t depth, int64_t copies, bool fewInputs, const GpuTarget &target) {
  SkinnyShape shape;
  shape.rows = rows;
  shape.depth = depth;
  int64_t steps = depth / stepDepth, tiles = llvm::divideCeil(rows, tileRows);
  if (fewInputs) {
    // Enough steps per slice to have loads in flight; more slices where there are few rows.
    int64_t most = tiles * copies < target.multiprocessors ? 16 : 8;
    while (shape.slices < most && steps / (2 * shape.slices) >= stepsAhead)
      shape.slices *= 2;
  }
  while (shape.tiles * 2 * shape.slices <= 8 && shape.tiles < tiles &&
         (!fewInputs || tiles * copies / (2 * shape.tiles) >= target.multiprocessors))
    shape.tiles *= 2;
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
    Value row = g.add(g.add(firstRow, g.mul(tile, SkinnyShape::tileRows)), group);
    // Rows past the end are read as the last one, and their sums dropped.
    for (int64_t half : {0, 8})
      weights.push_back(g.advance(operands.weightRow(g.min(g.add(row, half), shape.rows - 1)), g.mul(quad, 8), g.bf16()));
    int64_t steps = shape.depth / SkinnyShape::stepDepth;
    stepsPerSlice = steps / shape.slices;
    slicesWithMore = steps % shape.slices;
    first = g.add(g.mul(slice, stepsPerSlice), g.min(slice, slicesWithMore));
  }

  /// Inputs from `begin` on, 8 * groups of them.
  void emit(Value begin, int64_t groups) {
    inputs.clear();
    for (int64_t i = 0; i < groups; ++i) {
      Value input = g.min(g.add(g.add(begin, 8 * i), group), g.sub(end, 1));
      inputs.push_back(g.advance(operands.inputRow(input), g.mul(quad, 8), operands.inputType));
    }
    addSlices(begin, groups, multiply(groups));
  }

private:
  using Values = SmallVector<Value>;
  /// Registers of weights per step: four of each of two rows.
  static constexpr int64_t stepWords = 8;

  Values load(Value step) {
    Values words;
    for (Value row : weights) {
      Value four = g.loadRaw(g.advance(row, g.mul(step, SkinnyShape::stepDepth), g.bf16()), g.vectorOf(4, g.i32()),
                             /*readOnly=*/true);
      for (int64_t i = 0; i < 4; ++i)
        words.push_back(vector::ExtractOp::create(g.b, g.loc, four, ArrayRef<int64_t>{i}));
    }
    return words;
  }
  Values load(Value step, int64_t count) {
    Values words;
    for (int64_t i = 0; i < count; ++i)
      words.append(load(g.add(step, i)));
    return words;
  }

  /// Terms of the lane's eight values of one input, each as four pairs.
  SmallVector<Values> loadInput(Value pointer) {
    Values values = operands.loadInput(pointer);
    if (operands.inputType.isBF16())
      return {values};
    SmallVector<Values> split(operands.terms);
    for (int64_t pair = 0; pair < 4; ++pair)
      for (auto [term, words] : llvm::zip_equal(splitPair(g, values[2 * pair], values[2 * pair + 1], operands.terms), split))
        words.push_back(term);
    return split;
  }

  /// sums + the products of one step; `words` as `load` gives them.
  Values multiplyStep(ValueRange words, Value step, ValueRange sums, Value isInside = {}) {
    Values next;
    Value offset = g.mul(step, SkinnyShape::stepDepth);
    for (auto [i, input] : llvm::enumerate(inputs)) {
      Value pointer = g.advance(input, offset, operands.inputType);
      SmallVector<Values> terms;
      if (!isInside) {
        terms = loadInput(pointer);
      } else {
        int64_t count = operands.inputType.isBF16() ? 1 : operands.terms;
        Values flat = g.ifThenElse(
            isInside,
            [&] {
              Values all;
              for (const Values &term : loadInput(pointer))
                all.append(term);
              return all;
            },
            [&] { return Values(4 * count, g.i32(0)); });
        for (int64_t term = 0; term < count; ++term)
          terms.emplace_back(ArrayRef(flat).slice(4 * term, 4));
      }
      // Tensor cores cut sums instead of rounding them: where inputs are not rounded, sums of one step are
      // short, and f32 additions join them.
      bool isExact = operands.terms > 1;
      Values own = isExact ? Values(4, g.f32(0)) : Values(sums.slice(4 * i, 4));
      // Small terms first.
      for (const Values &term : llvm::reverse(terms))
        for (int64_t half : {0, 2}) {
          Values a = {words[half], words[4 + half], words[half + 1], words[4 + half + 1]};
          own = k3::multiplyStep(g, a, {term[half], term[half + 1]}, own);
        }
      for (int64_t j = 0; j < 4; ++j)
        next.push_back(isExact ? g.add(sums[4 * i + j], own[j]) : own[j]);
    }
    return next;
  }
  Values multiplySteps(ValueRange words, Value step, ValueRange sums) {
    Values next(sums);
    for (int64_t i = 0; i < static_cast<int64_t>(words.size()) / stepWords; ++i)
      next = multiplyStep(words.slice(i * stepWords, stepWords), g.add(step, i), next);
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
            return multiplySteps(load(step), step, sums);
          },
          [&] { return sums; });
    if (int64_t rest = shape.depth % SkinnyShape::stepDepth)
      sums = g.ifThenElse(
          g.eq(slice, shape.slices - 1), [&] { return multiplyRest(rest, sums); }, [&] { return sums; });
    return sums;
  }

  /// The last step, of which only some lanes have values.
  Values multiplyRest(int64_t rest, const Values &sums) {
    Value step = g.i32(shape.depth / SkinnyShape::stepDepth), isInside = g.lt(quad, rest / 8);
    Values words = g.ifThenElse(
        isInside, [&] { return load(step); }, [&] { return Values(stepWords, g.i32(0)); });
    return multiplyStep(words, step, sums, isInside);
  }

  /// Adds the slices' sums and stores them.
  void addSlices(Value begin, int64_t groups, ArrayRef<Value> sums) {
    int64_t tileWords = groups * 8 * sumStride;
    Value own = g.mul(g.warpId(), tileWords);
    auto word = [&](Value number) { return g.advance(g.shared(int64_t(0)), number, g.f32()); };
    for (int64_t i = 0; i < groups; ++i)
      for (int64_t j = 0; j < 4; ++j) {
        Value input = g.add(g.mul(quad, 2), 8 * i + j % 2), row = g.add(group, j / 2 * 8);
        g.storeRaw(sums[4 * i + j], word(g.add(own, g.add(g.mul(input, sumStride), row))));
      }
    g.barrier();
    g.forThreads(shape.tiles * groups * 8 * SkinnyShape::tileRows, [&](Value number) {
      Value row = g.rem(number, SkinnyShape::tileRows), rest = g.div(number, SkinnyShape::tileRows);
      Value input = g.rem(rest, groups * 8), tileOfSum = g.div(rest, groups * 8);
      Value at = g.add(g.mul(tileOfSum, shape.slices * tileWords), g.add(g.mul(input, sumStride), row));
      Value outRow = g.add(firstRow, g.add(g.mul(tileOfSum, SkinnyShape::tileRows), row));
      Value outInput = g.add(begin, input);
      g.ifThen(g.logicalAnd(g.lt(outRow, shape.rows), g.lt(outInput, end)), [&] {
        Value sum = g.loadRaw(word(at), g.f32());
        for (int64_t s = 1; s < shape.slices; ++s)
          sum = g.add(sum, g.loadRaw(word(g.add(at, s * tileWords)), g.f32()));
        operands.store(outInput, outRow, sum);
      });
    });
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
  // bf16 inputs need no work between load and product: more of them are in flight, and registers for them.
  int64_t resident = operands.inputType.isBF16() ? residentThreads / 2 : residentThreads;
  g.setMinBlocks(std::max<int64_t>(resident / g.threads(), 1));
  Emitter emitter(g, shape, operands, end, firstRow);
  Value count = g.sub(end, begin);
  g.ifThen(g.logicalAnd(g.gt(count, 0), g.le(count, 8)), [&] { emitter.emit(begin, 1); });
  g.ifThen(g.gt(count, 8), [&] {
    g.loop(begin, end, g.i32(SkinnyShape::manyInputs), [&](Value start) {
      emitter.emit(start, SkinnyShape::manyInputs / 8);
      g.barrier(); // before the next sums
    });
  });
}
