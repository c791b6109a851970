// SPDX-License-Identifier: Apache-2.0
// Shapes of what softmax leaves say where the number of each row and head is.
#include "verify/check/row_result_layout.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/random.h"
#include "base/str.h"
#include "problem/grid.h"
#include "problem/notation.h"

namespace flashacl {
namespace {

// Sequences of random lengths; dense ones have rows to spare.
struct Sizes {
  explicit Sizes(Random& random)
      : count(random.Within(2, 4)), heads(random.Within(2, 5)) {
    for (int64_t n = 0; n < count; ++n) {
      rows.push_back(random.Within(2, 9));
      firsts.push_back(total);
      total += rows.back();
      longest = std::max(longest, rows.back());
    }
    longest += random.Within(0, 3);
  }

  AttentionProblem Problem(bool packed) const {
    const Result<AttentionProblem> parsed =
        Parse(Str("fwd f32 h={} d=4 q={} k={} stats lse", heads,
                  Join(rows, ","), Join(rows, ",")));
    EXPECT_TRUE(parsed.ok()) << parsed.status().message();
    AttentionProblem problem = *parsed;
    for (Sequence& one : problem.lengths.sequences) {
      if (!packed) one.queries = {0, one.queries.size()};
    }
    return problem;
  }

  int64_t count, heads;
  int64_t total = 0;
  int64_t longest = 0;
  std::vector<int64_t> rows, firsts;
};

UserTensor Shaped(std::vector<int64_t> dims) {
  return {"max", DType::kF32, 4, std::move(dims), nullptr};
}

struct Case {
  const char* layout;
  RowOrder order;
  std::vector<int64_t> dims;
  int64_t copies;
  // Of sequence b, head h and row i, in numbers of a row.
  std::function<int64_t(int64_t b, int64_t h, int64_t i)> place;
};

std::vector<Case> CasesOf(const Sizes& s) {
  const auto rows = [&s](int64_t b, int64_t h, int64_t i) {
    return (s.firsts[static_cast<size_t>(b)] + i) * s.heads + h;
  };
  const auto heads = [&s](int64_t b, int64_t h, int64_t i) {
    return h * s.total + s.firsts[static_cast<size_t>(b)] + i;
  };
  const auto dense = [&s](int64_t b, int64_t h, int64_t i) {
    return (b * s.heads + h) * s.longest + i;
  };
  const auto listed = [&s](int64_t b, int64_t h, int64_t i) {
    return (b * s.longest + i) * s.heads + h;
  };
  const auto blocks = [&s](int64_t b, int64_t h, int64_t i) {
    const auto at = static_cast<size_t>(b);
    return s.firsts[at] * s.heads + h * s.rows[at] + i;
  };
  constexpr RowOrder kUnsaid = RowOrder::kUnsaid;
  return {{"TND", RowOrder::kRows, {s.total, s.heads, 8}, 8, rows},
          {"NTD", RowOrder::kBlocks, {s.total, s.heads, 8}, 8, blocks},
          {"TH", RowOrder::kBlocks, {s.total, s.heads, 1}, 1, blocks},
          {"TH", kUnsaid, {s.total, s.heads, 1}, 1, rows},
          {"TND", kUnsaid, {s.total, s.heads}, 1, rows},
          {"TND", kUnsaid, {1, s.total, s.heads}, 1, rows},
          {"TND", RowOrder::kRows, {s.heads, s.total, 8}, 8, heads},
          {"TND", kUnsaid, {s.heads, s.total}, 1, heads},
          {"BSND", kUnsaid, {s.count, s.heads, s.longest, 8}, 8, dense},
          {"SBH", kUnsaid, {s.count, s.heads, s.longest, 1}, 1, dense},
          {"BNSD", kUnsaid, {s.count, s.heads, s.longest}, 1, dense},
          {"BSND", kUnsaid, {s.count, 1, s.longest, s.heads}, 1, listed}};
}

TEST(RowResultLayout, FindsEveryNumber) {
  constexpr uint64_t kTries = 50;
  for (uint64_t seed = 1; seed <= kTries; ++seed) {
    Random random(seed);
    const Sizes sizes(random);
    for (const Case& one : CasesOf(sizes)) {
      SCOPED_TRACE(Str("{}: {} ({}), {} heads, rows {}", seed, one.layout,
                       Join(one.dims, ", "), sizes.heads,
                       Join(sizes.rows, ",")));
      // With as many heads as rows the first form is meant.
      const bool packed = one.layout[0] == 'T' || one.layout[0] == 'N';
      if (packed && sizes.total == sizes.heads) continue;
      const AttentionProblem problem = sizes.Problem(packed);
      const Result<TensorSpec> spec = RowResultSpec(
          problem, Slot::kRowMax, Shaped(one.dims), {one.layout, one.order});
      ASSERT_TRUE(spec.ok()) << spec.status().message();
      EXPECT_EQ(spec->dims[3], one.copies);
      const Grid grid(*spec, problem.lengths.sequences);
      for (int64_t b = 0; b < sizes.count; ++b) {
        for (int64_t h = 0; h < sizes.heads; ++h) {
          for (int64_t i = 0; i < sizes.rows[static_cast<size_t>(b)]; ++i) {
            ASSERT_EQ(grid.Plane(b, h).At(i, 0),
                      one.place(b, h, i) * one.copies)
                << "sequence " << b << " head " << h << " row " << i;
          }
        }
      }
    }
  }
}

std::string Refusal(const AttentionProblem& problem, Slot slot,
                    std::vector<int64_t> dims, RowResultLayout layout) {
  const Result<TensorSpec> spec =
      RowResultSpec(problem, slot, Shaped(std::move(dims)), layout);
  return spec.ok() ? "" : spec.status().message();
}

TEST(RowResultLayout, SaysWhichShapesThereAre) {
  const AttentionProblem problem =
      *Parse("fwd f32 h=4 d=4 q=10,20 k=10,20 stats lse");
  EXPECT_EQ(Refusal(problem, Slot::kRowMax, {30, 4, 7}, {"TND"}),
            "max: (30, 4, 7) is none of (T, N, 8), (T, N, 1), (T, N), "
            "(N, T, 8), (N, T, 1), (N, T), (1, T, N) with B=2 S=20 T=30 N=4");
  EXPECT_EQ(Refusal(problem, Slot::kLse, {2, 4, 20, 8}, {"BSND"}),
            "max: (2, 4, 20, 8) is none of (B, N, S, 1), (B, N, S), "
            "(B, 1, S, N) with B=2 S=20 T=30 N=4");
  EXPECT_EQ(Refusal(problem, Slot::kRowMax, {30, 5, 8}, {"TND"}).substr(0, 16),
            "max: (30, 5, 8) ");
}

// Two orders of memory have the same shape; where they differ one must be said.
TEST(RowResultLayout, AsksForTheOrderWhereItCounts) {
  const auto refusal = [](const char* line) {
    const AttentionProblem problem = *Parse(line);
    const int64_t total = problem.lengths.all_rows();
    return Refusal(problem, Slot::kRowSum, {total, problem.heads, 8}, {"TND"});
  };
  EXPECT_EQ(refusal("fwd f32 h=4 d=4 q=10,20 k=10,20 stats"),
            "max: (30, 4, 8) is in the order of its axes, layout=TND:rows, or "
            "has a block (N, S, 8) for each sequence, layout=TND:blocks, which "
            "is what packed training stores unless its softmaxOutLayout says "
            "otherwise: say which");
  EXPECT_NE(refusal("fwd f32 h=4 d=4 q=30 k=30 stats"), "");
  // Of one sequence the axis of sequences may be there or not.
  const AttentionProblem one = *Parse("fwd f32 h=4 d=4 q=30 k=30 stats lse");
  for (const char* layout : {"BSND", "TND"}) {
    for (const std::vector<int64_t>& dims :
         {std::vector<int64_t>{1, 4, 30, 1}, {30, 4, 1}, {30, 4}}) {
      EXPECT_EQ(Refusal(one, Slot::kLse, dims, {layout}), "");
    }
  }
  EXPECT_EQ(refusal("fwd f32 h=1 d=4 q=10,20 k=10,20 stats"), "");
  EXPECT_EQ(refusal("fwd f32 h=4 d=4 q=1,1 k=10,20 stats"), "");
}

}  // namespace
}  // namespace flashacl
