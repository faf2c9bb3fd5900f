// Tiles of the ops every layer uses follow from their shape tables.
// RUN: k3-opt %S/Inputs/common.mlir --transform-preload-library=transform-library-paths=%S/Inputs/tile.mlir \
// RUN:   --transform-interpreter | FileCheck %s

// The table is not cut.
// CHECK-LABEL: func.func @gather_rows(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[%[[I]]] [%[[M:[a-z0-9_]+]]] {{.*}} : tensor<?xi32> to tensor<?xi32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0] [%[[M]], 8] {{.*}} : tensor<?x8xf32> to tensor<?x8xf32>
// CHECK: k3.gather_rows ins({{.*}} : tensor<?xi32>, tensor<32x8xbf16>){{.*}} outs({{.*}} : tensor<?x8xf32>)
// CHECK-COUNT-1: tensor.insert_slice

// Rows of the weight are features of the result.
// CHECK-LABEL: func.func @linear(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: scf.for %[[J:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0] [%[[M:[a-z0-9_]+]], 8] {{.*}} : tensor<?x8xf32> to tensor<?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[J]], 0] [%[[N:[a-z0-9_]+]], 8] {{.*}} : tensor<16x8xbf16> to tensor<?x8xbf16>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]]] [%[[M]], %[[N]]] {{.*}} : tensor<?x16xf32> to tensor<?x?xf32>
// CHECK: k3.linear ins({{.*}} : tensor<?x8xf32>, tensor<?x8xbf16>){{.*}} outs({{.*}} : tensor<?x?xf32>)
// CHECK-COUNT-1: tensor.insert_slice

// CHECK-LABEL: func.func @linear_accumulate(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: scf.for %[[J:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0] [%[[M:[a-z0-9_]+]], 8] {{.*}} : tensor<?x8xf32> to tensor<?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[J]], 0] [%[[N:[a-z0-9_]+]], 8] {{.*}} : tensor<16x8xbf16> to tensor<?x8xbf16>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]]] [%[[M]], %[[N]]] {{.*}} : tensor<?x16xf32> to tensor<?x?xf32>
// CHECK: k3.linear ins({{.*}} : tensor<?x8xf32>, tensor<?x8xbf16>){{.*}} outs({{.*}} : tensor<?x?xf32>)
// CHECK-COUNT-1: tensor.insert_slice

// Codes and scales of the same rows.
// CHECK-LABEL: func.func @mx_contract(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: scf.for %[[J:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0] [%[[M:[a-z0-9_]+]], 64] {{.*}} : tensor<?x64xf32> to tensor<?x64xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[J]], 0] [%[[N:[a-z0-9_]+]], 32] {{.*}} : tensor<16x32xi8> to tensor<?x32xi8>
// CHECK: tensor.extract_slice %{{.*}}[%[[J]], 0] [%[[N]], 2] {{.*}} : tensor<16x2xi8> to tensor<?x2xi8>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]]] [%[[M]], %[[N]]] {{.*}} : tensor<?x16xf32> to tensor<?x?xf32>
// CHECK: k3.mx.contract ins({{.*}} : tensor<?x64xf32>, tensor<?x32xi8>, tensor<?x2xi8>){{.*}} outs({{.*}} : tensor<?x?xf32>)
// CHECK-COUNT-1: tensor.insert_slice

// CHECK-LABEL: func.func @rms_norm(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0] [%[[M:[a-z0-9_]+]], 8] {{.*}} : tensor<?x8xf32> to tensor<?x8xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0] [%[[M]], 8] {{.*}} : tensor<?x8xf32> to tensor<?x8xf32>
// CHECK: k3.rms_norm ins({{.*}} : tensor<?x8xf32>, tensor<8xbf16>){{.*}} outs({{.*}} : tensor<?x8xf32>)
// CHECK-COUNT-1: tensor.insert_slice

// CHECK-LABEL: func.func @glu(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: scf.for %[[J:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]]] [%[[M:[a-z0-9_]+]], %[[N:[a-z0-9_]+]]] {{.*}} : tensor<?x8xf32> to tensor<?x?xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]]] [%[[M]], %[[N]]] {{.*}} : tensor<?x8xf32> to tensor<?x?xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]]] [%[[M]], %[[N]]] {{.*}} : tensor<?x8xf32> to tensor<?x?xf32>
// CHECK: k3.glu ins({{.*}} : tensor<?x?xf32>, tensor<?x?xf32>){{.*}} outs({{.*}} : tensor<?x?xf32>)
// CHECK-COUNT-1: tensor.insert_slice

// CHECK-LABEL: func.func @glu_swiglu(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: scf.for %[[J:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]]] [%[[M:[a-z0-9_]+]], %[[N:[a-z0-9_]+]]] {{.*}} : tensor<?x8xf32> to tensor<?x?xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]]] [%[[M]], %[[N]]] {{.*}} : tensor<?x8xf32> to tensor<?x?xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]]] [%[[M]], %[[N]]] {{.*}} : tensor<?x8xbf16> to tensor<?x?xbf16>
// CHECK: k3.glu ins({{.*}} : tensor<?x?xf32>, tensor<?x?xf32>){{.*}} outs({{.*}} : tensor<?x?xbf16>)
// CHECK-COUNT-1: tensor.insert_slice

// CHECK-LABEL: func.func @sigmoid_gate(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: scf.for %[[J:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]]] [%[[M:[a-z0-9_]+]], %[[N:[a-z0-9_]+]]] {{.*}} : tensor<?x8xf32> to tensor<?x?xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]]] [%[[M]], %[[N]]] {{.*}} : tensor<?x8xf32> to tensor<?x?xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], %[[J]]] [%[[M]], %[[N]]] {{.*}} : tensor<?x8xf32> to tensor<?x?xf32>
// CHECK: k3.sigmoid_gate ins({{.*}} : tensor<?x?xf32>, tensor<?x?xf32>){{.*}} outs({{.*}} : tensor<?x?xf32>)
// CHECK-COUNT-1: tensor.insert_slice

// CHECK-LABEL: func.func @sample(
// CHECK: scf.for %[[I:.*]] = %{{.*}} step
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0] [%[[M:[a-z0-9_]+]], 70] {{.*}} : tensor<?x70xf32> to tensor<?x70xf32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0] [%[[M]], 8] {{.*}} : tensor<?x8xi32> to tensor<?x8xi32>
// CHECK: tensor.extract_slice %{{.*}}[%[[I]]] [%[[M]]] {{.*}} : tensor<?xi32> to tensor<?xi32>
// CHECK: k3.sample ins({{.*}} : tensor<?x70xf32>, tensor<?x8xi32>, tensor<2x3xi32>){{.*}} outs({{.*}} : tensor<?xi32>)
// CHECK-COUNT-1: tensor.insert_slice
