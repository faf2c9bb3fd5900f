//===- EmitExpertStream.cpp - experts of few rows, as fast as memory gives them -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Reading the weights is what takes time. A pass is some rows of one expert, at most as many as mma.sync has columns; all
// blocks together go through all tiles of 16 weight rows of all passes, each block through a run of them. With a gated unit
// a tile has 8 rows of each of the two matrices, whose sums then meet in one thread.
//
// One warp copies tiles into a ring in shared memory, whole rows at a time. The other warps are groups of four, one for
// each scheduler, that take tiles in turn. A group's warps share the k of a tile, decode the weights in registers and
// multiply them with the pass's rows of x, which are in shared memory in the order that the weights come in. The sums of a
// tile's warps are added by one of them, a different one for each tile, through a ring of each group.
//
// Decoding takes most instructions, about two thirds of what a multiprocessor can issue while memory delivers: whatever is
// done per tile and warp counts, too.
//
// f32 x is split into three bf16 terms that are columns of their own: one or two rows cost no more than a rounded one.
//
// Errors. Tensor cores cut off what does not fit into a sum: less than its last place (2^-23 of it), once per
// instruction, always towards zero. Sums of the terms of an f32 x start from zero with every step and have at most four
// instructions; f32 additions, which round to nearest, do the rest: less than 4 * 2^-23 of a step's sum, which does not
// grow with k. Of a rounded x, a warp has one sum of its share of k.
//
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/Tile/Atoms.h"
#include "lib/Codegen/GPU/Tile/ExpertProduct.h"
#include "lib/Codegen/GPU/Tile/MxFp4.h"
#include "lib/Codegen/GPU/Tile/Pipeline.h"
#include "lib/Codegen/GPU/Tile/Runs.h"
#include "lib/Codegen/GPU/Tile/Split.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

constexpr StringRef strategyName = "stream";

constexpr int64_t tileRows = 16, columns = 8;
constexpr int64_t groups = 3, groupWarps = 4, consumers = groups * groupWarps, threads = 32 * (consumers + 1);
/// Threads that consume, as a barrier takes them, its number, and that of the one at which copies wait for rows of x.
constexpr int64_t consumerThreads = 32 * consumers, consumerBarrier = 1, inputBarrier = 2;
/// Places of a group for sums on their way, tile t's in number t mod 4, where the warp of this number adds them up. They
/// need no barrier that says when they are free: of the four tiles before t, each warp has added up one. That was t - 4
/// itself, or a later one, for which the warp that added up t - 4 stored its part afterwards.
constexpr int64_t sumStages = groupWarps;
/// Steps of a warp that are written out one after the other.
constexpr int64_t mostUnrolled = 8;
/// Bytes of a lane's load, and of the weights of x that it meets.
constexpr int64_t laneBytes = 16;

/// How an op is cut.
struct StreamShape {
  int64_t features, depth, experts;
  bool mxfp4, gated;
  int64_t terms, rowsPerPass;
  /// Pieces of k that a tile is loaded in.
  int64_t chunks, stages;

  static std::optional<StreamShape> of(const ExpertProduct &product, const GpuTarget &target);

  /// k that the four lanes of a row load at once, and that one of them has.
  int64_t stepDepth() const { return mxfp4 ? 128 : 32; }
  int64_t chunkDepth() const { return depth / chunks; }
  int64_t steps() const { return llvm::divideCeil(chunkDepth(), stepDepth()); }
  /// Runs of 8 k per lane in a step.
  int64_t runs() const { return mxfp4 ? 4 : 1; }

  int64_t codeBytes() const { return mxfp4 ? chunkDepth() / 2 : chunkDepth() * 2; }
  /// The rows of a matrix are two parts, of which one copy brings each if rows are whole. They are 64 bytes apart modulo
  /// 128: lanes that load of a row of both at once use all banks.
  int64_t parts() const { return gated ? 4 : 2; }
  int64_t partRows() const { return tileRows / parts(); }
  int64_t partStride() const { return llvm::alignTo(partRows() * codeBytes(), 128) + 64; }
  int64_t scaleBytes() const { return mxfp4 ? chunkDepth() / 32 : 0; }
  /// Scales of how many rows are one bulk copy; 0: they are copied one by one.
  int64_t scaleRows() const { return chunks > 1 ? 1 : matrixRows() * scaleBytes() % 16 == 0 ? matrixRows() : 0; }
  int64_t scaleStart() const { return parts() * partStride(); }
  int64_t stageBytes() const { return llvm::alignTo(scaleStart() + tileRows * scaleBytes(), 128); }
  /// What bulk copies bring.
  int64_t loadedBytes() const { return tileRows * (codeBytes() + (mxfp4 && scaleRows() > 0 ? scaleBytes() : 0)); }

  /// Of each matrix in a tile.
  int64_t matrixRows() const { return gated ? tileRows / 2 : tileRows; }
  int64_t tilesPerPass() const { return features / matrixRows(); }

  /// Columns that rows of x take.
  int64_t usedColumns() const { return rowsPerPass * terms; }
  int64_t inputBytes() const { return chunks * steps() * runs() * usedColumns() * 4 * laneBytes; }
  int64_t inputStart() const { return stages * stageBytes(); }

  /// Floats of a weight row in a warp's sums of a tile, one for each row of x; two are stored at once if x has one term.
  int64_t sumWidth() const { return terms == 1 ? llvm::alignTo(rowsPerPass, 2) : rowsPerPass; }
  /// A warp's sums of a tile, and a group's.
  int64_t partBytes() const { return tileRows * sumWidth() * 4; }
  int64_t sumBytes() const { return groupWarps * partBytes(); }
  int64_t sumStart() const { return inputStart() + inputBytes(); }
  int64_t barrierStart() const { return sumStart() + groups * sumStages * sumBytes(); }
  /// Barriers of arrivals, used in turn. A group that waits for piece u of the block's has seen the last one of its tile
  /// before, u - (groups - 1) chunks - 1, or a later one, which was copied after all pieces `stages` before it were
  /// consumed. With so many barriers, the one of u has ended its last round then, and its parity tells whether u is there.
  int64_t arrivals() const { return stages + (groups - 1) * chunks + 1; }
  int64_t arrivalStart() const { return barrierStart() + Ring::barrierBytes(stages); }
  int64_t sumBarrierStart() const { return arrivalStart() + Ring::barrierBytes(arrivals()); }
  int64_t scheduleStart() const { return sumBarrierStart() + 8 * groups * sumStages; }
  int64_t sharedBytes() const {
    return scheduleStart() + (experts > 0 ? ExpertSchedule::sharedBytes(experts) : 0);
  }
};

} // namespace

std::optional<StreamShape> StreamShape::of(const ExpertProduct &product, const GpuTarget &target) {
  if (!product.isStatic() || !product.hasPlainWeights() || !target.tma)
    return std::nullopt;
  StreamShape shape;
  shape.features = product.features;
  shape.depth = product.depth;
  shape.experts = product.experts;
  shape.mxfp4 = product.mxfp4;
  shape.gated = product.gated;
  shape.terms = product.roundsInput ? 1 : target.xTerms;
  shape.rowsPerPass = columns / shape.terms;
  if (shape.features == 0 || shape.depth == 0 || shape.features % shape.matrixRows() != 0)
    return std::nullopt;
  // Bulk copies move multiples of 16 bytes; this is also so for the scales of a row where it is cut.
  constexpr int64_t widestStage = 40 << 10;
  int64_t unit = shape.mxfp4 ? 512 : 32;
  if (shape.depth % (shape.mxfp4 ? 32 : 8) != 0)
    return std::nullopt;
  shape.chunks = 1;
  while (shape.stageBytes() > widestStage)
    do {
      if (++shape.chunks > shape.depth / unit)
        return std::nullopt;
    } while (shape.depth % (shape.chunks * unit) != 0);
  // A stage for each group and two that are on their way, even if passes get some rows less for that.
  auto place = [&](int64_t rows) {
    shape.rowsPerPass = rows;
    shape.stages = 0;
    int64_t room = target.sharedBytesPerBlock - shape.sharedBytes();
    shape.stages = room < 0 ? 0 : std::min<int64_t>(8, room / (shape.stageBytes() + Ring::barrierBytes(2)));
    return shape.stages;
  };
  constexpr int64_t wantedStages = groups + 2;
  int64_t most = shape.rowsPerPass, rows = most;
  while (rows > most / 2 && place(rows) < wantedStages)
    --rows;
  if (shape.stages < wantedStages)
    place(most);
  if (shape.stages < 2)
    return std::nullopt;
  return shape;
}

std::optional<GpuLaunch> k3::configureExpertStream(Operation *op, const GpuTarget &target) {
  ExpertProduct product = ExpertProduct::of(op);
  std::optional<StreamShape> shape = StreamShape::of(product, target);
  if (!shape)
    return std::nullopt;
  GpuLaunch launch;
  launch.strategy = strategyName;
  launch.grid = {{"", target.multiprocessors}};
  launch.threads = threads;
  launch.sharedBytes = shape->sharedBytes();
  return launch;
}

namespace {

class StreamEmitter {
public:
  StreamEmitter(const GpuBuilder &g, const ExpertProduct &product, const StreamShape &shape)
      : g(g), product(product), shape(shape), ring(g, shape.stages, shape.barrierStart()),
        arrivals(g, shape.arrivals(), shape.arrivalStart()) {
    if (product.experts > 0)
      schedule.emplace(g, product.offsets, shape.rowsPerPass, shape.scheduleStart());
  }

  void emit() {
    g.setMinBlocks(1); // else ptxas saves registers for more blocks than there is shared memory for
    lane = g.laneId();
    warp = g.warpId();
    product.prefetchTables(g);
    g.ifFirstThread([&] {
      ring.init(/*producers=*/1, groupWarps);
      arrivals.init(/*producers=*/1, 1);
      for (int64_t place = 0; place < groups * sumStages; ++place)
        initBarrier(g, sumBarrier(g.i32(place)), 32 * (groupWarps - 1));
      fenceBarriers(g);
    });
    g.waitForPrevious();
    product.prefetchInputs(g);
    if (schedule) {
      schedule->build();
      passes = schedule->total();
    } else {
      passes = g.ceilDiv(product.countRows(g), shape.rowsPerPass);
    }
    g.barrier();
    chooseTiles();
    g.ifThen(g.lt(begin, end), [&] {
      firstPass = g.div(begin, tilesPerPass);
      lastPass = g.div(g.sub(end, 1), tilesPerPass);
      g.ifThenElse(
          g.eq(warp, consumers),
          [&] {
            produce();
            return Values();
          },
          [&] {
            consume();
            return Values();
          });
    });
  }

private:
  using Values = SmallVector<Value>;

  /// Of all tiles of all passes, this block's: of one pass if that leaves few blocks idle, because rows of x that come
  /// late hold a block up; else as many as others have.
  void chooseTiles() {
    tilesPerPass = g.i32(shape.tilesPerPass());
    Value blocks = g.i32(g.config.getGrid()[0].getTile()), block = g.blockId();
    Value blocksPerPass = g.max(g.div(blocks, g.max(passes, 1)), 1), idle = g.sub(blocks, g.mul(blocksPerPass, passes));
    Value isOfOne = g.logicalAnd(g.ge(idle, 0), g.le(idle, g.div(blocks, 32)));
    Value sharers = g.select(isOfOne, blocksPerPass, blocks);
    Value shared = g.select(isOfOne, tilesPerPass, g.mul(passes, tilesPerPass));
    Value number = g.div(block, sharers), index = g.rem(block, sharers);
    Value each = g.div(shared, sharers), larger = g.rem(shared, sharers);
    begin = g.add(g.mul(number, tilesPerPass), g.add(g.mul(index, each), g.min(index, larger)));
    Value count = g.add(each, g.select(g.lt(index, larger), g.i32(1), g.i32(0)));
    end = g.add(begin, g.select(g.lt(number, passes), count, g.i32(0)));
  }

  ExpertPass findPass(Value number) {
    if (schedule)
      return schedule->find(number);
    Value first = g.mul(number, shape.rowsPerPass);
    return {Value(), first, g.min(g.sub(product.countRows(g), first), shape.rowsPerPass)};
  }

  /// A pass of the block, and its tiles, as numbers in the pass. `before`: the block's tiles before tile 0 of the pass;
  /// negative in the first one.
  struct Part {
    ExpertPass pass;
    Value isFirst, before, firstTile, endTile;
  };
  Values forParts(ValueRange inits, function_ref<Values(const Part &, ValueRange)> body) {
    return g.loop(firstPass, g.add(lastPass, 1), g.i32(1), inits, [&](Value number, ValueRange carried) {
      Value start = g.mul(number, tilesPerPass);
      Part part{findPass(number), g.eq(number, firstPass), g.sub(start, begin), g.max(g.sub(begin, start), 0),
                g.min(g.sub(end, start), tilesPerPass)};
      return body(part, carried);
    });
  }

  Value stageStart(Value stage) { return g.shared(g.mul(stage, shape.stageBytes())); }

  //===--- weights into shared memory ---===//

  void produce() {
    RingPosition start = ring.start();
    forParts({start.stage, start.parity, g.i32(0)}, [&](const Part &part, ValueRange at) {
      Values weights, scales;
      for (int64_t matrix = 0; matrix < product.matrices(); ++matrix) {
        weights.push_back(product.weightRow(g, matrix, part.pass.expert, g.i32(0)));
        if (shape.mxfp4)
          scales.push_back(product.scaleRow(g, matrix, part.pass.expert, g.i32(0)));
      }
      return g.loop(part.firstTile, part.endTile, g.i32(1), at, [&](Value tile, ValueRange at) {
        RingPosition position{at[0], at[1]}, arrival{at[2], g.i32(0)};
        Value row = g.mul(tile, shape.matrixRows());
        for (int64_t chunk = 0; chunk < shape.chunks; ++chunk) {
          ring.waitEmpty(position);
          Value bar = arrivals.full(arrival.stage), start = stageStart(position.stage);
          if (shape.mxfp4 && shape.scaleRows() == 0)
            for (int64_t matrix = 0; matrix < product.matrices(); ++matrix)
              moveScales(scales[matrix], matrix, row, start);
          g.warpBarrier();
          g.ifThen(g.eq(lane, 0), [&] { arriveExpecting(g, bar, g.i32(shape.loadedBytes())); });
          g.warpBarrier();
          copyWeights(weights, row, chunk, start, bar);
          if (shape.mxfp4 && shape.scaleRows() > 0)
            copyScales(scales, row, chunk, start, bar);
          // Rows of x would otherwise queue behind all that the ring has room for.
          if (chunk == 0)
            g.ifThen(g.logicalAnd(part.isFirst, g.eq(tile, part.firstTile)),
                     [&] { g.barrier(inputBarrier, threads); });
          position = ring.next(position);
          arrival = arrivals.next(arrival);
        }
        return Values{position.stage, position.parity, arrival.stage};
      });
    });
  }

  /// That of a matrix, by number.
  Value select(ValueRange matrices, Value number) {
    return matrices.size() == 1 ? matrices[0] : g.select(g.eq(number, 0), matrices[0], matrices[1]);
  }

  /// What is in a stage, a part by each lane, or a piece of a row.
  void copyWeights(ValueRange matrices, Value row, int64_t chunk, Value start, Value bar) {
    int64_t together = shape.chunks == 1 ? shape.partRows() : 1;
    g.ifThen(g.lt(lane, tileRows / together), [&] {
      Value first = g.mul(lane, together), part = g.div(first, shape.partRows());
      Value matrix = select(matrices, g.div(first, shape.matrixRows()));
      Value from = g.mul(g.toI64(g.add(row, g.rem(first, shape.matrixRows()))), shape.chunks * shape.codeBytes());
      Value to = g.add(g.mul(part, shape.partStride()), g.mul(g.rem(first, shape.partRows()), shape.codeBytes()));
      loadBulk(g, g.advance(start, to, g.i8()), g.advance(matrix, g.add(from, chunk * shape.codeBytes()), g.i8()),
               g.i32(together * shape.codeBytes()), bar);
    });
  }

  /// Scales one by one.
  void moveScales(Value matrixStart, int64_t matrix, Value row, Value start) {
    int64_t count = shape.matrixRows() * shape.scaleBytes();
    Value from = g.advance(matrixStart, g.mul(g.toI64(row), shape.scaleBytes()), g.i8());
    Value to = g.advance(start, shape.scaleStart() + matrix * count, g.i8());
    g.loop(lane, g.i32(count), g.i32(32), [&](Value i) {
      g.storeRaw(g.loadRaw(g.advance(from, i, g.i8()), g.i8(), true), g.advance(to, i, g.i8()));
    });
  }

  /// Scales of a matrix, or of a row, by each lane of the second half.
  void copyScales(ValueRange matrices, Value row, int64_t chunk, Value start, Value bar) {
    int64_t together = shape.scaleRows();
    Value first = g.mul(g.rem(lane, tileRows), together);
    g.ifThen(g.logicalAnd(g.ge(lane, 16), g.lt(first, tileRows)), [&] {
      Value matrix = select(matrices, g.div(first, shape.matrixRows()));
      Value from = g.mul(g.toI64(g.add(row, g.rem(first, shape.matrixRows()))), shape.chunks * shape.scaleBytes());
      Value to = g.add(g.mul(first, shape.scaleBytes()), shape.scaleStart());
      loadBulk(g, g.advance(start, to, g.i8()), g.advance(matrix, g.add(from, chunk * shape.scaleBytes()), g.i8()),
               g.i32(together * shape.scaleBytes()), bar);
    });
  }

  //===--- x into shared memory ---===//

  /// Where 8 k of a column are: run `run` (of all) of lane `quad`.
  Value inputPlace(Value run, Value column, Value quad) {
    Value piece = g.add(g.mul(g.add(g.mul(run, shape.usedColumns()), column), 4), quad);
    return g.shared(g.add(g.mul(piece, laneBytes), shape.inputStart()));
  }

  /// The rows of x of a pass, by all consumers. Those of the first one let the copies go on once they have been asked for.
  void stageInputs(const Part &part) {
    // A thread does 8 neighbouring k of one row.
    Value count = g.mul(part.pass.count, inputPieces());
    auto stage = [&](Value number, function_ref<void()> between) {
      Value isOne = g.lt(number, count), known = g.min(number, g.sub(count, 1));
      InputPiece piece = findPiece(known);
      Values values = loadPiece(part.pass, piece);
      between();
      g.ifThen(isOne, [&] { storePiece(piece, values); });
    };
    stage(g.threadId(), [&] {
      g.ifThen(part.isFirst, [&] { g.barrier(inputBarrier, threads); });
    });
    g.loop(g.add(g.threadId(), consumerThreads), count, g.i32(consumerThreads),
           [&](Value number) { stage(number, [] {}); });
  }

  /// 8 neighbouring k of a row of x, which lane `quad` of four meets in one run.
  struct InputPiece {
    Value row, run, quad, k;
  };
  int64_t inputPieces() const { return shape.chunks * shape.steps() * shape.runs() * 4; }

  InputPiece findPiece(Value number) {
    Value part = g.rem(number, inputPieces()), row = g.div(number, inputPieces());
    Value run = g.div(part, 4), quad = g.rem(part, 4);
    Value chunk = g.div(run, shape.steps() * shape.runs()), inChunk = g.rem(run, shape.steps() * shape.runs());
    // MXFP4: the lane has 32 neighbouring k of a step.
    Value k = g.add(g.mul(g.div(inChunk, shape.runs()), shape.stepDepth()),
                    g.add(g.mul(quad, 8 * shape.runs()), g.mul(g.rem(inChunk, shape.runs()), 8)));
    if (shape.chunks > 1)
      k = g.add(k, g.mul(chunk, shape.chunkDepth()));
    return {row, run, quad, k};
  }

  Values loadPiece(const ExpertPass &pass, const InputPiece &piece) {
    Type type = product.inputType();
    int64_t length = std::min<int64_t>({8, getAlignedElements(product.x), g.vectorLength(type)});
    auto load = [&] {
      Value from = g.element(product.x, product.place(g, g.add(pass.begin, piece.row)).input);
      from = g.advance(from, piece.k, type);
      Values values;
      for (int64_t i = 0; i < 8; i += length)
        values.append(g.loadFloats(g.advance(from, i, type), type, length, true));
      return values;
    };
    // Past the end of k, which only the last step of an uncut tile has, x is 0.
    bool isWhole = shape.chunkDepth() % shape.stepDepth() == 0;
    return isWhole ? load() : g.ifThenElse(g.lt(piece.k, shape.depth), load, [&] { return Values(8, g.f32(0)); });
  }

  void storePiece(const InputPiece &piece, ValueRange values) {
    SmallVector<Values> words(shape.terms);
    for (int64_t p = 0; p < 4; ++p) {
      // The pairs that decoded codes make, or neighbours.
      Value first = values[shape.mxfp4 ? p : 2 * p], second = values[shape.mxfp4 ? p + 4 : 2 * p + 1];
      for (auto [term, word] : llvm::zip_equal(words, splitPair(g, first, second, shape.terms)))
        term.push_back(word);
    }
    for (int64_t term = 0; term < shape.terms; ++term) {
      Value column = g.add(g.mul(piece.row, shape.terms), term);
      Value four = vector::FromElementsOp::create(g.b, g.loc, g.vectorOf(4, g.i32()), words[term]);
      g.storeRaw(four, inputPlace(piece.run, column, piece.quad));
    }
  }

  //===--- products ---===//

  /// The group's tile after the one at `from`: numbers among the block's tiles, of tiles that the group has done, and
  /// where the tile's first piece is.
  struct Turn {
    Value number, done, stage;
    RingPosition arrival;
    Values values() const { return {number, done, stage, arrival.stage, arrival.parity}; }
    static Turn of(ValueRange values) { return {values[0], values[1], values[2], {values[3], values[4]}}; }
  };

  /// `stage`, below `stages`, moved on by `count`; `wraps`, if wanted, is whether that goes round an odd number of times.
  Value moveOn(Value stage, int64_t count, int64_t stages, Value *wraps = nullptr) {
    if (count % stages == 0 && !wraps)
      return stage;
    bool roundsAreOdd = count / stages % 2 != 0;
    Value next = g.add(stage, count % stages), isPast = g.ge(next, stages);
    if (wraps)
      *wraps = roundsAreOdd ? g.logicalNot(isPast) : isPast;
    return g.select(isPast, g.sub(next, stages), next);
  }
  RingPosition moveOn(const RingPosition &position, int64_t count) {
    if (count == 0)
      return position;
    Value wraps, stage = moveOn(position.stage, count, shape.arrivals(), &wraps);
    return {stage, g.bitXor(position.parity, g.select(wraps, g.i32(1), g.i32(0)))};
  }

  void consume() {
    group = g.div(warp, groupWarps);
    member = g.rem(warp, groupWarps);
    Value first = g.mul(group, shape.chunks);
    Turn turn{group, g.i32(0), g.rem(first, shape.stages),
              {g.rem(first, shape.arrivals()), g.rem(g.div(first, shape.arrivals()), 2)}};
    forParts(turn.values(), [&](const Part &part, ValueRange carried) {
      // The rows of the pass before are not needed any more.
      g.barrier(consumerBarrier, consumerThreads);
      stageInputs(part);
      g.barrier(consumerBarrier, consumerThreads);
      // Lanes of columns that nobody has read the last one.
      Value column = g.min(g.div(lane, 4), g.sub(g.mul(part.pass.count, shape.terms), 1));
      inputs = g.advance(g.shared(shape.inputStart()), g.mul(g.add(g.mul(column, 4), g.rem(lane, 4)), laneBytes), g.i8());
      return g.loop(g.sub(carried[0], part.before), part.endTile, g.i32(groups), carried, [&](Value tile, ValueRange carried) {
        Turn turn = Turn::of(carried);
        multiplyTile(part.pass, tile, turn);
        return Turn{g.add(turn.number, groups), g.add(turn.done, 1),
                    moveOn(turn.stage, groups * shape.chunks, shape.stages), moveOn(turn.arrival, groups * shape.chunks)}
            .values();
      });
    });
  }

  void multiplyTile(const ExpertPass &pass, Value tile, const Turn &turn) {
    // Two sets of sums, so that instructions need not wait for each other.
    Values partial(8, g.f32(0));
    for (int64_t chunk = 0; chunk < shape.chunks; ++chunk) {
      arrivals.waitFull(moveOn(turn.arrival, chunk));
      Value stage = moveOn(turn.stage, chunk, shape.stages);
      partial = multiplyPiece(stageStart(stage), turn.done, chunk, partial);
      g.warpBarrier();
      g.ifThen(g.eq(lane, 0), [&] { arrive(g, ring.empty(stage)); });
    }
    for (int64_t i = 0; i < 4; ++i)
      partial[i] = g.add(partial[i], partial[4 + i]);
    partial.resize(4);

    Value adder = g.rem(turn.done, groupWarps), place = g.add(g.mul(group, sumStages), adder);
    Value parts = g.advance(g.shared(shape.sumStart()), g.mul(place, shape.sumBytes()), g.i8());
    storePart(g.advance(parts, g.mul(member, shape.partBytes()), g.i8()), partial);
    g.ifThenElse(
        g.eq(adder, member),
        [&] {
          finishTile(pass, tile, turn.done, place, parts);
          return Values();
        },
        [&] { // all lanes, because all have stored
          arrive(g, sumBarrier(place));
          return Values();
        });
  }

  /// partial + the products of the warp's steps of a piece.
  Values multiplyPiece(Value start, Value done, int64_t chunk, const Values &partial) {
    Values all;
    if (shape.steps() % groupWarps == 0) {
      int64_t each = shape.steps() / groupWarps, together = std::min(each, mostUnrolled), rounds = each / together;
      auto multiply = [&](Value step, int64_t count, ValueRange all) {
        Values next(all);
        for (int64_t i = 0; i < count; ++i) {
          // Keeps ptxas from loading for more steps at once than there are registers for.
          if (i > 0 && i % 2 == 0)
            g.warpBarrier();
          next = multiplyStep(start, g.add(step, i * groupWarps), chunk, next);
        }
        return next;
      };
      all = startPiece(partial);
      if (rounds == 1)
        all = multiply(member, together, all);
      else
        all = g.loop(member, g.i32(rounds * together * groupWarps), g.i32(together * groupWarps), all,
                     [&](Value step, ValueRange all) { return multiply(step, together, all); });
      all = multiply(g.add(member, rounds * together * groupWarps), each % together, all);
      return endPiece(all, [&] { return repeatPiece(start, member, chunk, partial); });
    }
    // Warps take turns in having the first step, where they do not have the same number of steps.
    Value first = member;
    if (shape.steps() % groupWarps != 0) {
      Value turn = g.mul(g.add(g.mul(done, shape.chunks), chunk), shape.steps());
      first = g.bitAnd(g.sub(member, turn), groupWarps - 1);
    }
    all = g.loop(first, g.i32(shape.steps()), g.i32(groupWarps), startPiece(partial),
                 [&](Value step, ValueRange all) { return multiplyStep(start, step, chunk, all); });
    return endPiece(all, [&] { return repeatPiece(start, first, chunk, partial); });
  }

  /// With the sums goes the largest scale: products with larger ones than those of one factor are thrown away, and done again.
  Values startPiece(const Values &partial) {
    Values all(partial);
    if (shape.mxfp4)
      all.push_back(g.i32(0));
    return all;
  }
  Values endPiece(Values all, function_ref<Values()> repeat) {
    if (!shape.mxfp4)
      return all;
    Value isPlain = g.eq(g.ballot(g.gt(all.pop_back_val(), maxPlainScale)), 0);
    return g.ifThenElse(isPlain, [&] { return all; }, repeat);
  }
  Values repeatPiece(Value start, Value first, int64_t chunk, const Values &partial) {
    return g.loop(first, g.i32(shape.steps()), g.i32(groupWarps), partial,
                  [&](Value step, ValueRange partial) { return multiplyStep(start, step, chunk, partial); });
  }

  /// Number of the 16 bytes of a row that the lane has in a step: of a group of 32 weights, or of 8. Past the end of k,
  /// where x is 0, that of the last one.
  Value getPiece(Value step) {
    Value piece = g.add(g.mul(step, 4), g.rem(lane, 4));
    bool isWhole = shape.chunkDepth() % shape.stepDepth() == 0;
    return isWhole ? piece : g.min(piece, shape.codeBytes() / laneBytes - 1);
  }

  /// The lane has two rows of the tile: of all parts, or of one. Neighbouring rows of mma.sync are in the two parts of a
  /// matrix.
  Value getPart(int64_t half) { return g.add(g.rem(g.div(lane, 4), 2), shape.gated ? 2 * half : 0); }
  Value getRowOfPart(int64_t half) { return g.add(g.div(lane, 8), shape.gated ? 0 : 4 * half); }
  Value getRow(int64_t half) { return g.add(g.mul(getPart(half), shape.partRows()), getRowOfPart(half)); }

  Values loadWords(Value pointer) {
    Value four = g.loadRaw(pointer, g.vectorOf(4, g.i32()));
    Values words;
    for (int64_t i = 0; i < 4; ++i)
      words.push_back(vector::ExtractOp::create(g.b, g.loc, four, ArrayRef<int64_t>{i}));
    return words;
  }

  /// The products of a step are added to the sums. MXFP4: if the largest scale so far is behind the sums, for scales of one
  /// factor; else for all.
  Values multiplyStep(Value start, Value step, int64_t chunk, ValueRange all) {
    ValueRange partial = all.take_front(8);
    bool isPlain = all.size() > partial.size();
    Value piece = getPiece(step), scales[2];
    Values words[2];
    for (int64_t half = 0; half < 2; ++half) {
      Value at = g.add(g.mul(getPart(half), shape.partStride()), g.mul(getRowOfPart(half), shape.codeBytes()));
      at = g.add(at, g.mul(piece, laneBytes));
      words[half] = loadWords(g.advance(start, at, g.i8()));
      if (!shape.mxfp4)
        continue;
      at = g.add(g.add(g.mul(getRow(half), shape.scaleBytes()), piece), shape.scaleStart());
      scales[half] = g.zeroExtend(g.loadRaw(g.advance(start, at, g.i8()), g.i8()), g.i32());
    }
    Value run = g.add(g.mul(step, shape.runs()), chunk * shape.steps() * shape.runs());
    Value input = g.advance(inputs, g.mul(run, shape.usedColumns() * 4 * laneBytes), g.i8());
    bool fromZero = shape.terms > 1;
    Values next = fromZero ? Values(partial.size(), g.f32(0)) : Values(partial);
    for (int64_t i = 0; i < shape.runs(); ++i) {
      Values x = loadWords(g.advance(input, i * shape.usedColumns() * 4 * laneBytes, g.i8()));
      if (!shape.mxfp4) {
        next = multiplyRun(words[0], words[1], x, next);
        continue;
      }
      Values weights[2];
      for (int64_t half = 0; half < 2; ++half)
        for (Value pair : placeCodes(g, words[half][i])) {
          if (isPlain) {
            weights[half].push_back(multiplyPairs(g, pair, getPlainFactor(g, scales[half])));
          } else {
            auto [one, other] = getFactors(g, scales[half]);
            weights[half].push_back(multiplyPairs(g, multiplyPairs(g, pair, one), other));
          }
        }
      next = multiplyRun(weights[0], weights[1], x, next);
    }
    if (fromZero)
      for (auto [value, sum] : llvm::zip_equal(next, partial))
        value = g.add(sum, value);
    if (isPlain)
      next.push_back(g.max(all.back(), g.max(scales[0], scales[1])));
    return next;
  }

  /// Two products of 16 k: four pairs of each lane for its two rows and its column.
  Values multiplyRun(ArrayRef<Value> low, ArrayRef<Value> high, ArrayRef<Value> x, ValueRange partial) {
    Values next(partial);
    for (int64_t i = 0; i < 2; ++i) {
      Values a{low[2 * i], high[2 * i], low[2 * i + 1], high[2 * i + 1]};
      Values sum = k3::multiplyStep(g, a, {x[2 * i], x[2 * i + 1]}, partial.slice(4 * i, 4));
      llvm::copy(sum, next.begin() + 4 * i);
    }
    return next;
  }

  //===--- results ---===//

  /// The place's sums are complete.
  Value sumBarrier(Value place) { return g.advance(g.shared(shape.sumBarrierStart()), place, g.i64()); }

  /// An element of a warp's sums of a tile.
  Value sumElement(Value part, Value row, Value column) {
    return g.advance(part, g.add(g.mul(row, shape.sumWidth()), column), g.f32());
  }

  /// The warp's sums of a tile, of which each lane has those of two rows and columns, with the terms of each x added up,
  /// small ones first.
  void storePart(Value part, ValueRange sums) {
    Value quad = g.rem(lane, 4);
    for (int64_t half = 0; half < 2; ++half) {
      Value row = getRow(half), first = sums[2 * half], second = sums[2 * half + 1];
      if (shape.terms == 1) {
        Value pair = vector::FromElementsOp::create(g.b, g.loc, g.vectorOf(2, g.f32()), ValueRange{first, second});
        Value column = g.mul(quad, 2);
        g.ifThen(g.lt(column, shape.sumWidth()), [&] { g.storeRaw(pair, sumElement(part, row, column)); });
        continue;
      }
      Value sum;
      if (shape.terms == 2) {
        sum = g.add(second, first);
      } else {
        // Lanes 0 to 2 have columns 0, 1; 2, 3; 4, 5: the three terms of a row of x, then those of another one.
        Value nextFirst = g.shuffleFrom(first, g.add(lane, 1)), nextSecond = g.shuffleFrom(second, g.add(lane, 1));
        Value isLowest = g.eq(quad, 0);
        sum = g.add(g.select(isLowest, nextFirst, nextSecond), g.select(isLowest, second, nextFirst));
        sum = g.add(sum, g.select(isLowest, first, second));
      }
      g.ifThen(g.lt(quad, shape.rowsPerPass), [&] { g.storeRaw(sum, sumElement(part, row, quad)); });
    }
  }

  /// Adds the warps' sums of a tile and stores what comes out. By one warp.
  void finishTile(const ExpertPass &pass, Value tile, Value done, Value place, Value parts) {
    // The places of this lane's results, while others may still be at work.
    int64_t rows = shape.matrixRows(), results = llvm::divideCeil(rows * shape.rowsPerPass, 32);
    Value local = g.rem(lane, rows);
    struct Result {
      Value column, isStored, pointer;
    };
    SmallVector<Result> stored;
    for (int64_t i = 0; i < results; ++i) {
      Value row = g.add(g.div(lane, rows), i * (32 / rows));
      Value isStored = g.lt(row, pass.count);
      Value known = g.min(row, g.sub(pass.count, 1));
      Values at = product.place(g, g.add(pass.begin, known)).output;
      at.push_back(g.add(g.mul(tile, rows), local));
      stored.push_back({known, isStored, g.element(product.out, at)});
    }
    waitBarrier(g, sumBarrier(place), g.rem(g.div(done, sumStages), 2));
    g.warpBarrier();
    auto read = [&](Value row, Value column) {
      Value sum;
      for (int64_t w = 0; w < groupWarps; ++w) {
        Value value = g.loadRaw(sumElement(g.advance(parts, w * shape.partBytes(), g.i8()), row, column), g.f32());
        sum = sum ? g.add(sum, value) : value;
      }
      return sum;
    };
    for (const Result &result : stored) {
      Value value = read(local, result.column);
      if (product.gated)
        value = product.activate(g, value, read(g.add(local, rows), result.column));
      g.ifThen(result.isStored, [&] {
        Type type = product.outputType();
        Value stored = value;
        if (product.accumulates)
          stored = g.add(g.loadFloats(result.pointer, type, 1)[0], stored);
        g.storeFloats(stored, result.pointer, type);
      });
    }
  }

  const GpuBuilder &g;
  const ExpertProduct &product;
  StreamShape shape;
  /// Of the stages, whether they are empty; of pieces, whether they have arrived.
  Ring ring, arrivals;
  std::optional<ExpertSchedule> schedule;
  Value lane, warp, passes, tilesPerPass, begin, end, firstPass, lastPass;
  /// The warp's group, and which of it the warp is; the lane's first run of x.
  Value group, member, inputs;
};

} // namespace

LogicalResult k3::emitExpertStream(OpBuilder &b, Operation *op, KernelConfigAttr config, const GpuTarget &target) {
  ExpertProduct product = ExpertProduct::of(op);
  std::optional<StreamShape> shape = StreamShape::of(product, target);
  if (!shape)
    return op->emitOpError("cannot be emitted with the strategy 'stream'");
  GpuBuilder g(b, op->getLoc(), target, config);
  StreamEmitter(g, product, *shape).emit();
  return success();
}
