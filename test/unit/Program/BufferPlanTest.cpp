//===- BufferPlanTest.cpp - arena plans of random programs -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Random programs are planned and then run on an arena that knows, for every byte, which buffer wrote it last. A
// dispatch that finds foreign bytes in what it reads shows a wrong plan, and every plan that fails this way must be
// refused by verifyBufferPlan.
//
//===----------------------------------------------------------------------===//
#include "lib/Transforms/Program/BufferPlan.h"
#include "lib/Transforms/Program/Passes.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/DenseMap.h"

#include <gtest/gtest.h>

#include <random>

using namespace mlir;
using namespace mlir::k3;

namespace {

class Generator {
public:
  explicit Generator(unsigned seed) : random(seed) {}

  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); }

  std::string program() {
    std::string buffers, sections;
    buffers += R"(k3.exec.buffer "stream" <persistent> f32 [#k3.term<T>, #k3.term<4>])"
               "\n";
    auto section = [&](const std::string &head) { sections += head + " {\n" + groups(buffers) + "}\n"; };
    section("k3.exec.prologue weights []");
    for (int i = 0, e = below(3); i < e; ++i)
      section("k3.exec.layer_kind \"k" + std::to_string(i) + "\" weights [] states []");
    section("k3.exec.epilogue weights []");
    return R"(k3.exec.kernel @k in @cpu[0] from ""
k3.exec.executable @cpu target(<arch = "", cpu = "", features = "">) elf(dense<0> : tensor<1xi8>)
k3.exec.program @p phase(<decode>) symbols ["T"] maxima [8] attributes {chunk_rows = 0} {
)" + buffers +
           sections + "}\n";
  }

private:
  /// Groups that write new buffers and read some of the section's earlier ones.
  std::string groups(std::string &buffers) {
    std::string text;
    std::vector<std::string> written = {"stream"};
    for (int g = 0, e = below(6); g < e; ++g) {
      text += "k3.exec.group {\n";
      std::vector<std::string> fresh;
      for (int d = 0, f = 1 + below(3); d < f; ++d) {
        std::string name = "b" + std::to_string(numBuffers++);
        buffers += "k3.exec.buffer \"" + name + "\" <transient> f32 [#k3.term<T>, #k3.term<" +
                   std::to_string(1 + below(12)) + ">]\n";
        text += "k3.exec.dispatch @k grid [] bindings [";
        for (int r = 0, s = below(4); r < s; ++r)
          text += "#k3.binding<buffer \"" + written[below(static_cast<int>(written.size()))] + "\">, ";
        text += "#k3.binding<buffer \"" + name + "\", writes>] scalars [] label \"\"\n";
        fresh.push_back(name);
      }
      text += "}\n";
      written.insert(written.end(), fresh.begin(), fresh.end());
    }
    return text;
  }

  std::mt19937 random;
  unsigned numBuffers = 0;
};

/// Runs a section; false if a dispatch reads bytes that another buffer has overwritten.
bool runSection(ExecProgramOp program, Operation *section, std::vector<Operation *> owners) {
  auto bytesOf = [&](ExecBufferOp buffer) {
    int64_t begin = *buffer.getArenaOffset();
    return std::pair(begin, begin + *buffer.getMaximalBytes());
  };
  auto check = [&](ExecBufferOp buffer) {
    auto [begin, end] = bytesOf(buffer);
    for (int64_t i = begin; i < end; ++i)
      if (owners[i] != buffer)
        return false;
    return true;
  };
  for (auto group : section->getRegion(0).getOps<ExecGroupOp>()) {
    SmallVector<ExecBufferOp> read, written;
    for (ExecDispatchOp dispatch : group.getDispatches())
      for (auto binding : dispatch.getBindings().getAsRange<BindingAttr>())
        (binding.getWrites() ? written : read).push_back(program.lookupBuffer(binding.getName()));
    for (ExecBufferOp buffer : read)
      if (!check(buffer))
        return false;
    for (ExecBufferOp buffer : written) {
      auto [begin, end] = bytesOf(buffer);
      std::fill(owners.begin() + begin, owners.begin() + end, buffer.getOperation());
    }
    // At the same time: what was read must still be there, and what was written, too.
    for (ExecBufferOp buffer : read)
      if (!check(buffer))
        return false;
    for (ExecBufferOp buffer : written)
      if (!check(buffer))
        return false;
  }
  return true;
}

bool runProgram(ExecProgramOp program) {
  std::vector<Operation *> owners(*program.getArenaBytes() + 4096);
  ExecBufferOp stream = program.lookupBuffer("stream");
  for (int64_t i = 0; i < *stream.getMaximalBytes(); ++i)
    owners[*stream.getArenaOffset() + i] = stream;
  for (Operation *section : program.getSections())
    if (!runSection(program, section, owners))
      return false;
  return true;
}

struct BufferPlanTest : testing::Test {
  BufferPlanTest() : handler(&context, [](Diagnostic &) { return success(); }) { context.loadDialect<K3Dialect>(); }

  OwningOpRef<ModuleOp> plan(const std::string &text) {
    auto module = parseSourceString<ModuleOp>(text, &context);
    PassManager manager(&context);
    manager.addPass(createPlanBuffers());
    if (!module || failed(manager.run(*module)))
      return {};
    return module;
  }

  MLIRContext context;
  ScopedDiagnosticHandler handler;
};

} // namespace

TEST_F(BufferPlanTest, PlansOfRandomProgramsHold) {
  int64_t arena = 0, sum = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    auto module = plan(Generator(seed).program());
    ASSERT_TRUE(module) << "seed " << seed;
    ExecProgramOp program = *module->getOps<ExecProgramOp>().begin();
    EXPECT_TRUE(runProgram(program)) << "seed " << seed;
    arena += *program.getArenaBytes();
    for (ExecBufferOp buffer : program.getBuffers())
      sum += *buffer.getArenaBytes();
  }
  // The point of it: buffers share space.
  EXPECT_LT(arena, sum / 2);
}

TEST_F(BufferPlanTest, WrongPlansAreRefused) {
  unsigned wrong = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    auto module = plan(Generator(seed).program());
    ASSERT_TRUE(module);
    ExecProgramOp program = *module->getOps<ExecProgramOp>().begin();
    std::vector<ExecBufferOp> buffers = program.getBuffers();
    Generator generator(seed + 1000);
    for (int change = 0; change < 20; ++change) {
      ExecBufferOp buffer = buffers[generator.below(static_cast<int>(buffers.size()))];
      IntegerAttr before = buffer.getArenaOffsetAttr();
      int64_t places = *program.getArenaBytes() / kArenaAlignment;
      buffer.setArenaOffsetAttr(
          IntegerAttr::get(before.getType(), kArenaAlignment * generator.below(static_cast<int>(places))));
      if (!runProgram(program)) {
        ++wrong;
        EXPECT_TRUE(failed(verifyBufferPlan(program))) << "seed " << seed << ", change " << change;
      }
      buffer.setArenaOffsetAttr(before);
    }
  }
  EXPECT_GT(wrong, 200u);
}
