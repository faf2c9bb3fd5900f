//===- GpuTarget.cpp - what code generation knows of the target GPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Common/GpuTarget.h"
#include "dialects/k3/IR/K3Ops.h"
#include "lib/Codegen/Common/TargetModel.h"

using namespace mlir;
using namespace mlir::k3;

static llvm::Expected<GpuTarget> makeTarget(StringRef chip, StringRef features) {
  if (chip != "sm_90a")
    return llvm::createStringError("unknown NVIDIA chip '" + chip + "'; known is sm_90a (target nvidia-sm90a)");
  GpuTarget target;
  target.chip = chip.str();
  target.features = features.str();
  target.wgmma = target.tma = target.clusters = true;
  return target;
}

llvm::Expected<GpuTarget> GpuTarget::parse(StringRef name) {
  StringRef chip = name;
  if (!chip.consume_front(namePrefix) || chip != "sm90a")
    return llvm::createStringError("unknown GPU target '" + name + "'; known is nvidia-sm90a");
  // The oldest version that has everything that kernels use, so that older assemblers and drivers do.
  return makeTarget("sm_90a", "+ptx86");
}

llvm::Expected<GpuTarget> GpuTarget::fromAttr(TargetAttr attr) {
  if (attr.getArch() != arch)
    return llvm::createStringError("expected a target of arch '" + StringRef(arch) + "', got '" + attr.getArch() + "'");
  return makeTarget(attr.getCpu(), attr.getFeatures());
}

TargetAttr GpuTarget::toAttr(MLIRContext *context) const { return TargetAttr::get(context, arch, chip, features); }

template <typename AttrTy>
static AttrTy getInnermost(Operation *op, StringRef name) {
  for (Operation *scope = op; scope; scope = scope->getParentOp())
    if (auto attr = scope->getAttrOfType<AttrTy>(name))
      return attr;
  return {};
}

static TargetAttr getTargetAttr(Operation *op) { return getInnermost<TargetAttr>(op, targetAttrName); }

FailureOr<GpuTarget> k3::getGpuTarget(Operation *op) {
  TargetAttr attr = getTargetAttr(op);
  if (!attr)
    return op->emitError() << "expected a '" << targetAttrName << "' attribute on the module";
  llvm::Expected<GpuTarget> target = GpuTarget::fromAttr(attr);
  if (!target)
    return op->emitError() << llvm::toString(target.takeError());
  if (auto terms = getInnermost<IntegerAttr>(op, GpuTarget::xTermsAttrName)) {
    target->xTerms = terms.getInt();
    if (target->xTerms != 2 && target->xTerms != 3)
      return op->emitError() << "expected 2 or 3 as '" << GpuTarget::xTermsAttrName << "', got " << target->xTerms;
  }
  return std::move(*target);
}

bool k3::isForGpu(Operation *op) {
  TargetAttr attr = getTargetAttr(op);
  return attr && attr.getArch() == GpuTarget::arch;
}
