//===- CaseFile.cpp - kernels with arguments and expected results ----------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/gpu/CaseFile.h"
#include "test/gpu/Sample.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string_view>

using namespace k3::gpu;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

std::uint64_t k3::gpu::elementBytes(const std::string &dtype) {
  if (dtype == "f32" || dtype == "i32")
    return 4;
  if (dtype == "bf16")
    return 2;
  if (dtype == "i8")
    return 1;
  throw std::runtime_error("unknown element type '" + dtype + "'");
}

std::uint16_t k3::gpu::toBf16(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if (std::isnan(value))
    return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float k3::gpu::fromBf16(std::uint16_t value) {
  std::uint32_t bits = std::uint32_t(value) << 16;
  float out;
  std::memcpy(&out, &bits, 4);
  return out;
}

Bytes k3::gpu::encode(const std::string &dtype, const std::vector<double> &values) {
  Bytes out(values.size() * elementBytes(dtype));
  for (std::size_t i = 0; i < values.size(); ++i)
    if (dtype == "f32") {
      float x = static_cast<float>(values[i]);
      std::memcpy(&out[i * 4], &x, 4);
    } else if (dtype == "bf16") {
      std::uint16_t x = toBf16(static_cast<float>(values[i]));
      std::memcpy(&out[i * 2], &x, 2);
    } else if (dtype == "i32") {
      std::int32_t x = static_cast<std::int32_t>(values[i]);
      std::memcpy(&out[i * 4], &x, 4);
    } else {
      out[i] = static_cast<unsigned char>(static_cast<int>(values[i]));
    }
  return out;
}

std::vector<double> k3::gpu::decode(const std::string &dtype, const unsigned char *bytes, std::size_t count) {
  std::vector<double> out(count);
  for (std::size_t i = 0; i < count; ++i)
    if (dtype == "f32") {
      float x;
      std::memcpy(&x, bytes + i * 4, 4);
      out[i] = x;
    } else if (dtype == "bf16") {
      std::uint16_t x;
      std::memcpy(&x, bytes + i * 2, 2);
      out[i] = fromBf16(x);
    } else if (dtype == "i32") {
      std::int32_t x;
      std::memcpy(&x, bytes + i * 4, 4);
      out[i] = x;
    } else {
      out[i] = bytes[i];
    }
  return out;
}

Index Argument::elements() const {
  Index n = 1;
  for (Index size : shape)
    n *= size;
  return n;
}

std::uint64_t Argument::bytes() const { return static_cast<std::uint64_t>(elements()) * elementBytes(dtype); }

Blob CaseSet::store(const void *bytes, std::size_t length) {
  if (length == 0)
    return {};
  std::string_view view(static_cast<const char *>(bytes), length);
  std::size_t hash = std::hash<std::string_view>{}(view);
  auto [first, last] = stored.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (it->second.length == length && std::memcmp(at(it->second), bytes, length) == 0)
      return it->second;
  data.resize((data.size() + 15) / 16 * 16); // so that elements may be read in place
  Blob blob{data.size(), length};
  const auto *from = static_cast<const unsigned char *>(bytes);
  data.insert(data.end(), from, from + length);
  stored.emplace(hash, blob);
  return blob;
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

namespace k3::gpu {

static void to_json(json &j, const Blob &blob) { j = json::array({blob.offset, blob.length}); }
static void from_json(const json &j, Blob &blob) {
  blob.offset = j.at(0).get<std::uint64_t>();
  blob.length = j.at(1).get<std::uint64_t>();
}

static const char *const drawNames[] = {"normal", "uniform", "integer"};

static void to_json(json &j, const Content &content) {
  switch (content.kind) {
  case Content::Kind::poison:
    j = "poison";
    break;
  case Content::Kind::stored:
    j = content.blob;
    break;
  case Content::Kind::drawn: {
    const Draw &draw = content.draw;
    j = {{"draw", drawNames[static_cast<int>(draw.kind)]},
         {"seed", draw.seed},
         {"call", draw.call},
         {"a", draw.a},
         {"b", draw.b},
         {"period", content.period}};
    break;
  }
  case Content::Kind::produced:
    j = {{"case", content.run}, {"argument", content.argument}};
    break;
  }
}

static void from_json(const json &j, Content &content) {
  if (j.is_string()) {
    content.kind = Content::Kind::poison;
  } else if (j.is_array()) {
    content.kind = Content::Kind::stored;
    content.blob = j.get<Blob>();
  } else if (j.contains("case")) {
    content.kind = Content::Kind::produced;
    content.run = j.at("case").get<std::uint32_t>();
    content.argument = j.at("argument").get<std::uint32_t>();
  } else {
    content.kind = Content::Kind::drawn;
    std::string name = j.at("draw").get<std::string>();
    int kind = 0;
    while (kind < 3 && name != drawNames[kind])
      ++kind;
    if (kind == 3)
      throw std::runtime_error("unknown distribution '" + name + "'");
    content.draw = {static_cast<Draw::Kind>(kind), j.at("seed").get<std::uint64_t>(), j.at("call").get<std::uint64_t>(),
                    j.at("a").get<double>(), j.at("b").get<double>()};
    content.period = j.at("period").get<std::uint64_t>();
  }
}

static void to_json(json &j, const Argument &argument) {
  j = {{"dtype", argument.dtype}, {"shape", argument.shape}, {"writes", argument.writes}};
  if (argument.isTable)
    j["table"] = argument.contents;
  else
    j["content"] = argument.contents.at(0);
}

static void from_json(const json &j, Argument &argument) {
  j.at("dtype").get_to(argument.dtype);
  j.at("shape").get_to(argument.shape);
  j.at("writes").get_to(argument.writes);
  argument.isTable = j.contains("table");
  argument.contents.clear();
  if (argument.isTable)
    for (const json &member : j.at("table"))
      argument.contents.push_back(member.get<Content>());
  else
    argument.contents.push_back(j.at("content").get<Content>());
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TensorMap, argument, box, swizzle)

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Kernel, op, strategy, entry, cubin, threads, dynamicSharedBytes, cluster, tensorMaps,
                                   registers, staticSharedBytes, spillBytes, stackBytes, startsEarly, resident)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Variant, kernel, grid)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Tolerance, ofLargest, ofOwn, absolute)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Expectation, argument, values, positions, sums, largest, mask, tolerance)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Case, test, variants, arguments, scalars, expectations, trafficBytes, operations,
                                   peak)

} // namespace k3::gpu

static std::string dataPath(const std::string &path) {
  std::size_t dot = path.rfind(".json");
  return (dot == std::string::npos ? path : path.substr(0, dot)) + ".bin";
}

bool CaseSet::write(const std::string &path, std::string &error) const {
  std::ofstream index(path), bin(dataPath(path), std::ios::binary);
  index << json{{"kernels", kernels}, {"cases", cases}}.dump() << '\n';
  bin.write(reinterpret_cast<const char *>(data.data()), static_cast<std::streamsize>(data.size()));
  index.close();
  bin.close();
  if (!index || !bin) {
    error = path + ": cannot be written";
    return false;
  }
  return true;
}

/// Throws where a number names nothing, so that the player may trust the rest.
static void check(const CaseSet &set) {
  auto require = [](bool condition, const std::string &what) {
    if (!condition)
      throw std::runtime_error(what);
  };
  auto requireBlob = [&](const Blob &blob) {
    require(blob.offset <= set.data.size() && blob.length <= set.data.size() - blob.offset,
            "bytes outside the data file");
  };
  auto requireProducer = [&](const Case &user, const Content &content, std::uint64_t size) {
    require(content.run < static_cast<std::size_t>(&user - set.cases.data()),
            user.test + ": made by a case that is not in front of it");
    const Case &producer = set.cases[content.run];
    require(content.argument < producer.arguments.size() && producer.arguments[content.argument].writes &&
                producer.arguments[content.argument].bytes() == size,
            user.test + ": made by a case that does not make it");
    for (const Argument &argument : producer.arguments)
      for (const Content &before : argument.contents)
        require(before.kind != Content::Kind::produced, user.test + ": made from what another case makes");
  };
  for (const Kernel &kernel : set.kernels)
    requireBlob(kernel.cubin);
  for (const Case &c : set.cases) {
    require(!c.variants.empty(), c.test + ": no kernel");
    for (const Argument &argument : c.arguments) {
      std::uint64_t size = argument.bytes();
      std::size_t members = argument.isTable ? static_cast<std::size_t>(argument.shape.at(0)) : 1;
      require(argument.contents.size() == members, c.test + ": contents of an argument are missing");
      for (const Content &content : argument.contents) {
        requireBlob(content.blob);
        require(content.kind != Content::Kind::stored || content.blob.length == size / members,
                c.test + ": an argument of another size than its bytes");
        require(content.kind != Content::Kind::drawn || content.period > 0 || size == 0, c.test + ": nothing drawn");
        if (content.kind == Content::Kind::produced)
          requireProducer(c, content, size / members);
      }
    }
    for (const Variant &variant : c.variants) {
      require(variant.kernel < set.kernels.size(), c.test + ": a kernel that is not there");
      for (const TensorMap &map : set.kernels[variant.kernel].tensorMaps)
        require(map.argument < c.arguments.size(), c.test + ": a tensor map of no argument");
    }
    for (const Expectation &e : c.expectations) {
      require(e.argument < c.arguments.size(), c.test + ": an expectation of no argument");
      for (const Blob &blob : {e.values, e.positions, e.sums, e.mask})
        requireBlob(blob);
      const Argument &argument = c.arguments[e.argument];
      std::uint64_t count = e.values.length / 4, elements = static_cast<std::uint64_t>(argument.elements());
      require(!argument.isTable, c.test + ": an expectation of a table");
      require(e.mask.length == 0 || e.mask.length == count, c.test + ": a mask of another size than its values");
      if (e.sums.length > 0) {
        Sample sample(elements);
        require(argument.dtype != "i32" && e.mask.length == 0 && e.positions.length == 0,
                c.test + ": sums of what has none");
        require(e.sums.length == sample.blocks() * 4 &&
                    count == sample.positions(decode("f32", set.at(e.sums), sample.blocks())).size(),
                c.test + ": a sample of another size than its argument's");
      } else {
        require(e.positions.length == 0 ? count == elements : e.positions.length == count * 8,
                c.test + ": not as many values as positions");
      }
      for (std::uint64_t i = 0; i < e.positions.length / 8; ++i) {
        std::int64_t position;
        std::memcpy(&position, set.at(e.positions) + i * 8, 8);
        require(position >= 0 && static_cast<std::uint64_t>(position) < elements, c.test + ": a position outside");
      }
    }
  }
}

bool CaseSet::read(const std::string &path, std::string &error) {
  try {
    std::ifstream index(path), bin(dataPath(path), std::ios::binary);
    if (!index || !bin) {
      error = (index ? dataPath(path) : path) + ": cannot be read";
      return false;
    }
    json j = json::parse(index);
    j.at("kernels").get_to(kernels);
    j.at("cases").get_to(cases);
    data.assign(std::istreambuf_iterator<char>(bin), {});
    check(*this);
    return true;
  } catch (const std::exception &e) {
    error = path + ": " + e.what();
    return false;
  }
}
