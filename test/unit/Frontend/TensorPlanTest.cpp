//===- TensorPlanTest.cpp - expected tensors and memory figures -----------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/TensorPlan.h"
#include "TestSupport.h"
#include "frontend/MemoryPlan.h"

#include <set>

using namespace k3::frontend;
using namespace k3::test;

static ModelConfig config(const char *path) {
  Expected<ModelConfig> parsed = readModelConfig(sourcePath(path));
  EXPECT_TRUE(parsed.ok()) << parsed.message();
  return *parsed;
}

namespace {
struct Row {
  const char *name;
  uint64_t count;
  Dtype dtype;
  std::vector<int64_t> shape; ///< as stored
};
} // namespace

static void expectTable(const TensorPlan &plan, const std::string &prefix,
                        const std::vector<Row> &rows) {
  for (const Row &row : rows) {
    SCOPED_TRACE(row.name);
    const TensorTemplate *found = nullptr;
    for (const TensorTemplate &entry : plan.templates())
      if (entry.nameTemplate == prefix + row.name)
        found = &entry;
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->count(), row.count);
    EXPECT_EQ(found->forms[0].dtype, row.dtype);
    EXPECT_EQ(found->forms[0].shape, row.shape);
  }
}

// The published tensors of Kimi K3.
TEST(TensorPlanTest, KimiK3) {
  const Dtype bf16 = Dtype::BF16, f32 = Dtype::F32, u8 = Dtype::U8;
  const uint64_t experts = 92 * 896;
  TensorPlan plan(config("test/configs/kimi-k3/config.json"));
  EXPECT_EQ(plan.templates().size(), 48u);
  expectTable(
      plan, "language_model.",
      {
          {"model.embed_tokens.weight", 1, bf16, {163840, 7168}},
          {"lm_head.weight", 1, bf16, {163840, 7168}},
          {"model.norm.weight", 1, bf16, {7168}},
          {"model.output_attn_res_norm.weight", 1, bf16, {7168}},
          {"model.output_attn_res_proj.weight", 1, bf16, {1, 7168}},
          {"model.layers.{L}.input_layernorm.weight", 93, bf16, {7168}},
          {"model.layers.{L}.post_attention_layernorm.weight",
           93,
           bf16,
           {7168}},
          {"model.layers.{L}.self_attention_res_norm.weight", 93, bf16, {7168}},
          {"model.layers.{L}.mlp_res_norm.weight", 93, bf16, {7168}},
          {"model.layers.{L}.self_attention_res_proj.weight",
           93,
           bf16,
           {1, 7168}},
          {"model.layers.{L}.mlp_res_proj.weight", 93, bf16, {1, 7168}},
          {"model.layers.{L}.self_attn.q_proj.weight", 69, bf16, {12288, 7168}},
          {"model.layers.{L}.self_attn.k_proj.weight", 69, bf16, {12288, 7168}},
          {"model.layers.{L}.self_attn.v_proj.weight", 69, bf16, {12288, 7168}},
          {"model.layers.{L}.self_attn.g_proj.weight", 93, bf16, {12288, 7168}},
          {"model.layers.{L}.self_attn.o_proj.weight", 93, bf16, {7168, 12288}},
          {"model.layers.{L}.self_attn.q_conv1d.weight",
           69,
           f32,
           {12288, 1, 4}},
          {"model.layers.{L}.self_attn.k_conv1d.weight",
           69,
           f32,
           {12288, 1, 4}},
          {"model.layers.{L}.self_attn.v_conv1d.weight",
           69,
           f32,
           {12288, 1, 4}},
          {"model.layers.{L}.self_attn.f_a_proj.weight", 69, bf16, {128, 7168}},
          {"model.layers.{L}.self_attn.f_b_proj.weight",
           69,
           bf16,
           {12288, 128}},
          {"model.layers.{L}.self_attn.b_proj.weight", 69, bf16, {96, 7168}},
          {"model.layers.{L}.self_attn.A_log", 69, f32, {128}},
          {"model.layers.{L}.self_attn.dt_bias", 69, f32, {12288}},
          {"model.layers.{L}.self_attn.o_norm.weight", 69, f32, {128}},
          {"model.layers.{L}.self_attn.q_a_proj.weight",
           24,
           bf16,
           {1536, 7168}},
          {"model.layers.{L}.self_attn.q_a_layernorm.weight", 24, bf16, {1536}},
          {"model.layers.{L}.self_attn.q_b_proj.weight",
           24,
           bf16,
           {18432, 1536}},
          {"model.layers.{L}.self_attn.kv_a_proj_with_mqa.weight",
           24,
           bf16,
           {576, 7168}},
          {"model.layers.{L}.self_attn.kv_a_layernorm.weight", 24, bf16, {512}},
          {"model.layers.{L}.self_attn.kv_b_proj.weight",
           24,
           bf16,
           {24576, 512}},
          {"model.layers.{L}.mlp.gate_proj.weight", 1, bf16, {33792, 7168}},
          {"model.layers.{L}.mlp.up_proj.weight", 1, bf16, {33792, 7168}},
          {"model.layers.{L}.mlp.down_proj.weight", 1, bf16, {7168, 33792}},
          {"model.layers.{L}.block_sparse_moe.gate.weight",
           92,
           bf16,
           {896, 7168}},
          {"model.layers.{L}.block_sparse_moe.gate.e_score_correction_bias",
           92,
           f32,
           {896}},
          {"model.layers.{L}.block_sparse_moe.routed_expert_down_proj.weight",
           92,
           bf16,
           {3584, 7168}},
          {"model.layers.{L}.block_sparse_moe.routed_expert_norm.weight",
           92,
           bf16,
           {3584}},
          {"model.layers.{L}.block_sparse_moe.routed_expert_up_proj.weight",
           92,
           bf16,
           {7168, 3584}},
          {"model.layers.{L}.block_sparse_moe.shared_experts.gate_proj.weight",
           92,
           bf16,
           {6144, 7168}},
          {"model.layers.{L}.block_sparse_moe.shared_experts.up_proj.weight",
           92,
           bf16,
           {6144, 7168}},
          {"model.layers.{L}.block_sparse_moe.shared_experts.down_proj.weight",
           92,
           bf16,
           {7168, 6144}},
          {"model.layers.{L}.block_sparse_moe.experts.{E}.w1.weight_packed",
           experts,
           u8,
           {3072, 1792}},
          {"model.layers.{L}.block_sparse_moe.experts.{E}.w1.weight_scale",
           experts,
           u8,
           {3072, 112}},
          {"model.layers.{L}.block_sparse_moe.experts.{E}.w3.weight_packed",
           experts,
           u8,
           {3072, 1792}},
          {"model.layers.{L}.block_sparse_moe.experts.{E}.w3.weight_scale",
           experts,
           u8,
           {3072, 112}},
          {"model.layers.{L}.block_sparse_moe.experts.{E}.w2.weight_packed",
           experts,
           u8,
           {3584, 1536}},
          {"model.layers.{L}.block_sparse_moe.experts.{E}.w2.weight_scale",
           experts,
           u8,
           {3584, 96}},
      });
  EXPECT_EQ(plan.count(), 497220u - 168u); // the index without the vision part
}

TEST(TensorPlanTest, KimiLinear) {
  const Dtype bf16 = Dtype::BF16, f32 = Dtype::F32;
  TensorPlan plan(config("test/configs/kimi-linear-48b/config.json"));
  EXPECT_EQ(plan.templates().size(), 35u); // the rows and two of q_proj
  expectTable(
      plan, "",
      {
          {"model.embed_tokens.weight", 1, bf16, {163840, 2304}},
          {"lm_head.weight", 1, bf16, {163840, 2304}},
          {"model.norm.weight", 1, bf16, {2304}},
          {"model.layers.{L}.input_layernorm.weight", 27, bf16, {2304}},
          {"model.layers.{L}.post_attention_layernorm.weight",
           27,
           bf16,
           {2304}},
          {"model.layers.{L}.self_attn.k_proj.weight", 20, bf16, {4096, 2304}},
          {"model.layers.{L}.self_attn.v_proj.weight", 20, bf16, {4096, 2304}},
          {"model.layers.{L}.self_attn.o_proj.weight", 27, bf16, {2304, 4096}},
          {"model.layers.{L}.self_attn.q_conv1d.weight",
           20,
           bf16,
           {4096, 1, 4}},
          {"model.layers.{L}.self_attn.k_conv1d.weight",
           20,
           bf16,
           {4096, 1, 4}},
          {"model.layers.{L}.self_attn.v_conv1d.weight",
           20,
           bf16,
           {4096, 1, 4}},
          {"model.layers.{L}.self_attn.f_a_proj.weight", 20, bf16, {128, 2304}},
          {"model.layers.{L}.self_attn.f_b_proj.weight", 20, bf16, {4096, 128}},
          {"model.layers.{L}.self_attn.g_a_proj.weight", 20, bf16, {128, 2304}},
          {"model.layers.{L}.self_attn.g_b_proj.weight", 20, bf16, {4096, 128}},
          {"model.layers.{L}.self_attn.b_proj.weight", 20, bf16, {32, 2304}},
          {"model.layers.{L}.self_attn.A_log", 20, f32, {1, 1, 32, 1}},
          {"model.layers.{L}.self_attn.dt_bias", 20, f32, {4096}},
          {"model.layers.{L}.self_attn.o_norm.weight", 20, bf16, {128}},
          {"model.layers.{L}.self_attn.kv_a_proj_with_mqa.weight",
           7,
           bf16,
           {576, 2304}},
          {"model.layers.{L}.self_attn.kv_a_layernorm.weight", 7, bf16, {512}},
          {"model.layers.{L}.self_attn.kv_b_proj.weight", 7, bf16, {8192, 512}},
          {"model.layers.{L}.mlp.gate_proj.weight", 1, bf16, {9216, 2304}},
          {"model.layers.{L}.mlp.up_proj.weight", 1, bf16, {9216, 2304}},
          {"model.layers.{L}.mlp.down_proj.weight", 1, bf16, {2304, 9216}},
          {"model.layers.{L}.block_sparse_moe.gate.weight",
           26,
           bf16,
           {256, 2304}},
          {"model.layers.{L}.block_sparse_moe.gate.e_score_correction_bias",
           26,
           f32,
           {256}},
          {"model.layers.{L}.block_sparse_moe.experts.{E}.w1.weight",
           26 * 256,
           bf16,
           {1024, 2304}},
          {"model.layers.{L}.block_sparse_moe.experts.{E}.w3.weight",
           26 * 256,
           bf16,
           {1024, 2304}},
          {"model.layers.{L}.block_sparse_moe.experts.{E}.w2.weight",
           26 * 256,
           bf16,
           {2304, 1024}},
          {"model.layers.{L}.block_sparse_moe.shared_experts.gate_proj.weight",
           26,
           bf16,
           {1024, 2304}},
          {"model.layers.{L}.block_sparse_moe.shared_experts.up_proj.weight",
           26,
           bf16,
           {1024, 2304}},
          {"model.layers.{L}.block_sparse_moe.shared_experts.down_proj.weight",
           26,
           bf16,
           {2304, 1024}},
      });
  // KDA and MLA queries share a name with different shapes.
  const TensorTemplate *kda = plan.find("self_attn.q_proj.weight", 0);
  const TensorTemplate *mla = plan.find("self_attn.q_proj.weight", 3);
  ASSERT_TRUE(kda && mla);
  EXPECT_EQ(kda->shape, (std::vector<int64_t>{4096, 2304}));
  EXPECT_EQ(kda->count(), 20u);
  EXPECT_EQ(mla->shape, (std::vector<int64_t>{6144, 2304}));
  EXPECT_EQ(plan.find("self_attn.A_log", 0)->shape, std::vector<int64_t>{32});
}

TEST(TensorPlanTest, FindByRole) {
  TensorPlan plan(config("test/configs/kimi-k3/config.json"));
  const TensorTemplate *expert =
      plan.find("block_sparse_moe.experts.w1.weight_packed", 5);
  ASSERT_NE(expert, nullptr);
  EXPECT_EQ(expert->name(5, 895), "language_model.model.layers.5.block_sparse_"
                                  "moe.experts.895.w1.weight_packed");
  EXPECT_EQ(expert->shape, (std::vector<int64_t>{3072, 3584}));
  EXPECT_EQ(plan.find("block_sparse_moe.experts.w1.weight_packed", 0),
            nullptr);                                  // dense layer
  EXPECT_EQ(plan.find("self_attn.A_log", 3), nullptr); // MLA layer
  EXPECT_NE(plan.find("embed_tokens.weight"), nullptr);
  EXPECT_EQ(plan.find("embed_tokens.weight", 0), nullptr);
  EXPECT_EQ(plan.find("no.such.weight", 0), nullptr);
}

// Every name the plan makes is recognised as what it is, and no two are equal.
TEST(TensorPlanTest, NamesRoundTrip) {
  for (const char *path :
       {"models/k3-nano/config.json", "models/kimi-linear-nano/config.json"}) {
    TensorPlan plan(config(path));
    std::set<std::string> names;
    for (uint32_t t = 0; t < plan.templates().size(); ++t) {
      const TensorTemplate &entry = plan.templates()[t];
      std::vector<int64_t> layers = entry.layers;
      if (layers.empty())
        layers.push_back(-1);
      for (int64_t layer : layers)
        for (int64_t expert = entry.isPerExpert() ? 0 : -1;
             expert < entry.numExperts; ++expert) {
          std::string name = entry.name(layer, expert);
          EXPECT_TRUE(names.insert(name).second) << name;
          std::optional<TensorRef> ref = plan.match(name);
          ASSERT_TRUE(ref) << name;
          EXPECT_EQ(ref->templateIndex, t);
          EXPECT_EQ(ref->layer, layer);
          EXPECT_EQ(ref->expert, expert);
          if (!entry.isPerExpert())
            break;
        }
    }
    EXPECT_EQ(names.size(), plan.count());
  }
}

TEST(TensorPlanTest, StrangersAreNotMatched) {
  TensorPlan plan(config("models/k3-nano/config.json"));
  const std::string layer = "language_model.model.layers.";
  for (const std::string &name :
       {std::string(), std::string("model.norm.weight"),
        layer + "9.input_layernorm.weight", layer + "-1.input_layernorm.weight",
        layer + "01.input_layernorm.weight",
        layer + "{L}.input_layernorm.weight", layer + "1.input_layernorm.bias",
        layer + "18446744073709551616.input_layernorm.weight",
        layer + ".input_layernorm.weight", layer + "3.self_attn.q_proj.weight",
        layer + "0.block_sparse_moe.gate.weight",
        layer + "1.block_sparse_moe.experts.24.w1.weight_packed",
        layer + "1.block_sparse_moe.experts.0.w1.weight",
        layer + "1.block_sparse_moe.experts.{E}.w1.weight_packed",
        layer + "1.block_sparse_moe.experts.w1.weight_packed",
        layer + "1.experts.0.input_layernorm.weight", std::string(100000, 'x')})
    EXPECT_FALSE(plan.match(name)) << name.substr(0, 100);
  EXPECT_TRUE(TensorPlan::isVision("vision_tower.pos_emb.weight"));
  EXPECT_TRUE(TensorPlan::isVision("mm_projector.proj.0.weight"));
  EXPECT_FALSE(TensorPlan::isVision("language_model.vision_tower.x"));
}

TEST(TensorPlanTest, OptionalALog) {
  for (bool bounded : {false, true}) {
    Json json =
        Json::parse(slurp(sourcePath("models/kimi-linear-nano/config.json")));
    if (bounded)
      json["linear_attn_config"]["gate_lower_bound"] = -5.0;
    Expected<ModelConfig> parsed = parseModelConfig(json.dump(), "config.json");
    ASSERT_TRUE(parsed.ok()) << parsed.message();
    EXPECT_EQ(TensorPlan(*parsed).find("self_attn.A_log", 0)->optional,
              bounded);
  }
}

TEST(MemoryPlanTest, KimiK3) {
  ModelConfig model = config("test/configs/kimi-k3/config.json");
  std::optional<MemoryPlan> plan = planMemory(model);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->recurrent_bytes_per_sequence, 434110464u);
  EXPECT_EQ(plan->conv_bytes_per_sequence, 15261696u);
  EXPECT_EQ(plan->state_bytes_per_sequence, 434110464u + 15261696u);
  EXPECT_EQ(plan->kv_bytes_per_token, 27648u);
  EXPECT_EQ(plan->expert_bytes, 17547264u);
  // The published total_size without the vision tower and projector in bf16.
  EXPECT_EQ(plan->weight_bytes, 1560860324864u - 2u * (401214464u + 46144512u));
  plan = planMemory(model, 4);
  EXPECT_EQ(plan->recurrent_bytes_per_sequence, 434110464u);
  EXPECT_EQ(plan->conv_bytes_per_sequence, 2u * 15261696u);
  EXPECT_EQ(plan->kv_bytes_per_token, 2u * 27648u);
}

TEST(MemoryPlanTest, KimiLinear) {
  std::optional<MemoryPlan> plan =
      planMemory(config("test/configs/kimi-linear-48b/config.json"));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->recurrent_bytes_per_sequence, 40u << 20);
  EXPECT_EQ(plan->kv_bytes_per_token, 8064u);
  EXPECT_EQ(plan->expert_bytes, 3u * 1024 * 2304 * 2);
  // 49,122,681,728 parameters; A_log, dt_bias and the router bias take two
  // bytes more each.
  EXPECT_EQ(plan->weight_bytes,
            2 * 49122681728u + 2 * (20u * (32 + 4096) + 26u * 256));
}

TEST(MemoryPlanTest, ShippedModelsAgreeWithTheirFiles) {
  for (const char *model : {"k3-nano", "kimi-linear-nano"}) {
    std::string directory = std::string("models/") + model;
    Json index = Json::parse(
        slurp(sourcePath(directory + "/model.safetensors.index.json")));
    EXPECT_EQ(
        planMemory(config((directory + "/config.json").c_str()))->weight_bytes,
        index["metadata"]["total_size"].get<uint64_t>());
  }
}
