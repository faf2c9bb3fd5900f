//===- RandomRequests.h - a day of requests, faster -----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Requests of all kinds at the same time, more than there is memory for: short
// and long, greedy and sampled, with prompts that begin alike and that do not,
// with drafts, broken ones, cancelled ones. Answers are compared with those of
// the request alone.
//===----------------------------------------------------------------------===//
#ifndef K3_TEST_SOAK_RANDOMREQUESTS_H
#define K3_TEST_SOAK_RANDOMREQUESTS_H

#include "test/soak/Prompts.h"

namespace soak {

class RandomRequests {
public:
  explicit RandomRequests(Subject &subject);
  ~RandomRequests();

  /// One step of the scheduler, with requests coming and going.
  void run();
  /// Waits for all requests and checks that nothing is left.
  void drain();
  k3rt_engine *underLoad() const { return engine; }
  Counts counts() const;

private:
  struct Request {
    Prompt prompt;
    Tokens answer;
    uint64_t maxTokens = 0;
    k3rt_sampling sampling = {};
    bool broken = false, cancel = false;
    uint64_t stepsLeft = 0; ///< until it is cancelled
  };

  uint32_t draft(const int32_t *seen, uint64_t count, int32_t *out,
                 uint32_t most);
  void submit();
  void take(const k3rt_request_event &event);
  void check(const Request &request, const k3rt_request_event &event);
  void compare(const Request &request);
  size_t below(size_t limit) { return random() % limit; }

  Subject &subject;
  std::mt19937 random;
  Prompts prompts;
  k3rt_engine *engine = nullptr;
  k3rt_scheduler *scheduler = nullptr;
  std::unordered_map<k3rt_request, Request> requests;
  uint64_t steps = 0, answered = 0, cancelled = 0, failed = 0, tokens = 0, reused = 0,
           accepted = 0, compared = 0;
  size_t inProgress = 0; ///< requests at most
  bool closing = false;
  /// One that has ended, which others go on from.
  Prompt before;
  Tokens beforeAnswer;
};

} // namespace soak

#endif // K3_TEST_SOAK_RANDOMREQUESTS_H
