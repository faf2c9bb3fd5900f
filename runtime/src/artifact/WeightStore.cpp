//===- WeightStore.cpp - where the weights are in memory -----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/artifact/WeightStore.h"
#include "runtime/src/artifact/DType.h"
#include "runtime/src/base/Hash.h"

namespace k3rt {

namespace schema = k3::artifact;
using Word = unsigned long long;

/// Hashing this much takes some tens of milliseconds.
static constexpr uint64_t alwaysVerifiedBytes = uint64_t(256) << 20;
/// Weights up to this size are read ahead at open.
static constexpr uint64_t readAheadBytes = uint64_t(1) << 30;

static bool isEmbedded(const schema::Weight &weight) {
  return weight.file() == -1 &&
         (!weight.experts() || weight.experts()->size() == 0);
}

static uint64_t embeddedBytes(const schema::Artifact &index) {
  uint64_t total = 0;
  if (index.weights())
    for (const auto *weight : *index.weights())
      if (isEmbedded(*weight))
        total += weight->range()->length();
  return total;
}

Status verifyEmbeddedWeights(const Artifact &artifact) {
  const schema::Artifact &index = artifact.index();
  if (!index.has_weights() || !index.weights())
    return Status();
  for (const auto *weight : *index.weights()) {
    if (!isEmbedded(*weight) || weight->hash() == 0)
      continue;
    const schema::Range &range = *weight->range();
    if (hashBytes(artifact.data() + range.offset(), range.length()) !=
        weight->hash()) {
      std::string name = weight->name() ? weight->name()->str() : "";
      return makeError(K3RT_BAD_ARTIFACT,
                       "%s: weight %s is damaged (its hash does not match)",
                       artifact.path().c_str(), quoted(name).c_str());
    }
  }
  return Status();
}

static std::string filePath(const std::string &recorded,
                            const Artifact &artifact,
                            const std::string &directory) {
  if (!directory.empty())
    return directory + "/" + recorded.substr(recorded.find_last_of('/') + 1);
  return recorded[0] == '/' ? recorded : artifact.directory() + "/" + recorded;
}

Status WeightStore::openFiles(const Artifact &artifact,
                              const std::string &directory) {
  if (!artifact.index().files())
    return Status();
  for (const auto *encoded : *artifact.index().files()) {
    std::string path = filePath(encoded->path()->str(), artifact, directory);
    MappedFile file;
    if (Status status = file.open(path); !status.ok())
      return makeError(K3RT_IO_ERROR, "weight file %s",
                       status.message().c_str());
    if (file.size() != encoded->length())
      return makeError(K3RT_IO_ERROR,
                       "weight file %s: %llu bytes, but it had %llu when the "
                       "model was compiled",
                       path.c_str(), Word(file.size()),
                       Word(encoded->length()));
    files.push_back(std::move(file));
  }
  return Status();
}

Status WeightStore::open(const Artifact &artifact, const std::string &directory,
                         bool verifyAll) {
  const schema::Artifact &index = artifact.index();
  K3RT_RETURN_IF_ERROR(openFiles(artifact, directory));
  uint64_t embedded = embeddedBytes(index);
  if (embedded <= readAheadBytes)
    artifact.willNeed(0, artifact.size());
  if (verifyAll || embedded <= alwaysVerifiedBytes)
    K3RT_RETURN_IF_ERROR(verifyEmbeddedWeights(artifact));
  if (!index.weights())
    return Status();

  auto base = [&](int32_t file) {
    return file == -1 ? artifact.data() : files[size_t(file)].data();
  };
  for (const auto *weight : *index.weights()) {
    uint32_t apart = weight->experts() ? weight->experts()->size() : 0;
    const char *contiguous =
        apart == 0 ? base(weight->file()) + weight->range()->offset() : nullptr;
    if (!weight->is_expert_group()) {
      bindings.push_back(contiguous);
      continue;
    }
    auto numExperts = uint32_t(weight->shape()->Get(0));
    std::unique_ptr<const void *[]> table(new const void *[numExperts]);
    for (uint32_t e = 0; e < numExperts; ++e) {
      if (apart == 0) {
        table[e] = contiguous + weight->range()->length() / numExperts * e;
        continue;
      }
      bool ownFile = weight->expert_files() && weight->expert_files()->size();
      int32_t file = ownFile ? weight->expert_files()->Get(e) : weight->file();
      table[e] = base(file) + weight->experts()->Get(e)->offset();
    }
    bindings.push_back(table.get());
    expertTables.push_back(std::move(table));
  }
  return Status();
}

} // namespace k3rt
