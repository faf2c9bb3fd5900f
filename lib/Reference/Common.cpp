//===- Common.cpp - Embedding, linear, norms and gated units --------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Common.h"

#include <algorithm>
#include <cmath>

using namespace k3::ref;

double k3::ref::sigmoid(double x) {
  double e = std::exp(-std::abs(x)); // never overflows
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

double k3::ref::softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

double k3::ref::silu(double x) { return x * sigmoid(x); }

double k3::ref::dot(View a, View b) {
  require(a.size() == b.size(), "dot: sizes differ");
  // Four partial sums only so that the whole-model tests do not wait on the latency of one addition after another.
  double sum[4] = {0, 0, 0, 0};
  Index i = 0;
  for (; i + 4 <= a.size(); i += 4)
    for (Index lane = 0; lane < 4; ++lane)
      sum[lane] += a[i + lane] * b[i + lane];
  for (; i < a.size(); ++i)
    sum[0] += a[i] * b[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

Vec k3::ref::embed(View table, IntView ids, Index dim) {
  require(dim > 0 && table.size() % dim == 0, "embed: the table is not [vocab, dim]");
  Vec out(ids.size() * dim);
  for (Index t = 0; t < ids.size(); ++t) {
    require(ids[t] >= 0 && ids[t] < table.size() / dim, "embed: token id outside the vocabulary");
    for (Index j = 0; j < dim; ++j)
      out[t * dim + j] = table[ids[t] * dim + j];
  }
  return out;
}

Vec k3::ref::linear(View x, View w, Index rows, Index in, Index out) {
  require(x.size() == rows * in, "linear: x is not [rows, in]");
  require(w.size() == out * in, "linear: w is not [out, in]");
  Vec y(rows * out);
  for (Index t = 0; t < rows; ++t)
    for (Index o = 0; o < out; ++o)
      y[t * out + o] = dot(x.slice(t * in, in), w.slice(o * in, in));
  return y;
}

Vec k3::ref::rmsNorm(View x, View w, Index rows, Index dim, double eps) {
  require(x.size() == rows * dim && w.size() == dim, "rmsNorm: x is not [rows, dim] or w is not [dim]");
  Vec y(rows * dim);
  for (Index r = 0; r < rows; ++r) {
    View row = x.slice(r * dim, dim);
    double inverse = 1 / std::sqrt(dot(row, row) / static_cast<double>(dim) + eps);
    for (Index j = 0; j < dim; ++j)
      y[r * dim + j] = w[j] * (row[j] * inverse);
  }
  return y;
}

Vec k3::ref::l2Norm(View x, Index rows, Index dim, double eps) {
  require(x.size() == rows * dim, "l2Norm: x is not [rows, dim]");
  Vec y(rows * dim);
  for (Index r = 0; r < rows; ++r) {
    View row = x.slice(r * dim, dim);
    double length = std::sqrt(dot(row, row) + eps);
    for (Index j = 0; j < dim; ++j)
      y[r * dim + j] = row[j] / length;
  }
  return y;
}

Vec k3::ref::glu(View gate, View up, Activation activation) {
  require(gate.size() == up.size(), "glu: gate and up differ in size");
  double b1 = activation.beta, b2 = activation.linearBeta;
  Vec y(gate.size());
  for (Index i = 0; i < gate.size(); ++i) {
    double g = gate[i], u = up[i];
    if (activation.kind == Activation::Situ) // the sigmoid reads the uncapped gate
      y[i] = b1 * std::tanh(g / b1) * sigmoid(g) * (b2 * std::tanh(u / b2));
    else
      y[i] = silu(g) * u;
  }
  return y;
}

Vec k3::ref::sigmoidGate(View x, View gate) {
  require(x.size() == gate.size(), "sigmoidGate: x and gate differ in size");
  Vec y(x.size());
  for (Index i = 0; i < x.size(); ++i)
    y[i] = x[i] * sigmoid(gate[i]);
  return y;
}

Vec k3::ref::add(View a, View b) {
  require(a.size() == b.size(), "add: sizes differ");
  Vec y(a.size());
  for (Index i = 0; i < a.size(); ++i)
    y[i] = a[i] + b[i];
  return y;
}

Vec k3::ref::mlp(View x, View gate, View up, View down, Activation activation, Index rows, Index dim, Index width) {
  Vec g = linear(x, gate, rows, dim, width), u = linear(x, up, rows, dim, width);
  return linear(glu(g, u, activation), down, rows, width, dim);
}
