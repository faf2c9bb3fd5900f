//===- Tokenizer.h - text to token ids and back -------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_TEXT_TOKENIZER_H
#define K3RT_TEXT_TOKENIZER_H

#include "runtime/src/text/PreTokenizer.h"
#include "runtime/src/text/TokenizerBlob.h"

#include <array>
#include <optional>

namespace k3rt {

/// Whether the names of special tokens in a text stand for those tokens. `no` is
/// the right choice for everything a user or tool wrote.
enum class AllowSpecial { no, yes };

/// Whether decoding writes special tokens by name or leaves them out.
enum class SpecialText { skip, show };

/// The tokenizer of one artifact. Const members may be called from several
/// threads. Functions return false with one line in `error`.
class Tokenizer {
public:
  /// Opens a block made by serializeTokenizer, in place: the bytes must stay
  /// mapped as long as the tokenizer lives. Null with `error` set when the block
  /// is damaged.
  static std::unique_ptr<Tokenizer> open(const void *data, size_t size,
                                         std::string &error);

  /// Appends the ids of `text` to `ids`; no begin token is added. Errors: invalid
  /// UTF-8 (the message has the byte offset), 2 GiB or more of text. With `yes`
  /// the leftmost special name wins, the longest one where several start.
  [[nodiscard]] bool encode(std::string_view text, AllowSpecial allow,
                            std::vector<int32_t> &ids,
                            std::string &error) const;

  /// Appends the bytes of `ids` to `bytes`: not always valid UTF-8, see
  /// decodeText. A reserved id without a name shows as <|reserved_token_ID|>.
  /// Error: an id outside the vocabulary (the message has id and position).
  [[nodiscard]] bool decode(const int32_t *ids, size_t count,
                            SpecialText special, std::string &bytes,
                            std::string &error) const;

  /// decode, with invalid UTF-8 repaired by the policy of Utf8Repairer.
  [[nodiscard]] bool decodeText(const int32_t *ids, size_t count,
                                SpecialText special, std::string &text,
                                std::string &error) const;

  uint32_t vocabSize() const { return blob.vocabSize(); }
  /// Ids below it are base tokens, ids from it on special or reserved.
  uint32_t baseCount() const { return blob.baseCount(); }
  /// Names the tokenizer: equal for equal base tokens, specials and size.
  uint64_t contentHash() const { return blob.contentHash(); }
  /// Id of the special token called `name`, e.g. "[BOS]".
  std::optional<int32_t> specialId(std::string_view name) const;
  /// Name of a special token; empty for base and reserved ids.
  std::string_view specialName(int32_t id) const;

  /// Ids a model has no reason to answer with: reserved ids without a name,
  /// [PAD], [UNK], [BOS] and the media markers. For SamplerOptions::bannedIds.
  std::vector<int32_t> neverSampledIds() const;

  const TokenizerBlob &data() const { return blob; }

private:
  Tokenizer() = default;
  void indexSpecials();

  TokenizerBlob blob;
  PreTokenizer preTokenizer;
  // Indices of the named specials by first byte of their name, longest first.
  std::array<std::vector<uint32_t>, 256> specialsByByte;
};

} // namespace k3rt

#endif // K3RT_TEXT_TOKENIZER_H
