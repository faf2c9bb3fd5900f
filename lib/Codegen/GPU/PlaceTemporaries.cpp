//===- PlaceTemporaries.cpp - what decomposed kernels keep, in shared memory -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Common/Temporaries.h"
#include "lib/Codegen/GPU/GenericKernels.h"
#include "lib/Codegen/GPU/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_K3GPUPLACETEMPORARIES
#include "lib/Codegen/GPU/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

static constexpr int64_t alignment = 16;

namespace {

/// An allocation with its place and the ops, by number, between which it is in use.
struct Temporary {
  memref::AllocOp alloc;
  int64_t bytes = 0, offset = 0;
  unsigned first = 0, last = 0;

  bool livesWith(const Temporary &other) const { return first <= other.last && other.first <= last; }
};

/// Numbers of a function's ops: an op's own and the largest inside of it.
class OpNumbers {
public:
  explicit OpNumbers(func::FuncOp func) {
    func.walk<WalkOrder::PreOrder>([&](Operation *op) { firsts[op] = next++; });
    func.walk<WalkOrder::PostOrder>([&](Operation *op) {
      unsigned last = firsts[op];
      for (Region &region : op->getRegions())
        for (Operation &inner : region.getOps())
          last = std::max(last, lasts[&inner]);
      lasts[op] = last;
    });
  }
  unsigned getFirst(Operation *op) const { return firsts.lookup(op); }
  unsigned getLast(Operation *op) const { return lasts.lookup(op); }

private:
  unsigned next = 0;
  DenseMap<Operation *, unsigned> firsts, lasts;
};

} // namespace

/// All ops that use `buffer` or a view of it.
static void collectUsers(Value buffer, llvm::SmallPtrSetImpl<Operation *> &users, DenseSet<Value> &seen) {
  if (!seen.insert(buffer).second)
    return;
  for (OpOperand &use : buffer.getUses()) {
    Operation *user = use.getOwner();
    users.insert(user);
    auto follow = [&](Value value) {
      if (isa<BaseMemRefType>(value.getType()))
        collectUsers(value, users, seen);
    };
    for (Value result : user->getResults())
      follow(result);
    if (auto loop = dyn_cast<LoopLikeOpInterface>(user))
      if (BlockArgument inside = loop.getTiedLoopRegionIterArg(&use))
        follow(inside);
    if (isa<scf::YieldOp>(user))
      for (Value result : user->getParentOp()->getResults())
        follow(result);
  }
}

/// Lowest place at which nothing lies that lives at the same time.
static int64_t findPlace(const Temporary &temporary, ArrayRef<Temporary> placed) {
  SmallVector<std::pair<int64_t, int64_t>> taken;
  for (const Temporary &other : placed)
    if (other.livesWith(temporary))
      taken.push_back({other.offset, other.offset + other.bytes});
  llvm::sort(taken);
  int64_t offset = 0;
  for (auto [begin, end] : taken)
    if (begin < offset + temporary.bytes)
      offset = std::max(offset, end);
  return offset;
}

namespace {
struct PlaceTemporaries : k3::impl::K3GpuPlaceTemporariesBase<PlaceTemporaries> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (isGenericKernel(func) && failed(place(func)))
      signalPassFailure();
  }

  static LogicalResult place(func::FuncOp func) {
    FailureOr<GpuTarget> target = getGpuTarget(func);
    if (failed(target))
      return failure();
    replaceCopies(func);
    func.walk([](memref::DeallocOp dealloc) { dealloc.erase(); });
    FailureOr<SmallVector<Temporary>> temporaries = collect(func);
    if (failed(temporaries))
      return failure();
    // Large ones first: small ones fit between them.
    llvm::sort(*temporaries, [](const Temporary &a, const Temporary &b) {
      return std::tuple(-a.bytes, a.first) < std::tuple(-b.bytes, b.first);
    });
    int64_t total = 0;
    for (size_t i = 0; i < temporaries->size(); ++i) {
      Temporary &temporary = (*temporaries)[i];
      temporary.offset = findPlace(temporary, ArrayRef<Temporary>(*temporaries).take_front(i));
      total = std::max(total, temporary.offset + temporary.bytes);
    }
    if (total > target->sharedBytesPerBlock)
      return func.emitOpError() << "needs " << total << " bytes of shared memory for its temporaries, and a block has "
                                << target->sharedBytesPerBlock;
    for (const Temporary &temporary : *temporaries)
      replace(func, temporary, *target);
    func->setAttr(sharedBytesAttrName, OpBuilder(func).getI64IntegerAttr(total));
    return success();
  }

  static FailureOr<SmallVector<Temporary>> collect(func::FuncOp func) {
    OpNumbers numbers(func);
    SmallVector<Temporary> temporaries;
    WalkResult result = func.walk([&](memref::AllocOp alloc) {
      FailureOr<int64_t> bytes = getMaxBytes(alloc);
      if (failed(bytes) || !alloc.getType().getLayout().isIdentity())
        return WalkResult::interrupt();
      Temporary temporary;
      temporary.alloc = alloc;
      temporary.bytes = llvm::alignTo(*bytes, alignment);
      temporary.first = temporary.last = numbers.getFirst(alloc);
      llvm::SmallPtrSet<Operation *, 16> users;
      DenseSet<Value> seen;
      collectUsers(alloc, users, seen);
      // A use inside a loop lasts as long as the loop.
      for (Operation *user : users)
        if (Operation *ancestor = alloc->getBlock()->findAncestorOpInBlock(*user))
          temporary.last = std::max(temporary.last, numbers.getLast(ancestor));
      temporaries.push_back(temporary);
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return failure();
    return temporaries;
  }

  static void replace(func::FuncOp func, const Temporary &temporary, const GpuTarget &target) {
    memref::AllocOp alloc = temporary.alloc;
    OpBuilder b(alloc);
    GpuBuilder g(b, alloc.getLoc(), target, getGenericConfig(func));
    Value bytes = viewPointer(g, g.shared(temporary.offset), MemRefType::get({temporary.bytes}, g.i8()));
    Value start = arith::ConstantIndexOp::create(b, alloc.getLoc(), 0);
    Value view = memref::ViewOp::create(b, alloc.getLoc(), alloc.getType(), bytes, start, alloc.getDynamicSizes());
    alloc.replaceAllUsesWith(view);
    alloc.erase();
  }
};
} // namespace
