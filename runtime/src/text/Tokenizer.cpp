//===- Tokenizer.cpp - text to token ids and back -----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/text/Tokenizer.h"

#include "runtime/src/text/PairMerger.h"
#include "runtime/src/text/Utf8.h"

#include <algorithm>

namespace k3rt {

std::unique_ptr<Tokenizer> Tokenizer::open(const void *data, size_t size,
                                           std::string &error) {
  std::unique_ptr<Tokenizer> tokenizer(new Tokenizer());
  if (!tokenizer->blob.open(data, size, error))
    return nullptr;
  tokenizer->indexSpecials();
  return tokenizer;
}

void Tokenizer::indexSpecials() {
  for (uint32_t i = 0; i < blob.specialCount(); ++i)
    specialsByByte[static_cast<unsigned char>(blob.specialName(i)[0])]
        .push_back(i);
  for (std::vector<uint32_t> &bucket : specialsByByte)
    std::sort(bucket.begin(), bucket.end(), [this](uint32_t a, uint32_t b) {
      size_t sizeA = blob.specialName(a).size();
      size_t sizeB = blob.specialName(b).size();
      return sizeA != sizeB ? sizeA > sizeB : a < b;
    });
}

bool Tokenizer::encode(std::string_view text, AllowSpecial allow,
                       std::vector<int32_t> &ids, std::string &error) const {
  if (text.size() >= (size_t(1) << 31)) {
    error = "text of " + std::to_string(text.size()) +
            " bytes is longer than 2 GiB";
    return false;
  }
  size_t invalid = findInvalidUtf8(text);
  if (invalid != text.size()) {
    error = "text is not valid UTF-8 at byte " + std::to_string(invalid);
    return false;
  }

  PairMerger merger(blob);
  std::vector<size_t> ends;
  size_t known = ids.size();
  auto encodeOrdinary = [&](std::string_view part) {
    ends.clear();
    if (!preTokenizer.split(part, ends, error))
      return false;
    size_t start = 0;
    for (size_t end : ends) {
      merger.encode(part.substr(start, end - start), ids);
      start = end;
    }
    return true;
  };

  size_t start = 0;
  if (allow == AllowSpecial::yes) {
    for (size_t at = 0; at < text.size();) {
      const std::vector<uint32_t> &bucket =
          specialsByByte[static_cast<unsigned char>(text[at])];
      auto hit = std::find_if(bucket.begin(), bucket.end(), [&](uint32_t i) {
        std::string_view name = blob.specialName(i);
        return text.compare(at, name.size(), name) == 0;
      });
      if (hit == bucket.end()) {
        ++at;
        continue;
      }
      if (!encodeOrdinary(text.substr(start, at - start))) {
        ids.resize(known);
        return false;
      }
      ids.push_back(blob.specialId(*hit));
      start = at += blob.specialName(*hit).size();
    }
  }
  if (!encodeOrdinary(text.substr(start))) {
    ids.resize(known);
    return false;
  }
  return true;
}

bool Tokenizer::decode(const int32_t *ids, size_t count, SpecialText special,
                       std::string &bytes, std::string &error) const {
  size_t known = bytes.size();
  for (size_t i = 0; i < count; ++i) {
    int32_t id = ids[i];
    if (id < 0 || static_cast<uint32_t>(id) >= blob.vocabSize()) {
      error = "token id " + std::to_string(id) + " at position " +
              std::to_string(i) + " is outside the vocabulary of " +
              std::to_string(blob.vocabSize());
      bytes.resize(known);
      return false;
    }
    if (static_cast<uint32_t>(id) < blob.baseCount()) {
      bytes += blob.tokenBytes(static_cast<uint32_t>(id));
    } else if (special == SpecialText::show) {
      std::string_view name = specialName(id);
      if (name.empty())
        bytes += "<|reserved_token_" + std::to_string(id) + "|>";
      else
        bytes += name;
    }
  }
  return true;
}

bool Tokenizer::decodeText(const int32_t *ids, size_t count,
                           SpecialText special, std::string &text,
                           std::string &error) const {
  std::string bytes;
  if (!decode(ids, count, special, bytes, error))
    return false;
  Utf8Repairer repairer;
  repairer.push(bytes, text);
  repairer.finish(text);
  return true;
}

std::optional<int32_t> Tokenizer::specialId(std::string_view name) const {
  if (name.empty())
    return std::nullopt;
  for (uint32_t i : specialsByByte[static_cast<unsigned char>(name[0])])
    if (blob.specialName(i) == name)
      return blob.specialId(i);
  return std::nullopt;
}

std::string_view Tokenizer::specialName(int32_t id) const {
  uint32_t first = 0, last = blob.specialCount();
  while (first < last) {
    uint32_t middle = first + (last - first) / 2;
    if (blob.specialId(middle) < id)
      first = middle + 1;
    else
      last = middle;
  }
  if (first == blob.specialCount() || blob.specialId(first) != id)
    return {};
  return blob.specialName(first);
}

std::vector<int32_t> Tokenizer::neverSampledIds() const {
  std::vector<int32_t> ids;
  for (uint32_t id = blob.baseCount(); id < blob.vocabSize(); ++id) {
    std::string_view name = specialName(static_cast<int32_t>(id));
    if (name.empty() || name == "[PAD]" || name == "[UNK]" || name == "[BOS]" ||
        name.substr(0, 8) == "<|media_")
      ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

} // namespace k3rt
