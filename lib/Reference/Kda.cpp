//===- Kda.cpp - Kimi Delta Attention -------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Kda.h"
#include "lib/Reference/Common.h"

#include <algorithm>
#include <numeric>
#include <cmath>
#include <set>

using namespace k3::ref;

/// The slot of every sequence, checked against a state pool of `entry` values a slot.
static std::vector<Index> resolveSlots(IntView slots, Index sequences, const Vec &state, Index entry) {
  require(slots.size() == 0 || slots.size() == sequences, "kda: slots is not [N]");
  require(entry == 0 || state.size() % entry == 0, "kda: the state is not a whole number of slots");
  std::vector<Index> out(sequences);
  std::set<Index> seen;
  for (Index n = 0; n < sequences; ++n) {
    out[n] = slots.size() ? slots[n] : n;
    require(out[n] >= 0 && (out[n] + 1) * entry <= static_cast<Index>(state.size()), "kda: slot outside the state");
    require(seen.insert(out[n]).second, "kda: two sequences share a slot");
  }
  return out;
}

Vec k3::ref::shortConv(View u, View w, IntView cu, IntView slots, Vec &state, Index channels, Index taps,
                       bool siluActivation) {
  require(channels > 0 && taps > 0 && u.size() % channels == 0, "shortConv: u is not [T, C]");
  require(w.size() == channels * taps, "shortConv: w is not [C, taps]");
  requireBoundaries(cu, u.size() / channels);
  Index sequences = cu.size() - 1, history = taps - 1;
  std::vector<Index> slot = resolveSlots(slots, sequences, state, history * channels);

  Vec out(u.size());
  for (Index n = 0; n < sequences; ++n) {
    double *kept = state.data() + slot[n] * history * channels;
    Index begin = cu[n], length = cu[n + 1] - begin;
    // Row of this sequence counted from its first token of this call; negative rows are history.
    auto row = [&](Index r, Index c) {
      return r >= 0 ? u[(begin + r) * channels + c] : kept[(history + r) * channels + c];
    };
    for (Index t = 0; t < length; ++t)
      for (Index c = 0; c < channels; ++c) {
        double sum = 0;
        for (Index j = 0; j < taps; ++j)
          sum += w[c * taps + j] * row(t - history + j, c);
        out[(begin + t) * channels + c] = siluActivation ? silu(sum) : sum;
      }
    Vec next(history * channels);
    for (Index j = 0; j < history; ++j)
      for (Index c = 0; c < channels; ++c)
        next[j * channels + c] = row(length - history + j, c);
    std::copy(next.begin(), next.end(), kept);
  }
  return out;
}

Vec k3::ref::kdaGate(View z, View aLog, View dtBias, GateKind kind, double lowerBound, Index tokens, Index heads,
                     Index keyDim) {
  require(z.size() == tokens * heads * keyDim, "kdaGate: z is not [T, H, K]");
  require(aLog.empty() || aLog.size() >= heads, "kdaGate: A_log has fewer entries than heads");
  require(dtBias.empty() || dtBias.size() == heads * keyDim, "kdaGate: dt_bias is not [H, K]");
  require(kind != GateKind::BoundedSigmoid || lowerBound < 0, "kdaGate: the lower bound must be negative");
  Vec g(z.size());
  for (Index t = 0; t < tokens; ++t)
    for (Index h = 0; h < heads; ++h) {
      double rate = aLog.empty() ? 1.0 : std::exp(aLog[h]);
      for (Index d = 0; d < keyDim; ++d) {
        Index i = (t * heads + h) * keyDim + d;
        double x = z[i] + (dtBias.empty() ? 0.0 : dtBias[h * keyDim + d]);
        g[i] = kind == GateKind::BoundedSigmoid ? lowerBound * sigmoid(rate * x) : -rate * softplus(x);
      }
    }
  return g;
}

static void requireScanOperands(View q, View k, View v, View g, View beta, ScanShape s, ScanOptions o) {
  require(s.tokens >= 0 && s.heads > 0 && s.keyDim > 0 && s.valueDim > 0, "scan: shape is not positive");
  Index keys = s.tokens * s.heads * s.keyDim;
  require(q.size() == keys && k.size() == keys, "scan: q or k is not [T, H, K]");
  require(v.size() == s.tokens * s.heads * s.valueDim, "scan: v is not [T, H, V]");
  Index gates = o.decay == Decay::None ? 0 : o.decay == Decay::PerHead ? s.tokens * s.heads : keys;
  require(g.size() == gates, "scan: g does not match the kind of decay");
  require(beta.empty() || beta.size() == s.tokens * s.heads, "scan: beta is not [T, H]");
}

/// q as the recurrence uses it: normalised where asked for, then scaled.
static Vec preparedQuery(View q, ScanShape s, ScanOptions o) {
  Vec out = o.l2NormQK ? l2Norm(q, s.tokens * s.heads, s.keyDim) : q.toVec();
  for (double &x : out)
    x *= o.scale;
  return out;
}

static Vec preparedKey(View k, ScanShape s, ScanOptions o) {
  return o.l2NormQK ? l2Norm(k, s.tokens * s.heads, s.keyDim) : k.toVec();
}

/// Log-decay of channel d; `row` is t * H + h.
static double logDecay(View g, Decay decay, Index row, Index d, Index keyDim) {
  switch (decay) {
  case Decay::None:
    return 0;
  case Decay::PerHead:
    return g[row];
  case Decay::PerChannel:
    return g[row * keyDim + d];
  }
  return 0;
}

Vec k3::ref::kdaScan(View q, View k, View v, View g, View beta, IntView cu, IntView slots, Vec &state, ScanShape s,
                     ScanOptions o) {
  requireScanOperands(q, k, v, g, beta, s, o);
  requireBoundaries(cu, s.tokens);
  Index H = s.heads, K = s.keyDim, V = s.valueDim, sequences = cu.size() - 1;
  std::vector<Index> slot = resolveSlots(slots, sequences, state, H * V * K);
  Vec query = preparedQuery(q, s, o), key = preparedKey(k, s, o);

  Vec out(s.tokens * H * V);
  for (Index n = 0; n < sequences; ++n)
    for (Index t = cu[n]; t < cu[n + 1]; ++t)
      for (Index h = 0; h < H; ++h) {
        Index row = t * H + h;
        const double *qt = query.data() + row * K, *kt = key.data() + row * K;
        double strength = beta.empty() ? 1.0 : sigmoid(beta[row]);
        Vec alpha(K);
        for (Index d = 0; d < K; ++d)
          alpha[d] = std::exp(logDecay(g, o.decay, row, d, K));
        for (Index j = 0; j < V; ++j) { // rows of the state do not touch each other
          double *S = state.data() + ((slot[n] * H + h) * V + j) * K;
          double predicted = 0, read = 0;
          for (Index d = 0; d < K; ++d) {
            S[d] *= alpha[d];
            predicted += S[d] * kt[d];
          }
          double e = strength * (v[row * V + j] - (o.deltaRule ? predicted : 0.0));
          for (Index d = 0; d < K; ++d) {
            S[d] += kt[d] * e;
            read += S[d] * qt[d];
          }
          out[row * V + j] = read;
        }
      }
  return out;
}

ChunkTable k3::ref::chunkTable(IntView cu, Index size) {
  require(size >= 1, "chunkTable: a chunk holds at least one token");
  require(cu.size() >= 1, "chunkTable: no boundaries");
  ChunkTable table{size, {}, {0}};
  for (Index n = 0; n + 1 < cu.size(); ++n) {
    for (Index begin = cu[n]; begin < cu[n + 1]; begin += size) {
      table.chunks.push_back(static_cast<std::int32_t>(begin));
      table.chunks.push_back(static_cast<std::int32_t>(std::min(size, cu[n + 1] - begin)));
    }
    table.chunkCu.push_back(static_cast<std::int32_t>(table.count()));
  }
  return table;
}

ChunkParts k3::ref::kdaChunkPrepare(View q, View k, View v, View g, View beta, const ChunkTable &table, ScanShape s,
                                    ScanOptions o) {
  requireScanOperands(q, k, v, g, beta, s, o);
  Index H = s.heads, K = s.keyDim, V = s.valueDim, L = table.size, blocks = table.count() * H;
  Vec query = preparedQuery(q, s, o), key = preparedKey(k, s, o);
  ChunkParts parts{Vec(blocks * L * K), Vec(blocks * L * K), Vec(blocks * L * V),
                   Vec(blocks * L * K), Vec(blocks * L * L), Vec(blocks * K)};

  for (Index block = 0; block < blocks; ++block) { // one chunk of one head
    Index begin = table.chunks[2 * (block / H)], n = table.chunks[2 * (block / H) + 1], h = block % H;
    require(begin >= 0 && n >= 1 && n <= L && begin + n <= s.tokens, "kdaChunkPrepare: chunk outside the tokens");
    auto row = [&](Index i) { return (begin + i) * H + h; }; // row i of the chunk in [T,H]

    Vec G(n * K); // inclusive sums of g, restarting here
    for (Index i = 0; i < n; ++i)
      for (Index d = 0; d < K; ++d)
        G[i * K + d] = (i ? G[(i - 1) * K + d] : 0.0) + logDecay(g, o.decay, row(i), d, K);
    const double *GL = G.data() + (n - 1) * K;
    for (Index d = 0; d < K; ++d)
      parts.gl[block * K + d] = std::exp(GL[d]);

    // a_i . k_j with each channel decayed from row j to row i.
    auto decayedDot = [&](const Vec &a, Index i, Index j) {
      double sum = 0;
      for (Index d = 0; d < K; ++d)
        sum += a[row(i) * K + d] * key[row(j) * K + d] * std::exp(G[i * K + d] - G[j * K + d]);
      return sum;
    };

    double *W = parts.w.data() + block * L * K, *U = parts.u.data() + block * L * V;
    for (Index i = 0; i < n; ++i) {
      double strength = beta.empty() ? 1.0 : sigmoid(beta[row(i)]);
      for (Index d = 0; d < K; ++d) {
        Index at = (block * L + i) * K + d;
        double grown = std::exp(G[i * K + d]);
        parts.qg[at] = grown * query[row(i) * K + d];
        parts.kd[at] = std::exp(GL[d] - G[i * K + d]) * key[row(i) * K + d];
        W[i * K + d] = o.deltaRule ? strength * grown * key[row(i) * K + d] : 0.0;
      }
      for (Index d = 0; d < V; ++d)
        U[i * V + d] = strength * v[row(i) * V + d];
      for (Index j = 0; j <= i; ++j)
        parts.aqk[(block * L + i) * L + j] = decayedDot(query, i, j);
      for (Index j = 0; j < i && o.deltaRule; ++j) { // forward substitution: earlier rows are final
        double l = strength * decayedDot(key, i, j);
        for (Index d = 0; d < K; ++d)
          W[i * K + d] -= l * W[j * K + d];
        for (Index d = 0; d < V; ++d)
          U[i * V + d] -= l * U[j * V + d];
      }
    }
  }
  return parts;
}

Vec k3::ref::kdaChunkScan(const ChunkParts &parts, const ChunkTable &table, IntView slots, Vec &state, ScanShape s) {
  Index H = s.heads, K = s.keyDim, V = s.valueDim, L = table.size;
  Index sequences = static_cast<Index>(table.chunkCu.size()) - 1;
  std::vector<Index> slot = resolveSlots(slots, sequences, state, H * V * K);

  Vec out(s.tokens * H * V);
  for (Index sequence = 0; sequence < sequences; ++sequence)
    for (Index chunk = table.chunkCu[sequence]; chunk < table.chunkCu[sequence + 1]; ++chunk)
      for (Index h = 0; h < H; ++h)
        for (Index j = 0; j < V; ++j) { // columns of S [K,V], that is rows of the stored state
          double *S = state.data() + ((slot[sequence] * H + h) * V + j) * K;
          Index begin = table.chunks[2 * chunk], n = table.chunks[2 * chunk + 1], block = chunk * H + h;
          Vec vn(n);
          for (Index i = 0; i < n; ++i) {
            Index at = block * L + i; // row i in [C,H,L]
            vn[i] = parts.u[at * V + j];
            double read = 0;
            for (Index d = 0; d < K; ++d) {
              vn[i] -= parts.w[at * K + d] * S[d];
              read += parts.qg[at * K + d] * S[d];
            }
            for (Index m = 0; m <= i; ++m)
              read += parts.aqk[at * L + m] * vn[m];
            out[((begin + i) * H + h) * V + j] = read;
          }
          for (Index d = 0; d < K; ++d) {
            S[d] *= parts.gl[block * K + d];
            for (Index i = 0; i < n; ++i)
              S[d] += parts.kd[(block * L + i) * K + d] * vn[i];
          }
        }
  return out;
}

Vec k3::ref::kdaGatedNorm(View o, View gate, View w, Index rows, Index valueDim, double eps) {
  return sigmoidGate(rmsNorm(o, w, rows, valueDim, eps), gate);
}

Vec k3::ref::kdaDecodeStep(const DecodeStep &step, IntView slots, Vec &state, Vec &convQ, Vec &convK, Vec &convV,
                           ScanShape shape, ScanOptions options) {
  std::vector<std::int32_t> cu(shape.tokens + 1);
  std::iota(cu.begin(), cu.end(), 0);
  auto [N, H, K, V] = shape;
  Vec q = shortConv(step.q, step.qWeight, cu, slots, convQ, H * K, step.taps);
  Vec k = shortConv(step.k, step.kWeight, cu, slots, convK, H * K, step.taps);
  Vec v = shortConv(step.v, step.vWeight, cu, slots, convV, H * V, step.taps);
  Vec g = kdaGate(step.z, step.aLog, step.dtBias, step.kind, step.lowerBound, N, H, K);
  Vec o = kdaScan(q, k, v, g, step.beta, cu, slots, state, shape, options);
  return kdaGatedNorm(o, step.gate, step.normWeight, N * H, V, step.eps);
}
