//===- DedupKernels.cpp - merge equal kernels -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/Program/Dispatches.h"
#include "lib/Transforms/Program/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_DEDUPKERNELS
#include "lib/Transforms/Program/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

/// Everything of a function but its name and body.
static DictionaryAttr getAttributesButName(func::FuncOp function) {
  NamedAttrList attrs(function->getAttrDictionary());
  attrs.erase(SymbolTable::getSymbolAttrName());
  return attrs.getDictionary(function.getContext());
}

static bool haveEqualBodies(func::FuncOp lhs, func::FuncOp rhs) {
  return OperationEquivalence::isRegionEquivalentTo(&lhs.getBody(), &rhs.getBody(),
                                                    OperationEquivalence::IgnoreLocations);
}

namespace {
struct DedupKernelsPass : k3::impl::DedupKernelsBase<DedupKernelsPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::MapVector<Attribute, SmallVector<func::FuncOp>> kernels;
    llvm::DenseMap<Attribute, FlatSymbolRefAttr> replacements;
    for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
      if (!function->hasAttr(kKernelAttr))
        continue;
      SmallVector<func::FuncOp> &alike = kernels[getAttributesButName(function)];
      auto *twin = llvm::find_if(alike, [&](func::FuncOp other) { return haveEqualBodies(function, other); });
      if (twin == alike.end()) {
        alike.push_back(function);
        continue;
      }
      replacements[FlatSymbolRefAttr::get(function)] = FlatSymbolRefAttr::get(*twin);
      function.erase();
    }
    module.walk([&](func::CallOp call) {
      if (auto it = replacements.find(call.getCalleeAttr()); it != replacements.end())
        call.setCalleeAttr(it->second);
    });
  }
};
} // namespace
