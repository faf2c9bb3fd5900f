//===- Session.cpp - an engine that runs steps for their time ------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-bench/Session.h"
#include "runtime/src/base/Process.h"
#include "tools/runtime/k3-run/OpenProgress.h"

#include <algorithm>

namespace k3bench {

using k3rt::Status;

Status Session::check(k3rt_status status) const {
  return status == K3RT_OK ? Status() : Status(status, k3rt_last_error(engine));
}

Status Session::open(const Options &options, uint64_t offset, uint32_t maxSequences, uint64_t context) {
  k3rt_engine_options settings;
  k3rt_engine_options_init(&settings);
  settings.threads = options.threads;
  settings.max_sequences = maxSequences;
  settings.max_context = context;
  settings.prefill_window = options.prefillWindow;
  settings.random_weights = options.randomWeights;
  std::string device = options.device.text();
  settings.device = device.c_str();
  settings.no_graph = !options.graph;
  settings.cublas = options.cublas;
  settings.weights_dir = options.weightsDir.empty() ? nullptr : options.weightsDir.c_str();
  k3run::OpenProgress progress(options.randomWeights != 0 ? "making up weights" : "loading weights");
  progress.attach(settings);
  char message[1024] = "";
  double start = k3rt::secondsNow();
  k3rt_status status = k3rt_engine_open(options.path.c_str(), offset, &settings, &engine, message, sizeof(message));
  if (status != K3RT_OK)
    return Status(status, message);
  opened = k3rt::secondsNow() - start;
  k3rt_model_info info = {};
  info.size = sizeof(info);
  K3RT_RETURN_IF_ERROR(check(k3rt_engine_info(engine, &info)));
  vocab = info.vocab_size;
  k3rt_stats stats = {};
  stats.size = sizeof(stats);
  K3RT_RETURN_IF_ERROR(check(k3rt_stats_get(engine, &stats)));
  numThreads = stats.threads;
  return Status();
}

k3rt_device_info Session::device() const {
  k3rt_device_info info = {};
  info.size = sizeof(info);
  k3rt_device_info_get(engine, &info);
  return info;
}

MachineLimits Session::limits() const {
  k3rt_device_info gpu = device();
  if (gpu.multiprocessors == 0)
    return measureMachine(numThreads);
  // Multiprocessor and clock: 128 f32 multiply-adds; dense bf16 ones in the tensor cores of capability 9.0 (Hopper).
  constexpr double f32Flops = 2 * 128, hopperBf16Flops = 2 * 2048;
  double clocks = gpu.multiprocessors * gpu.clock_hz / 1e9;
  return {gpu.memory_bytes_per_second / 1e9, clocks * f32Flops,
          gpu.capability_major == 9 ? clocks * hopperBf16Flops : 0};
}

void Session::freeSequences() {
  for (k3rt_sequence sequence : sequences)
    k3rt_sequence_free(engine, sequence);
  sequences.clear();
}

Status Session::step(const std::vector<k3rt_sequence> &all, uint32_t tokens, double &seconds) {
  k3rt_step_result result = {};
  return step(all, tokens, seconds, result);
}

Status Session::step(const std::vector<k3rt_sequence> &all, uint32_t tokens, double &seconds,
                     k3rt_step_result &result) {
  std::vector<int32_t> ids(all.size() * tokens);
  for (int32_t &id : ids) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    // Special tokens are at the end of a vocabulary.
    id = int32_t((random >> 32) % (uint64_t(vocab) * 15 / 16 + 1));
  }
  std::vector<k3rt_batch_row> rows;
  for (size_t i = 0; i < all.size(); ++i)
    rows.push_back({all[i], ids.data() + i * tokens, tokens, 0});
  k3rt_batch batch = {rows.data(), uint32_t(rows.size())};
  double start = k3rt::secondsNow();
  k3rt_status status = k3rt_step(engine, &batch, &result);
  seconds = k3rt::secondsNow() - start;
  return check(status);
}

Status Session::start(uint32_t batch, uint32_t context) {
  freeSequences();
  for (uint32_t i = 0; i < batch; ++i) {
    k3rt_sequence sequence;
    K3RT_RETURN_IF_ERROR(check(k3rt_sequence_create(engine, &sequence)));
    sequences.push_back(sequence);
  }
  double seconds;
  return step(sequences, context, seconds);
}

Status Session::decode(double &seconds) { return step(sequences, 1, seconds); }

Status Session::prefill(uint32_t tokens, double &seconds) {
  freeSequences();
  k3rt_sequence sequence;
  K3RT_RETURN_IF_ERROR(check(k3rt_sequence_create(engine, &sequence)));
  sequences.push_back(sequence);
  return step(sequences, tokens, seconds);
}

Status Session::firstToken(uint32_t tokens, double &seconds) {
  freeSequences();
  double start = k3rt::secondsNow(), stepSeconds;
  k3rt_sequence sequence;
  K3RT_RETURN_IF_ERROR(check(k3rt_sequence_create(engine, &sequence)));
  sequences.push_back(sequence);
  k3rt_step_result result = {};
  K3RT_RETURN_IF_ERROR(step(sequences, tokens, stepSeconds, result));
  auto greedy = uint64_t(std::max_element(result.logits, result.logits + result.vocab_size) - result.logits);
  seconds = k3rt::secondsNow() - start;
  return greedy < vocab ? Status() : Status(K3RT_INTERNAL, "a step without logits");
}

} // namespace k3bench
