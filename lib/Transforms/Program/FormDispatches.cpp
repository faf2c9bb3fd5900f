//===- FormDispatches.cpp - outline one kernel per structured op -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/ModelAttrs.h"
#include "lib/Transforms/Program/DimTerms.h"
#include "lib/Transforms/Program/Dispatches.h"
#include "lib/Transforms/Program/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_FORMDISPATCHES
#include "lib/Transforms/Program/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

/// Ops that only reinterpret their first operand.
static bool isView(Operation *op) {
  return isa_and_present<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ExtractSliceOp, tensor::CastOp>(op);
}

namespace {

/// How an operand of the root comes from a value of the caller: `views` applied to `base`, first one first.
struct Chain {
  explicit Chain(Value value) : base(value) {
    while (isView(base.getDefiningOp())) {
      views.insert(views.begin(), base.getDefiningOp());
      base = base.getDefiningOp()->getOperand(0);
    }
  }

  Value base;
  SmallVector<Operation *, 2> views;
};

/// Outlines one root op.
class Outliner {
public:
  /// `phase` is the kernel's, null if it does not carry one.
  Outliner(StructuredOpInterface root, DimTerms &terms, SymbolTable &symbols, Attribute phase)
      : root(root), dps(cast<DestinationStyleOpInterface>(root.getOperation())), terms(terms), symbols(symbols),
        phase(phase), builder(root) {}

  LogicalResult run();

private:
  LogicalResult collectArguments();
  /// An index value that root or views read: a scalar argument if the kernel cannot compute it.
  void collectScalar(Value index);
  /// A dimension of a tensor argument that has the same size.
  std::optional<std::pair<Value, int64_t>> findDim(TermAttr term);

  func::FuncOp createKernel();
  Value cloneBase(Value base);
  Value cloneChain(const Chain &chain);
  Value cloneIndex(Value index);
  /// Puts `value`, the result of the root, back into the whole destination.
  Value invert(const Chain &chain, Value value);

  void replaceRoot(func::CallOp call);
  std::string getName();

  StructuredOpInterface root;
  DestinationStyleOpInterface dps;
  DimTerms &terms;
  SymbolTable &symbols;
  Attribute phase;
  OpBuilder builder;

  SmallVector<Chain> chains; ///< of every operand of the root; scalars have no views
  llvm::SetVector<Value> inputs, scalars;
  SmallVector<Value> destinations;
  IRMapping mapping; ///< from the caller's values to the kernel's
};

struct FormDispatchesPass : k3::impl::FormDispatchesBase<FormDispatchesPass> {
  using Base::Base;
  void runOnOperation() override;
};

} // namespace

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

static bool isConstant(Value value) {
  Operation *op = value.getDefiningOp();
  return op && op->hasTrait<OpTrait::ConstantLike>();
}

LogicalResult Outliner::collectArguments() {
  for (Value operand : root->getOperands())
    chains.emplace_back(operand);
  for (OpOperand &operand : root->getOpOperands()) {
    const Chain &chain = chains[operand.getOperandNumber()];
    if (!isa<RankedTensorType>(operand.get().getType()))
      continue;
    if (dps.isDpsInit(&operand)) {
      // Each use of a tensor.empty is a buffer of its own, even if CSE has joined them.
      auto empty = chain.base.getDefiningOp<tensor::EmptyOp>();
      destinations.push_back(empty ? builder.clone(*empty)->getResult(0) : chain.base);
      continue;
    }
    if (isConstant(chain.base))
      continue;
    inputs.insert(chain.base);
  }
  for (Value destination : destinations)
    if (inputs.contains(destination) || llvm::count(destinations, destination) > 1)
      return root.emitOpError("reads or writes a tensor that it also has as a destination");

  for (OpOperand &operand : root->getOpOperands()) {
    if (!isa<RankedTensorType>(operand.get().getType()))
      collectScalar(operand.get());
    for (Operation *view : chains[operand.getOperandNumber()].views)
      for (Value index : view->getOperands().drop_front())
        collectScalar(index);
  }
  return success();
}

std::optional<std::pair<Value, int64_t>> Outliner::findDim(TermAttr term) {
  SmallVector<Value> tensors(inputs.begin(), inputs.end());
  llvm::append_range(tensors, destinations);
  for (Value tensor : tensors) {
    auto type = cast<RankedTensorType>(tensor.getType());
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      if (type.isDynamicDim(dim) && terms.getDim(tensor, dim) == term)
        return std::pair(tensor, dim);
  }
  return std::nullopt;
}

void Outliner::collectScalar(Value index) {
  TermAttr term = terms.getIndex(index);
  if (isConstant(index) || (term && (term.getConstantValue() || findDim(term))))
    return;
  scalars.insert(index);
}

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

Value Outliner::cloneIndex(Value index) {
  if (Value known = mapping.lookupOrNull(index))
    return known;
  TermAttr term = terms.getIndex(index);
  Location loc = root->getLoc();
  Value value;
  if (std::optional<int64_t> constant = term ? term.getConstantValue() : std::nullopt) {
    value = arith::ConstantIndexOp::create(builder, loc, *constant);
  } else if (isConstant(index)) {
    value = builder.clone(*index.getDefiningOp())->getResult(0);
  } else {
    auto [tensor, dim] = *findDim(term);
    value = tensor::DimOp::create(builder, loc, mapping.lookup(tensor), dim);
  }
  mapping.map(index, value);
  return value;
}

Value Outliner::cloneBase(Value base) {
  if (!mapping.contains(base)) // Only constants are not arguments.
    mapping.map(base, builder.clone(*base.getDefiningOp())->getResult(0));
  return mapping.lookup(base);
}

Value Outliner::cloneChain(const Chain &chain) {
  if (!isa<RankedTensorType>(chain.base.getType()))
    return cloneIndex(chain.base);
  Value value = cloneBase(chain.base);
  for (Operation *view : chain.views) {
    for (Value index : view->getOperands().drop_front())
      cloneIndex(index);
    if (!mapping.contains(view->getResult(0)))
      builder.clone(*view, mapping);
    value = mapping.lookup(view->getResult(0));
  }
  return value;
}

Value Outliner::invert(const Chain &chain, Value value) {
  Location loc = root->getLoc();
  for (Operation *view : llvm::reverse(chain.views)) {
    Value whole = mapping.lookup(view->getOperand(0));
    if (auto expand = dyn_cast<tensor::ExpandShapeOp>(view)) {
      value = tensor::CollapseShapeOp::create(builder, loc, whole.getType(), value, expand.getReassociation());
    } else if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(view)) {
      value =
          tensor::ExpandShapeOp::create(builder, loc, cast<RankedTensorType>(whole.getType()), value,
                                        collapse.getReassociationIndices(), tensor::getMixedSizes(builder, loc, whole));
    } else if (isa<tensor::CastOp>(view)) {
      value = tensor::CastOp::create(builder, loc, whole.getType(), value);
    } else {
      auto slice = cast<tensor::ExtractSliceOp>(mapping.lookup(view->getResult(0)).getDefiningOp());
      value = tensor::InsertSliceOp::create(builder, loc, value, whole, slice.getMixedOffsets(), slice.getMixedSizes(),
                                            slice.getMixedStrides());
    }
  }
  return value;
}

/// "320x256", "" for a scalar; dynamic dimensions are left out.
static std::string getShapeText(RankedTensorType type) {
  SmallVector<std::string> sizes;
  for (int64_t size : type.getShape())
    if (!ShapedType::isDynamic(size))
      sizes.push_back(std::to_string(size));
  return llvm::join(sizes, "x");
}

std::string Outliner::getName() {
  // Named after the largest static input, usually the weight, else after the first destination.
  auto type = cast<RankedTensorType>(dps.getDpsInitOperand(0)->get().getType());
  int64_t largest = 1;
  for (OpOperand *operand : dps.getDpsInputOperands())
    if (auto input = dyn_cast<RankedTensorType>(operand->get().getType());
        input && input.hasStaticShape() && input.getNumElements() > largest) {
      largest = input.getNumElements();
      type = input;
    }
  std::string name = root->getName().stripDialect().str();
  llvm::replace(name, '.', '_');
  if (std::string shape = getShapeText(type); !shape.empty())
    name += "_" + shape;
  llvm::raw_string_ostream(name) << "_" << type.getElementType();
  if (!symbols.lookup(name))
    return name;
  for (unsigned number = 2;; ++number)
    if (std::string numbered = name + "_" + std::to_string(number); !symbols.lookup(numbered))
      return numbered;
}

func::FuncOp Outliner::createKernel() {
  SmallVector<Value> arguments(inputs.begin(), inputs.end());
  llvm::append_range(arguments, scalars);
  llvm::append_range(arguments, destinations);
  FunctionType type = builder.getFunctionType(ValueRange(arguments).getTypes(), ValueRange(destinations).getTypes());
  OpBuilder::InsertionGuard guard(builder);
  auto kernel = func::FuncOp::create(root->getLoc(), getName(), type);
  kernel.setPrivate();
  kernel->setAttr(kKernelAttr, builder.getUnitAttr());
  kernel->setAttr(kSourceOpAttr, builder.getStringAttr(root->getName().getStringRef()));
  if (phase)
    kernel->setAttr(kPhaseAttr, phase);
  symbols.insert(kernel);
  Block *body = kernel.addEntryBlock();
  for (auto [index, argument] : llvm::enumerate(arguments)) {
    mapping.map(argument, body->getArgument(index));
    if (auto outer = dyn_cast<BlockArgument>(argument))
      if (Attribute experts =
              cast<func::FuncOp>(outer.getOwner()->getParentOp()).getArgAttr(outer.getArgNumber(), kExpertGroupAttr))
        kernel.setArgAttr(index, kExpertGroupAttr, experts);
  }
  builder.setInsertionPointToStart(body);
  // A destination that is a fresh tensor.empty stands for the one the root names.
  for (auto [number, destination] : llvm::enumerate(destinations))
    mapping.map(chains[dps.getDpsInitOperand(number)->getOperandNumber()].base, mapping.lookup(destination));
  SmallVector<Value> operands;
  for (const Chain &chain : chains)
    operands.push_back(cloneChain(chain));
  IRMapping rootMapping;
  rootMapping.map(root->getOperands(), operands);
  Operation *cloned = builder.clone(*root, rootMapping);
  SmallVector<Value> results;
  for (auto [number, result] : llvm::enumerate(cloned->getResults()))
    results.push_back(invert(chains[dps.getDpsInitOperand(number)->getOperandNumber()], result));
  func::ReturnOp::create(builder, root->getLoc(), results);
  return kernel;
}

//===----------------------------------------------------------------------===//
// Caller
//===----------------------------------------------------------------------===//

/// `insert` writes what was cut out of `base` by `slice` back to the same place.
static bool isInverse(tensor::InsertSliceOp insert, tensor::ExtractSliceOp slice, Value base) {
  return insert.getDest() == base && insert.getMixedOffsets() == slice.getMixedOffsets() &&
         insert.getMixedSizes() == slice.getMixedSizes() && insert.getMixedStrides() == slice.getMixedStrides();
}

void Outliner::replaceRoot(func::CallOp call) {
  for (auto [number, result] : llvm::enumerate(call.getResults())) {
    const Chain &chain = chains[dps.getDpsInitOperand(number)->getOperandNumber()];
    Value old = root->getResult(number);
    if (chain.views.size() == 1)
      if (auto slice = dyn_cast<tensor::ExtractSliceOp>(chain.views.front()))
        for (Operation *user : llvm::make_early_inc_range(old.getUsers()))
          if (auto insert = dyn_cast<tensor::InsertSliceOp>(user);
              insert && insert.getSource() == old && isInverse(insert, slice, chain.base)) {
            insert.replaceAllUsesWith(result);
            insert.erase();
          }
    Value value = result;
    if (!old.use_empty())
      for (Operation *view : chain.views) {
        IRMapping viewMapping;
        viewMapping.map(view->getOperand(0), value);
        value = builder.clone(*view, viewMapping)->getResult(0);
      }
    old.replaceAllUsesWith(value);
  }
  root->erase();
}

LogicalResult Outliner::run() {
  if (root->getNumResults() != static_cast<unsigned>(dps.getNumDpsInits()))
    return root.emitOpError("expected tensors, not memrefs");
  if (failed(collectArguments()))
    return failure();
  func::FuncOp kernel = createKernel();
  SmallVector<Value> operands(inputs.begin(), inputs.end());
  llvm::append_range(operands, scalars);
  llvm::append_range(operands, destinations);
  replaceRoot(func::CallOp::create(builder, root->getLoc(), kernel, operands));
  return success();
}

void FormDispatchesPass::runOnOperation() {
  ModuleOp module = getOperation();
  SymbolTable symbols(module);
  for (func::FuncOp function : getPhaseFunctions(module)) {
    DimTerms terms(&getContext());
    if (failed(terms.setFromAttributes(function)))
      return signalPassFailure();
    SmallVector<StructuredOpInterface> roots;
    function.walk([&](StructuredOpInterface op) { roots.push_back(op); });
    for (StructuredOpInterface root : roots)
      if (failed(Outliner(root, terms, symbols, separatePhases ? function->getAttr(kPhaseAttr) : Attribute()).run()))
        return signalPassFailure();
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
      if (isOpTriviallyDead(&op))
        op.erase();
  }
  if (failed(verifyDispatches(module)))
    signalPassFailure();
}
