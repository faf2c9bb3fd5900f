//===- CudaFaultsTest.cpp - what goes wrong with GPUs --------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// One line each, no leak, no crash.
//===----------------------------------------------------------------------===//
#include "runtime/src/artifact/GpuChip.h"
#include "test/unit/Runtime/CudaTest.h"

#include <functional>

using namespace toy;

namespace {

bool isOneLine(const std::string &text) {
  return !text.empty() && text.find('\n') == std::string::npos && text.size() < 400;
}

class CudaFaultsTest : public CudaTest {
protected:
  CudaFaultsTest() {
    options.targets = Targets::gpu;
    model = write(options);
  }

  /// Opens and expects this failure; "MODEL" stands for the path.
  void refuses(const std::string &path, k3rt_status status, std::string message,
               const TestEngine::Change &change = {}) {
    if (size_t at = message.find("MODEL"); at != std::string::npos)
      message.replace(at, 5, path);
    TestEngine engine;
    EXPECT_EQ(engine.open(path, onGpu(change)), status);
    EXPECT_EQ(engine.error, message);
    EXPECT_TRUE(isOneLine(engine.error));
    EXPECT_EQ(fake.live.objects(), 0u);
  }
  std::string changed(const std::function<void(Model &)> &change) {
    Model made = make(options);
    change(made);
    return folder.write("changed.k3a", serialize(made));
  }

  Options options;
  std::string model;
};

//===----------------------------------------------------------------------===//
// Before anything runs
//===----------------------------------------------------------------------===//

TEST_F(CudaFaultsTest, Driver) {
  fake.settings.driverVersion = 12030;
  refuses(model, K3RT_UNSUPPORTED,
          "device cuda:0: the NVIDIA driver is too old: it supports CUDA 12.3, CUDA 12.4 is needed");
  fakecuda::reset();
  fake.settings.initResult = fakecuda::noDevice;
  refuses(model, K3RT_UNSUPPORTED, "device cuda:0: no NVIDIA GPU");
  fake.settings.initResult = fakecuda::systemDriverMismatch;
  refuses(model, K3RT_UNSUPPORTED,
          "device cuda:0: the NVIDIA driver does not start: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (system has unsupported "
          "display driver / cuda driver combination)");
  fakecuda::reset();
  fake.settings.devices = 0;
  refuses(model, K3RT_UNSUPPORTED, "device cuda:0: no NVIDIA GPU");
}

TEST_F(CudaFaultsTest, DeviceNumber) {
  auto number = [](const char *name) { return [=](k3rt_engine_options &o) { o.device = name; }; };
  refuses(model, K3RT_INVALID_ARGUMENT, "device is cuda:1, but there is only cuda:0", number("cuda:1"));
  fake.settings.devices = 4;
  refuses(model, K3RT_INVALID_ARGUMENT, "device is cuda:4, but there are only cuda:0 to cuda:3", number("cuda:4"));
  refuses(model, K3RT_INVALID_ARGUMENT, "device is 'rocm:0' (cpu, cuda:0, cuda:1, ...)", number("rocm:0"));
  TestEngine last(model, onGpu(number("cuda:3")));
}

TEST_F(CudaFaultsTest, OtherGenerations) {
  for (auto [major, minor] : {std::pair{8, 0}, {8, 9}, {10, 0}, {12, 0}}) {
    fake.settings.major = major;
    fake.settings.minor = minor;
    refuses(model, K3RT_UNSUPPORTED,
            "MODEL: compiled for sm_90a GPUs, cuda:0 is a Fake GPU with compute capability " + std::to_string(major) +
                "." + std::to_string(minor) + ": compile the model for this GPU");
  }
}

TEST(GpuChipTest, WhatRunsWhere) {
  auto runs = [](const char *chip, uint32_t major, uint32_t minor) {
    return k3rt::parseGpuChip(chip)->runsOn(major, minor);
  };
  EXPECT_TRUE(runs("sm_90a", 9, 0));
  EXPECT_FALSE(runs("sm_100a", 10, 3));
  EXPECT_TRUE(runs("sm_100f", 10, 3));
  EXPECT_TRUE(runs("sm_80", 8, 6));
  EXPECT_FALSE(runs("sm_86", 8, 0));
  EXPECT_FALSE(runs("sm_80", 9, 0));
  for (const char *name : {"", "sm_", "sm_9", "90a", "sm_a", "sm_90b", "sm_90aa", "sm_-90", "sm_99999", "SM_90"})
    EXPECT_FALSE(k3rt::parseGpuChip(name)) << name;
}

TEST_F(CudaFaultsTest, ProgramsForAnotherDevice) {
  Options cpuOnly;
  refuses(write(cpuOnly), K3RT_UNSUPPORTED,
          "MODEL: compiled for the CPU only: run it without --device, or compile it with --target=nvidia-sm90a");
  EXPECT_EQ(calls("cuInit"), 0u) << "known without a driver";
  std::string gpuOnly = write(options);
  TestEngine cpu;
  EXPECT_EQ(cpu.open(gpuOnly), K3RT_UNSUPPORTED);
  EXPECT_EQ(cpu.error,
            gpuOnly + ": compiled for a GPU only: run it with --device=cuda:0, or compile it with --target=host");
  k3rt_memory_plan plan = {};
  plan.size = sizeof(plan);
  char error[400];
  EXPECT_EQ(k3rt_plan_open(gpuOnly.c_str(), 0, nullptr, &plan, error, sizeof(error)), K3RT_UNSUPPORTED);
  EXPECT_EQ(std::string(error), cpu.error);
}

TEST_F(CudaFaultsTest, Code) {
  refuses(changed([](Model &m) { m.cubin = fakecuda::cubinText("sm_100a", {}); }), K3RT_UNSUPPORTED,
          "MODEL: executable 0: the driver (CUDA 13.0) cannot load this cubin for sm_90a, is it too old?: "
          "CUDA_ERROR_NO_BINARY_FOR_GPU (no kernel image is available for execution on the device)");
  refuses(changed([](Model &m) { m.index.kernels[2]->launch->entry = "toy_sum"; }), K3RT_BAD_ARTIFACT,
          "MODEL: kernel 'chunk_sums': there is no 'toy_sum' in its cubin");
  refuses(changed([](Model &m) { m.index.kernels[2]->launch->entry = "toy_embed"; }), K3RT_BAD_ARTIFACT,
          "MODEL: kernel 'chunk_sums' takes 6 parameters, but is given 8 (layer 0, dispatch 'do_chunk_sums')");
  refuses(changed([](Model &m) { m.index.kernels[0]->launch->entry = "toy_head"; }), K3RT_BAD_ARTIFACT,
          "MODEL: kernel 'embed' takes more than the 6 parameters that it is given (outside layers, dispatch 'do_embed')",
          [](auto &o) { o.poison = 1; });
  refuses(changed([](Model &m) {
            m.index.kernels[2]->launch->tensor_maps.push_back(std::make_unique<k3::artifact::TensorMapT>());
            m.index.kernels[2]->launch->tensor_maps[0]->box = {4};
            m.index.kernels[2]->launch->entry = "toy_recurrent_step";
          }),
          K3RT_BAD_ARTIFACT,
          "MODEL: kernel 'chunk_sums': parameter 8 has 8 bytes, but is given 128 (layer 0, dispatch 'do_chunk_sums')");
  refuses(changed([](Model &m) {
            size_t at = m.cubin.find("toy_head");
            m.cubin.replace(m.cubin.find("1024", at), 4, "31");
          }),
          K3RT_BAD_ARTIFACT, "MODEL: kernel 'head': 32 threads, its code can have 31");
  for (const std::string &cubin :
       {std::string(), std::string("\177ELF"), std::string(64, '\0'), make(options).cubin.substr(0, 63)})
    refuses(changed([&](Model &m) { m.cubin = cubin; }), K3RT_BAD_ARTIFACT, "MODEL: executable 0: it is no cubin");
  // Where its parts are is looked at before the driver does.
  for (size_t offset : {size_t(0x3c), size_t(0x38)}) // section and segment counts
    refuses(changed([&](Model &m) { m.cubin[offset] = '\x7f'; }), K3RT_BAD_ARTIFACT,
            "MODEL: executable 0: it is no cubin");
  Model made = make(options);
  std::string bytes = serialize(made);
  bytes[made.index.executables[0]->blob->offset + 70] ^= 1;
  refuses(folder.write("damaged.k3a", bytes), K3RT_BAD_ARTIFACT,
          "MODEL: an executable is damaged (its hash does not match)");
}

TEST_F(CudaFaultsTest, NotEnoughMemory) {
  k3rt_engine_options wanted;
  k3rt_engine_options_init(&wanted);
  wanted.device = "cuda:0";
  wanted.max_sequences = 3;
  k3rt_memory_plan plan = {};
  plan.size = sizeof(plan);
  char error[400];
  ASSERT_EQ(k3rt_plan_open(model.c_str(), 0, &wanted, &plan, error, sizeof(error)), K3RT_OK) << error;
  // Beside the plan: 128 MiB for the driver, and the stacks of all threads.
  model = changed([](Model &m) { m.index.kernels[3]->launch->stack_bytes = 16; });
  uint64_t total = fake.settings.totalBytes, margin = (128 << 20) + 16 * 2048 * 132;
  auto three = [](auto &o) { o.max_sequences = 3; };
  fake.settings.usedByOthers = total - margin - plan.total_bytes + 1;
  refuses(model, K3RT_OUT_OF_MEMORY,
          "cuda:0 has " + std::to_string(total - fake.settings.usedByOthers) + " of " + std::to_string(total) +
              " bytes free, but 3 sequences of 4096 tokens need " + std::to_string(plan.total_bytes + margin) +
              " (weights 3584, states " + std::to_string(plan.state_pool_bytes) + ", arena " +
              std::to_string(plan.arena_bytes) + ", cache " + std::to_string(plan.kv_pool_bytes) + ")",
          three);
  EXPECT_EQ(calls("cuMemAlloc_v2"), 0u) << "known before anything is allocated";
  fake.settings.usedByOthers -= 1;
  TestEngine fits(model, onGpu(three));
}

TEST_F(CudaFaultsTest, MemoryLimitCountsWeights) {
  k3rt_engine_options wanted;
  k3rt_engine_options_init(&wanted);
  k3rt_memory_plan cpu = {}, gpu = {};
  cpu.size = gpu.size = sizeof(gpu);
  char error[400];
  std::string both = writeBoth();
  ASSERT_EQ(k3rt_plan_open(both.c_str(), 0, &wanted, &cpu, error, sizeof(error)), K3RT_OK) << error;
  wanted.device = "cuda:0";
  ASSERT_EQ(k3rt_plan_open(both.c_str(), 0, &wanted, &gpu, error, sizeof(error)), K3RT_OK) << error;
  // The table, two vectors, three experts and their table, each at 256 bytes; no scratch memory of threads.
  EXPECT_GE(gpu.total_bytes, cpu.total_bytes + 64 * 8 * 4 + 6 * 256 - 64 * 1024);
  EXPECT_GE(gpu.arena_bytes, cpu.arena_bytes);
  TestEngine limited(both, onGpu([&](auto &o) { o.memory_limit = gpu.total_bytes - 40 * gpu.kv_bytes_per_token; }));
  EXPECT_LT(limited.stats().total_pages, 4 * 4096u / 4);
  k3rt_device_info info = {};
  info.size = sizeof(info);
  ASSERT_EQ(k3rt_device_info_get(limited.engine, &info), K3RT_OK);
  EXPECT_LE(info.planned_bytes, gpu.total_bytes - 40 * gpu.kv_bytes_per_token);
  TestEngine none;
  EXPECT_EQ(none.open(both, onGpu([](auto &o) { o.memory_limit = 2000; })), K3RT_OUT_OF_MEMORY);
  EXPECT_NE(none.error.find("(weights 3584, states "), std::string::npos) << none.error;
}

//===----------------------------------------------------------------------===//
// While it runs
//===----------------------------------------------------------------------===//

TEST_F(CudaFaultsTest, LaunchesThatTheDriverRefuses) {
  for (int noGraph : {0, 1}) {
    TestEngine gpu(model, onGpu([&](auto &o) { o.no_graph = noGraph; }));
    k3rt_sequence a = gpu.create(), b = gpu.create();
    Oracle x, y;
    EXPECT_EQ(gpu.feed(a, {1}), x.next(1));
    EXPECT_EQ(gpu.feed(b, {2}), y.next(2));
    k3rt_snapshot snapshot = gpu.snapshot(a);
    fake.settings.failingKernel = "toy_recurrent_step";
    fake.settings.launchFailure = fakecuda::invalidValue;
    EXPECT_EQ(gpu.tryStep({{a, {3}}}), K3RT_INTERNAL);
    EXPECT_EQ(gpu.last(), "kernel 'recurrent_step' cannot be launched: CUDA_ERROR_INVALID_VALUE (invalid argument) "
                          "(layer 0, dispatch 'do_recurrent_step')");
    EXPECT_EQ(fake.live.graphs, 0u);
    fake.settings.failingKernel = "";
    // The device is not lost: others go on, and so does a sequence that is restored.
    EXPECT_EQ(gpu.feed(b, {4}), y.next(4));
    EXPECT_EQ(gpu.tryStep({{a, {3}}}), K3RT_INVALID_ARGUMENT);
    gpu.restore(a, snapshot);
    EXPECT_EQ(gpu.feed(a, {5}), x.next(5));
  }
}

TEST_F(CudaFaultsTest, LostWhileRunning) {
  struct {
    int noGraph, poison;
    bool prefill;
    const char *message;
  } const cases[] = {
      {0, 0, false, "cuda:0: lost while running the decode program (--poison --no-graph names the kernel): "},
      {0, 1, false, "cuda:0: lost while running the decode program (--poison --no-graph names the kernel): "},
      {1, 0, false, "cuda:0: lost while running the decode program (--poison --no-graph names the kernel): "},
      {1, 1, false, "cuda:0: kernel 'conv' failed (layer 0, dispatch 'do_conv'): "},
      {0, 0, true, "cuda:0: lost while running the prefill program (--poison --no-graph names the kernel): "},
      {0, 1, true, "cuda:0: kernel 'conv' failed (layer 0, dispatch 'do_conv'): "},
  };
  for (const auto &each : cases) {
    fakecuda::reset();
    TestEngine gpu(model, onGpu([&](auto &o) {
                     o.no_graph = each.noGraph;
                     o.poison = each.poison;
                   }));
    k3rt_sequence a = gpu.create(), b = gpu.create(), c = gpu.create();
    gpu.step({{a, {1}}, {b, {1}}, {c, {1}}});
    k3rt_snapshot snapshot = gpu.snapshot(a);
    fake.settings.failingKernel = "toy_conv";
    fake.settings.kernelFailure = fakecuda::illegalAddress;
    EXPECT_EQ(gpu.tryStep({{a, prompt(each.prefill ? 5 : 1, 1)}}), K3RT_INTERNAL);
    std::string want =
        each.message + std::string("CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)");
    EXPECT_EQ(gpu.last(), want);
    EXPECT_TRUE(isOneLine(gpu.last()));
    // Nothing works any more, and everything says why.
    fake.settings.failingKernel = "";
    EXPECT_EQ(gpu.tryStep({{b, {1}}}), K3RT_INTERNAL);
    EXPECT_EQ(gpu.last(), want);
    EXPECT_EQ(k3rt_sequence_restore(gpu.engine, a, snapshot), K3RT_INTERNAL);
    EXPECT_EQ(gpu.last(), want);
    k3rt_snapshot another;
    EXPECT_EQ(k3rt_sequence_snapshot(gpu.engine, c, &another), K3RT_INTERNAL);
    uint64_t count = 100;
    float values[100];
    EXPECT_EQ(k3rt_sequence_read_state(gpu.engine, c, 0, "kda", values, &count), K3RT_INTERNAL);
    EXPECT_EQ(k3rt_sequence_free(gpu.engine, a), K3RT_OK);
  }
}

TEST_F(CudaFaultsTest, KernelsThatFail) {
  TestEngine gpu(model, onGpu([](auto &o) { o.poison = 1; }));
  EXPECT_EQ(gpu.tryStep({{gpu.create(), {failToken}}}), K3RT_INTERNAL);
  EXPECT_EQ(gpu.last(), "cuda:0: kernel 'embed' failed (outside layers, dispatch 'do_embed'): CUDA_ERROR_LAUNCH_FAILED "
                        "(unspecified launch failure)");
}

TEST_F(CudaFaultsTest, NoMemoryForAGraph) {
  // Which of the calls of a step makes the graph is found by trying.
  bool seen = false;
  for (uint64_t call = 1; call < 40 && !seen; ++call) {
    fakecuda::reset();
    TestEngine gpu(model, onGpu());
    k3rt_sequence sequence = gpu.create();
    gpu.feed(sequence, {1});
    fake.settings.failingCall = fake.numCalls + call;
    fake.settings.failure = fakecuda::outOfMemory;
    k3rt_status status = gpu.tryStep({{sequence, {1}}});
    if (calls("cuGraphInstantiateWithFlags") == 0 || calls("cuGraphLaunch") != 0)
      continue;
    seen = true;
    EXPECT_EQ(status, K3RT_OUT_OF_MEMORY);
    EXPECT_EQ(gpu.last(), "cuda:0: not enough memory for a graph of 1 sequences (--no-graph needs none)");
  }
  EXPECT_TRUE(seen);
}

//===----------------------------------------------------------------------===//
// Any call may fail
//===----------------------------------------------------------------------===//

/// Runs `use` with call after call of the driver failing until none is left to fail. `use` returns the message of the
/// failure, or nothing.
class EveryCall : public CudaFaultsTest {
protected:
  template <typename Use> void failEach(Use use) {
    for (int code : {fakecuda::invalidValue, fakecuda::outOfMemory, fakecuda::illegalAddress})
      for (bool lastsForever : {false, true})
        for (uint64_t call = 1;; ++call) {
          fakecuda::reset();
          std::string message = use([&] {
            fake.settings.failingCall = fake.numCalls + call;
            fake.settings.failure = code;
            fake.settings.lastsForever = lastsForever;
          });
          if (!message.empty())
            EXPECT_TRUE(isOneLine(message)) << message;
          EXPECT_EQ(fake.live.objects(), 0u) << "call " << call << ": " << message;
          EXPECT_EQ(fake.problems, std::vector<std::string>()) << "call " << call << ": " << message;
          if (HasFailure() || fake.numCalls < fake.settings.failingCall)
            return;
        }
  }
};

TEST_F(EveryCall, WhileOpening) {
  int refused = 0;
  failEach([&](const auto &fail) {
    fail();
    TestEngine engine;
    // How many parameters a kernel has is asked until the driver says no, which is not an error.
    if (engine.open(model, onGpu()) != K3RT_OK)
      ++refused;
    return engine.error;
  });
  EXPECT_GT(refused, 100);
}

TEST_F(EveryCall, WhileRunning) {
  int refused = 0;
  failEach([&](const auto &fail) {
    TestEngine engine(model, onGpu([](auto &o) { o.prefix_cache_bytes = 1 << 20; }));
    fail();
    std::string message;
    auto note = [&](k3rt_status status) {
      if (status == K3RT_OK || status == K3RT_NON_FINITE)
        return;
      ++refused;
      message = engine.last();
      EXPECT_TRUE(isOneLine(message)) << message;
    };
    k3rt_sequence a = -1, b = -1, c = -1;
    k3rt_snapshot snapshot = -1;
    note(k3rt_sequence_create(engine.engine, &a));
    note(k3rt_sequence_create(engine.engine, &b));
    note(engine.tryStep({{a, prompt(9, 1)}, {b, prompt(3, 2)}}));
    note(engine.tryStep({{a, {1}}, {b, {1}}}));
    note(k3rt_sequence_snapshot(engine.engine, a, &snapshot));
    note(k3rt_sequence_fork(engine.engine, a, &c));
    note(k3rt_prefix_store(engine.engine, a));
    note(engine.tryStep({{a, {1}}, {b, {2}}, {c, {2}}}));
    note(k3rt_sequence_restore(engine.engine, b, snapshot));
    note(k3rt_sequence_free(engine.engine, a));
    uint64_t count = 100;
    float values[100];
    note(k3rt_sequence_read_state(engine.engine, b, 0, "kda", values, &count));
    return message;
  });
  EXPECT_GT(refused, 100);
}

} // namespace
