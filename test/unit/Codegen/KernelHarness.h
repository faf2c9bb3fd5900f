//===- KernelHarness.h - compile one kernel in process and run it ---------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "lib/Reference/View.h"
#include "runtime/include/k3rt/abi.h"

#include "gtest/gtest.h"

#include <map>
#include <memory>
#include <random>
#include <string>

/// Text of a kernel -> passes of lib/Codegen/CPU -> shared object -> memfd -> dlopen -> run over its grid, as the runtime
/// does it, on buffers that are poisoned and fenced by unmapped pages.
namespace k3::test {

using ref::Index;
using ref::Vec;
using Shape = std::vector<Index>;

/// Memory that ends (up to alignment) at an unmapped page. The bytes around the data are checked when it is released.
class GuardedMemory {
public:
  static constexpr unsigned char poison = 0xFF; // NaN as f32 and as bf16, -1 as an index
  explicit GuardedMemory(std::size_t bytes);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory &) = delete;
  GuardedMemory &operator=(const GuardedMemory &) = delete;
  unsigned char *data() const { return start; }
  std::size_t size() const { return bytes; }

private:
  unsigned char *mapping, *start;
  std::size_t bytes, mapped;
};

/// A dense array of a kernel argument. Copies share their memory.
class Array {
public:
  static Array f32(Shape shape, const Vec &values);
  /// Rounded to nearest even; values() then gives the rounded values.
  static Array bf16(Shape shape, const Vec &values);
  static Array floats(bool asBf16, Shape shape, const Vec &values) {
    return asBf16 ? bf16(shape, values) : f32(shape, values);
  }
  static Array i32(Shape shape, const std::vector<std::int32_t> &values);
  static Array i8(Shape shape, const std::vector<std::uint8_t> &values);
  /// Poisoned, for destinations that the kernel must fill.
  static Array undefined(std::string dtype, Shape shape);
  /// An expert group: bound as a table of pointers to `members`, which have one shape.
  static Array table(const std::vector<Array> &members);

  const Shape &shape() const { return dims; }
  const std::string &dtype() const { return type; }
  bool isTable() const { return !members.empty(); }
  Index elements() const;
  void *data() const { return memory->data(); }
  /// f32 or bf16 elements as double.
  Vec values() const;
  std::vector<std::int32_t> ints() const;
  std::vector<unsigned char> bytes() const { return {memory->data(), memory->data() + memory->size()}; }

private:
  Array(std::string dtype, Shape shape);
  std::string type;
  Shape dims;
  std::shared_ptr<GuardedMemory> memory;
  std::vector<Array> members;
};

struct CompileOptions {
  std::string target = "host";
  /// Decompose also ops that have an emitter.
  bool forceGeneric = false;
  /// Tile sizes instead of the ones configure chooses.
  std::vector<Index> tiles;
};

/// The targets whose code this machine can run: its own, and narrower ones, down to one without FMA.
std::vector<std::string> runnableTargets();

/// Every way to compile an op that is worth a test: emitter and decomposition, for every runnable target. The
/// decomposition is checked for the widest and the narrowest target only.
std::vector<CompileOptions> allWays();
std::ostream &operator<<(std::ostream &stream, const CompileOptions &options);

class CompiledKernel;

/// A structured op, to be compiled as a kernel of its own: operands in the op's order.
class KernelSpec {
public:
  explicit KernelSpec(std::string op) : op(std::move(op)) {}
  /// `dynamic`: dimensions that are `?` in the type.
  KernelSpec &in(const Array &array, std::vector<int> dynamic = {});
  KernelSpec &index(); ///< an index operand
  KernelSpec &optional(std::string keyword, const Array &array, std::vector<int> dynamic = {});
  KernelSpec &out(const Array &array, std::vector<int> dynamic = {});
  KernelSpec &attr(std::string text);

  std::string text(const CompileOptions &options) const;
  /// Null, with a test failure, if it does not compile.
  std::unique_ptr<CompiledKernel> compile(const CompileOptions &options) const;

private:
  struct Operand {
    std::string type, keyword;
    bool isTable = false;
  };
  static Operand makeOperand(const Array &array, const std::vector<int> &dynamic);
  std::string op;
  std::vector<Operand> ins, optionals, outs;
  std::vector<std::string> attrs;
};

class CompiledKernel {
public:
  ~CompiledKernel();
  /// Runs the whole grid in a random order. `arrays` in the order of the operands without the index operands, which are
  /// in `indices`. Inputs must come out unchanged.
  void run(const std::vector<Array> &arrays, const std::vector<Index> &indices = {});
  std::uint64_t scratchBytes() const { return scratch; }
  const std::string &strategy() const { return strategyName; }

private:
  friend class KernelSpec;
  CompiledKernel() = default;
  struct GridLoop {
    Index tile;        ///< 0 = whole
    unsigned argument; ///< tensor argument and dimension that have the loop's size
    int dim;
    Index size;        ///< where the size is static and no argument is named
  };
  void *handle = nullptr;
  int file = -1;
  k3_kernel_fn function = nullptr;
  std::vector<GridLoop> grid;
  std::vector<std::vector<int>> dynamicDims; ///< per tensor argument
  std::size_t destinations = 0;
  std::uint64_t scratch = 0;
  std::string strategyName;
  std::mt19937 order{1};
};

/// Boundaries of sequences with the given numbers of tokens.
std::vector<std::int32_t> cumulate(const std::vector<Index> &lengths);

/// Largest absolute difference over the largest magnitude of `expected`; infinite where something is not finite.
double relativeError(const Vec &actual, const Vec &expected);

class Random {
public:
  explicit Random(unsigned seed) : engine(seed) {}
  Vec normal(Index size, double scale = 1);
  Vec uniform(Index size, double low, double high);
  Index integer(Index low, Index high); ///< inclusive
  std::vector<std::uint8_t> bytes(Index size, int low = 0, int high = 255);
  /// `count` different numbers below `limit`, in random order.
  std::vector<std::int32_t> distinct(Index count, Index limit);

private:
  std::mt19937_64 engine;
};

} // namespace k3::test
