//===- AttnRes.cpp - Block Attention Residuals ----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/AttnRes.h"
#include "lib/Reference/Common.h"

#include <algorithm>
#include <cmath>

using namespace k3::ref;

static void requireStream(View stream, Index slots, const StreamShape &s) {
  require(s.dim > 0 && s.tokens >= 0 && slots >= 1, "attnRes: no source, or a shape that is not positive");
  require(stream.size() >= slots * s.tokens * s.dim, "attnRes: the stream has fewer slots than sources");
}

static View row(View stream, Index slot, Index token, const StreamShape &s) {
  return stream.slice((slot * s.tokens + token) * s.dim, s.dim);
}

Vec k3::ref::attnResWeights(View stream, Index sources, View wNorm, View wProj, double eps, StreamShape s) {
  requireStream(stream, sources, s);
  require(wNorm.size() == s.dim && wProj.size() == s.dim, "attnRes: wNorm or wProj is not [d]");
  Vec weights(s.tokens * sources);
  for (Index t = 0; t < s.tokens; ++t) {
    double *a = weights.data() + t * sources;
    for (Index i = 0; i < sources; ++i) {
      Vec key = rmsNorm(row(stream, i, t, s), wNorm, 1, s.dim, eps);
      a[i] = dot(key, wProj);
    }
    double top = *std::max_element(a, a + sources), sum = 0;
    for (Index i = 0; i < sources; ++i)
      sum += a[i] = std::exp(a[i] - top);
    for (Index i = 0; i < sources; ++i)
      a[i] /= sum;
  }
  return weights;
}

Vec k3::ref::attnResMix(View stream, Index sources, View wNorm, View wProj, double eps, StreamShape s) {
  Vec weights = attnResWeights(stream, sources, wNorm, wProj, eps, s);
  Vec out(s.tokens * s.dim);
  for (Index t = 0; t < s.tokens; ++t)
    for (Index i = 0; i < sources; ++i)
      for (Index j = 0; j < s.dim; ++j)
        out[t * s.dim + j] += weights[t * sources + i] * row(stream, i, t, s)[j];
  return out;
}

void k3::ref::attnResAccumulate(Vec &stream, Index slot, View delta, bool init, StreamShape s) {
  requireStream(stream, slot + 1, s);
  require(delta.size() == s.tokens * s.dim, "attnRes: delta is not [T, d]");
  for (Index i = 0; i < delta.size(); ++i) {
    double &sum = stream[slot * s.tokens * s.dim + i];
    sum = (init ? 0.0 : sum) + delta[i];
  }
}
