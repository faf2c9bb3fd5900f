//===- EmitExpertStream.cpp - experts of few rows, as fast as memory gives them -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Reading the weights is what takes time. A pass is some rows of one expert, at most as many as mma.sync has columns; all
// blocks together go through all tiles of 16 weight rows of all passes, each block through a run of them. With a gated unit
// a tile has 8 rows of each of the two matrices, whose sums then meet in one thread.
//
// One warp copies tiles into a ring in shared memory, whole rows at a time. Twelve warps are three groups of four, one for
// each scheduler, that take tiles in turn. A group's warps share the k of a tile, decode the weights in registers and
// multiply them with the pass's rows of x, which are in shared memory in the order that the weights come in. The sums of a
// tile's warps are added by one of them, a different one for each tile, through a ring of each group. Two warps bring the
// rows of x of a block's next pass while it works on one.
//
// k3.latent_moe.expert_mlp is two products, of which the second reads what the first one makes. All blocks go through the
// tiles of the first one, then through those of the second; copies of weights never stop between them. Rows of the second
// product must be complete before they are read: a block adds the tiles that it has done to a counter of their pass, and
// waits for the counter of a pass before it reads its rows. So that this rarely takes time, each product of few passes is
// done for one half of them, then for the other. Blocks wait for each other, so all must run at the same time.
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
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"
#include <functional>

using namespace mlir;
using namespace mlir::k3;

namespace {

constexpr StringRef strategyName = "stream";

constexpr int64_t tileRows = 16, columns = 8;
constexpr int64_t groups = 3, groupWarps = 4, consumers = groups * groupWarps;
/// Warps behind the consumers: one copies weights, two bring rows of x, one says what is finished.
constexpr int64_t copier = consumers, stagers = 2, keeper = copier + 1 + stagers, threads = 32 * (keeper + 1);
/// The barrier at which copies wait for rows of x to be asked for, and its threads.
constexpr int64_t inputBarrier = 1, inputBarrierThreads = 32 * (1 + stagers);
/// Passes of a block whose rows of x can be there at once.
constexpr int64_t inputStages = 2;
/// What consumers know of one, in shared memory, because they have no registers left for it: its first row, rows and where
/// those are; what is added to a tile's number among the block's to get that in the pass, and the end of its tiles; and
/// how many parts the block has up to this one, up to the end of the product and up to that of the last product.
enum InputWord : int64_t {
  beginWord, countWord, firstRowWord, tileShiftWord, endTileWord, nextPartWord, endPartWord, allPartsWord, inputWords
};
/// With up to so many passes, a product is done for one half of them first. With more, waiting at the end of the first
/// product is a small part of the time, and all of them in one go were faster.
constexpr int64_t mostHalvedPasses = 24;
/// Places of a group for sums on their way, tile t's in number t mod 4, where the warp of this number adds them up. They
/// need no barrier that says when they are free: of the four tiles before t, each warp has added up one. That was t - 4
/// itself, or a later one, for which the warp that added up t - 4 stored its part afterwards.
constexpr int64_t sumStages = groupWarps;
/// Steps of a warp that are written out one after the other, and where `ptxas` keeps more in registers than there are.
constexpr int64_t mostUnrolled = 8, fewUnrolled = 2;
/// Bytes of a lane's load, and of the weights of x that it meets.
constexpr int64_t laneBytes = 16;

/// How a product is cut.
struct ProductShape {
  int64_t features, depth;
  bool mxfp4, gated;
  int64_t terms;
  /// Pieces of k that a tile is loaded in.
  int64_t chunks;

  static std::optional<ProductShape> of(const ExpertProduct &product, const GpuTarget &target);

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

  /// Bytes of a row of x for four lanes with a run each, and in all. Rows are 64 bytes apart modulo 128, as are terms:
  /// lanes of neighbouring columns use all banks.
  static constexpr int64_t termBytes = 4 * laneBytes;
  int64_t runBytes() const { return terms * termBytes; }
  int64_t inputBytes() const { return llvm::alignTo(chunks * steps() * runs() * runBytes(), 128) + 64; }
};

/// How an op is: its products, and what they share.
struct StreamShape {
  SmallVector<ProductShape, 2> products;
  int64_t experts, rowsPerPass, stages;

  static std::optional<StreamShape> of(ArrayRef<ExpertProduct> products, const GpuTarget &target);

  /// Of a member of the products' shapes.
  template <typename Member> int64_t largest(Member size) const {
    int64_t most = 0;
    for (const ProductShape &product : products)
      most = std::max<int64_t>(most, std::invoke(size, product));
    return most;
  }
  int64_t stageBytes() const { return largest(&ProductShape::stageBytes); }
  /// Rows of x that there is room for: of one pass or of two.
  int64_t inputRows() const { return rowsPerPass; }
  int64_t inputBytes() const { return largest(&ProductShape::inputBytes); }
  int64_t inputStart() const { return stages * stageBytes(); }

  /// Floats of a weight row in a warp's sums of a tile, one for each row of x; two are stored at once if x has one term.
  int64_t sumWidth() const { return llvm::alignTo(rowsPerPass, 2); }
  /// A warp's sums of a tile, and a group's.
  int64_t partBytes() const { return tileRows * sumWidth() * 4; }
  int64_t sumBytes() const { return groupWarps * partBytes(); }
  int64_t sumStart() const { return inputStart() + inputRows() * inputBytes(); }
  int64_t barrierStart() const { return sumStart() + groups * sumStages * sumBytes(); }
  /// Barriers of arrivals, used in turn. A group that waits for piece u of the block's has seen the last one of its tile
  /// before, u - (groups - 1) chunks - 1, or a later one, which was copied after all pieces `stages` before it were
  /// consumed. With so many barriers, the one of u has ended its last round then, and its parity tells whether u is there.
  /// As they are a multiple of the stages, their number tells the stage.
  int64_t arrivals() const {
    return llvm::alignTo(stages + (groups - 1) * largest(&ProductShape::chunks) + 1, stages);
  }
  int64_t arrivalStart() const { return barrierStart() + Ring::barrierBytes(stages); }
  int64_t inputBarrierStart() const { return arrivalStart() + Ring::barrierBytes(arrivals()); }
  int64_t sumBarrierStart() const { return inputBarrierStart() + Ring::barrierBytes(inputStages); }
  /// Of each place for a pass a barrier that tells when consumers are done with it, then its words: one address for all.
  static constexpr int64_t inputWordStart = 16, inputNoteBytes = llvm::alignTo(inputWordStart + 4 * inputWords, 16);
  int64_t inputNoteStart() const { return llvm::alignTo(sumBarrierStart() + 8 * groups * sumStages, 16); }
  int64_t passesStart() const { return inputNoteStart() + inputNoteBytes * inputStages; }
  int64_t scheduleStart() const { return llvm::alignTo(passesStart() + 4, 16); }
  int64_t sharedBytes() const {
    return scheduleStart() + (experts > 0 ? ExpertSchedule::sharedBytes(experts) : 0);
  }
};

} // namespace

std::optional<ProductShape> ProductShape::of(const ExpertProduct &product, const GpuTarget &target) {
  if (!product.isStatic() || !product.hasPlainWeights())
    return std::nullopt;
  ProductShape shape;
  shape.features = product.features;
  shape.depth = product.depth;
  shape.mxfp4 = product.mxfp4;
  shape.gated = product.gated;
  shape.terms = product.roundsInput ? 1 : target.xTerms;
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
  return shape;
}

std::optional<StreamShape> StreamShape::of(ArrayRef<ExpertProduct> products, const GpuTarget &target) {
  if (!target.tma)
    return std::nullopt;
  StreamShape shape;
  shape.experts = products.front().experts;
  for (const ExpertProduct &product : products) {
    std::optional<ProductShape> cut = ProductShape::of(product, target);
    if (!cut)
      return std::nullopt;
    shape.products.push_back(*cut);
  }
  // A stage for each group and two that are on their way, even if passes get some rows less for that.
  auto place = [&](int64_t rows) {
    shape.rowsPerPass = rows;
    shape.stages = 8;
    while (shape.stages > 0 && shape.sharedBytes() > target.sharedBytesPerBlock)
      --shape.stages;
    return shape.stages;
  };
  constexpr int64_t wantedStages = groups + 2;
  int64_t most = columns / shape.largest(&ProductShape::terms), rows = most;
  while (rows > most / 2 && place(rows) < wantedStages)
    --rows;
  if (shape.stages < wantedStages)
    place(most);
  if (shape.stages < 2)
    return std::nullopt;
  return shape;
}

static SmallVector<ExpertProduct, 2> getProducts(Operation *op) {
  if (auto mlp = dyn_cast<MoeExpertMlpOp>(op))
    return {ExpertProduct::gatedOf(mlp), ExpertProduct::downOf(mlp)};
  return {ExpertProduct::of(op)};
}

std::optional<GpuLaunch> k3::configureExpertStream(Operation *op, const GpuTarget &target) {
  std::optional<StreamShape> shape = StreamShape::of(getProducts(op), target);
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
  StreamEmitter(const GpuBuilder &g, ArrayRef<ExpertProduct> products, Value progress, const StreamShape &shape)
      : g(g), products(products), progress(progress), shape(shape), ring(g, shape.stages, shape.barrierStart()),
        arrivals(g, shape.arrivals(), shape.arrivalStart()), inputs(g, inputStages, shape.inputBarrierStart()) {
    if (shape.experts > 0)
      schedule.emplace(g, products.front().offsets, shape.rowsPerPass, shape.scheduleStart());
  }

  void emit() {
    g.setMinBlocks(1); // else ptxas saves registers for more blocks than there is shared memory for
    if (isFused())
      g.setResident();
    lane = g.laneId();
    warp = g.warpId();
    for (const ExpertProduct &product : products)
      product.prefetchTables(g);
    g.ifFirstThread([&] {
      ring.init(/*producers=*/1, groupWarps);
      arrivals.init(/*producers=*/1, 1);
      inputs.init(/*producers=*/32 * stagers, 32);
      for (int64_t stage = 0; stage < inputStages; ++stage)
        initBarrier(g, doneBarrier(g.i32(stage)), 32 * consumers);
      for (int64_t place = 0; place < groups * sumStages; ++place)
        initBarrier(g, sumBarrier(g.i32(place)), 32 * (groupWarps - 1));
      fenceBarriers(g);
    });
    g.waitForPrevious();
    products.front().prefetchInputs(g);
    if (schedule)
      schedule->build();
    Value passes = schedule ? schedule->total() : g.ceilDiv(products.front().countRows(g), shape.rowsPerPass);
    g.ifFirstThread([&] { g.storeRaw(passes, passesWord()); });
    g.barrier();
    auto when = [&](Value isRole, function_ref<void()> role, function_ref<void()> others) {
      g.ifThenElse(
          isRole,
          [&] {
            role();
            return Values();
          },
          [&] {
            others();
            return Values();
          });
    };
    when(g.lt(warp, consumers), [&] { consume(); }, [&] {
      when(g.eq(warp, copier), [&] { copy(); }, [&] {
        when(g.lt(warp, keeper), [&] { stage(); }, [&] { keep(); });
      });
    });
  }

private:
  using Values = SmallVector<Value>;

  bool isFused() const { return products.size() > 1; }

  //===--- who does what ---===//

  /// A pass of a product that the block has tiles of: its number, those tiles, as numbers in the pass, and the block's
  /// tiles before them.
  struct Part {
    Value pass, firstTile, endTile, before;
  };

  /// Makes a product the one that code is made for.
  void choose(size_t number) {
    product = &products[number];
    cut = &shape.products[number];
  }

  /// How many passes there are.
  Value passesWord() { return g.shared(shape.passesStart()); }

  /// Of a product, what the block has of the passes of a wave: tiles [begin, end) among all tiles of the wave,
  /// which are in passes [low, high) of it.
  struct Share {
    Value firstPass, begin, end, low, high;
  };
  int64_t waves() const { return isFused() ? 2 : 1; }
  Share getShare(const ProductShape &product, Value wave) {
    // As even as they can be; those who get one more take turns.
    int64_t tilesPerPass = product.tilesPerPass();
    Value passes = g.loadRaw(passesWord(), g.i32()), blocks = g.gridSize(), each = passes;
    if (waves() > 1)
      each = g.select(g.le(passes, mostHalvedPasses), g.ceilDiv(passes, waves()), passes);
    Value firstPass = g.mul(wave, each), endPass = g.min(g.add(firstPass, each), passes);
    Value tiles = g.mul(g.sub(endPass, firstPass), tilesPerPass), index = g.blockId();
    if (waves() > 1)
      index = g.select(g.eq(wave, 0), index, g.sub(g.sub(blocks, 1), index));
    Value count = g.div(tiles, blocks), larger = g.rem(tiles, blocks);
    Value begin = g.add(g.mul(index, count), g.min(index, larger));
    Value end = g.add(begin, g.add(count, g.select(g.lt(index, larger), g.i32(1), g.i32(0))));
    Value low = g.div(begin, tilesPerPass), high = g.select(g.lt(begin, end), g.ceilDiv(end, tilesPerPass), low);
    return {firstPass, begin, end, low, high};
  }

  /// The block's parts of the chosen product, in order. The first of the values that are carried counts the block's tiles;
  /// the body gets and gives the others.
  Values forParts(ValueRange carried, function_ref<Values(const Part &, ValueRange)> body) {
    return g.loop(g.i32(0), g.i32(waves()), g.i32(1), carried, [&](Value wave, ValueRange carried) {
      Share share = getShare(*cut, wave);
      return g.loop(share.low, share.high, g.i32(1), carried, [&](Value number, ValueRange carried) {
        Value start = g.mul(number, cut->tilesPerPass());
        Part part{g.add(share.firstPass, number), g.max(g.sub(share.begin, start), 0),
                  g.min(g.sub(share.end, start), cut->tilesPerPass()), carried.front()};
        Values next{g.add(part.before, g.sub(part.endTile, part.firstTile))};
        next.append(body(part, carried.drop_front()));
        return next;
      });
    });
  }
  /// The block's parts of the first products, and its tiles of one.
  Value countParts(size_t count) {
    return sumShares(0, count, [&](const Share &share) { return g.sub(share.high, share.low); });
  }
  Value countTiles(size_t number) {
    return sumShares(number, number + 1, [&](const Share &share) { return g.sub(share.end, share.begin); });
  }
  Value sumShares(size_t first, size_t end, function_ref<Value(const Share &)> size) {
    Value sum = g.i32(0);
    for (size_t number = first; number < end; ++number)
      for (int64_t wave = 0; wave < waves(); ++wave)
        sum = g.add(sum, size(getShare(shape.products[number], g.i32(wave))));
    return sum;
  }

  /// Rows of a pass (i32 all).
  ExpertPass findPass(Value number) {
    if (schedule)
      return schedule->find(number);
    Value first = g.mul(number, shape.rowsPerPass);
    return {Value(), first, g.min(g.sub(product->countRows(g), first), shape.rowsPerPass)};
  }

  static Values join(std::initializer_list<RingPosition> positions, ValueRange others = {}) {
    Values values;
    for (const RingPosition &position : positions)
      values.append({position.stage, position.parity});
    values.append(others.begin(), others.end());
    return values;
  }
  static RingPosition positionIn(ValueRange values, size_t first) { return {values[first], values[first + 1]}; }

  Value stageStart(Value stage) { return g.shared(g.mul(stage, shape.stageBytes())); }

  //===--- weights into shared memory ---===//

  void copy() {
    Values carried{g.i32(0)};
    carried.append(join({ring.start(), ring.start()}));
    for (size_t number = 0; number < products.size(); ++number) {
      choose(number);
      carried = forParts(carried, [&](const Part &part, ValueRange at) {
        ExpertPass pass = findPass(part.pass);
        Values weights, scales;
        for (int64_t matrix = 0; matrix < product->matrices(); ++matrix) {
          weights.push_back(product->weightRow(g, matrix, pass.expert, g.i32(0)));
          if (cut->mxfp4)
            scales.push_back(product->scaleRow(g, matrix, pass.expert, g.i32(0)));
        }
        return g.loop(part.firstTile, part.endTile, g.i32(1), at,
                      [&](Value tile, ValueRange at) { return copyTile(part, weights, scales, tile, at); });
      });
    }
  }

  Values copyTile(const Part &part, ValueRange weights, ValueRange scales, Value tile, ValueRange at) {
    RingPosition position = positionIn(at, 0), arrival = positionIn(at, 2);
    Value row = g.mul(tile, cut->matrixRows());
    for (int64_t chunk = 0; chunk < cut->chunks; ++chunk) {
      ring.waitEmpty(position);
      Value bar = arrivals.full(arrival.stage), start = stageStart(position.stage);
      if (cut->mxfp4 && cut->scaleRows() == 0)
        for (int64_t matrix = 0; matrix < product->matrices(); ++matrix)
          moveScales(scales[matrix], matrix, row, start);
      g.warpBarrier();
      g.ifThen(g.eq(lane, 0), [&] { arriveExpecting(g, bar, g.i32(cut->loadedBytes())); });
      g.warpBarrier();
      copyWeights(weights, row, chunk, start, bar);
      if (cut->mxfp4 && cut->scaleRows() > 0)
        copyScales(scales, row, chunk, start, bar);
      // Rows of x would otherwise queue behind all that the ring has room for.
      if (chunk == 0 && product == &products.front())
        g.ifThen(g.logicalAnd(g.eq(part.before, 0), g.eq(tile, part.firstTile)),
                 [&] { g.barrier(inputBarrier, inputBarrierThreads); });
      position = ring.next(position);
      arrival = arrivals.next(arrival);
    }
    return join({position, arrival});
  }

  /// That of a matrix, by number.
  Value select(ValueRange matrices, Value number) {
    return matrices.size() == 1 ? matrices[0] : g.select(g.eq(number, 0), matrices[0], matrices[1]);
  }

  /// What is in a stage, a part by each lane, or a piece of a row.
  void copyWeights(ValueRange matrices, Value row, int64_t chunk, Value start, Value bar) {
    int64_t together = cut->chunks == 1 ? cut->partRows() : 1;
    g.ifThen(g.lt(lane, tileRows / together), [&] {
      Value first = g.mul(lane, together), part = g.div(first, cut->partRows());
      Value matrix = select(matrices, g.div(first, cut->matrixRows()));
      Value from = g.mul(g.toI64(g.add(row, g.rem(first, cut->matrixRows()))), cut->chunks * cut->codeBytes());
      Value to = g.add(g.mul(part, cut->partStride()), g.mul(g.rem(first, cut->partRows()), cut->codeBytes()));
      loadBulk(g, g.advance(start, to, g.i8()), g.advance(matrix, g.add(from, chunk * cut->codeBytes()), g.i8()),
               g.i32(together * cut->codeBytes()), bar);
    });
  }

  /// Scales one by one.
  void moveScales(Value matrixStart, int64_t matrix, Value row, Value start) {
    int64_t count = cut->matrixRows() * cut->scaleBytes();
    Value from = g.advance(matrixStart, g.mul(g.toI64(row), cut->scaleBytes()), g.i8());
    Value to = g.advance(start, cut->scaleStart() + matrix * count, g.i8());
    g.loop(lane, g.i32(count), g.i32(32), [&](Value i) {
      g.storeRaw(g.loadRaw(g.advance(from, i, g.i8()), g.i8(), true), g.advance(to, i, g.i8()));
    });
  }

  /// Scales of a matrix, or of a row, by each lane of the second half.
  void copyScales(ValueRange matrices, Value row, int64_t chunk, Value start, Value bar) {
    int64_t together = cut->scaleRows();
    Value first = g.mul(g.rem(lane, tileRows), together);
    g.ifThen(g.logicalAnd(g.ge(lane, 16), g.lt(first, tileRows)), [&] {
      Value matrix = select(matrices, g.div(first, cut->matrixRows()));
      Value from = g.mul(g.toI64(g.add(row, g.rem(first, cut->matrixRows()))), cut->chunks * cut->scaleBytes());
      Value to = g.add(g.mul(first, cut->scaleBytes()), cut->scaleStart());
      loadBulk(g, g.advance(start, to, g.i8()), g.advance(matrix, g.add(from, chunk * cut->scaleBytes()), g.i8()),
               g.i32(together * cut->scaleBytes()), bar);
    });
  }

  //===--- x into shared memory ---===//

  Value doneBarrier(Value stage) { return g.shared(g.add(g.mul(stage, StreamShape::inputNoteBytes), shape.inputNoteStart())); }
  Value inputWord(Value stage, InputWord word) {
    return g.advance(doneBarrier(stage), StreamShape::inputWordStart + 4 * word, g.i8());
  }

  /// By the warps that bring rows of x. Those of a part are behind those of the part before if there is room for both;
  /// else they wait for the end of that part.
  void stage() {
    Values carried{g.i32(0)};
    carried.append(join({inputs.start()}, {g.i32(0), g.i32(0), g.i32(0)}));
    for (size_t number = 0; number < products.size(); ++number) {
      choose(number);
      carried = forParts(carried, [&](const Part &part, ValueRange at) {
        RingPosition position = positionIn(at, 0);
        Value lastFirst = at[2], lastRows = at[3], nextPart = g.add(at[4], 1);
        ExpertPass pass = findPass(part.pass);
        inputs.waitEmpty(position);
        Value next = g.add(lastFirst, lastRows), isBeside = g.le(g.add(lastRows, pass.count), shape.inputRows());
        g.ifThen(g.logicalNot(isBeside), [&] { inputs.waitEmpty(inputs.next(position)); });
        Value first = g.select(isBeside, wrapRow(next), g.i32(0));
        if (!product->inputIsConstant)
          waitForRows(part.pass);
        stageRows(part, pass, first);
        g.ifThen(g.eq(stagerId(), 0), [&] {
          auto tell = [&](InputWord word, Value value) { g.storeRaw(value, inputWord(position.stage, word)); };
          tell(beginWord, pass.begin);
          tell(countWord, pass.count);
          tell(firstRowWord, first);
          tell(tileShiftWord, g.sub(part.firstTile, part.before));
          tell(endTileWord, part.endTile);
          tell(nextPartWord, nextPart);
          tell(endPartWord, countParts(number + 1));
          tell(allPartsWord, countParts(products.size()));
        });
        arrive(g, inputs.full(position.stage)); // all lanes, because all have stored
        return join({inputs.next(position)}, {first, pass.count, nextPart});
      });
    }
  }

  Value stagerId() { return g.sub(g.threadId(), 32 * (copier + 1)); }
  /// A place of a row below twice the number of places.
  Value wrapRow(Value row) { return g.select(g.ge(row, shape.inputRows()), g.sub(row, shape.inputRows()), row); }

  /// Counters of passes are as many as there are slots.
  Value counterOf(Value pass) {
    Value choices = g.dim(progress, 1);
    return g.element(progress, {g.div(pass, choices), g.rem(pass, choices)});
  }

  /// Until all tiles of the first product's pass are there.
  void waitForRows(Value pass) {
    Value counter = counterOf(pass);
    auto isMissing = [&](ValueRange) {
      Value done = g.ptx(g.i32(), "ld.acquire.gpu.global.u32 $0, [$1];", {counter}, /*volatile_=*/true);
      return g.lt(done, shape.products.front().tilesPerPass());
    };
    loopWhile({}, isMissing, [](ValueRange) { return Values(); });
  }

  /// The rows of x of a pass. Those of the first one let the copies go on once they have been asked for.
  void stageRows(const Part &part, const ExpertPass &pass, Value first) {
    constexpr int64_t stride = 32 * stagers;
    // A thread does 8 neighbouring k of one row.
    Value count = g.mul(pass.count, inputPieces());
    // Some at once, because each waits for memory.
    int64_t together = std::min<int64_t>(8, llvm::divideCeil(inputPieces(), stride));
    auto stageSome = [&](Value start, function_ref<void()> between) {
      SmallVector<InputPiece> pieces;
      SmallVector<Values> values;
      for (int64_t i = 0; i < together; ++i) {
        pieces.push_back(findPiece(g.min(g.add(start, i * stride), g.sub(count, 1))));
        values.push_back(loadPiece(pass, pieces.back()));
      }
      between();
      for (int64_t i = 0; i < together; ++i)
        g.ifThen(g.lt(g.add(start, i * stride), count), [&] { storePiece(first, pieces[i], values[i]); });
    };
    bool isFirst = product == &products.front();
    stageSome(stagerId(), [&] {
      if (isFirst)
        g.ifThen(g.eq(part.before, 0), [&] { g.barrier(inputBarrier, inputBarrierThreads); });
    });
    g.loop(g.add(stagerId(), together * stride), count, g.i32(together * stride),
           [&](Value start) { stageSome(start, [] {}); });
  }

  /// 8 neighbouring k of a row of x, which lane `quad` of four meets in one run.
  struct InputPiece {
    Value row, run, quad, k;
  };
  int64_t inputPieces() const { return cut->chunks * cut->steps() * cut->runs() * 4; }

  InputPiece findPiece(Value number) {
    Value part = g.rem(number, inputPieces()), row = g.div(number, inputPieces());
    Value run = g.div(part, 4), quad = g.rem(part, 4);
    Value chunk = g.div(run, cut->steps() * cut->runs()), inChunk = g.rem(run, cut->steps() * cut->runs());
    // MXFP4: the lane has 32 neighbouring k of a step.
    Value k = g.add(g.mul(g.div(inChunk, cut->runs()), cut->stepDepth()),
                    g.add(g.mul(quad, 8 * cut->runs()), g.mul(g.rem(inChunk, cut->runs()), 8)));
    if (cut->chunks > 1)
      k = g.add(k, g.mul(chunk, cut->chunkDepth()));
    return {row, run, quad, k};
  }

  Values loadPiece(const ExpertPass &pass, const InputPiece &piece) {
    Type type = product->inputType();
    int64_t length = std::min<int64_t>({8, getAlignedElements(product->x), g.vectorLength(type)});
    auto load = [&] {
      Value from = g.element(product->x, product->place(g, g.add(pass.begin, piece.row)).input);
      from = g.advance(from, piece.k, type);
      Values values;
      for (int64_t i = 0; i < 8; i += length)
        values.append(g.loadFloats(g.advance(from, i, type), type, length, product->inputIsConstant));
      return values;
    };
    // Past the end of k, which only the last step of an uncut tile has, x is 0.
    bool isWhole = cut->chunkDepth() % cut->stepDepth() == 0;
    return isWhole ? load() : g.ifThenElse(g.lt(piece.k, cut->depth), load, [&] { return Values(8, g.f32(0)); });
  }

  /// Where 8 k of a term of a row are: run `run` (of all) of lane `quad`.
  Value inputOffset(Value row, Value run, Value term, Value quad) {
    Value inRow = g.add(g.add(g.mul(run, cut->runBytes()), g.mul(term, ProductShape::termBytes)), g.mul(quad, laneBytes));
    return g.add(g.add(g.mul(row, shape.inputBytes()), inRow), shape.inputStart());
  }

  void storePiece(Value first, const InputPiece &piece, ValueRange values) {
    SmallVector<Values> words(cut->terms);
    for (int64_t p = 0; p < 4; ++p) {
      // The pairs that decoded codes make, or neighbours.
      Value low = values[cut->mxfp4 ? p : 2 * p], high = values[cut->mxfp4 ? p + 4 : 2 * p + 1];
      for (auto [term, word] : llvm::zip_equal(words, splitPair(g, low, high, cut->terms)))
        term.push_back(word);
    }
    for (int64_t term = 0; term < cut->terms; ++term) {
      Value four = vector::FromElementsOp::create(g.b, g.loc, g.vectorOf(4, g.i32()), words[term]);
      g.storeRaw(four, g.shared(inputOffset(wrapRow(g.add(first, piece.row)), piece.run, g.i32(term), piece.quad)));
    }
  }

  //===--- what is finished ---===//

  /// Once all consumers are done with a part, its rows of x may be overwritten, and others may read what they stored.
  void keep() {
    Values carried{g.i32(0)};
    carried.append(join({inputs.start()}));
    for (size_t number = 0; number < products.size(); ++number) {
      choose(number);
      carried = forParts(carried, [&](const Part &part, ValueRange at) {
        RingPosition position = positionIn(at, 0);
        waitBarrier(g, doneBarrier(position.stage), position.parity);
        arrive(g, inputs.empty(position.stage)); // all lanes, because all have waited
        if (isFused() && product == &products.front()) {
          g.warpBarrier();
          g.ifThen(g.eq(lane, 0), [&] {
            g.ptx("red.release.gpu.global.add.u32 [$0], $1;",
                  {counterOf(part.pass), g.sub(part.endTile, part.firstTile)});
          });
        }
        return join({inputs.next(position)});
      });
    }
  }

  //===--- products ---===//

  /// The group's next tile: how many tiles the group has done before it, and where its first piece arrives.
  struct Turn {
    Value done;
    RingPosition arrival;
    Values values() const { return {done, arrival.stage, arrival.parity}; }
    static Turn of(ValueRange values) { return {values[0], {values[1], values[2]}}; }
  };

  /// Where the block's piece number `piece` arrives.
  RingPosition arrivalOf(Value piece) {
    return {g.rem(piece, shape.arrivals()), g.rem(g.div(piece, shape.arrivals()), 2)};
  }
  RingPosition moveOn(const RingPosition &position, int64_t count) {
    if (count == 0)
      return position;
    int64_t rounds = count / shape.arrivals();
    Value stage = g.add(position.stage, count % shape.arrivals()), isPast = g.ge(stage, shape.arrivals());
    Value wraps = g.select(isPast, g.i32((rounds + 1) % 2), g.i32(rounds % 2));
    return {g.select(isPast, g.sub(stage, shape.arrivals()), stage), g.bitXor(position.parity, wraps)};
  }

  void consume() {
    group = g.div(warp, groupWarps);
    member = g.rem(warp, groupWarps);
    Turn turn{g.i32(0), arrivalOf(g.mul(group, shape.products.front().chunks))};
    // The next part, where those of the product end, and where all do.
    Values part{g.i32(0), countParts(1), countParts(products.size())};
    for (size_t number = 0; number < products.size(); ++number) {
      choose(number);
      if (number > 0 && cut->chunks != shape.products[number - 1].chunks) {
        Value tiles = g.i32(0), pieces = g.i32(0); // of products before
        for (size_t before = 0; before < number; ++before) {
          Value own = countTiles(before);
          tiles = g.add(tiles, own);
          pieces = g.add(pieces, g.mul(own, shape.products[before].chunks));
        }
        turn.arrival = arrivalOf(g.add(pieces, g.mul(g.sub(tileNumber(turn.done), tiles), cut->chunks)));
      }
      if (number + 1 == products.size())
        part[1] = part[2];
      Values carried(part);
      carried.append(turn.values());
      carried = loopWhile(
          carried, [&](ValueRange carried) { return g.lt(carried[0], carried[1]); },
          [&](ValueRange carried) { return consumePart(carried[0], carried.drop_front(3)); });
      part.assign(carried.begin(), carried.begin() + 3);
      turn = Turn::of(ValueRange(carried).drop_front(3));
    }
  }

  Values loopWhile(ValueRange inits, function_ref<Value(ValueRange)> condition, function_ref<Values(ValueRange)> body) {
    auto loop = scf::WhileOp::create(
        g.b, g.loc, inits.getTypes(), inits,
        [&](OpBuilder &, Location, ValueRange carried) {
          scf::ConditionOp::create(g.b, g.loc, condition(carried), carried);
        },
        [&](OpBuilder &, Location, ValueRange carried) { scf::YieldOp::create(g.b, g.loc, body(carried)); });
    g.b.setInsertionPointAfter(loop);
    return Values(loop.getResults());
  }

  /// Among the block's, of the tile that the group does after so many.
  Value tileNumber(Value done) { return g.add(g.mul(done, groups), group); }

  /// `number` of all parts of the block. The next one's, ends of parts, and the turn after it.
  Values consumePart(Value number, ValueRange turn) {
    inputStage = g.rem(number, inputStages);
    inputs.waitFull({inputStage, g.rem(g.div(number, inputStages), 2)});
    // Lanes of columns that nobody has read the last one.
    Value column = g.min(g.div(lane, 4), g.sub(g.mul(readInputWord(countWord), cut->terms), 1));
    Value row = wrapRow(g.add(readInputWord(firstRowWord), g.div(column, cut->terms)));
    Value offset = inputOffset(row, g.i32(0), g.rem(column, cut->terms), g.rem(lane, 4));
    // One value, not a sum of parts of which some, the same for all parts of the block, stay in registers.
    input = g.shared(g.ptx(g.i32(), "mov.b32 $0, $1;", {offset}));
    Value first = g.add(tileNumber(turn.front()), readInputWord(tileShiftWord));
    Values next = g.loop(first, readInputWord(endTileWord), g.i32(groups), turn, [&](Value tile, ValueRange carried) {
      Turn turn = Turn::of(carried);
      multiplyTile(tile, turn);
      return Turn{g.add(turn.done, 1), moveOn(turn.arrival, groups * cut->chunks)}.values();
    });
    Values after{readInputWord(nextPartWord), readInputWord(endPartWord), readInputWord(allPartsWord)};
    arrive(g, doneBarrier(inputStage)); // all lanes, because all have read x and some have stored
    after.append(next);
    return after;
  }
  Value readInputWord(InputWord word) { return g.loadRaw(inputWord(inputStage, word), g.i32()); }

  /// Instructions add to two sets of four sums, so that they need not wait for each other. A step whose sums start from
  /// zero adds both to one.
  bool startsFromZero() const { return cut->terms > 1; }
  int64_t sums() const { return startsFromZero() ? 4 : 8; }
  Values joinSets(ValueRange sets) {
    Values joined;
    for (int64_t i = 0; i < 4; ++i)
      joined.push_back(g.add(sets[i], sets[4 + i]));
    return joined;
  }

  void multiplyTile(Value tile, const Turn &turn) {
    Values partial(sums(), g.f32(0));
    for (int64_t chunk = 0; chunk < cut->chunks; ++chunk) {
      RingPosition arrival = moveOn(turn.arrival, chunk);
      arrivals.waitFull(arrival);
      Value stage = g.rem(arrival.stage, shape.stages);
      partial = multiplyPiece(stageStart(stage), turn.done, chunk, partial);
      g.warpBarrier();
      g.ifThen(g.eq(lane, 0), [&] { arrive(g, ring.empty(stage)); });
    }
    if (!startsFromZero())
      partial = joinSets(partial);

    Value adder = g.rem(turn.done, groupWarps), place = g.add(g.mul(group, sumStages), adder);
    Value parts = g.advance(g.shared(shape.sumStart()), g.mul(place, shape.sumBytes()), g.i8());
    storePart(g.advance(parts, g.mul(member, shape.partBytes()), g.i8()), partial);
    g.ifThenElse(
        g.eq(adder, member),
        [&] {
          finishTile(tile, turn.done, place, parts);
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
    if (cut->steps() % groupWarps == 0) {
      bool isTight = cut->mxfp4 ? cut->chunks > 1 : cut->terms == 2;
      int64_t most = isTight ? fewUnrolled : mostUnrolled;
      int64_t each = cut->steps() / groupWarps, together = std::min(each, most), rounds = each / together;
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
    if (cut->steps() % groupWarps != 0) {
      Value turn = g.mul(g.add(g.mul(done, cut->chunks), chunk), cut->steps());
      first = g.bitAnd(g.sub(member, turn), groupWarps - 1);
    }
    all = g.loop(first, g.i32(cut->steps()), g.i32(groupWarps), startPiece(partial),
                 [&](Value step, ValueRange all) { return multiplyStep(start, step, chunk, all); });
    return endPiece(all, [&] { return repeatPiece(start, first, chunk, partial); });
  }

  /// With the sums goes the largest scale: products with larger ones than those of one factor are thrown away, and done again.
  Values startPiece(const Values &partial) {
    Values all(partial);
    if (cut->mxfp4)
      all.push_back(g.i32(0));
    return all;
  }
  Values endPiece(Values all, function_ref<Values()> repeat) {
    if (!cut->mxfp4)
      return all;
    Value isPlain = g.eq(g.ballot(g.gt(all.pop_back_val(), maxPlainScale)), 0);
    return g.ifThenElse(isPlain, [&] { return all; }, repeat);
  }
  Values repeatPiece(Value start, Value first, int64_t chunk, const Values &partial) {
    return g.loop(first, g.i32(cut->steps()), g.i32(groupWarps), partial,
                  [&](Value step, ValueRange partial) { return multiplyStep(start, step, chunk, partial); });
  }

  /// Number of the 16 bytes of a row that the lane has in a step: of a group of 32 weights, or of 8. Past the end of k,
  /// where x is 0, that of the last one.
  Value getPiece(Value step) {
    Value piece = g.add(g.mul(step, 4), g.rem(lane, 4));
    bool isWhole = cut->chunkDepth() % cut->stepDepth() == 0;
    return isWhole ? piece : g.min(piece, cut->codeBytes() / laneBytes - 1);
  }

  /// The lane has two rows of the tile: of all parts, or of one. Neighbouring rows of mma.sync are in the two parts of a
  /// matrix.
  Value getPart(int64_t half) { return g.add(g.rem(g.div(lane, 4), 2), cut->gated ? 2 * half : 0); }
  Value getRowOfPart(int64_t half) { return g.add(g.div(lane, 8), cut->gated ? 0 : 4 * half); }
  Value getRow(int64_t half) { return g.add(g.mul(getPart(half), cut->partRows()), getRowOfPart(half)); }

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
    ValueRange partial = all.take_front(sums());
    bool isPlain = all.size() > partial.size();
    Value piece = getPiece(step), scales[2];
    Values words[2];
    for (int64_t half = 0; half < 2; ++half) {
      Value at = g.add(g.mul(getPart(half), cut->partStride()), g.mul(getRowOfPart(half), cut->codeBytes()));
      at = g.add(at, g.mul(piece, laneBytes));
      words[half] = loadWords(g.advance(start, at, g.i8()));
      if (!cut->mxfp4)
        continue;
      at = g.add(g.add(g.mul(getRow(half), cut->scaleBytes()), piece), cut->scaleStart());
      scales[half] = g.zeroExtend(g.loadRaw(g.advance(start, at, g.i8()), g.i8()), g.i32());
    }
    Value run = g.add(g.mul(step, cut->runs()), chunk * cut->steps() * cut->runs());
    Value inputRun = g.advance(input, g.mul(run, cut->runBytes()), g.i8());
    Values next = startsFromZero() ? Values(8, g.f32(0)) : Values(partial);
    for (int64_t i = 0; i < cut->runs(); ++i) {
      Values x = loadWords(g.advance(inputRun, i * cut->runBytes(), g.i8()));
      if (!cut->mxfp4) {
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
    if (startsFromZero()) {
      next = joinSets(next);
      for (auto [value, sum] : llvm::zip_equal(next, partial))
        value = g.add(sum, value);
    }
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
      if (cut->terms == 1) {
        Value pair = vector::FromElementsOp::create(g.b, g.loc, g.vectorOf(2, g.f32()), ValueRange{first, second});
        Value column = g.mul(quad, 2);
        g.ifThen(g.lt(column, shape.sumWidth()), [&] { g.storeRaw(pair, sumElement(part, row, column)); });
        continue;
      }
      Value sum;
      if (cut->terms == 2) {
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
  void finishTile(Value tile, Value done, Value place, Value parts) {
    Value begin = readInputWord(beginWord), count = readInputWord(countWord);
    // The places of this lane's results, while others may still be at work.
    int64_t rows = cut->matrixRows(), results = llvm::divideCeil(rows * shape.rowsPerPass, 32);
    Value local = g.rem(lane, rows);
    struct Result {
      Value column, isStored, pointer;
    };
    SmallVector<Result> stored;
    for (int64_t i = 0; i < results; ++i) {
      Value row = g.add(g.div(lane, rows), i * (32 / rows));
      Value isStored = g.lt(row, count);
      Value known = g.min(row, g.sub(count, 1));
      Values at = product->place(g, g.add(begin, known)).output;
      at.push_back(g.add(g.mul(tile, rows), local));
      stored.push_back({known, isStored, g.element(product->out, at)});
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
      if (product->gated)
        value = product->activate(g, value, read(g.add(local, rows), result.column));
      g.ifThen(result.isStored, [&] {
        Type type = product->outputType();
        Value stored = value;
        if (product->accumulates)
          stored = g.add(g.loadFloats(result.pointer, type, 1)[0], stored);
        g.storeFloats(stored, result.pointer, type);
      });
    }
  }

  const GpuBuilder &g;
  ArrayRef<ExpertProduct> products;
  Value progress;
  const StreamShape &shape;
  /// Of the stages, whether they are empty; of pieces, whether they have arrived; of rows of x, both.
  Ring ring, arrivals, inputs;
  std::optional<ExpertSchedule> schedule;
  /// The chosen product.
  const ExpertProduct *product = nullptr;
  const ProductShape *cut = nullptr;
  Value lane, warp;
  /// The warp's group, and which of it the warp is; the place of the part's rows, and where the lane's x of it begins.
  Value group, member, inputStage, input;
};

} // namespace

LogicalResult k3::emitExpertStream(OpBuilder &b, Operation *op, KernelConfigAttr config, const GpuTarget &target) {
  SmallVector<ExpertProduct, 2> products = getProducts(op);
  std::optional<StreamShape> shape = StreamShape::of(products, target);
  if (!shape)
    return op->emitOpError("cannot be emitted with the strategy 'stream'");
  GpuBuilder g(b, op->getLoc(), target, config);
  auto mlp = dyn_cast<MoeExpertMlpOp>(op);
  StreamEmitter(g, products, mlp ? mlp.getProgress() : Value(), *shape).emit();
  return success();
}
