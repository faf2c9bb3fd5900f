//===- CpuFeatures.h - what this CPU and system can execute --------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_BASE_CPUFEATURES_H
#define K3RT_BASE_CPUFEATURES_H

#include <string_view>

namespace k3rt {

enum class FeatureState { present, absent, unknown };

/// `name` as LLVM spells x86 target features, e.g. "avx512bf16". Present means
/// that the CPU has it and the system saves its registers. Unknown names, and
/// every name on other architectures, are `unknown`.
FeatureState cpuFeature(std::string_view name);

/// "x86_64" or what else this program was compiled for.
const char *hostArch();

} // namespace k3rt

#endif // K3RT_BASE_CPUFEATURES_H
