// A sequence boundary that falls aborts the run with a message instead of reading outside the buffers.
// RUN: k3-opt %s --generate-runtime-verification="verbose-level=0" --k3-decompose-structured --canonicalize \
// RUN:   --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" \
// RUN:   --canonicalize --convert-linalg-to-loops --expand-strided-metadata --lower-affine --convert-scf-to-cf \
// RUN:   --convert-math-to-libm --convert-to-llvm --reconcile-unrealized-casts -o %t
// RUN: not --crash stdbuf -o0 mlir-runner %t -e main --entry-point-result=void \
// RUN:   --shared-libs=%mlir_lib_dir/libmlir_runner_utils.so,%mlir_lib_dir/libmlir_c_runner_utils.so 2>&1 | FileCheck %s

// CHECK: expected 'cu' never to fall
func.func @main() {
  %x = arith.constant dense<1.0> : tensor<2x8xf32>
  %weight = arith.constant dense<1.0> : tensor<8x4xf32>
  %cu = arith.constant dense<[0, 5, 2]> : tensor<3xi32>
  %slots = arith.constant dense<[0, 1]> : tensor<2xi32>
  %out = tensor.empty() : tensor<2x8xf32>
  %state = tensor.empty() : tensor<2x3x8xf32>
  %0:2 = k3.kda.short_conv ins(%x, %weight, %cu, %slots : tensor<2x8xf32>, tensor<8x4xf32>, tensor<3xi32>, tensor<2xi32>)
      outs(%out, %state : tensor<2x8xf32>, tensor<2x3x8xf32>) {silu = true} -> tensor<2x8xf32>, tensor<2x3x8xf32>
  return
}
