// Tiles of the LatentMoE ops follow from their shape tables.
// RUN: k3-opt %S/Inputs/latent-moe.mlir --transform-preload-library=transform-library-paths=%S/Inputs/tile.mlir \
// RUN:   --transform-interpreter | FileCheck %s

// CHECK-LABEL: func.func @route(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0] [%[[M:[a-z0-9_]+]], 16] {{.*}} : tensor<?x16xf32> to tensor<?x16xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0] [%[[M]], 4] {{.*}} : tensor<?x4xi32> to tensor<?x4xi32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0] [%[[M]], 4] {{.*}} : tensor<?x4xf32> to tensor<?x4xf32>
// CHECK: k3.latent_moe.route ins({{.*}} : tensor<?x16xf32>, tensor<16xf32>){{.*}} outs({{.*}} : tensor<?x4xi32>, tensor<?x4xf32>)
// CHECK-COUNT-2: tensor.insert_slice

// No parallel loop.
// CHECK-LABEL: func.func @plan(
// CHECK: k3.latent_moe.plan ins({{.*}} : tensor<?x4xi32>){{.*}} outs({{.*}} : tensor<17xi32>, tensor<?x4xi32>)

// All slots, some features of every expert.
// CHECK-LABEL: func.func @grouped_up(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [16, %[[M:[a-z0-9_]+]], 64] {{.*}} : tensor<16x32x64xbf16> to tensor<16x?x64xbf16>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [16, %[[M]], 64] {{.*}} : tensor<16x32x64xbf16> to tensor<16x?x64xbf16>
// CHECK: tensor.extract_slice %{{.*}}[0, 0, %[[I]]] [%{{.*}}, 4, %[[M]]] {{.*}} : tensor<?x4x32xf32> to tensor<?x4x?xf32>
// CHECK: k3.latent_moe.grouped_contract ins({{.*}} : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x?x64xbf16>){{.*}} outs({{.*}} : tensor<?x4x?xf32>)
// CHECK-COUNT-1: tensor.insert_slice

// CHECK-LABEL: func.func @grouped_up_mx(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [16, %[[M:[a-z0-9_]+]], 32] {{.*}} : tensor<16x32x32xi8> to tensor<16x?x32xi8>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [16, %[[M]], 2] {{.*}} : tensor<16x32x2xi8> to tensor<16x?x2xi8>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [16, %[[M]], 32] {{.*}} : tensor<16x32x32xi8> to tensor<16x?x32xi8>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [16, %[[M]], 2] {{.*}} : tensor<16x32x2xi8> to tensor<16x?x2xi8>
// CHECK: tensor.extract_slice %{{.*}}[0, 0, %[[I]]] [%{{.*}}, 4, %[[M]]] {{.*}} : tensor<?x4x32xf32> to tensor<?x4x?xf32>
// CHECK: k3.latent_moe.grouped_contract ins({{.*}} : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x?x32xi8>){{.*}} outs({{.*}} : tensor<?x4x?xf32>)
// CHECK-COUNT-1: tensor.insert_slice

// CHECK-LABEL: func.func @grouped_down_mx(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [16, %[[M:[a-z0-9_]+]], 16] {{.*}} : tensor<16x64x16xi8> to tensor<16x?x16xi8>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [16, %[[M]], 1] {{.*}} : tensor<16x64x1xi8> to tensor<16x?x1xi8>
// CHECK: tensor.extract_slice %{{.*}}[0, 0, %[[I]]] [%{{.*}}, 4, %[[M]]] {{.*}} : tensor<?x4x64xf32> to tensor<?x4x?xf32>
// CHECK: k3.latent_moe.grouped_contract ins({{.*}} : tensor<?x4x32xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x?x16xi8>){{.*}} outs({{.*}} : tensor<?x4x?xf32>)
// CHECK-COUNT-1: tensor.insert_slice

// CHECK-LABEL: func.func @combine(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: scf.for %[[J:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0, %[[J]]] [%[[M:[a-z0-9_]+]], 4, %[[N:[a-z0-9_]+]]] {{.*}} : tensor<?x4x64xf32> to tensor<?x4x?xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0] [%[[M]], 4] {{.*}} : tensor<?x4xf32> to tensor<?x4xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]]] [%[[M]], %[[N]]] {{.*}} : tensor<?x64xf32> to tensor<?x?xf32>
// CHECK: k3.latent_moe.combine ins({{.*}} : tensor<?x4x?xf32>, tensor<?x4xf32>){{.*}} outs({{.*}} : tensor<?x?xf32>)
// CHECK-COUNT-1: tensor.insert_slice

// No parallel loop.
// CHECK-LABEL: func.func @plan_counted(
// CHECK: k3.latent_moe.plan ins({{.*}} : tensor<?x4xi32>) progress({{.*}} : tensor<?x4xi32>) outs(

// CHECK-LABEL: func.func @expert_mlp(
// CHECK-NOT: tensor.insert_slice
// CHECK: k3.latent_moe.expert_mlp
