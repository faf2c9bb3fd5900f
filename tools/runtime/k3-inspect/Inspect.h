//===- Inspect.h - views of an artifact ----------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3INSPECT_INSPECT_H
#define K3_TOOLS_K3INSPECT_INSPECT_H

#include "runtime/src/artifact/Artifact.h"

#include <optional>
#include <string>

namespace k3inspect {

/// Only this program, or (without a phase) everything.
struct Selection {
  std::optional<k3::artifact::Phase> phase;
  bool gpu =
      false; ///< else the first one of the phase, the CPU's if it has one

  explicit operator bool() const { return phase.has_value(); }
};

/// The selected program, or null.
const k3::artifact::Program *findProgram(const k3::artifact::Artifact &index,
                                         const Selection &selection);

/// Lines whose form is stable: one fact per line, two spaces per level.
std::string toText(const k3::artifact::Artifact &index, Selection selection);

/// One JSON object, indented by 2. Keys are those of the schema.
std::string toJson(const k3::artifact::Artifact &index, Selection selection);

/// The dispatches of a program as a Graphviz graph: one box per dispatch, one
/// cluster per group, an arrow from the last writer of a buffer to its readers.
std::string toDot(const k3::artifact::Artifact &index,
                  const k3::artifact::Program &program);

/// Everything that opening a model checks, without running it: hashes of blobs
/// and embedded weights, weight files, this CPU. `report` gets a line for each
/// thing that is right; the first that is not is the error.
k3rt::Status check(const k3rt::Artifact &artifact,
                   const std::string &weightsDir, std::string &report);

} // namespace k3inspect

#endif // K3_TOOLS_K3INSPECT_INSPECT_H
