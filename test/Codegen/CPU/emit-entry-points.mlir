// RUN: k3-opt %s --allow-unregistered-dialect --k3-emit-entry-points | FileCheck %s

// CHECK-LABEL: func.func private @kernel.body
// CHECK-SAME: (%[[X:[^:]*]]: memref<f32> {llvm.noalias}, %[[Y:[^:]*]]: memref<i8> {llvm.noalias},
// CHECK-SAME: %[[T:[^:]*]]: index, %[[U:[^:]*]]: index, %[[N:[^:]*]]: index,
// CHECK-SAME: %{{[^:]*}}: memref<i8> {llvm.noalias},
// CHECK-SAME: %[[GX:[^:]*]]: index, %{{[^:]*}}: index, %{{[^:]*}}: index)
// CHECK-SAME: llvm.linkage = #llvm.linkage<internal>
// CHECK: %[[STRIDE:.*]] = arith.muli %[[U]]
// CHECK: memref.reinterpret_cast %[[X]] to offset: [0], sizes: [%[[T]], %[[U]], 8], strides: [%[[STRIDE]], 8, 1]
// CHECK: func.func @kernel(%[[ARGS:.*]]: !llvm.ptr, %[[WG:.*]]: !llvm.ptr) -> i32 attributes {k3.kernel, k3.scratch_bytes = 128 : i64}
// CHECK: llvm.getelementptr %[[ARGS]][8]
// CHECK: llvm.getelementptr %[[WG]][24]
// CHECK: %[[BYTES_AT:.*]] = llvm.getelementptr %[[WG]][32]
// CHECK: %[[BYTES:.*]] = llvm.load %[[BYTES_AT]] : !llvm.ptr -> i64
// CHECK: arith.cmpi uge, %[[BYTES]]
// CHECK: scf.if
// CHECK: func.call @kernel.body
func.func private @kernel(%x: memref<?x?x8xf32>, %y: memref<4xi8>, %n: index, %scratch: memref<128xi8> {k3.scratch},
                          %wx: index {k3.workgroup_id}, %wy: index {k3.workgroup_id}, %wz: index {k3.workgroup_id})
    attributes {k3.kernel, k3.scratch_bytes = 128 : i64} {
  "test.use"(%x, %y, %n, %wx, %scratch) : (memref<?x?x8xf32>, memref<4xi8>, index, index, memref<128xi8>) -> ()
  return
}
