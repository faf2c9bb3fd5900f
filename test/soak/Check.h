//===- Check.h - what the soak does about a difference -------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TEST_SOAK_CHECK_H
#define K3_TEST_SOAK_CHECK_H

#include <cstdio>
#include <cstdlib>
#include <string>

namespace soak {

/// How to come to the same place again: everything follows from the options.
struct Place {
  std::string options;           ///< artifact, tolerance, threads
  const char *kind = "--steps";  ///< the option that counts, or --operations
  unsigned long long number = 0, seed = 0;
};
extern Place place;

/// The command line of a run that ends here.
std::string again();

/// Ends the program with what was expected, where, and how to see it again.
#define SOAK_CHECK(condition, ...)                                             \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fputs("k3-soak: ", stderr);                                              \
      fprintf(stderr, __VA_ARGS__);                                            \
      fprintf(stderr, " (not so: %s, %s:%d); again: %s\n", #condition,         \
              __FILE__, __LINE__, soak::again().c_str());                      \
      exit(1);                                                                 \
    }                                                                          \
  } while (false)

} // namespace soak

#endif // K3_TEST_SOAK_CHECK_H
