//===- KernelAttrNames.h - attributes of GPU kernels on their way to PTX -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_KERNELATTRNAMES_H
#define K3_CODEGEN_GPU_KERNELATTRNAMES_H

#include "lib/Codegen/Common/Kernels.h"

namespace mlir::k3 {

/// Of a kernel function: the strategy of its config (string), threads of a block (i64), bytes of dynamic shared memory
/// (i64), blocks per multiprocessor at least (i64, optional).
inline constexpr StringRef strategyAttrName = "k3.strategy";
inline constexpr StringRef threadsAttrName = "k3.threads";
inline constexpr StringRef sharedBytesAttrName = "k3.shared_bytes";
inline constexpr StringRef minBlocksAttrName = "k3.min_blocks";
/// Of a kernel function: it waits for the kernel in front of it (GpuBuilder::waitForPrevious), so that it may be launched
/// before that one has ended.
inline constexpr StringRef startsEarlyAttrName = "k3.starts_early";
/// Of a kernel function: its blocks wait for each other (GpuBuilder::setResident), so that all of them must run at once.
inline constexpr StringRef residentAttrName = "k3.resident";

/// Of arguments: the block's dynamic shared memory (unit), a tensor map (its number in the config). They come behind
/// the arguments of the kernel ABI; the first is no argument any more in the end.
inline constexpr StringRef sharedMemoryAttrName = "k3.shared_memory";
inline constexpr StringRef tensorMapAttrName = "k3.tensor_map";

/// The one symbol that dynamic shared memory starts at. There is no other shared memory: the two kinds would overlap.
inline constexpr StringRef sharedSymbolName = "k3_shared";

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_KERNELATTRNAMES_H
