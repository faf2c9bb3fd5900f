//===- GpuTarget.h - what code generation knows of the target GPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_COMMON_GPUTARGET_H
#define K3_CODEGEN_COMMON_GPUTARGET_H

#include "mlir/Support/LLVM.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <string>

namespace mlir {
class MLIRContext;
class Operation;
namespace k3 {
class TargetAttr;

/// The GPU that kernels are compiled for. Kernels run on every GPU of the chip's kind: the number of multiprocessors
/// (that of an H100 or H200) decides how work is cut, not whether it is right.
struct GpuTarget {
  /// As LLVM, ptxas and the CUDA driver call it: "sm_90a".
  std::string chip;
  /// PTX version that LLVM emits, in its own syntax: "+ptx86".
  std::string features;
  int64_t multiprocessors = 132;
  /// Shared memory in bytes: of a block at most, and of a multiprocessor (each block takes 1 KB more than it asks for).
  int64_t sharedBytesPerBlock = 232448, sharedBytesPerMultiprocessor = 233472;
  int64_t registersPerMultiprocessor = 65536;
  int64_t warpSize = 32, maxThreadsPerBlock = 1024, maxThreadsPerMultiprocessor = 2048;
  /// wgmma, setmaxnreg; tensor maps and bulk copies; clusters of blocks.
  bool wgmma = false, tma = false, clusters = false;
  /// bf16 terms that the f32 inputs of products are split into where they are not rounded: 3 lose nothing, 2 leave 16 bits
  /// of 24. Of the module (`xTermsAttrName`), not of the chip.
  int64_t xTerms = 3;

  static constexpr const char *xTermsAttrName = "k3.x_terms";
  static constexpr const char *triple = "nvptx64-nvidia-cuda";
  static constexpr const char *arch = "nvidia";
  /// The first part of the target's name on the command line: "nvidia-sm90a".
  static constexpr const char *namePrefix = "nvidia-";

  /// `name` is "nvidia-sm90a"; another one is an error that says what is known.
  static llvm::Expected<GpuTarget> parse(StringRef name);
  static llvm::Expected<GpuTarget> fromAttr(TargetAttr attr);
  TargetAttr toAttr(MLIRContext *context) const;
};

/// The GPU of the innermost enclosing op that has a target, and the terms of the innermost that has some; emits an error if
/// there is no target, it is not a GPU, or the terms are not 2 or 3.
FailureOr<GpuTarget> getGpuTarget(Operation *op);

/// Whether the innermost enclosing op with a target is for a GPU.
bool isForGpu(Operation *op);

} // namespace k3
} // namespace mlir

#endif // K3_CODEGEN_COMMON_GPUTARGET_H
