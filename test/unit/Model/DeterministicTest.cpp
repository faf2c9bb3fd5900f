//===- DeterministicTest.cpp - the same bits, whatever happens beside -----===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Model/CompiledModel.h"

#include <map>
#include <random>

using namespace k3::test;

namespace {

/// States and logits, bit by bit. Poison would be seen as NaN, which equals nothing.
using Bits = std::vector<float>;

class Deterministic : public ::testing::TestWithParam<const char *> {
protected:
  Tokens tokens = goldenPrompt(GetParam(), "p200");

  static void options(k3rt_engine_options &o) {
    o.deterministic = 1;
    o.max_sequences = 6;
    o.max_context = 512;
  }
  std::string artifact() { return Artifacts::path(GetParam(), "--deterministic"); }
  Tokens slice(std::size_t from, std::size_t to) { return Tokens(tokens.begin() + from, tokens.begin() + to); }

  /// Logits after tokens[0 .. length) fed in one step, for every length that a test asks for, and all states then.
  const std::pair<Bits, Bits> &alone(std::size_t length) {
    auto [found, isNew] = known.try_emplace(length);
    if (isNew) {
      Engine engine(artifact(), options);
      k3rt_sequence sequence = engine.create();
      found->second.first = engine.step({{sequence, slice(0, length)}})[0];
      found->second.second = engine.state(sequence);
    }
    return found->second;
  }
  std::map<std::size_t, std::pair<Bits, Bits>> known;
};

TEST_P(Deterministic, WindowsAndThreads) {
  for (std::uint32_t threads : {1u, 2u, 3u})
    for (std::uint32_t window : {0u, 1u, 5u, 16u, 37u, 64u}) {
      Engine engine(artifact(), [&](auto &o) {
        options(o);
        o.threads = threads;
        o.prefill_window = window;
      });
      k3rt_sequence sequence = engine.create();
      EXPECT_TRUE(engine.step({{sequence, tokens}})[0] == alone(tokens.size()).first)
          << threads << " threads, windows of " << window;
      EXPECT_TRUE(engine.state(sequence) == alone(tokens.size()).second)
          << threads << " threads, windows of " << window;
    }
}

TEST_P(Deterministic, StepsCutAnywhere) {
  Engine engine(artifact(), options);
  std::mt19937 random(1);
  for (int round = 0; round < 8; ++round) {
    k3rt_sequence sequence = engine.create();
    std::size_t at = 0;
    while (at < 100) {
      // Round 0 goes token by token, which is how an answer is made.
      std::size_t count = round == 0 ? 1 : std::min<std::size_t>(1 + random() % (round * 8), 100 - at);
      Bits logits = engine.step({{sequence, slice(at, at + count)}})[0];
      at += count;
      if (at % 7 == 0 || at == 100) {
        ASSERT_TRUE(logits == alone(at).first) << "round " << round << ", after " << at;
      }
    }
    EXPECT_TRUE(engine.state(sequence) == alone(100).second) << "round " << round;
    engine.free(sequence);
  }
}

// Five others come and go with steps of any length, at any place in the batch.
TEST_P(Deterministic, OthersInTheBatch) {
  Engine engine(artifact(), options);
  std::mt19937 random(2);
  k3rt_sequence sequence = engine.create();
  std::vector<k3rt_sequence> others;
  std::vector<std::size_t> lengths;
  for (std::size_t at = 0; at < tokens.size();) {
    if (others.size() < 5) {
      others.push_back(engine.create());
      lengths.push_back(0);
    }
    std::size_t count = std::min<std::size_t>(random() % 3 ? 1 : 1 + random() % 40, tokens.size() - at);
    std::vector<std::pair<k3rt_sequence, Tokens>> rows;
    std::size_t place = random() % (others.size() + 1), own = 0;
    for (std::size_t i = 0; i <= others.size(); ++i) {
      if (i == place) {
        own = rows.size();
        rows.emplace_back(sequence, slice(at, at + count));
      }
      if (i == others.size() || random() % 4 == 0)
        continue;
      std::size_t more = random() % 2 ? 1 : random() % 30;
      Tokens text;
      for (std::size_t t = 0; t < more; ++t)
        text.push_back(std::int32_t(random() % 4000));
      lengths[i] += more;
      rows.emplace_back(others[i], text);
    }
    Bits logits = engine.step(rows)[own];
    at += count;
    if (random() % 5 == 0 || at == tokens.size()) {
      ASSERT_TRUE(logits == alone(at).first) << "after " << at;
    }
    for (std::size_t i = others.size(); i-- > 0;)
      if (lengths[i] > 200 || random() % 10 == 0) {
        engine.free(others[i]);
        others.erase(others.begin() + i);
        lengths.erase(lengths.begin() + i);
      }
  }
  EXPECT_TRUE(engine.state(sequence) == alone(tokens.size()).second);
}

// Prefixes of any length, kept and reused in any order.
TEST_P(Deterministic, ReusedPrefixes) {
  Engine engine(artifact(), [](auto &o) {
    options(o);
    o.prefix_cache_bytes = 64 << 20;
  });
  std::mt19937 random(3);
  std::uint64_t reusedTokens = 0;
  for (int round = 0; round < 25; ++round) {
    k3rt_sequence sequence = engine.create();
    std::size_t length = 2 + random() % 150;
    std::uint64_t reused = 0;
    ASSERT_EQ(k3rt_prefix_attach(engine.engine, sequence, tokens.data(), length, &reused), K3RT_OK);
    reusedTokens += reused;
    ASSERT_TRUE(engine.step({{sequence, slice(reused, length)}})[0] == alone(length).first)
        << reused << " of " << length;
    ASSERT_TRUE(engine.state(sequence) == alone(length).second) << reused << " of " << length;
    ASSERT_EQ(k3rt_prefix_store(engine.engine, sequence), K3RT_OK);
    engine.free(sequence);
  }
  EXPECT_GT(reusedTokens, 1000u);
}

/// What a scheduler answered.
struct Answers {
  std::map<k3rt_request, Tokens> tokens;
  std::uint64_t accepted = 0;
};

struct Asked {
  Tokens prompt;
  std::uint64_t seed;
  float temperature;
  std::uint32_t drafts;
  /// What is drafted from, with every fifth token wrong; empty: what the prompt says.
  Tokens hint = {};
};

uint32_t draftFromHint(void *user, const int32_t *, uint64_t count, int32_t *out, uint32_t most) {
  const auto &asked = *static_cast<const Asked *>(user);
  uint32_t made = 0;
  for (std::size_t at = count - asked.prompt.size(); made < most && at < asked.hint.size(); ++at)
    out[made++] = asked.hint[at] + (at % 5 == 4);
  return made;
}

/// The answers to all requests, `together` of them at a time.
std::vector<Tokens> answer(Engine &engine, const std::vector<Asked> &asked, std::uint32_t budget,
                           std::uint32_t together, std::uint64_t *accepted = nullptr) {
  Answers answers;
  k3rt_scheduler_options options;
  k3rt_scheduler_options_init(&options);
  options.token_budget = budget;
  options.max_running = together;
  options.prefix_interval = 16;
  options.user = &answers;
  options.on_event = [](void *user, const k3rt_request_event *event) {
    auto *all = static_cast<Answers *>(user);
    if (event->token >= 0)
      all->tokens[event->request].push_back(event->token);
    EXPECT_NE(event->finish, K3RT_FINISH_FAILED) << event->error;
    if (event->finish)
      all->accepted += event->accepted_tokens;
  };
  k3rt_scheduler *scheduler = nullptr;
  EXPECT_EQ(k3rt_scheduler_create(engine.engine, &options, &scheduler), K3RT_OK);
  std::vector<k3rt_request> requests;
  for (const Asked &one : asked) {
    k3rt_sampling sampling;
    k3rt_sampling_init(&sampling);
    sampling.seed = one.seed;
    sampling.temperature = one.temperature;
    k3rt_request_options request;
    k3rt_request_options_init(&request);
    request.prompt = one.prompt.data();
    request.num_prompt = one.prompt.size();
    request.max_tokens = 24;
    request.sampling = &sampling;
    request.max_draft = one.drafts;
    if (!one.hint.empty()) {
      request.draft = draftFromHint;
      request.draft_user = const_cast<Asked *>(&one);
    }
    char error[256] = "";
    requests.emplace_back();
    EXPECT_EQ(k3rt_scheduler_submit(scheduler, &request, &requests.back(), error, sizeof error), K3RT_OK) << error;
  }
  k3rt_scheduler_report report{};
  report.size = sizeof report;
  do {
    EXPECT_EQ(k3rt_scheduler_step(scheduler, &report), K3RT_OK);
  } while (report.running + report.waiting != 0);
  k3rt_scheduler_free(scheduler);
  if (accepted)
    *accepted += answers.accepted;
  std::vector<Tokens> out;
  for (k3rt_request request : requests)
    out.push_back(answers.tokens[request]);
  return out;
}

// The same tokens alone and among others, with prefixes reused and drafts checked.
TEST_P(Deterministic, Requests) {
  std::vector<Asked> asked;
  for (std::uint32_t i = 0; i < 14; ++i) {
    Tokens prompt = slice(i % 3 * 5, 30 + i * 9);
    if (i % 2) { // something to draft from
      Tokens again = prompt;
      prompt.insert(prompt.end(), again.begin(), again.end());
    }
    asked.push_back({prompt, i, i % 3 ? 0.7f : 0, i % 4 ? 4u : 0u});
  }
  std::vector<Tokens> want;
  for (Asked one : asked) {
    one.drafts = 0;
    Engine engine(artifact(), [](auto &o) {
      options(o);
      o.threads = 1;
    });
    want.push_back(answer(engine, {one}, 0, 1)[0]);
  }
  for (std::size_t i = 0; i < asked.size(); i += 3)
    asked[i].hint = want[i];
  std::uint64_t accepted = 0;
  for (std::uint32_t budget : {0u, 6u, 50u}) {
    Engine engine(artifact(), [](auto &o) {
      options(o);
      o.prefix_cache_bytes = 64 << 20;
    });
    // Three of the six slots are for the marks of those that draft.
    std::vector<Tokens> got = answer(engine, asked, budget, 3, &accepted);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      EXPECT_TRUE(got[i] == want[i]) << "request " << i << ", budget " << budget;
    }
  }
  EXPECT_GT(accepted, 0u);
}

TEST_P(Deterministic, IsRefusedWithoutItsCode) {
  k3rt_engine_options options;
  k3rt_engine_options_init(&options);
  options.deterministic = 1;
  k3rt_engine *engine = nullptr;
  char message[512] = "";
  EXPECT_EQ(k3rt_engine_open(Artifacts::path(GetParam()).c_str(), 0, &options, &engine, message, sizeof message),
            K3RT_UNSUPPORTED);
  EXPECT_NE(std::string(message).find("not made for deterministic runs: compile it with --deterministic"),
            std::string::npos)
      << message;
}

INSTANTIATE_TEST_SUITE_P(Models, Deterministic, ::testing::Values("k3-nano", "kimi-linear-nano"),
                         [](const auto &info) { return std::string(info.param) == "k3-nano" ? "K3" : "KimiLinear"; });

} // namespace
