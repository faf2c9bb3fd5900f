//===- File.cpp - bounded reads of regular files --------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/File.h"
#include "frontend/Text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace k3::frontend {

InputFile::InputFile(std::string path, int descriptor, uint64_t size)
    : name(std::move(path)), fd(descriptor), byteSize(size) {}

InputFile::InputFile(InputFile &&other) noexcept
    : name(std::move(other.name)), fd(std::exchange(other.fd, -1)),
      byteSize(other.byteSize) {}

InputFile &InputFile::operator=(InputFile &&other) noexcept {
  std::swap(name, other.name);
  std::swap(fd, other.fd);
  std::swap(byteSize, other.byteSize);
  return *this;
}

InputFile::~InputFile() {
  if (fd >= 0)
    ::close(fd);
}

Expected<InputFile> InputFile::open(const std::string &path) {
  // Without O_NONBLOCK a FIFO in place of a model file would hang the open.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return Status::error(printable(path) +
                         ": cannot open: " + std::strerror(errno));
  struct stat info;
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return Status::error(printable(path) + ": not a regular file");
  }
  return InputFile(path, fd, static_cast<uint64_t>(info.st_size));
}

Status InputFile::read(uint64_t offset, void *out, uint64_t length) const {
  char *cursor = static_cast<char *>(out);
  while (length > 0) {
    size_t want = static_cast<size_t>(std::min<uint64_t>(length, 1u << 30));
    ssize_t got = ::pread(fd, cursor, want, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return Status::error(printable(name) +
                           ": cannot read: " + std::strerror(errno));
    if (got == 0)
      return Status::error(printable(name) + ": ends at byte " +
                           std::to_string(offset) + ", wanted " +
                           std::to_string(length) + " more");
    cursor += got;
    offset += static_cast<uint64_t>(got);
    length -= static_cast<uint64_t>(got);
  }
  return Status::success();
}

Expected<std::string> readFile(const std::string &path, uint64_t maxBytes) {
  Expected<InputFile> file = InputFile::open(path);
  if (!file)
    return file.status();
  if (file->size() > maxBytes)
    return Status::error(printable(path) + ": has " +
                         std::to_string(file->size()) +
                         " bytes, wanted at most " + std::to_string(maxBytes));
  std::string text(static_cast<size_t>(file->size()), '\0');
  if (Status status = file->read(0, text.data(), text.size()); !status.ok())
    return status;
  return text;
}

bool pathExists(const std::string &path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}

std::string joinPath(const std::string &directory, const std::string &name) {
  if (directory.empty() || directory.back() == '/')
    return directory + name;
  return directory + '/' + name;
}

} // namespace k3::frontend
