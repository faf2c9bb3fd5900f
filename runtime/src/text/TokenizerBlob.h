//===- TokenizerBlob.h - the tokenizer as bytes in the artifact ---------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// A tokenizer is stored as one block of bytes and used where it lies, so that
// opening an artifact allocates nothing per token. Little-endian, no alignment
// needed. Version 1:
//
//   0   char[4]  "K3TK"            32  u32  bytes of all token texts
//   4   u32      version, 1        36  u32  bytes of all special names
//   8   u32      header bytes, 64  40  u64  content hash
//   12  u32      split pattern, 1  48  u64  bytes of the whole block
//   16  u32      base tokens B     56  u64  0
//   20  u32      vocabulary size V
//   24  u32      named specials S
//   28  u32      hash slots H, a power of two, at least 2 B
//   64  u32[B+1] start of each token's text, by id; the last is the end
//       u32[H]   open-addressing hash table of ids, 0xFFFFFFFF = free
//       u32[3 S] special id, start and length of its name; by rising id
//       bytes    token texts, then special names
//
// An id's slot is found from (h ^ h >> 32) & (H - 1), h = 64-bit FNV-1a of its
// text, going up by one and wrapping round. The content hash is the same FNV-1a
// over B, every h in id order, V, then each special's id and name hash, all as
// 8-byte little-endian numbers: it names the tokenizer, so that two artifacts
// can be seen to use the same one.
//===----------------------------------------------------------------------===//
#ifndef K3RT_TEXT_TOKENIZERBLOB_H
#define K3RT_TEXT_TOKENIZERBLOB_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace k3rt {

struct SpecialToken {
  int32_t id;
  std::string content;
};

/// A tokenizer as plain data, as read from tiktoken.model (base tokens) and
/// tokenizer_config.json (specials).
struct TokenizerData {
  /// Bytes of each base token; the index is both rank and id. All distinct, none
  /// empty, and all 256 single bytes are there (else some text has no encoding).
  std::vector<std::string> baseTokens;
  /// Named special tokens, ids in [baseTokens.size(), vocabSize), any order,
  /// names distinct, not empty, valid UTF-8.
  std::vector<SpecialToken> specialTokens;
  /// Rows of the embedding; ids at or past it do not exist. Ids that are neither
  /// base nor named are reserved.
  uint32_t vocabSize = 0;
};

/// Writes the block described above into `blob`. False with one line in `error`
/// when `data` breaks a rule stated at TokenizerData; `blob` is then unchanged.
[[nodiscard]] bool serializeTokenizer(const TokenizerData &data,
                                      std::vector<uint8_t> &blob,
                                      std::string &error);

/// Read access to a block. open() checks everything, so the accessors may be used
/// on hostile files without further checks.
class TokenizerBlob {
public:
  /// The bytes are not copied and must stay in place as long as this object.
  [[nodiscard]] bool open(const void *data, size_t size, std::string &error);

  uint32_t baseCount() const { return numBase; }
  uint32_t vocabSize() const { return numVocab; }
  uint32_t specialCount() const { return numSpecial; }
  uint64_t contentHash() const { return hash; }
  /// Length in bytes of the longest base token.
  size_t longestToken() const { return longest; }

  /// Bytes of base token `id` < baseCount().
  std::string_view tokenBytes(uint32_t id) const;
  /// Id of the base token with these bytes, or `notFound`.
  uint32_t find(std::string_view bytes) const;
  static constexpr uint32_t notFound = 0xFFFFFFFF;

  /// The `index`-th named special, by rising id.
  int32_t specialId(uint32_t index) const;
  std::string_view specialName(uint32_t index) const;

  /// The TokenizerData this block was made from (for tools that print or edit).
  TokenizerData read() const;

private:
  [[nodiscard]] bool checkTokens(std::string &error);
  [[nodiscard]] bool checkSpecials(std::string &error);

  const uint8_t *offsets = nullptr, *slots = nullptr, *specials = nullptr;
  const char *texts = nullptr, *names = nullptr;
  uint32_t numBase = 0, numVocab = 0, numSpecial = 0, slotMask = 0;
  uint32_t textBytes = 0, nameBytes = 0;
  uint64_t hash = 0;
  size_t longest = 0;
};

} // namespace k3rt

#endif // K3RT_TEXT_TOKENIZERBLOB_H
