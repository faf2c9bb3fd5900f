//===- Options.cpp - command line of k3-compile -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Not by llvm::cl: the LLVM library has global options of its own, some with the names we want (--stop-after). Only
// options that start with --mlir- go there.
//
//===----------------------------------------------------------------------===//
#include "tools/k3-compile/Options.h"
#include "frontend/Text.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <functional>
#include <vector>

using namespace k3compile;
using ::k3::frontend::Expected;
using ::k3::frontend::quote;
using ::k3::frontend::Status;
using llvm::StringRef;
using mlir::k3::Stage;
using mlir::k3::WeightsMode;

static constexpr const char *emitNames[] = {"artifact", "exe", "mlir", "llvm", "obj", "elf", "ptx", "cubin"};
static constexpr const char *weightsNames[] = {"none", "embed", "pack", "reference"};

const char *k3compile::getName(Emit emit) { return emitNames[static_cast<int>(emit)]; }
const char *k3compile::getName(WeightsMode mode) { return weightsNames[static_cast<int>(mode)]; }

static constexpr const char usage[] = R"(k3-compile: from a Kimi K3 or Kimi-Linear model directory to one file that runs

  k3-compile MODEL_DIR -o model.k3a          then: k3-run model.k3a --prompt "Once upon a time"
  k3-compile MODEL_DIR -o model --emit=exe   then: ./model "Once upon a time"
  k3-compile --check MODEL_DIR               is the directory complete and consistent?
  k3-compile --plan MODEL_DIR                how much memory will the model need?
  k3-compile --no-weights --config config.json -o model.k3a

MODEL_DIR holds config.json, the .safetensors files (with model.safetensors.index.json if there are
several), tiktoken.model and tokenizer_config.json, as published.

  -o FILE                output (default: the model's name in the current folder; - = standard output)
  --target=LIST          a CPU: host (default), x86-64-v3, x86-64-v4 or any LLVM CPU name; a GPU:
                         nvidia-sm90a (needs ptxas); or both in one artifact: host,nvidia-sm90a
  --emit=KIND            artifact (default): a .k3a file for k3-run; exe: the runtime and the artifact as
                         one program; mlir, llvm, obj, elf, ptx, cubin: see below
  --weights=HOW          embed: inside the artifact (default below 4 GiB); pack: in one file beside it,
                         NAME.k3w; reference: read from MODEL_DIR when it runs (default from 4 GiB)
  --no-weights           only the code: can be inspected and planned, not run. Needs only config.json
  --config=FILE          a config.json without a model directory (implies --no-weights)
  --cache-dtype=TYPE     elements of latent cache and convolution window: f32, bf16 or auto (default:
                         f32 below 4 GiB of weights, else the model's)
  --products=TYPE        f32 (default), or bf16: inputs of bf16 products are rounded to bf16 in prefill, which
                         doubles its speed on CPUs with AVX512-BF16; routers and decoding stay f32.
                         bf16-all: in decoding as well, for many sequences at a time.
                         bf16x2: on a GPU inputs are sums of two bf16 (16 bits, two thirds of the work of
                         f32); on a CPU as f32
  --deterministic        decode code for k3-run --deterministic: the same bits whatever shares a step
                         and however prompts are cut; without that option somewhat slower decoding
  --max-tokens=N         rows of one prefill step (default 512)
  --max-sequences=N      sequences of one step (default 16)
  --check                check MODEL_DIR and stop
  --plan                 print the memory the model needs and stop
  --json                 print the result as JSON (docs/json.md)
  --help, --version

Looking inside:
  --stop-after=STAGE     write the IR after this stage, to standard output unless -o is given
  --start-from=STAGE     begin with this stage on the IR of the stage before: k3-compile IR_FILE
                         --start-from=..., or --ir=IR_FILE beside MODEL_DIR if an artifact is wanted
  --emit=mlir            the same as --stop-after=plan
  --emit=llvm            the kernels as LLVM IR text, before LLVM optimizes them
  --emit=obj             the kernels as one relocatable object
  --emit=elf             the kernels as the shared object that the artifact holds
  --emit=ptx             the kernels for a GPU as PTX, --emit=cubin as the cubin that the artifact holds
  --dump-dir=FOLDER      write the IR after every stage into FOLDER
  --print-pipeline       print the passes of every stage and stop
  --time                 print how long each stage took
  --chunk-rows=N         rows of a KDA chunk: 16, 32 or 64 (default: 16, on a GPU with bf16 products 64)
  --force-generic        use no kernel emitter: decompose every op
  --mlir-...             options of MLIR, such as --mlir-print-ir-after-all or --mlir-timing

Stages:
)";

static std::string listStages() {
  return llvm::join(llvm::map_range(mlir::k3::getAllStages(), mlir::k3::getStageName), ", ");
}

static void printHelp() {
  llvm::outs() << usage;
  for (Stage stage : mlir::k3::getAllStages())
    llvm::outs() << "  " << llvm::left_justify(mlir::k3::getStageName(stage), 23) << mlir::k3::getStageHelp(stage)
                 << "\n";
}

namespace {

/// Sets something from the text of an option; returns what was wanted if that is not it.
using Setter = std::function<std::string(StringRef)>;

/// The command line as it was given.
struct CommandLine {
  Options options;
  std::string ir, stopAfter, startFrom;
  bool noWeights = false, emitGiven = false, help = false, version = false;
  std::vector<std::string> positional, forMlir;

  Status parse(llvm::ArrayRef<const char *> arguments);

private:
  struct Flag {
    StringRef name;
    bool *target;
  };
  struct Value {
    StringRef name;
    Setter set;
  };
  std::vector<Flag> flags();
  std::vector<Value> values();
};

} // namespace

static Setter setText(std::string &target) {
  return [&target](StringRef text) {
    target = text.str();
    return text.empty() ? std::string("a text that is not empty") : std::string();
  };
}

static Setter setNumber(int64_t &target, int64_t most) {
  return [&target, most](StringRef text) {
    int64_t value;
    if (text.getAsInteger(10, value) || value < 1 || value > most)
      return "a number from 1 to " + std::to_string(most);
    target = value;
    return std::string();
  };
}

/// One of `names`; `set` gets its position.
static Setter setChoice(llvm::ArrayRef<const char *> names, std::function<void(size_t)> set) {
  return [names, set = std::move(set)](StringRef text) {
    for (size_t i = 0; i < names.size(); ++i)
      if (text == names[i])
        return set(i), std::string();
    return "one of " + llvm::join(names, ", ");
  };
}

std::vector<CommandLine::Flag> CommandLine::flags() {
  return {{"--check", &options.check},
          {"--plan", &options.plan},
          {"--json", &options.json},
          {"--no-weights", &noWeights},
          {"--deterministic", &options.deterministic},
          {"--print-pipeline", &options.printPipeline},
          {"--time", &options.time},
          {"--force-generic", &options.forceGeneric},
          {"--help", &help},
          {"-h", &help},
          {"--version", &version}};
}

std::vector<CommandLine::Value> CommandLine::values() {
  static constexpr const char *cacheNames[] = {"auto", "f32", "bf16"};
  static constexpr const char *productNames[] = {"f32", "bf16", "bf16-all", "bf16x2"};
  constexpr int64_t mostRows = 1 << 16;
  return {
      {"-o", setText(options.output)},
      {"--output", setText(options.output)},
      {"--target",
       [this](StringRef text) {
         options.targetGiven = true;
         return setText(options.target)(text);
       }},
      {"--weights", setChoice(llvm::ArrayRef(weightsNames).drop_front(),
                              [this](size_t i) { options.weights = static_cast<WeightsMode>(i + 1); })},
      {"--emit", setChoice(emitNames,
                           [this](size_t i) {
                             options.emit = static_cast<Emit>(i);
                             emitGiven = true;
                           })},
      {"--cache-dtype", setChoice(cacheNames, [this](size_t i) { options.cacheDtype = static_cast<CacheDtype>(i); })},
      {"--products", setChoice(productNames,
                                 [this](size_t i) {
                                   options.bf16Products = i == 1 || i == 2;
                                   options.bf16Decode = i == 2;
                                   options.twoTerms = i == 3;
                                 })},
      {"--max-tokens", setNumber(options.maxTokens, mostRows)},
      {"--max-sequences", setNumber(options.maxSequences, mostRows)},
      {"--chunk-rows",
       [this](StringRef text) {
         bool known = text == "16" || text == "32" || text == "64";
         return known ? setNumber(options.chunkRows, 64)(text) : std::string("16, 32 or 64");
       }},
      {"--config", setText(options.config)},
      {"--ir", setText(ir)},
      {"--stop-after", setText(stopAfter)},
      {"--start-from", setText(startFrom)},
      {"--dump-dir", setText(options.dumpDir)},
  };
}

Status CommandLine::parse(llvm::ArrayRef<const char *> arguments) {
  bool onlyPositional = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    StringRef argument = arguments[i];
    if (onlyPositional || !argument.starts_with("-") || argument == "-") {
      positional.push_back(argument.str());
      continue;
    }
    if (argument == "--") {
      onlyPositional = true;
      continue;
    }
    if (argument.starts_with("--mlir-")) {
      forMlir.push_back(argument.str());
      continue;
    }
    auto [name, value] = argument.split('=');
    bool hasValue = argument.contains('=');
    std::vector<Flag> allFlags = flags();
    if (auto flag = llvm::find_if(allFlags, [&](const Flag &f) { return f.name == name; }); flag != allFlags.end()) {
      if (hasValue)
        return Status::error(name.str() + ": takes no value, got " + quote(value.str()));
      *flag->target = true;
      continue;
    }
    std::vector<Value> allValues = values();
    auto found = llvm::find_if(allValues, [&](const Value &v) { return v.name == name; });
    if (found == allValues.end())
      return Status::error("unknown option " + quote(name.str()) + "; see k3-compile --help");
    if (!hasValue) {
      if (++i == arguments.size())
        return Status::error(name.str() + ": a value is missing");
      value = arguments[i];
    }
    if (std::string wanted = found->set(value); !wanted.empty())
      return Status::error(name.str() + ": expected " + wanted + ", got " + quote(value.str()));
  }
  return Status::success();
}

static Expected<Stage> readStage(const char *option, const std::string &name) {
  if (std::optional<Stage> stage = mlir::k3::parseStage(name))
    return *stage;
  return Status::error(std::string(option) + ": expected a stage (" + listStages() + "), got " + quote(name));
}

/// The stage that makes what is to be emitted.
static Stage getLastStage(Emit emit) {
  switch (emit) {
  case Emit::Artifact:
  case Emit::Exe:
    return Stage::Artifact;
  case Emit::Mlir:
    return Stage::Plan;
  case Emit::Llvm:
  case Emit::Obj:
  case Emit::Ptx:
    return Stage::Kernels;
  case Emit::Elf:
  case Emit::Cubin:
    return Stage::Binaries;
  }
  llvm_unreachable("unknown kind of output");
}

/// Which stages run, and on what.
static Status readStages(const CommandLine &line, Options &options) {
  if (!line.startFrom.empty()) {
    Expected<Stage> stage = readStage("--start-from", line.startFrom);
    if (!stage)
      return stage.status();
    options.startFrom = *stage;
    if (options.startFrom == Stage::Import)
      return Status::error("--start-from: import reads a model, not IR; leave the option out");
    options.ir = line.ir;
    if (options.ir.empty())
      std::swap(options.ir, options.model);
    if (options.ir.empty())
      return Status::error("--start-from: no IR file given");
  } else if (!line.ir.empty()) {
    return Status::error("--ir: needs --start-from");
  }
  options.stopAfter = getLastStage(options.emit);
  if (!line.stopAfter.empty()) {
    Expected<Stage> stage = readStage("--stop-after", line.stopAfter);
    if (!stage)
      return stage.status();
    if (line.emitGiven && options.emit != Emit::Mlir)
      return Status::error(std::string("--stop-after: writes IR, which contradicts --emit=") + getName(options.emit));
    options.stopAfter = *stage;
    if (*stage != Stage::Artifact)
      options.emit = Emit::Mlir;
  }
  if (options.stopAfter < options.startFrom)
    return Status::error("--start-from=" + mlir::k3::getStageName(options.startFrom).str() +
                         ": the last stage would be " + mlir::k3::getStageName(options.stopAfter).str() +
                         ", which comes before");
  return Status::success();
}

/// `--no-weights` and `--config` against the rest.
static Status readModel(const CommandLine &line, Options &options) {
  if (line.positional.size() > 1)
    return Status::error("expected one model directory, got " + quote(line.positional[0]) + " and " +
                         quote(line.positional[1]));
  if (!line.positional.empty())
    options.model = line.positional.front();
  if (line.noWeights || !options.config.empty()) {
    if (options.weights)
      return Status::error(std::string("--weights=") + getName(*options.weights) + ": contradicts " +
                           (line.noWeights ? "--no-weights" : "--config, which comes without weights"));
    options.weights = WeightsMode::None;
  }
  return Status::success();
}

/// What is needed and missing, or given twice.
static Status checkInputs(const Options &options) {
  if (!options.model.empty() && !options.config.empty())
    return Status::error("--config: a model directory is given, too: " + quote(options.model));
  if (options.check && options.model.empty())
    return Status::error("--check: no model directory given");
  if (options.model.empty() && options.config.empty() && options.ir.empty() && !options.printPipeline)
    return Status::error("no model directory given; see k3-compile --help");
  if (options.output == "-" && (options.emit == Emit::Artifact || options.emit == Emit::Exe))
    return Status::error(std::string("-o: --emit=") + getName(options.emit) + " needs a file, not standard output");
  if (options.emit == Emit::Exe && options.weights == WeightsMode::None)
    return Status::error("--emit=exe: a program without weights cannot run");
  return Status::success();
}

/// Gives MLIR its options; exits with 1 and one line for an unknown one.
static void passToMlir(const char *program, const std::vector<std::string> &arguments) {
  mlir::registerAsmPrinterCLOptions();
  mlir::registerMLIRContextCLOptions();
  mlir::registerPassManagerCLOptions();
  mlir::registerDefaultTimingManagerCLOptions();
  std::vector<const char *> all = {program};
  for (const std::string &argument : arguments)
    all.push_back(argument.c_str());
  llvm::cl::ParseCommandLineOptions(static_cast<int>(all.size()), all.data());
}

Expected<Options> k3compile::parseOptions(int argc, char **argv) {
  CommandLine line;
  if (Status status = line.parse(llvm::ArrayRef<const char *>(argv, argc).drop_front()); !status.ok())
    return status;
  if (line.help || argc < 2) {
    printHelp();
    std::exit(argc < 2);
  }
  if (line.version) {
    llvm::outs() << "k3-compile " K3_VERSION " (LLVM " LLVM_VERSION_STRING ")\n";
    std::exit(0);
  }
  Options &options = line.options;
  if (Status status = readModel(line, options); !status.ok())
    return status;
  if (Status status = readStages(line, options); !status.ok())
    return status;
  if (Status status = checkInputs(options); !status.ok())
    return status;
  passToMlir(argv[0], line.forMlir);
  return std::move(options);
}
