//===- WeightTable.h - which tensor each weight of the programs is -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_ARTIFACT_WEIGHTTABLE_H
#define K3_CODEGEN_ARTIFACT_WEIGHTTABLE_H

#include "dialects/k3/IR/K3Ops.h"
#include "frontend/Checkpoint.h"
#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <vector>

namespace mlir::k3 {

/// One weight, or one group of experts.
struct WeightEntry {
  /// Checkpoint name; experts: with {E} for their number.
  std::string name;
  /// As kernels see it; experts: the first dimension counts them.
  RankedTensorType type;
  bool experts = false;
  uint64_t bytes = 0;
  /// The tensors, one per expert, in order; empty without a checkpoint.
  std::vector<const ::k3::frontend::CheckpointTensor *> sources;
  const ::k3::frontend::TensorTemplate *plan = nullptr;
};

/// What a layer kind has in any of the programs: LayerWeight and LayerState bindings are positions in these.
struct LayerKindSlots {
  std::vector<WeightSlotAttr> weights;
  std::vector<StateSlotAttr> states;

  /// Positions by name; the name is there.
  unsigned getWeight(StringRef name) const;
  unsigned getState(StringRef name) const;
};

struct LayerEntry {
  unsigned kind = 0;
  std::vector<unsigned> weights;  ///< positions in WeightTable::weights, in the order of the kind's slots
  int64_t scalars[3] = {0, 0, 0}; ///< sources, slot, mlp_sources
};

/// Every weight that the programs of all targets read, in the order in which a step meets them.
struct WeightTable {
  std::vector<WeightEntry> weights;
  std::vector<LayerEntry> layers;
  std::vector<std::string> kinds;    ///< in the order of the programs
  std::vector<LayerKindSlots> slots; ///< of each kind
  /// Positions of the weights of prologue and epilogue, by key.
  std::map<std::string, unsigned, std::less<>> modelWeights;

  uint64_t bytes() const;
};

/// `modules` are of one model, one per target. `checkpoint` may be null. Errors: a weight without a tensor or with a tensor of another size.
::k3::frontend::Expected<WeightTable> buildWeightTable(ArrayRef<ModuleOp> modules, const ::k3::frontend::TensorPlan &plan,
                                                       const ::k3::frontend::Checkpoint *checkpoint);

} // namespace mlir::k3

#endif // K3_CODEGEN_ARTIFACT_WEIGHTTABLE_H
