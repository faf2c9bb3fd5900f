//===- ToyModel.cpp - a small model to run the runtime with --------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Runtime/ToyModel.h"
#include "k3rt/abi.h"
#include "runtime/src/base/Hash.h"
#include "test/unit/Runtime/FakeCuda/FakeCuda.h"

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace toy {

using namespace k3::artifact;

const char *testDevice = nullptr;

//===----------------------------------------------------------------------===//
// Pieces of the index
//===----------------------------------------------------------------------===//

// Positions in Program.symbols; not the runtime's own order on purpose.
enum Symbol : uint8_t { M, P, S, R, C, N, T };
static const std::vector<std::string> symbolNames = {"M", "P", "S", "R",
                                                     "C", "N", "T"};

using TermPtr = std::unique_ptr<TermT>;

static TermPtr constant(int64_t value) {
  auto term = std::make_unique<TermT>();
  term->mul = value;
  return term;
}

static TermPtr symbol(Symbol which, int64_t add = 0, int64_t div = 1) {
  auto term = std::make_unique<TermT>();
  term->symbols = {which};
  term->add = add;
  term->div = div;
  return term;
}

template <typename... Terms> static std::vector<TermPtr> shape(Terms... terms) {
  std::vector<TermPtr> out;
  (out.push_back(std::move(terms)), ...);
  return out;
}

static std::unique_ptr<BufferT> buffer(const char *name, BufferRole role,
                                       DType dtype, std::vector<TermPtr> size,
                                       uint64_t offset = 0,
                                       uint64_t bytes = 0) {
  auto out = std::make_unique<BufferT>();
  out->name = name;
  out->role = role;
  out->dtype = dtype;
  out->shape = std::move(size);
  out->arena_offset = offset;
  out->arena_bytes = bytes;
  return out;
}

static std::unique_ptr<BindingT> bind(BindingKind kind, uint32_t index,
                                      bool writes = false) {
  auto out = std::make_unique<BindingT>();
  out->kind = kind;
  out->index = index;
  out->writes = writes;
  return out;
}

static std::unique_ptr<ScalarT> scalar(TermPtr term) {
  auto out = std::make_unique<ScalarT>();
  out->term = std::move(term);
  return out;
}

static std::unique_ptr<ScalarT> layerScalar(uint32_t index) {
  auto out = std::make_unique<ScalarT>();
  out->kind = ScalarKind::LayerScalar;
  out->index = index;
  return out;
}

template <typename Item, typename... Items>
static std::vector<std::unique_ptr<Item>> list(Items... items) {
  std::vector<std::unique_ptr<Item>> out;
  (out.push_back(std::move(items)), ...);
  return out;
}

enum Kernel : uint32_t {
  embed,
  conv,
  chunkSums,
  chunkScan,
  chunkApply,
  recurrentStep,
  append,
  attend,
  head,
  sample, ///< of GPUs
  numKernels
};
constexpr uint32_t numCpuKernels = sample;
static const char *const kernelNames[numKernels] = {
    "embed",          "conv",   "chunk_sums", "chunk_scan", "chunk_apply",
    "recurrent_step", "append", "attend",     "head",       "sample"};

static std::unique_ptr<DispatchT>
dispatch(Kernel kernel, TermPtr x, TermPtr y,
         std::vector<std::unique_ptr<BindingT>> bindings,
         std::vector<std::unique_ptr<ScalarT>> scalars) {
  auto out = std::make_unique<DispatchT>();
  out->kernel = kernel;
  out->grid_x = std::move(x);
  out->grid_y = std::move(y);
  out->bindings = std::move(bindings);
  out->scalars = std::move(scalars);
  out->label = std::string("do_") + kernelNames[kernel];
  return out;
}

template <typename... Dispatches>
static std::unique_ptr<GroupT> group(Dispatches... dispatches) {
  auto out = std::make_unique<GroupT>();
  out->dispatches = list<DispatchT>(std::move(dispatches)...);
  return out;
}

// Positions in Program.buffers, weights of a layer, states of a layer.
enum BufferIndex : uint32_t {
  tokens,
  cu,
  slots,
  lengths,
  pageTable,
  chunks,
  chunkCu,
  logitRows,
  logits,
  stream,
  convOut,
  sums,
  entries,
  // Of programs that choose tokens.
  sampling,
  banned,
  ids
};
enum : uint32_t { tableWeight, firstScale, secondScale, expertWeight };
enum : uint32_t { kdaState, convState };

static std::unique_ptr<BindingT> in(BufferIndex index) {
  return bind(BindingKind::Buffer, index);
}
static std::unique_ptr<BindingT> out(BufferIndex index) {
  return bind(BindingKind::Buffer, index, true);
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

static uint64_t aligned(uint64_t value) { return (value + 63) / 64 * 64; }

static void addBuffers(ProgramT &program, const Options &options) {
  auto add = [&](std::unique_ptr<BufferT> made) {
    program.buffers.push_back(std::move(made));
  };
  auto input = [&](const char *name, std::vector<TermPtr> size) {
    add(buffer(name, BufferRole::Input, DType::I32, std::move(size)));
  };
  input("tokens", shape(symbol(T)));
  input("cu", shape(symbol(N, 1)));
  input("slots", shape(symbol(N)));
  input("lengths", shape(symbol(N)));
  input("page_table", shape(symbol(N), symbol(M)));
  input("chunks", shape(symbol(C), constant(2)));
  input("chunk_cu", shape(symbol(N, 1)));
  input("logit_rows", shape(symbol(R)));
  add(buffer("logits", BufferRole::Output, DType::F32,
             shape(symbol(R), constant(options.vocab))));
  uint64_t offset = 0;
  auto transient = [&](const char *name, std::vector<TermPtr> size,
                       uint64_t elements) {
    uint64_t bytes = aligned(elements * 4);
    add(buffer(name, BufferRole::Transient, DType::F32, std::move(size), offset,
               bytes));
    offset += bytes;
  };
  uint64_t maxChunks = options.maxSequences + options.maxTokens;
  transient("stream", shape(constant(2), symbol(T), constant(hidden)),
            2 * options.maxTokens * hidden);
  transient("conv", shape(symbol(T), constant(hidden)),
            options.maxTokens * hidden);
  transient("sums", shape(symbol(C), constant(hidden)), maxChunks * hidden);
  transient("entries", shape(symbol(C), constant(hidden)), maxChunks * hidden);
  program.arena_bytes = offset;
}

static void addSampling(ProgramT &program, const Options &options) {
  uint32_t words = (options.vocab + 31) / 32;
  auto add = [&](const char *name, BufferRole role, std::vector<TermPtr> size) {
    program.buffers.push_back(buffer(name, role, DType::I32, std::move(size)));
  };
  add("sampling", BufferRole::Input, shape(symbol(R), constant(8)));
  add("banned", BufferRole::Input,
      shape(constant(banSets), constant(words)));
  add("ids", BufferRole::Output, shape(symbol(R)));
  program.epilogue.push_back(group(dispatch(
      sample, symbol(R), nullptr,
      list<BindingT>(in(logits), in(sampling), in(banned), out(ids)),
      list<ScalarT>(scalar(symbol(R)), scalar(constant(options.vocab)),
                    scalar(constant(words))))));
}

static std::unique_ptr<LayerKindT> kdaKind(bool decode) {
  auto kind = std::make_unique<LayerKindT>();
  kind->name = "kda";
  auto rows = [] {
    return list<ScalarT>(scalar(symbol(T)), scalar(symbol(N)),
                         scalar(constant(hidden)), layerScalar(1));
  };
  auto chunkScalars = [] {
    return list<ScalarT>(scalar(symbol(T)), scalar(symbol(C)),
                         scalar(constant(hidden)), layerScalar(1));
  };
  auto state = [](uint32_t which) {
    return bind(BindingKind::LayerState, which, true);
  };
  auto weight = [] { return bind(BindingKind::LayerWeight, 0); };
  auto convDispatch = dispatch(conv, symbol(N), constant(hidden / 4),
                               list<BindingT>(in(stream), in(cu), in(slots),
                                              state(convState), out(convOut)),
                               rows());
  if (decode) {
    kind->groups = list<GroupT>(
        group(std::move(convDispatch)),
        group(dispatch(recurrentStep, symbol(N), nullptr,
                       list<BindingT>(out(stream), in(slots), weight(),
                                      state(kdaState), in(convOut)),
                       rows())));
    return kind;
  }
  kind->groups = list<GroupT>(
      group(
          std::move(convDispatch),
          dispatch(chunkSums, symbol(C), nullptr,
                   list<BindingT>(in(stream), in(chunks), weight(), out(sums)),
                   chunkScalars())),
      group(
          dispatch(chunkScan, symbol(N), nullptr,
                   list<BindingT>(in(sums), in(chunks), in(chunkCu), in(slots),
                                  state(kdaState), out(entries)),
                   list<ScalarT>(scalar(symbol(N)), scalar(constant(hidden))))),
      group(dispatch(chunkApply, symbol(C), nullptr,
                     list<BindingT>(out(stream), in(chunks), weight(),
                                    in(entries), in(convOut)),
                     chunkScalars())));
  return kind;
}

static std::unique_ptr<LayerKindT> mlaKind(const Options &options) {
  auto kind = std::make_unique<LayerKindT>();
  kind->name = "mla";
  auto scalars = [&] {
    return list<ScalarT>(scalar(symbol(T)), scalar(symbol(N)),
                         scalar(symbol(M)), scalar(constant(hidden)),
                         scalar(constant(options.pageTokens)), layerScalar(0),
                         layerScalar(1));
  };
  kind->groups = list<GroupT>(
      group(dispatch(append, symbol(N), nullptr,
                     list<BindingT>(in(stream), in(cu), in(lengths),
                                    in(pageTable),
                                    bind(BindingKind::LayerState, 0, true)),
                     scalars())),
      group(dispatch(attend, symbol(N), nullptr,
                     list<BindingT>(out(stream), in(cu), in(lengths),
                                    in(pageTable),
                                    bind(BindingKind::LayerState, 0),
                                    bind(BindingKind::LayerWeight, 0)),
                     scalars())));
  return kind;
}

static std::unique_ptr<ProgramT> program(const Options &options, bool decode) {
  auto out_ = std::make_unique<ProgramT>();
  out_->phase = decode ? Phase::Decode : Phase::Prefill;
  out_->symbols = symbolNames;
  out_->max_tokens = decode ? options.maxSequences : options.maxTokens;
  out_->max_sequences = options.maxSequences;
  out_->max_logit_rows = decode ? options.maxSequences : options.maxLogitRows;
  // The decode program has the inputs too, but does not read them.
  out_->chunk_rows = options.chunkRows;
  addBuffers(*out_, options);
  out_->prologue = list<GroupT>(group(dispatch(
      embed, symbol(T, 0, 4), nullptr,
      list<BindingT>(in(tokens), bind(BindingKind::Weight, tableWeight),
                     out(stream)),
      list<ScalarT>(scalar(symbol(T)), scalar(constant(options.vocab)),
                    scalar(constant(hidden))))));
  out_->layer_kinds = list<LayerKindT>(kdaKind(decode && !options.chunkedDecode),
                                         mlaKind(options));
  out_->epilogue = list<GroupT>(
      group(dispatch(head, symbol(R), constant((options.vocab + 15) / 16),
                     list<BindingT>(in(stream), in(logitRows), out(logits)),
                     list<ScalarT>(scalar(symbol(T)), scalar(symbol(R)),
                                   scalar(constant(options.vocab)),
                                   scalar(constant(hidden))))));
  return out_;
}

//===----------------------------------------------------------------------===//
// Weights and states
//===----------------------------------------------------------------------===//

static int tableValue(int32_t token, int h) {
  return (token * 37 + h * 101 + token * token * h) % modulus;
}
static int scaleValue(int which, int h) { return (which * 5 + h) % 7 + 1; }
static int expertValue(int expert, int h) {
  return (expert * 211 + h * 17) % modulus;
}

/// Appends at a multiple of 64 and returns the range.
static Range put(std::string &bytes, const std::vector<float> &values) {
  bytes.resize(aligned(bytes.size()));
  uint64_t offset = bytes.size(), size = values.size() * sizeof(float);
  bytes.append(reinterpret_cast<const char *>(values.data()), size);
  return Range(offset, size);
}

static void addWeight(Model &model, const char *name, std::vector<int64_t> size,
                      const std::vector<float> &values, int32_t file) {
  auto weight = std::make_unique<WeightT>();
  weight->name = name;
  weight->shape = std::move(size);
  weight->file = file;
  weight->range = std::make_unique<Range>(put(model.weightBytes, values));
  model.index.weights.push_back(std::move(weight));
}

static void addWeights(Model &model, const Options &options) {
  bool apart = options.weights == Weights::expertsApart;
  int32_t file = options.weights == Weights::beside || apart ? 0 : -1;
  std::vector<float> table, first, second, expert;
  for (uint32_t token = 0; token < options.vocab; ++token)
    for (int h = 0; h < hidden; ++h)
      table.push_back(int32_t(token) == nanToken
                          ? std::nanf("")
                          : float(tableValue(int32_t(token), h)));
  for (int h = 0; h < hidden; ++h) {
    first.push_back(float(scaleValue(0, h)));
    second.push_back(float(scaleValue(1, h)));
  }
  addWeight(model, "embed_tokens.weight", {options.vocab, hidden}, table, file);
  addWeight(model, "layers.0.scale", {hidden}, first, file);
  addWeight(model, "layers.2.scale", {hidden}, second, file);
  for (int e = 0; e < experts; ++e)
    for (int h = 0; h < hidden; ++h)
      expert.push_back(float(expertValue(e, h)));
  addWeight(model, "layers.1.experts.{E}", {experts, hidden}, expert, file);
  WeightT &group = *model.index.weights.back();
  group.is_expert_group = true;
  if (!apart)
    return;
  // Last one first, with gaps.
  group.range.reset();
  for (int e = 0; e < experts; ++e) {
    std::vector<float> one(expert.begin() + e * hidden,
                           expert.begin() + (e + 1) * hidden);
    one.insert(one.begin(), 16, 0.0f);
    Range range = put(model.weightBytes, one);
    group.experts.push_back(Range(range.offset() + 64, hidden * sizeof(float)));
  }
  group.expert_files.assign(experts, 0);
}

static void addState(Model &model, const char *name, uint32_t layer,
                     StateKind kind, DType dtype, std::vector<int64_t> size,
                     uint32_t pageTokens = 0) {
  auto state = std::make_unique<StateT>();
  state->name = name;
  state->layer = layer;
  state->kind = kind;
  state->dtype = dtype;
  state->shape = std::move(size);
  state->page_tokens = pageTokens;
  model.index.states.push_back(std::move(state));
}

static std::unique_ptr<LayerT> layer(uint32_t kind, uint32_t weight,
                                     std::vector<uint32_t> states,
                                     std::vector<int64_t> scalars) {
  auto out_ = std::make_unique<LayerT>();
  out_->kind = kind;
  out_->weights = {weight};
  out_->states = std::move(states);
  out_->scalars = std::move(scalars);
  return out_;
}

static std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

//===----------------------------------------------------------------------===//
// The GPU
//===----------------------------------------------------------------------===//

static std::unique_ptr<TensorMapT> tensorMap(uint32_t binding,
                                             std::vector<uint32_t> box,
                                             uint32_t swizzle) {
  auto out_ = std::make_unique<TensorMapT>();
  out_->binding = binding;
  out_->box = std::move(box);
  out_->swizzle = swizzle;
  return out_;
}

static std::unique_ptr<LaunchT> launch(Kernel kernel, const Options &options) {
  auto out_ = std::make_unique<LaunchT>();
  out_->entry = std::string("toy_") + kernelNames[kernel];
  out_->threads = 32;
  out_->registers = 40;
  out_->starts_early = options.startEarly && kernel != conv;
  if (kernel == embed)
    out_->cluster = options.embedCluster;
  out_->resident = options.residentEmbed && kernel == embed;
  if (kernel == chunkApply)
    out_->dynamic_shared_bytes = hidden * sizeof(float);
  if (!options.tensorMaps)
    return out_;
  if (kernel == embed)
    out_->tensor_maps.push_back(tensorMap(1, {16, 8}, 32));
  if (kernel == conv)
    out_->tensor_maps.push_back(tensorMap(0, {1, 2, 4}, 0));
  if (kernel == append) {
    out_->tensor_maps.push_back(tensorMap(4, {2, 8}, 128));
    out_->tensor_maps.push_back(tensorMap(3, {4}, 0));
  }
  return out_;
}

static std::string cubinFor(const Options &options) {
  if (const char *real = getenv("K3_TOY_CUBIN"))
    return readFile(real);
  std::vector<fakecuda::KernelText> kernels;
  auto add = [&](Kernel kernel, uint32_t bindings, uint32_t scalars,
                 uint32_t tableBinding = 0, uint32_t tableLength = 0) {
    auto launched = launch(kernel, options);
    kernels.push_back({launched->entry, kernel, bindings, scalars,
                       uint32_t(launched->tensor_maps.size()), tableBinding,
                       tableLength});
    kernels.back().resident = launched->resident;
  };
  add(embed, 3, 3);
  add(conv, 5, 4);
  add(chunkSums, 4, 4);
  add(chunkScan, 6, 2);
  add(chunkApply, 5, 4);
  add(recurrentStep, 5, 4);
  add(append, 5, 7);
  add(attend, 6, 7, 5, experts);
  add(head, 3, 4);
  if (options.choosesTokens) {
    // Behind those of tests alone.
    constexpr uint32_t ordinal = 11;
    kernels.push_back({"toy_sample", ordinal, 4, 3, 0, 0, 0});
  }
  return fakecuda::cubinText("sm_90a", kernels);
}

static void moveKernels(std::vector<std::unique_ptr<GroupT>> &groups,
                        uint32_t by) {
  for (auto &each : groups)
    for (auto &dispatch : each->dispatches)
      dispatch->kernel += by;
}

/// Executable, kernels and programs for a GPU, behind those that are there.
static void addGpu(Model &model, const Options &options) {
  ArtifactT &index = model.index;
  model.cubin = cubinFor(options);
  auto executable = std::make_unique<ExecutableT>();
  executable->kind = ExecutableKind::Cubin;
  executable->arch = "nvidia";
  executable->cpu = "sm_90a";
  executable->blob = std::make_unique<BlobT>();
  auto firstKernel = uint32_t(index.kernels.size());
  for (uint32_t i = 0; i < (options.choosesTokens ? numKernels : numCpuKernels);
       ++i) {
    auto kernel = std::make_unique<KernelT>();
    kernel->name = kernelNames[i];
    kernel->executable = uint32_t(index.executables.size());
    kernel->source_op = std::string("toy.") + kernelNames[i];
    kernel->launch = launch(Kernel(i), options);
    index.kernels.push_back(std::move(kernel));
  }
  index.executables.push_back(std::move(executable));
  for (bool decode : {false, true}) {
    if (decode && !options.decodeProgram)
      continue;
    auto made = program(options, decode);
    made->executable_kind = ExecutableKind::Cubin;
    if (options.choosesTokens)
      addSampling(*made, options);
    moveKernels(made->prologue, firstKernel);
    for (auto &kind : made->layer_kinds)
      moveKernels(kind->groups, firstKernel);
    moveKernels(made->epilogue, firstKernel);
    index.programs.push_back(std::move(made));
  }
}

static void addCpu(Model &model, const Options &options) {
  ArtifactT &index = model.index;
  const char *moved = getenv("K3_TOY_KERNELS");
  model.code = readFile(moved ? moved : K3_TOY_KERNELS);
  auto executable = std::make_unique<ExecutableT>();
  executable->arch = "x86_64";
  executable->cpu = "x86-64";
  executable->features = {"sse2"};
  executable->blob = std::make_unique<BlobT>();
  index.executables.push_back(std::move(executable));
  for (uint32_t i = 0; i < numCpuKernels; ++i) {
    auto kernel = std::make_unique<KernelT>();
    kernel->name = kernelNames[i];
    kernel->ordinal = i;
    kernel->source_op = std::string("toy.") + kernelNames[i];
    if (i == chunkApply)
      kernel->scratch_bytes = hidden * sizeof(float);
    index.kernels.push_back(std::move(kernel));
  }
  index.programs.push_back(program(options, false));
  if (options.decodeProgram)
    index.programs.push_back(program(options, true));
}

Model make(const Options &given) {
  Options options = given;
  if (testDevice && options.targets == Targets::cpu)
    options.targets = Targets::both;
  Model model;
  ArtifactT &index = model.index;
  index.compiler_version = "toy 1";
  index.model = std::make_unique<ModelInfoT>();
  index.model->name = "toy";
  index.model->model_type = "toy_type";
  index.model->config_json = R"({"num_experts_per_token": 1})";
  index.model->vocab_size = options.vocab;
  index.model->hidden_size = hidden;
  index.model->bos_token_id = 1;
  index.model->eos_token_ids = {2, 3};
  index.model->pad_token_id = 0;
  index.model->max_position_embeddings = 100000;
  index.model->residual_slots = 2;
  index.model->expert_bytes = hidden * sizeof(float);
  index.has_weights = options.weights != Weights::none;

  model.tokenizer = "tokenizer bytes";
  index.tokenizer = std::make_unique<BlobT>();
  if (options.targets != Targets::gpu)
    addCpu(model, options);
  if (options.targets != Targets::cpu)
    addGpu(model, options);

  addWeights(model, options);
  index.model->total_weight_bytes = model.weightBytes.size();
  addState(model, "kda", 0, StateKind::Kda, DType::F32, {hidden});
  addState(model, "conv_q", 0, StateKind::Conv, DType::BF16, {2, hidden});
  addState(model, "kv", 1, StateKind::KvCache, DType::F32,
           {options.pageTokens, hidden}, options.pageTokens);
  addState(model, "conv_q", 2, StateKind::Conv, DType::BF16, {2, hidden});
  addState(model, "kda", 2, StateKind::Kda, DType::F32, {hidden});
  index.layers.push_back(layer(0, firstScale, {0, 1}, {1, 0, 1}));
  index.layers.push_back(layer(1, expertWeight, {2}, {0, 1, 2}));
  index.layers.push_back(layer(0, secondScale, {4, 3}, {2, 1, 2}));
  return model;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

std::string assemble(const ArtifactT &index, const std::string &blobs) {
  flatbuffers::FlatBufferBuilder builder;
  FinishArtifactBuffer(builder, Artifact::Pack(builder, &index));
  k3_artifact_header header = {};
  memcpy(header.magic, K3_ARTIFACT_MAGIC, sizeof(header.magic));
  header.abi_version = K3_ABI_VERSION;
  header.file_length = blobsBegin + blobs.size();
  header.index_offset = sizeof(header);
  header.index_length = builder.GetSize();
  header.index_hash =
      k3rt::hashBytes(builder.GetBufferPointer(), builder.GetSize());
  header.header_hash =
      k3rt::hashBytes(&header, offsetof(k3_artifact_header, header_hash));
  std::string file(reinterpret_cast<const char *>(&header), sizeof(header));
  file.append(reinterpret_cast<const char *>(builder.GetBufferPointer()),
              builder.GetSize());
  if (file.size() > blobsBegin)
    abort();
  file.resize(blobsBegin);
  return file + blobs;
}

std::string serialize(Model &model) {
  std::string blobs;
  auto add = [&](BlobT &blob, const std::string &bytes) {
    blobs.resize((blobs.size() + 4095) / 4096 * 4096);
    blob.offset = blobsBegin + blobs.size();
    blob.length = bytes.size();
    blob.hash = k3rt::hashBytes(bytes.data(), bytes.size());
    blobs += bytes;
  };
  for (auto &executable : model.index.executables)
    add(*executable->blob, executable->kind == ExecutableKind::Cubin
                               ? model.cubin
                               : model.code);
  add(*model.index.tokenizer, model.tokenizer);
  if (model.index.weights[0]->file == 0) {
    auto file = std::make_unique<WeightFileT>();
    file->path = "model.k3w";
    file->length = model.weightBytes.size();
    model.index.files.push_back(std::move(file));
  } else if (model.index.has_weights) {
    blobs.resize((blobs.size() + 4095) / 4096 * 4096);
    for (auto &weight : model.index.weights) {
      const Range &old = *weight->range;
      weight->hash = k3rt::hashBytes(model.weightBytes.data() + old.offset(),
                                     old.length());
      *weight->range =
          Range(blobsBegin + blobs.size() + old.offset(), old.length());
    }
    blobs += model.weightBytes;
  }
  return assemble(model.index, blobs);
}

Folder::Folder() {
  char name[] = "/tmp/k3rt-test-XXXXXX";
  if (!mkdtemp(name))
    abort();
  root = name;
}

Folder::~Folder() {
  if (DIR *listing = opendir(root.c_str())) {
    while (dirent *entry = readdir(listing))
      unlink(path(entry->d_name).c_str());
    closedir(listing);
  }
  rmdir(root.c_str());
}

std::string Folder::write(const std::string &name,
                          const std::string &bytes) const {
  std::ofstream file(path(name), std::ios::binary);
  file.write(bytes.data(), std::streamsize(bytes.size()));
  return path(name);
}

std::string writeModel(const Folder &folder, const Options &options) {
  Model model = make(options);
  std::string bytes = serialize(model);
  if (model.index.weights[0]->file == 0)
    folder.write("model.k3w", model.weightBytes);
  return folder.write("model.k3a", bytes);
}

//===----------------------------------------------------------------------===//
// Oracle
//===----------------------------------------------------------------------===//

void Oracle::kda(int which, std::vector<int> &x) {
  auto &r = recurrent[which];
  for (int h = 0; h < hidden; ++h) {
    r.s[h] = (3 * r.s[h] + scaleValue(which, h) * x[h]) % modulus;
    int c = x[h] + 2 * r.newer[h] + 3 * r.older[h];
    r.older[h] = r.newer[h];
    r.newer[h] = x[h] % 251;
    x[h] = (r.s[h] + c) % modulus;
  }
}

void Oracle::mla(std::vector<int> &x) {
  cache.push_back(x);
  int position = int(cache.size()) - 1;
  for (int h = 0; h < hidden; ++h) {
    int sum = x[h] + expertValue(position % experts, h);
    for (int j = 0; j <= position; ++j)
      sum += (j % 5 + 1) * cache[size_t(j)][size_t(h)];
    x[size_t(h)] = sum % modulus;
  }
}

std::vector<float> Oracle::next(int32_t token) {
  std::vector<int> x;
  for (int h = 0; h < hidden; ++h)
    x.push_back(tableValue(token, h));
  kda(0, x);
  outputs[0] = x;
  mla(x);
  outputs[1] = x;
  kda(1, x);
  outputs[2] = x;
  std::vector<float> logits;
  for (uint32_t v = 0; v < vocab; ++v) {
    int sum = 0;
    for (int h = 0; h < hidden; ++h)
      sum += x[size_t(h)] * int((v * 7 + uint32_t(h)) % 13 + 1);
    logits.push_back(float(sum % modulus));
  }
  return logits;
}

std::vector<float> Oracle::state(uint32_t layer,
                                 const std::string &name) const {
  std::vector<float> values;
  if (name == "kv") {
    for (const auto &row : cache)
      values.insert(values.end(), row.begin(), row.end());
    return values;
  }
  const auto &r = recurrent[layer == 0 ? 0 : 1];
  if (name == "kda") {
    values.insert(values.end(), r.s, r.s + hidden);
    return values;
  }
  values.insert(values.end(), r.older, r.older + hidden);
  values.insert(values.end(), r.newer, r.newer + hidden);
  return values;
}

} // namespace toy
