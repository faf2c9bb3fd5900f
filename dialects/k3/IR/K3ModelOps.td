//===- K3ModelOps.td - model-level ops: one per sublayer -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What the importer emits. Values only, no memory: states come in as operands and go out as results. The residual
// stream and the norms before each sublayer are the structured ops `k3.attn_res.*` and `k3.rms_norm` on tensors.
//
//===----------------------------------------------------------------------===//
#ifndef K3_MODEL_OPS_TD
#define K3_MODEL_OPS_TD

include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/k3/IR/K3Attrs.td"
include "dialects/k3/IR/K3Types.td"

def K3_Activations : RankedTensorOf<[F32, BF16]>;
def K3_FloatWeight : RankedTensorOf<[F32, BF16]>;
/// Float, or bytes of packed MXFP4 codes.
def K3_ExpertWeight : RankedTensorOf<[F32, BF16, I8]>;
def K3_ExpertScale : RankedTensorOf<[I8]>;
def K3_Ids : RankedTensorOf<[I32]>;

/// `$first : type [sizes(name = integer, ...)] name(value : type)... [name(value : type)]... attr-dict`; result types are
/// inferred. Sizes are spelled out because inference reads them, and the parser infers before it reads attr-dict.
class K3_ModelFormat<string first, list<string> required, list<string> optional = [], list<string> sizes = []> {
  string sizesFormat = !if(!empty(sizes), "", "`sizes` `(` " #
      !interleave(!foreach(n, sizes, "`" # n # "` `=` $" # n), " `,` ") # " `)` ");
  string requiredFormat =
      !interleave(!foreach(n, required, "`" # n # "` `(` $" # n # " `:` type($" # n # ") `)`"), " ");
  string optionalFormat =
      !interleave(!foreach(n, optional, "(`" # n # "` `(` $" # n # "^ `:` type($" # n # ") `)`)?"), " ");
  string format = "$" # first # " `:` type($" # first # ") " # sizesFormat # requiredFormat # " " # optionalFormat #
                  " attr-dict";
}

/// A pure op whose result types follow from its operands by a free function of TypeInference.h.
class K3_ModelOp<string mnemonic, list<Trait> traits = []>
    : K3_Op<mnemonic, !listconcat(traits, [Pure, InferTypeOpAdaptor])>;

def K3_EmbedOp : K3_ModelOp<"embed"> {
  let summary = "token embedding";
  let description = [{
    `y[t] = table[tokens[t]]` as f32. No scaling, no positions.

    * (C1) `tokens` is `[T]`, `table` is `[vocabulary, hidden]`.
  }];
  let arguments = (ins K3_Ids:$tokens, K3_FloatWeight:$table);
  let results = (outs K3_Activations:$y);
  let assemblyFormat = K3_ModelFormat<"tokens", ["table"]>.format;
}

def K3_LmHeadOp : K3_ModelOp<"lm_head"> {
  let summary = "final norm and vocabulary projection";
  let description = [{
    `logits[r] = rms(x[rows[r]]; norm, eps) weight^T` in f32; all rows of x without `rows`.

    * (C1) `x` is `[T, hidden]`, `norm` is `[hidden]`, `weight` is `[vocabulary, hidden]`, `rows` is `[R]`.
    * (C2) `eps >= 0`.
  }];
  let arguments = (ins K3_Activations:$x, K3_FloatWeight:$norm, K3_FloatWeight:$weight, Optional<K3_Ids>:$rows,
                       F64Attr:$eps);
  let results = (outs K3_Activations:$logits);
  let assemblyFormat = K3_ModelFormat<"x", ["norm", "weight"], ["rows"]>.format;
  let hasVerifier = 1;
}

def K3_MlpOp : K3_ModelOp<"mlp"> {
  let summary = "gated MLP";
  let description = [{
    `y = act(x gate_proj^T, x up_proj^T) down_proj^T` with act as in `k3.glu`.

    * (C1) `gate_proj` and `up_proj` are `[width, hidden]`, `down_proj` is `[hidden, width]`.
    * (C2) situ needs `beta > 0` and `linear_beta > 0`, swiglu has neither.
  }];
  let arguments = (ins K3_Activations:$x, K3_FloatWeight:$gate_proj, K3_FloatWeight:$up_proj,
                       K3_FloatWeight:$down_proj, K3_ActivationAttr:$activation, OptionalAttr<F64Attr>:$beta,
                       OptionalAttr<F64Attr>:$linear_beta);
  let results = (outs K3_Activations:$y);
  let assemblyFormat = K3_ModelFormat<"x", ["gate_proj", "up_proj", "down_proj"]>.format;
  let hasVerifier = 1;
}

def K3_KdaAttentionOp : K3_ModelOp<"kda.attention", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "Kimi Delta Attention sublayer";
  let description = [{
    With x already normed, H heads of key width K and value width V:

        q, k, v = silu(conv(x {q,k,v}_proj^T))        causal, depthwise, continuing from the conv states
        g = gate(F; dt_bias, a_log)                   as `k3.kda.gate`
        o = scan(q, k, v, g, x b_proj^T)              as `k3.kda.scan` with l2norm, delta and `scale`
        y = (rms(o; o_norm, eps) * sigmoid(G)) o_proj^T       per head, as `k3.kda.gated_norm`

    where F is `x f_proj^T` or, low-rank, `x f_a_proj^T f_b_proj^T`, and G likewise of `g_proj` or `g_a_proj`, `g_b_proj`.
    Conv weights are `[channels, taps]`, the last tap
    meeting the current token. An absent `a_log` means exp(a_log) = 1; entries past H are padding.

    * (C1) shapes: `{q,k}_proj` `[H K, hidden]`, `v_proj` `[H V, hidden]`, `b_proj` `[H, hidden]`, `f_proj`
      `[H K, hidden]`, `f_a_proj` `[r, hidden]`, `f_b_proj` `[H K, r]`, `g` likewise with `H V`, `dt_bias` `[H K]`, `a_log` `[>= H]`, `o_norm` `[V]`, `o_proj` `[hidden, H V]`.
    * (C2) `f_proj`, or `f_a_proj` and `f_b_proj`; not both; the same for `g`.
    * (C3) states: `state` has H heads, K and V; the conv states have the channels of their projection and taps - 1 rows.
    * (C4) bounded_sigmoid has `lower_bound < 0`, softplus has none. (C5) softplus needs `a_log`. (C6) `eps >= 0`.
  }];
  let arguments = (ins
      K3_Activations:$x,
      K3_SeqType:$seq,
      K3_ConvStateType:$q_conv_state, K3_ConvStateType:$k_conv_state, K3_ConvStateType:$v_conv_state,
      K3_KdaStateType:$state,
      K3_FloatWeight:$q_proj, K3_FloatWeight:$k_proj, K3_FloatWeight:$v_proj, K3_FloatWeight:$b_proj,
      K3_FloatWeight:$q_conv1d, K3_FloatWeight:$k_conv1d, K3_FloatWeight:$v_conv1d,
      K3_FloatWeight:$dt_bias, K3_FloatWeight:$o_norm, K3_FloatWeight:$o_proj,
      Optional<K3_FloatWeight>:$f_proj, Optional<K3_FloatWeight>:$f_a_proj, Optional<K3_FloatWeight>:$f_b_proj,
      Optional<K3_FloatWeight>:$a_log,
      Optional<K3_FloatWeight>:$g_proj, Optional<K3_FloatWeight>:$g_a_proj, Optional<K3_FloatWeight>:$g_b_proj,
      I64Attr:$heads, I64Attr:$key_dim, I64Attr:$value_dim,
      K3_GateKindAttr:$gate, OptionalAttr<F64Attr>:$lower_bound, F64Attr:$scale, F64Attr:$eps);
  let results = (outs K3_Activations:$y,
                      K3_ConvStateType:$q_conv_state_out, K3_ConvStateType:$k_conv_state_out,
                      K3_ConvStateType:$v_conv_state_out, K3_KdaStateType:$state_out);
  let assemblyFormat = K3_ModelFormat<"x", [
      "seq", "q_conv_state", "k_conv_state", "v_conv_state", "state", "q_proj", "k_proj", "v_proj", "b_proj",
      "q_conv1d", "k_conv1d", "v_conv1d", "dt_bias", "o_norm", "o_proj"],
      ["f_proj", "f_a_proj", "f_b_proj", "a_log", "g_proj", "g_a_proj", "g_b_proj"], ["heads", "key_dim", "value_dim"]>.format;
  let hasVerifier = 1;
}

def K3_MlaAttentionOp : K3_ModelOp<"mla.attention", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "gated multi-head latent attention sublayer, without positions";
  let description = [{
    With x already normed, H heads, c|r the cached row of a token (latent and shared key part):

        q = x q_proj^T                                or rms(x q_a_proj^T; q_a_layernorm, latent_eps) q_b_proj^T
        c|r = x kv_a_proj^T, c normed with kv_a_layernorm and latent_eps; appended to the cache
        [k | v] = c kv_b_proj^T                       per head: nope rows of keys, then the value rows
        o = softmax(scale * (q_nope k + q_rope r)) v  causal over the cache
        y = (o * sigmoid(x g_proj^T)) o_proj^T        without g_proj: o o_proj^T

    * (C1) shapes: `q_proj` `[H (nope + rope), hidden]`; or `q_a_proj` `[rank, hidden]`, `q_a_layernorm` `[rank]`,
      `q_b_proj` `[H (nope + rope), rank]`; `kv_a_proj` `[latent + rope, hidden]`, `kv_a_layernorm` `[latent]`,
      `kv_b_proj` `[H (nope + value), latent]`, `g_proj` `[H value, hidden]`, `o_proj` `[hidden, H value]`.
    * (C2) `q_proj`, or all of `q_a_proj`, `q_a_layernorm`, `q_b_proj`; not both.
    * (C3) `cache` has that latent and rope width. (C4) `latent_eps >= 0`.
  }];
  let arguments = (ins
      K3_Activations:$x,
      K3_SeqType:$seq,
      K3_KvCacheType:$cache,
      K3_FloatWeight:$kv_a_proj, K3_FloatWeight:$kv_a_layernorm, K3_FloatWeight:$kv_b_proj, K3_FloatWeight:$o_proj,
      Optional<K3_FloatWeight>:$q_proj,
      Optional<K3_FloatWeight>:$q_a_proj, Optional<K3_FloatWeight>:$q_a_layernorm, Optional<K3_FloatWeight>:$q_b_proj,
      Optional<K3_FloatWeight>:$g_proj,
      I64Attr:$heads, I64Attr:$nope_dim, I64Attr:$rope_dim, I64Attr:$value_dim, F64Attr:$scale, F64Attr:$latent_eps);
  let results = (outs K3_Activations:$y, K3_KvCacheType:$cache_out);
  let assemblyFormat = K3_ModelFormat<"x", [
      "seq", "cache", "kv_a_proj", "kv_a_layernorm", "kv_b_proj", "o_proj"],
      ["q_proj", "q_a_proj", "q_a_layernorm", "q_b_proj", "g_proj"],
      ["heads", "nope_dim", "rope_dim", "value_dim"]>.format;
  let hasVerifier = 1;
}

def K3_LatentMoeBlockOp : K3_ModelOp<"latent_moe.block", [AttrSizedOperandSegments]> {
  let summary = "mixture of experts, in a latent space or at full width, plus a shared MLP";
  let description = [{
    With x already normed:

        ids, p = route(x router^T, bias)              as `k3.latent_moe.route`; always reads x at full width
        z = x latent_down^T                           without latent_down: z = x
        u = sum_i p_i act(z w1[id_i]^T, z w3[id_i]^T) w2[id_i]^T
        r = rms(u; latent_norm, eps) latent_up^T      without latent_norm: u latent_up^T; without latent_up: u
        y = r + act(x shared_gate^T, x shared_up^T) shared_down^T

    Experts are float `[E, out, in]`, or MXFP4 as the checkpoint packs it: i8 codes `[E, out, in / 2]` and i8 scales
    `[E, out, in / 32]`.

    * (C1) shapes: `router` `[E, hidden]`, `bias` `[E]`, `w1` and `w3` `[E, width, latent]`, `w2` `[E, latent, width]`,
      `latent_down` `[latent, hidden]`, `latent_norm` `[latent]`, `latent_up` `[hidden, latent]`, `shared_gate` and
      `shared_up` `[shared, hidden]`, `shared_down` `[hidden, shared]`; latent = hidden without `latent_down`.
    * (C2) `latent_down` and `latent_up` come together; `latent_norm` (with `eps >= 0`) only with them.
    * (C3) `shared_gate`, `shared_up` and `shared_down` come together.
    * (C4) all of `w1`, `w3`, `w2` are i8 and have scales, or all are float and have none.
    * (C5) `1 <= top_k <= E`. (C6) situ needs `beta > 0` and `linear_beta > 0`, swiglu has neither.
  }];
  let arguments = (ins
      K3_Activations:$x,
      K3_FloatWeight:$router, K3_FloatWeight:$bias,
      K3_ExpertWeight:$w1, K3_ExpertWeight:$w3, K3_ExpertWeight:$w2,
      Optional<K3_ExpertScale>:$w1_scale, Optional<K3_ExpertScale>:$w3_scale, Optional<K3_ExpertScale>:$w2_scale,
      Optional<K3_FloatWeight>:$latent_down, Optional<K3_FloatWeight>:$latent_norm, Optional<K3_FloatWeight>:$latent_up,
      Optional<K3_FloatWeight>:$shared_gate, Optional<K3_FloatWeight>:$shared_up, Optional<K3_FloatWeight>:$shared_down,
      I64Attr:$top_k, BoolAttr:$renormalize, F64Attr:$scale, K3_ActivationAttr:$activation,
      OptionalAttr<F64Attr>:$beta, OptionalAttr<F64Attr>:$linear_beta, OptionalAttr<F64Attr>:$eps);
  let results = (outs K3_Activations:$y);
  let assemblyFormat = K3_ModelFormat<"x", ["router", "bias", "w1", "w3", "w2"], [
      "w1_scale", "w3_scale", "w2_scale", "latent_down", "latent_norm", "latent_up", "shared_gate", "shared_up",
      "shared_down"]>.format;
  let hasVerifier = 1;
}

#endif // K3_MODEL_OPS_TD
