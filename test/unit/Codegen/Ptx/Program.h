//===- Program.h - parsed PTX ---------------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "test/unit/Codegen/PtxMachine.h"

#include <functional>

namespace k3::test {
namespace ptx {

using Bits = std::uint64_t;

struct Warp;

[[noreturn]] void fail(const std::string &message);

/// Where generic pointers to shared memory live.
constexpr Bits sharedWindow = Bits(1) << 62;

enum class Special {
  None, TidX, NtidX, CtaX, CtaY, CtaZ, NctaX, NctaY, NctaZ, Lane, WarpNumber, Zero, One
};

struct Operand {
  enum Kind { Sink, Register, Immediate, SpecialRegister, Address, Vector, Param, Symbol } kind = Sink;
  int reg = -1;               ///< Register, or base of an Address (-1: none)
  int second = -1;            ///< p|q: register q
  Bits value = 0;             ///< Immediate; offset of an Address; offset of a Param
  Special special = Special::None;
  bool negated = false;       ///< a predicate written !p
  std::vector<Operand> parts; ///< Vector; coordinates of a tensor Address
  std::string symbol;         ///< Symbol, or base of an Address: a variable, until all are known
};

struct Instruction {
  std::vector<std::string> words; ///< of the opcode
  std::string text;               ///< for messages
  int line = 0;
  std::vector<Operand> operands;
  int predicate = -1;
  bool predicateNegated = false;
  enum Flow { Next, Branch, Exit } flow = Next;
  std::string label;
  int target = -1, reconverge = -1; ///< of a branch; where its two ways meet again
  bool wholeWarp = false; ///< all threads of the warp must come to it together
  std::function<void(Warp &, std::uint32_t mask)> execute;

  bool has(const char *word) const {
    for (std::size_t i = 1; i < words.size(); ++i)
      if (words[i] == word)
        return true;
    return false;
  }
};

struct Parameter {
  std::string name;
  std::size_t offset, size;
};

struct Kernel {
  std::string name;
  std::vector<Parameter> params;
  std::size_t paramBytes = 0;
  int registers = 0;
  bool startsEarly = false; ///< it has a griddepcontrol.wait
  std::vector<Instruction> code;
};

/// These set `execute`; they fail with a message if the instruction is unknown.
void decode(Instruction &in);
void decodeTensorCore(Instruction &in); ///< mma, wgmma, ldmatrix, stmatrix, movmatrix
void decodeAsync(Instruction &in);      ///< cp.async, mbarrier, fences

} // namespace ptx

struct PtxProgram {
  std::map<std::string, ptx::Kernel> kernels;
  std::uint64_t sharedStatic = 0; ///< bytes before the dynamic part
  /// Initialised variables in global or constant memory.
  std::map<std::string, std::unique_ptr<std::vector<std::uint8_t>>> globals;
};

namespace ptx {
std::unique_ptr<PtxProgram> parse(const std::string &text);
}

} // namespace k3::test
