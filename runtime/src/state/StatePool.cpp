//===- StatePool.cpp - memory of everything sequences carry --------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/state/StatePool.h"
#include "runtime/src/artifact/DType.h"

#include <algorithm>
#include <cstring>

namespace k3rt {

namespace schema = k3::artifact;

static constexpr int poisonByte = 0xff;

Status StatePool::init(const schema::Artifact &index, const MemoryPlan &plan,
                       bool poisonMemory, ThreadPool &pool) {
  poison = poisonMemory;
  threads = &pool;
  numPages = plan.pageTokens ? plan.pages : 0;
  pageTokens = plan.pageTokens;
  K3RT_RETURN_IF_ERROR(slotMemory.allocate(plan.statePool, "sequence states"));
  uint64_t numStates = index.states() ? index.states()->size() : 0;
  K3RT_RETURN_IF_ERROR(pageMemory.allocate(
      numPages ? plan.kvPool + numStates * bufferAlignment : 0,
      "the latent cache"));

  char *nextSlotRegion = slotMemory.data();
  char *nextPageRegion = pageMemory.data();
  if (index.states())
    for (const auto *state : *index.states()) {
      Region region;
      region.dtype = state->dtype();
      region.paged = state->kind() == schema::StateKind::KvCache;
      region.stride = elementBytes(state->dtype());
      // The first dimension of a page is its tokens.
      uint32_t rank = state->shape() ? state->shape()->size() : 0;
      for (uint32_t i = region.paged ? 1 : 0; i < rank; ++i)
        region.stride *= uint64_t(state->shape()->Get(i));
      if (region.paged) {
        region.memory = nextPageRegion;
        nextPageRegion +=
            alignTo(region.stride * pageTokens * numPages, bufferAlignment);
        rowBytes += region.stride;
      } else {
        region.memory = nextSlotRegion;
        nextSlotRegion += alignTo(region.stride * plan.slots, bufferAlignment);
        slotBytes += region.stride;
      }
      regions.push_back(region);
    }

  // Taken from the back: low numbers first.
  for (uint32_t slot = plan.slots; slot-- > 0;)
    slotStack.push_back(slot);
  for (uint32_t page = numPages; page-- > 0;)
    pageStack.push_back(int32_t(page));
  if (poison && pageMemory.size() != 0)
    memset(pageMemory.data(), poisonByte, pageMemory.size());
  return Status();
}

void StatePool::fillSlot(uint32_t slot, int byte) {
  constexpr uint64_t pieceBytes = 1u << 20;
  for (const Region &region : regions) {
    if (region.paged)
      continue;
    char *begin = region.memory + region.stride * slot;
    uint64_t pieces = (region.stride + pieceBytes - 1) / pieceBytes;
    threads->parallelFor(uint32_t(std::min<uint64_t>(pieces, UINT32_MAX)),
                         [&](uint32_t first, uint32_t last, uint32_t) {
                           uint64_t from = first * pieceBytes;
                           uint64_t to = std::min<uint64_t>(last * pieceBytes,
                                                            region.stride);
                           memset(begin + from, byte, to - from);
                         });
  }
}

std::optional<uint32_t> StatePool::takeSlot() {
  if (slotStack.empty())
    return std::nullopt;
  uint32_t slot = slotStack.back();
  slotStack.pop_back();
  fillSlot(slot, 0);
  return slot;
}

void StatePool::giveBack(Holding &holding) {
  setPages(holding, 0);
  if (poison)
    fillSlot(holding.slot, poisonByte);
  slotStack.push_back(holding.slot);
}

uint32_t StatePool::pagesFor(uint64_t tokens) const {
  return pageTokens ? uint32_t((tokens + pageTokens - 1) / pageTokens) : 0;
}

void StatePool::setPages(Holding &holding, uint32_t count) {
  while (holding.pages.size() < count) {
    holding.pages.push_back(pageStack.back());
    pageStack.pop_back();
  }
  while (holding.pages.size() > count) {
    int32_t page = holding.pages.back();
    holding.pages.pop_back();
    pageStack.push_back(page);
    if (!poison)
      continue;
    for (const Region &region : regions)
      if (region.paged) {
        uint64_t bytes = region.stride * pageTokens;
        memset(region.memory + bytes * uint32_t(page), poisonByte, bytes);
      }
  }
}

template <typename Body>
void StatePool::eachPage(const Region &region, const Holding &holding,
                         uint64_t tokens, Body body) const {
  uint64_t pageBytes = region.stride * pageTokens;
  for (uint64_t first = 0; first < tokens; first += pageTokens) {
    uint64_t rows = std::min<uint64_t>(pageTokens, tokens - first);
    auto page = uint64_t(holding.pages[first / pageTokens]);
    body(region.memory + page * pageBytes, rows * region.stride);
  }
}

uint64_t StatePool::copyBytes(uint64_t tokens) const {
  return slotBytes + rowBytes * tokens;
}

void StatePool::save(const Holding &holding, uint64_t tokens, char *to) const {
  for (const Region &region : regions) {
    if (!region.paged) {
      memcpy(to, region.memory + region.stride * holding.slot, region.stride);
      to += region.stride;
      continue;
    }
    eachPage(region, holding, tokens, [&](const char *from, uint64_t bytes) {
      memcpy(to, from, bytes);
      to += bytes;
    });
  }
}

void StatePool::load(Holding &holding, uint64_t tokens, const char *from) {
  for (const Region &region : regions) {
    if (!region.paged) {
      memcpy(region.memory + region.stride * holding.slot, from, region.stride);
      from += region.stride;
      continue;
    }
    eachPage(region, holding, tokens, [&](char *to, uint64_t bytes) {
      memcpy(to, from, bytes);
      from += bytes;
    });
  }
}

uint64_t StatePool::elements(uint32_t state, uint64_t tokens) const {
  const Region &region = regions[state];
  return region.stride / elementBytes(region.dtype) *
         (region.paged ? tokens : 1);
}

static float toFloat(schema::DType dtype, const char *from) {
  switch (dtype) {
  case schema::DType::F32: {
    float value;
    memcpy(&value, from, sizeof(value));
    return value;
  }
  case schema::DType::BF16: {
    uint16_t high;
    memcpy(&high, from, sizeof(high));
    uint32_t bits = uint32_t(high) << 16;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
  }
  case schema::DType::I32: {
    int32_t value;
    memcpy(&value, from, sizeof(value));
    return float(value);
  }
  case schema::DType::I8:
    return float(*reinterpret_cast<const int8_t *>(from));
  case schema::DType::U8:
    return float(*reinterpret_cast<const uint8_t *>(from));
  }
  __builtin_unreachable(); // checkArtifact knows all types
}

void StatePool::readAsFloat(uint32_t state, const Holding &holding,
                            uint64_t tokens, float *out) const {
  const Region &region = regions[state];
  uint32_t element = elementBytes(region.dtype);
  auto convert = [&](const char *from, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; i += element)
      *out++ = toFloat(region.dtype, from + i);
  };
  if (region.paged)
    eachPage(region, holding, tokens, convert);
  else
    convert(region.memory + region.stride * holding.slot, region.stride);
}

} // namespace k3rt
