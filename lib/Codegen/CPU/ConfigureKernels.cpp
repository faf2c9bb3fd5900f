//===- ConfigureKernels.cpp - tile sizes and strategy of every kernel -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/CPU/Emitters.h"
#include "lib/Codegen/Common/Kernels.h"
#include "lib/Codegen/CPU/Passes.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_K3CONFIGUREKERNELS
#include "lib/Codegen/CPU/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {

/// Workgroups that a loop of static size is cut into at most: enough to balance 8 to 64 threads.
constexpr int64_t workgroups = 64;
/// Bytes of weights or states that a workgroup reads at least (its dispatch is paid for) and at most (so that large
/// matrices balance well).
constexpr int64_t minBytes = 64 << 10, maxBytes = 1 << 20;
/// Bytes of a matrix of one expert that a workgroup reads at least: where they are few, it waits for the first ones, and
/// for the input rows that it puts into order.
constexpr int64_t minExpertBytes = 16 << 10;
/// Elements that a workgroup of an elementwise op or a norm handles at least.
constexpr int64_t minElements = 2048;
/// Rows that share a pass over weights during prefill.
constexpr int64_t prefillRows = 64;

int64_t ceilDiv(int64_t x, int64_t y) { return llvm::divideCeilSigned(x, y); }

/// A tile of about `tile` out of `size` that leaves no thread without work for long: where there are few tiles, they are
/// of one size and a power of two; where there are many, of one size and an even number, if some tile of about that size
/// makes it so.
int64_t evenTile(int64_t size, int64_t tile, int64_t multiple) {
  constexpr int64_t few = 16;
  int64_t count = ceilDiv(size, tile);
  if (count < few) {
    tile = ceilDiv(size, static_cast<int64_t>(llvm::PowerOf2Ceil(count)));
  } else {
    int64_t least = static_cast<int64_t>(llvm::alignTo(tile * 3 / 4, multiple));
    for (int64_t even = least; even <= tile * 3 / 2; even += multiple)
      if (size % even == 0 && size / even % 2 == 0)
        return even;
  }
  return static_cast<int64_t>(llvm::alignTo(tile, multiple));
}

int64_t sizeOr(Operation *op, StringRef dim, int64_t otherwise) {
  int64_t size = getStaticNamedDim(op, dim);
  return ShapedType::isDynamic(size) ? otherwise : std::max<int64_t>(size, 1);
}

/// Output features per workgroup of a product whose weight row has `rowBytes`.
int64_t featureTile(int64_t features, int64_t rowBytes) {
  rowBytes = std::max<int64_t>(rowBytes, 1);
  int64_t tile = ceilDiv(features, workgroups);
  tile = std::max(tile, ceilDiv(minBytes, rowBytes));
  tile = std::min<int64_t>(tile, std::max<int64_t>(maxBytes / rowBytes, 16));
  return evenTile(features, tile, 16);
}

/// The least output features per workgroup of products that round their inputs to bf16: each workgroup rounds all its
/// input rows, so that fewer would round more than they multiply. Leaves 16 workgroups or more of 1024 features.
int64_t bf16Features(int64_t features) { return std::clamp<int64_t>(features / 16 / 16 * 16, 64, 128); }

/// Rows per workgroup where a row is `width` elements of cheap work: a power of two, as batches often are.
int64_t rowTile(int64_t width) {
  return static_cast<int64_t>(llvm::bit_floor(static_cast<uint64_t>(std::clamp<int64_t>(minElements / width, 1, 64))));
}

/// Channels per workgroup of a convolution: tiles of one size (0 = of unknown size), whole lines of memory. Wide, because
/// rows of a state are what is read in one piece, and a page of 4 KB if they can be: the hardware reads ahead within a
/// page, and takes lines from a thread that writes the other half of it.
int64_t channelTile(int64_t channels) {
  constexpr int64_t most = 1024, line = 16;
  for (int64_t tile = most; tile > line; tile -= line)
    if (channels % tile == 0)
      return tile;
  return channels;
}

int64_t bytesPerRow(Value matrix) {
  auto type = cast<ShapedType>(matrix.getType());
  int64_t bits = type.getElementTypeBitWidth();
  for (int64_t size : type.getShape().drop_front(type.getRank() - 1))
    bits *= ShapedType::isDynamic(size) ? 1 : size;
  return ceilDiv(bits, 8);
}

/// Widths of an elementwise op on [T, n]: whole rows if they are short, else parts of them.
SmallVector<int64_t> elementwiseTiles(int64_t width) {
  constexpr int64_t columns = 1024;
  return {rowTile(std::min(width, columns)), width <= columns ? 0 : columns};
}

/// One tile size per parallel loop, in the order of the op's shape table.
SmallVector<int64_t> chooseTiles(Operation *root) {
  int64_t width = sizeOr(root, "n", sizeOr(root, "d", 1024));
  return llvm::TypeSwitch<Operation *, SmallVector<int64_t>>(root)
      .Case<GatherRowsOp, RmsNormOp, AttnResAccumulateOp>([&](auto) { return SmallVector<int64_t>{rowTile(width)}; })
      .Case<AttnResMixOp>([&](auto) { return SmallVector<int64_t>{1}; })
      .Case<LinearOp, MxContractOp>([&](auto op) {
        int64_t features = sizeOr(op, "n", 1024), tile = featureTile(features, bytesPerRow(op.getWeight()));
        return SmallVector<int64_t>{prefillRows, op.getBf16X() ? std::max(tile, bf16Features(features)) : tile};
      })
      .Case<GluOp, SigmoidGateOp, MoeCombineOp>([&](auto) { return elementwiseTiles(width); })
      .Case<KdaShortConvOp>([&](auto) { return SmallVector<int64_t>{channelTile(sizeOr(root, "C", 0))}; })
      .Case<KdaGateOp, KdaGatedNormOp>([&](Operation *op) {
        return SmallVector<int64_t>{rowTile(sizeOr(op, "H", 1) * sizeOr(op, "V", sizeOr(op, "K", 128))), 0};
      })
      .Case<KdaScanOp, KdaRecurrentStepOp, KdaChunkScanOp>([&](auto) { return SmallVector<int64_t>{1}; })
      .Case<KdaChunkPrepareOp>([&](auto) { return SmallVector<int64_t>{1, 1}; })
      .Case<MoeRouteOp>([&](auto) { return SmallVector<int64_t>{1}; })
      .Case([&](MoeGroupedContractOp op) {
        // A workgroup does its features of every expert that has rows, so there are fewer, wider pieces of work.
        int64_t features = sizeOr(op, "n", 1024);
        int64_t tile = std::max(ceilDiv(features, workgroups), ceilDiv(minExpertBytes, bytesPerRow(op.getWeight())));
        tile = ceilDiv(features, std::max<int64_t>(2, ceilDiv(features, tile)));
        tile = static_cast<int64_t>(llvm::alignTo(tile, 16));
        // Every workgroup reads and rounds all routed rows again, which fast products do not hide.
        return SmallVector<int64_t>{op.getBf16X() ? std::max(tile, bf16Features(features)) : tile};
      })
      .Case<MlaAbsorbOp, MlaExpandOp>([&](auto) { return SmallVector<int64_t>{16, 1}; })
      // Eight heads share every cache row that is loaded; two where there would be too few workgroups.
      .Case<MlaAttendOp>([&](auto) { return SmallVector<int64_t>{sizeOr(root, "H", 1) < 16 ? 2 : 8}; })
      // No parallel loop.
      .Case<MoePlanOp, MlaAppendOp>([&](auto) { return SmallVector<int64_t>{}; })
      .Default([&](Operation *op) { return SmallVector<int64_t>(getLoopNames(op).size(), 1); });
}

struct ConfigureKernels : k3::impl::K3ConfigureKernelsBase<ConfigureKernels> {
  using Base::Base;
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (!isKernel(func))
      return;
    FailureOr<StructuredOpInterface> root = getKernelRoot(func);
    if (failed(root))
      return signalPassFailure();
    if (KernelConfigAttr config = getKernelConfig(*root)) {
      if (config.getTiles().size() != getLoopNames(*root).size()) {
        root->emitOpError() << "expected " << getLoopNames(*root).size() << " tile sizes, got "
                            << config.getTiles().size();
        return signalPassFailure();
      }
      return;
    }
    SmallVector<int64_t> tiles = chooseTiles(*root);
    assert(tiles.size() == getLoopNames(*root).size() && "one tile size per loop");
    // A tile that covers a whole static loop is no tile.
    for (auto [tile, loop] : llvm::zip_equal(tiles, getLoopNames(*root)))
      if (int64_t size = getStaticNamedDim(*root, loop); !ShapedType::isDynamic(size) && tile >= size)
        tile = 0;
    // An expert group is bound as a table of pointers, which only an emitter reads.
    bool hasTable = llvm::any_of(func.getArguments(), [&](BlockArgument argument) {
      return static_cast<bool>(func.getArgAttr(argument.getArgNumber(), expertGroupAttrName));
    });
    if (hasTable && !hasEmitter(*root)) {
      root->emitOpError("reads an expert group, and no emitter can: its contraction size must be static");
      return signalPassFailure();
    }
    bool useEmitter = hasEmitter(*root) && (hasTable || !forceGeneric);
    StringRef strategy = useEmitter ? strategyVector : strategyGeneric;
    (*root)->setAttr(kernelConfigAttrName, KernelConfigAttr::get(&getContext(), tiles, strategy));
  }
};

} // namespace
