//===- OutputFile.h - a file that appears whole or not at all -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_ARTIFACT_OUTPUTFILE_H
#define K3_CODEGEN_ARTIFACT_OUTPUTFILE_H

#include "frontend/Status.h"

#include <cstdint>
#include <string>

namespace mlir::k3 {

/// Written under a temporary name in the folder of its final path and renamed at the end. Without a successful commit,
/// also on SIGINT and SIGTERM, nothing of it is left and an older file of that path stays as it was. Errors name the
/// final path and the reason.
class OutputFile {
public:
  OutputFile() = default;
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;
  ~OutputFile() { discard(); }

  /// Refuses a path that is there but is not a regular file.
  ::k3::frontend::Status open(const std::string &path, bool executable = false);

  /// Takes the disk space of a file of `bytes`, where the file system can.
  ::k3::frontend::Status reserve(uint64_t bytes);

  ::k3::frontend::Status writeAt(uint64_t offset, const void *data, uint64_t bytes);

  /// Makes the file `bytes` long, flushes it and gives it its name.
  ::k3::frontend::Status commit(uint64_t bytes);

  void discard();

  const std::string &path() const { return finalPath; }
  /// Where the bytes are before commit.
  const std::string &temporaryPath() const { return temporary; }

private:
  ::k3::frontend::Status fail(const char *action, int error) const;

  std::string finalPath, temporary;
  int fd = -1;
};

} // namespace mlir::k3

#endif // K3_CODEGEN_ARTIFACT_OUTPUTFILE_H
