//===- ExecAttrs.cpp - attributes of programs -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace mlir::k3;

//===----------------------------------------------------------------------===//
// Term
//===----------------------------------------------------------------------===//

/// ceil(numerator / divisor) for divisor > 0.
static int64_t ceilDivide(int64_t numerator, int64_t divisor) {
  int64_t quotient = numerator / divisor;
  return quotient + (numerator % divisor > 0);
}

/// The canonical form: symbols sorted, constants folded. Null if a constant leaves int64_t.
static TermAttr makeTerm(MLIRContext *context, ArrayRef<StringAttr> symbols, int64_t mul, int64_t add, int64_t div) {
  SmallVector<StringAttr> sorted(symbols);
  llvm::sort(sorted, [](StringAttr lhs, StringAttr rhs) { return lhs.getValue() < rhs.getValue(); });
  if (mul == 0)
    sorted.clear();
  if (!sorted.empty())
    return TermAttr::get(context, sorted, mul, add, div);
  int64_t numerator;
  if (__builtin_add_overflow(mul, add, &numerator))
    return {};
  return TermAttr::get(context, {}, ceilDivide(numerator, div), 0, 1);
}

TermAttr TermAttr::getConstant(MLIRContext *context, int64_t value) { return get(context, {}, value, 0, 1); }

static bool isSymbolName(StringRef name) {
  auto isWord = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  return !name.empty() && !llvm::isDigit(name.front()) && llvm::all_of(name, isWord) && name != "ceildiv";
}

TermAttr TermAttr::getDim(MLIRContext *context, StringRef dim) {
  auto [name, rest] = dim.split('+');
  int64_t add = 0;
  if (!isSymbolName(name) || (dim.contains('+') && rest.getAsInteger(10, add)))
    return {};
  return get(context, StringAttr::get(context, name), 1, add, 1);
}

std::optional<int64_t> TermAttr::getConstantValue() {
  if (getSymbols().empty())
    return getMul();
  return std::nullopt;
}

TermAttr TermAttr::multiply(TermAttr lhs, TermAttr rhs) {
  if (rhs.getSymbols().empty())
    std::swap(lhs, rhs);
  // Only a constant distributes over a sum, and nothing over a division that rounds.
  bool lhsConstant = lhs.getSymbols().empty();
  if (lhs.getDiv() != 1 || rhs.getDiv() != 1 || (!lhsConstant && (lhs.getAdd() != 0 || rhs.getAdd() != 0)))
    return {};
  SmallVector<StringAttr> symbols(lhs.getSymbols());
  llvm::append_range(symbols, rhs.getSymbols());
  int64_t mul, add;
  if (__builtin_mul_overflow(lhs.getMul(), rhs.getMul(), &mul) ||
      __builtin_mul_overflow(lhs.getMul(), rhs.getAdd(), &add))
    return {};
  return makeTerm(lhs.getContext(), symbols, mul, add, 1);
}

TermAttr TermAttr::sum(TermAttr lhs, TermAttr rhs) {
  if (rhs.getSymbols().empty())
    std::swap(lhs, rhs);
  if (lhs.getDiv() != 1 || rhs.getDiv() != 1)
    return {};
  int64_t mul, add;
  if (lhs.getSymbols().empty()) {
    mul = rhs.getMul();
    if (rhs.getSymbols().empty()) {
      if (__builtin_add_overflow(lhs.getMul(), rhs.getMul(), &mul))
        return {};
      return getConstant(lhs.getContext(), mul);
    }
    if (__builtin_add_overflow(lhs.getMul(), rhs.getAdd(), &add))
      return {};
  } else {
    if (lhs.getSymbols() != rhs.getSymbols() || __builtin_add_overflow(lhs.getMul(), rhs.getMul(), &mul) ||
        __builtin_add_overflow(lhs.getAdd(), rhs.getAdd(), &add))
      return {};
  }
  return makeTerm(lhs.getContext(), rhs.getSymbols(), mul, add, 1);
}

TermAttr TermAttr::ceilDiv(TermAttr term, int64_t divisor) {
  if (TermAttr exact = exactDiv(term, divisor))
    return exact;
  int64_t div;
  if (divisor <= 0 || __builtin_mul_overflow(term.getDiv(), divisor, &div))
    return {};
  return makeTerm(term.getContext(), term.getSymbols(), term.getMul(), term.getAdd(), div);
}

TermAttr TermAttr::exactDiv(TermAttr term, int64_t divisor) {
  if (divisor <= 0 || term.getDiv() != 1 || term.getMul() % divisor != 0 || term.getAdd() % divisor != 0)
    return {};
  return makeTerm(term.getContext(), term.getSymbols(), term.getMul() / divisor, term.getAdd() / divisor, 1);
}

std::optional<int64_t> TermAttr::evaluate(function_ref<std::optional<int64_t>(StringRef symbol)> valueOf) {
  int64_t value = getMul();
  for (StringAttr symbol : getSymbols()) {
    std::optional<int64_t> factor = valueOf(symbol);
    if (!factor || __builtin_mul_overflow(value, *factor, &value))
      return std::nullopt;
  }
  if (__builtin_add_overflow(value, getAdd(), &value))
    return std::nullopt;
  return ceilDivide(value, getDiv());
}

LogicalResult TermAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<StringAttr> symbols, int64_t mul,
                               int64_t add, int64_t div) {
  for (StringAttr symbol : symbols)
    if (!isSymbolName(symbol))
      return emitError() << "expected symbols to be words, got " << symbol;
  if (div < 1)
    return emitError() << "expected a divisor of at least 1, got " << div;
  if (symbols.empty() && (add != 0 || div != 1))
    return emitError() << "expected a term without symbols to be one constant";
  return success();
}

void TermAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleave(getSymbols(), printer, [&](StringAttr symbol) { printer << symbol.getValue(); }, " * ");
  if (getSymbols().empty())
    printer << getMul();
  else if (getMul() != 1)
    printer << " * " << getMul();
  if (getAdd() != 0)
    printer << " + " << getAdd();
  if (getDiv() != 1)
    printer << " ceildiv " << getDiv();
  printer << ">";
}

Attribute TermAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<StringAttr> symbols;
  int64_t mul = 1, add = 0, div = 1;
  if (parser.parseLess())
    return {};
  do {
    int64_t factor;
    OptionalParseResult integer = parser.parseOptionalInteger(factor);
    if (integer.has_value()) {
      if (failed(*integer))
        return {};
      if (__builtin_mul_overflow(mul, factor, &mul))
        return parser.emitError(loc, "term out of range"), Attribute();
      continue;
    }
    StringRef symbol;
    if (parser.parseKeyword(&symbol))
      return {};
    symbols.push_back(StringAttr::get(parser.getContext(), symbol));
  } while (succeeded(parser.parseOptionalStar()));
  if (succeeded(parser.parseOptionalPlus()) && parser.parseInteger(add))
    return {};
  if (succeeded(parser.parseOptionalKeyword("ceildiv")) && parser.parseInteger(div))
    return {};
  if (parser.parseGreater())
    return {};
  if (div < 1)
    return parser.emitError(loc, "expected a divisor of at least 1, got ") << div, Attribute();
  TermAttr term = makeTerm(parser.getContext(), symbols, mul, add, div);
  if (!term)
    parser.emitError(loc, "term out of range");
  return term;
}

//===----------------------------------------------------------------------===//
// Bindings and slots
//===----------------------------------------------------------------------===//

void BindingAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyBindingKind(getKind()) << " " << getName() << (getWrites() ? ", writes>" : ">");
}

Attribute BindingAttr::parse(AsmParser &parser, Type) {
  FailureOr<BindingKind> kind;
  StringAttr name;
  bool writes = false;
  if (parser.parseLess() || failed(kind = FieldParser<BindingKind>::parse(parser)) || parser.parseAttribute(name))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    if (parser.parseKeyword("writes"))
      return {};
    writes = true;
  }
  if (parser.parseGreater())
    return {};
  return get(parser.getContext(), *kind, name, writes);
}

void WeightSlotAttr::print(AsmPrinter &printer) const {
  printer << "<" << getName() << ", " << getType() << (getExperts() ? ", experts>" : ">");
}

Attribute WeightSlotAttr::parse(AsmParser &parser, Type) {
  StringAttr name;
  RankedTensorType type;
  bool experts = false;
  if (parser.parseLess() || parser.parseAttribute(name) || parser.parseComma() || parser.parseType(type))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    if (parser.parseKeyword("experts"))
      return {};
    experts = true;
  }
  if (parser.parseGreater())
    return {};
  return get(parser.getContext(), name, type, experts);
}
