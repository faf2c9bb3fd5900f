//===- Safetensors.cpp - validated header of a safetensors file -----------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Safetensors.h"
#include "frontend/Json.h"
#include "frontend/Text.h"

#include <algorithm>
#include <set>

namespace k3::frontend {

namespace {

constexpr size_t lengthBytes = 8;
constexpr size_t maxRank = 16;
constexpr size_t maxMetadata = 65536; ///< entries

uint64_t readLength(const unsigned char *bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < lengthBytes; ++i)
    value |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  return value;
}

/// Refuses a header length before anything is allocated for it.
Status checkLength(uint64_t length, uint64_t fileSize,
                   const std::string &fileName) {
  if (length > maxSafetensorsHeader)
    return Status::error(printable(fileName) + ": header length is " +
                         std::to_string(length) + ", wanted at most " +
                         std::to_string(maxSafetensorsHeader) + " bytes");
  if (length > fileSize - lengthBytes)
    return Status::error(printable(fileName) + ": header length is " +
                         std::to_string(length) + ", but only " +
                         std::to_string(fileSize - lengthBytes) +
                         " bytes follow (truncated?)");
  return Status::success();
}

Status tooShort(uint64_t fileSize, const std::string &fileName) {
  return Status::error(printable(fileName) + ": has " +
                       std::to_string(fileSize) +
                       " bytes, wanted at least the 8 of a header length");
}

/// Builds the tensor list from the header's JSON. Unknown keys of a tensor are
/// refused: one that changes the meaning of its bytes must not pass unseen.
class HeaderHandler final : public JsonHandler {
public:
  HeaderHandler(SafetensorsHeader &header, uint64_t dataSize)
      : header(header), dataSize(dataSize) {}

  bool onStartObject() override {
    switch (where) {
    case Where::Outside:
      where = Where::Top;
      return true;
    case Where::Top:
      if (name == "__metadata__") {
        where = Where::Metadata;
        return true;
      }
      where = Where::Tensor;
      tensor = SafetensorsTensor();
      tensor.name = name;
      seen = 0;
      return true;
    default:
      return unexpected("an object");
    }
  }
  bool onEndObject() override {
    if (where == Where::Tensor && !finishTensor())
      return false;
    where = where == Where::Top ? Where::Outside : Where::Top;
    return true;
  }
  bool onStartArray() override {
    if (where == Where::Tensor && field == shapeField) {
      where = Where::Shape;
      return true;
    }
    if (where == Where::Tensor && field == offsetsField) {
      where = Where::Offsets;
      numOffsets = 0;
      return true;
    }
    return unexpected("a list");
  }
  bool onEndArray() override {
    if (where == Where::Offsets && numOffsets != 2)
      return failTensor("data_offsets has " + std::to_string(numOffsets) +
                        " entries, wanted 2");
    where = Where::Tensor;
    return true;
  }
  bool onKey(std::string &key) override {
    if (where == Where::Tensor) {
      field = key == "dtype"          ? dtypeField
              : key == "shape"        ? shapeField
              : key == "data_offsets" ? offsetsField
                                      : 0;
      if (field == 0)
        return failTensor("unknown key " + quote(key) +
                          ", wanted dtype, shape and data_offsets");
      if (seen & field)
        return failTensor("key " + quote(key) + " appears twice");
      seen |= field;
      return true;
    }
    if (where == Where::Metadata) {
      if (header.metadata.size() == maxMetadata)
        return fail("__metadata__: has more than " +
                    std::to_string(maxMetadata) + " entries");
      if (!metadataKeys.insert(key).second)
        return fail("__metadata__: key " + quote(key) + " appears twice");
      header.metadata.emplace_back(std::move(key), std::string());
      return true;
    }
    name = std::move(key);
    if (name == "__metadata__" && std::exchange(metadataSeen, true))
      return fail("key \"__metadata__\" appears twice");
    return true;
  }
  bool onString(std::string &value) override {
    if (where == Where::Metadata) {
      header.metadata.back().second = std::move(value);
      return true;
    }
    if (where != Where::Tensor || field != dtypeField)
      return unexpected(quote(value));
    std::optional<Dtype> dtype = dtypeFromName(value);
    if (!dtype)
      return failTensor("unknown dtype " + quote(value));
    tensor.dtype = *dtype;
    return true;
  }
  bool onInteger(int64_t value) override {
    if (where != Where::Shape && where != Where::Offsets)
      return unexpected(std::to_string(value));
    const char *key = where == Where::Shape ? "shape" : "data_offsets";
    if (value < 0)
      return failTensor(std::string(key) + " holds " + std::to_string(value) +
                        ", wanted a whole number from 0");
    if (where == Where::Shape) {
      tensor.shape.push_back(value);
      if (tensor.shape.size() > maxRank)
        return failTensor("shape has more than " + std::to_string(maxRank) +
                          " dimensions");
      return true;
    }
    if (numOffsets < 2)
      offsets[numOffsets] = static_cast<uint64_t>(value);
    ++numOffsets;
    return true;
  }
  bool onBigInteger(uint64_t value) override {
    return unexpected(std::to_string(value));
  }
  bool onReal(double) override { return unexpected("a fractional number"); }
  bool onBool(bool value) override {
    return unexpected(value ? "true" : "false");
  }
  bool onNull() override { return unexpected("null"); }

private:
  enum class Where : uint8_t { Outside, Top, Metadata, Tensor, Shape, Offsets };
  static constexpr unsigned dtypeField = 1, shapeField = 2, offsetsField = 4;

  bool failTensor(const std::string &message) {
    return fail("tensor " + quote(name) + ": " + message);
  }

  bool unexpected(const std::string &got) {
    switch (where) {
    case Where::Outside:
      return fail("got " + got + ", wanted an object that names tensors");
    case Where::Top:
      return failTensor("got " + got +
                        ", wanted an object with dtype, shape, data_offsets");
    case Where::Metadata:
      return fail("__metadata__: " + quote(header.metadata.back().first) +
                  ": got " + got + ", wanted a string");
    case Where::Tensor:
      return failTensor(
          field == dtypeField   ? "dtype is " + got + ", wanted a string"
          : field == shapeField ? "shape is " + got + ", wanted a list"
                                : "data_offsets is " + got + ", wanted a list");
    case Where::Shape:
      return failTensor("shape holds " + got + ", wanted whole numbers from 0");
    case Where::Offsets:
      return failTensor("data_offsets holds " + got +
                        ", wanted whole numbers from 0");
    }
    return fail("unexpected " + got);
  }

  bool finishTensor() {
    for (auto [bit, key] :
         {std::pair(dtypeField, "dtype"), std::pair(shapeField, "shape"),
          std::pair(offsetsField, "data_offsets")})
      if (!(seen & bit))
        return failTensor(std::string("missing key ") + key);

    uint64_t bits = bitWidth(tensor.dtype);
    bool empty = std::find(tensor.shape.begin(), tensor.shape.end(), 0) !=
                 tensor.shape.end();
    for (int64_t extent : tensor.shape)
      if (!empty &&
          __builtin_mul_overflow(bits, static_cast<uint64_t>(extent), &bits))
        return failTensor("shape " + shapeText(tensor.shape) +
                          " is larger than any file");
    if (empty)
      bits = 0;
    if (bits % 8 != 0 || (tensor.dtype == Dtype::F4 && !tensor.shape.empty() &&
                          tensor.shape.back() % 2 != 0))
      return failTensor(std::string(dtypeName(tensor.dtype)) + ' ' +
                        shapeText(tensor.shape) +
                        " does not fill whole bytes in its last dimension");
    const std::string place = "data_offsets [" + std::to_string(offsets[0]) +
                              ", " + std::to_string(offsets[1]) + ']';
    if (offsets[0] > offsets[1])
      return failTensor(place + " end before they begin");
    if (offsets[1] > dataSize)
      return failTensor(place + " reach past the file's " +
                        std::to_string(dataSize) +
                        " bytes of tensor data (truncated?)");
    if (offsets[1] - offsets[0] != bits / 8)
      return failTensor(
          place + " span " + std::to_string(offsets[1] - offsets[0]) +
          " bytes, wanted " + std::to_string(bits / 8) + " for " +
          dtypeName(tensor.dtype) + ' ' + shapeText(tensor.shape));
    tensor.offset = offsets[0]; // Rebased once the header's length is known.
    tensor.bytes = bits / 8;
    header.tensors.push_back(std::move(tensor));
    return true;
  }

  SafetensorsHeader &header;
  const uint64_t dataSize;
  Where where = Where::Outside;
  std::string name; ///< key of the top object being read
  bool metadataSeen = false;
  std::set<std::string> metadataKeys;
  SafetensorsTensor tensor;
  unsigned field = 0, seen = 0; ///< of the tensor being read
  uint64_t offsets[2] = {0, 0};
  uint64_t numOffsets = 0;
};

/// Data must be covered from its first to its last byte, each byte once.
Status checkCoverage(const SafetensorsHeader &header, uint64_t dataSize,
                     const std::string &fileName) {
  std::vector<const SafetensorsTensor *> order;
  order.reserve(header.tensors.size());
  for (const SafetensorsTensor &tensor : header.tensors)
    order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](auto *a, auto *b) {
    return std::pair(a->offset, a->bytes) < std::pair(b->offset, b->bytes);
  });
  uint64_t end = 0;
  const SafetensorsTensor *previous = nullptr;
  for (const SafetensorsTensor *tensor : order) {
    if (tensor->offset < end)
      return Status::error(printable(fileName) + ": tensor " +
                           quote(tensor->name) + " begins at data byte " +
                           std::to_string(tensor->offset) + ", inside tensor " +
                           quote(previous->name) + ", which ends at " +
                           std::to_string(end));
    if (tensor->offset > end)
      return Status::error(printable(fileName) + ": data bytes " +
                           std::to_string(end) + " to " +
                           std::to_string(tensor->offset) + " before tensor " +
                           quote(tensor->name) + " belong to no tensor");
    end = tensor->offset + tensor->bytes;
    previous = tensor;
  }
  if (end != dataSize)
    return Status::error(
        printable(fileName) + ": has " + std::to_string(dataSize) +
        " bytes of tensor data, but its tensors end at " + std::to_string(end));
  return Status::success();
}

Expected<SafetensorsHeader> parseHeader(std::string_view json,
                                        uint64_t fileSize,
                                        const std::string &fileName) {
  SafetensorsHeader header;
  header.fileSize = fileSize;
  header.dataStart = lengthBytes + json.size();
  const uint64_t dataSize = fileSize - header.dataStart;
  HeaderHandler handler(header, dataSize);
  if (Status status = parseJson(json, fileName, handler); !status.ok())
    return status;
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const auto &a, const auto &b) { return a.name < b.name; });
  auto twin = std::adjacent_find(
      header.tensors.begin(), header.tensors.end(),
      [](const auto &a, const auto &b) { return a.name == b.name; });
  if (twin != header.tensors.end())
    return Status::error(printable(fileName) + ": tensor " + quote(twin->name) +
                         " appears twice");
  if (Status status = checkCoverage(header, dataSize, fileName); !status.ok())
    return status;
  for (SafetensorsTensor &tensor : header.tensors)
    tensor.offset += header.dataStart;
  return header;
}

} // namespace

const SafetensorsTensor *SafetensorsHeader::find(std::string_view name) const {
  auto found = std::lower_bound(tensors.begin(), tensors.end(), name,
                                [](const SafetensorsTensor &a,
                                   std::string_view b) { return a.name < b; });
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

Expected<SafetensorsHeader> readSafetensorsHeader(const InputFile &file) {
  if (file.size() < lengthBytes)
    return tooShort(file.size(), file.path());
  unsigned char lengthField[lengthBytes];
  if (Status status = file.read(0, lengthField, lengthBytes); !status.ok())
    return status;
  const uint64_t length = readLength(lengthField);
  if (Status status = checkLength(length, file.size(), file.path());
      !status.ok())
    return status;
  std::string json(static_cast<size_t>(length), '\0');
  if (Status status = file.read(lengthBytes, json.data(), length); !status.ok())
    return status;
  return parseHeader(json, file.size(), file.path());
}

Expected<SafetensorsHeader> readSafetensorsHeader(const std::string &path) {
  Expected<InputFile> file = InputFile::open(path);
  if (!file)
    return file.status();
  return readSafetensorsHeader(*file);
}

Expected<SafetensorsHeader> parseSafetensors(std::string_view firstBytes,
                                             uint64_t fileSize,
                                             const std::string &fileName) {
  if (fileSize < lengthBytes || firstBytes.size() < lengthBytes)
    return tooShort(std::min<uint64_t>(fileSize, firstBytes.size()), fileName);
  const uint64_t length =
      readLength(reinterpret_cast<const unsigned char *>(firstBytes.data()));
  if (Status status = checkLength(length, fileSize, fileName); !status.ok())
    return status;
  if (length > firstBytes.size() - lengthBytes)
    return Status::error(printable(fileName) + ": header length is " +
                         std::to_string(length) + ", but only " +
                         std::to_string(firstBytes.size() - lengthBytes) +
                         " bytes were read");
  return parseHeader(firstBytes.substr(lengthBytes, length), fileSize,
                     fileName);
}

} // namespace k3::frontend
