// SPDX-License-Identifier: Apache-2.0
// Element types and scales: what passes, and what does not.
#include "problem/encoding_checks.h"

#include <gtest/gtest.h>

#include "problem/notation.h"

namespace flashacl {
namespace {

AttentionProblem Problem(const char* line) {
  const Result<AttentionProblem> problem = Parse(line);
  EXPECT_TRUE(problem.ok()) << problem.status().message();
  return *problem;
}

TEST(CheckDTypes, EightBitKeysNeedScales) {
  AttentionProblem problem = Problem("fwd f16 h=1 d=1 q=1 k=1 int8:channel");
  EXPECT_TRUE(CheckDTypes(problem).ok());
  problem[Slot::kValueScale] = {};
  EXPECT_EQ(CheckDTypes(problem).code(), Code::kNullArgument);
  problem = Problem("fwd f16 h=1 d=1 q=1 k=1");
  problem[Slot::kValueScale] = DenseSpec(DType::kF32, {1, 1, 1, 1});
  EXPECT_EQ(CheckDTypes(problem).code(), Code::kContradiction);
}

TEST(CheckDTypes, FourBitKeysAreAsEightBitOnes) {
  AttentionProblem problem = Problem("fwd f16 h=1 d=8 q=1 k=1 int4:channel");
  EXPECT_TRUE(CheckDTypes(problem).ok());
  problem[Slot::kValue].dtype = DType::kI8;
  EXPECT_EQ(CheckDTypes(problem).code(), Code::kInvalidArgument);
  problem[Slot::kValue].dtype = DType::kI4x8;
  problem[Slot::kKeyScale] = {};
  EXPECT_EQ(CheckDTypes(problem).code(), Code::kNullArgument);
}

TEST(CheckDTypes, EightBitQueriesNeedAScaleOfWeights) {
  AttentionProblem problem = Problem("fwd i8 h=1 d=1 q=1 k=1 int8:tensor");
  EXPECT_TRUE(CheckDTypes(problem).ok());
  for (const Slot slot : {Slot::kKeyScale, Slot::kValueScale}) {
    problem[slot].dtype = DType::kU64;
  }
  EXPECT_TRUE(CheckDTypes(problem).ok());
  problem[Slot::kWeightScale].dtype = DType::kU64;
  EXPECT_EQ(CheckDTypes(problem).code(), Code::kInvalidArgument);
  problem[Slot::kWeightScale] = {};
  EXPECT_EQ(CheckDTypes(problem).code(), Code::kNullArgument);
}

TEST(CheckDTypes, ScalesByRowMakeEightBitQueriesNumbers) {
  AttentionProblem problem =
      Problem("fwd bf16 h=2/1 d=4+2 q=3 k=5 int8:tensor query:int8");
  EXPECT_TRUE(CheckDTypes(problem).ok());
  EXPECT_EQ(problem[Slot::kQuery].dtype, DType::kI8);
  EXPECT_EQ(problem[Slot::kQueryRope].dtype, DType::kBf16);
  EXPECT_EQ(problem[Slot::kOut].dtype, DType::kBf16);
  EXPECT_EQ(problem[Slot::kQueryRowScale].dims,
            (std::array<int64_t, 4>{1, 3, 2, 1}));
  problem[Slot::kKeyScale].dtype = DType::kU64;
  EXPECT_EQ(CheckDTypes(problem).code(), Code::kInvalidArgument);
}

TEST(CheckDTypes, OnlyEightBitQueriesTakeDressedScales) {
  AttentionProblem problem = Problem("fwd f16 h=1 d=1 q=1 k=1 int8:tensor");
  problem[Slot::kKeyScale].dtype = DType::kU64;
  EXPECT_EQ(CheckDTypes(problem).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace flashacl
