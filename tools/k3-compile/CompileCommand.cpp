//===- CompileCommand.cpp - run the stages and write the result -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "dialects/k3/IR/ModelAttrs.h"
#include "frontend/File.h"
#include "frontend/MemoryPlan.h"
#include "frontend/Text.h"
#include "frontend/TokenizerFiles.h"
#include "frontend/import/ImportModel.h"
#include "lib/Codegen/Artifact/OutputFile.h"
#include "lib/Codegen/Artifact/TokenizerData.h"
#include "lib/Codegen/CPU/CPUPipeline.h"
#include "lib/Codegen/GPU/GPUPipeline.h"
#include "lib/Pipelines/Stages.h"
#include "lib/Support/Registration.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/Timing.h"
#include "tools/k3-compile/Commands.h"
#include "tools/k3-compile/EmitLLVM.h"
#include "tools/k3-compile/Summary.h"
#include "tools/k3-compile/Targets.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>

using namespace k3compile;
using namespace ::k3::frontend;
using mlir::k3::ArtifactModel;
using mlir::k3::ArtifactOptions;
using mlir::k3::ArtifactSummary;
using mlir::k3::Stage;
using mlir::k3::StageOptions;
using mlir::k3::TargetModel;
using mlir::k3::WeightsMode;

namespace {

/// What is known of the model: from its directory, from a config alone, or nothing for IR alone.
struct Model {
  std::string name;
  std::string configText;
  std::optional<Checkpoint> checkpoint;
  std::optional<ModelConfig> ownConfig; ///< without a checkpoint
  std::optional<TokenizerFiles> tokenizer;

  const ModelConfig *config() const { return checkpoint ? &checkpoint->config() : ownConfig ? &*ownConfig : nullptr; }
  uint64_t weightBytes() const {
    if (checkpoint)
      return checkpoint->weightBytes();
    std::optional<MemoryPlan> plan = config() ? planMemory(*config()) : std::nullopt;
    return plan ? plan->weight_bytes : 0;
  }
};

/// Runs one compilation.
class Compiler {
public:
  Compiler(const Options &options, std::string programPath)
      : options(options), programPath(std::move(programPath)), handler(&context, [this](mlir::Diagnostic &diagnostic) {
          collect(diagnostic);
          return mlir::success();
        }) {}

  Status run();

private:
  Status loadModel();
  Status loadIr();
  Status import();
  Status setTarget();
  Status runStage(Stage stage);
  Status runStageOn(Stage stage, mlir::ModuleOp module);
  Status dump(Stage stage, mlir::ModuleOp module);
  Status emit();
  Status emitArtifact();
  Status emitObject();
  Status emitPtx();
  Status emitExecutable(bool forGpu);
  Status writeBytes(llvm::StringRef bytes);
  std::string getOutput() const;
  Status checkOutput() const;
  Expected<std::string> findRuntime() const;

  /// Diagnostics of passes: the first error is the message, remarks and warnings go to standard error.
  void collect(mlir::Diagnostic &diagnostic);
  Status getError(const std::string &otherwise) { return Status::error(firstError.empty() ? otherwise : firstError); }

  const Options &options;
  std::string programPath;
  mlir::MLIRContext context;
  mlir::ScopedDiagnosticHandler handler;
  std::string firstError;
  StageOptions stageOptions;
  Model model;
  TargetModules ir;
  Summary summary;
};

} // namespace

//===----------------------------------------------------------------------===//
// Input
//===----------------------------------------------------------------------===//

void Compiler::collect(mlir::Diagnostic &diagnostic) {
  std::string text;
  llvm::raw_string_ostream os(text);
  // A place in a file the user gave; places inside the compiler's own IR mean nothing to him.
  if (auto loc = diagnostic.getLocation()->findInstanceOf<mlir::FileLineColLoc>())
    os << loc.getFilename().getValue() << ":" << loc.getLine() << ":" << loc.getColumn() << ": ";
  os << diagnostic;
  if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error) {
    if (firstError.empty())
      firstError = printable(text, 1000);
  } else if (diagnostic.getSeverity() != mlir::DiagnosticSeverity::Note) {
    llvm::errs() << "k3-compile: " << printable(text, 1000) << "\n";
  }
}

/// The last part of a path: "k3-nano" for "models/k3-nano/".
static std::string getBaseName(llvm::StringRef path) {
  llvm::SmallString<256> absolute(path);
  if (llvm::sys::fs::make_absolute(absolute))
    return path.str();
  llvm::sys::path::remove_dots(absolute, /*remove_dot_dot=*/true);
  llvm::StringRef name = absolute;
  while (name.consume_back("/")) {
  }
  return llvm::sys::path::filename(name).str();
}

Status Compiler::loadModel() {
  constexpr uint64_t mostConfigBytes = uint64_t(16) << 20;
  if (options.model.empty() && options.config.empty())
    return Status::success(); // IR alone.
  std::string configPath = options.config.empty() ? joinPath(options.model, "config.json") : options.config;
  std::string folder = options.config.empty() ? options.model : llvm::sys::path::parent_path(configPath).str();
  model.name = getBaseName(folder.empty() ? "." : folder);
  if (options.weights == WeightsMode::None) {
    Expected<ModelConfig> config = readModelConfig(configPath);
    if (!config)
      return config.status();
    model.ownConfig = std::move(*config);
  } else {
    Expected<Checkpoint> checkpoint = Checkpoint::open(options.model);
    if (!checkpoint)
      return checkpoint.status();
    model.checkpoint = std::move(*checkpoint);
    for (const std::string &note : model.checkpoint->notes())
      llvm::errs() << "k3-compile: note: " << note << "\n";
  }
  Expected<std::string> text = readFile(configPath, mostConfigBytes);
  if (!text)
    return text.status();
  model.configText = std::move(*text);
  // Without weights the tokenizer may be missing; what is there must be right all the same.
  bool needsTokenizer = options.weights != WeightsMode::None;
  if (needsTokenizer || (!options.model.empty() && pathExists(joinPath(options.model, "tiktoken.model")))) {
    Expected<TokenizerFiles> tokenizer = readTokenizerFiles(options.model, *model.config());
    if (!tokenizer)
      return tokenizer.status();
    model.tokenizer = std::move(*tokenizer);
  }
  return Status::success();
}

Status Compiler::import() {
  const ModelConfig &config = *model.config();
  Dtype cache = options.cacheDtype == CacheDtype::F32         ? Dtype::F32
                : options.cacheDtype == CacheDtype::BF16      ? Dtype::BF16
                : model.weightBytes() < mlir::k3::kEmbedLimit ? Dtype::F32
                                                              : config.dtype;
  mlir::k3::ImportOptions importing;
  importing.modelName = model.name;
  importing.convState = importing.kvCache = cache;
  if (model.checkpoint)
    importing.storedForm = [this](uint32_t index) { return model.checkpoint->form(index); };
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::k3::importModel(context, config, importing);
  return module ? ir.set(std::move(module)) : getError("the model cannot be expressed");
}

Status Compiler::loadIr() {
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(options.ir, mlir::ParserConfig(&context));
  if (!module)
    return getError(printable(options.ir) + ": cannot be read");
  Status status = ir.set(std::move(module));
  return status.ok() ? status : Status::error(printable(options.ir) + ": " + status.message());
}

Status Compiler::setTarget() {
  if (!ir.hasTargets() || options.targetGiven)
    if (Status status = ir.setTargets(options.target); !status.ok())
      return status;
  if (options.twoTerms)
    ir.setXTerms(2);
  summary.targets = ir.names();
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

static void fillStageOptions(const Options &options, StageOptions &stages) {
  stages.chunkRows = options.chunkRows;
  stages.forceGeneric = options.forceGeneric;
  stages.bf16Products = options.bf16Products;
  stages.bf16Decode = options.bf16Decode;
  stages.exactDecode = options.deterministic;
  stages.maxTokens = options.maxTokens;
  stages.maxSequences = options.maxSequences;
}

static std::string printModule(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  // Values carry the importer's names, so that a stage can be followed into the next.
  module->print(os, mlir::OpPrintingFlags().printNameLocAsPrefix());
  os << "\n";
  return text;
}

Status Compiler::dump(Stage stage, mlir::ModuleOp module) {
  if (options.dumpDir.empty())
    return Status::success();
  if (std::error_code error = llvm::sys::fs::create_directories(options.dumpDir))
    return Status::error(printable(options.dumpDir) + ": cannot create: " + error.message());
  std::string number = std::to_string(static_cast<int>(stage) + 1);
  std::string name = (number.size() < 2 ? "0" : "") + number + "-" + mlir::k3::getStageName(stage).str();
  if (ir.modules().size() > 1)
    name += ir.isForGpu(module) ? "-gpu" : "-cpu";
  mlir::k3::OutputFile file;
  std::string text = printModule(module);
  if (Status status = file.open(joinPath(options.dumpDir, name + ".mlir")); !status.ok())
    return status;
  if (Status status = file.writeAt(0, text.data(), text.size()); !status.ok())
    return status;
  return file.commit(text.size());
}

Status Compiler::runStageOn(Stage stage, mlir::ModuleOp module) {
  mlir::PassManager manager(&context);
  if (mlir::failed(mlir::applyPassManagerCLOptions(manager)))
    return getError("the options of the pass manager contradict each other");
  mlir::applyDefaultTimingPassManagerCLOptions(manager);
  stageOptions.gpu = ir.isForGpu(module);
  mlir::k3::getStageBuilder(stage)(manager, stageOptions);
  if (mlir::failed(manager.run(module)))
    return Status::error("stage " + mlir::k3::getStageName(stage).str() + ": " + getError("failed").message());
  return dump(stage, module);
}

Status Compiler::runStage(Stage stage) {
  ir.prepare(stage);
  for (mlir::ModuleOp module : ir.modules())
    if (Status status = runStageOn(stage, module); !status.ok())
      return status;
  return Status::success();
}

Status k3compile::printPipelines(const Options &options) {
  mlir::MLIRContext context;
  mlir::DialectRegistry registry;
  mlir::k3::registerAllK3Dialects(registry);
  context.appendDialectRegistry(registry);
  Expected<std::vector<mlir::k3::TargetAttr>> targets = parseTargets(context, options.target);
  if (!targets)
    return targets.status();
  StageOptions stages;
  fillStageOptions(options, stages);
  for (Stage stage : mlir::k3::getAllStages()) {
    llvm::outs() << mlir::k3::getStageName(stage) << ": " << mlir::k3::getStageHelp(stage) << "\n";
    auto build = mlir::k3::getStageBuilder(stage);
    if (!build)
      continue;
    size_t count = stage < firstTargetStage ? 1 : targets->size();
    for (mlir::k3::TargetAttr target : llvm::ArrayRef(*targets).take_front(count)) {
      mlir::PassManager manager(&context, mlir::ModuleOp::getOperationName());
      stages.gpu = target.getArch() == mlir::k3::GpuTarget::arch;
      build(manager, stages);
      llvm::outs() << "  ";
      if (count > 1)
        llvm::outs() << target.getCpu() << ": ";
      manager.printAsTextualPipeline(llvm::outs());
      llvm::outs() << "\n";
    }
  }
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

std::string Compiler::getOutput() const {
  if (!options.output.empty())
    return options.output;
  std::string name = model.name.empty() ? "kernels" : model.name;
  switch (options.emit) {
  case Emit::Artifact:
    return name + ".k3a";
  case Emit::Exe:
    return name;
  case Emit::Mlir:
  case Emit::Llvm:
    return "-";
  case Emit::Obj:
    return name + ".o";
  case Emit::Elf:
    return name + ".so";
  case Emit::Ptx:
    return "-";
  case Emit::Cubin:
    return name + ".cubin";
  }
  return name;
}

/// The result must not replace what it is made from.
Status Compiler::checkOutput() const {
  std::vector<std::string> inputs = {options.ir, options.config};
  if (!options.model.empty())
    for (const char *name : {"config.json", "model.safetensors.index.json", "tiktoken.model", "tokenizer_config.json"})
      inputs.push_back(joinPath(options.model, name));
  if (model.checkpoint)
    for (const CheckpointFile &file : model.checkpoint->files())
      inputs.push_back(file.path);
  for (const std::string &input : inputs)
    if (!input.empty() && llvm::sys::fs::equivalent(summary.output, input))
      return Status::error("-o: " + printable(summary.output) + " is an input");
  return Status::success();
}

Status Compiler::writeBytes(llvm::StringRef bytes) {
  if (summary.output == "-") {
    llvm::outs() << bytes;
    llvm::outs().flush();
    if (llvm::outs().has_error()) {
      std::string reason = llvm::outs().error().message();
      llvm::outs().clear_error();
      return Status::error("cannot write to standard output: " + reason);
    }
    return Status::success();
  }
  mlir::k3::OutputFile file;
  if (Status status = file.open(summary.output); !status.ok())
    return status;
  if (Status status = file.writeAt(0, bytes.data(), bytes.size()); !status.ok())
    return status;
  return file.commit(bytes.size());
}

Expected<std::string> Compiler::findRuntime() const {
  llvm::SmallString<256> path(llvm::sys::path::parent_path(programPath));
  llvm::sys::path::append(path, "k3-run");
  if (!llvm::sys::fs::exists(path))
    return Status::error("--emit=exe: cannot find the runtime, " + path.str().str());
  return path.str().str();
}

Status Compiler::emitArtifact() {
  const ModelConfig *config = model.config();
  if (!config)
    return Status::error("--start-from: an artifact also needs the model: give MODEL_DIR and --ir=FILE");
  TensorPlan plan(*config);
  ArtifactModel contents(*config, plan);
  contents.name = model.name;
  contents.configText = model.configText;
  contents.checkpoint = model.checkpoint ? &*model.checkpoint : nullptr;
  contents.compilerVersion = K3_VERSION;
  contents.eosTokenIds = config->eos_token_id;
  if (model.tokenizer) {
    for (int64_t id : model.tokenizer->generation.eos_token_id)
      if (!llvm::is_contained(contents.eosTokenIds, id))
        contents.eosTokenIds.push_back(id);
    Expected<std::vector<uint8_t>> blob = mlir::k3::serializeTokenizerFiles(*model.tokenizer, *config);
    if (!blob)
      return blob.status();
    contents.tokenizer = std::move(*blob);
  }
  ArtifactOptions writing;
  writing.path = summary.output;
  writing.weights = options.weights;
  if (options.emit == Emit::Exe) {
    Expected<std::string> runtime = findRuntime();
    if (!runtime)
      return runtime.status();
    writing.runtimeProgram = *runtime;
  }
  Expected<ArtifactSummary> written = mlir::k3::writeArtifact(ir.modules(), contents, writing);
  if (!written)
    return written.status();
  summary.artifact = *written;
  return Status::success();
}

Status Compiler::emit() {
  switch (options.emit) {
  case Emit::Artifact:
  case Emit::Exe:
    return emitArtifact();
  case Emit::Mlir:
    return writeBytes(printModule(ir.bundle()));
  case Emit::Llvm: {
    std::string all;
    for (mlir::ModuleOp module : ir.modules()) {
      Expected<std::string> text = printLLVM(module);
      if (!text)
        return getError(text.message());
      all += *text;
    }
    return writeBytes(all);
  }
  case Emit::Obj:
    return emitObject();
  case Emit::Elf:
    return emitExecutable(/*forGpu=*/false);
  case Emit::Ptx:
    return emitPtx();
  case Emit::Cubin:
    return emitExecutable(/*forGpu=*/true);
  }
  return Status::success();
}

/// Names of the kernels in a module of code, by ordinal.
static std::vector<llvm::StringRef> getKernelNames(mlir::ModuleOp module, mlir::ModuleOp code) {
  std::vector<llvm::StringRef> names;
  for (auto kernel : module.getOps<mlir::k3::ExecKernelOp>())
    if (kernel.getExecutable() == code.getName())
      names.push_back(kernel.getSymName());
  return names;
}

Status Compiler::emitObject() {
  for (mlir::ModuleOp module : ir.modules()) {
    if (ir.isForGpu(module))
      continue;
    for (auto kernels : module.getOps<mlir::ModuleOp>()) {
      mlir::FailureOr<TargetModel> target = mlir::k3::getTargetModel(kernels);
      if (mlir::failed(target))
        return getError("the module has no target");
      mlir::FailureOr<llvm::SmallVector<char>> object =
          mlir::k3::emitObject(kernels, *target, getKernelNames(module, kernels));
      if (mlir::failed(object))
        return getError("the kernels cannot be compiled");
      return writeBytes(llvm::StringRef(object->data(), object->size()));
    }
  }
  return Status::error("--emit=obj: there are no kernels for a CPU");
}

Status Compiler::emitPtx() {
  for (mlir::ModuleOp module : ir.modules()) {
    if (!ir.isForGpu(module))
      continue;
    for (auto kernels : module.getOps<mlir::ModuleOp>()) {
      mlir::FailureOr<mlir::k3::GpuTarget> target = mlir::k3::getGpuTarget(kernels);
      if (mlir::failed(target))
        return getError("the module has no target");
      mlir::FailureOr<std::string> text = mlir::k3::emitPtx(kernels, *target, getKernelNames(module, kernels));
      return mlir::succeeded(text) ? writeBytes(*text) : getError("the kernels cannot be compiled");
    }
  }
  return Status::error("--emit=ptx: there are no kernels for a GPU; --target=nvidia-sm90a makes them");
}

Status Compiler::emitExecutable(bool forGpu) {
  for (mlir::ModuleOp module : ir.modules()) {
    if (ir.isForGpu(module) != forGpu)
      continue;
    for (auto executable : module.getOps<mlir::k3::ExecExecutableOp>())
      if (auto elf = llvm::dyn_cast<mlir::DenseResourceElementsAttr>(executable.getElf()))
        if (mlir::AsmResourceBlob *blob = elf.getRawHandle().getBlob())
          return writeBytes(llvm::StringRef(blob->getData().data(), blob->getData().size()));
  }
  return Status::error(std::string("--emit=") + getName(options.emit) + ": there are no kernels for a " +
                       (forGpu ? "GPU; --target=nvidia-sm90a makes them" : "CPU"));
}

Status Compiler::run() {
  mlir::DialectRegistry registry;
  mlir::k3::registerAllK3Dialects(registry);
  context.appendDialectRegistry(registry);
  context.printOpOnDiagnostic(false);
  fillStageOptions(options, stageOptions);
  // A wrong name is not worth waiting for.
  if (options.ir.empty() || options.targetGiven)
    if (auto targets = parseTargets(context, options.target); !targets)
      return targets.status();
  summary.output = getOutput();

  auto timed = [&](Stage stage, auto action) {
    auto start = std::chrono::steady_clock::now();
    Status status = action();
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    // Writing the result counts for the last stage.
    if (!summary.seconds.empty() && summary.seconds.back().first == stage)
      summary.seconds.back().second += seconds;
    else
      summary.seconds.emplace_back(stage, seconds);
    return status;
  };
  for (Stage stage : mlir::k3::getAllStages()) {
    if (stage < options.startFrom || stage > options.stopAfter)
      continue;
    Status status = timed(stage, [&] {
      if (stage == options.startFrom) {
        if (Status loaded = loadModel(); !loaded.ok())
          return loaded;
        summary.output = getOutput();
        if (Status output = checkOutput(); !output.ok())
          return output;
        if (Status imported = stage == Stage::Import ? import() : loadIr(); !imported.ok())
          return imported;
        if (Status target = setTarget(); !target.ok())
          return target;
      }
      return stage == Stage::Artifact ? Status::success() : runStage(stage);
    });
    if (!status.ok())
      return status;
  }
  if (Status status = timed(options.stopAfter, [&] { return emit(); }); !status.ok())
    return status;
  printSummary(options, summary);
  return Status::success();
}

Status k3compile::runCompile(const Options &options, const std::string &programPath) {
  return Compiler(options, programPath).run();
}
