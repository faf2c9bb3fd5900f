//===- SmallBatch.cpp - products of some tens of rows with a bf16 matrix -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Tile/SmallBatch.h"
#include "lib/Codegen/GPU/Tile/Atoms.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

namespace {
/// Steps of a piece, and pieces of x that are in shared memory or on their way there.
constexpr int64_t pieceSteps = 2, inputPieces = 4;
/// Shared memory of a block, at most: two of them are to leave room for the L1 cache.
constexpr int64_t mostSharedBytes = 64 << 10;
/// Groups of a pass, at most (eight need more registers than two blocks of a multiprocessor have), and of each tile.
constexpr int64_t mostGroups = 4, groupsPerTile = 2;
/// A fragment of x (a step of a group) in shared memory: 16 bytes of each lane.
constexpr int64_t laneBytes = 16, fragmentBytes = 32 * laneBytes;
} // namespace

SmallBatchShape SmallBatchShape::choose(int64_t rows, int64_t depth, int64_t copies, int64_t warps, int64_t leastTiles,
                                        bool fewInputs, const GpuTarget &target) {
  SmallBatchShape shape;
  shape.rows = rows;
  shape.depth = depth;
  shape.tiles = leastTiles;
  // Most of the multiprocessors are to have a block.
  int64_t leastBlocks = target.multiprocessors * 5 / 6;
  auto blocks = [&](int64_t tiles) { return rows / (tiles * SkinnyOperands::tileRows) * copies; };
  while (fewInputs && 2 * shape.tiles <= warps && blocks(2 * shape.tiles) >= leastBlocks)
    shape.tiles *= 2;
  shape.slices = warps / shape.tiles;
  shape.groups = std::min(groupsPerTile * shape.tiles, mostGroups);
  while (shape.groups > 1 && shape.sharedBytes() > mostSharedBytes)
    shape.groups /= 2;
  return shape;
}

int64_t SmallBatchShape::sharedBytes() const {
  return std::max(slices * sliceBytes(groups), SkinnySums{tiles, slices, groups}.sharedBytes());
}

int64_t SmallBatchShape::sliceBytes(int64_t groups) const { return inputPieces * pieceSteps * groups * fragmentBytes; }

namespace {

class Emitter {
public:
  Emitter(const GpuBuilder &g, const SmallBatchShape &shape, const SkinnyOperands &operands, Value end, Value firstRow)
      : g(g), shape(shape), operands(operands), end(end), firstRow(firstRow), lane(g.laneId()), quad(g.rem(lane, 4)),
        pieces(llvm::divideCeil(llvm::divideCeil(shape.depth, SkinnyOperands::stepDepth), pieceSteps * shape.slices)) {
    Value warp = g.warpId();
    tile = shape.tiles == 1 ? g.i32(0) : g.rem(warp, shape.tiles);
    slice = shape.tiles == 1 ? warp : g.div(warp, shape.tiles);
    firstDepth = g.mul(slice, pieces * pieceDepth);
    Value row = g.add(g.add(firstRow, g.mul(tile, SkinnyOperands::tileRows)), g.div(lane, 4));
    // Rows past the end are read as the last one, and their sums dropped.
    for (int64_t half : {0, 8})
      weights.push_back(atDepth(operands.weightRow(g.min(g.add(row, half), shape.rows - 1))));
  }

  /// Inputs from `begin` on, 8 * groups of them.
  void emit(Value begin, int64_t numGroups) {
    groups = numGroups;
    placeFragments(begin);
    for (int64_t piece = 0; piece + 1 < inputPieces; ++piece)
      copy(g.i32(piece));
    // Weights of some pieces are on their way, each into registers of its own: what is in flight cannot be moved.
    constexpr int64_t words = pieceSteps * SkinnyOperands::stepWords;
    Values carried(4 * groups, g.f32(0));
    for (int64_t slot = 0; slot < slots; ++slot)
      carried.append(loadWeights(g.i32(slot)));
    finish();
    carried = g.loop(g.i32(0), g.i32(pieces), g.i32(slots), carried, [&](Value first, ValueRange carried) {
      Values next(carried);
      for (int64_t slot = 0; slot < slots; ++slot) {
        Value piece = g.add(first, slot);
        auto advance = [&] {
          copy(g.add(piece, inputPieces - 1));
          ValueRange all(next);
          Values results = multiply(all.slice(4 * groups + slot * words, words), piece, all.take_front(4 * groups));
          results.append(loadWeights(g.add(piece, slots)));
          finish();
          return results;
        };
        Values old(next.begin(), next.begin() + 4 * groups);
        old.append(next.begin() + 4 * groups + slot * words, next.begin() + 4 * groups + (slot + 1) * words);
        bool exists = slot < pieces % slots || pieces % slots == 0;
        Values results = exists ? advance() : g.ifThenElse(g.lt(piece, pieces), advance, [&] { return old; });
        llvm::copy(ArrayRef(results).take_front(4 * groups), next.begin());
        llvm::copy(ArrayRef(results).drop_front(4 * groups), next.begin() + 4 * groups + slot * words);
      }
      return next;
    });
    waitCopies(g, 0);
    SkinnySums{shape.tiles, shape.slices, groups}.store(g, operands, tile, slice, begin, end, firstRow, shape.rows,
                                                        ValueRange(carried).take_front(4 * groups));
    g.barrier(); // before other inputs
  }

private:
  using Values = SmallVector<Value>;
  /// Pieces of the weight that are in registers or on their way there.
  static constexpr int64_t slots = 2;
  static constexpr int64_t pieceDepth = pieceSteps * SkinnyOperands::stepDepth;

  //===--- k: of the slice, of a piece, of a step, of the lane ---===//

  /// Whether all slices have whole pieces. Else pointers are to rows, not to the lane's first k.
  bool isWhole() const { return shape.depth == shape.slices * pieces * pieceDepth; }

  Value laneDepth() { return g.mul(quad, SkinnyOperands::laneDepth); }
  Value atDepth(Value row) { return isWhole() ? g.advance(row, g.add(firstDepth, laneDepth()), g.bf16()) : row; }
  /// What is to be added to such a pointer for a step of a piece, so that it stays in the row. `isInside`: it would
  /// have.
  Value depthOf(Value piece, int64_t step, Value *isInside = nullptr) {
    Value offset = g.add(g.mul(piece, pieceDepth), step * SkinnyOperands::stepDepth);
    if (isWhole())
      return offset;
    Value k = g.add(offset, g.add(firstDepth, laneDepth()));
    if (isInside)
      *isInside = g.lt(k, shape.depth);
    return g.min(k, shape.depth - SkinnyOperands::laneDepth);
  }

  //===--- weights, into registers ---===//

  /// Past the end of k, what x meets there is read: it is zeros. After the last piece, the last one again.
  Values loadWeights(Value piece) {
    Values words;
    piece = g.min(piece, pieces - 1);
    for (int64_t step = 0; step < pieceSteps; ++step) {
      Value k = depthOf(piece, step);
      Values pointers;
      for (Value row : weights)
        pointers.push_back(g.advance(row, k, g.bf16()));
      words.append(loadWeightStep(g, pointers));
    }
    return words;
  }

  //===--- x, into shared memory ---===//

  /// A fragment that the warp brings of every step: of which group, if `exists`, and the lane's row of x.
  struct Fragment {
    Value exists, group, row;
  };

  void placeFragments(Value begin) {
    fragments.clear();
    for (int64_t first = 0; first < groups; first += shape.tiles) {
      Fragment fragment;
      fragment.group = g.add(tile, first);
      if (first + shape.tiles > groups)
        fragment.exists = g.lt(fragment.group, groups);
      Value input = g.add(g.add(begin, g.mul(fragment.group, SkinnyOperands::groupInputs)), g.div(lane, 4));
      fragment.row = atDepth(operands.inputRow(g.min(input, g.sub(end, 1))));
      fragments.push_back(fragment);
    }
  }

  /// The lane's part of the first fragment of a piece.
  Value pieceStart(Value piece) {
    Value number = g.add(g.mul(slice, inputPieces), g.rem(piece, inputPieces));
    return g.shared(g.add(g.mul(number, pieceSteps * groups * fragmentBytes), g.mul(lane, laneBytes)));
  }

  /// Has the warp's fragments of a piece copied, if it exists: as a group of copies.
  void copy(Value piece) {
    g.ifThen(g.lt(piece, pieces), [&] {
      Value start = pieceStart(piece);
      for (const Fragment &fragment : fragments) {
        auto copySteps = [&] {
          Value to = g.advance(start, g.mul(fragment.group, fragmentBytes), g.i8());
          for (int64_t step = 0; step < pieceSteps; ++step) {
            Value isInside, k = depthOf(piece, step, &isInside);
            copyAsync(g, g.advance(to, step * groups * fragmentBytes, g.i8()), g.advance(fragment.row, k, g.bf16()),
                      laneBytes, isInside ? g.select(isInside, g.i32(laneBytes), g.i32(0)) : Value());
          }
        };
        if (fragment.exists)
          g.ifThen(fragment.exists, copySteps);
        else
          copySteps();
      }
    });
    commitCopies(g);
  }

  /// A piece is there for all. Collective.
  void finish() {
    waitCopies(g, inputPieces - 2);
    g.barrier();
  }

  //===--- products ---===//

  /// sums + the products of a piece.
  Values multiply(ValueRange words, Value piece, ValueRange sums) {
    Values next(sums);
    Value start = pieceStart(piece);
    for (int64_t step = 0; step < pieceSteps; ++step)
      for (int64_t group = 0; group < groups; ++group) {
        Value four =
            g.loadRaw(g.advance(start, (step * groups + group) * fragmentBytes, g.i8()), g.vectorOf(4, g.i32()));
        Values x;
        for (int64_t i = 0; i < 4; ++i)
          x.push_back(vector::ExtractOp::create(g.b, g.loc, four, ArrayRef<int64_t>{i}));
        ValueRange own = ValueRange(next).slice(4 * group, 4);
        llvm::copy(multiplyStep(g, operands, words.slice(step * SkinnyOperands::stepWords, SkinnyOperands::stepWords),
                                {x}, own),
                   next.begin() + 4 * group);
      }
    return next;
  }

  const GpuBuilder &g;
  const SmallBatchShape &shape;
  const SkinnyOperands &operands;
  Value end, firstRow, lane, quad;
  int64_t pieces; ///< of a slice
  Value tile, slice, firstDepth;
  Values weights; ///< the lane's two rows
  int64_t groups = 0;
  SmallVector<Fragment> fragments;
};

} // namespace

/// In passes of `groups` groups, or in one of fewer that are enough.
static void emitPasses(const GpuBuilder &g, const SmallBatchShape &shape, const SkinnyOperands &operands, Value begin,
                       Value end, Value firstRow, int64_t groups) {
  auto emit = [&](Value start) { Emitter(g, shape, operands, end, firstRow).emit(start, groups); };
  auto emitAll = [&] {
    if (groups == shape.groups)
      g.loop(begin, end, g.i32(groups * SkinnyOperands::groupInputs), emit);
    else
      emit(begin);
    return SmallVector<Value>();
  };
  if (groups <= 2) {
    emitAll();
    return;
  }
  g.ifThenElse(g.gt(g.sub(end, begin), groups / 2 * SkinnyOperands::groupInputs), emitAll, [&] {
    emitPasses(g, shape, operands, begin, end, firstRow, groups / 2);
    return SmallVector<Value>();
  });
}

void k3::emitSmallBatch(const GpuBuilder &g, const SmallBatchShape &shape, const SkinnyOperands &operands, Value begin,
                        Value end, Value firstRow, int64_t leastTiles) {
  firstRow = g.mul(firstRow, shape.tiles / leastTiles);
  g.ifThen(g.lt(firstRow, shape.rows), [&] { emitPasses(g, shape, operands, begin, end, firstRow, shape.groups); });
}
