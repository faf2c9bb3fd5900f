//===- EmitMlaProducts.cpp - k3.mla.absorb and k3.mla.expand on a GPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/Tile/Atoms.h"
#include "lib/Codegen/GPU/Tile/Runs.h"
#include "lib/Codegen/GPU/Tile/SkinnyProduct.h"
#include "lib/Codegen/GPU/Tile/Split.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

//===----------------------------------------------------------------------===//
// k3.mla.absorb
//===----------------------------------------------------------------------===//
//
// Per head, queries [T, nope] times [nope, l]: the sum goes over rows of the stored matrix. A warp has 16 tokens and 64
// latents. A lane loads four rows, eight latents of each, and pairs the rows in registers; since it may choose which of
// the 64 latents are the columns of which product, it ends up with 16 neighbouring latents of two tokens.

namespace {

constexpr int64_t warpTokens = 16, warpLatents = 64, stepDepth = 16;

struct AbsorbShape {
  int64_t nope, latent, heads;
  /// A warp for each of: groups of 16 tokens, slices of the sum, groups of 64 latents.
  int64_t tokenGroups, slices, latentGroups;
  int64_t threads() const { return 32 * tokenGroups * slices * latentGroups; }
  int64_t tokensPerBlock() const { return tokenGroups * warpTokens; }
  int64_t latentsPerBlock() const { return latentGroups * warpLatents; }
  int64_t steps() const { return nope / stepDepth / slices; }
  /// Sums of all slices but the first.
  int64_t sharedBytes() const { return tokenGroups * latentGroups * (slices - 1) * warpTokens * warpLatents * 4; }
};

std::optional<AbsorbShape> shapeOf(MlaAbsorbOp op, Phase phase) {
  AbsorbShape shape;
  shape.nope = op.getNope();
  shape.latent = getStaticNamedDim(op, "l");
  shape.heads = getStaticNamedDim(op, "H");
  if (ShapedType::isDynamic(shape.latent) || ShapedType::isDynamic(shape.heads) ||
      ShapedType::isDynamic(getStaticNamedDim(op, "qd")) || !getElementTypeOrSelf(op.getKvB().getType()).isBF16() ||
      shape.nope % stepDepth != 0 || shape.latent == 0 || shape.latent % warpLatents != 0)
    return std::nullopt;
  bool isDecode = phase == Phase::decode;
  shape.latentGroups = shape.latent % (2 * warpLatents) == 0 ? 2 : 1;
  shape.tokenGroups = isDecode ? 1 : 4;
  // Few tokens: the matrix is read by as many warps as it has steps for.
  shape.slices = isDecode ? getRunLength(shape.nope / stepDepth, 4) : 1;
  return shape;
}

class AbsorbEmitter {
public:
  using Values = SmallVector<Value>;

  AbsorbEmitter(const GpuBuilder &g, MlaAbsorbOp op, const AbsorbShape &shape, const GpuTarget &target)
      : g(g), op(op), shape(shape), termCount(target.xTerms), q(g, op.getQ(), 4, true), out(g, op.getOut(), 4) {}

  void emit() {
    Value lane = g.laneId(), warp = g.warpId();
    quad = g.rem(lane, 4);
    group = g.div(lane, 4);
    Value slice = g.rem(warp, shape.slices), rest = g.div(warp, shape.slices);
    Value tokenGroup = g.rem(rest, shape.tokenGroups), latentGroup = g.div(rest, shape.tokenGroups);
    head = g.blockId(2);
    tokens = g.dim(op.getQ(), 0);
    blockToken = g.mul(g.blockId(0), shape.tokensPerBlock());
    g.ifThen(g.lt(blockToken, tokens), [&] {
      firstLatent = g.add(g.mul(g.blockId(1), shape.latentsPerBlock()), g.mul(latentGroup, warpLatents));
      firstToken = g.add(blockToken, g.mul(tokenGroup, warpTokens));
      Values sums = multiply(slice);
      if (shape.slices > 1)
        sums = addSlices(sums, slice, rest);
      g.ifThen(g.eq(slice, 0), [&] { store(sums); });
      g.ifThen(g.eq(g.blockId(1), 0), [&] { copyRest(); });
    });
  }

private:
  static constexpr int64_t tiles = warpLatents / 8, sumCount = 4 * tiles;

  Values multiply(Value slice) {
    Values weight, query;
    Value depth = g.mul(slice, shape.steps() * stepDepth);
    Value firstRow = g.add(depth, g.mul(quad, 4));
    for (int64_t half : {0, 8}) {
      Value token = g.min(g.add(g.add(firstToken, group), half), g.sub(tokens, 1));
      query.push_back(g.element(op.getQ(), {token, head, firstRow}));
    }
    for (int64_t i = 0; i < 4; ++i)
      weight.push_back(g.element(op.getKvB(), {head, g.add(firstRow, i), g.add(firstLatent, g.mul(group, 8))}));
    Values sums(sumCount, g.f32(0));
    // Everything static: loads of a step run ahead of the products of the one before.
    SmallVector<Values> rows = loadRows(weight, 0);
    for (int64_t step = 0; step < shape.steps(); ++step) {
      SmallVector<Values> next;
      if (step + 1 < shape.steps())
        next = loadRows(weight, step + 1);
      multiplyStep(rows, query, step, sums);
      rows = std::move(next);
    }
    return sums;
  }

  /// Four rows of eight latents, as pairs of latents.
  SmallVector<Values> loadRows(ArrayRef<Value> pointers, int64_t step) {
    SmallVector<Values> rows;
    for (Value pointer : pointers) {
      Value from = g.advance(pointer, step * stepDepth * shape.latent, g.bf16());
      Value four = g.loadRaw(from, g.vectorOf(4, g.i32()), /*readOnly=*/true);
      rows.emplace_back();
      for (int64_t i = 0; i < 4; ++i)
        rows.back().push_back(vector::ExtractOp::create(g.b, g.loc, four, ArrayRef<int64_t>{i}));
    }
    return rows;
  }

  /// Low or high halves of two words, as a pair.
  Value pairHalves(Value x, Value y, bool high) {
    return g.intrinsic(g.i32(), "llvm.nvvm.prmt", {x, y, g.i32(high ? 0x7632 : 0x5410)});
  }

  void multiplyStep(ArrayRef<Values> rows, ArrayRef<Value> query, int64_t step, Values &sums) {
    // terms[term] = A of the step.
    SmallVector<Values> terms(termCount, Values(4));
    for (auto [half, pointer] : llvm::enumerate(query)) {
      Values four = q.load(g.advance(pointer, step * stepDepth, q.elementType()));
      for (int64_t pair = 0; pair < 2; ++pair)
        for (auto [term, word] : llvm::enumerate(splitPair(g, four[2 * pair], four[2 * pair + 1], termCount)))
          terms[term][2 * pair + half] = word;
    }
    for (int64_t tile = 0; tile < tiles; ++tile) {
      bool high = tile % 2;
      Values b = {pairHalves(rows[0][tile / 2], rows[1][tile / 2], high),
                  pairHalves(rows[2][tile / 2], rows[3][tile / 2], high)};
      Values own(ArrayRef(sums).slice(4 * tile, 4));
      for (const Values &a : llvm::reverse(terms))
        own = k3::multiplyStep(g, a, b, own);
      llvm::copy(own, sums.begin() + 4 * tile);
    }
  }

  /// Of all slices, for the warp of the first. `part`: number of the warp's tokens and latents.
  Values addSlices(ArrayRef<Value> sums, Value slice, Value part) {
    int64_t words = warpTokens * warpLatents;
    auto word = [&](Value from, int64_t i) {
      Value number = g.add(g.mul(g.add(g.mul(part, shape.slices - 1), g.sub(from, 1)), words), g.laneId());
      return g.advance(g.shared(int64_t(0)), g.add(number, 32 * i), g.f32());
    };
    g.ifThen(g.gt(slice, 0), [&] {
      for (int64_t i = 0; i < sumCount; ++i)
        g.storeRaw(sums[i], word(slice, i));
    });
    g.barrier();
    return g.ifThenElse(
        g.eq(slice, 0),
        [&] {
          Values all(sums);
          for (int64_t from = 1; from < shape.slices; ++from)
            for (int64_t i = 0; i < sumCount; ++i)
              all[i] = g.add(all[i], g.loadRaw(word(g.i32(from), i), g.f32()));
          return all;
        },
        [&] { return Values(sums); });
  }

  /// Sums 0 and 1 of a tile are of the first token, columns 2 quad and 2 quad + 1, which stand for latents 8 column + tile.
  void store(ArrayRef<Value> sums) {
    Value latent = g.add(firstLatent, g.mul(quad, 16));
    for (int64_t half : {0, 1}) {
      Value token = g.add(g.add(firstToken, group), 8 * half);
      g.ifThen(g.lt(token, tokens), [&] {
        Value pointer = g.element(op.getOut(), {token, head, latent});
        for (int64_t start = 0; start < 16; start += 4) {
          Values four;
          for (int64_t i = start; i < start + 4; ++i)
            four.push_back(sums[4 * (i % 8) + 2 * half + i / 8]);
          out.store(four, g.advance(pointer, start, g.f32()));
        }
      });
    }
  }

  /// out[t, h, l:] = q[t, h, nope:]
  void copyRest() {
    int64_t rest = GpuBuilder::staticDim(op.getQ(), 2) - shape.nope;
    g.forThreads(shape.tokensPerBlock() * rest, [&](Value number) {
      Value token = g.add(blockToken, g.div(number, rest)), column = g.rem(number, rest);
      g.ifThen(g.lt(token, tokens), [&] {
        Value value = g.load(op.getQ(), {token, head, g.add(column, shape.nope)}, /*readOnly=*/true);
        g.store(value, op.getOut(), {token, head, g.add(column, shape.latent)});
      });
    });
  }

  const GpuBuilder &g;
  MlaAbsorbOp op;
  AbsorbShape shape;
  /// bf16 terms of an element of q.
  int64_t termCount;
  RunTensor q, out;
  Value quad, group, head, tokens, blockToken, firstToken, firstLatent;
};

} // namespace

std::optional<GpuLaunch> k3::configureMlaAbsorb(MlaAbsorbOp op, Phase phase, const GpuTarget &) {
  std::optional<AbsorbShape> shape = shapeOf(op, phase);
  if (!shape)
    return std::nullopt;
  GpuLaunch launch;
  launch.strategy = phase == Phase::decode ? "few" : "many";
  launch.grid = {{"T", shape->tokensPerBlock()}, {"l", shape->latentsPerBlock()}, {"H", 1}};
  launch.threads = shape->threads();
  launch.sharedBytes = shape->sharedBytes();
  return launch;
}

LogicalResult k3::emitMlaAbsorb(OpBuilder &b, MlaAbsorbOp op, KernelConfigAttr config, const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  if (getAlignedElements(op.getKvB()) < 8)
    return op.emitOpError("expected a weight whose rows are aligned to 16 bytes");
  AbsorbEmitter(g, op, *shapeOf(op, config.getStrategy() == "few" ? Phase::decode : Phase::prefill), target).emit();
  return success();
}

//===----------------------------------------------------------------------===//
// k3.mla.expand
//===----------------------------------------------------------------------===//

/// Tokens of a block in prefill.
static constexpr int64_t prefillTokens = 128;

static SkinnyShape skinnyShapeOf(MlaExpandOp op, Phase phase, const GpuTarget &target) {
  return SkinnyShape::choose(getStaticNamedDim(op, "v"), getStaticNamedDim(op, "l"), getStaticNamedDim(op, "H"),
                             getElementTypeOrSelf(op.getX().getType()), phase == Phase::decode, target);
}

std::optional<GpuLaunch> k3::configureMlaExpand(MlaExpandOp op, Phase phase, const GpuTarget &target) {
  int64_t rows = getStaticNamedDim(op, "v"), depth = getStaticNamedDim(op, "l"), heads = getStaticNamedDim(op, "H");
  if (ShapedType::isDynamic(rows) || ShapedType::isDynamic(depth) || ShapedType::isDynamic(heads) || rows == 0 ||
      !SkinnyShape::supports(depth) || !getElementTypeOrSelf(op.getKvB().getType()).isBF16())
    return std::nullopt;
  SkinnyShape shape = skinnyShapeOf(op, phase, target);
  GpuLaunch launch;
  launch.strategy = phase == Phase::decode ? "few" : "many";
  launch.grid = {{"v", shape.rowsPerBlock()}, {"H", 1}};
  if (phase == Phase::prefill)
    launch.grid.push_back({"T", prefillTokens});
  launch.threads = shape.threads();
  launch.sharedBytes = shape.sharedBytes();
  return launch;
}

LogicalResult k3::emitMlaExpand(OpBuilder &b, MlaExpandOp op, KernelConfigAttr config, const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  if (getAlignedElements(op.getKvB()) < 8)
    return op.emitOpError("expected a weight whose rows are aligned to 16 bytes");
  bool isPrefill = config.getStrategy() == "many";
  SkinnyShape shape = skinnyShapeOf(op, isPrefill ? Phase::prefill : Phase::decode, target);
  RunTensor x(g, op.getX(), 8, true);
  Value head = g.blockId(1);
  auto weightRow = [&](Value row) { return g.element(op.getKvB(), {head, g.add(row, op.getNope())}); };
  auto inputRow = [&](Value token) { return g.element(op.getX(), {token, head}); };
  auto loadInput = [&](Value pointer) { return x.load(pointer); };
  auto store = [&](Value token, Value row, Value sum) { g.store(sum, op.getOut(), {token, head, row}); };
  SkinnyOperands operands{weightRow, inputRow, loadInput, x.elementType(), target.xTerms, store};
  Value tokens = g.dim(op.getX(), 0), begin = g.i32(0), end = tokens;
  if (isPrefill) {
    begin = g.mul(g.blockId(2), prefillTokens);
    end = g.min(g.add(begin, prefillTokens), tokens);
  }
  emitSkinnyProduct(g, shape, operands, begin, end, g.mul(g.blockId(0), shape.rowsPerBlock()));
  return success();
}
