//===- SchedulerCapi.cpp - the C API of the scheduler --------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/capi/Handles.h"
#include "runtime/src/serve/Scheduler.h"

using namespace k3rt;

struct k3rt_scheduler {
  k3rt_scheduler(k3rt_engine *engine, const SchedulerOptions &options)
      : engine(engine), scheduler(engine->engine, options) {}

  k3rt_engine *engine;
  Scheduler scheduler;
};

/// The same, with arrays in place of pointers.
static Status readRequest(const k3rt_request_options *given,
                          RequestOptions &out) {
  k3rt_request_options defaults;
  k3rt_request_options_init(&defaults);
  k3rt_request_options read = readSized(given, defaults);
  struct {
    const char *name;
    const int32_t *from;
    uint64_t count;
    std::vector<int32_t> *to;
  } arrays[] = {
      {"prompt", read.prompt, read.num_prompt, &out.prompt},
      {"stop_ids", read.stop_ids, read.num_stop_ids, &out.stopIds},
      {"banned_ids", read.banned_ids, read.num_banned_ids,
       &out.sampler.bannedIds}};
  out.sampler = samplerOptions(readSampling(read.sampling));
  for (const auto &array : arrays) {
    if (array.count != 0 && !array.from)
      return nullArgument(array.name);
    array.to->assign(array.from, array.from + array.count);
  }
  out.maxTokens = read.max_tokens;
  out.priority = read.priority;
  out.draft = {read.max_draft, read.draft, read.draft_user};
  return Status();
}

extern "C" {

void k3rt_scheduler_options_init(k3rt_scheduler_options *options) {
  if (!options)
    return;
  *options = k3rt_scheduler_options{};
  options->size = sizeof(*options);
}

k3rt_status k3rt_scheduler_create(k3rt_engine *engine,
                                  const k3rt_scheduler_options *options,
                                  k3rt_scheduler **out_scheduler) {
  if (!engine)
    return K3RT_INVALID_ARGUMENT;
  if (!out_scheduler)
    return engine->report(nullArgument("out_scheduler"));
  k3rt_scheduler_options defaults;
  k3rt_scheduler_options_init(&defaults);
  k3rt_scheduler_options read = readSized(options, defaults);
  SchedulerOptions chosen;
  chosen.tokenBudget = read.token_budget;
  chosen.maxRunning = read.max_running;
  chosen.maxWaiting = read.max_waiting;
  chosen.prefixInterval = read.prefix_interval;
  chosen.onEvent = read.on_event;
  chosen.user = read.user;
  *out_scheduler = new k3rt_scheduler(engine, chosen);
  return engine->report(Status());
}

void k3rt_scheduler_free(k3rt_scheduler *scheduler) { delete scheduler; }

void k3rt_request_options_init(k3rt_request_options *options) {
  if (!options)
    return;
  *options = k3rt_request_options{};
  options->size = sizeof(*options);
}

k3rt_status k3rt_scheduler_submit(k3rt_scheduler *scheduler,
                                  const k3rt_request_options *options,
                                  k3rt_request *out_request, char *error,
                                  size_t error_size) {
  if (!scheduler)
    return reportTo(error, error_size, nullArgument("scheduler"));
  if (!out_request)
    return reportTo(error, error_size, nullArgument("out_request"));
  RequestOptions request;
  Status status = readRequest(options, request);
  if (status.ok())
    status = scheduler->scheduler.submit(std::move(request), *out_request);
  return reportTo(error, error_size, status);
}

k3rt_status k3rt_scheduler_cancel(k3rt_scheduler *scheduler,
                                  k3rt_request request) {
  // Not reported to the engine, which another thread may be using.
  return scheduler ? scheduler->scheduler.cancel(request).code()
                   : K3RT_INVALID_ARGUMENT;
}

k3rt_status k3rt_scheduler_step(k3rt_scheduler *scheduler,
                                k3rt_scheduler_report *out_report) {
  if (!scheduler)
    return K3RT_INVALID_ARGUMENT;
  Status status = scheduler->scheduler.step();
  if (status.ok() && out_report) {
    const SchedulerReport &report = scheduler->scheduler.report();
    k3rt_scheduler_report out = {};
    out.rows = report.rows;
    out.prefill_tokens = report.prefillTokens;
    out.decode_tokens = report.decodeTokens;
    out.running = report.running;
    out.waiting = report.waiting;
    out.waiting_for = report.waitingFor.c_str();
    out.waiting_seconds = report.waitingSeconds;
    status = writeSized(out_report, out);
  }
  return scheduler->engine->report(status);
}

k3rt_status k3rt_scheduler_poll(k3rt_scheduler *scheduler,
                                k3rt_request_event *out_event) {
  if (!scheduler)
    return K3RT_INVALID_ARGUMENT;
  if (!out_event || out_event->size < sizeof(size_t))
    return scheduler->engine->report(
        Status(K3RT_INVALID_ARGUMENT,
               "the struct to fill is NULL or its size is not set"));
  return scheduler->engine->report(
      writeSized(out_event, scheduler->scheduler.poll()));
}

} // extern "C"
