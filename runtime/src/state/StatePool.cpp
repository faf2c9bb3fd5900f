//===- StatePool.cpp - memory of everything sequences carry --------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/state/StatePool.h"
#include "runtime/src/artifact/DType.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

namespace k3rt {

namespace schema = k3::artifact;

static constexpr uint8_t poisonByte = 0xff;

Status StatePool::init(const schema::Artifact &index, const MemoryPlan &plan,
                       bool poisonMemory, Device &on) {
  poison = poisonMemory;
  device = &on;
  numPages = plan.pageTokens ? plan.pages : 0;
  pageTokens = plan.pageTokens;
  K3RT_RETURN_IF_ERROR(
      slotMemory.allocate(on, plan.statePool, "sequence states"));
  uint64_t numStates = index.states() ? index.states()->size() : 0;
  K3RT_RETURN_IF_ERROR(pageMemory.allocate(
      on, numPages ? plan.kvPool + numStates * bufferAlignment : 0,
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
  users.assign(numPages, 0);
  if (poison)
    on.fill(pageMemory.data(), poisonByte, pageMemory.size());
  return Status();
}

void StatePool::fillSlot(uint32_t slot, uint8_t byte) {
  for (const Region &region : regions)
    if (!region.paged)
      device->fill(region.memory + region.stride * slot, byte, region.stride);
}

std::optional<uint32_t> StatePool::takeSlot(Contents contents) {
  if (slotStack.empty())
    return std::nullopt;
  uint32_t slot = slotStack.back();
  slotStack.pop_back();
  if (contents == Contents::zero)
    fillSlot(slot, 0);
  return slot;
}

void StatePool::giveSlotBack(uint32_t slot) {
  if (poison)
    fillSlot(slot, poisonByte);
  slotStack.push_back(slot);
}

void StatePool::giveBack(Holding &holding) {
  setPages(holding, 0);
  giveSlotBack(holding.slot);
}

uint32_t StatePool::pagesFor(uint64_t tokens) const {
  return pageTokens ? uint32_t((tokens + pageTokens - 1) / pageTokens) : 0;
}

int32_t StatePool::takePage() {
  assert(!pageStack.empty() && "the caller has counted");
  int32_t page = pageStack.back();
  pageStack.pop_back();
  users[uint32_t(page)] = 1;
  return page;
}

void StatePool::dropPage(int32_t page) {
  if (--users[uint32_t(page)] != 0)
    return;
  pageStack.push_back(page);
  if (poison)
    fillPage(page, poisonByte);
}

void StatePool::fillPage(int32_t page, uint8_t byte) {
  for (const Region &region : regions)
    if (region.paged) {
      uint64_t bytes = region.stride * pageTokens;
      device->fill(region.memory + bytes * uint32_t(page), byte, bytes);
    }
}

void StatePool::scrub(const Holding &holding) {
  fillSlot(holding.slot, 0);
  for (int32_t page : holding.pages)
    if (pageUsers(page) == 1)
      fillPage(page, 0);
}

void StatePool::setPages(Holding &holding, uint32_t count) {
  while (holding.pages.size() < count)
    holding.pages.push_back(takePage());
  while (holding.pages.size() > count) {
    dropPage(holding.pages.back());
    holding.pages.pop_back();
  }
}

std::vector<int32_t> StatePool::sharePages(const std::vector<int32_t> &pages) {
  for (int32_t page : pages)
    ++users[uint32_t(page)];
  return pages;
}

std::vector<int32_t> StatePool::sharePages(const Holding &holding,
                                           uint32_t count) {
  return sharePages(std::vector<int32_t>(holding.pages.begin(),
                                         holding.pages.begin() + count));
}

void StatePool::dropPages(std::vector<int32_t> &pages) {
  for (int32_t page : pages)
    dropPage(page);
  pages.clear();
}

uint32_t StatePool::sharedPages() const {
  return uint32_t(std::count_if(users.begin(), users.end(),
                                [](uint32_t count) { return count > 1; }));
}

uint32_t StatePool::pagesToWrite(const Holding &holding, uint64_t from,
                                 uint64_t to) const {
  if (to <= from || pageTokens == 0)
    return 0;
  uint32_t count = pagesFor(to);
  auto held = uint32_t(holding.pages.size());
  uint32_t taken = count > held ? count - held : 0;
  for (auto i = uint32_t(from / pageTokens); i < std::min(count, held); ++i)
    taken += pageUsers(holding.pages[i]) > 1;
  return taken;
}

void StatePool::prepareWrite(Holding &holding, uint64_t from, uint64_t to) {
  if (to <= from || pageTokens == 0)
    return;
  uint32_t count = pagesFor(to), firstWritten = uint32_t(from / pageTokens);
  setPages(holding, std::max(count, uint32_t(holding.pages.size())));
  for (uint32_t i = firstWritten; i < count; ++i) {
    int32_t old = holding.pages[i];
    if (pageUsers(old) == 1)
      continue;
    int32_t own = takePage();
    uint64_t keptRows = i == firstWritten ? from % pageTokens : 0;
    for (const Region &region : regions)
      if (region.paged) {
        uint64_t bytes = region.stride * pageTokens;
        device->copy(region.memory + bytes * uint32_t(own),
                     region.memory + bytes * uint32_t(old),
                     region.stride * keptRows);
      }
    holding.pages[i] = own;
    dropPage(old);
  }
}

void StatePool::copySlot(uint32_t from, uint32_t to) {
  for (const Region &region : regions)
    if (!region.paged)
      device->copy(region.memory + region.stride * to,
                   region.memory + region.stride * from, region.stride);
}

template <typename Body>
void StatePool::eachPage(const Region &region, const Holding &holding,
                         uint64_t first, uint64_t last, Body body) const {
  uint64_t pageBytes = region.stride * pageTokens;
  while (first < last) {
    uint64_t row = first % pageTokens;
    uint64_t rows = std::min<uint64_t>(pageTokens - row, last - first);
    auto page = uint64_t(holding.pages[first / pageTokens]);
    body(region.memory + page * pageBytes + row * region.stride,
         rows * region.stride);
    first += rows;
  }
}

void StatePool::saveSlot(uint32_t slot, char *to) const {
  for (const Region &region : regions)
    if (!region.paged) {
      device->download(to, region.memory + region.stride * slot,
                       region.stride);
      to += region.stride;
    }
  (void)device->finish();
}

void StatePool::loadSlot(uint32_t slot, const char *from) {
  for (const Region &region : regions)
    if (!region.paged) {
      device->upload(region.memory + region.stride * slot, from,
                     region.stride);
      from += region.stride;
    }
  (void)device->finish();
}

void StatePool::saveRows(const Holding &holding, uint64_t first, uint64_t last,
                         char *to) const {
  for (const Region &region : regions)
    if (region.paged)
      eachPage(region, holding, first, last,
               [&](const char *from, uint64_t bytes) {
                 device->download(to, from, bytes);
                 to += bytes;
               });
  (void)device->finish();
}

void StatePool::loadRows(Holding &holding, uint64_t first, uint64_t last,
                         const char *from) {
  for (const Region &region : regions)
    if (region.paged)
      eachPage(region, holding, first, last, [&](char *to, uint64_t bytes) {
        device->upload(to, from, bytes);
        from += bytes;
      });
  (void)device->finish();
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

/// To nearest, ties to even; integers saturate.
static void fromFloat(schema::DType dtype, float value, char *to) {
  auto store = [&](auto converted) { memcpy(to, &converted, sizeof(converted)); };
  auto saturate = [&](auto low, auto high) {
    float rounded = std::nearbyint(value);
    if (rounded >= float(high))
      return high;
    if (rounded > float(low))
      return static_cast<decltype(high)>(rounded);
    return low;
  };
  switch (dtype) {
  case schema::DType::F32:
    return store(value);
  case schema::DType::BF16: {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    // A NaN must not round to infinity.
    bits = value == value ? bits + 0x7fff + (bits >> 16 & 1) : bits | 0x400000;
    return store(uint16_t(bits >> 16));
  }
  case schema::DType::I32:
    return store(saturate(INT32_MIN, INT32_MAX));
  case schema::DType::I8:
    return store(saturate(int8_t(-128), int8_t(127)));
  case schema::DType::U8:
    return store(saturate(uint8_t(0), uint8_t(255)));
  }
  __builtin_unreachable(); // checkArtifact knows all types
}

Status StatePool::writeFromFloat(uint32_t state, uint32_t slot,
                                 const float *values) {
  const Region &region = regions[state];
  uint32_t element = elementBytes(region.dtype);
  std::vector<char> copy(region.stride);
  for (uint64_t i = 0; i < copy.size() / element; ++i)
    fromFloat(region.dtype, values[i], copy.data() + i * element);
  device->upload(region.memory + region.stride * slot, copy.data(),
                 copy.size());
  return device->finish();
}

void StatePool::readAsFloat(uint32_t state, const Holding &holding,
                            uint64_t tokens, float *out) const {
  const Region &region = regions[state];
  uint32_t element = elementBytes(region.dtype);
  std::vector<char> copy(elements(state, tokens) * element);
  char *to = copy.data();
  auto download = [&](const char *from, uint64_t bytes) {
    device->download(to, from, bytes);
    to += bytes;
  };
  if (region.paged)
    eachPage(region, holding, 0, tokens, download);
  else
    download(region.memory + region.stride * holding.slot, region.stride);
  (void)device->finish();
  for (const char *from = copy.data(); from != to; from += element)
    *out++ = toFloat(region.dtype, from);
}

} // namespace k3rt
