//===- Emitters.cpp - the list of GPU emitters -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Emitters.h"

using namespace mlir;
using namespace mlir::k3;

/// An entry of the table from an emitter's two functions.
template <typename OpTy, auto configure, auto emit> static GpuEmitter emitterOf() {
  return {OpTy::getOperationName(),
          [](Operation *op, Phase phase, const GpuTarget &target) { return configure(cast<OpTy>(op), phase, target); },
          [](OpBuilder &b, Operation *op, KernelConfigAttr config, const GpuTarget &target) {
            return emit(b, cast<OpTy>(op), config, target);
          }};
}

static std::optional<GpuLaunch> configureProduct(LinearOp op, Phase phase, const GpuTarget &target) {
  if (phase == Phase::prefill)
    if (std::optional<GpuLaunch> launch = configureGemm(op, target))
      return launch;
  return configureLinear(op, phase, target);
}

static LogicalResult emitProduct(OpBuilder &b, LinearOp op, KernelConfigAttr config, const GpuTarget &target) {
  return isGemm(config) ? emitGemm(b, op, config, target) : emitLinear(b, op, config, target);
}

template <typename OpTy>
static std::optional<GpuLaunch> configureExperts(OpTy op, Phase phase, const GpuTarget &target) {
  if (phase == Phase::prefill)
    if (std::optional<GpuLaunch> launch = configureExpertTiles(op, target))
      return launch;
  return configureExpertStream(op, target);
}

template <typename OpTy>
static LogicalResult emitExperts(OpBuilder &b, OpTy op, KernelConfigAttr config, const GpuTarget &target) {
  return isExpertTiles(config) ? emitExpertTiles(b, op, config, target) : emitExpertStream(b, op, config, target);
}

static std::optional<GpuLaunch> configureExpertMlp(MoeExpertMlpOp op, Phase, const GpuTarget &target) {
  return configureExpertStream(op, target);
}

static LogicalResult emitExpertMlp(OpBuilder &b, MoeExpertMlpOp op, KernelConfigAttr config, const GpuTarget &target) {
  return emitExpertStream(b, op, config, target);
}

static ArrayRef<GpuEmitter> getEmitters() {
  static const GpuEmitter emitters[] = {
      emitterOf<RmsNormOp, configureRmsNorm, emitRmsNorm>(),
      emitterOf<KdaGatedNormOp, configureKdaGatedNorm, emitKdaGatedNorm>(),
      emitterOf<GluOp, configureGlu, emitGlu>(),
      emitterOf<SigmoidGateOp, configureSigmoidGate, emitSigmoidGate>(),
      emitterOf<GatherRowsOp, configureGatherRows, emitGatherRows>(),
      emitterOf<AttnResAccumulateOp, configureAttnResAccumulate, emitAttnResAccumulate>(),
      emitterOf<MoeCombineOp, configureMoeCombine, emitMoeCombine>(),
      emitterOf<KdaGateOp, configureKdaGate, emitKdaGate>(),
      emitterOf<AttnResMixOp, configureAttnResMix, emitAttnResMix>(),
      emitterOf<MoeRouteOp, configureMoeRoute, emitMoeRoute>(),
      emitterOf<MoePlanOp, configureMoePlan, emitMoePlan>(),
      emitterOf<KdaShortConvOp, configureKdaShortConv, emitKdaShortConv>(),
      emitterOf<KdaRecurrentStepOp, configureKdaRecurrentStep, emitKdaRecurrentStep>(),
      emitterOf<KdaDecodeStepOp, configureKdaDecodeStep, emitKdaDecodeStep>(),
      emitterOf<MlaAppendOp, configureMlaAppend, emitMlaAppend>(),
      emitterOf<MlaAbsorbOp, configureMlaAbsorb, emitMlaAbsorb>(),
      emitterOf<MlaExpandOp, configureMlaExpand, emitMlaExpand>(),
      emitterOf<LinearOp, configureProduct, emitProduct>(),
      emitterOf<KdaChunkPrepareOp, configureKdaChunkPrepare, emitKdaChunkPrepare>(),
      emitterOf<KdaChunkScanOp, configureKdaChunkScan, emitKdaChunkScan>(),
      emitterOf<MlaAttendOp, configureMlaAttend, emitMlaAttend>(),
      emitterOf<MxContractOp, configureExperts<MxContractOp>, emitExperts<MxContractOp>>(),
      emitterOf<MoeGroupedContractOp, configureExperts<MoeGroupedContractOp>, emitExperts<MoeGroupedContractOp>>(),
      emitterOf<MoeExpertMlpOp, configureExpertMlp, emitExpertMlp>(),
      emitterOf<MlaAttendPartialOp, configureMlaAttendPartial, emitMlaAttendPartial>(),
      emitterOf<MlaAttendMergeOp, configureMlaAttendMerge, emitMlaAttendMerge>(),
      emitterOf<SampleOp, configureSample, emitSample>(),
  };
  return emitters;
}

std::optional<int64_t> k3::getBinding(Value tensor) {
  auto argument = dyn_cast<BlockArgument>(tensor);
  if (!argument || !isa<ShapedType>(argument.getType()))
    return std::nullopt;
  auto before = argument.getOwner()->getArguments().take_front(argument.getArgNumber());
  return llvm::count_if(before, [](BlockArgument other) { return isa<ShapedType>(other.getType()); });
}

const GpuEmitter *k3::getGpuEmitter(Operation *op) {
  StringRef name = op->getName().getStringRef();
  const GpuEmitter *found = llvm::find_if(getEmitters(), [&](const GpuEmitter &known) { return known.opName == name; });
  return found == getEmitters().end() ? nullptr : found;
}
