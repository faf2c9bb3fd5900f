//===- K3Enums.td - enumerations of the k3 dialect -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_ENUMS_TD
#define K3_ENUMS_TD

include "mlir/IR/EnumAttr.td"
include "dialects/k3/IR/K3Dialect.td"

class K3_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mlir::k3";
  let genSpecializedAttr = 0;
}

class K3_EnumAttr<EnumInfo info, string attrMnemonic> : EnumAttr<K3_Dialect, info, attrMnemonic> {
  let assemblyFormat = "`<` $value `>`";
}

def K3_GateKind : K3_Enum<"GateKind", "decay function of a KDA layer", [
    I32EnumAttrCase<"bounded_sigmoid", 0>, I32EnumAttrCase<"softplus", 1>]>;
def K3_GateKindAttr : K3_EnumAttr<K3_GateKind, "gate_kind">;

def K3_Activation : K3_Enum<"Activation", "gated linear unit", [
    I32EnumAttrCase<"situ", 0>, I32EnumAttrCase<"swiglu", 1>]>;
def K3_ActivationAttr : K3_EnumAttr<K3_Activation, "activation">;

def K3_Anchor : K3_Enum<"Anchor", "reference row of the exponents inside a chunk", [
    I32EnumAttrCase<"zero", 0>, I32EnumAttrCase<"mid_row", 1>, I32EnumAttrCase<"pairwise", 2>,
    I32EnumAttrCase<"tile_row", 3>]>;
def K3_AnchorAttr : K3_EnumAttr<K3_Anchor, "anchor">;

def K3_Phase : K3_Enum<"Phase", "what a step computes", [
    I32EnumAttrCase<"prefill", 0>, I32EnumAttrCase<"decode", 1>]>;
def K3_PhaseAttr : K3_EnumAttr<K3_Phase, "phase">;

def K3_StateRow : K3_Enum<"StateRow", "row index of a stored KDA state", [
    I32EnumAttrCase<"key", 0>, I32EnumAttrCase<"value", 1>]>;
def K3_StateRowAttr : K3_EnumAttr<K3_StateRow, "state_row">;

def K3_BufferRole : K3_Enum<"BufferRole", "what a buffer of a program is for", [
    I32EnumAttrCase<"input", 0>, I32EnumAttrCase<"output", 1>, I32EnumAttrCase<"persistent", 2>,
    I32EnumAttrCase<"transient", 3>]>;
def K3_BufferRoleAttr : K3_EnumAttr<K3_BufferRole, "buffer_role">;

def K3_BindingKind : K3_Enum<"BindingKind", "what a kernel parameter is bound to", [
    I32EnumAttrCase<"buffer", 0>, I32EnumAttrCase<"weight", 1>, I32EnumAttrCase<"layer_weight", 2>,
    I32EnumAttrCase<"layer_state", 3>]>;

#endif // K3_ENUMS_TD
