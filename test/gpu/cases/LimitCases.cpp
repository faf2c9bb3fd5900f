//===- LimitCases.cpp - what the GPU reaches at most -----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Kernels that do nothing but move bytes or multiply, on random values: what other kernels of the same run are compared
// with. Written in PTX, because they are no ops.
//
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Ptxas.h"
#include "test/unit/Codegen/CaseExport.h"

#include "llvm/Support/Error.h"
#include <cstring>

using namespace k3;
using namespace k3::test;

namespace {

constexpr std::uint32_t multiprocessors = 132;

const std::string header = ".version 8.0\n.target sm_90a\n.address_size 64\n";

/// The number of a kernel in the case file; assembling it must not fail.
std::uint32_t assemble(const std::string &ptx, gpu::Kernel kernel) {
  llvm::Expected<mlir::k3::Assembled> assembled = mlir::k3::assemblePtx(ptx, "sm_90a");
  if (!assembled) {
    ADD_FAILURE() << llvm::toString(assembled.takeError());
    return 0;
  }
  kernel.op = "limit";
  kernel.strategy = "ptx";
  const mlir::k3::KernelResources &resources = assembled->kernels[kernel.entry];
  EXPECT_EQ(resources.spillBytes, 0);
  EXPECT_TRUE(resources.notes.empty());
  kernel.registers = static_cast<std::uint32_t>(resources.registers);
  return CaseExport::get()->addKernel(kernel, {assembled->cubin.begin(), assembled->cubin.end()});
}

std::string number(int n) { return std::to_string(n); }

/// %rd1 = the number of this thread's first vector of 16 bytes, where a block has `perThread` vectors for each of its
/// 512 threads; the next one is 512 vectors further.
std::string firstVector(int perThread) {
  return "  mov.u32 %r1, %ctaid.x;\n  mov.u32 %r2, %tid.x;\n  mul.wide.u32 %rd1, %r1, " + number(512 * perThread) +
         ";\n  cvt.u64.u32 %rd2, %r2;\n  add.u64 %rd1, %rd1, %rd2;\n  shl.b64 %rd1, %rd1, 4;\n";
}

const std::string twoPointers = "(.param .u64 a, .param .u64 b)\n{\n  .reg .b32 %r<80>;\n  .reg .b64 %rd<8>;\n"
                                "  .reg .pred %p<2>;\n  ld.param.u64 %rd3, [a];\n  ld.param.u64 %rd4, [b];\n"
                                "  cvta.to.global.u64 %rd3, %rd3;\n  cvta.to.global.u64 %rd4, %rd4;\n";

std::string vectorOf(int first) {
  return "{%r" + number(first) + ", %r" + number(first + 1) + ", %r" + number(first + 2) + ", %r" + number(first + 3) +
         "}";
}

const gpu::Draw normal{gpu::Draw::Kind::normal, 1, 1, 1, 0};
constexpr Index period = 1048573; // a prime: no row starts where another does

TEST(Limits, Copy) {
  constexpr int vectors = 4;
  std::string body = firstVector(vectors) + "  add.u64 %rd3, %rd3, %rd1;\n  add.u64 %rd4, %rd4, %rd1;\n";
  for (int i = 0; i < vectors; ++i)
    body += "  ld.global.nc.v4.b32 " + vectorOf(8 + 4 * i) + ", [%rd3+" + number(8192 * i) + "];\n";
  for (int i = 0; i < vectors; ++i)
    body += "  st.global.v4.b32 [%rd4+" + number(8192 * i) + "], " + vectorOf(8 + 4 * i) + ";\n";
  gpu::Kernel kernel;
  kernel.entry = "copy";
  kernel.threads = 512;
  std::uint32_t code = assemble(header + ".visible .entry copy" + twoPointers + body + "  ret;\n}\n", kernel);
  const std::uint32_t blocks = 32768;
  const Index size = Index(blocks) * 512 * vectors * 4; // 1 GiB
  Array in = Array::onDevice("f32", {size}, normal, period), out = Array::onDevice("f32", {size});
  CaseExport::get()->addRun({{code, {blocks, 1, 1}}}, {in, out}, 1, {});
  Vec values = normal.values(period);
  std::vector<Index> positions{0, 1, size / 2, size - 1};
  Vec expected;
  for (Index position : positions)
    expected.push_back(values[position % period]);
  EXPECT_TRUE(CaseExport::get()->expect(out, expected, {}, {}, positions));
  CaseExport::get()->measure(8.0 * static_cast<double>(size), 0, "bf16");
}

/// Reads blocks * 512 * vectors * 16 bytes, `vectors` of 16 by each thread.
void read(int vectors, std::uint32_t blocks) {
  constexpr int atOnce = 8;
  std::string body =
      firstVector(vectors) + "  add.u64 %rd3, %rd3, %rd1;\n  mov.b32 %r3, 0;\n  mov.b32 %r4, 0;\nmore:\n";
  for (int i = 0; i < atOnce; ++i)
    body += "  ld.global.nc.v4.b32 " + vectorOf(8 + 4 * i) + ", [%rd3+" + number(8192 * i) + "];\n";
  for (int i = 0; i < 4 * atOnce; ++i)
    body += "  xor.b32 %r3, %r3, %r" + number(8 + i) + ";\n";
  body += "  add.u64 %rd3, %rd3, " + number(8192 * atOnce) + ";\n  add.u32 %r4, %r4, 1;\n  setp.lt.u32 %p1, %r4, " +
          number(vectors / atOnce) +
          ";\n  @%p1 bra more;\n  mad.lo.u32 %r5, %r1, 512, %r2;\n"
          "  mul.wide.u32 %rd5, %r5, 4;\n  add.u64 %rd4, %rd4, %rd5;\n  st.global.b32 [%rd4], %r3;\n";
  gpu::Kernel kernel;
  kernel.entry = "read";
  kernel.threads = 512;
  std::uint32_t code = assemble(header + ".visible .entry read" + twoPointers + body + "  ret;\n}\n", kernel);
  const Index size = Index(blocks) * 512 * vectors * 4, threads = Index(blocks) * 512;
  Array in = Array::onDevice("f32", {size}, normal, period), out = Array::onDevice("i32", {threads});
  CaseExport::get()->addRun({{code, {blocks, 1, 1}}}, {in, out}, 1, {});
  gpu::Bytes bytes = gpu::encode("f32", normal.values(period));
  std::vector<Index> positions{0, 1, 511, 512 * 333 + 17, threads - 1};
  Vec expected;
  for (Index thread : positions) {
    std::uint32_t bits = 0;
    for (Index i = 0; i < vectors * 4; ++i) {
      Index element = ((thread / 512 * vectors + i / 4) * 512 + thread % 512) * 4 + i % 4;
      std::uint32_t word;
      std::memcpy(&word, &bytes[static_cast<std::size_t>(element % period) * 4], 4);
      bits ^= word;
    }
    expected.push_back(static_cast<std::int32_t>(bits));
  }
  EXPECT_TRUE(CaseExport::get()->expect(out, expected, {}, {}, positions));
  CaseExport::get()->measure(4.0 * static_cast<double>(size), 0, "bf16");
}

TEST(Limits, Read) { read(64, 4096); } // 2 GiB

// As many bytes as the experts of one token of Kimi K3 have, where a kernel's begin and end count: 16 times the MXFP4 codes
// and scales of two matrices of 3072 x 3584, and of one of 3584 x 3072.
TEST(Limits, ReadUpAndGateOfOneToken) { read(16, 1428); }
TEST(Limits, ReadDownOfOneToken) { read(16, 714); }

/// Two warpgroups of a block, one block per multiprocessor: D[64, 256] += A[64, 64] B[256, 64]^T from shared memory.
TEST(Limits, Bf16) {
  constexpr int rows = 64, columns = 256, depth = 64, rounds = 1000;
  constexpr int bytes = (2 * rows + columns) * depth * 2; // A of each warpgroup, then B
  std::string accumulators, zeros;
  for (int i = 0; i < 128; ++i) {
    accumulators += (i ? ", %f" : "%f") + number(i);
    zeros += "  mov.f32 %f" + number(i) + ", 0f00000000;\n";
  }
  std::string body = twoPointers;
  body.insert(body.find("  .reg .b32"), "  .reg .f32 %f<128>;\n");
  body += zeros + R"(
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, smem;
  shl.b32 %r4, %r2, 4;
fill:
  cvt.u64.u32 %rd1, %r4;
  add.u64 %rd1, %rd3, %rd1;
  ld.global.nc.v4.b32 {%r8, %r9, %r10, %r11}, [%rd1];
  add.u32 %r5, %r3, %r4;
  st.shared.v4.b32 [%r5], {%r8, %r9, %r10, %r11};
  add.u32 %r4, %r4, 4096;
  setp.lt.u32 %p1, %r4, )" +
          number(bytes) + R"(;
  @%p1 bra fill;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  shr.u32 %r6, %r2, 7;
  shfl.sync.idx.b32 %r6, %r6, 0, 31, -1;
  mad.lo.u32 %r7, %r6, )" +
          number(rows * depth * 2) + R"(, %r3;
  add.u32 %r8, %r3, )" +
          number(2 * rows * depth * 2) + R"(;
  shr.u32 %r7, %r7, 4;
  shr.u32 %r8, %r8, 4;
  cvt.u64.u32 %rd1, %r7;
  cvt.u64.u32 %rd2, %r8;
  or.b64 %rd1, %rd1, 0x4000004000010000;
  or.b64 %rd2, %rd2, 0x4000004000010000;
  mov.b32 %r9, 0;
more:
  wgmma.fence.sync.aligned;
)";
  for (int i = 0; i < 16; ++i) // each 16 columns of A and B are 32 bytes further
    body += "  add.u64 %rd5, %rd1, " + number(2 * (i % 4)) + ";\n  add.u64 %rd6, %rd2, " + number(2 * (i % 4)) +
            ";\n  wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" + accumulators +
            "}, %rd5, %rd6, 1, 1, 1, 0, 0;\n";
  body += "  wgmma.commit_group.sync.aligned;\n  wgmma.wait_group.sync.aligned 0;\n  add.u32 %r9, %r9, 1;\n"
          "  setp.lt.u32 %p1, %r9, " +
          number(rounds) +
          ";\n  @%p1 bra more;\n  mad.lo.u32 %r5, %r1, 256, %r2;\n"
          "  mul.wide.u32 %rd5, %r5, 4;\n  add.u64 %rd4, %rd4, %rd5;\n  st.global.f32 [%rd4], %f0;\n  ret;\n}\n";
  gpu::Kernel kernel;
  kernel.entry = "multiply";
  kernel.threads = 256;
  kernel.dynamicSharedBytes = bytes;
  std::uint32_t code = assemble(header + ".extern .shared .align 1024 .b8 smem[];\n.visible .entry multiply" +
                                    body.insert(body.find("{\n"), ".maxntid 256\n.minnctapersm 1\n"),
                                kernel);
  Random random(2);
  Array in = Array::bf16({2 * rows + columns, depth}, random.normal((2 * rows + columns) * depth));
  Array out = Array::onDevice("f32", {multiprocessors * 256});
  CaseExport::get()->addRun({{code, {multiprocessors, 1, 1}}}, {in, out}, 1, {});
  Vec values = in.values();
  // Rows are 128 bytes; of each, the 16-byte pieces are exchanged by the row's number.
  auto element = [&](int row, int column) { return values[row * depth + ((column / 8) ^ (row % 8)) * 8 + column % 8]; };
  std::vector<Index> positions;
  Vec expected;
  for (int thread : {0, 5, 127, 128, 255}) {
    int row = thread / 128 * rows + thread % 128 / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
    double sum = 0;
    for (int k = 0; k < depth; ++k)
      sum += element(row, k) * element(2 * rows + column, k);
    positions.push_back((multiprocessors - 1) * 256 + thread);
    expected.push_back(sum * rounds * 4);
  }
  EXPECT_TRUE(CaseExport::get()->expect(out, expected, {2e-3, 0, 0}, {}, positions)); // sums of 16,000 truncated terms
  CaseExport::get()->measure(0, 2.0 * multiprocessors * 2 * rows * columns * 16 * 16 * rounds, "bf16");
}

} // namespace
