// RUN: k3-opt %s --k3-configure-pipeline=gpu | FileCheck %s --check-prefix=CONFIG
// RUN: k3-opt %s --k3-configure-pipeline=gpu --k3-kernels-pipeline=gpu --k3-gpu-print-ptx -o %t.mlir | FileCheck %s
// RUN: k3-opt %t.mlir --verify-roundtrip -o /dev/null

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {

// CONFIG-LABEL: @wide
// CONFIG: kernel_config = #k3.kernel_config<tiles = [0], strategy = "row", grid = [T / 1], threads = 512, shared_bytes = 64>
// A row of 7168 f32 is 1792 runs of 16 bytes: three for each of 512 threads, and half a round.
// CHECK: .target sm_90a
// CHECK-LABEL: .entry wide(
// CHECK: .maxntid 512
// CHECK-COUNT-4: ld.global.nc.v4.b32
// CHECK: shfl.sync.bfly
// CHECK: bar.sync
// CHECK: rsqrt.approx.ftz.f32
// CHECK: st.global.v4.b32
// CHECK-NOT: .local
// CHECK: ret;
func.func private @wide(%x: tensor<?x7168xf32>, %w: tensor<7168xbf16>, %y: tensor<?x7168xf32>) -> tensor<?x7168xf32> attributes {k3.kernel} {
  %0 = k3.rms_norm ins(%x, %w : tensor<?x7168xf32>, tensor<7168xbf16>) outs(%y : tensor<?x7168xf32>) {eps = 1.0e-5 : f64} -> tensor<?x7168xf32>
  return %0 : tensor<?x7168xf32>
}

// CONFIG-LABEL: @narrow
// CONFIG: grid = [T / 1], threads = 32,
// CHECK-LABEL: .entry narrow(
// CHECK: .maxntid 32
// CHECK-NOT: bar.sync
// CHECK: ret;
func.func private @narrow(%x: tensor<?x48xf32>, %w: tensor<48xbf16>, %y: tensor<?x48xf32>) -> tensor<?x48xf32> attributes {k3.kernel} {
  %0 = k3.rms_norm ins(%x, %w : tensor<?x48xf32>, tensor<48xbf16>) outs(%y : tensor<?x48xf32>) {eps = 1.0e-5 : f64} -> tensor<?x48xf32>
  return %0 : tensor<?x48xf32>
}
}
