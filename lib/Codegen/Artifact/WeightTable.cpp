//===- WeightTable.cpp - which tensor each weight of the programs is -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Artifact/WeightTable.h"
#include "dialects/k3/IR/ModelAttrs.h"
#include "frontend/Text.h"

using namespace mlir;
using namespace mlir::k3;
using namespace ::k3::frontend;

template <typename Slot> static unsigned findSlot(const std::vector<Slot> &slots, StringRef name) {
  auto it = llvm::find_if(slots, [&](Slot slot) { return slot.getName() == name; });
  assert(it != slots.end() && "dispatches name slots of their section");
  return it - slots.begin();
}

unsigned LayerKindSlots::getWeight(StringRef name) const { return findSlot(weights, name); }
unsigned LayerKindSlots::getState(StringRef name) const { return findSlot(states, name); }

uint64_t WeightTable::bytes() const {
  uint64_t total = 0;
  for (const WeightEntry &weight : weights)
    total += weight.bytes;
  return total;
}

namespace {
class TableBuilder {
public:
  TableBuilder(ArrayRef<ModuleOp> modules, const TensorPlan &plan, const Checkpoint *checkpoint)
      : modules(modules), plan(plan), checkpoint(checkpoint) {}

  Expected<WeightTable> run();

private:
  Status addKinds(ExecProgramOp program);
  Status addModelWeights(ArrayAttr slots);
  Status addLayers();
  /// Appends the weight to the table. `layer`: -1 for weights of the model.
  Status addWeight(WeightSlotAttr slot, int64_t layer);
  Status addSources(WeightEntry &entry, int64_t layer);

  ArrayRef<ModuleOp> modules;
  const TensorPlan &plan;
  const Checkpoint *checkpoint;
  WeightTable table;
};
} // namespace

/// Adds the slots that are not there yet; an error if one is there with another type.
template <typename Slot> static Status mergeSlots(std::vector<Slot> &slots, ArrayAttr more, const std::string &kind) {
  for (Slot slot : more.getAsRange<Slot>()) {
    auto it = llvm::find_if(slots, [&](Slot known) { return known.getName() == slot.getName(); });
    if (it == slots.end())
      slots.push_back(slot);
    else if (*it != slot)
      return Status::error("layer kind " + kind + ": " + slot.getName().str() + " has another type in another program");
  }
  return Status::success();
}

Status TableBuilder::addKinds(ExecProgramOp program) {
  std::vector<ExecLayerKindOp> kinds = program.getLayerKinds();
  if (table.kinds.empty())
    for (ExecLayerKindOp kind : kinds) {
      table.kinds.push_back(kind.getName().str());
      table.slots.emplace_back();
    }
  if (kinds.size() != table.kinds.size())
    return Status::error("program " + program.getSymName().str() + " has other layer kinds than the one before");
  for (auto [index, kind] : llvm::enumerate(kinds)) {
    if (kind.getName() != table.kinds[index])
      return Status::error("program " + program.getSymName().str() + " has other layer kinds than the one before");
    if (Status status = mergeSlots(table.slots[index].weights, kind.getWeights(), table.kinds[index]); !status.ok())
      return status;
    if (Status status = mergeSlots(table.slots[index].states, kind.getStates(), table.kinds[index]); !status.ok())
      return status;
  }
  return Status::success();
}

Status TableBuilder::addSources(WeightEntry &entry, int64_t layer) {
  uint64_t found = 0;
  for (int64_t expert = 0, count = std::max<int64_t>(1, entry.plan->numExperts); expert < count; ++expert) {
    std::string name = entry.plan->name(layer, expert);
    const CheckpointTensor *tensor = checkpoint->find(name);
    if (!tensor)
      return Status::error("tensor " + quote(name) + " is not in the checkpoint");
    if (tensor->bytes != entry.bytes / count)
      return Status::error("tensor " + quote(name) + " has " + std::to_string(tensor->bytes) +
                           " bytes, the compiled code reads " + std::to_string(entry.bytes / count));
    found += tensor->bytes;
    entry.sources.push_back(tensor);
  }
  if (found != entry.bytes)
    return Status::error(entry.name + " has " + std::to_string(found) + " bytes, the compiled code reads " +
                         std::to_string(entry.bytes));
  return Status::success();
}

Status TableBuilder::addWeight(WeightSlotAttr slot, int64_t layer) {
  WeightEntry entry;
  entry.type = slot.getType();
  entry.experts = slot.getExperts();
  entry.bytes = entry.type.getNumElements() * (entry.type.getElementTypeBitWidth() / 8);
  StringRef key = slot.getName();
  entry.plan = plan.find(std::string_view(key.data(), key.size()), layer);
  if (!entry.plan)
    return Status::error("the model has no weight " + quote(key.str()) +
                         (layer < 0 ? std::string() : " in layer " + std::to_string(layer)));
  if (entry.experts != entry.plan->isPerExpert() ||
      (entry.experts && (entry.type.getRank() < 1 || entry.type.getDimSize(0) != entry.plan->numExperts)))
    return Status::error("weight " + quote(key.str()) + ": the program and the model disagree on its experts");
  entry.name = entry.plan->nameTemplate;
  if (size_t at = entry.name.find("{L}"); at != std::string::npos)
    entry.name.replace(at, 3, std::to_string(layer));
  if (checkpoint)
    if (Status status = addSources(entry, layer); !status.ok())
      return status;
  table.weights.push_back(std::move(entry));
  return Status::success();
}

Status TableBuilder::addModelWeights(ArrayAttr slots) {
  for (auto slot : slots.getAsRange<WeightSlotAttr>()) {
    auto [it, inserted] = table.modelWeights.try_emplace(slot.getName().str(), table.weights.size());
    if (inserted)
      if (Status status = addWeight(slot, /*layer=*/-1); !status.ok())
        return status;
    if (table.weights[it->second].type != slot.getType())
      return Status::error("weight " + quote(slot.getName().str()) + " has another type in another program");
  }
  return Status::success();
}

Status TableBuilder::addLayers() {
  ModuleOp module = modules.front(); // The layers are the same for all targets.
  auto layers = module->getAttrOfType<ArrayAttr>(kLayersAttr);
  if (!layers)
    return Status::error("the module has no table of layers");
  for (auto [number, attr] : llvm::enumerate(layers)) {
    auto entry = dyn_cast<DictionaryAttr>(attr);
    auto kind = entry ? entry.getAs<StringAttr>("kind") : StringAttr();
    auto it = kind ? llvm::find(table.kinds, kind.getValue()) : table.kinds.end();
    if (it == table.kinds.end())
      return Status::error("layer " + std::to_string(number) + " is of no kind that a program has");
    LayerEntry layer;
    layer.kind = it - table.kinds.begin();
    static constexpr llvm::StringLiteral scalarNames[] = {"sources", "slot", "mlp_sources"};
    for (auto [index, name] : llvm::enumerate(scalarNames))
      if (auto value = entry.getAs<IntegerAttr>(name))
        layer.scalars[index] = value.getInt();
    for (WeightSlotAttr slot : table.slots[layer.kind].weights) {
      layer.weights.push_back(table.weights.size());
      if (Status status = addWeight(slot, number); !status.ok())
        return status;
    }
    table.layers.push_back(std::move(layer));
  }
  return Status::success();
}

Expected<WeightTable> TableBuilder::run() {
  SmallVector<ExecProgramOp> programs;
  for (ModuleOp module : modules)
    llvm::append_range(programs, module.getOps<ExecProgramOp>());
  for (ExecProgramOp program : programs)
    if (Status status = addKinds(program); !status.ok())
      return status;
  for (ExecProgramOp program : programs)
    if (Status status = addModelWeights(program.getPrologue().getWeights()); !status.ok())
      return status;
  if (Status status = addLayers(); !status.ok())
    return status;
  for (ExecProgramOp program : programs)
    if (Status status = addModelWeights(program.getEpilogue().getWeights()); !status.ok())
      return status;
  return std::move(table);
}

Expected<WeightTable> mlir::k3::buildWeightTable(ArrayRef<ModuleOp> modules, const TensorPlan &plan,
                                                 const Checkpoint *checkpoint) {
  return TableBuilder(modules, plan, checkpoint).run();
}
