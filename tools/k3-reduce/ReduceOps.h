//===- ReduceOps.h - reduction of IR one op at a time -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3REDUCE_REDUCEOPS_H
#define K3_TOOLS_K3REDUCE_REDUCEOPS_H

namespace mlir::k3 {

/// Registers the pass k3-reduce-ops{test=SCRIPT}: while one of these leaves valid IR that SCRIPT finds interesting
/// (exit code 1), do it: erase an op or function that nothing uses; apply a dialect's reduction pattern to an op;
/// return nothing from a function that nothing calls. Upstream's reduction-tree also erases ops that are used, which
/// ends badly for values that depend on each other.
void registerReduceOpsPass();

} // namespace mlir::k3

#endif // K3_TOOLS_K3REDUCE_REDUCEOPS_H
