//===- TargetModelTest.cpp - target names and what follows from them ------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Common/TargetModel.h"

#include "gtest/gtest.h"

using mlir::k3::TargetModel;

static TargetModel parse(llvm::StringRef name) { return llvm::cantFail(TargetModel::parse(name)); }

TEST(TargetModel, LevelsGiveVectorWidths) {
  EXPECT_EQ(parse("x86-64").lanes, 4u);
  EXPECT_FALSE(parse("x86-64").fma);
  EXPECT_EQ(parse("x86-64-v3").lanes, 8u);
  EXPECT_TRUE(parse("x86-64-v3").fma);
  EXPECT_EQ(parse("x86-64-v4").lanes, 16u);
  EXPECT_EQ(parse("x86-64-v4").vectorRegisters, 32u);
  EXPECT_FALSE(parse("x86-64-v4").avx512Bf16);
  EXPECT_TRUE(parse("sapphirerapids").avx512Bf16);
  EXPECT_TRUE(parse("znver4").avx512Bf16);
}

TEST(TargetModel, HostIsDescribedByItsFeatures) {
  TargetModel host = parse("host");
  EXPECT_NE(host.cpu, "host");
  EXPECT_EQ(host.avx2, static_cast<bool>(__builtin_cpu_supports("avx2")));
}

TEST(TargetModel, UnknownNameListsSimilarOnes) {
  auto model = TargetModel::parse("skylake-avx51");
  ASSERT_FALSE(static_cast<bool>(model));
  std::string message = llvm::toString(model.takeError());
  EXPECT_NE(message.find("unknown target CPU 'skylake-avx51'"), std::string::npos) << message;
  EXPECT_NE(message.find("skylake-avx512"), std::string::npos) << message;
}

TEST(TargetModel, RequiredFeaturesFollowTheFeatureString) {
  TargetModel v4 = parse("x86-64-v4");
  auto has = [](const TargetModel &model, const char *name) {
    auto features = model.requiredFeatures();
    return std::find(features.begin(), features.end(), name) != features.end();
  };
  EXPECT_TRUE(has(v4, "avx512f"));
  EXPECT_FALSE(has(v4, "avx512bf16"));
  v4.features = "+avx512bf16,-avx512cd";
  EXPECT_TRUE(has(v4, "avx512bf16"));
  EXPECT_FALSE(has(v4, "avx512cd"));
}
