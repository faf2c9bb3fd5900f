//===- ModelAttrs.h - names of the discardable attributes of a model -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What a function and its arguments stand for, from import to plan; docs/architecture.md is the table.
//
//===----------------------------------------------------------------------===//
#ifndef K3_IR_MODELATTRS_H
#define K3_IR_MODELATTRS_H

#include "llvm/ADT/StringRef.h"

namespace mlir::k3 {

// Of the module.
inline constexpr llvm::StringLiteral kModelAttr = "k3.model";
inline constexpr llvm::StringLiteral kLayersAttr = "k3.layers";
// Of a function.
inline constexpr llvm::StringLiteral kPhaseAttr = "k3.phase";
// Of an argument: exactly one of these, ...
inline constexpr llvm::StringLiteral kWeightAttr = "k3.weight";
inline constexpr llvm::StringLiteral kStateAttr = "k3.state";
inline constexpr llvm::StringLiteral kBufferAttr = "k3.buffer";
inline constexpr llvm::StringLiteral kInputAttr = "k3.input";
inline constexpr llvm::StringLiteral kOutputAttr = "k3.output";
inline constexpr llvm::StringLiteral kScalarAttr = "k3.scalar";
// ... and these beside it.
inline constexpr llvm::StringLiteral kExpertGroupAttr = "k3.expert_group";
inline constexpr llvm::StringLiteral kDimsAttr = "k3.dims";

} // namespace mlir::k3

#endif // K3_IR_MODELATTRS_H
