//===- EmitLatentMoe.cpp - k3.latent_moe.grouped_contract to vector code -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "lib/Codegen/CPU/DotTile.h"
#include "lib/Codegen/CPU/Emitters.h"
#include "lib/Codegen/CPU/Kernels.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

/// For every expert with rows: blocks of weight rows, and for each all slots of the expert, some at a time.
class GroupedContractEmitter {
public:
  GroupedContractEmitter(OpBuilder &b, const TargetModel &target, MoeGroupedContractOp op)
      : v(b, op.getLoc(), target), op(op), packed(static_cast<bool>(op.getScale())), sizes(target, packed),
        depth(cast<MemRefType>(op.getX().getType()).getShape().back()), tile(v, packed, depth) {
    // The fused gated unit reads two matrices, so half as many rows of each.
    if (op.getUpWeight())
      sizes.rows = {2, 1};
  }

  void emit() {
    experts = v.subIndex(v.dim(op.getOffsets(), 0), v.index(1));
    rowCount = v.dim(op.getOut(), 2);
    topK = v.dim(op.getPerm(), 1);
    if (packed) {
      int64_t matrices = op.getUpWeight() ? 2 : 1;
      decodedScales = v.stackBuffer({matrices * sizes.rows.front(), depth / DotTile::groupSize},
                                    v.builder().getF32Type());
    }
    v.loop(v.index(0), experts, v.index(1), [&](Value expert) {
      Value begin = v.loadIndex(op.getOffsets(), {expert});
      Value end = v.loadIndex(op.getOffsets(), {v.addIndex(expert, v.index(1))});
      // The matrices of an expert without rows need not be there.
      v.ifThen(v.compare(arith::CmpIPredicate::slt, begin, end), [&] { emitExpert(expert, begin, end); });
    });
  }

private:
  void emitExpert(Value expert, Value begin, Value end) {
    SmallVector<std::pair<Value, Value>> matrices; // weight and scale
    auto append = [&](Value weight, Value scale) {
      matrices.push_back({viewExpert(weight, expert), scale ? viewExpert(scale, expert) : Value()});
    };
    append(op.getWeight(), op.getScale());
    if (op.getUpWeight())
      append(op.getUpWeight(), op.getUpScale());

    v.loopBlocks(rowCount, sizes.rows, [&](Value row, int64_t rows) {
      SmallVector<WeightRow> weightRows;
      for (auto [weight, scale] : matrices)
        for (int64_t r = 0; r < rows; ++r) {
          Value at = v.addIndex(row, v.index(r));
          Value buffer = v.index(static_cast<int64_t>(weightRows.size()));
          weightRows.push_back({{weight, {at}}, {decodedScales, {buffer}}});
          if (packed)
            tile.decodeScales({scale, {at}}, weightRows.back().scales);
        }
      v.loopBlocks(v.subIndex(end, begin), sizes.inputs, [&](Value position, int64_t count) {
        emitTile(weightRows, row, rows, v.addIndex(begin, position), count);
      });
    });
  }

  /// `rows` outputs of `count` slots that start at `position` in the sorted order.
  void emitTile(ArrayRef<WeightRow> weightRows, Value row, int64_t rows, Value position, int64_t count) {
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
    SmallVector<Value> sums = v.reduceAddAll(tile.emit(weightRows, inputs));
    for (int64_t i = 0; i < count; ++i) {
      ArrayRef<Value> ofSlot = ArrayRef(sums).slice(i * weightRows.size(), weightRows.size());
      for (int64_t r = 0; r < rows; ++r) {
        Value value = op.getUpWeight() ? activate(ofSlot[r], ofSlot[rows + r]) : ofSlot[r];
        v.storeScalar(value, op.getOut(), {slots[i].first, slots[i].second, v.addIndex(row, v.index(r))});
      }
    }
  }

  Value activate(Value gate, Value up) {
    MathBuilder m = v.scalar();
    if (*op.getActivation() == Activation::swiglu)
      return m.swiglu(gate, up);
    return m.situ(gate, up, op.getBeta().convertToDouble(), op.getLinearBeta().convertToDouble());
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
  bool packed;
  DotTileSizes sizes;
  int64_t depth;
  DotTile tile;
  Value experts, rowCount, topK, decodedScales;
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
