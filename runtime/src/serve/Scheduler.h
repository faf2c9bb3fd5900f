//===- Scheduler.h - many requests on one engine -------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Requests wait in a queue, then run, then end. submit() and cancel() put a note
// into the inbox, from any thread; everything else happens in step(), on the
// engine's thread: read the inbox, start what fits (all of it or nothing), share
// the rows of a step among what runs, run it, choose tokens.
//===----------------------------------------------------------------------===//
#ifndef K3RT_SERVE_SCHEDULER_H
#define K3RT_SERVE_SCHEDULER_H

#include "runtime/src/engine/Engine.h"
#include "runtime/src/serve/Budget.h"
#include "runtime/src/speculation/Drafter.h"
#include "runtime/src/text/Sampler.h"

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace k3rt {

/// k3rt_request_options, checked by Scheduler::submit.
struct RequestOptions {
  std::vector<int32_t> prompt;
  uint64_t maxTokens = 0;
  SamplerOptions sampler;
  std::vector<int32_t> stopIds;
  int32_t priority = 0;
  DraftOptions draft;
};

struct SchedulerOptions {
  uint32_t tokenBudget = 0; ///< 0 = the engine's prefill window
  uint32_t maxRunning = 0;  ///< 0 = as many as there are slots
  uint64_t maxWaiting = 0;  ///< 0 = no limit
  uint64_t prefixInterval = 0; ///< 0 = 256
  k3rt_request_event_fn onEvent = nullptr;
  void *user = nullptr;
};

/// k3rt_scheduler_report.
struct SchedulerReport {
  uint64_t rows = 0, prefillTokens = 0, decodeTokens = 0;
  uint64_t running = 0, waiting = 0;
  std::string waitingFor;
  double waitingSeconds = 0;
};

class Scheduler {
public:
  /// `engine` outlives the scheduler.
  Scheduler(Engine &engine, const SchedulerOptions &options);
  ~Scheduler();
  Scheduler(const Scheduler &) = delete;
  Scheduler &operator=(const Scheduler &) = delete;

  /// Both: any thread. Errors: see k3rt_scheduler_submit and _cancel.
  Status submit(RequestOptions options, k3rt_request &out);
  Status cancel(k3rt_request request);

  /// Error: the engine's, after which everything is as before.
  Status step();
  /// Of the last step.
  const SchedulerReport &report() const { return latest; }

  /// The oldest event that no one was told of, or one with request 0.
  const k3rt_request_event &poll();

private:
  struct Request {
    k3rt_request id = 0;
    RequestOptions options;
    Sampler sampler;
    double submitted = 0, started = 0, firstToken = 0; ///< secondsNow()
    uint64_t reserve = 0; ///< tokens the sequence holds at most
    // While it runs.
    k3rt_sequence sequence = 0;
    uint64_t reused = 0; ///< tokens from the prefix cache
    uint64_t fed = 0;   ///< tokens of the sequence
    int32_t newest = 0; ///< chosen, not fed
    uint64_t generated = 0;
    uint64_t lastServed = 0;
    std::unique_ptr<Drafter> drafter; ///< none: no drafts
    /// Fed tokens that the state has lost with a rejected draft: they join the
    /// next step, which costs less than a step for them alone.
    std::vector<int32_t> owed;
    std::vector<int32_t> guess; ///< `owed`, `newest` and its draft, in this step
    bool marked = false;              ///< its sequence has a mark
    bool failedDraft = false; ///< the last draft made the model fail
    uint64_t drafted = 0, accepted = 0;

    bool decodes() const { return fed >= options.prompt.size(); }
  };
  using RequestPtr = std::unique_ptr<Request>;
  /// Priority first, then age.
  struct Place {
    int32_t priority;
    k3rt_request id;
    bool operator<(const Place &other) const {
      return priority != other.priority ? priority > other.priority
                                        : id < other.id;
    }
  };
  using Queue = std::map<Place, RequestPtr>;
  /// A row of the batch.
  struct Served {
    Request *request;
    uint64_t count;
    bool decodes;
  };
  struct Event {
    k3rt_request_event event = {};
    std::string error;
  };

  Status check(const RequestOptions &options, uint64_t &reserve) const;
  void readInbox();
  Status admit(Request &request);
  void start();
  bool slotsWanted() const;
  void releaseMarks();
  void formBatch();
  uint32_t draft(Request &request, uint64_t most);
  void reject(Request &request, uint64_t accepted, bool goesOn);
  Status runBatch();
  void prepareSampling();
  /// What a row of a step brought, per logit row: `ids` of tokens that the
  /// device has chosen, logits where there is none.
  /// A token that was chosen here.
  struct Draw {
    bool tried = false, ok = false;
    int32_t token = -1;
    std::string error;
  };
  struct RowResult {
    const float *logits;
    const int32_t *ids;
    uint64_t rows, vocab;
    const Draw *draw; ///< of the only row of logits, if it was tried
  };
  /// Chooses the tokens of requests with one row of logits, on all threads: with
  /// many sequences or words that takes long, and samplers share nothing.
  void drawTokens(const k3rt_step_result &result);
  void takeResult(const Served &served, const RowResult &result);
  /// Chooses the token after logit row `row`, or takes the one that was chosen,
  /// and gives it out. True: the request goes on.
  bool choose(Request &request, const RowResult &result, uint64_t row);
  void rollBack();
  /// `token` < 0: none. Gives the request's last event unless `finish` is
  /// K3RT_NOT_FINISHED.
  void give(Request &request, int32_t token, k3rt_finish finish,
            const std::string &error = {});
  /// Removes ended requests and gives back what they hold.
  void removeEnded();

  Engine &engine;
  SchedulerOptions options;
  bool storesPrefixes = false;
  Queue waiting, running;
  /// Requests whose last event was given during this step.
  std::vector<Place> ended;
  /// The request that could not start, and the room there was then: it is tried
  /// again when that changes.
  k3rt_request blocked = 0;
  std::pair<std::tuple<uint32_t, uint32_t, uint64_t>, size_t> blockedRoom;
  SchedulerReport latest;
  std::deque<Event> events;
  Event polled;
  uint64_t steps = 0;

  // Of the current step.
  std::vector<Served> batch;
  std::vector<k3rt_batch_row> rows;
  std::vector<Draw> draws; ///< per row
  std::vector<RowSampling> rowSampling;
  std::vector<const RowSampling *> sampling; ///< per row, null: chosen here
  std::vector<Request *> rejected; ///< whose drafts are to be taken back
  std::vector<k3rt_rollback_row> rejectedRows;
  std::vector<Request *> finished; ///< whose states are worth keeping

  // The inbox, and which requests have not ended, with their priorities.
  std::mutex mutex;
  std::vector<RequestPtr> submitted;
  std::vector<k3rt_request> cancelled;
  std::unordered_map<k3rt_request, int32_t> live;
  k3rt_request lastId = 0;
  uint64_t numWaiting = 0; ///< submitted, not started, not ended
};

} // namespace k3rt

#endif // K3RT_SERVE_SCHEDULER_H
