//===- FuzzArtifact.cpp - hostile artifacts ------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// The first byte says what follows: odd, a file from its header on; even, an
// index, for which a header with fitting hashes is made, so that mutations
// reach the checks behind them. An index that passes is planned and printed.
//===----------------------------------------------------------------------===//
#include "k3rt/abi.h"
#include "runtime/src/artifact/Artifact.h"
#include "runtime/src/base/Hash.h"
#include "runtime/src/state/MemoryPlan.h"
#include "tools/runtime/k3-inspect/Inspect.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <vector>

using namespace k3rt;

static k3_artifact_header headerFor(const uint8_t *index, size_t size) {
  k3_artifact_header header = {};
  memcpy(header.magic, K3_ARTIFACT_MAGIC, sizeof(header.magic));
  header.abi_version = K3_ABI_VERSION;
  // Blobs are not looked at; there may be as many as the index says.
  header.file_length = uint64_t(1) << 40;
  header.index_offset = sizeof(header);
  header.index_length = size;
  header.index_hash = hashBytes(index, size);
  header.header_hash =
      hashBytes(&header, offsetof(k3_artifact_header, header_hash));
  return header;
}

static void require(bool condition) {
  if (!condition)
    abort();
}

static void requireOneLine(const Status &status) {
  require(!status.message().empty() && status.message().size() < 1000);
  for (unsigned char c : status.message())
    require(c >= 0x20 && c < 0x7f);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  bool wholeFile = data[0] % 2 == 1;
  ++data, --size;
  // Exactly as long as the input, so that reads behind it are seen.
  size_t front = wholeFile ? 0 : sizeof(k3_artifact_header);
  char *bytes =
      static_cast<char *>(aligned_alloc(64, (front + size + 63) / 64 * 64));
  std::unique_ptr<char, void (*)(void *)> owner(bytes, free);
  uint64_t claimed = size;
  if (!wholeFile) {
    k3_artifact_header header = headerFor(data, size);
    memcpy(bytes, &header, sizeof(header));
    claimed = header.file_length;
  }
  memcpy(bytes + front, data, size);

  const k3::artifact::Artifact *index = nullptr;
  uint64_t length = 0;
  Status status = parseArtifact(bytes, claimed, index, length);
  if (!status.ok()) {
    requireOneLine(status);
    return 0;
  }
  require(index && length <= claimed);
  for (auto kind : {DeviceName::Kind::cpu, DeviceName::Kind::cuda})
    for (uint64_t limit : {uint64_t(0), uint64_t(1) << 20, UINT64_MAX})
      for (uint32_t sequences : {0u, 1u, 1u << 20}) {
        EngineOptions options;
        options.device.kind = kind;
        options.threads = 1;
        options.memoryLimit = limit;
        options.maxSequences = sequences;
        MemoryPlan plan;
        Status planned = planMemory(*index, options, plan);
        if (planned.ok())
          require(limit == 0 || plan.total() <= limit);
        else
          requireOneLine(planned);
      }
  k3inspect::toText(*index, k3inspect::Selection());
  k3inspect::toJson(*index, k3inspect::Selection());
  for (const auto *program : *index->programs())
    k3inspect::toDot(*index, *program);
  return 0;
}
