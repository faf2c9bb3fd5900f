//===- Report.h - results of cases as JSON ---------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "test/gpu/Player.h"

#include <nlohmann/json.hpp>

namespace k3::gpu {

/// One result: `test`, `op`, `strategy`, `arguments`, `grid`, `pass`, `failures`, `worst`, `relative_error`, `repeats`;
/// of the kernel `registers`, `spill_bytes`, `shared_bytes`; where timed `us`, `bytes`, `operations`, `peak`,
/// `gb_per_s`, `tflop_per_s`, `early_us` of runs that overlap at their ends, and where cuBLAS makes the same product `library_us`, `of_library` (its time by ours).
nlohmann::json describe(const Case &c, const Kernel &kernel, const Variant &variant, const PlayResult &result);

/// `device`, `passed`, `failed`, `limits`, `cases`. The limits are what the tests named Limits.* reached in this run;
/// every timed case gets `fraction`, the time that the limits allow by the time that it took.
nlohmann::json makeReport(const std::string &device, std::vector<nlohmann::json> results);

/// Failures and times, for people.
void printSummary(const nlohmann::json &report);

} // namespace k3::gpu
