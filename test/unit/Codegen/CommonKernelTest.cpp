//===- CommonKernelTest.cpp - compiled common ops against the reference ---===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Common.h"
#include "test/unit/Codegen/KernelHarness.h"

using namespace k3;
using namespace k3::test;

namespace {

// Elementwise f32 with functions good to about 3 ulp, and sums of up to some thousand squares.
constexpr double tolerance = 2e-6;

TEST(GatherRows, MatchesReference) {
  Random random(1);
  for (bool bf16 : {false, true})
    for (auto [vocabulary, dim] : {std::pair<Index, Index>{50, 64}, {7, 33}, {3, 1}})
      for (const CompileOptions &way : allWays()) {
        Array table = Array::floats(bf16, {vocabulary, dim}, random.normal(vocabulary * dim));
        auto ids = [&, limit = vocabulary](Index tokens) {
          std::vector<std::int32_t> out;
          for (Index t = 0; t < tokens; ++t)
            out.push_back(static_cast<std::int32_t>(random.integer(0, limit - 1)));
          return Array::i32({tokens}, out);
        };
        KernelSpec spec("k3.gather_rows");
        auto kernel = spec.in(ids(1), {0}).in(table).out(Array::undefined("f32", {1, dim}), {0}).compile(way);
        ASSERT_TRUE(kernel);
        for (Index tokens : {0, 1, 5, 130}) {
          Array rows = ids(tokens), out = Array::undefined("f32", {tokens, dim});
          kernel->run({rows, table, out});
          EXPECT_TRUE(isEqual(out, ref::embed(table.values(), rows.ints(), dim))) << way;
        }
      }
}

TEST(RmsNorm, MatchesReference) {
  Random random(2);
  struct Types {
    bool x, weight, out; ///< whether it is bf16
  };
  for (Types bf16 : {Types{false, false, false}, {true, true, true}, {false, true, false}, {false, true, true}})
    for (Index dim : {64, 2304, 37, 1})
      for (const CompileOptions &way : allWays()) {
        const char *outType = bf16.out ? "bf16" : "f32";
        Array weight = Array::floats(bf16.weight, {dim}, random.normal(dim));
        KernelSpec spec("k3.rms_norm");
        Array x0 = Array::floats(bf16.x, {1, dim}, random.normal(dim));
        spec.in(x0, {0}).in(weight).out(Array::undefined(outType, {1, dim}), {0}).attr("eps = 1.0e-5 : f64");
        auto kernel = spec.compile(way);
        ASSERT_TRUE(kernel);
        for (Index rows : {0, 1, 3, 70}) {
          Vec values = random.normal(rows * dim);
          if (rows == 3) // a row of zeros
            std::fill_n(values.begin(), dim, 0.0);
          Array x = Array::floats(bf16.x, {rows, dim}, values);
          Array out = Array::undefined(outType, {rows, dim});
          kernel->run({x, weight, out});
          Vec expected = ref::rmsNorm(x.values(), weight.values(), rows, dim, 1e-5);
          EXPECT_TRUE(isClose(out, expected, tolerateStored(bf16.out, tolerance)))
              << way << ", " << rows << " rows of " << dim;
        }
      }
}

TEST(Glu, MatchesReference) {
  Random random(3);
  for (bool bf16 : resultTypes())
    for (bool situ : {false, true})
      for (Index width : {64, 1024, 1500, 19})
        for (const CompileOptions &way : allWays()) {
          const char *outType = bf16 ? "bf16" : "f32";
          auto make = [&](Index rows, double scale) {
            return Array::f32({rows, width}, random.normal(rows * width, scale));
          };
          KernelSpec spec("k3.glu");
          spec.in(make(1, 1), {0}).in(make(1, 1), {0}).out(Array::undefined(outType, {1, width}), {0});
          spec.attr(situ ? "activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64"
                         : "activation = #k3.activation<swiglu>");
          auto kernel = spec.compile(way);
          ASSERT_TRUE(kernel);
          for (Index rows : {0, 1, 9})
            for (double scale : {1.0, 100.0}) { // 100: deep in saturation, exponentials overflow
              Array gate = make(rows, scale), up = make(rows, scale), out = Array::undefined(outType, {rows, width});
              kernel->run({gate, up, out});
              Vec expected = ref::glu(gate.values(), up.values(),
                                      {situ ? ref::Activation::Situ : ref::Activation::SwiGlu, 4.0, 25.0});
              EXPECT_TRUE(isClose(out, expected, tolerateStored(bf16, tolerance)))
                  << way << ", " << rows << " rows, scale " << scale;
            }
        }
}

TEST(SigmoidGate, MatchesReference) {
  Random random(4);
  for (bool bf16 : resultTypes())
    for (Index width : {64, 1500, 5})
      for (const CompileOptions &way : allWays()) {
        const char *outType = bf16 ? "bf16" : "f32";
        auto make = [&](Index rows, double scale) {
          return Array::f32({rows, width}, random.normal(rows * width, scale));
        };
        KernelSpec spec("k3.sigmoid_gate");
        auto kernel =
            spec.in(make(1, 1), {0}).in(make(1, 1), {0}).out(Array::undefined(outType, {1, width}), {0}).compile(way);
        ASSERT_TRUE(kernel);
        for (Index rows : {0, 1, 9}) {
          Array x = make(rows, 1), gate = make(rows, 30), out = Array::undefined(outType, {rows, width});
          kernel->run({x, gate, out});
          Vec expected = ref::sigmoidGate(x.values(), gate.values());
          EXPECT_TRUE(isClose(out, expected, tolerateStored(bf16, tolerance))) << way;
        }
      }
}

} // namespace
