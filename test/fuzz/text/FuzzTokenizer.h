//===- FuzzTokenizer.h - a small tokenizer to fuzz with -----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TEST_FUZZ_TEXT_FUZZTOKENIZER_H
#define K3_TEST_FUZZ_TEXT_FUZZTOKENIZER_H

#include "runtime/src/text/Tokenizer.h"

namespace k3rt::fuzz {

/// A valid block: all bytes, some words, the special tokens of both formats.
const std::vector<uint8_t> &smallBlob();
const Tokenizer &smallTokenizer();

/// Stops the fuzzer with a report.
void require(bool condition, const char *what);

} // namespace k3rt::fuzz

#endif // K3_TEST_FUZZ_TEXT_FUZZTOKENIZER_H
