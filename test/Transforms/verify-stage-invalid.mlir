// RUN: k3-opt %s --k3-verify-stage=stage=fused --verify-diagnostics

// The contracts themselves: test/Pipelines/contract-*-invalid.mlir.
// expected-error@+1 {{expected a stage (import, model, structured, fuse, chunk, dispatch, configure, kernels, binaries, plan, artifact), got 'fused'}}
module {
}
