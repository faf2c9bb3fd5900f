//===- BaseTest.cpp - files, memory, CPU features, messages --------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/artifact/Inputs.h"
#include "runtime/src/artifact/Terms.h"
#include "runtime/src/base/CpuFeatures.h"
#include "runtime/src/base/Hash.h"
#include "runtime/src/base/MappedFile.h"
#include "runtime/src/base/Memory.h"
#include "runtime/src/base/Process.h"
#include "test/unit/Runtime/ToyModel.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sched.h>
#include <sstream>
#include <sys/stat.h>
#include <thread>

using namespace k3rt;

namespace {

TEST(Quoted, OneLineWhateverTheBytes) {
  EXPECT_EQ(quoted("abc"), "'abc'");
  EXPECT_EQ(quoted(std::string("a\n\x1b[1m\xff\0b", 9)),
            "'a\\x0a\\x1b[1m\\xff\\x00b'");
  EXPECT_EQ(quoted(std::string(100, 'x')), "'" + std::string(80, 'x') + "...'");
}

TEST(Hash, KnownValues) {
  // XXH3-64 of nothing, from its specification.
  EXPECT_EQ(hashBytes("", 0), 0x2d06800538d394c2u);
  EXPECT_NE(hashBytes("a", 1), hashBytes("b", 1));
}

TEST(MappedFile, ReadsRegularFilesOnly) {
  toy::Folder folder;
  MappedFile file;
  std::string path = folder.write("some", "hello");
  ASSERT_TRUE(file.open(path).ok());
  EXPECT_EQ(std::string(file.data(), file.size()), "hello");
  ASSERT_TRUE(file.open(folder.write("empty", "")).ok());
  EXPECT_EQ(file.size(), 0u);

  EXPECT_EQ(file.open(folder.path("none")).message(),
            folder.path("none") + ": No such file or directory");
  EXPECT_EQ(file.open("/tmp").message(), "/tmp: not a regular file");
  // Must not wait for a writer.
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(file.open(folder.path("pipe")).message(),
            folder.path("pipe") + ": not a regular file");
}

TEST(Allocation, ZeroAlignedOrRefused) {
  Allocation memory;
  ASSERT_TRUE(memory.allocate(100000, "a test").ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % bufferAlignment, 0u);
  for (uint64_t i = 0; i < memory.size(); ++i)
    ASSERT_EQ(memory.data()[i], 0);
  memory.data()[0] = 7;
  Status status = memory.allocate(uint64_t(1) << 60, "a test");
  EXPECT_EQ(status.code(), K3RT_OUT_OF_MEMORY);
  EXPECT_EQ(status.message(),
            "cannot allocate 1152921504606846976 bytes for a test");
  EXPECT_EQ(memory.data()[0], 7);
}

#if defined(__x86_64__)
/// The kernel's list, which hides what the system does not support.
TEST(CpuFeatures, AgreeWithTheKernel) {
  std::ifstream file("/proc/cpuinfo");
  std::string line, flags;
  while (std::getline(file, line))
    if (line.compare(0, 5, "flags") == 0) {
      flags = line + " ";
      break;
    }
  if (flags.empty())
    GTEST_SKIP() << "no flags in /proc/cpuinfo";
  struct {
    const char *llvm, *linux;
  } names[] = {{"sse2", "sse2"},
               {"sse4.2", "sse4_2"},
               {"avx", "avx"},
               {"avx2", "avx2"},
               {"fma", "fma"},
               {"f16c", "f16c"},
               {"bmi2", "bmi2"},
               {"lzcnt", "abm"},
               {"popcnt", "popcnt"},
               {"avx512f", "avx512f"},
               {"avx512bw", "avx512bw"},
               {"avx512vl", "avx512vl"},
               {"avx512dq", "avx512dq"},
               {"avx512vnni", "avx512_vnni"},
               {"avx512vbmi", "avx512vbmi"},
               {"avx512bf16", "avx512_bf16"},
               {"avx512fp16", "avx512_fp16"},
               {"avxvnni", "avx_vnni"},
               {"amx-tile", "amx_tile"},
               {"amx-bf16", "amx_bf16"},
               {"gfni", "gfni"},
               {"vaes", "vaes"},
               {"sse4a", "sse4a"},
               {"xsavec", "xsavec"}};
  for (const auto &name : names) {
    bool listed =
        flags.find(std::string(" ") + name.linux + " ") != std::string::npos;
    EXPECT_EQ(cpuFeature(name.llvm) == FeatureState::present, listed)
        << name.llvm;
  }
  EXPECT_EQ(cpuFeature("x87"), FeatureState::present);
  EXPECT_EQ(cpuFeature("64bit"), FeatureState::present);
}
#endif

TEST(CpuFeatures, UnknownNames) {
  for (const char *name : {"", "avx513f", "AVX2", "avx2 ", "+avx2"})
    EXPECT_EQ(cpuFeature(name), FeatureState::unknown) << name;
}

TEST(Process, Facts) {
  EXPECT_GE(allowedCores(), 1u);
  EXPECT_GT(peakResidentBytes(), 1u << 20);
  double before = secondsNow();
  EXPECT_GE(secondsNow(), before);
}

TEST(Process, LeavesACoreAndMayComeBack) {
  cpu_set_t allowed, only, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed))
      cores.push_back(core);
  std::thread thread([&] {
    for (uint32_t step : {1, 2, 3, 100}) {
      CPU_ZERO(&only);
      CPU_SET(cores.back(), &only);
      ASSERT_EQ(sched_setaffinity(0, sizeof(only), &only), 0);
      // On its only core it stays, and so does a thread that is elsewhere already.
      leaveCore(cores.back(), step);
      leaveCore(cores.back() + 1, step);
      EXPECT_EQ(currentCore(), cores.back());
      ASSERT_EQ(sched_setaffinity(0, sizeof(allowed), &allowed), 0);
      leaveCore(-1, step);
      if (currentCore() == cores.back()) // else the system moved it between two lines
        leaveCore(cores.back(), step);
      ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
      EXPECT_TRUE(CPU_EQUAL(&after, &allowed));
    }
  });
  thread.join();
  if (cores.size() == 1)
    GTEST_SKIP() << "one core: nowhere to go";
  // The system may move a thread back at any time, but not every time.
  int left = 0;
  std::thread counting([&] {
    for (int round = 0; round < 50; ++round) {
      CPU_ZERO(&only);
      CPU_SET(cores.front(), &only);
      sched_setaffinity(0, sizeof(only), &only);
      sched_setaffinity(0, sizeof(allowed), &allowed);
      leaveCore(cores.front(), 1);
      left += currentCore() != cores.front();
    }
  });
  counting.join();
  EXPECT_GT(left, 25);
}

TEST(Terms, RoundUpAndRefuse) {
  SymbolValues values = {};
  values[Symbol::rows] = 10;
  values[Symbol::sequences] = 3;
  Term term;
  EXPECT_EQ(term.evaluate(values), 1);
  term.factors[term.numFactors++] = Symbol::rows;
  term.div = 4;
  EXPECT_EQ(term.evaluate(values), 3);
  term.factors[term.numFactors++] = Symbol::sequences;
  EXPECT_EQ(term.evaluate(values), 8);
  term.add = 3;
  EXPECT_EQ(term.evaluate(values), 9);
  term.add = -31;
  EXPECT_EQ(term.evaluate(values), std::nullopt) << "negative";
  term.add = -30;
  EXPECT_EQ(term.evaluate(values), 0);
  term.mul = INT64_MAX / 2;
  EXPECT_EQ(term.evaluate(values), std::nullopt) << "too large";
}

TEST(Terms, MostChunksOfAStep) {
  // By trying: rows r in sequences s, chunks of c.
  for (int r = 1; r <= 9; ++r)
    for (int s = 1; s <= 5; ++s)
      for (int c = 1; c <= 4; ++c) {
        int most = 0;
        // All ways to give up to s sequences up to r rows.
        std::function<void(int, int, int)> give = [&](int sequences, int rows,
                                                      int chunks) {
          most = std::max(most, chunks);
          if (sequences == 0)
            return;
          for (int own = 1; own <= rows; ++own)
            give(sequences - 1, rows - own, chunks + (own + c - 1) / c);
        };
        give(s, r, 0);
        EXPECT_EQ(maxChunks(r, s, c), most) << r << " " << s << " " << c;
      }
  EXPECT_EQ(maxChunks(10, 3, 0), 0);
}

} // namespace
