//===- CompiledModel.h - shipped models, compiled and opened --------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "lib/Reference/Safetensors.h"
#include "runtime/include/k3rt/k3rt.h"

#include "gtest/gtest.h"

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

namespace k3::test {

using Tokens = std::vector<std::int32_t>;

/// Shipped models, each compiled for this machine when it is first asked for, in a folder that goes away at the end.
class Artifacts {
public:
  static std::string path(const std::string &model, const std::string &options = "") {
    static Artifacts all;
    std::string &path = all.paths[model + options];
    if (path.empty()) {
      path = all.folder / (std::to_string(all.paths.size()) + ".k3a");
      std::string command = K3_BINARY_DIR "/bin/k3-compile " K3_SOURCE_DIR "/models/" + model + " " + options + " -o " +
                            path + " > /dev/null";
      EXPECT_EQ(std::system(command.c_str()), 0) << command;
    }
    return path;
  }

private:
  Artifacts() { std::filesystem::create_directories(folder); }
  ~Artifacts() { std::filesystem::remove_all(folder); }
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("k3-compiled-model-" + std::to_string(getpid()));
  std::map<std::string, std::string> paths;
};

class Engine {
public:
  /// Memory that nobody wrote reads as NaN, unless `change` says otherwise.
  explicit Engine(const std::string &artifact, const std::function<void(k3rt_engine_options &)> &change = {}) {
    k3rt_engine_options options;
    k3rt_engine_options_init(&options);
    options.poison = 1;
    if (change)
      change(options);
    char message[512] = "";
    EXPECT_EQ(k3rt_engine_open(artifact.c_str(), 0, &options, &engine, message, sizeof message), K3RT_OK) << message;
  }
  ~Engine() { k3rt_engine_close(engine); }

  k3rt_sequence create() {
    k3rt_sequence sequence = 0;
    EXPECT_EQ(k3rt_sequence_create(engine, &sequence), K3RT_OK);
    return sequence;
  }
  void free(k3rt_sequence sequence) { EXPECT_EQ(k3rt_sequence_free(engine, sequence), K3RT_OK); }

  /// Logits after the last token of each row.
  std::vector<std::vector<float>> step(const std::vector<std::pair<k3rt_sequence, Tokens>> &input) {
    std::vector<k3rt_batch_row> rows;
    for (const auto &[sequence, tokens] : input)
      rows.push_back({sequence, tokens.data(), tokens.size(), 0});
    k3rt_batch batch{rows.data(), static_cast<std::uint32_t>(rows.size())};
    k3rt_step_result result{};
    EXPECT_EQ(k3rt_step(engine, &batch, &result), K3RT_OK) << k3rt_last_error(engine);
    std::vector<std::vector<float>> logits;
    for (std::size_t i = 0; i < input.size(); ++i) {
      const float *first = result.logits + result.first_row[i] * result.vocab_size;
      logits.emplace_back(first, first + (input[i].second.empty() ? 0 : result.vocab_size));
    }
    return logits;
  }

  /// Every state of every layer, one after the other.
  std::vector<float> state(k3rt_sequence sequence) {
    k3rt_model_info info{};
    info.size = sizeof info;
    EXPECT_EQ(k3rt_engine_info(engine, &info), K3RT_OK);
    std::vector<float> all;
    for (std::uint32_t layer = 0; layer < info.num_layers; ++layer)
      for (const char *name : {"kda", "conv_q", "conv_k", "conv_v", "kv"}) {
        std::uint64_t count = 0;
        if (k3rt_sequence_read_state(engine, sequence, layer, name, nullptr, &count) != K3RT_OK)
          continue; // this layer has no such state
        std::size_t start = all.size();
        all.resize(start + count);
        EXPECT_EQ(k3rt_sequence_read_state(engine, sequence, layer, name, all.data() + start, &count), K3RT_OK);
      }
    return all;
  }

  k3rt_engine *engine = nullptr;
};

/// The prompt of a golden file.
inline Tokens goldenPrompt(const std::string &model, const std::string &name) {
  k3::ref::Tensors golden;
  std::string file = K3_SOURCE_DIR "/test/golden/" + model + ".safetensors";
  EXPECT_EQ(k3::ref::readSafetensors(file, golden), "");
  return golden.at(name + ".input_ids").ints();
}

} // namespace k3::test
