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
struct Temporary {
  memref::AllocOp alloc;
  int64_t bytes;
  size_t order;
  int64_t offset = 0;
};

struct PlaceTemporaries : k3::impl::K3PlaceTemporariesBase<PlaceTemporaries> {
  using Base::Base;
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (isKernel(func) && failed(place(func)))
      signalPassFailure();
  }

  LogicalResult place(func::FuncOp func) {
    replaceCopies(func);
    SmallVector<Temporary> all, ofDynamicSize, inScratch;
    WalkResult result = func.walk([&](memref::AllocOp alloc) {
      FailureOr<int64_t> bytes = getMaxBytes(alloc);
      if (failed(bytes) || !alloc.getType().getLayout().isIdentity())
        return WalkResult::interrupt();
      all.push_back({alloc, static_cast<int64_t>(llvm::alignTo(*bytes, alignment)), all.size()});
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return failure();

    llvm::sort(all, [](const Temporary &x, const Temporary &y) {
      return std::tie(x.bytes, x.order) < std::tie(y.bytes, y.order);
    });
    int64_t stackBytes = 0, dynamicBytes = 0, scratchBytes = 0;
    auto append = [](SmallVector<Temporary> &list, int64_t &total, Temporary temporary) {
      temporary.offset = total;
      total += temporary.bytes;
      list.push_back(temporary);
    };
    for (Temporary &temporary : all) {
      if (stackBytes + temporary.bytes > stackLimit) {
        append(inScratch, scratchBytes, temporary);
        continue;
      }
      stackBytes += temporary.bytes;
      if (!temporary.alloc.getType().hasStaticShape())
        append(ofDynamicSize, dynamicBytes, temporary);
      else // memory of its own, so that nothing else is mistaken for it
        replace(temporary.alloc, createAlloca(func, temporary.alloc.getType()));
    }

    Builder b(func.getContext());
    auto bytesType = [&](int64_t size) { return MemRefType::get({size}, b.getI8Type()); };
    if (dynamicBytes > 0)
      replaceByViews(ofDynamicSize, createAlloca(func, bytesType(dynamicBytes)));
    if (scratchBytes > 0) {
      unsigned position = func.getNumArguments();
      auto attributes = b.getDictionaryAttr(b.getNamedAttr(scratchAttrName, b.getUnitAttr()));
      if (failed(func.insertArgument(position, bytesType(scratchBytes), attributes, func.getLoc())))
        return failure();
      func->setAttr(scratchBytesAttrName, b.getI64IntegerAttr(scratchBytes));
      replaceByViews(inScratch, func.getArgument(position));
    }
    func.walk([](memref::DeallocOp dealloc) { dealloc.erase(); });
    return success();
  }

  static Value createAlloca(func::FuncOp func, MemRefType type) {
    OpBuilder b = OpBuilder::atBlockBegin(&func.getBody().front());
    return memref::AllocaOp::create(b, func.getLoc(), type, ValueRange(), b.getI64IntegerAttr(alignment));
  }

  static void replace(memref::AllocOp alloc, Value memory) {
    alloc.replaceAllUsesWith(memory);
    alloc.erase();
  }

  static void replaceByViews(ArrayRef<Temporary> temporaries, Value memory) {
    for (const Temporary &temporary : temporaries) {
      memref::AllocOp alloc = temporary.alloc;
      OpBuilder b(alloc);
      Value start = arith::ConstantIndexOp::create(b, alloc.getLoc(), temporary.offset);
      replace(alloc,
              memref::ViewOp::create(b, alloc.getLoc(), alloc.getType(), memory, start, alloc.getDynamicSizes()));
    }
  }
};
} // namespace
