//===- SpeedCases.cpp - ops at the sizes whose times matter ----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Traffic counts every input that is used and every output once. Operations are those of the op as it is defined, a
// product of f32 inputs on bf16 units being three.
//
//===----------------------------------------------------------------------===//
#include "lib/Reference/AttnRes.h"
#include "lib/Reference/Common.h"
#include "lib/Reference/Kda.h"
#include "lib/Reference/LatentMoe.h"
#include "lib/Reference/Mla.h"
#include "lib/Reference/MxFp4.h"
#include "lib/Reference/Sample.h"
#include "test/gpu/cases/DrawnTensor.h"

#include <algorithm>
#include <cstring>
#include <numeric>

using namespace k3;
using namespace k3::test;

namespace {

// Sums of some thousand f32 terms, added by tensor cores, which truncate.
constexpr double productTolerance = 2e-5;
constexpr double tolerance = 1e-5;
// Of results in bf16: half of their last place.
constexpr double resultTolerance = 1.0 / 256;

const CompileOptions target{"nvidia-sm90a", false, {}, /*fastestOnly=*/true};

/// Nobody waits for the time of a decomposed op.
#define SKIP_WITHOUT_EMITTER(KERNEL)                                                                                   \
  ASSERT_TRUE(KERNEL);                                                                                                 \
  if (!KERNEL->hasEmitter())                                                                                           \
  GTEST_SKIP() << "no emitter"

double bytesOf(const Array &array) {
  return static_cast<double>(array.elements()) * static_cast<double>(gpu::elementBytes(array.dtype()));
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

struct LinearCase {
  const char *name;
  Index rows, k, n;
  bool bf16Inputs;
  /// x and the result are bf16 in memory.
  bool bf16Stored = false;
};

class Linear : public ::testing::TestWithParam<LinearCase> {};

TEST_P(Linear, Speed) {
  LinearCase c = GetParam();
  const char *dtype = c.bf16Stored ? "bf16" : "f32";
  DrawnTensor x = DrawnTensor::normal(dtype, {c.rows, c.k}), weight = DrawnTensor::normal("bf16", {c.n, c.k});
  Array out = Array::onDevice(dtype, {c.rows, c.n});
  KernelSpec spec("k3.linear");
  spec.in(x.array(), {0}).in(weight.array()).out(out, {0}).inPhases({c.rows > 64 ? "prefill" : "decode"});
  if (c.bf16Inputs)
    spec.attr("bf16_x");
  auto kernel = spec.compile(target);
  SKIP_WITHOUT_EMITTER(kernel);
  kernel->run({x.array(), weight.array(), out});
  std::vector<Index> positions;
  Vec expected;
  for (Index row : {Index(0), c.rows / 2, c.rows - 1})
    for (Index column : {Index(0), Index(1), c.n / 3, c.n - 1}) {
      Vec input = x.slice(row * c.k, c.k);
      if (c.bf16Inputs)
        input = gpu::decode("bf16", gpu::encode("bf16", input).data(), input.size());
      positions.push_back(row * c.n + column);
      expected.push_back(ref::linear(input, weight.slice(column * c.k, c.k), 1, c.k, 1)[0]);
    }
  expectAt(out, positions, expected, c.bf16Stored ? resultTolerance : productTolerance);
  double products = 2.0 * static_cast<double>(c.rows * c.k) * static_cast<double>(c.n);
  measure(bytesOf(x.array()) + bytesOf(weight.array()) + bytesOf(out), products * (c.bf16Inputs ? 1 : 3));
}

INSTANTIATE_TEST_SUITE_P(
    Speed, Linear,
    ::testing::Values(LinearCase{"square_bf16", 8192, 8192, 8192, true, true},
                      LinearCase{"small_square_bf16", 4096, 4096, 4096, true, true},
                      LinearCase{"k3_qkv_bf16", 8192, 7168, 12288, true, true},
                      LinearCase{"kimi_qkv_bf16", 8192, 2304, 4096, true, true},
                      LinearCase{"square", 8192, 8192, 8192, true}, LinearCase{"square_f32", 8192, 8192, 8192, false},
                      LinearCase{"k3_qkv", 8192, 7168, 12288, true}, LinearCase{"kimi_qkv", 8192, 2304, 4096, true},
                      LinearCase{"k3_head_1", 1, 7168, 163840, false}, LinearCase{"k3_qkv_1", 1, 7168, 12288, false},
                      LinearCase{"kimi_head_1", 1, 2304, 163840, false}, LinearCase{"kimi_qkv_1", 1, 2304, 4096, false},
                      LinearCase{"k3_qkv_8", 8, 7168, 12288, false}, LinearCase{"k3_qkv_32", 32, 7168, 12288, false},
                      LinearCase{"k3_qkv_bf16_16", 16, 7168, 12288, true, true},
                      LinearCase{"k3_qkv_bf16_64", 64, 7168, 12288, true, true},
                      LinearCase{"k3_o_bf16_16", 16, 12288, 7168, true, true},
                      LinearCase{"k3_o_bf16_64", 64, 12288, 7168, true, true},
                      LinearCase{"k3_head_bf16_64", 64, 7168, 163840, true, true},
                      LinearCase{"kimi_qkv_bf16_64", 64, 2304, 4096, true, true},
                      LinearCase{"k3_qkv_bf16_1", 1, 7168, 12288, true, true},
                      LinearCase{"kimi_qkv_bf16_1", 1, 2304, 4096, true, true},
                      LinearCase{"k3_qkv_bf16_8", 8, 7168, 12288, true, true}),
    [](const auto &info) { return info.param.name; });

/// A matrix [n, k] of every expert.
class ExpertGroup {
public:
  ExpertGroup(bool mxfp4, Index experts, Index n, Index k) : mxfp4(mxfp4), n(n), k(k) {
    std::vector<Array> all, allScales;
    // Members share a few drawn contents: drawing takes time, and their places differ.
    for (Index e = 0; e < experts; ++e) {
      if (e < 4) {
        weights.push_back(mxfp4 ? DrawnTensor::bytes({n, k / 2}, 0, 255) : DrawnTensor::normal("bf16", {n, k}, 0.02));
        if (mxfp4)
          scales.push_back(DrawnTensor::bytes({n, k / 32}, 118, 122));
      }
      all.push_back(Array::onDevice(weights[e % 4].array()));
      if (mxfp4)
        allScales.push_back(Array::onDevice(scales[e % 4].array()));
    }
    weight = Array::table(all);
    if (mxfp4)
      scale = Array::table(allScales);
  }

  double bytesOfOne() const { return static_cast<double>(n) * (mxfp4 ? k / 2.0 + k / 32.0 : k * 2.0); }

  /// The products of x with some rows of an expert's matrix.
  Vec multiply(const Vec &x, Index expert, Index row, Index rows) const {
    Index width = mxfp4 ? k / 2 : k;
    Vec values = weights[expert % 4].slice(row * width, rows * width);
    if (!mxfp4)
      return ref::linear(x, values, 1, k, rows);
    Vec exponents = scales[expert % 4].slice(row * (k / 32), rows * (k / 32));
    std::vector<std::uint8_t> packed(values.begin(), values.end()), bytes(exponents.begin(), exponents.end());
    return ref::mxLinear(x, packed.data(), bytes.data(), 1, k, rows);
  }

  Array weight = Array::undefined("i8", {0}), scale = Array::undefined("i8", {0});

private:
  bool mxfp4;
  Index n, k;
  std::vector<DrawnTensor> weights, scales;
};

/// Different experts for every token.
std::vector<std::int32_t> routeTokens(Index tokens, Index topK, Index experts) {
  Random random(3);
  std::vector<std::int32_t> ids;
  for (Index t = 0; t < tokens; ++t) {
    std::vector<std::int32_t> chosen = random.distinct(topK, experts);
    ids.insert(ids.end(), chosen.begin(), chosen.end());
  }
  return ids;
}

double countDistinct(std::vector<std::int32_t> ids) {
  std::sort(ids.begin(), ids.end());
  return static_cast<double>(std::unique(ids.begin(), ids.end()) - ids.begin());
}

Vec roundedToBf16(const Vec &x) { return gpu::decode("bf16", gpu::encode("bf16", x).data(), x.size()); }

struct ExpertCase {
  const char *name;
  bool mxfp4;
  Index tokens, experts, topK, k, n;
  bool gated;
  bool bf16Inputs;
  bool bf16Stored = false; ///< x is bf16 in memory
};

class Experts : public ::testing::TestWithParam<ExpertCase> {};

TEST_P(Experts, Speed) {
  ExpertCase c = GetParam();
  Index kx = c.k;
  ExpertGroup gate(c.mxfp4, c.experts, c.n, c.k), up = c.gated ? ExpertGroup(c.mxfp4, c.experts, c.n, c.k) : gate;
  // The second product has an input for each slot.
  DrawnTensor x = DrawnTensor::normal(c.bf16Stored ? "bf16" : "f32",
                                      c.gated ? Shape{c.tokens, kx} : Shape{c.tokens, c.topK, kx});
  std::vector<std::int32_t> ids = routeTokens(c.tokens, c.topK, c.experts);
  ref::MoePlan plan = ref::planExperts(ids, c.experts);
  Array out = Array::onDevice("f32", {c.tokens, c.topK, c.n});
  Array offsets = Array::i32({c.experts + 1}, plan.offsets), perm = Array::i32({c.tokens, c.topK}, plan.perm);
  KernelSpec spec("k3.latent_moe.grouped_contract");
  spec.in(x.array(), {0}).in(offsets).in(perm, {0}).in(gate.weight).inPhases({c.tokens > 64 ? "prefill" : "decode"});
  std::vector<Array> arrays{x.array(), offsets, perm, gate.weight};
  auto add = [&](const char *keyword, const Array &array) {
    spec.optional(keyword, array);
    arrays.push_back(array);
  };
  if (c.mxfp4)
    add("scale", gate.scale);
  if (c.gated)
    add("up_weight", up.weight);
  if (c.gated && c.mxfp4)
    add("up_scale", up.scale);
  spec.out(out, {0});
  arrays.push_back(out);
  if (c.gated)
    spec.attr(c.mxfp4 ? "activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64"
                      : "activation = #k3.activation<swiglu>");
  if (c.bf16Inputs)
    spec.attr("bf16_x");
  auto kernel = spec.compile(target);
  SKIP_WITHOUT_EMITTER(kernel);
  kernel->run(arrays);

  std::vector<Index> positions;
  Vec expected;
  for (Index slot : {Index(0), c.tokens * c.topK / 2, c.tokens * c.topK - 1})
    for (Index row : {Index(0), Index(1), c.n / 3, c.n - 1}) {
      Vec input = x.slice((c.gated ? slot / c.topK : slot) * kx, kx);
      if (c.bf16Inputs)
        input = roundedToBf16(input);
      double y = gate.multiply(input, ids[slot], row, 1)[0];
      if (c.gated)
        y = ref::glu(Vec{y}, up.multiply(input, ids[slot], row, 1),
                     {c.mxfp4 ? ref::Activation::Situ : ref::Activation::SwiGlu, 4, 25})[0];
      positions.push_back(slot * c.n + row);
      expected.push_back(y);
    }
  expectAt(out, positions, expected, 5 * productTolerance);
  double experts = countDistinct(ids);
  double matrices = c.gated ? 2 : 1;
  double products = 2.0 * static_cast<double>(c.tokens * c.topK) * static_cast<double>(c.k * c.n) * matrices;
  measure(experts * matrices * gate.bytesOfOne() + bytesOf(x.array()) + bytesOf(out), products * (c.bf16Inputs ? 1 : 3));
}

INSTANTIATE_TEST_SUITE_P(Speed, Experts,
                         ::testing::Values(ExpertCase{"k3_up_1", true, 1, 896, 16, 3584, 3072, true, false},
                                           ExpertCase{"k3_up_bf16_1", true, 1, 896, 16, 3584, 3072, true, true, true},
                                           ExpertCase{"k3_up_2", true, 2, 896, 16, 3584, 3072, true, false},
                                           ExpertCase{"k3_up_4", true, 4, 896, 16, 3584, 3072, true, false},
                                           ExpertCase{"k3_up_8", true, 8, 896, 16, 3584, 3072, true, false},
                                           ExpertCase{"k3_down_1", true, 1, 896, 16, 3072, 3584, false, false},
                                           ExpertCase{"k3_down_bf16_1", true, 1, 896, 16, 3072, 3584, false, true, true},
                                           ExpertCase{"k3_down_8", true, 8, 896, 16, 3072, 3584, false, false},
                                           ExpertCase{"k3_up_64_experts", true, 1, 896, 64, 3584, 3072, true, false},
                                           ExpertCase{"k3_up_64_experts_bf16", true, 1, 896, 64, 3584, 3072, true, true, true},
                                           ExpertCase{"k3_up_1024", true, 1024, 896, 16, 3584, 3072, true, false},
                                           ExpertCase{"k3_up_4096", true, 4096, 896, 16, 3584, 3072, true, true, true},
                                           ExpertCase{"k3_down_4096", true, 4096, 896, 16, 3072, 3584, false, true, true},
                                           ExpertCase{"kimi_up_1", false, 1, 256, 8, 2304, 1024, true, false},
                                           ExpertCase{"kimi_down_1", false, 1, 256, 8, 1024, 2304, false, false},
                                           ExpertCase{"kimi_up_4096", false, 4096, 256, 8, 2304, 1024, true, true, true},
                                           ExpertCase{"kimi_up_8192", false, 8192, 256, 8, 2304, 1024, true, true},
                                           ExpertCase{"kimi_down_8192", false, 8192, 256, 8, 1024, 2304, false, true}),
                         [](const auto &info) { return info.param.name; });

struct MlpCase {
  const char *name;
  bool mxfp4;
  Index tokens, experts, topK, k, inner, n;
  bool bf16 = false; ///< x and inner rows, in memory
};

class ExpertMlp : public ::testing::TestWithParam<MlpCase> {};

TEST_P(ExpertMlp, Speed) {
  MlpCase c = GetParam();
  ExpertGroup gate(c.mxfp4, c.experts, c.inner, c.k), up(c.mxfp4, c.experts, c.inner, c.k),
      down(c.mxfp4, c.experts, c.n, c.inner);
  const char *dtype = c.bf16 ? "bf16" : "f32";
  DrawnTensor x = DrawnTensor::normal(dtype, {c.tokens, c.k});
  std::vector<std::int32_t> ids = routeTokens(c.tokens, c.topK, c.experts);
  ref::MoePlan plan = ref::planExperts(ids, c.experts);
  Shape slots{c.tokens, c.topK};
  Array offsets = Array::i32({c.experts + 1}, plan.offsets), perm = Array::i32(slots, plan.perm);
  Array inner = Array::onDevice(dtype, {c.tokens, c.topK, c.inner}),
        out = Array::onDevice("f32", {c.tokens, c.topK, c.n});
  Array progress = Array::i32(slots, std::vector<std::int32_t>(ids.size()));
  KernelSpec spec("k3.latent_moe.expert_mlp");
  spec.in(x.array(), {0}).in(offsets).in(perm, {0}).in(gate.weight).in(up.weight).in(down.weight).inPhases({"decode"});
  std::vector<Array> arrays{x.array(), offsets, perm, gate.weight, up.weight, down.weight};
  if (c.mxfp4) {
    spec.optional("scale", gate.scale).optional("up_scale", up.scale).optional("down_scale", down.scale);
    arrays.insert(arrays.end(), {gate.scale, up.scale, down.scale});
  }
  spec.out(inner, {0}).out(out, {0}).out(progress, {0});
  arrays.insert(arrays.end(), {inner, out, progress});
  spec.attr(c.mxfp4 ? "activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64"
                    : "activation = #k3.activation<swiglu>");
  auto kernel = spec.compile(target);
  SKIP_WITHOUT_EMITTER(kernel);
  kernel->run(arrays);

  std::vector<Index> positions;
  Vec expected;
  for (Index slot : {Index(0), c.tokens * c.topK - 1}) {
    Vec input = x.slice(slot / c.topK * c.k, c.k);
    Vec unit = ref::glu(gate.multiply(input, ids[slot], 0, c.inner), up.multiply(input, ids[slot], 0, c.inner),
                        {c.mxfp4 ? ref::Activation::Situ : ref::Activation::SwiGlu, 4, 25});
    if (c.bf16)
      unit = roundedToBf16(unit);
    for (Index row : {Index(0), Index(1), c.n / 3, c.n - 1}) {
      positions.push_back(slot * c.n + row);
      expected.push_back(down.multiply(unit, ids[slot], row, 1)[0]);
    }
  }
  // Inner rows that are rounded to the other side of a tie: 2^-8 of some of many terms.
  expectAt(out, positions, expected, c.bf16 ? 1e-3 : 10 * productTolerance);
  double matrices = 2 * gate.bytesOfOne() + down.bytesOfOne();
  double products = 2.0 * static_cast<double>(c.tokens * c.topK) * static_cast<double>((2 * c.k + c.n) * c.inner);
  measure(countDistinct(ids) * matrices + bytesOf(x.array()) + bytesOf(out), products * (c.bf16 ? 1 : 3));
}

INSTANTIATE_TEST_SUITE_P(Speed, ExpertMlp,
                         ::testing::Values(MlpCase{"k3_1", true, 1, 896, 16, 3584, 3072, 3584},
                                           MlpCase{"k3_bf16_1", true, 1, 896, 16, 3584, 3072, 3584, true},
                                           MlpCase{"k3_2", true, 2, 896, 16, 3584, 3072, 3584},
                                           MlpCase{"k3_8", true, 8, 896, 16, 3584, 3072, 3584},
                                           MlpCase{"k3_bf16_8", true, 8, 896, 16, 3584, 3072, 3584, true},
                                           MlpCase{"kimi_1", false, 1, 256, 8, 2304, 1024, 2304}),
                         [](const auto &info) { return info.param.name; });

//===----------------------------------------------------------------------===//
// KDA
//===----------------------------------------------------------------------===//

constexpr Index D = 128;

struct StepCase {
  const char *name;
  Index sequences, heads;
};

class KdaStep : public ::testing::TestWithParam<StepCase> {};

TEST_P(KdaStep, Speed) {
  StepCase c = GetParam();
  Index N = c.sequences, H = c.heads, slots = N + 3;
  auto make = [&] { return DrawnTensor::normal("f32", {N, H, D}); };
  DrawnTensor q = make(), k = make(), v = make(), beta = DrawnTensor::normal("f32", {N, H});
  DrawnTensor g = DrawnTensor::uniform("f32", {N, H, D}, -5, 0), state = DrawnTensor::normal("f32", {slots, H, D, D});
  Random random(4);
  std::vector<std::int32_t> slotOf = random.distinct(N, slots);
  Array slotArray = Array::i32({N}, slotOf), out = Array::onDevice("f32", {N, H, D});
  KernelSpec spec("k3.kda.recurrent_step");
  spec.in(q.array(), {0}).in(k.array(), {0}).in(v.array(), {0}).in(beta.array(), {0}).in(slotArray, {0});
  spec.optional("g", g.array(), {0}).out(out, {0}).out(state.array(), {0});
  auto kernel = spec.attr("scale = 0.125 : f64, l2norm = true, delta = true").inPhases({"decode"}).compile(target);
  SKIP_WITHOUT_EMITTER(kernel);
  kernel->run({q.array(), k.array(), v.array(), beta.array(), slotArray, g.array(), out, state.array()});
  std::vector<Index> positions, statePositions;
  Vec expected, expectedState;
  for (Index n : {Index(0), N - 1})
    for (Index h : {Index(0), H - 1}) {
      Index row = n * H + h, stateRow = slotOf[n] * H + h;
      auto vectorOf = [&](const DrawnTensor &tensor) { return tensor.slice(row * D, D); };
      Vec next = state.slice(stateRow * D * D, D * D);
      Vec result = ref::kdaScan(vectorOf(q), vectorOf(k), vectorOf(v), vectorOf(g), beta.slice(row, 1),
                                std::vector<std::int32_t>{0, 1}, std::vector<std::int32_t>{0}, next, {1, 1, D, D},
                                {ref::Decay::PerChannel, true, true, 0.125});
      for (Index i = 0; i < D; ++i) {
        positions.push_back(row * D + i);
        expected.push_back(result[i]);
      }
      for (Index i = 0; i < D * D; i += 37) {
        statePositions.push_back(stateRow * D * D + i);
        expectedState.push_back(next[i]);
      }
    }
  expectAt(out, positions, expected, tolerance);
  expectAt(state.array(), statePositions, expectedState, tolerance);
  measure(8.0 * static_cast<double>(N * H * D * D) + 20.0 * static_cast<double>(N * H * D));
}

INSTANTIATE_TEST_SUITE_P(Speed, KdaStep,
                         ::testing::Values(StepCase{"k3_1", 1, 96}, StepCase{"k3_32", 32, 96},
                                           StepCase{"k3_256", 256, 96}, StepCase{"kimi_1", 1, 32},
                                           StepCase{"kimi_64", 64, 32}),
                         [](const auto &info) { return info.param.name; });

struct ChunkCase {
  const char *name;
  Index tokens, heads;
  const char *anchor;
  double low; ///< of the log-decay
  Index length = 16;
};

class KdaChunk : public ::testing::TestWithParam<ChunkCase> {};

TEST_P(KdaChunk, Speed) {
  ChunkCase c = GetParam();
  Index T = c.tokens, H = c.heads, L = c.length;
  std::vector<std::int32_t> cu{0, static_cast<std::int32_t>(T)};
  ref::ChunkTable table = ref::chunkTable(cu, L);
  Index C = table.count();
  auto make = [&] { return DrawnTensor::normal("f32", {T, H, D}); };
  DrawnTensor q = make(), k = make(), v = make(), beta = DrawnTensor::normal("f32", {T, H});
  DrawnTensor g = DrawnTensor::uniform("f32", {T, H, D}, c.low, 0);
  Array chunks = Array::i32({C, 2}, table.chunks), chunkCu = Array::i32({2}, table.chunkCu);
  Array slots = Array::i32({1}, {1});
  const Shape shapes[] = {{C, H, L, D}, {C, H, L, D}, {C, H, L, D}, {C, H, L, D}, {C, H, L, L}, {C, H, D}};
  std::vector<Array> parts;
  for (const Shape &shape : shapes)
    parts.push_back(Array::onDevice("f32", shape));

  KernelSpec prepareSpec("k3.kda.chunk_prepare");
  prepareSpec.in(q.array(), {0}).in(k.array(), {0}).in(v.array(), {0}).in(g.array(), {0}).in(beta.array(), {0});
  prepareSpec.in(chunks, {0}).inPhases({"prefill"});
  for (const Array &part : parts)
    prepareSpec.out(part, {0});
  prepareSpec.attr("scale = 0.125 : f64, l2norm = true").attr(std::string("anchor = #k3.anchor<") + c.anchor + ">");
  auto prepare = prepareSpec.compile(target);
  SKIP_WITHOUT_EMITTER(prepare);
  std::vector<Array> arrays{q.array(), k.array(), v.array(), g.array(), beta.array(), chunks};
  arrays.insert(arrays.end(), parts.begin(), parts.end());
  prepare->run(arrays);
  for (int part = 0; part < 6; ++part) {
    std::vector<Index> positions;
    Vec expected;
    for (Index chunk : {Index(0), C - 1})
      for (Index h : {Index(0), H - 1}) {
        auto rowsOf = [&](const DrawnTensor &tensor, Index width) {
          std::vector<Index> rows;
          for (Index i = 0; i < L; ++i)
            rows.push_back((chunk * L + i) * H + h);
          return tensor.rows(rows, width);
        };
        ref::ChunkParts want =
            ref::kdaChunkPrepare(rowsOf(q, D), rowsOf(k, D), rowsOf(v, D), rowsOf(g, D), rowsOf(beta, 1),
                                 ref::chunkTable(std::vector<std::int32_t>{0, static_cast<std::int32_t>(L)}, L),
                                 {L, 1, D, D}, {ref::Decay::PerChannel, true, true, 0.125});
        const Vec *of[] = {&want.qg, &want.w, &want.u, &want.kd, &want.aqk, &want.gl};
        for (std::size_t i = 0; i < of[part]->size(); i += 7) {
          positions.push_back((chunk * H + h) * static_cast<Index>(of[part]->size()) + static_cast<Index>(i));
          expected.push_back((*of[part])[i]);
        }
      }
    expectAt(parts[part], positions, expected, 1e-4);
  }
  double partBytes = 0, rows = static_cast<double>(T * H);
  for (const Array &part : parts)
    partBytes += bytesOf(part);
  measure(rows * D * 16.0 + rows * 4.0 + partBytes, 3 * 2.0 * rows * static_cast<double>(L) * D * 4.0);

  // The parts of the second half do not come from the first one, which would be another case: any will do.
  std::vector<DrawnTensor> made;
  for (int part = 0; part < 5; ++part)
    made.push_back(DrawnTensor::normal("f32", shapes[part], part == 2 ? 1 : 0.05));
  made.push_back(DrawnTensor::uniform("f32", shapes[5], 0, 1));
  DrawnTensor state = DrawnTensor::normal("f32", {3, H, D, D});
  Array out = Array::onDevice("f32", {T, H, D});
  KernelSpec scanSpec("k3.kda.chunk_scan");
  arrays.clear();
  for (const DrawnTensor &part : made) {
    scanSpec.in(part.array(), {0});
    arrays.push_back(part.array());
  }
  scanSpec.in(chunks, {0}).in(chunkCu, {0}).in(slots, {0}).out(out, {0}).out(state.array(), {0}).inPhases({"prefill"});
  auto scan = scanSpec.compile(target);
  SKIP_WITHOUT_EMITTER(scan);
  arrays.insert(arrays.end(), {chunks, chunkCu, slots, out, state.array()});
  scan->run(arrays);
  std::vector<Index> positions, statePositions;
  Vec expected, expectedState;
  for (Index h : {H - 1}) {
    auto partOf = [&](int part) {
      Index size = Array::onDevice("f32", shapes[part]).elements() / C / H;
      std::vector<Index> rows;
      for (Index chunk = 0; chunk < C; ++chunk)
        rows.push_back(chunk * H + h);
      return made[part].rows(rows, size);
    };
    ref::ChunkParts headParts{partOf(0), partOf(1), partOf(2), partOf(3), partOf(4), partOf(5)};
    Vec next = state.slice((H + h) * D * D, D * D);
    Vec result = ref::kdaChunkScan(headParts, table, std::vector<std::int32_t>{0}, next, {T, 1, D, D});
    for (Index t : {Index(0), Index(17), T / 2, T - 1})
      for (Index i = 0; i < D; i += 5) {
        positions.push_back((t * H + h) * D + i);
        expected.push_back(result[t * D + i]);
      }
    for (Index i = 0; i < D * D; i += 37) {
      statePositions.push_back((H + h) * D * D + i);
      expectedState.push_back(next[i]);
    }
  }
  expectAt(out, positions, expected, 1e-3);
  expectAt(state.array(), statePositions, expectedState, 1e-3);
  measure(partBytes + rows * D * 4.0 + 8.0 * static_cast<double>(H * D * D), 3 * 2.0 * rows * D * (3.0 * D + L));
}

INSTANTIATE_TEST_SUITE_P(Speed, KdaChunk,
                         ::testing::Values(ChunkCase{"bounded_96", 8192, 96, "mid_row", -5},
                                           ChunkCase{"bounded_12", 8192, 12, "mid_row", -5},
                                           ChunkCase{"softplus_32", 8192, 32, "pairwise", -20}),
                         [](const auto &info) { return info.param.name; });

// The same for matrix units: chunks of 64 rows, parts, inputs and output in bf16, gates made by the op from logits.
struct PrefillCase {
  const char *name;
  Index tokens, heads;
  bool softplus;
};

class KdaPrefill : public ::testing::TestWithParam<PrefillCase> {
protected:
  static constexpr Index L = 64;
  static constexpr double tolerance = 2e-2; // products of inputs rounded to bf16, several in a row
  Index T = GetParam().tokens, H = GetParam().heads, C = T / L;
  ref::ChunkTable table = ref::chunkTable(std::vector<std::int32_t>{0, static_cast<std::int32_t>(T)}, L);
  Array chunks = Array::i32({C, 2}, table.chunks);
  const Shape shapes[6] = {{C, H, L, D}, {C, H, L, D}, {C, H, L, D}, {C, H, L, D}, {C, H, L, L}, {C, H, D}};
  const char *typeOf(int part) const { return part == 5 ? "f32" : "bf16"; }
  double partBytes() const {
    double bytes = 0;
    for (int part = 0; part < 6; ++part)
      bytes += bytesOf(Array::onDevice(typeOf(part), shapes[part]));
    return bytes;
  }
  double rows() const { return static_cast<double>(T * H); }
};

TEST_P(KdaPrefill, Prepare) {
  auto make = [&](double scale) { return DrawnTensor::normal("bf16", {T, H, D}, scale); };
  DrawnTensor q = make(1), k = make(1), v = make(1), z = make(2), beta = DrawnTensor::normal("f32", {T, H});
  DrawnTensor bias = DrawnTensor::normal("f32", {H, D}), rate = DrawnTensor::normal("f32", {H}, 0.5);
  KernelSpec spec("k3.kda.chunk_prepare");
  std::vector<Array> arrays{q.array(), k.array(), v.array(), z.array(), beta.array(), chunks};
  for (const Array &array : arrays)
    spec.in(array, {0});
  spec.optional("dt_bias", bias.array()).optional("a_log", rate.array());
  arrays.insert(arrays.end(), {bias.array(), rate.array()});
  std::vector<Array> parts;
  for (int part = 0; part < 6; ++part)
    parts.push_back(Array::onDevice(typeOf(part), shapes[part]));
  for (const Array &part : parts)
    spec.out(part, {0});
  arrays.insert(arrays.end(), parts.begin(), parts.end());
  spec.attr("scale = 0.125 : f64, l2norm = true").inPhases({"prefill"});
  spec.attr(GetParam().softplus ? "anchor = #k3.anchor<pairwise>, gate = #k3.gate_kind<softplus>"
                                : "anchor = #k3.anchor<tile_row>, gate = #k3.gate_kind<bounded_sigmoid>, "
                                  "lower_bound = -5.0 : f64");
  auto kernel = spec.compile(target);
  ASSERT_TRUE(kernel);
  kernel->run(arrays);
  std::vector<Index> positions[6];
  Vec expected[6];
  for (Index chunk : {Index(0), C - 1})
    for (Index h : {Index(0), H - 1}) {
      auto rowsOf = [&](const DrawnTensor &tensor, Index width) {
        std::vector<Index> rows;
        for (Index i = 0; i < L; ++i)
          rows.push_back((chunk * L + i) * H + h);
        return tensor.rows(rows, width);
      };
      Vec gates = ref::kdaGate(rowsOf(z, D), rate.slice(h, 1), bias.slice(h * D, D),
                               GetParam().softplus ? ref::GateKind::Softplus : ref::GateKind::BoundedSigmoid, -5, L, 1, D);
      ref::ChunkParts want = ref::kdaChunkPrepare(
          rowsOf(q, D), rowsOf(k, D), rowsOf(v, D), gates, rowsOf(beta, 1),
          ref::chunkTable(std::vector<std::int32_t>{0, static_cast<std::int32_t>(L)}, L), {L, 1, D, D},
          {ref::Decay::PerChannel, true, true, 0.125});
      const Vec *of[] = {&want.qg, &want.w, &want.u, &want.kd, &want.aqk, &want.gl};
      for (int part = 0; part < 6; ++part)
        for (std::size_t i = 0; i < of[part]->size(); i += 7) {
          positions[part].push_back((chunk * H + h) * static_cast<Index>(of[part]->size()) + static_cast<Index>(i));
          expected[part].push_back((*of[part])[i]);
        }
    }
  // Decays below f32's range are 0.
  for (int part = 0; part < 6; ++part)
    expectAt(parts[part], positions[part], expected[part], {tolerance, 0, part == 5 ? 1e-30 : 0});
  // Half of each triangle: two score matrices, w and u.
  measure(rows() * (D * 8.0 + 4) + partBytes(), 4 * rows() * static_cast<double>(L) * D);
}

TEST_P(KdaPrefill, Scan) {
  // Any parts will do, but for aqk, which is 0 above the diagonal: here it is everywhere.
  std::vector<DrawnTensor> parts;
  for (int part = 0; part < 5; ++part)
    parts.push_back(DrawnTensor::normal("bf16", shapes[part], part == 2 ? 1 : part == 4 ? 0 : 0.05));
  parts.push_back(DrawnTensor::uniform("f32", shapes[5], 0, 1));
  DrawnTensor state = DrawnTensor::normal("f32", {3, H, D, D});
  Array out = Array::onDevice("bf16", {T, H, D}), chunkCu = Array::i32({2}, table.chunkCu), slots = Array::i32({1}, {1});
  KernelSpec spec("k3.kda.chunk_scan");
  std::vector<Array> arrays;
  for (const DrawnTensor &part : parts)
    arrays.push_back(part.array());
  arrays.insert(arrays.end(), {chunks, chunkCu, slots});
  for (const Array &array : arrays)
    spec.in(array, {0});
  spec.out(out, {0}).out(state.array(), {0}).inPhases({"prefill"});
  arrays.insert(arrays.end(), {out, state.array()});
  auto kernel = spec.compile(target);
  ASSERT_TRUE(kernel);
  kernel->run(arrays);
  Index h = H - 1;
  auto partOf = [&](int part) {
    std::vector<Index> blocks;
    for (Index chunk = 0; chunk < C; ++chunk)
      blocks.push_back(chunk * H + h);
    return parts[part].rows(blocks, Array::onDevice("f32", shapes[part]).elements() / C / H);
  };
  ref::ChunkParts headParts{partOf(0), partOf(1), partOf(2), partOf(3), partOf(4), partOf(5)};
  Vec next = state.slice((H + h) * D * D, D * D);
  Vec result = ref::kdaChunkScan(headParts, table, std::vector<std::int32_t>{0}, next, {T, 1, D, D});
  std::vector<Index> positions, statePositions;
  Vec expected, expectedState;
  for (Index t : {Index(0), Index(17), T / 2, T - 1})
    for (Index i = 0; i < D; i += 5) {
      positions.push_back((t * H + h) * D + i);
      expected.push_back(result[t * D + i]);
    }
  for (Index i = 0; i < D * D; i += 37) {
    statePositions.push_back((H + h) * D * D + i);
    expectedState.push_back(next[i]);
  }
  expectAt(out, positions, expected, tolerance);
  expectAt(state.array(), statePositions, expectedState, tolerance);
  measure(partBytes() + rows() * D * 2.0 + 8.0 * static_cast<double>(H * D * D), 2.0 * rows() * D * (3.0 * D + L));
}

INSTANTIATE_TEST_SUITE_P(Speed, KdaPrefill,
                         ::testing::Values(PrefillCase{"bounded_96", 8192, 96, false},
                                           PrefillCase{"bounded_12", 8192, 12, false},
                                           PrefillCase{"softplus_32", 8192, 32, true}),
                         [](const auto &info) { return info.param.name; });

//===----------------------------------------------------------------------===//
// AttnRes
//===----------------------------------------------------------------------===//

struct MixCase {
  const char *name;
  Index tokens, sources;
};

class AttnResMix : public ::testing::TestWithParam<MixCase> {};

TEST_P(AttnResMix, Speed) {
  MixCase c = GetParam();
  const Index R = 9, d = 7168;
  DrawnTensor stream = DrawnTensor::normal("f32", {R, c.tokens, d}), keyNorm = DrawnTensor::normal("bf16", {d});
  DrawnTensor query = DrawnTensor::normal("bf16", {1, d}, 0.02), outNorm = DrawnTensor::normal("bf16", {d});
  Array out = Array::onDevice("f32", {c.tokens, d});
  KernelSpec spec("k3.attn_res.mix");
  spec.in(stream.array(), {1}).index().in(keyNorm.array()).in(query.array());
  spec.optional("out_weight", outNorm.array()).attr("out_eps = 1.0e-5 : f64").attr("eps = 1.0e-5 : f64");
  auto kernel = spec.out(out, {0}).inPhases({c.tokens > 1 ? "prefill" : "decode"}).compile(target);
  SKIP_WITHOUT_EMITTER(kernel);
  kernel->run({stream.array(), keyNorm.array(), query.array(), outNorm.array(), out}, {c.sources});
  std::vector<Index> positions;
  Vec expected;
  for (Index t : {Index(0), c.tokens - 1}) {
    std::vector<Index> rows;
    for (Index r = 0; r < R; ++r)
      rows.push_back(r * c.tokens + t);
    Vec mixed = ref::attnResMix(stream.rows(rows, d), c.sources, keyNorm.slice(0, d), query.slice(0, d), 1e-5, {1, d});
    Vec normed = ref::rmsNorm(mixed, outNorm.slice(0, d), 1, d, 1e-5);
    for (Index i = 0; i < d; i += 61) {
      positions.push_back(t * d + i);
      expected.push_back(normed[i]);
    }
  }
  expectAt(out, positions, expected, tolerance);
  measure(4.0 * static_cast<double>((c.sources + 1) * c.tokens * d));
}

INSTANTIATE_TEST_SUITE_P(Speed, AttnResMix,
                         ::testing::Values(MixCase{"step", 1, 8}, MixCase{"step_32", 32, 8},
                                           MixCase{"prefill", 8192, 8}),
                         [](const auto &info) { return info.param.name; });

//===----------------------------------------------------------------------===//
// Latent attention
//===----------------------------------------------------------------------===//

struct AttendCase {
  const char *name;
  Index sequences, tokens, before, heads; ///< tokens of every sequence, on top of `before`
};

class Attend : public ::testing::TestWithParam<AttendCase> {};

TEST_P(Attend, Speed) {
  AttendCase c = GetParam();
  const Index l = 512, lr = 576, page = 64;
  Index N = c.sequences, T = N * c.tokens, H = c.heads, context = c.before + c.tokens, M = (context + page - 1) / page;
  Index P = N * M + 1;
  DrawnTensor q = DrawnTensor::normal("f32", {T, H, lr}), cache = DrawnTensor::normal("bf16", {P, page, lr});
  Random random(5);
  std::vector<std::int32_t> table = random.distinct(N * M, P), cu{0};
  for (Index n = 0; n < N; ++n)
    cu.push_back(cu.back() + static_cast<std::int32_t>(c.tokens));
  Array cuArray = Array::i32({N + 1}, cu), tableArray = Array::i32({N, M}, table);
  Array lengths = Array::i32({N}, std::vector<std::int32_t>(N, static_cast<std::int32_t>(c.before)));
  Array out = Array::onDevice("f32", {T, H, l});
  KernelSpec spec("k3.mla.attend");
  spec.in(q.array(), {0}).in(cache.array(), {0}).in(cuArray, {0}).in(lengths, {0}).in(tableArray, {0, 1}).out(out, {0});
  auto kernel = spec.attr("scale = 0.07 : f64").inPhases({c.tokens == 1 ? "decode" : "prefill"}).compile(target);
  SKIP_WITHOUT_EMITTER(kernel);
  kernel->run({q.array(), cache.array(), cuArray, lengths, tableArray, out});
  std::vector<Index> positions;
  Vec expected;
  for (Index t : T > 1 ? std::vector<Index>{0, T - 1} : std::vector<Index>{0}) {
    Index n = t / c.tokens, seen = c.before + t % c.tokens + 1;
    std::vector<Index> rows;
    for (Index s = 0; s < (seen + page - 1) / page * page; ++s)
      rows.push_back(table[n * M + s / page] * page + s % page);
    std::vector<std::int32_t> order(rows.size() / page);
    std::iota(order.begin(), order.end(), 0);
    Vec context = cache.rows(rows, lr);
    for (Index h : {Index(0), H - 1}) {
      Vec result = ref::mlaAttend(
          q.slice((t * H + h) * lr, lr), context, 0.07,
          {std::vector<std::int32_t>{0, 1}, std::vector<std::int32_t>{static_cast<std::int32_t>(seen - 1)}, order},
          {1, 1, l, lr - l, 0, 0, page});
      for (Index i = 0; i < l; i += 3) {
        positions.push_back((t * H + h) * l + i);
        expected.push_back(result[i]);
      }
    }
  }
  expectAt(out, positions, expected, 5e-5);
  double seen = 0;
  for (Index t = 0; t < c.tokens; ++t)
    seen += static_cast<double>(N * (c.before + t + 1));
  measure(2.0 * static_cast<double>(N * context * lr) + bytesOf(q.array()) + bytesOf(out),
          2.0 * seen * static_cast<double>(H * (l + lr)));
}

INSTANTIATE_TEST_SUITE_P(
    Speed, Attend,
    ::testing::Values(AttendCase{"kimi_128k", 1, 1, 131071, 32}, AttendCase{"k3_128k", 1, 1, 131071, 96},
                      AttendCase{"kimi_32x8k", 32, 1, 8191, 32}, AttendCase{"kimi_1k", 1, 1, 1023, 32},
                      AttendCase{"kimi_prefill", 1, 4096, 0, 32}, AttendCase{"k3_prefill", 1, 2048, 0, 96}),
    [](const auto &info) { return info.param.name; });

//===----------------------------------------------------------------------===//
// Sampling
//===----------------------------------------------------------------------===//

struct SampleCase {
  const char *name;
  Index rows;
  ref::SampleRule rule;
};

class Sample : public ::testing::TestWithParam<SampleCase> {};

TEST_P(Sample, Speed) {
  constexpr Index vocabulary = 163840, parameters = 8, sets = 16;
  const SampleCase &c = GetParam();
  DrawnTensor logits = DrawnTensor::normal("f32", {c.rows, vocabulary}, 3);
  Random random(1);
  std::vector<std::int32_t> words, expected;
  auto bitsOf = [](double value) {
    auto narrow = static_cast<float>(value);
    std::int32_t bits;
    std::memcpy(&bits, &narrow, sizeof(bits));
    return bits;
  };
  for (Index row = 0; row < c.rows; ++row) {
    std::int64_t number;
    ref::Sampled chosen;
    do {
      number = random.integer(0, (std::int64_t(1) << 53) - 1);
      chosen = ref::sample(logits.slice(row * vocabulary, vocabulary), c.rule, double(number) * 0x1p-53);
    } while (c.rule.temperature > 0 && chosen.margin < 1e-8); // the likeliest one, the first of equals, is exact
    expected.push_back(chosen.id);
    for (std::int32_t word : {1, bitsOf(c.rule.temperature), static_cast<std::int32_t>(c.rule.topK), bitsOf(c.rule.topP),
                              bitsOf(c.rule.minP), static_cast<std::int32_t>(number),
                              static_cast<std::int32_t>(number >> 32), 3})
      words.push_back(word);
  }
  Array how = Array::i32({c.rows, parameters}, words), ids = Array::undefined("i32", {c.rows});
  Array banned = Array::i32({sets, vocabulary / 32}, std::vector<std::int32_t>(sets * vocabulary / 32));
  KernelSpec spec("k3.sample");
  spec.in(logits.array(), {0}).in(how, {0}).in(banned).out(ids, {0}).inPhases({"decode"});
  auto kernel = spec.compile(target);
  SKIP_WITHOUT_EMITTER(kernel);
  kernel->run({logits.array(), how, banned, ids});
  EXPECT_TRUE(isEqual(ids, expected));
  measure(bytesOf(logits.array()));
}

constexpr double narrow(float value) { return value; }

INSTANTIATE_TEST_SUITE_P(Speed, Sample,
                         ::testing::Values(SampleCase{"greedy_1", 1, {{}, 0}}, SampleCase{"any_1", 1, {{}, 1}},
                                           SampleCase{"top_k_1", 1, {{}, 1, 50}},
                                           SampleCase{"top_p_1", 1, {{}, 1, 0, narrow(0.9f)}},
                                           SampleCase{"top_k_p_1", 1, {{}, 1, 50, narrow(0.9f)}},
                                           SampleCase{"greedy_64", 64, {{}, 0}}, SampleCase{"any_64", 64, {{}, 1}},
                                           SampleCase{"top_p_64", 64, {{}, 1, 0, narrow(0.9f)}}),
                         [](const auto &info) { return info.param.name; });

} // namespace
