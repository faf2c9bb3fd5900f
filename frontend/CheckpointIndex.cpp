//===- CheckpointIndex.cpp - model.safetensors.index.json -----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/CheckpointIndex.h"
#include "frontend/File.h"
#include "frontend/Json.h"
#include "frontend/Text.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace k3::frontend {

/// Why `name` cannot be a shard's file name, or empty if it can.
static std::string shardNameProblem(std::string_view name) {
  constexpr std::string_view suffix = ".safetensors";
  if (name.size() > 255)
    return "is longer than 255 bytes";
  for (char c : name)
    if (c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20)
      return "is not a plain file name of the model's directory";
  if (name.size() <= suffix.size() ||
      name.substr(name.size() - suffix.size()) != suffix || name[0] == '.')
    return "is not the name of a .safetensors file";
  return {};
}

class IndexHandler final : public JsonHandler {
public:
  explicit IndexHandler(CheckpointIndex &index) : index(index) {}

  bool onStartObject() override {
    ++depth;
    if (depth == 1 || skipping())
      return true;
    if (depth == 2 && (key == "weight_map" || key == "metadata")) {
      section = key == "metadata" ? Section::Metadata : Section::WeightMap;
      return true;
    }
    if (depth == 2) {
      section = Section::Other;
      return true;
    }
    return refuse("an object");
  }
  bool onEndObject() override {
    if (--depth == 1)
      section = Section::Top;
    return true;
  }
  bool onStartArray() override {
    if (depth == 0 || section == Section::WeightMap)
      return refuse("a list");
    if (section == Section::Top && !checkTopValue("a list"))
      return false;
    ++depth;
    if (section == Section::Top)
      section = Section::Other;
    return true;
  }
  bool onEndArray() override { return onEndObject(); }
  bool onKey(std::string &name) override {
    if (section == Section::WeightMap) {
      nameOffset = index.names.size();
      index.names.insert(index.names.end(), name.begin(), name.end());
      return true;
    }
    if (depth == 1) {
      bool &seen = name == "weight_map" ? seenWeightMap : seenMetadata;
      if ((name == "weight_map" || name == "metadata") &&
          std::exchange(seen, true))
        return fail("key " + quote(name) + " appears twice");
    }
    key = std::move(name);
    return true;
  }
  bool onString(std::string &value) override {
    if (section != Section::WeightMap)
      return scalar(quote(value));
    auto [found, isNew] =
        shardIds.try_emplace(value, static_cast<uint32_t>(index.files.size()));
    if (isNew) {
      if (std::string problem = shardNameProblem(value); !problem.empty())
        return fail("weight_map: " + quote(currentName()) + ": " +
                    quote(value) + ' ' + problem);
      index.files.push_back(value);
    }
    // The name's place for now: the storage still grows.
    places.push_back(
        {nameOffset, index.names.size() - nameOffset, found->second});
    return true;
  }
  bool onInteger(int64_t value) override {
    if (section == Section::Metadata && depth == 2 && key == "total_size") {
      if (value < 0)
        return fail("metadata.total_size: got " + std::to_string(value) +
                    ", wanted a number of bytes");
      index.statedSize = static_cast<uint64_t>(value);
      return true;
    }
    return scalar(std::to_string(value));
  }
  bool onBigInteger(uint64_t value) override {
    return scalar(std::to_string(value));
  }
  bool onReal(double value) override {
    // Some exporters write the size as 123.0.
    if (section == Section::Metadata && depth == 2 && key == "total_size" &&
        value >= 0 && value < 9e15 && value == std::floor(value)) {
      index.statedSize = static_cast<uint64_t>(value);
      return true;
    }
    return scalar("a fractional number");
  }
  bool onBool(bool value) override { return scalar(value ? "true" : "false"); }
  bool onNull() override { return scalar("null"); }

  /// Sorts the names and refuses twins. Call after the parse.
  Status finish(const std::string &fileName) {
    const std::string file = printable(fileName);
    if (!seenWeightMap)
      return Status::error(file + ": missing weight_map, wanted an object from "
                                  "tensor name to shard file name");
    index.table.reserve(places.size());
    for (const Place &place : places)
      index.table.push_back(
          {std::string_view(index.names.data() + place.offset, place.length),
           place.shard});
    std::sort(index.table.begin(), index.table.end(),
              [](const auto &a, const auto &b) { return a.name < b.name; });
    auto twin = std::adjacent_find(
        index.table.begin(), index.table.end(),
        [](const auto &a, const auto &b) { return a.name == b.name; });
    if (twin != index.table.end())
      return Status::error(file + ": weight_map: key " + quote(twin->name) +
                           " appears twice");
    if (index.table.empty())
      return Status::error(file + ": weight_map: names no tensor");
    return Status::success();
  }

private:
  enum class Section : uint8_t { Top, WeightMap, Metadata, Other };
  struct Place {
    size_t offset, length;
    uint32_t shard;
  };

  /// Inside a part of the file whose content does not matter.
  bool skipping() const {
    return section == Section::Other || section == Section::Metadata;
  }
  std::string_view currentName() const {
    return {index.names.data() + nameOffset, index.names.size() - nameOffset};
  }
  bool refuse(const std::string &got) {
    if (section == Section::WeightMap)
      return fail("weight_map: " + quote(currentName()) + ": got " + got +
                  ", wanted a shard file name");
    return fail("got " + got + ", wanted an object with weight_map");
  }
  bool checkTopValue(const std::string &got) {
    if (key == "weight_map")
      return fail("weight_map: got " + got +
                  ", wanted an object from tensor name to shard file name");
    return true;
  }
  bool scalar(const std::string &got) {
    if (section == Section::Metadata && depth == 2 && key == "total_size")
      return fail("metadata.total_size: got " + got +
                  ", wanted a number of bytes");
    if (depth == 0 || section == Section::WeightMap)
      return refuse(got);
    return section != Section::Top || checkTopValue(got);
  }

  CheckpointIndex &index;
  unsigned depth = 0;
  Section section = Section::Top;
  std::string key; ///< the last one outside weight_map
  bool seenWeightMap = false, seenMetadata = false;
  size_t nameOffset = 0;
  std::vector<Place> places;
  std::unordered_map<std::string, uint32_t> shardIds;
};

const CheckpointIndex::Entry *
CheckpointIndex::find(std::string_view name) const {
  auto found = std::lower_bound(
      table.begin(), table.end(), name,
      [](const Entry &a, std::string_view b) { return a.name < b; });
  return found != table.end() && found->name == name ? &*found : nullptr;
}

Expected<CheckpointIndex> CheckpointIndex::parse(std::string_view json,
                                                 const std::string &fileName) {
  CheckpointIndex index;
  IndexHandler handler(index);
  if (Status status = parseJson(json, fileName, handler); !status.ok())
    return status;
  if (Status status = handler.finish(fileName); !status.ok())
    return status;
  return index;
}

Expected<CheckpointIndex> CheckpointIndex::read(const std::string &path) {
  Expected<std::string> text = readFile(path, uint64_t(1) << 30);
  if (!text)
    return text.status();
  return parse(*text, path);
}

} // namespace k3::frontend
