//===- TokenizerData.h - tokenizer files as the artifact's tokenizer -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_ARTIFACT_TOKENIZERDATA_H
#define K3_CODEGEN_ARTIFACT_TOKENIZERDATA_H

#include "frontend/TokenizerFiles.h"

#include <cstdint>
#include <vector>

namespace mlir::k3 {

/// The tokenizer as bytes for the artifact (runtime/src/text/TokenizerBlob.h).
::k3::frontend::Expected<std::vector<uint8_t>> serializeTokenizerFiles(const ::k3::frontend::TokenizerFiles &files,
                                                                       const ::k3::frontend::ModelConfig &config);

} // namespace mlir::k3

#endif // K3_CODEGEN_ARTIFACT_TOKENIZERDATA_H
