//===- FuseResidual.cpp - products add to their destination -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/ModelFunctions.h"
#include "lib/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"
#include "mlir/IR/Remarks.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_FUSERESIDUAL
#include "lib/Transforms/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

static constexpr llvm::StringLiteral kAccumulate = "accumulate";

namespace {
struct FuseResidualPass : k3::impl::FuseResidualBase<FuseResidualPass> {
  void runOnOperation() override;
  /// Each returns whether it changed the IR.
  bool splitSum(AttnResAccumulateOp accumulate);
  bool writeSlot(AttnResAccumulateOp accumulate);
  bool addToOperand(arith::AddFOp sum);

  remark::RemarkOpts opts(StringRef name) {
    return remark::RemarkOpts::name(name).category("k3-fuse-residual").function(getOperation().getName());
  }
};
} // namespace

/// The op that makes `value` in a destination of its own, read by nobody else; null if it cannot write elsewhere.
/// `accumulate`: it must also be able to add to what is there.
static Operation *getRedirectable(Value value, bool accumulate) {
  auto op = value.getDefiningOp<StructuredOpInterface>();
  if (!op || op->getNumResults() != 1 || !op->hasOneUse() || op.readsInit(0))
    return nullptr;
  auto dps = cast<DestinationStyleOpInterface>(op.getOperation());
  if (!dps.getDpsInitOperand(0)->get().getDefiningOp<tensor::EmptyOp>())
    return nullptr;
  if (accumulate && !isa<LinearOp, MxContractOp, MoeCombineOp>(op.getOperation()))
    return nullptr;
  return op;
}

/// Clones `op` at the insertion point with another destination.
static Value redirect(OpBuilder &b, Operation *op, Value destination, bool accumulate) {
  SmallVector<Value> operands(op->getOperands());
  operands[cast<DestinationStyleOpInterface>(op).getDpsInitOperand(0)->getOperandNumber()] = destination;
  Operation *moved = mlir::clone(b, op, destination.getType(), operands);
  if (accumulate)
    moved->setAttr(kAccumulate, b.getUnitAttr());
  return moved->getResult(0);
}

bool FuseResidualPass::splitSum(AttnResAccumulateOp accumulate) {
  auto sum = accumulate.getDelta().getDefiningOp<arith::AddFOp>();
  if (!sum || !sum->hasOneUse())
    return false;
  OpBuilder b(accumulate);
  auto first = AttnResAccumulateOp::create(b, accumulate.getLoc(), accumulate.getStream().getType(), sum.getLhs(),
                                           accumulate.getSlot(), accumulate.getStream(), accumulate.getInitAttr(),
                                           accumulate.getKernelConfigAttr());
  auto second = AttnResAccumulateOp::create(b, accumulate.getLoc(), accumulate.getStream().getType(), sum.getRhs(),
                                            accumulate.getSlot(), first.getResult(0), UnitAttr(),
                                            accumulate.getKernelConfigAttr());
  accumulate.getResult(0).replaceAllUsesWith(second.getResult(0));
  accumulate.erase();
  sum.erase();
  return true;
}

bool FuseResidualPass::writeSlot(AttnResAccumulateOp accumulate) {
  Value delta = accumulate.getDelta(), stream = accumulate.getStream();
  auto deltaType = cast<RankedTensorType>(delta.getType()), streamType = cast<RankedTensorType>(stream.getType());
  Operation *product = deltaType.getElementType() == streamType.getElementType()
                           ? getRedirectable(delta, /*accumulate=*/!accumulate.getInit())
                           : nullptr;
  if (!product) {
    remark::missed(accumulate.getLoc(), opts("ProductInSlot"))
        << remark::reason("what is added is not a product that can write into the stream");
    return false;
  }
  OpBuilder b(accumulate);
  Location loc = accumulate.getLoc();
  SmallVector<OpFoldResult> offsets = {accumulate.getSlot(), b.getIndexAttr(0), b.getIndexAttr(0)};
  SmallVector<OpFoldResult> sizes = {b.getIndexAttr(1), getRows(b, loc, delta), b.getIndexAttr(deltaType.getDimSize(1))};
  SmallVector<OpFoldResult> strides(3, b.getIndexAttr(1));
  if (auto constant = getConstantIntValue(accumulate.getSlot()))
    offsets.front() = b.getIndexAttr(*constant);
  Value slot = tensor::ExtractSliceOp::create(b, loc, deltaType, stream, offsets, sizes, strides);
  Value written = redirect(b, product, slot, /*accumulate=*/!accumulate.getInit());
  Value updated = tensor::InsertSliceOp::create(b, loc, written, stream, offsets, sizes, strides);
  accumulate.getResult(0).replaceAllUsesWith(updated);
  remark::passed(loc, opts("ProductInSlot"))
      << remark::add("{0} {1} the stream", product->getName().getStringRef(),
                     accumulate.getInit() ? "writes into" : "adds to");
  accumulate.erase();
  product->erase();
  return true;
}

bool FuseResidualPass::addToOperand(arith::AddFOp sum) {
  if (!isa<RankedTensorType>(sum.getType()))
    return false;
  // The right operand adds to the left one, which must be a value that nobody else reads; or the other way round.
  for (auto [product, destination] : {std::pair(sum.getRhs(), sum.getLhs()), std::pair(sum.getLhs(), sum.getRhs())}) {
    Operation *op = getRedirectable(product, /*accumulate=*/true);
    if (!op || !destination.hasOneUse() || !destination.getDefiningOp<StructuredOpInterface>())
      continue;
    OpBuilder b(sum);
    sum.getResult().replaceAllUsesWith(redirect(b, op, destination, /*accumulate=*/true));
    remark::passed(sum.getLoc(), opts("ProductInSum"))
        << remark::add("{0} adds to the other operand", op->getName().getStringRef());
    sum.erase();
    op->erase();
    return true;
  }
  remark::missed(sum.getLoc(), opts("ProductInSum"))
      << remark::reason("neither operand is a product with the other to itself");
  return false;
}

void FuseResidualPass::runOnOperation() {
  // Splitting makes accumulates of accumulates: collect again until nothing is split.
  SmallVector<AttnResAccumulateOp> accumulates;
  for (bool changed = true; changed;) {
    changed = false;
    accumulates.clear();
    getOperation().walk([&](AttnResAccumulateOp op) { accumulates.push_back(op); });
    for (AttnResAccumulateOp op : accumulates)
      changed |= splitSum(op);
  }
  for (AttnResAccumulateOp op : accumulates)
    writeSlot(op);
  SmallVector<arith::AddFOp> sums;
  getOperation().walk([&](arith::AddFOp op) { sums.push_back(op); });
  for (arith::AddFOp op : sums)
    addToOperand(op);
  eraseDeadOps(getOperation());
}
