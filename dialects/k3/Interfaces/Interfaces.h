//===- Interfaces.h - external interface models of the structured ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_INTERFACES_INTERFACES_H
#define K3_INTERFACES_INTERFACES_H

namespace mlir {
class DialectRegistry;
namespace k3 {

/// TilingInterface for every structured op, from its shape table.
void registerTilingInterfaceExternalModels(DialectRegistry &registry);
/// BufferizableOpInterface for every structured op; destinations are updated in place.
void registerBufferizableOpInterfaceExternalModels(DialectRegistry &registry);
/// linalg::AggregatedOpInterface for every structured op on tensors: linalg, scf, tensor, arith and math ops.
void registerAggregatedOpInterfaceExternalModels(DialectRegistry &registry);
/// RuntimeVerifiableOpInterface for every structured op: dynamic sizes, ids, boundaries, slots, pages.
void registerRuntimeVerifiableOpInterfaceExternalModels(DialectRegistry &registry);
/// All of the above.
void registerK3InterfaceModels(DialectRegistry &registry);

/// How k3-reduce makes k3 ops disappear; for that tool only.
void registerReductionPatterns(DialectRegistry &registry);

} // namespace k3
} // namespace mlir

#endif // K3_INTERFACES_INTERFACES_H
