//===- PreTokenizer.cpp - splitting text before byte-pair merging -------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/text/PreTokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cassert>

namespace k3rt {

namespace {
// The published pattern intersects classes ([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]), which PCRE2 has no syntax
// for. Every character has exactly one of the general categories L* M N P S Z C, so the intersection is the complement
// of the other categories and Han: one plain class. (A lookahead per character would do too, but costs a backtracking
// frame per character.) \s is spelled out as Unicode's White_Space: PCRE2's own adds U+180E.
#define SPACE "\\p{Z}\\x{09}-\\x{0d}\\x{85}"
// Han of Unicode 15 (one letter, extension H) and 15.1 (extension I).
#define NEW_HAN "\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"
// The script property: a bare \p{Han} is Script_Extensions in PCRE2, which has Chinese punctuation in it.
#define HAN "\\p{sc:Han}" NEW_HAN
#define NO_WORD "\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}" HAN
#define UPPER "[^\\p{Ll}" NO_WORD "]"
#define LOWER "[^\\p{Lu}\\p{Lt}" NO_WORD "]"
#define LEADING "[^\\r\\n\\p{L}\\p{N}" NEW_HAN "]?"
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
constexpr char pattern[] =
    "[" HAN "]+"
    "|" LEADING UPPER "*" LOWER "+" CONTRACTION //
    "|" LEADING UPPER "+" LOWER "*" CONTRACTION //
    "|\\p{N}{1,3}"
    "| ?[^" SPACE "\\p{L}\\p{N}" NEW_HAN "]+[\\r\\n]*"
    "|[" SPACE "]*[\\r\\n]+"
    "|[" SPACE "]+(?![^" SPACE "])"
    "|[" SPACE "]+";

struct MatchDeleter {
  void operator()(pcre2_match_data *data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context *context) const {
    pcre2_match_context_free(context);
  }
};
} // namespace

struct PreTokenizer::Impl {
  pcre2_code *code = nullptr;
};

PreTokenizer::PreTokenizer() : impl(std::make_unique<Impl>()) {
  int number = 0;
  PCRE2_SIZE offset = 0;
  impl->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), sizeof(pattern) - 1,
                    PCRE2_UTF | PCRE2_ANCHORED | PCRE2_NO_AUTO_CAPTURE, &number,
                    &offset, nullptr);
  assert(impl->code && "the split pattern is a constant");
}

PreTokenizer::~PreTokenizer() { pcre2_code_free(impl->code); }

bool PreTokenizer::split(std::string_view text, std::vector<size_t> &ends,
                         std::string &error) const {
  std::unique_ptr<pcre2_match_data, MatchDeleter> match(
      pcre2_match_data_create(1, nullptr));
  std::unique_ptr<pcre2_match_context, MatchDeleter> context(
      pcre2_match_context_create(nullptr));
  if (!impl->code || !match || !context) {
    error = "out of memory while splitting text";
    return false;
  }
  // Backtracking walks back over a run at most once per alternative, so this
  // many steps are enough for any text; the limit is there to prove it.
  uint64_t steps = std::min<uint64_t>(16 * uint64_t(text.size()) + 10000,
                                      UINT32_MAX);
  pcre2_set_match_limit(context.get(), static_cast<uint32_t>(steps));
  pcre2_set_depth_limit(context.get(), 1000);
  pcre2_set_heap_limit(context.get(), 65536); // KiB

  size_t at = 0;
  while (at < text.size()) {
    int result = pcre2_match(impl->code,
                             reinterpret_cast<PCRE2_SPTR>(text.data()),
                             text.size(), at, PCRE2_NO_UTF_CHECK, match.get(),
                             context.get());
    size_t end = at;
    if (result >= 0) {
      end = pcre2_get_ovector_pointer(match.get())[1];
    } else if (result != PCRE2_ERROR_NOMATCH) {
      unsigned char message[128] = {};
      pcre2_get_error_message(result, message, sizeof(message));
      error = "cannot split the text at byte " + std::to_string(at) + ": " +
              reinterpret_cast<const char *>(message);
      return false;
    }
    // The alternatives cover every character; should a future PCRE2 leave one
    // out, it stands alone: text is never dropped.
    if (end == at)
      do
        ++end;
      while (end < text.size() &&
             (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
    ends.push_back(end);
    at = end;
  }
  return true;
}

} // namespace k3rt
