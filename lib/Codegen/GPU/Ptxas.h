//===- Ptxas.h - NVIDIA's assembler -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_PTXAS_H
#define K3_CODEGEN_GPU_PTXAS_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace mlir::k3 {

/// What ptxas reports of a kernel.
struct KernelResources {
  int64_t registers = 0;         ///< per thread
  int64_t staticSharedBytes = 0; ///< per block
  int64_t stackBytes = 0;        ///< per thread
  int64_t spillBytes = 0;        ///< stored and loaded, per thread
  /// Its notes about the kernel that cost speed: wgmma serialised (C7510 to C7514), a wait put in (C7517), ...
  std::vector<std::string> notes;
};

struct Assembled {
  SmallVector<char> cubin;
  llvm::StringMap<KernelResources> kernels;
};

/// The program: $K3_PTXAS, or else the first of $PATH, /usr/local/cuda*/bin (the newest) and the folders where the PyPI
/// package nvidia-cuda-nvcc puts it. An error says where it was looked for.
llvm::Expected<std::string> findPtxas();

/// Where it is looked for behind $K3_PTXAS and $PATH, whether it is there or not, best first.
std::vector<std::string> listPtxasPlaces();

/// Assembles PTX for a chip ("sm_90a"). An error holds what ptxas says.
llvm::Expected<Assembled> assemblePtx(StringRef ptx, StringRef chip);

/// Reads the text that `ptxas -v` prints.
llvm::StringMap<KernelResources> parsePtxasReport(StringRef text);

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_PTXAS_H
