//===- Terms.h - sizes that depend on the step ---------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_ARTIFACT_TERMS_H
#define K3RT_ARTIFACT_TERMS_H

#include "runtime/schemas/k3_artifact_generated.h"
#include "runtime/src/base/Status.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace k3rt {

/// What a step is counted in.
enum class Symbol : uint8_t {
  rows,            ///< T
  sequences,       ///< N
  chunks,          ///< C
  logitRows,       ///< R
  slots,           ///< S
  pages,           ///< P
  pagesPerSequence ///< M
};
constexpr size_t numSymbols = 7;

std::optional<Symbol> symbolNamed(std::string_view name);
const char *symbolName(Symbol symbol);

/// A value per symbol.
struct SymbolValues : std::array<int64_t, numSymbols> {
  int64_t &operator[](Symbol symbol) { return data()[size_t(symbol)]; }
  int64_t operator[](Symbol symbol) const { return data()[size_t(symbol)]; }
};

/// Largest chunk count of a step with at most `rows` rows in at most
/// `sequences` sequences; 0 when chunks are not used.
int64_t maxChunks(int64_t rows, int64_t sequences, int64_t chunkRows);

/// ceil((product(symbols) * mul + add) / div), the schema's Term.
struct Term {
  static constexpr size_t maxFactors = 4;

  std::array<Symbol, maxFactors> factors = {};
  uint8_t numFactors = 0;
  int64_t mul = 1, add = 0, div = 1;

  /// Nothing when it is negative or does not fit into 63 bits.
  std::optional<int64_t> evaluate(const SymbolValues &values) const;
  bool uses(Symbol symbol) const;
  bool operator==(const Term &other) const;
};

/// `names` are the symbols of the program, checked before. Error:
/// K3RT_BAD_ARTIFACT with the reason alone; the caller puts the place in front.
Status decodeTerm(const k3::artifact::Term *encoded, const Symbol *names,
                  size_t numNames, Term &out);

/// The symbols of a program, in its order. Error: as decodeTerm.
Status decodeSymbols(const k3::artifact::Program &program,
                     std::array<Symbol, numSymbols> &out, size_t &count);

} // namespace k3rt

#endif // K3RT_ARTIFACT_TERMS_H
