//===- K3ExecAttrs.td - attributes of programs -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_EXEC_ATTRS_TD
#define K3_EXEC_ATTRS_TD

include "dialects/k3/IR/K3Enums.td"

def K3_TermAttr : K3_Attr<"Term", "term"> {
  let summary = "a size that the runtime evaluates every step";
  let description = [{
    `ceil((product(symbols) * mul + add) / div)`: every size, grid and scalar of a program. Written
    `#k3.term<T * 4 + 1 ceildiv 16>`; a constant is `#k3.term<7>`. Symbols are kept sorted; a term without symbols is
    folded to `mul`.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$symbols, "int64_t":$mul, "int64_t":$add,
                        "int64_t":$div);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static TermAttr getConstant(::mlir::MLIRContext *context, int64_t value);
    /// From a name of k3.dims: "T", or "N+1" for a symbol plus a constant; null if it is neither.
    static TermAttr getDim(::mlir::MLIRContext *context, ::llvm::StringRef dim);
    std::optional<int64_t> getConstantValue();

    /// The operations return null where the result is no term: a product of two sums, a sum of two symbols.
    static TermAttr multiply(TermAttr lhs, TermAttr rhs);
    static TermAttr sum(TermAttr lhs, TermAttr rhs);
    /// Rounds up; `divisor` > 0.
    static TermAttr ceilDiv(TermAttr term, int64_t divisor);
    /// Null unless the division leaves no remainder whatever the symbols are.
    static TermAttr exactDiv(TermAttr term, int64_t divisor);

    /// Nothing if a symbol has no value or the result leaves int64_t.
    std::optional<int64_t> evaluate(
        ::llvm::function_ref<std::optional<int64_t>(::llvm::StringRef symbol)> valueOf);
  }];
}

def K3_BindingAttr : K3_Attr<"Binding", "binding"> {
  let summary = "what a kernel parameter is bound to: `#k3.binding<buffer \"stream\", writes>`";
  let parameters = (ins EnumParameter<K3_BindingKind>:$kind, "::mlir::StringAttr":$name, "bool":$writes);
  let hasCustomAssemblyFormat = 1;
}

def K3_LayerScalarAttr : K3_Attr<"LayerScalar", "layer_scalar"> {
  let summary = "a scalar from the layer table: `sources`, `slot` or `mlp_sources`";
  let parameters = (ins "::mlir::StringAttr":$name);
  let assemblyFormat = "`<` $name `>`";
}

def K3_WeightSlotAttr : K3_Attr<"WeightSlot", "weight_slot"> {
  let summary = "a weight that a section reads: its key, the tensor as kernels see it, and whether it is a table of experts";
  let parameters = (ins "::mlir::StringAttr":$name, "::mlir::RankedTensorType":$type, "bool":$experts);
  let hasCustomAssemblyFormat = 1;
}

def K3_StateSlotAttr : K3_Attr<"StateSlot", "state_slot"> {
  let summary = "a state of a layer kind: its name and the pool it lives in, `[slots or pages, ...]`";
  let parameters = (ins "::mlir::StringAttr":$name, "::mlir::RankedTensorType":$type);
  let assemblyFormat = "`<` $name `,` $type `>`";
}

#endif // K3_EXEC_ATTRS_TD
