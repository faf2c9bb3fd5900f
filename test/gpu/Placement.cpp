//===- Placement.cpp - the arguments of a case in device memory ------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/gpu/Placement.h"

#include <algorithm>

using namespace k3::gpu;

GpuMemory::~GpuMemory() {
  try {
    if (size)
      gpu.release(start);
  } catch (const GpuError &) { // a lost device has no memory to give back
  }
}

/// Device memory starts at such multiples in the runtime, too.
static constexpr std::uint64_t alignment = 256;

Layout::Layout(const Case &c, std::uint64_t guard) : total(guard) {
  auto place = [&](std::uint64_t bytes, const Content *content, std::uint32_t argument, bool writes) {
    total = (total + alignment - 1) / alignment * alignment;
    list.push_back({total, bytes, content, argument, writes});
    total += bytes + guard;
  };
  for (std::uint32_t i = 0; i < c.arguments.size(); ++i) {
    const Argument &argument = c.arguments[i];
    std::uint64_t members = argument.contents.size();
    for (const Content &content : argument.contents)
      place(argument.bytes() / members, &content, i, argument.writes);
    if (argument.isTable)
      place(members * sizeof(Gpu::Address), nullptr, i, false);
    parameters.push_back(list.size() - 1);
  }
}

Placement::Placement(Gpu &gpu, const CaseSet &set, const Case &c, const Layout &layout, bool own,
                     const Produced &produced)
    : gpu(gpu), set(set), c(c), layout(layout), own(own), produced(produced) {
  if (own)
    for (const Layout::Piece &piece : layout.pieces())
      memory.push_back(std::make_unique<GpuMemory>(gpu, std::max<std::uint64_t>(piece.bytes, 1)));
  else
    memory.push_back(std::make_unique<GpuMemory>(gpu, layout.bytes()));
}

Gpu::Address Placement::address(const Layout::Piece &piece) const {
  return own ? memory[&piece - layout.pieces().data()]->address() : memory[0]->address() + piece.offset;
}

void Placement::initialize(bool onlyWritten) {
  if (!onlyWritten)
    for (const std::unique_ptr<GpuMemory> &block : memory)
      gpu.fill(block->address(), poison, block->bytes());
  for (const Layout::Piece &piece : layout.pieces())
    if (piece.writes || !onlyWritten)
      initialize(piece);
}

void Placement::initialize(const Layout::Piece &piece) {
  if (piece.bytes == 0)
    return;
  Gpu::Address to = address(piece);
  if (!piece.content) {
    std::vector<Gpu::Address> table;
    for (const Layout::Piece &member : layout.pieces())
      if (member.argument == piece.argument && member.content)
        table.push_back(address(member));
    gpu.upload(to, table.data(), piece.bytes);
    return;
  }
  switch (piece.content->kind) {
  case Content::Kind::poison:
    gpu.fill(to, poison, piece.bytes);
    break;
  case Content::Kind::stored:
    gpu.upload(to, set.at(piece.content->blob), piece.bytes);
    break;
  case Content::Kind::produced:
    gpu.upload(to, produced.at({piece.content->run, piece.content->argument}).data(), piece.bytes);
    break;
  case Content::Kind::drawn: {
    const std::string &dtype = c.arguments[piece.argument].dtype;
    std::uint64_t count = std::min(piece.content->period, piece.bytes / elementBytes(dtype));
    const Bytes &bytes = draw(dtype, piece.content->draw, count);
    gpu.upload(to, bytes.data(), bytes.size());
    for (std::uint64_t done = bytes.size(); done < piece.bytes; done *= 2)
      gpu.copy(to + done, to, std::min(done, piece.bytes - done));
    break;
  }
  }
}

const Bytes &Placement::draw(const std::string &dtype, const Draw &draw, std::uint64_t count) {
  auto [place, isNew] = drawn.try_emplace({dtype, draw.kind, draw.seed, draw.call, draw.a, draw.b, count});
  if (isNew)
    place->second = encode(dtype, draw.values(count));
  return place->second;
}

void Placement::copyFrom(const Placement &other) {
  gpu.copy(block(), other.block(), layout.bytes());
  for (const Layout::Piece &piece : layout.pieces())
    if (!piece.content)
      initialize(piece);
}

Bytes Placement::download() const {
  Bytes bytes(layout.bytes());
  gpu.download(bytes.data(), block(), bytes.size());
  return bytes;
}
