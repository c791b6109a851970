// SPDX-License-Identifier: Apache-2.0
// Items are positions, every head of each in one item.
#include "cpu/gathered_items.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "problem/notation.h"
#include "tests/cpu/gathered.h"

namespace flashacl::cpu {
namespace {

using testing::ForRandomProblems;
using testing::GatheredSpace;

TEST(GatheredItems, HaveEveryRowOnce) {
  ForRandomProblems(
      300, GatheredSpace(Direction::kForward),
      [](const AttentionProblem& p, Random& random) {
        const int64_t most = random.Within(1, 9);
        const auto& sequences = p.lengths.sequences;
        const GatheredItems items(p, sequences, most);
        std::set<std::tuple<int64_t, int64_t, int64_t>> seen;
        for (int64_t n = 0; n < items.count(); ++n) {
          const GatheredItem item = items.At(n);
          EXPECT_LE(item.rows.size(), most);
          for (int64_t r = item.rows.first; r < item.rows.last; ++r) {
            EXPECT_EQ(r / p.group(), item.owner.position);
            EXPECT_TRUE(
                seen.insert({item.owner.sequence, item.owner.kv_head, r})
                    .second);
          }
        }
        size_t rows = 0;
        for (const Sequence& sequence : sequences) {
          rows += static_cast<size_t>(sequence.rows() * p.heads);
        }
        EXPECT_EQ(seen.size(), rows);
      });
}

TEST(GatheredItems, RefuseWhatNoOperatorHasWithLists) {
  const auto refusal = [](const std::string& line) {
    const Result<AttentionProblem> problem = Parse(line);
    EXPECT_TRUE(problem.ok()) << line;
    return SupportsLists(*problem).message();
  };
  EXPECT_EQ(refusal("fwd f32 h=1 d=4 q=2 k=9 topk:3 causal sink"), "");
  EXPECT_NE(refusal("fwd f32 h=1 d=4 q=2 k=9 topk:3 mask").find("mask"),
            std::string::npos);
  EXPECT_NE(refusal("fwd f32 h=1 d=4 q=2 k=9 topk:3 bias").find("bias"),
            std::string::npos);
  EXPECT_NE(refusal("fwd f32 h=1 d=4 q=2 k=9 topk:3 keep:0.5").find("keep"),
            std::string::npos);
  EXPECT_NE(refusal("fwd f32 h=1 d=4097 q=2 k=9 topk:3").find("4097"),
            std::string::npos);
}

TEST(GatheredItems, AreHandedOutOnce) {
  for (const int workers : {1, 3}) {
    ShuffledWorkers some(workers);
    std::vector<std::atomic<int>> times(50);
    ForEachSlot(some, 4, 50, [&](int64_t slot, auto take) {
      EXPECT_LT(slot, 4);
      for (int64_t n = take(); n < 50; n = take()) {
        ++times[static_cast<size_t>(n)];
      }
      EXPECT_EQ(take(), 50);
    });
    EXPECT_TRUE(std::all_of(times.begin(), times.end(),
                            [](const auto& one) { return one == 1; }));
  }
}

}  // namespace
}  // namespace flashacl::cpu
