//===- CheckpointTest.cpp - directories where something is wrong ----------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Checkpoint.h"
#include "TestSupport.h"
#include "frontend/Check.h"
#include "frontend/CheckpointIndex.h"
#include "frontend/WeightValues.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <sys/resource.h>
#include <sys/stat.h>

using namespace k3::frontend;
using namespace k3::test;

static const char *const indexName = "model.safetensors.index.json";
static const char *const k3First = "model-00001-of-000002.safetensors";
static const char *const k3Second = "model-00002-of-000002.safetensors";
static const char *const linearFirst = "model-00001-of-00002.safetensors";
static const char *const linearSecond = "model-00002-of-00002.safetensors";

static std::string openError(const TempDir &dir) {
  return Checkpoint::open(dir.path()).message();
}

// Index.

static std::string indexError(const std::string &text) {
  Expected<CheckpointIndex> index = CheckpointIndex::parse(text, "i.json");
  return index.message();
}

TEST(CheckpointIndexTest, Parses) {
  auto index = CheckpointIndex::parse(
      R"({"x": [1, {"y": 2}], "metadata": {"total_size": 12, "other": {"deep": [1]}},
          "weight_map": {"b": "2.safetensors", "a": "1.safetensors", "c": "2.safetensors"}, "z": null})",
      "i.json");
  ASSERT_TRUE(index.ok()) << index.message();
  EXPECT_EQ(index->totalSize(), 12u);
  EXPECT_EQ(index->shards(),
            (std::vector<std::string>{"2.safetensors", "1.safetensors"}));
  ASSERT_EQ(index->entries().size(), 3u);
  EXPECT_EQ(index->entries()[0].name, "a");
  EXPECT_EQ(index->find("c")->shard, 0u);
  EXPECT_EQ(index->find("d"), nullptr);
  CheckpointIndex moved = std::move(*index);
  EXPECT_EQ(moved.find("a")->name, "a");
  EXPECT_EQ(
      CheckpointIndex::parse(
          R"({"metadata":{"total_size":12.0},"weight_map":{"a":"1.safetensors"}})",
          "i.json")
          ->totalSize(),
      12u);
}

TEST(CheckpointIndexTest, Refused) {
  expectMessage(indexError(""), {"i.json:1:1", "malformed"});
  expectMessage(indexError("[]"), {"got a list"});
  expectMessage(indexError("7"), {"got 7"});
  expectMessage(indexError("{}"), {"missing weight_map"});
  expectMessage(indexError(R"({"weight_map":[]})"), {"weight_map", "a list"});
  expectMessage(indexError(R"({"weight_map":"a"})"), {"weight_map", "\"a\""});
  expectMessage(indexError(R"({"weight_map":null})"), {"weight_map", "null"});
  expectMessage(indexError(R"({"weight_map":{}})"), {"names no tensor"});
  expectMessage(indexError(R"({"weight_map":{"a":5}})"), {"\"a\"", "got 5"});
  expectMessage(indexError(R"({"weight_map":{"a":{}}})"),
                {"\"a\"", "an object"});
  expectMessage(indexError(R"({"weight_map":{"a":["x.safetensors"]}})"),
                {"\"a\"", "a list"});
  expectMessage(
      indexError(R"({"weight_map":{"a":"1.safetensors","a":"1.safetensors"}})"),
      {"\"a\"", "twice"});
  expectMessage(
      indexError(R"({"weight_map":{"a":"1.safetensors"},"weight_map":{}})"),
      {"\"weight_map\"", "twice"});
  expectMessage(
      indexError(
          R"({"metadata":{"total_size":-1},"weight_map":{"a":"1.safetensors"}})"),
      {"total_size", "-1"});
  expectMessage(
      indexError(
          R"({"metadata":{"total_size":"1"},"weight_map":{"a":"1.safetensors"}})"),
      {"total_size", "\"1\""});
  for (const char *name :
       {"../a.safetensors", "/etc/a.safetensors", "x/a.safetensors",
        "..\\\\a.safetensors", "a\\u0000.safetensors", "a\\n.safetensors"})
    expectMessage(
        indexError(std::string(R"({"weight_map":{"a":")") + name + "\"}}"),
        {"\"a\"", "plain file name"});
  for (const char *name :
       {"", ".", "..", ".safetensors", "a.bin", "..safetensors"})
    expectMessage(
        indexError(std::string(R"({"weight_map":{"a":")") + name + "\"}}"),
        {"\"a\"", ".safetensors file"});
  expectMessage(indexError(R"({"weight_map":{"a":")" + std::string(300, 'x') +
                           R"(.safetensors"}})"),
                {"255"});
}

// As large as the published index: 497,220 names in 96 shards.
TEST(CheckpointIndexTest, FullSizeIsQuickAndSmall) {
  Expected<ModelConfig> config =
      readModelConfig(sourcePath("test/configs/kimi-k3/config.json"));
  ASSERT_TRUE(config.ok()) << config.message();
  TempDir dir;
  {
    TensorPlan plan(*config);
    std::ofstream out(dir.file(indexName));
    out << "{\"metadata\": {\"total_size\": 1560860324864}, \"weight_map\": "
           "{\n";
    for (const TensorTemplate &entry : plan.templates()) {
      std::vector<int64_t> layers =
          entry.layers.empty() ? std::vector<int64_t>{93} : entry.layers;
      for (int64_t layer : layers)
        for (int64_t expert = 0;
             expert < std::max<int64_t>(1, entry.numExperts); ++expert)
          out << '"' << entry.name(layer, expert) << "\": \"model-" << layer + 1
              << "-of-96.safetensors\",\n";
    }
    for (int i = 0; i < 168; ++i)
      out << "\"vision_tower." << i << "\": \"model-95-of-96.safetensors\""
          << (i < 167 ? ",\n" : "\n");
    out << "}}\n";
  }
  fs::create_symlink(sourcePath("test/configs/kimi-k3/config.json"),
                     dir.file("config.json"));
  auto start = std::chrono::steady_clock::now();
  CheckReport report = checkModel(dir.path());
  double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  EXPECT_TRUE(report.ok()) << report.toText();
  EXPECT_EQ(report.checkpoint->listedTensors(), 497220u);
  EXPECT_EQ(report.checkpoint->visionTensors(), 168u);
  EXPECT_EQ(report.checkpoint->missingShards(),
            report.checkpoint->files().size());
#if !__has_feature(address_sanitizer) // slower and larger by design
  EXPECT_LT(seconds, 5.0);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  EXPECT_LT(usage.ru_maxrss, 1 << 20); // KiB
#else
  (void)seconds;
#endif
}

// The published index itself, where the shared folder is present.
TEST(CheckpointIndexTest, PublishedIndex) {
  std::string packed;
  for (const char *place : {"../shared", "../../shared"}) {
    std::string path =
        sourcePath(std::string(place) +
                   "/configs/kimi-k3/model.safetensors.index.json.gz");
    if (fs::exists(path))
      packed = path;
  }
  if (packed.empty())
    GTEST_SKIP() << "no shared folder";
  TempDir dir;
  ASSERT_EQ(
      std::system(("gzip -dc '" + packed + "' > '" + dir.file(indexName) + "'")
                      .c_str()),
      0);
  fs::create_symlink(sourcePath("test/configs/kimi-k3/config.json"),
                     dir.file("config.json"));
  CheckReport report = checkModel(dir.path());
  EXPECT_TRUE(report.ok()) << report.toText();
  EXPECT_EQ(report.checkpoint->listedTensors(), 497220u);
  EXPECT_EQ(report.checkpoint->plan().count(), 497220u - 168u);
  EXPECT_EQ(report.checkpoint->files().size(), 96u);
  EXPECT_EQ(report.checkpoint->totalSize(), 1560860324864u);
}

// Good directories.

TEST(CheckpointTest, ShippedModels) {
  for (const char *model : {"k3-nano", "kimi-linear-nano"}) {
    SCOPED_TRACE(model);
    Expected<Checkpoint> checkpoint =
        Checkpoint::open(sourcePath(std::string("models/") + model));
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.message();
    EXPECT_EQ(checkpoint->tensors().size(), checkpoint->plan().count());
    EXPECT_EQ(checkpoint->missingShards(), 0u);
    EXPECT_EQ(checkpoint->weightBytes(), checkpoint->totalSize());
    EXPECT_TRUE(checkpoint->notes().empty()) << checkpoint->notes()[0];
    std::vector<std::string> notes;
    EXPECT_TRUE(checkpoint->checkSmallValues(notes).ok());
    EXPECT_TRUE(notes.empty()) << notes[0];
  }
}

// Offsets lead to the bytes that an independent reader finds.
TEST(CheckpointTest, FindsTheBytes) {
  const std::string directory = sourcePath("models/k3-nano");
  Expected<Checkpoint> checkpoint = Checkpoint::open(directory);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.message();
  size_t compared = 0;
  for (const std::string &path : shardPaths(directory)) {
    const std::string file = slurp(path);
    for (const auto &[name, expected] : loadShard(path)) {
      const CheckpointTensor *tensor = checkpoint->find(name);
      ASSERT_NE(tensor, nullptr) << name;
      EXPECT_EQ(checkpoint->files()[tensor->file].path, path);
      EXPECT_EQ(dtypeName(tensor->dtype), expected.dtype);
      EXPECT_EQ(tensor->shape, expected.shape);
      EXPECT_EQ(file.compare(tensor->offset, tensor->bytes, expected.bytes), 0)
          << name;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 1386u);
  EXPECT_EQ(checkpoint->find("language_model.model.layers.2.self_attn.nothing"),
            nullptr);
}

TEST(CheckpointTest, SingleFile) {
  ModelCopy model("kimi-linear-nano");
  Shard all = loadShard(model.file(linearFirst));
  all.merge(loadShard(model.file(linearSecond)));
  for (const char *name : {indexName, linearFirst, linearSecond})
    fs::remove(model.file(name));
  saveShard(model.file("model.safetensors"), all);
  Expected<Checkpoint> checkpoint = Checkpoint::open(model.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.message();
  EXPECT_EQ(checkpoint->tensors().size(), 233u);
  all.erase("model.norm.weight");
  saveShard(model.file("model.safetensors"), all);
  expectMessage(openError(model), {"missing tensor", "model.norm.weight"});
  spill(model.file("model.safetensors"), "oops");
  expectMessage(openError(model),
                {"unreadable shard", "model.safetensors", "has 4 bytes"});
}

TEST(CheckpointTest, StrayFilesAreIgnoredWithANote) {
  ModelCopy model("kimi-linear-nano");
  spill(model.file("model.safetensors"), "not even a header");
  Expected<Checkpoint> checkpoint = Checkpoint::open(model.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.message();
  ASSERT_EQ(checkpoint->notes().size(), 1u);
  expectMessage(checkpoint->notes()[0],
                {"model.safetensors", "ignored", "index"});
}

TEST(CheckpointTest, VisionTensorsAreSkippedWithACount) {
  ModelCopy model("k3-nano");
  editShard(model.file(k3First), [](Shard &shard) {
    shard["vision_tower.pos_emb.weight"] = {"BF16", {2}, std::string(4, '\0')};
    shard["mm_projector.post_norm.weight"] = {
        "BF16", {2}, std::string(4, '\0')};
  });
  model.editJson(indexName, [](Json &json) {
    json["metadata"]["total_size"] =
        json["metadata"]["total_size"].get<int64_t>() + 8;
    for (const char *name :
         {"vision_tower.pos_emb.weight", "mm_projector.post_norm.weight"})
      json["weight_map"][name] = k3First;
  });
  Expected<Checkpoint> checkpoint = Checkpoint::open(model.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.message();
  EXPECT_EQ(checkpoint->visionTensors(), 2u);
  ASSERT_EQ(checkpoint->notes().size(), 1u);
  expectMessage(checkpoint->notes()[0], {"2 vision tensors skipped"});
}

// Missing parts.

TEST(CheckpointTest, NoConfigOrNoWeights) {
  ModelCopy model("kimi-linear-nano");
  for (const char *name : {indexName, linearFirst, linearSecond})
    fs::remove(model.file(name));
  expectMessage(openError(model), {indexName, "model.safetensors"});
  fs::remove(model.file("config.json"));
  expectMessage(openError(model), {"config.json", "cannot open"});
  expectMessage(Checkpoint::open("/nowhere").message(),
                {"/nowhere/config.json"});
}

TEST(CheckpointTest, MissingShardIsNamed) {
  ModelCopy model("k3-nano");
  fs::remove(model.file(k3Second));
  std::string message = openError(model);
  expectMessage(message, {"missing shard", k3Second});
  EXPECT_EQ(message.find("missing tensor"), std::string::npos) << message;

  CheckpointOptions options;
  options.allowMissingShards = true;
  Expected<Checkpoint> partial = Checkpoint::open(model.path(), options);
  ASSERT_TRUE(partial.ok()) << partial.message();
  EXPECT_EQ(partial->missingShards(), 1u);
  EXPECT_EQ(partial->tensors().size(), 705u);

  CheckReport report = checkModel(model.path());
  EXPECT_TRUE(report.ok());
  EXPECT_NE(report.toText().find("1 missing shard not checked"),
            std::string::npos)
      << report.toText();
  Json json = Json::parse(report.toJson());
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(json["shards"], 2);
  EXPECT_EQ(json["shards_missing"], 1);
}

TEST(CheckpointTest, MissingTensors) {
  ModelCopy model("k3-nano");
  auto drop = [&](const std::string &name) {
    for (const char *shard : {k3First, k3Second})
      editShard(model.file(shard),
                [&](Shard &tensors) { tensors.erase(name); });
    model.editJson(indexName,
                   [&](Json &json) { json["weight_map"].erase(name); });
  };
  drop("language_model.lm_head.weight");
  expectMessage(openError(model),
                {"missing tensor: language_model.lm_head.weight"});
  for (int expert = 0; expert < 7; ++expert)
    drop("language_model.model.layers.2.block_sparse_moe.experts." +
         std::to_string(expert) + ".w2.weight_scale");
  expectMessage(openError(model),
                {"missing tensor (8 in all)", "experts.0.w2.weight_scale",
                 "experts.4.w2.weight_scale", "..."});
  EXPECT_EQ(openError(model).find("experts.5.w2"), std::string::npos);
  Json json = Json::parse(checkModel(model.path()).toJson());
  EXPECT_EQ(json["ok"], false);
  ASSERT_EQ(json["problems"].size(), 1u);
  EXPECT_EQ(json["problems"][0]["kind"], "missing tensor");
  EXPECT_EQ(json["problems"][0]["count"], 8);
  EXPECT_EQ(json["problems"][0]["first"].size(), 5u);
}

// The index and the shards.

TEST(CheckpointTest, IndexDisagrees) {
  const std::string name =
      "language_model.model.layers.0.input_layernorm.weight";
  {
    ModelCopy model("k3-nano");
    model.editJson(indexName,
                   [&](Json &json) { json["weight_map"][name] = k3Second; });
    expectMessage(openError(model),
                  {name, k3First, k3Second, "where the index puts it"});
  }
  {
    ModelCopy model("k3-nano");
    editShard(model.file(k3First), [&](Shard &shard) { shard.erase(name); });
    expectMessage(openError(model), {name, "is not in", k3First});
  }
  {
    ModelCopy model("k3-nano");
    model.editJson(indexName,
                   [&](Json &json) { json["weight_map"].erase(name); });
    expectMessage(openError(model),
                  {name, "not in the index", "missing tensor"});
  }
  {
    ModelCopy model("k3-nano");
    Shard first = loadShard(model.file(k3First));
    editShard(model.file(k3Second),
              [&](Shard &shard) { shard[name] = first[name]; });
    expectMessage(openError(model),
                  {name, k3First, "and in " + std::string(k3Second)});
  }
  {
    ModelCopy model("k3-nano");
    model.editJson(indexName,
                   [&](Json &json) { json["metadata"]["total_size"] = 17; });
    Expected<Checkpoint> checkpoint = Checkpoint::open(model.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.message();
    ASSERT_EQ(checkpoint->notes().size(), 1u);
    expectMessage(checkpoint->notes()[0], {"total_size of 17", "23635968"});
  }
}

TEST(CheckpointTest, UnexpectedTensors) {
  ModelCopy model("k3-nano");
  auto add = [&](const std::string &name) {
    editShard(model.file(k3First), [&](Shard &shard) {
      shard[name] = {"U8", {1}, std::string(1, '\0')};
    });
    model.editJson(indexName,
                   [&](Json &json) { json["weight_map"][name] = k3First; });
  };
  add("language_model.model.layers.0.self_attn.q_proj.bias");
  add("language_model.model.layers.9.input_layernorm.weight");
  add("model.layers.1.block_sparse_moe.experts.24.w1.weight_packed");
  expectMessage(openError(model), {"unexpected tensor (3 in all)",
                                   "q_proj.bias", "layers.9.", "experts.24."});
}

TEST(CheckpointTest, DamagedShard) {
  ModelCopy model("k3-nano");
  std::string file = slurp(model.file(k3Second));
  spill(model.file(k3Second), file.substr(0, file.size() / 2));
  expectMessage(openError(model), {"unreadable shard", k3Second, "truncated"});
  spill(model.file(k3Second), "");
  expectMessage(openError(model), {k3Second, "has 0 bytes"});
  fs::remove(model.file(k3Second));
  fs::create_directory(model.file(k3Second));
  expectMessage(openError(model), {k3Second, "not a regular file"});
  fs::remove(model.file(k3Second));
  ASSERT_EQ(::mkfifo(model.file(k3Second).c_str(), 0600), 0);
  expectMessage(openError(model), {k3Second, "not a regular file"});
}

// Shapes and dtypes.

static std::string editedError(const std::string &tensor,
                               const std::function<void(ShardTensor &)> &edit) {
  ModelCopy model("kimi-linear-nano");
  editShard(model.file(linearFirst), [&](Shard &shard) {
    ASSERT_TRUE(shard.count(tensor)) << tensor;
    edit(shard[tensor]);
  });
  return openError(model);
}

TEST(CheckpointTest, WrongShapeAndDtype) {
  const std::string q = "model.layers.0.self_attn.q_proj.weight";
  expectMessage(editedError(q, [](ShardTensor &t) { t.shape = {128, 96}; }),
                {"wrong shape", q, "BF16 [128, 96]", "wanted BF16 [96, 128]"});
  expectMessage(editedError(q, [](ShardTensor &t) { t.dtype = "F16"; }),
                {"wrong dtype", q, "F16 [96, 128]", "wanted BF16 [96, 128]"});
  expectMessage(
      editedError("model.layers.1.block_sparse_moe.experts.0.w1.weight",
                  [](ShardTensor &t) { t.dtype = "I16"; }),
      {"wrong dtype", "experts.0.w1.weight", "I16", "wanted BF16 [48, 128]"});
  expectMessage(
      editedError(
          "model.layers.1.block_sparse_moe.gate.e_score_correction_bias",
          [](ShardTensor &t) { t.dtype = "I32"; }),
      {"wrong dtype", "I32 [8]", "wanted F32 [8] or BF16 [8]"});
  expectMessage(editedError("model.layers.0.self_attn.dt_bias",
                            [](ShardTensor &t) {
                              t.shape = {3};
                              t.bytes.resize(12);
                            }),
                {"wrong shape", "F32 [3]", "F32 [96]"});
}

/// Edits one tensor of every layer that has it.
static void editEverywhere(const TempDir &model, const std::string &suffix,
                           const std::function<void(ShardTensor &)> &edit) {
  for (const std::string &path : shardPaths(model.path()))
    editShard(path, [&](Shard &shard) {
      for (auto &[name, tensor] : shard)
        if (name.size() > suffix.size() &&
            name.compare(name.size() - suffix.size(), suffix.size(), suffix) ==
                0)
          edit(tensor);
    });
}

// Exporters write convolutions with and without the middle dimension.
TEST(CheckpointTest, ConvolutionRank) {
  ModelCopy model("kimi-linear-nano");
  editEverywhere(model, "_conv1d.weight",
                 [](ShardTensor &t) { t.shape = {96, 4}; });
  EXPECT_EQ(openError(model), "");
  editEverywhere(model, "_conv1d.weight",
                 [](ShardTensor &t) { t.shape = {4, 96}; });
  expectMessage(openError(model), {"wrong shape", "q_conv1d", "[4, 96]",
                                   "[96, 1, 4]", "[96, 4]"});
}

TEST(CheckpointTest, DecayShapes) {
  // One value per head, with the shapes that exporters use.
  for (std::vector<int64_t> shape : {std::vector<int64_t>{1, 1, 3, 1}, {3}}) {
    ModelCopy model("kimi-linear-nano");
    editEverywhere(model, ".A_log", [&](ShardTensor &t) { t.shape = shape; });
    EXPECT_EQ(openError(model), "");
  }
  ModelCopy padded("kimi-linear-nano");
  editEverywhere(padded, ".A_log", [](ShardTensor &t) {
    t.shape = {32};
    t.bytes.resize(32 * 4);
  });
  Expected<Checkpoint> checkpoint = Checkpoint::open(padded.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.message();
  std::vector<std::string> notes;
  EXPECT_TRUE(checkpoint->checkSmallValues(notes).ok());
  EXPECT_TRUE(notes.empty());
  for (uint32_t t = 0; t < checkpoint->plan().templates().size(); ++t)
    if (checkpoint->plan().templates()[t].key == "self_attn.A_log")
      EXPECT_EQ(checkpoint->form(t)->shape, std::vector<int64_t>{32});

  // Entries past the heads that are not zero: perhaps meant per channel.
  editEverywhere(padded, "0.self_attn.A_log",
                 [](ShardTensor &t) { t.bytes[3 * 4 + 3] = 0x3f; });
  checkpoint = Checkpoint::open(padded.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.message();
  EXPECT_TRUE(checkpoint->checkSmallValues(notes).ok());
  ASSERT_EQ(notes.size(), 1u);
  expectMessage(notes[0],
                {"model.layers.0.self_attn.A_log", "entry 3", "3 heads"});

  ModelCopy half("kimi-linear-nano");
  editEverywhere(half, ".A_log", [](ShardTensor &t) {
    t.shape = {16};
    t.bytes.resize(16 * 4);
  });
  expectMessage(openError(half),
                {"wrong shape", "A_log", "F32 [16]", "F32 [1, 1, 3, 1]"});
}

TEST(CheckpointTest, DecayMayBeAbsentOnlyWithABound) {
  auto dropALog = [](const TempDir &dir, const std::string &only) {
    auto matches = [&](const std::string &name) {
      return name.find(".A_log") != std::string::npos &&
             name.find(only) != std::string::npos;
    };
    for (const std::string &path : shardPaths(dir.path()))
      editShard(path, [&](Shard &shard) {
        for (auto it = shard.begin(); it != shard.end();)
          it = matches(it->first) ? shard.erase(it) : std::next(it);
      });
    Json json = Json::parse(slurp(dir.file(indexName)));
    Json kept = Json::object();
    for (const auto &[name, shard] : json["weight_map"].items())
      if (!matches(name))
        kept[name] = shard;
    json["weight_map"] = kept;
    json["metadata"].erase("total_size");
    spill(dir.file(indexName), json.dump());
  };
  ModelCopy bounded("k3-nano");
  dropALog(bounded, "");
  Expected<Checkpoint> checkpoint = Checkpoint::open(bounded.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.message();
  EXPECT_EQ(checkpoint->tensors().size(), 1386u - 6u);

  ModelCopy half("k3-nano");
  dropALog(half, "layers.2.");
  expectMessage(
      openError(half),
      {"missing tensor", "language_model.model.layers.2.self_attn.A_log"});

  ModelCopy unbounded("kimi-linear-nano");
  dropALog(unbounded, "");
  expectMessage(openError(unbounded),
                {"missing tensor (4 in all)", "model.layers.0.self_attn.A_log",
                 "gate_lower_bound"});
}

// Typed headers state logical F4 shapes over the same packed bytes.
TEST(CheckpointTest, TypedMxfp4) {
  ModelCopy model("k3-nano");
  auto retype = [](ShardTensor &t) {
    t.dtype = "F4";
    t.shape[1] *= 2;
  };
  editEverywhere(model, ".weight_packed", retype);
  editEverywhere(model, ".weight_scale",
                 [](ShardTensor &t) { t.dtype = "F8_E8M0"; });
  Expected<Checkpoint> checkpoint = Checkpoint::open(model.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.message();
  EXPECT_EQ(checkpoint->tensors().size(), 1386u);

  ModelCopy mixed("k3-nano");
  editEverywhere(mixed, "layers.3.block_sparse_moe.experts.5.w1.weight_packed",
                 retype);
  expectMessage(openError(mixed),
                {"stored unlike other layers", "experts.5.w1.weight_packed",
                 "F4 [96, 160]", "U8 [96, 80]"});
}

TEST(CheckpointTest, PackedWeightsWithoutQuantizationConfig) {
  ModelCopy model("k3-nano");
  model.editJson("config.json", [](Json &json) {
    json["text_config"].erase("quantization_config");
  });
  expectMessage(openError(model),
                {"missing tensor (576 in all)", "experts.0.w1.weight,",
                 "unexpected tensor (1152 in all)", "weight_packed"});
}

// Values.

TEST(WeightValuesTest, Scales) {
  std::vector<uint8_t> scales(3 * 5, 0xFE);
  scales[0] = 0;
  EXPECT_TRUE(checkScales(scales.data(), {3, 5}, "w", "f").ok());
  scales[2 * 5 + 3] = 0xFF;
  expectMessage(
      checkScales(scales.data(), {3, 5}, "w.weight_scale", "m.safetensors")
          .message(),
      {"m.safetensors", "\"w.weight_scale\"", "[2, 3]", "0xFF"});
  EXPECT_TRUE(checkScales(nullptr, {0, 5}, "w", "f").ok());
}

TEST(WeightValuesTest, Finite) {
  std::vector<float> values = {0, -1, 3e38f, 1e-45f};
  EXPECT_TRUE(checkFinite(values.data(), Dtype::F32, {4}, "w", "f").ok());
  values[2] = NAN;
  expectMessage(
      checkFinite(values.data(), Dtype::F32, {2, 2}, "w", "f").message(),
      {"f: ", "\"w\"", "[1, 0]", "NaN"});
  values[2] = -INFINITY;
  expectMessage(checkFinite(values.data(), Dtype::F32, {4}, "w", "f").message(),
                {"[2]", "infinite"});
  std::vector<uint16_t> halves = {0x3f80, 0x7f7f, 0x7fc0};
  EXPECT_TRUE(checkFinite(halves.data(), Dtype::BF16, {2}, "w", "f").ok());
  expectMessage(
      checkFinite(halves.data(), Dtype::BF16, {3}, "w", "f").message(),
      {"[2]", "NaN"});
  EXPECT_TRUE(checkFinite(halves.data(), Dtype::U16, {3}, "w", "f").ok());
  // Tensors of a file need not be aligned.
  std::vector<char> bytes(9, 0);
  EXPECT_TRUE(checkFinite(bytes.data() + 1, Dtype::F32, {2}, "w", "f").ok());
}

TEST(CheckpointTest, BadValuesInSmallTensors) {
  for (const char *tensor :
       {"model.layers.0.self_attn.dt_bias", "model.layers.0.self_attn.A_log",
        "model.layers.1.block_sparse_moe.gate.e_score_correction_bias"}) {
    ModelCopy model("kimi-linear-nano");
    editShard(model.file(linearFirst), [&](Shard &shard) {
      const float nan = NAN;
      std::memcpy(shard.at(tensor).bytes.data() + 4, &nan, 4);
    });
    Expected<Checkpoint> checkpoint = Checkpoint::open(model.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.message();
    std::vector<std::string> notes;
    expectMessage(checkpoint->checkSmallValues(notes).message(),
                  {linearFirst, tensor, "NaN"});
    CheckOptions options;
    options.readSmallValues = true;
    CheckReport report = checkModel(model.path(), options);
    EXPECT_FALSE(report.ok());
    EXPECT_EQ(Json::parse(report.toJson())["problems"][0]["kind"], "bad value");
  }
}

// The report.

TEST(CheckTest, Report) {
  CheckReport report = checkModel(sourcePath("models/k3-nano"));
  ASSERT_TRUE(report.ok()) << report.toText();
  EXPECT_NE(report.toText().find("k3-nano: ok\n"), std::string::npos)
      << report.toText();
  Json json = Json::parse(report.toJson());
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(json["model_type"], "kimi_k3");
  EXPECT_EQ(json["tensors_expected"], 1386);
  EXPECT_EQ(json["weight_bytes"], 23635968);
  EXPECT_EQ(json["shards_missing"], 0);
  EXPECT_EQ(*report.numRanks, 4096u);
}

TEST(CheckTest, FatalAndTokenizerProblems) {
  ModelCopy model("kimi-linear-nano");
  spill(model.file("tiktoken.model"), "IQ== 0\nIQ== 1\n");
  CheckReport report = checkModel(model.path());
  EXPECT_FALSE(report.ok());
  expectMessage(report.problems.oneLine(),
                {"tokenizer problem", "tiktoken.model:2", "twice"});
  spill(model.file("config.json"), "{}");
  report = checkModel(model.path());
  EXPECT_FALSE(report.ok());
  expectMessage(report.fatal.message(), {"config.json", "model_type"});
  Json json = Json::parse(report.toJson());
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["error"], report.fatal.message());
}
