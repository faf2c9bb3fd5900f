//===- LatentAttention.h - query rows against a range of the latent cache -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The part that the kernels of k3.mla.attend and k3.mla.attend_partial share. A block holds some query rows, pairs of a
// token and a head, and goes once over the cache rows that they see, in tiles of 32, with a running maximum and sum
// (online softmax). In the absorbed form all heads share the cache, so a tile in shared memory serves all query rows,
// first as keys and then, its leading columns, as values; both products run on tensor cores.
//
// Two groups of four warps take the tiles in turn and keep a maximum, a sum and a weighted sum each, which are joined
// at the end: while one group multiplies, the other one is in its softmax. In a group
//  - lanes of the first warp fetch the rows of the next tile (bulk copies, which an mbarrier counts);
//  - scores: every warp multiplies a quarter of the columns, the four partial sums meet in shared memory;
//  - softmax: a few neighbouring threads have a query row;
//  - weighted sum: every warp has a quarter of the latent columns, in registers.
//
// f32 inputs (queries, and the weights of the softmax) are split into bf16 terms (Tile/Split.h), or rounded where the
// op says so.
//
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_LATENTATTENTION_H
#define K3_CODEGEN_GPU_LATENTATTENTION_H

#include "lib/Codegen/GPU/Tile/GpuBuilder.h"
#include <optional>

namespace mlir::k3 {

/// How query rows fall to blocks, and where things are in shared memory.
struct AttentionPlan {
  static constexpr int64_t tileRows = 32, groups = 2, groupWarps = 4, groupThreads = 128, stages = 2;
  /// Times that a group meets in a tile.
  static constexpr int64_t meetings = 3;
  static constexpr int64_t threads = groups * groupThreads;
  /// Query rows of a block, exact and rounded: as registers and shared memory allow for the widest models.
  static constexpr int64_t exactRows = 16, roundedRows = 32;

  /// Query rows of a block, for `tokens` tokens times `heads` heads (rows past that are idle).
  int64_t rows = 0, heads = 0, tokens = 0;
  /// bf16 terms of every f32 input.
  int64_t terms = 0;
  /// Columns of a cache row; the same up to whole steps of all four warps; leading columns that are values.
  int64_t width = 0, padded = 0, latent = 0;
  int64_t page = 0;

  /// Byte offsets, and distances of rows (odd multiples of 16 bytes: matrices are read without bank conflicts).
  int64_t queryOffset = 0, tileOffset = 0, scoreOffset = 0, weightOffset = 0, correctionOffset = 0, stateOffset = 0,
          barrierOffset = 0, meetingOffset = 0, sharedBytes = 0;
  int64_t rowPitch() const { return padded * 2 + 16; }
  static constexpr int64_t scorePitch = tileRows + 4; ///< floats
  static constexpr int64_t weightPitch = tileRows * 2 + 16;
  int64_t tileBytes() const { return tileRows * rowPitch(); }

  /// Nothing where these kernels do not apply: caches other than bf16, widths that tensor cores do not take.
  static std::optional<AttentionPlan> make(int64_t heads, int64_t width, int64_t latent, int64_t page, Type cacheType,
                                           bool rounded, bool oneToken, const GpuTarget &target);
};

/// The query rows of a block. Row r is head `head + r % plan.heads` of token `token + r / plan.heads`; it sees the
/// first `seen + r / plan.heads` rows of its sequence. Rows of tokens outside [tokenLow, tokenHigh) and of heads that
/// do not exist are idle. All i32.
struct QueryRows {
  Value token, head, seen, tokenLow, tokenHigh;
};

class LatentAttention {
public:
  /// Operands as in k3.mla.attend: q [T, H, lr], cache [P, page, lr], pageTable [N, M].
  LatentAttention(const GpuBuilder &g, const AttentionPlan &plan, Value q, Value cache, Value pageTable, double scale);

  /// Before the first call of `attend`. Collective.
  void start();

  /// What a thread has of a query row in the end: weighted sums of the columns `column + 8 i` and the ones after them,
  /// in pairs; the sum of the weights; and what these are relative to, the highest score in units of log 2.
  struct Result {
    Value row, token, head, column;
    SmallVector<Value> sums;
    Value total, maximum;
  };

  /// Rows `rows` against tiles [firstTile, endTile) of sequence n, of which `limit` cache rows exist. `fetched`: tiles
  /// that this thread's group has fetched since `start`, in all calls; returns the new number. `store` writes what
  /// becomes of a row that is in use. Collective.
  Value attend(const QueryRows &rows, Value n, Value firstTile, Value endTile, Value limit, Value fetched,
               function_ref<void(const Result &)> store);

private:
  /// What a thread carries from tile to tile: of its query row in the softmax, and its part of the weighted sums.
  struct State {
    Value maximum, total;
    SmallVector<Value> sums;
  };
  void clearTiles();
  void loadQueries(const QueryRows &rows);
  /// By the first warp of a group: the tile's rows into the stage of fetch number `number`.
  void fetch(Value n, Value tile, Value limit, Value number);
  void computeScores(Value stage);
  /// Scores in shared memory to weights there; the new maximum and total, and what they change is left for addValues.
  void computeWeights(Value tile, Value rowLimit, State &state);
  void addValues(Value stage, State &state);
  void join(const QueryRows &rows, const State &state, function_ref<void(const Result &)> store);

  /// All threads of the group are at meeting `meeting` of tile number `number` of all that it has fetched. By barriers in
  /// shared memory: where groups meet by bar.sync, racecheck does not see the order that the whole block's makes either.
  void meet(int64_t meeting, Value number) const;
  /// ptr<3> at byte `offset + more`.
  Value at(int64_t offset, Value more) const { return g.shared(g.add(more, offset)); }
  /// The tile that fetch number `number` of this group goes to, and the barrier that says that it is there.
  Value tileAt(Value number) const;
  Value barrierAt(Value number) const;
  Value tokenOf(const QueryRows &rows, Value row) const;
  Value headOf(const QueryRows &rows, Value row) const;
  Value isInUse(const QueryRows &rows, Value row) const;
  int64_t steps() const { return plan.rows / 16; }       ///< of 16 query rows
  int64_t rowThreads() const { return 128 / plan.rows; } ///< that share a query row in the softmax
  int64_t pairs() const { return plan.latent / 64; }     ///< of 8 latent columns that a warp has

  const GpuBuilder &g;
  const AttentionPlan &plan;
  Value q, cache, pageTable;
  double scale;
  Value lane, group, warp, thread; ///< warp and thread of the group
};

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_LATENTATTENTION_H
