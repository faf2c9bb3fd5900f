//===- Report.cpp - results of cases as JSON -------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/gpu/Report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace k3::gpu;
using nlohmann::json;

/// JSON has no infinity.
static json number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

json k3::gpu::describe(const Case &c, const Kernel &kernel, const Variant &variant, const PlayResult &result) {
  std::string arguments;
  for (const Argument &argument : c.arguments) {
    arguments += arguments.empty() ? "" : " ";
    for (Index size : argument.shape)
      arguments += std::to_string(size) + "x";
    arguments += argument.dtype;
  }
  json j = {{"test", c.test},
            {"op", kernel.op},
            {"strategy", kernel.strategy},
            {"arguments", arguments},
            {"grid", variant.grid},
            {"pass", result.pass},
            {"failures", result.failures},
            {"worst", number(result.worst)},
            {"relative_error", number(result.relativeError)},
            {"repeats", result.repeats},
            {"registers", kernel.registers},
            {"spill_bytes", kernel.spillBytes},
            {"shared_bytes", kernel.dynamicSharedBytes + kernel.staticSharedBytes}};
  if (result.seconds > 0) {
    j["us"] = result.seconds * 1e6;
    j["bytes"] = c.trafficBytes;
    j["operations"] = c.operations;
    j["peak"] = c.peak;
    j["gb_per_s"] = c.trafficBytes / result.seconds * 1e-9;
    j["tflop_per_s"] = c.operations / result.seconds * 1e-12;
    if (result.earlySeconds > 0)
      j["early_us"] = result.earlySeconds * 1e6;
    if (result.librarySeconds > 0) {
      j["library_us"] = result.librarySeconds * 1e6;
      j["of_library"] = result.librarySeconds / result.seconds;
    }
  }
  return j;
}

json k3::gpu::makeReport(const std::string &device, std::vector<json> results) {
  json limits = json::object();
  for (const json &result : results) {
    std::string test = result.at("test").get<std::string>();
    if (test.rfind("Limits.", 0) != 0 || !result.contains("us"))
      continue;
    // Limits.Copy, Limits.Read: bytes; Limits.bf16, ...: operations.
    bool bytes = result.at("bytes").get<double>() > 0;
    json &limit = limits[bytes ? "gb_per_s" : result.at("peak").get<std::string>() + "_tflop_per_s"];
    double reached = result.at(bytes ? "gb_per_s" : "tflop_per_s").get<double>();
    limit = std::max(limit.is_number() ? limit.get<double>() : 0.0, reached);
  }
  int failed = 0;
  for (json &result : results) {
    failed += !result.at("pass").get<bool>();
    if (!result.contains("us"))
      continue;
    double least = 0; // seconds
    if (limits.contains("gb_per_s"))
      least = result.at("bytes").get<double>() / (limits["gb_per_s"].get<double>() * 1e9);
    std::string peak = result.at("peak").get<std::string>() + "_tflop_per_s";
    if (limits.contains(peak))
      least = std::max(least, result.at("operations").get<double>() / (limits[peak].get<double>() * 1e12));
    result["fraction"] = least > 0 ? json(least / (result.at("us").get<double>() * 1e-6)) : json(nullptr);
  }
  int passed = static_cast<int>(results.size()) - failed;
  return {
      {"device", device}, {"passed", passed}, {"failed", failed}, {"limits", limits}, {"cases", std::move(results)}};
}

void k3::gpu::printSummary(const json &report) {
  for (const json &result : report.at("cases")) {
    std::string head = result.at("test").get<std::string>() + " [" + result.at("strategy").get<std::string>() + "] " +
                       result.at("arguments").get<std::string>();
    for (const json &failure : result.at("failures"))
      std::printf("FAILED %s: %s\n", head.c_str(), failure.get<std::string>().c_str());
    if (result.contains("us")) {
      std::printf("%10.2f us %8.1f GB/s %7.1f TFLOP/s", result.at("us").get<double>(),
                  result.at("gb_per_s").get<double>(), result.at("tflop_per_s").get<double>());
      if (result.at("fraction").is_number())
        std::printf(" %5.1f%% of the limit", result.at("fraction").get<double>() * 100);
      if (result.contains("early_us"))
        std::printf(" (%.2f us, %.1f%% overlapping)", result.at("early_us").get<double>(),
                    result.at("fraction").is_number()
                        ? result.at("fraction").get<double>() * 100 * result.at("us").get<double>() / result.at("early_us").get<double>()
                        : 0.0);
      if (result.contains("of_library"))
        std::printf(" %5.1f%% of cuBLAS (%.2f us)", result.at("of_library").get<double>() * 100,
                    result.at("library_us").get<double>());
      std::printf("  %s\n", head.c_str());
    }
  }
  for (const auto &[name, value] : report.at("limits").items())
    std::printf("limit %s: %.1f\n", name.c_str(), value.get<double>());
  std::printf("%d passed, %d failed on %s\n", report.at("passed").get<int>(), report.at("failed").get<int>(),
              report.at("device").get<std::string>().c_str());
}
