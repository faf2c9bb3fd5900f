//===- SplitMla.cpp - attention of a decode by parts of the context -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/ModelFunctions.h"
#include "lib/Transforms/Passes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_SPLITMLA
#include "lib/Transforms/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {
struct SplitMlaPass : k3::impl::SplitMlaBase<SplitMlaPass> {
  using SplitMlaBase::SplitMlaBase;
  LogicalResult initialize(MLIRContext *context) override;
  void runOnOperation() override;
  void split(MlaAttendOp attend, int64_t runs);
};
} // namespace

LogicalResult SplitMlaPass::initialize(MLIRContext *context) {
  if (blocks >= 1 && heads >= 1 && tile >= 1)
    return success();
  return emitError(UnknownLoc::get(context))
         << "expected at least 1 block, head and row of a tile, got " << blocks.getValue() << ", " << heads.getValue()
         << " and " << tile.getValue();
}

void SplitMlaPass::split(MlaAttendOp attend, int64_t runs) {
  OpBuilder b(attend);
  Location loc = attend.getLoc();
  auto type = cast<RankedTensorType>(attend.getOut().getType());
  auto makeEmpty = [&](StringRef name, int64_t columns) {
    SmallVector<OpFoldResult> sizes = getAsIndexOpFoldResult(b.getContext(), {runs, 2, type.getDimSize(1), columns});
    return createEmpty(b, NameLoc::get(b.getStringAttr(name), loc), sizes, b.getF32Type());
  };
  Value parts = makeEmpty("parts", type.getDimSize(2)), states = makeEmpty("states", 2);
  auto partial =
      MlaAttendPartialOp::create(b, loc, TypeRange{type, parts.getType(), states.getType()}, attend.getQ(),
                                 attend.getCache(), attend.getLengths(), attend.getPageTable(), attend.getOut(), parts,
                                 states, attend.getScaleAttr(), b.getI64IntegerAttr(tile), KernelConfigAttr());
  auto merge = MlaAttendMergeOp::create(b, loc, type, partial.getResult(1), partial.getResult(2), attend.getLengths(),
                                        partial.getResult(0), b.getI64IntegerAttr(tile), KernelConfigAttr());
  attend->replaceAllUsesWith(merge.getResults());
  attend.erase();
}

void SplitMlaPass::runOnOperation() {
  func::FuncOp function = getOperation();
  if (getPhase(function) != Phase::decode)
    return;
  auto opts = remark::RemarkOpts::name("SplitContext").category("k3-split-mla").function(function.getName());
  SmallVector<MlaAttendOp> attends;
  function.walk([&](MlaAttendOp attend) { attends.push_back(attend); });
  for (MlaAttendOp attend : attends) {
    if (!getElementTypeOrSelf(attend.getCache().getType()).isBF16()) {
      remark::missed(attend.getLoc(), opts) << remark::reason("the cache is not bf16");
      continue;
    }
    int64_t headBlocks = llvm::divideCeil(cast<ShapedType>(attend.getOut().getType()).getDimSize(1), heads.getValue());
    int64_t runs = std::max<int64_t>(1, blocks / headBlocks);
    remark::passed(attend.getLoc(), opts) << remark::metric("Runs", runs);
    split(attend, runs);
  }
}
