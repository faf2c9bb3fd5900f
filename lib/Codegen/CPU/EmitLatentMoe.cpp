//===- EmitLatentMoe.cpp - k3.latent_moe.grouped_contract to vector code -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "lib/Codegen/CPU/ColumnProducts.h"
#include "lib/Codegen/CPU/Emitters.h"
#include "lib/Codegen/Common/Kernels.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

/// Bytes of a matrix, and of its scales, that are asked for before its turn comes; bytes of a line of memory.
constexpr int64_t firstBytes = 3 << 10, line = 64;

/// A workgroup owns a range of output features and goes through the experts that have rows. The range of an expert's
/// matrices is read once for every block of its rows.
class GroupedContractEmitter {
public:
  GroupedContractEmitter(OpBuilder &b, const TargetModel &target, MoeGroupedContractOp op)
      : v(b, op.getLoc(), target), op(op), matrixCount(op.getUpWeight() ? 2 : 1),
        columns(ColumnProducts::create(v, cast<MemRefType>(op.getWeight().getType()).getElementType(),
                                       cast<MemRefType>(op.getX().getType()).getShape().back(), matrixCount,
                                       op.getBf16X(), op.getFixedOrder())),
        topK(v.dim(op.getPerm(), 1)) {}

  void emit() {
    Value experts = v.subIndex(v.dim(op.getOffsets(), 0), v.index(1)), zero = v.index(0), one = v.index(1);
    Value none = v.index(-1);
    // The expert before each one that has rows, and the last one when all have been seen: so that the first weights of
    // the next one are on their way meanwhile. The matrices of an expert without rows need not be there.
    v.loop(zero, v.addIndex(experts, one), one, none, [&](Value expert, ValueRange args) {
      Value isEnd = v.compare(arith::CmpIPredicate::eq, expert, experts);
      Value rows = v.subIndex(v.loadIndex(op.getOffsets(), {v.minIndex(v.addIndex(expert, one), experts)}),
                              v.loadIndex(op.getOffsets(), {expert}));
      Value hasRows = v.compare(arith::CmpIPredicate::ne, rows, zero);
      Value isThere = v.compare(arith::CmpIPredicate::ne, args[0], none);
      v.ifThen(hasRows, [&] {
        if (!columns->asksForNext())
          return prefetchExpert(expert);
        v.ifThen(v.compare(arith::CmpIPredicate::eq, args[0], none), [&] { prefetchExpert(expert); });
      });
      Value isTurn = v.compare(arith::CmpIPredicate::ne, v.select(isEnd, one, rows), zero);
      v.ifThen(isTurn, [&] { v.ifThen(isThere, [&] { emitExpert(args[0], v.select(isEnd, args[0], expert)); }); });
      return SmallVector<Value>{v.select(hasRows, expert, args[0])};
    });
  }

private:
  SmallVector<WeightMatrix> getMatrices(Value expert) {
    SmallVector<WeightMatrix> matrices;
    auto append = [&](Value weight, Value scale) {
      matrices.push_back({viewExpert(weight, expert), scale ? viewExpert(scale, expert) : Value()});
    };
    append(op.getWeight(), op.getScale());
    if (op.getUpWeight())
      append(op.getUpWeight(), op.getUpScale());
    return matrices;
  }

  /// `next`: the expert whose turn comes after it.
  void emitExpert(Value expert, Value next) {
    SmallVector<WeightMatrix> matrices = getMatrices(expert);
    for (auto [matrix, after] : llvm::zip_equal(matrices, getMatrices(next))) {
      matrix.nextWeight = after.weight;
      matrix.nextScale = after.scale;
    }
    Value begin = v.loadIndex(op.getOffsets(), {expert});
    Value end = v.loadIndex(op.getOffsets(), {v.addIndex(expert, v.index(1))});
    v.loopBlocks(v.subIndex(end, begin), columns->getTokenBlocks(),
                 [&](Value position, int64_t count) { emitSlots(matrices, v.addIndex(begin, position), count); });
  }

  /// Asks for the first rows of an expert's weights.
  void prefetchExpert(Value expert) {
    for (const WeightMatrix &matrix : getMatrices(expert))
      for (Value part : {matrix.weight, matrix.scale}) {
        if (!part)
          continue;
        auto type = cast<MemRefType>(part.getType());
        int64_t rowBytes = llvm::divideCeil(type.getDimSize(1) * type.getElementTypeBitWidth(), 8);
        int64_t rows = std::max<int64_t>(1, firstBytes / rowBytes), step = std::max<int64_t>(1, line / rowBytes);
        v.loop(v.index(0), v.minIndex(v.index(rows), v.dim(op.getOut(), 2)), v.index(step), [&](Value row) {
          for (int64_t at = 0; at < std::min(rowBytes, firstBytes); at += line)
            v.prefetch(part, {row, v.index(at * 8 / type.getElementTypeBitWidth())}, /*level=*/2);
        });
      }
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
    columns->setInputs(inputs);
    columns->emit(matrices, v.dim(op.getOut(), 2), [&](int64_t i, Value column, Value mask, ArrayRef<Value> sums) {
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
  std::unique_ptr<ColumnProducts> columns;
  Value topK;
};

} // namespace

void k3::populateLatentMoeEmitters(RewritePatternSet &patterns, const TargetModel &target) {
  patterns.add<EmitterClassPattern<MoeGroupedContractOp, GroupedContractEmitter>>(patterns.getContext(), target);
}
