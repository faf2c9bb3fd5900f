//===- PtxasTest.cpp - what is read from the assembler's report -----------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Ptxas.h"

#include "gtest/gtest.h"
#include <cstdlib>

using namespace mlir::k3;

// As ptxas 13.0 prints it.
static constexpr const char report[] = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'bar' for 'sm_90a'
ptxas info    : Function properties for bar
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 64 bytes smem
ptxas info    : Compile time = 1.372 ms
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the wgmma pipeline in the function 'foo'
ptxas info    : Compiling entry function 'foo' for 'sm_90a'
ptxas info    : Function properties for foo
    72 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers, 72 bytes cumulative stack size
ptxas info    : Compile time = 0.552 ms
)";

TEST(PtxasReport, ResourcesOfEveryKernel) {
  auto kernels = parsePtxasReport(report);
  ASSERT_EQ(kernels.size(), 2u);
  const KernelResources &bar = kernels["bar"], &foo = kernels["foo"];
  EXPECT_EQ(bar.registers, 168);
  EXPECT_EQ(bar.staticSharedBytes, 64);
  EXPECT_EQ(bar.stackBytes, 0);
  EXPECT_EQ(bar.spillBytes, 0);
  EXPECT_TRUE(bar.notes.empty());
  EXPECT_EQ(foo.registers, 255);
  EXPECT_EQ(foo.staticSharedBytes, 0);
  EXPECT_EQ(foo.stackBytes, 72);
  EXPECT_EQ(foo.spillBytes, 40);
}

TEST(PtxasReport, NotesAboutLostSpeedBelongToTheirKernel) {
  auto kernels = parsePtxasReport(report);
  ASSERT_EQ(kernels["foo"].notes.size(), 1u);
  EXPECT_NE(kernels["foo"].notes.front().find("C7510"), std::string::npos);
}

TEST(PtxasReport, NotesOfNoNamedKernelAreKept) {
  auto kernels = parsePtxasReport("ptxas info    : (C7517) Potential Performance Loss: a wait was injected\n");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[""].notes.size(), 1u);
}

TEST(PtxasReport, TextThatIsNoReportSaysNothing) {
  EXPECT_TRUE(parsePtxasReport("").empty());
  EXPECT_TRUE(parsePtxasReport("Used 40 registers\n bytes stack frame\n").empty());
}

TEST(FindPtxas, AWrongVariableIsNamed) {
  const char *before = getenv("K3_PTXAS");
  std::string kept = before ? before : "";
  setenv("K3_PTXAS", "/nonexistent/ptxas", 1);
  auto found = findPtxas();
  if (before)
    setenv("K3_PTXAS", kept.c_str(), 1);
  else
    unsetenv("K3_PTXAS");
  ASSERT_FALSE(static_cast<bool>(found));
  EXPECT_EQ(llvm::toString(found.takeError()), "K3_PTXAS names '/nonexistent/ptxas', which is no program");
}
