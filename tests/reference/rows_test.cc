// SPDX-License-Identifier: Apache-2.0
// Elements of every type, rows by strides, and keys from every source.
#include "reference/rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "problem/problem_spec.h"
#include "tests/testing/shuffled_workers.h"
#include "tests/testing/small_case.h"

namespace flashacl {
namespace {

using reference::KeyValues;
using reference::Operands;
using reference::Tensor;

double StoredAndLoaded(DType dtype, double value) {
  std::byte memory[8];
  const Tensor tensor{DenseSpec(dtype, {1, 1, 1, 1}), memory};
  tensor.Store(0, value);
  return tensor.Load(0);
}

TEST(Tensor, RoundsOnceToNearestEven) {
  constexpr double kTie = 1 + 0x1p-11;       // halfway between two f16
  constexpr double kAbove = kTie + 0x1p-40;  // f32 would make it the tie
  EXPECT_EQ(StoredAndLoaded(DType::kF16, kTie), 1);
  EXPECT_EQ(StoredAndLoaded(DType::kF16, kAbove), 1 + 0x1p-10);
  EXPECT_EQ(StoredAndLoaded(DType::kBf16, 1 + 0x1p-8), 1);
  EXPECT_EQ(StoredAndLoaded(DType::kBf16, 1 + 0x1p-8 + 0x1p-40), 1 + 0x1p-7);
  EXPECT_EQ(StoredAndLoaded(DType::kF32, 1 + 0x1p-24), 1);
  EXPECT_EQ(StoredAndLoaded(DType::kF32, 1 + 0x1p-24 + 0x1p-50), 1 + 0x1p-23);
  EXPECT_EQ(StoredAndLoaded(DType::kF64, 1 + 0x1p-50), 1 + 0x1p-50);
  EXPECT_EQ(StoredAndLoaded(DType::kI8, -128), -128);
}

TEST(Tensor, KeepsSmallLargeAndSpecialValues) {
  EXPECT_EQ(StoredAndLoaded(DType::kF16, 0x1p-24), 0x1p-24);
  EXPECT_EQ(StoredAndLoaded(DType::kBf16, 0x1p-133), 0x1p-133);
  EXPECT_EQ(StoredAndLoaded(DType::kF32, 0x1p-149), 0x1p-149);
  EXPECT_EQ(StoredAndLoaded(DType::kF16, 65520), INFINITY);
  EXPECT_EQ(StoredAndLoaded(DType::kF32, -1e300), -INFINITY);
  for (const DType dtype :
       {DType::kF16, DType::kBf16, DType::kF32, DType::kF64}) {
    EXPECT_TRUE(std::isnan(StoredAndLoaded(dtype, std::nan(""))));
    EXPECT_EQ(StoredAndLoaded(dtype, -INFINITY), -INFINITY);
    EXPECT_TRUE(std::signbit(StoredAndLoaded(dtype, -0.0)));
  }
}

TEST(Tensor, LoadsIntegersOfBothWidths) {
  int32_t narrow[] = {7, -1};
  int64_t wide[] = {int64_t{1} << 40, -1};
  const Tensor four{DenseSpec(DType::kI32, {2, 1, 1, 1}),
                    reinterpret_cast<std::byte*>(narrow)};
  const Tensor eight{DenseSpec(DType::kI64, {2, 1, 1, 1}),
                     reinterpret_cast<std::byte*>(wide)};
  EXPECT_EQ(four.LoadInteger(0), 7);
  EXPECT_EQ(four.LoadInteger(1), -1);
  EXPECT_EQ(eight.LoadInteger(0), int64_t{1} << 40);
  EXPECT_EQ(eight.LoadInteger(1), -1);
}

// Words two apart, the first number in the lowest bits.
TEST(Tensor, LoadsEightNumbersOfAWord) {
  uint32_t words[] = {0x76543210, 0, 0xFEDCBA98};
  const Tensor rows{
      {.dtype = DType::kI4x8, .dims = {1, 1, 1, 2}, .strides = {0, 0, 0, 2}},
      reinterpret_cast<std::byte*>(words)};
  double row[13];
  rows.LoadRow(0, row);
  for (int d = 0; d < 13; ++d) EXPECT_EQ(row[d], d < 8 ? d : d - 16) << d;
}

TEST(Tensor, FillsWhatItsStridesNameAndNothingElse) {
  std::vector<float> memory(12, 5);
  const Tensor tensor{{.dtype = DType::kF32,
                       .dims = {9, 2, 2, 2},  // the first repeats
                       .strides = {0, 6, 3, 2}},
                      reinterpret_cast<std::byte*>(memory.data())};
  tensor.Fill(0);
  EXPECT_EQ(memory, (std::vector<float>{0, 5, 0, 0, 5, 0, 0, 5, 0, 0, 5, 0}));
}

TEST(ForPieces, CoversEveryNumberOnce) {
  ShuffledWorkers workers(3);
  for (const int64_t count : {0, 1, 15, 16, 17, 1000, 1024, 1025, 5000}) {
    std::vector<int> seen(static_cast<size_t>(count));
    reference::ForPieces(workers, count, [&](Range piece) {
      for (int64_t n = piece.first; n < piece.last; ++n) {
        ++seen[static_cast<size_t>(n)];
      }
    });
    EXPECT_EQ(seen, std::vector<int>(static_cast<size_t>(count), 1));
  }
}

TEST(RowOfGroup, NumbersPositionsFirstThenHeads) {
  AttentionProblem problem;
  problem.heads = 6;
  problem.kv_heads = 2;
  const reference::Row row = reference::RowOfGroup(problem, 4, 1, 8);
  EXPECT_EQ(row.sequence, 4);
  EXPECT_EQ(row.kv_head, 1);
  EXPECT_EQ(row.head, 5);
  EXPECT_EQ(row.i, 2);
}

// Every source gives the same rows: number 10 * column + channel, of the
// second of two sequences.
class Sources : public testing::TestWithParam<KvSource::Rows> {};

TEST_P(Sources, GiveTheSameRows) {
  ProblemSpec problem_spec;
  problem_spec.qk_dim = 2;
  problem_spec.rows = {1, 1};
  problem_spec.columns = {2, 3};
  problem_spec.source = GetParam();
  problem_spec.page_rows = 2;
  problem_spec.top_k = 1;
  SmallCase example(Build(problem_spec));
  const double none = std::numeric_limits<double>::quiet_NaN();
  if (problem_spec.source == KvSource::Rows::kList) {
    example.SetList(Slot::kKey, 1, {0, 1, 10, 11, 20, 21});
    example.SetList(Slot::kValue, 1, {5, 6, 7});
  } else if (problem_spec.source == KvSource::Rows::kPaged) {
    example.Set(Slot::kBlockTable, {1, -1, 2, 0});
    example.Set(Slot::kKey,
                {20, 21, none, none, none, none, none, none, 0, 1, 10, 11});
    example.Set(Slot::kValue, {7, none, none, none, 5, 6});
  } else {
    example.Set(Slot::kKey, {none, none, none, none, 0, 1, 10, 11, 20, 21});
    example.Set(Slot::kValue, {none, none, 5, 6, 7});
  }
  const Operands operands(example.problem(), example.bindings());
  WorkspaceLayout layout;
  KeyValues keys(example.problem(), layout);
  std::vector<std::byte> workspace(static_cast<size_t>(layout.bytes()));
  keys.Attach(workspace.data());
  ShuffledWorkers workers(2);
  keys.Load(operands, 1, 0, workers);
  for (int64_t j = 0; j < 3; ++j) {
    EXPECT_TRUE(keys.exists(j));
    EXPECT_EQ(keys.key(j)[0], 10.0 * static_cast<double>(j));
    EXPECT_EQ(keys.key(j)[1], 10.0 * static_cast<double>(j) + 1);
    EXPECT_EQ(keys.value(j)[0], 5.0 + static_cast<double>(j));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Sources,
                         testing::Values(KvSource::Rows::kStrided,
                                         KvSource::Rows::kList,
                                         KvSource::Rows::kPaged));

// Of the second of two sequences; the first may not be looked at.
TEST(KeyValues, BeginWithThePrefix) {
  ProblemSpec problem_spec;
  problem_spec.rows = {1, 1};
  problem_spec.columns = {2, 1};
  problem_spec.prefix = 2;
  SmallCase example(Build(problem_spec));
  const double none = std::numeric_limits<double>::quiet_NaN();
  example.Set(Slot::kKeyPrefix, {1, 2});
  example.Set(Slot::kValuePrefix, {4, 5});
  example.Set(Slot::kKey, {none, none, 3});
  example.Set(Slot::kValue, {none, none, 6});
  const Operands operands(example.problem(), example.bindings());
  WorkspaceLayout layout;
  KeyValues keys(example.problem(), layout);
  std::vector<std::byte> workspace(static_cast<size_t>(layout.bytes()));
  keys.Attach(workspace.data());
  ShuffledWorkers workers(2);
  keys.Load(operands, 1, 0, workers);
  for (int64_t j = 0; j < 3; ++j) {
    EXPECT_EQ(keys.key(j)[0], 1.0 + static_cast<double>(j));
    EXPECT_EQ(keys.value(j)[0], 4.0 + static_cast<double>(j));
  }
}

// The query's own scale, which is not its rope's.
TEST(LoadQuery, BytesHaveAScaleOfTheirRow) {
  ProblemSpec problem_spec;
  problem_spec.rows = {2};
  problem_spec.columns = {1};
  problem_spec.query_bytes = true;
  problem_spec.rope_dim = 1;
  problem_spec.keys.scales = ProblemSpec::Scales::kTensor;
  SmallCase small(Build(problem_spec));
  ASSERT_TRUE(CheckProblem(small.problem()).ok());
  small.Set(Slot::kQuery, {2, -3});
  small.Set(Slot::kQueryRowScale, {0.5, 0.25});
  small.Set(Slot::kQueryRope, {7, 8});
  const Operands operands(small.problem(), small.bindings());
  double query[2];
  reference::LoadQuery(operands, {.i = 0}, query);
  EXPECT_EQ(query[0], 1);
  EXPECT_EQ(query[1], 7);
  reference::LoadQuery(operands, {.i = 1}, query);
  EXPECT_EQ(query[0], -0.75);
  EXPECT_EQ(query[1], 8);
}

}  // namespace
}  // namespace flashacl
