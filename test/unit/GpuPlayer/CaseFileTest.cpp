//===- CaseFileTest.cpp - case files, good and bad -------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/gpu/CaseFile.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <set>

using namespace k3::gpu;

namespace {

Blob storeFloats(CaseSet &set, const std::vector<double> &values) {
  Bytes bytes = encode("f32", values);
  return set.store(bytes.data(), bytes.size());
}

CaseSet example() {
  CaseSet set;
  Kernel kernel;
  kernel.op = "k3.toy";
  kernel.strategy = "generic";
  kernel.entry = "toy";
  kernel.cubin = set.store("code", 4);
  kernel.threads = 128;
  kernel.cluster = 2;
  kernel.tensorMaps = {{0, {1, 64, 32}, 128}};
  kernel.startsEarly = kernel.resident = true;
  set.kernels = {kernel};
  Case c;
  c.test = "Toy.Adds";
  c.variants = {{0, {3, 2, 1}}};
  Argument stored, drawn, out, table;
  stored.dtype = drawn.dtype = out.dtype = table.dtype = "f32";
  stored.shape = drawn.shape = out.shape = {2, 2};
  Content content;
  content.kind = Content::Kind::stored;
  content.blob = storeFloats(set, {1, 2, 3, 4});
  stored.contents = {content};
  table.shape = {2, 2, 2};
  table.isTable = true;
  table.contents = {content, Content()};
  content.kind = Content::Kind::drawn;
  content.draw = {Draw::Kind::uniform, 7, 3, -1, 2};
  content.period = 3;
  drawn.contents = {content};
  out.contents = {Content()};
  out.writes = true;
  c.arguments = {stored, drawn, table, out};
  c.scalars = {1, -2};
  Expectation all, some, sampled;
  all.argument = some.argument = 3;
  all.values = storeFloats(set, {5, 6, 7, 8});
  all.mask = set.store("\1\1\0\1", 4);
  all.tolerance = {1e-6, 2e-6, 3e-6};
  some.values = storeFloats(set, {6});
  Index position = 1;
  some.positions = set.store(&position, 8);
  // Four elements are their own sample, in one block.
  sampled.argument = 3;
  sampled.values = storeFloats(set, {5, 6, 7, 8});
  sampled.sums = storeFloats(set, {26});
  sampled.largest = 8;
  c.expectations = {all, some, sampled};
  c.trafficBytes = 48;
  c.operations = 4;
  c.peak = "f32";
  set.cases = {c};
  content = Content();
  content.kind = Content::Kind::produced;
  content.argument = 3;
  c.arguments[0].contents = {content};
  set.cases.push_back(c);
  return set;
}

std::string pathOf(const std::string &name) { return ::testing::TempDir() + name; }

/// The error of reading `set` after writing it, empty if there is none.
std::string roundTrip(const CaseSet &set, CaseSet &out) {
  std::string error, path = pathOf("cases.json");
  EXPECT_TRUE(set.write(path, error)) << error;
  return out.read(path, error) ? "" : error;
}

TEST(CaseFile, KeepsEverything) {
  CaseSet set = example(), read;
  ASSERT_EQ(roundTrip(set, read), "");
  ASSERT_EQ(read.cases.size(), 2u);
  const Content &produced = read.cases[1].arguments[0].contents[0];
  EXPECT_EQ(produced.kind, Content::Kind::produced);
  EXPECT_EQ(produced.run, 0u);
  EXPECT_EQ(produced.argument, 3u);
  const Case &c = read.cases[0];
  const Kernel &kernel = read.kernels.at(0);
  EXPECT_EQ(kernel.op + kernel.strategy + kernel.entry, "k3.toygenerictoy");
  EXPECT_EQ(kernel.cluster, 2u);
  EXPECT_TRUE(kernel.startsEarly);
  EXPECT_TRUE(kernel.resident);
  EXPECT_EQ(kernel.tensorMaps.at(0).box, (std::vector<std::uint32_t>{1, 64, 32}));
  EXPECT_EQ(std::memcmp(read.at(kernel.cubin), "code", 4), 0);
  EXPECT_EQ(c.variants[0].grid, (std::array<std::uint32_t, 3>{3, 2, 1}));
  EXPECT_EQ(decode("f32", read.at(c.arguments[0].contents[0].blob), 4), (std::vector<double>{1, 2, 3, 4}));
  const Content &drawn = c.arguments[1].contents[0];
  EXPECT_EQ(drawn.draw.values(3), set.cases[0].arguments[1].contents[0].draw.values(3));
  EXPECT_EQ(drawn.period, 3u);
  EXPECT_TRUE(c.arguments[2].isTable);
  EXPECT_EQ(c.arguments[2].contents[1].kind, Content::Kind::poison);
  EXPECT_TRUE(c.arguments[3].writes);
  EXPECT_EQ(c.scalars, (std::vector<Index>{1, -2}));
  EXPECT_EQ(c.expectations[0].mask.length, 4u);
  EXPECT_EQ(c.expectations[0].tolerance.ofOwn, 2e-6);
  EXPECT_EQ(c.expectations[1].positions.length, 8u);
  EXPECT_EQ(decode("f32", read.at(c.expectations[2].sums), 1), std::vector<double>{26});
  EXPECT_EQ(c.expectations[2].largest, 8);
  EXPECT_EQ(c.trafficBytes, 48);
  EXPECT_EQ(c.peak, "f32");
}

TEST(CaseFile, StoresEqualBytesOnce) {
  CaseSet set;
  Blob first = set.store("abcd", 4), again = set.store("abcd", 4), other = set.store("abce", 4);
  EXPECT_EQ(first.offset, again.offset);
  EXPECT_NE(first.offset, other.offset);
  EXPECT_EQ(other.offset % 16, 0u);
}

TEST(CaseFile, RefusesWhatDoesNotFit) {
  CaseSet read;
  auto errorAfter = [&](auto change) {
    CaseSet set = example();
    change(set);
    std::string error = roundTrip(set, read);
    EXPECT_NE(error, "");
    return error;
  };
  EXPECT_NE(errorAfter([](CaseSet &s) { s.kernels[0].cubin.offset = 1 << 20; }).find("outside the data file"),
            std::string::npos);
  EXPECT_NE(errorAfter([](CaseSet &s) { s.kernels[0].cubin.length = ~0ull; }).find("outside the data file"),
            std::string::npos);
  EXPECT_NE(errorAfter([](CaseSet &s) { s.cases[0].variants[0].kernel = 1; }).find("not there"), std::string::npos);
  EXPECT_NE(errorAfter([](CaseSet &s) { s.cases[0].arguments[0].shape = {3, 2}; }).find("another size"),
            std::string::npos);
  EXPECT_NE(errorAfter([](CaseSet &s) { s.cases[0].arguments[0].dtype = "f64"; }).find("f64"), std::string::npos);
  EXPECT_NE(errorAfter([](CaseSet &s) { s.cases[0].arguments[2].contents.pop_back(); }).find("missing"),
            std::string::npos);
  EXPECT_NE(errorAfter([](CaseSet &s) { s.cases[0].expectations[0].argument = 4; }).find("no argument"),
            std::string::npos);
  EXPECT_NE(errorAfter([](CaseSet &s) { s.cases[0].expectations[0].values.length = 8; }).find("mask"),
            std::string::npos);
  EXPECT_NE(errorAfter([](CaseSet &s) { s.cases[0].arguments[3].shape = {5}; }).find("as positions"),
            std::string::npos);
  EXPECT_NE(errorAfter([](CaseSet &s) {
              s.cases[0].expectations[2].sums = s.cases[0].expectations[2].values;
            }).find("a sample of another size"),
            std::string::npos);
  EXPECT_NE(errorAfter([](CaseSet &s) { s.cases[0].expectations[2].values.length = 12; }).find("a sample of another"),
            std::string::npos);
  EXPECT_NE(errorAfter([](CaseSet &s) { s.cases[0].expectations[2].sums.offset = 1 << 20; }).find("outside the data"),
            std::string::npos);
  EXPECT_NE(errorAfter([](CaseSet &s) { s.cases[0].arguments[3].dtype = "i32"; }).find("sums of what has none"),
            std::string::npos);
  EXPECT_NE(errorAfter([](CaseSet &s) { s.cases[0].arguments[1].contents[0].period = 0; }).find("nothing drawn"),
            std::string::npos);
  EXPECT_NE(errorAfter([](CaseSet &s) {
              Index position = 4;
              s.cases[0].expectations[1].positions = s.store(&position, 8);
            }).find("a position outside"),
            std::string::npos);
  auto producedBy = [&](std::uint32_t run, std::uint32_t argument) {
    return errorAfter([=](CaseSet &s) {
      Content &content = s.cases[1].arguments[0].contents[0];
      content.run = run;
      content.argument = argument;
    });
  };
  EXPECT_NE(producedBy(1, 3).find("not in front of it"), std::string::npos);
  EXPECT_NE(producedBy(7, 3).find("not in front of it"), std::string::npos);
  EXPECT_NE(producedBy(0, 0).find("does not make it"), std::string::npos);
  EXPECT_NE(producedBy(0, 4).find("does not make it"), std::string::npos);
  EXPECT_NE(errorAfter([](CaseSet &s) { s.cases[1].arguments[0].shape = {2, 1}; }).find("does not make it"),
            std::string::npos);
  EXPECT_NE(errorAfter([](CaseSet &s) {
              s.cases.push_back(s.cases[1]);
              s.cases[2].arguments[0].contents[0].run = 1;
            }).find("what another case makes"),
            std::string::npos);
  std::string error;
  EXPECT_FALSE(read.read(pathOf("no-such.json"), error));
  EXPECT_NE(error.find("cannot be read"), std::string::npos);
  std::ofstream(pathOf("cases.json")) << "[";
  EXPECT_FALSE(read.read(pathOf("cases.json"), error));
}

TEST(CaseFile, EncodesAsKernelsRead) {
  EXPECT_EQ(decode("bf16", encode("bf16", {1.00390625, -1.01171875, 3e38}).data(), 3),
            (std::vector<double>{1, -1.015625, fromBf16(toBf16(3e38f))})); // ties go to even
  EXPECT_TRUE(std::isnan(fromBf16(toBf16(NAN))));
  EXPECT_EQ(decode("i32", encode("i32", {-1, 2147483647}).data(), 2), (std::vector<double>{-1, 2147483647}));
  EXPECT_EQ(decode("i8", encode("i8", {0, 255}).data(), 2), (std::vector<double>{0, 255}));
}

TEST(Draw, IsAFunctionOfItsNumbers) {
  Draw draw{Draw::Kind::normal, 1, 1, 2, 0}, other = draw;
  EXPECT_EQ(draw.values(100), draw.values(100));
  other.call = 2;
  EXPECT_NE(draw.values(100), other.values(100));
  double sum = 0, squares = 0;
  for (double x : draw.values(100000)) {
    sum += x;
    squares += x * x;
    EXPECT_EQ(x, static_cast<float>(x));
  }
  EXPECT_NEAR(sum / 100000, 0, 0.05);
  EXPECT_NEAR(squares / 100000, 4, 0.1);
  Draw integers{Draw::Kind::integer, 1, 1, 3, 5};
  std::vector<double> drawn = integers.values(100);
  EXPECT_EQ(std::set<double>(drawn.begin(), drawn.end()), (std::set<double>{3, 4, 5}));
}

} // namespace
