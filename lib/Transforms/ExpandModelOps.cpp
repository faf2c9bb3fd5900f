//===- ExpandModelOps.cpp - model ops -> structured ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "lib/Transforms/ModelFunctions.h"
#include "lib/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_EXPANDMODELOPS
#include "lib/Transforms/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {

/// The index tensors behind a `!k3.seq`.
struct Sequences {
  Value cu, slots, lengths, pageTable;
};

/// Builds the structured ops of one model op. Activations are `[T, features]`, or `[T, heads, width]` between a split
/// and a merge of heads.
class Expander {
public:
  Expander(Operation *op, Value x) : b(op), loc(op->getLoc()), rows(getRows(b, loc, x)) {}

  SmallVector<Value> expand(EmbedOp op);
  SmallVector<Value> expand(LmHeadOp op);
  SmallVector<Value> expand(MlpOp op);
  SmallVector<Value> expand(KdaAttentionOp op);
  SmallVector<Value> expand(MlaAttentionOp op);
  SmallVector<Value> expand(LatentMoeBlockOp op);

private:
  OpFoldResult index(int64_t value) { return b.getIndexAttr(value); }
  static int64_t dimOf(Value value, int64_t dim) { return cast<RankedTensorType>(value.getType()).getDimSize(dim); }

  /// An f32 destination of `[T, sizes...]`.
  Value empty(ArrayRef<int64_t> sizes) { return empty(sizes, b.getF32Type()); }
  Value empty(ArrayRef<int64_t> sizes, Type element) {
    SmallVector<OpFoldResult> all = {rows};
    for (int64_t size : sizes)
      all.push_back(index(size));
    return createEmpty(b, NameLoc::get(b.getStringAttr("out"), loc), all, element);
  }

  /// The location of a part: named after its weight, or after the sublayer and what it does.
  Location at(Value weight) const;
  Location at(StringRef part) const;

  Sequences getSequences(Value seq);
  Value toPool(Value state) { return cast1(state, getPoolType(state.getType())); }
  Value toState(Value pool, Type stateType) { return cast1(pool, stateType); }
  Value cast1(Value value, Type type) { return UnrealizedConversionCastOp::create(b, loc, type, value).getResult(0); }

  Value linear(Value x, Value weight);
  Value norm(Value x, Value weight, FloatAttr eps);
  Value glu(Value gate, Value up, Value destination, ActivationAttr activation, FloatAttr beta, FloatAttr linearBeta);
  Value mlp(Value x, Value gate, Value up, Value down, ActivationAttr activation, FloatAttr beta, FloatAttr linearBeta);
  /// `[T, heads * width]` -> `[T, heads, width]`; without T for a vector or the rows of a matrix.
  Value splitHeads(Value x, int64_t heads);
  Value mergeHeads(Value x);
  /// `dim` of a weight becomes `[heads, size / heads]`.
  Value splitWeight(Value weight, int64_t heads);
  /// The short convolution of one projection; replaces `state` by the state after it.
  Value convolve(Value x, Value weight, const Sequences &sequences, Value &state);
  Value contractExperts(Value x, Value offsets, Value perm, Value weight, Value scale);

  OpBuilder b;
  Location loc;
  OpFoldResult rows;
};

struct ExpandModelOpsPass : k3::impl::ExpandModelOpsBase<ExpandModelOpsPass> {
  void runOnOperation() override;
};

} // namespace

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

Location Expander::at(Value weight) const {
  auto name = dyn_cast<NameLoc>(weight.getLoc());
  if (!name)
    return loc;
  StringRef part = name.getName().getValue();
  part.consume_back(".weight");
  part.consume_back(".weight_packed");
  return NameLoc::get(StringAttr::get(loc.getContext(), part), loc);
}

Location Expander::at(StringRef part) const {
  auto name = dyn_cast<NameLoc>(loc);
  if (!name)
    return loc;
  return NameLoc::get(StringAttr::get(loc.getContext(), name.getName().getValue() + "." + part), loc);
}

Sequences Expander::getSequences(Value seq) {
  SmallVector<Type> types;
  for (StringRef name : {"cu", "slots", "lengths", "page_table"})
    types.push_back(getStepInputType(b.getContext(), name));
  auto cast = UnrealizedConversionCastOp::create(b, loc, types, seq);
  return {cast.getResult(0), cast.getResult(1), cast.getResult(2), cast.getResult(3)};
}

Value Expander::linear(Value x, Value weight) {
  Value out = empty({dimOf(weight, 0)});
  return LinearOp::create(b, at(weight), out.getType(), x, weight, out, UnitAttr(), KernelConfigAttr(),
                          /*bf16_x=*/UnitAttr(), /*fixed_order=*/UnitAttr())
      .getResult(0);
}

Value Expander::norm(Value x, Value weight, FloatAttr eps) {
  Value out = empty({dimOf(weight, 0)});
  return RmsNormOp::create(b, at(weight), out.getType(), x, weight, out, eps, KernelConfigAttr()).getResult(0);
}

Value Expander::glu(Value gate, Value up, Value destination, ActivationAttr activation, FloatAttr beta,
                    FloatAttr linearBeta) {
  FloatAttr none = b.getF64FloatAttr(0.0);
  return GluOp::create(b, at("act"), destination.getType(), gate, up, destination, activation, beta ? beta : none,
                       linearBeta ? linearBeta : none, KernelConfigAttr())
      .getResult(0);
}

Value Expander::mlp(Value x, Value gate, Value up, Value down, ActivationAttr activation, FloatAttr beta,
                    FloatAttr linearBeta) {
  Value gated = linear(x, gate), raised = linear(x, up);
  return linear(glu(gated, raised, empty({dimOf(gate, 0)}), activation, beta, linearBeta), down);
}

Value Expander::splitHeads(Value x, int64_t heads) {
  auto type = cast<RankedTensorType>(x.getType());
  int64_t width = type.getDimSize(1) / heads;
  auto split = RankedTensorType::get({type.getDimSize(0), heads, width}, type.getElementType());
  SmallVector<ReassociationIndices> groups = {{0}, {1, 2}};
  SmallVector<OpFoldResult> shape = {rows, index(heads), index(width)};
  return tensor::ExpandShapeOp::create(b, loc, split, x, groups, shape);
}

Value Expander::mergeHeads(Value x) {
  SmallVector<ReassociationIndices> groups = {{0}, {1, 2}};
  return tensor::CollapseShapeOp::create(b, loc, x, groups);
}

Value Expander::splitWeight(Value weight, int64_t heads) {
  auto type = cast<RankedTensorType>(weight.getType());
  SmallVector<int64_t> shape = {heads, type.getDimSize(0) / heads};
  SmallVector<ReassociationIndices> groups = {{0, 1}};
  for (int64_t dim = 1; dim < type.getRank(); ++dim) {
    shape.push_back(type.getDimSize(dim));
    groups.push_back({dim + 1});
  }
  return tensor::ExpandShapeOp::create(b, loc, type.clone(shape), weight, groups);
}

Value Expander::convolve(Value x, Value weight, const Sequences &sequences, Value &state) {
  Value out = empty({dimOf(x, 1)});
  auto conv = KdaShortConvOp::create(b, at(weight), TypeRange{out.getType(), state.getType()}, x, weight, sequences.cu,
                                     sequences.slots, out, state, /*silu=*/b.getBoolAttr(true), KernelConfigAttr());
  state = conv.getResult(1);
  return conv.getResult(0);
}

Value Expander::contractExperts(Value x, Value offsets, Value perm, Value weight, Value scale) {
  Value out = empty({dimOf(perm, 1), dimOf(weight, 1)});
  FloatAttr none = b.getF64FloatAttr(0.0);
  return MoeGroupedContractOp::create(b, at(weight), out.getType(), x, offsets, perm, weight, scale,
                                      /*up_weight=*/Value(),
                                      /*up_scale=*/Value(), out, ActivationAttr(), none, none, KernelConfigAttr(),
                                      /*bf16_x=*/UnitAttr(), /*fixed_order=*/UnitAttr())
      .getResult(0);
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

SmallVector<Value> Expander::expand(EmbedOp op) {
  Value out = empty({dimOf(op.getTable(), 1)});
  return {
      GatherRowsOp::create(b, loc, out.getType(), op.getTokens(), op.getTable(), out, KernelConfigAttr()).getResult(0)};
}

SmallVector<Value> Expander::expand(LmHeadOp op) {
  Value x = op.getX();
  if (Value ids = op.getRows()) {
    rows = getRows(b, loc, ids);
    Value out = empty({dimOf(x, 1)});
    x = GatherRowsOp::create(b, loc, out.getType(), ids, x, out, KernelConfigAttr()).getResult(0);
  }
  return {linear(norm(x, op.getNorm(), op.getEpsAttr()), op.getWeight())};
}

SmallVector<Value> Expander::expand(MlpOp op) {
  return {mlp(op.getX(), op.getGateProj(), op.getUpProj(), op.getDownProj(), op.getActivationAttr(), op.getBetaAttr(),
              op.getLinearBetaAttr())};
}

SmallVector<Value> Expander::expand(KdaAttentionOp op) {
  Value x = op.getX();
  int64_t heads = op.getHeads(), keyDim = op.getKeyDim(), valueDim = op.getValueDim();
  Sequences sequences = getSequences(op.getSeq());
  Value qState = toPool(op.getQConvState()), kState = toPool(op.getKConvState()), vState = toPool(op.getVConvState());
  Value state = toPool(op.getState());

  Value q = splitHeads(convolve(linear(x, op.getQProj()), op.getQConv1d(), sequences, qState), heads);
  Value k = splitHeads(convolve(linear(x, op.getKProj()), op.getKConv1d(), sequences, kState), heads);
  Value v = splitHeads(convolve(linear(x, op.getVProj()), op.getVConv1d(), sequences, vState), heads);
  Value beta = linear(x, op.getBProj());

  // A projection of full rank, or two of low rank one after the other.
  auto project = [&](Value full, Value down, Value up) {
    return splitHeads(full ? linear(x, full) : linear(linear(x, down), up), heads);
  };
  Value z = project(op.getFProj(), op.getFAProj(), op.getFBProj());
  Value dtBias = splitWeight(op.getDtBias(), heads);
  Value g = empty({heads, keyDim});
  g = KdaGateOp::create(b, at("decay"), g.getType(), z, dtBias, op.getALog(), g, op.getGateAttr(),
                        op.getLowerBoundAttr(), KernelConfigAttr())
          .getResult(0);

  Value out = empty({heads, valueDim});
  auto scan =
      KdaScanOp::create(b, at("scan"), TypeRange{out.getType(), state.getType()}, q, k, v, beta, sequences.cu,
                        sequences.slots, g, out, state, op.getScaleAttr(), /*l2norm=*/b.getBoolAttr(true),
                        /*delta=*/b.getBoolAttr(true), /*gate_bound=*/op.getLowerBoundAttr(), KernelConfigAttr(),
                        /*fixed_order=*/UnitAttr());

  Value gate = project(op.getGProj(), op.getGAProj(), op.getGBProj());
  Value normed = empty({heads, valueDim});
  normed = KdaGatedNormOp::create(b, at(op.getONorm()), normed.getType(), scan.getResult(0), gate,
                                  op.getONorm(), normed, op.getEpsAttr(), KernelConfigAttr())
               .getResult(0);
  Value y = linear(mergeHeads(normed), op.getOProj());
  return {y, toState(qState, op.getQConvState().getType()), toState(kState, op.getKConvState().getType()),
          toState(vState, op.getVConvState().getType()), toState(scan.getResult(1), op.getState().getType())};
}

SmallVector<Value> Expander::expand(MlaAttentionOp op) {
  Value x = op.getX();
  int64_t heads = op.getHeads(), latent = dimOf(op.getKvBProj(), 1);
  Sequences sequences = getSequences(op.getSeq());
  Value cache = toPool(op.getCache());

  Value q = op.getQProj()
                ? linear(x, op.getQProj())
                : linear(norm(linear(x, op.getQAProj()), op.getQALayernorm(), op.getLatentEpsAttr()), op.getQBProj());
  Value kv = linear(x, op.getKvAProj());
  cache = MlaAppendOp::create(b, at("cache"), cache.getType(), kv, op.getKvALayernorm(), sequences.cu,
                              sequences.lengths, sequences.pageTable, cache, op.getLatentEpsAttr(), KernelConfigAttr())
              .getResult(0);

  Value kvB = splitWeight(op.getKvBProj(), heads);
  IntegerAttr nope = op.getNopeDimAttr();
  Value queries = empty({heads, latent + static_cast<int64_t>(op.getRopeDim())});
  queries = MlaAbsorbOp::create(b, at("absorb"), queries.getType(), splitHeads(q, heads), kvB, queries, nope,
                                KernelConfigAttr())
                .getResult(0);
  Value attended = empty({heads, latent});
  attended = MlaAttendOp::create(b, at("attend"), attended.getType(), queries, cache, sequences.cu, sequences.lengths,
                                 sequences.pageTable, attended, op.getScaleAttr(), KernelConfigAttr(),
                                 /*bf16_x=*/UnitAttr())
                 .getResult(0);
  Value out = empty({heads, static_cast<int64_t>(op.getValueDim())});
  out = MlaExpandOp::create(b, at("expand"), out.getType(), attended, kvB, out, nope, KernelConfigAttr()).getResult(0);

  Value y = mergeHeads(out);
  if (op.getGProj()) {
    Value gate = linear(x, op.getGProj()), gated = empty({dimOf(y, 1)});
    y = SigmoidGateOp::create(b, at("gated"), gated.getType(), y, gate, gated, KernelConfigAttr()).getResult(0);
  }
  return {linear(y, op.getOProj()), toState(cache, op.getCache().getType())};
}

SmallVector<Value> Expander::expand(LatentMoeBlockOp op) {
  Value x = op.getX();
  int64_t experts = dimOf(op.getRouter(), 0), topK = op.getTopK();
  Value logits = linear(x, op.getRouter());
  Value ids = empty({topK}, b.getI32Type()), weights = empty({topK});
  auto route = MoeRouteOp::create(b, at("route"), TypeRange{ids.getType(), weights.getType()}, logits, op.getBias(),
                                  ids, weights, op.getRenormalizeAttr(), op.getScaleAttr(), KernelConfigAttr());
  Value offsets = createEmpty(b, NameLoc::get(b.getStringAttr("out"), loc), {index(experts + 1)}, b.getI32Type());
  Value perm = empty({topK}, b.getI32Type());
  auto plan = MoePlanOp::create(b, at("plan"), TypeRange{offsets.getType(), perm.getType()}, route.getResult(0),
                                /*progress=*/Value(), offsets, perm, KernelConfigAttr());
  offsets = plan.getResult(0);
  perm = plan.getResult(1);

  Value z = op.getLatentDown() ? linear(x, op.getLatentDown()) : x;
  Value gate = contractExperts(z, offsets, perm, op.getW1(), op.getW1Scale());
  Value up = contractExperts(z, offsets, perm, op.getW3(), op.getW3Scale());
  // The unit works on rows: one per routed slot.
  SmallVector<ReassociationIndices> slots = {{0, 1}, {2}};
  int64_t width = dimOf(gate, 2);
  auto merge = [&](Value value) { return tensor::CollapseShapeOp::create(b, loc, value, slots); };
  Value unit = glu(merge(gate), merge(up), merge(empty({topK, width})), op.getActivationAttr(), op.getBetaAttr(),
                   op.getLinearBetaAttr());
  SmallVector<OpFoldResult> shape = {rows, index(topK), index(width)};
  unit = tensor::ExpandShapeOp::create(b, loc, gate.getType(), unit, slots, shape);
  Value outputs = contractExperts(unit, offsets, perm, op.getW2(), op.getW2Scale());

  Value routed = empty({dimOf(outputs, 2)});
  routed = MoeCombineOp::create(b, at("combine"), routed.getType(), outputs, route.getResult(1), routed, UnitAttr(),
                                KernelConfigAttr())
               .getResult(0);
  if (op.getLatentNorm())
    routed = norm(routed, op.getLatentNorm(), op.getEpsAttr());
  if (op.getLatentUp())
    routed = linear(routed, op.getLatentUp());
  if (!op.getSharedGate())
    return {routed};
  // The shared part first: it is ready first, and each part is added to the residual when it is.
  Value shared = mlp(x, op.getSharedGate(), op.getSharedUp(), op.getSharedDown(), op.getActivationAttr(),
                     op.getBetaAttr(), op.getLinearBetaAttr());
  return {arith::AddFOp::create(b, at("sum"), shared, routed)};
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

/// The op's activations, and whether it can be expanded.
template <typename OpTy> static FailureOr<Value> checkOp(OpTy op) {
  Value x = op->getOperand(0);
  if constexpr (!std::is_same_v<OpTy, EmbedOp>) {
    auto type = cast<RankedTensorType>(x.getType());
    if (!type.getElementType().isF32())
      return op.emitOpError() << "expected f32 activations, got " << type;
    if (type.isDynamicDim(1))
      return op.emitOpError() << "expected a static number of features, got " << type;
  }
  if constexpr (std::is_same_v<OpTy, KdaAttentionOp>)
    if (auto type = cast<KdaStateType>(op.getState().getType()); type.getRow() != StateRow::value)
      return op.emitOpError() << "expected a state with row = value, got " << type;
  for (Value weight : op->getOperands().drop_front())
    if (auto type = dyn_cast<RankedTensorType>(weight.getType()))
      if (!type.getElementType().isInteger(32) && !type.hasStaticShape())
        return op.emitOpError() << "expected weights of static shape, got " << type;
  return x;
}

void ExpandModelOpsPass::runOnOperation() {
  auto expandOp = [](auto op) -> WalkResult {
    FailureOr<Value> x = checkOp(op);
    if (failed(x))
      return WalkResult::interrupt();
    op->replaceAllUsesWith(Expander(op, *x).expand(op));
    op->erase();
    return WalkResult::advance();
  };
  WalkResult result = getOperation().walk([&](Operation *op) {
    return TypeSwitch<Operation *, WalkResult>(op)
        .Case<EmbedOp, LmHeadOp, MlpOp, KdaAttentionOp, MlaAttentionOp, LatentMoeBlockOp>(expandOp)
        .Default([](Operation *) { return WalkResult::advance(); });
  });
  if (result.wasInterrupted())
    signalPassFailure();
}
