//===- ObservationTest.cpp - traces, stats, allocations ------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Runtime/TestEngine.h"

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>
#include <unistd.h>

using namespace toy;

// Sanitizers bring their own allocation functions and bookkeeping.
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
#define K3_COUNT_ALLOCATIONS
static std::atomic<uint64_t> allocations{0};

void *operator new(size_t size) {
  ++allocations;
  if (void *memory = malloc(size))
    return memory;
  abort();
}
void operator delete(void *memory) noexcept { free(memory); }
void operator delete(void *memory, size_t) noexcept { free(memory); }
#endif

namespace {

struct Event {
  int32_t layer;
  std::string dispatch, buffer;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

void record(void *user, const k3rt_trace_event *event) {
  Event copy = {event->layer, event->dispatch, event->buffer, {}, {}};
  int64_t elements = 1;
  for (uint32_t i = 0; i < event->rank; ++i) {
    copy.shape.push_back(event->shape[i]);
    elements *= event->shape[i];
  }
  EXPECT_EQ(event->dtype, 0u);
  auto *data = static_cast<const float *>(event->data);
  copy.values.assign(data, data + elements);
  static_cast<std::vector<Event> *>(user)->push_back(copy);
}

TEST(Trace, ShowsEveryBufferAndEveryLayer) {
  Folder folder;
  TestEngine engine(writeModel(folder), [](auto &o) { o.poison = 1; });
  std::vector<Event> events;
  ASSERT_EQ(k3rt_set_trace(engine.engine, record, &events), K3RT_OK);
  k3rt_sequence sequence = engine.create();
  Tokens tokens = prompt(7, 40);
  engine.feed(sequence, tokens);
  std::vector<std::string> names;
  for (const Event &event : events)
    names.push_back(std::to_string(event.layer) + " " + event.dispatch + " " +
                    event.buffer);
  std::vector<std::string> kda[2];
  for (int i : {0, 2})
    for (const char *name :
         {" do_conv conv", " do_chunk_sums sums", " do_chunk_scan entries",
          " do_chunk_apply stream", "  out"})
      kda[i / 2].push_back(std::to_string(i) + name);
  std::vector<std::string> want = {"-1 do_embed stream"};
  want.insert(want.end(), kda[0].begin(), kda[0].end());
  want.insert(want.end(), {"1 do_attend stream", "1  out"});
  want.insert(want.end(), kda[1].begin(), kda[1].end());
  want.push_back("-1 do_head logits");
  EXPECT_EQ(names, want);
  EXPECT_EQ(events[0].shape, (std::vector<int64_t>{2, 7, hidden}));
  EXPECT_EQ(events.back().shape, (std::vector<int64_t>{1, 64}));
  EXPECT_EQ(events.back().values, engine.logits.back());

  ASSERT_EQ(k3rt_set_trace(engine.engine, nullptr, nullptr), K3RT_OK);
  size_t before = events.size();
  engine.feed(sequence, {1});
  EXPECT_EQ(events.size(), before);
}

// The outputs of all layers agree between one window and many.
TEST(Trace, LayersDoNotDependOnWindows) {
  Folder folder;
  std::string model = writeModel(folder);
  Tokens tokens = prompt(64, 41);
  std::vector<float> wanted[layers];
  Oracle oracle;
  for (int32_t token : tokens) {
    oracle.next(token);
    for (uint32_t layer = 0; layer < layers; ++layer)
      wanted[layer].insert(wanted[layer].end(),
                           oracle.afterLayer(layer).begin(),
                           oracle.afterLayer(layer).end());
  }
  for (uint32_t window : {64, 16, 5, 1}) {
    TestEngine engine(model, [&](auto &o) { o.prefill_window = window; });
    std::vector<Event> events;
    k3rt_set_trace(engine.engine, record, &events);
    engine.feed(engine.create(), tokens);
    std::vector<float> found[layers];
    for (const Event &event : events)
      if (event.buffer == "out") {
        EXPECT_EQ(event.dispatch, "");
        auto &values = found[event.layer];
        values.insert(values.end(), event.values.begin(), event.values.end());
      }
    for (int layer = 0; layer < layers; ++layer)
      EXPECT_EQ(found[layer], wanted[layer])
          << "window " << window << ", layer " << layer;
  }
}

struct Timed {
  std::string what; ///< phase, section, layer, group, dispatch, label
  double seconds;
};

void recordTime(void *user, const k3rt_profile_event *event) {
  std::string what;
  for (int64_t part : {int64_t(event->phase), int64_t(event->section),
                       int64_t(event->layer), int64_t(event->group),
                       int64_t(event->dispatch)})
    what += std::to_string(part) + " ";
  static_cast<std::vector<Timed> *>(user)->push_back(
      {what + event->label, event->seconds});
}

std::vector<std::string> namesOf(const std::vector<Timed> &times) {
  std::vector<std::string> out;
  for (const Timed &time : times)
    out.push_back(time.what);
  return out;
}

TEST(Profile, TimesGroupsOrDispatches) {
  Folder folder;
  TestEngine engine(writeModel(folder));
  k3rt_sequence sequence = engine.create();
  Oracle oracle;
  Tokens tokens = prompt(7, 40);
  std::vector<Timed> times;
  ASSERT_EQ(k3rt_set_profile(engine.engine, recordTime, &times, 0), K3RT_OK);
  EXPECT_EQ(engine.feed(sequence, tokens), expected(oracle, tokens).back());
  EXPECT_EQ(namesOf(times),
            (std::vector<std::string>{
                "0 0 -1 0 -1 ", "0 1 0 0 -1 ", "0 1 0 1 -1 ", "0 1 0 2 -1 ",
                "0 1 1 0 -1 ", "0 1 1 1 -1 ", "0 1 2 0 -1 ", "0 1 2 1 -1 ",
                "0 1 2 2 -1 ", "0 2 -1 0 -1 "}));
  double sum = 0;
  for (const Timed &time : times) {
    EXPECT_GT(time.seconds, 0);
    sum += time.seconds;
  }
  EXPECT_LE(sum, engine.stats().prefill_seconds);

  // One by one: the same values, the parts of group 0 of a kda layer apart.
  times.clear();
  ASSERT_EQ(k3rt_set_profile(engine.engine, recordTime, &times, 1), K3RT_OK);
  tokens = prompt(8, 41);
  EXPECT_EQ(engine.feed(sequence, tokens), expected(oracle, tokens).back());
  std::vector<std::string> names = namesOf(times);
  ASSERT_EQ(names.size(), 12u);
  EXPECT_EQ(std::vector<std::string>(names.begin(), names.begin() + 6),
            (std::vector<std::string>{
                "0 0 -1 0 0 do_embed", "0 1 0 0 0 do_conv",
                "0 1 0 0 1 do_chunk_sums", "0 1 0 1 0 do_chunk_scan",
                "0 1 0 2 0 do_chunk_apply", "0 1 1 0 0 do_append"}));
  times.clear();
  EXPECT_EQ(engine.feed(sequence, {4}), oracle.next(4));
  ASSERT_EQ(times.size(), 8u);
  EXPECT_EQ(times[2].what, "1 1 0 1 0 do_recurrent_step");
  EXPECT_EQ(times[7].what, "1 2 -1 0 0 do_head");

  ASSERT_EQ(k3rt_set_profile(engine.engine, nullptr, nullptr, 0), K3RT_OK);
  engine.feed(sequence, {4});
  EXPECT_EQ(times.size(), 8u);
}

TEST(Stats, Count) {
  Folder folder;
  TestEngine engine(writeModel(folder));
  k3rt_sequence a = engine.create(), b = engine.create();
  engine.feed(a, prompt(10, 1));
  engine.step({{a, {1}}, {b, {2}}}); // b starts: not a decode step
  engine.step({{a, {1}}, {b, {2}}});
  EXPECT_EQ(engine.tryStep({{a, {-1}}}), K3RT_INVALID_ARGUMENT);
  k3rt_stats stats = engine.stats();
  EXPECT_EQ(stats.steps, 3u);
  EXPECT_EQ(stats.prefill_tokens, 12u);
  EXPECT_EQ(stats.decode_tokens, 2u);
  EXPECT_GT(stats.prefill_seconds, 0);
  EXPECT_GT(stats.decode_seconds, 0);
  EXPECT_GT(stats.open_seconds, 0);
  EXPECT_EQ(stats.live_sequences, 2u);
  EXPECT_EQ(stats.used_pages, 4u);
  EXPECT_EQ(stats.total_pages, 4096u);
  EXPECT_GT(stats.peak_rss_bytes, 1u << 20);
}

#ifdef K3_COUNT_ALLOCATIONS
uint64_t residentPages() {
  std::ifstream file("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident;
}

/// One step of each kind on preallocated arguments.
struct Steps {
  k3rt_engine *engine;
  k3rt_sequence sequence;
  Tokens tokens = prompt(20, 42);

  void run(uint64_t count) {
    k3rt_batch_row row = {sequence, tokens.data(), count, 0};
    k3rt_batch batch = {&row, 1};
    k3rt_step_result result;
    ASSERT_EQ(k3rt_step(engine, &batch, &result), K3RT_OK)
        << k3rt_last_error(engine);
  }
};

TEST(Allocations, NoneInTurnsOfPrefillAndDecode) {
  if (testDevice)
    GTEST_SKIP() << "counts all of the process's allocations, and a GPU's driver has its own";
  Folder folder;
  TestEngine engine(writeModel(folder), [](auto &o) { o.max_context = 30000; });
  Steps steps = {engine.engine, engine.create()};
  for (int i = 0; i < 10; ++i)
    steps.run(i % 2 ? 1 : 20);
  uint64_t before = allocations;
  for (int i = 0; i < 300; ++i)
    steps.run(i % 2 ? 1 : 20);
  EXPECT_EQ(allocations - before, 0u);
}

TEST(Allocations, LongDecodesStayFlat) {
  if (testDevice)
    GTEST_SKIP() << "counts all of the process's allocations, and a GPU's driver has its own";
  Folder folder;
  TestEngine engine(writeModel(folder));
  Steps steps = {engine.engine, engine.create()};
  // Restarts keep the toy's attention, which is quadratic, short.
  k3rt_snapshot start = engine.snapshot(steps.sequence);
  auto decode = [&](int count) {
    for (int i = 0; i < count; ++i) {
      if (i % 50 == 0)
        engine.restore(steps.sequence, start);
      steps.run(1);
    }
  };
  decode(200);
  uint64_t resident = residentPages(); // reading it allocates
  uint64_t allocated = allocations;
  decode(20000);
  EXPECT_EQ(allocations - allocated, 0u);
  EXPECT_LE(residentPages(), resident + 16);
}
#endif

} // namespace
