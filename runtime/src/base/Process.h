//===- Process.h - what the system says about this process ---------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_BASE_PROCESS_H
#define K3RT_BASE_PROCESS_H

#include <cstdint>

namespace k3rt {

/// Cores the scheduler may place this process on, at least 1.
uint32_t allowedCores();

/// The core that the calling thread is on, or -1 where the system does not say.
int currentCore();

/// If the calling thread is on `core`: moves it to the `step`-th (from 1) of the other cores it is allowed on. It may be
/// moved on from there by the system.
void leaveCore(int core, uint32_t step);

/// Largest resident set so far, in bytes.
uint64_t peakResidentBytes();

/// Seconds of a monotonic clock.
double secondsNow();

} // namespace k3rt

#endif // K3RT_BASE_PROCESS_H
