//===- IndexBuilder.cpp - the artifact's index from programs -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Artifact/IndexBuilder.h"
#include "dialects/k3/IR/ModelAttrs.h"
#include "frontend/MemoryPlan.h"
#include "lib/Codegen/Common/GpuTarget.h"
#include "lib/Codegen/Common/TargetModel.h"
#include "lib/Transforms/Program/Dispatches.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::k3;
using ::k3::frontend::Expected;
using ::k3::frontend::MemoryPlan;
using ::k3::frontend::Status;
namespace schema = ::k3::artifact;
using flatbuffers::Offset;

template <typename T> using Offsets = std::vector<Offset<T>>;

namespace {

class IndexWriter {
public:
  IndexWriter(ArrayRef<ModuleOp> modules, const ArtifactModel &model, const WeightTable &table,
              const ArtifactLayout &layout)
      : modules(modules), model(model), table(table), layout(layout) {
    // Defaults are written too: the size must not depend on the numbers.
    fb.ForceDefaults(true);
  }

  Expected<flatbuffers::DetachedBuffer> run();

private:
  Status addCode(ModuleOp module);
  Expected<Offset<schema::Executable>> writeExecutable(ExecExecutableOp executable, const BlobPlace &place);
  Offset<schema::Launch> writeLaunch(ExecKernelOp kernel, LaunchAttr launch);
  void addFiles();
  void addWeights();
  void addLayers();
  Status addPrograms(ModuleOp module);
  Offset<schema::Program> writeProgram(ExecProgramOp program);
  Offset<schema::Buffer> writeBuffer(ExecBufferOp buffer);
  Offset<flatbuffers::Vector<Offset<schema::Group>>> writeGroups(ArrayRef<ExecGroupOp> groups);
  Offset<schema::Dispatch> writeDispatch(ExecDispatchOp dispatch);
  Offset<schema::Binding> writeBinding(BindingAttr binding);
  Offset<schema::Scalar> writeScalar(Attribute scalar);
  Offset<schema::Term> writeTerm(TermAttr term);
  Offset<schema::Blob> writeBlob(const BlobPlace &place) {
    return schema::CreateBlob(fb, place.offset, place.length, place.hash);
  }
  Offset<flatbuffers::String> text(StringRef string) { return fb.CreateString(string.data(), string.size()); }
  Offset<schema::ModelInfo> writeModel();

  ArrayRef<ModuleOp> modules;
  const ArtifactModel &model;
  const WeightTable &table;
  const ArtifactLayout &layout;
  flatbuffers::FlatBufferBuilder fb;

  Offsets<schema::Executable> executables;
  Offsets<schema::Kernel> kernels;
  Offsets<schema::WeightFile> files;
  Offsets<schema::Weight> weights;
  Offsets<schema::State> states;
  Offsets<schema::Layer> layers;
  Offsets<schema::Program> programs;

  // Of the module at hand.
  schema::ExecutableKind executableKind = schema::ExecutableKind::Elf;
  llvm::StringMap<uint32_t> kernelOrdinals;
  // Of the program and section at hand.
  llvm::StringMap<uint8_t> symbolOrdinals;
  llvm::StringMap<uint32_t> bufferOrdinals;
  const LayerKindSlots *kind = nullptr;
};

} // namespace

static schema::DType getDType(Type type) {
  if (type.isF32())
    return schema::DType::F32;
  if (type.isBF16())
    return schema::DType::BF16;
  return type.isInteger(32) ? schema::DType::I32 : schema::DType::I8;
}

/// Integer weights are bytes as the checkpoint stores them.
static schema::DType getWeightDType(Type type) { return type.isInteger(8) ? schema::DType::U8 : getDType(type); }

//===----------------------------------------------------------------------===//
// Code and weights
//===----------------------------------------------------------------------===//

Expected<Offset<schema::Executable>> IndexWriter::writeExecutable(ExecExecutableOp executable, const BlobPlace &place) {
  Offsets<flatbuffers::String> features;
  Offset<flatbuffers::String> arch, cpu;
  if (executableKind == schema::ExecutableKind::Cubin) {
    llvm::Expected<GpuTarget> target = GpuTarget::fromAttr(executable.getTarget());
    if (!target)
      return Status::error(llvm::toString(target.takeError()));
    arch = text(GpuTarget::arch);
    cpu = text(target->chip);
  } else {
    llvm::Expected<TargetModel> target = TargetModel::fromAttr(executable.getTarget());
    if (!target)
      return Status::error(llvm::toString(target.takeError()));
    for (const std::string &feature : target->requiredFeatures())
      features.push_back(text(feature));
    arch = text(TargetModel::artifactArch);
    cpu = text(target->cpu);
  }
  auto featureVector = fb.CreateVector(features);
  auto blob = writeBlob(place);
  return schema::CreateExecutable(fb, arch, cpu, featureVector, blob, executableKind);
}

Offset<schema::Launch> IndexWriter::writeLaunch(ExecKernelOp kernel, LaunchAttr launch) {
  auto entryText = text(kernel.getSymName());
  Offsets<schema::TensorMap> maps;
  for (TensorMapAttr map : launch.getTensorMaps()) {
    auto box = fb.CreateVector(std::vector<uint32_t>(map.getBox().begin(), map.getBox().end()));
    maps.push_back(schema::CreateTensorMap(fb, map.getBinding(), box, map.getSwizzle()));
  }
  auto mapVector = fb.CreateVector(maps);
  return schema::CreateLaunch(fb, entryText, launch.getThreads(), launch.getSharedBytes(), launch.getCluster(),
                              mapVector, launch.getRegisters(), launch.getStaticSharedBytes(), launch.getSpillBytes(),
                              launch.getStackBytes(), kernel->hasAttr(kStartsEarlyAttr),
                              kernel->hasAttr(kResidentAttr));
}

Status IndexWriter::addCode(ModuleOp module) {
  llvm::StringMap<uint32_t> ordinals;
  for (auto executable : module.getOps<ExecExecutableOp>()) {
    // All of a module are for one target.
    bool isCubin = executable.getTarget().getArch() == GpuTarget::arch;
    executableKind = isCubin ? schema::ExecutableKind::Cubin : schema::ExecutableKind::Elf;
    uint32_t ordinal = executables.size();
    ordinals[executable.getSymName()] = ordinal;
    auto written = writeExecutable(executable, layout.executables[ordinal]);
    if (!written)
      return written.status();
    executables.push_back(*written);
  }
  kernelOrdinals.clear();
  for (auto kernel : module.getOps<ExecKernelOp>()) {
    auto it = ordinals.find(kernel.getExecutable());
    if (it == ordinals.end())
      return Status::error("kernel " + kernel.getSymName().str() + " has no machine code yet");
    kernelOrdinals[kernel.getSymName()] = kernels.size();
    auto name = text(kernel.getSymName()), source = text(kernel.getSourceOp());
    Offset<schema::Launch> launch;
    if (std::optional<LaunchAttr> attr = kernel.getLaunch())
      launch = writeLaunch(kernel, *attr);
    Offset<schema::Product> product;
    if (auto attr = kernel->getAttrOfType<DenseI64ArrayAttr>(kProductAttr))
      product = schema::CreateProduct(fb, attr[0], attr[1], attr[2], attr[3], attr[4]);
    kernels.push_back(schema::CreateKernel(fb, name, it->second, kernel.getOrdinal(), kernel.getScratchBytes(), source,
                                           launch, product));
  }
  return Status::success();
}

void IndexWriter::addFiles() {
  for (const auto &[path, length] : layout.files) {
    auto pathText = text(path);
    files.push_back(schema::CreateWeightFile(fb, pathText, length));
  }
}

void IndexWriter::addWeights() {
  for (auto [index, weight] : llvm::enumerate(table.weights)) {
    auto name = text(weight.name);
    auto shape = fb.CreateVector(weight.type.getShape().data(), weight.type.getRank());
    schema::Range range;
    std::vector<schema::Range> apart;
    std::vector<int32_t> apartFiles;
    int32_t file = -1;
    uint64_t hash = 0;
    switch (layout.weights) {
    case WeightsMode::None:
      break;
    case WeightsMode::Embed:
      range = schema::Range(layout.weightOffsets[index], weight.bytes);
      hash = layout.weightHashes[index];
      break;
    case WeightsMode::Pack:
      range = schema::Range(layout.weightOffsets[index], weight.bytes);
      hash = layout.weightHashes[index];
      file = 0;
      break;
    case WeightsMode::Reference:
      file = weight.sources.front()->file;
      range = schema::Range(weight.sources.front()->offset, weight.sources.front()->bytes);
      if (!weight.experts)
        break;
      for (const auto *tensor : weight.sources) {
        apart.emplace_back(tensor->offset, tensor->bytes);
        apartFiles.push_back(tensor->file);
      }
      if (llvm::all_equal(apartFiles))
        apartFiles.clear();
      break;
    }
    auto apartVector = fb.CreateVectorOfStructs(apart);
    auto fileVector = fb.CreateVector(apartFiles);
    weights.push_back(schema::CreateWeight(fb, name, getWeightDType(weight.type.getElementType()), shape, file, &range,
                                           apartVector, fileVector, weight.experts, hash));
  }
}

static schema::StateKind getStateKind(StringRef name) {
  if (name.starts_with("conv"))
    return schema::StateKind::Conv;
  return name == "kv" ? schema::StateKind::KvCache : schema::StateKind::Kda;
}

void IndexWriter::addLayers() {
  for (auto [number, layer] : llvm::enumerate(table.layers)) {
    std::vector<uint32_t> stateOrdinals;
    for (StateSlotAttr slot : table.slots[layer.kind].states) {
      stateOrdinals.push_back(states.size());
      auto name = text(slot.getName());
      // The first dimension counts slots or pages.
      ArrayRef<int64_t> sizes = slot.getType().getShape().drop_front();
      auto shape = fb.CreateVector(sizes.data(), sizes.size());
      schema::StateKind kind = getStateKind(slot.getName());
      states.push_back(schema::CreateState(fb, name, number, kind, getDType(slot.getType().getElementType()), shape,
                                           kind == schema::StateKind::KvCache ? sizes.front() : 0));
    }
    auto weightVector = fb.CreateVector(std::vector<uint32_t>(layer.weights.begin(), layer.weights.end()));
    auto stateVector = fb.CreateVector(stateOrdinals);
    auto scalarVector = fb.CreateVector(layer.scalars, 3);
    layers.push_back(schema::CreateLayer(fb, layer.kind, weightVector, stateVector, scalarVector));
  }
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

Offset<schema::Term> IndexWriter::writeTerm(TermAttr term) {
  std::vector<uint8_t> symbols;
  for (StringAttr symbol : term.getSymbols())
    symbols.push_back(symbolOrdinals.at(symbol));
  auto symbolVector = fb.CreateVector(symbols);
  return schema::CreateTerm(fb, symbolVector, term.getMul(), term.getAdd(), term.getDiv());
}

Offset<schema::Buffer> IndexWriter::writeBuffer(ExecBufferOp buffer) {
  auto name = text(buffer.getName());
  Offsets<schema::Term> shape;
  for (auto term : buffer.getShape().getAsRange<TermAttr>())
    shape.push_back(writeTerm(term));
  auto shapeVector = fb.CreateVector(shape);
  schema::BufferRole role = buffer.getRole() == BufferRole::input    ? schema::BufferRole::Input
                            : buffer.getRole() == BufferRole::output ? schema::BufferRole::Output
                                                                     : schema::BufferRole::Transient;
  return schema::CreateBuffer(fb, name, role, getDType(buffer.getElementType()), shapeVector,
                              buffer.getArenaOffset().value_or(0), buffer.getArenaBytes().value_or(0));
}

Offset<schema::Binding> IndexWriter::writeBinding(BindingAttr binding) {
  StringRef name = binding.getName();
  switch (binding.getKind()) {
  case BindingKind::buffer:
    return schema::CreateBinding(fb, schema::BindingKind::Buffer, bufferOrdinals.at(name), binding.getWrites());
  case BindingKind::weight:
    return schema::CreateBinding(fb, schema::BindingKind::Weight, table.modelWeights.find(name)->second,
                                 binding.getWrites());
  case BindingKind::layer_weight:
    return schema::CreateBinding(fb, schema::BindingKind::LayerWeight, kind->getWeight(name), binding.getWrites());
  case BindingKind::layer_state:
    return schema::CreateBinding(fb, schema::BindingKind::LayerState, kind->getState(name), binding.getWrites());
  }
  llvm_unreachable("unknown binding kind");
}

Offset<schema::Scalar> IndexWriter::writeScalar(Attribute scalar) {
  if (auto term = dyn_cast<TermAttr>(scalar)) {
    auto written = writeTerm(term);
    return schema::CreateScalar(fb, schema::ScalarKind::Term, written, 0);
  }
  StringRef name = cast<LayerScalarAttr>(scalar).getName();
  uint32_t index = name == "sources" ? 0 : name == "slot" ? 1 : 2;
  return schema::CreateScalar(fb, schema::ScalarKind::LayerScalar, 0, index);
}

Offset<schema::Dispatch> IndexWriter::writeDispatch(ExecDispatchOp dispatch) {
  Offset<schema::Term> grid[3] = {};
  for (auto [axis, term] : llvm::enumerate(dispatch.getGrid().getAsRange<TermAttr>()))
    grid[axis] = writeTerm(term);
  Offsets<schema::Binding> bindings;
  for (auto binding : dispatch.getBindings().getAsRange<BindingAttr>())
    bindings.push_back(writeBinding(binding));
  Offsets<schema::Scalar> scalars;
  for (Attribute scalar : dispatch.getScalars())
    scalars.push_back(writeScalar(scalar));
  auto bindingVector = fb.CreateVector(bindings);
  auto scalarVector = fb.CreateVector(scalars);
  auto label = text(dispatch.getLabel());
  return schema::CreateDispatch(fb, kernelOrdinals.at(dispatch.getKernel()), grid[0], grid[1], grid[2], bindingVector,
                                scalarVector, label);
}

Offset<flatbuffers::Vector<Offset<schema::Group>>> IndexWriter::writeGroups(ArrayRef<ExecGroupOp> groups) {
  Offsets<schema::Group> written;
  for (ExecGroupOp group : groups) {
    Offsets<schema::Dispatch> dispatches;
    for (ExecDispatchOp dispatch : group.getDispatches())
      dispatches.push_back(writeDispatch(dispatch));
    auto vector = fb.CreateVector(dispatches);
    written.push_back(schema::CreateGroup(fb, vector));
  }
  return fb.CreateVector(written);
}

Offset<schema::Program> IndexWriter::writeProgram(ExecProgramOp program) {
  symbolOrdinals.clear();
  bufferOrdinals.clear();
  Offsets<flatbuffers::String> symbols;
  for (StringRef symbol : program.getSymbols().getAsValueRange<StringAttr>()) {
    symbolOrdinals[symbol] = symbols.size();
    symbols.push_back(text(symbol));
  }
  Offsets<schema::Buffer> buffers;
  for (ExecBufferOp buffer : program.getBuffers()) {
    bufferOrdinals[buffer.getName()] = buffers.size();
    buffers.push_back(writeBuffer(buffer));
  }
  kind = nullptr;
  auto prologue = writeGroups(program.getPrologue().getGroups());
  Offsets<schema::LayerKind> kinds;
  for (auto [index, layer] : llvm::enumerate(program.getLayerKinds())) {
    kind = &table.slots[index];
    auto name = text(layer.getName());
    auto groups = writeGroups(layer.getGroups());
    kinds.push_back(schema::CreateLayerKind(fb, name, groups));
  }
  kind = nullptr;
  auto epilogue = writeGroups(program.getEpilogue().getGroups());
  auto symbolVector = fb.CreateVector(symbols);
  auto bufferVector = fb.CreateVector(buffers);
  auto kindVector = fb.CreateVector(kinds);
  auto maximum = [&](StringRef symbol) { return static_cast<uint32_t>(program.getMaximum(symbol).value_or(0)); };
  return schema::CreateProgram(
      fb, program.getPhase() == Phase::prefill ? schema::Phase::Prefill : schema::Phase::Decode, symbolVector,
      maximum("T"), maximum("N"), maximum("R"), program.getChunkRows(), program.getArenaBytes().value_or(0),
      bufferVector, prologue, kindVector, epilogue, executableKind,
      program.getExact());
}

Status IndexWriter::addPrograms(ModuleOp module) {
  for (auto program : module.getOps<ExecProgramOp>()) {
    for (Operation &op : program.getBody().front())
      if (auto buffer = dyn_cast<ExecBufferOp>(op);
          buffer && !buffer.getArenaOffset() &&
          (buffer.getRole() == BufferRole::persistent || buffer.getRole() == BufferRole::transient))
        return Status::error("program " + program.getSymName().str() + ": buffer " + buffer.getName().str() +
                             " has no place in the arena yet");
    programs.push_back(writeProgram(program));
  }
  return Status::success();
}

Offset<schema::ModelInfo> IndexWriter::writeModel() {
  const ::k3::frontend::ModelConfig &config = model.config;
  std::string name = model.name;
  int64_t residualSlots = 1;
  ModuleOp module = modules.front();
  if (auto attr = module->getAttrOfType<DictionaryAttr>(kModelAttr))
    if (auto slots = attr.getAs<IntegerAttr>("residual_slots"))
      residualSlots = slots.getInt();
  std::optional<MemoryPlan> memory = planMemory(config);
  auto nameText = text(name), type = text(config.model_type), configText = text(model.configText);
  auto eos = fb.CreateVector(std::vector<int32_t>(model.eosTokenIds.begin(), model.eosTokenIds.end()));
  return schema::CreateModelInfo(fb, nameText, type, configText, config.vocab_size, config.hidden_size,
                                 config.bos_token_id.value_or(-1), eos, config.pad_token_id.value_or(-1),
                                 config.max_position_embeddings, residualSlots,
                                 model.checkpoint ? model.checkpoint->weightBytes()
                                 : memory         ? memory->weight_bytes
                                                  : 0,
                                 memory ? memory->expert_bytes : 0);
}

Expected<flatbuffers::DetachedBuffer> IndexWriter::run() {
  auto info = writeModel();
  addFiles();
  addWeights();
  addLayers();
  for (ModuleOp module : modules) {
    if (Status status = addCode(module); !status.ok())
      return status;
    if (Status status = addPrograms(module); !status.ok())
      return status;
  }
  auto version = text(model.compilerVersion);
  auto executableVector = fb.CreateVector(executables);
  auto kernelVector = fb.CreateVector(kernels);
  auto fileVector = fb.CreateVector(files);
  auto weightVector = fb.CreateVector(weights);
  auto stateVector = fb.CreateVector(states);
  auto layerVector = fb.CreateVector(layers);
  auto programVector = fb.CreateVector(programs);
  Offset<schema::Blob> tokenizer;
  if (layout.tokenizer.length)
    tokenizer = writeBlob(layout.tokenizer);
  schema::FinishArtifactBuffer(fb, schema::CreateArtifact(fb, version, info, executableVector, kernelVector, fileVector,
                                                          weightVector, stateVector, layerVector, programVector,
                                                          tokenizer, layout.weights != WeightsMode::None));
  return fb.Release();
}

Expected<flatbuffers::DetachedBuffer> mlir::k3::buildIndex(ArrayRef<ModuleOp> modules, const ArtifactModel &model,
                                                           const WeightTable &table, const ArtifactLayout &layout) {
  return IndexWriter(modules, model, table, layout).run();
}
