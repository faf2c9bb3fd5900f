//===- Golden.cpp - golden values of a model ----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/Golden.h"

#include <algorithm>
#include <cstring>

namespace k3run {

using namespace k3::frontend;

bool Golden::open(const std::string &path, std::string &error) {
  Expected<InputFile> opened = InputFile::open(path);
  if (!opened) {
    error = opened.message();
    return false;
  }
  Expected<SafetensorsHeader> parsed = readSafetensorsHeader(*opened);
  if (!parsed) {
    error = parsed.message();
    return false;
  }
  file = std::move(*opened);
  header = std::move(*parsed);
  return true;
}

std::vector<std::string> Golden::prompts() const {
  const std::string ending = ".input_ids";
  std::vector<std::string> names;
  for (const SafetensorsTensor &tensor : header.tensors) {
    const std::string &name = tensor.name;
    if (name.size() > ending.size() &&
        name.compare(name.size() - ending.size(), ending.size(), ending) == 0)
      names.push_back(name.substr(0, name.size() - ending.size()));
  }
  return names;
}

const SafetensorsTensor *Golden::find(const std::string &name) const {
  const SafetensorsTensor *tensor = header.find(name);
  return tensor ? tensor : header.find("ref." + name);
}

bool Golden::readBytes(const std::string &name, size_t rank,
                       std::vector<Dtype> allowed, std::vector<int64_t> &shape,
                       std::string &bytes, Dtype &dtype,
                       std::string &error) const {
  const SafetensorsTensor *tensor = find(name);
  if (!tensor) {
    error = file->path() + ": no tensor " + name;
    return false;
  }
  if (tensor->shape.size() != rank ||
      std::find(allowed.begin(), allowed.end(), tensor->dtype) ==
          allowed.end()) {
    error = file->path() + ": " + tensor->name + " is " +
            dtypeName(tensor->dtype) + " with " +
            std::to_string(tensor->shape.size()) + " dimensions, wanted " +
            dtypeName(allowed.front()) + " with " + std::to_string(rank);
    return false;
  }
  bytes.resize(tensor->bytes);
  Status status = file->read(tensor->offset, bytes.data(), bytes.size());
  if (!status.ok()) {
    error = status.message();
    return false;
  }
  shape = tensor->shape;
  dtype = tensor->dtype;
  return true;
}

bool Golden::read(const std::string &name, size_t rank, Floats &out,
                  std::string &error) const {
  std::string bytes;
  Dtype dtype;
  if (!readBytes(name, rank, {Dtype::F32}, out.shape, bytes, dtype, error))
    return false;
  out.values.resize(bytes.size() / sizeof(float));
  std::memcpy(out.values.data(), bytes.data(), bytes.size());
  return true;
}

bool Golden::read(const std::string &name, size_t rank, Integers &out,
                  std::string &error) const {
  std::string bytes;
  Dtype dtype;
  if (!readBytes(name, rank, {Dtype::I64, Dtype::I32}, out.shape, bytes, dtype,
                 error))
    return false;
  size_t width = dtype == Dtype::I64 ? 8 : 4;
  for (size_t at = 0; at < bytes.size(); at += width) {
    int64_t wide = 0;
    int32_t narrow = 0;
    if (width == 8)
      std::memcpy(&wide, &bytes[at], width);
    else
      std::memcpy(&narrow, &bytes[at], width);
    out.values.push_back(width == 8 ? wide : narrow);
  }
  return true;
}

} // namespace k3run
