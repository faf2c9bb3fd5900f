//===- ModelConfigTest.cpp - good configs and every kind of bad one -------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/ModelConfig.h"
#include "TestSupport.h"
#include "frontend/Check.h"

#include <functional>

using namespace k3::frontend;
using namespace k3::test;

static const char *const k3Path = "test/configs/kimi-k3/config.json";
static const char *const linearPath =
    "test/configs/kimi-linear-48b/config.json";

static Json load(const char *path) {
  return Json::parse(slurp(sourcePath(path)));
}

static Expected<ModelConfig> parse(const Json &json) {
  return parseModelConfig(json.dump(), "config.json");
}

static ModelConfig good(const char *path) {
  Expected<ModelConfig> config = readModelConfig(sourcePath(path));
  EXPECT_TRUE(config.ok()) << config.message();
  return config.ok() ? *config : ModelConfig();
}

TEST(ModelConfigTest, KimiK3) {
  ModelConfig c = good(k3Path);
  EXPECT_EQ(c.model_type, "kimi_k3");
  EXPECT_EQ(c.architecture, "KimiK3ForConditionalGeneration");
  EXPECT_EQ(c.tensorPrefix, "language_model.");
  EXPECT_EQ(c.vocab_size, 163840);
  EXPECT_EQ(c.hidden_size, 7168);
  EXPECT_EQ(c.num_hidden_layers, 93);
  EXPECT_EQ(c.rms_norm_eps, 1e-5);
  EXPECT_EQ(c.latent_norm_eps, 1e-6);
  EXPECT_EQ(c.hidden_act, Activation::situ);
  EXPECT_EQ(c.activation_situ_beta, 4.0);
  EXPECT_EQ(c.activation_situ_linear_beta, 25.0);
  EXPECT_EQ(c.intermediate_size, 33792);
  EXPECT_EQ(c.attn_res_block_size, 12);
  EXPECT_EQ(c.kda.num_heads, 96);
  EXPECT_EQ(c.kda.head_dim, 128);
  EXPECT_EQ(c.kda.short_conv_kernel_size, 4);
  EXPECT_EQ(c.kda.gate_lower_bound, -5.0);
  EXPECT_TRUE(c.kda.use_full_rank_gate);
  EXPECT_EQ(c.mla.num_attention_heads, 96);
  EXPECT_EQ(c.mla.q_lora_rank, 1536);
  EXPECT_EQ(c.mla.kv_lora_rank, 512);
  EXPECT_EQ(c.mla.qkHeadDim(), 192);
  EXPECT_EQ(c.mla.v_head_dim, 128);
  EXPECT_TRUE(c.mla.mla_use_output_gate);
  EXPECT_EQ(c.moe.num_experts, 896);
  EXPECT_EQ(c.moe.num_experts_per_token, 16);
  EXPECT_EQ(c.moe.sharedIntermediateSize(), 6144);
  EXPECT_EQ(c.moe.routed_expert_hidden_size, 3584);
  EXPECT_TRUE(c.moe.latent_moe_use_norm);
  EXPECT_EQ(c.moe.routed_scaling_factor, 1.0);
  EXPECT_EQ(c.quantization.kind, Quantization::mxfp4);
  EXPECT_EQ(c.quantization.ignore.size(), 6u);
  EXPECT_EQ(c.bos_token_id, 163584);
  EXPECT_EQ(c.eos_token_id, std::vector<int64_t>{163586});
  EXPECT_EQ(c.pad_token_id, 163839);
  EXPECT_EQ(c.max_position_embeddings, 1048576);
  EXPECT_EQ(c.dtype, Dtype::BF16);
}

TEST(ModelConfigTest, KimiK3Layers) {
  ModelConfig c = good(k3Path);
  ASSERT_EQ(c.layers.size(), 93u);
  for (int layer = 0; layer < 93; ++layer) {
    SCOPED_TRACE(layer);
    bool mla = layer % 4 == 3 || layer == 92;
    EXPECT_EQ(c.layers[layer].isKda, !mla);
    EXPECT_EQ(c.layers[layer].isMoe, layer >= 1);
    EXPECT_EQ(c.layers[layer].pushesSnapshot, layer % 12 == 0);
  }
  EXPECT_EQ(c.numKdaLayers(), 69);
  EXPECT_EQ(c.numMlaLayers(), 24);
  EXPECT_EQ(c.numMoeLayers(), 92);
  EXPECT_EQ(c.numSnapshots(), 8);
}

TEST(ModelConfigTest, KimiLinear) {
  ModelConfig c = good(linearPath);
  EXPECT_EQ(c.model_type, "kimi_linear");
  EXPECT_EQ(c.tensorPrefix, "");
  EXPECT_EQ(c.hidden_act, Activation::silu);
  EXPECT_EQ(c.attn_res_block_size, 0);
  EXPECT_EQ(c.numSnapshots(), 0);
  EXPECT_EQ(c.kda.gate_lower_bound, std::nullopt);
  EXPECT_FALSE(c.kda.use_full_rank_gate);
  EXPECT_EQ(c.mla.q_lora_rank, std::nullopt);
  EXPECT_FALSE(c.mla.mla_use_output_gate);
  EXPECT_EQ(c.moe.routed_expert_hidden_size, std::nullopt);
  EXPECT_EQ(c.expertHiddenSize(), 2304);
  EXPECT_FALSE(c.moe.latent_moe_use_norm);
  EXPECT_EQ(c.moe.routed_scaling_factor, 2.446);
  EXPECT_EQ(c.quantization.kind, Quantization::none);
  EXPECT_EQ(c.max_position_embeddings, 1048576); // as model_max_length
  for (int layer = 0; layer < 27; ++layer)
    EXPECT_EQ(c.layers[layer].isKda, !(layer % 4 == 3 || layer == 26)) << layer;
}

TEST(ModelConfigTest, ShippedModels) {
  EXPECT_EQ(good("models/k3-nano/config.json").numSnapshots(), 3);
  EXPECT_EQ(good("models/kimi-linear-nano/config.json").numKdaLayers(), 4);
}

TEST(ModelConfigTest, FlatKimiK3EqualsNested) {
  Json nested = load(k3Path), flat = nested["text_config"];
  flat["model_type"] = "kimi_k3";
  flat.erase("architectures");
  Expected<ModelConfig> config = parse(flat);
  ASSERT_TRUE(config.ok()) << config.message();
  EXPECT_EQ(config->tensorPrefix, "language_model.");
  EXPECT_EQ(planMemory(*config)->weight_bytes,
            planMemory(good(k3Path))->weight_bytes);
  EXPECT_TRUE(config->layers == good(k3Path).layers);
}

TEST(ModelConfigTest, NullIsAbsent) {
  Json json = load(linearPath);
  for (const char *key :
       {"q_lora_rank", "head_dim", "rope_scaling", "num_key_value_heads",
        "attn_res_block_size", "routed_expert_hidden_size",
        "quantization_config", "num_expert_group", "dtype", "pad_token_id",
        "num_nextn_predict_layers", "mla_use_output_gate"})
    json[key] = nullptr;
  json["linear_attn_config"]["gate_lower_bound"] = nullptr;
  json["linear_attn_config"]["use_full_rank_gate"] = nullptr;
  Expected<ModelConfig> config = parse(json);
  ASSERT_TRUE(config.ok()) << config.message();
  EXPECT_EQ(config->kda.gate_lower_bound, std::nullopt);
  EXPECT_EQ(config->pad_token_id, std::nullopt);
  EXPECT_EQ(config->dtype, Dtype::BF16);
}

// Settings that may stand at the top, in text_config, or in both.
TEST(ModelConfigTest, PlacesOfDtypeAndQuantization) {
  struct Names {
    const char *dtype, *torchDtype;
    bool fine;
  };
  const Names names[] = {{"float32", nullptr, true},
                         {nullptr, "float32", true},
                         {"float32", "float32", true},
                         {"float32", "bfloat16", false},
                         {nullptr, nullptr, true}};
  for (bool inside : {false, true})
    for (const Names &name : names)
      for (bool quantInside : {false, true}) {
        Json json = load(k3Path);
        Json quant = json["text_config"]["quantization_config"];
        for (const char *key :
             {"dtype", "torch_dtype", "quantization_config"}) {
          json.erase(key);
          json["text_config"].erase(key);
        }
        (quantInside ? json["text_config"] : json)["quantization_config"] =
            quant;
        Json &home = inside ? json["text_config"] : json;
        if (name.dtype)
          home["dtype"] = name.dtype;
        if (name.torchDtype)
          home["torch_dtype"] = name.torchDtype;
        Expected<ModelConfig> config = parse(json);
        if (!name.fine) {
          expectMessage(config.message(), {"torch_dtype", "bfloat16", "dtype"});
          continue;
        }
        ASSERT_TRUE(config.ok()) << config.message();
        EXPECT_EQ(config->dtype,
                  name.dtype || name.torchDtype ? Dtype::F32 : Dtype::BF16);
        EXPECT_EQ(config->quantization.kind, Quantization::mxfp4);
      }
  Json json = load(k3Path);
  json["dtype"] = "float32";
  expectMessage(parse(json).message(),
                {"text_config.dtype", "\"bfloat16\"", "\"float32\""});
  json = load(k3Path);
  json["quantization_config"] = json["text_config"]["quantization_config"];
  EXPECT_TRUE(parse(json).ok()) << parse(json).message();
  json["quantization_config"]["format"] = "int4";
  expectMessage(parse(json).message(), {"text_config.quantization_config"});
  json = load(k3Path);
  json["eos_token_id"] = 5;
  expectMessage(parse(json).message(),
                {"text_config.eos_token_id", "163586", "5"});
}

TEST(ModelConfigTest, SeveralEndIds) {
  Json json = load(linearPath);
  json["eos_token_id"] = {163586, 163585};
  Expected<ModelConfig> config = parse(json);
  ASSERT_TRUE(config.ok()) << config.message();
  EXPECT_EQ(config->eos_token_id, (std::vector<int64_t>{163586, 163585}));
}

TEST(ModelConfigTest, GateVariants) {
  for (bool bounded : {false, true})
    for (bool fullRank : {false, true}) {
      Json json = load(linearPath);
      if (bounded)
        json["linear_attn_config"]["gate_lower_bound"] = -5.0;
      json["linear_attn_config"]["use_full_rank_gate"] = fullRank;
      Expected<ModelConfig> config = parse(json);
      ASSERT_TRUE(config.ok()) << config.message();
      EXPECT_EQ(config->kda.gate_lower_bound.has_value(), bounded);
      EXPECT_EQ(config->kda.use_full_rank_gate, fullRank);
    }
}

// Plans with other mixes of layer kinds, down to a single kind.
TEST(ModelConfigTest, LayerMixes) {
  struct Mix {
    std::vector<int> kda, full;
  };
  for (const Mix &mix : {Mix{{1, 2, 3, 4, 5}, {6}}, Mix{{1}, {}},
                         Mix{{}, {1, 2, 3, 4}}, Mix{{3, 1}, {2, 4}}}) {
    Json json = load(linearPath);
    json["num_hidden_layers"] = mix.kda.size() + mix.full.size();
    json["linear_attn_config"]["kda_layers"] = mix.kda;
    json["linear_attn_config"]["full_attn_layers"] = mix.full;
    Expected<ModelConfig> config = parse(json);
    ASSERT_TRUE(config.ok()) << config.message();
    EXPECT_EQ(config->numKdaLayers(), static_cast<int64_t>(mix.kda.size()));
    EXPECT_EQ(config->numMlaLayers(), static_cast<int64_t>(mix.full.size()));
    for (int id : mix.kda)
      EXPECT_TRUE(config->layers[id - 1].isKda) << id;
  }
}

TEST(ModelConfigTest, MoePlacement) {
  Json json = load(linearPath);
  json["first_k_dense_replace"] = 3;
  json["moe_layer_freq"] = 2;
  Expected<ModelConfig> config = parse(json);
  ASSERT_TRUE(config.ok()) << config.message();
  for (int layer = 0; layer < 27; ++layer)
    EXPECT_EQ(config->layers[layer].isMoe, layer >= 3 && layer % 2 == 0)
        << layer;
}

namespace {
struct Bad {
  const char *what;
  std::function<void(Json &)> edit;
  std::vector<std::string> message;
};
} // namespace

static void expectAllBad(const char *path, const std::vector<Bad> &cases) {
  for (const Bad &bad : cases) {
    SCOPED_TRACE(bad.what);
    Json json = load(path);
    bad.edit(json);
    std::vector<std::string> parts = bad.message;
    parts.push_back("config.json:1:");
    expectMessage(parse(json).message(), parts);
  }
}

static Json &linear(Json &json) {
  return json["text_config"]["linear_attn_config"];
}

TEST(ModelConfigTest, BadLayerLists) {
  const std::string base = "numbered from 1";
  const std::string kda = "text_config.linear_attn_config.kda_layers";
  const std::string full = "text_config.linear_attn_config.full_attn_layers";
  expectAllBad(
      k3Path,
      {
          {"0-based",
           [](Json &j) { linear(j)["kda_layers"][0] = 0; },
           {kda + "[0]", "got 0", "1 to 93", base}},
          {"past the end",
           [](Json &j) { linear(j)["full_attn_layers"].push_back(94); },
           {full + "[24]", "got 94", "1 to 93", base}},
          {"negative",
           [](Json &j) { linear(j)["kda_layers"][5] = -3; },
           {kda + "[5]", "got -3", base}},
          {"repeated",
           [](Json &j) { linear(j)["kda_layers"].push_back(91); },
           {kda + "[69]", "got 91", "once", base}},
          {"overlap",
           [](Json &j) { linear(j)["full_attn_layers"].push_back(1); },
           {full, "layer 1 ", "kda_layers", base}},
          {"gap",
           [](Json &j) { linear(j)["kda_layers"].erase(1); },
           {kda, "layer 2 ", base}},
          {"true",
           [](Json &j) { linear(j)["kda_layers"][0] = true; },
           {kda + "[0]", "got true", base}},
          {"float",
           [](Json &j) { linear(j)["kda_layers"][0] = 1.0; },
           {kda + "[0]", "got 1", base}},
          {"missing key",
           [](Json &j) { linear(j).erase("kda_layers"); },
           {kda, "missing", base}},
          {"null",
           [](Json &j) { linear(j)["full_attn_layers"] = nullptr; },
           {full, "missing", base}},
          {"not a list",
           [](Json &j) { linear(j)["full_attn_layers"] = 4; },
           {full, "got 4", "a list"}},
          {"no object",
           [](Json &j) { j["text_config"].erase("linear_attn_config"); },
           {"text_config.linear_attn_config", "missing"}},
          {"object is a list",
           [](Json &j) {
             j["text_config"]["linear_attn_config"] = Json::array();
           },
           {"text_config.linear_attn_config", "a list"}},
      });
  // All ids one lower, as a 0-based exporter would write them.
  Json json = load(k3Path);
  for (const char *key : {"kda_layers", "full_attn_layers"})
    for (Json &id : linear(json)[key])
      id = id.get<int>() - 1;
  expectMessage(parse(json).message(), {"got 0", base});
}

TEST(ModelConfigTest, UnsupportedModels) {
  auto text = [](const char *key, Json value) {
    return [key, value](Json &j) { j["text_config"][key] = value; };
  };
  auto quant = [](const char *key, Json value) {
    return [key, value](Json &j) {
      j["text_config"]["quantization_config"][key] = value;
    };
  };
  auto weights = [](const char *key, Json value) {
    return [key, value](Json &j) {
      j["text_config"]["quantization_config"]["config_groups"]["group_0"]
       ["weights"][key] = value;
    };
  };
  expectAllBad(
      k3Path,
      {
          {"model_type",
           [](Json &j) { j["model_type"] = "llama"; },
           {"model_type", "\"llama\"", "\"kimi_k3\" or \"kimi_linear\""}},
          {"model_type missing",
           [](Json &j) { j.erase("model_type"); },
           {"model_type", "missing", "\"kimi_k3\""}},
          {"model_type number",
           [](Json &j) { j["model_type"] = 3; },
           {"model_type", "got 3"}},
          {"inner model_type",
           text("model_type", "deepseek_v3"),
           {"text_config.model_type", "\"deepseek_v3\"", "\"kimi_linear\""}},
          {"architecture",
           [](Json &j) { j["architectures"][0] = "LlamaForCausalLM"; },
           {"architectures[0]", "\"LlamaForCausalLM\"",
            "KimiK3ForConditionalGeneration"}},
          {"architectures empty",
           [](Json &j) { j["architectures"] = Json::array(); },
           {"architectures[0]"}},
          {"text_config",
           [](Json &j) { j["text_config"] = 5; },
           {"text_config", "got 5", "an object"}},
          {"tied top",
           [](Json &j) {
             j["tie_word_embeddings"] = true;
             j["text_config"].erase("tie_word_embeddings");
           },
           {"tie_word_embeddings", "got true", "false"}},
          {"tied inner",
           [](Json &j) {
             j.erase("tie_word_embeddings");
             j["text_config"]["tie_word_embeddings"] = true;
           },
           {"text_config.tie_word_embeddings", "got true", "false"}},
          {"hidden_act",
           text("hidden_act", "gelu"),
           {"text_config.hidden_act", "\"gelu\"", "\"situ\" or \"silu\""}},
          {"hidden_act missing",
           text("hidden_act", nullptr),
           {"text_config.hidden_act", "missing"}},
          {"situ beta",
           text("activation_situ_beta", nullptr),
           {"activation_situ_beta", "missing"}},
          {"router",
           text("moe_router_activation_func", "softmax"),
           {"moe_router_activation_func", "\"softmax\"", "\"sigmoid\""}},
          {"topk_method",
           text("topk_method", "greedy"),
           {"topk_method", "\"greedy\"", "\"noaux_tc\""}},
          {"groups",
           text("num_expert_group", 8),
           {"num_expert_group", "got 8", "groups"}},
          {"topk groups",
           text("topk_group", 4),
           {"topk_group", "got 4", "groups"}},
          {"mtp",
           text("num_nextn_predict_layers", 1),
           {"num_nextn_predict_layers", "got 1", "wanted 0"}},
          {"rope",
           text("mla_use_nope", false),
           {"mla_use_nope", "got false", "rotary"}},
          {"rope by default",
           text("mla_use_nope", nullptr),
           {"mla_use_nope", "missing", "rotary"}},
          {"kv heads do not divide",
           text("num_key_value_heads", 36),
           {"num_key_value_heads", "got 36", "wanted 96"}},
          {"kv heads",
           text("num_key_value_heads", 8),
           {"num_key_value_heads", "got 8", "wanted 96"}},
          {"bias",
           text("attention_bias", true),
           {"attention_bias", "got true"}},
          {"dtype",
           [](Json &j) { j["dtype"] = j["text_config"]["dtype"] = "float16"; },
           {"dtype", "\"float16\"", "\"bfloat16\" or \"float32\""}},
          {"quant method",
           quant("quant_method", "gptq"),
           {"quantization_config.quant_method", "\"gptq\"",
            "\"compressed-tensors\""}},
          {"quant format",
           quant("format", "nvfp4-pack-quantized"),
           {"quantization_config.format", "nvfp4", "mxfp4-pack-quantized"}},
          {"kv scheme",
           quant("kv_cache_scheme", Json::object()),
           {"kv_cache_scheme", "null"}},
          {"no groups",
           quant("config_groups", Json::object()),
           {"config_groups"}},
          {"ignore",
           quant("ignore", {1}),
           {"quantization_config.ignore", "got 1", "strings"}},
          {"group size",
           weights("group_size", 16),
           {"config_groups.group_0.weights.group_size", "got 16", "wanted 32"}},
          {"bits",
           weights("num_bits", 8),
           {"weights.num_bits", "got 8", "wanted 4"}},
          {"type",
           weights("type", "int"),
           {"weights.type", "\"int\"", "\"float\""}},
          {"activations",
           [](Json &j) {
             j["text_config"]["quantization_config"]["config_groups"]["group_0"]
              ["input_activations"] = Json::object();
           },
           {"group_0.input_activations", "null"}},
          {"group straddles",
           text("moe_intermediate_size", 3080),
           {"moe_intermediate_size", "got 3080", "multiple of 32"}},
          {"latent straddles",
           text("routed_expert_hidden_size", 3600),
           {"routed_expert_hidden_size", "got 3600", "multiple of 32"}},
      });
}

TEST(ModelConfigTest, BadNumbers) {
  auto text = [](const char *key, Json value) {
    return [key, value](Json &j) { j["text_config"][key] = value; };
  };
  auto kda = [](const char *key, Json value) {
    return [key, value](Json &j) { linear(j)[key] = value; };
  };
  std::vector<Bad> cases = {
      {"eps zero", text("rms_norm_eps", 0.0), {"rms_norm_eps"}},
      {"eps one", text("rms_norm_eps", 1.0), {"rms_norm_eps", "below 1"}},
      {"eps negative", text("rms_norm_eps", -1e-5), {"rms_norm_eps"}},
      {"scaling",
       text("routed_scaling_factor", -1.0),
       {"routed_scaling_factor"}},
      {"scaling infinite in f32",
       text("routed_scaling_factor", 1e300),
       {"routed_scaling_factor"}},
      {"bound zero",
       kda("gate_lower_bound", 0.0),
       {"gate_lower_bound", "below 0"}},
      {"bound positive",
       kda("gate_lower_bound", 5.0),
       {"gate_lower_bound", "got 5"}},
      {"bound string",
       kda("gate_lower_bound", "-5"),
       {"gate_lower_bound", "\"-5\""}},
      {"conv",
       kda("short_conv_kernel_size", 1),
       {"short_conv_kernel_size", "got 1"}},
      {"top k above experts",
       text("num_experts_per_token", 897),
       {"num_experts_per_token", "got 897", "896"}},
      {"experts missing",
       text("num_experts", nullptr),
       {"num_experts", "missing", "num_experts_per_token"}},
      {"vocab", text("vocab_size", 163000), {"token_id", "162999"}},
      {"bos",
       [](Json &j) {
         j["bos_token_id"] = j["text_config"]["bos_token_id"] = 163840;
       },
       {"bos_token_id", "got 163840", "0 to 163839"}},
      {"flag",
       text("moe_renormalize", "yes"),
       {"moe_renormalize", "\"yes\"", "true or false"}},
      {"total size",
       [](Json &j) {
         Json &t = j["text_config"];
         t["num_experts"] = 16384;
         t["moe_intermediate_size"] = t["routed_expert_hidden_size"] = 1 << 20;
         j["text_config"].erase("quantization_config");
       },
       {"2^60"}},
  };
  for (const char *key :
       {"vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size",
        "num_attention_heads", "q_lora_rank", "kv_lora_rank",
        "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "num_experts",
        "num_experts_per_token", "moe_intermediate_size",
        "routed_expert_hidden_size", "moe_layer_freq"}) {
    for (Json value :
         {Json(0), Json(-1), Json(int64_t(1) << 62), Json(uint64_t(1) << 63),
          Json(1.5), Json("8"), Json(true), Json::array(), Json::object()})
      cases.push_back({key,
                       text(key, value),
                       {std::string("text_config.") + key + ": got "}});
  }
  for (const char *key : {"num_heads", "head_dim", "short_conv_kernel_size"})
    for (Json value : {Json(0), Json(-1), Json(int64_t(1) << 62), Json("8")})
      cases.push_back({key,
                       kda(key, value),
                       {std::string("linear_attn_config.") + key + ": got "}});
  for (const char *key :
       {"vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size",
        "num_attention_heads", "kv_lora_rank", "rms_norm_eps"})
    cases.push_back({key,
                     text(key, nullptr),
                     {std::string("text_config.") + key + ": missing"}});
  expectAllBad(k3Path, cases);
}

TEST(ModelConfigTest, NonFiniteNumbers) {
  std::string text = slurp(sourcePath(k3Path));
  size_t at = text.find("1e-05");
  ASSERT_NE(at, std::string::npos);
  for (const char *value : {"NaN", "Infinity", "1e999"}) {
    std::string bad = text;
    bad.replace(at, 5, value);
    expectMessage(parseModelConfig(bad, "config.json").message(),
                  {"config.json:", "malformed"});
  }
}

TEST(ModelConfigTest, NotAConfig) {
  for (const char *text : {"", "[]", "5", "null", "{",
                           "{\"model_type\": \"kimi_k3\"}", "\xff\xfe"})
    EXPECT_FALSE(parseModelConfig(text, "config.json").ok()) << text;
  expectMessage(readModelConfig("/nowhere/config.json").message(),
                {"/nowhere/config.json", "cannot open"});
  expectMessage(readModelConfig(sourcePath("models")).message(),
                {"not a regular file"});
  std::string text = slurp(sourcePath(k3Path));
  for (size_t length = 0; length + 1 < text.size(); length += 101)
    EXPECT_FALSE(parseModelConfig(text.substr(0, length), "config.json").ok());
  std::string twice = text;
  twice.insert(twice.find("\"hidden_size\""), "\"hidden_size\": 7168,\n");
  expectMessage(parseModelConfig(twice, "config.json").message(),
                {"config.json:", "\"hidden_size\"", "twice"});
}

TEST(ModelConfigTest, ErrorsNameTheLine) {
  std::string text = slurp(sourcePath(k3Path));
  size_t at = text.find("\"kv_lora_rank\": 512");
  ASSERT_NE(at, std::string::npos);
  auto line = 1 + std::count(text.begin(), text.begin() + at, '\n');
  text.replace(at, 19, "\"kv_lora_rank\": -12");
  expectMessage(
      parseModelConfig(text, "config.json").message(),
      {"config.json:" + std::to_string(line) + ":", "kv_lora_rank", "got -12"});
}
