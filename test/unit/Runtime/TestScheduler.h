//===- TestScheduler.h - the scheduler's C API with less typing ----------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TEST_RUNTIME_TESTSCHEDULER_H
#define K3_TEST_RUNTIME_TESTSCHEDULER_H

#include "test/unit/Runtime/TestEngine.h"

#include <map>

namespace toy {

/// A request. Greedy and without the two tokens that break the toy model, unless
/// a test says otherwise.
struct Ask {
  Ask() {
    k3rt_sampling_init(&sampling);
    sampling.temperature = 0;
  }
  Tokens prompt;
  uint64_t maxTokens = 0;
  Tokens stops;
  Tokens banned = {nanToken, failToken};
  int32_t priority = 0;
  k3rt_sampling sampling;
  uint32_t maxDraft = 0;
  k3rt_draft_fn draft = nullptr;
  void *draftUser = nullptr;
};

/// A model that chooses tokens where it runs on a GPU.
inline std::string writeChoosing(const Folder &folder, uint32_t vocab = 64) {
  Options options;
  options.vocab = vocab;
  options.choosesTokens = true;
  return writeModel(folder, options);
}

/// What became of it.
struct Answer {
  Tokens tokens;
  int32_t finish = K3RT_NOT_FINISHED;
  std::string error;
  k3rt_request_event last = {};
};

class TestScheduler {
public:
  using Change = std::function<void(k3rt_scheduler_options &)>;

  explicit TestScheduler(TestEngine &engine, const Change &change = {}) {
    k3rt_scheduler_options options;
    k3rt_scheduler_options_init(&options);
    options.on_event = [](void *self, const k3rt_request_event *event) {
      static_cast<TestScheduler *>(self)->take(*event);
    };
    options.user = this;
    if (change)
      change(options);
    EXPECT_EQ(k3rt_scheduler_create(engine.engine, &options, &scheduler),
              K3RT_OK)
        << engine.last();
  }
  ~TestScheduler() { k3rt_scheduler_free(scheduler); }
  TestScheduler(const TestScheduler &) = delete;
  TestScheduler &operator=(const TestScheduler &) = delete;

  k3rt_status trySubmit(const Ask &ask, k3rt_request &request,
                        std::string &error) {
    k3rt_request_options options;
    k3rt_request_options_init(&options);
    options.prompt = ask.prompt.data();
    options.num_prompt = ask.prompt.size();
    options.max_tokens = ask.maxTokens;
    options.sampling = &ask.sampling;
    options.stop_ids = ask.stops.data();
    options.num_stop_ids = ask.stops.size();
    options.banned_ids = ask.banned.data();
    options.num_banned_ids = ask.banned.size();
    options.priority = ask.priority;
    options.max_draft = ask.maxDraft;
    options.draft = ask.draft;
    options.draft_user = ask.draftUser;
    char message[256] = "";
    k3rt_status status =
        k3rt_scheduler_submit(scheduler, &options, &request, message, 256);
    error = message;
    return status;
  }
  k3rt_request submit(const Ask &ask) {
    k3rt_request request = 0;
    std::string error;
    EXPECT_EQ(trySubmit(ask, request, error), K3RT_OK) << error;
    return request;
  }
  std::string refusal(const Ask &ask) {
    k3rt_request request = 0;
    std::string error;
    EXPECT_NE(trySubmit(ask, request, error), K3RT_OK);
    EXPECT_EQ(request, 0u);
    return error;
  }

  k3rt_scheduler_report step() {
    k3rt_scheduler_report report = {};
    report.size = sizeof(report);
    EXPECT_EQ(k3rt_scheduler_step(scheduler, &report), K3RT_OK);
    waitingFor = report.waiting_for ? report.waiting_for : "";
    return report;
  }
  /// Steps until nothing runs or waits.
  void runAll(const std::function<void()> &afterStep = {}) {
    for (int guard = 0; guard < 100000; ++guard) {
      k3rt_scheduler_report report = step();
      if (report.running == 0 && report.waiting == 0)
        return;
      if (afterStep)
        afterStep();
    }
    ADD_FAILURE() << "requests do not come to an end";
  }

  k3rt_scheduler *scheduler = nullptr;
  std::map<k3rt_request, Answer> answers;
  std::vector<k3rt_request> order; ///< in which they ended
  std::string waitingFor;          ///< of the last step

private:
  void take(const k3rt_request_event &event) {
    Answer &answer = answers[event.request];
    EXPECT_EQ(answer.finish, K3RT_NOT_FINISHED) << "after its end";
    if (event.token >= 0)
      answer.tokens.push_back(event.token);
    if (event.finish == K3RT_NOT_FINISHED)
      return;
    answer.finish = event.finish;
    answer.error = event.error ? event.error : "";
    answer.last = event;
    order.push_back(event.request);
  }
};

/// The model's greedy answer by the formulas, without the two tokens that break
/// it.
inline Tokens greedyAnswer(const Tokens &prompt, uint64_t count) {
  Oracle oracle;
  Logits logits = expected(oracle, prompt).back();
  Tokens answer;
  while (answer.size() < count) {
    int32_t best = 0;
    for (int32_t id = 1; id < nanToken; ++id)
      if (logits[size_t(id)] > logits[size_t(best)])
        best = id;
    answer.push_back(best);
    logits = oracle.next(best);
  }
  return answer;
}

/// A memory_limit under which the engine gets `pages` cache pages.
inline uint64_t limitFor(const std::string &model, uint32_t sequences,
                         uint64_t context, uint64_t pages) {
  uint64_t low = 1, high = uint64_t(1) << 30;
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    TestEngine engine;
    bool enough = engine.open(model,
                              [&](auto &o) {
                                o.max_sequences = sequences;
                                o.max_context = context;
                                o.memory_limit = middle;
                              }) == K3RT_OK &&
                  engine.stats().total_pages >= pages;
    (enough ? high : low) = enough ? middle : middle + 1;
  }
  return low;
}

} // namespace toy

#endif // K3_TEST_RUNTIME_TESTSCHEDULER_H
