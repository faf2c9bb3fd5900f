//===- StageInterpreter.cpp - runs structured IR on the fp64 reference ----===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "StageInterpreter.h"
#include "frontend/Checkpoint.h"
#include "frontend/import/ImportModel.h"
#include "lib/Pipelines/Stages.h"
#include "lib/Reference/AttnRes.h"
#include "lib/Reference/Common.h"
#include "lib/Reference/Kda.h"
#include "lib/Reference/LatentMoe.h"
#include "lib/Reference/Mla.h"
#include "lib/Reference/MxFp4.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/ErrorHandling.h"

#include <numeric>

using namespace mlir;
using namespace mlir::k3;
using namespace mlir::k3::test;
using ::k3::ref::IntView;
using ::k3::ref::View;
using Ints = std::vector<int32_t>;

static int64_t count(ArrayRef<int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>());
}

static Array makeFloats(std::vector<int64_t> shape, Vec values) {
  ::k3::ref::require(count(shape) == static_cast<int64_t>(values.size()), "shape and elements agree");
  Array array;
  array.shape = std::move(shape);
  array.floats = std::make_shared<const Vec>(std::move(values));
  return array;
}

static Array makeInts(std::vector<int64_t> shape, Ints values) {
  ::k3::ref::require(count(shape) == static_cast<int64_t>(values.size()), "shape and elements agree");
  Array array;
  array.shape = std::move(shape);
  array.ints = std::make_shared<const Ints>(std::move(values));
  return array;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

namespace {

/// One call of a function.
class Frame {
public:
  void set(Value value, Array array) { values[value] = std::move(array); }
  const Array &get(Value value) const {
    auto it = values.find(value);
    ::k3::ref::require(it != values.end(), "every operand has a value");
    return it->second;
  }
  void run(Operation *op);

private:
  View floats(Value value) const { return value ? View(*get(value).floats) : View(); }
  IntView ints(Value value) const { return IntView(*get(value).ints); }
  int64_t dim(Value value, unsigned i) const { return get(value).shape[i]; }
  std::vector<int64_t> sizes(ArrayRef<OpFoldResult> mixed) const;
  void setFloats(Operation *op, unsigned result, Vec elements);
  /// For destinations that were read or written by a product: adds what was there.
  void setProduct(Operation *op, Value destination, bool accumulate, Vec product);

  void runShape(Operation *op);
  void runCommon(Operation *op);
  void runKda(Operation *op);
  void runMla(Operation *op);
  void runMoe(Operation *op);
  void runGroupedContract(MoeGroupedContractOp op);
  /// The E matrices of an expert weight.
  std::vector<Vec> getExperts(Value weight, Value scale, Index in) const;
  template <typename OpTy> Vec runScan(OpTy op, IntView cu, Vec &state);

  llvm::DenseMap<Value, Array> values;
};

} // namespace

std::vector<int64_t> Frame::sizes(ArrayRef<OpFoldResult> mixed) const {
  std::vector<int64_t> all;
  for (OpFoldResult size : mixed) {
    if (auto value = dyn_cast<Value>(size))
      all.push_back(get(value).index);
    else
      all.push_back(cast<IntegerAttr>(cast<Attribute>(size)).getInt());
  }
  return all;
}

void Frame::setFloats(Operation *op, unsigned result, Vec elements) {
  Value init = cast<DestinationStyleOpInterface>(op).getDpsInitOperand(result)->get();
  set(op->getResult(result), makeFloats(get(init).shape, std::move(elements)));
}

void Frame::setProduct(Operation *op, Value destination, bool accumulate, Vec product) {
  setFloats(op, 0, accumulate ? ::k3::ref::add(product, floats(destination)) : std::move(product));
}

void Frame::run(Operation *op) {
  StringRef dialect = op->getDialect()->getNamespace(), name = op->getName().stripDialect();
  if (dialect == "tensor" || dialect == "arith")
    return runShape(op);
  if (name.starts_with("kda."))
    return runKda(op);
  if (name.starts_with("mla."))
    return runMla(op);
  if (name.starts_with("latent_moe."))
    return runMoe(op);
  runCommon(op);
}

void Frame::runShape(Operation *op) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](arith::ConstantOp constant) {
        Array array;
        array.index = cast<IntegerAttr>(constant.getValue()).getInt();
        set(constant, array);
      })
      .Case([&](arith::AddFOp sum) {
        set(sum, makeFloats(get(sum.getLhs()).shape, ::k3::ref::add(floats(sum.getLhs()), floats(sum.getRhs()))));
      })
      .Case([&](tensor::DimOp dimOp) {
        Array array;
        array.index = dim(dimOp.getSource(), *dimOp.getConstantIndex());
        set(dimOp, array);
      })
      .Case([&](tensor::EmptyOp empty) {
        std::vector<int64_t> shape = sizes(empty.getMixedSizes());
        int64_t size = count(shape);
        // Reading a destination that was never written must not look right.
        if (empty.getType().getElementType().isInteger(32))
          set(empty, makeInts(shape, Ints(size, -1)));
        else
          set(empty, makeFloats(shape, Vec(size, std::nan(""))));
      })
      .Case([&](tensor::ExpandShapeOp expand) {
        Array array = get(expand.getSrc());
        array.shape = sizes(expand.getMixedOutputShape());
        set(expand, array);
      })
      .Case([&](tensor::CollapseShapeOp collapse) {
        Array array = get(collapse.getSrc());
        std::vector<int64_t> shape;
        for (const ReassociationIndices &group : collapse.getReassociationIndices()) {
          int64_t size = 1;
          for (int64_t i : group)
            size *= array.shape[i];
          shape.push_back(size);
        }
        array.shape = shape;
        set(collapse, array);
      })
      .Case([&](tensor::ExtractSliceOp slice) {
        // Only slots of the stream: [slot, 0, 0] [1, T, hidden].
        std::vector<int64_t> offsets = sizes(slice.getMixedOffsets()), all = sizes(slice.getMixedSizes());
        int64_t size = all[1] * all[2];
        View stream = floats(slice.getSource());
        ::k3::ref::require(dim(slice.getSource(), 1) == all[1] && offsets[1] == 0, "a slice is a whole slot");
        set(slice, makeFloats({all[1], all[2]}, stream.slice(offsets[0] * size, size).toVec()));
      })
      .Case([&](tensor::InsertSliceOp slice) {
        std::vector<int64_t> offsets = sizes(slice.getMixedOffsets());
        Vec stream = floats(slice.getDest()).toVec();
        View slot = floats(slice.getSource());
        for (Index i = 0; i < slot.size(); ++i)
          stream[offsets[0] * slot.size() + i] = slot[i];
        set(slice, makeFloats(get(slice.getDest()).shape, std::move(stream)));
      })
      .Default([](Operation *unknown) {
        unknown->emitError("has no interpretation");
        llvm::report_fatal_error("interpreter");
      });
}

static ::k3::ref::Activation getActivation(Activation kind, const APFloat &beta, const APFloat &linearBeta) {
  return {kind == Activation::situ ? ::k3::ref::Activation::Situ : ::k3::ref::Activation::SwiGlu,
          beta.convertToDouble(), linearBeta.convertToDouble()};
}

void Frame::runCommon(Operation *op) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](GatherRowsOp gather) {
        setFloats(gather, 0, ::k3::ref::embed(floats(gather.getTable()), ints(gather.getIds()), dim(gather.getTable(), 1)));
      })
      .Case([&](LinearOp linear) {
        setProduct(linear, linear.getOut(), linear.getAccumulate(),
                   ::k3::ref::linear(floats(linear.getX()), floats(linear.getWeight()), dim(linear.getX(), 0),
                                     dim(linear.getX(), 1), dim(linear.getWeight(), 0)));
      })
      .Case([&](RmsNormOp norm) {
        setFloats(norm, 0,
                  ::k3::ref::rmsNorm(floats(norm.getX()), floats(norm.getWeight()), dim(norm.getX(), 0),
                                     dim(norm.getX(), 1), norm.getEps().convertToDouble()));
      })
      .Case([&](GluOp glu) {
        setFloats(glu, 0,
                  ::k3::ref::glu(floats(glu.getGate()), floats(glu.getUp()),
                                 getActivation(glu.getActivation(), glu.getBeta(), glu.getLinearBeta())));
      })
      .Case([&](SigmoidGateOp gate) {
        setFloats(gate, 0, ::k3::ref::sigmoidGate(floats(gate.getX()), floats(gate.getGate())));
      })
      .Case([&](AttnResMixOp mix) {
        Index tokens = dim(mix.getStream(), 1), width = dim(mix.getStream(), 2);
        Vec x = ::k3::ref::attnResMix(floats(mix.getStream()), get(mix.getSources()).index, floats(mix.getNormWeight()),
                                      floats(mix.getProjWeight()), mix.getEps().convertToDouble(), {tokens, width});
        if (mix.getOutWeight())
          x = ::k3::ref::rmsNorm(x, floats(mix.getOutWeight()), tokens, width, mix.getOutEps()->convertToDouble());
        setFloats(mix, 0, std::move(x));
      })
      .Case([&](AttnResAccumulateOp accumulate) {
        Vec stream = floats(accumulate.getStream()).toVec();
        ::k3::ref::attnResAccumulate(stream, get(accumulate.getSlot()).index, floats(accumulate.getDelta()),
                                     accumulate.getInit(), {dim(accumulate.getStream(), 1), dim(accumulate.getStream(), 2)});
        setFloats(accumulate, 0, std::move(stream));
      })
      .Default([](Operation *unknown) {
        unknown->emitError("has no interpretation");
        llvm::report_fatal_error("interpreter");
      });
}

template <typename OpTy> Vec Frame::runScan(OpTy op, IntView cu, Vec &state) {
  ::k3::ref::ScanOptions options;
  options.decay = !op.getG()                       ? ::k3::ref::Decay::None
                  : get(op.getG()).shape.size() == 2 ? ::k3::ref::Decay::PerHead
                                                     : ::k3::ref::Decay::PerChannel;
  options.deltaRule = op.getDelta();
  options.l2NormQK = op.getL2norm();
  options.scale = op.getScale().convertToDouble();
  return ::k3::ref::kdaScan(floats(op.getQ()), floats(op.getK()), floats(op.getV()), floats(op.getG()),
                            floats(op.getBeta()), cu, ints(op.getSlots()), state,
                            {dim(op.getQ(), 0), dim(op.getQ(), 1), dim(op.getQ(), 2), dim(op.getV(), 2)}, options);
}

/// The reference's table of what the runtime gives as `chunks` and `chunk_cu`.
static ::k3::ref::ChunkTable getTable(const Array &chunks, const Array *chunkCu, Index rows) {
  return {rows, *chunks.ints, chunkCu ? *chunkCu->ints : Ints()};
}

void Frame::runKda(Operation *op) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](KdaShortConvOp conv) {
        Vec state = floats(conv.getState()).toVec();
        setFloats(conv, 0,
                  ::k3::ref::shortConv(floats(conv.getX()), floats(conv.getWeight()), ints(conv.getCu()),
                                       ints(conv.getSlots()), state, dim(conv.getWeight(), 0),
                                       dim(conv.getWeight(), 1), conv.getSilu()));
        setFloats(conv, 1, std::move(state));
      })
      .Case([&](KdaGateOp gate) {
        bool bounded = gate.getKind() == GateKind::bounded_sigmoid;
        setFloats(gate, 0,
                  ::k3::ref::kdaGate(floats(gate.getZ()), floats(gate.getALog()), floats(gate.getDtBias()),
                                     bounded ? ::k3::ref::GateKind::BoundedSigmoid : ::k3::ref::GateKind::Softplus,
                                     bounded ? gate.getLowerBound()->convertToDouble() : 0, dim(gate.getZ(), 0),
                                     dim(gate.getZ(), 1), dim(gate.getZ(), 2)));
      })
      .Case([&](KdaScanOp scan) {
        Vec state = floats(scan.getState()).toVec();
        setFloats(scan, 0, runScan(scan, ints(scan.getCu()), state));
        setFloats(scan, 1, std::move(state));
      })
      .Case([&](KdaRecurrentStepOp step) {
        Ints cu(dim(step.getSlots(), 0) + 1);
        std::iota(cu.begin(), cu.end(), 0);
        Vec state = floats(step.getState()).toVec();
        setFloats(step, 0, runScan(step, cu, state));
        setFloats(step, 1, std::move(state));
      })
      .Case([&](KdaChunkPrepareOp prepare) {
        ::k3::ref::ScanOptions options;
        options.l2NormQK = prepare.getL2norm();
        options.scale = prepare.getScale().convertToDouble();
        Vec gates = floats(prepare.getG()).toVec();
        if (prepare.getGate()) {
          bool bounded = *prepare.getGate() == GateKind::bounded_sigmoid;
          gates = ::k3::ref::kdaGate(gates, floats(prepare.getALog()), floats(prepare.getDtBias()),
                                     bounded ? ::k3::ref::GateKind::BoundedSigmoid : ::k3::ref::GateKind::Softplus,
                                     bounded ? prepare.getLowerBound()->convertToDouble() : 0, dim(prepare.getG(), 0),
                                     dim(prepare.getG(), 1), dim(prepare.getG(), 2));
        }
        auto parts = ::k3::ref::kdaChunkPrepare(
            floats(prepare.getQ()), floats(prepare.getK()), floats(prepare.getV()), gates,
            floats(prepare.getBeta()), getTable(get(prepare.getChunks()), nullptr, dim(prepare.getQg(), 2)),
            {dim(prepare.getQ(), 0), dim(prepare.getQ(), 1), dim(prepare.getQ(), 2), dim(prepare.getV(), 2)}, options);
        setFloats(prepare, 0, std::move(parts.qg));
        setFloats(prepare, 1, std::move(parts.w));
        setFloats(prepare, 2, std::move(parts.u));
        setFloats(prepare, 3, std::move(parts.kd));
        setFloats(prepare, 4, std::move(parts.aqk));
        setFloats(prepare, 5, std::move(parts.gl));
      })
      .Case([&](KdaChunkScanOp scan) {
        ::k3::ref::ChunkParts parts = {*get(scan.getQg()).floats, *get(scan.getW()).floats,   *get(scan.getU()).floats,
                                       *get(scan.getKd()).floats, *get(scan.getAqk()).floats, *get(scan.getGl()).floats};
        Vec state = floats(scan.getState()).toVec();
        setFloats(scan, 0,
                  ::k3::ref::kdaChunkScan(
                      parts, getTable(get(scan.getChunks()), &get(scan.getChunkCu()), dim(scan.getQg(), 2)),
                      ints(scan.getSlots()), state,
                      {dim(scan.getOut(), 0), dim(scan.getOut(), 1), dim(scan.getQg(), 3), dim(scan.getOut(), 2)}));
        setFloats(scan, 1, std::move(state));
      })
      .Case([&](KdaGatedNormOp norm) {
        setFloats(norm, 0,
                  ::k3::ref::kdaGatedNorm(floats(norm.getX()), floats(norm.getGate()), floats(norm.getWeight()),
                                          dim(norm.getX(), 0) * dim(norm.getX(), 1), dim(norm.getX(), 2),
                                          norm.getEps().convertToDouble()));
      })
      .Default([](Operation *unknown) {
        unknown->emitError("has no interpretation");
        llvm::report_fatal_error("interpreter");
      });
}

void Frame::runMla(Operation *op) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](MlaAppendOp append) {
        Index latent = dim(append.getNormWeight(), 0);
        Vec cache = floats(append.getCache()).toVec();
        ::k3::ref::mlaAppend(floats(append.getKv()), floats(append.getNormWeight()), append.getEps().convertToDouble(),
                             {ints(append.getCu()), ints(append.getLengths()), ints(append.getPageTable())}, cache,
                             {dim(append.getKv(), 0), 0, latent, dim(append.getKv(), 1) - latent, 0, 0,
                              dim(append.getCache(), 1)});
        setFloats(append, 0, std::move(cache));
      })
      .Case([&](MlaAbsorbOp absorb) {
        Index nope = absorb.getNope();
        setFloats(absorb, 0,
                  ::k3::ref::mlaAbsorb(floats(absorb.getQ()), floats(absorb.getKvB()),
                                       {dim(absorb.getQ(), 0), dim(absorb.getQ(), 1), dim(absorb.getKvB(), 2),
                                        dim(absorb.getQ(), 2) - nope, nope, dim(absorb.getKvB(), 1) - nope, 0}));
      })
      .Case([&](MlaAttendOp attend) {
        Index latent = dim(attend.getOut(), 2);
        setFloats(attend, 0,
                  ::k3::ref::mlaAttend(floats(attend.getQ()), floats(attend.getCache()),
                                       attend.getScale().convertToDouble(),
                                       {ints(attend.getCu()), ints(attend.getLengths()), ints(attend.getPageTable())},
                                       {dim(attend.getQ(), 0), dim(attend.getQ(), 1), latent,
                                        dim(attend.getQ(), 2) - latent, 0, 0, dim(attend.getCache(), 1)}));
      })
      .Case([&](MlaAttendPartialOp attend) {
        Index latent = dim(attend.getOut(), 2);
        ::k3::ref::AttendParts parts = ::k3::ref::mlaAttendPartial(
            floats(attend.getQ()), floats(attend.getCache()), attend.getScale().convertToDouble(),
            ints(attend.getLengths()), ints(attend.getPageTable()), attend.getTile(), dim(attend.getParts(), 0),
            {dim(attend.getQ(), 0), dim(attend.getQ(), 1), latent, dim(attend.getQ(), 2) - latent, 0, 0,
             dim(attend.getCache(), 1)});
        setFloats(attend, 0, parts.out);
        setFloats(attend, 1, parts.parts);
        setFloats(attend, 2, parts.states);
      })
      .Case([&](MlaAttendMergeOp merge) {
        Vec out = floats(merge.getOut()).toVec();
        ::k3::ref::mlaAttendMerge(floats(merge.getParts()), floats(merge.getStates()), ints(merge.getLengths()),
                                  merge.getTile(), dim(merge.getParts(), 0), out,
                                  {dim(merge.getOut(), 0), dim(merge.getOut(), 1), dim(merge.getOut(), 2), 0, 0, 0, 0});
        setFloats(merge, 0, out);
      })
      .Case([&](MlaExpandOp expand) {
        Index nope = expand.getNope();
        setFloats(expand, 0,
                  ::k3::ref::mlaExpand(floats(expand.getX()), floats(expand.getKvB()),
                                       {dim(expand.getX(), 0), dim(expand.getX(), 1), dim(expand.getKvB(), 2), 0, nope,
                                        dim(expand.getKvB(), 1) - nope, 0}));
      })
      .Default([](Operation *unknown) {
        unknown->emitError("has no interpretation");
        llvm::report_fatal_error("interpreter");
      });
}

std::vector<Vec> Frame::getExperts(Value weight, Value scale, Index in) const {
  const Array &array = get(weight);
  Index experts = array.shape[0], out = array.shape[1];
  std::vector<Vec> matrices;
  for (Index e = 0; e < experts; ++e) {
    if (scale)
      matrices.push_back(::k3::ref::dequantMxFp4(array.bytes->data() + e * out * in / 2,
                                                 get(scale).bytes->data() + e * out * dim(scale, 2), out, in));
    else
      matrices.push_back(View(*array.floats).slice(e * out * in, out * in).toVec());
  }
  return matrices;
}

void Frame::runGroupedContract(MoeGroupedContractOp op) {
  ::k3::ref::MoePlan plan = {*get(op.getOffsets()).ints, *get(op.getPerm()).ints};
  Index in = get(op.getX()).shape.back(), topK = dim(op.getOut(), 1), out = dim(op.getOut(), 2);
  auto contract = [&](Value weight, Value scale) {
    std::vector<Vec> matrices = getExperts(weight, scale, in);
    return ::k3::ref::groupedContract(floats(op.getX()), plan, std::vector<View>(matrices.begin(), matrices.end()), topK,
                                      in, out);
  };
  Vec y = contract(op.getWeight(), op.getScale());
  if (op.getUpWeight())
    y = ::k3::ref::glu(y, contract(op.getUpWeight(), op.getUpScale()),
                       getActivation(*op.getActivation(), op.getBeta(), op.getLinearBeta()));
  setFloats(op, 0, std::move(y));
}

void Frame::runMoe(Operation *op) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](MoeRouteOp route) {
        auto routing = ::k3::ref::route(floats(route.getLogits()), floats(route.getBias()), dim(route.getLogits(), 0),
                                        {dim(route.getLogits(), 1), dim(route.getIds(), 1), route.getRenormalize(),
                                         route.getScale().convertToDouble()});
        set(route.getResult(0), makeInts(get(route.getIds()).shape, routing.ids));
        setFloats(route, 1, std::move(routing.weights));
      })
      .Case([&](MoePlanOp planOp) {
        auto plan = ::k3::ref::planExperts(ints(planOp.getIds()), dim(planOp.getOffsets(), 0) - 1);
        set(planOp.getResult(0), makeInts(get(planOp.getOffsets()).shape, plan.offsets));
        set(planOp.getResult(1), makeInts(get(planOp.getPerm()).shape, plan.perm));
      })
      .Case([&](MoeGroupedContractOp contract) { runGroupedContract(contract); })
      .Case([&](MoeCombineOp combine) {
        setProduct(combine, combine.getOut(), combine.getAccumulate(),
                   ::k3::ref::combine(floats(combine.getY()), floats(combine.getWeights()), dim(combine.getY(), 0),
                                      dim(combine.getY(), 1), dim(combine.getY(), 2)));
      })
      .Default([](Operation *unknown) {
        unknown->emitError("has no interpretation");
        llvm::report_fatal_error("interpreter");
      });
}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

std::unique_ptr<StageModel> StageModel::load(MLIRContext &context, const std::string &directory, Stage stage,
                                             std::string &error) {
  auto checkpoint = ::k3::frontend::Checkpoint::open(directory);
  if (!checkpoint.ok()) {
    error = checkpoint.message();
    return nullptr;
  }
  std::unique_ptr<StageModel> model(new StageModel(checkpoint->config()));
  for (const auto &file : checkpoint->files())
    if (error = ::k3::ref::readSafetensors(file.path, model->tensors); !error.empty())
      return nullptr;
  ImportOptions options;
  options.storedForm = [&](uint32_t index) { return checkpoint->form(index); };
  model->module = importModel(context, model->config, options);
  StageOptions stageOptions;
  stageOptions.chunkRows = chunkRows;
  PassManager manager(&context);
  for (Stage next : getAllStages())
    if (next <= stage)
      getStageBuilder(next)(manager, stageOptions);
  if (failed(manager.run(*model->module))) {
    error = "a stage failed";
    return nullptr;
  }
  return model;
}

Array StageModel::getWeight(StringRef key, int64_t layer) {
  auto [it, isNew] = weights.try_emplace({layer, key.str()});
  if (!isNew)
    return it->second;
  const auto *entry = plan.find(std::string_view(key.data(), key.size()), layer);
  ::k3::ref::require(entry, "the plan has every weight");
  std::vector<int64_t> shape;
  Vec floats;
  std::vector<uint8_t> bytes;
  for (int64_t expert = 0; expert < std::max<int64_t>(1, entry->numExperts); ++expert) {
    const ::k3::ref::Tensor &tensor = tensors.at(entry->name(layer, expert));
    shape = tensor.shape;
    if (tensor.dtype == "U8") {
      bytes.insert(bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
      continue;
    }
    std::vector<float> values = tensor.floats();
    floats.insert(floats.end(), values.begin(), values.end());
  }
  Array &array = it->second;
  if (entry->numExperts)
    shape.insert(shape.begin(), entry->numExperts);
  array.shape = shape;
  if (bytes.empty())
    array.floats = std::make_shared<const Vec>(std::move(floats));
  else
    array.bytes = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  return array;
}

Array StageModel::getInput(StringRef name, const Batch &batch) {
  int64_t tokens = batch.tokens.size(), sequences = batch.slots.size();
  auto table = ::k3::ref::chunkTable(batch.cu, chunkRows);
  if (name == "tokens")
    return makeInts({tokens}, batch.tokens);
  if (name == "cu")
    return makeInts({sequences + 1}, batch.cu);
  if (name == "slots")
    return makeInts({sequences}, batch.slots);
  if (name == "lengths")
    return makeInts({sequences}, batch.lengths);
  if (name == "chunks")
    return makeInts({table.count(), 2}, table.chunks);
  if (name == "chunk_cu")
    return makeInts({sequences + 1}, table.chunkCu);
  if (name == "page_table") {
    Ints pages;
    for (int32_t slot : batch.slots)
      for (int64_t page = 0; page < pagesPerSequence; ++page)
        pages.push_back(static_cast<int32_t>(slot * pagesPerSequence + page));
    return makeInts({sequences, pagesPerSequence}, pages);
  }
  ::k3::ref::require(name == "logit_rows", "a known input");
  Ints rows(tokens);
  std::iota(rows.begin(), rows.end(), 0);
  return makeInts({tokens}, rows);
}

const Array *StageModel::getState(int64_t layer, const std::string &name) const {
  auto it = states.find({layer, name});
  return it == states.end() ? nullptr : &it->second;
}

std::vector<Array> StageModel::call(StringRef name, int64_t layer, Array &stream, const Batch &batch) {
  auto function = module->lookupSymbol<func::FuncOp>(name);
  ::k3::ref::require(function, "the function exists");
  Frame frame;
  std::vector<std::string> stateNames;
  for (BlockArgument argument : function.getArguments()) {
    unsigned i = argument.getArgNumber();
    auto attr = [&](StringRef role) {
      auto value = function.getArgAttrOfType<StringAttr>(i, role);
      return value ? value.getValue() : StringRef();
    };
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (StringRef key = attr("k3.weight"); !key.empty()) {
      Array weight = getWeight(key, layer);
      // The stored shape may have unit dimensions that the importer leaves out.
      weight.shape.assign(type.getShape().begin(), type.getShape().end());
      frame.set(argument, weight);
    } else if (StringRef key = attr("k3.state"); !key.empty()) {
      auto [it, isNew] = states.try_emplace({layer, key.str()});
      if (isNew) {
        std::vector<int64_t> shape(type.getShape().begin(), type.getShape().end());
        shape[0] = key == "kv" ? slots * pagesPerSequence : slots;
        it->second = makeFloats(shape, Vec(count(shape)));
      }
      frame.set(argument, it->second);
      stateNames.push_back(key.str());
    } else if (!attr("k3.buffer").empty()) {
      frame.set(argument, stream);
    } else if (StringRef key = attr("k3.input"); !key.empty()) {
      frame.set(argument, getInput(key, batch));
    } else if (!attr("k3.output").empty()) {
      int64_t rows = batch.tokens.size();
      frame.set(argument, makeFloats({rows, config.vocab_size}, Vec(rows * config.vocab_size, std::nan(""))));
    } else {
      auto layers = (*module)->getAttrOfType<ArrayAttr>("k3.layers");
      Array scalar;
      scalar.index = cast<DictionaryAttr>(layers[layer]).getAs<IntegerAttr>(attr("k3.scalar")).getInt();
      frame.set(argument, scalar);
    }
  }
  Block &body = function.getBody().front();
  for (Operation &op : body.without_terminator())
    frame.run(&op);
  std::vector<Array> results;
  for (Value result : body.getTerminator()->getOperands())
    results.push_back(frame.get(result));
  for (auto [state, value] : llvm::zip(stateNames, llvm::drop_begin(results, results.size() - stateNames.size())))
    states[{layer, state}] = value;
  return results;
}

Vec StageModel::step(Phase phase, const Batch &batch) {
  std::string prefix = stringifyPhase(phase).str() + "_";
  int64_t rows = batch.tokens.size(), slotsOfStream = config.numSnapshots() + 1;
  std::vector<int64_t> shape = {slotsOfStream, rows, config.hidden_size};
  // What the arena holds before a step is not zero.
  Array stream = makeFloats(shape, Vec(count(shape), std::nan("")));
  stream = call(prefix + "embed", -1, stream, batch).front();
  auto layers = (*module)->getAttrOfType<ArrayAttr>("k3.layers");
  for (auto [layer, entry] : llvm::enumerate(layers)) {
    StringRef kind = cast<DictionaryAttr>(entry).getAs<StringAttr>("kind").getValue();
    stream = call(prefix + "layer_" + kind.str(), layer, stream, batch).front();
  }
  return *call(prefix + "head", -1, stream, batch).front().floats;
}
