//===- K3AttnResOps.td - structured ops of Block AttnRes -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_ATTN_RES_OPS_TD
#define K3_ATTN_RES_OPS_TD

include "dialects/k3/IR/K3StructuredBase.td"

def K3_AttnResMixOp : K3_StructuredOp<"attn_res.mix",
    "T | R T d | - | d | one d | d | T d",
    "false", "getODSOperandIndexAndLength(5).first, 1", []> {
  let summary = "softmax mix over snapshots and the running partial sum, optionally normed";
  let description = [{
    `stream` holds the snapshots and, last, the running partial sum: rows `0 .. sources`. Per token:

        l_s = rsqrt(mean(v_s^2) + eps) * sum_j v_s[j] * norm_weight[j] * proj_weight[0, j]
        x = sum_s softmax(l)_s * v_s            raw values, f32

    `out = x`, or `rms(x; out_weight, out_eps)` when `out_weight` is given (the norm that follows every mix).

    * (C1) `1 <= sources <= R` at run time. (C2) `one = 1`. (C3) `out_weight` and `out_eps` come together.
  }];
  let arguments = (ins K3_Float:$stream,
                       Index:$sources,
                       K3_Float:$norm_weight,
                       K3_Float:$proj_weight,
                       Optional<K3_Float>:$out_weight,
                       K3_Float:$out,
                       F64Attr:$eps,
                       OptionalAttr<F64Attr>:$out_eps,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["stream", "sources", "norm_weight", "proj_weight"], ["out"], ["out_weight"]>.format;
  let hasCanonicalizer = 1;
}

def K3_AttnResAccumulateOp : K3_StructuredOp<"attn_res.accumulate",
    "T | T d | - | R T d",
    "true", "2, 1", []> {
  let summary = "add a sublayer's output to the partial sum";
  let description = [{
    `stream[slot] += delta`, or `stream[slot] = delta` with `init`: the first sublayer after a snapshot. Taking a snapshot
    costs nothing: the partial sum stays where it is and the next slot becomes the partial sum.

    * (C1) `0 <= slot < R` at run time.
  }];
  let arguments = (ins K3_Float:$delta,
                       Index:$slot,
                       K3_Float:$stream,
                       UnitAttr:$init,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["delta", "slot"], ["stream"]>.format;
}

#endif // K3_ATTN_RES_OPS_TD
