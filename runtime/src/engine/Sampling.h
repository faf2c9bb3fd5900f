//===- Sampling.h - tokens that the device chooses -----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_ENGINE_SAMPLING_H
#define K3RT_ENGINE_SAMPLING_H

#include "runtime/src/artifact/Inputs.h"
#include "runtime/src/device/Device.h"
#include "runtime/src/text/Sampler.h"

#include <vector>

namespace k3rt {

/// A row of the input `sampling`.
using SamplingWords = std::array<int32_t, samplingWords>;

/// How the tokens after a row of a batch are chosen, as far as a device can.
struct RowSampling {
  float temperature = 0; ///< 0: greedy
  int32_t topK = 0;
  float topP = 1, minP = 0;
  const std::vector<int32_t> *banned = nullptr; ///< never null
  /// 53 bits for each logit row of the row; not read if greedy.
  std::vector<uint64_t> random;
};

/// What is left of `sampler`'s choices if the device makes the next ones, for
/// `rows` logit rows, of which the first `unused` are not chosen from. The
/// sampler, which has no penalty, outlives `out`.
void describe(const Sampler &sampler, uint64_t unused, uint64_t rows,
              RowSampling &out);

/// The sets of tokens that are not to be chosen, on the device. They stay there
/// from step to step; the one not used for longest makes room for another.
class BanSets {
public:
  /// `device` outlives the object. `count` 0: there are none.
  Status init(Device &device, uint32_t count, uint32_t vocab);

  /// As the input `banned`; null if there are none.
  int32_t *address() const { return reinterpret_cast<int32_t *>(sets.data()); }
  /// A step begins: what the last one used may be replaced.
  void begin() { ++steps; }
  /// Position of a set, which is sent if it is new; nothing if this step uses
  /// all that there is room for. Ids are in the vocabulary. What is sent is the
  /// device's until finish().
  std::optional<uint32_t> find(const std::vector<int32_t> &ids);

private:
  struct Set {
    std::vector<int32_t> ids;
    uint64_t lastUse = 0;
  };

  Device *device = nullptr;
  uint32_t words = 0; ///< of a set
  DeviceBuffer sets, staged; ///< the same on the device and on the host
  std::vector<Set> known;
  uint64_t steps = 0;
};

/// What the device is told of logit row `row` of a row of the batch.
SamplingWords encodeSampling(const RowSampling &sampling, uint64_t row,
                             uint32_t banSet);

} // namespace k3rt

#endif // K3RT_ENGINE_SAMPLING_H
