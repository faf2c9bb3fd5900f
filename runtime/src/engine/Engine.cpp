//===- Engine.cpp - opening a model, sequences, snapshots ----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/engine/Engine.h"
#include "runtime/src/artifact/Fingerprint.h"
#include "runtime/src/artifact/Programs.h"
#include "runtime/src/artifact/WeightTensors.h"
#include "runtime/src/base/Process.h"
#include "runtime/src/device/HostDevice.h"
#include "runtime/src/exec/CudaExecutor.h"
#include "runtime/src/exec/HostExecutor.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace k3rt {

namespace schema = k3::artifact;
using Word = unsigned long long;

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

Status Engine::open(const std::string &path, uint64_t offset,
                    const EngineOptions &options) {
  double start = secondsNow();
  chosen = options;
  K3RT_RETURN_IF_ERROR(file.open(path, offset));
  const schema::Artifact &index = file.index();
  if (!index.has_weights() && options.randomWeights == 0)
    return makeError(K3RT_BAD_ARTIFACT,
                     "%s: compiled without weights: it can be inspected and "
                     "planned, but not run",
                     path.c_str());
  K3RT_RETURN_IF_ERROR(file.checkFor(options.device));
  K3RT_RETURN_IF_ERROR(checkPrefixOptions());
  K3RT_RETURN_IF_ERROR(planMemory(index, options, memory));
  K3RT_RETURN_IF_ERROR(threads.start(memory.threads));
  K3RT_RETURN_IF_ERROR(openDevice());
  K3RT_RETURN_IF_ERROR(executor->load(file));
  K3RT_RETURN_IF_ERROR(checkRoom());
  K3RT_RETURN_IF_ERROR(openWeights());
  K3RT_RETURN_IF_ERROR(states.init(index, memory, options.poison, *device));
  K3RT_RETURN_IF_ERROR(openPrefixCache());
  K3RT_RETURN_IF_ERROR(arena.allocate(*device, memory.arena, "the arena"));
  K3RT_RETURN_IF_ERROR(result.allocate(*device, memory.stepLogits, "logits",
                                       DeviceBuffer::Place::host));
  K3RT_RETURN_IF_ERROR(
      runLogits.allocate(*device, memory.runLogits, "logits"));
  K3RT_RETURN_IF_ERROR(openSampling());
  for (const auto *program : *index.programs())
    if (program->executable_kind() == executableKind(options.device))
      K3RT_RETURN_IF_ERROR(openPhase(*program));
  if (chosen.deterministic &&
      (!decode.present || !decode.program.encoded().exact()))
    return makeError(K3RT_UNSUPPORTED,
                     "%s: not made for deterministic runs: compile it with "
                     "--deterministic",
                     path.c_str());
  sequences.resize(memory.slots);
  // Steps of sequences of usual lengths allocate nothing.
  constexpr uint64_t usualTokens = 1 << 16;
  for (Sequence &sequence : sequences) {
    sequence.holding.pages.reserve(memory.pagesPerSequence);
    sequence.tokens.reserve(std::min(memory.maxContext, usualTokens));
  }
  inBatch.resize(memory.slots);
  products = executor->productsText();
  openSeconds = secondsNow() - start;
  return Status();
}

Status Engine::openDevice() {
  if (chosen.device.isCpu()) {
    device = std::make_unique<HostDevice>(threads);
    executor = std::make_unique<HostExecutor>(*device, threads,
                                              memory.scratchPerThread);
    return Status();
  }
  auto gpu = std::make_unique<CudaDevice>(threads);
  K3RT_RETURN_IF_ERROR(gpu->open(chosen.device.number));
  executor =
      std::make_unique<CudaExecutor>(*gpu, chosen.graph, chosen.poison,
                                     chosen.library);
  device = std::move(gpu);
  return Status();
}

/// What the driver and the library of products allocate by themselves: graphs,
/// code, and stacks for as many threads as the GPU can run at a time.
static uint64_t driverBytes(const schema::Artifact &index,
                            const Device::Processor &gpu) {
  constexpr uint64_t fixed = uint64_t(128) << 20;
  constexpr uint64_t threads = 2048; // of a multiprocessor
  uint64_t stack = 0;
  if (index.kernels())
    for (const auto *kernel : *index.kernels())
      if (kernel->launch())
        stack = std::max<uint64_t>(stack, kernel->launch()->stack_bytes());
  return fixed + stack * threads * gpu.multiprocessors;
}

/// Before anything large is read or allocated.
Status Engine::checkRoom() {
  if (device->isHost())
    return Status();
  uint64_t needed =
      memory.total() + driverBytes(file.index(), device->processor());
  Device::Memory now = device->memory();
  if (needed <= now.free)
    return Status();
  return makeError(
      K3RT_OUT_OF_MEMORY,
      "%s has %llu of %llu bytes free, but %u sequences of %llu tokens need "
      "%llu (%s)",
      device->name(), Word(now.free), Word(now.total), memory.slots,
      Word(memory.maxContext), Word(needed), memory.parts().c_str());
}

/// What would never be used is a mistake, and one that nobody notices later.
Status Engine::checkPrefixOptions() const {
  const char *missing = nullptr, *given = "prefix_spill_dir";
  if (!chosen.prefixSpillFolder.empty() && chosen.prefixCacheBytes == 0)
    missing = "prefix_cache_bytes";
  else if (!chosen.prefixSpillFolder.empty() && chosen.prefixSpillBytes == 0)
    missing = "prefix_spill_bytes";
  else if (chosen.prefixSpillFolder.empty() && chosen.prefixSpillBytes != 0)
    given = "prefix_spill_bytes", missing = "prefix_spill_dir";
  return missing ? makeError(K3RT_INVALID_ARGUMENT, "%s is of no use without %s",
                             given, missing)
                 : Status();
}

Status Engine::openPrefixCache() {
  PrefixCacheOptions cache;
  cache.budget = chosen.prefixCacheBytes;
  cache.spillFolder = chosen.prefixSpillFolder;
  cache.spillBudget = chosen.prefixSpillBytes;
  if (!cache.spillFolder.empty()) {
    if (access(cache.spillFolder.c_str(), W_OK | X_OK) != 0)
      return makeError(K3RT_IO_ERROR, "%s: cannot write here: %s",
                       cache.spillFolder.c_str(), strerror(errno));
    cache.model = stateFileModel();
  }
  prefixes.init(states, *device, cache);
  return Status();
}

/// Of weights that were made up on a GPU; the same as for those on the host.
uint64_t Engine::randomFingerprint() const {
  const schema::Artifact &index = file.index();
  RandomWeights random(index, chosen.randomWeights);
  std::vector<size_t> firstTensors;
  size_t tensors = 0;
  for (uint32_t i = 0; index.weights() && i < index.weights()->size(); ++i) {
    firstTensors.push_back(tensors);
    tensors += tensorCount(*index.weights()->Get(i));
  }
  return modelFingerprint(
      index, [&](uint32_t weight, char *out, uint64_t bytes) {
        random.write(firstTensors[weight], 0, bytes, out);
      });
}

uint64_t Engine::storedFingerprint() const {
  const schema::Artifact &index = file.index();
  return modelFingerprint(
      index, [&](uint32_t weight, char *out, uint64_t bytes) {
        const void *from = weights.addresses()[weight];
        if (index.weights()->Get(weight)->is_expert_group())
          from = *static_cast<const void *const *>(from);
        memcpy(out, from, bytes);
      });
}

/// Looks at all weights the first time.
StateFileModel Engine::stateFileModel() {
  if (fingerprint == 0)
    fingerprint = weights.addresses().empty() ? randomFingerprint()
                                              : storedFingerprint();
  return {fingerprint, states.slotCopyBytes(), states.rowCopyBytes(1),
          file.index().model()->vocab_size()};
}

Status Engine::openWeights() {
  const schema::Artifact &index = file.index();
  bool random = chosen.randomWeights != 0;
  if (device->isHost() && random)
    return weights.generate(index, chosen.randomWeights, threads,
                            chosen.progress);
  if (random)
    return deviceWeights.generate(index, chosen.randomWeights, *device,
                                  chosen.progress);
  K3RT_RETURN_IF_ERROR(weights.open(file, chosen.weightsDir,
                                    chosen.verifyWeights, chosen.progress));
  return device->isHost() ? Status()
                          : deviceWeights.upload(index, weights, *device,
                                                 chosen.progress);
}

Status Engine::openSampling() {
  if (memory.banSets == 0)
    return Status();
  uint32_t vocab = file.index().model()->vocab_size();
  K3RT_RETURN_IF_ERROR(bans.init(*device, memory.banSets, vocab));
  uint64_t bytes =
      memory.sampling -
      uint64_t(memory.banSets) * banWords(vocab) * sizeof(int32_t);
  K3RT_RETURN_IF_ERROR(runIds.allocate(*device, bytes, "chosen tokens"));
  return fetchedIds.allocate(*device, bytes, "chosen tokens",
                             DeviceBuffer::Place::host);
}

OutputAddresses Engine::outputsAt(float *logits) const {
  return {logits, reinterpret_cast<int32_t *>(runIds.data())};
}

Status Engine::openPhase(const schema::Program &encoded) {
  Phase &phase =
      encoded.phase() == schema::Phase::Prefill ? prefill : decode;
  phase.present = true;
  SymbolValues largest = largestStep(encoded, memory);
  phase.limits.rows = uint32_t(largest[Symbol::rows]);
  phase.limits.sequences = uint32_t(largest[Symbol::sequences]);
  phase.limits.logitRows = uint32_t(largest[Symbol::logitRows]);
  K3RT_RETURN_IF_ERROR(phase.inputs.init(encoded, memory, *device, bans.address()));
  ProgramParts parts;
  parts.index = &file.index();
  parts.weights = device->isHost() ? &weights.addresses()
                                   : &deviceWeights.addresses();
  parts.states = &states;
  parts.arena = arena.data();
  parts.arenaOffsets = planArena(encoded, memory).offsets;
  phase.program.build(parts, encoded);
  // checkArtifact did not know S, P and M.
  K3RT_RETURN_IF_ERROR(
      phase.program.bind(largest, phase.inputs.addressesFor(largest),
                         outputsAt(reinterpret_cast<float *>(runLogits.data()))));
  if (Status status = executor->prepare(phase.program); !status.ok())
    return Status(status.code(), file.path() + ": " + status.message());
  return Status();
}

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

/// A handle is index and generation, so that one that was freed is not taken
/// for its successor. Generations are odd while the object lives.
static int64_t makeHandle(uint32_t generation, size_t index) {
  return int64_t(uint64_t(generation) << 32 | index);
}

static uint32_t nextGeneration(uint32_t generation) {
  return (generation + 1) & INT32_MAX;
}

template <typename Object>
static bool findByHandle(const std::vector<Object> &objects, int64_t handle,
                         uint32_t &index) {
  index = uint32_t(handle);
  auto generation = uint32_t(uint64_t(handle) >> 32);
  return index < objects.size() && generation % 2 == 1 &&
         objects[index].generation == generation;
}

k3rt_sequence Engine::handleOf(uint32_t index) const {
  return makeHandle(sequences[index].generation, index);
}

Status Engine::findSequence(k3rt_sequence handle, uint32_t &index) {
  if (findByHandle(sequences, handle, index))
    return Status();
  return makeError(K3RT_INVALID_ARGUMENT, "unknown sequence %lld",
                   static_cast<long long>(handle));
}

Status Engine::findSnapshot(k3rt_snapshot handle, uint32_t &index) {
  if (findByHandle(snapshots, handle, index))
    return Status();
  return makeError(K3RT_INVALID_ARGUMENT, "unknown snapshot %lld",
                   static_cast<long long>(handle));
}

Status Engine::createSequence(k3rt_sequence &out) {
  std::optional<uint32_t> slot = states.takeSlot();
  if (!slot)
    return makeError(K3RT_OUT_OF_MEMORY,
                     "all %u state slots are in use (max_sequences)",
                     memory.slots);
  // There are as many sequences as slots.
  uint32_t index = *slot;
  Sequence &sequence = sequences[index];
  sequence.generation = nextGeneration(sequence.generation);
  sequence.tokens.clear();
  sequence.reserved = 0;
  sequence.failure.clear();
  sequence.holding.slot = *slot;
  ++liveSequences;
  out = handleOf(index);
  return Status();
}

Status Engine::freeSequence(k3rt_sequence handle) {
  uint32_t index;
  K3RT_RETURN_IF_ERROR(findSequence(handle, index));
  Sequence &sequence = sequences[index];
  sequence.generation = nextGeneration(sequence.generation);
  if (!sequence.failure.empty())
    states.scrub(sequence.holding);
  states.giveBack(sequence.holding);
  dropMark(sequence);
  --liveSequences;
  return Status();
}

Status Engine::sequenceLength(k3rt_sequence handle, uint64_t &out) {
  uint32_t index;
  K3RT_RETURN_IF_ERROR(findSequence(handle, index));
  out = sequences[index].length();
  return Status();
}

Status Engine::forkSequence(k3rt_sequence handle, k3rt_sequence &out) {
  uint32_t index, made;
  K3RT_RETURN_IF_ERROR(findSequence(handle, index));
  const Sequence &source = sequences[index];
  if (!source.failure.empty())
    return Status(K3RT_INVALID_ARGUMENT, source.failure);
  // The last page is copied at once, so that no later step of either sequence
  // needs a page for that.
  uint32_t full = states.fullPages(source.length());
  uint32_t pages = states.pagesFor(source.length()) - full;
  if (!makeRoom(pages))
    return makeError(K3RT_OUT_OF_MEMORY, "a fork needs a cache page, %s",
                     freePagesText().c_str());
  k3rt_sequence fork;
  K3RT_RETURN_IF_ERROR(createSequence(fork));
  K3RT_RETURN_IF_ERROR(findSequence(fork, made));
  Sequence &copy = sequences[made];
  states.copySlot(source.holding.slot, copy.holding.slot);
  copy.holding.pages = states.sharePages(source.holding, full + pages);
  states.prepareWrite(copy.holding, source.length(),
                      source.length() + (pages != 0));
  copy.tokens = source.tokens;
  out = fork;
  return Status();
}

Status Engine::attachPrefix(k3rt_sequence handle, const int32_t *tokens,
                            uint64_t count, uint64_t &outReused) {
  uint32_t index;
  K3RT_RETURN_IF_ERROR(findSequence(handle, index));
  Sequence &sequence = sequences[index];
  if (sequence.length() != 0 || !sequence.failure.empty())
    return makeError(K3RT_INVALID_ARGUMENT,
                     "sequence %lld is not empty: it has seen %llu tokens",
                     static_cast<long long>(handle), Word(sequence.length()));
  outReused = 0;
  K3RT_RETURN_IF_ERROR(
      prefixes.attach(tokens, std::min(count, memory.maxContext),
                      unpromisedPages(), sequence.holding, outReused));
  sequence.tokens.assign(tokens, tokens + outReused);
  return Status();
}

Status Engine::storePrefix(k3rt_sequence handle) {
  uint32_t index;
  K3RT_RETURN_IF_ERROR(findSequence(handle, index));
  const Sequence &sequence = sequences[index];
  if (!sequence.failure.empty())
    return Status(K3RT_INVALID_ARGUMENT, sequence.failure);
  return prefixes.store(sequence.tokens, sequence.holding);
}

uint32_t Engine::promisedPages(const Sequence &sequence) const {
  return states.pagesToWrite(sequence.holding, sequence.length(),
                             sequence.reserved);
}

bool Engine::makeRoom(uint64_t pages) {
  uint64_t unpromised = unpromisedPages();
  if (pages > unpromised)
    prefixes.makeRoom(uint32_t(std::min<uint64_t>(
        states.freePages() + (pages - unpromised), UINT32_MAX)));
  return pages <= unpromisedPages();
}

uint32_t Engine::unpromisedPages() const {
  uint32_t promised = 0;
  for (const Sequence &sequence : sequences)
    if (sequence.generation % 2 == 1)
      promised += promisedPages(sequence);
  return states.freePages() - std::min(promised, states.freePages());
}

std::string Engine::freePagesText() const {
  uint32_t unpromised = unpromisedPages();
  std::string text = formatText("%u of %u are free", states.freePages(),
                                states.totalPages());
  if (unpromised != states.freePages())
    text += formatText(", %u of them reserved for sequences",
                       states.freePages() - unpromised);
  return text;
}

Status Engine::reserveSequence(k3rt_sequence handle, uint64_t tokens) {
  uint32_t index;
  K3RT_RETURN_IF_ERROR(findSequence(handle, index));
  Sequence &sequence = sequences[index];
  if (tokens > memory.maxContext)
    return makeError(K3RT_INVALID_ARGUMENT,
                     "%llu tokens exceed the context of %llu", Word(tokens),
                     Word(memory.maxContext));
  uint32_t has = promisedPages(sequence);
  uint32_t wants = states.pagesToWrite(sequence.holding, sequence.length(),
                                       tokens);
  if (wants > has && !makeRoom(wants - has))
    return makeError(K3RT_OUT_OF_MEMORY,
                     "%llu tokens need %u more cache pages, %s", Word(tokens),
                     wants - has, freePagesText().c_str());
  sequence.reserved = tokens;
  return Status();
}

const std::string &Engine::sequenceFailure(k3rt_sequence handle) const {
  static const std::string none;
  uint32_t index;
  return findByHandle(sequences, handle, index) ? sequences[index].failure
                                                : none;
}

Status Engine::takeSnapshot(k3rt_sequence handle, k3rt_snapshot &out) {
  uint32_t index;
  K3RT_RETURN_IF_ERROR(findSequence(handle, index));
  const Sequence &sequence = sequences[index];
  if (!sequence.failure.empty())
    return Status(K3RT_INVALID_ARGUMENT, sequence.failure);
  uint64_t bytes = states.copyBytes(sequence.length());
  K3RT_RETURN_IF_ERROR(checkSnapshotLimit(bytes));
  Allocation copy;
  K3RT_RETURN_IF_ERROR(copy.allocate(bytes, "a snapshot"));
  states.save(sequence.holding, sequence.length(), copy.data());
  K3RT_RETURN_IF_ERROR(device->finish());
  out = addSnapshot(sequence.tokens, std::move(copy));
  return Status();
}

Status Engine::checkSnapshotLimit(uint64_t bytes) const {
  if (chosen.snapshotLimit == 0 ||
      bytes <= chosen.snapshotLimit - snapshotBytes)
    return Status();
  return makeError(K3RT_OUT_OF_MEMORY,
                   "a snapshot needs %llu bytes, %llu of snapshot_limit %llu "
                   "are in use",
                   Word(bytes), Word(snapshotBytes),
                   Word(chosen.snapshotLimit));
}

k3rt_snapshot Engine::addSnapshot(std::vector<int32_t> tokens,
                                  Allocation copy) {
  snapshotBytes += copy.size();
  auto unused = std::find_if(
      snapshots.begin(), snapshots.end(),
      [](const Snapshot &snapshot) { return snapshot.generation % 2 == 0; });
  if (unused == snapshots.end())
    unused = snapshots.insert(snapshots.end(), Snapshot());
  unused->generation = nextGeneration(unused->generation);
  unused->tokens = std::move(tokens);
  unused->bytes = std::move(copy);
  return makeHandle(unused->generation, size_t(unused - snapshots.begin()));
}

Status Engine::saveSnapshot(k3rt_snapshot handle, const std::string &path) {
  uint32_t index;
  K3RT_RETURN_IF_ERROR(findSnapshot(handle, index));
  const Snapshot &snapshot = snapshots[index];
  uint64_t fileBytes;
  return writeStateFile(path, StateFileKind::snapshot,
                        stateFileModel().fingerprint, snapshot.tokens,
                        snapshot.bytes.data(), snapshot.bytes.size(),
                        fileBytes);
}

Status Engine::loadSnapshot(const std::string &path, k3rt_snapshot &out) {
  std::vector<int32_t> tokens;
  Allocation copy;
  K3RT_RETURN_IF_ERROR(readStateFile(path, StateFileKind::snapshot,
                                     stateFileModel(), tokens, copy));
  if (tokens.size() > memory.maxContext)
    return makeError(K3RT_INVALID_ARGUMENT,
                     "%s: the state of %llu tokens exceeds the context of %llu",
                     path.c_str(), Word(tokens.size()),
                     Word(memory.maxContext));
  K3RT_RETURN_IF_ERROR(checkSnapshotLimit(copy.size()));
  out = addSnapshot(std::move(tokens), std::move(copy));
  return Status();
}

Status Engine::restoreSnapshot(k3rt_sequence handle, k3rt_snapshot from) {
  uint32_t index, source;
  K3RT_RETURN_IF_ERROR(findSequence(handle, index));
  K3RT_RETURN_IF_ERROR(findSnapshot(from, source));
  const Snapshot &snapshot = snapshots[source];
  Sequence &sequence = sequences[index];
  uint32_t pages = states.pagesFor(snapshot.length());
  // Pages that others use as well are not written to.
  uint32_t held = 0;
  for (int32_t page : sequence.holding.pages)
    held += states.pageUsers(page) == 1;
  uint32_t own = held + promisedPages(sequence);
  uint32_t wanted = std::max(pages, states.pagesFor(sequence.reserved));
  if (wanted > own && !makeRoom(wanted - own))
    return makeError(K3RT_OUT_OF_MEMORY,
                     "restoring %llu tokens needs %u more cache pages, %s",
                     Word(snapshot.length()), wanted - own,
                     freePagesText().c_str());
  if (!sequence.failure.empty())
    states.scrub(sequence.holding);
  states.setPages(sequence.holding, 0);
  states.setPages(sequence.holding, pages);
  states.load(sequence.holding, snapshot.length(), snapshot.bytes.data());
  K3RT_RETURN_IF_ERROR(device->finish());
  sequence.tokens = snapshot.tokens;
  dropMark(sequence); // it is not of these tokens
  sequence.failure.clear();
  return Status();
}

Status Engine::freeSnapshot(k3rt_snapshot handle) {
  uint32_t index;
  K3RT_RETURN_IF_ERROR(findSnapshot(handle, index));
  Snapshot &snapshot = snapshots[index];
  snapshotBytes -= snapshot.bytes.size();
  snapshot.bytes.reset();
  snapshot.tokens = {};
  snapshot.generation = nextGeneration(snapshot.generation);
  return Status();
}

Status Engine::findState(uint32_t layer, std::string_view name,
                         uint32_t &out) const {
  const auto *encoded = file.index().states();
  for (uint32_t i = 0; encoded && i < encoded->size(); ++i)
    if (encoded->Get(i)->layer() == layer &&
        encoded->Get(i)->name()->string_view() == name) {
      out = i;
      return Status();
    }
  return makeError(K3RT_INVALID_ARGUMENT, "layer %u has no state %s", layer,
                   quoted(name.data(), name.size()).c_str());
}

Status Engine::readState(k3rt_sequence handle, uint32_t layer,
                         std::string_view name, float *out,
                         uint64_t &inoutCount) {
  uint32_t index, state;
  K3RT_RETURN_IF_ERROR(findSequence(handle, index));
  K3RT_RETURN_IF_ERROR(findState(layer, name, state));
  const Sequence &sequence = sequences[index];
  uint64_t capacity = inoutCount;
  inoutCount = states.elements(state, sequence.length());
  if (!out)
    return Status();
  if (capacity < inoutCount)
    return makeError(K3RT_INVALID_ARGUMENT,
                     "state %s of layer %u has %llu elements, room for %llu",
                     quoted(name.data(), name.size()).c_str(), layer,
                     Word(inoutCount), Word(capacity));
  states.readAsFloat(state, sequence.holding, sequence.length(), out);
  return device->finish();
}

Status Engine::writeState(k3rt_sequence handle, uint32_t layer,
                          std::string_view name, const float *values,
                          uint64_t count) {
  uint32_t index, state;
  K3RT_RETURN_IF_ERROR(findSequence(handle, index));
  K3RT_RETURN_IF_ERROR(findState(layer, name, state));
  if (states.isPaged(state))
    return makeError(K3RT_INVALID_ARGUMENT,
                     "state %s of layer %u grows with the sequence and cannot "
                     "be written",
                     quoted(name.data(), name.size()).c_str(), layer);
  if (uint64_t want = states.elements(state, 0); count != want)
    return makeError(K3RT_INVALID_ARGUMENT,
                     "state %s of layer %u has %llu elements, got %llu",
                     quoted(name.data(), name.size()).c_str(), layer,
                     Word(want), Word(count));
  return states.writeFromFloat(state, sequences[index].holding.slot, values);
}

k3rt_device_info Engine::deviceInfo() const {
  k3rt_device_info out = {};
  out.size = sizeof(out);
  out.name = device->name();
  const Device::Processor &processor = device->processor();
  out.model = processor.model.c_str();
  out.capability_major = processor.capabilityMajor;
  out.capability_minor = processor.capabilityMinor;
  out.multiprocessors = processor.multiprocessors;
  out.clock_hz = processor.clockHz;
  out.memory_bytes_per_second = processor.memoryBytesPerSecond;
  if (device->isHost())
    return out;
  Device::Memory now = device->memory();
  out.total_bytes = now.total;
  out.free_bytes = now.free;
  out.open_free_bytes = now.freeAtOpen;
  out.products = products.c_str();
  out.planned_bytes = memory.total();
  out.allocated_bytes = now.allocated;
  return out;
}

k3rt_stats Engine::stats() const {
  k3rt_stats out = {};
  out.size = sizeof(out);
  out.steps = steps;
  out.prefill_tokens = prefill.tokens;
  out.decode_tokens = decode.tokens;
  out.prefill_seconds = prefill.seconds;
  out.decode_seconds = decode.seconds;
  out.open_seconds = openSeconds;
  out.live_sequences = liveSequences;
  out.used_pages = states.usedPages();
  out.total_pages = states.totalPages();
  out.peak_rss_bytes = peakResidentBytes();
  out.threads = memory.threads;
  out.total_slots = memory.slots;
  out.slot_bytes = states.slotCopyBytes();
  out.page_tokens = memory.pageTokens;
  out.page_bytes = memory.pageBytes();
  out.reserved_pages = states.freePages() - unpromisedPages();
  out.shared_pages = states.sharedPages();
  out.cached_pages = prefixes.ownPages();
  for (const Sequence &sequence : sequences)
    if (sequence.generation % 2 == 1 && memory.pageTokens != 0)
      out.unused_rows += sequence.holding.pages.size() * memory.pageTokens -
                         sequence.length();
  out.non_finite_sequences = nonFinite;
  out.prefill_runs = prefill.runs;
  out.decode_runs = decode.runs;
  return out;
}

} // namespace k3rt
