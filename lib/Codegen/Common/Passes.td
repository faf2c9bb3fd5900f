//===- Passes.td - code generation passes of all targets -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_COMMON_PASSES_TD
#define K3_CODEGEN_COMMON_PASSES_TD

include "mlir/Pass/PassBase.td"

// All passes on functions leave functions without the `k3.kernel` attribute alone.

def K3TileToGrid : Pass<"k3-tile-to-grid", "::mlir::func::FuncOp"> {
  let summary = "tile the root of a kernel to an scf.forall over its grid";
  let description = [{
    The tile sizes come from the root's config. Each tiled loop is mapped to the grid dimension of the same position:
    `#gpu.block<x>` is the first parallel loop.
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect", "::mlir::gpu::GPUDialect",
                           "::mlir::affine::AffineDialect"];
}

def K3Decompose : Pass<"k3-decompose", "::mlir::func::FuncOp"> {
  let summary = "replace the structured ops whose strategy is `generic` by upstream ops";
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
                           "::mlir::tensor::TensorDialect", "::mlir::arith::ArithDialect"];
}

def K3BufferizeKernels : Pass<"k3-bufferize-kernels", "::mlir::func::FuncOp"> {
  let summary = "tensors to memrefs; destinations are updated in place and results dropped";
  let description = [{
    The last tensor arguments are the destinations of the results. It is an error if bufferization would need a copy of an
    argument, or if a result is not its destination's own buffer.
  }];
  let dependentDialects = ["::mlir::bufferization::BufferizationDialect", "::mlir::memref::MemRefDialect"];
}

#endif // K3_CODEGEN_COMMON_PASSES_TD
