//===- Describe.h - parts of an artifact in words ------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// All functions take parts of an index that passed checkArtifact.
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3INSPECT_DESCRIBE_H
#define K3_TOOLS_K3INSPECT_DESCRIBE_H

#include "runtime/schemas/k3_artifact_generated.h"

#include <string>

namespace k3inspect {

/// For one line on a terminal: control and non-ASCII bytes, quotes and
/// backslashes as \xNN. "-" for nothing.
std::string plain(const flatbuffers::String *text);

const char *dtypeName(k3::artifact::DType dtype);
const char *phaseName(k3::artifact::Phase phase);

/// "f32 [64, 8]".
std::string typeText(k3::artifact::DType dtype,
                     const flatbuffers::Vector<int64_t> *shape);

/// "T", "N + 1", "ceil(T * 3 / 4)"; an absent one is "1".
std::string termText(const k3::artifact::Term *term,
                     const k3::artifact::Program &program);

/// "f32 [2, T, 8]".
std::string typeText(const k3::artifact::Buffer &buffer,
                     const k3::artifact::Program &program);

/// "[ceil(T / 4), 2, 1]".
std::string gridText(const k3::artifact::Dispatch &dispatch,
                     const k3::artifact::Program &program);

/// "stream", "weight 3", "layer weight 0", "layer state 1".
std::string bindingText(const k3::artifact::Binding &binding,
                        const k3::artifact::Program &program);

/// "T", "layer scalar 1".
std::string scalarText(const k3::artifact::Scalar &scalar,
                       const k3::artifact::Program &program);

/// "256 threads, shared 64 + 0 bytes, 40 registers, spills 0 bytes, stack 0
/// bytes": dynamic and static shared memory of a block, and what every thread
/// takes. Clusters and tensor maps are named where there are any.
std::string launchText(const k3::artifact::Launch &launch);

/// Where a weight's bytes are: "embedded at 65536 + 2048", "model.k3w at 0 +
/// 64", "3 ranges".
std::string placeText(const k3::artifact::Weight &weight,
                      const k3::artifact::Artifact &index);

} // namespace k3inspect

#endif // K3_TOOLS_K3INSPECT_DESCRIBE_H
