// SPDX-License-Identifier: Apache-2.0
// Whether a call lets probs have 16 bits: innerPrecise asks for high
// performance, and queries are of bf16, or of fp16 beside keys of 8 bits.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "acl/executor.h"
#include "acl/handle.h"
#include "aclnn/acl_meta.h"
#include "tests/testing/decode_call.h"
#include "tests/testing/fused_infer_call.h"
#include "tests/testing/prompt_call.h"
#include "tests/testing/training_call.h"

namespace flashacl::testing {
namespace {

// What phase 1 asks for; none where it fails.
std::optional<bool> Allows(OperatorFixture& call) {
  uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
  if (call.PhaseOne(&bytes, &executor) != 0) return {};
  const bool allows =
      acl::Find<acl::Executor>(executor)->plan->problem().score.half_probs;
  EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
  return allows;
}

template <typename Call, typename Case>
std::optional<bool> Allows(const Case& c) {
  Call call(c);
  return Allows(call);
}

TEST(InnerPrecise, OfTrainingIsOneForHighPerformance) {
  for (const bool packed : {true, false}) {
    for (int version = 1; version <= VersionsOf(packed); ++version) {
      for (const int64_t precise : {-1, 0, 1, 2, 3}) {
        for (const aclDataType type : {ACL_BF16, ACL_FLOAT16}) {
          SCOPED_TRACE(version);
          const TrainingSizes sizes{.type = type,
                                    .rows = {3, 3},
                                    .columns = {4, 4},
                                    .layout = packed ? "TND" : "BSND"};
          TrainingForward forward(sizes, version);
          forward.innerPrecise = precise;
          EXPECT_EQ(Allows<TrainingFixture<TrainingForward>>(forward),
                    type == ACL_BF16 && precise == 1);
          TrainingBackward backward(sizes, version);
          backward.innerPrecise = precise;
          EXPECT_EQ(Allows<TrainingFixture<TrainingBackward>>(backward),
                    type == ACL_BF16 && precise == 1);
        }
      }
    }
  }
}

TEST(InnerPrecise, OfInferenceIsOddForHighPerformance) {
  for (int64_t precise = 0; precise < 4; ++precise) {
    SCOPED_TRACE(precise);
    const bool odd = precise % 2 == 1;
    EXPECT_EQ(Allows<PromptCall>(PromptCase{
                  .type = ACL_BF16, .version = 3, .inner_precise = precise}),
              odd);
    EXPECT_EQ(Allows<FusedInferCall>(
                  FusedInferCase{.type = ACL_BF16, .inner_precise = precise}),
              odd);
    if (precise > 1) continue;
    EXPECT_EQ(Allows<DecodeCall>(
                  DecodeCase{.type = ACL_BF16, .inner_precise = precise}),
              odd);
  }
  EXPECT_EQ(Allows<PromptCall>(PromptCase{.version = 3}), false);
  EXPECT_EQ(Allows<FusedInferCall>(FusedInferCase{}), false);
  EXPECT_EQ(Allows<DecodeCall>(DecodeCase{}), false);
}

TEST(InnerPrecise, OfFp16IsForKeysOf8Bits) {
  for (const int64_t precise : {0, 1}) {
    EXPECT_EQ(Allows<DecodeCall>(DecodeCase{.inner_precise = precise,
                                            .key_scales = Scales::kN1D}),
              precise == 1);
  }
}

TEST(InnerPrecise, OfVersionsWithoutItIsHighPerformance) {
  EXPECT_EQ(Allows<PromptCall>(PromptCase{.type = ACL_BF16}), true);
  EXPECT_EQ(Allows<DecodeCall>(DecodeCase{.type = ACL_BF16, .version = 1}),
            true);
}

}  // namespace
}  // namespace flashacl::testing
