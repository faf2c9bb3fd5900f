//===- BufferizeKernels.cpp - kernels on tensors to kernels on memrefs -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/CPU/Kernels.h"
#include "lib/Codegen/CPU/Passes.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_K3BUFFERIZEKERNELS
#include "lib/Codegen/CPU/Passes.h.inc"
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
    if (failed(bufferization::runOneShotBufferize(func, options, state)))
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
