//===- RandomRequests.cpp - a day of requests, faster ---------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/soak/RandomRequests.h"
#include "test/soak/Check.h"

namespace soak {

constexpr uint32_t budget = 24; // rows of a step

RandomRequests::RandomRequests(Subject &subject)
    : subject(subject), random(subject.chosen().seed), prompts(subject) {
  // Slots that are fought for, or many streams side by side.
  bool isCrowded = subject.chosen().seed % 2 != 0;
  uint32_t slots = isCrowded ? 10 : 56;
  inProgress = isCrowded ? 64 : 48;
  std::string folder = subject.folder();
  k3rt_engine_options options = subject.engineOptions();
  options.max_sequences = slots;
  options.prefix_cache_bytes = 5 * subject.sequenceBytes();
  options.prefix_spill_dir = folder.c_str();
  options.prefix_spill_bytes = 10 * subject.sequenceBytes();
  // Half of what the sequences could fill.
  engine = subject.open(options, slots * subject.pagesPerSequence() / 2,
                        budget);
  k3rt_scheduler_options scheduling;
  k3rt_scheduler_options_init(&scheduling);
  scheduling.token_budget = budget;
  scheduling.prefix_interval = 18; // inside of pages
  // What is left of the slots is for marks of drafts.
  scheduling.max_running = isCrowded ? 7 : 48;
  scheduling.user = this;
  scheduling.on_event = [](void *self, const k3rt_request_event *event) {
    static_cast<RandomRequests *>(self)->take(*event);
  };
  SOAK_CHECK(k3rt_scheduler_create(engine, &scheduling, &scheduler) == K3RT_OK,
             "%s", errorOf(engine).c_str());
}

RandomRequests::~RandomRequests() {
  k3rt_scheduler_free(scheduler);
  k3rt_engine_close(engine);
}

/// What the toy model would say next, mostly: it never repeats itself, so there
/// is nothing to look up.
uint32_t RandomRequests::draft(const int32_t *seen, uint64_t count,
                               int32_t *out, uint32_t most) {
  toy::Oracle oracle;
  Logits logits;
  for (uint64_t i = 0; i < count; ++i)
    logits = oracle.next(seen[i]);
  auto wanted = uint32_t(below(most + 1));
  for (uint32_t i = 0; i < wanted; ++i) {
    auto end = logits.begin() + subject.plainTokens();
    out[i] = below(4) == 0
                 ? int32_t(below(size_t(subject.plainTokens())))
                 : int32_t(std::max_element(logits.begin(), end) -
                           logits.begin());
    logits = oracle.next(out[i]);
  }
  return wanted;
}

static constexpr int32_t banned[] = {toy::nanToken, toy::failToken};

void RandomRequests::submit() {
  Request request;
  // Also the next turns of one conversation, at the same time.
  request.prompt = before.tokens.empty() || below(3) != 0
                       ? prompts.next()
                       : prompts.next(before, beforeAnswer);
  request.broken = subject.isToy() && below(100) == 0;
  if (request.broken)
    request.prompt.tokens.back() = toy::nanToken;
  request.maxTokens = 1 + below(30);
  k3rt_sampling_init(&request.sampling);
  request.sampling.temperature =
      below(2) == 0 ? 0 : subject.isToy() ? 300 : 0.8f;
  request.sampling.seed = random();
  request.sampling.top_k = uint32_t(below(3) * 4);
  request.cancel = below(4) == 0;
  request.stepsLeft = below(60);

  k3rt_request_options options;
  k3rt_request_options_init(&options);
  options.prompt = request.prompt.tokens.data();
  options.num_prompt = request.prompt.tokens.size();
  options.max_tokens = request.maxTokens;
  options.sampling = &request.sampling;
  options.priority = int32_t(below(3));
  options.max_draft = uint32_t(below(3) * 2);
  if (subject.isToy()) {
    options.banned_ids = banned;
    options.num_banned_ids = 2;
    options.draft_user = this;
    options.draft = [](void *self, const int32_t *seen, uint64_t count,
                       int32_t *out, uint32_t most) {
      return static_cast<RandomRequests *>(self)->draft(seen, count, out, most);
    };
  }
  k3rt_request id = 0;
  char error[256] = "";
  SOAK_CHECK(k3rt_scheduler_submit(scheduler, &options, &id, error, 256) ==
                 K3RT_OK,
             "%s", error);
  requests.emplace(id, std::move(request));
}

void RandomRequests::take(const k3rt_request_event &event) {
  auto found = requests.find(event.request);
  SOAK_CHECK(found != requests.end(), "an event of no one");
  Request &request = found->second;
  if (event.token >= 0)
    request.answer.push_back(event.token);
  if (event.finish == K3RT_NOT_FINISHED)
    return;
  check(request, event);
  requests.erase(found);
}

void RandomRequests::check(const Request &request,
                           const k3rt_request_event &event) {
  tokens += request.answer.size();
  reused += event.reused_tokens;
  accepted += event.accepted_tokens;
  if (event.finish == K3RT_FINISH_FAILED) {
    SOAK_CHECK(request.broken && request.answer.empty(), "request %llu: %s",
               Word(event.request), event.error);
    ++failed;
    return;
  }
  SOAK_CHECK(!request.broken || event.finish == K3RT_FINISH_CANCELLED,
             "request %llu has NaN and an answer", Word(event.request));
  if (event.finish == K3RT_FINISH_CANCELLED) {
    SOAK_CHECK(request.cancel, "nobody cancelled %llu", Word(event.request));
    ++cancelled;
  } else {
    SOAK_CHECK(request.answer.size() == request.maxTokens,
               "request %llu: %zu tokens", Word(event.request),
               request.answer.size());
    ++answered;
  }
  prompts.look(request.prompt, request.answer);
  if (!request.broken && below(4) == 0) {
    before = request.prompt;
    beforeAnswer = request.answer;
  }
  // Alone costs as much again: for artifacts, one in four.
  if (!request.answer.empty() && !request.broken &&
      (subject.isToy() || event.request % 4 == 0))
    compare(request);
}

/// What there is of the answer is that of the request alone.
void RandomRequests::compare(const Request &request) {
  bool isExact = subject.chosen().tolerance == 0;
  if (!isExact && request.sampling.temperature != 0)
    return; // the smallest difference may choose another token
  ++compared;
  const Tokens &prompt = request.prompt.tokens;
  Tokens history = prompt;
  history.insert(history.end(), request.answer.begin(),
                 request.answer.end() - 1);
  std::vector<Logits> rows = subject.logitsOf(history, prompt.size() - 1);
  k3rt_sampling sampling = request.sampling;
  for (size_t i = 0; i < request.answer.size(); ++i) {
    if (subject.isToy())
      for (int32_t token : banned)
        rows[i][size_t(token)] = -1e30f;
    int32_t got = request.answer[i], want = -1;
    sampling.step = i;
    SOAK_CHECK(k3rt_sample(subject.reference(), rows[i].data(), &sampling,
                           &want) == K3RT_OK,
               "%s", errorOf(subject.reference()).c_str());
    // Closer than what may be between two runs: either is right.
    bool right = got == want || (!isExact && rows[i][size_t(want)] -
                                                     rows[i][size_t(got)] <=
                                                 2 * subject.chosen().tolerance);
    SOAK_CHECK(right, "token %zu of an answer is %d, alone it is %d", i, got,
               want);
  }
}

void RandomRequests::run() {
  ++steps;
  while (!closing && requests.size() < inProgress && below(3) != 0)
    submit();
  for (auto &[id, request] : requests)
    if (request.cancel && request.stepsLeft-- == 0)
      SOAK_CHECK(k3rt_scheduler_cancel(scheduler, id) == K3RT_OK, "cancel");
  k3rt_scheduler_report report = {};
  report.size = sizeof(report);
  SOAK_CHECK(k3rt_scheduler_step(scheduler, &report) == K3RT_OK, "%s",
             errorOf(engine).c_str());
  SOAK_CHECK(report.rows != 0 || report.running + report.waiting == 0,
             "nothing runs: %s", report.waiting_for);
  SOAK_CHECK(report.running + report.waiting == requests.size(),
             "%llu run, %llu wait, there are %zu", Word(report.running),
             Word(report.waiting), requests.size());
}

void RandomRequests::drain() {
  closing = true;
  for (int guard = 0; !requests.empty(); ++guard) {
    SOAK_CHECK(guard < 100000, "requests do not come to an end");
    run();
  }
  closing = false;
  k3rt_stats stats = statsOf(engine);
  SOAK_CHECK(stats.live_sequences == 0 && stats.reserved_pages == 0 &&
                 stats.used_pages == stats.cached_pages,
             "left over: %llu sequences, %llu pages", Word(stats.live_sequences),
             Word(stats.used_pages - stats.cached_pages));
}

Counts RandomRequests::counts() const {
  k3rt_prefix_stats stats = {};
  stats.size = sizeof(stats);
  k3rt_prefix_stats_get(engine, &stats);
  return {{"steps", steps},
          {"answered", answered},
          {"cancelled", cancelled},
          {"failed", failed},
          {"compared", compared},
          {"tokens", tokens},
          {"reused", reused},
          {"drafted", accepted},
          {"evicted", stats.evictions},
          {"spilled", stats.spills},
          {"read back", stats.spill_loads},
          {"markers looked for", prompts.seen()},
          {"own markers", prompts.own()}};
}

} // namespace soak
