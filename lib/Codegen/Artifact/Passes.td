//===- Passes.td - machine code into programs -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_ARTIFACT_PASSES_TD
#define K3_CODEGEN_ARTIFACT_PASSES_TD

include "mlir/Pass/PassBase.td"

def EmitBinaries : Pass<"k3-emit-binaries", "::mlir::ModuleOp"> {
  let summary = "modules of kernels become executables";
  let description = [{
    Every nested module that `k3.exec.kernel`s point to is compiled for its target and replaced by a `k3.exec.executable`
    of the same name. The kernels learn how much scratch memory they need.
  }];
}

#endif // K3_CODEGEN_ARTIFACT_PASSES_TD
