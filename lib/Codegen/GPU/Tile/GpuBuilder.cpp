//===- GpuBuilder.cpp - short spelling of GPU kernel code -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Tile/GpuBuilder.h"
#include "lib/Codegen/GPU/KernelAttrNames.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

static bool isFloat(Value x) { return isa<FloatType>(getElementTypeOrSelf(x.getType())); }

GpuBuilder::GpuBuilder(OpBuilder &b, Location loc, const GpuTarget &target, KernelConfigAttr config)
    : b(b), loc(loc), target(target), config(config) {
  assert(config.getThreads() > 0 && "a kernel of a GPU has threads");
  // Not later: the body of a loop belongs to nothing while it is built.
  Operation *parent = b.getInsertionBlock()->getParentOp();
  func = dyn_cast<func::FuncOp>(parent);
  if (!func)
    func = parent->getParentOfType<func::FuncOp>();
}

Type GpuBuilder::pointerType(unsigned space) const { return LLVM::LLVMPointerType::get(b.getContext(), space); }

//===----------------------------------------------------------------------===//
// Constants and registers
//===----------------------------------------------------------------------===//

Value GpuBuilder::i32(int64_t value) const { return constant(value, b.getI32Type()); }
Value GpuBuilder::i64(int64_t value) const { return constant(value, b.getI64Type()); }
Value GpuBuilder::f32(double value) const { return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value)); }
Value GpuBuilder::boolean(bool value) const { return arith::ConstantOp::create(b, loc, b.getBoolAttr(value)); }

Value GpuBuilder::constant(int64_t value, Type type) const {
  if (type.isInteger(1))
    return boolean(value != 0);
  if (isa<FloatType>(type))
    return arith::ConstantOp::create(b, loc, b.getFloatAttr(type, static_cast<double>(value)));
  return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, value));
}

/// A special register with values 0 .. bound - 1.
template <typename OpTy> static Value readRegister(const GpuBuilder &g, int64_t bound) {
  auto range = LLVM::ConstantRangeAttr::get(g.b.getContext(), APInt(32, 0), APInt(32, bound));
  return OpTy::create(g.b, g.loc, g.b.getI32Type(), range);
}

Value GpuBuilder::threadId() const { return readRegister<NVVM::ThreadIdXOp>(*this, threads()); }
Value GpuBuilder::laneId() const { return rem(threadId(), target.warpSize); }
Value GpuBuilder::warpId() const { return shuffleFrom(div(threadId(), target.warpSize), i32(0)); }

Value GpuBuilder::blockId(unsigned axis) const {
  // Limits of the launch: 2^31 - 1 blocks along x, 65535 along y and z.
  switch (axis) {
  case 0:
    return readRegister<NVVM::BlockIdXOp>(*this, INT32_MAX);
  case 1:
    return readRegister<NVVM::BlockIdYOp>(*this, 65535);
  default:
    assert(axis == 2 && "a grid has three axes");
    return readRegister<NVVM::BlockIdZOp>(*this, 65535);
  }
}

Value GpuBuilder::gridSize(unsigned axis) const {
  switch (axis) {
  case 0:
    return NVVM::GridDimXOp::create(b, loc, i32());
  case 1:
    return NVVM::GridDimYOp::create(b, loc, i32());
  default:
    assert(axis == 2 && "a grid has three axes");
    return NVVM::GridDimZOp::create(b, loc, i32());
  }
}

Value GpuBuilder::clusterRank() const { return readRegister<NVVM::ClusterId>(*this, 16); }

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

template <typename IntOp, typename FloatOp> static Value binary(const GpuBuilder &g, Value x, Value y) {
  assert(x.getType() == y.getType() && "operands of one type");
  if (isFloat(x))
    return g.b.createOrFold<FloatOp>(g.loc, x, y);
  return g.b.createOrFold<IntOp>(g.loc, x, y);
}

Value GpuBuilder::add(Value x, Value y) const { return binary<arith::AddIOp, arith::AddFOp>(*this, x, y); }
Value GpuBuilder::sub(Value x, Value y) const { return binary<arith::SubIOp, arith::SubFOp>(*this, x, y); }
Value GpuBuilder::mul(Value x, Value y) const { return binary<arith::MulIOp, arith::MulFOp>(*this, x, y); }
// Unsigned division by a power of two is a shift.
Value GpuBuilder::div(Value x, Value y) const { return binary<arith::DivUIOp, arith::DivFOp>(*this, x, y); }
Value GpuBuilder::rem(Value x, Value y) const { return binary<arith::RemUIOp, arith::RemFOp>(*this, x, y); }
Value GpuBuilder::min(Value x, Value y) const { return binary<arith::MinSIOp, arith::MinNumFOp>(*this, x, y); }
Value GpuBuilder::max(Value x, Value y) const { return binary<arith::MaxSIOp, arith::MaxNumFOp>(*this, x, y); }

Value GpuBuilder::bitAnd(Value x, Value y) const { return b.createOrFold<arith::AndIOp>(loc, x, y); }
Value GpuBuilder::bitOr(Value x, Value y) const { return b.createOrFold<arith::OrIOp>(loc, x, y); }
Value GpuBuilder::bitXor(Value x, Value y) const { return b.createOrFold<arith::XOrIOp>(loc, x, y); }
Value GpuBuilder::shl(Value x, Value y) const { return b.createOrFold<arith::ShLIOp>(loc, x, y); }
Value GpuBuilder::shr(Value x, Value y) const { return b.createOrFold<arith::ShRUIOp>(loc, x, y); }

static Value compare(const GpuBuilder &g, arith::CmpIPredicate ints, arith::CmpFPredicate floats, Value x, Value y) {
  if (isFloat(x))
    return g.b.createOrFold<arith::CmpFOp>(g.loc, floats, x, y);
  return g.b.createOrFold<arith::CmpIOp>(g.loc, ints, x, y);
}

Value GpuBuilder::lt(Value x, Value y) const {
  return compare(*this, arith::CmpIPredicate::slt, arith::CmpFPredicate::OLT, x, y);
}
Value GpuBuilder::le(Value x, Value y) const {
  return compare(*this, arith::CmpIPredicate::sle, arith::CmpFPredicate::OLE, x, y);
}
Value GpuBuilder::eq(Value x, Value y) const {
  return compare(*this, arith::CmpIPredicate::eq, arith::CmpFPredicate::OEQ, x, y);
}
Value GpuBuilder::ne(Value x, Value y) const {
  return compare(*this, arith::CmpIPredicate::ne, arith::CmpFPredicate::ONE, x, y);
}
Value GpuBuilder::select(Value condition, Value x, Value y) const {
  return b.createOrFold<arith::SelectOp>(loc, condition, x, y);
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

static Value toInteger(const GpuBuilder &g, Value x, Type type) {
  if (x.getType() == type)
    return x;
  if (x.getType().isIndex() || type.isIndex())
    return g.b.createOrFold<arith::IndexCastOp>(g.loc, type, x);
  if (x.getType().getIntOrFloatBitWidth() < type.getIntOrFloatBitWidth())
    return g.b.createOrFold<arith::ExtSIOp>(g.loc, type, x);
  return g.b.createOrFold<arith::TruncIOp>(g.loc, type, x);
}

Value GpuBuilder::toI32(Value x) const { return toInteger(*this, x, i32()); }
Value GpuBuilder::toI64(Value x) const { return toInteger(*this, x, i64()); }
Value GpuBuilder::toIndex(Value x) const { return toInteger(*this, x, b.getIndexType()); }
Value GpuBuilder::zeroExtend(Value x, Type type) const { return b.createOrFold<arith::ExtUIOp>(loc, type, x); }
Value GpuBuilder::truncate(Value x, Type type) const { return b.createOrFold<arith::TruncIOp>(loc, type, x); }

Value GpuBuilder::toF32(Value x) const {
  if (x.getType().isF32())
    return x;
  if (isFloat(x))
    return arith::ExtFOp::create(b, loc, f32(), x);
  return arith::SIToFPOp::create(b, loc, f32(), x);
}

Value GpuBuilder::toBf16(Value x) const {
  return x.getType().isBF16() ? x : arith::TruncFOp::create(b, loc, bf16(), x).getResult();
}

Value GpuBuilder::roundToBf16(Value x) const { return toF32(toBf16(x)); }

Value GpuBuilder::packBf16(Value low, Value high) const {
  Value pair = NVVM::ConvertF32x2ToBF16x2Op::create(b, loc, vectorOf(2, bf16()), high, low, /*random_bits=*/Value(),
                                                    NVVM::FPRoundingMode::RN);
  return bitcast(pair, i32());
}

std::pair<Value, Value> GpuBuilder::unpackBf16(Value pair) const {
  return {bitcast(shl(pair, 16), f32()), bitcast(bitAnd(pair, i32(static_cast<int32_t>(0xffff0000u))), f32())};
}

Value GpuBuilder::bitcast(Value x, Type type) const {
  return x.getType() == type ? x : LLVM::BitcastOp::create(b, loc, type, x).getResult();
}

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

Value GpuBuilder::fma(Value x, Value y, Value z) const { return LLVM::FMAOp::create(b, loc, x.getType(), x, y, z); }
Value GpuBuilder::neg(Value x) const { return arith::NegFOp::create(b, loc, x); }
Value GpuBuilder::abs(Value x) const { return LLVM::FAbsOp::create(b, loc, x.getType(), x); }
Value GpuBuilder::exp2(Value x) const { return ptx(f32(), "ex2.approx.ftz.f32 $0, $1;", x); }
Value GpuBuilder::log2(Value x) const { return ptx(f32(), "lg2.approx.ftz.f32 $0, $1;", x); }
Value GpuBuilder::reciprocal(Value x) const { return ptx(f32(), "rcp.approx.ftz.f32 $0, $1;", x); }
Value GpuBuilder::sqrt(Value x) const { return LLVM::SqrtOp::create(b, loc, x.getType(), x); }

static constexpr double log2e = 1.44269504088896341, ln2 = 0.693147180559945309;

Value GpuBuilder::exp(Value x) const {
  // 2^(t + r) with t = x log2 e rounded and r what rounding left: 2^r = 1 + r ln 2.
  constexpr float high = static_cast<float>(log2e);
  Value t = mul(x, f32(high));
  Value r = fma(x, f32(log2e - high), fma(x, f32(high), neg(t)));
  Value power = exp2(t);
  // Where t is infinite r is NaN, and where the power is 0 or infinite there is nothing to correct.
  Value corrected = fma(power, mul(r, f32(ln2)), power);
  return select(lt(abs(t), f32(126)), corrected, power);
}

Value GpuBuilder::fastExp(Value x) const { return exp2(mul(x, f32(log2e))); }
Value GpuBuilder::log(Value x) const { return mul(log2(x), f32(ln2)); }

Value GpuBuilder::rsqrt(Value x) const {
  Value y = ptx(f32(), "rsqrt.approx.ftz.f32 $0, $1;", x);
  // One Newton step: y + y (1 - x y^2) / 2.
  Value error = fma(neg(mul(mul(x, f32(0.5)), y)), y, f32(0.5));
  return fma(y, error, y);
}

Value GpuBuilder::sigmoid(Value x) const { return reciprocal(add(exp(neg(x)), f32(1))); }

static Value polynomial(const GpuBuilder &g, Value x, ArrayRef<double> coefficients) {
  Value p = g.f32(coefficients.front());
  for (double c : coefficients.drop_front())
    p = g.fma(p, x, g.f32(c));
  return p;
}

Value GpuBuilder::tanh(Value x) const {
  Value a = abs(x), z = mul(x, x), one = f32(1);
  Value p = polynomial(*this, z,
                       {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1});
  Value nearZero = fma(mul(p, z), x, x);
  Value far = sub(one, mul(f32(2), reciprocal(add(exp(add(a, a)), one))));
  far = LLVM::CopySignOp::create(b, loc, f32(), far, x);
  return select(lt(a, f32(0.625)), nearZero, far);
}

/// log(1 + t) = 2 atanh(s), s = t / (2 + t), for |s| <= 1/3.
static Value emitLog1pNearZero(const GpuBuilder &g, Value t) {
  Value s = g.quotient(t, g.add(t, g.f32(2)));
  Value z = g.mul(s, s);
  Value p = polynomial(g, z,
                       {0.10393793134679948, 0.08732356233913934, 0.11132354999799758, 0.1428515289366334,
                        0.20000005384227287, 0.3333333332501694});
  Value twice = g.add(s, s);
  return g.fma(g.mul(twice, z), p, twice);
}

Value GpuBuilder::log1p(Value x) const {
  Value isNear = logicalAnd(ge(x, f32(-0.5)), le(x, f32(1)));
  return select(isNear, emitLog1pNearZero(*this, x), log(add(x, f32(1))));
}

Value GpuBuilder::softplus(Value x) const {
  // exp(-|x|) is in [0, 1].
  return add(max(x, f32(0)), emitLog1pNearZero(*this, exp(neg(abs(x)))));
}

Value GpuBuilder::glu(Activation activation, double beta, double linearBeta, Value gate, Value up) const {
  if (activation == Activation::swiglu)
    return mul(silu(gate), up);
  auto cap = [&](Value x, double bound) { return mul(f32(bound), tanh(mul(x, f32(1 / bound)))); };
  return mul(mul(cap(gate, beta), sigmoid(gate)), cap(up, linearBeta));
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

Value GpuBuilder::dim(Value memref, int64_t dim) const {
  int64_t size = staticDim(memref, dim);
  if (!ShapedType::isDynamic(size))
    return i32(size);
  return toI32(b.createOrFold<memref::DimOp>(loc, memref, dim));
}

static Value gep(const GpuBuilder &g, Value pointer, Type elementType, LLVM::GEPArg offset) {
  return LLVM::GEPOp::create(g.b, g.loc, pointer.getType(), elementType, pointer, ArrayRef<LLVM::GEPArg>{offset},
                             LLVM::GEPNoWrapFlags::inbounds);
}

Value GpuBuilder::advance(Value pointer, Value offset, Type elementType) const {
  if (std::optional<int64_t> constant = getConstantIntValue(offset); constant && llvm::isInt<31>(*constant))
    return advance(pointer, *constant, elementType);
  return gep(*this, pointer, elementType, toI64(offset));
}

Value GpuBuilder::advance(Value pointer, int64_t offset, Type elementType) const {
  if (offset == 0)
    return pointer;
  if (!llvm::isInt<31>(offset))
    return gep(*this, pointer, elementType, i64(offset));
  return gep(*this, pointer, elementType, static_cast<int32_t>(offset));
}

/// Where the memory of `base`, a memref of rank 0, starts.
static Value getAlignedPointer(const GpuBuilder &g, Value base) {
  auto ptr = LLVM::LLVMPointerType::get(g.b.getContext(), cast<MemRefType>(base.getType()).getMemorySpaceAsInt());
  auto descriptorType = LLVM::LLVMStructType::getLiteral(g.b.getContext(), {ptr, ptr, g.i64()});
  Value descriptor = UnrealizedConversionCastOp::create(g.b, g.loc, descriptorType, base).getResult(0);
  return LLVM::ExtractValueOp::create(g.b, g.loc, descriptor, ArrayRef<int64_t>{1});
}

Value GpuBuilder::base(Value memref) const { return element(memref, {}); }

Value GpuBuilder::element(Value memref, ValueRange indices) const {
  auto type = cast<MemRefType>(memref.getType());
  assert(static_cast<int64_t>(indices.size()) <= type.getRank());
  auto [strides, offset] = type.getStridesAndOffset();
  auto metadata = memref::ExtractStridedMetadataOp::create(b, loc, memref);
  Value pointer = getAlignedPointer(*this, metadata.getBaseBuffer());
  if (type.getMemorySpaceAsInt() == 0)
    pointer = LLVM::AddrSpaceCastOp::create(b, loc, pointerType(globalSpace), pointer);
  Value at = ShapedType::isDynamic(offset) ? toI64(metadata.getOffset()) : i64(offset);
  for (auto [index, stride, dynamicStride] : llvm::zip_first(indices, strides, metadata.getStrides()))
    at = add(at, mul(toI64(index), ShapedType::isDynamic(stride) ? toI64(dynamicStride) : i64(stride)));
  return advance(pointer, at, type.getElementType());
}

bool GpuBuilder::isExpertTable(Value memref) const {
  auto argument = dyn_cast<BlockArgument>(memref);
  return argument && kernel().getArgAttr(argument.getArgNumber(), expertGroupAttrName);
}

Value GpuBuilder::expertTable(Value table) const {
  assert(isExpertTable(table) && "not an expert group");
  auto metadata = memref::ExtractStridedMetadataOp::create(b, loc, table);
  return LLVM::AddrSpaceCastOp::create(b, loc, pointerType(globalSpace),
                                       getAlignedPointer(*this, metadata.getBaseBuffer()));
}

Value GpuBuilder::expert(Value table, Value index) const {
  Type global = pointerType(globalSpace);
  return loadRaw(advance(expertTable(table), index, global), global, /*readOnly=*/true);
}

Value GpuBuilder::load(Value memref, ValueRange indices, bool readOnly) const {
  Value value = loadRaw(element(memref, indices), elementType(memref), readOnly);
  return isFloat(value) ? toF32(value) : value;
}

void GpuBuilder::store(Value value, Value memref, ValueRange indices) const {
  storeRaw(elementType(memref).isBF16() ? toBf16(value) : value, element(memref, indices));
}

/// Bytes of a value in memory, at most what one instruction moves.
static unsigned getAlignment(Type type) {
  if (isa<LLVM::LLVMPointerType>(type))
    return 8;
  auto vector = dyn_cast<VectorType>(type);
  int64_t bits = getElementTypeOrSelf(type).getIntOrFloatBitWidth() * (vector ? vector.getNumElements() : 1);
  return std::clamp<int64_t>(bits / 8, 1, 16);
}

Value GpuBuilder::loadRaw(Value pointer, Type type, bool readOnly) const {
  return LLVM::LoadOp::create(b, loc, type, pointer, getAlignment(type), /*isVolatile=*/false, /*isNonTemporal=*/false,
                              /*isInvariant=*/readOnly);
}

void GpuBuilder::storeRaw(Value value, Value pointer) const {
  LLVM::StoreOp::create(b, loc, value, pointer, getAlignment(value.getType()));
}

SmallVector<Value> GpuBuilder::loadFloats(Value pointer, Type elementType, int64_t count, bool readOnly) const {
  assert(llvm::isPowerOf2_64(count) && count <= vectorLength(elementType) && "more than one instruction moves");
  if (count == 1)
    return {toF32(loadRaw(pointer, elementType, readOnly))};
  bool pairs = elementType.isBF16();
  assert((pairs || elementType.isF32()) && "expected floats");
  int64_t words = pairs ? count / 2 : count;
  Type wordType = pairs ? i32() : f32();
  Value raw = loadRaw(pointer, words == 1 ? wordType : vectorOf(words, wordType), readOnly);
  SmallVector<Value> values;
  for (int64_t i = 0; i < words; ++i) {
    Value word = words == 1 ? raw : vector::ExtractOp::create(b, loc, raw, ArrayRef<int64_t>{i}).getResult();
    if (!pairs) {
      values.push_back(word);
      continue;
    }
    auto [low, high] = unpackBf16(word);
    values.append({low, high});
  }
  return values;
}

void GpuBuilder::storeFloats(ArrayRef<Value> values, Value pointer, Type elementType) const {
  assert(llvm::isPowerOf2_64(values.size()) && static_cast<int64_t>(values.size()) <= vectorLength(elementType));
  if (values.size() == 1)
    return storeRaw(elementType.isBF16() ? toBf16(values.front()) : values.front(), pointer);
  SmallVector<Value> words(values);
  if (elementType.isBF16()) {
    words.clear();
    for (size_t i = 0; i < values.size(); i += 2)
      words.push_back(packBf16(values[i], values[i + 1]));
  }
  if (words.size() == 1)
    return storeRaw(words.front(), pointer);
  auto type = vectorOf(words.size(), words.front().getType());
  storeRaw(vector::FromElementsOp::create(b, loc, type, words), pointer);
}

//===----------------------------------------------------------------------===//
// Shared memory and synchronisation
//===----------------------------------------------------------------------===//

BlockArgument GpuBuilder::extraArgument(StringRef attrName, Attribute attr, Type type) const {
  func::FuncOp func = kernel();
  for (BlockArgument argument : func.getArguments())
    if (func.getArgAttr(argument.getArgNumber(), attrName) == attr)
      return argument;
  unsigned position = func.getNumArguments();
  LogicalResult inserted =
      func.insertArgument(position, type, b.getDictionaryAttr(b.getNamedAttr(attrName, attr)), loc);
  assert(succeeded(inserted) && "a kernel takes any argument");
  (void)inserted;
  return func.getArgument(position);
}

Value GpuBuilder::shared(int64_t offset) const {
  return advance(extraArgument(sharedMemoryAttrName, b.getUnitAttr(), pointerType(sharedSpace)), offset, i8());
}

Value GpuBuilder::shared(Value offset) const { return advance(shared(0), offset, i8()); }

void GpuBuilder::barrier() const { NVVM::Barrier0Op::create(b, loc); }

void GpuBuilder::barrier(int64_t id, int64_t count) const { barrier(i32(id), count); }

void GpuBuilder::barrier(Value id, int64_t count) const {
  NVVM::BarrierOp::create(b, loc, TypeRange(), id, i32(count), NVVM::BarrierReductionAttr(), Value());
}

static constexpr int64_t allLanes = -1;

void GpuBuilder::warpBarrier() const { NVVM::SyncWarpOp::create(b, loc, i32(allLanes)); }

static Value shuffle(const GpuBuilder &g, NVVM::ShflKind kind, Value value, Value offset) {
  assert((value.getType().isF32() || value.getType().isInteger(32)) && "shuffles move 32 bits");
  return NVVM::ShflOp::create(g.b, g.loc, value.getType(), g.i32(allLanes), value, offset, g.i32(31), kind,
                              /*return_value_and_is_valid=*/UnitAttr());
}

Value GpuBuilder::shuffleXor(Value value, int64_t mask) const {
  return shuffle(*this, NVVM::ShflKind::bfly, value, i32(mask));
}
Value GpuBuilder::shuffleDown(Value value, int64_t distance) const {
  return shuffle(*this, NVVM::ShflKind::down, value, i32(distance));
}
Value GpuBuilder::shuffleFrom(Value value, Value lane) const {
  return shuffle(*this, NVVM::ShflKind::idx, value, lane);
}

Value GpuBuilder::ballot(Value condition) const {
  return NVVM::VoteSyncOp::create(b, loc, i32(), i32(allLanes), condition, NVVM::VoteSyncKind::ballot);
}

Value GpuBuilder::combine(Reduction reduction, Value x, Value y) const {
  switch (reduction) {
  case Reduction::Add:
    return add(x, y);
  case Reduction::Max:
    return max(x, y);
  case Reduction::Min:
    return min(x, y);
  }
  llvm_unreachable("unknown reduction");
}

/// What leaves the other operand as it is.
static Value neutral(const GpuBuilder &g, Reduction reduction, Type type) {
  if (reduction == Reduction::Add)
    return g.constant(0, type);
  bool isMax = reduction == Reduction::Max;
  if (isa<FloatType>(type))
    return g.f32(isMax ? -INFINITY : INFINITY);
  return g.i32(isMax ? INT32_MIN : INT32_MAX);
}

Value GpuBuilder::warpReduce(Value value, Reduction reduction, int64_t width) const {
  assert(llvm::isPowerOf2_64(width) && width <= target.warpSize);
  for (int64_t distance = width / 2; distance > 0; distance /= 2)
    value = combine(reduction, value, shuffleXor(value, distance));
  return value;
}

Value GpuBuilder::blockReduce(Value value, Reduction reduction, int64_t offset) const {
  value = warpReduce(value, reduction);
  if (warps() == 1)
    return value;
  Type type = value.getType();
  Value slots = shared(offset), lane = laneId();
  ifThen(eq(lane, 0), [&] { storeRaw(value, advance(slots, div(threadId(), target.warpSize), type)); });
  barrier();
  // Runs of lanes read all slots, so that every lane ends up with the result.
  int64_t width = llvm::PowerOf2Ceil(warps());
  Value slot = rem(lane, width);
  Value partial = loadRaw(advance(slots, min(slot, warps() - 1), type), type);
  if (width != warps())
    partial = select(lt(slot, warps()), partial, neutral(*this, reduction, type));
  Value result = warpReduce(partial, reduction, width);
  barrier();
  return result;
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

SmallVector<Value> GpuBuilder::loop(Value low, Value high, Value step, ValueRange inits, LoopBody body) const {
  auto op =
      scf::ForOp::create(b, loc, low, high, step, inits, [&](OpBuilder &inner, Location, Value iv, ValueRange carried) {
        // `body` writes through this builder, so move it into the loop for a while.
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToEnd(inner.getInsertionBlock());
        scf::YieldOp::create(b, loc, body(iv, carried));
      });
  return SmallVector<Value>(op.getResults());
}

void GpuBuilder::loop(Value low, Value high, Value step, function_ref<void(Value)> body) const {
  loop(low, high, step, ValueRange(), [&](Value iv, ValueRange) {
    body(iv);
    return SmallVector<Value>();
  });
}

void GpuBuilder::forThreads(Value count, function_ref<void(Value)> body) const {
  if (std::optional<int64_t> constant = getConstantIntValue(count))
    return forThreads(*constant, body);
  loop(threadId(), count, i32(threads()), body);
}

void GpuBuilder::forThreads(int64_t count, function_ref<void(Value)> body) const {
  // All threads have the same trip count but for the rest, so that loops can be unrolled.
  constexpr int64_t unrolled = 4;
  int64_t whole = count / threads();
  Value thread = threadId();
  if (whole <= unrolled)
    for (int64_t i = 0; i < whole; ++i)
      body(add(thread, i * threads()));
  else
    loop(i32(0), i32(whole * threads()), i32(threads()), [&](Value start) { body(add(start, thread)); });
  if (int64_t rest = count - whole * threads())
    ifThen(lt(thread, rest), [&] { body(add(thread, whole * threads())); });
}

void GpuBuilder::ifThen(Value condition, function_ref<void()> body) const {
  scf::IfOp::create(b, loc, condition, [&](OpBuilder &inner, Location) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(inner.getInsertionBlock());
    body();
    scf::YieldOp::create(b, loc);
  });
}

SmallVector<Value> GpuBuilder::ifThenElse(Value condition, function_ref<SmallVector<Value>()> then,
                                          function_ref<SmallVector<Value>()> otherwise) const {
  auto branch = [&](function_ref<SmallVector<Value>()> body) {
    return [this, body](OpBuilder &inner, Location) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToEnd(inner.getInsertionBlock());
      SmallVector<Value> values = body();
      scf::YieldOp::create(b, loc, values);
    };
  };
  auto op = scf::IfOp::create(b, loc, condition, branch(then), branch(otherwise));
  return SmallVector<Value>(op.getResults());
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

/// Register class of an operand of inline PTX.
static char getConstraint(Type type) {
  if (isa<LLVM::LLVMPointerType>(type) || type.isInteger(64))
    return 'l';
  if (type.isInteger(1))
    return 'b';
  if (type.isInteger(16))
    return 'h';
  if (type.isF32())
    return 'f';
  if (type.isF64())
    return 'd';
  assert(type.isInteger(32) && "no register class for this type");
  return 'r';
}

Value GpuBuilder::ptx(Type result, StringRef text, ValueRange operands, bool volatile_) const {
  std::string constraints;
  if (result)
    constraints = std::string("=") + getConstraint(result);
  for (Value operand : operands)
    constraints += (constraints.empty() ? "" : ",") + std::string(1, getConstraint(operand.getType()));
  auto op = LLVM::InlineAsmOp::create(
      b, loc, result ? TypeRange(result) : TypeRange(), operands, text, constraints, volatile_,
      /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
      LLVM::AsmDialectAttr::get(b.getContext(), LLVM::AsmDialect::AD_ATT), /*operand_attrs=*/ArrayAttr());
  return result ? op->getResult(0) : Value();
}

void GpuBuilder::ptx(StringRef text, ValueRange operands) const { ptx(Type(), text, operands, /*volatile_=*/true); }

static void controlGrids(OpBuilder &b, Location loc, StringRef text) {
  // No access to memory is moved across them.
  LLVM::InlineAsmOp::create(b, loc, TypeRange(), ValueRange(), text, "~{memory}", /*has_side_effects=*/true,
                            /*is_align_stack=*/false, LLVM::TailCallKind::None,
                            LLVM::AsmDialectAttr::get(b.getContext(), LLVM::AsmDialect::AD_ATT),
                            /*operand_attrs=*/ArrayAttr());
}

void GpuBuilder::waitForPrevious(OpBuilder &b, func::FuncOp kernel) {
  assert(b.getInsertionBlock() == &kernel.getBody().front() && "all threads wait");
  controlGrids(b, kernel.getLoc(), "griddepcontrol.wait;");
  controlGrids(b, kernel.getLoc(), "griddepcontrol.launch_dependents;");
  kernel->setAttr(startsEarlyAttrName, b.getUnitAttr());
}

Value GpuBuilder::intrinsic(Type result, StringRef name, ValueRange operands) const {
  return LLVM::CallIntrinsicOp::create(b, loc, result, b.getStringAttr(name), operands).getResult(0);
}

Value GpuBuilder::tensorMap(unsigned index) const {
  assert(index < config.getTensorMaps().size() && "no such tensor map in the config");
  // All of them in order, because the position is the ABI.
  for (unsigned i = 0; i < config.getTensorMaps().size(); ++i)
    extraArgument(tensorMapAttrName, b.getI64IntegerAttr(i), pointerType(genericSpace));
  return extraArgument(tensorMapAttrName, b.getI64IntegerAttr(index), pointerType(genericSpace));
}

void GpuBuilder::setResident() const { kernel()->setAttr(residentAttrName, b.getUnitAttr()); }

void GpuBuilder::setMinBlocks(int64_t count) const { kernel()->setAttr(minBlocksAttrName, b.getI64IntegerAttr(count)); }
