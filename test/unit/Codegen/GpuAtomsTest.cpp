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

} // namespace
