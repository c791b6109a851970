// SPDX-License-Identifier: Apache-2.0
// How many rows are few depends on the processor, and on what tensors are and
// have room for; on no length.
#include "cpu/decode/few_rows.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "cpu/implementations.h"
#include "cpu/tuning.h"
#include "tests/cpu/runs.h"

namespace flashacl::cpu {
namespace {

using testing::DeviceWith;
using testing::ProblemOf;

int64_t MostOn(const DeviceInfo& device, std::string_view line) {
  return MostFewRows(ProblemOf(line), device);
}

TEST(FewRows, AreFewerThanTwoPanels) {
  constexpr const char* kPages = "fwd f32 h=8/1 d=128 q=4 k=4096 paged:16";
  EXPECT_EQ(MostOn(DeviceWith("AVX2"), kPages), 31);
  EXPECT_EQ(MostOn(DeviceWith("AVX3"), kPages), 63);
}

TEST(FewRows, OfKeysThatTilesConvertFastAreFewer) {
  const DeviceInfo avx512 = DeviceWith("AVX3");
  EXPECT_EQ(MostOn(avx512, "fwd bf16 h=8/1 d=128 q=4 k=4096 paged:16"), 63);
  EXPECT_EQ(MostOn(avx512, "fwd f16 h=8/1 d=112 q=4 k=4096 paged:16"),
            kFewRows);
  EXPECT_EQ(MostOn(avx512, "fwd f16 h=8/1 d=64+64/128 q=4 k=4096 paged:16"),
            63);
  EXPECT_EQ(
      MostOn(avx512, "fwd f16 h=8/1 d=64 q=4 k=4096 paged:16 int8:channel"),
      63);
  EXPECT_EQ(MostOn(DeviceWith("AVX2"), "fwd bf16 h=8/1 d=64 q=4 k=4096"), 31);
}

// The same numbers of keys in two sequences of an axis of so many.
AttentionProblem OnAxis(int64_t keys) {
  AttentionProblem problem = ProblemOf("fwd f32 h=8 d=128 q=2x40 k=2x40");
  TensorSpec& key = problem[Slot::kKey];
  key.dims = {2, keys, key.dims[2], key.dims[3]};
  key.strides[0] = keys * key.strides[1];
  return problem;
}

// No length decides, of any sequence: tensors do, unless they are for one
// sequence each or packed, which may be as short as they have rows.
TEST(FewRows, DependOnWhatTensorsHaveRoomFor) {
  const auto most = [](const char* target, int64_t keys) {
    return MostFewRows(OnAxis(keys), DeviceWith(target));
  };
  EXPECT_EQ(most("AVX2", 63), 15);
  EXPECT_EQ(most("AVX2", 64), 31);
  EXPECT_EQ(most("AVX3", 63), 31);
  EXPECT_EQ(most("AVX3", 64), kFewRows);
  EXPECT_EQ(most("AVX3", 1023), kFewRows);
  EXPECT_EQ(most("AVX3", 1024), 63);
  EXPECT_EQ(MostOn(DeviceWith("AVX3"), "fwd f32 h=8 d=128 q=40 k=4096"),
            kFewRows);
  EXPECT_EQ(MostOn(DeviceWith("AVX2"), "fwd f32 h=8 d=128 q=40 k=40"), 31);
  EXPECT_EQ(MostOn(DeviceWith("AVX3"), "fwd f32 h=8 d=128 q=2x4 k=9,4096 list"),
            kFewRows);
}

TEST(FewRows, AreAsManyAsEverWhereNothingWasMeasured) {
  constexpr const char* kPages = "fwd bf16 h=8/1 d=128 q=4 k=4096 paged:16";
  for (const char* target : {"", "none", "SSE4", "NEON", "SVE_256"}) {
    EXPECT_EQ(MostOn(DeviceWith(target), kPages), kFewRows) << target;
  }
  DeviceInfo matrices = DeviceWith("AVX3");
  matrices.instruction_sets = {"avx512f", "amx_bf16"};
  EXPECT_EQ(MostOn(matrices, kPages), kFewRows);
}

// More go to tiles of many rows, unless somebody names cpu/decode, or leaves
// nothing else but the reference.
TEST(FewRows, DecideWhoComputes) {
  Backend backend = CpuBackend();
  backend.device = DeviceWith("AVX2");
  const auto name_of = [&](const std::string& line, const Choice& choice = {}) {
    const Result<Plan> plan = MakePlan(backend, ProblemOf(line), choice);
    return std::string(plan.ok() ? plan->implementation->name
                                 : std::string_view());
  };
  const std::string few = "fwd bf16 h=31/1 d=64 q=1 k=400";
  const std::string many = "fwd bf16 h=32/1 d=64 q=1 k=400";
  EXPECT_EQ(name_of(few), "cpu/decode");
  EXPECT_EQ(name_of(many), "cpu/forward");
  EXPECT_EQ(name_of(many, {.only = "cpu/decode", .without = {}}), "cpu/decode");
  EXPECT_EQ(name_of(many, {.only = {}, .without = "cpu/forward"}),
            "cpu/decode");
  const Result<Plan> plan = MakePlan(backend, ProblemOf(many));
  EXPECT_NE(plan->explanation.find(
                "cpu/decode: 32 packed rows per kv head are more than 31\n"),
            std::string::npos)
      << plan->explanation;
  EXPECT_EQ(name_of("fwd bf16 h=8/1 d=64 q=4,3 k=400,90"), "cpu/mixed");
  backend.device = DeviceWith("AVX3");
  const std::string paged = " d=64 q=1 k=1024 paged:16";
  EXPECT_EQ(name_of("fwd f32 h=63/1" + paged), "cpu/decode");
  EXPECT_EQ(name_of("fwd f32 h=64/1" + paged), "cpu/forward");
}

}  // namespace
}  // namespace flashacl::cpu
