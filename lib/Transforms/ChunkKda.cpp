//===- ChunkKda.cpp - split the KDA scan of a prefill into chunks -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/ModelFunctions.h"
#include "lib/Transforms/Passes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_CHUNKKDA
#include "lib/Transforms/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {
struct ChunkKdaPass : k3::impl::ChunkKdaBase<ChunkKdaPass> {
  using ChunkKdaBase::ChunkKdaBase;
  LogicalResult initialize(MLIRContext *context) override;
  void runOnOperation() override;
  void split(KdaScanOp scan, int64_t scanRows, bool bf16Parts, Anchor anchor);
  /// The gate that makes the scan's decay, if it can become part of the prepare op.
  KdaGateOp getOwnGate(KdaScanOp scan);
};
} // namespace

LogicalResult ChunkKdaPass::initialize(MLIRContext *context) {
  if (rows == 16 || rows == 32 || rows == 64)
    return success();
  return emitError(UnknownLoc::get(context)) << "expected chunks of 16, 32 or 64 rows, got " << rows.getValue();
}

/// Where to take the exponents of a chunk from; the pass's description says why.
static Anchor chooseAnchor(KdaScanOp scan, int64_t rows) {
  constexpr double largestExponent = 60.0, largestInTile = 80.0;
  constexpr int64_t tileRows = 16;
  if (!scan.getGateBound())
    return Anchor::pairwise;
  double bound = -scan.getGateBound()->convertToDouble(), range = bound * static_cast<double>(rows);
  if (range <= largestExponent)
    return Anchor::zero;
  if (range / 2 <= largestExponent)
    return Anchor::mid_row;
  return bound * (tileRows - 1) <= largestInTile ? Anchor::tile_row : Anchor::pairwise;
}

/// Empty if the scan has a chunked form.
static StringRef whyNotChunked(KdaScanOp scan) {
  if (!scan.getG())
    return "no decay";
  if (cast<ShapedType>(scan.getG().getType()).getRank() != 3)
    return "decay per head";
  return scan.getDelta() ? "" : "no delta rule";
}

KdaGateOp ChunkKdaPass::getOwnGate(KdaScanOp scan) {
  auto gate = scan.getG().getDefiningOp<KdaGateOp>();
  return fuseGate && gate && gate->hasOneUse() ? gate : KdaGateOp();
}

/// Whether the scan's heads have the sizes of products on matrix units.
static bool fitsMatrixUnits(KdaScanOp scan) {
  int64_t key = getStaticNamedDim(scan, "K"), value = getStaticNamedDim(scan, "V");
  return (key == 64 || key == 128) && !ShapedType::isDynamic(value) && value % 64 == 0;
}

void ChunkKdaPass::split(KdaScanOp scan, int64_t scanRows, bool bf16Parts, Anchor anchor) {
  func::FuncOp function = getOperation();
  Value chunks = getOrAddStepInput(function, "chunks"), chunkCu = getOrAddStepInput(function, "chunk_cu");
  OpBuilder b(scan);
  Location loc = scan.getLoc();
  auto named = [&](StringRef name) { return NameLoc::get(b.getStringAttr(name), loc); };
  OpFoldResult numChunks = getRows(b, named("C"), chunks);
  auto keys = cast<RankedTensorType>(scan.getK().getType()), values = cast<RankedTensorType>(scan.getV().getType());
  int64_t heads = keys.getDimSize(1), key = keys.getDimSize(2), value = values.getDimSize(2);
  SmallVector<Value> parts;
  SmallVector<Type> types;
  Type operandType = bf16Parts ? Type(b.getBF16Type()) : Type(b.getF32Type());
  auto addPart = [&](ArrayRef<int64_t> sizes, Type type) {
    SmallVector<OpFoldResult> all = {numChunks, b.getIndexAttr(heads)};
    for (int64_t size : sizes)
      all.push_back(b.getIndexAttr(size));
    parts.push_back(createEmpty(b, named("out"), all, type));
    types.push_back(parts.back().getType());
  };
  addPart({scanRows, key}, operandType);      // qg
  addPart({scanRows, key}, operandType);      // w
  addPart({scanRows, value}, operandType);    // u
  addPart({scanRows, key}, operandType);      // kd
  addPart({scanRows, scanRows}, operandType); // aqk
  addPart({key}, b.getF32Type());             // gl
  KdaGateOp gate = getOwnGate(scan);
  auto prepare = KdaChunkPrepareOp::create(
      b, loc, types, scan.getQ(), scan.getK(), scan.getV(), gate ? gate.getZ() : scan.getG(), scan.getBeta(), chunks,
      gate ? gate.getDtBias() : Value(), gate ? gate.getALog() : Value(), parts[0], parts[1], parts[2], parts[3],
      parts[4], parts[5], scan.getScaleAttr(), scan.getL2normAttr(), AnchorAttr::get(b.getContext(), anchor),
      gate ? gate.getKindAttr() : GateKindAttr(), gate ? gate.getLowerBoundAttr() : FloatAttr(), KernelConfigAttr());
  auto results = prepare.getResults();
  auto chunked = KdaChunkScanOp::create(b, loc, scan.getResultTypes(), results[0], results[1], results[2], results[3],
                                        results[4], results[5], chunks, chunkCu, scan.getSlots(), scan.getOut(),
                                        scan.getState(), KernelConfigAttr());
  scan->replaceAllUsesWith(chunked.getResults());
  scan.erase();
  if (!gate)
    return;
  Operation *destination = gate.getOut().getDefiningOp();
  gate.erase();
  if (destination && destination->use_empty())
    destination->erase();
}

void ChunkKdaPass::runOnOperation() {
  func::FuncOp function = getOperation();
  if (getPhase(function) != Phase::prefill)
    return;
  auto opts = remark::RemarkOpts::name("ChunkedScan").category("k3-chunk-kda").function(function.getName());
  SmallVector<KdaScanOp> scans;
  function.walk([&](KdaScanOp scan) { scans.push_back(scan); });
  for (KdaScanOp scan : scans) {
    if (StringRef reason = whyNotChunked(scan); !reason.empty()) {
      remark::missed(scan.getLoc(), opts) << remark::reason("no chunked form with {0}", reason);
      continue;
    }
    bool onMatrixUnits = matrixUnits && fitsMatrixUnits(scan);
    int64_t scanRows = onMatrixUnits ? 64 : int64_t(rows);
    Anchor anchor = chooseAnchor(scan, scanRows);
    remark::passed(scan.getLoc(), opts) << remark::metric("Rows", scanRows)
                                        << remark::metric("Anchor", stringifyAnchor(anchor).str());
    split(scan, scanRows, onMatrixUnits, anchor);
  }
}
