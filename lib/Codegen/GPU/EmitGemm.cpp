//===- EmitGemm.cpp - k3.linear of many rows on a GPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// One block per multiprocessor goes through tiles of 128 rows of x by up to 256 of the weight. One thread loads both by
// tensor copies into a ring; two warpgroups multiply, 64 rows each.
//
// A bf16 x is multiplied as it lies in shared memory. An f32 x passes through registers, where it is rounded to bf16 or
// split into three bf16 terms.
//
// Sums leave through shared memory by tensor copies, while the next tile is multiplied; those that are added to what is
// there already, or whose rows do not suit a tensor map, are stored from registers.
//
// Errors. Tensor cores cut off what does not fit into a sum: less than its last place (2^-23 of it), once per
// instruction, always towards zero. Products of a bf16 x, or of one that is rounded to bf16, are one sum of k / 16
// instructions: less than k / 16 * 2^-23 of the largest sum on the way. Products of an f32 x are f32 sums, rounded to
// nearest, of parts of 64 k; a part starts from zero with the 8 instructions of the small terms, which are 2^-8 of the
// result, and has 4 of the large ones: less than 4.04 * 2^-23 of the part, which does not grow with k.
//
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/Tile/Atoms.h"
#include "lib/Codegen/GPU/Tile/Pipeline.h"
#include "lib/Codegen/GPU/Tile/Runs.h"
#include "lib/Codegen/GPU/Tile/Split.h"
#include "lib/Codegen/GPU/Tile/TensorMaps.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

constexpr StringRef strategyName = "gemm";

constexpr int64_t rowTile = 128, depthTile = 64, stepDepth = 16;
constexpr int64_t groupThreads = 128, consumers = 2, threads = (1 + consumers) * groupThreads;
/// Rows of x of a consumer.
constexpr int64_t groupRows = rowTile / consumers, warpRows = groupRows / 4;
/// Row tiles that are gone through before the next columns: their x and the weight stay in the L2 cache.
constexpr int64_t rasterRows = 16;
/// Registers of the threads that load and of those that multiply.
constexpr int64_t producerRegisters = 40, consumerRegisters = 232;
/// The swizzle of all tiles; f32 x has half a depth tile in a row of it.
constexpr int64_t rowBytes = 128;

/// How a product is cut, by its types.
struct GemmShape {
  int64_t rows, depth; ///< n and k
  bool xIsF32;
  /// bf16 terms of an element of x.
  int64_t terms;
  /// Bytes of a result, and whether tensor copies store it.
  int64_t outBytes;
  bool storesBoxes;
  int64_t columnTile, stages;

  static std::optional<GemmShape> of(LinearOp op, bool storesBoxes, const GpuTarget &target);

  int64_t depthTiles() const { return llvm::divideCeil(depth, depthTile); }
  int64_t columnTiles() const { return llvm::divideCeil(rows, columnTile); }
  int64_t xBytes() const { return rowTile * depthTile * (xIsF32 ? 4 : 2); }
  int64_t weightBytes() const { return columnTile * depthTile * 2; }
  int64_t stageBytes() const { return xBytes() + weightBytes(); }
  /// Results on their way out: two boxes for each warp that multiplies.
  int64_t outStart() const { return stages * stageBytes(); }
  int64_t barrierStart() const { return outStart() + (storesBoxes ? 4 * consumers * 2 * outBoxBytes() : 0); }
  int64_t sharedBytes() const { return barrierStart() + Ring::barrierBytes(stages); }
  int64_t sums() const { return columnTile / 2; }
  /// A box has the rows of a warp and 128 bytes of columns, or 64 where they do not divide the tile.
  int64_t outBoxColumns() const { return columnTile % (rowBytes / outBytes) == 0 ? rowBytes / outBytes : 32; }
  int64_t outRowBytes() const { return outBoxColumns() * outBytes; }
  int64_t outBoxBytes() const { return warpRows * outRowBytes(); }
};

} // namespace

/// The widest tile of which little lies outside of the weight.
static int64_t chooseColumnTile(int64_t rows, int64_t widest) {
  int64_t best = 32;
  double bestCost = INFINITY;
  for (int64_t tile = 32; tile <= widest; tile += 32) {
    int64_t padded = llvm::alignTo(rows, tile);
    // Narrow tiles load more per product.
    double cost = static_cast<double>(padded) * (1 + 32.0 / static_cast<double>(tile));
    if (cost <= bestCost) {
      best = tile;
      bestCost = cost;
    }
  }
  return best;
}

std::optional<GemmShape> GemmShape::of(LinearOp op, bool storesBoxes, const GpuTarget &target) {
  GemmShape shape;
  shape.rows = getStaticNamedDim(op, "n");
  shape.depth = getStaticNamedDim(op, "k");
  if (ShapedType::isDynamic(shape.rows) || ShapedType::isDynamic(shape.depth) || shape.rows == 0 || shape.depth == 0)
    return std::nullopt;
  if (!target.wgmma || !target.tma || !getElementTypeOrSelf(op.getWeight().getType()).isBF16())
    return std::nullopt;
  // Rows of tensor maps start at multiples of 16 bytes.
  if (shape.depth % 8 != 0)
    return std::nullopt;
  shape.xIsF32 = getElementTypeOrSelf(op.getX().getType()).isF32();
  shape.terms = shape.xIsF32 && !op.getBf16X() ? target.xTerms : 1;
  shape.outBytes = getElementTypeOrSelf(op.getOut().getType()).getIntOrFloatBitWidth() / 8;
  shape.storesBoxes = storesBoxes;
  // With several terms, as many registers again hold the sums of all parts.
  shape.columnTile = chooseColumnTile(shape.rows, shape.terms > 1 ? 128 : 256);
  constexpr int64_t mostStages = 6;
  shape.stages = 0;
  int64_t room = target.sharedBytesPerBlock - shape.sharedBytes() - Ring::barrierBytes(mostStages);
  shape.stages = std::min(mostStages, room / shape.stageBytes());
  return shape;
}

/// Boxes of x, of the weight and, if it is stored in boxes, of the result.
static std::optional<SmallVector<TensorMapSpec>> getTensorMaps(LinearOp op, const GemmShape &shape) {
  std::optional<TensorMapSpec> x =
      mapMatrix(op.getX(), rowTile, shape.xIsF32 ? depthTile / 2 : depthTile, rowBytes);
  std::optional<TensorMapSpec> weight = mapMatrix(op.getWeight(), shape.columnTile, depthTile, rowBytes);
  if (!x || !weight)
    return std::nullopt;
  SmallVector<TensorMapSpec> maps{*x, *weight};
  if (shape.storesBoxes) {
    std::optional<TensorMapSpec> out = mapMatrix(op.getOut(), warpRows, shape.outBoxColumns(), shape.outRowBytes());
    if (!out)
      return std::nullopt;
    maps.push_back(*out);
  }
  return maps;
}

std::optional<GpuLaunch> k3::configureGemm(LinearOp op, const GpuTarget &target) {
  for (bool storesBoxes : {true, false}) {
    if (storesBoxes && op.getAccumulate())
      continue;
    std::optional<GemmShape> shape = GemmShape::of(op, storesBoxes, target);
    if (!shape)
      return std::nullopt;
    auto maps = getTensorMaps(op, *shape);
    if (!maps)
      continue;
    GpuLaunch launch;
    launch.strategy = strategyName;
    launch.grid = {{"", target.multiprocessors}};
    launch.threads = threads;
    launch.sharedBytes = shape->sharedBytes();
    launch.tensorMaps.assign(maps->begin(), maps->end());
    return launch;
  }
  return std::nullopt;
}

bool k3::isGemm(KernelConfigAttr config) { return config.getStrategy() == strategyName; }

namespace {

class GemmEmitter {
public:
  GemmEmitter(const GpuBuilder &g, LinearOp op, const GemmShape &shape)
      : g(g), op(op), shape(shape), ring(g, shape.stages, shape.barrierStart()), xMap(g, 0), weightMap(g, 1) {
    if (shape.storesBoxes)
      outMap.emplace(g, 2);
  }

  void emit() {
    g.setMinBlocks(1);
    inputRows = g.dim(op.getX(), 0);
    rowTiles = g.ceilDiv(inputRows, rowTile);
    tiles = g.mul(rowTiles, shape.columnTiles());
    thread = g.threadId();
    Value group = g.shuffleFrom(g.div(thread, groupThreads), g.i32(0));
    g.ifFirstThread([&] {
      ring.init(/*producers=*/1, shape.xIsF32 ? 4 * consumers : consumers);
      fenceBarriers(g);
    });
    g.waitForPrevious();
    g.barrier();
    g.ifThenElse(
        g.eq(group, 0),
        [&] {
          setRegisters(g, producerRegisters, /*increase=*/false);
          g.ifFirstThread([&] { produce(); });
          return SmallVector<Value>();
        },
        [&] {
          setRegisters(g, consumerRegisters, /*increase=*/true);
          consume(g.sub(group, 1));
          return SmallVector<Value>();
        });
  }

private:
  using Values = SmallVector<Value>;

  /// First row of x and of the weight of a tile.
  std::pair<Value, Value> placeTile(Value tile) {
    Value perGroup = g.i32(rasterRows * shape.columnTiles()), group = g.div(tile, perGroup);
    Value first = g.mul(group, rasterRows), rest = g.rem(tile, perGroup);
    Value height = g.min(g.sub(rowTiles, first), rasterRows);
    Value row = g.add(first, g.rem(rest, height)), column = g.div(rest, height);
    return {g.mul(row, rowTile), g.mul(column, shape.columnTile)};
  }

  Value stageStart(Value stage) { return g.shared(g.mul(stage, shape.stageBytes())); }

  void produce() {
    RingPosition start = ring.start();
    g.loop(g.blockId(), tiles, g.gridSize(), {start.stage, start.parity}, [&](Value tile, ValueRange at) {
      auto [row, column] = placeTile(tile);
      return g.loop(g.i32(0), g.i32(shape.depthTiles()), g.i32(1), at, [&, row = row, column = column](Value step,
                                                                                                       ValueRange at) {
        RingPosition position{at[0], at[1]};
        ring.waitEmpty(position);
        Value bar = ring.full(position.stage), start = stageStart(position.stage), depth = g.mul(step, depthTile);
        arriveExpecting(g, bar, g.i32(shape.stageBytes()));
        xMap.load(start, row, depth, bar);
        if (shape.xIsF32)
          xMap.load(g.advance(start, shape.xBytes() / 2, g.i8()), row, g.add(depth, depthTile / 2), bar);
        weightMap.load(g.advance(start, shape.xBytes(), g.i8()), column, depth, bar);
        RingPosition next = ring.next(position);
        return Values{next.stage, next.parity};
      });
    });
  }

  void consume(Value consumer) {
    lane = g.laneId();
    warp = g.rem(g.warpId(), 4);
    // The warps of a group read f32 x each on its own; what wgmma reads, all have read when one has waited for it.
    isLeader = g.eq(shape.xIsF32 ? lane : g.rem(thread, groupThreads), 0);
    Value weights = makeDescriptor(g, g.shared(shape.xBytes()), 8 * rowBytes);
    Value firstRow = g.mul(consumer, groupRows);
    Value x = shape.xIsF32 ? Value()
                           : makeDescriptor(g, g.shared(g.mul(firstRow, rowBytes)), 8 * rowBytes);
    if (shape.xIsF32)
      placeFragments(firstRow);
    if (shape.storesBoxes)
      placeResults(consumer);
    RingPosition start = ring.start();
    g.loop(g.blockId(), tiles, g.gridSize(), {start.stage, start.parity}, [&](Value tile, ValueRange at) {
      auto [row, column] = placeTile(tile);
      Values results = shape.xIsF32 ? multiplyFragments(at, weights) : multiplyTiles(at, x, weights);
      ArrayRef<Value> sums = ArrayRef(results).take_front(shape.sums());
      if (shape.storesBoxes)
        storeBoxes(sums, g.add(row, firstRow), column);
      else
        store(sums, g.add(row, firstRow), column);
      return Values(ArrayRef(results).take_back(2));
    });
    if (shape.storesBoxes)
      g.ifThen(g.eq(lane, 0), [&] { waitStores(g, 0, /*written=*/true); });
  }

  void release(Value stage) {
    g.ifThen(isLeader, [&] { arrive(g, ring.empty(stage)); });
  }

  //===--- bf16 x: both operands from shared memory ---===//

  /// The sums of a tile, then the position in the ring.
  Values multiplyTiles(ValueRange at, Value x, Value weights) {
    Values inits(shape.sums(), g.f32(0));
    inits.append(at.begin(), at.end());
    inits.push_back(g.i32(0)); // the stage before
    Values results = g.loop(
        g.i32(0), g.i32(shape.depthTiles()), g.i32(1), inits, [&](Value step, ValueRange carried) {
          Values sums(carried.take_front(shape.sums()));
          RingPosition position{carried[shape.sums()], carried[shape.sums() + 1]};
          ring.waitFull(position);
          Value offset = g.mul(position.stage, shape.stageBytes());
          Value a = advanceDescriptor(g, x, offset), b = advanceDescriptor(g, weights, offset);
          wgmmaFence(g);
          for (int64_t k = 0; k < depthTile; k += stepDepth)
            sums = wgmma(g, advanceDescriptor(g, a, 2 * k), advanceDescriptor(g, b, 2 * k), sums);
          wgmmaCommit(g);
          // The products of the stage before are done; those of this one go on.
          NVVM::WgmmaWaitGroupSyncOp::create(g.b, g.loc, 1);
          g.ifThen(g.ne(step, 0), [&] { release(carried.back()); });
          RingPosition next = ring.next(position);
          sums.append({next.stage, next.parity, position.stage});
          return sums;
        });
    Value last = results.pop_back_val();
    Values sums = wgmmaWait(g, 0, ArrayRef(results).take_front(shape.sums()));
    release(last);
    sums.append({results[shape.sums()], results[shape.sums() + 1]});
    return sums;
  }

  //===--- f32 x: through registers ---===//

  /// Where the lane's pairs of k start in a row of 32 f32: pair number 4 i + t of row g of the fragment, in the swizzled
  /// 16-byte pieces of that row.
  void placeFragments(Value firstRow) {
    Value group = g.div(lane, 4), t = g.rem(lane, 4);
    Value row = g.add(g.add(firstRow, g.mul(warp, 16)), group);
    Value start = g.add(g.mul(row, rowBytes), g.mul(g.rem(t, 2), 8));
    for (int64_t i = 0; i < 4; ++i) {
      Value piece = g.bitXor(g.add(g.div(t, 2), 2 * i), group);
      pairs.push_back(g.add(start, g.mul(piece, 16)));
    }
  }

  /// A fragments of a step, one per term; the largest term first.
  SmallVector<Values> loadFragments(Value start, int64_t k) {
    SmallVector<Values> terms(shape.terms);
    for (int64_t i = 0; i < 4; ++i) { // (rows, k) blocks (0, 0), (1, 0), (0, 1), (1, 1)
      int64_t pair = k % 32 / 8 + i / 2, offset = k / 32 * (shape.xBytes() / 2) + i % 2 * 8 * rowBytes;
      Value pointer = g.advance(g.advance(start, pairs[pair], g.i8()), offset, g.i8());
      Values values = g.loadFloats(pointer, g.f32(), 2);
      for (auto [words, word] : llvm::zip_equal(terms, splitPair(g, values[0], values[1], shape.terms)))
        words.push_back(word);
    }
    return terms;
  }

  /// The products of a stage, added to `sums` or, of several terms, from zero on.
  Values multiplyStage(Value start, Value b, ValueRange sums) {
    SmallVector<SmallVector<Values>> steps;
    for (int64_t k = 0; k < depthTile; k += stepDepth)
      steps.push_back(loadFragments(start, k));
    bool fromZero = shape.terms > 1;
    Values next = fromZero ? Values(shape.sums(), g.f32(0)) : Values(sums), kept;
    wgmmaFence(g);
    // Small terms first, while the sums are small.
    for (int64_t term = shape.terms - 1; term >= 0; --term)
      for (auto [step, terms] : llvm::enumerate(steps)) {
        WgmmaForm form;
        form.overwrite = fromZero;
        fromZero = false;
        next = wgmma(g, terms[term], advanceDescriptor(g, b, 2 * stepDepth * static_cast<int64_t>(step)), next, form);
        kept.append(terms[term]);
      }
    wgmmaCommit(g);
    return wgmmaWait(g, 0, next, kept);
  }

  Values multiplyFragments(ValueRange at, Value weights) {
    Values inits(shape.sums(), g.f32(0));
    inits.append(at.begin(), at.end());
    return g.loop(g.i32(0), g.i32(shape.depthTiles()), g.i32(1), inits, [&](Value, ValueRange carried) {
      ValueRange sums = carried.take_front(shape.sums());
      RingPosition position{carried[shape.sums()], carried[shape.sums() + 1]};
      ring.waitFull(position);
      Value b = advanceDescriptor(g, weights, g.mul(position.stage, shape.stageBytes()));
      Values next = multiplyStage(stageStart(position.stage), b, sums);
      g.warpBarrier();
      release(position.stage);
      if (shape.terms > 1)
        for (auto [part, sum] : llvm::zip_equal(next, sums))
          part = g.add(sum, part);
      RingPosition after = ring.next(position);
      next.append({after.stage, after.parity});
      return next;
    });
  }

  //===--- results ---===//

  /// The warp's two boxes, and where the lane writes in them: as stmatrix wants it for bf16, its own pairs for f32.
  void placeResults(Value consumer) {
    Value number = g.add(g.mul(consumer, 4), warp);
    boxes = g.shared(g.add(g.mul(number, 2 * shape.outBoxBytes()), shape.outStart()));
    int64_t bytes = shape.outRowBytes(), pieces = bytes / 16;
    // Row of a box; half a row's pieces further for bf16, where lanes 16 to 31 point at the second 8 columns.
    Value row, piece;
    if (shape.outBytes == 2) {
      row = g.rem(lane, 16);
      piece = g.div(lane, 16);
    } else {
      row = g.div(lane, 4);
      piece = g.div(g.rem(lane, 4), 2);
    }
    Value mix = pieces == 8 ? g.rem(row, 8) : g.rem(g.div(row, 2), 4);
    for (int64_t block = 0; block < pieces / 2; ++block) {
      // Of f32, odd rows write 16 columns further on: so all rows of 8 lanes meet different banks.
      Value own = shape.outBytes == 2 ? g.add(piece, 2 * block)
                                      : g.add(piece, g.mul(g.bitXor(g.mul(g.rem(row, 2), 2), block), 2));
      Value at = g.add(g.mul(row, bytes), g.mul(g.bitXor(own, mix), 16));
      if (shape.outBytes == 4)
        at = g.add(at, g.mul(g.rem(lane, 2), 8));
      places.push_back(at);
    }
  }

  /// The consumer's sums to rows from `row` and columns from `column` on, box by box: while one of a warp's two boxes is
  /// copied, the other is filled.
  void storeBoxes(ArrayRef<Value> sums, Value row, Value column) {
    Value isOdd = g.ne(g.rem(g.div(lane, 4), 2), 0), isFirst = g.eq(lane, 0);
    Value firstRow = g.add(row, g.mul(warp, warpRows));
    int64_t perBox = shape.outBoxColumns() / 2;
    for (int64_t box = 0; box < shape.sums() / perBox; ++box) {
      g.ifThen(isFirst, [&] { waitStores(g, 1); });
      g.warpBarrier();
      ArrayRef<Value> own = sums.slice(box * perBox, perBox);
      Value start = g.advance(boxes, box % 2 * shape.outBoxBytes(), g.i8());
      for (auto [block, place] : llvm::enumerate(places)) {
        Value at = g.advance(start, place, g.i8());
        if (shape.outBytes == 2) {
          Values words;
          for (int64_t i = 0; i < 8; i += 2)
            words.push_back(g.packBf16(own[8 * block + i], own[8 * block + i + 1]));
          storeMatrices(g, at, words);
          continue;
        }
        for (int64_t half = 0; half < 2; ++half) {
          Values pair;
          for (int64_t i = 2 * half; i < 2 * half + 2; ++i)
            pair.push_back(g.select(isOdd, own[4 * (block ^ 2) + i], own[4 * block + i]));
          g.storeFloats(pair, g.advance(at, half * 8 * shape.outRowBytes(), g.i8()), g.f32());
        }
      }
      fenceAsync(g);
      g.warpBarrier();
      g.ifThen(isFirst, [&] {
        outMap->store(start, firstRow, g.add(column, box * shape.outBoxColumns()));
        commitStores(g);
      });
    }
  }

  /// The consumer's sums to rows from `row` and columns from `column` on.
  void store(ArrayRef<Value> sums, Value row, Value column) {
    Value out = op.getOut();
    Type type = g.elementType(out);
    int64_t run = std::min(getRunLength(shape.rows, g.vectorLength(type)), getAlignedElements(out));
    bool isWhole = run == g.vectorLength(type);
    Value group = g.div(lane, 4), t = g.rem(lane, 4);
    for (int64_t half = 0; half < 2; ++half) {
      Values own; // two neighbouring columns of every 8
      for (int64_t i = 0; i < shape.sums(); i += 4)
        own.append({sums[i + 2 * half], sums[i + 2 * half + 1]});
      // All lanes of a warp exchange values, whether their row is stored or not.
      SmallVector<Run> runs = !isWhole          ? splitRuns(own, std::min<int64_t>(run, 2), t)
                              : type.isBF16()   ? gatherEights(own, t)
                                                : gatherFours(own, t);
      Value ownRow = g.add(g.add(row, g.mul(warp, 16)), g.add(group, 8 * half));
      g.ifThen(g.lt(ownRow, inputRows), [&] {
        Value start = g.element(out, {ownRow, column});
        for (const Run &values : runs) {
          auto put = [&] { storeRun(values, g.advance(start, values.column, type)); };
          if (shape.rows % shape.columnTile == 0)
            put();
          else
            g.ifThen(g.lt(g.add(column, values.column), shape.rows), put);
        }
      });
    }
  }

  struct Run {
    Value column;  ///< in the tile
    Values values; ///< f32
  };

  void storeRun(const Run &run, Value pointer) {
    Type type = g.elementType(op.getOut());
    Values values = run.values;
    if (op.getAccumulate())
      for (auto [value, old] : llvm::zip_equal(values, g.loadFloats(pointer, type, values.size())))
        value = g.add(old, value);
    g.storeFloats(values, pointer, type);
  }

  SmallVector<Run> splitRuns(ArrayRef<Value> own, int64_t run, Value t) {
    SmallVector<Run> runs;
    for (size_t i = 0; i < own.size(); i += run)
      runs.push_back({g.add(g.mul(t, 2), static_cast<int64_t>(4 * (i - i % 2) + i % 2)), Values(own.slice(i, run))});
    return runs;
  }

  /// Of two values that two lanes (`distance` apart) have each, the lower lane gets both lanes' `first`, the upper one both
  /// lanes' `second`; the lower lane's comes first.
  std::pair<Value, Value> exchange(Value first, Value second, int64_t distance, Value isUpper) {
    Value got = g.shuffleXor(g.select(isUpper, first, second), distance);
    return {g.select(isUpper, got, first), g.select(isUpper, second, got)};
  }

  /// Runs of four columns: neighbouring lanes share two blocks of 8 columns.
  SmallVector<Run> gatherFours(ArrayRef<Value> own, Value t) {
    SmallVector<Run> runs;
    Value isOdd = g.ne(g.rem(t, 2), 0), offset = g.add(g.mul(g.rem(t, 2), 8), g.mul(g.div(t, 2), 4));
    for (size_t i = 0; i < own.size(); i += 4) {
      Values values(4);
      for (size_t j = 0; j < 2; ++j)
        std::tie(values[j], values[j + 2]) = exchange(own[i + j], own[i + j + 2], 1, isOdd);
      runs.push_back({g.add(offset, static_cast<int64_t>(4 * i)), values});
    }
    return runs;
  }

  /// Runs of eight columns: the four lanes of a row share four blocks of 8 columns.
  SmallVector<Run> gatherEights(ArrayRef<Value> own, Value t) {
    SmallVector<Run> runs;
    Value isOdd = g.ne(g.rem(t, 2), 0), isHigh = g.ne(g.div(t, 2), 0), offset = g.mul(t, 8);
    for (size_t i = 0; i < own.size(); i += 8) {
      Values values(8);
      for (size_t j = 0; j < 2; ++j) {
        // Lanes 0 and 2 take blocks 0 and 2, lanes 1 and 3 the others; then each of them one.
        auto [low0, low1] = exchange(own[i + j], own[i + j + 2], 1, isOdd);
        auto [high0, high1] = exchange(own[i + j + 4], own[i + j + 6], 1, isOdd);
        std::tie(values[j], values[j + 4]) = exchange(low0, high0, 2, isHigh);
        std::tie(values[j + 2], values[j + 6]) = exchange(low1, high1, 2, isHigh);
      }
      runs.push_back({g.add(offset, static_cast<int64_t>(4 * i)), values});
    }
    return runs;
  }

  const GpuBuilder &g;
  LinearOp op;
  GemmShape shape;
  Ring ring;
  MatrixMap xMap, weightMap;
  std::optional<MatrixMap> outMap;
  Value inputRows, rowTiles, tiles, thread, lane, warp, isLeader;
  Values pairs;
  Value boxes;
  Values places;
};

} // namespace

LogicalResult k3::emitGemm(OpBuilder &b, LinearOp op, KernelConfigAttr config, const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  size_t maps = config.getTensorMaps().size();
  std::optional<GemmShape> shape = GemmShape::of(op, /*storesBoxes=*/maps == 3, target);
  if (!shape || maps < 2 || maps > 3)
    return op.emitOpError("expected static sizes, a bf16 weight and two or three tensor maps for the strategy 'gemm'");
  GemmEmitter(g, op, *shape).emit();
  return success();
}
