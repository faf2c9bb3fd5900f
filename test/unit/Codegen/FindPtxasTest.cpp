//===- FindPtxasTest.cpp - NVIDIA's assembler in Python packages ---------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Ptxas.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "gtest/gtest.h"
#include <cstdlib>
#include <optional>

using namespace mlir::k3;

namespace {

/// A variable of the environment while this lives.
class Variable {
public:
  Variable(const char *name, const std::string &value) : name(name) {
    if (const char *before = getenv(name))
      kept = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (kept)
      setenv(name, kept->c_str(), 1);
    else
      unsetenv(name);
  }

private:
  const char *name;
  std::optional<std::string> kept;
};

/// Makes the folders in which a release of nvidia-cuda-nvcc has its programs, and says where ptxas would be.
std::string makePackage(const std::string &prefix, const std::string &release) {
  std::string bin = prefix + "/lib/python3.12/site-packages/nvidia/" + release + "/bin";
  EXPECT_FALSE(llvm::sys::fs::create_directories(bin));
  return bin + "/ptxas";
}

TEST(FindPtxas, InPythonPackages) {
  llvm::SmallString<128> folder;
  ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("find-ptxas", folder));
  std::string environment = folder.str().str() + "/environment", home = folder.str().str() + "/home";
  std::string newer = makePackage(environment, "cu13"), older = makePackage(environment, "cuda_nvcc");
  std::string own = makePackage(home + "/.local", "cu13");
  {
    Variable first("VIRTUAL_ENV", environment), second("HOME", home);
    std::vector<std::string> places = listPtxasPlaces();
    // The active environment before the user's packages; both layouts of the package.
    auto at = [&](const std::string &place) { return llvm::find(places, place) - places.begin(); };
    EXPECT_NE(at(newer), ptrdiff_t(places.size()));
    EXPECT_NE(at(older), ptrdiff_t(places.size()));
    EXPECT_LT(std::max(at(newer), at(older)), at(own));
    EXPECT_LT(at(own), ptrdiff_t(places.size()));
  }
  Variable none("VIRTUAL_ENV", "/nonexistent"), nobody("HOME", "/nonexistent");
  for (const std::string &place : listPtxasPlaces())
    EXPECT_FALSE(llvm::StringRef(place).starts_with(folder)) << place;
  llvm::sys::fs::remove_directories(folder);
}

} // namespace
