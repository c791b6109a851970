// SPDX-License-Identifier: Apache-2.0
// Contents are valid and varied: what a comment of sample.h promises is there.
#include "verify/fill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <vector>

#include "base/number.h"
#include "plan/host_memory.h"
#include "plan/host_queue.h"
#include "plan/sequences.h"
#include "problem/notation.h"
#include "reference/reference.h"
#include "tests/testing/generator.h"
#include "tests/testing/shuffled_workers.h"
#include "verify/sample.h"

namespace flashacl {
namespace {

class FillTest : public ::testing::Test {
 protected:
  Result<Sample> Make(const AttentionProblem& problem, uint64_t seed = 1) {
    return Sample::Make(problem, seed, backend_);
  }
  Result<Sample> Make(const char* line, uint64_t seed = 1) {
    return Make(*Parse(line), seed);
  }

  static int64_t Integer(const Sample& sample, Slot slot, int64_t offset) {
    const DType dtype = sample.problem()[slot].dtype;
    return static_cast<int64_t>(
        ReadNumber(dtype, sample.bindings()[slot] + offset * SizeOf(dtype)));
  }

  // How many elements of a slot satisfy a condition, as a share of all.
  template <typename Condition>
  static double Share(const Sample& sample, Slot slot, Condition condition) {
    const DType dtype = sample.problem()[slot].dtype;
    const std::span<std::byte> bytes = sample.bytes(slot);
    const int64_t count = ElementsOf(sample.problem(), slot);
    int64_t good = 0;
    for (int64_t n = 0; n < count; ++n) {
      good += condition(ReadNumber(dtype, bytes.data() + n * SizeOf(dtype)));
    }
    return static_cast<double>(good) / static_cast<double>(count);
  }

  ShuffledWorkers workers_{1};
  HostQueue queue_{workers_};
  Backend backend_{"test", {}, {&kReference, 1}, &HostMemory::Get(), &queue_};
};

constexpr auto kNaN = [](double x) { return std::isnan(x); };

TEST_F(FillTest, RowsOfNoSequenceAreNaN) {
  AttentionProblem problem = *Parse("fwd f16 h=2 d=8 q=3 k=5");
  for (Slot slot : {Slot::kQuery, Slot::kKey, Slot::kValue, Slot::kOut}) {
    problem[slot] = DenseSpec(DType::kF16, {1, 10, 2, 8});
  }
  const Result<Sample> sample = Make(problem);
  EXPECT_EQ(Share(*sample, Slot::kQuery, kNaN), 0.7);
  EXPECT_EQ(Share(*sample, Slot::kKey, kNaN), 0.5);
  EXPECT_EQ(Share(*sample, Slot::kOut, kNaN), 1);
}

TEST_F(FillTest, PagesAreShuffledAndUsedOnce) {
  const Result<Sample> sample =
      Make("fwd f32 h=1 d=4 q=3x1 k=40,1,64 paged:8 counts:k");
  const std::vector<Sequence> sequences =
      ResolveSequences(sample->problem(), sample->bindings());
  std::vector<int64_t> pages;
  for (size_t b = 0; b < 3; ++b) {
    const int64_t needed = CeilDiv(sequences[b].columns(), 8);
    for (int64_t index = 0; index < 8; ++index) {
      const int64_t page = Integer(*sample, Slot::kBlockTable,
                                   static_cast<int64_t>(b) * 8 + index);
      if (index < needed) pages.push_back(page);
      ASSERT_EQ(page < 0, index >= needed);
      ASSERT_LT(page, 14);
    }
  }
  EXPECT_EQ(std::set(pages.begin(), pages.end()).size(), pages.size());
  EXPECT_FALSE(std::is_sorted(pages.begin(), pages.end()));
}

TEST_F(FillTest, TopKListsAreDistinctVisibleAndEnd) {
  testing::Space space;
  space.int8 = false;
  int64_t lists = 0;
  int64_t empty = 0;
  const auto check = [&](const AttentionProblem& problem, Random& random) {
    if (!problem.has(Slot::kTopK)) return;
    const Result<Sample> sample = Make(problem, random.Bits());
    const auto sequences = ResolveSequences(problem, sample->bindings());
    const TensorSpec& spec = problem[Slot::kTopK];
    for (size_t b = 0; b < sequences.size(); ++b) {
      const int64_t columns = sequences[b].columns();
      const auto number = static_cast<int64_t>(b);
      const Band band =
          problem.mask.BandOf(number, sequences[b].rows(), columns);
      for (int64_t i = 0; i < sequences[b].rows(); ++i) {
        std::set<int64_t> seen;
        bool ended = false;
        for (int64_t place = 0; place < spec.dims[3]; ++place) {
          const int64_t index = Integer(
              *sample, Slot::kTopK,
              spec.At(number, sequences[b].queries.first + i, 0, place));
          ended = ended || index < 0;
          ASSERT_EQ(ended, index < 0);
          if (ended) continue;
          ASSERT_TRUE(seen.insert(index).second);
          bool visible = false;
          const int64_t first = index * problem.kv.gather_rows;
          for (int64_t j = first; j < first + problem.kv.gather_rows; ++j) {
            visible = visible || (j < columns && band.Sees(i, j));
          }
          ASSERT_TRUE(visible) << "row " << i << " index " << index;
        }
        ++lists;
        empty += seen.empty();
      }
    }
  };
  testing::ForRandomProblems(500, space, check);
  // An index of the prefix that the band sees, too.
  Random random(1);
  check(*Parse("fwd f32 h=1 d=4 q=40 k=40 window:2:2:6 topk:10:4"), random);
  EXPECT_TRUE(testing::SeenOften(lists, 500));
  EXPECT_TRUE(testing::SeenOften(empty, lists / 40));
  EXPECT_TRUE(testing::SeenOften(lists / 2, empty));
}

TEST_F(FillTest, MasksHideAQuarterAndSomeRowsWhole) {
  const Result<Sample> sample = Make("fwd f32 h=2 d=4 q=200 k=100 mask");
  const double hidden =
      Share(*sample, Slot::kMask, [](double x) { return x != 0; });
  EXPECT_GT(hidden, 0.18);
  EXPECT_LT(hidden, 0.32);
  int64_t whole = 0;
  const std::span<std::byte> mask = sample->bytes(Slot::kMask);
  for (size_t row = 0; row < 200; ++row) {
    const auto cells = mask.subspan(row * 100, 100);
    whole += std::count(cells.begin(), cells.end(), std::byte{1}) == 100;
  }
  EXPECT_GT(whole, 3);
  EXPECT_LT(whole, 40);
}

TEST_F(FillTest, KeepBitsHaveTheirProbability) {
  const Result<Sample> sample = Make("fwd f32 h=2 d=4 q=100 k=100 keep:0.8");
  int64_t kept = 0;
  for (std::byte byte : sample->bytes(Slot::kKeep)) {
    kept += std::popcount(static_cast<unsigned>(byte));
  }
  EXPECT_EQ(sample->bytes(Slot::kKeep).size(), 2500u);
  EXPECT_NEAR(static_cast<double>(kept) / 20000, 0.8, 0.02);
  const Result<Sample> all = Make("fwd f32 h=1 d=4 q=8 k=8 keep:1");
  for (std::byte byte : all->bytes(Slot::kKeep)) {
    EXPECT_EQ(byte, std::byte{0xFF});
  }
}

TEST_F(FillTest, ScalesArePowersOfTwo) {
  const Result<Sample> sample =
      Make("fwd f16 h=2 d=64 q=8 k=8 int8:channel+offset");
  for (Slot slot : {Slot::kKeyScale, Slot::kValueScale}) {
    EXPECT_EQ(Share(*sample, slot,
                    [](double x) {
                      int exponent;
                      return x > 0 && std::frexp(x, &exponent) == 0.5;
                    }),
              1);
  }
  EXPECT_EQ(Share(*sample, Slot::kKeyOffset,
                  [](double x) { return x == std::floor(x); }),
            1);
}

TEST_F(FillTest, BackwardTakesResultsOfItsForward) {
  const Result<Sample> sample =
      Make("bwd bf16 h=4/2 d=8 q=3,4 k=5,6 causal sink");
  for (Slot slot : {Slot::kOut, Slot::kRowMax, Slot::kRowSum}) {
    EXPECT_EQ(Share(*sample, slot, kNaN), 0) << Name(slot);
  }
  EXPECT_EQ(Share(*sample, Slot::kGradQuery, kNaN), 1);
  EXPECT_GT(Share(*sample, Slot::kRowSum, [](double x) { return x > 1; }), 0.5);
}

TEST(BytesOf, CountsBitsAndGaps) {
  AttentionProblem problem =
      *Parse("fwd f16 h=2 d=8 q=3,4 k=5,6 bias keep:0.5 sink");
  EXPECT_EQ(BytesOf(problem, Slot::kQuery), 7 * 2 * 8 * 2);
  EXPECT_EQ(ElementsOf(problem, Slot::kKeep), 2 * (3 * 5 + 4 * 6));
  EXPECT_EQ(BytesOf(problem, Slot::kKeep), 10);
  EXPECT_EQ(BytesOf(problem, Slot::kBias), 2 * 39 * 2);
  EXPECT_EQ(BytesOf(problem, Slot::kSink), 8);
  EXPECT_EQ(BytesOf(problem, Slot::kMask), 0);
  problem[Slot::kQuery].strides = {0, 1, 100, 10};
  EXPECT_EQ(ElementsOf(problem, Slot::kQuery), 6 + 100 + 70 + 1);
  problem[Slot::kSink].dims = {2, 0, 0, 0};  // unused dimensions do not count
  EXPECT_EQ(ElementsOf(problem, Slot::kSink), 2);
}

}  // namespace
}  // namespace flashacl
