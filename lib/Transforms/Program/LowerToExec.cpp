//===- LowerToExec.cpp - layer functions become programs -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/ModelAttrs.h"
#include "lib/Transforms/Program/DimTerms.h"
#include "lib/Transforms/Program/Dispatches.h"
#include "lib/Transforms/Program/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_LOWERTOEXEC
#include "lib/Transforms/Program/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

/// Logits of the largest step take at most this much, unless that is less than `fewestLogitRows`.
static constexpr int64_t logitBytes = int64_t(64) << 20, fewestLogitRows = 8, mostLogitRows = 512;

namespace {

struct Sizes {
  int64_t maxTokens, maxSequences, maxLogitRows;
  bool exactDecode;
};

/// Puts dispatches into groups: as early as their dependences allow.
class Grouping {
public:
  /// The group of a dispatch with these bindings; call in program order.
  unsigned add(ArrayRef<BindingAttr> bindings) {
    unsigned group = 0;
    for (BindingAttr binding : bindings) {
      const Access &access = accesses[{static_cast<unsigned>(binding.getKind()), binding.getName()}];
      group = std::max(group, access.afterWrites);
      if (binding.getWrites())
        group = std::max(group, access.afterReads);
    }
    for (BindingAttr binding : bindings) {
      Access &access = accesses[{static_cast<unsigned>(binding.getKind()), binding.getName()}];
      // A destination may also be read.
      access.afterReads = std::max(access.afterReads, group + 1);
      if (binding.getWrites())
        access.afterWrites = std::max(access.afterWrites, group + 1);
    }
    return group;
  }

private:
  /// The first group after all reads and writes so far.
  struct Access {
    unsigned afterReads = 0, afterWrites = 0;
  };
  DenseMap<std::pair<unsigned, StringAttr>, Access> accesses; ///< by kind and name
};

class ProgramLowering {
public:
  ProgramLowering(ModuleOp module, Phase phase, Sizes sizes)
      : module(module), phase(phase), sizes(sizes), b(module.getContext()), symbols(module) {}

  LogicalResult run(ArrayRef<StringAttr> kinds);

private:
  LogicalResult createProgram(Location loc);
  LogicalResult lowerFunction(func::FuncOp function, StringRef section, bool isLayer, SmallVector<Attribute> &weights,
                              SmallVector<Attribute> &states, Region &body);
  LogicalResult bindArgument(func::FuncOp function, BlockArgument argument, bool isLayer, DimTerms &terms,
                             SmallVector<Attribute> &weights, SmallVector<Attribute> &states);
  /// What `tensor` is bound to, without `writes`; makes a buffer for a new destination.
  FailureOr<BindingAttr> getBinding(func::CallOp call, Value tensor, DimTerms &terms, StringRef bufferName);
  LogicalResult lowerCall(func::CallOp call, DimTerms &terms, StringRef section, Grouping &grouping,
                          SmallVector<SmallVector<Operation *>> &groups);
  LogicalResult addScalars(func::CallOp call, DimTerms &terms, SmallVector<Attribute> &scalars);
  LogicalResult addGrid(func::CallOp call, func::FuncOp kernel, StructuredOpInterface root, DimTerms &terms,
                        SmallVector<Attribute> &grid);
  LogicalResult addBuffer(Operation *user, StringRef name, BufferRole role, Type elementType,
                          ArrayRef<Attribute> shape);
  LogicalResult getShape(Operation *user, Value tensor, DimTerms &terms, SmallVector<Attribute> &shape);
  std::string getUniqueBufferName(const Twine &name);
  func::FuncOp lookupKernel(func::CallOp call) { return symbols.lookup<func::FuncOp>(call.getCallee()); }

  ModuleOp module;
  Phase phase;
  Sizes sizes;
  OpBuilder b;
  SymbolTable symbols;
  ExecProgramOp program;
  llvm::StringMap<ExecBufferOp> buffers;
  DenseMap<Value, BindingAttr> bindings; ///< of arguments and new destinations of the function at hand
  DenseMap<Value, LayerScalarAttr> layerScalars;
};

struct LowerToExecPass : k3::impl::LowerToExecBase<LowerToExecPass> {
  using Base::Base;
  void runOnOperation() override;
};

} // namespace

//===----------------------------------------------------------------------===//
// Buffers and bindings
//===----------------------------------------------------------------------===//

std::string ProgramLowering::getUniqueBufferName(const Twine &name) {
  std::string base = name.str();
  if (!buffers.contains(base))
    return base;
  for (unsigned number = 2;; ++number)
    if (std::string numbered = base + "_" + std::to_string(number); !buffers.contains(numbered))
      return numbered;
}

LogicalResult ProgramLowering::addBuffer(Operation *user, StringRef name, BufferRole role, Type elementType,
                                         ArrayRef<Attribute> shape) {
  ArrayAttr shapeAttr = b.getArrayAttr(shape);
  if (auto it = buffers.find(name); it != buffers.end()) {
    ExecBufferOp known = it->second;
    if (known.getRole() == role && known.getElementType() == elementType && known.getShape() == shapeAttr)
      return success();
    return user->emitError() << "expected buffer '" << name << "' to be the same in all functions of the phase, got "
                             << shapeAttr << " of " << elementType << " after " << known.getShape() << " of "
                             << known.getElementType();
  }
  OpBuilder::InsertionGuard guard(b);
  // Before the first op that is not a buffer.
  Block &body = program.getBody().front();
  auto end = llvm::find_if(body, [](Operation &op) { return !isa<ExecBufferOp>(op); });
  b.setInsertionPoint(&body, end);
  buffers[name] = ExecBufferOp::create(b, user->getLoc(), name, role, elementType, shapeAttr,
                                       /*arena_offset=*/IntegerAttr(), /*arena_bytes=*/IntegerAttr());
  return success();
}

LogicalResult ProgramLowering::getShape(Operation *user, Value tensor, DimTerms &terms, SmallVector<Attribute> &shape) {
  for (int64_t dim = 0, rank = cast<RankedTensorType>(tensor.getType()).getRank(); dim < rank; ++dim) {
    TermAttr term = terms.getDim(tensor, dim);
    if (!term)
      return user->emitError() << "expected dimension " << dim << " of " << tensor.getType()
                               << " to follow from the step's sizes";
    shape.push_back(term);
  }
  return success();
}

LogicalResult ProgramLowering::bindArgument(func::FuncOp function, BlockArgument argument, bool isLayer,
                                            DimTerms &terms, SmallVector<Attribute> &weights,
                                            SmallVector<Attribute> &states) {
  if (argument.use_empty())
    return success();
  unsigned index = argument.getArgNumber();
  auto role = [&](StringRef name) { return function.getArgAttrOfType<StringAttr>(index, name); };
  auto bind = [&](BindingKind kind, StringAttr name) {
    bindings[argument] = BindingAttr::get(b.getContext(), kind, name, /*writes=*/false);
  };
  if (StringAttr name = role(kScalarAttr)) {
    layerScalars[argument] = LayerScalarAttr::get(b.getContext(), name);
    return success();
  }
  auto type = dyn_cast<RankedTensorType>(argument.getType());
  if (!type)
    return function.emitError() << "expected argument #" << index << " to be a tensor or a layer scalar";
  if (StringAttr name = role(kWeightAttr)) {
    if (!type.hasStaticShape())
      return function.emitError() << "expected weight " << name << " to have a static shape, got " << type;
    weights.push_back(WeightSlotAttr::get(b.getContext(), name, type,
                                          static_cast<bool>(function.getArgAttr(index, kExpertGroupAttr))));
    bind(isLayer ? BindingKind::layer_weight : BindingKind::weight, name);
    return success();
  }
  if (StringAttr name = role(kStateAttr)) {
    if (!isLayer)
      return function.emitError() << "expected no state outside of layers, got " << name;
    states.push_back(StateSlotAttr::get(b.getContext(), name, type));
    bind(BindingKind::layer_state, name);
    return success();
  }
  static constexpr std::pair<StringLiteral, BufferRole> roles[] = {
      {kInputAttr, BufferRole::input}, {kOutputAttr, BufferRole::output}, {kBufferAttr, BufferRole::persistent}};
  for (auto [attr, bufferRole] : roles) {
    StringAttr name = role(attr);
    if (!name)
      continue;
    SmallVector<Attribute> shape;
    if (failed(getShape(function, argument, terms, shape)) ||
        failed(addBuffer(function, name, bufferRole, type.getElementType(), shape)))
      return failure();
    bind(BindingKind::buffer, name);
    return success();
  }
  return function.emitError() << "expected argument #" << index << " to say what it is";
}

FailureOr<BindingAttr> ProgramLowering::getBinding(func::CallOp call, Value tensor, DimTerms &terms,
                                                   StringRef bufferName) {
  if (auto it = bindings.find(tensor); it != bindings.end())
    return it->second;
  // A new destination. Bindings hold the result of the call, not the tensor.empty, which other calls may share.
  std::string name = getUniqueBufferName(bufferName);
  SmallVector<Attribute> shape;
  if (failed(getShape(call, tensor, terms, shape)) ||
      failed(addBuffer(call, name, BufferRole::transient, cast<RankedTensorType>(tensor.getType()).getElementType(),
                       shape)))
    return failure();
  return BindingAttr::get(b.getContext(), BindingKind::buffer, b.getStringAttr(name), /*writes=*/false);
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

LogicalResult ProgramLowering::addScalars(func::CallOp call, DimTerms &terms, SmallVector<Attribute> &scalars) {
  for (Value operand : call.getOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    for (int64_t dim = 0; type && dim < type.getRank(); ++dim) {
      if (!type.isDynamicDim(dim))
        continue;
      TermAttr term = terms.getDim(operand, dim);
      if (!term)
        return call.emitOpError() << "expected dimension " << dim << " of " << type
                                  << " to follow from the step's sizes";
      scalars.push_back(term);
    }
  }
  for (Value operand : call.getOperands()) {
    if (!operand.getType().isIndex())
      continue;
    if (auto it = layerScalars.find(operand); it != layerScalars.end()) {
      scalars.push_back(it->second);
    } else if (TermAttr term = terms.getIndex(operand)) {
      scalars.push_back(term);
    } else {
      return call.emitOpError("expected index operands to be layer scalars or to follow from the step's sizes");
    }
  }
  return success();
}

LogicalResult ProgramLowering::addGrid(func::CallOp call, func::FuncOp kernel, StructuredOpInterface root,
                                       DimTerms &terms, SmallVector<Attribute> &grid) {
  SmallVector<StringRef> loops = getLoopNames(root);
  auto config = dyn_cast_or_null<KernelConfigAttr>(root->getAttr("kernel_config"));
  if (!config || config.getTiles().size() != loops.size())
    return root->emitOpError() << "expected a kernel_config with " << loops.size() << " tiles";

  DimTerms kernelTerms(b.getContext());
  for (auto [argument, operand] : llvm::zip_equal(kernel.getArguments(), call.getOperands()))
    if (auto type = dyn_cast<RankedTensorType>(argument.getType())) {
      SmallVector<TermAttr> dims;
      for (int64_t dim = 0; dim < type.getRank(); ++dim)
        dims.push_back(terms.getDim(operand, dim));
      kernelTerms.set(argument, dims);
    }
  auto addCount = [&](StringRef dim, int64_t tile) -> LogicalResult {
    TermAttr size;
    for (OpOperand &operand : root->getOpOperands()) {
      if (!isa<RankedTensorType>(operand.get().getType()))
        continue;
      for (auto [position, name] : llvm::enumerate(getDimNames(root, operand.getOperandNumber())))
        if (!size && name.name == dim && !name.atLeast)
          size = kernelTerms.getDim(operand.get(), position);
    }
    TermAttr count = !size       ? TermAttr()
                     : tile == 0 ? TermAttr::getConstant(b.getContext(), 1)
                                 : TermAttr::ceilDiv(size, tile);
    if (!count)
      return call.emitOpError() << "expected the dimension '" << dim << "' of " << call.getCallee()
                                << " to follow from the step's sizes";
    grid.push_back(count);
    return success();
  };
  if (config.getGrid().empty())
    for (auto [loop, tile] : llvm::zip_equal(loops, config.getTiles()))
      if (failed(addCount(loop, tile)))
        return failure();
  for (GridDimAttr dim : config.getGrid()) {
    if (dim.getName().empty())
      grid.push_back(TermAttr::getConstant(b.getContext(), dim.getTile()));
    else if (failed(addCount(dim.getName(), dim.getTile())))
      return failure();
  }
  return success();
}

/// "self_attn.q_proj.weight" -> "q_proj"; "A_log" stays.
static StringRef getShortName(StringRef key) {
  if (size_t at = key.rfind(".weight"); at != StringRef::npos)
    key = key.take_front(at);
  return key.substr(key.rfind('.') + 1);
}

LogicalResult ProgramLowering::lowerCall(func::CallOp call, DimTerms &terms, StringRef section, Grouping &grouping,
                                         SmallVector<SmallVector<Operation *>> &groups) {
  func::FuncOp kernel = lookupKernel(call);
  auto source = kernel->getAttrOfType<StringAttr>(kSourceOpAttr);
  std::string label = source ? source.getValue().split('.').second.str() : call.getCallee().str();
  std::string bufferName = label;
  FailureOr<StructuredOpInterface> root = getRootOp(kernel);
  if (failed(root))
    return failure();
  for (Value operand : call.getOperands())
    if (auto it = bindings.find(operand); it != bindings.end() && (it->second.getKind() == BindingKind::weight ||
                                                                   it->second.getKind() == BindingKind::layer_weight)) {
      label += " " + it->second.getName().str();
      // A product is called after its matrix, anything else after what it does.
      if (isa<LinearOp, MxContractOp, KdaShortConvOp, MoeGroupedContractOp>(root->getOperation()))
        bufferName = getShortName(it->second.getName());
      break;
    }

  SmallVector<Attribute> bound, grid, scalars;
  SmallVector<BindingAttr> typed;
  for (auto [index, operand] : llvm::enumerate(call.getOperands())) {
    if (operand.getType().isIndex())
      continue;
    FailureOr<BindingAttr> binding = getBinding(call, operand, terms, (section + "." + bufferName).str());
    if (failed(binding))
      return failure();
    bool writes = isDestination(call, index);
    typed.push_back(BindingAttr::get(b.getContext(), binding->getKind(), binding->getName(), writes));
    bound.push_back(typed.back());
    if (writes)
      bindings[call.getResult(index - (call.getNumOperands() - call.getNumResults()))] = *binding;
  }
  if (failed(addGrid(call, kernel, *root, terms, grid)) || failed(addScalars(call, terms, scalars)))
    return failure();
  unsigned group = grouping.add(typed);
  if (group >= groups.size())
    groups.resize(group + 1);
  OpBuilder detached(b.getContext());
  groups[group].push_back(ExecDispatchOp::create(detached, call.getLoc(), FlatSymbolRefAttr::get(kernel),
                                                 b.getArrayAttr(grid), b.getArrayAttr(bound), b.getArrayAttr(scalars),
                                                 b.getStringAttr(label)));
  return success();
}

//===----------------------------------------------------------------------===//
// Functions and programs
//===----------------------------------------------------------------------===//

LogicalResult ProgramLowering::lowerFunction(func::FuncOp function, StringRef section, bool isLayer,
                                             SmallVector<Attribute> &weights, SmallVector<Attribute> &states,
                                             Region &body) {
  DimTerms terms(b.getContext());
  if (failed(terms.setFromAttributes(function)))
    return failure();
  bindings.clear();
  layerScalars.clear();
  for (BlockArgument argument : function.getArguments())
    if (failed(bindArgument(function, argument, isLayer, terms, weights, states)))
      return failure();
  Grouping grouping;
  SmallVector<SmallVector<Operation *>> groups;
  LogicalResult result = success();
  for (auto call : function.getBody().front().getOps<func::CallOp>())
    if (failed(result = lowerCall(call, terms, section, grouping, groups)))
      break;
  OpBuilder groupBuilder = OpBuilder::atBlockEnd(&body.front());
  for (ArrayRef<Operation *> dispatches : groups) {
    auto group = ExecGroupOp::create(groupBuilder, function.getLoc());
    Block &block = group.getBody().emplaceBlock();
    for (Operation *dispatch : dispatches)
      block.push_back(dispatch);
  }
  return result;
}

/// KDA chunk length of the functions' kernels; 0 if there are no chunks.
static FailureOr<int64_t> findChunkRows(ArrayRef<func::FuncOp> functions, SymbolTable &symbols) {
  int64_t rows = 0;
  for (func::FuncOp function : functions)
    for (auto call : function.getBody().front().getOps<func::CallOp>()) {
      WalkResult result = symbols.lookup<func::FuncOp>(call.getCallee()).walk([&](KdaChunkPrepareOp prepare) {
        int64_t own = getStaticNamedDim(prepare, "L");
        if (own <= 0 || (rows != 0 && rows != own)) {
          prepare.emitOpError("expected one chunk length in all layers");
          return WalkResult::interrupt();
        }
        rows = own;
        return WalkResult::advance();
      });
      if (result.wasInterrupted())
        return failure();
    }
  return rows;
}

/// Rows of logits that fit; a model without logits has no limit.
static int64_t chooseLogitRows(ArrayRef<func::FuncOp> functions) {
  for (func::FuncOp function : functions)
    for (auto [index, argument] : llvm::enumerate(function.getArguments()))
      if (auto type = dyn_cast<RankedTensorType>(argument.getType());
          type && type.getRank() == 2 && !type.isDynamicDim(1) && function.getArgAttr(index, kOutputAttr)) {
        int64_t rowBytes = type.getDimSize(1) * (type.getElementTypeBitWidth() / 8);
        return std::clamp(logitBytes / std::max<int64_t>(rowBytes, 1), fewestLogitRows, mostLogitRows);
      }
  return mostLogitRows;
}

LogicalResult ProgramLowering::run(ArrayRef<StringAttr> kinds) {
  SmallVector<func::FuncOp> functions;
  for (func::FuncOp function : getPhaseFunctions(module))
    if (function->getAttrOfType<PhaseAttr>(kPhaseAttr).getValue() == phase)
      functions.push_back(function);
  if (functions.empty())
    return success();
  FailureOr<int64_t> chunkRows = findChunkRows(functions, symbols);
  if (failed(chunkRows))
    return failure();
  if (sizes.maxLogitRows == 0)
    sizes.maxLogitRows = chooseLogitRows(functions);
  // Decode has one row per sequence; every sequence of a step has at least one row.
  int64_t sequences = std::min(sizes.maxSequences, sizes.maxTokens);
  bool exact = phase == Phase::decode && sizes.exactDecode;
  int64_t tokens = phase == Phase::decode && !exact ? sequences : sizes.maxTokens;
  int64_t chunks = *chunkRows ? sequences + (tokens - sequences) / *chunkRows : 0;
  int64_t logitRows = std::min(sizes.maxLogitRows, tokens);

  b.setInsertionPointToEnd(module.getBody());
  StringRef phaseName = stringifyPhase(phase);
  program = ExecProgramOp::create(b, functions.front().getLoc(), b.getStringAttr(phaseName),
                                  PhaseAttr::get(b.getContext(), phase),
                                  b.getStrArrayAttr({"T", "N", "C", "R", "S", "P", "M"}),
                                  b.getDenseI64ArrayAttr({tokens, sequences, chunks, logitRows, 0, 0, 0}),
                                  b.getI64IntegerAttr(*chunkRows), /*arena_bytes=*/IntegerAttr(),
                                  exact ? b.getUnitAttr() : UnitAttr());
  program.getBody().emplaceBlock();

  SmallVector<Attribute> weights, states;
  auto lower = [&](const Twine &name, StringRef section, bool isLayer, Region &body) -> LogicalResult {
    weights.clear();
    states.clear();
    body.emplaceBlock();
    auto function = symbols.lookup<func::FuncOp>((phaseName + "_" + name).str());
    if (!function)
      return program.emitError() << "expected a function @" << phaseName << "_" << name;
    llvm::erase(functions, function);
    return lowerFunction(function, section, isLayer, weights, states, body);
  };
  b.setInsertionPointToEnd(&program.getBody().front());
  auto prologue = ExecPrologueOp::create(b, program.getLoc(), b.getArrayAttr({}));
  if (failed(lower("embed", "embed", /*isLayer=*/false, prologue.getBody())))
    return failure();
  prologue.setWeightsAttr(b.getArrayAttr(weights));
  for (StringAttr kind : kinds) {
    auto layer = ExecLayerKindOp::create(b, program.getLoc(), kind, b.getArrayAttr({}), b.getArrayAttr({}));
    if (failed(lower("layer_" + kind.getValue(), kind, /*isLayer=*/true, layer.getBody())))
      return failure();
    layer.setWeightsAttr(b.getArrayAttr(weights));
    layer.setStatesAttr(b.getArrayAttr(states));
  }
  auto epilogue = ExecEpilogueOp::create(b, program.getLoc(), b.getArrayAttr({}));
  if (failed(lower("head", "head", /*isLayer=*/false, epilogue.getBody())))
    return failure();
  epilogue.setWeightsAttr(b.getArrayAttr(weights));
  if (!functions.empty())
    return functions.front().emitError("belongs to no layer kind of k3.layers");
  return success();
}

/// Names of the layer kinds in the order of their first layer.
static FailureOr<SmallVector<StringAttr>> getLayerKinds(ModuleOp module) {
  auto layers = module->getAttrOfType<ArrayAttr>(kLayersAttr);
  if (!layers)
    return module.emitError() << "expected the module to have " << kLayersAttr, failure();
  SmallVector<StringAttr> kinds;
  for (Attribute layer : layers) {
    auto entry = dyn_cast<DictionaryAttr>(layer);
    auto kind = entry ? entry.getAs<StringAttr>("kind") : StringAttr();
    if (!kind)
      return module.emitError() << "expected entries of " << kLayersAttr << " to have a kind, got " << layer, failure();
    if (!llvm::is_contained(kinds, kind))
      kinds.push_back(kind);
  }
  return kinds;
}

void LowerToExecPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (maxTokens < 1 || maxSequences < 1 || maxLogitRows < 0) {
    module.emitError("expected max-tokens and max-sequences of at least 1 and max-logit-rows of at least 0");
    return signalPassFailure();
  }
  if (failed(verifyDispatches(module)))
    return signalPassFailure();
  if (getPhaseFunctions(module).empty())
    return; // Kernels alone.
  FailureOr<SmallVector<StringAttr>> kinds = getLayerKinds(module);
  if (failed(kinds))
    return signalPassFailure();
  for (Phase phase : {Phase::prefill, Phase::decode})
    if (failed(ProgramLowering(module, phase, {maxTokens, maxSequences, maxLogitRows, exact}).run(*kinds)))
      return signalPassFailure();
  for (func::FuncOp function : getPhaseFunctions(module))
    function.erase();
}
