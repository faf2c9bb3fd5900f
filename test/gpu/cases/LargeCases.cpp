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

TEST(Huge, KdaChunks) {
  const Index H = 96, D = 128, L = 16, C = rowsOf(H * L * D), T = C * L;
  auto make = [&] { return DrawnTensor::normal("f32", {T, H, D}); };
  DrawnTensor q = make(), k = make(), v = make(), beta = DrawnTensor::normal("f32", {T, H});
  DrawnTensor g = DrawnTensor::uniform("f32", {T, H, D}, -5, 0);
  Ints chunkList;
  for (Index chunk = 0; chunk < C; ++chunk)
    chunkList.insert(chunkList.end(), {static_cast<std::int32_t>(chunk * L), static_cast<std::int32_t>(L)});
  Array chunks = Array::i32({C, 2}, chunkList);
  std::vector<Array> parts;
  for (const Shape &shape :
       {Shape{C, H, L, D}, Shape{C, H, L, D}, Shape{C, H, L, D}, Shape{C, H, L, D}, Shape{C, H, L, L}, Shape{C, H, D}})
    parts.push_back(Array::onDevice("f32", shape));
  KernelSpec spec("k3.kda.chunk_prepare");
  spec.in(q.array(), {0})
      .in(k.array(), {0})
      .in(v.array(), {0})
      .in(g.array(), {0})
      .in(beta.array(), {0})
      .in(chunks, {0});
  std::vector<Array> arrays{q.array(), k.array(), v.array(), g.array(), beta.array(), chunks};
  for (const Array &part : parts) {
    spec.out(part, {0});
    arrays.push_back(part);
  }
  spec.attr("scale = 0.125 : f64, l2norm = true").attr("anchor = #k3.anchor<mid_row>").inPhases({"prefill"});
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
                                              {ref::Decay::PerChannel, true, true, 0.125});
  const Vec *of[] = {&want.qg, &want.w, &want.u, &want.kd, &want.aqk, &want.gl};
  for (int part = 0; part < 6; ++part) {
    std::vector<Index> positions;
    Vec expected;
    append(positions, expected, (C * H - 1) * static_cast<Index>(of[part]->size()), *of[part], 3);
    expectAt(parts[part], positions, expected, chunkTolerance);
  }
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
