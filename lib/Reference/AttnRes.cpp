//===- AttnRes.cpp - Block Attention Residuals ----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/AttnRes.h"
#include "lib/Reference/Common.h"

#include <algorithm>
#include <cmath>

using namespace k3::ref;

static Index sourceCount(const MixSources &s) {
  require(s.dim > 0 && s.tokens >= 0 && s.count >= 0, "attnRes: shape is not positive");
  require(s.stack.size() >= s.count * s.tokens * s.dim, "attnRes: the stack has fewer slots than sources");
  require(s.partial.empty() || s.partial.size() == s.tokens * s.dim, "attnRes: the partial sum is not [T, d]");
  Index sources = s.count + (s.partial.empty() ? 0 : 1);
  require(sources > 0 || s.tokens == 0, "attnRes: no source");
  return sources;
}

static View source(const MixSources &s, Index index, Index token) {
  return index < s.count ? s.stack.slice((index * s.tokens + token) * s.dim, s.dim)
                         : s.partial.slice(token * s.dim, s.dim);
}

Vec k3::ref::attnResWeights(MixSources s, View wNorm, View wProj, double eps) {
  Index sources = sourceCount(s);
  require(wNorm.size() == s.dim && wProj.size() == s.dim, "attnRes: wNorm or wProj is not [d]");
  Vec weights(s.tokens * sources);
  for (Index t = 0; t < s.tokens; ++t) {
    double *a = weights.data() + t * sources;
    for (Index i = 0; i < sources; ++i) {
      View value = source(s, i, t);
      Vec key = rmsNorm(value, wNorm, 1, s.dim, eps);
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

Vec k3::ref::attnResMix(MixSources s, View wNorm, View wProj, double eps) {
  Index sources = sourceCount(s);
  Vec weights = attnResWeights(s, wNorm, wProj, eps);
  Vec out(s.tokens * s.dim);
  for (Index t = 0; t < s.tokens; ++t)
    for (Index i = 0; i < sources; ++i)
      for (Index j = 0; j < s.dim; ++j)
        out[t * s.dim + j] += weights[t * sources + i] * source(s, i, t)[j];
  return out;
}
