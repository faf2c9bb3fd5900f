//===- FakeCubin.cpp - what the fake driver loads ------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Runtime/FakeCuda/FakeCuda.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <elf.h>

namespace fakecuda {

std::string cubinText(const std::string &chip, const std::vector<KernelText> &kernels) {
  // Only the header is that of an ELF file.
  Elf64_Ehdr header = {};
  header.e_ident[EI_MAG0] = ELFMAG0;
  header.e_ident[EI_MAG1] = ELFMAG1;
  header.e_ident[EI_MAG2] = ELFMAG2;
  header.e_ident[EI_MAG3] = ELFMAG3;
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = 190;
  std::string text(reinterpret_cast<const char *>(&header), sizeof(header));
  text += chip + "\n";
  for (const KernelText &kernel : kernels) {
    text += kernel.name;
    for (uint32_t number : {kernel.ordinal, kernel.bindings, kernel.scalars, kernel.maps, kernel.tableBinding,
                            kernel.tableLength, kernel.maxThreads, uint32_t(kernel.resident)})
      text += " " + std::to_string(number);
    text += "\n";
  }
  return text + "end\n";
}

static void *library() {
  static void *handle = [] {
    void *opened = dlopen(K3_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    if (!opened) {
      fprintf(stderr, "%s\n", dlerror());
      abort();
    }
    return opened;
  }();
  return handle;
}

void load() { library(); }

void loadBlas() {
  load(); // which it needs
  static void *handle = dlopen(K3_FAKE_CUBLAS, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    fprintf(stderr, "%s\n", dlerror());
    abort();
  }
}

Driver &driver() {
  using Get = Driver *();
  auto *get = reinterpret_cast<Get *>(dlsym(library(), "fakeCudaDriver"));
  return *get();
}

void reset() {
  Driver &fake = driver();
  fake.settings = Settings();
  fake.calls.clear();
  fake.numCalls = 0;
  fake.launches.clear();
  fake.matmuls.clear();
  fake.problems.clear();
}

} // namespace fakecuda
