//===- Mla.cpp - Multi-head Latent Attention without positions ------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Mla.h"
#include "lib/Reference/Common.h"

#include <algorithm>
#include <cmath>

using namespace k3::ref;

/// Calls visit(t, rows) for every token, `rows` being where in [P*page] the positions it sees lie, its own last.
template <typename Visit> static void forEachToken(MlaBatch batch, Index cacheSize, const MlaShape &s, Visit visit) {
  requireBoundaries(batch.cu, s.tokens);
  Index sequences = batch.cu.size() - 1, width = s.latent + s.rope;
  require(s.page > 0 && cacheSize % (s.page * width) == 0, "mla: the cache is not [P, page, latent + rope]");
  require(batch.lengths.size() == sequences, "mla: lengths is not [N]");
  require(sequences == 0 || batch.pageTable.size() % sequences == 0, "mla: the page table is not [N, M]");
  Index pages = sequences ? batch.pageTable.size() / sequences : 0;
  for (Index n = 0; n < sequences; ++n) {
    require(batch.lengths[n] >= 0, "mla: negative length");
    for (Index t = batch.cu[n]; t < batch.cu[n + 1]; ++t) {
      std::vector<Index> rows;
      for (Index p = 0; p <= batch.lengths[n] + t - batch.cu[n]; ++p) {
        require(p / s.page < pages, "mla: position outside the page table");
        Index page = batch.pageTable[n * pages + p / s.page];
        require(page >= 0 && page < cacheSize / (s.page * width), "mla: page outside the cache");
        rows.push_back(page * s.page + p % s.page);
      }
      visit(t, rows);
    }
  }
}

void k3::ref::mlaAppend(View kv, View norm, double eps, MlaBatch batch, Vec &cache, MlaShape s) {
  Index width = s.latent + s.rope;
  require(kv.size() == s.tokens * width, "mlaAppend: kv is not [T, latent + rope]");
  forEachToken(batch, static_cast<Index>(cache.size()), s, [&](Index t, const std::vector<Index> &rows) {
    double *row = cache.data() + rows.back() * width;
    Vec latent = rmsNorm(kv.slice(t * width, s.latent), norm, 1, s.latent, eps);
    std::copy(latent.begin(), latent.end(), row);
    for (Index j = s.latent; j < width; ++j)
      row[j] = kv[t * width + j];
  });
}

static void requireHeads(View q, View kvB, const MlaShape &s) {
  require(q.size() == s.tokens * s.heads * (s.nope + s.rope), "mla: q is not [T, H, nope + rope]");
  require(kvB.size() == s.heads * (s.nope + s.value) * s.latent, "mla: kvB is not [H, nope + value, latent]");
}

Vec k3::ref::mlaAbsorb(View q, View kvB, MlaShape s) {
  requireHeads(q, kvB, s);
  Index width = s.latent + s.rope;
  Vec out(s.tokens * s.heads * width);
  for (Index head = 0; head < s.tokens * s.heads; ++head) { // t * H + h
    View query = q.slice(head * (s.nope + s.rope), s.nope + s.rope);
    for (Index i = 0; i < s.nope; ++i) {
      View keyRow = kvB.slice((head % s.heads * (s.nope + s.value) + i) * s.latent, s.latent);
      for (Index j = 0; j < s.latent; ++j)
        out[head * width + j] += query[i] * keyRow[j];
    }
    for (Index j = 0; j < s.rope; ++j)
      out[head * width + s.latent + j] = query[s.nope + j];
  }
  return out;
}

static void softmax(Vec &x) {
  double top = *std::max_element(x.begin(), x.end()), sum = 0;
  for (double &v : x)
    sum += v = std::exp(v - top);
  for (double &v : x)
    v /= sum;
}

Vec k3::ref::mlaAttend(View q, View cache, double scale, MlaBatch batch, MlaShape s) {
  Index width = s.latent + s.rope;
  require(q.size() == s.tokens * s.heads * width, "mlaAttend: q is not [T, H, latent + rope]");
  Vec out(s.tokens * s.heads * s.latent);
  forEachToken(batch, cache.size(), s, [&](Index t, const std::vector<Index> &rows) {
    for (Index head = t * s.heads; head < (t + 1) * s.heads; ++head) {
      Vec p;
      for (Index row : rows)
        p.push_back(scale * dot(q.slice(head * width, width), cache.slice(row * width, width)));
      softmax(p);
      for (std::size_t r = 0; r < rows.size(); ++r)
        for (Index j = 0; j < s.latent; ++j)
          out[head * s.latent + j] += p[r] * cache[rows[r] * width + j];
    }
  });
  return out;
}

namespace {
/// A stretch of one sequence's positions that falls into one run.
struct Part {
  Index run, sequence, begin, end;
  bool startsSequence, endsSequence;
};
} // namespace

/// Walks over the tiles of all sequences, one after the other, and notes where runs and sequences change.
static std::vector<Part> dealTiles(IntView lengths, Index tile, Index runs) {
  Index sequences = lengths.size(), total = 0;
  for (Index n = 0; n < sequences; ++n)
    total += (lengths[n] + 1 + tile - 1) / tile;
  std::vector<Part> parts;
  Index run = 0, left = total / runs + (total % runs > 0); // tiles that this run still gets
  for (Index n = 0; n < sequences; ++n) {
    Index context = lengths[n] + 1;
    for (Index begin = 0; begin < context; begin += tile) {
      while (left == 0) {
        ++run;
        left = total / runs + (run < total % runs);
      }
      --left;
      Index end = std::min(begin + tile, context);
      if (!parts.empty() && parts.back().run == run && parts.back().sequence == n)
        parts.back().end = end;
      else
        parts.push_back({run, n, begin, end, begin == 0, false});
      parts.back().endsSequence = end == context;
    }
  }
  return parts;
}

AttendParts k3::ref::mlaAttendPartial(View q, View cache, double scale, IntView lengths, IntView pageTable, Index tile,
                                      Index runs, MlaShape s) {
  Index width = s.latent + s.rope, sequences = lengths.size();
  require(q.size() == sequences * s.heads * width, "mlaAttendPartial: q is not [N, H, latent + rope]");
  require(tile > 0 && runs > 0, "mlaAttendPartial: no tiles or runs");
  require(sequences == 0 || pageTable.size() % sequences == 0, "mla: the page table is not [N, M]");
  Index pages = sequences ? pageTable.size() / sequences : 0;
  AttendParts out{Vec(sequences * s.heads * s.latent, NAN), Vec(runs * 2 * s.heads * s.latent, NAN),
                  Vec(runs * 2 * s.heads * 2, NAN)};
  for (const Part &part : dealTiles(lengths, tile, runs))
    for (Index h = 0; h < s.heads; ++h) {
      Index n = part.sequence;
      Vec scores, sum(s.latent);
      std::vector<View> rows;
      for (Index p = part.begin; p < part.end; ++p) {
        require(p / s.page < pages, "mla: position outside the page table");
        rows.push_back(cache.slice((pageTable[n * pages + p / s.page] * s.page + p % s.page) * width, width));
        scores.push_back(scale * dot(q.slice((n * s.heads + h) * width, width), rows.back()));
      }
      double top = *std::max_element(scores.begin(), scores.end()), total = 0;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        double weight = std::exp(scores[i] - top);
        total += weight;
        for (Index j = 0; j < s.latent; ++j)
          sum[j] += weight * rows[i][j];
      }
      bool whole = part.startsSequence && part.endsSequence;
      Index place = (part.run * 2 + part.startsSequence) * s.heads + h;
      for (Index j = 0; j < s.latent; ++j)
        if (whole)
          out.out[(n * s.heads + h) * s.latent + j] = sum[j] / total;
        else
          out.parts[place * s.latent + j] = sum[j];
      if (!whole) {
        out.states[place * 2] = top;
        out.states[place * 2 + 1] = total;
      }
    }
  return out;
}

void k3::ref::mlaAttendMerge(View parts, View states, IntView lengths, Index tile, Index runs, Vec &out, MlaShape s) {
  require(parts.size() == runs * 2 * s.heads * s.latent, "mlaAttendMerge: parts are not [R, 2, H, latent]");
  require(states.size() == runs * 2 * s.heads * 2, "mlaAttendMerge: states are not [R, 2, H, 2]");
  std::vector<Part> all = dealTiles(lengths, tile, runs);
  for (Index n = 0; n < lengths.size(); ++n)
    for (Index h = 0; h < s.heads; ++h) {
      std::vector<Index> places;
      for (const Part &part : all)
        if (part.sequence == n && !(part.startsSequence && part.endsSequence))
          places.push_back((part.run * 2 + part.startsSequence) * s.heads + h);
      if (places.empty())
        continue;
      double top = -INFINITY, total = 0;
      for (Index place : places)
        top = std::max(top, states[place * 2]);
      Vec sum(s.latent);
      for (Index place : places) {
        double factor = std::exp(states[place * 2] - top);
        total += factor * states[place * 2 + 1];
        for (Index j = 0; j < s.latent; ++j)
          sum[j] += factor * parts[place * s.latent + j];
      }
      for (Index j = 0; j < s.latent; ++j)
        out[(n * s.heads + h) * s.latent + j] = sum[j] / total;
    }
}

Vec k3::ref::mlaExpand(View x, View kvB, MlaShape s) {
  require(x.size() == s.tokens * s.heads * s.latent, "mlaExpand: x is not [T, H, latent]");
  require(kvB.size() == s.heads * (s.nope + s.value) * s.latent, "mlaExpand: kvB is not [H, nope + value, latent]");
  Vec out(s.tokens * s.heads * s.value);
  for (Index head = 0; head < s.tokens * s.heads; ++head)
    for (Index i = 0; i < s.value; ++i) {
      Index row = head % s.heads * (s.nope + s.value) + s.nope + i;
      out[head * s.value + i] = dot(kvB.slice(row * s.latent, s.latent), x.slice(head * s.latent, s.latent));
    }
  return out;
}

Vec k3::ref::mlaAttendExpanded(View q, View kvB, View cache, double scale, MlaBatch batch, MlaShape s) {
  requireHeads(q, kvB, s);
  Index width = s.latent + s.rope, perHead = s.nope + s.value;
  Vec out(s.tokens * s.heads * s.value);
  forEachToken(batch, cache.size(), s, [&](Index t, const std::vector<Index> &rows) {
    for (Index h = 0; h < s.heads; ++h) {
      Index head = t * s.heads + h;
      View qNope = q.slice(head * (s.nope + s.rope), s.nope);
      View qRope = q.slice(head * (s.nope + s.rope) + s.nope, s.rope);
      View w = kvB.slice(h * perHead * s.latent, perHead * s.latent);
      Vec p;
      std::vector<Vec> values;
      for (Index row : rows) {
        Vec keyValue = linear(cache.slice(row * width, s.latent), w, 1, s.latent, perHead);
        View shared = cache.slice(row * width + s.latent, s.rope);
        p.push_back(scale * (dot(qNope, View(keyValue).slice(0, s.nope)) + dot(qRope, shared)));
        values.emplace_back(keyValue.begin() + s.nope, keyValue.end());
      }
      softmax(p);
      for (std::size_t r = 0; r < rows.size(); ++r)
        for (Index j = 0; j < s.value; ++j)
          out[head * s.value + j] += p[r] * values[r][j];
    }
  });
  return out;
}
