//===- File.h - bounded reads of regular files ----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_FRONTEND_FILE_H
#define K3_FRONTEND_FILE_H

#include "frontend/Status.h"

#include <cstdint>
#include <string>

namespace k3::frontend {

/// A regular file opened for positioned reads. Closed on destruction.
class InputFile {
public:
  static Expected<InputFile> open(const std::string &path);
  InputFile(InputFile &&other) noexcept;
  InputFile &operator=(InputFile &&other) noexcept;
  ~InputFile();

  const std::string &path() const { return name; }
  uint64_t size() const { return byteSize; }

  /// Reads exactly `length` bytes at `offset` into `out`; a shorter file, also
  /// one that shrank after it was opened, is an error.
  Status read(uint64_t offset, void *out, uint64_t length) const;

private:
  InputFile(std::string path, int descriptor, uint64_t size);
  std::string name;
  int fd = -1;
  uint64_t byteSize = 0;
};

/// The whole file; an error if it is longer than `maxBytes`.
Expected<std::string> readFile(const std::string &path, uint64_t maxBytes);

/// Whether something exists under that path.
bool pathExists(const std::string &path);

/// `directory` / `name` with exactly one slash between.
std::string joinPath(const std::string &directory, const std::string &name);

} // namespace k3::frontend

#endif // K3_FRONTEND_FILE_H
