//===- Passes.td - GPU code generation passes -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_PASSES_TD
#define K3_CODEGEN_GPU_PASSES_TD

include "mlir/Pass/PassBase.td"

// All passes on functions leave functions without the `k3.kernel` attribute alone.

def K3GpuConfigureKernels : Pass<"k3-gpu-configure-kernels", "::mlir::func::FuncOp"> {
  let summary = "choose strategy, grid and launch for every kernel of a GPU";
  let description = [{
    Gives the root op of a kernel a `#k3.kernel_config`. If the op has an emitter for its types, for the kernel's phase
    (`k3.phase`, prefill if it has none) and for the target, the emitter chooses; else the strategy is `generic`. A config
    that is there already is kept. The kernel loses its phase, so that kernels that came out equal can be merged.
  }];
  let options = [Option<"forceGeneric", "force-generic", "bool", "false",
                        "decompose every op, also those that have an emitter">];
}

def K3GpuEmitKernels : Pass<"k3-gpu-emit-kernels", "::mlir::func::FuncOp"> {
  let summary = "structured ops on memrefs become the code of their emitters";
  let description = [{
    The kernel's function keeps what is left of its config: `k3.strategy`, `k3.threads`, `k3.shared_bytes`. The block's
    dynamic shared memory is an argument `{k3.shared_memory}`, tensor maps are arguments `{k3.tensor_map = number}`.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def K3GpuEmitEntryPoints : Pass<"k3-gpu-emit-entry-points", "::mlir::ModuleOp"> {
  let summary = "kernels get the parameters of the kernel ABI for GPUs";
  let description = [{
    Bare pointers, 64-bit scalars, tensor maps. Dynamic shared memory becomes the address of one symbol of the module.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::memref::MemRefDialect"];
}

def K3GpuFinalizeKernels : Pass<"k3-gpu-finalize-kernels", "::mlir::ModuleOp"> {
  let summary = "kernels in the LLVM dialect get what makes them entry points in PTX";
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect"];
}

def K3GpuPrintPtx : Pass<"k3-gpu-print-ptx", "::mlir::ModuleOp"> {
  let summary = "print the PTX of the GPU kernels in nested modules to standard output";
  let description = [{
    For a module of the stage `kernels`. It is left as it is; with `assemble` ptxas has to accept the kernels, and what it
    says of their resources is printed behind them as comments.
  }];
  let options = [Option<"assemble", "assemble", "bool", "false", "run ptxas, too">];
}

#endif // K3_CODEGEN_GPU_PASSES_TD
