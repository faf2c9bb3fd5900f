//===- ArtifactBuilder.cpp - programs, code and weights into a .k3a file -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Artifact/ArtifactBuilder.h"
#include "frontend/File.h"
#include "frontend/Text.h"
#include "lib/Codegen/Artifact/IndexBuilder.h"
#include "lib/Codegen/Artifact/WeightWriter.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "runtime/include/k3rt/abi.h"
#include "runtime/src/artifact/Artifact.h"
#include "runtime/src/artifact/WeightStore.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace mlir;
using namespace mlir::k3;
using ::k3::frontend::Expected;
using ::k3::frontend::InputFile;
using ::k3::frontend::Status;

/// Read back and compared with its hash after writing; more is trusted to the disk.
static constexpr uint64_t rereadBytes = uint64_t(256) << 20;

namespace {
class ArtifactWriter {
public:
  ArtifactWriter(ArrayRef<ModuleOp> modules, const ArtifactModel &model, const ArtifactOptions &options)
      : modules(modules), model(model), options(options) {}

  Expected<ArtifactSummary> run();

private:
  Status collectExecutables();
  void chooseWeights();
  Status listFiles();
  Status place();
  Status writeRuntime();
  Status writeBlobs();
  Status writeWeights();
  Status writeIndex();
  Status writeTrailer();
  Status reopen();
  void summarize();

  Status writeAt(uint64_t offset, const void *data, uint64_t bytes) {
    return output.writeAt(base + offset, data, bytes);
  }

  ArrayRef<ModuleOp> modules;
  const ArtifactModel &model;
  const ArtifactOptions &options;

  WeightTable table;
  ArtifactLayout layout;
  std::vector<ArrayRef<char>> executables;
  WeightPlaces places;
  OutputFile output, packed;
  uint64_t base = 0;                    ///< of the artifact in the file
  uint64_t indexLength = 0, length = 0; ///< of the artifact
  ArtifactSummary summary;
};
} // namespace

/// The machine code in an executable.
static Expected<ArrayRef<char>> getCode(ExecExecutableOp executable) {
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(executable.getElf())) {
    if (AsmResourceBlob *blob = resource.getRawHandle().getBlob())
      return blob->getData();
    return Status::error("executable " + executable.getSymName().str() + " has lost its machine code");
  }
  if (auto dense = dyn_cast<DenseElementsAttr>(executable.getElf()); dense && !dense.isSplat())
    return dense.getRawData();
  return Status::error("executable " + executable.getSymName().str() + " has no machine code");
}

Status ArtifactWriter::collectExecutables() {
  for (ModuleOp module : modules) {
    if (module.getOps<ExecExecutableOp>().empty())
      return Status::error("the module has no executable yet");
    for (auto executable : module.getOps<ExecExecutableOp>()) {
      Expected<ArrayRef<char>> code = getCode(executable);
      if (!code)
        return code.status();
      executables.push_back(*code);
    }
  }
  return Status::success();
}

void ArtifactWriter::chooseWeights() {
  if (!model.checkpoint)
    layout.weights = WeightsMode::None;
  else if (options.weights)
    layout.weights = *options.weights;
  else
    layout.weights = table.bytes() < kEmbedLimit ? WeightsMode::Embed : WeightsMode::Reference;
}

/// `path` without symbolic links in its folder; the name itself may be one.
static std::string getRealPath(StringRef path) {
  SmallString<256> folder;
  StringRef parent = llvm::sys::path::parent_path(path);
  if (llvm::sys::fs::real_path(parent.empty() ? "." : parent, folder))
    return path.str();
  llvm::sys::path::append(folder, llvm::sys::path::filename(path));
  return folder.str().str();
}

/// Relative if it is in the artifact's folder or below, so that both can be moved together.
static std::string getRecordedPath(StringRef path, StringRef artifact) {
  std::string real = getRealPath(path), realArtifact = getRealPath(artifact);
  std::string folder = llvm::sys::path::parent_path(realArtifact).str();
  if (folder.empty() || folder.back() != '/')
    folder += '/';
  return StringRef(real).starts_with(folder) ? real.substr(folder.size()) : real;
}

Status ArtifactWriter::listFiles() {
  if (layout.weights == WeightsMode::Pack) {
    SmallString<256> path(options.path);
    llvm::sys::path::replace_extension(path, "k3w");
    summary.weightsPath = path.str().str();
    if (summary.weightsPath == options.path)
      return Status::error(options.path + ": this is where the packed weights would go; choose another name");
    places = placeWeights(table, 0);
    layout.files.emplace_back(llvm::sys::path::filename(path).str(), places.end);
  } else if (layout.weights == WeightsMode::Reference) {
    for (const ::k3::frontend::CheckpointFile &file : model.checkpoint->files())
      layout.files.emplace_back(getRecordedPath(file.path, options.path), file.size);
  }
  return Status::success();
}

/// Decides where everything is; hashes of weights are not known yet.
Status ArtifactWriter::place() {
  layout.executables.resize(executables.size());
  layout.tokenizer.length = model.tokenizer.size();
  layout.weightOffsets.assign(table.weights.size(), 0);
  layout.weightHashes.assign(table.weights.size(), 0);
  Expected<flatbuffers::DetachedBuffer> draft = buildIndex(modules, model, table, layout);
  if (!draft)
    return draft.status();
  indexLength = draft->size();
  uint64_t cursor = sizeof(k3_artifact_header) + indexLength;
  auto placeBlob = [&](BlobPlace &blob, const void *data, uint64_t bytes) {
    blob.offset = llvm::alignTo(cursor, K3_BLOB_ALIGNMENT);
    blob.length = bytes;
    blob.hash = XXH3_64bits(data, bytes);
    cursor = blob.offset + bytes;
  };
  for (auto [blob, code] : llvm::zip_equal(layout.executables, executables))
    placeBlob(blob, code.data(), code.size());
  if (!model.tokenizer.empty())
    placeBlob(layout.tokenizer, model.tokenizer.data(), model.tokenizer.size());
  if (layout.weights == WeightsMode::Embed) {
    places = placeWeights(table, llvm::alignTo(cursor, K3_BLOB_ALIGNMENT));
    cursor = places.end;
  }
  if (layout.weights == WeightsMode::Embed || layout.weights == WeightsMode::Pack)
    layout.weightOffsets = places.offsets;
  length = cursor;
  return Status::success();
}

/// Copies the runtime in front, for a self-contained executable.
Status ArtifactWriter::writeRuntime() {
  if (options.runtimeProgram.empty())
    return Status::success();
  Expected<InputFile> file = InputFile::open(options.runtimeProgram);
  if (!file)
    return file.status();
  std::vector<char> bytes(file->size());
  if (Status status = file->read(0, bytes.data(), bytes.size()); !status.ok())
    return status;
  base = llvm::alignTo(bytes.size(), K3_BLOB_ALIGNMENT);
  return output.writeAt(0, bytes.data(), bytes.size());
}

Status ArtifactWriter::writeBlobs() {
  for (auto [blob, code] : llvm::zip_equal(layout.executables, executables))
    if (Status status = writeAt(blob.offset, code.data(), code.size()); !status.ok())
      return status;
  return writeAt(layout.tokenizer.offset, model.tokenizer.data(), model.tokenizer.size());
}

Status ArtifactWriter::writeWeights() {
  if (layout.weights == WeightsMode::Reference)
    return checkWeights(table, *model.checkpoint);
  if (layout.weights == WeightsMode::None)
    return Status::success();
  bool embed = layout.weights == WeightsMode::Embed;
  if (!embed) {
    if (Status status = packed.open(summary.weightsPath); !status.ok())
      return status;
    if (Status status = packed.reserve(places.end); !status.ok())
      return status;
  }
  Expected<std::vector<uint64_t>> hashes =
      copyWeights(table, *model.checkpoint, places, embed ? base : 0, embed ? output : packed);
  if (!hashes)
    return hashes.status();
  layout.weightHashes = std::move(*hashes);
  return Status::success();
}

Status ArtifactWriter::writeIndex() {
  Expected<flatbuffers::DetachedBuffer> index = buildIndex(modules, model, table, layout);
  if (!index)
    return index.status();
  assert(index->size() == indexLength && "the size of the index depends on the layout");
  k3_artifact_header header = {};
  std::memcpy(header.magic, K3_ARTIFACT_MAGIC, sizeof(header.magic));
  header.abi_version = K3_ABI_VERSION;
  header.file_length = length;
  header.index_offset = sizeof(header);
  header.index_length = indexLength;
  header.index_hash = XXH3_64bits(index->data(), index->size());
  header.header_hash = XXH3_64bits(&header, offsetof(k3_artifact_header, header_hash));
  if (Status status = writeAt(0, &header, sizeof(header)); !status.ok())
    return status;
  return writeAt(sizeof(header), index->data(), index->size());
}

Status ArtifactWriter::writeTrailer() {
  if (options.runtimeProgram.empty())
    return Status::success();
  k3_trailer trailer = {};
  trailer.artifact_offset = base;
  trailer.artifact_length = length;
  std::memcpy(trailer.magic, K3_TRAILER_MAGIC, sizeof(trailer.magic));
  return writeAt(length, &trailer, sizeof(trailer));
}

Status ArtifactWriter::reopen() {
  k3rt::Artifact artifact;
  k3rt::Status status = artifact.open(output.temporaryPath(), base);
  if (status.ok())
    status = artifact.checkBlobs();
  if (status.ok() && table.bytes() <= rereadBytes)
    status = k3rt::verifyEmbeddedWeights(artifact);
  if (status.ok())
    return Status::success();
  return Status::error("the artifact cannot be opened again (this is a defect of the compiler or of the disk): " +
                       status.message());
}

void ArtifactWriter::summarize() {
  summary.weights = layout.weights;
  summary.bytes = base + length + (options.runtimeProgram.empty() ? 0 : sizeof(k3_trailer));
  summary.weightBytes = table.bytes();
  for (ArrayRef<char> code : executables)
    summary.codeBytes += code.size();
  summary.indexBytes = indexLength;
  for (ModuleOp module : modules) {
    for (auto program : module.getOps<ExecProgramOp>()) {
      uint64_t &bytes = program.getPhase() == Phase::prefill ? summary.prefillArenaBytes : summary.decodeArenaBytes;
      bytes = std::max<uint64_t>(bytes, program.getArenaBytes().value_or(0));
    }
    summary.numKernels += llvm::range_size(module.getOps<ExecKernelOp>());
  }
}

Expected<ArtifactSummary> ArtifactWriter::run() {
  Expected<WeightTable> weights = buildWeightTable(modules, model.plan, model.checkpoint);
  if (!weights)
    return weights.status();
  table = std::move(*weights);
  if (Status status = collectExecutables(); !status.ok())
    return status;
  chooseWeights();
  if (Status status = listFiles(); !status.ok())
    return status;
  if (Status status = place(); !status.ok())
    return status;
  if (Status status = output.open(options.path, /*executable=*/!options.runtimeProgram.empty()); !status.ok())
    return status;
  if (Status status = writeRuntime(); !status.ok())
    return status;
  summarize();
  if (Status status = output.reserve(summary.bytes); !status.ok())
    return status;
  for (auto step : {&ArtifactWriter::writeBlobs, &ArtifactWriter::writeWeights, &ArtifactWriter::writeIndex,
                    &ArtifactWriter::writeTrailer, &ArtifactWriter::reopen})
    if (Status status = (this->*step)(); !status.ok())
      return status;
  if (!summary.weightsPath.empty())
    if (Status status = packed.commit(places.end); !status.ok())
      return status;
  if (Status status = output.commit(summary.bytes); !status.ok())
    return status;
  return summary;
}

Expected<ArtifactSummary> mlir::k3::writeArtifact(ArrayRef<ModuleOp> modules, const ArtifactModel &model,
                                                  const ArtifactOptions &options) {
  return ArtifactWriter(modules, model, options).run();
}
