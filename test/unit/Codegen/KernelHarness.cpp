//===- KernelHarness.cpp - compile one kernel in process and run it -------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Codegen/KernelHarness.h"
#include "dialects/k3/IR/ModelAttrs.h"
#include "lib/Codegen/CPU/CPUPipeline.h"
#include "lib/Codegen/Common/Kernels.h"
#include "lib/Codegen/GPU/GPUPipeline.h"
#include "lib/Support/Registration.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "test/unit/Codegen/PtxGpu.h"
#include "test/gpu/Compare.h"
#include "test/unit/Codegen/CaseExport.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <numeric>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace k3;
using namespace k3::test;

//===----------------------------------------------------------------------===//
// Arrays
//===----------------------------------------------------------------------===//

GuardedMemory::GuardedMemory(std::size_t bytes) : bytes(bytes) {
  const std::size_t page = 4096;
  std::size_t body = (bytes + page - 1) / page * page;
  mapped = body + 2 * page;
  mapping = static_cast<unsigned char *>(mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (body > 0)
    mprotect(mapping + page, body, PROT_READ | PROT_WRITE);
  start = mapping + page + (body - bytes) / 64 * 64;
  std::memset(mapping + page, gpu::poison, body);
}

GuardedMemory::~GuardedMemory() {
  const std::size_t page = 4096;
  const unsigned char *first = mapping + page, *last = mapping + mapped - page;
  bool intact = true;
  for (const unsigned char *p = first; p < last; ++p)
    if (p < start || p >= start + bytes)
      intact &= *p == gpu::poison;
  EXPECT_TRUE(intact) << "a kernel wrote next to a buffer of " << bytes << " bytes";
  munmap(mapping, mapped);
}

Array::Array(std::string dtype, Shape shape, std::optional<gpu::Content> remote)
    : type(std::move(dtype)), dims(std::move(shape)), remote(std::move(remote)) {
  memory = std::make_shared<GuardedMemory>(this->remote ? 0 : elements() * gpu::elementBytes(type));
}

Index Array::elements() const {
  Index n = 1;
  for (Index size : dims)
    n *= size;
  return n;
}

Array Array::f32(Shape shape, const Vec &values) {
  Array array("f32", std::move(shape));
  array.assign(gpu::encode("f32", values));
  return array;
}

Array Array::bf16(Shape shape, const Vec &values) {
  Array array("bf16", std::move(shape));
  array.assign(gpu::encode("bf16", values));
  return array;
}

Array Array::i32(Shape shape, const std::vector<std::int32_t> &values) {
  Array array("i32", std::move(shape));
  EXPECT_EQ(static_cast<Index>(values.size()), array.elements());
  std::memcpy(array.data(), values.data(), values.size() * 4);
  return array;
}

Array Array::i8(Shape shape, const std::vector<std::uint8_t> &values) {
  Array array("i8", std::move(shape));
  EXPECT_EQ(static_cast<Index>(values.size()), array.elements());
  std::memcpy(array.data(), values.data(), values.size());
  return array;
}

Array Array::undefined(std::string dtype, Shape shape) { return Array(std::move(dtype), std::move(shape)); }

Array Array::table(const std::vector<Array> &members) {
  Array array(members.at(0).dtype(), {});
  array.dims = members[0].shape();
  array.dims.insert(array.dims.begin(), static_cast<Index>(members.size()));
  array.members = members;
  array.memory = std::make_shared<GuardedMemory>(members.size() * sizeof(void *));
  for (std::size_t i = 0; i < members.size(); ++i)
    reinterpret_cast<void **>(array.data())[i] = members[i].data();
  return array;
}

Array Array::onDevice(std::string dtype, Shape shape) { return Array(std::move(dtype), std::move(shape), gpu::Content{}); }

Array Array::onDevice(std::string dtype, Shape shape, gpu::Draw draw, Index period) {
  gpu::Content content;
  content.kind = gpu::Content::Kind::drawn;
  content.draw = draw;
  content.period = static_cast<std::uint64_t>(period);
  return Array(std::move(dtype), std::move(shape), content);
}

void Array::assign(const std::vector<unsigned char> &bytes) const {
  ASSERT_EQ(bytes.size(), memory->size());
  std::copy(bytes.begin(), bytes.end(), memory->data());
}

Vec Array::values() const { return gpu::decode(type, memory->data(), static_cast<std::size_t>(elements())); }

std::vector<std::int32_t> Array::ints() const {
  auto *p = reinterpret_cast<std::int32_t *>(data());
  return {p, p + elements()};
}

::testing::AssertionResult k3::test::isClose(const Array &array, const Vec &expected, Tolerance tolerance,
                                             const Mask &mask) {
  if (CaseExport *cases = CaseExport::get())
    return cases->expect(array, expected, tolerance, mask);
  if (static_cast<Index>(expected.size()) != array.elements())
    return ::testing::AssertionFailure() << expected.size() << " values for " << array.elements() << " elements";
  gpu::Comparison result = gpu::compare(array.values(), expected, mask, tolerance);
  if (result.pass())
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "element " << result.at << " is " << result.got << " and should be "
                                       << result.expected << "; largest error " << result.relativeError
                                       << " of the largest element";
}

::testing::AssertionResult k3::test::isClose(const Array &array, const Vec &expected, double ofLargest,
                                             const Mask &mask) {
  return isClose(array, expected, Tolerance{ofLargest, 0, 0}, mask);
}

::testing::AssertionResult k3::test::isEqual(const Array &array, const Vec &expected, const Mask &mask) {
  return isClose(array, expected, Tolerance{}, mask);
}

::testing::AssertionResult k3::test::isEqual(const Array &array, const std::vector<std::int32_t> &expected,
                                             const Mask &mask) {
  return isEqual(array, Vec(expected.begin(), expected.end()), mask);
}

void k3::test::passOn(const std::vector<Array> &arrays) {
  if (CaseExport *cases = CaseExport::get())
    cases->passOn(arrays);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

bool k3::test::simulating() { return std::getenv("K3_SIMULATE_GPU") != nullptr; }

std::vector<std::string> k3::test::runnableTargets() {
  if (exporting())
    return {"nvidia-sm90a"};
  std::vector<std::string> targets = {"host"};
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    targets.push_back("x86-64-v4");
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    targets.push_back("x86-64-v3");
  targets.push_back("x86-64-v2");
  return targets;
}

std::vector<CompileOptions> k3::test::allWays() {
  if (exporting()) // one case has both ways
    return {{runnableTargets().front(), false, {}}};
  std::vector<std::string> targets = runnableTargets();
  std::vector<CompileOptions> ways;
  if (simulating()) {
    for (const char *phase : {"prefill", "decode"})
      ways.push_back({"nvidia-sm90a", false, {}, false, phase});
    ways.push_back({"nvidia-sm90a", true, {}, false, "prefill"});
    return ways;
  }
  for (const std::string &target : targets)
    ways.push_back({target, false, {}});
  ways.push_back({targets.front(), true, {}});
  ways.push_back({"x86-64-v2", true, {}});
  return ways;
}

std::ostream &k3::test::operator<<(std::ostream &stream, const CompileOptions &options) {
  if (options.isForGpu())
    stream << options.phase << ", ";
  return stream << options.target << (options.forceGeneric ? ", decomposed" : "");
}

KernelSpec::Operand KernelSpec::makeOperand(const Array &array, const std::vector<int> &dynamic) {
  Operand operand;
  operand.type = "tensor<";
  for (std::size_t dim = 0; dim < array.shape().size(); ++dim) {
    bool isDynamic = std::find(dynamic.begin(), dynamic.end(), static_cast<int>(dim)) != dynamic.end();
    operand.type += (isDynamic ? "?" : std::to_string(array.shape()[dim])) + "x";
  }
  operand.type += array.dtype() + ">";
  operand.isTable = array.isTable();
  return operand;
}

KernelSpec &KernelSpec::in(const Array &array, std::vector<int> dynamic) {
  ins.push_back(makeOperand(array, dynamic));
  return *this;
}
KernelSpec &KernelSpec::index() {
  ins.push_back({"index", "", false});
  return *this;
}
KernelSpec &KernelSpec::optional(std::string keyword, const Array &array, std::vector<int> dynamic) {
  optionals.push_back(makeOperand(array, dynamic));
  optionals.back().keyword = std::move(keyword);
  return *this;
}
KernelSpec &KernelSpec::out(const Array &array, std::vector<int> dynamic) {
  outs.push_back(makeOperand(array, dynamic));
  return *this;
}
KernelSpec &KernelSpec::optionalOut(std::string keyword, const Array &array, std::vector<int> dynamic) {
  optional(std::move(keyword), array, std::move(dynamic));
  optionals.back().isDestination = true;
  return *this;
}

std::vector<KernelSpec::Operand> KernelSpec::destinations() const {
  std::vector<Operand> all;
  std::copy_if(optionals.begin(), optionals.end(), std::back_inserter(all),
               [](const Operand &operand) { return operand.isDestination; });
  all.insert(all.end(), outs.begin(), outs.end());
  return all;
}

KernelSpec &KernelSpec::xTerms(int terms) {
  moduleAttrs = "k3.x_terms = " + std::to_string(terms) + " : i64";
  return *this;
}

KernelSpec &KernelSpec::attr(std::string text) {
  attrs.push_back(std::move(text));
  return *this;
}
KernelSpec &KernelSpec::inPhases(std::vector<std::string> names) {
  phases = std::move(names);
  return *this;
}

std::string KernelSpec::text(const CompileOptions &options) const {
  std::string parameters, results, returned;
  int next = 0;
  auto declare = [&](const Operand &operand) {
    std::string name = "%a" + std::to_string(next++);
    parameters += (parameters.empty() ? "" : ", ") + name + ": " + operand.type +
                  (operand.isTable ? " {k3.expert_group}" : "");
    return name;
  };
  auto list = [&](const std::vector<Operand> &operands) {
    std::string names, types;
    for (const Operand &operand : operands) {
      std::string comma = names.empty() ? "" : ", ";
      names += comma + declare(operand);
      types += comma + operand.type;
    }
    return "(" + names + " : " + types + ")";
  };
  std::string body = op + " ins" + list(ins);
  for (const Operand &operand : optionals)
    body += " " + operand.keyword + "(" + declare(operand) + " : " + operand.type + ")";
  body += " outs" + list(outs);
  std::vector<Operand> written = destinations();
  for (std::size_t i = 0; i < written.size(); ++i) {
    results += (i ? ", " : "") + written[i].type;
    returned += (i ? ", " : "") + ("%r#" + std::to_string(i));
  }
  std::vector<std::string> all = attrs;
  if (!options.tiles.empty() && !exporting() && !options.isForGpu()) { // tiles are chosen for CPUs
    std::string tiles;
    for (Index tile : options.tiles)
      tiles += (tiles.empty() ? "" : ", ") + std::to_string(tile);
    all.push_back("kernel_config = #k3.kernel_config<tiles = [" + tiles + "], strategy = \"" +
                  (options.forceGeneric ? "generic" : "vector") + "\">");
  }
  std::string attributes;
  for (const std::string &attr : all)
    attributes += (attributes.empty() ? "" : ", ") + attr;
  return "module attributes {" + moduleAttrs + "} {\nfunc.func private @kernel(" + parameters + ") -> (" + results + ") attributes {k3.kernel} {\n  %r:" +
         std::to_string(written.size()) + " = " + body + " {" + attributes + "} -> " + results + "\n  return " + returned +
         " : " + results + "\n}\n}\n";
}

static mlir::MLIRContext &getContext() {
  static auto *context = [] {
    mlir::DialectRegistry registry;
    mlir::k3::registerAllK3Dialects(registry);
    auto *made = new mlir::MLIRContext(registry);
    made->loadAllAvailableDialects();
    return made;
  }();
  return *context;
}

/// `fd` stays open as long as the handle: dlopen takes a path that it has loaded for the same object, so a descriptor's
/// number must not come back for another kernel.
static void *loadElf(const llvm::SmallVector<char> &elf, int &fd) {
  fd = memfd_create("kernel", 0);
  if (fd < 0 || write(fd, elf.data(), elf.size()) != static_cast<ssize_t>(elf.size()))
    return nullptr;
  std::string path = "/proc/self/fd/" + std::to_string(fd);
  return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

/// Per tensor argument.
static std::vector<std::vector<int>> getDynamicDims(mlir::func::FuncOp func) {
  std::vector<std::vector<int>> dims;
  for (mlir::Type type : func.getArgumentTypes())
    if (auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type)) {
      dims.emplace_back();
      for (int dim = 0; dim < tensor.getRank(); ++dim)
        if (tensor.isDynamicDim(dim))
          dims.back().push_back(dim);
    }
  return dims;
}

/// Position among the arguments that are tensors.
static unsigned getTensorNumber(mlir::BlockArgument argument) {
  return static_cast<unsigned>(
      llvm::count_if(argument.getOwner()->getArguments().take_front(argument.getArgNumber()),
                     [](mlir::BlockArgument before) { return llvm::isa<mlir::RankedTensorType>(before.getType()); }));
}

static GridAxis makeGridAxis(mlir::Operation *root, llvm::StringRef dimension, Index tile) {
  GridAxis axis;
  axis.tile = tile;
  for (mlir::OpOperand &operand : root->getOpOperands())
    for (auto [dim, name] : llvm::enumerate(mlir::k3::getDimNames(root, operand.getOperandNumber())))
      if (name.name == dimension && !name.atLeast && axis.dim < 0) {
        axis.argument = getTensorNumber(llvm::cast<mlir::BlockArgument>(operand.get()));
        axis.dim = static_cast<int>(dim);
      }
  return axis;
}

std::unique_ptr<CompiledKernel> KernelSpec::compile(const CompileOptions &options) const {
  if (exporting())
    return compileForExport(options);
  if (options.isForGpu())
    return compileForSimulation(options);
  std::string source = text(options), messages;
  mlir::MLIRContext &context = getContext();
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    messages += diagnostic.str() + "\n";
    return mlir::success();
  });
  auto fail = [&](const char *what) {
    ADD_FAILURE() << what << ": " << messages << "\n" << source;
    return nullptr;
  };
  auto target = mlir::k3::TargetModel::parse(options.target);
  if (!target)
    return fail(llvm::toString(target.takeError()).c_str());
  auto module = mlir::parseSourceString<mlir::ModuleOp>(source, &context);
  if (!module)
    return fail("does not parse");
  (*module)->setAttr(mlir::k3::targetAttrName, target->toAttr(&context));

  mlir::PassManager configure(&context);
  mlir::k3::buildConfigurePipeline(configure, options.forceGeneric);
  if (mlir::failed(configure.run(*module)))
    return fail("cannot be configured");
  std::unique_ptr<CompiledKernel> kernel(new CompiledKernel);
  auto func = *module->getOps<mlir::func::FuncOp>().begin();
  auto root = *mlir::k3::getKernelRoot(func);
  mlir::k3::KernelConfigAttr config = mlir::k3::getKernelConfig(root);
  kernel->strategyName = config.getStrategy().str();
  kernel->dynamicDims = getDynamicDims(func);
  for (auto [tile, loop] : llvm::zip_equal(config.getTiles(), mlir::k3::getLoopNames(root)))
    kernel->grid.push_back(makeGridAxis(root, loop, tile));
  kernel->destinations = destinations().size();

  mlir::PassManager pipeline(&context);
  mlir::k3::buildKernelsPipeline(pipeline);
  if (mlir::failed(pipeline.run(*module)))
    return fail("cannot be lowered");
  kernel->scratch = mlir::k3::getScratchBytes(*module, "kernel");
  auto elf = mlir::k3::emitElf(*module, *target, {"kernel"});
  if (mlir::failed(elf))
    return fail("cannot be emitted");
  kernel->handle = loadElf(*elf, kernel->file);
  if (!kernel->handle)
    return fail(dlerror());
  auto *executable = static_cast<const k3_executable *>(dlsym(kernel->handle, K3_EXECUTABLE_SYMBOL));
  if (!executable || executable->abi_version != K3_ABI_VERSION || executable->kernel_count != 1)
    return fail("exports no usable k3_executable");
  kernel->function = executable->kernels[0];
  return kernel;
}

namespace {

/// A kernel compiled for a GPU, to a cubin or only to PTX.
struct GpuCode {
  gpu::Kernel kernel;
  std::string cubin, ptx;
  std::vector<GridAxis> grid;
  std::vector<std::vector<int>> dynamicDims;
  mlir::k3::KernelConfigAttr config;
  int boundaries = -1; ///< argument `cu`
};

} // namespace

/// "k3.mla.attend" by "rows" -> mla_attend_rows
static std::string makeEntryName(const gpu::Kernel &kernel) {
  std::string name = kernel.op.substr(kernel.op.find('.') + 1) + "_" + kernel.strategy;
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

/// Configures and, if `wanted` likes the config, compiles the kernel of `source`. Null without an error in `messages`:
/// not wanted.
static std::optional<GpuCode> compileForGpu(const std::string &source, const mlir::k3::GpuTarget &target,
                                            mlir::k3::Phase phase, bool generic, bool assemble,
                                            llvm::function_ref<bool(mlir::k3::KernelConfigAttr)> wanted) {
  mlir::MLIRContext &context = getContext();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(source, &context);
  if (!module)
    return std::nullopt;
  (*module)->setAttr(mlir::k3::targetAttrName, target.toAttr(&context));
  auto func = *module->getOps<mlir::func::FuncOp>().begin();
  func->setAttr(mlir::k3::kPhaseAttr, mlir::k3::PhaseAttr::get(&context, phase));
  mlir::PassManager configure(&context);
  mlir::k3::buildGpuConfigurePipeline(configure, generic);
  if (mlir::failed(configure.run(*module)))
    return std::nullopt;
  auto root = *mlir::k3::getKernelRoot(func);
  GpuCode code;
  code.config = mlir::k3::getKernelConfig(root);
  if (!wanted(code.config))
    return std::nullopt;
  code.dynamicDims = getDynamicDims(func);
  for (mlir::OpOperand &operand : root->getOpOperands())
    if (mlir::k3::getOperandName(root, operand.getOperandNumber()) == "cu")
      code.boundaries = static_cast<int>(getTensorNumber(llvm::cast<mlir::BlockArgument>(operand.get())));
  if (code.config.getGrid().empty())
    for (auto [tile, loop] : llvm::zip_equal(code.config.getTiles(), mlir::k3::getLoopNames(root)))
      code.grid.push_back(makeGridAxis(root, loop, tile));
  for (mlir::k3::GridDimAttr dim : code.config.getGrid())
    code.grid.push_back(makeGridAxis(root, dim.getName(), dim.getTile()));
  gpu::Kernel &kernel = code.kernel;
  kernel.op = root->getName().getStringRef().str();
  kernel.strategy = code.config.getStrategy().str();
  if (assemble) // what looks on at a GPU says only this of a kernel
    func.setSymName(makeEntryName(kernel));
  kernel.entry = func.getName().str();
  kernel.threads = static_cast<std::uint32_t>(code.config.getThreads());
  kernel.cluster = static_cast<std::uint32_t>(code.config.getCluster());
  for (mlir::k3::TensorMapAttr map : code.config.getTensorMaps())
    kernel.tensorMaps.push_back({static_cast<std::uint32_t>(map.getBinding()),
                                 {map.getBox().begin(), map.getBox().end()},
                                 static_cast<std::uint32_t>(map.getSwizzle())});

  mlir::PassManager pipeline(&context);
  mlir::k3::buildGpuKernelsPipeline(pipeline);
  if (mlir::failed(pipeline.run(*module)))
    return std::nullopt;
  kernel.dynamicSharedBytes = static_cast<std::uint32_t>(mlir::k3::getSharedBytes(*module, kernel.entry));
  kernel.startsEarly = mlir::k3::startsEarly(*module, kernel.entry);
  EXPECT_TRUE(kernel.startsEarly) << "every kernel waits for the one in front of it";
  kernel.resident = mlir::k3::isResident(*module, kernel.entry);
  if (!assemble) {
    auto ptx = mlir::k3::emitPtx(*module, target, {kernel.entry});
    if (mlir::failed(ptx))
      return std::nullopt;
    code.ptx = *ptx;
    return code;
  }
  auto cubin = mlir::k3::emitCubin(*module, target, {kernel.entry});
  if (mlir::failed(cubin))
    return std::nullopt;
  code.cubin.assign(cubin->bytes.begin(), cubin->bytes.end());
  const mlir::k3::KernelResources &resources = cubin->resources.front();
  kernel.registers = static_cast<std::uint32_t>(resources.registers);
  kernel.staticSharedBytes = static_cast<std::uint32_t>(resources.staticSharedBytes);
  kernel.spillBytes = static_cast<std::uint32_t>(resources.spillBytes);
  kernel.stackBytes = static_cast<std::uint32_t>(resources.stackBytes);
  return code;
}

std::unique_ptr<CompiledKernel> KernelSpec::compileForExport(const CompileOptions &options) const {
  std::string source = text(options), messages;
  mlir::ScopedDiagnosticHandler handler(&getContext(), [&](mlir::Diagnostic &diagnostic) {
    messages += diagnostic.str() + "\n";
    return mlir::success();
  });
  llvm::Expected<mlir::k3::GpuTarget> target = mlir::k3::GpuTarget::parse(options.target);
  if (!target) {
    ADD_FAILURE() << llvm::toString(target.takeError());
    return nullptr;
  }
  std::unique_ptr<CompiledKernel> kernel(new CompiledKernel);
  kernel->destinations = destinations().size();
  std::vector<mlir::Attribute> configs;
  auto isNew = [&](mlir::k3::KernelConfigAttr config) {
    bool known = llvm::is_contained(configs, mlir::Attribute(config));
    configs.push_back(config);
    return !known;
  };
  std::vector<std::pair<mlir::k3::Phase, bool>> ways; // phase, decomposed
  if (!options.forceGeneric)
    for (const std::string &phase : phases)
      ways.emplace_back(phase == "decode" ? mlir::k3::Phase::decode : mlir::k3::Phase::prefill, false);
  ways.emplace_back(mlir::k3::Phase::prefill, true);
  for (auto [phase, generic] : ways) {
    if (generic && kernel->emitted && options.fastestOnly)
      continue;
    messages.clear();
    // Interpreters, which have no ptxas, take PTX for cubins.
    bool asPtx = std::getenv("K3_EXPORT_PTX") != nullptr;
    std::optional<GpuCode> code = compileForGpu(source, *target, phase, generic, /*assemble=*/!asPtx, isNew);
    if (!code && !messages.empty())
      ADD_FAILURE() << messages << source;
    if (!code)
      continue;
    kernel->emitted |= code->kernel.strategy != "generic";
    kernel->dynamicDims = code->dynamicDims;
    kernel->variants.push_back({CaseExport::get()->addKernel(code->kernel, asPtx ? code->ptx : code->cubin), code->grid,
                                phase == mlir::k3::Phase::decode ? code->boundaries : -1});
  }
  if (kernel->variants.empty())
    return nullptr;
  return kernel; // one way that does not compile must not keep the others from the GPU
}

std::unique_ptr<CompiledKernel> KernelSpec::compileForSimulation(const CompileOptions &options) const {
  std::string source = text(options), messages;
  mlir::ScopedDiagnosticHandler handler(&getContext(), [&](mlir::Diagnostic &diagnostic) {
    messages += diagnostic.str() + "\n";
    return mlir::success();
  });
  auto phase = options.phase == "decode" ? mlir::k3::Phase::decode : mlir::k3::Phase::prefill;
  std::optional<GpuCode> code =
      compileForGpu(source, llvm::cantFail(mlir::k3::GpuTarget::parse(options.target)), phase, options.forceGeneric,
                    /*assemble=*/false, [](mlir::k3::KernelConfigAttr) { return true; });
  if (!code) {
    ADD_FAILURE() << messages << "\n" << source;
    return nullptr;
  }
  std::unique_ptr<CompiledKernel> kernel(new CompiledKernel);
  kernel->strategyName = code->kernel.strategy;
  kernel->dynamicDims = code->dynamicDims;
  kernel->grid = code->grid;
  kernel->destinations = destinations().size();
  kernel->threads = code->kernel.threads;
  kernel->dynamicShared = code->kernel.dynamicSharedBytes;
  kernel->resident = code->kernel.resident;
  kernel->tensorMaps = code->kernel.tensorMaps;
  kernel->ptx = code->ptx;
  return kernel;
}

void CompiledKernel::simulate(const std::vector<Array> &arrays, const std::vector<std::int64_t> &scalars) {
  auto bytesOf = [](const auto &value) {
    auto *p = reinterpret_cast<const std::uint8_t *>(&value);
    return std::vector<std::uint8_t>(p, p + sizeof value);
  };
  PtxMachine::Launch launch;
  launch.kernel = "kernel";
  launch.grid = countWorkgroups(grid, arrays, 1);
  launch.threads = threads;
  launch.dynamicShared = dynamicShared;
  launch.seed = order();
  if (resident)
    makeResident(launch);
  std::vector<PtxMachine::Region> memory;
  auto allow = [&](const Array &array, bool writable) {
    auto begin = reinterpret_cast<std::uint64_t>(array.data());
    memory.push_back({begin, begin + array.bytes().size(), writable});
  };
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    launch.params.push_back(bytesOf(arrays[i].data()));
    allow(arrays[i], i + destinations >= arrays.size());
    for (const Array &member : arrays[i].tableMembers())
      allow(member, false);
  }
  for (std::int64_t scalar : scalars)
    launch.params.push_back(bytesOf(scalar));
  for (const gpu::TensorMap &map : tensorMaps) {
    const Array &array = arrays[map.argument];
    launch.params.push_back(
        bytesOf(makeTensorMap(array.data(), array.dtype(), array.shape(), map.box, map.swizzle)));
  }
  EXPECT_EQ(simulatePtx(ptx, launch, memory), "");
}

CompiledKernel::~CompiledKernel() {
  if (handle)
    dlclose(handle);
  if (file >= 0)
    close(file);
}

std::array<std::uint32_t, 3> CompiledKernel::countWorkgroups(const std::vector<GridAxis> &grid,
                                                            const std::vector<Array> &arrays, Index least) {
  std::array<std::uint32_t, 3> count{1, 1, 1};
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const GridAxis &axis = grid[i];
    Index workgroups = axis.dim < 0 ? axis.tile : axis.tile == 0 ? 1
                       : (arrays[axis.argument].shape()[axis.dim] + axis.tile - 1) / axis.tile;
    count[i] = static_cast<std::uint32_t>(std::max(least, workgroups));
  }
  return count;
}

void CompiledKernel::run(const std::vector<Array> &arrays, const std::vector<Index> &indices) {
  ASSERT_EQ(arrays.size(), dynamicDims.size());
  std::vector<std::int64_t> scalars;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    for (int dim : dynamicDims[i])
      scalars.push_back(arrays[i].shape()[dim]);
  scalars.insert(scalars.end(), indices.begin(), indices.end());
  if (!ptx.empty())
    return simulate(arrays, scalars);
  if (CaseExport *cases = CaseExport::get()) {
    std::vector<gpu::Variant> launches;
    for (const GpuVariant &variant : variants) {
      if (variant.boundaries >= 0) {
        std::vector<std::int32_t> cu = arrays[variant.boundaries].ints(), oneEach(cu.size());
        std::iota(oneEach.begin(), oneEach.end(), 0);
        if (cu != oneEach)
          continue;
      }
      launches.push_back({variant.kernel, countWorkgroups(variant.grid, arrays, 1)});
    }
    if (!launches.empty())
      cases->addRun(launches, arrays, destinations, scalars);
    return;
  }

  std::vector<void *> bindings;
  std::vector<std::vector<unsigned char>> before;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    bindings.push_back(arrays[i].data());
    if (i + destinations < arrays.size())
      before.push_back(arrays[i].bytes());
  }
  k3_kernel_args args{bindings.data(), scalars.data()};
  std::array<std::uint32_t, 3> count = countWorkgroups(grid, arrays, 0);
  std::vector<k3_workgroup> workgroups;
  for (std::uint32_t z = 0; z < count[2]; ++z)
    for (std::uint32_t y = 0; y < count[1]; ++y)
      for (std::uint32_t x = 0; x < count[0]; ++x)
        workgroups.push_back({{x, y, z}, {count[0], count[1], count[2]}, nullptr, scratch});
  std::shuffle(workgroups.begin(), workgroups.end(), order);
  for (k3_workgroup &workgroup : workgroups) {
    GuardedMemory memory(scratch);
    workgroup.scratch = memory.data();
    ASSERT_EQ(function(&args, &workgroup), 0);
  }
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(before[i] == arrays[i].bytes()) << "the kernel changed its input " << i;
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

std::vector<std::int32_t> k3::test::cumulate(const std::vector<Index> &lengths) {
  std::vector<std::int32_t> cu = {0};
  for (Index length : lengths)
    cu.push_back(static_cast<std::int32_t>(cu.back() + length));
  return cu;
}

double k3::test::relativeError(const Vec &actual, const Vec &expected) {
  if (actual.size() != expected.size())
    return INFINITY;
  double error = 0, scale = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    double difference = std::abs(actual[i] - expected[i]);
    if (!std::isfinite(difference))
      return INFINITY;
    error = std::max(error, difference);
    scale = std::max(scale, std::abs(expected[i]));
  }
  return error == 0 ? 0 : error / (scale > 0 ? scale : 1);
}

Vec Random::draw(gpu::Draw::Kind kind, Index size, double a, double b) {
  gpu::Draw draw{kind, seed, ++calls, a, b};
  Vec values = draw.values(static_cast<std::size_t>(size));
  if (CaseExport *cases = CaseExport::get())
    cases->noteDraw(draw, values);
  return values;
}

Vec Random::normal(Index size, double scale) { return draw(gpu::Draw::Kind::normal, size, scale, 0); }

Vec Random::uniform(Index size, double low, double high) { return draw(gpu::Draw::Kind::uniform, size, low, high); }

Index Random::integer(Index low, Index high) { return std::uniform_int_distribution<Index>(low, high)(engine); }

std::vector<std::int32_t> Random::distinct(Index count, Index limit) {
  std::vector<std::int32_t> all(limit);
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), engine);
  all.resize(count);
  return all;
}

std::vector<std::uint8_t> Random::bytes(Index size, int low, int high) {
  Vec values = draw(gpu::Draw::Kind::integer, size, low, high);
  return {values.begin(), values.end()};
}
