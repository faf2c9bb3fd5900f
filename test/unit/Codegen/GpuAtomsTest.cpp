//===- GpuAtomsTest.cpp - single functions of lib/Codegen/GPU/Tile, run in the PTX interpreter -===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Common/TargetModel.h"
#include "lib/Codegen/GPU/GPUPipeline.h"
#include "lib/Codegen/GPU/KernelAttrNames.h"
#include "lib/Codegen/GPU/Tile/Atoms.h"
#include "lib/Codegen/GPU/Tile/MxFp4.h"
#include "lib/Support/Registration.h"
#include "mlir/Parser/Parser.h"
#include "test/unit/Codegen/PtxMachine.h"

#include "gtest/gtest.h"

#include <cstring>

using namespace mlir;
using namespace mlir::k3;
using ::k3::test::PtxMachine;

namespace {

MLIRContext &getContext() {
  static auto *context = [] {
    DialectRegistry registry;
    registerAllK3Dialects(registry);
    auto *made = new MLIRContext(registry);
    made->loadAllAvailableDialects();
    return made;
  }();
  return *context;
}

/// Runs one block of `threads` threads whose code `emit` writes, given the addresses (ptr<1>) of `x` and `y`.
void runBlock(int64_t threads, int64_t sharedBytes, const std::vector<std::uint32_t> &x, std::vector<std::uint32_t> &y,
              llvm::function_ref<void(const GpuBuilder &, Value, Value)> emit) {
  MLIRContext &context = getContext();
  auto module = parseSourceString<ModuleOp>("func.func private @kernel(%x: memref<" + std::to_string(x.size()) +
                                                "xi32>, %y: memref<" + std::to_string(y.size()) +
                                                "xi32>) attributes {k3.kernel} { return }",
                                            &context);
  ASSERT_TRUE(module);
  GpuTarget target = llvm::cantFail(GpuTarget::parse("nvidia-sm90a"));
  (*module)->setAttr(targetAttrName, target.toAttr(&context));
  auto func = *module->getOps<func::FuncOp>().begin();
  OpBuilder b = OpBuilder::atBlockBegin(&func.getBody().front());
  func->setAttr(threadsAttrName, b.getI64IntegerAttr(threads));
  func->setAttr(sharedBytesAttrName, b.getI64IntegerAttr(sharedBytes));
  auto config = KernelConfigAttr::get(&context, {}, "test", {}, threads, sharedBytes, /*cluster=*/1, {});
  GpuBuilder g(b, func.getLoc(), target, config);
  emit(g, g.base(func.getArgument(0)), g.base(func.getArgument(1)));

  PassManager pipeline(&context);
  buildGpuLoweringPipeline(pipeline);
  ASSERT_TRUE(succeeded(pipeline.run(*module)));
  FailureOr<std::string> ptx = emitPtx(*module, target, {"kernel"});
  ASSERT_TRUE(succeeded(ptx));
  PtxMachine::Launch launch{"kernel", {1, 1, 1}, static_cast<std::uint32_t>(threads), static_cast<std::size_t>(sharedBytes), {}};
  for (const std::uint32_t *data : {x.data(), static_cast<const std::uint32_t *>(y.data())}) {
    launch.params.emplace_back(sizeof data);
    std::memcpy(launch.params.back().data(), &data, sizeof data);
  }
  auto region = [](const std::vector<std::uint32_t> &data, bool writable) {
    auto begin = reinterpret_cast<std::uint64_t>(data.data());
    return PtxMachine::Region{begin, begin + 4 * data.size(), writable};
  };
  for (unsigned seed = 0; seed < 4; ++seed) {
    launch.seed = seed;
    EXPECT_EQ(::k3::test::simulatePtx(*ptx, launch, {region(x, false), region(y, true)}), "") << *ptx;
  }
}

TEST(MxFp4, CodesBecomeFp8) {
  // Every code in every place, with others beside it: the codes of word i are i + p (mod 16).
  std::vector<std::uint32_t> x(32), y(64);
  for (std::uint32_t i = 0; i < 16; ++i)
    for (std::uint32_t p = 0; p < 8; ++p) {
      x[i] |= (i + p) % 16 << (4 * p);
      x[16 + i] |= (i * (2 * p + 1)) % 16 << (4 * p);
    }
  runBlock(32, 0, x, y, [](const GpuBuilder &g, Value from, Value to) {
    Value thread = g.threadId();
    SmallVector<Value> placed = placeFp8Codes(g, g.loadRaw(g.advance(from, thread, g.i32()), g.i32()));
    ASSERT_EQ(placed.size(), 2u);
    for (int64_t i = 0; i < 2; ++i)
      g.storeRaw(placed[i], g.advance(to, g.add(g.mul(thread, 2), i), g.i32()));
  });
  // Magnitudes of E2M1 times 2^-6 as E4M3: 0 and 2^-7 are subnormal.
  static constexpr std::uint32_t magnitudes[8] = {0x00, 0x04, 0x08, 0x0C, 0x10, 0x14, 0x18, 0x1C};
  for (std::uint32_t i = 0; i < 32; ++i)
    for (std::uint32_t p = 0; p < 8; ++p) {
      std::uint32_t code = x[i] >> (4 * p) & 15, byte = y[2 * i + p % 2] >> (8 * (p / 2)) & 0xFF;
      EXPECT_EQ(byte, (code / 8) << 7 | magnitudes[code % 8]) << "word " << i << ", code " << p;
    }
}

// A word of codes is the even k of a lane's run of 8 in one half of a step, and the odd ones in the other.
TEST(Wgmma, MultipliesFp8CodesFromRegisters) {
  constexpr std::uint32_t rows = 64, columns = 8, depth = 32, words = rows * depth / 8;
  std::vector<std::uint32_t> x(words + columns * depth), y(rows * columns);
  auto digit = [](std::uint32_t n, std::uint32_t k) { return static_cast<int>((n * 13 + k * 7) % 33) - 16; };
  auto code = [](std::uint32_t row, std::uint32_t k) { return (row * 5 + k * 11 + row * k) % 16; };
  for (std::uint32_t row = 0; row < rows; ++row)
    for (std::uint32_t k = 0; k < depth; ++k)
      x[row * 4 + k / 8] |= code(row, k) << (4 * (k % 8));
  for (std::uint32_t n = 0; n < columns; ++n)
    for (std::uint32_t k = 0; k < depth; ++k) {
      auto value = static_cast<float>(digit(n, k));
      std::memcpy(&x[words + n * depth + k], &value, 4);
    }
  runBlock(128, columns * depth, x, y, [&](const GpuBuilder &g, Value from, Value to) {
    // Each thread rounds two digits: of column n, in places `place` and `place` + 1 of a half of the step.
    Value thread = g.threadId(), n = g.div(thread, 16), half = g.rem(g.div(thread, 8), 2), place = g.mul(g.rem(thread, 8), 2);
    Value k = g.add(g.mul(place, 2), half);
    Value digits = g.advance(from, g.add(g.add(g.mul(n, depth), k), words), g.f32());
    Value pair = packE4m3(g, g.loadRaw(digits, g.f32()), g.loadRaw(g.advance(digits, 2, g.f32()), g.f32()));
    g.storeRaw(pair, g.shared(g.add(g.add(g.mul(half, 128), g.mul(n, 16)), place)));
    fenceAsync(g);
    g.barrier();

    Value lane = g.laneId(), quad = g.rem(lane, 4);
    Value row = g.add(g.mul(g.div(thread, 32), 16), g.div(lane, 4));
    SmallVector<Value> a(4);
    for (int64_t i = 0; i < 2; ++i) {
      Value word = g.loadRaw(g.advance(from, g.add(g.mul(g.add(row, 8 * i), 4), quad), g.i32()), g.i32());
      SmallVector<Value> placed = placeFp8Codes(g, word);
      a[i] = placed[0];
      a[2 + i] = placed[1];
    }
    WgmmaForm form;
    form.element = WgmmaForm::e4m3;
    form.overwrite = true;
    Value b = makeDescriptor(g, g.shared(int64_t(0)), /*stride=*/256, /*leading=*/128, /*swizzle=*/0);
    wgmmaFence(g);
    SmallVector<Value> sums = wgmma(g, a, b, SmallVector<Value>(4, g.f32(0)), form);
    wgmmaCommit(g);
    sums = wgmmaWait(g, 0, sums);
    for (int64_t i = 0; i < 4; ++i) {
      Value at = g.add(g.mul(g.add(row, 8 * (i / 2)), columns), g.add(g.mul(quad, 2), i % 2));
      g.storeRaw(sums[i], g.advance(to, at, g.f32()));
    }
  });
  static constexpr int halves[8] = {0, 1, 2, 3, 4, 6, 8, 12};
  for (std::uint32_t row = 0; row < rows; ++row)
    for (std::uint32_t n = 0; n < columns; ++n) {
      int expected = 0;
      for (std::uint32_t k = 0; k < depth; ++k)
        expected += halves[code(row, k) % 8] * (code(row, k) < 8 ? 1 : -1) * digit(n, k);
      float sum;
      std::memcpy(&sum, &y[row * columns + n], 4);
      EXPECT_EQ(sum * 128, static_cast<float>(expected)) << row << ", " << n;
    }
}

} // namespace
