// Tiles of the MLA ops follow from their shape tables.
// RUN: k3-opt %S/Inputs/mla.mlir --transform-preload-library=transform-library-paths=%S/Inputs/tile.mlir \
// RUN:   --transform-interpreter | FileCheck %s

// No parallel loop.
// CHECK-LABEL: func.func @append(
// CHECK: k3.mla.append ins({{.*}} : tensor<?x12xf32>, tensor<8xbf16>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>){{.*}} outs({{.*}} : tensor<?x16x12xbf16>)

// A head has its own rows of kv_b.
// CHECK-LABEL: func.func @absorb(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: scf.for %[[J:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0] [%[[M:[a-z0-9_]+]], %[[N:[a-z0-9_]+]], 10] {{.*}} : tensor<?x4x10xf32> to tensor<?x?x10xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[J]], 0, 0] [%[[N]], 11, 8] {{.*}} : tensor<4x11x8xbf16> to tensor<?x11x8xbf16>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0] [%[[M]], %[[N]], 12] {{.*}} : tensor<?x4x12xf32> to tensor<?x?x12xf32>
// CHECK: k3.mla.absorb ins({{.*}} : tensor<?x?x10xf32>, tensor<?x11x8xbf16>){{.*}} outs({{.*}} : tensor<?x?x12xf32>)
// CHECK-COUNT-1: tensor.insert_slice

// Heads are cut; the cache belongs to all of them.
// CHECK-LABEL: func.func @attend(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M:[a-z0-9_]+]], 12] {{.*}} : tensor<?x4x12xf32> to tensor<?x?x12xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %[[I]], 0] [%{{.*}}, %[[M]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: k3.mla.attend ins({{.*}} : tensor<?x?x12xf32>, tensor<?x16x12xbf16>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>){{.*}} outs({{.*}} : tensor<?x?x8xf32>)
// CHECK-COUNT-1: tensor.insert_slice

// Runs go through all sequences; only heads are cut.
// CHECK-LABEL: func.func @attend_partial(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[0, 0, %[[I]], 0] [3, 2, %[[M:[a-z0-9_]+]], 8] {{.*}} : tensor<3x2x4x8xf32> to tensor<3x2x?x8xf32>
// CHECK: k3.mla.attend_partial ins({{.*}} : tensor<?x?x12xf32>, tensor<?x16x12xbf16>, tensor<?xi32>, tensor<?x?xi32>){{.*}} outs({{.*}} : tensor<?x?x8xf32>, tensor<3x2x?x8xf32>, tensor<3x2x?x2xf32>)
// CHECK-COUNT-3: tensor.insert_slice

// CHECK-LABEL: func.func @attend_merge(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: k3.mla.attend_merge ins({{.*}} : tensor<3x2x?x8xf32>, tensor<3x2x?x2xf32>, tensor<?xi32>){{.*}} outs({{.*}} : tensor<?x?x8xf32>)
// CHECK-COUNT-1: tensor.insert_slice

// CHECK-LABEL: func.func @expand(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: scf.for %[[J:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0] [%[[M:[a-z0-9_]+]], %[[N:[a-z0-9_]+]], 8] {{.*}} : tensor<?x4x8xf32> to tensor<?x?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[J]], 0, 0] [%[[N]], 11, 8] {{.*}} : tensor<4x11x8xbf16> to tensor<?x11x8xbf16>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]], 0] [%[[M]], %[[N]], 5] {{.*}} : tensor<?x4x5xf32> to tensor<?x?x5xf32>
// CHECK: k3.mla.expand ins({{.*}} : tensor<?x?x8xf32>, tensor<?x11x8xbf16>){{.*}} outs({{.*}} : tensor<?x?x5xf32>)
// CHECK-COUNT-1: tensor.insert_slice
