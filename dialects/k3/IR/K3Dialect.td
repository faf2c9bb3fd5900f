//===- K3Dialect.td - the k3 dialect -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_DIALECT_TD
#define K3_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"

def K3_Dialect : Dialect {
  let name = "k3";
  let cppNamespace = "::mlir::k3";
  let summary = "the Kimi K3 model family";
  let description = [{
    Ops of Kimi K3 and Kimi-Linear at three levels:

    * **model**: what the importer emits, one op per sublayer (`k3.kda.attention`, `k3.latent_moe.block`, ...),
      with typed states (`!k3.kda_state`, `!k3.kv_cache`, ...);
    * **structured**: destination-style ops on tensors or memrefs (`k3.linear`, `k3.kda.scan`, ...), each with a shape
      table from which verification, tiling and reification follow, a decomposition into upstream dialects and a
      scalar reference in lib/Reference;
    * **exec**: the program the runtime interprets (`k3.exec.*`).
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::math::MathDialect", "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

class K3_Type<string name, string typeMnemonic, list<Trait> traits = []> : TypeDef<K3_Dialect, name, traits> {
  let mnemonic = typeMnemonic;
}
class K3_Attr<string name, string attrMnemonic, list<Trait> traits = []> : AttrDef<K3_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}
class K3_Op<string mnemonic, list<Trait> traits = []> : Op<K3_Dialect, mnemonic, traits>;

#endif // K3_DIALECT_TD
