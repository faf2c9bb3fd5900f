//===- Tasks.cpp - what of case files is played ----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/gpu/Tasks.h"

#include <algorithm>
#include <map>

using namespace k3::gpu;

std::vector<Task> k3::gpu::chooseOneOfEach(const std::vector<CaseSet> &sets, const std::vector<Task> &tasks) {
  std::map<std::string, std::vector<std::pair<std::uint64_t, std::size_t>>> groups; // bytes and number of the task
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const CaseSet &set = sets[tasks[i].set];
    const Case &c = set.cases[tasks[i].number];
    const Kernel &kernel = set.kernels[c.variants[tasks[i].variant].kernel];
    std::string key = kernel.op + " " + kernel.strategy;
    std::uint64_t bytes = 0;
    for (const Argument &argument : c.arguments) {
      key += " " + argument.dtype;
      bytes += argument.bytes();
    }
    groups[key].emplace_back(bytes, i);
  }
  std::vector<std::size_t> chosen;
  for (auto &[key, group] : groups) {
    std::sort(group.begin(), group.end());
    chosen.push_back(group[group.size() * 3 / 4].second);
  }
  std::sort(chosen.begin(), chosen.end());
  std::vector<Task> out;
  for (std::size_t task : chosen)
    out.push_back(tasks[task]);
  return out;
}
