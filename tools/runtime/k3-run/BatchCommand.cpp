//===- BatchCommand.cpp - k3-run batch ----------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Reads requests as they are needed, so that neither a long input nor its results
// fill the memory, keeps the scheduler busy and writes results.
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/BatchOutput.h"
#include "tools/runtime/k3-run/BatchRequest.h"
#include "tools/runtime/k3-run/Commands.h"
#include "tools/runtime/k3-run/ProgressLine.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <istream>
#include <ostream>

namespace k3run {

namespace {
using Json = nlohmann::ordered_json;

/// A request in progress, and its answer.
struct Job {
  BatchRequest request;
  std::unique_ptr<TextSource> source;
  AnswerText *chat = nullptr; ///< `source`, if it is one
  StoppedText answer;
  std::vector<int32_t> tokens;
  std::string failure;
  bool cancelled = false; ///< by this program: it has what it needs
};

struct Counts {
  uint64_t results = 0, failed = 0, bad = 0, kept = 0;
  uint64_t promptTokens = 0, reusedTokens = 0, tokens = 0;
  uint64_t draftedTokens = 0, acceptedTokens = 0;
  uint64_t answers = 0, generated = 0; ///< with a token at least, and all of theirs
  std::vector<double> firstTokenMs; ///< of every answer, from its start
};

/// Of the answers as if they were one after the other: see tokensPerStep.
double tokensPerStep(const Counts &counts) {
  uint64_t later = counts.generated - counts.answers;
  uint64_t accepted = std::min(counts.acceptedTokens, later);
  return later == accepted ? 0
                           : static_cast<double>(later) /
                                 static_cast<double>(later - accepted);
}

double meanOf(const std::vector<double> &values) {
  double sum = 0;
  for (double value : values)
    sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

/// The smallest value that `share` of all do not exceed.
double quantileOf(std::vector<double> values, double share) {
  if (values.empty())
    return 0;
  auto at = static_cast<size_t>(
      std::ceil(share * static_cast<double>(values.size())));
  at = std::max<size_t>(at, 1) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(at),
                   values.end());
  return values[at];
}

const char *nameOf(int32_t finish) {
  switch (finish) {
  case K3RT_FINISH_STOP:
    return "stop";
  case K3RT_FINISH_LENGTH:
    return "length";
  case K3RT_FINISH_CONTEXT:
    return "context";
  default:
    return "error";
  }
}

class Batch {
public:
  Batch(const Options &options, Streams &streams)
      : options(options), streams(streams),
        progress(streams.err, streams.showProgress) {}
  ~Batch() { k3rt_scheduler_free(scheduler); }

  bool run(std::string &error);
  const Counts &result() const { return counts; }
  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

private:
  bool open(std::string &error);
  void countLines();
  bool readLine(std::string &line, std::string &error);
  bool submitMore(std::string &error);
  bool submit(const std::string &line, std::string &error);
  void take(const k3rt_request_event &event);
  bool writeResult(const Job &job, const k3rt_request_event *event,
                   std::string &error);
  void showProgress(uint64_t running);

  const Options &options;
  Streams &streams;
  ProgressLine progress;
  Engine engine;
  BatchOutput output;
  std::ifstream file;
  std::istream *input = nullptr;
  uint64_t numLines = 0, totalLines = 0; ///< read so far; all, 0 = not known
  bool inputEnded = false;

  k3rt_scheduler *scheduler = nullptr;
  std::map<k3rt_request, Job> jobs;
  std::string writeError;
  Counts counts;
  Clock::time_point begin;
};

bool Batch::open(std::string &error) {
  if (options.batchInput == "-") {
    input = &streams.in;
  } else {
    file.open(options.batchInput, std::ios::binary);
    // A directory opens and then cannot be read.
    if (!file || (file.peek(), file.bad())) {
      error = options.batchInput + ": cannot be read";
      return false;
    }
    file.clear();
    input = &file;
  }
  if (!engine.open(options, error) || !engine.needTokenizer(error) ||
      !output.open(options.batchOutput, streams.out, options.overwrite,
                   options.unordered, error))
    return false;
  countLines();
  k3rt_scheduler_options settings;
  k3rt_scheduler_options_init(&settings);
  settings.token_budget = options.tokenBudget;
  settings.max_running = sequencesAtATime(options);
  settings.prefix_interval = options.prefixInterval;
  settings.on_event = [](void *self, const k3rt_request_event *event) {
    static_cast<Batch *>(self)->take(*event);
  };
  settings.user = this;
  begin = Clock::now();
  return engine.check(
      k3rt_scheduler_create(engine.handle(), &settings, &scheduler), error);
}

void Batch::countLines() {
  if (!streams.showProgress || input == &streams.in)
    return;
  std::string line;
  while (std::getline(file, line))
    ++totalLines;
  file.clear();
  file.seekg(0);
}

bool Batch::readLine(std::string &line, std::string &error) {
  if (!inputEnded && std::getline(*input, line)) {
    ++numLines;
    return true;
  }
  inputEnded = true;
  if (input->bad())
    error = options.batchInput + ": cannot be read";
  return false;
}

/// Enough requests for the scheduler to choose from; with ordered output, no
/// more than a slow one may hold back.
bool Batch::submitMore(std::string &error) {
  size_t most = std::max<size_t>(64, 4 * uint64_t(sequencesAtATime(options)));
  constexpr size_t mostHeld = 1024;
  std::string line;
  while (jobs.size() < most && output.held() < mostHeld) {
    if (!readLine(line, error))
      return error.empty();
    if (line.find_first_not_of(" \t\r") == std::string::npos)
      continue;
    if (!submit(line, error))
      return false;
  }
  return true;
}

bool Batch::submit(const std::string &line, std::string &error) {
  Job job;
  std::string problem;
  if (!readBatchRequest(line, options, engine, job.request, problem)) {
    progress.clear();
    streams.err << options.batchInput << ":" << numLines << ": " << problem
                << std::endl;
    ++counts.bad;
    return true;
  }
  BatchRequest &request = job.request;
  request.line = numLines;
  bool done;
  if (!output.isDone(numLines, request.hash, done, error))
    return false;
  if (done) {
    ++counts.kept;
    return true;
  }
  output.expect(numLines);

  const k3rt::Tokenizer &tokenizer = engine.tokenizer();
  if (request.isChat) {
    auto chat = std::make_unique<AnswerText>(
        tokenizer, *k3rt::detectChatFormat(tokenizer), request.thinking,
        nullptr);
    job.chat = chat.get();
    job.source = std::move(chat);
  } else {
    job.source = std::make_unique<PlainText>(tokenizer);
  }
  if (!job.answer.init(*job.source, request.settings.stops, error))
    return false;

  const GenerationSettings &settings = request.settings;
  k3rt_sampling sampling = samplingOf(settings.sampler);
  k3rt_request_options submitted;
  k3rt_request_options_init(&submitted);
  submitted.prompt = request.prompt.data();
  submitted.num_prompt = request.prompt.size();
  submitted.max_tokens = settings.maxTokens;
  submitted.sampling = &sampling;
  submitted.stop_ids = settings.stops.stopIds.data();
  submitted.num_stop_ids = settings.stops.stopIds.size();
  submitted.banned_ids = settings.sampler.bannedIds.data();
  submitted.num_banned_ids = settings.sampler.bannedIds.size();
  submitted.priority = request.priority;
  submitted.max_draft = options.mostDrafted();
  k3rt_request id = 0;
  char message[512] = "";
  if (k3rt_scheduler_submit(scheduler, &submitted, &id, message,
                            sizeof(message)) != K3RT_OK) {
    job.failure = message;
    return writeResult(job, nullptr, error);
  }
  // The scheduler has its own copy.
  request.prompt = {};
  jobs.emplace(id, std::move(job));
  return true;
}

void Batch::take(const k3rt_request_event &event) {
  auto found = jobs.find(event.request);
  Job &job = found->second;
  std::string certain;
  if (event.token >= 0 && !job.cancelled) {
    job.tokens.push_back(event.token);
    bool done = !job.answer.push(event.token, certain, job.failure) ||
                job.answer.stopped();
    // It goes on until the next step; what it says until then is left out.
    if (done && event.finish == K3RT_NOT_FINISHED) {
      job.cancelled = true;
      k3rt_scheduler_cancel(scheduler, event.request);
    }
  }
  if (event.finish == K3RT_NOT_FINISHED)
    return;
  if (event.finish == K3RT_FINISH_FAILED && !job.cancelled)
    job.failure = event.error;
  if (job.failure.empty())
    job.answer.finish(certain);
  if (writeError.empty() && !writeResult(job, &event, writeError))
    writeError = writeError.empty() ? "cannot write" : writeError;
  jobs.erase(found);
}

bool Batch::writeResult(const Job &job, const k3rt_request_event *event,
                        std::string &error) {
  Json result;
  result["line"] = job.request.line;
  if (!job.request.id.is_null())
    result["id"] = job.request.id;
  result["text"] = job.answer.text();
  if (job.chat) {
    result["reasoning"] = job.chat->reasoning;
    result["tool_calls_text"] = job.chat->toolCalls;
  }
  result["tokens"] = job.tokens;
  bool failed = !job.failure.empty();
  result["finish_reason"] = failed                 ? "error"
                            : job.answer.stopped() ? "stop"
                                                   : nameOf(event->finish);
  if (failed)
    result["error"] = job.failure;
  uint64_t promptTokens =
      event ? event->prompt_tokens : job.request.prompt.size();
  result["prompt_tokens"] = promptTokens;
  result["reused_tokens"] = event ? event->reused_tokens : 0;
  if (!job.request.settings.sampler.greedy &&
      job.request.settings.sampler.temperature > 0)
    result["seed"] = job.request.settings.sampler.seed;
  if (event) {
    result["start_ms"] = event->start_seconds * 1e3;
    result["first_token_ms"] = event->first_token_seconds * 1e3;
    result["ms"] = event->seconds * 1e3;
    if (options.mostDrafted() != 0) {
      result["drafted_tokens"] = event->drafted_tokens;
      result["accepted_tokens"] = event->accepted_tokens;
    }
    counts.promptTokens += event->prompt_tokens;
    counts.reusedTokens += event->reused_tokens;
    counts.draftedTokens += event->drafted_tokens;
    counts.acceptedTokens += event->accepted_tokens;
    if (event->num_tokens != 0) {
      ++counts.answers;
      counts.generated += event->num_tokens;
      counts.firstTokenMs.push_back(
          (event->first_token_seconds - event->start_seconds) * 1e3);
    }
  }
  result["request_hash"] = job.request.hash;
  ++counts.results;
  counts.failed += failed;
  counts.tokens += job.tokens.size();
  return output.write(job.request.line, result, error);
}

void Batch::showProgress(uint64_t running) {
  char note[128];
  std::snprintf(note, sizeof(note), "%.0f tokens/s  %llu running",
                static_cast<double>(counts.tokens) / std::max(seconds(), 1e-3),
                static_cast<unsigned long long>(running));
  progress.show(counts.results + counts.kept + counts.bad, totalLines, note);
}

bool Batch::run(std::string &error) {
  if (!open(error))
    return false;
  for (;;) {
    if (!submitMore(error))
      return false;
    if (jobs.empty() && inputEnded)
      return true;
    k3rt_scheduler_report report = {};
    report.size = sizeof(report);
    if (!engine.check(k3rt_scheduler_step(scheduler, &report), error))
      return false;
    if (!writeError.empty()) {
      error = writeError;
      return false;
    }
    if (report.rows == 0 && report.waiting != 0) {
      error = std::string("no request can start: ") + report.waiting_for;
      return false;
    }
    showProgress(report.running);
  }
}
} // namespace

bool runBatch(const Options &options, Streams &streams, std::string &error) {
  Counts counts;
  double seconds;
  {
    Batch batch(options, streams);
    if (!batch.run(error))
      return false;
    counts = batch.result();
    seconds = batch.seconds();
  }
  double rate = static_cast<double>(counts.tokens) / std::max(seconds, 1e-6);
  if (options.json) {
    Json json;
    json["results"] = counts.results;
    json["failed"] = counts.failed;
    json["bad_lines"] = counts.bad;
    json["kept"] = counts.kept;
    json["prompt_tokens"] = counts.promptTokens;
    json["reused_tokens"] = counts.reusedTokens;
    json["tokens"] = counts.tokens;
    json["seconds"] = seconds;
    json["tokens_per_s"] = rate;
    json["first_token_ms"] = {{"mean", meanOf(counts.firstTokenMs)},
                              {"median", quantileOf(counts.firstTokenMs, 0.5)},
                              {"p95", quantileOf(counts.firstTokenMs, 0.95)}};
    json["drafted_tokens"] = counts.draftedTokens;
    json["accepted_tokens"] = counts.acceptedTokens;
    json["tokens_per_step"] = tokensPerStep(counts);
    json["peak_rss_bytes"] = peakMemory();
    streams.out << json.dump() << '\n';
  } else {
    char line[256];
    std::snprintf(
        line, sizeof(line),
        "%llu results in %.3f s; %llu prompt tokens (%llu reused), first token "
        "%.1f ms after the start; %llu tokens, %.1f tokens/s; %.0f MB",
        static_cast<unsigned long long>(counts.results), seconds,
        static_cast<unsigned long long>(counts.promptTokens),
        static_cast<unsigned long long>(counts.reusedTokens),
        quantileOf(counts.firstTokenMs, 0.5),
        static_cast<unsigned long long>(counts.tokens), rate,
        static_cast<double>(peakMemory()) / 1e6);
    streams.err << line;
    if (counts.draftedTokens != 0) {
      std::snprintf(line, sizeof(line),
                    "; %llu guesses, %llu right, %.2f tokens a step",
                    static_cast<unsigned long long>(counts.draftedTokens),
                    static_cast<unsigned long long>(counts.acceptedTokens),
                    tokensPerStep(counts));
      streams.err << line;
    }
    if (counts.kept != 0)
      streams.err << "; " << counts.kept << " results were there";
    streams.err << '\n';
  }
  if (counts.failed == 0 && counts.bad == 0)
    return true;
  error = std::to_string(counts.failed) + " of " +
          std::to_string(counts.results) + " requests failed, " +
          std::to_string(counts.bad) + " lines are no requests";
  return false;
}

} // namespace k3run
