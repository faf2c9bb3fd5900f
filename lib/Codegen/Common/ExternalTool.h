//===- ExternalTool.h - programs that code generation runs -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_COMMON_EXTERNALTOOL_H
#define K3_CODEGEN_COMMON_EXTERNALTOOL_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Error.h"
#include <string>
#include <system_error>

namespace mlir::k3 {

/// A folder for the files of one run, removed at the end of its life.
struct TemporaryFolder {
  /// Check `error` first.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  std::string file(const Twine &name) const;

  SmallString<128> path;
  std::error_code error;
};

llvm::Error writeFile(StringRef path, ArrayRef<char> bytes);
llvm::Expected<SmallVector<char>> readFile(StringRef path);

/// Runs `program` (a path) with `arguments` (without its name) and returns all it prints. If it fails the error is what
/// it printed, behind its name.
llvm::Expected<std::string> runTool(StringRef program, ArrayRef<std::string> arguments, const TemporaryFolder &folder);

} // namespace mlir::k3

#endif // K3_CODEGEN_COMMON_EXTERNALTOOL_H
