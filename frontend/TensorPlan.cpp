//===- TensorPlan.cpp - the tensors a checkpoint must hold ----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/TensorPlan.h"

#include <algorithm>
#include <cassert>

namespace k3::frontend {

using Shape = std::vector<int64_t>;

uint64_t TensorForm::bytes() const {
  uint64_t bits = bitWidth(dtype);
  for (int64_t extent : shape)
    bits *= static_cast<uint64_t>(extent);
  return bits / 8;
}

uint64_t TensorTemplate::count() const {
  return std::max<uint64_t>(1, layers.size()) *
         std::max<uint64_t>(1, static_cast<uint64_t>(numExperts));
}

bool TensorTemplate::hasLayer(int64_t layer) const {
  return layers.empty()
             ? layer < 0
             : std::binary_search(layers.begin(), layers.end(), layer);
}

std::string TensorTemplate::name(int64_t layer, int64_t expert) const {
  std::string out = nameTemplate;
  auto substitute = [&out](const char *placeholder, int64_t value) {
    if (size_t at = out.find(placeholder); at != std::string::npos)
      out.replace(at, 3, std::to_string(value));
  };
  substitute("{L}", layer);
  substitute("{E}", expert);
  return out;
}

namespace {

/// Adds the templates of one model, in the order of its forward pass.
class PlanBuilder {
public:
  PlanBuilder(const ModelConfig &config, std::vector<TensorTemplate> &table)
      : config(config), table(table), hidden(config.hidden_size),
        released(config.model_type == "kimi_k3" ? Dtype::F32 : Dtype::BF16) {}

  void run();

private:
  std::vector<int64_t> layersWhere(bool (*test)(const LayerKind &)) const;
  TensorTemplate &add(std::string key, Shape shape,
                      std::vector<TensorForm> forms);
  /// A matrix in the model's dtype.
  void matrix(std::string key, Shape shape);
  /// A small tensor, BF16 or F32; `first` is what released files hold.
  void vector(std::string key, Shape shape, Dtype first);
  void mlp(const std::string &prefix, int64_t width);
  void common();
  void kda();
  void mla();
  void moe();
  void expertMatrix(const std::string &name, int64_t out, int64_t in);
  void mergeAcrossKinds();

  const ModelConfig &config;
  std::vector<TensorTemplate> &table;
  const int64_t hidden;
  /// Kimi K3 releases its convolutions and o_norm in F32, Kimi-Linear in BF16.
  const Dtype released;
  std::vector<int64_t> layers; ///< of the templates being added
};

std::vector<int64_t>
PlanBuilder::layersWhere(bool (*test)(const LayerKind &)) const {
  std::vector<int64_t> found;
  for (size_t i = 0; i < config.layers.size(); ++i)
    if (test(config.layers[i]))
      found.push_back(static_cast<int64_t>(i));
  return found;
}

TensorTemplate &PlanBuilder::add(std::string key, Shape shape,
                                 std::vector<TensorForm> forms) {
  TensorTemplate entry;
  entry.nameTemplate = config.tensorPrefix;
  if (key != "lm_head.weight")
    entry.nameTemplate += "model.";
  if (!layers.empty())
    entry.nameTemplate += "layers.{L}.";
  entry.nameTemplate += key;
  entry.key = std::move(key);
  entry.shape = std::move(shape);
  entry.forms = std::move(forms);
  entry.layers = layers;
  table.push_back(std::move(entry));
  return table.back();
}

void PlanBuilder::matrix(std::string key, Shape shape) {
  add(std::move(key), shape, {{config.dtype, shape}});
}

void PlanBuilder::vector(std::string key, Shape shape, Dtype first) {
  Dtype second = first == Dtype::F32 ? Dtype::BF16 : Dtype::F32;
  add(std::move(key), shape, {{first, shape}, {second, shape}}).isSmall = true;
}

void PlanBuilder::mlp(const std::string &prefix, int64_t width) {
  matrix(prefix + "gate_proj.weight", {width, hidden});
  matrix(prefix + "up_proj.weight", {width, hidden});
  matrix(prefix + "down_proj.weight", {hidden, width});
}

void PlanBuilder::common() {
  layers = layersWhere([](const LayerKind &) { return true; });
  vector("input_layernorm.weight", {hidden}, config.dtype);
  vector("post_attention_layernorm.weight", {hidden}, config.dtype);
  if (config.attn_res_block_size == 0)
    return;
  for (const char *site : {"self_attention_res_", "mlp_res_"}) {
    vector(std::string(site) + "norm.weight", {hidden}, config.dtype);
    vector(std::string(site) + "proj.weight", {1, hidden}, config.dtype);
  }
}

void PlanBuilder::kda() {
  layers = layersWhere([](const LayerKind &kind) { return kind.isKda; });
  if (layers.empty())
    return;
  const int64_t heads = config.kda.num_heads, dim = config.kda.head_dim;
  const int64_t width = config.kda.projectionSize();
  const int64_t taps = config.kda.short_conv_kernel_size;
  for (const char *name : {"q", "k", "v"})
    matrix("self_attn." + std::string(name) + "_proj.weight", {width, hidden});
  const Dtype other = released == Dtype::F32 ? Dtype::BF16 : Dtype::F32;
  for (const char *name : {"q", "k", "v"})
    add("self_attn." + std::string(name) + "_conv1d.weight", {width, taps},
        {{released, {width, 1, taps}},
         {released, {width, taps}},
         {other, {width, 1, taps}},
         {other, {width, taps}}})
        .isSmall = true;
  matrix("self_attn.f_a_proj.weight", {dim, hidden});
  matrix("self_attn.f_b_proj.weight", {width, dim});
  matrix("self_attn.b_proj.weight", {heads, hidden});

  // One value per head. Kimi K3 pads them with zeros to head_dim entries.
  std::vector<Shape> shapes = {{1, 1, heads, 1}, {heads}};
  if (dim > heads)
    shapes.insert(config.model_type == "kimi_k3" ? shapes.begin()
                                                 : shapes.end(),
                  Shape{dim});
  std::vector<TensorForm> forms;
  for (Dtype dtype : {Dtype::F32, Dtype::BF16})
    for (const Shape &shape : shapes)
      forms.push_back({dtype, shape});
  TensorTemplate &decay = add("self_attn.A_log", {heads}, std::move(forms));
  decay.isSmall = true;
  decay.optional = config.kda.gate_lower_bound.has_value();

  vector("self_attn.dt_bias", {width}, Dtype::F32);
  if (config.kda.use_full_rank_gate) {
    matrix("self_attn.g_proj.weight", {width, hidden});
  } else {
    matrix("self_attn.g_a_proj.weight", {dim, hidden});
    matrix("self_attn.g_b_proj.weight", {width, dim});
  }
  vector("self_attn.o_norm.weight", {dim}, released);
  matrix("self_attn.o_proj.weight", {hidden, width});
}

void PlanBuilder::mla() {
  layers = layersWhere([](const LayerKind &kind) { return !kind.isKda; });
  if (layers.empty())
    return;
  const MlaConfig &mla = config.mla;
  const int64_t heads = mla.num_attention_heads;
  const int64_t queryWidth = heads * mla.qkHeadDim();
  if (mla.q_lora_rank) {
    matrix("self_attn.q_a_proj.weight", {*mla.q_lora_rank, hidden});
    vector("self_attn.q_a_layernorm.weight", {*mla.q_lora_rank}, config.dtype);
    matrix("self_attn.q_b_proj.weight", {queryWidth, *mla.q_lora_rank});
  } else {
    matrix("self_attn.q_proj.weight", {queryWidth, hidden});
  }
  matrix("self_attn.kv_a_proj_with_mqa.weight", {mla.cacheWidth(), hidden});
  vector("self_attn.kv_a_layernorm.weight", {mla.kv_lora_rank}, config.dtype);
  matrix("self_attn.kv_b_proj.weight",
         {heads * (mla.qk_nope_head_dim + mla.v_head_dim), mla.kv_lora_rank});
  if (mla.mla_use_output_gate)
    matrix("self_attn.g_proj.weight", {mla.outputSize(), hidden});
  matrix("self_attn.o_proj.weight", {hidden, mla.outputSize()});
}

void PlanBuilder::expertMatrix(const std::string &name, int64_t out,
                               int64_t in) {
  const std::string key = "block_sparse_moe.experts." + name;
  auto perExpert = [&](TensorTemplate &entry) {
    entry.numExperts = config.moe.num_experts;
    size_t at = entry.nameTemplate.rfind(name);
    entry.nameTemplate.insert(at, "{E}.");
  };
  if (config.quantization.kind == Quantization::none) {
    matrix(key + ".weight", {out, in});
    perExpert(table.back());
    return;
  }
  const int64_t group = config.quantization.group_size;
  // A typed header states logical F4 shapes over the same packed bytes.
  perExpert(add(key + ".weight_packed", {out, in},
                {{Dtype::U8, {out, in / 2}}, {Dtype::F4, {out, in}}}));
  perExpert(add(
      key + ".weight_scale", {out, in / group},
      {{Dtype::U8, {out, in / group}}, {Dtype::F8_E8M0, {out, in / group}}}));
}

void PlanBuilder::moe() {
  layers = layersWhere([](const LayerKind &kind) { return kind.isMoe; });
  if (layers.empty())
    return;
  const MoeConfig &moe = config.moe;
  const int64_t latent = config.expertHiddenSize();
  const Shape router = {moe.num_experts, hidden};
  const Dtype other = config.dtype == Dtype::F32 ? Dtype::BF16 : Dtype::F32;
  add("block_sparse_moe.gate.weight", router,
      {{config.dtype, router}, {other, router}});
  vector("block_sparse_moe.gate.e_score_correction_bias", {moe.num_experts},
         Dtype::F32);
  if (moe.routed_expert_hidden_size) {
    matrix("block_sparse_moe.routed_expert_down_proj.weight", {latent, hidden});
    if (moe.latent_moe_use_norm)
      vector("block_sparse_moe.routed_expert_norm.weight", {latent},
             config.dtype);
    matrix("block_sparse_moe.routed_expert_up_proj.weight", {hidden, latent});
  }
  expertMatrix("w1", moe.moe_intermediate_size, latent);
  expertMatrix("w3", moe.moe_intermediate_size, latent);
  expertMatrix("w2", latent, moe.moe_intermediate_size);
  if (moe.num_shared_experts > 0)
    mlp("block_sparse_moe.shared_experts.", moe.sharedIntermediateSize());
}

void PlanBuilder::mergeAcrossKinds() {
  std::vector<TensorTemplate> merged;
  for (TensorTemplate &entry : table) {
    auto twin = std::find_if(
        merged.begin(), merged.end(), [&](const TensorTemplate &other) {
          return other.nameTemplate == entry.nameTemplate &&
                 other.shape == entry.shape;
        });
    if (twin == merged.end()) {
      merged.push_back(std::move(entry));
      continue;
    }
    std::vector<int64_t> all(twin->layers.size() + entry.layers.size());
    std::merge(twin->layers.begin(), twin->layers.end(), entry.layers.begin(),
               entry.layers.end(), all.begin());
    twin->layers = std::move(all);
  }
  table = std::move(merged);
}

void PlanBuilder::run() {
  matrix("embed_tokens.weight", {config.vocab_size, hidden});
  common();
  kda();
  mla();
  layers = layersWhere([](const LayerKind &kind) { return !kind.isMoe; });
  if (!layers.empty())
    mlp("mlp.", config.intermediate_size);
  moe();
  layers.clear();
  if (config.attn_res_block_size > 0) {
    vector("output_attn_res_norm.weight", {hidden}, config.dtype);
    vector("output_attn_res_proj.weight", {1, hidden}, config.dtype);
  }
  vector("norm.weight", {hidden}, config.dtype);
  matrix("lm_head.weight", {config.vocab_size, hidden});
  mergeAcrossKinds();
}

} // namespace

TensorPlan::TensorPlan(const ModelConfig &config) {
  PlanBuilder(config, table).run();
  for (uint32_t i = 0; i < table.size(); ++i) {
    byName[table[i].nameTemplate].push_back(i);
    byKey[table[i].key].push_back(i);
  }
}

const TensorTemplate *TensorPlan::find(std::string_view key,
                                       int64_t layer) const {
  auto found = byKey.find(std::string(key));
  if (found == byKey.end())
    return nullptr;
  for (uint32_t index : found->second)
    if (table[index].hasLayer(layer))
      return &table[index];
  return nullptr;
}

/// Copies `name` to `out` with the decimal number after the first `marker`
/// replaced by `placeholder`. Returns the number, or -1 if there is none; a
/// number with a leading zero or of more than nine digits is not one.
static int64_t replaceNumber(std::string &name, std::string_view marker,
                             const char *placeholder) {
  size_t at = name.find(marker);
  if (at == std::string::npos)
    return -1;
  at += marker.size();
  size_t end = at;
  int64_t value = 0;
  while (end < name.size() && end - at < 10 && name[end] >= '0' &&
         name[end] <= '9')
    value = value * 10 + (name[end++] - '0');
  if (end == at || end - at > 9 || end == name.size() || name[end] != '.' ||
      (name[at] == '0' && end - at > 1))
    return -1;
  name.replace(at, end - at, placeholder);
  return value;
}

std::optional<TensorRef> TensorPlan::match(std::string_view name) const {
  constexpr size_t longestName = 256; // Far above the longest template.
  if (name.size() > longestName)
    return std::nullopt;
  std::string pattern(name);
  TensorRef ref;
  ref.layer = replaceNumber(pattern, ".layers.", "{L}");
  ref.expert = replaceNumber(pattern, ".experts.", "{E}");
  auto found = byName.find(pattern);
  // A name that holds a literal "{L}" matches no number and thus no layer.
  if (found == byName.end())
    return std::nullopt;
  for (uint32_t index : found->second) {
    const TensorTemplate &entry = table[index];
    bool rightExpert = entry.isPerExpert()
                           ? ref.expert >= 0 && ref.expert < entry.numExperts
                           : ref.expert < 0;
    if (!entry.hasLayer(ref.layer) || !rightExpert)
      continue;
    ref.templateIndex = index;
    return ref;
  }
  return std::nullopt;
}

bool TensorPlan::isVision(std::string_view name) {
  return name.rfind("vision_tower.", 0) == 0 ||
         name.rfind("mm_projector.", 0) == 0;
}

uint64_t TensorPlan::count() const {
  uint64_t total = 0;
  for (const TensorTemplate &entry : table)
    total += entry.count();
  return total;
}

std::optional<uint64_t> TensorPlan::bytes() const {
  constexpr uint64_t limit = uint64_t(1) << 60;
  uint64_t total = 0;
  for (const TensorTemplate &entry : table) {
    uint64_t size;
    if (__builtin_mul_overflow(entry.forms[0].bytes(), entry.count(), &size) ||
        __builtin_add_overflow(total, size, &total) || total > limit)
      return std::nullopt;
  }
  return total;
}

} // namespace k3::frontend
