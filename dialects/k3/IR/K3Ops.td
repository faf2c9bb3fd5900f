//===- K3Ops.td - all ops of the k3 dialect -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_OPS_TD
#define K3_OPS_TD

include "dialects/k3/IR/K3Types.td"
include "dialects/k3/IR/K3ModelOps.td"
include "dialects/k3/IR/K3CommonOps.td"
include "dialects/k3/IR/K3KdaOps.td"
include "dialects/k3/IR/K3AttnResOps.td"
include "dialects/k3/IR/K3LatentMoeOps.td"
include "dialects/k3/IR/K3MlaOps.td"
include "dialects/k3/IR/K3ExecOps.td"

#endif // K3_OPS_TD
