//===- SafetensorsTest.cpp - headers good and hostile ---------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Safetensors.h"
#include "TestSupport.h"

#include <sys/resource.h>

using namespace k3::frontend;
using namespace k3::test;

static Expected<SafetensorsHeader> parse(const std::string &file) {
  return parseSafetensors(file, file.size(), "a.safetensors");
}

static Expected<SafetensorsHeader> parse(const std::string &header,
                                         size_t dataBytes) {
  return parse(safetensorsFile(header, std::string(dataBytes, '\0')));
}

static void expectBad(const std::string &header, size_t dataBytes,
                      std::vector<std::string> parts) {
  SCOPED_TRACE(header.substr(0, 200));
  parts.push_back("a.safetensors");
  expectMessage(parse(header, dataBytes).message(), parts);
}

TEST(SafetensorsTest, ReadsShippedShards) {
  Expected<SafetensorsHeader> header = readSafetensorsHeader(
      sourcePath("models/k3-nano/model-00001-of-000002.safetensors"));
  ASSERT_TRUE(header.ok()) << header.message();
  EXPECT_EQ(header->tensors.size(), 705u);
  EXPECT_EQ(header->metadata, (std::vector<std::pair<std::string, std::string>>{
                                  {"format", "pt"}}));
  const SafetensorsTensor *conv =
      header->find("language_model.model.layers.0.self_attn.q_conv1d.weight");
  ASSERT_NE(conv, nullptr);
  EXPECT_EQ(conv->dtype, Dtype::F32);
  EXPECT_EQ(conv->shape, (std::vector<int64_t>{256, 1, 4}));
  EXPECT_EQ(conv->bytes, 4096u);
  EXPECT_EQ(header->find("nothing"), nullptr);
}

TEST(SafetensorsTest, OffsetsAreFromTheStartOfTheFile) {
  const std::string header =
      R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},)"
      R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  Expected<SafetensorsHeader> parsed = parse(header, 6); // names in any order
  ASSERT_TRUE(parsed.ok()) << parsed.message();
  EXPECT_EQ(parsed->dataStart, 8 + header.size());
  EXPECT_EQ(parsed->find("a")->offset, 8 + header.size());
  EXPECT_EQ(parsed->find("b")->offset, 8 + header.size() + 4);
}

TEST(SafetensorsTest, Accepted) {
  for (
      auto [header, bytes] : std::vector<std::pair<std::string, size_t>>{
          {"{}", 0},
          {"{}   ", 0},
          {R"({"__metadata__":{"a":"b"}})", 0},
          {R"({"scalar":{"dtype":"F64","shape":[],"data_offsets":[0,8]}})", 8},
          {R"({"empty":{"dtype":"F32","shape":[0,9223372036854775807],"data_offsets":[0,0]},)"
           R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
           1},
          {R"({"f4":{"dtype":"F4","shape":[3,2],"data_offsets":[0,3]}})", 3},
          {R"({"e8":{"dtype":"F8_E8M0","shape":[3],"data_offsets":[0,3]}})",
           3}})
    EXPECT_TRUE(parse(header, bytes).ok())
        << header << ": " << parse(header, bytes).message();
}

TEST(SafetensorsTest, BadLength) {
  expectMessage(parse("").message(), {"a.safetensors", "has 0 bytes"});
  expectMessage(parse("1234567").message(), {"has 7 bytes"});
  expectMessage(parse(lengthField(3) + "{}").message(),
                {"header length is 3", "only 2 bytes follow"});
  expectMessage(parse(lengthField(~uint64_t(0)) + "{}").message(),
                {"18446744073709551615", "at most"});
  expectMessage(parse(lengthField(~uint64_t(0) - 7) + "{}").message(),
                {"at most"});
  expectMessage(parse(lengthField(uint64_t(1) << 63) + "{}").message(),
                {"at most"});
  expectMessage(parse(lengthField(100000001) + "{}").message(),
                {"100000001", "at most 100000000"});
  expectMessage(parse(lengthField(0)).message(), {"a.safetensors:1:1"});
}

TEST(SafetensorsTest, HugeLengthCostsNothing) {
  TempDir dir;
  spill(dir.file("a.safetensors"), lengthField(99999999) + "{}");
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  EXPECT_FALSE(readSafetensorsHeader(dir.file("a.safetensors")).ok());
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 50 * 1024);
}

TEST(SafetensorsTest, BadJson) {
  expectBad("", 0, {"malformed"});
  expectBad("[]", 0, {"got a list", "wanted an object"});
  expectBad("5", 0, {"got 5", "wanted an object"});
  expectBad("null", 0, {"got null"});
  expectBad("{} {}", 0, {"malformed"});
  expectBad(std::string("{}\0", 3), 0, {"malformed"});
  expectBad(R"({"a":5})", 0, {"tensor \"a\"", "got 5"});
  expectBad(R"({"a":[]})", 0, {"tensor \"a\"", "a list"});
  expectBad(R"({"a":{}})", 0, {"tensor \"a\"", "missing key dtype"});
  expectBad(R"({"a":{"dtype":"U8","shape":[1]}})", 1,
            {"\"a\"", "missing key data_offsets"});
  expectBad(R"({"a":{"dtype":"U8","shape":{},"data_offsets":[0,1]}})", 1,
            {"\"a\"", "shape is an object"});
  expectBad(R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,1]}})", 1,
            {"\"a\"", "dtype is 7"});
  expectBad(R"({"a":{"dtype":"BF17","shape":[1],"data_offsets":[0,1]}})", 1,
            {"\"a\"", "unknown dtype \"BF17\""});
  expectBad(
      R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})",
      1, {"\"a\"", "\"dtype\" appears twice"});
  expectBad(
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"stride":[1]}})",
      1, {"\"a\"", "unknown key \"stride\""});
  expectBad(
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
      2, {"\"a\"", "appears twice"});
  expectBad(R"({"__metadata__":{"a":1}})", 0,
            {"__metadata__", "\"a\"", "got 1", "a string"});
  std::string many = R"({"__metadata__":{)";
  for (int i = 0; i < 70000; ++i)
    many += '"' + std::to_string(i) + R"(":"",)";
  expectBad(many + R"("x":""}})", 0, {"__metadata__", "more than 65536"});
  expectBad(R"({"__metadata__":5})", 0, {"__metadata__", "got 5"});
  expectBad(R"({"__metadata__":{"a":"1","a":"2"}})", 0,
            {"__metadata__", "\"a\" appears twice"});
  expectBad(R"({"__metadata__":{},"__metadata__":{}})", 0,
            {"__metadata__", "twice"});
}

TEST(SafetensorsTest, BadNumbers) {
  auto shape = [](const std::string &value) {
    return R"({"w":{"dtype":"U8","shape":[)" + value +
           R"(],"data_offsets":[0,8]}})";
  };
  auto offsets = [](const std::string &value) {
    return R"({"w":{"dtype":"U8","shape":[8],"data_offsets":[)" + value + "]}}";
  };
  EXPECT_TRUE(parse(shape("8"), 8).ok());
  for (const char *value :
       {"-1", "-8", "1e3", "8.0", "\"8\"", "null", "true", "[8]",
        "9223372036854775808", "18446744073709551615", "99999999999999999999"})
    expectBad(shape(value), 8, {"shape"});
  for (const char *value :
       {"9223372036854775807", "9223372036854775807,2", "4294967296,4294967296",
        "4294967296,4294967296,4294967296", "2305843009213693953,8"})
    expectBad(shape(value), 8, {"\"w\""});
  for (const char *value :
       {"", "0", "0,8,8", "8,0", "-1,7", "0,9", "0,9223372036854775807",
        "0,18446744073709551615", "18446744073709551612,4", "0,8.0", "0,\"8\"",
        "\"0\",8", "[0],8", "0,1e1"})
    expectBad(offsets(value), 8, {"\"w\"", "data_offsets"});
  expectBad(
      R"({"w":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})",
      1, {"\"w\"", "16 dimensions"});
}

TEST(SafetensorsTest, ShapeAndDataDisagree) {
  expectBad(R"({"w":{"dtype":"F32","shape":[1000,1000],"data_offsets":[0,4]}})",
            4, {"\"w\"", "span 4 bytes", "wanted 4000000", "F32 [1000, 1000]"});
  expectBad(R"({"w":{"dtype":"F32","shape":[0],"data_offsets":[0,4]}})", 4,
            {"\"w\"", "wanted 0"});
  expectBad(R"({"w":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1,
            {"\"w\"", "whole bytes"});
  expectBad(R"({"w":{"dtype":"F4","shape":[2,3],"data_offsets":[0,3]}})", 3,
            {"\"w\"", "whole bytes"});
}

TEST(SafetensorsTest, Coverage) {
  auto two = [](const char *a, const char *b) {
    return std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)") +
           a + R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}";
  };
  EXPECT_TRUE(parse(two("[0,4]", "[4,8]"), 8).ok());
  EXPECT_TRUE(parse(two("[4,8]", "[0,4]"), 8).ok());
  expectBad(two("[0,4]", "[3,7]"), 8, {"\"b\"", "inside tensor \"a\""});
  expectBad(two("[0,4]", "[0,4]"), 8, {"inside tensor"});
  expectBad(two("[0,4]", "[5,9]"), 9,
            {"data bytes 4 to 5", "\"b\"", "no tensor"});
  expectBad(two("[1,5]", "[5,9]"), 9, {"data bytes 0 to 1"});
  expectBad(two("[0,4]", "[4,8]"), 9, {"has 9 bytes", "end at 8"});
  expectBad(two("[0,4]", "[4,8]"), 7,
            {"\"b\"", "past the file's 7 bytes", "truncated"});
}

TEST(SafetensorsTest, EveryTruncationIsRefused) {
  std::string file = slurp(
      sourcePath("models/kimi-linear-nano/model-00001-of-00002.safetensors"));
  for (size_t length = 0; length < file.size();
       length += length < 14000 ? 97 : 100003) {
    Expected<SafetensorsHeader> header = parse(file.substr(0, length));
    EXPECT_FALSE(header.ok()) << length;
    expectMessage(header.message(), {"a.safetensors"});
  }
}

TEST(SafetensorsTest, NotAFile) {
  expectMessage(readSafetensorsHeader(sourcePath("models")).message(),
                {"not a regular file"});
  expectMessage(readSafetensorsHeader(sourcePath("no.safetensors")).message(),
                {"no.safetensors", "cannot open"});
}
