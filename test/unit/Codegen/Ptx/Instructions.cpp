//===- Instructions.cpp - what every thread does on its own ---------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Codegen/Ptx/Block.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace k3::test::ptx {

namespace {

using Signed = std::int64_t;

struct Type {
  char kind = 'b'; ///< s, u, b, f, h (bf16), p
  int bits = 32, count = 1;
  bool isFloat() const { return kind == 'f' || kind == 'h'; }
  int allBits() const { return bits * count; }
};

bool parseType(const std::string &name, Type &type) {
  static const std::map<std::string, Type> types = {
      {"b8", {'b', 8}},   {"u8", {'u', 8}},   {"s8", {'s', 8}},   {"b16", {'b', 16}},  {"u16", {'u', 16}},
      {"s16", {'s', 16}}, {"b32", {'b', 32}}, {"u32", {'u', 32}}, {"s32", {'s', 32}},  {"b64", {'b', 64}},
      {"u64", {'u', 64}}, {"s64", {'s', 64}}, {"f32", {'f', 32}}, {"f64", {'f', 64}},  {"bf16", {'h', 16}},
      {"pred", {'p', 1}}, {"bf16x2", {'h', 16, 2}}};
  auto it = types.find(name);
  if (it == types.end())
    return false;
  type = it->second;
  return true;
}

Bits lowBits(Bits value, int bits) { return bits >= 64 ? value : value & ((Bits(1) << bits) - 1); }

/// Signed values fill 64 bits with their sign.
Bits extend(Bits value, char kind, int bits) {
  value = lowBits(value, bits);
  if (kind == 's' && bits < 64 && value >> (bits - 1) & 1)
    value |= ~Bits(0) << bits;
  return value;
}
Bits extend(Bits value, Type type) { return extend(value, type.kind, type.allBits()); }

double toDouble(Bits bits, Type type) {
  return type.kind == 'h' ? asBf16(bits) : type.bits == 32 ? asF32(bits) : asF64(bits);
}
Bits fromDouble(double value, Type type) {
  return type.kind == 'h'  ? ofBf16(static_cast<float>(value))
         : type.bits == 32 ? ofF32(static_cast<float>(value))
                           : ofF64(value);
}
float flush(float value) { return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value; }

/// How floats are treated around an operation.
struct Mode {
  bool ftz = false, saturates = false;
  explicit Mode(const Instruction &in) : ftz(in.has("ftz")), saturates(in.has("sat") || in.has("satfinite")) {}
  Bits before(Bits bits, Type type) const {
    return ftz && type.kind == 'f' && type.bits == 32 ? ofF32(flush(asF32(bits))) : bits;
  }
  Bits after(Bits bits, Type type) const {
    if (type.kind != 'f' || type.bits != 32)
      return bits;
    float value = asF32(bits);
    if (ftz)
      value = flush(value);
    if (saturates)
      value = std::fmin(std::fmax(value, 0.0f), 1.0f);
    return ofF32(value);
  }
};

using Unary = Bits (*)(Bits, Type);
using Binary = Bits (*)(Bits, Bits, Type);
using Ternary = Bits (*)(Bits, Bits, Bits, Type);

/// On one float, or on each half of a bf16x2; f32 sums and products in double are rounded once (53 >= 2 * 24 + 2).
template <class F> Bits onFloats(Type type, F f) {
  return type.count == 1 ? f(0) : (f(0) & 0xFFFF) | f(16) << 16;
}

Bits opAdd(Bits a, Bits b, Type t) {
  if (!t.isFloat())
    return a + b;
  return onFloats(t, [&](int s) { return fromDouble(toDouble(a >> s, t) + toDouble(b >> s, t), t); });
}
Bits opSub(Bits a, Bits b, Type t) {
  if (!t.isFloat())
    return a - b;
  return onFloats(t, [&](int s) { return fromDouble(toDouble(a >> s, t) - toDouble(b >> s, t), t); });
}
Bits opMul(Bits a, Bits b, Type t) {
  if (!t.isFloat())
    return a * b;
  return onFloats(t, [&](int s) { return fromDouble(toDouble(a >> s, t) * toDouble(b >> s, t), t); });
}
Bits opFma(Bits a, Bits b, Bits c, Type t) {
  if (!t.isFloat())
    return a * b + c;
  return onFloats(t, [&](int s) {
    if (t.kind == 'f' && t.bits == 32)
      return ofF32(std::fma(asF32(a), asF32(b), asF32(c)));
    return fromDouble(std::fma(toDouble(a >> s, t), toDouble(b >> s, t), toDouble(c >> s, t)), t);
  });
}
Bits opDiv(Bits a, Bits b, Type t) {
  if (t.isFloat())
    return fromDouble(toDouble(a, t) / toDouble(b, t), t);
  if (b == 0)
    fail("divides by zero");
  if (t.kind == 's')
    return static_cast<Signed>(b) == -1 ? 0 - a : static_cast<Bits>(static_cast<Signed>(a) / static_cast<Signed>(b));
  return a / b;
}
Bits opRem(Bits a, Bits b, Type t) {
  if (b == 0)
    fail("divides by zero");
  if (t.kind == 's')
    return static_cast<Signed>(b) == -1 ? 0 : static_cast<Bits>(static_cast<Signed>(a) % static_cast<Signed>(b));
  return a % b;
}
template <bool least, bool nanWins> Bits opExtreme(Bits a, Bits b, Type t) {
  if (t.isFloat())
    return onFloats(t, [&](int s) {
      double x = toDouble(a >> s, t), y = toDouble(b >> s, t);
      if (std::isnan(x) || std::isnan(y))
        return fromDouble(nanWins || (std::isnan(x) && std::isnan(y)) ? std::numeric_limits<double>::quiet_NaN()
                          : std::isnan(x)                             ? y
                                                                      : x,
                          t);
      if (x == y)
        return fromDouble(least == std::signbit(x) ? x : y, t);
      return fromDouble(least == (x < y) ? x : y, t);
    });
  bool less = t.kind == 's' ? static_cast<Signed>(a) < static_cast<Signed>(b) : a < b;
  return less == least ? a : b;
}
Bits opShl(Bits a, Bits b, Type t) {
  b = lowBits(b, 32);
  return b >= static_cast<Bits>(t.bits) ? 0 : a << b;
}
Bits opShr(Bits a, Bits b, Type t) {
  b = lowBits(b, 32);
  if (t.kind == 's')
    return static_cast<Bits>(static_cast<Signed>(a) >> std::min<Bits>(b, 63));
  return b >= static_cast<Bits>(t.bits) ? 0 : a >> b;
}
Bits opAbs(Bits a, Type t) {
  if (t.isFloat())
    return onFloats(t, [&](int s) { return fromDouble(std::fabs(toDouble(a >> s, t)), t); });
  return static_cast<Bits>(std::llabs(static_cast<Signed>(a)));
}
Bits opNeg(Bits a, Type t) {
  if (t.isFloat())
    return onFloats(t, [&](int s) { return fromDouble(-toDouble(a >> s, t), t); });
  return 0 - a;
}
Bits opMulHigh(Bits a, Bits b, Type t) {
  __extension__ using Wide = unsigned __int128;
  __extension__ using SignedWide = __int128;
  if (t.kind == 's')
    return static_cast<Bits>((static_cast<SignedWide>(static_cast<Signed>(a)) * static_cast<Signed>(b)) >> t.bits);
  return static_cast<Bits>((static_cast<Wide>(a) * b) >> t.bits);
}
Bits opCopySign(Bits a, Bits b, Type t) { return fromDouble(std::copysign(toDouble(b, t), toDouble(a, t)), t); }

void need(const Instruction &in, std::size_t operands) {
  if (in.operands.size() != operands)
    fail("expected " + std::to_string(operands) + " operands, got " + std::to_string(in.operands.size()));
}

void setBinary(Instruction &in, Type type, Binary f, int resultBits = 0) {
  need(in, 3);
  int bits = resultBits ? resultBits : type.allBits();
  in.execute = [d = in.operands[0], a = in.operands[1], b = in.operands[2], f, type, bits,
                mode = Mode(in)](Warp &w, std::uint32_t mask) {
    forLanes(mask, [&](unsigned l) {
      Bits x = mode.before(extend(w.read(a, l), type), type), y = mode.before(extend(w.read(b, l), type), type);
      w.write(d, l, lowBits(mode.after(f(x, y, type), type), bits));
    });
  };
}

void setTernary(Instruction &in, Type type, Ternary f, int resultBits = 0) {
  need(in, 4);
  int bits = resultBits ? resultBits : type.allBits();
  in.execute = [d = in.operands[0], a = in.operands[1], b = in.operands[2], c = in.operands[3], f, type, bits,
                mode = Mode(in)](Warp &w, std::uint32_t mask) {
    forLanes(mask, [&](unsigned l) {
      Bits x = mode.before(extend(w.read(a, l), type), type), y = mode.before(extend(w.read(b, l), type), type);
      w.write(d, l, lowBits(mode.after(f(x, y, mode.before(w.read(c, l), type), type), type), bits));
    });
  };
}

void setUnary(Instruction &in, Type type, std::function<Bits(Bits, Type)> f, int resultBits = 0) {
  need(in, 2);
  int bits = resultBits ? resultBits : type.allBits();
  in.execute = [d = in.operands[0], a = in.operands[1], f, type, bits, mode = Mode(in)](Warp &w, std::uint32_t mask) {
    forLanes(mask, [&](unsigned l) {
      w.write(d, l, lowBits(mode.after(f(mode.before(extend(w.read(a, l), type), type), type), type), bits));
    });
  };
}

/// `f(warp, lane)` gives the result, of `bits` bits.
void setResult(Instruction &in, int bits, std::function<Bits(Warp &, unsigned)> f) {
  in.execute = [d = in.operands[0], bits, f](Warp &w, std::uint32_t mask) {
    forLanes(mask, [&](unsigned l) { w.write(d, l, lowBits(f(w, l), bits)); });
  };
}

//===----------------------------------------------------------------------===//
// Comparisons and conversions
//===----------------------------------------------------------------------===//

bool compare(const std::string &how, Bits a, Bits b, Type t) {
  auto apply = [](const std::string &name, auto x, auto y) {
    return name == "eq" ? x == y : name == "ne" ? x != y : name == "lt" ? x < y : name == "le" ? x <= y
           : name == "gt" ? x > y : x >= y;
  };
  if (t.isFloat()) {
    double x = toDouble(a, t), y = toDouble(b, t);
    bool unordered = std::isnan(x) || std::isnan(y);
    if (how == "num" || how == "nan")
      return unordered == (how == "nan");
    return unordered ? how.size() == 3 : apply(how.substr(0, 2), x, y); // equ, neu, ltu, leu, gtu, geu
  }
  if (t.kind == 's')
    return apply(how, static_cast<Signed>(a), static_cast<Signed>(b));
  static const std::map<std::string, std::string> unsignedNames = {{"lo", "lt"}, {"ls", "le"}, {"hi", "gt"}, {"hs", "ge"}};
  auto it = unsignedNames.find(how);
  return apply(it == unsignedNames.end() ? how : it->second, a, b);
}

void decodeSetPredicate(Instruction &in, Type type) {
  static const char *const known[] = {"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs",
                                      "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
  std::string how = in.words[1], combine = in.has("and") ? "and" : in.has("or") ? "or" : in.has("xor") ? "xor" : "";
  if (std::find(std::begin(known), std::end(known), how) == std::end(known))
    fail("unknown comparison");
  need(in, combine.empty() ? 3 : 4);
  in.execute = [ops = in.operands, how, combine, type, mode = Mode(in)](Warp &w, std::uint32_t mask) {
    forLanes(mask, [&](unsigned l) {
      bool result = compare(how, mode.before(extend(w.read(ops[1], l), type), type),
                            mode.before(extend(w.read(ops[2], l), type), type), type);
      bool opposite = !result;
      if (!combine.empty()) {
        bool c = w.read(ops[3], l) != 0;
        auto apply = [&](bool x) { return combine == "and" ? x && c : combine == "or" ? x || c : x != c; };
        result = apply(result);
        opposite = apply(opposite);
      }
      w.write(ops[0], l, result);
      if (ops[0].second >= 0)
        w.reg(ops[0].second, l) = opposite;
    });
  };
}

double roundAs(const std::string &mode, double x) {
  return mode == "rni" || mode == "rn" ? std::nearbyint(x)
         : mode == "rmi"               ? std::floor(x)
         : mode == "rpi"               ? std::ceil(x)
                                       : std::trunc(x);
}

Bits toInteger(double value, Type to) {
  if (std::isnan(value))
    return 0;
  if (to.kind == 's') {
    double limit = std::ldexp(1.0, to.bits - 1);
    return value >= limit ? (Bits(1) << (to.bits - 1)) - 1 : static_cast<Bits>(static_cast<Signed>(std::max(value, -limit)));
  }
  return value >= std::ldexp(1.0, to.bits) ? ~Bits(0) : static_cast<Bits>(std::max(value, 0.0));
}

void decodeConvert(Instruction &in) {
  std::vector<Type> types;
  std::string rounding;
  for (std::size_t i = 1; i < in.words.size(); ++i) {
    Type t;
    if (parseType(in.words[i], t))
      types.push_back(t);
    else if (in.words[i][0] == 'r' && in.words[i] != "relu")
      rounding = in.words[i];
  }
  if (types.size() != 2 || in.has("relu"))
    fail("unknown conversion");
  Type to = types[0], from = types[1];
  Mode mode(in);
  if (to.count == 2) { // the first operand goes to the upper half
    need(in, 3);
    return setResult(in, 32, [high = in.operands[1], low = in.operands[2]](Warp &w, unsigned l) {
      return ofBf16(asF32(w.read(high, l))) << 16 | ofBf16(asF32(w.read(low, l)));
    });
  }
  need(in, 2);
  if (mode.saturates && !from.isFloat())
    fail("saturating integer conversions are not known");
  // A narrow signed result fills its register with its sign.
  int bits = to.kind == 's' && to.bits < 32 ? 32 : to.bits;
  setResult(in, bits, [a = in.operands[1], to, from, rounding, mode](Warp &w, unsigned l) -> Bits {
    Bits x = w.read(a, l);
    if (from.isFloat()) {
      double value = toDouble(mode.before(x, from), from);
      if (!to.isFloat())
        return toInteger(std::isnan(value) ? value : roundAs(rounding, value), to);
      if (rounding.size() == 3) // to an integral float
        value = roundAs(rounding, value);
      if (mode.saturates)
        value = std::fmin(std::fmax(value, 0.0), 1.0);
      if (to.kind == 'f' && to.bits == 32 && rounding == "rz") {
        auto nearest = static_cast<float>(value);
        return ofF32(std::fabs(nearest) > std::fabs(value) ? std::nextafterf(nearest, 0) : nearest);
      }
      return fromDouble(value, to);
    }
    x = extend(x, from);
    if (!to.isFloat())
      return to.kind == 's' ? extend(x, to) : x;
    if (to.kind == 'f' && to.bits == 64)
      return ofF64(from.kind == 's' ? static_cast<double>(static_cast<Signed>(x)) : static_cast<double>(x));
    float value = from.kind == 's' ? static_cast<float>(static_cast<Signed>(x)) : static_cast<float>(x);
    return to.kind == 'h' ? ofBf16(value) : ofF32(value);
  });
}

void decodeConvertAddress(Instruction &in) {
  bool shared = in.has("shared") || in.has("shared::cta") || in.has("shared::cluster"), to = in.has("to");
  setResult(in, 64, [a = in.operands[1], shared, to](Warp &w, unsigned l) {
    Bits value = w.read(a, l);
    return !shared ? value : to ? sharedOffset(value) : sharedOffset(value) + sharedWindow;
  });
}

//===----------------------------------------------------------------------===//
// Moves and memory
//===----------------------------------------------------------------------===//

void decodeMove(Instruction &in, Type type) {
  need(in, 2);
  const Operand &d = in.operands[0], &a = in.operands[1];
  if (d.kind == Operand::Vector) { // unpack
    int part = type.bits / static_cast<int>(d.parts.size());
    in.execute = [d, a, part](Warp &w, std::uint32_t mask) {
      forLanes(mask, [&](unsigned l) {
        Bits value = w.read(a, l);
        for (std::size_t i = 0; i < d.parts.size(); ++i)
          w.write(d.parts[i], l, lowBits(value >> (part * static_cast<int>(i)), part));
      });
    };
  } else if (a.kind == Operand::Vector) { // pack
    int part = type.bits / static_cast<int>(a.parts.size());
    setResult(in, type.bits, [a, part](Warp &w, unsigned l) {
      Bits value = 0;
      for (std::size_t i = 0; i < a.parts.size(); ++i)
        value |= lowBits(w.read(a.parts[i], l), part) << (part * static_cast<int>(i));
      return value;
    });
  } else {
    setResult(in, type.allBits(), [a](Warp &w, unsigned l) { return w.read(a, l); });
  }
}

Space spaceOf(const Instruction &in) {
  for (const std::string &part : in.words) {
    if (part == "param")
      return Space::Param;
    if (part == "global" || part == "const")
      return Space::Global;
    if (part.compare(0, 6, "shared") == 0)
      return Space::Shared;
    if (part == "local")
      fail("local memory");
  }
  return Space::Generic;
}

void decodeLoadStore(Instruction &in, Type type, bool isLoad) {
  Space space = spaceOf(in);
  std::size_t count = in.has("v2") ? 2 : in.has("v4") ? 4 : in.has("v8") ? 8 : 1, size = static_cast<std::size_t>(type.allBits()) / 8;
  // Cache hints may follow the value.
  if (in.operands.size() < 2)
    fail("expected two operands");
  const Operand &value = in.operands[isLoad ? 0 : 1], &where = in.operands[isLoad ? 1 : 0];
  std::vector<Operand> parts = value.kind == Operand::Vector ? value.parts : std::vector<Operand>{value};
  if (parts.size() != count)
    fail("expected " + std::to_string(count) + " values");
  MemoryOrder order(in);
  MemoryUse use;
  use.writes = !isLoad;
  use.nonCoherent = in.has("nc");
  use.atomic = order.atomic;
  in.execute = [parts, where, space, size, type, isLoad, use, order](Warp &w, std::uint32_t mask) {
    forLanes(mask, [&](unsigned l) {
      std::uint64_t at = w.address(where, l);
      std::uint8_t *memory = w.block->access(w, l, space, at, size * parts.size(), use);
      if (order.atomic && w.block->grid.order && spaceAt(space, at) == Space::Global)
        w.block->grid.order->synchronize(w, at, isLoad, !isLoad, /*replaces=*/true, order);
      for (const Operand &part : parts) {
        if (isLoad) {
          Bits bits = 0;
          std::memcpy(&bits, memory, size);
          w.write(part, l, type.kind == 's' ? extend(bits, type) : bits);
        } else {
          Bits bits = w.read(part, l);
          std::memcpy(memory, &bits, size);
        }
        memory += size;
      }
    });
  };
}

void decodeAtomic(Instruction &in, Type type, bool returns) {
  Space space = spaceOf(in);
  std::string what;
  for (const char *name : {"add", "max", "min", "exch", "and", "or", "xor", "cas"})
    if (in.has(name))
      what = name;
  if (what.empty() || type.count != 1)
    fail("unknown atomic operation");
  std::vector<Operand> ops = in.operands;
  if (!returns)
    ops.insert(ops.begin(), Operand());
  std::size_t size = static_cast<std::size_t>(type.bits) / 8;
  MemoryOrder order(in);
  in.execute = [ops, space, what, type, size, returns, order](Warp &w, std::uint32_t mask) {
    forLanes(mask, [&](unsigned l) {
      std::uint64_t at = w.address(ops[1], l);
      std::uint8_t *memory;
      if (at % size != 0)
        fail("misaligned access of " + std::to_string(size) + " bytes");
      bool isShared = spaceAt(space, at) == Space::Shared;
      if (isShared) {
        // Atomic accesses do not race with each other.
        std::uint64_t offset = sharedOffset(at);
        if (offset + size > w.block->shared.size() || w.block->shadow[offset].writer.thread == Access::nobody)
          fail("atomic access to shared memory that was never written");
        memory = w.block->shared.data() + offset;
        w.block->stampWrite(offset, size, w.now(l));
        w.block->noteStore(offset, size, w.thread(l));
      } else {
        w.checkWaited(l);
        MemoryUse use;
        use.writes = true;
        use.atomic = order.atomic;
        memory = w.block->global(w, at, size, use);
        if (w.block->grid.order)
          w.block->grid.order->synchronize(w, at, /*reads=*/returns, /*writes=*/true, /*replaces=*/false, order);
      }
      Bits old = 0;
      std::memcpy(&old, memory, size);
      Bits a = extend(old, type), b = extend(w.read(ops[2], l), type), next;
      if (what == "cas")
        next = lowBits(a, type.bits) == lowBits(b, type.bits) ? w.read(ops[3], l) : a;
      else
        next = what == "add" ? opAdd(a, b, type)
               : what == "max" ? opExtreme<false, false>(a, b, type)
               : what == "min" ? opExtreme<true, false>(a, b, type)
               : what == "and" ? (a & b)
               : what == "or"  ? (a | b)
               : what == "xor" ? (a ^ b)
                               : b;
      w.block->grid.events += !isShared && std::memcmp(memory, &next, size) != 0;
      std::memcpy(memory, &next, size);
      w.write(ops[0], l, lowBits(old, type.bits));
    });
  };
}

//===----------------------------------------------------------------------===//
// Bits
//===----------------------------------------------------------------------===//

Bits permuteBytes(Bits a, Bits b, Bits selector) {
  Bits bytes = lowBits(a, 32) | b << 32, result = 0;
  for (int i = 0; i < 4; ++i) {
    Bits nibble = selector >> (4 * i) & 15, byte = bytes >> (8 * (nibble & 7)) & 255;
    if (nibble & 8)
      byte = byte & 128 ? 255 : 0;
    result |= byte << (8 * i);
  }
  return result;
}

void decodeBits(Instruction &in, const std::string &name, Type type) {
  const std::vector<Operand> ops = in.operands;
  if (name == "prmt" && in.words.size() == 2) {
    need(in, 4);
    return setResult(in, 32, [ops](Warp &w, unsigned l) {
      return permuteBytes(w.read(ops[1], l), w.read(ops[2], l), w.read(ops[3], l));
    });
  }
  if (name == "lop3") {
    need(in, 5);
    return setResult(in, 32, [ops](Warp &w, unsigned l) {
      Bits a = w.read(ops[1], l), b = w.read(ops[2], l), c = w.read(ops[3], l), table = w.read(ops[4], l), r = 0;
      for (int row = 0; row < 8; ++row)
        if (table >> row & 1)
          r |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
      return r;
    });
  }
  if (name == "bfe") {
    need(in, 4);
    return setResult(in, type.bits, [ops, type](Warp &w, unsigned l) {
      Bits x = w.read(ops[1], l), from = w.read(ops[2], l) & 0xFF, length = w.read(ops[3], l) & 0xFF, result = 0,
           width = static_cast<Bits>(type.bits);
      if (length == 0)
        return result;
      bool sign = type.kind == 's' && x >> std::min(from + length - 1, width - 1) & 1;
      for (Bits i = 0; i < width; ++i)
        result |= Bits(i < length && from + i < width ? x >> (from + i) & 1 : sign) << i;
      return result;
    });
  }
  if (name == "bfi") {
    need(in, 5);
    return setResult(in, type.bits, [ops, type](Warp &w, unsigned l) {
      Bits field = w.read(ops[1], l), result = w.read(ops[2], l), from = w.read(ops[3], l) & 0xFF,
           length = w.read(ops[4], l) & 0xFF;
      for (Bits i = 0; i < length && from + i < static_cast<Bits>(type.bits); ++i)
        result = (result & ~(Bits(1) << (from + i))) | (field >> i & 1) << (from + i);
      return result;
    });
  }
  if (name == "shf") {
    need(in, 4);
    bool left = in.has("l"), wrap = in.has("wrap");
    return setResult(in, 32, [ops, left, wrap](Warp &w, unsigned l) {
      Bits both = lowBits(w.read(ops[1], l), 32) | w.read(ops[2], l) << 32, by = lowBits(w.read(ops[3], l), 32);
      by = wrap ? by & 31 : std::min<Bits>(by, 32);
      return left ? both >> (32 - by) : both >> by;
    });
  }
  if (name == "popc")
    return setUnary(in, type, [](Bits a, Type t) { return static_cast<Bits>(__builtin_popcountll(lowBits(a, t.bits))); }, 32);
  if (name == "clz")
    return setUnary(in, type, [](Bits a, Type t) {
      a = lowBits(a, t.bits);
      return static_cast<Bits>(a ? __builtin_clzll(a) - (64 - t.bits) : t.bits);
    }, 32);
  if (name == "brev")
    return setUnary(in, type, [](Bits a, Type t) {
      Bits r = 0;
      for (int i = 0; i < t.bits; ++i)
        r |= (a >> i & 1) << (t.bits - 1 - i);
      return r;
    });
  fail("unknown instruction");
}

//===----------------------------------------------------------------------===//
// Warps and barriers
//===----------------------------------------------------------------------===//

/// The lanes of the mask, which must all be here.
void checkMask(Warp &w, const Operand &operand, std::uint32_t here) {
  forLanes(here, [&](unsigned l) {
    auto mask = static_cast<std::uint32_t>(w.read(operand, l));
    if (here & ~mask)
      fail("a thread is not in its own mask");
    if (mask != here)
      fail("waits for threads of the warp that never come");
  });
}

void decodeShuffle(Instruction &in) {
  need(in, 5);
  std::string mode = in.words[2];
  in.execute = [ops = in.operands, mode](Warp &w, std::uint32_t here) {
    checkMask(w, ops[4], here);
    Bits values[32];
    forLanes(here, [&](unsigned l) { values[l] = w.read(ops[1], l); });
    forLanes(here, [&](unsigned l) {
      auto by = static_cast<unsigned>(w.read(ops[2], l)), clamp = static_cast<unsigned>(w.read(ops[3], l));
      unsigned segment = clamp >> 8 & 31, low = l & segment, bound = low | (clamp & 31 & ~segment), from;
      bool valid;
      if (mode == "up") {
        valid = l >= by && l - by >= bound;
        from = l - by;
      } else {
        from = mode == "down" ? l + by : mode == "bfly" ? l ^ by : (low | (by & 31 & ~segment));
        valid = from <= bound;
      }
      if (!valid)
        from = l;
      if (!(here >> from & 1))
        fail("shuffle from lane " + std::to_string(from) + ", which does not take part");
      w.write(ops[0], l, lowBits(values[from], 32));
      if (ops[0].second >= 0)
        w.reg(ops[0].second, l) = valid;
    });
  };
}

void decodeVote(Instruction &in) {
  need(in, 3);
  std::string mode = in.words[2];
  in.execute = [ops = in.operands, mode](Warp &w, std::uint32_t here) {
    checkMask(w, ops[2], here);
    std::uint32_t votes = 0;
    forLanes(here, [&](unsigned l) { votes |= static_cast<std::uint32_t>(w.read(ops[1], l) != 0) << l; });
    Bits result = mode == "ballot" ? votes
                  : mode == "all"  ? votes == here
                  : mode == "any"  ? votes != 0
                                   : votes == 0 || votes == here;
    forLanes(here, [&](unsigned l) { w.write(ops[0], l, result); });
  };
}

void decodeElect(Instruction &in) {
  need(in, 2);
  in.execute = [ops = in.operands](Warp &w, std::uint32_t here) {
    checkMask(w, ops[1], here);
    auto leader = static_cast<unsigned>(__builtin_ctz(here));
    forLanes(here, [&](unsigned l) {
      w.write(ops[0], l, leader);
      if (ops[0].second >= 0)
        w.reg(ops[0].second, l) = l == leader;
    });
  };
}

void decodeReduce(Instruction &in, Type type) {
  need(in, 3);
  std::string what = in.words[2];
  in.execute = [ops = in.operands, what, type](Warp &w, std::uint32_t here) {
    checkMask(w, ops[2], here);
    Bits result = 0;
    bool first = true;
    forLanes(here, [&](unsigned l) {
      Bits value = extend(w.read(ops[1], l), type);
      result = first           ? value
               : what == "add" ? result + value
               : what == "min" ? opExtreme<true, false>(result, value, type)
               : what == "max" ? opExtreme<false, false>(result, value, type)
               : what == "and" ? (result & value)
               : what == "or"  ? (result | value)
                               : (result ^ value);
      first = false;
    });
    forLanes(here, [&](unsigned l) { w.write(ops[0], l, lowBits(result, type.bits)); });
  };
}

/// match.any: the lanes that have the same value.
void decodeMatch(Instruction &in, Type type) {
  need(in, 3);
  if (in.words[1] != "any")
    fail("unknown instruction");
  in.execute = [ops = in.operands, type](Warp &w, std::uint32_t here) {
    checkMask(w, ops[2], here);
    std::array<Bits, 32> values{};
    forLanes(here, [&](unsigned l) { values[l] = lowBits(w.read(ops[1], l), type.bits); });
    forLanes(here, [&](unsigned l) {
      Bits same = 0;
      forLanes(here, [&](unsigned other) { same |= Bits(values[other] == values[l]) << other; });
      w.write(ops[0], l, same);
    });
  };
}

void decodeBarrier(Instruction &in) {
  if (in.words[1] == "warp") {
    // Orders the accesses of the warp's threads; shuffles and votes only bring them together.
    in.execute = [ops = in.operands](Warp &w, std::uint32_t here) {
      checkMask(w, ops[0], here);
      ++w.epoch;
    };
    return;
  }
  bool waits = !in.has("arrive"), cluster = in.has("cluster");
  if (in.has("red"))
    fail("unknown barrier");
  if (cluster && !waits) { // a cluster of one block: its threads meet when they wait
    in.execute = [](Warp &, std::uint32_t) {};
    return;
  }
  in.execute = [ops = in.operands, waits, cluster](Warp &w, std::uint32_t here) {
    if (here != w.live)
      fail("waits for threads of the warp that never come");
    Block &block = *w.block;
    auto number = static_cast<unsigned>(cluster || ops.empty() ? 0 : w.read(ops[0], 0));
    bool counted = !cluster && ops.size() > 1;
    auto count = static_cast<unsigned>(counted ? w.read(ops[1], 0) : 32 * block.warps.size());
    if (number > 15 || count % 32 != 0)
      fail("barriers are 0 to 15, and take whole warps");
    block.arrive(w, number, count, waits);
  };
}

void nothing(Warp &, std::uint32_t) {}

} // namespace

void decode(Instruction &in) {
  const std::string &name = in.words[0];
  if (name == "mma" || name == "wgmma" || name == "ldmatrix" || name == "stmatrix" || name == "movmatrix")
    return decodeTensorCore(in);
  if (name == "cp" || name == "mbarrier" || name == "fence" || name == "membar")
    return decodeAsync(in);
  if (name == "griddepcontrol" && in.has("wait")) {
    in.execute = [](Warp &w, std::uint32_t here) { w.waited |= here; };
    return;
  }
  if (name == "griddepcontrol" && in.has("launch_dependents")) {
    in.execute = nothing;
    return;
  }
  if (name == "setmaxnreg" || name == "nanosleep" || name == "prefetch" || name == "prefetchu") {
    in.execute = nothing;
    return;
  }
  if (name == "trap") {
    in.execute = [](Warp &, std::uint32_t) { fail("traps"); };
    return;
  }
  if (name == "bar" || name == "barrier")
    return decodeBarrier(in);
  if (name == "shfl")
    return decodeShuffle(in);
  if (name == "vote")
    return decodeVote(in);
  if (name == "elect")
    return decodeElect(in);
  if (name == "activemask") {
    in.execute = [d = in.operands[0]](Warp &w, std::uint32_t here) {
      forLanes(here, [&](unsigned l) { w.write(d, l, here); });
    };
    return;
  }
  if (name == "cvt")
    return decodeConvert(in);
  if (name == "cvta")
    return decodeConvertAddress(in);
  if (name == "createpolicy")
    return setResult(in, 64, [](Warp &, unsigned) { return Bits(0); });
  if (name == "mapa") // a cluster of one block
    return setResult(in, 64, [a = in.operands[1]](Warp &w, unsigned l) { return w.read(a, l); });

  Type type;
  if (in.words.size() < 2 || !parseType(in.words.back(), type))
    fail("unknown instruction");
  Type plain = type; // as bits
  plain.kind = 'u';
  bool high = in.has("hi"), wide = in.has("wide"), nanWins = in.has("NaN");
  int wideBits = wide ? 2 * type.bits : 0;
  if (in.has("cc"))
    fail("carry is not known");
  if (name == "mov")
    return decodeMove(in, type);
  if (name == "ld" || name == "st")
    return decodeLoadStore(in, type, name == "ld");
  if (name == "atom" || name == "red")
    return decodeAtomic(in, type, name == "atom");
  if (name == "setp")
    return decodeSetPredicate(in, type);
  if (name == "selp") {
    need(in, 4);
    return setResult(in, type.bits, [ops = in.operands](Warp &w, unsigned l) {
      return w.read(w.read(ops[3], l) ? ops[1] : ops[2], l);
    });
  }
  if (name == "redux")
    return decodeReduce(in, type);
  if (name == "match")
    return decodeMatch(in, type);
  if (name == "add")
    return setBinary(in, type, opAdd);
  if (name == "sub")
    return setBinary(in, type, opSub);
  if (name == "mul")
    return setBinary(in, type, high ? opMulHigh : opMul, wideBits);
  if (name == "mad" || name == "fma")
    return setTernary(in, type, high ? Ternary([](Bits a, Bits b, Bits c, Type t) { return opMulHigh(a, b, t) + c; }) : opFma,
                      wideBits);
  if (name == "div")
    return setBinary(in, type, opDiv);
  if (name == "rem")
    return setBinary(in, type, opRem);
  if (name == "min")
    return setBinary(in, type, nanWins ? opExtreme<true, true> : opExtreme<true, false>);
  if (name == "max")
    return setBinary(in, type, nanWins ? opExtreme<false, true> : opExtreme<false, false>);
  if (name == "and")
    return setBinary(in, plain, [](Bits a, Bits b, Type) { return a & b; });
  if (name == "or")
    return setBinary(in, plain, [](Bits a, Bits b, Type) { return a | b; });
  if (name == "xor")
    return setBinary(in, plain, [](Bits a, Bits b, Type) { return a ^ b; });
  if (name == "not")
    return setUnary(in, plain, [](Bits a, Type t) { return t.bits == 1 ? Bits(!a) : ~a; });
  if (name == "shl")
    return setBinary(in, plain, opShl);
  if (name == "shr")
    return setBinary(in, type, opShr);
  if (name == "abs")
    return setUnary(in, type, opAbs);
  if (name == "neg")
    return setUnary(in, type, opNeg);
  if (name == "copysign")
    return setBinary(in, type, opCopySign);
  static const std::map<std::string, double (*)(double)> functions = {
      {"ex2", [](double x) { return std::exp2(x); }},
      {"lg2", [](double x) { return std::log2(x); }},
      {"rcp", [](double x) { return 1 / x; }},
      {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
      {"sqrt", [](double x) { return std::sqrt(x); }},
      // The instruction's error of about 2^-11 is part of what it is.
      {"tanh", [](double x) { return std::tanh(x) * (1 + 4e-4); }},
      {"sin", [](double x) { return std::sin(x); }},
      {"cos", [](double x) { return std::cos(x); }}};
  if (auto it = functions.find(name); it != functions.end() && type.isFloat())
    return setUnary(in, type, [f = it->second](Bits a, Type t) {
      return onFloats(t, [&](int s) { return fromDouble(f(toDouble(a >> s, t)), t); });
    });
  decodeBits(in, name, type);
}

} // namespace k3::test::ptx
