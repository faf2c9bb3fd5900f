//===- EmitMla.cpp - attention over the latent cache to vector code -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// One pass over a row's context, a page at a time, with a running maximum and sum (online softmax). Heads go in blocks of
// eight or four, since all heads of the absorbed form read the same cache rows: a row that is loaded serves them all,
// first for the scores and then, while it is still near, for the weighted sum. Meanwhile the page that is
// walked next is asked for, be it of the next sequence: pages are shorter than what the hardware follows.
//
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "lib/Codegen/CPU/Emitters.h"
#include "lib/Codegen/CPU/VectorBuilder.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

/// Bytes of a page up to which the next one finds room in the first level cache beside it.
constexpr int64_t smallPage = 8 << 10;

/// Below every score, and far enough that exp of a difference to any score is 0.
constexpr double lowest = -1e30;

class AttendEmitter {
public:
  AttendEmitter(OpBuilder &b, const TargetModel &target, MlaAttendOp op)
      : v(b, op.getLoc(), target), op(op), rowSize(getStaticNamedDim(op, "lr")), latent(getStaticNamedDim(op, "l")),
        page(getStaticNamedDim(op, "page")), paddedPage((page + v.lanes() - 1) / v.lanes() * v.lanes()),
        headBlock(target.vectorRegisters >= 32 ? 8 : 4), sumVectors(target.vectorRegisters >= 32 ? 16 : 8) {}

  void emit() {
    scores = v.temporary({headBlock, paddedPage});
    Value one = v.index(1), lastSequence = v.subIndex(v.dim(op.getLengths(), 0), one);
    v.loop(v.index(0), v.dim(op.getLengths(), 0), one, [&](Value n) {
      Value low = v.loadIndex(op.getCu(), {n}), high = v.loadIndex(op.getCu(), {v.addIndex(n, one)});
      Value before = v.loadIndex(op.getLengths(), {n});
      Value nextSequence = v.minIndex(v.addIndex(n, one), lastSequence);
      v.loop(low, high, one, [&](Value t) {
        Value context = v.addIndex(before, v.addIndex(v.subIndex(t, low), one));
        Value isLast = v.compare(arith::CmpIPredicate::eq, v.addIndex(t, one), high);
        Walk walk{n, context, v.select(isLast, nextSequence, n)};
        v.loopBlocks(v.dim(op.getQ(), 1), headBlocks(),
                     [&](Value h, int64_t heads) { emitHeads(walk, t, h, heads); });
      });
    });
  }

private:
  SmallVector<int64_t> headBlocks() const {
    return headBlock > 4 ? SmallVector<int64_t>{headBlock, 4, 2, 1} : SmallVector<int64_t>{headBlock, 2, 1};
  }

  /// Cache rows whose scores for `heads` heads are summed up at a time: 24 sums leave registers for what they multiply.
  static int64_t getRowBlock(int64_t heads) { return heads > 4 ? 24 / heads : 4; }

  /// The context of a row: its sequence, its size, and the sequence whose context is walked after it.
  struct Walk {
    Value sequence, context, nextSequence;
  };

  /// A page and how many of its rows count.
  struct Page {
    Value id, rows;
  };

  Page getPage(Value sequence, Value context, Value p) {
    return {v.loadIndex(op.getPageTable(), {sequence, p}),
            v.minIndex(v.index(page), v.subIndex(context, v.mulIndex(p, v.index(page))))};
  }

  /// What is walked after page `p`: the next page, or the first one of the next sequence.
  Page getPageAfter(const Walk &walk, Value p, Value pages) {
    Value following = v.addIndex(p, v.index(1));
    Value isThere = v.compare(arith::CmpIPredicate::ult, following, pages);
    Value sequence = v.select(isThere, walk.sequence, walk.nextSequence);
    Value context = v.select(isThere, walk.context, v.loadIndex(op.getLengths(), {walk.nextSequence}));
    return getPage(sequence, context, v.select(isThere, following, v.index(0)));
  }

  /// Asks for rows [low, high) of a page.
  void prefetchRows(Value id, Value low, Value high) {
    constexpr int64_t line = 64;
    auto type = cast<MemRefType>(op.getCache().getType());
    int64_t perLine = line * 8 / type.getElementTypeBitWidth();
    bool small = page * rowSize * type.getElementTypeBitWidth() / 8 <= smallPage;
    v.loop(low, high, v.index(1), [&](Value r) {
      for (int64_t k = 0; k < rowSize; k += perLine)
        v.prefetch(op.getCache(), {id, r, v.index(k)}, /*level=*/small ? 1 : 2);
    });
  }

  void emitHeads(const Walk &walk, Value t, Value h, int64_t heads) {
    MathBuilder s = v.scalar();
    SmallVector<Value> head;
    for (int64_t i = 0; i < heads; ++i) {
      head.push_back(v.addIndex(h, v.index(i)));
      v.loopVectors(latent, [&](Value j, int64_t count) {
        v.storePartial(v.zero(), op.getOut(), {t, head[i], j}, count);
      });
    }
    // Carried: maximum and sum of every head.
    SmallVector<Value> inits(heads, s.constant(lowest));
    inits.append(heads, s.constant(0.0));
    Value pages = v.divIndex(v.addIndex(walk.context, v.index(page - 1)), v.index(page));
    SmallVector<Value> carried = v.loop(v.index(0), pages, v.index(1), inits, [&](Value p, ValueRange args) {
      Page current = getPage(walk.sequence, walk.context, p);
      computeScores(t, head, current, getPageAfter(walk, p, pages));
      return accumulate(t, head, current, args);
    });
    for (int64_t i = 0; i < heads; ++i) {
      Value inverse = v.broadcast(s.div(s.constant(1.0), carried[heads + i]));
      v.loopVectors(latent, [&](Value j, int64_t count) {
        v.storePartial(v.mul(inverse, v.loadPartial(op.getOut(), {t, head[i], j}, count)), op.getOut(),
                       {t, head[i], j}, count);
      });
    }
  }

  /// scores[i, r] = scale * q_i . cache[id, r] for the page's rows that count, `lowest` for the rest. Asks for as many
  /// rows of page `next` on the way, and then for the rest of them.
  void computeScores(Value t, ArrayRef<Value> head, const Page &current, const Page &next) {
    int64_t heads = head.size();
    for (int64_t i = 0; i < heads; ++i)
      v.loopVectors(paddedPage, [&](Value r, int64_t lanes) {
        v.storePartial(v.constant(lowest), scores, {v.index(i), r}, lanes);
      });
    Value scale = v.scalar().constant(op.getScale().convertToDouble());
    v.loopBlocks(current.rows, {getRowBlock(heads), 1}, [&](Value r, int64_t rows) {
      prefetchRows(next.id, r, v.minIndex(v.addIndex(r, v.index(rows)), next.rows));
      SmallVector<Value> row;
      for (int64_t j = 0; j < rows; ++j)
        row.push_back(v.addIndex(r, v.index(j)));
      SmallVector<Value> sums =
          v.loopVectors(rowSize, SmallVector<Value>(heads * rows, v.zero()), [&](Value k, int64_t lanes, ValueRange args) {
            SmallVector<Value> next(args), cached;
            for (Value at : row) {
              cached.push_back(v.loadPartial(op.getCache(), {current.id, at, k}, lanes));
              // From where the whole page has been asked to.
              v.prefetch(op.getCache(), {current.id, v.addIndex(at, v.index(rows)), k});
            }
            for (int64_t i = 0; i < heads; ++i) {
              Value q = v.loadPartial(op.getQ(), {t, head[i], k}, lanes);
              for (int64_t j = 0; j < rows; ++j)
                next[i * rows + j] = v.fma(q, cached[j], next[i * rows + j]);
            }
            return next;
          });
      SmallVector<Value> totals = v.reduceAddAll(sums);
      for (int64_t i = 0; i < heads; ++i)
        for (int64_t j = 0; j < rows; ++j)
          v.storeScalar(v.scalar().mul(scale, totals[i * rows + j]), scores, {v.index(i), row[j]});
    });
    prefetchRows(next.id, current.rows, next.rows);
  }

  /// Latents whose sums for `heads` heads are in registers at a time: blocks of one size.
  int64_t getBlockWidth(int64_t heads) const {
    int64_t vectors = llvm::divideCeil(latent, v.lanes()), blocks = llvm::divideCeil(vectors, sumVectors / heads);
    return llvm::divideCeil(vectors, blocks) * v.lanes();
  }

  /// Turns the page's scores into weights, adds the weighted latents to `out`; returns the new maxima and sums.
  SmallVector<Value> accumulate(Value t, ArrayRef<Value> head, const Page &current, ValueRange args) {
    MathBuilder s = v.scalar();
    int64_t heads = head.size();
    SmallVector<Value> maxima, sums, corrections;
    for (int64_t i = 0; i < heads; ++i) {
      Value at = v.index(i);
      SmallVector<Value> top =
          v.loopVectors(paddedPage, v.constant(lowest), [&](Value r, int64_t lanes, ValueRange inner) {
            return SmallVector<Value>{v.max(inner[0], v.loadPartial(scores, {at, r}, lanes))};
          });
      maxima.push_back(s.max(args[i], v.reduceMax(top[0])));
      Value maximum = v.broadcast(maxima[i]);
      SmallVector<Value> total = v.loopVectors(paddedPage, v.zero(), [&](Value r, int64_t lanes, ValueRange inner) {
        Value weight = v.exp(v.sub(v.loadPartial(scores, {at, r}, lanes), maximum));
        v.storePartial(weight, scores, {at, r}, lanes);
        return SmallVector<Value>{v.add(inner[0], weight)};
      });
      Value correction = s.exp(s.sub(args[i], maxima[i]));
      sums.push_back(s.fma(args[heads + i], correction, v.reduceAdd(total[0])));
      corrections.push_back(v.broadcast(correction));
    }
    v.loopColumns(latent, getBlockWidth(heads), [&](ArrayRef<Value> column, int64_t lanes) {
      int64_t n = column.size();
      SmallVector<Value> out;
      for (int64_t i = 0; i < heads; ++i)
        for (Value j : column)
          out.push_back(v.mul(corrections[i], v.loadPartial(op.getOut(), {t, head[i], j}, lanes)));
      out = v.loop(v.index(0), current.rows, v.index(1), out, [&](Value r, ValueRange inner) {
        SmallVector<Value> next(inner), cached;
        for (Value j : column)
          cached.push_back(v.loadPartial(op.getCache(), {current.id, r, j}, lanes));
        for (int64_t i = 0; i < heads; ++i) {
          Value weight = v.broadcast(v.loadScalar(scores, {v.index(i), r}));
          for (int64_t j = 0; j < n; ++j)
            next[i * n + j] = v.fma(weight, cached[j], next[i * n + j]);
        }
        return next;
      });
      for (int64_t i = 0; i < heads; ++i)
        for (int64_t j = 0; j < n; ++j)
          v.storePartial(out[i * n + j], op.getOut(), {t, head[i], column[j]}, lanes);
    });
    maxima.append(sums);
    return maxima;
  }

  VectorBuilder v;
  MlaAttendOp op;
  int64_t rowSize, latent, page, paddedPage, headBlock, sumVectors;
  Value scores; // [headBlock, page]: scores, then weights
};

} // namespace

void k3::populateMlaEmitters(RewritePatternSet &patterns, const TargetModel &target) {
  patterns.add<EmitterClassPattern<MlaAttendOp, AttendEmitter>>(patterns.getContext(), target);
}
