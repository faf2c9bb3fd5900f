//===- Artifact.h - an opened .k3a file ----------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_ARTIFACT_ARTIFACT_H
#define K3RT_ARTIFACT_ARTIFACT_H

#include "runtime/schemas/k3_artifact_generated.h"
#include "runtime/src/base/DeviceName.h"
#include "runtime/src/base/MappedFile.h"

namespace k3rt {

/// A mapped artifact whose header, hashes and index have been checked (see
/// checkArtifact). Its code has not been loaded and its weights not been read.
class Artifact {
public:
  /// The artifact at `offset` of the file, a multiple of 4096 (0 for a plain
  /// .k3a). Errors: K3RT_IO_ERROR, K3RT_BAD_ARTIFACT, K3RT_INVALID_ARGUMENT for
  /// the offset; one line that starts with the path.
  Status open(const std::string &path, uint64_t offset);

  const k3::artifact::Artifact &index() const { return *root; }
  const std::string &path() const { return filePath; }
  /// The folder the file is in: "." for a bare file name.
  std::string directory() const;

  /// Start and size of the artifact inside its file.
  const char *data() const { return file.data() + begin; }
  uint64_t size() const { return length; }

  /// Compares the recorded hash of every blob; weights are left out. Error as
  /// open.
  Status checkBlobs() const;
  /// One blob, named `what` in messages. A hash of 0 is not checked.
  Status checkBlob(const k3::artifact::Blob &blob, const char *what) const;

  /// Whether it has programs for `device`; K3RT_UNSUPPORTED.
  Status checkFor(const DeviceName &device) const;

  void willNeed(uint64_t offset, uint64_t bytes) const {
    file.willNeed(begin + offset, bytes);
  }

private:
  Status openAt(uint64_t offset);

  std::string filePath;
  MappedFile file;
  uint64_t begin = 0, length = 0;
  const k3::artifact::Artifact *root = nullptr;
};

/// checkArtifact for bytes in memory, 8-byte aligned: header, hashes, index.
/// On success `out` points into them. Errors without a path.
Status parseArtifact(const char *data, uint64_t size,
                     const k3::artifact::Artifact *&out, uint64_t &length);

} // namespace k3rt

#endif // K3RT_ARTIFACT_ARTIFACT_H
