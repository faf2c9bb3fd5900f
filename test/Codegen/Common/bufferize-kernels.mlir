// RUN: k3-opt %s --pass-pipeline='builtin.module(func.func(k3-bufferize-kernels,canonicalize,cse,k3-place-temporaries))' --split-input-file --verify-diagnostics | FileCheck %s

// Reshapes around the root become views; the destination is written in place.
// CHECK-LABEL: func.func private @reshaped
// CHECK-SAME: (%[[X:.*]]: memref<?x64xf32>, %[[W:.*]]: memref<16xf32>, %[[Y:.*]]: memref<?x64xf32>)
// CHECK-DAG: %[[XR:.*]] = memref.expand_shape %[[X]]
// CHECK-DAG: %[[YR:.*]] = memref.expand_shape %[[Y]]
// CHECK: k3.rms_norm ins({{.*}}) outs(%{{.*}} : memref<?x16xf32
// CHECK-NOT: memref.copy
// CHECK: return
// CHECK-NEXT: }
func.func private @reshaped(%x: tensor<?x64xf32>, %w: tensor<16xf32>, %y: tensor<?x64xf32>) -> tensor<?x64xf32>
    attributes {k3.kernel} {
  %c0 = arith.constant 0 : index
  %t = tensor.dim %x, %c0 : tensor<?x64xf32>
  %x3 = tensor.expand_shape %x [[0], [1, 2]] output_shape [%t, 4, 16] : tensor<?x64xf32> into tensor<?x4x16xf32>
  %y3 = tensor.expand_shape %y [[0], [1, 2]] output_shape [%t, 4, 16] : tensor<?x64xf32> into tensor<?x4x16xf32>
  %x2 = tensor.collapse_shape %x3 [[0, 1], [2]] : tensor<?x4x16xf32> into tensor<?x16xf32>
  %y2 = tensor.collapse_shape %y3 [[0, 1], [2]] : tensor<?x4x16xf32> into tensor<?x16xf32>
  %0 = k3.rms_norm ins(%x2, %w : tensor<?x16xf32>, tensor<16xf32>) outs(%y2 : tensor<?x16xf32>) {eps = 1.0e-5} -> tensor<?x16xf32>
  %r3 = tensor.expand_shape %0 [[0, 1], [2]] output_shape [%t, 4, 16] : tensor<?x16xf32> into tensor<?x4x16xf32>
  %r = tensor.collapse_shape %r3 [[0], [1, 2]] : tensor<?x4x16xf32> into tensor<?x64xf32>
  return %r : tensor<?x64xf32>
}

// -----

// expected-error @+1 {{expected argument 1 to be the destination of a 'tensor<8xf32>', got 'tensor<4xf32>'}}
func.func private @wrong_destination(%x: tensor<8xf32>, %y: tensor<4xf32>) -> tensor<8xf32> attributes {k3.kernel} {
  return %x : tensor<8xf32>
}

// -----

func.func private @not_in_place(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> attributes {k3.kernel} {
  // expected-error @+1 {{result 0 is not computed in place in its destination}}
  return %x : tensor<8xf32>
}

// -----

// Both results of the product would need the state as it was.
func.func private @copy_of_state(%x: tensor<?x512xf32>, %w: tensor<256x512xbf16>, %y: tensor<?x256xf32>, %z: tensor<?x256xf32>)
    -> (tensor<?x256xf32>, tensor<?x256xf32>) attributes {k3.kernel} {
  // expected-error @below {{must update its destinations in place, but needs a copy of an argument}}
  %0 = k3.linear ins(%x, %w : tensor<?x512xf32>, tensor<256x512xbf16>) outs(%y : tensor<?x256xf32>) {accumulate} -> tensor<?x256xf32>
  %1 = k3.linear ins(%x, %w : tensor<?x512xf32>, tensor<256x512xbf16>) outs(%y : tensor<?x256xf32>) {accumulate} -> tensor<?x256xf32>
  return %0, %1 : tensor<?x256xf32>, tensor<?x256xf32>
}
