//===- Atoms.cpp - matrix and copy instructions of a GPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Tile/Atoms.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::k3;

static LLVM::LLVMStructType structOf(const GpuBuilder &g, ArrayRef<Type> types) {
  return LLVM::LLVMStructType::getLiteral(g.b.getContext(), types);
}

/// The members of a struct.
static SmallVector<Value> unpack(const GpuBuilder &g, Value value) {
  SmallVector<Value> members;
  int64_t count = cast<LLVM::LLVMStructType>(value.getType()).getBody().size();
  for (int64_t i = 0; i < count; ++i)
    members.push_back(LLVM::ExtractValueOp::create(g.b, g.loc, value, ArrayRef<int64_t>{i}));
  return members;
}

/// PTX with several results, which come first among the operands $0, $1, ...
static SmallVector<Value> inlineAsm(const GpuBuilder &g, ArrayRef<Type> results, StringRef text, StringRef constraints,
                                    ValueRange operands) {
  auto op = LLVM::InlineAsmOp::create(g.b, g.loc, structOf(g, results), operands, text, constraints,
                                      /*has_side_effects=*/true, /*is_align_stack=*/false, LLVM::TailCallKind::None,
                                      LLVM::AsmDialectAttr::get(g.b.getContext(), LLVM::AsmDialect::AD_ATT),
                                      /*operand_attrs=*/ArrayAttr());
  return unpack(g, op.getRes());
}

//===----------------------------------------------------------------------===//
// Matrices in shared memory
//===----------------------------------------------------------------------===//

static NVVM::MMALayout getLayout(bool transposed) {
  return transposed ? NVVM::MMALayout::col : NVVM::MMALayout::row;
}

SmallVector<Value> k3::loadMatrices(const GpuBuilder &g, Value row, int64_t count, bool transposed) {
  assert((count == 1 || count == 2 || count == 4) && "ldmatrix loads 1, 2 or 4 matrices");
  MLIRContext *context = g.b.getContext();
  Type type = count == 1 ? g.i32() : structOf(g, SmallVector<Type>(count, g.i32()));
  Value loaded = NVVM::LdMatrixOp::create(g.b, g.loc, type, row, count, getLayout(transposed),
                                          NVVM::LdStMatrixShapeAttr::get(context, 8, 8), NVVM::LdStMatrixEltType::B16);
  return count == 1 ? SmallVector<Value>{loaded} : unpack(g, loaded);
}

void k3::storeMatrices(const GpuBuilder &g, Value row, ValueRange registers, bool transposed) {
  NVVM::StMatrixOp::create(g.b, g.loc, row, registers, getLayout(transposed),
                           NVVM::LdStMatrixShapeAttr::get(g.b.getContext(), 8, 8), NVVM::LdStMatrixEltType::B16);
}

Value k3::transposeMatrix(const GpuBuilder &g, Value matrix) {
  return g.ptx(g.i32(), "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;", matrix, /*volatile_=*/true);
}

//===----------------------------------------------------------------------===//
// Copies by threads
//===----------------------------------------------------------------------===//

void k3::copyAsync(const GpuBuilder &g, Value to, Value from, int64_t bytes, Value used) {
  // Only whole 16-byte copies may pass by L1.
  auto cache = bytes == 16 ? NVVM::LoadCacheModifierKind::CG : NVVM::LoadCacheModifierKind::CA;
  NVVM::CpAsyncOp::create(g.b, g.loc, to, from, bytes, cache, used);
}

void k3::commitCopies(const GpuBuilder &g) { NVVM::CpAsyncCommitGroupOp::create(g.b, g.loc); }
void k3::waitCopies(const GpuBuilder &g, int64_t pending) { NVVM::CpAsyncWaitGroupOp::create(g.b, g.loc, pending); }

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

void k3::initBarrier(const GpuBuilder &g, Value bar, int64_t count) {
  NVVM::MBarrierInitOp::create(g.b, g.loc, bar, g.i32(count), /*predicate=*/Value());
}
void k3::fenceBarriers(const GpuBuilder &g) { NVVM::FenceMbarrierInitOp::create(g.b, g.loc); }
void k3::arrive(const GpuBuilder &g, Value bar) {
  NVVM::MBarrierArriveOp::create(g.b, g.loc, g.i64(), bar, /*count=*/Value());
}
void k3::arriveExpecting(const GpuBuilder &g, Value bar, Value bytes) {
  NVVM::MBarrierArriveExpectTxOp::create(g.b, g.loc, /*res=*/Type(), bar, bytes, NVVM::MemScopeKind::CTA,
                                         /*relaxed=*/false, /*predicate=*/Value());
}
void k3::waitBarrier(const GpuBuilder &g, Value bar, Value parity) {
  constexpr int64_t ticks = 10000000; // of one try; the op tries until it succeeds
  NVVM::MBarrierTryWaitParityOp::create(g.b, g.loc, bar, parity, g.i32(ticks));
}

//===----------------------------------------------------------------------===//
// Bulk copies
//===----------------------------------------------------------------------===//

static Value toCluster(const GpuBuilder &g, Value pointer) {
  return LLVM::AddrSpaceCastOp::create(g.b, g.loc, g.pointerType(GpuBuilder::clusterSpace), pointer);
}

void k3::loadBox(const GpuBuilder &g, Value to, Value map, ValueRange coordinates, Value bar) {
  NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp::create(
      g.b, g.loc, toCluster(g, to), map, coordinates, bar, /*im2colOffsets=*/ValueRange(), /*multicastMask=*/Value(),
      /*l2CacheHint=*/Value(), NVVM::TMALoadMode::TILE, /*isCTAOnly=*/false, /*group=*/NVVM::CTAGroupKindAttr(),
      /*predicate=*/Value());
}

void k3::storeBox(const GpuBuilder &g, Value map, ValueRange coordinates, Value from) {
  NVVM::CpAsyncBulkTensorSharedCTAToGlobalOp::create(g.b, g.loc, map, from, coordinates, /*l2CacheHint=*/Value(),
                                                     NVVM::TMAStoreMode::TILE, /*predicate=*/Value());
}

void k3::loadBulk(const GpuBuilder &g, Value to, Value from, Value bytes, Value bar) {
  NVVM::CpAsyncBulkGlobalToSharedClusterOp::create(g.b, g.loc, toCluster(g, to), from, bar, bytes,
                                                   /*multicastMask=*/Value(), /*l2CacheHint=*/Value());
}

void k3::commitStores(const GpuBuilder &g) { NVVM::CpAsyncBulkCommitGroupOp::create(g.b, g.loc); }
void k3::waitStores(const GpuBuilder &g, int64_t pending, bool written) {
  NVVM::CpAsyncBulkWaitGroupOp::create(g.b, g.loc, g.b.getI32IntegerAttr(pending),
                                       written ? UnitAttr() : g.b.getUnitAttr());
}
void k3::fenceAsync(const GpuBuilder &g) {
  MLIRContext *context = g.b.getContext();
  NVVM::FenceProxyOp::create(g.b, g.loc, NVVM::ProxyKindAttr::get(context, NVVM::ProxyKind::async_shared),
                             NVVM::SharedSpaceAttr::get(context, NVVM::SharedSpace::shared_cta));
}

//===----------------------------------------------------------------------===//
// Products of a warp
//===----------------------------------------------------------------------===//

SmallVector<Value> k3::multiplyStep(const GpuBuilder &g, ValueRange a, ValueRange b, ValueRange sums) {
  assert(a.size() == 4 && b.size() == 2 && sums.size() == 4);
  Type result = structOf(g, SmallVector<Type>(4, g.f32()));
  constexpr std::array<NVVM::MMATypes, 2> types{NVVM::MMATypes::bf16, NVVM::MMATypes::bf16};
  constexpr std::array<NVVM::MMALayout, 2> layouts{NVVM::MMALayout::row, NVVM::MMALayout::col};
  return unpack(g, NVVM::MmaOp::create(g.b, g.loc, result, a, b, sums, ArrayRef<int64_t>{16, 8, 16},
                                       /*b1Op=*/std::nullopt, /*intOverflow=*/std::nullopt, types, layouts));
}

SmallVector<SmallVector<Value>> k3::toFragments(const GpuBuilder &g, ValueRange sums) {
  assert(sums.size() % 8 == 0 && "a step takes 16 columns");
  SmallVector<SmallVector<Value>> steps;
  for (size_t first = 0; first < sums.size(); first += 8) {
    SmallVector<Value> step;
    for (size_t i = first; i < first + 8; i += 2)
      step.push_back(g.packBf16(sums[i], sums[i + 1]));
    steps.push_back(step);
  }
  return steps;
}

//===----------------------------------------------------------------------===//
// Products of a warpgroup
//===----------------------------------------------------------------------===//

Value k3::makeDescriptor(const GpuBuilder &g, Value pointer, int64_t stride, int64_t leading, int64_t swizzle) {
  int64_t mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
  assert((mode != 0 || swizzle == 0) && "a swizzle of 0, 32, 64 or 128 bytes");
  Value address = LLVM::PtrToIntOp::create(g.b, g.loc, g.i32(), pointer);
  Value start = g.zeroExtend(g.shr(g.bitAnd(address, 0x3ffff), 4), g.i64());
  auto fixed = static_cast<int64_t>(static_cast<uint64_t>(leading >> 4) << 16 | static_cast<uint64_t>(stride >> 4) << 32 |
                                    static_cast<uint64_t>(mode) << 62);
  return g.bitOr(start, fixed);
}

Value k3::advanceDescriptor(const GpuBuilder &g, Value descriptor, int64_t bytes) {
  assert(bytes % 16 == 0);
  return bytes == 0 ? descriptor : g.add(descriptor, bytes / 16);
}

Value k3::advanceDescriptor(const GpuBuilder &g, Value descriptor, Value bytes) {
  return g.add(descriptor, g.zeroExtend(g.shr(bytes, 4), g.i64()));
}

/// "{$first, ..., $(first + count - 1)}"
static std::string operandList(size_t first, size_t count) {
  std::string text = "{";
  for (size_t i = first; i < first + count; ++i)
    text += (i == first ? "$" : ", $") + std::to_string(i);
  return text + "}";
}

SmallVector<Value> k3::wgmma(const GpuBuilder &g, ValueRange a, Value b, ValueRange sums, WgmmaForm form) {
  assert((a.size() == 4 || a.size() == 1) && "A is four registers or a descriptor");
  bool fromRegisters = a.size() == 4;
  assert((!fromRegisters || !form.transposeA) && "only a matrix in shared memory can be transposed");
  size_t count = sums.size(), firstA = 2 * count, descriptor = firstA + a.size();
  std::string text = "wgmma.mma_async.sync.aligned.m64n" + std::to_string(2 * count) + "k16.f32.bf16.bf16 " +
                     operandList(0, count) + ", " +
                     (fromRegisters ? operandList(firstA, 4) : "$" + std::to_string(firstA)) + ", $" +
                     std::to_string(descriptor) + ", " + (form.overwrite ? "0" : "1") + ", " +
                     (form.negateA ? "-1" : "1") + ", 1";
  if (!fromRegisters)
    text += form.transposeA ? ", 1" : ", 0";
  text += form.transposeB ? ", 1;" : ", 0;";
  // Sums come in and go out in the same registers.
  std::string constraints;
  for (size_t i = 0; i < count; ++i)
    constraints += "=f,";
  for (size_t i = 0; i < count; ++i)
    constraints += std::to_string(i) + ",";
  constraints += fromRegisters ? "r,r,r,r,l" : "l,l";
  SmallVector<Value> operands(sums);
  operands.append(a.begin(), a.end());
  operands.push_back(b);
  return inlineAsm(g, SmallVector<Type>(count, g.f32()), text, constraints, operands);
}

void k3::wgmmaFence(const GpuBuilder &g) { NVVM::WgmmaFenceAlignedOp::create(g.b, g.loc); }
void k3::wgmmaCommit(const GpuBuilder &g) { NVVM::WgmmaGroupSyncAlignedOp::create(g.b, g.loc); }

SmallVector<Value> k3::wgmmaWait(const GpuBuilder &g, int64_t pending, ValueRange values, ValueRange kept) {
  std::string constraints;
  for (Value value : values)
    constraints += value.getType().isF32() ? "=f," : "=r,";
  for (size_t i = 0; i < values.size(); ++i)
    constraints += std::to_string(i) + ",";
  for (size_t i = 0; i < kept.size(); ++i)
    constraints += "r,";
  constraints.pop_back();
  SmallVector<Value> operands(values);
  operands.append(kept.begin(), kept.end());
  return inlineAsm(g, SmallVector<Type>(values.getTypes()),
                   "wgmma.wait_group.sync.aligned " + std::to_string(pending) + ";", constraints, operands);
}

void k3::setRegisters(const GpuBuilder &g, int64_t count, bool increase) {
  NVVM::SetMaxRegisterOp::create(g.b, g.loc, static_cast<uint32_t>(count),
                                 increase ? NVVM::SetMaxRegisterAction::increase
                                          : NVVM::SetMaxRegisterAction::decrease);
}
