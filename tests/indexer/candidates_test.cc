// SPDX-License-Identifier: Apache-2.0
// Candidates keep what sorting all of them would put first.
#include "indexer/candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "base/random.h"

namespace flashacl::indexer {
namespace {

std::vector<uint64_t> Ranks(std::span<const Candidate> of) {
  std::vector<uint64_t> ranks;
  for (const Candidate one : of) ranks.push_back(one.rank);
  return ranks;
}

std::vector<uint64_t> Best(std::vector<uint64_t> ranks, int64_t keep) {
  std::ranges::sort(ranks, std::greater());
  ranks.resize(std::min(ranks.size(), static_cast<size_t>(keep)));
  return ranks;
}

TEST(Candidate, IsItsScoreAndKey) {
  constexpr int32_t kOne = 0x3F800000;
  const Candidate one = Candidate::Of(kOne, 7);
  EXPECT_EQ(one.key(), 7);
  EXPECT_EQ(one.ordered(), kOne);
  EXPECT_EQ(ScoreOf(kOne), 1.0f);
  EXPECT_EQ(ScoreOf(kOne ^ static_cast<int32_t>(0xFFFFFFFF)), -1.0f);
  // Of equal scores the lower key is better, whatever the sign.
  EXPECT_GT(Candidate::Of(-5, 3).rank, Candidate::Of(-5, 4).rank);
  EXPECT_GT(Candidate::Of(0, 4).rank, Candidate::Of(-5, 3).rank);
  EXPECT_GT(Candidate::Of(kNoScore + 1, 2147483646).rank, 0u);
}

TEST(Candidates, HaveRoomForAll) {
  EXPECT_EQ(Candidates::CapacityOf(1, 100000), 257);
  EXPECT_EQ(Candidates::CapacityOf(2048, 100000), 4096);
  EXPECT_EQ(Candidates::CapacityOf(2048, 3000), 3000);
  EXPECT_EQ(Candidates::CapacityOf(0, 0), 1);
}

// Few scores, so that most are equal; none below the threshold is offered, as
// kernels do.
TEST(Candidates, AreTheBestHoweverTheyCome) {
  Random random(1);
  for (int n = 0; n < 300; ++n) {
    const int64_t count = random.Within(0, 5000);
    const int64_t keep = random.Within(1, 800);
    const int64_t scores = random.OneIn(2) ? 5 : 1000000;
    const int64_t capacity = Candidates::CapacityOf(keep, count);
    std::vector<Candidate> memory(static_cast<size_t>(capacity));
    Candidates kept(memory.data(), capacity, keep);
    std::vector<uint64_t> all;
    for (int64_t key = 0; key < count; ++key) {
      const auto score = static_cast<int32_t>(random.Within(-scores, scores));
      all.push_back(Candidate::Of(score, static_cast<uint32_t>(key)).rank);
      if (score > kept.threshold()) {
        kept.Append(score, static_cast<uint32_t>(key));
      }
    }
    EXPECT_EQ(Ranks(kept.Sorted()), Best(all, keep));
  }
}

TEST(Candidates, TakeThoseOfOthersInAnyOrder) {
  Random random(2);
  for (int n = 0; n < 300; ++n) {
    const int64_t keep = random.Within(1, 300);
    const int64_t capacity = Candidates::CapacityOf(keep, 100000);
    std::vector<Candidate> memory(static_cast<size_t>(capacity));
    Candidates kept(memory.data(), capacity, keep);
    std::vector<uint64_t> all;
    uint32_t key = 0;
    for (int part = 0; part < 6; ++part) {
      std::vector<Candidate> others;
      for (int64_t u = random.Within(0, 400); u > 0; --u) {
        const auto score = static_cast<int32_t>(random.Within(-3, 3));
        others.insert(others.begin() +
                          random.Within(0, static_cast<int64_t>(others.size())),
                      Candidate::Of(score, key++));
      }
      for (const Candidate one : others) all.push_back(one.rank);
      kept.Take(others);
    }
    EXPECT_EQ(Ranks(kept.Sorted()), Best(all, keep));
  }
}

}  // namespace
}  // namespace flashacl::indexer
