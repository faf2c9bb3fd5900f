//===- Engine.h - one opened model ---------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// A step goes one way: check the batch and what it needs (may fail, changes
// nothing), take pages, cut into windows, run each window's program, look at
// the logits.
//===----------------------------------------------------------------------===//
#ifndef K3RT_ENGINE_ENGINE_H
#define K3RT_ENGINE_ENGINE_H

#include "runtime/src/artifact/WeightStore.h"
#include "runtime/src/cache/PrefixCache.h"
#include "runtime/src/device/DeviceWeights.h"
#include "runtime/src/engine/NonFiniteDump.h"
#include "runtime/src/engine/Sampling.h"
#include "runtime/src/engine/StepInputs.h"
#include "runtime/src/exec/Executor.h"

#include <memory>
#include <tuple>

namespace k3rt {

class Engine {
public:
  /// Errors: see k3rt_engine_open.
  Status open(const std::string &path, uint64_t offset,
              const EngineOptions &options);

  const Artifact &artifact() const { return file; }
  const MemoryPlan &plan() const { return memory; }
  const k3::artifact::Program &prefillProgram() const {
    return prefill.program.encoded();
  }

  Status createSequence(k3rt_sequence &out);
  Status freeSequence(k3rt_sequence handle);
  Status sequenceLength(k3rt_sequence handle, uint64_t &out);
  Status forkSequence(k3rt_sequence handle, k3rt_sequence &out);
  Status attachPrefix(k3rt_sequence handle, const int32_t *tokens,
                      uint64_t count, uint64_t &outReused);
  Status storePrefix(k3rt_sequence handle);
  bool hasPrefixCache() const { return prefixes.enabled(); }
  PrefixCacheStats prefixStats() const { return prefixes.stats(); }
  /// Changes whenever a new sequence might have room that it had not before.
  std::tuple<uint32_t, uint32_t, uint64_t> room() const {
    return {states.freeSlots(), unpromisedPages(), prefixes.stats().entries};
  }
  /// See k3rt_sequence_reserve.
  Status reserveSequence(k3rt_sequence handle, uint64_t tokens);
  /// Why a sequence cannot be continued; empty = it can, or is unknown.
  const std::string &sequenceFailure(k3rt_sequence handle) const;
  Status takeSnapshot(k3rt_sequence handle, k3rt_snapshot &out);
  Status restoreSnapshot(k3rt_sequence handle, k3rt_snapshot snapshot);
  Status freeSnapshot(k3rt_snapshot handle);
  Status saveSnapshot(k3rt_snapshot handle, const std::string &path);
  Status loadSnapshot(const std::string &path, k3rt_snapshot &out);
  /// See k3rt_sequence_mark and k3rt_rollback.
  Status markSequence(k3rt_sequence handle);
  Status unmarkSequence(k3rt_sequence handle);
  Status rollBack(const k3rt_rollback_row *rows, uint32_t count);
  /// `out` null: only the count is given.
  Status readState(k3rt_sequence handle, uint32_t layer, std::string_view name,
                   float *out, uint64_t &inoutCount);

  Status writeState(k3rt_sequence handle, uint32_t layer,
                    std::string_view name, const float *values,
                    uint64_t count);

  /// `sampling`: for each row of the batch, or null; rows with null, and all
  /// of an engine that does not choose tokens, bring logits only.
  Status step(const k3rt_batch &batch, k3rt_step_result &out,
              const std::vector<const RowSampling *> *sampling = nullptr);
  /// Whether the device chooses tokens.
  bool choosesTokens() const { return memory.banSets != 0; }
  /// Of the last step, for each logit row the token that was chosen for it; -1:
  /// none, its logits are there. Logits of the others are not.
  const std::vector<int32_t> &chosenTokens() const { return stepIds; }

  /// The threads that kernels run on, for what is done with the results between
  /// two steps.
  ThreadPool &workers() { return threads; }

  void setTrace(k3rt_trace_fn fn, void *user) { executor->setTrace(fn, user); }
  void setProfile(k3rt_profile_fn fn, void *user, bool eachDispatch) {
    executor->setProfile(fn, user, eachDispatch);
  }
  k3rt_stats stats() const;
  k3rt_device_info deviceInfo() const;

private:
  struct Sequence {
    uint32_t generation = 0; ///< odd while live
    std::vector<int32_t> tokens; ///< all that the state has seen
    uint64_t reserved = 0; ///< tokens that its pages are promised for
    Holding holding;
    std::string failure; ///< why the state is not to be used; empty = it is
    std::optional<uint32_t> markSlot; ///< the state after markLength tokens
    uint64_t markLength = 0;

    uint64_t length() const { return tokens.size(); }
  };
  struct Snapshot {
    uint32_t generation = 0; ///< odd while live
    std::vector<int32_t> tokens;
    Allocation bytes;

    uint64_t length() const { return tokens.size(); }
  };
  /// A program of the artifact with its inputs.
  struct Phase {
    Program program;
    StepInputs inputs;
    WindowLimits limits;
    uint64_t runs = 0, tokens = 0;
    double seconds = 0;
    bool present = false;
  };

  Status openDevice();
  Status checkRoom();
  Status openWeights();
  Status checkPrefixOptions() const;
  Status openPrefixCache();
  StateFileModel stateFileModel();
  uint64_t storedFingerprint() const;
  uint64_t randomFingerprint() const;
  Status openSampling();
  Status openPhase(const k3::artifact::Program &encoded);
  OutputAddresses outputsAt(float *logits) const;
  Status findSequence(k3rt_sequence handle, uint32_t &index);
  void dropMark(Sequence &sequence);
  Status findState(uint32_t layer, std::string_view name, uint32_t &out) const;
  Status findSnapshot(k3rt_snapshot handle, uint32_t &index);
  k3rt_sequence handleOf(uint32_t index) const;
  Status checkSnapshotLimit(uint64_t bytes) const;
  k3rt_snapshot addSnapshot(std::vector<int32_t> tokens, Allocation copy);
  /// Pages that a sequence may still take of those it was promised.
  uint32_t promisedPages(const Sequence &sequence) const;
  /// Pages that going back to the mark takes beyond those, `keep` tokens after
  /// it included.
  uint32_t pagesToRollBack(const Sequence &sequence, uint64_t keep) const;
  /// Free pages that no sequence was promised.
  uint32_t unpromisedPages() const;
  /// Frees cached prefixes until so many are; every call that takes pages
  /// beyond the promises of its own sequences asks. False: there are too few.
  bool makeRoom(uint64_t pages);
  /// What messages say about that.
  std::string freePagesText() const;

  Status prepare(const k3rt_batch &input,
                 const std::vector<const RowSampling *> *sampling);
  void prepareSampling(const std::vector<const RowSampling *> &sampling);
  Status prepareRow(const k3rt_batch_row &input, uint32_t row);
  Status reserve(uint64_t logitRows);
  void apply();
  Phase &nextPhase();
  Status runWindow(Phase &phase);
  Status fetchResults(uint64_t firstLogitRow, uint64_t logitRows);
  float *logitsFor(uint64_t firstLogitRow);
  void failBatch(const Status &reason);
  /// The sequence of a batch row can only be freed or restored; the rest of the
  /// row is not run.
  void failRow(uint32_t row, std::string reason);
  /// Whether runs are looked at while they go on; a GPU's have to wait for it.
  bool watches() const { return device->isHost() || chosen.trapNonFinite; }
  Status prepareTrap(const Phase &phase);
  void failNonFinite();
  Status checkLogits();

  Artifact file;
  EngineOptions chosen;
  MemoryPlan memory;
  ThreadPool threads;
  std::unique_ptr<Device> device; ///< outlives all that is in its memory
  std::unique_ptr<Executor> executor;
  WeightStore weights;
  DeviceWeights deviceWeights; ///< of a GPU
  StatePool states;
  PrefixCache prefixes;
  FiniteWatch watch{states};
  DeviceBuffer arena;
  Phase prefill, decode;

  std::vector<Sequence> sequences;
  uint32_t liveSequences = 0;
  std::vector<Snapshot> snapshots;
  uint64_t snapshotBytes = 0;
  uint64_t fingerprint = 0; ///< see stateFileModel

  // Of the current step.
  std::vector<BatchRow> rows;
  std::vector<uint64_t> firstRow;
  std::vector<int32_t> rowStatus;
  std::vector<uint64_t> firstBad; ///< logit of a row that is not finite
  std::vector<WindowPart> window;
  std::vector<uint8_t> inBatch; ///< per sequence
  NonFiniteDump dump;           ///< of the current run, if that is a trap
  DeviceBuffer result;          ///< logits of the whole step, on the host
  /// Logits of one run on the device, where kernels cannot write to `result`.
  DeviceBuffer runLogits;
  BanSets bans;
  DeviceBuffer runIds, fetchedIds; ///< of one run, on the device and the host
  std::vector<int32_t> stepIds;    ///< of the whole step
  std::vector<uint8_t> sampled;    ///< per logit row of it
  std::vector<SamplingWords> partSampling; ///< of a part of a window

  uint64_t steps = 0, nonFinite = 0;
  double openSeconds = 0;
  std::string products; ///< who does them
};

} // namespace k3rt

#endif // K3RT_ENGINE_ENGINE_H
