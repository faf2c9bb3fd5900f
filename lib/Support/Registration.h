//===- Registration.h - everything the compiler tools register -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_SUPPORT_REGISTRATION_H
#define K3_SUPPORT_REGISTRATION_H

#include "llvm/ADT/StringRef.h"

namespace mlir {
class DialectRegistry;
namespace k3 {
/// All upstream dialects and extensions, the k3 dialect and its interface models, translations to LLVM IR.
void registerAllK3Dialects(DialectRegistry &registry);
/// All upstream passes and ours.
void registerAllK3Passes();
/// `--version` of a tool built on LLVM's command line: its name and version, and that of LLVM.
void setVersionPrinter(llvm::StringRef tool);
} // namespace k3
} // namespace mlir

#endif // K3_SUPPORT_REGISTRATION_H
