//===- Kda.h - Kimi Delta Attention ---------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "lib/Reference/View.h"

/// Ragged batches: `cu` [N+1] cuts the T packed tokens into N sequences (cu[0] = 0, cu[N] = T, never falling). States
/// are pools of S entries, updated in place; sequence n owns entry slots[n], all different (empty slots: entry n). A
/// sequence of no tokens leaves its entry as it was, and nobody touches entries outside `slots`.
namespace k3::ref {

/// Depthwise causal convolution (k3.kda.short_conv). Spec 2.3.
///   out[t,c] = act( sum_j w[c,j] * u[t - (taps-1) + j, c] ), the last tap meeting the current token
/// u [T,C] raw projections, w [C,taps] -> [T,C]. state [S,taps-1,C]: the last raw rows before the call, oldest first,
/// zeros at the start of a sequence; afterwards the last rows of this call. act is SiLU or nothing.
Vec shortConv(View u, View w, IntView cu, IntView slots, Vec &state, Index channels, Index taps,
              bool siluActivation = true);

enum class GateKind {
  BoundedSigmoid, ///< g = lowerBound * sigmoid(exp(A_log[h]) * (z + dt_bias)), so g lies in (lowerBound, 0)
  Softplus        ///< g = -exp(A_log[h]) * softplus(z + dt_bias), no lower bound
};

/// Log-decay of every channel (k3.kda.gate). Spec 2.3.
/// z [T,H,K], aLog [at least H; entries past H are padding and unused] or empty (exp(A_log) = 1), dtBias [H,K] or empty
/// (0) -> g [T,H,K], never positive. lowerBound (negative) is read by BoundedSigmoid only.
Vec kdaGate(View z, View aLog, View dtBias, GateKind kind, double lowerBound, Index tokens, Index heads, Index keyDim);

enum class Decay {
  None,      ///< g is empty: linear attention, DeltaNet
  PerHead,   ///< g [T,H]: Gated DeltaNet
  PerChannel ///< g [T,H,K]: KDA
};

struct ScanShape {
  Index tokens, heads, keyDim, valueDim;
};

struct ScanOptions {
  Decay decay = Decay::PerChannel;
  bool deltaRule = true; ///< off: v itself is written, not v minus the prediction
  bool l2NormQK = false; ///< normalise q and k over K first, eps 1e-6 on the sum of squares, inside the root
  double scale = 1.0;    ///< multiplies q, after the normalisation; K^-0.5 in the models
};

/// The recurrence, token by token (k3.kda.scan; with one token per sequence k3.kda.recurrent_step). Spec 2.3 and 3.1.
/// Per sequence and head, with S [K,V] and b = sigmoid(beta):
///   S <- diag(exp(g_t)) S               decay first
///   e  = b_t * ( v_t - S^T k_t )        the prediction reads the decayed state; without delta rule e = b_t * v_t
///   S <- S + k_t e^T
///   o_t = S^T (scale * q_t)             the output reads the updated state
/// q, k [T,H,K]; v [T,H,V]; g log-decay by options.decay, never positive; beta [T,H] logits, or empty (b = 1).
/// state [S,H,V,K]: the row is the value, S[k][v] is state[slot][h][v][k]. Returns o [T,H,V].
Vec kdaScan(View q, View k, View v, View g, View beta, IntView cu, IntView slots, Vec &state, ScanShape shape,
            ScanOptions options);

/// How a ragged batch is cut into chunks of at most `size` tokens; chunks never cross sequences.
struct ChunkTable {
  Index size;
  std::vector<std::int32_t> chunks;  ///< [C,2] first token and number of tokens (at least 1), in token order
  std::vector<std::int32_t> chunkCu; ///< [N+1] sequence n has chunks chunkCu[n] .. chunkCu[n+1]
  Index count() const { return static_cast<Index>(chunks.size()) / 2; }
};
ChunkTable chunkTable(IntView cu, Index size);

/// What of a chunk does not depend on the state entering it. L is the chunk size; rows past its tokens are zero.
/// G is the inclusive sum of g from the start of the chunk; T = (I + strict lower triangle of diag(b) Akk)^-1, where
/// Akk_ij = sum_d k_i[d] k_j[d] exp(G_i[d] - G_j[d]).
struct ChunkParts {
  Vec qg;  ///< [C,H,L,K] exp(G) * scale * q
  Vec w;   ///< [C,H,L,K] T diag(b) (exp(G) * k); zero without delta rule
  Vec u;   ///< [C,H,L,V] T diag(b) v; with T = I without delta rule
  Vec kd;  ///< [C,H,L,K] exp(GL - G) * k, GL being the last row of G
  Vec aqk; ///< [C,H,L,L] scale * sum_d q_i[d] k_j[d] exp(G_i[d] - G_j[d]) for j <= i, else 0
  Vec gl;  ///< [C,H,K]   exp(GL)
};

/// Chunkwise form, first half: everything parallel over chunks (k3.kda.chunk_prepare). Spec 3.2. Exponents are taken
/// pairwise and are never positive, so every gate is safe (spec 3.3). Operands as in kdaScan.
ChunkParts kdaChunkPrepare(View q, View k, View v, View g, View beta, const ChunkTable &table, ScanShape shape,
                           ScanOptions options);

/// Chunkwise form, second half: chunk after chunk of a sequence (k3.kda.chunk_scan). Spec 3.2.
///   Vn = u - w S;  o = qg S + aqk Vn;  S <- diag(gl) S + kd^T Vn
/// state [S,H,V,K] as in kdaScan. Returns o [T,H,V].
Vec kdaChunkScan(const ChunkParts &parts, const ChunkTable &table, IntView slots, Vec &state, ScanShape shape);

/// k3.kda.gated_norm:
/// out[t,h,:] = rms(o[t,h,:]; w, eps) * sigmoid(gate[t,h,:]). Spec 2.3: the norm is per head over V, w [V] is shared by
/// all heads. o, gate [rows,V] with rows = T * H -> [rows,V].
Vec kdaGatedNorm(View o, View gate, View w, Index rows, Index valueDim, double eps);

/// The operands of kdaDecodeStep for N sequences, and what a layer says of itself.
struct DecodeStep {
  View q, k, v;                   ///< [N,HK], [N,HK], [N,HV] projections
  View z, beta, gate;             ///< [N,H,K] logits of the decay, [N,H], [N,H,V]
  View qWeight, kWeight, vWeight; ///< [HK,taps], [HK,taps], [HV,taps]
  View dtBias, aLog, normWeight;  ///< as in kdaGate; [V]
  GateKind kind;
  double lowerBound, eps;
  Index taps;
};

/// A whole layer for one token per sequence (k3.kda.decode_step): shortConv of q, k and v, kdaGate, kdaScan and
/// kdaGatedNorm. States as there, all with the slots given. Returns [N,H,V].
Vec kdaDecodeStep(const DecodeStep &step, IntView slots, Vec &state, Vec &convQ, Vec &convK, Vec &convV, ScanShape shape,
                  ScanOptions options);

} // namespace k3::ref
