//===- TextView.cpp - an artifact as lines -------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-inspect/Describe.h"
#include "tools/runtime/k3-inspect/Inspect.h"

namespace k3inspect {

using namespace k3::artifact;
using k3rt::formatText;
using Word = unsigned long long;

namespace {

class TextView {
public:
  explicit TextView(const Artifact &index) : index(index) {}

  void all();
  void program(const Program &program);

  std::string out;

private:
  void line(int level, const std::string &text) {
    out += std::string(size_t(level) * 2, ' ') + text + '\n';
  }
  void model();
  void code();
  void weights();
  void states();
  void layers();
  void groups(const Program &program, const std::string &title,
              const flatbuffers::Vector<flatbuffers::Offset<Group>> *groups);
  void dispatch(const Program &program, const Dispatch &dispatch);

  const Artifact &index;
};

} // namespace

template <typename Vector> static std::string numbers(const Vector *values) {
  std::string text;
  if (values)
    for (auto value : *values)
      text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "[" + text + "]";
}

void TextView::all() {
  model();
  code();
  weights();
  states();
  layers();
  for (const Program *each : *index.programs())
    program(*each);
}

void TextView::model() {
  const ModelInfo &model = *index.model();
  line(0, "model " + plain(model.name()) + ": " + plain(model.model_type()) +
              ", compiled by " + plain(index.compiler_version()));
  line(1, formatText("vocab %u, hidden %u, layers %u, residual slots %u, "
                     "context %llu",
                     model.vocab_size(), model.hidden_size(),
                     index.layers() ? index.layers()->size() : 0,
                     model.residual_slots(),
                     Word(model.max_position_embeddings())));
  line(1, formatText("bos %d, pad %d, eos ", model.bos_token_id(),
                     model.pad_token_id()) +
              numbers(model.eos_token_ids()));
  line(1, formatText("weights %llu bytes%s, expert %llu bytes",
                     Word(model.total_weight_bytes()),
                     index.has_weights() ? "" : " (not stored)",
                     Word(model.expert_bytes())));
  line(1, index.tokenizer() ? formatText("tokenizer %llu bytes",
                                         Word(index.tokenizer()->length()))
                            : std::string("no tokenizer"));
}

void TextView::code() {
  for (uint32_t i = 0; index.executables() && i < index.executables()->size();
       ++i) {
    const Executable &each = *index.executables()->Get(i);
    std::string features;
    if (each.features())
      for (const auto *feature : *each.features())
        features += " " + plain(feature);
    bool isCubin = each.kind() == ExecutableKind::Cubin;
    line(0,
         formatText("executable %u: ", i) + plain(each.arch()) + " " +
             plain(each.cpu()) +
             formatText(", %llu bytes", Word(each.blob()->length())) +
             (isCubin ? ", cubin"
                      : ", features" + (features.empty() ? " -" : features)));
  }
  for (uint32_t i = 0; index.kernels() && i < index.kernels()->size(); ++i) {
    const Kernel &each = *index.kernels()->Get(i);
    std::string launch =
        each.launch() ? launchText(*each.launch()) + (each.product() ? ", cuBLASLt can do it" : "")
                      : formatText("ordinal %u, scratch %llu", each.ordinal(),
                                   Word(each.scratch_bytes()));
    line(0, formatText("kernel %u ", i) + plain(each.name()) +
                formatText(": executable %u, ", each.executable()) + launch +
                ", from " + plain(each.source_op()));
  }
}

void TextView::weights() {
  for (uint32_t i = 0; index.files() && i < index.files()->size(); ++i) {
    const WeightFile &each = *index.files()->Get(i);
    line(0, formatText("file %u ", i) + plain(each.path()) +
                formatText(": %llu bytes", Word(each.length())));
  }
  for (uint32_t i = 0; index.weights() && i < index.weights()->size(); ++i) {
    const Weight &each = *index.weights()->Get(i);
    line(0, formatText("weight %u ", i) + plain(each.name()) + ": " +
                (each.is_expert_group() ? "experts " : "") +
                typeText(each.dtype(), each.shape()) + ", " +
                placeText(each, index));
  }
}

void TextView::states() {
  for (uint32_t i = 0; index.states() && i < index.states()->size(); ++i) {
    const State &each = *index.states()->Get(i);
    bool paged = each.kind() == StateKind::KvCache;
    line(0, formatText("state %u of layer %u ", i, each.layer()) +
                plain(each.name()) + ": " + EnumNameStateKind(each.kind()) +
                " " + typeText(each.dtype(), each.shape()) + " per " +
                (paged ? formatText("page of %u tokens", each.page_tokens())
                       : std::string("sequence")));
  }
}

void TextView::layers() {
  const auto &kinds = *index.programs()->Get(0)->layer_kinds();
  for (uint32_t i = 0; index.layers() && i < index.layers()->size(); ++i) {
    const Layer &each = *index.layers()->Get(i);
    line(0, formatText("layer %u ", i) + plain(kinds.Get(each.kind())->name()) +
                ": weights " + numbers(each.weights()) + ", states " +
                numbers(each.states()) + ", scalars " +
                numbers(each.scalars()));
  }
}

void TextView::program(const Program &program) {
  bool isGpu = program.executable_kind() == ExecutableKind::Cubin;
  line(0, formatText("%sprogram %s: up to %u tokens, %u sequences, %u logit "
                     "rows; chunks of %u rows; arena %llu bytes",
                     isGpu ? "GPU " : "", phaseName(program.phase()),
                     program.max_tokens(), program.max_sequences(),
                     program.max_logit_rows(), program.chunk_rows(),
                     Word(program.arena_bytes())));
  if (program.buffers())
    for (const Buffer *each : *program.buffers()) {
      bool transient = each->role() == BufferRole::Transient;
      line(1, (transient                           ? "buffer "
               : each->role() == BufferRole::Input ? "input "
                                                   : "output ") +
                  plain(each->name()) + ": " + typeText(*each, program) +
                  (transient ? formatText(" at %llu + %llu",
                                          Word(each->arena_offset()),
                                          Word(each->arena_bytes()))
                             : ""));
    }
  groups(program, "prologue", program.prologue());
  if (program.layer_kinds())
    for (const LayerKind *each : *program.layer_kinds())
      groups(program, "layer kind " + plain(each->name()), each->groups());
  groups(program, "epilogue", program.epilogue());
}

void TextView::groups(
    const Program &program, const std::string &title,
    const flatbuffers::Vector<flatbuffers::Offset<Group>> *groups) {
  line(1, title);
  for (uint32_t i = 0; groups && i < groups->size(); ++i) {
    line(2, formatText("group %u", i));
    if (groups->Get(i)->dispatches())
      for (const Dispatch *each : *groups->Get(i)->dispatches())
        dispatch(program, *each);
  }
}

/// Written bindings are marked with '>'.
void TextView::dispatch(const Program &program, const Dispatch &dispatch) {
  std::string bindings, scalars;
  if (dispatch.bindings())
    for (const Binding *each : *dispatch.bindings())
      bindings += (bindings.empty() ? "" : ", ") +
                  std::string(each->writes() ? ">" : "") +
                  bindingText(*each, program);
  if (dispatch.scalars())
    for (const Scalar *each : *dispatch.scalars())
      scalars += (scalars.empty() ? "" : ", ") + scalarText(*each, program);
  line(3, plain(dispatch.label()) + ": " +
              plain(index.kernels()->Get(dispatch.kernel())->name()) +
              " grid " + gridText(dispatch, program) + " (" + bindings +
              ") scalars (" + scalars + ")");
}

std::string toText(const Artifact &index, Selection selection) {
  TextView view(index);
  if (!selection)
    view.all();
  else if (const Program *program = findProgram(index, selection))
    view.program(*program);
  return view.out;
}

const Program *findProgram(const Artifact &index, const Selection &selection) {
  for (const Program *program : *index.programs())
    if (program->phase() == *selection.phase &&
        (!selection.gpu || program->executable_kind() == ExecutableKind::Cubin))
      return program;
  return nullptr;
}

} // namespace k3inspect
