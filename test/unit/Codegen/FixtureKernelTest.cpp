//===- FixtureKernelTest.cpp - compiled ops on another implementation's values ===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The compiled ops compute in float as the fixtures did: tolerances are those of two float sums.
//
//===----------------------------------------------------------------------===//
#include "test/unit/Codegen/KernelHarness.h"
#include "test/unit/Support/Fixtures.h"

#include <cmath>

using namespace k3;
using namespace k3::test;

namespace {

using Ints = std::vector<std::int32_t>;

class FixtureKernel : public FixtureTest {
protected:
  void SetUp() override {
    if (exporting())
      GTEST_SKIP() << "the same ops have cases with values of lib/Reference";
  }

  /// A number as an f64 attribute.
  std::string f64(const std::string &name, double value) const {
    char text[64];
    std::snprintf(text, sizeof text, "%s = %.17e : f64", name.c_str(), value);
    return text;
  }
  std::string f64(const std::string &key) const { return f64(key, number(key)); }
};

Array undefined(Shape shape) { return Array::undefined("f32", std::move(shape)); }

} // namespace

TEST_F(FixtureKernel, RmsNorm) {
  OPEN_OR_SKIP("rmsnorm");
  Index T = dim("in", 0), d = dim("in", 1);
  Array in = Array::f32({T, d}, values("in")), weight = Array::f32({d}, values("weight")), out = undefined({T, d});
  auto kernel = KernelSpec("k3.rms_norm").in(in, {0}).in(weight).out(out, {0}).attr(f64("eps")).compile({});
  ASSERT_TRUE(kernel);
  kernel->run({in, weight, out});
  EXPECT_TRUE(isClose(out, values("out"), 2e-6));
}

TEST_F(FixtureKernel, SituGlu) {
  OPEN_OR_SKIP("situ_glu");
  Index T = dim("in", 0), n = dim("in", 1) / 2;
  Vec in = values("in"), gateValues, upValues;
  for (Index t = 0; t < T; ++t) { // gate is the first half of a row
    gateValues.insert(gateValues.end(), in.begin() + t * 2 * n, in.begin() + t * 2 * n + n);
    upValues.insert(upValues.end(), in.begin() + t * 2 * n + n, in.begin() + (t + 1) * 2 * n);
  }
  Array gate = Array::f32({T, n}, gateValues), up = Array::f32({T, n}, upValues), out = undefined({T, n});
  auto kernel = KernelSpec("k3.glu").in(gate, {0}).in(up, {0}).out(out, {0})
                    .attr("activation = #k3.activation<situ>").attr(f64("beta")).attr(f64("linear_beta")).compile({});
  ASSERT_TRUE(kernel);
  kernel->run({gate, up, out});
  EXPECT_TRUE(isClose(out, values("out"), 2e-6));
}

TEST_F(FixtureKernel, ShortConv) {
  OPEN_OR_SKIP("shortconv");
  Index C = integer("channels"), taps = integer("kernel"), T = dim("in", 1);
  Array in = Array::f32({T, C}, values("in")), weight = Array::f32({C, taps}, values("weight"));
  Array slots = Array::i32({1}, {0}), state = Array::f32({1, taps - 1, C}, Vec((taps - 1) * C)), out = undefined({T, C});
  Array cu = Array::i32({2}, {0, static_cast<std::int32_t>(T)});
  auto kernel = KernelSpec("k3.kda.short_conv").in(in, {0}).in(weight).in(cu, {0}).in(slots, {0})
                    .out(out, {0}).out(state, {0}).attr("silu = true").compile({});
  ASSERT_TRUE(kernel);
  kernel->run({in, weight, cu, slots, out, state});
  EXPECT_TRUE(isClose(out, values("out"), 2e-6));
  Array next = Array::f32({1, C}, values("in_next")), nextOut = undefined({1, C});
  kernel->run({next, weight, Array::i32({2}, {0, 1}), slots, nextOut, state});
  EXPECT_TRUE(isClose(nextOut, values("out_next"), 2e-6));
}

TEST_F(FixtureKernel, KdaGate) {
  OPEN_OR_SKIP("kda_decay");
  Index T = dim("g", 1), H = dim("g", 2), K = dim("g", 3);
  Array z = Array::f32({T, H, K}, values("z")), bias = Array::f32({H, K}, values("dt_bias"));
  Vec logs = values("A_log");
  Array aLog = Array::f32({static_cast<Index>(logs.size())}, logs), out = undefined({T, H, K});
  auto kernel = KernelSpec("k3.kda.gate").in(z, {0}).in(bias).optional("a_log", aLog).out(out, {0})
                    .attr("kind = #k3.gate_kind<bounded_sigmoid>").attr(f64("lower_bound")).compile({});
  ASSERT_TRUE(kernel);
  kernel->run({z, bias, aLog, out});
  EXPECT_TRUE(isClose(out, values("g"), 2e-6));
}

TEST_F(FixtureKernel, KdaRecurrence) {
  OPEN_OR_SKIP("kda_recur8");
  Index T = integer("T"), H = integer("H"), K = integer("d_k"), V = integer("d_v");
  Vec gates = values("alpha"), logits = values("beta"); // decays and rates there
  for (double &g : gates)
    g = std::log(g);
  for (double &b : logits)
    b = std::log(b / (1 - b));
  Vec q = values("q"), k = values("k"), v = values("v"), expected = values("out");
  KernelSpec spec("k3.kda.recurrent_step");
  spec.in(undefined({1, H, K}), {0}).in(undefined({1, H, K}), {0}).in(undefined({1, H, V}), {0});
  spec.in(undefined({1, H}), {0}).in(Array::i32({1}, {0}), {0}).optional("g", undefined({1, H, K}), {0});
  spec.out(undefined({1, H, V}), {0}).out(undefined({1, H, V, K}), {0});
  auto kernel = spec.attr(f64("scale", number("q_scale"))).attr("l2norm = false")
                    .attr("delta = true").compile({});
  ASSERT_TRUE(kernel);
  Array state = Array::f32({1, H, V, K}, Vec(H * V * K)), slots = Array::i32({1}, {0});
  Vec outputs;
  auto row = [](const Vec &values, Index t, Index size) {
    return Vec(values.begin() + t * size, values.begin() + (t + 1) * size);
  };
  for (Index t = 0; t < T; ++t) {
    Array out = undefined({1, H, V});
    kernel->run({Array::f32({1, H, K}, row(q, t, H * K)), Array::f32({1, H, K}, row(k, t, H * K)),
                 Array::f32({1, H, V}, row(v, t, H * V)), Array::f32({1, H}, row(logits, t, H)), slots,
                 Array::f32({1, H, K}, row(gates, t, H * K)), out, state});
    Vec now = out.values();
    outputs.insert(outputs.end(), now.begin(), now.end());
  }
  EXPECT_LT(relativeError(outputs, expected), 5e-6);
  Vec keyFirst, last = state.values(); // [H, K, V] there
  for (Index h = 0; h < H; ++h)
    for (Index i = 0; i < K; ++i)
      for (Index j = 0; j < V; ++j)
        keyFirst.push_back(last[(h * V + j) * K + i]);
  EXPECT_LT(relativeError(keyFirst, values("state_out")), 5e-6);
}

TEST_F(FixtureKernel, Router) {
  OPEN_OR_SKIP("router");
  Index T = dim("in", 0), d = dim("in", 1), E = integer("n_experts"), k = integer("top_k");
  Array in = Array::f32({T, d}, values("in")), weight = Array::f32({E, d}, values("gate_weight"));
  Array bias = Array::f32({E}, values("bias")), logits = undefined({T, E});
  auto linear = KernelSpec("k3.linear").in(in, {0}).in(weight).out(logits, {0}).compile({});
  Array ids = Array::undefined("i32", {T, k}), weights = undefined({T, k});
  auto route = KernelSpec("k3.latent_moe.route").in(logits, {0}).in(bias).out(ids, {0}).out(weights, {0})
                   .attr("renormalize = true").attr(f64("scale", 1.0)).compile({});
  ASSERT_TRUE(linear && route);
  linear->run({in, weight, logits});
  route->run({logits, bias, ids, weights});
  EXPECT_TRUE(isEqual(ids, fixture.at("topk_idx").at("data").get<Ints>()));
  EXPECT_TRUE(isClose(weights, values("topk_weight"), 2e-6));
}

TEST_F(FixtureKernel, AttnRes) {
  OPEN_OR_SKIP("attnres");
  Index T = dim("block_residual", 0), n = dim("block_residual", 1), d = dim("block_residual", 2);
  Vec stream = slotMajor(values("block_residual"), T, n, d), partial = values("prefix_sum");
  stream.insert(stream.end(), partial.begin(), partial.end());
  Array sources = Array::f32({n + 1, T, d}, stream), norm = Array::f32({d}, values("norm_weight"));
  Array proj = Array::f32({1, d}, values("proj_weight")), out = undefined({T, d});
  auto kernel = KernelSpec("k3.attn_res.mix").in(sources, {1}).index().in(norm).in(proj).out(out, {0})
                    .attr(f64("eps")).compile({});
  ASSERT_TRUE(kernel);
  kernel->run({sources, norm, proj, out}, {n + 1});
  EXPECT_TRUE(isClose(out, values("out"), 5e-6));
}

TEST_F(FixtureKernel, RealMxFp4Bytes) {
  OPEN_OR_SKIP("mxfp4");
  Index rows = integer("rows"), K = integer("logical_width"), group = integer("group_size");
  Array packed = Array::i8({rows, K / 2}, fixture["packed"]["data"].get<std::vector<std::uint8_t>>());
  Array scales = Array::i8({rows, K / group}, fixture["scales"]["data"].get<std::vector<std::uint8_t>>());
  // Rows of the identity read one column of the weight each, exactly: 64 columns spread over the width.
  constexpr Index probes = 64;
  Vec identity(probes * K), expected;
  Vec weights = values("expected");
  for (Index p = 0; p < probes; ++p) {
    Index column = p * (K - 1) / (probes - 1);
    identity[p * K + column] = 1;
    for (Index r = 0; r < rows; ++r)
      expected.push_back(weights[r * K + column]);
  }
  Array x = Array::f32({probes, K}, identity), out = undefined({probes, rows});
  auto kernel = KernelSpec("k3.mx.contract").in(x, {0}).in(packed).in(scales).out(out, {0}).compile({});
  ASSERT_TRUE(kernel);
  kernel->run({x, packed, scales, out});
  EXPECT_TRUE(isEqual(out, expected));
}
