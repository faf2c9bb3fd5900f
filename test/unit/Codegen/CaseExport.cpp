//===- CaseExport.cpp - runs of kernels as cases for a GPU -----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Codegen/CaseExport.h"
#include "test/gpu/Compare.h"
#include "test/gpu/Sample.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

using namespace k3;
using namespace k3::test;

namespace {

class WriteAtEnd : public ::testing::Environment {
public:
  void TearDown() override {
    if (CaseExport *cases = CaseExport::get())
      cases->finish();
  }
};

[[maybe_unused]] ::testing::Environment *const writeAtEnd = ::testing::AddGlobalTestEnvironment(new WriteAtEnd);

std::size_t hashOf(const gpu::Bytes &bytes) {
  return std::hash<std::string_view>{}({reinterpret_cast<const char *>(bytes.data()), bytes.size()});
}

} // namespace

CaseExport *CaseExport::get() {
  static CaseExport *const instance = [] {
    const char *path = std::getenv("K3_EXPORT_CASES");
    return path && *path ? new CaseExport(path) : nullptr;
  }();
  return instance;
}

bool k3::test::exporting() { return CaseExport::get() != nullptr; }

std::uint32_t CaseExport::addKernel(gpu::Kernel kernel, const std::string &cubin) {
  kernel.cubin = set.store(cubin.data(), cubin.size());
  set.kernels.push_back(std::move(kernel));
  return static_cast<std::uint32_t>(set.kernels.size() - 1);
}

void CaseExport::noteDraw(const gpu::Draw &draw, const Vec &values) {
  if (values.size() < 64)
    return; // shorter than its description
  for (const char *dtype : {"f32", "bf16", "i8"}) {
    if ((draw.kind == gpu::Draw::Kind::integer) != (std::string(dtype) == "i8"))
      continue;
    gpu::Bytes bytes = gpu::encode(dtype, values);
    draws.emplace(hashOf(bytes), Drawn{draw, values.size(), bytes.size()});
  }
}

gpu::Content CaseExport::content(const Array &array) {
  gpu::Content content;
  if (array.contentOnDevice())
    return *array.contentOnDevice();
  if (auto result = passed.find(array.data()); result != passed.end()) {
    content.kind = gpu::Content::Kind::produced;
    content.run = static_cast<std::uint32_t>(result->second.place.run);
    content.argument = result->second.place.argument;
    return content;
  }
  gpu::Bytes bytes = array.bytes();
  if (std::all_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte == gpu::poison; }))
    return content;
  auto found = draws.find(hashOf(bytes));
  if (found != draws.end() && found->second.bytes == bytes.size()) {
    content.kind = gpu::Content::Kind::drawn;
    content.draw = found->second.draw;
    content.period = found->second.count;
    return content;
  }
  content.kind = gpu::Content::Kind::stored;
  content.blob = set.store(bytes.data(), bytes.size());
  return content;
}

void CaseExport::addRun(std::vector<gpu::Variant> variants, const std::vector<Array> &arrays, std::size_t destinations,
                        std::vector<Index> scalars) {
  gpu::Case run;
  const ::testing::TestInfo *test = ::testing::UnitTest::GetInstance()->current_test_info();
  run.test = std::string(test->test_suite_name()) + "." + test->name();
  run.variants = std::move(variants);
  run.scalars = std::move(scalars);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    gpu::Argument argument;
    argument.dtype = arrays[i].dtype();
    argument.shape = arrays[i].shape();
    argument.writes = i + destinations >= arrays.size();
    argument.isTable = arrays[i].isTable();
    if (argument.isTable)
      for (const Array &member : arrays[i].tableMembers())
        argument.contents.push_back(content(member));
    else
      argument.contents.push_back(content(arrays[i]));
    if (argument.writes)
      written[arrays[i].data()] = {set.cases.size(), static_cast<std::uint32_t>(i)};
    run.arguments.push_back(std::move(argument));
  }
  set.cases.push_back(std::move(run));
}

::testing::AssertionResult CaseExport::expect(const Array &array, const Vec &values, Tolerance tolerance,
                                              const Mask &mask, const std::vector<Index> &positions) {
  auto place = written.find(array.data());
  if (place == written.end())
    return ::testing::AssertionFailure() << "no run wrote this array";
  std::size_t count = positions.empty() ? static_cast<std::size_t>(array.elements()) : positions.size();
  if (values.size() != count)
    return ::testing::AssertionFailure() << values.size() << " values are expected of " << count << " elements";
  bool integers = array.dtype() == "i32";
  gpu::Expectation expectation;
  expectation.argument = place->second.argument;
  expectation.tolerance = tolerance;
  gpu::Bytes bytes = gpu::encode(integers ? "i32" : "f32", values);
  // Integers are short when compressed.
  if (count > gpu::Sample::whole && !integers && mask.empty() && positions.empty()) {
    gpu::Sample sample(count);
    Vec rounded = gpu::decode("f32", bytes.data(), count), sums = gpu::sumBlocks(rounded, sample.blockSize()), some;
    for (std::uint64_t position : sample.positions(sums))
      some.push_back(rounded[position]);
    for (double value : rounded)
      if (std::isfinite(value))
        expectation.largest = std::max(expectation.largest, std::abs(value));
    gpu::Bytes encoded = gpu::encode("f32", sums);
    expectation.sums = set.store(encoded.data(), encoded.size());
    bytes = gpu::encode("f32", some);
  }
  expectation.values = set.store(bytes.data(), bytes.size());
  expectation.mask = set.store(mask.data(), mask.size());
  expectation.positions = set.store(positions.data(), positions.size() * sizeof(Index));
  set.cases[place->second.run].expectations.push_back(expectation);
  if (!array.contentOnDevice() && positions.empty())
    array.assign(gpu::encode(array.dtype(), values));
  return ::testing::AssertionSuccess();
}

void CaseExport::passOn(const std::vector<Array> &arrays) {
  for (const Array &array : arrays) {
    auto place = written.find(array.data());
    if (place == written.end()) {
      ADD_FAILURE() << "no run wrote this array";
      continue;
    }
    passed.emplace(array.data(), Passed{place->second, array});
  }
}

void CaseExport::measure(double trafficBytes, double operations, const std::string &peak) {
  gpu::Case &run = set.cases.back();
  run.trafficBytes = trafficBytes;
  run.operations = operations;
  run.peak = peak;
}

void CaseExport::finish() {
  for (const gpu::Case &run : set.cases)
    for (std::uint32_t i = 0; i < run.arguments.size(); ++i) {
      bool checked = std::any_of(run.expectations.begin(), run.expectations.end(),
                                 [&](const gpu::Expectation &e) { return e.argument == i; });
      if (run.arguments[i].writes && !checked)
        ADD_FAILURE() << run.test << ": nothing is expected of argument " << i;
    }
  std::string error;
  if (!set.write(path, error))
    ADD_FAILURE() << error;
}
