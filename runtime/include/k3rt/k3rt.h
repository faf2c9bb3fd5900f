/*===- k3rt.h - C API of the k3 runtime -*- C -*-===*/
/* Part of k3c, under the Apache License v2.0 with LLVM Exceptions. */
/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/*===----------------------------------------------------------------------===*/
/*
 * Opens a .k3a artifact and runs it. C11 and C++17.
 *
 * Ownership: objects made by a *_open / *_create call are freed by the matching *_close / *_free. Strings returned as
 * const char * belong to the object they came from and live until the next call on it.
 * Threads: an engine may be used by one thread at a time; different engines are independent. The engine's own worker
 * threads are internal.
 * Errors: every call that can fail returns k3rt_status; k3rt_last_error(engine) then holds one line for the user
 * (k3rt_engine_open: the `error` argument). A call that fails leaves the engine and all sequences as they were; the
 * exceptions are K3RT_NON_FINITE and K3RT_INTERNAL from k3rt_step, see there.
 * Structs that start with `size` may grow: set options with the *_init function, and `size = sizeof(...)` of others
 * before they are filled.
 */
#ifndef K3RT_K3RT_H
#define K3RT_K3RT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define K3RT_API_VERSION 1u

typedef enum k3rt_status {
  K3RT_OK = 0,
  K3RT_INVALID_ARGUMENT = 1, /* the caller's mistake: bad token id, unknown sequence, wrong size */
  K3RT_BAD_ARTIFACT = 2,     /* not an artifact, truncated, corrupt, other version */
  K3RT_UNSUPPORTED = 3,      /* this CPU or GPU, or its driver, lacks what the artifact was compiled for */
  K3RT_OUT_OF_MEMORY = 4,    /* memory limit, GPU memory, state slots or cache pages exhausted */
  K3RT_IO_ERROR = 5,
  K3RT_NON_FINITE = 6,       /* NaN or infinity in a sequence's values or logits */
  K3RT_INTERNAL = 7
} k3rt_status;

typedef struct k3rt_engine k3rt_engine;
typedef int64_t k3rt_sequence;
typedef int64_t k3rt_snapshot;

uint32_t k3rt_api_version(void);

/*--- engine ---------------------------------------------------------------------------------------------------------*/

/* How far an opening engine is, in bytes. Called by k3rt_engine_open on its own thread. */
typedef void (*k3rt_progress_fn)(void *user, uint64_t done, uint64_t total);

typedef struct k3rt_engine_options {
  size_t size;
  uint32_t threads;         /* 0 = all cores this process may use */
  uint64_t memory_limit;    /* bytes for arena, states, caches and a row of logits per sequence, on a GPU of its memory and
                               for weights too; 0 = what fits `max_sequences` and `max_context` */
  uint32_t max_sequences;   /* live sequences; 0 = 4 */
  uint64_t max_context;     /* tokens per sequence the cache is sized for; 0 = 4096 or the model's maximum */
  uint32_t prefill_window;  /* rows per prefill step, 1 .. the artifact's max_tokens; 0 = that maximum */
  int32_t poison;           /* nonzero: whatever a step has not written reads as NaN, unused inputs as -1 (debugging) */
  int32_t verify_weights;   /* nonzero: check every hash of a weight at open, also of large embedded ones and of packed files */
  const char *weights_dir;  /* folder of referenced or packed weight files; NULL = as recorded in the artifact */
  uint64_t snapshot_limit;  /* bytes for snapshots, which memory_limit does not count; 0 = no limit */
  uint64_t random_weights;  /* nonzero: no weight is read, all are made up in memory from this seed, which memory_limit
                               does not count. For measuring; the only way to run an artifact without weights */
  k3rt_progress_fn progress; /* called while weights are made up, their hashes checked, or sent to a GPU; NULL = not */
  void *progress_user;
  uint64_t prefix_cache_bytes; /* for states of prefixes (k3rt_prefix_store): copies, and the cache pages they hold;
                                  copies are outside memory_limit. 0 = none are kept */
  const char *prefix_spill_dir; /* folder for those that prefix_cache_bytes has no room for; they are checked when they
                                   are read again and removed with the engine. NULL = no files are written */
  uint64_t prefix_spill_bytes;  /* of these files; all three or prefix_cache_bytes alone, else K3RT_INVALID_ARGUMENT */
  int32_t trap_nonfinite;    /* nonzero: look at everything that kernels write, so that a failure names the dispatch that
                                first wrote NaN or infinity; slow, most of all on a GPU (debugging) */
  const char *trap_folder;   /* with trap_nonfinite: where such steps are written, each into a folder of its own with the
                                states before it (k3-run replay runs it again); NULL = nowhere */
  const char *device;          /* "cpu", or "cuda:0" for the first NVIDIA GPU; NULL = "cpu" */
  int32_t no_graph;            /* GPU, nonzero: decode launches kernel by kernel instead of as a graph (debugging);
                                  results are the same */
  int32_t deterministic;     /* nonzero: states and logits of a sequence have the same bits whatever shares its steps,
                                wherever steps, windows or reused prefixes cut it, and on any number of threads. Needs an
                                artifact of k3-compile --deterministic, else K3RT_UNSUPPORTED; prompts take longer */
  int32_t cublas;              /* GPU: 0: where cuBLASLt is found, it does the large products of prefill; below 0: it is not
                                  used; above 0: it does all of prefill's that it can (finds faults) */
} k3rt_engine_options;
void k3rt_engine_options_init(k3rt_engine_options *options);

/* Opens `path`, or the artifact embedded at `offset` of it (0 for a plain file). On failure *out_engine is NULL and
 * error[0 .. error_size) holds the message. */
k3rt_status k3rt_engine_open(const char *path, uint64_t offset, const k3rt_engine_options *options,
                             k3rt_engine **out_engine, char *error, size_t error_size);
void k3rt_engine_close(k3rt_engine *engine);
const char *k3rt_last_error(const k3rt_engine *engine);

typedef struct k3rt_model_info {
  size_t size;
  const char *name, *model_type, *compiler_version;
  uint32_t vocab_size, hidden_size, num_layers;
  int32_t bos_token_id, pad_token_id;
  const int32_t *eos_token_ids;
  uint32_t num_eos_token_ids;
  uint64_t max_context;
  uint32_t max_tokens;     /* rows of one prefill step */
  uint32_t max_logit_rows; /* logit rows of one step */
} k3rt_model_info;
k3rt_status k3rt_engine_info(k3rt_engine *engine, k3rt_model_info *out_info);

/* Memory by purpose, in bytes. Known without weights and before anything is allocated: see k3rt_plan_open. */
typedef struct k3rt_memory_plan {
  size_t size;
  uint64_t state_bytes_per_sequence; /* recurrent + conv */
  uint64_t recurrent_bytes_per_sequence, conv_bytes_per_sequence;
  uint64_t kv_bytes_per_token;
  uint64_t expert_bytes; /* of one routed expert */
  uint64_t weight_bytes; /* of all weights */
  uint64_t arena_bytes;  /* largest program */
  uint64_t state_pool_bytes, kv_pool_bytes; /* for the options given */
  uint64_t total_bytes;   /* for the options given: all that memory_limit counts, on a GPU weights included */
  uint64_t model_context; /* most tokens of a sequence; 0 = no limit */
} k3rt_memory_plan;
k3rt_status k3rt_plan_open(const char *path, uint64_t offset, const k3rt_engine_options *options,
                           k3rt_memory_plan *out_plan, char *error, size_t error_size);

/* out_sequences[i]: how many sequences of tokens[i] tokens each, all of them at that length, fit into memory_limit, which
 * must not be 0. An engine with that many max_sequences and that max_context opens and holds them, one with more does not.
 * The other options count, max_sequences and max_context do not. */
k3rt_status k3rt_plan_capacity(const char *path, uint64_t offset, const k3rt_engine_options *options,
                               const uint64_t *tokens, uint32_t count, uint64_t *out_sequences, char *error,
                               size_t error_size);

/*--- sequences ------------------------------------------------------------------------------------------------------*/

k3rt_status k3rt_sequence_create(k3rt_engine *engine, k3rt_sequence *out_sequence);
k3rt_status k3rt_sequence_free(k3rt_engine *engine, k3rt_sequence sequence);
k3rt_status k3rt_sequence_length(k3rt_engine *engine, k3rt_sequence sequence, uint64_t *out_tokens);

/* A second sequence with the same state. They share the cache pages that are full; both go on on their own.
 * K3RT_OUT_OF_MEMORY: no slot or page. */
k3rt_status k3rt_sequence_fork(k3rt_engine *engine, k3rt_sequence sequence, k3rt_sequence *out_sequence);

/* Promises the sequence the cache pages for a length of `tokens` in all, in place of what it was promised before: other
 * calls leave them free until the sequence is freed, so that no step fails for want of pages up to that length. 0: none.
 * Errors: K3RT_INVALID_ARGUMENT (context), K3RT_OUT_OF_MEMORY (with numbers; the old promise stays). */
k3rt_status k3rt_sequence_reserve(k3rt_engine *engine, k3rt_sequence sequence, uint64_t tokens);

/* A snapshot holds a copy of the whole state: recurrent, conv and latent cache. Restoring is exact to the bit. */
k3rt_status k3rt_sequence_snapshot(k3rt_engine *engine, k3rt_sequence sequence, k3rt_snapshot *out_snapshot);
k3rt_status k3rt_sequence_restore(k3rt_engine *engine, k3rt_sequence sequence, k3rt_snapshot snapshot);
k3rt_status k3rt_snapshot_free(k3rt_engine *engine, k3rt_snapshot snapshot);

/* Snapshots as files: the same on all devices, and for artifacts of the same model and weights. `path` is replaced only by
 * a complete file. Loading: K3RT_IO_ERROR, K3RT_BAD_ARTIFACT (not a state file, another version or model, damaged). */
k3rt_status k3rt_snapshot_save(k3rt_engine *engine, k3rt_snapshot snapshot, const char *path);
k3rt_status k3rt_snapshot_load(k3rt_engine *engine, const char *path, k3rt_snapshot *out_snapshot);

/* Speculation: mark, run drafts with all_logits, keep those that the model confirms. A mark remembers the state of a
 * sequence as it is now, in a free state slot, until it is moved by another mark, given up, or the sequence is freed or
 * restored. K3RT_OUT_OF_MEMORY: no slot is free; the sequence can go on without drafts. */
k3rt_status k3rt_sequence_mark(k3rt_engine *engine, k3rt_sequence sequence);
k3rt_status k3rt_sequence_unmark(k3rt_engine *engine, k3rt_sequence sequence);
typedef struct k3rt_rollback_row {
  k3rt_sequence sequence;
  uint64_t keep; /* tokens after the mark that stay */
} k3rt_rollback_row;
/* Back to the marks, which stay; the tokens to keep are run again, all rows in one step. Also brings back sequences that
 * failed after their mark. Errors as k3rt_step. */
k3rt_status k3rt_rollback(k3rt_engine *engine, const k3rt_rollback_row *rows, uint32_t num_rows);

/* Prefix cache. A recurrent state cannot be cut back, so a prefix can be reused only if the state at its very end was
 * kept. k3rt_prefix_store keeps the whole state of a sequence under the tokens it has seen, unless that is known, there
 * is no room (prefix_cache_bytes) or a value in it is NaN or infinite: never an error, see the counts. What is cheapest to
 * compute again for its size is given up first, also when running sequences need the pages. k3rt_prefix_attach puts the
 * state after the longest kept prefix of tokens[0 .. num_tokens) into an empty sequence; tokens[*out_reused ..) are still
 * to be run, at least the last. */
k3rt_status k3rt_prefix_attach(k3rt_engine *engine, k3rt_sequence sequence, const int32_t *tokens, uint64_t num_tokens,
                               uint64_t *out_reused);
k3rt_status k3rt_prefix_store(k3rt_engine *engine, k3rt_sequence sequence);

typedef struct k3rt_prefix_stats {
  size_t size;
  uint64_t lookups, hits;               /* of k3rt_prefix_attach */
  uint64_t asked_tokens, reused_tokens; /* their quotient is the reuse rate */
  uint64_t stored;
  uint64_t known, non_finite, no_room; /* not stored, by reason */
  uint64_t evictions;
  uint64_t entries, bytes; /* now; entries with files too, bytes in memory */
  uint64_t spills, spill_loads, spill_errors; /* files written, read again, and found damaged or impossible to write */
  uint64_t spill_entries, spill_bytes;        /* files there are now */
} k3rt_prefix_stats;
k3rt_status k3rt_prefix_stats_get(k3rt_engine *engine, k3rt_prefix_stats *out_stats);

/* Copies one state of one layer to `out` as f32: name "kda" [heads, value, key], "conv_q" / "conv_k" / "conv_v"
 * [taps, channels] oldest first, "kv" [length, latent + rope]. *inout_count: capacity in floats, then the count.
 * out NULL: only the count. */
k3rt_status k3rt_sequence_read_state(k3rt_engine *engine, k3rt_sequence sequence, uint32_t layer, const char *name,
                                     float *out, uint64_t *inout_count);

/* The inverse, for experiments: `count` values, which are rounded to the element type of the state; not for "kv". */
k3rt_status k3rt_sequence_write_state(k3rt_engine *engine, k3rt_sequence sequence, uint32_t layer, const char *name,
                                      const float *values, uint64_t count);

/*--- step -----------------------------------------------------------------------------------------------------------*/

/* Tokens of one sequence. Any number >= 0; long inputs are cut into windows. Windows of prompts and single tokens of
 * other sequences may be mixed: rows are taken in order, and as many as fit share a program run. */
typedef struct k3rt_batch_row {
  k3rt_sequence sequence;
  const int32_t *tokens;
  uint64_t num_tokens;
  int32_t all_logits; /* 0: logits after the last token only; above 0: after every token; below 0: none */
} k3rt_batch_row;

typedef struct k3rt_batch {
  const k3rt_batch_row *rows; /* at most one per sequence */
  uint32_t num_rows;
} k3rt_batch;

/* Logits, f32 [rows, vocab]: row i of the batch owns rows first_row[i] .. first_row[i + 1]. Valid until the next step. */
typedef struct k3rt_step_result {
  const float *logits;
  const uint64_t *first_row; /* num_rows + 1 entries */
  uint64_t num_logit_rows;
  uint32_t vocab_size;
  const int32_t *row_status; /* num_rows entries: K3RT_OK or K3RT_NON_FINITE */
} k3rt_step_result;

/* Runs all tokens of the batch. Errors that change nothing: K3RT_INVALID_ARGUMENT (unknown or repeated sequence, token
 * id, context), K3RT_OUT_OF_MEMORY (cache pages; logits). K3RT_NON_FINITE: NaN or infinity in the values
 * or logits of some sequences. The step has happened and the result is filled (NaN where a failed sequence was not run any
 * further); sequences whose row_status says so can only be restored from a snapshot or freed, all others have gone on.
 * K3RT_INTERNAL: a kernel failed; all sequences with tokens in the batch can only be restored or freed. */
k3rt_status k3rt_step(k3rt_engine *engine, const k3rt_batch *batch, k3rt_step_result *out_result);

/*--- sampling -------------------------------------------------------------------------------------------------------*/

typedef struct k3rt_sampling {
  size_t size;
  float temperature;        /* 0 = greedy */
  uint32_t top_k;           /* 0 = off */
  float top_p, min_p;       /* 1 and 0 = off */
  float repetition_penalty; /* 1 = off */
  uint64_t seed;
  const int32_t *history;   /* tokens the penalty applies to */
  uint64_t num_history;
  uint64_t step;            /* position in the random stream of `seed`: tokens chosen with it before */
} k3rt_sampling;
void k3rt_sampling_init(k3rt_sampling *sampling);
k3rt_status k3rt_sample(k3rt_engine *engine, const float *logits, const k3rt_sampling *sampling, int32_t *out_token);

/* What is to be chosen after a batch row. */
typedef struct k3rt_choice {
  const k3rt_sampling *sampling; /* NULL: nothing. `history` is not used, `step` is that of the row's first logit row */
  const int32_t *banned_ids;     /* tokens that are never chosen */
  uint64_t num_banned_ids;
} k3rt_choice;
/* k3rt_step whose tokens are chosen where the logits are, if the engine can: on a GPU, so that logits need not leave it.
 * choices[i] is for row i. (*out_tokens)[r] is the token for logit row r, what k3rt_sample chooses there, and
 * valid until the next step, or -1: then the row's logits are in the result. Logits of other rows are not. -1 are all
 * tokens of an engine on a CPU, where repetition_penalty is not 1, where there are more than 16 different lists of banned
 * tokens in a batch, and where nothing can be chosen. Errors: as k3rt_step; K3RT_INVALID_ARGUMENT for options out of
 * range. */
k3rt_status k3rt_step_choose(k3rt_engine *engine, const k3rt_batch *batch, const k3rt_choice *choices,
                             k3rt_step_result *out_result, const int32_t **out_tokens);

/*--- scheduler ------------------------------------------------------------------------------------------------------*/

/* Answers many requests at the same time on one engine. Every step of the scheduler is one k3rt_step: a token for each
 * request that generates, and windows of the prompts of others, together at most `token_budget` rows. Requests start in
 * the order of their priority, first come, first served within one. One starts only once a state slot and the cache pages
 * for its whole length are free and its own (k3rt_sequence_reserve), so that what runs never waits for memory; nothing
 * behind it starts before it does.
 * The engine may have other sequences beside those of a scheduler, and is used by the same one thread. k3rt_scheduler_submit
 * and k3rt_scheduler_cancel may be called from any thread at any time, also from on_event. */
typedef struct k3rt_scheduler k3rt_scheduler;
typedef uint64_t k3rt_request; /* never 0, never the same twice in a scheduler */

typedef enum k3rt_finish {
  K3RT_NOT_FINISHED = 0,
  K3RT_FINISH_STOP = 1,      /* one of stop_ids */
  K3RT_FINISH_LENGTH = 2,    /* max_tokens */
  K3RT_FINISH_CONTEXT = 3,   /* the sequence is as long as the context */
  K3RT_FINISH_CANCELLED = 4,
  K3RT_FINISH_FAILED = 5
} k3rt_finish;

/* A token, the end of a request, or both. */
typedef struct k3rt_request_event {
  size_t size;
  k3rt_request request;
  int32_t token;          /* -1: none */
  int32_t finish;         /* k3rt_finish; not 0 in the request's last event */
  const char *error;      /* why it failed, one line; NULL if it did not */
  uint64_t prompt_tokens;
  uint64_t reused_tokens; /* of the prompt: from the prefix cache */
  uint64_t num_tokens;    /* generated so far, this one included */
  uint64_t drafted_tokens, accepted_tokens; /* so far: guessed, and confirmed by the model */
  double start_seconds, first_token_seconds, seconds; /* from submission: to its start, to its first token (both 0 if
                                                         there was none), to now */
} k3rt_request_event;
typedef void (*k3rt_request_event_fn)(void *user, const k3rt_request_event *event);

typedef struct k3rt_scheduler_options {
  size_t size;
  uint32_t token_budget;  /* rows of a step at most; 0 = prefill_window of the engine, which is one program run */
  uint32_t max_running;   /* requests that run at the same time; 0 = as many as there are state slots */
  uint64_t max_waiting;   /* requests that wait; 0 = no limit */
  uint64_t prefix_interval; /* where there is a prefix cache: prompts are stored whenever their length is a multiple of
                               this, at their end, and with the answer; 0 = 256 */
  k3rt_request_event_fn on_event; /* called by k3rt_scheduler_step as things happen; NULL: see k3rt_scheduler_poll */
  void *user;
} k3rt_scheduler_options;
void k3rt_scheduler_options_init(k3rt_scheduler_options *options);

/* `engine` outlives the scheduler. Freeing it cancels all requests without events and frees their sequences. */
k3rt_status k3rt_scheduler_create(k3rt_engine *engine, const k3rt_scheduler_options *options,
                                  k3rt_scheduler **out_scheduler);
void k3rt_scheduler_free(k3rt_scheduler *scheduler);

/* Guesses up to `most` tokens that follow tokens[0 .. num_tokens) (prompt and answer so far) into out_draft; returns how
 * many. Called by k3rt_scheduler_step. */
typedef uint32_t (*k3rt_draft_fn)(void *user, const int32_t *tokens, uint64_t num_tokens, int32_t *out_draft,
                                  uint32_t most);

typedef struct k3rt_request_options {
  size_t size;
  const int32_t *prompt;         /* token ids, at least one; copied, as all arrays here */
  uint64_t num_prompt;
  uint64_t max_tokens;           /* to generate; 0 = until the context is full */
  const k3rt_sampling *sampling; /* NULL = the defaults; history is prompt and answer, step is not used: token i of the
                                    answer is what k3rt_sample chooses at step i */
  const int32_t *stop_ids;       /* tokens that end the answer, as its last one */
  uint64_t num_stop_ids;
  const int32_t *banned_ids;     /* tokens that are never chosen */
  uint64_t num_banned_ids;
  int32_t priority;              /* higher ones start first */
  /* Speculation: the model checks up to max_draft guessed tokens in one run and keeps those that it would have chosen
   * itself. The answer stays what it is without, greedy or sampled, as far as steps of several tokens compute the same
   * logits as single ones. Happens while a state slot and rows of the step are free. 0 = off. */
  uint32_t max_draft;
  k3rt_draft_fn draft; /* NULL = what followed earlier occurrences of the last tokens (prompt lookup) */
  void *draft_user;
} k3rt_request_options;
void k3rt_request_options_init(k3rt_request_options *options);

/* Puts a request into the queue. Errors, with one line in error[0 .. error_size): K3RT_INVALID_ARGUMENT (options, a prompt
 * longer than the context), K3RT_OUT_OF_MEMORY (more pages than there are: it could never run; max_waiting). */
k3rt_status k3rt_scheduler_submit(k3rt_scheduler *scheduler, const k3rt_request_options *options,
                                  k3rt_request *out_request, char *error, size_t error_size);
/* The request ends with K3RT_FINISH_CANCELLED in the next step, whatever it was doing, without a further token.
 * K3RT_INVALID_ARGUMENT: no such request, or it has ended. */
k3rt_status k3rt_scheduler_cancel(k3rt_scheduler *scheduler, k3rt_request request);

typedef struct k3rt_scheduler_report {
  size_t size;
  uint64_t rows, prefill_tokens, decode_tokens; /* of this step; 0 rows: there was nothing to run */
  uint64_t running, waiting;                    /* requests after this step */
  const char *waiting_for;  /* why the first in the queue has not started; "" if none waits. Valid until the next step */
  double waiting_seconds;   /* for how long it has been waiting */
} k3rt_scheduler_report;
/* Starts what can start, runs one step and gives out its events. `out_report` may be NULL. K3RT_OK also where requests
 * have failed: they end with K3RT_FINISH_FAILED, the others go on. Errors change nothing: K3RT_OUT_OF_MEMORY (logits). */
k3rt_status k3rt_scheduler_step(k3rt_scheduler *scheduler, k3rt_scheduler_report *out_report);

/* Without on_event: takes the oldest event, or gives one with request 0. Its error is valid until the next poll. */
k3rt_status k3rt_scheduler_poll(k3rt_scheduler *scheduler, k3rt_request_event *out_event);

/*--- text -----------------------------------------------------------------------------------------------------------*/

/* The artifact's tokenizer blob (see text/Tokenizer.h), NULL if it has none. */
k3rt_status k3rt_tokenizer_blob(k3rt_engine *engine, const void **out_data, uint64_t *out_size);

/*--- observation ----------------------------------------------------------------------------------------------------*/

typedef struct k3rt_stats {
  size_t size;
  uint64_t steps, prefill_tokens, decode_tokens;
  double prefill_seconds, decode_seconds, open_seconds;
  uint64_t live_sequences, used_pages, total_pages;
  uint64_t peak_rss_bytes;
  uint32_t threads;
  uint64_t non_finite_sequences;      /* that a step has failed for NaN or infinity */
  uint64_t prefill_runs, decode_runs; /* program runs: a step takes as many as its rows need */
  /* Pools. A slot holds the states of a sequence that do not grow, live_sequences of them are in use; a page holds
   * `page_tokens` tokens of the latent cache (0: the model has none). */
  uint64_t total_slots, slot_bytes;
  uint64_t page_tokens, page_bytes;
  uint64_t reserved_pages; /* free, but promised to sequences (k3rt_sequence_reserve) */
  uint64_t shared_pages;   /* used by more than one sequence or kept prefix */
  uint64_t cached_pages;   /* used by kept prefixes alone, which give them up for sequences */
  uint64_t unused_rows;    /* rows of used pages that no token is in: all the fragmentation that there is */
} k3rt_stats;
k3rt_status k3rt_stats_get(k3rt_engine *engine, k3rt_stats *out_stats);

/* The processor an engine runs on. On the CPU only the name is filled. */
typedef struct k3rt_device_info {
  size_t size;
  const char *name;                                 /* "cpu", "cuda:0" */
  const char *model;                                /* "NVIDIA H200" */
  uint32_t capability_major, capability_minor;      /* CUDA's */
  uint32_t multiprocessors;
  double clock_hz, memory_bytes_per_second;         /* the highest, by the driver's word */
  uint64_t total_bytes, free_bytes;                 /* of its memory, now and for anyone */
  uint64_t open_free_bytes;                         /* free when the engine began to open */
  uint64_t planned_bytes, allocated_bytes;          /* for and by this engine */
  const char *products;                             /* who does them: "own kernels", "cuBLASLt 13.1.0 for large ones ..." */
} k3rt_device_info;
k3rt_status k3rt_device_info_get(k3rt_engine *engine, k3rt_device_info *out_info);

/* Called after every group of dispatches for each buffer they wrote, and after every layer for "out" (the residual's
 * partial sum [T, hidden]). `layer` is -1 outside layers. Data are valid during the call only. */
typedef struct k3rt_trace_event {
  int32_t layer;
  const char *dispatch; /* label of the dispatch, "" for "out" */
  const char *buffer;
  uint32_t dtype; /* 0 f32, 1 bf16, 2 i8, 3 u8, 4 i32 */
  uint32_t rank;
  int64_t shape[6];
  const void *data;
} k3rt_trace_event;
typedef void (*k3rt_trace_fn)(void *user, const k3rt_trace_event *event);
k3rt_status k3rt_set_trace(k3rt_engine *engine, k3rt_trace_fn fn, void *user);

/* Called after every group of dispatches with the time it took from its first kernel call to its last, on all threads. */
typedef struct k3rt_profile_event {
  uint32_t phase;    /* 0 prefill, 1 decode: the program that runs */
  uint32_t section;  /* 0 prologue (embedding), 1 layer, 2 epilogue (head) */
  int32_t layer;     /* -1 outside layers */
  uint32_t group;    /* position in its section, or in the layer */
  int32_t dispatch;  /* position in the group; -1: the whole group */
  const char *label; /* of the dispatch, "" for a whole group */
  double seconds;
} k3rt_profile_event;
typedef void (*k3rt_profile_fn)(void *user, const k3rt_profile_event *event);
/* `each_dispatch` nonzero: the dispatches of a group run one after the other, each on all threads, and are reported one
 * by one; results stay the same, but a step takes longer than it would. `fn` NULL: off, which costs nothing. */
k3rt_status k3rt_set_profile(k3rt_engine *engine, k3rt_profile_fn fn, void *user, int32_t each_dispatch);

#ifdef __cplusplus
}
#endif

#endif /* K3RT_K3RT_H */
