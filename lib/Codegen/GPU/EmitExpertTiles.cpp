//===- EmitExpertTiles.cpp - experts of many rows on a GPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// out^T = weight x^T: rows of the weight are rows of wgmma, rows of x its columns. A pass is some rows of one expert, up to
// 128 or 256. Each of two warpgroups has 64 rows of both matrices of a gated unit, whose sums meet in a thread, or 128 (or
// 64, where that does not divide them) of the only one. Blocks, one per multiprocessor, take tiles in turn. The columns of
// wgmma are as many as the pass has rows, in steps.
//
// The warps of a third warpgroup bring the weights and the rows of x, which lie anywhere, into a ring, 64 k at a time, each
// warp a stage of its own: it can wait for its copies and make them visible to wgmma while the others copy.
//
// MXFP4 codes stay as they are stored in shared memory. A lane loads 8 bytes of its rows; the four lanes of a row exchange
// bytes, so that each has those of the k that wgmma wants of it. In what order that is, x follows: within 64 k, pieces of 8
// k with even numbers come first.
//
// Errors: as in EmitGemm.cpp.
//
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/Tile/Atoms.h"
#include "lib/Codegen/GPU/Tile/ExpertProduct.h"
#include "lib/Codegen/GPU/Tile/MxFp4.h"
#include "lib/Codegen/GPU/Tile/Pipeline.h"
#include "lib/Codegen/GPU/Tile/Runs.h"
#include "lib/Codegen/GPU/Tile/Split.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

constexpr StringRef strategyName = "tiles";

constexpr int64_t groupThreads = 128, consumers = 2, producers = 4, threads = (1 + consumers) * groupThreads;
/// Registers per thread that a multiprocessor has for all of a block's, rounded down as ptxas does for equal shares.
constexpr int64_t sharedRegisters = 168 * (1 + consumers);
/// Rows of the weight of a wgmma, and k of a stage.
constexpr int64_t partRows = 64, depthTile = 64, stepDepth = 16;
/// Bytes of 64 k in bf16, and of one copy.
constexpr int64_t rowBytes = 128, pieceBytes = 16;
/// The first consumer's.
constexpr int64_t groupBarrier = 1;

/// How an op is cut.
struct TileShape {
  int64_t features, depth, experts;
  bool mxfp4, gated, xIsF32;
  /// bf16 terms of an element of x; wgmmas with different rows of the weight in a warpgroup.
  int64_t terms, parts, stages;
  /// Columns of wgmma to choose from, rising; the last one is the most rows of a pass.
  ArrayRef<int64_t> widths;

  static std::optional<TileShape> of(const ExpertProduct &product, const GpuTarget &target);

  int64_t maxRows() const { return widths.back(); }
  int64_t steps() const { return depth / depthTile; }
  /// Decoded weights need registers where wgmma is issued, more pointers where weights are copied.
  int64_t producerRegisters() const { return mxfp4 ? 104 : 120; }
  int64_t consumerRegisters() const { return (sharedRegisters - producerRegisters()) / consumers; }

  int64_t weightRows() const { return consumers * parts * partRows; }
  /// Of a consumer: of both matrices, or of the only one.
  int64_t featuresOfGroup() const { return gated ? partRows : parts * partRows; }
  int64_t featuresPerTile() const { return consumers * featuresOfGroup(); }
  int64_t tilesPerPass() const { return features / featuresPerTile(); }
  int64_t codeRowBytes() const { return mxfp4 ? depthTile / 2 : rowBytes; }

  int64_t weightBytes() const { return weightRows() * codeRowBytes(); }
  int64_t termBytes() const { return maxRows() * rowBytes; }
  /// x first: its rows have to start at multiples of 1024 bytes.
  int64_t stageBytes() const { return terms * termBytes() + llvm::alignTo(weightBytes(), 1024); }
  /// Per producing warp, the rows of x that it copies.
  int64_t listStart() const { return stages * stageBytes(); }
  int64_t listBytes() const { return 4 * maxRows(); }
  /// Per consumer, where the rows of its results start.
  int64_t outStart() const { return listStart() + producers * listBytes(); }
  int64_t outBytes() const { return 8 * maxRows(); }
  int64_t barrierStart() const { return outStart() + consumers * outBytes(); }
  int64_t scheduleStart() const { return barrierStart() + Ring::barrierBytes(stages); }
  int64_t sharedBytes() const {
    return scheduleStart() + (experts > 0 ? ExpertSchedule::sharedBytes(experts) : 0);
  }
};

/// With one part and with two, as registers allow.
constexpr int64_t roundedWidths[] = {32, 64, 96, 128, 160, 192, 256}, narrowWidths[] = {32, 48, 64, 80, 96, 128};
/// Where there are sums of stages beside those of all.
constexpr int64_t exactWidths[] = {32, 64};

} // namespace

std::optional<TileShape> TileShape::of(const ExpertProduct &product, const GpuTarget &target) {
  if (!product.isStatic() || !product.hasPlainWeights() || !target.wgmma)
    return std::nullopt;
  TileShape shape;
  shape.features = product.features;
  shape.depth = product.depth;
  shape.experts = product.experts;
  shape.mxfp4 = product.mxfp4;
  shape.gated = product.gated;
  shape.xIsF32 = product.inputType().isF32();
  shape.terms = product.roundsInput ? 1 : target.xTerms;
  shape.parts = shape.gated || shape.features % (2 * consumers * partRows) == 0 ? 2 : 1;
  shape.widths = shape.terms > 1    ? ArrayRef<int64_t>(exactWidths)
                 : shape.parts == 2 ? ArrayRef<int64_t>(narrowWidths)
                                    : ArrayRef<int64_t>(roundedWidths);
  // Of few steps of k the loops go away, and ptxas then moves sums between products (C7519).
  int64_t leastSteps = shape.terms == 1 && !shape.mxfp4 ? 6 : 3;
  if (shape.features == 0 || shape.features % shape.featuresPerTile() != 0 || shape.depth % depthTile != 0 ||
      shape.depth < leastSteps * depthTile)
    return std::nullopt;
  // A producer that waits for a stage has seen the stage's last round but one end, if there are as many stages as
  // producers: then its parity tells which round a stage is in.
  for (; !shape.widths.empty(); shape.widths = shape.widths.drop_back()) {
    shape.stages = 0;
    int64_t room = target.sharedBytesPerBlock - shape.sharedBytes();
    shape.stages = std::min<int64_t>(8, room / (shape.stageBytes() + Ring::barrierBytes(1)));
    if (room >= 0 && shape.stages >= producers)
      return shape;
  }
  return std::nullopt;
}

std::optional<GpuLaunch> k3::configureExpertTiles(Operation *op, const GpuTarget &target) {
  ExpertProduct product = ExpertProduct::of(op);
  std::optional<TileShape> shape = TileShape::of(product, target);
  // Copies move 16 bytes of x.
  if (!shape || !isa<BlockArgument>(product.x))
    return std::nullopt;
  GpuLaunch launch;
  launch.strategy = strategyName;
  launch.grid = {{"", target.multiprocessors}};
  launch.threads = threads;
  launch.sharedBytes = shape->sharedBytes();
  return launch;
}

bool k3::isExpertTiles(KernelConfigAttr config) { return config.getStrategy() == strategyName; }

namespace {

class TileEmitter {
public:
  TileEmitter(const GpuBuilder &g, const ExpertProduct &product, const TileShape &shape)
      : g(g), product(product), shape(shape), ring(g, shape.stages, shape.barrierStart()) {
    if (product.experts > 0)
      schedule.emplace(g, product.offsets, shape.maxRows(), shape.scheduleStart());
  }

  void emit() {
    g.setMinBlocks(1);
    lane = g.laneId();
    warp = g.rem(g.warpId(), 4);
    product.prefetchTables(g);
    Value group = g.shuffleFrom(g.div(g.threadId(), groupThreads), g.i32(0));
    g.ifFirstThread([&] {
      ring.init(/*producers=*/32, /*consumers=*/4 * consumers);
      fenceBarriers(g);
    });
    g.waitForPrevious();
    if (schedule) {
      schedule->build();
      passes = schedule->total();
    } else {
      passes = g.ceilDiv(product.countRows(g), shape.maxRows());
    }
    g.barrier();
    tiles = g.mul(passes, shape.tilesPerPass());
    g.ifThenElse(
        g.eq(group, 0),
        [&] {
          setRegisters(g, shape.producerRegisters(), /*increase=*/false);
          produce();
          return Values();
        },
        [&] {
          setRegisters(g, shape.consumerRegisters(), /*increase=*/true);
          consume(g.sub(group, 1));
          return Values();
        });
  }

private:
  using Values = SmallVector<Value>;

  ExpertPass findPass(Value number) {
    if (schedule)
      return schedule->find(number);
    Value first = g.mul(number, shape.maxRows());
    return {Value(), first, g.min(g.sub(product.countRows(g), first), shape.maxRows())};
  }

  /// The block's tiles. `round`: how many came before.
  void forTiles(function_ref<void(const ExpertPass &, Value feature, Value round)> body) {
    g.loop(g.blockId(), tiles, g.gridSize(), {g.i32(0)}, [&](Value tile, ValueRange carried) {
      Value pass = g.div(tile, shape.tilesPerPass()), inPass = g.rem(tile, shape.tilesPerPass());
      body(findPass(pass), g.mul(inPass, shape.featuresPerTile()), carried[0]);
      return Values{g.add(carried[0], 1)};
    });
  }

  /// Where step number `step` of all of the block's is in the ring.
  RingPosition positionOf(Value step) {
    return {g.rem(step, shape.stages), g.rem(g.div(step, shape.stages), 2)};
  }

  /// The matrix that a consumer's part is of, and its first row beyond the consumer's.
  int64_t matrixOfPart(int64_t part) const { return shape.gated ? part : 0; }
  int64_t rowOfPart(int64_t part) const { return shape.gated ? 0 : part * partRows; }

  Value stageStart(Value stage) { return g.shared(g.mul(stage, shape.stageBytes())); }
  int64_t weightStart() const { return shape.terms * shape.termBytes(); }

  //===--- copies ---===//

  void produce() {
    list = g.shared(g.add(g.mul(warp, shape.listBytes()), shape.listStart()));
    forTiles([&](const ExpertPass &pass, Value feature, Value round) {
      listRows(pass);
      Value width = getWidth(pass.count), first = g.mul(round, shape.steps());
      // First rows of the parts of all consumers.
      Values weights;
      for (int64_t consumer = 0; consumer < consumers; ++consumer)
        for (int64_t part = 0; part < shape.parts; ++part) {
          Value row = g.add(feature, consumer * shape.featuresOfGroup() + rowOfPart(part));
          weights.push_back(product.weightRow(g, matrixOfPart(part), pass.expert, row));
        }
      Value own = g.rem(g.sub(g.add(warp, producers), g.rem(first, producers)), producers);
      g.loop(own, g.i32(shape.steps()), g.i32(producers), [&](Value step) {
        RingPosition position = positionOf(g.add(first, step));
        ring.waitEmpty(position);
        Value start = stageStart(position.stage);
        copyWeights(weights, step, start);
        if (shape.xIsF32)
          splitRows(pass, width, step, start);
        else
          copyRows(pass, width, step, start);
        commitCopies(g);
        waitCopies(g, 0);
        fenceAsync(g);
        arrive(g, ring.full(position.stage));
      });
    });
  }

  /// The columns that `rows` take.
  Value getWidth(Value rows) {
    Value width = g.i32(shape.widths.back());
    for (int64_t smaller : llvm::reverse(shape.widths.drop_back()))
      width = g.select(g.le(rows, smaller), g.i32(smaller), width);
    return width;
  }

  /// Numbers of the pass's rows among those of x, for this warp.
  void listRows(const ExpertPass &pass) {
    g.warpBarrier();
    g.loop(lane, pass.count, g.i32(32), [&](Value i) {
      Values at = product.place(g, g.add(pass.begin, i)).input;
      Value number = at[0];
      if (at.size() > 1)
        number = g.add(g.mul(number, g.dim(product.x, 1)), at[1]);
      g.storeRaw(number, g.advance(list, i, g.i32()));
    });
    g.warpBarrier();
  }

  /// Copies by all lanes of `rows` rows of a number of pieces: body(row, piece).
  void forPieces(Value rows, int64_t pieces, int64_t unroll, function_ref<void(Value row, Value piece)> body) {
    int64_t together = 32 / pieces; // rows
    Value piece = g.rem(lane, pieces), own = g.div(lane, pieces);
    g.loop(g.i32(0), rows, g.i32(unroll * together), [&](Value first) {
      for (int64_t i = 0; i < unroll; ++i)
        body(g.add(g.add(first, own), i * together), piece);
    });
  }

  /// Byte of a piece of a row of 128 bytes in the 128-byte swizzle.
  Value swizzle(Value row, Value piece) {
    return g.add(g.mul(row, rowBytes), g.mul(g.bitXor(piece, g.rem(row, 8)), pieceBytes));
  }

  void copyWeights(ArrayRef<Value> weights, Value step, Value start) {
    int64_t bytes = shape.codeRowBytes(), stride = shape.mxfp4 ? shape.depth / 2 : shape.depth * 2;
    for (auto [part, first] : llvm::enumerate(weights)) {
      Value from = g.advance(first, g.mul(g.toI64(step), bytes), g.i8());
      Value to = g.advance(start, weightStart() + static_cast<int64_t>(part) * partRows * bytes, g.i8());
      forPieces(g.i32(partRows), bytes / pieceBytes, shape.mxfp4 ? 4 : 2, [&](Value row, Value piece) {
        Value source = g.advance(from, g.add(g.mul(g.toI64(row), stride), g.mul(g.toI64(piece), pieceBytes)), g.i8());
        Value place = shape.mxfp4 ? g.add(g.mul(row, bytes), g.mul(piece, pieceBytes)) : swizzle(row, piece);
        // The rest of the lines is wanted in the next stages.
        g.ptx("cp.async.cg.shared.global.L2::128B [$0], [$1], 16;", {g.advance(to, place, g.i8()), source});
      });
    }
  }

  /// Where a piece of 8 k is in a row of x.
  Value placePiece(Value piece) {
    return shape.mxfp4 ? g.add(g.mul(g.rem(piece, 2), 4), g.div(piece, 2)) : piece;
  }

  Value rowStart(Value row, Value count, Value step) {
    // Columns without a row are zero; what is read for them does not matter.
    Value number = g.loadRaw(g.advance(list, g.min(row, g.sub(count, 1)), g.i32()), g.i32());
    Type type = product.inputType();
    Value start = g.base(product.x);
    return g.advance(start, g.add(g.mul(g.toI64(number), shape.depth), g.mul(g.toI64(step), depthTile)), type);
  }

  void copyRows(const ExpertPass &pass, Value width, Value step, Value start) {
    forPieces(width, rowBytes / pieceBytes, 4, [&](Value row, Value piece) {
      Value from = g.advance(rowStart(row, pass.count, step), g.mul(piece, pieceBytes), g.i8());
      Value used = g.select(g.lt(row, pass.count), g.i32(pieceBytes), g.i32(0));
      copyAsync(g, g.advance(start, swizzle(row, placePiece(piece)), g.i8()), from, pieceBytes, used);
    });
  }

  void splitRows(const ExpertPass &pass, Value width, Value step, Value start) {
    constexpr int64_t unroll = 2;
    Value piece = g.rem(lane, 8), own = g.div(lane, 8);
    g.loop(g.i32(0), width, g.i32(4 * unroll), [&](Value first) {
      SmallVector<Values> loaded;
      Values rows;
      for (int64_t i = 0; i < unroll; ++i) {
        rows.push_back(g.add(g.add(first, own), 4 * i));
        Value from = g.advance(rowStart(rows.back(), pass.count, step), g.mul(piece, 8), g.f32());
        loaded.push_back(g.loadFloats(from, g.f32(), 4, true));
        loaded.back().append(g.loadFloats(g.advance(from, 4, g.f32()), g.f32(), 4, true));
      }
      for (int64_t i = 0; i < unroll; ++i) {
        SmallVector<Values> words(shape.terms);
        for (int64_t pair = 0; pair < 8; pair += 2)
          for (auto [term, word] :
               llvm::zip_equal(words, splitPair(g, loaded[i][pair], loaded[i][pair + 1], shape.terms)))
            term.push_back(word);
        Value place = swizzle(rows[i], placePiece(piece));
        for (int64_t term = 0; term < shape.terms; ++term)
          g.storeRaw(vector::FromElementsOp::create(g.b, g.loc, g.vectorOf(4, g.i32()), words[term]),
                     g.advance(start, g.add(place, term * shape.termBytes()), g.i8()));
      }
    });
  }

  //===--- products ---===//

  void consume(Value consumer) {
    group = g.div(lane, 4);
    quad = g.rem(lane, 4);
    firstFeature = g.mul(consumer, shape.featuresOfGroup());
    firstRow = g.mul(consumer, shape.parts * partRows);
    // Bytes that the first and the second exchange bring together.
    halfBytes = g.select(g.lt(quad, 2), g.i32(0x5410), g.i32(0x3276));
    pairBytes = g.select(g.eq(g.rem(quad, 2), 0), g.i32(0x6240), g.i32(0x3715));
    outList = g.shared(g.add(g.mul(consumer, shape.outBytes()), shape.outStart()));
    forTiles([&](const ExpertPass &pass, Value feature, Value round) {
      listResults(pass, g.add(consumer, groupBarrier));
      int64_t before = 0;
      for (int64_t width : shape.widths) {
        Value isWidth = g.le(pass.count, width);
        if (before > 0)
          isWidth = g.logicalAnd(isWidth, g.gt(pass.count, before));
        g.ifThen(isWidth, [&] { multiplyTile(pass, g.add(feature, firstFeature), round, width); });
        before = width;
      }
    });
  }

  /// Addresses of the pass's rows of results, in the consumer's list.
  void listResults(const ExpertPass &pass, Value id) {
    g.barrier(id, groupThreads); // what was read of the last tile
    g.loop(g.rem(g.threadId(), groupThreads), pass.count, g.i32(groupThreads), [&](Value i) {
      Value start = g.element(product.out, product.place(g, g.add(pass.begin, i)).output);
      g.storeRaw(LLVM::PtrToIntOp::create(g.b, g.loc, g.i64(), start), g.advance(outList, i, g.i64()));
    });
    g.barrier(id, groupThreads);
  }

  /// The consumer's warp has read a stage. Arrivals of all lanes cost registers that gated tiles do not have.
  void release(Value stage) {
    g.warpBarrier();
    g.ifThen(g.eq(lane, 0), [&] { arrive(g, ring.empty(stage)); });
  }

  /// The consumer's features from `feature` on.
  void multiplyTile(const ExpertPass &pass, Value feature, Value round, int64_t width) {
    int64_t count = width / 2, all = shape.parts * count;
    // The first scales of the lane's two rows of each part.
    Values scaleRows;
    if (shape.mxfp4)
      for (int64_t part = 0; part < shape.parts; ++part)
        for (int64_t half = 0; half < 2; ++half) {
          Value row = g.add(g.add(feature, rowOfPart(part)), g.add(g.mul(warp, 16), g.add(group, 8 * half)));
          scaleRows.push_back(product.scaleRow(g, matrixOfPart(part), pass.expert, row));
        }
    RingPosition start = positionOf(g.mul(round, shape.steps()));
    Values inits(all, g.f32(0));
    inits.append({start.stage, start.parity});
    inits.append(loadScales(scaleRows, g.i32(0)));
    Value x = makeDescriptor(g, g.shared(int64_t(0)), 8 * rowBytes);
    Value weights = makeDescriptor(g, g.advance(g.shared(weightStart()), g.mul(firstRow, rowBytes), g.i8()), 8 * rowBytes);
    Values results =
        g.loop(g.i32(0), g.i32(shape.steps()), g.i32(1), inits, [&](Value step, ValueRange carried) {
          ValueRange sums = carried.take_front(all);
          RingPosition position{carried[all], carried[all + 1]};
          Values nextScales = loadScales(scaleRows, g.min(g.add(step, 1), shape.steps() - 1));
          ring.waitFull(position);
          Value offset = g.mul(position.stage, shape.stageBytes());
          SmallVector<SmallVector<Values>> fragments;
          if (shape.mxfp4)
            fragments = decode(position.stage, carried.drop_front(all + 2));
          Value columns = advanceDescriptor(g, x, offset), rows = advanceDescriptor(g, weights, offset);
          Values next, kept;
          wgmmaFence(g);
          for (int64_t part = 0; part < shape.parts; ++part) {
            bool fromZero = shape.terms > 1;
            Values own = fromZero ? Values(count, g.f32(0)) : Values(sums.slice(part * count, count));
            // Small terms first, while the sums are small.
            for (int64_t term = shape.terms - 1; term >= 0; --term)
              for (int64_t k = 0; k < depthTile / stepDepth; ++k) {
                Values a = shape.mxfp4 ? fragments[part][k]
                                       : Values{advanceDescriptor(g, rows, part * partRows * rowBytes + 32 * k)};
                WgmmaForm form;
                form.overwrite = fromZero;
                fromZero = false;
                own = wgmma(g, a, advanceDescriptor(g, columns, term * shape.termBytes() + 32 * k), own, form);
              }
            next.append(own);
          }
          for (const SmallVector<Values> &part : fragments)
            for (const Values &fragment : part)
              kept.append(fragment);
          wgmmaCommit(g);
          next = wgmmaWait(g, 0, next, kept);
          release(position.stage);
          if (shape.terms > 1)
            for (auto [value, sum] : llvm::zip_equal(next, sums))
              value = g.add(sum, value);
          RingPosition after = ring.next(position);
          next.append({after.stage, after.parity});
          next.append(nextScales);
          return next;
        });
    ArrayRef<Value> sums = ArrayRef(results).take_front(all);
    if (shape.gated)
      storeGated(pass, feature, sums);
    else
      for (int64_t part = 0; part < shape.parts; ++part)
        storePlain(pass, g.add(feature, rowOfPart(part)), sums.slice(part * count, count));
  }

  /// Of a step's two groups of 32 weights, for both of the lane's rows (i32 with two bytes each).
  Values loadScales(ArrayRef<Value> rows, Value step) {
    Values scales;
    for (Value row : rows)
      scales.push_back(
          g.zeroExtend(g.loadRaw(g.advance(row, g.mul(step, 2), g.i8()), g.i16(), /*readOnly=*/true), g.i32()));
    return scales;
  }

  /// The four A fragments of each part of a stage's MXFP4 weights; `scales` by part and row.
  SmallVector<SmallVector<Values>> decode(Value stage, ValueRange scales) {
    Value start = g.advance(stageStart(stage), weightStart(), g.i8());
    auto forRows = [&](function_ref<void(int64_t part, int64_t half)> body) {
      for (int64_t part = 0; part < shape.parts; ++part)
        for (int64_t half = 0; half < 2; ++half)
          body(part, half);
    };
    // Of each row, pairs of bf16: [word][byte]; and the scales of its two groups.
    SmallVector<Values> pairs[2][2];
    Value groups[2][2][2];
    Value largest = g.i32(0);
    forRows([&](int64_t part, int64_t half) {
      Value row = g.add(firstRow, g.add(g.mul(warp, 16), g.add(group, part * partRows + 8 * half)));
      Value at = g.add(g.mul(row, shape.codeRowBytes()), g.mul(quad, 8));
      Value two = g.loadRaw(g.advance(start, at, g.i8()), g.vectorOf(2, g.i32()));
      for (int64_t i = 0; i < 2; ++i) {
        Value word = vector::ExtractOp::create(g.b, g.loc, two, ArrayRef<int64_t>{i});
        pairs[part][half].push_back(placeNeighbours(g, transposeBytes(word)));
      }
      Value both = scales[2 * part + half];
      for (int64_t i = 0; i < 2; ++i) {
        groups[part][half][i] = i == 0 ? g.bitAnd(both, 255) : g.shr(both, 8);
        largest = g.max(largest, groups[part][half][i]);
      }
    });
    Value isPlain = g.eq(g.ballot(g.gt(largest, maxPlainScale)), 0);
    auto scaleAll = [&](function_ref<Value(Value pair, int64_t part, int64_t half, int64_t i)> scale) {
      Values flat;
      // Step (word, i): pieces 2 (2 i) + word and 2 (2 i + 1) + word, both of group i.
      for (int64_t part = 0; part < shape.parts; ++part)
        for (int64_t word = 0; word < 2; ++word)
          for (int64_t i = 0; i < 2; ++i)
            for (int64_t piece = 0; piece < 2; ++piece)
              for (int64_t half = 0; half < 2; ++half)
                flat.push_back(scale(pairs[part][half][word][2 * i + piece], part, half, i));
      return flat;
    };
    Values flat = g.ifThenElse(
        isPlain,
        [&] {
          Value factors[2][2][2];
          forRows([&](int64_t part, int64_t half) {
            for (int64_t i = 0; i < 2; ++i)
              factors[part][half][i] = getPlainFactor(g, groups[part][half][i]);
          });
          return scaleAll([&](Value pair, int64_t part, int64_t half, int64_t i) {
            return multiplyPairs(g, pair, factors[part][half][i]);
          });
        },
        [&] {
          return scaleAll([&](Value pair, int64_t part, int64_t half, int64_t i) {
            auto [first, second] = getFactors(g, groups[part][half][i]);
            return multiplyPairs(g, multiplyPairs(g, pair, first), second);
          });
        });
    SmallVector<SmallVector<Values>> fragments(shape.parts);
    for (int64_t part = 0; part < shape.parts; ++part)
      for (int64_t k = 0; k < 4; ++k)
        fragments[part].push_back(Values(ArrayRef(flat).slice(16 * part + 4 * k, 4)));
    return fragments;
  }

  /// Byte j of the four lanes of a row, by lane j.
  Value transposeBytes(Value word) {
    auto permute = [&](Value own, Value other, Value selector) {
      return g.intrinsic(g.i32(), "llvm.nvvm.prmt", {own, other, selector});
    };
    word = permute(word, g.shuffleXor(word, 2), halfBytes);
    return permute(word, g.shuffleXor(word, 1), pairBytes);
  }

  //===--- results ---===//

  /// What stores of a tile have in common. Columns are constants beyond the lane's first one, so that no register holds
  /// the number of each.
  struct Target {
    Value row;     ///< of the weight, the lane's first one
    Value columns; ///< of the pass, from the lane's first one on
    Value list;    ///< addresses of the results of these columns
  };
  Target placeStores(const ExpertPass &pass, Value feature) {
    Value first = g.mul(quad, 2);
    return {g.add(feature, g.add(g.mul(warp, 16), group)), g.sub(pass.count, first),
            g.advance(outList, first, g.i64())};
  }

  /// Stores the lane's sums of a block of 8 columns (rows g, g, g + 8, g + 8; columns 2t, 2t + 1, 2t, 2t + 1).
  void storeBlock(const Target &target, int64_t column, ArrayRef<Value> values) {
    Type type = product.outputType();
    for (int64_t i = 0; i < 2; ++i)
      g.ifThen(g.gt(target.columns, column + i), [&] {
        Value start = g.loadRaw(g.advance(target.list, column + i, g.i64()), g.i64());
        start = LLVM::IntToPtrOp::create(g.b, g.loc, g.pointerType(GpuBuilder::globalSpace), start);
        Value pointer = g.advance(start, target.row, type);
        for (int64_t half = 0; half < 2; ++half) {
          Value value = values[2 * half + i], to = g.advance(pointer, 8 * half, type);
          if (product.accumulates)
            value = g.add(g.loadFloats(to, type, 1)[0], value);
          g.storeFloats(value, to, type);
        }
      });
  }

  void storePlain(const ExpertPass &pass, Value feature, ArrayRef<Value> sums) {
    Target target = placeStores(pass, feature);
    for (size_t i = 0; i < sums.size(); i += 4) {
      // Keeps ptxas from loading more addresses at once than there are registers for.
      if (i % 32 == 0)
        g.warpBarrier();
      storeBlock(target, static_cast<int64_t>(2 * i), sums.slice(i, 4));
    }
  }

  /// The first half of the sums are those of the gates.
  void storeGated(const ExpertPass &pass, Value feature, ArrayRef<Value> sums) {
    Target target = placeStores(pass, feature);
    ArrayRef<Value> gates = sums.take_front(sums.size() / 2), others = sums.drop_front(sums.size() / 2);
    for (size_t i = 0; i < gates.size(); i += 4) {
      Values results;
      for (size_t j = i; j < i + 4; ++j)
        results.push_back(product.activate(g, gates[j], others[j]));
      storeBlock(target, static_cast<int64_t>(2 * i), results);
    }
  }

  const GpuBuilder &g;
  const ExpertProduct &product;
  TileShape shape;
  Ring ring;
  std::optional<ExpertSchedule> schedule;
  Value lane, warp, passes, tiles;
  Value list;                                                                       ///< of a producer
  /// Of a consumer: its first feature and its first row of a stage's weights, beside what its lanes need.
  Value firstFeature, firstRow, group, quad, halfBytes, pairBytes, outList;
};

} // namespace

LogicalResult k3::emitExpertTiles(OpBuilder &b, Operation *op, KernelConfigAttr config, const GpuTarget &target) {
  ExpertProduct product = ExpertProduct::of(op);
  std::optional<TileShape> shape = TileShape::of(product, target);
  if (!shape)
    return op->emitOpError("cannot be emitted with the strategy 'tiles'");
  GpuBuilder g(b, op->getLoc(), target, config);
  TileEmitter(g, product, *shape).emit();
  return success();
}
