//===- ChunkPrepare.cpp - what both forms of chunk_prepare share -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/ChunkPrepare.h"
#include "lib/Codegen/GPU/Tile/Atoms.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <limits>

using namespace mlir;
using namespace mlir::k3;

static constexpr double log2e = 1.44269504088896341;

ChunkPrepare::ChunkPrepare(OpBuilder &b, KdaChunkPrepareOp op, KernelConfigAttr config, const GpuTarget &target,
                           const SolveLayout &solveAt)
    : g(b, op.getLoc(), target, config), op(op), key(getStaticNamedDim(op, "K")), value(getStaticNamedDim(op, "V")),
      solveAt(solveAt) {}

void ChunkPrepare::emit() {
  if (value <= key)
    g.setMinBlocks(key == 128 ? 2 : 3);
  g.ifThen(g.lt(g.blockId(1), g.dim(op.getChunks(), 0)), [&] { emitChunk(); });
}

void ChunkPrepare::locate() {
  head = renew(g.blockId(0));
  // The last chunk first: who made the inputs has left its rows in L2, and the scan begins with the first.
  chunk = g.sub(g.sub(g.dim(op.getChunks(), 0), 1), renew(g.blockId(1)));
  thread = renew(g.threadId());
  lane = g.rem(thread, g.target.warpSize);
  warp = g.shuffleFrom(g.div(thread, g.target.warpSize), g.i32(0));
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

ChunkPrepare::Values ChunkPrepare::loadChannels(Value from, Value pointer, int64_t count) {
  // f32 not as read-only memory: such loads would move up, to where registers are scarce.
  if (!g.elementType(from).isBF16())
    return g.loadFloats(pointer, g.f32(), count);
  if (count == 2)
    return {g.loadRaw(pointer, g.i32(), /*readOnly=*/true)};
  Value words = g.loadRaw(pointer, g.vectorOf(count / 2, g.i32()), /*readOnly=*/true);
  Values pairs;
  for (int64_t i = 0; i < count / 2; ++i)
    pairs.push_back(vector::ExtractOp::create(g.b, g.loc, words, ArrayRef<int64_t>{i}));
  return pairs;
}

ChunkPrepare::Values ChunkPrepare::widen(const Values &loaded) {
  if (loaded.front().getType().isF32())
    return loaded;
  Values values;
  for (Value pair : loaded) {
    auto [low, high] = g.unpackBf16(pair);
    values.append({low, high});
  }
  return values;
}

ChunkPrepare::Values ChunkPrepare::narrow(const Values &loaded) {
  if (!loaded.front().getType().isF32())
    return loaded;
  Values pairs;
  for (size_t i = 0; i < loaded.size(); i += 2)
    pairs.push_back(g.packBf16(loaded[i], loaded[i + 1]));
  return pairs;
}

Value ChunkPrepare::noDecay(Type loaded) {
  constexpr auto minusInfinities = static_cast<int32_t>(0xff80ff80); // of bf16
  if (!loaded.isF32())
    return g.i32(op.getGate() ? minusInfinities : 0);
  return g.f32(op.getGate() ? -std::numeric_limits<double>::infinity() : 0);
}

ChunkPrepare::GateFactors ChunkPrepare::loadGateFactors(Value channel, int64_t count) {
  if (!op.getGate())
    return {};
  GateFactors factors;
  factors.bias = g.loadFloats(g.element(op.getDtBias(), {head, channel}), g.elementType(op.getDtBias()), count,
                              /*readOnly=*/true);
  if (op.getALog())
    factors.rate = g.load(op.getALog(), {head}, /*readOnly=*/true);
  return factors;
}

void ChunkPrepare::makeGates(GateFactors factors, ArrayRef<MutableArrayRef<Value>> gateRows) {
  auto forEach = [&](llvm::function_ref<Value(Value, int64_t)> make) {
    for (MutableArrayRef<Value> row : gateRows)
      for (auto [c, gate] : llvm::enumerate(row))
        gate = make(gate, c);
  };
  if (!op.getGate())
    return forEach([&](Value gate, int64_t) { return g.mul(gate, g.f32(log2e)); });
  Values bias = factors.bias;
  Value rate = factors.rate ? g.exp(factors.rate) : g.f32(1);
  if (*op.getGate() == GateKind::bounded_sigmoid) {
    // bound * sigmoid(rate (z + bias)) = 1 / ((1 + 2^-y) / bound); the exponent and the sum take one multiply-add each.
    Value slope = g.mul(rate, g.f32(-log2e)), inverse = g.f32(1 / (op.getLowerBound()->convertToDouble() * log2e));
    for (Value &shift : bias)
      shift = g.mul(shift, slope);
    return forEach([&](Value gate, int64_t c) {
      Value power = g.exp2(g.fma(gate, slope, bias[c]));
      return g.reciprocal(g.fma(power, inverse, inverse));
    });
  }
  // -rate * softplus(y): log2(1 + 2^(y log2 e)), whose argument is 1 to 2 with -|y| in the exponent.
  Value slope = g.neg(rate);
  forEach([&](Value gate, int64_t c) {
    Value y = g.mul(g.add(gate, bias[c]), g.f32(log2e));
    Value rest = g.log2(g.add(g.exp2(g.neg(g.abs(y))), g.f32(1)));
    return g.mul(slope, g.add(g.max(y, g.f32(0)), rest));
  });
}

Value ChunkPrepare::loadBetaLogit() {
  return g
      .ifThenElse(
          g.lt(thread, rows),
          [&] {
            Value row = g.add(first, g.min(thread, g.sub(count, 1)));
            return Values{g.load(op.getBeta(), {row, head}, /*readOnly=*/true)};
          },
          [&] { return Values{g.f32(0)}; })
      .front();
}

void ChunkPrepare::storeBeta(Value logit) {
  g.ifThen(g.lt(thread, rows), [&] {
    Value beta = g.select(g.lt(thread, count), g.sigmoid(logit), g.f32(0));
    g.storeRaw(beta, g.advance(g.shared(solveAt.betas), thread, g.f32()));
  });
}

void ChunkPrepare::loadValues() {
  Type element = g.elementType(op.getV());
  int64_t perPiece = 8, pieces = value / perPiece;
  Value last = g.sub(count, 1);
  g.forThreads(rows * pieces, [&](Value i) {
    Value row = g.div(i, pieces), column = g.mul(g.rem(i, pieces), perPiece), exists = g.lt(row, count);
    Value from = g.element(op.getV(), {g.add(first, g.min(row, last)), head, column});
    Value to = rowOf(solveAt.v, row, solveAt.valuePitch, g.mul(column, 2));
    if (element.isBF16())
      return copyAsync(g, to, from, 16, g.select(exists, g.i32(16), g.i32(0)));
    Values values = loadChannels(op.getV(), from, 4);
    values.append(loadChannels(op.getV(), g.advance(from, 4, element), 4));
    for (Value &x : values)
      x = g.select(exists, x, g.f32(0));
    g.storeFloats(values, to, g.bf16());
  });
  commitCopies(g);
}

Value ChunkPrepare::scaleToUnit(Value factor, Value squares) {
  constexpr double l2Eps = 1e-6; // inside the root
  return g.mul(factor, g.rsqrt(g.add(squares, g.f32(l2Eps))));
}

Value ChunkPrepare::reduceAcross(Values values, int64_t width) {
  int64_t distance = width / 2;
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

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//

Value ChunkPrepare::rowsOffset(int64_t pitch) {
  Value row = g.add(g.mul(g.rem(g.div(lane, 8), 2), 8), g.rem(lane, 8));
  return g.add(g.mul(row, pitch), g.mul(g.div(lane, 16), 16));
}

Value ChunkPrepare::columnsOffset(int64_t pitch) {
  return g.add(g.mul(g.rem(lane, 8), pitch), g.mul(g.div(lane, 8), 16));
}

Value ChunkPrepare::pairedColumnsOffset(int64_t pitch) {
  Value row = g.add(g.mul(g.div(lane, 16), 8), g.rem(lane, 8));
  return g.add(g.mul(row, pitch), g.mul(g.rem(g.div(lane, 8), 2), 16));
}

//===----------------------------------------------------------------------===//
// w and u
//===----------------------------------------------------------------------===//

void ChunkPrepare::invertDiagonal(Value ofTile) {
  constexpr int64_t half = tileRows / 2;
  Value row0 = g.mul(ofTile, tileRows), block = g.div(lane, half), column = g.rem(lane, half);
  Value tileL = shared(solveAt.diagonal, g.mul(row0, diagonalPitch));
  Value tileT = shared(solveAt.inverse, g.mul(row0, inversePitch));
  auto rowOfT = [&](Value row, int64_t column) { return g.advance(tileT, g.add(g.mul(row, inversePitch), 2 * column), g.i8()); };
  // A lane per column: of T_11 and T_22, and of T_22 without b.
  Value corner = g.select(g.eq(block, 0), g.i32(0), g.i32(half * (diagonalPitch + 4)));
  Value from = g.advance(tileL, corner, g.i8());
  Value beta = betaOf(g.add(row0, g.rem(lane, tileRows)));
  Value start = g.select(g.lt(block, 2), beta, g.f32(1));
  Values solved;
  for (int64_t i = 0; i < half; ++i) {
    Value x = g.select(g.eq(column, i), start, g.f32(0));
    for (int64_t j = 0; j < i; j += 4) {
      Values entries = g.loadFloats(g.advance(from, i * diagonalPitch + 4 * j, g.i8()), g.f32(), 4);
      for (int64_t k = j; k < std::min(i, j + 4); ++k)
        x = g.fma(entries[k - j], solved[k], x);
    }
    solved.push_back(x);
  }
  // Transposed: a column is a row. The third part waits behind the rows, the upper right block is 0.
  Value place = g.add(g.mul(g.rem(lane, tileRows), inversePitch), g.mul(block, 2 * half));
  g.ifThen(g.lt(block, 3), [&] { g.storeFloats(solved, g.advance(tileT, place, g.i8()), g.bf16()); });
  g.ifThen(g.eq(block, 1), [&] { g.storeFloats(Values(half, g.f32(0)), rowOfT(g.add(column, half), 0), g.bf16()); });
  g.warpBarrier();
  // T_21 = T_22 (-L_21 T_11), in blocks of 8 x 8.
  Value row = g.div(lane, 4), pair = g.rem(lane, 4), none = g.i32(0);
  Value toL21 = g.add(g.mul(g.add(row, half), diagonalPitch), g.mul(pair, 8));
  Values lower = g.loadFloats(g.advance(tileL, toL21, g.i8()), g.f32(), 2);
  auto multiply = [&](Value a, Value b) {
    Values sums = multiplyStep(g, {a, none, none, none}, {b, none}, zeros(4));
    return transposeMatrix(g, g.packBf16(sums[0], sums[1]));
  };
  Value product = multiply(g.packBf16(lower[0], lower[1]), g.loadRaw(g.advance(rowOfT(row, 0), pair, g.i32()), g.i32()));
  Value unscaled = loadMatrices(g, rowOfT(column, tileRows), 1, /*transposed=*/true).front();
  g.storeRaw(multiply(unscaled, product), g.advance(rowOfT(row, half), pair, g.i32()));
}

ChunkPrepare::Columns ChunkPrepare::columnsAt(int64_t base, int64_t pitch, Value number, Value factors) {
  Value matrix = g.div(lane, 8);
  Value token = g.add(g.mul(g.div(matrix, 2), 8), g.rem(lane, 8)), side = g.mul(g.rem(matrix, 2), 16);
  return {shared(base, g.add(g.add(g.mul(token, pitch), side), g.mul(number, 32))), pitch, factors, {}};
}

ChunkPrepare::Columns ChunkPrepare::columnsOfW(Value number) {
  Value channels = g.add(g.mul(number, 16), g.div(lane, 4));
  return columnsAt(solveAt.k, solveAt.keyPitch, number, g.advance(g.shared(solveAt.factors), channels, g.f32()));
}

ChunkPrepare::Columns ChunkPrepare::columnsOfU(Value number) {
  return columnsAt(solveAt.v, solveAt.valuePitch, number, Value());
}

void ChunkPrepare::solveColumns(MutableArrayRef<Columns> all) {
  // Rows of the operands B: two groups of 8 rows, two of 8 columns.
  Value pairRows = shared(solveAt.pairs, pairedColumnsOffset(pairPitch));
  // The inverses lie transposed.
  Value inverseRow = g.add(g.mul(g.rem(g.div(lane, 8), 2), 8), g.rem(lane, 8));
  Value inverseRows = shared(solveAt.inverse, g.add(g.mul(inverseRow, inversePitch), g.mul(g.div(lane, 16), 16)));
  for (int64_t i = 0; i < tiles; ++i) {
    // Y_I: columns of the sums are tokens, rows are channels.
    SmallVector<Values, 2> sums;
    for (Columns &columns : all) {
      Value from = g.advance(columns.pointer, i * tileRows * columns.pitch, g.i8());
      Values values;
      for (Value two : loadMatrices(g, from, 4, /*transposed=*/true)) {
        auto [low, high] = g.unpackBf16(two);
        values.append({low, high});
      }
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
    Values b = loadMatrices(g, g.advance(inverseRows, i * tileRows * inversePitch, g.i8()), 4, /*transposed=*/true);
    for (auto [columns, sum] : llvm::zip_equal(all, sums)) {
      Values x(toFragments(g, multiplyTile(Values(toFragments(g, sum).front()), b, zeros(8))).front());
      columns.solved.push_back(x);
      storeMatrices(g, g.advance(columns.pointer, i * tileRows * columns.pitch, g.i8()), x, /*transposed=*/true);
    }
  }
}

/// sums (16 x 16) + a b^T.
ChunkPrepare::Values ChunkPrepare::multiplyTile(ValueRange a, ValueRange b, ValueRange sums) {
  Values left = multiplyStep(g, a, b.take_front(2), sums.take_front(4));
  left.append(multiplyStep(g, a, b.drop_front(2), sums.drop_front(4)));
  return left;
}

void ChunkPrepare::storeRows(Value to, int64_t base, int64_t pitch, int64_t width) {
  int64_t pieces = width / 8; // of 16 bytes
  g.forThreads(rows * pieces, [&](Value i) {
    Value row = g.div(i, pieces), piece = g.rem(i, pieces);
    Value run = g.loadRaw(rowOf(base, row, pitch, g.mul(piece, 16)), g.vectorOf(4, g.i32()));
    g.storeRaw(run, g.element(to, {chunk, head, row, g.mul(piece, 8)}));
  });
}
