//===- K3KdaOps.td - structured ops of Kimi Delta Attention -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_KDA_OPS_TD
#define K3_KDA_OPS_TD

include "dialects/k3/IR/K3StructuredBase.td"

def K3_KdaShortConvOp : K3_StructuredOp<"kda.short_conv",
    "C | T C | C taps | N1 | N | T C | S hist C",
    "initIndex == 1", "4, 2", []> {
  let summary = "causal depthwise convolution that continues over steps";
  let description = [{
    Per channel c and sequence n with rows `cu[n] .. cu[n+1]`: `out[t] = f(sum_j weight[c, j] * u[t - (taps-1) + j])`,
    f = silu or the identity, where u continues to the left into `state[slots[n]]` (the last taps - 1 raw inputs, oldest
    first). The state is then advanced to the last taps - 1 inputs, also when a step brings fewer.

    * (C1) `hist = taps - 1`, `taps >= 2`. (C2) `N1 = N + 1`. (C3) slots are distinct; an empty sequence leaves its state untouched.
  }];
  let arguments = (ins K3_Float:$x,
                       K3_Float:$weight,
                       K3_Int:$cu,
                       K3_Int:$slots,
                       K3_Float:$out,
                       K3_Float:$state,
                       BoolAttr:$silu,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["x", "weight", "cu", "slots"], ["out", "state"]>.format;
}

def K3_KdaGateOp : K3_StructuredOp<"kda.gate",
    "T H | T H K | H K | H+ | T H K",
    "false", "getODSOperandIndexAndLength(3).first, 1", []> {
  let summary = "log-decay per channel";
  let description = [{
    With `a = exp(a_log[h])` (1 when absent) and `y = z + dt_bias`:
    bounded_sigmoid: `lower_bound * sigmoid(a * y)`; softplus: `-a * softplus(y)`. Entries of `a_log` past H are padding.

    * (C1) bounded_sigmoid needs `lower_bound < 0`, softplus has none. (C2) softplus needs `a_log`. (C3) `a_log` has at
      least H entries.
  }];
  let arguments = (ins K3_Float:$z,
                       K3_Float:$dt_bias,
                       Optional<K3_Float>:$a_log,
                       K3_F32:$out,
                       K3_GateKindAttr:$kind,
                       OptionalAttr<F64Attr>:$lower_bound,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["z", "dt_bias"], ["out"], ["a_log"]>.format;
}

def K3_KdaScanOp : K3_StructuredOp<"kda.scan",
    "H | T H K | T H K | T H V | T H | N1 | N | T H K? | T H V | S H V K",
    "initIndex == 1", "getODSOperandIndexAndLength(7).first, 2", []> {
  let summary = "gated delta rule over whole sequences, before a strategy is chosen";
  let description = [{
    For each sequence n, head h and row t of `cu[n] .. cu[n+1]`, with S = `state[slots[n], h]` stored `[value, key]`,
    q' = scale * l2(q) and k' = l2(k) if `l2norm` (eps 1e-6 inside the root, on the sum), b = sigmoid(beta):

        S <- S diag(exp(g))              g per channel [T, H, K], per head [T, H], or absent (no decay)
        e = b * (v - S k')               delta; without it e = b * v
        S <- S + e k'^T
        out = S q'

    Kimi Delta Attention is per-channel g with delta; Gated DeltaNet is per-head g with delta; DeltaNet has no g; gated
    linear attention has no delta. `beta` holds logits. `gate_bound`, where given, is a lower bound of g that holds by
    construction (K3: -5); chunked strategies choose their anchor by it. With `fixed_order` there is none: rows are taken
    one by one, so that the result has the same bits wherever a sequence is cut.

    * (C1) `N1 = N + 1`. (C2) `gate_bound <= 0`. (C3) g has rank 2 or 3.
  }];
  let arguments = (ins K3_Float:$q,
                       K3_Float:$k,
                       K3_Float:$v,
                       K3_Float:$beta,
                       K3_Int:$cu,
                       K3_Int:$slots,
                       Optional<K3_F32>:$g,
                       K3_F32:$out,
                       K3_F32:$state,
                       F64Attr:$scale,
                       BoolAttr:$l2norm,
                       BoolAttr:$delta,
                       OptionalAttr<F64Attr>:$gate_bound,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config,
                       UnitAttr:$fixed_order);
  let assemblyFormat = K3_DpsFormat<["q", "k", "v", "beta", "cu", "slots"], ["out", "state"], ["g"]>.format;
}

def K3_KdaRecurrentStepOp : K3_StructuredOp<"kda.recurrent_step",
    "H | N H K | N H K | N H V | N H | N | N H K? | N H V | S H V K",
    "initIndex == 1", "getODSOperandIndexAndLength(6).first, 2", []> {
  let summary = "k3.kda.scan for exactly one row per sequence";
  let description = [{
    `k3.kda.scan` with row n belonging to sequence n: one read and one write of the state.
  }];
  let arguments = (ins K3_Float:$q,
                       K3_Float:$k,
                       K3_Float:$v,
                       K3_Float:$beta,
                       K3_Int:$slots,
                       Optional<K3_F32>:$g,
                       K3_F32:$out,
                       K3_F32:$state,
                       F64Attr:$scale,
                       BoolAttr:$l2norm,
                       BoolAttr:$delta,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["q", "k", "v", "beta", "slots"], ["out", "state"], ["g"]>.format;
}

def K3_KdaDecodeStepOp : K3_StructuredOp<"kda.decode_step",
    " | N CK | N CK | N CV | N H K | N H | N H V | CK taps | CK taps | CV taps | H K | V | N | H+ | N H V | S H V K | S hist CK | S hist CK | S hist CV",
    "initIndex >= 1", "getODSOperandIndexAndLength(13).first, 5", []> {
  let summary = "a whole KDA layer for one row per sequence, from projections to gated heads";
  let description = [{
    With `conv` = `k3.kda.short_conv` with silu of one row per sequence, on the states `conv_q`, `conv_k`, `conv_v`:

        q' = conv(q; q_weight)    k' = conv(k; k_weight)    v' = conv(v; v_weight)
        g = kda.gate(z; dt_bias, a_log)    o = kda.recurrent_step(q', k', v', beta, g)
        out = kda.gated_norm(o, gate; norm_weight)

    Each state is read and written once, and nothing in between reaches memory.

    * (C1) `CK = H K`, `CV = H V`. (C2) `hist = taps - 1`, `taps >= 2`. (C3) bounded_sigmoid needs `lower_bound < 0`,
      softplus has none and needs `a_log`. (C4) slots are distinct. (C5) `eps >= 0`.
  }];
  let arguments = (ins K3_Float:$q,
                       K3_Float:$k,
                       K3_Float:$v,
                       K3_Float:$z,
                       K3_Float:$beta,
                       K3_Float:$gate,
                       K3_Float:$q_weight,
                       K3_Float:$k_weight,
                       K3_Float:$v_weight,
                       K3_Float:$dt_bias,
                       K3_Float:$norm_weight,
                       K3_Int:$slots,
                       Optional<K3_Float>:$a_log,
                       K3_Float:$out,
                       K3_F32:$state,
                       K3_Float:$conv_q,
                       K3_Float:$conv_k,
                       K3_Float:$conv_v,
                       K3_GateKindAttr:$kind,
                       OptionalAttr<F64Attr>:$lower_bound,
                       F64Attr:$scale,
                       BoolAttr:$l2norm,
                       BoolAttr:$delta,
                       F64Attr:$eps,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["q", "k", "v", "z", "beta", "gate", "q_weight", "k_weight", "v_weight", "dt_bias",
                                     "norm_weight", "slots"], ["out", "state", "conv_q", "conv_k", "conv_v"], ["a_log"]>.format;
}

def K3_KdaChunkPrepareOp : K3_StructuredOp<"kda.chunk_prepare",
    "C H | T H K | T H K | T H V | T H K | T H | C two | H K | H+ | C H L K | C H L K | C H L V | C H L K | C H L L | C H K",
    "false", "getODSOperandIndexAndLength(8).first, 6", [AttrSizedOperandSegments]> {
  let summary = "the state-free part of chunked KDA";
  let description = [{
    Chunk c covers rows `chunks[c, 0] .. chunks[c, 0] + chunks[c, 1]` (at most L of them, one sequence). With q', k', b as
    in `k3.kda.scan`, G the running sum of g inside the chunk:

        Akk_ij = sum_d k'_i k'_j exp(G_i - G_j)  (j < i)     Aqk_ij likewise with q'_i, j <= i
        T = (I + strict_lower(diag(b) Akk))^-1
        w = T diag(b) (exp(G) k')    u = T diag(b) v    qg = exp(G) q'    kd = exp(G_last - G) k'    gl = exp(G_last)

    Rows past the chunk's length are written as zero. With `gate` the operand `g` holds logits, and the log-decay is what
    `k3.kda.gate` of this kind makes of them with `dt_bias`, `a_log` and `lower_bound`.

    `anchor` says how exp(G_i - G_j) may be factored: `zero` needs |g| L below the exponent range, `mid_row` half of that,
    `tile_row` |g| 15 (relative to the first row of the 16 that both are in), `pairwise` nothing. Which of those that hold
    is used does not matter to the meaning.

    * (C1) `two = 2`. (C2) L is 16, 32 or 64. (C3) `dt_bias` iff `gate`; without `gate` no `a_log` and no `lower_bound`;
      with it (C1) and (C2) of `k3.kda.gate`.
  }];
  let arguments = (ins K3_Float:$q,
                       K3_Float:$k,
                       K3_Float:$v,
                       K3_Float:$g,
                       K3_Float:$beta,
                       K3_Int:$chunks,
                       Optional<K3_Float>:$dt_bias,
                       Optional<K3_Float>:$a_log,
                       K3_Float:$qg,
                       K3_Float:$w,
                       K3_Float:$u,
                       K3_Float:$kd,
                       K3_Float:$aqk,
                       K3_F32:$gl,
                       F64Attr:$scale,
                       BoolAttr:$l2norm,
                       K3_AnchorAttr:$anchor,
                       OptionalAttr<K3_GateKindAttr>:$gate,
                       OptionalAttr<F64Attr>:$lower_bound,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["q", "k", "v", "g", "beta", "chunks"], ["qg", "w", "u", "kd", "aqk", "gl"],
                                    ["dt_bias", "a_log"]>.format;
}

def K3_KdaChunkScanOp : K3_StructuredOp<"kda.chunk_scan",
    "H | C H L K | C H L K | C H L V | C H L K | C H L L | C H K | C two | N1 | N | T H V | S H V K",
    "initIndex == 1", "9, 2", []> {
  let summary = "the sequential part of chunked KDA";
  let description = [{
    For sequence n, chunks `chunk_cu[n] .. chunk_cu[n+1]` in order, with S = `state[slots[n], h]` (as `[key, value]` here):

        Vn = u - w S        out = qg S + aqk Vn        S <- diag(gl) S + kd^T Vn

    With parts in bf16, S and Vn may be rounded to bf16 where they enter a product; S itself stays f32.

    * (C1) `N1 = N + 1`. (C2) the chunks cover every row of `out` exactly once.
  }];
  let arguments = (ins K3_Float:$qg,
                       K3_Float:$w,
                       K3_Float:$u,
                       K3_Float:$kd,
                       K3_Float:$aqk,
                       K3_F32:$gl,
                       K3_Int:$chunks,
                       K3_Int:$chunk_cu,
                       K3_Int:$slots,
                       K3_Float:$out,
                       K3_F32:$state,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["qg", "w", "u", "kd", "aqk", "gl", "chunks", "chunk_cu", "slots"], ["out", "state"]>.format;
}

def K3_KdaGatedNormOp : K3_StructuredOp<"kda.gated_norm",
    "T H | T H V | T H V | V | T H V",
    "false", "3, 1", []> {
  let summary = "per-head norm times sigmoid gate";
  let description = [{
    `out[t, h] = rms(x[t, h]; weight, eps) * sigmoid(gate[t, h])`, f32 inside.

    * (C1) `eps >= 0`.
  }];
  let arguments = (ins K3_Float:$x,
                       K3_Float:$gate,
                       K3_Float:$weight,
                       K3_Float:$out,
                       F64Attr:$eps,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["x", "gate", "weight"], ["out"]>.format;
}

#endif // K3_KDA_OPS_TD
