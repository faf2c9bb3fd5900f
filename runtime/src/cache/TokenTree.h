//===- TokenTree.h - token sequences by their longest known prefix -------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// A radix tree over token ids. Sequences are compared token by token: a prefix
// is never taken for another one, whatever their hashes.
//===----------------------------------------------------------------------===//
#ifndef K3RT_CACHE_TOKENTREE_H
#define K3RT_CACHE_TOKENTREE_H

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace k3rt {

class TokenTree {
public:
  using Entry = uint32_t;

  TokenTree() { nodes.emplace_back(); }

  /// The longest entry that is a prefix of tokens[0 .. count).
  std::optional<Entry> findLongest(const int32_t *tokens, uint64_t count) const;
  /// Adds tokens[0 .. count), count >= 1. `entry` is the caller's number for
  /// it; it is not in the tree yet, nor are the tokens.
  void insert(const int32_t *tokens, uint64_t count, Entry entry);
  /// The entry whose tokens are exactly these.
  std::optional<Entry> find(const int32_t *tokens, uint64_t count) const;
  void erase(Entry entry);

  std::vector<int32_t> tokensOf(Entry entry) const;
  /// Tokens of the longest entry that is a proper prefix of this one, 0 if
  /// there is none.
  uint64_t lengthBefore(Entry entry) const;
  /// Nodes in use, the root among them: what the tree's memory grows with.
  uint64_t numNodes() const { return nodes.size() - unused.size(); }

private:
  static constexpr uint32_t none = UINT32_MAX;
  struct Node {
    uint32_t parent = none;
    uint64_t depth = 0; ///< tokens from the root to the end of `edge`
    std::vector<int32_t> edge;
    std::unordered_map<int32_t, uint32_t> children; ///< by first token
    Entry entry = none;
  };

  uint32_t addNode(uint32_t parent, const int32_t *edge, uint64_t length);
  void removeNode(uint32_t node);
  /// Puts a node after the first `length` tokens of the edge of `node`.
  uint32_t split(uint32_t node, uint64_t length);
  /// Joins `node` with its only child.
  void joinChild(uint32_t node);

  std::vector<Node> nodes; ///< 0 is the root
  std::vector<uint32_t> unused;
  std::unordered_map<Entry, uint32_t> nodeOf;
};

} // namespace k3rt

#endif // K3RT_CACHE_TOKENTREE_H
