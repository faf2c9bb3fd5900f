//===- Passes.td - CPU code generation passes -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_CPU_PASSES_TD
#define K3_CODEGEN_CPU_PASSES_TD

include "mlir/Pass/PassBase.td"

// All passes on functions leave functions without the `k3.kernel` attribute alone.

def K3ConfigureKernels : Pass<"k3-configure-kernels", "::mlir::func::FuncOp"> {
  let summary = "choose tile sizes and a strategy for every kernel";
  let description = [{
    Gives the root op of a kernel a `#k3.kernel_config`: one tile size per parallel loop (0 = whole) and a strategy,
    `vector` (an emitter writes the vector code) or `generic` (the op is decomposed). A config that is there already is
    kept. Tiles are chosen for 8 to 64 threads without knowing their number: enough workgroups to balance them, each
    with enough work to pay for its dispatch.
  }];
  let options = [Option<"forceGeneric", "force-generic", "bool", "false",
                        "decompose every op, also those that have an emitter">];
}

def K3PlaceTemporaries : Pass<"k3-place-temporaries", "::mlir::func::FuncOp"> {
  let summary = "put bounded temporaries on the stack or in the workgroup's scratch memory";
  let description = [{
    Kernels never allocate. Temporaries, the smallest first, go to the stack as long as they fit its limit together, the
    others become views of a scratch argument whose size is recorded as `k3.scratch_bytes`. A temporary without a constant
    bound is an error.
  }];
  let options = [Option<"stackLimit", "stack-limit", "int64_t", "32768", "bytes of stack that temporaries may take">];
  let dependentDialects = ["::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"];
}

def K3ConvertToVector : Pass<"k3-convert-to-vector", "::mlir::func::FuncOp"> {
  let summary = "hot structured ops on memrefs to scf and vector code";
  let dependentDialects = ["::mlir::vector::VectorDialect", "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect", "::mlir::LLVM::LLVMDialect"];
}

def K3GridToWorkgroups : Pass<"k3-grid-to-workgroups", "::mlir::func::FuncOp"> {
  let summary = "the kernel's grid loop becomes three workgroup index arguments";
}

def K3RelaxReductions : Pass<"k3-relax-reductions", "::mlir::func::FuncOp"> {
  let summary = "allow float reductions of linalg ops to be reordered, so that they vectorize";
}

def K3ExpandMath : Pass<"k3-expand-math", "::mlir::func::FuncOp"> {
  let summary = "math functions and bf16 conversions to arithmetic";
  let description = [{
    No function of the maths library is left: exp, tanh and rsqrt are this project's own (about 1 to 2 ulp), the others
    upstream's polynomials.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::vector::VectorDialect"];
}

def K3EmitEntryPoints : Pass<"k3-emit-entry-points", "::mlir::ModuleOp"> {
  let summary = "kernels get the signature of runtime/include/k3rt/abi.h";
  let description = [{
    A kernel on memrefs becomes an internal function on bare pointers and 64-bit scalars, `@name.body`, and an entry
    point `@name(args, workgroup) -> i32` that reads bindings, scalars and the workgroup's id and calls it.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::memref::MemRefDialect"];
}

#endif // K3_CODEGEN_CPU_PASSES_TD
