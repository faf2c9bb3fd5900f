//===- KernelAttrs.cpp - how kernels are cut and launched -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace mlir::k3;

/// Blocks of a grid have three dimensions, clusters at most 16 blocks, blocks at most 1024 threads.
static constexpr size_t maxGridDims = 3;
static constexpr int64_t maxCluster = 16, maxThreads = 1024;

//===----------------------------------------------------------------------===//
// Grid dimension
//===----------------------------------------------------------------------===//

/// `T / 64` or `132`: as inside of `<>` and of a list.
static void printGridDim(AsmPrinter &printer, GridDimAttr dim) {
  if (dim.getName().empty())
    printer << dim.getTile();
  else
    printer << dim.getName().getValue() << " / " << dim.getTile();
}

static GridDimAttr parseGridDim(AsmParser &parser) {
  std::string name;
  int64_t tile = 0;
  SMLoc loc = parser.getCurrentLocation();
  if (OptionalParseResult constant = parser.parseOptionalInteger(tile); constant.has_value()) {
    if (failed(*constant))
      return {};
  } else {
    if (parser.parseKeywordOrString(&name) || parser.parseSlash() || parser.parseInteger(tile))
      return {};
  }
  auto nameAttr = StringAttr::get(parser.getContext(), name);
  if (failed(GridDimAttr::verify([&] { return parser.emitError(loc); }, nameAttr, tile)))
    return {};
  return GridDimAttr::get(parser.getContext(), nameAttr, tile);
}

void GridDimAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printGridDim(printer, *this);
  printer << ">";
}

Attribute GridDimAttr::parse(AsmParser &parser, Type) {
  GridDimAttr dim;
  if (parser.parseLess() || !(dim = parseGridDim(parser)) || parser.parseGreater())
    return {};
  return dim;
}

LogicalResult GridDimAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringAttr, int64_t tile) {
  if (tile < 1)
    return emitError() << "expected at least 1 in a grid's dimension, got " << tile;
  return success();
}

//===----------------------------------------------------------------------===//
// Tensor map
//===----------------------------------------------------------------------===//

LogicalResult TensorMapAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t binding,
                                    ArrayRef<int64_t> box, int64_t swizzle) {
  if (binding < 0)
    return emitError() << "expected the number of a binding, got " << binding;
  if (box.empty() || box.size() > 3 || llvm::any_of(box, [](int64_t size) { return size < 1 || size > 256; }))
    return emitError() << "expected a box of one to three sizes from 1 to 256";
  if (swizzle != 0 && swizzle != 32 && swizzle != 64 && swizzle != 128)
    return emitError() << "expected a swizzle of 0, 32, 64 or 128 bytes, got " << swizzle;
  return success();
}

//===----------------------------------------------------------------------===//
// Kernel config
//===----------------------------------------------------------------------===//

static ParseResult parseIntegers(AsmParser &parser, SmallVectorImpl<int64_t> &values) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                        [&] { return parser.parseInteger(values.emplace_back()); });
}

static ParseResult parseTensorMaps(AsmParser &parser, SmallVectorImpl<TensorMapAttr> &maps) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
    auto map = dyn_cast_or_null<TensorMapAttr>(TensorMapAttr::parse(parser, {}));
    maps.push_back(map);
    return success(static_cast<bool>(map));
  });
}

static void printTensorMaps(AsmPrinter &printer, ArrayRef<TensorMapAttr> maps) {
  printer << ", tensor_maps = [";
  llvm::interleaveComma(maps, printer, [&](TensorMapAttr map) { map.print(printer); });
  printer << "]";
}

void KernelConfigAttr::print(AsmPrinter &printer) const {
  printer << "<tiles = [";
  llvm::interleaveComma(getTiles(), printer);
  printer << "], strategy = ";
  printer.printString(getStrategy());
  if (!getGrid().empty()) {
    printer << ", grid = [";
    llvm::interleaveComma(getGrid(), printer, [&](GridDimAttr dim) { printGridDim(printer, dim); });
    printer << "]";
  }
  if (getThreads() != 0)
    printer << ", threads = " << getThreads();
  if (getSharedBytes() != 0)
    printer << ", shared_bytes = " << getSharedBytes();
  if (getCluster() != 1)
    printer << ", cluster = " << getCluster();
  if (!getTensorMaps().empty())
    printTensorMaps(printer, getTensorMaps());
  printer << ">";
}

Attribute KernelConfigAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<int64_t> tiles;
  std::string strategy;
  if (parser.parseLess() || parser.parseKeyword("tiles") || parser.parseEqual() || parseIntegers(parser, tiles) ||
      parser.parseComma() || parser.parseKeyword("strategy") || parser.parseEqual() || parser.parseString(&strategy))
    return {};
  SmallVector<GridDimAttr> grid;
  SmallVector<TensorMapAttr> maps;
  int64_t threads = 0, sharedBytes = 0, cluster = 1;
  while (succeeded(parser.parseOptionalComma())) {
    StringRef key;
    SMLoc at = parser.getCurrentLocation();
    if (parser.parseKeyword(&key) || parser.parseEqual())
      return {};
    ParseResult value = success();
    if (key == "grid")
      value = parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
        grid.push_back(parseGridDim(parser));
        return success(static_cast<bool>(grid.back()));
      });
    else if (key == "threads")
      value = parser.parseInteger(threads);
    else if (key == "shared_bytes")
      value = parser.parseInteger(sharedBytes);
    else if (key == "cluster")
      value = parser.parseInteger(cluster);
    else if (key == "tensor_maps")
      value = parseTensorMaps(parser, maps);
    else
      value = parser.emitError(at, "expected grid, threads, shared_bytes, cluster or tensor_maps, got ") << key;
    if (value)
      return {};
  }
  if (parser.parseGreater())
    return {};
  if (failed(verify([&] { return parser.emitError(loc); }, tiles, strategy, grid, threads, sharedBytes, cluster, maps)))
    return {};
  return get(parser.getContext(), tiles, strategy, grid, threads, sharedBytes, cluster, maps);
}

LogicalResult KernelConfigAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t>, StringRef,
                                       ArrayRef<GridDimAttr> grid, int64_t threads, int64_t sharedBytes,
                                       int64_t cluster, ArrayRef<TensorMapAttr> maps) {
  if (grid.size() > maxGridDims)
    return emitError() << "expected at most " << maxGridDims << " dimensions of a grid, got " << grid.size();
  if (threads < 0 || threads > maxThreads || threads % 32 != 0)
    return emitError() << "expected whole warps of at most " << maxThreads << " threads, got " << threads;
  if (sharedBytes < 0)
    return emitError() << "expected shared_bytes of at least 0, got " << sharedBytes;
  if (cluster < 1 || cluster > maxCluster)
    return emitError() << "expected a cluster of 1 to " << maxCluster << " workgroups, got " << cluster;
  if (threads == 0 && (sharedBytes != 0 || cluster != 1 || !maps.empty()))
    return emitError() << "expected threads with shared_bytes, cluster or tensor_maps";
  return success();
}

//===----------------------------------------------------------------------===//
// Launch
//===----------------------------------------------------------------------===//

void LaunchAttr::print(AsmPrinter &printer) const {
  printer << "<threads = " << getThreads();
  auto field = [&](StringRef name, int64_t value, int64_t standard) {
    if (value != standard)
      printer << ", " << name << " = " << value;
  };
  field("shared_bytes", getSharedBytes(), 0);
  field("cluster", getCluster(), 1);
  if (!getTensorMaps().empty())
    printTensorMaps(printer, getTensorMaps());
  field("registers", getRegisters(), 0);
  field("static_shared_bytes", getStaticSharedBytes(), 0);
  field("spill_bytes", getSpillBytes(), 0);
  field("stack_bytes", getStackBytes(), 0);
  printer << ">";
}

Attribute LaunchAttr::parse(AsmParser &parser, Type) {
  int64_t threads, sharedBytes = 0, cluster = 1, registers = 0, staticSharedBytes = 0, spillBytes = 0, stackBytes = 0;
  SmallVector<TensorMapAttr> maps;
  if (parser.parseLess() || parser.parseKeyword("threads") || parser.parseEqual() || parser.parseInteger(threads))
    return {};
  std::pair<StringRef, int64_t *> fields[] = {
      {"shared_bytes", &sharedBytes}, {"cluster", &cluster},
      {"registers", &registers},      {"static_shared_bytes", &staticSharedBytes},
      {"spill_bytes", &spillBytes},   {"stack_bytes", &stackBytes}};
  while (succeeded(parser.parseOptionalComma())) {
    StringRef key;
    SMLoc at = parser.getCurrentLocation();
    if (parser.parseKeyword(&key) || parser.parseEqual())
      return {};
    auto *field = llvm::find_if(fields, [&](const auto &known) { return known.first == key; });
    ParseResult value = success();
    if (key == "tensor_maps")
      value = parseTensorMaps(parser, maps);
    else if (field != std::end(fields))
      value = parser.parseInteger(*field->second);
    else
      value = parser.emitError(at, "unknown field of a launch: ") << key;
    if (value)
      return {};
  }
  if (parser.parseGreater())
    return {};
  return get(parser.getContext(), threads, sharedBytes, cluster, maps, registers, staticSharedBytes, spillBytes,
             stackBytes);
}
