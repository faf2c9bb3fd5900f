//===- Summary.cpp - what a compilation did, for the user -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/k3-compile/Summary.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace k3compile;

static void printJson(const Options &options, const Summary &summary) {
  llvm::json::OStream json(llvm::outs());
  json.object([&] {
    json.attribute("output", summary.output);
    json.attribute("emit", getName(options.emit));
    json.attribute("cpu", summary.targets.front());
    json.attributeArray("targets", [&] {
      for (const std::string &target : summary.targets)
        json.value(target);
    });
    if (const auto &artifact = summary.artifact) {
      json.attribute("bytes", artifact->bytes);
      json.attribute("weights", getName(artifact->weights));
      if (!artifact->weightsPath.empty())
        json.attribute("weights_file", artifact->weightsPath);
      json.attribute("weight_bytes", artifact->weightBytes);
      json.attribute("code_bytes", artifact->codeBytes);
      json.attribute("index_bytes", artifact->indexBytes);
      json.attribute("kernels", static_cast<int64_t>(artifact->numKernels));
      json.attribute("prefill_arena_bytes", artifact->prefillArenaBytes);
      json.attribute("decode_arena_bytes", artifact->decodeArenaBytes);
    }
    json.attributeObject("seconds", [&] {
      for (auto [stage, seconds] : summary.seconds)
        json.attribute(mlir::k3::getStageName(stage), seconds);
    });
  });
  llvm::outs() << "\n";
}

static std::string megabytes(uint64_t bytes) { return llvm::formatv("{0:f1} MB", bytes / 1e6).str(); }

void k3compile::printSummary(const Options &options, const Summary &summary) {
  double total = 0;
  for (auto [stage, seconds] : summary.seconds)
    total += seconds;
  if (options.time) {
    for (auto [stage, seconds] : summary.seconds)
      llvm::errs() << llvm::left_justify(mlir::k3::getStageName(stage), 12) << llvm::format("%8.2f s\n", seconds);
    llvm::errs() << llvm::left_justify("total", 12) << llvm::format("%8.2f s\n", total);
  }
  if (summary.output == "-")
    return;
  if (options.json)
    return printJson(options, summary);
  llvm::outs() << summary.output;
  if (const auto &artifact = summary.artifact) {
    llvm::outs() << ": " << megabytes(artifact->bytes) << ", " << artifact->numKernels << " kernels for "
                 << llvm::join(summary.targets, " and ");
    switch (artifact->weights) {
    case mlir::k3::WeightsMode::None:
      llvm::outs() << ", no weights";
      break;
    case mlir::k3::WeightsMode::Embed:
      llvm::outs() << ", " << megabytes(artifact->weightBytes) << " of weights inside";
      break;
    case mlir::k3::WeightsMode::Pack:
      llvm::outs() << ", " << megabytes(artifact->weightBytes) << " of weights in " << artifact->weightsPath;
      break;
    case mlir::k3::WeightsMode::Reference:
      llvm::outs() << ", " << megabytes(artifact->weightBytes) << " of weights stay in the model directory";
      break;
    }
  }
  llvm::outs() << llvm::format(" (%.1f s)\n", total);
}
