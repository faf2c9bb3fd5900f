//===- ImportModel.cpp - from a validated config.json to model IR -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/import/ImportModel.h"
#include "dialects/k3/IR/K3Ops.h"
#include "dialects/k3/IR/ModelAttrs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace mlir::k3;
using ::k3::frontend::Dtype;
using ::k3::frontend::LayerKind;
using ::k3::frontend::ModelConfig;
using ::k3::frontend::TensorForm;
using ::k3::frontend::TensorPlan;
using ::k3::frontend::TensorTemplate;

std::string mlir::k3::getLayerKindName(const LayerKind &kind) {
  std::string name = kind.isKda ? "kda" : "mla";
  name += kind.isMoe ? "_moe" : "_dense";
  if (kind.pushesSnapshot)
    name += "_push";
  return name;
}

namespace {

constexpr int64_t kDynamic = ShapedType::kDynamic;

/// f32 or bf16; null for anything else.
Type getFloatType(MLIRContext *context, Dtype dtype) {
  if (dtype == Dtype::F32)
    return Float32Type::get(context);
  if (dtype == Dtype::BF16)
    return BFloat16Type::get(context);
  return {};
}

/// What every function of the module needs to know.
class ModelImporter {
public:
  ModelImporter(MLIRContext &context, const ModelConfig &config, const ImportOptions &options)
      : context(context), config(config), options(options), plan(config), builder(&context) {}

  OwningOpRef<ModuleOp> run();

  /// The template of that key, or null where the model has no such tensor or its checkpoint leaves it out.
  const TensorTemplate *findWeight(StringRef key, int64_t layer) const;
  RankedTensorType getWeightType(const TensorTemplate &weight) const;

  bool hasAttnRes() const { return config.attn_res_block_size > 0; }
  /// Slots of the residual stream: the snapshots and the running partial sum.
  int64_t residualSlots() const { return config.numSnapshots() + 1; }
  Activation activation() const {
    return config.hidden_act == ::k3::frontend::Activation::situ ? Activation::situ : Activation::swiglu;
  }

  MLIRContext &context;
  const ModelConfig &config;
  const ImportOptions &options;
  const TensorPlan plan;
  OpBuilder builder;
  Type activationType, convStateType, kvCacheType;

private:
  LogicalResult checkOptions();
  const TensorForm *getStoredForm(const TensorTemplate &weight) const;
  Attribute getModelAttr();
  Attribute getLayersAttr();
};

/// Builds one function; arguments appear as the body asks for them.
class FunctionImporter {
public:
  /// `layer`: of the weights, -1 for the embedding and the head.
  FunctionImporter(ModelImporter &model, Phase phase, const Twine &suffix, int64_t layer = -1);

  void importEmbed();
  void importLayer(const LayerKind &kind);
  void importHead();

private:
  Value addArgument(Type type, StringRef name, StringRef role, ArrayRef<StringRef> dims = {});
  Value addStream();
  Value addState(Type type, StringRef name);
  Value addInput(StringRef name, StringRef dim);
  /// Null where the model has no such weight.
  Value addWeight(StringRef key);
  Value addScalar(StringRef name) { return addArgument(builder.getIndexType(), name, kScalarAttr); }

  /// Says where in the layer the ops that follow come from.
  void at(StringRef site) { loc = NameLoc::get(builder.getStringAttr(site), functionLoc); }
  Value createIndex(int64_t value) {
    Location constantLoc = NameLoc::get(builder.getStringAttr("c" + Twine(value)), functionLoc);
    return arith::ConstantIndexOp::create(builder, constantLoc, value);
  }
  /// A new destination of `[T, hidden]`.
  Value createDestination();
  Value createNorm(Value x, StringRef weightKey);
  /// The input of a sublayer: the mix of the first `sources` slots, or the one slot there is.
  Value createSource(Value stream, Value sources, StringRef prefix);
  Value createAccumulate(Value delta, Value slot, Value stream, bool init);
  Value createKda(Value x, Value seq, MutableArrayRef<Value> states);
  Value createMla(Value x, Value seq, MutableArrayRef<Value> states);
  Value createMlp(Value x);
  Value createMoe(Value x);
  /// Adds the terminator and fixes the function's type.
  void finish(ValueRange results, ArrayRef<DictionaryAttr> resultAttrs = {});

  FloatAttr f64(double value) { return builder.getF64FloatAttr(value); }
  IntegerAttr i64(int64_t value) { return builder.getI64IntegerAttr(value); }
  FloatAttr situBeta(double value) { return model.activation() == Activation::situ ? f64(value) : FloatAttr(); }

  ModelImporter &model;
  const ModelConfig &config;
  const int64_t layer;
  OpBuilder builder;
  Location functionLoc, loc;
  func::FuncOp function;
  Block *body;
  SmallVector<DictionaryAttr> argumentAttrs;
  Value rows; ///< T
};

} // namespace

//===----------------------------------------------------------------------===//
// Module
//===----------------------------------------------------------------------===//

LogicalResult ModelImporter::checkOptions() {
  Location loc = UnknownLoc::get(&context);
  activationType = getFloatType(&context, options.activations);
  convStateType = getFloatType(&context, options.convState);
  kvCacheType = getFloatType(&context, options.kvCache);
  if (options.activations != Dtype::F32)
    return emitError(loc) << "expected activations of dtype F32, got " << dtypeName(options.activations);
  if (!convStateType)
    return emitError(loc) << "expected a conv state of dtype F32 or BF16, got " << dtypeName(options.convState);
  if (!kvCacheType)
    return emitError(loc) << "expected a latent cache of dtype F32 or BF16, got " << dtypeName(options.kvCache);
  if (options.pageTokens <= 0)
    return emitError(loc) << "expected a positive page size, got " << options.pageTokens;
  return success();
}

const TensorForm *ModelImporter::getStoredForm(const TensorTemplate &weight) const {
  const TensorForm *first = &weight.forms.front();
  if (!options.storedForm)
    return first;
  const TensorForm *stored = options.storedForm(static_cast<uint32_t>(&weight - plan.templates().data()));
  return stored || weight.optional ? stored : first;
}

const TensorTemplate *ModelImporter::findWeight(StringRef key, int64_t layer) const {
  const TensorTemplate *found = plan.find(std::string_view(key.data(), key.size()), layer);
  return found && getStoredForm(*found) ? found : nullptr;
}

static int64_t countElements(ArrayRef<int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>());
}

RankedTensorType ModelImporter::getWeightType(const TensorTemplate &weight) const {
  const TensorForm &form = *getStoredForm(weight);
  SmallVector<int64_t> shape(weight.shape.begin(), weight.shape.end());
  Type element = getFloatType(&context, form.dtype);
  if (!element) {
    // Packed codes or scales: the bytes of a row. An F4 header counts codes.
    element = IntegerType::get(&context, 8);
    shape.assign(form.shape.begin(), form.shape.end());
    if (form.dtype == Dtype::F4)
      shape.back() /= 2;
  } else if (int64_t stored = countElements(form.shape); stored != countElements(shape)) {
    // A_log with padding behind the heads.
    shape.assign({stored});
  }
  if (weight.isPerExpert())
    shape.insert(shape.begin(), weight.numExperts);
  return RankedTensorType::get(shape, element);
}

Attribute ModelImporter::getModelAttr() {
  SmallVector<NamedAttribute> entries;
  auto add = [&](StringRef name, Attribute value) { entries.push_back(builder.getNamedAttr(name, value)); };
  auto addInteger = [&](StringRef name, int64_t value) { add(name, builder.getI64IntegerAttr(value)); };
  add("name", builder.getStringAttr(options.modelName.empty() ? config.model_type : options.modelName));
  add("model_type", builder.getStringAttr(config.model_type));
  addInteger("vocab_size", config.vocab_size);
  addInteger("hidden_size", config.hidden_size);
  addInteger("num_hidden_layers", config.num_hidden_layers);
  addInteger("max_position_embeddings", config.max_position_embeddings);
  addInteger("residual_slots", residualSlots());
  addInteger("page_tokens", options.pageTokens);
  if (config.bos_token_id)
    addInteger("bos_token_id", *config.bos_token_id);
  if (config.pad_token_id)
    addInteger("pad_token_id", *config.pad_token_id);
  add("eos_token_ids", builder.getI64ArrayAttr(config.eos_token_id));
  return builder.getDictionaryAttr(entries);
}

Attribute ModelImporter::getLayersAttr() {
  SmallVector<Attribute> table;
  int64_t snapshots = 0;
  for (const LayerKind &kind : config.layers) {
    int64_t sources = snapshots + 1;
    snapshots += kind.pushesSnapshot;
    table.push_back(builder.getDictionaryAttr({
        builder.getNamedAttr("kind", builder.getStringAttr(getLayerKindName(kind))),
        builder.getNamedAttr("sources", builder.getI64IntegerAttr(sources)),
        builder.getNamedAttr("slot", builder.getI64IntegerAttr(snapshots)),
        builder.getNamedAttr("mlp_sources", builder.getI64IntegerAttr(snapshots + 1)),
    }));
  }
  return builder.getArrayAttr(table);
}

OwningOpRef<ModuleOp> ModelImporter::run() {
  if (failed(checkOptions()))
    return nullptr;
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  (*module)->setAttr(kModelAttr, getModelAttr());
  (*module)->setAttr(kLayersAttr, getLayersAttr());
  builder.setInsertionPointToEnd(module->getBody());
  for (Phase phase : {Phase::prefill, Phase::decode}) {
    FunctionImporter(*this, phase, "embed").importEmbed();
    llvm::StringSet<> done;
    for (auto [layer, kind] : llvm::enumerate(config.layers))
      if (std::string name = getLayerKindName(kind); done.insert(name).second)
        FunctionImporter(*this, phase, "layer_" + name, layer).importLayer(kind);
    FunctionImporter(*this, phase, "head").importHead();
  }
  return module;
}

//===----------------------------------------------------------------------===//
// Functions and their arguments
//===----------------------------------------------------------------------===//

FunctionImporter::FunctionImporter(ModelImporter &model, Phase phase, const Twine &suffix, int64_t layer)
    : model(model), config(model.config), layer(layer), builder(model.builder), functionLoc(builder.getUnknownLoc()), loc(functionLoc) {
  std::string name = (stringifyPhase(phase) + "_" + suffix).str();
  loc = functionLoc = NameLoc::get(builder.getStringAttr(name));
  function = func::FuncOp::create(model.builder, loc, name, builder.getFunctionType({}, {}));
  function->setAttr(kPhaseAttr, PhaseAttr::get(&model.context, phase));
  body = function.addEntryBlock();
  builder.setInsertionPointToEnd(body);
}

Value FunctionImporter::addArgument(Type type, StringRef name, StringRef role, ArrayRef<StringRef> dims) {
  SmallVector<NamedAttribute> attrs;
  if (!role.empty())
    attrs.push_back(builder.getNamedAttr(role, builder.getStringAttr(name)));
  if (!dims.empty())
    attrs.push_back(builder.getNamedAttr(kDimsAttr, builder.getStrArrayAttr(dims)));
  argumentAttrs.push_back(builder.getDictionaryAttr(attrs));
  return body->addArgument(type, NameLoc::get(builder.getStringAttr(name)));
}

Value FunctionImporter::addStream() {
  auto type = RankedTensorType::get({model.residualSlots(), kDynamic, config.hidden_size}, model.activationType);
  Value stream = addArgument(type, "stream", kBufferAttr, {"T"});
  at("T");
  rows = tensor::DimOp::create(builder, loc, stream, createIndex(1));
  return stream;
}

Value FunctionImporter::addState(Type type, StringRef name) { return addArgument(type, name, kStateAttr); }

Value FunctionImporter::addInput(StringRef name, StringRef dim) {
  return addArgument(RankedTensorType::get({kDynamic}, builder.getI32Type()), name, kInputAttr, {dim});
}

Value FunctionImporter::addWeight(StringRef key) {
  const TensorTemplate *weight = model.findWeight(key, layer);
  if (!weight)
    return {};
  Value argument = addArgument(model.getWeightType(*weight), weight->key, kWeightAttr);
  if (weight->isPerExpert()) {
    NamedAttrList attrs(argumentAttrs.back());
    attrs.set(kExpertGroupAttr, builder.getUnitAttr());
    argumentAttrs.back() = attrs.getDictionary(&model.context);
  }
  return argument;
}

void FunctionImporter::finish(ValueRange results, ArrayRef<DictionaryAttr> resultAttrs) {
  func::ReturnOp::create(builder, loc, results);
  function.setFunctionType(builder.getFunctionType(body->getArgumentTypes(), results.getTypes()));
  function.setAllArgAttrs(argumentAttrs);
  if (!resultAttrs.empty())
    function.setAllResultAttrs(resultAttrs);
}

//===----------------------------------------------------------------------===//
// Norms and the residual stream
//===----------------------------------------------------------------------===//

Value FunctionImporter::createDestination() {
  Location destinationLoc = NameLoc::get(builder.getStringAttr("out"), loc);
  return tensor::EmptyOp::create(builder, destinationLoc, {rows, builder.getIndexAttr(config.hidden_size)}, model.activationType);
}

Value FunctionImporter::createNorm(Value x, StringRef weightKey) {
  Value destination = createDestination();
  return RmsNormOp::create(builder, loc, destination.getType(), x, addWeight(weightKey), destination,
                           f64(config.rms_norm_eps), KernelConfigAttr())
      .getResult(0);
}

Value FunctionImporter::createSource(Value stream, Value sources, StringRef prefix) {
  if (!model.hasAttnRes()) {
    SmallVector<ReassociationIndices> merged = {{0, 1}, {2}};
    return tensor::CollapseShapeOp::create(builder, loc, stream, merged);
  }
  Value norm = addWeight((prefix + "_norm.weight").str()), projection = addWeight((prefix + "_proj.weight").str());
  Value destination = createDestination();
  Location mixLoc = NameLoc::get(builder.getStringAttr(prefix), loc);
  return AttnResMixOp::create(builder, mixLoc, destination.getType(), stream, sources, norm, projection,
                              /*out_weight=*/Value(), destination, f64(config.rms_norm_eps), /*out_eps=*/FloatAttr(),
                              KernelConfigAttr())
      .getResult(0);
}

Value FunctionImporter::createAccumulate(Value delta, Value slot, Value stream, bool init) {
  Location streamLoc = NameLoc::get(builder.getStringAttr("stream"), loc);
  return AttnResAccumulateOp::create(builder, streamLoc, stream.getType(), delta, slot, stream,
                                     init ? builder.getUnitAttr() : UnitAttr(), KernelConfigAttr())
      .getResult(0);
}

//===----------------------------------------------------------------------===//
// Sublayers
//===----------------------------------------------------------------------===//

Value FunctionImporter::createKda(Value x, Value seq, MutableArrayRef<Value> states) {
  const auto &kda = config.kda;
  auto weight = [&](StringRef name) { return addWeight(("self_attn." + name).str()); };
  Value qProj = weight("q_proj.weight"), kProj = weight("k_proj.weight"), vProj = weight("v_proj.weight");
  Value qConv = weight("q_conv1d.weight"), kConv = weight("k_conv1d.weight"), vConv = weight("v_conv1d.weight");
  Value fA = weight("f_a_proj.weight"), fB = weight("f_b_proj.weight"), bProj = weight("b_proj.weight");
  Value aLog = weight("A_log"), dtBias = weight("dt_bias");
  Value g, gA, gB;
  if (kda.use_full_rank_gate) {
    g = weight("g_proj.weight");
  } else {
    gA = weight("g_a_proj.weight");
    gB = weight("g_b_proj.weight");
  }
  Value oNorm = weight("o_norm.weight"), oProj = weight("o_proj.weight");
  GateKind gate = kda.gate_lower_bound ? GateKind::bounded_sigmoid : GateKind::softplus;
  auto op = KdaAttentionOp::create(
      builder, loc, x, seq, states[1], states[2], states[3], states[0], qProj, kProj, vProj, bProj, qConv, kConv, vConv,
      dtBias, oNorm, oProj, /*f_proj=*/Value(), fA, fB, aLog, g, gA, gB, i64(kda.num_heads), i64(kda.head_dim), i64(kda.head_dim),
      GateKindAttr::get(&model.context, gate), kda.gate_lower_bound ? f64(*kda.gate_lower_bound) : FloatAttr(),
      f64(1.0 / std::sqrt(static_cast<double>(kda.head_dim))), f64(config.rms_norm_eps));
  states[0] = op.getStateOut();
  states[1] = op.getQConvStateOut();
  states[2] = op.getKConvStateOut();
  states[3] = op.getVConvStateOut();
  return op.getY();
}

Value FunctionImporter::createMla(Value x, Value seq, MutableArrayRef<Value> states) {
  const auto &mla = config.mla;
  auto weight = [&](StringRef name) { return addWeight(("self_attn." + name).str()); };
  Value q, qA, qANorm, qB;
  if (mla.q_lora_rank) {
    qA = weight("q_a_proj.weight");
    qANorm = weight("q_a_layernorm.weight");
    qB = weight("q_b_proj.weight");
  } else {
    q = weight("q_proj.weight");
  }
  Value kvA = weight("kv_a_proj_with_mqa.weight"), kvANorm = weight("kv_a_layernorm.weight");
  Value kvB = weight("kv_b_proj.weight");
  // KDA layers use the same key for a gate of another meaning.
  Value g = mla.mla_use_output_gate ? weight("g_proj.weight") : Value();
  Value oProj = weight("o_proj.weight");
  auto op = MlaAttentionOp::create(
      builder, loc, x, seq, states[0], kvA, kvANorm, kvB, oProj, q, qA, qANorm, qB, g, i64(mla.num_attention_heads),
      i64(mla.qk_nope_head_dim), i64(mla.qk_rope_head_dim), i64(mla.v_head_dim),
      f64(1.0 / std::sqrt(static_cast<double>(mla.qkHeadDim()))), f64(config.latent_norm_eps));
  states[0] = op.getCacheOut();
  return op.getY();
}

Value FunctionImporter::createMlp(Value x) {
  Value gate = addWeight("mlp.gate_proj.weight"), up = addWeight("mlp.up_proj.weight");
  Value down = addWeight("mlp.down_proj.weight");
  return MlpOp::create(builder, loc, x, gate, up, down, ActivationAttr::get(&model.context, model.activation()),
                       situBeta(config.activation_situ_beta), situBeta(config.activation_situ_linear_beta));
}

Value FunctionImporter::createMoe(Value x) {
  const auto &moe = config.moe;
  auto weight = [&](const Twine &name) { return addWeight(("block_sparse_moe." + name).str()); };
  Value router = weight("gate.weight"), bias = weight("gate.e_score_correction_bias");
  Value down = weight("routed_expert_down_proj.weight"), norm = weight("routed_expert_norm.weight");
  Value up = weight("routed_expert_up_proj.weight");
  bool packed = config.quantization.kind == ::k3::frontend::Quantization::mxfp4;
  auto expert = [&](StringRef name) {
    return weight("experts." + name + (packed ? ".weight_packed" : ".weight"));
  };
  auto expertScale = [&](StringRef name) { return weight("experts." + name + ".weight_scale"); };
  Value w1 = expert("w1"), w1Scale = expertScale("w1");
  Value w3 = expert("w3"), w3Scale = expertScale("w3");
  Value w2 = expert("w2"), w2Scale = expertScale("w2");
  Value sharedGate = weight("shared_experts.gate_proj.weight"), sharedUp = weight("shared_experts.up_proj.weight");
  Value sharedDown = weight("shared_experts.down_proj.weight");
  return LatentMoeBlockOp::create(
      builder, loc, x, router, bias, w1, w3, w2, w1Scale, w3Scale, w2Scale, down, norm, up, sharedGate, sharedUp,
      sharedDown, i64(moe.num_experts_per_token), builder.getBoolAttr(moe.moe_renormalize),
      f64(moe.routed_scaling_factor), ActivationAttr::get(&model.context, model.activation()),
      situBeta(config.activation_situ_beta), situBeta(config.activation_situ_linear_beta),
      norm ? f64(config.rms_norm_eps) : FloatAttr());
}

//===----------------------------------------------------------------------===//
// Whole functions
//===----------------------------------------------------------------------===//

void FunctionImporter::importEmbed() {
  Value stream = addStream();
  Value tokens = addInput("tokens", "T");
  at("embed_tokens");
  Value x = EmbedOp::create(builder, loc, tokens, addWeight("embed_tokens.weight"));
  finish(createAccumulate(x, createIndex(0), stream, /*init=*/true));
}

void FunctionImporter::importLayer(const LayerKind &kind) {
  Value stream = addStream();
  SmallVector<Value> states;
  if (kind.isKda) {
    const auto &kda = config.kda;
    states.push_back(addState(KdaStateType::get(&model.context, kda.num_heads, kda.head_dim, kda.head_dim,
                                                builder.getF32Type(), StateRow::value),
                              "kda"));
    auto conv = ConvStateType::get(&model.context, kda.projectionSize(), kda.short_conv_kernel_size - 1,
                                   model.convStateType);
    for (StringRef name : {"conv_q", "conv_k", "conv_v"})
      states.push_back(addState(conv, name));
  } else {
    states.push_back(addState(KvCacheType::get(&model.context, config.mla.kv_lora_rank, config.mla.qk_rope_head_dim,
                                               model.kvCacheType, model.options.pageTokens),
                              "kv"));
  }
  Value seq = addArgument(SeqType::get(&model.context), "seq", /*role=*/"");
  Value sources, slot, mlpSources;
  if (model.hasAttnRes()) {
    sources = addScalar("sources");
    slot = addScalar("slot");
    mlpSources = addScalar("mlp_sources");
  } else {
    slot = createIndex(0);
  }

  at("input_layernorm");
  Value x = createNorm(createSource(stream, sources, "self_attention_res"), "input_layernorm.weight");
  at("self_attn");
  Value y = kind.isKda ? createKda(x, seq, states) : createMla(x, seq, states);
  stream = createAccumulate(y, slot, stream, kind.pushesSnapshot);
  at("post_attention_layernorm");
  x = createNorm(createSource(stream, mlpSources, "mlp_res"), "post_attention_layernorm.weight");
  at(kind.isMoe ? "block_sparse_moe" : "mlp");
  stream = createAccumulate(kind.isMoe ? createMoe(x) : createMlp(x), slot, stream, /*init=*/false);

  SmallVector<Value> results = {stream};
  results.append(states);
  finish(results);
}

void FunctionImporter::importHead() {
  Value stream = addStream();
  Value logitRows = addInput("logit_rows", "R");
  at("norm");
  Value sources = model.hasAttnRes() ? createIndex(model.residualSlots()) : Value();
  Value x = createSource(stream, sources, "output_attn_res");
  Value norm = addWeight("norm.weight"), weight = addWeight("lm_head.weight");
  at("lm_head");
  Value logits = LmHeadOp::create(builder, loc, x, norm, weight, logitRows, f64(config.rms_norm_eps));
  finish(logits, builder.getDictionaryAttr({builder.getNamedAttr(kOutputAttr, builder.getStringAttr("logits")),
                                            builder.getNamedAttr(kDimsAttr, builder.getStrArrayAttr({"R"}))}));
}

OwningOpRef<ModuleOp> mlir::k3::importModel(MLIRContext &context, const ModelConfig &config, const ImportOptions &options) {
  context.loadDialect<K3Dialect, arith::ArithDialect, func::FuncDialect, tensor::TensorDialect>();
  return ModelImporter(context, config, options).run();
}
