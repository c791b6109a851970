// SPDX-License-Identifier: Apache-2.0
// The forward direction against numbers worked out by hand.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "problem/problem_spec.h"
#include "reference/reference.h"
#include "tests/reference/by_hand.h"
#include "tests/testing/small_case.h"

namespace flashacl {
namespace {

// The specification's example: q = [1, 2], k = [1, 2, 3], v = [1, 10, 100],
// scale 0.5, row 0 sees two columns and row 1 all.
struct Variant {
  std::string name;
  Numbers max, sum, out;
  Score::Bias bias = Score::Bias::kNone;
  bool sink = false;
  bool dropout = false;
};

class WorkedExample : public testing::TestWithParam<Variant> {};

TEST_P(WorkedExample, GivesTheNumbersOfTheSpecification) {
  const Variant& variant = GetParam();
  ProblemSpec problem_spec = OneHead(2, 3);
  problem_spec.rules = {Causal()};
  problem_spec.score.scale = 0.5f;
  problem_spec.score.bias = variant.bias;
  problem_spec.sink = variant.sink;
  problem_spec.keep = variant.dropout;
  problem_spec.score.keep_probability = variant.dropout ? 0.5f : 1.0f;
  SmallCase example(Build(problem_spec));
  example.Set(Slot::kQuery, {1, 2});
  example.Set(Slot::kKey, {1, 2, 3});
  example.Set(Slot::kValue, {1, 10, 100});
  if (variant.bias != Score::Bias::kNone) {
    example.Set(Slot::kBias, {0, 0, 4, 4, 0, 0});
  }
  if (variant.sink) example.Set(Slot::kSink, {1});
  if (variant.dropout) example.Set(Slot::kKeep, {0x2B});
  example.Run();
  ExpectNear(example, Slot::kRowMax, variant.max, 1e-6);
  ExpectNear(example, Slot::kRowSum, variant.sum, 1e-6);
  ExpectNear(example, Slot::kOut, variant.out, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(
    Training, WorkedExample,
    testing::Values(Variant{.name = "Plain",
                            .max = {1, 3},
                            .sum = {1.606531, 1.503215},
                            .out = {6.602134, 69.061411}},
                    Variant{.name = "BiasBeforeScale",
                            .max = {1, 3},
                            .sum = {1.606531, 2.367879},
                            .out = {6.602134, 44.207823},
                            .bias = Score::Bias::kBeforeScale},
                    Variant{.name = "BiasAfterScale",
                            .max = {1, 5},
                            .sum = {1.606531, 1.185122},
                            .out = {6.602134, 12.683415},
                            .bias = Score::Bias::kAfterScale},
                    Variant{.name = "Sink",
                            .max = {1, 3},
                            .sum = {2.606531, 1.638550},
                            .out = {4.069214, 63.357315},
                            .sink = true},
                    Variant{.name = "Dropout",
                            .max = {1, 3},
                            .sum = {1.606531, 1.503215},
                            .out = {13.204268, 133.228252},
                            .dropout = true}),
    [](const auto& info) { return info.param.name; });

// The inference specification's: lse = log(sum) + max.
TEST(Forward, InferenceExample) {
  for (const auto& [masked, sink, lse, out] :
       {std::tuple{false, false, 1.861995, Numbers{1.26696, 1.0}},
        std::tuple{true, false, 1.313262, Numbers{.73106, .26894}},
        std::tuple{true, true, 1.680270, Numbers{.50648, .18632}}}) {
    ProblemSpec problem_spec = OneHead(1, 3);
    problem_spec.qk_dim = problem_spec.v_dim = 2;
    problem_spec.sink = sink;
    if (masked) problem_spec.mask = DefaultMaskAxes();
    SmallCase example(Build(problem_spec));
    example.Set(Slot::kQuery, {1, 0});
    example.Set(Slot::kKey, {1, 0, 0, 1, 1, 1});
    example.Set(Slot::kValue, {1, 0, 0, 1, 2, 2});
    if (masked) example.Set(Slot::kMask, {0, 0, 1});
    if (sink) example.Set(Slot::kSink, {0.5});
    example.Run();
    ExpectNear(example, Slot::kOut, out, 1e-5);
    EXPECT_NEAR(
        std::log(example.Get(Slot::kRowSum, 0)) + example.Get(Slot::kRowMax, 0),
        lse, 1e-6);
  }
}

// One query of 2 against keys 1 and 3 with values 4 and -8. Scores are 1 and 3
// with key scale 0.5, probs exp(-2) and 1, as integers 1 and 10.
TEST(Forward, EightBitQueriesRoundTheProbs) {
  ProblemSpec problem_spec = OneHead(1, 2);
  problem_spec.dtype = DType::kI8;
  problem_spec.keys.scales = ProblemSpec::Scales::kTensor;
  problem_spec.out_dtype = DType::kF32;
  SmallCase example(Build(problem_spec));
  ASSERT_TRUE(CheckProblem(example.problem()).ok());
  example.Set(Slot::kQuery, {2});
  example.Set(Slot::kKey, {1, 3});
  example.Set(Slot::kValue, {4, -8});
  example.Set(Slot::kKeyScale, {0.5});
  example.Set(Slot::kValueScale, {0.1});
  example.Set(Slot::kWeightScale, {10});
  example.Run();
  ExpectNear(example, Slot::kRowMax, {3}, 0);
  ExpectNear(example, Slot::kRowSum, {1.135335}, 1e-6);
  ExpectNear(example, Slot::kOut, {(4 - 80) * 0.1 / 1.135335}, 1e-5);
  // Probs beyond 8 bits end at 127: 68 and 127.
  example.Set(Slot::kWeightScale, {500});
  example.Run();
  ExpectNear(example, Slot::kOut, {(4 * 68 - 8 * 127) * 0.1 / 1.135335}, 1e-4);
}

// 0.1 as the hardware takes it: the pattern of an f32 without 13 of its bits.
TEST(Forward, ScalesInTheHardwaresDress) {
  ProblemSpec problem_spec = OneHead(1, 1);
  problem_spec.dtype = DType::kI8;
  problem_spec.keys.scales = ProblemSpec::Scales::kTensor;
  problem_spec.out_dtype = DType::kF32;
  AttentionProblem problem = Build(problem_spec);
  problem[Slot::kKeyScale].dtype = DType::kU64;
  problem[Slot::kValueScale].dtype = DType::kU64;
  ASSERT_TRUE(CheckProblem(problem).ok());
  SmallCase example(problem);
  example.Set(Slot::kQuery, {1});
  example.Set(Slot::kKey, {1});
  example.Set(Slot::kValue, {1});
  example.Set(Slot::kKeyScale, {0x3DCCCCCD});
  example.Set(Slot::kValueScale, {0x3DCCCCCD});
  example.Set(Slot::kWeightScale, {1});
  example.Run();
  ExpectNear(example, Slot::kRowMax, {0.0999755859375}, 0);
  ExpectNear(example, Slot::kOut, {0.0999755859375}, 0);
}

TEST(Forward, RowsThatSeeNothing) {
  ProblemSpec problem_spec = OneHead(5, 3);
  problem_spec.rules = {Causal()};  // rows 0 and 1 are above every key
  for (const bool sink : {false, true}) {
    problem_spec.sink = sink;
    SmallCase example(Build(problem_spec));
    example.Set(Slot::kQuery, {kNan, kInf, 1, 1, 1});
    example.Set(Slot::kKey, {1, 1, 1});
    example.Set(Slot::kValue, {1, 2, 3});
    if (sink) example.Set(Slot::kSink, {0.25});
    example.Run();
    for (int64_t i = 0; i < 2; ++i) {
      EXPECT_EQ(example.Get(Slot::kOut, i), 0);
      EXPECT_EQ(example.Get(Slot::kRowMax, i), sink ? 0.25 : -FLT_MAX);
      EXPECT_EQ(example.Get(Slot::kRowSum, i), sink ? 1.0 : FLT_MAX);
    }
    EXPECT_GT(example.Get(Slot::kOut, 2), 0);
  }
}

TEST(Forward, SequencesWithoutKeysAndEmptyListsAreZeroThroughout) {
  ProblemSpec problem_spec = OneHead(2, 0);
  problem_spec.rows = {2, 0, 1};
  problem_spec.columns = {0, 3, 2};
  problem_spec.sink = true;
  SmallCase example(Build(problem_spec));
  example.Set(Slot::kValue, {1, 2, 3, 4, 4});
  example.Set(Slot::kSink, {-kInf});
  example.Run();
  ExpectNear(example, Slot::kOut, {0, 0, 4}, 1e-6);
  ExpectNear(example, Slot::kRowMax, {0, 0, 0}, 0);
  ExpectNear(example, Slot::kRowSum, {0, 0, 2}, 1e-6);

  ProblemSpec gathered = OneHead(2, 3);
  gathered.selection = KvSource::Selection::kTopK;
  gathered.top_k = 2;
  SmallCase lists(Build(gathered));
  lists.Set(Slot::kTopK, {-1, 0, 1, -1});
  lists.Set(Slot::kValue, {1, 2, 3});
  lists.Run();
  ExpectNear(lists, Slot::kOut, {0, 2}, 0);
  ExpectNear(lists, Slot::kRowSum, {0, 1}, 0);
}

TEST(Forward, HiddenKeysAndValuesNeverLeak) {
  ProblemSpec problem_spec = OneHead(1, 4);
  problem_spec.rules = {TopLeftBand(1, 3)};
  problem_spec.mask = DefaultMaskAxes();
  SmallCase example(Build(problem_spec));
  example.Set(Slot::kQuery, {1});
  example.Set(Slot::kKey, {kNan, 0, kInf, 0});
  example.Set(Slot::kValue, {kInf, 3, kNan, 5});
  example.Set(Slot::kMask, {0, 0, 255, 0});
  example.Run();
  ExpectNear(example, Slot::kOut, {4}, 1e-6);
}

TEST(Forward, InfinitiesFollowTheFormula) {
  const auto out_of = [](const Numbers& keys) {
    SmallCase example(Build(OneHead(1, 2)));
    example.Set(Slot::kQuery, {1});
    example.Set(Slot::kKey, keys);
    example.Set(Slot::kValue, {3, 5});
    example.Run();
    return example.Get(Slot::kOut, 0);
  };
  EXPECT_EQ(out_of({-kInf, 0}), 5);
  EXPECT_EQ(out_of({-kInf, -kInf}), 0);  // as a row that sees nothing
  EXPECT_TRUE(std::isnan(out_of({kInf, 0})));
  EXPECT_TRUE(std::isnan(out_of({kNan, 0})));
  EXPECT_TRUE(std::isnan(out_of({kNan, -kInf})));
  EXPECT_EQ(out_of({1e30, -1e30}), 3);  // no overflow
}

// A third head of the query shares the first kv head of two, and so on.
TEST(Forward, HeadsOfAGroupShareKeysAndStatisticsHaveCopies) {
  ProblemSpec problem_spec = OneHead(1, 1);
  problem_spec.heads = 4;
  problem_spec.kv_heads = 2;
  AttentionProblem problem = Build(problem_spec);
  for (const Slot slot : {Slot::kRowMax, Slot::kRowSum}) {
    problem[slot] = DenseSpec(DType::kF32, {1, 4, 1, 8});
  }
  SmallCase example(problem);
  example.Set(Slot::kQuery, {1, 2, 3, 4});
  example.Set(Slot::kKey, {1, 10});
  example.Set(Slot::kValue, {7, 8});
  example.Run();
  ExpectNear(example, Slot::kOut, {7, 7, 8, 8}, 0);
  Numbers copies;
  for (const double max : {1, 2, 30, 40}) copies.insert(copies.end(), 8, max);
  ExpectNear(example, Slot::kRowMax, copies, 0);
}

TEST(Forward, PlacesRowStatisticsInBlocksOrTensorRows) {
  // Two heads, lengths 1 and 2, and one row that no sequence owns.
  ProblemSpec problem_spec = OneHead(1, 1);
  problem_spec.heads = problem_spec.kv_heads = 2;
  problem_spec.rows = problem_spec.columns = {1, 2};
  AttentionProblem problem = Build(problem_spec);
  for (const Slot slot : {Slot::kQuery, Slot::kOut}) problem[slot].dims[1] = 4;
  TensorSpec same{.dtype = DType::kF32,
                  .placement = Placement::kTensorRows,
                  .dims = {2, 2, 4, 1},
                  .strides = {0, 1, 2, 1}};
  TensorSpec blocks{.dtype = DType::kF32,
                    .placement = Placement::kBlocks,
                    .dims = {2, 2, TensorSpec::kPerSequence, 1}};
  problem[Slot::kRowMax] = blocks;
  problem[Slot::kRowSum] = same;
  SmallCase example(problem);
  example.Set(Slot::kQuery, {1, 2, 3, 4, 5, 6, 7, 8});  // [row, head]
  example.Set(Slot::kKey, {1, 1, 1, 1, 1, 1});
  example.Run();
  ExpectNear(example, Slot::kRowMax, {1, 2, 3, 5, 4, 6, 0, 0}, 0);
  ExpectNear(example, Slot::kRowSum, {1, 1, 2, 2, 2, 2, 0, 0}, 0);
}

TEST(Forward, Int8RowsAndResults) {
  // x = 0.5 * (7 + 2) = 4.5; out 1.25 * 2 rounds to even, and clamps.
  ProblemSpec problem_spec = OneHead(1, 1);
  problem_spec.qk_dim = problem_spec.v_dim = 3;
  problem_spec.keys = {ProblemSpec::Scales::kChannel, true};
  SmallCase dense(Build(problem_spec));
  dense.Set(Slot::kQuery, {1, 1, 1});
  dense.Set(Slot::kKey, {7, 0, 0});
  dense.Set(Slot::kKeyScale, {0.5, 1, 1});
  dense.Set(Slot::kKeyOffset, {2, 0, 0});
  dense.Set(Slot::kValue, {7, -100, 0});
  dense.Set(Slot::kValueScale, {0.5, 2, 3});
  dense.Set(Slot::kValueOffset, {2, -28, 1});
  dense.Run();
  ExpectNear(dense, Slot::kRowMax, {4.5}, 0);
  ExpectNear(dense, Slot::kOut, {4.5, -256, 3}, 0);

  ProblemSpec rounded = OneHead(1, 1);
  rounded.v_dim = 6;
  rounded.out = {ProblemSpec::Scales::kChannel, true};
  SmallCase bytes(Build(rounded));
  bytes.Set(Slot::kValue, {1.25, -100, 0, 1.75, 100, kNan});
  bytes.Set(Slot::kOutScale, {2, 2, 1, 2, 2, 1});
  bytes.Set(Slot::kOutOffset, {0, 0, 3.5, 0, 0, 0});
  bytes.Run();
  ExpectNear(bytes, Slot::kOut, {2, -128, 4, 4, 127, 0}, 0);
}

TEST(Forward, Int8RowThatSeesNothingIsTheOffset) {
  ProblemSpec problem_spec = OneHead(2, 1);
  problem_spec.rules = {Causal()};
  problem_spec.out = {ProblemSpec::Scales::kTensor, true};
  SmallCase example(Build(problem_spec));
  example.Set(Slot::kOutScale, {2});
  example.Set(Slot::kOutOffset, {-7});
  example.Set(Slot::kValue, {5});
  example.Run();
  ExpectNear(example, Slot::kOut, {-7, 3}, 0);
}

TEST(Forward, WritesWhatItOwnsAndNothingBetween) {
  // Room for 4 rows of which 2 have an owner; channels 3 elements apart.
  ProblemSpec problem_spec = OneHead(2, 1);
  problem_spec.v_dim = 2;
  AttentionProblem problem = Build(problem_spec);
  problem[Slot::kQuery].dims[1] = 4;
  problem[Slot::kOut] = {
      .dtype = DType::kF16, .dims = {1, 4, 1, 2}, .strides = {0, 6, 6, 3}};
  SmallCase example(problem);
  example.Set(Slot::kQuery, {1, 1, kNan, kNan});
  example.Set(Slot::kKey, {1});
  example.Set(Slot::kValue, {5, 1.0 / 3});
  example.Run();
  const double third = 0.333251953125;  // rounded once, to 11 bits
  Numbers expected;
  for (int64_t row = 0; row < 4; ++row) {
    const bool owned = row < 2;
    for (const double element :
         {owned ? 5 : 0.0, 77.0, 77.0, owned ? third : 0.0, 77.0, 77.0}) {
      expected.push_back(element);
    }
  }
  expected.resize(22);
  ExpectNear(example, Slot::kOut, expected, 0);
}

TEST(Forward, ValueIsTheLeadingPartOfTheKey) {
  ProblemSpec problem_spec = OneHead(1, 2);
  problem_spec.qk_dim = 3;
  problem_spec.v_dim = 2;
  problem_spec.rope_dim = 1;
  problem_spec.value_is_key = true;
  SmallCase example(Build(problem_spec));
  example.Set(Slot::kQuery, {1, 0, 0});
  example.Set(Slot::kQueryRope, {2});
  example.Set(Slot::kKey, {4, 5, 6, 8, 9, 10});
  example.Set(Slot::kKeyRope, {3, 1});  // scores 10 and 10
  example.Run();
  ExpectNear(example, Slot::kRowMax, {10}, 0);
  ExpectNear(example, Slot::kOut, {6, 7}, 0);
}

}  // namespace
}  // namespace flashacl
