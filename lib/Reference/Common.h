//===- Common.h - Embedding, linear, norms and gated units ----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "lib/Reference/View.h"

namespace k3::ref {

double sigmoid(double x);
/// log(1 + e^x), without overflow.
double softplus(double x);
double silu(double x);
/// sum_i a[i] * b[i]; both views have the same size.
double dot(View a, View b);

/// out[t,:] = table[ids[t],:]. table [vocab, dim], ids [T] in [0, vocab) -> [T, dim] (k3.gather_rows). Spec 2.1.
Vec embed(View table, IntView ids, Index dim);

/// out[t,o] = sum_i x[t,i] * w[o,i]. x [rows, in], w [out, in] -> [rows, out]. No bias (k3.linear). Spec 2.
Vec linear(View x, View w, Index rows, Index in, Index out);

/// out[r,:] = w * x[r,:] / sqrt(mean(x[r,:]^2) + eps). x [rows, dim], w [dim] -> [rows, dim]. Spec 2.0.
Vec rmsNorm(View x, View w, Index rows, Index dim, double eps);

/// out[r,:] = x[r,:] / sqrt(sum(x[r,:]^2) + eps): eps inside the root and on the sum, so a zero row stays zero.
/// x [rows, dim] -> [rows, dim]. Spec 2.3.
Vec l2Norm(View x, Index rows, Index dim, double eps = 1e-6);

/// What a gated linear unit does with its two halves. Spec 2.5.
struct Activation {
  enum Kind {
    Situ,  ///< beta tanh(gate/beta) sigmoid(gate) * linearBeta tanh(up/linearBeta)
    SwiGlu ///< silu(gate) * up
  } kind = SwiGlu;
  double beta = 4.0, linearBeta = 25.0; ///< only for Situ; both positive
};

/// Element by element; gate and up of one size (k3.glu).
Vec glu(View gate, View up, Activation activation);

/// out[i] = x[i] * sigmoid(gate[i]). Spec 2.4, the output gate of MLA (k3.sigmoid_gate).
Vec sigmoidGate(View x, View gate);

/// out[i] = a[i] + b[i].
Vec add(View a, View b);

/// down( glu(gate x, up x) ). x [rows, dim], gate and up [width, dim], down [dim, width] -> [rows, dim]. Spec 2.5.
Vec mlp(View x, View gate, View up, View down, Activation activation, Index rows, Index dim, Index width);

} // namespace k3::ref
