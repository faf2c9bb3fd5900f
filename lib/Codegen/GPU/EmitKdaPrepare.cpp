//===- EmitKdaPrepare.cpp - the state-free part of chunked KDA on tensor cores -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// See ChunkPrepare.h. Here: tiles on the diagonal where gates have no bound. Each is halved again and again: of the rows of a
// pair (i, j), the highest bit s in which i and j differ says at which level they meet, and their exponents are taken
// relative to the row between their halves. All products of a level are one step of 16 x 8: rows of q and of k with bit s,
// columns without. A thread has two channels of one tile of 16 rows.
//
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/ChunkPrepare.h"
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/Tile/Atoms.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

constexpr int64_t rows = ChunkPrepare::rows, tileRows = ChunkPrepare::tileRows, tiles = ChunkPrepare::tiles;
/// Rows of a level: 8 of q, 8 of k, 8 columns.
constexpr int64_t levelRows = 24;

struct Layout : ChunkPrepare::SolveLayout {
  int64_t q, far, lengths, scores, gates, rowFactors, extent, total;

  Layout(int64_t key, int64_t value) : SolveLayout(key, value) {
    ChunkPrepare::Places places;
    q = places.take(rows * keyPitch); // q' exp(G - R)
    k = places.take(rows * keyPitch);
    // The rows of a level, later v.
    v = places.take(std::max(tiles * levelRows * keyPitch, rows * valuePitch));
    far = places.take(ChunkPrepare::lowerPairs * tileRows * keyPitch); // k' exp(R_I - G) for the pairs (I, J)
    pairs = places.take(rows * ChunkPrepare::pairPitch);
    diagonal = places.take(rows * ChunkPrepare::diagonalPitch);
    // Of each warp, partial sums over its channels; later T.
    inverse = lengths = places.take(std::max(rows * ChunkPrepare::inversePitch, key / 16 * 64 * 4));
    scores = places.take(rows * ChunkPrepare::inversePitch); // Aqk of the tiles on the diagonal
    gates = places.take(2 * tiles * key * 4); // of a tile: its first row's gate; the sum of the others
    factors = places.take(tiles * key * 4);
    rowFactors = places.take(2 * rows * 4); // what brings rows of q and of k to what the recurrence uses
    betas = places.take(rows * 4);
    extent = places.take(8); // first row and number of rows
    total = places.total();
  }
  int64_t levels() const { return v; }
};

class PairwisePrepare final : ChunkPrepare {
public:
  PairwisePrepare(OpBuilder &b, KdaChunkPrepareOp op, KernelConfigAttr config, const GpuTarget &target, const Layout &at)
      : ChunkPrepare(b, op, config, target, at), at(at), warpsPerTile(key / 64) {}

  using ChunkPrepare::emit;

private:
  /// Two neighbouring channels.
  using Pair = std::array<Value, 2>;

  void emitChunk() override {
    locate();
    first = g.load(op.getChunks(), {chunk, g.i32(0)}, /*readOnly=*/true);
    count = g.load(op.getChunks(), {chunk, g.i32(1)}, /*readOnly=*/true);
    g.ifFirstThread([&] {
      g.storeRaw(first, g.shared(at.extent));
      g.storeRaw(count, g.shared(at.extent + 4));
    });
    clearDiagonals();
    loadRows();
    storeBeta(loadBetaLogit());
    sumSquares();
    makeGates(loadGateFactors(channel, 2), SmallVector<MutableArrayRef<Value>>(gates.begin(), gates.end()));
    sumGates();
    nextPhase();
    findLengths();
    findAnchors();
    // Not for the order of accesses: so that each phase has its registers for itself.
    g.warpBarrier();
    storeScaledDown();
    g.warpBarrier();
    storeScaledFar();
    nextPhase();
    multiplyTiles();
    for (int64_t distance = tileRows / 2; distance > 0; distance /= 2)
      multiplyLevel(distance);
    nextPhase();
    clearUpperScores();
    first = g.loadRaw(g.shared(at.extent), g.i32());
    count = g.loadRaw(g.shared(at.extent + 4), g.i32());
    loadValues();
    g.ifThen(g.lt(warp, tiles), [&] { invertDiagonal(warp); });
    storeDiagonalScores();
    waitCopies(g, 0);
    nextPhase();
    solve();
    nextPhase();
    storeW();
    storeU();
  }

  void locate() override {
    ChunkPrepare::locate();
    tile = g.div(warp, warpsPerTile);
    channel = g.mul(g.rem(thread, key / 2), 2);
  }

  //===--- small things ---===//
  Value channelBytes() { return g.mul(channel, 2); }
  /// Row i (0 to 15) of this thread's tile, in the chunk.
  Value chunkRow(int64_t i) { return g.add(g.mul(tile, tileRows), i); }
  Pair loadPair(Value pointer) {
    Values two = g.loadFloats(pointer, g.f32(), 2);
    return {two[0], two[1]};
  }
  template <typename F> static Pair both(F f) { return {f(0), f(1)}; }
  Pair add(Pair x, Pair y) {
    return both([&](int c) { return g.add(x[c], y[c]); });
  }
  Pair mul(Pair x, Pair y) {
    return both([&](int c) { return g.mul(x[c], y[c]); });
  }
  Pair scale(Pair x, Value y) {
    return both([&](int c) { return g.mul(x[c], y); });
  }
  Pair exp2(Pair x) {
    return both([&](int c) { return g.exp2(x[c]); });
  }
  Pair select(Value condition, Pair x, Pair y) {
    return both([&](int c) { return g.select(condition, x[c], y[c]); });
  }
  Pair zeroPair() { return {g.f32(0), g.f32(0)}; }
  Value pack(Pair x) { return g.packBf16(x[0], x[1]); }
  Pair unpack(Value packed) {
    auto [low, high] = g.unpackBf16(renew(packed));
    return {low, high};
  }

  //===--- inputs ---===//
  /// q and k are rounded to bf16, their lengths are taken before. Rows past the chunk's end repeat its last row; the factors
  /// of their q and k become 0 in `findLengths`, their gates are read as what makes no decay.
  void loadRows() {
    Value last = g.sub(count, 1);
    // Whole chunks need no test per row, and one address for all rows of a tensor.
    auto loadAll = [&](bool whole) {
      Values all;
      Value base[3];
      Value tensors[3] = {op.getQ(), op.getK(), op.getG()};
      if (whole)
        for (int n = 0; n < 3; ++n)
          base[n] = g.element(tensors[n], {g.add(first, chunkRow(0)), head, channel});
      for (int64_t i = 0; i < tileRows; ++i) {
        Value row = whole ? Value() : g.add(first, g.min(chunkRow(i), last));
        auto load = [&](int n) {
          int64_t distance = cast<MemRefType>(tensors[n].getType()).getStridesAndOffset().first[0];
          return loadChannels(tensors[n], whole ? g.advance(base[n], i * distance, g.elementType(tensors[n]))
                                                : g.element(tensors[n], {row, head, channel}), 2);
        };
        Values q = load(0), k = load(1), gate = load(2);
        if (!whole)
          for (Value &x : gate)
            x = g.select(g.lt(chunkRow(i), count), x, noDecay(x.getType()));
        gate = widen(gate);
        all.append({narrow(q)[0], narrow(k)[0], gate[0], gate[1], dot(widen(q), widen(q)), dot(widen(k), widen(k))});
      }
      return all;
    };
    Values all = g.ifThenElse(
        g.eq(count, rows), [&] { return loadAll(true); }, [&] { return loadAll(false); });
    constexpr int64_t perRow = 6;
    for (int64_t i = 0; i < tileRows; ++i) {
      ArrayRef<Value> row = ArrayRef<Value>(all).slice(i * perRow, perRow);
      query.push_back(row[0]);
      keys.push_back(row[1]);
      gates.push_back({row[2], row[3]});
      squares[i] = row[4];
      squares[tileRows + i] = row[5];
    }
  }

  //===--- lengths of q and k ---===//
  Value dot(ArrayRef<Value> x, ArrayRef<Value> y) { return g.fma(x[0], y[0], g.mul(x[1], y[1])); }

  /// Lane l: of row l % 16, q for l < 16, else k; and q k.
  void sumSquares() {
    length = op.getL2norm() ? reduceAcross(squares, g.target.warpSize) : Value();
    Values products;
    for (int64_t i = 0; i < tileRows; ++i)
      products.push_back(dot(unpack(query[i]), unpack(keys[i])));
    product = reduceAcross(products, g.target.warpSize);
    if (warpsPerTile == 1)
      return;
    auto store = [&](Value sum, int64_t part) {
      if (sum)
        g.storeRaw(sum, shared(at.lengths, g.mul(g.add(g.mul(warp, 64), g.add(lane, 32 * part)), 4)));
    };
    store(length, 0);
    store(product, 1);
  }

  /// The factors that bring q and k to what the recurrence uses, 0 for rows past the end: lane l has that of row l % 16,
  /// for q if l < 16, else for k.
  void findLengths() {
    auto join = [&](Value own, int64_t part) {
      if (!own || warpsPerTile == 1)
        return own;
      Value sum;
      for (int64_t i = 0; i < warpsPerTile; ++i) {
        Value source = g.add(g.mul(tile, warpsPerTile), i);
        Value x = g.loadRaw(shared(at.lengths, g.mul(g.add(g.mul(source, 64), g.add(lane, 32 * part)), 4)), g.f32());
        sum = sum ? g.add(sum, x) : x;
      }
      return sum;
    };
    Value isQuery = g.lt(lane, tileRows), row = g.add(g.mul(tile, tileRows), g.rem(lane, tileRows));
    factor = g.select(isQuery, g.f32(op.getScale().convertToDouble()), g.f32(1));
    if (op.getL2norm())
      factor = scaleToUnit(factor, join(length, 0));
    factor = g.select(g.lt(row, count), factor, g.f32(0));
    // q k of a row, the diagonal of Aqk.
    Value score = g.mul(g.mul(join(product, 1), factor), g.shuffleXor(factor, tileRows));
    Value kind = g.select(isQuery, g.i32(0), g.i32(rows));
    g.ifThen(g.eq(g.rem(warp, warpsPerTile), 0), [&] {
      g.storeRaw(factor, g.advance(g.shared(at.rowFactors), g.add(kind, row), g.f32()));
      Value column = g.mul(g.rem(lane, tileRows), 2);
      g.ifThen(isQuery, [&] {
        g.storeRaw(g.toBf16(score), shared(at.scores, g.add(g.mul(row, inversePitch), column)));
      });
    });
  }
  Pair scaledQuery(int64_t i) { return scale(unpack(query[i]), g.shuffleFrom(factor, g.i32(i))); }
  Pair scaledKey(int64_t i) { return scale(unpack(keys[i]), g.shuffleFrom(factor, g.i32(tileRows + i))); }

  //===--- gates ---===//
  Value gatePointer(Value ofTile, int64_t which) {
    return shared(at.gates, g.mul(g.add(g.mul(g.add(g.mul(ofTile, 2), which), key), channel), 4));
  }

  void sumGates() {
    Pair rest = zeroPair();
    for (int64_t i = 1; i < tileRows; ++i)
      rest = add(rest, gates[i]);
    g.storeFloats(gates[0], gatePointer(tile, 0), g.f32());
    g.storeFloats(rest, gatePointer(tile, 1), g.f32());
  }

  /// Of each tile: the first row's gate, the sum of the others.
  struct TileGates {
    std::array<Pair, tiles> firsts, rests;
  };
  TileGates loadTileGates() {
    TileGates all;
    for (int64_t i = 0; i < tiles; ++i) {
      all.firsts[i] = loadPair(gatePointer(g.i32(i), 0));
      all.rests[i] = loadPair(gatePointer(g.i32(i), 1));
    }
    return all;
  }

  /// exp(R) of this tile; of the whole chunk, by the last tile's threads.
  void findAnchors() {
    auto [firsts, rests] = loadTileGates();
    Pair anchor = firsts[0];
    for (int64_t i = 0; i + 1 < tiles; ++i)
      anchor = select(g.gt(tile, i), add(anchor, add(rests[i], firsts[i + 1])), anchor);
    grown = exp2(anchor);
    g.storeFloats(grown, shared(at.factors, g.mul(g.add(g.mul(tile, key), channel), 4)), g.f32());
    g.ifThen(g.eq(tile, tiles - 1), [&] {
      g.storeFloats(exp2(add(anchor, rests[tiles - 1])), g.element(op.getGl(), {chunk, head, channel}), g.f32());
    });
  }

  /// Gates between anchors, for this tile.
  struct Ways {
    Pair toNext;                      ///< from R to the next tile's R
    Pair nextFirst;                   ///< the gate of the next tile's first row; 0 without one
    std::array<Pair, tiles + 1> next; ///< from the next tile's R to that of tile i; i = 4: to the chunk's end
  };
  /// Sums of the gates between, never differences of sums: after a large gate they would have lost the small ones. The
  /// chunk's end stands for the R of the tile after the last.
  Ways findWays() {
    auto [firsts, rests] = loadTileGates();
    Ways ways;
    ways.next[1] = zeroPair();
    for (int64_t i = 1; i < tiles; ++i) {
      Pair way = add(ways.next[i], rests[i]);
      if (i + 1 < tiles)
        way = add(way, firsts[i + 1]);
      ways.next[i + 1] = select(g.lt(tile, i), way, zeroPair());
    }
    ways.nextFirst = zeroPair();
    Pair rest = rests[tiles - 1];
    for (int64_t i = 0; i + 1 < tiles; ++i) {
      Value isThis = g.eq(tile, i);
      ways.nextFirst = select(isThis, firsts[i + 1], ways.nextFirst);
      rest = select(isThis, rests[i], rest);
    }
    ways.toNext = add(rest, ways.nextFirst);
    return ways;
  }

  /// What is relative to the first rows of later tiles.
  void storeFar(ArrayRef<Pair> far, const Ways &ways) {
    for (int64_t to = 1; to < tiles; ++to)
      g.ifThen(g.lt(tile, to), [&] {
        Value row = g.mul(g.mul(g.add(tile, firstPair(to)), tileRows), at.keyPitch);
        Value farRow = shared(at.far, g.add(row, channelBytes()));
        Pair factor = exp2(ways.next[to]);
        for (int64_t i = 0; i < tileRows; ++i)
          g.storeRaw(pack(to == 1 ? far[i] : mul(far[i], factor)), g.advance(farRow, i * at.keyPitch, g.i8()));
      });
  }

  //===--- scaled rows ---===//
  /// What is relative to the tile's first row.
  void storeScaledDown() {
    Value row = g.add(g.mul(chunkRow(0), at.keyPitch), channelBytes());
    Value queryRow = shared(at.q, row), keyRow = shared(at.k, row);
    Value outRow = g.element(op.getQg(), {chunk, head, chunkRow(0), channel});
    Pair sum = zeroPair();
    for (int64_t i = 0; i < tileRows; ++i) {
      if (i > 0)
        sum = add(sum, gates[i]);
      Pair down = exp2(sum), q = mul(scaledQuery(i), down), k = scaledKey(i);
      g.storeRaw(pack(q), g.advance(queryRow, i * at.keyPitch, g.i8()));
      g.storeRaw(pack(mul(k, down)), g.advance(keyRow, i * at.keyPitch, g.i8()));
      g.storeFloats(mul(q, grown), g.advance(outRow, i * key, g.bf16()), g.bf16());
    }
  }

  /// What is relative to the first row of later tiles and to the chunk's end.
  void storeScaledFar() {
    Ways ways = findWays();
    Value outRow = g.element(op.getKd(), {chunk, head, chunkRow(0), channel});
    Pair sum = ways.nextFirst, toEnd = exp2(ways.next[tiles]);
    SmallVector<Pair> far(tileRows);
    for (int64_t i = tileRows - 1; i >= 0; --i) {
      if (i + 1 < tileRows)
        sum = add(sum, gates[i + 1]);
      far[i] = mul(scaledKey(i), exp2(sum));
      g.storeFloats(mul(far[i], toEnd), g.advance(outRow, i * key, g.bf16()), g.bf16());
    }
    storeFar(far, ways);
  }

  //===--- products of rows ---===//
  /// sums += a b^T over all channels; `a` and `b` point at this lane's rows. One or two `a`.
  void multiplyRows(ArrayRef<Value> a, Value b, MutableArrayRef<Values> sums) {
    for (int64_t step = 0; step < key / 16; step += 2) {
      Values columns = loadMatrices(g, g.advance(b, step * 32, g.i8()), 4);
      for (int64_t i = 0; i < 2; ++i)
        for (auto [from, sum] : llvm::zip_equal(a, sums))
          sum = multiplyStep(g, loadMatrices(g, g.advance(from, (step + i) * 32, g.i8()), 4),
                             ValueRange(columns).slice(2 * i, 2), sum);
    }
  }

  /// Tiles of Aqk and Akk below the diagonal, a warp 16 rows by 8 columns at a time.
  void multiplyTiles() {
    // Columns of 8 of row tile I: 2 I, after those of the tiles before it.
    Value rowOffset = rowsOffset(at.keyPitch), columnOffset = columnsOffset(at.keyPitch);
    g.loop(warp, g.i32(2 * lowerPairs), g.i32(g.warps()), [&](Value number) {
      Value rowTile = g.i32(1), start = g.i32(0);
      for (int64_t i = 2; i < tiles; ++i) {
        Value reached = g.ge(number, 2 * firstPair(i));
        rowTile = g.select(reached, g.i32(i), rowTile);
        start = g.select(reached, g.i32(2 * firstPair(i)), start);
      }
      Value columnGroup = g.sub(number, start);
      Value column = g.add(g.mul(number, 8 * at.keyPitch), at.far);
      Value row = g.add(g.mul(g.mul(rowTile, tileRows), at.keyPitch), rowOffset);
      Values sums[2] = {zeros(4), zeros(4)};
      multiplyRows({shared(at.q, row), shared(at.k, row)}, g.shared(g.add(column, columnOffset)), sums);
      for (int64_t half = 0; half < 2; ++half) {
        Value inTile = g.add(g.div(lane, 4), 8 * half), i = g.add(g.mul(rowTile, tileRows), inTile);
        Value j = g.add(g.mul(columnGroup, 8), g.mul(g.rem(lane, 4), 2));
        g.storeFloats({sums[0][2 * half], sums[0][2 * half + 1]}, g.element(op.getAqk(), {chunk, head, i, j}), g.bf16());
        g.storeFloats({g.neg(sums[1][2 * half]), g.neg(sums[1][2 * half + 1])},
                      rowOf(at.pairs, i, pairPitch, g.mul(j, 2)), g.bf16());
      }
    });
  }

  //===--- tiles on the diagonal ---===//
  /// Zeros where no level writes.
  void clearDiagonals() {
    g.forThreads(rows * inversePitch / 4, [&](Value i) {
      g.storeRaw(g.i32(0), g.advance(g.shared(at.scores), i, g.i32()));
    });
    g.forThreads(rows * diagonalPitch / 4, [&](Value i) {
      g.storeRaw(g.i32(0), g.advance(g.shared(at.diagonal), i, g.i32()));
    });
  }

  Value rowFactor(Value row, int64_t kind) {
    return g.loadRaw(g.advance(g.shared(at.rowFactors + 4 * kind), row, g.f32()), g.f32());
  }

  /// Index without the bit of `distance`, and back with that bit clear.
  static int64_t dropBit(int64_t i, int64_t distance) { return (i / (2 * distance)) * distance + i % distance; }
  Value insertBit(Value i, int64_t distance) {
    return g.add(g.mul(g.div(i, distance), 2 * distance), g.rem(i, distance));
  }

  /// Pairs of rows whose highest differing bit is `distance`.
  void multiplyLevel(int64_t distance) {
    // The buffer's readers of before are done: tiles do not use it, the level before ends with a barrier.
    Value base = shared(at.levels(), g.add(g.mul(tile, levelRows * at.keyPitch), channelBytes()));
    auto store = [&](int64_t part, int64_t i, Value packed) {
      g.storeRaw(packed, g.advance(base, (8 * part + dropBit(i, distance)) * at.keyPitch, g.i8()));
    };
    auto scaled = [&](Value packed, Pair by) { return pack(mul(unpack(packed), by)); };
    // An entry above the diagonal. A zero that comes from memory keeps the exponentials of this level behind the barrier of
    // the one before; nothing else would, and those of all levels together take too many registers.
    Value zero = g.loadRaw(g.shared(at.diagonal + 4 * (tileRows - 1)), g.f32());
    for (int64_t group = 0; group < tileRows; group += 2 * distance) {
      int64_t middle = group + distance;
      Pair sum = {zero, zero};
      for (int64_t i = middle; i < middle + distance; ++i) {
        if (i > middle)
          sum = add(sum, gates[i]);
        Pair down = exp2(sum);
        store(0, i, i > middle ? scaled(query[i], down) : query[i]);
        store(1, i, i > middle ? scaled(keys[i], down) : keys[i]);
      }
      sum = {zero, zero};
      for (int64_t j = middle - 1; j >= group; --j) {
        sum = add(sum, gates[j + 1]);
        store(2, j, scaled(keys[j], exp2(sum)));
      }
    }
    nextPhase();
    g.ifThen(g.lt(warp, tiles), [&] {
      Value start = g.mul(g.mul(warp, levelRows), at.keyPitch);
      Value a = shared(at.levels(), g.add(start, rowsOffset(at.keyPitch)));
      Value b = shared(at.levels(), g.add(g.add(start, 2 * 8 * at.keyPitch), columnsOffset(at.keyPitch)));
      Values sums = zeros(4);
      multiplyRows(a, b, sums);
      Value compact = g.div(lane, 4), inTile = g.add(insertBit(compact, distance), distance);
      Value i = g.add(g.mul(warp, tileRows), inTile);
      // The rows were used as they came.
      Value ofQuery = rowFactor(i, 0), ofKey = g.neg(g.mul(betaOf(i), rowFactor(i, rows)));
      for (int64_t e = 0; e < 2; ++e) {
        Value column = g.add(g.mul(g.rem(lane, 4), 2), e), j = insertBit(column, distance);
        // Rows and columns of different groups meet at a higher level.
        g.ifThen(g.eq(g.div(compact, distance), g.div(column, distance)), [&] {
          Value ofColumn = rowFactor(g.add(g.mul(warp, tileRows), j), rows);
          Value score = g.mul(sums[e], g.mul(ofQuery, ofColumn)), lower = g.mul(sums[2 + e], g.mul(ofKey, ofColumn));
          g.storeRaw(g.toBf16(score), shared(at.scores, g.add(g.mul(i, inversePitch), g.mul(j, 2))));
          g.storeRaw(lower, shared(at.diagonal, g.add(g.mul(i, diagonalPitch), g.mul(j, 4))));
        });
      }
    });
    nextPhase();
  }
  void multiplyRows(Value a, Value b, Values &sums) { multiplyRows(ArrayRef<Value>(a), b, MutableArrayRef<Values>(sums)); }

  void storeDiagonalScores() {
    constexpr int64_t pieces = rows * 2; // of 16 bytes
    g.forThreads(pieces, [&](Value i) {
      Value row = g.div(i, 2), column = g.mul(g.rem(i, 2), 8);
      Value run = g.loadRaw(shared(at.scores, g.add(g.mul(row, inversePitch), g.mul(column, 2))), g.vectorOf(4, g.i32()));
      Value j = g.add(g.mul(g.div(row, tileRows), tileRows), column);
      g.storeRaw(run, g.element(op.getAqk(), {chunk, head, row, j}));
    });
  }

  /// Zeros in the tiles of Aqk above the diagonal.
  void clearUpperScores() {
    constexpr int64_t pieces = rows / 8; // of a row, 16 bytes each
    Value zero = g.i64(0);
    g.forThreads(rows * pieces, [&](Value i) {
      Value row = g.div(i, pieces), piece = g.rem(i, pieces);
      g.ifThen(g.gt(g.div(piece, 2), g.div(row, tileRows)), [&] {
        Value to = g.element(op.getAqk(), {chunk, head, row, g.mul(piece, 8)});
        g.storeRaw(zero, to);
        g.storeRaw(zero, g.advance(to, 1, g.i64()));
      });
    });
  }

  //===--- w and u ---===//
  void solve() {
    int64_t warps = g.warps(), valueTiles = value / 16;
    // As many warps as columns of 16 in w; u follows, with a last round that may not be full.
    Columns w = columnsOfW(warp);
    SmallVector<Columns, 2> both{w};
    if (valueTiles >= warps)
      both.push_back(columnsOfU(warp));
    solveColumns(both);
    for (int64_t done = valueTiles >= warps ? warps : 0; done < valueTiles; done += warps) {
      Value number = g.add(warp, done);
      auto rest = [&] {
        Columns more[] = {columnsOfU(number)};
        solveColumns(more);
      };
      if (done + warps <= valueTiles)
        rest();
      else
        g.ifThen(g.lt(number, valueTiles), rest);
    }
  }

  Layout at;
  int64_t warpsPerTile;
  Value tile, channel;                      // of this thread's 16 rows by 2 channels
  Values query, keys;                       // of its rows, packed
  SmallVector<Pair> gates;
  Values squares = Values(2 * tileRows);
  Value length, product, factor;            // of row lane % 16
  Pair grown;                               // exp(R)
};

} // namespace

std::optional<GpuLaunch> k3::configureKdaChunkPrepare(KdaChunkPrepareOp op, Phase, const GpuTarget &target) {
  int64_t key = getStaticNamedDim(op, "K"), value = getStaticNamedDim(op, "V");
  if (getStaticNamedDim(op, "L") != rows || (key != 64 && key != 128) || ShapedType::isDynamic(value) || value % 16 != 0)
    return std::nullopt;
  for (Value part : {op.getQg(), op.getW(), op.getU(), op.getKd(), op.getAqk()})
    if (!getElementTypeOrSelf(part.getType()).isBF16())
      return std::nullopt;
  bool bounded = op.getAnchor() != Anchor::pairwise;
  int64_t sharedBytes = bounded ? boundedPrepareSharedBytes(key, value) : Layout(key, value).total;
  if (sharedBytes > target.sharedBytesPerBlock)
    return std::nullopt;
  GpuLaunch launch;
  launch.strategy = "mma";
  // Blocks of neighbouring heads read neighbouring memory.
  launch.grid = {{"H", 1}, {"C", 1}};
  launch.threads = bounded ? boundedPrepareThreads(key) : 2 * key;
  launch.sharedBytes = sharedBytes;
  return launch;
}

LogicalResult k3::emitKdaChunkPrepare(OpBuilder &b, KdaChunkPrepareOp op, KernelConfigAttr config,
                                      const GpuTarget &target) {
  if (op.getAnchor() != Anchor::pairwise)
    emitBoundedPrepare(b, op, config, target);
  else
    PairwisePrepare(b, op, config, target, Layout(getStaticNamedDim(op, "K"), getStaticNamedDim(op, "V"))).emit();
  return success();
}
