// SPDX-License-Identifier: Apache-2.0
// aclnnFusedInferAttentionScore over its whole parameter space against the
// document's formula.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "tests/testing/child.h"
#include "tests/testing/fused_infer_call.h"
#include "tests/testing/runtime.h"

namespace flashacl::testing {
namespace {

TEST(FusedInferConformance, RandomCallsAnswerTheFormula) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    Random random(seed);
    const FusedInferCase c = RandomFusedInferCase(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + ToString(c));
    FusedInferCall(c, seed).ExpectAsDocumented();
    if (::testing::Test::HasFailure()) return;
  }
}

// FNV-1a, 64 bits.
uint64_t HashOf(const std::vector<std::byte>& bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte byte : bytes) {
    hash = (hash ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3u;
  }
  return hash;
}

// Longer keys than most calls at random have: they are split among threads.
FusedInferCase LongCase(Random& random) {
  FusedInferCase c = RandomFusedInferCase(random);
  if (c.paged()) {
    c.columns = c.block_size * random.Within(8, 24);
    c.kv_lengths.assign(static_cast<size_t>(c.sequences), c.columns);
  }
  return c;
}

// A child, which ThreadsDoNotChangeBits starts.
TEST(FusedInferChild, DISABLED_PrintsBits) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    Random random(seed);
    FusedInferCall call(LongCase(random), seed);
    ASSERT_TRUE(call.Run()) << ToString(call.asked);
    std::printf(
        "bits of %d: %016llx %016llx\n", static_cast<int>(seed),
        static_cast<unsigned long long>(HashOf(call.out->ElementBytes())),
        static_cast<unsigned long long>(HashOf(call.lse->ElementBytes())));
  }
}

TEST(FusedInferConformance, ThreadsDoNotChangeBits) {
  const auto bits = [](const char* threads) {
    const ChildResult child = RunChild("FusedInferChild.DISABLED_PrintsBits",
                                       {{"FLASHACL_NUM_THREADS", threads}});
    EXPECT_TRUE(child.ok()) << child.output;
    std::string lines;
    for (size_t at = child.output.find("bits of"); at != std::string::npos;
         at = child.output.find("bits of", at + 1)) {
      lines += child.output.substr(at, child.output.find('\n', at) - at) + '\n';
    }
    return lines;
  };
  const std::string one = bits("1");
  EXPECT_NE(one.find("bits of 150"), std::string::npos);
  for (const char* threads : {"2", "7", "64"}) {
    SCOPED_TRACE(threads);
    EXPECT_EQ(bits(threads), one);
  }
}

// Other numbers that the arrays of the call may hold.
std::vector<int64_t> OtherContents(Random& random, bool ends, int64_t room,
                                   size_t count) {
  std::vector<int64_t> numbers(count);
  for (int64_t& number : numbers) number = random.Within(0, room);
  if (ends) {
    std::ranges::sort(numbers);
    numbers.back() = room;
  }
  return numbers;
}

// The workspace is enough for whatever contents phase 1 accepts, and what was
// planned without contents can be run or dropped.
TEST(FusedInferConformance, MaxWorkspaceSufficesForAllContents) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const FusedInferCase c = LongCase(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + ToString(c));
    FusedInferCall call(c, seed);
    uint64_t most = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_TRUE(Succeeds(call.MaxPhaseOne(&most, &executor)));
    ASSERT_NE(executor, nullptr);
    EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
    for (int n = 0; n < 8; ++n) {
      if (call.lengths != nullptr) {
        call.lengths = call.caller.Array(OtherContents(
            random, c.packed(), c.total_rows(), c.lengths.size()));
      }
      if (call.kv_lengths != nullptr) {
        int64_t room = c.total_columns();
        for (const int64_t own : c.own_columns) room = std::min(room, own);
        call.kv_lengths = call.caller.Array(OtherContents(
            random, c.packed() && !c.paged(), room, c.kv_lengths.size()));
      }
      uint64_t size = 0;
      if (call.PhaseOne(&size, &executor) != 0) continue;
      EXPECT_LE(size, most);
      EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
    }
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(FusedInferConformance, WhatMaxWorkspacePlannedCanBeRun) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Random random(seed);
    FusedInferCall call(RandomFusedInferCase(random), seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + ToString(call.asked));
    EXPECT_TRUE(call.caller.Run([&](uint64_t* size, aclOpExecutor** executor) {
      return call.MaxPhaseOne(size, executor);
    }));
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace flashacl::testing
