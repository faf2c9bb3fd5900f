//===- DrawnTensor.cpp - tensors too large to hold -------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/gpu/cases/DrawnTensor.h"

#include <algorithm>

using namespace k3;
using namespace k3::test;

/// Tensors of one test are different, and the same whichever tests run before it.
static std::uint64_t nextCall() {
  static const ::testing::TestInfo *last = nullptr;
  static std::uint64_t calls = 0;
  const ::testing::TestInfo *now = ::testing::UnitTest::GetInstance()->current_test_info();
  if (now != last)
    calls = 0;
  last = now;
  return ++calls;
}

DrawnTensor::DrawnTensor(std::string dtype, Shape shape, gpu::Draw draw)
    : tensor(Array::onDevice(dtype, std::move(shape), draw, period)),
      values(gpu::decode(dtype, gpu::encode(dtype, draw.values(period)).data(), period)) {}

DrawnTensor DrawnTensor::normal(std::string dtype, Shape shape, double scale) {
  return {std::move(dtype), std::move(shape), {gpu::Draw::Kind::normal, 77, nextCall(), scale, 0}};
}
DrawnTensor DrawnTensor::uniform(std::string dtype, Shape shape, double low, double high) {
  return {std::move(dtype), std::move(shape), {gpu::Draw::Kind::uniform, 77, nextCall(), low, high}};
}
DrawnTensor DrawnTensor::bytes(Shape shape, int low, int high) {
  return {"i8", std::move(shape), {gpu::Draw::Kind::integer, 77, nextCall(), double(low), double(high)}};
}

Vec DrawnTensor::slice(Index first, Index count) const {
  Vec out(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i)
    out[i] = at(first + i);
  return out;
}

Vec DrawnTensor::rows(const std::vector<Index> &indices, Index width) const {
  Vec out;
  out.reserve(indices.size() * static_cast<std::size_t>(width));
  for (Index row : indices)
    for (Index i = 0; i < width; ++i)
      out.push_back(at(row * width + i));
  return out;
}

void k3::test::expectAt(const Array &array, const std::vector<Index> &positions, const Vec &expected,
                        Tolerance tolerance) {
  EXPECT_TRUE(CaseExport::get()->expect(array, expected, tolerance, {}, positions));
}

void k3::test::measure(double trafficBytes, double operations) {
  CaseExport::get()->measure(trafficBytes, operations, "bf16");
}
