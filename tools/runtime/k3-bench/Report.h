//===- Report.h - measurements as a table or JSON ------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3BENCH_REPORT_H
#define K3_TOOLS_K3BENCH_REPORT_H

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace k3bench {

/// Larger values are better, except those in seconds.
struct Measurement {
  std::string name;
  nlohmann::ordered_json params; ///< an object of numbers and strings
  double value = 0;
  std::string unit;
  std::optional<double> limit; ///< of the value, in the same unit

  std::optional<double> fraction() const;
};

/// One line, [{name, params, value, unit, limit, fraction}]; what is not known is null. See docs/json.md.
std::string toJson(const std::vector<Measurement> &measurements);
std::string toTable(const std::vector<Measurement> &measurements);

} // namespace k3bench

#endif // K3_TOOLS_K3BENCH_REPORT_H
