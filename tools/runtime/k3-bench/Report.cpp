//===- Report.cpp - measurements as a table or JSON ----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-bench/Report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace k3bench {

std::optional<double> Measurement::fraction() const {
  if (!limit || *limit <= 0)
    return std::nullopt;
  return value / *limit;
}

static nlohmann::ordered_json orNull(std::optional<double> value) {
  if (!value || !std::isfinite(*value))
    return nullptr;
  return *value;
}

std::string toJson(const std::vector<Measurement> &measurements) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Measurement &measurement : measurements)
    all.push_back({{"name", measurement.name},
                   {"params", measurement.params},
                   {"value", orNull(measurement.value)},
                   {"unit", measurement.unit},
                   {"limit", orNull(measurement.limit)},
                   {"fraction", orNull(measurement.fraction())}});
  return all.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

static std::string digits(double value) {
  char text[32];
  if (std::fabs(value) >= 1000 && std::fabs(value) < 1e15)
    std::snprintf(text, sizeof(text), "%.0f", value);
  else
    std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

static std::string paramsText(const nlohmann::ordered_json &params) {
  std::string text;
  for (const auto &[name, value] : params.items())
    text += (text.empty() ? "" : " ") + name + "=" +
            (value.is_string()         ? value.get<std::string>()
             : value.is_number_float() ? digits(value.get<double>())
                                       : value.dump());
  return text;
}

std::string toTable(const std::vector<Measurement> &measurements) {
  constexpr size_t columns = 6;
  using Row = std::array<std::string, columns>;
  std::vector<Row> rows = {{"name", "value", "unit", "limit", "reached", "with"}};
  for (const Measurement &measurement : measurements) {
    std::optional<double> fraction = measurement.fraction();
    rows.push_back({measurement.name, digits(measurement.value), measurement.unit,
                    measurement.limit ? digits(*measurement.limit) : "-",
                    fraction ? digits(std::round(*fraction * 1000) / 10) + "%" : "-", paramsText(measurement.params)});
  }
  size_t widths[columns] = {};
  for (const Row &row : rows)
    for (size_t i = 0; i + 1 < columns; ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row &row : rows) {
    for (size_t i = 0; i + 1 < columns; ++i) {
      std::string space(widths[i] - row[i].size(), ' ');
      bool isText = i == 0 || i == 2;
      text += (isText ? row[i] + space : space + row[i]) + "  ";
    }
    text += row.back() + "\n";
  }
  return text;
}

} // namespace k3bench
