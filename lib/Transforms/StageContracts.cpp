//===- StageContracts.cpp - what may exist after import .. chunk -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/StageContracts.h"
#include "lib/Transforms/ModelFunctions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::k3;

//===----------------------------------------------------------------------===//
// Tables of the module
//===----------------------------------------------------------------------===//

/// The entry of a dictionary, with a message that says where it was expected.
template <typename AttrTy>
static FailureOr<AttrTy> getEntry(ModuleOp module, DictionaryAttr dictionary, StringRef where, StringRef name,
                                  StringRef what) {
  Attribute found = dictionary.get(name);
  if (auto entry = dyn_cast_if_present<AttrTy>(found))
    return entry;
  InFlightDiagnostic diagnostic = module.emitOpError() << "expected " << what << " '" << name << "' in " << where;
  if (found)
    return diagnostic << ", got " << found;
  return diagnostic << ", got none";
}

LogicalResult k3::verifyModelTables(ModuleOp module) {
  auto model = module->getAttrOfType<DictionaryAttr>(kModelAttr);
  if (!model)
    return module.emitOpError() << "expected a dictionary '" << kModelAttr << "', got none";
  for (StringRef name : {"name", "model_type"})
    if (failed(getEntry<StringAttr>(module, model, kModelAttr, name, "a string")))
      return failure();
  for (StringRef name : {"vocab_size", "hidden_size", "num_hidden_layers", "residual_slots"})
    if (failed(getEntry<IntegerAttr>(module, model, kModelAttr, name, "an integer")))
      return failure();
  auto layers = module->getAttrOfType<ArrayAttr>(kLayersAttr);
  if (!layers)
    return module.emitOpError() << "expected an array '" << kLayersAttr << "', got none";
  int64_t numLayers = model.getAs<IntegerAttr>("num_hidden_layers").getInt();
  if (numLayers != static_cast<int64_t>(layers.size()))
    return module.emitOpError() << "expected " << numLayers << " entries in '" << kLayersAttr << "', got "
                                << layers.size();

  int64_t slots = model.getAs<IntegerAttr>("residual_slots").getInt();
  SmallVector<std::string> suffixes = {"embed", "head"};
  for (auto [index, entry] : llvm::enumerate(layers)) {
    std::string where = (kLayersAttr + "[" + Twine(index) + "]").str();
    auto layer = dyn_cast<DictionaryAttr>(entry);
    if (!layer)
      return module.emitOpError() << "expected a dictionary in " << where << ", got " << entry;
    FailureOr<StringAttr> kind = getEntry<StringAttr>(module, layer, where, "kind", "a string");
    if (failed(kind))
      return failure();
    for (auto [name, least, most] : {std::tuple("sources", 1, slots), std::tuple("slot", 0, slots - 1),
                                     std::tuple("mlp_sources", 1, slots)}) {
      FailureOr<IntegerAttr> value = getEntry<IntegerAttr>(module, layer, where, name, "an integer");
      if (failed(value))
        return failure();
      if (value->getInt() < least || value->getInt() > most)
        return module.emitOpError() << "expected " << least << " <= '" << name << "' <= " << most << " in " << where
                                    << ", got " << value->getInt();
    }
    std::string suffix = ("layer_" + kind->getValue()).str();
    if (!llvm::is_contained(suffixes, suffix))
      suffixes.push_back(suffix);
  }
  for (Phase phase : {Phase::prefill, Phase::decode})
    for (StringRef suffix : suffixes) {
      std::string name = (stringifyPhase(phase) + "_" + suffix).str();
      if (!module.lookupSymbol<func::FuncOp>(name))
        return module.emitOpError() << "expected a function '" << name << "', got none";
    }
  return success();
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// The one attribute that says what an argument is, or failure after a message.
static FailureOr<StringRef> getRole(func::FuncOp function, unsigned index) {
  StringRef found;
  for (StringRef role : {kWeightAttr, kStateAttr, kBufferAttr, kInputAttr, kOutputAttr, kScalarAttr}) {
    Attribute attr = function.getArgAttr(index, role);
    if (!attr)
      continue;
    if (!isa<StringAttr>(attr))
      return function.emitOpError() << "expected a string '" << role << "' of argument #" << index << ", got " << attr;
    if (!found.empty())
      return function.emitOpError() << "expected one role of argument #" << index << ", got '" << found << "' and '"
                                    << role << "'";
    found = role;
  }
  if (found.empty())
    return function.emitOpError() << "expected a role ('" << kWeightAttr << "', '" << kStateAttr << "', '"
                                  << kBufferAttr << "', '" << kInputAttr << "', '" << kOutputAttr << "' or '"
                                  << kScalarAttr << "') of argument #" << index << ", got none";
  return found;
}

/// `k3.dims` names every dynamic dimension.
static LogicalResult verifyDims(func::FuncOp function, Type type, ArrayAttr dims, const Twine &what) {
  auto shaped = dyn_cast<ShapedType>(type);
  int64_t dynamic = shaped && shaped.hasRank() ? shaped.getNumDynamicDims() : 0;
  int64_t named = dims ? dims.size() : 0;
  if (dynamic != named)
    return function.emitOpError() << "expected '" << kDimsAttr << "' of " << what << " to name " << dynamic
                                  << " dimensions of " << type << ", got " << named;
  if (!dims)
    return success();
  static constexpr StringLiteral known[] = {"T", "N", "N+1", "C", "R", "S", "P", "M"};
  for (Attribute dim : dims)
    if (auto name = dyn_cast<StringAttr>(dim); !name || !llvm::is_contained(known, name.getValue()))
      return function.emitOpError() << "expected '" << kDimsAttr << "' of " << what
                                    << " to be T, N, N+1, C, R, S, P or M, got " << dim;
  return success();
}

static LogicalResult verifyFunction(func::FuncOp function, Stage stage) {
  Phase phase = *getPhase(function);
  StringRef name = function.getName(), suffix = name;
  if (!suffix.consume_front(stringifyPhase(phase)) || !suffix.consume_front("_") ||
      !(suffix == "embed" || suffix == "head" || suffix.starts_with("layer_")))
    return function.emitOpError() << "expected a name '" << stringifyPhase(phase) << "_' and 'embed', 'layer_KIND' or "
                                  << "'head', got '" << name << "'";
  if (function.isExternal())
    return function.emitOpError("expected a body, got a declaration");

  SmallVector<Type> expected;
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes())) {
    if (isa<SeqType>(type) && stage <= Stage::Model)
      continue;
    FailureOr<StringRef> role = getRole(function, index);
    if (failed(role) ||
        failed(verifyDims(function, type, function.getArgAttrOfType<ArrayAttr>(index, kDimsAttr),
                          "argument #" + Twine(index))))
      return failure();
    if (*role == kScalarAttr && !type.isIndex())
      return function.emitOpError() << "expected a '" << kScalarAttr << "' of type index, got argument #" << index
                                    << " of type " << type;
    if (function.getArgAttr(index, kExpertGroupAttr) && *role != kWeightAttr)
      return function.emitOpError() << "expected '" << kExpertGroupAttr << "' on a weight, got argument #" << index
                                    << " with '" << *role << "'";
    if (*role == kStateAttr || (*role == kBufferAttr && suffix != "head"))
      expected.push_back(type);
  }
  if (suffix == "head")
    return success();
  if (!llvm::equal(expected, function.getResultTypes()))
    return function.emitOpError() << "expected to return its buffers and states, " << TypeRange(expected) << ", got "
                                  << function.getResultTypes();
  return success();
}

LogicalResult k3::verifyModelFunctions(ModuleOp module, Stage stage) {
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    if (getPhase(function) && failed(verifyFunction(function, stage)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

static bool isModelOp(Operation *op) {
  return isa<EmbedOp, LmHeadOp, MlpOp, KdaAttentionOp, MlaAttentionOp, LatentMoeBlockOp>(op);
}

static bool isShapeOp(Operation *op) {
  return isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::EmptyOp, tensor::DimOp, arith::ConstantOp>(op);
}

static InFlightDiagnostic emitUnexpected(Operation *op, Stage stage, StringRef want) {
  return op->emitOpError() << "expected " << want << " after stage " << getStageName(stage);
}

LogicalResult k3::verifyModelLevel(ModuleOp module, Stage stage) {
  WalkResult result = module.walk([&](Operation *op) -> WalkResult {
    if (op == module || isa<func::FuncOp, func::ReturnOp, RmsNormOp, AttnResMixOp, AttnResAccumulateOp>(op) ||
        isModelOp(op) || isShapeOp(op))
      return WalkResult::advance();
    return emitUnexpected(op, stage, "only model ops, norms, the residual stream and shapes");
  });
  return failure(result.wasInterrupted());
}

/// Null, or what this op should have become by the stage.
static StringRef getUnfused(Operation *op) {
  if (auto sum = dyn_cast<arith::AddFOp>(op); sum && isa<TensorType>(sum.getType()))
    return "sums folded into products";
  if (auto norm = dyn_cast<RmsNormOp>(op))
    if (auto mix = norm.getX().getDefiningOp<AttnResMixOp>(); mix && mix->hasOneUse())
      return "norms folded into the mix before them";
  if (auto accumulate = dyn_cast<AttnResAccumulateOp>(op))
    if (accumulate.getDelta().getDefiningOp<LinearOp>() || accumulate.getDelta().getDefiningOp<MoeCombineOp>())
      return "products written into the stream";
  if (auto unit = dyn_cast<GluOp>(op))
    if (auto merge = unit.getGate().getDefiningOp<tensor::CollapseShapeOp>();
        merge && merge.getSrc().getDefiningOp<MoeGroupedContractOp>())
      return "the gated unit of the experts inside their contraction";
  return {};
}

/// Null, or what this op should have become once the strategy of its phase is chosen.
static StringRef getUnchosen(Operation *op, std::optional<Phase> phase) {
  if (auto scan = dyn_cast<KdaScanOp>(op)) {
    bool chunkable = scan.getDelta() && scan.getG() && cast<ShapedType>(scan.getG().getType()).getRank() == 3;
    if (phase == Phase::decode)
      return scan.getFixedOrder() ? "" : "k3.kda.recurrent_step in decode";
    return chunkable ? "k3.kda.chunk_prepare and k3.kda.chunk_scan in prefill" : "";
  }
  if (isa<KdaChunkPrepareOp, KdaChunkScanOp>(op) && phase == Phase::decode)
    return "k3.kda.recurrent_step in decode";
  if (isa<KdaRecurrentStepOp, KdaDecodeStepOp>(op) && phase == Phase::prefill)
    return "k3.kda.chunk_prepare and k3.kda.chunk_scan in prefill";
  return {};
}

LogicalResult k3::verifyStructuredLevel(ModuleOp module, Stage stage) {
  auto isModelType = [](Type type) { return isa<KdaStateType, ConvStateType, KvCacheType, SeqType>(type); };
  WalkResult result = module.walk([&](Operation *op) -> WalkResult {
    if (op == module)
      return WalkResult::advance();
    if (auto function = dyn_cast<func::FuncOp>(op)) {
      for (Type type : function.getFunctionType().getInputs())
        if (isModelType(type))
          return emitUnexpected(op, stage, "only tensors and scalars") << ", got " << type;
      return WalkResult::advance();
    }
    bool isGlue = isShapeOp(op) || isa<func::ReturnOp, tensor::ExtractSliceOp, tensor::InsertSliceOp>(op) ||
                  isa_and_nonnull<arith::ArithDialect>(op->getDialect());
    if (isModelOp(op) || (!isGlue && !isa<StructuredOpInterface>(op)))
      return emitUnexpected(op, stage, "only structured ops, tensor shapes and slices, and arith");
    if (auto empty = dyn_cast<tensor::EmptyOp>(op); empty && !empty->hasOneUse())
      return emitUnexpected(op, stage, "a tensor.empty to be the destination of one op")
             << ", got " << std::distance(op->user_begin(), op->user_end()) << " uses";
    auto function = op->getParentOfType<func::FuncOp>();
    StringRef want;
    if (stage >= Stage::Fuse)
      want = getUnfused(op);
    if (want.empty() && stage == Stage::Chunk)
      want = getUnchosen(op, function ? getPhase(function) : std::nullopt);
    else if (want.empty() && isa<KdaChunkPrepareOp, KdaChunkScanOp, KdaRecurrentStepOp, KdaDecodeStepOp>(op))
      want = "k3.kda.scan unsplit";
    if (!want.empty())
      return emitUnexpected(op, stage, want);
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}
