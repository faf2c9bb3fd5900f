//===- DecomposeAttnRes.cpp - AttnRes ops as upstream ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/Interfaces/Decompose.h"

using namespace mlir;
using namespace mlir::k3;

Decomposed k3::decompose(AttnResMixOp op, TensorBuilder &b) {
  double eps = op.getEps().convertToDouble();
  Value sources = op.getSources(), zero = b.index(0);
  Value proj = b.slice(op.getProjWeight(), {Dim::at(zero), Dim::all()});
  OpFoldResult slots = b.size(op.getStream(), 0);

  Value result = b.forEach(zero, b.size(op.getStream(), 1), op.getOut(), [&](Value t, Value out) {
    // One logit per source: the key is the normed source, the query proj; the norm's gain is folded into the query.
    // Sized by the slots, not the sources, so that the temporary has a bound.
    Value logits = b.forEach(zero, sources, b.empty({slots}), [&](Value s, Value logits) {
      Value source = b.slice(op.getStream(), {Dim::at(s), Dim::at(t), Dim::all()});
      Value query = b.sum({source, op.getNormWeight(), proj},
                          [](TensorBuilder &b, ValueRange args) { return b.mul(args[0], b.mul(args[1], args[2])); });
      return b.store(b.mul(query, emitRmsFactor(b, source, eps)), logits, {s});
    });
    logits = b.slice(logits, {Dim::range(zero, sources)});
    Value highest = b.load(b.generic("s", "s", {{logits, "s"}},
                                     Arg{b.filled({}, b.f32(-std::numeric_limits<float>::infinity())), ""},
                                     [](TensorBuilder &b, ValueRange args) { return b.max(args[1], args[0]); }));
    Value total = b.sum(logits, [&](TensorBuilder &b, ValueRange args) { return b.exp(b.sub(args[0], highest)); });

    SmallVector<Dim> at{Dim::at(t), Dim::all()};
    Value row = b.slice(out, at);
    Value mixed = b.fill(b.accumulator(row), b.f32(0));
    mixed = b.forEach(zero, sources, mixed, [&](Value s, Value mixed) {
      Value weight = b.div(b.exp(b.sub(b.load(logits, {s}), highest)), total);
      Value source = b.slice(op.getStream(), {Dim::at(s), Dim::at(t), Dim::all()});
      return b.map(source, mixed,
                   [&](TensorBuilder &b, ValueRange args) { return b.add(args[1], b.mul(args[0], weight)); });
    });
    if (op.getOutWeight()) {
      Value factor = emitRmsFactor(b, mixed, op.getOutEps()->convertToDouble());
      mixed = b.map(op.getOutWeight(), mixed,
                    [&](TensorBuilder &b, ValueRange args) { return b.mul(b.mul(args[1], factor), args[0]); });
    }
    return b.put(b.finish(mixed, row), out, at);
  });
  return {result};
}

Decomposed k3::decompose(AttnResAccumulateOp op, TensorBuilder &b) {
  SmallVector<Dim> at{Dim::at(op.getSlot()), Dim::all(), Dim::all()};
  Value slot = b.slice(op.getStream(), at);
  Value sum = b.map(op.getDelta(), slot, [&](TensorBuilder &b, ValueRange args) {
    return op.getInit() ? args[0] : b.add(args[1], args[0]);
  });
  return {b.put(sum, op.getStream(), at)};
}
