//===- CommandsTest.cpp - what the commands of k3-run do ----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/K3Run/MockRuntime.h"

#include "k3rt/abi.h"
#include "test/unit/Text/TestTokenizer.h"
#include "tools/runtime/k3-run/Commands.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

using namespace k3run;
using namespace k3run::test;

namespace {
using Ids = std::vector<int32_t>;

Ids ids(const std::string &text,
        k3rt::AllowSpecial allow = k3rt::AllowSpecial::no) {
  return k3rt::test::encode(k3rt::test::modelTokenizer("k3-nano"), text, allow);
}
Ids specials(const std::string &text) {
  return ids(text, k3rt::AllowSpecial::yes);
}
Ids join(Ids a, const Ids &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class K3Run : public ::testing::Test {
protected:
  void SetUp() override { resetMock(); }

  nlohmann::json runJson(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    RunResult result = run(arguments);
    EXPECT_EQ(result.exitCode, 0) << result.err;
    EXPECT_EQ(result.err, "");
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1);
    return nlohmann::json::parse(result.out, nullptr, false);
  }
  std::string runError(const std::vector<std::string> &arguments,
                       const std::string &input = "") {
    RunResult result = run(arguments, input);
    EXPECT_EQ(result.exitCode, 1);
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1)
        << result.err;
    EXPECT_EQ(result.err.substr(0, 8), "k3-run: ");
    return result.err.substr(8, result.err.size() - 9);
  }
};

TEST_F(K3Run, ContinuesAPrompt) {
  script(ids(" time, in a land 汉."));
  RunResult result = run({"m.k3a", "Once upon a"});
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_EQ(result.out, " time, in a land 汉.\n");
  EXPECT_NE(result.err.find("ended by stop"), std::string::npos);
  EXPECT_EQ(mock().steps[0], join({4096}, ids("Once upon a")));
  EXPECT_EQ(mock().steps[1], Ids{ids(" time, in a land 汉.")[0]});
  // The end token is not fed.
  EXPECT_EQ(mock().steps.size(), 1 + ids(" time, in a land 汉.").size());
}

TEST_F(K3Run, JsonHasTheContractedKeys) {
  script(ids(" time."));
  nlohmann::json json = runJson({"m.k3a", "--prompt", "Once upon a"});
  EXPECT_EQ(json["text"], " time.");
  EXPECT_EQ(json["tokens"].get<Ids>(), join(ids(" time."), {4097}));
  EXPECT_EQ(json["finish_reason"], "stop");
  EXPECT_GT(json["first_token_ms"], 0.0);
  EXPECT_TRUE(json["decode_tokens_per_s"].is_number());
  EXPECT_GT(json["peak_rss_bytes"], 1000000u);
  EXPECT_EQ(json["device"], "cpu");
  EXPECT_FALSE(json.contains("products"));
}

TEST_F(K3Run, SaysWhoDoesProductsOnAGpu) {
  script(ids(" time."));
  mock().products = "own kernels";
  nlohmann::json json = runJson({"m.k3a", "--prompt", "Once upon a", "--device", "cuda:0"});
  EXPECT_EQ(json["device"], "cuda:0");
  EXPECT_EQ(json["products"], "own kernels");
}

// T05: the limit gives "length", the end token "stop", unless it is ignored.
TEST_F(K3Run, EndsAtTheLimitAndAtEndTokens) {
  script({65, 66, 67, 68});
  nlohmann::json json = runJson({"m.k3a", "x", "--max-tokens", "2"});
  EXPECT_EQ(json["finish_reason"], "length");
  EXPECT_EQ(json["tokens"].size(), 2u);
  EXPECT_EQ(mock().steps.size(), 2u) << "the last token needs no step";
  for (int32_t end : {4097, 4098}) {
    script({65, 66}, end);
    json = runJson({"m.k3a", "x"});
    EXPECT_EQ(json["finish_reason"], "stop");
    EXPECT_EQ(json["tokens"].get<Ids>(), (Ids{65, 66, end}));
  }
  script({65, 66});
  json = runJson({"m.k3a", "x", "--ignore-eos", "--max-tokens=10"});
  EXPECT_EQ(json["finish_reason"], "length");
  EXPECT_EQ(json["tokens"].size(), 10u);
}

TEST_F(K3Run, StopStringsAndIds) {
  script(ids("One two three four"));
  nlohmann::json json = runJson({"m.k3a", "x", "--stop", " thr"});
  EXPECT_EQ(json["text"], "One two");
  EXPECT_EQ(json["finish_reason"], "stop");
  script(ids("One two th"));
  json = runJson({"m.k3a", "x", "--stop", " three"});
  EXPECT_EQ(json["text"], "One two th") << "held text comes out at the end";
  int32_t two = ids("One two")[ids("One two").size() - 1];
  script(ids("One two three"));
  json = runJson({"m.k3a", "x", "--stop-id", std::to_string(two)});
  EXPECT_EQ(json["tokens"].get<Ids>().back(), two);
  EXPECT_EQ(json["text"].get<std::string>().find("two"), std::string::npos);
}

TEST_F(K3Run, EndsWhenTheContextIsFull) {
  mock().maxContext = 6;
  script({65, 66, 67, 68, 69, 70, 71, 72, 73, 74});
  nlohmann::json json = runJson({"m.k3a", "--no-bos", "x"});
  EXPECT_EQ(json["finish_reason"], "context");
  EXPECT_EQ(json["tokens"].size(), 6u);
}

// G04: the pad id is not answered even if the model wants to.
TEST_F(K3Run, NeverAnswersReservedIds) {
  mock().logits = [](const Ids &, std::vector<float> &logits) {
    logits[4351] = 60;
    logits[4200] = 50;
    logits[65] = 30;
  };
  nlohmann::json json = runJson({"m.k3a", "x", "--max-tokens=3"});
  EXPECT_EQ(json["tokens"].get<Ids>(), (Ids{65, 65, 65}));
}

// G03, G06: an unusable model is an error, not a token.
TEST_F(K3Run, NonFiniteLogitsAreAnError) {
  mock().logits = [](const Ids &, std::vector<float> &logits) {
    logits[7] = std::numeric_limits<float>::quiet_NaN();
  };
  EXPECT_EQ(runError({"m.k3a", "x"}).substr(0, 14), "logit 7 is NaN");
  EXPECT_EQ(runError({"m.k3a", "x", "--greedy"}).substr(0, 14),
            "logit 7 is NaN");
}

TEST_F(K3Run, SameSeedSameText) {
  std::vector<std::string> arguments = {"m.k3a", "x", "--max-tokens=30",
                                        "--seed=5"};
  nlohmann::json a = runJson(arguments), b = runJson(arguments);
  EXPECT_EQ(a["tokens"], b["tokens"]);
  arguments[3] = "--seed=6";
  EXPECT_NE(a["tokens"], runJson(arguments)["tokens"]);
  arguments.pop_back();
  EXPECT_NE(runJson(arguments)["tokens"], runJson(arguments)["tokens"]);
}

TEST_F(K3Run, PromptsFromFilesAndWithSpecials) {
  script({});
  std::string file = temporaryFile("prompt.txt", "From a file\n");
  runJson({"m.k3a", "--prompt-file", file});
  EXPECT_EQ(mock().steps.back(), join({4096}, ids("From a file\n")));
  EXPECT_EQ(run({"m.k3a", "--prompt-file=-"}, "piped").exitCode, 0);
  EXPECT_EQ(mock().steps.back(), join({4096}, ids("piped")));
  runJson({"m.k3a", "--no-bos", "<|open|>"});
  EXPECT_EQ(mock().steps.back(), ids("<|open|>"));
  runJson({"m.k3a", "--no-bos", "--specials", "<|open|>"});
  EXPECT_EQ(mock().steps.back(), Ids{4099});
}

TEST_F(K3Run, BadInputIsOneLine) {
  EXPECT_EQ(runError({"model.txt", "x"}), "model.txt: not an artifact");
  EXPECT_EQ(runError({"m.k3a", ""}), "the prompt is empty");
  EXPECT_EQ(runError({"m.k3a", "a\xFF"}),
            "prompt: text is not valid UTF-8 at byte 1");
  EXPECT_EQ(runError({"m.k3a", "--prompt-file", "/nowhere/x"}),
            "/nowhere/x: cannot be read");
  EXPECT_EQ(runError({"m.k3a", "--prompt-file", "/"}), "/: cannot be read");
  EXPECT_EQ(runError({"m.k3a", "x", "--top-p=0"}).substr(0, 18),
            "top-p must be abov");
  mock().maxContext = 3;
  EXPECT_EQ(runError({"m.k3a", "a b c d e f"}).substr(0, 38),
            "the prompt makes the sequence 7 tokens");
  EXPECT_TRUE(mock().steps.empty());
  mock().tokenizer.clear();
  EXPECT_EQ(runError({"m.k3a", "x"}),
            "this artifact has no tokenizer, text cannot be used with it");
  mock().tokenizer = {1, 2, 3};
  EXPECT_EQ(runError({"m.k3a", "x"}),
            "m.k3a: tokenizer: block of 3 bytes is too short");
}

// A model of three words in turn: what comes depends on the whole history, so
// that a token left over from a draft would change the answer. Every seventh
// place has another word.
void speakInTurns() {
  mock().logits = [](const Ids &history, std::vector<float> &logits) {
    size_t n = history.size();
    logits[n % 7 == 0 ? 1400 + n % 5 : 1200 + n % 3] = 30;
  };
}

TEST_F(K3Run, SpeculationChangesNoAnswer) {
  for (const char *tokens : {"1", "2", "40"})
    for (const char *drafts : {"1", "2", "3", "5", "64"}) {
      resetMock();
      speakInTurns();
      std::vector<std::string> arguments = {"m.k3a", "x", "--greedy",
                                            "--max-tokens", tokens};
      nlohmann::json plain = runJson(arguments);
      Ids fed = mock().history;
      size_t plainSteps = mock().steps.size();
      EXPECT_EQ(plain["drafted_tokens"], 0);
      EXPECT_EQ(plain["accepted_tokens"], 0);
      EXPECT_EQ(mock().options.max_sequences, 1u);
      mock().steps.clear();
      for (const char *option : {"--speculate=ngram", "--draft-tokens", drafts})
        arguments.push_back(option);
      nlohmann::json drafted = runJson(arguments);
      EXPECT_EQ(drafted["tokens"], plain["tokens"]);
      EXPECT_EQ(drafted["text"], plain["text"]);
      // Nothing that was only guessed is left in the sequence.
      EXPECT_EQ(mock().history, fed);
      EXPECT_EQ(mock().options.max_sequences, 2u);
      if (plain["tokens"].size() < 40)
        continue;
      EXPECT_LT(mock().steps.size(), plainSteps);
      EXPECT_GT(drafted["accepted_tokens"], 0);
      EXPECT_GT(drafted["drafted_tokens"], drafted["accepted_tokens"]);
      EXPECT_GT(drafted["tokens_per_step"], 1.0);
      EXPECT_EQ(plain["tokens_per_step"], 1.0);
    }
}

// An engine on a GPU brings the tokens, with drafts and without, and no logits.
TEST_F(K3Run, TokensThatTheEngineChooses) {
  for (const char *drafts : {"off", "ngram"})
    for (const char *how : {"--greedy", "--seed=3"}) {
      nlohmann::json answers[2];
      for (bool chooses : {false, true}) {
        resetMock();
        speakInTurns();
        mock().choosesTokens = chooses;
        answers[chooses] = runJson({"m.k3a", "x", how, "--max-tokens=30",
                                    "--speculate", drafts});
      }
      EXPECT_EQ(answers[1]["tokens"], answers[0]["tokens"]);
      EXPECT_EQ(answers[1]["drafted_tokens"], answers[0]["drafted_tokens"]);
    }
}

TEST_F(K3Run, SpeculationIsReported) {
  speakInTurns();
  RunResult result = run({"m.k3a", "x", "--max-tokens=40", "--greedy",
                          "--speculate=ngram"});
  EXPECT_EQ(result.exitCode, 0);
  EXPECT_NE(result.err.find(" guesses, "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find(" tokens a step"), std::string::npos);
  result = run({"m.k3a", "x", "--max-tokens=40", "--greedy"});
  EXPECT_EQ(result.err.find("guesses"), std::string::npos) << result.err;
}

// Samples come from the same random numbers, with stop strings and all.
TEST_F(K3Run, SpeculationChangesNoSample) {
  mock().logits = [](const Ids &history, std::vector<float> &logits) {
    size_t n = history.size();
    logits[1200 + n % 3] = 30;
    logits[1300 + n % 2] = n % 4 == 0 ? 30 : 28;
  };
  for (int seed = 0; seed < 12; ++seed) {
    std::vector<std::string> arguments = {"m.k3a", "x", "--max-tokens=50",
                                          "--seed", std::to_string(seed)};
    nlohmann::json plain = runJson(arguments);
    Ids fed = mock().history;
    arguments.push_back("--speculate=ngram");
    nlohmann::json drafted = runJson(arguments);
    EXPECT_EQ(drafted["tokens"], plain["tokens"]);
    EXPECT_EQ(mock().history, fed);
    EXPECT_GT(drafted["drafted_tokens"], 0);
  }
}

// The turns of a conversation follow each other in the sequence as they do
// without drafts.
TEST_F(K3Run, SpeculationInChats) {
  std::vector<std::string> arguments = {"chat", "m.k3a", "--no-think",
                                        "--greedy", "--max-tokens=24"};
  speakInTurns();
  RunResult plain = run(arguments, "Hi\nAgain\n");
  Ids fed = mock().history;
  resetMock();
  speakInTurns();
  arguments.push_back("--speculate=ngram");
  RunResult drafted = run(arguments, "Hi\nAgain\n");
  EXPECT_EQ(drafted.exitCode, 0) << drafted.err;
  EXPECT_EQ(drafted.out, plain.out);
  EXPECT_EQ(mock().history, fed);
  EXPECT_NE(drafted.err.find(" guesses, "), std::string::npos) << drafted.err;
}

TEST_F(K3Run, EngineOptionsArePassedOn) {
  script({});
  runJson({"m.k3a", "x", "--threads=3", "--memory-limit=2G", "--context=99",
           "--prefill-window=16", "--poison", "--verify-weights"});
  EXPECT_EQ(mock().options.threads, 3u);
  EXPECT_EQ(mock().options.memory_limit, uint64_t(2) << 30);
  EXPECT_EQ(mock().options.max_context, 99u);
  EXPECT_EQ(mock().options.prefill_window, 16u);
  EXPECT_NE(mock().options.poison, 0);
  EXPECT_NE(mock().options.verify_weights, 0);
  EXPECT_NE(mock().options.progress, nullptr);
}

TEST_F(K3Run, FullDiskIsAnError) {
  script(ids("text"));
  std::istringstream in;
  std::ostringstream out, err;
  out.setstate(std::ios::badbit);
  Streams streams{in, out, err};
  EXPECT_EQ(runMain("/x/k3-run", {"m.k3a", "x"}, streams), 1);
  EXPECT_NE(err.str().find("cannot write to standard output"),
            std::string::npos);
}

//--- self-contained executables ---------------------------------------------//

std::string executable(const char *name, uint64_t offset, uint64_t length,
                       size_t before = 100, size_t artifact = 50) {
  k3_trailer trailer = {offset, length, {}};
  std::memcpy(trailer.magic, K3_TRAILER_MAGIC, sizeof(trailer.magic));
  return temporaryFile(
      name, std::string(before + artifact, 'x') +
                std::string(reinterpret_cast<char *>(&trailer),
                            sizeof(trailer)));
}

TEST_F(K3Run, RunsTheArtifactInsideItself) {
  script(ids(" time."));
  std::string program = executable("exe", 100, 50);
  RunResult result = run({"Once upon a"}, "", program);
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_EQ(result.out, " time.\n");
  EXPECT_EQ(mock().offset, 100u);
  result = run({"--plan", "--json"}, "", program);
  EXPECT_NE(result.out.find("434110464"), std::string::npos) << result.err;
}

TEST_F(K3Run, RefusesADamagedTrailer) {
  for (auto [offset, length] :
       std::vector<std::pair<uint64_t, uint64_t>>{{100, 51},
                                                  {0, 10},
                                                  {1000, 1},
                                                  {UINT64_MAX, 2},
                                                  {2, UINT64_MAX}}) {
    RunResult result = run({"x"}, "", executable("exe", offset, length));
    EXPECT_EQ(result.exitCode, 1);
    EXPECT_NE(result.err.find("it is damaged"), std::string::npos);
  }
}

//--- chat -------------------------------------------------------------------//

const char *thinkThenAnswer =
    "Hm.<|close|>think<|sep|><|open|>response<|sep|>Hello!<|close|>response"
    "<|sep|><|close|>message<|sep|><|end_of_msg|>";

TEST_F(K3Run, ChatAnswersAFile) {
  script(specials(thinkThenAnswer));
  std::string file =
      temporaryFile("chat.json", R"([{"role":"user","content":"Hi"}])");
  nlohmann::json json = runJson({"chat", "m.k3a", "--messages", file});
  EXPECT_EQ(json["text"], "Hello!");
  EXPECT_EQ(json["reasoning"], "Hm.");
  EXPECT_EQ(json["finish_reason"], "stop");
  Ids prompt;
  std::string error;
  ASSERT_TRUE(k3rt::encodeChat(k3rt::test::modelTokenizer("k3-nano"),
                               R"([{"role":"user","content":"Hi"}])", {},
                               prompt, error));
  EXPECT_EQ(mock().steps[0], prompt) << "no begin token, thinking at max";

  script(specials("Hello!<|close|>response<|sep|>"));
  std::string off = temporaryFile(
      "off.json",
      R"({"thinking":false,"messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(runJson({"chat", "m.k3a", "--messages", off})["text"], "Hello!");
}

TEST_F(K3Run, ChatShowsReasoningApart) {
  script(specials(thinkThenAnswer));
  std::string file =
      temporaryFile("chat.json", R"([{"role":"user","content":"Hi"}])");
  RunResult result = run({"chat", "m.k3a", "--messages", file});
  EXPECT_EQ(result.exitCode, 0);
  EXPECT_EQ(result.out, "Hello!\n");
  EXPECT_EQ(result.err.substr(0, 15), "[thinking] Hm.\n");
}

// The model sees the conversation once: a later turn continues the sequence.
TEST_F(K3Run, ChatTurnsContinueOneSequence) {
  Ids answer = specials("A<|close|>response<|sep|><|close|>message<|sep|>"
                        "<|end_of_msg|>");
  script(join(answer, answer));
  RunResult result =
      run({"chat", "m.k3a", "--no-think", "--system", "Be kind."},
          "Hi\nAgain\n");
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_EQ(result.out, "A\nA\n");
  // As a whole, the sequence is what one rendering of both turns gives.
  Ids whole;
  std::string error;
  ASSERT_TRUE(k3rt::encodeChat(
      k3rt::test::modelTokenizer("k3-nano"),
      R"({"thinking":false,"messages":[{"role":"system","content":"Be kind."},
          {"role":"user","content":"Hi"},{"role":"assistant","content":"A"},
          {"role":"user","content":"Again"}]})",
      {}, whole, error));
  Ids fed = mock().history;
  fed.resize(whole.size());
  EXPECT_EQ(fed, whole);
}

TEST_F(K3Run, ChatErrorsNameTheFile) {
  std::string file = temporaryFile("bad.json", R"([{"role":"robot"}])");
  EXPECT_EQ(runError({"chat", "m.k3a", "--messages", file}),
            file + ": message 1: unknown role 'robot'; use system, user, "
                   "assistant or tool");
  EXPECT_EQ(runError({"chat", "m.k3a"}, "a\xFF\n"),
            "the message is not valid UTF-8 at byte 1");
}

//--- score and plan ---------------------------------------------------------//

// The model gives weight e^2 to the token after the last one, 1 to all others.
void countingModel() {
  mock().logits = [](const Ids &history, std::vector<float> &logits) {
    logits[static_cast<size_t>(history.back() + 1) % logits.size()] = 2;
  };
}

TEST_F(K3Run, ScoreIsTheMeanOfTheLogProbabilities) {
  countingModel();
  std::string text = "ABCXYZ tale";
  Ids tokens = join({4096}, ids(text));
  double hit = std::log(std::exp(2.0) + 4351) - 2;
  double miss = std::log(std::exp(2.0) + 4351), nats = 0;
  for (size_t i = 0; i + 1 < tokens.size(); ++i)
    nats += tokens[i + 1] == tokens[i] + 1 ? hit : miss;
  std::string file = temporaryFile("score.txt", text);
  for (uint32_t rows : {1u, 3u, 64u}) {
    mock().maxLogitRows = rows;
    nlohmann::json json = runJson({"score", "m.k3a", file});
    double count = static_cast<double>(tokens.size() - 1);
    EXPECT_NEAR(json["nats_per_token"], nats / count, 1e-9);
    EXPECT_NEAR(json["bits_per_byte"],
                nats / std::log(2.0) / static_cast<double>(text.size()), 1e-9);
    EXPECT_EQ(json["tokens"], tokens.size() - 1);
    EXPECT_EQ(json["bytes"], text.size());
    EXPECT_EQ(json["windows"], 1);
  }
  RunResult result = run({"score", "m.k3a", file});
  EXPECT_NE(result.out.find("bits per byte"), std::string::npos);
}

TEST_F(K3Run, ScoreCutsLongTextsIntoWindows) {
  countingModel();
  mock().maxContext = 5;
  std::string text = "1 2 3 4 5 6 7 8";
  nlohmann::json json =
      runJson({"score", "m.k3a", temporaryFile("long.txt", text)});
  size_t count = ids(text).size();
  EXPECT_EQ(json["tokens"], count);
  EXPECT_EQ(json["windows"], (count + 4) / 5);
  for (const Ids &step : mock().steps)
    EXPECT_LE(step.size(), 5u);
}

TEST_F(K3Run, ScoreErrors) {
  EXPECT_NE(runError({"score", "m.k3a", temporaryFile("empty.txt", "")})
                .find("too short to score"),
            std::string::npos);
  EXPECT_NE(runError({"score", "m.k3a", temporaryFile("bad.txt", "a\xFF")})
                .find("bad.txt: text is not valid UTF-8 at byte 1"),
            std::string::npos);
}

TEST_F(K3Run, PlanLoadsNothing) {
  nlohmann::json json = runJson({"--plan", "m.k3a"});
  EXPECT_EQ(json["state_bytes_per_sequence"], 449372160u);
  EXPECT_EQ(json["recurrent_bytes_per_sequence"], 434110464u);
  EXPECT_EQ(json["conv_bytes_per_sequence"], 15261696u);
  EXPECT_EQ(json["kv_bytes_per_token"], 27648u);
  EXPECT_EQ(json["expert_bytes"], 17547264u);
  EXPECT_EQ(json["weight_bytes"], 1560900000000u);
  EXPECT_EQ(json["total_bytes"], 12u);
  EXPECT_EQ(json["budget_bytes"], 0u); // no machine has room for the weights
  EXPECT_TRUE(mock().steps.empty());
  RunResult text = run({"--plan", "m.k3a"});
  EXPECT_NE(text.out.find("449.4 MB"), std::string::npos);
  EXPECT_NE(text.out.find("1.6 TB"), std::string::npos);
  EXPECT_NE(text.out.find("The weights are larger than this machine's memory"),
            std::string::npos);
  json = runJson({"--plan", "m.k3a", "--memory-limit", "1M"});
  EXPECT_EQ(json["budget_bytes"], 1u << 20);
  EXPECT_EQ(json["capacity"],
            nlohmann::json::parse(R"([{"tokens": 1024, "sequences": 518},
              {"tokens": 4096, "sequences": 205},
              {"tokens": 5000, "sequences": 174}])"));
  text = run({"--plan", "m.k3a", "--memory-limit", "1M"});
  EXPECT_NE(text.out.find("            4096 tokens          205\n"),
            std::string::npos)
      << text.out;
  EXPECT_EQ(runError({"--plan", "m.txt"}), "m.txt: not an artifact");
}

TEST_F(K3Run, ReplaysAStep) {
  auto write = [](const std::string &content) {
    std::string path = temporaryFile("dump", "");
    std::remove(path.c_str());
    std::filesystem::create_directories(path);
    std::ofstream(path + "/step.json") << content;
    return path;
  };
  std::string good = R"({"version": 1, "sequences": [{"state": "known.k3s",
    "length": 5, "logit_rows": 1, "tokens": [7, 8]}]})";
  mock().failStep = "row 0: nan at [1, 2] of 'x'";
  RunResult result = run({"replay", "m.k3a", write(good)});
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_EQ(result.out, "reproduced: row 0: nan at [1, 2] of 'x'\n");
  EXPECT_EQ(mock().steps, (std::vector<Ids>{{7, 8}}));
  EXPECT_EQ(mock().options.max_context, 7u);
  EXPECT_EQ(mock().options.trap_nonfinite, 1);
  EXPECT_EQ(mock().options.trap_folder, nullptr);
  nlohmann::json json = runJson({"replay", "m.k3a", write(good)});
  EXPECT_EQ(json["reproduced"], true);
  EXPECT_EQ(json["found"], "row 0: nan at [1, 2] of 'x'");
  mock().failStep.clear();
  result = run({"replay", "m.k3a", write(good)});
  EXPECT_EQ(result.exitCode, 1);
  EXPECT_EQ(result.out, "not reproduced: every value is finite\n");
  EXPECT_EQ(result.err,
            "k3-run: the step does not go wrong with this artifact\n");

  for (std::string bad :
       {"", "[]", "{\"version\": 2, \"sequences\": []}",
        "{\"version\": 1, \"sequences\": []}",
        "{\"version\": 1, \"sequences\": [{\"state\": null, \"length\": 1, "
        "\"logit_rows\": 1, \"tokens\": [1]}]}",
        "{\"version\": 1, \"sequences\": [{\"state\": \"x\", \"length\": 1, "
        "\"logit_rows\": 1, \"tokens\": [-1]}]}",
        "{\"version\": 1, \"sequences\": [{\"state\": 3, \"length\": 1, "
        "\"logit_rows\": 1, \"tokens\": [1]}]}"}) {
    std::string path = write(bad);
    EXPECT_EQ(runError({"replay", "m.k3a", path}),
              path + "/step.json: not a step that --trap-nonfinite wrote");
  }
  std::string missing = write(R"({"version": 1, "sequences": [{"state": "gone",
    "length": 5, "logit_rows": 1, "tokens": [7]}]})");
  EXPECT_EQ(runError({"replay", "m.k3a", missing}),
            missing + "/gone: No such file or directory");
  EXPECT_EQ(runError({"replay", "m.k3a"}),
            "replay needs a folder that --trap-nonfinite wrote (see --help)");
  run({"m.k3a", "x", "--trap-nonfinite", "there", "--max-tokens", "1"});
  EXPECT_EQ(mock().options.trap_nonfinite, 1);
  EXPECT_STREQ(mock().options.trap_folder, "there");
}

} // namespace
