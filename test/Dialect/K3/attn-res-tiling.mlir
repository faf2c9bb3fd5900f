// Tiles of the AttnRes ops follow from their shape tables.
// RUN: k3-opt %S/Inputs/attn-res.mlir --transform-preload-library=transform-library-paths=%S/Inputs/tile.mlir \
// RUN:   --transform-interpreter | FileCheck %s

// Tokens are cut, slots are not.
// CHECK-LABEL: func.func @mix(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [9, %[[M:[a-z0-9_]+]], 8] {{.*}} : tensor<9x?x8xf32> to tensor<9x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0] [%[[M]], 8] {{.*}} : tensor<?x8xf32> to tensor<?x8xf32>
// CHECK: k3.attn_res.mix ins({{.*}} : tensor<9x?x8xf32>, index, tensor<8xbf16>, tensor<1x8xbf16>){{.*}} outs({{.*}} : tensor<?x8xf32>)
// CHECK-COUNT-1: tensor.insert_slice

// CHECK-LABEL: func.func @mix_norm(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [9, %[[M:[a-z0-9_]+]], 8] {{.*}} : tensor<9x?x8xf32> to tensor<9x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0] [%[[M]], 8] {{.*}} : tensor<?x8xbf16> to tensor<?x8xbf16>
// CHECK: k3.attn_res.mix ins({{.*}} : tensor<9x?x8xf32>, index, tensor<8xbf16>, tensor<1x8xbf16>){{.*}} outs({{.*}} : tensor<?x8xbf16>)
// CHECK-COUNT-1: tensor.insert_slice

// Tokens are cut, slots are not.
// CHECK-LABEL: func.func @accumulate(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0] [%[[M:[a-z0-9_]+]], 8] {{.*}} : tensor<?x8xf32> to tensor<?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [9, %[[M]], 8] {{.*}} : tensor<9x?x8xf32> to tensor<9x?x8xf32>
// CHECK: k3.attn_res.accumulate ins({{.*}} : tensor<?x8xf32>, index){{.*}} outs({{.*}} : tensor<9x?x8xf32>)
// CHECK-COUNT-1: tensor.insert_slice

// CHECK-LABEL: func.func @accumulate_init(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0] [%[[M:[a-z0-9_]+]], 8] {{.*}} : tensor<?x8xf32> to tensor<?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [9, %[[M]], 8] {{.*}} : tensor<9x?x8xf32> to tensor<9x?x8xf32>
// CHECK: k3.attn_res.accumulate ins({{.*}} : tensor<?x8xf32>, index){{.*}} outs({{.*}} : tensor<9x?x8xf32>)
// CHECK-COUNT-1: tensor.insert_slice
