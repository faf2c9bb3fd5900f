//===- KdaTest.cpp - Recurrence, chunk form, convolution, gates -----------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Kda.h"
#include "TestSupport.h"
#include "lib/Reference/Common.h"

#include <cmath>

using namespace k3::ref;
using namespace k3::ref::test;

using Ints = std::vector<std::int32_t>;

namespace {
/// Operands of a scan with random values.
struct Operands {
  Vec q, k, v, g, beta, state;
  Ints cu;
  ScanShape shape;
  ScanOptions options;

  Vec scan() { return kdaScan(q, k, v, g, beta, cu, {}, state, shape, options); }
  Vec chunked(Index chunk) {
    ChunkTable table = chunkTable(cu, chunk);
    return kdaChunkScan(kdaChunkPrepare(q, k, v, g, beta, table, shape, options), table, {}, state, shape);
  }
  /// Tokens [begin, end) of the only sequence.
  Operands part(Index begin, Index end, Vec entering) const {
    auto rows = [&](const Vec &x) {
      Index width = static_cast<Index>(x.size()) / shape.tokens;
      return slice(x, begin * width, end * width);
    };
    Operands p{rows(q), rows(k), rows(v), rows(g), rows(beta), std::move(entering), {0, int(end - begin)},
               shape,   options};
    p.shape.tokens = end - begin;
    return p;
  }
};
} // namespace

static Operands randomOperands(unsigned seed, Ints lengths, Index heads, Index keyDim, Index valueDim,
                               ScanOptions options = {}) {
  Random random(seed);
  Operands o;
  o.cu = {0};
  for (int length : lengths)
    o.cu.push_back(o.cu.back() + length);
  Index tokens = o.cu.back();
  o.shape = {tokens, heads, keyDim, valueDim};
  options.l2NormQK = true;
  options.scale = 1 / std::sqrt(double(keyDim));
  o.options = options;
  o.q = random.normal(tokens * heads * keyDim);
  o.k = random.normal(tokens * heads * keyDim);
  o.v = random.normal(tokens * heads * valueDim);
  o.beta = random.normal(tokens * heads);
  if (options.decay != Decay::None)
    o.g = random.uniform(tokens * heads * (options.decay == Decay::PerHead ? 1 : keyDim), -2, 0);
  o.state = random.normal(lengths.size() * heads * valueDim * keyDim);
  return o;
}

/// The recurrence as one matrix equation per token and head, on plain [K,V] matrices:
///   S_t = (I - beta k k^T) diag(exp(g)) S_{t-1} + beta k v^T,  o = S_t^T q
/// It shares nothing with kdaScan; keys and queries must already be normalised and scaled. One sequence, per channel.
static Vec matrixScan(const Operands &o, Vec &state) {
  Index H = o.shape.heads, K = o.shape.keyDim, V = o.shape.valueDim;
  Vec out(o.shape.tokens * H * V);
  for (Index h = 0; h < H; ++h) {
    std::vector<Vec> S(K, Vec(V));
    for (Index i = 0; i < K; ++i)
      for (Index j = 0; j < V; ++j)
        S[i][j] = state[(h * V + j) * K + i];
    for (Index t = 0; t < o.shape.tokens; ++t) {
      const double *k = &o.k[(t * H + h) * K], *q = &o.q[(t * H + h) * K], *v = &o.v[(t * H + h) * V];
      double beta = 1 / (1 + std::exp(-o.beta[t * H + h]));
      std::vector<Vec> next(K, Vec(V));
      for (Index i = 0; i < K; ++i)
        for (Index j = 0; j < V; ++j) {
          for (Index m = 0; m < K; ++m)
            next[i][j] += ((i == m) - beta * k[i] * k[m]) * std::exp(o.g[(t * H + h) * K + m]) * S[m][j];
          next[i][j] += beta * k[i] * v[j];
        }
      S = next;
      for (Index j = 0; j < V; ++j)
        for (Index i = 0; i < K; ++i)
          out[(t * H + h) * V + j] += S[i][j] * q[i];
    }
    for (Index i = 0; i < K; ++i)
      for (Index j = 0; j < V; ++j)
        state[(h * V + j) * K + i] = S[i][j];
  }
  return out;
}

TEST(KdaScan, HandComputedStep) { // public fault N01
  Vec state{1, 0, 2, 0};          // S [K,V] = [[1,2],[0,0]], stored with the value as row
  Vec o =
      kdaScan(Vec{0, 1}, Vec{0.6, 0.8}, Vec{3, 4}, Vec{std::log(0.5), 0}, {}, Ints{0, 1}, {}, state, {1, 1, 2, 2}, {});
  EXPECT_LT(maxDifference(o, Vec{2.16, 2.72}), 1e-14);
  EXPECT_LT(maxDifference(state, Vec{2.12, 2.16, 3.04, 2.72}), 1e-14);
}

TEST(KdaScan, MatchesTheMatrixEquation) { // K != V, so exchanged axes cannot pass
  Operands o = randomOperands(1, {9}, 2, 12, 20);
  o.q = l2Norm(o.q, 18, 12);
  o.k = l2Norm(o.k, 18, 12);
  o.options.l2NormQK = false;
  o.options.scale = 1;
  Vec expectedState = o.state, expected = matrixScan(o, expectedState);
  EXPECT_LT(maxDifference(o.scan(), expected), 1e-12);
  EXPECT_LT(maxDifference(o.state, expectedState), 1e-12);
}

TEST(KdaScan, NormalisationAndScale) {
  Operands a = randomOperands(2, {7}, 2, 8, 4), b = a;
  b.q = l2Norm(b.q, 14, 8);
  b.k = l2Norm(b.k, 14, 8);
  for (double &x : b.q)
    x *= b.options.scale;
  b.options.l2NormQK = false;
  b.options.scale = 1;
  EXPECT_LT(maxDifference(a.scan(), b.scan()), 1e-14);
}

TEST(KdaScan, LinearAttentionAsSpecialCase) { // no decay, no delta rule, no beta: o_t = sum_{s<=t} (q_t.k_s) v_s
  ScanOptions options;
  options.decay = Decay::None;
  options.deltaRule = false;
  Operands o = randomOperands(3, {6}, 1, 5, 3, options);
  o.options.l2NormQK = false;
  o.beta.clear();
  o.state.assign(o.state.size(), 0);
  Vec out = o.scan(), expected(6 * 3);
  for (Index t = 0; t < 6; ++t)
    for (Index s = 0; s <= t; ++s)
      for (Index j = 0; j < 3; ++j)
        expected[t * 3 + j] +=
            o.options.scale * dot(View(o.q).slice(t * 5, 5), View(o.k).slice(s * 5, 5)) * o.v[s * 3 + j];
  EXPECT_LT(maxDifference(out, expected), 1e-13);
}

TEST(KdaScan, DecayPerHeadIsTheSameDecayInEveryChannel) {
  ScanOptions options;
  options.decay = Decay::PerHead;
  Operands a = randomOperands(4, {8}, 3, 6, 5, options), b = a;
  b.options.decay = Decay::PerChannel;
  b.g.clear();
  for (double g : a.g)
    b.g.insert(b.g.end(), 6, g);
  EXPECT_EQ(a.scan(), b.scan());
  EXPECT_EQ(a.state, b.state);
}

TEST(KdaScan, RaggedBatchEqualsSequencesAlone) {
  Operands batch = randomOperands(5, {3, 0, 1, 8}, 2, 6, 4);
  Vec before = batch.state, out = batch.scan();
  Index stateSize = 2 * 6 * 4;
  for (Index n = 0; n < 4; ++n) {
    Index begin = batch.cu[n], end = batch.cu[n + 1];
    Operands alone = batch.part(begin, end, slice(before, n * stateSize, (n + 1) * stateSize));
    EXPECT_EQ(alone.scan(), slice(out, begin * 8, end * 8));
    EXPECT_EQ(alone.state, slice(batch.state, n * stateSize, (n + 1) * stateSize));
  }
  EXPECT_EQ(slice(before, stateSize, 2 * stateSize), slice(batch.state, stateSize, 2 * stateSize));
}

TEST(KdaScan, SlotsNameTheStates) {
  Operands o = randomOperands(8, {5, 3}, 1, 4, 3), pooled = o;
  Vec untouched(12, 77), out = o.scan();
  pooled.state = slice(o.state, 0, 0); // pool: second sequence, a stranger, first sequence
  Operands fresh = randomOperands(8, {5, 3}, 1, 4, 3);
  for (const Vec &part : {slice(fresh.state, 12, 24), untouched, slice(fresh.state, 0, 12)})
    pooled.state.insert(pooled.state.end(), part.begin(), part.end());
  EXPECT_EQ(kdaScan(pooled.q, pooled.k, pooled.v, pooled.g, pooled.beta, pooled.cu, Ints{2, 0}, pooled.state,
                    pooled.shape, pooled.options),
            out);
  EXPECT_EQ(slice(pooled.state, 24, 36), slice(o.state, 0, 12));
  EXPECT_EQ(slice(pooled.state, 0, 12), slice(o.state, 12, 24));
  EXPECT_EQ(slice(pooled.state, 12, 24), untouched);
  EXPECT_DEATH(kdaScan(o.q, o.k, o.v, o.g, o.beta, o.cu, Ints{1, 1}, o.state, o.shape, o.options), "share a slot");
  EXPECT_DEATH(kdaScan(o.q, o.k, o.v, o.g, o.beta, o.cu, Ints{0, 2}, o.state, o.shape, o.options), "outside the state");
}

TEST(KdaScan, EverySplitPointGivesTheSameResult) { // public fault N12
  Operands whole = randomOperands(6, {40}, 2, 6, 4);
  Vec entering = whole.state, expected = whole.scan();
  for (Index cut = 0; cut <= 40; ++cut) {
    Operands first = whole.part(0, cut, entering);
    Vec out = first.scan();
    Operands second = whole.part(cut, 40, first.state);
    Vec tail = second.scan();
    out.insert(out.end(), tail.begin(), tail.end());
    EXPECT_EQ(out, expected) << "cut at " << cut;
    EXPECT_EQ(second.state, whole.state) << "cut at " << cut;
  }
}

TEST(KdaScan, BoundariesMustCoverTheTokens) { // public fault N18
  auto scanWith = [](Ints cu) {
    Operands o = randomOperands(7, {4}, 1, 2, 2);
    o.cu = cu;
    o.state.resize(4 * (cu.size() - 1));
    o.scan();
  };
  EXPECT_DEATH(scanWith({0, 3}), "end at the token count");
  EXPECT_DEATH(scanWith({1, 4}), "start at 0");
  EXPECT_DEATH(scanWith({0, 3, 2, 4}), "must not fall");
  EXPECT_DEATH(scanWith({0, 5}), "end at the token count");
}

static void expectChunkEqualsScan(Operands recurrent, Index chunk, double tolerance, const std::string &what) {
  Operands chunked = recurrent;
  Vec expected = recurrent.scan(), out = chunked.chunked(chunk);
  EXPECT_LT(maxDifference(out, expected), tolerance) << what;
  EXPECT_LT(maxDifference(chunked.state, recurrent.state), tolerance) << what;
}

TEST(KdaChunk, EqualsTheRecurrenceForEveryTail) { // public fault N09
  for (Index chunk : {16, 64})
    for (int tokens : {0, 1, 2, 3, 15, 16, 17, 63, 64, 65, 127, 200})
      expectChunkEqualsScan(randomOperands(10 + tokens, {tokens}, 2, 12, 20), chunk, 1e-11,
                            "chunk " + std::to_string(chunk) + " tokens " + std::to_string(tokens));
}

TEST(KdaChunk, EqualsTheRecurrenceForRaggedBatches) {
  for (Index chunk : {1, 5, 16, 64})
    expectChunkEqualsScan(randomOperands(11, {0, 17, 1, 0, 64, 33}, 2, 8, 6), chunk, 1e-12, std::to_string(chunk));
}

TEST(KdaChunk, EqualsTheRecurrenceForEveryKindOfDecayAndRule) {
  for (Decay decay : {Decay::None, Decay::PerHead, Decay::PerChannel})
    for (bool delta : {false, true}) {
      ScanOptions options;
      options.decay = decay;
      options.deltaRule = delta;
      expectChunkEqualsScan(randomOperands(12, {37}, 2, 8, 6, options), 16, 1e-11,
                            std::to_string(int(decay)) + (delta ? " delta" : ""));
    }
}

TEST(KdaChunk, GatesUpToTheBound) { // public fault N03: the error may not rise in the band before overflow
  for (double gate : {-0.01, -1.0, -2.0, -2.5, -3.0, -4.0, -5.0, -8.0})
    for (Index chunk : {16, 64}) {
      Operands o = randomOperands(13, {64}, 1, 128, 128);
      std::fill(o.g.begin(), o.g.end(), gate);
      expectChunkEqualsScan(o, chunk, 1e-12, "gate " + std::to_string(gate));
    }
}

TEST(KdaChunk, OneChannelForgetsAtOnce) { // public fault N04
  for (double fast : {-6.0, -20.0, -80.0}) {
    Operands o = randomOperands(14, {64}, 1, 16, 8);
    std::fill(o.g.begin(), o.g.end(), -0.01);
    for (Index t = 0; t < 64; ++t)
      o.g[t * 16 + 3] = fast;
    for (Index chunk : {16, 64})
      expectChunkEqualsScan(o, chunk, 1e-12, "gate " + std::to_string(fast));

    // Without the delta rule channels do not couple: the fast one keeps (almost) only the last token, the others are
    // those of a run in which every gate is slow.
    o.options.deltaRule = false;
    o.state.assign(o.state.size(), 1);
    Operands slow = o;
    std::fill(slow.g.begin(), slow.g.end(), -0.01);
    o.chunked(64);
    slow.scan();
    Vec lastKey = l2Norm(View(o.k).slice(63 * 16, 16), 1, 16);
    for (Index j = 0; j < 8; ++j)
      for (Index d = 0; d < 16; ++d) {
        double actual = o.state[j * 16 + d];
        double written = sigmoid(o.beta[63]) * lastKey[3] * o.v[63 * 8 + j];
        if (d == 3)
          EXPECT_NEAR(actual, written, 4 * std::exp(fast) + 1e-15) << fast;
        else
          EXPECT_NEAR(actual, slow.state[j * 16 + d], 1e-12);
      }
  }
}

TEST(KdaChunk, CarryFactorOfAShortLastChunk) { // public fault N10
  Operands o = randomOperands(15, {33}, 1, 4, 4);
  std::fill(o.g.begin(), o.g.end(), -1.0);
  ChunkParts parts = kdaChunkPrepare(o.q, o.k, o.v, o.g, o.beta, chunkTable(o.cu, 32), o.shape, o.options);
  double whole = std::exp(-32.0), last = std::exp(-1.0);
  EXPECT_EQ(parts.gl, (Vec{whole, whole, whole, whole, last, last, last, last}));
}

TEST(KdaChunk, TableCutsSequencesApart) {
  ChunkTable table = chunkTable(Ints{0, 0, 17, 18, 50}, 16);
  EXPECT_EQ(table.chunks, (Ints{0, 16, 16, 1, 17, 1, 18, 16, 34, 16}));
  EXPECT_EQ(table.chunkCu, (Ints{0, 0, 2, 3, 5}));
  EXPECT_EQ(chunkTable(Ints{0}, 16).chunkCu, Ints{0});
}

TEST(KdaChunk, RowsPastTheTokensAreZero) {
  Operands o = randomOperands(16, {19}, 2, 4, 3);
  ChunkParts parts = kdaChunkPrepare(o.q, o.k, o.v, o.g, o.beta, chunkTable(o.cu, 16), o.shape, o.options);
  for (Index block = 2; block < 4; ++block) // the second chunk, both heads, holds three tokens
    for (Index i = 0; i < 16; ++i) {
      auto zero = [&](const Vec &x, Index width) {
        return maxAbs(View(x).slice((block * 16 + i) * width, width)) == 0;
      };
      EXPECT_EQ(zero(parts.qg, 4), i >= 3);
      EXPECT_EQ(zero(parts.w, 4), i >= 3);
      EXPECT_EQ(zero(parts.u, 3), i >= 3);
      EXPECT_EQ(zero(parts.kd, 4), i >= 3);
      EXPECT_EQ(zero(parts.aqk, 16), i >= 3);
    }
}

TEST(KdaGate, BothKinds) {
  Vec z{0.5, -1, 2, 0}, aLog{std::log(2.0), 0}, dt{0.5, 1, -2, 3};
  Vec bounded = kdaGate(z, aLog, dt, GateKind::BoundedSigmoid, -5, 1, 2, 2);
  EXPECT_NEAR(bounded[0], -5 / (1 + std::exp(-2.0)), 1e-14);
  EXPECT_NEAR(bounded[1], -2.5, 1e-14);
  EXPECT_NEAR(bounded[2], -2.5, 1e-14);
  EXPECT_NEAR(bounded[3], -5 / (1 + std::exp(-3.0)), 1e-14);
  Vec soft = kdaGate(z, aLog, dt, GateKind::Softplus, 0, 1, 2, 2);
  EXPECT_NEAR(soft[0], -2 * std::log1p(std::exp(1.0)), 1e-14);
  EXPECT_NEAR(soft[3], -std::log1p(std::exp(3.0)), 1e-14);
  EXPECT_NEAR(kdaGate(Vec{80}, {}, {}, GateKind::Softplus, 0, 1, 1, 1)[0], -80, 1e-14);
}

TEST(KdaGate, AbsentAndPaddedOperands) { // public faults N24, N25
  Vec z{0.5, -1};
  Vec absent = kdaGate(z, {}, {}, GateKind::BoundedSigmoid, -5, 1, 2, 1);
  EXPECT_EQ(absent, kdaGate(z, Vec{0, 0}, Vec{0, 0}, GateKind::BoundedSigmoid, -5, 1, 2, 1));
  EXPECT_EQ(absent, kdaGate(z, Vec{0, 0, 7, 7}, {}, GateKind::BoundedSigmoid, -5, 1, 2, 1));
  EXPECT_DEATH(kdaGate(z, Vec{0}, {}, GateKind::BoundedSigmoid, -5, 1, 2, 1), "fewer entries than heads");
}

TEST(KdaGatedNorm, PerHeadWithOneSharedGain) {
  Vec y = kdaGatedNorm(Vec{3, 4, 6, 8}, Vec{0, 0, 0, 1e4}, Vec{1, 2}, 2, 2, 0);
  double r = std::sqrt(12.5);
  EXPECT_LT(maxDifference(y, Vec{1.5 / r, 4 / r, 1.5 / r, 8 / r}), 1e-14);
}

TEST(ShortConv, LastTapMeetsTheCurrentToken) {
  Vec state(3), u{1, 2, 3, 4, 5}, w{1000, 100, 10, 1};
  EXPECT_EQ(shortConv(u, w, Ints{0, 5}, {}, state, 1, 4, false), (Vec{1, 12, 123, 1234, 2345}));
  EXPECT_EQ(state, (Vec{3, 4, 5}));
}

TEST(ShortConv, SiluFollowsTheSum) {
  Vec state(3);
  EXPECT_DOUBLE_EQ(shortConv(Vec{2}, Vec{0, 0, 0, 3}, Ints{0, 1}, {}, state, 1, 4)[0], 6 / (1 + std::exp(-6.0)));
  EXPECT_EQ(state, (Vec{0, 0, 2}));
}

TEST(ShortConv, EverySplitPointGivesTheSameResult) { // public fault N12, parts shorter than the window included
  Random random(20);
  Index C = 3;
  Vec u = random.normal(9 * C), w = random.normal(C * 4), entering = random.normal(3 * C);
  Vec whole = entering, expected = shortConv(u, w, Ints{0, 9}, {}, whole, C, 4);
  for (int cut = 0; cut <= 9; ++cut) {
    Vec state = entering, out = shortConv(slice(u, 0, cut * C), w, Ints{0, cut}, {}, state, C, 4);
    Vec tail = shortConv(slice(u, cut * C, 9 * C), w, Ints{0, 9 - cut}, {}, state, C, 4);
    out.insert(out.end(), tail.begin(), tail.end());
    EXPECT_EQ(out, expected) << "cut at " << cut;
    EXPECT_EQ(state, whole) << "cut at " << cut;
  }
}

TEST(ShortConv, RaggedBatchEqualsSequencesAlone) {
  Random random(21);
  Index C = 2;
  Ints cu{0, 2, 2, 7, 8};
  Vec u = random.normal(8 * C), w = random.normal(C * 4), before = random.normal(4 * 3 * C), state = before;
  Vec out = shortConv(u, w, cu, {}, state, C, 4);
  for (Index n = 0; n < 4; ++n) {
    Vec alone = slice(before, n * 3 * C, (n + 1) * 3 * C);
    EXPECT_EQ(shortConv(slice(u, cu[n] * C, cu[n + 1] * C), w, Ints{0, cu[n + 1] - cu[n]}, {}, alone, C, 4),
              slice(out, cu[n] * C, cu[n + 1] * C));
    EXPECT_EQ(alone, slice(state, n * 3 * C, (n + 1) * 3 * C));
  }
}
