//===- AttnResKernelTest.cpp - compiled Block AttnRes against the reference ===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/AttnRes.h"
#include "lib/Reference/Common.h"
#include "test/unit/Codegen/KernelHarness.h"

using namespace k3;
using namespace k3::test;

namespace {

// The logits are sums of d products of order 1, so their error is about 1e-6 of their size (tens), and the softmax turns
// an absolute error of a logit into a relative one of the weights.
constexpr double tolerance = 1e-5;

TEST(AttnResMix, MatchesReference) {
  Random random(1);
  struct Types {
    bool weights, out; ///< whether they are bf16
  };
  std::vector<Types> types = {{false, false}, {true, false}};
  if (forGpu())
    types.push_back({true, true});
  for (Types bf16 : types)
    for (bool norm : {false, true})
      for (auto [slots, dim] : {std::pair<Index, Index>{9, 64}, {1, 33}, {3, 1000}})
        for (const CompileOptions &way : allWays()) {
          const char *outType = bf16.out ? "bf16" : "f32";
          Array keyNorm = Array::floats(bf16.weights, {dim}, random.normal(dim));
          Array query = Array::floats(bf16.weights, {1, dim}, random.normal(dim, 0.2));
          Array outNorm = Array::floats(bf16.weights, {dim}, random.normal(dim));
          auto make = [&, r = slots, d = dim](Index tokens) {
            return Array::f32({r, tokens, d}, random.normal(r * tokens * d));
          };
          KernelSpec spec("k3.attn_res.mix");
          spec.in(make(2), {1}).index().in(keyNorm).in(query);
          if (norm)
            spec.optional("out_weight", outNorm).attr("out_eps = 1.0e-6 : f64");
          spec.out(Array::undefined(outType, {2, dim}), {0}).attr("eps = 1.0e-5 : f64");
          auto kernel = spec.compile(way);
          ASSERT_TRUE(kernel);
          for (Index tokens : {0, 1, 5})
            for (Index sources : {Index(1), slots - 1, slots}) {
              if (sources < 1)
                continue;
              Array stream = make(tokens), out = Array::undefined(outType, {tokens, dim});
              std::vector<Array> arrays = {stream, keyNorm, query};
              if (norm)
                arrays.push_back(outNorm);
              arrays.push_back(out);
              kernel->run(arrays, {sources});
              Vec expected = ref::attnResMix(stream.values(), sources, keyNorm.values(), query.values(), 1e-5, {tokens, dim});
              if (norm)
                expected = ref::rmsNorm(expected, outNorm.values(), tokens, dim, 1e-6);
              EXPECT_TRUE(isClose(out, expected, tolerateStored(bf16.out, tolerance)))
                  << way << ", " << tokens << " tokens, " << sources << " sources of " << dim;
            }
        }
}

TEST(AttnResAccumulate, MatchesReference) {
  Random random(2);
  for (bool init : {false, true})
    for (auto [slots, dim] : {std::pair<Index, Index>{9, 64}, {1, 33}})
      for (const CompileOptions &way : allWays()) {
        auto delta = [&, d = dim](Index tokens) { return Array::f32({tokens, d}, random.normal(tokens * d)); };
        auto stream = [&, r = slots, d = dim](Index tokens) {
          return Array::f32({r, tokens, d}, random.normal(r * tokens * d));
        };
        KernelSpec spec("k3.attn_res.accumulate");
        spec.in(delta(1), {0}).index().out(stream(1), {1});
        if (init)
          spec.attr("init");
        auto kernel = spec.compile(way);
        ASSERT_TRUE(kernel);
        for (Index tokens : {0, 1, 7})
          for (Index slot : {Index(0), slots - 1}) {
            Array x = delta(tokens), s = stream(tokens);
            Vec expected = s.values();
            ref::attnResAccumulate(expected, slot, x.values(), init, {tokens, dim});
            kernel->run({x, s}, {slot});
            EXPECT_TRUE(isClose(s, expected, 1e-7)) << way << ", " << tokens << " tokens, slot " << slot;
          }
      }
}

} // namespace
