//===- SchedulerTest.cpp - many requests on one engine -------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Runtime/TestScheduler.h"

#include <atomic>
#include <random>
#include <thread>

using namespace toy;

namespace {

class SchedulerTest : public testing::Test {
protected:
  Folder folder;
  std::string model = writeChoosing(folder);
};

//===----------------------------------------------------------------------===//
// Answers
//===----------------------------------------------------------------------===//

// Whatever shares the steps, and however they cut the prompts.
TEST_F(SchedulerTest, AnswersAreThoseOfTheRequestAlone) {
  for (uint32_t budget : {0, 1, 2, 7, 64, 200}) {
    TestEngine engine(model, [](auto &o) {
      o.max_sequences = 5;
      o.max_context = 256;
      o.poison = 1;
    });
    TestScheduler scheduler(engine,
                            [&](auto &o) { o.token_budget = budget; });
    std::mt19937 random(budget);
    std::vector<std::pair<k3rt_request, Tokens>> want;
    for (uint32_t i = 0; i < 30; ++i) {
      Tokens tokens = prompt(1 + random() % 150, i);
      uint64_t most = 1 + random() % 20;
      Ask ask;
      ask.prompt = tokens;
      ask.maxTokens = most;
      want.emplace_back(scheduler.submit(ask), greedyAnswer(tokens, most));
      if (i % 5 == 0)
        scheduler.step();
    }
    scheduler.runAll();
    for (const auto &[request, answer] : want) {
      EXPECT_EQ(scheduler.answers[request].tokens, answer);
      EXPECT_EQ(scheduler.answers[request].finish, K3RT_FINISH_LENGTH);
    }
    EXPECT_EQ(engine.stats().live_sequences, 0u);
    EXPECT_EQ(engine.stats().used_pages, 0u);
  }
}

void expectSamplingPerRequest(uint32_t vocab) {
  Folder folder;
  TestEngine engine(writeChoosing(folder, vocab), [](auto &o) {
    o.max_sequences = 6;
    o.threads = 3;
  });
  TestScheduler scheduler(engine);
  std::vector<Ask> asks;
  std::vector<k3rt_request> requests;
  for (uint32_t i = 0; i < 12; ++i) {
    Ask ask;
    ask.prompt = prompt(3 + i, i);
    ask.maxTokens = 10;
    ask.sampling.temperature = i % 3 == 0 ? 0 : 200.0f + float(i);
    ask.sampling.top_k = i % 4 == 1 ? 5 : 0;
    ask.sampling.top_p = i % 4 == 2 ? 0.7f : 1;
    ask.sampling.repetition_penalty = i % 2 ? 1.5f : 1;
    ask.sampling.seed = 1000 + i % 5;
    asks.push_back(ask);
    requests.push_back(scheduler.submit(ask));
  }
  scheduler.runAll();
  for (size_t i = 0; i < asks.size(); ++i) {
    Oracle oracle(vocab);
    Tokens history = asks[i].prompt, answer;
    Logits logits = expected(oracle, history).back();
    for (uint64_t step = 0; step < 10; ++step) {
      for (int32_t banned : asks[i].banned)
        logits[size_t(banned)] = -1e30f; // out of reach, as if it were banned
      k3rt_sampling sampling = asks[i].sampling;
      sampling.history = history.data();
      sampling.num_history = history.size();
      sampling.step = step;
      int32_t token = -1;
      ASSERT_EQ(k3rt_sample(engine.engine, logits.data(), &sampling, &token),
                K3RT_OK);
      answer.push_back(token);
      history.push_back(token);
      logits = oracle.next(token);
    }
    EXPECT_EQ(scheduler.answers[requests[i]].tokens, answer)
        << "request " << i << ", vocabulary " << vocab;
  }
}

// Every request has its own random stream, penalty and filters; token i is what
// k3rt_sample chooses at step i.
TEST_F(SchedulerTest, SamplingIsPerRequest) { expectSamplingPerRequest(64); }

// With a larger vocabulary all threads choose.
TEST_F(SchedulerTest, ThreadsShareSampling) {
  if (testDevice)
    GTEST_SKIP() << "a GPU chooses by itself, and the toy model's kernel for that, one thread, does not end in 75 s";
  expectSamplingPerRequest(8192);
}

TEST_F(SchedulerTest, Ends) {
  TestEngine engine(model, [](auto &o) { o.max_context = 40; });
  TestScheduler scheduler(engine);
  Tokens tokens = prompt(30, 1), answer = greedyAnswer(tokens, 11);
  Ask ask;
  ask.prompt = tokens;
  k3rt_request context = scheduler.submit(ask); // 10 of the 11 are fed
  ask.maxTokens = 3;
  k3rt_request length = scheduler.submit(ask);
  ask.maxTokens = 0;
  ask.stops = {answer[4]};
  k3rt_request stop = scheduler.submit(ask);
  ask.stops.clear();
  ask.prompt = prompt(40, 2);
  k3rt_request full = scheduler.submit(ask);
  scheduler.runAll();
  EXPECT_EQ(scheduler.answers[context].tokens, answer);
  EXPECT_EQ(scheduler.answers[context].finish, K3RT_FINISH_CONTEXT);
  EXPECT_EQ(scheduler.answers[length].tokens, slice(answer, 0, 3));
  EXPECT_EQ(scheduler.answers[length].finish, K3RT_FINISH_LENGTH);
  auto first = std::find(answer.begin(), answer.end(), answer[4]);
  EXPECT_EQ(scheduler.answers[stop].tokens, Tokens(answer.begin(), first + 1));
  EXPECT_EQ(scheduler.answers[stop].finish, K3RT_FINISH_STOP);
  EXPECT_EQ(scheduler.answers[full].tokens, greedyAnswer(ask.prompt, 1));
  EXPECT_EQ(scheduler.answers[full].finish, K3RT_FINISH_CONTEXT);
  for (const auto &[request, got] : scheduler.answers) {
    EXPECT_EQ(got.last.num_tokens, got.tokens.size());
    EXPECT_GT(got.last.first_token_seconds, 0);
    EXPECT_GE(got.last.first_token_seconds, got.last.start_seconds);
    EXPECT_GE(got.last.seconds, got.last.first_token_seconds);
  }
  EXPECT_EQ(scheduler.answers[context].last.prompt_tokens, 30u);
}

// What was computed before is reused, in any order, and the answers stay.
TEST_F(SchedulerTest, PrefixesAreReused) {
  TestEngine engine(model, [](auto &o) {
    o.max_context = 512;
    o.prefix_cache_bytes = 1 << 20;
    o.poison = 1;
  });
  TestScheduler scheduler(engine, [](auto &o) {
    o.token_budget = 24;
    o.prefix_interval = 16;
  });
  Tokens shared = prompt(75, 1);
  std::map<k3rt_request, Tokens> want;
  for (uint32_t round = 0; round < 3; ++round)
    for (uint32_t i = 0; i < 6; ++i) {
      Ask ask;
      ask.prompt = slice(shared, 0, 75 - 11 * i);
      Tokens own = prompt(20 + i, 100 + i + 10 * (round % 2));
      ask.prompt.insert(ask.prompt.end(), own.begin(), own.end());
      ask.maxTokens = 5;
      want[scheduler.submit(ask)] = greedyAnswer(ask.prompt, 5);
      if (i % 2)
        scheduler.runAll();
    }
  scheduler.runAll();
  uint64_t reused = 0;
  for (const auto &[request, answer] : want) {
    EXPECT_EQ(scheduler.answers[request].tokens, answer);
    reused += scheduler.answers[request].last.reused_tokens;
  }
  k3rt_prefix_stats stats = {};
  stats.size = sizeof(stats);
  ASSERT_EQ(k3rt_prefix_stats_get(engine.engine, &stats), K3RT_OK);
  EXPECT_EQ(stats.reused_tokens, reused);
  EXPECT_GT(reused, 6 * 30u); // the third round knows all of the first
  // A conversation goes on where its last turn ended.
  Ask ask;
  ask.prompt = prompt(7, 500);
  ask.maxTokens = 9;
  k3rt_request first = scheduler.submit(ask);
  scheduler.runAll();
  const Tokens &answer = scheduler.answers[first].tokens;
  ask.prompt.insert(ask.prompt.end(), answer.begin(), answer.end());
  Tokens more = prompt(5, 501);
  ask.prompt.insert(ask.prompt.end(), more.begin(), more.end());
  k3rt_request second = scheduler.submit(ask);
  scheduler.runAll();
  EXPECT_EQ(scheduler.answers[second].last.reused_tokens, 7 + 9 - 1u);
  EXPECT_EQ(scheduler.answers[second].tokens, greedyAnswer(ask.prompt, 9));
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

TEST_F(SchedulerTest, ALongPromptDoesNotStopDecodes) {
  TestEngine engine(model, [](auto &o) { o.max_context = 1024; });
  TestScheduler scheduler(engine, [](auto &o) { o.token_budget = 16; });
  Ask ask;
  ask.prompt = prompt(5, 1);
  ask.maxTokens = 100;
  k3rt_request decoding = scheduler.submit(ask);
  scheduler.step();
  ask.prompt = prompt(300, 2);
  k3rt_request longPrompt = scheduler.submit(ask);
  for (uint64_t i = 1; i <= 20; ++i) {
    k3rt_scheduler_report report = scheduler.step();
    EXPECT_EQ(report.rows, 16u);
    EXPECT_EQ(report.decode_tokens, 1u);
    EXPECT_EQ(scheduler.answers[decoding].tokens.size(), i + 1);
    EXPECT_EQ(scheduler.answers[longPrompt].tokens.empty(), i * 15 < 300);
  }
}

TEST_F(SchedulerTest, PriorityThenArrival) {
  TestEngine engine(model);
  TestScheduler scheduler(engine, [](auto &o) { o.max_running = 1; });
  std::vector<k3rt_request> requests;
  for (int32_t priority : {0, 5, -1, 5, 0}) {
    Ask ask;
    ask.prompt = {1, 2};
    ask.maxTokens = 2;
    ask.priority = priority;
    requests.push_back(scheduler.submit(ask));
  }
  scheduler.runAll();
  EXPECT_EQ(scheduler.order,
            (std::vector<k3rt_request>{requests[1], requests[3], requests[0],
                                       requests[4], requests[2]}));
}

//===----------------------------------------------------------------------===//
// Room
//===----------------------------------------------------------------------===//

// All of a request or nothing: 16 pages of 4 tokens.
TEST_F(SchedulerTest, WhatDoesNotFitWaits) {
  TestEngine engine(model, [](auto &o) {
    o.max_sequences = 4;
    o.max_context = 16;
    o.poison = 1;
  });
  ASSERT_EQ(engine.stats().total_pages, 16u);
  // Others hold 9 of them, and a slot.
  k3rt_sequence other = engine.create();
  engine.feed(other, prompt(9, 1)); // 3 pages
  ASSERT_EQ(k3rt_sequence_reserve(engine.engine, other, 16), K3RT_OK);
  TestScheduler scheduler(engine);
  Ask ask;
  ask.prompt = prompt(10, 2);
  ask.maxTokens = 7; // 16 tokens, 4 pages
  k3rt_request first = scheduler.submit(ask), second = scheduler.submit(ask),
               third = scheduler.submit(ask);
  ask.prompt = {1};
  ask.maxTokens = 1;
  k3rt_request small = scheduler.submit(ask);
  k3rt_scheduler_report report = scheduler.step();
  EXPECT_EQ(report.running, 3u);
  EXPECT_EQ(report.waiting, 1u);
  EXPECT_EQ(scheduler.waitingFor,
            "all 4 state slots are in use (max_sequences)");
  EXPECT_GT(report.waiting_seconds, 0);
  scheduler.runAll();
  for (k3rt_request request : {first, second, third})
    EXPECT_EQ(scheduler.answers[request].tokens,
              greedyAnswer(prompt(10, 2), 7));
  EXPECT_EQ(scheduler.answers[small].tokens, greedyAnswer({1}, 1));
  EXPECT_EQ(engine.stats().used_pages, 3u);
}

TEST_F(SchedulerTest, PagesThatAreReservedStayFree) {
  uint64_t limit = limitFor(model, 4, 64, 10);
  TestEngine engine(model, [&](auto &o) {
    o.max_sequences = 4;
    o.max_context = 64;
    o.memory_limit = limit;
  });
  ASSERT_EQ(engine.stats().total_pages, 10u);
  TestScheduler scheduler(engine);
  Ask ask;
  ask.prompt = prompt(4, 1);
  ask.maxTokens = 21; // 24 tokens, 6 pages
  k3rt_request big = scheduler.submit(ask), next = scheduler.submit(ask);
  ask.prompt = {5};
  ask.maxTokens = 1;
  k3rt_request small = scheduler.submit(ask);
  k3rt_scheduler_report report = scheduler.step();
  // The second needs 6, the third fits but does not overtake it.
  EXPECT_EQ(report.running, 1u);
  EXPECT_EQ(report.waiting, 2u);
  EXPECT_EQ(scheduler.waitingFor, "24 tokens need 6 more cache pages, 10 of 10 "
                                  "are free, 6 of them reserved for sequences");
  // Nor does anyone else get those pages.
  k3rt_sequence other = engine.create();
  EXPECT_EQ(engine.tryStep({{other, prompt(17, 2)}}), K3RT_OUT_OF_MEMORY);
  EXPECT_EQ(engine.last(), "the step needs 5 more cache pages, 9 of 10 are "
                           "free, 5 of them reserved for sequences");
  EXPECT_EQ(k3rt_sequence_reserve(engine.engine, other, 17),
            K3RT_OUT_OF_MEMORY);
  EXPECT_EQ(engine.last(), "17 tokens need 5 more cache pages, 9 of 10 are "
                           "free, 5 of them reserved for sequences");
  Oracle oracle;
  EXPECT_EQ(engine.feed(other, prompt(16, 2)),
            expected(oracle, prompt(16, 2)).back());
  EXPECT_EQ(k3rt_sequence_reserve(engine.engine, other, 65),
            K3RT_INVALID_ARGUMENT);
  while (scheduler.answers[big].finish == K3RT_NOT_FINISHED) {
    EXPECT_TRUE(scheduler.answers[small].tokens.empty());
    scheduler.step();
  }
  report = scheduler.step();
  EXPECT_EQ(report.running + report.waiting, 2u); // 4 pages are `other`'s
  engine.free(other);
  scheduler.runAll();
  EXPECT_EQ(scheduler.answers[next].tokens, greedyAnswer(prompt(4, 1), 21));
  EXPECT_EQ(scheduler.answers[small].tokens, greedyAnswer({5}, 1));
  EXPECT_EQ(scheduler.order,
            (std::vector<k3rt_request>{big, small, next}));
}

TEST_F(SchedulerTest, WhatCanNeverRunIsRefused) {
  uint64_t limit = limitFor(model, 4, 64, 10);
  TestEngine engine(model, [&](auto &o) {
    o.max_context = 64;
    o.memory_limit = limit;
  });
  TestScheduler scheduler(engine, [](auto &o) { o.max_waiting = 2; });
  Ask ask;
  ask.prompt = prompt(65, 1);
  EXPECT_EQ(scheduler.refusal(ask), "the prompt has 65 tokens, the context is "
                                    "64");
  ask.prompt = prompt(30, 1);
  EXPECT_EQ(scheduler.refusal(ask),
            "30 prompt tokens and up to 35 more need 16 cache pages, there are "
            "10: it can never run");
  ask.maxTokens = 12;
  EXPECT_EQ(scheduler.refusal(ask),
            "30 prompt tokens and up to 12 more need 11 cache pages, there are "
            "10: it can never run");
  ask.prompt = {};
  EXPECT_EQ(scheduler.refusal(ask), "the prompt is empty");
  ask.prompt = {1, 64};
  EXPECT_EQ(scheduler.refusal(ask), "token 64 at position 1 is not in [0, 64)");
  ask.prompt = {-1};
  EXPECT_EQ(scheduler.refusal(ask), "token -1 at position 0 is not in [0, 64)");
  ask.prompt = {1};
  ask.sampling.top_p = 2;
  EXPECT_NE(scheduler.refusal(ask).find("top-p"), std::string::npos);
  ask.sampling.top_p = 1;
  ask.banned = {64};
  EXPECT_NE(scheduler.refusal(ask).find("banned id"), std::string::npos);
  ask.banned = {};
  scheduler.submit(ask);
  k3rt_request second = scheduler.submit(ask);
  EXPECT_EQ(scheduler.refusal(ask), "2 requests are waiting (max_waiting)");
  EXPECT_EQ(k3rt_scheduler_cancel(scheduler.scheduler, second), K3RT_OK);
  scheduler.step();
  scheduler.submit(ask);
  scheduler.runAll();
}

//===----------------------------------------------------------------------===//
// Cancelling and failing
//===----------------------------------------------------------------------===//

// Requests are dropped while queued, in their prompt, while generating; slots
// and pages come back every time, and the others do not notice.
TEST_F(SchedulerTest, CancelledAtAnyStageNothingLeaks) {
  TestEngine engine(model, [](auto &o) {
    o.max_context = 128;
    o.poison = 1;
  });
  TestScheduler scheduler(engine, [](auto &o) { o.token_budget = 24; });
  std::mt19937 random(4);
  struct Live {
    Tokens prompt;
    uint64_t maxTokens;
    int stepsLeft;
  };
  std::map<k3rt_request, Live> live;
  uint32_t submitted = 0, cancelled = 0, compared = 0;
  while (submitted < 10000 || !live.empty()) {
    while (submitted < 10000 && live.size() < 8) {
      Ask ask;
      ask.prompt = prompt(1 + random() % 60, submitted++);
      ask.maxTokens = 1 + random() % 6;
      int steps = random() % 4 == 0 ? 1000 : int(random() % 6);
      live[scheduler.submit(ask)] = {ask.prompt, ask.maxTokens, steps};
    }
    for (auto &[request, one] : live)
      if (one.stepsLeft-- == 0) {
        EXPECT_EQ(k3rt_scheduler_cancel(scheduler.scheduler, request), K3RT_OK);
        EXPECT_EQ(k3rt_scheduler_cancel(scheduler.scheduler, request), K3RT_OK);
      }
    scheduler.step();
    for (auto one = live.begin(); one != live.end();) {
      const Answer &answer = scheduler.answers[one->first];
      if (answer.finish == K3RT_NOT_FINISHED) {
        ++one;
        continue;
      }
      cancelled += answer.finish == K3RT_FINISH_CANCELLED;
      if (answer.finish == K3RT_FINISH_LENGTH && compared++ % 16 == 0) {
        ASSERT_EQ(answer.tokens,
                  greedyAnswer(one->second.prompt, one->second.maxTokens));
      }
      EXPECT_EQ(k3rt_scheduler_cancel(scheduler.scheduler, one->first),
                K3RT_INVALID_ARGUMENT);
      scheduler.answers.erase(one->first);
      one = live.erase(one);
    }
  }
  EXPECT_GT(cancelled, 3000u);
  EXPECT_GT(compared, 1000u);
  EXPECT_EQ(engine.stats().live_sequences, 0u);
  EXPECT_EQ(engine.stats().used_pages, 0u);
}

TEST_F(SchedulerTest, FailuresStayWithTheirRequest) {
  if (testDevice)
    GTEST_SKIP() << "a kernel that fails takes the GPU's context with it: CudaFaultsTest has what comes of that";
  TestEngine engine(model);
  TestScheduler scheduler(engine, [](auto &o) { o.token_budget = 8; });
  Ask ask;
  ask.maxTokens = 6;
  ask.prompt = prompt(3, 1);
  k3rt_request before = scheduler.submit(ask);
  ask.prompt = {5, nanToken, 6};
  k3rt_request sick = scheduler.submit(ask);
  ask.prompt = prompt(4, 2);
  k3rt_request after = scheduler.submit(ask);
  scheduler.runAll();
  EXPECT_EQ(scheduler.answers[sick].finish, K3RT_FINISH_FAILED);
  EXPECT_NE(scheduler.answers[sick].error.find("NaN or infinite"),
            std::string::npos)
      << scheduler.answers[sick].error;
  EXPECT_TRUE(scheduler.answers[sick].tokens.empty());
  EXPECT_EQ(scheduler.answers[before].tokens, greedyAnswer(prompt(3, 1), 6));
  EXPECT_EQ(scheduler.answers[after].tokens, greedyAnswer(prompt(4, 2), 6));

  // A kernel that fails takes along what shares the step, and no one else.
  ask.prompt = prompt(3, 1);
  k3rt_request beside = scheduler.submit(ask);
  ask.prompt = {failToken};
  k3rt_request failing = scheduler.submit(ask);
  scheduler.step();
  for (k3rt_request request : {beside, failing}) {
    EXPECT_EQ(scheduler.answers[request].finish, K3RT_FINISH_FAILED);
    EXPECT_NE(scheduler.answers[request].error.find("failed with code 7"),
              std::string::npos);
  }
  ask.prompt = prompt(4, 2);
  k3rt_request later = scheduler.submit(ask);
  scheduler.runAll();
  EXPECT_EQ(scheduler.answers[later].tokens, greedyAnswer(prompt(4, 2), 6));
  EXPECT_EQ(engine.stats().live_sequences, 0u);
}

TEST_F(SchedulerTest, NoTokenIsLeftToChoose) {
  TestEngine engine(model);
  TestScheduler scheduler(engine);
  Ask ask;
  ask.prompt = {1};
  ask.banned.clear();
  for (int32_t id = 0; id < 64; ++id)
    ask.banned.push_back(id);
  k3rt_request request = scheduler.submit(ask);
  scheduler.runAll();
  EXPECT_EQ(scheduler.answers[request].error, "every token id is banned");
}

//===----------------------------------------------------------------------===//
// The interface
//===----------------------------------------------------------------------===//

TEST_F(SchedulerTest, EventsCanBePolled) {
  TestEngine engine(model);
  k3rt_scheduler *scheduler = nullptr;
  ASSERT_EQ(k3rt_scheduler_create(engine.engine, nullptr, &scheduler), K3RT_OK);
  Tokens tokens = {3, nanToken};
  k3rt_request_options options;
  k3rt_request_options_init(&options);
  options.prompt = tokens.data();
  options.num_prompt = 1;
  options.max_tokens = 2;
  options.sampling = nullptr;
  k3rt_request well = 0, sick = 0;
  char error[64] = "x";
  ASSERT_EQ(k3rt_scheduler_submit(scheduler, &options, &well, error, 64),
            K3RT_OK);
  EXPECT_STREQ(error, "");
  options.num_prompt = 2;
  ASSERT_EQ(k3rt_scheduler_submit(scheduler, &options, &sick, error, 64),
            K3RT_OK);
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(k3rt_scheduler_step(scheduler, nullptr), K3RT_OK);
  std::vector<std::string> seen;
  for (;;) {
    k3rt_request_event event;
    event.size = sizeof(event);
    ASSERT_EQ(k3rt_scheduler_poll(scheduler, &event), K3RT_OK);
    if (event.request == 0)
      break;
    seen.push_back(std::to_string(event.request - well) + " " +
                   (event.token >= 0 ? "token " : "") +
                   std::to_string(event.finish) + (event.error ? " error" : ""));
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"0 token 0", "1 5 error",
                                            "0 token 2"}));
  // Arguments.
  EXPECT_EQ(k3rt_scheduler_submit(scheduler, nullptr, &well, error, 64),
            K3RT_INVALID_ARGUMENT);
  EXPECT_STREQ(error, "the prompt is empty");
  options.stop_ids = nullptr;
  options.num_stop_ids = 1;
  EXPECT_EQ(k3rt_scheduler_submit(scheduler, &options, &well, error, 64),
            K3RT_INVALID_ARGUMENT);
  EXPECT_STREQ(error, "stop_ids is NULL");
  EXPECT_EQ(k3rt_scheduler_submit(scheduler, &options, nullptr, error, 64),
            K3RT_INVALID_ARGUMENT);
  EXPECT_EQ(k3rt_scheduler_poll(scheduler, nullptr), K3RT_INVALID_ARGUMENT);
  EXPECT_EQ(k3rt_scheduler_step(nullptr, nullptr), K3RT_INVALID_ARGUMENT);
  EXPECT_EQ(k3rt_scheduler_cancel(nullptr, 1), K3RT_INVALID_ARGUMENT);
  EXPECT_EQ(k3rt_scheduler_cancel(scheduler, 0), K3RT_INVALID_ARGUMENT);
  EXPECT_EQ(k3rt_scheduler_create(nullptr, nullptr, &scheduler),
            K3RT_INVALID_ARGUMENT);
  EXPECT_EQ(k3rt_scheduler_create(engine.engine, nullptr, nullptr),
            K3RT_INVALID_ARGUMENT);
  k3rt_scheduler_free(scheduler);
  k3rt_scheduler_free(nullptr);
}

TEST_F(SchedulerTest, FreeingASchedulerFreesItsSequences) {
  TestEngine engine(model);
  {
    TestScheduler scheduler(engine);
    Ask ask;
    ask.prompt = prompt(20, 1);
    for (int i = 0; i < 6; ++i)
      scheduler.submit(ask);
    scheduler.step();
    EXPECT_EQ(engine.stats().live_sequences, 4u);
  }
  EXPECT_EQ(engine.stats().live_sequences, 0u);
  EXPECT_EQ(engine.stats().used_pages, 0u);
}

// Requests are submitted and cancelled by other threads while steps run.
TEST_F(SchedulerTest, OtherThreadsSubmitAndCancel) {
  TestEngine engine(model);
  TestScheduler scheduler(engine);
  constexpr uint32_t perThread = 200;
  std::atomic<uint32_t> working{3};
  std::vector<std::thread> threads;
  std::vector<std::vector<std::pair<k3rt_request, uint32_t>>> own(3);
  for (uint32_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (uint32_t i = 0; i < perThread; ++i) {
        Ask ask;
        ask.prompt = prompt(1 + i % 9, t * perThread + i);
        ask.maxTokens = 3;
        k3rt_request request = scheduler.submit(ask);
        own[t].emplace_back(request, t * perThread + i);
        if (random() % 3 == 0)
          k3rt_scheduler_cancel(scheduler.scheduler, request);
      }
      --working;
    });
  while (working != 0)
    scheduler.step();
  for (std::thread &thread : threads)
    thread.join();
  scheduler.runAll();
  uint32_t ended = 0;
  for (const auto &requests : own)
    for (auto [request, seed] : requests) {
      const Answer &answer = scheduler.answers[request];
      if (answer.finish == K3RT_FINISH_CANCELLED)
        continue;
      ++ended;
      EXPECT_EQ(answer.tokens, greedyAnswer(prompt(1 + seed % perThread % 9,
                                                   seed),
                                            3));
    }
  EXPECT_GE(ended, perThread);
}

} // namespace
