//===- TestSupport.h - mutated model directories --------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TEST_UNIT_FRONTEND_TESTSUPPORT_H
#define K3_TEST_UNIT_FRONTEND_TESTSUPPORT_H

#include "gtest/gtest.h"
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <unistd.h>
#include <vector>

namespace k3::test {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

inline std::string sourcePath(const std::string &relative) {
  return std::string(K3_SOURCE_DIR) + '/' + relative;
}

inline std::string slurp(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Replaces the file, also when it is a link into the source tree.
inline void spill(const std::string &path, const std::string &bytes) {
  fs::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

/// A directory removed at the end of the test.
class TempDir {
public:
  TempDir() {
    std::string pattern =
        (fs::temp_directory_path() / "k3-frontend-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    root = pattern;
  }
  TempDir(const TempDir &) = delete;
  ~TempDir() { fs::remove_all(root); }
  const std::string &path() const { return root; }
  std::string file(const std::string &name) const { return root + '/' + name; }

private:
  std::string root;
};

/// A shipped model with every file linked, to be mutated file by file.
class ModelCopy : public TempDir {
public:
  explicit ModelCopy(const std::string &model) {
    for (const auto &item :
         fs::directory_iterator(sourcePath("models/" + model)))
      fs::create_symlink(item.path(), file(item.path().filename().string()));
  }

  template <typename Edit> void editJson(const std::string &name, Edit edit) {
    Json json = Json::parse(slurp(file(name)));
    edit(json);
    spill(file(name), json.dump());
  }
};

struct ShardTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};
using Shard = std::map<std::string, ShardTensor>;

inline std::string lengthField(uint64_t length) {
  std::string out;
  for (int i = 0; i < 8; ++i)
    out += static_cast<char>(length >> (8 * i) & 0xff);
  return out;
}

/// The file with that header text and that many data bytes.
inline std::string safetensorsFile(const std::string &header,
                                   const std::string &data) {
  return lengthField(header.size()) + header + data;
}

inline Shard loadShard(const std::string &path) {
  std::string file = slurp(path);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  Json header = Json::parse(file.substr(8, length));
  Shard shard;
  for (const auto &[name, entry] : header.items()) {
    if (name == "__metadata__")
      continue;
    uint64_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    shard[name] = {entry["dtype"], entry["shape"],
                   file.substr(8 + length + begin, end - begin)};
  }
  return shard;
}

inline void saveShard(const std::string &path, const Shard &shard) {
  Json header = Json::object();
  std::string data;
  for (const auto &[name, tensor] : shard) {
    header[name] = {
        {"dtype", tensor.dtype},
        {"shape", tensor.shape},
        {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  spill(path, safetensorsFile(header.dump(), data));
}

template <typename Edit> void editShard(const std::string &path, Edit edit) {
  Shard shard = loadShard(path);
  edit(shard);
  saveShard(path, shard);
}

/// The shards of a model directory.
inline std::vector<std::string> shardPaths(const std::string &directory) {
  std::vector<std::string> paths;
  for (const auto &item : fs::directory_iterator(directory))
    if (item.path().extension() == ".safetensors")
      paths.push_back(item.path().string());
  return paths;
}

/// Every part must be in the message, which must be one short line.
inline void expectMessage(const std::string &message,
                          const std::vector<std::string> &parts) {
  EXPECT_FALSE(message.empty()) << "no error where one is due";
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 2000u) << message;
  for (const std::string &part : parts)
    EXPECT_NE(message.find(part), std::string::npos)
        << "\"" << part << "\" is not in: " << message;
}

} // namespace k3::test

#endif // K3_TEST_UNIT_FRONTEND_TESTSUPPORT_H
