//===- KdaOpsKernelTest.cpp - KDA ops by emitter and by decomposition ------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Kda.h"
#include "test/unit/Codegen/KernelHarness.h"

#include <cmath>

using namespace k3;
using namespace k3::test;

namespace {

// Sums of K or V terms in f32 with functions good to about 3 ulp.
constexpr double tolerance = 5e-6;
// Over a chunk the errors of the triangular solve and of products of exponentials up to exp(|g| L / 2) add up.
constexpr double chunkTolerance = 3e-5;
// Decays below f32's range are 0.
constexpr Tolerance partTolerance{chunkTolerance, 0, 1e-30};

const std::vector<std::vector<Index>> batches = {{}, {1}, {1, 1, 1}, {0, 5, 0}, {16, 2, 0, 37}, {64}};

/// Distinct slots out of a pool with room to spare.
struct Pool {
  Index slots;
  Array index;
};
Pool makePool(Random &random, Index sequences) {
  Pool pool{sequences + 2, Array::i32({sequences}, random.distinct(sequences, sequences + 2))};
  return pool;
}

TEST(KdaShortConv, MatchesReference) {
  Random random(1);
  struct Types {
    bool silu, weight, state; ///< weight, state: whether it is bf16
  };
  std::vector<Types> types = {{false, true, false}, {true, true, false}, {true, false, false}};
  if (forGpu()) // stores of single bf16 elements are not what CPUs have code for
    types.push_back({true, true, true});
  for (auto [silu, narrowWeight, narrowState] : types)
    for (auto [channels, taps] : {std::pair<Index, Index>{96, 4}, {300, 4}, {5, 2}, {7, 3}})
      for (const CompileOptions &way : allWays()) {
        Index C = channels, taps_ = taps, history = taps - 1;
        Array weight = Array::floats(narrowWeight, {C, taps_}, random.normal(C * taps_));
        auto rows = [&](Index tokens) { return Array::f32({tokens, C}, random.normal(tokens * C)); };
        auto stateOf = [&, narrow = narrowState](Index slots) {
          return Array::floats(narrow, {slots, history, C}, random.normal(slots * history * C));
        };
        KernelSpec spec("k3.kda.short_conv");
        spec.in(rows(1), {0}).in(weight).in(Array::i32({2}, {0, 1}), {0}).in(Array::i32({1}, {0}), {0});
        spec.out(Array::undefined("f32", {1, C}), {0}).out(stateOf(1), {0});
        auto kernel = spec.attr(silu ? "silu = true" : "silu = false").compile(way);
        ASSERT_TRUE(kernel);
        for (const auto &lengths : batches) {
          auto cu = cumulate(lengths);
          Index N = static_cast<Index>(lengths.size()), T = cu.back();
          Pool pool = makePool(random, N);
          Array x = rows(T), state = stateOf(pool.slots), out = Array::undefined("f32", {T, C});
          Vec expectedState = state.values();
          Vec expected = ref::shortConv(x.values(), weight.values(), cu, pool.index.ints(), expectedState, C, taps_, silu);
          kernel->run({x, weight, Array::i32({N + 1}, cu), pool.index, out, state});
          EXPECT_TRUE(isClose(out, expected, tolerance)) << way << ", " << C << " channels, " << T << " rows";
          EXPECT_TRUE(isClose(state, expectedState, tolerateStored(narrowState, 0)))
              << way << ", " << C << " channels, " << T << " rows";
        }
      }
}

TEST(KdaGate, MatchesReference) {
  Random random(2);
  for (bool softplus : {false, true})
    for (bool withRate : {true, false}) {
      if (softplus && !withRate)
        continue;
      for (auto [heads, dim] : {std::pair<Index, Index>{4, 32}, {3, 17}})
        for (const CompileOptions &way : allWays()) {
          Index H = heads, K = dim;
          Array bias = Array::f32({H, K}, random.normal(H * K));
          Array rate = Array::f32({H + 5}, random.normal(H + 5)); // padded
          auto make = [&](Index tokens) {
            Vec z = random.normal(tokens * H * K, 3);
            for (Index i = 0; i < static_cast<Index>(z.size()); i += 7)
              z[i] = i % 2 ? 80 : -80; // at the bound, and where softplus underflows
            return Array::f32({tokens, H, K}, z);
          };
          KernelSpec spec("k3.kda.gate");
          spec.in(make(1), {0}).in(bias);
          if (withRate)
            spec.optional("a_log", rate);
          spec.out(Array::undefined("f32", {1, H, K}), {0});
          spec.attr(softplus ? "kind = #k3.gate_kind<softplus>"
                             : "kind = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64");
          auto kernel = spec.compile(way);
          ASSERT_TRUE(kernel);
          for (Index tokens : {0, 1, 9, 66}) {
            Array z = make(tokens), out = Array::undefined("f32", {tokens, H, K});
            std::vector<Array> arrays = {z, bias};
            if (withRate)
              arrays.push_back(rate);
            arrays.push_back(out);
            kernel->run(arrays);
            Vec expected = ref::kdaGate(z.values(), withRate ? rate.values() : Vec(), bias.values(),
                                        softplus ? ref::GateKind::Softplus : ref::GateKind::BoundedSigmoid, -5, tokens, H, K);
            EXPECT_TRUE(isClose(out, expected, tolerance)) << way << ", " << tokens << " tokens";
            // Tiny decays matter by their own size: exp(-80) must not be lost beside 80. GPUs flush subnormals to 0.
            EXPECT_TRUE(isClose(out, expected, Tolerance{0, 1e-5, tolerate(1e-38, 1e-36)})) << way << ", " << tokens << " tokens";
          }
        }
    }
}

struct ScanCase {
  Index heads, K, V;
  ref::Decay decay;
  bool delta, l2;
};

/// Operands of T rows and of a state, and the reference's options.
struct Scan {
  const ScanCase &c;
  Random &random;
  double gateLow = -5, gateHigh = 0;
  /// Also keys; of length about 1 where the op does not normalise them, for the delta rule to be stable.
  Array queries(Index tokens) {
    return Array::f32({tokens, c.heads, c.K}, random.normal(tokens * c.heads * c.K, c.l2 ? 1 : scale()));
  }
  Array values(Index tokens) { return Array::f32({tokens, c.heads, c.V}, random.normal(tokens * c.heads * c.V)); }
  Array beta(Index tokens) { return Array::f32({tokens, c.heads}, random.normal(tokens * c.heads)); }
  Array gates(Index tokens) {
    bool perHead = c.decay == ref::Decay::PerHead;
    Index size = tokens * c.heads * (perHead ? 1 : c.K);
    return Array::f32(perHead ? Shape{tokens, c.heads} : Shape{tokens, c.heads, c.K},
                      random.uniform(size, gateLow, gateHigh));
  }
  Array state(Index slots) {
    return Array::f32({slots, c.heads, c.V, c.K}, random.normal(slots * c.heads * c.V * c.K));
  }
  ref::ScanOptions options() const { return {c.decay, c.delta, c.l2, scale()}; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(c.K)); }
  std::string attributes() const {
    return "scale = " + std::to_string(scale()) + " : f64, l2norm = " + (c.l2 ? "true" : "false");
  }
};

class KdaScan : public ::testing::TestWithParam<ScanCase> {};

TEST_P(KdaScan, Recurrence) {
  ScanCase c = GetParam();
  Random random(3);
  Scan scan{c, random};
  double scale = std::stod(std::to_string(scan.scale())); // as the attribute says it
  for (const CompileOptions &way : allWays()) {
    KernelSpec spec("k3.kda.scan");
    spec.in(scan.queries(1), {0}).in(scan.queries(1), {0}).in(scan.values(1), {0}).in(scan.beta(1), {0});
    spec.in(Array::i32({2}, {0, 1}), {0}).in(Array::i32({1}, {0}), {0});
    if (c.decay != ref::Decay::None)
      spec.optional("g", scan.gates(1), {0});
    spec.out(scan.values(1), {0}).out(scan.state(1), {0});
    auto kernel = spec.attr(scan.attributes()).attr(c.delta ? "delta = true" : "delta = false").compile(way);
    ASSERT_TRUE(kernel);
    for (const auto &lengths : batches) {
      auto cu = cumulate(lengths);
      Index N = static_cast<Index>(lengths.size()), T = cu.back();
      Pool pool = makePool(random, N);
      Array q = scan.queries(T), k = scan.queries(T), v = scan.values(T), beta = scan.beta(T), g = scan.gates(T);
      Array state = scan.state(pool.slots), out = Array::undefined("f32", {T, c.heads, c.V});
      Vec expectedState = state.values();
      ref::ScanOptions options = scan.options();
      options.scale = scale;
      Vec expected = ref::kdaScan(q.values(), k.values(), v.values(), c.decay == ref::Decay::None ? Vec() : g.values(),
                                  beta.values(), cu, pool.index.ints(), expectedState, {T, c.heads, c.K, c.V}, options);
      std::vector<Array> arrays = {q, k, v, beta, Array::i32({N + 1}, cu), pool.index};
      if (c.decay != ref::Decay::None)
        arrays.push_back(g);
      arrays.insert(arrays.end(), {out, state});
      kernel->run(arrays);
      EXPECT_TRUE(isClose(out, expected, tolerance)) << way << ", " << T << " rows";
      EXPECT_TRUE(isClose(state, expectedState, tolerance)) << way << ", " << T << " rows";
    }
  }
}

TEST_P(KdaScan, RecurrentStep) {
  ScanCase c = GetParam();
  Random random(4);
  Scan scan{c, random};
  double scale = std::stod(std::to_string(scan.scale()));
  for (const CompileOptions &way : allWays()) {
    KernelSpec spec("k3.kda.recurrent_step");
    spec.in(scan.queries(1), {0}).in(scan.queries(1), {0}).in(scan.values(1), {0}).in(scan.beta(1), {0});
    spec.in(Array::i32({1}, {0}), {0});
    if (c.decay != ref::Decay::None)
      spec.optional("g", scan.gates(1), {0});
    spec.out(scan.values(1), {0}).out(scan.state(1), {0});
    auto kernel = spec.attr(scan.attributes()).attr(c.delta ? "delta = true" : "delta = false").compile(way);
    ASSERT_TRUE(kernel);
    for (Index N : {0, 1, 2, 5}) {
      Pool pool = makePool(random, N);
      Array q = scan.queries(N), k = scan.queries(N), v = scan.values(N), beta = scan.beta(N), g = scan.gates(N);
      Array state = scan.state(pool.slots), out = Array::undefined("f32", {N, c.heads, c.V});
      Vec expectedState = state.values();
      ref::ScanOptions options = scan.options();
      options.scale = scale;
      auto cu = cumulate(std::vector<Index>(N, 1));
      Vec expected = ref::kdaScan(q.values(), k.values(), v.values(), c.decay == ref::Decay::None ? Vec() : g.values(),
                                  beta.values(), cu, pool.index.ints(), expectedState, {N, c.heads, c.K, c.V}, options);
      std::vector<Array> arrays = {q, k, v, beta, pool.index};
      if (c.decay != ref::Decay::None)
        arrays.push_back(g);
      arrays.insert(arrays.end(), {out, state});
      kernel->run(arrays);
      EXPECT_TRUE(isClose(out, expected, tolerance)) << way << ", " << N << " sequences";
      EXPECT_TRUE(isClose(state, expectedState, tolerance)) << way << ", " << N << " sequences";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, KdaScan,
                         ::testing::Values(ScanCase{3, 32, 48, ref::Decay::PerChannel, true, true},
                                           ScanCase{2, 19, 7, ref::Decay::PerChannel, true, true},
                                           ScanCase{2, 16, 32, ref::Decay::PerHead, true, true},
                                           ScanCase{1, 24, 8, ref::Decay::None, true, false},
                                           ScanCase{2, 16, 16, ref::Decay::PerHead, false, false},
                                           ScanCase{1, 128, 128, ref::Decay::PerChannel, true, true}));

struct ChunkCase {
  Index heads, K, V, L;
  std::string anchor;
  double low, high; ///< of the log-decay
  /// How the op makes it of logits; empty: it is given.
  std::string gate = {};
};

class KdaChunk : public ::testing::TestWithParam<ChunkCase> {};

TEST_P(KdaChunk, PrepareAndScan) {
  ChunkCase c = GetParam();
  ScanCase base{c.heads, c.K, c.V, ref::Decay::PerChannel, true, true};
  Random random(5);
  Scan scan{base, random, c.low, c.high};
  double scale = std::stod(std::to_string(scan.scale()));
  Index H = c.heads, K = c.K, V = c.V, L = c.L;
  bool made = !c.gate.empty();
  auto kind = c.gate == "softplus" ? ref::GateKind::Softplus : ref::GateKind::BoundedSigmoid;
  Array bias = Array::f32({H, K}, random.normal(H * K));
  Array rate = Array::f32({H + 3}, random.normal(H + 3, 0.5)); // padded
  auto gates = [&](Index T) { return made ? Array::f32({T, H, K}, random.normal(T * H * K, 2)) : scan.gates(T); };
  auto parts = [&](Index C) {
    return std::vector<Array>{Array::undefined("f32", {C, H, L, K}), Array::undefined("f32", {C, H, L, K}),
                              Array::undefined("f32", {C, H, L, V}), Array::undefined("f32", {C, H, L, K}),
                              Array::undefined("f32", {C, H, L, L}), Array::undefined("f32", {C, H, K})};
  };
  for (const CompileOptions &way : allWays()) {
    KernelSpec prepareSpec("k3.kda.chunk_prepare"), scanSpec("k3.kda.chunk_scan");
    prepareSpec.in(scan.queries(1), {0}).in(scan.queries(1), {0}).in(scan.values(1), {0}).in(gates(1), {0});
    prepareSpec.in(scan.beta(1), {0}).in(Array::i32({1, 2}, {0, 1}), {0});
    if (made)
      prepareSpec.optional("dt_bias", bias).optional("a_log", rate).attr("gate = #k3.gate_kind<" + c.gate + ">");
    if (made && kind == ref::GateKind::BoundedSigmoid)
      prepareSpec.attr("lower_bound = -5.0 : f64");
    for (const Array &part : parts(1)) {
      prepareSpec.out(part, {0});
      scanSpec.in(part, {0});
    }
    prepareSpec.attr(scan.attributes()).attr("anchor = #k3.anchor<" + c.anchor + ">");
    scanSpec.in(Array::i32({1, 2}, {0, 1}), {0}).in(Array::i32({2}, {0, 1}), {0}).in(Array::i32({1}, {0}), {0});
    scanSpec.out(scan.values(1), {0}).out(scan.state(1), {0});
    auto prepare = prepareSpec.compile(way), apply = scanSpec.compile(way);
    ASSERT_TRUE(prepare && apply);
    for (const auto &lengths : batches) {
      auto cu = cumulate(lengths);
      Index N = static_cast<Index>(lengths.size()), T = cu.back();
      ref::ChunkTable table = ref::chunkTable(cu, L);
      Pool pool = makePool(random, N);
      Array q = scan.queries(T), k = scan.queries(T), v = scan.values(T), beta = scan.beta(T), g = gates(T);
      Vec decays = made ? ref::kdaGate(g.values(), rate.values(), bias.values(), kind, -5, T, H, K) : g.values();
      Array chunks = Array::i32({table.count(), 2}, table.chunks), chunkCu = Array::i32({N + 1}, table.chunkCu);
      ref::ScanOptions options = scan.options();
      options.scale = scale;
      ref::ScanShape shape{T, H, K, V};
      ref::ChunkParts expected =
          ref::kdaChunkPrepare(q.values(), k.values(), v.values(), decays, beta.values(), table, shape, options);
      std::vector<Array> between = parts(table.count()), arrays = {q, k, v, g, beta, chunks};
      if (made)
        arrays.insert(arrays.end(), {bias, rate});
      arrays.insert(arrays.end(), between.begin(), between.end());
      prepare->run(arrays);
      const Vec *want[] = {&expected.qg, &expected.w, &expected.u, &expected.kd, &expected.aqk, &expected.gl};
      const char *names[] = {"qg", "w", "u", "kd", "aqk", "gl"};
      for (int i = 0; i < 6; ++i)
        EXPECT_TRUE(isClose(between[i], *want[i], partTolerance)) << way << ", " << names[i] << ", " << T << " rows";
      passOn(between);

      Array state = scan.state(pool.slots), out = Array::undefined("f32", {T, H, V});
      Vec expectedState = state.values();
      Vec expectedOut = ref::kdaScan(q.values(), k.values(), v.values(), decays, beta.values(), cu, pool.index.ints(),
                                     expectedState, shape, options);
      arrays = between;
      arrays.insert(arrays.end(), {chunks, chunkCu, pool.index, out, state});
      apply->run(arrays);
      EXPECT_TRUE(isClose(out, expectedOut, chunkTolerance)) << way << ", " << T << " rows";
      EXPECT_TRUE(isClose(state, expectedState, chunkTolerance)) << way << ", " << T << " rows";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, KdaChunk,
    ::testing::Values(ChunkCase{2, 32, 48, 16, "mid_row", -5, 0}, ChunkCase{1, 19, 7, 16, "mid_row", -5, 0},
                      ChunkCase{2, 16, 24, 16, "pairwise", -30, 0}, ChunkCase{1, 24, 8, 16, "pairwise", -80, -60},
                      ChunkCase{1, 128, 128, 16, "zero", -1, 0}, ChunkCase{1, 32, 16, 64, "pairwise", -3, 0},
                      ChunkCase{2, 32, 48, 16, "mid_row", 0, 0, "bounded_sigmoid"},
                      ChunkCase{2, 24, 16, 16, "pairwise", 0, 0, "softplus"}));

TEST(KdaGatedNorm, MatchesReference) {
  Random random(6);
  struct Types {
    bool weight, out; ///< whether it is bf16
  };
  std::vector<Types> types = {{true, false}, {false, false}};
  if (forGpu())
    types.push_back({true, true});
  for (Types bf16 : types)
    for (auto [heads, dim] : {std::pair<Index, Index>{4, 32}, {3, 17}, {2, 128}})
      for (const CompileOptions &way : allWays()) {
        const char *outType = bf16.out ? "bf16" : "f32";
        Index H = heads, V = dim;
        Array weight = Array::floats(bf16.weight, {V}, random.normal(V));
        auto make = [&](Index tokens) { return Array::f32({tokens, H, V}, random.normal(tokens * H * V, 2)); };
        KernelSpec spec("k3.kda.gated_norm");
        spec.in(make(1), {0}).in(make(1), {0}).in(weight).out(Array::undefined(outType, {1, H, V}), {0});
        auto kernel = spec.attr("eps = 1.0e-5 : f64").compile(way);
        ASSERT_TRUE(kernel);
        for (Index tokens : {0, 1, 9, 66}) {
          Array x = make(tokens), gate = make(tokens), out = Array::undefined(outType, {tokens, H, V});
          kernel->run({x, gate, weight, out});
          Vec expected = ref::kdaGatedNorm(x.values(), gate.values(), weight.values(), tokens * H, V, 1e-5);
          EXPECT_TRUE(isClose(out, expected, tolerateStored(bf16.out, tolerance)))
              << way << ", " << tokens << " tokens";
        }
      }
}

struct DecodeCase {
  Index heads, K, V, taps;
  bool softplus, withRate, l2norm, delta;
  /// What is bf16: weights, the output, the windows of the convolutions.
  bool narrowWeights, narrowOut, narrowWindows;
};

class KdaDecodeStep : public ::testing::TestWithParam<DecodeCase> {};

// Against the ops it is made of, as the reference has them.
TEST_P(KdaDecodeStep, MatchesReference) {
  DecodeCase c = GetParam();
  Random random(7);
  Index H = c.heads, K = c.K, V = c.V, history = c.taps - 1;
  constexpr double scale = 0.125, eps = 1e-5, bound = -5;
  auto floats = [&](Shape shape, double deviation = 1) {
    Index size = 1;
    for (Index dim : shape)
      size *= dim;
    return Array::f32(shape, random.normal(size, deviation));
  };
  // Only GPUs decode by this op: stores of single bf16 elements are not what CPUs have code for.
  bool narrowOut = c.narrowOut && forGpu(), narrowWindows = c.narrowWindows && forGpu();
  const char *outType = narrowOut ? "bf16" : "f32";
  auto weights = [&](Shape shape, double deviation = 1) {
    Array drawn = floats(shape, deviation);
    return c.narrowWeights ? Array::bf16(shape, drawn.values()) : drawn;
  };
  auto conv = [&](Index slots, Index channels) {
    return Array::floats(narrowWindows, {slots, history, channels}, random.normal(slots * history * channels));
  };
  // Keys of length about 1 where the op does not normalise them, for the delta rule to be stable.
  double keyScale = c.l2norm ? 1 : 1 / std::sqrt(static_cast<double>(K));
  Array qWeight = weights({H * K, c.taps}, keyScale), kWeight = weights({H * K, c.taps}, keyScale);
  Array vWeight = weights({H * V, c.taps}), normWeight = weights({V});
  Array bias = floats({H, K}), rate = floats({H + 3});
  for (const CompileOptions &way : allWays()) {
    if (simulating() && way.phase == "prefill")
      continue; // an op of decoding
    KernelSpec spec("k3.kda.decode_step");
    spec.inPhases({"decode"});
    spec.in(floats({1, H * K}), {0}).in(floats({1, H * K}), {0}).in(floats({1, H * V}), {0});
    spec.in(floats({1, H, K}), {0}).in(floats({1, H}), {0}).in(floats({1, H, V}), {0});
    spec.in(qWeight).in(kWeight).in(vWeight).in(bias).in(normWeight).in(Array::i32({1}, {0}), {0});
    if (c.withRate)
      spec.optional("a_log", rate);
    spec.out(Array::undefined(outType, {1, H, V}), {0}).out(floats({1, H, V, K}), {0});
    spec.out(conv(1, H * K), {0}).out(conv(1, H * K), {0}).out(conv(1, H * V), {0});
    spec.attr(c.softplus ? "kind = #k3.gate_kind<softplus>"
                         : "kind = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64");
    spec.attr("scale = 0.125 : f64").attr("eps = 1.0e-5 : f64");
    spec.attr(c.l2norm ? "l2norm = true" : "l2norm = false").attr(c.delta ? "delta = true" : "delta = false");
    auto kernel = spec.compile(way);
    ASSERT_TRUE(kernel);
    for (Index N : {0, 1, 2, 5}) {
      Pool pool = makePool(random, N);
      Array q = floats({N, H * K}), k = floats({N, H * K}), v = floats({N, H * V}), z = floats({N, H, K}, 3);
      Array beta = floats({N, H}), gate = floats({N, H, V});
      Array out = Array::undefined(outType, {N, H, V});
      Array state = floats({pool.slots, H, V, K}), convQ = conv(pool.slots, H * K), convK = conv(pool.slots, H * K),
            convV = conv(pool.slots, H * V);

      Vec wantQ = convQ.values(), wantK = convK.values(), wantV = convV.values(), wantState = state.values();
      Vec qIn = q.values(), kIn = k.values(), vIn = v.values(), zIn = z.values(), betaIn = beta.values(), gateIn = gate.values();
      Vec qW = qWeight.values(), kW = kWeight.values(), vW = vWeight.values(), biasIn = bias.values(),
          rateIn = c.withRate ? rate.values() : Vec(), normIn = normWeight.values();
      ref::DecodeStep step{qIn, kIn, vIn, zIn, betaIn, gateIn, qW, kW, vW, biasIn, rateIn, normIn,
                           c.softplus ? ref::GateKind::Softplus : ref::GateKind::BoundedSigmoid, bound, eps, c.taps};
      Vec expected = ref::kdaDecodeStep(step, pool.index.ints(), wantState, wantQ, wantK, wantV, {N, H, K, V},
                                        {ref::Decay::PerChannel, c.delta, c.l2norm, scale});

      std::vector<Array> arrays = {q,       k,       v,       z,    beta,       gate,
                                   qWeight, kWeight, vWeight, bias, normWeight, pool.index};
      if (c.withRate)
        arrays.push_back(rate);
      arrays.insert(arrays.end(), {out, state, convQ, convK, convV});
      kernel->run(arrays);
      // The norm divides by what the step leaves: its error counts once more.
      EXPECT_TRUE(isClose(out, expected, tolerateStored(narrowOut, 4 * tolerance))) << way << ", " << N << " sequences";
      EXPECT_TRUE(isClose(state, wantState, tolerance)) << way << ", " << N << " sequences";
      double convTolerance = narrowWindows ? 4e-3 : 0; // new rows are rounded to bf16
      EXPECT_TRUE(isClose(convQ, wantQ, convTolerance)) << way << ", " << N << " sequences";
      EXPECT_TRUE(isClose(convK, wantK, convTolerance)) << way << ", " << N << " sequences";
      EXPECT_TRUE(isClose(convV, wantV, convTolerance)) << way << ", " << N << " sequences";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, KdaDecodeStep,
                         ::testing::Values(DecodeCase{3, 32, 48, 4, false, true, true, true, true, false, false},
                                           DecodeCase{2, 19, 7, 4, false, false, true, true, true, true, true},
                                           DecodeCase{2, 16, 40, 2, true, true, false, true, false, false, false},
                                           DecodeCase{1, 24, 8, 3, false, true, false, false, false, true, false},
                                           DecodeCase{2, 128, 128, 4, true, true, true, true, true, true, true},
                                           DecodeCase{2, 32, 32, 4, true, true, true, true, true, false, true},
                                           DecodeCase{2, 32, 32, 4, false, true, true, true, true, true, false},
                                           DecodeCase{2, 32, 32, 4, false, true, true, true, false, false, true}));

} // namespace
