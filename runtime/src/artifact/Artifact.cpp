//===- Artifact.cpp - an opened .k3a file --------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/artifact/Artifact.h"
#include "k3rt/abi.h"
#include "runtime/src/artifact/CheckArtifact.h"
#include "runtime/src/artifact/Programs.h"
#include "runtime/src/base/Hash.h"

#include <cstddef>
#include <cstring>

namespace k3rt {

using Word = unsigned long long;

/// Tables that the FlatBuffers verifier may visit: a full K3 needs some ten
/// thousand; more than this would only be there to keep us busy.
static constexpr flatbuffers::uoffset_t maxIndexTables = 4u << 20;

static Status checkHeader(const k3_artifact_header &header, uint64_t size) {
  if (memcmp(header.magic, K3_ARTIFACT_MAGIC, sizeof(header.magic)) != 0)
    return Status(K3RT_BAD_ARTIFACT,
                  "not a k3 artifact: it does not start with K3A1");
  // Before the hash, which another version may compute over other bytes.
  if (header.abi_version != K3_ABI_VERSION)
    return makeError(K3RT_BAD_ARTIFACT,
                     "artifact version %u, this runtime reads version %u: "
                     "compile the model again with the matching k3-compile",
                     header.abi_version, K3_ABI_VERSION);
  if (hashBytes(&header, offsetof(k3_artifact_header, header_hash)) !=
      header.header_hash)
    return Status(K3RT_BAD_ARTIFACT,
                  "the header is damaged (its hash does not match)");
  if (header.file_length > size)
    return makeError(K3RT_BAD_ARTIFACT,
                     "truncated: %llu bytes, the header says %llu", Word(size),
                     Word(header.file_length));
  if (header.reserved[0] != 0 || header.reserved[1] != 0)
    return Status(K3RT_BAD_ARTIFACT, "reserved header fields are not zero");
  if (header.index_offset != sizeof(header) ||
      header.file_length < sizeof(header) ||
      header.index_length > header.file_length - sizeof(header) ||
      header.index_length >= FLATBUFFERS_MAX_BUFFER_SIZE)
    return makeError(K3RT_BAD_ARTIFACT,
                     "the index is at %llu + %llu of %llu bytes",
                     Word(header.index_offset), Word(header.index_length),
                     Word(header.file_length));
  return Status();
}

Status parseArtifact(const char *data, uint64_t size,
                     const k3::artifact::Artifact *&out, uint64_t &length) {
  k3_artifact_header header;
  if (size < sizeof(header))
    return makeError(K3RT_BAD_ARTIFACT,
                     "not a k3 artifact: %llu bytes, a header has %zu",
                     Word(size), sizeof(header));
  memcpy(&header, data, sizeof(header));
  K3RT_RETURN_IF_ERROR(checkHeader(header, size));
  const auto *index =
      reinterpret_cast<const uint8_t *>(data) + header.index_offset;
  if (hashBytes(index, header.index_length) != header.index_hash)
    return Status(K3RT_BAD_ARTIFACT,
                  "the index is damaged (its hash does not match)");
  flatbuffers::Verifier verifier(index, header.index_length, 64,
                                 maxIndexTables);
  if (!k3::artifact::VerifyArtifactBuffer(verifier))
    return Status(K3RT_BAD_ARTIFACT, "the index is not a valid FlatBuffer");
  const k3::artifact::Artifact *root = k3::artifact::GetArtifact(index);
  K3RT_RETURN_IF_ERROR(checkArtifact(
      *root, header.index_offset + header.index_length, header.file_length));
  out = root;
  length = header.file_length;
  return Status();
}

Status Artifact::openAt(uint64_t offset) {
  if (offset % K3_BLOB_ALIGNMENT != 0)
    return makeError(K3RT_INVALID_ARGUMENT,
                     "artifact offset %llu is not a multiple of %u",
                     Word(offset), K3_BLOB_ALIGNMENT);
  if (offset > file.size())
    return makeError(K3RT_INVALID_ARGUMENT,
                     "artifact offset %llu is beyond its %llu bytes",
                     Word(offset), Word(file.size()));
  begin = offset;
  return parseArtifact(file.data() + offset, file.size() - offset, root,
                       length);
}

Status Artifact::open(const std::string &path, uint64_t offset) {
  filePath = path;
  K3RT_RETURN_IF_ERROR(file.open(path));
  Status status = openAt(offset);
  if (status.ok())
    return status;
  return Status(status.code(), path + ": " + status.message());
}

std::string Artifact::directory() const {
  size_t slash = filePath.find_last_of('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : filePath.substr(0, slash);
}

Status Artifact::checkBlob(const k3::artifact::Blob &blob,
                           const char *what) const {
  if (blob.hash() == 0 ||
      hashBytes(data() + blob.offset(), blob.length()) == blob.hash())
    return Status();
  return makeError(K3RT_BAD_ARTIFACT,
                   "%s: %s is damaged (its hash does not match)",
                   filePath.c_str(), what);
}

Status Artifact::checkFor(const DeviceName &device) const {
  Status status = checkHasPrograms(*root, device);
  return status.ok() ? status
                     : Status(status.code(), filePath + ": " + status.message());
}

Status Artifact::checkBlobs() const {
  if (root->executables())
    for (const auto *executable : *root->executables())
      K3RT_RETURN_IF_ERROR(checkBlob(*executable->blob(), "an executable"));
  if (root->tokenizer())
    K3RT_RETURN_IF_ERROR(checkBlob(*root->tokenizer(), "the tokenizer"));
  return Status();
}

} // namespace k3rt
