// SPDX-License-Identifier: Apache-2.0
// The backward direction against finite differences and numbers made by hand.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "problem/problem_spec.h"
#include "reference/reference.h"
#include "tests/testing/finite_differences.h"
#include "tests/testing/small_case.h"

namespace flashacl {
namespace {

using Numbers = std::vector<double>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

ProblemSpec Backward(int64_t rows, int64_t columns) {
  ProblemSpec problem_spec;
  problem_spec.direction = Direction::kBackward;
  problem_spec.rows = {rows};
  problem_spec.columns = {columns};
  problem_spec.gradients.bias = true;
  return problem_spec;
}

// Several heads and sequences, one of them without keys, one without queries.
ProblemSpec Several() {
  ProblemSpec problem_spec = Backward(0, 0);
  problem_spec.heads = 4;
  problem_spec.kv_heads = 2;
  problem_spec.qk_dim = 3;
  problem_spec.v_dim = 2;
  problem_spec.rows = {3, 2, 0, 4};
  problem_spec.columns = {4, 0, 2, 3};
  problem_spec.rules = {Causal()};
  problem_spec.score.scale = 0.6f;
  return problem_spec;
}

struct Feature {
  std::string name;
  void (*add)(ProblemSpec&);
};

void Use(ProblemSpec& problem_spec, Score::Bias bias, ProblemSpec::Axes axes) {
  problem_spec.score.bias = bias;
  problem_spec.bias = axes;
}

const Feature kFeatures[] = {
    {"Plain", [](ProblemSpec&) {}},
    {"NoMask", [](ProblemSpec& o) { o.rules.clear(); }},
    {"MaskTensor", [](ProblemSpec& o) { o.mask = ProblemSpec::Axes{}; }},
    {"Rope", [](ProblemSpec& o) { o.rope_dim = 2; }},
    {"Sink", [](ProblemSpec& o) { o.sink = true; }},
    {"Dropout",
     [](ProblemSpec& o) {
       o.keep = true;
       o.score.keep_probability = 0.7f;
     }},
    {"ValueIsKey",
     [](ProblemSpec& o) {
       o.value_is_key = true;
       o.rope_dim = 1;
     }},
    {"BiasBeforeScale",
     [](ProblemSpec& o) { Use(o, Score::Bias::kBeforeScale, {}); }},
    {"BiasAfterScale",
     [](ProblemSpec& o) { Use(o, Score::Bias::kAfterScale, {}); }},
    {"BiasOfOneRow",
     [](ProblemSpec& o) {
       Use(o, Score::Bias::kAfterScale, {true, true, false});
     }},
    {"BiasOfAllSequences",
     [](ProblemSpec& o) {
       Use(o, Score::Bias::kBeforeScale, {false, true, true});
     }},
    {"BiasOfAllHeads",
     [](ProblemSpec& o) {
       Use(o, Score::Bias::kAfterScale, {true, false, true});
     }},
    {"BiasAlongDiagonals",
     [](ProblemSpec& o) {
       o.rules = {CausalTopLeft()};
       Use(o, Score::Bias::kAfterScale, {false, true, true});
       o.diagonal_rows = 2;
     }},
    {"Alibi",
     [](ProblemSpec& o) {
       Use(o, Score::Bias::kAlibi, {false, true, true});
     }},
    {"AlibiSqrtWithStarts",
     [](ProblemSpec& o) {
       Use(o, Score::Bias::kAlibiSqrt, {true, true, true});
       o.score.query_start = 2;
       o.score.key_start = -3;
       o.score.starts_only_first = true;
     }},
    {"Gathered",
     [](ProblemSpec& o) {
       o.selection = KvSource::Selection::kTopK;
       o.top_k = 3;
       o.gather_rows = 2;
     }},
    {"CountsOnDevice",
     [](ProblemSpec& o) {
       o.query_lengths = o.key_lengths = Lengths::Device::kCounts;
     }},
    {"EndsOnDevice",
     [](ProblemSpec& o) {
       o.query_lengths = o.key_lengths = Lengths::Device::kEnds;
     }},
    {"Everything",
     [](ProblemSpec& o) {
       Use(o, Score::Bias::kBeforeScale, {});
       o.rope_dim = 1;
       o.sink = o.keep = true;
       o.mask = DefaultMaskAxes();
       o.score.keep_probability = 0.5f;
     }},
};

class Slopes : public testing::TestWithParam<Feature> {};

TEST_P(Slopes, AreTheGradients) {
  ProblemSpec problem_spec = Several();
  GetParam().add(problem_spec);
  const AttentionProblem problem = Build(problem_spec);
  ASSERT_TRUE(CheckProblem(problem).ok()) << CheckProblem(problem).message();
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Random random(seed);
    const SmallCase backward = RunBackward(problem, random);
    ExpectSlopes(backward, 1000, random);
  }
}

// More rows than one chunk, more columns than one slice.
TEST(Backward, IsTheSlopeForLongSequences) {
  ProblemSpec problem_spec = Several();
  problem_spec.rows = {90, 3};
  problem_spec.columns = {100, 40};
  problem_spec.sink = true;
  problem_spec.score.bias = Score::Bias::kAfterScale;
  problem_spec.bias = {.sequence = false, .head = true, .row = false};
  Random random(6);
  const SmallCase backward = RunBackward(Build(problem_spec), random);
  ExpectSlopes(backward, 40, random);
}

// The same with f32 tensors, whose results are rounded once.
TEST_P(Slopes, AreTheGradientsOfFloats) {
  ProblemSpec problem_spec = Several();
  GetParam().add(problem_spec);
  const AttentionProblem problem = Build(problem_spec);
  Random random(9);
  Random again(9);
  const SmallCase doubles = RunBackward(problem, random);
  SmallCase floats(problem);
  floats.FillInputs(again);
  RunForwardTwin(floats);
  floats.Run();
  for (size_t n = static_cast<size_t>(Slot::kGradQuery); n < kSlots; ++n) {
    const Slot slot = static_cast<Slot>(n);
    const Numbers expected = doubles.Get(slot);
    const Numbers found = floats.Get(slot);
    ASSERT_EQ(found.size(), expected.size());
    double largest = 0;
    for (const double x : expected) largest = std::max(largest, std::abs(x));
    for (size_t at = 0; at < found.size(); ++at) {
      EXPECT_NEAR(found[at], expected[at], 1e-6 * std::max(1.0, largest))
          << Name(slot) << " " << at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backward, Slopes, testing::ValuesIn(kFeatures),
                         [](const auto& info) { return info.param.name; });

void ExpectAll(const SmallCase& example, Slot slot, double value) {
  for (const double found : example.Get(slot)) EXPECT_EQ(found, value);
}

// The sample of the unpadded gradient operator: row max and row sum are 3,
// which no forward direction left. With 225 for every q.k, do.v and do.o,
// p = exp(225 / sqrt(128) - 3) / 3, ds = 0 and
// dsink = -256 * 256 * exp(-3) / 3 * p * 225.
TEST(Backward, TakesRowMaxAndSumAsTheyAre) {
  ProblemSpec problem_spec = Backward(256, 256);
  problem_spec.dtype = problem_spec.out_dtype = DType::kF16;
  problem_spec.qk_dim = problem_spec.v_dim = 128;
  problem_spec.score.scale = 1 / std::sqrt(128.0f);
  problem_spec.sink = true;
  SmallCase sample(Build(problem_spec));
  for (const Slot slot :
       {Slot::kQuery, Slot::kKey, Slot::kValue, Slot::kOut, Slot::kGradOut}) {
    for (int64_t n = 1; n < sample.count(slot); n += 2) {
      sample.Put(slot, n, 1.875);
    }
  }
  sample.Set(Slot::kRowMax, Numbers(256, 3));
  sample.Set(Slot::kRowSum, Numbers(256, 3));
  sample.Run();
  ExpectAll(sample, Slot::kGradQuery, 0);
  ExpectAll(sample, Slot::kGradKey, 0);
  const double scale = problem_spec.score.scale;
  const double p = std::exp(scale * 225 - 3) / 3;
  const double expected = -65536 * std::exp(-3.0) / 3 * p * 225;
  EXPECT_NEAR(expected, -1.76e12, 0.01e12);
  EXPECT_NEAR(sample.Get(Slot::kGradSink, 0), expected, 1e-6 * -expected);
}

// The sample of the sparse gradient operator, made smaller: 16 heads, one kv
// head, every number 2^-24, row max and sum 3. ds = 0, and dv is 0.2655 of the
// least f16, which rounds to 0 but is there in f32.
TEST(Backward, TinyGradientsRoundToZeroInHalfPrecision) {
  for (const bool half : {true, false}) {
    ProblemSpec problem_spec = Backward(1, 8);
    problem_spec.dtype = problem_spec.out_dtype =
        half ? DType::kF16 : DType::kF32;
    problem_spec.heads = 16;
    problem_spec.qk_dim = problem_spec.v_dim = 4;
    problem_spec.selection = KvSource::Selection::kTopK;
    problem_spec.top_k = 8;
    SmallCase sample(Build(problem_spec));
    for (const Slot slot :
         {Slot::kQuery, Slot::kKey, Slot::kValue, Slot::kOut, Slot::kGradOut}) {
      sample.Set(slot,
                 Numbers(static_cast<size_t>(sample.count(slot)), 0x1p-24));
    }
    sample.Set(Slot::kTopK, {0, 1, 2, 3, 4, 5, 6, 7});
    sample.Set(Slot::kRowMax, Numbers(16, 3));
    sample.Set(Slot::kRowSum, Numbers(16, 3));
    sample.Run();
    ExpectAll(sample, Slot::kGradQuery, 0);
    ExpectAll(sample, Slot::kGradKey, 0);
    for (const double found : sample.Get(Slot::kGradValue)) {
      EXPECT_NEAR(found, half ? 0 : 0.2655 * 0x1p-24, 0.0001 * 0x1p-24);
    }
  }
}

TEST(Backward, DeltaComesFromTheOutputGiven) {
  ProblemSpec problem_spec = Backward(1, 1);
  problem_spec.score.scale = 0.5f;
  SmallCase example(Build(problem_spec));
  example.Set(Slot::kQuery, {3});
  example.Set(Slot::kKey, {4});
  example.Set(Slot::kValue, {5});
  example.Set(Slot::kGradOut, {2});
  example.Set(Slot::kOut, {1});     // not p * v
  example.Set(Slot::kRowMax, {6});  // the score
  example.Set(Slot::kRowSum, {2});  // p = 0.5
  example.Run();
  // dp = 10, delta = 2, ds = 4.
  EXPECT_EQ(example.Get(Slot::kGradQuery, 0), 0.5 * 4 * 4);
  EXPECT_EQ(example.Get(Slot::kGradKey, 0), 0.5 * 4 * 3);
  EXPECT_EQ(example.Get(Slot::kGradValue, 0), 0.5 * 2);
}

// Whatever foreign forward directions leave for rows that see nothing, and
// whatever such rows hold, gradients are 0; so are those of hidden keys.
TEST(Backward, WhatIsNotSeenHasNoGradient) {
  for (const auto& [max, sum] :
       {std::pair{-FLT_MAX, FLT_MAX}, std::pair{0.0f, 0.0f},
        std::pair{-INFINITY, 0.0f}}) {
    ProblemSpec problem_spec = Backward(3, 3);
    problem_spec.sink = true;
    problem_spec.mask = DefaultMaskAxes();
    SmallCase example(Build(problem_spec));
    example.Set(Slot::kMask, {1, 1, 1, 0, 0, 1, 0, 0, 1});
    example.Set(Slot::kQuery, {kNan, 1, 1});
    example.Set(Slot::kKey, {1, 1, kNan});
    example.Set(Slot::kValue, {1, 2, kNan});
    example.Set(Slot::kOut, {kNan, 1.5, 1.5});
    example.Set(Slot::kGradOut, {kNan, 1, 1});
    example.Set(Slot::kSink, {0});
    example.Set(Slot::kRowMax, {max, 1, 1});
    example.Set(Slot::kRowSum, {sum, 2, 2});
    example.Run();
    EXPECT_EQ(example.Get(Slot::kGradQuery, 0), 0);
    EXPECT_EQ(example.Get(Slot::kGradQuery, 1), 0);  // -0.25 + 0.25
    EXPECT_EQ(example.Get(Slot::kGradKey, 2), 0);
    EXPECT_EQ(example.Get(Slot::kGradValue, 2), 0);
    EXPECT_EQ(example.Get(Slot::kGradValue, 0), 1);  // 0.5 from rows 1 and 2
    EXPECT_NEAR(example.Get(Slot::kGradSink, 0), -1.5 * std::exp(-1), 1e-6);
  }
}

TEST(Backward, ASumOfZeroMeansNoProbs) {
  SmallCase example(Build(Backward(1, 2)));
  example.Set(Slot::kQuery, {1});
  example.Set(Slot::kKey, {1, 2});
  example.Set(Slot::kValue, {1, 2});
  example.Set(Slot::kGradOut, {1});
  example.Run();  // row max and row sum are 0
  ExpectAll(example, Slot::kGradQuery, 0);
  ExpectAll(example, Slot::kGradKey, 0);
  ExpectAll(example, Slot::kGradValue, 0);
}

TEST(Backward, AColumnListedTwiceCountsTwice) {
  ProblemSpec problem_spec = Backward(1, 2);
  problem_spec.selection = KvSource::Selection::kTopK;
  problem_spec.top_k = 3;
  SmallCase example(Build(problem_spec));
  example.Set(Slot::kTopK, {1, 1, -1});
  example.Set(Slot::kGradOut, {1});
  example.Set(Slot::kRowSum, {2});
  example.Run();
  EXPECT_EQ(example.Get(Slot::kGradValue), (Numbers{0, 1}));
}

TEST(Backward, WritesOnlyTheGradientsWanted) {
  ProblemSpec problem_spec = Several();
  problem_spec.sink = true;
  problem_spec.gradients = {.query = false,
                            .key = true,
                            .value = false,
                            .bias = false,
                            .sink = false};
  Random random(3);
  Random again(3);
  const SmallCase some = RunBackward(Build(problem_spec), random);
  problem_spec.gradients = {};
  const SmallCase all = RunBackward(Build(problem_spec), again);
  EXPECT_EQ(some.Get(Slot::kGradKey), all.Get(Slot::kGradKey));
  EXPECT_EQ(some.count(Slot::kGradQuery), 0);
}

TEST(Backward, RowsWithoutASequenceAreZero) {
  ProblemSpec problem_spec = Backward(2, 2);
  AttentionProblem problem = Build(problem_spec);
  for (TensorSpec& spec : problem.tensors) {
    if (spec.placement == Placement::kStrided && spec.dims[1] == 2) {
      spec.dims[1] = 4;
    }
  }
  Random random(4);
  const SmallCase example = RunBackward(problem, random);
  for (const Slot slot : {Slot::kGradQuery, Slot::kGradKey, Slot::kGradValue}) {
    ASSERT_EQ(example.count(slot), 4);
    EXPECT_NE(example.Get(slot, 1), 0);
    EXPECT_EQ(example.Get(slot, 2), 0);
    EXPECT_EQ(example.Get(slot, 3), 0);
  }
}

}  // namespace
}  // namespace flashacl
