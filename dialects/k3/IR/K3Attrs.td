//===- K3Attrs.td - attributes of the k3 dialect -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_ATTRS_TD
#define K3_ATTRS_TD

include "dialects/k3/IR/K3Enums.td"

def K3_GridDimAttr : K3_Attr<"GridDim", "grid_dim"> {
  let summary = "workgroups along one dimension of a grid: `#k3.grid_dim<T / 64>`, or a constant, `#k3.grid_dim<132>`";
  let description = [{
    `name` is a dimension of the root's shape table, which `tile` of fall to one workgroup: `max(1, ceil(size / tile))`
    workgroups. Without a name (empty) there are `tile` workgroups.
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$tile);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def K3_TensorMapAttr : K3_Attr<"TensorMap", "tensor_map"> {
  let summary = "a tiled view of a kernel's binding that the kernel takes by value (CUtensorMap)";
  let description = [{
    `box` has elements per dimension, outermost first (dimensions before the last two count as one); `swizzle` is 0, 32,
    64 or 128 bytes.
  }];
  let parameters = (ins "int64_t":$binding, ArrayRefParameter<"int64_t">:$box, "int64_t":$swizzle);
  let assemblyFormat = "`<` $binding `,` `box` `=` custom<Tiles>($box) `,` `swizzle` `=` $swizzle `>`";
  let genVerifyDecl = 1;
}

def K3_KernelConfigAttr : K3_Attr<"KernelConfig", "kernel_config"> {
  let summary = "how a kernel is cut and launched";
  let description = [{
    One tile size per parallel loop of its root op (0 = whole), and a strategy name. The grid is that of the loops with
    their tiles, or `grid`. The launch (`threads` > 0) is for GPUs: threads of a workgroup, bytes of dynamic shared
    memory, workgroups of a cluster along x, and tensor maps.

    `#k3.kernel_config<tiles = [0, 0], strategy = "gemm", grid = [n / 256, T / 128], threads = 384, shared_bytes = 1024>`
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$tiles, StringRefParameter<>:$strategy,
                        ArrayRefParameter<"::mlir::k3::GridDimAttr">:$grid, "int64_t":$threads, "int64_t":$sharedBytes,
                        "int64_t":$cluster, ArrayRefParameter<"::mlir::k3::TensorMapAttr">:$tensorMaps);
  let builders = [AttrBuilder<(ins "::llvm::ArrayRef<int64_t>":$tiles, "::llvm::StringRef":$strategy), [{
    return $_get($_ctxt, tiles, strategy, ::llvm::ArrayRef<::mlir::k3::GridDimAttr>(), /*threads=*/0,
                 /*sharedBytes=*/0, /*cluster=*/1, ::llvm::ArrayRef<::mlir::k3::TensorMapAttr>());
  }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def K3_LaunchAttr : K3_Attr<"Launch", "launch"> {
  let summary = "how a CUDA kernel is launched, and what ptxas reports of it";
  let parameters = (ins "int64_t":$threads, DefaultValuedParameter<"int64_t", "0">:$shared_bytes,
                        DefaultValuedParameter<"int64_t", "1">:$cluster,
                        OptionalArrayRefParameter<"::mlir::k3::TensorMapAttr">:$tensor_maps,
                        DefaultValuedParameter<"int64_t", "0">:$registers,
                        DefaultValuedParameter<"int64_t", "0">:$static_shared_bytes,
                        DefaultValuedParameter<"int64_t", "0">:$spill_bytes,
                        DefaultValuedParameter<"int64_t", "0">:$stack_bytes);
  let hasCustomAssemblyFormat = 1;
}

def K3_TargetAttr : K3_Attr<"Target", "target"> {
  let summary = "a machine to compile for: `x86-64` with an LLVM CPU name and features, or `nvidia` with a chip";
  let parameters = (ins StringRefParameter<>:$arch, StringRefParameter<>:$cpu, StringRefParameter<>:$features);
  let assemblyFormat = "`<` `arch` `=` $arch `,` `cpu` `=` $cpu `,` `features` `=` $features `>`";
}

include "dialects/k3/IR/K3ExecAttrs.td"

#endif // K3_ATTRS_TD
