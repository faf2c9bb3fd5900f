//===- OptionsTest.cpp - command line of k3-run -------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/Options.h"

#include "test/unit/K3Run/MockRuntime.h"

#include "gtest/gtest.h"

using namespace k3run;
using namespace k3run::test;

namespace {
Options parse(const std::vector<std::string> &arguments) {
  Options options;
  std::string error;
  EXPECT_TRUE(parseOptions(arguments, std::nullopt, options, error)) << error;
  return options;
}
std::string parseError(const std::vector<std::string> &arguments) {
  Options options;
  std::string error;
  EXPECT_FALSE(parseOptions(arguments, std::nullopt, options, error));
  EXPECT_EQ(error.find('\n'), std::string::npos);
  return error;
}

TEST(Options, ArtifactBeforeOrAfterOptions) {
  for (std::vector<std::string> arguments :
       std::vector<std::vector<std::string>>{
           {"m.k3a", "--prompt", "Hi", "--threads=2"},
           {"--prompt=Hi", "--threads", "2", "m.k3a"},
           {"--threads", "2", "m.k3a", "Hi"},
           {"generate", "m.k3a", "--threads=2", "Hi"},
           {"m.k3a", "--threads=2", "--", "Hi"}}) {
    Options options = parse(arguments);
    EXPECT_EQ(options.command, Command::generate);
    EXPECT_EQ(options.artifact.path, "m.k3a");
    EXPECT_EQ(options.prompt, "Hi");
    EXPECT_EQ(options.threads, 2u);
  }
  EXPECT_EQ(parse({"m.k3a", "--", "--json"}).prompt, "--json");
}

TEST(Options, Commands) {
  EXPECT_EQ(parse({"chat", "m.k3a"}).command, Command::chat);
  EXPECT_EQ(parse({"score", "m.k3a", "t.txt"}).textFile, "t.txt");
  EXPECT_EQ(parse({"verify", "--golden", "g", "m.k3a"}).goldenFile, "g");
  EXPECT_EQ(parse({"--plan", "m.k3a"}).command, Command::plan);
  EXPECT_EQ(parse({"m.k3a", "--plan"}).command, Command::plan);
  EXPECT_EQ(parse({"--help"}).command, Command::help);
  EXPECT_EQ(parse({"chat", "--version"}).command, Command::version);
}

TEST(Options, SamplingAndStops) {
  Options o = parse({"m.k3a", "Hi", "--temperature", "0.5", "--top-k=7",
                     "--top-p=0.9", "--min-p", "0.1", "--repetition-penalty",
                     "1.5", "--seed=9", "--stop", "\n", "--stop=END",
                     "--stop-id=5", "--stop-id", "6", "--max-tokens=3"});
  EXPECT_EQ(o.sampler.temperature, 0.5f);
  EXPECT_EQ(o.sampler.topK, 7);
  EXPECT_EQ(o.sampler.topP, 0.9f);
  EXPECT_EQ(o.sampler.minP, 0.1f);
  EXPECT_EQ(o.sampler.repetitionPenalty, 1.5f);
  EXPECT_EQ(o.sampler.seed, 9u);
  EXPECT_TRUE(o.seedGiven);
  EXPECT_EQ(o.stops.stopStrings, (std::vector<std::string>{"\n", "END"}));
  EXPECT_EQ(o.stops.stopIds, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(o.maxTokens, 3u);
}

TEST(Options, Speculation) {
  EXPECT_EQ(parse({"m.k3a", "Hi"}).mostDrafted(), 0u);
  EXPECT_EQ(parse({"m.k3a", "Hi", "--speculate=off"}).mostDrafted(), 0u);
  EXPECT_EQ(parse({"m.k3a", "Hi", "--speculate=ngram"}).mostDrafted(), 5u);
  EXPECT_EQ(parse({"chat", "m.k3a", "--speculate", "ngram", "--draft-tokens",
                   "9"})
                .mostDrafted(),
            9u);
}

TEST(Options, Sizes) {
  uint64_t bytes = 0;
  EXPECT_TRUE(parseSize("512", bytes));
  EXPECT_EQ(bytes, 512u);
  EXPECT_TRUE(parseSize("3M", bytes));
  EXPECT_EQ(bytes, 3u << 20);
  EXPECT_TRUE(parseSize("2T", bytes));
  EXPECT_EQ(bytes, uint64_t(2) << 40);
  for (const char *bad : {"", "M", "-1", "1.5G", "1X", "99999999T", "1GG"})
    EXPECT_FALSE(parseSize(bad, bytes)) << bad;
}

TEST(Options, ErrorsSayWhatIsWanted) {
  EXPECT_EQ(parseError({}), "no artifact given (see --help)");
  EXPECT_EQ(parseError({"m.k3a"}),
            "no prompt given: use --prompt TEXT (see --help)");
  EXPECT_EQ(parseError({"m.k3a", "--promt", "x"}),
            "unknown option '--promt' (see --help)");
  EXPECT_EQ(parseError({"m.k3a", "--prompt"}), "--prompt needs a value");
  EXPECT_EQ(parseError({"m.k3a", "x", "--threads=two"}),
            "--threads wants a whole number, got 'two'");
  EXPECT_EQ(parseError({"m.k3a", "x", "--threads=-1"}),
            "--threads wants a whole number, got '-1'");
  EXPECT_EQ(parseError({"m.k3a", "x", "--memory-limit=lots"}),
            "--memory-limit wants a size such as 512M or 2G, got 'lots'");
  EXPECT_EQ(parseError({"m.k3a", "x", "--json=1"}), "--json takes no value");
  EXPECT_EQ(parseError({"m.k3a", "x", "--stop="}),
            "--stop wants a text that is not empty, got ''");
  EXPECT_EQ(parseError({"m.k3a", "x", "y"}),
            "unexpected argument 'y' (see --help)");
  EXPECT_EQ(parseError({"m.k3a", "x", "--prompt", "y"}),
            "two prompts given: --prompt 'y' and 'x'");
  EXPECT_EQ(parseError({"verify", "m.k3a"}),
            "verify needs --golden FILE.safetensors (see --help)");
  EXPECT_EQ(parseError({"score", "m.k3a"}),
            "score needs a text file (see --help)");
  EXPECT_EQ(parseError({"chat", "m.k3a", "--effort=medium"}),
            "--effort wants low, high or max, got 'medium'");
  EXPECT_EQ(parseError({"m.k3a", "x", "--speculate=model"}),
            "--speculate wants ngram or off, got 'model'");
  for (const char *count : {"0", "65", "two", "-1", ""})
    EXPECT_EQ(parseError({"m.k3a", "x", "--speculate=ngram", "--draft-tokens",
                          count}),
              "--draft-tokens wants a number from 1 to 64, got '" +
                  std::string(count) + "'");
  EXPECT_EQ(parseError({"m.k3a", "x", "--draft-tokens=4"}),
            "--draft-tokens needs --speculate=ngram");
  EXPECT_EQ(parseError({"m.k3a", "x", "--draft-tokens=4", "--speculate=off"}),
            "--draft-tokens needs --speculate=ngram");
}

TEST(Options, HelpAndVersion) {
  RunResult help = run({"--help"});
  EXPECT_EQ(help.exitCode, 0);
  // Every option that is accepted is explained.
  for (const char *option :
       {"--prompt ", "--prompt-file", "--max-tokens", "--specials", "--no-bos",
        "--greedy", "--temperature", "--top-k", "--top-p", "--min-p",
        "--repetition-penalty", "--seed", "--stop ", "--stop-id",
        "--ignore-eos", "--speculate", "--draft-tokens", "--messages", "--system", "--no-think", "--effort",
        "--threads", "--memory-limit", "--context", "--prefill-window",
        "--weights-dir", "--verify-weights", "--poison", "--logit-tolerance",
        "--layer-tolerance", "--state-tolerance", "--loss-tolerance",
        "--router-margin", "--mean-tolerance", "--likeliest-share", "--json", "--help", "--version", "--plan",
        "--golden"})
    EXPECT_NE(help.out.find(option), std::string::npos) << option;
  RunResult version = run({"--version"});
  EXPECT_EQ(version.exitCode, 0);
  EXPECT_EQ(version.out.substr(0, 7), "k3-run ");
}
} // namespace
