//===- Statistics.h - the numbers of a canary report --------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3RUN_CANARY_STATISTICS_H
#define K3_TOOLS_K3RUN_CANARY_STATISTICS_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace k3run::canary {

/// How evenly tokens are spread over experts.
struct LoadSkew {
  double maxOverMean = 0;
  double variation = 0; ///< standard deviation / mean
  double entropy = 0;   ///< of the shares, divided by log(experts): 1 = even
  uint64_t unused = 0;  ///< experts that no token chose
};
/// `counts`: choices per expert. All zero: all fields 0 but `unused`.
LoadSkew loadSkew(const std::vector<uint64_t> &counts);

/// How far the values of rows stick out, and what storing them in blocks of 32
/// with one power-of-two scale (OCP MX) would cost.
struct Outliers {
  double maxOverRms = 0; ///< of the worst row
  double kurtosis = 0;   ///< mean over rows of m4 / m2^2; 3 for normal values
  double mxfp4Error = 0; ///< |quantized - value| / |value|, Euclidean norms
  double mxfp8Error = 0; ///< the same for E4M3 elements
};
Outliers outliers(const float *values, size_t rows, size_t width);

/// `value` in blocks of OCP MX with E2M1 or E4M3 elements, back in floats; the
/// scale is 2^(floor(log2(largest)) - largest exponent of the element).
enum class MxElement { e2m1, e4m3 };
void roundToMx(const float *values, size_t count, MxElement element,
               std::vector<float> &out);

/// Round to nearest even.
float roundToBf16(float value);

/// |a - b| / |b| in the Euclidean norm; |a| where b is 0.
double relativeError(const float *a, const float *b, size_t count);

/// Kullback-Leibler divergence of softmax(other) from softmax(base), in nats.
double klDivergence(const float *base, const float *other, size_t count);

/// Index of the largest; the first of several.
size_t argmax(const float *values, size_t count);

/// Of at least one value.
double median(std::vector<double> values);

} // namespace k3run::canary

#endif // K3_TOOLS_K3RUN_CANARY_STATISTICS_H
