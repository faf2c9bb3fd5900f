//===- EmitPtx.cpp - kernels in the LLVM dialect to PTX -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/GPUPipeline.h"
#include "lib/Codegen/GPU/KernelAttrNames.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Threading.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include <mutex>

using namespace mlir;
using namespace mlir::k3;

static std::unique_ptr<llvm::TargetMachine> createMachine(const GpuTarget &gpu) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  llvm::Triple triple(GpuTarget::triple);
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  assert(target && "LLVM is built without its NVPTX target");
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, gpu.chip, gpu.features, llvm::TargetOptions(), /*RM=*/std::nullopt,
                                  /*CM=*/std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PassBuilder builder(&machine);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
}

/// Constants of a kernel get its name in front, because the text of all kernels is put together.
static void renameGlobals(llvm::Module &module, StringRef kernel) {
  for (llvm::GlobalVariable &global : module.globals())
    if (global.getName() != sharedSymbolName)
      global.setName(kernel + "_" + (global.hasName() ? global.getName() : "data"));
}

/// The optimizer may know which memory a kernel only reads and that its arguments do not overlap. Where instructions are
/// chosen and ordered, what counts is that memory may be written until the kernel in front has ended: loads that are marked
/// as invariant, or go through arguments that nothing else overlaps, would become ld.global.nc, which is for memory that
/// nobody writes while the kernel is there.
static void dropInvariance(llvm::Module &module) {
  for (llvm::Function &function : module)
    for (llvm::Argument &argument : function.args())
      argument.removeAttr(llvm::Attribute::NoAlias);
  for (llvm::Function &function : module)
    for (llvm::BasicBlock &block : function)
      for (llvm::Instruction &instruction : block)
        instruction.setMetadata(llvm::LLVMContext::MD_invariant_load, nullptr);
}

/// Whether a kernel waits, and nothing that touches global memory stands before that in its text: the wait is in the block
/// of code that all others come after.
static bool waitsFirst(StringRef text) {
  auto touchesMemory = [](StringRef instruction) {
    if (instruction.starts_with("cp."))
      return !instruction.contains(".prefetch");
    bool isAccess = llvm::any_of(ArrayRef<StringRef>{"ld.", "st.", "atom.", "red."},
                                 [&](StringRef name) { return instruction.starts_with(name); });
    return isAccess && !instruction.contains(".shared") && !instruction.contains(".param");
  };
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    StringRef instruction = line.trim();
    if (instruction.starts_with("griddepcontrol.wait"))
      return true;
    if (touchesMemory(instruction))
      return false;
    text = rest;
  }
  return false;
}

/// PTX of a module with one kernel.
static FailureOr<std::string> compileKernel(ModuleOp kernel, const GpuTarget &target) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(kernel, context);
  if (!module)
    return failure();
  std::unique_ptr<llvm::TargetMachine> machine = createMachine(target);
  module->setTargetTriple(machine->getTargetTriple());
  module->setDataLayout(machine->createDataLayout());
  optimize(*module, *machine);
  auto func = *kernel.getOps<LLVM::LLVMFuncOp>().begin();
  bool startsEarly = func->hasAttr(startsEarlyAttrName);
  if (startsEarly)
    dropInvariance(*module);
  renameGlobals(*module, *kernel.getName());
  SmallVector<char, 0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return kernel.emitError("LLVM cannot emit PTX for this target");
  passes.run(*module);
  std::string ptx(text.begin(), text.end());
  if (startsEarly && !waitsFirst(ptx))
    return func.emitError() << "kernel '" << func.getName() << "' touches memory before the kernel in front has ended",
           failure();
  return ptx;
}

/// One text: the head of the first (version, target, address size) once, the declaration of shared memory once.
static std::string joinTexts(ArrayRef<std::string> texts) {
  std::string joined;
  bool hasHead = false, hasShared = false;
  for (StringRef text : texts) {
    SmallVector<StringRef> lines;
    text.split(lines, '\n');
    for (StringRef line : lines) {
      StringRef word = line.trim();
      bool isHead = word.starts_with(".version") || word.starts_with(".target") || word.starts_with(".address_size");
      bool isShared = word.starts_with(".extern .shared");
      if (word.starts_with("//") || word.empty() || (isHead && hasHead) || (isShared && hasShared))
        continue;
      hasShared |= isShared;
      joined += line.rtrim().str() + "\n";
    }
    hasHead = true;
  }
  return joined;
}

FailureOr<std::string> k3::emitPtx(ModuleOp kernels, const GpuTarget &target, ArrayRef<StringRef> kernelsInOrder) {
  SmallVector<OwningOpRef<ModuleOp>> modules;
  for (StringRef name : kernelsInOrder) {
    auto kernel = kernels.lookupSymbol<LLVM::LLVMFuncOp>(name);
    if (!kernel)
      return kernels.emitError() << "no kernel '" << name << "' in the module";
    modules.push_back(ModuleOp::create(kernel.getLoc(), name));
    OpBuilder b = OpBuilder::atBlockEnd(modules.back()->getBody());
    for (auto global : kernels.getOps<LLVM::GlobalOp>())
      b.clone(*global);
    b.clone(*kernel);
  }
  std::vector<std::string> texts(modules.size());
  LogicalResult compiled = failableParallelForEachN(kernels.getContext(), 0, modules.size(), [&](size_t i) {
    FailureOr<std::string> text = compileKernel(*modules[i], target);
    if (succeeded(text))
      texts[i] = std::move(*text);
    return text;
  });
  if (failed(compiled))
    return failure();
  return joinTexts(texts);
}
