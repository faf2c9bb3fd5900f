//===- OutputFile.cpp - a file that appears whole or not at all -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Artifact/OutputFile.h"
#include "frontend/Text.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace mlir::k3;
using ::k3::frontend::printable;
using ::k3::frontend::Status;

Status OutputFile::fail(const char *action, int error) const {
  return Status::error(printable(finalPath) + ": cannot " + action + ": " + std::strerror(error));
}

Status OutputFile::open(const std::string &path, bool executable) {
  finalPath = path;
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return Status::error(printable(path) + ": cannot write: it is " +
                         (S_ISDIR(info.st_mode) ? "a directory" : "not a regular file"));
  std::string folder = llvm::sys::path::parent_path(path).str();
  std::string stem = (folder.empty() ? "." : folder) + "/." + llvm::sys::path::filename(path).str() + ".tmp";
  for (unsigned attempt = 0; attempt < 100; ++attempt) {
    temporary = stem + std::to_string(getpid()) + "-" + std::to_string(attempt);
    fd = ::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, executable ? 0777 : 0666);
    if (fd >= 0 || errno != EEXIST)
      break;
  }
  if (fd < 0) {
    temporary.clear();
    return fail("create", errno);
  }
  llvm::sys::RemoveFileOnSignal(temporary);
  return Status::success();
}

Status OutputFile::reserve(uint64_t bytes) {
  if (bytes == 0 || fallocate(fd, 0, 0, static_cast<off_t>(bytes)) == 0)
    return Status::success();
  if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT)
    return fail(("write " + std::to_string(bytes) + " bytes").c_str(), errno);
  return Status::success(); // The file system cannot reserve; writing will tell.
}

Status OutputFile::writeAt(uint64_t offset, const void *data, uint64_t bytes) {
  const char *cursor = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t written = pwrite(fd, cursor, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return fail("write", written < 0 ? errno : ENOSPC);
    cursor += written;
    offset += static_cast<uint64_t>(written);
    bytes -= static_cast<uint64_t>(written);
  }
  return Status::success();
}

/// So that the new name survives a crash of the machine; best effort, as not every file system can.
static void syncFolder(const std::string &path) {
  std::string folder = llvm::sys::path::parent_path(path).str();
  int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return;
  (void)fsync(fd);
  close(fd);
}

Status OutputFile::commit(uint64_t bytes) {
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    return fail("write", errno);
  if (fsync(fd) != 0)
    return fail("write", errno);
  int closing = fd;
  fd = -1;
  if (close(closing) != 0)
    return fail("write", errno);
  if (rename(temporary.c_str(), finalPath.c_str()) != 0)
    return fail("create", errno);
  llvm::sys::DontRemoveFileOnSignal(temporary);
  temporary.clear();
  syncFolder(finalPath);
  return Status::success();
}

void OutputFile::discard() {
  if (fd >= 0)
    close(fd);
  fd = -1;
  if (temporary.empty())
    return;
  unlink(temporary.c_str());
  llvm::sys::DontRemoveFileOnSignal(temporary);
  temporary.clear();
}
