// SPDX-License-Identifier: Apache-2.0
// Tiles point where specs say, and rows of nobody become 0 while nothing else
// is written.
#include "cpu/backward/backward_operands.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "plan/sequences.h"
#include "tests/testing/generator.h"
#include "tests/testing/small_case.h"

namespace flashacl::cpu {
namespace {

using testing::ForRandomProblems;
using testing::Space;

constexpr double kUnwritten = 77;  // what SmallCase fills results with

Space BackwardSpace() {
  Space space;
  space.forward = false;
  space.sources = false;
  space.most_dim = 12;
  return space;
}

TEST(BackwardOperands, TilesPointWhereSpecsSay) {
  ForRandomProblems(
      500, BackwardSpace(), [](const AttentionProblem& p, Random& random) {
        SmallCase small(p);
        small.FillInputs(random);
        TileShape shape;
        shape.rows = random.Within(1, 40);
        shape.split_rows = 0;
        const BackwardOperands run(p, small.bindings(), shape.cols);
        const Schedule schedule = run.forward().BuildSchedule(shape);
        std::vector<QueryRow> lanes(64);
        std::vector<GradRow> grad_rows(64);
        BackwardTile tile;
        tile.scores.scratch = {};
        tile.scores.scratch.query_rows = lanes.data();
        tile.scratch.grad_rows = grad_rows.data();
        for (int64_t n = 0; n < schedule.count(); ++n) {
          const Tile cut = schedule.At(n);
          run.FillTile(cut, tile);
          const Sequence& extent =
              run.sequences()[static_cast<size_t>(cut.sequence)];
          const auto at = [&](Slot slot, int64_t row, int64_t head) {
            const TensorSpec& spec = p[slot];
            return spec.present() ? small.bindings()[slot] +
                                        spec.At(cut.sequence, row, head) *
                                            SizeOf(spec.dtype)
                                  : nullptr;
          };
          EXPECT_EQ(tile.scores.rows, cut.rows.size());
          for (int64_t r = 0; r < cut.rows.size(); ++r) {
            const QueryRow& query_row = lanes[static_cast<size_t>(r)];
            const GradRow& grad = grad_rows[static_cast<size_t>(r)];
            const int64_t row = extent.queries.first + query_row.position;
            EXPECT_EQ((cut.rows.first + r) / p.group(), query_row.position);
            EXPECT_EQ(query_row.query, at(Slot::kQuery, row, query_row.head));
            EXPECT_EQ(query_row.out, at(Slot::kOut, row, query_row.head));
            EXPECT_EQ(grad.grad_out, at(Slot::kGradOut, row, query_row.head));
            EXPECT_EQ(grad.grad_query,
                      at(Slot::kGradQuery, row, query_row.head));
            EXPECT_EQ(grad.grad_query_rope,
                      at(Slot::kGradQueryRope, row, query_row.head));
          }
          for (int64_t j = 0; j < extent.columns(); ++j) {
            const int64_t row = extent.keys.first + j;
            for (const auto& [slot, rows] :
                 {std::pair{Slot::kGradKey, tile.grad_key},
                  std::pair{Slot::kGradKeyRope, tile.grad_key_rope},
                  std::pair{Slot::kGradValue, tile.grad_value}}) {
              if (!p.has(slot)) {
                EXPECT_EQ(rows.base, nullptr);
              } else {
                EXPECT_EQ(rows.base + j * rows.row_bytes,
                          at(slot, row, cut.kv_head));
              }
            }
          }
        }
      });
}

// By offset: elements that rows of sequences own.
std::set<int64_t> OwnedBy(const AttentionProblem& p,
                          const std::vector<Sequence>& sequences, Slot slot,
                          Range Sequence::*side) {
  std::set<int64_t> owned;
  const TensorSpec& spec = p[slot];
  for (size_t b = 0; b < sequences.size(); ++b) {
    const Range rows = sequences[b].*side;
    for (int64_t row = rows.first; row < rows.last; ++row) {
      for (int64_t head = 0; head < spec.dims[2]; ++head) {
        for (int64_t d = 0; d < spec.dims[3]; ++d) {
          owned.insert(spec.At(static_cast<int64_t>(b), row, head, d));
        }
      }
    }
  }
  return owned;
}

TEST(BackwardOperands, ClearsRowsOfNobodyAndNothingAround) {
  int64_t cleared = 0;
  ForRandomProblems(
      500, BackwardSpace(), [&](const AttentionProblem& p, Random& random) {
        SmallCase small(p);
        small.FillInputs(random);
        const BackwardOperands run(p, small.bindings(), 1);
        const bool unseen = random.OneIn(4);
        run.ClearUnownedRows(unseen);
        for (const auto& [slot, side] :
             {std::pair{Slot::kGradQuery, &Sequence::queries},
              std::pair{Slot::kGradQueryRope, &Sequence::queries},
              std::pair{Slot::kGradKey, &Sequence::keys},
              std::pair{Slot::kGradKeyRope, &Sequence::keys},
              std::pair{Slot::kGradValue, &Sequence::keys}}) {
          if (!p.has(slot)) continue;
          const TensorSpec& spec = p[slot];
          const std::set<int64_t> owned =
              OwnedBy(p, run.sequences(), slot, side);
          const bool keys = side == &Sequence::keys;
          std::set<int64_t> named;
          for (int64_t b = 0; b < spec.dims[0]; ++b) {
            for (int64_t row = 0; row < spec.dims[1]; ++row) {
              for (int64_t head = 0; head < spec.dims[2]; ++head) {
                for (int64_t d = 0; d < spec.dims[3]; ++d) {
                  named.insert(spec.At(b, row, head, d));
                }
              }
            }
          }
          for (int64_t n = 0; n < small.count(slot); ++n) {
            const double value = small.Get(slot, n);
            if (!named.contains(n)) {
              EXPECT_EQ(value, kUnwritten) << Name(slot);
            } else if (!owned.contains(n) || (keys && unseen)) {
              EXPECT_EQ(value, 0) << Name(slot);
              ++cleared;
            }
          }
        }
      });
  EXPECT_GT(cleared, 10000);
}

}  // namespace
}  // namespace flashacl::cpu
