//===- CudaDeviceTest.cpp - memory of a GPU ------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/device/CudaDevice.h"
#include "runtime/src/artifact/Artifact.h"
#include "runtime/src/artifact/WeightTensors.h"
#include "runtime/src/base/DeviceName.h"
#include "runtime/src/device/DeviceWeights.h"
#include "runtime/src/device/HostDevice.h"
#include "runtime/src/state/StatePool.h"
#include "test/unit/Runtime/CudaTest.h"

#include <cstring>
#include <random>

using namespace toy;
using namespace k3rt;

namespace {

std::string bytesFrom(uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  std::string out(count, '\0');
  for (size_t i = 0; i + 8 <= count; i += 8) {
    uint64_t word = random();
    memcpy(&out[i], &word, 8);
  }
  return out;
}

class CudaDeviceTest : public CudaTest {
protected:
  CudaDeviceTest() {
    EXPECT_TRUE(threads.start(3).ok());
    Status status = device.open(0);
    EXPECT_TRUE(status.ok()) << status.message();
  }

  ThreadPool threads;
  CudaDevice device{threads};
};

TEST(DeviceNameTest, Parses) {
  DeviceName name;
  for (const char *text : {"", "cpu"}) {
    ASSERT_TRUE(parseDeviceName(text, name).ok());
    EXPECT_EQ(name.text(), "cpu");
  }
  ASSERT_TRUE(parseDeviceName("cuda", name).ok());
  EXPECT_EQ(name.text(), "cuda:0");
  ASSERT_TRUE(parseDeviceName("cuda:17", name).ok());
  EXPECT_EQ(name.number, 17u);
  for (std::string text :
       {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:4294967296", "CPU", " cpu", "cuda:\n"}) {
    Status status = parseDeviceName(text, name);
    EXPECT_EQ(status.code(), K3RT_INVALID_ARGUMENT);
    EXPECT_EQ(status.message(), "device is " + k3rt::quoted(text) + " (cpu, cuda:0, cuda:1, ...)");
    EXPECT_EQ(name.number, 17u) << "changed";
  }
}

// Small and large pieces in any order, far more than is staged at a time; the source of an upload is the caller's again
// after finish(), and only then is a download there.
TEST_F(CudaDeviceTest, TransfersInOrder) {
  const uint64_t sizes[] = {1, 63, 64, 65, 4096, 1 << 20, (8 << 20) - 64, 8 << 20, (8 << 20) + 1, 45 << 20, 7};
  uint64_t total = 0;
  for (uint64_t size : sizes)
    total += size;
  DeviceBuffer memory, second;
  ASSERT_TRUE(memory.allocate(device, total, "a test").ok());
  ASSERT_TRUE(second.allocate(device, total, "a test").ok());
  EXPECT_EQ(device.memory().allocated, 2 * total);
  std::vector<std::string> sources, copies;
  uint64_t offset = 0;
  for (uint64_t size : sizes) {
    sources.push_back(bytesFrom(size, size));
    device.upload(memory.data() + offset, sources.back().data(), size);
    offset += size;
  }
  device.copy(second.data(), memory.data(), total);
  device.fill(memory.data(), 0xab, total);
  offset = 0;
  for (uint64_t size : sizes) {
    copies.emplace_back(size, '\0');
    device.download(copies.back().data(), second.data() + offset, size);
    offset += size;
  }
  std::string filled(total, '\0');
  device.download(filled.data(), memory.data(), total);
  ASSERT_TRUE(device.finish().ok());
  EXPECT_TRUE(copies == sources);
  EXPECT_TRUE(filled == std::string(total, '\xab'));
  // Nothing of it goes through memory that is not pinned (the fake refuses), and pieces are used again.
  EXPECT_EQ(calls("cuMemHostAlloc"), 1u);
}

TEST_F(CudaDeviceTest, PinnedMemoryIsNotStaged) {
  DeviceBuffer pinned, memory;
  ASSERT_TRUE(pinned.allocate(device, 1000, "a test", DeviceBuffer::Place::host).ok());
  ASSERT_TRUE(memory.allocate(device, 1000, "a test").ok());
  memset(pinned.data(), 1, 1000);
  device.upload(memory.data(), pinned.data(), 500);
  device.upload(memory.data() + 500, pinned.data() + 500, 500);
  device.fill(memory.data() + 10, 7, 1);
  device.download(pinned.data() + 1, memory.data(), 999);
  ASSERT_TRUE(device.finish().ok());
  std::string want(1000, '\1');
  want[11] = '\7';
  EXPECT_EQ(std::string(pinned.data(), 1000), want);
  EXPECT_EQ(calls("cuMemHostAlloc"), 1u);
}

// What a copy reads may be given back right behind it, and be others' memory then.
TEST_F(CudaDeviceTest, FreedMemoryIsNotCopied) {
  for (uint64_t size : {uint64_t(100), uint64_t(1) << 20, (uint64_t(8) << 20) + 1}) {
    std::string source = bytesFrom(size, size), copy(size, '\0');
    DeviceBuffer to, other;
    ASSERT_TRUE(to.allocate(device, size, "a test").ok());
    {
      DeviceBuffer from;
      ASSERT_TRUE(from.allocate(device, size, "a test").ok());
      device.upload(from.data(), source.data(), size);
      device.copy(to.data(), from.data(), size);
    }
    ASSERT_TRUE(other.allocate(device, size, "a test").ok());
    device.fill(other.data(), 0xab, size);
    device.download(copy.data(), to.data(), size);
    ASSERT_TRUE(device.finish().ok());
    EXPECT_TRUE(copy == source) << size;
  }
}

// Bytes that are made piece by piece arrive where they should.
TEST_F(CudaDeviceTest, MadeBytes) {
  constexpr uint64_t count = 20'000'001;
  DeviceBuffer memory;
  ASSERT_TRUE(memory.allocate(device, count, "a test").ok());
  auto byteAt = [](uint64_t i) { return char(i % 251 ^ i >> 16); };
  device.uploadMade(memory.data(), count, [&](char *out, uint64_t begin, uint64_t bytes) {
    EXPECT_EQ(begin % 64, 0u);
    for (uint64_t i = 0; i < bytes; ++i)
      out[i] = byteAt(begin + i);
  });
  std::string found(count, '\0');
  device.download(found.data(), memory.data(), count);
  ASSERT_TRUE(device.finish().ok());
  for (uint64_t i = 0; i < count; ++i)
    ASSERT_EQ(found[i], byteAt(i)) << i;
}

// After a failure nothing is done any more, and everything says why.
TEST_F(CudaDeviceTest, StaysLost) {
  DeviceBuffer memory;
  ASSERT_TRUE(memory.allocate(device, 1000, "a test").ok());
  char byte = 0;
  device.upload(memory.data(), &byte, 1);
  ASSERT_TRUE(device.finish().ok());
  fake.settings.failingCall = fake.numCalls + 1;
  fake.settings.failure = fakecuda::illegalAddress;
  device.fill(memory.data(), 1, 1000);
  std::string want = "cuda:0: cannot fill: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)";
  EXPECT_EQ(device.finish().message(), want);
  uint64_t before = fake.numCalls;
  device.upload(memory.data(), &byte, 1);
  device.download(&byte, memory.data(), 1);
  device.copy(memory.data(), memory.data(), 1);
  device.fill(memory.data(), 1, 1);
  DeviceBuffer more;
  EXPECT_EQ(more.allocate(device, 1, "a test").message(), want);
  EXPECT_EQ(more.allocate(device, 1, "a test", DeviceBuffer::Place::host).message(), want);
  EXPECT_EQ(device.finish().message(), want);
  EXPECT_EQ(fake.numCalls, before);
}

TEST_F(CudaDeviceTest, OutOfMemoryIsNotTheEnd) {
  DeviceBuffer memory;
  Status status = memory.allocate(device, uint64_t(1) << 40, "a test");
  EXPECT_EQ(status.code(), K3RT_OUT_OF_MEMORY);
  EXPECT_EQ(status.message(),
            "cuda:0: cannot allocate 1099511627776 bytes for a test, 268435456 of 268435456 are free");
  EXPECT_TRUE(memory.allocate(device, 100, "a test").ok());
}

// Slots and pages are the same on both devices, poison included.
TEST_F(CudaDeviceTest, PoolsAgreeWithTheCpu) {
  k3rt::Artifact artifact;
  ASSERT_TRUE(artifact.open(writeBoth(), 0).ok());
  EngineOptions options;
  options.threads = 1;
  MemoryPlan plan;
  ASSERT_TRUE(planMemory(artifact.index(), options, plan).ok());
  HostDevice host(threads);
  StatePool pools[2];
  ASSERT_TRUE(pools[0].init(artifact.index(), plan, true, host).ok());
  ASSERT_TRUE(pools[1].init(artifact.index(), plan, true, device).ok());
  std::string found[2];
  for (int i = 0; i < 2; ++i) {
    StatePool &pool = pools[i];
    auto look = [&](const Holding &holding, uint64_t tokens) {
      std::string copy(pool.copyBytes(tokens), '\0');
      pool.save(holding, tokens, copy.data());
      found[i] += copy;
    };
    Holding a, b;
    a.slot = *pool.takeSlot();
    b.slot = *pool.takeSlot();
    pool.setPages(a, 3);
    pool.setPages(b, 2);
    look(a, 12); // slot of zeros, rows of NaN
    std::string state = bytesFrom(1, pool.copyBytes(11));
    pool.load(a, 11, state.data());
    look(a, 12);
    pool.copySlot(a.slot, b.slot);
    pool.dropPages(b.pages);
    b.pages = pool.sharePages(a, 3);
    pool.prepareWrite(b, 9, 12);
    look(b, 12); // a copy of one row in the last page
    std::vector<float> floats(pool.elements(1, 11));
    pool.readAsFloat(1, a, 11, floats.data());
    found[i].append(reinterpret_cast<char *>(floats.data()), floats.size() * 4);
    Holding freed = a;
    pool.giveBack(b);
    pool.giveBack(a);
    look(freed, 12); // all NaN
    EXPECT_EQ(pool.freePages(), pool.totalPages());
  }
  EXPECT_EQ(found[0].size(), found[1].size());
  EXPECT_TRUE(found[0] == found[1]);
  EXPECT_NE(found[0].find(bytesFrom(1, 48)), std::string::npos);
  EXPECT_EQ(found[0].substr(found[0].size() - 100), std::string(100, '\xff'));
}

// More bytes than are sent; the values are those that the host makes.
TEST_F(CudaDeviceTest, RandomWeightsAreCopiedOnTheDevice) {
  namespace schema = k3::artifact;
  schema::ArtifactT index;
  auto add = [&](const char *name, schema::DType dtype, std::vector<int64_t> shape, bool experts) {
    auto weight = std::make_unique<schema::WeightT>();
    weight->name = name;
    weight->dtype = dtype;
    weight->shape = std::move(shape);
    weight->is_expert_group = experts;
    index.weights.push_back(std::move(weight));
  };
  add("norm.weight", schema::DType::F32, {100}, false);
  add("experts.{E}.weight", schema::DType::BF16, {3, 1500, 1024}, true);
  add("lm_head.weight", schema::DType::BF16, {35000, 1024}, false);
  add("narrow.weight", schema::DType::BF16, {1000, 300}, false);
  flatbuffers::FlatBufferBuilder builder;
  schema::FinishArtifactBuffer(builder, schema::Artifact::Pack(builder, &index));
  const schema::Artifact &packed = *schema::GetArtifact(builder.GetBufferPointer());
  std::vector<std::pair<uint64_t, uint64_t>> progress;
  {
    DeviceWeights weights;
    Progress note = {[](void *user, uint64_t done, uint64_t total) {
                       static_cast<decltype(progress) *>(user)->push_back({done, total});
                     },
                     &progress};
    Status status = weights.generate(packed, 9, device, note);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(device.memory().allocated, deviceWeightBytes(packed)) << "what was sent is given back";
    RandomWeights random(packed, 9);
    const void *table[3] = {};
    device.download(table, weights.addresses()[1], sizeof(table));
    ASSERT_TRUE(device.finish().ok());
    const void *const tensors[] = {weights.addresses()[0], table[0], table[1], table[2], weights.addresses()[2],
                                   weights.addresses()[3]};
    ASSERT_EQ(random.count(), std::size(tensors));
    for (size_t i = 0; i < std::size(tensors); ++i) {
      std::string have(random.size(i), '\0'), want = have;
      device.download(have.data(), tensors[i], have.size());
      ASSERT_TRUE(device.finish().ok());
      random.write(i, 0, want.size(), want.data());
      EXPECT_TRUE(have == want) << i;
    }
    // Nine pieces of the head, one of each expert; three tensors are too small for that.
    EXPECT_EQ(calls("cuMemcpyDtoDAsync_v2"), 12u);
  }
  ASSERT_EQ(progress.size(), 6u);
  EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
  EXPECT_EQ(progress.back().first, progress.back().second);

  // Together with the values to copy they do not fit.
  fake.settings.usedByOthers = fake.settings.totalBytes - deviceWeightBytes(packed) - (1 << 20);
  DeviceWeights weights;
  EXPECT_EQ(weights.generate(packed, 9, device, Progress()).code(), K3RT_OUT_OF_MEMORY);
}

} // namespace
