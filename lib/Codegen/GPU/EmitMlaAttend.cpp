//===- EmitMlaAttend.cpp - attention over the latent cache on a GPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/LatentAttention.h"
#include "lib/Codegen/GPU/Tile/Sequences.h"

using namespace mlir;
using namespace mlir::k3;

//===----------------------------------------------------------------------===//
// k3.mla.attend: a block has some tokens and heads, and goes over all that they see
//===----------------------------------------------------------------------===//

static std::optional<AttentionPlan> planAttend(MlaAttendOp op, bool oneToken, const GpuTarget &target) {
  return AttentionPlan::make(getStaticNamedDim(op, "H"), getStaticNamedDim(op, "lr"), getStaticNamedDim(op, "l"),
                             getStaticNamedDim(op, "page"), getElementTypeOrSelf(op.getCache().getType()),
                             /*rounded=*/false, oneToken, target);
}

std::optional<GpuLaunch> k3::configureMlaAttend(MlaAttendOp op, Phase phase, const GpuTarget &target) {
  bool oneToken = phase == Phase::decode;
  std::optional<AttentionPlan> plan = planAttend(op, oneToken, target);
  if (!plan)
    return std::nullopt;
  GpuLaunch launch;
  launch.strategy = oneToken ? "step" : "rows";
  launch.grid = {{"T", plan->tokens}, {"H", plan->heads}};
  launch.threads = AttentionPlan::threads;
  launch.sharedBytes = plan->sharedBytes;
  return launch;
}

LogicalResult k3::emitMlaAttend(OpBuilder &b, MlaAttendOp op, KernelConfigAttr config, const GpuTarget &target) {
  GpuBuilder g(b, op.getLoc(), target, config);
  AttentionPlan plan = *planAttend(op, config.getStrategy() == "step", target);
  g.setMinBlocks(1); // all registers that there are
  LatentAttention attention(g, plan, op.getQ(), op.getCache(), op.getPageTable(), op.getScale().convertToDouble());
  // Tokens late in their sequence see most: they come first.
  Value block = g.sub(g.sub(g.gridSize(0), 1), g.blockId(0));
  Value first = g.mul(block, plan.tokens), head = g.mul(g.blockId(1), plan.heads);
  Value end = g.min(g.add(first, plan.tokens), g.toI32(g.dim(op.getQ(), 0)));
  g.ifThen(g.lt(first, end), [&] {
    attention.start();
    // The block's tokens, sequence by sequence.
    g.loop(g.i32(0), g.i32(plan.tokens), g.i32(1), {first, g.i32(0)}, [&](Value, ValueRange carried) {
      Value low = carried[0], fetched = carried[1];
      return g.ifThenElse(
          g.lt(low, end),
          [&] {
            Value n = findSequence(g, op.getCu(), low);
            Value begin = g.load(op.getCu(), {n}, true), high = g.min(g.load(op.getCu(), {g.add(n, 1)}, true), end);
            Value before = g.sub(g.load(op.getLengths(), {n}, true), begin); // of the sequence, from row 0 of the step
            Value limit = g.add(before, high);
            Value tiles = g.ceilDiv(limit, AttentionPlan::tileRows);
            QueryRows rows{first, head, g.add(g.add(before, first), 1), low, high};
            Value next =
                attention.attend(rows, n, g.i32(0), tiles, limit, fetched, [&](const LatentAttention::Result &result) {
                  Value inverse = g.reciprocal(result.total);
                  Value place = g.element(op.getOut(), {result.token, result.head, result.column});
                  for (size_t i = 0; i < result.sums.size(); i += 2)
                    g.storeFloats({g.mul(result.sums[i], inverse), g.mul(result.sums[i + 1], inverse)},
                                  g.advance(place, 4 * i, g.f32()), g.f32());
                });
            return SmallVector<Value>{high, next};
          },
          [&] { return SmallVector<Value>{low, fetched}; });
    });
  });
  return success();
}
