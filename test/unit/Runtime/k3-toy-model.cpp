//===- k3-toy-model.cpp - writes the toy model for other tests -----------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// k3-toy-model FOLDER [beside|apart|none] [no-decode] [gpu|both]
// Writes model.k3a and, where weights lie beside it, model.k3w; "gpu" for the
// fake driver of FakeCuda/ instead of the CPU, "both" for both. "fuzz" writes
// seeds for the artifact fuzzer instead: a whole file and a bare index, behind
// the byte that tells them apart (FuzzArtifact.cpp).
//===----------------------------------------------------------------------===//
#include "k3rt/abi.h"
#include "test/unit/Runtime/ToyModel.h"

#include <cstdio>
#include <cstring>
#include <fstream>

static bool write(const std::string &path, const std::string &bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), std::streamsize(bytes.size()));
  if (file.flush())
    return true;
  fprintf(stderr, "k3-toy-model: cannot write %s\n", path.c_str());
  return false;
}

int main(int argc, char **argv) {
  toy::Options options;
  bool fuzz = false;
  for (int i = 2; i < argc; ++i) {
    std::string option = argv[i];
    if (option == "beside")
      options.weights = toy::Weights::beside;
    else if (option == "apart")
      options.weights = toy::Weights::expertsApart;
    else if (option == "none")
      options.weights = toy::Weights::none;
    else if (option == "no-decode")
      options.decodeProgram = false;
    else if (option == "gpu")
      options.targets = toy::Targets::gpu;
    else if (option == "both")
      options.targets = toy::Targets::both;
    else if (option == "resident")
      options.residentEmbed = true;
    else if (option == "fuzz")
      fuzz = true;
    else
      argc = 0;
  }
  if (argc < 2) {
    fputs("usage: k3-toy-model FOLDER [beside|apart|none] [no-decode] [gpu|both] "
          "[resident] [fuzz]\n",
          stderr);
    return 1;
  }
  std::string folder = std::string(argv[1]) + "/";
  toy::Model model = toy::make(options);
  std::string bytes = toy::serialize(model);
  if (fuzz) {
    k3_artifact_header header;
    memcpy(&header, bytes.data(), sizeof(header));
    std::string file =
        bytes.substr(0, header.index_offset + header.index_length);
    return write(folder + "file", "\1" + file) &&
                   write(folder + "index", std::string(1, '\0') +
                                               file.substr(header.index_offset))
               ? 0
               : 1;
  }
  bool beside = options.weights == toy::Weights::beside ||
                options.weights == toy::Weights::expertsApart;
  return write(folder + "model.k3a", bytes) &&
                 (!beside || write(folder + "model.k3w", model.weightBytes))
             ? 0
             : 1;
}
