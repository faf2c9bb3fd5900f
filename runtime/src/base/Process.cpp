//===- Process.cpp - what the system says about this process -------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/base/Process.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

namespace k3rt {

uint32_t allowedCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
    return uint32_t(CPU_COUNT(&set));
  // More cores than cpu_set_t holds.
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? uint32_t(online) : 1;
}

int currentCore() { return sched_getcpu(); }

void leaveCore(int core, uint32_t step) {
  cpu_set_t allowed;
  if (core < 0 || sched_getcpu() != core || sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
    return;
  uint32_t others = uint32_t(CPU_COUNT(&allowed)) - (CPU_ISSET(core, &allowed) ? 1 : 0);
  if (others == 0)
    return;
  uint32_t left = (step - 1) % others;
  int target = core;
  do
    target = (target + 1) % CPU_SETSIZE;
  while (target == core || !CPU_ISSET(target, &allowed) || left-- > 0);
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(target, &only);
  if (sched_setaffinity(0, sizeof(only), &only) == 0)
    sched_setaffinity(0, sizeof(allowed), &allowed);
}

uint64_t peakResidentBytes() {
  struct rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) != 0)
    return 0;
  return uint64_t(usage.ru_maxrss) * 1024;
}

double secondsNow() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

} // namespace k3rt
