//===- NonFiniteDump.h - a step that went wrong, to run it again ---------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// A folder with step.json (docs/json.md) and, for each sequence of the program
// run that had seen tokens before it, the state it had then: a state file.
//===----------------------------------------------------------------------===//
#ifndef K3RT_ENGINE_NONFINITEDUMP_H
#define K3RT_ENGINE_NONFINITEDUMP_H

#include "runtime/src/engine/FiniteWatch.h"

namespace k3rt {

struct DumpedPart {
  std::vector<int32_t> seen; ///< tokens before the run
  Allocation state;          ///< after them; empty if there are none
  std::vector<int32_t> tokens;
  uint32_t logitRows = 0;
};

struct NonFiniteDump {
  std::string model;        ///< name
  uint64_t fingerprint = 0; ///< of the model, as in state files
  const char *phase = "";
  std::vector<DumpedPart> parts;
  /// What went wrong; nothing if only logits did.
  std::optional<NonFiniteValue> first;
};

/// Makes `folder` if it is not there and writes into a new folder inside it,
/// whose path `outPath` is. Error: K3RT_IO_ERROR.
Status writeNonFiniteDump(const std::string &folder, const NonFiniteDump &dump,
                          std::string &outPath);

/// One line: "nan at [3, 17] of 'out', written by dispatch 'x' (kernel 'y') in
/// layer 2".
std::string describe(const NonFiniteValue &value);

} // namespace k3rt

#endif // K3RT_ENGINE_NONFINITEDUMP_H
