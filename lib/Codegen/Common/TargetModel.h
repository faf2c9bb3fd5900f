//===- TargetModel.h - what code generation knows of the target CPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_COMMON_TARGETMODEL_H
#define K3_CODEGEN_COMMON_TARGETMODEL_H

#include "mlir/Support/LLVM.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace mlir {
class MLIRContext;
class Operation;
namespace k3 {
class TargetAttr;

/// The CPU that kernels are compiled for. Everything follows from an LLVM CPU name and a feature string; the number of
/// cores is not part of it, because the grid is cut without knowing it.
struct TargetModel {
  /// LLVM CPU name ("znver4", "x86-64-v4").
  std::string cpu;
  /// Features on top of the CPU name, LLVM syntax ("+avx2,-avx512f"); may be empty.
  std::string features;
  /// f32 lanes of a vector register: 16, 8 or 4.
  unsigned lanes = 4;
  /// Architectural vector registers: 32 with AVX-512, else 16.
  unsigned vectorRegisters = 16;
  bool fma = false, avx2 = false, avx512 = false, avx512Bf16 = false;

  static constexpr const char *triple = "x86_64-unknown-linux-gnu";
  static constexpr const char *arch = "x86-64";
  /// The same as artifacts and the runtime call it.
  static constexpr const char *artifactArch = "x86_64";

  /// `name` is "host", a level ("x86-64-v3") or any LLVM CPU name; an unknown one is an error that lists similar names.
  static llvm::Expected<TargetModel> parse(StringRef name);
  static llvm::Expected<TargetModel> fromAttr(TargetAttr attr);
  TargetAttr toAttr(MLIRContext *context) const;
  /// Names of the features the code may use and the machine must have, sorted ("avx2", "avx512f", ...).
  std::vector<std::string> requiredFeatures() const;
};

/// Name of the module attribute that carries the target: a #k3.target.
inline constexpr StringRef targetAttrName = "k3.target";

/// The target of the innermost enclosing op that has one; emits an error if there is none or it is unknown.
FailureOr<TargetModel> getTargetModel(Operation *op);

} // namespace k3
} // namespace mlir

#endif // K3_CODEGEN_COMMON_TARGETMODEL_H
