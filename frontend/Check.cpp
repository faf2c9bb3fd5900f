//===- Check.cpp - what is wrong with a model directory, if anything ------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Check.h"
#include "frontend/File.h"
#include "frontend/Text.h"
#include "frontend/TokenizerFiles.h"

#include <nlohmann/json.hpp>

namespace k3::frontend {

CheckReport checkModel(const std::string &directory,
                       const CheckOptions &options) {
  CheckReport report;
  report.directory = directory;
  CheckpointOptions opening;
  opening.allowMissingShards = options.allowMissingShards;
  Expected<Checkpoint> opened =
      Checkpoint::open(directory, opening, &report.problems);
  if (!opened) {
    report.fatal = opened.status();
    return report;
  }
  report.checkpoint.emplace(std::move(*opened));
  const Checkpoint &checkpoint = *report.checkpoint;
  report.notes = checkpoint.notes();
  if (std::optional<MemoryPlan> memory =
          planMemory(checkpoint.config(), options.elementBytes))
    report.memory = *memory;
  if (options.readSmallValues) {
    Status status = checkpoint.checkSmallValues(report.notes);
    if (!status.ok())
      report.problems.add(ProblemList::BadValue, status.message());
  }
  if (!pathExists(joinPath(directory, "tiktoken.model"))) {
    report.notes.push_back("no tiktoken.model: tokenizer not checked");
    return report;
  }
  Expected<TokenizerFiles> tokenizer =
      readTokenizerFiles(directory, checkpoint.config());
  if (!tokenizer) {
    report.problems.add(ProblemList::BadTokenizer, tokenizer.message());
    return report;
  }
  report.numRanks = tokenizer->ranks.tokens.size();
  report.numAddedTokens = tokenizer->config.added_tokens.size();
  return report;
}

std::string CheckReport::toText() const {
  std::string out;
  auto line = [&out](const std::string &text) { out += text + '\n'; };
  if (!fatal.ok()) {
    line(fatal.message());
    return out;
  }
  const ModelConfig &config = checkpoint->config();
  const std::string name = printable(directory);
  std::string verdict = problems.empty() ? "ok" : problems.oneLine();
  if (uint64_t missing = checkpoint->missingShards();
      missing > 0 && problems.empty())
    verdict += " as far as it is there: " + counted(missing, "missing shard") +
               " not checked";
  line(name + ": " + verdict);
  line("model      " + config.model_type + ", " +
       counted(config.layers.size(), "layer") + " (" +
       std::to_string(config.numKdaLayers()) + " KDA, " +
       std::to_string(config.numMlaLayers()) + " MLA, " +
       std::to_string(config.numMoeLayers()) + " MoE)");
  line("tensors    " + std::to_string(checkpoint->listedTensors()) +
       " listed, " + std::to_string(checkpoint->visionTensors()) +
       " of them vision; the text model has " +
       std::to_string(checkpoint->plan().count()));
  line("shards     " + std::to_string(checkpoint->files().size()) + ", " +
       std::to_string(checkpoint->missingShards()) + " missing");
  line("weights    " + std::to_string(memory.weight_bytes) +
       " bytes of the text model" +
       (checkpoint->totalSize()
            ? ", " + std::to_string(*checkpoint->totalSize()) +
                  " stated by the index"
            : ""));
  if (memory.expert_bytes > 0)
    line("expert     " + std::to_string(memory.expert_bytes) + " bytes each");
  line("sequence   " + std::to_string(memory.state_bytes_per_sequence) +
       " bytes of state (" +
       std::to_string(memory.recurrent_bytes_per_sequence) + " recurrent, " +
       std::to_string(memory.conv_bytes_per_sequence) + " conv)");
  line("cache      " + std::to_string(memory.kv_bytes_per_token) +
       " bytes per token");
  if (numRanks)
    line("tokenizer  " + std::to_string(*numRanks) + " ranks, " +
         std::to_string(*numAddedTokens) + " added tokens");
  for (size_t i = 0; i < ProblemList::numKinds; ++i) {
    auto kind = static_cast<ProblemList::Kind>(i);
    const ProblemList::Group &group = problems.group(kind);
    if (group.count == 0)
      continue;
    line("error      " + std::string(ProblemList::title(kind)) + ": " +
         std::to_string(group.count));
    for (const std::string &text : group.first)
      line("           " + text);
    if (group.count > group.first.size())
      line("           ...");
  }
  for (const std::string &note : notes)
    line("note       " + note);
  return out;
}

std::string CheckReport::toJson() const {
  nlohmann::ordered_json json;
  json["ok"] = ok();
  json["directory"] = directory;
  if (!fatal.ok()) {
    json["error"] = fatal.message();
  } else {
    const ModelConfig &config = checkpoint->config();
    json["model_type"] = config.model_type;
    json["num_hidden_layers"] = config.num_hidden_layers;
    json["kda_layers"] = config.numKdaLayers();
    json["mla_layers"] = config.numMlaLayers();
    json["moe_layers"] = config.numMoeLayers();
    json["tensors_expected"] = checkpoint->plan().count();
    json["tensors_listed"] = checkpoint->listedTensors();
    json["vision_tensors"] = checkpoint->visionTensors();
    json["shards"] = checkpoint->files().size();
    json["shards_missing"] = checkpoint->missingShards();
    json["total_size"] = nullptr;
    if (checkpoint->totalSize())
      json["total_size"] = *checkpoint->totalSize();
    json["state_bytes_per_sequence"] = memory.state_bytes_per_sequence;
    json["recurrent_bytes_per_sequence"] = memory.recurrent_bytes_per_sequence;
    json["conv_bytes_per_sequence"] = memory.conv_bytes_per_sequence;
    json["kv_bytes_per_token"] = memory.kv_bytes_per_token;
    json["expert_bytes"] = memory.expert_bytes;
    json["weight_bytes"] = memory.weight_bytes;
    auto problemList = nlohmann::ordered_json::array();
    for (size_t i = 0; i < ProblemList::numKinds; ++i) {
      auto kind = static_cast<ProblemList::Kind>(i);
      const ProblemList::Group &group = problems.group(kind);
      if (group.count > 0)
        problemList.push_back({{"kind", ProblemList::title(kind)},
                               {"count", group.count},
                               {"first", group.first}});
    }
    json["problems"] = std::move(problemList);
    json["notes"] = notes;
  }
  // A directory's name need not be UTF-8.
  return json.dump(2, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         '\n';
}

} // namespace k3::frontend
