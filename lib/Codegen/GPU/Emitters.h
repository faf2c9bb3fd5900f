//===- Emitters.h - structured ops with hand-written GPU kernels -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// An emitter replaces a whole kernel's root op, on memrefs that are whole buffers (or reshapes and slices of them), by
// code of one thread of one block. One file per op family, `Emit<Family>.cpp`; every emitter is listed in Emitters.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_EMITTERS_H
#define K3_CODEGEN_GPU_EMITTERS_H

#include "dialects/k3/IR/K3Ops.h"
#include "lib/Codegen/Common/GpuTarget.h"
#include "mlir/IR/Builders.h"
#include <optional>

namespace mlir::k3 {

/// One dimension of a grid: a dimension of the op's shape table cut into tiles, or (`dim` empty) `tile` blocks.
struct GridDim {
  StringRef dim;
  int64_t tile = 1;
};

/// A tensor map of the binding number `binding` (tensor arguments of the kernel, in order).
struct TensorMapSpec {
  int64_t binding = 0;
  /// Elements per dimension, outermost first; dimensions before the last two count as one.
  SmallVector<int64_t, 3> box;
  /// Bytes: 0, 32, 64 or 128.
  int64_t swizzle = 0;
};

/// How an emitter's kernel is launched. Chosen from types, phase and target only.
struct GpuLaunch {
  /// Says in the IR which of an op's emitters it is; not "generic".
  StringRef strategy;
  /// x first. None: one block.
  SmallVector<GridDim, 3> grid;
  /// Of a block: whole warps, at most 1024.
  int64_t threads = 0;
  /// Dynamic shared memory of a block, all that the kernel uses.
  int64_t sharedBytes = 0;
  /// Blocks of a cluster, along x.
  int64_t cluster = 1;
  SmallVector<TensorMapSpec> tensorMaps;
};

/// The emitters of one op.
struct GpuEmitter {
  /// Name of the op: "k3.rms_norm".
  StringRef opName;
  /// Nothing: no emitter for these types; the op takes the generic path. The op is on tensors.
  std::optional<GpuLaunch> (*configure)(Operation *op, Phase phase, const GpuTarget &target);
  /// `b` is at the op (on memrefs) inside its kernel function; the caller erases the op.
  LogicalResult (*emit)(OpBuilder &b, Operation *op, KernelConfigAttr config, const GpuTarget &target);
};

/// The emitter of an op, or null.
const GpuEmitter *getGpuEmitter(Operation *op);

/// Number of the binding that a tensor of a kernel is: its position among the kernel's tensor arguments. Nothing if it is
/// not an argument but made of one.
std::optional<int64_t> getBinding(Value tensor);

//===--- EmitMlaAttend.cpp ---===//
std::optional<GpuLaunch> configureMlaAttend(MlaAttendOp op, Phase phase, const GpuTarget &target);
LogicalResult emitMlaAttend(OpBuilder &b, MlaAttendOp op, KernelConfigAttr config, const GpuTarget &target);
std::optional<GpuLaunch> configureMlaAttendPartial(MlaAttendPartialOp op, Phase phase, const GpuTarget &target);
LogicalResult emitMlaAttendPartial(OpBuilder &b, MlaAttendPartialOp op, KernelConfigAttr config,
                                   const GpuTarget &target);
std::optional<GpuLaunch> configureMlaAttendMerge(MlaAttendMergeOp op, Phase phase, const GpuTarget &target);
LogicalResult emitMlaAttendMerge(OpBuilder &b, MlaAttendMergeOp op, KernelConfigAttr config, const GpuTarget &target);

//===--- EmitNorm.cpp ---===//
std::optional<GpuLaunch> configureRmsNorm(RmsNormOp op, Phase phase, const GpuTarget &target);
LogicalResult emitRmsNorm(OpBuilder &b, RmsNormOp op, KernelConfigAttr config, const GpuTarget &target);
std::optional<GpuLaunch> configureKdaGatedNorm(KdaGatedNormOp op, Phase phase, const GpuTarget &target);
LogicalResult emitKdaGatedNorm(OpBuilder &b, KdaGatedNormOp op, KernelConfigAttr config, const GpuTarget &target);

//===--- EmitElementwise.cpp ---===//
std::optional<GpuLaunch> configureGlu(GluOp op, Phase phase, const GpuTarget &target);
LogicalResult emitGlu(OpBuilder &b, GluOp op, KernelConfigAttr config, const GpuTarget &target);
std::optional<GpuLaunch> configureSigmoidGate(SigmoidGateOp op, Phase phase, const GpuTarget &target);
LogicalResult emitSigmoidGate(OpBuilder &b, SigmoidGateOp op, KernelConfigAttr config, const GpuTarget &target);
std::optional<GpuLaunch> configureGatherRows(GatherRowsOp op, Phase phase, const GpuTarget &target);
LogicalResult emitGatherRows(OpBuilder &b, GatherRowsOp op, KernelConfigAttr config, const GpuTarget &target);
std::optional<GpuLaunch> configureAttnResAccumulate(AttnResAccumulateOp op, Phase phase, const GpuTarget &target);
LogicalResult emitAttnResAccumulate(OpBuilder &b, AttnResAccumulateOp op, KernelConfigAttr config, const GpuTarget &target);
std::optional<GpuLaunch> configureMoeCombine(MoeCombineOp op, Phase phase, const GpuTarget &target);
LogicalResult emitMoeCombine(OpBuilder &b, MoeCombineOp op, KernelConfigAttr config, const GpuTarget &target);
std::optional<GpuLaunch> configureKdaGate(KdaGateOp op, Phase phase, const GpuTarget &target);
LogicalResult emitKdaGate(OpBuilder &b, KdaGateOp op, KernelConfigAttr config, const GpuTarget &target);

//===--- EmitAttnRes.cpp ---===//
std::optional<GpuLaunch> configureAttnResMix(AttnResMixOp op, Phase phase, const GpuTarget &target);
LogicalResult emitAttnResMix(OpBuilder &b, AttnResMixOp op, KernelConfigAttr config, const GpuTarget &target);

//===--- EmitRoute.cpp ---===//
std::optional<GpuLaunch> configureMoeRoute(MoeRouteOp op, Phase phase, const GpuTarget &target);
LogicalResult emitMoeRoute(OpBuilder &b, MoeRouteOp op, KernelConfigAttr config, const GpuTarget &target);
std::optional<GpuLaunch> configureMoePlan(MoePlanOp op, Phase phase, const GpuTarget &target);
LogicalResult emitMoePlan(OpBuilder &b, MoePlanOp op, KernelConfigAttr config, const GpuTarget &target);

//===--- EmitShortConv.cpp ---===//
std::optional<GpuLaunch> configureKdaShortConv(KdaShortConvOp op, Phase phase, const GpuTarget &target);
LogicalResult emitKdaShortConv(OpBuilder &b, KdaShortConvOp op, KernelConfigAttr config, const GpuTarget &target);

//===--- EmitKdaStep.cpp ---===//
std::optional<GpuLaunch> configureKdaRecurrentStep(KdaRecurrentStepOp op, Phase phase, const GpuTarget &target);
LogicalResult emitKdaRecurrentStep(OpBuilder &b, KdaRecurrentStepOp op, KernelConfigAttr config, const GpuTarget &target);
std::optional<GpuLaunch> configureKdaDecodeStep(KdaDecodeStepOp op, Phase phase, const GpuTarget &target);
LogicalResult emitKdaDecodeStep(OpBuilder &b, KdaDecodeStepOp op, KernelConfigAttr config, const GpuTarget &target);

//===--- EmitMlaAppend.cpp ---===//
std::optional<GpuLaunch> configureMlaAppend(MlaAppendOp op, Phase phase, const GpuTarget &target);
LogicalResult emitMlaAppend(OpBuilder &b, MlaAppendOp op, KernelConfigAttr config, const GpuTarget &target);

//===--- EmitMlaProducts.cpp ---===//
std::optional<GpuLaunch> configureMlaAbsorb(MlaAbsorbOp op, Phase phase, const GpuTarget &target);
LogicalResult emitMlaAbsorb(OpBuilder &b, MlaAbsorbOp op, KernelConfigAttr config, const GpuTarget &target);
std::optional<GpuLaunch> configureMlaExpand(MlaExpandOp op, Phase phase, const GpuTarget &target);
LogicalResult emitMlaExpand(OpBuilder &b, MlaExpandOp op, KernelConfigAttr config, const GpuTarget &target);

//===--- EmitLinear.cpp ---===//
std::optional<GpuLaunch> configureLinear(LinearOp op, Phase phase, const GpuTarget &target);
LogicalResult emitLinear(OpBuilder &b, LinearOp op, KernelConfigAttr config, const GpuTarget &target);

//===--- EmitGemm.cpp ---===//
/// k3.linear where there may be many rows; nothing where it needs another emitter.
std::optional<GpuLaunch> configureGemm(LinearOp op, const GpuTarget &target);
bool isGemm(KernelConfigAttr config);
LogicalResult emitGemm(OpBuilder &b, LinearOp op, KernelConfigAttr config, const GpuTarget &target);

//===--- EmitExpertStream.cpp ---===//
/// k3.latent_moe.grouped_contract and k3.mx.contract where experts have few rows; right for any number.
std::optional<GpuLaunch> configureExpertStream(Operation *op, const GpuTarget &target);
LogicalResult emitExpertStream(OpBuilder &b, Operation *op, KernelConfigAttr config, const GpuTarget &target);

//===--- EmitExpertTiles.cpp ---===//
/// The same where experts may have many rows.
std::optional<GpuLaunch> configureExpertTiles(Operation *op, const GpuTarget &target);
bool isExpertTiles(KernelConfigAttr config);
LogicalResult emitExpertTiles(OpBuilder &b, Operation *op, KernelConfigAttr config, const GpuTarget &target);

//===--- EmitKdaPrepare.cpp ---===//
std::optional<GpuLaunch> configureKdaChunkPrepare(KdaChunkPrepareOp op, Phase phase, const GpuTarget &target);
LogicalResult emitKdaChunkPrepare(OpBuilder &b, KdaChunkPrepareOp op, KernelConfigAttr config, const GpuTarget &target);

//===--- EmitKdaScan.cpp ---===//
std::optional<GpuLaunch> configureKdaChunkScan(KdaChunkScanOp op, Phase phase, const GpuTarget &target);
LogicalResult emitKdaChunkScan(OpBuilder &b, KdaChunkScanOp op, KernelConfigAttr config, const GpuTarget &target);

//===--- EmitSample.cpp ---===//
std::optional<GpuLaunch> configureSample(SampleOp op, Phase phase, const GpuTarget &target);
LogicalResult emitSample(OpBuilder &b, SampleOp op, KernelConfigAttr config, const GpuTarget &target);

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_EMITTERS_H
