//===- VectorBuilder.cpp - what emitters write vector code with -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/CPU/VectorBuilder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::k3;

//===----------------------------------------------------------------------===//
// Index arithmetic
//===----------------------------------------------------------------------===//

Value VectorBuilder::index(int64_t value) const { return arith::ConstantIndexOp::create(b, loc, value); }
Value VectorBuilder::addIndex(Value x, Value y) const { return b.createOrFold<arith::AddIOp>(loc, x, y); }
Value VectorBuilder::subIndex(Value x, Value y) const { return b.createOrFold<arith::SubIOp>(loc, x, y); }
Value VectorBuilder::mulIndex(Value x, Value y) const { return b.createOrFold<arith::MulIOp>(loc, x, y); }
Value VectorBuilder::divIndex(Value x, Value y) const { return b.createOrFold<arith::DivUIOp>(loc, x, y); }
Value VectorBuilder::remIndex(Value x, Value y) const { return b.createOrFold<arith::RemUIOp>(loc, x, y); }
Value VectorBuilder::minIndex(Value x, Value y) const { return b.createOrFold<arith::MinSIOp>(loc, x, y); }

Value VectorBuilder::dim(Value memref, int64_t dim) const {
  auto type = cast<MemRefType>(memref.getType());
  if (!type.isDynamicDim(dim))
    return index(type.getDimSize(dim));
  return memref::DimOp::create(b, loc, memref, dim);
}

Value VectorBuilder::loadIndex(Value memref, ValueRange indices) const {
  return arith::IndexCastOp::create(b, loc, b.getIndexType(), memref::LoadOp::create(b, loc, memref, indices));
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static Type elementTypeOf(Value memref) { return cast<MemRefType>(memref.getType()).getElementType(); }

Value VectorBuilder::widen(Value bits) const {
  Value wide = arith::ExtUIOp::create(b, loc, intType(), bits);
  return arith::BitcastOp::create(b, loc, type, arith::ShLIOp::create(b, loc, wide, constantInt(16)));
}

/// i32 bits of f32 values whose upper halves are the values rounded to bf16; NaN stays NaN.
static Value roundBits(OpBuilder &b, Location loc, Value vector, Type intType,
                       function_ref<Value(int32_t)> constantInt) {
  Value bits = arith::BitcastOp::create(b, loc, intType, vector);
  Value odd = arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, bits, constantInt(16)), constantInt(1));
  Value rounded = arith::AddIOp::create(b, loc, bits, arith::AddIOp::create(b, loc, odd, constantInt(0x7fff)));
  Value isNan = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, vector, vector);
  return arith::SelectOp::create(b, loc, isNan, constantInt(0x7fc00000), rounded);
}

Value VectorBuilder::narrow(Value vector) const {
  VectorType bf16 = vectorType().clone(b.getBF16Type());
  if (target.avx512Bf16)
    return arith::TruncFOp::create(b, loc, bf16, vector);
  Value rounded = roundBits(b, loc, vector, intType(), [&](int32_t value) { return constantInt(value); });
  Value top = arith::TruncIOp::create(b, loc, vectorType().clone(b.getI16Type()),
                                      arith::ShRUIOp::create(b, loc, rounded, constantInt(16)));
  return arith::BitcastOp::create(b, loc, bf16, top);
}

Value VectorBuilder::roundToBf16(Value vector) const {
  // Not a conversion to bf16 and back: LLVM takes such pairs apart into calls of a library function.
  Value rounded = roundBits(b, loc, vector, intType(), [&](int32_t value) { return constantInt(value); });
  Value top = arith::AndIOp::create(b, loc, rounded, constantInt(static_cast<int32_t>(0xffff0000u)));
  return arith::BitcastOp::create(b, loc, type, top);
}

Value VectorBuilder::packBf16(Value low, Value high) const {
  assert(target.avx512Bf16 && lanes() == 16 && "the target has no such instruction");
  return LLVM::CallIntrinsicOp::create(b, loc, VectorType::get({2 * lanes()}, b.getBF16Type()),
                                       b.getStringAttr("llvm.x86.avx512bf16.cvtne2ps2bf16.512"), ValueRange{high, low})
      .getResult(0);
}

Value VectorBuilder::dotBf16(Value x, Value y, Value sum) const {
  assert(target.avx512Bf16 && lanes() == 16 && "the target has no such instruction");
  return LLVM::CallIntrinsicOp::create(b, loc, type, b.getStringAttr("llvm.x86.avx512bf16.dpbf16ps.512"),
                                       ValueRange{sum, x, y})
      .getResult(0);
}

Value VectorBuilder::loadPair(Value memref, ValueRange indices) const {
  Value pair = vector::BitCastOp::create(b, loc, VectorType::get({1}, b.getI32Type()), loadRaw(memref, indices, 2));
  Value spread = broadcast(vector::ExtractOp::create(b, loc, pair, ArrayRef<int64_t>{0}));
  return vector::BitCastOp::create(b, loc, VectorType::get({2 * lanes()}, b.getBF16Type()), spread);
}

void VectorBuilder::packRow(Value from, ValueRange fromRow, Value start, Value size, Value to, Value toRow) const {
  loop(index(0), size, index(2 * lanes()), [&](Value k) {
    auto half = [&](Value at) {
      SmallVector<Value> indices(fromRow);
      indices.push_back(at);
      return load(from, indices);
    };
    Value at = addIndex(start, k);
    vector::StoreOp::create(b, loc, packBf16(half(at), half(addIndex(at, index(lanes())))), to, ValueRange{toRow, k});
  });
}

void VectorBuilder::prefetch(Value memref, ValueRange indices, int64_t level) const {
  memref::PrefetchOp::create(b, loc, memref, indices, /*isWrite=*/false, /*localityHint=*/4 - level,
                             /*isDataCache=*/true);
}

void VectorBuilder::prefetchForWrite(Value memref, ValueRange indices) const {
  memref::PrefetchOp::create(b, loc, memref, indices, /*isWrite=*/true, /*localityHint=*/3, /*isDataCache=*/true);
}

Value VectorBuilder::loadRaw(Value memref, ValueRange indices, int64_t count) const {
  return vector::LoadOp::create(b, loc, VectorType::get({count}, elementTypeOf(memref)), memref, indices);
}

Value VectorBuilder::fromStored(Value raw) const {
  if (getElementTypeOrSelf(raw.getType()).isF32())
    return raw;
  return widen(arith::BitcastOp::create(b, loc, vectorType().clone(b.getI16Type()), raw));
}

Value VectorBuilder::load(Value memref, ValueRange indices) const {
  return fromStored(loadRaw(memref, indices, lanes()));
}

Value VectorBuilder::loadMasked(Value memref, ValueRange indices, Value mask) const {
  Type element = elementTypeOf(memref);
  VectorType rawType = vectorType().clone(element);
  Value none = arith::ConstantOp::create(b, loc, b.getZeroAttr(rawType));
  return fromStored(vector::MaskedLoadOp::create(b, loc, rawType, memref, indices, mask, none));
}

Value VectorBuilder::loadPartial(Value memref, ValueRange indices, int64_t count) const {
  return count == lanes() ? load(memref, indices) : loadMasked(memref, indices, mask(count));
}

void VectorBuilder::store(Value vector, Value memref, ValueRange indices) const {
  vector::StoreOp::create(b, loc, elementTypeOf(memref).isF32() ? vector : narrow(vector), memref, indices);
}

void VectorBuilder::storeMasked(Value vector, Value memref, ValueRange indices, Value mask) const {
  vector::MaskedStoreOp::create(b, loc, memref, indices, mask, elementTypeOf(memref).isF32() ? vector : narrow(vector));
}

void VectorBuilder::storePartial(Value vector, Value memref, ValueRange indices, int64_t count) const {
  if (count == lanes())
    store(vector, memref, indices);
  else
    storeMasked(vector, memref, indices, mask(count));
}

Value VectorBuilder::loadScalar(Value memref, ValueRange indices) const {
  Value raw = memref::LoadOp::create(b, loc, memref, indices);
  return raw.getType().isF32() ? raw : arith::ExtFOp::create(b, loc, b.getF32Type(), raw);
}

void VectorBuilder::storeScalar(Value value, Value memref, ValueRange indices) const {
  Type element = elementTypeOf(memref);
  if (!element.isF32())
    value = arith::TruncFOp::create(b, loc, element, value);
  memref::StoreOp::create(b, loc, value, memref, indices);
}

Value VectorBuilder::temporary(ArrayRef<int64_t> shape, Type elementType) const {
  OpBuilder::InsertionGuard guard(b);
  Operation *parent = b.getInsertionBlock()->getParentOp();
  auto func = isa<func::FuncOp>(parent) ? cast<func::FuncOp>(parent) : parent->getParentOfType<func::FuncOp>();
  b.setInsertionPointToStart(&func.getBody().front());
  auto memory = MemRefType::get(shape, elementType ? elementType : b.getF32Type());
  return memref::AllocOp::create(b, loc, memory, ValueRange(), b.getI64IntegerAttr(64));
}

Value VectorBuilder::mask(int64_t count) const {
  return vector::ConstantMaskOp::create(b, loc, vectorType().clone(b.getI1Type()), ArrayRef<int64_t>{count});
}

Value VectorBuilder::mask(Value count) const {
  return vector::CreateMaskOp::create(b, loc, vectorType().clone(b.getI1Type()), count);
}

void VectorBuilder::storeColumn(Value vector, Value memref, Value first, Value column, int64_t count) const {
  for (int64_t lane = 0; lane < count; ++lane)
    storeScalar(vector::ExtractOp::create(b, loc, vector, ArrayRef<int64_t>{lane}), memref,
                {addIndex(first, index(lane)), column});
}

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

Value VectorBuilder::broadcast(Value scalar) const {
  return vector::BroadcastOp::create(b, loc, vectorType().clone(scalar.getType()), scalar);
}


Value VectorBuilder::reduceMax(Value vector) const {
  return vector::ReductionOp::create(b, loc, vector::CombiningKind::MAXNUMF, vector, arith::FastMathFlags::nnan);
}

Value VectorBuilder::extract(Value vector, int64_t lane) const {
  return vector::ExtractOp::create(b, loc, vector, ArrayRef<int64_t>{lane});
}

SmallVector<Value> VectorBuilder::transpose(ArrayRef<Value> rows) const {
  assert(static_cast<int64_t>(rows.size()) == lanes() && "a square");
  SmallVector<Value> square(rows);
  // Every step exchanges the off-diagonal quarters of all squares of twice its size.
  for (int64_t step = 1; step < lanes(); step *= 2)
    for (int64_t row = 0; row < lanes(); ++row) {
      if (row & step)
        continue;
      Value &upper = square[row], &lower = square[row + step];
      SmallVector<int64_t> upperLanes, lowerLanes;
      for (int64_t lane = 0; lane < lanes(); ++lane) {
        upperLanes.push_back(lane & step ? lanes() + lane - step : lane);
        lowerLanes.push_back(lane & step ? lanes() + lane : lane + step);
      }
      Value top = vector::ShuffleOp::create(b, loc, upper, lower, upperLanes);
      lower = vector::ShuffleOp::create(b, loc, upper, lower, lowerLanes);
      upper = top;
    }
  return square;
}

Value VectorBuilder::shuffleFours(Value x, Value y, ArrayRef<int64_t> pick) const {
  SmallVector<int64_t> mask;
  for (int64_t group = 0; group < lanes(); group += 4)
    for (int64_t lane : pick)
      mask.push_back(lane < 4 ? group + lane : lanes() + group + lane - 4);
  return vector::ShuffleOp::create(b, loc, x, y, mask);
}

/// Adds the groups of four lanes; one sum for each lane of a group is left.
static Value addGroups(const VectorBuilder &v, Value sums) {
  for (int64_t size = v.lanes(); size > 4; size /= 2) {
    auto half = [&](int64_t offset) {
      return vector::ExtractStridedSliceOp::create(v.builder(), v.getLoc(), sums, ArrayRef<int64_t>{offset},
                                                   ArrayRef<int64_t>{size / 2}, ArrayRef<int64_t>{1});
    };
    sums = v.add(half(0), half(size / 2));
  }
  return sums;
}

/// The order is that of reduceAdd4: a sum has the same bits whichever of the two it goes through.
Value VectorBuilder::reduceAdd(Value vector) const {
  Value sums = add(vector, shuffleFours(vector, vector, {2, 3, 0, 1}));
  sums = add(sums, shuffleFours(sums, sums, {1, 0, 3, 2}));
  return extract(addGroups(*this, sums), 0);
}

Value VectorBuilder::reduceAdd4(ArrayRef<Value> vectors) const {
  assert(vectors.size() == 4);
  // Add the halves of every group of four lanes, interleaving pairs of vectors: x0+x2 y0+y2 x1+x3 y1+y3.
  auto pair = [&](Value x, Value y) {
    return add(shuffleFours(x, y, {0, 4, 1, 5}), shuffleFours(x, y, {2, 6, 3, 7}));
  };
  Value first = pair(vectors[0], vectors[1]), second = pair(vectors[2], vectors[3]);
  Value sums =
      add(shuffleFours(first, second, {0, 1, 4, 5}), shuffleFours(first, second, {2, 3, 6, 7}));
  // Every group of four lanes now holds one partial sum of each vector.
  return addGroups(*this, sums);
}

SmallVector<Value> VectorBuilder::reduceAddAll(ArrayRef<Value> vectors) const {
  SmallVector<Value> sums;
  for (; vectors.size() >= 4; vectors = vectors.drop_front(4)) {
    Value four = reduceAdd4(vectors.take_front(4));
    for (int64_t lane = 0; lane < 4; ++lane)
      sums.push_back(extract(four, lane));
  }
  for (Value vector : vectors)
    sums.push_back(reduceAdd(vector));
  return sums;
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

SmallVector<Value> VectorBuilder::loop(Value low, Value high, Value step, ValueRange inits, LoopBody body) const {
  auto op =
      scf::ForOp::create(b, loc, low, high, step, inits, [&](OpBuilder &inner, Location, Value iv, ValueRange args) {
        // `body` writes through this builder, so move it into the loop for a while.
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToEnd(inner.getInsertionBlock());
        SmallVector<Value> results = body(iv, args);
        scf::YieldOp::create(b, loc, results);
      });
  return SmallVector<Value>(op.getResults());
}

void VectorBuilder::loop(Value low, Value high, Value step, function_ref<void(Value)> body) const {
  loop(low, high, step, ValueRange(), [&](Value iv, ValueRange) {
    body(iv);
    return SmallVector<Value>();
  });
}

SmallVector<Value> VectorBuilder::loopVectors(int64_t size, ValueRange inits,
                                              function_ref<SmallVector<Value>(Value, int64_t, ValueRange)> body) const {
  int64_t whole = size - size % lanes();
  SmallVector<Value> args(inits);
  if (whole > 0)
    args = loop(index(0), index(whole), index(lanes()), args,
                [&](Value offset, ValueRange inner) { return body(offset, lanes(), inner); });
  if (whole < size)
    args = body(index(whole), size - whole, args);
  return args;
}

void VectorBuilder::loopVectors(int64_t size, function_ref<void(Value, int64_t)> body) const {
  loopVectors(size, ValueRange(), [&](Value offset, int64_t count, ValueRange) {
    body(offset, count);
    return SmallVector<Value>();
  });
}

void VectorBuilder::loopColumns(int64_t size, int64_t width, function_ref<void(ArrayRef<Value>, int64_t)> body) const {
  assert(width % lanes() == 0 && "blocks are whole vectors");
  int64_t blocks = size / width * width, whole = size / lanes() * lanes();
  auto vectors = [&](Value start, int64_t step) {
    SmallVector<Value> at;
    for (int64_t offset = 0; offset < step; offset += lanes())
      at.push_back(addIndex(start, index(offset)));
    body(at, lanes());
  };
  if (blocks > 0)
    loop(index(0), index(blocks), index(width), [&](Value start) { vectors(start, width); });
  if (blocks < whole)
    loop(index(blocks), index(whole), index(lanes()), [&](Value start) { vectors(start, lanes()); });
  if (whole < size)
    body(index(whole), size - whole);
}

void VectorBuilder::loopBlocks(Value size, ArrayRef<int64_t> blocks, function_ref<void(Value, int64_t)> body) const {
  Value start = index(0);
  std::optional<int64_t> known = getConstantIntValue(size);
  int64_t covered = 0;
  for (int64_t block : blocks) {
    Value end =
        block == 1 ? size : addIndex(start, mulIndex(divIndex(subIndex(size, start), index(block)), index(block)));
    if (!known || (*known - covered) / block > 0)
      loop(start, end, index(block), [&](Value iv) { body(iv, block); });
    if (known)
      covered += (*known - covered) / block * block;
    start = end;
  }
}

void VectorBuilder::ifThen(Value condition, function_ref<void()> body) const {
  scf::IfOp::create(b, loc, condition, [&](OpBuilder &inner, Location) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(inner.getInsertionBlock());
    body();
    scf::YieldOp::create(b, loc);
  });
}

Value VectorBuilder::compare(arith::CmpIPredicate predicate, Value x, Value y) const {
  return b.createOrFold<arith::CmpIOp>(loc, predicate, x, y);
}

Value VectorBuilder::select(Value condition, Value x, Value y) const {
  return b.createOrFold<arith::SelectOp>(loc, condition, x, y);
}

//===----------------------------------------------------------------------===//
// Pointers
//===----------------------------------------------------------------------===//

/// The LLVM type of a memref of rank 0: allocated pointer, aligned pointer, offset.
static LLVM::LLVMStructType getScalarDescriptorType(MLIRContext *context) {
  auto ptr = LLVM::LLVMPointerType::get(context);
  return LLVM::LLVMStructType::getLiteral(context, {ptr, ptr, IntegerType::get(context, 64)});
}

Value VectorBuilder::basePointer(Value memref) const {
  Value descriptor =
      UnrealizedConversionCastOp::create(b, loc, getScalarDescriptorType(b.getContext()), memref).getResult(0);
  return LLVM::ExtractValueOp::create(b, loc, descriptor, ArrayRef<int64_t>{1});
}

Value VectorBuilder::loadPointer(Value table, Value index) const {
  auto ptr = LLVM::LLVMPointerType::get(b.getContext());
  Value offset = arith::IndexCastOp::create(b, loc, b.getI64Type(), index);
  Value slot = LLVM::GEPOp::create(b, loc, ptr, ptr, table, ArrayRef<LLVM::GEPArg>{offset});
  return LLVM::LoadOp::create(b, loc, ptr, slot);
}

Value VectorBuilder::viewPointer(Value pointer, Value offset, ArrayRef<OpFoldResult> sizes,
                                 ArrayRef<OpFoldResult> strides, Type elementType) const {
  Value descriptor = LLVM::PoisonOp::create(b, loc, getScalarDescriptorType(b.getContext()));
  descriptor = LLVM::InsertValueOp::create(b, loc, descriptor, pointer, ArrayRef<int64_t>{0});
  descriptor = LLVM::InsertValueOp::create(b, loc, descriptor, pointer, ArrayRef<int64_t>{1});
  Value none = LLVM::ConstantOp::create(b, loc, b.getI64Type(), b.getI64IntegerAttr(0));
  descriptor = LLVM::InsertValueOp::create(b, loc, descriptor, none, ArrayRef<int64_t>{2});
  Value base = UnrealizedConversionCastOp::create(b, loc, MemRefType::get({}, elementType), descriptor).getResult(0);
  SmallVector<int64_t> staticSizes, staticStrides;
  SmallVector<Value> ignored;
  dispatchIndexOpFoldResults(sizes, ignored, staticSizes);
  dispatchIndexOpFoldResults(strides, ignored, staticStrides);
  auto layout = StridedLayoutAttr::get(b.getContext(), ShapedType::kDynamic, staticStrides);
  return memref::ReinterpretCastOp::create(b, loc, MemRefType::get(staticSizes, elementType, layout), base,
                                           OpFoldResult(offset), sizes, strides);
}
