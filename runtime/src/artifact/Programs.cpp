//===- Programs.cpp - the programs for one device ------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/artifact/Programs.h"

namespace k3rt {

namespace schema = k3::artifact;

schema::ExecutableKind executableKind(const DeviceName &device) {
  return device.isCpu() ? schema::ExecutableKind::Elf : schema::ExecutableKind::Cubin;
}

const schema::Program *findProgram(const schema::Artifact &index, schema::Phase phase, const DeviceName &device) {
  for (const auto *program : *index.programs())
    if (program->phase() == phase && program->executable_kind() == executableKind(device))
      return program;
  return nullptr;
}

Status checkHasPrograms(const schema::Artifact &index, const DeviceName &device) {
  if (findProgram(index, schema::Phase::Prefill, device))
    return Status();
  if (device.isCpu())
    return Status(K3RT_UNSUPPORTED, "compiled for a GPU only: run it with --device=cuda:0, or compile it with "
                                    "--target=host");
  return Status(K3RT_UNSUPPORTED, "compiled for the CPU only: run it without --device, or compile it with "
                                  "--target=nvidia-sm90a");
}

} // namespace k3rt
