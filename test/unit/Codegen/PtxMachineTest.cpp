//===- PtxMachineTest.cpp - the PTX interpreter itself ---------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Codegen/PtxMachine.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>

using namespace k3::test;

namespace {

std::vector<std::uint8_t> bytesOf(const void *value, std::size_t size) {
  auto *p = static_cast<const std::uint8_t *>(value);
  return {p, p + size};
}
template <typename T> std::vector<std::uint8_t> pointer(const std::vector<T> &data) {
  const T *p = data.data();
  return bytesOf(&p, sizeof p);
}
std::vector<std::uint8_t> scalar(std::int64_t value) { return bytesOf(&value, sizeof value); }

std::string entry(const std::string &params, const std::string &body) {
  return ".version 8.8\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n"
         ".visible .entry k(" + params + ")\n.maxntid 64\n{\n" +
         ".reg .pred %p<9>;\n.reg .b16 %rs<9>;\n.reg .b32 %r<64>;\n.reg .b64 %rd<9>;\n" + body + "\n}\n";
}

std::string errorOf(PtxMachine &machine, const PtxMachine::Launch &launch) {
  try {
    machine.run(launch);
  } catch (const PtxError &error) {
    return error.what();
  }
  return "";
}

/// y[i] = 2 x[i] + 1 for i < n, 16 bytes at a time where `vector`.
const char *scaleBody = R"(
  ld.param.b64 %rd1, [k_param_0];
  ld.param.b64 %rd2, [k_param_1];
  ld.param.b64 %rd3, [k_param_2];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.s32 %r3, %r1, 64, %r2;
  cvt.u64.u32 %rd4, %r3;
  setp.ge.s64 %p1, %rd4, %rd3;
  @%p1 bra $L__BB0_2;
  mul.wide.u32 %rd5, %r3, 4;
  add.s64 %rd6, %rd1, %rd5;
  add.s64 %rd7, %rd2, %rd5;
  ld.global.nc.b32 %r4, [%rd6];
  fma.rn.f32 %r5, %r4, 0f40000000, 0f3F800000;
  st.global.b32 [%rd7], %r5;
$L__BB0_2:
  ret;
)";
const char *scaleParams = ".param .u64 .ptr .align 1 k_param_0,\n .param .u64 .ptr .align 1 k_param_1, .param .u64 k_param_2";

TEST(PtxMachine, RunsBlocksAndPredicates) {
  PtxMachine machine(entry(scaleParams, scaleBody));
  std::vector<float> x(100), y(100, -1);
  for (int i = 0; i < 100; ++i)
    x[i] = static_cast<float>(i);
  machine.allow(x.data(), 400, false);
  machine.allow(y.data(), 400, true);
  machine.run({"k", {2, 1, 1}, 64, 0, {pointer(x), pointer(y), scalar(100)}});
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(y[i], 2.0f * i + 1);
}

TEST(PtxMachine, ReportsBadAccesses) {
  PtxMachine machine(entry(scaleParams, scaleBody));
  std::vector<float> x(100), y(100);
  machine.allow(x.data(), 400, false);
  machine.allow(y.data(), 400, true);
  auto run = [&](std::vector<std::uint8_t> from, std::vector<std::uint8_t> to, std::int64_t n) {
    return errorOf(machine, {"k", {2, 1, 1}, 64, 0, {from, to, scalar(n)}});
  };
  EXPECT_NE(run(pointer(x), pointer(y), 101).find("outside every buffer"), std::string::npos);
  EXPECT_NE(run(pointer(x), pointer(x), 100).find("writes to an input"), std::string::npos);
  EXPECT_NE(run(pointer(y), pointer(y), 100).find("non-coherent"), std::string::npos);
  const char *odd = reinterpret_cast<const char *>(x.data()) + 2;
  EXPECT_NE(run(bytesOf(&odd, 8), pointer(y), 1).find("misaligned"), std::string::npos);
}

// A kernel that may run beside the one in front of it.
TEST(PtxMachine, WaitsForTheGridInFront) {
  std::vector<float> x(100), y(100);
  auto run = [&](const std::string &body) {
    PtxMachine machine(entry(scaleParams, body));
    machine.allow(x.data(), 400, false);
    machine.allow(y.data(), 400, true);
    return errorOf(machine, {"k", {2, 1, 1}, 64, 0, {pointer(x), pointer(y), scalar(100)}});
  };
  const std::string wait = "  griddepcontrol.wait;\n  griddepcontrol.launch_dependents;\n", body = scaleBody;
  auto before = [&](const char *place) { return std::string(body).insert(body.find(place), wait); };
  EXPECT_EQ(run(wait + body), "");
  EXPECT_NE(run(before("  fma.rn.f32")).find("touches global memory before griddepcontrol.wait"), std::string::npos);
  // Threads without work, too: the grid behind waits for this one only.
  EXPECT_NE(run(before("  ld.global.nc")).find("end without griddepcontrol.wait"), std::string::npos);
  EXPECT_EQ(run(before("  mov.u32 %r1")), "");
}

/// Sum over 64 threads: shuffles inside warps, then through shared memory.
std::string sumBody(const std::string &barrier) {
  return R"(
  ld.param.b64 %rd1, [k_param_0];
  mov.u32 %r1, %tid.x;
  cvt.rn.f32.u32 %r2, %r1;
  shfl.sync.bfly.b32 %r3|%p1, %r2, 16, 31, -1;
  add.f32 %r2, %r2, %r3;
  shfl.sync.bfly.b32 %r3|%p1, %r2, 8, 31, -1;
  add.f32 %r2, %r2, %r3;
  shfl.sync.bfly.b32 %r3|%p1, %r2, 4, 31, -1;
  add.f32 %r2, %r2, %r3;
  shfl.sync.bfly.b32 %r3|%p1, %r2, 2, 31, -1;
  add.f32 %r2, %r2, %r3;
  shfl.sync.bfly.b32 %r3|%p1, %r2, 1, 31, -1;
  add.f32 %r2, %r2, %r3;
  and.b32 %r4, %r1, 31;
  shr.u32 %r5, %r1, 5;
  mov.b32 %r6, smem;
  shl.b32 %r7, %r5, 2;
  add.s32 %r7, %r6, %r7;
  setp.ne.s32 %p2, %r4, 0;
  @%p2 bra $L__BB0_1;
  st.shared.b32 [%r7], %r2;
$L__BB0_1:
)" + barrier +
         R"(
  ld.shared.v2.b32 {%r8, %r9}, [smem];
  add.f32 %r10, %r8, %r9;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.b32 [%rd3], %r10;
  ret;
)";
}

TEST(PtxMachine, ShufflesAndBarriers) {
  PtxMachine machine(entry(".param .u64 k_param_0", sumBody("bar.sync 0;")));
  std::vector<float> y(64);
  machine.allow(y.data(), 256, true);
  machine.run({"k", {1, 1, 1}, 64, 64, {pointer(y)}});
  for (float value : y)
    EXPECT_EQ(value, 63 * 32);
}

TEST(PtxMachine, FindsRacesAndMissingThreads) {
  std::vector<float> y(64);
  auto run = [&](const std::string &barrier) {
    PtxMachine machine(entry(".param .u64 k_param_0", sumBody(barrier)));
    machine.allow(y.data(), 256, true);
    return errorOf(machine, {"k", {1, 1, 1}, 64, 64, {pointer(y)}});
  };
  std::string race = run("bar.warp.sync -1;");
  EXPECT_TRUE(race.find("race in shared memory") != std::string::npos || race.find("never written") != std::string::npos) << race;
  EXPECT_NE(run("@%p2 ret;\nbar.sync 0;").find("have left"), std::string::npos);
  EXPECT_NE(run("bar.sync 0, 96;").find("never come"), std::string::npos);
  EXPECT_NE(run("@%p2 ret;\nbar.warp.sync -1;").find("never come"), std::string::npos);
}

TEST(PtxMachine, RefusesWhatItDoesNotKnow) {
  EXPECT_THROW(PtxMachine(entry("", "frobnicate.b32 %r1, %r2;")), PtxError);
  EXPECT_THROW(PtxMachine(entry("", "mov.b32 %r1, %q2;")), PtxError);
  EXPECT_THROW(PtxMachine(entry("", ".local .align 4 .b8 __local_depot0[16];")), PtxError);
}

float run1(const std::string &code, const std::vector<std::uint32_t> &inputs, std::uint32_t *bits = nullptr) {
  std::string body = "ld.param.b64 %rd1, [k_param_0];\n";
  for (std::size_t i = 0; i < inputs.size(); ++i)
    body += "mov.b32 %r" + std::to_string(i + 1) + ", " + std::to_string(inputs[i]) + ";\n";
  body += code + "\nst.global.b32 [%rd1], %r0;\nret;\n";
  PtxMachine machine(entry(".param .u64 k_param_0", body));
  std::vector<std::uint32_t> y(1);
  machine.allow(y.data(), 4, true);
  machine.run({"k", {1, 1, 1}, 1, 0, {pointer(y)}});
  if (bits)
    *bits = y[0];
  float value;
  std::memcpy(&value, y.data(), 4);
  return value;
}

std::uint32_t intOf(const std::string &code, const std::vector<std::uint32_t> &inputs) {
  std::uint32_t bits;
  run1(code, inputs, &bits);
  return bits;
}

TEST(PtxMachine, Arithmetic) {
  EXPECT_EQ(intOf("sub.s32 %r0, %r1, %r2;", {3, 5}), static_cast<std::uint32_t>(-2));
  EXPECT_EQ(intOf("shr.s32 %r0, %r1, 4;", {0x80000000u}), 0xF8000000u);
  EXPECT_EQ(intOf("shr.u32 %r0, %r1, %r2;", {0x80000000u, 40}), 0u);
  EXPECT_EQ(intOf("max.s32 %r0, %r1, %r2;", {0xFFFFFFFFu, 1}), 1u);
  EXPECT_EQ(intOf("mul.hi.u32 %r0, %r1, %r2;", {0xFFFFFFFFu, 0xFFFFFFFFu}), 0xFFFFFFFEu);
  EXPECT_EQ(intOf("mad.lo.s32 %r0, %r1, %r2, 7;", {3, 5}), 22u);
  EXPECT_EQ(intOf("prmt.b32 %r0, %r1, %r2, 0x5410U;", {0x11112222u, 0x33334444u}), 0x44442222u);
  EXPECT_EQ(intOf("prmt.b32 %r0, %r1, %r2, 0x7632U;", {0x11112222u, 0x33334444u}), 0x33331111u);
  EXPECT_EQ(intOf("bfe.u32 %r0, %r1, 8, 8;", {0x12345678u}), 0x56u);
  EXPECT_EQ(intOf("lop3.b32 %r0, %r1, %r2, %r2, 0x3c;", {0xF0F0F0F0u, 0xFF00FF00u}), 0x0FF00FF0u);
  EXPECT_EQ(intOf("shf.l.wrap.b32 %r0, %r1, %r2, 8;", {0xAABBCCDDu, 0x11223344u}), 0x223344AAu);
  EXPECT_EQ(intOf("cvt.rn.bf16x2.f32 %r0, %r1, %r2;", {0x3F800000u, 0x40000000u}), 0x3F804000u);
  EXPECT_EQ(intOf("mov.b32 {%rs1, %rs2}, %r1;\nmov.b32 %r0, {%rs2, %rs1};", {0x12345678u}), 0x56781234u);
  EXPECT_EQ(intOf("cvt.rzi.s32.f32 %r0, %r1;", {0xC0200000u}), static_cast<std::uint32_t>(-2));
  EXPECT_EQ(intOf("setp.ltu.f32 %p1, %r1, %r2;\nselp.b32 %r0, 1, 2, %p1;", {0x7fc00000u, 0}), 1u);
  EXPECT_EQ(intOf("setp.lt.f32 %p1, %r1, %r2;\nselp.b32 %r0, 1, 2, %p1;", {0x7fc00000u, 0}), 2u);
  EXPECT_EQ(run1("fma.rn.f32 %r0, %r1, %r1, %r2;", {0x40400000u, 0x3F800000u}), 10.0f);
  EXPECT_EQ(run1("ex2.approx.ftz.f32 %r0, %r1;", {0x40400000u}), 8.0f);
  EXPECT_EQ(run1("min.f32 %r0, %r1, %r2;", {0x7fc00000u, 0x3F800000u}), 1.0f);
  EXPECT_TRUE(std::isnan(run1("min.NaN.f32 %r0, %r1, %r2;", {0x7fc00000u, 0x3F800000u})));
  EXPECT_EQ(run1("{\n.reg .b16 a;\ncvt.rn.bf16.f32 a, %r1;\ncvt.f32.bf16 %r0, a;\n}", {0x3F80C000u}), 1.0078125f);
}

/// One warp: C = A B with A and B from shared memory through ldmatrix, against plain sums.
TEST(PtxMachine, MatrixInstructions) {
  std::string body = R"(
  ld.param.b64 %rd1, [k_param_0];
  ld.param.b64 %rd2, [k_param_1];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 16;
  add.s64 %rd4, %rd1, %rd3;
  shl.b32 %r2, %r1, 4;
  mov.b32 %r3, smem;
  add.s32 %r4, %r3, %r2;
  cp.async.cg.shared.global [%r4], [%rd4], 16;
  add.s64 %rd5, %rd4, 512;
  add.s32 %r5, %r4, 512;
  setp.gt.u32 %p1, %r1, 15;
  selp.b32 %r6, 0, 16, %p1;
  cp.async.cg.shared.global [%r5], [%rd4], 16, %r6;
  cp.async.commit_group;
  cp.async.wait_group 0;
  bar.warp.sync -1;
  and.b32 %r7, %r1, 15;
  shl.b32 %r8, %r7, 5;
  shr.u32 %r9, %r1, 4;
  shl.b32 %r10, %r9, 4;
  add.s32 %r11, %r8, %r10;
  add.s32 %r12, %r3, %r11;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r12];
  add.s32 %r13, %r8, %r3;
  add.s32 %r13, %r13, 512;
  ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r24, %r25}, [%r13];
  mov.b32 %r30, 0f00000000;
  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r31, %r32, %r33, %r34}, {%r20, %r21, %r22, %r23}, {%r24, %r25}, {%r30, %r30, %r30, %r30};
  mul.wide.u32 %rd6, %r1, 16;
  add.s64 %rd7, %rd2, %rd6;
  st.global.v4.b32 [%rd7], {%r31, %r32, %r33, %r34};
  ret;
)";
  PtxMachine machine(entry(".param .u64 k_param_0, .param .u64 k_param_1", body));
  std::vector<std::uint16_t> a(256);
  std::vector<float> value(256);
  for (int i = 0; i < 256; ++i) {
    value[i] = static_cast<float>((i * 7) % 13 - 6);
    std::uint32_t bits;
    std::memcpy(&bits, &value[i], 4);
    a[i] = static_cast<std::uint16_t>(bits >> 16);
  }
  std::vector<float> c(128);
  machine.allow(a.data(), 512, false);
  machine.allow(c.data(), 512, true);
  machine.run({"k", {1, 1, 1}, 32, 1024, {pointer(a), pointer(c)}});
  // B is the first half of A as a matrix of rows of 16, its first 8 columns; its second half is zero filled.
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      int row = lane / 4 + (i >> 1) * 8, column = lane % 4 * 2 + (i & 1);
      float sum = 0;
      for (int k = 0; k < 8; ++k)
        sum += value[row * 16 + k] * value[k * 16 + column];
      EXPECT_EQ(c[lane * 4 + i], sum) << row << ", " << column;
    }
}

//===----------------------------------------------------------------------===//
// What runs beside the threads
//===----------------------------------------------------------------------===//

struct Steps {
  std::string waitForCopies = R"(
{
.reg .pred P1;
LAB_WAIT:
mbarrier.try_wait.parity.shared.b64 P1, [smem+16384], 0, 10000000;
@P1 bra.uni DONE;
bra.uni LAB_WAIT;
DONE:
}
)";
  std::string fence = "fence.proxy.async.shared::cta;", waitForMatrices = "wgmma.wait_group.sync.aligned 0;";
  std::string bytes = "8192";
};

/// 64 x 16 products of A [64, 64] and B [16, 64] (bf16, 128-byte swizzle): A by a tensor copy, B by ordinary stores.
std::string warpgroupBody(const Steps &steps) {
  std::string body = R"(
  ld.param.b64 %rd1, [k_param_0];
  ld.param.b64 %rd2, [k_param_1];
  mov.b64 %rd3, k_param_2;
  cvta.param.u64 %rd3, %rd3;
  mov.u32 %r1, %tid.x;
  setp.ne.s32 %p1, %r1, 0;
  mov.b32 %r2, 0;
  @%p1 bra $L__BB0_1;
  mbarrier.init.shared.b64 [smem+16384], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared.b64 %rd4, [smem+16384], )" + steps.bytes + R"(;
  mov.b64 %rd5, smem;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%rd5], [%rd3, {%r2, %r2}], [smem+16384];
$L__BB0_1:
  // 128 threads: 16 bytes of B each, swizzled
  shr.u32 %r3, %r1, 3;
  and.b32 %r4, %r1, 7;
  and.b32 %r5, %r3, 7;
  xor.b32 %r4, %r4, %r5;
  shl.b32 %r3, %r3, 7;
  shl.b32 %r4, %r4, 4;
  add.s32 %r3, %r3, %r4;
  mul.wide.u32 %rd6, %r1, 16;
  add.s64 %rd6, %rd1, %rd6;
  ld.global.nc.v4.b32 {%r4, %r5, %r6, %r7}, [%rd6];
  st.shared.v4.b32 [%r3+8192], {%r4, %r5, %r6, %r7};
)" + steps.fence + R"(
  bar.sync 0;
)" + steps.waitForCopies + R"(
  mov.b64 %rd7, 4611686293305360384; // stride 1024, swizzle 128
  mov.b64 %rd8, 4611686293305360896; // 8192 / 16 further
  wgmma.fence.sync.aligned;
)";
  for (int i = 0; i < 8; ++i)
    body += "mov.b32 %r" + std::to_string(10 + i) + ", 0f00000000;\n";
  for (int k = 0; k < 4; ++k)
    body += R"({
.reg .pred p;
setp.ne.b32 p, 1, 0;
wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, %rd7, %rd8, p, 1, 1, 0, 0;
}
  add.s64 %rd7, %rd7, 2;
  add.s64 %rd8, %rd8, 2;
)";
  return body + "wgmma.commit_group.sync.aligned;\n" + steps.waitForMatrices + R"(
  mul.wide.u32 %rd6, %r1, 32;
  add.s64 %rd6, %rd2, %rd6;
  st.global.v4.b32 [%rd6], {%r10, %r11, %r12, %r13};
  st.global.v4.b32 [%rd6+16], {%r14, %r15, %r16, %r17};
  ret;
)";
}

float valueOf(std::uint16_t bits) {
  std::uint32_t wide = std::uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

struct WarpgroupRun {
  std::vector<std::uint16_t> a, b;
  std::vector<float> c = std::vector<float>(1024, NAN);
  WarpgroupRun() : a(64 * 64), b(16 * 64) {
    for (std::size_t i = 0; i < a.size(); ++i)
      a[i] = static_cast<std::uint16_t>(0x3F80 + i * 37 % 61 + (i % 3 ? 0 : 0x8000));
    for (std::size_t i = 0; i < b.size(); ++i)
      b[i] = static_cast<std::uint16_t>(0x3F80 + i * 23 % 53 + (i % 5 ? 0 : 0x8000));
  }
  std::string run(const Steps &steps, unsigned seed) {
    PtxMachine machine(entry(".param .u64 k_param_0, .param .u64 k_param_1, .param .align 64 .b8 k_param_2[128]",
                             warpgroupBody(steps)));
    machine.allow(a.data(), a.size() * 2, false);
    machine.allow(b.data(), b.size() * 2, false);
    machine.allow(c.data(), c.size() * 4, true);
    PtxTensorMap map;
    map.address = a.data();
    map.sizes[0] = 64, map.sizes[1] = 60; // the last rows are outside: zero
    map.box[0] = map.box[1] = 64;
    map.strides[0] = 128;
    map.swizzleBytes = 128;
    return errorOf(machine, {"k", {1, 1, 1}, 128, 16384 + 8, {pointer(b), pointer(c), bytesOf(&map, sizeof map)}, seed});
  }
};

TEST(PtxMachine, MultipliesWhatTensorCopiesBring) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    WarpgroupRun test;
    ASSERT_EQ(test.run({}, seed), "");
    for (int thread = 0; thread < 128; ++thread)
      for (int i = 0; i < 8; ++i) {
        int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + thread % 4 * 2 + i % 2;
        double sum = 0;
        for (int k = 0; k < 64 && row < 60; ++k)
          sum += double(valueOf(test.a[row * 64 + k])) * valueOf(test.b[column * 64 + k]);
        EXPECT_NEAR(test.c[thread * 8 + i], sum, 1e-4) << row << ", " << column;
      }
  }
}

TEST(PtxMachine, FindsMissingWaits) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    Steps steps;
    steps.waitForCopies = "";
    EXPECT_NE(WarpgroupRun().run(steps, seed).find("wgmma reads what an asynchronous copy has written"), std::string::npos);
    steps = {};
    steps.fence = "";
    EXPECT_NE(WarpgroupRun().run(steps, seed).find("no fence.proxy.async"), std::string::npos);
    steps = {};
    steps.waitForMatrices = "";
    EXPECT_NE(WarpgroupRun().run(steps, seed).find("has not waited for"), std::string::npos);
    steps = {};
    steps.bytes = "8208";
    EXPECT_NE(WarpgroupRun().run(steps, seed).find("never come"), std::string::npos);
  }
}

/// One thread of warp 0 copies 64 bytes again and again into one place, warp 1 reads them.
std::string ringBody(const std::string &release) {
  return R"(
  ld.param.b64 %rd1, [k_param_0];
  ld.param.b64 %rd2, [k_param_1];
  mov.u32 %r1, %tid.x;
  setp.ne.s32 %p1, %r1, 0;
  @%p1 bra $L__BB0_1;
  mbarrier.init.shared.b64 [smem+64], 1;
  mbarrier.init.shared.b64 [smem+72], 1;
$L__BB0_1:
  bar.sync 0;
  mov.b32 %r2, 0;
  setp.gt.s32 %p2, %r1, 31;
  @%p2 bra $L__BB0_4;
  @%p1 ret;
$L__BB0_2:
  and.b32 %r3, %r2, 1;
  xor.b32 %r3, %r3, 1;
  {
  .reg .pred P1;
  LAB_WAIT:
  mbarrier.try_wait.parity.shared.b64 P1, [smem+72], %r3, 10000000;
  @P1 bra.uni DONE;
  bra.uni LAB_WAIT;
  DONE:
  }
  mbarrier.arrive.expect_tx.shared.b64 _, [smem+64], 64;
  mov.b32 %r4, smem;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd1], 64, [smem+64];
  add.s64 %rd1, %rd1, 64;
  add.s32 %r2, %r2, 1;
  setp.lt.s32 %p3, %r2, 5;
  @%p3 bra $L__BB0_2;
  ret;
$L__BB0_4:
  add.s32 %r5, %r1, -32;
  setp.gt.s32 %p4, %r5, 15;
  shl.b32 %r6, %r5, 2;
  mov.b32 %r7, 0f00000000;
$L__BB0_5:
  and.b32 %r3, %r2, 1;
  {
  .reg .pred P1;
  LAB_WAIT:
  mbarrier.try_wait.parity.shared.b64 P1, [smem+64], %r3, 10000000;
  @P1 bra.uni DONE;
  bra.uni LAB_WAIT;
  DONE:
  }
  @%p4 bra $L__BB0_6;
  ld.shared.b32 %r8, [%r6];
  add.f32 %r7, %r7, %r8;
$L__BB0_6:
  bar.warp.sync -1;
  setp.ne.s32 %p5, %r5, 0;
)" + release + R"(
  add.s32 %r2, %r2, 1;
  setp.lt.s32 %p3, %r2, 5;
  @%p3 bra $L__BB0_5;
  mul.wide.s32 %rd3, %r5, 4;
  add.s64 %rd3, %rd2, %rd3;
  @!%p4 st.global.b32 [%rd3], %r7;
  ret;
)";
}

TEST(PtxMachine, RingOfBulkCopies) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    std::vector<float> x(80), y(16);
    for (int i = 0; i < 80; ++i)
      x[i] = static_cast<float>(i * i % 17);
    auto run = [&](const std::string &release) {
      PtxMachine machine(entry(".param .u64 k_param_0, .param .u64 k_param_1", ringBody(release)));
      machine.allow(x.data(), 320, false);
      machine.allow(y.data(), 64, true);
      return errorOf(machine, {"k", {1, 1, 1}, 64, 80, {pointer(x), pointer(y)}, seed});
    };
    ASSERT_EQ(run("@!%p5 mbarrier.arrive.shared.b64 _, [smem+72];"), "");
    for (int i = 0; i < 16; ++i)
      EXPECT_EQ(y[i], x[i] + x[i + 16] + x[i + 32] + x[i + 48] + x[i + 64]);
    EXPECT_NE(run("").find("never come"), std::string::npos);
  }
}

//===----------------------------------------------------------------------===//
// Blocks that wait for each other
//===----------------------------------------------------------------------===//

/// How a number passes from one block to the other; what is not given is done rightly.
struct HandOver {
  std::string meetBefore = "bar.sync 0;", release = "red.release.gpu.global.add.u32 [%rd2], 1;",
              acquire = "ld.acquire.gpu.global.u32 %r3, [%rd2];", meetAfter = "bar.sync 0;",
              load = "ld.global.b32 %r4, [%rd4];", arrivals = "1";
};

/// Block 0: every one of 64 threads writes 7 + its number into x, then the block counts. Block 1 waits for the count and
/// copies x to y.
std::string handOverBody(const HandOver &steps) {
  return R"(
  ld.param.b64 %rd1, [k_param_0];
  ld.param.b64 %rd2, [k_param_1];
  ld.param.b64 %rd3, [k_param_2];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd4, %r1, 4;
  add.s64 %rd5, %rd3, %rd4;
  add.s64 %rd4, %rd1, %rd4;
  setp.ne.s32 %p1, %r1, 0;
  mov.u32 %r2, %ctaid.x;
  setp.ne.s32 %p2, %r2, 0;
  @%p2 bra $L__BB0_2;
  add.s32 %r4, %r1, 7;
  st.global.b32 [%rd4], %r4;
)" + steps.meetBefore + R"(
  @%p1 bra $L__BB0_1;
)" + steps.release + R"(
$L__BB0_1:
  ret;
$L__BB0_2:
  @%p1 bra $L__BB0_4;
$L__BB0_3:
)" + steps.acquire + R"(
  setp.ne.s32 %p3, %r3, )" + steps.arrivals + R"(;
  @%p3 bra $L__BB0_3;
$L__BB0_4:
)" + steps.meetAfter + "\n" + steps.load + R"(
  st.global.b32 [%rd5], %r4;
  ret;
)";
}

/// What is wrong, for a grid of two blocks.
std::string handOver(const HandOver &steps, unsigned seed, bool resident = true) {
  PtxMachine machine(entry(".param .u64 k_param_0, .param .u64 k_param_1, .param .u64 k_param_2", handOverBody(steps)));
  std::vector<std::int32_t> x(64, -1), count(1), y(64, -1);
  machine.allow(x.data(), 256, true);
  machine.allow(count.data(), 4, true);
  machine.allow(y.data(), 256, true);
  PtxMachine::Launch launch{"k", {2, 1, 1}, 64, 128, {pointer(x), pointer(count), pointer(y)}, seed};
  launch.resident = resident;
  std::string error = errorOf(machine, launch);
  for (int i = 0; error.empty() && i < 64; ++i)
    if (y[i] != 7 + i)
      return "wrong value";
  return error;
}

TEST(PtxMachine, BlocksHandOver) {
  HandOver fences, viaAtomics;
  fences.release = "fence.acq_rel.gpu;\nred.relaxed.gpu.global.add.u32 [%rd2], 1;";
  fences.acquire = "ld.relaxed.gpu.global.u32 %r3, [%rd2];";
  fences.meetAfter = "fence.acq_rel.gpu;\nbar.sync 0;";
  viaAtomics.release = "atom.acq_rel.gpu.global.add.u32 %r5, [%rd2], 1;";
  viaAtomics.acquire = "atom.acquire.gpu.global.add.u32 %r3, [%rd2], 0;";
  for (unsigned seed = 0; seed < 40; ++seed) {
    EXPECT_EQ(handOver({}, seed), "");
    EXPECT_EQ(handOver(fences, seed), "");
    EXPECT_EQ(handOver(viaAtomics, seed), "");
  }
}

TEST(PtxMachine, FindsRacesOfBlocks) {
  auto with = [](std::string HandOver::*step, const char *text) {
    HandOver steps;
    steps.*step = text;
    return steps;
  };
  const HandOver wrong[] = {
      with(&HandOver::release, "red.relaxed.gpu.global.add.u32 [%rd2], 1;"),
      with(&HandOver::release, "red.global.add.u32 [%rd2], 1;"),
      with(&HandOver::release, "red.release.cta.global.add.u32 [%rd2], 1;"),
      // A fence behind the count comes too late.
      with(&HandOver::release, "red.relaxed.gpu.global.add.u32 [%rd2], 1;\nfence.acq_rel.gpu;"),
      with(&HandOver::acquire, "ld.relaxed.gpu.global.u32 %r3, [%rd2];"),
      with(&HandOver::acquire, "ld.volatile.global.u32 %r3, [%rd2];"),
      // The count itself is read and written.
      with(&HandOver::acquire, "ld.global.u32 %r3, [%rd2];"),
      with(&HandOver::release, "mov.b32 %r5, 1;\nst.global.b32 [%rd2], %r5;"),
      // The other warp of the block has not written yet, or has not heard of it.
      with(&HandOver::meetBefore, ""),
      with(&HandOver::meetAfter, ""),
      // A bulk copy is not ordered by the acquire.
      with(&HandOver::load, "mov.b32 %r6, smem;\n@!%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                            "[%r6], [%rd4], 16, [smem+64];"),
  };
  for (unsigned seed = 0; seed < 10; ++seed)
    for (const HandOver &steps : wrong) {
      std::string error = handOver(steps, seed);
      EXPECT_NE(error.find("race in global memory"), std::string::npos)
          << "case " << &steps - wrong << " with seed " << seed << ": " << error;
    }
}

TEST(PtxMachine, FindsWaitsWithoutEnd) {
  HandOver tooMany;
  tooMany.arrivals = "2";
  EXPECT_NE(handOver(tooMany, 1).find("blocks wait for each other for ever"), std::string::npos);
  // The order of the blocks decides whether the one that waits comes first.
  unsigned found = 0;
  for (unsigned seed = 0; seed < 4; ++seed) {
    std::string error = handOver({}, seed, /*resident=*/false);
    EXPECT_TRUE(error.empty() || error.find("blocks run one after the other unless the launch is resident") != std::string::npos)
        << error;
    found += !error.empty();
  }
  EXPECT_GT(found, 0u);
  EXPECT_LT(found, 4u);
}

} // namespace
