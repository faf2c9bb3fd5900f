//===- WeightWriter.cpp - weights from shards into one file -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Artifact/WeightWriter.h"
#include "frontend/File.h"
#include "frontend/Progress.h"
#include "frontend/WeightValues.h"
#include "runtime/include/k3rt/abi.h"
#include "llvm/Support/MathExtras.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <optional>

using namespace mlir::k3;
using namespace ::k3::frontend;

static constexpr uint64_t pieceBytes = uint64_t(8) << 20;

WeightPlaces mlir::k3::placeWeights(const WeightTable &table, uint64_t begin) {
  WeightPlaces places;
  for (const WeightEntry &weight : table.weights) {
    begin = llvm::alignTo(begin, K3_WEIGHT_ALIGNMENT);
    places.offsets.push_back(begin);
    begin += weight.bytes;
  }
  places.end = begin;
  return places;
}

namespace {
/// Reads tensors in pieces and checks their values.
class WeightReader {
public:
  WeightReader(const Checkpoint &checkpoint, const char *what, uint64_t total)
      : checkpoint(checkpoint), progress(what, total), files(checkpoint.files().size()), piece(pieceBytes) {}

  /// Calls `take` with every piece that is good, in order.
  Status read(const WeightEntry &weight, const CheckpointTensor &tensor,
              llvm::function_ref<Status(const char *bytes, uint64_t size)> take);

private:
  Expected<const InputFile *> openFile(uint32_t index);
  /// `bytes` of the tensor as it is stored, with that shape.
  Status check(const WeightEntry &weight, const CheckpointTensor &tensor, const char *bytes,
               const std::vector<int64_t> &shape);

  const Checkpoint &checkpoint;
  Progress progress;
  std::vector<std::optional<InputFile>> files;
  std::vector<char> piece;
};
} // namespace

static bool isPackedCodes(const WeightEntry &weight) {
  return llvm::StringRef(weight.plan->key).ends_with("weight_packed");
}

Expected<const InputFile *> WeightReader::openFile(uint32_t index) {
  if (!files[index]) {
    Expected<InputFile> opened = InputFile::open(checkpoint.files()[index].path);
    if (!opened)
      return opened.status();
    files[index].emplace(std::move(*opened));
  }
  return &*files[index];
}

Status WeightReader::check(const WeightEntry &weight, const CheckpointTensor &tensor, const char *bytes,
                           const std::vector<int64_t> &shape) {
  const std::string &file = checkpoint.files()[tensor.file].path;
  if (llvm::StringRef(weight.plan->key).ends_with("weight_scale"))
    return checkScales(reinterpret_cast<const uint8_t *>(bytes), shape, tensor.name, file);
  return checkFinite(bytes, tensor.dtype, shape, tensor.name, file);
}

Status WeightReader::read(const WeightEntry &weight, const CheckpointTensor &tensor,
                          llvm::function_ref<Status(const char *, uint64_t)> take) {
  Expected<const InputFile *> file = openFile(tensor.file);
  if (!file)
    return file.status();
  for (uint64_t done = 0; done < tensor.bytes;) {
    uint64_t bytes = std::min(pieceBytes, tensor.bytes - done);
    if (Status status = (*file)->read(tensor.offset + done, piece.data(), bytes); !status.ok())
      return status;
    // A piece as a vector of its elements; where it is bad, the whole tensor is checked for the right position.
    int64_t elements = static_cast<int64_t>(bytes * 8 / bitWidth(tensor.dtype));
    if (!check(weight, tensor, piece.data(), {elements}).ok()) {
      std::vector<char> whole(tensor.bytes);
      if (Status status = (*file)->read(tensor.offset, whole.data(), tensor.bytes); !status.ok())
        return status;
      if (Status status = check(weight, tensor, whole.data(), tensor.shape); !status.ok())
        return status;
    }
    if (Status status = take(piece.data(), bytes); !status.ok())
      return status;
    progress.advance(bytes);
    done += bytes;
  }
  return Status::success();
}

Status mlir::k3::checkWeights(const WeightTable &table, const Checkpoint &checkpoint) {
  auto toRead = llvm::make_filter_range(table.weights, [](const WeightEntry &weight) { return !isPackedCodes(weight); });
  uint64_t total = 0;
  for (const WeightEntry &weight : toRead)
    total += weight.bytes;
  WeightReader reader(checkpoint, "checking weights", total);
  for (const WeightEntry &weight : toRead)
    for (const CheckpointTensor *tensor : weight.sources)
      if (Status status = reader.read(weight, *tensor, [](const char *, uint64_t) { return Status::success(); });
          !status.ok())
        return status;
  return Status::success();
}

Expected<std::vector<uint64_t>> mlir::k3::copyWeights(const WeightTable &table, const Checkpoint &checkpoint,
                                                      const WeightPlaces &places, uint64_t base, OutputFile &output) {
  WeightReader reader(checkpoint, "packing weights", table.bytes());
  std::vector<uint64_t> hashes;
  for (size_t i = 0; i < table.weights.size(); ++i) {
    const WeightEntry &weight = table.weights[i];
    XXH3_state_t hash;
    XXH3_INITSTATE(&hash);
    XXH3_64bits_reset(&hash);
    uint64_t offset = base + places.offsets[i];
    auto copy = [&](const char *bytes, uint64_t size) {
      XXH3_64bits_update(&hash, bytes, size);
      Status status = output.writeAt(offset, bytes, size);
      offset += size;
      return status;
    };
    for (const CheckpointTensor *tensor : weight.sources)
      if (Status status = reader.read(weight, *tensor, copy); !status.ok())
        return status;
    hashes.push_back(XXH3_64bits_digest(&hash));
  }
  return hashes;
}
