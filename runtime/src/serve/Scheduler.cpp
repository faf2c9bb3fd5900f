//===- Scheduler.cpp - many requests on one engine -----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/serve/Scheduler.h"
#include "runtime/src/base/Process.h"

#include <algorithm>

namespace k3rt {

using Word = unsigned long long;

static constexpr uint64_t defaultPrefixInterval = 256;

Scheduler::Scheduler(Engine &engine, const SchedulerOptions &given)
    : engine(engine), options(given) {
  if (options.tokenBudget == 0)
    options.tokenBudget = engine.plan().prefillWindow;
  if (options.maxRunning == 0)
    options.maxRunning = engine.plan().slots;
  if (options.prefixInterval == 0)
    options.prefixInterval = defaultPrefixInterval;
  storesPrefixes = engine.hasPrefixCache();
}

Scheduler::~Scheduler() {
  for (auto &[place, request] : running)
    (void)engine.freeSequence(request->sequence);
}

//===----------------------------------------------------------------------===//
// From any thread. Of the engine only what never changes is used here.
//===----------------------------------------------------------------------===//

Status Scheduler::check(const RequestOptions &request,
                        uint64_t &reserve) const {
  const MemoryPlan &plan = engine.plan();
  uint64_t length = request.prompt.size();
  if (length == 0)
    return Status(K3RT_INVALID_ARGUMENT, "the prompt is empty");
  if (length > plan.maxContext)
    return makeError(K3RT_INVALID_ARGUMENT,
                     "the prompt has %llu tokens, the context is %llu",
                     Word(length), Word(plan.maxContext));
  auto vocab = int32_t(engine.artifact().index().model()->vocab_size());
  for (uint64_t i = 0; i < length; ++i)
    if (request.prompt[i] < 0 || request.prompt[i] >= vocab)
      return makeError(K3RT_INVALID_ARGUMENT,
                       "token %d at position %llu is not in [0, %d)",
                       request.prompt[i], Word(i), vocab);
  // The last token that is generated is not fed.
  uint64_t room = plan.maxContext - length;
  reserve = request.maxTokens == 0 || request.maxTokens - 1 > room
                ? plan.maxContext
                : length + request.maxTokens - 1;
  uint64_t pages = plan.pagesFor(reserve);
  if (pages > plan.pages)
    return makeError(K3RT_OUT_OF_MEMORY,
                     "%llu prompt tokens and up to %llu more need %llu cache "
                     "pages, there are %u: it can never run",
                     Word(length), Word(reserve - length + 1), Word(pages),
                     plan.pages);
  return Status();
}

Status Scheduler::submit(RequestOptions given, k3rt_request &out) {
  auto request = std::make_unique<Request>();
  K3RT_RETURN_IF_ERROR(check(given, request->reserve));
  std::string error;
  if (!request->sampler.init(
          given.sampler, engine.artifact().index().model()->vocab_size(),
          error))
    return Status(K3RT_INVALID_ARGUMENT, error);
  for (int32_t token : given.prompt)
    request->sampler.observe(token);
  if (given.draft.most != 0) {
    request->drafter = std::make_unique<Drafter>(
        given.draft, engine.artifact().index().model()->vocab_size());
    request->drafter->observe(given.prompt.data(), given.prompt.size());
  }
  request->options = std::move(given);
  request->submitted = secondsNow();

  std::lock_guard<std::mutex> lock(mutex);
  if (options.maxWaiting != 0 && numWaiting >= options.maxWaiting)
    return makeError(K3RT_OUT_OF_MEMORY,
                     "%llu requests are waiting (max_waiting)",
                     Word(numWaiting));
  request->id = out = ++lastId;
  live[out] = request->options.priority;
  ++numWaiting;
  submitted.push_back(std::move(request));
  return Status();
}

Status Scheduler::cancel(k3rt_request request) {
  std::lock_guard<std::mutex> lock(mutex);
  if (live.find(request) == live.end())
    return makeError(K3RT_INVALID_ARGUMENT, "no request %llu is in progress",
                     Word(request));
  cancelled.push_back(request);
  return Status();
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

void Scheduler::readInbox() {
  std::vector<RequestPtr> arrived;
  std::vector<Place> dropped;
  {
    std::lock_guard<std::mutex> lock(mutex);
    arrived.swap(submitted);
    for (k3rt_request id : cancelled)
      if (auto found = live.find(id); found != live.end())
        dropped.push_back({found->second, id});
    cancelled.clear();
  }
  for (RequestPtr &request : arrived) {
    Place place = {request->options.priority, request->id};
    waiting[place] = std::move(request);
  }
  std::sort(dropped.begin(), dropped.end());
  for (size_t i = 0; i < dropped.size(); ++i) {
    if (i != 0 && dropped[i].id == dropped[i - 1].id)
      continue; // cancelled twice
    for (Queue *queue : {&waiting, &running})
      if (auto found = queue->find(dropped[i]); found != queue->end())
        give(*found->second, -1, K3RT_FINISH_CANCELLED);
  }
  removeEnded();
}

/// All that the request will hold, or nothing.
Status Scheduler::admit(Request &request) {
  if (running.size() >= options.maxRunning)
    return makeError(K3RT_OUT_OF_MEMORY, "%zu requests are running (max_running)",
                     running.size());
  K3RT_RETURN_IF_ERROR(engine.createSequence(request.sequence));
  const std::vector<int32_t> &prompt = request.options.prompt;
  Status status = engine.attachPrefix(request.sequence, prompt.data(),
                                      prompt.size(), request.reused);
  request.fed = request.reused;
  if (status.ok())
    status = engine.reserveSequence(request.sequence, request.reserve);
  if (!status.ok())
    (void)engine.freeSequence(request.sequence);
  return status;
}

/// A request waits for memory, which marks could take from it.
bool Scheduler::slotsWanted() const {
  return !waiting.empty() && running.size() < options.maxRunning;
}

void Scheduler::releaseMarks() {
  for (auto &[place, request] : running)
    if (request->marked) {
      (void)engine.unmarkSequence(request->sequence);
      request->marked = false;
    }
}

/// In order, and none before one that has to wait: it would never come to run
/// while smaller ones take what becomes free.
void Scheduler::start() {
  while (!waiting.empty()) {
    Request &request = *waiting.begin()->second;
    auto room = std::make_pair(engine.room(), running.size());
    if (request.id == blocked && room == blockedRoom)
      break;
    if (Status status = admit(request); !status.ok()) {
      blocked = request.id;
      blockedRoom = room;
      latest.waitingFor = status.message();
      break;
    }
    request.started = secondsNow();
    running.insert(waiting.extract(waiting.begin()));
    std::lock_guard<std::mutex> lock(mutex);
    --numWaiting;
  }
  if (waiting.empty())
    latest.waitingFor.clear();
  latest.waitingSeconds =
      waiting.empty() ? 0
                      : secondsNow() - waiting.begin()->second->submitted;
}

void Scheduler::formBatch() {
  std::vector<Request *> requests;
  std::vector<Demand> demands;
  for (auto &[place, request] : running) {
    bool decodes = request->decodes();
    uint64_t left = request->options.prompt.size() - request->fed;
    if (storesPrefixes) // a window ends where the state is to be stored
      left = std::min(left, options.prefixInterval -
                                request->fed % options.prefixInterval);
    requests.push_back(request.get());
    demands.push_back({decodes ? 1 + request->owed.size() : left, decodes,
                       request->lastServed});
  }
  std::vector<uint64_t> granted;
  shareBudget(demands, options.tokenBudget, granted);
  batch.clear();
  // What decodes first: it fits into the first program run, whatever follows.
  for (bool decodes : {true, false})
    for (size_t i = 0; i < demands.size(); ++i)
      if (granted[i] != 0 && demands[i].decode == decodes)
        batch.push_back({requests[i], granted[i], decodes});
  uint64_t spare = options.tokenBudget;
  for (const Served &served : batch)
    spare -= served.count;
  rows.clear();
  for (Served &served : batch) {
    Request &request = *served.request;
    if (served.decodes) {
      request.guess = request.owed;
      request.guess.push_back(request.newest);
      uint32_t drafted = draft(request, spare);
      spare -= drafted;
      served.count += drafted;
      rows.push_back({request.sequence, request.guess.data(), served.count,
                      drafted != 0 ? 1 : 0});
      continue;
    }
    const int32_t *tokens = request.options.prompt.data() + request.fed;
    bool last = request.fed + served.count == request.options.prompt.size();
    rows.push_back({request.sequence, tokens, served.count, last ? 0 : -1});
  }
  prepareSampling();
}

/// The device chooses where it can: it knows no tokens that a penalty is for.
void Scheduler::prepareSampling() {
  rowSampling.resize(std::max(rowSampling.size(), batch.size()));
  sampling.assign(batch.size(), nullptr);
  if (!engine.choosesTokens())
    return;
  for (size_t i = 0; i < batch.size(); ++i) {
    const Request &request = *batch[i].request;
    const SamplerOptions &settings = request.sampler.settings();
    if (settings.repetitionPenalty != 1 || rows[i].all_logits < 0)
      continue;
    // With a draft there is a logit row for every token of the row, the first of
    // which are not chosen from.
    bool all = rows[i].all_logits > 0;
    describe(request.sampler, all ? request.owed.size() : 0,
             all ? batch[i].count : 1, rowSampling[i]);
    sampling[i] = &rowSampling[i];
  }
}

/// Adds a draft to `guess`, if the sequence can be brought back from it.
uint32_t Scheduler::draft(Request &request, uint64_t most) {
  constexpr size_t mostOwed = 16; // else rejections would add up without end
  if (!request.drafter || slotsWanted() || request.failedDraft ||
      request.owed.size() > mostOwed) {
    request.failedDraft = false;
    return 0;
  }
  // The last token of an answer is not fed, and pages end with `reserve`.
  most = std::min(most, request.reserve - request.fed - 1);
  if (request.options.maxTokens != 0)
    most = std::min(most, request.options.maxTokens - request.generated - 1);
  std::vector<int32_t> tokens =
      request.drafter->draft(uint32_t(std::min<uint64_t>(most, UINT32_MAX)));
  if (tokens.empty() || !engine.markSequence(request.sequence).ok())
    return 0;
  request.marked = true;
  request.guess.insert(request.guess.end(), tokens.begin(), tokens.end());
  return uint32_t(tokens.size());
}

Status Scheduler::step() {
  readInbox();
  start();
  if (slotsWanted()) {
    releaseMarks();
    start();
  }
  formBatch();
  latest.rows = latest.prefillTokens = latest.decodeTokens = 0;
  Status outcome;
  if (!batch.empty())
    outcome = runBatch();
  latest.running = running.size();
  latest.waiting = waiting.size();
  return outcome;
}

Status Scheduler::runBatch() {
  ++steps;
  k3rt_batch input = {rows.data(), uint32_t(rows.size())};
  k3rt_step_result result = {};
  Status status = engine.step(input, result, &sampling);
  bool happened = status.ok() || status.code() == K3RT_NON_FINITE;
  if (!happened && status.code() != K3RT_INTERNAL)
    return status; // nothing has changed
  rejected.clear();
  rejectedRows.clear();
  finished.clear();
  if (happened)
    drawTokens(result);
  for (size_t i = 0; i < batch.size(); ++i) {
    const Served &served = batch[i];
    Request &request = *served.request;
    latest.rows += served.count;
    (served.decodes ? latest.decodeTokens : latest.prefillTokens) +=
        served.count;
    request.lastServed = steps;
    if (happened && result.row_status[i] == K3RT_OK) {
      uint64_t first = result.first_row[i], vocab = result.vocab_size;
      takeResult(served, {result.logits + first * vocab,
                          engine.chosenTokens().data() + first,
                          result.first_row[i + 1] - first, vocab, &draws[i]});
    } else if (happened && served.decodes &&
               served.count > 1 + request.owed.size()) {
      // It may have been the draft's fault: once more without one.
      request.failedDraft = true;
      rejected.push_back(&request);
      rejectedRows.push_back({request.sequence, 0});
    } else {
      give(request, -1, K3RT_FINISH_FAILED,
           engine.sequenceFailure(request.sequence));
    }
  }
  rollBack();
  // The next turn of a conversation begins with this one.
  for (Request *request : finished)
    (void)engine.storePrefix(request->sequence);
  removeEnded();
  return Status();
}

void Scheduler::drawTokens(const k3rt_step_result &result) {
  draws.resize(batch.size());
  auto draw = [&](uint32_t begin, uint32_t end, uint32_t) {
    for (uint32_t i = begin; i < end; ++i) {
      Draw &out = draws[i];
      uint64_t row = result.first_row[i];
      out.tried = result.row_status[i] == K3RT_OK &&
                  result.first_row[i + 1] == row + 1 &&
                  engine.chosenTokens()[row] < 0;
      if (out.tried)
        out.ok = batch[i].request->sampler.sample(
            result.logits + row * result.vocab_size, out.token, out.error);
    }
  };
  // The threads are still awake after a run, but have to be told.
  constexpr uint64_t worthThreads = 1 << 15;
  auto count = uint32_t(batch.size());
  if (result.num_logit_rows * result.vocab_size >= worthThreads)
    engine.workers().parallelFor(count, draw);
  else
    draw(0, count, 0);
}

void Scheduler::takeResult(const Served &served, const RowResult &result) {
  Request &request = *served.request;
  if (!served.decodes) {
    request.fed += served.count;
    if (storesPrefixes && (request.fed == request.options.prompt.size() ||
                           request.fed % options.prefixInterval == 0))
      (void)engine.storePrefix(request.sequence);
    if (result.rows != 0)
      (void)choose(request, result, 0);
    return;
  }
  // Every token of the draft that is chosen anyway has been run already.
  uint64_t owed = request.owed.size();
  uint64_t drafted = served.count - 1 - owed, accepted = 0;
  request.drafted += drafted;
  uint64_t first = drafted != 0 ? owed : 0; // there are logits of all tokens
  bool goesOn;
  for (;; ++accepted) {
    ++request.fed;
    goesOn = choose(request, result, first + accepted);
    if (!goesOn || accepted == drafted ||
        request.newest != request.guess[owed + accepted + 1])
      break;
    ++request.accepted;
  }
  if (drafted != 0)
    request.drafter->report(uint32_t(drafted), uint32_t(accepted));
  bool keepsState = !goesOn && storesPrefixes && request.generated > 1;
  if (accepted < drafted && (goesOn || keepsState))
    reject(request, accepted, goesOn);
  else
    request.owed.clear();
  if (keepsState)
    finished.push_back(&request);
}

/// Goes back to before the draft. What is right of the step's tokens is run again
/// with the next step, if there is one and it has room for them beside others.
void Scheduler::reject(Request &request, uint64_t accepted, bool goesOn) {
  uint64_t right = request.owed.size() + 1 + accepted;
  bool later = goesOn && right + 1 <= options.tokenBudget / 2;
  rejected.push_back(&request);
  rejectedRows.push_back({request.sequence, later ? 0 : right});
  request.owed.clear();
  if (later)
    request.owed.assign(request.guess.begin(),
                        request.guess.begin() + long(right));
}

void Scheduler::rollBack() {
  if (rejectedRows.empty())
    return;
  Status status =
      engine.rollBack(rejectedRows.data(), uint32_t(rejectedRows.size()));
  if (status.ok())
    return;
  for (Request *request : rejected) {
    finished.erase(std::remove(finished.begin(), finished.end(), request),
                   finished.end());
    bool hasEnded = std::any_of(
        ended.begin(), ended.end(),
        [&](const Place &place) { return place.id == request->id; });
    if (!hasEnded)
      give(*request, -1, K3RT_FINISH_FAILED, status.message());
  }
}

bool Scheduler::choose(Request &request, const RowResult &result,
                       uint64_t row) {
  std::string error;
  int32_t token = result.ids[row];
  bool ok = true;
  if (token >= 0) {
    request.sampler.take(token);
  } else if (result.draw->tried) {
    ok = result.draw->ok;
    token = result.draw->token;
    error = result.draw->error;
  } else {
    ok = request.sampler.sample(result.logits + row * result.vocab, token,
                                error);
  }
  if (!ok) {
    give(request, -1, K3RT_FINISH_FAILED, error);
    return false;
  }
  request.newest = token;
  if (request.drafter)
    request.drafter->observe(&token, 1);
  if (request.generated++ == 0)
    request.firstToken = secondsNow();
  const RequestOptions &given = request.options;
  k3rt_finish finish = K3RT_NOT_FINISHED;
  if (std::find(given.stopIds.begin(), given.stopIds.end(), token) !=
      given.stopIds.end())
    finish = K3RT_FINISH_STOP;
  else if (request.generated == given.maxTokens)
    finish = K3RT_FINISH_LENGTH;
  else if (request.fed == engine.plan().maxContext)
    finish = K3RT_FINISH_CONTEXT;
  give(request, token, finish);
  return finish == K3RT_NOT_FINISHED;
}

//===----------------------------------------------------------------------===//
// Events and ends
//===----------------------------------------------------------------------===//

void Scheduler::give(Request &request, int32_t token, k3rt_finish finish,
                     const std::string &error) {
  if (finish != K3RT_NOT_FINISHED)
    ended.push_back({request.options.priority, request.id});
  Event event;
  event.error = error;
  k3rt_request_event &fields = event.event;
  fields.size = sizeof(fields);
  fields.request = request.id;
  fields.token = token;
  fields.finish = finish;
  fields.prompt_tokens = request.options.prompt.size();
  fields.reused_tokens = request.reused;
  fields.num_tokens = request.generated;
  fields.drafted_tokens = request.drafted;
  fields.accepted_tokens = request.accepted;
  if (request.started != 0)
    fields.start_seconds = request.started - request.submitted;
  if (request.firstToken != 0)
    fields.first_token_seconds = request.firstToken - request.submitted;
  fields.seconds = secondsNow() - request.submitted;
  if (!options.onEvent) {
    events.push_back(std::move(event));
    return;
  }
  if (finish == K3RT_FINISH_FAILED)
    fields.error = event.error.c_str();
  options.onEvent(options.user, &fields);
}

const k3rt_request_event &Scheduler::poll() {
  polled = {};
  polled.event.size = sizeof(polled.event);
  polled.event.token = -1;
  if (!events.empty()) {
    polled = std::move(events.front());
    events.pop_front();
    if (polled.event.finish == K3RT_FINISH_FAILED)
      polled.event.error = polled.error.c_str();
  }
  return polled.event;
}

void Scheduler::removeEnded() {
  for (const Place &place : ended) {
    bool waited = waiting.erase(place) != 0;
    if (auto found = running.find(place); found != running.end()) {
      (void)engine.freeSequence(found->second->sequence);
      running.erase(found);
    }
    std::lock_guard<std::mutex> lock(mutex);
    live.erase(place.id);
    numWaiting -= waited;
  }
  ended.clear();
}

} // namespace k3rt
