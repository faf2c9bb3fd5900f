//===- Sequences.cpp - which sequence a row of a step belongs to -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Tile/Sequences.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::k3;

Value k3::findSequence(const GpuBuilder &g, Value cu, Value row) {
  auto startOf = [&](Value n) { return g.load(cu, {n}, /*readOnly=*/true); };
  Value last = g.sub(g.dim(cu, 0), 2);
  Value guess = g.min(row, last);
  Value low = startOf(guess), high = startOf(g.add(guess, 1));
  Value isRight = g.logicalAnd(g.le(low, row), g.lt(row, high));
  return g.ifThenElse(
      isRight, [&] { return SmallVector<Value>{guess}; },
      [&] {
        // The first n whose end is past the row: sequences without rows in between are skipped.
        OpBuilder &b = g.b;
        auto search = scf::WhileOp::create(
            b, g.loc, TypeRange{g.i32(), g.i32()}, ValueRange{g.i32(0), last},
            [&](OpBuilder &inner, Location loc, ValueRange bounds) {
              OpBuilder::InsertionGuard guard(b);
              b.setInsertionPointToEnd(inner.getInsertionBlock());
              scf::ConditionOp::create(b, loc, g.lt(bounds[0], bounds[1]), bounds);
            },
            [&](OpBuilder &inner, Location loc, ValueRange bounds) {
              OpBuilder::InsertionGuard guard(b);
              b.setInsertionPointToEnd(inner.getInsertionBlock());
              Value middle = g.div(g.add(bounds[0], bounds[1]), 2);
              Value isPast = g.gt(startOf(g.add(middle, 1)), row);
              scf::YieldOp::create(b, loc,
                                   ValueRange{g.select(isPast, bounds[0], g.add(middle, 1)),
                                              g.select(isPast, middle, bounds[1])});
            });
        return SmallVector<Value>{search.getResult(0)};
      })[0];
}
