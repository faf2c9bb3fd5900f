//===- ExpertProduct.cpp - products with stored matrices, of experts or not -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Tile/ExpertProduct.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

static bool isBf16(Value value) { return getElementTypeOrSelf(value.getType()).isBF16(); }

ExpertProduct::ExpertProduct(MoeGroupedContractOp op)
    : features(getStaticNamedDim(op, "n")), depth(getStaticNamedDim(op, "kx")), mxfp4(op.getScale() != nullptr),
      gated(op.getUpWeight() != nullptr), roundsInput(op.getBf16X() || isBf16(op.getX())), x(op.getX()),
      out(op.getOut()), offsets(op.getOffsets()), perm(op.getPerm()), weights{op.getWeight(), op.getUpWeight()},
      scales{op.getScale(), op.getUpScale()} {
  int64_t bounds = getStaticNamedDim(op, "E1");
  experts = ShapedType::isDynamic(bounds) ? -1 : bounds - 1;
  if (gated) {
    activation = *op.getActivation();
    beta = op.getBeta().convertToDouble();
    linearBeta = op.getLinearBeta().convertToDouble();
  }
}

ExpertProduct::ExpertProduct(MxContractOp op)
    : features(getStaticNamedDim(op, "n")), depth(getStaticNamedDim(op, "k")), mxfp4(true),
      accumulates(op.getAccumulate()), roundsInput(op.getBf16X() || isBf16(op.getX())), x(op.getX()),
      out(op.getOut()), weights{op.getWeight(), Value()}, scales{op.getScale(), Value()} {}

ExpertProduct::ExpertProduct(MoeExpertMlpOp op, Value x, Value out)
    : mxfp4(op.getScale() != nullptr), roundsInput(op.getBf16X() || isBf16(x)), x(x), out(out),
      offsets(op.getOffsets()), perm(op.getPerm()) {
  int64_t bounds = getStaticNamedDim(op, "E1");
  experts = ShapedType::isDynamic(bounds) ? -1 : bounds - 1;
}

ExpertProduct ExpertProduct::gatedOf(MoeExpertMlpOp op) {
  ExpertProduct product(op, op.getX(), op.getInner());
  product.features = getStaticNamedDim(op, "n");
  product.depth = getStaticNamedDim(op, "kx");
  product.gated = true;
  product.activation = op.getActivation();
  product.beta = op.getBeta().convertToDouble();
  product.linearBeta = op.getLinearBeta().convertToDouble();
  product.weights[0] = op.getWeight();
  product.weights[1] = op.getUpWeight();
  product.scales[0] = op.getScale();
  product.scales[1] = op.getUpScale();
  return product;
}

ExpertProduct ExpertProduct::downOf(MoeExpertMlpOp op) {
  ExpertProduct product(op, op.getInner(), op.getOut());
  product.features = getStaticNamedDim(op, "m");
  product.depth = getStaticNamedDim(op, "n");
  product.weights[0] = op.getDownWeight();
  product.scales[0] = op.getDownScale();
  product.inputIsConstant = false;
  return product;
}

ExpertProduct ExpertProduct::of(Operation *op) {
  if (auto contract = dyn_cast<MoeGroupedContractOp>(op))
    return ExpertProduct(contract);
  return ExpertProduct(cast<MxContractOp>(op));
}

bool ExpertProduct::hasPlainWeights() const {
  bool isPlain = llvm::all_of(ArrayRef<Value>{weights[0], weights[1], scales[0], scales[1]},
                              [](Value value) { return !value || isa<BlockArgument>(value); });
  return isPlain && (mxfp4 || isBf16(weights[0]));
}

Value ExpertProduct::countRows(const GpuBuilder &g) const {
  Value tokens = g.dim(x, 0);
  return perm ? g.mul(tokens, g.dim(perm, 1)) : tokens;
}

Value ExpertProduct::rowOf(const GpuBuilder &g, Value matrix, Value expert, Value row) const {
  if (!expert)
    return g.element(matrix, {row});
  if (!g.isExpertTable(matrix))
    return g.element(matrix, {expert, row});
  int64_t width = GpuBuilder::staticDim(matrix, 2);
  return g.advance(g.expert(matrix, expert), g.mul(g.toI64(row), width), g.elementType(matrix));
}

/// What is brought nearer at once.
static constexpr int64_t lineBytes = 128;

static void prefetchLine(const GpuBuilder &g, Value start, Value line) {
  g.ptx("prefetch.global.L2 [$0];", g.advance(start, g.mul(line, lineBytes), g.i8()));
}

void ExpertProduct::prefetchInputs(const GpuBuilder &g) const {
  Value line = g.toI64(g.add(g.mul(g.blockId(), g.threads()), g.threadId()));
  for (Value operand : {perm, x}) {
    if (!operand || !cast<MemRefType>(operand.getType()).getLayout().isIdentity())
      continue;
    int64_t rank = cast<MemRefType>(operand.getType()).getRank();
    Value count = g.toI64(g.dim(operand, 0));
    for (int64_t i = 1; i < rank; ++i)
      count = g.mul(count, g.toI64(g.dim(operand, i)));
    int64_t perLine = 8 * lineBytes / g.elementType(operand).getIntOrFloatBitWidth();
    SmallVector<Value> first(rank, g.i32(0));
    g.ifThen(g.lt(g.mul(line, perLine), count), [&] { prefetchLine(g, g.element(operand, first), line); });
  }
}

void ExpertProduct::prefetchTables(const GpuBuilder &g) const {
  if (experts <= 0)
    return;
  for (Value matrix : {weights[0], weights[1], scales[0], scales[1]}) {
    if (!matrix || !g.isExpertTable(matrix))
      continue;
    int64_t lines = llvm::divideCeil(8 * experts, lineBytes);
    g.forThreads(lines, [&](Value line) { prefetchLine(g, g.expertTable(matrix), line); });
  }
}

Value ExpertProduct::weightRow(const GpuBuilder &g, int64_t matrix, Value expert, Value row) const {
  return rowOf(g, weights[matrix], expert, row);
}
Value ExpertProduct::scaleRow(const GpuBuilder &g, int64_t matrix, Value expert, Value row) const {
  return rowOf(g, scales[matrix], expert, row);
}

ExpertProduct::Place ExpertProduct::place(const GpuBuilder &g, Value row) const {
  if (!perm)
    return {{row}, {row}};
  int64_t choices = GpuBuilder::staticDim(perm, 1);
  Value count = ShapedType::isDynamic(choices) ? g.dim(perm, 1) : g.i32(choices);
  Value slot = g.load(perm, {g.div(row, count), g.rem(row, count)}, true);
  Value token = g.div(slot, count), choice = g.rem(slot, count);
  Place place{{token}, {token, choice}};
  if (cast<MemRefType>(x.getType()).getRank() == 3)
    place.input.push_back(choice);
  return place;
}

Value ExpertProduct::activate(const GpuBuilder &g, Value first, Value second) const {
  return gated ? g.glu(activation, beta, linearBeta, first, second) : first;
}
