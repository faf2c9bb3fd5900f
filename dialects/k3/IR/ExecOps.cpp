//===- ExecOps.cpp - constraints of programs -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::k3;

//===----------------------------------------------------------------------===//
// Executable, kernel
//===----------------------------------------------------------------------===//

LogicalResult ExecExecutableOp::verify() {
  if (!getElf().getElementType().isInteger(8))
    return emitOpError() << "expected elf to be bytes, got " << getElf().getElementType();
  return success();
}

LogicalResult ExecKernelOp::verify() {
  if (static_cast<int64_t>(getOrdinal()) < 0 || static_cast<int64_t>(getScratchBytes()) < 0)
    return emitOpError("expected ordinal and scratch_bytes not to be negative");
  return success();
}

LogicalResult ExecKernelOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // Until its code is emitted, an executable is the module of its kernels.
  Operation *executable = symbols.lookupNearestSymbolFrom(*this, getExecutableAttr());
  if (!isa_and_present<ExecExecutableOp, ModuleOp>(executable))
    return emitOpError() << "expected an executable called " << getExecutableAttr();
  return success();
}

//===----------------------------------------------------------------------===//
// Program
//===----------------------------------------------------------------------===//

std::optional<int64_t> ExecProgramOp::getMaximum(StringRef symbol) {
  for (auto [name, maximum] : llvm::zip_equal(getSymbols().getAsValueRange<StringAttr>(), getMaxima()))
    if (name == symbol && maximum > 0)
      return maximum;
  return std::nullopt;
}

/// The ops of one kind in a single-block region.
template <typename OpTy> static std::vector<OpTy> collect(Region &region) {
  auto ops = region.front().getOps<OpTy>();
  return {ops.begin(), ops.end()};
}

std::vector<ExecBufferOp> ExecProgramOp::getBuffers() { return collect<ExecBufferOp>(getBody()); }
ExecPrologueOp ExecProgramOp::getPrologue() { return collect<ExecPrologueOp>(getBody()).front(); }
std::vector<ExecLayerKindOp> ExecProgramOp::getLayerKinds() { return collect<ExecLayerKindOp>(getBody()); }
ExecEpilogueOp ExecProgramOp::getEpilogue() { return collect<ExecEpilogueOp>(getBody()).front(); }

ExecBufferOp ExecProgramOp::lookupBuffer(StringRef name) {
  for (auto buffer : getBody().front().getOps<ExecBufferOp>())
    if (buffer.getName() == name)
      return buffer;
  return {};
}

SmallVector<Operation *> ExecProgramOp::getSections() {
  SmallVector<Operation *> sections;
  for (Operation &op : getBody().front())
    if (isa<ExecPrologueOp, ExecLayerKindOp, ExecEpilogueOp>(op))
      sections.push_back(&op);
  return sections;
}

/// Where an op belongs in a program: buffers, prologue, layer kinds, epilogue.
static int rankInProgram(Operation &op) {
  return isa<ExecBufferOp>(op)      ? 0
         : isa<ExecPrologueOp>(op)  ? 1
         : isa<ExecLayerKindOp>(op) ? 2
         : isa<ExecEpilogueOp>(op)  ? 3
                                    : -1;
}

LogicalResult ExecProgramOp::verifyRegions() {
  if (getSymbols().size() != getMaxima().size())
    return emitOpError() << "expected one maximum per symbol, got " << getMaxima().size() << " for "
                         << getSymbols().size() << " symbols";
  llvm::StringSet<> symbols, buffers, kinds;
  for (StringRef symbol : getSymbols().getAsValueRange<StringAttr>())
    if (!symbols.insert(symbol).second)
      return emitOpError() << "expected symbols to be unique, got '" << symbol << "' twice";
  for (int64_t maximum : getMaxima())
    if (maximum < 0)
      return emitOpError() << "expected maxima not to be negative, got " << maximum;
  int rank = 0, numPrologues = 0, numEpilogues = 0;
  for (Operation &op : getBody().front()) {
    int next = rankInProgram(op);
    if (next < 0)
      return op.emitOpError("is not expected in a program");
    if (next < rank)
      return op.emitOpError("is out of order: expected buffers, prologue, layer kinds, epilogue");
    rank = next;
    numPrologues += next == 1;
    numEpilogues += next == 3;
    if (auto buffer = dyn_cast<ExecBufferOp>(op); buffer && !buffers.insert(buffer.getName()).second)
      return op.emitOpError() << "expected unique names, got '" << buffer.getName() << "' twice";
    if (auto kind = dyn_cast<ExecLayerKindOp>(op); kind && !kinds.insert(kind.getName()).second)
      return op.emitOpError() << "expected unique names, got '" << kind.getName() << "' twice";
  }
  if (numPrologues != 1 || numEpilogues != 1)
    return emitOpError() << "expected one prologue and one epilogue, got " << numPrologues << " and " << numEpilogues;
  return success();
}

/// Every symbol of `term` is one of the program's.
static LogicalResult verifySymbols(Operation *op, ExecProgramOp program, TermAttr term) {
  for (StringAttr symbol : term.getSymbols())
    if (!llvm::is_contained(program.getSymbols().getAsValueRange<StringAttr>(), symbol.getValue()))
      return op->emitOpError() << "expected a symbol of the program, got '" << symbol.getValue() << "'";
  return success();
}

LogicalResult ExecBufferOp::verify() {
  Type type = getElementType();
  if (!type.isF32() && !type.isBF16() && !type.isInteger(8) && !type.isInteger(32))
    return emitOpError() << "expected elements of f32, bf16, i8 or i32, got " << type;
  for (TermAttr term : getShape().getAsRange<TermAttr>())
    if (failed(verifySymbols(*this, (*this)->getParentOfType<ExecProgramOp>(), term)))
      return failure();
  if (getArenaOffset().has_value() != getArenaBytes().has_value())
    return emitOpError("expected arena_offset and arena_bytes together");
  return success();
}

std::optional<int64_t> ExecBufferOp::getMaximalBytes() {
  auto program = (*this)->getParentOfType<ExecProgramOp>();
  int64_t bytes = getElementType().getIntOrFloatBitWidth() / 8;
  for (TermAttr term : getShape().getAsRange<TermAttr>()) {
    std::optional<int64_t> size = term.evaluate([&](StringRef symbol) { return program.getMaximum(symbol); });
    if (!size || *size < 0 || __builtin_mul_overflow(bytes, *size, &bytes))
      return std::nullopt;
  }
  return bytes;
}

//===----------------------------------------------------------------------===//
// Sections
//===----------------------------------------------------------------------===//

std::vector<ExecGroupOp> ExecPrologueOp::getGroups() { return collect<ExecGroupOp>(getBody()); }
std::vector<ExecGroupOp> ExecLayerKindOp::getGroups() { return collect<ExecGroupOp>(getBody()); }
std::vector<ExecGroupOp> ExecEpilogueOp::getGroups() { return collect<ExecGroupOp>(getBody()); }
std::vector<ExecDispatchOp> ExecGroupOp::getDispatches() { return collect<ExecDispatchOp>(getBody()); }

LogicalResult ExecLayerKindOp::verify() {
  llvm::StringSet<> names;
  for (auto slot : getWeights().getAsRange<WeightSlotAttr>())
    if (!names.insert(slot.getName()).second)
      return emitOpError() << "expected unique weights, got " << slot.getName() << " twice";
  names.clear();
  for (auto slot : getStates().getAsRange<StateSlotAttr>())
    if (!names.insert(slot.getName()).second)
      return emitOpError() << "expected unique states, got " << slot.getName() << " twice";
  return success();
}

LogicalResult ExecGroupOp::verifyRegions() {
  if (!isa<ExecPrologueOp, ExecLayerKindOp, ExecEpilogueOp>((*this)->getParentOp()))
    return emitOpError("expected to be in a prologue, layer kind or epilogue");
  // Kind and name of everything touched so far, and whether it was written.
  llvm::DenseMap<std::pair<int, StringAttr>, bool> touched;
  for (Operation &op : getBody().front()) {
    auto dispatch = dyn_cast<ExecDispatchOp>(op);
    if (!dispatch)
      return op.emitOpError("is not expected in a group");
    llvm::DenseMap<std::pair<int, StringAttr>, bool> own;
    for (auto binding : dispatch.getBindings().getAsRange<BindingAttr>())
      own[{static_cast<int>(binding.getKind()), binding.getName()}] |= binding.getWrites();
    for (auto [what, writes] : own) {
      auto [it, inserted] = touched.try_emplace(what, writes);
      if (!inserted && (writes || it->second))
        return dispatch.emitOpError() << "depends on another dispatch of its group through " << what.second;
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Dispatch
//===----------------------------------------------------------------------===//

/// The named slots of the section, as an array of slot attributes; null if the section has none of this kind.
static ArrayAttr getSlots(Operation *section, BindingKind kind) {
  auto layer = dyn_cast<ExecLayerKindOp>(section);
  switch (kind) {
  case BindingKind::weight:
    return layer ? ArrayAttr() : section->getAttrOfType<ArrayAttr>("weights");
  case BindingKind::layer_weight:
    return layer ? layer.getWeights() : ArrayAttr();
  case BindingKind::layer_state:
    return layer ? layer.getStates() : ArrayAttr();
  case BindingKind::buffer:
    return {};
  }
  llvm_unreachable("unknown binding kind");
}

static bool hasSlot(ArrayAttr slots, StringAttr name) {
  return slots && llvm::any_of(slots, [&](Attribute slot) {
           if (auto weight = dyn_cast<WeightSlotAttr>(slot))
             return weight.getName() == name;
           return cast<StateSlotAttr>(slot).getName() == name;
         });
}

LogicalResult ExecDispatchOp::verify() {
  Operation *section = (*this)->getParentOp()->getParentOp();
  auto program = (*this)->getParentOfType<ExecProgramOp>();
  if (!program)
    return emitOpError("expected to be in a program");
  if (getGrid().size() > 3)
    return emitOpError() << "expected up to three grid terms, got " << getGrid().size();
  for (TermAttr term : getGrid().getAsRange<TermAttr>())
    if (failed(verifySymbols(*this, program, term)))
      return failure();
  for (auto binding : getBindings().getAsRange<BindingAttr>()) {
    bool known = binding.getKind() == BindingKind::buffer
                     ? static_cast<bool>(program.lookupBuffer(binding.getName()))
                     : hasSlot(getSlots(section, binding.getKind()), binding.getName());
    if (!known)
      return emitOpError() << "expected a " << stringifyBindingKind(binding.getKind()) << " of this "
                           << (binding.getKind() == BindingKind::buffer ? "program" : "section") << ", got "
                           << binding.getName();
    if (binding.getWrites() &&
        (binding.getKind() == BindingKind::weight || binding.getKind() == BindingKind::layer_weight))
      return emitOpError() << "writes the weight " << binding.getName();
  }
  for (Attribute scalar : getScalars()) {
    if (auto term = dyn_cast<TermAttr>(scalar)) {
      if (failed(verifySymbols(*this, program, term)))
        return failure();
    } else if (!isa<LayerScalarAttr>(scalar) || !isa<ExecLayerKindOp>(section)) {
      return emitOpError() << "expected scalars to be terms or, in a layer kind, layer scalars, got " << scalar;
    }
  }
  return success();
}

LogicalResult ExecDispatchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (!symbols.lookupNearestSymbolFrom(*this, getKernelAttr()))
    return emitOpError() << "expected a kernel called " << getKernelAttr();
  return success();
}
