// SPDX-License-Identifier: Apache-2.0
// Batches, lists by kv blocks, and where gradients of keys go.
#include "cpu/topk/topk_backward_operands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "plan/sequences.h"
#include "tests/cpu/topk/topk.h"

namespace flashacl::cpu {
namespace {

using testing::ForRandomProblems;
using testing::TopKSpace;

// Calls body(small, run, cut) for random problems.
template <typename Body>
void ForRuns(int64_t count, Body body) {
  ForRandomProblems(count, TopKSpace(Direction::kBackward),
                    [&](const AttentionProblem& p, Random& random) {
                      if (!p.kv.gathers()) return;
                      SmallCase small(p);
                      small.FillInputs(random);
                      TopKBackwardTiling cut = TopKBackwardTilingOf(p, {});
                      cut.kv_block_rows = random.Within(1, 8);
                      cut.kv_blocks = 40;
                      const TopKBackwardOperands run(p, small.bindings(), cut);
                      body(small, run, cut);
                    });
}

TEST(TopKBackwardOperands, BatchesHaveEverySequenceHeadOnce) {
  ForRuns(300, [](const SmallCase& small, const TopKBackwardOperands& run,
                  const TopKBackwardTiling& cut) {
    const AttentionProblem& p = small.problem();
    const auto sequences = ResolveSequences(p, small.bindings());
    std::set<std::pair<int64_t, int64_t>> seen;
    for (const TopKBackwardBatch& batch : run.Batches()) {
      EXPECT_LE(batch.rows(), cut.batch_rows);
      int64_t row = 0, position = 0;
      for (const TopKBackwardSequenceHead& sequence_head :
           batch.sequence_heads) {
        const Sequence& extent =
            sequences[static_cast<size_t>(sequence_head.sequence)];
        EXPECT_TRUE(seen.insert({sequence_head.sequence, sequence_head.kv_head})
                        .second);
        EXPECT_EQ(sequence_head.rows, (Range{row, row + extent.columns()}));
        EXPECT_EQ(sequence_head.positions,
                  (Range{position, position + extent.rows()}));
        row = sequence_head.rows.last;
        position = sequence_head.positions.last;
        for (int64_t n = sequence_head.positions.first; n < position; ++n) {
          EXPECT_EQ(&batch.SequenceHeadOf(n), &sequence_head);
        }
      }
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()),
              p.lengths.count() * p.kv_heads);
  });
}

TEST(TopKBackwardOperands, ColumnsAreSortedByKvBlockInTheirOrder) {
  ForRuns(300, [](const SmallCase& small, const TopKBackwardOperands& run,
                  const TopKBackwardTiling& cut) {
    const AttentionProblem& p = small.problem();
    std::vector<int64_t> listed(static_cast<size_t>(cut.split_keys));
    std::vector<int64_t> columns(listed), ends(40);
    std::vector<QueryRow> query_rows(static_cast<size_t>(p.group()));
    TopKBackwardMemory memory{};
    memory.score.query_rows = query_rows.data();
    memory.scratch.columns = listed.data();
    memory.saved.columns = columns.data();
    memory.saved.kv_block_ends = ends.data();
    for (const TopKBackwardBatch& batch : run.Batches()) {
      for (int64_t n = 0; n < batch.positions(); ++n) {
        const TopKBackwardDqItem item =
            run.DqItemOf(batch.SequenceHeadOf(n).OwnerOf(n), 0, memory);
        std::vector<int64_t> expected(listed.begin(),
                                      listed.begin() + item.count);
        std::stable_sort(expected.begin(), expected.end(),
                         [&](int64_t a, int64_t b) {
                           return a / cut.kv_block_rows < b / cut.kv_block_rows;
                         });
        ASSERT_TRUE(
            std::equal(expected.begin(), expected.end(), columns.begin()));
        for (int64_t k = 0; k < cut.kv_blocks; ++k) {
          const auto at = static_cast<size_t>(k);
          EXPECT_EQ(ends[at],
                    std::count_if(expected.begin(), expected.end(),
                                  [&](int64_t column) {
                                    return column / cut.kv_block_rows <= k;
                                  }));
        }
      }
    }
  });
}

// Every channel of every key has one piece, at its own address.
TEST(TopKBackwardOperands, PiecesAreTheTensors) {
  ForRuns(200, [](const SmallCase& small, const TopKBackwardOperands& run,
                  const TopKBackwardTiling& cut) {
    const AttentionProblem& p = small.problem();
    const auto sequences = ResolveSequences(p, small.bindings());
    std::set<const std::byte*> found, expected;
    for (const TopKBackwardBatch& batch : run.Batches()) {
      for (const TopKBackwardSequenceHead& sequence_head :
           batch.sequence_heads) {
        const Sequence& extent =
            sequences[static_cast<size_t>(sequence_head.sequence)];
        for (int64_t j = 0; j < extent.columns(); ++j) {
          for (int64_t d_block = 0; d_block < cut.d_blocks(); ++d_block) {
            run.ForPieces(
                sequence_head, j, d_block,
                [&](const ElementFormat& format, int64_t first, int64_t count,
                    std::byte* to) {
                  EXPECT_LE(first + count, cut.d_block_channels);
                  for (int64_t d = 0; d < count; ++d) {
                    EXPECT_TRUE(
                        found
                            .insert(to + d * format.step * format.element_bytes)
                            .second);
                  }
                });
          }
          for (const Slot slot :
               {Slot::kGradKey, Slot::kGradKeyRope, Slot::kGradValue}) {
            if (!p.has(slot)) continue;
            for (int64_t d = 0; d < p[slot].dims[3]; ++d) {
              expected.insert(small.bindings()[slot] +
                              p[slot].At(sequence_head.sequence,
                                         extent.keys.first + j,
                                         sequence_head.kv_head, d) *
                                  SizeOf(p[slot].dtype));
            }
          }
        }
      }
    }
    EXPECT_EQ(found, expected);
  });
}

}  // namespace
}  // namespace flashacl::cpu
