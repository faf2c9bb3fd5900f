//===- K3CommonOps.td - structured ops every layer uses -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_COMMON_OPS_TD
#define K3_COMMON_OPS_TD

include "dialects/k3/IR/K3StructuredBase.td"

def K3_GatherRowsOp : K3_StructuredOp<"gather_rows",
    "T | T | V d | T d",
    "false", "2, 1", []> {
  let summary = "rows of a table";
  let description = [{
    `out[t] = table[ids[t]]`, converted to the element type of `out`. Used for the embedding and to pick logit rows.

    * (C1) every id is in `[0, V)`; checked at run time by the caller (the runtime checks token ids on entry).
  }];
  let arguments = (ins K3_Int:$ids,
                       K3_Float:$table,
                       K3_Float:$out,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["ids", "table"], ["out"]>.format;
}

def K3_LinearOp : K3_StructuredOp<"linear",
    "T n | T k | n k | T n",
    "getAccumulate()", "2, 1", []> {
  let summary = "product with a stored weight matrix";
  let description = [{
    `out[t, n] = sum_k x[t, k] * weight[n, k]`, plus the old `out[t, n]` with `accumulate`. The weight is read as the
    checkpoint stores it, `[out features, in features]`; products and sums are f32. With `bf16_x` each x is rounded to
    bf16 first (to nearest, ties to even), so that targets with bf16 products can use them. With `fixed_order` a row of
    `out` has the same bits whatever the number of rows is.

    * (C1) `bf16_x` needs a bf16 weight.
    * (C2) `accumulate` needs an f32 `out`. A bf16 `out` is the f32 result rounded.
  }];
  let arguments = (ins K3_Float:$x,
                       K3_Float:$weight,
                       K3_Float:$out,
                       UnitAttr:$accumulate,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config,
                       UnitAttr:$bf16_x,
                       UnitAttr:$fixed_order);
  let assemblyFormat = K3_DpsFormat<["x", "weight"], ["out"]>.format;
}

def K3_MxContractOp : K3_StructuredOp<"mx.contract",
    "T n | T k | n kb | n kg | T n",
    "getAccumulate()", "3, 1", []> {
  let summary = "product with a stored MXFP4 weight matrix";
  let description = [{
    `k3.linear` with `weight[n, k] = E2M1[code(n, k)] * 2^(scale[n, k / 32] - 127)`; byte j of a row holds the codes of
    inputs 2j (low nibble) and 2j + 1 (high nibble). `bf16_x` as in `k3.linear`: codes are exact in bf16, and groups are
    scaled in f32. `fixed_order` as in `k3.linear`.

    * (C1) `weight` and `scale` are i8; `k = 2 kb = 32 kg`.
    * (C2) `accumulate` needs an f32 `out`.
  }];
  let arguments = (ins K3_Float:$x,
                       K3_Weight:$weight,
                       K3_Weight:$scale,
                       K3_Float:$out,
                       UnitAttr:$accumulate,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config,
                       UnitAttr:$bf16_x,
                       UnitAttr:$fixed_order);
  let assemblyFormat = K3_DpsFormat<["x", "weight", "scale"], ["out"]>.format;
}

def K3_RmsNormOp : K3_StructuredOp<"rms_norm",
    "T | T d | d | T d",
    "false", "2, 1", []> {
  let summary = "root mean square norm";
  let description = [{
    `out[t, j] = weight[j] * x[t, j] * rsqrt(mean_j(x[t, j]^2) + eps)`, statistics in f32.

    * (C1) `eps >= 0`.
  }];
  let arguments = (ins K3_Float:$x,
                       K3_Float:$weight,
                       K3_Float:$out,
                       F64Attr:$eps,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["x", "weight"], ["out"]>.format;
}

def K3_GluOp : K3_StructuredOp<"glu",
    "T n | T n | T n | T n",
    "false", "2, 1", []> {
  let summary = "gated linear unit";
  let description = [{
    swiglu: `silu(gate) * up`. situ: `beta * tanh(gate / beta) * sigmoid(gate) * linear_beta * tanh(up / linear_beta)`
    (the sigmoid takes the uncapped gate). f32 inside.

    * (C1) situ needs `beta > 0` and `linear_beta > 0`.
  }];
  let arguments = (ins K3_Float:$gate,
                       K3_Float:$up,
                       K3_Float:$out,
                       K3_ActivationAttr:$activation,
                       DefaultValuedAttr<F64Attr, "0.0">:$beta,
                       DefaultValuedAttr<F64Attr, "0.0">:$linear_beta,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["gate", "up"], ["out"]>.format;
}

def K3_SigmoidGateOp : K3_StructuredOp<"sigmoid_gate",
    "T n | T n | T n | T n",
    "false", "2, 1", []> {
  let summary = "x * sigmoid(gate)";
  let description = [{
    `out = x * sigmoid(gate)`; the output gate of gated MLA.
  }];
  let arguments = (ins K3_Float:$x,
                       K3_Float:$gate,
                       K3_Float:$out,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["x", "gate"], ["out"]>.format;
}

def K3_SampleOp : K3_StructuredOp<"sample",
    "R | R V | R p | B w | R",
    "false", "3, 1", []> {
  let summary = "choose a token from each row of logits";
  let description = [{
    The rules of the runtime's sampler (`text/Sampler.h`) except for the repetition penalty. `parameters[r]` is

    | position | value |
    |---|---|
    | 0 | 0: the row is not looked at; else a token is chosen |
    | 1 | temperature t (bits of an f32); 0: the highest logit, the lower id first on ties |
    | 2 | k: keep the k highest logits, 0: all |
    | 3, 4 | p and m (bits of f32s): keep the smallest set of most likely tokens that reaches p, of these all that are at least m times as likely as the likeliest |
    | 5, 6 | a random number of 53 bits, the low 32 bits first |
    | 7 | row b of `banned`: tokens whose bit (bit v % 32 of word v / 32) is set are not there |

    Weights are integers: `round(2^s exp((logit - highest) / t))`, s = min(51, 62 - floor(log2 V)). Their sums are exact,
    so that the choice does not depend on an order. With k (below the number of tokens there are) or p < 1, tokens are
    taken in the order of falling logits, ties by rising id, else by rising id; chosen is the first whose sum of weights up
    to itself exceeds `random / 2^53` times the sum of all that are kept.

    `ids[r]` is -1 for a row that is not looked at, that has a logit which is not finite, or all of whose tokens are
    banned.

    * (C1) `p = 8`. (C2) `w = ceil(V / 32)`, V static and at least 1.
    * (C3) t, p, m as the sampler checks them, `0 <= b < B`; up to the caller (the runtime fills them in).
  }];
  let arguments = (ins K3_F32:$logits,
                       K3_Int:$parameters,
                       K3_Int:$banned,
                       K3_Int:$ids,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["logits", "parameters", "banned"], ["ids"]>.format;
}

#endif // K3_COMMON_OPS_TD
