//===- MaterializeStates.cpp - typed states -> pool tensors -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/ModelFunctions.h"
#include "lib/Transforms/Passes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_MATERIALIZESTATES
#include "lib/Transforms/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {

class Materializer {
public:
  explicit Materializer(func::FuncOp function)
      : function(function), terminator(function.getBody().front().getTerminator()), context(function.getContext()) {}

  LogicalResult run();

private:
  /// Every use of a typed value is a cast or the function's result.
  LogicalResult checkUses(BlockArgument argument);
  static LogicalResult emitTypedUse(OpOperand &use);
  void replaceState(unsigned index);
  void replaceSequences(unsigned index);
  /// States made in the body, as results and as operands of the next op.
  LogicalResult replaceNewStates();
  LogicalResult addOutputs();
  void insertArgument(unsigned index, Type type, DictionaryAttr attrs, Location loc) {
    // Cannot fail: a function type takes any argument.
    (void)function.insertArgument(index, type, attrs, loc);
  }

  func::FuncOp function;
  Operation *terminator;
  MLIRContext *context;
};

struct MaterializeStatesPass : k3::impl::MaterializeStatesBase<MaterializeStatesPass> {
  void runOnOperation() override {
    if (!getOperation().isExternal() && failed(Materializer(getOperation()).run()))
      signalPassFailure();
  }
};

} // namespace

LogicalResult Materializer::emitTypedUse(OpOperand &use) {
  return use.getOwner()->emitOpError() << "expected k3-expand-model-ops to have replaced every use of "
                                       << use.get().getType() << ", got operand #" << use.getOperandNumber();
}

LogicalResult Materializer::checkUses(BlockArgument argument) {
  for (OpOperand &use : argument.getUses())
    if (!isa<UnrealizedConversionCastOp>(use.getOwner()) && use.getOwner() != terminator)
      return emitTypedUse(use);
  return success();
}

void Materializer::replaceState(unsigned index) {
  BlockArgument state = function.getArgument(index);
  Type type = state.getType();
  NamedAttrList attrs(function.getArgAttrDict(index));
  attrs.set(kDimsAttr, Builder(context).getStrArrayAttr({getPoolDim(type)}));
  insertArgument(index + 1, getPoolType(type), attrs.getDictionary(context), state.getLoc());
  Value pool = function.getArgument(index + 1);
  for (Operation *user : llvm::make_early_inc_range(state.getUsers())) {
    if (user == terminator) {
      user->replaceUsesOfWith(state, pool);
      continue;
    }
    user->getResult(0).replaceAllUsesWith(pool);
    user->erase();
  }
  // Cannot fail either.
  (void)function.eraseArgument(index);
}

void Materializer::replaceSequences(unsigned index) {
  BlockArgument sequences = function.getArgument(index);
  // Casts have one result for each of the first inputs after the tokens.
  ArrayRef<llvm::StringLiteral> names = getStepInputNames().slice(1, 4);
  unsigned next = index + 1;
  for (auto [position, name] : llvm::enumerate(names)) {
    Value input;
    for (Operation *user : sequences.getUsers()) {
      OpResult result = user->getResult(position);
      if (result.use_empty())
        continue;
      if (!input) {
        insertArgument(next, getStepInputType(context, name), getStepInputAttrs(context, name),
                       NameLoc::get(StringAttr::get(context, name)));
        input = function.getArgument(next++);
      }
      result.replaceAllUsesWith(input);
    }
  }
  for (Operation *user : llvm::make_early_inc_range(sequences.getUsers()))
    user->erase();
  (void)function.eraseArgument(index);
}

LogicalResult Materializer::replaceNewStates() {
  auto isToState = [](UnrealizedConversionCastOp cast) {
    return cast.getNumOperands() == 1 && getPoolType(cast.getResult(0).getType()) == cast.getOperand(0).getType();
  };
  SmallVector<UnrealizedConversionCastOp> casts;
  function.walk([&](UnrealizedConversionCastOp cast) {
    if (isToState(cast))
      casts.push_back(cast);
  });
  for (UnrealizedConversionCastOp cast : casts) {
    Value pool = cast.getOperand(0);
    for (OpOperand &use : llvm::make_early_inc_range(cast.getResult(0).getUses())) {
      if (use.getOwner() == terminator) {
        use.set(pool);
        continue;
      }
      auto back = dyn_cast<UnrealizedConversionCastOp>(use.getOwner());
      if (!back || back.getResult(0).getType() != pool.getType())
        return emitTypedUse(use);
      back.getResult(0).replaceAllUsesWith(pool);
      back.erase();
    }
    cast.erase();
  }
  return success();
}

LogicalResult Materializer::addOutputs() {
  for (unsigned i = 0, e = function.getNumResults(); i < e; ++i) {
    auto name = function.getResultAttrOfType<StringAttr>(i, kOutputAttr);
    if (!name)
      continue;
    auto made = terminator->getOperand(i).getDefiningOp<DestinationStyleOpInterface>();
    auto destination =
        made ? made.getTiedOpOperand(cast<OpResult>(terminator->getOperand(i)))->get().getDefiningOp<tensor::EmptyOp>()
             : tensor::EmptyOp();
    if (!destination)
      return function.emitError() << "expected output '" << name.getValue()
                                  << "' to be made by an op with a new destination";
    unsigned position = function.getNumArguments();
    insertArgument(position, destination.getType(), function.getResultAttrDict(i), NameLoc::get(name));
    destination.replaceAllUsesWith(function.getArgument(position));
    function.setResultAttrs(i, DictionaryAttr::get(context));
  }
  return success();
}

LogicalResult Materializer::run() {
  for (BlockArgument argument : function.getArguments())
    if ((getPoolType(argument.getType()) || isa<SeqType>(argument.getType())) && failed(checkUses(argument)))
      return failure();
  if (failed(replaceNewStates()))
    return failure();
  for (unsigned i = function.getNumArguments(); i-- > 0;) {
    if (getPoolType(function.getArgument(i).getType()))
      replaceState(i);
    else if (isa<SeqType>(function.getArgument(i).getType()))
      replaceSequences(i);
  }
  function.setFunctionType(
      FunctionType::get(context, function.getArgumentTypes(), llvm::to_vector(terminator->getOperandTypes())));
  if (failed(addOutputs()))
    return failure();
  eraseDeadOps(function);
  return success();
}
