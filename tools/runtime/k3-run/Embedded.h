//===- Embedded.h - an artifact appended to this program ----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3RUN_EMBEDDED_H
#define K3_TOOLS_K3RUN_EMBEDDED_H

#include "tools/runtime/k3-run/Options.h"

namespace k3run {

/// Looks for the trailer of a self-contained executable (k3rt/abi.h) at the end
/// of `programPath`. Nothing when there is none. A trailer that points outside
/// the file gives false with one line in `error`.
[[nodiscard]] bool findEmbedded(const std::string &programPath,
                                std::optional<ArtifactLocation> &embedded,
                                std::string &error);

} // namespace k3run

#endif // K3_TOOLS_K3RUN_EMBEDDED_H
