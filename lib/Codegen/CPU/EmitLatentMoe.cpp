//===- EmitLatentMoe.cpp - k3.latent_moe.grouped_contract to vector code -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "lib/Codegen/CPU/DotProducts.h"
#include "lib/Codegen/CPU/Emitters.h"
#include "lib/Codegen/Common/Kernels.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

/// A workgroup owns a range of output features and goes through the experts that have rows. The range of an expert's
/// matrices is read once for every block of its rows.
class GroupedContractEmitter {
public:
  GroupedContractEmitter(OpBuilder &b, const TargetModel &target, MoeGroupedContractOp op)
      : v(b, op.getLoc(), target), op(op), matrixCount(op.getUpWeight() ? 2 : 1),
        dot(DotProducts::create(v, cast<MemRefType>(op.getWeight().getType()).getElementType(),
                                cast<MemRefType>(op.getX().getType()).getShape().back(), matrixCount, op.getBf16X(),
                                op.getFixedOrder())),
        columns(v, *dot, matrixCount), topK(v.dim(op.getPerm(), 1)) {}

  void emit() {
    Value experts = v.subIndex(v.dim(op.getOffsets(), 0), v.index(1));
    v.loop(v.index(0), experts, v.index(1), [&](Value expert) {
      Value begin = v.loadIndex(op.getOffsets(), {expert});
      Value end = v.loadIndex(op.getOffsets(), {v.addIndex(expert, v.index(1))});
      // The matrices of an expert without rows need not be there.
      v.ifThen(v.compare(arith::CmpIPredicate::slt, begin, end), [&] { emitExpert(expert, begin, end); });
    });
  }

private:
  void emitExpert(Value expert, Value begin, Value end) {
    SmallVector<WeightMatrix> matrices;
    auto append = [&](Value weight, Value scale) {
      matrices.push_back({viewExpert(weight, expert), scale ? viewExpert(scale, expert) : Value()});
    };
    append(op.getWeight(), op.getScale());
    if (op.getUpWeight())
      append(op.getUpWeight(), op.getUpScale());
    v.loopBlocks(v.subIndex(end, begin), dot->getTokenBlocks(),
                 [&](Value position, int64_t count) { emitSlots(matrices, v.addIndex(begin, position), count); });
  }

  /// The outputs of `count` slots from `position` on in the sorted order.
  void emitSlots(ArrayRef<WeightMatrix> matrices, Value position, int64_t count) {
    SmallVector<MatrixRow> inputs;
    SmallVector<std::pair<Value, Value>> slots; // token and choice
    bool perSlot = cast<MemRefType>(op.getX().getType()).getRank() == 3;
    for (int64_t i = 0; i < count; ++i) {
      Value at = v.addIndex(position, v.index(i));
      Value slot = v.loadIndex(op.getPerm(), {v.divIndex(at, topK), v.remIndex(at, topK)});
      slots.push_back({v.divIndex(slot, topK), v.remIndex(slot, topK)});
      inputs.push_back({op.getX(), {slots.back().first}});
      if (perSlot)
        inputs.back().at.push_back(slots.back().second);
    }
    dot->setInputs(inputs);
    columns.emit(matrices, v.dim(op.getOut(), 2), count,
                 [&](int64_t i, Value column, Value mask, ArrayRef<Value> sums) {
                   Value value = op.getUpWeight() ? activate(sums[0], sums[1]) : sums[0];
                   v.storeMasked(value, op.getOut(), {slots[i].first, slots[i].second, column}, mask);
                 });
  }

  Value activate(Value gate, Value up) {
    if (*op.getActivation() == Activation::swiglu)
      return v.swiglu(gate, up);
    return v.situ(gate, up, op.getBeta().convertToDouble(), op.getLinearBeta().convertToDouble());
  }

  /// The [n, k] matrix of one expert, out of the [E, n, k] operand or through the table of pointers.
  Value viewExpert(Value group, Value expert) {
    OpBuilder &b = v.builder();
    auto type = cast<MemRefType>(group.getType());
    BlockArgument argument = getViewedArgument(group);
    auto func = dyn_cast_or_null<func::FuncOp>(argument ? argument.getOwner()->getParentOp() : nullptr);
    bool isTable = func && func.getArgAttr(argument.getArgNumber(), expertGroupAttrName);
    auto metadata = memref::ExtractStridedMetadataOp::create(b, v.getLoc(), group);
    SmallVector<OpFoldResult> strides = metadata.getConstifiedMixedStrides();
    SmallVector<OpFoldResult> sizes = metadata.getConstifiedMixedSizes();
    ArrayRef<OpFoldResult> innerSizes = ArrayRef(sizes).drop_front(), innerStrides = ArrayRef(strides).drop_front();
    Value offset = metadata.getOffset();
    if (isTable) // the offset of the tile inside each expert's matrix
      return v.viewPointer(v.loadPointer(v.basePointer(metadata.getBaseBuffer()), expert), offset, innerSizes,
                           innerStrides, type.getElementType());
    Value stride = getValueOrCreateConstantIndexOp(b, v.getLoc(), strides.front());
    return v.viewPointer(v.basePointer(metadata.getBaseBuffer()), v.addIndex(offset, v.mulIndex(expert, stride)),
                         innerSizes, innerStrides, type.getElementType());
  }

  VectorBuilder v;
  MoeGroupedContractOp op;
  int64_t matrixCount;
  std::unique_ptr<DotProducts> dot;
  ColumnProducts columns;
  Value topK;
};

struct GroupedContractPattern : OpRewritePattern<MoeGroupedContractOp> {
  GroupedContractPattern(MLIRContext *context, const TargetModel &target) : OpRewritePattern(context), target(target) {}
  LogicalResult matchAndRewrite(MoeGroupedContractOp op, PatternRewriter &rewriter) const override {
    if (!isa<MemRefType>(op.getX().getType()))
      return rewriter.notifyMatchFailure(op, "expected memrefs");
    GroupedContractEmitter(rewriter, target, op).emit();
    rewriter.eraseOp(op);
    return success();
  }
  TargetModel target;
};

} // namespace

void k3::populateLatentMoeEmitters(RewritePatternSet &patterns, const TargetModel &target) {
  patterns.add<GroupedContractPattern>(patterns.getContext(), target);
}
