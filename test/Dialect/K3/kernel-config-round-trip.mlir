// RUN: k3-opt %s --verify-roundtrip | FileCheck %s
// RUN: k3-opt %s --mlir-print-op-generic | k3-opt | FileCheck %s

// CHECK: a = #k3.kernel_config<tiles = [], strategy = "generic">
// CHECK-SAME: b = #k3.kernel_config<tiles = [0, 16], strategy = "generic", threads = 256>
// CHECK-SAME: c = #k3.kernel_config<tiles = [0, 0], strategy = "gemm", grid = [n / 256, T / 128, 4], threads = 384, shared_bytes = 230400, cluster = 2, tensor_maps = [<0, box = [128, 64], swizzle = 128>, <1, box = [1, 256, 64], swizzle = 0>]>
// CHECK-SAME: d = #k3.grid_dim<T / 64>
// CHECK-SAME: e = #k3.grid_dim<132>
// CHECK-SAME: f = #k3.launch<threads = 32>
// CHECK-SAME: g = #k3.launch<threads = 384, shared_bytes = 16, cluster = 2, tensor_maps = [<0, box = [64], swizzle = 32>], registers = 168, static_shared_bytes = 1, spill_bytes = 2, stack_bytes = 3>
module attributes {test.attrs = {
  a = #k3.kernel_config<tiles = [], strategy = "generic">,
  b = #k3.kernel_config<tiles = [0, 16], strategy = "generic", threads = 256>,
  c = #k3.kernel_config<tiles = [0, 0], strategy = "gemm", grid = [n / 256, T / 128, 4], threads = 384, shared_bytes = 230400, cluster = 2, tensor_maps = [<0, box = [128, 64], swizzle = 128>, <1, box = [1, 256, 64], swizzle = 0>]>,
  d = #k3.grid_dim<T / 64>,
  e = #k3.grid_dim<132>,
  f = #k3.launch<threads = 32>,
  g = #k3.launch<threads = 384, shared_bytes = 16, cluster = 2, tensor_maps = [<0, box = [64], swizzle = 32>], registers = 168, static_shared_bytes = 1, spill_bytes = 2, stack_bytes = 3>
}} {
}
