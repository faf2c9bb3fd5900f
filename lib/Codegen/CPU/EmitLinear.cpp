//===- EmitLinear.cpp - k3.linear to vector code -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The weight [n, k] is read as it is stored, so the vector runs along k: a register tile of R weight rows x M tokens of
// accumulators, each a vector of partial sums that is added up at the end. R rows are R contiguous streams, which is what
// decoding needs to reach the memory's bandwidth; with M tokens every widened weight vector is used M times.
//
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "lib/Codegen/CPU/Emitters.h"
#include "lib/Codegen/CPU/VectorBuilder.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

/// Sizes of register tiles, largest first.
struct RegisterTiles {
  SmallVector<int64_t> rows, tokens;

  explicit RegisterTiles(const TargetModel &target) {
    rows = {4, 1};
    if (target.vectorRegisters >= 32)
      tokens = {6, 4, 2, 1}; // 24 accumulators and 4 weights
    else
      tokens = {2, 1}; // 8 accumulators, 4 weights
  }
};

/// Elements of k that a block of rows is walked in when there are many tokens: 4 bf16 rows of it stay in the first
/// level cache, 64 tokens of it in the second.
constexpr int64_t kBlock = 2048;
/// Up to so many tokens one pass over whole rows is best: there is nothing to keep in a cache.
constexpr int64_t fewTokens = 8;

class LinearEmitter {
public:
  LinearEmitter(OpBuilder &b, const TargetModel &target, LinearOp op)
      : v(b, op.getLoc(), target), tiles(target), x(op.getX()), weight(op.getWeight()), out(op.getOut()),
        accumulate(op.getAccumulate()), depth(cast<MemRefType>(weight.getType()).getDimSize(1)) {}

  void emit() {
    tokenCount = v.dim(x, 0);
    rowCount = v.dim(out, 1);
    if (depth <= kBlock)
      return emitDepthBlock(v.index(0), v.index(depth));
    Value few = v.compare(arith::CmpIPredicate::ule, tokenCount, v.index(fewTokens));
    Value step = v.select(few, v.index(depth), v.index(kBlock));
    v.loop(v.index(0), v.index(depth), step, [&](Value start) {
      emitDepthBlock(start, v.minIndex(v.addIndex(start, step), v.index(depth)));
    });
  }

private:
  /// out (+)= x[:, low:high] weight[:, low:high]^T
  void emitDepthBlock(Value low, Value high) {
    v.loopBlocks(rowCount, tiles.rows, [&](Value row, int64_t rows) {
      v.loopBlocks(tokenCount, tiles.tokens,
                   [&](Value token, int64_t tokens) { emitTile(row, rows, token, tokens, low, high); });
    });
  }

  void emitTile(Value row, int64_t rows, Value token, int64_t tokens, Value low, Value high) {
    SmallVector<Value> rowIndex, tokenIndex;
    for (int64_t r = 0; r < rows; ++r)
      rowIndex.push_back(v.addIndex(row, v.index(r)));
    for (int64_t t = 0; t < tokens; ++t)
      tokenIndex.push_back(v.addIndex(token, v.index(t)));
    auto step = [&](Value k, int64_t count, ValueRange sums) {
      SmallVector<Value> w, next(sums);
      for (Value r : rowIndex)
        w.push_back(v.loadPartial(weight, {r, k}, count));
      for (int64_t t = 0; t < tokens; ++t) {
        Value xv = v.loadPartial(x, {tokenIndex[t], k}, count);
        for (int64_t r = 0; r < rows; ++r)
          next[t * rows + r] = v.fma(w[r], xv, next[t * rows + r]);
      }
      return next;
    };
    SmallVector<Value> sums(rows * tokens, v.zero());
    // Blocks start at multiples of kBlock, so only the last one meets the rest that fills no vector.
    int64_t whole = depth - depth % v.lanes();
    sums = v.loop(low, v.minIndex(high, v.index(whole)), v.index(v.lanes()), sums,
                  [&](Value k, ValueRange args) { return step(k, v.lanes(), args); });
    if (whole < depth) {
      // A masked step costs little, and with an empty mask it changes nothing in the other blocks.
      Value rest = v.subIndex(high, v.minIndex(high, v.index(whole)));
      Value mask = v.mask(rest);
      SmallVector<Value> w;
      for (Value r : rowIndex)
        w.push_back(v.loadMasked(weight, {r, v.index(whole)}, mask));
      for (int64_t t = 0; t < tokens; ++t) {
        Value xv = v.loadMasked(x, {tokenIndex[t], v.index(whole)}, mask);
        for (int64_t r = 0; r < rows; ++r)
          sums[t * rows + r] = v.fma(w[r], xv, sums[t * rows + r]);
      }
    }
    Value first = v.compare(arith::CmpIPredicate::eq, low, v.index(0));
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t r = 0; r < rows; ++r) {
        Value sum = v.reduceAdd(sums[t * rows + r]);
        SmallVector<Value> at{tokenIndex[t], rowIndex[r]};
        if (accumulate || depth > kBlock) {
          Value old = v.loadScalar(out, at);
          if (!accumulate) // the first block overwrites what was there
            old = v.select(first, v.scalar().constant(0.0), old);
          sum = v.scalar().add(old, sum);
        }
        v.storeScalar(sum, out, at);
      }
  }

  VectorBuilder v;
  RegisterTiles tiles;
  Value x, weight, out;
  bool accumulate;
  int64_t depth;
  Value tokenCount, rowCount;
};

struct LinearPattern : OpRewritePattern<LinearOp> {
  LinearPattern(MLIRContext *context, const TargetModel &target) : OpRewritePattern(context), target(target) {}
  LogicalResult matchAndRewrite(LinearOp op, PatternRewriter &rewriter) const override {
    auto type = dyn_cast<MemRefType>(op.getWeight().getType());
    if (!type || type.isDynamicDim(1))
      return rewriter.notifyMatchFailure(op, "expected memrefs and a static contraction size");
    LinearEmitter(rewriter, target, op).emit();
    rewriter.eraseOp(op);
    return success();
  }
  TargetModel target;
};

} // namespace

void k3::populateLinearEmitter(RewritePatternSet &patterns, const TargetModel &target) {
  patterns.add<LinearPattern>(patterns.getContext(), target);
}
