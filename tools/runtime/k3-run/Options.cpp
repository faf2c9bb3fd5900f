//===- Options.cpp - command line of k3-run -----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/Options.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

namespace k3run {

namespace {
template <typename T> bool parseNumber(const std::string &text, T &value) {
  T parsed{};
  auto [end, failure] =
      std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (failure != std::errc() || end != text.data() + text.size())
    return false;
  value = parsed;
  return true;
}

/// What an option does with its value; returns what was wanted on failure.
using Setter = std::function<const char *(const std::string &)>;

struct OptionTable {
  std::map<std::string, std::function<void()>> flags;
  std::map<std::string, Setter> values;
};

template <typename T> Setter number(T &target, const char *wanted) {
  return [&target, wanted](const std::string &text) -> const char * {
    return parseNumber(text, target) ? nullptr : wanted;
  };
}
Setter text(std::string &target) {
  return [&target](const std::string &value) -> const char * {
    target = value;
    return nullptr;
  };
}

OptionTable makeTable(Options &o) {
  constexpr const char *count = "a whole number";
  constexpr const char *real = "a number";
  auto size = [](uint64_t &target) -> Setter {
    return [&target](const std::string &value) -> const char * {
      return parseSize(value, target) ? nullptr : "a size such as 512M or 2G";
    };
  };
  OptionTable table;
  table.flags = {
      {"--json", [&o] { o.json = true; }},
      {"--plan", [&o] { o.command = Command::plan; }},
      {"--help", [&o] { o.command = Command::help; }},
      {"-h", [&o] { o.command = Command::help; }},
      {"--version", [&o] { o.command = Command::version; }},
      {"--poison", [&o] { o.poison = true; }},
      {"--verify-weights", [&o] { o.verifyWeights = true; }},
      {"--no-graph", [&o] { o.graph = false; }},
      {"--no-cublas", [&o] { o.cublas = -1; }},
      {"--all-cublas", [&o] { o.cublas = 1; }},
      {"--specials", [&o] { o.promptSpecials = true; }},
      {"--no-bos", [&o] { o.beginToken = false; }},
      {"--ignore-eos", [&o] { o.ignoreEos = true; }},
      {"--greedy", [&o] { o.sampler.greedy = true; }},
      {"--deterministic", [&o] { o.deterministic = true; }},
      {"--unordered", [&o] { o.unordered = true; }},
      {"--overwrite", [&o] { o.overwrite = true; }},
      {"--no-think", [&o] { o.chat.thinking = false; }},
  };
  table.values = {
      {"--threads", number(o.threads, count)},
      {"--memory-limit", size(o.memoryLimit)},
      {"--max-sequences", number(o.maxSequences, count)},
      {"--trap-nonfinite", text(o.trapFolder)},
      {"--prefix-cache", size(o.prefixCacheBytes)},
      {"--prefix-interval", number(o.prefixInterval, count)},
      {"--token-budget", number(o.tokenBudget, count)},
      {"-o", text(o.batchOutput)},
      {"--output", text(o.batchOutput)},
      {"--context", number(o.context, count)},
      {"--prefill-window", number(o.prefillWindow, count)},
      {"--weights-dir", text(o.weightsDir)},
      {"--device", text(o.device)},
      {"--prompt",
       [&o](const std::string &value) -> const char * {
         o.prompt = value;
         return nullptr;
       }},
      {"--prompt-file", text(o.promptFile)},
      {"--max-tokens", number(o.maxTokens, count)},
      {"--temperature", number(o.sampler.temperature, real)},
      {"--top-k", number(o.sampler.topK, count)},
      {"--top-p", number(o.sampler.topP, real)},
      {"--min-p", number(o.sampler.minP, real)},
      {"--repetition-penalty", number(o.sampler.repetitionPenalty, real)},
      {"--seed",
       [&o](const std::string &value) -> const char * {
         o.seedGiven = true;
         return parseNumber(value, o.sampler.seed) ? nullptr : count;
       }},
      {"--stop",
       [&o](const std::string &value) -> const char * {
         o.stops.stopStrings.push_back(value);
         return value.empty() ? "a text that is not empty" : nullptr;
       }},
      {"--stop-id",
       [&o](const std::string &value) -> const char * {
         o.stops.stopIds.push_back(0);
         return parseNumber(value, o.stops.stopIds.back()) ? nullptr : count;
       }},
      {"--speculate",
       [&o](const std::string &value) -> const char * {
         o.speculate = value == "ngram";
         return o.speculate || value == "off" ? nullptr : "ngram or off";
       }},
      {"--draft-tokens",
       [&o](const std::string &value) -> const char * {
         constexpr uint32_t most = 64;
         return parseNumber(value, o.draftTokens) && o.draftTokens >= 1 &&
                        o.draftTokens <= most
                    ? nullptr
                    : "a number from 1 to 64";
       }},
      {"--messages", text(o.messagesFile)},
      {"--system", text(o.system)},
      {"--effort",
       [&o](const std::string &value) -> const char * {
         o.chat.thinkingEffort = value;
         return value == "low" || value == "high" || value == "max"
                    ? nullptr
                    : "low, high or max";
       }},
      {"--text", text(o.textFile)},
      {"--html", text(o.htmlFile)},
      {"--contexts",
       [&o](const std::string &value) -> const char * {
         for (size_t begin = 0; begin <= value.size();) {
           size_t end = std::min(value.find(',', begin), value.size());
           o.contexts.push_back(0);
           if (!parseNumber(value.substr(begin, end - begin),
                            o.contexts.back()))
             return "whole numbers such as 128,1024";
           begin = end + 1;
         }
         return nullptr;
       }},
      {"--against",
       [&o](const std::string &value) -> const char * {
         size_t equals = value.find('=');
         if (equals == 0 || equals >= value.size() - 1)
           return "NAME=FILE.k3a";
         o.against.push_back(
             {value.substr(0, equals), value.substr(equals + 1)});
         return nullptr;
       }},
      {"--golden", text(o.goldenFile)},
      {"--activations",
       [&o](const std::string &value) -> const char * {
         o.roundedActivations = value == "bf16";
         return value == "f32" || value == "bf16" ? nullptr : "f32 or bf16";
       }},
      {"--mean-tolerance", number(o.meanTolerance, real)},
      {"--likeliest-share", number(o.likeliestShare, real)},
      {"--logit-tolerance", number(o.logitTolerance, real)},
      {"--layer-tolerance", number(o.layerTolerance, real)},
      {"--state-tolerance", number(o.stateTolerance, real)},
      {"--loss-tolerance", number(o.lossTolerance, real)},
      {"--router-margin", number(o.routerMargin, real)},
  };
  return table;
}

/// Gives the arguments that are not options their meaning.
bool placePositionals(std::vector<std::string> positional,
                      const std::optional<ArtifactLocation> &embedded,
                      Options &options, std::string &error) {
  static const std::map<std::string, Command> commands = {
      {"generate", Command::generate},
      {"chat", Command::chat},
      {"score", Command::score},
      {"verify", Command::verify},
      {"canary", Command::canary},
      {"batch", Command::batch},
      {"replay", Command::replay}};
  size_t next = 0;
  auto command = positional.empty() ? commands.end()
                                    : commands.find(positional[0]);
  if (command != commands.end()) {
    if (options.command == Command::generate)
      options.command = command->second;
    ++next;
  }
  if (options.command == Command::help || options.command == Command::version)
    return true;
  if (embedded) {
    options.artifact = *embedded;
  } else if (next < positional.size()) {
    options.artifact.path = positional[next++];
  } else {
    error = "no artifact given (see --help)";
    return false;
  }
  if (options.command == Command::score) {
    if (next == positional.size()) {
      error = "score needs a text file (see --help)";
      return false;
    }
    options.textFile = positional[next++];
  }
  if (options.command == Command::batch) {
    if (next == positional.size()) {
      error = "batch needs a file of requests, or - (see --help)";
      return false;
    }
    options.batchInput = positional[next++];
  }
  if (options.command == Command::replay) {
    if (next == positional.size()) {
      error = "replay needs a folder that --trap-nonfinite wrote (see --help)";
      return false;
    }
    options.dumpFolder = positional[next++];
  }
  if (options.command == Command::generate && next < positional.size()) {
    if (options.prompt) {
      error = "two prompts given: --prompt '" + *options.prompt + "' and '" +
              positional[next] + "'";
      return false;
    }
    options.prompt = positional[next++];
  }
  if (next < positional.size()) {
    error = "unexpected argument '" + positional[next] + "' (see --help)";
    return false;
  }
  return true;
}

bool checkCommand(const Options &options, std::string &error) {
  if (options.command == Command::generate) {
    if (options.prompt && !options.promptFile.empty()) {
      error = "--prompt and --prompt-file exclude each other";
      return false;
    }
    if (!options.prompt && options.promptFile.empty()) {
      error = "no prompt given: use --prompt TEXT (see --help)";
      return false;
    }
  }
  if (options.command == Command::batch) {
    if (options.json && options.batchOutput == "-") {
      error = "batch --json needs -o FILE: standard output has the results";
      return false;
    }
    if (options.maxTokens == 0) {
      error = "batch wants --max-tokens of at least 1";
      return false;
    }
  }
  if (options.draftTokens != 0 && !options.speculate) {
    error = "--draft-tokens needs --speculate=ngram";
    return false;
  }
  if (options.command == Command::verify && options.goldenFile.empty()) {
    error = "verify needs --golden FILE.safetensors (see --help)";
    return false;
  }
  if (options.command == Command::chat && options.json &&
      options.messagesFile.empty()) {
    error = "chat --json needs --messages FILE.json";
    return false;
  }
  if (options.command == Command::chat && !options.messagesFile.empty() &&
      !options.system.empty()) {
    error = "--messages and --system exclude each other";
    return false;
  }
  return true;
}
} // namespace

bool parseSize(const std::string &text, uint64_t &bytes) {
  static const std::string units = "KMGT";
  if (text.empty())
    return false;
  size_t unit = units.find(text.back());
  int shift = unit == std::string::npos ? 0 : 10 * (static_cast<int>(unit) + 1);
  uint64_t value = 0;
  if (!parseNumber(text.substr(0, text.size() - (shift != 0)), value) ||
      value > UINT64_MAX >> shift)
    return false;
  bytes = value << shift;
  return true;
}

bool parseOptions(const std::vector<std::string> &arguments,
                  const std::optional<ArtifactLocation> &embedded,
                  Options &options, std::string &error) {
  OptionTable table = makeTable(options);
  std::vector<std::string> positional;
  bool onlyPositional = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string &argument = arguments[i];
    if (onlyPositional || argument.size() < 2 || argument[0] != '-') {
      positional.push_back(argument);
      continue;
    }
    if (argument == "--") {
      onlyPositional = true;
      continue;
    }
    size_t equals = argument.find('=');
    std::string name = argument.substr(0, equals);
    auto flag = table.flags.find(name);
    if (flag != table.flags.end()) {
      if (equals != std::string::npos) {
        error = name + " takes no value";
        return false;
      }
      flag->second();
      continue;
    }
    auto value = table.values.find(name);
    if (value == table.values.end()) {
      error = "unknown option '" + name + "' (see --help)";
      return false;
    }
    std::string given;
    if (equals != std::string::npos) {
      given = argument.substr(equals + 1);
    } else if (i + 1 < arguments.size()) {
      given = arguments[++i];
    } else {
      error = name + " needs a value";
      return false;
    }
    if (const char *wanted = value->second(given)) {
      error = name + " wants " + wanted + ", got '" + given + "'";
      return false;
    }
  }
  return placePositionals(std::move(positional), embedded, options, error) &&
         (options.command == Command::help ||
          options.command == Command::version || checkCommand(options, error));
}

std::string helpText(const std::string &program, bool embedded) {
  std::string model = embedded ? "" : " MODEL.k3a";
  std::string usage;
  auto line = [&](const std::string &before, const std::string &after,
                  const char *meaning) {
    std::string call = "  " + program + before + model + after;
    call.resize(std::max<size_t>(call.size() + 2, program.size() + 36), ' ');
    usage += call + meaning + "\n";
  };
  line("", " \"Once upon a time\"", "continue a text");
  line("", " --prompt TEXT", "the same");
  line(" chat", "", "talk with the model");
  line(" chat", " --messages FILE", "answer the messages in a JSON file");
  line(" score", " FILE", "how well the model predicts a text");
  line(" verify", " --golden FILE", "compare with golden values");
  line(" canary", "", "a report before rollout: memory, latency, routing, drift");
  line(" batch", " IN.jsonl -o OUT.jsonl", "answer many requests at the same time");
  line(" replay", " FOLDER", "run a step again that went wrong");
  line(" --plan", "", "memory it needs; loads nothing");
  return "Runs a compiled Kimi model" +
         std::string(embedded ? " (this program has one inside)" : "") +
         ".\n\nUsage:\n" + usage +
         "\n"
         "Options may stand anywhere, as --name VALUE or --name=VALUE.\n"
         "\n"
         "Text:\n"
         "  --prompt TEXT           text to continue\n"
         "  --prompt-file FILE      the same from a file, - for standard input\n"
         "  --max-tokens N          most tokens to generate (256)\n"
         "  --specials              names like <|open|> in the prompt are special tokens\n"
         "  --no-bos                do not put the begin token before the prompt\n"
         "Choosing tokens (default: as the model's own probabilities say):\n"
         "  --greedy                always the likeliest token\n"
         "  --temperature T         below 1 bolder for likely tokens, 0 = greedy (1)\n"
         "  --top-k K               only the K likeliest tokens, 0 = all (0)\n"
         "  --top-p P               only the likeliest tokens that reach probability P (1)\n"
         "  --min-p P               only tokens at least P times as likely as the likeliest (0)\n"
         "  --repetition-penalty R  above 1: avoid tokens that occurred (1)\n"
         "  --seed N                same seed, same text (a new one each time)\n"
         "Stopping:\n"
         "  --stop TEXT             end before this text; may be given several times\n"
         "  --stop-id ID            end at this token; may be given several times\n"
         "  --ignore-eos            do not end at the model's end tokens\n"
         "Speculation (the same answers, faster where they repeat what was there before):\n"
         "  --speculate ngram|off   guess what follows from where the last tokens occurred before,\n"
         "                          and check all guesses in one step (off)\n"
         "  --draft-tokens N        guesses of a step at most (5)\n"
         "Chat:\n"
         "  --messages FILE         JSON: an array of {\"role\", \"content\"}, or an object with\n"
         "                          \"messages\" and \"tools\"\n"
         "  --system TEXT           instructions for the whole conversation\n"
         "  --no-think              answer without reasoning first\n"
         "  --effort low|high|max   how much to reason (max)\n"
         "Machine:\n"
         "  --device NAME           cpu, or cuda:0 for the first NVIDIA GPU (cpu)\n"
         "  --threads N             threads to use (all cores)\n"
         "  --memory-limit SIZE     for states, caches and scratch memory, on a GPU for weights\n"
         "                          too, e.g. 512M, 2G\n"
         "  --context N             longest sequence, prompt and answer (4096)\n"
         "  --prefill-window N      prompt tokens per step\n"
         "  --weights-dir DIR       where weight files outside the artifact are\n"
         "  --max-sequences N       sequences at the same time (batch: 16)\n"
         "  --prefix-cache SIZE     for states of prompts that others begin with (0)\n"
         "  --verify-weights        check the hashes of weights first (embedded or packed)\n"
         "  --deterministic         the same bits whatever runs at the same time and however prompts\n"
         "                          are cut (needs k3-compile --deterministic; slower prompts)\n"
         "  --trap-nonfinite DIR    when NaN or infinity comes up, say which kernel wrote it and\n"
         "                          write the step to DIR (slow)\n"
         "  --poison                fill scratch memory with NaN (finds faults, slow)\n"
         "  --no-graph              GPU: launch kernel by kernel (finds faults, slow)\n"
         "  --no-cublas             GPU: own kernels for large products too, where there is cuBLASLt\n"
         "  --all-cublas            GPU: cuBLASLt for small products of prefill too (finds faults)\n"
         "Batch (a request is a JSON object on a line, docs/json.md; started again, it goes on):\n"
         "  -o FILE                 where results go (standard output)\n"
         "  --unordered             write results as they come, not in the order of requests\n"
         "  --overwrite             begin anew where FILE has results\n"
         "  --token-budget N        rows of a step, prompts and answers (--prefill-window)\n"
         "  --prefix-interval N     keep the state of prompts every N tokens (256)\n"
         "Verify:\n"
         "  --activations TYPE      f32: by the tolerances below; bf16: by the mean of logit\n"
         "                          errors, most likely tokens and the loss (0.005), since\n"
         "                          single values say little then (f32)\n"
         "  --mean-tolerance E      bf16: mean absolute error of the logits (0.05)\n"
         "  --likeliest-share S     bf16: share of equal most likely tokens of a prompt (0.975)\n"
         "  --logit-tolerance E     absolute (1e-4)\n"
         "  --layer-tolerance E     relative, per layer (1e-5)\n"
         "  --state-tolerance E     absolute (5e-5)\n"
         "  --loss-tolerance E      nats per token (1e-4)\n"
         "  --router-margin E       other experts are allowed within this margin (1e-5)\n"
         "Canary:\n"
         "  --text FILE             text to measure with (one the model writes itself)\n"
         "  --contexts N,N,...      prompt lengths for latencies (16, 64, 256, ...)\n"
         "  --against NAME=FILE     another artifact of the model, e.g. compiled with other products,\n"
         "                          to report the drift of; may be given several times\n"
         "  --html FILE             also write the report as a page with plots\n"
         "Output:\n"
         "  --json                  one JSON object on standard output (docs/json.md)\n"
         "  --help, --version\n"
         "\n"
         "Text goes to standard output, statistics and errors to standard error. Exit code 1\n"
         "after any error, also when verify finds a difference.\n";
}

} // namespace k3run
