//===- EmitAttnRes.cpp - mix of residual snapshots on a GPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A block mixes one token. The sources' rows pass once, with a running maximum and sum (online softmax), through a ring in
// shared memory that asynchronous copies keep several rows ahead. Every thread copies what it reads itself, so that the
// ring needs no barriers; the two sums of a row need one.
//
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/Tile/Runs.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

constexpr int64_t copyBytes = 16;
constexpr int64_t blocksPerMultiprocessor = 2;
/// Rows in the ring, as far as that many blocks fit on a multiprocessor.
constexpr int64_t maxStages = 4;
/// Below every logit, and so far that exp of a difference to any logit is 0.
constexpr double lowest = -1e30;

struct MixShape {
  int64_t width, run, threads;
  /// Runs of a row per thread.
  int64_t parts;
  /// Rows of the ring; 0: rows are read directly, because they are not aligned.
  int64_t stages;
  int64_t stageBytes() const { return parts * threads * copyBytes; }
  /// Two sets of two sums per warp.
  int64_t sumBytes() const { return 2 * threads / 32 * 2 * 4; }
  int64_t ringBytes() const { return stages * stageBytes(); }
  /// The products of the two weights, which would take too many registers beside a row.
  int64_t factorBytes() const { return stages > 0 ? parts * threads * run * 4 : 0; }
  int64_t sharedBytes() const { return ringBytes() + sumBytes() + factorBytes(); }
};

std::optional<MixShape> shapeOf(AttnResMixOp op, const GpuTarget &target) {
  MixShape shape;
  shape.width = getStaticNamedDim(op, "d");
  if (ShapedType::isDynamic(shape.width) || shape.width == 0)
    return std::nullopt;
  shape.run = getRunLength(shape.width, GpuBuilder::vectorLength(getElementTypeOrSelf(op.getStream().getType())));
  int64_t runs = shape.width / shape.run;
  shape.parts = runs > 1024 ? 4 : runs > 256 ? 2 : 1;
  shape.threads = llvm::alignTo(llvm::divideCeil(runs, shape.parts), 32);
  if (shape.threads > target.maxThreadsPerBlock) {
    shape.threads = target.maxThreadsPerBlock;
    shape.parts = llvm::divideCeil(runs, shape.threads);
  }
  if (shape.parts * shape.run > 64)
    return std::nullopt;
  shape.stages = 0;
  if (shape.run * getElementTypeOrSelf(op.getStream().getType()).getIntOrFloatBitWidth() == 8 * copyBytes) {
    constexpr int64_t reserved = 1024; // by the driver, per block
    shape.stages = maxStages;
    while (shape.stages > 2 &&
           blocksPerMultiprocessor * (shape.sharedBytes() + reserved) > target.sharedBytesPerMultiprocessor)
      --shape.stages;
  }
  return shape;
}

class MixEmitter {
public:
  MixEmitter(const GpuBuilder &g, AttnResMixOp op, const MixShape &shape)
      : g(g), op(op), shape(shape), stream(g, op.getStream(), shape.run, true),
        // The op, on tensors, did not know how slices are aligned.
        usesRing(shape.stages > 0 && getAlignedElements(op.getStream()) == shape.run) {}

  void emit() {
    Value token = g.blockId();
    g.ifThen(g.lt(token, g.dim(op.getStream(), 1)), [&] { emitToken(token); });
  }

private:
  using Runs = SmallVector<SmallVector<Value>>;

  void emitToken(Value token) {
    int64_t runs = shape.width / shape.run;
    for (int64_t part = 0; part < shape.parts; ++part) {
      int64_t first = part * shape.threads;
      Value number = g.add(g.threadId(), first);
      inside.push_back(first + shape.threads <= runs ? Value() : g.lt(number, runs));
      starts.push_back(g.mul(number, shape.run));
    }
    Value sources = g.toI32(op.getSources());
    // The asynchronous copies first: everything else can wait.
    if (usesRing)
      for (int64_t s = 0; s + 1 < shape.stages; ++s)
        startCopy(token, g.i32(s), sources, g.i32(s * shape.stageBytes()));
    Runs factors = loadFactors();
    if (usesRing)
      forFactors([&](int64_t part, int64_t i, Value place) {
        g.storeFloats(ArrayRef(factors[part]).slice(i, 4), place, g.f32());
      });

    // Carried: source's place in the ring, place of the sums, maximum, sum of weights, weighted sum of the rows.
    SmallVector<Value> inits = {g.i32(0), g.i32(0), g.f32(lowest), g.f32(0)};
    inits.append(shape.parts * shape.run, g.f32(0));
    SmallVector<Value> carried = g.loop(g.i32(0), sources, g.i32(1), inits, [&](Value s, ValueRange args) {
      return emitSource(token, s, sources, factors, args);
    });
    Value scale = g.reciprocal(carried[3]);
    Runs mixed;
    for (int64_t part = 0; part < shape.parts; ++part) {
      mixed.emplace_back();
      for (int64_t i = 0; i < shape.run; ++i)
        mixed.back().push_back(g.mul(carried[4 + part * shape.run + i], scale));
    }
    if (op.getOutWeight())
      normalize(mixed, carried[1]);
    RunTensor out(g, op.getOut(), shape.run);
    forParts([&](int64_t part) { out.store(mixed[part], {token, starts[part]}); });
  }

  SmallVector<Value> emitSource(Value token, Value s, Value sources, const Runs &factors, ValueRange args) {
    Value place = args[0], sumsPlace = args[1], maximum = args[2], total = args[3];
    Runs values = usesRing ? takeCopy(token, s, sources, place) : loadParts([&](int64_t part) {
      return stream.load({s, token, starts[part]});
    });
    Value squares = g.f32(0), dot = g.f32(0);
    Runs weights = factors;
    if (usesRing)
      forFactors([&](int64_t part, int64_t i, Value place) {
        llvm::copy(g.loadFloats(place, g.f32(), 4), weights[part].begin() + i);
      });
    for (auto [run, factor] : llvm::zip_equal(values, weights))
      for (auto [value, weight] : llvm::zip_equal(run, factor)) {
        squares = g.fma(value, value, squares);
        dot = g.fma(value, weight, dot);
      }
    std::tie(squares, dot) = reducePair(squares, dot, sumsPlace);
    Value mean = g.fma(squares, g.f32(1.0 / static_cast<double>(shape.width)), g.f32(op.getEps().convertToDouble()));
    Value logit = g.mul(dot, g.rsqrt(mean));
    Value top = g.max(maximum, logit);
    Value correction = g.exp(g.sub(maximum, top)), weight = g.exp(g.sub(logit, top));
    SmallVector<Value> next = {advanceRing(place), g.sub(g.i32(shape.sumBytes() / 2), sumsPlace), top,
                               g.fma(total, correction, weight)};
    for (int64_t part = 0; part < shape.parts; ++part)
      for (int64_t i = 0; i < shape.run; ++i)
        next.push_back(g.fma(values[part][i], weight, g.mul(args[4 + part * shape.run + i], correction)));
    return next;
  }

  Value advanceRing(Value place) {
    Value next = g.add(place, shape.stageBytes());
    return g.select(g.eq(next, shape.ringBytes()), g.i32(0), next);
  }

  /// Of all threads, with one barrier; `place` alternates between two sets of slots, so that the next pair does not
  /// overwrite what a slow thread still reads.
  std::pair<Value, Value> reducePair(Value x, Value y, Value place) {
    x = g.warpReduce(x, Reduction::Add);
    y = g.warpReduce(y, Reduction::Add);
    if (g.warps() == 1)
      return {x, y};
    Value slots = g.shared(g.add(place, usesRing ? shape.ringBytes() : 0));
    Type pairType = g.vectorOf(2, g.f32());
    Value pair = vector::FromElementsOp::create(g.b, g.loc, cast<VectorType>(pairType), ValueRange{x, y});
    Value warp = g.div(g.threadId(), 32);
    g.ifThen(g.eq(g.laneId(), 0), [&] { g.storeRaw(pair, g.advance(slots, warp, pairType)); });
    g.barrier();
    // Runs of lanes read all slots, so that every lane ends up with the sums; all slots by every thread would take too
    // many registers beside two rows.
    int64_t width = llvm::PowerOf2Ceil(g.warps());
    Value number = g.rem(g.laneId(), width);
    Value slot = g.loadRaw(g.advance(slots, g.min(number, g.warps() - 1), pairType), pairType);
    auto sum = [&](int64_t i) {
      Value part = vector::ExtractOp::create(g.b, g.loc, slot, ArrayRef<int64_t>{i});
      if (width != g.warps())
        part = g.select(g.lt(number, g.warps()), part, g.f32(0));
      return g.warpReduce(part, Reduction::Add, width);
    };
    return {sum(0), sum(1)};
  }

  void normalize(Runs &mixed, Value sumsPlace) {
    RunTensor weight(g, op.getOutWeight(), shape.run, true);
    Runs scales = loadParts([&](int64_t part) { return weight.load(ValueRange{starts[part]}); });
    Value squares = g.f32(0);
    for (const SmallVector<Value> &run : mixed)
      for (Value value : run)
        squares = g.fma(value, value, squares);
    squares = reducePair(squares, g.f32(0), sumsPlace).first;
    Value mean = g.fma(squares, g.f32(1.0 / static_cast<double>(shape.width)), g.f32(op.getOutEps()->convertToDouble()));
    Value factor = g.rsqrt(mean);
    for (auto [run, scale] : llvm::zip_equal(mixed, scales))
      for (auto [value, weightValue] : llvm::zip_equal(run, scale))
        value = g.mul(g.mul(value, factor), weightValue);
  }

  /// Where the thread keeps elements i to i + 3 of its part, which only it reads.
  void forFactors(function_ref<void(int64_t part, int64_t i, Value place)> body) {
    Value own = g.shared(g.add(g.mul(g.threadId(), 16), shape.ringBytes() + shape.sumBytes()));
    for (int64_t part = 0; part < shape.parts; ++part)
      for (int64_t i = 0; i < shape.run; i += 4)
        body(part, i, g.advance(own, (part * shape.run + i) / 4 * shape.threads * 16, g.i8()));
  }

  /// norm_weight * proj_weight
  Runs loadFactors() {
    RunTensor norm(g, op.getNormWeight(), shape.run, true), proj(g, op.getProjWeight(), shape.run, true);
    return loadParts([&](int64_t part) {
      SmallVector<Value> product = norm.load(ValueRange{starts[part]});
      for (auto [value, other] : llvm::zip_equal(product, proj.load({g.i32(0), starts[part]})))
        value = g.mul(value, other);
      return product;
    });
  }

  //===--- the ring ---===//

  /// Where this thread's run `part` of the row at byte `place` is.
  Value ringPointer(Value place, int64_t part) {
    Value offset = g.add(place, g.mul(g.threadId(), copyBytes));
    return g.advance(g.shared(offset), part * shape.threads * copyBytes, g.i8());
  }

  /// Copies this thread's runs of source `s`, if there is one; in any case one group more is under way.
  void startCopy(Value token, Value s, Value sources, Value place) {
    g.ifThen(g.lt(s, sources), [&] {
      forParts([&](int64_t part) {
        NVVM::CpAsyncOp::create(g.b, g.loc, ringPointer(place, part),
                                g.element(op.getStream(), {s, token, starts[part]}), copyBytes,
                                NVVM::LoadCacheModifierKind::CG, /*cpSize=*/Value());
      });
    });
    NVVM::CpAsyncCommitGroupOp::create(g.b, g.loc);
  }

  Runs takeCopy(Value token, Value s, Value sources, Value place) {
    NVVM::CpAsyncWaitGroupOp::create(g.b, g.loc, shape.stages - 2);
    Type element = stream.elementType();
    Runs values = loadParts([&](int64_t part) { return g.loadFloats(ringPointer(place, part), element, shape.run); });
    // Into the place before this one, whose row has been used.
    Value before = g.select(g.eq(place, 0), g.i32(shape.ringBytes() - shape.stageBytes()),
                            g.sub(place, shape.stageBytes()));
    startCopy(token, g.add(s, shape.stages - 1), sources, before);
    return values;
  }

  //===--- parts ---===//

  Runs loadParts(function_ref<SmallVector<Value>(int64_t)> load) {
    Runs values;
    for (int64_t part = 0; part < shape.parts; ++part)
      values.push_back(!inside[part]
                           ? load(part)
                           : g.ifThenElse(
                                 inside[part], [&] { return load(part); },
                                 [&] { return SmallVector<Value>(shape.run, g.f32(0)); }));
    return values;
  }
  void forParts(function_ref<void(int64_t)> body) {
    for (int64_t part = 0; part < shape.parts; ++part) {
      if (inside[part])
        g.ifThen(inside[part], [&] { body(part); });
      else
        body(part);
    }
  }

  const GpuBuilder &g;
  AttnResMixOp op;
  MixShape shape;
  RunTensor stream;
  bool usesRing;
  /// Per part: its first element, and whether the thread has it (null: all have).
  SmallVector<Value> starts, inside;
};

} // namespace

std::optional<GpuLaunch> k3::configureAttnResMix(AttnResMixOp op, Phase, const GpuTarget &target) {
  std::optional<MixShape> shape = shapeOf(op, target);
  if (!shape)
    return std::nullopt;
  GpuLaunch launch;
  launch.strategy = "ring";
  launch.grid = {{"T", 1}};
  launch.threads = shape->threads;
  launch.sharedBytes = shape->sharedBytes();
  return launch;
}

LogicalResult k3::emitAttnResMix(OpBuilder &b, AttnResMixOp op, KernelConfigAttr config, const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  MixShape shape = *shapeOf(op, target);
  if (shape.stages > 0 && 2 * shape.threads <= target.maxThreadsPerMultiprocessor)
    g.setMinBlocks(blocksPerMultiprocessor);
  MixEmitter(g, op, shape).emit();
  return success();
}
