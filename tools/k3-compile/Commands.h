//===- Commands.h - what k3-compile can do -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3COMPILE_COMMANDS_H
#define K3_TOOLS_K3COMPILE_COMMANDS_H

#include "tools/k3-compile/Options.h"

namespace k3compile {

/// `programPath`: of this program, to find the runtime beside it. Results go to standard output, one line of error is
/// returned.
::k3::frontend::Status runCompile(const Options &options, const std::string &programPath);

/// Prints the report; the exit code says whether the model is in order.
int runCheck(const Options &options);

::k3::frontend::Status runPlan(const Options &options);

/// The passes of every stage as text that k3-opt takes.
::k3::frontend::Status printPipelines(const Options &options);

} // namespace k3compile

#endif // K3_TOOLS_K3COMPILE_COMMANDS_H
