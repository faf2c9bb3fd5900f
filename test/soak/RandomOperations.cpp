//===- RandomOperations.cpp - any call at any time, against a model ------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/soak/RandomOperations.h"
#include "test/soak/Check.h"

#include <limits>

namespace soak {

constexpr uint32_t slots = 12;
/// Room for a third of what all slots could hold.
static uint64_t pagesFor(const Subject &subject) {
  return slots * subject.pagesPerSequence() / 3;
}
constexpr size_t longestStep = 20;
constexpr size_t mostRequests = 6;

RandomOperations::RandomOperations(Subject &subject)
    : subject(subject), context(subject.context()),
      random(subject.chosen().seed),
      texts(24, context, subject.plainTokens(), subject.chosen().seed + 1) {
  std::string folder = subject.folder();
  k3rt_engine_options options = subject.engineOptions();
  options.max_sequences = slots;
  // Of whole sequences.
  options.snapshot_limit = 12 * subject.sequenceBytes();
  options.prefix_cache_bytes = 7 * subject.sequenceBytes();
  options.prefix_spill_dir = folder.c_str();
  options.prefix_spill_bytes = 12 * subject.sequenceBytes();
  engine = subject.open(options, pagesFor(subject), slots * longestStep);
  k3rt_scheduler_options scheduling;
  k3rt_scheduler_options_init(&scheduling);
  scheduling.token_budget = 24;
  scheduling.prefix_interval = 10;
  scheduling.max_running = 4;
  scheduling.user = this;
  scheduling.on_event = [](void *self, const k3rt_request_event *event) {
    static_cast<RandomOperations *>(self)->take(*event);
  };
  SOAK_CHECK(k3rt_scheduler_create(engine, &scheduling, &scheduler) == K3RT_OK,
             "%s", error().c_str());
}

RandomOperations::~RandomOperations() {
  k3rt_scheduler_free(scheduler);
  k3rt_engine_close(engine);
}

bool RandomOperations::worked(k3rt_status status) {
  SOAK_CHECK(status == K3RT_OK || status == K3RT_OUT_OF_MEMORY, "%d, %s",
             int(status), error().c_str());
  outOfMemory += status != K3RT_OK;
  return status == K3RT_OK;
}

RandomOperations::Live *RandomOperations::any() {
  return live.empty() ? nullptr : &live[below(live.size())];
}

RandomOperations::Kept *RandomOperations::anyKept() {
  return kept.empty() ? nullptr : &kept[below(kept.size())];
}

static void append(Tokens &to, const Tokens &tokens) {
  to.insert(to.end(), tokens.begin(), tokens.end());
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

void RandomOperations::create() {
  Live made;
  if (!worked(k3rt_sequence_create(engine, &made.handle)))
    return;
  if (below(2) == 0) {
    Tokens tokens = texts.beginning(1 + below(context));
    uint64_t length = 0;
    if (worked(k3rt_prefix_attach(engine, made.handle, tokens.data(),
                                  tokens.size(), &length))) {
      SOAK_CHECK(length < tokens.size(), "reused %llu of %zu", Word(length),
                 tokens.size());
      made.seen.assign(tokens.begin(), tokens.begin() + long(length));
      reused += length;
    }
  }
  live.push_back(std::move(made));
  checkStates(live.back());
}

/// Any of the sequences, each with any number of tokens.
void RandomOperations::step() {
  std::vector<size_t> chosen;
  std::vector<Tokens> tokens;
  std::vector<int> which;
  for (size_t i = 0; i < live.size(); ++i)
    if (!live[i].failed && below(2) != 0) {
      chosen.push_back(i);
      // Windows of prompts, none included, and single tokens.
      size_t count = below(4) == 0 ? below(longestStep + 1) : below(8) != 0;
      tokens.push_back(texts.after(live[i].seen, count));
      which.push_back(int(below(4)) - 1); // logits of none, the last, all
    }
  std::vector<k3rt_batch_row> rows;
  for (size_t i = 0; i < chosen.size(); ++i)
    rows.push_back({live[chosen[i]].handle, tokens[i].data(), tokens[i].size(),
                    which[i]});
  k3rt_batch batch = {rows.data(), uint32_t(rows.size())};
  k3rt_step_result result = {};
  if (!worked(k3rt_step(engine, &batch, &result)))
    return;
  for (size_t i = 0; i < chosen.size(); ++i) {
    Live &one = live[chosen[i]];
    append(one.seen, tokens[i]);
    tokensRun += tokens[i].size();
    size_t count = which[i] < 0    ? 0
                   : which[i] == 0 ? std::min<size_t>(tokens[i].size(), 1)
                                   : tokens[i].size();
    SOAK_CHECK(result.first_row[i + 1] - result.first_row[i] == count,
               "%zu rows of logits are missing", count);
    subject.checkLogits(
        one.seen, result.logits + result.first_row[i] * result.vocab_size,
        count);
    if (below(8) == 0)
      checkStates(one);
  }
}

/// NaN in one of two sequences of a step, or a kernel that fails both.
void RandomOperations::breakOne() {
  Live *sick = any(), *other = any();
  if (!sick || sick == other || sick->failed || other->failed ||
      sick->seen.size() + 3 > context || other->seen.size() + 1 > context)
    return;
  bool kernel = subject.isToy() && below(3) == 0;
  Tokens tokens = {1, 3, 2}, beside = texts.after(other->seen, 1);
  if (subject.isToy()) {
    tokens[1] = kernel ? toy::failToken : toy::nanToken;
  } else {
    auto [layer, name] = subject.stateNames()[0];
    uint64_t count = 0;
    k3rt_sequence_read_state(engine, sick->handle, layer, name, nullptr, &count);
    std::vector<float> values(count, 1);
    values[below(count)] = std::numeric_limits<float>::quiet_NaN();
    SOAK_CHECK(k3rt_sequence_write_state(engine, sick->handle, layer, name,
                                         values.data(), count) == K3RT_OK,
               "%s", error().c_str());
  }
  k3rt_batch_row rows[] = {{sick->handle, tokens.data(), 3, 0},
                           {other->handle, beside.data(), 1, 0}};
  k3rt_batch batch = {rows, 2};
  k3rt_step_result result = {};
  k3rt_status status = k3rt_step(engine, &batch, &result);
  if (status == K3RT_OUT_OF_MEMORY) {
    // Its state has been written to.
    SOAK_CHECK(k3rt_sequence_free(engine, sick->handle) == K3RT_OK, "free");
    live.erase(live.begin() + (sick - live.data()));
    return;
  }
  SOAK_CHECK(status == (kernel ? K3RT_INTERNAL : K3RT_NON_FINITE), "%d: %s",
             int(status), error().c_str());
  ++broken;
  sick->failed = true;
  if (kernel) {
    other->failed = true;
    return;
  }
  SOAK_CHECK(result.row_status[0] == K3RT_NON_FINITE &&
                 result.row_status[1] == K3RT_OK,
             "whose fault it is");
  append(other->seen, beside);
  subject.checkLogits(other->seen,
                      result.logits + result.first_row[1] * result.vocab_size,
                      1);
}

void RandomOperations::fork() {
  Live *source = any();
  if (!source)
    return;
  Live made;
  k3rt_status status =
      k3rt_sequence_fork(engine, source->handle, &made.handle);
  if (source->failed) {
    SOAK_CHECK(status == K3RT_INVALID_ARGUMENT, "a fork of a failed sequence");
    return;
  }
  if (!worked(status))
    return;
  made.seen = source->seen;
  live.push_back(std::move(made));
  checkStates(live.back());
}

void RandomOperations::keep() {
  Live *source = any();
  if (!source)
    return;
  Kept made;
  k3rt_status status =
      k3rt_sequence_snapshot(engine, source->handle, &made.handle);
  if (source->failed) {
    SOAK_CHECK(status == K3RT_INVALID_ARGUMENT,
               "a snapshot of a failed sequence");
    return;
  }
  if (!worked(status))
    return;
  made.seen = source->seen;
  kept.push_back(std::move(made));
}

void RandomOperations::bringBack() {
  Live *target = any();
  Kept *from = anyKept();
  if (!target || !from ||
      !worked(k3rt_sequence_restore(engine, target->handle, from->handle)))
    return;
  target->seen = from->seen;
  target->failed = false;
  target->mark.reset();
  checkStates(*target);
}

void RandomOperations::dropKept() {
  if (Kept *one = anyKept()) {
    SOAK_CHECK(worked(k3rt_snapshot_free(engine, one->handle)), "free");
    kept.erase(kept.begin() + (one - kept.data()));
  }
}

void RandomOperations::save() {
  Kept *one = anyKept();
  if (!one)
    return;
  constexpr size_t mostFiles = 4;
  std::string path =
      subject.folder() + "kept-" + std::to_string(below(mostFiles));
  SOAK_CHECK(k3rt_snapshot_save(engine, one->handle, path.c_str()) == K3RT_OK,
             "%s", error().c_str());
  ++filesWritten;
  for (SavedFile &file : files)
    if (file.path == path) {
      file.seen = one->seen;
      return;
    }
  files.push_back({path, one->seen});
}

void RandomOperations::load() {
  if (files.empty())
    return;
  const SavedFile &file = files[below(files.size())];
  Kept made;
  if (!worked(k3rt_snapshot_load(engine, file.path.c_str(), &made.handle)))
    return;
  made.seen = file.seen;
  kept.push_back(std::move(made));
}

void RandomOperations::cancel() {
  if (Live *one = any()) {
    SOAK_CHECK(worked(k3rt_sequence_free(engine, one->handle)), "free");
    SOAK_CHECK(k3rt_sequence_free(engine, one->handle) == K3RT_INVALID_ARGUMENT,
               "freed twice");
    live.erase(live.begin() + (one - live.data()));
  }
}

void RandomOperations::storePrefix() {
  if (Live *one = any()) {
    k3rt_status status = k3rt_prefix_store(engine, one->handle);
    SOAK_CHECK(status == (one->failed ? K3RT_INVALID_ARGUMENT : K3RT_OK), "%s",
               error().c_str());
  }
}

void RandomOperations::reserve() {
  if (Live *one = any()) {
    uint64_t tokens =
        std::min<uint64_t>(context, one->seen.size() + below(2 * longestStep));
    if (!worked(k3rt_sequence_reserve(engine, one->handle, tokens)) ||
        one->failed)
      return;
    // A promise is kept.
    Tokens rest = texts.after(one->seen, tokens - one->seen.size());
    k3rt_batch_row row = {one->handle, rest.data(), rest.size(), -1};
    k3rt_batch batch = {&row, 1};
    k3rt_step_result result = {};
    SOAK_CHECK(k3rt_step(engine, &batch, &result) == K3RT_OK, "%s",
               error().c_str());
    append(one->seen, rest);
    tokensRun += rest.size();
    SOAK_CHECK(worked(k3rt_sequence_reserve(engine, one->handle, 0)), "reserve");
  }
}

/// A draft of which the model confirms some, with or without NaN in the rest.
void RandomOperations::draft() {
  Live *one = any();
  if (!one || one->failed || one->seen.size() + 6 > context ||
      !worked(k3rt_sequence_mark(engine, one->handle)))
    return;
  one->mark = one->seen.size();
  Tokens right = texts.after(one->seen, below(4)), tokens = right;
  append(tokens, texts.noise(below(3)));
  bool fails = subject.isToy() && tokens.size() > right.size() && below(4) == 0;
  if (fails)
    tokens.back() = toy::nanToken;
  k3rt_batch_row row = {one->handle, tokens.data(), tokens.size(), 1};
  k3rt_batch batch = {&row, 1};
  k3rt_step_result result = {};
  k3rt_status status = k3rt_step(engine, &batch, &result);
  if (status == K3RT_OUT_OF_MEMORY)
    return;
  SOAK_CHECK(status == (fails ? K3RT_NON_FINITE : K3RT_OK), "%s",
             error().c_str());
  Tokens seen = one->seen;
  append(seen, right);
  // Where it is one window, all of a failed row is NaN.
  if (!fails)
    subject.checkLogits(seen, result.logits, right.size());
  k3rt_rollback_row back = {one->handle, right.size()};
  SOAK_CHECK(k3rt_rollback(engine, &back, 1) == K3RT_OK, "%s", error().c_str());
  one->seen = seen;
  tokensRun += tokens.size() + right.size();
  ++rolledBack;
  checkStates(*one);
  if (below(2) == 0) {
    SOAK_CHECK(worked(k3rt_sequence_unmark(engine, one->handle)), "unmark");
    one->mark.reset();
  }
}

/// To a mark of long ago: since then pages may have come to be shared, the
/// sequence may have failed, and others were promised pages.
void RandomOperations::rollBackLater() {
  std::vector<Live *> marked;
  std::vector<k3rt_rollback_row> rows;
  for (Live &one : live)
    if (one.mark && below(2) == 0) {
      marked.push_back(&one);
      rows.push_back({one.handle, below(one.seen.size() - *one.mark + 1)});
    }
  if (!worked(k3rt_rollback(engine, rows.data(), uint32_t(rows.size()))))
    return;
  for (size_t i = 0; i < rows.size(); ++i) {
    marked[i]->seen.resize(*marked[i]->mark + rows[i].keep);
    marked[i]->failed = false;
    ++rolledBack;
    checkStates(*marked[i]);
  }
}

/// Calls that must change nothing.
void RandomOperations::callWrongly() {
  Live *one = any();
  if (!one)
    return;
  Tokens tokens = {1, -1};
  k3rt_batch_row rows[] = {{one->handle, tokens.data(), 2, 0},
                           {one->handle, tokens.data(), 1, 0}};
  k3rt_batch batch = {rows, 1 + uint32_t(below(2))};
  k3rt_step_result result = {};
  SOAK_CHECK(k3rt_step(engine, &batch, &result) == K3RT_INVALID_ARGUMENT,
             "a bad token");
  SOAK_CHECK(k3rt_sequence_restore(engine, one->handle, -5) ==
                 K3RT_INVALID_ARGUMENT,
             "a bad snapshot");
  if (!one->failed)
    checkStates(*one);
}

//===----------------------------------------------------------------------===//
// Requests on the same engine
//===----------------------------------------------------------------------===//

void RandomOperations::submit() {
  if (requests.size() >= mostRequests)
    return;
  Request request;
  // Lengths that come again, so that little has to be known of answers.
  request.seen = texts.beginning(8 * (1 + below((context - 8) / 8)));
  request.promptLength = request.seen.size();
  k3rt_sampling greedy;
  k3rt_sampling_init(&greedy);
  greedy.temperature = 0;
  static constexpr int32_t banned[] = {60, 61, toy::nanToken, toy::failToken};
  k3rt_request_options options;
  k3rt_request_options_init(&options);
  options.prompt = request.seen.data();
  options.num_prompt = request.seen.size();
  options.max_tokens = 1 + below(5);
  options.sampling = &greedy;
  options.priority = int32_t(below(3));
  if (subject.isToy()) {
    options.banned_ids = banned;
    options.num_banned_ids = 4;
  }
  if (below(3) == 0) {
    options.max_draft = 3;
    options.draft_user = this;
    // What the model is going to say, or not.
    options.draft = [](void *self, const int32_t *seen, uint64_t count,
                       int32_t *out, uint32_t most) {
      auto *all = static_cast<RandomOperations *>(self);
      Tokens tokens(seen, seen + count);
      uint32_t drafted = 0;
      for (; drafted < most && tokens.size() < all->context; ++drafted) {
        out[drafted] = all->below(4) == 0 ? 7 : all->subject.best(tokens);
        tokens.push_back(out[drafted]);
        if (out[drafted] == 7)
          return drafted + 1;
      }
      return drafted;
    };
  }
  k3rt_request id = 0;
  char message[256] = "";
  SOAK_CHECK(k3rt_scheduler_submit(scheduler, &options, &id, message, 256) ==
                 K3RT_OK,
             "%s", message);
  requests.emplace(id, std::move(request));
}

void RandomOperations::cancelRequest() {
  if (requests.empty())
    return;
  // Any, but the same for the same seed.
  std::vector<k3rt_request> all;
  for (const auto &[id, request] : requests)
    all.push_back(id);
  std::sort(all.begin(), all.end());
  k3rt_request chosen = all[below(all.size())];
  SOAK_CHECK(k3rt_scheduler_cancel(scheduler, chosen) == K3RT_OK, "cancel");
  requests[chosen].cancelled = true;
}

void RandomOperations::serve() {
  k3rt_scheduler_report report = {};
  report.size = sizeof(report);
  SOAK_CHECK(k3rt_scheduler_step(scheduler, &report) == K3RT_OK, "%s",
             error().c_str());
  running = report.running;
  tokensRun += report.rows;
  SOAK_CHECK(report.running + report.waiting == requests.size(),
             "%llu run, %llu wait, there are %zu", Word(report.running),
             Word(report.waiting), requests.size());
}

void RandomOperations::take(const k3rt_request_event &event) {
  auto found = requests.find(event.request);
  SOAK_CHECK(found != requests.end(), "an event of no one");
  Request &request = found->second;
  if (event.token >= 0)
    request.seen.push_back(event.token);
  if (event.finish == K3RT_NOT_FINISHED)
    return;
  SOAK_CHECK(event.finish == (request.cancelled ? K3RT_FINISH_CANCELLED
                                                : K3RT_FINISH_LENGTH),
             "request %llu ends with %d: %s", Word(event.request), event.finish,
             event.error ? event.error : "");
  reused += event.reused_tokens;
  accepted += event.accepted_tokens;
  answered += !request.cancelled;
  subject.checkGreedy(request.seen, request.promptLength);
  requests.erase(found);
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

void RandomOperations::checkStates(const Live &one) {
  subject.checkStates(engine, one.handle, one.seen);
}

void RandomOperations::checkPools() {
  k3rt_stats stats = statsOf(engine);
  SOAK_CHECK(stats.live_sequences == live.size() + running,
             "%llu sequences, not %zu", Word(stats.live_sequences),
             live.size() + running);
  SOAK_CHECK(stats.reserved_pages + stats.used_pages <= stats.total_pages,
             "%llu used, %llu reserved", Word(stats.used_pages),
             Word(stats.reserved_pages));
}

void RandomOperations::run() {
  ++operations;
  static constexpr struct {
    void (RandomOperations::*call)();
    unsigned weight;
  } table[] = {{&RandomOperations::create, 12},
               {&RandomOperations::step, 36},
               {&RandomOperations::breakOne, 2},
               {&RandomOperations::fork, 6},
               {&RandomOperations::keep, 6},
               {&RandomOperations::bringBack, 6},
               {&RandomOperations::dropKept, 5},
               {&RandomOperations::save, 1},
               {&RandomOperations::load, 1},
               {&RandomOperations::cancel, 13},
               {&RandomOperations::storePrefix, 8},
               {&RandomOperations::reserve, 3},
               {&RandomOperations::draft, 5},
               {&RandomOperations::rollBackLater, 3},
               {&RandomOperations::callWrongly, 2},
               {&RandomOperations::submit, 4},
               {&RandomOperations::cancelRequest, 1},
               {&RandomOperations::serve, 16}};
  unsigned total = 0;
  for (const auto &entry : table)
    total += entry.weight;
  auto at = unsigned(below(total));
  for (const auto &entry : table) {
    if (at < entry.weight) {
      (this->*entry.call)();
      break;
    }
    at -= entry.weight;
  }
  if (operations % 64 == 0)
    checkPools();
}

void RandomOperations::drain() {
  while (!live.empty())
    cancel();
  while (!kept.empty())
    dropKept();
  for (int guard = 0; !requests.empty(); ++guard) {
    SOAK_CHECK(guard < 10000, "requests do not come to an end");
    serve();
  }
  k3rt_stats stats = statsOf(engine);
  SOAK_CHECK(stats.live_sequences == 0 && stats.reserved_pages == 0 &&
                 stats.used_pages == stats.cached_pages &&
                 stats.unused_rows == 0,
             "left over: %llu sequences, %llu pages, %llu of them kept",
             Word(stats.live_sequences), Word(stats.used_pages),
             Word(stats.cached_pages));
  // All slots and pages can be had: what prefixes hold they give up.
  std::vector<k3rt_sequence> all(slots);
  for (k3rt_sequence &sequence : all)
    SOAK_CHECK(k3rt_sequence_create(engine, &sequence) == K3RT_OK, "%s",
               error().c_str());
  uint64_t pages = stats.total_pages;
  for (size_t i = 0; pages >= subject.pagesPerSequence();
       ++i, pages -= subject.pagesPerSequence())
    SOAK_CHECK(k3rt_sequence_reserve(engine, all[i], context) == K3RT_OK, "%s",
               error().c_str());
  for (k3rt_sequence sequence : all)
    SOAK_CHECK(k3rt_sequence_free(engine, sequence) == K3RT_OK, "free");
}

Counts RandomOperations::counts() const {
  k3rt_prefix_stats stats = {};
  stats.size = sizeof(stats);
  k3rt_prefix_stats_get(engine, &stats);
  return {{"operations", operations},
          {"tokens", tokensRun},
          {"reused", reused},
          {"without memory", outOfMemory},
          {"broken", broken},
          {"rolled back", rolledBack},
          {"saved", filesWritten},
          {"evicted", stats.evictions},
          {"spilled", stats.spills},
          {"read back", stats.spill_loads},
          {"answered", answered},
          {"drafted", accepted}};
}

} // namespace soak
