//===- EmitEntryPoints.cpp - kernels in the runtime's calling convention -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Common/BareArguments.h"
#include "lib/Codegen/Common/Kernels.h"
#include "lib/Codegen/CPU/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "runtime/include/k3rt/abi.h"
#include <cstddef>

namespace mlir::k3 {
#define GEN_PASS_DEF_K3EMITENTRYPOINTS
#include "lib/Codegen/CPU/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {

/// Returned when the runtime gives less scratch memory than the kernel asks for.
constexpr int32_t scratchTooSmall = 1;

struct EntryPoint {
  explicit EntryPoint(func::FuncOp body)
      : body(body), b(body.getContext()), loc(body.getLoc()), ptr(LLVM::LLVMPointerType::get(body.getContext())) {}

  LogicalResult emit() {
    std::string name = body.getName().str();
    int64_t scratchBytes = 0;
    if (auto attr = dyn_cast_or_null<IntegerAttr>(body->removeAttr(scratchBytesAttrName)))
      scratchBytes = attr.getInt();
    body->removeAttr(kernelAttrName);
    body.setName(name + ".body");
    if (failed(makeArgumentsBare(body, {workgroupIdAttrName, scratchAttrName})))
      return failure();
    body->setAttr("llvm.linkage", LLVM::LinkageAttr::get(b.getContext(), LLVM::Linkage::Internal));

    b.setInsertionPointAfter(body);
    auto entry = func::FuncOp::create(b, loc, name, b.getFunctionType({ptr, ptr}, {b.getI32Type()}));
    entry->setAttr(kernelAttrName, b.getUnitAttr());
    if (scratchBytes > 0)
      entry->setAttr(scratchBytesAttrName, b.getI64IntegerAttr(scratchBytes));
    b.setInsertionPointToStart(entry.addEntryBlock());
    Value args = entry.getArgument(0), workgroup = entry.getArgument(1);
    Value bindings = load(ptr, args, offsetof(k3_kernel_args, bindings));
    Value scalars = load(ptr, args, offsetof(k3_kernel_args, scalars));

    SmallVector<Value> operands;
    unsigned buffers = 0, numScalars = 0, axis = 0;
    for (BlockArgument argument : body.getArguments()) {
      if (hasAttr(argument, scratchAttrName)) {
        operands.push_back(toScalarMemref(load(ptr, workgroup, offsetof(k3_workgroup, scratch)), argument.getType()));
      } else if (hasAttr(argument, workgroupIdAttrName)) {
        Value id = load(b.getI32Type(), workgroup, offsetof(k3_workgroup, id) + 4 * axis++);
        operands.push_back(arith::IndexCastUIOp::create(b, loc, b.getIndexType(), id));
      } else if (isa<MemRefType>(argument.getType())) {
        operands.push_back(toScalarMemref(load(ptr, bindings, 8 * buffers++), argument.getType()));
      } else {
        Value scalar = load(b.getI64Type(), scalars, 8 * numScalars++);
        operands.push_back(arith::IndexCastOp::create(b, loc, b.getIndexType(), scalar));
      }
    }
    // The marks have done their work; LLVM IR has no place for them.
    for (unsigned i = 0; i < body.getNumArguments(); ++i) {
      body.removeArgAttr(i, scratchAttrName);
      body.removeArgAttr(i, workgroupIdAttrName);
    }
    Value status = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
    auto call = [&] { func::CallOp::create(b, loc, body, operands); };
    if (scratchBytes == 0) {
      call();
    } else {
      Value given = load(b.getI64Type(), workgroup, offsetof(k3_workgroup, scratch_bytes));
      Value needed = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(scratchBytes));
      Value enough = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, given, needed);
      auto branch = scf::IfOp::create(b, loc, enough, /*withElseRegion=*/false);
      b.setInsertionPointToStart(branch.thenBlock());
      call();
      b.setInsertionPointAfter(branch);
      Value failed = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(scratchTooSmall));
      status = arith::SelectOp::create(b, loc, enough, status, failed);
    }
    func::ReturnOp::create(b, loc, status);
    return success();
  }

private:
  bool hasAttr(BlockArgument argument, StringRef name) {
    return static_cast<bool>(body.getArgAttr(argument.getArgNumber(), name));
  }

  Value load(Type type, Value base, size_t offset) {
    Value address = LLVM::GEPOp::create(b, loc, ptr, b.getI8Type(), base,
                                        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
    return LLVM::LoadOp::create(b, loc, type, address);
  }

  /// A memref of rank 0 that starts at `pointer`.
  Value toScalarMemref(Value pointer, Type type) {
    auto structType = LLVM::LLVMStructType::getLiteral(b.getContext(), {ptr, ptr, b.getI64Type()});
    Value descriptor = LLVM::PoisonOp::create(b, loc, structType);
    descriptor = LLVM::InsertValueOp::create(b, loc, descriptor, pointer, ArrayRef<int64_t>{0});
    descriptor = LLVM::InsertValueOp::create(b, loc, descriptor, pointer, ArrayRef<int64_t>{1});
    Value zero = LLVM::ConstantOp::create(b, loc, b.getI64Type(), b.getI64IntegerAttr(0));
    descriptor = LLVM::InsertValueOp::create(b, loc, descriptor, zero, ArrayRef<int64_t>{2});
    return UnrealizedConversionCastOp::create(b, loc, type, descriptor).getResult(0);
  }

  func::FuncOp body;
  OpBuilder b;
  Location loc;
  Type ptr;
};

struct EmitEntryPoints : k3::impl::K3EmitEntryPointsBase<EmitEntryPoints> {
  void runOnOperation() override {
    for (auto func : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (isKernel(func) && failed(EntryPoint(func).emit()))
        return signalPassFailure();
  }
};

} // namespace
