// RUN: k3-opt %s --k3-outline-executable="name=gpu" | FileCheck %s

// Products of whole bindings in bf16 say which these are: x, weight, out, accumulate, and the scalar with the number of the
// matrix in out, behind the sizes.
module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "">} {
// CHECK: k3.exec.kernel @plain in @gpu{{.*}}{k3.product = array<i64: 0, 1, 2, 0, -1>}
func.func private @plain(%x: tensor<?x64xbf16>, %w: tensor<32x64xbf16>, %out: tensor<?x32xbf16>) -> tensor<?x32xbf16> attributes {k3.kernel, k3.source_op = "k3.linear"} {
  %0 = k3.linear ins(%x, %w : tensor<?x64xbf16>, tensor<32x64xbf16>) outs(%out : tensor<?x32xbf16>) {bf16_x, kernel_config = #k3.kernel_config<tiles = [0, 0], strategy = "gemm", grid = [132], threads = 384>} -> tensor<?x32xbf16>
  return %0 : tensor<?x32xbf16>
}
// CHECK-NEXT: k3.exec.kernel @added in @gpu{{.*}}{k3.product = array<i64: 0, 1, 2, 1, 2>}
func.func private @added(%x: tensor<?x8x8xbf16>, %w: tensor<32x64xbf16>, %slot: index, %stream: tensor<3x?x32xf32>) -> tensor<3x?x32xf32> attributes {k3.kernel, k3.source_op = "k3.linear"} {
  %rows = tensor.collapse_shape %x [[0], [1, 2]] : tensor<?x8x8xbf16> into tensor<?x64xbf16>
  %c0 = arith.constant 0 : index
  %T = tensor.dim %x, %c0 : tensor<?x8x8xbf16>
  %out = tensor.extract_slice %stream[%slot, 0, 0] [1, %T, 32] [1, 1, 1] : tensor<3x?x32xf32> to tensor<?x32xf32>
  %0 = k3.linear ins(%rows, %w : tensor<?x64xbf16>, tensor<32x64xbf16>) outs(%out : tensor<?x32xf32>) {accumulate, bf16_x, kernel_config = #k3.kernel_config<tiles = [0, 0], strategy = "gemm", grid = [132], threads = 384>} -> tensor<?x32xf32>
  %1 = tensor.insert_slice %0 into %stream[%slot, 0, 0] [1, %T, 32] [1, 1, 1] : tensor<?x32xf32> into tensor<3x?x32xf32>
  return %1 : tensor<3x?x32xf32>
}
// CHECK-NEXT: k3.exec.kernel @first_of_one in @gpu{{.*}}{k3.product = array<i64: 0, 1, 2, 1, -1>}
func.func private @first_of_one(%x: tensor<?x64xbf16>, %w: tensor<32x64xbf16>, %stream: tensor<1x?x32xf32>) -> tensor<1x?x32xf32> attributes {k3.kernel, k3.source_op = "k3.linear"} {
  %c0 = arith.constant 0 : index
  %T = tensor.dim %x, %c0 : tensor<?x64xbf16>
  %out = tensor.extract_slice %stream[0, 0, 0] [1, %T, 32] [1, 1, 1] : tensor<1x?x32xf32> to tensor<?x32xf32>
  %0 = k3.linear ins(%x, %w : tensor<?x64xbf16>, tensor<32x64xbf16>) outs(%out : tensor<?x32xf32>) {accumulate, bf16_x, kernel_config = #k3.kernel_config<tiles = [0, 0], strategy = "gemm", grid = [132], threads = 384>} -> tensor<?x32xf32>
  %1 = tensor.insert_slice %0 into %stream[0, 0, 0] [1, %T, 32] [1, 1, 1] : tensor<?x32xf32> into tensor<1x?x32xf32>
  return %1 : tensor<1x?x32xf32>
}

// x in f32; part of the rows.
// CHECK-NEXT: k3.exec.kernel @f32_x in @gpu
// CHECK-NOT: k3.product
func.func private @f32_x(%x: tensor<?x64xf32>, %w: tensor<32x64xbf16>, %out: tensor<?x32xf32>) -> tensor<?x32xf32> attributes {k3.kernel, k3.source_op = "k3.linear"} {
  %0 = k3.linear ins(%x, %w : tensor<?x64xf32>, tensor<32x64xbf16>) outs(%out : tensor<?x32xf32>) {bf16_x, kernel_config = #k3.kernel_config<tiles = [0, 0], strategy = "gemm", grid = [132], threads = 384>} -> tensor<?x32xf32>
  return %0 : tensor<?x32xf32>
}
func.func private @columns(%x: tensor<?x64xbf16>, %w: tensor<32x64xbf16>, %stream: tensor<1x?x40xf32>) -> tensor<1x?x40xf32> attributes {k3.kernel, k3.source_op = "k3.linear"} {
  %c0 = arith.constant 0 : index
  %T = tensor.dim %x, %c0 : tensor<?x64xbf16>
  %out = tensor.extract_slice %stream[0, 0, 8] [1, %T, 32] [1, 1, 1] : tensor<1x?x40xf32> to tensor<?x32xf32>
  %0 = k3.linear ins(%x, %w : tensor<?x64xbf16>, tensor<32x64xbf16>) outs(%out : tensor<?x32xf32>) {bf16_x, kernel_config = #k3.kernel_config<tiles = [0, 0], strategy = "gemm", grid = [132], threads = 384>} -> tensor<?x32xf32>
  %1 = tensor.insert_slice %0 into %stream[0, 0, 8] [1, %T, 32] [1, 1, 1] : tensor<?x32xf32> into tensor<1x?x40xf32>
  return %1 : tensor<1x?x40xf32>
}
}
