//===- Ptxas.cpp - NVIDIA's assembler -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Ptxas.h"
#include "lib/Codegen/Common/ExternalTool.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

using namespace mlir;
using namespace mlir::k3;

static constexpr const char *toolName = "ptxas", *toolVariable = "K3_PTXAS";

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

/// Entries of `folder` whose name starts with `prefix`, in falling order of name: newer versions first.
static std::vector<std::string> listFolder(const Twine &folder, StringRef prefix) {
  std::vector<std::string> found;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (llvm::sys::path::filename(it->path()).starts_with(prefix))
      found.push_back(it->path());
  llvm::sort(found, std::greater<>());
  return found;
}

/// Folders below which Python packages may be installed: of the active environment, the user and the system.
static std::vector<std::string> getPythonPackageFolders() {
  std::vector<std::string> folders;
  auto addPrefix = [&](const std::string &prefix) {
    for (const std::string &version : listFolder(prefix + "/lib", "python3"))
      for (StringRef name : {"site-packages", "dist-packages"})
        folders.push_back(version + "/" + name.str());
  };
  if (std::optional<std::string> environment = llvm::sys::Process::GetEnv("VIRTUAL_ENV"))
    addPrefix(*environment);
  if (std::optional<std::string> home = llvm::sys::Process::GetEnv("HOME"))
    addPrefix(*home + "/.local");
  addPrefix("/usr/local");
  addPrefix("/usr");
  return folders;
}

std::vector<std::string> k3::listPtxasPlaces() {
  std::vector<std::string> places;
  for (const std::string &toolkit : listFolder("/usr/local", "cuda"))
    places.push_back(toolkit + "/bin/" + toolName);
  // nvidia/cuda_nvcc up to CUDA 12, nvidia/cu13 from then on.
  for (const std::string &packages : getPythonPackageFolders())
    for (const std::string &package : listFolder(packages + "/nvidia", "cu"))
      places.push_back(package + "/bin/" + toolName);
  return places;
}

llvm::Expected<std::string> k3::findPtxas() {
  if (std::optional<std::string> given = llvm::sys::Process::GetEnv(toolVariable)) {
    if (llvm::sys::fs::can_execute(*given))
      return *given;
    return llvm::createStringError(StringRef(toolVariable) + " names '" + *given + "', which is no program");
  }
  if (llvm::ErrorOr<std::string> onPath = llvm::sys::findProgramByName(toolName))
    return *onPath;
  for (const std::string &place : listPtxasPlaces())
    if (llvm::sys::fs::can_execute(place))
      return place;
  return llvm::createStringError("cannot find ptxas, which GPU targets need: it is neither on the PATH nor in "
                                 "/usr/local/cuda*/bin nor in the Python "
                                 "package nvidia-cuda-nvcc; K3_PTXAS may name it");
}

//===----------------------------------------------------------------------===//
// Report
//===----------------------------------------------------------------------===//

/// The text between single quotes, or nothing.
static StringRef getQuoted(StringRef line) { return line.split('\'').second.split('\'').first; }

/// The number before `what` ("64 bytes stack frame").
static int64_t getNumberBefore(StringRef line, StringRef what) {
  size_t at = line.find(what);
  if (at == StringRef::npos)
    return 0;
  StringRef digits = line.take_front(at).rtrim();
  digits = digits.substr(digits.find_last_not_of("0123456789") + 1);
  int64_t value = 0;
  return digits.getAsInteger(10, value) ? 0 : value;
}

llvm::StringMap<KernelResources> k3::parsePtxasReport(StringRef text) {
  llvm::StringMap<KernelResources> kernels;
  KernelResources *current = nullptr;
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  for (StringRef line : lines) {
    if (line.contains("Compiling entry function"))
      current = &kernels[getQuoted(line)];
    else if (line.contains("(C75"))
      // Its last words say in which function.
      kernels[line.contains('\'') ? getQuoted(line) : StringRef()].notes.push_back(line.trim().str());
    if (!current)
      continue;
    if (line.contains("bytes stack frame")) {
      current->stackBytes = getNumberBefore(line, "bytes stack frame");
      current->spillBytes = getNumberBefore(line, "bytes spill stores") + getNumberBefore(line, "bytes spill loads");
    } else if (line.contains("Used ")) {
      current->registers = getNumberBefore(line, "registers");
      current->staticSharedBytes = getNumberBefore(line, "bytes smem");
    }
  }
  return kernels;
}

//===----------------------------------------------------------------------===//
// Run
//===----------------------------------------------------------------------===//

llvm::Expected<Assembled> k3::assemblePtx(StringRef ptx, StringRef chip) {
  llvm::Expected<std::string> program = findPtxas();
  if (!program)
    return program.takeError();
  TemporaryFolder folder;
  if (folder.error)
    return llvm::createStringError("cannot make a temporary folder: " + folder.error.message());
  std::string input = folder.file("kernels.ptx"), output = folder.file("kernels.cubin");
  if (llvm::Error error = writeFile(input, ArrayRef<char>(ptx.data(), ptx.size())))
    return std::move(error);
  llvm::Expected<std::string> report =
      runTool(*program, {"-v", "-O3", "-arch=" + chip.str(), input, "-o", output}, folder);
  if (!report)
    return report.takeError();
  llvm::Expected<SmallVector<char>> cubin = readFile(output);
  if (!cubin)
    return cubin.takeError();
  return Assembled{std::move(*cubin), parsePtxasReport(*report)};
}
