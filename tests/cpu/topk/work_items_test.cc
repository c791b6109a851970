// SPDX-License-Identifier: Apache-2.0
// Items are positions, every head of each in one item.
#include "cpu/topk/work_items.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "tests/cpu/topk/topk.h"

namespace flashacl::cpu {
namespace {

using testing::ForRandomProblems;
using testing::TopKSpace;

TEST(WorkItems, HaveEveryRowOnce) {
  ForRandomProblems(
      300, TopKSpace(Direction::kForward),
      [](const AttentionProblem& p, Random& random) {
        const int64_t most = random.Within(1, 9);
        const auto& sequences = p.lengths.sequences;
        const WorkItems items(p, sequences, most);
        std::set<std::tuple<int64_t, int64_t, int64_t>> seen;
        for (int64_t n = 0; n < items.count(); ++n) {
          const WorkItem item = items.At(n);
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

}  // namespace
}  // namespace flashacl::cpu
