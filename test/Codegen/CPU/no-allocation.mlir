// RUN: k3-opt %s --pass-pipeline='builtin.module(func.func(k3-configure-kernels{force-generic},k3-tile-to-grid,canonicalize,cse,k3-decompose,cse,k3-bufferize-kernels,canonicalize,cse,k3-place-temporaries))' | FileCheck %s

// A state update, decomposed: nothing is allocated and the state is not copied.
// CHECK-LABEL: func.func private @kernel
// CHECK-NOT: memref.alloc(
// CHECK-NOT: memref.copy
// CHECK: return
func.func private @kernel(%q: tensor<?x4x64xf32>, %k: tensor<?x4x64xf32>, %v: tensor<?x4x32xf32>, %b: tensor<?x4xf32>,
                          %slots: tensor<?xi32>, %g: tensor<?x4x64xf32>, %o: tensor<?x4x32xf32>, %s: tensor<?x4x32x64xf32>)
    -> (tensor<?x4x32xf32>, tensor<?x4x32x64xf32>) attributes {k3.kernel} {
  %0:2 = k3.kda.recurrent_step ins(%q, %k, %v, %b, %slots : tensor<?x4x64xf32>, tensor<?x4x64xf32>, tensor<?x4x32xf32>, tensor<?x4xf32>, tensor<?xi32>)
      g(%g : tensor<?x4x64xf32>) outs(%o, %s : tensor<?x4x32xf32>, tensor<?x4x32x64xf32>)
      {scale = 0.125 : f64, l2norm = true, delta = true} -> tensor<?x4x32xf32>, tensor<?x4x32x64xf32>
  return %0#0, %0#1 : tensor<?x4x32xf32>, tensor<?x4x32x64xf32>
}
