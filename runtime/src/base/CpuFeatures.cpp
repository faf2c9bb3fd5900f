//===- CpuFeatures.cpp - what this CPU and system can execute ------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/base/CpuFeatures.h"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace k3rt {

#if defined(__x86_64__)

namespace {

enum Register : uint8_t { eax, ebx, ecx, edx };

/// Register state that the system must save (bits of XCR0).
enum State : uint32_t { none = 0, ymm = 0x6, zmm = 0xe6, tile = 0x60000 };

struct Feature {
  std::string_view name;
  uint32_t leaf, subleaf;
  Register where;
  uint8_t bit;
  State needs;
};

constexpr uint32_t ext = 0x80000000;
constexpr Feature features[] = {
    {"x87", 1, 0, edx, 0, none},
    {"cx8", 1, 0, edx, 8, none},
    {"cmov", 1, 0, edx, 15, none},
    {"mmx", 1, 0, edx, 23, none},
    {"fxsr", 1, 0, edx, 24, none},
    {"sse", 1, 0, edx, 25, none},
    {"sse2", 1, 0, edx, 26, none},
    {"sse3", 1, 0, ecx, 0, none},
    {"pclmul", 1, 0, ecx, 1, none},
    {"ssse3", 1, 0, ecx, 9, none},
    {"fma", 1, 0, ecx, 12, ymm},
    {"cx16", 1, 0, ecx, 13, none},
    {"sse4.1", 1, 0, ecx, 19, none},
    {"sse4.2", 1, 0, ecx, 20, none},
    {"crc32", 1, 0, ecx, 20, none},
    {"movbe", 1, 0, ecx, 22, none},
    {"popcnt", 1, 0, ecx, 23, none},
    {"aes", 1, 0, ecx, 25, none},
    {"xsave", 1, 0, ecx, 27, none},
    {"avx", 1, 0, ecx, 28, ymm},
    {"f16c", 1, 0, ecx, 29, ymm},
    {"rdrnd", 1, 0, ecx, 30, none},
    {"fsgsbase", 7, 0, ebx, 0, none},
    {"bmi", 7, 0, ebx, 3, none},
    {"avx2", 7, 0, ebx, 5, ymm},
    {"bmi2", 7, 0, ebx, 8, none},
    {"invpcid", 7, 0, ebx, 10, none},
    {"rtm", 7, 0, ebx, 11, none},
    {"avx512f", 7, 0, ebx, 16, zmm},
    {"avx512dq", 7, 0, ebx, 17, zmm},
    {"rdseed", 7, 0, ebx, 18, none},
    {"adx", 7, 0, ebx, 19, none},
    {"avx512ifma", 7, 0, ebx, 21, zmm},
    {"clflushopt", 7, 0, ebx, 23, none},
    {"clwb", 7, 0, ebx, 24, none},
    {"avx512cd", 7, 0, ebx, 28, zmm},
    {"sha", 7, 0, ebx, 29, none},
    {"avx512bw", 7, 0, ebx, 30, zmm},
    {"avx512vl", 7, 0, ebx, 31, zmm},
    {"avx512vbmi", 7, 0, ecx, 1, zmm},
    {"pku", 7, 0, ecx, 4, none},
    {"waitpkg", 7, 0, ecx, 5, none},
    {"avx512vbmi2", 7, 0, ecx, 6, zmm},
    {"shstk", 7, 0, ecx, 7, none},
    {"gfni", 7, 0, ecx, 8, none},
    {"vaes", 7, 0, ecx, 9, ymm},
    {"vpclmulqdq", 7, 0, ecx, 10, ymm},
    {"avx512vnni", 7, 0, ecx, 11, zmm},
    {"avx512bitalg", 7, 0, ecx, 12, zmm},
    {"avx512vpopcntdq", 7, 0, ecx, 14, zmm},
    {"rdpid", 7, 0, ecx, 22, none},
    {"cldemote", 7, 0, ecx, 25, none},
    {"movdiri", 7, 0, ecx, 27, none},
    {"movdir64b", 7, 0, ecx, 28, none},
    {"enqcmd", 7, 0, ecx, 29, none},
    {"uintr", 7, 0, edx, 5, none},
    {"avx512vp2intersect", 7, 0, edx, 8, zmm},
    {"serialize", 7, 0, edx, 14, none},
    {"tsxldtrk", 7, 0, edx, 16, none},
    {"pconfig", 7, 0, edx, 18, none},
    {"amx-bf16", 7, 0, edx, 22, tile},
    {"avx512fp16", 7, 0, edx, 23, zmm},
    {"amx-tile", 7, 0, edx, 24, tile},
    {"amx-int8", 7, 0, edx, 25, tile},
    {"sha512", 7, 1, eax, 0, ymm},
    {"sm3", 7, 1, eax, 1, ymm},
    {"sm4", 7, 1, eax, 2, ymm},
    {"avxvnni", 7, 1, eax, 4, ymm},
    {"avx512bf16", 7, 1, eax, 5, zmm},
    {"cmpccxadd", 7, 1, eax, 7, none},
    {"amx-fp16", 7, 1, eax, 21, tile},
    {"hreset", 7, 1, eax, 22, none},
    {"avxifma", 7, 1, eax, 23, ymm},
    {"avxvnniint8", 7, 1, edx, 4, ymm},
    {"avxneconvert", 7, 1, edx, 5, ymm},
    {"amx-complex", 7, 1, edx, 8, tile},
    {"avxvnniint16", 7, 1, edx, 10, ymm},
    {"prefetchi", 7, 1, edx, 14, none},
    {"xsaveopt", 0xd, 1, eax, 0, none},
    {"xsavec", 0xd, 1, eax, 1, none},
    {"xsaves", 0xd, 1, eax, 3, none},
    {"ptwrite", 0x14, 0, ebx, 4, none},
    {"sahf", ext + 1, 0, ecx, 0, none},
    {"lzcnt", ext + 1, 0, ecx, 5, none},
    {"sse4a", ext + 1, 0, ecx, 6, none},
    {"prfchw", ext + 1, 0, ecx, 8, none},
    {"xop", ext + 1, 0, ecx, 11, ymm},
    {"lwp", ext + 1, 0, ecx, 15, none},
    {"fma4", ext + 1, 0, ecx, 16, ymm},
    {"tbm", ext + 1, 0, ecx, 21, none},
    {"mwaitx", ext + 1, 0, ecx, 29, none},
    {"64bit", ext + 1, 0, edx, 29, none},
    {"clzero", ext + 8, 0, ebx, 0, none},
    {"rdpru", ext + 8, 0, ebx, 4, none},
    {"wbnoinvd", ext + 8, 0, ebx, 9, none},
};

} // namespace

static uint64_t enabledRegisterStates() {
  unsigned a, b, c, d;
  constexpr unsigned osxsave = 1u << 27;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & osxsave))
    return 0;
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
}

FeatureState cpuFeature(std::string_view name) {
  for (const Feature &feature : features) {
    if (feature.name != name)
      continue;
    unsigned registers[4] = {};
    if (!__get_cpuid_count(feature.leaf, feature.subleaf, &registers[eax],
                           &registers[ebx], &registers[ecx], &registers[edx]))
      return FeatureState::absent;
    bool present = registers[feature.where] >> feature.bit & 1;
    bool saved = (enabledRegisterStates() & feature.needs) == feature.needs;
    return present && saved ? FeatureState::present : FeatureState::absent;
  }
  return FeatureState::unknown;
}

const char *hostArch() { return "x86_64"; }

#else

FeatureState cpuFeature(std::string_view) { return FeatureState::unknown; }

#if defined(__aarch64__)
const char *hostArch() { return "aarch64"; }
#else
const char *hostArch() { return "unknown"; }
#endif

#endif

} // namespace k3rt
