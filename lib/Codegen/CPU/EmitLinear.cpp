//===- EmitLinear.cpp - k3.linear to vector code -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "lib/Codegen/CPU/DotTile.h"
#include "lib/Codegen/CPU/Emitters.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

/// Elements of k that a block of rows is walked in when there are many tokens: 4 bf16 rows of it stay in the first
/// level cache, 64 tokens of it in the second.
constexpr int64_t kBlock = 2048;
/// Up to so many elements of a weight row are a short stream.
constexpr int64_t shortStream = 4096;
/// The most elements of an input row, and so many rows, that the first level cache holds together.
constexpr int64_t shortInput = 512, shortInputRows = 16;
/// Up to so many tokens one pass over whole rows is best: the weights are read once and nothing else is large.
constexpr int64_t fewTokens = 8;

/// Input rows that are rounded to bf16 together, and the most elements of each: they stay in the second level cache.
constexpr int64_t packedRows = 64, packedDepth = 2560;

/// out[t, n] (+)= sum_k x[t, k] weight[n, k]
class LinearEmitter {
public:
  LinearEmitter(OpBuilder &b, const TargetModel &target, LinearOp op)
      : v(b, op.getLoc(), target), sizes(target), x(op.getX()), weight(op.getWeight()), out(op.getOut()),
        accumulate(op.getAccumulate()), fixedOrder(op.getFixedOrder()),
        depth(cast<MemRefType>(x.getType()).getDimSize(1)), tile(v, depth, op.getBf16X(), fixedOrder) {
    blockDepth = kBlock;
    packs = op.getBf16X() && target.avx512Bf16 && depth % (2 * v.lanes()) == 0;
    if (packs) // blocks of one size
      blockDepth = llvm::alignTo(llvm::divideCeil(depth, llvm::divideCeil(depth, packedDepth)), 2 * v.lanes());
  }

  void emit() {
    tokenCount = v.dim(x, 0);
    rowCount = v.dim(out, 1);
    if (packs)
      packed = v.temporary({packedRows, blockDepth}, v.builder().getBF16Type());
    // Streams take the whole depth at once, blocks add up parts of it.
    if (fixedOrder)
      return emitBlocks();
    Value few = v.index(fewTokens);
    v.ifThen(v.compare(arith::CmpIPredicate::ule, tokenCount, few), [&] { emitStreams(); });
    v.ifThen(v.compare(arith::CmpIPredicate::ugt, tokenCount, few), [&] { emitBlocks(); });
  }

private:
  void emitBlocks() {
    prefetchOutputs();
    if (packs)
      return emitPacked();
    if (depth <= shortInput)
      prefetchFirst();
    if (depth <= kBlock)
      return emitDepthBlock(v.index(0), v.index(depth));
    v.loop(v.index(0), v.index(depth), v.index(kBlock), [&](Value start) {
      emitDepthBlock(start, v.minIndex(v.addIndex(start, v.index(kBlock)), v.index(depth)));
    });
  }

  static SmallVector<MatrixRow> getRows(const VectorBuilder &v, Value matrix, Value first, int64_t count) {
    SmallVector<MatrixRow> rows;
    for (int64_t i = 0; i < count; ++i)
      rows.push_back({matrix, {v.addIndex(first, v.index(i))}});
    return rows;
  }

  static int64_t elementsPerLine(Value matrix) {
    return 64 * 8 / cast<MemRefType>(matrix.getType()).getElementTypeBitWidth();
  }

  /// Asks for the inputs, which another thread may have made, and for the weights of the first tile: these are short
  /// streams, and a tile of a small model is over before the hardware has seen them.
  void prefetchFirst() {
    auto ask = [&](Value matrix, Value rows) {
      int64_t perLine = elementsPerLine(matrix);
      v.loop(v.index(0), rows, v.index(1), [&](Value row) {
        for (int64_t k = 0; k < depth; k += perLine)
          v.prefetch(matrix, {row, v.index(k)});
      });
    };
    ask(weight, v.index(sizes.rows.front()));
    ask(x, v.minIndex(tokenCount, v.index(shortInputRows)));
  }

  /// Asks for the place of the outputs, where another thread may have written last.
  void prefetchOutputs() {
    Value rows = v.minIndex(tokenCount, v.index(shortInputRows));
    v.loop(v.index(0), rows, v.index(1), [&](Value row) {
      v.loop(v.index(0), rowCount, v.index(elementsPerLine(out)), [&](Value n) { v.prefetchForWrite(out, {row, n}); });
    });
  }

  void roundRows(Value first, Value count, Value low, Value size) {
    v.loop(v.index(0), count, v.index(1), [&](Value t) { v.packRow(x, v.addIndex(first, t), low, size, packed, t); });
  }

  /// Memory is the limit: the rows of a tile are far apart, and each is followed by the next one of its stream.
  void emitStreams() {
    Value length = v.divIndex(rowCount, v.index(sizes.rows.front()));
    bool rounded = packs && depth <= blockDepth;
    if (rounded)
      roundRows(v.index(0), tokenCount, v.index(0), v.index(depth));
    auto emitRows = [&](Value row, int64_t rows) {
      SmallVector<MatrixRow> weightRows;
      for (int64_t r = 0; r < rows; ++r)
        weightRows.push_back({weight, {v.addIndex(row, v.mulIndex(length, v.index(r)))}});
      v.loopBlocks(tokenCount, sizes.inputs, [&](Value token, int64_t tokens) {
        SmallVector<MatrixRow> inputs = getRows(v, rounded ? packed : x, token, tokens);
        SmallVector<Value> sums = v.reduceAddAll(tile.emit(weightRows, inputs, v.index(0), v.index(depth)));
        for (int64_t t = 0; t < tokens; ++t)
          for (int64_t r = 0; r < rows; ++r) {
            SmallVector<Value> at{inputs[t].at[0], weightRows[r].at[0]};
            Value sum = sums[t * rows + r];
            v.storeScalar(accumulate ? v.add(v.loadScalar(out, at), sum) : sum, out, at);
          }
      });
    };
    v.loop(v.index(0), length, v.index(1), [&](Value row) { emitRows(row, sizes.rows.front()); });
    Value covered = v.mulIndex(length, v.index(sizes.rows.front()));
    v.loop(covered, rowCount, v.index(1), [&](Value row) { emitRows(row, 1); });
  }

  /// Rounds blocks of x once, for all rows of the weight, and multiplies them.
  void emitPacked() {
    OpBuilder &b = v.builder();
    v.loop(v.index(0), v.index(depth), v.index(blockDepth), [&](Value low) {
      Value size = v.minIndex(v.index(blockDepth), v.subIndex(v.index(depth), low));
      OpFoldResult zero = b.getIndexAttr(0), one = b.getIndexAttr(1);
      Value block =
          memref::SubViewOp::create(b, v.getLoc(), weight, ArrayRef<OpFoldResult>{zero, low},
                                    ArrayRef<OpFoldResult>{v.dim(weight, 0), size}, ArrayRef<OpFoldResult>{one, one});
      v.loop(v.index(0), tokenCount, v.index(packedRows), [&](Value first) {
        Value count = v.minIndex(v.index(packedRows), v.subIndex(tokenCount, first));
        roundRows(first, count, low, size);
        emitRows(block, packed, count, first, v.index(0), size, low);
      });
    });
  }

  /// out (+)= x[:, low:high] weight[:, low:high]^T
  void emitDepthBlock(Value low, Value high) { emitRows(weight, x, tokenCount, v.index(0), low, high, low); }

  /// The products of `count` rows of `inputMatrix`, which are the rows of x from `firstToken` on, with all rows of
  /// `weightMatrix`, over its elements [low, high). `start` is 0 for the first block of the contraction.
  void emitRows(Value weightMatrix, Value inputMatrix, Value count, Value firstToken, Value low, Value high,
                Value start) {
    v.loopBlocks(rowCount, sizes.rows, [&](Value row, int64_t rows) {
      SmallVector<MatrixRow> weightRows;
      for (int64_t r = 0; r < rows; ++r)
        weightRows.push_back({weightMatrix, {v.addIndex(row, v.index(r))}});
      v.loopBlocks(count, sizes.inputs, [&](Value token, int64_t tokens) {
        SmallVector<MatrixRow> inputs = getRows(v, inputMatrix, token, tokens);
        // Streams as short as these the hardware does not follow.
        bool ahead = depth <= shortStream && tokens == sizes.inputs.front();
        SmallVector<Value> sums = tile.emit(weightRows, inputs, low, high, ahead ? rows : 0);
        for (int64_t t = 0; t < tokens; ++t)
          store(ArrayRef(sums).slice(t * rows, rows), v.addIndex(firstToken, inputs[t].at[0]), row, start);
      });
    });
  }

  void store(ArrayRef<Value> sums, Value token, Value row, Value low) {
    OpBuilder &b = v.builder();
    bool readOld = accumulate || depth > blockDepth;
    Value first = v.compare(arith::CmpIPredicate::eq, low, v.index(0));
    auto combine = [&](Value sum, Value old) {
      // The first block overwrites what was there.
      Value zero = arith::ConstantOp::create(b, v.getLoc(), b.getZeroAttr(sum.getType()));
      return v.add(accumulate ? old : v.select(first, zero, old), sum);
    };
    SmallVector<Value> at{token, row};
    if (sums.size() == 4) {
      Value four = v.reduceAdd4(sums);
      if (readOld)
        four = combine(four, v.loadRaw(out, at, 4));
      vector::StoreOp::create(b, v.getLoc(), four, out, at);
      return;
    }
    for (auto [r, sum] : llvm::enumerate(v.reduceAddAll(sums))) {
      at[1] = v.addIndex(row, v.index(r));
      v.storeScalar(readOld ? combine(sum, v.loadScalar(out, at)) : sum, out, at);
    }
  }

  VectorBuilder v;
  DotTileSizes sizes;
  Value x, weight, out;
  bool accumulate, fixedOrder;
  int64_t depth, blockDepth;
  /// Input rows are rounded in advance.
  bool packs;
  DotTile tile;
  Value tokenCount, rowCount, packed;
};

} // namespace

void k3::populateLinearEmitter(RewritePatternSet &patterns, const TargetModel &target) {
  patterns.add<EmitterClassPattern<LinearOp, LinearEmitter>>(patterns.getContext(), target);
}
