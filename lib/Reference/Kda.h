//===- Kda.h - Kimi Delta Attention ---------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "lib/Reference/View.h"

/// Ragged batches: `cu` [N+1] cuts the T packed tokens into N sequences (cu[0] = 0, cu[N] = T, never falling). States
/// hold one entry per sequence and are updated in place; a sequence of no tokens leaves its entry as it was.
namespace k3::ref {

/// Depthwise causal convolution. Spec 2.3.
///   out[t,c] = act( sum_j w[c,j] * u[t - (taps-1) + j, c] ), the last tap meeting the current token
/// u [T,C] raw projections, w [C,taps] -> [T,C]. state [N,taps-1,C]: the last raw rows before the call, oldest first,
/// zeros at the start of a sequence; afterwards the last rows of this call. act is SiLU or nothing.
Vec shortConv(View u, View w, IntView cu, Vec &state, Index channels, Index taps, bool siluActivation = true);

enum class GateKind {
  BoundedSigmoid, ///< g = lowerBound * sigmoid(exp(A_log[h]) * (z + dt_bias)), so g lies in (lowerBound, 0)
  Softplus        ///< g = -exp(A_log[h]) * softplus(z + dt_bias), no lower bound
};

/// Log-decay of every channel. Spec 2.3.
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
  bool deltaRule = true;   ///< off: v itself is written, not v minus the prediction
  bool l2NormQK = false;   ///< normalise q and k over K first, eps 1e-6 on the sum of squares, inside the root
  double scale = 1.0;      ///< multiplies q, after the normalisation; K^-0.5 in the models
};

/// The recurrence, token by token. Spec 2.3 and 3.1. Per sequence and head, with S [K,V]:
///   S <- diag(exp(g_t)) S                  decay first
///   e  = beta_t * ( v_t - S^T k_t )        the prediction reads the decayed state; without delta rule e = beta_t * v_t
///   S <- S + k_t e^T
///   o_t = S^T (scale * q_t)                the output reads the updated state
/// q, k [T,H,K]; v [T,H,V]; g log-decay by options.decay, never positive; beta [T,H], after the sigmoid, or empty (1).
/// state [N,H,V,K]: the row is the value, S[k][v] is state[n][h][v][k]. Returns o [T,H,V].
Vec kdaScan(View q, View k, View v, View g, View beta, IntView cu, Vec &state, ScanShape shape, ScanOptions options);

/// One chunk of at most `chunk` tokens of one sequence; chunks never cross sequences.
struct ChunkRange {
  Index sequence, begin, rows;
};
/// The chunks of a ragged batch, in token order; an empty sequence has none.
std::vector<ChunkRange> chunkRanges(IntView cu, Index chunk);

/// What of a chunk does not depend on the state entering it. G is the inclusive sum of g from the start of the chunk,
/// GL its last row; T1 = (I + strict lower triangle of diag(beta) Akk)^-1. Rows are tokens, so tails need no padding.
struct ChunkParts {
  Vec qg;   ///< [T,H,K]      exp(G) * scale * q
  Vec w;    ///< [T,H,K]      T1 diag(beta) (exp(G) * k); zero without delta rule
  Vec u;    ///< [T,H,V]      T1 diag(beta) v
  Vec kd;   ///< [T,H,K]      exp(GL - G) * k
  Vec aqk;  ///< [T,H,chunk]  scale * sum_d q_i[d] k_j[d] exp(G_i[d] - G_j[d]) for j <= i in the chunk, else 0
  Vec last; ///< [chunks,H,K] exp(GL)
};

/// Chunkwise form, first half: everything parallel over chunks. Spec 3.2. Exponents are taken pairwise and are never
/// positive, so every gate is safe (spec 3.3). Operands as in kdaScan; chunk >= 1.
ChunkParts kdaChunkPrepare(View q, View k, View v, View g, View beta, IntView cu, Index chunk, ScanShape shape,
                           ScanOptions options);

/// Chunkwise form, second half: chunk after chunk of a sequence. Spec 3.2.
///   Vn = u - w S;  o = qg S + aqk Vn;  S <- diag(last) S + kd^T Vn
/// state [N,H,V,K] as in kdaScan. Returns o [T,H,V].
Vec kdaChunkScan(const ChunkParts &parts, IntView cu, Index chunk, Vec &state, ScanShape shape);

/// out[t,h,:] = rms(o[t,h,:]; w, eps) * sigmoid(gate[t,h,:]). Spec 2.3: the norm is per head over V, w [V] is shared by
/// all heads. o, gate [rows,V] with rows = T * H -> [rows,V].
Vec kdaGatedNorm(View o, View gate, View w, Index rows, Index valueDim, double eps);

} // namespace k3::ref
