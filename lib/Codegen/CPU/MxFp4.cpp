//===- MxFp4.cpp - MXFP4 weights decoded in registers -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/CPU/MxFp4.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace mlir::k3;

static Value bitcast(const VectorBuilder &v, Value vector, Type element, int64_t lanes) {
  return vector::BitCastOp::create(v.builder(), v.getLoc(), VectorType::get({lanes}, element), vector);
}
static Value asInt(const VectorBuilder &v, Value vector) {
  return bitcast(v, vector, v.builder().getI32Type(), v.lanes());
}
static Value asFloat(const VectorBuilder &v, Value vector) {
  return bitcast(v, vector, v.builder().getF32Type(), v.lanes());
}

//===----------------------------------------------------------------------===//
// Codes
//===----------------------------------------------------------------------===//

/// Of codes 0 to 7; bit 3 is the sign.
static constexpr float magnitudes[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};

Value MxFp4Decoder::loadLine(const MatrixRow &row, Value line) const {
  Value first = v.mulIndex(line, v.index(lineBytes()));
  return bitcast(v, v.loadRaw(row.matrix, row.index(first), lineBytes()), v.builder().getI32Type(), v.lanes());
}

Value MxFp4Decoder::insertGroup(const MatrixRow &row, Value byte, Value codes, int64_t lane) const {
  OpBuilder &b = v.builder();
  Value part = bitcast(v, v.loadRaw(row.matrix, row.index(byte), groupBytes), b.getI32Type(), groupLanes);
  return vector::InsertStridedSliceOp::create(b, v.getLoc(), part, codes, ArrayRef<int64_t>{lane},
                                              ArrayRef<int64_t>{1});
}

Value MxFp4Decoder::packLine(ArrayRef<MatrixRow> rows, int64_t first, int64_t groups) const {
  OpBuilder &b = v.builder();
  auto type = VectorType::get({v.lanes()}, b.getI32Type());
  Value codes = arith::ConstantOp::create(b, v.getLoc(), b.getZeroAttr(type));
  int64_t lane = 0;
  for (const MatrixRow &row : rows)
    for (int64_t group = first; group < first + groups; ++group) {
      codes = insertGroup(row, v.index(group * groupBytes), codes, lane);
      lane += groupLanes;
    }
  return codes;
}

MxFp4Decoder::ColumnLoad::ColumnLoad(const MxFp4Decoder &decoder, ArrayRef<MatrixRow> rows, Value group)
    : decoder(decoder), rows(rows), byte(decoder.v.mulIndex(group, decoder.v.index(groupBytes))) {
  OpBuilder &b = decoder.v.builder();
  auto type = VectorType::get({decoder.v.lanes()}, b.getI32Type());
  vectors.assign(groupLanes, arith::ConstantOp::create(b, decoder.v.getLoc(), b.getZeroAttr(type)));
}

bool MxFp4Decoder::ColumnLoad::emitStep() {
  const VectorBuilder &v = decoder.v;
  int64_t count = rows.size();
  if (step < count) {
    // Vector i has rows i, i + 4, ...: squares of four lanes, whose rows and columns are exchanged.
    int64_t perVector = count / groupLanes, i = step / perVector, r = step % perVector;
    vectors[i] = decoder.insertGroup(rows[i + r * groupLanes], byte, vectors[i], r * groupLanes);
  } else if (step < count + groupLanes) {
    constexpr int64_t low[] = {0, 4, 1, 5}, high[] = {2, 6, 3, 7};
    int64_t i = step - count, pair = i / 2 * 2;
    halves.push_back(v.shuffleFours(vectors[pair], vectors[pair + 1], i % 2 == 0 ? low : high));
  } else if (step < count + 2 * groupLanes) {
    constexpr int64_t even[] = {0, 1, 4, 5}, odd[] = {2, 3, 6, 7};
    int64_t i = step - count - groupLanes;
    columns.push_back(v.shuffleFours(halves[i / 2], halves[i / 2 + 2], i % 2 == 0 ? even : odd));
  } else {
    return false;
  }
  ++step;
  return true;
}

SmallVector<Value> MxFp4Decoder::ColumnLoad::finish() {
  while (emitStep()) {
  }
  return columns;
}

Value MxFp4Decoder::decode(Value codes, int64_t part) const {
  return lookUp(part == 0 ? codes : shift(codes, static_cast<int32_t>(-4 * part)));
}

Value MxFp4Decoder::decodePairs(Value codes, int64_t part) const {
  assert(v.getTarget().avx512Bf16 && "the target has no products of pairs");
  OpBuilder &b = v.builder();
  Location loc = v.getLoc();
  int64_t words = 2 * v.lanes();
  auto type = VectorType::get({words}, b.getI16Type());
  Value bits = bitcast(v, codes, b.getI16Type(), words);
  auto constant = [&](ArrayRef<int16_t> values) {
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, values));
  };
  if (part > 0)
    bits = arith::ShRUIOp::create(b, loc, bits, constant(static_cast<int16_t>(4 * part)));
  // The permute looks at five bits, so the table is there twice.
  SmallVector<int16_t> table;
  for (int64_t word = 0; word < words; ++word) {
    float value = magnitudes[word % 8];
    table.push_back(static_cast<int16_t>(llvm::bit_cast<uint32_t>(word % 16 < 8 ? value : -value) >> 16));
  }
  Value values = LLVM::CallIntrinsicOp::create(b, loc, type, b.getStringAttr("llvm.x86.avx512.permvar.hi.512"),
                                               ValueRange{constant(table), bits})
                     .getResult(0);
  return bitcast(v, values, b.getBF16Type(), words);
}

Value MxFp4Decoder::shift(Value bits, int32_t left) const {
  if (left < 0)
    return arith::ShRUIOp::create(v.builder(), v.getLoc(), bits, v.constantInt(-left));
  return arith::ShLIOp::create(v.builder(), v.getLoc(), bits, v.constantInt(left));
}

/// Values of the codes in the low four bits of the lanes; the other bits are ignored.
Value MxFp4Decoder::lookUp(Value codes) const {
  OpBuilder &b = v.builder();
  Location loc = v.getLoc();
  auto permute = [&](StringRef intrinsic, ArrayRef<float> table) {
    Value values = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(v.vectorType(), table));
    return LLVM::CallIntrinsicOp::create(b, loc, v.vectorType(), b.getStringAttr(intrinsic), ValueRange{values, codes})
        .getResult(0);
  };
  if (v.getTarget().avx512) { // looks at four bits
    SmallVector<float> table(std::begin(magnitudes), std::end(magnitudes));
    for (float magnitude : magnitudes)
      table.push_back(-magnitude);
    return permute("llvm.x86.avx512.permvar.sf.512", table);
  }
  Value top = shift(codes, 28);
  if (v.getTarget().avx2) { // looks at three bits
    // The table has the code in its top bits already, so that xor with all of the code leaves only its sign.
    SmallVector<float> table;
    for (uint32_t code = 0; code < 8; ++code)
      table.push_back(llvm::bit_cast<float>(llvm::bit_cast<uint32_t>(magnitudes[code]) ^ code << 28));
    return asFloat(v, arith::XOrIOp::create(b, loc, asInt(v, permute("llvm.x86.avx2.permps", table)), top));
  }
  // With exponent e and mantissa m, 2^(e - 1) (1 + m / 2) is the value except where e = 0: there 0.5 and 0.75 stand for
  // 0 and 0.5.
  auto maskBits = [&](Value bits, uint32_t mask) {
    return arith::AndIOp::create(b, loc, bits, v.constantInt(llvm::bit_cast<int32_t>(mask)));
  };
  Value code = maskBits(codes, 7);
  Value normal = asFloat(v, arith::AddIOp::create(b, loc, shift(code, 22), v.constantInt(126 << 23)));
  Value small = v.sub(normal, v.constant(0.5));
  Value isSmall = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, code, v.constantInt(2));
  Value magnitude = arith::SelectOp::create(b, loc, isSmall, v.add(small, small), normal);
  return asFloat(v, arith::OrIOp::create(b, loc, asInt(v, magnitude), maskBits(top, 0x80000000u)));
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

/// Bits of the f32 of E8M0 codes that lie where the exponent does: that is it for codes 1 to 254, 0 is half of the
/// smallest normal number, and 255 (`infinity`) is NaN.
static Value finishE8M0(const MathBuilder &m, Value bits, Value infinity) {
  OpBuilder &b = m.builder();
  Location loc = m.getLoc();
  Value isNan = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, bits, infinity);
  bits = arith::MaxUIOp::create(b, loc, bits, m.constantInt(0x00400000));
  return arith::SelectOp::create(b, loc, isNan, m.constantInt(0x7fc00000), bits);
}

/// Bits of the f32 of E8M0 codes (i32).
static Value decodeE8M0(const MathBuilder &m, Value codes) {
  Value bits = arith::ShLIOp::create(m.builder(), m.getLoc(), codes, m.constantInt(23));
  return finishE8M0(m, bits, m.constantInt(0x7f800000));
}

void MxFp4Decoder::decodeScales(const MatrixRow &from, const MatrixRow &to, int64_t groups) const {
  OpBuilder &b = v.builder();
  Location loc = v.getLoc();
  int64_t whole = groups - groups % v.lanes();
  if (whole > 0)
    v.loop(v.index(0), v.index(whole), v.index(v.lanes()), [&](Value group) {
      Value codes = v.loadRaw(from.matrix, from.index(group), v.lanes());
      codes = arith::ExtUIOp::create(b, loc, v.vectorType().clone(b.getI32Type()), codes);
      v.store(asFloat(v, decodeE8M0(v, codes)), to.matrix, to.index(group));
    });
  if (whole < groups)
    v.loop(v.index(whole), v.index(groups), v.index(1), [&](Value group) {
      Value code = memref::LoadOp::create(b, loc, from.matrix, from.index(group));
      Value bits = decodeE8M0(v.scalar(), arith::ExtUIOp::create(b, loc, b.getI32Type(), code));
      v.storeScalar(arith::BitcastOp::create(b, loc, b.getF32Type(), bits), to.matrix, to.index(group));
    });
}

Value MxFp4Decoder::loadScales(const MatrixRow &row, Value line) const {
  Value first = v.mulIndex(line, v.index(lineGroups()));
  Value scales = v.loadRaw(row.matrix, row.index(first), lineGroups());
  SmallVector<int64_t> groupOfLane;
  for (int64_t lane = 0; lane < v.lanes(); ++lane)
    groupOfLane.push_back(lane / groupLanes);
  return vector::ShuffleOp::create(v.builder(), v.getLoc(), scales, scales, groupOfLane);
}

Value MxFp4Decoder::decodeBytes(Value bytes) const {
  OpBuilder &b = v.builder();
  Location loc = v.getLoc();
  auto type = cast<VectorType>(v.vectorType().clone(b.getI32Type()));
  // The byte of the lane's group to the top, then down into the bits of the exponent.
  SmallVector<int32_t> left;
  for (int64_t lane = 0; lane < v.lanes(); ++lane)
    left.push_back(static_cast<int32_t>(24 - 8 * (lane / groupLanes)));
  Value amounts = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, ArrayRef<int32_t>(left)));
  Value bits = arith::ShLIOp::create(b, loc, vector::BroadcastOp::create(b, loc, type, bytes), amounts);
  Value infinity = v.constantInt(0x7f800000);
  bits = arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, bits, v.constantInt(1)), infinity);
  return asFloat(v, finishE8M0(v, bits, infinity));
}

Value MxFp4Decoder::loadScaleCodes(const MatrixRow &row, Value line) const {
  OpBuilder &b = v.builder();
  Value codes = v.loadRaw(row.matrix, row.index(v.mulIndex(line, v.index(lineGroups()))), lineGroups());
  Value bytes = bitcast(v, codes, b.getIntegerType(static_cast<unsigned>(8 * lineGroups())), 1);
  bytes = vector::ExtractOp::create(b, v.getLoc(), bytes, ArrayRef<int64_t>{0});
  return decodeBytes(lineGroups() == 4 ? bytes
                                       : arith::ExtUIOp::create(b, v.getLoc(), b.getI32Type(), bytes).getResult());
}

Value MxFp4Decoder::packScaleCodes(ArrayRef<MatrixRow> rows, int64_t first, int64_t groups) const {
  OpBuilder &b = v.builder();
  Location loc = v.getLoc();
  MathBuilder s = v.scalar();
  Value bytes = s.constantInt(0);
  int32_t shift = 0;
  for (const MatrixRow &row : rows)
    for (int64_t group = first; group < first + groups; ++group) {
      Value code = memref::LoadOp::create(b, loc, row.matrix, row.index(v.index(group)));
      code = arith::ExtUIOp::create(b, loc, b.getI32Type(), code);
      bytes = arith::OrIOp::create(b, loc, bytes, arith::ShLIOp::create(b, loc, code, s.constantInt(shift)));
      shift += 8;
    }
  return decodeBytes(bytes);
}

void MxFp4Decoder::decodeColumnScales(const MatrixRow &from, Value to, int64_t groups) const {
  OpBuilder &b = v.builder();
  Location loc = v.getLoc();
  assert(cast<MemRefType>(from.matrix.getType()).getStridesAndOffset().first.front() == groups && "rows without gaps");
  auto store = [&](Value bits, int64_t group) {
    v.store(asFloat(v, bits), to, {v.index(group), v.index(0)});
  };
  if (groups % 4 != 0) {
    Value rows = v.loadRaw(from.matrix, from.index(v.index(0)), v.lanes() * groups);
    for (int64_t group = 0; group < groups; ++group) {
      SmallVector<int64_t> bytes;
      for (int64_t lane = 0; lane < v.lanes(); ++lane)
        bytes.push_back(lane * groups + group);
      Value codes = vector::ShuffleOp::create(b, loc, rows, rows, bytes);
      store(decodeE8M0(v, arith::ExtUIOp::create(b, loc, v.vectorType().clone(b.getI32Type()), codes)), group);
    }
    return;
  }
  // Words of four codes: lane l of column j is word l * words + j. One vector of words after the other is shuffled in,
  // because LLVM takes shuffles of more than two registers apart, element by element.
  int64_t words = groups / 4;
  SmallVector<Value> vectors;
  for (int64_t i = 0; i < words; ++i) {
    Value bytes = v.loadRaw(from.matrix, from.index(v.index(i * 4 * v.lanes())), 4 * v.lanes());
    vectors.push_back(bitcast(v, bytes, b.getI32Type(), v.lanes()));
  }
  Value infinity = v.constantInt(0x7f800000);
  for (int64_t j = 0; j < words; ++j) {
    Value column = vectors.front();
    for (int64_t i = words == 1 ? 0 : 1; i < words; ++i) {
      SmallVector<int64_t> pick;
      for (int64_t lane = 0; lane < v.lanes(); ++lane) {
        int64_t word = lane * words + j, vector = word / v.lanes(), at = word % v.lanes();
        pick.push_back(vector == i ? v.lanes() + at : i == 1 && vector == 0 ? at : lane);
      }
      column = vector::ShuffleOp::create(b, loc, column, vectors[i], pick);
    }
    for (int64_t byte = 0; byte < 4; ++byte) {
      Value bits = shift(column, static_cast<int32_t>(23 - 8 * byte));
      store(finishE8M0(v, arith::AndIOp::create(b, loc, bits, infinity), infinity), 4 * j + byte);
    }
  }
}

Value MxFp4Decoder::loadColumnScales(ArrayRef<MatrixRow> rows, Value group) const {
  OpBuilder &b = v.builder();
  Location loc = v.getLoc();
  auto type = VectorType::get({v.lanes()}, b.getI8Type());
  Value codes = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  for (auto [r, row] : llvm::enumerate(rows)) {
    Value code = memref::LoadOp::create(b, loc, row.matrix, row.index(group));
    codes = vector::InsertOp::create(b, loc, code, codes, ArrayRef<int64_t>{static_cast<int64_t>(r)});
  }
  return asFloat(v, decodeE8M0(v, arith::ExtUIOp::create(b, loc, v.vectorType().clone(b.getI32Type()), codes)));
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Bytes that codes are asked for ahead, at least.
static constexpr int64_t prefetchDistance = 1536;
/// Elements of a row up to which it is no stream that the hardware follows.
static constexpr int64_t shortRow = 1024;

MxFp4DotProducts::MxFp4DotProducts(const VectorBuilder &v, int64_t depth, bool bf16Inputs, bool fixedOrder)
    : v(v), decoder(v), depth(depth), rounds(bf16Inputs), pairs(bf16Inputs && v.getTarget().avx512Bf16),
      parts(pairs ? MxFp4Decoder::pairParts : MxFp4Decoder::parts) {
  if (v.getTarget().vectorRegisters >= 32)
    tokenBlocks = {8, 4, 3, 2, 1}; // 16 sums, or 8 and as many sums of a line
  else
    tokenBlocks = {4, 2, 1}; // 8 sums, or 4 and as many sums of a line
  // With few input rows, the sums of a line are scaled; with more it is cheaper to scale its weights.
  scaleSumsUpTo = tokenBlocks.front() / 2;
  byFours = depth <= shortRow && v.getTarget().vectorRegisters >= 32;
  if (fixedOrder || byFours)
    llvm::erase_if(tokenBlocks, [&](int64_t block) { return block > scaleSumsUpTo; });
  lines = depth / decoder.lineWeights();
  scaledLines = lines - lines % (v.lanes() / decoder.lineGroups());
  restGroups = depth % decoder.lineWeights() / MxFp4Decoder::groupSize;
  // Which lanes a row's rest is added up in depends on the row's place among those that share the line.
  if (restGroups > 0 && !fixedOrder)
    packedRows = decoder.lineGroups() / restGroups;
  inputs = v.temporary({(lines + (restGroups > 0)) * tokenBlocks.front() * decoder.lineWeights()},
                       pairs ? Type(v.builder().getBF16Type()) : Type());
  if (scaledLines > 0)
    scales = v.temporary({togetherRows, scaledLines * decoder.lineGroups()});
}

int64_t MxFp4DotProducts::getWeightRows(int64_t tokens) const {
  if (byFours)
    return 4;
  // One long stream per matrix is what the hardware follows best. With many input rows it is the loads of these that a
  // second row saves.
  return tokens <= 2 ? 1 : 2;
}

Value MxFp4DotProducts::inputIndex(Value line, int64_t token, int64_t part) const {
  Value start = v.mulIndex(line, v.index(tokens * decoder.lineWeights()));
  return v.addIndex(start, v.index(token * decoder.lineWeights() + part * (decoder.lineWeights() / parts)));
}

void MxFp4DotProducts::setInputs(ArrayRef<MatrixRow> rows) {
  tokens = rows.size();
  if (lines > 0)
    v.loop(v.index(0), v.index(lines), v.index(1), [&](Value line) { setLine(rows, line, decoder.lineGroups(), 1); });
  if (restGroups > 0)
    setLine(rows, v.index(lines), restGroups, packedRows);
}

/// Takes the even and the odd elements of consecutive vectors apart until each has elements of one remainder by
/// `parts`.
static void separate(const VectorBuilder &v, ArrayRef<Value> vectors, int64_t parts, int64_t remainder, int64_t step,
                     function_ref<void(ArrayRef<Value>, int64_t)> take) {
  if (step == parts)
    return take(vectors, remainder);
  SmallVector<int64_t> lanes[2];
  for (int64_t lane = 0; lane < 2 * v.lanes(); ++lane)
    lanes[lane % 2].push_back(lane);
  for (int64_t odd : {0, 1}) {
    SmallVector<Value> picked;
    for (size_t i = 0; i < vectors.size(); i += 2)
      picked.push_back(vector::ShuffleOp::create(v.builder(), v.getLoc(), vectors[i], vectors[i + 1], lanes[odd]));
    separate(v, picked, parts, remainder + odd * step, 2 * step, take);
  }
}

void MxFp4DotProducts::setLine(ArrayRef<MatrixRow> rows, Value line, int64_t groups, int64_t copies) {
  Value first = v.mulIndex(line, v.index(decoder.lineWeights()));
  int64_t size = groups * MxFp4Decoder::groupSize;
  for (auto [token, row] : llvm::enumerate(rows)) {
    SmallVector<Value> vectors;
    for (int64_t offset = 0; offset < decoder.lineWeights(); offset += v.lanes())
      vectors.push_back(
          offset < copies * size ? v.load(row.matrix, row.index(v.addIndex(first, v.index(offset % size)))) : v.zero());
    separate(v, vectors, parts, /*remainder=*/0, /*step=*/1, [&, token = token](ArrayRef<Value> picked, int64_t part) {
      Value vector = pairs ? v.packBf16(picked[0], picked[1]) : rounds ? v.roundToBf16(picked[0]) : picked[0];
      vector::StoreOp::create(v.builder(), v.getLoc(), vector, inputs, inputIndex(line, token, part));
    });
  }
}

SmallVector<Value> MxFp4DotProducts::emitLine(ArrayRef<Value> codes, ArrayRef<Value> lineScales, Value line,
                                              ValueRange sums) const {
  return pairs ? emitPairs(codes, lineScales, line, sums) : emitFloats(codes, lineScales, line, sums);
}

SmallVector<Value> MxFp4DotProducts::emitPairs(ArrayRef<Value> codes, ArrayRef<Value> lineScales, Value line,
                                               ValueRange sums) const {
  int64_t count = codes.size();
  SmallVector<Value> next(sums), decoded;
  for (Value rowCodes : codes)
    for (int64_t part = 0; part < parts; ++part)
      decoded.push_back(decoder.decodePairs(rowCodes, part));
  for (int64_t t = 0; t < tokens; ++t) {
    SmallVector<Value> lineSums(count, v.zero());
    for (int64_t part = 0; part < parts; ++part) {
      Value x = v.loadRaw(inputs, {inputIndex(line, t, part)}, 2 * v.lanes());
      for (int64_t r = 0; r < count; ++r)
        lineSums[r] = v.dotBf16(decoded[r * parts + part], x, lineSums[r]);
    }
    for (int64_t r = 0; r < count; ++r)
      next[t * count + r] = v.fma(lineSums[r], lineScales[r], next[t * count + r]);
  }
  return next;
}

SmallVector<Value> MxFp4DotProducts::emitFloats(ArrayRef<Value> codes, ArrayRef<Value> lineScales, Value line,
                                                ValueRange sums) const {
  int64_t count = codes.size();
  bool scaleSums = tokens <= scaleSumsUpTo;
  SmallVector<Value> next(sums), lineSums(sums.size());
  for (int64_t part = 0; part < parts; ++part) {
    SmallVector<Value> w;
    for (int64_t r = 0; r < count; ++r) {
      w.push_back(decoder.decode(codes[r], part));
      if (!scaleSums)
        w.back() = v.mul(w.back(), lineScales[r]);
    }
    for (int64_t t = 0; t < tokens; ++t) {
      Value x = v.load(inputs, {inputIndex(line, t, part)});
      for (int64_t r = 0; r < count; ++r) {
        Value &sum = scaleSums ? lineSums[t * count + r] : next[t * count + r];
        sum = sum ? v.fma(w[r], x, sum) : v.mul(w[r], x);
      }
    }
  }
  if (scaleSums)
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t r = 0; r < count; ++r)
        next[t * count + r] = v.fma(lineSums[t * count + r], lineScales[r], next[t * count + r]);
  return next;
}

/// Asks for the codes that are read at this place of the row in one of the next calls: rows are short, so what follows
/// in memory is not always what is read next.
void MxFp4DotProducts::prefetch(const WeightRow &row, Value line, int64_t stride) const {
  int64_t calls = llvm::divideCeil(prefetchDistance, stride * depth / 2);
  MatrixRow ahead{row.weight.matrix, {v.addIndex(row.weight.at.front(), v.index(calls * stride))}};
  v.prefetch(ahead.matrix, ahead.index(v.mulIndex(line, v.index(decoder.lineBytes()))));
  if (depth <= shortRow)
    v.prefetch(row.scale.matrix, MatrixRow{row.scale.matrix, ahead.at}.index(v.index(0)));
}

SmallVector<Value> MxFp4DotProducts::emitWhole(ArrayRef<WeightRow> weights, int64_t stride) {
  SmallVector<Value> sums(tokens * weights.size(), v.zero());
  auto add = [&](Value line, ValueRange args, function_ref<Value(size_t row)> loadScales) {
    SmallVector<Value> codes, lineScales;
    for (auto [r, row] : llvm::enumerate(weights)) {
      prefetch(row, line, stride);
      codes.push_back(decoder.loadLine(row.weight, line));
      lineScales.push_back(loadScales(r));
    }
    return emitLine(codes, lineScales, line, args);
  };
  if (scaledLines > 0) {
    auto decoded = [&](size_t row) { return MatrixRow{scales, {v.index(row)}}; };
    for (auto [r, row] : llvm::enumerate(weights))
      decoder.decodeScales(row.scale, decoded(r), scaledLines * decoder.lineGroups());
    sums = v.loop(v.index(0), v.index(scaledLines), v.index(1), sums, [&](Value line, ValueRange args) {
      return add(line, args, [&](size_t row) { return decoder.loadScales(decoded(row), line); });
    });
  }
  for (int64_t line = scaledLines; line < lines; ++line)
    sums =
        add(v.index(line), sums, [&](size_t row) { return decoder.loadScaleCodes(weights[row].scale, v.index(line)); });
  return sums;
}

void MxFp4DotProducts::addRest(ArrayRef<WeightRow> weights, int64_t stride, MutableArrayRef<Value> sums) {
  int64_t count = weights.size(), first = lines * decoder.lineGroups(),
          rowLanes = restGroups * MxFp4Decoder::groupLanes;
  auto type = cast<VectorType>(v.vectorType().clone(v.builder().getI1Type()));
  for (int64_t begin = 0; begin < count;) {
    // As many lines as can go together.
    SmallVector<Value> codes, scaleLanes;
    int64_t next = begin;
    while (next < count && static_cast<int64_t>(codes.size()) < togetherRows) {
      SmallVector<MatrixRow> codeRows, scaleRows;
      for (const WeightRow &row : weights.slice(next, std::min(packedRows, count - next))) {
        if (lines == 0)
          prefetch(row, v.index(0), stride);
        codeRows.push_back(row.weight);
        scaleRows.push_back(row.scale);
      }
      codes.push_back(decoder.packLine(codeRows, first, restGroups));
      scaleLanes.push_back(decoder.packScaleCodes(scaleRows, first, restGroups));
      next += static_cast<int64_t>(codeRows.size());
    }
    int64_t packs = codes.size();
    SmallVector<Value> rest = emitLine(codes, scaleLanes, v.index(lines), SmallVector<Value>(tokens * packs, v.zero()));
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t r = begin; r < next; ++r) {
        SmallVector<bool> lanes(v.lanes(), false);
        std::fill_n(lanes.begin() + (r - begin) % packedRows * rowLanes, rowLanes, true);
        Value mask = arith::ConstantOp::create(v.builder(), v.getLoc(), DenseElementsAttr::get(type, lanes));
        Value &sum = sums[t * count + r], add = rest[t * packs + (r - begin) / packedRows];
        sum = packedRows == 1 ? v.add(sum, add) : v.select(mask, v.add(sum, add), sum);
      }
    begin = next;
  }
}

SmallVector<Value> MxFp4DotProducts::emit(ArrayRef<WeightRow> weights, int64_t stride) {
  int64_t count = weights.size();
  SmallVector<Value> sums(tokens * count);
  for (int64_t begin = 0; begin < count; begin += togetherRows) {
    int64_t rows = std::min(togetherRows, count - begin);
    SmallVector<Value> whole = emitWhole(weights.slice(begin, rows), stride);
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t r = 0; r < rows; ++r)
        sums[t * count + begin + r] = whole[t * rows + r];
  }
  if (restGroups > 0)
    addRest(weights, stride, sums);
  return sums;
}
