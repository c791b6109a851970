// SPDX-License-Identifier: Apache-2.0
// Waves, lists by buckets, and where gradients of keys go.
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
using testing::GatheredSpace;

// Calls body(small, run, cut) for random problems.
template <typename Body>
void ForRuns(int64_t count, Body body) {
  ForRandomProblems(count, GatheredSpace(Direction::kBackward),
                    [&](const AttentionProblem& p, Random& random) {
                      if (!p.kv.gathers()) return;
                      SmallCase small(p);
                      small.FillInputs(random);
                      GradCut cut = CutGradients(p, {});
                      cut.bucket_rows = random.Within(1, 8);
                      cut.buckets = 40;
                      const GradRun run(p, small.bindings(), cut);
                      body(small, run, cut);
                    });
}

TEST(GradRun, WavesHaveEverySequenceOnce) {
  ForRuns(300, [](const SmallCase& small, const GradRun& run,
                  const GradCut& cut) {
    const AttentionProblem& p = small.problem();
    const auto sequences = ResolveSequences(p, small.bindings());
    std::set<std::pair<int64_t, int64_t>> seen;
    for (const GradWave& wave : run.Waves()) {
      EXPECT_LE(wave.rows(), cut.rows);
      int64_t row = 0, position = 0;
      for (const GradUnit& unit : wave.units) {
        const Sequence& extent = sequences[static_cast<size_t>(unit.sequence)];
        EXPECT_TRUE(seen.insert({unit.sequence, unit.kv_head}).second);
        EXPECT_EQ(unit.rows, (Range{row, row + extent.columns()}));
        EXPECT_EQ(unit.positions, (Range{position, position + extent.rows()}));
        row = unit.rows.last;
        position = unit.positions.last;
        for (int64_t n = unit.positions.first; n < position; ++n) {
          EXPECT_EQ(&wave.UnitOf(n), &unit);
        }
      }
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()),
              p.lengths.count() * p.kv_heads);
  });
}

TEST(GradRun, ColumnsAreSortedByBucketInTheirOrder) {
  ForRuns(
      300, [](const SmallCase& small, const GradRun& run, const GradCut& cut) {
        const AttentionProblem& p = small.problem();
        std::vector<int64_t> listed(static_cast<size_t>(cut.entries));
        std::vector<int64_t> columns(listed), ends(40);
        std::vector<GradLane> lanes(static_cast<size_t>(p.group()));
        GradScratch scratch{};
        scratch.columns = listed.data();
        scratch.lanes = lanes.data();
        for (const GradWave& wave : run.Waves()) {
          for (int64_t n = 0; n < wave.positions(); ++n) {
            GradItem item = run.ItemOf(wave.UnitOf(n), n, scratch);
            item.record.columns = columns.data();
            run.ListColumns(wave.UnitOf(n), n, 0, ends.data(), item);
            std::vector<int64_t> expected(listed.begin(),
                                          listed.begin() + item.count);
            std::stable_sort(expected.begin(), expected.end(),
                             [&](int64_t a, int64_t b) {
                               return a / cut.bucket_rows < b / cut.bucket_rows;
                             });
            ASSERT_TRUE(
                std::equal(expected.begin(), expected.end(), columns.begin()));
            for (int64_t k = 0; k < cut.buckets; ++k) {
              const auto at = static_cast<size_t>(k);
              EXPECT_EQ(ends[at],
                        std::count_if(expected.begin(), expected.end(),
                                      [&](int64_t column) {
                                        return column / cut.bucket_rows <= k;
                                      }));
            }
          }
        }
      });
}

// Every channel of every key has one piece, at its own address.
TEST(GradRun, PiecesAreTheTensors) {
  ForRuns(200, [](const SmallCase& small, const GradRun& run,
                  const GradCut& cut) {
    const AttentionProblem& p = small.problem();
    const auto sequences = ResolveSequences(p, small.bindings());
    std::set<const std::byte*> found, expected;
    for (const GradWave& wave : run.Waves()) {
      for (const GradUnit& unit : wave.units) {
        const Sequence& extent = sequences[static_cast<size_t>(unit.sequence)];
        for (int64_t j = 0; j < extent.columns(); ++j) {
          for (int64_t slice = 0; slice < cut.slices(); ++slice) {
            run.ForPieces(
                unit, j, slice,
                [&](const RowFormat& format, int64_t first, int64_t count,
                    std::byte* to) {
                  EXPECT_LE(first + count, cut.slice_channels);
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
                              p[slot].At(unit.sequence, extent.keys.first + j,
                                         unit.kv_head, d) *
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
