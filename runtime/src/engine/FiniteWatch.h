//===- FiniteWatch.h - where a run's values stop being finite ------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// NaN and infinity of one sequence stay in its own rows: nothing adds rows of
// different sequences. So it is enough to look at the residual after each layer,
// which everything that a layer computes for a row goes into, to know whose
// values they are and since which layer. With `everything` all that dispatches
// write is looked at, states included.
//===----------------------------------------------------------------------===//
#ifndef K3RT_ENGINE_FINITEWATCH_H
#define K3RT_ENGINE_FINITEWATCH_H

#include "runtime/src/engine/StepInputs.h"
#include "runtime/src/exec/Executor.h"

namespace k3rt {

/// The first value that is not finite, as a dispatch wrote it.
struct NonFiniteValue {
  int32_t layer = -1; ///< -1 outside layers
  std::string dispatch, kernel, buffer;
  std::vector<int64_t> index; ///< in the buffer, or in the state of the sequence
  float value = 0;
  std::optional<uint32_t> part; ///< of the window; nothing if it is not known
  std::optional<uint32_t> row;  ///< of the run
};

class FiniteWatch : public RunObserver {
public:
  /// A part of the window that is being run, `rows` >= 1.
  struct Part {
    uint32_t rows;
    const Holding *holding;
    uint64_t length; ///< after the run
  };
  /// Where a part was first not finite.
  struct Finding {
    int32_t layer;
    uint32_t row; ///< of the part
  };

  explicit FiniteWatch(const StatePool &states) : states(states) {}

  /// Before a run: begin, then every part of the window. `device` is what it
  /// runs on: values of a GPU are downloaded.
  void begin(const StepInputs &inputs, Device &device, bool everything);
  void add(const Part &part);
  void afterGroup(const Program &program, const GroupCode &group) override;

  const std::optional<Finding> &finding(size_t part) const {
    return findings[part];
  }
  /// Only with `everything`.
  const std::optional<NonFiniteValue> &first() const { return firstValue; }

private:
  /// Bytes of the device's memory; null when they cannot be had, which the run
  /// fails with.
  const char *onHost(const void *data, uint64_t bytes);
  void lookAtLayer(const Program &program, int32_t layer);
  void lookAtDispatch(const Program &program, const DispatchCode &code);
  bool lookAtBuffer(const Program &program, uint32_t buffer,
                    NonFiniteValue &found);
  bool lookAtState(const Program &program,
                   const k3::artifact::Binding &binding, int32_t layer,
                   NonFiniteValue &found) const;
  /// Whose rows, chunks, ... these are.
  void findOwner(Symbol dimension, int64_t index, NonFiniteValue &found) const;
  uint32_t partOfRow(uint32_t row) const;

  const StatePool &states;
  const StepInputs *inputs = nullptr;
  Device *device = nullptr;
  std::vector<char> downloaded;
  bool everything = false;
  std::vector<Part> parts;
  std::vector<uint32_t> firstRows; ///< of the parts, then their sum
  std::vector<std::optional<Finding>> findings;
  std::optional<NonFiniteValue> firstValue;
};

} // namespace k3rt

#endif // K3RT_ENGINE_FINITEWATCH_H
