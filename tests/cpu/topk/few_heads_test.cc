// SPDX-License-Identifier: Apache-2.0
// How many heads are few depends on the processor, and decides who computes.
#include "cpu/topk/few_heads.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/str.h"
#include "cpu/implementations.h"
#include "cpu/processor_kind.h"
#include "cpu/tuning.h"
#include "tests/cpu/runs.h"

namespace flashacl::cpu {
namespace {

using testing::DeviceWith;
using testing::ProblemOf;

bool Measured() { return kProcessorKind == ProcessorKind::kOther; }

TEST(FewHeads, AreNoneWhereNobodyMeasured) {
  for (const char* target : {"", "none", "SSE4", "NEON", "SVE_256"}) {
    EXPECT_EQ(MostFewHeads(DeviceWith(target)), 0) << target;
  }
  DeviceInfo matrices = DeviceWith("AVX3");
  matrices.instruction_sets = {"avx512f", "amx_bf16"};
  EXPECT_EQ(MostFewHeads(matrices), 0);
  EXPECT_EQ(MostFewHeads(DeviceWith("AVX3")), Measured() ? kFewHeadsOf512 : 0);
  EXPECT_EQ(MostFewHeads(DeviceWith("AVX2")), Measured() ? kFewHeadsOf256 : 0);
}

// More go to panels, unless somebody names cpu/decode/topk.
TEST(FewHeads, DecideWhoComputes) {
  Backend backend = CpuBackend();
  backend.device = DeviceWith("AVX3");
  const auto name_of = [&](int64_t heads, const Choice& choice = {}) {
    const Result<Plan> plan = MakePlan(
        backend,
        ProblemOf(Str("fwd bf16 h={}/1 d=64 q=3 k=400 topk:90", heads)),
        choice);
    return std::string(plan.ok() ? plan->implementation->name
                                 : std::string_view());
  };
  const Choice named{.only = "cpu/decode/topk", .without = {}};
  EXPECT_EQ(name_of(kFewHeadsOf512),
            Measured() ? "cpu/decode/topk" : "cpu/forward/topk");
  EXPECT_EQ(name_of(kFewHeadsOf512 + 1), "cpu/forward/topk");
  EXPECT_EQ(name_of(kDecodeRows, named), "cpu/decode/topk");
  EXPECT_EQ(name_of(kDecodeRows + 1, named), "");
}

}  // namespace
}  // namespace flashacl::cpu
