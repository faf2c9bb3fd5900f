//===- EmitElf.cpp - kernels in the LLVM dialect to a shared object -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/CPU/CPUPipeline.h"
#include "lib/Codegen/Common/ExternalTool.h"
#include "lib/Codegen/Common/Kernels.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Threading.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "runtime/include/k3rt/abi.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/Program.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace mlir::k3;

static constexpr const char *linkerName = "ld.lld-22";

static std::unique_ptr<llvm::TargetMachine> createMachine(const TargetModel &model) {
  llvm::Triple triple(TargetModel::triple);
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  assert(target && "parsing the target model initializes its LLVM target");
  llvm::TargetOptions options;
  options.FunctionSections = options.DataSections = true;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(triple, model.cpu, model.features, options,
                                                                          llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                                          llvm::CodeGenOptLevel::Aggressive));
}

/// Kernels have no C library: loops must not be recognized as memset, nor anything else become a call.
static llvm::TargetLibraryInfoImpl noLibrary() {
  llvm::TargetLibraryInfoImpl info{llvm::Triple(TargetModel::triple)};
  info.disableAllFunctions();
  return info;
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = tuning.LoopInterleaving = true;
  llvm::PassBuilder builder(&machine, tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  functions.registerPass([] { return llvm::TargetLibraryAnalysis(noLibrary()); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
}

static FailureOr<SmallVector<char, 0>> emitObject(llvm::Module &module, llvm::TargetMachine &machine) {
  SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  passes.add(new llvm::TargetLibraryInfoWrapperPass(noLibrary()));
  if (machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile))
    return failure();
  passes.run(module);
  return object;
}

static void prepareModule(llvm::Module &module, llvm::TargetMachine &machine, const TargetModel &target) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  std::string width = std::to_string(target.lanes * 32);
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    if (!function.hasLocalLinkage())
      function.setVisibility(llvm::GlobalValue::HiddenVisibility);
    function.addFnAttr("target-cpu", target.cpu);
    if (!target.features.empty())
      function.addFnAttr("target-features", target.features);
    // Some CPUs prefer narrower vectors in compiled code; kernels are written for the full width.
    function.addFnAttr("prefer-vector-width", width);
    function.addFnAttr("min-legal-vector-width", width);
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
}

namespace {
/// What LLVM reports while it compiles a kernel.
struct KernelReport {
  explicit KernelReport(llvm::LLVMContext &context) { context.setDiagnosticHandlerCallBack(receive, this); }

  uint64_t frameBytes = 0; ///< of the largest frame above the limit, 0 = none
  std::string error;

private:
  static void receive(const llvm::DiagnosticInfo *info, void *self) {
    auto *report = static_cast<KernelReport *>(self);
    if (const auto *stack = llvm::dyn_cast<llvm::DiagnosticInfoStackSize>(info)) {
      report->frameBytes = std::max(report->frameBytes, stack->getStackSize());
    } else if (info->getSeverity() == llvm::DS_Error) {
      llvm::raw_string_ostream stream(report->error);
      llvm::DiagnosticPrinterRawOStream printer(stream);
      info->print(printer);
    }
  }
};
} // namespace

/// One kernel: its entry point and body alone in a module.
static FailureOr<SmallVector<char, 0>> compileKernel(ModuleOp kernel, const TargetModel &target) {
  llvm::LLVMContext context;
  KernelReport report(context);
  std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(kernel, context);
  if (!module)
    return failure();
  std::unique_ptr<llvm::TargetMachine> machine = createMachine(target);
  prepareModule(*module, *machine, target);
  for (llvm::Function &function : *module)
    if (!function.isDeclaration())
      function.addFnAttr("warn-stack-size", std::to_string(K3_KERNEL_STACK_BYTES));
  optimize(*module, *machine);
  FailureOr<SmallVector<char, 0>> object = emitObject(*module, *machine);
  if (failed(object) || !report.error.empty())
    return kernel.emitError("LLVM cannot emit an object for this target") << (report.error.empty() ? "" : ": ")
                                                                          << report.error;
  if (report.frameBytes > 0)
    return kernel.emitError() << "kernel '" << kernel.getSymName().value_or("") << "' takes " << report.frameBytes
                              << " bytes of stack, at most " << K3_KERNEL_STACK_BYTES << " are allowed";
  return object;
}

/// The k3_executable that the shared object exports.
static FailureOr<SmallVector<char, 0>> compileTable(ArrayRef<StringRef> kernels, const TargetModel &target) {
  llvm::LLVMContext context;
  llvm::Module module("k3_executable", context);
  std::unique_ptr<llvm::TargetMachine> machine = createMachine(target);
  prepareModule(module, *machine, target);
  auto *ptr = llvm::PointerType::getUnqual(context);
  auto *i32 = llvm::Type::getInt32Ty(context);
  auto *signature = llvm::FunctionType::get(i32, {ptr, ptr}, false);
  SmallVector<llvm::Constant *> pointers;
  for (StringRef name : kernels) {
    llvm::FunctionCallee kernel = module.getOrInsertFunction(name, signature);
    auto *function = llvm::cast<llvm::Function>(kernel.getCallee());
    function->setVisibility(llvm::GlobalValue::HiddenVisibility);
    pointers.push_back(function);
  }
  auto *arrayType = llvm::ArrayType::get(ptr, pointers.size());
  auto *table = new llvm::GlobalVariable(module, arrayType, /*isConstant=*/true, llvm::GlobalValue::InternalLinkage,
                                         llvm::ConstantArray::get(arrayType, pointers), "kernels");
  auto *structType = llvm::StructType::get(context, {i32, i32, ptr});
  llvm::Constant *fields[] = {llvm::ConstantInt::get(i32, K3_ABI_VERSION),
                              llvm::ConstantInt::get(i32, pointers.size()), table};
  new llvm::GlobalVariable(module, structType, /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage,
                           llvm::ConstantStruct::get(structType, fields), K3_EXECUTABLE_SYMBOL);
  return emitObject(module, *machine);
}

static FailureOr<SmallVector<char>> link(Operation *reporter, ArrayRef<SmallVector<char, 0>> objects,
                                         ArrayRef<StringRef> flags) {
  llvm::ErrorOr<std::string> linker = llvm::sys::findProgramByName(linkerName);
  if (!linker)
    return reporter->emitError() << "cannot find the linker " << linkerName << " on the PATH";
  TemporaryFolder folder;
  if (folder.error)
    return reporter->emitError() << "cannot make a temporary folder: " << folder.error.message();
  std::string output = folder.file("kernels.so");
  std::vector<std::string> words = {"-o", output};
  words.insert(words.end(), flags.begin(), flags.end());
  for (auto [number, object] : llvm::enumerate(objects)) {
    words.push_back(folder.file(Twine(number) + ".o"));
    if (llvm::Error error = writeFile(words.back(), object))
      return reporter->emitError() << llvm::toString(std::move(error));
  }
  llvm::Expected<std::string> messages = runTool(*linker, words, folder);
  if (!messages)
    return reporter->emitError() << llvm::toString(messages.takeError());
  llvm::Expected<SmallVector<char>> linked = readFile(output);
  if (!linked)
    return reporter->emitError() << llvm::toString(linked.takeError());
  return std::move(*linked);
}

uint64_t k3::getScratchBytes(ModuleOp kernels, StringRef kernel) {
  Operation *func = kernels.lookupSymbol(kernel);
  auto bytes = func ? func->getAttrOfType<IntegerAttr>(scratchBytesAttrName) : IntegerAttr();
  return bytes ? bytes.getInt() : 0;
}

static FailureOr<SmallVector<char>> compileAndLink(ModuleOp kernels, const TargetModel &target,
                                                   ArrayRef<StringRef> kernelsInOrdinalOrder,
                                                   ArrayRef<StringRef> linkFlags) {
  SmallVector<OwningOpRef<ModuleOp>> modules;
  llvm::SetVector<StringRef> distinct(kernelsInOrdinalOrder.begin(), kernelsInOrdinalOrder.end());
  for (StringRef name : distinct) {
    auto entry = kernels.lookupSymbol<LLVM::LLVMFuncOp>(name);
    auto body = kernels.lookupSymbol<LLVM::LLVMFuncOp>((name + ".body").str());
    if (!entry || !body)
      return kernels.emitError() << "no kernel '" << name << "' in the module";
    modules.push_back(ModuleOp::create(entry.getLoc(), name));
    OpBuilder b = OpBuilder::atBlockEnd(modules.back()->getBody());
    b.clone(*body);
    b.clone(*entry);
  }
  SmallVector<SmallVector<char, 0>> objects(modules.size() + 1);
  LogicalResult compiled = failableParallelForEachN(kernels.getContext(), 0, modules.size(), [&](size_t i) {
    FailureOr<SmallVector<char, 0>> object = compileKernel(*modules[i], target);
    if (succeeded(object))
      objects[i] = std::move(*object);
    return object;
  });
  if (failed(compiled))
    return failure();
  FailureOr<SmallVector<char, 0>> table = compileTable(kernelsInOrdinalOrder, target);
  if (failed(table))
    return kernels.emitError("LLVM cannot emit an object for this target");
  objects.back() = std::move(*table);
  return link(kernels, objects, linkFlags);
}

FailureOr<SmallVector<char>> k3::emitElf(ModuleOp kernels, const TargetModel &target,
                                         ArrayRef<StringRef> kernelsInOrdinalOrder) {
  return compileAndLink(kernels, target, kernelsInOrdinalOrder,
                        {"-shared", "-nostdlib", "--no-undefined", "--gc-sections", "-z", "now", "-z", "noexecstack",
                         "--build-id=none"});
}

FailureOr<SmallVector<char>> k3::emitObject(ModuleOp kernels, const TargetModel &target,
                                            ArrayRef<StringRef> kernelsInOrdinalOrder) {
  return compileAndLink(kernels, target, kernelsInOrdinalOrder, {"-r"});
}
