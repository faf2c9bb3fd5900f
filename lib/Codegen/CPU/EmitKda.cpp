//===- EmitKda.cpp - KDA steps and chunks to vector code -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Decode: the state [value, key] is walked by rows, four at a time; prediction and output come from one pass over the
// decayed row (S q after the update is (S a) q + e (k q)), so that the state is read and written once.
//
// Prefill: one chunk of L rows at a time. Everything that multiplies two rows of the chunk uses columns as lanes and
// broadcasts from the other side, so no product ends in a horizontal sum. The scan keeps a block of state columns
// transposed in scratch memory while it walks the chunks of a sequence.
//
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "lib/Codegen/CPU/Emitters.h"
#include "lib/Codegen/CPU/VectorBuilder.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

/// Inside the root, on the sum of squares (flash-linear-attention's l2norm).
constexpr double l2Eps = 1e-6;

/// What the strategies share: rows of q and k brought to unit length, decays.
class KdaEmitter {
protected:
  KdaEmitter(OpBuilder &b, const TargetModel &target, Operation *op)
      : v(b, op->getLoc(), target), keySize(getStaticNamedDim(op, "K")), valueSize(getStaticNamedDim(op, "V")) {}

  /// 1 / sqrt(sum x^2 + eps) of a row of K values, times `scale`.
  Value inverseLength(Value x, ValueRange row, double scale) {
    SmallVector<Value> sum = v.loopVectors(keySize, v.zero(), [&](Value k, int64_t count, ValueRange args) {
      Value value = v.loadPartial(x, append(row, k), count);
      return SmallVector<Value>{v.fma(value, value, args[0])};
    });
    MathBuilder s = v.scalar();
    return s.mul(s.constant(scale), s.rsqrt(s.add(v.reduceAdd(sum[0]), s.constant(l2Eps))));
  }

  /// The factors that bring a row of q and k to what the recurrence uses.
  std::pair<Value, Value> queryKeyFactors(Value q, Value k, ValueRange row, bool l2norm, double scale) {
    if (!l2norm)
      return {v.scalar().constant(scale), v.scalar().constant(1.0)};
    return {inverseLength(q, row, scale), inverseLength(k, row, 1.0)};
  }

  static SmallVector<Value> append(ValueRange indices, Value last) {
    SmallVector<Value> all(indices);
    all.push_back(last);
    return all;
  }

  VectorBuilder v;
  int64_t keySize, valueSize;
};

//===----------------------------------------------------------------------===//
// k3.kda.recurrent_step, and k3.kda.scan as one step after the other
//===----------------------------------------------------------------------===//

template <typename OpTy> class StepEmitter : KdaEmitter {
public:
  StepEmitter(OpBuilder &b, const TargetModel &target, OpTy op) : KdaEmitter(b, target, op), op(op) {}

  void emit() {
    decay = v.temporary({keySize});
    query = v.temporary({keySize});
    key = v.temporary({keySize});
    v.loop(v.index(0), v.dim(op.getSlots(), 0), v.index(1), [&](Value n) {
      Value slot = v.loadIndex(op.getSlots(), {n});
      Value last = v.subIndex(v.dim(op.getSlots(), 0), v.index(1));
      nextSlot = v.loadIndex(op.getSlots(), {v.minIndex(v.addIndex(n, v.index(1)), last)});
      // The state of one head stays in the cache while it is walked through the rows.
      v.loop(v.index(0), v.dim(op.getQ(), 1), v.index(1), [&](Value h) {
        if constexpr (std::is_same_v<OpTy, KdaScanOp>) {
          Value low = v.loadIndex(op.getCu(), {n}), high = v.loadIndex(op.getCu(), {v.addIndex(n, v.index(1))});
          v.loop(low, high, v.index(1), [&](Value t) { emitHead(t, h, slot); });
        } else {
          emitHead(n, h, slot);
        }
      });
    });
  }

private:
  void emitHead(Value n, Value h, Value slot) {
    MathBuilder s = v.scalar();
    SmallVector<Value> row{n, h};
    auto [queryFactor, keyFactor] = queryKeyFactors(op.getQ(), op.getK(), row, op.getL2norm(), op.getScale().convertToDouble());
    Value queryLanes = v.broadcast(queryFactor), keyLanes = v.broadcast(keyFactor);
    Value headDecay;
    if (op.getG() && cast<MemRefType>(op.getG().getType()).getRank() == 2)
      headDecay = v.broadcast(s.exp(v.loadScalar(op.getG(), row)));
    SmallVector<Value> dot = v.loopVectors(keySize, v.zero(), [&](Value k, int64_t count, ValueRange args) {
      Value q = v.mul(v.loadPartial(op.getQ(), append(row, k), count), queryLanes);
      Value kk = v.mul(v.loadPartial(op.getK(), append(row, k), count), keyLanes);
      v.storePartial(q, query, {k}, count);
      v.storePartial(kk, key, {k}, count);
      if (op.getG())
        v.storePartial(headDecay ? headDecay : v.exp(v.loadPartial(op.getG(), append(row, k), count)), decay, {k}, count);
      return SmallVector<Value>{v.fma(q, kk, args[0])};
    });
    Value queryKey = v.reduceAdd(dot[0]);
    Value rate = s.sigmoid(v.loadScalar(op.getBeta(), row));
    v.loopBlocks(v.index(valueSize), {4, 1},
                 [&](Value first, int64_t rows) { emitRows(n, h, slot, first, rows, queryKey, rate); });
  }

  /// S a for `rows` rows of the state at [.., k].
  SmallVector<Value> decayed(ArrayRef<SmallVector<Value>> at, Value k, int64_t count) {
    SmallVector<Value> values;
    Value a = op.getG() ? v.loadPartial(decay, {k}, count) : Value();
    for (const SmallVector<Value> &index : at) {
      Value value = v.loadPartial(op.getState(), append(index, k), count);
      values.push_back(a ? v.mul(value, a) : value);
    }
    return values;
  }

  void emitRows(Value n, Value h, Value slot, Value first, int64_t rows, Value queryKey, Value rate) {
    MathBuilder s = v.scalar();
    SmallVector<SmallVector<Value>> at;
    for (int64_t r = 0; r < rows; ++r)
      at.push_back({slot, h, v.addIndex(first, v.index(r))});
    SmallVector<Value> sums =
        v.loopVectors(keySize, SmallVector<Value>(2 * rows, v.zero()), [&](Value k, int64_t count, ValueRange args) {
          SmallVector<Value> state = decayed(at, k, count), next(args);
          Value q = v.loadPartial(query, {k}, count), kk = v.loadPartial(key, {k}, count);
          for (int64_t r = 0; r < rows; ++r) {
            next[r] = v.fma(state[r], kk, next[r]);
            next[rows + r] = v.fma(state[r], q, next[rows + r]);
            // With many sequences the states come from far, and in pieces too short for the hardware to follow.
            if (std::is_same_v<OpTy, KdaRecurrentStepOp>)
              v.prefetch(op.getState(), append({nextSlot, at[r][1], at[r][2]}, k), /*level=*/2);
          }
          return next;
        });
    SmallVector<Value> totals = v.reduceAddAll(sums); // predictions, then outputs
    SmallVector<Value> error;
    for (int64_t r = 0; r < rows; ++r) {
      SmallVector<Value> index{n, h, at[r][2]};
      Value value = v.loadScalar(op.getV(), index);
      Value e = s.mul(rate, op.getDelta() ? s.sub(value, totals[r]) : value);
      v.storeScalar(s.fma(e, queryKey, totals[rows + r]), op.getOut(), index);
      error.push_back(v.broadcast(e));
    }
    v.loopVectors(keySize, [&](Value k, int64_t count) {
      SmallVector<Value> state = decayed(at, k, count);
      Value kk = v.loadPartial(key, {k}, count);
      for (int64_t r = 0; r < rows; ++r)
        v.storePartial(v.fma(error[r], kk, state[r]), op.getState(), append(at[r], k), count);
    });
  }

  OpTy op;
  Value nextSlot;          // of the sequence that comes next
  Value decay, query, key; // [K]: exp(g), scaled q, unit k of the current head
};

//===----------------------------------------------------------------------===//
// k3.kda.chunk_prepare
//===----------------------------------------------------------------------===//

class PrepareEmitter : KdaEmitter {
public:
  PrepareEmitter(OpBuilder &b, const TargetModel &target, KdaChunkPrepareOp op)
      : KdaEmitter(b, target, op), op(op), length(getStaticNamedDim(op, "L")) {}

  void emit() {
    query = v.temporary({length, keySize});
    key = v.temporary({length, keySize});
    sum = v.temporary({length, keySize});
    rate = v.temporary({length});
    distance = v.temporary({keySize});
    attention = v.temporary({length, length});
    keys = v.temporary({length, length});
    if (isAnchored()) {
      queryScaled = v.temporary({length, keySize});
      keyScaled = v.temporary({length, keySize});
      keyInverse = v.temporary({keySize, length});
    }
    v.loop(v.index(0), v.dim(op.getQg(), 0), v.index(1), [&](Value chunk) {
      first = v.loadIndex(op.getChunks(), {chunk, v.index(0)});
      rows = v.loadIndex(op.getChunks(), {chunk, v.index(1)});
      v.loop(v.index(0), v.dim(op.getQg(), 1), v.index(1), [&](Value head) {
        c = chunk;
        h = head;
        loadRows();
        storeDecayed();
        if (isAnchored())
          multiplyAnchored();
        else
          multiplyPairwise();
        storeAttention();
        solve(op.getW(), keySize, /*fromKeys=*/true);
        solve(op.getU(), valueSize, /*fromKeys=*/false);
      });
    });
  }

private:
  /// Whether one reference row serves the whole chunk. Pairs are right for every gate.
  bool isAnchored() { return op.getAnchor() == Anchor::zero || op.getAnchor() == Anchor::mid_row; }

  /// Unit k, scaled q, running sums of g and sigmoid(beta); rows past the chunk's end are zero with the last sum.
  void loadRows() {
    MathBuilder s = v.scalar();
    v.loop(v.index(0), rows, v.index(1), [&](Value i) {
      SmallVector<Value> row{v.addIndex(first, i), h};
      auto [queryFactor, keyFactor] =
          queryKeyFactors(op.getQ(), op.getK(), row, op.getL2norm(), op.getScale().convertToDouble());
      Value queryLanes = v.broadcast(queryFactor), keyLanes = v.broadcast(keyFactor);
      Value isFirst = v.compare(arith::CmpIPredicate::eq, i, v.index(0));
      Value previous = v.select(isFirst, i, v.subIndex(i, v.index(1)));
      v.loopVectors(keySize, [&](Value k, int64_t count) {
        v.storePartial(v.mul(v.loadPartial(op.getQ(), append(row, k), count), queryLanes), query, {i, k}, count);
        v.storePartial(v.mul(v.loadPartial(op.getK(), append(row, k), count), keyLanes), key, {i, k}, count);
        Value before = v.select(isFirst, v.zero(), v.loadPartial(sum, {previous, k}, count));
        v.storePartial(v.add(before, v.loadPartial(op.getG(), append(row, k), count)), sum, {i, k}, count);
      });
      v.storeScalar(s.sigmoid(v.loadScalar(op.getBeta(), row)), rate, {i});
    });
    last = v.subIndex(rows, v.index(1));
    v.loop(rows, v.index(length), v.index(1), [&](Value i) {
      v.loopVectors(keySize, [&](Value k, int64_t count) {
        v.storePartial(v.zero(), query, {i, k}, count);
        v.storePartial(v.zero(), key, {i, k}, count);
        v.storePartial(v.loadPartial(sum, {last, k}, count), sum, {i, k}, count);
      });
      v.storeScalar(s.constant(0.0), rate, {i});
    });
  }

  /// A running sum of rows of g in `distance`: restarts at 0 where `restart` holds, else adds row `row` of the chunk.
  /// Differences of G are never taken where they are large and close: with unbounded gates they would lose all digits.
  Value advance(Value restart, Value row, Value k, int64_t count) {
    Value gate = v.loadPartial(op.getG(), {v.addIndex(first, row), h, k}, count);
    Value total = v.select(restart, v.zero(), v.add(v.loadPartial(distance, {k}, count), gate));
    v.storePartial(total, distance, {k}, count);
    return total;
  }

  /// qg, gl, and kd from the last row upwards.
  void storeDecayed() {
    v.loopVectors(keySize, [&](Value k, int64_t count) {
      v.storePartial(v.exp(v.loadPartial(sum, {last, k}, count)), op.getGl(), {c, h, k}, count);
    });
    v.loop(v.index(0), v.index(length), v.index(1), [&](Value i) {
      v.loopVectors(keySize, [&](Value k, int64_t count) {
        Value decay = v.exp(v.loadPartial(sum, {i, k}, count));
        v.storePartial(v.mul(decay, v.loadPartial(query, {i, k}, count)), op.getQg(), {c, h, i, k}, count);
      });
    });
    v.loop(v.index(0), rows, v.index(1), [&](Value step) {
      Value i = v.subIndex(last, step), below = v.minIndex(v.addIndex(i, v.index(1)), last);
      Value isLast = v.compare(arith::CmpIPredicate::eq, step, v.index(0));
      v.loopVectors(keySize, [&](Value k, int64_t count) {
        Value decay = v.exp(advance(isLast, below, k, count));
        v.storePartial(v.mul(decay, v.loadPartial(key, {i, k}, count)), op.getKd(), {c, h, i, k}, count);
      });
    });
    v.loop(rows, v.index(length), v.index(1), [&](Value i) {
      v.loopVectors(keySize,
                    [&](Value k, int64_t count) { v.storePartial(v.zero(), op.getKd(), {c, h, i, k}, count); });
    });
  }

  /// keys[i, j] = sum k_i k_j exp(G_i - G_j) and attention[i, j] likewise with q_i, for j <= i; zero elsewhere.
  void multiplyPairwise() {
    v.loop(v.index(0), v.index(length), v.index(1), [&](Value i) {
      v.loopVectors(length, [&](Value j, int64_t count) {
        v.storePartial(v.zero(), keys, {i, j}, count);
        v.storePartial(v.zero(), attention, {i, j}, count);
      });
    });
    v.loop(v.index(0), rows, v.index(1), [&](Value j) {
      v.loop(j, rows, v.index(1), [&](Value i) {
        Value isFirst = v.compare(arith::CmpIPredicate::eq, i, j);
        SmallVector<Value> sums =
            v.loopVectors(keySize, {v.zero(), v.zero()}, [&](Value k, int64_t count, ValueRange args) {
              Value scaled = v.mul(v.exp(advance(isFirst, i, k, count)), v.loadPartial(key, {j, k}, count));
              return SmallVector<Value>{v.fma(v.loadPartial(key, {i, k}, count), scaled, args[0]),
                                        v.fma(v.loadPartial(query, {i, k}, count), scaled, args[1])};
            });
        v.storeScalar(v.reduceAdd(sums[0]), keys, {i, j});
        v.storeScalar(v.reduceAdd(sums[1]), attention, {i, j});
      });
    });
  }

  /// The same for every j, with exp(G_i - G_j) = exp(G_i - R) exp(R - G_j); entries above the diagonal are not used.
  void multiplyAnchored() {
    Value anchor = v.minIndex(v.index(length / 2), last);
    v.loop(v.index(0), v.index(length), v.index(1), [&](Value i) {
      v.loopVectors(keySize, [&](Value k, int64_t count) {
        Value here = v.loadPartial(sum, {i, k}, count);
        if (op.getAnchor() == Anchor::mid_row)
          here = v.sub(here, v.loadPartial(sum, {anchor, k}, count));
        Value up = v.exp(here), unit = v.loadPartial(key, {i, k}, count);
        v.storePartial(v.mul(up, v.loadPartial(query, {i, k}, count)), queryScaled, {i, k}, count);
        v.storePartial(v.mul(up, unit), keyScaled, {i, k}, count);
        v.storeColumn(v.mul(v.exp(v.neg(here)), unit), keyInverse, k, i, count);
      });
    });
    v.loopBlocks(v.index(length), {4, 1}, [&](Value i, int64_t block) {
      SmallVector<Value> rowIndex;
      for (int64_t r = 0; r < block; ++r)
        rowIndex.push_back(v.addIndex(i, v.index(r)));
      v.loopVectors(length, [&](Value j, int64_t count) {
        SmallVector<Value> sums = v.loop(
            v.index(0), v.index(keySize), v.index(1), SmallVector<Value>(2 * block, v.zero()),
            [&](Value k, ValueRange args) {
              SmallVector<Value> next(args);
              Value column = v.loadPartial(keyInverse, {k, j}, count);
              for (int64_t r = 0; r < block; ++r) {
                next[2 * r] = v.fma(v.broadcast(v.loadScalar(keyScaled, {rowIndex[r], k})), column, next[2 * r]);
                next[2 * r + 1] =
                    v.fma(v.broadcast(v.loadScalar(queryScaled, {rowIndex[r], k})), column, next[2 * r + 1]);
              }
              return next;
            });
        for (int64_t r = 0; r < block; ++r) {
          v.storePartial(sums[2 * r], keys, {rowIndex[r], j}, count);
          v.storePartial(sums[2 * r + 1], attention, {rowIndex[r], j}, count);
        }
      });
    });
  }

  void storeAttention() {
    v.loop(v.index(0), v.index(length), v.index(1), [&](Value i) {
      v.loopVectors(length, [&](Value j, int64_t count) {
        Value upTo = v.subIndex(v.addIndex(i, v.index(1)), j); // may be negative: then no lane
        Value below = v.mask(upTo);
        Value row = v.loadPartial(attention, {i, j}, count);
        v.storePartial(v.select(below, row, v.zero()), op.getAqk(), {c, h, i, j}, count);
      });
    });
  }

  /// Rows X of (I + strict_lower(diag(b) keys)) X = diag(b) Y by forward substitution, Y = exp(G) k or v.
  void solve(Value x, int64_t columns, bool fromKeys) {
    int64_t width = v.lanes() * (v.getTarget().vectorRegisters >= 32 ? 4 : 2);
    v.loopColumns(columns, width, [&](ArrayRef<Value> at, int64_t count) {
      v.loop(v.index(0), v.index(length), v.index(1), [&](Value i) {
        Value b = v.broadcast(v.loadScalar(rate, {i}));
        SmallVector<Value> right;
        if (fromKeys) {
          for (Value k : at)
            right.push_back(v.mul(v.exp(v.loadPartial(sum, {i, k}, count)), v.loadPartial(key, {i, k}, count)));
        } else {
          // Rows past the end do not exist in v: read the last one, its rate is 0.
          Value row = v.addIndex(first, v.minIndex(i, last));
          Value exists = v.compare(arith::CmpIPredicate::slt, i, rows);
          for (Value k : at)
            right.push_back(v.select(exists, v.loadPartial(op.getV(), {row, h, k}, count), v.zero()));
        }
        SmallVector<Value> sums = v.loop(
            v.index(0), i, v.index(1), SmallVector<Value>(at.size(), v.zero()), [&](Value j, ValueRange args) {
              SmallVector<Value> next(args);
              Value factor = v.broadcast(v.loadScalar(keys, {i, j}));
              for (auto [n, k] : llvm::enumerate(at))
                next[n] = v.fma(factor, v.loadPartial(x, {c, h, j, k}, count), next[n]);
              return next;
            });
        for (auto [n, k] : llvm::enumerate(at))
          v.storePartial(v.mul(b, v.sub(right[n], sums[n])), x, {c, h, i, k}, count);
      });
    });
  }

  KdaChunkPrepareOp op;
  int64_t length;
  Value query, key, sum, rate;                  // [L, K] x 3, [L]
  Value distance, attention, keys;              // [K], [L, L] x 2
  Value queryScaled, keyScaled, keyInverse;     // [L, K] x 2, [K, L]: anchored products
  Value c, h, first, rows, last;                // of the current chunk and head
};

//===----------------------------------------------------------------------===//
// k3.kda.chunk_scan
//===----------------------------------------------------------------------===//

class ScanEmitter : KdaEmitter {
public:
  ScanEmitter(OpBuilder &b, const TargetModel &target, KdaChunkScanOp op)
      : KdaEmitter(b, target, op), op(op), length(getStaticNamedDim(op, "L")),
        width(v.lanes() * (target.vectorRegisters >= 32 ? 4 : 2)) {}

  void emit() {
    state = v.temporary({keySize, width});
    news = v.temporary({length, width});
    v.loop(v.index(0), v.dim(op.getSlots(), 0), v.index(1), [&](Value n) {
      Value slot = v.loadIndex(op.getSlots(), {n});
      Value low = v.loadIndex(op.getChunkCu(), {n}), high = v.loadIndex(op.getChunkCu(), {v.addIndex(n, v.index(1))});
      Value some = v.compare(arith::CmpIPredicate::slt, low, high);
      v.ifThen(some, [&] {
        v.loop(v.index(0), v.dim(op.getOut(), 1), v.index(1), [&](Value head) {
          h = head;
          v.loopColumns(valueSize, width, [&](ArrayRef<Value> at, int64_t count) {
            columns = SmallVector<Value>(at);
            lanes = count;
            moveState(slot, /*load=*/true);
            v.loop(low, high, v.index(1), [&](Value chunk) { emitChunk(chunk); });
            moveState(slot, /*load=*/false);
          });
        });
      });
    });
  }

private:
  /// Between the pool's [value, key] and the block's [key, column], a square of vectors at a time.
  void moveState(Value slot, bool load) {
    for (auto [n, column] : llvm::enumerate(columns))
      v.loopVectors(keySize, [&, column = column, n = n](Value k, int64_t keys) {
        auto inPool = [&](int64_t j) { return SmallVector<Value>{slot, h, v.addIndex(column, v.index(j)), k}; };
        auto inBlock = [&](int64_t i) { return SmallVector<Value>{v.addIndex(k, v.index(i)), local(n)}; };
        SmallVector<Value> square;
        for (int64_t row = 0; row < v.lanes(); ++row)
          if (load)
            square.push_back(row < lanes ? v.loadPartial(op.getState(), inPool(row), keys) : v.zero());
          else
            square.push_back(row < keys ? v.loadPartial(state, inBlock(row), lanes) : v.zero());
        square = v.transpose(square);
        for (int64_t row = 0; row < (load ? keys : lanes); ++row)
          if (load)
            v.storePartial(square[row], state, inBlock(row), lanes);
          else
            v.storePartial(square[row], op.getState(), inPool(row), keys);
      });
  }

  Value local(int64_t n) { return v.index(n * v.lanes()); }

  /// sums[r * columns + n] += sum_k factor(r, k) * rows[k, columns n], k below `depth`.
  SmallVector<Value> multiply(int64_t block, int64_t depth, Value rows, SmallVector<Value> sums,
                              function_ref<Value(int64_t, Value)> factor) {
    int64_t n = columns.size();
    return v.loop(v.index(0), v.index(depth), v.index(1), sums, [&](Value k, ValueRange args) {
      SmallVector<Value> next(args), row;
      for (int64_t j = 0; j < n; ++j)
        row.push_back(v.loadPartial(rows, {k, local(j)}, lanes));
      for (int64_t r = 0; r < block; ++r) {
        Value f = v.broadcast(factor(r, k));
        for (int64_t j = 0; j < n; ++j)
          next[r * n + j] = v.fma(f, row[j], next[r * n + j]);
      }
      return next;
    });
  }

  void emitChunk(Value c) {
    int64_t n = columns.size();
    Value first = v.loadIndex(op.getChunks(), {c, v.index(0)}), rows = v.loadIndex(op.getChunks(), {c, v.index(1)});
    auto rowIndices = [&](Value i, int64_t block) {
      SmallVector<Value> indices;
      for (int64_t r = 0; r < block; ++r)
        indices.push_back(v.addIndex(i, v.index(r)));
      return indices;
    };
    // Vn = u - w S
    v.loopBlocks(v.index(length), {4, 1}, [&](Value i, int64_t block) {
      SmallVector<Value> at = rowIndices(i, block);
      SmallVector<Value> sums = multiply(block, keySize, state, SmallVector<Value>(block * n, v.zero()),
                                         [&](int64_t r, Value k) { return v.loadScalar(op.getW(), {c, h, at[r], k}); });
      for (int64_t r = 0; r < block; ++r)
        for (int64_t j = 0; j < n; ++j)
          v.storePartial(v.sub(v.loadPartial(op.getU(), {c, h, at[r], columns[j]}, lanes), sums[r * n + j]), news,
                         {at[r], local(j)}, lanes);
    });
    // out = qg S + aqk Vn, for the rows there are
    v.loopBlocks(rows, {4, 1}, [&](Value i, int64_t block) {
      SmallVector<Value> at = rowIndices(i, block);
      SmallVector<Value> sums = multiply(block, keySize, state, SmallVector<Value>(block * n, v.zero()),
                                         [&](int64_t r, Value k) { return v.loadScalar(op.getQg(), {c, h, at[r], k}); });
      sums = multiply(block, length, news, sums,
                      [&](int64_t r, Value k) { return v.loadScalar(op.getAqk(), {c, h, at[r], k}); });
      for (int64_t r = 0; r < block; ++r)
        for (int64_t j = 0; j < n; ++j)
          v.storePartial(sums[r * n + j], op.getOut(), {v.addIndex(first, at[r]), h, columns[j]}, lanes);
    });
    // S <- diag(gl) S + kd^T Vn
    v.loopBlocks(v.index(keySize), {4, 1}, [&](Value k, int64_t block) {
      SmallVector<Value> at = rowIndices(k, block), sums;
      for (int64_t r = 0; r < block; ++r) {
        Value a = v.broadcast(v.loadScalar(op.getGl(), {c, h, at[r]}));
        for (int64_t j = 0; j < n; ++j)
          sums.push_back(v.mul(a, v.loadPartial(state, {at[r], local(j)}, lanes)));
      }
      sums = multiply(block, length, news, sums,
                      [&](int64_t r, Value i) { return v.loadScalar(op.getKd(), {c, h, i, at[r]}); });
      for (int64_t r = 0; r < block; ++r)
        for (int64_t j = 0; j < n; ++j)
          v.storePartial(sums[r * n + j], state, {at[r], local(j)}, lanes);
    });
  }

  KdaChunkScanOp op;
  int64_t length, width;
  Value state, news;              // [K, width], [L, width]
  Value h;                        // current head
  SmallVector<Value> columns;     // first value column of each vector of the block
  int64_t lanes = 0;              // columns in each of them
};

} // namespace

void k3::populateKdaEmitters(RewritePatternSet &patterns, const TargetModel &target) {
  patterns.add<EmitterClassPattern<KdaRecurrentStepOp, StepEmitter<KdaRecurrentStepOp>>,
               EmitterClassPattern<KdaScanOp, StepEmitter<KdaScanOp>>,
               EmitterClassPattern<KdaChunkPrepareOp, PrepareEmitter>, EmitterClassPattern<KdaChunkScanOp, ScanEmitter>>(
      patterns.getContext(), target);
}
