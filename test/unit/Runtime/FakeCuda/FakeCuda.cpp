//===- FakeCuda.cpp - a CUDA driver without a GPU ------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Declarations are written from the driver API's documentation, not shared with
// the runtime's. For one thread.
//===----------------------------------------------------------------------===//
#include "test/unit/Runtime/FakeCuda/FakeCuda.h"
#include "k3rt/abi.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <elf.h>
#include <functional>
#include <memory>
#include <set>
#include <sstream>
#include <sys/mman.h>

// The toy model's kernels (ToyKernels.c).
extern "C" const k3_executable k3_executable_v1;

using namespace fakecuda;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int notInitialized = 3, invalidDevice = 101, invalidImage = 200, invalidContext = 201, invalidHandle = 400,
              notFound = 500, captureUnjoined = 904, captureUnsupported = 900;

Driver state;

int problem(int code, const std::string &text) {
  state.problems.push_back(text);
  return code;
}

//===----------------------------------------------------------------------===//
// Memory: one heap that is closed outside of calls
//===----------------------------------------------------------------------===//

constexpr int freed = 0xee; ///< what is left in memory that was given back
constexpr uint64_t heapBytes = uint64_t(1) << 30, alignment = 256, gap = 4096;
char *heap = nullptr;
std::map<uint64_t, uint64_t> blocks; ///< begin -> size
std::map<char *, uint64_t> hostBlocks;

void setHeap(int protection) {
  if (!heap) {
    heap = static_cast<char *>(mmap(nullptr, heapBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (heap == MAP_FAILED)
      abort();
  }
  // What nothing is allocated in is always closed.
  uint64_t used = blocks.empty() ? 0 : blocks.rbegin()->first + blocks.rbegin()->second - uint64_t(reinterpret_cast<uintptr_t>(heap));
  if (used != 0)
    mprotect(heap, (used + 4095) / 4096 * 4096, protection);
}

/// The heap is open while one lives.
struct OpenHeap {
  OpenHeap() { setHeap(PROT_READ | PROT_WRITE); }
  ~OpenHeap() { setHeap(PROT_NONE); }
};

bool inDevice(uint64_t address, uint64_t bytes) {
  auto after = blocks.upper_bound(address);
  if (after == blocks.begin())
    return false;
  --after;
  return address - after->first <= after->second && bytes <= after->second - (address - after->first);
}

bool inHost(const void *memory, uint64_t bytes) {
  auto *begin = static_cast<char *>(const_cast<void *>(memory));
  auto after = hostBlocks.upper_bound(begin);
  if (after == hostBlocks.begin())
    return false;
  --after;
  return uint64_t(begin - after->first) + bytes <= after->second;
}

char *at(uint64_t address) { return reinterpret_cast<char *>(uintptr_t(address)); }

//===----------------------------------------------------------------------===//
// Streams, events and graphs
//===----------------------------------------------------------------------===//

using Work = std::function<int()>;
int lost = success; ///< the error that every call returns from then on

struct Graph {
  struct Node {
    Work work;
    std::set<size_t> after;
  };
  std::vector<Node> nodes;
};

struct Stream {
  struct Item {
    Work work;
    const void *host; ///< memory that it reads or writes
  };
  std::deque<Item> queue;
  Graph *capture = nullptr;
  bool beganCapture = false;
  std::set<size_t> last; ///< nodes that the next one comes after
  bool behindKernel = false; ///< the last thing in it is a launch
};

struct Event {
  bool recorded = false, happened = false, timed = true;
  Stream *stream = nullptr;
  std::chrono::steady_clock::time_point time;
  Graph *capture = nullptr;
  std::set<size_t> last;
};

std::set<Stream *> streams;
std::set<Event *> events;
std::set<Graph *> graphs, executables;

/// Everything that is in a stream, or what comes before an event in it.
int drain(Stream &stream, const Event *until = nullptr) {
  OpenHeap open;
  while (!stream.queue.empty() && lost == success && !(until && until->happened)) {
    Work work = std::move(stream.queue.front().work);
    stream.queue.pop_front();
    if (int code = work(); code != success)
      lost = code;
  }
  return lost;
}

int drainAll() {
  for (Stream *stream : streams)
    drain(*stream);
  return lost;
}

void submit(Stream &stream, Work work, const void *host = nullptr) {
  stream.behindKernel = false;
  if (!stream.capture) {
    stream.queue.push_back({std::move(work), host});
    return;
  }
  stream.capture->nodes.push_back({std::move(work), stream.last});
  stream.last = {stream.capture->nodes.size() - 1};
}

/// Of all orders that the graph allows, one that is far from that of the capture.
int runGraph(const Graph &graph) {
  std::vector<bool> done(graph.nodes.size());
  for (size_t count = 0; count < graph.nodes.size(); ++count)
    for (size_t i = graph.nodes.size(); i-- > 0;) {
      const Graph::Node &node = graph.nodes[i];
      if (done[i] || !std::all_of(node.after.begin(), node.after.end(), [&](size_t n) { return done[n]; }))
        continue;
      if (int code = node.work(); code != success)
        return code;
      done[i] = true;
      break;
    }
  return success;
}

/// Whether all of `wanted` come before one of `last`.
bool reaches(const Graph &graph, std::set<size_t> last, const std::set<size_t> &wanted) {
  std::vector<size_t> open(last.begin(), last.end());
  while (!open.empty()) {
    size_t node = open.back();
    open.pop_back();
    for (size_t before : graph.nodes[node].after)
      if (last.insert(before).second)
        open.push_back(before);
  }
  return std::includes(last.begin(), last.end(), wanted.begin(), wanted.end());
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

struct Kernel {
  std::string name;
  uint32_t ordinal = 0, bindings = 0, scalars = 0, maps = 0, tableBinding = 0, tableLength = 0, maxThreads = 0;
  int maxShared = 48 << 10;
  bool loaded = false, largeClusters = false, resident = false;
  /// A real kernel, which cannot be run: bytes and offsets of its parameters.
  bool isReal = false;
  std::vector<std::pair<uint32_t, uint32_t>> real;

  uint32_t parameters() const { return isReal ? uint32_t(real.size()) : bindings + scalars + maps; }
  bool isMap(uint32_t parameter) const {
    return isReal ? real[parameter].first == 128 : parameter >= bindings + scalars;
  }
};

struct Module {
  std::map<std::string, Kernel> kernels;
};
std::set<Module *> modules;

/// What a tensor map is in memory.
struct EncodedMap {
  char magic[8];
  uint64_t number;
};
constexpr char mapMagic[8] = {'t', 'm', 'a', 'p', 'f', 'a', 'k', 'e'};
std::vector<TensorMap> encodedMaps;

/// What launches need to know of the kernels in a cubin: an attribute is a format, a number and 16 bits, which are the size
/// of what follows if the format is 4.
bool readCubin(const char *image, Module &module) {
  Elf64_Ehdr header;
  memcpy(&header, image, sizeof(header));
  auto section = [&](uint32_t i) {
    Elf64_Shdr out;
    memcpy(&out, image + header.e_shoff + i * sizeof(out), sizeof(out));
    return out;
  };
  const char *names = image + section(header.e_shstrndx).sh_offset;
  const std::string prefix = ".nv.info.";
  for (uint32_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr info = section(i);
    std::string name = names + info.sh_name;
    if (name.compare(0, prefix.size(), prefix) != 0)
      continue;
    Kernel kernel;
    kernel.name = name.substr(prefix.size());
    kernel.isReal = true;
    kernel.maxThreads = 1024;
    const char *at = image + info.sh_offset, *end = at + info.sh_size;
    while (at < end) {
      constexpr uint8_t sized = 4, maxThreads = 0x05, parameter = 0x17;
      auto format = uint8_t(at[0]), attribute = uint8_t(at[1]);
      uint16_t size;
      memcpy(&size, at + 2, sizeof(size));
      uint32_t words[3] = {};
      memcpy(words, at + 4, std::min<size_t>(size, sizeof(words)));
      if (format == sized && attribute == maxThreads)
        kernel.maxThreads = words[0] * words[1] * words[2];
      if (format == sized && attribute == parameter) {
        uint32_t number = words[1] & 0xffff;
        kernel.real.resize(std::max<size_t>(kernel.real.size(), number + 1));
        kernel.real[number] = {words[2] >> 18, words[1] >> 16};
      }
      at += 4 + (format == sized ? size : 0);
    }
    module.kernels[kernel.name] = kernel;
  }
  return !module.kernels.empty();
}

/// Bindings, then scalars.
int runKernel(const Kernel &kernel, const std::vector<uint64_t> &words, const uint32_t *grid, uint32_t sharedBytes) {
  if (kernel.name == state.settings.failingKernel && state.settings.kernelFailure != success)
    return state.settings.kernelFailure;
  if (kernel.isReal)
    return success;
  std::vector<void *> bindings;
  for (uint32_t i = 0; i < kernel.bindings; ++i) {
    if (!inDevice(words[i], 1))
      return problem(illegalAddress, kernel.name + ": binding " + std::to_string(i) + " is not in device memory");
    bindings.push_back(at(words[i]));
  }
  for (uint32_t i = 0; i < kernel.tableLength; ++i) {
    uint64_t entry = static_cast<uint64_t *>(bindings[kernel.tableBinding])[i];
    if (!inDevice(entry, 1))
      return problem(illegalAddress, kernel.name + ": an address in its table is not in device memory");
  }
  k3_kernel_args args = {bindings.data(), reinterpret_cast<const int64_t *>(words.data() + kernel.bindings)};
  std::vector<uint64_t> shared(sharedBytes / 8 + 8);
  k3_workgroup group = {};
  std::copy(grid, grid + 3, group.count);
  // 64-byte aligned.
  group.scratch = reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(shared.data()) + 63) / 64 * 64);
  group.scratch_bytes = sharedBytes;
  uint64_t blocksInAll = uint64_t(grid[0]) * grid[1] * grid[2];
  for (uint64_t block = blocksInAll; block-- > 0;) {
    memset(shared.data(), 0xff, shared.size() * 8);
    group.id[0] = uint32_t(block % grid[0]);
    group.id[1] = uint32_t(block / grid[0] % grid[1]);
    group.id[2] = uint32_t(block / grid[0] / grid[1]);
    if (k3_executable_v1.kernels[kernel.ordinal](&args, &group) != 0)
      return launchFailed;
  }
  return success;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

bool initialised = false;
uint64_t retained = 0;
std::vector<void *> contexts;
char context; ///< its address is the handle

/// Counts a call; anything but success is what it has to return.
int enter(const char *symbol, bool needsContext = true) {
  ++state.calls[symbol];
  uint64_t number = ++state.numCalls;
  const Settings &settings = state.settings;
  if (settings.failingCall != 0 &&
      (number == settings.failingCall || (settings.lastsForever && number > settings.failingCall)))
    return settings.failure;
  if (!initialised)
    return notInitialized;
  if (needsContext && contexts.empty())
    return problem(invalidContext, std::string(symbol) + " without a context");
  if (needsContext && lost != success)
    return lost;
  return success;
}

#define ENTER(...)                                                                                                     \
  do {                                                                                                                 \
    if (int code = enter(__VA_ARGS__); code != success)                                                                \
      return code;                                                                                                     \
  } while (false)

/// Objects are given back even when the device is lost.
#define ENTER_TO_FREE(symbol)                                                                                          \
  do {                                                                                                                 \
    ++state.calls[symbol];                                                                                             \
    ++state.numCalls;                                                                                                  \
  } while (false)

const std::map<int, std::pair<const char *, const char *>> errors = {
    {invalidValue, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
    {outOfMemory, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
    {noBinaryForGpu, {"CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"}},
    {illegalAddress, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
    {launchFailed, {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}},
    {systemDriverMismatch,
     {"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"}},
};

} // namespace

EXPORT Driver *fakeCudaDriver() { return &state; }

// For the fake of the library of products.

EXPORT bool fakeCudaInDevice(const void *memory, uint64_t bytes) {
  return inDevice(uint64_t(reinterpret_cast<uintptr_t>(memory)), bytes);
}

/// `work` happens in the stream.
EXPORT int fakeCudaSubmit(const char *symbol, Stream *stream, std::function<int()> work) {
  ENTER(symbol);
  if (!streams.count(stream))
    return problem(invalidHandle, std::string(symbol) + ": no such stream");
  submit(*stream, std::move(work));
  return success;
}

//===----------------------------------------------------------------------===//
// Device and context
//===----------------------------------------------------------------------===//

EXPORT int cuGetErrorName(int error, const char **out) {
  auto found = errors.find(error);
  *out = found == errors.end() ? nullptr : found->second.first;
  return *out ? success : invalidValue;
}

EXPORT int cuGetErrorString(int error, const char **out) {
  auto found = errors.find(error);
  *out = found == errors.end() ? nullptr : found->second.second;
  return *out ? success : invalidValue;
}

EXPORT int cuDriverGetVersion(int *version) {
  *version = state.settings.driverVersion;
  return success;
}

EXPORT int cuInit(unsigned flags) {
  ++state.calls["cuInit"];
  if (state.settings.initResult != success || flags != 0)
    return state.settings.initResult;
  initialised = true;
  return success;
}

EXPORT int cuDeviceGetCount(int *count) {
  ENTER("cuDeviceGetCount", false);
  *count = state.settings.devices;
  return success;
}

EXPORT int cuDeviceGet(int *device, int number) {
  ENTER("cuDeviceGet", false);
  if (number < 0 || number >= state.settings.devices)
    return invalidDevice;
  *device = number;
  return success;
}

EXPORT int cuDeviceGetName(char *name, int size, int) {
  ENTER("cuDeviceGetName", false);
  strncpy(name, "Fake GPU", size_t(size));
  return success;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int) {
  ENTER("cuDeviceGetAttribute", false);
  const std::map<int, int> values = {
      {13, 1980000},           {16, int(state.settings.multiprocessors)}, {36, 3201000}, {37, 6144},
      {75, state.settings.major}, {76, state.settings.minor}};
  auto found = values.find(attribute);
  if (found == values.end())
    return problem(invalidValue, "unknown attribute " + std::to_string(attribute));
  *value = found->second;
  return success;
}

EXPORT int cuDevicePrimaryCtxRetain(void **out, int) {
  ENTER("cuDevicePrimaryCtxRetain", false);
  ++retained;
  ++state.live.contexts;
  *out = &context;
  return success;
}

/// The last one resets the device: nothing of it survives, failures included.
EXPORT int cuDevicePrimaryCtxRelease_v2(int) {
  ENTER_TO_FREE("cuDevicePrimaryCtxRelease_v2");
  if (retained == 0)
    return problem(invalidContext, "a context is released too often");
  --state.live.contexts;
  if (--retained == 0)
    lost = success;
  return success;
}

EXPORT int cuCtxPushCurrent_v2(void *pushed) {
  ++state.calls["cuCtxPushCurrent_v2"];
  if (pushed != &context || retained == 0)
    return problem(invalidContext, "no such context");
  contexts.push_back(pushed);
  return success;
}

EXPORT int cuCtxPopCurrent_v2(void **out) {
  ++state.calls["cuCtxPopCurrent_v2"];
  if (contexts.empty())
    return problem(invalidContext, "no context to pop");
  *out = contexts.back();
  contexts.pop_back();
  return success;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static uint64_t freeBytes() {
  uint64_t used = state.live.bytes + state.settings.usedByOthers;
  return used < state.settings.totalBytes ? state.settings.totalBytes - used : 0;
}

EXPORT int cuMemGetInfo_v2(size_t *free, size_t *total) {
  ENTER("cuMemGetInfo_v2");
  *free = freeBytes();
  *total = state.settings.totalBytes;
  return success;
}

EXPORT int cuMemAlloc_v2(uint64_t *out, size_t bytes) {
  ENTER("cuMemAlloc_v2");
  if (bytes == 0)
    return problem(invalidValue, "an allocation of 0 bytes");
  if (bytes > freeBytes())
    return outOfMemory;
  OpenHeap open;
  uint64_t begin = uint64_t(reinterpret_cast<uintptr_t>(heap)) + gap;
  for (const auto &[block, size] : blocks) {
    if (block - begin >= bytes + gap)
      break;
    begin = (block + size + gap + alignment - 1) / alignment * alignment;
  }
  if (begin + bytes + gap > uint64_t(reinterpret_cast<uintptr_t>(heap)) + heapBytes)
    return outOfMemory;
  blocks[begin] = bytes;
  ++state.live.allocations;
  state.live.bytes += bytes;
  setHeap(PROT_READ | PROT_WRITE); // it has grown
  memset(at(begin), state.settings.freshByte, bytes);
  *out = begin;
  return success;
}

EXPORT int cuMemFree_v2(uint64_t address) {
  ENTER_TO_FREE("cuMemFree_v2");
  auto found = blocks.find(address);
  if (found == blocks.end())
    return problem(invalidValue, "an address that was not allocated is freed");
  drainAll();
  {
    OpenHeap open;
    memset(at(address), freed, found->second);
  }
  --state.live.allocations;
  state.live.bytes -= found->second;
  setHeap(PROT_NONE);
  blocks.erase(found);
  return success;
}

EXPORT int cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  ENTER("cuMemHostAlloc");
  if (bytes == 0 || flags != 0)
    return problem(invalidValue, "a host allocation of 0 bytes, or with flags");
  auto *memory = static_cast<char *>(aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  memset(memory, 0xff, std::min<size_t>(bytes, 1 << 16)); // the rest is too slow
  hostBlocks[memory] = bytes;
  ++state.live.hostAllocations;
  *out = memory;
  return success;
}

EXPORT int cuMemFreeHost(void *memory) {
  ENTER_TO_FREE("cuMemFreeHost");
  auto found = hostBlocks.find(static_cast<char *>(memory));
  if (found == hostBlocks.end())
    return problem(invalidValue, "host memory that was not allocated is freed");
  if (lost == success)
    for (Stream *stream : streams)
      for (const Stream::Item &item : stream->queue)
        if (uint64_t(static_cast<const char *>(item.host) - found->first) < found->second)
          problem(success, "host memory is freed while a stream uses it");
  drainAll();
  memset(memory, freed, found->second);
  free(memory);
  hostBlocks.erase(found);
  --state.live.hostAllocations;
  return success;
}

static int checkStream(const char *symbol, Stream *stream) {
  if (!streams.count(stream))
    return problem(invalidHandle, std::string(symbol) + ": no such stream");
  return success;
}

static int transfer(const char *symbol, Stream *stream, bool inside, size_t bytes, Work work,
                    const void *host = nullptr) {
  if (int code = checkStream(symbol, stream); code != success)
    return code;
  if (!inside || bytes == 0)
    return problem(invalidValue, std::string(symbol) + " of nothing, or outside of memory");
  submit(*stream, std::move(work), host);
  return success;
}

// Asynchronous copies from or to memory that is not pinned are slow and not asynchronous: a mistake here.

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, Stream *stream) {
  ENTER("cuMemcpyHtoDAsync_v2");
  auto work = [=] {
    memcpy(at(to), from, bytes);
    return success;
  };
  return transfer("cuMemcpyHtoDAsync_v2", stream, inDevice(to, bytes) && inHost(from, bytes), bytes, work, from);
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, Stream *stream) {
  ENTER("cuMemcpyDtoHAsync_v2");
  state.downloadedBytes += bytes;
  auto work = [=] {
    memcpy(to, at(from), bytes);
    return success;
  };
  return transfer("cuMemcpyDtoHAsync_v2", stream, inDevice(from, bytes) && inHost(to, bytes), bytes, work, to);
}

EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, Stream *stream) {
  ENTER("cuMemcpyDtoDAsync_v2");
  return transfer("cuMemcpyDtoDAsync_v2", stream, inDevice(from, bytes) && inDevice(to, bytes), bytes, [=] {
    memcpy(at(to), at(from), bytes);
    return success;
  });
}

EXPORT int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, Stream *stream) {
  ENTER("cuMemsetD8Async");
  return transfer("cuMemsetD8Async", stream, inDevice(to, bytes), bytes, [=] {
    memset(at(to), byte, bytes);
    return success;
  });
}

//===----------------------------------------------------------------------===//
// Streams, events, graphs
//===----------------------------------------------------------------------===//

EXPORT int cuStreamCreate(Stream **out, unsigned flags) {
  ENTER("cuStreamCreate");
  if (flags > 1)
    return problem(invalidValue, "unknown flags of a stream");
  *out = new Stream;
  streams.insert(*out);
  ++state.live.streams;
  return success;
}

EXPORT int cuStreamDestroy_v2(Stream *stream) {
  ENTER_TO_FREE("cuStreamDestroy_v2");
  if (int code = checkStream("cuStreamDestroy_v2", stream); code != success)
    return code;
  drain(*stream);
  streams.erase(stream);
  delete stream;
  --state.live.streams;
  return success;
}

EXPORT int cuStreamSynchronize(Stream *stream) {
  ENTER("cuStreamSynchronize");
  if (int code = checkStream("cuStreamSynchronize", stream); code != success)
    return code;
  if (stream->capture)
    return problem(captureUnsupported, "a capturing stream is waited for");
  return drain(*stream);
}

EXPORT int cuStreamBeginCapture_v2(Stream *stream, int mode) {
  ENTER("cuStreamBeginCapture_v2");
  if (int code = checkStream("cuStreamBeginCapture_v2", stream); code != success)
    return code;
  if (stream->capture || mode < 0 || mode > 2)
    return problem(invalidValue, "a capture begins twice");
  stream->capture = new Graph;
  stream->beganCapture = true;
  stream->behindKernel = false;
  stream->last.clear();
  return success;
}

EXPORT int cuStreamEndCapture(Stream *stream, Graph **out) {
  int entered = enter("cuStreamEndCapture");
  *out = nullptr;
  if (!streams.count(stream) || !stream->beganCapture)
    return problem(invalidValue, "a capture ends that was not begun");
  stream->behindKernel = false;
  // It ends whether or not a graph comes of it.
  std::unique_ptr<Graph> graph(stream->capture);
  bool joined = true;
  for (Stream *other : streams)
    if (other->capture == graph.get() && other != stream) {
      joined &= reaches(*graph, stream->last, other->last);
      other->capture = nullptr;
    }
  stream->capture = nullptr;
  stream->beganCapture = false;
  if (entered != success)
    return entered;
  if (!joined)
    return problem(captureUnjoined, "a capture ends before all its streams are joined");
  *out = graph.release();
  graphs.insert(*out);
  ++state.live.graphs;
  return success;
}

EXPORT int cuStreamWaitEvent(Stream *stream, Event *event, unsigned flags) {
  ENTER("cuStreamWaitEvent");
  if (!streams.count(stream) || !events.count(event) || flags != 0)
    return problem(invalidHandle, "cuStreamWaitEvent: no such stream or event");
  stream->behindKernel = false;
  if (event->capture) {
    if (stream->capture && stream->capture != event->capture)
      return problem(captureUnsupported, "two captures are joined");
    if (!stream->capture)
      stream->last.clear();
    stream->capture = event->capture;
    stream->last.insert(event->last.begin(), event->last.end());
    return success;
  }
  if (stream->capture)
    return problem(captureUnsupported, "a capture waits for an event outside of it");
  if (event->recorded)
    submit(*stream, [event] { return event->stream ? drain(*event->stream, event) : success; });
  return success;
}

EXPORT int cuEventCreate(Event **out, unsigned flags) {
  ENTER("cuEventCreate");
  if (flags != 0 && flags != 2)
    return problem(invalidValue, "unknown flags of an event");
  *out = new Event;
  (*out)->timed = flags == 0;
  events.insert(*out);
  ++state.live.events;
  return success;
}

EXPORT int cuEventDestroy_v2(Event *event) {
  ENTER_TO_FREE("cuEventDestroy_v2");
  if (!events.count(event))
    return problem(invalidHandle, "cuEventDestroy: no such event");
  drainAll();
  events.erase(event);
  delete event;
  --state.live.events;
  return success;
}

static int recordEvent(const char *symbol, Event *event, Stream *stream, bool external) {
  if (!streams.count(stream) || !events.count(event))
    return problem(invalidHandle, std::string(symbol) + ": no such stream or event");
  stream->behindKernel = false;
  if (stream->capture && external) {
    submit(*stream, [event] {
      event->happened = true;
      event->time = std::chrono::steady_clock::now();
      return success;
    });
    return success;
  }
  event->capture = stream->capture;
  event->last = stream->last;
  if (stream->capture)
    return success;
  event->recorded = true;
  event->happened = false;
  event->stream = stream;
  submit(*stream, [event] {
    event->happened = true;
    event->time = std::chrono::steady_clock::now();
    return success;
  });
  return success;
}

EXPORT int cuEventRecord(Event *event, Stream *stream) {
  ENTER("cuEventRecord");
  return recordEvent("cuEventRecord", event, stream, false);
}

EXPORT int cuEventRecordWithFlags(Event *event, Stream *stream, unsigned flags) {
  ENTER("cuEventRecordWithFlags");
  if (flags > 1)
    return problem(invalidValue, "unknown flags of an event");
  if (flags == 1 && streams.count(stream) && !stream->capture)
    return problem(invalidValue, "an event is recorded for a graph, but there is no capture");
  return recordEvent("cuEventRecordWithFlags", event, stream, flags == 1);
}

EXPORT int cuEventSynchronize(Event *event) {
  ENTER("cuEventSynchronize");
  if (!events.count(event))
    return problem(invalidHandle, "cuEventSynchronize: no such event");
  return event->recorded && !event->happened ? drain(*event->stream, event) : success;
}

EXPORT int cuEventElapsedTime(float *milliseconds, Event *start, Event *end) {
  ENTER("cuEventElapsedTime");
  if (!events.count(start) || !events.count(end) || !start->happened || !end->happened || !start->timed || !end->timed)
    return problem(invalidHandle, "cuEventElapsedTime: events that have not happened, or have no time");
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return success;
}

EXPORT int cuGraphInstantiateWithFlags(Graph **out, Graph *graph, unsigned long long flags) {
  ENTER("cuGraphInstantiateWithFlags");
  if (!graphs.count(graph) || flags != 0)
    return problem(invalidValue, "cuGraphInstantiateWithFlags: no such graph");
  *out = new Graph(*graph);
  executables.insert(*out);
  ++state.live.executableGraphs;
  return success;
}

EXPORT int cuGraphLaunch(Graph *graph, Stream *stream) {
  ENTER("cuGraphLaunch");
  if (int code = checkStream("cuGraphLaunch", stream); code != success)
    return code;
  if (!executables.count(graph))
    return problem(invalidValue, "cuGraphLaunch: no such graph");
  submit(*stream, [graph] { return runGraph(*graph); });
  return success;
}

EXPORT int cuGraphExecDestroy(Graph *graph) {
  ENTER_TO_FREE("cuGraphExecDestroy");
  drainAll();
  if (!executables.erase(graph))
    return problem(invalidValue, "cuGraphExecDestroy: no such graph");
  delete graph;
  --state.live.executableGraphs;
  return success;
}

EXPORT int cuGraphDestroy(Graph *graph) {
  ENTER_TO_FREE("cuGraphDestroy");
  if (!graphs.erase(graph))
    return problem(invalidValue, "cuGraphDestroy: no such graph");
  delete graph;
  --state.live.graphs;
  return success;
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

EXPORT int cuModuleLoadData(Module **out, const void *image) {
  ENTER("cuModuleLoadData");
  constexpr size_t headerBytes = 64;
  Elf64_Ehdr header;
  memcpy(&header, image, sizeof(header));
  if (header.e_shnum != 0) {
    auto real = std::make_unique<Module>();
    if (!readCubin(static_cast<const char *>(image), *real))
      return invalidImage;
    state.settings.freshByte = 0; // nothing will be computed
    *out = real.release();
    modules.insert(*out);
    ++state.live.modules;
    return success;
  }
  std::istringstream text(static_cast<const char *>(image) + headerBytes);
  std::string chip, name;
  text >> chip;
  std::string own = "sm_" + std::to_string(state.settings.major) + std::to_string(state.settings.minor);
  if (chip != own && chip != own + "a")
    return chip.compare(0, 3, "sm_") == 0 ? noBinaryForGpu : invalidImage;
  auto module = std::make_unique<Module>();
  while (text >> name && name != "end") {
    Kernel kernel;
    kernel.name = name;
    text >> kernel.ordinal >> kernel.bindings >> kernel.scalars >> kernel.maps >> kernel.tableBinding >>
        kernel.tableLength >> kernel.maxThreads >> kernel.resident;
    module->kernels[name] = kernel;
  }
  if (name != "end")
    return invalidImage;
  *out = module.release();
  modules.insert(*out);
  ++state.live.modules;
  return success;
}

EXPORT int cuModuleUnload(Module *module) {
  ENTER_TO_FREE("cuModuleUnload");
  drainAll();
  if (!modules.erase(module))
    return problem(invalidValue, "cuModuleUnload: no such module");
  delete module;
  --state.live.modules;
  return success;
}

EXPORT int cuModuleGetFunction(Kernel **out, Module *module, const char *name) {
  ENTER("cuModuleGetFunction");
  if (!modules.count(module))
    return problem(invalidHandle, "cuModuleGetFunction: no such module");
  auto found = module->kernels.find(name);
  if (found == module->kernels.end())
    return notFound;
  *out = &found->second;
  return success;
}

EXPORT int cuFuncLoad(Kernel *kernel) {
  ENTER("cuFuncLoad");
  kernel->loaded = true;
  return success;
}

EXPORT int cuFuncGetAttribute(int *value, int attribute, Kernel *kernel) {
  ENTER("cuFuncGetAttribute");
  if (attribute != 0)
    return problem(invalidValue, "unknown attribute of a function");
  *value = int(kernel->maxThreads);
  return success;
}

EXPORT int cuFuncSetAttribute(Kernel *kernel, int attribute, int value) {
  ENTER("cuFuncSetAttribute");
  if (attribute == 8 && value >= 0 && value <= 227 << 10)
    kernel->maxShared = value;
  else if (attribute == 14 && value == 1)
    kernel->largeClusters = true;
  else
    return problem(invalidValue, "unknown attribute of a function");
  return success;
}

EXPORT int cuFuncGetParamInfo(Kernel *kernel, size_t number, size_t *offset, size_t *bytes) {
  ENTER("cuFuncGetParamInfo");
  if (number >= kernel->parameters())
    return invalidValue;
  if (kernel->isReal) {
    *bytes = kernel->real[number].first;
    *offset = kernel->real[number].second;
    return success;
  }
  constexpr size_t word = 8, map = 128;
  size_t words = kernel->bindings + kernel->scalars;
  bool isMap = number >= words;
  *bytes = isMap ? map : word;
  *offset = isMap ? (words * word + map - 1) / map * map + (number - words) * map : number * word;
  return success;
}

namespace {
struct LaunchAttribute {
  int id;
  char padding[4];
  unsigned value[16];
};
struct LaunchConfig {
  unsigned grid[3], block[3], sharedBytes;
  Stream *stream;
  LaunchAttribute *attributes;
  unsigned numAttributes;
};
static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfig) == 56, "the driver's binary interface");
} // namespace

EXPORT int cuLaunchKernelEx(const LaunchConfig *config, Kernel *kernel, void **parameters, void **extra) {
  ENTER("cuLaunchKernelEx");
  if (int code = checkStream("cuLaunchKernelEx", config->stream); code != success)
    return code;
  if (kernel->name == state.settings.failingKernel && state.settings.launchFailure != success)
    return state.settings.launchFailure;
  Launch launch;
  launch.kernel = kernel->name;
  std::copy(config->grid, config->grid + 3, launch.grid);
  launch.threads = config->block[0];
  launch.sharedBytes = config->sharedBytes;
  launch.captured = config->stream->capture != nullptr;
  for (unsigned i = 0; i < config->numAttributes; ++i) {
    const LaunchAttribute &attribute = config->attributes[i];
    if (attribute.id == 6 && attribute.value[0] == 1 && !launch.early) {
      launch.early = true;
      continue;
    }
    if (attribute.id == 2 && attribute.value[0] == 1 && !launch.cooperative) {
      launch.cooperative = true;
      continue;
    }
    if (attribute.id != 4 || attribute.value[1] != 1 || attribute.value[2] != 1)
      return problem(invalidValue, "unknown attribute of a launch");
    launch.cluster = attribute.value[0];
  }
  uint64_t blocksInAll = uint64_t(config->grid[0]) * config->grid[1] * config->grid[2];
  if (blocksInAll == 0 || config->grid[1] > 65535 || config->grid[2] > 65535 || config->block[1] != 1 ||
      config->block[2] != 1 || launch.threads == 0 || launch.threads > kernel->maxThreads ||
      int(launch.sharedBytes) > kernel->maxShared || launch.cluster == 0 || config->grid[0] % launch.cluster != 0 ||
      (launch.cluster > 8 && !kernel->largeClusters) || extra || !kernel->loaded)
    return problem(invalidValue, kernel->name + ": a launch outside of the limits");
  // One block of each kernel is at home on a multiprocessor.
  if (launch.cooperative && blocksInAll > state.settings.multiprocessors)
    return problem(cooperativeLaunchTooLarge, kernel->name + ": more blocks than run at once");
  if (kernel->resident && !launch.cooperative)
    return problem(invalidValue, kernel->name + ": blocks that wait for each other, in a launch that is not cooperative");
  std::vector<uint64_t> words;
  for (uint32_t i = 0; i < kernel->parameters(); ++i) {
    if (!kernel->isMap(i)) {
      words.push_back(*static_cast<const uint64_t *>(parameters[i]));
      uint64_t offset = words.back() - uint64_t(reinterpret_cast<uintptr_t>(heap));
      if (kernel->isReal && offset < heapBytes && !inDevice(words.back(), 1))
        return problem(illegalAddress, kernel->name + ": an address that is not in an allocation");
      continue;
    }
    EncodedMap map;
    memcpy(&map, parameters[i], sizeof(map));
    if (memcmp(map.magic, mapMagic, sizeof(mapMagic)) != 0 || map.number >= encodedMaps.size())
      return problem(invalidValue, kernel->name + ": a tensor map that was not encoded");
    launch.maps.push_back(encodedMaps[map.number]);
  }
  if (launch.early && !config->stream->behindKernel)
    return problem(invalidValue, kernel->name + ": an early launch that is not behind a kernel");
  state.launches.push_back(launch);
  submit(*config->stream,
         [kernel = *kernel, words, launch] { return runKernel(kernel, words, launch.grid, launch.sharedBytes); });
  config->stream->behindKernel = true;
  return success;
}

EXPORT int cuTensorMapEncodeTiled(void *out, int type, uint32_t rank, void *address, const uint64_t *sizes,
                                  const uint64_t *strides, const uint32_t *box, const uint32_t *elementStrides,
                                  int interleave, int swizzle, int promotion, int fill) {
  ENTER("cuTensorMapEncodeTiled");
  TensorMap map;
  map.type = type;
  map.address = uint64_t(reinterpret_cast<uintptr_t>(address));
  map.interleave = interleave;
  map.swizzle = swizzle;
  map.promotion = promotion;
  map.fill = fill;
  if (rank < 1 || rank > 5 || map.address % 16 != 0 || !inDevice(map.address, 1))
    return problem(invalidValue, "a tensor map of a wrong rank or address");
  map.sizes.assign(sizes, sizes + rank);
  map.strides.assign(strides, strides + rank - 1);
  map.box.assign(box, box + rank);
  map.elementStrides.assign(elementStrides, elementStrides + rank);
  for (uint32_t i = 0; i < rank; ++i)
    if (sizes[i] == 0 || box[i] == 0 || box[i] > 256 || elementStrides[i] != 1 ||
        (i + 1 < rank && strides[i] % 16 != 0))
      return invalidValue;
  EncodedMap encoded = {{}, encodedMaps.size()};
  memcpy(encoded.magic, mapMagic, sizeof(mapMagic));
  memcpy(out, &encoded, sizeof(encoded));
  encodedMaps.push_back(map);
  return success;
}
