//===- Placement.h - the arguments of a case in device memory --------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "test/gpu/Gpu.h"

#include <map>
#include <memory>
#include <string>
#include <tuple>

namespace k3::gpu {

/// Where the arguments of a case lie in a block of memory, between zones that nothing may write.
class Layout {
public:
  struct Piece {
    std::uint64_t offset, bytes;
    const Content *content; ///< null: a table of the addresses of the pieces before it
    std::uint32_t argument;
    bool writes;
  };

  /// `guard`: bytes before, between and after; 0 packs the pieces without zones.
  Layout(const Case &c, std::uint64_t guard);
  const std::vector<Piece> &pieces() const { return list; }
  /// The piece that is the kernel's parameter.
  const Piece &argument(std::uint32_t number) const { return list[parameters[number]]; }
  std::uint64_t bytes() const { return total; }

private:
  std::vector<Piece> list;
  std::vector<std::size_t> parameters;
  std::uint64_t total = 0;
};

/// What cases left that others read, by case and argument.
using Produced = std::map<std::pair<std::uint32_t, std::uint32_t>, Bytes>;

/// The arguments in memory: in one block, or each in its own.
class Placement {
public:
  /// `own`: every piece has memory of exactly its size.
  Placement(Gpu &gpu, const CaseSet &set, const Case &c, const Layout &layout, bool own, const Produced &produced);
  Gpu::Address address(const Layout::Piece &piece) const;
  /// Everything as before the first run; `onlyWritten`: only what kernels write.
  void initialize(bool onlyWritten);
  /// As in `other`, a block of the same layout.
  void copyFrom(const Placement &other);
  /// The whole block, zones included; not for pieces in their own memory.
  Bytes download() const;
  Gpu::Address block() const { return memory[0]->address(); }

private:
  void initialize(const Layout::Piece &piece);
  /// Values drawn once: hundreds of experts may have the same ones.
  const Bytes &draw(const std::string &dtype, const Draw &draw, std::uint64_t count);
  std::map<std::tuple<std::string, Draw::Kind, std::uint64_t, std::uint64_t, double, double, std::uint64_t>, Bytes> drawn;
  Gpu &gpu;
  const CaseSet &set;
  const Case &c;
  const Layout &layout;
  bool own;
  const Produced &produced;
  std::vector<std::unique_ptr<GpuMemory>> memory;
};

} // namespace k3::gpu
