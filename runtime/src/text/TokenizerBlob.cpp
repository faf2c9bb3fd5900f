//===- TokenizerBlob.cpp - the tokenizer as bytes in the artifact -------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/text/TokenizerBlob.h"

#include "runtime/src/text/Utf8.h"

#include <algorithm>
#include <cstring>

namespace k3rt {

namespace {
constexpr uint32_t version = 1;
constexpr uint32_t headerBytes = 64;
constexpr uint32_t kimiPattern = 1;
constexpr uint32_t maxVocab = 1u << 24;

uint32_t load32(const uint8_t *p) {
  return uint32_t(p[0]) | uint32_t(p[1]) << 8 | uint32_t(p[2]) << 16 |
         uint32_t(p[3]) << 24;
}
uint64_t load64(const uint8_t *p) {
  return load32(p) | uint64_t(load32(p + 4)) << 32;
}

class Writer {
public:
  explicit Writer(std::vector<uint8_t> &out) : out(out) {}
  void put32(uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8)
      out.push_back(static_cast<uint8_t>(value >> shift));
  }
  void put64(uint64_t value) {
    put32(static_cast<uint32_t>(value));
    put32(static_cast<uint32_t>(value >> 32));
  }
  void putBytes(std::string_view bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
  }

private:
  std::vector<uint8_t> &out;
};

constexpr uint64_t fnvBasis = 0xcbf29ce484222325u;
constexpr uint64_t fnvPrime = 0x100000001b3u;

uint64_t hashBytes(std::string_view bytes) {
  uint64_t h = fnvBasis;
  for (char c : bytes)
    h = (h ^ static_cast<unsigned char>(c)) * fnvPrime;
  return h;
}
uint64_t mix(uint64_t h, uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8)
    h = (h ^ (value >> shift & 0xFF)) * fnvPrime;
  return h;
}
uint32_t firstSlot(uint64_t h, uint32_t mask) {
  return static_cast<uint32_t>(h ^ h >> 32) & mask;
}

std::string quoteBytes(std::string_view bytes) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (char c : bytes.substr(0, 16)) {
    unsigned char byte = static_cast<unsigned char>(c);
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return "0x" + text + (bytes.size() > 16 ? "..." : "");
}
} // namespace

bool serializeTokenizer(const TokenizerData &data, std::vector<uint8_t> &blob,
                        std::string &error) {
  auto fail = [&error](std::string text) {
    error = "tokenizer: " + std::move(text);
    return false;
  };
  uint64_t base = data.baseTokens.size();
  if (data.vocabSize > maxVocab)
    return fail("vocabulary of " + std::to_string(data.vocabSize) +
                " is over the limit of " + std::to_string(maxVocab));
  if (base > data.vocabSize)
    return fail(std::to_string(base) + " base tokens do not fit a vocabulary of " +
                std::to_string(data.vocabSize));

  uint64_t textBytes = 0, nameBytes = 0;
  for (const std::string &token : data.baseTokens)
    textBytes += token.size();
  for (const SpecialToken &special : data.specialTokens)
    nameBytes += special.content.size();
  if (textBytes > UINT32_MAX || nameBytes > UINT32_MAX)
    return fail("token texts are longer than 4 GiB");

  uint32_t slotCount = 1;
  while (slotCount < 2 * base)
    slotCount *= 2;
  std::vector<uint32_t> slots(slotCount, TokenizerBlob::notFound);
  uint64_t content = mix(fnvBasis, base);
  for (uint32_t id = 0; id < base; ++id) {
    const std::string &token = data.baseTokens[id];
    if (token.empty())
      return fail("token " + std::to_string(id) + " is empty");
    uint64_t h = hashBytes(token);
    content = mix(content, h);
    uint32_t slot = firstSlot(h, slotCount - 1);
    for (; slots[slot] != TokenizerBlob::notFound;
         slot = (slot + 1) & (slotCount - 1))
      if (data.baseTokens[slots[slot]] == token)
        return fail("tokens " + std::to_string(slots[slot]) + " and " +
                    std::to_string(id) + " have the same bytes " +
                    quoteBytes(token));
    slots[slot] = id;
  }

  std::vector<const SpecialToken *> specials;
  for (const SpecialToken &special : data.specialTokens)
    specials.push_back(&special);
  std::sort(specials.begin(), specials.end(),
            [](const SpecialToken *a, const SpecialToken *b) {
              return a->id < b->id;
            });
  content = mix(content, data.vocabSize);
  for (const SpecialToken *special : specials)
    content = mix(mix(content, static_cast<uint64_t>(special->id)),
                  hashBytes(special->content));

  uint64_t total = headerBytes + 4 * (base + 1) + 4 * uint64_t(slotCount) +
                   12 * uint64_t(specials.size()) + textBytes + nameBytes;
  std::vector<uint8_t> bytes;
  bytes.reserve(total);
  Writer writer(bytes);
  writer.putBytes("K3TK");
  for (uint32_t field : {version, headerBytes, kimiPattern, uint32_t(base),
                         data.vocabSize, uint32_t(specials.size()), slotCount,
                         uint32_t(textBytes), uint32_t(nameBytes)})
    writer.put32(field);
  writer.put64(content);
  writer.put64(total);
  writer.put64(0);
  uint32_t offset = 0;
  for (const std::string &token : data.baseTokens) {
    writer.put32(offset);
    offset += static_cast<uint32_t>(token.size());
  }
  writer.put32(offset);
  for (uint32_t slot : slots)
    writer.put32(slot);
  offset = 0;
  for (const SpecialToken *special : specials) {
    writer.put32(static_cast<uint32_t>(special->id));
    writer.put32(offset);
    writer.put32(static_cast<uint32_t>(special->content.size()));
    offset += static_cast<uint32_t>(special->content.size());
  }
  for (const std::string &token : data.baseTokens)
    writer.putBytes(token);
  for (const SpecialToken *special : specials)
    writer.putBytes(special->content);

  // The reader's checks are the remaining rules (single bytes, specials).
  TokenizerBlob check;
  if (!check.open(bytes.data(), bytes.size(), error))
    return false;
  blob = std::move(bytes);
  return true;
}

bool TokenizerBlob::open(const void *data, size_t size, std::string &error) {
  auto fail = [&error](std::string text) {
    error = "tokenizer: " + std::move(text);
    return false;
  };
  const uint8_t *p = static_cast<const uint8_t *>(data);
  if (size < headerBytes)
    return fail("block of " + std::to_string(size) + " bytes is too short");
  if (std::memcmp(p, "K3TK", 4) != 0)
    return fail("block does not start with K3TK");
  if (load32(p + 4) != version)
    return fail("version " + std::to_string(load32(p + 4)) +
                " is not supported, this build reads version " +
                std::to_string(version) + "; compile the model again");
  if (load32(p + 8) != headerBytes)
    return fail("header of " + std::to_string(load32(p + 8)) + " bytes, not 64");
  if (load32(p + 12) != kimiPattern)
    return fail("unknown split pattern " + std::to_string(load32(p + 12)));
  numBase = load32(p + 16);
  numVocab = load32(p + 20);
  numSpecial = load32(p + 24);
  uint32_t slotCount = load32(p + 28);
  textBytes = load32(p + 32);
  nameBytes = load32(p + 36);
  hash = load64(p + 40);
  if (numVocab > maxVocab || numBase > numVocab || numSpecial > numVocab - numBase)
    return fail(std::to_string(numBase) + " base and " +
                std::to_string(numSpecial) +
                " special tokens do not fit a vocabulary of " +
                std::to_string(numVocab));
  if (slotCount == 0 || (slotCount & (slotCount - 1)) != 0 ||
      slotCount < 2 * uint64_t(numBase) || slotCount > 8 * uint64_t(maxVocab))
    return fail("hash table of " + std::to_string(slotCount) + " slots");
  uint64_t total = headerBytes + 4 * (uint64_t(numBase) + 1) +
                   4 * uint64_t(slotCount) + 12 * uint64_t(numSpecial) +
                   textBytes + nameBytes;
  if (load64(p + 48) != total || size != total)
    return fail("block of " + std::to_string(size) + " bytes, header says " +
                std::to_string(load64(p + 48)) + ", its parts add up to " +
                std::to_string(total));
  if (load64(p + 56) != 0)
    return fail("reserved header field is not 0");

  slotMask = slotCount - 1;
  offsets = p + headerBytes;
  slots = offsets + 4 * (size_t(numBase) + 1);
  specials = slots + 4 * size_t(slotCount);
  texts = reinterpret_cast<const char *>(specials + 12 * size_t(numSpecial));
  names = texts + textBytes;
  return checkTokens(error) && checkSpecials(error);
}

bool TokenizerBlob::checkTokens(std::string &error) {
  auto fail = [&error](std::string text) {
    error = "tokenizer: " + std::move(text);
    return false;
  };
  uint32_t previous = load32(offsets);
  if (previous != 0)
    return fail("texts do not start at 0");
  longest = 0;
  for (uint32_t id = 0; id < numBase; ++id) {
    uint32_t end = load32(offsets + 4 * (size_t(id) + 1));
    if (end <= previous || end > textBytes)
      return fail("text of token " + std::to_string(id) + " is [" +
                  std::to_string(previous) + ", " + std::to_string(end) + ") of " +
                  std::to_string(textBytes) + " bytes");
    longest = std::max<size_t>(longest, end - previous);
    previous = end;
  }
  if (previous != textBytes)
    return fail("texts end at " + std::to_string(previous) + " of " +
                std::to_string(textBytes) + " bytes");

  uint32_t used = 0;
  for (uint64_t slot = 0; slot <= slotMask; ++slot) {
    uint32_t id = load32(slots + 4 * slot);
    if (id == notFound)
      continue;
    if (id >= numBase)
      return fail("hash slot " + std::to_string(slot) + " holds id " +
                  std::to_string(id) + " of " + std::to_string(numBase));
    ++used;
  }
  // With at most B of 2 B slots used every search ends at a free one.
  if (used != numBase)
    return fail(std::to_string(used) + " hash slots used for " +
                std::to_string(numBase) + " tokens");

  uint64_t content = mix(fnvBasis, numBase);
  for (uint32_t id = 0; id < numBase; ++id) {
    std::string_view bytes = tokenBytes(id);
    uint64_t h = hashBytes(bytes);
    content = mix(content, h);
    if (find(bytes) != id)
      return fail("token " + std::to_string(id) + " (" + quoteBytes(bytes) +
                  ") is not found under its bytes");
  }
  for (int byte = 0; byte < 256; ++byte) {
    char single = static_cast<char>(byte);
    if (find({&single, 1}) == notFound)
      return fail("no token for the single byte " + quoteBytes({&single, 1}));
  }
  content = mix(content, numVocab);
  for (uint32_t i = 0; i < numSpecial; ++i) {
    // Names are checked to lie inside the block below; here only their ranges.
    uint32_t start = load32(specials + 12 * size_t(i) + 4);
    uint32_t length = load32(specials + 12 * size_t(i) + 8);
    if (length == 0 || start > nameBytes || length > nameBytes - start)
      return fail("name of special token " + std::to_string(specialId(i)) +
                  " is [" + std::to_string(start) + ", +" +
                  std::to_string(length) + ") of " + std::to_string(nameBytes) +
                  " bytes");
    content = mix(mix(content, static_cast<uint64_t>(specialId(i))),
                  hashBytes(specialName(i)));
  }
  if (content != hash)
    return fail("content does not match its hash");
  return true;
}

bool TokenizerBlob::checkSpecials(std::string &error) {
  auto fail = [&error](std::string text) {
    error = "tokenizer: special token " + std::move(text);
    return false;
  };
  std::vector<std::string_view> sorted;
  int64_t previous = int64_t(numBase) - 1;
  for (uint32_t i = 0; i < numSpecial; ++i) {
    uint32_t id = load32(specials + 12 * size_t(i));
    std::string_view name = specialName(i);
    if (id < numBase || id >= numVocab)
      return fail(std::to_string(id) + " is outside [" + std::to_string(numBase) +
                  ", " + std::to_string(numVocab) + ")");
    if (id <= previous)
      return fail(std::to_string(id) + " follows " + std::to_string(previous) +
                  ", ids must be distinct and rise");
    previous = id;
    if (findInvalidUtf8(name) != name.size())
      return fail(std::to_string(id) + " has a name that is not UTF-8");
    sorted.push_back(name);
  }
  std::sort(sorted.begin(), sorted.end());
  auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    return fail("'" + std::string(*twice) + "' has two ids");
  return true;
}

std::string_view TokenizerBlob::tokenBytes(uint32_t id) const {
  uint32_t start = load32(offsets + 4 * size_t(id));
  return {texts + start, load32(offsets + 4 * (size_t(id) + 1)) - start};
}

uint32_t TokenizerBlob::find(std::string_view bytes) const {
  uint32_t slot = firstSlot(hashBytes(bytes), slotMask);
  while (true) {
    uint32_t id = load32(slots + 4 * size_t(slot));
    if (id == notFound || tokenBytes(id) == bytes)
      return id;
    slot = (slot + 1) & slotMask;
  }
}

int32_t TokenizerBlob::specialId(uint32_t index) const {
  return static_cast<int32_t>(load32(specials + 12 * size_t(index)));
}

std::string_view TokenizerBlob::specialName(uint32_t index) const {
  const uint8_t *entry = specials + 12 * size_t(index);
  return {names + load32(entry + 4), load32(entry + 8)};
}

TokenizerData TokenizerBlob::read() const {
  TokenizerData data;
  data.vocabSize = numVocab;
  for (uint32_t id = 0; id < numBase; ++id)
    data.baseTokens.emplace_back(tokenBytes(id));
  for (uint32_t i = 0; i < numSpecial; ++i)
    data.specialTokens.push_back({specialId(i), std::string(specialName(i))});
  return data;
}

} // namespace k3rt
