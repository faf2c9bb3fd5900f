//===- LargeCases.cpp - long, many and very large inputs -------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Tensors of more than 2^31 elements, of which the ends are checked: where an index in 32 bits would have wrapped. And
// batches longer and wider than the kernel tests have, on shapes that a reference gets through.
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

#include <numeric>

using namespace k3;
using namespace k3::test;

namespace {

constexpr double tolerance = 1e-5, productTolerance = 2e-5, chunkTolerance = 1e-4;
const CompileOptions target{"nvidia-sm90a", false, {}, /*fastestOnly=*/true};
using Ints = std::vector<std::int32_t>;

void append(std::vector<Index> &positions, Vec &expected, Index first, const Vec &values, Index step = 1) {
  for (std::size_t i = 0; i < values.size(); i += static_cast<std::size_t>(step)) {
    positions.push_back(first + static_cast<Index>(i));
    expected.push_back(values[i]);
  }
}

//===----------------------------------------------------------------------===//
// More than 2^31 elements
//===----------------------------------------------------------------------===//

/// Rows of `d` elements, slightly more than 2^31 in all.
constexpr Index rowsOf(Index d) { return ((Index(1) << 31) + d - 1) / d + 3; }

TEST(Huge, RmsNorm) {
  const Index d = 7168, T = rowsOf(d);
  DrawnTensor x = DrawnTensor::normal("f32", {T, d}), weight = DrawnTensor::normal("bf16", {d});
  Array out = Array::onDevice("f32", {T, d});
  KernelSpec spec("k3.rms_norm");
  auto kernel = spec.in(x.array(), {0}).in(weight.array()).out(out, {0}).attr("eps = 1.0e-5 : f64").compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({x.array(), weight.array(), out});
  std::vector<Index> positions;
  Vec expected;
  for (Index t : {Index(0), T / 2, T - 1})
    append(positions, expected, t * d, ref::rmsNorm(x.slice(t * d, d), weight.slice(0, d), 1, d, 1e-5), 13);
  expectAt(out, positions, expected, tolerance);
}

TEST(Huge, GatherRows) {
  const Index d = 7168, rows = rowsOf(d);
  DrawnTensor table = DrawnTensor::normal("bf16", {rows, d});
  Array ids = Array::i32({3}, {static_cast<std::int32_t>(rows - 1), 0, static_cast<std::int32_t>(rows / 2)});
  Array out = Array::undefined("f32", {3, d});
  KernelSpec spec("k3.gather_rows");
  auto kernel = spec.in(ids, {0}).in(table.array()).out(out, {0}).compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({ids, table.array(), out});
  EXPECT_TRUE(isEqual(out, table.rows({rows - 1, 0, rows / 2}, d)));
}

TEST(Huge, Glu) {
  const Index n = 33792, T = rowsOf(n);
  DrawnTensor gate = DrawnTensor::normal("f32", {T, n}), up = DrawnTensor::normal("f32", {T, n});
  Array out = Array::onDevice("f32", {T, n});
  KernelSpec spec("k3.glu");
  spec.in(gate.array(), {0}).in(up.array(), {0}).out(out, {0});
  auto kernel =
      spec.attr("activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64").compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({gate.array(), up.array(), out});
  std::vector<Index> positions;
  Vec expected;
  for (Index t : {Index(0), T - 1})
    append(positions, expected, t * n,
           ref::glu(gate.slice(t * n, n), up.slice(t * n, n), {ref::Activation::Situ, 4, 25}), 101);
  expectAt(out, positions, expected, tolerance);
}

TEST(Huge, LinearWeight) {
  const Index k = 7168, n = rowsOf(k), T = 2;
  DrawnTensor x = DrawnTensor::normal("f32", {T, k}), weight = DrawnTensor::normal("bf16", {n, k});
  Array out = Array::onDevice("f32", {T, n});
  KernelSpec spec("k3.linear");
  auto kernel = spec.in(x.array(), {0}).in(weight.array()).out(out, {0}).compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({x.array(), weight.array(), out});
  std::vector<Index> positions;
  Vec expected;
  for (Index t = 0; t < T; ++t)
    for (Index row : {Index(0), n / 2, n - 2, n - 1})
      append(positions, expected, t * n + row, ref::linear(x.slice(t * k, k), weight.slice(row * k, k), 1, k, 1));
  expectAt(out, positions, expected, productTolerance);
}

TEST(Huge, LinearRows) {
  const Index k = 7168, n = 64, T = rowsOf(k);
  DrawnTensor x = DrawnTensor::normal("f32", {T, k}), weight = DrawnTensor::normal("bf16", {n, k});
  Array out = Array::onDevice("f32", {T, n});
  KernelSpec spec("k3.linear");
  auto kernel = spec.in(x.array(), {0}).in(weight.array()).out(out, {0}).inPhases({"prefill"}).compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({x.array(), weight.array(), out});
  std::vector<Index> positions;
  Vec expected;
  for (Index t : {Index(0), T / 2, T - 1})
    append(positions, expected, t * n, ref::linear(x.slice(t * k, k), weight.slice(0, n * k), 1, k, n));
  expectAt(out, positions, expected, productTolerance);
}

TEST(Huge, AttnResMix) {
  const Index R = 9, d = 7168, T = rowsOf(R * d);
  DrawnTensor stream = DrawnTensor::normal("f32", {R, T, d}), keyNorm = DrawnTensor::normal("bf16", {d});
  DrawnTensor query = DrawnTensor::normal("bf16", {1, d}, 0.02);
  Array out = Array::onDevice("f32", {T, d});
  KernelSpec spec("k3.attn_res.mix");
  spec.in(stream.array(), {1}).index().in(keyNorm.array()).in(query.array()).out(out, {0});
  auto kernel = spec.attr("eps = 1.0e-5 : f64").compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({stream.array(), keyNorm.array(), query.array(), out}, {R});
  std::vector<Index> positions, rows;
  Vec expected;
  for (Index r = 0; r < R; ++r)
    rows.push_back(r * T + T - 1);
  append(positions, expected, (T - 1) * d,
         ref::attnResMix(stream.rows(rows, d), R, keyNorm.slice(0, d), query.slice(0, d), 1e-5, {1, d}), 7);
  expectAt(out, positions, expected, tolerance);
}

TEST(Huge, AttnResAccumulate) {
  const Index R = 9, d = 7168, T = rowsOf(R * d);
  DrawnTensor stream = DrawnTensor::normal("f32", {R, T, d}), delta = DrawnTensor::normal("f32", {T, d});
  KernelSpec spec("k3.attn_res.accumulate");
  auto kernel = spec.in(delta.array(), {0}).index().out(stream.array(), {1}).compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({delta.array(), stream.array()}, {R - 1});
  std::vector<Index> positions;
  Vec expected;
  Index row = (R - 1) * T + T - 1;
  append(positions, expected, row * d, ref::add(stream.slice(row * d, d), delta.slice((T - 1) * d, d)), 7);
  append(positions, expected, (row - T) * d, stream.slice((row - T) * d, d), 7); // another slot
  expectAt(stream.array(), positions, expected, 1e-7);
}

TEST(Huge, KdaState) {
  const Index N = 2, H = 96, D = 128, S = rowsOf(H * D * D);
  auto make = [&] { return DrawnTensor::normal("f32", {N, H, D}); };
  DrawnTensor q = make(), k = make(), v = make(), beta = DrawnTensor::normal("f32", {N, H});
  DrawnTensor g = DrawnTensor::uniform("f32", {N, H, D}, -5, 0), state = DrawnTensor::normal("f32", {S, H, D, D});
  Array slots = Array::i32({N}, {0, static_cast<std::int32_t>(S - 1)}), out = Array::onDevice("f32", {N, H, D});
  KernelSpec spec("k3.kda.recurrent_step");
  spec.in(q.array(), {0}).in(k.array(), {0}).in(v.array(), {0}).in(beta.array(), {0}).in(slots, {0});
  spec.optional("g", g.array(), {0}).out(out, {0}).out(state.array(), {0}).inPhases({"decode"});
  auto kernel = spec.attr("scale = 0.125 : f64, l2norm = true, delta = true").compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({q.array(), k.array(), v.array(), beta.array(), slots, g.array(), out, state.array()});
  Index row = N * H - 1, stateRow = S * H - 1;
  auto vectorOf = [&](const DrawnTensor &tensor) { return tensor.slice(row * D, D); };
  Vec next = state.slice(stateRow * D * D, D * D);
  Vec result = ref::kdaScan(vectorOf(q), vectorOf(k), vectorOf(v), vectorOf(g), beta.slice(row, 1), Ints{0, 1}, Ints{0},
                            next, {1, 1, D, D}, {ref::Decay::PerChannel, true, true, 0.125});
  std::vector<Index> positions, statePositions;
  Vec expected, expectedState;
  append(positions, expected, row * D, result);
  append(statePositions, expectedState, stateRow * D * D, next, 7);
  append(statePositions, expectedState, S / 2 * H * D * D, state.slice(S / 2 * H * D * D, D)); // an unused slot
  expectAt(out, positions, expected, tolerance);
  expectAt(state.array(), statePositions, expectedState, tolerance);
}

TEST(Huge, ShortConvState) {
  const Index N = 2, C = 12288, taps = 4, S = rowsOf((taps - 1) * C);
  DrawnTensor x = DrawnTensor::normal("f32", {N, C}), weight = DrawnTensor::normal("bf16", {C, taps});
  DrawnTensor state = DrawnTensor::normal("f32", {S, taps - 1, C});
  Array cu = Array::i32({N + 1}, {0, 1, 2}), slots = Array::i32({N}, {0, static_cast<std::int32_t>(S - 1)});
  Array out = Array::onDevice("f32", {N, C});
  KernelSpec spec("k3.kda.short_conv");
  spec.in(x.array(), {0}).in(weight.array()).in(cu, {0}).in(slots, {0}).out(out, {0}).out(state.array(), {0});
  auto kernel = spec.attr("silu = true").compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({x.array(), weight.array(), cu, slots, out, state.array()});
  Vec next = state.slice((S - 1) * (taps - 1) * C, (taps - 1) * C);
  Vec result = ref::shortConv(x.slice(C, C), weight.slice(0, C * taps), Ints{0, 1}, Ints{0}, next, C, taps, true);
  std::vector<Index> positions, statePositions;
  Vec expected, expectedState;
  append(positions, expected, C, result, 5);
  append(statePositions, expectedState, (S - 1) * (taps - 1) * C, next, 5);
  expectAt(out, positions, expected, tolerance);
  expectAt(state.array(), statePositions, expectedState, 0);
}

TEST(Huge, KdaGatedNorm) {
  const Index H = 96, V = 128, T = rowsOf(H * V);
  DrawnTensor x = DrawnTensor::normal("f32", {T, H, V}), gate = DrawnTensor::normal("f32", {T, H, V});
  DrawnTensor weight = DrawnTensor::normal("bf16", {V});
  Array out = Array::onDevice("f32", {T, H, V});
  KernelSpec spec("k3.kda.gated_norm");
  spec.in(x.array(), {0}).in(gate.array(), {0}).in(weight.array()).out(out, {0});
  auto kernel = spec.attr("eps = 1.0e-5 : f64").compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({x.array(), gate.array(), weight.array(), out});
  Index first = (T - 1) * H * V;
  std::vector<Index> positions;
  Vec expected;
  append(positions, expected, first,
         ref::kdaGatedNorm(x.slice(first, H * V), gate.slice(first, H * V), weight.slice(0, V), H, V, 1e-5), 11);
  expectAt(out, positions, expected, tolerance);
}

TEST(Huge, LatentCache) {
  const Index l = 512, lr = 576, page = 64, P = rowsOf(page * lr), H = 32;
  DrawnTensor q = DrawnTensor::normal("f32", {1, H, lr}), cache = DrawnTensor::normal("bf16", {P, page, lr});
  DrawnTensor kv = DrawnTensor::normal("f32", {1, lr}), norm = DrawnTensor::normal("bf16", {l});
  auto last = static_cast<std::int32_t>(P - 1);
  Array cu = Array::i32({2}, {0, 1}), lengths = Array::i32({1}, {70}), table = Array::i32({1, 2}, {last, last - 1});
  Array out = Array::onDevice("f32", {1, H, l});
  KernelSpec attend("k3.mla.attend");
  attend.in(q.array(), {0}).in(cache.array(), {0}).in(cu, {0}).in(lengths, {0}).in(table, {0, 1}).out(out, {0});
  auto kernel = attend.attr("scale = 0.07 : f64").compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({q.array(), cache.array(), cu, lengths, table, out});
  Vec context = cache.slice((P - 1) * page * lr, page * lr), second = cache.slice((P - 2) * page * lr, page * lr);
  context.insert(context.end(), second.begin(), second.end());
  ref::MlaShape shape{1, H, l, lr - l, 0, 0, page};
  Vec attended = ref::mlaAttend(q.slice(0, H * lr), context, 0.07, {Ints{0, 1}, Ints{70}, Ints{0, 1}}, shape);
  EXPECT_TRUE(isClose(out, attended, 5e-5));

  KernelSpec appendSpec("k3.mla.append");
  appendSpec.in(kv.array(), {0})
      .in(norm.array())
      .in(cu, {0})
      .in(lengths, {0})
      .in(table, {0, 1})
      .out(cache.array(), {0});
  auto appender = appendSpec.attr("eps = 1.0e-6 : f64").compile(target);
  ASSERT_TRUE(appender);
  appender->run({kv.array(), norm.array(), cu, lengths, table, cache.array()});
  ref::mlaAppend(kv.slice(0, lr), norm.slice(0, l), 1e-6, {Ints{0, 1}, Ints{70}, Ints{0, 1}}, context, shape);
  std::vector<Index> positions;
  Vec expected;
  append(positions, expected, (P - 2) * page * lr, Vec(context.begin() + page * lr, context.end()), 3);
  expectAt(cache.array(), positions, expected, 1.0 / 256);
}

TEST(Huge, Combine) {
  const Index k = 16, n = 3584, T = rowsOf(k * n);
  DrawnTensor y = DrawnTensor::normal("f32", {T, k, n}), weights = DrawnTensor::normal("f32", {T, k});
  Array out = Array::onDevice("f32", {T, n});
  KernelSpec spec("k3.latent_moe.combine");
  auto kernel = spec.in(y.array(), {0}).in(weights.array(), {0}).out(out, {0}).compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({y.array(), weights.array(), out});
  std::vector<Index> positions;
  Vec expected;
  for (Index t : {Index(0), T - 1})
    append(positions, expected, t * n, ref::combine(y.slice(t * k * n, k * n), weights.slice(t * k, k), 1, k, n), 3);
  expectAt(out, positions, expected, tolerance);
}

struct ChunkCase {
  Index rows;        ///< of a chunk
  const char *dtype; ///< of q, k, v and the parts, but for what is left of the gates, which is f32
  std::string anchor;
  double scale;
  Tolerance (*toleranceOf)(int part);
};

/// What prepare makes of the last chunk of so many that its parts are beyond 2^31 elements.
void checkLastChunk(const ChunkCase &c) {
  const Index H = 96, D = 128, L = c.rows, C = rowsOf(H * L * D), T = C * L;
  auto make = [&] { return DrawnTensor::normal(c.dtype, {T, H, D}); };
  DrawnTensor q = make(), k = make(), v = make(), beta = DrawnTensor::normal("f32", {T, H});
  DrawnTensor g = DrawnTensor::uniform("f32", {T, H, D}, -5, 0);
  Ints chunkList;
  for (Index chunk = 0; chunk < C; ++chunk)
    chunkList.insert(chunkList.end(), {static_cast<std::int32_t>(chunk * L), static_cast<std::int32_t>(L)});
  Array chunks = Array::i32({C, 2}, chunkList);
  KernelSpec spec("k3.kda.chunk_prepare");
  spec.in(q.array(), {0})
      .in(k.array(), {0})
      .in(v.array(), {0})
      .in(g.array(), {0})
      .in(beta.array(), {0})
      .in(chunks, {0});
  std::vector<Array> parts, arrays{q.array(), k.array(), v.array(), g.array(), beta.array(), chunks};
  for (const Shape &shape :
       {Shape{C, H, L, D}, Shape{C, H, L, D}, Shape{C, H, L, D}, Shape{C, H, L, D}, Shape{C, H, L, L}})
    parts.push_back(Array::onDevice(c.dtype, shape));
  parts.push_back(Array::onDevice("f32", {C, H, D}));
  for (const Array &part : parts) {
    spec.out(part, {0});
    arrays.push_back(part);
  }
  spec.attr("scale = " + std::to_string(c.scale) + " : f64, l2norm = true");
  spec.attr("anchor = #k3.anchor<" + c.anchor + ">").inPhases({"prefill"});
  auto kernel = spec.compile(target);
  ASSERT_TRUE(kernel);
  kernel->run(arrays);
  auto rowsIn = [&](const DrawnTensor &tensor, Index width) {
    std::vector<Index> rows;
    for (Index i = 0; i < L; ++i)
      rows.push_back(((C - 1) * L + i) * H + H - 1);
    return tensor.rows(rows, width);
  };
  ref::ChunkParts want = ref::kdaChunkPrepare(rowsIn(q, D), rowsIn(k, D), rowsIn(v, D), rowsIn(g, D), rowsIn(beta, 1),
                                              ref::chunkTable(Ints{0, static_cast<std::int32_t>(L)}, L), {L, 1, D, D},
                                              {ref::Decay::PerChannel, true, true, c.scale});
  const Vec *of[] = {&want.qg, &want.w, &want.u, &want.kd, &want.aqk, &want.gl};
  for (int part = 0; part < 6; ++part) {
    std::vector<Index> positions;
    Vec expected;
    append(positions, expected, (C * H - 1) * static_cast<Index>(of[part]->size()), *of[part], 3);
    expectAt(parts[part], positions, expected, c.toleranceOf(part));
  }
}

TEST(Huge, KdaChunks) {
  checkLastChunk({16, "f32", "mid_row", 0.125, [](int) { return Tolerance{chunkTolerance, 0, 0}; }});
}

TEST(Huge, SigmoidGate) {
  const Index n = 12288, T = rowsOf(n);
  DrawnTensor x = DrawnTensor::normal("f32", {T, n}), gate = DrawnTensor::normal("f32", {T, n});
  Array out = Array::onDevice("f32", {T, n});
  KernelSpec spec("k3.sigmoid_gate");
  auto kernel = spec.in(x.array(), {0}).in(gate.array(), {0}).out(out, {0}).compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({x.array(), gate.array(), out});
  std::vector<Index> positions;
  Vec expected;
  for (Index t : {Index(0), T - 1})
    append(positions, expected, t * n, ref::sigmoidGate(x.slice(t * n, n), gate.slice(t * n, n)), 31);
  expectAt(out, positions, expected, tolerance);
}

TEST(Huge, KdaGate) {
  const Index H = 96, K = 128, T = rowsOf(H * K);
  DrawnTensor z = DrawnTensor::normal("f32", {T, H, K}), bias = DrawnTensor::normal("f32", {H, K});
  DrawnTensor rate = DrawnTensor::normal("f32", {H}, 0.5);
  Array out = Array::onDevice("f32", {T, H, K});
  KernelSpec spec("k3.kda.gate");
  spec.in(z.array(), {0}).in(bias.array()).optional("a_log", rate.array()).out(out, {0});
  auto kernel = spec.attr("kind = #k3.gate_kind<softplus>").compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({z.array(), bias.array(), rate.array(), out});
  Index first = (T - 1) * H * K;
  std::vector<Index> positions;
  Vec expected;
  append(
      positions, expected, first,
      ref::kdaGate(z.slice(first, H * K), rate.slice(0, H), bias.slice(0, H * K), ref::GateKind::Softplus, 0, 1, H, K),
      11);
  expectAt(out, positions, expected, tolerance);
}

TEST(Huge, KdaDecodeState) {
  const Index N = 2, H = 96, D = 128, taps = 4, S = rowsOf(H * D * D), C = H * D;
  auto rows = [&] { return DrawnTensor::normal("f32", {N, C}); };
  DrawnTensor q = rows(), k = rows(), v = rows(), z = DrawnTensor::normal("f32", {N, H, D});
  DrawnTensor beta = DrawnTensor::normal("f32", {N, H}), gate = DrawnTensor::normal("f32", {N, H, D});
  auto weight = [&] { return DrawnTensor::normal("bf16", {C, taps}); };
  DrawnTensor qWeight = weight(), kWeight = weight(), vWeight = weight(), bias = DrawnTensor::normal("f32", {H, D});
  DrawnTensor norm = DrawnTensor::normal("bf16", {D}), rate = DrawnTensor::normal("f32", {H}, 0.5);
  DrawnTensor state = DrawnTensor::normal("f32", {S, H, D, D});
  auto window = [&] { return DrawnTensor::normal("f32", {S, taps - 1, C}); };
  DrawnTensor convQ = window(), convK = window(), convV = window();
  Array slots = Array::i32({N}, {0, static_cast<std::int32_t>(S - 1)}), out = Array::onDevice("f32", {N, H, D});
  KernelSpec spec("k3.kda.decode_step");
  spec.in(q.array(), {0}).in(k.array(), {0}).in(v.array(), {0}).in(z.array(), {0}).in(beta.array(), {0});
  spec.in(gate.array(), {0}).in(qWeight.array()).in(kWeight.array()).in(vWeight.array()).in(bias.array());
  spec.in(norm.array()).in(slots, {0}).optional("a_log", rate.array()).out(out, {0}).out(state.array(), {0});
  spec.out(convQ.array(), {0}).out(convK.array(), {0}).out(convV.array(), {0}).inPhases({"decode"});
  spec.attr("kind = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.125 : f64, eps = 1.0e-5 : f64");
  auto kernel = spec.attr("l2norm = true, delta = true").compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({q.array(), k.array(), v.array(), z.array(), beta.array(), gate.array(), qWeight.array(), kWeight.array(),
               vWeight.array(), bias.array(), norm.array(), slots, rate.array(), out, state.array(), convQ.array(),
               convK.array(), convV.array()});
  auto last = [](const DrawnTensor &tensor, Index width) { return tensor.slice(width, width); };
  auto weights = [&](const DrawnTensor &tensor) { return tensor.slice(0, C * taps); };
  Vec qIn = last(q, C), kIn = last(k, C), vIn = last(v, C), zIn = last(z, C), betaIn = last(beta, H),
      gateIn = last(gate, C);
  Vec qW = weights(qWeight), kW = weights(kWeight), vW = weights(vWeight), biasIn = bias.slice(0, C);
  Vec rateIn = rate.slice(0, H), normIn = norm.slice(0, D);
  auto slot = [&](const DrawnTensor &tensor, Index width) { return tensor.slice((S - 1) * width, width); };
  Vec next = slot(state, C * D), nextQ = slot(convQ, (taps - 1) * C), nextK = slot(convK, (taps - 1) * C);
  Vec nextV = slot(convV, (taps - 1) * C);
  ref::DecodeStep step{
      qIn, kIn,  vIn, zIn, betaIn, gateIn, qW, kW, vW, biasIn, rateIn, normIn, ref::GateKind::BoundedSigmoid,
      -5,  1e-5, taps};
  Vec result = ref::kdaDecodeStep(step, Ints{0}, next, nextQ, nextK, nextV, {1, H, D, D},
                                  {ref::Decay::PerChannel, true, true, 0.125});
  auto expectSlot = [&](const Array &array, Index first, const Vec &values, Index stride, double ofLargest) {
    std::vector<Index> positions;
    Vec expected;
    append(positions, expected, first, values, stride);
    expectAt(array, positions, expected, ofLargest);
  };
  expectSlot(out, C, result, 5, 2e-5);
  expectSlot(state.array(), (S - 1) * C * D, next, 97, tolerance);
  for (auto [windows, values] : {std::pair{&convQ, &nextQ}, {&convK, &nextK}, {&convV, &nextV}})
    expectSlot(windows->array(), (S - 1) * (taps - 1) * C, *values, 5, 0);
}

TEST(Huge, MxContractRows) {
  const Index k = 7168, n = 128, T = rowsOf(k);
  Random random(10);
  std::vector<std::uint8_t> codes = random.bytes(n * k / 2), scales = random.bytes(n * k / 32, 118, 122);
  Array weight = Array::i8({n, k / 2}, codes), scale = Array::i8({n, k / 32}, scales),
        out = Array::onDevice("f32", {T, n});
  DrawnTensor x = DrawnTensor::normal("f32", {T, k});
  KernelSpec spec("k3.mx.contract");
  auto kernel = spec.in(x.array(), {0}).in(weight).in(scale).out(out, {0}).inPhases({"prefill"}).compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({x.array(), weight, scale, out});
  std::vector<Index> positions;
  Vec expected;
  for (Index t : {Index(0), T / 2, T - 1})
    append(positions, expected, t * n, ref::mxLinear(x.slice(t * k, k), codes.data(), scales.data(), 1, k, n));
  expectAt(out, positions, expected, productTolerance);
}

/// One of three experts for each token: rows of x, or of the result, beyond 2^31 elements.
void checkExpertRows(Index k, Index n) {
  const Index E = 3, T = rowsOf(std::max(k, n));
  Ints ids;
  for (Index t = 0; t < T; ++t)
    ids.push_back(static_cast<std::int32_t>(t % E));
  ref::MoePlan plan = ref::planExperts(ids, E);
  DrawnTensor x = DrawnTensor::normal("f32", {T, k}), weight = DrawnTensor::normal("bf16", {E, n, k});
  Array offsets = Array::i32({E + 1}, plan.offsets), perm = Array::i32({T, 1}, plan.perm);
  Array out = Array::onDevice("f32", {T, 1, n});
  KernelSpec spec("k3.latent_moe.grouped_contract");
  spec.in(x.array(), {0}).in(offsets).in(perm, {0}).in(weight.array()).out(out, {0}).inPhases({"prefill"});
  auto kernel = spec.compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({x.array(), offsets, perm, weight.array(), out});
  std::vector<Index> positions;
  Vec expected;
  for (Index t : {Index(0), T / 2, T - 1})
    append(positions, expected, t * n, ref::linear(x.slice(t * k, k), weight.slice(t % E * n * k, n * k), 1, k, n),
           std::max<Index>(1, n / 128));
  expectAt(out, positions, expected, productTolerance);
}

TEST(Huge, ExpertInputs) { checkExpertRows(28672, 128); }
TEST(Huge, ExpertResults) { checkExpertRows(192, 28672); }

TEST(Huge, Route) {
  const Index E = 896, k = 16, T = rowsOf(E);
  DrawnTensor logits = DrawnTensor::normal("f32", {T, E}), bias = DrawnTensor::normal("f32", {E}, 0.1);
  Array ids = Array::onDevice("i32", {T, k}), weights = Array::onDevice("f32", {T, k});
  KernelSpec spec("k3.latent_moe.route");
  spec.in(logits.array(), {0}).in(bias.array()).out(ids, {0}).out(weights, {0});
  auto kernel = spec.attr("renormalize = true, scale = 2.5 : f64").compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({logits.array(), bias.array(), ids, weights});
  std::vector<Index> positions;
  Vec expectedIds, expected;
  for (Index t = T - 1; positions.size() < static_cast<std::size_t>(3 * k); --t) {
    ref::Routing routing = ref::route(logits.slice(t * E, E), bias.slice(0, E), 1, {E, k, true, 2.5});
    if (routing.margin[0] <= 1e-6) // f32 scores cannot tell apart what is closer than this
      continue;
    append(positions, expected, t * k, routing.weights);
    expectedIds.insert(expectedIds.end(), routing.ids.begin(), routing.ids.end());
  }
  expectAt(ids, positions, expectedIds, 0);
  expectAt(weights, positions, expected, tolerance);
}

TEST(Huge, Sample) {
  const Index V = 163840, R = rowsOf(V), parameters = 8;
  const std::vector<Index> wanted{0, R / 2, R - 1};
  DrawnTensor logits = DrawnTensor::normal("f32", {R, V}, 3);
  Ints words(static_cast<std::size_t>(R * parameters)), bans(static_cast<std::size_t>(V / 32));
  constexpr std::int32_t one = 0x3f800000; // 1.0f
  for (Index row : wanted) {
    words[static_cast<std::size_t>(row * parameters)] = 1;
    words[static_cast<std::size_t>(row * parameters + 3)] = one; // top-p; the temperature is 0
  }
  Array rules = Array::i32({R, parameters}, words), banned = Array::i32({1, V / 32}, bans),
        ids = Array::onDevice("i32", {R});
  KernelSpec spec("k3.sample");
  auto kernel = spec.in(logits.array(), {0}).in(rules, {0}).in(banned).out(ids, {0}).compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({logits.array(), rules, banned, ids});
  Vec expected;
  for (Index row : wanted)
    expected.push_back(ref::sample(logits.slice(row * V, V), {{}, 0, 0, 1, 0}, 0).id);
  expectAt(ids, wanted, expected, 0);
}

TEST(Huge, Absorb) {
  const Index H = 32, l = 512, r = 64, nope = 128, v = 128, T = rowsOf(H * (l + r));
  DrawnTensor q = DrawnTensor::normal("f32", {T, H, nope + r}), weight = DrawnTensor::normal("bf16", {H, nope + v, l});
  Array out = Array::onDevice("f32", {T, H, l + r});
  KernelSpec spec("k3.mla.absorb");
  spec.in(q.array(), {0}).in(weight.array()).out(out, {0}).inPhases({"prefill"});
  auto kernel = spec.attr("nope = 128 : i64").compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({q.array(), weight.array(), out});
  Index width = H * (nope + r), first = (T - 1) * H * (l + r);
  std::vector<Index> positions;
  Vec expected;
  append(positions, expected, first,
         ref::mlaAbsorb(q.slice((T - 1) * width, width), weight.slice(0, H * (nope + v) * l), {1, H, l, r, nope, v, 1}),
         7);
  expectAt(out, positions, expected, productTolerance);
}

TEST(Huge, Expand) {
  const Index H = 32, l = 512, nope = 128, v = 128, T = rowsOf(H * l);
  DrawnTensor x = DrawnTensor::normal("f32", {T, H, l}), weight = DrawnTensor::normal("bf16", {H, nope + v, l});
  Array out = Array::onDevice("f32", {T, H, v});
  KernelSpec spec("k3.mla.expand");
  spec.in(x.array(), {0}).in(weight.array()).out(out, {0}).inPhases({"prefill"});
  auto kernel = spec.attr("nope = 128 : i64").compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({x.array(), weight.array(), out});
  std::vector<Index> positions;
  Vec expected;
  append(positions, expected, (T - 1) * H * v,
         ref::mlaExpand(x.slice((T - 1) * H * l, H * l), weight.slice(0, H * (nope + v) * l), {1, H, l, 0, nope, v, 1}),
         7);
  expectAt(out, positions, expected, productTolerance);
}

TEST(Huge, LatentCacheByParts) {
  const Index l = 512, lr = 576, page = 64, P = rowsOf(page * lr), H = 32, tile = 32, runs = 4;
  DrawnTensor q = DrawnTensor::normal("f32", {1, H, lr}), cache = DrawnTensor::normal("bf16", {P, page, lr});
  auto last = static_cast<std::int32_t>(P - 1);
  Array lengths = Array::i32({1}, {70}), table = Array::i32({1, 2}, {last, last - 1});
  Array out = Array::undefined("f32", {1, H, l}), parts = Array::undefined("f32", {runs, 2, H, l});
  Array states = Array::undefined("f32", {runs, 2, H, 2});
  KernelSpec spec("k3.mla.attend_partial");
  spec.in(q.array(), {0})
      .in(cache.array(), {0})
      .in(lengths, {0})
      .in(table, {0, 1})
      .out(out, {0})
      .out(parts)
      .out(states);
  auto kernel = spec.attr("scale = 0.07 : f64, tile = 32 : i64").inPhases({"decode"}).compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({q.array(), cache.array(), lengths, table, out, parts, states});
  Vec context = cache.slice((P - 1) * page * lr, page * lr), second = cache.slice((P - 2) * page * lr, page * lr);
  context.insert(context.end(), second.begin(), second.end());
  ref::AttendParts expected = ref::mlaAttendPartial(q.slice(0, H * lr), context, 0.07, Ints{70}, Ints{0, 1}, tile, runs,
                                                    {1, H, l, lr - l, 0, 0, page});
  EXPECT_TRUE(isClose(out, expected.out, 5e-5));
  EXPECT_TRUE(isClose(parts, expected.parts, 5e-5));
  EXPECT_TRUE(isClose(states, expected.states, 5e-5));
}

/// Chunks of 64 rows for matrix units. Products have inputs rounded to bf16, up to three in a row.
constexpr double roundedTolerance = 1.5e-2;

TEST(Huge, KdaChunksByTensorCores) {
  // Queries have length 0.25; a product may be much smaller. Decays below f32's range are 0.
  checkLastChunk({64, "bf16", "tile_row", 0.25, [](int part) {
                    return part == 5 ? Tolerance{1e-4, 0, 1e-30}
                                     : Tolerance{roundedTolerance, 0, part == 4 ? 0.25 * roundedTolerance : 0};
                  }});
}

/// A long sequence, and one of a chunk behind it, whose parts lie at the ends of all tensors.
TEST(Huge, KdaScanByTensorCores) {
  const Index H = 96, D = 128, L = 64, C = rowsOf(H * L * D), T = C * L, S = 3;
  DrawnTensor qg = DrawnTensor::normal("bf16", {C, H, L, D}, 0.02), w = DrawnTensor::normal("bf16", {C, H, L, D}, 0.05);
  DrawnTensor u = DrawnTensor::normal("bf16", {C, H, L, D}), kd = DrawnTensor::normal("bf16", {C, H, L, D}, 0.05);
  // Scores are a triangle, which cannot be drawn: none. Their tensor is half as large as 2^31 elements.
  DrawnTensor aqk = DrawnTensor::uniform("bf16", {C, H, L, L}, 0, 0),
              gl = DrawnTensor::uniform("f32", {C, H, D}, 0.1, 0.9);
  DrawnTensor state = DrawnTensor::normal("f32", {S, H, D, D});
  Ints chunkList;
  for (Index chunk = 0; chunk < C; ++chunk)
    chunkList.insert(chunkList.end(), {static_cast<std::int32_t>(chunk * L), static_cast<std::int32_t>(L)});
  auto first = static_cast<std::int32_t>(C - 1);
  Array chunks = Array::i32({C, 2}, chunkList), chunkCu = Array::i32({3}, {0, first, first + 1});
  Array slots = Array::i32({2}, {0, 2}), out = Array::onDevice("f32", {T, H, D});
  KernelSpec spec("k3.kda.chunk_scan");
  for (const DrawnTensor *part : {&qg, &w, &u, &kd, &aqk, &gl})
    spec.in(part->array(), {0});
  spec.in(chunks, {0}).in(chunkCu, {0}).in(slots, {0}).out(out, {0}).out(state.array(), {0}).inPhases({"prefill"});
  auto kernel = spec.compile(target);
  ASSERT_TRUE(kernel);
  kernel->run({qg.array(), w.array(), u.array(), kd.array(), aqk.array(), gl.array(), chunks, chunkCu, slots, out,
               state.array()});
  // The last head of the last chunk.
  auto block = [&](const DrawnTensor &part, Index size) { return part.slice((C * H - 1) * size, size); };
  ref::ChunkParts parts{block(qg, L * D), block(w, L * D),   block(u, L * D),
                        block(kd, L * D), block(aqk, L * L), block(gl, D)};
  Vec next = state.slice((S * H - 1) * D * D, D * D);
  Vec result =
      ref::kdaChunkScan(parts, ref::chunkTable(Ints{0, static_cast<std::int32_t>(L)}, L), Ints{0}, next, {L, 1, D, D});
  std::vector<Index> positions, statePositions;
  Vec expected, expectedState;
  for (Index i = 0; i < L; ++i)
    append(positions, expected, ((T - L + i) * H + H - 1) * D,
           Vec(result.begin() + i * D, result.begin() + (i + 1) * D), 3);
  append(statePositions, expectedState, (S * H - 1) * D * D, next, 7);
  expectAt(out, positions, expected, roundedTolerance);
  expectAt(state.array(), statePositions, expectedState, roundedTolerance);
}

//===----------------------------------------------------------------------===//
// Long sequences, many sequences
//===----------------------------------------------------------------------===//

const std::vector<std::vector<Index>> batches = {{4096}, std::vector<Index>(700, 1), {1000, 3, 0, 2048, 17, 1, 900}};

TEST(Batches, KdaScan) {
  const Index H = 1, K = 32, V = 16, L = 16;
  for (const std::vector<Index> &lengths : batches) {
    Random random(6);
    Ints cu = cumulate(lengths);
    Index N = static_cast<Index>(lengths.size()), T = cu.back(), S = N + 2;
    ref::ChunkTable table = ref::chunkTable(cu, L);
    Index C = table.count();
    Array q = Array::f32({T, H, K}, random.normal(T * H * K)), k = Array::f32({T, H, K}, random.normal(T * H * K));
    Array v = Array::f32({T, H, V}, random.normal(T * H * V)), beta = Array::f32({T, H}, random.normal(T * H));
    Array g = Array::f32({T, H, K}, random.uniform(T * H * K, -5, 0)), slots = Array::i32({N}, random.distinct(N, S));
    Array chunks = Array::i32({C, 2}, table.chunks), chunkCu = Array::i32({N + 1}, table.chunkCu);
    Array state = Array::f32({S, H, V, K}, random.normal(S * H * V * K)), out = Array::undefined("f32", {T, H, V});
    const Shape shapes[] = {{C, H, L, K}, {C, H, L, K}, {C, H, L, V}, {C, H, L, K}, {C, H, L, L}, {C, H, K}};
    std::vector<Array> parts, arrays{q, k, v, g, beta, chunks};
    KernelSpec prepareSpec("k3.kda.chunk_prepare"), scanSpec("k3.kda.chunk_scan");
    prepareSpec.in(q, {0}).in(k, {0}).in(v, {0}).in(g, {0}).in(beta, {0}).in(chunks, {0});
    for (const Shape &shape : shapes) {
      parts.push_back(Array::undefined("f32", shape));
      arrays.push_back(parts.back());
      prepareSpec.out(parts.back(), {0});
      scanSpec.in(parts.back(), {0});
    }
    prepareSpec.attr("scale = 0.125 : f64, l2norm = true").attr("anchor = #k3.anchor<mid_row>").inPhases({"prefill"});
    scanSpec.in(chunks, {0}).in(chunkCu, {0}).in(slots, {0}).out(out, {0}).out(state, {0}).inPhases({"prefill"});
    auto prepare = prepareSpec.compile(allWays().front()), scan = scanSpec.compile(allWays().front());
    ASSERT_TRUE(prepare && scan);
    prepare->run(arrays);
    ref::ScanShape shape{T, H, K, V};
    ref::ScanOptions options{ref::Decay::PerChannel, true, true, 0.125};
    ref::ChunkParts want =
        ref::kdaChunkPrepare(q.values(), k.values(), v.values(), g.values(), beta.values(), table, shape, options);
    const Vec *of[] = {&want.qg, &want.w, &want.u, &want.kd, &want.aqk, &want.gl};
    for (int part = 0; part < 6; ++part)
      EXPECT_TRUE(isClose(parts[part], *of[part], chunkTolerance));
    passOn(parts);
    Vec expectedState = state.values();
    Vec expected = ref::kdaScan(q.values(), k.values(), v.values(), g.values(), beta.values(), cu, slots.ints(),
                                expectedState, shape, options);
    arrays = parts;
    arrays.insert(arrays.end(), {chunks, chunkCu, slots, out, state});
    scan->run(arrays);
    EXPECT_TRUE(isClose(out, expected, chunkTolerance));
    EXPECT_TRUE(isClose(state, expectedState, chunkTolerance));
  }
}

TEST(Batches, ShortConv) {
  const Index C = 96, taps = 4;
  for (const std::vector<Index> &lengths : batches) {
    Random random(7);
    Ints cu = cumulate(lengths);
    Index N = static_cast<Index>(lengths.size()), T = cu.back(), S = N + 2;
    Array x = Array::f32({T, C}, random.normal(T * C)), weight = Array::bf16({C, taps}, random.normal(C * taps));
    Array slots = Array::i32({N}, random.distinct(N, S)), out = Array::undefined("f32", {T, C});
    Array state = Array::f32({S, taps - 1, C}, random.normal(S * (taps - 1) * C)), cuArray = Array::i32({N + 1}, cu);
    KernelSpec spec("k3.kda.short_conv");
    spec.in(x, {0}).in(weight).in(cuArray, {0}).in(slots, {0}).out(out, {0}).out(state, {0}).inPhases({"prefill"});
    auto kernel = spec.attr("silu = true").compile(allWays().front());
    ASSERT_TRUE(kernel);
    Vec expectedState = state.values();
    Vec expected = ref::shortConv(x.values(), weight.values(), cu, slots.ints(), expectedState, C, taps, true);
    kernel->run({x, weight, cuArray, slots, out, state});
    EXPECT_TRUE(isClose(out, expected, tolerance));
    EXPECT_TRUE(isEqual(state, expectedState));
  }
}

TEST(Batches, LatentAttention) {
  const Index l = 64, r = 16, H = 4, page = 16;
  for (const std::vector<Index> &lengths :
       {std::vector<Index>{2048}, std::vector<Index>(700, 1), {500, 3, 0, 700, 17, 1}}) {
    Random random(8);
    Ints cu = cumulate(lengths), before;
    Index N = static_cast<Index>(lengths.size()), T = cu.back(), longest = 0;
    for (Index length : lengths) {
      before.push_back(static_cast<std::int32_t>(random.integer(0, 40)));
      longest = std::max(longest, before.back() + length);
    }
    Index M = (longest + page - 1) / page, P = N * M + 1;
    Ints table = random.distinct(N * M, P);
    Array q = Array::f32({T, H, l + r}, random.normal(T * H * (l + r)));
    Array cache = Array::bf16({P, page, l + r}, random.normal(P * page * (l + r)));
    Array cuArray = Array::i32({N + 1}, cu), lengthArray = Array::i32({N}, before),
          tableArray = Array::i32({N, M}, table);
    Array out = Array::undefined("f32", {T, H, l});
    KernelSpec spec("k3.mla.attend");
    spec.in(q, {0}).in(cache, {0}).in(cuArray, {0}).in(lengthArray, {0}).in(tableArray, {0, 1}).out(out, {0});
    spec.inPhases({T == N ? "decode" : "prefill"});
    auto kernel = spec.attr("scale = 0.125 : f64").compile(allWays().front());
    ASSERT_TRUE(kernel);
    kernel->run({q, cache, cuArray, lengthArray, tableArray, out});
    Vec expected = ref::mlaAttend(q.values(), cache.values(), 0.125, {cu, before, table}, {T, H, l, r, 0, 0, page});
    EXPECT_TRUE(isClose(out, expected, 2e-5));
  }
}

TEST(Batches, RouteAndPlan) {
  const Index E = 896, k = 16;
  for (Index T : {Index(700), Index(4096)}) {
    Random random(9);
    Array logits = Array::f32({T, E}, random.normal(T * E)), bias = Array::f32({E}, random.normal(E, 0.1));
    Array ids = Array::undefined("i32", {T, k}), weights = Array::undefined("f32", {T, k});
    KernelSpec routeSpec("k3.latent_moe.route"), planSpec("k3.latent_moe.plan");
    routeSpec.in(logits, {0}).in(bias).out(ids, {0}).out(weights, {0});
    auto route = routeSpec.attr("renormalize = true, scale = 2.5 : f64").compile(allWays().front());
    Array offsets = Array::undefined("i32", {E + 1}), perm = Array::undefined("i32", {T, k});
    auto plan = planSpec.in(ids, {0}).out(offsets).out(perm, {0}).compile(allWays().front());
    ASSERT_TRUE(route && plan);
    route->run({logits, bias, ids, weights});
    ref::Routing routing = ref::route(logits.values(), bias.values(), T, {E, k, true, 2.5});
    Mask mask;
    for (Index t = 0; t < T; ++t) // f32 scores cannot tell apart what is closer than this
      mask.insert(mask.end(), k, routing.margin[t] > 1e-6);
    EXPECT_TRUE(isEqual(ids, routing.ids, mask));
    EXPECT_TRUE(isClose(weights, routing.weights, tolerance));
    plan->run({ids, offsets, perm});
    ref::MoePlan expected = ref::planExperts(routing.ids, E);
    EXPECT_TRUE(isEqual(offsets, expected.offsets));
    EXPECT_TRUE(isEqual(perm, expected.perm));
  }
}

} // namespace
