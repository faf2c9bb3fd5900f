/*===- ToyKernels.c - hand-written kernels of the toy model -*- C -*-===*/
/* Part of k3c, under the Apache License v2.0 with LLVM Exceptions. */
/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/*===----------------------------------------------------------------------===*/
/* Small integers in f32, modulo 1009, so that every result is exact and does not
 * depend on how work is cut. See ToyModel.h for what the model computes. */
#include "k3rt/abi.h"

enum { tileRows = 4, tileColumns = 4, tileVocab = 16, window = 2, numExperts = 3 };
enum { failToken = 63, failCode = 7 };

static float mod(float x) {
  if (x != x)
    return x;
  return x - 1009.0f * (float)(int)(x / 1009.0f);
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* bindings: tokens[T] table[V, H] stream[2, T, H]; scalars: T V H; grid: row tiles, or fewer */
static int32_t embed(const k3_kernel_args *args, const k3_workgroup *group) {
  const int32_t *tokens = args->bindings[0];
  const float *table = args->bindings[1];
  float *stream = args->bindings[2];
  int64_t T = args->scalars[0], H = args->scalars[2];
  for (int64_t first = (int64_t)group->id[0] * tileRows; first < T; first += (int64_t)group->count[0] * tileRows)
    for (int64_t t = first; t < smaller(first + tileRows, T); ++t) {
      if (tokens[t] == failToken)
        return failCode;
      for (int64_t h = 0; h < H; ++h)
        stream[t * H + h] = table[tokens[t] * H + h];
    }
  return 0;
}

/* bindings: stream cu[N+1] slots[N] window[S, 2, H] bf16, out[T, H]; scalars: T N H slot; grid: N, column tiles */
static int32_t conv(const k3_kernel_args *args, const k3_workgroup *group) {
  int64_t T = args->scalars[0], H = args->scalars[2];
  const float *x = (const float *)args->bindings[0] + args->scalars[3] * T * H;
  const int32_t *cu = args->bindings[1], *slots = args->bindings[2];
  uint64_t n = group->id[0];
  uint16_t *past = (uint16_t *)args->bindings[3] + (int64_t)slots[n] * window * H;
  float *out = args->bindings[4];
  int64_t first = (int64_t)group->id[1] * tileColumns;
  for (int64_t h = first; h < smaller(first + tileColumns, H); ++h) {
    union { uint32_t bits; float value; } older = {(uint32_t)past[h] << 16}, newer = {(uint32_t)past[H + h] << 16};
    for (int32_t t = cu[n]; t < cu[n + 1]; ++t) {
      float now = x[t * H + h];
      out[t * H + h] = mod(now + 2 * newer.value + 3 * older.value);
      older = newer;
      newer.value = now == now ? (float)((int)now % 251) : now;
    }
    past[h] = (uint16_t)(older.bits >> 16);
    past[H + h] = (uint16_t)(newer.bits >> 16);
  }
  return 0;
}

/* bindings: stream chunks[C, 2] weight[H] sums[C, H]; scalars: T C H slot; grid: C */
static int32_t chunkSums(const k3_kernel_args *args, const k3_workgroup *group) {
  int64_t T = args->scalars[0], H = args->scalars[2];
  const float *x = (const float *)args->bindings[0] + args->scalars[3] * T * H;
  const int32_t *chunk = (const int32_t *)args->bindings[1] + 2 * (int64_t)group->id[0];
  const float *weight = args->bindings[2];
  float *sums = (float *)args->bindings[3] + (int64_t)group->id[0] * H;
  for (int64_t h = 0; h < H; ++h) {
    float sum = 0;
    for (int32_t t = chunk[0]; t < chunk[0] + chunk[1]; ++t)
      sum = mod(3 * sum + x[t * H + h] * weight[h]);
    sums[h] = sum;
  }
  return 0;
}

/* bindings: sums[C, H] chunks[C, 2] chunk_cu[N+1] slots[N] state[S, H] entries[C, H]; scalars: N H; grid: N */
static int32_t chunkScan(const k3_kernel_args *args, const k3_workgroup *group) {
  const float *sums = args->bindings[0];
  const int32_t *chunks = args->bindings[1], *chunkCu = args->bindings[2], *slots = args->bindings[3];
  int64_t H = args->scalars[1];
  uint64_t n = group->id[0];
  float *state = (float *)args->bindings[4] + (int64_t)slots[n] * H;
  float *entries = args->bindings[5];
  for (int64_t h = 0; h < H; ++h)
    for (int32_t c = chunkCu[n]; c < chunkCu[n + 1]; ++c) {
      float s = state[h];
      entries[c * H + h] = s;
      for (int32_t i = 0; i < chunks[2 * c + 1]; ++i)
        s = mod(3 * s);
      state[h] = mod(s + sums[c * H + h]);
    }
  return 0;
}

/* bindings: stream chunks weight entries conv[T, H]; scalars: T C H slot; grid: C; scratch: H floats */
static int32_t chunkApply(const k3_kernel_args *args, const k3_workgroup *group) {
  int64_t T = args->scalars[0], H = args->scalars[2];
  float *x = (float *)args->bindings[0] + args->scalars[3] * T * H;
  const int32_t *chunk = (const int32_t *)args->bindings[1] + 2 * (int64_t)group->id[0];
  const float *weight = args->bindings[2];
  const float *entry = (const float *)args->bindings[3] + (int64_t)group->id[0] * H;
  const float *conv = args->bindings[4];
  float *s = group->scratch;
  if (group->scratch_bytes < (uint64_t)H * sizeof(float))
    return 1;
  for (int64_t h = 0; h < H; ++h)
    s[h] = entry[h];
  for (int32_t t = chunk[0]; t < chunk[0] + chunk[1]; ++t)
    for (int64_t h = 0; h < H; ++h) {
      s[h] = mod(3 * s[h] + x[t * H + h] * weight[h]);
      x[t * H + h] = mod(s[h] + conv[t * H + h]);
    }
  return 0;
}

/* The decode form of the three above. bindings: stream slots[N] weight state conv; scalars: T N H slot; grid: N */
static int32_t recurrentStep(const k3_kernel_args *args, const k3_workgroup *group) {
  int64_t T = args->scalars[0], H = args->scalars[2];
  float *x = (float *)args->bindings[0] + args->scalars[3] * T * H;
  const int32_t *slots = args->bindings[1];
  const float *weight = args->bindings[2];
  uint64_t n = group->id[0];
  float *state = (float *)args->bindings[3] + (int64_t)slots[n] * H;
  const float *conv = args->bindings[4];
  for (int64_t h = 0; h < H; ++h) {
    state[h] = mod(3 * state[h] + x[n * H + h] * weight[h]);
    x[n * H + h] = mod(state[h] + conv[n * H + h]);
  }
  return 0;
}

/* bindings: stream cu lengths page_table[N, M] cache[P, page, H]; scalars: T N M H page source; grid: N */
static int32_t append(const k3_kernel_args *args, const k3_workgroup *group) {
  int64_t T = args->scalars[0], M = args->scalars[2], H = args->scalars[3], page = args->scalars[4];
  const float *x = (const float *)args->bindings[0] + args->scalars[5] * T * H;
  const int32_t *cu = args->bindings[1], *lengths = args->bindings[2], *table = args->bindings[3];
  float *cache = args->bindings[4];
  uint64_t n = group->id[0];
  for (int32_t t = cu[n]; t < cu[n + 1]; ++t) {
    int64_t position = lengths[n] + t - cu[n];
    float *row = cache + (table[(int64_t)n * M + position / page] * page + position % page) * H;
    for (int64_t h = 0; h < H; ++h)
      row[h] = x[t * H + h];
  }
  return 0;
}

/* bindings: stream cu lengths page_table cache experts; scalars: T N M H page source slot; grid: N */
static int32_t attend(const k3_kernel_args *args, const k3_workgroup *group) {
  int64_t T = args->scalars[0], M = args->scalars[2], H = args->scalars[3], page = args->scalars[4];
  float *stream = args->bindings[0];
  const float *x = stream + args->scalars[5] * T * H;
  float *out = stream + args->scalars[6] * T * H;
  const int32_t *cu = args->bindings[1], *lengths = args->bindings[2], *table = args->bindings[3];
  const float *cache = args->bindings[4];
  const float *const *experts = args->bindings[5];
  uint64_t n = group->id[0];
  for (int32_t t = cu[n]; t < cu[n + 1]; ++t) {
    int64_t position = lengths[n] + t - cu[n];
    for (int64_t h = 0; h < H; ++h) {
      float sum = x[t * H + h] + experts[position % numExperts][h];
      for (int64_t j = 0; j <= position; ++j)
        sum = mod(sum + (float)(j % 5 + 1) * cache[(table[(int64_t)n * M + j / page] * page + j % page) * H + h]);
      out[t * H + h] = sum;
    }
  }
  return 0;
}

/* bindings: stream logit_rows[R] logits[R, V]; scalars: T R V H; grid: R, vocab tiles */
static int32_t head(const k3_kernel_args *args, const k3_workgroup *group) {
  int64_t T = args->scalars[0], V = args->scalars[2], H = args->scalars[3];
  const int32_t *rows = args->bindings[1];
  const float *x = (const float *)args->bindings[0] + (T + rows[group->id[0]]) * H;
  float *logits = (float *)args->bindings[2] + (int64_t)group->id[0] * V;
  int64_t first = (int64_t)group->id[1] * tileVocab;
  for (int64_t v = first; v < smaller(first + tileVocab, V); ++v) {
    float sum = 0;
    for (int64_t h = 0; h < H; ++h)
      sum += x[h] * (float)((v * 7 + h) % 13 + 1);
    logits[v] = mod(sum);
  }
  return 0;
}

static int isBanned(const int32_t *banned, int64_t v) { return (banned[v / 32] >> (v % 32) & 1) != 0; }

static int isBefore(const float *x, int64_t a, int64_t b) { return x[a] > x[b] || (x[a] == x[b] && a < b); }

/* The likeliest token after `last` (-1: of all), or -1. */
static int64_t nextLikely(const float *x, const int32_t *banned, int64_t V, int64_t last) {
  int64_t best = -1;
  for (int64_t v = 0; v < V; ++v)
    if (!isBanned(banned, v) && (last < 0 || isBefore(x, last, v)) && (best < 0 || isBefore(x, v, best)))
      best = v;
  return best;
}

static double expOf(double y) {
  double sum = 1, term = 1;
  if (y < -700)
    return 0;
  y /= 4096;
  for (int i = 1; i < 10; ++i)
    sum += term = term * y / i;
  for (int i = 0; i < 12; ++i)
    sum *= sum;
  return sum;
}

static float asFloat(int32_t bits) {
  union { int32_t bits; float value; } both = {bits};
  return both.value;
}

/* As k3.sample. bindings: logits[R, V] sampling[R, 8] banned[B, W] ids[R]; scalars: R V W; grid: R */
static int32_t sample(const k3_kernel_args *args, const k3_workgroup *group) {
  int64_t V = args->scalars[1], W = args->scalars[2];
  const float *x = (const float *)args->bindings[0] + (int64_t)group->id[0] * V;
  const int32_t *how = (const int32_t *)args->bindings[1] + 8 * (int64_t)group->id[0];
  int32_t *id = (int32_t *)args->bindings[3] + group->id[0];
  *id = -1;
  if (how[0] == 0)
    return 0;
  const int32_t *banned = (const int32_t *)args->bindings[2] + how[7] * W;
  int64_t count = 0;
  for (int64_t v = 0; v < V; ++v) {
    if (x[v] - x[v] != 0)
      return 0;
    count += !isBanned(banned, v);
  }
  int64_t best = nextLikely(x, banned, V, -1);
  double temperature = asFloat(how[1]), topP = asFloat(how[3]), minP = asFloat(how[4]);
  if (best < 0 || temperature == 0) {
    *id = (int32_t)best;
    return 0;
  }
  int64_t kept = how[2] > 0 && how[2] < count ? how[2] : count;
  int inOrder = kept < count || topP < 1;
  if (topP < 1) {
    double total = 0, sum = 0;
    int64_t most = kept, v = -1;
    for (int64_t i = 0; i < most; ++i)
      total += expOf((x[v = nextLikely(x, banned, V, v)] - (double)x[best]) / temperature);
    v = -1;
    for (kept = 0; kept < most && (kept == 0 || sum < topP * total); ++kept)
      sum += expOf((x[v = nextLikely(x, banned, V, v)] - (double)x[best]) / temperature);
  }
  double uniform = ((double)(uint32_t)how[6] * 4294967296.0 + (double)(uint32_t)how[5]) / 9007199254740992.0;
  double total = 0;
  for (int chooses = 0; chooses < 2; ++chooses) {
    double sum = 0;
    int64_t v = -1;
    for (int64_t i = 0; i < kept; ++i) {
      if (inOrder) {
        v = nextLikely(x, banned, V, v);
      } else {
        do
          ++v;
        while (isBanned(banned, v));
      }
      double weight = expOf((x[v] - (double)x[best]) / temperature);
      if (weight < minP)
        continue;
      sum += weight;
      if (chooses && weight > 0)
        *id = (int32_t)v;
      if (chooses && uniform * total < sum)
        return 0;
    }
    total = sum;
  }
  return 0;
}

#ifndef K3_TOY_FUNCTIONS_ONLY
/* Of tests alone. bindings: x[rows, width] bf16; scalars: rows width */
static int32_t fillRows(const k3_kernel_args *args, const k3_workgroup *group) {
  uint16_t *x = args->bindings[0];
  static const uint16_t values[] = {0x3f80, 0xbf80, 0x4000, 0, 0x3f00}; /* 1, -1, 2, 0, 0.5 */
  for (int64_t i = 0; i < args->scalars[0] * args->scalars[1]; ++i)
    x[i] = values[i * 7 % 5];
  return 0;
}

static int32_t nothing(const k3_kernel_args *args, const k3_workgroup *group) { return 0; }

static const k3_kernel_fn kernels[] = {embed,  conv,   chunkSums, chunkScan, chunkApply, recurrentStep,
                                       append, attend, head,      fillRows,  nothing,    sample};

__attribute__((visibility("default"))) const k3_executable k3_executable_v1 = {
    K3_ABI_VERSION, sizeof(kernels) / sizeof(kernels[0]), kernels};
#endif
