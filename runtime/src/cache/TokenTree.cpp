//===- TokenTree.cpp - token sequences by their longest known prefix -----===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/cache/TokenTree.h"

#include <algorithm>
#include <cassert>

namespace k3rt {

/// How many of `edge`'s first tokens are those at `tokens`.
static uint64_t commonLength(const std::vector<int32_t> &edge,
                             const int32_t *tokens, uint64_t count) {
  uint64_t limit = std::min<uint64_t>(edge.size(), count), i = 0;
  while (i < limit && edge[i] == tokens[i])
    ++i;
  return i;
}

std::optional<TokenTree::Entry>
TokenTree::findLongest(const int32_t *tokens, uint64_t count) const {
  std::optional<Entry> found;
  uint32_t at = 0;
  uint64_t done = 0;
  while (done < count) {
    auto child = nodes[at].children.find(tokens[done]);
    if (child == nodes[at].children.end())
      break;
    const Node &next = nodes[child->second];
    if (commonLength(next.edge, tokens + done, count - done) !=
        next.edge.size())
      break;
    at = child->second;
    done = next.depth;
    if (next.entry != none)
      found = next.entry;
  }
  return found;
}

std::optional<TokenTree::Entry> TokenTree::find(const int32_t *tokens,
                                                uint64_t count) const {
  std::optional<Entry> entry = findLongest(tokens, count);
  if (entry && nodes[nodeOf.at(*entry)].depth != count)
    return std::nullopt;
  return entry;
}

uint32_t TokenTree::addNode(uint32_t parent, const int32_t *edge,
                            uint64_t length) {
  uint32_t index;
  if (unused.empty()) {
    index = uint32_t(nodes.size());
    nodes.emplace_back();
  } else {
    index = unused.back();
    unused.pop_back();
  }
  Node &node = nodes[index];
  node.parent = parent;
  node.depth = nodes[parent].depth + length;
  node.edge.assign(edge, edge + length);
  nodes[parent].children[*edge] = index;
  return index;
}

void TokenTree::removeNode(uint32_t node) {
  nodes[node] = Node();
  unused.push_back(node);
}

uint32_t TokenTree::split(uint32_t node, uint64_t length) {
  std::vector<int32_t> edge = std::move(nodes[node].edge);
  uint32_t middle = addNode(nodes[node].parent, edge.data(), length);
  nodes[node].edge.assign(edge.begin() + long(length), edge.end());
  nodes[node].parent = middle;
  nodes[middle].children[edge[length]] = node;
  return middle;
}

void TokenTree::insert(const int32_t *tokens, uint64_t count, Entry entry) {
  assert(count != 0 && "the empty prefix is always known");
  uint32_t at = 0;
  uint64_t done = 0;
  while (done < count) {
    auto child = nodes[at].children.find(tokens[done]);
    if (child == nodes[at].children.end()) {
      at = addNode(at, tokens + done, count - done);
      break;
    }
    uint32_t next = child->second;
    uint64_t common =
        commonLength(nodes[next].edge, tokens + done, count - done);
    at = common == nodes[next].edge.size() ? next : split(next, common);
    done += common;
  }
  assert(nodes[at].entry == none && "the tokens are in the tree already");
  nodes[at].entry = entry;
  [[maybe_unused]] bool isNew = nodeOf.emplace(entry, at).second;
  assert(isNew && "the entry is in the tree already");
}

void TokenTree::joinChild(uint32_t node) {
  uint32_t child = nodes[node].children.begin()->second;
  std::vector<int32_t> edge = std::move(nodes[node].edge);
  edge.insert(edge.end(), nodes[child].edge.begin(), nodes[child].edge.end());
  uint32_t parent = nodes[node].parent;
  nodes[child].edge = std::move(edge);
  nodes[child].parent = parent;
  nodes[parent].children[nodes[child].edge.front()] = child;
  removeNode(node);
}

void TokenTree::erase(Entry entry) {
  auto found = nodeOf.find(entry);
  assert(found != nodeOf.end() && "no such entry");
  uint32_t node = found->second;
  nodeOf.erase(found);
  nodes[node].entry = none;
  if (nodes[node].children.empty()) {
    uint32_t parent = nodes[node].parent;
    nodes[parent].children.erase(nodes[node].edge.front());
    removeNode(node);
    node = parent;
  }
  // A node that only passes on to one child is not needed.
  if (node != 0 && nodes[node].entry == none &&
      nodes[node].children.size() == 1)
    joinChild(node);
}

std::vector<int32_t> TokenTree::tokensOf(Entry entry) const {
  uint32_t node = nodeOf.at(entry);
  std::vector<int32_t> tokens(nodes[node].depth);
  for (; node != 0; node = nodes[node].parent)
    std::copy(nodes[node].edge.begin(), nodes[node].edge.end(),
              tokens.begin() + long(nodes[node].depth -
                                    nodes[node].edge.size()));
  return tokens;
}

uint64_t TokenTree::lengthBefore(Entry entry) const {
  uint32_t node = nodes[nodeOf.at(entry)].parent;
  while (node != 0 && nodes[node].entry == none)
    node = nodes[node].parent;
  return nodes[node].depth;
}

} // namespace k3rt
