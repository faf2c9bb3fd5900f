//===- Engine.cpp - an open model ---------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/Engine.h"
#include "tools/runtime/k3-run/OpenProgress.h"

#include <algorithm>
#include <sys/resource.h>

namespace k3run {

uint32_t sequencesAtATime(const Options &options) {
  // Only batch runs more than one sequence at a time.
  constexpr uint32_t batchSequences = 16;
  if (options.maxSequences != 0)
    return std::min(options.maxSequences, UINT32_MAX / 2);
  return options.command == Command::batch ? batchSequences : 1;
}

k3rt_engine_options engineOptions(const Options &options) {
  k3rt_engine_options result;
  k3rt_engine_options_init(&result);
  result.threads = options.threads;
  result.memory_limit = options.memoryLimit;
  result.max_sequences = sequencesAtATime(options);
  // A draft is taken back to a copy of the state, in a slot of its own.
  if (options.mostDrafted() != 0)
    result.max_sequences *= 2;
  result.prefix_cache_bytes = options.prefixCacheBytes;
  result.max_context = options.context;
  result.prefill_window = options.prefillWindow;
  result.poison = options.poison;
  result.deterministic = options.deterministic;
  result.trap_nonfinite = !options.trapFolder.empty() ||
                          options.command == Command::replay;
  result.trap_folder =
      options.trapFolder.empty() ? nullptr : options.trapFolder.c_str();
  result.verify_weights = options.verifyWeights;
  result.device = options.device.empty() ? nullptr : options.device.c_str();
  result.no_graph = !options.graph;
  result.cublas = options.cublas;
  result.weights_dir =
      options.weightsDir.empty() ? nullptr : options.weightsDir.c_str();
  return result;
}

uint64_t peakMemory() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

bool Engine::check(k3rt_status status, std::string &error) const {
  if (status == K3RT_OK)
    return true;
  error = k3rt_last_error(engine);
  return false;
}

bool Engine::open(const Options &options, std::string &error) {
  k3rt_engine_options settings = engineOptions(options);
  OpenProgress progress("loading weights");
  progress.attach(settings);
  char message[1024] = {};
  if (k3rt_engine_open(options.artifact.path.c_str(), options.artifact.offset,
                       &settings, &engine, message,
                       sizeof(message)) != K3RT_OK) {
    error = message;
    return false;
  }
  modelInfo.size = sizeof(modelInfo);
  if (!check(k3rt_engine_info(engine, &modelInfo), error))
    return false;
  const void *data = nullptr;
  uint64_t size = 0;
  if (!check(k3rt_tokenizer_blob(engine, &data, &size), error))
    return false;
  if (!data)
    return true;
  textTokenizer = k3rt::Tokenizer::open(data, size, error);
  if (!textTokenizer) {
    error = options.artifact.path + ": " + error;
    return false;
  }
  if (textTokenizer->vocabSize() != modelInfo.vocab_size) {
    error = options.artifact.path + ": the tokenizer has " +
            std::to_string(textTokenizer->vocabSize()) +
            " tokens, the model has " + std::to_string(modelInfo.vocab_size);
    return false;
  }
  return true;
}

bool Engine::needTokenizer(std::string &error) const {
  if (textTokenizer)
    return true;
  error = "this artifact has no tokenizer, text cannot be used with it";
  return false;
}

bool Engine::createSequence(k3rt_sequence &sequence, std::string &error) {
  return check(k3rt_sequence_create(engine, &sequence), error);
}

void Engine::freeSequence(k3rt_sequence sequence) {
  k3rt_sequence_free(engine, sequence);
}

bool Engine::step(k3rt_sequence sequence, const int32_t *tokens, size_t count,
                  const float *&logits, std::string &error) {
  k3rt_batch_row row = {sequence, tokens, count, 0};
  k3rt_batch batch = {&row, 1};
  k3rt_step_result result = {};
  if (!check(k3rt_step(engine, &batch, &result), error))
    return false;
  logits = result.logits +
           (result.num_logit_rows - 1) * static_cast<size_t>(result.vocab_size);
  return true;
}

bool Engine::stepChoosing(k3rt_sequence sequence, const int32_t *tokens,
                          size_t count, const k3rt_choice &choice, Next &next,
                          std::string &error) {
  k3rt_batch_row row = {sequence, tokens, count, 0};
  k3rt_batch batch = {&row, 1};
  k3rt_step_result result = {};
  const int32_t *chosen = nullptr;
  if (!check(k3rt_step_choose(engine, &batch, &choice, &result, &chosen),
             error))
    return false;
  uint64_t last = result.num_logit_rows - 1;
  next = {chosen[last],
          result.logits + last * static_cast<size_t>(result.vocab_size)};
  return true;
}

bool Engine::stepAll(k3rt_sequence sequence, const int32_t *tokens,
                     size_t count,
                     const std::function<void(size_t, const float *)> &visit,
                     std::string &error) {
  size_t most = std::max<size_t>(1, modelInfo.max_logit_rows);
  for (size_t start = 0; start < count; start += most) {
    size_t length = std::min(most, count - start);
    k3rt_batch_row row = {sequence, tokens + start, length, 1};
    k3rt_batch batch = {&row, 1};
    k3rt_step_result result = {};
    if (!check(k3rt_step(engine, &batch, &result), error))
      return false;
    if (result.num_logit_rows != length) {
      error = "asked for logits after " + std::to_string(length) +
              " tokens, got " + std::to_string(result.num_logit_rows);
      return false;
    }
    for (size_t i = 0; i < length; ++i)
      visit(start + i,
            result.logits + i * static_cast<size_t>(result.vocab_size));
  }
  return true;
}

bool Engine::readState(k3rt_sequence sequence, uint32_t layer, const char *name,
                       uint64_t capacity, std::vector<float> &values,
                       std::string &error) {
  values.resize(capacity);
  uint64_t count = capacity;
  if (!check(k3rt_sequence_read_state(engine, sequence, layer, name,
                                      values.data(), &count),
             error))
    return false;
  if (count != capacity) {
    error = "layer " + std::to_string(layer) + ": state " + name + " has " +
            std::to_string(count) + " values, expected " +
            std::to_string(capacity);
    return false;
  }
  return true;
}

bool Engine::findState(k3rt_sequence sequence, uint32_t layer,
                       const char *name, std::vector<float> &values) {
  uint64_t count = 0;
  if (k3rt_sequence_read_state(engine, sequence, layer, name, nullptr,
                               &count) != K3RT_OK)
    return false;
  std::string error;
  return readState(sequence, layer, name, count, values, error);
}

bool Engine::writeState(k3rt_sequence sequence, uint32_t layer,
                        const char *name, const std::vector<float> &values,
                        std::string &error) {
  return check(k3rt_sequence_write_state(engine, sequence, layer, name,
                                         values.data(), values.size()),
               error);
}

bool Engine::attachPrefix(k3rt_sequence sequence,
                          const std::vector<int32_t> &tokens, uint64_t &reused,
                          std::string &error) {
  return check(k3rt_prefix_attach(engine, sequence, tokens.data(),
                                  tokens.size(), &reused),
               error);
}

bool Engine::storePrefix(k3rt_sequence sequence, std::string &error) {
  return check(k3rt_prefix_store(engine, sequence), error);
}

bool Engine::plan(const Options &options, k3rt_memory_plan &plan,
                  std::string &error) {
  k3rt_engine_options settings = engineOptions(options);
  plan.size = sizeof(plan);
  char message[1024] = {};
  if (k3rt_plan_open(options.artifact.path.c_str(), options.artifact.offset,
                     &settings, &plan, message, sizeof(message)) == K3RT_OK)
    return true;
  error = message;
  return false;
}

uint32_t Engine::threads() {
  k3rt_stats stats = {};
  stats.size = sizeof(stats);
  return k3rt_stats_get(engine, &stats) == K3RT_OK ? stats.threads : 0;
}

k3rt_device_info Engine::device() {
  k3rt_device_info info = {};
  info.size = sizeof(info);
  k3rt_device_info_get(engine, &info);
  return info;
}

bool Engine::setTrace(k3rt_trace_fn trace, void *user, std::string &error) {
  return check(k3rt_set_trace(engine, trace, user), error);
}

} // namespace k3run
