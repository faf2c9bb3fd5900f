//===- MappedFile.h - read-only file mappings ----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_BASE_MAPPEDFILE_H
#define K3RT_BASE_MAPPEDFILE_H

#include "runtime/src/base/Status.h"

#include <cstdint>

namespace k3rt {

/// A whole regular file, mapped read-only and shared. The file must not be
/// truncated while it is mapped.
class MappedFile {
public:
  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept { *this = std::move(other); }
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  /// Error: K3RT_IO_ERROR, naming `path`. An empty file maps to size 0.
  Status open(const std::string &path);

  const char *data() const { return static_cast<const char *>(memory); }
  uint64_t size() const { return length; }

  /// Tells the system that [offset, offset + bytes) is going to be read. Only a
  /// hint: errors are of no consequence.
  void willNeed(uint64_t offset, uint64_t bytes) const;

private:
  void *memory = nullptr;
  uint64_t length = 0;
};

} // namespace k3rt

#endif // K3RT_BASE_MAPPEDFILE_H
