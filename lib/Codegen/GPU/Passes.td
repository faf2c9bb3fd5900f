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

def K3GpuRecordLaunch : Pass<"k3-gpu-record-launch", "::mlir::func::FuncOp"> {
  let summary = "a kernel's function learns what the config of its root says, which will be gone";
  let description = [{
    `k3.strategy`, `k3.threads` and `k3.shared_bytes`.
  }];
}

def K3GpuEmitKernels : Pass<"k3-gpu-emit-kernels", "::mlir::func::FuncOp"> {
  let summary = "structured ops on memrefs become the code of their emitters";
  let description = [{
    The block's dynamic shared memory is an argument `{k3.shared_memory}`, tensor maps are arguments
    `{k3.tensor_map = number}`. Kernels of the strategy `generic` hold no structured op any more and stay as they are.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def K3GpuBindExperts : Pass<"k3-gpu-bind-experts", "::mlir::func::FuncOp"> {
  let summary = "slices of expert groups become views behind the pointers of a table";
  let description = [{
    An argument with `k3.expert_group` is bound to a table of pointers. Every use of it must be a slice of one expert; the
    slice then starts where the expert's entry points to.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect", "::mlir::memref::MemRefDialect"];
}

def K3GpuPlaceTemporaries : Pass<"k3-gpu-place-temporaries", "::mlir::func::FuncOp"> {
  let summary = "put bounded temporaries into the block's shared memory";
  let description = [{
    Temporaries of a kernel of the strategy `generic` share bytes where they do not live at the same time. What all of
    them take is recorded as `k3.shared_bytes`; more than a block can have is an error, as is a temporary without a
    constant bound.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::memref::MemRefDialect"];
}

def K3GpuDistributeToThreads : Pass<"k3-gpu-distribute-to-threads", "::mlir::func::FuncOp"> {
  let summary = "blocks and threads share the work of decomposed kernels";
  let description = [{
    For kernels of the strategy `generic`. The loop over the grid becomes block indices. The parallel loops of every linalg
    op are flattened and go to threads in turn (the innermost is contiguous); its reductions stay in a thread. All threads
    run the code around them, whose bounds and conditions are the same for all; single elements are stored by one thread.
    Barriers stand around everything that writes.
  }];
  let dependentDialects = ["::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect", "::mlir::NVVM::NVVMDialect"];
}

def K3GpuExpandMath : Pass<"k3-gpu-expand-math", "::mlir::func::FuncOp"> {
  let summary = "math functions on f32 become instructions of the GPU";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect"];
}

def K3GpuEmitEntryPoints : Pass<"k3-gpu-emit-entry-points", "::mlir::ModuleOp"> {
  let summary = "kernels get the parameters of the kernel ABI for GPUs";
  let description = [{
    Bare pointers, 64-bit scalars, tensor maps. Dynamic shared memory becomes the address of one symbol of the module.
    Kernels that do not wait for the kernel in front of them later do so first of all.
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
