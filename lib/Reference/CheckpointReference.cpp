//===- CheckpointReference.cpp - Model directories for the reference ------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/ModelReference.h"
#include "lib/Reference/MxFp4.h"
#include "lib/Reference/Safetensors.h"

#include <nlohmann/json.hpp>

#include <fstream>

using namespace k3::ref;
using nlohmann::json;

static json readJson(const std::string &path) {
  std::ifstream file(path);
  return file ? json::parse(file, nullptr, false) : json(json::value_t::discarded);
}

/// Members of a JSON object, where null means absent. Remembers the first required key that is missing.
namespace {
struct Fields {
  const json &object;
  std::string &missing;

  const json *find(const char *key) const {
    auto it = object.find(key);
    return it == object.end() || it->is_null() ? nullptr : &*it;
  }
  template <typename T> T get(const char *key) const {
    const json *value = find(key);
    if (value && (value->is_number() || value->is_boolean()))
      return value->get<T>();
    if (missing.empty())
      missing = key;
    return T();
  }
  template <typename T> T get(const char *key, T absent) const { return find(key) ? get<T>(key) : absent; }
};
} // namespace

static std::string readConfig(const json &text, Config &c) {
  std::string missing;
  Fields top{text, missing};
  c.layers = top.get<Index>("num_hidden_layers");
  c.hidden = top.get<Index>("hidden_size");
  c.vocab = top.get<Index>("vocab_size");
  c.eps = top.get<double>("rms_norm_eps");
  c.attnResBlock = top.get<Index>("attn_res_block_size", 0);
  const json *act = top.find("hidden_act");
  if (!act || (*act != "situ" && *act != "silu"))
    return "hidden_act is neither situ nor silu";
  if (*act == "situ")
    c.activation = {Activation::Situ, top.get<double>("activation_situ_beta"),
                    top.get<double>("activation_situ_linear_beta")};

  const json *linearAttn = top.find("linear_attn_config");
  if (!linearAttn || !linearAttn->is_object())
    return "linear_attn_config is missing";
  Fields kda{*linearAttn, missing};
  c.kdaHeads = kda.get<Index>("num_heads");
  c.kdaDim = kda.get<Index>("head_dim");
  c.taps = kda.get<Index>("short_conv_kernel_size");
  if (kda.find("gate_lower_bound"))
    c.gateLowerBound = kda.get<double>("gate_lower_bound");
  const json *kdaLayers = kda.find("kda_layers");
  if (!kdaLayers || !kdaLayers->is_array())
    return "kda_layers is missing";
  for (const json &layer : *kdaLayers) { // the file counts from one
    if (!layer.is_number_integer() || layer.get<Index>() < 1 || layer.get<Index>() > c.layers)
      return "kda_layers holds a layer outside the model";
    c.kdaLayers.insert(layer.get<Index>() - 1);
  }

  c.mlaHeads = top.get<Index>("num_attention_heads");
  c.qLora = top.get<Index>("q_lora_rank", 0);
  c.kvLora = top.get<Index>("kv_lora_rank");
  c.nope = top.get<Index>("qk_nope_head_dim");
  c.rope = top.get<Index>("qk_rope_head_dim");
  c.value = top.get<Index>("v_head_dim");

  c.denseLayers = top.get<Index>("first_k_dense_replace");
  c.denseWidth = top.get<Index>("intermediate_size");
  c.router.experts = top.get<Index>("num_experts");
  c.router.topK = top.get<Index>("num_experts_per_token");
  c.router.renormalize = top.get<bool>("moe_renormalize");
  c.router.scale = top.get<double>("routed_scaling_factor");
  c.latent = top.get<Index>("routed_expert_hidden_size", 0);
  c.expertWidth = top.get<Index>("moe_intermediate_size");
  c.sharedWidth = top.get<Index>("num_shared_experts") * c.expertWidth;
  if (!missing.empty())
    return missing + " is missing or no number";
  if (top.get<Index>("moe_layer_freq", 1) != 1 || top.get<Index>("num_expert_group", 1) != 1)
    return "moe_layer_freq and num_expert_group must be 1";
  return {};
}

/// Serves tensors by name as float views, checking their size, and remembers the first fault.
namespace {
struct Loader {
  const Tensors &tensors;
  std::map<std::string, std::vector<float>> &storage;
  std::string prefix, fault;

  View keep(const std::string &name, std::vector<float> values) { return storage[name] = std::move(values); }

  void fail(const std::string &name, const std::string &what) {
    if (fault.empty())
      fault = name + ": " + what;
  }

  bool has(const std::string &name) const { return tensors.count(prefix + name) != 0; }

  /// `atLeast` allows padding behind the elements asked for.
  View get(const std::string &name, Index size, bool atLeast = false) {
    auto it = tensors.find(prefix + name);
    if (it == tensors.end())
      return fail(name, "missing"), View();
    Index got = it->second.size();
    if (atLeast ? got < size : got != size)
      return fail(name, "has " + std::to_string(got) + " elements, want " + std::to_string(size)), View();
    if (it->second.dtype != "F32" && it->second.dtype != "BF16")
      return fail(name, "is " + it->second.dtype), View();
    return keep(name, it->second.floats());
  }

  /// A routed expert's matrix, stored as MXFP4 or plainly.
  View getExpert(const std::string &name, Index out, Index in) {
    if (!has(name + "_packed"))
      return get(name, out * in);
    const Tensor &packed = tensors.at(prefix + name + "_packed");
    auto scale = tensors.find(prefix + name + "_scale");
    if (scale == tensors.end() || packed.dtype != "U8" || scale->second.dtype != "U8" || in % 32 != 0 ||
        packed.size() != out * in / 2 || scale->second.size() != out * in / 32)
      return fail(name, "packed weight and scale do not match"), View();
    Vec values = dequantMxFp4(packed.bytes.data(), scale->second.bytes.data(), out, in);
    return keep(name, std::vector<float>(values.begin(), values.end()));
  }
};
} // namespace

static KdaWeights loadKda(Loader &load, const std::string &p, const Config &c, bool fullRankGate) {
  Index P = c.kdaHeads * c.kdaDim, d = c.hidden;
  KdaWeights w;
  w.q = load.get(p + "q_proj.weight", P * d);
  w.k = load.get(p + "k_proj.weight", P * d);
  w.v = load.get(p + "v_proj.weight", P * d);
  w.o = load.get(p + "o_proj.weight", d * P);
  w.qConv = load.get(p + "q_conv1d.weight", P * c.taps);
  w.kConv = load.get(p + "k_conv1d.weight", P * c.taps);
  w.vConv = load.get(p + "v_conv1d.weight", P * c.taps);
  w.forget.a = load.get(p + "f_a_proj.weight", c.kdaDim * d);
  w.forget.b = load.get(p + "f_b_proj.weight", P * c.kdaDim);
  if (fullRankGate) {
    w.outputGate.full = load.get(p + "g_proj.weight", P * d);
  } else {
    w.outputGate.a = load.get(p + "g_a_proj.weight", c.kdaDim * d);
    w.outputGate.b = load.get(p + "g_b_proj.weight", P * c.kdaDim);
  }
  w.beta = load.get(p + "b_proj.weight", c.kdaHeads * d);
  if (load.has(p + "A_log") || !c.gateLowerBound) // only the bounded gate may go without
    w.aLog = load.get(p + "A_log", c.kdaHeads, /*atLeast=*/true);
  w.dtBias = load.get(p + "dt_bias", P);
  w.oNorm = load.get(p + "o_norm.weight", c.kdaDim);
  return w;
}

static MlaWeights loadMla(Loader &load, const std::string &p, const Config &c, bool outputGate) {
  Index d = c.hidden, H = c.mlaHeads, queries = H * (c.nope + c.rope);
  MlaWeights w;
  if (c.qLora) {
    w.qA = load.get(p + "q_a_proj.weight", c.qLora * d);
    w.qANorm = load.get(p + "q_a_layernorm.weight", c.qLora);
    w.q = load.get(p + "q_b_proj.weight", queries * c.qLora);
  } else {
    w.q = load.get(p + "q_proj.weight", queries * d);
  }
  w.kvA = load.get(p + "kv_a_proj_with_mqa.weight", (c.kvLora + c.rope) * d);
  w.kvANorm = load.get(p + "kv_a_layernorm.weight", c.kvLora);
  w.kvB = load.get(p + "kv_b_proj.weight", H * (c.nope + c.value) * c.kvLora);
  if (outputGate)
    w.outputGate = load.get(p + "g_proj.weight", H * c.value * d);
  w.o = load.get(p + "o_proj.weight", d * H * c.value);
  return w;
}

static MlpWeights loadMlp(Loader &load, const std::string &p, Index hidden, Index width) {
  return {load.get(p + "gate_proj.weight", width * hidden), load.get(p + "up_proj.weight", width * hidden),
          load.get(p + "down_proj.weight", hidden * width)};
}

static MoeWeights loadMoe(Loader &load, const std::string &p, const Config &c, bool latentNorm) {
  Index d = c.hidden, l = c.latent ? c.latent : d;
  MoeWeights w;
  w.router = load.get(p + "gate.weight", c.router.experts * d);
  w.bias = load.get(p + "gate.e_score_correction_bias", c.router.experts);
  if (c.latent) {
    w.down = load.get(p + "routed_expert_down_proj.weight", l * d);
    w.up = load.get(p + "routed_expert_up_proj.weight", d * l);
    if (latentNorm)
      w.norm = load.get(p + "routed_expert_norm.weight", l);
  }
  for (Index e = 0; e < c.router.experts; ++e) {
    std::string expert = p + "experts." + std::to_string(e) + ".";
    w.w1.push_back(load.getExpert(expert + "w1.weight", c.expertWidth, l));
    w.w3.push_back(load.getExpert(expert + "w3.weight", c.expertWidth, l));
    w.w2.push_back(load.getExpert(expert + "w2.weight", l, c.expertWidth));
  }
  if (c.sharedWidth) {
    MlpWeights shared = loadMlp(load, p + "shared_experts.", d, c.sharedWidth);
    w.sharedGate = shared.gate;
    w.sharedUp = shared.up;
    w.sharedDown = shared.down;
  }
  return w;
}

std::string k3::ref::readCheckpoint(const std::string &directory, Checkpoint &checkpoint) {
  std::string configPath = directory + "/config.json", indexPath = directory + "/model.safetensors.index.json";
  json config = readJson(configPath);
  if (!config.is_object())
    return configPath + ": not a JSON object";
  bool nested = config.contains("text_config") && config["text_config"].is_object();
  const json &text = nested ? config["text_config"] : config;
  Config &c = checkpoint.config;
  if (std::string error = readConfig(text, c); !error.empty())
    return configPath + ": " + error;

  json index = readJson(indexPath);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    return indexPath + ": no weight_map";
  std::set<std::string> shards;
  for (const json &shard : index["weight_map"]) {
    if (!shard.is_string())
      return indexPath + ": a shard is not a name";
    shards.insert(shard.get<std::string>());
  }
  Tensors tensors;
  for (const std::string &shard : shards)
    if (std::string error = readSafetensors(directory + "/" + shard, tensors); !error.empty())
      return error;

  std::string ignored; // flags may be absent
  Fields flags{text, ignored}, kdaFlags{text["linear_attn_config"], ignored};
  bool fullRankGate = kdaFlags.get<bool>("use_full_rank_gate", false);
  bool outputGate = flags.get<bool>("mla_use_output_gate", false);
  bool latentNorm = flags.get<bool>("latent_moe_use_norm", false);

  Loader load{tensors, checkpoint.storage, nested ? "language_model." : "", ""};
  Index d = c.hidden;
  ModelWeights &w = checkpoint.weights;
  w.embed = load.get("model.embed_tokens.weight", c.vocab * d);
  w.norm = load.get("model.norm.weight", d);
  w.lmHead = load.get("lm_head.weight", c.vocab * d);
  if (c.attnResBlock) {
    w.outputResNorm = load.get("model.output_attn_res_norm.weight", d);
    w.outputResProj = load.get("model.output_attn_res_proj.weight", d);
  }
  for (Index i = 0; i < c.layers; ++i) {
    std::string p = "model.layers." + std::to_string(i) + ".";
    LayerWeights layer;
    layer.inputNorm = load.get(p + "input_layernorm.weight", d);
    layer.postNorm = load.get(p + "post_attention_layernorm.weight", d);
    if (c.attnResBlock) {
      layer.attnResNorm = load.get(p + "self_attention_res_norm.weight", d);
      layer.attnResProj = load.get(p + "self_attention_res_proj.weight", d);
      layer.mlpResNorm = load.get(p + "mlp_res_norm.weight", d);
      layer.mlpResProj = load.get(p + "mlp_res_proj.weight", d);
    }
    if (c.kdaLayers.count(i))
      layer.kda = loadKda(load, p + "self_attn.", c, fullRankGate);
    else
      layer.mla = loadMla(load, p + "self_attn.", c, outputGate);
    if (i < c.denseLayers)
      layer.mlp = loadMlp(load, p + "mlp.", d, c.denseWidth);
    else
      layer.moe = loadMoe(load, p + "block_sparse_moe.", c, latentNorm);
    w.layers.push_back(layer);
  }
  return load.fault.empty() ? "" : directory + ": " + load.fault;
}
