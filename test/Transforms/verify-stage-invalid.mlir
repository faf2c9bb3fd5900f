// RUN: k3-opt %s --k3-verify-stage=stage=fused --verify-diagnostics
// RUN: not k3-opt %s --k3-verify-stage=stage=artifact 2>&1 | FileCheck %s

// CHECK: stage 'artifact' has no contract to check
// expected-error@+1 {{expected a stage (import, model, structured, fuse, chunk, dispatch, configure, kernels, binaries, plan, artifact), got 'fused'}}
module {
}
