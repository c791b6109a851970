// SPDX-License-Identifier: Apache-2.0
// Tiles point where specs and grids say, and rows of nobody become 0 while
// nothing else is written.
#include "cpu/forward/forward_operands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include "plan/sequences.h"
#include "tests/testing/generator.h"
#include "tests/testing/random.h"
#include "tests/testing/small_case.h"
#include "verify/fill.h"

namespace flashacl::cpu {
namespace {

using testing::ForRandomProblems;
using testing::Space;

constexpr double kUnwritten = 77;  // what SmallCase fills results with

Space ForwardSpace() {
  Space space;
  space.backward = false;
  space.most_dim = 12;
  return space;
}

TileShape SmallTiles(Random& random) {
  TileShape shape;
  shape.rows = random.Within(1, 40);
  shape.cols = random.Within(1, 40);
  shape.split_keys = random.Within(1, 40);
  return shape;
}

// Scratch memory for what scalar code fills.
struct RunScratch {
  std::vector<QueryRow> query_rows;
  std::vector<float> quant;
  ScoreScratch score{};
  ForwardScratch forward{};

  explicit RunScratch(const AttentionProblem& problem)
      : query_rows(64),
        quant(static_cast<size_t>(2 * problem.qk_dim + 2 * problem.v_dim)) {
    score.query_rows = query_rows.data();
    forward.quant = quant.data();
  }
};

// A tile of a case, row by row against the definition.
struct Checked {
  const SmallCase& small;
  const std::vector<Sequence>& sequences;
  const Tile& cut;
  const ForwardTile& tile;

  const AttentionProblem& problem() const { return small.problem(); }
  const Sequence& extent() const {
    return sequences[static_cast<size_t>(cut.sequence)];
  }

  const std::byte* RowAt(Slot slot, int64_t i, int64_t head) const {
    const TensorSpec& spec = problem()[slot];
    const int64_t row = extent().queries.first + i;
    return small.bindings()[slot] +
           spec.At(cut.sequence, row, head) * SizeOf(spec.dtype);
  }

  GridPlane PlaneOf(Slot slot, int64_t head) const {
    return Grid(problem()[slot], sequences).Plane(cut.sequence, head);
  }

  // Whether an element exists: bias along diagonals need not, where a rule
  // hides it.
  bool Exists(Slot slot, int64_t i, int64_t j) const {
    return problem()[slot].placement != Placement::kDiagonal ||
           tile.band.Sees(i, j);
  }

  struct Cells {
    Slot slot;
    const void* row;
    int64_t step_bytes;
    int64_t columns;
  };
  void ExpectCells(const Cells& cells, int64_t i, int64_t head) const {
    if (!problem().has(cells.slot)) {
      EXPECT_EQ(cells.row, nullptr);
      return;
    }
    const GridPlane plane = PlaneOf(cells.slot, head);
    const int64_t size = SizeOf(problem()[cells.slot].dtype);
    for (int64_t j = 0; j < cells.columns; ++j) {
      if (!Exists(cells.slot, i, j)) continue;
      EXPECT_EQ(static_cast<const std::byte*>(cells.row) + j * cells.step_bytes,
                small.bindings()[cells.slot] + plane.At(i, j) * size)
          << Name(cells.slot) << " " << i << ", " << j;
    }
  }

  void ExpectQueryRow(const QueryRow& query_row, int64_t i,
                      int64_t head) const {
    const ScoreParams& params = *tile.params;
    const ForwardParams& forward = *tile.forward_params;
    EXPECT_EQ(query_row.position, i);
    EXPECT_EQ(query_row.head, head);
    EXPECT_EQ(query_row.query, RowAt(Slot::kQuery, i, head));
    if (problem().rope_dim > 0) {
      EXPECT_EQ(query_row.query_rope, RowAt(Slot::kQueryRope, i, head));
    }
    EXPECT_EQ(query_row.out, RowAt(Slot::kOut, i, head));
    const int64_t columns = extent().columns();
    ExpectCells({Slot::kMask, query_row.mask, params.mask_step, columns}, i,
                head);
    if (params.alibi) {
      EXPECT_EQ(query_row.bias, nullptr);
      const int64_t at = problem()[Slot::kBias].At(cut.sequence, head);
      EXPECT_EQ(double{query_row.slope}, small.Get(Slot::kBias, at));
    } else {
      const int64_t step = params.bias.step * params.bias.element_bytes;
      ExpectCells({Slot::kBias, query_row.bias, step, columns}, i, head);
    }
    ExpectCells({Slot::kRowMax, query_row.max, forward.result_step * 4,
                 forward.result_copies},
                i, head);
    ExpectCells({Slot::kRowSum, query_row.sum, forward.result_step * 4,
                 forward.result_copies},
                i, head);
    if (params.dropped) {
      const GridPlane plane = PlaneOf(Slot::kKeep, head);
      for (int64_t j = 0; j < columns; ++j) {
        EXPECT_EQ(query_row.keep + j * params.keep_step, plane.At(i, j));
      }
    }
    double sink = -std::numeric_limits<double>::infinity();
    if (problem().has(Slot::kSink) && cut.split == 0) {
      sink = small.Get(Slot::kSink, problem()[Slot::kSink].At(head));
    }
    EXPECT_EQ(double{query_row.sink}, sink);
  }

  void ExpectFactors(Slot slot, const float* found) const {
    if (!problem().has(slot)) {
      EXPECT_EQ(found, nullptr);
      return;
    }
    const bool key = slot == Slot::kKeyScale || slot == Slot::kKeyOffset;
    for (int64_t d = 0; d < (key ? problem().qk_dim : problem().v_dim); ++d) {
      EXPECT_EQ(double{found[d]},
                small.Get(slot, problem()[slot].At(cut.kv_head, d)))
          << Name(slot) << " " << d;
    }
  }

  void ExpectRight() const {
    const int64_t group = problem().group();
    ASSERT_EQ(tile.rows, cut.rows.size());
    for (int64_t n = 0; n < tile.rows; ++n) {
      const int64_t packed = cut.rows.first + n;
      ExpectQueryRow(tile.scratch.query_rows[n], packed / group,
                     cut.kv_head * group + packed % group);
    }
    EXPECT_EQ(tile.cols, cut.cols);
    EXPECT_EQ(tile.columns, extent().columns());
    EXPECT_EQ(tile.band, problem().mask.BandOf(cut.sequence, extent().rows(),
                                               extent().columns()));
    const Score& score = problem().score;
    const bool shifted = !score.starts_only_first || cut.sequence == 0;
    EXPECT_EQ(tile.alibi_start,
              shifted ? score.key_start - score.query_start : 0);
    ExpectFactors(Slot::kKeyScale, tile.keys.key.quant.scale);
    ExpectFactors(Slot::kKeyOffset, tile.keys.key.quant.offset);
    ExpectFactors(Slot::kValueScale, tile.keys.value.quant.scale);
    ExpectFactors(Slot::kValueOffset, tile.keys.value.quant.offset);
    EXPECT_EQ(tile.quant != nullptr, problem()[Slot::kOut].dtype == DType::kI8);
    EXPECT_EQ(tile.split_out, nullptr);
  }
};

TEST(ForwardOperands, TilesPointWhereSpecsSay) {
  ForRandomProblems(
      1500, ForwardSpace(), [](const AttentionProblem& p, Random& random) {
        if (p.kv.gathers()) return;
        SmallCase small(p);
        small.FillInputs(random);
        const TileShape shape = SmallTiles(random);
        const ForwardOperands run(p, small.bindings(), shape.cols);
        EXPECT_EQ(run.sequences(), ResolveSequences(p, small.bindings()));
        const Schedule schedule = run.BuildSchedule(shape);
        RunScratch room(p);
        for (int64_t n = 0; n < schedule.count(); ++n) {
          const Tile cut = schedule.At(n);
          const ForwardTile tile = run.TileOf(cut, room.score, room.forward);
          Checked{small, run.sequences(), cut, tile}.ExpectRight();
        }
      });
}

// The factors of an 8-bit output, as the kernel finds them.
TEST(ForwardOperands, OutputFactorsAreTheHeads) {
  Space space = ForwardSpace();
  int64_t encoded = 0;
  ForRandomProblems(
      1500, space, [&](const AttentionProblem& p, Random& random) {
        if (p.kv.gathers()) return;
        if (p[Slot::kOut].dtype != DType::kI8) return;
        SmallCase small(p);
        small.FillInputs(random);
        const ForwardOperands run(p, small.bindings(), 1);
        const Schedule schedule = run.BuildSchedule({});
        if (schedule.count() == 0) return;
        RunScratch room(p);
        const ForwardTile tile =
            run.TileOf(schedule.At(0), room.score, room.forward);
        ASSERT_NE(tile.quant, nullptr);
        const OutQuantParams& quant = *tile.quant;
        const auto check = [&](Slot slot, const std::byte* base,
                               const ElementFormat& format,
                               int64_t head_bytes) {
          if (!p.has(slot)) {
            EXPECT_EQ(base, nullptr);
            return;
          }
          for (int64_t head = 0; head < p.heads; ++head) {
            for (int64_t d = 0; d < p.v_dim; ++d) {
              const int64_t at = p[slot].At(head, d);
              EXPECT_EQ(base + head * head_bytes +
                            d * format.step * format.element_bytes,
                        small.bindings()[slot] + at * SizeOf(p[slot].dtype));
            }
          }
        };
        check(Slot::kOutScale, quant.scale, quant.scale_format,
              quant.scale_head_bytes);
        check(Slot::kOutOffset, quant.offset, quant.offset_format,
              quant.offset_head_bytes);
        ++encoded;
      });
  EXPECT_GT(encoded, testing::PartOf(50));
}

// Elements of a result: 0 are those of nobody, 1 those of a sequence's row.
class Owners {
 public:
  Owners(const SmallCase& small, const std::vector<Sequence>& sequences,
         Slot slot)
      : spec_(small.problem()[slot]),
        elements_(static_cast<size_t>(small.count(slot)), kNoElement) {
    if (spec_.placement == Placement::kBlocks) {
      MarkBlocks(small.problem(), sequences, slot);
    } else {
      MarkStrided(sequences, slot);
    }
  }

  enum Owner : uint8_t { kNoElement, kNobody, kSequence };
  Owner of(int64_t n) const { return elements_[static_cast<size_t>(n)]; }

 private:
  void MarkBlocks(const AttentionProblem& problem,
                  const std::vector<Sequence>& sequences, Slot slot) {
    const int64_t step = spec_.block_step();
    const int64_t end = RowBlockElements(problem, slot);
    for (int64_t n = 0; n < end; n += step) {
      elements_[static_cast<size_t>(n)] = kNobody;
    }
    const int64_t owned = Grid(spec_, sequences).ElementsNeeded();
    for (int64_t n = 0; n < owned; n += step) {
      elements_[static_cast<size_t>(n)] = kSequence;
    }
  }

  // [sequence, row, head, channel], or [sequence, head, row, lane].
  void MarkStrided(const std::vector<Sequence>& sequences, Slot slot) {
    const bool rows_second = slot == Slot::kOut;
    const auto& dims = spec_.dims;
    for (int64_t a = 0; a < dims[0]; ++a) {
      for (int64_t b = 0; b < dims[1]; ++b) {
        for (int64_t c = 0; c < dims[2]; ++c) {
          const bool owned = Owns(sequences, a, rows_second ? b : c);
          for (int64_t d = 0; d < dims[3]; ++d) {
            Owner& at = elements_[static_cast<size_t>(spec_.At(a, b, c, d))];
            at = owned ? kSequence : std::max(at, kNobody);
          }
        }
      }
    }
  }

  // Whether tensor row `row` of plane `a` is of a sequence.
  bool Owns(const std::vector<Sequence>& sequences, int64_t a,
            int64_t row) const {
    const auto inside = [row](const Sequence& sequence) {
      return sequence.queries.first <= row && row < sequence.queries.last;
    };
    if (spec_.strides[0] == 0) return std::ranges::any_of(sequences, inside);
    return a < static_cast<int64_t>(sequences.size()) &&
           inside(sequences[static_cast<size_t>(a)]);
  }

  TensorSpec spec_;
  std::vector<Owner> elements_;
};

TEST(ForwardOperands, RowsOfNobodyBecomeZeroAndNothingElseIsWritten) {
  int64_t cleared = 0, kept = 0;
  ForRandomProblems(
      3000, ForwardSpace(), [&](const AttentionProblem& p, Random& random) {
        if (p.kv.gathers()) return;
        SmallCase small(p);
        small.FillInputs(random);
        const ForwardOperands run(p, small.bindings(), 1);
        const std::vector<std::byte> query = small.bytes(Slot::kQuery);
        run.ClearUnownedRows();
        EXPECT_EQ(small.bytes(Slot::kQuery), query);
        for (const Slot slot : {Slot::kOut, Slot::kRowMax, Slot::kRowSum}) {
          if (!p.has(slot)) continue;
          const Owners owners(small, run.sequences(), slot);
          for (int64_t n = 0; n < small.count(slot); ++n) {
            // Rows of sequences are about to be written; all else stays.
            const double found = small.Get(slot, n);
            if (owners.of(n) == Owners::kNobody) {
              EXPECT_EQ(found, 0) << Name(slot) << " " << n;
              ++cleared;
            } else if (owners.of(n) == Owners::kNoElement) {
              EXPECT_EQ(found, kUnwritten) << Name(slot) << " " << n;
              ++kept;
            }
          }
        }
      });
  EXPECT_GT(cleared, testing::PartOf(1000));
  EXPECT_GT(kept, testing::PartOf(1000));
}

// What every row's owner writes needs no clearing first: it would cost a pass
// over the output.
TEST(ForwardOperands, NothingIsClearedWhereEveryRowHasAnOwner) {
  Space space = ForwardSpace();
  space.device_lengths = space.strides = false;
  ForRandomProblems(300, space, [](const AttentionProblem& p, Random& random) {
    if (p.kv.gathers()) return;
    SmallCase small(p);
    small.FillInputs(random);
    ForwardOperands(p, small.bindings(), 1).ClearUnownedRows();
    for (const double found : small.Get(Slot::kOut)) {
      EXPECT_EQ(found, kUnwritten);
    }
  });
}

}  // namespace
}  // namespace flashacl::cpu
