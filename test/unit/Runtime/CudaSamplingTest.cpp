//===- CudaSamplingTest.cpp - tokens that a GPU chooses ------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Runtime/CudaTest.h"
#include "test/unit/Runtime/TestScheduler.h"

using namespace toy;

namespace {

class CudaSamplingTest : public CudaTest {
protected:
  std::string writeForBoth() {
    Options options;
    options.targets = Targets::both;
    options.choosesTokens = true;
    return write(options);
  }
  std::string model = writeForBoth();
};

/// Requests with all options, and more lists of banned tokens than a step has
/// room for.
std::vector<Ask> manyAsks() {
  std::vector<Ask> asks;
  for (uint32_t i = 0; i < 24; ++i) {
    Ask ask;
    ask.prompt = prompt(3 + i, i);
    ask.maxTokens = 8;
    ask.sampling.temperature = i % 3 == 0 ? 0 : 150.0f + float(i);
    ask.sampling.top_k = i % 4 == 1 ? 5 : 0;
    ask.sampling.top_p = i % 5 == 2 ? 0.7f : 1;
    ask.sampling.min_p = i % 5 == 3 ? 0.2f : 0;
    ask.sampling.repetition_penalty = i % 6 == 5 ? 1.5f : 1;
    ask.sampling.seed = 77 + i;
    ask.banned.push_back(int32_t(i % 7));
    ask.maxDraft = i % 2 ? 3 : 0;
    asks.push_back(ask);
  }
  return asks;
}

std::vector<Tokens> answersTo(TestEngine &engine) {
  TestScheduler scheduler(engine, [](auto &o) { o.token_budget = 40; });
  std::vector<k3rt_request> requests;
  for (const Ask &ask : manyAsks())
    requests.push_back(scheduler.submit(ask));
  scheduler.runAll();
  std::vector<Tokens> answers;
  for (k3rt_request request : requests)
    answers.push_back(scheduler.answers[request].tokens);
  return answers;
}

TEST_F(CudaSamplingTest, AnswersAreThoseOfTheHost) {
  for (int32_t poison : {0, 1}) {
    auto change = [&](auto &o) {
      o.max_sequences = 8;
      o.poison = poison;
    };
    TestEngine cpu(model, change), gpu(model, onGpu(change));
    EXPECT_EQ(answersTo(gpu), answersTo(cpu));
  }
}

TEST_F(CudaSamplingTest, LogitsStayOnTheGpu) {
  TestEngine gpu(model, onGpu());
  TestScheduler scheduler(gpu);
  for (uint32_t seed : {1, 2}) {
    Ask ask;
    ask.prompt = prompt(7, seed);
    ask.maxTokens = 5;
    ask.sampling.temperature = 100;
    scheduler.submit(ask);
  }
  scheduler.step();
  uint64_t before = fake.downloadedBytes, uploads = calls("cuMemcpyHtoDAsync_v2");
  scheduler.step();
  EXPECT_EQ(fake.downloadedBytes, before + 2 * sizeof(int32_t));
  // The inputs; what is banned is known.
  EXPECT_EQ(calls("cuMemcpyHtoDAsync_v2"), uploads + 1);
}

/// Rows of one step that ask for different things.
TEST_F(CudaSamplingTest, ChoosesForSomeRows) {
  TestEngine gpu(model, onGpu([](auto &o) { o.max_sequences = 6; }));
  Tokens tokens = prompt(9, 1);
  k3rt_sampling greedy, warm, penalty;
  for (k3rt_sampling *sampling : {&greedy, &warm, &penalty})
    k3rt_sampling_init(sampling);
  greedy.temperature = 0;
  warm.temperature = 200;
  warm.step = 4;
  penalty.repetition_penalty = 2;
  Tokens banned = {nanToken, failToken};
  const k3rt_choice choices[] = {{&greedy, banned.data(), 2}, {}, {&warm, nullptr, 0}, {&penalty, nullptr, 0},
                                 {&greedy, nullptr, 0}};
  std::vector<k3rt_batch_row> rows;
  std::vector<Oracle> oracles(5);
  std::vector<std::vector<Logits>> wanted;
  for (uint32_t i = 0; i < 5; ++i) {
    rows.push_back({gpu.create(), tokens.data() + i, 4, i == 2 ? 1 : i == 4 ? -1 : 0});
    wanted.push_back(expected(oracles[i], slice(tokens, i, i + 4)));
  }
  k3rt_batch batch = {rows.data(), 5};
  k3rt_step_result result = {};
  const int32_t *chosen = nullptr;
  uint64_t before = fake.downloadedBytes;
  ASSERT_EQ(k3rt_step_choose(gpu.engine, &batch, choices, &result, &chosen), K3RT_OK) << gpu.last();
  ASSERT_EQ(result.num_logit_rows, 1 + 1 + 4 + 1u);
  EXPECT_EQ(fake.downloadedBytes, before + 2 * 64 * sizeof(float) + 7 * sizeof(int32_t));
  auto sample = [&](const Logits &logits, k3rt_sampling sampling, uint64_t ahead) {
    int32_t token = -1;
    sampling.step += ahead;
    EXPECT_EQ(k3rt_sample(gpu.engine, logits.data(), &sampling, &token), K3RT_OK);
    return token;
  };
  Logits allowed = wanted[0].back();
  allowed[nanToken] = allowed[failToken] = -1e30f;
  EXPECT_EQ(chosen[0], sample(allowed, greedy, 0));
  for (uint64_t j = 0; j < 4; ++j)
    EXPECT_EQ(chosen[2 + j], sample(wanted[2][j], warm, j)) << j;
  for (auto [at, row] : {std::pair(1, 1), {6, 3}}) {
    EXPECT_EQ(chosen[at], -1);
    EXPECT_EQ(Logits(result.logits + at * 64, result.logits + (at + 1) * 64), wanted[size_t(row)].back());
  }
}

/// As on the CPU: the message names the logit, and other rows go on.
TEST_F(CudaSamplingTest, LogitsThatAreNotFinite) {
  TestEngine gpu(model, onGpu());
  k3rt_sampling greedy;
  k3rt_sampling_init(&greedy);
  greedy.temperature = 0;
  const k3rt_choice choices[] = {{&greedy, nullptr, 0}, {&greedy, nullptr, 0}};
  Tokens good = {1, 2}, bad = {1, nanToken};
  k3rt_batch_row rows[] = {{gpu.create(), bad.data(), 2, 0}, {gpu.create(), good.data(), 2, 0}};
  k3rt_batch batch = {rows, 2};
  k3rt_step_result result = {};
  const int32_t *chosen = nullptr;
  EXPECT_EQ(k3rt_step_choose(gpu.engine, &batch, choices, &result, &chosen), K3RT_NON_FINITE);
  EXPECT_NE(gpu.last().find("has NaN or infinite logits after the token at position 1 (first: token id 0)"),
            std::string::npos)
      << gpu.last();
  EXPECT_EQ(result.row_status[0], K3RT_NON_FINITE);
  EXPECT_EQ(result.row_status[1], K3RT_OK);
  EXPECT_EQ(chosen[0], -1);
  EXPECT_GE(chosen[1], 0);
}

/// Where nothing can be chosen there are logits, and whoever chooses says so.
TEST_F(CudaSamplingTest, AllTokensBanned) {
  std::vector<std::string> errors;
  for (bool onTheGpu : {false, true}) {
    TestEngine engine(model, onTheGpu ? onGpu() : TestEngine::Change());
    TestScheduler scheduler(engine);
    Ask ask;
    ask.prompt = {1, 2};
    for (int32_t id = 0; id < 64; ++id)
      ask.banned.push_back(id);
    k3rt_request request = scheduler.submit(ask);
    scheduler.runAll();
    EXPECT_EQ(scheduler.answers[request].finish, K3RT_FINISH_FAILED);
    errors.push_back(scheduler.answers[request].error);
  }
  EXPECT_EQ(errors[0], "every token id is banned");
  EXPECT_EQ(errors[1], errors[0]);
}

TEST_F(CudaSamplingTest, RefusesOptionsOutOfRange) {
  TestEngine gpu(model, onGpu());
  k3rt_sampling sampling;
  k3rt_sampling_init(&sampling);
  int32_t token = 1, outside = 64;
  k3rt_batch_row row = {gpu.create(), &token, 1, 0};
  k3rt_batch batch = {&row, 1};
  k3rt_step_result result = {};
  const int32_t *chosen = nullptr;
  k3rt_choice choice = {&sampling, &outside, 1};
  EXPECT_EQ(k3rt_step_choose(gpu.engine, &batch, &choice, &result, &chosen), K3RT_INVALID_ARGUMENT);
  EXPECT_EQ(gpu.last(), "row 0: banned id must be below 64, got 64");
  choice = {&sampling, nullptr, 0};
  sampling.top_p = 2;
  EXPECT_EQ(k3rt_step_choose(gpu.engine, &batch, &choice, &result, &chosen), K3RT_INVALID_ARGUMENT);
  EXPECT_EQ(gpu.last().substr(0, 17), "row 0: top-p must");
  EXPECT_EQ(k3rt_step_choose(gpu.engine, &batch, nullptr, &result, &chosen), K3RT_INVALID_ARGUMENT);
  EXPECT_EQ(gpu.last(), "choices is NULL");
  EXPECT_EQ(gpu.length(row.sequence), 0u) << "nothing changed";
}

} // namespace
