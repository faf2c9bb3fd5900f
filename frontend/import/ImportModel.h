//===- ImportModel.h - from a validated config.json to model IR -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The [import] stage. The module holds, for each of the phases prefill and decode, an embedding function, one function
// per layer kind and a head; the layers are a table (`k3.layers`). Names and attributes: docs/architecture.md. No
// weight bytes and nothing per layer but the table, so the size of the text does not depend on the size of the model.
//
//===----------------------------------------------------------------------===//
#ifndef K3_FRONTEND_IMPORT_IMPORTMODEL_H
#define K3_FRONTEND_IMPORT_IMPORTMODEL_H

#include "frontend/TensorPlan.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <string>

namespace mlir::k3 {

struct ImportOptions {
  /// `name` in `k3.model`; empty: the config's model_type.
  std::string modelName;
  /// Of activations and the residual stream. Only F32 has kernels now.
  ::k3::frontend::Dtype activations = ::k3::frontend::Dtype::F32;
  /// Of the short convolutions' history: F32 or BF16.
  ::k3::frontend::Dtype convState = ::k3::frontend::Dtype::F32;
  /// Of the latent cache: F32 or BF16.
  ::k3::frontend::Dtype kvCache = ::k3::frontend::Dtype::F32;
  /// Tokens per page of the latent cache; positive.
  int64_t pageTokens = 64;
  /// How the template at that position of TensorPlan(config).templates() is stored, or nullptr if it is not
  /// (`Checkpoint::form`). Without the function, and for mandatory tensors that are not there, the template's first form
  /// is taken; an optional tensor is left out only if the function says nullptr.
  std::function<const ::k3::frontend::TensorForm *(uint32_t templateIndex)> storedForm;
};

/// "kda_dense_push", "mla_moe", ...: the name of a layer kind in function names and in `k3.layers`.
std::string getLayerKindName(const ::k3::frontend::LayerKind &kind);

/// Null after an error at an unknown location, when the options ask for what cannot be expressed. The context must have
/// the k3 dialect and its dependencies available; they are loaded here.
OwningOpRef<ModuleOp> importModel(MLIRContext &context, const ::k3::frontend::ModelConfig &config,
                                  const ImportOptions &options = {});

} // namespace mlir::k3

#endif // K3_FRONTEND_IMPORT_IMPORTMODEL_H
