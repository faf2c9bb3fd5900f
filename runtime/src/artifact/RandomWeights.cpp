//===- RandomWeights.cpp - weights made up for measuring -----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/artifact/RandomWeights.h"
#include "runtime/src/artifact/DType.h"
#include "runtime/src/artifact/WeightTensors.h"
#include "runtime/src/base/Hash.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string_view>

namespace k3rt {

namespace schema = k3::artifact;

static constexpr double smallValue = 0.1;
static constexpr int64_t mxBlock = 32; ///< values per scale of MXFP4

/// A bijection of 64 bits that looks random (the finalizer of the splitmix64 generator).
static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static uint64_t randomWord(uint64_t key, uint64_t position) { return mix(key + (position + 1) * 0x9e3779b97f4a7c15u); }

static std::string_view nameOf(const schema::Weight &weight) {
  return weight.name() ? weight.name()->string_view() : std::string_view();
}

/// The exponent byte of a scale under which random E2M1 codes have the variance 1 / inFeatures.
static uint8_t scaleFor(double inFeatures) {
  // Mean square of 0, 0.5, 1, 1.5, 2, 3, 4, 6.
  constexpr double codeVariance = 8.5625;
  double exponent = std::floor(std::log2(1 / std::sqrt(codeVariance * inFeatures)));
  return uint8_t(std::clamp(127 + exponent, 0.0, 253.0));
}

RandomWeights::Recipe RandomWeights::recipeOf(const schema::Weight &weight) {
  std::string_view name = nameOf(weight);
  auto has = [&](const char *part) { return name.find(part) != std::string_view::npos; };
  uint32_t rank = weight.shape() ? weight.shape()->size() : 0;
  int64_t inFeatures = rank != 0 ? weight.shape()->Get(rank - 1) : 1;
  bool isVector = rank <= (weight.is_expert_group() ? 2u : 1u);
  Recipe recipe;
  recipe.dtype = weight.dtype();
  switch (weight.dtype()) {
  case schema::DType::I32: // no weight is an i32; 0 is a safe index
    recipe.fill = Fill::zeros;
    break;
  case schema::DType::I8:
  case schema::DType::U8:
    recipe.fill = has("scale") ? Fill::scales : Fill::codes;
    if (recipe.fill == Fill::scales)
      recipe.scale = scaleFor(double(inFeatures) * mxBlock);
    break;
  case schema::DType::F32:
  case schema::DType::BF16:
    recipe.fill = Fill::uniform;
    recipe.limit = float(std::sqrt(3 / double(inFeatures)));
    if (has("A_log") || has("bias"))
      recipe.limit = float(smallValue);
    else if (isVector && has("norm"))
      recipe = {Fill::ones, weight.dtype()};
    else if (isVector)
      recipe.limit = float(smallValue);
    break;
  }
  return recipe;
}

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

static uint64_t floatsFromWord(uint64_t word, float limit) {
  constexpr float unit = 1.0f / (1u << 31);
  float pair[2] = {float(int32_t(word)) * unit * limit, float(int32_t(word >> 32)) * unit * limit};
  memcpy(&word, pair, sizeof(word));
  return word;
}

static uint64_t bfloatsFromWord(uint64_t word, float limit) {
  constexpr float unit = 1.0f / (1u << 15);
  uint64_t out = 0;
  for (int i = 0; i < 4; ++i) {
    float value = float(int16_t(word >> 16 * i)) * unit * limit;
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    out |= uint64_t((bits + 0x8000) >> 16) << 16 * i;
  }
  return out;
}

/// Writes make(position) for each of the 8-byte words from `position` on; the last may be cut off.
template <typename Make> static void writeWords(char *out, uint64_t bytes, uint64_t position, Make make) {
  for (; bytes >= 8; bytes -= 8, out += 8) {
    uint64_t word = make(position++);
    memcpy(out, &word, 8);
  }
  if (bytes != 0) {
    uint64_t word = make(position);
    memcpy(out, &word, bytes);
  }
}

void RandomWeights::writeBlock(size_t block, uint64_t begin, uint64_t bytes, char *out) const {
  const Recipe &recipe = recipes[block];
  uint64_t key = recipe.key, position = begin / 8;
  bool isFloat = recipe.dtype == schema::DType::F32;
  switch (recipe.fill) {
  case Fill::zeros:
    memset(out, 0, bytes);
    return;
  case Fill::ones:
    return writeWords(out, bytes, position,
                      [=](uint64_t) { return isFloat ? 0x3f8000003f800000u : 0x3f803f803f803f80u; });
  case Fill::uniform:
    if (isFloat)
      return writeWords(out, bytes, position,
                        [=, limit = recipe.limit](uint64_t i) { return floatsFromWord(randomWord(key, i), limit); });
    return writeWords(out, bytes, position,
                      [=, limit = recipe.limit](uint64_t i) { return bfloatsFromWord(randomWord(key, i), limit); });
  case Fill::codes:
    return writeWords(out, bytes, position, [=](uint64_t i) { return randomWord(key, i); });
  case Fill::scales:
    return writeWords(out, bytes, position, [=, scale = recipe.scale](uint64_t i) {
      constexpr uint64_t everyByte = 0x0101010101010101u;
      return (randomWord(key, i) & everyByte) + scale * everyByte;
    });
  }
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

uint64_t RandomWeights::pieceOffset(size_t tensor, uint64_t piece) const {
  constexpr uint64_t places = (blockBytes - pieceBytes) / bufferAlignment + 1;
  return randomWord(tensors[tensor].key, piece) % places * bufferAlignment;
}

void RandomWeights::write(size_t tensor, uint64_t begin, uint64_t bytes, char *out) const {
  while (bytes != 0) {
    uint64_t inPiece = begin % pieceBytes, count = std::min(bytes, pieceBytes - inPiece);
    writeBlock(blockOf(tensor), pieceOffset(tensor, begin / pieceBytes) + inPiece, count, out);
    begin += count;
    out += count;
    bytes -= count;
  }
}

size_t RandomWeights::addRecipe(Recipe recipe, uint64_t seed) {
  uint32_t limit;
  memcpy(&limit, &recipe.limit, sizeof(limit));
  uint64_t kind = uint64_t(recipe.fill) | uint64_t(recipe.dtype) << 8 | uint64_t(recipe.scale) << 16;
  recipe.key = mix(mix(seed) + (kind << 32 | limit));
  auto found =
      std::find_if(recipes.begin(), recipes.end(), [&](const Recipe &other) { return other.key == recipe.key; });
  if (found == recipes.end())
    found = recipes.insert(recipes.end(), recipe);
  return size_t(found - recipes.begin());
}

RandomWeights::RandomWeights(const schema::Artifact &index, uint64_t seed) {
  if (!index.weights())
    return;
  for (const auto *weight : *index.weights()) {
    std::string_view name = nameOf(*weight);
    uint64_t weightKey = mix(seed) ^ hashBytes(name.data(), name.size());
    Tensor tensor;
    tensor.recipe = addRecipe(recipeOf(*weight), seed);
    tensor.bytes = tensorBytes(*weight);
    for (uint32_t expert = 0; expert < tensorCount(*weight); ++expert) {
      tensor.key = mix(weightKey + expert);
      tensors.push_back(tensor);
    }
  }
}

/// Also bounds the number of tensors: each takes 64 bytes at least.
static Status allocateAll(const schema::Artifact &index, Allocation &memory) {
  uint64_t total = 0;
  for (const auto *weight : *index.weights()) {
    uint64_t bytes;
    if (__builtin_mul_overflow(alignTo(tensorBytes(*weight), bufferAlignment), tensorCount(*weight), &bytes) ||
        __builtin_add_overflow(total, bytes, &total))
      return Status(K3RT_OUT_OF_MEMORY, "more random weights than memory can hold");
  }
  return memory.allocate(total, "random weights");
}

Status makeRandomWeights(const schema::Artifact &index, uint64_t seed, ThreadPool &threads, const Progress &progress,
                         Allocation &memory, std::vector<const char *> &tensors) {
  tensors.clear();
  if (!index.weights() || index.weights()->size() == 0)
    return Status();
  K3RT_RETURN_IF_ERROR(allocateAll(index, memory));
  RandomWeights random(index, seed);
  // Work is cut into blocks. firstBlocks: number of each tensor's first among those of all.
  constexpr uint64_t blockBytes = 1 << 20;
  std::vector<uint64_t> firstBlocks;
  uint64_t offset = 0, numBlocks = 0;
  for (size_t i = 0; i < random.count(); ++i) {
    tensors.push_back(memory.data() + offset);
    offset += alignTo(random.size(i), bufferAlignment);
    firstBlocks.push_back(numBlocks);
    numBlocks += (random.size(i) + blockBytes - 1) / blockBytes;
  }
  std::atomic<uint64_t> done{0};
  auto fillBlock = [&](uint64_t block) {
    size_t tensor = size_t(std::upper_bound(firstBlocks.begin(), firstBlocks.end(), block) - firstBlocks.begin()) - 1;
    uint64_t begin = (block - firstBlocks[tensor]) * blockBytes;
    uint64_t bytes = std::min(blockBytes, random.size(tensor) - begin);
    random.write(tensor, begin, bytes, const_cast<char *>(tensors[tensor]) + begin);
    done += bytes;
  };
  // Memory that could be allocated has fewer blocks than 32 bits can count.
  threads.parallelFor(uint32_t(numBlocks), [&](uint32_t first, uint32_t end, uint32_t thread) {
    for (uint32_t block = first; block < end; ++block) {
      fillBlock(block);
      // Thread 0 is the caller's.
      if (thread == 0)
        progress(done, memory.size());
    }
  });
  progress(memory.size(), memory.size());
  return Status();
}

} // namespace k3rt
