//===- JsonView.cpp - an artifact as JSON --------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-inspect/Describe.h"
#include "tools/runtime/k3-inspect/Inspect.h"

#include <nlohmann/json.hpp>

namespace k3inspect {

using namespace k3::artifact;
using Json = nlohmann::ordered_json;
using Groups = flatbuffers::Vector<flatbuffers::Offset<Group>>;

static std::string text(const flatbuffers::String *string) {
  return string ? string->str() : std::string();
}

template <typename Vector> static Json numbers(const Vector *values) {
  Json out = Json::array();
  if (values)
    for (auto value : *values)
      out.push_back(value);
  return out;
}

/// One object per element of a vector of tables.
template <typename Vector, typename Describe>
static Json objects(const Vector *tables, Describe describe) {
  Json out = Json::array();
  if (tables)
    for (const auto *table : *tables)
      out.push_back(describe(*table));
  return out;
}

static Json blobJson(const Blob *blob) {
  if (!blob)
    return nullptr;
  return {{"offset", blob->offset()}, {"length", blob->length()}};
}

static Json modelJson(const Artifact &index) {
  const ModelInfo &model = *index.model();
  return {{"name", text(model.name())},
          {"model_type", text(model.model_type())},
          {"vocab_size", model.vocab_size()},
          {"hidden_size", model.hidden_size()},
          {"bos_token_id", model.bos_token_id()},
          {"eos_token_ids", numbers(model.eos_token_ids())},
          {"pad_token_id", model.pad_token_id()},
          {"max_position_embeddings", model.max_position_embeddings()},
          {"residual_slots", model.residual_slots()},
          {"total_weight_bytes", model.total_weight_bytes()},
          {"expert_bytes", model.expert_bytes()}};
}

static Json executableJson(const Executable &executable) {
  Json features = Json::array();
  if (executable.features())
    for (const auto *feature : *executable.features())
      features.push_back(text(feature));
  return {{"arch", text(executable.arch())},
          {"cpu", text(executable.cpu())},
          {"kind", EnumNameExecutableKind(executable.kind())},
          {"features", features},
          {"blob", blobJson(executable.blob())}};
}

static Json launchJson(const Launch *launch) {
  if (!launch)
    return nullptr;
  auto map = [](const TensorMap &each) -> Json {
    return {{"binding", each.binding()},
            {"box", numbers(each.box())},
            {"swizzle", each.swizzle()}};
  };
  return {{"entry", text(launch->entry())},
          {"threads", launch->threads()},
          {"dynamic_shared_bytes", launch->dynamic_shared_bytes()},
          {"cluster", launch->cluster()},
          {"tensor_maps", objects(launch->tensor_maps(), map)},
          {"registers", launch->registers()},
          {"static_shared_bytes", launch->static_shared_bytes()},
          {"spill_bytes", launch->spill_bytes()},
          {"stack_bytes", launch->stack_bytes()},
          {"starts_early", launch->starts_early()},
          {"resident", launch->resident()}};
}

static Json productJson(const Product *product) {
  if (!product)
    return nullptr;
  return {{"x", product->x()},
          {"weight", product->weight()},
          {"out", product->out()},
          {"accumulate", product->accumulate()},
          {"slot", product->slot()}};
}

static Json kernelJson(const Kernel &kernel) {
  return {{"name", text(kernel.name())},
          {"executable", kernel.executable()},
          {"ordinal", kernel.ordinal()},
          {"scratch_bytes", kernel.scratch_bytes()},
          {"source_op", text(kernel.source_op())},
          {"launch", launchJson(kernel.launch())},
          {"product", productJson(kernel.product())}};
}

static Json rangeJson(const Range &range) {
  return {{"offset", range.offset()}, {"length", range.length()}};
}

static Json weightJson(const Weight &weight) {
  Json out = {{"name", text(weight.name())},
              {"dtype", dtypeName(weight.dtype())},
              {"shape", numbers(weight.shape())},
              {"file", weight.file()},
              {"is_expert_group", weight.is_expert_group()}};
  if (weight.range())
    out["range"] = rangeJson(*weight.range());
  if (weight.experts() && weight.experts()->size() != 0) {
    for (const Range *range : *weight.experts())
      out["experts"].push_back(rangeJson(*range));
    out["expert_files"] = numbers(weight.expert_files());
  }
  return out;
}

static Json stateJson(const State &state) {
  return {{"name", text(state.name())},
          {"layer", state.layer()},
          {"kind", EnumNameStateKind(state.kind())},
          {"dtype", dtypeName(state.dtype())},
          {"shape", numbers(state.shape())},
          {"page_tokens", state.page_tokens()}};
}

static Json layerJson(const Layer &layer) {
  return {{"kind", layer.kind()},
          {"weights", numbers(layer.weights())},
          {"states", numbers(layer.states())},
          {"scalars", numbers(layer.scalars())}};
}

static Json dispatchJson(const Artifact &index, const Program &program,
                         const Dispatch &dispatch) {
  auto binding = [&](const Binding &each) -> Json {
    return {{"value", bindingText(each, program)}, {"writes", each.writes()}};
  };
  Json grid = {termText(dispatch.grid_x(), program),
               termText(dispatch.grid_y(), program),
               termText(dispatch.grid_z(), program)};
  return {{"label", text(dispatch.label())},
          {"kernel", text(index.kernels()->Get(dispatch.kernel())->name())},
          {"grid", grid},
          {"bindings", objects(dispatch.bindings(), binding)},
          {"scalars", objects(dispatch.scalars(), [&](const Scalar &each) {
             return Json(scalarText(each, program));
           })}};
}

static Json programJson(const Artifact &index, const Program &program) {
  auto groups = [&](const Groups *encoded) {
    return objects(encoded, [&](const Group &group) {
      return objects(group.dispatches(), [&](const Dispatch &dispatch) {
        return dispatchJson(index, program, dispatch);
      });
    });
  };
  auto buffer = [&](const Buffer &each) -> Json {
    Json shape = Json::array();
    if (each.shape())
      for (const Term *size : *each.shape())
        shape.push_back(termText(size, program));
    return {{"name", text(each.name())},
            {"role", EnumNameBufferRole(each.role())},
            {"dtype", dtypeName(each.dtype())},
            {"shape", shape},
            {"arena_offset", each.arena_offset()},
            {"arena_bytes", each.arena_bytes()}};
  };
  auto kind = [&](const LayerKind &each) -> Json {
    return {{"name", text(each.name())}, {"groups", groups(each.groups())}};
  };
  return {
      {"phase", phaseName(program.phase())},
      {"max_tokens", program.max_tokens()},
      {"max_sequences", program.max_sequences()},
      {"max_logit_rows", program.max_logit_rows()},
      {"chunk_rows", program.chunk_rows()},
      {"exact", program.exact()},
      {"arena_bytes", program.arena_bytes()},
      {"executable_kind", EnumNameExecutableKind(program.executable_kind())},
      {"buffers", objects(program.buffers(), buffer)},
      {"prologue", groups(program.prologue())},
      {"layer_kinds", objects(program.layer_kinds(), kind)},
      {"epilogue", groups(program.epilogue())}};
}

static std::string dump(const Json &json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string toJson(const Artifact &index, Selection selection) {
  if (selection) {
    const Program *program = findProgram(index, selection);
    return dump(program ? programJson(index, *program) : Json());
  }
  Json out = {
      {"compiler_version", text(index.compiler_version())},
      {"model", modelJson(index)},
      {"has_weights", index.has_weights()},
      {"tokenizer", blobJson(index.tokenizer())},
      {"executables", objects(index.executables(), executableJson)},
      {"kernels", objects(index.kernels(), kernelJson)},
      {"files", objects(index.files(),
                        [](const WeightFile &file) -> Json {
                          return {{"path", text(file.path())},
                                  {"length", file.length()}};
                        })},
      {"weights", objects(index.weights(), weightJson)},
      {"states", objects(index.states(), stateJson)},
      {"layers", objects(index.layers(), layerJson)},
      {"programs", objects(index.programs(), [&](const Program &program) {
         return programJson(index, program);
       })}};
  return dump(out);
}

} // namespace k3inspect
