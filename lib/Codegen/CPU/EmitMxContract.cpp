//===- EmitMxContract.cpp - k3.mx.contract to vector code -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "lib/Codegen/CPU/ColumnProducts.h"
#include "lib/Codegen/CPU/Emitters.h"

using namespace mlir;
using namespace mlir::k3;

static void emitMxContract(OpBuilder &b, const TargetModel &target, MxContractOp op) {
  VectorBuilder v(b, op.getLoc(), target);
  std::unique_ptr<ColumnProducts> columns = ColumnProducts::create(v, b.getI8Type(), getStaticNamedDim(op, "k"),
                                                                   /*matrices=*/1, op.getBf16X(), op.getFixedOrder());
  WeightMatrix matrix{op.getWeight(), op.getScale()};
  Value out = op.getOut();
  v.loopBlocks(v.dim(op.getX(), 0), columns->getTokenBlocks(), [&](Value first, int64_t tokens) {
    SmallVector<MatrixRow> rows;
    for (int64_t t = 0; t < tokens; ++t)
      rows.push_back({op.getX(), {v.addIndex(first, v.index(t))}});
    columns->setInputs(rows);
    columns->emit(matrix, v.dim(out, 1), [&](int64_t t, Value column, Value mask, ArrayRef<Value> sums) {
      SmallVector<Value> at = rows[t].index(column);
      Value sum = sums.front();
      if (op.getAccumulate())
        sum = v.add(v.loadMasked(out, at, mask), sum);
      v.storeMasked(sum, out, at, mask);
    });
  });
}

void k3::populateMxContractEmitter(RewritePatternSet &patterns, const TargetModel &target) {
  patterns.add<EmitterPattern<MxContractOp, emitMxContract>>(patterns.getContext(), target);
}
