//===- Terms.cpp - sizes that depend on the step -------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/artifact/Terms.h"

#include <algorithm>

namespace k3rt {

static constexpr const char *symbolNames[numSymbols] = {"T", "N", "C", "R",
                                                        "S", "P", "M"};

std::optional<Symbol> symbolNamed(std::string_view name) {
  for (size_t i = 0; i < numSymbols; ++i)
    if (name == symbolNames[i])
      return Symbol(i);
  return std::nullopt;
}

const char *symbolName(Symbol symbol) { return symbolNames[size_t(symbol)]; }

int64_t maxChunks(int64_t rows, int64_t sequences, int64_t chunkRows) {
  if (chunkRows == 0)
    return 0;
  // Each sequence has one row at least; every further chunk needs chunkRows
  // more rows.
  int64_t most = std::min(rows, sequences);
  return most + (rows - most) / chunkRows;
}

std::optional<int64_t> Term::evaluate(const SymbolValues &values) const {
  int64_t value = mul;
  for (uint8_t i = 0; i < numFactors; ++i)
    if (__builtin_mul_overflow(value, values[factors[i]], &value))
      return std::nullopt;
  if (__builtin_add_overflow(value, add, &value) || value < 0)
    return std::nullopt;
  return value / div + (value % div != 0);
}

bool Term::uses(Symbol symbol) const {
  auto end = factors.begin() + numFactors;
  return std::find(factors.begin(), end, symbol) != end;
}

bool Term::operator==(const Term &other) const {
  return numFactors == other.numFactors && mul == other.mul &&
         add == other.add && div == other.div &&
         std::equal(factors.begin(), factors.begin() + numFactors,
                    other.factors.begin());
}

Status decodeTerm(const k3::artifact::Term *encoded, const Symbol *names,
                  size_t numNames, Term &out) {
  if (!encoded)
    return Status(K3RT_BAD_ARTIFACT, "a size is missing");
  out = Term();
  out.mul = encoded->mul();
  out.add = encoded->add();
  out.div = encoded->div();
  if (out.mul < 0 || out.div < 1)
    return makeError(K3RT_BAD_ARTIFACT,
                     "a size has mul %lld and div %lld (mul >= 0, div >= 1)",
                     static_cast<long long>(out.mul),
                     static_cast<long long>(out.div));
  const auto *symbols = encoded->symbols();
  if (!symbols)
    return Status();
  if (symbols->size() > Term::maxFactors)
    return makeError(K3RT_BAD_ARTIFACT,
                     "a size is a product of %u symbols (at most %zu)",
                     symbols->size(), Term::maxFactors);
  for (uint8_t position : *symbols) {
    if (position >= numNames)
      return makeError(K3RT_BAD_ARTIFACT, "a size uses symbol %u of %zu",
                       position, numNames);
    out.factors[out.numFactors++] = names[position];
  }
  return Status();
}

Status decodeSymbols(const k3::artifact::Program &program,
                     std::array<Symbol, numSymbols> &out, size_t &count) {
  count = 0;
  const auto *names = program.symbols();
  if (!names)
    return Status();
  if (names->size() > numSymbols)
    return makeError(K3RT_BAD_ARTIFACT, "%u symbols (at most %zu)",
                     names->size(), numSymbols);
  for (const flatbuffers::String *name : *names) {
    std::optional<Symbol> symbol = symbolNamed(name->string_view());
    if (!symbol)
      return makeError(K3RT_BAD_ARTIFACT,
                       "unknown symbol %s (T, N, C, R, S, P, M)",
                       quoted(name->c_str(), name->size()).c_str());
    out[count++] = *symbol;
  }
  return Status();
}

} // namespace k3rt
