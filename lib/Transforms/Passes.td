//===- Passes.td - target-independent passes -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TRANSFORMS_PASSES_TD
#define K3_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def DecomposeStructured : Pass<"k3-decompose-structured"> {
  let summary = "replace structured ops on tensors by linalg, scf, tensor, arith and math ops";
  let description = [{
    Every structured op, or those named by `ops`, becomes what its `linalg::AggregatedOpInterface` gives: the meaning of
    the op in upstream ops, also the code path of ops without a kernel of their own. Works on whole ops and on tiles.
  }];
  let options = [ListOption<"ops", "ops", "std::string", "op names, as in k3.rms_norm; all if empty">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

#endif // K3_TRANSFORMS_PASSES_TD
