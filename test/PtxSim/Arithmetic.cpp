//===- Arithmetic.cpp - instructions on registers -------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/PtxSim/Machine.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace k3::ptxsim;

float k3::ptxsim::asFloat(std::uint64_t bits) {
  auto low = static_cast<std::uint32_t>(bits);
  float value;
  std::memcpy(&value, &low, 4);
  return value;
}

std::uint64_t k3::ptxsim::asBits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

static double asDouble(std::uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, 8);
  return value;
}

static std::uint64_t asBits64(double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, 8);
  return bits;
}

float k3::ptxsim::bf16ToFloat(std::uint16_t bits) { return asFloat(std::uint32_t(bits) << 16); }

std::uint16_t k3::ptxsim::floatToBf16(float value, char round) {
  auto bits = static_cast<std::uint32_t>(asBits(value));
  if (std::isnan(value))
    return 0x7fff;
  if (round == 'z')
    return static_cast<std::uint16_t>(bits >> 16);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float k3::ptxsim::f16ToFloat(std::uint16_t bits) {
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float value = exponent == 31 ? (mantissa ? NAN : INFINITY)
                : exponent     ? std::ldexp(float(1024 + mantissa), exponent - 25)
                               : std::ldexp(float(mantissa), -24);
  return bits >> 15 ? -value : value;
}

std::uint16_t k3::ptxsim::floatToF16(float value) {
  std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  float size = std::fabs(value);
  if (std::isnan(value))
    return 0x7fff;
  if (size >= 65520.0f)
    return sign | 0x7c00;
  int exponent;
  std::frexp(size, &exponent);
  int scale = std::max(exponent - 11, -24);
  auto mantissa = static_cast<int>(std::nearbyint(std::ldexp(size, -scale)));
  // A carry into the next power of two falls out of the addition.
  return static_cast<std::uint16_t>(sign | (scale == -24 ? mantissa : ((scale + 24) << 10) + mantissa));
}

/// What an approximate instruction may do to the last bits: keep `bits` of the mantissa.
static float coarse(float value, int bits) {
  if (!std::isfinite(value) || value == 0)
    return value;
  int exponent;
  float mantissa = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, bits)), exponent - bits);
}

static float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

static bool isFloat(Type type) {
  return type == Type::f16 || type == Type::bf16 || type == Type::f32 || type == Type::f64 || type == Type::f16x2 ||
         type == Type::bf16x2;
}

static std::uint64_t truncate(Type type, std::uint64_t x) {
  int bytes = typeBytes(type);
  return type == Type::pred ? x & 1 : bytes >= 8 ? x : x & ((1ull << 8 * bytes) - 1);
}

static std::int64_t extend(Type type, std::uint64_t x) {
  int shift = 64 - 8 * typeBytes(type);
  return isSigned(type) ? static_cast<std::int64_t>(x << shift) >> shift : static_cast<std::int64_t>(truncate(type, x));
}

namespace {
template <typename F> std::uint64_t onFloats(Type type, bool ftz, const std::uint64_t *x, int count, F f) {
  double in[3];
  auto single = [&](auto read, auto write) {
    for (int i = 0; i < count; ++i)
      in[i] = read(x[i]);
    return write(f(in));
  };
  auto half = [&](int shift, bool brain) {
    for (int i = 0; i < count; ++i) {
      auto bits = static_cast<std::uint16_t>(x[i] >> shift);
      in[i] = brain ? bf16ToFloat(bits) : f16ToFloat(bits);
    }
    auto result = static_cast<float>(f(in));
    return static_cast<std::uint64_t>(brain ? floatToBf16(result) : floatToF16(result));
  };
  switch (type) {
  case Type::f64:
    return single(asDouble, asBits64);
  case Type::f16: case Type::bf16:
    return half(0, type == Type::bf16);
  case Type::f16x2: case Type::bf16x2:
    return half(0, type == Type::bf16x2) | half(16, type == Type::bf16x2) << 16;
  default:
    return single([&](std::uint64_t bits) { return double(ftz ? flushed(asFloat(bits)) : asFloat(bits)); },
                  [&](double result) { return asBits(ftz ? flushed(float(result)) : float(result)); });
  }
}
} // namespace

/// min and max drop a NaN operand.
static double lesser(double x, double y) { return std::isnan(x) ? y : std::isnan(y) ? x : std::min(x, y); }
static double greater(double x, double y) { return std::isnan(x) ? y : std::isnan(y) ? x : std::max(x, y); }

static double applyFloat(const Instruction &in, const double *x) {
  switch (in.op) {
  case Op::add: return x[0] + x[1];
  case Op::sub: return x[0] - x[1];
  case Op::mul: return x[0] * x[1];
  case Op::mad: case Op::fma:
    // An f32 product is exact in double; the sum is rounded twice, once too often by far less than an ulp.
    return in.type == Type::f64 ? std::fma(x[0], x[1], x[2]) : x[0] * x[1] + x[2];
  case Op::div: return x[0] / x[1];
  case Op::abs: return std::fabs(x[0]);
  case Op::neg: return -x[0];
  case Op::min: return lesser(x[0], x[1]);
  case Op::max: return greater(x[0], x[1]);
  case Op::copysign: return std::copysign(x[1], x[0]);
  case Op::ex2: return coarse(static_cast<float>(std::exp2(x[0])), 22);
  case Op::lg2: return coarse(static_cast<float>(std::log2(x[0])), 22);
  case Op::rcp: return in.approx ? coarse(static_cast<float>(1 / x[0]), 23) : 1 / x[0];
  case Op::sqrt: return std::sqrt(x[0]);
  case Op::rsqrt: return coarse(static_cast<float>(1 / std::sqrt(x[0])), 22);
  case Op::tanh: return coarse(static_cast<float>(std::tanh(x[0])), 11);
  case Op::sin: return coarse(static_cast<float>(std::sin(x[0])), 20);
  case Op::cos: return coarse(static_cast<float>(std::cos(x[0])), 20);
  default: return NAN;
  }
}

static bool compare(const Instruction &in, std::uint64_t x, std::uint64_t y) {
  const std::string &mode = in.mode;
  if (isFloat(in.type)) {
    auto read = [&](std::uint64_t bits) {
      return in.type == Type::f64    ? asDouble(bits)
             : in.type == Type::f16  ? f16ToFloat(static_cast<std::uint16_t>(bits))
             : in.type == Type::bf16 ? bf16ToFloat(static_cast<std::uint16_t>(bits))
                                     : asFloat(bits);
    };
    double a = read(x), b = read(y);
    bool nan = std::isnan(a) || std::isnan(b);
    if (mode == "num" || mode == "nan")
      return nan == (mode == "nan");
    bool unordered = mode.size() == 3;
    if (nan)
      return unordered;
    std::string base = mode.substr(0, 2);
    return base == "eq" ? a == b : base == "ne" ? a != b : base == "lt" ? a < b : base == "le" ? a <= b : base == "gt" ? a > b : a >= b;
  }
  bool isUnsigned = !isSigned(in.type);
  auto order = [&](auto a, auto b) {
    return mode == "eq"                   ? a == b
           : mode == "ne"                 ? a != b
           : mode == "lt" || mode == "lo" ? a < b
           : mode == "le" || mode == "ls" ? a <= b
           : mode == "gt" || mode == "hi" ? a > b
                                          : a >= b;
  };
  if (isUnsigned)
    return order(truncate(in.type, x), truncate(in.type, y));
  return order(extend(in.type, x), extend(in.type, y));
}

static std::uint64_t applyInt(const Instruction &in, std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) {
  Type type = in.type;
  int bits = 8 * typeBytes(type);
  std::int64_t sa = extend(type, a), sb = extend(type, b);
  std::uint64_t ua = truncate(type, a), ub = truncate(type, b);
  switch (in.op) {
  case Op::add: return a + b;
  case Op::sub: return a - b;
  case Op::mul: case Op::mad: {
    std::uint64_t product;
    if (in.wide)
      product = isSigned(type) ? static_cast<std::uint64_t>(sa * sb) : ua * ub;
    else if (in.hi)
      product = bits == 64 ? (isSigned(type) ? static_cast<std::uint64_t>((static_cast<__int128>(sa) * sb) >> 64)
                                             : static_cast<std::uint64_t>((static_cast<unsigned __int128>(ua) * ub) >> 64))
                : isSigned(type) ? static_cast<std::uint64_t>(sa * sb) >> bits
                                 : (ua * ub) >> bits;
    else
      product = a * b;
    return in.op == Op::mad ? product + c : product;
  }
  case Op::div:
    return ub == 0 ? ~0ull : isSigned(type) ? static_cast<std::uint64_t>(sb == -1 ? -sa : sa / sb) : ua / ub;
  case Op::rem:
    return ub == 0 ? ua : isSigned(type) ? static_cast<std::uint64_t>(sb == -1 ? 0 : sa % sb) : ua % ub;
  case Op::abs: return static_cast<std::uint64_t>(sa < 0 ? -sa : sa);
  case Op::neg: return ~a + 1;
  case Op::min: return isSigned(type) ? static_cast<std::uint64_t>(std::min(sa, sb)) : std::min(ua, ub);
  case Op::max: return isSigned(type) ? static_cast<std::uint64_t>(std::max(sa, sb)) : std::max(ua, ub);
  case Op::shl: return (b & 0xffffffff) >= static_cast<std::uint64_t>(bits) ? 0 : ua << (b & 0xffffffff);
  case Op::shr: {
    std::uint64_t amount = std::min<std::uint64_t>(b & 0xffffffff, bits);
    if (isSigned(type))
      return static_cast<std::uint64_t>(sa >> std::min<std::uint64_t>(amount, 63));
    return amount >= static_cast<std::uint64_t>(bits) ? 0 : ua >> amount;
  }
  case Op::shf: {
    std::uint64_t amount = in.mode == "wrap" ? c & 31 : std::min<std::uint64_t>(c & 0xffffffff, 32);
    std::uint64_t pair = (b & 0xffffffff) << 32 | (a & 0xffffffff);
    return in.right ? pair >> amount : (amount == 0 ? b : (pair << amount) >> 32);
  }
  case Op::and_: return a & b;
  case Op::or_: return a | b;
  case Op::xor_: return a ^ b;
  case Op::not_: return ~a;
  case Op::lop3: {
    std::uint64_t out = 0;
    for (int i = 0; i < 32; ++i) {
      int index = static_cast<int>((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1));
      out |= (d >> index & 1) << i;
    }
    return out;
  }
  case Op::prmt: {
    std::uint64_t pair = (b & 0xffffffff) << 32 | (a & 0xffffffff), out = 0;
    for (int i = 0; i < 4; ++i) {
      int selector = static_cast<int>(c >> 4 * i & 15);
      std::uint64_t byte = pair >> 8 * (selector & 7) & 255;
      if (selector & 8)
        byte = byte & 128 ? 255 : 0;
      out |= byte << 8 * i;
    }
    return out;
  }
  case Op::bfe: {
    std::uint64_t from = b & 255, count = c & 255;
    if (count == 0)
      return 0;
    std::uint64_t field = from >= 64 ? 0 : ua >> from;
    if (from + count < static_cast<std::uint64_t>(bits)) {
      field &= (1ull << count) - 1;
      if (isSigned(type) && (field >> (count - 1) & 1))
        field |= ~0ull << count;
    } else if (isSigned(type)) {
      return static_cast<std::uint64_t>(sa >> std::min<std::uint64_t>(from, 63));
    }
    return field;
  }
  case Op::bfi: {
    std::uint64_t from = c & 255, count = std::min<std::uint64_t>(d & 255, bits);
    if (from >= static_cast<std::uint64_t>(bits) || count == 0)
      return b;
    std::uint64_t field = (count == 64 ? ~0ull : (1ull << count) - 1) << from;
    return (b & ~field) | (a << from & field);
  }
  case Op::popc: return static_cast<std::uint64_t>(__builtin_popcountll(ua));
  case Op::clz: return static_cast<std::uint64_t>(ua == 0 ? bits : __builtin_clzll(ua) - (64 - bits));
  case Op::brev: {
    std::uint64_t out = 0;
    for (int i = 0; i < bits; ++i)
      out |= (ua >> i & 1) << (bits - 1 - i);
    return out;
  }
  default: return 0;
  }
}

void Machine::arithmetic(Warp &warp, const Instruction &in, std::uint32_t mask) {
  if (in.op == Op::setp) {
    Lanes s0, s1, s2;
    const Lanes &x = get(warp, in.args[1][0], s0), &y = get(warp, in.args[2][0], s1);
    for (int lane = 0; lane < 32; ++lane) {
      if (!(mask >> lane & 1))
        continue;
      bool result = compare(in, x[lane], y[lane]), other = !result;
      if (!in.boolean.empty()) {
        bool c = get(warp, in.args[3][0], s2)[lane] & 1;
        auto join = [&](bool p) { return in.boolean == "and" ? p && c : in.boolean == "or" ? p || c : p != c; };
        result = join(result);
        other = join(other);
      }
      set(warp, in.args[0][0], lane, result);
      if (in.args[0].size() > 1)
        set(warp, in.args[0][1], lane, other);
    }
    return;
  }
  int count = static_cast<int>(in.args.size()) - 1;
  Lanes scratch[4];
  const Lanes *x[4] = {};
  for (int i = 0; i < count && i < 4; ++i)
    x[i] = &get(warp, in.args[i + 1][0], scratch[i]);
  const Operand &to = in.args[0][0];
  if (in.op == Op::selp) {
    for (int lane = 0; lane < 32; ++lane)
      if (mask >> lane & 1)
        set(warp, to, lane, (*x[2])[lane] & 1 ? (*x[0])[lane] : (*x[1])[lane]);
    return;
  }
  bool floats = isFloat(in.type) && in.op != Op::and_ && in.op != Op::or_ && in.op != Op::xor_ && in.op != Op::not_;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    std::uint64_t v[4] = {};
    for (int i = 0; i < count && i < 4; ++i)
      v[i] = (*x[i])[lane];
    std::uint64_t result;
    if (floats) {
      result = onFloats(in.type, in.ftz, v, count, [&](const double *values) { return applyFloat(in, values); });
      if (in.sat && in.type == Type::f32)
        result = asBits(std::min(1.0f, std::max(0.0f, asFloat(result))));
    } else {
      result = applyInt(in, v[0], v[1], v[2], v[3]);
      if (in.type == Type::pred)
        result &= 1;
      else if (!in.wide)
        result = truncate(in.type, result);
    }
    set(warp, to, lane, result);
  }
}

void Machine::convert(Warp &warp, const Instruction &in, std::uint32_t mask) {
  Type to = in.type, from = in.source;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    std::uint64_t x = get(warp, in.args[1][0], lane), result = 0;
    if (to == Type::bf16x2 || to == Type::f16x2) {
      std::uint64_t low = get(warp, in.args[2][0], lane);
      auto half = [&](std::uint64_t bits) -> std::uint64_t {
        return to == Type::bf16x2 ? floatToBf16(asFloat(bits), in.round) : floatToF16(asFloat(bits));
      };
      result = half(x) << 16 | half(low);
    } else if (!isFloat(from) && !isFloat(to) && to != Type::tf32) {
      std::int64_t value = extend(from, x);
      if (in.sat) {
        int bits = 8 * typeBytes(to);
        std::int64_t high = isSigned(to) ? (1ll << (bits - 1)) - 1 : (1ll << bits) - 1, low = isSigned(to) ? -high - 1 : 0;
        value = std::min(high, std::max(low, value));
      }
      result = static_cast<std::uint64_t>(isSigned(from) || !isSigned(to) ? value : value);
      result = truncate(to, result);
    } else {
      double value = from == Type::f64    ? asDouble(x)
                     : from == Type::f16  ? f16ToFloat(static_cast<std::uint16_t>(x))
                     : from == Type::bf16 ? bf16ToFloat(static_cast<std::uint16_t>(x))
                     : from == Type::f32  ? (in.ftz ? flushed(asFloat(x)) : asFloat(x))
                     : from == Type::u64  ? static_cast<double>(x)
                                          : static_cast<double>(extend(from, x));
      if (to == Type::tf32) {
        result = (x + 0x1000) & ~0x1fffull & 0xffffffff;
      } else if (to == Type::f32) {
        if (isFloat(from) && (in.text.find("ni.") != std::string::npos || in.text.find(".rzi") != std::string::npos ||
                              in.text.find(".rmi") != std::string::npos || in.text.find(".rpi") != std::string::npos))
          value = in.round == 'z' ? std::trunc(value) : in.round == 'm' ? std::floor(value) : in.round == 'p' ? std::ceil(value) : std::nearbyint(value);
        if (in.sat)
          value = std::min(1.0, std::max(0.0, value));
        result = asBits(static_cast<float>(value));
      } else if (to == Type::f64) {
        result = asBits64(value);
      } else if (to == Type::f16) {
        result = floatToF16(static_cast<float>(value));
      } else if (to == Type::bf16) {
        result = floatToBf16(static_cast<float>(value), in.round);
      } else {
        double whole = in.round == 'z' ? std::trunc(value) : in.round == 'm' ? std::floor(value) : in.round == 'p' ? std::ceil(value) : std::nearbyint(value);
        int bits = 8 * typeBytes(to);
        double high = std::ldexp(1.0, isSigned(to) ? bits - 1 : bits), low = isSigned(to) ? -high : 0;
        if (std::isnan(whole))
          result = 0;
        else if (whole >= high)
          result = isSigned(to) ? (1ull << (bits - 1)) - 1 : ~0ull;
        else if (whole <= low)
          result = isSigned(to) ? 1ull << (bits - 1) : 0;
        else
          result = whole < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(whole)) : static_cast<std::uint64_t>(whole);
        result = truncate(to, result);
      }
    }
    set(warp, in.args[0][0], lane, result);
  }
}

void Machine::move(Warp &warp, const Instruction &in, std::uint32_t mask) {
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    if (in.op == Op::activemask) {
      set(warp, in.args[0][0], lane, mask);
      continue;
    }
    const auto &to = in.args[0], &from = in.args[1];
    if (in.op == Op::mov && (to.size() > 1 || from.size() > 1)) {
      int parts = static_cast<int>(std::max(to.size(), from.size())), bits = 8 * typeBytes(in.type) / parts;
      std::uint64_t keep = bits == 64 ? ~0ull : (1ull << bits) - 1, whole = 0;
      if (from.size() > 1) {
        for (int i = 0; i < parts; ++i)
          whole |= (get(warp, from[i], lane) & keep) << (bits * i);
        set(warp, to[0], lane, whole);
      } else {
        whole = get(warp, from[0], lane);
        for (int i = 0; i < parts; ++i)
          set(warp, to[i], lane, whole >> (bits * i) & keep);
      }
      continue;
    }
    std::uint64_t x = get(warp, from[0], lane);
    if (in.op == Op::cvta) {
      if (in.space == Space::shared)
        x = in.propagate ? (x >= sharedWindow && x < localWindow ? x - sharedWindow : x) : x + sharedWindow;
      else if (in.space == Space::local)
        x = in.propagate ? x - localWindow : x + localWindow;
      else if (in.space == Space::param)
        x += reinterpret_cast<std::uint64_t>(params.data());
    } else if (in.op == Op::mapa) {
      if (get(warp, in.args[2][0], lane) != 0)
        fail("a cluster of one block has rank 0 only", lane);
    } else if (in.op == Op::isspacep) {
      x = in.space == Space::shared ? x >= sharedWindow && x < localWindow : x < sharedWindow;
    }
    set(warp, to[0], lane, x);
  }
}
