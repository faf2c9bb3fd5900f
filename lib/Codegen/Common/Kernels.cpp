//===- Kernels.cpp - kernel functions and their attributes -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Common/Kernels.h"
#include "lib/Codegen/Common/TargetModel.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

using namespace mlir;
using namespace mlir::k3;

bool k3::isKernel(func::FuncOp func) { return func->hasAttr(kernelAttrName) && !func.isExternal(); }

FailureOr<StructuredOpInterface> k3::getKernelRoot(func::FuncOp kernel) {
  StructuredOpInterface root;
  bool several = false;
  kernel.walk([&](StructuredOpInterface op) {
    several |= root != nullptr;
    root = op;
  });
  if (!root || several)
    return kernel.emitOpError() << "expected exactly one structured op in a kernel, got "
                                << (several ? "several" : "none");
  return root;
}

KernelConfigAttr k3::getKernelConfig(Operation *op) {
  return dyn_cast_or_null<KernelConfigAttr>(op->getInherentAttr(kernelConfigAttrName).value_or(Attribute()));
}

BlockArgument k3::getViewedArgument(Value buffer) {
  while (true) {
    if (auto argument = dyn_cast<BlockArgument>(buffer)) {
      Operation *parent = argument.getOwner()->getParentOp();
      if (isa<func::FuncOp>(parent))
        return argument;
      auto loop = dyn_cast<LoopLikeOpInterface>(parent);
      OpOperand *init = loop ? loop.getTiedLoopInit(argument) : nullptr;
      if (!init)
        return {};
      buffer = init->get();
      continue;
    }
    Operation *op = buffer.getDefiningOp();
    if (auto view = dyn_cast<ViewLikeOpInterface>(op)) {
      buffer = view.getViewSource();
    } else if (auto loop = dyn_cast<LoopLikeOpInterface>(op)) {
      // Bufferization keeps loops only whose every iteration yields the buffer that it got.
      OpOperand *init = loop.getTiedLoopInit(cast<OpResult>(buffer));
      if (!init)
        return {};
      buffer = init->get();
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      unsigned number = cast<OpResult>(buffer).getResultNumber();
      BlockArgument yes = getViewedArgument(branch.thenYield().getOperand(number));
      return yes && yes == getViewedArgument(branch.elseYield().getOperand(number)) ? yes : BlockArgument();
    } else {
      return {};
    }
  }
}

OwningOpRef<ModuleOp> k3::extractKernels(ModuleOp module) {
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc(), module.getName());
  if (Attribute target = module->getAttr(targetAttrName))
    (*kernels)->setAttr(targetAttrName, target);
  OpBuilder b = OpBuilder::atBlockEnd(kernels->getBody());
  for (auto func : module.getOps<func::FuncOp>())
    if (isKernel(func))
      b.clone(*func);
  return kernels;
}
