//===- Statistics.cpp - the numbers of a canary report ------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/canary/Statistics.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace k3run::canary {

LoadSkew loadSkew(const std::vector<uint64_t> &counts) {
  LoadSkew skew;
  double total = 0, squares = 0, entropy = 0;
  uint64_t most = 0;
  for (uint64_t count : counts) {
    total += double(count);
    most = std::max(most, count);
    skew.unused += count == 0;
  }
  if (total == 0)
    return skew;
  double mean = total / double(counts.size());
  for (uint64_t count : counts) {
    squares += (double(count) - mean) * (double(count) - mean);
    if (double share = double(count) / total; share > 0)
      entropy -= share * std::log(share);
  }
  skew.maxOverMean = double(most) / mean;
  skew.variation = std::sqrt(squares / double(counts.size())) / mean;
  skew.entropy =
      counts.size() > 1 ? entropy / std::log(double(counts.size())) : 1;
  return skew;
}

namespace {
struct Format {
  int mantissaBits, smallestExponent, largestExponent;
  double largest;
};
} // namespace

/// OCP Microscaling Formats (MX) 1.0, tables 1 and 5.
static Format formatOf(MxElement element) {
  return element == MxElement::e2m1 ? Format{1, 0, 2, 6}
                                    : Format{3, -6, 8, 448};
}

/// To the nearest value of the format, ties to even, too large ones to the
/// largest.
static double roundToFormat(double value, const Format &format) {
  double magnitude = std::fabs(value);
  if (magnitude == 0)
    return value;
  int exponent = std::max(std::ilogb(magnitude), format.smallestExponent);
  double unit = std::ldexp(1.0, exponent - format.mantissaBits);
  double rounded = std::nearbyint(magnitude / unit) * unit;
  return std::copysign(std::min(rounded, format.largest), value);
}

void roundToMx(const float *values, size_t count, MxElement element,
               std::vector<float> &out) {
  constexpr size_t block = 32;
  Format format = formatOf(element);
  out.resize(count);
  for (size_t begin = 0; begin < count; begin += block) {
    size_t end = std::min(begin + block, count);
    double largest = 0;
    for (size_t i = begin; i < end; ++i)
      largest = std::max(largest, std::fabs(double(values[i])));
    double scale =
        largest > 0
            ? std::ldexp(1.0, std::ilogb(largest) - format.largestExponent)
            : 1;
    for (size_t i = begin; i < end; ++i)
      out[i] = float(roundToFormat(values[i] / scale, format) * scale);
  }
}

float roundToBf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffff) > 0x7f800000)
    return value; // NaN
  bits += 0x7fff + (bits >> 16 & 1);
  bits &= 0xffff0000;
  memcpy(&value, &bits, sizeof(bits));
  return value;
}

Outliers outliers(const float *values, size_t rows, size_t width) {
  Outliers result;
  if (rows == 0 || width == 0)
    return result;
  std::vector<float> fp4, fp8;
  double error4 = 0, error8 = 0, norm = 0;
  for (size_t row = 0; row < rows; ++row) {
    const float *x = values + row * width;
    double mean = 0, second = 0, fourth = 0, squares = 0, most = 0;
    for (size_t i = 0; i < width; ++i) {
      mean += x[i];
      squares += double(x[i]) * x[i];
      most = std::max(most, std::fabs(double(x[i])));
    }
    mean /= double(width);
    for (size_t i = 0; i < width; ++i) {
      double d = x[i] - mean;
      second += d * d;
      fourth += d * d * d * d;
    }
    if (squares > 0)
      result.maxOverRms = std::max(
          result.maxOverRms, most / std::sqrt(squares / double(width)));
    if (second > 0)
      result.kurtosis += fourth * double(width) / (second * second);
    roundToMx(x, width, MxElement::e2m1, fp4);
    roundToMx(x, width, MxElement::e4m3, fp8);
    for (size_t i = 0; i < width; ++i) {
      error4 += std::pow(double(fp4[i]) - x[i], 2);
      error8 += std::pow(double(fp8[i]) - x[i], 2);
    }
    norm += squares;
  }
  result.kurtosis /= double(rows);
  if (norm > 0) {
    result.mxfp4Error = std::sqrt(error4 / norm);
    result.mxfp8Error = std::sqrt(error8 / norm);
  }
  return result;
}

double relativeError(const float *a, const float *b, size_t count) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < count; ++i) {
    difference += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
    norm += double(b[i]) * b[i];
  }
  return std::sqrt(norm > 0 ? difference / norm : difference);
}

static double logSumExp(const float *values, size_t count) {
  double most = *std::max_element(values, values + count), sum = 0;
  for (size_t i = 0; i < count; ++i)
    sum += std::exp(values[i] - most);
  return most + std::log(sum);
}

double klDivergence(const float *base, const float *other, size_t count) {
  double a = logSumExp(base, count), b = logSumExp(other, count), sum = 0;
  for (size_t i = 0; i < count; ++i)
    sum += std::exp(base[i] - a) * ((base[i] - a) - (other[i] - b));
  // Rounding may leave less than nothing.
  return std::max(sum, 0.0);
}

size_t argmax(const float *values, size_t count) {
  return size_t(std::max_element(values, values + count) - values);
}

double median(std::vector<double> values) {
  size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + long(middle), values.end());
  double upper = values[middle];
  if (values.size() % 2 == 1)
    return upper;
  return (upper + *std::max_element(values.begin(),
                                    values.begin() + long(middle))) /
         2;
}

} // namespace k3run::canary
