//===- PtxMachine.cpp - run PTX on the CPU, one thread after the other ----===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Codegen/PtxMachine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <set>

using namespace k3::test;

namespace {

using Bits = std::uint64_t;

[[noreturn]] void fail(const std::string &message) { throw PtxError(message); }

template <typename To, typename From> To castBits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

float asF32(Bits bits) { return castBits<float>(static_cast<std::uint32_t>(bits)); }
Bits ofF32(float value) { return castBits<std::uint32_t>(value); }
double asF64(Bits bits) { return castBits<double>(bits); }
Bits ofF64(double value) { return castBits<std::uint64_t>(value); }
float asBf16(Bits bits) { return castBits<float>(static_cast<std::uint32_t>(bits << 16)); }
Bits ofBf16(float value) {
  auto bits = castBits<std::uint32_t>(value);
  return std::isnan(value) ? 0x7fff : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

/// Base and width of a type suffix.
struct Type {
  enum Base { None, B, U, S, F, BF, BF2, Pred } base = None;
  int bits = 0;
  bool isFloat() const { return base == F || base == BF || base == BF2; }
};

Type parseType(const std::string &text) {
  static const std::map<std::string, Type> types = {
      {"b8", {Type::B, 8}},   {"b16", {Type::B, 16}}, {"b32", {Type::B, 32}}, {"b64", {Type::B, 64}},
      {"u8", {Type::U, 8}},   {"u16", {Type::U, 16}}, {"u32", {Type::U, 32}}, {"u64", {Type::U, 64}},
      {"s8", {Type::S, 8}},   {"s16", {Type::S, 16}}, {"s32", {Type::S, 32}}, {"s64", {Type::S, 64}},
      {"f32", {Type::F, 32}}, {"f64", {Type::F, 64}}, {"bf16", {Type::BF, 16}}, {"bf16x2", {Type::BF2, 32}},
      {"pred", {Type::Pred, 1}}};
  auto it = types.find(text);
  return it == types.end() ? Type() : it->second;
}

enum class Space { Generic, Global, Shared, Param };

struct Operand {
  enum Kind { Register, Immediate, Special, Vector, Address } kind = Immediate;
  std::uint32_t reg = 0;   // Register; Address with base register
  Bits value = 0;          // Immediate; offset of an Address
  bool hasBase = false;    // Address
  bool negated = false;    // predicate operand !%p
  std::vector<Operand> parts;
};

enum class Special { TidX, TidY, TidZ, NtidX, NtidY, NtidZ, CtaX, CtaY, CtaZ, NctaX, NctaY, NctaZ, Lane, Warp };

struct Instruction;
struct Thread;
struct Block;

using Execute = void (*)(Block &, Thread &, const Instruction &);
using Collective = void (*)(Block &, const std::vector<Thread *> &, const Instruction &);

struct Instruction {
  std::string text; // for messages
  int line = 0;
  std::vector<std::string> words; // of the opcode
  std::vector<Operand> operands;
  int predicate = -1;
  bool predicateNegated = false;
  Type type, source;
  std::uint32_t target = 0;
  Space space = Space::Generic;
  int vector = 1;
  bool nonCoherent = false, ftz = false, sat = false, wide = false, high = false;
  int code = 0; // what `execute` wants to know
  Execute execute = nullptr;
  Collective collective = nullptr;
  enum Flow { Next, Branch, Exit, Barrier } flow = Next;

  bool has(const char *word) const { return std::find(words.begin(), words.end(), word) != words.end(); }
};

struct Parameter {
  std::string name;
  std::size_t offset, size;
};

struct Kernel {
  std::string name;
  std::vector<Parameter> params;
  std::size_t paramBytes = 0;
  std::vector<Instruction> code;
  std::uint32_t registers = 0;
};

} // namespace

struct k3::test::PtxProgram {
  std::map<std::string, Kernel> kernels;
  /// Offset of every shared variable; the dynamic ones (without a size) come last, at `sharedStatic`.
  std::map<std::string, std::uint64_t> shared;
  std::uint64_t sharedStatic = 0;
  /// Initialised variables in global or constant memory.
  std::map<std::string, std::unique_ptr<std::vector<std::uint8_t>>> globals;
};

namespace {

/// Where generic pointers to shared memory live.
constexpr Bits sharedWindow = Bits(1) << 62;

//===----------------------------------------------------------------------===//
// State of a block
//===----------------------------------------------------------------------===//

struct AsyncCopy {
  std::uint64_t to, from;
  std::size_t size, read;
};

struct Thread {
  std::uint32_t id, lane, warp;
  std::uint32_t tid[3];
  std::vector<Bits> regs;
  std::uint32_t pc = 0;
  enum { Running, AtBarrier, AtCollective, Done } state = Running;
  std::uint64_t warpEpoch = 0; // of this thread: collectives it took part in
  std::vector<AsyncCopy> open;
  std::vector<std::vector<AsyncCopy>> groups;
};

/// What is known about one byte of shared memory.
struct Shadow {
  std::int32_t writer = -1, reader = -1; // thread; reader -2 = several
  std::uint64_t writeBlock = 0, writeWarp = 0, readBlock = 0, readWarp = 0;
};

struct Block {
  const PtxMachine::Launch *launch;
  const std::vector<PtxMachine::Region> *regions;
  const Kernel *kernel;
  const std::vector<std::uint8_t> *params;
  std::uint32_t cta[3];
  std::vector<Thread> threads;
  std::vector<std::uint8_t> shared;
  std::vector<Shadow> shadow;
  std::uint64_t epoch = 1;

  //===--- operands ---===//

  Bits read(const Thread &t, const Operand &operand) const {
    switch (operand.kind) {
    case Operand::Register:
      return operand.negated ? !t.regs[operand.reg] : t.regs[operand.reg];
    case Operand::Immediate:
      return operand.value;
    case Operand::Special:
      return readSpecial(t, static_cast<Special>(operand.value));
    default:
      fail("not a value");
    }
  }
  Bits readSpecial(const Thread &t, Special special) const {
    switch (special) {
    case Special::TidX: return t.tid[0];
    case Special::TidY: return t.tid[1];
    case Special::TidZ: return t.tid[2];
    case Special::NtidX: return launch->threads;
    case Special::NtidY:
    case Special::NtidZ: return 1;
    case Special::CtaX: return cta[0];
    case Special::CtaY: return cta[1];
    case Special::CtaZ: return cta[2];
    case Special::NctaX: return launch->grid[0];
    case Special::NctaY: return launch->grid[1];
    case Special::NctaZ: return launch->grid[2];
    case Special::Lane: return t.lane;
    case Special::Warp: return t.warp;
    }
    return 0;
  }
  void write(Thread &t, const Operand &operand, Bits value, int bits) const {
    if (operand.kind != Operand::Register)
      return; // the sink "_"
    t.regs[operand.reg] = bits >= 64 ? value : value & ((Bits(1) << bits) - 1);
  }
  std::uint64_t address(const Thread &t, const Operand &operand) const {
    return (operand.hasBase ? t.regs[operand.reg] : 0) + operand.value;
  }

  //===--- memory ---===//

  /// Host address of `size` bytes of global memory.
  std::uint8_t *global(std::uint64_t at, std::size_t size, bool writes, bool nonCoherent) const {
    auto it = std::upper_bound(regions->begin(), regions->end(), at,
                               [](std::uint64_t value, const PtxMachine::Region &region) { return value < region.begin; });
    if (it == regions->begin() || at + size > (--it)->end)
      fail((writes ? "writes " : "reads ") + std::to_string(size) + " bytes of global memory outside every buffer" +
           (it != regions->end() && at >= it->begin
                ? ", " + std::to_string(at - it->begin) + " bytes into one of " + std::to_string(it->end - it->begin)
                : ""));
    if (writes && !it->writable)
      fail("writes to an input");
    if (nonCoherent && it->writable)
      fail("reads memory that the kernel may write through the non-coherent path");
    return reinterpret_cast<std::uint8_t *>(at);
  }

  /// Whether an access of thread `by` in the given epochs comes before one of `t` now.
  bool ordered(const Thread &t, std::int32_t by, std::uint64_t block, std::uint64_t warp) const {
    if (block < epoch || by == static_cast<std::int32_t>(t.id))
      return true;
    return by >= 0 && threads[by].warp == t.warp && warp < t.warpEpoch;
  }

  std::uint8_t *sharedBytes(const Thread &t, std::uint64_t at, std::size_t size, bool writes) {
    if (at + size > shared.size())
      fail("accesses shared memory at " + std::to_string(at) + " of " + std::to_string(shared.size()));
    for (std::uint64_t i = at; i < at + size; ++i) {
      Shadow &s = shadow[i];
      if (s.writer >= 0 && !ordered(t, s.writer, s.writeBlock, s.writeWarp))
        fail("race in shared memory at " + std::to_string(i) + ": thread " + std::to_string(t.id) +
             (writes ? " writes" : " reads") + " what thread " + std::to_string(s.writer) + " has written");
      if (writes) {
        if (s.reader != -1 && !ordered(t, s.reader, s.readBlock, s.readWarp))
          fail("race in shared memory at " + std::to_string(i) + ": thread " + std::to_string(t.id) +
               " writes what thread " + std::to_string(s.reader) + " has read");
        s.writer = static_cast<std::int32_t>(t.id);
        s.writeBlock = epoch;
        s.writeWarp = t.warpEpoch;
      } else {
        if (s.writer < 0)
          fail("reads shared memory at " + std::to_string(i) + " that was never written");
        bool same = s.reader == static_cast<std::int32_t>(t.id);
        bool isOld = s.reader == -1 || ordered(t, s.reader, s.readBlock, s.readWarp);
        if (same || isOld)
          s.reader = static_cast<std::int32_t>(t.id);
        else if (s.reader != -2 && threads[s.reader].warp != t.warp)
          s.reader = -2;
        s.readBlock = epoch;
        s.readWarp = std::max(isOld ? 0 : s.readWarp, t.warpEpoch);
      }
    }
    return shared.data() + at;
  }

  std::uint8_t *access(Thread &t, Space space, std::uint64_t at, std::size_t size, bool writes, bool nonCoherent) {
    if (at % size != 0)
      fail("misaligned access of " + std::to_string(size) + " bytes");
    if (space == Space::Generic)
      space = at >= sharedWindow && at < sharedWindow + (Bits(1) << 32) ? Space::Shared : Space::Global;
    if (space == Space::Shared)
      return sharedBytes(t, at >= sharedWindow ? at - sharedWindow : at, size, writes);
    return global(at, size, writes, nonCoherent);
  }

  /// `arrived` barrier or collective: threads go on, what they did before is ordered.
  void runThread(Thread &t);
  bool releaseCollectives(std::uint32_t warp);
  void run(std::mt19937 &random);
};

//===----------------------------------------------------------------------===//
// What instructions do
//===----------------------------------------------------------------------===//

std::int64_t signExtend(Bits value, int bits) {
  return bits >= 64 ? static_cast<std::int64_t>(value) : static_cast<std::int64_t>(value << (64 - bits)) >> (64 - bits);
}
Bits zeroExtend(Bits value, int bits) { return bits >= 64 ? value : value & ((Bits(1) << bits) - 1); }

float flush(float value, bool ftz) {
  return ftz && std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}

enum BinaryCode { Add, Sub, Mul, Div, Rem, Min, Max, And, Or, Xor, Shl, Shr, CopySign };
enum UnaryCode { Neg, Abs, Not, Popc, Clz, Brev, Ex2, Lg2, Rcp, Rsqrt, Sqrt, Tanh, Sin, Cos };

template <typename F> F floatBinary(int code, F x, F y, bool nanWins) {
  switch (code) {
  case Add: return x + y;
  case Sub: return x - y;
  case Mul: return x * y;
  case Div: return x / y;
  case Min:
  case Max:
    if (std::isnan(x) || std::isnan(y))
      return nanWins || (std::isnan(x) && std::isnan(y)) ? std::numeric_limits<F>::quiet_NaN() : std::isnan(x) ? y : x;
    if (x == y)
      return (code == Min) == std::signbit(x) ? x : y;
    return (code == Min) == (x < y) ? x : y;
  case CopySign: return std::copysign(y, x);
  }
  fail("no such operation on floats");
}

Bits intBinary(const Instruction &in, Bits x, Bits y) {
  int bits = in.type.bits;
  bool isSigned = in.type.base == Type::S;
  std::int64_t sx = signExtend(x, bits), sy = signExtend(y, bits);
  Bits ux = zeroExtend(x, bits), uy = zeroExtend(y, bits);
  switch (in.code) {
  case Add: return x + y;
  case Sub: return x - y;
  case Mul:
    if (in.wide)
      return isSigned ? static_cast<Bits>(sx * sy) : ux * uy;
    if (in.high) {
      if (isSigned)
        return static_cast<Bits>((static_cast<__int128>(sx) * sy) >> bits);
      return static_cast<Bits>((static_cast<unsigned __int128>(ux) * uy) >> bits);
    }
    return x * y;
  case Div:
  case Rem:
    if (uy == 0)
      fail("divides by zero");
    if (isSigned)
      return static_cast<Bits>(sy == -1 ? (in.code == Div ? -sx : 0) : in.code == Div ? sx / sy : sx % sy);
    return in.code == Div ? ux / uy : ux % uy;
  case Min: return isSigned ? static_cast<Bits>(std::min(sx, sy)) : std::min(ux, uy);
  case Max: return isSigned ? static_cast<Bits>(std::max(sx, sy)) : std::max(ux, uy);
  case And: return x & y;
  case Or: return x | y;
  case Xor: return x ^ y;
  case Shl: {
    Bits by = zeroExtend(y, 32);
    return by >= static_cast<Bits>(bits) ? 0 : x << by;
  }
  case Shr: {
    Bits by = std::min<Bits>(zeroExtend(y, 32), bits);
    if (isSigned)
      return static_cast<Bits>(sx >> std::min<Bits>(by, 63));
    return by >= 64 ? 0 : ux >> by;
  }
  }
  fail("no such operation on integers");
}

/// Applies `f` to both halves of packed bf16 values.
template <typename F> Bits onHalves(F f, Bits x, Bits y = 0, Bits z = 0) {
  Bits low = ofBf16(f(asBf16(x & 0xffff), asBf16(y & 0xffff), asBf16(z & 0xffff)));
  Bits high = ofBf16(f(asBf16((x >> 16) & 0xffff), asBf16((y >> 16) & 0xffff), asBf16((z >> 16) & 0xffff)));
  return low | high << 16;
}

void binary(Block &b, Thread &t, const Instruction &in) {
  Bits x = b.read(t, in.operands[1]), y = b.read(t, in.operands[2]), result;
  bool nanWins = in.has("NaN");
  switch (in.type.base) {
  case Type::F:
    if (in.type.bits == 64) {
      result = ofF64(floatBinary(in.code, asF64(x), asF64(y), nanWins));
    } else {
      float value = floatBinary(in.code, flush(asF32(x), in.ftz), flush(asF32(y), in.ftz), nanWins);
      value = flush(value, in.ftz);
      result = ofF32(in.sat ? std::fmin(std::fmax(value, 0.0f), 1.0f) : value);
    }
    break;
  case Type::BF:
    result = ofBf16(floatBinary(in.code, asBf16(x), asBf16(y), nanWins));
    break;
  case Type::BF2:
    result = onHalves([&](float p, float q, float) { return floatBinary(in.code, p, q, nanWins); }, x, y);
    break;
  default:
    result = intBinary(in, x, y);
  }
  b.write(t, in.operands[0], result, in.wide ? 2 * in.type.bits : in.type.bits);
}

float unaryF32(int code, float x) {
  switch (code) {
  case Neg: return -x;
  case Abs: return std::fabs(x);
  case Ex2: return static_cast<float>(std::exp2(static_cast<double>(x)));
  case Lg2: return static_cast<float>(std::log2(static_cast<double>(x)));
  case Rcp: return 1.0f / x;
  case Rsqrt: return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x)));
  case Sqrt: return std::sqrt(x);
  // The instruction's error of about 2^-11 is part of what it is.
  case Tanh: return static_cast<float>(std::tanh(static_cast<double>(x)) * (1 + 4e-4));
  case Sin: return std::sin(x);
  case Cos: return std::cos(x);
  }
  fail("no such function");
}

void unary(Block &b, Thread &t, const Instruction &in) {
  Bits x = b.read(t, in.operands[1]), result = 0;
  int bits = in.type.bits;
  if (in.type.base == Type::F && bits == 32) {
    result = ofF32(flush(unaryF32(in.code, flush(asF32(x), in.ftz)), in.ftz));
  } else if (in.type.base == Type::F) {
    double value = asF64(x);
    result = ofF64(in.code == Neg ? -value : in.code == Abs ? std::fabs(value) : in.code == Sqrt ? std::sqrt(value) : 1 / value);
  } else if (in.type.isFloat()) {
    auto f = [&](float p, float, float) { return unaryF32(in.code, p); };
    result = in.type.base == Type::BF2 ? onHalves(f, x) : ofBf16(f(asBf16(x), 0, 0));
  } else {
    switch (in.code) {
    case Neg: result = -x; break;
    case Abs: result = static_cast<Bits>(std::abs(signExtend(x, bits))); break;
    case Not: result = in.type.base == Type::Pred ? !x : ~x; break;
    case Popc: result = __builtin_popcountll(zeroExtend(x, bits)); bits = 32; break;
    case Clz: result = zeroExtend(x, bits) ? __builtin_clzll(zeroExtend(x, bits)) - (64 - bits) : bits; bits = 32; break;
    case Brev:
      for (int i = 0; i < bits; ++i)
        result |= ((x >> i) & 1) << (bits - 1 - i);
      break;
    default: fail("no such operation");
    }
  }
  b.write(t, in.operands[0], result, bits);
}

void fusedMultiplyAdd(Block &b, Thread &t, const Instruction &in) {
  Bits x = b.read(t, in.operands[1]), y = b.read(t, in.operands[2]), z = b.read(t, in.operands[3]), result;
  if (in.type.base == Type::F && in.type.bits == 32)
    result = ofF32(flush(std::fma(flush(asF32(x), in.ftz), flush(asF32(y), in.ftz), flush(asF32(z), in.ftz)), in.ftz));
  else if (in.type.base == Type::F)
    result = ofF64(std::fma(asF64(x), asF64(y), asF64(z)));
  else if (in.type.base == Type::BF2)
    result = onHalves([](float p, float q, float r) { return std::fma(p, q, r); }, x, y, z);
  else if (in.type.base == Type::BF)
    result = ofBf16(std::fma(asBf16(x), asBf16(y), asBf16(z)));
  else
    result = intBinary(in, x, y) + z;
  b.write(t, in.operands[0], result, in.wide ? 2 * in.type.bits : in.type.bits);
}

enum Comparison { Eq, Ne, Lt, Le, Gt, Ge, Num, Nan };

template <typename V> bool compare(int code, V x, V y) {
  switch (code) {
  case Eq: return x == y;
  case Ne: return x != y;
  case Lt: return x < y;
  case Le: return x <= y;
  case Gt: return x > y;
  case Ge: return x >= y;
  }
  fail("no such comparison");
}

constexpr int unorderedFlag = 16;

void setPredicate(Block &b, Thread &t, const Instruction &in) {
  Bits x = b.read(t, in.operands[1]), y = b.read(t, in.operands[2]);
  bool result;
  int code = in.code & ~unorderedFlag, bits = in.type.bits;
  if (in.type.isFloat()) {
    double p = in.type.base == Type::BF ? asBf16(x) : bits == 64 ? asF64(x) : flush(asF32(x), in.ftz);
    double q = in.type.base == Type::BF ? asBf16(y) : bits == 64 ? asF64(y) : flush(asF32(y), in.ftz);
    bool isNan = std::isnan(p) || std::isnan(q);
    if (code == Num || code == Nan)
      result = isNan == (code == Nan);
    else
      result = isNan ? (in.code & unorderedFlag) != 0 : compare(code, p, q);
  } else if (in.type.base == Type::S) {
    result = compare(code, signExtend(x, bits), signExtend(y, bits));
  } else {
    result = compare(code, zeroExtend(x, bits), zeroExtend(y, bits));
  }
  if (in.operands.size() > 3) { // combined with another predicate
    bool other = b.read(t, in.operands[3]);
    result = in.has("and") ? result && other : in.has("or") ? result || other : result != other;
  }
  b.write(t, in.operands[0], result, 1);
}

void selectValue(Block &b, Thread &t, const Instruction &in) {
  b.write(t, in.operands[0], b.read(t, in.operands[b.read(t, in.operands[3]) ? 1 : 2]), in.type.bits);
}

void move(Block &b, Thread &t, const Instruction &in) {
  const Operand &to = in.operands[0], &from = in.operands[1];
  if (to.kind == Operand::Vector) { // unpack
    int bits = in.type.bits / static_cast<int>(to.parts.size());
    Bits value = b.read(t, from);
    for (std::size_t i = 0; i < to.parts.size(); ++i)
      b.write(t, to.parts[i], value >> (bits * i), bits);
  } else if (from.kind == Operand::Vector) { // pack
    int bits = in.type.bits / static_cast<int>(from.parts.size());
    Bits value = 0;
    for (std::size_t i = 0; i < from.parts.size(); ++i)
      value |= zeroExtend(b.read(t, from.parts[i]), bits) << (bits * i);
    b.write(t, to, value, in.type.bits);
  } else {
    b.write(t, to, b.read(t, from), in.type.bits);
  }
}

double roundTo(const Instruction &in, double x) {
  if (in.has("rni") || in.has("rn"))
    return std::nearbyint(x);
  if (in.has("rmi"))
    return std::floor(x);
  if (in.has("rpi"))
    return std::ceil(x);
  return std::trunc(x);
}

void convert(Block &b, Thread &t, const Instruction &in) {
  Bits x = b.read(t, in.operands[1]), result;
  Type to = in.type, from = in.source;
  if (to.base == Type::BF2) { // two operands, the first goes to the upper half
    result = ofBf16(asF32(x)) << 16 | ofBf16(asF32(b.read(t, in.operands[2])));
  } else if (from.isFloat()) {
    double value = from.base == Type::BF ? asBf16(x) : from.bits == 64 ? asF64(x) : flush(asF32(x), in.ftz);
    if (to.base == Type::BF) {
      result = ofBf16(static_cast<float>(value));
    } else if (to.base == Type::F) {
      if (in.has("rni") || in.has("rzi") || in.has("rmi") || in.has("rpi"))
        value = roundTo(in, value);
      if (in.sat)
        value = std::fmin(std::fmax(value, 0.0), 1.0);
      result = to.bits == 64 ? ofF64(value) : ofF32(static_cast<float>(value));
    } else {
      value = std::isnan(value) ? 0 : roundTo(in, value);
      if (to.base == Type::S) {
        double limit = std::ldexp(1.0, to.bits - 1);
        result = value >= limit ? (Bits(1) << (to.bits - 1)) - 1
                                : static_cast<Bits>(static_cast<std::int64_t>(std::max(value, -limit)));
      } else {
        double limit = std::ldexp(1.0, to.bits);
        result = value >= limit ? ~Bits(0) : static_cast<Bits>(std::max(value, 0.0));
      }
    }
  } else {
    std::int64_t wide = from.base == Type::S ? signExtend(x, from.bits) : static_cast<std::int64_t>(zeroExtend(x, from.bits));
    if (to.isFloat()) {
      bool isUnsigned = from.base != Type::S;
      if (to.bits == 64)
        result = ofF64(isUnsigned ? static_cast<double>(static_cast<Bits>(wide)) : static_cast<double>(wide));
      else
        result = ofF32(isUnsigned ? static_cast<float>(static_cast<Bits>(wide)) : static_cast<float>(wide));
      if (to.base == Type::BF)
        result = ofBf16(asF32(result));
    } else {
      result = static_cast<Bits>(wide);
      if (in.sat)
        fail("saturating integer conversions are not known");
      // A narrow signed result fills its register with its sign.
      if (to.base == Type::S)
        result = static_cast<Bits>(signExtend(result, to.bits));
    }
  }
  int width = to.bits;
  if (in.operands[0].kind == Operand::Register && to.base == Type::S && to.bits < 32)
    width = 32;
  b.write(t, in.operands[0], result, width);
}

void convertAddress(Block &b, Thread &t, const Instruction &in) {
  Bits value = b.read(t, in.operands[1]);
  if (in.space == Space::Shared)
    value = in.has("to") ? value - sharedWindow : value + sharedWindow;
  b.write(t, in.operands[0], value, 64);
}

void load(Block &b, Thread &t, const Instruction &in) {
  const Operand &to = in.operands[0];
  std::size_t size = in.type.bits / 8, count = in.vector;
  std::uint64_t at = b.address(t, in.operands[1]);
  const std::uint8_t *from;
  if (in.space == Space::Param) {
    if (at + size * count > b.params->size())
      fail("reads past the parameters");
    from = b.params->data() + at;
  } else {
    from = b.access(t, in.space, at, size * count, /*writes=*/false, in.nonCoherent);
  }
  for (std::size_t i = 0; i < count; ++i) {
    Bits value = 0;
    std::memcpy(&value, from + i * size, size);
    if (in.type.base == Type::S)
      value = static_cast<Bits>(signExtend(value, in.type.bits));
    b.write(t, to.kind == Operand::Vector ? to.parts[i] : to, value, std::max(in.type.bits, in.type.base == Type::S ? 64 : 0));
  }
}

void store(Block &b, Thread &t, const Instruction &in) {
  const Operand &from = in.operands[1];
  std::size_t size = in.type.bits / 8, count = in.vector;
  std::uint8_t *to = b.access(t, in.space, b.address(t, in.operands[0]), size * count, /*writes=*/true, false);
  for (std::size_t i = 0; i < count; ++i) {
    Bits value = b.read(t, from.kind == Operand::Vector ? from.parts[i] : from);
    std::memcpy(to + i * size, &value, size);
  }
}

void atomic(Block &b, Thread &t, const Instruction &in) {
  bool returns = in.words[0] == "atom";
  const Operand &where = in.operands[returns ? 1 : 0], &argument = in.operands[returns ? 2 : 1];
  std::size_t size = in.type.bits / 8;
  std::uint64_t at = b.address(t, where);
  bool isShared = in.space == Space::Shared || at >= sharedWindow;
  // Atomic accesses do not race with each other.
  std::uint8_t *p;
  if (isShared) {
    std::uint64_t offset = at >= sharedWindow ? at - sharedWindow : at;
    if (offset + size > b.shared.size() || b.shadow[offset].writer < 0)
      fail("atomic access to shared memory that was never written");
    p = b.shared.data() + offset;
    for (std::size_t i = 0; i < size; ++i) {
      b.shadow[offset + i].writer = static_cast<std::int32_t>(t.id);
      b.shadow[offset + i].writeBlock = b.epoch;
      b.shadow[offset + i].writeWarp = t.warpEpoch;
    }
  } else {
    p = b.global(at, size, true, false);
  }
  Bits old = 0;
  std::memcpy(&old, p, size);
  Bits value = b.read(t, argument), next;
  if (in.has("cas")) {
    next = zeroExtend(old, in.type.bits) == zeroExtend(value, in.type.bits) ? b.read(t, in.operands[returns ? 3 : 2]) : old;
  } else if (in.has("exch")) {
    next = value;
  } else if (in.type.base == Type::F) {
    next = ofF32(asF32(old) + asF32(value));
  } else {
    Instruction op = in;
    op.code = in.has("add") ? Add : in.has("min") ? Min : in.has("max") ? Max : in.has("and") ? And : in.has("or") ? Or : Xor;
    next = intBinary(op, old, value);
  }
  std::memcpy(p, &next, size);
  if (returns)
    b.write(t, in.operands[0], old, in.type.bits);
}

void permuteBytes(Block &b, Thread &t, const Instruction &in) {
  Bits all = zeroExtend(b.read(t, in.operands[1]), 32) | b.read(t, in.operands[2]) << 32;
  Bits selector = b.read(t, in.operands[3]), result = 0;
  for (int i = 0; i < 4; ++i) {
    Bits pick = selector >> (4 * i);
    Bits byte = (all >> (8 * (pick & 7))) & 0xff;
    if (pick & 8)
      byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  b.write(t, in.operands[0], result, 32);
}

void extractField(Block &b, Thread &t, const Instruction &in) {
  Bits x = b.read(t, in.operands[1]), from = b.read(t, in.operands[2]) & 0xff, length = b.read(t, in.operands[3]) & 0xff;
  Bits width = in.type.bits;
  Bits result = 0;
  if (length > 0) {
    Bits top = std::min(from + length - 1, width - 1);
    bool sign = in.type.base == Type::S && (x >> top) & 1;
    for (Bits i = 0; i < width; ++i) {
      bool inside = i < length && from + i < width;
      result |= Bits(inside ? (x >> (from + i)) & 1 : sign) << i;
    }
  }
  b.write(t, in.operands[0], result, in.type.bits);
}

void insertField(Block &b, Thread &t, const Instruction &in) {
  Bits field = b.read(t, in.operands[1]), result = b.read(t, in.operands[2]);
  Bits from = b.read(t, in.operands[3]) & 0xff, length = b.read(t, in.operands[4]) & 0xff;
  for (Bits i = 0; i < length && from + i < static_cast<Bits>(in.type.bits); ++i)
    result = (result & ~(Bits(1) << (from + i))) | ((field >> i) & 1) << (from + i);
  b.write(t, in.operands[0], result, in.type.bits);
}

void logic3(Block &b, Thread &t, const Instruction &in) {
  Bits x = b.read(t, in.operands[1]), y = b.read(t, in.operands[2]), z = b.read(t, in.operands[3]);
  Bits table = b.read(t, in.operands[4]), result = 0;
  for (int i = 0; i < 32; ++i) {
    Bits row = ((x >> i) & 1) << 2 | ((y >> i) & 1) << 1 | ((z >> i) & 1);
    result |= ((table >> row) & 1) << i;
  }
  b.write(t, in.operands[0], result, 32);
}

void funnelShift(Block &b, Thread &t, const Instruction &in) {
  Bits both = zeroExtend(b.read(t, in.operands[1]), 32) | b.read(t, in.operands[2]) << 32;
  Bits by = zeroExtend(b.read(t, in.operands[3]), 32);
  by = in.has("wrap") ? by & 31 : std::min<Bits>(by, 32);
  b.write(t, in.operands[0], in.has("l") ? (by ? both >> (32 - by) : both >> 32) : both >> by, 32);
}

void nothing(Block &, Thread &, const Instruction &) {}

void trap(Block &, Thread &, const Instruction &) { fail("traps"); }

//===--- asynchronous copies: done at the latest moment that is allowed ---===//

void copyAsync(Block &b, Thread &t, const Instruction &in) {
  std::uint64_t size = b.read(t, in.operands[2]);
  std::uint64_t read = in.operands.size() > 3 ? b.read(t, in.operands[3]) : size;
  t.open.push_back({b.address(t, in.operands[0]), b.address(t, in.operands[1]), size, read});
}

void commitCopies(Block &, Thread &t, const Instruction &) {
  t.groups.push_back(std::move(t.open));
  t.open.clear();
}

void waitCopies(Block &b, Thread &t, const Instruction &in) {
  if (in.has("wait_all")) {
    t.groups.push_back(std::move(t.open));
    t.open.clear();
  }
  std::size_t keep = in.operands.empty() ? 0 : b.read(t, in.operands[0]);
  while (t.groups.size() > keep) {
    for (const AsyncCopy &copy : t.groups.front()) {
      std::uint8_t *to = b.access(t, Space::Shared, copy.to, copy.size, true, false);
      std::memset(to, 0, copy.size);
      if (copy.read > 0) {
        if (copy.from % copy.size != 0)
          fail("misaligned source of an asynchronous copy");
        std::memcpy(to, b.global(copy.from, copy.read, false, false), copy.read);
      }
    }
    t.groups.erase(t.groups.begin());
  }
}

//===--- collectives ---===//

Thread *laneOf(const std::vector<Thread *> &threads, std::uint32_t lane) {
  for (Thread *t : threads)
    if (t->lane == lane)
      return t;
  return nullptr;
}

void shuffle(Block &b, const std::vector<Thread *> &threads, const Instruction &in) {
  bool hasPredicate = in.operands[0].kind == Operand::Vector;
  const Operand &to = hasPredicate ? in.operands[0].parts[0] : in.operands[0];
  std::vector<std::pair<Bits, bool>> results;
  for (Thread *t : threads) {
    std::uint32_t by = b.read(*t, in.operands[2]), clamp = b.read(*t, in.operands[3]);
    std::uint32_t segment = (clamp >> 8) & 31, bound = clamp & 31;
    std::uint32_t low = t->lane & segment, high = low | (bound & ~segment);
    std::uint32_t from = 0;
    bool valid = false;
    if (in.has("up")) {
      from = t->lane - by;
      valid = static_cast<std::int32_t>(from) >= static_cast<std::int32_t>(high);
    } else if (in.has("down")) {
      from = t->lane + by;
      valid = from <= high;
    } else if (in.has("bfly")) {
      from = t->lane ^ by;
      valid = from <= high;
    } else {
      from = low | (by & ~segment);
      valid = from <= high;
    }
    if (!valid)
      from = t->lane;
    Thread *source = laneOf(threads, from);
    if (!source)
      fail("shuffle from lane " + std::to_string(from) + ", which does not take part");
    results.push_back({b.read(*source, in.operands[1]), valid});
  }
  for (std::size_t i = 0; i < threads.size(); ++i) {
    b.write(*threads[i], to, results[i].first, 32);
    if (hasPredicate)
      b.write(*threads[i], in.operands[0].parts[1], results[i].second, 1);
  }
}

void vote(Block &b, const std::vector<Thread *> &threads, const Instruction &in) {
  Bits ballot = 0;
  for (Thread *t : threads)
    ballot |= Bits(b.read(*t, in.operands[1]) != 0) << t->lane;
  std::size_t votes = __builtin_popcountll(ballot);
  for (Thread *t : threads) {
    if (in.has("ballot"))
      b.write(*t, in.operands[0], ballot, 32);
    else
      b.write(*t, in.operands[0], in.has("any") ? votes > 0 : in.has("all") ? votes == threads.size() : votes == 0 || votes == threads.size(), 1);
  }
}

void reduce(Block &b, const std::vector<Thread *> &threads, const Instruction &in) {
  Bits sum = b.read(*threads[0], in.operands[1]);
  for (std::size_t i = 1; i < threads.size(); ++i)
    sum = intBinary(in, sum, b.read(*threads[i], in.operands[1]));
  for (Thread *t : threads)
    b.write(*t, in.operands[0], sum, 32);
}

void warpBarrier(Block &, const std::vector<Thread *> &, const Instruction &) {}

void elect(Block &b, const std::vector<Thread *> &threads, const Instruction &in) {
  for (Thread *t : threads) {
    const Operand &to = in.operands[0];
    b.write(*t, to.kind == Operand::Vector ? to.parts[0] : to, threads[0]->lane, 32);
    if (to.kind == Operand::Vector)
      b.write(*t, to.parts[1], t == threads[0], 1);
  }
}

/// d, a, b, c of mma.sync.m16n8k16 with bf16 inputs.
void multiplyMatrices(Block &b, const std::vector<Thread *> &threads, const Instruction &in) {
  if (threads.size() != 32)
    fail("a matrix instruction needs the whole warp");
  float a[16][16], bb[16][8], c[16][8];
  for (Thread *t : threads) {
    int group = t->lane / 4, quad = t->lane % 4;
    for (int i = 0; i < 4; ++i) {
      Bits pair = b.read(*t, in.operands[1].parts[i]);
      int row = group + (i & 1) * 8, column = quad * 2 + (i >> 1) * 8;
      a[row][column] = asBf16(pair & 0xffff), a[row][column + 1] = asBf16((pair >> 16) & 0xffff);
    }
    for (int i = 0; i < 2; ++i) {
      Bits pair = b.read(*t, in.operands[2].parts[i]);
      bb[quad * 2 + i * 8][group] = asBf16(pair & 0xffff), bb[quad * 2 + i * 8 + 1][group] = asBf16((pair >> 16) & 0xffff);
    }
    for (int i = 0; i < 4; ++i)
      c[group + (i >> 1) * 8][quad * 2 + (i & 1)] = asF32(b.read(*t, in.operands[3].parts[i]));
  }
  for (Thread *t : threads)
    for (int i = 0; i < 4; ++i) {
      int row = t->lane / 4 + (i >> 1) * 8, column = t->lane % 4 * 2 + (i & 1);
      double sum = c[row][column];
      for (int k = 0; k < 16; ++k)
        sum += static_cast<double>(a[row][k]) * bb[k][column];
      b.write(*t, in.operands[0].parts[i], ofF32(static_cast<float>(sum)), 32);
    }
}

void loadMatrices(Block &b, const std::vector<Thread *> &threads, const Instruction &in) {
  int count = in.has("x4") ? 4 : in.has("x2") ? 2 : 1;
  bool transposed = in.has("trans");
  const Operand &to = in.operands[0];
  for (int m = 0; m < count; ++m) {
    std::uint16_t matrix[8][8];
    for (int row = 0; row < 8; ++row) {
      Thread *t = threads.at(m * 8 + row);
      std::uint64_t at = b.address(*t, in.operands[1]);
      std::memcpy(matrix[row], b.access(*t, Space::Shared, at, 16, false, false), 16);
    }
    for (Thread *t : threads) {
      int row = t->lane / 4, column = t->lane % 4 * 2;
      Bits low = transposed ? matrix[column][row] : matrix[row][column];
      Bits high = transposed ? matrix[column + 1][row] : matrix[row][column + 1];
      b.write(*t, to.kind == Operand::Vector ? to.parts[m] : to, low | high << 16, 32);
    }
  }
}

void storeMatrices(Block &b, const std::vector<Thread *> &threads, const Instruction &in) {
  int count = in.has("x4") ? 4 : in.has("x2") ? 2 : 1;
  bool transposed = in.has("trans");
  const Operand &from = in.operands[1];
  for (int m = 0; m < count; ++m) {
    std::uint16_t matrix[8][8];
    for (Thread *t : threads) {
      Bits pair = b.read(*t, from.kind == Operand::Vector ? from.parts[m] : from);
      int row = t->lane / 4, column = t->lane % 4 * 2;
      (transposed ? matrix[column][row] : matrix[row][column]) = static_cast<std::uint16_t>(pair);
      (transposed ? matrix[column + 1][row] : matrix[row][column + 1]) = static_cast<std::uint16_t>(pair >> 16);
    }
    for (int row = 0; row < 8; ++row) {
      Thread *t = threads.at(m * 8 + row);
      std::memcpy(b.access(*t, Space::Shared, b.address(*t, in.operands[0]), 16, true, false), matrix[row], 16);
    }
  }
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

std::string describe(const Block &b, const Thread &t, const Instruction &in) {
  return "line " + std::to_string(in.line) + ", block (" + std::to_string(b.cta[0]) + ", " + std::to_string(b.cta[1]) +
         ", " + std::to_string(b.cta[2]) + "), thread " + std::to_string(t.id) + ": " + in.text;
}

} // namespace

/// Up to the next instruction that needs other threads.
void Block::runThread(Thread &t) {
  // Far more than any kernel needs between two barriers: a loop that does not end.
  for (std::uint64_t steps = 0; steps < (std::uint64_t(1) << 32); ++steps) {
    if (t.pc >= kernel->code.size()) {
      t.state = Thread::Done;
      return;
    }
    const Instruction &in = kernel->code[t.pc];
    try {
      if (in.predicate >= 0 && (t.regs[in.predicate] != 0) == in.predicateNegated) {
        ++t.pc;
        continue;
      }
      if (in.collective) {
        t.state = Thread::AtCollective;
        return;
      }
      switch (in.flow) {
      case Instruction::Next:
        in.execute(*this, t, in);
        ++t.pc;
        break;
      case Instruction::Branch:
        t.pc = in.target;
        break;
      case Instruction::Exit:
        t.state = Thread::Done;
        return;
      case Instruction::Barrier:
        t.state = Thread::AtBarrier;
        return;
      }
    } catch (const PtxError &error) {
      fail(std::string(error.what()) + "\n  at " + describe(*this, t, in));
    }
  }
  fail("does not end\n  at " + describe(*this, t, kernel->code[t.pc]));
}

bool Block::releaseCollectives(std::uint32_t warp) {
  std::uint32_t first = warp * 32, last = std::min<std::uint32_t>(first + 32, threads.size());
  bool released = false;
  std::set<std::uint32_t> places;
  for (std::uint32_t i = first; i < last; ++i)
    if (threads[i].state == Thread::AtCollective)
      places.insert(threads[i].pc);
  for (std::uint32_t place : places) {
    const Instruction &in = kernel->code[place];
    std::vector<Thread *> here;
    std::uint32_t arrived = 0;
    for (std::uint32_t i = first; i < last; ++i)
      if (threads[i].state == Thread::AtCollective && threads[i].pc == place) {
        here.push_back(&threads[i]);
        arrived |= 1u << threads[i].lane;
      }
    // The mask is the last operand; matrix instructions take the whole warp.
    bool hasMask = in.words[0] == "shfl" || in.words[0] == "vote" || in.words[0] == "redux" || in.words[0] == "bar" ||
                   in.words[0] == "elect";
    std::uint32_t mask = ~0u;
    if (hasMask)
      mask = static_cast<std::uint32_t>(read(*here[0], in.operands.back()));
    for (Thread *t : here)
      if (hasMask && static_cast<std::uint32_t>(read(*t, in.operands.back())) != mask)
        fail("threads disagree on the mask\n  at " + describe(*this, *t, in));
    if ((arrived & ~mask) != 0)
      fail("a thread is not in its own mask\n  at " + describe(*this, *here[0], in));
    if (arrived != mask)
      continue;
    try {
      // Accesses of the instruction itself come before what the threads do next.
      in.collective(*this, here, in);
    } catch (const PtxError &error) {
      fail(std::string(error.what()) + "\n  at " + describe(*this, *here[0], in));
    }
    std::uint64_t next = 0;
    for (Thread *t : here)
      next = std::max(next, t->warpEpoch + 1);
    for (Thread *t : here) {
      // Only barriers of the warp order memory; a shuffle merely brings its threads together, which hardware and
      // compiler treat as convergence, not as a fence.
      if (in.words[0] == "bar")
        t->warpEpoch = next;
      t->state = Thread::Running;
      ++t->pc;
    }
    released = true;
  }
  return released;
}

void Block::run(std::mt19937 &random) {
  std::uint32_t warps = (static_cast<std::uint32_t>(threads.size()) + 31) / 32;
  std::vector<std::uint32_t> order(threads.size());
  std::iota(order.begin(), order.end(), 0);
  while (true) {
    std::shuffle(order.begin(), order.end(), random);
    bool progress = false;
    for (std::uint32_t i : order)
      if (threads[i].state == Thread::Running) {
        runThread(threads[i]);
        progress = true;
      }
    for (std::uint32_t warp = 0; warp < warps; ++warp)
      progress |= releaseCollectives(warp);
    if (progress)
      continue;
    // Barriers: by number; each with its own count of threads.
    std::map<std::uint32_t, std::vector<Thread *>> waiting;
    bool allDone = true, someDone = false;
    for (Thread &t : threads) {
      allDone &= t.state == Thread::Done;
      someDone |= t.state == Thread::Done;
      if (t.state == Thread::AtBarrier) {
        const Instruction &in = kernel->code[t.pc];
        waiting[static_cast<std::uint32_t>(read(t, in.operands[0]))].push_back(&t);
      }
    }
    if (allDone)
      return;
    bool released = false;
    for (auto &[id, members] : waiting) {
      const Instruction &in = kernel->code[members[0]->pc];
      std::size_t count = in.operands.size() > 1 ? read(*members[0], in.operands[1]) : threads.size();
      if (members.size() == count) {
        for (Thread *t : members) {
          t->state = Thread::Running;
          ++t->pc;
        }
        // A barrier of a part of the block orders only that part; it is taken for one of the whole.
        ++epoch;
        released = true;
      } else if (someDone && in.operands.size() < 2) {
        fail("some threads have left while others wait\n  at " + describe(*this, *members[0], in));
      }
    }
    if (!released)
      for (Thread &t : threads)
        if (t.state != Thread::Done)
          fail("waits for threads that never come\n  at " + describe(*this, t, kernel->code[t.pc]));
  }
}

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

namespace {

std::string trim(const std::string &text) {
  auto isSpace = [](unsigned char c) { return std::isspace(c) != 0; };
  auto begin = std::find_if_not(text.begin(), text.end(), isSpace);
  auto end = std::find_if_not(text.rbegin(), text.rend(), isSpace).base();
  return begin < end ? std::string(begin, end) : std::string();
}

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (true) {
    std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos)
      return parts;
    begin = end + 1;
  }
}

class Parser {
public:
  Parser(const std::string &text, PtxProgram &program) : program(program) { tokenize(text); }

  void parse() {
    for (at = 0; at < statements.size();) {
      const Statement &s = statements[at++];
      if (s.text.find(".entry") != std::string::npos)
        parseKernel(s.text);
      else if (s.text.find(".shared") != std::string::npos)
        parseShared(s.text);
      else if (s.text.find(".global") == 0 || s.text.find(".const") == 0 || s.text.find(".visible .global") == 0)
        parseGlobal(s.text);
      else if (s.text.rfind(".version", 0) == 0 || s.text.rfind(".target", 0) == 0 ||
               s.text.rfind(".address_size", 0) == 0)
        continue;
      else
        error(s, "unknown statement");
    }
    for (const auto &[name, offset] : program.shared)
      if (offset == dynamicShared)
        program.shared[name] = (program.sharedStatic + 1023) / 1024 * 1024;
    for (auto &[kernel, instruction, operand, part, symbol, offset] : fixups) {
      Operand &target = program.kernels[kernel].code[instruction].operands[operand];
      Operand &slot = part < 0 ? target : target.parts[part];
      auto shared = program.shared.find(symbol);
      if (shared != program.shared.end()) {
        slot.value = shared->second + offset;
        continue;
      }
      auto global = program.globals.find(symbol);
      if (global == program.globals.end())
        fail("unknown symbol " + symbol);
      slot.value = reinterpret_cast<std::uint64_t>(global->second->data()) + offset;
    }
  }

private:
  struct Statement {
    std::string text;
    int line;
  };
  static constexpr std::uint64_t dynamicShared = ~std::uint64_t(0);

  [[noreturn]] static void error(const Statement &s, const std::string &message) {
    fail("line " + std::to_string(s.line) + ": " + message + ": " + s.text);
  }

  /// Statements end with ';', labels with ':', braces stand alone; directives of the head end with their line.
  void tokenize(const std::string &text) {
    std::string current;
    int line = 1, first = 1;
    auto flush = [&] {
      std::string s = trim(current);
      if (!s.empty())
        statements.push_back({s, first});
      current.clear();
    };
    int parens = 0, vectors = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      char c = text[i];
      if (c == '\0')
        break;
      if (c == '/' && i + 1 < text.size() && text[i + 1] == '/') {
        while (i < text.size() && text[i] != '\n')
          ++i;
        c = '\n';
      }
      if (trim(current).empty())
        first = line;
      if (c == '\n') {
        ++line;
        std::string s = trim(current);
        for (const char *head : {".version", ".target", ".address_size", ".maxntid", ".minnctapersm", ".reqntid", ".maxnreg",
                                 ".explicitcluster", ".reqnctapercluster", ".blocksareclusters"})
          if (s.rfind(head, 0) == 0)
            flush();
        current += ' ';
        continue;
      }
      if (c == '(')
        ++parens;
      if (c == ')')
        --parens;
      if (c == ';') {
        flush();
        continue;
      }
      if (c == ':' && parens == 0 && trim(current).rfind("$", 0) == 0 && trim(current).find(' ') == std::string::npos) {
        current += ':';
        flush();
        continue;
      }
      if (c == '{' || c == '}') {
        // A vector operand or initialiser follows an opcode, an operand or '='; a scope starts a statement.
        std::string s = trim(current);
        bool opensScope = c == '{' && (s.empty() || s.back() == ')' || s.find(".entry") != std::string::npos);
        if (opensScope) {
          flush();
          statements.push_back({"{", line});
          continue;
        }
        if (c == '}' && vectors == 0) {
          flush();
          statements.push_back({"}", line});
          continue;
        }
        vectors += c == '{' ? 1 : -1;
      }
      current += c;
    }
    flush();
  }

  static std::size_t bytesOf(const std::string &type) { return parseType(type.substr(1)).bits / 8; }

  static std::uint64_t roundUp(std::uint64_t value, std::uint64_t align) { return (value + align - 1) / align * align; }

  /// name, alignment, bytes (nullopt-like -1 when unsized) of `.space .align A .type name[N]`
  struct Variable {
    std::string name;
    std::uint64_t align = 1, bytes = 0;
    bool sized = true;
  };
  static Variable parseVariable(const std::string &text) {
    Variable v;
    std::uint64_t element = 1;
    for (const std::string &word : split(text, ' ')) {
      if (word.empty())
        continue;
      if (word[0] == '.' && parseType(word.substr(1)).base != Type::None)
        element = bytesOf(word);
      else if (word[0] != '.' && std::isdigit(static_cast<unsigned char>(word[0])))
        v.align = std::stoull(word);
      else if (word[0] != '.')
        v.name = word;
    }
    std::size_t bracket = v.name.find('[');
    v.bytes = element;
    if (bracket != std::string::npos) {
      std::string size = v.name.substr(bracket + 1, v.name.find(']') - bracket - 1);
      v.sized = !size.empty();
      v.bytes = v.sized ? element * std::stoull(size) : 0;
      v.name = v.name.substr(0, bracket);
    }
    return v;
  }

  void parseShared(const std::string &text) {
    Variable v = parseVariable(text);
    if (!v.sized || v.bytes == 0) {
      program.shared[v.name] = dynamicShared;
      return;
    }
    program.sharedStatic = roundUp(program.sharedStatic, v.align);
    program.shared[v.name] = program.sharedStatic;
    program.sharedStatic += v.bytes;
  }

  void parseGlobal(const std::string &text) {
    std::size_t equals = text.find('=');
    Variable v = parseVariable(trim(text.substr(0, equals)));
    auto bytes = std::make_unique<std::vector<std::uint8_t>>(v.bytes);
    if (equals != std::string::npos) {
      std::string list = text.substr(equals + 1);
      list = list.substr(list.find('{') + 1);
      list = list.substr(0, list.find('}'));
      std::vector<std::string> items = split(list, ',');
      std::uint64_t element = v.bytes / items.size();
      for (std::size_t i = 0; i < items.size(); ++i) {
        Bits value = parseNumber(trim(items[i]));
        std::memcpy(bytes->data() + i * element, &value, element);
      }
    }
    program.globals[v.name] = std::move(bytes);
  }

  static Bits parseNumber(const std::string &text) {
    if (text.rfind("0f", 0) == 0 || text.rfind("0F", 0) == 0)
      return std::stoull(text.substr(2), nullptr, 16);
    if (text.rfind("0d", 0) == 0 || text.rfind("0D", 0) == 0)
      return std::stoull(text.substr(2), nullptr, 16);
    if (text.rfind("0x", 0) == 0)
      return std::stoull(text.substr(2), nullptr, 16);
    if (!text.empty() && text[0] == '-')
      return static_cast<Bits>(std::stoll(text));
    return std::stoull(text);
  }

  void parseKernel(const std::string &head) {
    std::size_t open = head.find('(');
    std::string name = head.substr(head.find(".entry") + 6, open == std::string::npos ? open : open - head.find(".entry") - 6);
    name = trim(name);
    Kernel &kernel = program.kernels[name];
    kernel.name = name;
    if (open != std::string::npos) {
      std::string list = trim(head.substr(open + 1, head.rfind(')') - open - 1));
      for (const std::string &item : list.empty() ? std::vector<std::string>() : split(list, ',')) {
        std::string text;
        // ".ptr .align 16" of a pointer parameter says nothing about the parameter itself.
        std::vector<std::string> words;
        for (const std::string &word : split(trim(item), ' '))
          if (!word.empty())
            words.push_back(word);
        for (std::size_t i = 0; i < words.size(); ++i) {
          if (words[i] == ".ptr") {
            while (i + 2 < words.size())
              ++i; // up to the name
            continue;
          }
          text += words[i] + " ";
        }
        Variable v = parseVariable(text);
        std::uint64_t align = std::max<std::uint64_t>(v.align, std::min<std::uint64_t>(v.bytes, 8));
        kernel.paramBytes = roundUp(kernel.paramBytes, align);
        kernel.params.push_back({words.back().substr(0, words.back().find('[')), kernel.paramBytes, v.bytes});
        kernel.paramBytes += v.bytes;
      }
    }
    while (at < statements.size() && statements[at].text != "{")
      ++at;
    ++at;
    parseBody(kernel);
  }

  /// Names of registers, innermost scope last.
  std::vector<std::map<std::string, std::uint32_t>> scopes;
  std::map<std::string, std::uint32_t> ranges; // %r<20> -> first register

  void parseBody(Kernel &kernel) {
    scopes.assign(1, {});
    std::map<std::string, std::uint32_t> labels;
    std::vector<std::pair<std::uint32_t, std::string>> branches;
    std::string pendingPredicate;
    int depth = 1;
    while (true) {
      if (at >= statements.size())
        fail("kernel " + kernel.name + " does not end");
      const Statement &s = statements[at++];
      if (s.text == "{") {
        scopes.emplace_back();
        ++depth;
      } else if (s.text == "}") {
        scopes.pop_back();
        if (--depth == 0)
          break;
      } else if (s.text.back() == ':') {
        labels[s.text.substr(0, s.text.size() - 1)] = static_cast<std::uint32_t>(kernel.code.size());
      } else if (s.text.rfind(".reg", 0) == 0) {
        declareRegisters(kernel, s);
      } else if (s.text.rfind(".shared", 0) == 0) {
        parseShared(s.text);
      } else if (s.text.rfind(".local", 0) == 0) {
        error(s, "local memory");
      } else if (s.text.rfind(".pragma", 0) == 0 || s.text.rfind(".loc", 0) == 0) {
        continue;
      } else {
        parseInstruction(kernel, s, branches);
      }
    }
    for (const auto &[place, label] : branches) {
      auto it = labels.find(label);
      if (it == labels.end())
        fail("unknown label " + label);
      kernel.code[place].target = it->second;
    }
  }

  void declareRegisters(Kernel &kernel, const Statement &s) {
    // .reg .b32 %r<20>, or .reg .pred p, q
    std::size_t type = s.text.find('.', 4);
    std::string names = trim(s.text.substr(s.text.find(' ', type)));
    for (std::string name : split(names, ',')) {
      name = trim(name);
      std::size_t angle = name.find('<');
      if (angle == std::string::npos) {
        scopes.back()[name] = kernel.registers++;
        continue;
      }
      std::uint32_t count = std::stoul(name.substr(angle + 1));
      for (std::uint32_t i = 0; i < count; ++i)
        scopes.back()[name.substr(0, angle) + std::to_string(i)] = kernel.registers + i;
      kernel.registers += count;
    }
  }

  bool findRegister(const std::string &name, std::uint32_t &reg) const {
    for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
      auto it = scope->find(name);
      if (it != scope->end()) {
        reg = it->second;
        return true;
      }
    }
    return false;
  }

  struct Fixup {
    std::string kernel;
    std::size_t instruction, operand;
    int part;
    std::string symbol;
    std::uint64_t offset;
  };
  std::vector<Fixup> fixups;

  Operand parseOperand(Kernel &kernel, const Statement &s, std::string text, std::size_t number, int part = -1) {
    text = trim(text);
    Operand operand;
    if (text.empty())
      error(s, "missing operand");
    if (text == "_") {
      operand.kind = Operand::Immediate;
      return operand;
    }
    if (text[0] == '{') {
      operand.kind = Operand::Vector;
      int i = 0;
      for (const std::string &item : split(text.substr(1, text.size() - 2), ','))
        operand.parts.push_back(parseOperand(kernel, s, item, number, i++));
      return operand;
    }
    if (text[0] == '[') {
      operand.kind = Operand::Address;
      std::string inner = trim(text.substr(1, text.size() - 2));
      std::size_t plus = inner.find('+');
      std::string base = trim(inner.substr(0, plus));
      if (plus != std::string::npos)
        operand.value = parseNumber(trim(inner.substr(plus + 1)));
      if (findRegister(base, operand.reg)) {
        operand.hasBase = true;
        return operand;
      }
      for (const Parameter &parameter : kernel.params)
        if (parameter.name == base) {
          operand.value += parameter.offset;
          return operand;
        }
      if (std::isdigit(static_cast<unsigned char>(base[0]))) {
        operand.value += parseNumber(base);
        return operand;
      }
      fixups.push_back({kernel.name, kernel.code.size(), number, part, base, operand.value});
      return operand;
    }
    if (text[0] == '!') {
      operand.negated = true;
      text = trim(text.substr(1));
    }
    if (findRegister(text, operand.reg)) {
      operand.kind = Operand::Register;
      return operand;
    }
    static const std::map<std::string, Special> specials = {
        {"%tid.x", Special::TidX},       {"%tid.y", Special::TidY},       {"%tid.z", Special::TidZ},
        {"%ntid.x", Special::NtidX},     {"%ntid.y", Special::NtidY},     {"%ntid.z", Special::NtidZ},
        {"%ctaid.x", Special::CtaX},     {"%ctaid.y", Special::CtaY},     {"%ctaid.z", Special::CtaZ},
        {"%nctaid.x", Special::NctaX},   {"%nctaid.y", Special::NctaY},   {"%nctaid.z", Special::NctaZ},
        {"%laneid", Special::Lane},      {"%warpid", Special::Warp}};
    if (auto it = specials.find(text); it != specials.end()) {
      operand.kind = Operand::Special;
      operand.value = static_cast<Bits>(it->second);
      return operand;
    }
    operand.kind = Operand::Immediate;
    if (text == "true" || text == "false") {
      operand.value = text == "true";
      return operand;
    }
    if (std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '-') {
      operand.value = parseNumber(text);
      return operand;
    }
    if (text[0] == '%')
      error(s, "unknown register " + text);
    fixups.push_back({kernel.name, kernel.code.size(), number, part, text, 0});
    return operand;
  }

  /// At commas outside of brackets and braces; "d|p" counts as a pair.
  static std::vector<std::string> splitOperands(const std::string &text) {
    std::vector<std::string> parts;
    std::string current;
    int depth = 0;
    for (char c : text) {
      if (c == '{' || c == '[')
        ++depth;
      if (c == '}' || c == ']')
        --depth;
      if (c == ',' && depth == 0) {
        parts.push_back(current);
        current.clear();
      } else {
        current += c;
      }
    }
    if (!trim(current).empty())
      parts.push_back(current);
    for (std::string &part : parts)
      if (std::size_t bar = part.find('|'); bar != std::string::npos)
        part = "{" + trim(part.substr(0, bar)) + "," + trim(part.substr(bar + 1)) + "}";
    return parts;
  }

  void parseInstruction(Kernel &kernel, const Statement &s, std::vector<std::pair<std::uint32_t, std::string>> &branches) {
    Instruction in;
    in.text = s.text;
    in.line = s.line;
    std::string text = s.text;
    if (text[0] == '@') {
      std::size_t end = text.find(' ');
      std::string name = text.substr(1, end - 1);
      in.predicateNegated = name[0] == '!';
      std::uint32_t reg;
      if (!findRegister(in.predicateNegated ? name.substr(1) : name, reg))
        error(s, "unknown predicate");
      in.predicate = static_cast<int>(reg);
      text = trim(text.substr(end));
    }
    std::size_t space = text.find_first_of(" \t{[");
    std::string opcode = trim(text.substr(0, space));
    std::string rest = space == std::string::npos ? "" : trim(text.substr(space));
    in.words = split(opcode, '.');
    if (in.words[0] == "bra") {
      in.flow = Instruction::Branch;
      branches.push_back({static_cast<std::uint32_t>(kernel.code.size()), rest});
      kernel.code.push_back(std::move(in));
      return;
    }
    for (const std::string &part : splitOperands(rest))
      in.operands.push_back(parseOperand(kernel, s, part, in.operands.size()));
    decode(in, s);
    kernel.code.push_back(std::move(in));
  }

  void decode(Instruction &in, const Statement &s) {
    std::vector<Type> types;
    for (const std::string &word : in.words) {
      if (Type type = parseType(word); type.base != Type::None)
        types.push_back(type);
      if (word == "global")
        in.space = Space::Global;
      if (word.rfind("shared", 0) == 0)
        in.space = Space::Shared;
      if (word == "param")
        in.space = Space::Param;
      if (word == "v2" || word == "v4" || word == "v8")
        in.vector = word[1] - '0';
    }
    in.nonCoherent = in.has("nc");
    in.ftz = in.has("ftz");
    in.sat = in.has("sat") || in.has("satfinite");
    in.wide = in.has("wide");
    in.high = in.has("hi");
    if (!types.empty())
      in.type = types[0];
    if (types.size() > 1)
      in.source = types[1];
    const std::string &name = in.words[0];
    auto need = [&](std::size_t count) {
      if (in.operands.size() < count)
        error(s, "too few operands");
    };
    static const std::map<std::string, int> binaries = {
        {"add", Add}, {"sub", Sub}, {"mul", Mul}, {"div", Div}, {"rem", Rem}, {"min", Min}, {"max", Max},
        {"and", And}, {"or", Or},   {"xor", Xor}, {"shl", Shl}, {"shr", Shr}, {"copysign", CopySign}};
    static const std::map<std::string, int> unaries = {
        {"neg", Neg}, {"abs", Abs}, {"not", Not}, {"popc", Popc}, {"clz", Clz},     {"brev", Brev}, {"ex2", Ex2},
        {"lg2", Lg2}, {"rcp", Rcp}, {"rsqrt", Rsqrt}, {"sqrt", Sqrt}, {"tanh", Tanh}, {"sin", Sin}, {"cos", Cos}};
    static const std::map<std::string, int> comparisons = {
        {"eq", Eq}, {"ne", Ne}, {"lt", Lt}, {"le", Le}, {"gt", Gt}, {"ge", Ge}, {"lo", Lt}, {"ls", Le}, {"hi", Gt},
        {"hs", Ge}, {"equ", Eq | unorderedFlag}, {"neu", Ne | unorderedFlag}, {"ltu", Lt | unorderedFlag},
        {"leu", Le | unorderedFlag}, {"gtu", Gt | unorderedFlag}, {"geu", Ge | unorderedFlag}, {"num", Num}, {"nan", Nan}};
    static const std::map<std::string, Execute> others = {
        {"selp", selectValue}, {"mov", move},           {"cvt", convert},     {"cvta", convertAddress}, {"ld", load},
        {"st", store},         {"prmt", permuteBytes},  {"bfe", extractField}, {"bfi", insertField},    {"lop3", logic3},
        {"shf", funnelShift},  {"fma", fusedMultiplyAdd}, {"mad", fusedMultiplyAdd}, {"atom", atomic},  {"red", atomic},
        {"membar", nothing},   {"fence", nothing},      {"griddepcontrol", nothing}, {"prefetch", nothing},
        {"nanosleep", nothing}, {"trap", trap}};
    static const std::map<std::string, Collective> collectives = {
        {"shfl", shuffle}, {"vote", vote}, {"redux", reduce}, {"elect", elect}, {"mma", multiplyMatrices},
        {"ldmatrix", loadMatrices}, {"stmatrix", storeMatrices}};

    if (name == "ret" || name == "exit") {
      in.flow = Instruction::Exit;
    } else if ((name == "bar" && in.has("warp"))) {
      in.collective = warpBarrier;
    } else if (name == "bar" || name == "barrier") {
      if (!in.has("sync") || in.has("cluster"))
        error(s, "unknown barrier");
      need(1);
      in.flow = Instruction::Barrier;
    } else if (name == "cp" && in.has("async") && !in.has("bulk") && !in.has("mbarrier")) {
      in.execute = in.has("commit_group") ? commitCopies : in.has("wait_group") || in.has("wait_all") ? waitCopies : copyAsync;
    } else if (auto it = binaries.find(name); it != binaries.end()) {
      need(3);
      in.code = it->second;
      in.execute = binary;
      if (in.has("cc"))
        error(s, "carry is not known");
    } else if (auto it = unaries.find(name); it != unaries.end()) {
      need(2);
      in.code = it->second;
      in.execute = unary;
    } else if (name == "setp") {
      need(3);
      in.code = comparisons.at(in.words[1]);
      in.execute = setPredicate;
      if (in.operands[0].kind != Operand::Register)
        error(s, "a pair of predicates is not known");
    } else if (auto it = others.find(name); it != others.end()) {
      in.execute = it->second;
      if (name == "mad" || (name == "fma" && !in.type.isFloat()))
        in.code = Mul;
    } else if (auto it = collectives.find(name); it != collectives.end()) {
      in.collective = it->second;
      if (name == "redux")
        in.code = in.has("add") ? Add : in.has("min") ? Min : in.has("max") ? Max : in.has("and") ? And : in.has("or") ? Or : Xor;
      if (name == "mma" && !(in.has("m16n8k16") && in.has("bf16")))
        error(s, "unknown shape");
    } else {
      error(s, "unknown instruction");
    }
  }

  PtxProgram &program;
  std::vector<Statement> statements;
  std::size_t at = 0;
};

} // namespace

//===----------------------------------------------------------------------===//
// The machine
//===----------------------------------------------------------------------===//

PtxMachine::PtxMachine(const std::string &ptx) : program(std::make_unique<PtxProgram>()) {
  Parser(ptx, *program).parse();
  for (const auto &[name, bytes] : program->globals)
    allow(bytes->data(), bytes->size(), /*writable=*/false);
}

PtxMachine::~PtxMachine() = default;

void PtxMachine::allow(const void *data, std::size_t bytes, bool writable) {
  auto begin = reinterpret_cast<std::uint64_t>(data);
  if (bytes == 0)
    return;
  regions.push_back({begin, begin + bytes, writable});
  std::sort(regions.begin(), regions.end(), [](const Region &x, const Region &y) { return x.begin < y.begin; });
}

void PtxMachine::run(const Launch &launch) {
  auto it = program->kernels.find(launch.kernel);
  if (it == program->kernels.end())
    fail("no kernel " + launch.kernel);
  const Kernel &kernel = it->second;
  if (launch.params.size() != kernel.params.size())
    fail("kernel " + kernel.name + " takes " + std::to_string(kernel.params.size()) + " parameters, got " +
         std::to_string(launch.params.size()));
  std::vector<std::uint8_t> params(kernel.paramBytes);
  for (std::size_t i = 0; i < launch.params.size(); ++i) {
    if (launch.params[i].size() != kernel.params[i].size)
      fail("parameter " + std::to_string(i) + " has " + std::to_string(kernel.params[i].size) + " bytes, got " +
           std::to_string(launch.params[i].size()));
    std::memcpy(params.data() + kernel.params[i].offset, launch.params[i].data(), launch.params[i].size());
  }
  std::uint64_t sharedBytes = (program->sharedStatic + 1023) / 1024 * 1024 + launch.dynamicShared;
  std::vector<std::array<std::uint32_t, 3>> blocks;
  for (std::uint32_t z = 0; z < launch.grid[2]; ++z)
    for (std::uint32_t y = 0; y < launch.grid[1]; ++y)
      for (std::uint32_t x = 0; x < launch.grid[0]; ++x)
        blocks.push_back({x, y, z});
  std::mt19937 random(launch.seed);
  std::shuffle(blocks.begin(), blocks.end(), random);
  for (const auto &id : blocks) {
    Block block;
    block.launch = &launch;
    block.regions = &regions;
    block.kernel = &kernel;
    block.params = &params;
    std::copy(id.begin(), id.end(), block.cta);
    block.shared.assign(sharedBytes, 0xFF);
    block.shadow.assign(sharedBytes, Shadow());
    block.threads.resize(launch.threads);
    for (std::uint32_t i = 0; i < launch.threads; ++i) {
      Thread &t = block.threads[i];
      t.id = i;
      t.lane = i % 32;
      t.warp = i / 32;
      t.tid[0] = i;
      t.tid[1] = t.tid[2] = 0;
      t.regs.assign(kernel.registers, 0xFFFFFFFFFFFFFFFFull);
    }
    block.run(random);
  }
}
