//===- EmitMlaProducts.cpp - k3.mla.absorb and k3.mla.expand to vector code -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Both multiply with the same weights [H, nope + v, l], head by head. Absorbing sums over rows of them: latents are
// lanes, and queries are spread over these. Expanding sums along rows, as k3.linear does. The order of a sum depends on
// the sizes of the weights alone.
//
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "lib/Codegen/CPU/DotTile.h"
#include "lib/Codegen/CPU/Emitters.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

static void emitAbsorb(OpBuilder &b, const TargetModel &target, MlaAbsorbOp op) {
  VectorBuilder v(b, op.getLoc(), target);
  int64_t nope = op.getNope(), latent = getStaticNamedDim(op, "l"), rest = getStaticNamedDim(op, "qd") - nope;
  // 24 sums, 6 weights and a query; or 8, 4 and one.
  int64_t mostTokens = target.vectorRegisters >= 32 ? 4 : 2, mostVectors = target.vectorRegisters >= 32 ? 6 : 4;
  int64_t vectors = llvm::divideCeil(latent, v.lanes());
  int64_t width = llvm::divideCeil(vectors, llvm::divideCeil(vectors, mostVectors)) * v.lanes();
  Value q = op.getQ(), weight = op.getKvB(), out = op.getOut();

  auto emitTokens = [&](Value h, ArrayRef<Value> tokens) {
    v.loopColumns(latent, width, [&](ArrayRef<Value> columns, int64_t lanes) {
      SmallVector<Value> sums(tokens.size() * columns.size(), v.zero());
      sums = v.loop(v.index(0), v.index(nope), v.index(1), sums, [&](Value j, ValueRange args) {
        SmallVector<Value> next, weights;
        for (Value column : columns)
          weights.push_back(v.loadPartial(weight, {h, j, column}, lanes));
        for (auto [t, token] : llvm::enumerate(tokens)) {
          Value x = v.broadcast(v.loadScalar(q, {token, h, j}));
          for (size_t c = 0; c < columns.size(); ++c)
            next.push_back(v.fma(x, weights[c], args[t * columns.size() + c]));
        }
        return next;
      });
      for (auto [t, token] : llvm::enumerate(tokens))
        for (auto [c, column] : llvm::enumerate(columns))
          v.storePartial(sums[t * columns.size() + c], out, {token, h, column}, lanes);
    });
    for (Value token : tokens)
      v.loopVectors(rest, [&](Value j, int64_t lanes) {
        Value rotary = v.loadPartial(q, {token, h, v.addIndex(j, v.index(nope))}, lanes);
        v.storePartial(rotary, out, {token, h, v.addIndex(j, v.index(latent))}, lanes);
      });
  };
  v.loop(v.index(0), v.dim(q, 1), v.index(1), [&](Value h) {
    v.loopBlocks(v.dim(q, 0), {mostTokens, 1}, [&](Value token, int64_t count) {
      SmallVector<Value> tokens;
      for (int64_t t = 0; t < count; ++t)
        tokens.push_back(v.addIndex(token, v.index(t)));
      emitTokens(h, tokens);
    });
  });
}

static void emitExpand(OpBuilder &b, const TargetModel &target, MlaExpandOp op) {
  VectorBuilder v(b, op.getLoc(), target);
  int64_t latent = getStaticNamedDim(op, "l");
  DotTileSizes sizes(target);
  DotTile tile(v, latent, /*bf16Inputs=*/false, /*fixedOrder=*/true);
  Value x = op.getX(), out = op.getOut(), nope = v.index(op.getNope());
  v.loop(v.index(0), v.dim(x, 1), v.index(1), [&](Value h) {
    v.loopBlocks(v.dim(out, 2), sizes.rows, [&](Value column, int64_t rows) {
      SmallVector<MatrixRow> weights;
      for (int64_t r = 0; r < rows; ++r)
        weights.push_back({op.getKvB(), {h, v.addIndex(v.addIndex(column, nope), v.index(r))}});
      v.loopBlocks(v.dim(x, 0), sizes.inputs, [&](Value token, int64_t count) {
        SmallVector<MatrixRow> inputs;
        for (int64_t t = 0; t < count; ++t)
          inputs.push_back({x, {v.addIndex(token, v.index(t)), h}});
        SmallVector<Value> sums = tile.emit(weights, inputs, v.index(0), v.index(latent));
        for (int64_t t = 0; t < count; ++t) {
          ArrayRef<Value> ofToken = ArrayRef(sums).slice(t * rows, rows);
          SmallVector<Value> at = inputs[t].index(column);
          if (rows == 4)
            vector::StoreOp::create(b, op.getLoc(), v.reduceAdd4(ofToken), out, at);
          else
            for (auto [r, sum] : llvm::enumerate(v.reduceAddAll(ofToken)))
              v.storeScalar(sum, out, inputs[t].index(v.addIndex(column, v.index(r))));
        }
      });
    });
  });
}

void k3::populateMlaProductEmitters(RewritePatternSet &patterns, const TargetModel &target) {
  patterns.add<EmitterPattern<MlaAbsorbOp, emitAbsorb>, EmitterPattern<MlaExpandOp, emitExpand>>(patterns.getContext(),
                                                                                              target);
}
