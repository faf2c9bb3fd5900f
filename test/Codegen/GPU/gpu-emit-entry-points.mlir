// RUN: k3-opt %s --allow-unregistered-dialect --k3-gpu-emit-entry-points | FileCheck %s

// One symbol for all kernels.
// CHECK: llvm.mlir.global external @k3_shared() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
// CHECK-NOT: llvm.mlir.global
// CHECK-LABEL: func.func @kernel
// CHECK-SAME: (%[[X:[^:]*]]: memref<f32> {llvm.noalias}, %[[Y:[^:]*]]: memref<i8> {llvm.noalias},
// CHECK-SAME: %[[T:[^:]*]]: index, %[[U:[^:]*]]: index, %[[N:[^:]*]]: index, %[[MAP:[^:]*]]: !llvm.ptr {k3.tensor_map = 0 : i64})
// CHECK: %[[SHARED:.*]] = llvm.mlir.addressof @k3_shared : !llvm.ptr<3>
// CHECK: %[[STRIDE:.*]] = arith.muli %[[U]]
// CHECK: %[[VIEW:.*]] = memref.reinterpret_cast %[[X]] to offset: [0], sizes: [%[[T]], %[[U]], 8], strides: [%[[STRIDE]], 8, 1]
// CHECK: "test.use"(%[[VIEW]], %{{.*}}, %[[N]], %[[SHARED]], %[[MAP]])
func.func private @kernel(%x: memref<?x?x8xf32>, %y: memref<4xi8>, %n: index, %shared: !llvm.ptr<3> {k3.shared_memory},
                          %map: !llvm.ptr {k3.tensor_map = 0 : i64}) attributes {k3.kernel} {
  "test.use"(%x, %y, %n, %shared, %map) : (memref<?x?x8xf32>, memref<4xi8>, index, !llvm.ptr<3>, !llvm.ptr) -> ()
  return
}

// CHECK-LABEL: func.func @second
// CHECK: llvm.mlir.addressof @k3_shared
func.func private @second(%y: memref<4xi8>, %shared: !llvm.ptr<3> {k3.shared_memory}) attributes {k3.kernel} {
  "test.use"(%y, %shared) : (memref<4xi8>, !llvm.ptr<3>) -> ()
  return
}
