//===- EmitKdaScan.cpp - the sequential part of chunked KDA on tensor cores -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// One block walks the chunks of a sequence for one head and 64 columns of V. Its state, transposed (64 V x K), stays in
// the registers of one warpgroup as the sums of a wgmma, and so do all intermediate results: a result rounded in pairs is
// the A operand of the next product, so nothing but operands B ever goes through shared memory. With X^T for transposed
// values:
//
//   P^T = U^T - S^T W^T        the new values Vn of the chunk
//   S^T <- S^T diag(gl) + P^T KD
//   O^T = S_old^T QG^T + P^T AQK^T
//
// Only P -> S -> P is a chain; O runs behind it. A warp loads the operands of the next chunks by tensor maps, one or two
// warps write the output tiles to memory. All meet at mbarriers only:
//
//   full[s], empty[s]           operands of stage s have arrived / are not needed any more
//   outFull[b], outEmpty[b]     output tile b is written / read
//
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/Tile/Atoms.h"
#include "lib/Codegen/GPU/Tile/GpuBuilder.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

/// Rows of a chunk, columns of V per block, columns of a tile in shared memory (128 bytes of bf16).
constexpr int64_t rows = 64, blockValues = 64, tileColumns = 64;
constexpr int64_t tileBytes = rows * tileColumns * 2;
constexpr int64_t consumerWarps = 4, outTiles = 2;

/// Where everything is in shared memory.
struct Layout {
  int64_t stages, keyTiles, gatesBytes, outBytes;
  // In a stage:
  int64_t w = 0, qg, kd, u, aqk, stageBytes;
  // In the block: decays of each stage and one vector of ones.
  int64_t out, gates, ones, bars, total;

  Layout(int64_t key, bool outIsF32, int64_t limit) {
    keyTiles = key / tileColumns;
    gatesBytes = 4 * key;
    outBytes = rows * blockValues * (outIsF32 ? 4 : 2);
    qg = keyTiles * tileBytes;
    kd = 2 * qg;
    u = 3 * qg;
    aqk = u + tileBytes;
    stageBytes = aqk + tileBytes;
    for (stages = 4; stages > 2 && getTotal() > limit; --stages)
      ;
    out = stages * stageBytes;
    gates = out + outTiles * outBytes;
    ones = gates + stages * gatesBytes;
    bars = ones + gatesBytes;
    total = getTotal();
  }
  int64_t loadedBytes() const { return stageBytes + gatesBytes; }

private:
  int64_t getTotal() const {
    return stages * (stageBytes + gatesBytes) + outTiles * outBytes + gatesBytes + 16 * (stages + outTiles);
  }
};

class ScanEmitter {
public:
  ScanEmitter(OpBuilder &b, KdaChunkScanOp op, KernelConfigAttr config, const GpuTarget &target)
      : g(b, op.getLoc(), target, config), op(op), key(getStaticNamedDim(op, "K")),
        outIsF32(GpuBuilder::elementType(op.getOut()).isF32()), at(key, outIsF32, target.sharedBytesPerBlock),
        storeWarps(g.warps() - consumerWarps - 1) {}

  void emit() {
    firstValue = g.mul(g.blockId(0), blockValues);
    head = g.blockId(1);
    sequence = g.blockId(2);
    heads = g.dim(op.getQg(), 1);
    // The same for all threads of the block. An empty sequence leaves its state as it is.
    g.ifThen(g.lt(sequence, g.dim(op.getSlots(), 0)), [&] {
      firstChunk = g.load(op.getChunkCu(), {sequence}, /*readOnly=*/true);
      chunkCount = g.sub(g.load(op.getChunkCu(), {g.add(sequence, 1)}, /*readOnly=*/true), firstChunk);
      g.ifThen(g.gt(chunkCount, 0), [&] { emitSequence(); });
    });
  }

private:
  using Values = SmallVector<Value>;
  using Fragments = SmallVector<SmallVector<Value>>;

  //===--- barriers ---===//
  Value bar(int64_t first, Value number) { return g.advance(g.shared(at.bars + 8 * first), number, g.i64()); }
  Value full(Value stage) { return bar(0, stage); }
  Value empty(Value stage) { return bar(at.stages, stage); }
  Value outFull(Value tile) { return bar(2 * at.stages, tile); }
  Value outEmpty(Value tile) { return bar(2 * at.stages + outTiles, tile); }

  /// A position in a ring of stages: number and parity of its phase.
  struct Position {
    Value stage, parity;
  };
  Position next(Position p) {
    Value stage = g.add(p.stage, 1), wraps = g.eq(stage, at.stages);
    return {g.select(wraps, g.i32(0), stage), g.select(wraps, g.bitXor(p.parity, 1), p.parity)};
  }
  Value stageOffset(Value stage) { return g.mul(stage, at.stageBytes); }
  Value gatesOf(Value stage) { return g.add(g.mul(stage, at.gatesBytes), at.gates); }
  Value outTile(Value chunk) { return g.bitAnd(chunk, outTiles - 1); }
  /// Parity of the phase in which the tile of `chunk` is filled.
  Value outParity(Value chunk) { return g.bitAnd(g.shr(chunk, llvm::Log2_64(outTiles)), 1); }
  Value flip(Value parity) { return g.bitXor(parity, 1); }

  void emitSequence() {
    g.ifFirstThread([&] {
      for (int64_t i = 0; i < at.stages; ++i) {
        initBarrier(g, full(g.i32(i)), 1);
        initBarrier(g, empty(g.i32(i)), consumerWarps * g.target.warpSize);
      }
      for (int64_t i = 0; i < outTiles; ++i) {
        initBarrier(g, outFull(g.i32(i)), consumerWarps * g.target.warpSize);
        initBarrier(g, outEmpty(g.i32(i)), storeWarps * g.target.warpSize);
      }
      fenceBarriers(g);
    });
    g.ifThen(g.lt(g.threadId(), key), [&] {
      g.storeRaw(g.f32(1), g.advance(g.shared(at.ones), g.threadId(), g.f32()));
    });
    g.barrier();
    Value warp = g.warpId();
    g.ifThen(g.lt(warp, consumerWarps), [&] { emitConsumer(warp); });
    g.ifThen(g.eq(warp, consumerWarps), [&] {
      g.ifThen(g.eq(g.laneId(), 0), [&] { emitLoads(); });
    });
    g.ifThen(g.gt(warp, consumerWarps), [&] { emitStores(g.sub(warp, consumerWarps + 1)); });
  }

  //===--- loads: one thread ---===//
  void emitLoads() {
    g.loop(g.i32(0), chunkCount, g.i32(1), {g.i32(0), g.i32(0)}, [&](Value chunk, ValueRange ring) {
      Position p{ring[0], ring[1]};
      waitBarrier(g, empty(p.stage), flip(p.parity));
      Value bar = full(p.stage), stage = g.shared(stageOffset(p.stage));
      arriveExpecting(g, bar, g.i32(at.loadedBytes()));
      Value number = g.add(firstChunk, chunk), row = g.mul(g.add(g.mul(number, heads), head), rows);
      auto load = [&](int64_t offset, unsigned map, Value column) {
        loadBox(g, g.advance(stage, offset, g.i8()), g.tensorMap(map), {column, row}, bar);
      };
      // In the order in which they are needed.
      load(at.u, 2, firstValue);
      for (int64_t i = 0; i < at.keyTiles; ++i)
        load(at.w + i * tileBytes, 1, g.i32(i * tileColumns));
      loadBulk(g, g.shared(gatesOf(p.stage)), g.element(op.getGl(), {number, head}), g.i32(at.gatesBytes), bar);
      for (int64_t i = 0; i < at.keyTiles; ++i)
        load(at.kd + i * tileBytes, 3, g.i32(i * tileColumns));
      for (int64_t i = 0; i < at.keyTiles; ++i)
        load(at.qg + i * tileBytes, 0, g.i32(i * tileColumns));
      load(at.aqk, 4, g.i32(0));
      Position after = next(p);
      return Values{after.stage, after.parity};
    });
  }

  //===--- stores: whole warps ---===//
  /// Byte of 16-byte piece `piece` of row `row` in an output tile. Rows are swizzled so that neither the warps that fill
  /// the tile by columns nor those that read it by rows meet in a bank.
  Value outPiece(Value row, Value piece) {
    if (outIsF32)
      return g.add(g.mul(row, 4 * blockValues),
                   g.bitXor(g.shl(piece, 4), g.shl(g.bitAnd(g.shr(row, 1), 3), 5)));
    return g.add(g.mul(row, 2 * blockValues), g.shl(g.bitXor(piece, g.bitAnd(row, 7)), 4));
  }

  void emitStores(Value storeWarp) {
    int64_t perPiece = outIsF32 ? 4 : 8, pieces = blockValues / perPiece, rowsAtOnce = g.target.warpSize / pieces;
    Type element = GpuBuilder::elementType(op.getOut()), run = g.vectorOf(4, g.i32());
    Value lane = g.laneId(), piece = g.rem(lane, pieces);
    Value row0 = g.add(g.mul(storeWarp, rowsAtOnce), g.div(lane, pieces));
    Value column = g.add(firstValue, g.mul(piece, perPiece));
    int64_t rowDistance = cast<MemRefType>(op.getOut().getType()).getStridesAndOffset().first[0];
    g.loop(chunkCount, [&](Value chunk) {
      Value number = g.add(firstChunk, chunk);
      Value first = g.load(op.getChunks(), {number, g.i32(0)}, /*readOnly=*/true);
      Value count = g.load(op.getChunks(), {number, g.i32(1)}, /*readOnly=*/true);
      Value to = g.element(op.getOut(), {g.add(first, row0), head, column});
      Value tile = outTile(chunk);
      waitBarrier(g, outFull(tile), outParity(chunk));
      Value from = g.shared(g.add(g.mul(tile, at.outBytes), at.out));
      for (int64_t i = 0; i < rows; i += rowsAtOnce * storeWarps) {
        Value row = g.add(row0, i);
        Value values = g.loadRaw(g.advance(from, outPiece(row, piece), g.i8()), run);
        g.ifThen(g.lt(row, count), [&] { g.storeRaw(values, g.advance(to, i * rowDistance, element)); });
      }
      arrive(g, outEmpty(tile));
    });
  }

  //===--- products: the warpgroup ---===//
  /// One step of 16 columns in tiles of 64: 32 bytes along a row, then the next tile.
  static int64_t stepBytes(int64_t step) { return step / 4 * tileBytes + step % 4 * 32; }
  static Values flatten(const Fragments &fragments) {
    Values all;
    for (const auto &step : fragments)
      all.append(step.begin(), step.end());
    return all;
  }

  /// Where element i of the thread's part of the state is in memory: rows of V, columns of K in pairs.
  Value statePointer(int64_t i) {
    int64_t tile = i / 4, half = i / 2 % 2;
    return g.advance(stateBase, 8 * half * key + 8 * tile, g.f32());
  }

  void emitConsumer(Value warp) {
    Value lane = g.laneId(), pair = g.mul(g.rem(lane, 4), 2);
    Value slot = g.load(op.getSlots(), {sequence}, /*readOnly=*/true);
    Value valueRow = g.add(firstValue, g.add(g.mul(warp, 16), g.div(lane, 4)));
    stateBase = g.element(op.getState(), {slot, head, valueRow, pair});
    // Rows (tokens) and pieces (8 values) of the 8 x 8 matrices that this lane addresses, for transposed access.
    Value matrix = g.div(lane, 8), row = g.rem(lane, 8);
    Value token = g.add(g.mul(g.div(matrix, 2), 8), row);
    Value piece = g.add(g.mul(warp, 2), g.rem(matrix, 2));
    matrixOffset = g.add(g.mul(token, 2 * tileColumns), g.shl(g.bitXor(piece, row), 4));
    pairOffset = g.mul(pair, 4);
    outRow = pair;
    outValue = g.add(g.mul(warp, 16), g.div(lane, 4));
    wDescriptor = makeDescriptor(g, g.shared(at.w), 1024);
    qgDescriptor = makeDescriptor(g, g.shared(at.qg), 1024);
    aqkDescriptor = makeDescriptor(g, g.shared(at.aqk), 1024);
    kdDescriptor = makeDescriptor(g, g.shared(at.kd), 1024, /*leading=*/tileBytes);

    Values state;
    for (int64_t i = 0; i < key / 2; i += 2) {
      Values two = g.loadFloats(statePointer(i), g.f32(), 2);
      state.append(two);
    }
    // New values of the first chunk; then the loop, whose carried values are all complete: no product is in flight across
    // its end.
    Value zero = g.i32(0), none = g.i32(0);
    waitBarrier(g, full(zero), zero);
    Fragments oldState = toFragments(g, state);
    Values fresh = startFresh(oldState, loadValues(none), none);
    state = decay(state, g.shared(at.gates));
    fresh = wgmmaWait(g, 0, fresh);

    Values carried = state;
    carried.append(fresh);
    carried.append(flatten(oldState));
    carried.append({zero, zero});
    Values last = g.loop(zero, chunkCount, g.i32(1), carried, [&](Value chunk, ValueRange values) {
      return emitChunk(chunk, values);
    });
    for (int64_t i = 0; i < key / 2; i += 2)
      g.storeFloats({last[i], last[i + 1]}, statePointer(i), g.f32());
  }

  Values emitChunk(Value chunk, ValueRange carried) {
    int64_t stateSize = key / 2, freshSize = rows / 2, steps = key / 16;
    Values state(carried.take_front(stateSize));
    Values fresh(carried.slice(stateSize, freshSize));
    Fragments oldState;
    for (int64_t i = 0; i < steps; ++i) {
      ValueRange step = carried.slice(stateSize + freshSize + 4 * i, 4);
      oldState.emplace_back(step.begin(), step.end());
    }
    Position here{carried[carried.size() - 2], carried[carried.size() - 1]}, after = next(here);
    Value offset = stageOffset(here.stage);

    // S^T + P^T KD, and the output behind it.
    Fragments news = toFragments(g, fresh);
    wgmmaFence(g);
    for (auto [i, step] : llvm::enumerate(news))
      state = wgmma(g, step, advanceDescriptor(g, advanceDescriptor(g, kdDescriptor, offset), i * 2048), state,
                    {.transposeB = true});
    wgmmaCommit(g);
    Values out(rows / 2, g.f32(0));
    for (auto [i, step] : llvm::enumerate(oldState))
      out = wgmma(g, step, advanceDescriptor(g, advanceDescriptor(g, qgDescriptor, offset), stepBytes(i)), out,
                  {.overwrite = i == 0});
    for (auto [i, step] : llvm::enumerate(news))
      out = wgmma(g, step, advanceDescriptor(g, advanceDescriptor(g, aqkDescriptor, offset), stepBytes(i)), out);
    wgmmaCommit(g);

    // The next chunk's values while the tensor cores work. After the last chunk its own stage is read again, for nothing.
    Value isLast = g.eq(g.add(chunk, 1), chunkCount);
    Position ahead{g.select(isLast, here.stage, after.stage), g.select(isLast, here.parity, after.parity)};
    Value aheadOffset = stageOffset(ahead.stage);
    waitBarrier(g, full(ahead.stage), ahead.parity);
    Values values = loadValues(aheadOffset);
    state = wgmmaWait(g, 1, state);
    Fragments newState = toFragments(g, state);
    fresh = startFresh(newState, values, aheadOffset);

    // The output is complete: nobody reads this stage any more. Old fragments may not be overwritten earlier.
    out = wgmmaWait(g, 1, out, flatten(oldState));
    arrive(g, empty(here.stage));
    storeOut(out, chunk);
    Value gates = g.select(isLast, g.i32(at.ones), gatesOf(ahead.stage));
    state = decay(state, g.shared(gates));

    Values complete = fresh;
    complete.append(flatten(newState));
    complete = wgmmaWait(g, 0, complete);
    Values results = state;
    results.append(complete);
    results.append({after.stage, after.parity});
    return results;
  }

  /// U^T of a stage as sums.
  Values loadValues(Value offset) {
    Value base = g.advance(g.shared(g.add(offset, at.u)), matrixOffset, g.i8());
    Values sums;
    for (int64_t tokens = 0; tokens < rows; tokens += 16)
      for (Value two : loadMatrices(g, g.advance(base, tokens * 2 * tileColumns, g.i8()), 4, /*transposed=*/true)) {
        auto [low, high] = g.unpackBf16(two);
        sums.append({low, high});
      }
    return sums;
  }

  /// Starts P^T = U^T - S^T W^T.
  Values startFresh(const Fragments &state, Values sums, Value offset) {
    wgmmaFence(g);
    for (auto [i, step] : llvm::enumerate(state))
      sums = wgmma(g, step, advanceDescriptor(g, advanceDescriptor(g, wDescriptor, offset), stepBytes(i)), sums,
                   {.negateA = true});
    wgmmaCommit(g);
    return sums;
  }

  Values decay(ArrayRef<Value> state, Value gates) {
    Value base = g.advance(gates, pairOffset, g.i8());
    Values results;
    for (int64_t tile = 0; tile < key / 8; ++tile) {
      Values factors = g.loadFloats(g.advance(base, 32 * tile, g.i8()), g.f32(), 2);
      for (int64_t i = 0; i < 4; ++i)
        results.push_back(g.mul(state[4 * tile + i], factors[i % 2]));
    }
    return results;
  }

  void storeOut(ArrayRef<Value> out, Value chunk) {
    Value tile = outTile(chunk);
    waitBarrier(g, outEmpty(tile), flip(outParity(chunk)));
    Value base = g.shared(g.add(g.mul(tile, at.outBytes), at.out));
    if (outIsF32) {
      // Row 8 j + pair + e: bits 1 and 2 of the row are those of `pair`, so one swizzle serves all.
      Value swizzle = g.shl(g.bitAnd(g.shr(outRow, 1), 3), 5);
      for (int64_t half = 0; half < 2; ++half) {
        Value column = g.bitXor(g.mul(g.add(outValue, 8 * half), 4), swizzle);
        Value pointer = g.advance(base, g.add(g.mul(outRow, 4 * blockValues), column), g.i8());
        for (int64_t j = 0; j < rows / 8; ++j)
          for (int64_t e = 0; e < 2; ++e)
            g.storeRaw(out[4 * j + 2 * half + e], g.advance(pointer, (8 * j + e) * 4 * blockValues, g.i8()));
      }
    } else {
      Value pointer = g.advance(base, matrixOffset, g.i8());
      for (int64_t j = 0; j < rows / 8; j += 2) {
        Values registers;
        for (int64_t i = 4 * j; i < 4 * j + 8; i += 2)
          registers.push_back(g.packBf16(out[i], out[i + 1]));
        storeMatrices(g, g.advance(pointer, j * 8 * 2 * tileColumns, g.i8()), registers, /*transposed=*/true);
      }
    }
    arrive(g, outFull(tile));
  }

  GpuBuilder g;
  KdaChunkScanOp op;
  int64_t key;
  bool outIsF32;
  Layout at;
  int64_t storeWarps;
  Value firstValue, head, sequence, heads, firstChunk, chunkCount;
  // Of a consumer's thread:
  Value stateBase, matrixOffset, pairOffset, outRow, outValue;
  Value wDescriptor, qgDescriptor, aqkDescriptor, kdDescriptor;
};

} // namespace

std::optional<GpuLaunch> k3::configureKdaChunkScan(KdaChunkScanOp op, Phase, const GpuTarget &target) {
  int64_t key = getStaticNamedDim(op, "K"), value = getStaticNamedDim(op, "V");
  if (!target.wgmma || !target.tma || getStaticNamedDim(op, "L") != rows || (key != 64 && key != 128) ||
      ShapedType::isDynamic(value) || value % blockValues != 0)
    return std::nullopt;
  GpuLaunch launch;
  for (Value part : {op.getQg(), op.getW(), op.getU(), op.getKd(), op.getAqk()}) {
    std::optional<int64_t> binding = getBinding(part);
    if (!binding || !getElementTypeOrSelf(part.getType()).isBF16())
      return std::nullopt;
    launch.tensorMaps.push_back({*binding, {rows, tileColumns}, /*swizzle=*/2 * tileColumns});
  }
  bool outIsF32 = getElementTypeOrSelf(op.getOut().getType()).isF32();
  launch.strategy = "wgmma";
  launch.grid = {{"V", blockValues}, {"H", 1}, {"N", 1}};
  launch.threads = (consumerWarps + 1 + (outIsF32 ? 2 : 1)) * target.warpSize;
  launch.sharedBytes = Layout(key, outIsF32, target.sharedBytesPerBlock).total;
  return launch;
}

LogicalResult k3::emitKdaChunkScan(OpBuilder &b, KdaChunkScanOp op, KernelConfigAttr config, const GpuTarget &target) {
  ScanEmitter(b, op, config, target).emit();
  return success();
}
