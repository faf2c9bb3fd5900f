//===- ModelConfig.cpp - validated config.json of a Kimi model ------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/ModelConfig.h"
#include "frontend/File.h"
#include "frontend/Json.h"
#include "frontend/MemoryPlan.h"
#include "frontend/Text.h"

#include <algorithm>
#include <cmath>

namespace k3::frontend {

int64_t ModelConfig::numKdaLayers() const {
  return std::count_if(layers.begin(), layers.end(),
                       [](const LayerKind &kind) { return kind.isKda; });
}

int64_t ModelConfig::numMlaLayers() const {
  return static_cast<int64_t>(layers.size()) - numKdaLayers();
}

int64_t ModelConfig::numMoeLayers() const {
  return std::count_if(layers.begin(), layers.end(),
                       [](const LayerKind &kind) { return kind.isMoe; });
}

int64_t ModelConfig::numSnapshots() const {
  return std::count_if(layers.begin(), layers.end(), [](const LayerKind &kind) {
    return kind.pushesSnapshot;
  });
}

namespace {

// Far above any model, and small enough that the product of two is an int64.
constexpr int64_t maxLayers = 1024;
constexpr int64_t maxWidth = int64_t(1) << 20;
constexpr int64_t maxVocab = int64_t(1) << 21;
constexpr int64_t maxHeads = int64_t(1) << 12;
constexpr int64_t maxHeadDim = int64_t(1) << 12;
constexpr int64_t maxExperts = int64_t(1) << 14;
constexpr int64_t maxTokens = int64_t(1) << 40;

/// One object of the config and its path from the root ("" or "text_config.").
struct Section {
  const JsonValue *object = nullptr;
  std::string path;

  /// The member, or nullptr if it is absent or null: both mean "not given".
  const JsonValue *find(std::string_view key) const {
    const JsonValue *value = object ? object->find(key) : nullptr;
    return value && !value->isNull() ? value : nullptr;
  }
};

/// Reads one config. The first error sticks; every later read is a no-op that
/// returns a default, so that the reading code is a plain list of fields.
class ConfigReader {
public:
  ConfigReader(std::string_view text, const std::string &fileName)
      : text(text), fileName(fileName) {}

  Expected<ModelConfig> read();

private:
  // Errors.
  bool failed() const { return !status.ok(); }
  void fail(const Section &section, std::string_view key, const JsonValue *got,
            const std::string &wanted) {
    failText(got ? got->offset : section.object->offset,
             section.path + std::string(key) + ": " +
                 (got ? "got " + got->describe() : "missing") + ", wanted " +
                 wanted);
  }
  void failText(size_t offset, const std::string &message) {
    if (!failed())
      status = Status::error(placePrefix(text, offset, fileName) + message);
  }

  // Typed reads of one field. The optional forms return nullopt if not given.
  std::optional<int64_t> optionalInteger(const Section &section,
                                         std::string_view key, int64_t low,
                                         int64_t high);
  int64_t integer(const Section &section, std::string_view key, int64_t low,
                  int64_t high);
  int64_t integerOr(const Section &section, std::string_view key, int64_t low,
                    int64_t high, int64_t fallback) {
    return optionalInteger(section, key, low, high).value_or(fallback);
  }
  std::optional<double> optionalReal(const Section &section,
                                     std::string_view key);
  std::optional<double> optionalPositive(const Section &section,
                                         std::string_view key);
  double positive(const Section &section, std::string_view key);
  bool flagOr(const Section &section, std::string_view key, bool fallback);
  std::optional<std::string> optionalString(const Section &section,
                                            std::string_view key);
  const JsonValue *list(const Section &section, std::string_view key);

  // Parts of the config.
  void readIdentity();
  void readResidualAndNorms();
  void readLayers();
  std::vector<int64_t> readLayerList(const Section &section,
                                     std::string_view key);
  void readKda();
  void readMla();
  void readMlps();
  void readMoe();
  void readQuantization();
  void checkQuantizationGroup(const Section &section);
  void readTokens();
  void readDtype();
  void refuseUnsupported();
  void checkTotalSize();

  /// Whether both hold the same value, whatever its kind.
  static bool same(const JsonValue &a, const JsonValue &b);
  /// A setting that may stand at the top, in text_config, or in both if equal.
  const JsonValue *findShared(std::string_view key, Section &where);

  std::string_view text;
  const std::string &fileName;
  JsonValue document;
  Section root, model, linear;
  bool nested = false;
  ModelConfig config;
  Status status;
};

std::string range(int64_t low, int64_t high) {
  return "a whole number from " + std::to_string(low) + " to " +
         std::to_string(high);
}

std::optional<int64_t> ConfigReader::optionalInteger(const Section &section,
                                                     std::string_view key,
                                                     int64_t low,
                                                     int64_t high) {
  const JsonValue *value = failed() ? nullptr : section.find(key);
  if (!value)
    return std::nullopt;
  if (value->kind != JsonValue::Kind::Integer || value->integer < low ||
      value->integer > high) {
    fail(section, key, value, range(low, high));
    return std::nullopt;
  }
  return value->integer;
}

int64_t ConfigReader::integer(const Section &section, std::string_view key,
                              int64_t low, int64_t high) {
  if (!failed() && !section.find(key))
    fail(section, key, nullptr, range(low, high));
  return optionalInteger(section, key, low, high).value_or(low);
}

std::optional<double> ConfigReader::optionalReal(const Section &section,
                                                 std::string_view key) {
  const JsonValue *value = failed() ? nullptr : section.find(key);
  if (!value)
    return std::nullopt;
  bool isNumber = value->kind == JsonValue::Kind::Integer ||
                  value->kind == JsonValue::Kind::BigInteger ||
                  value->kind == JsonValue::Kind::Real;
  if (!isNumber || !std::isfinite(value->real)) {
    fail(section, key, value, "a finite number");
    return std::nullopt;
  }
  return value->real;
}

std::optional<double> ConfigReader::optionalPositive(const Section &section,
                                                     std::string_view key) {
  std::optional<double> value = optionalReal(section, key);
  // The kernels take these as f32, where a subnormal or an overflow is lost.
  if (value && !(*value >= 1e-30 && *value <= 1e30)) {
    fail(section, key, section.find(key), "a number from 1e-30 to 1e30");
    return std::nullopt;
  }
  return value;
}

double ConfigReader::positive(const Section &section, std::string_view key) {
  if (!failed() && !section.find(key))
    fail(section, key, nullptr, "a number above 0");
  return optionalPositive(section, key).value_or(1.0);
}

bool ConfigReader::flagOr(const Section &section, std::string_view key,
                          bool fallback) {
  const JsonValue *value = failed() ? nullptr : section.find(key);
  if (!value)
    return fallback;
  if (value->kind != JsonValue::Kind::Bool) {
    fail(section, key, value, "true or false");
    return fallback;
  }
  return value->boolean;
}

std::optional<std::string> ConfigReader::optionalString(const Section &section,
                                                        std::string_view key) {
  const JsonValue *value = failed() ? nullptr : section.find(key);
  if (!value)
    return std::nullopt;
  if (value->kind != JsonValue::Kind::String) {
    fail(section, key, value, "a string");
    return std::nullopt;
  }
  return value->string;
}

const JsonValue *ConfigReader::list(const Section &section,
                                    std::string_view key) {
  const JsonValue *value = failed() ? nullptr : section.find(key);
  if (value && value->kind != JsonValue::Kind::Array) {
    fail(section, key, value, "a list");
    return nullptr;
  }
  return value;
}

bool ConfigReader::same(const JsonValue &a, const JsonValue &b) {
  return a.kind == b.kind && a.boolean == b.boolean && a.real == b.real &&
         a.integer == b.integer && a.string == b.string &&
         std::equal(a.elements.begin(), a.elements.end(), b.elements.begin(),
                    b.elements.end(), same) &&
         std::equal(a.members.begin(), a.members.end(), b.members.begin(),
                    b.members.end(), [](const auto &x, const auto &y) {
                      return x.first == y.first && same(x.second, y.second);
                    });
}

const JsonValue *ConfigReader::findShared(std::string_view key,
                                          Section &where) {
  if (failed())
    return nullptr;
  const JsonValue *inner = model.find(key);
  where = model;
  if (!nested)
    return inner;
  const JsonValue *outer = root.find(key);
  if (inner && outer && !same(*inner, *outer)) {
    fail(model, key, inner,
         "the same as the top level's " + outer->describe() +
             (inner->isObject() ? " (their contents differ)" : ""));
    return nullptr;
  }
  if (!inner)
    where = root;
  return inner ? inner : outer;
}

Expected<ModelConfig> ConfigReader::read() {
  Expected<JsonValue> tree = parseJsonTree(text, fileName);
  if (!tree)
    return tree.status();
  document = std::move(*tree);
  root.object = &document;
  if (!document.isObject())
    failText(document.offset, "got " + document.describe() +
                                  ", wanted an object with the model's config");
  if (failed())
    return status;

  model = root;
  if (const JsonValue *inner = root.find("text_config")) {
    if (!inner->isObject())
      fail(root, "text_config", inner, "an object");
    model = Section{inner, "text_config."};
    nested = true;
  }
  readIdentity();
  if (failed()) // Keys of another kind of model would only confuse.
    return status;
  config.vocab_size = integer(model, "vocab_size", 1, maxVocab);
  config.hidden_size = integer(model, "hidden_size", 1, maxWidth);
  config.num_hidden_layers = integer(model, "num_hidden_layers", 1, maxLayers);
  refuseUnsupported();
  readResidualAndNorms();
  readLayers();
  readMlps();
  readMoe();
  readKda();
  readMla();
  readQuantization();
  readTokens();
  readDtype();
  checkTotalSize();
  if (failed())
    return status;
  return std::move(config);
}

void ConfigReader::readIdentity() {
  std::optional<std::string> type = optionalString(root, "model_type");
  if (failed())
    return;
  if (!type || (*type != "kimi_k3" && *type != "kimi_linear")) {
    fail(root, "model_type", root.find("model_type"),
         "\"kimi_k3\" or \"kimi_linear\"");
    return;
  }
  config.model_type = *type;
  config.tensorPrefix = *type == "kimi_k3" ? "language_model." : "";
  if (nested) {
    std::optional<std::string> inner = optionalString(model, "model_type");
    if (inner && *inner != "kimi_linear" && *inner != *type)
      fail(model, "model_type", model.find("model_type"), "\"kimi_linear\"");
  }
  const JsonValue *names = list(root, "architectures");
  if (!names)
    return;
  const JsonValue *first =
      names->elements.empty() ? names : &names->elements[0];
  static const char *const known[] = {"KimiK3ForConditionalGeneration",
                                      "KimiLinearForCausalLM"};
  if (first->kind != JsonValue::Kind::String ||
      std::find(std::begin(known), std::end(known), first->string) ==
          std::end(known)) {
    fail(root, "architectures[0]", first,
         "\"KimiK3ForConditionalGeneration\" or \"KimiLinearForCausalLM\"");
    return;
  }
  config.architecture = first->string;
}

void ConfigReader::refuseUnsupported() {
  Section where;
  const JsonValue *tied = findShared("tie_word_embeddings", where);
  if (tied && (tied->kind != JsonValue::Kind::Bool || tied->boolean))
    fail(where, "tie_word_embeddings", tied,
         "false (an output head of its own, lm_head.weight)");
  if (integerOr(model, "num_nextn_predict_layers", 0, maxLayers, 0) != 0)
    fail(model, "num_nextn_predict_layers",
         model.find("num_nextn_predict_layers"),
         "0 (multi-token prediction layers are not supported)");
  for (const char *key : {"attention_bias", "mlp_bias"})
    if (flagOr(model, key, false))
      fail(model, key, model.find(key), "false (no projection has a bias)");
}

void ConfigReader::readResidualAndNorms() {
  config.rms_norm_eps = positive(model, "rms_norm_eps");
  if (!failed() && config.rms_norm_eps >= 1)
    fail(model, "rms_norm_eps", model.find("rms_norm_eps"), "a number below 1");
  config.latent_norm_eps =
      optionalPositive(model, "latent_norm_eps").value_or(1e-6);
  config.attn_res_block_size =
      integerOr(model, "attn_res_block_size", 0, maxLayers, 0);
  config.max_position_embeddings = integerOr(
      model, "max_position_embeddings", 1, maxTokens,
      integerOr(model, "model_max_length", 1, maxTokens, int64_t(1) << 20));
}

std::vector<int64_t> ConfigReader::readLayerList(const Section &section,
                                                 std::string_view key) {
  std::vector<int64_t> ids;
  const std::string wanted = "layer ids from 1 to " +
                             std::to_string(config.num_hidden_layers) +
                             ", each once (layers are numbered from 1)";
  const JsonValue *value = list(section, key);
  if (failed())
    return ids;
  if (!value) {
    fail(section, key, nullptr, "a list of " + wanted);
    return ids;
  }
  std::vector<bool> seen(static_cast<size_t>(config.num_hidden_layers) + 1);
  for (size_t i = 0; i < value->elements.size(); ++i) {
    const JsonValue &element = value->elements[i];
    std::string place = std::string(key) + '[' + std::to_string(i) + ']';
    if (element.kind != JsonValue::Kind::Integer || element.integer < 1 ||
        element.integer > config.num_hidden_layers) {
      fail(section, place, &element, wanted);
      return {};
    }
    if (seen[static_cast<size_t>(element.integer)]) {
      fail(section, place, &element,
           "each layer once (layers are numbered from 1)");
      return {};
    }
    seen[static_cast<size_t>(element.integer)] = true;
    ids.push_back(element.integer);
  }
  return ids;
}

void ConfigReader::readLayers() {
  if (failed())
    return;
  const JsonValue *object = model.find("linear_attn_config");
  if (!object || !object->isObject()) {
    fail(model, "linear_attn_config", object,
         "an object with kda_layers and full_attn_layers");
    return;
  }
  linear = Section{object, model.path + "linear_attn_config."};
  std::vector<int64_t> kda = readLayerList(linear, "kda_layers");
  std::vector<int64_t> full = readLayerList(linear, "full_attn_layers");
  if (failed())
    return;

  enum : uint8_t { none, isKda, isMla };
  std::vector<uint8_t> attention(static_cast<size_t>(config.num_hidden_layers),
                                 none);
  for (int64_t id : kda)
    attention[static_cast<size_t>(id - 1)] = isKda;
  for (int64_t id : full) {
    uint8_t &slot = attention[static_cast<size_t>(id - 1)];
    if (slot != none) {
      failText(linear.find("full_attn_layers")->offset,
               linear.path + "full_attn_layers: layer " + std::to_string(id) +
                   " is also in kda_layers, wanted each layer in one list "
                   "(layers are numbered from 1)");
      return;
    }
    slot = isMla;
  }
  auto gap = std::find(attention.begin(), attention.end(), none);
  if (gap != attention.end()) {
    failText(object->offset,
             linear.path + "kda_layers: layer " +
                 std::to_string(gap - attention.begin() + 1) +
                 " is neither here nor in full_attn_layers, wanted every layer "
                 "from 1 to " +
                 std::to_string(config.num_hidden_layers) +
                 " (layers are numbered from 1)");
    return;
  }

  config.first_k_dense_replace =
      integerOr(model, "first_k_dense_replace", 0, maxLayers, 0);
  config.moe_layer_freq = integerOr(model, "moe_layer_freq", 1, maxLayers, 1);
  config.moe.num_experts =
      optionalInteger(model, "num_experts", 1, maxExperts).value_or(0);
  if (config.moe.num_experts == 0)
    for (const char *key : {"num_experts_per_token", "moe_intermediate_size",
                            "routed_expert_hidden_size"})
      if (!failed() && model.find(key))
        fail(model, "num_experts", nullptr,
             range(1, maxExperts) + " beside " + key);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    LayerKind kind;
    kind.isKda = attention[static_cast<size_t>(layer)] == isKda;
    kind.isMoe = config.moe.num_experts > 0 &&
                 layer >= config.first_k_dense_replace &&
                 layer % config.moe_layer_freq == 0;
    kind.pushesSnapshot = config.attn_res_block_size > 0 &&
                          layer % config.attn_res_block_size == 0;
    config.layers.push_back(kind);
  }
}

void ConfigReader::readKda() {
  if (failed() || config.numKdaLayers() == 0)
    return;
  KdaConfig &kda = config.kda;
  kda.num_heads = integer(linear, "num_heads", 1, maxHeads);
  kda.head_dim = integer(linear, "head_dim", 1, maxHeadDim);
  kda.short_conv_kernel_size = integer(linear, "short_conv_kernel_size", 2, 16);
  kda.gate_lower_bound = optionalReal(linear, "gate_lower_bound");
  // The bound is the most a token may decay, in nats; see GateKind of the
  // dialect. Below -1000 the gate is "forget everything" in any float type.
  if (kda.gate_lower_bound &&
      !(*kda.gate_lower_bound < 0 && *kda.gate_lower_bound >= -1000))
    fail(linear, "gate_lower_bound", linear.find("gate_lower_bound"),
         "a number from -1000 to below 0, or none for the unbounded gate");
  kda.use_full_rank_gate = flagOr(linear, "use_full_rank_gate", false);
}

void ConfigReader::readMla() {
  if (failed() || config.numMlaLayers() == 0)
    return;
  MlaConfig &mla = config.mla;
  mla.num_attention_heads = integer(model, "num_attention_heads", 1, maxHeads);
  int64_t kvHeads = integerOr(model, "num_key_value_heads", 1, maxHeads,
                              mla.num_attention_heads);
  if (!failed() && kvHeads != mla.num_attention_heads)
    fail(model, "num_key_value_heads", model.find("num_key_value_heads"),
         std::to_string(mla.num_attention_heads) +
             " as num_attention_heads (all heads share one latent)");
  mla.q_lora_rank = optionalInteger(model, "q_lora_rank", 1, maxWidth);
  mla.kv_lora_rank = integer(model, "kv_lora_rank", 1, maxWidth);
  mla.qk_nope_head_dim = integer(model, "qk_nope_head_dim", 1, maxHeadDim);
  mla.qk_rope_head_dim = integer(model, "qk_rope_head_dim", 1, maxHeadDim);
  mla.v_head_dim = integer(model, "v_head_dim", 1, maxHeadDim);
  mla.mla_use_output_gate = flagOr(model, "mla_use_output_gate", false);
  if (!flagOr(model, "mla_use_nope", false))
    fail(model, "mla_use_nope", model.find("mla_use_nope"),
         "true (rotary position embedding is not supported)");
}

void ConfigReader::readMlps() {
  if (failed())
    return;
  std::optional<std::string> name = optionalString(model, "hidden_act");
  if (name == "situ") {
    config.hidden_act = Activation::situ;
    config.activation_situ_beta = positive(model, "activation_situ_beta");
    config.activation_situ_linear_beta =
        positive(model, "activation_situ_linear_beta");
  } else if (name == "silu") {
    config.hidden_act = Activation::silu;
  } else {
    fail(model, "hidden_act", model.find("hidden_act"), "\"situ\" or \"silu\"");
  }
  if (!failed() && config.numMoeLayers() < config.num_hidden_layers)
    config.intermediate_size = integer(model, "intermediate_size", 1, maxWidth);
}

void ConfigReader::readMoe() {
  if (failed() || config.numMoeLayers() == 0)
    return;
  MoeConfig &moe = config.moe;
  moe.num_experts_per_token =
      integer(model, "num_experts_per_token", 1, maxExperts);
  if (!failed() && moe.num_experts_per_token > moe.num_experts)
    fail(model, "num_experts_per_token", model.find("num_experts_per_token"),
         "at most num_experts, " + std::to_string(moe.num_experts));
  moe.num_shared_experts =
      integerOr(model, "num_shared_experts", 0, maxExperts, 0);
  moe.moe_intermediate_size =
      integer(model, "moe_intermediate_size", 1, maxWidth);
  moe.routed_expert_hidden_size =
      optionalInteger(model, "routed_expert_hidden_size", 1, maxWidth);
  bool norm = flagOr(model, "latent_moe_use_norm", false);
  moe.latent_moe_use_norm = norm && moe.routed_expert_hidden_size.has_value();
  moe.moe_renormalize = flagOr(model, "moe_renormalize", true);
  moe.routed_scaling_factor =
      optionalPositive(model, "routed_scaling_factor").value_or(1.0);

  auto only = [&](const char *key, const char *supported) {
    std::optional<std::string> value = optionalString(model, key);
    if (value && *value != supported)
      fail(model, key, model.find(key), quote(supported));
  };
  only("moe_router_activation_func", "sigmoid");
  only("topk_method", "noaux_tc");
  flagOr(model, "use_grouped_topk", false);
  for (const char *key : {"num_expert_group", "topk_group"})
    if (integerOr(model, key, 0, maxExperts, 1) != 1)
      fail(model, key, model.find(key),
           "1 (routing in expert groups is not supported)");
}

void ConfigReader::checkQuantizationGroup(const Section &section) {
  if (const JsonValue *value = section.find("input_activations"))
    fail(section, "input_activations", value,
         "null (activations are not quantised)");
  if (const JsonValue *value = section.find("output_activations"))
    fail(section, "output_activations", value,
         "null (activations are not quantised)");
  const JsonValue *weights = section.find("weights");
  if (!weights || !weights->isObject()) {
    fail(section, "weights", weights, "an object");
    return;
  }
  Section inner{weights, section.path + "weights."};
  if (integer(inner, "num_bits", 1, 64) != 4)
    fail(inner, "num_bits", inner.find("num_bits"), "4");
  if (optionalString(inner, "type") != "float")
    fail(inner, "type", inner.find("type"), "\"float\"");
  if (integer(inner, "group_size", 1, maxWidth) != 32)
    fail(inner, "group_size", inner.find("group_size"), "32");
  if (!flagOr(inner, "symmetric", true))
    fail(inner, "symmetric", inner.find("symmetric"), "true");
  if (optionalString(inner, "strategy").value_or("group") != "group")
    fail(inner, "strategy", inner.find("strategy"), "\"group\"");
}

void ConfigReader::readQuantization() {
  Section where;
  const JsonValue *object = findShared("quantization_config", where);
  if (failed() || !object)
    return;
  if (!object->isObject()) {
    fail(where, "quantization_config", object, "an object or null");
    return;
  }
  Section quant{object, where.path + "quantization_config."};
  if (optionalString(quant, "quant_method") != "compressed-tensors")
    fail(quant, "quant_method", quant.find("quant_method"),
         "\"compressed-tensors\"");
  if (optionalString(quant, "format") != "mxfp4-pack-quantized")
    fail(quant, "format", quant.find("format"), "\"mxfp4-pack-quantized\"");
  if (optionalString(quant, "quantization_status").value_or("compressed") !=
      "compressed")
    fail(quant, "quantization_status", quant.find("quantization_status"),
         "\"compressed\"");
  if (const JsonValue *value = quant.find("kv_cache_scheme"))
    fail(quant, "kv_cache_scheme", value, "null");
  if (failed())
    return;
  const JsonValue *groups = quant.find("config_groups");
  if (!groups || !groups->isObject() || groups->members.empty()) {
    fail(quant, "config_groups", groups, "an object with a group of weights");
    return;
  }
  for (const auto &[name, group] : groups->members) {
    if (!group.isObject()) {
      fail(quant, "config_groups." + printable(name, 40), &group, "an object");
      return;
    }
    Section section{&group,
                    quant.path + "config_groups." + printable(name, 40) + '.'};
    if (optionalString(section, "format").value_or("mxfp4-pack-quantized") !=
        "mxfp4-pack-quantized")
      fail(section, "format", section.find("format"),
           "\"mxfp4-pack-quantized\"");
    checkQuantizationGroup(section);
  }
  if (const JsonValue *ignore = list(quant, "ignore"))
    for (const JsonValue &element : ignore->elements) {
      if (element.kind != JsonValue::Kind::String) {
        fail(quant, "ignore", &element, "a list of strings");
        return;
      }
      config.quantization.ignore.push_back(element.string);
    }
  config.quantization.kind = Quantization::mxfp4;
  config.quantization.group_size = 32;
  if (failed() || config.numMoeLayers() == 0)
    return;

  auto wholeGroups = [&](const char *key, int64_t size) {
    if (size % 32 != 0)
      fail(model, key, model.find(key),
           "a multiple of 32, the MXFP4 group size");
  };
  wholeGroups("moe_intermediate_size", config.moe.moe_intermediate_size);
  wholeGroups(config.moe.routed_expert_hidden_size ? "routed_expert_hidden_size"
                                                   : "hidden_size",
              config.expertHiddenSize());
}

void ConfigReader::readTokens() {
  const int64_t last = config.vocab_size - 1;
  auto single = [&](const char *key) -> std::optional<int64_t> {
    Section where;
    if (!findShared(key, where))
      return std::nullopt;
    return optionalInteger(where, key, 0, last);
  };
  config.bos_token_id = single("bos_token_id");
  config.pad_token_id = single("pad_token_id");

  Section where;
  const JsonValue *eos = findShared("eos_token_id", where);
  if (!eos)
    return;
  if (eos->kind != JsonValue::Kind::Array) {
    if (std::optional<int64_t> id =
            optionalInteger(where, "eos_token_id", 0, last))
      config.eos_token_id.push_back(*id);
    return;
  }
  for (const JsonValue &element : eos->elements) {
    if (element.kind != JsonValue::Kind::Integer || element.integer < 0 ||
        element.integer > last) {
      fail(where, "eos_token_id", &element, range(0, last));
      return;
    }
    config.eos_token_id.push_back(element.integer);
  }
}

void ConfigReader::readDtype() {
  std::optional<Dtype> found;
  for (const char *key : {"dtype", "torch_dtype"}) {
    Section where;
    const JsonValue *value = findShared(key, where);
    if (failed() || !value)
      continue;
    std::string name = optionalString(where, key).value_or("");
    if (name.rfind("torch.", 0) == 0)
      name.erase(0, 6);
    std::optional<Dtype> dtype;
    if (name == "bfloat16")
      dtype = Dtype::BF16;
    else if (name == "float32")
      dtype = Dtype::F32;
    if (!dtype)
      fail(where, key, value, "\"bfloat16\" or \"float32\"");
    else if (found && *found != *dtype)
      fail(where, key, value, "the same as dtype");
    found = dtype;
  }
  config.dtype = found.value_or(Dtype::BF16);
}

void ConfigReader::checkTotalSize() {
  if (failed())
    return;
  if (!planMemory(config))
    failText(document.offset,
             "the sizes multiply to more than 2^60 bytes of weights");
}

} // namespace

Expected<ModelConfig> parseModelConfig(std::string_view json,
                                       const std::string &fileName) {
  return ConfigReader(json, fileName).read();
}

Expected<ModelConfig> readModelConfig(const std::string &path) {
  Expected<std::string> text = readFile(path, uint64_t(1) << 20);
  if (!text)
    return text.status();
  return parseModelConfig(*text, path);
}

} // namespace k3::frontend
