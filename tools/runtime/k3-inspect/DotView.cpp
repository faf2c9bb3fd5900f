//===- DotView.cpp - a program as a graph --------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-inspect/Describe.h"
#include "tools/runtime/k3-inspect/Inspect.h"

#include <map>
#include <vector>

namespace k3inspect {

using namespace k3::artifact;
using k3rt::formatText;

namespace {

class DotView {
public:
  DotView(const Artifact &index, const Program &program)
      : index(index), program(program) {}

  std::string run();

private:
  using Groups = flatbuffers::Vector<flatbuffers::Offset<Group>>;

  void section(const std::string &title, const Groups *groups);
  void group(const Group &group, uint32_t number);
  void edges(const Dispatch &dispatch, uint32_t node);

  const Artifact &index;
  const Program &program;
  std::string out;
  uint32_t nextNode = 0, nextCluster = 0;
  /// By what is written. Every layer kind follows the prologue and comes before
  /// the epilogue, so writers stay from section to section.
  std::map<std::string, std::vector<uint32_t>> writers;
};

} // namespace

std::string DotView::run() {
  out = formatText("digraph %s {\n", phaseName(program.phase()));
  out += "  node [shape=box];\n";
  section("prologue", program.prologue());
  if (program.layer_kinds())
    for (const LayerKind *kind : *program.layer_kinds())
      section("layer kind " + plain(kind->name()), kind->groups());
  section("epilogue", program.epilogue());
  return out + "}\n";
}

void DotView::section(const std::string &title, const Groups *groups) {
  out += formatText("  subgraph cluster_%u {\n", nextCluster++);
  out += "    label=\"" + title + "\";\n";
  uint32_t firstNode = nextNode;
  for (uint32_t i = 0; groups && i < groups->size(); ++i)
    group(*groups->Get(i), i);
  out += "  }\n";
  nextNode = firstNode;
  for (uint32_t i = 0; groups && i < groups->size(); ++i) {
    const auto *dispatches = groups->Get(i)->dispatches();
    uint32_t groupNode = nextNode;
    if (!dispatches)
      continue;
    for (const Dispatch *dispatch : *dispatches)
      edges(*dispatch, nextNode++);
    // After all of the group have read: they do not see each other's writes.
    std::map<std::string, std::vector<uint32_t>> fresh;
    for (const Dispatch *dispatch : *dispatches) {
      if (dispatch->bindings())
        for (const Binding *binding : *dispatch->bindings())
          if (binding->writes())
            fresh[bindingText(*binding, program)].push_back(groupNode);
      ++groupNode;
    }
    for (auto &entry : fresh)
      writers[entry.first] = entry.second;
  }
}

void DotView::group(const Group &group, uint32_t number) {
  out += formatText("    subgraph cluster_%u {\n", nextCluster++);
  out += formatText("      label=\"group %u\";\n", number);
  if (group.dispatches())
    for (const Dispatch *dispatch : *group.dispatches())
      out += formatText("      d%u [label=\"", nextNode++) +
             plain(dispatch->label()) + "\\n" +
             plain(index.kernels()->Get(dispatch->kernel())->name()) + " " +
             gridText(*dispatch, program) + "\"];\n";
  out += "    }\n";
}

void DotView::edges(const Dispatch &dispatch, uint32_t node) {
  if (!dispatch.bindings())
    return;
  for (const Binding *binding : *dispatch.bindings()) {
    if (binding->kind() != BindingKind::Buffer)
      continue;
    std::string name = bindingText(*binding, program);
    auto found = writers.find(name);
    if (found == writers.end())
      continue;
    for (uint32_t writer : found->second)
      out +=
          formatText("  d%u -> d%u [label=\"", writer, node) + name + "\"];\n";
  }
}

std::string toDot(const Artifact &index, const Program &program) {
  return DotView(index, program).run();
}

} // namespace k3inspect
