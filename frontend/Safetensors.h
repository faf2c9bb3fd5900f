//===- Safetensors.h - validated header of a safetensors file -------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// A file is an 8-byte little-endian header length, a JSON header and tensor
// data. Only the header is read. A SafetensorsHeader that was returned is
// consistent with the size of its file: every tensor's bytes lie inside, fit
// its shape and dtype, overlap no other tensor and leave no hole.
//===----------------------------------------------------------------------===//
#ifndef K3_FRONTEND_SAFETENSORS_H
#define K3_FRONTEND_SAFETENSORS_H

#include "frontend/Dtype.h"
#include "frontend/File.h"
#include "frontend/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace k3::frontend {

struct SafetensorsTensor {
  std::string name;
  Dtype dtype = Dtype::F32;
  std::vector<int64_t> shape; ///< empty for a scalar; extents may be 0
  uint64_t offset = 0;        ///< from the start of the file
  uint64_t bytes = 0;
};

struct SafetensorsHeader {
  uint64_t fileSize = 0;
  uint64_t dataStart = 0; ///< first byte of tensor data in the file
  std::vector<SafetensorsTensor> tensors; ///< sorted by name, none twice
  std::vector<std::pair<std::string, std::string>> metadata; ///< as written

  /// The tensor of that name, or nullptr.
  const SafetensorsTensor *find(std::string_view name) const;
};

/// The limit of the format's reference implementation.
constexpr uint64_t maxSafetensorsHeader = 100'000'000;

/// Reads and checks the header of a file.
Expected<SafetensorsHeader> readSafetensorsHeader(const InputFile &file);
Expected<SafetensorsHeader> readSafetensorsHeader(const std::string &path);

/// The same for a file whose first bytes are in memory: at least the length and
/// the header, unless the file is shorter.
Expected<SafetensorsHeader> parseSafetensors(std::string_view firstBytes,
                                             uint64_t fileSize,
                                             const std::string &fileName);

} // namespace k3::frontend

#endif // K3_FRONTEND_SAFETENSORS_H
