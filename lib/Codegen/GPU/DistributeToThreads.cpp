//===- DistributeToThreads.cpp - decomposed kernels on blocks and threads -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/GenericKernels.h"
#include "lib/Codegen/GPU/Passes.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_K3GPUDISTRIBUTETOTHREADS
#include "lib/Codegen/GPU/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

//===----------------------------------------------------------------------===//
// One linalg op
//===----------------------------------------------------------------------===//

namespace {
/// Writes a linalg op on memrefs as a loop over threads.
class LinalgLoops {
public:
  LinalgLoops(const GpuBuilder &g, linalg::LinalgOp op)
      : g(g), op(op), sizes(op.createLoopRanges(g.b, g.loc)), indices(op.getNumLoops()) {}

  LogicalResult emit() {
    SmallVector<Value> parallelSizes;
    for (auto [loop, kind] : llvm::enumerate(op.getIteratorTypesArray())) {
      if (kind != utils::IteratorType::parallel) {
        reductions.push_back(loop);
        continue;
      }
      parallel.push_back(loop);
      parallelSizes.push_back(size(loop));
    }
    for (OpOperand &init : op.getDpsInitsMutable())
      for (unsigned loop : reductions)
        if (op.getMatchingIndexingMap(&init).isFunctionOfDim(loop))
          return op->emitOpError("expected results that do not depend on its reductions");
    Value count = g.toIndex(g.i32(1));
    for (Value factor : parallelSizes)
      count = g.mul(count, factor);
    g.loop(g.toIndex(g.threadId()), count, index(g.threads()), [&](Value flat) {
      SmallVector<Value> positions = delinearize(flat, parallelSizes);
      for (auto [loop, position] : llvm::zip_equal(parallel, positions))
        indices[loop] = position;
      emitReductions();
    });
    return success();
  }

private:
  Value index(int64_t value) { return arith::ConstantIndexOp::create(g.b, g.loc, value); }
  Value size(unsigned loop) { return getValueOrCreateConstantIndexOp(g.b, g.loc, sizes[loop].size); }

  /// Row-major: the last loop is the fastest.
  SmallVector<Value> delinearize(Value flat, ArrayRef<Value> sizes) {
    SmallVector<Value> positions(sizes.size());
    for (size_t dim = sizes.size(); dim-- > 0;) {
      positions[dim] = dim == 0 ? flat : g.rem(flat, sizes[dim]);
      if (dim > 0)
        flat = g.div(flat, sizes[dim]);
    }
    return positions;
  }

  SmallVector<Value> getElement(OpOperand &operand) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    SmallVector<OpFoldResult> dims(indices.begin(), indices.end());
    SmallVector<Value> at;
    for (AffineExpr result : map.getResults()) {
      OpFoldResult position = affine::makeComposedFoldedAffineApply(
          g.b, g.loc, AffineMap::get(map.getNumDims(), map.getNumSymbols(), result), dims);
      at.push_back(getValueOrCreateConstantIndexOp(g.b, g.loc, position));
    }
    return at;
  }

  Value read(OpOperand &operand) {
    if (!isa<MemRefType>(operand.get().getType()))
      return operand.get();
    return memref::LoadOp::create(g.b, g.loc, operand.get(), getElement(operand));
  }

  /// The results of one element: the sequential loops, in registers.
  void emitReductions() {
    SmallVector<Value> values;
    for (OpOperand &init : op.getDpsInitsMutable())
      if (op.payloadUsesValueFromOperand(&init))
        values.push_back(read(init));
      else
        values.push_back(arith::ConstantOp::create(
            g.b, g.loc, g.b.getZeroAttr(cast<MemRefType>(init.get().getType()).getElementType())));
    values = emitReduction(0, values);
    for (auto [init, value] : llvm::zip_equal(op.getDpsInitsMutable(), values))
      memref::StoreOp::create(g.b, g.loc, value, init.get(), getElement(init));
  }

  SmallVector<Value> emitReduction(unsigned depth, ValueRange values) {
    if (depth == reductions.size())
      return emitBody(values);
    unsigned loop = reductions[depth];
    return g.loop(index(0), size(loop), index(1), values, [&](Value iv, ValueRange carried) {
      indices[loop] = iv;
      return emitReduction(depth + 1, carried);
    });
  }

  SmallVector<Value> emitBody(ValueRange carried) {
    Block &body = op->getRegion(0).front();
    IRMapping mapping;
    for (OpOperand *input : op.getDpsInputOperands())
      mapping.map(op.getMatchingBlockArgument(input), read(*input));
    for (auto [init, value] : llvm::zip_equal(op.getDpsInitsMutable(), carried))
      mapping.map(op.getMatchingBlockArgument(&init), value);
    for (Operation &inner : body.without_terminator()) {
      if (auto position = dyn_cast<linalg::IndexOp>(inner))
        mapping.map(position.getResult(), indices[position.getDim()]);
      else
        g.b.clone(inner, mapping);
    }
    SmallVector<Value> results;
    for (Value result : body.getTerminator()->getOperands())
      results.push_back(mapping.lookupOrDefault(result));
    return results;
  }

  const GpuBuilder &g;
  linalg::LinalgOp op;
  SmallVector<Range, 4> sizes;
  SmallVector<Value> indices; ///< of the loops that are open
  SmallVector<unsigned> parallel, reductions;
};
} // namespace

//===----------------------------------------------------------------------===//
// Grid and barriers
//===----------------------------------------------------------------------===//

/// The loop over the grid becomes what one block does of it.
static LogicalResult replaceGrid(func::FuncOp func, const GpuTarget &target) {
  SmallVector<scf::ForallOp> grids(func.getBody().getOps<scf::ForallOp>());
  if (grids.size() > 1)
    return func.emitOpError() << "expected at most one loop over the grid, got " << grids.size();
  if (grids.empty())
    return success();
  scf::ForallOp grid = grids.front();
  IRRewriter rewriter(func.getContext());
  rewriter.setInsertionPoint(grid);
  GpuBuilder g(rewriter, grid.getLoc(), target, getGenericConfig(func));
  SmallVector<Value> positions;
  Value inside = g.boolean(true);
  for (auto [mapping, low, high, step] :
       llvm::zip_equal(grid.getMapping().value_or(ArrayAttr::get(func.getContext(), {})), grid.getLowerBound(rewriter),
                       grid.getUpperBound(rewriter), grid.getStep(rewriter))) {
    auto block = dyn_cast<gpu::GPUBlockMappingAttr>(mapping);
    if (!block)
      return grid.emitOpError("expected a loop over the grid");
    Value position = g.add(g.mul(g.toIndex(g.blockId(block.getMappingId())), step), low);
    positions.push_back(position);
    // A grid has at least one block, also of nothing.
    inside = g.logicalAnd(inside, g.lt(position, high));
  }
  auto branch = scf::IfOp::create(rewriter, grid.getLoc(), inside, /*withElseRegion=*/false);
  rewriter.eraseOp(grid.getTerminator());
  rewriter.inlineBlockBefore(grid.getBody(), branch.thenBlock()->getTerminator(), positions);
  rewriter.eraseOp(grid);
  return success();
}

/// A barrier right behind another one says nothing.
static void removeSecondBarriers(func::FuncOp func) {
  func.walk([](NVVM::Barrier0Op barrier) {
    for (Operation *op = barrier->getPrevNode(); op; op = op->getPrevNode()) {
      if (isa<NVVM::Barrier0Op>(op)) {
        barrier.erase();
        return;
      }
      if (!isMemoryEffectFree(op))
        return;
    }
  });
}

namespace {
struct DistributeToThreads : k3::impl::K3GpuDistributeToThreadsBase<DistributeToThreads> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (isGenericKernel(func) && failed(distribute(func)))
      signalPassFailure();
  }

  static LogicalResult distribute(func::FuncOp func) {
    FailureOr<GpuTarget> target = getGpuTarget(func);
    if (failed(target) || failed(replaceGrid(func, *target)))
      return failure();
    SmallVector<Operation *> writers;
    WalkResult result = func.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<scf::ForallOp, scf::ParallelOp>(op)) {
        op->emitOpError("expected no parallel loop but that over the grid");
        return WalkResult::interrupt();
      }
      if (isa<linalg::LinalgOp, memref::StoreOp>(op)) {
        writers.push_back(op);
        return WalkResult::skip();
      }
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return failure();
    for (Operation *op : writers) {
      OpBuilder b(op);
      GpuBuilder g(b, op->getLoc(), *target, getGenericConfig(func));
      // What others still read must not change, and what was written must be there before they go on.
      g.barrier();
      b.setInsertionPointAfter(op);
      g.barrier();
      b.setInsertionPoint(op->getNextNode());
      if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op)) {
        if (failed(LinalgLoops(g, linalgOp).emit()))
          return failure();
        op->erase();
      } else {
        g.ifFirstThread([&] { op->moveBefore(b.getInsertionBlock(), b.getInsertionPoint()); });
      }
    }
    removeSecondBarriers(func);
    return success();
  }
};
} // namespace
