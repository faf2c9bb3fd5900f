// Tiles of the KDA ops follow from their shape tables.
// RUN: k3-opt %S/Inputs/kda.mlir --transform-preload-library=transform-library-paths=%S/Inputs/tile.mlir \
// RUN:   --transform-interpreter | FileCheck %s

// Channels are cut, tokens are not.
// CHECK-LABEL: func.func @short_conv(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]]] [%{{.*}}, %[[M:[a-z0-9_]+]]] {{.*}} : tensor<?x8xf32> to tensor<?x?xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0] [%[[M]], 4] {{.*}} : tensor<8x4xf32> to tensor<?x4xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]]] [%{{.*}}, %[[M]]] {{.*}} : tensor<?x8xf32> to tensor<?x?xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, 0, %[[I]]] [%{{.*}}, 3, %[[M]]] {{.*}} : tensor<?x3x8xbf16> to tensor<?x3x?xbf16>
// CHECK: k3.kda.short_conv ins({{.*}} : tensor<?x?xf32>, tensor<?x4xf32>, tensor<?xi32>, tensor<?xi32>){{.*}} outs({{.*}} : tensor<?x?xf32>, tensor<?x3x?xbf16>)
// CHECK-COUNT-2: tensor.insert_slice

// The tile of a_log starts at the head, and has as many: padding is never in it.
// CHECK-LABEL: func.func @gate_bounded(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: scf.for %[[J:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0] [%[[M:[a-z0-9_]+]], %[[N:[a-z0-9_]+]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[J]], 0] [%[[N]], 8] {{.*}} : tensor<4x8xf32> to tensor<?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[J]]] [%[[N]]] {{.*}} : tensor<6xf32> to tensor<?xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0] [%[[M]], %[[N]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: k3.kda.gate ins({{.*}} : tensor<?x?x8xf32>, tensor<?x8xf32>){{.*}} outs({{.*}} : tensor<?x?x8xf32>)
// CHECK-COUNT-1: tensor.insert_slice

// CHECK-LABEL: func.func @gate_softplus(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: scf.for %[[J:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0] [%[[M:[a-z0-9_]+]], %[[N:[a-z0-9_]+]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[J]], 0] [%[[N]], 8] {{.*}} : tensor<4x8xf32> to tensor<?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[J]]] [%[[N]]] {{.*}} : tensor<4xf32> to tensor<?xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0] [%[[M]], %[[N]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: k3.kda.gate ins({{.*}} : tensor<?x?x8xf32>, tensor<?x8xf32>){{.*}} outs({{.*}} : tensor<?x?x8xf32>)
// CHECK-COUNT-1: tensor.insert_slice

// One tile has all tokens and slots of its heads.
// CHECK-LABEL: func.func @scan(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M:[a-z0-9_]+]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M]], 16] {{.*}} : tensor<?x4x16xf32> to tensor<?x?x16xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]]] [%{{.*}}, %[[M]]] {{.*}} : tensor<?x4xf32> to tensor<?x?xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M]], 16] {{.*}} : tensor<?x4x16xf32> to tensor<?x?x16xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0, 0] [%{{.*}}, %[[M]], 16, 8] {{.*}} : tensor<?x4x16x8xf32> to tensor<?x?x16x8xf32>
// CHECK: k3.kda.scan ins({{.*}} : tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x16xf32>, tensor<?x?xf32>, tensor<?xi32>, tensor<?xi32>){{.*}} outs({{.*}} : tensor<?x?x16xf32>, tensor<?x?x16x8xf32>)
// CHECK-COUNT-2: tensor.insert_slice

// An operand without the key dimension loses it only.
// CHECK-LABEL: func.func @scan_per_head(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M:[a-z0-9_]+]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M]], 16] {{.*}} : tensor<?x4x16xf32> to tensor<?x?x16xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]]] [%{{.*}}, %[[M]]] {{.*}} : tensor<?x4xf32> to tensor<?x?xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]]] [%{{.*}}, %[[M]]] {{.*}} : tensor<?x4xf32> to tensor<?x?xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M]], 16] {{.*}} : tensor<?x4x16xf32> to tensor<?x?x16xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0, 0] [%{{.*}}, %[[M]], 16, 8] {{.*}} : tensor<?x4x16x8xf32> to tensor<?x?x16x8xf32>
// CHECK: k3.kda.scan ins({{.*}} : tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x16xf32>, tensor<?x?xf32>, tensor<?xi32>, tensor<?xi32>){{.*}} outs({{.*}} : tensor<?x?x16xf32>, tensor<?x?x16x8xf32>)
// CHECK-COUNT-2: tensor.insert_slice

// CHECK-LABEL: func.func @scan_linear_attention(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M:[a-z0-9_]+]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M]], 16] {{.*}} : tensor<?x4x16xf32> to tensor<?x?x16xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]]] [%{{.*}}, %[[M]]] {{.*}} : tensor<?x4xf32> to tensor<?x?xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M]], 16] {{.*}} : tensor<?x4x16xf32> to tensor<?x?x16xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0, 0] [%{{.*}}, %[[M]], 16, 8] {{.*}} : tensor<?x4x16x8xf32> to tensor<?x?x16x8xf32>
// CHECK: k3.kda.scan ins({{.*}} : tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x16xf32>, tensor<?x?xf32>, tensor<?xi32>, tensor<?xi32>){{.*}} outs({{.*}} : tensor<?x?x16xf32>, tensor<?x?x16x8xf32>)
// CHECK-COUNT-2: tensor.insert_slice

// CHECK-LABEL: func.func @recurrent_step(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M:[a-z0-9_]+]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M]], 16] {{.*}} : tensor<?x4x16xf32> to tensor<?x?x16xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]]] [%{{.*}}, %[[M]]] {{.*}} : tensor<?x4xf32> to tensor<?x?xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M]], 16] {{.*}} : tensor<?x4x16xf32> to tensor<?x?x16xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0, 0] [%{{.*}}, %[[M]], 16, 8] {{.*}} : tensor<?x4x16x8xf32> to tensor<?x?x16x8xf32>
// CHECK: k3.kda.recurrent_step ins({{.*}} : tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x16xf32>, tensor<?x?xf32>, tensor<?xi32>){{.*}} outs({{.*}} : tensor<?x?x16xf32>, tensor<?x?x16x8xf32>)
// CHECK-COUNT-2: tensor.insert_slice

// Chunks and heads are cut; tokens are addressed by the chunk table.
// CHECK-LABEL: func.func @chunk_prepare(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: scf.for %[[J:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[0, %[[J]], 0] [%{{.*}}, %[[N:[a-z0-9_]+]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[J]], 0] [%{{.*}}, %[[N]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[J]], 0] [%{{.*}}, %[[N]], 12] {{.*}} : tensor<?x4x12xf32> to tensor<?x?x12xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[J]], 0] [%{{.*}}, %[[N]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[J]]] [%{{.*}}, %[[N]]] {{.*}} : tensor<?x4xf32> to tensor<?x?xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0] [%[[M:[a-z0-9_]+]], 2] {{.*}} : tensor<?x2xi32> to tensor<?x2xi32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0, 0] [%[[M]], %[[N]], 16, 8] {{.*}} : tensor<?x4x16x8xf32> to tensor<?x?x16x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0, 0] [%[[M]], %[[N]], 16, 8] {{.*}} : tensor<?x4x16x8xf32> to tensor<?x?x16x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0, 0] [%[[M]], %[[N]], 16, 12] {{.*}} : tensor<?x4x16x12xf32> to tensor<?x?x16x12xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0, 0] [%[[M]], %[[N]], 16, 8] {{.*}} : tensor<?x4x16x8xf32> to tensor<?x?x16x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0, 0] [%[[M]], %[[N]], 16, 16] {{.*}} : tensor<?x4x16x16xf32> to tensor<?x?x16x16xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0] [%[[M]], %[[N]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: k3.kda.chunk_prepare ins({{.*}} : tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x12xf32>, tensor<?x?x8xf32>, tensor<?x?xf32>, tensor<?x2xi32>){{.*}} outs({{.*}} : tensor<?x?x16x8xf32>, tensor<?x?x16x8xf32>, tensor<?x?x16x12xf32>, tensor<?x?x16x8xf32>, tensor<?x?x16x16xf32>, tensor<?x?x8xf32>)
// CHECK-COUNT-6: tensor.insert_slice

// CHECK-LABEL: func.func @chunk_prepare_pairwise(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: scf.for %[[J:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[0, %[[J]], 0] [%{{.*}}, %[[N:[a-z0-9_]+]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[J]], 0] [%{{.*}}, %[[N]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[J]], 0] [%{{.*}}, %[[N]], 12] {{.*}} : tensor<?x4x12xf32> to tensor<?x?x12xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[J]], 0] [%{{.*}}, %[[N]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[J]]] [%{{.*}}, %[[N]]] {{.*}} : tensor<?x4xf32> to tensor<?x?xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0] [%[[M:[a-z0-9_]+]], 2] {{.*}} : tensor<?x2xi32> to tensor<?x2xi32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0, 0] [%[[M]], %[[N]], 16, 8] {{.*}} : tensor<?x4x16x8xf32> to tensor<?x?x16x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0, 0] [%[[M]], %[[N]], 16, 8] {{.*}} : tensor<?x4x16x8xf32> to tensor<?x?x16x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0, 0] [%[[M]], %[[N]], 16, 12] {{.*}} : tensor<?x4x16x12xf32> to tensor<?x?x16x12xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0, 0] [%[[M]], %[[N]], 16, 8] {{.*}} : tensor<?x4x16x8xf32> to tensor<?x?x16x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0, 0] [%[[M]], %[[N]], 16, 16] {{.*}} : tensor<?x4x16x16xf32> to tensor<?x?x16x16xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0] [%[[M]], %[[N]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: k3.kda.chunk_prepare ins({{.*}} : tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x12xf32>, tensor<?x?x8xf32>, tensor<?x?xf32>, tensor<?x2xi32>){{.*}} outs({{.*}} : tensor<?x?x16x8xf32>, tensor<?x?x16x8xf32>, tensor<?x?x16x12xf32>, tensor<?x?x16x8xf32>, tensor<?x?x16x16xf32>, tensor<?x?x8xf32>)
// CHECK-COUNT-6: tensor.insert_slice

// CHECK-LABEL: func.func @chunk_scan(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0, 0] [%{{.*}}, %[[M:[a-z0-9_]+]], 16, 8] {{.*}} : tensor<?x4x16x8xf32> to tensor<?x?x16x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0, 0] [%{{.*}}, %[[M]], 16, 8] {{.*}} : tensor<?x4x16x8xf32> to tensor<?x?x16x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0, 0] [%{{.*}}, %[[M]], 16, 12] {{.*}} : tensor<?x4x16x12xf32> to tensor<?x?x16x12xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0, 0] [%{{.*}}, %[[M]], 16, 8] {{.*}} : tensor<?x4x16x8xf32> to tensor<?x?x16x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0, 0] [%{{.*}}, %[[M]], 16, 16] {{.*}} : tensor<?x4x16x16xf32> to tensor<?x?x16x16xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M]], 12] {{.*}} : tensor<?x4x12xf32> to tensor<?x?x12xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0, 0] [%{{.*}}, %[[M]], 12, 8] {{.*}} : tensor<?x4x12x8xf32> to tensor<?x?x12x8xf32>
// CHECK: k3.kda.chunk_scan ins({{.*}} : tensor<?x?x16x8xf32>, tensor<?x?x16x8xf32>, tensor<?x?x16x12xf32>, tensor<?x?x16x8xf32>, tensor<?x?x16x16xf32>, tensor<?x?x8xf32>, tensor<?x2xi32>, tensor<?xi32>, tensor<?xi32>){{.*}} outs({{.*}} : tensor<?x?x12xf32>, tensor<?x?x12x8xf32>)
// CHECK-COUNT-2: tensor.insert_slice

// CHECK-LABEL: func.func @gated_norm(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: scf.for %[[J:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0] [%[[M:[a-z0-9_]+]], %[[N:[a-z0-9_]+]], 12] {{.*}} : tensor<?x4x12xf32> to tensor<?x?x12xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0] [%[[M]], %[[N]], 12] {{.*}} : tensor<?x4x12xf32> to tensor<?x?x12xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0] [%[[M]], %[[N]], 12] {{.*}} : tensor<?x4x12xf32> to tensor<?x?x12xf32>
// CHECK: k3.kda.gated_norm ins({{.*}} : tensor<?x?x12xf32>, tensor<?x?x12xf32>, tensor<12xf32>){{.*}} outs({{.*}} : tensor<?x?x12xf32>)
// CHECK-COUNT-1: tensor.insert_slice
