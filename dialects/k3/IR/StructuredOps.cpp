//===- StructuredOps.cpp - what follows from a shape table -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/StructuredOps.h"
#include "dialects/k3/IR/K3Ops.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::k3;

/// The table's fields: loops first, then one per ODS operand.
static SmallVector<StringRef> splitTable(Operation *op) {
  SmallVector<StringRef> fields;
  cast<StructuredOpInterface>(op).getShapeTable().split(fields, '|');
  for (StringRef &field : fields)
    field = field.trim();
  return fields;
}

/// Index of the ODS operand that operand `operandNumber` belongs to. Operands are inputs, optional operands,
/// destinations; ODS keeps segment sizes only where more than one operand is optional.
static unsigned getOdsIndex(Operation *op, unsigned operandNumber) {
  if (auto segments = op->getInherentAttr("operandSegmentSizes"); segments && *segments) {
    unsigned seen = 0;
    for (auto [index, size] : llvm::enumerate(cast<DenseI32ArrayAttr>(*segments).asArrayRef())) {
      seen += size;
      if (operandNumber < seen)
        return index;
    }
    llvm_unreachable("operand outside every segment");
  }
  unsigned absent = splitTable(op).size() - 1 - op->getNumOperands();
  unsigned firstInit = cast<DestinationStyleOpInterface>(op).getDpsInitOperand(0)->getOperandNumber();
  return operandNumber < firstInit ? operandNumber : operandNumber + absent;
}

SmallVector<StringRef> k3::getLoopNames(Operation *op) {
  SmallVector<StringRef> loops;
  splitTable(op).front().split(loops, ' ', -1, /*KeepEmpty=*/false);
  return loops;
}

/// Names as written, without regard to the operand's rank.
static SmallVector<DimName> parseDims(StringRef field) {
  SmallVector<StringRef> words;
  if (field != "-")
    field.split(words, ' ', -1, /*KeepEmpty=*/false);
  SmallVector<DimName> names;
  for (StringRef word : words) {
    DimName name;
    name.optional = word.consume_back("?");
    name.atLeast = word.consume_back("+");
    name.name = word;
    names.push_back(name);
  }
  return names;
}

SmallVector<DimName> k3::getDimNames(Operation *op, unsigned operandNumber) {
  SmallVector<DimName> names = parseDims(splitTable(op)[1 + getOdsIndex(op, operandNumber)]);
  if (auto type = dyn_cast<ShapedType>(op->getOperand(operandNumber).getType()))
    for (size_t i = names.size(); i-- > 0 && type.getRank() < static_cast<int64_t>(names.size());)
      if (names[i].optional)
        names.erase(names.begin() + i);
  return names;
}

StringRef k3::getOperandName(Operation *op, unsigned operandNumber) {
  return cast<StructuredOpInterface>(op).getArgumentNames()[getOdsIndex(op, operandNumber)];
}

LogicalResult k3::verifyNamedDim(Operation *op, StringRef name, StringRef formula, int64_t want) {
  int64_t got = getStaticNamedDim(op, name);
  if (got == want || ShapedType::isDynamic(got) || want < 0)
    return success();
  return op->emitOpError() << "expected '" << name << "' = " << formula << " = " << want << ", got " << got;
}

LogicalResult k3::verifyEps(Operation *op, StringRef name, const APFloat &value) {
  if (!value.isNegative() && value.isFinite())
    return success();
  return op->emitOpError() << "expected finite '" << name << "' >= 0, got " << value.convertToDouble();
}

LogicalResult k3::verifyShapeTable(Operation *op) {
  auto dps = cast<DestinationStyleOpInterface>(op);
  bool anyTensor = false, anyMemref = false;
  struct Seen {
    int64_t size;
    unsigned operand;
  };
  llvm::StringMap<Seen> sizes;
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    auto type = dyn_cast<ShapedType>(operand.get().getType());
    if (!type)
      continue;
    anyTensor |= isa<TensorType>(type);
    anyMemref |= isa<MemRefType>(type);
    SmallVector<DimName> names = getDimNames(op, number);
    if (type.getRank() != static_cast<int64_t>(names.size()))
      return op->emitOpError() << "expected '" << getOperandName(op, number) << "' to be ["
                               << splitTable(op)[1 + getOdsIndex(op, number)] << "], got " << type;
    for (auto [dim, name] : llvm::enumerate(names)) {
      int64_t size = type.getDimSize(dim);
      if (ShapedType::isDynamic(size) || name.atLeast)
        continue;
      auto [it, inserted] = sizes.try_emplace(name.name, Seen{size, number});
      if (!inserted && it->second.size != size)
        return op->emitOpError() << "expected equal sizes of '" << name.name << "', got " << it->second.size << " in '"
                                 << getOperandName(op, it->second.operand) << "' and " << size << " in '"
                                 << getOperandName(op, number) << "'";
    }
  }
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = dyn_cast<ShapedType>(operand.get().getType());
    if (!type)
      continue;
    for (auto [dim, name] : llvm::enumerate(getDimNames(op, operand.getOperandNumber()))) {
      auto it = sizes.find(name.name);
      if (name.atLeast && it != sizes.end() && !type.isDynamicDim(dim) && type.getDimSize(dim) < it->second.size)
        return op->emitOpError() << "expected '" << name.name << "' >= " << it->second.size << " in '"
                                 << getOperandName(op, operand.getOperandNumber()) << "', got " << type.getDimSize(dim);
    }
  }
  if (anyTensor && anyMemref)
    return op->emitOpError("expected all operands to be tensors or all to be memrefs");
  unsigned expected = anyTensor ? dps.getNumDpsInits() : 0;
  if (op->getNumResults() != expected)
    return op->emitOpError() << "expected " << expected << " results, got " << op->getNumResults();
  return success();
}

void k3::getStructuredEffects(Operation *op,
                              SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  auto dps = cast<DestinationStyleOpInterface>(op);
  auto structured = cast<StructuredOpInterface>(op);
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    bool isInit = dps.isDpsInit(&operand);
    unsigned initIndex = isInit ? operand.getOperandNumber() - dps.getDpsInitsMutable()[0].getOperandNumber() : 0;
    if (!isInit || structured.readsInit(initIndex))
      effects.emplace_back(MemoryEffects::Read::get(), &operand, SideEffects::DefaultResource::get());
    if (isInit)
      effects.emplace_back(MemoryEffects::Write::get(), &operand, SideEffects::DefaultResource::get());
  }
}

static OpFoldResult getSize(OpBuilder &b, Location loc, Value value, int64_t dim) {
  auto type = cast<ShapedType>(value.getType());
  if (!type.isDynamicDim(dim))
    return b.getIndexAttr(type.getDimSize(dim));
  if (isa<TensorType>(type))
    return tensor::DimOp::create(b, loc, value, dim).getResult();
  return memref::DimOp::create(b, loc, value, dim).getResult();
}

LogicalResult k3::reifyStructuredShapes(OpBuilder &b, Operation *op, ReifiedRankedShapedTypeDims &dims) {
  for (OpOperand &init : cast<DestinationStyleOpInterface>(op).getDpsInitsMutable()) {
    auto type = dyn_cast<RankedTensorType>(init.get().getType());
    if (!type)
      return failure();
    SmallVector<OpFoldResult> sizes;
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      sizes.push_back(getSize(b, op->getLoc(), init.get(), dim));
    dims.push_back(std::move(sizes));
  }
  return success();
}

LogicalResult k3::foldStructuredOp(Operation *op, SmallVectorImpl<OpFoldResult> &results) {
  if (op->getNumResults() == 0)
    return memref::foldMemRefCast(op);
  // Rows are tokens (T), or sequences (N) where each has one. An op without rows leaves alone what it would update.
  bool withoutRows = getStaticNamedDim(op, "T") == 0 || getStaticNamedDim(op, "N") == 0;
  auto dps = cast<DestinationStyleOpInterface>(op);
  for (auto [index, init] : llvm::enumerate(dps.getDpsInits())) {
    bool isEmpty = llvm::is_contained(cast<ShapedType>(init.getType()).getShape(), 0);
    if (!isEmpty && !(withoutRows && cast<StructuredOpInterface>(op).readsInit(index)))
      return failure();
  }
  for (Value init : dps.getDpsInits())
    results.push_back(init);
  return success();
}

OpFoldResult k3::getNamedDim(OpBuilder &b, Operation *op, StringRef name) {
  std::optional<std::pair<Value, int64_t>> dynamic;
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = dyn_cast<ShapedType>(operand.get().getType());
    if (!type)
      continue;
    for (auto [dim, dimName] : llvm::enumerate(getDimNames(op, operand.getOperandNumber()))) {
      if (dimName.name != name || dimName.atLeast)
        continue;
      if (!type.isDynamicDim(dim))
        return b.getIndexAttr(type.getDimSize(dim));
      if (!dynamic)
        dynamic = {operand.get(), static_cast<int64_t>(dim)};
    }
  }
  assert(dynamic && "no operand has a dimension of this name");
  return getSize(b, op->getLoc(), dynamic->first, dynamic->second);
}

int64_t k3::getStaticNamedDim(Operation *op, StringRef name) {
  for (OpOperand &operand : op->getOpOperands())
    if (auto type = dyn_cast<ShapedType>(operand.get().getType()))
      for (auto [dim, dimName] : llvm::enumerate(getDimNames(op, operand.getOperandNumber())))
        if (dimName.name == name && !dimName.atLeast && !type.isDynamicDim(dim))
          return type.getDimSize(dim);
  return ShapedType::kDynamic;
}

LogicalResult k3::verifyAccumulator(Operation *op, bool accumulates, Value out) {
  Type element = cast<ShapedType>(out.getType()).getElementType();
  if (accumulates && !element.isF32())
    return op->emitOpError() << "expected an f32 'out' with 'accumulate', got " << element;
  return success();
}

LogicalResult k3::verifyBf16Products(Operation *op, bool bf16X, Value weight) {
  Type element = cast<ShapedType>(weight.getType()).getElementType();
  if (bf16X && !element.isBF16() && !element.isInteger(8))
    return op->emitOpError() << "expected a bf16 or MXFP4 'weight' with 'bf16_x', got " << element;
  return success();
}
