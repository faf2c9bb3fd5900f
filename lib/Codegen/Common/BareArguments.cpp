//===- BareArguments.cpp - kernels on bare pointers and sizes -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Common/BareArguments.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlir::k3;

namespace {
struct BareArguments {
  BareArguments(func::FuncOp kernel, ArrayRef<StringRef> extras)
      : kernel(kernel), extras(extras), b(kernel.getContext()), loc(kernel.getLoc()) {}

  bool isExtra(BlockArgument argument) {
    return llvm::any_of(extras, [&](StringRef name) { return kernel.getArgAttr(argument.getArgNumber(), name); });
  }

  LogicalResult run() {
    unsigned count = kernel.getNumArguments();
    unsigned numBuffers = 0, numSizes = 0, numScalars = 0;
    for (BlockArgument argument : kernel.getArguments()) {
      if (isExtra(argument))
        continue;
      auto type = dyn_cast<MemRefType>(argument.getType());
      if (!type && !argument.getType().isIndex())
        return kernel.emitOpError() << "expected buffer and index arguments, got " << argument.getType();
      if (type) {
        ++numBuffers;
        numSizes += type.getNumDynamicDims();
      } else {
        ++numScalars;
      }
    }

    SmallVector<Type> types;
    SmallVector<DictionaryAttr> attributes;
    DictionaryAttr none = b.getDictionaryAttr({});
    auto noalias = b.getNamedAttr(LLVM::LLVMDialect::getNoAliasAttrName(), b.getUnitAttr());
    auto bare = [](MemRefType type) { return MemRefType::get({}, type.getElementType()); };
    auto append = [&](Type type, DictionaryAttr attrs) {
      types.push_back(type);
      attributes.push_back(attrs);
    };
    for (BlockArgument argument : kernel.getArguments())
      if (auto type = dyn_cast<MemRefType>(argument.getType()); type && !isExtra(argument))
        append(bare(type), b.getDictionaryAttr(noalias));
    for (unsigned i = 0; i < numSizes + numScalars; ++i)
      append(b.getIndexType(), none);
    for (BlockArgument argument : kernel.getArguments()) {
      if (!isExtra(argument))
        continue;
      auto type = dyn_cast<MemRefType>(argument.getType());
      NamedAttrList attrs(kernel.getArgAttrDict(argument.getArgNumber()));
      if (type)
        attrs.append(noalias);
      append(type ? Type(bare(type)) : argument.getType(), attrs.getDictionary(b.getContext()));
    }
    if (failed(kernel.insertArguments(SmallVector<unsigned>(types.size(), count), types, attributes,
                                      SmallVector<Location>(types.size(), loc))))
      return failure();

    // Rebuild the memrefs from pointers and sizes.
    unsigned nextBuffer = count, nextSize = nextBuffer + numBuffers, nextScalar = nextSize + numSizes,
             nextExtra = nextScalar + numScalars;
    b.setInsertionPointToStart(&kernel.getBody().front());
    for (unsigned i = 0; i < count; ++i) {
      BlockArgument old = kernel.getArgument(i);
      auto type = dyn_cast<MemRefType>(old.getType());
      unsigned &next = isExtra(old) ? nextExtra : type ? nextBuffer : nextScalar;
      Value argument = kernel.getArgument(next++);
      old.replaceAllUsesWith(type ? rebuild(type, argument, nextSize) : argument);
    }
    BitVector erased(kernel.getNumArguments());
    erased.set(0, count);
    return kernel.eraseArguments(erased);
  }

  Value rebuild(MemRefType type, Value base, unsigned &nextSize) {
    SmallVector<OpFoldResult> sizes;
    for (int64_t size : type.getShape())
      sizes.push_back(ShapedType::isDynamic(size) ? OpFoldResult(kernel.getArgument(nextSize++))
                                                  : b.getIndexAttr(size));
    SmallVector<OpFoldResult> strides(sizes.size());
    OpFoldResult stride = b.getIndexAttr(1);
    for (size_t dim = sizes.size(); dim-- > 0;) {
      strides[dim] = stride;
      if (dim == 0)
        break;
      std::optional<int64_t> size = getConstantIntValue(sizes[dim]), inner = getConstantIntValue(stride);
      if (size && inner)
        stride = b.getIndexAttr(*size * *inner);
      else
        stride = b.createOrFold<arith::MulIOp>(loc, getValueOrCreateConstantIndexOp(b, loc, sizes[dim]),
                                               getValueOrCreateConstantIndexOp(b, loc, stride));
    }
    return memref::ReinterpretCastOp::create(b, loc, type, base, b.getIndexAttr(0), sizes, strides);
  }

  func::FuncOp kernel;
  ArrayRef<StringRef> extras;
  OpBuilder b;
  Location loc;
};
} // namespace

LogicalResult k3::makeArgumentsBare(func::FuncOp kernel, ArrayRef<StringRef> extras) {
  return BareArguments(kernel, extras).run();
}
