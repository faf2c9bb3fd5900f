//===- WeightStore.cpp - where the weights are in memory -----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/artifact/WeightStore.h"
#include "runtime/src/artifact/DType.h"
#include "runtime/src/artifact/RandomWeights.h"
#include "runtime/src/base/Hash.h"

namespace k3rt {

namespace schema = k3::artifact;
using Word = unsigned long long;

/// Hashing this much takes some tens of milliseconds.
static constexpr uint64_t alwaysVerifiedBytes = uint64_t(256) << 20;
/// Weights up to this size are read ahead at open.
static constexpr uint64_t readAheadBytes = uint64_t(1) << 30;

/// Whether its bytes lie in one piece, which a hash can be recorded of.
static bool isContiguous(const schema::Weight &weight) {
  return !weight.experts() || weight.experts()->size() == 0;
}

static bool isEmbedded(const schema::Weight &weight) {
  return weight.file() == -1 && isContiguous(weight);
}

static uint64_t embeddedBytes(const schema::Artifact &index) {
  uint64_t total = 0;
  if (index.weights())
    for (const auto *weight : *index.weights())
      if (isEmbedded(*weight))
        total += weight->range()->length();
  return total;
}

Status WeightStore::verify(const Artifact &artifact, bool onlyEmbedded,
                           const Progress &progress) const {
  const schema::Artifact &index = artifact.index();
  if (!index.has_weights() || !index.weights())
    return Status();
  std::vector<const schema::Weight *> hashed;
  uint64_t done = 0, total = 0;
  for (const auto *weight : *index.weights())
    if (weight->hash() != 0 && isContiguous(*weight) &&
        (isEmbedded(*weight) || !onlyEmbedded)) {
      hashed.push_back(weight);
      total += weight->range()->length();
    }
  for (const auto *weight : hashed) {
    const schema::Range &range = *weight->range();
    bool embedded = isEmbedded(*weight);
    const File *file = embedded ? nullptr : &files[size_t(weight->file())];
    const char *base = embedded ? artifact.data() : file->bytes.data();
    uint64_t hash = hashBytes(base + range.offset(), range.length(),
                              [&](size_t bytes) { progress(done += bytes, total); });
    if (hash != weight->hash()) {
      std::string name = weight->name() ? weight->name()->str() : "";
      return makeError(K3RT_BAD_ARTIFACT,
                       "%s: weight %s is damaged (its hash does not match)",
                       (embedded ? artifact.path() : file->path).c_str(),
                       quoted(name).c_str());
    }
  }
  return Status();
}

Status verifyEmbeddedWeights(const Artifact &artifact) {
  return WeightStore().verify(artifact, /*onlyEmbedded=*/true, Progress());
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
    File file;
    file.path = filePath(encoded->path()->str(), artifact, directory);
    if (Status status = file.bytes.open(file.path); !status.ok())
      return makeError(K3RT_IO_ERROR, "weight file %s",
                       status.message().c_str());
    if (file.bytes.size() != encoded->length())
      return makeError(K3RT_IO_ERROR,
                       "weight file %s: %llu bytes, but it had %llu when the "
                       "model was compiled",
                       file.path.c_str(), Word(file.bytes.size()),
                       Word(encoded->length()));
    files.push_back(std::move(file));
  }
  return Status();
}

template <typename TensorOf>
void WeightStore::bind(const schema::Artifact &index, TensorOf tensorOf) {
  for (const auto *weight : *index.weights()) {
    if (!weight->is_expert_group()) {
      bindings.push_back(tensorOf(*weight, 0));
      continue;
    }
    auto numExperts = uint32_t(weight->shape()->Get(0));
    std::unique_ptr<const void *[]> table(new const void *[numExperts]);
    for (uint32_t e = 0; e < numExperts; ++e)
      table[e] = tensorOf(*weight, e);
    bindings.push_back(table.get());
    expertTables.push_back(std::move(table));
  }
}

Status WeightStore::open(const Artifact &artifact, const std::string &directory,
                         bool verifyAll, const Progress &progress) {
  const schema::Artifact &index = artifact.index();
  K3RT_RETURN_IF_ERROR(openFiles(artifact, directory));
  uint64_t embedded = embeddedBytes(index);
  if (embedded <= readAheadBytes)
    artifact.willNeed(0, artifact.size());
  if (verifyAll || embedded <= alwaysVerifiedBytes)
    K3RT_RETURN_IF_ERROR(verify(artifact, /*onlyEmbedded=*/!verifyAll, progress));
  if (!index.weights())
    return Status();

  auto base = [&](int32_t file) {
    return file == -1 ? artifact.data() : files[size_t(file)].bytes.data();
  };
  bind(index, [&](const schema::Weight &weight, uint32_t expert) {
    if (!weight.experts() || weight.experts()->size() == 0) {
      const schema::Range &range = *weight.range();
      uint64_t stride = weight.is_expert_group()
                            ? range.length() / uint64_t(weight.shape()->Get(0))
                            : 0;
      return base(weight.file()) + range.offset() + stride * expert;
    }
    bool ownFile = weight.expert_files() && weight.expert_files()->size() != 0;
    int32_t file = ownFile ? weight.expert_files()->Get(expert) : weight.file();
    return base(file) + weight.experts()->Get(expert)->offset();
  });
  return Status();
}

Status WeightStore::generate(const schema::Artifact &index, uint64_t seed,
                             ThreadPool &threads, const Progress &progress) {
  std::vector<const char *> tensors;
  K3RT_RETURN_IF_ERROR(
      makeRandomWeights(index, seed, threads, progress, generated, tensors));
  if (index.weights())
    bind(index, [next = tensors.data()](const schema::Weight &, uint32_t) mutable {
      return *next++;
    });
  return Status();
}

} // namespace k3rt
