// Products of f32 inputs have as many instructions as the module says that inputs have bf16 terms.
// RUN: sed 's/TERMS/2/' %s | k3-opt --k3-configure-pipeline=gpu --k3-kernels-pipeline=gpu --k3-gpu-print-ptx -o /dev/null > %t.2
// RUN: sed 's/TERMS/3/' %s | k3-opt --k3-configure-pipeline=gpu --k3-kernels-pipeline=gpu --k3-gpu-print-ptx -o /dev/null > %t.3
// RUN: grep -c 'wgmma.mma_async' %t.2 | FileCheck %s --check-prefix=TWO
// RUN: grep -c 'wgmma.mma_async' %t.3 | FileCheck %s --check-prefix=THREE
// RUN: grep -c 'mma.sync' %t.2 | FileCheck %s --check-prefix=ABSORB2
// RUN: grep -c 'mma.sync' %t.3 | FileCheck %s --check-prefix=ABSORB3
// RUN: sed 's/TERMS/4/' %s | not k3-opt --k3-configure-pipeline=gpu 2>&1 | FileCheck %s --check-prefix=BAD
// TWO: {{^}}8{{$}}
// THREE: {{^}}12{{$}}
// ABSORB2: {{^}}128{{$}}
// ABSORB3: {{^}}192{{$}}
// BAD: error: expected 2 or 3 as 'k3.x_terms', got 4

module attributes {k3.x_terms = TERMS : i64, k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {
func.func private @linear(%x: tensor<?x2304xf32>, %w: tensor<4096x2304xbf16>, %y: tensor<?x4096xf32>) -> tensor<?x4096xf32> attributes {k3.kernel} {
  %0 = k3.linear ins(%x, %w : tensor<?x2304xf32>, tensor<4096x2304xbf16>) outs(%y : tensor<?x4096xf32>) -> tensor<?x4096xf32>
  return %0 : tensor<?x4096xf32>
}
func.func private @absorb(%q: tensor<?x32x192xf32>, %w: tensor<32x256x512xbf16>, %y: tensor<?x32x576xf32>) -> tensor<?x32x576xf32> attributes {k3.kernel} {
  %0 = k3.mla.absorb ins(%q, %w : tensor<?x32x192xf32>, tensor<32x256x512xbf16>) outs(%y : tensor<?x32x576xf32>) {nope = 128 : i64} -> tensor<?x32x576xf32>
  return %0 : tensor<?x32x576xf32>
}
}
