//===- MockRuntime.cpp - a C API whose model the test decides -----------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/K3Run/MockRuntime.h"

#include "test/unit/Text/TestTokenizer.h"
#include "tools/runtime/k3-run/Commands.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <unistd.h>

using k3run::test::mock;

struct k3rt_engine {
  std::string error;
  std::vector<float> logits;
  std::vector<uint64_t> firstRow;
  std::vector<int32_t> chosen;
  k3rt_trace_fn trace = nullptr;
  void *traceUser = nullptr;

  k3rt_status fail(k3rt_status status, std::string text) {
    error = std::move(text);
    return status;
  }
};

uint32_t k3rt_api_version(void) { return K3RT_API_VERSION; }
void k3rt_engine_options_init(k3rt_engine_options *options) {
  *options = {};
  options->size = sizeof(*options);
}
k3rt_status k3rt_engine_open(const char *path, uint64_t offset, const k3rt_engine_options *options, k3rt_engine **out,
                             char *error, size_t size) {
  std::string name = path;
  if (offset == 0 && (name.size() < 4 || name.substr(name.size() - 4) != ".k3a")) {
    std::snprintf(error, size, "%s: not an artifact", path);
    return K3RT_BAD_ARTIFACT;
  }
  mock().options = *options;
  mock().offset = offset;
  *out = new k3rt_engine;
  return K3RT_OK;
}
void k3rt_engine_close(k3rt_engine *engine) { delete engine; }
const char *k3rt_last_error(const k3rt_engine *engine) { return engine->error.c_str(); }
k3rt_status k3rt_engine_info(k3rt_engine *, k3rt_model_info *info) {
  info->vocab_size = mock().vocab;
  info->hidden_size = mock().hidden;
  info->num_layers = mock().layers;
  info->bos_token_id = mock().bos;
  info->eos_token_ids = mock().eos.data();
  info->num_eos_token_ids = static_cast<uint32_t>(mock().eos.size());
  info->max_context = mock().maxContext;
  info->max_logit_rows = mock().maxLogitRows;
  return K3RT_OK;
}
k3rt_status k3rt_plan_open(const char *path, uint64_t offset, const k3rt_engine_options *, k3rt_memory_plan *plan,
                           char *error, size_t size) {
  if (offset == 0 && !std::strstr(path, ".k3a")) {
    std::snprintf(error, size, "%s: not an artifact", path);
    return K3RT_BAD_ARTIFACT;
  }
  plan->state_bytes_per_sequence = 449372160;
  plan->recurrent_bytes_per_sequence = 434110464;
  plan->conv_bytes_per_sequence = 15261696;
  plan->kv_bytes_per_token = 27648;
  plan->expert_bytes = 17547264;
  plan->weight_bytes = 1560900000000;
  plan->arena_bytes = 3;
  plan->state_pool_bytes = 4;
  plan->kv_pool_bytes = 5;
  plan->total_bytes = 12;
  plan->model_context = 5000;
  return K3RT_OK;
}
k3rt_status k3rt_plan_capacity(const char *, uint64_t, const k3rt_engine_options *options, const uint64_t *tokens,
                               uint32_t count, uint64_t *sequences, char *, size_t) {
  for (uint32_t i = 0; i < count; ++i)
    sequences[i] = options->memory_limit / (1000 + tokens[i]);
  return K3RT_OK;
}
k3rt_status k3rt_sequence_create(k3rt_engine *, k3rt_sequence *out) {
  mock().history.clear();
  *out = 1;
  return K3RT_OK;
}
k3rt_status k3rt_sequence_free(k3rt_engine *, k3rt_sequence) { return K3RT_OK; }
k3rt_status k3rt_sequence_restore(k3rt_engine *, k3rt_sequence, k3rt_snapshot) { return K3RT_OK; }
k3rt_status k3rt_snapshot_load(k3rt_engine *engine, const char *path, k3rt_snapshot *) {
  if (std::strstr(path, "known.k3s"))
    return K3RT_OK;
  return engine->fail(K3RT_IO_ERROR, std::string(path) + ": No such file or directory");
}
k3rt_status k3rt_snapshot_free(k3rt_engine *, k3rt_snapshot) { return K3RT_OK; }
k3rt_status k3rt_sequence_read_state(k3rt_engine *, k3rt_sequence, uint32_t layer, const char *name, float *out,
                                     uint64_t *count) {
  for (uint64_t i = 0; i < *count; ++i)
    out[i] = mock().stateValue(name, layer, i);
  return K3RT_OK;
}

k3rt_status k3rt_sequence_write_state(k3rt_engine *, k3rt_sequence, uint32_t, const char *, const float *, uint64_t) {
  return K3RT_OK;
}
k3rt_status k3rt_sequence_mark(k3rt_engine *, k3rt_sequence) {
  mock().mark = mock().history.size();
  return K3RT_OK;
}
k3rt_status k3rt_rollback(k3rt_engine *engine, const k3rt_rollback_row *rows, uint32_t) {
  auto &model = mock();
  if (model.mark + rows->keep > model.history.size())
    return engine->fail(K3RT_INVALID_ARGUMENT, "fewer tokens came after the mark");
  model.history.resize(model.mark + rows->keep);
  return K3RT_OK;
}
k3rt_status k3rt_prefix_attach(k3rt_engine *, k3rt_sequence, const int32_t *, uint64_t, uint64_t *reused) {
  *reused = 0;
  return K3RT_OK;
}
k3rt_status k3rt_prefix_store(k3rt_engine *, k3rt_sequence) { return K3RT_OK; }
k3rt_status k3rt_stats_get(k3rt_engine *, k3rt_stats *stats) {
  stats->threads = 1;
  return K3RT_OK;
}

k3rt_status k3rt_device_info_get(k3rt_engine *, k3rt_device_info *info) {
  info->name = mock().products.empty() ? "cpu" : "cuda:0";
  info->products = mock().products.c_str();
  return K3RT_OK;
}

namespace {
void traceRows(k3rt_engine *engine, size_t first, size_t rows) {
  auto &model = mock();
  for (int layer = 0; layer < static_cast<int>(model.layers); ++layer) {
    std::vector<float> hidden;
    std::vector<int32_t> experts;
    for (size_t row = first; row < first + rows; ++row) {
      for (size_t i = 0; i < model.hidden; ++i)
        hidden.push_back(model.hiddenValue ? model.hiddenValue(layer, row, i) : 0);
      for (size_t i = 0; i < model.experts; ++i)
        experts.push_back(model.expert ? model.expert(layer, row, i) : 0);
    }
    auto count = static_cast<int64_t>(rows);
    k3rt_trace_event event = {layer, "prefill_moe_route", "ids", 4, 2, {count, model.experts}, experts.data()};
    engine->trace(engine->traceUser, &event);
    event = {layer, "prefill_moe_route", "weights", 0, 2, {count, model.hidden}, hidden.data()};
    engine->trace(engine->traceUser, &event);
    event = {layer, "", "out", 0, 2, {count, model.hidden}, hidden.data()};
    engine->trace(engine->traceUser, &event);
  }
}
} // namespace

k3rt_status k3rt_step(k3rt_engine *engine, const k3rt_batch *batch, k3rt_step_result *result) {
  auto &model = mock();
  const k3rt_batch_row &row = batch->rows[0];
  if (model.history.size() + row.num_tokens > model.maxContext)
    return engine->fail(K3RT_OUT_OF_MEMORY, "the context is full");
  if (!model.failStep.empty()) {
    model.steps.emplace_back(row.tokens, row.tokens + row.num_tokens);
    return engine->fail(K3RT_NON_FINITE, model.failStep);
  }
  if (row.all_logits && row.num_tokens > model.maxLogitRows)
    return engine->fail(K3RT_INVALID_ARGUMENT, "too many logit rows");
  model.steps.emplace_back(row.tokens, row.tokens + row.num_tokens);
  size_t before = model.history.size();
  engine->logits.clear();
  for (uint64_t i = 0; i < row.num_tokens; ++i) {
    model.history.push_back(row.tokens[i]);
    if (!row.all_logits && i + 1 < row.num_tokens)
      continue;
    std::vector<float> logits(model.vocab, 0.0f);
    if (model.logits)
      model.logits(model.history, logits);
    engine->logits.insert(engine->logits.end(), logits.begin(), logits.end());
  }
  if (engine->trace)
    traceRows(engine, before, row.num_tokens);
  engine->firstRow = {0, engine->logits.size() / model.vocab};
  *result = {engine->logits.data(), engine->firstRow.data(), engine->firstRow[1], model.vocab, nullptr};
  return K3RT_OK;
}
/// Chooses where the sampling is greedy, if the model says so.
k3rt_status k3rt_step_choose(k3rt_engine *engine, const k3rt_batch *batch, const k3rt_choice *choices,
                             k3rt_step_result *result, const int32_t **tokens) {
  k3rt_status status = k3rt_step(engine, batch, result);
  if (status != K3RT_OK)
    return status;
  engine->chosen.assign(engine->firstRow[1], -1);
  *tokens = engine->chosen.data();
  if (!mock().choosesTokens || choices->sampling->temperature > 0)
    return status;
  for (uint64_t row = 0; row < engine->firstRow[1]; ++row) {
    float *logits = engine->logits.data() + row * mock().vocab;
    for (uint64_t i = 0; i < choices->num_banned_ids; ++i)
      logits[choices->banned_ids[i]] = -INFINITY;
    engine->chosen[row] = static_cast<int32_t>(std::max_element(logits, logits + mock().vocab) - logits);
    std::fill(logits, logits + mock().vocab, NAN); // they are not there
  }
  return status;
}
void k3rt_sampling_init(k3rt_sampling *sampling) {
  *sampling = {};
  sampling->size = sizeof(*sampling);
  sampling->temperature = sampling->top_p = sampling->repetition_penalty = 1;
}

// A scheduler that gives every running request its likeliest token in each step, whatever its sampling.
struct k3rt_scheduler {
  struct Request {
    k3rt_request id;
    std::vector<int32_t> history, stops, banned;
    uint64_t promptTokens, maxTokens, generated = 0;
    bool cancelled = false;
  };
  k3rt_engine *engine;
  k3rt_scheduler_options options;
  std::vector<Request> requests;
  k3rt_request last = 0;
};
void k3rt_scheduler_options_init(k3rt_scheduler_options *options) {
  *options = {};
  options->size = sizeof(*options);
}
void k3rt_request_options_init(k3rt_request_options *options) {
  *options = {};
  options->size = sizeof(*options);
}
k3rt_status k3rt_scheduler_create(k3rt_engine *engine, const k3rt_scheduler_options *options, k3rt_scheduler **out) {
  *out = new k3rt_scheduler{engine, *options, {}};
  return K3RT_OK;
}
void k3rt_scheduler_free(k3rt_scheduler *scheduler) { delete scheduler; }
k3rt_status k3rt_scheduler_submit(k3rt_scheduler *scheduler, const k3rt_request_options *options, k3rt_request *out,
                                  char *error, size_t size) {
  if (options->num_prompt > mock().maxContext) {
    std::snprintf(error, size, "the prompt has %zu tokens, the context is %zu", size_t(options->num_prompt),
                  size_t(mock().maxContext));
    return K3RT_INVALID_ARGUMENT;
  }
  *out = ++scheduler->last;
  scheduler->requests.push_back({*out,
                                 {options->prompt, options->prompt + options->num_prompt},
                                 {options->stop_ids, options->stop_ids + options->num_stop_ids},
                                 {options->banned_ids, options->banned_ids + options->num_banned_ids},
                                 options->num_prompt,
                                 options->max_tokens});
  mock().seeds.push_back(options->sampling->seed);
  mock().mostDrafted.push_back(options->max_draft);
  return K3RT_OK;
}
k3rt_status k3rt_scheduler_cancel(k3rt_scheduler *scheduler, k3rt_request request) {
  for (auto &one : scheduler->requests)
    if (one.id == request)
      one.cancelled = true;
  return K3RT_OK;
}
k3rt_status k3rt_scheduler_step(k3rt_scheduler *scheduler, k3rt_scheduler_report *report) {
  auto &model = mock();
  std::vector<k3rt_scheduler::Request> left;
  size_t running = 0;
  *report = {};
  for (auto &request : scheduler->requests) {
    if (!request.cancelled && running++ >= scheduler->options.max_running) {
      left.push_back(request);
      continue;
    }
    k3rt_request_event event = {};
    event.request = request.id;
    event.prompt_tokens = request.promptTokens;
    event.token = -1;
    ++report->rows;
    if (request.cancelled) {
      event.finish = K3RT_FINISH_CANCELLED;
    } else {
      std::vector<float> logits(model.vocab, 0.0f);
      if (model.logits)
        model.logits(request.history, logits);
      for (int32_t id : request.banned)
        logits[size_t(id)] = -1;
      if (std::isnan(logits[0])) {
        event.finish = K3RT_FINISH_FAILED;
        event.error = "logit 0 is NaN";
      } else {
        event.token = int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
        event.num_tokens = ++request.generated;
        request.history.push_back(event.token);
        if (std::count(request.stops.begin(), request.stops.end(), event.token))
          event.finish = K3RT_FINISH_STOP;
        else if (request.generated == request.maxTokens)
          event.finish = K3RT_FINISH_LENGTH;
        else if (request.history.size() > model.maxContext)
          event.finish = K3RT_FINISH_CONTEXT;
      }
    }
    // The callback may cancel.
    request.cancelled = false;
    scheduler->options.on_event(scheduler->options.user, &event);
    if (event.finish == K3RT_NOT_FINISHED)
      left.push_back(request);
  }
  scheduler->requests = left;
  report->running = scheduler->requests.size();
  return K3RT_OK;
}

k3rt_status k3rt_tokenizer_blob(k3rt_engine *, const void **data, uint64_t *size) {
  *data = mock().tokenizer.empty() ? nullptr : mock().tokenizer.data();
  *size = mock().tokenizer.size();
  return K3RT_OK;
}
k3rt_status k3rt_set_trace(k3rt_engine *engine, k3rt_trace_fn trace, void *user) {
  engine->trace = trace;
  engine->traceUser = user;
  return K3RT_OK;
}

namespace k3run::test {

MockModel &mock() {
  static MockModel model;
  return model;
}

void resetMock() {
  static const std::vector<uint8_t> blob = k3rt::test::makeTokenizer(k3rt::test::modelTokenizerData("k3-nano")).blob;
  mock() = MockModel();
  mock().tokenizer = blob;
}

void script(std::vector<int32_t> tokens, int32_t end) {
  size_t next = 0;
  mock().logits = [tokens, end, next](const std::vector<int32_t> &, std::vector<float> &logits) mutable {
    int32_t id = next < tokens.size() ? tokens[next++] : end;
    logits[static_cast<size_t>(id)] = 30;
  };
}

RunResult run(const std::vector<std::string> &arguments, const std::string &input, const std::string &programPath,
              bool terminal) {
  std::istringstream in(input);
  std::ostringstream out, err;
  Streams streams{in, out, err};
  streams.showProgress = terminal;
  int code = runMain(programPath, arguments, streams);
  return {code, out.str(), err.str()};
}

std::string temporaryFile(const std::string &name, const std::string &content) {
  std::string path = ::testing::TempDir() + "k3run-" + std::to_string(static_cast<long>(getpid())) + "-" + name;
  std::ofstream file(path, std::ios::binary);
  file << content;
  return path;
}

} // namespace k3run::test
