//===- TermTest.cpp - arithmetic of #k3.term -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <random>

using namespace mlir;
using namespace mlir::k3;

namespace {
struct TermTest : testing::Test {
  TermTest() { context.loadDialect<K3Dialect>(); }

  TermAttr constant(int64_t value) { return TermAttr::getConstant(&context, value); }
  TermAttr dim(StringRef name) { return TermAttr::getDim(&context, name); }
  static std::optional<int64_t> evaluate(TermAttr term, int64_t t, int64_t n) {
    return term.evaluate([&](StringRef symbol) -> std::optional<int64_t> {
      if (symbol == "T")
        return t;
      if (symbol == "N")
        return n;
      return std::nullopt;
    });
  }

  MLIRContext context;
};
} // namespace

TEST_F(TermTest, NamesOfDimensions) {
  EXPECT_EQ(evaluate(dim("T"), 7, 3), 7);
  EXPECT_EQ(evaluate(dim("N+1"), 7, 3), 4);
  EXPECT_FALSE(dim(""));
  EXPECT_FALSE(dim("N+"));
  EXPECT_FALSE(dim("2"));
  EXPECT_FALSE(dim("N*2"));
  EXPECT_EQ(evaluate(dim("X"), 7, 3), std::nullopt);
}

// Every result that exists has the value of the plain arithmetic.
TEST_F(TermTest, AgreesWithArithmetic) {
  std::mt19937 random(1);
  auto below = [&](int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random); };
  unsigned results = 0;
  for (int round = 0; round < 2000; ++round) {
    TermAttr term = below(2) ? dim(below(2) ? "T" : "N+1") : constant(below(9));
    int64_t t = below(200), n = below(20);
    int64_t value = *evaluate(term, t, n);
    for (int step = 0; step < 5 && term; ++step) {
      TermAttr other = below(2) ? dim(below(2) ? "T" : "N") : constant(below(9));
      int64_t otherValue = *evaluate(other, t, n), divisor = 1 + below(17);
      switch (below(4)) {
      case 0:
        term = TermAttr::multiply(term, other);
        value *= otherValue;
        break;
      case 1:
        term = TermAttr::sum(term, other);
        value += otherValue;
        break;
      case 2:
        term = TermAttr::ceilDiv(term, divisor);
        value = (value + divisor - 1) / divisor;
        break;
      case 3:
        term = TermAttr::exactDiv(term, divisor);
        value = value % divisor == 0 ? value / divisor : -1;
        break;
      }
      if (!term)
        continue;
      ++results;
      ASSERT_EQ(evaluate(term, t, n), value) << "round " << round << ", step " << step;
    }
  }
  EXPECT_GT(results, 2000u);
}

TEST_F(TermTest, RefusesWhatIsNoTerm) {
  EXPECT_FALSE(TermAttr::multiply(dim("N+1"), dim("T")));
  EXPECT_FALSE(TermAttr::sum(dim("T"), dim("N")));
  EXPECT_FALSE(TermAttr::multiply(TermAttr::ceilDiv(dim("T"), 16), constant(2)));
  EXPECT_FALSE(TermAttr::exactDiv(dim("T"), 2));
  EXPECT_FALSE(TermAttr::multiply(constant(INT64_MAX), constant(2)));
  EXPECT_FALSE(TermAttr::sum(constant(INT64_MAX), constant(1)));
  TermAttr huge = TermAttr::multiply(dim("T"), constant(INT64_MAX / 2));
  EXPECT_EQ(evaluate(huge, 3, 1), std::nullopt);
}
