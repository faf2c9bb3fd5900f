//===- PlayerTest.cpp - what the player of cases notices -------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/gpu/Player.h"
#include "test/gpu/Compare.h"
#include "test/gpu/Report.h"
#include "test/gpu/Sample.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>

using namespace k3::gpu;

namespace {

/// The host as the device; kernels are functions, by the name of their entry.
class HostGpu : public Gpu {
public:
  using Body = std::function<void(const Launch &)>;
  std::map<std::string, Body> kernels;
  std::map<Address, std::uint64_t> memory;
  std::vector<Body *> loaded;
  int launches = 0;
  std::vector<std::vector<bool>> timed; ///< whether launches may begin early

  ~HostGpu() override { EXPECT_TRUE(memory.empty()) << "memory was not given back"; }
  std::string name() const override { return "host"; }
  Address allocate(std::uint64_t bytes) override {
    auto address = reinterpret_cast<Address>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
    memory[address] = bytes;
    return address;
  }
  void release(Address address) override {
    EXPECT_EQ(memory.erase(address), 1u);
    std::free(reinterpret_cast<void *>(address));
  }
  void upload(Address to, const void *from, std::uint64_t bytes) override { std::memcpy(at(to, bytes), from, bytes); }
  void download(void *to, Address from, std::uint64_t bytes) override { std::memcpy(to, at(from, bytes), bytes); }
  void copy(Address to, Address from, std::uint64_t bytes) override {
    std::memcpy(at(to, bytes), at(from, bytes), bytes);
  }
  void fill(Address to, unsigned char byte, std::uint64_t bytes) override { std::memset(at(to, bytes), byte, bytes); }
  Function load(const Kernel &kernel, const unsigned char *, std::uint64_t) override {
    loaded.push_back(&kernels.at(kernel.entry));
    return loaded.size() - 1;
  }
  void launch(const Launch &launch) override {
    for (auto [address, bytes] : launch.cleared)
      fill(address, 0, bytes);
    ++launches;
    (*loaded[launch.function])(launch);
  }
  void finish() override {}
  double time(const std::vector<Launch> &list, int) override {
    timed.emplace_back();
    for (const Launch &one : list) {
      timed.back().push_back(one.early);
      launch(one);
    }
    return 1e-3;
  }

private:
  void *at(Address address, std::uint64_t bytes) {
    auto block = memory.upper_bound(address);
    EXPECT_TRUE(block != memory.begin() && address + bytes <= std::prev(block)->first + std::prev(block)->second);
    return reinterpret_cast<void *>(address);
  }
};

float *floats(const Gpu::Launch &launch, int parameter) {
  return reinterpret_cast<float *>(launch.parameters[parameter]);
}

/// out[i] = a[i] + b[i], b a table of two halves.
void add(const Gpu::Launch &launch) {
  float *a = floats(launch, 0), **b = reinterpret_cast<float **>(launch.parameters[1]), *out = floats(launch, 2);
  auto n = static_cast<Index>(launch.parameters[3]);
  for (Index i = 0; i < n; ++i)
    out[i] = a[i] + b[i / (n / 2)][i % (n / 2)];
}

class PlayerTest : public ::testing::Test {
protected:
  static constexpr Index n = 10;

  PlayerTest() {
    Kernel kernel;
    kernel.op = "toy.add";
    kernel.entry = "add";
    kernel.strategy = "toy";
    set.kernels = {kernel};
    Argument a, b, out;
    a.dtype = b.dtype = out.dtype = "f32";
    a.shape = out.shape = {n};
    b.shape = {2, n / 2};
    Content drawn;
    drawn.kind = Content::Kind::drawn;
    drawn.draw = {Draw::Kind::normal, 1, 1, 1, 0};
    drawn.period = 3;
    a.contents = {drawn};
    b.isTable = true;
    Content stored;
    stored.kind = Content::Kind::stored;
    for (double first : {1.0, 10.0}) {
      Bytes bytes = encode("f32", {first, first + 1, first + 2, first + 3, first + 4});
      stored.blob = set.store(bytes.data(), bytes.size());
      b.contents.push_back(stored);
    }
    out.contents = {Content()};
    out.writes = true;
    c.test = "Toy.Add";
    c.variants = {{0, {1, 1, 1}}};
    c.arguments = {a, b, out};
    c.scalars = {n};
    std::vector<double> values = drawn.draw.values(3), expected;
    for (Index i = 0; i < n; ++i)
      expected.push_back(static_cast<float>(values[i % 3]) + static_cast<float>(i < n / 2 ? 1 + i : 10 + i - n / 2));
    Bytes bytes = encode("f32", expected);
    Expectation expectation;
    expectation.argument = 2;
    expectation.values = set.store(bytes.data(), bytes.size());
    c.expectations = {expectation};
    gpu.kernels["add"] = add;
  }

  PlayResult play() { return Player(gpu, set, options).play(c, c.variants[0]); }

  /// The one failure of a kernel that adds and then does something wrong.
  std::string failureOf(const HostGpu::Body &wrong) {
    gpu.kernels["add"] = [=](const Gpu::Launch &launch) {
      add(launch);
      wrong(launch);
    };
    PlayResult result = play();
    EXPECT_FALSE(result.pass);
    EXPECT_EQ(result.failures.size(), 1u);
    return result.failures.empty() ? "" : result.failures[0];
  }

  HostGpu gpu;
  CaseSet set;
  Case c;
  PlayOptions options;
};

TEST_F(PlayerTest, PassesARightKernel) {
  PlayResult result = play();
  EXPECT_TRUE(result.pass) << (result.failures.empty() ? "" : result.failures[0]);
  EXPECT_EQ(result.repeats, 50);
  EXPECT_EQ(gpu.launches, 50);
  EXPECT_EQ(result.worst, 0);
  EXPECT_EQ(result.seconds, 0);
}

TEST_F(PlayerTest, NoticesAWrongValue) {
  EXPECT_NE(failureOf([](const Gpu::Launch &launch) { floats(launch, 2)[7] += 1; }).find("value 7 of 10"),
            std::string::npos);
}

TEST_F(PlayerTest, NoticesWhatWasNotWritten) {
  EXPECT_NE(failureOf([](const Gpu::Launch &launch) { std::memset(floats(launch, 2) + 9, 0xFF, 4); }).find("value 9"),
            std::string::npos);
}

TEST_F(PlayerTest, NoticesWritesOutside) {
  EXPECT_NE(failureOf([](const Gpu::Launch &launch) { floats(launch, 2)[n] = 0; }).find("outside of the arguments"),
            std::string::npos);
  EXPECT_NE(failureOf([](const Gpu::Launch &launch) { floats(launch, 0)[-1] = 0; }).find("before argument 0, 4 bytes"),
            std::string::npos);
}

TEST_F(PlayerTest, NoticesAChangedInput) {
  EXPECT_NE(failureOf([](const Gpu::Launch &launch) { floats(launch, 0)[0] += 1; }).find("argument 0"),
            std::string::npos);
  EXPECT_NE(failureOf([](const Gpu::Launch &launch) {
              reinterpret_cast<float **>(launch.parameters[1])[1][2] = 0;
            }).find("argument 1"),
            std::string::npos);
}

TEST_F(PlayerTest, NoticesRunsThatDiffer) {
  c.expectations[0].tolerance = {1e-3, 0, 0};
  auto runs = std::make_shared<int>(0);
  std::string failure =
      failureOf([=](const Gpu::Launch &launch) { floats(launch, 2)[3] += ++*runs == 17 ? 1e-5f : 0; });
  EXPECT_NE(failure.find("run 17 differs"), std::string::npos) << failure;
}

TEST_F(PlayerTest, RestoresWhatKernelsUpdateInPlace) {
  gpu.kernels["add"] = [](const Gpu::Launch &launch) {
    EXPECT_NE(floats(launch, 2)[0], floats(launch, 2)[0]) << "the destination still holds the last result";
    add(launch);
  };
  EXPECT_TRUE(play().pass);
}

TEST_F(PlayerTest, ChecksLargeCasesAtSomePlaces) {
  options.wholeBytes = 16;
  options.repeats = 4;
  std::vector<double> values = decode("f32", set.at(c.expectations[0].values), n);
  Bytes one = encode("f32", {values[8]});
  c.expectations[0].values = set.store(one.data(), one.size());
  Index position = 8;
  c.expectations[0].positions = set.store(&position, 8);
  PlayResult result = play();
  EXPECT_TRUE(result.pass);
  EXPECT_EQ(result.repeats, 4);
  EXPECT_NE(failureOf([](const Gpu::Launch &launch) { floats(launch, 2)[8] = 0; }), "");
  EXPECT_NE(failureOf([](const Gpu::Launch &launch) { floats(launch, 2)[n] = 0; }), "");
}

TEST_F(PlayerTest, ChecksLargeResultsBySampleAndSums) {
  constexpr Index many = 2000;
  Content drawn = c.arguments[0].contents[0];
  c.arguments[0].shape = c.arguments[2].shape = {many};
  c.arguments[1].shape = {2, many / 2};
  c.arguments[1].contents = {drawn, drawn};
  c.scalars = {many};
  std::vector<double> values = drawn.draw.values(3), expected(many), some;
  Expectation &expectation = c.expectations[0];
  for (Index i = 0; i < many; ++i) {
    expected[i] = static_cast<float>(values[i % 3]) + static_cast<float>(values[i % (many / 2) % 3]);
    expectation.largest = std::max(expectation.largest, std::abs(expected[i]));
  }
  Sample sample(many);
  std::vector<double> sums = sumBlocks(expected, sample.blockSize());
  std::vector<std::uint64_t> positions = sample.positions(sums);
  for (std::uint64_t position : positions)
    some.push_back(expected[position]);
  Bytes bytes = encode("f32", some);
  expectation.values = set.store(bytes.data(), bytes.size());
  bytes = encode("f32", sums);
  expectation.sums = set.store(bytes.data(), bytes.size());
  expectation.tolerance = {1e-4, 0, 0};
  EXPECT_TRUE(play().pass);
  Index in = static_cast<Index>(positions[positions.size() / 2]), outside = in + 1;
  ASSERT_FALSE(std::binary_search(positions.begin(), positions.end(), static_cast<std::uint64_t>(outside)));
  auto slightly = static_cast<float>(2e-4 * expectation.largest);
  EXPECT_NE(failureOf([=](const Gpu::Launch &launch) { floats(launch, 2)[in] += slightly; })
                .find("value " + std::to_string(positions.size() / 2) + " of"),
            std::string::npos);
  EXPECT_NE(failureOf([=](const Gpu::Launch &launch) { floats(launch, 2)[outside] += 1; }).find("elements from"),
            std::string::npos);
  EXPECT_NE(failureOf([=](const Gpu::Launch &launch) {
              std::memset(floats(launch, 2) + outside, 0xFF, 4);
            }).find("elements from"),
            std::string::npos);
}

TEST_F(PlayerTest, PassesOnWhatAnotherCaseLeft) {
  set.cases = {c};
  c.arguments[0].contents[0] = Content();
  c.arguments[0].contents[0].kind = Content::Kind::produced;
  c.arguments[0].contents[0].argument = 2;
  std::vector<double> left = decode("f32", set.at(c.expectations[0].values), n), expected;
  for (Index i = 0; i < n; ++i)
    expected.push_back(static_cast<float>(left[i]) + static_cast<float>(i < n / 2 ? 1 + i : 10 + i - n / 2));
  Bytes bytes = encode("f32", expected);
  c.expectations[0].values = set.store(bytes.data(), bytes.size());
  for (bool exactMemory : {false, true}) {
    options.exactMemory = exactMemory;
    EXPECT_TRUE(play().pass);
  }
  // What counts is what the kernel left, right or wrong.
  int runs = 0;
  gpu.kernels["add"] = [&](const Gpu::Launch &launch) {
    add(launch);
    floats(launch, 2)[4] += ++runs == 1;
  };
  PlayResult result = play();
  ASSERT_EQ(result.failures.size(), 1u);
  EXPECT_NE(result.failures[0].find("value 4 of 10"), std::string::npos);
  EXPECT_EQ(runs, 2) << "in exact memory there is one run of each";
}

TEST_F(PlayerTest, GivesExactMemoryToCheckers) {
  options.exactMemory = true;
  gpu.kernels["add"] = [&](const Gpu::Launch &launch) {
    EXPECT_EQ(gpu.memory.at(launch.parameters[2]), n * 4u);
    add(launch);
  };
  PlayResult result = play();
  EXPECT_TRUE(result.pass);
  EXPECT_EQ(gpu.launches, 1);
}

TEST_F(PlayerTest, TimesOnCopiesThatNoCacheHolds) {
  c.trafficBytes = 80;
  options.rotationBytes = 100000;
  std::map<std::uint64_t, int> outputs;
  gpu.kernels["add"] = [&](const Gpu::Launch &launch) {
    ++outputs[launch.parameters[2]];
    add(launch);
    EXPECT_EQ(floats(launch, 2)[n - 1], decode("f32", set.at(c.expectations[0].values), n).back());
  };
  PlayResult result = play();
  EXPECT_TRUE(result.pass);
  EXPECT_EQ(result.seconds, 1e-3);
  EXPECT_GT(outputs.size(), 3u);
}

TEST_F(PlayerTest, SaysWhichKernelsAreResident) {
  bool resident = true;
  auto body = gpu.kernels.at("add");
  gpu.kernels.at("add") = [&](const Gpu::Launch &launch) {
    resident = launch.resident;
    body(launch);
  };
  EXPECT_TRUE(play().pass);
  EXPECT_FALSE(resident);
  set.kernels[0].resident = true;
  EXPECT_TRUE(play().pass);
  EXPECT_TRUE(resident);
}

TEST_F(PlayerTest, ClearsCountersOfTimedResidentKernels) {
  // The second input becomes a counter that starts at 0.
  c.trafficBytes = 80;
  Bytes zeros(n * sizeof(float));
  c.arguments[1].writes = true;
  c.arguments[1].isTable = false;
  c.arguments[1].shape = {n};
  c.arguments[1].contents = {{Content::Kind::stored, set.store(zeros.data(), zeros.size()), {}, 0, 0, 0}};
  c.expectations[0].mask = set.store(zeros.data(), n); // any sum will do
  std::size_t cleared = 0;
  gpu.kernels["add"] = [&](const Gpu::Launch &launch) {
    if (launch.cleared.empty())
      return;
    ++cleared;
    ASSERT_EQ(launch.cleared.size(), 1u);
    EXPECT_EQ(launch.cleared[0].first, launch.parameters[1]);
    EXPECT_EQ(launch.cleared[0].second, zeros.size());
  };
  play();
  EXPECT_EQ(cleared, 0u) << "other kernels find what is there";
  set.kernels[0].resident = true;
  play();
  EXPECT_EQ(cleared, gpu.timed.back().size());
}

TEST_F(PlayerTest, TimesKernelsThatOverlap) {
  c.trafficBytes = 80;
  EXPECT_EQ(play().earlySeconds, 0) << "the kernel does not wait for the one in front";
  ASSERT_EQ(gpu.timed.size(), 1u);
  set.kernels[0].startsEarly = true;
  gpu.timed.clear();
  EXPECT_EQ(play().earlySeconds, 1e-3);
  ASSERT_EQ(gpu.timed.size(), 2u);
  for (std::size_t i = 0; i < gpu.timed[1].size(); ++i) {
    EXPECT_FALSE(gpu.timed[0][i]);
    EXPECT_EQ(gpu.timed[1][i], i > 0) << "there is nothing in front of the first one";
  }
}

TEST_F(PlayerTest, TimesKernelsInTurn) {
  set.kernels.push_back(set.kernels[0]);
  set.kernels[1].startsEarly = true;
  Variant other{1, {1, 1, 1}};
  Player::RoundTime time = Player(gpu, set, options).timeRound({{&c, &c.variants[0]}, {&c, &other}, {&c, &other}});
  EXPECT_EQ(time.seconds, 3e-3);
  EXPECT_EQ(time.earlySeconds, 3e-3);
  ASSERT_EQ(gpu.timed.size(), 2u);
  for (std::size_t i = 0; i < gpu.timed[1].size(); ++i)
    EXPECT_EQ(gpu.timed[1][i], i % 3 != 0);
}

TEST_F(PlayerTest, LetsALostDeviceThrough) {
  gpu.kernels["add"] = [](const Gpu::Launch &) { throw GpuError("illegal address", true); };
  EXPECT_THROW(play(), GpuError);
}

TEST(Report, SetsTimesBesideTheLimitsOfTheRun) {
  auto timed = [](const std::string &test, double bytes, double operations, double seconds) {
    Case c;
    c.test = test;
    c.trafficBytes = bytes;
    c.operations = operations;
    PlayResult result;
    result.pass = true;
    result.seconds = seconds;
    return describe(c, Kernel(), Variant(), result);
  };
  PlayResult bad;
  bad.failures = {"why"};
  nlohmann::json report =
      makeReport("a device", {timed("Limits.Copy", 4e9, 0, 1e-3), timed("Limits.Read", 4.5e9, 0, 1e-3),
                              timed("Limits.Bf16", 0, 8e11, 1e-3), timed("Toy.Reads", 9e9, 8e10, 4e-3),
                              timed("Toy.Computes", 9e6, 8e11, 2e-3), describe(Case(), Kernel(), Variant(), bad)});
  EXPECT_EQ(report["passed"], 5);
  EXPECT_EQ(report["failed"], 1);
  EXPECT_NEAR(report["limits"]["gb_per_s"].get<double>(), 4500, 1e-6);
  EXPECT_NEAR(report["limits"]["bf16_tflop_per_s"].get<double>(), 800, 1e-6);
  EXPECT_NEAR(report["cases"][3]["fraction"].get<double>(), 0.5, 1e-9);
  EXPECT_NEAR(report["cases"][4]["fraction"].get<double>(), 0.5, 1e-9);
  EXPECT_FALSE(report["cases"][5].contains("fraction"));
}

} // namespace
