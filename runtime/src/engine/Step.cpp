//===- Step.cpp - Engine::step -------------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/base/Process.h"
#include "runtime/src/engine/Engine.h"
#include "runtime/src/state/NonFinite.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace k3rt {

using Word = unsigned long long;

Status Engine::step(const k3rt_batch &batch, k3rt_step_result &out,
                    const std::vector<const RowSampling *> *sampling) {
  K3RT_RETURN_IF_ERROR(prepare(batch, sampling));
  apply();

  for (;;) {
    Phase &phase = nextPhase();
    nextWindow(rows, phase.limits, window);
    if (window.empty())
      break;
    double start = secondsNow();
    if (Status status = runWindow(phase); !status.ok()) {
      failBatch(status);
      return status;
    }
    for (const WindowPart &part : window) {
      BatchRow &row = rows[part.row];
      std::vector<int32_t> &tokens = sequences[row.sequence].tokens;
      tokens.insert(tokens.end(), row.tokens + row.done,
                    row.tokens + row.done + part.count);
      row.done += part.count;
      phase.tokens += part.count;
    }
    failNonFinite();
    ++phase.runs;
    phase.seconds += secondsNow() - start;
  }
  ++steps;

  out.logits = reinterpret_cast<const float *>(result.data());
  out.first_row = firstRow.data();
  out.num_logit_rows = firstRow.back();
  out.vocab_size = file.index().model()->vocab_size();
  out.row_status = rowStatus.data();
  return checkLogits();
}

//===----------------------------------------------------------------------===//
// Before anything changes
//===----------------------------------------------------------------------===//

Status Engine::prepare(const k3rt_batch &input,
                       const std::vector<const RowSampling *> *sampling) {
  if (input.num_rows != 0 && !input.rows)
    return Status(K3RT_INVALID_ARGUMENT, "rows is NULL");
  if (input.num_rows > sequences.size())
    return makeError(K3RT_INVALID_ARGUMENT,
                     "%u rows, but there are at most %zu sequences",
                     input.num_rows, sequences.size());
  rows.clear();
  firstRow.assign(1, 0);
  std::fill(inBatch.begin(), inBatch.end(), uint8_t(0));
  uint64_t pages = 0, beyondPromises = 0;
  for (uint32_t i = 0; i < input.num_rows; ++i) {
    K3RT_RETURN_IF_ERROR(prepareRow(input.rows[i], i));
    const BatchRow &row = rows.back();
    const Sequence &sequence = sequences[row.sequence];
    uint32_t wanted = states.pagesToWrite(sequence.holding, sequence.length(),
                                          sequence.length() + row.numTokens);
    pages += wanted;
    beyondPromises += wanted - std::min(wanted, promisedPages(sequence));
    firstRow.push_back(firstRow.back() + row.numLogitRows());
  }
  if (!makeRoom(beyondPromises))
    return makeError(K3RT_OUT_OF_MEMORY,
                     "the step needs %llu more cache pages, %s", Word(pages),
                     freePagesText().c_str());
  rowStatus.assign(input.num_rows, K3RT_OK);
  stepIds.assign(firstRow.back(), -1);
  sampled.assign(firstRow.back(), 0);
  if (sampling && choosesTokens())
    prepareSampling(*sampling);
  return reserve(firstRow.back());
}

/// Rows whose banned tokens have no place any more bring their logits.
void Engine::prepareSampling(const std::vector<const RowSampling *> &sampling) {
  bans.begin();
  for (uint32_t i = 0; i < rows.size(); ++i) {
    BatchRow &row = rows[i];
    if (!sampling[i] || row.numLogitRows() == 0)
      continue;
    std::optional<uint32_t> set = bans.find(*sampling[i]->banned);
    if (!set)
      continue;
    row.sampling = sampling[i];
    row.banSet = *set;
    std::fill(sampled.begin() + ptrdiff_t(firstRow[i]),
              sampled.begin() + ptrdiff_t(firstRow[i + 1]), uint8_t(1));
  }
}

Status Engine::prepareRow(const k3rt_batch_row &input, uint32_t row) {
  uint32_t index;
  if (Status status = findSequence(input.sequence, index); !status.ok())
    return makeError(status.code(), "row %u: %s", row,
                     status.message().c_str());
  const Sequence &sequence = sequences[index];
  if (inBatch[index])
    return makeError(K3RT_INVALID_ARGUMENT,
                     "row %u: sequence %lld is in the batch twice", row,
                     static_cast<long long>(input.sequence));
  inBatch[index] = 1;
  if (!sequence.failure.empty())
    return makeError(K3RT_INVALID_ARGUMENT, "row %u: %s", row,
                     sequence.failure.c_str());
  if (input.num_tokens != 0 && !input.tokens)
    return makeError(K3RT_INVALID_ARGUMENT, "row %u: tokens is NULL", row);
  if (input.num_tokens > memory.maxContext - sequence.length())
    return makeError(
        K3RT_INVALID_ARGUMENT,
        "row %u: %llu tokens after %llu exceed the context of %llu", row,
        Word(input.num_tokens), Word(sequence.length()), Word(memory.maxContext));
  uint32_t vocab = file.index().model()->vocab_size();
  for (uint64_t i = 0; i < input.num_tokens; ++i)
    if (input.tokens[i] < 0 || uint32_t(input.tokens[i]) >= vocab)
      return makeError(K3RT_INVALID_ARGUMENT,
                       "row %u: token %d at position %llu is not in [0, %u)",
                       row, input.tokens[i], Word(sequence.length() + i), vocab);
  BatchRow prepared;
  prepared.sequence = index;
  prepared.tokens = input.tokens;
  prepared.numTokens = input.num_tokens;
  prepared.logits = input.all_logits == 0  ? Logits::last
                    : input.all_logits > 0 ? Logits::all
                                           : Logits::none;
  rows.push_back(prepared);
  return Status();
}

Status Engine::reserve(uint64_t logitRows) {
  uint64_t width = file.index().model()->vocab_size() * sizeof(float);
  uint64_t bytes;
  if (__builtin_mul_overflow(logitRows, width, &bytes))
    return Status(K3RT_OUT_OF_MEMORY, "more logits than memory can hold");
  if (bytes <= result.size())
    return Status();
  // Grows by half at least, so that longer and longer steps settle.
  return result.allocate(*device, std::max(bytes, result.size() / 2 * 3),
                         "logits", DeviceBuffer::Place::host);
}

//===----------------------------------------------------------------------===//
// From here on the step is going to happen
//===----------------------------------------------------------------------===//

void Engine::apply() {
  for (const BatchRow &row : rows) {
    Sequence &sequence = sequences[row.sequence];
    states.prepareWrite(sequence.holding, sequence.length(),
                        sequence.length() + row.numTokens);
  }
}

/// Prefill takes any rows, so that windows of prompts and single tokens of other
/// sequences share a run; decode is for when only the latter are left. A row
/// that starts a sequence may be a prompt of one token, which is prefill. An
/// exact decode program takes any rows as well.
Engine::Phase &Engine::nextPhase() {
  if (chosen.deterministic)
    return decode;
  bool decodes = decode.present;
  for (const BatchRow &row : rows)
    decodes &= row.remaining() == 0 ||
               (row.numTokens == 1 && sequences[row.sequence].length() != 0);
  return decodes ? decode : prefill;
}

/// Where a run writes its logits: into the result, unless kernels cannot reach
/// it or a row there is not aligned as they expect.
float *Engine::logitsFor(uint64_t firstLogitRow) {
  if (runLogits.data())
    return reinterpret_cast<float *>(runLogits.data());
  return reinterpret_cast<float *>(result.data()) +
         firstLogitRow * file.index().model()->vocab_size();
}

Status Engine::runWindow(Phase &phase) {
  if (chosen.poison) {
    device->fill(arena.data(), 0xff, arena.size());
    phase.inputs.poison();
    executor->poison();
  }
  watch.begin(phase.inputs, *device, chosen.trapNonFinite);
  phase.inputs.begin();
  for (const WindowPart &part : window) {
    const BatchRow &row = rows[part.row];
    const Sequence &sequence = sequences[row.sequence];
    partSampling.clear();
    uint64_t firstOfRow = row.logits == Logits::all ? row.done : 0;
    for (uint32_t j = 0; row.sampling && j < part.logitRows; ++j)
      partSampling.push_back(
          encodeSampling(*row.sampling, firstOfRow + j, row.banSet));
    phase.inputs.add({sequence.holding.slot, sequence.length(),
                      sequence.holding.pages.data(),
                      uint32_t(sequence.holding.pages.size())},
                     row.tokens + row.done, part.count, part.logitRows,
                     row.sampling ? partSampling.data() : nullptr);
    watch.add(
        {part.count, &sequence.holding, sequence.length() + part.count});
  }
  phase.inputs.finish();
  if (chosen.trapNonFinite)
    K3RT_RETURN_IF_ERROR(prepareTrap(phase));

  const SymbolValues &values = phase.inputs.values();
  auto logitRows = uint64_t(values[Symbol::logitRows]);
  uint64_t bytes =
      logitRows * file.index().model()->vocab_size() * sizeof(float);
  // The rows of a window follow each other in the batch, and so do their logits.
  const BatchRow &front = rows[window.front().row];
  uint64_t firstLogitRow = firstRow[window.front().row] +
                           (front.logits == Logits::all ? front.done : 0);
  float *logits = logitsFor(firstLogitRow);
  if (chosen.poison) {
    device->fill(logits, 0xff, bytes);
    if (runIds.data())
      device->fill(runIds.data(), 0xff, runIds.size());
  }
  K3RT_RETURN_IF_ERROR(
      phase.program.bind(values, phase.inputs.send(), outputsAt(logits)));
  K3RT_RETURN_IF_ERROR(executor->run(phase.program, logitRows != 0,
                                     watches() ? &watch : nullptr));
  return fetchResults(firstLogitRow, logitRows);
}

/// Of sampled rows only the ids, unless there is none: then something is wrong
/// with the logits.
Status Engine::fetchResults(uint64_t firstLogitRow, uint64_t logitRows) {
  uint64_t width = file.index().model()->vocab_size() * sizeof(float);
  auto fetchLogits = [&](uint64_t first, uint64_t count) {
    if (runLogits.data() && count != 0)
      device->download(result.data() + (firstLogitRow + first) * width,
                       runLogits.data() + first * width, count * width);
  };
  const uint8_t *isSampled = sampled.data() + firstLogitRow;
  uint64_t first = 0; // of rows that are fetched together
  bool any = false;
  for (uint64_t i = 0; i < logitRows; ++i) {
    if (!isSampled[i])
      continue;
    any = true;
    fetchLogits(first, i - first);
    first = i + 1;
  }
  fetchLogits(first, logitRows - first);
  if (any)
    device->download(fetchedIds.data(), runIds.data(),
                     logitRows * sizeof(int32_t));
  K3RT_RETURN_IF_ERROR(device->finish());
  if (!any)
    return Status();
  auto vocab = int32_t(file.index().model()->vocab_size());
  const auto *ids = reinterpret_cast<const int32_t *>(fetchedIds.data());
  bool missing = false;
  for (uint64_t i = 0; i < logitRows; ++i) {
    if (!isSampled[i])
      continue;
    if (ids[i] >= 0 && ids[i] < vocab) {
      stepIds[firstLogitRow + i] = ids[i];
      continue;
    }
    missing = true;
    fetchLogits(i, 1);
  }
  return missing ? device->finish() : Status();
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

/// Keeps what the run starts from. What it does not write is finite.
Status Engine::prepareTrap(const Phase &phase) {
  device->fill(arena.data(), 0, arena.size());
  const auto *name = file.index().model()->name();
  dump.model = name ? name->str() : std::string();
  dump.fingerprint = stateFileModel().fingerprint;
  dump.phase = &phase == &decode ? "decode" : "prefill";
  dump.parts.clear();
  for (const WindowPart &part : window) {
    const BatchRow &row = rows[part.row];
    const Sequence &sequence = sequences[row.sequence];
    DumpedPart &kept = dump.parts.emplace_back();
    kept.seen = sequence.tokens;
    kept.tokens.assign(row.tokens + row.done,
                       row.tokens + row.done + part.count);
    kept.logitRows = part.logitRows;
    if (kept.seen.empty())
      continue;
    K3RT_RETURN_IF_ERROR(kept.state.allocate(
        states.copyBytes(sequence.length()), "a state before a step"));
    states.save(sequence.holding, sequence.length(), kept.state.data());
  }
  return device->finish();
}

void Engine::failRow(uint32_t index, std::string reason) {
  BatchRow &row = rows[index];
  Sequence &sequence = sequences[row.sequence];
  sequence.failure =
      formatText("sequence %lld %s; free it or restore a snapshot",
                 static_cast<long long>(handleOf(row.sequence)),
                 reason.c_str());
  rowStatus[index] = K3RT_NON_FINITE;
  ++nonFinite;
  uint64_t computed = row.logits == Logits::all      ? row.done
                      : row.remaining() == 0 ? row.numLogitRows()
                                             : 0;
  uint64_t vocab = file.index().model()->vocab_size();
  float *logits = reinterpret_cast<float *>(result.data());
  std::fill(logits + (firstRow[index] + computed) * vocab,
            logits + firstRow[index + 1] * vocab,
            std::numeric_limits<float>::quiet_NaN());
  row.done = row.numTokens;
}

/// After the window's tokens have been counted.
void Engine::failNonFinite() {
  if (!watches())
    return;
  const std::optional<NonFiniteValue> &first = watch.first();
  std::string details;
  if (first) {
    details = ": first " + describe(*first);
    if (!chosen.trapFolder.empty()) {
      dump.first = first;
      std::string path;
      Status status = writeNonFiniteDump(chosen.trapFolder, dump, path);
      details += status.ok() ? "; the step is in " + path
                             : "; it could not be written: " + status.message();
    }
  }
  for (uint32_t i = 0; i < window.size(); ++i) {
    const WindowPart &part = window[i];
    const std::optional<FiniteWatch::Finding> &found = watch.finding(i);
    bool isFirst = first && first->part == i;
    if (!found && !isFirst)
      continue;
    uint64_t before = sequences[rows[part.row].sequence].length() - part.count;
    std::string reason = "has NaN or infinite values";
    if (found)
      reason += formatText(" after layer %d for the token at position %llu",
                           found->layer, Word(before + found->row));
    failRow(part.row, reason + (isFirst ? details : std::string()));
  }
}

void Engine::failBatch(const Status &reason) {
  for (const BatchRow &row : rows)
    if (row.numTokens != 0) {
      Sequence &sequence = sequences[row.sequence];
      sequence.failure =
          formatText("sequence %lld cannot be continued: %s",
                     static_cast<long long>(handleOf(row.sequence)),
                     reason.message().c_str());
    }
}

/// Sequences with bad values or logits are closed for further steps; the others
/// have gone on as if nothing had happened.
Status Engine::checkLogits() {
  uint64_t vocab = file.index().model()->vocab_size();
  const auto *logits = reinterpret_cast<const float *>(result.data());
  firstBad.resize(rows.size());
  auto look = [&](uint32_t begin, uint32_t end, uint32_t) {
    for (uint32_t i = begin; i < end; ++i) {
      firstBad[i] = (firstRow[i + 1] - firstRow[i]) * vocab;
      for (uint64_t r = firstRow[i]; r < firstRow[i + 1]; ++r) {
        // A token was chosen from finite logits, which are not here.
        uint64_t bad = stepIds[r] >= 0
                           ? vocab
                           : findNonFinite(logits + r * vocab, vocab);
        if (bad == vocab)
          continue;
        firstBad[i] = (r - firstRow[i]) * vocab + bad;
        break;
      }
    }
  };
  // The threads are still awake after a run, but have to be told.
  constexpr uint64_t worthThreads = 1 << 16;
  if (firstRow.back() * vocab >= worthThreads)
    threads.parallelFor(uint32_t(rows.size()), look);
  else
    look(0, uint32_t(rows.size()), 0);
  Status first;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    uint64_t count = (firstRow[i + 1] - firstRow[i]) * vocab;
    uint64_t bad = rowStatus[i] != K3RT_OK ? count : firstBad[i];
    if (bad != count)
      failRow(i, formatText("has NaN or infinite logits after the token at "
                            "position %llu (first: token id %llu)",
                            Word(sequences[rows[i].sequence].length() -
                                 count / vocab + bad / vocab),
                            Word(bad % vocab)));
    if (rowStatus[i] != K3RT_OK && first.ok())
      first = makeError(K3RT_NON_FINITE, "row %u: %s", i,
                        sequences[rows[i].sequence].failure.c_str());
  }
  return first;
}

} // namespace k3rt
