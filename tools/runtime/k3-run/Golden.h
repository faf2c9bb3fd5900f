//===- Golden.h - golden values of a model ------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// A safetensors file of reference values (test/golden/README.md has the names).
// Prompts are found by their tensor P.input_ids; values of P are looked up as
// P.name, then as ref.P.name.
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3RUN_GOLDEN_H
#define K3_TOOLS_K3RUN_GOLDEN_H

#include "frontend/Safetensors.h"

#include <string>
#include <vector>

namespace k3run {

class Golden {
public:
  [[nodiscard]] bool open(const std::string &path, std::string &error);

  /// Names P of all tensors P.input_ids.
  std::vector<std::string> prompts() const;

  struct Floats {
    std::vector<int64_t> shape;
    std::vector<float> values;
  };
  struct Integers {
    std::vector<int64_t> shape;
    std::vector<int64_t> values;
  };
  bool has(const std::string &name) const { return find(name) != nullptr; }
  /// Reads a tensor that is there: F32, or I32 or I64. `rank` is what its shape
  /// must have.
  [[nodiscard]] bool read(const std::string &name, size_t rank, Floats &out,
                          std::string &error) const;
  [[nodiscard]] bool read(const std::string &name, size_t rank, Integers &out,
                          std::string &error) const;

private:
  const k3::frontend::SafetensorsTensor *find(const std::string &name) const;
  bool readBytes(const std::string &name, size_t rank,
                 std::vector<k3::frontend::Dtype> allowed,
                 std::vector<int64_t> &shape, std::string &bytes,
                 k3::frontend::Dtype &dtype, std::string &error) const;

  std::optional<k3::frontend::InputFile> file;
  k3::frontend::SafetensorsHeader header;
};

} // namespace k3run

#endif // K3_TOOLS_K3RUN_GOLDEN_H
