//===- NonFiniteDump.cpp - a step that went wrong, to run it again -------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/engine/NonFiniteDump.h"
#include "runtime/src/state/StateFile.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <sys/stat.h>

namespace k3rt {

/// Dumps that a folder takes: a model that is broken breaks every step.
static constexpr int mostDumps = 20;

static const char *nameOf(float value) {
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

template <typename Integer>
static std::string listOf(const std::vector<Integer> &values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  return text + "]";
}

std::string describe(const NonFiniteValue &value) {
  std::string where = value.layer >= 0 ? formatText("layer %d", value.layer)
                                       : std::string("no layer");
  return formatText("%s at %s of %s, written by dispatch %s (kernel %s) in %s",
                    nameOf(value.value), listOf(value.index).c_str(),
                    quoted(value.buffer).c_str(), quoted(value.dispatch).c_str(),
                    quoted(value.kernel).c_str(), where.c_str());
}

/// Names of an artifact are any bytes without zeros.
static std::string jsonString(const std::string &text) {
  std::string out = "\"";
  for (char byte : text) {
    auto code = static_cast<unsigned char>(byte);
    if (code < 0x20 || code >= 0x7f || byte == '"' || byte == '\\')
      out += formatText("\\u%04x", code);
    else
      out += byte;
  }
  return out + "\"";
}

static std::string stateFileName(size_t part) {
  return "sequence-" + std::to_string(part) + ".k3s";
}

static std::string stepJson(const NonFiniteDump &dump) {
  std::string text = "{\"version\": 1, \"model\": " + jsonString(dump.model) +
                     ", \"phase\": \"" + dump.phase + "\",\n";
  if (dump.first) {
    const NonFiniteValue &first = *dump.first;
    text += " \"first\": {\"layer\": " + std::to_string(first.layer) +
            ", \"dispatch\": " + jsonString(first.dispatch) +
            ", \"kernel\": " + jsonString(first.kernel) +
            ", \"buffer\": " + jsonString(first.buffer) +
            ", \"index\": " + listOf(first.index) + ", \"value\": \"" +
            nameOf(first.value) + "\", \"sequence\": " +
            (first.part ? std::to_string(*first.part) : "null") + "},\n";
  }
  text += " \"sequences\": [";
  for (size_t i = 0; i < dump.parts.size(); ++i) {
    const DumpedPart &part = dump.parts[i];
    text += formatText("%s\n  {\"state\": %s, \"length\": %zu, "
                       "\"logit_rows\": %u, \"tokens\": %s}",
                       i == 0 ? "" : ",",
                       part.seen.empty()
                           ? "null"
                           : jsonString(stateFileName(i)).c_str(),
                       part.seen.size(), part.logitRows,
                       listOf(part.tokens).c_str());
  }
  return text + "]}\n";
}

static Status failure(const std::string &path) {
  return makeError(K3RT_IO_ERROR, "%s: %s", path.c_str(), strerror(errno));
}

static Status writeText(const std::string &path, const std::string &text) {
  FILE *file = fopen(path.c_str(), "wb");
  if (!file)
    return failure(path);
  bool written = fwrite(text.data(), 1, text.size(), file) == text.size();
  return fclose(file) == 0 && written ? Status() : failure(path);
}

static Status makeFolder(const std::string &folder, std::string &out) {
  if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    return failure(folder);
  for (int number = 1; number <= mostDumps; ++number) {
    out = folder + "/nonfinite-" + std::to_string(number);
    if (mkdir(out.c_str(), 0777) == 0)
      return Status();
    if (errno != EEXIST)
      return failure(out);
  }
  return makeError(K3RT_IO_ERROR, "%s: has %d dumps", folder.c_str(), mostDumps);
}

Status writeNonFiniteDump(const std::string &folder, const NonFiniteDump &dump,
                          std::string &outPath) {
  K3RT_RETURN_IF_ERROR(makeFolder(folder, outPath));
  for (size_t i = 0; i < dump.parts.size(); ++i) {
    const DumpedPart &part = dump.parts[i];
    uint64_t bytes;
    if (!part.seen.empty())
      K3RT_RETURN_IF_ERROR(writeStateFile(
          outPath + "/" + stateFileName(i), StateFileKind::snapshot,
          dump.fingerprint, part.seen, part.state.data(), part.state.size(),
          bytes));
  }
  // Last: where it is, the rest is.
  return writeText(outPath + "/step.json", stepJson(dump));
}

} // namespace k3rt
