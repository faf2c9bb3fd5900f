//===- BatchRequest.h - a line of the input of k3-run batch -------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3RUN_BATCHREQUEST_H
#define K3_TOOLS_K3RUN_BATCHREQUEST_H

#include "tools/runtime/k3-run/Generation.h"

#include <nlohmann/json.hpp>

namespace k3run {

struct BatchRequest {
  uint64_t line = 0; ///< in the input, from 1
  std::string hash;  ///< of the line and of the options that it leaves open
  nlohmann::ordered_json id; ///< as given; null if it was not
  bool isChat = false, thinking = true;
  std::vector<int32_t> prompt;
  GenerationSettings settings;
  int32_t priority = 0;
};

/// Reads a line: an object (docs/json.md has its fields), whose fields go before
/// the command line's options. False with one line in `error`.
[[nodiscard]] bool readBatchRequest(const std::string &line,
                                    const Options &options,
                                    const Engine &engine, BatchRequest &request,
                                    std::string &error);

/// 16 hexadecimal digits that stand for a line and what the command line adds to
/// it. Not a defence against intent.
std::string hashBatchLine(const std::string &line, const Options &options);

} // namespace k3run

#endif // K3_TOOLS_K3RUN_BATCHREQUEST_H
