//===- DeviceWeights.h - all weights in the memory of a GPU --------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_DEVICE_DEVICEWEIGHTS_H
#define K3RT_DEVICE_DEVICEWEIGHTS_H

#include "runtime/src/artifact/RandomWeights.h"
#include "runtime/src/artifact/WeightStore.h"
#include "runtime/src/device/Device.h"

namespace k3rt {

/// One allocation of deviceWeightBytes(index).
class DeviceWeights {
public:
  /// Copies the weights of `store`. Errors: K3RT_OUT_OF_MEMORY; the device's failure.
  Status upload(const k3::artifact::Artifact &index, const WeightStore &store, Device &device,
                const Progress &progress);
  /// Makes them up, a piece at a time: the host never holds them all.
  Status generate(const k3::artifact::Artifact &index, uint64_t seed, Device &device, const Progress &progress);

  /// As WeightStore::addresses, but of the device.
  const std::vector<const void *> &addresses() const { return bindings; }

private:
  template <typename Send>
  Status place(const k3::artifact::Artifact &index, Device &device, const Progress &progress, Send send);

  DeviceBuffer memory;
  std::vector<const void *> bindings;
};

} // namespace k3rt

#endif // K3RT_DEVICE_DEVICEWEIGHTS_H
