//===- MappedFile.cpp - read-only file mappings --------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/base/MappedFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace k3rt {

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(memory, other.memory);
  std::swap(length, other.length);
  return *this;
}

MappedFile::~MappedFile() {
  if (memory)
    munmap(memory, length);
}

Status MappedFile::open(const std::string &path) {
  // Without O_NONBLOCK a named pipe would wait for a writer.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return makeError(K3RT_IO_ERROR, "%s: %s", path.c_str(), strerror(errno));
  struct stat info;
  Status status;
  void *fresh = nullptr;
  if (fstat(fd, &info) != 0) {
    status = makeError(K3RT_IO_ERROR, "%s: %s", path.c_str(), strerror(errno));
  } else if (!S_ISREG(info.st_mode)) {
    status = makeError(K3RT_IO_ERROR, "%s: not a regular file", path.c_str());
  } else if (info.st_size > 0) {
    fresh = mmap(nullptr, size_t(info.st_size), PROT_READ, MAP_SHARED, fd, 0);
    if (fresh == MAP_FAILED)
      status = makeError(K3RT_IO_ERROR, "%s: cannot map: %s", path.c_str(),
                         strerror(errno));
  }
  close(fd);
  if (!status.ok())
    return status;
  if (memory)
    munmap(memory, length);
  memory = fresh;
  length = uint64_t(info.st_size);
  return Status();
}

void MappedFile::willNeed(uint64_t offset, uint64_t bytes) const {
  uint64_t page = uint64_t(sysconf(_SC_PAGESIZE));
  if (!memory || offset >= length)
    return;
  uint64_t first = offset / page * page;
  uint64_t last = bytes > length - offset ? length : offset + bytes;
  madvise(static_cast<char *>(memory) + first, last - first, MADV_WILLNEED);
}

} // namespace k3rt
