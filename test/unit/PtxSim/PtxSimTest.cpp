//===- PtxSimTest.cpp - what the PTX simulator computes and refuses --------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/PtxSim/PtxSim.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <random>

using namespace k3::ptxsim;

namespace {

std::string kernelText(const std::string &params, const std::string &body, const std::string &globals = "") {
  return ".version 8.8\n.target sm_90a\n.address_size 64\n" + globals + ".visible .entry test(" + params +
         ")\n.maxntid 256\n{\n .reg .pred %p<9>;\n .reg .b32 %r<99>;\n .reg .b64 %rd<99>;\n" + body + " ret;\n}\n";
}

const std::string smem = ".extern .shared .align 1024 .b8 smem[];\n";

struct Run {
  Launch launch;
  std::string error;
  Statistics statistics;
};

/// Runs `body` with the pointers of `buffers` as parameters p0, p1, ...
template <typename... T>
std::string runKernel(const std::string &body, std::uint32_t threads, std::uint32_t shared, std::vector<T> &...buffers) {
  std::string params;
  int next = 0;
  for (std::size_t i = 0; i < sizeof...(buffers); ++i)
    params += (next ? ", .param .u64 p" : ".param .u64 p") + std::to_string(next), ++next;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    try {
      Module module(kernelText(params, body, shared ? smem : ""));
      Launch launch;
      launch.threads = threads;
      launch.dynamicSharedBytes = shared;
      ParamBuilder builder(module.params("test"));
      (builder.value(buffers.data()), ...);
      launch.params = builder.take();
      (launch.memory.push_back({buffers.data(), buffers.size() * sizeof(T)}), ...);
      Options options;
      options.seed = seed;
      options.maxInstructions = 100000;
      module.run("test", launch, options);
    } catch (const std::runtime_error &error) {
      return error.what();
    }
  }
  return "";
}

std::uint16_t bf16(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<std::uint16_t>(bits >> 16);
}
float fromBf16(std::uint16_t value) {
  std::uint32_t bits = std::uint32_t(value) << 16;
  float out;
  std::memcpy(&out, &bits, 4);
  return out;
}
/// Small integers: products and sums are exact.
std::vector<std::uint16_t> smallIntegers(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint16_t> out(size);
  for (auto &x : out)
    x = bf16(static_cast<float>(static_cast<int>(random() % 9) - 4));
  return out;
}

TEST(PtxSim, BranchesAndArithmetic) {
  std::vector<std::int32_t> out(64, -1);
  // out[t] = sum of the odd numbers below t, and -t for t >= 60.
  EXPECT_EQ(runKernel(R"(
    ld.param.b64 %rd1, [p0];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd1, %rd1, %rd2;
    mov.b32 %r2, 0;
    mov.b32 %r3, 0;
    setp.gt.s32 %p1, %r1, 59;
    @%p1 bra NEGATIVE;
  LOOP:
    setp.ge.s32 %p2, %r3, %r1;
    @%p2 bra STORE;
    and.b32 %r4, %r3, 1;
    mad.lo.s32 %r2, %r4, %r3, %r2;
    add.s32 %r3, %r3, 1;
    bra.uni LOOP;
  NEGATIVE:
    neg.s32 %r2, %r1;
  STORE:
    st.global.b32 [%rd1], %r2;
)", 64, 0, out), "");
  for (int t = 0; t < 64; ++t) {
    int sum = 0;
    for (int i = 1; i < t; i += 2)
      sum += i;
    EXPECT_EQ(out[t], t >= 60 ? -t : sum) << t;
  }
}

TEST(PtxSim, ReductionThroughShufflesAndSharedMemory) {
  std::vector<float> out(1, NAN), in(128);
  for (int i = 0; i < 128; ++i)
    in[i] = static_cast<float>(i);
  EXPECT_EQ(runKernel(R"(
    ld.param.b64 %rd1, [p0];
    ld.param.b64 %rd5, [p1];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd1, %rd1, %rd2;
    ld.global.nc.b32 %r2, [%rd1];
    shfl.sync.bfly.b32 %r3, %r2, 16, 31, -1;
    add.rn.f32 %r2, %r2, %r3;
    shfl.sync.bfly.b32 %r3, %r2, 8, 31, -1;
    add.rn.f32 %r2, %r2, %r3;
    shfl.sync.down.b32 %r3, %r2, 4, 31, -1;
    add.rn.f32 %r2, %r2, %r3;
    shfl.sync.bfly.b32 %r3, %r2, 2, 31, -1;
    add.rn.f32 %r2, %r2, %r3;
    shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;
    add.rn.f32 %r2, %r2, %r3;
    shr.u32 %r4, %r1, 5;
    and.b32 %r5, %r1, 31;
    mov.b64 %rd3, smem;
    mul.wide.u32 %rd4, %r4, 4;
    add.s64 %rd3, %rd3, %rd4;
    setp.ne.b32 %p1, %r5, 0;
    @%p1 bra SKIP;
    st.shared.b32 [%rd3], %r2;
  SKIP:
    bar.sync 0;
    setp.ne.b32 %p2, %r1, 0;
    @%p2 bra DONE;
    ld.shared.v4.b32 {%r6, %r7, %r8, %r9}, [smem];
    add.rn.f32 %r6, %r6, %r7;
    add.rn.f32 %r8, %r8, %r9;
    add.rn.f32 %r6, %r6, %r8;
    st.global.b32 [%rd5], %r6;
  DONE:
)", 128, 64, in, out), "");
  EXPECT_EQ(out[0], 127 * 64);
}

TEST(PtxSim, MmaMultipliesTiles) {
  std::vector<std::uint16_t> a = smallIntegers(16 * 16, 1), b = smallIntegers(8 * 16, 2);
  std::vector<float> c(16 * 8, NAN);
  // Fragments through ldmatrix from tiles that the lanes copy; rows of A and of B (given by its columns) are 32 bytes.
  EXPECT_EQ(runKernel(R"(
    ld.param.b64 %rd1, [p0];
    ld.param.b64 %rd2, [p1];
    ld.param.b64 %rd3, [p2];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd4, %r1, 16;
    add.s64 %rd5, %rd1, %rd4;
    mov.b64 %rd6, smem;
    add.s64 %rd7, %rd6, %rd4;
    cp.async.cg.shared.global [%rd7], [%rd5], 16;
    setp.gt.u32 %p1, %r1, 15;
    @%p1 bra LOADED;
    add.s64 %rd8, %rd2, %rd4;
    cp.async.cg.shared.global [%rd7+512], [%rd8], 16;
  LOADED:
    cp.async.commit_group;
    cp.async.wait_group 0;
    bar.sync 0;
    and.b32 %r2, %r1, 15;
    shr.u32 %r3, %r1, 4;
    mul.wide.u32 %rd9, %r2, 32;
    mul.wide.u32 %rd10, %r3, 16;
    add.s64 %rd11, %rd6, %rd9;
    add.s64 %rd11, %rd11, %rd10;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%rd11];
    and.b32 %r4, %r1, 7;
    shr.u32 %r5, %r1, 3;
    and.b32 %r5, %r5, 1;
    mul.wide.u32 %rd12, %r4, 32;
    mul.wide.u32 %rd13, %r5, 16;
    add.s64 %rd14, %rd6, %rd12;
    add.s64 %rd14, %rd14, %rd13;
    ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r14, %r15}, [%rd14+512];
    mov.b32 %r16, 0;
    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r20, %r21, %r22, %r23}, {%r10, %r11, %r12, %r13}, {%r14, %r15}, {%r16, %r16, %r16, %r16};
    shr.u32 %r6, %r1, 2;
    and.b32 %r7, %r1, 3;
    mul.wide.u32 %rd15, %r6, 32;
    mul.wide.u32 %rd16, %r7, 8;
    add.s64 %rd17, %rd3, %rd15;
    add.s64 %rd17, %rd17, %rd16;
    st.global.v2.b32 [%rd17], {%r20, %r21};
    st.global.v2.b32 [%rd17+256], {%r22, %r23};
)", 32, 1024, a, b, c), "");
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 8; ++n) {
      float sum = 0;
      for (int k = 0; k < 16; ++k)
        sum += fromBf16(a[m * 16 + k]) * fromBf16(b[n * 16 + k]);
      EXPECT_EQ(c[m * 8 + n], sum) << m << ", " << n;
    }
}

/// Both operands of a wgmma m64n8k16 by bulk copies: A in rows of 128 bytes with swizzle (through a tensor map), B as
/// core matrices without.
std::string wgmmaBody(const std::string &afterLoads, const std::string &beforeUse) {
  return R"(
    ld.param.b64 %rd2, [p1];
    ld.param.b64 %rd3, [p2];
    mov.u32 %r1, %tid.x;
    setp.ne.b32 %p1, %r1, 0;
    @%p1 bra READY;
    mov.b32 %r2, 1;
    mbarrier.init.shared.b64 [smem+9216], %r2;
    mov.b32 %r3, 8448;
    mbarrier.arrive.expect_tx.shared.b64 %rd9, [smem+9216], %r3;
    mov.b64 %rd10, p0;
    cvta.param.u64 %rd11, %rd10;
    mov.b64 %rd12, smem;
    mov.b32 %r4, 0;
    cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%rd12], [%rd11, {%r4, %r4}], [smem+9216];
    mov.b32 %r5, 256;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [smem+8192], [%rd2], %r5, [smem+9216];
  READY:
    bar.sync 0;
  WAIT:
    mbarrier.try_wait.parity.shared.b64 %p2, [smem+9216], 0;
    @!%p2 bra WAIT;
)" + afterLoads + R"(
    mov.b64 %rd20, smem;
    shr.u64 %rd21, %rd20, 4;
    or.b64 %rd22, %rd21, 4611686293305294848;
    add.s64 %rd23, %rd20, 8192;
    shr.u64 %rd24, %rd23, 4;
    or.b64 %rd25, %rd24, 34360262656;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r20, %r21, %r22, %r23}, %rd22, %rd25, 0, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
)" + beforeUse + R"(
    shr.u32 %r6, %r1, 2;
    and.b32 %r7, %r6, 7;
    shr.u32 %r8, %r1, 5;
    shl.b32 %r8, %r8, 4;
    add.s32 %r6, %r7, %r8;
    and.b32 %r7, %r1, 3;
    mul.wide.u32 %rd15, %r6, 32;
    mul.wide.u32 %rd16, %r7, 8;
    add.s64 %rd17, %rd3, %rd15;
    add.s64 %rd17, %rd17, %rd16;
    st.global.v2.b32 [%rd17], {%r20, %r21};
    st.global.v2.b32 [%rd17+256], {%r22, %r23};
)";
}

std::string runWgmma(const std::string &afterLoads, const std::string &beforeUse, std::vector<float> &c,
                     const std::vector<std::uint16_t> &a, std::vector<std::uint16_t> b, std::uint64_t seed = 1) {
  std::string text = kernelText(".param .align 64 .b8 p0[128], .param .u64 p1, .param .u64 p2",
                                wgmmaBody(afterLoads, beforeUse), smem);
  try {
    Module module(text);
    TensorMap map;
    map.base = const_cast<std::uint16_t *>(a.data());
    map.rank = 2;
    map.elementBytes = 2;
    map.dims[0] = 64;
    map.dims[1] = 64;
    map.strides[0] = 2;
    map.strides[1] = 128;
    map.box[0] = 64;
    map.box[1] = 64;
    map.swizzle = 128;
    Launch launch;
    launch.threads = 128;
    launch.dynamicSharedBytes = 10240;
    launch.params = ParamBuilder(module.params("test")).value(map).value(b.data()).value(c.data()).take();
    launch.memory = {{map.base, a.size() * 2, false}, {b.data(), b.size() * 2, false}, {c.data(), c.size() * 4}};
    Options options;
    options.seed = seed;
    module.run("test", launch, options);
  } catch (const std::runtime_error &error) {
    return error.what();
  }
  return "";
}

const std::string waitAll = "wgmma.wait_group.sync.aligned 0;\n";

TEST(PtxSim, WgmmaReadsSwizzledAndPlainTiles) {
  std::vector<std::uint16_t> a = smallIntegers(64 * 64, 3), b = smallIntegers(8 * 16, 4);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    std::vector<float> c(64 * 8, NAN);
    ASSERT_EQ(runWgmma("", waitAll, c, a, b, seed), "");
    for (int m = 0; m < 64; ++m)
      for (int n = 0; n < 8; ++n) {
        float sum = 0;
        for (int k = 0; k < 16; ++k) // B: two core matrices of 8 columns x 8 k
          sum += fromBf16(a[m * 64 + k]) * fromBf16(b[k / 8 * 64 + n * 8 + k % 8]);
        ASSERT_EQ(c[m * 8 + n], sum) << m << ", " << n;
      }
  }
}

TEST(PtxSim, RefusesWgmmaWithoutWaitOrFence) {
  std::vector<std::uint16_t> a = smallIntegers(64 * 64, 3), b = smallIntegers(8 * 16, 4);
  std::vector<float> c(64 * 8);
  EXPECT_NE(runWgmma("", "", c, a, b).find("nobody waited"), std::string::npos);
  std::string store = "mov.b64 %rd40, smem;\nmul.wide.u32 %rd41, %r1, 4;\nadd.s64 %rd40, %rd40, %rd41;\n"
                      "st.shared.b32 [%rd40], 0;\n", fence = "fence.proxy.async.shared::cta;\n", bar = "bar.sync 0;\n";
  EXPECT_NE(runWgmma(store + bar, waitAll, c, a, b).find("without fence.proxy.async"), std::string::npos);
  EXPECT_EQ(runWgmma(store + fence + bar, waitAll, c, a, b), "");
  EXPECT_NE(runWgmma("", store + waitAll, c, a, b).find("that a wgmma in flight reads"), std::string::npos);
  EXPECT_EQ(runWgmma("", waitAll + bar + store, c, a, b), "");
}

TEST(PtxSim, RefusesForeignMemory) {
  std::vector<std::int32_t> out(32);
  std::string body = R"(
    ld.param.b64 %rd1, [p0];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd1, %rd1, %rd2;
    st.global.b32 [%rd1+)";
  EXPECT_EQ(runKernel(body + "0], %r1;", 32, 0, out), "");
  std::string error = runKernel(body + "4], %r1;", 32, 0, out);
  EXPECT_NE(error.find("outside of all memory"), std::string::npos) << error;
  EXPECT_NE(error.find("thread 31"), std::string::npos) << error;
  EXPECT_NE(runKernel(body + "2], %r1;", 32, 0, out).find("misaligned"), std::string::npos);
  EXPECT_NE(runKernel("st.shared.b32 [smem+64], 0;", 32, 64, out).find("outside of the block's 64 bytes"), std::string::npos);
}

TEST(PtxSim, NamesDeadlocks) {
  std::vector<std::int32_t> out(1);
  std::string body = R"(
    mov.u32 %r1, %tid.x;
    setp.ne.b32 %p1, %r1, 0;
    @%p1 bra READY;
    mov.b32 %r2, 2;
    mbarrier.init.shared.b64 [smem], %r2;
  READY:
    bar.sync 0;
    setp.ne.b32 %p2, %r1, 32;
    @%p2 bra WAIT;
    mbarrier.arrive.shared.b64 %rd1, [smem];
    ARRIVAL
  WAIT:
    mbarrier.try_wait.parity.shared.b64 %p3, [smem], 0;
    @!%p3 bra WAIT;
)";
  auto with = [&](const std::string &arrival) {
    std::string text = body;
    return text.replace(text.find("ARRIVAL"), 7, arrival);
  };
  EXPECT_EQ(runKernel(with("mbarrier.arrive.shared.b64 %rd1, [smem];"), 64, 64, out), "");
  std::string error = runKernel(with(""), 64, 64, out);
  EXPECT_NE(error.find("deadlock"), std::string::npos) << error;
}

TEST(PtxSim, CopiesArriveLate) {
  std::vector<std::int32_t> in(32, 7), out(32, -1);
  std::string body = R"(
    ld.param.b64 %rd1, [p0];
    ld.param.b64 %rd2, [p1];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd1, %rd1, %rd3;
    add.s64 %rd2, %rd2, %rd3;
    mov.b64 %rd4, smem;
    add.s64 %rd4, %rd4, %rd3;
    cp.async.ca.shared.global [%rd4], [%rd1], 4;
    cp.async.commit_group;
    WAIT
    ld.shared.b32 %r2, [%rd4];
    st.global.b32 [%rd2], %r2;
)";
  auto with = [&](const std::string &wait) {
    std::string text = body;
    return text.replace(text.find("WAIT"), 4, wait);
  };
  EXPECT_EQ(runKernel(with("cp.async.wait_group 0;"), 32, 128, in, out), "");
  EXPECT_EQ(out, in);
  EXPECT_EQ(runKernel(with(""), 32, 128, in, out), "");
  EXPECT_NE(out, in);
}

TEST(PtxSim, SaysWhatItDoesNotKnow) {
  try {
    Module module(kernelText("", "  frobnicate.b32 %r1, %r2;\n"));
    FAIL();
  } catch (const std::runtime_error &error) {
    EXPECT_NE(std::string(error.what()).find("unsupported instruction"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("PTX line 10"), std::string::npos) << error.what();
  }
}

} // namespace
