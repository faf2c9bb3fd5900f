//===- CheckArtifact.cpp - is an index fit to be run? --------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Every function returns the reason alone or with the place inside what it
// checks; its caller puts the outer place in front (K3RT_CHECK_AT).
//===----------------------------------------------------------------------===//
#include "runtime/src/artifact/CheckArtifact.h"
#include "k3rt/abi.h"
#include "runtime/src/artifact/DType.h"
#include "runtime/src/artifact/GpuChip.h"
#include "runtime/src/artifact/Inputs.h"
#include "runtime/src/base/Memory.h"

#include <algorithm>
#include <cstdarg>
#include <set>
#include <string_view>
#include <vector>

namespace k3rt {

namespace schema = k3::artifact;

namespace {

// Limits far above any model, which keep later arithmetic inside 64 bits.
constexpr uint32_t maxRank = 6;
constexpr uint32_t maxRows = 1u << 20;
constexpr uint32_t maxWidth = 1u << 24;
constexpr uint64_t maxBytes = uint64_t(1) << 48;
constexpr uint64_t maxScratch = uint64_t(1) << 30;
constexpr uint32_t maxParameters = 256;
constexpr uint32_t maxLayers = 4096;
constexpr int64_t maxBanSets = 1024;

// Limits of CUDA.
constexpr uint32_t maxBlockThreads = 1024;
constexpr uint32_t maxBlockSharedBytes = 227 << 10;
constexpr uint32_t maxClusterBlocks = 16;
constexpr int64_t maxGridX = INT32_MAX - int64_t(maxClusterBlocks);
constexpr int64_t maxGridYZ = 65535;
constexpr uint32_t maxKernelParameterBytes = 4096;
constexpr uint32_t tensorMapBytes = 128;
constexpr uint32_t maxTensorMapRank = 5;
constexpr uint32_t maxBoxSize = 256;
constexpr uint64_t tensorMapAlignment = 16;

__attribute__((format(printf, 1, 2))) Status bad(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Status status = makeErrorList(K3RT_BAD_ARTIFACT, format, arguments);
  va_end(arguments);
  return status;
}

using Word = unsigned long long;

std::string text(const flatbuffers::String *string) {
  return string ? quoted(string->c_str(), string->size()) : "''";
}

template <typename Vector> uint32_t sizeOf(const Vector *vector) {
  return vector ? vector->size() : 0;
}

#define K3RT_CHECK_AT(expression, ...)                                         \
  do {                                                                         \
    if (Status inner = (expression); !inner.ok())                              \
      return Status(inner.code(),                                              \
                    formatText(__VA_ARGS__) + ": " + inner.message());         \
  } while (false)

/// Bytes of shape x dtype, all sizes at least 1.
Status bytesOf(schema::DType dtype, const flatbuffers::Vector<int64_t> *shape,
               uint64_t &out) {
  out = elementBytes(dtype);
  if (out == 0)
    return bad("unknown dtype %u", unsigned(dtype));
  if (sizeOf(shape) > maxRank)
    return bad("%u dimensions (at most %u)", shape->size(), maxRank);
  for (uint32_t i = 0; i < sizeOf(shape); ++i) {
    int64_t size = shape->Get(i);
    if (size < 1)
      return bad("dimension %u is %lld", i, static_cast<long long>(size));
    if (__builtin_mul_overflow(out, uint64_t(size), &out) || out > maxBytes)
      return bad("more than %llu bytes", Word(maxBytes));
  }
  return Status();
}

Status checkRange(uint64_t offset, uint64_t length, uint64_t begin,
                  uint64_t end, uint64_t alignment) {
  if (offset < begin || offset > end || length > end - offset)
    return bad("bytes %llu + %llu are outside %llu .. %llu", Word(offset),
               Word(length), Word(begin), Word(end));
  if (offset % alignment != 0)
    return bad("offset %llu is not a multiple of %llu", Word(offset),
               Word(alignment));
  return Status();
}

bool sameShape(const flatbuffers::Vector<int64_t> *a,
               const flatbuffers::Vector<int64_t> *b) {
  if (sizeOf(a) != sizeOf(b))
    return false;
  for (uint32_t i = 0; i < sizeOf(a); ++i)
    if (a->Get(i) != b->Get(i))
      return false;
  return true;
}

bool sameText(const flatbuffers::String *a, const flatbuffers::String *b) {
  return (a ? a->string_view() : std::string_view()) ==
         (b ? b->string_view() : std::string_view());
}

class Checker {
public:
  Checker(const schema::Artifact &index, uint64_t blobsBegin, uint64_t length)
      : index(index), blobsBegin(blobsBegin), length(length) {}

  Status run();

private:
  /// What every layer of a kind has.
  struct KindLimits {
    const schema::Layer *first = nullptr;
    uint32_t firstNumber = 0;
    uint32_t weights = 0, states = 0, scalars = 0;
    int64_t largestSlot = 0;
  };

  Status checkModel();
  Status checkBlob(const schema::Blob *blob);
  Status checkExecutables();
  Status checkKernels();
  Status checkKernel(const schema::Kernel &kernel);
  Status checkLaunch(const schema::Launch &launch);
  Status checkTensorMap(const schema::TensorMap &map);
  Status checkFiles();
  Status checkWeight(const schema::Weight &weight);
  Status checkWeightRange(const schema::Weight &weight, int32_t file,
                          uint64_t offset, uint64_t bytes);
  Status checkStates();
  Status checkState(const schema::State &state, uint64_t &bytes);
  Status checkLayers();
  Status checkLayer(const schema::Layer &layer, uint32_t number);
  Status checkAlike(const schema::Layer &layer, const schema::Layer &first);
  Status checkPrograms();

  const schema::Artifact &index;
  uint64_t blobsBegin, length;
  uint32_t numKinds = 0;
  std::vector<KindLimits> kinds;

  friend class ProgramChecker;
};

/// Checks one program.
class ProgramChecker {
public:
  ProgramChecker(const Checker &checker, const schema::Program &program)
      : checker(checker), index(checker.index), program(program) {}

  Status run();

private:
  using Groups = flatbuffers::Vector<flatbuffers::Offset<schema::Group>>;
  using Kind = Checker::KindLimits;

  Status decode(const schema::Term *encoded, Term &out) const {
    return decodeTerm(encoded, symbols.data(), numProgramSymbols, out);
  }
  Status valueAt(const schema::Term *encoded, const SymbolValues &values,
                 int64_t &out) const;
  Status largestValue(const schema::Term *encoded, int64_t &out) const;
  Status checkBuffer(const schema::Buffer &buffer);
  Status checkInput(const schema::Buffer &buffer);
  Status checkBanned(const schema::Buffer &buffer);
  Status checkIds(const schema::Buffer &buffer);
  Status checkOutput(const schema::Buffer &buffer);
  Status checkTransient(const schema::Buffer &buffer);
  Status checkStream(const schema::Buffer &buffer);
  Status checkGroups(const Groups *groups, const Kind *kind);
  Status checkDispatch(const schema::Dispatch &dispatch, const Kind *kind,
                       int64_t &tiles);
  Status checkCudaDispatch(const schema::Dispatch &dispatch,
                           const schema::Launch &launch, const Kind *kind);
  Status checkProduct(const schema::Product &product,
                      const schema::Dispatch &dispatch, const Kind *kind);
  Status checkTensorMap(const schema::TensorMap &map,
                        const schema::Dispatch &dispatch, const Kind *kind);
  Status checkBinding(const schema::Binding &binding, const Kind *kind);
  Status checkScalar(const schema::Scalar &scalar, const Kind *kind);

  const Checker &checker;
  const schema::Artifact &index;
  const schema::Program &program;
  std::array<Symbol, numSymbols> symbols = {};
  size_t numProgramSymbols = 0;
  SymbolValues smallest = {}, largest = {};
};

} // namespace

//===----------------------------------------------------------------------===//
// Model, code, weights
//===----------------------------------------------------------------------===//

Status Checker::run() {
  K3RT_CHECK_AT(checkModel(), "model");
  K3RT_RETURN_IF_ERROR(checkExecutables());
  K3RT_RETURN_IF_ERROR(checkKernels());
  K3RT_RETURN_IF_ERROR(checkFiles());
  for (uint32_t i = 0; i < sizeOf(index.weights()); ++i) {
    const schema::Weight &weight = *index.weights()->Get(i);
    K3RT_CHECK_AT(checkWeight(weight), "weight %u %s", i,
                  text(weight.name()).c_str());
  }
  K3RT_RETURN_IF_ERROR(checkStates());
  if (sizeOf(index.programs()) == 0)
    return bad("no program");
  numKinds = sizeOf(index.programs()->Get(0)->layer_kinds());
  K3RT_RETURN_IF_ERROR(checkLayers());
  K3RT_RETURN_IF_ERROR(checkPrograms());
  if (index.tokenizer())
    K3RT_CHECK_AT(checkBlob(index.tokenizer()), "tokenizer");
  return Status();
}

Status Checker::checkModel() {
  const schema::ModelInfo *model = index.model();
  if (!model)
    return bad("missing");
  if (model->vocab_size() < 1 || model->vocab_size() > maxWidth)
    return bad("vocab_size is %u (1 to %u)", model->vocab_size(), maxWidth);
  if (model->hidden_size() < 1 || model->hidden_size() > maxWidth)
    return bad("hidden_size is %u (1 to %u)", model->hidden_size(), maxWidth);
  if (model->max_position_embeddings() > uint64_t(INT32_MAX))
    return bad("max_position_embeddings is %llu (at most %d)",
               Word(model->max_position_embeddings()), INT32_MAX);
  return Status();
}

Status Checker::checkBlob(const schema::Blob *blob) {
  if (!blob)
    return bad("missing");
  return checkRange(blob->offset(), blob->length(), blobsBegin, length,
                    K3_BLOB_ALIGNMENT);
}

Status Checker::checkExecutables() {
  for (uint32_t i = 0; i < sizeOf(index.executables()); ++i) {
    const schema::Executable &executable = *index.executables()->Get(i);
    if (executable.kind() > schema::ExecutableKind::MAX)
      return bad("executable %u: unknown kind %u", i,
                 unsigned(executable.kind()));
    if (!executable.arch())
      return bad("executable %u: no arch", i);
    if (executable.kind() == schema::ExecutableKind::Cubin &&
        (!executable.cpu() || !parseGpuChip(executable.cpu()->string_view())))
      return bad("executable %u: a cubin for %s, not for a chip like sm_90a", i,
                 text(executable.cpu()).c_str());
    K3RT_CHECK_AT(checkBlob(executable.blob()), "executable %u", i);
  }
  return Status();
}

Status Checker::checkKernels() {
  for (uint32_t i = 0; i < sizeOf(index.kernels()); ++i) {
    const schema::Kernel &kernel = *index.kernels()->Get(i);
    K3RT_CHECK_AT(checkKernel(kernel), "kernel %u %s", i,
                  text(kernel.name()).c_str());
  }
  return Status();
}

Status Checker::checkKernel(const schema::Kernel &kernel) {
  if (kernel.executable() >= sizeOf(index.executables()))
    return bad("executable %u of %u", kernel.executable(),
               sizeOf(index.executables()));
  bool isElf = index.executables()->Get(kernel.executable())->kind() ==
               schema::ExecutableKind::Elf;
  if (isElf && kernel.launch())
    return bad("a launch, but executable %u is not a cubin",
               kernel.executable());
  uint64_t most = isElf ? maxScratch : 0;
  if (kernel.scratch_bytes() > most)
    return bad("%llu bytes of scratch memory (at most %llu)",
               Word(kernel.scratch_bytes()), Word(most));
  if (isElf && kernel.product())
    return bad("a product, but executable %u is not a cubin",
               kernel.executable());
  if (isElf)
    return Status();
  if (!kernel.launch())
    return bad("no launch, but executable %u is a cubin", kernel.executable());
  K3RT_CHECK_AT(checkLaunch(*kernel.launch()), "launch");
  return Status();
}

Status Checker::checkLaunch(const schema::Launch &launch) {
  if (!launch.entry() || launch.entry()->size() == 0)
    return bad("no entry");
  for (unsigned char c : launch.entry()->string_view())
    if (c <= 0x20 || c >= 0x7f)
      return bad("entry %s is not a symbol", text(launch.entry()).c_str());
  if (launch.threads() < 1 || launch.threads() > maxBlockThreads)
    return bad("%u threads (1 to %u)", launch.threads(), maxBlockThreads);
  uint64_t sharedBytes =
      uint64_t(launch.dynamic_shared_bytes()) + launch.static_shared_bytes();
  if (sharedBytes > maxBlockSharedBytes)
    return bad("%llu bytes of shared memory (at most %u)", Word(sharedBytes),
               maxBlockSharedBytes);
  if (launch.cluster() < 1 || launch.cluster() > maxClusterBlocks)
    return bad("clusters of %u blocks (1 to %u)", launch.cluster(),
               maxClusterBlocks);
  if (launch.resident() && launch.cluster() != 1)
    return bad("resident, but in clusters of %u blocks", launch.cluster());
  for (uint32_t i = 0; i < sizeOf(launch.tensor_maps()); ++i)
    K3RT_CHECK_AT(checkTensorMap(*launch.tensor_maps()->Get(i)),
                  "tensor map %u", i);
  return Status();
}

/// What does not depend on the binding.
Status Checker::checkTensorMap(const schema::TensorMap &map) {
  uint32_t rank = sizeOf(map.box());
  if (rank < 1 || rank > maxTensorMapRank)
    return bad("a box of %u dimensions (1 to %u)", rank, maxTensorMapRank);
  for (uint32_t size : *map.box())
    if (size < 1 || size > maxBoxSize)
      return bad("a box with a size of %u (1 to %u)", size, maxBoxSize);
  if (map.swizzle() != 0 && map.swizzle() != 32 && map.swizzle() != 64 &&
      map.swizzle() != 128)
    return bad("a swizzle of %u bytes (0, 32, 64 or 128)", map.swizzle());
  return Status();
}

Status Checker::checkFiles() {
  for (uint32_t i = 0; i < sizeOf(index.files()); ++i) {
    const schema::WeightFile &file = *index.files()->Get(i);
    if (!file.path() || file.path()->size() == 0)
      return bad("weight file %u: no path", i);
    // Messages show paths as they are.
    for (unsigned char c : file.path()->string_view())
      if (c < 0x20 || c == 0x7f)
        return bad("weight file %u: control character in path %s", i,
                   text(file.path()).c_str());
  }
  return Status();
}

Status Checker::checkWeight(const schema::Weight &weight) {
  uint64_t bytes;
  K3RT_RETURN_IF_ERROR(bytesOf(weight.dtype(), weight.shape(), bytes));
  uint32_t numExperts = 0;
  if (weight.is_expert_group()) {
    if (sizeOf(weight.shape()) == 0)
      return bad("an expert group needs a shape");
    if (weight.shape()->Get(0) > int64_t(maxWidth))
      return bad("%lld experts (at most %u)",
                 static_cast<long long>(weight.shape()->Get(0)), maxWidth);
    numExperts = uint32_t(weight.shape()->Get(0));
  }
  uint32_t apart = sizeOf(weight.experts());
  if (apart != 0 && apart != numExperts)
    return bad("%u ranges for %u experts", apart, numExperts);
  uint32_t files = sizeOf(weight.expert_files());
  if (files != 0 && files != apart)
    return bad("%u files for %u ranges", files, apart);
  if (!index.has_weights())
    return Status();
  if (apart == 0) {
    if (!weight.range())
      return bad("no range");
    if (weight.range()->length() != bytes)
      return bad("%llu bytes, but its shape needs %llu",
                 Word(weight.range()->length()), Word(bytes));
    return checkWeightRange(weight, weight.file(), weight.range()->offset(),
                            bytes);
  }
  uint64_t each = bytes / numExperts;
  for (uint32_t e = 0; e < apart; ++e) {
    const schema::Range &range = *weight.experts()->Get(e);
    if (range.length() != each)
      return bad("expert %u: %llu bytes, but its shape needs %llu", e,
                 Word(range.length()), Word(each));
    int32_t file = files ? weight.expert_files()->Get(e) : weight.file();
    K3RT_CHECK_AT(checkWeightRange(weight, file, range.offset(), each),
                  "expert %u", e);
  }
  return Status();
}

Status Checker::checkWeightRange(const schema::Weight &weight, int32_t file,
                                 uint64_t offset, uint64_t bytes) {
  if (file == -1)
    return checkRange(offset, bytes, blobsBegin, length, K3_WEIGHT_ALIGNMENT);
  if (file < 0 || uint32_t(file) >= sizeOf(index.files()))
    return bad("weight file %d of %u", file, sizeOf(index.files()));
  // Kernels load elements from shards with at most this alignment.
  uint64_t alignment = elementBytes(weight.dtype()) == 1 ? 1 : 2;
  return checkRange(offset, bytes, 0,
                    index.files()->Get(uint32_t(file))->length(), alignment);
}

//===----------------------------------------------------------------------===//
// States, layers
//===----------------------------------------------------------------------===//

Status Checker::checkState(const schema::State &state, uint64_t &bytes) {
  if (!state.name() || state.name()->size() == 0)
    return bad("no name");
  if (state.kind() > schema::StateKind::MAX)
    return bad("unknown kind %u", unsigned(state.kind()));
  if (state.layer() >= sizeOf(index.layers()))
    return bad("layer %u of %u", state.layer(), sizeOf(index.layers()));
  K3RT_RETURN_IF_ERROR(bytesOf(state.dtype(), state.shape(), bytes));
  if (state.kind() != schema::StateKind::KvCache)
    return Status();
  if (state.page_tokens() < 1 || state.page_tokens() > maxRows)
    return bad("page_tokens is %u (1 to %u)", state.page_tokens(), maxRows);
  if (sizeOf(state.shape()) != 2 ||
      state.shape()->Get(0) != int64_t(state.page_tokens()))
    return bad("the shape of a page is not [%u, width]", state.page_tokens());
  return Status();
}

Status Checker::checkStates() {
  std::set<std::pair<uint32_t, std::string_view>> seen;
  uint32_t pageTokens = 0;
  uint64_t total = 0;
  for (uint32_t i = 0; i < sizeOf(index.states()); ++i) {
    const schema::State &state = *index.states()->Get(i);
    uint64_t bytes = 0;
    K3RT_CHECK_AT(checkState(state, bytes), "state %u %s", i,
                  text(state.name()).c_str());
    total += bytes;
    if (total > maxBytes)
      return bad("states of more than %llu bytes", Word(maxBytes));
    if (!seen.insert({state.layer(), state.name()->string_view()}).second)
      return bad("state %u: layer %u has %s twice", i, state.layer(),
                 text(state.name()).c_str());
    if (state.kind() != schema::StateKind::KvCache)
      continue;
    if (pageTokens == 0)
      pageTokens = state.page_tokens();
    if (state.page_tokens() != pageTokens)
      return bad("state %u: pages of %u tokens, others have %u", i,
                 state.page_tokens(), pageTokens);
  }
  return Status();
}

Status Checker::checkLayers() {
  if (sizeOf(index.layers()) > maxLayers)
    return bad("%u layers (at most %u)", index.layers()->size(), maxLayers);
  kinds.resize(numKinds);
  uint64_t listedStates = 0;
  for (uint32_t i = 0; i < sizeOf(index.layers()); ++i) {
    const schema::Layer &layer = *index.layers()->Get(i);
    K3RT_CHECK_AT(checkLayer(layer, i), "layer %u", i);
    listedStates += sizeOf(layer.states());
  }
  // No state is listed twice (checkLayer), so equal counts mean all are listed.
  if (listedStates != sizeOf(index.states()))
    return bad("layers list %llu of %u states", Word(listedStates),
               sizeOf(index.states()));
  return Status();
}

Status Checker::checkLayer(const schema::Layer &layer, uint32_t number) {
  if (layer.kind() >= numKinds)
    return bad("kind %u of %u", layer.kind(), numKinds);
  if (sizeOf(layer.weights()) > maxParameters ||
      sizeOf(layer.states()) > maxParameters ||
      sizeOf(layer.scalars()) > maxParameters)
    return bad("more than %u weights, states or scalars", maxParameters);
  for (uint32_t i = 0; i < sizeOf(layer.weights()); ++i)
    if (layer.weights()->Get(i) >= sizeOf(index.weights()))
      return bad("weight %u of %u", layer.weights()->Get(i),
                 sizeOf(index.weights()));
  std::set<uint32_t> seen;
  for (uint32_t i = 0; i < sizeOf(layer.states()); ++i) {
    uint32_t state = layer.states()->Get(i);
    if (state >= sizeOf(index.states()))
      return bad("state %u of %u", state, sizeOf(index.states()));
    if (index.states()->Get(state)->layer() != number)
      return bad("state %u belongs to layer %u", state,
                 index.states()->Get(state)->layer());
    if (!seen.insert(state).second)
      return bad("state %u twice", state);
  }
  int64_t slot = 0;
  for (uint32_t i = 0; i < sizeOf(layer.scalars()); ++i) {
    int64_t value = layer.scalars()->Get(i);
    if (value < 0 || value > int64_t(maxWidth))
      return bad("scalar %u is %lld (0 to %u)", i,
                 static_cast<long long>(value), maxWidth);
    if (i == 1)
      slot = value;
  }
  KindLimits &kind = kinds[layer.kind()];
  if (!kind.first) {
    kind.first = &layer;
    kind.firstNumber = number;
    kind.weights = sizeOf(layer.weights());
    kind.states = sizeOf(layer.states());
    kind.scalars = sizeOf(layer.scalars());
  } else {
    K3RT_CHECK_AT(checkAlike(layer, *kind.first),
                  "differs from layer %u of the same kind", kind.firstNumber);
  }
  kind.largestSlot = std::max(kind.largestSlot, slot);
  return Status();
}

/// Kernels are compiled for one shape and type per parameter.
Status Checker::checkAlike(const schema::Layer &layer,
                           const schema::Layer &first) {
  if (sizeOf(layer.weights()) != sizeOf(first.weights()) ||
      sizeOf(layer.states()) != sizeOf(first.states()) ||
      sizeOf(layer.scalars()) != sizeOf(first.scalars()))
    return bad("in the number of weights, states or scalars");
  for (uint32_t i = 0; i < sizeOf(layer.weights()); ++i) {
    const auto &a = *index.weights()->Get(layer.weights()->Get(i));
    const auto &b = *index.weights()->Get(first.weights()->Get(i));
    if (a.dtype() != b.dtype() || !sameShape(a.shape(), b.shape()) ||
        a.is_expert_group() != b.is_expert_group())
      return bad("in the type of weight %u %s", i, text(a.name()).c_str());
  }
  for (uint32_t i = 0; i < sizeOf(layer.states()); ++i) {
    const auto &a = *index.states()->Get(layer.states()->Get(i));
    const auto &b = *index.states()->Get(first.states()->Get(i));
    if (a.dtype() != b.dtype() || a.kind() != b.kind() ||
        !sameShape(a.shape(), b.shape()) || !sameText(a.name(), b.name()))
      return bad("in state %u %s", i, text(a.name()).c_str());
  }
  return Status();
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

static const char *phaseName(schema::Phase phase) {
  return phase == schema::Phase::Prefill ? "prefill" : "decode";
}

/// Programs for the CPU are the rule.
static const char *kindPrefix(const schema::Program &program) {
  return program.executable_kind() == schema::ExecutableKind::Cubin ? "GPU "
                                                                    : "";
}

Status Checker::checkPrograms() {
  bool seen[2][2] = {};
  for (uint32_t i = 0; i < sizeOf(index.programs()); ++i) {
    const schema::Program &program = *index.programs()->Get(i);
    if (program.phase() > schema::Phase::MAX)
      return bad("program %u: unknown phase %u", i, unsigned(program.phase()));
    if (program.executable_kind() > schema::ExecutableKind::MAX)
      return bad("program %u: unknown kind of executables %u", i,
                 unsigned(program.executable_kind()));
    bool &seenThis =
        seen[size_t(program.executable_kind())][size_t(program.phase())];
    if (seenThis)
      return bad("program %u: a second %s%s program", i, kindPrefix(program),
                 phaseName(program.phase()));
    seenThis = true;
    if (sizeOf(program.layer_kinds()) != numKinds)
      return bad("program %u: %u layer kinds, program 0 has %u", i,
                 sizeOf(program.layer_kinds()), numKinds);
    K3RT_CHECK_AT(ProgramChecker(*this, program).run(), "%s%s program",
                  kindPrefix(program), phaseName(program.phase()));
  }
  for (const auto *program : *index.programs())
    if (!seen[size_t(program->executable_kind())]
             [size_t(schema::Phase::Prefill)])
      return bad("no %sprefill program", kindPrefix(*program));
  for (const auto *a : *index.programs())
    for (const auto *b : *index.programs())
      if (a->executable_kind() == b->executable_kind() &&
          numBanSets(*a) != numBanSets(*b))
        return bad("%sprograms with %u and with %u sets of banned tokens",
                   kindPrefix(*a), numBanSets(*a), numBanSets(*b));
  return Status();
}

SymbolValues largestStep(const schema::Program &program, int64_t slots,
                         int64_t pages, int64_t pagesPerSequence) {
  SymbolValues values = {};
  values[Symbol::rows] = program.max_tokens();
  values[Symbol::sequences] =
      std::min(program.max_sequences(), program.max_tokens());
  values[Symbol::chunks] = maxChunks(
      program.max_tokens(), program.max_sequences(), program.chunk_rows());
  values[Symbol::logitRows] =
      std::min(program.max_logit_rows(), program.max_tokens());
  values[Symbol::slots] = slots;
  values[Symbol::pages] = pages;
  values[Symbol::pagesPerSequence] = pagesPerSequence;
  return values;
}

Status ProgramChecker::run() {
  struct {
    const char *name;
    uint32_t value;
  } limits[] = {{"max_tokens", program.max_tokens()},
                {"max_sequences", program.max_sequences()},
                {"max_logit_rows", program.max_logit_rows()}};
  for (const auto &limit : limits)
    if (limit.value < 1 || limit.value > maxRows)
      return bad("%s is %u (1 to %u)", limit.name, limit.value, maxRows);
  if (program.chunk_rows() > maxRows)
    return bad("chunk_rows is %u (at most %u)", program.chunk_rows(), maxRows);
  if (program.arena_bytes() > maxBytes)
    return bad("an arena of %llu bytes (at most %llu)",
               Word(program.arena_bytes()), Word(maxBytes));
  K3RT_RETURN_IF_ERROR(decodeSymbols(program, symbols, numProgramSymbols));
  largest = largestStep(program, 1, 1, 1);
  smallest = SymbolValues{{{1, 1, program.chunk_rows() ? 1 : 0, 0, 1, 1, 1}}};

  std::set<std::string_view> names;
  bool hasLogits = false, hasIds = false;
  for (uint32_t i = 0; i < sizeOf(program.buffers()); ++i) {
    const schema::Buffer &buffer = *program.buffers()->Get(i);
    if (!buffer.name())
      return bad("buffer %u: no name", i);
    if (!names.insert(buffer.name()->string_view()).second)
      return bad("buffer %u: a second buffer named %s", i,
                 text(buffer.name()).c_str());
    K3RT_CHECK_AT(checkBuffer(buffer), "buffer %u %s", i,
                  text(buffer.name()).c_str());
    bool isOutput = buffer.role() == schema::BufferRole::Output;
    bool isIds = isOutput && buffer.name()->string_view() == "ids";
    hasLogits |= isOutput && !isIds;
    hasIds |= isIds;
  }
  if (!hasLogits)
    return bad("no output");
  if (hasIds && (!names.count(inputName(Input::sampling)) ||
                 !names.count(inputName(Input::banned))))
    return bad("ids without the inputs sampling and banned");

  K3RT_CHECK_AT(checkGroups(program.prologue(), nullptr), "prologue");
  for (uint32_t i = 0; i < sizeOf(program.layer_kinds()); ++i) {
    const schema::LayerKind &kind = *program.layer_kinds()->Get(i);
    // A kind without layers is never run: its ordinals have nothing to be
    // checked against.
    if (checker.kinds[i].first)
      K3RT_CHECK_AT(checkGroups(kind.groups(), &checker.kinds[i]),
                    "layer kind %s", text(kind.name()).c_str());
  }
  K3RT_CHECK_AT(checkGroups(program.epilogue(), nullptr), "epilogue");
  return Status();
}

Status ProgramChecker::valueAt(const schema::Term *encoded,
                               const SymbolValues &values, int64_t &out) const {
  Term term;
  K3RT_RETURN_IF_ERROR(decode(encoded, term));
  std::optional<int64_t> value = term.evaluate(values);
  if (!value)
    return bad("a size is negative or too large");
  out = *value;
  return Status();
}

/// Terms grow with every symbol, so one that is fit for the smallest and the
/// largest step is fit for all.
Status ProgramChecker::largestValue(const schema::Term *encoded,
                                    int64_t &out) const {
  K3RT_RETURN_IF_ERROR(valueAt(encoded, smallest, out));
  return valueAt(encoded, largest, out);
}

Status ProgramChecker::checkBuffer(const schema::Buffer &buffer) {
  if (elementBytes(buffer.dtype()) == 0)
    return bad("unknown dtype %u", unsigned(buffer.dtype()));
  if (sizeOf(buffer.shape()) > maxRank)
    return bad("%u dimensions (at most %u)", buffer.shape()->size(), maxRank);
  switch (buffer.role()) {
  case schema::BufferRole::Input:
    return checkInput(buffer);
  case schema::BufferRole::Output:
    return checkOutput(buffer);
  case schema::BufferRole::Transient:
    return checkTransient(buffer);
  }
  return bad("unknown role %u", unsigned(buffer.role()));
}

/// Two steps that tell all symbols apart; a shape that agrees on both is taken
/// for the right one.
static std::array<SymbolValues, 2> probes() {
  return {SymbolValues{{{7, 3, 5, 2, 11, 13, 17}}},
          SymbolValues{{{64, 29, 41, 19, 23, 31, 37}}}};
}

Status ProgramChecker::checkInput(const schema::Buffer &buffer) {
  std::optional<Input> input = inputNamed(buffer.name()->string_view());
  if (!input)
    return bad("unknown input");
  if (buffer.dtype() != schema::DType::I32)
    return bad("an input must be I32, not %s", EnumNameDType(buffer.dtype()));
  if (program.chunk_rows() == 0 &&
      (*input == Input::chunks || *input == Input::chunkCu))
    return bad("needs chunk_rows, which is 0");
  if (*input == Input::banned)
    return checkBanned(buffer);
  for (const SymbolValues &values : probes()) {
    InputShape wanted = inputShape(*input, values);
    if (sizeOf(buffer.shape()) != wanted.rank)
      return bad("shape is not %s", inputShapeText(*input));
    for (uint32_t i = 0; i < wanted.rank; ++i) {
      int64_t size;
      K3RT_RETURN_IF_ERROR(valueAt(buffer.shape()->Get(i), values, size));
      if (size != wanted.sizes[i])
        return bad("shape is not %s", inputShapeText(*input));
    }
  }
  return Status();
}

/// Constants, which numBanSets reads.
Status ProgramChecker::checkBanned(const schema::Buffer &buffer) {
  uint32_t words = banWords(index.model()->vocab_size());
  auto constantAt = [&](uint32_t at) -> int64_t {
    const schema::Term *size = buffer.shape()->Get(at);
    return sizeOf(size->symbols()) == 0 && size->add() == 0 && size->div() == 1
               ? size->mul()
               : 0;
  };
  if (sizeOf(buffer.shape()) != 2 || constantAt(0) < 1 ||
      constantAt(0) > maxBanSets || constantAt(1) != int64_t(words))
    return bad("shape is not [1 to %lld, %u]",
               static_cast<long long>(maxBanSets), words);
  return Status();
}

Status ProgramChecker::checkIds(const schema::Buffer &buffer) {
  if (buffer.dtype() != schema::DType::I32)
    return bad("ids must be I32, not %s", EnumNameDType(buffer.dtype()));
  for (const SymbolValues &values : probes()) {
    int64_t rows = -1;
    if (sizeOf(buffer.shape()) == 1)
      K3RT_RETURN_IF_ERROR(valueAt(buffer.shape()->Get(0), values, rows));
    if (rows != values[Symbol::logitRows])
      return bad("shape is not [R]");
  }
  return Status();
}

Status ProgramChecker::checkOutput(const schema::Buffer &buffer) {
  if (buffer.name()->string_view() == "ids")
    return checkIds(buffer);
  if (buffer.name()->string_view() != "logits")
    return bad("unknown output");
  if (buffer.dtype() != schema::DType::F32)
    return bad("logits must be F32, not %s", EnumNameDType(buffer.dtype()));
  if (sizeOf(buffer.shape()) != 2)
    return bad("shape is not [R, %u]", index.model()->vocab_size());
  for (const SymbolValues &values : probes()) {
    int64_t rows, width;
    K3RT_RETURN_IF_ERROR(valueAt(buffer.shape()->Get(0), values, rows));
    K3RT_RETURN_IF_ERROR(valueAt(buffer.shape()->Get(1), values, width));
    if (rows != values[Symbol::logitRows] ||
        width != int64_t(index.model()->vocab_size()))
      return bad("shape is not [R, %u]", index.model()->vocab_size());
  }
  return Status();
}

Status ProgramChecker::checkTransient(const schema::Buffer &buffer) {
  uint64_t bytes = elementBytes(buffer.dtype());
  for (uint32_t i = 0; i < sizeOf(buffer.shape()); ++i) {
    Term term;
    K3RT_RETURN_IF_ERROR(decode(buffer.shape()->Get(i), term));
    for (Symbol symbol :
         {Symbol::slots, Symbol::pages, Symbol::pagesPerSequence})
      if (term.uses(symbol))
        return bad("a transient buffer cannot depend on %s",
                   symbolName(symbol));
    std::optional<int64_t> size = term.evaluate(largest);
    if (!size || !term.evaluate(smallest) ||
        __builtin_mul_overflow(bytes, uint64_t(*size), &bytes) ||
        bytes > maxBytes)
      return bad("negative or more than %llu bytes", Word(maxBytes));
  }
  if (bytes > buffer.arena_bytes())
    return bad("%llu bytes in the arena, but its shape needs up to %llu",
               Word(buffer.arena_bytes()), Word(bytes));
  K3RT_CHECK_AT(checkRange(buffer.arena_offset(), buffer.arena_bytes(), 0,
                           program.arena_bytes(), bufferAlignment),
                "arena");
  if (buffer.name()->string_view() == "stream")
    return checkStream(buffer);
  return Status();
}

/// Traces read one residual slot of it.
Status ProgramChecker::checkStream(const schema::Buffer &buffer) {
  int64_t sizes[3] = {};
  bool fits =
      sizeOf(buffer.shape()) == 3 && buffer.dtype() == schema::DType::F32;
  for (uint32_t i = 0; fits && i < 3; ++i)
    K3RT_RETURN_IF_ERROR(largestValue(buffer.shape()->Get(i), sizes[i]));
  if (!fits || sizes[1] != largest[Symbol::rows] ||
      sizes[2] != int64_t(index.model()->hidden_size()))
    return bad("the stream is not F32 [slots, T, %u]",
               index.model()->hidden_size());
  for (const Kind &kind : checker.kinds)
    if (kind.largestSlot >= sizes[0])
      return bad("a layer uses slot %lld of %lld",
                 static_cast<long long>(kind.largestSlot),
                 static_cast<long long>(sizes[0]));
  return Status();
}

Status ProgramChecker::checkGroups(const Groups *groups, const Kind *kind) {
  for (uint32_t g = 0; g < sizeOf(groups); ++g) {
    const auto *dispatches = groups->Get(g)->dispatches();
    int64_t groupTiles = 0;
    for (uint32_t d = 0; d < sizeOf(dispatches); ++d) {
      const schema::Dispatch &dispatch = *dispatches->Get(d);
      int64_t tiles = 0;
      K3RT_CHECK_AT(checkDispatch(dispatch, kind, tiles),
                    "group %u, dispatch %u %s", g, d,
                    text(dispatch.label()).c_str());
      groupTiles += tiles;
      if (groupTiles > maxTiles)
        return bad("group %u: more than %lld tiles", g,
                   static_cast<long long>(maxTiles));
    }
  }
  return Status();
}

Status ProgramChecker::checkDispatch(const schema::Dispatch &dispatch,
                                     const Kind *kind, int64_t &tiles) {
  if (dispatch.kernel() >= sizeOf(index.kernels()))
    return bad("kernel %u of %u", dispatch.kernel(), sizeOf(index.kernels()));
  const schema::Kernel &kernel = *index.kernels()->Get(dispatch.kernel());
  if (index.executables()->Get(kernel.executable())->kind() !=
      program.executable_kind())
    return bad("kernel %s is not for a %s program", text(kernel.name()).c_str(),
               EnumNameExecutableKind(program.executable_kind()));
  tiles = 1;
  // An absent grid dimension is 1.
  for (const schema::Term *grid :
       {dispatch.grid_x(), dispatch.grid_y(), dispatch.grid_z()}) {
    int64_t count = 1;
    if (grid)
      K3RT_CHECK_AT(largestValue(grid, count), "grid");
    if (__builtin_mul_overflow(tiles, std::max<int64_t>(count, 1), &tiles) ||
        tiles > maxTiles)
      return bad("more than %lld tiles", static_cast<long long>(maxTiles));
  }
  if (sizeOf(dispatch.bindings()) > maxParameters ||
      sizeOf(dispatch.scalars()) > maxParameters)
    return bad("more than %u parameters", maxParameters);
  for (uint32_t i = 0; i < sizeOf(dispatch.bindings()); ++i)
    K3RT_CHECK_AT(checkBinding(*dispatch.bindings()->Get(i), kind),
                  "binding %u", i);
  for (uint32_t i = 0; i < sizeOf(dispatch.scalars()); ++i)
    K3RT_CHECK_AT(checkScalar(*dispatch.scalars()->Get(i), kind), "scalar %u",
                  i);
  if (!kernel.launch())
    return Status();
  K3RT_RETURN_IF_ERROR(checkCudaDispatch(dispatch, *kernel.launch(), kind));
  if (kernel.product())
    K3RT_CHECK_AT(checkProduct(*kernel.product(), dispatch, kind), "product");
  return Status();
}

/// Types and kinds; whether sizes belong together depends on the step.
Status ProgramChecker::checkProduct(const schema::Product &product,
                                    const schema::Dispatch &dispatch,
                                    const Kind *kind) {
  uint32_t count = sizeOf(dispatch.bindings());
  for (uint32_t binding : {product.x(), product.weight(), product.out()})
    if (binding >= count)
      return bad("binding %u of %u", binding, count);
  auto bufferOf = [&](uint32_t number) -> const schema::Buffer * {
    const schema::Binding &binding = *dispatch.bindings()->Get(number);
    return binding.kind() == schema::BindingKind::Buffer
               ? program.buffers()->Get(binding.index())
               : nullptr;
  };
  const schema::Buffer *x = bufferOf(product.x()), *out = bufferOf(product.out());
  if (!x || x->dtype() != schema::DType::BF16)
    return bad("x is not a buffer of bf16");
  const schema::Binding &bound = *dispatch.bindings()->Get(product.weight());
  const schema::Weight *weight = nullptr;
  if (bound.kind() == schema::BindingKind::Weight)
    weight = index.weights()->Get(bound.index());
  if (bound.kind() == schema::BindingKind::LayerWeight)
    weight = index.weights()->Get(kind->first->weights()->Get(bound.index()));
  if (!weight || weight->is_expert_group() || sizeOf(weight->shape()) != 2 ||
      weight->dtype() != schema::DType::BF16)
    return bad("weight is not a bf16 matrix");
  bool isFloat = out && (out->dtype() == schema::DType::F32 ||
                         out->dtype() == schema::DType::BF16);
  if (!isFloat || !dispatch.bindings()->Get(product.out())->writes())
    return bad("out is not a buffer of f32 or bf16 that is written");
  if (product.slot() < -1 || product.slot() >= int64_t(sizeOf(dispatch.scalars())))
    return bad("scalar %d of %u", product.slot(), sizeOf(dispatch.scalars()));
  return Status();
}

Status ProgramChecker::checkCudaDispatch(const schema::Dispatch &dispatch,
                                         const schema::Launch &launch,
                                         const Kind *kind) {
  struct {
    const schema::Term *grid;
    int64_t most;
  } limits[] = {{dispatch.grid_x(), maxGridX},
                {dispatch.grid_y(), maxGridYZ},
                {dispatch.grid_z(), maxGridYZ}};
  for (const auto &limit : limits) {
    int64_t count = 1;
    if (limit.grid)
      K3RT_RETURN_IF_ERROR(largestValue(limit.grid, count));
    if (count > limit.most)
      return bad("a grid of %lld blocks in one dimension (at most %lld)",
                 static_cast<long long>(count),
                 static_cast<long long>(limit.most));
    if (launch.resident() && limit.grid != dispatch.grid_x() && count > 1)
      return bad("%lld blocks along y or z, but the kernel is resident",
                 static_cast<long long>(count));
  }
  uint32_t maps = sizeOf(launch.tensor_maps());
  uint64_t bytes = (uint64_t(sizeOf(dispatch.bindings())) +
                    sizeOf(dispatch.scalars())) *
                       sizeof(int64_t) +
                   uint64_t(maps) * tensorMapBytes;
  if (bytes > maxKernelParameterBytes)
    return bad("%llu bytes of kernel parameters (at most %u)", Word(bytes),
               maxKernelParameterBytes);
  for (uint32_t i = 0; i < maps; ++i)
    K3RT_CHECK_AT(
        checkTensorMap(*launch.tensor_maps()->Get(i), dispatch, kind),
        "tensor map %u", i);
  return Status();
}

/// What depends on the binding, whose own check has passed; its sizes are those
/// of a step and left to the driver.
Status ProgramChecker::checkTensorMap(const schema::TensorMap &map,
                                      const schema::Dispatch &dispatch,
                                      const Kind *kind) {
  if (map.binding() >= sizeOf(dispatch.bindings()))
    return bad("binding %u of %u", map.binding(),
               sizeOf(dispatch.bindings()));
  const schema::Binding &binding = *dispatch.bindings()->Get(map.binding());
  schema::DType dtype = schema::DType::F32;
  uint32_t rank = 0;
  auto useWeight = [&](uint32_t ordinal) {
    const schema::Weight &weight = *index.weights()->Get(ordinal);
    dtype = weight.dtype();
    rank = weight.is_expert_group() ? 0 : sizeOf(weight.shape());
  };
  switch (binding.kind()) {
  case schema::BindingKind::Buffer: {
    const schema::Buffer &buffer = *program.buffers()->Get(binding.index());
    dtype = buffer.dtype();
    rank = sizeOf(buffer.shape());
    break;
  }
  case schema::BindingKind::Weight:
    useWeight(binding.index());
    break;
  case schema::BindingKind::LayerWeight:
    useWeight(kind->first->weights()->Get(binding.index()));
    break;
  case schema::BindingKind::LayerState: {
    const schema::State &state = *index.states()->Get(
        kind->first->states()->Get(binding.index()));
    dtype = state.dtype();
    rank = sizeOf(state.shape()) + 1; // slots or pages come first
    break;
  }
  }
  if (map.box()->size() > rank)
    return bad("a box of %u dimensions, but binding %u has %u",
               map.box()->size(), map.binding(), rank);
  uint64_t inner = uint64_t(map.box()->Get(map.box()->size() - 1)) *
                   elementBytes(dtype);
  if (inner % tensorMapAlignment != 0)
    return bad("a box of %llu bytes in a row, not a multiple of %llu",
               Word(inner), Word(tensorMapAlignment));
  if (map.swizzle() != 0 && inner > map.swizzle())
    return bad("a box of %llu bytes in a row, more than its swizzle of %u",
               Word(inner), map.swizzle());
  return Status();
}

Status ProgramChecker::checkBinding(const schema::Binding &binding,
                                    const Kind *kind) {
  const char *what = nullptr;
  uint32_t count = 0;
  bool writable = false;
  switch (binding.kind()) {
  case schema::BindingKind::Buffer:
    what = "buffer";
    count = sizeOf(program.buffers());
    writable = binding.index() >= count ||
               program.buffers()->Get(binding.index())->role() !=
                   schema::BufferRole::Input;
    break;
  case schema::BindingKind::Weight:
    what = "weight";
    count = sizeOf(index.weights());
    break;
  case schema::BindingKind::LayerWeight:
    what = "layer weight";
    count = kind ? kind->weights : 0;
    break;
  case schema::BindingKind::LayerState:
    what = "layer state";
    count = kind ? kind->states : 0;
    writable = true;
    break;
  }
  if (!what)
    return bad("unknown kind %u", unsigned(binding.kind()));
  if (binding.index() >= count)
    return bad("%s %u of %u", what, binding.index(), count);
  if (binding.writes() && !writable)
    return bad("writes to %s %u, which is read-only", what, binding.index());
  return Status();
}

Status ProgramChecker::checkScalar(const schema::Scalar &scalar,
                                   const Kind *kind) {
  switch (scalar.kind()) {
  case schema::ScalarKind::Term: {
    int64_t value;
    return largestValue(scalar.term(), value);
  }
  case schema::ScalarKind::LayerScalar: {
    uint32_t count = kind ? kind->scalars : 0;
    if (scalar.index() >= count)
      return bad("layer scalar %u of %u", scalar.index(), count);
    return Status();
  }
  }
  return bad("unknown kind %u", unsigned(scalar.kind()));
}

Status checkArtifact(const schema::Artifact &index, uint64_t blobsBegin,
                     uint64_t length) {
  return Checker(index, blobsBegin, length).run();
}

} // namespace k3rt
