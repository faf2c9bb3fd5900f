//===- Session.h - an engine that runs steps for their time --------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3BENCH_SESSION_H
#define K3_TOOLS_K3BENCH_SESSION_H

#include "tools/runtime/k3-bench/MachineLimits.h"
#include "tools/runtime/k3-bench/Options.h"

namespace k3bench {

/// Runs steps on random tokens through the C API. Errors are those of the engine.
class Session {
public:
  Session() = default;
  ~Session() { k3rt_engine_close(engine); }
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  /// Room for `sequences` of `context` tokens. `offset`: of the artifact in its file. Shows a progress bar when it
  /// takes long.
  k3rt::Status open(const Options &options, uint64_t offset, uint32_t sequences, uint64_t context);

  uint32_t threads() const { return numThreads; }
  /// Of what the engine runs on: measured now for the CPU, the driver's word for a GPU.
  MachineLimits limits() const;
  k3rt_device_info device() const;
  /// That open() took.
  double openSeconds() const { return opened; }

  /// Begins `batch` sequences with `context` tokens each; those of before are freed.
  k3rt::Status start(uint32_t batch, uint32_t context);
  /// One more token for each of them.
  k3rt::Status decode(double &seconds);
  /// A sequence of its own with that many tokens, logits after the last.
  k3rt::Status prefill(uint32_t tokens, double &seconds);
  /// The same, timed until the largest logit is known.
  k3rt::Status firstToken(uint32_t tokens, double &seconds);

  /// See k3rt_set_profile.
  void setProfile(k3rt_profile_fn fn, void *user, bool eachDispatch) {
    k3rt_set_profile(engine, fn, user, eachDispatch);
  }

private:
  k3rt::Status check(k3rt_status status) const;
  k3rt::Status step(const std::vector<k3rt_sequence> &all, uint32_t tokens, double &seconds);
  k3rt::Status step(const std::vector<k3rt_sequence> &all, uint32_t tokens, double &seconds, k3rt_step_result &result);
  void freeSequences();

  k3rt_engine *engine = nullptr;
  uint32_t numThreads = 0, vocab = 0;
  std::vector<k3rt_sequence> sequences;
  uint64_t random = 1;
  double opened = 0;
};

} // namespace k3bench

#endif // K3_TOOLS_K3BENCH_SESSION_H
