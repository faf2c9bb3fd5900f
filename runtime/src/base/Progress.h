//===- Progress.h - how far a long operation is --------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_BASE_PROGRESS_H
#define K3RT_BASE_PROGRESS_H

#include "k3rt/k3rt.h"

namespace k3rt {

/// The caller's progress function, if there is one.
struct Progress {
  k3rt_progress_fn function = nullptr;
  void *user = nullptr;

  void operator()(uint64_t done, uint64_t total) const {
    if (function)
      function(user, done, total);
  }
};

} // namespace k3rt

#endif // K3RT_BASE_PROGRESS_H
