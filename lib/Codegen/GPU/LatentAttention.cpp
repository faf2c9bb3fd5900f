//===- LatentAttention.cpp - query rows against a range of the latent cache -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/LatentAttention.h"
#include "lib/Codegen/GPU/Tile/Atoms.h"
#include "lib/Codegen/GPU/Tile/Split.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

/// Below every score, and far enough that 2 to a difference to any score is 0.
static constexpr double lowest = -1e30;
static constexpr double log2e = 1.44269504088896341;

std::optional<AttentionPlan> AttentionPlan::make(int64_t heads, int64_t width, int64_t latent, int64_t page,
                                                 Type cacheType, bool rounded, bool oneToken, const GpuTarget &target) {
  for (int64_t size : {heads, width, latent, page})
    if (ShapedType::isDynamic(size) || size == 0)
      return std::nullopt;
  if (!cacheType.isBF16() || !target.tma || width % 16 != 0 || latent % 64 != 0 || latent > 512)
    return std::nullopt;
  AttentionPlan plan;
  plan.terms = rounded ? 1 : target.xTerms;
  plan.rows = rounded ? roundedRows : exactRows;
  plan.heads = std::min(heads, plan.rows);
  plan.tokens = oneToken ? 1 : plan.rows / plan.heads;
  plan.width = width;
  plan.padded = llvm::alignTo(width, 16 * groupWarps);
  plan.latent = latent;
  plan.page = page;
  plan.tileOffset = plan.queryOffset + plan.terms * plan.rows * plan.rowPitch();
  plan.scoreOffset = plan.tileOffset + groups * stages * plan.tileBytes();
  plan.weightOffset = plan.scoreOffset + groups * groupWarps * plan.rows * scorePitch * 4;
  plan.correctionOffset = plan.weightOffset + groups * plan.terms * plan.rows * weightPitch;
  plan.stateOffset = plan.correctionOffset + groups * plan.rows * 4;
  plan.barrierOffset = plan.stateOffset + groups * plan.rows * 8;
  plan.meetingOffset = plan.barrierOffset + groups * stages * 8;
  plan.sharedBytes = plan.meetingOffset + groups * meetings * 8;
  if (plan.sharedBytes > target.sharedBytesPerBlock)
    return std::nullopt;
  return plan;
}

LatentAttention::LatentAttention(const GpuBuilder &g, const AttentionPlan &plan, Value q, Value cache, Value pageTable,
                                 double scale)
    : g(g), plan(plan), q(q), cache(cache), pageTable(pageTable), scale(scale), lane(g.laneId()),
      group(g.div(g.warpId(), AttentionPlan::groupWarps)), warp(g.rem(g.warpId(), AttentionPlan::groupWarps)),
      thread(g.rem(g.threadId(), AttentionPlan::groupThreads)) {}

//===----------------------------------------------------------------------===//
// Where things are
//===----------------------------------------------------------------------===//

Value LatentAttention::tileAt(Value number) const {
  Value stage = g.add(g.mul(group, AttentionPlan::stages), g.rem(number, AttentionPlan::stages));
  return g.add(g.mul(stage, plan.tileBytes()), plan.tileOffset);
}
Value LatentAttention::barrierAt(Value number) const {
  Value stage = g.add(g.mul(group, AttentionPlan::stages), g.rem(number, AttentionPlan::stages));
  return at(plan.barrierOffset, g.mul(stage, 8));
}
Value LatentAttention::tokenOf(const QueryRows &rows, Value row) const {
  return plan.tokens == 1 ? rows.token : g.add(rows.token, g.div(row, plan.heads));
}
Value LatentAttention::headOf(const QueryRows &rows, Value row) const {
  return g.add(rows.head, g.rem(row, plan.heads));
}
Value LatentAttention::isInUse(const QueryRows &rows, Value row) const {
  Value token = tokenOf(rows, row);
  Value inside = g.logicalAnd(g.ge(token, rows.tokenLow), g.lt(token, rows.tokenHigh));
  inside = g.logicalAnd(inside, g.lt(headOf(rows, row), g.toI32(g.dim(q, 1))));
  return plan.rows == plan.tokens * plan.heads ? inside : g.logicalAnd(inside, g.lt(row, plan.tokens * plan.heads));
}

//===----------------------------------------------------------------------===//
// Before the tiles
//===----------------------------------------------------------------------===//

static Value makeZeros(const GpuBuilder &g) { return LLVM::ZeroOp::create(g.b, g.loc, g.vectorOf(4, g.i32())); }

void LatentAttention::clearTiles() {
  if (plan.padded == plan.width)
    return;
  // The columns past a row's end meet zeros of the queries, which only numbers bear.
  g.forThreads(AttentionPlan::groups * AttentionPlan::stages * plan.tileBytes() / 16,
               [&](Value i) { g.storeRaw(makeZeros(g), at(plan.tileOffset, g.mul(i, 16))); });
  fenceAsync(g);
}

void LatentAttention::start() {
  clearTiles();
  g.ifFirstThread([&] {
    for (int64_t i = 0; i < AttentionPlan::groups * AttentionPlan::stages; ++i)
      initBarrier(g, g.shared(plan.barrierOffset + 8 * i), 1);
    for (int64_t i = 0; i < AttentionPlan::groups * AttentionPlan::meetings; ++i)
      initBarrier(g, g.shared(plan.meetingOffset + 8 * i), AttentionPlan::groupThreads);
    fenceBarriers(g);
  });
  g.barrier();
}

void LatentAttention::meet(int64_t meeting, Value number) const {
  Value bar = at(plan.meetingOffset + 8 * meeting, g.mul(group, 8 * AttentionPlan::meetings));
  arrive(g, bar);
  waitBarrier(g, bar, g.rem(number, 2));
}

void LatentAttention::loadQueries(const QueryRows &rows) {
  constexpr int64_t run = 8;
  int64_t runs = plan.padded / run;
  g.forThreads(plan.rows * runs, [&](Value i) {
    Value row = g.div(i, runs), column = g.mul(g.rem(i, runs), run);
    Value inside = isInUse(rows, row);
    if (plan.padded != plan.width)
      inside = g.logicalAnd(inside, g.lt(column, plan.width));
    SmallVector<Value> values = g.ifThenElse(
        inside,
        [&] {
          SmallVector<Value> loaded;
          for (int64_t first = 0; first < run; first += 4)
            loaded.append(g.loadFloats(g.element(q, {tokenOf(rows, row), headOf(rows, row), g.add(column, first)}),
                                       g.f32(), 4, true));
          return loaded;
        },
        [&] { return SmallVector<Value>(run, g.f32(0)); });
    SmallVector<SmallVector<Value>> words(plan.terms);
    for (int64_t j = 0; j < run; j += 2)
      for (auto [term, pair] : llvm::enumerate(splitPair(g, values[j], values[j + 1], plan.terms)))
        words[term].push_back(pair);
    Value place = g.add(g.mul(row, plan.rowPitch()), g.mul(column, 2));
    for (int64_t term = 0; term < plan.terms; ++term)
      g.storeRaw(vector::FromElementsOp::create(g.b, g.loc, g.vectorOf(4, g.i32()), words[term]),
                 at(plan.queryOffset + term * plan.rows * plan.rowPitch(), place));
  });
}

void LatentAttention::fetch(Value n, Value tile, Value limit, Value number) {
  Value first = g.mul(tile, AttentionPlan::tileRows), bar = barrierAt(number), place = tileAt(number);
  Value count = g.min(g.sub(limit, first), AttentionPlan::tileRows);
  int64_t rowBytes = plan.width * 2;
  // Rows past the sequence's end have weight 0, which only numbers bear.
  g.ifThen(g.lt(count, AttentionPlan::tileRows), [&] {
    Value end = g.i32(plan.tileBytes()), from = g.add(g.mul(count, plan.rowPitch()), g.mul(lane, 16));
    g.loop(from, end, g.i32(32 * 16), [&](Value offset) { g.storeRaw(makeZeros(g), g.shared(g.add(place, offset))); });
    fenceAsync(g);
  });
  g.warpBarrier();
  g.ifThen(g.eq(lane, 0), [&] { arriveExpecting(g, bar, g.mul(count, rowBytes)); });
  g.warpBarrier();
  g.ifThen(g.lt(lane, count), [&] {
    Value position = g.add(first, lane);
    Value id = g.load(pageTable, {n, g.div(position, plan.page)}, /*readOnly=*/true);
    Value from = g.element(cache, {id, g.rem(position, plan.page), g.i32(0)});
    loadBulk(g, g.shared(g.add(place, g.mul(lane, plan.rowPitch()))), from, g.i32(rowBytes), bar);
  });
}

//===----------------------------------------------------------------------===//
// One tile
//===----------------------------------------------------------------------===//

void LatentAttention::computeScores(Value stage) {
  // Columns of this warp.
  Value first = g.mul(warp, plan.padded / AttentionPlan::groupWarps);
  Value queryRow = g.rem(lane, 16), queryColumn = g.mul(g.div(lane, 16), 8);
  Value query = g.add(g.mul(queryRow, plan.rowPitch()), g.mul(g.add(first, queryColumn), 2));
  Value keyRow = g.add(g.rem(lane, 8), g.mul(g.div(lane, 16), 8)), keyColumn = g.mul(g.rem(g.div(lane, 8), 2), 8);
  Value key = g.add(stage, g.add(g.mul(keyRow, plan.rowPitch()), g.mul(g.add(first, keyColumn), 2)));
  constexpr int64_t blocks = AttentionPlan::tileRows / 8;
  SmallVector<SmallVector<Value>> sums(steps() * blocks, SmallVector<Value>(4, g.f32(0)));
  for (int64_t k = 0; k < plan.padded / AttentionPlan::groupWarps; k += 16) {
    SmallVector<SmallVector<Value>> keys;
    for (int64_t r = 0; r < AttentionPlan::tileRows; r += 16) {
      SmallVector<Value> two = loadMatrices(g, g.shared(g.add(key, r * plan.rowPitch() + k * 2)), 4);
      keys.push_back({two[0], two[1]});
      keys.push_back({two[2], two[3]});
    }
    for (int64_t term = plan.terms; term-- > 0;)
      for (int64_t m = 0; m < steps(); ++m) {
        SmallVector<Value> a =
            loadMatrices(g, at(plan.queryOffset + (term * plan.rows + 16 * m) * plan.rowPitch() + k * 2, query), 4);
        for (int64_t j = 0; j < blocks; ++j)
          sums[m * blocks + j] = multiplyStep(g, a, keys[j], sums[m * blocks + j]);
      }
  }
  Value row = g.add(g.mul(g.add(g.mul(group, AttentionPlan::groupWarps), warp), plan.rows), g.div(lane, 4));
  Value place = g.mul(g.add(g.mul(row, AttentionPlan::scorePitch), g.mul(g.rem(lane, 4), 2)), 4);
  for (int64_t m = 0; m < steps(); ++m)
    for (int64_t j = 0; j < blocks; ++j)
      for (int64_t half = 0; half < 2; ++half)
        g.storeFloats(ArrayRef<Value>(sums[m * blocks + j]).slice(2 * half, 2),
                      at(plan.scoreOffset + ((16 * m + 8 * half) * AttentionPlan::scorePitch + 8 * j) * 4, place),
                      g.f32());
}

void LatentAttention::computeWeights(Value tile, Value rowLimit, State &state) {
  int64_t count = AttentionPlan::tileRows / rowThreads(); // columns of this thread, one after the other
  Value row = g.div(thread, rowThreads()), column = g.mul(g.rem(thread, rowThreads()), count);
  Value groupRow = g.add(g.mul(group, AttentionPlan::groupWarps * plan.rows), row);
  Value place = g.mul(g.add(g.mul(groupRow, AttentionPlan::scorePitch), column), 4);
  SmallVector<Value> scores(count);
  for (int64_t part = 0; part < AttentionPlan::groupWarps; ++part)
    for (int64_t j = 0; j < count; j += 4) {
      int64_t offset = plan.scoreOffset + (part * plan.rows * AttentionPlan::scorePitch + j) * 4;
      for (auto [i, value] : llvm::enumerate(g.loadFloats(at(offset, place), g.f32(), 4)))
        scores[j + i] = part == 0 ? value : g.add(scores[j + i], value);
    }
  Value position = g.add(g.mul(tile, AttentionPlan::tileRows), column), highest = g.f32(lowest);
  SmallVector<Value> seen;
  for (int64_t j = 0; j < count; ++j) {
    seen.push_back(g.lt(g.add(position, j), rowLimit));
    scores[j] = g.select(seen[j], g.mul(scores[j], g.f32(scale * log2e)), g.f32(lowest));
    highest = g.max(highest, scores[j]);
  }
  highest = g.max(state.maximum, g.warpReduce(highest, Reduction::Max, rowThreads()));
  Value correction = g.exp2(g.sub(state.maximum, highest));
  Value total = g.mul(state.total, correction);
  for (int64_t j = 0; j < count; ++j) {
    scores[j] = g.select(seen[j], g.exp2(g.sub(scores[j], highest)), g.f32(0));
    total = g.add(total, scores[j]);
  }
  state.maximum = highest;
  state.total = total;

  SmallVector<SmallVector<Value>> words(plan.terms);
  for (int64_t j = 0; j < count; j += 2)
    for (auto [term, pair] : llvm::enumerate(splitPair(g, scores[j], scores[j + 1], plan.terms)))
      words[term].push_back(pair);
  Value weightRow = g.add(g.mul(group, plan.terms * plan.rows), row);
  Value weight = g.add(g.mul(weightRow, AttentionPlan::weightPitch), g.mul(column, 2));
  for (int64_t term = 0; term < plan.terms; ++term)
    g.storeRaw(vector::FromElementsOp::create(g.b, g.loc, g.vectorOf(count / 2, g.i32()), words[term]),
               at(plan.weightOffset + term * plan.rows * AttentionPlan::weightPitch, weight));
  g.ifThen(g.eq(g.rem(thread, rowThreads()), 0),
           [&] { g.storeRaw(correction, at(plan.correctionOffset, g.mul(g.add(g.mul(group, plan.rows), row), 4))); });
}

void LatentAttention::addValues(Value stage, State &state) {
  // sums[(m * 2 pairs + block) * 4 ...]: rows of step m, columns of the block. Tensor cores cut what does not fit into
  // a sum: where weights are exact they add up one tile only, and the tiles are added by instructions that round.
  int64_t blocks = 2 * pairs();
  bool isExact = plan.terms > 1;
  Value correction = at(plan.correctionOffset, g.mul(g.add(g.mul(group, plan.rows), g.div(lane, 4)), 4));
  SmallVector<Value> factors; // [m, half]
  for (int64_t m = 0; m < steps(); ++m)
    for (int64_t half = 0; half < 2; ++half)
      factors.push_back(g.loadRaw(g.advance(correction, 16 * m + 8 * half, g.f32()), g.f32()));
  Value weightRow = g.add(g.mul(group, plan.terms * plan.rows), g.rem(lane, 16));
  Value weight = g.add(g.mul(weightRow, AttentionPlan::weightPitch), g.mul(g.div(lane, 16), 16));
  Value valueRow = g.rem(lane, 16), valueColumn = g.add(g.mul(warp, plan.latent / 4), g.mul(g.div(lane, 16), 8));
  Value value = g.add(stage, g.add(g.mul(valueRow, plan.rowPitch()), g.mul(valueColumn, 2)));
  SmallVector<SmallVector<Value>> weights; // [k, term, m]
  for (int64_t k = 0; k < AttentionPlan::tileRows; k += 16)
    for (int64_t term = 0; term < plan.terms; ++term)
      for (int64_t m = 0; m < steps(); ++m)
        weights.push_back(loadMatrices(
            g, at(plan.weightOffset + (term * plan.rows + 16 * m) * AttentionPlan::weightPitch + k * 2, weight), 4));
  for (int64_t pair = 0; pair < pairs(); ++pair) {
    SmallVector<SmallVector<Value>> tile(steps() * 2, SmallVector<Value>(4)); // [m, block of the pair]
    auto forEachSum = [&](function_ref<void(Value & sum, Value factor, Value & inTile)> body) {
      for (int64_t m = 0; m < steps(); ++m)
        for (int64_t i = 0; i < 2; ++i)
          for (int64_t j = 0; j < 4; ++j)
            body(state.sums[(m * blocks + 2 * pair + i) * 4 + j], factors[2 * m + j / 2], tile[2 * m + i][j]);
    };
    forEachSum([&](Value &sum, Value factor, Value &inTile) { inTile = isExact ? g.f32(0) : g.mul(sum, factor); });
    for (int64_t k = 0; k < AttentionPlan::tileRows / 16; ++k) {
      SmallVector<Value> two =
          loadMatrices(g, g.shared(g.add(value, 16 * k * plan.rowPitch() + pair * 32)), 4, /*transposed=*/true);
      for (int64_t term = plan.terms; term-- > 0;)
        for (int64_t m = 0; m < steps(); ++m)
          for (int64_t i = 0; i < 2; ++i)
            tile[2 * m + i] = multiplyStep(g, weights[(k * plan.terms + term) * steps() + m],
                                           ArrayRef<Value>(two).slice(2 * i, 2), tile[2 * m + i]);
    }
    forEachSum([&](Value &sum, Value factor, Value &inTile) { sum = isExact ? g.fma(sum, factor, inTile) : inTile; });
  }
}

//===----------------------------------------------------------------------===//
// All tiles
//===----------------------------------------------------------------------===//

Value LatentAttention::attend(const QueryRows &rows, Value n, Value firstTile, Value endTile, Value limit,
                              Value fetched, function_ref<void(const Result &)> store) {
  g.barrier(); // of what `join` reads, before it is overwritten
  loadQueries(rows);
  Value softmaxRow = g.div(thread, rowThreads());
  Value rowLimit = g.select(isInUse(rows, softmaxRow), g.add(rows.seen, g.div(softmaxRow, plan.heads)), g.i32(0));
  if (plan.tokens == 1)
    rowLimit = g.select(isInUse(rows, softmaxRow), rows.seen, g.i32(0));
  // Tiles firstTile + group, + groups, ... are this group's.
  Value mine =
      g.div(g.max(g.add(g.sub(g.sub(endTile, firstTile), group), AttentionPlan::groups - 1), 0), AttentionPlan::groups);
  auto tileOf = [&](Value i) { return g.add(g.add(firstTile, group), g.mul(i, AttentionPlan::groups)); };
  auto isFetcher = g.eq(warp, 0);
  g.ifThen(g.logicalAnd(isFetcher, g.gt(mine, 0)), [&] { fetch(n, tileOf(g.i32(0)), limit, fetched); });
  g.barrier();

  SmallVector<Value> inits{g.f32(lowest), g.f32(0)};
  inits.append(steps() * 2 * pairs() * 4, g.f32(0));
  SmallVector<Value> carried = g.loop(g.i32(0), mine, g.i32(1), inits, [&](Value i, ValueRange values) {
    State state{values[0], values[1], SmallVector<Value>(values.drop_front(2))};
    Value number = g.add(fetched, i), next = g.add(i, 1);
    meet(0, number); // the other stage, the scores and the weights have been read
    g.ifThen(g.logicalAnd(isFetcher, g.lt(next, mine)), [&] { fetch(n, tileOf(next), limit, g.add(number, 1)); });
    waitBarrier(g, barrierAt(number), g.rem(g.div(number, AttentionPlan::stages), 2));
    Value stage = tileAt(number);
    computeScores(stage);
    meet(1, number);
    computeWeights(tileOf(i), rowLimit, state);
    meet(2, number);
    addValues(stage, state);
    SmallVector<Value> results{state.maximum, state.total};
    results.append(state.sums);
    return results;
  });
  State state{carried[0], g.warpReduce(carried[1], Reduction::Add, rowThreads()),
              SmallVector<Value>(ArrayRef<Value>(carried).drop_front(2))};
  join(rows, state, store);
  return g.add(fetched, mine);
}

void LatentAttention::join(const QueryRows &rows, const State &state, function_ref<void(const Result &)> store) {
  // Maximum and total of every row of both groups.
  g.ifThen(g.eq(g.rem(thread, rowThreads()), 0), [&] {
    Value row = g.add(g.mul(group, plan.rows), g.div(thread, rowThreads()));
    g.storeFloats({state.maximum, state.total}, at(plan.stateOffset, g.mul(row, 8)), g.f32());
  });
  g.barrier();
  struct RowState {
    Value row, factor, total, maximum; ///< factor: of this group's sums
  };
  SmallVector<RowState> rowStates; // [m, half]
  for (int64_t m = 0; m < steps(); ++m)
    for (int64_t half = 0; half < 2; ++half) {
      Value row = g.add(g.div(lane, 4), 16 * m + 8 * half), place = g.mul(row, 8);
      SmallVector<Value> first = g.loadFloats(at(plan.stateOffset, place), g.f32(), 2);
      SmallVector<Value> second = g.loadFloats(at(plan.stateOffset + plan.rows * 8, place), g.f32(), 2);
      Value maximum = g.max(first[0], second[0]);
      Value firstFactor = g.exp2(g.sub(first[0], maximum)), secondFactor = g.exp2(g.sub(second[0], maximum));
      rowStates.push_back({row, g.select(g.eq(group, 0), firstFactor, secondFactor),
                           g.fma(first[1], firstFactor, g.mul(second[1], secondFactor)), maximum});
    }
  // The second group hands its sums over where the tiles were.
  int64_t blocks = 2 * pairs(), pitch = (plan.latent + 8) * 4;
  Value column = g.add(g.mul(warp, plan.latent / 4), g.mul(g.rem(lane, 4), 2));
  auto forEachRow = [&](function_ref<void(const RowState &, Value place, ArrayRef<Value> sums)> body) {
    for (auto [part, rowState] : llvm::enumerate(rowStates)) {
      SmallVector<Value> sums; // pairs of neighbouring columns, 8 columns apart
      for (int64_t block = 0; block < blocks; ++block)
        for (int64_t i = 0; i < 2; ++i)
          sums.push_back(g.mul(state.sums[(part / 2 * blocks + block) * 4 + part % 2 * 2 + i], rowState.factor));
      body(rowState, at(plan.tileOffset, g.add(g.mul(rowState.row, pitch), g.mul(column, 4))), sums);
    }
  };
  g.ifThen(g.ne(group, 0), [&] {
    forEachRow([&](const RowState &, Value place, ArrayRef<Value> sums) {
      for (int64_t block = 0; block < blocks; ++block)
        g.storeFloats(sums.slice(2 * block, 2), g.advance(place, 8 * block, g.f32()), g.f32());
    });
    fenceAsync(g); // tiles are fetched to here again
  });
  g.barrier();
  g.ifThen(g.eq(group, 0), [&] {
    forEachRow([&](const RowState &rowState, Value place, ArrayRef<Value> sums) {
      g.ifThen(isInUse(rows, rowState.row), [&] {
        Result result{
            rowState.row,    tokenOf(rows, rowState.row), headOf(rows, rowState.row), column, {}, rowState.total,
            rowState.maximum};
        for (int64_t block = 0; block < blocks; ++block) {
          SmallVector<Value> other = g.loadFloats(g.advance(place, 8 * block, g.f32()), g.f32(), 2);
          for (int64_t i = 0; i < 2; ++i)
            result.sums.push_back(g.add(sums[2 * block + i], other[i]));
        }
        store(result);
      });
    });
  });
  if (plan.padded != plan.width) {
    g.barrier();
    clearTiles();
  }
}
