//===- EmitKdaPrepareBounded.cpp - chunk_prepare for gates with a bound -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// See ChunkPrepare.h. Inside a tile on the diagonal the columns are scaled by exp(R_I - G_j) >= 1: at most 15 times the
// bound in the exponent, which f32 and bf16 hold.
//
// A thread has four channels of four rows, so a row is within one warp or half of it, memory is read and written by 8 bytes
// a thread, and 64 registers do: 32 warps on a multiprocessor hide each other's waits. Sums of gates over more rows go
// through tables in shared memory:
//
//   gates, their sums over four rows | sums and exponentials of a channel | scaled rows | products, inverses | w, u | out
//
// with a barrier at each bar. One warp makes a tile of 16 x 16 of both products, and inverts it if it is on the diagonal.
// Aqk, w and u leave in whole rows: L2 is as slow with a quarter of a line as with all of it.
//
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/ChunkPrepare.h"
#include "lib/Codegen/GPU/Tile/Atoms.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

constexpr int64_t rows = ChunkPrepare::rows, tileRows = ChunkPrepare::tileRows, tiles = ChunkPrepare::tiles;
/// Of a thread.
constexpr int64_t groupRows = 4, groupChannels = 4;
constexpr int64_t groups = rows / groupRows, tileGroups = tileRows / groupRows;

struct Layout : ChunkPrepare::SolveLayout {
  int64_t q, near, far, scores;
  int64_t further[2]; ///< bf16: exp(R_{I+2} - R_{I+1}) of tiles 0 and 1, exp(R_3 - R_1)
  // Tables of f32 with a value per channel, until `pairs`, `diagonal` and `inverse` take their place:
  int64_t sums;          ///< of each group of rows, without the first row of a tile; then of the groups before it in the tile
  int64_t firsts;        ///< the first row of each tile
  int64_t toNext, toEnd; ///< per tile: exp(R_{I+1} - R_I), exp(R_4 - R_{I+1})
  int64_t squares;       ///< until q and k are written: of each warp
  int64_t total;

  Layout(int64_t key, int64_t value) : SolveLayout(key, value) {
    ChunkPrepare::Places places;
    q = squares = places.take(rows * keyPitch); // q' exp(G - R)
    k = places.take(rows * keyPitch);
    near = places.take(rows * keyPitch); // k' exp(R - G)
    // k' exp(R_next - G); nobody reads that of the last tile, whose place Aqk takes.
    far = places.take((rows - tileRows) * keyPitch);
    scores = places.take(std::max(tileRows * keyPitch, rows * ChunkPrepare::pairPitch));
    v = places.take(rows * valuePitch);
    pairs = places.take(rows * ChunkPrepare::pairPitch);
    diagonal = places.take(rows * ChunkPrepare::diagonalPitch);
    inverse = places.take(rows * ChunkPrepare::inversePitch);
    int64_t vector = 4 * key;
    sums = pairs;
    firsts = sums + groups * vector;
    toNext = firsts + tiles * vector;
    toEnd = toNext + tiles * vector;
    assert(toEnd + tiles * vector <= places.total());
    factors = places.take(tiles * vector);
    further[0] = places.take(2 * 2 * key);
    further[1] = places.take(2 * key);
    betas = places.take(rows * 4);
    total = places.total();
  }
};

/// Floats of a row of the table of squares: 32 lanes, and 4 so that rows start in different banks.
constexpr int64_t squaresPitch = 36;

class BoundedPrepare final : ChunkPrepare {
public:
  BoundedPrepare(OpBuilder &b, KdaChunkPrepareOp op, KernelConfigAttr config, const GpuTarget &target, const Layout &at)
      : ChunkPrepare(b, op, config, target, at), at(at), lanesPerRow(key / groupChannels) {}

  using ChunkPrepare::emit;

private:
  void emitChunk() override {
    locate();
    first = g.load(op.getChunks(), {chunk, g.i32(0)}, /*readOnly=*/true);
    count = g.load(op.getChunks(), {chunk, g.i32(1)}, /*readOnly=*/true);
    // All reads before the first use of one, if there are registers for them.
    GateFactors gateFactors;
    Value betaLogit;
    auto loadOthers = [&] {
      gateFactors = loadGateFactors(channel, groupChannels);
      betaLogit = loadBetaLogit();
    };
    bool early = g.elementType(op.getQ()).isBF16();
    if (early)
      loadOthers();
    loadRows();
    loadValues();
    findLengths();
    if (!early)
      loadOthers();
    makeGates(gateFactors, SmallVector<MutableArrayRef<Value>>(gates, gates + groupRows));
    storeBeta(betaLogit);
    sumGates();
    nextPhase();
    g.ifThen(g.lt(thread, key), [&] { makeFactors(); });
    nextPhase();
    scaleRows();
    nextPhase();
    multiplyTiles();
    clearUpperScores();
    waitCopies(g, 0);
    nextPhase();
    storeRows(op.getAqk(), at.scores, pairPitch, rows);
    solve();
    nextPhase();
    storeW();
    storeU();
  }

  void locate() override {
    ChunkPrepare::locate();
    group = lanesPerRow == g.target.warpSize ? warp : g.div(thread, lanesPerRow);
    inTile = g.rem(group, tileGroups);
    tile = g.div(warp, key / g.target.warpSize);
    channel = g.mul(g.rem(thread, lanesPerRow), groupChannels);
  }

  //===--- small things ---===//
  Value vectorAt(int64_t table, Value number, Value ofChannel) {
    return shared(table, g.mul(g.add(g.mul(number, key), ofChannel), 4));
  }
  Values loadFactors(int64_t table, Value number) { return g.loadFloats(vectorAt(table, number, channel), g.f32(), 4); }
  template <typename F> static Values each(F f) {
    Values results;
    for (int64_t c = 0; c < groupChannels; ++c)
      results.push_back(f(c));
    return results;
  }
  Values mul(const Values &x, const Values &y) {
    return each([&](int64_t c) { return g.mul(x[c], y[c]); });
  }
  Values scale(const Values &x, Value y) {
    return each([&](int64_t c) { return g.mul(x[c], y); });
  }
  Values exp2(const Values &x) {
    return each([&](int64_t c) { return g.exp2(x[c]); });
  }
  Values unpack(const Values &packed) {
    Values values;
    for (Value two : packed) {
      auto [low, high] = g.unpackBf16(renew(two));
      values.append({low, high});
    }
    return values;
  }
  Value dot(const Values &x) {
    Value sum = g.mul(x[0], x[0]);
    for (int64_t c = 1; c < groupChannels; ++c)
      sum = g.fma(x[c], x[c], sum);
    return sum;
  }
  /// Row i (0 to 3) of this thread, in the chunk.
  Value chunkRow(int64_t i) { return g.add(g.mul(group, groupRows), i); }
  void store(const Values &values, Value firstRow, int64_t i) {
    g.storeFloats(values, g.advance(firstRow, i * at.keyPitch, g.i8()), g.bf16());
  }

  //===--- inputs ---===//
  /// q and k are rounded to bf16, their lengths are taken before. Rows past the chunk's end repeat its last row; the factors
  /// of their q and k become 0 in `findLengths`, their gates are read as what makes no decay.
  void loadRows() {
    Value last = g.sub(count, 1);
    Value tensors[3] = {op.getQ(), op.getK(), op.getG()};
    // Whole chunks need no test per row, and one address for all rows of a tensor.
    auto loadAll = [&](bool whole) {
      Values all;
      for (int n = 0; n < 3; ++n) {
        int64_t distance = cast<MemRefType>(tensors[n].getType()).getStridesAndOffset().first[0];
        Value base = whole ? g.element(tensors[n], {g.add(first, chunkRow(0)), head, channel}) : Value();
        for (int64_t i = 0; i < groupRows; ++i) {
          Value pointer = whole ? g.advance(base, i * distance, g.elementType(tensors[n]))
                                : g.element(tensors[n], {g.add(first, g.min(chunkRow(i), last)), head, channel});
          Values loaded = loadChannels(tensors[n], pointer, groupChannels);
          if (n == 2 && !whole)
            for (Value &gate : loaded)
              gate = g.select(g.lt(chunkRow(i), count), gate, noDecay(gate.getType()));
          if (n == 2) {
            all.append(widen(loaded));
            continue;
          }
          all.append(narrow(loaded));
          all.push_back(dot(widen(loaded)));
        }
      }
      return all;
    };
    Values all = g.ifThenElse(
        g.eq(count, rows), [&] { return loadAll(true); }, [&] { return loadAll(false); });
    ArrayRef<Value> rest = all;
    auto take = [&](int64_t n) {
      Values values(rest.take_front(n));
      rest = rest.drop_front(n);
      return values;
    };
    for (Values *packed : {query, keys})
      for (int64_t i = 0; i < groupRows; ++i) {
        packed[i] = take(groupChannels / 2);
        squares.append(take(1));
      }
    for (Values &gate : gates)
      gate = take(groupChannels);
  }

  /// The factors that bring q and k to what the recurrence uses, 0 for rows past the end: lane l has that of row l % 4 of its
  /// group, for q if l % 8 < 4, else for k.
  void findLengths() {
    Value isQuery = g.lt(g.rem(lane, 2 * groupRows), groupRows);
    factor = g.select(isQuery, g.f32(op.getScale().convertToDouble()), g.f32(1));
    if (op.getL2norm())
      factor = scaleToUnit(factor, sumSquares());
    Value row = g.add(g.mul(group, groupRows), g.rem(lane, groupRows));
    factor = g.select(g.lt(row, count), factor, g.f32(0));
  }
  /// Lane l: the sum of squares[l % 8] over the lanes of its group.
  Value sumSquares() {
    constexpr int64_t vector = 4, count = 2 * groupRows;
    Value table = shared(at.squares, g.mul(warp, count * squaresPitch * 4));
    for (int64_t i = 0; i < count; ++i)
      g.storeRaw(squares[i], g.advance(g.advance(table, lane, g.f32()), i * squaresPitch, g.f32()));
    g.warpBarrier();
    Value from = g.add(g.mul(g.rem(lane, count), squaresPitch), g.mul(g.div(lane, count), count));
    Value sum;
    for (int64_t i = 0; i < count; i += vector)
      for (Value x : g.loadFloats(g.advance(g.advance(table, from, g.f32()), i, g.f32()), g.f32(), vector))
        sum = sum ? g.add(sum, x) : x;
    for (int64_t distance = count; distance < lanesPerRow; distance *= 2)
      sum = g.add(sum, g.shuffleXor(sum, distance));
    return sum;
  }
  Value factorOf(int64_t number) {
    if (lanesPerRow == g.target.warpSize)
      return g.shuffleFrom(factor, g.i32(number));
    return g.shuffleFrom(factor, g.add(g.mul(g.div(lane, lanesPerRow), lanesPerRow), number));
  }

  //===--- gates ---===//
  /// To tables: sums of this thread's gates, but for the first row of a tile, which is in a table of its own.
  void sumGates() {
    Value isFirst = g.eq(inTile, 0);
    g.ifThen(isFirst, [&] { g.storeFloats(gates[0], vectorAt(at.firsts, tile, channel), g.f32()); });
    for (Value &gate : gates[0])
      gate = g.select(isFirst, g.f32(0), gate);
    // From here on gates[i] is the sum up to row i.
    for (int64_t i = 1; i < groupRows; ++i)
      for (int64_t c = 0; c < groupChannels; ++c)
        gates[i][c] = g.add(gates[i - 1][c], gates[i][c]);
    g.storeFloats(gates[groupRows - 1], vectorAt(at.sums, group, channel), g.f32());
  }

  /// A thread per channel. Sums of gates, never differences of sums: after a large gate they would have lost the small ones.
  /// The chunk's end stands for the R of the tile after the last.
  void makeFactors() {
    auto pointer = [&](int64_t table, int64_t number) { return vectorAt(table, g.i32(number), thread); };
    auto load = [&](int64_t table, int64_t number) { return g.loadRaw(pointer(table, number), g.f32()); };
    auto save = [&](Value exponent, int64_t table, int64_t number) {
      g.storeRaw(g.exp2(exponent), pointer(table, number));
    };
    // From R_I to R_{I+1}.
    Values ways;
    for (int64_t i = 0; i < tiles; ++i) {
      Value way = g.f32(0);
      for (int64_t j = 0; j < tileGroups; ++j) {
        int64_t number = i * tileGroups + j;
        Value sum = load(at.sums, number);
        g.storeRaw(way, pointer(at.sums, number));
        way = j == 0 ? sum : g.add(way, sum);
      }
      ways.push_back(i + 1 < tiles ? g.add(way, load(at.firsts, i + 1)) : way);
    }
    Value anchor = load(at.firsts, 0), toEnd = g.f32(0);
    for (int64_t i = 0; i < tiles; ++i) {
      save(anchor, at.factors, i);
      anchor = g.add(anchor, ways[i]);
      save(ways[i], at.toNext, i);
    }
    g.storeRaw(g.exp2(anchor), g.element(op.getGl(), {chunk, head, thread}));
    for (int64_t i = tiles - 1; i >= 0; --i) {
      save(toEnd, at.toEnd, i);
      toEnd = g.add(ways[i], toEnd);
    }
    auto saveFurther = [&](Value exponent, int64_t offset) {
      g.storeRaw(g.toBf16(g.exp2(exponent)), shared(offset, g.mul(thread, 2)));
    };
    saveFurther(ways[1], at.further[0]);
    saveFurther(ways[2], at.further[0] + 2 * key);
    saveFurther(g.add(ways[1], ways[2]), at.further[1]);
  }

  /// Rows relative to R; to the next R, of which those of later tiles are some factors away, and to the chunk's end.
  /// exp(R_next - G) is exp(R - G) exp(R_next - R), the first factor at most 15 times the bound in the exponent, the second at
  /// least -16 times, so that neither leaves f32's range.
  void scaleRows() {
    Value row = g.add(g.mul(chunkRow(0), at.keyPitch), g.mul(channel, 2));
    Value queryRow = shared(at.q, row), keyRow = shared(at.k, row), nearRow = shared(at.near, row), farRow = shared(at.far, row);
    Value qgRow = g.element(op.getQg(), {chunk, head, chunkRow(0), channel});
    Value kdRow = g.element(op.getKd(), {chunk, head, chunkRow(0), channel});
    Values before = loadFactors(at.sums, group), grown = loadFactors(at.factors, tile);
    Values toNext = loadFactors(at.toNext, tile), toEnd = loadFactors(at.toEnd, tile);
    for (int64_t i = 0; i < groupRows; ++i) {
      Values sum = each([&](int64_t c) { return g.add(gates[i][c], before[c]); });
      Values down = exp2(sum), up = exp2(each([&](int64_t c) { return g.neg(sum[c]); }));
      Values q = mul(scale(unpack(query[i]), factorOf(i)), down);
      store(q, queryRow, i);
      g.storeFloats(mul(q, grown), g.advance(qgRow, i * key, g.bf16()), g.bf16());
      Values unit = scale(unpack(keys[i]), factorOf(groupRows + i));
      store(mul(unit, down), keyRow, i);
      Values near = mul(unit, up), far = mul(near, toNext);
      store(near, nearRow, i);
      store(far, farRow, i);
      g.storeFloats(mul(far, toEnd), g.advance(kdRow, i * key, g.bf16()), g.bf16());
    }
  }

  //===--- products of rows ---===//
  /// Tiles of Aqk and Akk on the diagonal and below it, one of each by a warp.
  void multiplyTiles() {
    constexpr int64_t jobs = tiles + lowerPairs;
    auto multiply = [&](Value job) {
      Value isDiagonal = g.lt(job, tiles), pair = g.sub(job, tiles);
      Value rowTile = g.i32(1), start = g.i32(0);
      for (int64_t i = 2; i < tiles; ++i) {
        Value reached = g.ge(pair, firstPair(i));
        rowTile = g.select(reached, g.i32(i), rowTile);
        start = g.select(reached, g.i32(firstPair(i)), start);
      }
      rowTile = g.select(isDiagonal, job, rowTile);
      Value columnTile = g.select(isDiagonal, job, g.sub(pair, start));
      Value base = g.add(g.mul(columnTile, tileRows * at.keyPitch), g.select(isDiagonal, g.i32(at.near), g.i32(at.far)));
      multiplyTile(rowTile, columnTile, base, isDiagonal);
      g.ifThen(isDiagonal, [&] {
        g.warpBarrier();
        invertDiagonal(rowTile);
      });
    };
    if (g.warps() >= jobs)
      g.ifThen(g.lt(warp, jobs), [&] { multiply(warp); });
    else
      g.loop(warp, g.i32(jobs), g.i32(g.warps()), multiply);
  }

  void multiplyTile(Value rowTile, Value columnTile, Value columnBase, Value isDiagonal) {
    Value row = g.add(g.mul(rowTile, tileRows * at.keyPitch), rowsOffset(at.keyPitch));
    Value a[2] = {shared(at.q, row), shared(at.k, row)};
    Value b = g.shared(g.add(columnBase, pairedColumnsOffset(at.keyPitch)));
    // Of q and of k, two groups of 8 columns.
    auto multiply = [&](bool scaled) {
      Values sums[2][2] = {{zeros(4), zeros(4)}, {zeros(4), zeros(4)}};
      Value isLast = g.eq(g.sub(rowTile, columnTile), tiles - 1);
      Value factors = g.shared(g.add(g.select(isLast, g.i32(at.further[1]), g.add(g.mul(columnTile, 2 * key), at.further[0])),
                                     g.mul(g.rem(lane, 4), 4)));
      for (int64_t step = 0; step < key / 16; ++step) {
        Values columns = loadMatrices(g, g.advance(b, step * 32, g.i8()), 4);
        if (scaled)
          for (int64_t half = 0; half < 2; ++half) {
            Value factor = g.loadRaw(g.advance(factors, step * 32 + half * 16, g.i8()), g.i32());
            for (int64_t part = 0; part < 2; ++part)
              columns[2 * part + half] = g.ptx(g.i32(), "mul.rn.bf16x2 $0, $1, $2;", {columns[2 * part + half], factor});
          }
        for (int64_t kind = 0; kind < 2; ++kind) {
          Values matrix = loadMatrices(g, g.advance(a[kind], step * 32, g.i8()), 4);
          for (int64_t part = 0; part < 2; ++part)
            sums[kind][part] = multiplyStep(g, matrix, ValueRange(columns).slice(2 * part, 2), sums[kind][part]);
        }
      }
      Values all;
      for (auto &ofKind : sums)
        for (Values &part : ofKind)
          all.append(part);
      return all;
    };
    Values all = g.ifThenElse(
        g.gt(g.sub(rowTile, columnTile), 1), [&] { return multiply(true); }, [&] { return multiply(false); });
    Values sums[2][2];
    for (int64_t n = 0; n < 4; ++n)
      sums[n / 2][n % 2] = Values(ArrayRef<Value>(all).slice(4 * n, 4));
    Value rowInTile[2], columnInTile[2];
    for (int64_t n = 0; n < 2; ++n) {
      rowInTile[n] = g.add(g.div(lane, 4), 8 * n);
      columnInTile[n] = g.add(g.mul(g.rem(lane, 4), 2), 8 * n);
    }
    auto forEachPair = [&](llvm::function_ref<void(int64_t, int64_t, int64_t)> body) {
      for (int64_t half = 0; half < 2; ++half)
        for (int64_t part = 0; part < 2; ++part)
          body(half, part, 2 * half);
    };
    Value row0 = g.mul(rowTile, tileRows), column0 = g.mul(columnTile, tileRows);
    auto storeScores = [&](int64_t half, int64_t part, const Values &scores) {
      Value column = g.mul(g.add(column0, columnInTile[part]), 2);
      g.storeFloats(scores, rowOf(at.scores, g.add(row0, rowInTile[half]), pairPitch, column), g.bf16());
    };
    g.ifThenElse(
        isDiagonal,
        [&] {
          forEachPair([&](int64_t half, int64_t part, int64_t at0) {
            Value i = rowInTile[half], factor = g.neg(betaOf(g.add(row0, i)));
            Values scores, lower;
            for (int64_t e = 0; e < 2; ++e) {
              Value j = g.add(columnInTile[part], e);
              scores.push_back(g.select(g.le(j, i), sums[0][part][at0 + e], g.f32(0)));
              lower.push_back(g.select(g.lt(j, i), g.mul(sums[1][part][at0 + e], factor), g.f32(0)));
            }
            storeScores(half, part, scores);
            Value to = g.add(g.mul(g.add(row0, i), diagonalPitch), g.mul(columnInTile[part], 4));
            g.storeFloats(lower, shared(at.diagonal, to), g.f32());
          });
          return Values();
        },
        [&] {
          forEachPair([&](int64_t half, int64_t part, int64_t at0) {
            storeScores(half, part, {sums[0][part][at0], sums[0][part][at0 + 1]});
            Value column = g.mul(g.add(column0, columnInTile[part]), 2);
            g.storeFloats({g.neg(sums[1][part][at0]), g.neg(sums[1][part][at0 + 1])},
                          rowOf(at.pairs, g.add(row0, rowInTile[half]), pairPitch, column), g.bf16());
          });
          return Values();
        });
  }

  /// Zeros in the tiles of Aqk above the diagonal, by the last threads.
  void clearUpperScores() {
    constexpr int64_t pieces = lowerPairs * tileRows * 2; // of 16 bytes
    auto clear = [&](Value i) {
      Value pair = g.div(i, 2 * tileRows), below = g.i32(1), start = g.i32(0);
      for (int64_t n = 2; n < tiles; ++n) {
        Value reached = g.ge(pair, firstPair(n));
        below = g.select(reached, g.i32(n), below);
        start = g.select(reached, g.i32(firstPair(n)), start);
      }
      Value row = g.add(g.mul(g.sub(pair, start), tileRows), g.rem(g.div(i, 2), tileRows));
      Value column = g.add(g.mul(below, tileRows), g.mul(g.rem(i, 2), 8));
      g.storeFloats(zeros(8), rowOf(at.scores, row, pairPitch, g.mul(column, 2)), g.bf16());
    };
    static_assert(pieces <= 256, "a block has a thread for each");
    Value number = g.sub(g.i32(g.threads() - 1), thread);
    g.ifThen(g.lt(number, pieces), [&] { clear(number); });
  }

  //===--- w and u ---===//
  void solve() {
    int64_t ofW = key / 16, total = ofW + value / 16;
    for (int64_t done = 0; done < total; done += g.warps()) {
      Value number = g.add(warp, done), numberOfU = g.sub(number, ofW);
      auto solveW = [&] {
        Columns columns[] = {columnsOfW(number)};
        solveColumns(columns);
      };
      auto solveU = [&] {
        Columns columns[] = {columnsOfU(numberOfU)};
        solveColumns(columns);
      };
      if (done < ofW)
        g.ifThen(g.lt(number, ofW), solveW);
      g.ifThen(g.logicalAnd(g.ge(number, ofW), g.lt(number, total)), solveU);
    }
  }

  Layout at;
  int64_t lanesPerRow;
  Value group, inTile, tile, channel; ///< of this thread: the four rows, their place among those of the tile, the tile
  Values query[groupRows], keys[groupRows], gates[groupRows];
  Values squares; ///< of q, then of k
  Value factor;
};

} // namespace

int64_t k3::boundedPrepareSharedBytes(int64_t key, int64_t value) { return Layout(key, value).total; }
int64_t k3::boundedPrepareThreads(int64_t key) { return key / groupChannels * groups; }
void k3::emitBoundedPrepare(OpBuilder &b, KdaChunkPrepareOp op, KernelConfigAttr config, const GpuTarget &target) {
  Layout at(getStaticNamedDim(op, "K"), getStaticNamedDim(op, "V"));
  BoundedPrepare(b, op, config, target, at).emit();
}
