//===- OutlineExecutable.cpp - move kernels to a module of their own -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/Program/Dispatches.h"
#include "lib/Transforms/Program/LibraryProduct.h"
#include "lib/Transforms/Program/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_OUTLINEEXECUTABLE
#include "lib/Transforms/Program/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

/// Module attribute with the machine to compile for.
static constexpr llvm::StringLiteral targetAttr = "k3.target";

namespace {
struct OutlineExecutablePass : k3::impl::OutlineExecutableBase<OutlineExecutablePass> {
  using Base::Base;
  void runOnOperation() override;
};
} // namespace

/// How the kernel of a GPU is launched; null for a CPU.
static LaunchAttr getLaunch(func::FuncOp kernel) {
  KernelConfigAttr config;
  kernel.walk([&](StructuredOpInterface root) {
    config = dyn_cast_or_null<KernelConfigAttr>(root->getInherentAttr("kernel_config").value_or(Attribute()));
  });
  if (!config || config.getThreads() == 0)
    return {};
  return LaunchAttr::get(kernel.getContext(), config.getThreads(), config.getSharedBytes(), config.getCluster(),
                         config.getTensorMaps(), /*registers=*/0, /*static_shared_bytes=*/0, /*spill_bytes=*/0,
                         /*stack_bytes=*/0);
}

void OutlineExecutablePass::runOnOperation() {
  ModuleOp module = getOperation();
  SymbolTable symbols(module);
  if (symbols.lookup(executable)) {
    module.emitError() << "expected no symbol called @" << executable << " yet";
    return signalPassFailure();
  }
  bool hasPrograms = !module.getOps<ExecProgramOp>().empty();
  llvm::SetVector<func::FuncOp> used;
  module.walk([&](ExecDispatchOp dispatch) {
    if (auto kernel = symbols.lookup<func::FuncOp>(dispatch.getKernel()))
      used.insert(kernel);
  });
  for (auto function : module.getOps<func::FuncOp>())
    if (!hasPrograms && function->hasAttr(kKernelAttr))
      used.insert(function);
  OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
  auto outlined = ModuleOp::create(b, module.getLoc(), executable);
  if (Attribute target = module->getAttr(targetAttr))
    outlined->setAttr(targetAttr, target);
  auto reference = FlatSymbolRefAttr::get(&getContext(), executable);
  Operation *last = outlined;
  SmallVector<func::FuncOp> kernels(used.begin(), used.end());
  for (auto [ordinal, kernel] : llvm::enumerate(kernels)) {
    auto source = kernel->getAttrOfType<StringAttr>(kSourceOpAttr);
    b.setInsertionPointAfter(last); // Not before the next op: that may be a kernel, which leaves.
    LaunchAttr launch = getLaunch(kernel);
    last = ExecKernelOp::create(b, kernel.getLoc(), kernel.getSymNameAttr(), reference, b.getI64IntegerAttr(ordinal),
                                source ? source : b.getStringAttr(""), b.getI64IntegerAttr(0), launch);
    if (DenseI64ArrayAttr product = launch ? getLibraryProduct(kernel) : nullptr)
      last->setAttr(kProductAttr, product);
    kernel->remove();
    outlined.push_back(kernel);
    kernel.setPublic();
  }
  for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (function->hasAttr(kKernelAttr))
      function.erase();
}
