//===- K3LatentMoeOps.td - structured ops of LatentMoE -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_LATENT_MOE_OPS_TD
#define K3_LATENT_MOE_OPS_TD

include "dialects/k3/IR/K3StructuredBase.td"

def K3_MoeRouteOp : K3_StructuredOp<"latent_moe.route",
    "T | T E | E | T k | T k",
    "false", "2, 2", []> {
  let summary = "sigmoid router with a selection bias";
  let description = [{
    `s = sigmoid(logits)`; ids = the k largest of `s + bias`, in falling order, the lower id first on ties; weights =
    `s[ids]` (unbiased), divided by their sum + 1e-20 with `renormalize`, times `scale`. All f32.

    * (C1) `k <= E`.
  }];
  let arguments = (ins K3_F32:$logits,
                       K3_Float:$bias,
                       K3_Int:$ids,
                       K3_F32:$weights,
                       BoolAttr:$renormalize,
                       F64Attr:$scale,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["logits", "bias"], ["ids", "weights"]>.format;
}

def K3_MoePlanOp : K3_StructuredOp<"latent_moe.plan",
    " | T k | T k | E1 | T k",
    "false", "1, getProgress() ? 3 : 2", []> {
  let summary = "sort the routed slots by expert";
  let description = [{
    A slot is `t * k + i`. `perm` lists all slots by rising expert and, inside an expert, by rising slot (a stable counting
    sort); `offsets[e] .. offsets[e+1]` is the range of expert e. `E1 = E + 1`. `progress`, the first
    result where there is one, becomes zero, for `k3.latent_moe.expert_mlp`.
  }];
  let arguments = (ins K3_Int:$ids,
                       Optional<K3_Int>:$progress,
                       K3_Int:$offsets,
                       K3_Int:$perm,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["ids"], ["offsets", "perm"], ["progress"]>.format;
}

def K3_MoeGroupedContractOp : K3_StructuredOp<"latent_moe.grouped_contract",
    "n | T k? kx | E1 | T k | E n wk | E n kg | E n wk | E n kg | T k n",
    "false", "getODSOperandIndexAndLength(7).first, 1", [AttrSizedOperandSegments]> {
  let summary = "every routed slot through its expert's matrix";
  let description = [{
    For expert e and slot s in its range: `out[s] = x_s weight[e]^T`, where x is `[T, K]` (x_s = x[s / k]) or, per slot,
    `[T, k, K]` (x_s = x[s]). With `up_weight`: `out[s] = act(x_s weight[e]^T, x_s up_weight[e]^T)`, the fused gated
    unit. MXFP4 weights are i8 with `scale` (and `up_scale`), layout as in `k3.mx.contract`. `bf16_x` and `fixed_order` as
    in these two.

    * (C1) `E1 = E + 1`. (C2) i8 weights have scales, float weights have none. (C3) `activation` iff `up_weight`.
      (C4) the contraction sizes agree. (C5) `bf16_x` needs bf16 or MXFP4 weights.
  }];
  let arguments = (ins K3_Float:$x,
                       K3_Int:$offsets,
                       K3_Int:$perm,
                       K3_Weight:$weight,
                       Optional<K3_Weight>:$scale,
                       Optional<K3_Weight>:$up_weight,
                       Optional<K3_Weight>:$up_scale,
                       K3_Float:$out,
                       OptionalAttr<K3_ActivationAttr>:$activation,
                       DefaultValuedAttr<F64Attr, "0.0">:$beta,
                       DefaultValuedAttr<F64Attr, "0.0">:$linear_beta,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config,
                       UnitAttr:$bf16_x,
                       UnitAttr:$fixed_order);
  let assemblyFormat = K3_DpsFormat<["x", "offsets", "perm", "weight"], ["out"], ["scale", "up_weight", "up_scale"]>.format;
}

def K3_MoeExpertMlpOp : K3_StructuredOp<"latent_moe.expert_mlp",
    " | T k? kx | E1 | T k | E n wk | E n kg | E n wk | E n kg | E m wn | E m ng | T k n | T k m | T k",
    "initIndex == 2", "getODSOperandIndexAndLength(9).first, 3", [AttrSizedOperandSegments]> {
  let summary = "every routed slot through its expert's gated unit and down projection";
  let description = [{
    `k3.latent_moe.grouped_contract` of x with `weight` and `up_weight`, whose result is `inner`, and of `inner` with
    `down_weight`, whose result is `out`. `bf16_x` rounds the inputs of both.

    As one kernel, expert e's rows of `out` can begin when its rows of `inner` are there, without an end and a beginning of
    all others between them. `progress` counts what of `inner` is finished: zero before, afterwards anything.

    * (C1) `E1 = E + 1`. (C2) i8 weights have scales, float weights have none, and all are of one type. (C3) situ has
      finite `beta` and `linear_beta` > 0. (C4) the contraction sizes agree. (C5) `bf16_x` needs bf16 or MXFP4 weights.
  }];
  let arguments = (ins K3_Float:$x,
                       K3_Int:$offsets,
                       K3_Int:$perm,
                       K3_Weight:$weight,
                       Optional<K3_Weight>:$scale,
                       K3_Weight:$up_weight,
                       Optional<K3_Weight>:$up_scale,
                       K3_Weight:$down_weight,
                       Optional<K3_Weight>:$down_scale,
                       K3_Float:$inner,
                       K3_Float:$out,
                       K3_Int:$progress,
                       K3_ActivationAttr:$activation,
                       DefaultValuedAttr<F64Attr, "0.0">:$beta,
                       DefaultValuedAttr<F64Attr, "0.0">:$linear_beta,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config,
                       UnitAttr:$bf16_x);
  let assemblyFormat = K3_DpsFormat<["x", "offsets", "perm", "weight", "up_weight", "down_weight"],
                                    ["inner", "out", "progress"], ["scale", "up_scale", "down_scale"]>.format;
}

def K3_MoeCombineOp : K3_StructuredOp<"latent_moe.combine",
    "T n | T k n | T k | T n",
    "getAccumulate()", "2, 1", []> {
  let summary = "weighted sum over a token's experts";
  let description = [{
    `out[t] = sum_i weights[t, i] * y[t, i]` in the order of i, f32; plus the old value with `accumulate`.

    * (C1) `accumulate` needs an f32 `out`.
  }];
  let arguments = (ins K3_Float:$y,
                       K3_F32:$weights,
                       K3_Float:$out,
                       UnitAttr:$accumulate,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["y", "weights"], ["out"]>.format;
}

#endif // K3_LATENT_MOE_OPS_TD
