//===- MxFp4Columns.cpp - products with MXFP4 weights, features as lanes -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/CPU/MxFp4Columns.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::k3;

/// Elements of a row up to which the work per row of dot products, and what fills no line, costs more than features as
/// lanes do.
static constexpr int64_t shortRow = 256;
/// Bytes that codes are asked for ahead, more than a block of short rows has; bytes of a line of memory.
static constexpr int64_t prefetchDistance = 3072, memoryLine = 64;

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

void MxFp4Columns::prefetch(const WeightMatrix &matrix, Value column, Value group) const {
  // Rows of a block lie one after the other: a group of all of them is so much of it.
  auto ask = [&](Value part, int64_t bytes, int64_t distance) {
    Value first = v.addIndex(v.mulIndex(group, v.index(bytes)), v.index(distance));
    for (int64_t offset = 0; offset < bytes; offset += memoryLine)
      v.prefetch(part, {column, v.addIndex(first, v.index(offset))});
  };
  ask(matrix.weight, MxFp4Decoder::groupBytes * v.lanes(), prefetchDistance);
  ask(matrix.scale, v.lanes(), prefetchDistance / MxFp4Decoder::groupBytes);
}

SmallVector<Value> MxFp4Columns::emitGroup(ArrayRef<MatrixRow> weights, Value group) const {
  int64_t parts = pairs ? MxFp4Decoder::pairParts : MxFp4Decoder::parts, elements = MxFp4Decoder::parts / parts;
  // With few sums an addition would wait for the one before, so neighbouring vectors go to different chains of sums.
  int64_t tokens = inputs.size(), chains = tokens <= 2 && !fixedOrder ? 2 : 1;
  SmallVector<Value> columns = decoder.loadColumns(weights, group), sums(tokens * chains);
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
    }
  for (int64_t i = tokens; i < tokens * chains; ++i)
    sums[i % tokens] = v.add(sums[i % tokens], sums[i]);
  sums.resize(tokens);
  return sums;
}

SmallVector<Value> MxFp4Columns::emitBlock(const WeightMatrix &matrix, Value column, Value last) const {
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
  SmallVector<Value> zeros(inputs.size(), v.zero());
  return v.loop(v.index(0), v.index(groups), v.index(1), zeros, [&](Value group, ValueRange sums) {
    prefetch(matrix, column, group);
    SmallVector<Value> groupSums = emitGroup(weights, group), next;
    Value scale = last ? decoder.loadColumnScales(scales, group) : v.load(decoded, {group, v.index(0)});
    for (auto [groupSum, sum] : llvm::zip_equal(groupSums, sums))
      next.push_back(v.fma(groupSum, scale, sum));
    return next;
  });
}

void MxFp4Columns::emit(ArrayRef<WeightMatrix> matrices, Value columns, Finish finish) {
  auto emitColumns = [&](Value column, Value mask, Value last) {
    SmallVector<SmallVector<Value>> sums; // of each matrix, of each input row
    for (const WeightMatrix &matrix : matrices)
      sums.push_back(emitBlock(matrix, column, last));
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
