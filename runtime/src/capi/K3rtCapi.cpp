//===- K3rtCapi.cpp - the C API ------------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// The only place that turns a Status into a code and a last error.
//===----------------------------------------------------------------------===//
#include "runtime/src/capi/Handles.h"
#include "runtime/src/text/Sampler.h"

#include <algorithm>
#include <memory>

using namespace k3rt;

static Status engineOptions(const k3rt_engine_options *given,
                            EngineOptions &options) {
  k3rt_engine_options defaults;
  k3rt_engine_options_init(&defaults);
  k3rt_engine_options read = readSized(given, defaults);
  options.threads = read.threads;
  options.memoryLimit = read.memory_limit;
  options.snapshotLimit = read.snapshot_limit;
  options.prefixCacheBytes = read.prefix_cache_bytes;
  if (read.prefix_spill_dir)
    options.prefixSpillFolder = read.prefix_spill_dir;
  options.prefixSpillBytes = read.prefix_spill_bytes;
  options.maxSequences = read.max_sequences;
  options.maxContext = read.max_context;
  options.prefillWindow = read.prefill_window;
  options.poison = read.poison != 0;
  options.deterministic = read.deterministic != 0;
  options.trapNonFinite = read.trap_nonfinite != 0;
  if (read.trap_folder)
    options.trapFolder = read.trap_folder;
  options.verifyWeights = read.verify_weights != 0;
  if (read.weights_dir)
    options.weightsDir = read.weights_dir;
  options.randomWeights = read.random_weights;
  options.progress = {read.progress, read.progress_user};
  options.graph = read.no_graph == 0;
  options.library = read.cublas < 0    ? LibraryUse::never
                    : read.cublas == 0 ? LibraryUse::forLarge
                                       : LibraryUse::always;
  return parseDeviceName(read.device ? read.device : "", options.device);
}

/// For calls on an engine with one pointer that must not be NULL.
#define K3RT_CHECK_ARGUMENTS(argument)                                         \
  do {                                                                         \
    if (!engine)                                                               \
      return K3RT_INVALID_ARGUMENT;                                            \
    if (!(argument))                                                           \
      return engine->report(nullArgument(#argument));                          \
  } while (false)

extern "C" {

uint32_t k3rt_api_version(void) { return K3RT_API_VERSION; }

//===----------------------------------------------------------------------===//
// Engine
//===----------------------------------------------------------------------===//

void k3rt_engine_options_init(k3rt_engine_options *options) {
  if (!options)
    return;
  *options = k3rt_engine_options{};
  options->size = sizeof(*options);
}

k3rt_status k3rt_engine_open(const char *path, uint64_t offset,
                             const k3rt_engine_options *options,
                             k3rt_engine **out_engine, char *error,
                             size_t error_size) {
  if (!out_engine)
    return reportTo(error, error_size, nullArgument("out_engine"));
  *out_engine = nullptr;
  if (!path)
    return reportTo(error, error_size, nullArgument("path"));
  auto made = std::make_unique<k3rt_engine>();
  EngineOptions chosen;
  Status status = engineOptions(options, chosen);
  if (status.ok())
    status = made->engine.open(path, offset, chosen);
  if (status.ok()) {
    if (const auto *ids =
            made->engine.artifact().index().model()->eos_token_ids())
      made->eosTokens.assign(ids->begin(), ids->end());
    *out_engine = made.release();
  }
  return reportTo(error, error_size, status);
}

void k3rt_engine_close(k3rt_engine *engine) { delete engine; }

const char *k3rt_last_error(const k3rt_engine *engine) {
  return engine ? engine->error.c_str() : "";
}

k3rt_status k3rt_engine_info(k3rt_engine *engine, k3rt_model_info *out_info) {
  K3RT_CHECK_ARGUMENTS(out_info);
  const auto &index = engine->engine.artifact().index();
  const auto &model = *index.model();
  auto text = [](const flatbuffers::String *string) {
    return string ? string->c_str() : "";
  };
  k3rt_model_info info = {};
  info.name = text(model.name());
  info.model_type = text(model.model_type());
  info.compiler_version = text(index.compiler_version());
  info.vocab_size = model.vocab_size();
  info.hidden_size = model.hidden_size();
  info.num_layers = index.layers() ? index.layers()->size() : 0;
  info.bos_token_id = model.bos_token_id();
  info.pad_token_id = model.pad_token_id();
  info.eos_token_ids = engine->eosTokens.data();
  info.num_eos_token_ids = uint32_t(engine->eosTokens.size());
  info.max_context = engine->engine.plan().maxContext;
  const auto &program = engine->engine.prefillProgram();
  info.max_tokens = program.max_tokens();
  info.max_logit_rows = program.max_logit_rows();
  return engine->report(writeSized(out_info, info));
}

k3rt_status k3rt_plan_open(const char *path, uint64_t offset,
                           const k3rt_engine_options *options,
                           k3rt_memory_plan *out_plan, char *error,
                           size_t error_size) {
  if (!path)
    return reportTo(error, error_size, nullArgument("path"));
  Artifact artifact;
  EngineOptions chosen;
  MemoryPlan plan;
  Status status = engineOptions(options, chosen);
  if (status.ok())
    status = artifact.open(path, offset);
  if (status.ok())
    status = artifact.checkFor(chosen.device);
  if (status.ok())
    status = planMemory(artifact.index(), chosen, plan);
  if (!status.ok())
    return reportTo(error, error_size, status);
  const auto &model = *artifact.index().model();
  k3rt_memory_plan out = {};
  out.state_bytes_per_sequence =
      plan.recurrentPerSequence + plan.convPerSequence;
  out.recurrent_bytes_per_sequence = plan.recurrentPerSequence;
  out.conv_bytes_per_sequence = plan.convPerSequence;
  out.kv_bytes_per_token = plan.kvPerToken;
  out.expert_bytes = model.expert_bytes();
  out.weight_bytes = model.total_weight_bytes();
  out.arena_bytes = plan.arena;
  out.state_pool_bytes = plan.statePool;
  out.kv_pool_bytes = plan.kvPool;
  out.total_bytes = plan.total();
  out.model_context = model.max_position_embeddings();
  return reportTo(error, error_size, writeSized(out_plan, out));
}

k3rt_status k3rt_plan_capacity(const char *path, uint64_t offset,
                               const k3rt_engine_options *options,
                               const uint64_t *tokens, uint32_t count,
                               uint64_t *out_sequences, char *error,
                               size_t error_size) {
  if (!path)
    return reportTo(error, error_size, nullArgument("path"));
  if (count != 0 && (!tokens || !out_sequences))
    return reportTo(error, error_size,
                    nullArgument(tokens ? "out_sequences" : "tokens"));
  EngineOptions chosen;
  Status status = engineOptions(options, chosen);
  if (status.ok() && chosen.memoryLimit == 0)
    status = Status(K3RT_INVALID_ARGUMENT, "memory_limit is 0");
  Artifact artifact;
  if (status.ok())
    status = artifact.open(path, offset);
  if (status.ok())
    status = artifact.checkFor(chosen.device);
  for (uint32_t i = 0; status.ok() && i < count; ++i)
    out_sequences[i] = planCapacity(artifact.index(), chosen, tokens[i]);
  return reportTo(error, error_size, status);
}

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

k3rt_status k3rt_sequence_create(k3rt_engine *engine,
                                 k3rt_sequence *out_sequence) {
  K3RT_CHECK_ARGUMENTS(out_sequence);
  return engine->report(engine->engine.createSequence(*out_sequence));
}

k3rt_status k3rt_sequence_free(k3rt_engine *engine, k3rt_sequence sequence) {
  if (!engine)
    return K3RT_INVALID_ARGUMENT;
  return engine->report(engine->engine.freeSequence(sequence));
}

k3rt_status k3rt_sequence_length(k3rt_engine *engine, k3rt_sequence sequence,
                                 uint64_t *out_tokens) {
  K3RT_CHECK_ARGUMENTS(out_tokens);
  return engine->report(engine->engine.sequenceLength(sequence, *out_tokens));
}

k3rt_status k3rt_sequence_fork(k3rt_engine *engine, k3rt_sequence sequence,
                               k3rt_sequence *out_sequence) {
  K3RT_CHECK_ARGUMENTS(out_sequence);
  return engine->report(engine->engine.forkSequence(sequence, *out_sequence));
}

k3rt_status k3rt_sequence_mark(k3rt_engine *engine, k3rt_sequence sequence) {
  if (!engine)
    return K3RT_INVALID_ARGUMENT;
  return engine->report(engine->engine.markSequence(sequence));
}

k3rt_status k3rt_sequence_unmark(k3rt_engine *engine, k3rt_sequence sequence) {
  if (!engine)
    return K3RT_INVALID_ARGUMENT;
  return engine->report(engine->engine.unmarkSequence(sequence));
}

k3rt_status k3rt_rollback(k3rt_engine *engine, const k3rt_rollback_row *rows,
                          uint32_t num_rows) {
  if (!engine)
    return K3RT_INVALID_ARGUMENT;
  if (num_rows != 0 && !rows)
    return engine->report(nullArgument("rows"));
  return engine->report(engine->engine.rollBack(rows, num_rows));
}

k3rt_status k3rt_prefix_attach(k3rt_engine *engine, k3rt_sequence sequence,
                               const int32_t *tokens, uint64_t num_tokens,
                               uint64_t *out_reused) {
  K3RT_CHECK_ARGUMENTS(out_reused);
  if (num_tokens != 0 && !tokens)
    return engine->report(nullArgument("tokens"));
  return engine->report(engine->engine.attachPrefix(sequence, tokens,
                                                    num_tokens, *out_reused));
}

k3rt_status k3rt_prefix_store(k3rt_engine *engine, k3rt_sequence sequence) {
  if (!engine)
    return K3RT_INVALID_ARGUMENT;
  return engine->report(engine->engine.storePrefix(sequence));
}

k3rt_status k3rt_prefix_stats_get(k3rt_engine *engine,
                                  k3rt_prefix_stats *out_stats) {
  K3RT_CHECK_ARGUMENTS(out_stats);
  PrefixCacheStats counts = engine->engine.prefixStats();
  k3rt_prefix_stats stats = {};
  stats.lookups = counts.lookups;
  stats.hits = counts.hits;
  stats.asked_tokens = counts.askedTokens;
  stats.reused_tokens = counts.reusedTokens;
  stats.stored = counts.stored;
  stats.known = counts.known;
  stats.non_finite = counts.nonFinite;
  stats.no_room = counts.noRoom;
  stats.evictions = counts.evictions;
  stats.entries = counts.entries;
  stats.bytes = counts.bytes;
  stats.spills = counts.spills;
  stats.spill_loads = counts.spillLoads;
  stats.spill_errors = counts.spillErrors;
  stats.spill_entries = counts.spillEntries;
  stats.spill_bytes = counts.spillBytes;
  return engine->report(writeSized(out_stats, stats));
}

k3rt_status k3rt_sequence_reserve(k3rt_engine *engine, k3rt_sequence sequence,
                                  uint64_t tokens) {
  if (!engine)
    return K3RT_INVALID_ARGUMENT;
  return engine->report(engine->engine.reserveSequence(sequence, tokens));
}

k3rt_status k3rt_sequence_snapshot(k3rt_engine *engine, k3rt_sequence sequence,
                                   k3rt_snapshot *out_snapshot) {
  K3RT_CHECK_ARGUMENTS(out_snapshot);
  return engine->report(engine->engine.takeSnapshot(sequence, *out_snapshot));
}

k3rt_status k3rt_sequence_restore(k3rt_engine *engine, k3rt_sequence sequence,
                                  k3rt_snapshot snapshot) {
  if (!engine)
    return K3RT_INVALID_ARGUMENT;
  return engine->report(engine->engine.restoreSnapshot(sequence, snapshot));
}

k3rt_status k3rt_snapshot_free(k3rt_engine *engine, k3rt_snapshot snapshot) {
  if (!engine)
    return K3RT_INVALID_ARGUMENT;
  return engine->report(engine->engine.freeSnapshot(snapshot));
}

k3rt_status k3rt_snapshot_save(k3rt_engine *engine, k3rt_snapshot snapshot,
                               const char *path) {
  K3RT_CHECK_ARGUMENTS(path);
  return engine->report(engine->engine.saveSnapshot(snapshot, path));
}

k3rt_status k3rt_snapshot_load(k3rt_engine *engine, const char *path,
                               k3rt_snapshot *out_snapshot) {
  K3RT_CHECK_ARGUMENTS(path);
  K3RT_CHECK_ARGUMENTS(out_snapshot);
  return engine->report(engine->engine.loadSnapshot(path, *out_snapshot));
}

k3rt_status k3rt_sequence_read_state(k3rt_engine *engine,
                                     k3rt_sequence sequence, uint32_t layer,
                                     const char *name, float *out,
                                     uint64_t *inout_count) {
  K3RT_CHECK_ARGUMENTS(inout_count);
  K3RT_CHECK_ARGUMENTS(name);
  return engine->report(
      engine->engine.readState(sequence, layer, name, out, *inout_count));
}

k3rt_status k3rt_sequence_write_state(k3rt_engine *engine,
                                      k3rt_sequence sequence, uint32_t layer,
                                      const char *name, const float *values,
                                      uint64_t count) {
  K3RT_CHECK_ARGUMENTS(name);
  K3RT_CHECK_ARGUMENTS(values);
  return engine->report(
      engine->engine.writeState(sequence, layer, name, values, count));
}

//===----------------------------------------------------------------------===//
// Step, sampling, text
//===----------------------------------------------------------------------===//

k3rt_status k3rt_step(k3rt_engine *engine, const k3rt_batch *batch,
                      k3rt_step_result *out_result) {
  K3RT_CHECK_ARGUMENTS(batch);
  K3RT_CHECK_ARGUMENTS(out_result);
  return engine->report(engine->engine.step(*batch, *out_result));
}

void k3rt_sampling_init(k3rt_sampling *sampling) {
  if (!sampling)
    return;
  *sampling = k3rt_sampling{};
  sampling->size = sizeof(*sampling);
  sampling->temperature = 1;
  sampling->top_p = 1;
  sampling->repetition_penalty = 1;
}

k3rt_status k3rt_sample(k3rt_engine *engine, const float *logits,
                        const k3rt_sampling *sampling, int32_t *out_token) {
  K3RT_CHECK_ARGUMENTS(logits);
  K3RT_CHECK_ARGUMENTS(out_token);
  k3rt_sampling read = readSampling(sampling);
  if (read.num_history != 0 && !read.history)
    return engine->report(nullArgument("history"));
  Sampler sampler;
  std::string error;
  uint32_t vocab = engine->engine.artifact().index().model()->vocab_size();
  if (!sampler.init(samplerOptions(read), vocab, error))
    return engine->report(Status(K3RT_INVALID_ARGUMENT, error));
  sampler.seek(read.step);
  for (uint64_t i = 0; i < read.num_history; ++i)
    sampler.observe(read.history[i]);
  if (!sampler.sample(logits, *out_token, error))
    return engine->report(Status(K3RT_NON_FINITE, error));
  return engine->report(Status());
}

/// What the device is asked for, if it can do it; `sampler` outlives `out`.
static Status readChoice(const k3rt_batch_row &row, const k3rt_choice &choice,
                         uint32_t vocab, Sampler &sampler, RowSampling &out,
                         bool &wanted) {
  wanted = false;
  if (!choice.sampling)
    return Status();
  if (choice.num_banned_ids != 0 && !choice.banned_ids)
    return nullArgument("banned_ids");
  k3rt_sampling read = readSampling(choice.sampling);
  SamplerOptions options = samplerOptions(read);
  options.bannedIds.assign(choice.banned_ids,
                           choice.banned_ids + choice.num_banned_ids);
  std::string error;
  if (!sampler.init(options, vocab, error))
    return Status(K3RT_INVALID_ARGUMENT, error);
  sampler.seek(read.step);
  wanted = row.all_logits >= 0 && options.repetitionPenalty == 1;
  if (wanted)
    describe(sampler, 0, row.all_logits > 0 ? row.num_tokens : 1, out);
  return Status();
}

k3rt_status k3rt_step_choose(k3rt_engine *engine, const k3rt_batch *batch,
                             const k3rt_choice *choices,
                             k3rt_step_result *out_result,
                             const int32_t **out_tokens) {
  K3RT_CHECK_ARGUMENTS(batch);
  K3RT_CHECK_ARGUMENTS(out_result);
  K3RT_CHECK_ARGUMENTS(out_tokens);
  if (batch->num_rows != 0 && (!batch->rows || !choices))
    return engine->report(nullArgument(batch->rows ? "choices" : "rows"));
  uint32_t vocab = engine->engine.artifact().index().model()->vocab_size();
  engine->samplers.resize(batch->num_rows);
  engine->rowSampling.resize(batch->num_rows);
  std::vector<const RowSampling *> sampling(batch->num_rows);
  for (uint32_t i = 0; i < batch->num_rows; ++i) {
    bool wanted;
    Status status = readChoice(batch->rows[i], choices[i], vocab,
                               engine->samplers[i], engine->rowSampling[i],
                               wanted);
    if (!status.ok())
      return engine->report(
          makeError(status.code(), "row %u: %s", i, status.message().c_str()));
    if (wanted)
      sampling[i] = &engine->rowSampling[i];
  }
  Status status = engine->engine.step(*batch, *out_result, &sampling);
  *out_tokens = engine->engine.chosenTokens().data();
  return engine->report(status);
}

k3rt_status k3rt_tokenizer_blob(k3rt_engine *engine, const void **out_data,
                                uint64_t *out_size) {
  K3RT_CHECK_ARGUMENTS(out_data);
  K3RT_CHECK_ARGUMENTS(out_size);
  *out_data = nullptr;
  *out_size = 0;
  const Artifact &artifact = engine->engine.artifact();
  const auto *blob = artifact.index().tokenizer();
  if (!blob)
    return engine->report(Status());
  Status status = artifact.checkBlob(*blob, "the tokenizer");
  if (status.ok()) {
    *out_data = artifact.data() + blob->offset();
    *out_size = blob->length();
  }
  return engine->report(status);
}

//===----------------------------------------------------------------------===//
// Observation
//===----------------------------------------------------------------------===//

k3rt_status k3rt_stats_get(k3rt_engine *engine, k3rt_stats *out_stats) {
  K3RT_CHECK_ARGUMENTS(out_stats);
  return engine->report(writeSized(out_stats, engine->engine.stats()));
}

k3rt_status k3rt_device_info_get(k3rt_engine *engine,
                                 k3rt_device_info *out_info) {
  K3RT_CHECK_ARGUMENTS(out_info);
  return engine->report(writeSized(out_info, engine->engine.deviceInfo()));
}

k3rt_status k3rt_set_trace(k3rt_engine *engine, k3rt_trace_fn fn, void *user) {
  if (!engine)
    return K3RT_INVALID_ARGUMENT;
  engine->engine.setTrace(fn, user);
  return engine->report(Status());
}

k3rt_status k3rt_set_profile(k3rt_engine *engine, k3rt_profile_fn fn,
                             void *user, int32_t each_dispatch) {
  if (!engine)
    return K3RT_INVALID_ARGUMENT;
  engine->engine.setProfile(fn, user, each_dispatch != 0);
  return engine->report(Status());
}

} // extern "C"
