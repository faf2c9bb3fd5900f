//===- CudaEngineTest.cpp - engines on a GPU agree with the CPU ----------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// The toy model's kernels are the same code on both, so everything must agree
// to the bit.
//===----------------------------------------------------------------------===//
#include "test/unit/Runtime/CudaTest.h"

#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>

using namespace toy;

namespace {

using CudaEngineTest = CudaTest;

/// Bit patterns, so that NaN equals itself.
std::vector<uint32_t> bits(const std::vector<Logits> &rows) {
  std::vector<uint32_t> out;
  for (const Logits &row : rows) {
    size_t begin = out.size();
    out.resize(begin + row.size());
    memcpy(&out[begin], row.data(), row.size() * 4);
  }
  return out;
}

/// Random prompts, single tokens and mixtures of them; the same for the same seed. Returns all logits and states.
std::vector<uint32_t> play(TestEngine &engine, uint32_t seed, int steps = 40, size_t most = 4) {
  std::mt19937 random(seed);
  std::vector<uint32_t> seen;
  auto note = [&](const std::vector<Logits> &rows) {
    std::vector<uint32_t> more = bits(rows);
    seen.insert(seen.end(), more.begin(), more.end());
  };
  std::vector<k3rt_sequence> live;
  for (int step = 0; step < steps; ++step) {
    if (live.size() < most && random() % 3 == 0)
      live.push_back(engine.create());
    bool decodes = random() % 2 == 0;
    std::vector<Row> rows;
    for (k3rt_sequence sequence : live)
      if (random() % 4 != 0)
        rows.push_back({sequence, prompt(decodes ? 1 : random() % 40, random()), random() % 2 == 0});
    engine.step(rows);
    note(engine.logits);
    if (!live.empty() && random() % 6 == 0) {
      size_t which = random() % live.size();
      note(engine.states(live[which]));
      engine.free(live[which]);
      live.erase(live.begin() + long(which));
    }
  }
  for (k3rt_sequence sequence : live) {
    note(engine.states(sequence));
    engine.free(sequence);
  }
  return seen;
}

TEST_F(CudaEngineTest, StepsEqualTheCpu) {
  std::string model = writeBoth();
  auto eight = [](auto &o) { o.max_sequences = 8; };
  for (uint32_t seed : {1, 2}) {
    TestEngine cpu(model, eight);
    std::vector<uint32_t> want = play(cpu, seed, 200, 8);
    ASSERT_GT(want.size(), 1000u);
    for (int noGraph : {0, 1})
      for (int poison : {0, 1}) {
        TestEngine gpu(model, onGpu([&](auto &o) {
                         eight(o);
                         o.no_graph = noGraph;
                         o.poison = poison;
                       }));
        EXPECT_TRUE(play(gpu, seed, 200, 8) == want) << "no_graph " << noGraph << ", poison " << poison;
      }
  }
}

// Wherever the weights are, and with an artifact that has nothing for the CPU.
TEST_F(CudaEngineTest, WeightsOfAllKinds) {
  Options options;
  std::vector<uint32_t> want;
  {
    TestEngine cpu(write(options));
    want = play(cpu, 3, 10);
  }
  options.targets = Targets::gpu;
  for (Weights weights : {Weights::embedded, Weights::beside, Weights::expertsApart}) {
    options.weights = weights;
    TestEngine gpu(write(options), onGpu());
    EXPECT_TRUE(play(gpu, 3, 10) == want);
  }
}

TEST_F(CudaEngineTest, RandomWeightsAreThoseOfTheCpu) {
  Options options;
  options.targets = Targets::both;
  options.weights = Weights::none;
  std::string model = write(options);
  TestEngine cpu(model, [](auto &o) { o.random_weights = 5; });
  std::vector<uint64_t> progress;
  TestEngine gpu(model, onGpu([&](auto &o) {
                   o.random_weights = 5;
                   o.progress = [](void *user, uint64_t done, uint64_t total) {
                     EXPECT_LE(done, total);
                     static_cast<std::vector<uint64_t> *>(user)->push_back(done);
                   };
                   o.progress_user = &progress;
                 }));
  EXPECT_TRUE(play(gpu, 4, 10) == play(cpu, 4, 10));
  ASSERT_FALSE(progress.empty());
  EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
  // States of both are those of one model.
  std::string path = folder.path("a.k3s");
  ASSERT_EQ(k3rt_snapshot_save(gpu.engine, gpu.snapshot(gpu.create()), path.c_str()), K3RT_OK) << gpu.last();
  k3rt_snapshot loaded;
  EXPECT_EQ(k3rt_snapshot_load(cpu.engine, path.c_str(), &loaded), K3RT_OK) << cpu.last();
}

// Prefill on one device, decode on the other.
TEST_F(CudaEngineTest, StatesMoveBetweenDevices) {
  std::string model = writeBoth(), path = folder.path("state.k3s");
  for (bool toGpu : {false, true}) {
    TestEngine cpu(model), gpu(model, onGpu([](auto &o) { o.poison = 1; }));
    TestEngine &from = toGpu ? cpu : gpu, &to = toGpu ? gpu : cpu;
    Oracle oracle;
    Tokens tokens = prompt(23, 5);
    k3rt_sequence first = from.create(), second = to.create();
    EXPECT_EQ(from.feed(first, tokens), expected(oracle, tokens).back());
    ASSERT_EQ(k3rt_snapshot_save(from.engine, from.snapshot(first), path.c_str()), K3RT_OK) << from.last();
    k3rt_snapshot loaded;
    ASSERT_EQ(k3rt_snapshot_load(to.engine, path.c_str(), &loaded), K3RT_OK) << to.last();
    to.restore(second, loaded);
    EXPECT_EQ(to.states(second), statesOf(oracle));
    for (int32_t token : prompt(9, 6))
      ASSERT_EQ(to.feed(second, {token}), oracle.next(token));
    EXPECT_EQ(to.states(second), statesOf(oracle));
  }
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

TEST_F(CudaEngineTest, DecodeIsCapturedOncePerSize) {
  TestEngine gpu(writeBoth(), onGpu([](auto &o) { o.max_sequences = 4; }));
  std::vector<k3rt_sequence> all;
  std::vector<Row> rows;
  for (int i = 0; i < 3; ++i) {
    all.push_back(gpu.create());
    gpu.feed(all.back(), prompt(5, uint32_t(i)));
  }
  EXPECT_EQ(calls("cuGraphLaunch"), 0u) << "prefill is not captured";
  size_t prefillLaunches = fake.launches.size();
  for (int round = 0; round < 3; ++round)
    for (size_t count : {1, 3, 2}) {
      rows.clear();
      for (size_t i = 0; i < count; ++i)
        rows.push_back({all[i], {7}});
      gpu.step(rows);
    }
  EXPECT_EQ(calls("cuGraphInstantiateWithFlags"), 3u);
  EXPECT_EQ(calls("cuGraphLaunch"), 9u);
  // embed, two groups in each of three layers, head.
  EXPECT_EQ(fake.launches.size() - prefillLaunches, 3u * 8);
  for (size_t i = prefillLaunches; i < fake.launches.size(); ++i)
    EXPECT_TRUE(fake.launches[i].captured);
  // Graphs themselves are not kept.
  EXPECT_EQ(fake.live.graphs, 0u);
  EXPECT_EQ(fake.live.executableGraphs, 3u);
  // Cuts a decode step into windows of other sizes: none of them is run with a graph that is not its own.
  uint64_t before = calls("cuGraphLaunch");
  k3rt_set_trace(gpu.engine, [](void *, const k3rt_trace_event *) {}, nullptr);
  gpu.step({{all[0], {1}}});
  EXPECT_EQ(calls("cuGraphLaunch"), before) << "traces look between groups";
}

// The fake runs what a graph leaves open in an order that is not that of the capture.
TEST_F(CudaEngineTest, DispatchesOfAGroupAreSideBySide) {
  Options options;
  options.chunkedDecode = true;
  options.targets = Targets::both;
  std::string model = write(options);
  TestEngine cpu(model), gpu(model, onGpu());
  EXPECT_TRUE(play(gpu, 6) == play(cpu, 6));
  EXPECT_GT(calls("cuGraphLaunch"), 5u);
  EXPECT_EQ(fake.live.streams, 2u);
  uint64_t waits = calls("cuStreamWaitEvent");
  k3rt_sequence sequence = gpu.create();
  gpu.step({{sequence, {1}}, {gpu.create(), {1}}, {gpu.create(), {1}}, {gpu.create(), {1}}});
  EXPECT_EQ(calls("cuStreamWaitEvent"), waits) << "prefill is one stream";
}

TEST_F(CudaEngineTest, GraphsAreGivenUpWhenThereAreMany) {
  Options options;
  options.targets = Targets::gpu;
  options.maxSequences = 70;
  options.maxTokens = 80;
  options.maxLogitRows = 70;
  TestEngine gpu(write(options), onGpu([](auto &o) { o.max_sequences = 70; }));
  std::vector<Row> rows;
  std::vector<Oracle> oracles(70);
  for (int i = 0; i < 70; ++i) {
    rows.push_back({gpu.create(), {i % 50}});
    oracles[size_t(i)].next(i % 50);
  }
  gpu.step(rows);
  for (size_t count = 1; count <= 70; ++count) {
    std::vector<Row> some(rows.begin(), rows.begin() + long(count));
    gpu.step(some);
    for (size_t i = 0; i < count; ++i)
      ASSERT_EQ(gpu.logits[i], oracles[i].next(some[i].tokens[0])) << count;
  }
  EXPECT_EQ(fake.live.executableGraphs, 64u);
  uint64_t before = calls("cuGraphInstantiateWithFlags");
  gpu.step({rows.begin(), rows.begin() + 70});
  EXPECT_EQ(calls("cuGraphInstantiateWithFlags"), before) << "the newest is kept";
  gpu.step({rows[0]});
  EXPECT_EQ(calls("cuGraphInstantiateWithFlags"), before + 1) << "the oldest is not";
}

TEST_F(CudaEngineTest, LaunchesAreThoseOfTheArtifact) {
  Options options;
  options.targets = Targets::gpu;
  options.embedCluster = 4;
  TestEngine gpu(write(options), onGpu());
  Oracle oracle;
  Tokens tokens = prompt(21, 7);
  EXPECT_EQ(gpu.feed(gpu.create(), tokens), expected(oracle, tokens).back());
  ASSERT_FALSE(fake.launches.empty());
  const fakecuda::Launch &embed = fake.launches[0];
  EXPECT_EQ(embed.kernel, "toy_embed");
  EXPECT_EQ(embed.cluster, 4u);
  EXPECT_EQ(embed.grid[0], 8u) << "6 tiles, rounded up to whole clusters";
  EXPECT_EQ(embed.threads, 32u);
  const fakecuda::Launch &conv = fake.launches[1];
  EXPECT_EQ(conv.kernel, "toy_conv");
  EXPECT_EQ(conv.cluster, 1u);
  EXPECT_EQ(std::vector<uint32_t>(conv.grid, conv.grid + 3), (std::vector<uint32_t>{1, 2, 1}));
  bool shared = false;
  for (const fakecuda::Launch &launch : fake.launches)
    shared |= launch.kernel == "toy_chunk_apply" && launch.sharedBytes == hidden * 4;
  EXPECT_TRUE(shared);
  // All kernels are there before the first step.
  EXPECT_EQ(calls("cuFuncLoad"), 9u);
  EXPECT_EQ(calls("cuModuleLoadData"), 1u);
}

// A kernel begins early where another is right in front of it: not behind copies, events and branches, nor if it does not
// wait by itself.
TEST_F(CudaEngineTest, KernelsStartEarlyBehindKernels) {
  for (bool chunkedDecode : {false, true})
    for (bool noGraph : {false, true}) {
      SCOPED_TRACE(testing::Message() << "chunked " << chunkedDecode << ", no_graph " << noGraph);
      Options options;
      options.chunkedDecode = chunkedDecode;
      options.startEarly = true;
      options.targets = Targets::both;
      std::string model = write(options);
      TestEngine cpu(model), gpu(model, onGpu([&](auto &o) { o.no_graph = noGraph; }));
      fake.launches.clear();
      EXPECT_TRUE(play(gpu, 6) == play(cpu, 6));
      std::map<std::string, size_t> early, all;
      for (const fakecuda::Launch &launch : fake.launches) {
        ++all[launch.kernel];
        early[launch.kernel] += launch.early;
        if (!noGraph && launch.early)
          EXPECT_TRUE(launch.captured) << launch.kernel << " of prefill";
      }
      EXPECT_GT(all["toy_conv"], 0u);
      EXPECT_EQ(early["toy_conv"], 0u) << "it does not wait";
      EXPECT_GT(all["toy_embed"], 0u);
      EXPECT_EQ(early["toy_embed"], 0u) << "the first of a run";
      EXPECT_GT(all["toy_head"], 0u);
      EXPECT_GT(early["toy_head"], 0u) << "behind a layer of decode";
      EXPECT_LT(early["toy_head"], all["toy_head"]) << "not in prefill";
    }
}

// What is between the kernels of a run, or waits for them, keeps its place.
TEST_F(CudaEngineTest, NothingStartsEarlyWhereDispatchesAreLookedAt) {
  Options options;
  options.startEarly = true;
  options.targets = Targets::gpu;
  std::string model = write(options);
  TestEngine careful(model, onGpu([](auto &o) { o.trap_nonfinite = true; }));
  Oracle oracle;
  Tokens tokens = prompt(9, 3);
  EXPECT_EQ(careful.feed(careful.create(), tokens), expected(oracle, tokens).back());
  ASSERT_FALSE(fake.launches.empty());
  for (const fakecuda::Launch &launch : fake.launches)
    EXPECT_FALSE(launch.early) << launch.kernel;
}

// More blocks than run at once would wait for those that have no place.
TEST_F(CudaEngineTest, ResidentKernelsFitTheDevice) {
  // A prompt of 36 rows, then one row of each of 12 sequences, then of one: 9, 3 and 1 tiles.
  auto steps = [](TestEngine &engine) {
    std::vector<Row> rows;
    for (uint32_t i = 0; i < 12; ++i)
      rows.push_back({engine.create(), prompt(3, i)});
    std::vector<Logits> seen;
    auto step = [&](const std::vector<Row> &some) {
      engine.step(some);
      seen.insert(seen.end(), engine.logits.begin(), engine.logits.end());
    };
    step(rows);
    for (Row &row : rows)
      row.tokens = {5};
    step(rows);
    step({rows[0]});
    return bits(seen);
  };
  fake.settings.multiprocessors = 2;
  for (bool noGraph : {false, true}) {
    SCOPED_TRACE(testing::Message() << "no_graph " << noGraph);
    Options options;
    options.residentEmbed = true;
    options.maxSequences = 12;
    options.targets = Targets::both;
    std::string model = write(options);
    TestEngine cpu(model, [](auto &o) { o.max_sequences = 12; });
    TestEngine gpu(model, onGpu([&](auto &o) {
                     o.max_sequences = 12;
                     o.no_graph = noGraph;
                   }));
    fake.launches.clear();
    EXPECT_EQ(steps(gpu), steps(cpu));
    std::vector<uint32_t> blocks;
    std::vector<bool> captured;
    for (const fakecuda::Launch &launch : fake.launches) {
      EXPECT_EQ(launch.cooperative, launch.kernel == "toy_embed") << launch.kernel;
      if (!launch.cooperative)
        continue;
      blocks.push_back(launch.grid[0]);
      captured.push_back(launch.captured);
    }
    EXPECT_EQ(blocks, (std::vector<uint32_t>{2, 2, 1}));
    EXPECT_EQ(captured, (std::vector<bool>{false, !noGraph, !noGraph}));
  }
}

TEST_F(CudaEngineTest, TensorMapsFollowTheStep) {
  Options options;
  options.targets = Targets::gpu;
  options.tensorMaps = true;
  TestEngine gpu(write(options), onGpu([](auto &o) {
                   o.max_sequences = 2;
                   o.max_context = 40;
                 }));
  auto find = [&](const char *kernel, size_t from) -> const fakecuda::Launch & {
    for (size_t i = from; i < fake.launches.size(); ++i)
      if (fake.launches[i].kernel == kernel)
        return fake.launches[i];
    ADD_FAILURE() << kernel;
    return fake.launches[0];
  };
  k3rt_sequence first = gpu.create(), second = gpu.create();
  uint64_t tableAddress = 0;
  for (uint64_t rows : {21, 9}) {
    size_t before = fake.launches.size();
    gpu.step({{first, prompt(rows - 2, 1)}, {second, prompt(2, 1)}});
    // A weight [64, 8], boxes [16, 8] of f32, swizzled in 32 bytes.
    fakecuda::TensorMap weight = find("toy_embed", before).maps.at(0);
    EXPECT_EQ(weight.type, 7);
    EXPECT_EQ(weight.sizes, (std::vector<uint64_t>{8, 64}));
    EXPECT_EQ(weight.strides, (std::vector<uint64_t>{32}));
    EXPECT_EQ(weight.box, (std::vector<uint32_t>{8, 16}));
    EXPECT_EQ(weight.elementStrides, (std::vector<uint32_t>{1, 1}));
    EXPECT_EQ(weight.swizzle, 1);
    EXPECT_EQ(weight.interleave, 0);
    EXPECT_EQ(weight.promotion, 3);
    EXPECT_EQ(weight.fill, 0);
    EXPECT_TRUE(tableAddress == 0 || tableAddress == weight.address);
    tableAddress = weight.address;
    // The stream [2, T, 8], boxes [1, 2, 4].
    fakecuda::TensorMap stream = find("toy_conv", before).maps.at(0);
    EXPECT_EQ(stream.sizes, (std::vector<uint64_t>{8, rows, 2}));
    EXPECT_EQ(stream.strides, (std::vector<uint64_t>{32, 32 * rows}));
    EXPECT_EQ(stream.box, (std::vector<uint32_t>{4, 2, 1}));
    EXPECT_EQ(stream.swizzle, 0);
    // The cache [20 pages, 4, 8] as rows, boxes [2, 8]; the page table [2, 10] as one row of i32.
    const fakecuda::Launch &append = find("toy_append", before);
    EXPECT_EQ(append.maps.at(0).sizes, (std::vector<uint64_t>{8, 20 * 4}));
    EXPECT_EQ(append.maps.at(0).strides, (std::vector<uint64_t>{32}));
    EXPECT_EQ(append.maps.at(0).box, (std::vector<uint32_t>{8, 2}));
    EXPECT_EQ(append.maps.at(0).swizzle, 3);
    EXPECT_EQ(append.maps.at(1).type, 3);
    EXPECT_EQ(append.maps.at(1).sizes, (std::vector<uint64_t>{20}));
    EXPECT_TRUE(append.maps.at(1).strides.empty());
  }
  // Captured steps have their own.
  for (size_t count : {2, 1}) {
    size_t before = fake.launches.size();
    std::vector<Row> rows = {{first, {1}}, {second, {1}}};
    rows.resize(count);
    gpu.step(rows);
    EXPECT_EQ(find("toy_conv", before).maps.at(0).sizes, (std::vector<uint64_t>{8, count, 2}));
  }
}

//===----------------------------------------------------------------------===//
// Observation
//===----------------------------------------------------------------------===//

std::vector<std::string> traceOf(TestEngine &engine, const Tokens &tokens) {
  std::vector<std::string> events;
  auto record = [](void *user, const k3rt_trace_event *event) {
    std::string text = std::to_string(event->layer) + " " + event->dispatch + " " + event->buffer;
    uint64_t bytes = 4;
    for (uint32_t i = 0; i < event->rank; ++i) {
      text += " " + std::to_string(event->shape[i]);
      bytes *= uint64_t(event->shape[i]);
    }
    text += ":" + std::string(static_cast<const char *>(event->data), bytes);
    static_cast<std::vector<std::string> *>(user)->push_back(text);
  };
  EXPECT_EQ(k3rt_set_trace(engine.engine, record, &events), K3RT_OK);
  k3rt_sequence sequence = engine.create();
  engine.feed(sequence, tokens);
  engine.feed(sequence, {3});
  EXPECT_EQ(k3rt_set_trace(engine.engine, nullptr, nullptr), K3RT_OK);
  return events;
}

TEST_F(CudaEngineTest, TracesEqualTheCpu) {
  std::string model = writeBoth();
  auto poison = [](auto &o) { o.poison = 1; };
  TestEngine cpu(model, poison), gpu(model, onGpu(poison));
  std::vector<std::string> want = traceOf(cpu, prompt(7, 8));
  EXPECT_GT(want.size(), 20u);
  EXPECT_EQ(traceOf(gpu, prompt(7, 8)), want);
}

TEST_F(CudaEngineTest, ProfilesNameWhatTheCpuNames) {
  std::string model = writeBoth();
  for (int each : {0, 1}) {
    std::vector<std::string> names[2];
    TestEngine cpu(model), gpu(model, onGpu());
    for (int i = 0; i < 2; ++i) {
      TestEngine &engine = i ? gpu : cpu;
      auto record = [](void *user, const k3rt_profile_event *event) {
        EXPECT_GE(event->seconds, 0);
        EXPECT_LT(event->seconds, 10);
        std::string text = event->label;
        for (int64_t part : {int64_t(event->phase), int64_t(event->section), int64_t(event->layer),
                             int64_t(event->group), int64_t(event->dispatch)})
          text += " " + std::to_string(part);
        static_cast<std::vector<std::string> *>(user)->push_back(text);
      };
      ASSERT_EQ(k3rt_set_profile(engine.engine, record, &names[i], each), K3RT_OK);
      Oracle oracle;
      Tokens tokens = prompt(7, 9);
      k3rt_sequence sequence = engine.create();
      EXPECT_EQ(engine.feed(sequence, tokens), expected(oracle, tokens).back());
      EXPECT_EQ(engine.feed(sequence, {2}), oracle.next(2));
    }
    EXPECT_GT(names[0].size(), 15u);
    EXPECT_EQ(names[1], names[0]);
  }
}

// Decode is profiled as it runs: in a graph, which is not kept.
TEST_F(CudaEngineTest, ProfilesOfDecodeAreTakenInAGraph) {
  for (bool chunked : {false, true})
    for (int each : {0, 1})
      for (int noGraph : {0, 1}) {
        Options options;
        options.chunkedDecode = chunked;
        options.targets = Targets::both;
        std::string model = write(options);
        TestEngine cpu(model), gpu(model, onGpu([&](auto &o) { o.no_graph = noGraph; }));
        size_t events = 0;
        auto count = [](void *user, const k3rt_profile_event *) { ++*static_cast<size_t *>(user); };
        ASSERT_EQ(k3rt_set_profile(gpu.engine, count, &events, each), K3RT_OK);
        uint64_t launched = calls("cuGraphLaunch");
        EXPECT_TRUE(play(gpu, 8, 20) == play(cpu, 8, 20));
        EXPECT_GT(events, 50u);
        EXPECT_EQ(calls("cuGraphLaunch") > launched, !noGraph);
        EXPECT_EQ(fake.live.executableGraphs, 0u);
      }
}

TEST_F(CudaEngineTest, TellsWhatItRunsOn) {
  std::string model = writeBoth();
  k3rt_device_info info = {};
  info.size = sizeof(info);
  {
    TestEngine cpu(model);
    ASSERT_EQ(k3rt_device_info_get(cpu.engine, &info), K3RT_OK);
    EXPECT_STREQ(info.name, "cpu");
    EXPECT_STREQ(info.model, "");
    EXPECT_EQ(info.total_bytes, 0u);
  }
  fake.settings.usedByOthers = 1 << 20;
  k3rt_engine_options options;
  k3rt_engine_options_init(&options);
  options.device = "cuda:0";
  k3rt_memory_plan plan = {};
  plan.size = sizeof(plan);
  char error[256];
  ASSERT_EQ(k3rt_plan_open(model.c_str(), 0, &options, &plan, error, sizeof(error)), K3RT_OK) << error;
  TestEngine gpu(model, onGpu());
  ASSERT_EQ(k3rt_device_info_get(gpu.engine, &info), K3RT_OK);
  EXPECT_STREQ(info.name, "cuda:0");
  EXPECT_STREQ(info.model, "Fake GPU");
  EXPECT_EQ(info.capability_major, 9u);
  EXPECT_EQ(info.capability_minor, 0u);
  EXPECT_EQ(info.multiprocessors, 132u);
  EXPECT_EQ(info.clock_hz, 1.98e9);
  EXPECT_EQ(info.memory_bytes_per_second, 3.201e9 * 2 * 6144 / 8);
  EXPECT_EQ(info.total_bytes, fake.settings.totalBytes);
  EXPECT_EQ(info.open_free_bytes, fake.settings.totalBytes - (1 << 20));
  EXPECT_EQ(info.allocated_bytes, fake.live.bytes);
  EXPECT_EQ(info.free_bytes, info.open_free_bytes - info.allocated_bytes);
  EXPECT_EQ(info.planned_bytes, plan.total_bytes);
  // Weights are part of it; pools have a little room for alignment.
  EXPECT_GT(plan.total_bytes, plan.weight_bytes);
  EXPECT_GE(info.allocated_bytes, info.planned_bytes);
  EXPECT_LE(info.allocated_bytes, info.planned_bytes + 1024);
}

// A kernel that reads what no one has written in this run sees NaN, although an earlier run has left numbers there.
TEST_F(CudaEngineTest, PoisonFillsTheArena) {
  Options options;
  options.targets = Targets::gpu;
  toy::Model model = make(options);
  // The decode program's convolution, whose result is read later.
  auto &groups = model.index.programs[1]->layer_kinds[0]->groups;
  groups.erase(groups.begin());
  std::string path = folder.write("broken.k3a", serialize(model));
  for (int noGraph : {0, 1})
    for (int poison : {0, 1}) {
      TestEngine gpu(path, onGpu([&](auto &o) {
                       o.poison = poison;
                       o.no_graph = noGraph;
                     }));
      k3rt_sequence sequence = gpu.create();
      gpu.feed(sequence, prompt(60, 1));
      EXPECT_EQ(gpu.tryStep({{sequence, {1}}}), poison ? K3RT_NON_FINITE : K3RT_OK);
    }
}

// In the words of the CPU, in prefill and in decode; what is written for it can be run on either.
TEST_F(CudaEngineTest, TrapNamesTheDispatch) {
  Options options;
  options.targets = Targets::both;
  toy::Model model = make(options);
  for (const auto &weight : model.index.weights)
    if (weight->is_expert_group) {
      float infinity = std::numeric_limits<float>::infinity();
      memcpy(model.weightBytes.data() + weight->range->offset() + (hidden + 5) * sizeof(float), &infinity,
             sizeof(infinity));
    }
  std::string path = folder.write("broken.k3a", serialize(model)), dumps = folder.path("dumps");
  std::vector<std::string> messages[2];
  for (bool isGpu : {false, true}) {
    std::string own = dumps + std::to_string(isGpu);
    TestEngine::Change trap = [&](auto &o) {
      o.trap_nonfinite = 1;
      o.trap_folder = own.c_str();
    };
    TestEngine engine(path, isGpu ? onGpu(trap) : trap);
    k3rt_sequence other = engine.create(), sick = engine.create(), later = engine.create();
    EXPECT_EQ(engine.tryStep({{other, {5}}, {sick, {6, 7, 8}}, {later, {1}}}), K3RT_NON_FINITE);
    messages[isGpu].push_back(engine.last());
    EXPECT_EQ(engine.rowStatus, (std::vector<int32_t>{K3RT_OK, K3RT_NON_FINITE, K3RT_OK}));
    EXPECT_EQ(engine.tryStep({{other, {5}}, {later, {2}}}), K3RT_NON_FINITE);
    messages[isGpu].push_back(engine.last());
    for (std::string &message : messages[isGpu])
      if (size_t at = message.find(own); at != std::string::npos)
        message.erase(at, own.size());
  }
  EXPECT_NE(messages[1][0].find("first inf at [1, 2, 5] of 'stream', written by dispatch 'do_attend' (kernel 'attend')"),
            std::string::npos)
      << messages[1][0];
  EXPECT_EQ(messages[1], messages[0]);
  EXPECT_EQ(calls("cuGraphLaunch"), 0u);
  // The second dump is of the decode, with states before it.
  for (int file : {0, 1}) {
    std::string name = "/nonfinite-2/sequence-" + std::to_string(file) + ".k3s";
    std::ifstream cpu(dumps + "0" + name, std::ios::binary), gpu(dumps + "1" + name, std::ios::binary);
    std::stringstream cpuBytes, gpuBytes;
    cpuBytes << cpu.rdbuf();
    gpuBytes << gpu.rdbuf();
    EXPECT_GT(cpuBytes.str().size(), 100u);
    EXPECT_TRUE(gpuBytes.str() == cpuBytes.str());
  }
}

TEST_F(CudaEngineTest, TrapChangesNothingElse) {
  std::string model = writeBoth();
  TestEngine cpu(model), gpu(model, onGpu([](auto &o) { o.trap_nonfinite = 1; }));
  EXPECT_TRUE(play(gpu, 9) == play(cpu, 9));
}

// Logits of rows that nobody asked for stay where they are.
TEST_F(CudaEngineTest, OnlyLogitsThatAreWantedAreDownloaded) {
  TestEngine gpu(writeBoth(), onGpu());
  Tokens tokens = prompt(9, 1);
  k3rt_sequence first = gpu.create(), second = gpu.create();
  k3rt_batch_row rows[] = {{first, tokens.data(), 9, -1}, {second, tokens.data(), 5, -1}};
  k3rt_batch batch = {rows, 2};
  k3rt_step_result result = {};
  uint64_t before = fake.downloadedBytes;
  ASSERT_EQ(k3rt_step(gpu.engine, &batch, &result), K3RT_OK) << gpu.last();
  EXPECT_EQ(fake.downloadedBytes, before);
  rows[1].all_logits = 0;
  ASSERT_EQ(k3rt_step(gpu.engine, &batch, &result), K3RT_OK) << gpu.last();
  EXPECT_EQ(fake.downloadedBytes, before + 64 * sizeof(float));
}

} // namespace
