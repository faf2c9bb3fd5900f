//===- StructuredOpList.h - the structured ops, to attach an interface to each -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_INTERFACES_STRUCTUREDOPLIST_H
#define K3_INTERFACES_STRUCTUREDOPLIST_H

#include "dialects/k3/IR/K3Ops.h"

namespace mlir::k3 {

/// Calls `attach.template operator()<Op>()` for every structured op.
template <typename Attach> void forEachStructuredOp(Attach attach) {
  auto each = [&]<typename... Ops>() { (attach.template operator()<Ops>(), ...); };
  each.template operator()<GatherRowsOp, LinearOp, MxContractOp, RmsNormOp, GluOp, SigmoidGateOp, KdaShortConvOp,
                           KdaGateOp, KdaScanOp, KdaRecurrentStepOp, KdaDecodeStepOp, KdaChunkPrepareOp, KdaChunkScanOp,
                           KdaGatedNormOp, AttnResMixOp, AttnResAccumulateOp, MoeRouteOp, MoePlanOp,
                           MoeGroupedContractOp, MoeExpertMlpOp, MoeCombineOp, MlaAppendOp, MlaAbsorbOp, MlaAttendOp,
                           MlaAttendPartialOp, MlaAttendMergeOp, MlaExpandOp, SampleOp>();
}

} // namespace mlir::k3

#endif // K3_INTERFACES_STRUCTUREDOPLIST_H
