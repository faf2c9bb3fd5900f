//===- CaseExport.h - runs of kernels as cases for a GPU -------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "test/unit/Codegen/KernelHarness.h"

#include <unordered_map>

namespace k3::test {

/// Collects the cases of one process and writes them when all tests are done.
class CaseExport {
public:
  /// Null unless K3_EXPORT_CASES is set.
  static CaseExport *get();

  std::uint32_t addKernel(gpu::Kernel kernel, const std::string &cubin);
  /// Arrays that hold `values` are stored as `draw`.
  void noteDraw(const gpu::Draw &draw, const Vec &values);
  /// A run of the current test; `arrays` as they are now, the last `destinations` of them are written.
  void addRun(std::vector<gpu::Variant> variants, const std::vector<Array> &arrays, std::size_t destinations,
              std::vector<Index> scalars);
  /// What the latest run that wrote `array` must have left there. `positions`: of the values, if not all.
  ::testing::AssertionResult expect(const Array &array, const Vec &values, Tolerance tolerance, const Mask &mask,
                                    const std::vector<Index> &positions = {});
  /// See passOn of the harness.
  void passOn(const std::vector<Array> &arrays);
  /// The latest run is to be timed.
  void measure(double trafficBytes, double operations, const std::string &peak);
  /// Writes the file; a destination of which nothing was expected is a failure.
  void finish();

private:
  explicit CaseExport(std::string path) : path(std::move(path)) {}
  gpu::Content content(const Array &array);

  struct Place {
    std::size_t run;
    std::uint32_t argument;
  };
  /// Holds the array's memory, so that no other one is taken for it.
  struct Passed {
    Place place;
    Array array;
  };
  struct Drawn {
    gpu::Draw draw;
    std::uint64_t count;
    std::uint64_t bytes;
  };
  std::string path;
  gpu::CaseSet set;
  std::unordered_map<const void *, Place> written; ///< by the array's memory
  std::unordered_map<const void *, Passed> passed; ///< likewise
  std::unordered_map<std::size_t, Drawn> draws;    ///< by the hash of the bytes
};

} // namespace k3::test
