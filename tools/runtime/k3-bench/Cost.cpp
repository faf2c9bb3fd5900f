//===- Cost.cpp - what a step must read and compute ----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-bench/Cost.h"
#include "runtime/src/artifact/DType.h"
#include "runtime/src/artifact/Programs.h"

#include <cassert>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace k3bench {

namespace schema = k3::artifact;
using Groups = flatbuffers::Vector<flatbuffers::Offset<schema::Group>>;

Cost &Cost::operator+=(const Cost &other) {
  weightBytes += other.weightBytes;
  stateBytes += other.stateBytes;
  flops += other.flops;
  return *this;
}

//===----------------------------------------------------------------------===//
// Sizes of weights and states
//===----------------------------------------------------------------------===//

static double elementsOf(const flatbuffers::Vector<int64_t> *shape) {
  double elements = 1;
  if (shape)
    for (int64_t size : *shape)
      elements *= double(size);
  return elements;
}

static double bytesOf(const schema::Weight &weight) {
  return elementsOf(weight.shape()) * k3rt::elementBytes(weight.dtype());
}

/// Numbers that a row is multiplied with: two per byte of MXFP4, none for scales and vectors.
static double factorsOf(const schema::Weight &weight) {
  uint32_t rank = weight.shape() ? weight.shape()->size() : 0;
  if (rank < (weight.is_expert_group() ? 3u : 2u))
    return 0;
  switch (weight.dtype()) {
  case schema::DType::F32:
  case schema::DType::BF16:
    return elementsOf(weight.shape());
  case schema::DType::I8:
  case schema::DType::U8:
    if (weight.name() && weight.name()->string_view().find("scale") != std::string_view::npos)
      return 0;
    return 2 * elementsOf(weight.shape());
  case schema::DType::I32:
    return 0;
  }
  __builtin_unreachable(); // checkArtifact knows all types
}

/// Rows of weights and states that some dispatches use.
class CostModel::Uses {
public:
  explicit Uses(const schema::Artifact &index) : index(index) {}

  /// `layer` is null outside layers.
  void add(const schema::Dispatch &dispatch, const schema::Layer *layer);
  void add(const Groups *groups, const schema::Layer *layer);

  struct Access {
    bool reads = false, writes = false;
  };
  std::set<uint32_t> weights;
  std::map<uint32_t, Access> states;

private:
  const schema::Artifact &index;
};

void CostModel::Uses::add(const schema::Dispatch &dispatch, const schema::Layer *layer) {
  if (!dispatch.bindings())
    return;
  for (const auto *binding : *dispatch.bindings()) {
    switch (binding->kind()) {
    case schema::BindingKind::Buffer:
      break;
    case schema::BindingKind::Weight:
      weights.insert(binding->index());
      break;
    case schema::BindingKind::LayerWeight:
      weights.insert(layer->weights()->Get(binding->index()));
      break;
    case schema::BindingKind::LayerState: {
      uint32_t state = layer->states()->Get(binding->index());
      // Recurrent states and windows are updated in place; rows of the cache are only appended.
      bool appends = index.states()->Get(state)->kind() == schema::StateKind::KvCache && binding->writes();
      states[state].reads |= !appends;
      states[state].writes |= binding->writes();
      break;
    }
    }
  }
}

void CostModel::Uses::add(const Groups *groups, const schema::Layer *layer) {
  if (!groups)
    return;
  for (const auto *group : *groups)
    if (group->dispatches())
      for (const auto *dispatch : *group->dispatches())
        add(*dispatch, layer);
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

k3rt::Status CostModel::init(const schema::Artifact &artifact) {
  index = &artifact;
  int64_t fewest = INT64_MAX;
  if (index->weights())
    for (const auto *weight : *index->weights())
      if (weight->is_expert_group())
        fewest = std::min(fewest, weight->shape()->Get(0));
  if (fewest == INT64_MAX)
    return k3rt::Status();
  const auto *text = index->model()->config_json();
  auto config = nlohmann::json::parse(text ? text->str() : "", nullptr, /*allow_exceptions=*/false);
  const nlohmann::json *settings = &config;
  if (config.is_object() && config.contains("text_config"))
    settings = &config["text_config"];
  const char *key = "num_experts_per_token";
  if (!settings->is_object() || !settings->contains(key) || !(*settings)[key].is_number_integer())
    return k3rt::Status(K3RT_BAD_ARTIFACT, "config.json inside has no num_experts_per_token, but there are experts");
  int64_t given = (*settings)[key].get<int64_t>();
  if (given < 1 || given > fewest)
    return k3rt::makeError(K3RT_BAD_ARTIFACT,
                           "config.json inside: num_experts_per_token is %lld, but there are %lld experts",
                           static_cast<long long>(given), static_cast<long long>(fewest));
  expertsPerToken = uint64_t(given);
  return k3rt::Status();
}

void CostModel::addWeight(const schema::Weight &weight, uint64_t rows, Cost &cost) const {
  double bytes = bytesOf(weight), factors = factorsOf(weight);
  if (!weight.is_expert_group()) {
    cost.weightBytes += rows != 0 ? bytes : 0;
    cost.flops += 2 * factors * double(rows);
    return;
  }
  auto experts = double(weight.shape()->Get(0));
  double chosen = double(expertsPerToken) / experts;
  // Expected share of experts that some row chooses, when all are equally likely.
  double touched = rows == 1 ? chosen : 1 - std::pow(1 - chosen, double(rows));
  cost.weightBytes += bytes * touched;
  cost.flops += 2 * factors * chosen * double(rows);
}

Cost CostModel::costOf(const Uses &uses, uint64_t rows, const StepSize &size) const {
  Cost cost;
  for (uint32_t weight : uses.weights)
    addWeight(*index->weights()->Get(weight), rows, cost);
  for (const auto &[ordinal, access] : uses.states) {
    const schema::State &state = *index->states()->Get(ordinal);
    double bytes = elementsOf(state.shape()) * k3rt::elementBytes(state.dtype());
    double read = double(size.sequences), written = read;
    if (state.kind() == schema::StateKind::KvCache) {
      bytes /= state.page_tokens();
      read = double(size.sequences * size.context + size.rows);
      written = double(size.rows);
    }
    cost.stateBytes += bytes * ((access.reads ? read : 0) + (access.writes ? written : 0));
  }
  return cost;
}

Cost CostModel::prologueDispatch(const schema::Dispatch &dispatch, const StepSize &size) const {
  Uses uses(*index);
  uses.add(dispatch, nullptr);
  Cost cost;
  for (uint32_t ordinal : uses.weights) {
    const schema::Weight &weight = *index->weights()->Get(ordinal);
    double tableRows = weight.shape() && weight.shape()->size() != 0 ? double(weight.shape()->Get(0)) : 1;
    cost.weightBytes += bytesOf(weight) * std::min(1.0, double(size.rows) / tableRows);
  }
  return cost;
}

Cost CostModel::layerDispatch(const schema::Dispatch &dispatch, uint32_t layer, const StepSize &size) const {
  Uses uses(*index);
  uses.add(dispatch, index->layers()->Get(layer));
  return costOf(uses, size.rows, size);
}

Cost CostModel::epilogueDispatch(const schema::Dispatch &dispatch, const StepSize &size) const {
  Uses uses(*index);
  uses.add(dispatch, nullptr);
  return costOf(uses, size.logitRows, size);
}

Cost CostModel::layer(const schema::Program &program, uint32_t layer, const StepSize &size) const {
  const schema::Layer &encoded = *index->layers()->Get(layer);
  Uses uses(*index);
  uses.add(program.layer_kinds()->Get(encoded.kind())->groups(), &encoded);
  return costOf(uses, size.rows, size);
}

Cost CostModel::epilogue(const schema::Program &program, const StepSize &size) const {
  Uses uses(*index);
  uses.add(program.epilogue(), nullptr);
  return costOf(uses, size.logitRows, size);
}

Cost CostModel::step(const schema::Program &program, const StepSize &size) const {
  Cost cost = epilogue(program, size);
  for (uint32_t i = 0; index->layers() && i < index->layers()->size(); ++i)
    cost += layer(program, i, size);
  return cost;
}

const schema::Program &programFor(const schema::Artifact &index, schema::Phase phase, const k3rt::DeviceName &device) {
  const schema::Program *found = k3rt::findProgram(index, phase, device);
  if (!found)
    found = k3rt::findProgram(index, schema::Phase::Prefill, device);
  assert(found && "an engine for the device was opened");
  return *found;
}

} // namespace k3bench
