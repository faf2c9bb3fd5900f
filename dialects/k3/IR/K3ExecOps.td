//===- K3ExecOps.td - programs: what the runtime interprets -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// One op per table of runtime/schemas/k3_artifact.fbs; names where the artifact has ordinals. Nothing here has operands
// or results: a program is data.
//
//===----------------------------------------------------------------------===//
#ifndef K3_EXEC_OPS_TD
#define K3_EXEC_OPS_TD

include "mlir/IR/SymbolInterfaces.td"
include "dialects/k3/IR/K3Attrs.td"

def K3_ExecExecutableOp : K3_Op<"exec.executable", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "machine code of all kernels for one target";
  let description = [{
    `elf` is a shared object that exports a `k3_executable` (abi.h) with the kernels in the order of their ordinals. For an
    `nvidia` target it is a cubin (which is an ELF file too) that exports every kernel by its name.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, K3_TargetAttr:$target, ElementsAttr:$elf);
  let assemblyFormat = "$sym_name `target` `(` $target `)` `elf` `(` $elf `)` attr-dict";
  let hasVerifier = 1;
}

def K3_ExecKernelOp : K3_Op<"exec.kernel", [Symbol, HasParent<"::mlir::ModuleOp">,
                                            DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a kernel inside an executable";
  let description = [{
    Stands for the kernel function once its code is in `executable`. `source_op` is the structured op it was made from;
    `scratch_bytes` is what every thread that runs it provides; `launch` is there for kernels of a GPU.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$executable, I64Attr:$ordinal,
                       StrAttr:$source_op, DefaultValuedAttr<I64Attr, "0">:$scratch_bytes,
                       OptionalAttr<K3_LaunchAttr>:$launch);
  let assemblyFormat = "$sym_name `in` $executable `[` $ordinal `]` `from` $source_op (`launch` $launch^)? attr-dict";
  let hasVerifier = 1;
}

def K3_ExecProgramOp : K3_Op<"exec.program", [Symbol, HasParent<"::mlir::ModuleOp">, SingleBlock, NoTerminator,
                                              NoRegionArguments]> {
  let summary = "one step: prologue, the layers in table order, epilogue";
  let description = [{
    `symbols` are the runtime's sizes of a step and `maxima` the largest value of each, which the arena is planned for;
    0 = no size in the arena depends on it. The body holds buffers, one prologue, the layer kinds and one epilogue, in this order. `chunk_rows` is the length that
    the `chunks` input is built with, 0 if it is not used. `exact`: a row's values have the same bits whatever other rows a
    step has and however the sequence was cut into steps before.

    * (C1) one maximum per symbol.
    * (C2) names of buffers and of layer kinds are unique.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, K3_PhaseAttr:$phase, StrArrayAttr:$symbols,
                       DenseI64ArrayAttr:$maxima, I64Attr:$chunk_rows, OptionalAttr<I64Attr>:$arena_bytes, UnitAttr:$exact);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `phase` `(` $phase `)` `symbols` $symbols `maxima` $maxima attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The largest value of a symbol; nothing if the program does not have it or states no maximum.
    std::optional<int64_t> getMaximum(::llvm::StringRef symbol);
    std::vector<ExecBufferOp> getBuffers();
    ExecPrologueOp getPrologue();
    std::vector<ExecLayerKindOp> getLayerKinds();
    ExecEpilogueOp getEpilogue();
    ExecBufferOp lookupBuffer(::llvm::StringRef name);
    /// Prologue, layer kinds and epilogue, in order.
    ::llvm::SmallVector<::mlir::Operation *> getSections();
  }];
}

def K3_ExecBufferOp : K3_Op<"exec.buffer", [HasParent<"ExecProgramOp">]> {
  let summary = "a dense row-major tensor";
  let description = [{
    `input` is filled by the runtime before a step, `output` is read after it; both lie in memory of its own. In the arena,
    `persistent` lives through the whole step, `transient` inside one section only. Their offset and bytes (for the largest
    sizes) are planned by `k3-plan-buffers`.

    * (C1) one term per dimension, in the program's symbols.
  }];
  let arguments = (ins StrAttr:$name, K3_BufferRoleAttr:$role, TypeAttr:$element_type,
                       TypedArrayAttrBase<K3_TermAttr, "terms">:$shape, OptionalAttr<I64Attr>:$arena_offset,
                       OptionalAttr<I64Attr>:$arena_bytes);
  let assemblyFormat = "$name $role $element_type $shape attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Bytes at the largest sizes of the program; nothing if that leaves int64_t.
    std::optional<int64_t> getMaximalBytes();
  }];
}

class K3_ExecSection<string mnemonic, list<Trait> traits = []>
    : K3_Op<mnemonic, !listconcat(traits, [HasParent<"ExecProgramOp">, SingleBlock, NoTerminator, NoRegionArguments])> {
  let regions = (region SizedRegion<1>:$body);
  let extraClassDeclaration = [{
    std::vector<ExecGroupOp> getGroups();
  }];
}
def K3_WeightSlots : TypedArrayAttrBase<K3_WeightSlotAttr, "weights">;
def K3_StateSlots : TypedArrayAttrBase<K3_StateSlotAttr, "states">;

def K3_ExecPrologueOp : K3_ExecSection<"exec.prologue"> {
  let summary = "what runs before the layers";
  let arguments = (ins K3_WeightSlots:$weights);
  let assemblyFormat = "`weights` $weights attr-dict-with-keyword $body";
}

def K3_ExecEpilogueOp : K3_ExecSection<"exec.epilogue"> {
  let summary = "what runs after the layers";
  let arguments = (ins K3_WeightSlots:$weights);
  let assemblyFormat = "`weights` $weights attr-dict-with-keyword $body";
}

def K3_ExecLayerKindOp : K3_ExecSection<"exec.layer_kind"> {
  let summary = "what runs for every layer of a kind";
  let description = [{
    `weights` and `states` are what a layer of this kind has, in the order of the layer table.

    * (C1) keys of weights and names of states are unique.
  }];
  let arguments = (ins StrAttr:$name, K3_WeightSlots:$weights, K3_StateSlots:$states);
  let assemblyFormat = "$name `weights` $weights `states` $states attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def K3_ExecGroupOp : K3_Op<"exec.group", [SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "dispatches that may run at the same time";
  let description = [{
    * (C1) no dispatch writes what another one of the group reads or writes.
  }];
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    std::vector<ExecDispatchOp> getDispatches();
  }];
}

def K3_ExecDispatchOp : K3_Op<"exec.dispatch", [HasParent<"ExecGroupOp">,
                                                DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "one kernel over a grid";
  let description = [{
    `grid` has one term per parallel loop of the kernel (the runtime runs at least one workgroup), `bindings` one entry
    per buffer parameter, `scalars` one entry per scalar parameter: the dynamic dimensions of the buffers in order, then
    the explicit ones.

    * (C1) up to three grid terms, in the program's symbols.
    * (C2) a binding names a buffer of the program or a slot of the section; weights are never written.
    * (C3) a scalar is a term, or inside a layer kind a layer scalar.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, TypedArrayAttrBase<K3_TermAttr, "terms">:$grid,
                       TypedArrayAttrBase<K3_BindingAttr, "bindings">:$bindings, ArrayAttr:$scalars, StrAttr:$label);
  let assemblyFormat = "$kernel `grid` $grid `bindings` $bindings `scalars` $scalars `label` $label attr-dict";
  let hasVerifier = 1;
}

#endif // K3_EXEC_OPS_TD
