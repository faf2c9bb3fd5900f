//===- VectorBuilder.cpp - what emitters write vector code with -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/CPU/VectorBuilder.h"
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

Value VectorBuilder::narrow(Value vector) const {
  VectorType bf16 = vectorType().clone(b.getBF16Type());
  if (target.avx512Bf16)
    return arith::TruncFOp::create(b, loc, bf16, vector);
  Value bits = arith::BitcastOp::create(b, loc, intType(), vector);
  Value sixteen = constantInt(16);
  Value odd = arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, bits, sixteen), constantInt(1));
  Value rounded = arith::AddIOp::create(b, loc, bits, arith::AddIOp::create(b, loc, odd, constantInt(0x7fff)));
  Value isNan = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, vector, vector);
  rounded = arith::SelectOp::create(b, loc, isNan, constantInt(0x7fc00000), rounded);
  Value top = arith::TruncIOp::create(b, loc, vectorType().clone(b.getI16Type()),
                                      arith::ShRUIOp::create(b, loc, rounded, sixteen));
  return arith::BitcastOp::create(b, loc, bf16, top);
}

Value VectorBuilder::loadRaw(Value memref, ValueRange indices, int64_t count) const {
  return vector::LoadOp::create(b, loc, VectorType::get({count}, elementTypeOf(memref)), memref, indices);
}

Value VectorBuilder::load(Value memref, ValueRange indices) const {
  Value raw = loadRaw(memref, indices, lanes());
  if (elementTypeOf(memref).isF32())
    return raw;
  return widen(arith::BitcastOp::create(b, loc, vectorType().clone(b.getI16Type()), raw));
}

Value VectorBuilder::loadMasked(Value memref, ValueRange indices, Value mask) const {
  Type element = elementTypeOf(memref);
  VectorType rawType = vectorType().clone(element);
  Value none = arith::ConstantOp::create(b, loc, b.getZeroAttr(rawType));
  Value raw = vector::MaskedLoadOp::create(b, loc, rawType, memref, indices, mask, none);
  if (element.isF32())
    return raw;
  return widen(arith::BitcastOp::create(b, loc, vectorType().clone(b.getI16Type()), raw));
}

Value VectorBuilder::loadPartial(Value memref, ValueRange indices, int64_t count) const {
  return count == lanes() ? load(memref, indices) : loadMasked(memref, indices, mask(count));
}

void VectorBuilder::store(Value vector, Value memref, ValueRange indices) const {
  vector::StoreOp::create(b, loc, elementTypeOf(memref).isF32() ? vector : narrow(vector), memref, indices);
}

void VectorBuilder::storeMasked(Value vector, Value memref, ValueRange indices, Value mask) const {
  vector::MaskedStoreOp::create(b, loc, memref, indices, mask,
                                elementTypeOf(memref).isF32() ? vector : narrow(vector));
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

Value VectorBuilder::mask(int64_t count) const {
  return vector::ConstantMaskOp::create(b, loc, vectorType().clone(b.getI1Type()), ArrayRef<int64_t>{count});
}

Value VectorBuilder::mask(Value count) const {
  return vector::CreateMaskOp::create(b, loc, vectorType().clone(b.getI1Type()), count);
}

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

Value VectorBuilder::broadcast(Value scalar) const {
  return vector::BroadcastOp::create(b, loc, vectorType().clone(scalar.getType()), scalar);
}

Value VectorBuilder::reduceAdd(Value vector) const {
  return vector::ReductionOp::create(b, loc, vector::CombiningKind::ADD, vector, arith::FastMathFlags::reassoc);
}

Value VectorBuilder::reduceMax(Value vector) const {
  return vector::ReductionOp::create(b, loc, vector::CombiningKind::MAXNUMF, vector, arith::FastMathFlags::nnan);
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

SmallVector<Value> VectorBuilder::loop(Value low, Value high, Value step, ValueRange inits, LoopBody body) const {
  auto op = scf::ForOp::create(b, loc, low, high, step, inits,
                               [&](OpBuilder &inner, Location, Value iv, ValueRange args) {
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

SmallVector<Value>
VectorBuilder::loopVectors(int64_t size, ValueRange inits,
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

void VectorBuilder::loopBlocks(Value size, ArrayRef<int64_t> blocks, function_ref<void(Value, int64_t)> body) const {
  Value start = index(0);
  std::optional<int64_t> known = getConstantIntValue(size);
  int64_t covered = 0;
  for (int64_t block : blocks) {
    Value end = block == 1 ? size : addIndex(start, mulIndex(divIndex(subIndex(size, start), index(block)), index(block)));
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

std::pair<Value, Value> VectorBuilder::baseAndOffset(Value memref) const {
  auto metadata = memref::ExtractStridedMetadataOp::create(b, loc, memref);
  Value descriptor = UnrealizedConversionCastOp::create(b, loc, getScalarDescriptorType(b.getContext()),
                                                        metadata.getBaseBuffer())
                         .getResult(0);
  return {LLVM::ExtractValueOp::create(b, loc, descriptor, ArrayRef<int64_t>{1}), metadata.getOffset()};
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
