//===- TargetModel.cpp - what code generation knows of the target CPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Common/TargetModel.h"
#include "dialects/k3/IR/K3Ops.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/TargetParser/X86TargetParser.h"
#include <mutex>

using namespace mlir;
using namespace mlir::k3;

static const llvm::Target &getX86Target() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(llvm::Triple(TargetModel::triple), error);
  assert(target && "LLVM is built without its X86 target");
  return *target;
}

static std::unique_ptr<llvm::MCSubtargetInfo> getSubtarget(StringRef cpu, StringRef features) {
  return std::unique_ptr<llvm::MCSubtargetInfo>(
      getX86Target().createMCSubtargetInfo(llvm::Triple(TargetModel::triple), cpu, features));
}

/// "; similar names are a, b, c", or nothing.
static std::string listSimilar(const llvm::MCSubtargetInfo &subtarget, StringRef name) {
  SmallVector<std::pair<unsigned, StringRef>> ranked;
  for (const llvm::SubtargetSubTypeKV &known : subtarget.getAllProcessorDescriptions()) {
    StringRef key = known.Key;
    unsigned distance = key.edit_distance(name);
    if (distance <= std::max<size_t>(2, name.size() / 3) || key.starts_with(name))
      ranked.push_back({distance, key});
  }
  llvm::sort(ranked);
  ranked.truncate(std::min<size_t>(ranked.size(), 6));
  std::string text;
  for (auto [distance, key] : ranked)
    text += (text.empty() ? "; similar names are " : ", ") + key.str();
  return text;
}

static llvm::Expected<TargetModel> makeModel(StringRef cpu, StringRef features) {
  // Validity is asked of a subtarget of a known CPU, because LLVM prints its own warnings about unknown ones.
  std::unique_ptr<llvm::MCSubtargetInfo> known = getSubtarget("x86-64", "");
  if (!known->isCPUStringValid(cpu))
    return llvm::createStringError("unknown target CPU '" + cpu + "'" + listSimilar(*known, cpu) +
                                   "; 'host' is this machine");
  SmallVector<StringRef> words;
  features.split(words, ',', -1, /*KeepEmpty=*/false);
  for (StringRef word : words) {
    StringRef name = word.trim().ltrim("+-");
    if (word.trim().size() != name.size() + 1 ||
        llvm::none_of(known->getAllProcessorFeatures(), [&](const auto &feature) { return feature.Key == name; }))
      return llvm::createStringError("unknown feature '" + word + "' of target CPU '" + cpu +
                                     "'; expected '+name' or '-name'");
  }
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget = getSubtarget(cpu, features);
  auto has = [&](const char *feature) { return subtarget->checkFeatures(feature); };
  if (!has("+64bit"))
    return llvm::createStringError("target CPU '" + cpu + "' has no 64-bit mode");
  TargetModel model;
  model.cpu = cpu.str();
  model.features = features.str();
  model.fma = has("+fma");
  model.avx2 = has("+avx2");
  model.avx512 = has("+avx512f") && has("+avx512bw") && has("+avx512vl") && has("+avx512dq");
  model.avx512Bf16 = model.avx512 && has("+avx512bf16");
  model.lanes = model.avx512 ? 16 : model.avx2 ? 8 : 4;
  model.vectorRegisters = model.avx512 ? 32 : 16;
  return model;
}

llvm::Expected<TargetModel> TargetModel::parse(StringRef name) {
  if (name != "host")
    return makeModel(name, "");
  SmallVector<std::string> features;
  for (const auto &feature : llvm::sys::getHostCPUFeatures())
    features.push_back((feature.second ? "+" : "-") + feature.first().str());
  llvm::sort(features);
  // A CPU newer than LLVM has no name; then the features alone describe it.
  std::unique_ptr<llvm::MCSubtargetInfo> known = getSubtarget("x86-64", "");
  StringRef cpu = llvm::sys::getHostCPUName();
  llvm::erase_if(features, [&](const std::string &word) {
    return llvm::none_of(known->getAllProcessorFeatures(),
                         [&](const auto &feature) { return StringRef(word).drop_front() == feature.Key; });
  });
  return makeModel(known->isCPUStringValid(cpu) ? cpu : "x86-64", llvm::join(features, ","));
}

llvm::Expected<TargetModel> TargetModel::fromAttr(TargetAttr attr) {
  if (attr.getArch() != arch)
    return llvm::createStringError("expected a target of arch '" + StringRef(arch) + "', got '" + attr.getArch() + "'");
  return makeModel(attr.getCpu(), attr.getFeatures());
}

TargetAttr TargetModel::toAttr(MLIRContext *context) const { return TargetAttr::get(context, arch, cpu, features); }

std::vector<std::string> TargetModel::requiredFeatures() const {
  llvm::StringMap<bool> enabled;
  SmallVector<StringRef> ofCpu, words;
  llvm::X86::getFeaturesForCPU(cpu, ofCpu, /*NeedPlus=*/true);
  StringRef(features).split(words, ',', -1, /*KeepEmpty=*/false);
  for (StringRef word : llvm::concat<StringRef>(ofCpu, words)) {
    StringRef name = word.trim().drop_front();
    bool on = word.trim().starts_with("+");
    enabled[name] = on;
    llvm::X86::updateImpliedFeatures(name, on, enabled);
  }
  std::vector<std::string> names;
  for (const auto &feature : enabled)
    if (feature.second)
      names.push_back(feature.first().str());
  llvm::sort(names);
  return names;
}

FailureOr<TargetModel> k3::getTargetModel(Operation *op) {
  for (Operation *scope = op; scope; scope = scope->getParentOp()) {
    auto attr = scope->getAttrOfType<TargetAttr>(targetAttrName);
    if (!attr)
      continue;
    llvm::Expected<TargetModel> model = TargetModel::fromAttr(attr);
    if (model)
      return std::move(*model);
    return op->emitError() << llvm::toString(model.takeError());
  }
  return op->emitError() << "expected a '" << targetAttrName << "' attribute on the module";
}
