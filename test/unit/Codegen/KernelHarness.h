//===- KernelHarness.h - compile one kernel in process and run it ---------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "lib/Reference/View.h"
#include "runtime/include/k3rt/abi.h"
#include "test/gpu/CaseFile.h"

#include "gtest/gtest.h"

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>

/// Text of a kernel -> passes of lib/Codegen/CPU -> shared object -> memfd -> dlopen -> run over its grid, as the runtime
/// does it, on buffers that are poisoned and fenced by unmapped pages.
///
/// Where K3_EXPORT_CASES names a JSON file to be written, kernels are compiled for a GPU instead, which need not be
/// there: every run and what is expected of it becomes a case of that file, for k3-gpu-player. A result counts as what it
/// is expected to be from where the test checks it, so that later runs can build on it. With K3_EXPORT_PTX, kernels are PTX
/// instead of cubins, for k3-ptx-player.
namespace k3::test {

using ref::Index;
using ref::Vec;
using Shape = std::vector<Index>;
/// A value for each element, 0 where any result will do; empty where all count.
using Mask = std::vector<unsigned char>;
using gpu::Tolerance;

/// Whether kernels are compiled for a GPU and their runs written to a file.
bool exporting();
/// Whether kernels are compiled for a GPU and their PTX is interpreted: where K3_SIMULATE_GPU is set.
bool simulating();
/// Whether kernels are for a GPU.
inline bool forGpu() { return exporting() || simulating(); }
/// The tolerance of results computed in other ways on a GPU.
inline double tolerate(double onCpu, double onGpu) { return forGpu() ? onGpu : onCpu; }
/// Types of a result that ops may have, whether it is bf16: GPUs store so what only products read that round it.
inline std::vector<bool> resultTypes() { return forGpu() ? std::vector<bool>{false, true} : std::vector<bool>{false}; }
/// Of a result that is rounded to bf16 if `bf16`: half of its last place, and what it was off before.
inline Tolerance tolerateStored(bool bf16, double ofLargest) { return {ofLargest, bf16 ? 1.0 / 256 : 0, 0}; }

/// Memory that ends (up to alignment) at an unmapped page. The bytes around the data are checked when it is released.
class GuardedMemory {
public:
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
  /// For export only: of any size, has no memory here. Poisoned, or filled with `period` values drawn, repeated.
  static Array onDevice(std::string dtype, Shape shape);
  static Array onDevice(std::string dtype, Shape shape, gpu::Draw draw, Index period);
  /// Another one with the same contents.
  static Array onDevice(const Array &like) { return Array(like.type, like.dims, like.remote); }

  const Shape &shape() const { return dims; }
  const std::string &dtype() const { return type; }
  bool isTable() const { return !members.empty(); }
  const std::vector<Array> &tableMembers() const { return members; }
  const std::optional<gpu::Content> &contentOnDevice() const { return remote; }
  Index elements() const;
  void *data() const { return memory->data(); }
  /// f32 or bf16 elements as double.
  Vec values() const;
  std::vector<std::int32_t> ints() const;
  std::vector<unsigned char> bytes() const { return {memory->data(), memory->data() + memory->size()}; }
  /// The bytes of another array of this type and shape.
  void assign(const std::vector<unsigned char> &bytes) const;

private:
  Array(std::string dtype, Shape shape, std::optional<gpu::Content> remote = std::nullopt);
  std::string type;
  Shape dims;
  std::shared_ptr<GuardedMemory> memory;
  std::vector<Array> members;
  std::optional<gpu::Content> remote;
};

/// Whether what the kernel left in `array` differs by no more than `ofLargest` times the largest magnitude expected.
::testing::AssertionResult isClose(const Array &array, const Vec &expected, double ofLargest, const Mask &mask = {});
::testing::AssertionResult isClose(const Array &array, const Vec &expected, Tolerance tolerance, const Mask &mask = {});
::testing::AssertionResult isEqual(const Array &array, const Vec &expected, const Mask &mask = {});
::testing::AssertionResult isEqual(const Array &array, const std::vector<std::int32_t> &expected, const Mask &mask = {});

/// When exporting, later runs, which may only read these, find there what the latest run leaves on the GPU, as they do here,
/// and not what it is expected to leave.
void passOn(const std::vector<Array> &arrays);

enum class Way { emitter, decomposition };

struct CompileOptions {
  std::string target = "host";
  /// Decompose also ops that have an emitter.
  bool forceGeneric = false;
  /// Tile sizes instead of the ones configure chooses.
  std::vector<Index> tiles;
  /// For export: decomposed only if there is no emitter.
  bool fastestOnly = false;
  /// For a GPU ("nvidia-sm90a"), whose kernels are interpreted: what the program is for, "prefill" or "decode".
  std::string phase = "prefill";
  bool isForGpu() const { return target.rfind("nvidia-", 0) == 0; }
};

/// The targets whose code this machine can run: its own, and narrower ones, down to one without FMA.
std::vector<std::string> runnableTargets();

/// Every way to compile an op that is worth a test: emitter and decomposition, for every runnable target. The
/// decomposition is checked for the widest and the narrowest target only. Where K3_SIMULATE_GPU is set: the emitters for
/// GPUs, in both phases, and the decomposition.
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
  /// A destination with a keyword, the first one.
  KernelSpec &optionalOut(std::string keyword, const Array &array, std::vector<int> dynamic = {});
  KernelSpec &attr(std::string text);
  /// f32 inputs of products are sums of so many bf16 on a GPU.
  KernelSpec &xTerms(int terms);
  /// Phases ("prefill", "decode") to compile for; both unless said. A kernel for decoding is left out of runs that bring
  /// other than one token for each sequence.
  KernelSpec &inPhases(std::vector<std::string> names);

  std::string text(const CompileOptions &options) const;
  /// Null, with a test failure, if it does not compile.
  std::unique_ptr<CompiledKernel> compile(const CompileOptions &options) const;

private:
  std::unique_ptr<CompiledKernel> compileForSimulation(const CompileOptions &options) const;
  std::unique_ptr<CompiledKernel> compileForExport(const CompileOptions &options) const;
  struct Operand {
    std::string type, keyword;
    bool isTable = false, isDestination = false;
  };
  std::vector<Operand> destinations() const;
  static Operand makeOperand(const Array &array, const std::vector<int> &dynamic);
  std::string op;
  std::vector<Operand> ins, optionals, outs;
  std::vector<std::string> attrs, phases{"prefill", "decode"};
  std::string moduleAttrs;
};

/// Workgroups along one axis of a kernel's grid.
struct GridAxis {
  Index tile = 0;        ///< of the dimension's size; 0 = whole
  unsigned argument = 0; ///< tensor argument and dimension that have the size
  int dim = -1;          ///< -1: there are `tile` workgroups
};

class CompiledKernel {
public:
  ~CompiledKernel();
  /// Runs the whole grid in a random order, or makes a case of it. `arrays` in the order of the operands without the index operands, which are
  /// in `indices`. Inputs must come out unchanged.
  void run(const std::vector<Array> &arrays, const std::vector<Index> &indices = {});
  std::uint64_t scratchBytes() const { return scratch; }
  /// On a GPU it depends on the shape which ops have an emitter: either way will do.
  bool isMadeBy(Way way) const {
    return exporting() || simulating() || (strategyName == "generic") == (way == Way::decomposition);
  }
  /// When exporting: whether an emitter made one of the kernels.
  bool hasEmitter() const { return emitted; }

private:
  friend class KernelSpec;
  CompiledKernel() = default;
  /// The same op by the emitter, if there is one, and by decomposition.
  struct GpuVariant {
    std::uint32_t kernel; ///< in the case file
    std::vector<GridAxis> grid;
    /// Decoding, every sequence brings one token: argument that has the boundaries, which must say so. -1: any batch.
    int boundaries = -1;
  };
  static std::array<std::uint32_t, 3> countWorkgroups(const std::vector<GridAxis> &grid,
                                                      const std::vector<Array> &arrays, Index least);
  void simulate(const std::vector<Array> &arrays, const std::vector<std::int64_t> &scalars);
  void *handle = nullptr;
  int file = -1;
  std::string ptx; ///< if it is interpreted
  std::uint32_t threads = 0, dynamicShared = 0;
  bool resident = false;
  std::vector<gpu::TensorMap> tensorMaps;
  k3_kernel_fn function = nullptr;
  std::vector<GridAxis> grid;
  std::vector<GpuVariant> variants; ///< when exporting; nothing above is set then
  bool emitted = false;
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
  explicit Random(unsigned seed) : seed(seed), engine(seed) {}
  Vec normal(Index size, double scale = 1);
  Vec uniform(Index size, double low, double high);
  Index integer(Index low, Index high); ///< inclusive
  std::vector<std::uint8_t> bytes(Index size, int low = 0, int high = 255);
  /// `count` different numbers below `limit`, in random order.
  std::vector<std::int32_t> distinct(Index count, Index limit);

private:
  Vec draw(gpu::Draw::Kind kind, Index size, double a, double b);
  std::uint64_t seed, calls = 0;
  std::mt19937_64 engine;
};

} // namespace k3::test
