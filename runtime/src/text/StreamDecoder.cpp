//===- StreamDecoder.cpp - token ids to text, one at a time -------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/text/StreamDecoder.h"

namespace k3rt {

bool StreamDecoder::push(int32_t id, std::string &text, std::string &error) {
  std::string bytes;
  if (!tokenizer.decode(&id, 1, special, bytes, error))
    return false;
  repairer.push(bytes, text);
  return true;
}

} // namespace k3rt
