//===- Text.h - pieces of one-line messages -------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_FRONTEND_TEXT_H
#define K3_FRONTEND_TEXT_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace k3::frontend {

/// `text` in double quotes, control characters and bytes that are not UTF-8
/// escaped and long text cut, so that hostile input stays one short line.
std::string quote(std::string_view text, size_t maxBytes = 120);

/// The same escaping and cutting, without the quotes.
std::string printable(std::string_view text, size_t maxBytes = 300);

/// "[896, 7168]"
std::string shapeText(const std::vector<int64_t> &shape);

/// "1 tensor", "3 tensors"
std::string counted(uint64_t count, const char *noun);

} // namespace k3::frontend

#endif // K3_FRONTEND_TEXT_H
