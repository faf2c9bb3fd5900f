// RUN: k3-opt %s --pass-pipeline='builtin.module(func.func(k3-relax-reductions))' | FileCheck %s

#id = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>

// CHECK-LABEL: func.func private @kernel
// CHECK: iterator_types = ["reduction"]
// CHECK: arith.addf %{{.*}} fastmath<{{.*}}reassoc{{.*}}>
// CHECK: iterator_types = ["parallel"]
// CHECK: arith.addf %{{[^ ]*}}, %{{[^ ]*}} : f32
func.func private @kernel(%x: memref<64xf32>, %sum: memref<f32>, %y: memref<64xf32>) attributes {k3.kernel} {
  linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction"]}
      ins(%x : memref<64xf32>) outs(%sum : memref<f32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %out, %in : f32
    linalg.yield %0 : f32
  }
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : memref<64xf32>) outs(%y : memref<64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %in, %in : f32
    linalg.yield %0 : f32
  }
  return
}
