//===- ExternalTool.cpp - programs that code generation runs -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Common/ExternalTool.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::k3;

TemporaryFolder::TemporaryFolder() : error(llvm::sys::fs::createUniqueDirectory("k3-code", path)) {}

TemporaryFolder::~TemporaryFolder() {
  if (!error)
    llvm::sys::fs::remove_directories(path);
}

std::string TemporaryFolder::file(const Twine &name) const {
  SmallString<128> full(path);
  llvm::sys::path::append(full, name);
  return full.str().str();
}

llvm::Error k3::writeFile(StringRef path, ArrayRef<char> bytes) {
  std::error_code error;
  llvm::raw_fd_ostream stream(path, error);
  if (!error) {
    stream.write(bytes.data(), bytes.size());
    stream.close();
    error = stream.error();
    stream.clear_error();
  }
  return error ? llvm::createStringError("cannot write " + path + ": " + error.message()) : llvm::Error::success();
}

llvm::Expected<SmallVector<char>> k3::readFile(StringRef path) {
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!file)
    return llvm::createStringError("cannot read " + path + ": " + file.getError().message());
  StringRef bytes = (*file)->getBuffer();
  return SmallVector<char>(bytes.begin(), bytes.end());
}

llvm::Expected<std::string> k3::runTool(StringRef program, ArrayRef<std::string> arguments,
                                        const TemporaryFolder &folder) {
  std::string messages = folder.file("messages"), error;
  SmallVector<StringRef> words = {program};
  words.append(arguments.begin(), arguments.end());
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(messages), StringRef(messages)};
  int status = llvm::sys::ExecuteAndWait(program, words, std::nullopt, redirects, 0, 0, &error);
  std::string text;
  if (auto file = llvm::MemoryBuffer::getFile(messages))
    text = (*file)->getBuffer().rtrim().str();
  if (status != 0)
    return llvm::createStringError(llvm::sys::path::filename(program) + " failed: " + error + text);
  return text;
}
