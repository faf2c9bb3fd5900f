// REQUIRES: ptxas
// No spills, no serialised wgmma: both would be errors.
// RUN: k3-opt %s --k3-configure-pipeline=gpu --k3-kernels-pipeline=gpu -o %t.mlir
// RUN: k3-opt %t.mlir --k3-emit-binaries | FileCheck %s

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {
// CHECK: k3.exec.kernel @prepare0 in @gpu[0] from "" launch <threads = 512, shared_bytes = {{[0-9]+}}, registers = {{[0-9]+}}>
func.func private @prepare0(%q: tensor<?x2x128xbf16>, %k: tensor<?x2x128xbf16>, %v: tensor<?x2x128xbf16>, %g: tensor<?x2x128xbf16>, %beta: tensor<?x2xf32>, %chunks: tensor<?x2xi32>, %bias: tensor<2x128xf32>, %rate: tensor<2xf32>,
    %qg: tensor<?x2x64x128xbf16>, %w: tensor<?x2x64x128xbf16>, %u: tensor<?x2x64x128xbf16>, %kd: tensor<?x2x64x128xbf16>, %aqk: tensor<?x2x64x64xbf16>, %gl: tensor<?x2x128xf32>)
    -> (tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>) attributes {k3.kernel} {
  %r:6 = k3.kda.chunk_prepare ins(%q, %k, %v, %g, %beta, %chunks : tensor<?x2x128xbf16>, tensor<?x2x128xbf16>, tensor<?x2x128xbf16>, tensor<?x2x128xbf16>, tensor<?x2xf32>, tensor<?x2xi32>)
      dt_bias(%bias : tensor<2x128xf32>) a_log(%rate : tensor<2xf32>)
      outs(%qg, %w, %u, %kd, %aqk, %gl : tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>)
      {scale = 0.125 : f64, l2norm = true, anchor = #k3.anchor<tile_row>, gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64} -> tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5 : tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>
}
// CHECK: k3.exec.kernel @prepare1 in @gpu[1] from "" launch <threads = 512, shared_bytes = {{[0-9]+}}, registers = {{[0-9]+}}>
func.func private @prepare1(%q: tensor<?x2x128xf32>, %k: tensor<?x2x128xf32>, %v: tensor<?x2x128xf32>, %g: tensor<?x2x128xf32>, %beta: tensor<?x2xf32>, %chunks: tensor<?x2xi32>, %bias: tensor<2x128xf32>, %rate: tensor<2xf32>,
    %qg: tensor<?x2x64x128xbf16>, %w: tensor<?x2x64x128xbf16>, %u: tensor<?x2x64x128xbf16>, %kd: tensor<?x2x64x128xbf16>, %aqk: tensor<?x2x64x64xbf16>, %gl: tensor<?x2x128xf32>)
    -> (tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>) attributes {k3.kernel} {
  %r:6 = k3.kda.chunk_prepare ins(%q, %k, %v, %g, %beta, %chunks : tensor<?x2x128xf32>, tensor<?x2x128xf32>, tensor<?x2x128xf32>, tensor<?x2x128xf32>, tensor<?x2xf32>, tensor<?x2xi32>)
      dt_bias(%bias : tensor<2x128xf32>) a_log(%rate : tensor<2xf32>)
      outs(%qg, %w, %u, %kd, %aqk, %gl : tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>)
      {scale = 0.125 : f64, l2norm = true, anchor = #k3.anchor<tile_row>, gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64} -> tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5 : tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>
}
// CHECK: k3.exec.kernel @prepare2 in @gpu[2] from "" launch <threads = 256, shared_bytes = {{[0-9]+}}, registers = {{[0-9]+}}>
func.func private @prepare2(%q: tensor<?x2x128xbf16>, %k: tensor<?x2x128xbf16>, %v: tensor<?x2x128xbf16>, %g: tensor<?x2x128xbf16>, %beta: tensor<?x2xf32>, %chunks: tensor<?x2xi32>, %bias: tensor<2x128xf32>, %rate: tensor<2xf32>,
    %qg: tensor<?x2x64x128xbf16>, %w: tensor<?x2x64x128xbf16>, %u: tensor<?x2x64x128xbf16>, %kd: tensor<?x2x64x128xbf16>, %aqk: tensor<?x2x64x64xbf16>, %gl: tensor<?x2x128xf32>)
    -> (tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>) attributes {k3.kernel} {
  %r:6 = k3.kda.chunk_prepare ins(%q, %k, %v, %g, %beta, %chunks : tensor<?x2x128xbf16>, tensor<?x2x128xbf16>, tensor<?x2x128xbf16>, tensor<?x2x128xbf16>, tensor<?x2xf32>, tensor<?x2xi32>)
      dt_bias(%bias : tensor<2x128xf32>) a_log(%rate : tensor<2xf32>)
      outs(%qg, %w, %u, %kd, %aqk, %gl : tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>)
      {scale = 0.125 : f64, l2norm = true, anchor = #k3.anchor<pairwise>, gate = #k3.gate_kind<softplus>} -> tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5 : tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>
}
// CHECK: k3.exec.kernel @prepare3 in @gpu[3] from "" launch <threads = 256, shared_bytes = {{[0-9]+}}, registers = {{[0-9]+}}>
func.func private @prepare3(%q: tensor<?x2x128xf32>, %k: tensor<?x2x128xf32>, %v: tensor<?x2x128xf32>, %g: tensor<?x2x128xf32>, %beta: tensor<?x2xf32>, %chunks: tensor<?x2xi32>, %bias: tensor<2x128xf32>, %rate: tensor<2xf32>,
    %qg: tensor<?x2x64x128xbf16>, %w: tensor<?x2x64x128xbf16>, %u: tensor<?x2x64x128xbf16>, %kd: tensor<?x2x64x128xbf16>, %aqk: tensor<?x2x64x64xbf16>, %gl: tensor<?x2x128xf32>)
    -> (tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>) attributes {k3.kernel} {
  %r:6 = k3.kda.chunk_prepare ins(%q, %k, %v, %g, %beta, %chunks : tensor<?x2x128xf32>, tensor<?x2x128xf32>, tensor<?x2x128xf32>, tensor<?x2x128xf32>, tensor<?x2xf32>, tensor<?x2xi32>)
      dt_bias(%bias : tensor<2x128xf32>) a_log(%rate : tensor<2xf32>)
      outs(%qg, %w, %u, %kd, %aqk, %gl : tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>)
      {scale = 0.125 : f64, l2norm = true, anchor = #k3.anchor<pairwise>, gate = #k3.gate_kind<softplus>} -> tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5 : tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>
}
// CHECK: k3.exec.kernel @prepare4 in @gpu[4] from "" launch <threads = 512, shared_bytes = {{[0-9]+}}, registers = {{[0-9]+}}>
func.func private @prepare4(%q: tensor<?x2x128xbf16>, %k: tensor<?x2x128xbf16>, %v: tensor<?x2x128xbf16>, %g: tensor<?x2x128xf32>, %beta: tensor<?x2xf32>, %chunks: tensor<?x2xi32>, %qg: tensor<?x2x64x128xbf16>, %w: tensor<?x2x64x128xbf16>, %u: tensor<?x2x64x128xbf16>, %kd: tensor<?x2x64x128xbf16>, %aqk: tensor<?x2x64x64xbf16>, %gl: tensor<?x2x128xf32>)
    -> (tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>) attributes {k3.kernel} {
  %r:6 = k3.kda.chunk_prepare ins(%q, %k, %v, %g, %beta, %chunks : tensor<?x2x128xbf16>, tensor<?x2x128xbf16>, tensor<?x2x128xbf16>, tensor<?x2x128xf32>, tensor<?x2xf32>, tensor<?x2xi32>)
      outs(%qg, %w, %u, %kd, %aqk, %gl : tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>)
      {scale = 0.125 : f64, l2norm = true, anchor = #k3.anchor<tile_row>} -> tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5 : tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>
}
// CHECK: k3.exec.kernel @prepare5 in @gpu[5] from "" launch <threads = 256, shared_bytes = {{[0-9]+}}, registers = {{[0-9]+}}>
func.func private @prepare5(%q: tensor<?x2x128xf32>, %k: tensor<?x2x128xf32>, %v: tensor<?x2x128xf32>, %g: tensor<?x2x128xf32>, %beta: tensor<?x2xf32>, %chunks: tensor<?x2xi32>, %qg: tensor<?x2x64x128xbf16>, %w: tensor<?x2x64x128xbf16>, %u: tensor<?x2x64x128xbf16>, %kd: tensor<?x2x64x128xbf16>, %aqk: tensor<?x2x64x64xbf16>, %gl: tensor<?x2x128xf32>)
    -> (tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>) attributes {k3.kernel} {
  %r:6 = k3.kda.chunk_prepare ins(%q, %k, %v, %g, %beta, %chunks : tensor<?x2x128xf32>, tensor<?x2x128xf32>, tensor<?x2x128xf32>, tensor<?x2x128xf32>, tensor<?x2xf32>, tensor<?x2xi32>)
      outs(%qg, %w, %u, %kd, %aqk, %gl : tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>)
      {scale = 0.125 : f64, l2norm = true, anchor = #k3.anchor<pairwise>} -> tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5 : tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>
}
// CHECK: k3.exec.kernel @prepare6 in @gpu[6] from "" launch <threads = 128, shared_bytes = {{[0-9]+}}, registers = {{[0-9]+}}>
func.func private @prepare6(%q: tensor<?x2x64xbf16>, %k: tensor<?x2x64xbf16>, %v: tensor<?x2x64xbf16>, %g: tensor<?x2x64xbf16>, %beta: tensor<?x2xf32>, %chunks: tensor<?x2xi32>, %bias: tensor<2x64xf32>, %rate: tensor<2xf32>,
    %qg: tensor<?x2x64x64xbf16>, %w: tensor<?x2x64x64xbf16>, %u: tensor<?x2x64x64xbf16>, %kd: tensor<?x2x64x64xbf16>, %aqk: tensor<?x2x64x64xbf16>, %gl: tensor<?x2x64xf32>)
    -> (tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64xf32>) attributes {k3.kernel} {
  %r:6 = k3.kda.chunk_prepare ins(%q, %k, %v, %g, %beta, %chunks : tensor<?x2x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2xf32>, tensor<?x2xi32>)
      dt_bias(%bias : tensor<2x64xf32>) a_log(%rate : tensor<2xf32>)
      outs(%qg, %w, %u, %kd, %aqk, %gl : tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64xf32>)
      {scale = 0.125 : f64, l2norm = true, anchor = #k3.anchor<pairwise>, gate = #k3.gate_kind<softplus>} -> tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64xf32>
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5 : tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64xf32>
}
// CHECK: k3.exec.kernel @prepare7 in @gpu[7] from "" launch <threads = 128, shared_bytes = {{[0-9]+}}, registers = {{[0-9]+}}>
func.func private @prepare7(%q: tensor<?x2x64xf32>, %k: tensor<?x2x64xf32>, %v: tensor<?x2x64xf32>, %g: tensor<?x2x64xf32>, %beta: tensor<?x2xf32>, %chunks: tensor<?x2xi32>, %qg: tensor<?x2x64x64xbf16>, %w: tensor<?x2x64x64xbf16>, %u: tensor<?x2x64x64xbf16>, %kd: tensor<?x2x64x64xbf16>, %aqk: tensor<?x2x64x64xbf16>, %gl: tensor<?x2x64xf32>)
    -> (tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64xf32>) attributes {k3.kernel} {
  %r:6 = k3.kda.chunk_prepare ins(%q, %k, %v, %g, %beta, %chunks : tensor<?x2x64xf32>, tensor<?x2x64xf32>, tensor<?x2x64xf32>, tensor<?x2x64xf32>, tensor<?x2xf32>, tensor<?x2xi32>)
      outs(%qg, %w, %u, %kd, %aqk, %gl : tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64xf32>)
      {scale = 0.125 : f64, l2norm = true, anchor = #k3.anchor<pairwise>} -> tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64xf32>
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5 : tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64xf32>
}
// CHECK: k3.exec.kernel @prepare8 in @gpu[8] from "" launch <threads = 128, shared_bytes = {{[0-9]+}}, registers = {{[0-9]+}}>
func.func private @prepare8(%q: tensor<?x2x64xf32>, %k: tensor<?x2x64xf32>, %v: tensor<?x2x192xf32>, %g: tensor<?x2x64xf32>, %beta: tensor<?x2xf32>, %chunks: tensor<?x2xi32>, %bias: tensor<2x64xf32>, %rate: tensor<2xf32>,
    %qg: tensor<?x2x64x64xbf16>, %w: tensor<?x2x64x64xbf16>, %u: tensor<?x2x64x192xbf16>, %kd: tensor<?x2x64x64xbf16>, %aqk: tensor<?x2x64x64xbf16>, %gl: tensor<?x2x64xf32>)
    -> (tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x192xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64xf32>) attributes {k3.kernel} {
  %r:6 = k3.kda.chunk_prepare ins(%q, %k, %v, %g, %beta, %chunks : tensor<?x2x64xf32>, tensor<?x2x64xf32>, tensor<?x2x192xf32>, tensor<?x2x64xf32>, tensor<?x2xf32>, tensor<?x2xi32>)
      dt_bias(%bias : tensor<2x64xf32>) a_log(%rate : tensor<2xf32>)
      outs(%qg, %w, %u, %kd, %aqk, %gl : tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x192xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64xf32>)
      {scale = 0.125 : f64, l2norm = true, anchor = #k3.anchor<pairwise>, gate = #k3.gate_kind<softplus>} -> tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x192xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64xf32>
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5 : tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x192xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64xf32>
}
// CHECK: k3.exec.kernel @scan9 in @gpu[9] from "" launch <threads = 224, shared_bytes = {{[0-9]+}}, tensor_maps = {{.*}}registers = {{[0-9]+}}>
func.func private @scan9(%qg: tensor<?x2x64x128xbf16>, %w: tensor<?x2x64x128xbf16>, %u: tensor<?x2x64x128xbf16>, %kd: tensor<?x2x64x128xbf16>, %aqk: tensor<?x2x64x64xbf16>, %gl: tensor<?x2x128xf32>, %chunks: tensor<?x2xi32>, %cu: tensor<?xi32>, %slots: tensor<?xi32>, %o: tensor<?x2x128xf32>, %s: tensor<?x2x128x128xf32>)
    -> (tensor<?x2x128xf32>, tensor<?x2x128x128xf32>) attributes {k3.kernel} {
  %r:2 = k3.kda.chunk_scan ins(%qg, %w, %u, %kd, %aqk, %gl, %chunks, %cu, %slots : tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>, tensor<?x2xi32>, tensor<?xi32>, tensor<?xi32>)
      outs(%o, %s : tensor<?x2x128xf32>, tensor<?x2x128x128xf32>) -> tensor<?x2x128xf32>, tensor<?x2x128x128xf32>
  return %r#0, %r#1 : tensor<?x2x128xf32>, tensor<?x2x128x128xf32>
}
// CHECK: k3.exec.kernel @scan10 in @gpu[10] from "" launch <threads = 192, shared_bytes = {{[0-9]+}}, tensor_maps = {{.*}}registers = {{[0-9]+}}>
func.func private @scan10(%qg: tensor<?x2x64x128xbf16>, %w: tensor<?x2x64x128xbf16>, %u: tensor<?x2x64x128xbf16>, %kd: tensor<?x2x64x128xbf16>, %aqk: tensor<?x2x64x64xbf16>, %gl: tensor<?x2x128xf32>, %chunks: tensor<?x2xi32>, %cu: tensor<?xi32>, %slots: tensor<?xi32>, %o: tensor<?x2x128xbf16>, %s: tensor<?x2x128x128xf32>)
    -> (tensor<?x2x128xbf16>, tensor<?x2x128x128xf32>) attributes {k3.kernel} {
  %r:2 = k3.kda.chunk_scan ins(%qg, %w, %u, %kd, %aqk, %gl, %chunks, %cu, %slots : tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x128xf32>, tensor<?x2xi32>, tensor<?xi32>, tensor<?xi32>)
      outs(%o, %s : tensor<?x2x128xbf16>, tensor<?x2x128x128xf32>) -> tensor<?x2x128xbf16>, tensor<?x2x128x128xf32>
  return %r#0, %r#1 : tensor<?x2x128xbf16>, tensor<?x2x128x128xf32>
}
// CHECK: k3.exec.kernel @scan11 in @gpu[11] from "" launch <threads = 192, shared_bytes = {{[0-9]+}}, tensor_maps = {{.*}}registers = {{[0-9]+}}>
func.func private @scan11(%qg: tensor<?x2x64x64xbf16>, %w: tensor<?x2x64x64xbf16>, %u: tensor<?x2x64x64xbf16>, %kd: tensor<?x2x64x64xbf16>, %aqk: tensor<?x2x64x64xbf16>, %gl: tensor<?x2x64xf32>, %chunks: tensor<?x2xi32>, %cu: tensor<?xi32>, %slots: tensor<?xi32>, %o: tensor<?x2x64xbf16>, %s: tensor<?x2x64x64xf32>)
    -> (tensor<?x2x64xbf16>, tensor<?x2x64x64xf32>) attributes {k3.kernel} {
  %r:2 = k3.kda.chunk_scan ins(%qg, %w, %u, %kd, %aqk, %gl, %chunks, %cu, %slots : tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64xf32>, tensor<?x2xi32>, tensor<?xi32>, tensor<?xi32>)
      outs(%o, %s : tensor<?x2x64xbf16>, tensor<?x2x64x64xf32>) -> tensor<?x2x64xbf16>, tensor<?x2x64x64xf32>
  return %r#0, %r#1 : tensor<?x2x64xbf16>, tensor<?x2x64x64xf32>
}
}
