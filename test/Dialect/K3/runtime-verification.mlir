// What generate-runtime-verification asserts before each structured op.
// RUN: k3-opt %s --generate-runtime-verification="verbose-level=0" | FileCheck %s

// Dynamic sizes that the verifier could not compare, and the ids.
// CHECK-LABEL: func.func @gather_rows
func.func @gather_rows(%ids: memref<?xi32>, %table: memref<?x8xbf16>, %out: memref<?x8xf32>) {
  // CHECK-DAG: cf.assert %{{.*}}, "ERROR: Runtime op verification failed\0A{{.*}}expected equal sizes of 'T' in 'out' and 'ids'
  // CHECK: scf.for
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'ids' in [0, V)
  // CHECK: k3.gather_rows
  k3.gather_rows ins(%ids, %table : memref<?xi32>, memref<?x8xbf16>) outs(%out : memref<?x8xf32>)
  return
}

// Nothing to check where all is static.
// CHECK-LABEL: func.func @rms_norm
func.func @rms_norm(%x: memref<4x8xf32>, %weight: memref<8xf32>) {
  // CHECK-NOT: cf.assert
  // CHECK: k3.rms_norm
  k3.rms_norm ins(%x, %weight : memref<4x8xf32>, memref<8xf32>) outs(%x : memref<4x8xf32>) {eps = 1.0e-05 : f64}
  return
}

// CHECK-LABEL: func.func @gate
func.func @gate(%z: memref<4x?x8xf32>, %dt_bias: memref<2x8xf32>, %a_log: memref<3xf32>) {
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected equal sizes of 'H' in 'dt_bias' and 'z'
  // CHECK: arith.cmpi sge
  // CHECK-NEXT: cf.assert %{{.*}}, "{{.*}}expected at least the size of 'H' in 'a_log' and 'z'
  k3.kda.gate ins(%z, %dt_bias : memref<4x?x8xf32>, memref<2x8xf32>) a_log(%a_log : memref<3xf32>)
      outs(%z : memref<4x?x8xf32>) {kind = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64}
  return
}

// CHECK-LABEL: func.func @mix
func.func @mix(%stream: memref<9x4x8xf32>, %sources: index, %weight: memref<8xf32>, %proj: memref<1x8xf32>,
               %out: memref<4x8xf32>) {
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 1 <= 'sources' <= R
  // CHECK: k3.attn_res.mix
  k3.attn_res.mix ins(%stream, %sources, %weight, %proj : memref<9x4x8xf32>, index, memref<8xf32>, memref<1x8xf32>)
      outs(%out : memref<4x8xf32>) {eps = 1.0e-05 : f64}
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'slot' in [0, R)
  // CHECK: k3.attn_res.accumulate
  k3.attn_res.accumulate ins(%out, %sources : memref<4x8xf32>, index) outs(%stream : memref<9x4x8xf32>)
  return
}

// On tensors as well.
// CHECK-LABEL: func.func @short_conv
func.func @short_conv(%x: tensor<4x8xf32>, %weight: tensor<8x4xf32>, %cu: tensor<?xi32>, %slots: tensor<?xi32>,
                      %out: tensor<4x8xf32>, %state: tensor<?x3x8xf32>) -> tensor<4x8xf32> {
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'cu' of size N + 1
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'cu' to start at 0
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'cu' never to fall
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'cu' to end at T
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'slots' in [0, S)
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected distinct 'slots'
  // CHECK: k3.kda.short_conv
  %0:2 = k3.kda.short_conv ins(%x, %weight, %cu, %slots : tensor<4x8xf32>, tensor<8x4xf32>, tensor<?xi32>, tensor<?xi32>)
      outs(%out, %state : tensor<4x8xf32>, tensor<?x3x8xf32>) {silu = true} -> tensor<4x8xf32>, tensor<?x3x8xf32>
  return %0#0 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @scan
func.func @scan(%q: memref<4x2x8xf32>, %beta: memref<4x2xf32>, %cu: memref<3xi32>, %slots: memref<2xi32>,
                %state: memref<5x2x8x8xf32>) {
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'cu' to start at 0
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected distinct 'slots'
  // CHECK: k3.kda.scan
  k3.kda.scan ins(%q, %q, %q, %beta, %cu, %slots
      : memref<4x2x8xf32>, memref<4x2x8xf32>, memref<4x2x8xf32>, memref<4x2xf32>, memref<3xi32>, memref<2xi32>)
      outs(%q, %state : memref<4x2x8xf32>, memref<5x2x8x8xf32>) {scale = 0.25 : f64, l2norm = true, delta = true}
  return
}

// CHECK-LABEL: func.func @recurrent_step
func.func @recurrent_step(%q: memref<2x2x8xf32>, %beta: memref<2x2xf32>, %slots: memref<2xi32>,
                          %state: memref<5x2x8x8xf32>) {
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'slots' in [0, S)
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected distinct 'slots'
  // CHECK: k3.kda.recurrent_step
  k3.kda.recurrent_step ins(%q, %q, %q, %beta, %slots
      : memref<2x2x8xf32>, memref<2x2x8xf32>, memref<2x2x8xf32>, memref<2x2xf32>, memref<2xi32>)
      outs(%q, %state : memref<2x2x8xf32>, memref<5x2x8x8xf32>) {scale = 0.25 : f64, l2norm = true, delta = true}
  return
}

// CHECK-LABEL: func.func @chunk_prepare
func.func @chunk_prepare(%q: memref<4x2x8xf32>, %beta: memref<4x2xf32>, %chunks: memref<3x2xi32>,
                         %lk: memref<3x2x16x8xf32>, %ll: memref<3x2x16x16xf32>, %gl: memref<3x2x8xf32>) {
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'chunks' of at most L rows
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'chunks' to begin in [0, T]
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'chunks' to end in [0, T]
  // CHECK: k3.kda.chunk_prepare
  k3.kda.chunk_prepare ins(%q, %q, %q, %q, %beta, %chunks
      : memref<4x2x8xf32>, memref<4x2x8xf32>, memref<4x2x8xf32>, memref<4x2x8xf32>, memref<4x2xf32>, memref<3x2xi32>)
      outs(%lk, %lk, %lk, %lk, %ll, %gl : memref<3x2x16x8xf32>, memref<3x2x16x8xf32>, memref<3x2x16x8xf32>,
           memref<3x2x16x8xf32>, memref<3x2x16x16xf32>, memref<3x2x8xf32>)
      {scale = 0.25 : f64, l2norm = true, anchor = #k3.anchor<zero>}
  return
}

// CHECK-LABEL: func.func @chunk_scan
func.func @chunk_scan(%lk: memref<3x2x16x8xf32>, %ll: memref<3x2x16x16xf32>, %gl: memref<3x2x8xf32>,
                      %chunks: memref<3x2xi32>, %chunk_cu: memref<3xi32>, %slots: memref<2xi32>,
                      %out: memref<4x2x8xf32>, %state: memref<5x2x8x8xf32>) {
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'chunks' to end in [0, T]
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'chunk_cu' to end at C
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected distinct 'slots'
  // CHECK: k3.kda.chunk_scan
  k3.kda.chunk_scan ins(%lk, %lk, %lk, %lk, %ll, %gl, %chunks, %chunk_cu, %slots
      : memref<3x2x16x8xf32>, memref<3x2x16x8xf32>, memref<3x2x16x8xf32>, memref<3x2x16x8xf32>, memref<3x2x16x16xf32>,
        memref<3x2x8xf32>, memref<3x2xi32>, memref<3xi32>, memref<2xi32>)
      outs(%out, %state : memref<4x2x8xf32>, memref<5x2x8x8xf32>)
  return
}

// CHECK-LABEL: func.func @experts
func.func @experts(%x: memref<4x64xf32>, %ids: memref<4x2xi32>, %offsets: memref<9xi32>, %perm: memref<4x2xi32>,
                   %weight: memref<8x16x64xbf16>, %out: memref<4x2x16xf32>) {
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'ids' in [0, E)
  // CHECK: k3.latent_moe.plan
  k3.latent_moe.plan ins(%ids : memref<4x2xi32>) outs(%offsets, %perm : memref<9xi32>, memref<4x2xi32>)
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'offsets' never to fall
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'offsets' to end at T k
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'perm' in [0, T k)
  // CHECK: k3.latent_moe.grouped_contract
  k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %weight
      : memref<4x64xf32>, memref<9xi32>, memref<4x2xi32>, memref<8x16x64xbf16>) outs(%out : memref<4x2x16xf32>)
  return
}

// CHECK-LABEL: func.func @cache
func.func @cache(%kv: memref<4x12xf32>, %weight: memref<8xf32>, %q: memref<4x2x12xf32>, %cu: memref<3xi32>,
                 %lengths: memref<2xi32>, %pages: memref<2x5xi32>, %cache: memref<16x4x12xf32>, %out: memref<4x2x8xf32>) {
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'cu' to end at T
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'lengths' >= 0
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'page_table' with a page for every position
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'page_table' in [0, P)
  // CHECK: k3.mla.append
  k3.mla.append ins(%kv, %weight, %cu, %lengths, %pages
      : memref<4x12xf32>, memref<8xf32>, memref<3xi32>, memref<2xi32>, memref<2x5xi32>) outs(%cache : memref<16x4x12xf32>)
      {eps = 1.0e-06 : f64}
  // CHECK: cf.assert %{{.*}}, "{{.*}}expected 'page_table' in [0, P)
  // CHECK: k3.mla.attend
  k3.mla.attend ins(%q, %cache, %cu, %lengths, %pages
      : memref<4x2x12xf32>, memref<16x4x12xf32>, memref<3xi32>, memref<2xi32>, memref<2x5xi32>)
      outs(%out : memref<4x2x8xf32>) {scale = 0.25 : f64}
  return
}
