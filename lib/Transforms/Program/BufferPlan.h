//===- BufferPlan.h - independent check of an arena plan -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TRANSFORMS_PROGRAM_BUFFERPLAN_H
#define K3_TRANSFORMS_PROGRAM_BUFFERPLAN_H

#include "dialects/k3/IR/K3Ops.h"

namespace mlir::k3 {

/// Every buffer in the arena starts at a multiple of this many bytes.
inline constexpr int64_t kArenaAlignment = 64;

/// Checks a planned program by going through its groups: every buffer of the arena has its bytes at the largest sizes,
/// aligned and inside the arena; a group touches no byte of a buffer that another buffer in use or needed later holds;
/// and a transient buffer is written before it is read. Emits an error at the first violation.
LogicalResult verifyBufferPlan(ExecProgramOp program);

} // namespace mlir::k3

#endif // K3_TRANSFORMS_PROGRAM_BUFFERPLAN_H
