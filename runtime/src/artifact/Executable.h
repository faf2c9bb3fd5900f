//===- Executable.h - compiled kernels in memory -------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_ARTIFACT_EXECUTABLE_H
#define K3RT_ARTIFACT_EXECUTABLE_H

#include "k3rt/abi.h"
#include "runtime/src/artifact/Artifact.h"

#include <vector>

namespace k3rt {

/// A loaded shared object. Nothing is written to disk.
class Executable {
public:
  Executable() = default;
  Executable(Executable &&other) noexcept { *this = std::move(other); }
  Executable &operator=(Executable &&other) noexcept;
  ~Executable();

  /// `data` stays the caller's. Errors: K3RT_BAD_ARTIFACT for what is not such
  /// a shared object, K3RT_IO_ERROR when the system refuses to load one.
  Status load(const char *data, uint64_t size);

  const k3_executable &table() const { return *exported; }

private:
  // The loader knows libraries by name, here /proc/self/fd/<fd>: the descriptor
  // stays open so that no second library can get the same name.
  int fd = -1;
  void *library = nullptr;
  const k3_executable *exported = nullptr;
};

/// The executables of an artifact that are for a CPU, and their kernels by their
/// ordinal in the artifact.
class KernelTable {
public:
  /// Checks that this CPU can run every executable (K3RT_UNSUPPORTED names what
  /// is missing) and loads them.
  Status load(const Artifact &artifact);

  /// Null for a kernel that is not for a CPU.
  k3_kernel_fn kernel(uint32_t ordinal) const { return kernels[ordinal]; }

private:
  std::vector<Executable> executables;
  std::vector<k3_kernel_fn> kernels;
};

/// Whether this machine can run code for `executable`, which is for a CPU;
/// K3RT_UNSUPPORTED.
Status checkCpu(const k3::artifact::Executable &executable);

} // namespace k3rt

#endif // K3RT_ARTIFACT_EXECUTABLE_H
