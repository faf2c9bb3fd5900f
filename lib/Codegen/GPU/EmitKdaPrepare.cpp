//===- EmitKdaPrepare.cpp - the state-free part of chunked KDA on tensor cores -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// One block makes one chunk of 64 rows of one head. All exponents are in base 2 and relative to a row of a tile of 16 rows,
// of which a chunk has four; R_I is the sum of the gates up to and including the first row of tile I, R_4 that of the whole
// chunk. A thread has two channels of one tile:
//
//   G_i - R_I <= 0 for its rows i                  scales q and k of the rows of a product
//   R_{I+1} - G_j <= 0                             scales k of the columns of tiles further down,
//   R_{I'} - R_{I+1} <= 0, per channel             the rest of the way to tile I'
//
// so Akk_ij = sum_d k_i exp(G_i - R_I) k_j exp(R_J+1 - G_j) exp(R_I - R_J+1) has no exponent above 0. Inside a tile on the
// diagonal, gates with a bound use exp(R_I - G_j) >= 1 (at most 15 times the bound). Gates without one halve the tile again
// and again: of the rows of a pair (i, j), the highest bit s in which i and j differ says at which level they meet, and
// their exponents are taken relative to the row between their halves. All products of a level are one step of 16 x 8: rows
// of q and of k with bit s, columns without.
//
// w and u solve (I + L) X = diag(b) Y with L = strict_lower(diag(b) Akk) by tiles: X_I = T_I (b Y_I - sum_J L_IJ X_J), T_I
// the inverse of the tile on the diagonal (forward substitution in f32). This runs on X^T, whose sums are the operands of
// the next product as they stand; a warp has 16 columns of w or u, and no other warp needs them.
//
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/Tile/Atoms.h"
#include "lib/Codegen/GPU/Tile/GpuBuilder.h"
#include <limits>

using namespace mlir;
using namespace mlir::k3;

namespace {

constexpr int64_t rows = 64, tileRows = 16, tiles = rows / tileRows;
constexpr double log2e = 1.44269504088896341;
/// Inside the root, on the sum of squares.
constexpr double l2Eps = 1e-6;
/// Bytes after each row of a tile, so that rows start in different banks.
constexpr int64_t padding = 16;
constexpr int64_t pairPitch = 2 * rows + padding, inversePitch = 2 * tileRows + padding, diagonalPitch = 4 * (tileRows + 4);
/// Pairs of tiles below the diagonal; those of row tile I come after those of the tiles before it.
constexpr int64_t lowerPairs = tiles * (tiles - 1) / 2;
/// Rows of a level: 8 of q, 8 of k, 8 columns.
constexpr int64_t levelRows = 24;

constexpr int64_t firstPair(int64_t tile) { return tile * (tile - 1) / 2; }

/// Where everything is in shared memory, in bytes. Values that come by 16 rows have `keyPitch` bytes a row.
struct Layout {
  int64_t keyPitch, valuePitch;
  int64_t q, k, near, far, pairs, diagonal, inverse, lengths, scores, gates, factors, rowFactors, betas, extent, total;

  Layout(int64_t key, int64_t value, bool bounded) : keyPitch(2 * key + padding), valuePitch(2 * value + padding) {
    int64_t end = 0;
    auto place = [&](int64_t bytes) {
      int64_t offset = end;
      end = llvm::alignTo(end + bytes, 16);
      return offset;
    };
    q = place(rows * keyPitch);      // q' exp(G - R)
    k = place(rows * keyPitch);      // k' exp(G - R), later w
    // k' exp(R - G), or the rows of a level; later v and u.
    near = place(std::max((bounded ? rows : tiles * levelRows) * keyPitch, rows * valuePitch));
    far = place(lowerPairs * tileRows * keyPitch); // k' exp(R_I - G) for the pairs (I, J)
    pairs = place(rows * pairPitch);               // -L
    diagonal = place(rows * diagonalPitch);        // -L of the tiles on the diagonal, f32
    // Of each warp, partial sums over its channels; later T.
    inverse = lengths = place(std::max(rows * inversePitch, key / 16 * 64 * 4));
    scores = place(bounded ? 0 : rows * inversePitch); // Aqk of the tiles on the diagonal
    gates = place(2 * tiles * key * 4);            // of a tile: its first row's gate; the sum of the others
    factors = place(tiles * key * 4);              // exp(R)
    rowFactors = place(2 * rows * 4);              // what brings rows of q and of k to what the recurrence uses
    betas = place(rows * 4);                       // b
    extent = place(8);                             // first row and number of rows
    total = end;
  }
};

class PrepareEmitter {
public:
  PrepareEmitter(OpBuilder &b, KdaChunkPrepareOp op, KernelConfigAttr config, const GpuTarget &target)
      : g(b, op.getLoc(), target, config), op(op), key(getStaticNamedDim(op, "K")), value(getStaticNamedDim(op, "V")),
        bounded(op.getAnchor() != Anchor::pairwise), at(key, value, bounded), warpsPerTile(key / 64) {}

  void emit() {
    // Several blocks hide each other's barriers. That leaves 128 registers; more columns of u need more.
    if (value <= key)
      g.setMinBlocks(key == 128 ? 2 : bounded ? 4 : 3);
    head = g.blockId(0);
    chunk = g.blockId(1);
    g.ifThen(g.lt(chunk, g.dim(op.getChunks(), 0)), [&] { emitChunk(); });
  }

private:
  using Values = SmallVector<Value>;
  /// Two neighbouring channels.
  using Pair = std::array<Value, 2>;

  void emitChunk() {
    first = g.load(op.getChunks(), {chunk, g.i32(0)}, /*readOnly=*/true);
    count = g.load(op.getChunks(), {chunk, g.i32(1)}, /*readOnly=*/true);
    locate();
    g.ifFirstThread([&] {
      g.storeRaw(first, g.shared(at.extent));
      g.storeRaw(count, g.shared(at.extent + 4));
    });
    if (!bounded)
      clearDiagonals();
    loadRows();
    sumSquares();
    makeGates();
    sumGates();
    nextPhase();
    findLengths();
    findAnchors();
    // Not for the order of accesses: so that each phase has its registers for itself.
    g.warpBarrier();
    if (bounded) {
      storeScaled();
    } else {
      storeScaledDown();
      g.warpBarrier();
      storeScaledFar();
    }
    nextPhase();
    multiplyTiles();
    if (!bounded)
      for (int64_t distance = tileRows / 2; distance > 0; distance /= 2)
        multiplyLevel(distance);
    nextPhase();
    clearUpperScores();
    loadValues();
    invertDiagonals();
    if (!bounded)
      storeDiagonalScores();
    waitCopies(g, 0);
    nextPhase();
    solve();
  }

  void nextPhase() {
    g.barrier();
    locate();
  }

  /// Where this thread is. Made anew in each phase: what follows from it is cheap, and would take registers in between.
  void locate() {
    head = renew(g.blockId(0));
    chunk = renew(g.blockId(1));
    thread = renew(g.threadId());
    lane = g.rem(thread, g.target.warpSize);
    warp = g.shuffleFrom(g.div(thread, g.target.warpSize), g.i32(0));
    tile = g.div(warp, warpsPerTile);
    channel = g.mul(g.rem(thread, key / 2), 2);
  }

  //===--- small things ---===//
  Value shared(int64_t base, Value offset) { return g.advance(g.shared(base), offset, g.i8()); }
  /// Row `row` of a tile with `pitch`, from byte `column` on.
  Value rowOf(int64_t base, Value row, int64_t pitch, Value column) {
    return shared(base, g.add(g.mul(row, pitch), column));
  }
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
  /// The same value, but a new one to the compiler: what is made of it will not be kept from one use to the next. For 16
  /// rows that would take more registers than there are.
  Value renew(Value x) { return g.ptx(x.getType(), "mov.b32 $0, $1;", x, /*volatile_=*/true); }
  Pair unpack(Value packed) {
    auto [low, high] = g.unpackBf16(renew(packed));
    return {low, high};
  }

  //===--- inputs ---===//
  /// Two channels of a row, as f32 and packed.
  struct Loaded {
    Pair values;
    Value packed;
  };
  Loaded loadChannels(Value from, Value pointer) {
    if (!g.elementType(from).isBF16()) {
      Values two = g.loadFloats(pointer, g.f32(), 2, /*readOnly=*/true);
      Pair values{two[0], two[1]};
      return {values, pack(values)};
    }
    Value packed = g.loadRaw(pointer, g.i32(), /*readOnly=*/true);
    auto [low, high] = g.unpackBf16(packed);
    return {{low, high}, packed};
  }

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
                                                : g.element(tensors[n], {row, head, channel}));
        };
        Loaded q = load(0), k = load(1), gate = load(2);
        if (!whole)
          gate.values = select(g.lt(chunkRow(i), count), gate.values, noDecay());
        all.append({q.packed, k.packed, gate.values[0], gate.values[1], dot(q.values, q.values), dot(k.values, k.values)});
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
    g.ifThen(g.lt(thread, rows), [&] {
      Value beta = g.load(op.getBeta(), {g.add(first, g.min(thread, last)), head}, /*readOnly=*/true);
      beta = g.select(g.lt(thread, count), sigmoid(beta), g.f32(0));
      g.storeRaw(beta, g.advance(g.shared(at.betas), thread, g.f32()));
    });
  }

  /// A gate of 0, or the logit of which one is made.
  Pair noDecay() {
    Value x = g.f32(op.getGate() ? -std::numeric_limits<double>::infinity() : 0);
    return {x, x};
  }

  Value sigmoid(Value x) { return g.reciprocal(g.add(g.exp2(g.mul(x, g.f32(-log2e))), g.f32(1))); }

  /// Log-decays in base 2.
  void makeGates() {
    if (!op.getGate()) {
      for (Pair &gate : gates)
        gate = scale(gate, g.f32(log2e));
      return;
    }
    Values bias = g.loadFloats(g.element(op.getDtBias(), {head, channel}), g.elementType(op.getDtBias()), 2, true);
    Value rate = op.getALog() ? g.exp(g.load(op.getALog(), {head}, /*readOnly=*/true)) : g.f32(1);
    if (*op.getGate() == GateKind::bounded_sigmoid) {
      // bound * sigmoid(rate (z + bias)); the exponent takes one multiply-add.
      Value slope = g.mul(rate, g.f32(-log2e)), bound = g.f32(op.getLowerBound()->convertToDouble() * log2e);
      Pair shift = {g.mul(bias[0], slope), g.mul(bias[1], slope)};
      for (Pair &gate : gates)
        gate = both([&](int c) {
          Value power = g.exp2(g.fma(gate[c], slope, shift[c]));
          return g.mul(bound, g.reciprocal(g.add(power, g.f32(1))));
        });
      return;
    }
    // -rate * softplus(y): log2(1 + 2^(y log2 e)), whose argument is 1 to 2 with -|y| in the exponent.
    Value slope = g.neg(rate);
    for (Pair &gate : gates)
      gate = both([&](int c) {
        Value y = g.mul(g.add(gate[c], bias[c]), g.f32(log2e));
        Value rest = g.log2(g.add(g.exp2(g.neg(g.abs(y))), g.f32(1)));
        return g.mul(slope, g.add(g.max(y, g.f32(0)), rest));
      });
  }

  //===--- lengths of q and k ---===//
  /// Sums of values[i] over the lanes; lane l gets that of values[l % values.size()].
  Value reduceAcross(Values values) {
    int64_t distance = 16;
    for (; distance >= static_cast<int64_t>(values.size()); distance /= 2)
      for (Value &x : values)
        x = g.add(x, g.shuffleXor(x, distance));
    for (; distance > 0; distance /= 2) {
      Value upper = g.ne(g.bitAnd(lane, distance), 0);
      Values kept;
      for (int64_t i = 0; i < distance; ++i) {
        Value own = g.select(upper, values[i + distance], values[i]);
        Value sent = g.select(upper, values[i], values[i + distance]);
        kept.push_back(g.add(own, g.shuffleXor(sent, distance)));
      }
      values = kept;
    }
    return values.front();
  }

  Value dot(Pair x, Pair y) { return g.fma(x[0], y[0], g.mul(x[1], y[1])); }

  /// Lane l: of row l % 16, q for l < 16, else k; and for gates without bound q k.
  void sumSquares() {
    length = op.getL2norm() ? reduceAcross(squares) : Value();
    if (!bounded) {
      Values products;
      for (int64_t i = 0; i < tileRows; ++i)
        products.push_back(dot(unpack(query[i]), unpack(keys[i])));
      product = reduceAcross(products);
    }
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
      factor = g.mul(factor, g.rsqrt(g.add(join(length, 0), g.f32(l2Eps))));
    factor = g.select(g.lt(row, count), factor, g.f32(0));
    if (bounded)
      return;
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

  /// Gates with a bound: exp(R_next - G) is exp(R - G) exp(R_next - R), the first factor at most 15 times the bound in the
  /// exponent, the second at least -16 times, so that neither leaves f32's range.
  void storeScaled() {
    Value row = g.add(g.mul(chunkRow(0), at.keyPitch), channelBytes());
    Value queryRow = shared(at.q, row), keyRow = shared(at.k, row), nearRow = shared(at.near, row);
    Value qgRow = g.element(op.getQg(), {chunk, head, chunkRow(0), channel});
    Value kdRow = g.element(op.getKd(), {chunk, head, chunkRow(0), channel});
    Ways ways = findWays();
    Pair toNext = exp2(ways.toNext), toEnd = exp2(ways.next[tiles]);
    SmallVector<Pair> far;
    Pair sum = zeroPair();
    for (int64_t i = 0; i < tileRows; ++i) {
      if (i > 0)
        sum = add(sum, gates[i]);
      Pair down = exp2(sum), up = exp2(both([&](int c) { return g.neg(sum[c]); }));
      Pair q = mul(scaledQuery(i), down), k = scaledKey(i), near = mul(k, up);
      far.push_back(mul(near, toNext));
      g.storeRaw(pack(q), g.advance(queryRow, i * at.keyPitch, g.i8()));
      g.storeRaw(pack(mul(k, down)), g.advance(keyRow, i * at.keyPitch, g.i8()));
      g.storeRaw(pack(near), g.advance(nearRow, i * at.keyPitch, g.i8()));
      g.storeFloats(mul(q, grown), g.advance(qgRow, i * key, g.bf16()), g.bf16());
      g.storeFloats(mul(far[i], toEnd), g.advance(kdRow, i * key, g.bf16()), g.bf16());
    }
    storeFar(far, ways);
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

  //===--- the same for gates without a bound ---===//
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
  /// Addresses of this lane's rows in fragments (see Atoms.h): A of 16 rows and one step; B of 8 rows and two steps.
  Value rowsOffset(int64_t pitch) {
    Value row = g.add(g.mul(g.rem(g.div(lane, 8), 2), 8), g.rem(lane, 8));
    return g.add(g.mul(row, pitch), g.mul(g.div(lane, 16), 16));
  }
  Value columnsOffset(int64_t pitch) { return g.add(g.mul(g.rem(lane, 8), pitch), g.mul(g.div(lane, 8), 16)); }

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
  Values zeros(int64_t n) { return Values(n, g.f32(0)); }
  Value betaOf(Value row) { return g.loadRaw(g.advance(g.shared(at.betas), row, g.f32()), g.f32()); }

  /// Tiles of Aqk and Akk, a warp 16 rows by 8 columns at a time: those below the diagonal, and with a bound those on it.
  void multiplyTiles() {
    // Columns of 8 of row tile I: 2 I, and 2 more on the diagonal.
    int64_t onDiagonal = bounded ? 1 : 0, total = 0;
    std::array<int64_t, tiles> starts;
    for (int64_t i = 0; i < tiles; ++i) {
      starts[i] = total;
      total += 2 * (i + onDiagonal);
    }
    Value rowOffset = rowsOffset(at.keyPitch), columnOffset = columnsOffset(at.keyPitch);
    g.loop(warp, g.i32(total), g.i32(g.warps()), [&](Value number) {
      Value rowTile = g.i32(0), start = g.i32(0);
      for (int64_t i = 1; i < tiles; ++i) {
        Value reached = g.ge(number, starts[i]);
        rowTile = g.select(reached, g.i32(i), rowTile);
        start = g.select(reached, g.i32(starts[i]), start);
      }
      Value columnGroup = g.sub(number, start);
      Value isDiagonal = g.eq(g.div(columnGroup, 2), rowTile);
      // firstPair(I) * 16 = 8 I (I - 1)
      Value farRow = g.mul(g.add(g.mul(rowTile, g.sub(rowTile, 1)), columnGroup), 8);
      Value column = g.add(g.mul(farRow, at.keyPitch), at.far);
      if (bounded) {
        Value nearRow = g.mul(columnGroup, 8); // 16 I + 8 (group % 2), as columns before it have 16 I
        column = g.select(isDiagonal, g.add(g.mul(nearRow, at.keyPitch), at.near), column);
      }
      Value row = g.add(g.mul(g.mul(rowTile, tileRows), at.keyPitch), rowOffset);
      Values sums[2] = {zeros(4), zeros(4)};
      multiplyRows({shared(at.q, row), shared(at.k, row)}, g.shared(g.add(column, columnOffset)), sums);
      for (int64_t half = 0; half < 2; ++half) {
        Value inTile = g.add(g.div(lane, 4), 8 * half), i = g.add(g.mul(rowTile, tileRows), inTile);
        Value j = g.add(g.mul(columnGroup, 8), g.mul(g.rem(lane, 4), 2));
        Value factor = g.neg(betaOf(i));
        Pair scores, lower;
        for (int64_t e = 0; e < 2; ++e) {
          Value before = g.lt(g.add(j, e), i), upTo = g.le(g.add(j, e), i);
          scores[e] = g.select(upTo, sums[0][2 * half + e], g.f32(0));
          lower[e] = g.select(before, g.mul(sums[1][2 * half + e], factor), g.f32(0));
        }
        g.storeFloats(scores, g.element(op.getAqk(), {chunk, head, i, j}), g.bf16());
        g.storeRaw(pack(lower), shared(at.pairs, g.add(g.mul(i, pairPitch), g.mul(j, 2))));
        if (bounded)
          g.ifThen(isDiagonal, [&] {
            Value inRow = g.sub(j, g.mul(rowTile, tileRows));
            g.storeFloats(lower, shared(at.diagonal, g.add(g.mul(i, diagonalPitch), g.mul(inRow, 4))), g.f32());
          });
      }
    });
  }

  //===--- tiles on the diagonal, gates without a bound ---===//
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
    Value base = shared(at.near, g.add(g.mul(tile, levelRows * at.keyPitch), channelBytes()));
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
      Value a = shared(at.near, g.add(start, rowsOffset(at.keyPitch)));
      Value b = shared(at.near, g.add(g.add(start, 2 * 8 * at.keyPitch), columnsOffset(at.keyPitch)));
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
  /// v to where the columns of the diagonal were; rows past the end become 0.
  void loadValues() {
    Type element = g.elementType(op.getV());
    int64_t perPiece = 8, pieces = value / perPiece;
    first = g.loadRaw(g.shared(at.extent), g.i32());
    count = g.loadRaw(g.shared(at.extent + 4), g.i32());
    Value last = g.sub(count, 1);
    g.forThreads(rows * pieces, [&](Value i) {
      Value row = g.div(i, pieces), column = g.mul(g.rem(i, pieces), perPiece), exists = g.lt(row, count);
      Value from = g.element(op.getV(), {g.add(first, g.min(row, last)), head, column});
      Value to = rowOf(at.near, row, at.valuePitch, g.mul(column, 2));
      if (element.isBF16())
        return copyAsync(g, to, from, 16, g.select(exists, g.i32(16), g.i32(0)));
      // Not as read-only memory: such loads would move up, to where registers are scarce.
      Values values = g.loadFloats(from, element, 4);
      values.append(g.loadFloats(g.advance(from, 4, element), element, 4));
      for (Value &x : values)
        x = g.select(exists, x, g.f32(0));
      g.storeFloats(values, to, g.bf16());
    });
    commitCopies(g);
  }

  /// T = (I + L)^-1 of each tile, a lane per column: T_i = e_i - sum_{j < i} L_ij T_j.
  void invertDiagonals() {
    g.ifThen(g.lt(warp, tiles / 2), [&] {
      Value ofTile = g.add(g.mul(warp, 2), g.div(lane, tileRows)), column = g.rem(lane, tileRows);
      Value row0 = g.mul(ofTile, tileRows);
      Value from = shared(at.diagonal, g.mul(row0, diagonalPitch));
      Value to = shared(at.inverse, g.add(g.mul(row0, inversePitch), g.mul(column, 2)));
      Values inverse;
      for (int64_t i = 0; i < tileRows; ++i) {
        Value x = g.select(g.eq(column, i), g.f32(1), g.f32(0));
        for (int64_t j = 0; j < i; j += 4) {
          Values entries = g.loadFloats(g.advance(from, i * diagonalPitch + 4 * j, g.i8()), g.f32(), 4);
          for (int64_t k = j; k < std::min(i, j + 4); ++k)
            x = g.fma(entries[k - j], inverse[k], x);
        }
        inverse.push_back(x);
        g.storeRaw(g.toBf16(x), g.advance(to, i * inversePitch, g.i8()));
      }
    });
  }

  /// 16 columns of w or u on their way through the tiles of rows.
  struct Columns {
    Value pointer;      ///< this lane's rows of the columns in shared memory
    int64_t pitch;
    Value factors;      ///< exp(R) of this lane's two channels, or null
    SmallVector<Values> solved;
  };

  void solve() {
    int64_t warps = g.warps(), valueTiles = value / 16;
    // As many warps as columns of 16 in w; u follows, with a last round that may not be full.
    Value matrix = g.div(lane, 8);
    Value token = g.add(g.mul(g.div(matrix, 2), 8), g.rem(lane, 8)), side = g.mul(g.rem(matrix, 2), 16);
    auto columnsAt = [&](int64_t base, int64_t pitch, Value first16) {
      return shared(base, g.add(g.add(g.mul(token, pitch), side), g.mul(first16, 32)));
    };
    Value channels = g.add(g.mul(warp, 16), g.div(lane, 4));
    Columns w{columnsAt(at.k, at.keyPitch, warp), at.keyPitch, g.advance(g.shared(at.factors), channels, g.f32()), {}};
    Columns u{columnsAt(at.near, at.valuePitch, warp), at.valuePitch, Value(), {}};
    SmallVector<Columns, 2> both{w};
    if (valueTiles >= warps)
      both.push_back(u);
    solveColumns(both);
    storeColumns(op.getW(), at.k, at.keyPitch, warp);
    int64_t done = 0;
    if (valueTiles >= warps) {
      storeColumns(op.getU(), at.near, at.valuePitch, warp);
      done = warps;
    }
    for (; done < valueTiles; done += warps) {
      Value number = g.add(warp, done);
      auto rest = [&] {
        SmallVector<Columns, 1> more{Columns{columnsAt(at.near, at.valuePitch, number), at.valuePitch, Value(), {}}};
        solveColumns(more);
        storeColumns(op.getU(), at.near, at.valuePitch, number);
      };
      if (done + warps <= valueTiles)
        rest();
      else
        g.ifThen(g.lt(number, valueTiles), rest);
    }
  }

  void solveColumns(MutableArrayRef<Columns> all) {
    // Rows of the operands B: two groups of 8 rows, two of 8 columns.
    Value matrix = g.div(lane, 8), row = g.add(g.mul(g.div(matrix, 2), 8), g.rem(lane, 8));
    Value side = g.mul(g.rem(matrix, 2), 16);
    Value pairRows = shared(at.pairs, g.add(g.mul(row, pairPitch), side));
    Value inverseRows = shared(at.inverse, g.add(g.mul(row, inversePitch), side));
    Value betas = g.advance(g.shared(at.betas), g.mul(g.rem(lane, 4), 2), g.f32());
    for (int64_t i = 0; i < tiles; ++i) {
      // b Y_I: columns of the sums are tokens, rows are channels.
      Values beta = g.loadFloats(g.advance(betas, i * tileRows, g.f32()), g.f32(), 2);
      beta.append(g.loadFloats(g.advance(betas, i * tileRows + 8, g.f32()), g.f32(), 2));
      SmallVector<Values, 2> sums;
      for (Columns &columns : all) {
        Value from = g.advance(columns.pointer, i * tileRows * columns.pitch, g.i8());
        Values values;
        for (Value two : loadMatrices(g, from, 4, /*transposed=*/true)) {
          auto [low, high] = g.unpackBf16(two);
          values.append({low, high});
        }
        for (int64_t n = 0; n < 8; ++n)
          values[n] = g.mul(values[n], beta[n / 4 * 2 + n % 2]);
        if (columns.factors)
          for (int64_t half = 0; half < 2; ++half) {
            Value factor = g.loadRaw(g.advance(columns.factors, i * key + 8 * half, g.f32()), g.f32());
            for (int64_t n = 0; n < 8; ++n)
              if (n / 2 % 2 == half)
                values[n] = g.mul(values[n], factor);
          }
        sums.push_back(values);
      }
      for (int64_t j = 0; j < i; ++j) {
        Values b = loadMatrices(g, g.advance(pairRows, i * tileRows * pairPitch + j * tileRows * 2, g.i8()), 4);
        for (auto [columns, sum] : llvm::zip_equal(all, sums))
          sum = multiplyTile(columns.solved[j], b, sum);
      }
      Values b = loadMatrices(g, g.advance(inverseRows, i * tileRows * inversePitch, g.i8()), 4);
      for (auto [columns, sum] : llvm::zip_equal(all, sums)) {
        Values x(toFragments(g, multiplyTile(Values(toFragments(g, sum).front()), b, zeros(8))).front());
        columns.solved.push_back(x);
        storeMatrices(g, g.advance(columns.pointer, i * tileRows * columns.pitch, g.i8()), x, /*transposed=*/true);
      }
    }
  }

  /// sums (16 x 16) + a b^T.
  Values multiplyTile(ValueRange a, ValueRange b, ValueRange sums) {
    Values left = multiplyStep(g, a, b.take_front(2), sums.take_front(4));
    left.append(multiplyStep(g, a, b.drop_front(2), sums.drop_front(4)));
    return left;
  }

  /// A warp's 16 columns of all rows: 32 bytes of a row at a time.
  void storeColumns(Value to, int64_t base, int64_t pitch, Value first16) {
    g.warpBarrier();
    for (int64_t i = 0; i < rows * 2; i += g.target.warpSize) {
      Value row = g.add(g.div(lane, 2), i / 2), half = g.rem(lane, 2);
      Value from = rowOf(base, row, pitch, g.add(g.mul(first16, 32), g.mul(half, 16)));
      Value run = g.loadRaw(from, g.vectorOf(4, g.i32()));
      g.storeRaw(run, g.element(to, {chunk, head, row, g.add(g.mul(first16, 16), g.mul(half, 8))}));
    }
  }

  GpuBuilder g;
  KdaChunkPrepareOp op;
  int64_t key, value;
  bool bounded;
  Layout at;
  int64_t warpsPerTile;
  Value head, chunk, first, count, thread, lane, warp;
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
  int64_t sharedBytes = Layout(key, value, op.getAnchor() != Anchor::pairwise).total;
  if (sharedBytes > target.sharedBytesPerBlock)
    return std::nullopt;
  GpuLaunch launch;
  launch.strategy = "mma";
  // Blocks of neighbouring heads read neighbouring memory.
  launch.grid = {{"H", 1}, {"C", 1}};
  launch.threads = 2 * key;
  launch.sharedBytes = sharedBytes;
  return launch;
}

LogicalResult k3::emitKdaChunkPrepare(OpBuilder &b, KdaChunkPrepareOp op, KernelConfigAttr config,
                                      const GpuTarget &target) {
  PrepareEmitter(b, op, config, target).emit();
  return success();
}
