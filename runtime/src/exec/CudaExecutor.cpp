//===- CudaExecutor.cpp - runs programs on an NVIDIA GPU -----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/exec/CudaExecutor.h"
#include "runtime/src/base/Memory.h"
#include "runtime/src/device/CudaTensorMap.h"

#include <algorithm>

namespace k3rt {

namespace schema = k3::artifact;

/// A step that was captured.
struct Captured {
  SymbolValues values = {};
  size_t numGroups = 0;
  CudaGraphExec graph = nullptr;
  uint64_t lastRun = 0;
};

/// A program as launches.
struct CudaExecutor::Plan {
  explicit Plan(const Program &program) : program(program) {}

  const Program &program;
  /// Addresses of all parameters of all dispatches, and where those of each dispatch begin.
  std::vector<void *> parameters;
  std::vector<size_t> firstParameter;
  /// Tensor maps of all dispatches, in their order.
  std::vector<CudaTensorMap> maps;
  uint64_t mapsVersion = 0; ///< of the program's binding that they are for; 0 = none
  std::vector<Captured> graphs;
  uint64_t runs = 0;
  /// Per dispatch, of those that the library may do; empty without it.
  std::vector<const schema::Product *> products;
};

/// Graphs of a program; the one not used for longest is given up.
static constexpr size_t maxGraphs = 64;

CudaExecutor::CudaExecutor(CudaDevice &device, bool graphs, bool careful, LibraryUse library)
    : Executor(device), device(device), kernels(device), graphs(graphs), careful(careful), library(library) {}

CudaExecutor::~CudaExecutor() {
  CudaDevice::Scope scope(device);
  for (auto &plan : plans)
    for (Captured &captured : plan->graphs)
      device.api().graphExecDestroy(captured.graph);
  for (CudaEvent event : events)
    device.api().eventDestroy(event);
  for (const Branch &branch : branches) {
    if (branch.end)
      device.api().eventDestroy(branch.end);
    device.api().streamDestroy(branch.stream);
  }
  if (fork)
    device.api().eventDestroy(fork);
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

static uint32_t numMaps(const DispatchCode &code) {
  const auto *maps = code.kernel->launch()->tensor_maps();
  return maps ? maps->size() : 0;
}

/// The driver reads what the kernel's code asks for, whether or not it is there. Asking for a parameter that there is
/// none of counts as misuse with tools that watch the driver, so that only careful runs do.
Status CudaExecutor::checkParameters(const DispatchCode &code) const {
  size_t words = size_t(code.numBindings) + code.numScalars, count = words + numMaps(code);
  auto ask = [&](size_t number, size_t &bytes) {
    size_t offset = 0;
    return device.api().funcGetParamInfo(kernels.function(code.ordinal), number, &offset, &bytes) ==
           CudaResult::success;
  };
  for (size_t i = 0; i < count; ++i) {
    size_t bytes = 0, given = i < words ? sizeof(int64_t) : sizeof(CudaTensorMap);
    if (!ask(i, bytes))
      return makeError(K3RT_BAD_ARTIFACT, "%s takes %zu parameters, but is given %zu%s", kernelText(code).c_str(), i,
                       count, placeText(code).c_str());
    if (bytes != given)
      return makeError(K3RT_BAD_ARTIFACT, "%s: parameter %zu has %zu bytes, but is given %zu%s",
                       kernelText(code).c_str(), i, bytes, given, placeText(code).c_str());
  }
  size_t more = 0;
  if (careful && ask(count, more))
    return makeError(K3RT_BAD_ARTIFACT, "%s takes more than the %zu parameters that it is given%s",
                     kernelText(code).c_str(), count, placeText(code).c_str());
  return Status();
}

Status CudaExecutor::prepare(const Program &program) {
  CudaDevice::Scope scope(device);
  plans.push_back(std::make_unique<Plan>(program));
  Plan &plan = *plans.back();
  size_t maps = 0;
  for (size_t i = 0; i < program.numDispatches(); ++i) {
    K3RT_RETURN_IF_ERROR(checkParameters(program.dispatch(i)));
    maps += numMaps(program.dispatch(i));
  }
  plan.maps.resize(maps);
  size_t map = 0;
  for (size_t i = 0; i < program.numDispatches(); ++i) {
    const DispatchCode &code = program.dispatch(i);
    plan.firstParameter.push_back(plan.parameters.size());
    // The driver only reads them.
    for (uint32_t b = 0; b < code.numBindings; ++b)
      plan.parameters.push_back(const_cast<void **>(program.bindings(code) + b));
    for (uint32_t s = 0; s < code.numScalars; ++s)
      plan.parameters.push_back(const_cast<int64_t *>(program.scalars(code) + s));
    for (uint32_t m = 0; m < numMaps(code); ++m)
      plan.parameters.push_back(&plan.maps[map++]);
  }
  planProducts(plan);
  return encodeMaps(plan);
}

CudaExecutor::Plan &CudaExecutor::planOf(const Program &program) {
  return **std::find_if(plans.begin(), plans.end(), [&](const auto &plan) { return &plan->program == &program; });
}

/// Brings the tensor maps up to the current step; those of weights and states never change.
Status CudaExecutor::encodeMaps(Plan &plan) {
  const Program &program = plan.program;
  if (plan.mapsVersion == program.version())
    return Status();
  bool first = plan.mapsVersion == 0;
  size_t next = 0;
  for (size_t i = 0; next < plan.maps.size(); ++i) {
    const DispatchCode &code = program.dispatch(i);
    for (uint32_t m = 0; m < numMaps(code); ++m, ++next) {
      const schema::TensorMap &map = *code.kernel->launch()->tensor_maps()->Get(m);
      bool changes = code.encoded->bindings()->Get(map.binding())->kind() == schema::BindingKind::Buffer;
      if (!first && !changes)
        continue;
      TensorView tensor;
      tensor.address = program.bindings(code)[map.binding()];
      tensor.dtype = program.bindingType(code, map.binding());
      tensor.shape = program.bindingShape(code, map.binding());
      if (Status status = encodeTensorMap(device.api(), map, tensor, plan.maps[next]); !status.ok())
        return makeError(status.code(), "%s: tensor map %u: %s%s", kernelText(code).c_str(), m,
                         status.message().c_str(), placeText(code).c_str());
    }
  }
  plan.mapsVersion = program.version();
  return Status();
}

//===----------------------------------------------------------------------===//
// Products of the library
//===----------------------------------------------------------------------===//

/// From these sizes on the library is used: smaller products do not fill the GPU, whoever does them.
static constexpr int64_t leastRows = 256, leastSize = 1024;

static int64_t elementsOf(const std::vector<int64_t> &shape) {
  int64_t elements = 1;
  for (int64_t size : shape)
    elements *= size;
  return elements;
}

/// Prefill only: what is captured stays as it is, and decode has few rows. The library is opened for the first product
/// that it is to do.
void CudaExecutor::planProducts(Plan &plan) {
  const Program &program = plan.program;
  if (library == LibraryUse::never || program.encoded().phase() != schema::Phase::Prefill)
    return;
  std::vector<const schema::Product *> products(program.numDispatches());
  bool any = false;
  for (size_t i = 0; i < products.size(); ++i) {
    const DispatchCode &code = program.dispatch(i);
    const schema::Product *product = code.kernel->product();
    if (!product)
      continue;
    std::vector<int64_t> weight = program.bindingShape(code, product->weight());
    bool isLarge = weight[0] >= leastSize && weight[1] >= leastSize && program.encoded().max_tokens() >= leastRows;
    if (!isLarge && library != LibraryUse::always)
      continue;
    products[i] = product;
    any = true;
  }
  if (!any)
    return;
  if (!blas && whyNoBlas.empty()) {
    auto opened = std::make_unique<CudaBlas>(device);
    Status status = opened->open();
    if (status.ok())
      blas = std::move(opened);
    else
      whyNoBlas = status.message();
  }
  if (blas)
    plan.products = std::move(products);
}

std::string CudaExecutor::productsText() const {
  if (blas)
    return blas->name() + (library == LibraryUse::always ? " for all of prefill" : " for large ones of prefill");
  return "own kernels" + (whyNoBlas.empty() ? std::string() : " (" + whyNoBlas + ")");
}

bool CudaExecutor::multiply(const Plan &plan, size_t dispatch) {
  const schema::Product *encoded = plan.products.empty() ? nullptr : plan.products[dispatch];
  if (!encoded)
    return false;
  const Program &program = plan.program;
  const DispatchCode &code = program.dispatch(dispatch);
  std::vector<int64_t> weight = program.bindingShape(code, encoded->weight());
  int64_t x = elementsOf(program.bindingShape(code, encoded->x()));
  int64_t out = elementsOf(program.bindingShape(code, encoded->out()));
  CudaBlas::Product product;
  product.n = weight[0];
  product.k = weight[1];
  product.rows = x / product.k;
  if (product.rows < (library == LibraryUse::always ? 1 : leastRows))
    return false;
  // checkArtifact knows no sizes of a step.
  int64_t matrix = product.rows * product.n;
  int64_t slot = encoded->slot() < 0 ? 0 : program.scalars(code)[encoded->slot()];
  if (product.rows * product.k != x || out % matrix != 0 || slot < 0 || slot >= out / matrix ||
      (encoded->slot() < 0 && out != matrix))
    return false;
  product.outIsBf16 = program.bindingType(code, encoded->out()) == schema::DType::BF16;
  product.accumulate = encoded->accumulate();
  void *const *bindings = program.bindings(code);
  product.x = bindings[encoded->x()];
  product.weight = bindings[encoded->weight()];
  product.out = static_cast<char *>(bindings[encoded->out()]) + slot * matrix * (product.outIsBf16 ? 2 : 4);
  return blas->multiply(product);
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

CudaResult CudaExecutor::launch(Plan &plan, size_t dispatch, CudaStream stream) {
  bool inTrunk = stream == device.stream(), isBehindKernel = inTrunk && behindKernel;
  behindKernel &= !inTrunk;
  if (multiply(plan, dispatch))
    return CudaResult::success;
  const DispatchCode &code = plan.program.dispatch(dispatch);
  const schema::Launch &encoded = *code.kernel->launch();
  CudaLaunchAttribute attributes[3] = {};
  CudaLaunchConfig config = {};
  config.gridX = uint32_t(alignTo(code.grid[0], encoded.cluster()));
  config.gridY = code.grid[1];
  config.gridZ = code.grid[2];
  config.blockX = encoded.threads();
  config.blockY = config.blockZ = 1;
  config.dynamicSharedBytes = encoded.dynamic_shared_bytes();
  config.stream = stream;
  config.attributes = attributes;
  if (encoded.cluster() > 1) {
    CudaLaunchAttribute &attribute = attributes[config.attributeCount++];
    attribute.id = CudaLaunchAttribute::Id::clusterDimension;
    attribute.cluster = {encoded.cluster(), 1, 1};
  }
  // Blocks wait for each other: what the device cannot run at once, the driver refuses.
  if (encoded.resident()) {
    config.gridX = std::min(config.gridX, device.processor().multiprocessors);
    CudaLaunchAttribute &attribute = attributes[config.attributeCount++];
    attribute.id = CudaLaunchAttribute::Id::cooperative;
    attribute.cooperative = 1;
  }
  bool decodes = plan.program.encoded().phase() == schema::Phase::Decode;
  if (encoded.starts_early() && decodes && isBehindKernel) {
    CudaLaunchAttribute &attribute = attributes[config.attributeCount++];
    attribute.id = CudaLaunchAttribute::Id::programmaticStreamSerialization;
    attribute.programmaticStreamSerialization = 1;
  }
  CudaResult result = device.api().launchKernel(&config, kernels.function(code.ordinal),
                                                plan.parameters.data() + plan.firstParameter[dispatch], nullptr);
  behindKernel |= inTrunk && result == CudaResult::success;
  return result;
}

/// A launch also reports that something before it has failed; then the whole device is lost, and it is not the kernel's
/// fault.
Status CudaExecutor::launchFailure(const DispatchCode &code, CudaResult result) {
  K3RT_RETURN_IF_ERROR(device.finish());
  return makeError(K3RT_INTERNAL, "%s cannot be launched: %s%s", kernelText(code).c_str(),
                   device.api().describe(result).c_str(), placeText(code).c_str());
}

Status CudaExecutor::launchGroup(Plan &plan, const GroupCode &group, bool waits) {
  for (uint32_t d = 0; d < group.numDispatches; ++d) {
    size_t number = group.firstDispatch + d;
    const DispatchCode &code = plan.program.dispatch(number);
    if (CudaResult result = launch(plan, number, device.stream()); result != CudaResult::success)
      return launchFailure(code, result);
    if (!waits)
      continue;
    behindKernel = false;
    if (CudaResult result = device.api().streamSynchronize(device.stream()); result != CudaResult::success)
      return device.check(result, (kernelText(code) + " failed" + placeText(code)).c_str());
  }
  return Status();
}

Status CudaExecutor::run(const Program &program, bool withLogits, RunObserver *observer) {
  if (device.lost())
    return device.reason();
  CudaDevice::Scope scope(device);
  behindKernel = false;
  Plan &plan = planOf(program);
  bool decodes = program.encoded().phase() == schema::Phase::Decode;
  device.setActivity(decodes ? "the decode program" : "the prefill program");
  size_t numGroups = withLogits ? program.groups().size() : program.epilogueBegin();
  if (observer)
    return runDirectly(plan, numGroups, observer);
  bool inGraph = graphs && decodes && !traces();
  if (profiling() != Profiling::off)
    return runProfiled(plan, numGroups, inGraph);
  if (inGraph)
    return runGraph(plan, numGroups);
  return runDirectly(plan, numGroups, nullptr);
}

Status CudaExecutor::runDirectly(Plan &plan, size_t numGroups, RunObserver *observer) {
  K3RT_RETURN_IF_ERROR(encodeMaps(plan));
  for (size_t i = 0; i < numGroups; ++i) {
    const GroupCode &group = plan.program.groups()[i];
    K3RT_RETURN_IF_ERROR(launchGroup(plan, group, careful || observer));
    if (observer)
      observer->afterGroup(plan.program, group);
    if (traces()) {
      K3RT_RETURN_IF_ERROR(traceGroup(plan.program, group));
      behindKernel = false;
    }
  }
  return Status();
}

//===----------------------------------------------------------------------===//
// Profiles
//===----------------------------------------------------------------------===//

Status CudaExecutor::makeEvents(size_t count) {
  while (events.size() < count) {
    CudaEvent event = nullptr;
    K3RT_RETURN_IF_ERROR(device.check(device.api().eventCreate(&event, 0), "cannot create an event"));
    events.push_back(event);
  }
  return Status();
}

CudaResult CudaExecutor::recordTime(size_t event, bool inGraph) {
  behindKernel = false;
  return device.api().eventRecordWithFlags(events[event], device.stream(), inGraph ? cudaEventRecordExternal : 0);
}

/// A group with an event at the end of all that is timed. `current`: what a failure belongs to, null for an event.
CudaResult CudaExecutor::submitTimed(Plan &plan, const GroupCode &group, bool inGraph, size_t &event,
                                     const DispatchCode *&current) {
  bool each = profiling() == Profiling::dispatches;
  CudaResult result = CudaResult::success;
  if (!each && inGraph && group.numDispatches != 0) {
    result = captureGroup(plan, group, current);
  } else {
    for (uint32_t d = 0; d < group.numDispatches && result == CudaResult::success; ++d) {
      current = &plan.program.dispatch(group.firstDispatch + d);
      result = launch(plan, group.firstDispatch + d, device.stream());
      if (!each || result != CudaResult::success)
        continue;
      current = nullptr;
      result = recordTime(event++, inGraph);
    }
  }
  if (each || result != CudaResult::success)
    return result;
  current = nullptr;
  return recordTime(event++, inGraph);
}

/// Events stand between what is timed, so that nothing waits for the host.
Status CudaExecutor::runProfiled(Plan &plan, size_t numGroups, bool inGraph) {
  const CudaApi &cuda = device.api();
  const Program &program = plan.program;
  // One in front; with traces one more behind each group.
  K3RT_RETURN_IF_ERROR(makeEvents(1 + program.numDispatches() + 2 * numGroups));
  K3RT_RETURN_IF_ERROR(encodeMaps(plan));
  size_t event = 0;
  if (inGraph) {
    CudaGraphExec graph = nullptr;
    auto submit = [&](const DispatchCode *&current) {
      CudaResult result = recordTime(event++, true);
      for (size_t i = 0; i < numGroups && result == CudaResult::success; ++i)
        result = submitTimed(plan, program.groups()[i], true, event, current);
      return result;
    };
    K3RT_RETURN_IF_ERROR(capture(plan, submit, graph));
    Status status = device.check(cuda.graphLaunch(graph, device.stream()), "cannot launch a graph");
    if (status.ok())
      status = device.finish();
    cuda.graphExecDestroy(graph);
    K3RT_RETURN_IF_ERROR(status);
    return reportTimes(program, numGroups);
  }
  K3RT_RETURN_IF_ERROR(device.check(recordTime(event++, false), "cannot record an event"));
  for (size_t i = 0; i < numGroups; ++i) {
    const GroupCode &group = program.groups()[i];
    const DispatchCode *current = nullptr;
    if (CudaResult result = submitTimed(plan, group, false, event, current); result != CudaResult::success)
      return current ? launchFailure(*current, result) : device.check(result, "cannot record an event");
    if (traces()) {
      K3RT_RETURN_IF_ERROR(traceGroup(program, group));
      K3RT_RETURN_IF_ERROR(device.check(recordTime(event++, false), "cannot record an event"));
    }
  }
  K3RT_RETURN_IF_ERROR(device.finish());
  return reportTimes(program, numGroups);
}

Status CudaExecutor::reportTimes(const Program &program, size_t numGroups) {
  size_t event = 0;
  auto report = [&](const GroupCode &group, int32_t dispatch) {
    float milliseconds = 0;
    K3RT_RETURN_IF_ERROR(
        device.check(device.api().eventElapsedTime(&milliseconds, events[event], events[event + 1]),
                     "cannot tell the time between events"));
    ++event;
    reportTime(program, group, dispatch, double(milliseconds) * 1e-3);
    return Status();
  };
  bool each = profiling() == Profiling::dispatches;
  for (size_t i = 0; i < numGroups; ++i) {
    const GroupCode &group = program.groups()[i];
    for (uint32_t d = 0; each && d < group.numDispatches; ++d)
      K3RT_RETURN_IF_ERROR(report(group, int32_t(d)));
    if (!each)
      K3RT_RETURN_IF_ERROR(report(group, -1));
    event += traces();
  }
  return Status();
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

Status CudaExecutor::runGraph(Plan &plan, size_t numGroups) {
  const SymbolValues &values = plan.program.values();
  auto found = std::find_if(plan.graphs.begin(), plan.graphs.end(), [&](const Captured &captured) {
    return captured.values == values && captured.numGroups == numGroups;
  });
  if (found == plan.graphs.end()) {
    Captured fresh;
    fresh.values = values;
    fresh.numGroups = numGroups;
    K3RT_RETURN_IF_ERROR(encodeMaps(plan));
    auto submit = [&](const DispatchCode *&current) {
      CudaResult result = CudaResult::success;
      for (size_t i = 0; i < numGroups && result == CudaResult::success; ++i)
        if (plan.program.groups()[i].numDispatches != 0)
          result = captureGroup(plan, plan.program.groups()[i], current);
      return result;
    };
    K3RT_RETURN_IF_ERROR(capture(plan, submit, fresh.graph));
    if (plan.graphs.size() < maxGraphs) {
      found = plan.graphs.insert(plan.graphs.end(), fresh);
    } else {
      found = std::min_element(plan.graphs.begin(), plan.graphs.end(),
                               [](const Captured &a, const Captured &b) { return a.lastRun < b.lastRun; });
      device.api().graphExecDestroy(found->graph);
      *found = fresh;
    }
  }
  found->lastRun = ++plan.runs;
  return device.check(device.api().graphLaunch(found->graph, device.stream()), "cannot launch a graph");
}

/// As many branches as a group can use.
Status CudaExecutor::makeBranches(const Program &program) {
  constexpr size_t mostBranches = 8;
  const CudaApi &cuda = device.api();
  size_t wanted = 0;
  for (const GroupCode &group : program.groups())
    wanted = std::max<size_t>(wanted, group.numDispatches);
  wanted = std::min(wanted, mostBranches);
  if (!fork)
    K3RT_RETURN_IF_ERROR(device.check(cuda.eventCreate(&fork, cudaEventDisableTiming), "cannot create an event"));
  while (branches.size() + 1 < wanted) {
    Branch branch;
    K3RT_RETURN_IF_ERROR(
        device.check(cuda.streamCreate(&branch.stream, cudaStreamNonBlocking), "cannot create a stream"));
    branches.push_back(branch);
    K3RT_RETURN_IF_ERROR(
        device.check(cuda.eventCreate(&branches.back().end, cudaEventDisableTiming), "cannot create an event"));
  }
  return Status();
}

/// The first dispatch is in the device's stream, the others are dealt out to the branches. `current` is the one that a
/// failure belongs to.
CudaResult CudaExecutor::captureGroup(Plan &plan, const GroupCode &group, const DispatchCode *&current) {
  const CudaApi &cuda = device.api();
  CudaStream trunk = device.stream();
  CudaResult result = CudaResult::success;
  auto note = [&](CudaResult next) {
    if (result == CudaResult::success)
      result = next;
  };
  size_t used = std::min<size_t>(group.numDispatches - 1, branches.size());
  current = &plan.program.dispatch(group.firstDispatch);
  if (used != 0) {
    behindKernel = false;
    note(cuda.eventRecord(fork, trunk));
  }
  for (size_t i = 0; i < used && result == CudaResult::success; ++i)
    note(cuda.streamWaitEvent(branches[i].stream, fork, 0));
  for (uint32_t d = 0; d < group.numDispatches && result == CudaResult::success; ++d) {
    current = &plan.program.dispatch(group.firstDispatch + d);
    size_t lane = d % (used + 1);
    note(launch(plan, group.firstDispatch + d, lane == 0 ? trunk : branches[lane - 1].stream));
  }
  // Also after a failure: a capture ends with all its streams joined.
  for (size_t i = 0; i < used; ++i) {
    CudaResult joined = cuda.eventRecord(branches[i].end, branches[i].stream);
    note(joined == CudaResult::success ? cuda.streamWaitEvent(trunk, branches[i].end, 0) : joined);
    behindKernel = false;
  }
  return result;
}

/// What `submit` puts into the device's stream as a graph. It sets the dispatch that its failure belongs to, null for an
/// event.
template <typename Submit> Status CudaExecutor::capture(Plan &plan, Submit submit, CudaGraphExec &out) {
  const CudaApi &cuda = device.api();
  K3RT_RETURN_IF_ERROR(makeBranches(plan.program));
  // Other threads may go on with other engines.
  K3RT_RETURN_IF_ERROR(
      device.check(cuda.streamBeginCapture(device.stream(), CudaCaptureMode::threadLocal), "cannot capture a graph"));
  const DispatchCode *current = nullptr;
  CudaResult result = submit(current);
  CudaGraph graph = nullptr;
  CudaResult ended = cuda.streamEndCapture(device.stream(), &graph);
  if (result != CudaResult::success) {
    if (graph)
      cuda.graphDestroy(graph);
    return current ? launchFailure(*current, result) : device.check(result, "cannot record an event");
  }
  K3RT_RETURN_IF_ERROR(device.check(ended, "cannot capture a graph"));
  result = cuda.graphInstantiate(&out, graph, 0);
  cuda.graphDestroy(graph);
  if (result == CudaResult::outOfMemory)
    return makeError(K3RT_OUT_OF_MEMORY, "%s: not enough memory for a graph of %lld sequences (--no-graph needs none)",
                     device.name(), static_cast<long long>(plan.program.values()[Symbol::sequences]));
  return device.check(result, "cannot make a graph");
}

} // namespace k3rt
