//===- FuzzSupport.h - what every parser promises -------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TEST_FUZZ_FUZZSUPPORT_H
#define K3_TEST_FUZZ_FUZZSUPPORT_H

#include "frontend/Status.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

/// Not assert: it must hold in every build type.
#define K3_FUZZ_CHECK(condition)                                               \
  do {                                                                         \
    if (!(condition)) {                                                        \
      std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__,    \
                   #condition);                                                \
      std::abort();                                                            \
    }                                                                          \
  } while (false)

namespace k3::fuzz {

/// An error message is one line that names the file, printable and bounded.
inline void checkMessage(const frontend::Status &status,
                         std::string_view fileName) {
  std::string_view message = status.message();
  K3_FUZZ_CHECK(message.find(fileName) == 0);
  K3_FUZZ_CHECK(message.size() > fileName.size() + 2 && message.size() < 4000);
  for (char c : message)
    K3_FUZZ_CHECK(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
}

inline std::string_view text(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

} // namespace k3::fuzz

#endif // K3_TEST_FUZZ_FUZZSUPPORT_H
