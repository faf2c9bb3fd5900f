//===- StateFile.cpp - states of sequences on disk -----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/state/StateFile.h"
#include "runtime/src/base/Hash.h"
#include "runtime/src/base/MappedFile.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace k3rt {

using Word = unsigned long long;

static constexpr char magic[4] = {'K', '3', 'S', '1'};
static constexpr uint32_t version = 1;

static uint64_t hashOf(const StateFileHeader &header) {
  return hashBytes(&header, offsetof(StateFileHeader, headerHash));
}

static uint64_t stateOffset(uint64_t tokens) {
  return sizeof(StateFileHeader) +
         alignTo(tokens * sizeof(int32_t), bufferAlignment);
}

namespace {
/// A file that is removed unless it is kept.
class NewFile {
public:
  explicit NewFile(const std::string &path) : path(path) {}
  ~NewFile() {
    if (fd >= 0) {
      close(fd);
      unlink(path.c_str());
    }
  }

  Status open() {
    fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd >= 0 ? Status() : failed();
  }
  Status write(const void *data, uint64_t bytes) {
    const char *at = static_cast<const char *>(data);
    constexpr uint64_t most = 1u << 30;
    while (bytes != 0) {
      ssize_t written = ::write(fd, at, std::min(bytes, most));
      if (written < 0 && errno == EINTR)
        continue;
      if (written < 0)
        return failed();
      at += written;
      bytes -= uint64_t(written);
    }
    return Status();
  }
  Status moveTo(const std::string &target) {
    int closed = close(fd);
    fd = -1;
    if (closed == 0 && rename(path.c_str(), target.c_str()) == 0)
      return Status();
    Status status = failed();
    unlink(path.c_str());
    return status;
  }

private:
  Status failed() const {
    return makeError(K3RT_IO_ERROR, "%s: cannot write: %s", path.c_str(),
                     strerror(errno));
  }
  std::string path;
  int fd = -1;
};
} // namespace

Status writeStateFile(const std::string &path, StateFileKind kind,
                      uint64_t model, const std::vector<int32_t> &tokens,
                      const char *state, uint64_t stateBytes,
                      uint64_t &outBytes) {
  StateFileHeader header = {};
  memcpy(header.magic, magic, sizeof(magic));
  header.version = version;
  header.model = model;
  header.tokens = tokens.size();
  header.stateBytes = stateBytes;
  uint64_t tokenBytes = tokens.size() * sizeof(int32_t);
  header.tokensHash = hashBytes(tokens.data(), tokenBytes);
  header.stateHash = hashBytes(state, stateBytes);
  header.kind = uint64_t(kind);
  header.headerHash = hashOf(header);

  uint64_t begin = stateOffset(tokens.size());
  const char padding[bufferAlignment] = {};
  NewFile file(path + formatText(".%ld.new", long(getpid())));
  K3RT_RETURN_IF_ERROR(file.open());
  K3RT_RETURN_IF_ERROR(file.write(&header, sizeof(header)));
  K3RT_RETURN_IF_ERROR(file.write(tokens.data(), tokenBytes));
  K3RT_RETURN_IF_ERROR(
      file.write(padding, begin - sizeof(header) - tokenBytes));
  K3RT_RETURN_IF_ERROR(file.write(state, stateBytes));
  K3RT_RETURN_IF_ERROR(file.moveTo(path));
  outBytes = begin + stateBytes;
  return Status();
}

/// The header, once it is known that it can be believed and that the file has
/// what it says.
static Status checkHeader(const std::string &path, const MappedFile &file,
                          StateFileKind kind, const StateFileModel &model,
                          StateFileHeader &header) {
  auto bad = [&](const std::string &what) {
    return makeError(K3RT_BAD_ARTIFACT, "%s: %s", path.c_str(), what.c_str());
  };
  if (file.size() >= sizeof(header))
    memcpy(&header, file.data(), sizeof(header));
  if (file.size() < sizeof(header) ||
      memcmp(header.magic, magic, sizeof(magic)) != 0)
    return bad("not a saved state of k3");
  if (header.version != version)
    return bad(formatText("state file of version %u, this runtime reads %u",
                          header.version, version));
  if (header.headerHash != hashOf(header))
    return bad("the header is damaged");
  if (header.kind != uint64_t(kind))
    return bad("saved for another purpose");
  if (header.model != model.fingerprint)
    return bad("saved by another model");
  uint64_t begin, rows, want;
  if (__builtin_mul_overflow(header.tokens, sizeof(int32_t), &begin) ||
      begin > file.size() ||
      __builtin_mul_overflow(header.tokens, model.bytesPerToken, &rows) ||
      __builtin_add_overflow(rows, model.fixedBytes, &want) ||
      header.stateBytes != want)
    return bad(formatText("%llu bytes of state for %llu tokens do not belong to "
                          "this model",
                          Word(header.stateBytes), Word(header.tokens)));
  begin = stateOffset(header.tokens);
  if (begin > file.size() || file.size() - begin != want)
    return bad(formatText("%llu bytes, expected %llu: truncated or damaged",
                          Word(file.size()), Word(begin + want)));
  return Status();
}

Status readStateFile(const std::string &path, StateFileKind kind,
                     const StateFileModel &model,
                     std::vector<int32_t> &outTokens, Allocation &outState) {
  MappedFile file;
  K3RT_RETURN_IF_ERROR(file.open(path));
  StateFileHeader header;
  K3RT_RETURN_IF_ERROR(checkHeader(path, file, kind, model, header));
  const char *tokens = file.data() + sizeof(header);
  uint64_t tokenBytes = header.tokens * sizeof(int32_t);
  Allocation state;
  K3RT_RETURN_IF_ERROR(state.allocate(header.stateBytes, "a saved state"));
  memcpy(state.data(), file.data() + stateOffset(header.tokens),
         header.stateBytes);
  if (hashBytes(tokens, tokenBytes) != header.tokensHash ||
      hashBytes(state.data(), header.stateBytes) != header.stateHash)
    return makeError(K3RT_BAD_ARTIFACT,
                     "%s: the contents are damaged: their hash is wrong",
                     path.c_str());
  std::vector<int32_t> read(header.tokens);
  if (tokenBytes != 0) // of an empty sequence there is nothing to copy to
    memcpy(read.data(), tokens, tokenBytes);
  for (int32_t token : read)
    if (token < 0 || uint32_t(token) >= model.vocabSize)
      return makeError(K3RT_BAD_ARTIFACT, "%s: token %d is not in [0, %u)",
                       path.c_str(), token, model.vocabSize);
  outTokens = std::move(read);
  outState = std::move(state);
  return Status();
}

} // namespace k3rt
