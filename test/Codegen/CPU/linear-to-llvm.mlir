// RUN: k3-opt %s --k3-configure-pipeline --k3-kernels-pipeline | FileCheck %s --check-prefixes=CHECK,V4
// RUN: sed 's/x86-64-v4/x86-64-v3/' %s | k3-opt --k3-configure-pipeline --k3-kernels-pipeline | FileCheck %s --check-prefixes=CHECK,V3

module attributes {k3.target = #k3.target<arch = "x86-64", cpu = "x86-64-v4", features = "">} {
  // The weight is widened in registers: no buffer holds it in another form.
  // CHECK-LABEL: llvm.func internal @kernel.body
  // CHECK-NOT: llvm.alloca
  // V4: llvm.intr.fma(%{{.*}}) : (vector<16xf32>
  // V3: llvm.intr.fma(%{{.*}}) : (vector<8xf32>
  // CHECK: llvm.func @kernel(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr) -> i32
  // CHECK-NOT: unrealized_conversion_cast
  func.func private @kernel(%x: tensor<?x320xf32>, %w: tensor<256x320xbf16>, %y: tensor<?x256xf32>) -> tensor<?x256xf32>
      attributes {k3.kernel} {
    %0 = k3.linear ins(%x, %w : tensor<?x320xf32>, tensor<256x320xbf16>) outs(%y : tensor<?x256xf32>) -> tensor<?x256xf32>
    return %0 : tensor<?x256xf32>
  }
}
