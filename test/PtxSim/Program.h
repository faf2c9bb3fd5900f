//===- Program.h - decoded PTX ------------------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "test/PtxSim/PtxSim.h"

#include <map>

namespace k3::ptxsim {

enum class Type : std::uint8_t {
  none, pred, b8, u8, s8, b16, u16, s16, b32, u32, s32, b64, u64, s64, b128,
  f16, bf16, f32, f64, f16x2, bf16x2, tf32
};
int typeBytes(Type type);
bool isSigned(Type type);

enum class Space : std::uint8_t { generic, global, shared, param, local, constant };

enum class Special : std::uint8_t {
  tidX, tidY, tidZ, ntidX, ntidY, ntidZ, ctaidX, ctaidY, ctaidZ, nctaidX, nctaidY, nctaidZ,
  laneid, warpid, clock, smid, nsmid, zero, one, lanemaskLt, lanemaskLe, lanemaskGt, lanemaskGe, lanemaskEq
};

struct Operand {
  enum class Kind : std::uint8_t { sink, reg, imm, special, mem } kind = Kind::sink;
  bool negated = false;
  Special special{};
  std::int32_t reg = -1;  ///< of reg; base of mem, -1 for none
  std::uint64_t imm = 0;  ///< of imm; offset of mem
};

enum class Op : std::uint8_t {
  mov, add, sub, mul, mad, fma, div, rem, abs, neg, min, max, shl, shr, shf, and_, or_, xor_, not_, lop3, prmt, bfe, bfi,
  popc, clz, brev, setp, selp, cvt, cvta, isspacep, ld, st, atom, ex2, lg2, rcp, sqrt, rsqrt, tanh, sin, cos, copysign,
  bra, brx, ret, trap, nop, barSync, barArrive, bar_warp, shfl, vote, redux, activemask, elect,
  mma, ldmatrix, stmatrix, movmatrix, cpAsync, cpAsyncCommit, cpAsyncWait, cpAsyncArrive,
  bulkLoad, tensorLoad, bulkStore, tensorStore, bulkCommit, bulkWait,
  mbarInit, mbarInval, mbarArrive, mbarExpect, mbarComplete, mbarWait,
  wgmma, wgmmaCommit, wgmmaWait, wgmmaFence, fenceProxyAsync, mapa
};

struct Instruction {
  Op op{};
  Type type = Type::none, source = Type::none;
  Space space = Space::generic, space2 = Space::generic;
  std::uint8_t vec = 1;
  bool hi = false, wide = false, ftz = false, sat = false, trans = false, approx = false, expectTx = false, noinc = false,
       guardNot = false, propagate = false, readOnly = false, mbarrier = false, right = false;
  char round = 'n';          ///< n, z, m, p, and i-forms of cvt alike
  std::string mode;          ///< comparison, atomic operation, shuffle mode, vote mode, prmt mode
  std::string boolean;       ///< and, or, xor of setp
  int guard = -1;
  std::uint32_t target = 0;
  std::vector<std::uint32_t> targets;
  int m = 0, n = 0, k = 0;
  Type a = Type::none;       ///< element type of matrix operands
  std::vector<std::vector<Operand>> args;
  std::uint32_t line = 0;
  std::string text;
};

class Kernel {
public:
  std::string name;
  std::vector<Param> params;
  std::uint32_t paramBytes = 0, maxThreads = 0, sharedBytes = 0, localBytes = 0;
  int registers = 0;
  std::vector<Instruction> code;
  std::vector<unsigned char> constants; ///< .global and .const variables of the module
  Statistics run(const Launch &launch, const Options &options) const;
};

/// Shared addresses below are never valid; dynamic shared memory follows static variables.
constexpr std::uint32_t sharedBase = 1024;
constexpr std::uint64_t sharedWindow = 0x7e00'0000'0000'0000, localWindow = 0x7e01'0000'0000'0000,
                        constantWindow = 0x7e02'0000'0000'0000;

std::vector<std::unique_ptr<Kernel>> parseModule(const std::string &ptx);

} // namespace k3::ptxsim
