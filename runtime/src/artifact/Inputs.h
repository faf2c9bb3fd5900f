//===- Inputs.h - the buffers of a program that the runtime fills --------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_ARTIFACT_INPUTS_H
#define K3RT_ARTIFACT_INPUTS_H

#include "runtime/src/artifact/Terms.h"

namespace k3rt {

enum class Input : uint8_t {
  tokens,    ///< [T] token ids
  cu,        ///< [N + 1] first row of each sequence, then T
  slots,     ///< [N] state slot of each sequence
  lengths,   ///< [N] tokens of each sequence before this step
  pageTable, ///< [N, M] cache pages of each sequence
  chunks,    ///< [C, 2] first row and number of rows
  chunkCu,   ///< [N + 1] first chunk of each sequence, then C
  logitRows, ///< [R] rows whose logits are wanted
  sampling,  ///< [R, 8] what is done with each of these, see k3.sample
  banned     ///< [B, W] sets of tokens, a bit each: the program's number of them
};
constexpr size_t numInputs = 10;
/// The first ones are those of a step. What is banned stays from step to step.
constexpr size_t numStepInputs = 9;
constexpr uint32_t samplingWords = 8;

std::optional<Input> inputNamed(std::string_view name);
const char *inputName(Input input);
/// Its shape as text, for messages.
const char *inputShapeText(Input input);

/// i32 elements of an input of a step for given symbols, per dimension; rank 1
/// or 2.
struct InputShape {
  int64_t sizes[2];
  uint32_t rank;
  int64_t elements() const {
    return rank == 1 ? sizes[0] : sizes[0] * sizes[1];
  }
};
InputShape inputShape(Input input, const SymbolValues &values);

/// Words that a set of tokens has.
inline uint32_t banWords(uint32_t vocab) { return (vocab + 31) / 32; }
/// Sets of banned tokens that `program` tells apart; 0: it chooses no tokens.
uint32_t numBanSets(const k3::artifact::Program &program);

} // namespace k3rt

#endif // K3RT_ARTIFACT_INPUTS_H
