//===- CudaKernels.cpp - the kernels of an artifact on a GPU -------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/device/CudaKernels.h"
#include "runtime/src/artifact/GpuChip.h"

#include <cstring>
#include <elf.h>

namespace k3rt {

namespace schema = k3::artifact;

static std::string textOf(const flatbuffers::String *string) {
  return string ? quoted(string->c_str(), string->size()) : "''";
}

CudaKernels::~CudaKernels() {
  CudaDevice::Scope scope(device);
  for (CudaModule module : modules)
    if (module)
      device.api().moduleUnload(module);
}

Status CudaKernels::load(const Artifact &artifact) {
  const schema::Artifact &index = artifact.index();
  auto withPath = [&](const Status &status) {
    return Status(status.code(), artifact.path() + ": " + status.message());
  };
  if (Status status = checkChips(index); !status.ok())
    return withPath(status);
  CudaDevice::Scope scope(device);
  for (uint32_t i = 0; index.executables() && i < index.executables()->size(); ++i) {
    modules.push_back(nullptr);
    if (index.executables()->Get(i)->kind() != schema::ExecutableKind::Cubin)
      continue;
    K3RT_RETURN_IF_ERROR(artifact.checkBlob(*index.executables()->Get(i)->blob(), "an executable"));
    if (Status status = loadModule(artifact, i); !status.ok())
      return withPath(status);
  }
  for (uint32_t i = 0; index.kernels() && i < index.kernels()->size(); ++i) {
    kernels.push_back(nullptr);
    if (index.kernels()->Get(i)->launch())
      if (Status status = loadKernel(*index.kernels()->Get(i), kernels.back()); !status.ok())
        return withPath(status);
  }
  return Status();
}

/// Before any is loaded: the driver says less about what is wrong.
Status CudaKernels::checkChips(const schema::Artifact &index) const {
  const Device::Processor &gpu = device.processor();
  if (!index.executables())
    return Status();
  for (const auto *executable : *index.executables())
    if (executable->kind() == schema::ExecutableKind::Cubin &&
        !parseGpuChip(executable->cpu()->string_view())->runsOn(gpu.capabilityMajor, gpu.capabilityMinor))
      return makeError(K3RT_UNSUPPORTED,
                       "compiled for %s GPUs, %s is a %s with compute capability %u.%u: compile the model for this GPU",
                       executable->cpu()->c_str(), device.name(), gpu.model.c_str(), gpu.capabilityMajor,
                       gpu.capabilityMinor);
  return Status();
}

/// The driver is given no length: what it may look at must be there.
static Status checkCubin(const char *data, uint64_t size) {
  constexpr uint16_t machineCuda = 190;
  auto bad = [] { return Status(K3RT_BAD_ARTIFACT, "it is no cubin"); };
  Elf64_Ehdr header;
  if (size < sizeof(header) || memcmp(data, ELFMAG, SELFMAG) != 0)
    return bad();
  memcpy(&header, data, sizeof(header));
  auto inside = [&](uint64_t offset, uint64_t bytes) { return offset <= size && bytes <= size - offset; };
  bool hasSections = header.e_shnum != 0, hasSegments = header.e_phnum != 0;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != machineCuda ||
      (hasSections && header.e_shentsize != sizeof(Elf64_Shdr)) ||
      (hasSegments && header.e_phentsize != sizeof(Elf64_Phdr)) ||
      !inside(header.e_shoff, uint64_t(header.e_shnum) * sizeof(Elf64_Shdr)) ||
      !inside(header.e_phoff, uint64_t(header.e_phnum) * sizeof(Elf64_Phdr)))
    return bad();
  for (uint32_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    memcpy(&section, data + header.e_shoff + i * sizeof(section), sizeof(section));
    if (section.sh_type != SHT_NOBITS && !inside(section.sh_offset, section.sh_size))
      return bad();
  }
  for (uint32_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    memcpy(&segment, data + header.e_phoff + i * sizeof(segment), sizeof(segment));
    if (!inside(segment.p_offset, segment.p_filesz))
      return bad();
  }
  return Status();
}

Status CudaKernels::loadModule(const Artifact &artifact, uint32_t number) {
  const schema::Executable &encoded = *artifact.index().executables()->Get(number);
  const char *data = artifact.data() + encoded.blob()->offset();
  if (Status status = checkCubin(data, encoded.blob()->length()); !status.ok())
    return makeError(status.code(), "executable %u: %s", number, status.message().c_str());
  CudaResult result = device.api().moduleLoadData(&modules[number], data);
  if (result == CudaResult::success)
    return Status();
  modules[number] = nullptr;
  bool wrongChip = result == CudaResult::noBinaryForGpu || result == CudaResult::invalidImage ||
                   result == CudaResult::unsupportedPtxVersion;
  if (result == CudaResult::outOfMemory)
    return makeError(K3RT_OUT_OF_MEMORY, "executable %u: not enough memory on %s", number, device.name());
  return makeError(K3RT_UNSUPPORTED, "executable %u: the driver (%s) cannot load this cubin for %s%s: %s", number,
                   device.api().version().c_str(), encoded.cpu()->c_str(), wrongChip ? ", is it too old?" : "",
                   device.api().describe(result).c_str());
}

Status CudaKernels::loadKernel(const schema::Kernel &encoded, CudaFunction &function) {
  const CudaApi &cuda = device.api();
  const schema::Launch &launch = *encoded.launch();
  auto bad = [&](CudaResult result, const char *what) {
    return makeError(K3RT_BAD_ARTIFACT, "kernel %s: %s: %s", textOf(encoded.name()).c_str(), what,
                     cuda.describe(result).c_str());
  };
  CudaResult result = cuda.moduleGetFunction(&function, modules[encoded.executable()], launch.entry()->c_str());
  if (result == CudaResult::notFound)
    return makeError(K3RT_BAD_ARTIFACT, "kernel %s: there is no %s in its cubin", textOf(encoded.name()).c_str(),
                     textOf(launch.entry()).c_str());
  if (result != CudaResult::success)
    return bad(result, "cannot be found");
  if (result = cuda.funcLoad(function); result != CudaResult::success)
    return bad(result, "cannot be loaded");
  int mostThreads = 0;
  if (result = cuda.funcGetAttribute(&mostThreads, CudaFunctionAttribute::maxThreadsPerBlock, function);
      result != CudaResult::success)
    return bad(result, "does not tell its threads");
  if (launch.threads() > uint32_t(std::max(mostThreads, 0)))
    return makeError(K3RT_BAD_ARTIFACT, "kernel %s: %u threads, its code can have %d", textOf(encoded.name()).c_str(),
                     launch.threads(), mostThreads);
  if (launch.dynamic_shared_bytes() != 0)
    if (result = cuda.funcSetAttribute(function, CudaFunctionAttribute::maxDynamicSharedBytes,
                                       int(launch.dynamic_shared_bytes()));
        result != CudaResult::success)
      return bad(result,
                 formatText("cannot have %u bytes of dynamic shared memory", launch.dynamic_shared_bytes()).c_str());
  constexpr uint32_t portableCluster = 8;
  if (launch.cluster() > portableCluster)
    if (result = cuda.funcSetAttribute(function, CudaFunctionAttribute::nonPortableClusterSizeAllowed, 1);
        result != CudaResult::success)
      return bad(result, "cannot have large clusters");
  return Status();
}

} // namespace k3rt
