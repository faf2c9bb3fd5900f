//===- Targets.cpp - the machines a model is compiled for -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/k3-compile/Targets.h"
#include "lib/Codegen/Common/GpuTarget.h"
#include "lib/Codegen/Common/TargetModel.h"
#include "mlir/IR/Builders.h"

using namespace k3compile;
using ::k3::frontend::Expected;
using ::k3::frontend::Status;
using llvm::StringRef;
using mlir::ModuleOp;
using mlir::k3::GpuTarget;
using mlir::k3::TargetAttr;
using mlir::k3::TargetModel;

/// Module attribute with the targets where there are several.
static constexpr llvm::StringLiteral targetsAttrName = "k3.targets";

static bool isGpu(TargetAttr target) { return target.getArch() == GpuTarget::arch; }

Expected<std::vector<TargetAttr>> k3compile::parseTargets(mlir::MLIRContext &context, const std::string &names) {
  context.loadDialect<mlir::k3::K3Dialect>();
  std::vector<TargetAttr> targets;
  llvm::SmallVector<StringRef> words;
  StringRef(names).split(words, ',');
  for (StringRef word : words) {
    TargetAttr target;
    if (word.starts_with(GpuTarget::namePrefix)) {
      llvm::Expected<GpuTarget> gpu = GpuTarget::parse(word);
      if (!gpu)
        return Status::error("--target: " + llvm::toString(gpu.takeError()));
      target = gpu->toAttr(&context);
    } else {
      llvm::Expected<TargetModel> cpu = TargetModel::parse(word);
      if (!cpu)
        return Status::error("--target: " + llvm::toString(cpu.takeError()));
      target = cpu->toAttr(&context);
    }
    for (TargetAttr other : targets)
      if (isGpu(other) == isGpu(target))
        return Status::error(std::string("--target: expected one ") + (isGpu(target) ? "GPU" : "CPU") + ", got " +
                             other.getCpu().str() + " and " + target.getCpu().str());
    targets.push_back(target);
  }
  // The CPU's programs come first.
  llvm::sort(targets, [](TargetAttr lhs, TargetAttr rhs) { return isGpu(lhs) < isGpu(rhs); });
  return targets;
}

/// A module around those of several targets.
static bool isBundle(ModuleOp module) {
  return module->hasAttr(targetsAttrName) && !module.getBody()->empty() &&
         llvm::all_of(*module.getBody(), [](mlir::Operation &op) {
           return llvm::isa<ModuleOp>(op) && op.hasAttr(mlir::k3::targetAttrName);
         });
}

Status TargetModules::set(mlir::OwningOpRef<ModuleOp> module) {
  targets.clear();
  ofTargets.clear();
  shared = std::move(module);
  auto addTarget = [&](mlir::Attribute attr) {
    auto target = llvm::dyn_cast_or_null<TargetAttr>(attr);
    if (target)
      targets.push_back(target);
    return target != nullptr;
  };
  if (isBundle(*shared)) {
    for (auto inner : llvm::make_early_inc_range(shared->getOps<ModuleOp>())) {
      if (!addTarget(inner->getAttr(mlir::k3::targetAttrName)))
        return Status::error("expected a target as k3.target of every module");
      inner->removeAttr(mlir::SymbolTable::getSymbolAttrName());
      inner->remove();
      ofTargets.emplace_back(inner);
    }
    shared = {};
  } else if (auto list = (*shared)->getAttrOfType<mlir::ArrayAttr>(targetsAttrName)) {
    if (list.empty() || !llvm::all_of(list, addTarget))
      return Status::error("expected a list of targets as k3.targets");
  } else if (auto target = (*shared)->getAttrOfType<TargetAttr>(mlir::k3::targetAttrName)) {
    targets.push_back(target);
  }
  update();
  return Status::success();
}

Status TargetModules::setTargets(const std::string &names) {
  assert(!current.empty() && "there is no IR yet");
  Expected<std::vector<TargetAttr>> parsed = parseTargets(*current.front().getContext(), names);
  if (!parsed)
    return parsed.status();
  if (!ofTargets.empty() && *parsed != targets)
    return Status::error("--target: the IR is past the stages that targets share, and it is for others");
  targets = std::move(*parsed);
  if (!shared)
    return Status::success();
  mlir::Builder b(shared->getContext());
  (*shared)->removeAttr(mlir::k3::targetAttrName);
  (*shared)->removeAttr(targetsAttrName);
  if (targets.size() == 1)
    (*shared)->setAttr(mlir::k3::targetAttrName, targets.front());
  else
    (*shared)->setAttr(targetsAttrName,
                       b.getArrayAttr(llvm::SmallVector<mlir::Attribute>(targets.begin(), targets.end())));
  return Status::success();
}

void TargetModules::setXTerms(int64_t terms) {
  for (ModuleOp module : current)
    module->setAttr(mlir::k3::GpuTarget::xTermsAttrName, mlir::Builder(module).getI64IntegerAttr(terms));
}

void TargetModules::prepare(mlir::k3::Stage stage) {
  if (stage < firstTargetStage || !ofTargets.empty())
    return;
  for (TargetAttr target : llvm::ArrayRef(targets).drop_back())
    ofTargets.emplace_back((*shared).clone())->getOperation()->setAttr(mlir::k3::targetAttrName, target);
  ofTargets.push_back(std::move(shared));
  ofTargets.back()->getOperation()->setAttr(mlir::k3::targetAttrName, targets.back());
  for (auto &module : ofTargets)
    module->getOperation()->removeAttr(targetsAttrName);
  shared = {};
  update();
}

void TargetModules::update() {
  current.clear();
  if (shared)
    current.push_back(*shared);
  for (auto &module : ofTargets)
    current.push_back(*module);
}

std::vector<std::string> TargetModules::names() const {
  std::vector<std::string> names;
  for (TargetAttr target : targets)
    names.push_back(target.getCpu().str());
  return names;
}

bool TargetModules::isForGpu(ModuleOp module) const { return mlir::k3::isForGpu(module); }

ModuleOp TargetModules::bundle() {
  if (shared)
    return *shared;
  if (ofTargets.size() == 1)
    return *ofTargets.front();
  mlir::Builder b(ofTargets.front()->getContext());
  shared = ModuleOp::create(b.getUnknownLoc());
  (*shared)->setAttr(targetsAttrName,
                     b.getArrayAttr(llvm::SmallVector<mlir::Attribute>(targets.begin(), targets.end())));
  for (auto [target, module] : llvm::zip_equal(targets, ofTargets)) {
    std::string name = target.getArch().str();
    llvm::replace(name, '-', '_');
    (*module)->setAttr(mlir::SymbolTable::getSymbolAttrName(), b.getStringAttr(name));
    shared->push_back(module.release());
  }
  ofTargets.clear();
  update();
  return *shared;
}
