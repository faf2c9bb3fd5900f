//===- K3Interfaces.td - op interfaces of the k3 dialect -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_INTERFACES_TD
#define K3_INTERFACES_TD

include "mlir/IR/OpBase.td"

def K3_StructuredOpInterface : OpInterface<"StructuredOpInterface"> {
  let cppNamespace = "::mlir::k3";
  let description = [{
    A destination-style op described by one shape table: for every operand the names of its dimensions, and which of
    these names are parallel loops. Verification (equal names have equal sizes), tiling (a tile of a loop slices every
    operand dimension of that name), reification and memory effects follow from the table.
  }];
  let methods = [
    InterfaceMethod<[{
      The table as text: "LOOPS | DIMS | DIMS ...", one DIMS per ODS operand in order, names separated by spaces; "-" for
      a scalar operand. Example: "T | T | V d | T d". "K?" ("T H K?") marks a dimension that may be absent, the last such
      first; "H+" marks a dimension that is indexed by H but may be longer.
    }], "::llvm::StringRef", "getShapeTable", (ins)>,
    InterfaceMethod<[{
      The ODS names of the op's operands, in order and whether present or not, then those of its attributes.
    }], "::llvm::ArrayRef<::llvm::StringRef>", "getArgumentNames", (ins)>,
    InterfaceMethod<[{
      True if the op reads the given destination before it overwrites it (states, accumulators).
    }], "bool", "readsInit", (ins "unsigned":$initIndex)>
  ];
}

#endif // K3_INTERFACES_TD
