//===- BatchTest.cpp - k3-run batch -------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/K3Run/MockRuntime.h"

#include "test/unit/Text/TestTokenizer.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace k3run::test;
using Json = nlohmann::json;

namespace {
using Ids = std::vector<int32_t>;

Ids ids(const std::string &text) {
  return k3rt::test::encode(k3rt::test::modelTokenizer("k3-nano"), text,
                            k3rt::AllowSpecial::no);
}
const std::string &textOf(int32_t id) {
  static std::map<int32_t, std::string> known;
  std::string error;
  if (known[id].empty())
    (void)k3rt::test::modelTokenizer("k3-nano").decodeText(
        &id, 1, k3rt::SpecialText::skip, known[id], error);
  return known[id];
}

class BatchTest : public ::testing::Test {
protected:
  void SetUp() override {
    resetMock();
    // Every token is the one before plus one, in a range of plain words.
    mock().logits = [](const Ids &history, std::vector<float> &logits) {
      logits[size_t(1000 + (history.back() + 1) % 500)] = 30;
    };
    out = temporaryFile("batch-out.jsonl", "");
    std::remove(out.c_str());
  }

  /// The requests, one a line, in a file.
  std::string input(const std::vector<std::string> &lines) {
    std::string text;
    for (const std::string &line : lines)
      text += line + "\n";
    return temporaryFile("batch-in.jsonl", text);
  }
  std::string read() {
    std::ifstream file(out, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static std::vector<Json> parse(const std::string &text) {
    std::vector<Json> results;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
      results.push_back(Json::parse(line, nullptr, false));
    return results;
  }
  static std::vector<int> linesOf(const std::vector<Json> &results) {
    std::vector<int> lines;
    for (const Json &result : results)
      lines.push_back(result["line"]);
    return lines;
  }
  RunResult batch(const std::vector<std::string> &lines,
                  std::vector<std::string> options = {}) {
    std::vector<std::string> arguments = {"batch", "m.k3a", input(lines), "-o",
                                          out};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run(arguments);
  }

  std::string out;
};

TEST_F(BatchTest, OneResultPerRequestInOrder) {
  RunResult result = batch({R"({"prompt": "Once", "id": "a", "max_tokens": 9})",
                            R"({"prompt": "upon", "max_tokens": 2})", "",
                            R"({"tokens": [1200, 1201], "id": {"x": [1]}})",
                            R"({"prompt": "a", "max_tokens": 5, "id": 4})"},
                           {"--max-tokens", "3", "--greedy"});
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("4 results in "), std::string::npos) << result.err;
  std::vector<Json> results = parse(read());
  ASSERT_EQ(linesOf(results), (std::vector<int>{1, 2, 4, 5}));
  EXPECT_EQ(results[0]["id"], "a");
  EXPECT_FALSE(results[1].contains("id"));
  EXPECT_EQ(results[2]["id"], Json::parse(R"({"x": [1]})"));
  EXPECT_EQ(results[3]["id"], 4);
  size_t lengths[] = {9, 2, 3, 5};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(results[i]["tokens"].size(), lengths[i]);
    EXPECT_EQ(results[i]["finish_reason"], "length");
    EXPECT_FALSE(results[i].contains("seed")); // greedy
  }
  EXPECT_EQ(results[0]["prompt_tokens"], 1 + ids("Once").size());
  EXPECT_EQ(results[2]["prompt_tokens"], 2);
  EXPECT_EQ(results[2]["tokens"].get<Ids>(), (Ids{1202, 1203, 1204}));
  EXPECT_EQ(results[2]["text"], textOf(1202) + textOf(1203) + textOf(1204));
  // What generate answers.
  RunResult alone = run({"m.k3a", "Once", "--greedy", "--max-tokens", "9",
                         "--json"});
  EXPECT_EQ(Json::parse(alone.out)["text"], results[0]["text"]);
  EXPECT_EQ(Json::parse(alone.out)["tokens"], results[0]["tokens"]);
}

TEST_F(BatchTest, UnorderedIsAsTheyCome) {
  std::vector<std::string> lines = {
      R"({"tokens": [1200], "max_tokens": 9})",
      R"({"tokens": [1200], "max_tokens": 2})",
      R"({"tokens": [1200], "max_tokens": 5})"};
  EXPECT_EQ(batch(lines, {"--unordered"}).exitCode, 0);
  EXPECT_EQ(linesOf(parse(read())), (std::vector<int>{2, 3, 1}));
}

TEST_F(BatchTest, BadLinesAreNamedAndSkipped) {
  RunResult result = batch({
      R"({"tokens": [1200], "max_tokens": 1})",
      R"({"prompt": "x")",
      R"([1])",
      R"({"prompt": ""})",
      R"({"prompt": 7})",
      R"({"id": 1})",
      R"({"prompt": "x", "tokens": [1]})",
      R"({"tokens": []})",
      R"({"tokens": [1, 4352]})",
      R"({"tokens": [1], "max_tokens": 0})",
      R"({"tokens": [1], "temperature": "hot"})",
      R"({"tokens": [1], "temperature": -1})",
      R"({"tokens": [1], "stop": [""]})",
      R"({"tokens": [1], "stop": 7})",
      R"({"tokens": [1], "greedy": 1})",
      R"({"tokens": [1], "temprature": 1})",
      R"({"tokens": [1], "tools": []})",
      R"({"messages": [{"role": "user"}, {"role": "king", "content": "x"}]})",
      "{\"prompt\": \"\xff\"}",
      R"({"tokens": [1], "top_k": -1})",
      R"({"tokens": [1], "priority": 3000000000})",
      R"({"tokens": [1200], "max_tokens": 1})",
  });
  EXPECT_EQ(result.exitCode, 1);
  EXPECT_EQ(linesOf(parse(read())), (std::vector<int>{1, 22}));
  std::vector<std::string> wanted = {
      ":2: not valid JSON\n",
      ":3: not a JSON object\n",
      ":4: the prompt is empty\n",
      ":5: prompt must be a text\n",
      ":6: one of prompt, tokens and messages must be there\n",
      ":7: one of prompt, tokens and messages must be there\n",
      ":8: the prompt is empty\n",
      ":9: tokens must be token ids below 4352, got 4352\n",
      ":10: max_tokens must be a number from 1 on, got 0\n",
      ":11: temperature must be a number, got \"hot\"\n",
      ":12: temperature must be at least 0",
      ":13: stop must be a text that is not empty, or an array of such, got "
      "[\"\"]\n",
      ":14: stop must be a text that is not empty",
      ":15: greedy must be true or false, got 1\n",
      ":16: unknown field \"temprature\"\n",
      ":17: tools belongs to messages\n",
      ":18: message",
      ":19: not valid UTF-8 at byte 12\n",
      ":20: top_k must be a whole number, got -1\n",
      ":21: priority must be a whole number, got 3000000000\n",
      "k3-run: 0 of 2 requests failed, 20 lines are no requests\n"};
  size_t at = 0;
  for (const std::string &text : wanted) {
    size_t next = result.err.find(text, at);
    EXPECT_NE(next, std::string::npos) << text << "\nin\n" << result.err;
    at = next == std::string::npos ? at : next + 1;
  }
}

TEST_F(BatchTest, RequestsThatFailSayWhy) {
  mock().maxContext = 6;
  mock().logits = [](const Ids &history, std::vector<float> &logits) {
    if (history[0] == 666)
      logits[0] = std::numeric_limits<float>::quiet_NaN();
    logits[1000] = 30;
  };
  RunResult result = batch({R"({"tokens": [1, 2, 3, 4, 5, 6, 7], "id": 1})",
                            R"({"tokens": [666], "max_tokens": 2})",
                            R"({"tokens": [1], "max_tokens": 2})",
                            R"({"tokens": [1, 2, 3]})"},
                           {"--greedy"});
  EXPECT_EQ(result.exitCode, 1);
  EXPECT_NE(result.err.find("k3-run: 2 of 4 requests failed, 0 lines"),
            std::string::npos)
      << result.err;
  std::vector<Json> results = parse(read());
  ASSERT_EQ(results.size(), 4u);
  EXPECT_EQ(results[0]["finish_reason"], "error");
  EXPECT_EQ(results[0]["error"], "the prompt has 7 tokens, the context is 6");
  EXPECT_EQ(results[0]["id"], 1);
  EXPECT_EQ(results[1]["error"], "logit 0 is NaN");
  EXPECT_FALSE(results[2].contains("error"));
  EXPECT_EQ(results[2]["tokens"].get<Ids>(), (Ids{1000, 1000}));
  EXPECT_EQ(results[3]["finish_reason"], "context");
}

TEST_F(BatchTest, Stops) {
  RunResult result =
      batch({R"({"tokens": [1200]})", R"({"tokens": [1200], "stop": ")" +
                                          textOf(1203) + R"("})",
             R"({"tokens": [1200], "stop_ids": [1204]})",
             R"({"tokens": [1200], "stop": ["@@@"], "max_tokens": 4})"},
            {"--greedy", "--stop-id", "1202"});
  EXPECT_EQ(result.exitCode, 0) << result.err;
  std::vector<Json> results = parse(read());
  // The command line's stop id.
  EXPECT_EQ(results[0]["tokens"].get<Ids>(), (Ids{1201, 1202}));
  EXPECT_EQ(results[0]["text"], textOf(1201));
  EXPECT_EQ(results[0]["finish_reason"], "stop");
  EXPECT_EQ(results[1]["tokens"].get<Ids>(), (Ids{1201, 1202}));
  // Its own in place of it, and a text.
  EXPECT_EQ(results[2]["tokens"].get<Ids>(), (Ids{1201, 1202, 1203, 1204}));
  EXPECT_EQ(results[2]["text"], textOf(1201) + textOf(1202) + textOf(1203));
  result = batch({R"({"tokens": [1200], "stop": ")" + textOf(1203) + R"("})"},
                 {"--greedy", "--overwrite"});
  results = parse(read());
  EXPECT_EQ(results[0]["tokens"].get<Ids>(), (Ids{1201, 1202, 1203}));
  EXPECT_EQ(results[0]["text"], textOf(1201) + textOf(1202));
  EXPECT_EQ(results[0]["finish_reason"], "stop");
}

TEST_F(BatchTest, SeedsAreGivenOut) {
  std::vector<std::string> lines = {R"({"tokens": [1200], "seed": 7})",
                                    R"({"tokens": [1200]})",
                                    R"({"tokens": [1200]})"};
  EXPECT_EQ(batch(lines, {"--max-tokens", "1"}).exitCode, 0);
  std::vector<Json> results = parse(read());
  EXPECT_EQ(results[0]["seed"], 7);
  EXPECT_NE(results[1]["seed"], results[2]["seed"]);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(results[i]["seed"], mock().seeds[i]);
  EXPECT_EQ(batch(lines, {"--seed", "9", "--overwrite"}).exitCode, 0);
  results = parse(read());
  EXPECT_EQ(results[0]["seed"], 7);
  EXPECT_EQ(results[1]["seed"], 9);
}

TEST_F(BatchTest, Chats) {
  std::string end = std::to_string(4097);
  mock().logits = [](const Ids &history, std::vector<float> &logits) {
    logits[size_t(history.back() == 1203 ? 4098 : 1203)] = 30;
  };
  RunResult result = batch(
      {R"({"messages": [{"role": "user", "content": "Hi"}], "thinking": false})",
       R"({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1})"},
      {"--greedy"});
  EXPECT_EQ(result.exitCode, 0) << result.err;
  std::vector<Json> results = parse(read());
  EXPECT_EQ(results[0]["text"], textOf(1203));
  EXPECT_EQ(results[0]["reasoning"], "");
  EXPECT_EQ(results[0]["finish_reason"], "stop");
  EXPECT_EQ(results[1]["reasoning"], textOf(1203));
  EXPECT_EQ(results[1]["text"], "");
}

// A run that was cut short goes on where it was, at any byte.
TEST_F(BatchTest, GoesOnWhereItWasCutShort) {
  std::vector<std::string> lines;
  for (int i = 0; i < 12; ++i)
    lines.push_back(R"({"tokens": [)" + std::to_string(1200 + i) +
                    R"(], "max_tokens": )" + std::to_string(1 + i * 5 % 7) +
                    "}");
  lines[4] = "nonsense";
  std::vector<std::string> options = {"--greedy"};
  batch(lines, options);
  std::string whole = read();
  auto tokensOf = [](std::vector<Json> results) {
    std::map<int, Json> tokens;
    for (const Json &result : results)
      tokens[result["line"]] = result["tokens"];
    return tokens;
  };
  for (bool unordered : {false, true}) {
    if (unordered) {
      options.push_back("--unordered");
      std::remove(out.c_str());
      batch(lines, options);
    }
    std::string full = read();
    for (size_t length = 0; length <= full.size();
         length += 1 + full.size() / 37) {
      std::ofstream(out, std::ios::binary) << full.substr(0, length);
      RunResult result = batch(lines, options);
      EXPECT_EQ(result.exitCode, 1); // the bad line is named again
      std::vector<Json> results = parse(read());
      EXPECT_EQ(results.size(), 11u);
      EXPECT_EQ(tokensOf(results), tokensOf(parse(whole)));
      if (!unordered) {
        EXPECT_EQ(linesOf(results), linesOf(parse(whole)));
      }
      size_t kept = size_t(std::count(full.begin(),
                                      full.begin() + long(length), '\n'));
      EXPECT_EQ(kept != 0,
                result.err.find(std::to_string(kept) + " results were there") !=
                    std::string::npos)
          << result.err;
    }
  }
}

TEST_F(BatchTest, ForeignOutputsAreLeftAlone) {
  std::vector<std::string> lines = {R"({"tokens": [1200], "max_tokens": 2})"};
  for (std::string content :
       {"a text\n", "{\"line\": 1}\n", "{}\n",
        "{\"line\": \"1\", \"request_hash\": \"x\"}\n"}) {
    std::ofstream(out) << content;
    RunResult result = batch(lines);
    EXPECT_EQ(result.exitCode, 1);
    EXPECT_NE(result.err.find(":1: not a result of k3-run batch; --overwrite "
                              "begins anew"),
              std::string::npos)
        << result.err;
    EXPECT_EQ(read(), content);
  }
  EXPECT_EQ(batch(lines, {"--overwrite"}).exitCode, 0);
  std::string before = read();
  // Another request, or the same with other options.
  for (const auto &[other, option] : std::vector<std::pair<std::string, std::string>>{
           {R"({"tokens": [1201], "max_tokens": 2})", "--no-bos"},
           {lines[0], "--greedy"}}) {
    RunResult result = batch({other}, {option});
    EXPECT_EQ(result.exitCode, 1);
    EXPECT_NE(result.err.find("has the result of another request for line 1, "
                              "or of other options; --overwrite begins anew"),
              std::string::npos)
        << result.err;
    EXPECT_EQ(read(), before);
  }
}

TEST_F(BatchTest, StandardStreamsAndSummary) {
  std::string line = R"({"tokens": [1200], "max_tokens": 2})";
  RunResult result = run({"batch", "m.k3a", "-"}, line + "\r\n\n" + line);
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_EQ(linesOf(parse(result.out)), (std::vector<int>{1, 3}));
  EXPECT_EQ(mock().options.max_sequences, 16u);
  result = run({"batch", "m.k3a", "-", "-o", out, "--json", "--max-sequences",
                "3", "--prefix-cache", "2K"},
               line + "\n" + line);
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_EQ(result.err, "");
  Json summary = Json::parse(result.out);
  EXPECT_EQ(summary["results"], 2);
  EXPECT_EQ(summary["failed"], 0);
  EXPECT_EQ(summary["bad_lines"], 0);
  EXPECT_EQ(summary["kept"], 0);
  EXPECT_EQ(summary["tokens"], 4);
  EXPECT_EQ(summary["prompt_tokens"], 2);
  EXPECT_GT(summary["tokens_per_s"], 0.0);
  EXPECT_EQ(mock().options.max_sequences, 3u);
  EXPECT_EQ(mock().options.prefix_cache_bytes, 2048u);
  for (const char *name : {"mean", "median", "p95"})
    EXPECT_TRUE(summary["first_token_ms"][name].is_number()) << name;
  EXPECT_EQ(summary["drafted_tokens"], 0);
  EXPECT_EQ(summary["tokens_per_step"], 1.0);
  EXPECT_EQ(mock().mostDrafted, (std::vector<uint32_t>{0, 0, 0, 0}));
}

// With drafts, states are marked in slots beside those of the sequences.
TEST_F(BatchTest, Speculation) {
  std::string line = R"({"tokens": [1200], "max_tokens": 2})";
  RunResult result = batch({line}, {"--speculate=ngram", "--draft-tokens=7",
                                    "--max-sequences=3"});
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_EQ(mock().mostDrafted, (std::vector<uint32_t>{7}));
  EXPECT_EQ(mock().options.max_sequences, 6u);
  Json speculated = parse(read())[0];
  EXPECT_EQ(speculated["drafted_tokens"], 0);
  EXPECT_EQ(speculated["accepted_tokens"], 0);
  // The answers are the same, so that either run goes on with the other's.
  result = batch({line, line});
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_NE(result.err.find("1 results were there"), std::string::npos);
  EXPECT_FALSE(parse(read())[1].contains("drafted_tokens"));
}

TEST_F(BatchTest, ProgressIsForTerminals) {
  std::string file = input({R"({"tokens": [1200], "max_tokens": 2})",
                            R"({"tokens": [1200], "max_tokens": 2})"});
  RunResult result = run({"batch", "m.k3a", file, "-o", out}, "",
                         "/nowhere/k3-run", /*terminal=*/true);
  EXPECT_NE(result.err.find("\r[........................] 0/2  "),
            std::string::npos)
      << result.err;
  EXPECT_EQ(batch({}).err.find('\r'), std::string::npos);
}

TEST_F(BatchTest, Refusals) {
  auto error = [&](std::vector<std::string> arguments) {
    RunResult result = run(arguments);
    EXPECT_EQ(result.exitCode, 1);
    return result.err;
  };
  EXPECT_EQ(error({"batch", "m.k3a"}),
            "k3-run: batch needs a file of requests, or - (see --help)\n");
  EXPECT_EQ(error({"batch", "m.k3a", "/nowhere/in.jsonl"}),
            "k3-run: /nowhere/in.jsonl: cannot be read\n");
  EXPECT_EQ(error({"batch", "m.k3a", "/"}), "k3-run: /: cannot be read\n");
  EXPECT_EQ(error({"batch", "m.k3a", "-", "--json"}),
            "k3-run: batch --json needs -o FILE: standard output has the "
            "results\n");
  EXPECT_EQ(error({"batch", "m.k3a", "-", "--max-tokens", "0"}),
            "k3-run: batch wants --max-tokens of at least 1\n");
  EXPECT_EQ(error({"batch", "m.k3a", "-", "-o", "/nowhere/out"}),
            "k3-run: /nowhere/out: No such file or directory\n");
}

} // namespace
