// SPDX-License-Identifier: Apache-2.0
// Lengths from the stream narrow sequences, and wrong ones cannot leave them.
#include "plan/sequences.h"

#include <gtest/gtest.h>

#include <deque>
#include <utility>
#include <vector>

#include "base/random.h"
#include "problem/notation.h"

namespace flashacl {
namespace {

// Resolves a line whose length tensors hold these numbers.
class Geometry {
 public:
  explicit Geometry(const char* line) : problem_(*Parse(line)) {}

  Geometry& With(Slot slot, std::vector<int64_t> values) {
    memory_.push_back(std::move(values));
    bindings_[slot] = reinterpret_cast<std::byte*>(memory_.back().data());
    return *this;
  }

  std::vector<Sequence> Resolve() const {
    return ResolveSequences(problem_, bindings_);
  }

  AttentionProblem& problem() { return problem_; }

 private:
  AttentionProblem problem_;
  std::deque<std::vector<int64_t>> memory_;
  Bindings bindings_;
};

TEST(ResolveSequences, KnownLengthsStay) {
  Geometry geometry("fwd f32 h=1 d=1 q=3,4 k=5,6");
  EXPECT_EQ(geometry.Resolve(), geometry.problem().lengths.sequences);
}

TEST(ResolveSequences, CountsStartWhereTheSequenceDoes) {
  Geometry geometry("fwd f32 h=1 d=1 q=3,4,5 k=5,6,7 counts:qk");
  geometry.With(Slot::kQueryLengths, {2, 4, 0});
  geometry.With(Slot::kKeyLengths, {-1, 6, 8});
  const std::vector<Sequence> expected = {
      {{0, 2}, {0, 0}}, {{3, 7}, {5, 11}}, {{7, 7}, {11, 18}}};
  EXPECT_EQ(geometry.Resolve(), expected);
}

TEST(ResolveSequences, OneSideMayBeKnown) {
  Geometry geometry("fwd f32 h=1 d=1 q=3,4 k=5,6 counts:k");
  geometry.With(Slot::kKeyLengths, {1, 2});
  const std::vector<Sequence> expected = {{{0, 3}, {0, 1}}, {{3, 7}, {5, 7}}};
  EXPECT_EQ(geometry.Resolve(), expected);
}

TEST(ResolveSequences, EndsFollowOneAnother) {
  Geometry geometry("fwd f32 h=1 d=1 q=4x9 k=4x20 ends:qk");
  geometry.With(Slot::kQueryLengths, {2, 2, 1, 12});
  geometry.With(Slot::kKeyLengths, {0, 7, 20, 20});
  const std::vector<Sequence> expected = {{{0, 2}, {0, 0}},
                                          {{2, 2}, {0, 7}},
                                          {{2, 2}, {7, 20}},
                                          {{2, 9}, {20, 20}}};
  EXPECT_EQ(geometry.Resolve(), expected);
}

// Packed queries over pages, which have no common row axis to end on.
TEST(ResolveSequences, EachSideInItsWay) {
  Geometry geometry("fwd f32 h=1 d=1 q=2x9 k=20,30 paged:8 counts:k ends:q");
  geometry.With(Slot::kQueryLengths, {4, 9});
  geometry.With(Slot::kKeyLengths, {7, 20});
  const std::vector<Sequence> expected = {{{0, 4}, {0, 7}}, {{4, 9}, {0, 20}}};
  EXPECT_EQ(geometry.Resolve(), expected);
}

TEST(ResolveSequences, PaddingMovesKeysToTheEnd) {
  Geometry geometry("fwd f32 h=1 d=1 q=1,1,1 k=10,10,10 counts:k padding");
  geometry.With(Slot::kKeyLengths, {3, 8, 10});
  geometry.With(Slot::kKeyPadding, {2});
  const std::vector<Sequence> expected = {
      {{0, 1}, {5, 8}}, {{1, 2}, {0, 8}}, {{2, 3}, {0, 0}}};
  EXPECT_EQ(geometry.Resolve(), expected);
}

TEST(ResolveSequences, PaddingMovesQueriesToTheEnd) {
  Geometry geometry("fwd f32 h=1 d=1 q=2,4,3 k=5,5,5 padding:q");
  geometry.With(Slot::kQueryPadding, {1});
  const std::vector<Sequence> expected = {
      {{1, 3}, {0, 5}}, {{0, 0}, {5, 10}}, {{0, 3}, {10, 15}}};
  EXPECT_EQ(geometry.Resolve(), expected);
  geometry.With(Slot::kQueryPadding, {-7});
  EXPECT_EQ(geometry.Resolve()[0].queries, (Range{2, 4}));
}

TEST(ResolveSequences, ReadsBothIntegers) {
  Geometry geometry("fwd f32 h=1 d=1 q=3,4 k=5,6 counts:q");
  geometry.problem()[Slot::kQueryLengths].dtype = DType::kI32;
  geometry.With(Slot::kQueryLengths, {int64_t{2} | int64_t{1} << 32});
  EXPECT_EQ(geometry.Resolve()[0].queries, (Range{0, 2}));
  EXPECT_EQ(geometry.Resolve()[1].queries, (Range{3, 4}));
}

TEST(SequencesAreKnown, UnlessTheDeviceSaysLengthsOrPadding) {
  EXPECT_TRUE(SequencesAreKnown(*Parse("fwd f32 h=1 d=1 q=3,4 k=5,6")));
  for (const char* line : {"fwd f32 h=1 d=1 q=3,4 k=5,6 counts:q",
                           "fwd f32 h=1 d=1 q=3,4 k=5,6 counts:k",
                           "fwd f32 h=1 d=1 q=3,4 k=5,5 padding",
                           "fwd f32 h=1 d=1 q=3,4 k=5,6 padding:q"}) {
    EXPECT_FALSE(SequencesAreKnown(*Parse(line))) << line;
  }
}

// Whatever a tensor holds, rows stay where the plan allows them.
TEST(ResolveSequences, NeverLeavesTheTensor) {
  Random random(9);
  const auto any = [&random] {
    return random.OneIn(3) ? static_cast<int64_t>(random.Bits())
                           : random.Within(-5, 40);
  };
  for (const char* line :
       {"fwd f32 h=1 d=1 q=3x9 k=3x20 ends:qk",
        "fwd f32 h=1 d=1 q=3,4,5 k=5,6,7 counts:qk padding",
        "fwd f32 h=1 d=1 q=3,4,5 k=5,6,7 paged:4 counts:k ends:q"}) {
    SCOPED_TRACE(line);
    for (int round = 0; round < 2000; ++round) {
      Geometry geometry(line);
      geometry.With(Slot::kQueryLengths, {any(), any(), any()});
      geometry.With(Slot::kKeyLengths, {any(), any(), any()});
      if (geometry.problem().has(Slot::kKeyPadding)) {
        geometry.With(Slot::kKeyPadding, {any()});
      }
      const std::vector<Sequence> most = geometry.problem().lengths.sequences;
      const std::vector<Sequence> now = geometry.Resolve();
      const bool padded = geometry.problem().has(Slot::kKeyPadding);
      for (size_t b = 0; b < now.size(); ++b) {
        const Sequence& one = now[b];
        ASSERT_LE(most[b].queries.first, one.queries.first);
        ASSERT_LE(one.queries.first, one.queries.last);
        ASSERT_LE(one.queries.last, most[b].queries.last);
        ASSERT_LE(0, one.keys.first);
        ASSERT_LE(one.keys.first, one.keys.last);
        ASSERT_LE(one.keys.last, padded ? 7 : most[b].keys.last);
        ASSERT_LE(one.columns(), most[b].columns());
      }
    }
  }
}

}  // namespace
}  // namespace flashacl
