//===- ExpertProduct.h - products with stored matrices, of experts or not -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_TILE_EXPERTPRODUCT_H
#define K3_CODEGEN_GPU_TILE_EXPERTPRODUCT_H

#include "lib/Codegen/GPU/Tile/ExpertSchedule.h"

namespace mlir::k3 {

/// What k3.latent_moe.grouped_contract and k3.mx.contract have in common, and each of the two products of
/// k3.latent_moe.expert_mlp: rows of x meet the matrices of an expert, or the one matrix there is. A row's number is its
/// position in the order of experts.
class ExpertProduct {
public:
  explicit ExpertProduct(MoeGroupedContractOp op);
  explicit ExpertProduct(MxContractOp op);
  /// One of these two.
  static ExpertProduct of(Operation *op);
  /// The gated unit, and the product that reads its rows.
  static ExpertProduct gatedOf(MoeExpertMlpOp op);
  static ExpertProduct downOf(MoeExpertMlpOp op);

  /// Output features and contraction size; ShapedType::kDynamic unless the type tells.
  int64_t features, depth;
  /// Number of experts; 0: one matrix without a table.
  int64_t experts = 0;
  bool mxfp4, gated = false, accumulates = false;
  /// Each x is rounded to bf16, or is bf16 already.
  bool roundsInput;
  bool isStatic() const { return !ShapedType::isDynamic(features) && !ShapedType::isDynamic(depth) && experts >= 0; }
  Type inputType() const { return getElementTypeOrSelf(x.getType()); }
  Type outputType() const { return getElementTypeOrSelf(out.getType()); }
  /// Whether weights are bf16 or MXFP4, and kernel arguments themselves, which start at multiples of 16 bytes.
  bool hasPlainWeights() const;
  /// Of the experts' first and second matrix.
  int64_t matrices() const { return gated ? 2 : 1; }

  //===--- code, on memrefs ---===//

  /// Rows of x altogether.
  Value countRows(const GpuBuilder &g) const;
  /// First element of a row of a matrix's codes (or values), and of its scales; ptr<1>. `expert` is null without experts.
  Value weightRow(const GpuBuilder &g, int64_t matrix, Value expert, Value row) const;
  Value scaleRow(const GpuBuilder &g, int64_t matrix, Value expert, Value row) const;
  /// Has the tables of experts' matrices brought nearer, which are read once the schedule is known. By all threads, before
  /// anything else.
  void prefetchTables(const GpuBuilder &g) const;
  /// Has rows of x and their order brought nearer, as many as all blocks can ask for at once. By all threads, after the
  /// kernel in front has ended.
  void prefetchInputs(const GpuBuilder &g) const;
  /// The token (and choice) of a row, as indices of x and out.
  struct Place {
    SmallVector<Value> input, output;
  };
  Place place(const GpuBuilder &g, Value row) const;
  /// The output of two sums (or of one, without `gated`).
  Value activate(const GpuBuilder &g, Value first, Value second) const;

  Value x, out, offsets, perm;
  /// Whether nothing writes x while the kernel runs.
  bool inputIsConstant = true;

private:
  ExpertProduct(MoeExpertMlpOp op, Value x, Value out);
  Value rowOf(const GpuBuilder &g, Value matrix, Value expert, Value row) const;
  Value weights[2], scales[2];
  Activation activation = Activation::swiglu;
  double beta = 0, linearBeta = 0;
};

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_TILE_EXPERTPRODUCT_H
