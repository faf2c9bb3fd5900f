//===- OpenProgress.h - the progress bar of an engine that opens ---------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3RUN_OPENPROGRESS_H
#define K3_TOOLS_K3RUN_OPENPROGRESS_H

#include "frontend/Progress.h"
#include "k3rt/k3rt.h"

#include <optional>

namespace k3run {

/// Shows on the terminal how far k3rt_engine_open is, when that takes more than
/// two seconds. Must outlive the call.
class OpenProgress {
public:
  /// `what`: in a word or two, what is being done.
  explicit OpenProgress(const char *what) : what(what) {}
  OpenProgress(const OpenProgress &) = delete;
  OpenProgress &operator=(const OpenProgress &) = delete;

  void attach(k3rt_engine_options &options) {
    options.progress = [](void *user, uint64_t done, uint64_t total) {
      static_cast<OpenProgress *>(user)->report(done, total);
    };
    options.progress_user = this;
  }

private:
  void report(uint64_t done, uint64_t total) {
    // Hashes are checked first, then weights are sent to a GPU.
    if (done < shown)
      bar.reset();
    if (!bar) {
      bar.emplace(what, total);
      shown = 0;
    }
    bar->advance(done - shown);
    shown = done;
  }

  const char *what;
  std::optional<k3::frontend::Progress> bar;
  uint64_t shown = 0;
};

} // namespace k3run

#endif // K3_TOOLS_K3RUN_OPENPROGRESS_H
