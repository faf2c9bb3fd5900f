//===- Executable.cpp - compiled kernels in memory -----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/artifact/Executable.h"
#include "runtime/src/base/CpuFeatures.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

namespace k3rt {

/// Systems that forbid executable memory files by default want it asked for.
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

Executable &Executable::operator=(Executable &&other) noexcept {
  std::swap(fd, other.fd);
  std::swap(library, other.library);
  std::swap(exported, other.exported);
  return *this;
}

Executable::~Executable() {
  if (library)
    dlclose(library);
  if (fd >= 0)
    close(fd);
}

static Status systemError(const char *what) {
  return makeError(K3RT_IO_ERROR, "cannot load compiled code: %s: %s", what,
                   strerror(errno));
}

static Status writeAll(int fd, const char *data, uint64_t size) {
  while (size > 0) {
    ssize_t written = write(fd, data, size);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return systemError("write");
    data += written;
    size -= uint64_t(written);
  }
  return Status();
}

static Status checkElf(const char *data, uint64_t size) {
  Elf64_Ehdr header;
  if (size < sizeof(header) || memcmp(data, ELFMAG, SELFMAG) != 0)
    return Status(K3RT_BAD_ARTIFACT, "compiled code is not an ELF file");
  memcpy(&header, data, sizeof(header));
  if (header.e_type != ET_DYN || header.e_ident[EI_CLASS] != ELFCLASS64)
    return Status(K3RT_BAD_ARTIFACT,
                  "compiled code is not a 64-bit shared object");
  return Status();
}

Status Executable::load(const char *data, uint64_t size) {
  K3RT_RETURN_IF_ERROR(checkElf(data, size));
  fd = memfd_create("k3-kernels", MFD_CLOEXEC | MFD_EXEC);
  if (fd < 0 && errno == EINVAL)
    fd = memfd_create("k3-kernels", MFD_CLOEXEC);
  if (fd < 0)
    return systemError("memfd_create");
  K3RT_RETURN_IF_ERROR(writeAll(fd, data, size));
  std::string name = formatText("/proc/self/fd/%d", fd);
  library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    return makeError(K3RT_IO_ERROR, "cannot load compiled code: %s",
                     reason ? reason : "unknown reason");
  }
  exported =
      static_cast<const k3_executable *>(dlsym(library, K3_EXECUTABLE_SYMBOL));
  if (!exported)
    return Status(K3RT_BAD_ARTIFACT,
                  "compiled code lacks the symbol " K3_EXECUTABLE_SYMBOL);
  if (exported->abi_version != K3_ABI_VERSION)
    return makeError(K3RT_BAD_ARTIFACT,
                     "compiled code has ABI version %u, this runtime has %u",
                     exported->abi_version, K3_ABI_VERSION);
  return Status();
}

Status checkCpu(const k3::artifact::Executable &executable) {
  std::string_view arch = executable.arch()->string_view();
  if (arch != hostArch())
    return makeError(
        K3RT_UNSUPPORTED, "compiled for %s, this machine is %s",
        quoted(executable.arch()->c_str(), executable.arch()->size()).c_str(),
        hostArch());
  std::string missing;
  if (executable.features())
    for (const flatbuffers::String *feature : *executable.features()) {
      // As in LLVM's lists: "+name" is needed, "-name" is not used.
      std::string_view name = feature->string_view();
      if (!name.empty() && name[0] == '-')
        continue;
      if (!name.empty() && name[0] == '+')
        name.remove_prefix(1);
      switch (cpuFeature(name)) {
      case FeatureState::present:
        break;
      case FeatureState::absent:
        missing += (missing.empty() ? "" : ", ") + std::string(name);
        break;
      case FeatureState::unknown:
        return makeError(K3RT_UNSUPPORTED,
                         "compiled for the CPU feature %s, which this runtime "
                         "does not know",
                         quoted(name.data(), name.size()).c_str());
      }
    }
  if (missing.empty())
    return Status();
  return makeError(K3RT_UNSUPPORTED,
                   "this CPU (or its system) lacks %s, which the model was "
                   "compiled for: compile it for this CPU",
                   missing.c_str());
}

static bool isForCpu(const k3::artifact::Executable &executable) {
  return executable.kind() == k3::artifact::ExecutableKind::Elf;
}

Status KernelTable::load(const Artifact &artifact) {
  const auto &index = artifact.index();
  auto withPath = [&](const Status &status) {
    return Status(status.code(), artifact.path() + ": " + status.message());
  };
  if (index.executables()) {
    for (const auto *encoded : *index.executables())
      if (isForCpu(*encoded))
        if (Status status = checkCpu(*encoded); !status.ok())
          return withPath(status);
    for (const auto *encoded : *index.executables()) {
      executables.emplace_back();
      if (!isForCpu(*encoded))
        continue;
      K3RT_RETURN_IF_ERROR(
          artifact.checkBlob(*encoded->blob(), "an executable"));
      Status status = executables.back().load(
          artifact.data() + encoded->blob()->offset(),
          encoded->blob()->length());
      if (!status.ok())
        return withPath(status);
    }
  }
  if (!index.kernels())
    return Status();
  for (const auto *encoded : *index.kernels()) {
    if (!isForCpu(*index.executables()->Get(encoded->executable()))) {
      kernels.push_back(nullptr);
      continue;
    }
    const k3_executable &table = executables[encoded->executable()].table();
    const std::string name =
        encoded->name() ? encoded->name()->str() : std::string();
    if (encoded->ordinal() >= table.kernel_count ||
        !table.kernels[encoded->ordinal()])
      return withPath(makeError(
          K3RT_BAD_ARTIFACT, "kernel %s: ordinal %u of %u in compiled code",
          quoted(name).c_str(), encoded->ordinal(), table.kernel_count));
    kernels.push_back(table.kernels[encoded->ordinal()]);
  }
  return Status();
}

} // namespace k3rt
