//===- ModelConfig.h - validated config.json of a Kimi model --------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Plain data: the part of config.json that decides the graph, the tensors and
// the states, under the names of config.json. A ModelConfig returned by
// parseModelConfig is consistent: nothing in it has to be checked again.
//===----------------------------------------------------------------------===//
#ifndef K3_FRONTEND_MODELCONFIG_H
#define K3_FRONTEND_MODELCONFIG_H

#include "frontend/Dtype.h"
#include "frontend/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace k3::frontend {

/// hidden_act. situ: beta*tanh(g/beta)*sigmoid(g) * lb*tanh(u/lb); silu:
/// silu(g)*u. The same function in dense, shared and routed MLPs.
enum class Activation : uint8_t { situ, silu };

/// How the routed experts are stored. mxfp4: weight_packed U8 [out, in/2] (low
/// nibble = even input) and weight_scale U8 [out, in/32] (E8M0).
enum class Quantization : uint8_t { none, mxfp4 };

struct KdaConfig {
  int64_t num_heads = 0;
  int64_t head_dim = 0; ///< d_k = d_v
  int64_t short_conv_kernel_size = 0;
  /// Present: g = bound * sigmoid(exp(A_log) * z); absent: g = -exp(A_log) *
  /// softplus(z). Negative when present.
  std::optional<double> gate_lower_bound;
  /// Output gate g_proj [P, d] (true) or g_a_proj [head_dim, d] then g_b_proj
  /// [P, head_dim] (false).
  bool use_full_rank_gate = false;

  /// P: width of q, k, v and the output before o_proj.
  int64_t projectionSize() const { return num_heads * head_dim; }
};

struct MlaConfig {
  int64_t num_attention_heads = 0;
  std::optional<int64_t> q_lora_rank; ///< absent: one q_proj, no q_a_layernorm
  int64_t kv_lora_rank = 0;
  int64_t qk_nope_head_dim = 0;
  int64_t qk_rope_head_dim = 0; ///< never rotated, but part of q, k and cache
  int64_t v_head_dim = 0;
  bool mla_use_output_gate = false;

  int64_t qkHeadDim() const { return qk_nope_head_dim + qk_rope_head_dim; }
  /// Values cached per token and layer: normed latent, then the raw rope part.
  int64_t cacheWidth() const { return kv_lora_rank + qk_rope_head_dim; }
  int64_t outputSize() const { return num_attention_heads * v_head_dim; }
};

struct MoeConfig {
  int64_t num_experts = 0; ///< 0: no MoE layer
  int64_t num_experts_per_token = 0;
  int64_t num_shared_experts = 0; ///< one fused MLP of this many widths
  int64_t moe_intermediate_size = 0;
  /// Latent width the routed experts read and write; absent: hidden_size.
  std::optional<int64_t> routed_expert_hidden_size;
  bool latent_moe_use_norm = false; ///< only with a latent width
  bool moe_renormalize = true;
  double routed_scaling_factor = 1.0;

  int64_t sharedIntermediateSize() const {
    return num_shared_experts * moe_intermediate_size;
  }
};

struct QuantizationConfig {
  Quantization kind = Quantization::none;
  int64_t group_size = 32;         ///< weights per scale along the input
  std::vector<std::string> ignore; ///< as written, e.g. "re:.*self_attn.*"
};

/// What decoder layer L (0-based) is made of.
struct LayerKind {
  bool isKda = false; ///< else MLA
  bool isMoe = false; ///< else dense MLP
  /// Block AttnRes: pushes its input before attention (L % block size == 0).
  bool pushesSnapshot = false;

  bool operator==(const LayerKind &other) const {
    return isKda == other.isKda && isMoe == other.isMoe &&
           pushesSnapshot == other.pushesSnapshot;
  }
  bool operator!=(const LayerKind &other) const { return !(*this == other); }
};

struct ModelConfig {
  std::string model_type;   ///< "kimi_k3" or "kimi_linear"
  std::string architecture; ///< architectures[0] of the outermost object
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t num_hidden_layers = 0;
  double rms_norm_eps = 0;
  /// q_a_layernorm and kv_a_layernorm: the authors' code builds these with its
  /// default and not with rms_norm_eps.
  double latent_norm_eps = 1e-6;
  Activation hidden_act = Activation::silu;
  double activation_situ_beta = 4.0;
  double activation_situ_linear_beta = 25.0;
  int64_t intermediate_size = 0; ///< dense MLP width
  int64_t first_k_dense_replace = 0;
  int64_t moe_layer_freq = 1;
  int64_t attn_res_block_size = 0; ///< decoder layers; 0: plain residual

  KdaConfig kda;
  MlaConfig mla;
  MoeConfig moe;
  QuantizationConfig quantization;

  std::optional<int64_t> bos_token_id;
  std::vector<int64_t> eos_token_id; ///< config.json may give one id or several
  std::optional<int64_t> pad_token_id;
  int64_t max_position_embeddings = 0; ///< or model_max_length; tokens
  Dtype dtype = Dtype::BF16;           ///< of unquantised weights: BF16 or F32

  /// Before every text tensor's name: "language_model." or "".
  std::string tensorPrefix;
  std::vector<LayerKind> layers; ///< num_hidden_layers entries

  int64_t numKdaLayers() const;
  int64_t numMlaLayers() const;
  int64_t numMoeLayers() const;
  /// Snapshots on the AttnRes stack after the last layer (8 in Kimi K3).
  int64_t numSnapshots() const;
  /// Width the routed experts read and write.
  int64_t expertHiddenSize() const {
    return moe.routed_expert_hidden_size.value_or(hidden_size);
  }
};

/// Parses and validates the text of a config.json, text settings nested under
/// text_config or flat. `fileName` is only used in messages.
Expected<ModelConfig> parseModelConfig(std::string_view json,
                                       const std::string &fileName);

/// The same for a file (at most 1 MiB).
Expected<ModelConfig> readModelConfig(const std::string &path);

} // namespace k3::frontend

#endif // K3_FRONTEND_MODELCONFIG_H
