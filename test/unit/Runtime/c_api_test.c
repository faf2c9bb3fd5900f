/*===- c_api_test.c - the C API from C11 -*- C -*-===*/
/* Part of k3c, under the Apache License v2.0 with LLVM Exceptions. */
/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/*===----------------------------------------------------------------------===*/
#include "k3rt/abi.h"
#include "k3rt/k3rt.h"

#include <stdio.h>
#include <string.h>

/* The first check that fails ends the run with its text. */
#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      snprintf(failure, size, "line %d: %s: %s", __LINE__, #condition,         \
               k3rt_last_error(engine));                                       \
      k3rt_engine_close(engine);                                               \
      return 1;                                                                \
    }                                                                          \
  } while (0)

static void countEvents(void *user, const k3rt_trace_event *event) {
  *(int *)user += event->data != NULL;
}

/* Everything the header declares, once. `path` is the toy model. */
int runCApiTest(const char *path, char *failure, size_t size) {
  k3rt_engine *engine = NULL;
  char error[256] = "";
  CHECK(k3rt_api_version() == K3RT_API_VERSION);

  k3rt_engine_options options;
  k3rt_engine_options_init(&options);
  CHECK(options.size == sizeof(options));
  options.threads = 1;
  k3rt_memory_plan plan = {.size = sizeof(plan)};
  CHECK(k3rt_plan_open(path, 0, &options, &plan, error, sizeof(error)) == K3RT_OK);
  CHECK(plan.arena_bytes != 0 && plan.weight_bytes != 0);

  /* Errors before there is an engine; a short buffer is cut, not overrun. */
  char four[5] = {'x', 'x', 'x', 'x', 'x'};
  CHECK(k3rt_engine_open("/nonexistent", 0, NULL, &engine, four, 4) == K3RT_IO_ERROR);
  CHECK(engine == NULL && strcmp(four, "/no") == 0 && four[4] == 'x');
  CHECK(k3rt_engine_open(NULL, 0, NULL, &engine, NULL, 0) == K3RT_INVALID_ARGUMENT);
  CHECK(k3rt_engine_open(path, 0, NULL, NULL, error, sizeof(error)) == K3RT_INVALID_ARGUMENT);
  CHECK(k3rt_step(NULL, NULL, NULL) == K3RT_INVALID_ARGUMENT);
  CHECK(strcmp(k3rt_last_error(NULL), "") == 0);
  k3rt_engine_close(NULL);

  CHECK(k3rt_engine_open(path, 0, &options, &engine, error, sizeof(error)) == K3RT_OK);
  CHECK(error[0] == '\0');
  k3rt_model_info info = {.size = sizeof(info)};
  CHECK(k3rt_engine_info(engine, &info) == K3RT_OK);
  CHECK(strcmp(info.name, "toy") == 0 && strcmp(info.model_type, "toy_type") == 0);
  CHECK(info.vocab_size == 64 && info.hidden_size == 8 && info.num_layers == 3);
  CHECK(info.bos_token_id == 1 && info.pad_token_id == 0);
  CHECK(info.num_eos_token_ids == 2 && info.eos_token_ids[1] == 3);
  CHECK(info.max_context == 4096 && info.max_tokens == 64 && info.max_logit_rows == 16);
  /* A caller compiled against a shorter struct. */
  k3rt_model_info old;
  memset(&old, 0x5a, sizeof(old));
  old.size = offsetof(k3rt_model_info, vocab_size);
  CHECK(k3rt_engine_info(engine, &old) == K3RT_OK);
  CHECK(strcmp(old.name, "toy") == 0 && old.vocab_size == 0x5a5a5a5a);
  CHECK(old.size == offsetof(k3rt_model_info, vocab_size));
  old.size = 0;
  CHECK(k3rt_engine_info(engine, &old) == K3RT_INVALID_ARGUMENT);

  k3rt_sequence sequence;
  CHECK(k3rt_sequence_create(engine, &sequence) == K3RT_OK);
  int events = 0;
  CHECK(k3rt_set_trace(engine, countEvents, &events) == K3RT_OK);
  const int32_t tokens[3] = {4, 5, 6};
  k3rt_batch_row row = {sequence, tokens, 3, 1};
  k3rt_batch batch = {&row, 1};
  k3rt_step_result result;
  CHECK(k3rt_step(engine, &batch, &result) == K3RT_OK);
  CHECK(events > 0 && result.num_logit_rows == 3 && result.vocab_size == 64);
  CHECK(result.first_row[0] == 0 && result.first_row[1] == 3 && result.row_status[0] == K3RT_OK);
  uint64_t length;
  CHECK(k3rt_sequence_length(engine, sequence, &length) == K3RT_OK && length == 3);
  float state[8];
  uint64_t count = 7;
  CHECK(k3rt_sequence_read_state(engine, sequence, 0, "kda", state, &count) == K3RT_INVALID_ARGUMENT);
  CHECK(count == 8);
  CHECK(k3rt_sequence_read_state(engine, sequence, 0, "kda", state, &count) == K3RT_OK);
  CHECK(k3rt_sequence_read_state(engine, sequence, 0, "kv", state, &count) == K3RT_INVALID_ARGUMENT);
  CHECK(k3rt_sequence_read_state(engine, sequence, 9, "kda", state, &count) == K3RT_INVALID_ARGUMENT);

  /* The greedy token is the first of the largest logits. */
  const float *last = result.logits + 2 * 64;
  int32_t best = 0, token = -1;
  for (int32_t i = 1; i < 64; ++i)
    if (last[i] > last[best])
      best = i;
  k3rt_sampling sampling;
  k3rt_sampling_init(&sampling);
  CHECK(sampling.size == sizeof(sampling) && sampling.temperature == 1);
  sampling.temperature = 0;
  CHECK(k3rt_sample(engine, last, &sampling, &token) == K3RT_OK && token == best);
  /* The same seed and step give the same token, other steps other ones. */
  float flat[64] = {0};
  int32_t first[32], again;
  int differ = 0;
  k3rt_sampling_init(&sampling);
  sampling.seed = 7;
  for (sampling.step = 0; sampling.step < 32; ++sampling.step) {
    CHECK(k3rt_sample(engine, flat, &sampling, &first[sampling.step]) == K3RT_OK);
    CHECK(k3rt_sample(engine, flat, &sampling, &again) == K3RT_OK && again == first[sampling.step]);
    differ += first[sampling.step] != first[0];
  }
  CHECK(differ > 20);
  sampling.top_p = 2;
  CHECK(k3rt_sample(engine, flat, &sampling, &again) == K3RT_INVALID_ARGUMENT);
  k3rt_sampling_init(&sampling);
  flat[3] = (float)(1e300 * 1e300);
  CHECK(k3rt_sample(engine, flat, &sampling, &again) == K3RT_NON_FINITE);

  k3rt_snapshot snapshot;
  CHECK(k3rt_sequence_snapshot(engine, sequence, &snapshot) == K3RT_OK);
  CHECK(k3rt_sequence_restore(engine, sequence, snapshot) == K3RT_OK);
  CHECK(k3rt_snapshot_free(engine, snapshot) == K3RT_OK);
  const void *blob;
  uint64_t blobSize;
  CHECK(k3rt_tokenizer_blob(engine, &blob, &blobSize) == K3RT_OK);
  CHECK(blobSize == 15 && memcmp(blob, "tokenizer bytes", 15) == 0);
  k3rt_stats stats = {.size = sizeof(stats)};
  CHECK(k3rt_stats_get(engine, &stats) == K3RT_OK && stats.steps == 1 && stats.threads == 1);
  CHECK(k3rt_sequence_free(engine, sequence) == K3RT_OK);
  CHECK(k3rt_sequence_free(engine, sequence) == K3RT_INVALID_ARGUMENT);
  CHECK(strlen(k3rt_last_error(engine)) > 0);
  k3rt_engine_close(engine);
  return 0;
}
