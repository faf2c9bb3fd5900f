//===- BufferizeKernels.cpp - kernels on tensors to kernels on memrefs -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Common/Kernels.h"
#include "lib/Codegen/Common/Passes.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/Transforms/Bufferize.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_K3BUFFERIZEKERNELS
#include "lib/Codegen/Common/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

/// The arguments that a kernel writes: its results are its last tensor arguments, in order.
static FailureOr<SmallVector<BlockArgument>> getDestinations(func::FuncOp func) {
  SmallVector<BlockArgument> tensors;
  for (BlockArgument argument : func.getArguments())
    if (isa<RankedTensorType>(argument.getType()))
      tensors.push_back(argument);
  unsigned results = func.getNumResults();
  if (results > tensors.size())
    return func.emitOpError() << "expected a destination argument for each of its " << results << " results, got "
                              << tensors.size() << " tensor arguments";
  SmallVector<BlockArgument> destinations(tensors.end() - results, tensors.end());
  for (auto [argument, type] : llvm::zip_equal(destinations, func.getResultTypes()))
    if (argument.getType() != type)
      return func.emitOpError() << "expected argument " << argument.getArgNumber() << " to be the destination of a "
                                << type << ", got " << argument.getType();
  return destinations;
}

/// The argument whose buffer holds `tensor`: through slices, updates and loops back to the function's to_tensor.
static Value getViewedTensorArgument(Value tensor) {
  while (true) {
    if (auto argument = dyn_cast<BlockArgument>(tensor)) {
      auto loop = dyn_cast<LoopLikeOpInterface>(argument.getOwner()->getParentOp());
      OpOperand *init = loop ? loop.getTiedLoopInit(argument) : nullptr;
      if (!init)
        return {};
      tensor = init->get();
      continue;
    }
    auto result = cast<OpResult>(tensor);
    Operation *op = result.getOwner();
    if (isa<bufferization::ToTensorOp>(op))
      return op->getOperand(0);
    if (auto loop = dyn_cast<LoopLikeOpInterface>(op)) {
      OpOperand *init = loop.getTiedLoopInit(result);
      if (!init)
        return {};
      tensor = init->get();
    } else if (auto dps = dyn_cast<DestinationStyleOpInterface>(op)) { // insert_slice is one too
      tensor = dps.getTiedOpOperand(result)->get();
    } else if (isa<tensor::ExtractSliceOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp>(op)) {
      tensor = op->getOperand(0);
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      Value yes = getViewedTensorArgument(branch.thenYield().getOperand(result.getResultNumber()));
      return yes ? yes : getViewedTensorArgument(branch.elseYield().getOperand(result.getResultNumber()));
    } else {
      return {};
    }
  }
}

/// Conflicts of the analysis have become explicit copies. A temporary may be copied, an argument may not: that would be
/// an update that does not happen in place.
static LogicalResult checkCopies(func::FuncOp func) {
  WalkResult result = func.walk([](bufferization::AllocTensorOp alloc) {
    if (!alloc.getCopy() || !getViewedTensorArgument(alloc.getCopy()))
      return WalkResult::advance();
    alloc.emitOpError("a kernel must update its destinations in place, but needs a copy of an argument");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

namespace {
struct BufferizeKernels : k3::impl::K3BufferizeKernelsBase<BufferizeKernels> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (isKernel(func) && failed(bufferize(func)))
      signalPassFailure();
  }

  LogicalResult bufferize(func::FuncOp func) {
    FailureOr<SmallVector<BlockArgument>> destinations = getDestinations(func);
    if (failed(destinations))
      return failure();
    if (!func.getBody().hasOneBlock())
      return func.emitOpError("expected a kernel of one block");

    // Arguments become memrefs that nothing else aliases; only destinations may be written.
    OpBuilder b = OpBuilder::atBlockBegin(&func.getBody().front());
    for (BlockArgument argument : func.getArguments()) {
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      if (!type)
        continue;
      argument.setType(MemRefType::get(type.getShape(), type.getElementType()));
      auto tensor = bufferization::ToTensorOp::create(b, argument.getLoc(), type, argument, /*restrict=*/true,
                                                      /*writable=*/llvm::is_contained(*destinations, argument));
      argument.replaceAllUsesExcept(tensor, tensor);
    }

    bufferization::OneShotBufferizationOptions options;
    options.allowUnknownOps = true; // func.return
    options.bufferAlignment = 64;
    bufferization::BufferizationState state;
    if (failed(bufferization::insertTensorCopies(func, options, state)) || failed(checkCopies(func)) ||
        failed(bufferization::bufferizeOp(func, options, state)))
      return failure();

    // What is returned must be the destination itself.
    auto ret = cast<func::ReturnOp>(func.getBody().front().getTerminator());
    for (auto [value, destination] : llvm::zip_equal(ret.getOperands(), *destinations)) {
      auto tensor = value.getDefiningOp<bufferization::ToTensorOp>();
      if (!tensor || getViewedArgument(tensor.getBuffer()) != destination)
        return ret.emitOpError() << "result " << destination.getArgNumber() - destinations->front().getArgNumber()
                                 << " is not computed in place in its destination";
    }
    SmallVector<Value> returned(ret.getOperands());
    ret->setOperands({});
    for (Value value : returned)
      if (value.use_empty())
        value.getDefiningOp()->erase();
    func.setFunctionType(FunctionType::get(func.getContext(), func.getBody().getArgumentTypes(), {}));
    func.setAllResultAttrs(ArrayRef<Attribute>());

    WalkResult tensors = func.walk([&](Operation *op) {
      auto isTensor = [](Type type) { return isa<TensorType>(type); };
      if (llvm::none_of(op->getResultTypes(), isTensor))
        return WalkResult::advance();
      if (op->use_empty() && isMemoryEffectFree(op))
        return WalkResult::advance();
      op->emitOpError("was not bufferized");
      return WalkResult::interrupt();
    });
    return failure(tensors.wasInterrupted());
  }
};
} // namespace
