//===- Check.cpp - everything that opening a model checks ----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/artifact/Executable.h"
#include "runtime/src/artifact/WeightStore.h"
#include "tools/runtime/k3-inspect/Inspect.h"

namespace k3inspect {

using k3rt::Status;

Status check(const k3rt::Artifact &artifact, const std::string &weightsDir,
             std::string &report) {
  const auto &index = artifact.index();
  report += "index: ok\n"; // it would not have opened
  K3RT_RETURN_IF_ERROR(artifact.checkBlobs());
  report += "code and tokenizer: ok\n";
  if (index.has_weights()) {
    k3rt::WeightStore weights;
    K3RT_RETURN_IF_ERROR(weights.open(artifact, weightsDir, true));
    report += "weights: ok\n";
  } else {
    report += "weights: not stored\n";
  }
  bool forCpu = false;
  if (index.executables())
    for (const auto *executable : *index.executables()) {
      if (executable->kind() != k3::artifact::ExecutableKind::Elf)
        continue;
      forCpu = true;
      if (Status status = k3rt::checkCpu(*executable); !status.ok())
        return Status(status.code(), artifact.path() + ": " + status.message());
    }
  report += forCpu ? "CPU: ok\n" : "CPU: not compiled for one\n";
  return Status();
}

} // namespace k3inspect
