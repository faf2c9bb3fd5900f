//===- K3MlaOps.td - structured ops of gated MLA -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_MLA_OPS_TD
#define K3_MLA_OPS_TD

include "dialects/k3/IR/K3StructuredBase.td"

def K3_MlaAppendOp : K3_StructuredOp<"mla.append",
    " | T lr | l | N1 | N | N M | P page lr",
    "true", "5, 1", []> {
  let summary = "write this step's rows into the paged latent cache";
  let description = [{
    Row t of sequence n, at position `p = lengths[n] + t - cu[n]`, goes to `cache[page_table[n, p / page], p % page]`: the
    first l values normed (rms with `norm_weight`, eps), the rest (the shared unrotated key part) as they are.

    * (C1) `N1 = N + 1`. (C2) `l <= lr`. (C3) pages of different sequences are distinct.
  }];
  let arguments = (ins K3_Float:$kv,
                       K3_Float:$norm_weight,
                       K3_Int:$cu,
                       K3_Int:$lengths,
                       K3_Int:$page_table,
                       K3_Float:$cache,
                       F64Attr:$eps,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["kv", "norm_weight", "cu", "lengths", "page_table"], ["cache"]>.format;
}

def K3_MlaAbsorbOp : K3_StructuredOp<"mla.absorb",
    "T H | T H qd | H nv l | T H lr",
    "false", "2, 1", []> {
  let summary = "queries in latent space";
  let description = [{
    `out[t, h, 0:l] = sum_{j < nope} q[t, h, j] * kv_b[h, j, :]`; `out[t, h, l:] = q[t, h, nope:]`.

    * (C1) `lr = l + qd - nope`. (C2) `0 < nope < qd`, `nope < nv`.
  }];
  let arguments = (ins K3_Float:$q,
                       K3_Float:$kv_b,
                       K3_F32:$out,
                       I64Attr:$nope,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["q", "kv_b"], ["out"]>.format;
}

def K3_MlaAttendOp : K3_StructuredOp<"mla.attend",
    "H | T H lr | P page lr | N1 | N | N M | T H l",
    "false", "5, 1", []> {
  let summary = "causal attention over the latent cache";
  let description = [{
    Row t of sequence n sees cache positions `0 .. lengths[n] + t - cu[n]` inclusive (its own row has been appended):
    `out[t, h] = sum_s softmax_s(scale * q[t, h] . cache[s]) * cache[s, 0:l]`, softmax in f32. `lengths` counts the tokens
    before this step. With `bf16_x` queries and weights may be rounded to bf16, which targets with bf16 products are faster
    with.

    * (C1) `N1 = N + 1`. (C2) `l <= lr`. (C3) `bf16_x` needs a bf16 cache.
  }];
  let arguments = (ins K3_F32:$q,
                       K3_Float:$cache,
                       K3_Int:$cu,
                       K3_Int:$lengths,
                       K3_Int:$page_table,
                       K3_F32:$out,
                       F64Attr:$scale,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config,
                       UnitAttr:$bf16_x);
  let assemblyFormat = K3_DpsFormat<["q", "cache", "cu", "lengths", "page_table"], ["out"]>.format;
}

def K3_MlaAttendPartialOp : K3_StructuredOp<"mla.attend_partial",
    "H | N H lr | P page lr | N | N M | N H l | R two H l | R two H two",
    "false", "4, 3", []> {
  let summary = "k3.mla.attend for one row per sequence, by parts of the context";
  let description = [{
    Row n is that of sequence n and sees `c_n = lengths[n] + 1` cache rows, which are cut into tiles of `tile` rows. All
    tiles, sequence after sequence, are dealt to R runs: each gets total / R of them in order, the first total mod R runs
    one more. A sequence whose tiles are all in one run is done: `out[n]` is as in `k3.mla.attend`. Any other leaves a
    part in every run that has tiles of it: with m the largest `scale * q[n, h] . cache[s]` of the part's rows s,
    `parts[r, i, h] = sum_s exp(scale * q[n, h] . cache[s] - m) * cache[s, 0:l]` and `states[r, i, h] = m, sum_s exp(...)`.
    i is 1 in the run that the sequence begins in, 0 in the others: a run has at most one part of each kind.

    Everything else in the destinations is undefined. However long the sequences are, all runs have the same work.

    * (C1) `two = 2`. (C2) `l <= lr`. (C3) `tile >= 1`.
  }];
  let arguments = (ins K3_F32:$q,
                       K3_Float:$cache,
                       K3_Int:$lengths,
                       K3_Int:$page_table,
                       K3_F32:$out,
                       K3_F32:$parts,
                       K3_F32:$states,
                       F64Attr:$scale,
                       I64Attr:$tile,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["q", "cache", "lengths", "page_table"], ["out", "parts", "states"]>.format;
}

def K3_MlaAttendMergeOp : K3_StructuredOp<"mla.attend_merge",
    "H | R two H l | R two H two | N | N H l",
    "true", "3, 1", []> {
  let summary = "join the parts of k3.mla.attend_partial";
  let description = [{
    For every sequence that left parts: with M the largest of their m, `out[n, h] = sum_i exp(m_i - M) * parts_i /
    sum_i exp(m_i - M) * s_i`, where `states_i = m_i, s_i`. Other rows of `out` stay as they are.

    * (C1) `two = 2`. (C2) `tile >= 1`, the same as in the op that made the parts.
  }];
  let arguments = (ins K3_F32:$parts,
                       K3_F32:$states,
                       K3_Int:$lengths,
                       K3_F32:$out,
                       I64Attr:$tile,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["parts", "states", "lengths"], ["out"]>.format;
}

def K3_MlaExpandOp : K3_StructuredOp<"mla.expand",
    "T H | T H l | H nv l | T H v",
    "false", "2, 1", []> {
  let summary = "attention output from latent space";
  let description = [{
    `out[t, h, j] = sum_l kv_b[h, nope + j, l] * x[t, h, l]`.

    * (C1) `nv = nope + v`, `nope > 0`.
  }];
  let arguments = (ins K3_F32:$x,
                       K3_Float:$kv_b,
                       K3_Float:$out,
                       I64Attr:$nope,
                       OptionalAttr<K3_KernelConfigAttr>:$kernel_config);
  let assemblyFormat = K3_DpsFormat<["x", "kv_b"], ["out"]>.format;
}

#endif // K3_MLA_OPS_TD
