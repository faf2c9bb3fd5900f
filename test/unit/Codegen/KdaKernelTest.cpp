//===- KdaKernelTest.cpp - compiled KDA strategies against the reference --===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Kda.h"
#include "test/unit/Codegen/KernelHarness.h"

#include <numeric>

using namespace k3;
using namespace k3::test;

namespace {

using Ints = std::vector<std::int32_t>;

/// How the log-decays of a test are drawn.
enum class Gates {
  bounded,   ///< anywhere in (-5, 0)
  atBound,   ///< all -5: the largest exponents a bounded gate can make
  softplus,  ///< from -0.01 to -80
  extreme    ///< one channel at -80, the others at -0.01
};

Vec drawGates(Random &random, Gates gates, Index size) {
  switch (gates) {
  case Gates::bounded:
    return random.uniform(size, -5, 0);
  case Gates::atBound:
    return Vec(size, -5);
  case Gates::softplus: {
    Vec g = random.uniform(size, -8, 4.4);
    for (double &x : g)
      x = -std::exp(x);
    return g;
  }
  case Gates::extreme: {
    Vec g(size, -0.01);
    for (Index i = 0; i < size; i += 7)
      g[i] = -80;
    return g;
  }
  }
  return {};
}

/// A batch of sequences on a pool with more slots than sequences, slots in falling order.
struct Batch {
  Ints cu{0}, slots;
  explicit Batch(const std::vector<Index> &lengths) {
    for (Index length : lengths)
      cu.push_back(cu.back() + static_cast<std::int32_t>(length));
    for (std::size_t n = lengths.size(); n > 0; --n)
      slots.push_back(static_cast<std::int32_t>(2 * n - 1));
  }
  Index tokens() const { return cu.back(); }
  Index sequences() const { return static_cast<Index>(slots.size()); }
  Index pool() const { return 2 * sequences() + 1; }
};

struct Inputs {
  Array q, k, v, g, beta;
  Vec state;
  Inputs(Random &random, const Batch &batch, Index heads, Index key, Index value, Gates gates)
      : q(Array::f32({batch.tokens(), heads, key}, random.normal(batch.tokens() * heads * key))),
        k(Array::f32({batch.tokens(), heads, key}, random.normal(batch.tokens() * heads * key))),
        v(Array::f32({batch.tokens(), heads, value}, random.normal(batch.tokens() * heads * value))),
        g(Array::f32({batch.tokens(), heads, key}, drawGates(random, gates, batch.tokens() * heads * key))),
        beta(Array::f32({batch.tokens(), heads}, random.normal(batch.tokens() * heads, 2))),
        state(random.normal(batch.pool() * heads * key * value)) {}
};

// f32 against f64. Unit keys keep every intermediate of order 1; a chunk sums K products and solves L rows of a triangle,
// which amplifies half ulps (6e-8) by some tens.
constexpr double tolerance = 5e-6;

std::string kdaAttributes(double scale) { return "scale = " + std::to_string(scale) + " : f64, l2norm = true"; }

//===----------------------------------------------------------------------===//
// recurrent_step
//===----------------------------------------------------------------------===//

struct StepCase {
  Index heads, key, value;
  ref::Decay decay;
  bool delta;
};

void checkStep(const StepCase &c, const std::string &target, bool generic) {
  Random random(7);
  auto gShape = [&](Index n) {
    return c.decay == ref::Decay::PerHead ? Shape{n, c.heads} : Shape{n, c.heads, c.key};
  };
  auto makeSpec = [&](const Inputs &in, const Batch &batch) {
    KernelSpec spec("k3.kda.recurrent_step");
    spec.in(in.q, {0}).in(in.k, {0}).in(in.v, {0}).in(in.beta, {0}).in(Array::i32({batch.sequences()}, batch.slots), {0});
    if (c.decay != ref::Decay::None)
      spec.optional("g", Array::undefined("f32", gShape(batch.sequences())), {0});
    spec.out(Array::undefined("f32", {batch.tokens(), c.heads, c.value}), {0});
    spec.out(Array::undefined("f32", {batch.pool(), c.heads, c.value, c.key}), {0});
    spec.attr(kdaAttributes(0.25)).attr(c.delta ? "delta = true" : "delta = false");
    return spec;
  };
  Batch shape({1, 1});
  auto kernel =
      makeSpec(Inputs(random, shape, c.heads, c.key, c.value, Gates::bounded), shape).compile({target, generic, {}});
  if (!kernel)
    return;
  EXPECT_TRUE(kernel->isMadeBy(generic ? Way::decomposition : Way::emitter));
  for (Index sequences : {0, 1, 3}) {
    Batch batch(std::vector<Index>(sequences, 1));
    Inputs in(random, batch, c.heads, c.key, c.value, Gates::bounded);
    Vec gates = c.decay == ref::Decay::PerChannel ? in.g.values() : drawGates(random, Gates::bounded, sequences * c.heads);
    if (c.decay == ref::Decay::None)
      gates.clear();
    Array state = Array::f32({batch.pool(), c.heads, c.value, c.key}, in.state);
    Array out = Array::undefined("f32", {sequences, c.heads, c.value});
    Array slots = Array::i32({sequences}, batch.slots);
    std::vector<Array> arrays{in.q, in.k, in.v, in.beta, slots};
    Array g = c.decay == ref::Decay::None ? slots : Array::f32(gShape(sequences), gates);
    if (c.decay != ref::Decay::None)
      arrays.push_back(g);
    Vec expectedState = state.values();
    Vec expected = ref::kdaScan(in.q.values(), in.k.values(), in.v.values(),
                                c.decay == ref::Decay::None ? Vec() : g.values(), in.beta.values(), batch.cu, batch.slots,
                                expectedState, {sequences, c.heads, c.key, c.value}, {c.decay, c.delta, true, 0.25});
    arrays.push_back(out);
    arrays.push_back(state);
    kernel->run(arrays);
    EXPECT_TRUE(isClose(out, expected, tolerance)) << sequences << " sequences";
    EXPECT_TRUE(isClose(state, expectedState, tolerance)) << sequences << " sequences";
  }
}

class StepKernel : public ::testing::TestWithParam<StepCase> {};
TEST_P(StepKernel, MatchesReference) {
  for (const std::string &target : runnableTargets())
    checkStep(GetParam(), target, false);
}
INSTANTIATE_TEST_SUITE_P(Shapes, StepKernel,
                         ::testing::Values(StepCase{4, 64, 64, ref::Decay::PerChannel, true},
                                           StepCase{2, 128, 48, ref::Decay::PerChannel, true},
                                           StepCase{3, 37, 19, ref::Decay::PerChannel, true},
                                           StepCase{2, 32, 32, ref::Decay::PerHead, true},
                                           StepCase{2, 16, 24, ref::Decay::None, true},
                                           StepCase{2, 16, 24, ref::Decay::PerChannel, false}));

//===----------------------------------------------------------------------===//
// chunk_prepare, chunk_scan
//===----------------------------------------------------------------------===//

struct ChunkCase {
  Index heads, key, value, length;
  std::string anchor;
  Gates gates;
};

struct ChunkKernels {
  std::unique_ptr<CompiledKernel> prepare, scan;
};

ChunkKernels compileChunks(const ChunkCase &c, const CompileOptions &options) {
  auto f32 = [](Shape shape) { return Array::undefined("f32", std::move(shape)); };
  auto i32 = [](Shape shape) { return Array::undefined("i32", std::move(shape)); };
  KernelSpec prepare("k3.kda.chunk_prepare");
  prepare.in(f32({1, c.heads, c.key}), {0}).in(f32({1, c.heads, c.key}), {0}).in(f32({1, c.heads, c.value}), {0});
  prepare.in(f32({1, c.heads, c.key}), {0}).in(f32({1, c.heads}), {0}).in(i32({1, 2}), {0});
  KernelSpec scan("k3.kda.chunk_scan");
  for (Shape shape : {Shape{1, c.heads, c.length, c.key}, Shape{1, c.heads, c.length, c.key},
                      Shape{1, c.heads, c.length, c.value}, Shape{1, c.heads, c.length, c.key},
                      Shape{1, c.heads, c.length, c.length}, Shape{1, c.heads, c.key}}) {
    prepare.out(f32(shape), {0});
    scan.in(f32(shape), {0});
  }
  prepare.attr(kdaAttributes(0.5)).attr("anchor = #k3.anchor<" + c.anchor + ">");
  scan.in(i32({1, 2}), {0}).in(i32({2}), {0}).in(i32({1}), {0});
  scan.out(f32({1, c.heads, c.value}), {0}).out(f32({1, c.heads, c.value, c.key}), {0});
  return {prepare.compile(options), scan.compile(options)};
}

void checkChunks(const ChunkCase &c, const CompileOptions &options) {
  ChunkKernels kernels = compileChunks(c, options);
  if (!kernels.prepare || !kernels.scan)
    return;
  EXPECT_TRUE(kernels.prepare->isMadeBy(options.forceGeneric ? Way::decomposition : Way::emitter));
  Random random(11);
  for (const std::vector<Index> &lengths :
       {std::vector<Index>{}, {0}, {1}, {15, 0, 17}, {16}, {33, 2}, {c.length, 3 * c.length + 5}}) {
    Batch batch(lengths);
    Inputs in(random, batch, c.heads, c.key, c.value, c.gates);
    ref::ChunkTable table = ref::chunkTable(batch.cu, c.length);
    Index chunks = table.count();
    ref::ScanShape shape{batch.tokens(), c.heads, c.key, c.value};
    ref::ScanOptions scanOptions{ref::Decay::PerChannel, true, true, 0.5};
    auto part = [&](Shape s) { return Array::undefined("f32", std::move(s)); };
    Array qg = part({chunks, c.heads, c.length, c.key}), w = part({chunks, c.heads, c.length, c.key}),
          u = part({chunks, c.heads, c.length, c.value}), kd = part({chunks, c.heads, c.length, c.key}),
          aqk = part({chunks, c.heads, c.length, c.length}), gl = part({chunks, c.heads, c.key});
    Array chunkArray = Array::i32({chunks, 2}, table.chunks);
    kernels.prepare->run({in.q, in.k, in.v, in.g, in.beta, chunkArray, qg, w, u, kd, aqk, gl});
    ref::ChunkParts parts = ref::kdaChunkPrepare(in.q.values(), in.k.values(), in.v.values(), in.g.values(),
                                                 in.beta.values(), table, shape, scanOptions);
    std::string where = std::to_string(lengths.size()) + " sequences, " + std::to_string(batch.tokens()) + " rows";
    EXPECT_TRUE(isClose(qg, parts.qg, tolerance)) << where;
    EXPECT_TRUE(isClose(w, parts.w, tolerance)) << where;
    EXPECT_TRUE(isClose(u, parts.u, tolerance)) << where;
    EXPECT_TRUE(isClose(kd, parts.kd, tolerance)) << where;
    EXPECT_TRUE(isClose(aqk, parts.aqk, tolerance)) << where;
    // Decays below f32's range are 0.
    EXPECT_TRUE(isClose(gl, parts.gl, Tolerance{tolerance, 0, 1e-30})) << where;
    passOn({qg, w, u, kd, aqk, gl});

    Array out = part({batch.tokens(), c.heads, c.value});
    Array state = Array::f32({batch.pool(), c.heads, c.value, c.key}, in.state);
    Vec expectedState = state.values();
    kernels.scan->run({qg, w, u, kd, aqk, gl, chunkArray, Array::i32({batch.sequences() + 1}, table.chunkCu),
                       Array::i32({batch.sequences()}, batch.slots), out, state});
    // The oracle of the pair is the recurrence, not the chunked form.
    Vec expected = ref::kdaScan(in.q.values(), in.k.values(), in.v.values(), in.g.values(), in.beta.values(), batch.cu,
                                batch.slots, expectedState, shape, scanOptions);
    EXPECT_TRUE(isClose(out, expected, tolerance)) << where;
    EXPECT_TRUE(isClose(state, expectedState, tolerance)) << where;
  }
}

class ChunkKernel : public ::testing::TestWithParam<ChunkCase> {};
TEST_P(ChunkKernel, MatchesReference) {
  for (const std::string &target : runnableTargets())
    checkChunks(GetParam(), {target, false, {}});
}
INSTANTIATE_TEST_SUITE_P(Shapes, ChunkKernel,
                         ::testing::Values(ChunkCase{2, 64, 64, 16, "mid_row", Gates::bounded},
                                           ChunkCase{1, 128, 128, 16, "mid_row", Gates::atBound},
                                           ChunkCase{2, 64, 32, 16, "zero", Gates::bounded},
                                           ChunkCase{2, 32, 96, 16, "pairwise", Gates::softplus},
                                           ChunkCase{3, 37, 19, 16, "pairwise", Gates::extreme},
                                           ChunkCase{1, 20, 70, 16, "mid_row", Gates::bounded},
                                           ChunkCase{1, 32, 32, 64, "pairwise", Gates::bounded}));

} // namespace
