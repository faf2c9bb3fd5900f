//===- RandomOperations.h - any call at any time, against a model --------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Sequences are created, run, forked, kept, brought back, marked, broken and
// freed in random order, beside the requests of a scheduler, while memory is
// short. The model of all that is what each sequence has seen: what it should be
// then is known from it alone (Subject.h).
//===----------------------------------------------------------------------===//
#ifndef K3_TEST_SOAK_RANDOMOPERATIONS_H
#define K3_TEST_SOAK_RANDOMOPERATIONS_H

#include "test/soak/Texts.h"

#include <optional>

namespace soak {

class RandomOperations {
public:
  explicit RandomOperations(Subject &subject);
  ~RandomOperations();

  /// One more call, or a few that belong together.
  void run();
  /// Frees everything and checks that nothing is left; the next operation begins
  /// with nothing but kept prefixes.
  void drain();
  k3rt_engine *underLoad() const { return engine; }
  Counts counts() const;

private:
  struct Live {
    k3rt_sequence handle = 0;
    Tokens seen;
    bool failed = false;
    std::optional<size_t> mark; ///< tokens seen then
  };
  struct Kept {
    k3rt_snapshot handle = 0;
    Tokens seen;
  };
  struct SavedFile {
    std::string path;
    Tokens seen;
  };
  struct Request {
    Tokens seen; ///< prompt and answer
    size_t promptLength = 0;
    bool cancelled = false;
  };

  void create();
  void step();
  void breakOne();
  void fork();
  void keep();
  void bringBack();
  void dropKept();
  void save();
  void load();
  void cancel();
  void storePrefix();
  void reserve();
  void draft();
  void rollBackLater();
  void callWrongly();
  void submit();
  void cancelRequest();
  void serve();
  void take(const k3rt_request_event &event);
  void checkStates(const Live &one);
  void checkPools();

  Live *any();
  Kept *anyKept();
  size_t below(size_t limit) { return random() % limit; }
  /// True for K3RT_OK, false for want of memory; anything else is wrong.
  bool worked(k3rt_status status);
  std::string error() const { return errorOf(engine); }

  Subject &subject;
  const uint64_t context;
  std::mt19937 random;
  Texts texts;
  k3rt_engine *engine = nullptr;
  k3rt_scheduler *scheduler = nullptr;
  std::vector<Live> live;
  std::vector<Kept> kept;
  std::vector<SavedFile> files;
  std::unordered_map<k3rt_request, Request> requests;
  uint64_t running = 0; ///< requests with a sequence
  uint64_t operations = 0, tokensRun = 0, outOfMemory = 0, reused = 0,
           broken = 0, filesWritten = 0, rolledBack = 0, answered = 0,
           accepted = 0;
};

} // namespace soak

#endif // K3_TEST_SOAK_RANDOMOPERATIONS_H
