//===- Fixtures.h - values of another implementation ----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// The fixtures are not part of the project: they are read from ../shared/third-party/ops where present (K3_SHARED_DIR
// names another place for ../shared), and the tests are skipped where not. They were made in float, so tolerances are
// those of float sums.
#pragma once
#include "gtest/gtest.h"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace k3::test {

/// A test that reads one file of named arrays {shape, data} and numbers.
class FixtureTest : public ::testing::Test {
protected:
  using Values = std::vector<double>;
  nlohmann::json fixture;

  /// Loads NAME.json; false where the fixtures are absent.
  bool open(const std::string &name) {
    const char *given = std::getenv("K3_SHARED_DIR");
    std::string source = K3_SOURCE_DIR;
    for (const std::string &shared :
         {std::string(given ? given : ""), source + "/../shared", source + "/../../shared"}) {
      std::ifstream file(shared + "/third-party/ops/" + name + ".json");
      if (!file)
        continue;
      fixture = nlohmann::json::parse(file, nullptr, false);
      EXPECT_TRUE(fixture.is_object()) << shared;
      return fixture.is_object();
    }
    return false;
  }
  bool has(const std::string &key) const { return fixture.contains(key); }
  Values values(const std::string &key) const { return fixture.at(key).at("data").get<Values>(); }
  std::int64_t integer(const std::string &key) const { return fixture.at(key).get<std::int64_t>(); }
  double number(const std::string &key) const { return fixture.at(key).get<double>(); }
  std::int64_t dim(const std::string &key, std::size_t axis) const {
    return fixture.at(key).at("shape").at(axis).get<std::int64_t>();
  }
};

/// [tokens, slots, dim] as the fixtures have it -> [slots, tokens, dim].
inline std::vector<double> slotMajor(const std::vector<double> &tokenMajor, std::int64_t tokens, std::int64_t slots,
                                     std::int64_t dim) {
  std::vector<double> out;
  for (std::int64_t s = 0; s < slots; ++s)
    for (std::int64_t t = 0; t < tokens; ++t)
      out.insert(out.end(), tokenMajor.begin() + (t * slots + s) * dim, tokenMajor.begin() + (t * slots + s + 1) * dim);
  return out;
}

} // namespace k3::test

#define OPEN_OR_SKIP(NAME)                                                                                             \
  if (!open(NAME))                                                                                                     \
  GTEST_SKIP() << NAME << ".json is not here: set K3_SHARED_DIR to run this test"
