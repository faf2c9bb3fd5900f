//===- MemoryTest.cpp - memory is what was planned ------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Model/CompiledModel.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <sys/prctl.h>
#include <sys/wait.h>

using namespace k3::test;

namespace {

struct Load {
  std::uint32_t sequences;
  std::uint64_t length;
  std::uint32_t window; ///< 0: the artifact's
  bool deterministic;
};

/// Memory of this process that is no mapped file: code is mapped.
std::uint64_t ownMemory() {
  unsigned long long kilobytes = 0;
  if (FILE *file = std::fopen("/proc/self/status", "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, file))
      if (std::strncmp(line, "RssAnon:", 8) == 0)
        std::sscanf(line + 8, "%llu", &kilobytes);
    std::fclose(file);
  }
  return kilobytes * 1024;
}

k3rt_engine_options optionsOf(const Load &load) {
  k3rt_engine_options options;
  k3rt_engine_options_init(&options);
  options.threads = 2;
  options.max_sequences = load.sequences;
  options.max_context = load.length;
  options.prefill_window = load.window;
  options.deterministic = load.deterministic;
  // Made up in memory, where they are counted: of mapped files the system keeps as much as it likes.
  options.random_weights = 1;
  return options;
}

/// What an engine takes on top when all sequences are full and steps have been as large as they can be. 0: it failed.
std::uint64_t measure(const std::string &artifact, const Load &load) {
  // Else the system may make a part of an allocation that nobody has touched resident, at any time.
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  std::uint64_t before = ownMemory();
  k3rt_engine_options options = optionsOf(load);
  k3rt_engine *engine = nullptr;
  char message[512];
  if (k3rt_engine_open(artifact.c_str(), 0, &options, &engine, message, sizeof message) != K3RT_OK)
    return 0;
  Tokens tokens(load.length);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = std::int32_t((i * 7919 + 13) % 4000);
  // The last step is one program run of as many rows as there are, with logits of all of them. The programs of these
  // artifacts take 512 rows of 16 sequences.
  std::uint64_t window = load.window ? load.window : 512;
  std::uint32_t lastSequences = std::min(load.sequences, 16u);
  std::uint64_t last = std::clamp<std::uint64_t>(window / lastSequences, 1, load.length);
  std::vector<k3rt_batch_row> rows;
  for (std::uint32_t i = 0; i < load.sequences; ++i) {
    k3rt_sequence sequence = 0;
    if (k3rt_sequence_create(engine, &sequence) != K3RT_OK)
      return 0;
    rows.push_back({sequence, tokens.data(), i < lastSequences ? load.length - last : load.length, 0});
  }
  for (bool isLast : {false, true}) {
    k3rt_batch batch = {rows.data(), isLast ? lastSequences : load.sequences};
    k3rt_step_result result = {};
    if (k3rt_step(engine, &batch, &result) != K3RT_OK)
      return 0;
    for (k3rt_batch_row &row : rows)
      if (!isLast) {
        row.num_tokens = last;
        row.all_logits = last > 1;
      }
  }
  return ownMemory() - before;
}

class MemoryTest : public ::testing::TestWithParam<const char *> {
protected:
  /// In a process of its own: memory that was given back does not count again.
  static std::uint64_t measureAlone(const std::string &artifact, const Load &load) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
      std::uint64_t bytes = measure(artifact, load);
      bool written = write(ends[1], &bytes, sizeof bytes) == sizeof bytes;
      _exit(!written);
    }
    std::uint64_t bytes = 0;
    EXPECT_EQ(read(ends[0], &bytes, sizeof bytes), ssize_t(sizeof bytes));
    int status = 0;
    waitpid(child, &status, 0);
    close(ends[0]);
    close(ends[1]);
    return bytes;
  }
};

// From a plan of 5 MB, nearly all of it weights, to one of 96 MB: batches of one to a hundred, lengths that fill their pages and that do not, small
// windows, both programs.
TEST_P(MemoryTest, PeakIsThePlan) {
  const Load loads[] = {{1, 16, 0, false},   {1, 512, 0, false},  {2, 1024, 0, false}, {4, 64, 0, false},
                        {16, 128, 0, false}, {32, 33, 0, false},  {2, 300, 64, false}, {100, 40, 0, false},
                        {64, 20, 16, false}, {8, 192, 100, false}, {1, 64, 1, false},  {1, 128, 0, true},
                        {16, 64, 0, true},   {32, 33, 0, true},   {8, 64, 100, true}};
  for (const Load &load : loads) {
    std::string artifact = Artifacts::path(GetParam(), "--deterministic");
    k3rt_engine_options options = optionsOf(load);
    k3rt_memory_plan plan = {};
    plan.size = sizeof plan;
    char message[512];
    ASSERT_EQ(k3rt_plan_open(artifact.c_str(), 0, &options, &plan, message, sizeof message), K3RT_OK) << message;
    std::uint64_t bytes = measureAlone(artifact, load);
    // The tables of the programs, stacks, lists of tokens and pages are not planned: they are within the 3%.
    double planned = double(plan.weight_bytes + plan.total_bytes), measured = double(bytes);
    EXPECT_LE(measured, 1.03 * planned)
        << load.sequences << " sequences of " << load.length << ", windows of " << load.window;
    // Rows of the last page that no token has come to are planned, but not resident.
    constexpr std::uint64_t pageTokens = 64;
    double unused = double(load.sequences * ((pageTokens - load.length % pageTokens) % pageTokens)) *
                    double(plan.kv_bytes_per_token);
    EXPECT_GE(measured, 0.97 * planned - unused)
        << load.sequences << " sequences of " << load.length << ", windows of " << load.window;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MemoryTest, ::testing::Values("k3-nano", "kimi-linear-nano"),
                         [](const auto &info) { return std::string(info.param) == "k3-nano" ? "K3" : "KimiLinear"; });

} // namespace
