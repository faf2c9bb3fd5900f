//===- Dispatches.cpp - kernels and the calls of them -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/Program/Dispatches.h"
#include "dialects/k3/IR/ModelAttrs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::k3;

SmallVector<func::FuncOp> k3::getPhaseFunctions(ModuleOp module) {
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(kPhaseAttr) && !function->hasAttr(kKernelAttr) && !function.isExternal())
      functions.push_back(function);
  return functions;
}

FailureOr<StructuredOpInterface> k3::getRootOp(func::FuncOp kernel) {
  StructuredOpInterface root;
  WalkResult result = kernel.walk([&](StructuredOpInterface op) {
    if (root)
      return op.emitOpError("is the second structured op of a kernel"), WalkResult::interrupt();
    root = op;
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  if (!root)
    return kernel.emitError("expected a kernel to hold a structured op"), failure();
  return root;
}

Value k3::getBuffer(Value tensor) {
  while (auto call = tensor.getDefiningOp<func::CallOp>())
    tensor = call.getOperand(call.getNumOperands() - call.getNumResults() + cast<OpResult>(tensor).getResultNumber());
  return tensor;
}

/// Inputs, scalars, destinations; one result per destination.
static LogicalResult verifyKernel(func::FuncOp kernel) {
  if (!kernel.isPrivate())
    return kernel.emitError("expected a kernel to be private");
  if (kernel.isExternal())
    return kernel.emitError("expected a kernel to have a body");
  unsigned numResults = kernel.getNumResults(), numArguments = kernel.getNumArguments();
  if (numResults == 0 || numResults > numArguments)
    return kernel.emitError() << "expected a kernel to have a result per destination, got " << numResults;
  for (unsigned i = 0; i < numResults; ++i)
    if (kernel.getResultTypes()[i] != kernel.getArgumentTypes()[numArguments - numResults + i])
      return kernel.emitError() << "expected result #" << i << " to have the type of its destination";
  bool scalars = false;
  for (unsigned i = 0; i < numArguments; ++i) {
    Type type = kernel.getArgumentTypes()[i];
    bool isTensor = isa<RankedTensorType>(type);
    if (!isTensor && !type.isIndex())
      return kernel.emitError() << "expected arguments of a kernel to be tensors or index values, got " << type;
    scalars |= !isTensor;
    if (isTensor && scalars && i < numArguments - numResults)
      return kernel.emitError("expected the scalars of a kernel between its inputs and its destinations");
    if (!isTensor && i >= numArguments - numResults)
      return kernel.emitError("expected the destinations of a kernel to be its last arguments");
  }
  return getRootOp(kernel);
}

/// Index arithmetic on sizes.
static bool isSizeOp(Operation &op) {
  return isa<tensor::DimOp, arith::ConstantOp>(op) ||
         (isa_and_present<arith::ArithDialect>(op.getDialect()) && isMemoryEffectFree(&op) &&
          llvm::all_of(op.getResultTypes(), [](Type type) { return type.isIndex(); }));
}

/// `operand` is passed as a destination; nothing may see the tensor afterwards but the results of the call.
static LogicalResult verifyDestination(func::CallOp call, OpOperand &operand) {
  Value tensor = operand.get();
  if (auto argument = dyn_cast<BlockArgument>(tensor)) {
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    for (StringRef name : {StringRef(kWeightAttr), StringRef(kInputAttr)})
      if (Attribute role = function.getArgAttr(argument.getArgNumber(), name))
        return call.emitOpError() << "overwrites its operand #" << operand.getOperandNumber() << ", the " << name << " "
                                  << role;
  }
  // Every use of tensor.empty is a buffer of its own.
  if (tensor.getDefiningOp<tensor::EmptyOp>())
    return success();
  for (OpOperand &use : tensor.getUses()) {
    Operation *user = use.getOwner();
    if (&use == &operand || isa<tensor::DimOp>(user) || (user != call && user->isBeforeInBlock(call)))
      continue;
    InFlightDiagnostic error = call.emitOpError() << "overwrites its operand #" << operand.getOperandNumber()
                                                  << ", which is still used afterwards: that would take a copy";
    error.attachNote(user->getLoc()) << "used here";
    return error;
  }
  return success();
}

static LogicalResult verifyCall(func::CallOp call, SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  if (!kernel || !kernel->hasAttr(kKernelAttr))
    return call.emitOpError() << "expected " << call.getCalleeAttr() << " to be a kernel";
  for (OpOperand &operand : call->getOpOperands()) {
    if (isDestination(call, operand.getOperandNumber())) {
      if (failed(verifyDestination(call, operand)))
        return failure();
    } else if (operand.get().getDefiningOp<tensor::EmptyOp>()) {
      return call.emitOpError() << "reads its operand #" << operand.getOperandNumber() << ", which was never written";
    }
  }
  return success();
}

/// Results are the arguments that a step keeps, in argument order.
static LogicalResult verifyResults(func::FuncOp function) {
  Operation *terminator = function.getBody().front().getTerminator();
  unsigned next = 0;
  for (auto [index, result] : llvm::enumerate(terminator->getOperands())) {
    auto argument = dyn_cast<BlockArgument>(getBuffer(result));
    if (!argument)
      return function.emitError() << "expected result #" << index << " to update an argument in place";
    auto has = [&](StringRef name) { return function.getArgAttr(argument.getArgNumber(), name) != nullptr; };
    if (!has(kBufferAttr) && !has(kStateAttr) && !has(kOutputAttr))
      return function.emitError() << "expected result #" << index << " to update a state, a buffer or an output, got "
                                  << "argument #" << argument.getArgNumber();
    if (argument.getArgNumber() < next)
      return function.emitError("expected results in argument order");
    next = argument.getArgNumber() + 1;
  }
  return success();
}

LogicalResult k3::verifyDispatches(ModuleOp module) {
  SymbolTableCollection symbols;
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(kKernelAttr) && failed(verifyKernel(function)))
      return failure();
  for (func::FuncOp function : getPhaseFunctions(module)) {
    if (!function.getBody().hasOneBlock())
      return function.emitError("expected a layer function to be one block");
    for (Operation &op : function.getBody().front()) {
      if (isSizeOp(op) || isa<tensor::EmptyOp, func::ReturnOp>(op))
        continue;
      auto call = dyn_cast<func::CallOp>(op);
      if (!call)
        return op.emitOpError("is not expected in a layer function of calls");
      if (failed(verifyCall(call, symbols)))
        return failure();
    }
    if (failed(verifyResults(function)))
      return failure();
  }
  return success();
}
