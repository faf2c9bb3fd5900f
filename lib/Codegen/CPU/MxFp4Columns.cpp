//===- MxFp4Columns.cpp - products with MXFP4 weights, features as lanes -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/CPU/MxFp4Columns.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace mlir::k3;

/// Elements of a row up to which a block of rows, the next one and the input rows fit the first level cache.
static constexpr int64_t shortRow = 768;
/// Bytes that codes are asked for ahead, in whole blocks and two of them at least. Blocks of so many bytes are asked for
/// into the second level cache, because several of them and the input rows do not fit the first one.
static constexpr int64_t prefetchDistance = 3072;
/// Bytes of a line of memory.
static constexpr int64_t memoryLine = 64;

bool MxFp4Columns::isBest(int64_t depth) { return depth <= shortRow; }

MxFp4Columns::MxFp4Columns(const VectorBuilder &v, int64_t depth, bool bf16Inputs, bool fixedOrder)
    : v(v), decoder(v), groups(depth / MxFp4Decoder::groupSize), pairs(bf16Inputs && v.getTarget().avx512Bf16),
      fixedOrder(fixedOrder) {
  // A sum and that of a group for every input row, beside the codes of a group. Many sizes: how many rows an expert has
  // is anything, and most of the time of few goes into decoding.
  tokenBlocks = {4, 3, 2, 1};
  if (v.getTarget().vectorRegisters >= 32)
    tokenBlocks.insert(tokenBlocks.begin(), {8, 6, 5});
  decoded = v.temporary({groups, v.lanes()});
  if (bf16Inputs)
    rounded = v.temporary({tokenBlocks.front(), depth}, pairs ? Type(v.builder().getBF16Type()) : Type());
}

void MxFp4Columns::setInputs(ArrayRef<MatrixRow> rows) {
  inputs.assign(rows.begin(), rows.end());
  if (!rounded)
    return;
  int64_t step = MxFp4Decoder::groupSize;
  v.loop(v.index(0), v.index(groups * step), v.index(step), [&](Value first) {
    for (auto [t, row] : llvm::enumerate(rows)) {
      SmallVector<Value> vectors;
      for (int64_t offset = 0; offset < step; offset += v.lanes())
        vectors.push_back(v.load(row.matrix, row.index(v.addIndex(first, v.index(offset)))));
      roundGroup(vectors, v.index(t), first);
    }
  });
  for (auto [t, row] : llvm::enumerate(inputs))
    row = {rounded, {v.index(t)}};
}

void MxFp4Columns::roundGroup(ArrayRef<Value> vectors, Value token, Value first) const {
  OpBuilder &b = v.builder();
  if (!pairs) {
    for (auto [i, vector] : llvm::enumerate(vectors))
      v.store(v.roundToBf16(vector), rounded, {token, v.addIndex(first, v.index(i * v.lanes()))});
    return;
  }
  // Pairs as the decoder has them: elements 8 j + i and 8 j + 4 + i.
  SmallVector<int64_t> lanes[2], interleaved;
  for (int64_t element = 0; element < MxFp4Decoder::groupSize; ++element)
    lanes[element / MxFp4Decoder::pairParts % 2].push_back(element);
  for (int64_t lane = 0; lane < v.lanes(); ++lane)
    interleaved.append({lane, v.lanes() + lane});
  auto half = [&](int64_t i) { return vector::ShuffleOp::create(b, v.getLoc(), vectors[0], vectors[1], lanes[i]); };
  Value packed = v.packBf16(half(0), half(1));
  packed = vector::ShuffleOp::create(b, v.getLoc(), packed, packed, interleaved);
  vector::StoreOp::create(b, v.getLoc(), packed, rounded, ValueRange{token, first});
}

WeightRow MxFp4Columns::getAhead(const WeightMatrix &matrix, Value column, Value columns) const {
  int64_t blocks = std::max<int64_t>(2, prefetchDistance / getBlockBytes());
  Value row = v.addIndex(column, v.index(blocks * v.lanes()));
  if (!matrix.nextWeight)
    return {{matrix.weight, {row}}, {matrix.scale, {row}}};
  Value isNext = v.compare(arith::CmpIPredicate::sge, row, columns);
  row = v.select(isNext, v.subIndex(row, columns), row);
  return {{v.select(isNext, matrix.nextWeight, matrix.weight), {row}},
          {v.select(isNext, matrix.nextScale, matrix.scale), {row}}};
}

int64_t MxFp4Columns::getBlockBytes() const { return groups * MxFp4Decoder::groupBytes * v.lanes(); }

void MxFp4Columns::prefetch(const WeightRow &ahead, Value group) const {
  // Rows of a block lie one after the other: a group of all of them is so much of it.
  auto ask = [&](const MatrixRow &row, int64_t bytes) {
    Value first = v.mulIndex(group, v.index(bytes));
    for (int64_t offset = 0; offset < bytes; offset += memoryLine)
      v.prefetch(row.matrix, row.index(v.addIndex(first, v.index(offset))),
                 /*level=*/getBlockBytes() < prefetchDistance ? 1 : 2);
  };
  ask(ahead.weight, MxFp4Decoder::groupBytes * v.lanes());
  ask(ahead.scale, v.lanes());
}

int64_t MxFp4Columns::getChains() const {
  // As many as registers are left for.
  int64_t most = v.getTarget().vectorRegisters >= 32 ? 16 : 4;
  int64_t tokens = fixedOrder ? tokenBlocks.front() : static_cast<int64_t>(inputs.size());
  return std::min<int64_t>(4, llvm::bit_floor(static_cast<uint64_t>(std::max<int64_t>(1, most / tokens))));
}

SmallVector<Value> MxFp4Columns::emitGroup(ValueRange columns, Value group, MxFp4Decoder::ColumnLoad &next) const {
  int64_t parts = pairs ? MxFp4Decoder::pairParts : MxFp4Decoder::parts, elements = MxFp4Decoder::parts / parts;
  int64_t tokens = inputs.size(), chains = getChains();
  SmallVector<Value> sums(tokens * chains);
  Value first = v.mulIndex(group, v.index(MxFp4Decoder::groupSize));
  for (int64_t part = 0; part < parts; ++part)
    for (auto [i, codes] : llvm::enumerate(columns)) {
      Value w = pairs ? decoder.decodePairs(codes, part) : decoder.decode(codes, part);
      Value k = v.addIndex(first, v.index(static_cast<int64_t>(i) * MxFp4Decoder::parts + part * elements));
      for (auto [t, input] : llvm::enumerate(inputs)) {
        Value &sum = sums[i % chains * tokens + t];
        if (pairs) {
          sum = v.dotBf16(w, v.loadPair(input.matrix, input.index(k)), sum ? sum : v.zero());
        } else {
          Value x = v.broadcast(v.loadScalar(input.matrix, input.index(k)));
          sum = sum ? v.fma(w, x, sum) : v.mul(w, x);
        }
      }
      for (int64_t step = 0; step < elements; ++step)
        next.emitStep();
    }
  for (int64_t left = chains; left > 1; left /= 2)
    for (int64_t i = 0; i < tokens * left / 2; ++i)
      sums[i] = v.add(sums[i], sums[i + tokens * left / 2]);
  sums.resize(tokens);
  return sums;
}

SmallVector<Value> MxFp4Columns::emitBlock(const WeightMatrix &matrix, Value column, Value columns, Value last) const {
  WeightRow ahead = getAhead(matrix, column, columns);
  SmallVector<MatrixRow> weights, scales;
  for (int64_t lane = 0; lane < v.lanes(); ++lane) {
    Value row = v.addIndex(column, v.index(lane));
    if (last)
      row = v.minIndex(row, last);
    weights.push_back({matrix.weight, {row}});
    scales.push_back({matrix.scale, {row}});
  }
  if (!last)
    decoder.decodeColumnScales(scales.front(), decoded, groups);
  int64_t tokens = inputs.size();
  SmallVector<Value> inits(tokens, v.zero());
  llvm::append_range(inits, MxFp4Decoder::ColumnLoad(decoder, weights, v.index(0)).finish());
  SmallVector<Value> results =
      v.loop(v.index(0), v.index(groups), v.index(1), inits, [&](Value group, ValueRange args) {
        prefetch(ahead, group);
        MxFp4Decoder::ColumnLoad following(decoder, weights,
                                           v.minIndex(v.addIndex(group, v.index(1)), v.index(groups - 1)));
        SmallVector<Value> groupSums = emitGroup(args.drop_front(tokens), group, following), next;
        Value scale = last ? decoder.loadColumnScales(scales, group) : v.load(decoded, {group, v.index(0)});
        for (auto [groupSum, sum] : llvm::zip(groupSums, args.take_front(tokens)))
          next.push_back(v.fma(groupSum, scale, sum));
        llvm::append_range(next, following.finish());
        return next;
      });
  results.resize(tokens);
  return results;
}

void MxFp4Columns::emit(ArrayRef<WeightMatrix> matrices, Value columns, Finish finish) {
  auto emitColumns = [&](Value column, Value mask, Value last) {
    SmallVector<SmallVector<Value>> sums; // of each matrix, of each input row
    for (const WeightMatrix &matrix : matrices)
      sums.push_back(emitBlock(matrix, column, columns, last));
    for (size_t t = 0; t < inputs.size(); ++t) {
      SmallVector<Value> ofToken;
      for (ArrayRef<Value> ofMatrix : sums)
        ofToken.push_back(ofMatrix[t]);
      finish(static_cast<int64_t>(t), column, mask, ofToken);
    }
  };
  // Whole vectors of columns, then the columns that fill none.
  Value whole = v.mulIndex(v.divIndex(columns, v.index(v.lanes())), v.index(v.lanes()));
  v.loop(v.index(0), whole, v.index(v.lanes()),
         [&](Value column) { emitColumns(column, v.mask(v.lanes()), /*last=*/Value()); });
  Value rest = v.subIndex(columns, whole);
  v.ifThen(v.compare(arith::CmpIPredicate::ne, rest, v.index(0)),
           [&] { emitColumns(whole, v.mask(rest), v.subIndex(columns, v.index(1))); });
}
