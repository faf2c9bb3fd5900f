//===- EmitKdaStep.cpp - KDA for one row per sequence on a GPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The state is all that costs: it is read once and written once, 16 bytes per thread. A few lanes share a row [value, :]
// of the state, so that prediction and output are sums over those lanes; a warp has several rows at a time in registers.
// The update does not wait for a second pass, because S q after it is (S a) q + e (k q).
//
// k3.kda.decode_step gives a block a whole head: while the state is on its way, the block's warps make queries, keys,
// values and decays in shared memory from the projections; the outputs stay there until they are normed.
//
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/Tile/Runs.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

/// Inside the root, on the sum of squares (flash-linear-attention's l2norm).
constexpr double l2Eps = 1e-6;
/// f32 values of the state that a thread holds, of one row and of all its rows.
constexpr int64_t maxPerRow = 16, maxHeld = 32;

/// How lanes share rows.
struct RowShape {
  int64_t keys, values, run;
  /// Lanes of a row, and runs per lane.
  int64_t lanes, parts;
  /// Rows that a lane has a part of.
  int64_t rows;
  int64_t rowsPerWarp() const { return 32 / lanes * rows; }

  static std::optional<RowShape> make(Operation *op) {
    RowShape shape;
    shape.keys = getStaticNamedDim(op, "K");
    shape.values = getStaticNamedDim(op, "V");
    if (ShapedType::isDynamic(shape.keys) || ShapedType::isDynamic(shape.values) || shape.keys == 0 ||
        shape.values == 0)
      return std::nullopt;
    shape.run = getRunLength(shape.keys, 4);
    for (shape.lanes = 8; shape.lanes <= 32; shape.lanes *= 2) {
      shape.parts = llvm::divideCeil(shape.keys, shape.lanes * shape.run);
      if (shape.parts * shape.run <= maxPerRow || shape.lanes == 32)
        break;
    }
    int64_t perRow = shape.parts * shape.run;
    if (perRow > maxHeld)
      return std::nullopt;
    shape.rows = std::clamp<int64_t>(maxHeld / perRow, 1, 4);
    return shape;
  }
};

/// The recurrence on the rows of one head.
class RowEmitter {
public:
  using Runs = SmallVector<SmallVector<Value>>; // of a lane, by part

  /// Rows of the state that the thread's lane has parts of.
  struct Rows {
    SmallVector<Value> number, pointer;
    SmallVector<Runs> held;
  };

  RowEmitter(const GpuBuilder &g, Value stateMemref, const RowShape &shape)
      : g(g), shape(shape), stateMemref(stateMemref), state(g, stateMemref, shape.run) {
    laneOfRow = g.rem(g.laneId(), shape.lanes);
    for (int64_t part = 0; part < shape.parts; ++part) {
      int64_t first = part * shape.lanes * shape.run;
      starts.push_back(g.add(g.mul(laneOfRow, shape.run), first));
      bool whole = first + shape.lanes * shape.run <= shape.keys;
      inside.push_back(whole ? Value() : g.lt(starts.back(), shape.keys));
    }
  }

  /// The rows of the warp that has rows from number `first` on.
  Rows loadRows(Value slot, Value head, Value first) {
    Rows rows;
    Value own = g.add(first, g.div(g.laneId(), shape.lanes));
    for (int64_t r = 0; r < shape.rows; ++r) {
      rows.number.push_back(g.add(own, r * (32 / shape.lanes)));
      // Rows past the end are read as the last one and not written.
      rows.pointer.push_back(g.element(stateMemref, {slot, head, g.min(rows.number[r], shape.values - 1)}));
      rows.held.push_back(
          loadParts([&](int64_t part) { return state.load(at(rows.pointer[r], part)); }));
    }
    return rows;
  }

  /// Sets scaled queries, unit keys, decays (null: none) and the logit of the rate.
  void setInputs(Runs q, Runs k, std::optional<Runs> a, Value beta, double queryScale, bool l2norm) {
    query = std::move(q);
    key = std::move(k);
    decay = std::move(a);
    rate = g.sigmoid(beta);
    Value queryFactor = g.f32(queryScale);
    if (l2norm) {
      queryFactor = g.mul(queryFactor, inverseLength(query));
      scale(key, inverseLength(key));
    }
    scale(query, queryFactor);
    queryKey = g.f32(0);
    for (int64_t part = 0; part < shape.parts; ++part)
      for (int64_t i = 0; i < shape.run; ++i)
        queryKey = g.fma(query[part][i], key[part][i], queryKey);
    queryKey = reduce(queryKey);
  }

  /// One step on `rows`; `storeOutput(number, S q)` once per row.
  void step(Rows &rows, ArrayRef<Value> values, bool delta, bool allInside,
            function_ref<void(Value, Value)> storeOutput) {
    SmallVector<Value> predicted, output;
    for (Runs &held : rows.held) {
      Value sumK = g.f32(0), sumQ = g.f32(0);
      for (int64_t part = 0; part < shape.parts; ++part)
        for (int64_t i = 0; i < shape.run; ++i) {
          Value &s = held[part][i];
          if (decay)
            s = g.mul(s, (*decay)[part][i]);
          sumK = g.fma(s, key[part][i], sumK);
          sumQ = g.fma(s, query[part][i], sumQ);
        }
      predicted.push_back(sumK);
      output.push_back(sumQ);
    }
    for (int64_t r = 0; r < shape.rows; ++r) {
      Value sumQ = reduce(output[r]);
      Value error = g.mul(rate, delta ? g.sub(values[r], reduce(predicted[r])) : values[r]);
      for (int64_t part = 0; part < shape.parts; ++part)
        for (int64_t i = 0; i < shape.run; ++i)
          rows.held[r][part][i] = g.fma(error, key[part][i], rows.held[r][part][i]);
      auto store = [&] {
        for (int64_t part = 0; part < shape.parts; ++part)
          ifInside(part, [&] { state.store(rows.held[r][part], at(rows.pointer[r], part)); });
        g.ifThen(g.eq(laneOfRow, 0), [&] { storeOutput(rows.number[r], g.fma(error, queryKey, sumQ)); });
      };
      if (allInside)
        store();
      else
        g.ifThen(g.lt(rows.number[r], shape.values), store);
    }
  }

  Runs loadParts(function_ref<SmallVector<Value>(int64_t)> load) {
    Runs runs;
    for (int64_t part = 0; part < shape.parts; ++part)
      runs.push_back(!inside[part]
                         ? load(part)
                         : g.ifThenElse(
                               inside[part], [&] { return load(part); },
                               [&] { return SmallVector<Value>(shape.run, g.f32(0)); }));
    return runs;
  }
  /// The first key of a part.
  Value start(int64_t part) const { return starts[part]; }

private:
  Value inverseLength(const Runs &runs) {
    Value sum = g.f32(0);
    for (const SmallVector<Value> &run : runs)
      for (Value x : run)
        sum = g.fma(x, x, sum);
    return g.rsqrt(g.add(reduce(sum), g.f32(l2Eps)));
  }
  void scale(Runs &runs, Value factor) {
    for (SmallVector<Value> &run : runs)
      for (Value &x : run)
        x = g.mul(x, factor);
  }
  Value reduce(Value x) { return g.warpReduce(x, Reduction::Add, shape.lanes); }
  Value at(Value pointer, int64_t part) { return g.advance(pointer, starts[part], state.elementType()); }
  void ifInside(int64_t part, function_ref<void()> body) {
    if (inside[part])
      g.ifThen(inside[part], body);
    else
      body();
  }

  const GpuBuilder &g;
  RowShape shape;
  Value stateMemref;
  RunTensor state;
  Value laneOfRow;
  SmallVector<Value> starts, inside; ///< per part
  Runs query, key;
  std::optional<Runs> decay;
  Value rate, queryKey;
};

/// exp of the log-decay; `rate` is exp(a_log), or null.
Value emitDecay(const GpuBuilder &g, GateKind kind, std::optional<APFloat> bound, Value rate, Value y) {
  if (kind == GateKind::bounded_sigmoid)
    return g.exp(g.mul(g.f32(bound->convertToDouble()), g.sigmoid(rate ? g.mul(rate, y) : y)));
  return g.exp(g.mul(g.neg(rate), g.softplus(y)));
}

} // namespace

//===----------------------------------------------------------------------===//
// k3.kda.recurrent_step: blocks of some rows of a head
//===----------------------------------------------------------------------===//

static constexpr int64_t stepWarps = 4;

std::optional<GpuLaunch> k3::configureKdaRecurrentStep(KdaRecurrentStepOp op, Phase, const GpuTarget &) {
  std::optional<RowShape> shape = RowShape::make(op);
  if (!shape)
    return std::nullopt;
  GpuLaunch launch;
  launch.strategy = "rows";
  launch.grid = {{"N", 1}, {"H", 1}, {"V", stepWarps * shape->rowsPerWarp()}};
  launch.threads = 32 * stepWarps;
  return launch;
}

LogicalResult k3::emitKdaRecurrentStep(OpBuilder &b, KdaRecurrentStepOp op, KernelConfigAttr config,
                                       const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  RowShape shape = *RowShape::make(op);
  Value n = g.blockId(0), h = g.blockId(1), warp = g.warpId();
  g.ifThen(g.lt(n, g.dim(op.getQ(), 0)), [&] {
    RowEmitter emitter(g, op.getState(), shape);
    int64_t rowsPerBlock = stepWarps * shape.rowsPerWarp();
    Value first = g.add(g.mul(g.blockId(2), rowsPerBlock), g.mul(warp, shape.rowsPerWarp()));
    // The state first, because it takes longest to arrive.
    RowEmitter::Rows rows = emitter.loadRows(g.load(op.getSlots(), {n}, /*readOnly=*/true), h, first);

    RunTensor q(g, op.getQ(), shape.run, true), k(g, op.getK(), shape.run, true);
    auto loadRow = [&](RunTensor &tensor) {
      return emitter.loadParts([&](int64_t part) { return tensor.load({n, h, emitter.start(part)}); });
    };
    RowEmitter::Runs query = loadRow(q), key = loadRow(k);
    std::optional<RowEmitter::Runs> decay;
    if (Value gates = op.getG()) {
      if (cast<MemRefType>(gates.getType()).getRank() == 2) {
        decay.emplace(shape.parts, SmallVector<Value>(shape.run, g.exp(g.load(gates, {n, h}, /*readOnly=*/true))));
      } else {
        RunTensor perChannel(g, gates, shape.run, true);
        decay = loadRow(perChannel);
        for (SmallVector<Value> &run : *decay)
          for (Value &gate : run)
            gate = g.exp(gate);
      }
    }
    SmallVector<Value> values;
    for (Value number : rows.number)
      values.push_back(g.load(op.getV(), {n, h, g.min(number, shape.values - 1)}, /*readOnly=*/true));
    emitter.setInputs(query, key, decay, g.load(op.getBeta(), {n, h}, /*readOnly=*/true),
                      op.getScale().convertToDouble(), op.getL2norm());
    emitter.step(rows, values, op.getDelta(), shape.values % rowsPerBlock == 0,
                 [&](Value number, Value value) { g.store(value, op.getOut(), {n, h, number}); });
  });
  return success();
}

//===----------------------------------------------------------------------===//
// k3.kda.decode_step: a block per sequence and head
//===----------------------------------------------------------------------===//

namespace {

constexpr int64_t maxTaps = 8, maxDecodeWarps = 16, maxPasses = 4;

struct DecodeShape {
  RowShape row;
  int64_t warps, passes;
  int64_t threads() const { return 32 * warps; }
  int64_t rowsPerPass() const { return warps * row.rowsPerWarp(); }
  // f32 words of shared memory.
  int64_t queryAt() const { return 0; }
  int64_t keyAt() const { return align(row.keys); }
  int64_t decayAt() const { return 2 * align(row.keys); }
  int64_t valueAt() const { return 3 * align(row.keys); }
  int64_t outputAt() const { return valueAt() + align(row.values); }
  int64_t sharedBytes() const { return 4 * (outputAt() + align(row.values)); }

  static std::optional<DecodeShape> make(KdaDecodeStepOp op) {
    std::optional<RowShape> row = RowShape::make(op);
    int64_t taps = getStaticNamedDim(op, "taps");
    if (!row || ShapedType::isDynamic(taps) || taps > maxTaps || ShapedType::isDynamic(getStaticNamedDim(op, "H")))
      return std::nullopt;
    DecodeShape shape;
    shape.row = *row;
    // Enough threads for a thread per channel to make, and for all rows at once.
    int64_t channels = 3 * row->keys + row->values;
    shape.warps = std::max<int64_t>(llvm::divideCeil(row->values, row->rowsPerWarp()), llvm::divideCeil(channels, 32));
    shape.warps = std::min(shape.warps, maxDecodeWarps);
    shape.passes = llvm::divideCeil(row->values, shape.rowsPerPass());
    if (shape.passes > maxPasses)
      return std::nullopt;
    return shape;
  }

private:
  static int64_t align(int64_t words) { return llvm::alignTo(words, 4); }
};

class DecodeEmitter {
public:
  DecodeEmitter(const GpuBuilder &g, KdaDecodeStepOp op, const DecodeShape &shape)
      : g(g), op(op), shape(shape), keys(shape.row.keys), values(shape.row.values),
        history(getStaticNamedDim(op, "taps") - 1) {}

  void emit() {
    n = g.blockId(0), h = g.blockId(1);
    Value warp = g.warpId();
    g.ifThen(g.lt(n, g.dim(op.getQ(), 0)), [&] {
      slot = g.load(op.getSlots(), {n}, /*readOnly=*/true);
      RowEmitter emitter(g, op.getState(), shape.row);
      auto loadPass = [&](int64_t pass) {
        return emitter.loadRows(slot, h, g.add(g.mul(warp, shape.row.rowsPerWarp()), pass * shape.rowsPerPass()));
      };
      // The state first, because it takes longest to arrive.
      RowEmitter::Rows rows = loadPass(0);
      Value beta = g.load(op.getBeta(), {n, h}, /*readOnly=*/true);
      makeInputs();
      g.barrier();
      emitter.setInputs(readShared(emitter, shape.queryAt()), readShared(emitter, shape.keyAt()),
                        readShared(emitter, shape.decayAt()), beta, op.getScale().convertToDouble(), op.getL2norm());
      for (int64_t pass = 0; pass < shape.passes; ++pass) {
        if (pass > 0)
          rows = loadPass(pass);
        SmallVector<Value> rowValues;
        for (Value number : rows.number)
          rowValues.push_back(
              g.loadRaw(word(g.add(g.min(number, values - 1), shape.valueAt())), g.f32()));
        emitter.step(rows, rowValues, op.getDelta(), (pass + 1) * shape.rowsPerPass() <= values,
                     [&](Value number, Value value) { g.storeRaw(value, word(g.add(number, shape.outputAt()))); });
      }
      g.barrier();
      storeOutputs();
    });
  }

private:
  Value word(Value number) { return g.advance(g.shared(int64_t(0)), number, g.f32()); }

  RowEmitter::Runs readShared(RowEmitter &emitter, int64_t from) {
    return emitter.loadParts([&](int64_t part) {
      return g.loadFloats(word(g.add(emitter.start(part), from)), g.f32(), shape.row.run);
    });
  }

  /// A thread per channel of the head: queries, keys, values and decays side by side.
  void makeInputs() {
    int64_t channels = 3 * keys + values;
    for (int64_t first = 0; first < channels; first += g.threads()) {
      Value number = g.add(g.threadId(), first);
      auto part = [&](int64_t begin, int64_t size, function_ref<void(Value)> make) {
        if (begin + size <= first || begin >= first + g.threads())
          return;
        g.ifThen(g.logicalAnd(g.ge(number, begin), g.lt(number, begin + size)), [&] { make(g.sub(number, begin)); });
      };
      part(0, keys, [&](Value key) {
        convolve(op.getQ(), op.getQWeight(), op.getConvQ(), keys, key, shape.queryAt());
      });
      part(keys, keys, [&](Value key) {
        convolve(op.getK(), op.getKWeight(), op.getConvK(), keys, key, shape.keyAt());
      });
      part(2 * keys, values, [&](Value value) {
        convolve(op.getV(), op.getVWeight(), op.getConvV(), values, value, shape.valueAt());
      });
      part(2 * keys + values, keys, [&](Value key) { makeDecay(key); });
    }
  }

  /// Channel number `local` of the head, and its state.
  void convolve(Value x, Value weight, Value state, int64_t size, Value local, int64_t to) {
    Value channel = g.add(g.mul(h, size), local);
    Value input = g.load(x, {n, channel}, /*readOnly=*/true);
    SmallVector<Value> inputs;
    for (int64_t j = 0; j < history; ++j)
      inputs.push_back(g.load(state, {slot, g.i32(j), channel}));
    inputs.push_back(input);
    int64_t run = getRunLength(history + 1, ValueRange{weight});
    RunTensor taps(g, weight, run, true);
    SmallVector<Value> weights;
    for (int64_t j = 0; j <= history; j += run)
      weights.append(taps.load({channel, g.i32(j)}));
    Value sum = g.mul(weights[0], inputs[0]);
    for (int64_t j = 1; j <= history; ++j)
      sum = g.fma(weights[j], inputs[j], sum);
    g.storeRaw(g.silu(sum), word(g.add(local, to)));
    for (int64_t j = 0; j < history; ++j)
      g.store(inputs[j + 1], state, {slot, g.i32(j), channel});
  }

  void makeDecay(Value key) {
    Value y = g.add(g.load(op.getZ(), {n, h, key}, /*readOnly=*/true),
                    g.load(op.getDtBias(), {h, key}, /*readOnly=*/true));
    Value rate = op.getALog() ? g.exp(g.load(op.getALog(), {h}, /*readOnly=*/true)) : Value();
    g.storeRaw(emitDecay(g, op.getKind(), op.getLowerBound(), rate, y), word(g.add(key, shape.decayAt())));
  }

  /// The norm of the head times the gate. Every warp sums all squares by itself.
  void storeOutputs() {
    Value lane = g.laneId(), squares = g.f32(0);
    for (int64_t first = 0; first < values; first += 32) {
      Value number = g.add(lane, first);
      Value output = g.loadRaw(word(g.add(g.min(number, values - 1), shape.outputAt())), g.f32());
      if (first + 32 > values)
        output = g.select(g.lt(number, values), output, g.f32(0));
      squares = g.fma(output, output, squares);
    }
    squares = g.warpReduce(squares, Reduction::Add);
    Value factor = g.rsqrt(g.fma(squares, g.f32(1.0 / static_cast<double>(values)), g.f32(op.getEps().convertToDouble())));
    g.forThreads(values, [&](Value number) {
      Value output = g.loadRaw(word(g.add(number, shape.outputAt())), g.f32());
      Value scale = g.mul(factor, g.load(op.getNormWeight(), {number}, /*readOnly=*/true));
      Value gate = g.sigmoid(g.load(op.getGate(), {n, h, number}, /*readOnly=*/true));
      g.store(g.mul(g.mul(output, scale), gate), op.getOut(), {n, h, number});
    });
  }

  const GpuBuilder &g;
  KdaDecodeStepOp op;
  DecodeShape shape;
  int64_t keys, values, history;
  Value n, h, slot;
};

} // namespace

std::optional<GpuLaunch> k3::configureKdaDecodeStep(KdaDecodeStepOp op, Phase, const GpuTarget &) {
  std::optional<DecodeShape> shape = DecodeShape::make(op);
  if (!shape)
    return std::nullopt;
  GpuLaunch launch;
  launch.strategy = "head";
  launch.grid = {{"N", 1}, {"H", 1}};
  launch.threads = shape->threads();
  launch.sharedBytes = shape->sharedBytes();
  return launch;
}

LogicalResult k3::emitKdaDecodeStep(OpBuilder &b, KdaDecodeStepOp op, KernelConfigAttr config,
                                    const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  DecodeEmitter(g, op, *DecodeShape::make(op)).emit();
  return success();
}
