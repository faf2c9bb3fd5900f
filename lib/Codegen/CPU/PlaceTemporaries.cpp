//===- PlaceTemporaries.cpp - memory for what a kernel keeps between its loops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Common/Kernels.h"
#include "lib/Codegen/Common/Temporaries.h"
#include "lib/Codegen/CPU/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_K3PLACETEMPORARIES
#include "lib/Codegen/CPU/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

static constexpr int64_t alignment = 64;

namespace {
struct PlaceTemporaries : k3::impl::K3PlaceTemporariesBase<PlaceTemporaries> {
  using Base::Base;
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (isKernel(func) && failed(place(func)))
      signalPassFailure();
  }

  LogicalResult place(func::FuncOp func) {
    replaceCopies(func);
    SmallVector<std::pair<memref::AllocOp, int64_t>> onStack, inScratch;
    int64_t stackBytes = 0, scratchBytes = 0;
    WalkResult result = func.walk([&](memref::AllocOp alloc) {
      FailureOr<int64_t> bytes = getMaxBytes(alloc);
      if (failed(bytes) || !alloc.getType().getLayout().isIdentity())
        return WalkResult::interrupt();
      int64_t aligned = llvm::alignTo(*bytes, alignment);
      if (stackBytes + aligned <= stackLimit) {
        onStack.push_back({alloc, stackBytes});
        stackBytes += aligned;
      } else {
        inScratch.push_back({alloc, scratchBytes});
        scratchBytes += aligned;
      }
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return failure();

    OpBuilder b = OpBuilder::atBlockBegin(&func.getBody().front());
    auto bytesType = [&](int64_t size) { return MemRefType::get({size}, b.getI8Type()); };
    if (stackBytes > 0) {
      Value stack = memref::AllocaOp::create(b, func.getLoc(), bytesType(stackBytes), ValueRange(),
                                             b.getI64IntegerAttr(alignment));
      replaceAllocations(onStack, stack);
    }
    if (scratchBytes > 0) {
      unsigned position = func.getNumArguments();
      auto attributes = b.getDictionaryAttr(b.getNamedAttr(scratchAttrName, b.getUnitAttr()));
      if (failed(func.insertArgument(position, bytesType(scratchBytes), attributes, func.getLoc())))
        return failure();
      func->setAttr(scratchBytesAttrName, b.getI64IntegerAttr(scratchBytes));
      replaceAllocations(inScratch, func.getArgument(position));
    }
    func.walk([](memref::DeallocOp dealloc) { dealloc.erase(); });
    return success();
  }

  static void replaceAllocations(ArrayRef<std::pair<memref::AllocOp, int64_t>> allocations, Value memory) {
    for (auto [alloc, offset] : allocations) {
      OpBuilder b(alloc);
      Value start = arith::ConstantIndexOp::create(b, alloc.getLoc(), offset);
      Value view = memref::ViewOp::create(b, alloc.getLoc(), alloc.getType(), memory, start, alloc.getDynamicSizes());
      alloc.replaceAllUsesWith(view);
      alloc.erase();
    }
  }
};
} // namespace
