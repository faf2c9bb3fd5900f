//===- Embedded.cpp - an artifact appended to this program --------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/Embedded.h"

#include "k3rt/abi.h"

#include <cstring>
#include <fstream>

namespace k3run {

bool findEmbedded(const std::string &programPath,
                  std::optional<ArtifactLocation> &embedded,
                  std::string &error) {
  embedded.reset();
  std::ifstream file(programPath, std::ios::binary | std::ios::ate);
  if (!file)
    return true;
  uint64_t size = static_cast<uint64_t>(file.tellg());
  k3_trailer trailer;
  if (size < sizeof(trailer))
    return true;
  file.seekg(static_cast<std::streamoff>(size - sizeof(trailer)));
  if (!file.read(reinterpret_cast<char *>(&trailer), sizeof(trailer)) ||
      std::memcmp(trailer.magic, K3_TRAILER_MAGIC, sizeof(trailer.magic)) != 0)
    return true;
  uint64_t end = size - sizeof(trailer);
  if (trailer.artifact_offset == 0 || trailer.artifact_offset > end ||
      trailer.artifact_length > end - trailer.artifact_offset) {
    error = programPath + ": the model inside is said to be at " +
            std::to_string(trailer.artifact_offset) + ", " +
            std::to_string(trailer.artifact_length) +
            " bytes long; the file has " + std::to_string(size) +
            " bytes, it is damaged";
    return false;
  }
  embedded = ArtifactLocation{programPath, trailer.artifact_offset};
  return true;
}

} // namespace k3run
