//===- Subject.cpp - the model under load, and what it should say --------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/soak/Subject.h"
#include "runtime/src/base/Hash.h"
#include "test/soak/Check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unistd.h>

namespace soak {

Place place;

std::string again() {
  return "k3-soak " + place.options + place.kind + " " +
         std::to_string(place.number) + " --seed " + std::to_string(place.seed);
}

/// Of this process, without mapped files.
static uint64_t ownMemory() {
  unsigned long long resident = 0, shared = 0;
  if (FILE *file = fopen("/proc/self/statm", "r")) {
    if (fscanf(file, "%*u %llu %llu", &resident, &shared) != 2)
      resident = shared = 0;
    fclose(file);
  }
  return (resident - shared) * uint64_t(sysconf(_SC_PAGESIZE));
}

void Growth::measure(const Subject &subject, k3rt_engine *engine,
                     bool isWarm) {
  k3rt_prefix_stats cache = {};
  cache.size = sizeof(cache);
  SOAK_CHECK(k3rt_prefix_stats_get(engine, &cache) == K3RT_OK, "stats");
  k3rt_stats stats = statsOf(engine);
  uint64_t copies = cache.bytes - stats.cached_pages * stats.page_bytes;
  uint64_t now = ownMemory() - subject.bytes() - copies;
  if (!isWarm)
    return;
  if (warm == 0)
    warm = now;
  largest = std::max(largest, now);
#ifndef K3_SOAK_SANITIZED // what is freed stays for a while
  constexpr uint64_t noise = 512 << 10;
  SOAK_CHECK(largest <= warm + warm / 50 + noise,
             "memory grows from %llu to %llu bytes", Word(warm), Word(largest));
#endif
}

k3rt_stats statsOf(k3rt_engine *engine) {
  k3rt_stats stats = {};
  stats.size = sizeof(stats);
  SOAK_CHECK(k3rt_stats_get(engine, &stats) == K3RT_OK, "stats");
  return stats;
}

//===----------------------------------------------------------------------===//
// Engines
//===----------------------------------------------------------------------===//

k3rt_engine_options Subject::engineOptions() const {
  k3rt_engine_options out;
  k3rt_engine_options_init(&out);
  out.threads = options.threads;
  out.max_context = maxContext;
  // Windows of less than a chunk, too.
  out.prefill_window = options.seed % 3 == 0 ? 13 : 0;
  out.poison = 1;
  // The toy model computes with whole numbers.
  out.deterministic = !isToy() && options.tolerance == 0;
  return out;
}

Subject::Subject(const Options &given, uint64_t context)
    : options(given), maxContext(context) {
  path = isToy() ? toy::writeModel(files) : options.artifact;
  k3rt_engine_options single = engineOptions();
  single.threads = 1;
  single.max_sequences = 1;
  single.poison = 0;
  single.prefill_window = 0;
  char message[512] = "";
  if (k3rt_engine_open(path.c_str(), 0, &single, &alone, message,
                       sizeof(message)) != K3RT_OK) {
    fprintf(stderr, "k3-soak: %s\n", message);
    exit(1);
  }
  stats = statsOf(alone);
  k3rt_model_info info = {};
  info.size = sizeof(info);
  SOAK_CHECK(k3rt_engine_info(alone, &info) == K3RT_OK, "info");
  SOAK_CHECK(stats.page_tokens != 0, "a model without a latent cache");
  vocab = info.vocab_size;
  k3rt_sequence sequence = 0;
  SOAK_CHECK(k3rt_sequence_create(alone, &sequence) == K3RT_OK, "create");
  for (uint32_t layer = 0; layer < info.num_layers; ++layer)
    for (const char *name : {"kda", "conv_q", "conv_k", "conv_v", "kv"}) {
      uint64_t count = 0;
      if (k3rt_sequence_read_state(alone, sequence, layer, name, nullptr,
                                   &count) == K3RT_OK)
        states.emplace_back(layer, name);
    }
  SOAK_CHECK(k3rt_sequence_free(alone, sequence) == K3RT_OK, "free");
}

Subject::~Subject() { k3rt_engine_close(alone); }

int32_t Subject::plainTokens() const {
  return isToy() ? std::min(toy::nanToken, toy::failToken) - 2 : int32_t(vocab);
}

static void warmUp(k3rt_engine *engine, uint64_t rows, uint64_t context) {
  std::vector<k3rt_batch_row> batch;
  Tokens tokens(context, 1);
  for (uint64_t begin = 0; begin < rows; begin += context) {
    k3rt_sequence sequence = 0;
    SOAK_CHECK(k3rt_sequence_create(engine, &sequence) == K3RT_OK, "create");
    batch.push_back(
        {sequence, tokens.data(), std::min(context, rows - begin), 1});
  }
  k3rt_batch all = {batch.data(), uint32_t(batch.size())};
  k3rt_step_result result = {};
  SOAK_CHECK(k3rt_step(engine, &all, &result) == K3RT_OK, "%s",
             errorOf(engine).c_str());
  for (const k3rt_batch_row &row : batch)
    SOAK_CHECK(k3rt_sequence_free(engine, row.sequence) == K3RT_OK, "free");
}

k3rt_engine *Subject::open(k3rt_engine_options wanted, uint64_t pages,
                           uint64_t rows) const {
  // Everything but pages is needed as it is.
  k3rt_memory_plan plan = {};
  plan.size = sizeof(plan);
  char message[512] = "";
  SOAK_CHECK(k3rt_plan_open(path.c_str(), 0, &wanted, &plan, message,
                            sizeof(message)) == K3RT_OK,
             "%s", message);
  wanted.memory_limit =
      plan.total_bytes - plan.kv_pool_bytes + pages * stats.page_bytes;
  k3rt_engine *engine = nullptr;
  SOAK_CHECK(k3rt_engine_open(path.c_str(), 0, &wanted, &engine, message,
                              sizeof(message)) == K3RT_OK,
             "%s", message);
  SOAK_CHECK(statsOf(engine).total_pages == pages, "%llu pages, not %llu",
             Word(statsOf(engine).total_pages), Word(pages));
  warmUp(engine, std::min(rows, pages * stats.page_tokens), maxContext);
  return engine;
}

//===----------------------------------------------------------------------===//
// What is known of sequences alone
//===----------------------------------------------------------------------===//

static uint64_t extend(uint64_t hash, int32_t token) {
  uint64_t both[] = {hash, uint64_t(token)};
  return k3rt::hashBytes(both, sizeof(both));
}

static uint64_t hashOf(const Tokens &tokens, size_t length) {
  uint64_t hash = 0;
  for (size_t i = 0; i < length; ++i)
    hash = extend(hash, tokens[i]);
  return hash;
}

std::vector<Logits> Subject::logitsOf(const Tokens &tokens, size_t first) {
  std::vector<Logits> out;
  if (isToy()) {
    toy::Oracle oracle;
    for (size_t i = 0; i < tokens.size(); ++i) {
      Logits row = oracle.next(tokens[i]);
      if (i >= first)
        out.push_back(std::move(row));
    }
    return out;
  }
  k3rt_sequence sequence = 0;
  SOAK_CHECK(k3rt_sequence_create(alone, &sequence) == K3RT_OK, "create");
  // What is before `first` is not asked for; --deterministic, or the tolerance,
  // covers that these are two steps.
  for (size_t part = first == 0 ? 1 : 0; part < 2; ++part) {
    size_t begin = part == 0 ? 0 : first, end = part == 0 ? first : tokens.size();
    k3rt_batch_row row = {sequence, tokens.data() + begin, end - begin,
                          part == 0 ? -1 : 1};
    k3rt_batch batch = {&row, 1};
    k3rt_step_result result = {};
    SOAK_CHECK(k3rt_step(alone, &batch, &result) == K3RT_OK, "alone: %s",
               errorOf(alone).c_str());
    for (uint64_t i = 0; i < result.num_logit_rows; ++i)
      out.emplace_back(result.logits + i * vocab,
                       result.logits + (i + 1) * vocab);
  }
  SOAK_CHECK(k3rt_sequence_free(alone, sequence) == K3RT_OK, "free");
  return out;
}

void Subject::learn(const Tokens &history) {
  std::vector<Logits> rows = logitsOf(history, 0);
  uint64_t hash = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    hash = extend(hash, history[i]);
    Known made;
    made.hash = k3rt::hashBytes(rows[i].data(), rows[i].size() * sizeof(float));
    made.best = int32_t(
        std::max_element(rows[i].begin(), rows[i].begin() + plainTokens()) -
        rows[i].begin());
    if (options.tolerance != 0)
      made.values = std::move(rows[i]);
    uint64_t size = 64 + made.values.size() * sizeof(float);
    if (logits.emplace(hash, std::move(made)).second)
      knownBytes += size;
  }
}

const Subject::Known &Subject::known(const Tokens &history, size_t length) {
  uint64_t hash = hashOf(history, length);
  auto found = logits.find(hash);
  if (found == logits.end()) {
    learn(history);
    found = logits.find(hash);
  }
  return found->second;
}

bool Subject::same(const float *got, const float *want, size_t count) const {
  for (size_t i = 0; i < count; ++i)
    if (!(std::fabs(got[i] - want[i]) <= options.tolerance))
      return false;
  return true;
}

void Subject::checkLogits(const Tokens &history, const float *rows,
                          size_t count) {
  for (size_t i = 0; i < count; ++i) {
    size_t length = history.size() - count + 1 + i;
    const Known &want = known(history, length);
    const float *row = rows + i * vocab;
    bool right = options.tolerance != 0
                     ? same(row, want.values.data(), vocab)
                     : k3rt::hashBytes(row, vocab * sizeof(float)) == want.hash;
    SOAK_CHECK(right, "logits after %zu tokens are not those alone", length);
  }
}

void Subject::checkGreedy(const Tokens &history, size_t promptLength) {
  for (size_t at = promptLength; at < history.size(); ++at) {
    const Known &want = known(history, at);
    int32_t got = history[at];
    bool right = got == want.best;
    // Closer than what may be between two runs: either is right.
    if (!right && options.tolerance != 0)
      right = want.values[size_t(want.best)] - want.values[size_t(got)] <=
              2 * options.tolerance;
    SOAK_CHECK(right, "token %zu of an answer is %d, alone it is %d",
               at - promptLength, got, want.best);
  }
}

std::vector<float> Subject::readStates(k3rt_engine *engine,
                                       k3rt_sequence sequence) {
  std::vector<float> all;
  for (auto [layer, name] : states) {
    uint64_t count = 0;
    SOAK_CHECK(k3rt_sequence_read_state(engine, sequence, layer, name, nullptr,
                                        &count) == K3RT_OK,
               "%s", errorOf(engine).c_str());
    size_t begin = all.size();
    all.resize(begin + count);
    SOAK_CHECK(k3rt_sequence_read_state(engine, sequence, layer, name,
                                        all.data() + begin, &count) == K3RT_OK,
               "%s", errorOf(engine).c_str());
  }
  return all;
}

std::vector<float> Subject::statesOf(const Tokens &history) {
  if (isToy()) {
    toy::Oracle oracle;
    for (int32_t token : history)
      oracle.next(token);
    std::vector<float> all;
    for (auto [layer, name] : states) {
      std::vector<float> one = oracle.state(layer, name);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  k3rt_sequence sequence = 0;
  SOAK_CHECK(k3rt_sequence_create(alone, &sequence) == K3RT_OK, "create");
  k3rt_batch_row row = {sequence, history.data(), history.size(), -1};
  k3rt_batch batch = {&row, 1};
  k3rt_step_result result = {};
  SOAK_CHECK(k3rt_step(alone, &batch, &result) == K3RT_OK, "alone: %s",
             errorOf(alone).c_str());
  std::vector<float> all = readStates(alone, sequence);
  SOAK_CHECK(k3rt_sequence_free(alone, sequence) == K3RT_OK, "free");
  return all;
}

void Subject::checkStates(k3rt_engine *engine, k3rt_sequence sequence,
                          const Tokens &history) {
  uint64_t length = 0;
  SOAK_CHECK(k3rt_sequence_length(engine, sequence, &length) == K3RT_OK &&
                 length == history.size(),
             "length %llu, not %zu", Word(length), history.size());
  std::vector<float> got = readStates(engine, sequence);
  if (options.tolerance != 0) {
    std::vector<float> want = statesOf(history);
    SOAK_CHECK(got.size() == want.size() &&
                   same(got.data(), want.data(), got.size()),
               "states after %zu tokens are not those alone", history.size());
    return;
  }
  auto [found, isNew] =
      stateHashes.try_emplace(hashOf(history, history.size()));
  if (isNew) {
    std::vector<float> want = statesOf(history);
    found->second = k3rt::hashBytes(want.data(), want.size() * sizeof(float));
    knownBytes += 48;
  }
  SOAK_CHECK(k3rt::hashBytes(got.data(), got.size() * sizeof(float)) ==
                 found->second,
             "states after %zu tokens are not those alone", history.size());
}

} // namespace soak
