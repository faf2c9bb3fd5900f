//===- Mla.cpp - Multi-head Latent Attention without positions ------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Mla.h"
#include "lib/Reference/Common.h"

#include <algorithm>
#include <cmath>

using namespace k3::ref;

void k3::ref::mlaAppend(View kv, View norm, double eps, IntView cu, IntView length, Vec &cache, MlaShape s) {
  Index width = s.latent + s.rope, sequences = cu.size() - 1;
  requireBoundaries(cu, s.tokens);
  require(kv.size() == s.tokens * width, "mlaAppend: kv is not [T, latent + rope]");
  require(length.size() == sequences, "mlaAppend: length is not [N]");
  require(static_cast<Index>(cache.size()) == sequences * s.capacity * width, "mlaAppend: cache has the wrong size");
  for (Index n = 0; n < sequences; ++n)
    for (Index t = cu[n]; t < cu[n + 1]; ++t) {
      Index at = length[n] + t - cu[n];
      require(at >= 0 && at < s.capacity, "mlaAppend: the cache is full");
      double *row = cache.data() + (n * s.capacity + at) * width;
      Vec latent = rmsNorm(kv.slice(t * width, s.latent), norm, 1, s.latent, eps);
      std::copy(latent.begin(), latent.end(), row);
      for (Index j = s.latent; j < width; ++j)
        row[j] = kv[t * width + j];
    }
}

static void requireCache(View cache, IntView cu, IntView context, const MlaShape &s) {
  requireBoundaries(cu, s.tokens);
  Index sequences = cu.size() - 1;
  require(cache.size() == sequences * s.capacity * (s.latent + s.rope), "mla: cache has the wrong size");
  require(context.size() == sequences, "mla: context is not [N]");
  for (Index n = 0; n < sequences; ++n)
    require(context[n] >= 0 && context[n] <= s.capacity, "mla: context is longer than the cache");
}

/// Calls visit(t, first cache row of the sequence, number of rows token t sees).
template <typename Visit> static void forEachToken(IntView cu, IntView context, const MlaShape &s, Visit visit) {
  for (Index n = 0; n + 1 < cu.size(); ++n)
    for (Index t = cu[n]; t < cu[n + 1]; ++t)
      visit(t, n * s.capacity, std::max<Index>(0, context[n] - (cu[n + 1] - t) + 1));
}

static void softmax(Vec &x) {
  if (x.empty())
    return;
  double top = *std::max_element(x.begin(), x.end()), sum = 0;
  for (double &v : x)
    sum += v = std::exp(v - top);
  for (double &v : x)
    v /= sum;
}

Vec k3::ref::mlaAttend(View qAbs, View qRope, View cache, IntView cu, IntView context, double scale, MlaShape s) {
  requireCache(cache, cu, context, s);
  require(qAbs.size() == s.tokens * s.heads * s.latent, "mlaAttend: qAbs is not [T, H, latent]");
  require(qRope.size() == s.tokens * s.heads * s.rope, "mlaAttend: qRope is not [T, H, rope]");
  Index width = s.latent + s.rope;
  Vec out(s.tokens * s.heads * s.latent);
  forEachToken(cu, context, s, [&](Index t, Index first, Index rows) {
    for (Index h = 0; h < s.heads; ++h) {
      Index head = t * s.heads + h;
      Vec p(rows);
      for (Index r = 0; r < rows; ++r) {
        View row = cache.slice((first + r) * width, width);
        p[r] = scale * (dot(qAbs.slice(head * s.latent, s.latent), row.slice(0, s.latent)) +
                        dot(qRope.slice(head * s.rope, s.rope), row.slice(s.latent, s.rope)));
      }
      softmax(p);
      for (Index r = 0; r < rows; ++r)
        for (Index j = 0; j < s.latent; ++j)
          out[head * s.latent + j] += p[r] * cache[(first + r) * width + j];
    }
  });
  return out;
}

Vec k3::ref::mlaAbsorbQuery(View qNope, View wKvB, Index nope, Index value, MlaShape s) {
  require(qNope.size() == s.tokens * s.heads * nope, "mlaAbsorbQuery: qNope is not [T, H, nope]");
  require(wKvB.size() == s.heads * (nope + value) * s.latent, "mlaAbsorbQuery: wKvB is not [H, nope + value, latent]");
  Vec out(s.tokens * s.heads * s.latent);
  for (Index head = 0; head < s.tokens * s.heads; ++head)
    for (Index i = 0; i < nope; ++i) {
      Index row = head % s.heads * (nope + value) + i;
      for (Index j = 0; j < s.latent; ++j)
        out[head * s.latent + j] += qNope[head * nope + i] * wKvB[row * s.latent + j];
    }
  return out;
}

Vec k3::ref::mlaExpandValue(View o, View wKvB, Index nope, Index value, MlaShape s) {
  require(o.size() == s.tokens * s.heads * s.latent, "mlaExpandValue: o is not [T, H, latent]");
  require(wKvB.size() == s.heads * (nope + value) * s.latent, "mlaExpandValue: wKvB is not [H, nope + value, latent]");
  Vec out(s.tokens * s.heads * value);
  for (Index head = 0; head < s.tokens * s.heads; ++head)
    for (Index i = 0; i < value; ++i) {
      Index row = head % s.heads * (nope + value) + nope + i;
      out[head * value + i] = dot(wKvB.slice(row * s.latent, s.latent), o.slice(head * s.latent, s.latent));
    }
  return out;
}

Vec k3::ref::mlaAttendExpanded(View qNope, View qRope, View wKvB, View cache, IntView cu, IntView context, double scale,
                               Index nope, Index value, MlaShape s) {
  requireCache(cache, cu, context, s);
  require(qNope.size() == s.tokens * s.heads * nope, "mlaAttendExpanded: qNope is not [T, H, nope]");
  require(qRope.size() == s.tokens * s.heads * s.rope, "mlaAttendExpanded: qRope is not [T, H, rope]");
  Index width = s.latent + s.rope, perHead = nope + value;
  Vec out(s.tokens * s.heads * value);
  forEachToken(cu, context, s, [&](Index t, Index first, Index rows) {
    Vec latents; // [rows, latent]
    for (Index r = 0; r < rows; ++r)
      for (Index j = 0; j < s.latent; ++j)
        latents.push_back(cache[(first + r) * width + j]);
    Vec keysAndValues = linear(latents, wKvB, rows, s.latent, s.heads * perHead); // [rows, H, nope + value]
    for (Index h = 0; h < s.heads; ++h) {
      Index head = t * s.heads + h;
      Vec p(rows);
      for (Index r = 0; r < rows; ++r) {
        View key = View(keysAndValues).slice((r * s.heads + h) * perHead, nope);
        p[r] = scale * (dot(qNope.slice(head * nope, nope), key) +
                        dot(qRope.slice(head * s.rope, s.rope), cache.slice((first + r) * width + s.latent, s.rope)));
      }
      softmax(p);
      for (Index r = 0; r < rows; ++r)
        for (Index j = 0; j < value; ++j)
          out[head * value + j] += p[r] * keysAndValues[(r * s.heads + h) * perHead + nope + j];
    }
  });
  return out;
}
