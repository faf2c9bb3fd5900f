//===- K3Attrs.td - attributes of the k3 dialect -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_ATTRS_TD
#define K3_ATTRS_TD

include "dialects/k3/IR/K3Enums.td"

def K3_KernelConfigAttr : K3_Attr<"KernelConfig", "kernel_config"> {
  let summary = "how a kernel is cut: one tile size per parallel loop of its root op (0 = whole), and a strategy name";
  let parameters = (ins ArrayRefParameter<"int64_t">:$tiles, StringRefParameter<>:$strategy);
  let assemblyFormat = "`<` `tiles` `=` custom<Tiles>($tiles) `,` `strategy` `=` $strategy `>`";
}

def K3_TargetAttr : K3_Attr<"Target", "target"> {
  let summary = "a machine to compile for: `x86-64` with an LLVM CPU name and features, or `nvidia` with a chip";
  let parameters = (ins StringRefParameter<>:$arch, StringRefParameter<>:$cpu, StringRefParameter<>:$features);
  let assemblyFormat = "`<` `arch` `=` $arch `,` `cpu` `=` $cpu `,` `features` `=` $features `>`";
}

include "dialects/k3/IR/K3ExecAttrs.td"

#endif // K3_ATTRS_TD
