//===- CudaGpu.cpp - cases on a CUDA device --------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/gpu/CudaGpu.h"
#include "test/gpu/Cublas.h"

#include <algorithm>
#include <dlfcn.h>

using namespace k3::gpu;

namespace {

// The part of the driver's interface that is used, as its documentation has it: no CUDA header is needed.
using Result = int;
using DevicePointer = std::uint64_t;
using Handle = void *;
struct LaunchAttribute {
  std::uint32_t id, pad;
  union {
    char bytes[64];
    struct {
      std::uint32_t x, y, z;
    } cluster;
    int flag;
  };
};
struct LaunchConfig {
  std::uint32_t gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  Handle stream;
  LaunchAttribute *attributes;
  std::uint32_t attributeCount;
};
struct alignas(64) EncodedMap {
  std::uint64_t words[16];
};
enum : int {
  attributeMultiprocessors = 16,
  attributeMajor = 75,
  attributeMinor = 76,
  functionDynamicShared = 8,
  functionLargeClusters = 14,
  launchCooperative = 2,
  launchCluster = 4,
  launchEarly = 6,
  captureThreadLocal = 1,
};
/// Errors from which a context does not recover; what comes after reports them again.
constexpr Result firstLost = 700, lastLost = 719, unknownError = 999, hardwareErrors[] = {214, 220};

struct Driver {
  Result (*init)(unsigned);
  Result (*driverGetVersion)(int *);
  Result (*getErrorName)(Result, const char **);
  Result (*getErrorString)(Result, const char **);
  Result (*deviceGet)(int *, int);
  Result (*deviceGetName)(char *, int, int);
  Result (*deviceGetAttribute)(int *, int, int);
  Result (*primaryCtxRetain)(Handle *, int);
  Result (*ctxSetCurrent)(Handle);
  Result (*streamCreate)(Handle *, unsigned);
  Result (*streamSynchronize)(Handle);
  Result (*memAlloc)(DevicePointer *, std::size_t);
  Result (*memFree)(DevicePointer);
  Result (*copyToDevice)(DevicePointer, const void *, std::size_t, Handle);
  Result (*copyToHost)(void *, DevicePointer, std::size_t, Handle);
  Result (*copyOnDevice)(DevicePointer, DevicePointer, std::size_t, Handle);
  Result (*memset)(DevicePointer, unsigned char, std::size_t, Handle);
  Result (*moduleLoadData)(Handle *, const void *);
  Result (*moduleGetFunction)(Handle *, Handle, const char *);
  Result (*funcSetAttribute)(Handle, int, int);
  Result (*launchKernelEx)(const LaunchConfig *, Handle, void **, void **);
  Result (*tensorMapEncodeTiled)(EncodedMap *, int, std::uint32_t, void *, const std::uint64_t *, const std::uint64_t *,
                                 const std::uint32_t *, const std::uint32_t *, int, int, int, int);
  Result (*beginCapture)(Handle, int);
  Result (*endCapture)(Handle, Handle *);
  Result (*graphInstantiate)(Handle *, Handle, unsigned long long);
  Result (*graphLaunch)(Handle, Handle);
  Result (*graphExecDestroy)(Handle);
  Result (*graphDestroy)(Handle);
  Result (*eventCreate)(Handle *, unsigned);
  Result (*eventRecord)(Handle, Handle);
  Result (*eventElapsedTime)(float *, Handle, Handle);

  Driver() {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
      throw GpuError("no CUDA driver: " + std::string(dlerror()), true);
    auto find = [&](auto &function, const char *name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (!function)
        throw GpuError(std::string("the CUDA driver is too old: it has no ") + name, true);
    };
    find(init, "cuInit");
    find(driverGetVersion, "cuDriverGetVersion");
    find(getErrorName, "cuGetErrorName");
    find(getErrorString, "cuGetErrorString");
    find(deviceGet, "cuDeviceGet");
    find(deviceGetName, "cuDeviceGetName");
    find(deviceGetAttribute, "cuDeviceGetAttribute");
    find(primaryCtxRetain, "cuDevicePrimaryCtxRetain");
    find(ctxSetCurrent, "cuCtxSetCurrent");
    find(streamCreate, "cuStreamCreate");
    find(streamSynchronize, "cuStreamSynchronize");
    find(memAlloc, "cuMemAlloc_v2");
    find(memFree, "cuMemFree_v2");
    find(copyToDevice, "cuMemcpyHtoDAsync_v2");
    find(copyToHost, "cuMemcpyDtoHAsync_v2");
    find(copyOnDevice, "cuMemcpyDtoDAsync_v2");
    find(memset, "cuMemsetD8Async");
    find(moduleLoadData, "cuModuleLoadData");
    find(moduleGetFunction, "cuModuleGetFunction");
    find(funcSetAttribute, "cuFuncSetAttribute");
    find(launchKernelEx, "cuLaunchKernelEx");
    find(tensorMapEncodeTiled, "cuTensorMapEncodeTiled");
    find(beginCapture, "cuStreamBeginCapture_v2");
    find(endCapture, "cuStreamEndCapture");
    find(graphInstantiate, "cuGraphInstantiateWithFlags");
    find(graphLaunch, "cuGraphLaunch");
    find(graphExecDestroy, "cuGraphExecDestroy");
    find(graphDestroy, "cuGraphDestroy");
    find(eventCreate, "cuEventCreate");
    find(eventRecord, "cuEventRecord");
    find(eventElapsedTime, "cuEventElapsedTime");
  }
};

class CudaGpu : public Gpu {
public:
  explicit CudaGpu(int ordinal) {
    check(d.init(0), "starting the driver");
    check(d.deviceGet(&device, ordinal), "device " + std::to_string(ordinal));
    Handle context;
    check(d.primaryCtxRetain(&context, device), "device " + std::to_string(ordinal));
    check(d.ctxSetCurrent(context), "the context");
    check(d.streamCreate(&stream, 1), "a stream");
    check(d.eventCreate(&start, 0), "an event");
    check(d.eventCreate(&stop, 0), "an event");
    multiprocessors = static_cast<std::uint32_t>(attribute(attributeMultiprocessors));
    char text[128] = "";
    int version = 0;
    check(d.deviceGetName(text, sizeof text, device), "the device's name");
    check(d.driverGetVersion(&version), "the driver's version");
    label = std::string(text) + " (sm_" + std::to_string(attribute(attributeMajor)) +
            std::to_string(attribute(attributeMinor)) + ", " + std::to_string(multiprocessors) +
            " multiprocessors, CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10) +
            ")";
  }

  std::string name() const override { return label; }
  Address allocate(std::uint64_t bytes) override {
    Address memory = 0;
    check(d.memAlloc(&memory, bytes), "allocating " + std::to_string(bytes) + " bytes");
    return memory;
  }
  void release(Address memory) override {
    finish();
    check(d.memFree(memory), "releasing memory");
  }
  // Host memory is not pinned: these return when it may be used again.
  void upload(Address to, const void *from, std::uint64_t bytes) override {
    if (bytes)
      check(d.copyToDevice(to, from, bytes, stream), "a copy to the device");
    finish();
  }
  void download(void *to, Address from, std::uint64_t bytes) override {
    if (bytes)
      check(d.copyToHost(to, from, bytes, stream), "a copy to the host");
    finish();
  }
  void copy(Address to, Address from, std::uint64_t bytes) override {
    if (bytes)
      check(d.copyOnDevice(to, from, bytes, stream), "a copy on the device");
  }
  void fill(Address to, unsigned char byte, std::uint64_t bytes) override {
    if (bytes)
      check(d.memset(to, byte, bytes, stream), "filling memory");
  }

  Function load(const Kernel &kernel, const unsigned char *cubin, std::uint64_t) override {
    Handle module, function;
    check(d.moduleLoadData(&module, cubin), "loading the code of " + kernel.op);
    check(d.moduleGetFunction(&function, module, kernel.entry.c_str()), "looking for " + kernel.entry);
    if (kernel.dynamicSharedBytes > 48 * 1024)
      check(d.funcSetAttribute(function, functionDynamicShared, static_cast<int>(kernel.dynamicSharedBytes)),
            std::to_string(kernel.dynamicSharedBytes) + " bytes of shared memory");
    if (kernel.cluster > 8)
      check(d.funcSetAttribute(function, functionLargeClusters, 1), "clusters of more than 8 blocks");
    return reinterpret_cast<Function>(function);
  }

  void launch(const Launch &launch) override {
    clear(launch);
    std::vector<std::uint64_t> values = launch.parameters;
    std::vector<EncodedMap> maps;
    for (const Map &map : launch.maps)
      maps.push_back(encodeMap(map));
    std::vector<void *> parameters;
    for (std::uint64_t &value : values)
      parameters.push_back(&value);
    for (EncodedMap &map : maps)
      parameters.push_back(&map);
    LaunchAttribute attributes[3]{};
    std::uint32_t count = 0;
    if (launch.cluster > 1) {
      attributes[count].id = launchCluster;
      attributes[count++].cluster = {launch.cluster, 1, 1};
    }
    if (launch.early) {
      attributes[count].id = launchEarly;
      attributes[count++].flag = 1;
    }
    std::uint32_t blocks = launch.grid[0];
    if (launch.resident) { // the driver refuses what would wait for ever
      blocks = std::min(blocks, multiprocessors);
      attributes[count].id = launchCooperative;
      attributes[count++].flag = 1;
    }
    LaunchConfig config{blocks,
                        launch.grid[1],
                        launch.grid[2],
                        launch.threads,
                        1,
                        1,
                        launch.dynamicSharedBytes,
                        stream,
                        attributes,
                        count};
    check(d.launchKernelEx(&config, reinterpret_cast<Handle>(launch.function), parameters.data(), nullptr),
          "launching the kernel");
  }

  void finish() override { check(d.streamSynchronize(stream), "running"); }

  double time(const std::vector<Launch> &launches, int samples) override {
    double seconds = timeGraph(samples, [&] {
      for (const Launch &one : launches)
        launch(one);
    });
    bool clears = std::any_of(launches.begin(), launches.end(), [](const Launch &one) { return !one.cleared.empty(); });
    if (clears)
      seconds -= timeGraph(samples, [&] {
        for (const Launch &one : launches)
          clear(one);
      });
    return seconds / static_cast<double>(launches.size());
  }

  std::optional<double> timeByLibrary(const std::vector<Product> &products, int samples) override {
    if (!cublasWanted)
      return std::nullopt;
    if (!cublas)
      cublas = Cublas::open(stream);
    cublasWanted = cublas != nullptr;
    bool accepted = cublasWanted;
    double seconds = accepted ? takeTime(samples,
                                         [&] {
                                           for (const Product &product : products)
                                             accepted &= cublas->multiply(product);
                                         })
                              : 0;
    return accepted ? std::optional(seconds / static_cast<double>(products.size())) : std::nullopt;
  }

private:
  void clear(const Launch &launch) {
    for (auto [address, bytes] : launch.cleared)
      fill(address, 0, bytes);
  }

  /// Of a replay of the graph that `record` makes.
  template <typename Record> double timeGraph(int samples, Record record) {
    Handle graph = nullptr, runnable = nullptr;
    check(d.beginCapture(stream, captureThreadLocal), "recording a graph");
    try {
      record();
    } catch (const GpuError &) {
      d.endCapture(stream, &graph);
      throw;
    }
    check(d.endCapture(stream, &graph), "recording a graph");
    check(d.graphInstantiate(&runnable, graph, 0), "making a graph");
    double seconds = takeTime(samples, [&] { check(d.graphLaunch(runnable, stream), "launching a graph"); });
    d.graphExecDestroy(runnable);
    d.graphDestroy(graph);
    return seconds;
  }

  /// Median of the seconds that `work` takes on the stream.
  template <typename Work> double takeTime(int samples, Work work) {
    std::vector<double> seconds;
    for (int i = -2; i < samples; ++i) { // two to warm up
      float milliseconds = 0;
      check(d.eventRecord(start, stream), "an event");
      work();
      check(d.eventRecord(stop, stream), "an event");
      finish();
      check(d.eventElapsedTime(&milliseconds, start, stop), "taking the time");
      if (i >= 0)
        seconds.push_back(milliseconds * 1e-3);
    }
    std::nth_element(seconds.begin(), seconds.begin() + samples / 2, seconds.end());
    return seconds[static_cast<std::size_t>(samples) / 2];
  }

  void check(Result result, const std::string &what) const {
    if (result == 0)
      return;
    const char *name = nullptr, *text = nullptr;
    d.getErrorName(result, &name);
    d.getErrorString(result, &text);
    bool lost = (result >= firstLost && result <= lastLost) || result == unknownError ||
                std::find(std::begin(hardwareErrors), std::end(hardwareErrors), result) != std::end(hardwareErrors);
    throw GpuError(
        what + ": " + (name ? name : "error " + std::to_string(result)) + (text ? std::string(", ") + text : ""), lost);
  }

  int attribute(int which) const {
    int value = 0;
    check(d.deviceGetAttribute(&value, which, device), "a property of the device");
    return value;
  }

  EncodedMap encodeMap(const Map &map) const {
    // As many dimensions as the box has, the outer ones folded; innermost first from here on.
    std::size_t rank = map.box.size();
    std::vector<std::uint64_t> sizes, strides;
    std::vector<std::uint32_t> box(map.box.rbegin(), map.box.rend()), steps(rank, 1);
    std::uint64_t bytes = elementBytes(map.dtype);
    for (std::size_t i = 0; i < map.shape.size(); ++i) {
      // A map of an empty tensor, which no kernel uses, must say that there is something.
      std::uint64_t size = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(map.shape[map.shape.size() - 1 - i]));
      if (i < rank)
        sizes.push_back(size);
      else
        sizes.back() *= size;
    }
    for (std::size_t i = 0; i + 1 < rank; ++i)
      strides.push_back((i ? strides.back() : bytes) * sizes[i]);
    int type = map.dtype == "f32" ? 7 : map.dtype == "bf16" ? 9 : map.dtype == "i32" ? 3 : 0;
    int swizzle = map.swizzle == 128 ? 3 : map.swizzle == 64 ? 2 : map.swizzle == 32 ? 1 : 0;
    EncodedMap encoded;
    check(d.tensorMapEncodeTiled(&encoded, type, static_cast<std::uint32_t>(rank), reinterpret_cast<void *>(map.memory),
                                 sizes.data(), strides.data(), box.data(), steps.data(), 0, swizzle, 2, 0),
          "a tensor map");
    return encoded;
  }

  Driver d;
  int device = 0;
  std::uint32_t multiprocessors = 0;
  Handle stream = nullptr, start = nullptr, stop = nullptr;
  std::unique_ptr<Cublas> cublas;
  bool cublasWanted = true;
  std::string label;
};

} // namespace

std::unique_ptr<Gpu> k3::gpu::openCuda(int ordinal) { return std::make_unique<CudaGpu>(ordinal); }
