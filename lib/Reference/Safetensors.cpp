//===- Safetensors.cpp - A plain reader of safetensors files --------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Safetensors.h"

#include <nlohmann/json.hpp>

#include <cstring>
#include <fstream>
#include <limits>

using namespace k3::ref;

Index Tensor::size() const {
  Index n = 1;
  for (Index d : shape)
    n *= d;
  return n;
}

std::vector<float> Tensor::floats() const {
  require(dtype == "F32" || dtype == "BF16", "Tensor::floats: neither F32 nor BF16");
  std::vector<float> out(size());
  if (dtype == "F32")
    std::memcpy(out.data(), bytes.data(), bytes.size());
  else // bf16 is the upper half of a float
    for (Index i = 0; i < size(); ++i) {
      std::uint32_t bits = std::uint32_t(bytes[2 * i]) << 16 | std::uint32_t(bytes[2 * i + 1]) << 24;
      std::memcpy(&out[i], &bits, sizeof bits);
    }
  return out;
}

std::vector<std::int32_t> Tensor::ints() const {
  require(dtype == "I32" || dtype == "I64", "Tensor::ints: neither I32 nor I64");
  std::vector<std::int32_t> out(size());
  for (Index i = 0; i < size(); ++i) {
    if (dtype == "I32") {
      std::memcpy(&out[i], &bytes[4 * i], 4);
      continue;
    }
    std::int64_t wide;
    std::memcpy(&wide, &bytes[8 * i], 8);
    require(wide >= std::numeric_limits<std::int32_t>::min() && wide <= std::numeric_limits<std::int32_t>::max(),
            "Tensor::ints: value does not fit 32 bits");
    out[i] = static_cast<std::int32_t>(wide);
  }
  return out;
}

static Index bytesPerElement(const std::string &dtype) {
  if (dtype == "U8")
    return 1;
  if (dtype == "BF16")
    return 2;
  if (dtype == "F32" || dtype == "I32")
    return 4;
  if (dtype == "I64")
    return 8;
  return 0;
}

std::string k3::ref::readSafetensors(const std::string &path, Tensors &tensors) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return path + ": cannot open";
  std::vector<std::uint8_t> all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::uint64_t headerSize = 0;
  if (all.size() >= 8)
    std::memcpy(&headerSize, all.data(), 8);
  if (all.size() < 8 || headerSize > all.size() - 8)
    return path + ": shorter than its header";
  auto header = nlohmann::json::parse(all.begin() + 8, all.begin() + 8 + headerSize, nullptr, false);
  if (!header.is_object())
    return path + ": the header is not a JSON object";
  const std::uint8_t *data = all.data() + 8 + headerSize;
  std::uint64_t dataSize = all.size() - 8 - headerSize;

  for (auto &[name, entry] : header.items()) {
    if (name == "__metadata__")
      continue;
    auto bad = [&, name = name](const char *what) { return path + ": " + name + ": " + what; };
    if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() || !entry.contains("shape") ||
        !entry["shape"].is_array() || !entry.contains("data_offsets") || !entry["data_offsets"].is_array() ||
        entry["data_offsets"].size() != 2)
      return bad("incomplete entry");
    Tensor tensor;
    tensor.dtype = entry["dtype"].get<std::string>();
    std::uint64_t bytes = bytesPerElement(tensor.dtype);
    if (!bytes)
      return bad("unknown dtype");
    for (auto &dim : entry["shape"]) {
      if (!dim.is_number_unsigned() || dim.get<std::uint64_t>() > dataSize + 1)
        return bad("bad shape");
      tensor.shape.push_back(dim.get<Index>());
      bytes *= tensor.shape.back();
      if (bytes > dataSize)
        return bad("larger than the file");
    }
    auto &offsets = entry["data_offsets"];
    if (!offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
      return bad("bad offsets");
    std::uint64_t begin = offsets[0].get<std::uint64_t>(), end = offsets[1].get<std::uint64_t>();
    if (begin > end || end > dataSize || end - begin != bytes)
      return bad("offsets do not match shape and file");
    tensor.bytes.assign(data + begin, data + end);
    tensors[name] = std::move(tensor);
  }
  return {};
}
