//===- GenericKernels.cpp - kernels of decomposed ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/GenericKernels.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::k3;

bool k3::isGenericKernel(func::FuncOp func) {
  auto strategy = func->getAttrOfType<StringAttr>(strategyAttrName);
  return isKernel(func) && strategy && strategy == strategyGeneric;
}

KernelConfigAttr k3::getGenericConfig(func::FuncOp kernel) {
  auto get = [&](StringRef name) {
    auto value = kernel->getAttrOfType<IntegerAttr>(name);
    return value ? value.getInt() : 0;
  };
  return KernelConfigAttr::get(kernel.getContext(), ArrayRef<int64_t>(), strategyGeneric, ArrayRef<GridDimAttr>(),
                               get(threadsAttrName), get(sharedBytesAttrName), /*cluster=*/1,
                               ArrayRef<TensorMapAttr>());
}

Value k3::viewPointer(const GpuBuilder &g, Value pointer, MemRefType type) {
  // Memrefs of kernels are all in the generic space; LLVM finds out which one it is.
  Type generic = g.pointerType(GpuBuilder::genericSpace);
  if (pointer.getType() != generic)
    pointer = LLVM::AddrSpaceCastOp::create(g.b, g.loc, generic, pointer);
  auto descriptorType = LLVM::LLVMStructType::getLiteral(g.b.getContext(), {generic, generic, g.i64()});
  Value descriptor = LLVM::PoisonOp::create(g.b, g.loc, descriptorType);
  for (int64_t field : {0, 1})
    descriptor = LLVM::InsertValueOp::create(g.b, g.loc, descriptor, pointer, ArrayRef<int64_t>{field});
  Value none = LLVM::ConstantOp::create(g.b, g.loc, g.i64(), g.b.getI64IntegerAttr(0));
  descriptor = LLVM::InsertValueOp::create(g.b, g.loc, descriptor, none, ArrayRef<int64_t>{2});
  Value base = UnrealizedConversionCastOp::create(g.b, g.loc, MemRefType::get({}, type.getElementType()), descriptor)
                   .getResult(0);
  auto [strides, offset] = type.getStridesAndOffset();
  return memref::ReinterpretCastOp::create(g.b, g.loc, type, base, offset, type.getShape(), strides);
}
