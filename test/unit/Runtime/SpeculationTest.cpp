//===- SpeculationTest.cpp - drafts change speed, not answers ------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Runtime/TestScheduler.h"

#include <cmath>
#include <random>

using namespace toy;

namespace {

class SpeculationTest : public testing::Test {
protected:
  Folder folder;
  std::string model = writeChoosing(folder);

  /// What the request answers, and with what effort.
  Answer answerTo(const Ask &ask, uint64_t *steps = nullptr) {
    TestEngine engine(model, [](auto &o) {
      o.max_context = 256;
      o.poison = 1;
    });
    TestScheduler scheduler(engine);
    k3rt_request request = scheduler.submit(ask);
    scheduler.runAll();
    if (steps)
      *steps = engine.stats().steps;
    EXPECT_EQ(engine.stats().used_pages, 0u);
    EXPECT_EQ(engine.stats().live_sequences, 0u);
    return scheduler.answers[request];
  }
};

/// Drafts from a script of the whole text, of which every `wrongEach`-th token
/// is wrong.
struct Script {
  Tokens text;
  size_t wrongEach = 0;
  int32_t wrong = -1; ///< -1: another token
  uint64_t calls = 0;

  static uint32_t draft(void *user, const int32_t *tokens, uint64_t count,
                        int32_t *out, uint32_t most) {
    auto &script = *static_cast<Script *>(user);
    ++script.calls;
    EXPECT_LE(count, script.text.size());
    EXPECT_TRUE(std::equal(tokens, tokens + count, script.text.begin()));
    uint32_t drafted = 0;
    for (size_t i = count; i < script.text.size() && drafted < most; ++i) {
      int32_t token = script.text[i];
      if (script.wrongEach && i % script.wrongEach == 0)
        token = script.wrong >= 0 ? script.wrong : (token + 1) % 60;
      out[drafted++] = token;
    }
    return drafted;
  }
};

Ask question(uint32_t seed, uint64_t most) {
  Ask ask;
  ask.prompt = prompt(9, seed);
  ask.maxTokens = most;
  return ask;
}

// Right and wrong guesses at every distance, drafts of every length.
TEST_F(SpeculationTest, GreedyAnswersAreTheSame) {
  Ask plain = question(1, 40);
  uint64_t plainSteps = 0;
  Answer want = answerTo(plain, &plainSteps);
  ASSERT_EQ(want.tokens, greedyAnswer(plain.prompt, 40));
  for (uint32_t most : {1, 2, 3, 5, 8, 60})
    for (size_t wrongEach : {0, 1, 2, 3, 7}) {
      Script script{plain.prompt, wrongEach};
      script.text.insert(script.text.end(), want.tokens.begin(),
                         want.tokens.end());
      Ask ask = plain;
      ask.maxDraft = most;
      ask.draft = Script::draft;
      ask.draftUser = &script;
      uint64_t steps = 0;
      Answer got = answerTo(ask, &steps);
      EXPECT_EQ(got.tokens, want.tokens) << most << " " << wrongEach;
      EXPECT_EQ(got.finish, want.finish);
      EXPECT_GT(script.calls, 0u);
      EXPECT_GT(got.last.drafted_tokens, 0u);
      if (wrongEach == 1)
        EXPECT_EQ(got.last.accepted_tokens, 0u);
      if (wrongEach == 0) {
        EXPECT_EQ(got.last.accepted_tokens, got.last.drafted_tokens);
        EXPECT_LE(steps, 2 + 39 / (most + 1) + 1);
        EXPECT_LT(steps, plainSteps);
      }
    }
}

// The random numbers are used as they would have been.
TEST_F(SpeculationTest, SampledAnswersAreTheSame) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Ask plain = question(uint32_t(seed), 30);
    plain.sampling.temperature = 150;
    plain.sampling.top_k = seed % 3 == 0 ? 4 : 0;
    plain.sampling.repetition_penalty = seed % 4 == 0 ? 1.3f : 1;
    plain.sampling.seed = seed;
    Answer want = answerTo(plain);
    Script script{plain.prompt, 3};
    script.text.insert(script.text.end(), want.tokens.begin(),
                       want.tokens.end());
    Ask scripted = plain, ngrams = plain;
    scripted.maxDraft = 4;
    scripted.draft = Script::draft;
    scripted.draftUser = &script;
    ngrams.maxDraft = 6;
    EXPECT_EQ(answerTo(scripted).tokens, want.tokens);
    EXPECT_EQ(answerTo(ngrams).tokens, want.tokens);
  }
}

// Drafts of one fixed token, whose probability the model knows: accepted that
// often, and all tokens come as often as they should.
TEST_F(SpeculationTest, TheDistributionIsTheModels) {
  Ask ask;
  ask.prompt = prompt(6, 2);
  ask.maxTokens = 3;
  ask.sampling.temperature = 400;
  ask.sampling.top_k = 3;
  ask.maxDraft = 1;
  // The likeliest second tokens after the likeliest first one.
  Oracle oracle;
  int32_t first = greedyAnswer(ask.prompt, 1)[0];
  expected(oracle, ask.prompt);
  Logits logits = oracle.next(first);
  int32_t guess = greedyAnswer(ask.prompt, 2)[1];
  ask.draft = [](void *user, const int32_t *, uint64_t, int32_t *out,
                 uint32_t most) {
    *out = *static_cast<int32_t *>(user);
    return most ? 1u : 0u;
  };
  ask.draftUser = &guess;
  std::vector<std::pair<float, int32_t>> order;
  for (int32_t id = 0; id < nanToken; ++id)
    order.emplace_back(-logits[size_t(id)], id);
  std::sort(order.begin(), order.end());
  double weights[3], total = 0;
  for (int i = 0; i < 3; ++i)
    total += weights[i] = std::exp(-(order[size_t(i)].first - order[0].first) /
                                   400);
  TestEngine engine(model);
  TestScheduler scheduler(engine);
  double trials = 0, counts[3] = {}, accepted = 0;
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    ask.sampling.seed = seed;
    k3rt_request request = scheduler.submit(ask);
    scheduler.runAll();
    const Answer &answer = scheduler.answers[request];
    ASSERT_EQ(answer.tokens.size(), 3u);
    if (answer.tokens[0] != first)
      continue;
    ++trials;
    accepted += answer.tokens[1] == guess &&
                answer.last.accepted_tokens != 0;
    for (int i = 0; i < 3; ++i)
      counts[i] += answer.tokens[1] == order[size_t(i)].second;
  }
  ASSERT_GT(trials, 1000);
  // Five standard deviations.
  for (int i = 0; i < 3; ++i) {
    double p = weights[i] / total;
    EXPECT_NEAR(counts[i] / trials, p, 5 * std::sqrt(p * (1 - p) / trials));
  }
  EXPECT_EQ(order[0].second, guess);
  EXPECT_EQ(accepted, counts[0]);
}

// Many at once, with too few slots for all marks, little room in steps, and
// kept prefixes.
TEST_F(SpeculationTest, TogetherWithEverythingElse) {
  for (uint32_t budget : {5, 8, 64}) {
    TestEngine engine(model, [](auto &o) {
      o.max_sequences = 5;
      o.max_context = 128;
      o.poison = 1;
      o.prefix_cache_bytes = 1 << 14;
    });
    TestScheduler scheduler(engine, [&](auto &o) {
      o.token_budget = budget;
      o.max_running = 3;
    });
    std::mt19937 random(budget);
    std::vector<Script> scripts(40);
    std::vector<std::pair<k3rt_request, Tokens>> want;
    for (uint32_t i = 0; i < scripts.size(); ++i) {
      Ask ask = question(i % 6, 1 + random() % 30);
      Tokens answer = greedyAnswer(ask.prompt, ask.maxTokens);
      scripts[i] = {ask.prompt, 1 + random() % 6};
      scripts[i].text.insert(scripts[i].text.end(), answer.begin(),
                             answer.end());
      ask.maxDraft = random() % 5;
      if (random() % 2) {
        ask.draft = Script::draft;
        ask.draftUser = &scripts[i];
      }
      want.emplace_back(scheduler.submit(ask), answer);
      for (uint32_t steps = random() % 4; steps != 0; --steps)
        scheduler.step();
    }
    scheduler.runAll();
    uint64_t accepted = 0;
    for (const auto &[request, answer] : want) {
      EXPECT_EQ(scheduler.answers[request].tokens, answer);
      accepted += scheduler.answers[request].last.accepted_tokens;
    }
    EXPECT_GT(accepted, 20u);
    EXPECT_EQ(engine.stats().live_sequences, 0u);
    // All slots are free again.
    for (int i = 0; i < 5; ++i)
      engine.create();
  }
}

// A guess that makes the model fail is only a wrong guess. Ids that the model
// does not have are not even that.
TEST_F(SpeculationTest, BadGuessesDoNoHarm) {
  Ask plain = question(3, 25);
  Answer want = answerTo(plain);
  for (int32_t wrong : {nanToken, 1000}) {
    Script script{plain.prompt, 4, wrong};
    script.text.insert(script.text.end(), want.tokens.begin(),
                       want.tokens.end());
    Ask ask = plain;
    ask.maxDraft = 3;
    ask.draft = Script::draft;
    ask.draftUser = &script;
    Answer got = answerTo(ask);
    EXPECT_EQ(got.tokens, want.tokens) << got.error;
    EXPECT_EQ(got.finish, K3RT_FINISH_LENGTH);
  }
}

// A stop token inside a draft ends the answer there.
TEST_F(SpeculationTest, StopsInsideADraft) {
  Ask plain = question(4, 40);
  plain.stops = {greedyAnswer(plain.prompt, 40)[11]};
  Answer want = answerTo(plain);
  ASSERT_EQ(want.finish, K3RT_FINISH_STOP);
  Script script{plain.prompt, 0};
  Tokens text = greedyAnswer(plain.prompt, 40);
  script.text.insert(script.text.end(), text.begin(), text.end());
  Ask ask = plain;
  ask.maxDraft = 30;
  ask.draft = Script::draft;
  ask.draftUser = &script;
  Answer got = answerTo(ask);
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.finish, K3RT_FINISH_STOP);
}

} // namespace
