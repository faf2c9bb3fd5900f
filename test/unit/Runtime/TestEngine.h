//===- TestEngine.h - the C API with less typing -------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TEST_RUNTIME_TESTENGINE_H
#define K3_TEST_RUNTIME_TESTENGINE_H

#include "k3rt/k3rt.h"
#include "test/unit/Runtime/ToyModel.h"

#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace toy {

using Tokens = std::vector<int32_t>;
using Logits = std::vector<float>;

struct Row {
  k3rt_sequence sequence;
  Tokens tokens;
  bool all = false;
};

class TestEngine {
public:
  using Change = std::function<void(k3rt_engine_options &)>;

  TestEngine() = default;
  explicit TestEngine(const std::string &path, const Change &change = {}) {
    EXPECT_EQ(open(path, change), K3RT_OK) << error;
  }
  ~TestEngine() { k3rt_engine_close(engine); }
  TestEngine(const TestEngine &) = delete;
  TestEngine &operator=(const TestEngine &) = delete;

  k3rt_status open(const std::string &path, const Change &change = {},
                   uint64_t offset = 0) {
    k3rt_engine_options options;
    k3rt_engine_options_init(&options);
    options.threads = 2;
    options.device = testDevice;
    if (change)
      change(options);
    char message[512] = "";
    k3rt_status status = k3rt_engine_open(path.c_str(), offset, &options,
                                          &engine, message, sizeof(message));
    error = message;
    return status;
  }

  k3rt_sequence create() {
    k3rt_sequence sequence = -1;
    EXPECT_EQ(k3rt_sequence_create(engine, &sequence), K3RT_OK) << last();
    return sequence;
  }
  void free(k3rt_sequence sequence) {
    EXPECT_EQ(k3rt_sequence_free(engine, sequence), K3RT_OK) << last();
  }
  k3rt_snapshot snapshot(k3rt_sequence sequence) {
    k3rt_snapshot taken = -1;
    EXPECT_EQ(k3rt_sequence_snapshot(engine, sequence, &taken), K3RT_OK)
        << last();
    return taken;
  }
  void restore(k3rt_sequence sequence, k3rt_snapshot from) {
    EXPECT_EQ(k3rt_sequence_restore(engine, sequence, from), K3RT_OK) << last();
  }
  uint64_t length(k3rt_sequence sequence) {
    uint64_t tokens = 0;
    EXPECT_EQ(k3rt_sequence_length(engine, sequence, &tokens), K3RT_OK);
    return tokens;
  }

  /// Runs a step and keeps its logits, one vector per logit row.
  k3rt_status tryStep(const std::vector<Row> &rows) {
    std::vector<k3rt_batch_row> batchRows;
    for (const Row &row : rows)
      batchRows.push_back({row.sequence, row.tokens.data(), row.tokens.size(),
                           row.all ? 1 : 0});
    k3rt_batch batch = {batchRows.data(), uint32_t(batchRows.size())};
    k3rt_step_result result = {};
    k3rt_status status = k3rt_step(engine, &batch, &result);
    logits.clear();
    firstRow.clear();
    rowStatus.clear();
    if (status != K3RT_OK && status != K3RT_NON_FINITE)
      return status;
    firstRow.assign(result.first_row, result.first_row + rows.size() + 1);
    rowStatus.assign(result.row_status, result.row_status + rows.size());
    for (uint64_t i = 0; i < result.num_logit_rows; ++i)
      logits.emplace_back(result.logits + i * result.vocab_size,
                          result.logits + (i + 1) * result.vocab_size);
    return status;
  }
  void step(const std::vector<Row> &rows) {
    ASSERT_EQ(tryStep(rows), K3RT_OK) << last();
  }
  /// One sequence, logits after the last token.
  Logits feed(k3rt_sequence sequence, const Tokens &tokens) {
    step({{sequence, tokens}});
    return logits.empty() ? Logits() : logits.back();
  }

  std::vector<float> state(k3rt_sequence sequence, uint32_t layer,
                           const char *name) {
    uint64_t count = 0;
    EXPECT_EQ(k3rt_sequence_read_state(engine, sequence, layer, name, nullptr,
                                       &count),
              K3RT_OK)
        << last();
    std::vector<float> values(count);
    EXPECT_EQ(k3rt_sequence_read_state(engine, sequence, layer, name,
                                       values.data(), &count),
              K3RT_OK)
        << last();
    return values;
  }
  /// All states of a sequence, one after the other.
  std::vector<std::vector<float>> states(k3rt_sequence sequence) {
    return {state(sequence, 0, "kda"), state(sequence, 0, "conv_q"),
            state(sequence, 1, "kv"), state(sequence, 2, "kda"),
            state(sequence, 2, "conv_q")};
  }

  k3rt_stats stats() {
    k3rt_stats out = {};
    out.size = sizeof(out);
    EXPECT_EQ(k3rt_stats_get(engine, &out), K3RT_OK);
    return out;
  }
  std::string last() const { return k3rt_last_error(engine); }

  k3rt_engine *engine = nullptr;
  std::string error; ///< of open
  std::vector<Logits> logits;
  std::vector<uint64_t> firstRow;
  std::vector<int32_t> rowStatus;
};

inline std::vector<std::vector<float>> statesOf(const Oracle &oracle) {
  return {oracle.state(0, "kda"), oracle.state(0, "conv_q"),
          oracle.state(1, "kv"), oracle.state(2, "kda"),
          oracle.state(2, "conv_q")};
}

/// Tokens in [0, 60), the same for the same seed.
inline Tokens prompt(size_t count, uint32_t seed) {
  Tokens tokens;
  uint32_t x = seed * 2654435761u + 1;
  for (size_t i = 0; i < count; ++i) {
    x = x * 1664525u + 1013904223u;
    tokens.push_back(int32_t((x >> 16) % 60));
  }
  return tokens;
}

inline Tokens slice(const Tokens &tokens, size_t begin, size_t end) {
  return Tokens(tokens.begin() + long(begin), tokens.begin() + long(end));
}

/// The oracle's logits after each token.
inline std::vector<Logits> expected(Oracle &oracle, const Tokens &tokens) {
  std::vector<Logits> out;
  for (int32_t token : tokens)
    out.push_back(oracle.next(token));
  return out;
}

} // namespace toy

#endif // K3_TEST_RUNTIME_TESTENGINE_H
