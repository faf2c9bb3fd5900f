//===- KdaPrefillKernelTest.cpp - chunks for matrix units -----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Chunks of 64 rows whose parts are bf16, gates made by the op or given: on the CPU by decomposition, on a GPU by emitters
// (interpreted here, exported for real ones).
//
//===----------------------------------------------------------------------===//
#include "lib/Reference/Kda.h"
#include "test/unit/Codegen/KernelHarness.h"

using namespace k3;
using namespace k3::test;

namespace {

constexpr Index L = 64;
// What decomposition needs for 64 rows does not fit a block's memory.
const CompileOptions gpuTarget{"nvidia-sm90a", false, {}, /*fastestOnly=*/true};

/// Where log-decays come from, and how they are drawn.
enum class Gates {
  bounded,       ///< given, anywhere in (-5, 0)
  atBound,       ///< given, all -5
  wild,          ///< given, from -0.01 to -80
  oneForgets,    ///< given, one channel of seven at -80, the others at -0.01
  madeBounded,   ///< by the op from logits, bounded sigmoid
  madeSoftplus,  ///< by the op from logits, softplus; up to -80 and more
};

struct ChunkCase {
  Index heads, key, value;
  Gates gates;
  bool bf16Inputs, bf16Out;
};

void PrintTo(const ChunkCase &c, std::ostream *stream) {
  *stream << c.heads << " x " << c.key << " x " << c.value << ", gates " << static_cast<int>(c.gates);
}

bool isMade(Gates gates) { return gates >= Gates::madeBounded; }
bool hasBound(Gates gates) { return gates == Gates::bounded || gates == Gates::atBound || gates == Gates::madeBounded; }

Vec drawGates(Random &random, Gates gates, Index size) {
  switch (gates) {
  case Gates::bounded:
    return random.uniform(size, -5, 0);
  case Gates::atBound:
    return Vec(size, -5);
  case Gates::wild: {
    Vec g = random.uniform(size, -8, 4.4);
    for (double &x : g)
      x = -std::exp(x);
    return g;
  }
  case Gates::oneForgets: {
    Vec g(size, -0.01);
    for (Index i = 0; i < size; i += 7)
      g[i] = -80;
    return g;
  }
  case Gates::madeBounded:
    return random.normal(size, 2);
  case Gates::madeSoftplus:
    return random.normal(size, 12);
  }
  return {};
}

/// A batch on a pool with more slots than sequences, slots in falling order.
struct Batch {
  std::vector<std::int32_t> cu, slots;
  ref::ChunkTable table;
  explicit Batch(const std::vector<Index> &lengths) : cu(cumulate(lengths)), table(ref::chunkTable(cu, L)) {
    for (std::size_t n = lengths.size(); n > 0; --n)
      slots.push_back(static_cast<std::int32_t>(2 * n - 1));
  }
  Index tokens() const { return cu.back(); }
  Index sequences() const { return static_cast<Index>(slots.size()); }
  Index pool() const { return 2 * sequences() + 1; }
};

/// The operands of both ops for a batch.
struct Operands {
  Array q, k, v, g, beta, bias, rate, chunks, chunkCu, slots;
  std::vector<Array> parts;
  Array out, state;

  Operands(Random &random, const Batch &batch, const ChunkCase &c)
      : q(draw(random, c, {batch.tokens(), c.heads, c.key})), k(draw(random, c, q.shape())),
        v(draw(random, c, {batch.tokens(), c.heads, c.value})),
        g(Array::floats(c.bf16Inputs && isMade(c.gates), q.shape(), drawGates(random, c.gates, q.elements()))),
        beta(Array::f32({batch.tokens(), c.heads}, random.normal(batch.tokens() * c.heads, 2))),
        bias(Array::f32({c.heads, c.key}, random.normal(c.heads * c.key))),
        // Entries past the heads are padding.
        rate(Array::f32({c.heads + 3}, random.normal(c.heads + 3, 0.5))),
        chunks(Array::i32({batch.table.count(), 2}, batch.table.chunks)),
        chunkCu(Array::i32({batch.sequences() + 1}, batch.table.chunkCu)),
        slots(Array::i32({batch.sequences()}, batch.slots)),
        out(Array::undefined(c.bf16Out ? "bf16" : "f32", {batch.tokens(), c.heads, c.value})),
        state(Array::f32({batch.pool(), c.heads, c.value, c.key}, random.normal(batch.pool() * c.heads * c.value * c.key))) {
    Index C = batch.table.count(), H = c.heads;
    for (const Shape &shape : {Shape{C, H, L, c.key}, {C, H, L, c.key}, {C, H, L, c.value}, {C, H, L, c.key}, {C, H, L, L}})
      parts.push_back(Array::undefined("bf16", shape));
    parts.push_back(Array::undefined("f32", {C, H, c.key}));
  }

  std::vector<Array> ofPrepare(const ChunkCase &c) const {
    std::vector<Array> all{q, k, v, g, beta, chunks};
    if (isMade(c.gates))
      all.insert(all.end(), {bias, rate});
    all.insert(all.end(), parts.begin(), parts.end());
    return all;
  }
  std::vector<Array> ofScan() const {
    std::vector<Array> all = parts;
    all.insert(all.end(), {chunks, chunkCu, slots, out, state});
    return all;
  }

private:
  static Array draw(Random &random, const ChunkCase &c, const Shape &shape) {
    Index size = shape[0] * shape[1] * shape[2];
    return Array::floats(c.bf16Inputs, shape, random.normal(size));
  }
};

struct Kernels {
  std::unique_ptr<CompiledKernel> prepare, scan;
};

Kernels compile(const ChunkCase &c, const CompileOptions &options) {
  Random random(1);
  Operands like(random, Batch({1}), c);
  KernelSpec prepare("k3.kda.chunk_prepare"), scan("k3.kda.chunk_scan");
  for (const Array &array : {like.q, like.k, like.v, like.g, like.beta, like.chunks})
    prepare.in(array, {0});
  if (isMade(c.gates))
    prepare.optional("dt_bias", like.bias).optional("a_log", like.rate);
  for (const Array &part : like.parts) {
    prepare.out(part, {0});
    scan.in(part, {0});
  }
  prepare.attr("scale = 0.25 : f64, l2norm = true");
  prepare.attr(hasBound(c.gates) ? "anchor = #k3.anchor<tile_row>" : "anchor = #k3.anchor<pairwise>");
  if (c.gates == Gates::madeBounded)
    prepare.attr("gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64");
  if (c.gates == Gates::madeSoftplus)
    prepare.attr("gate = #k3.gate_kind<softplus>");
  for (const Array &array : {like.chunks, like.chunkCu, like.slots})
    scan.in(array, {0});
  scan.out(like.out, {0}).out(like.state, {0});
  return {prepare.inPhases({"prefill"}).compile(options), scan.inPhases({"prefill"}).compile(options)};
}

// Every product has inputs rounded to bf16 (2^-9), and a chunk has three of them in a row: w or u from the inputs, new
// values from w and the state, the output from those.
constexpr double tolerance = 1.5e-2;
// Queries have length 0.25, keys 1; a product may be much smaller than they are.
constexpr Tolerance scoreTolerance{tolerance, 0, 0.25 * tolerance};
// Decays below f32's range are 0.
constexpr Tolerance decayTolerance{1e-4, 0, 1e-30};

void check(const ChunkCase &c, const CompileOptions &options, const std::vector<std::vector<Index>> &batches) {
  Kernels kernels = compile(c, options);
  if (!kernels.prepare || !kernels.scan)
    return;
  Random random(12);
  for (const std::vector<Index> &lengths : batches) {
    Batch batch(lengths);
    Operands a(random, batch, c);
    std::string where = std::to_string(lengths.size()) + " sequences, " + std::to_string(batch.tokens()) + " rows";
    Vec gates = a.g.values();
    if (isMade(c.gates))
      gates = ref::kdaGate(gates, a.rate.values(), a.bias.values(),
                           c.gates == Gates::madeBounded ? ref::GateKind::BoundedSigmoid : ref::GateKind::Softplus, -5,
                           batch.tokens(), c.heads, c.key);
    ref::ScanShape shape{batch.tokens(), c.heads, c.key, c.value};
    ref::ScanOptions scanOptions{ref::Decay::PerChannel, true, true, 0.25};
    kernels.prepare->run(a.ofPrepare(c));
    ref::ChunkParts want = ref::kdaChunkPrepare(a.q.values(), a.k.values(), a.v.values(), gates, a.beta.values(),
                                                batch.table, shape, scanOptions);
    EXPECT_TRUE(isClose(a.parts[0], want.qg, tolerance)) << where;
    EXPECT_TRUE(isClose(a.parts[1], want.w, tolerance)) << where;
    EXPECT_TRUE(isClose(a.parts[2], want.u, tolerance)) << where;
    EXPECT_TRUE(isClose(a.parts[3], want.kd, tolerance)) << where;
    EXPECT_TRUE(isClose(a.parts[4], want.aqk, scoreTolerance)) << where;
    EXPECT_TRUE(isClose(a.parts[5], want.gl, decayTolerance)) << where;
    passOn(a.parts);

    Vec expectedState = a.state.values();
    kernels.scan->run(a.ofScan());
    // The oracle of the pair is the recurrence, not the chunked form.
    Vec expected = ref::kdaScan(a.q.values(), a.k.values(), a.v.values(), gates, a.beta.values(), batch.cu, batch.slots,
                                expectedState, shape, scanOptions);
    EXPECT_TRUE(isClose(a.out, expected, tolerance)) << where;
    EXPECT_TRUE(isClose(a.state, expectedState, tolerance)) << where;
  }
}

// Nothing; tails and a whole chunk in all tiles of 16 rows; several chunks, as many as there are stages and more.
const std::vector<std::vector<Index>> ragged = {{}, {0}, {1}, {16, 0, 17, 63}, {64, 3 * L + 5}};

class KdaPrefill : public ::testing::TestWithParam<ChunkCase> {};

TEST_P(KdaPrefill, OnAGpu) { check(GetParam(), gpuTarget, ragged); }

INSTANTIATE_TEST_SUITE_P(Shapes, KdaPrefill,
                         ::testing::Values(ChunkCase{2, 128, 128, Gates::madeBounded, true, true},
                                           ChunkCase{2, 128, 128, Gates::madeSoftplus, true, true},
                                           ChunkCase{3, 128, 128, Gates::bounded, false, false},
                                           ChunkCase{1, 128, 128, Gates::atBound, true, true},
                                           ChunkCase{1, 128, 64, Gates::wild, false, false},
                                           ChunkCase{1, 64, 128, Gates::oneForgets, true, true},
                                           ChunkCase{3, 64, 64, Gates::madeBounded, false, false},
                                           ChunkCase{1, 64, 64, Gates::madeSoftplus, false, false},
                                           ChunkCase{1, 64, 192, Gates::atBound, false, true}));

TEST(KdaPrefillRing, LongSequences) {
  check({1, 128, 128, Gates::bounded, true, true}, gpuTarget, {{9 * L, 5 * L + 1}});
}

class KdaPrefillOnCpu : public ::testing::TestWithParam<ChunkCase> {};

TEST_P(KdaPrefillOnCpu, ByEmitterOrDecomposition) {
  if (exporting())
    GTEST_SKIP() << "compiles for the CPU whatever the target: there is nothing to export";
  for (bool generic : {false, true})
    check(GetParam(), {"host", generic, {}, false}, {{0}, {17, 0, L + 3}});
}

INSTANTIATE_TEST_SUITE_P(Shapes, KdaPrefillOnCpu,
                         ::testing::Values(ChunkCase{1, 32, 48, Gates::madeBounded, true, true},
                                           ChunkCase{2, 20, 16, Gates::madeSoftplus, false, true},
                                           ChunkCase{1, 16, 24, Gates::bounded, true, false}));

} // namespace
