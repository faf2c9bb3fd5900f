//===- OutputFileTest.cpp - a file that appears whole or not at all -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Artifact/OutputFile.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using ::k3::frontend::Status;
using mlir::k3::OutputFile;
namespace fs = std::filesystem;

namespace {
struct OutputFileTest : testing::Test {
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "k3-output-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { fs::remove_all(folder); }

  size_t countFiles() const { return std::distance(fs::directory_iterator(folder), fs::directory_iterator()); }
  std::string read(const fs::path &path) const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder;
};
} // namespace

TEST_F(OutputFileTest, AppearsAtCommit) {
  fs::path path = folder / "a.k3a";
  OutputFile file;
  ASSERT_TRUE(file.open(path.string()).ok());
  ASSERT_TRUE(file.writeAt(4, "tail", 4).ok());
  ASSERT_TRUE(file.writeAt(0, "head", 4).ok());
  EXPECT_FALSE(fs::exists(path));
  ASSERT_TRUE(file.commit(10).ok());
  EXPECT_EQ(read(path), std::string("headtail\0\0", 10));
  EXPECT_EQ(countFiles(), 1u);
  EXPECT_EQ(fs::status(path).permissions() & fs::perms::owner_exec, fs::perms::none);
}

TEST_F(OutputFileTest, LeavesNothingWithoutCommit) {
  fs::path path = folder / "a.k3a";
  std::ofstream(path) << "old";
  {
    OutputFile file;
    ASSERT_TRUE(file.open(path.string()).ok());
    ASSERT_TRUE(file.writeAt(0, "new and longer", 14).ok());
  }
  EXPECT_EQ(read(path), "old");
  EXPECT_EQ(countFiles(), 1u);
}

TEST_F(OutputFileTest, ReplacesAnOlderFile) {
  fs::path path = folder / "a";
  std::ofstream(path) << "old and longer";
  OutputFile file;
  ASSERT_TRUE(file.open(path.string(), /*executable=*/true).ok());
  ASSERT_TRUE(file.writeAt(0, "new", 3).ok());
  ASSERT_TRUE(file.commit(3).ok());
  EXPECT_EQ(read(path), "new");
  EXPECT_NE(fs::status(path).permissions() & fs::perms::owner_exec, fs::perms::none);
}

TEST_F(OutputFileTest, RefusesWhatIsNoFile) {
  OutputFile file;
  EXPECT_EQ(file.open(folder.string()).message(), folder.string() + ": cannot write: it is a directory");
  EXPECT_EQ(file.open("/dev/null").message(), "/dev/null: cannot write: it is not a regular file");
  EXPECT_EQ(file.open((folder / "no" / "a").string()).message(),
            (folder / "no" / "a").string() + ": cannot create: No such file or directory");
}

TEST_F(OutputFileTest, ReportsAFullDisk) {
  // A limit on the size of files stands for the disk; the child must not kill itself with SIGXFSZ.
  fs::path path = folder / "a.k3a";
  pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit = {4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    OutputFile file;
    std::string bytes(8192, 'x');
    bool reserved = file.open(path.string()).ok() && file.reserve(bytes.size()).ok();
    Status status = file.writeAt(0, bytes.data(), bytes.size());
    file.discard();
    _exit(!reserved && !status.ok() ? 0 : 1);
  }
  int exit = -1;
  waitpid(child, &exit, 0);
  EXPECT_EQ(exit, 0);
  EXPECT_EQ(countFiles(), 0u);
}

TEST_F(OutputFileTest, IsRemovedWhenInterrupted) {
  fs::path path = folder / "a.k3a";
  pid_t child = fork();
  if (child == 0) {
    OutputFile file;
    if (!file.open(path.string()).ok() || !file.writeAt(0, "half", 4).ok())
      _exit(1);
    raise(SIGTERM); // not SIGINT: shells start background jobs with it ignored
    _exit(2);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_EQ(countFiles(), 0u);
}
