// SPDX-License-Identifier: Apache-2.0
// What inference asks of the forward direction - pages, padding, prefixes,
// scales by row, trees, log-sum-exp - against numbers worked out by hand.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

#include "problem/problem_spec.h"
#include "reference/reference.h"
#include "tests/reference/by_hand.h"
#include "tests/testing/small_case.h"

namespace flashacl {
namespace {

// Blocks of 16 rows, 20 keys, table [5, 2, -1]: keys 0..15 are the rows of
// block 5, keys 16..19 rows 0..3 of block 2. What else pages hold is never
// read, and a page that does not exist holds no key.
TEST(Forward, PagedKeys) {
  ProblemSpec problem_spec = OneHead(1, 20);
  problem_spec.source = KvSource::Rows::kPaged;
  problem_spec.page_rows = 16;
  AttentionProblem problem = Build(problem_spec);
  for (const Slot slot : {Slot::kKey, Slot::kValue}) problem[slot].dims[0] = 6;
  problem[Slot::kBlockTable] = DenseSpec(DType::kI32, {1, 3, 1, 1});
  SmallCase example(problem);
  example.Set(Slot::kQuery, {0});
  Numbers keys(96, kNan);
  Numbers values(96, kNan);
  double total = 0;
  for (int64_t j = 0; j < 20; ++j) {
    const int64_t at = j < 16 ? 5 * 16 + j : 2 * 16 + j - 16;
    keys[static_cast<size_t>(at)] = 1;
    values[static_cast<size_t>(at)] = static_cast<double>(j * j);
    total += static_cast<double>(j * j);
  }
  example.Set(Slot::kKey, keys);
  example.Set(Slot::kValue, values);
  example.Set(Slot::kBlockTable, {5, 2, -1});
  example.Run();
  ExpectNear(example, Slot::kOut, {total / 20}, 1e-4);

  for (const double nowhere : {-1.0, 6.0, 1e9}) {
    example.Set(Slot::kBlockTable, {nowhere, 2, -1});
    example.Run();
    ExpectNear(example, Slot::kOut, {(256 + 289 + 324 + 361) / 4.0}, 1e-4);
    ExpectNear(example, Slot::kRowSum, {4}, 0);
  }
}

// 8 rows, 1 of padding and 3 keys: rows 4, 5, 6.
TEST(Forward, LeftPadding) {
  ProblemSpec problem_spec = OneHead(1, 8);
  problem_spec.key_padding = true;
  problem_spec.key_lengths = Lengths::Device::kCounts;
  SmallCase example(Build(problem_spec));
  example.Set(Slot::kKeyLengths, {3});
  example.Set(Slot::kValue, {0, 0, 0, 0, 1, 20, 300, 4000});
  for (const auto& [padding, out] :
       {std::pair{1.0, 321.0 / 3}, std::pair{0.0, 4320.0 / 3},
        std::pair{6.0, 0.0}}) {
    example.Set(Slot::kKeyPadding, {padding});
    example.Run();
    ExpectNear(example, Slot::kOut, {out}, 1e-3);
  }
}

// q = [1, 0], k = [[1, 0], [0, 1], [1, 1]], v = [[1, 0], [0, 1], [2, 2]]: the
// example of the inference specification, with and without a sink of 0.5.
TEST(Forward, LogSumExpOfInference) {
  struct Case {
    int64_t keys;
    bool sink;
    Numbers out;
    double lse;
  };
  for (const Case& c : {Case{3, false, {1.26696, 1.0}, 1.861995},
                        Case{2, false, {0.73106, 0.26894}, 1.313262},
                        Case{2, true, {0.50648, 0.18632}, 1.680270},
                        Case{0, true, {0, 0}, kInf}}) {
    ProblemSpec problem_spec = OneHead(1, c.keys);
    problem_spec.qk_dim = problem_spec.v_dim = 2;
    problem_spec.score.scale = 1;
    problem_spec.row_stats = false;
    problem_spec.lse = true;
    problem_spec.sink = c.sink;
    SmallCase example(Build(problem_spec));
    Numbers keys{1, 0, 0, 1, 1, 1}, values{1, 0, 0, 1, 2, 2};
    keys.resize(static_cast<size_t>(2 * c.keys));
    values.resize(static_cast<size_t>(2 * c.keys));
    example.Set(Slot::kQuery, {1, 0});
    example.Set(Slot::kKey, keys);
    example.Set(Slot::kValue, values);
    if (c.sink) example.Set(Slot::kSink, {0.5});
    example.Run();
    ExpectNear(example, Slot::kOut, c.out, 1e-5);
    if (std::isinf(c.lse)) {
      EXPECT_EQ(example.Get(Slot::kLse)[0], c.lse);
    } else {
      ExpectNear(example, Slot::kLse, {c.lse}, 1e-6);
    }
  }
}

// A row that a tree lets see its ancestors only; the keys before are seen.
TEST(Forward, TreesMaskTheLastKeys) {
  ProblemSpec problem_spec = OneHead(3, 5);
  problem_spec.mask = DefaultMaskAxes();
  problem_spec.mask_tail = true;
  SmallCase example(Build(problem_spec));
  example.Set(Slot::kValue, {1, 2, 3, 4, 5});
  example.Set(Slot::kMask, {0, 1, 1, 0, 0, 1, 0, 1, 0});
  example.Run();
  ExpectNear(example, Slot::kOut, {2.0, 2.5, 2.75}, 1e-6);
}

// Not even beside a sink.
TEST(Forward, LogSumExpOfARowThatSeesNoKeyIsInfinite) {
  ProblemSpec problem_spec = OneHead(2, 1);
  problem_spec.rules = {Causal()};
  problem_spec.row_stats = false;
  problem_spec.lse = problem_spec.sink = true;
  SmallCase example(Build(problem_spec));
  example.Set(Slot::kSink, {0.5});
  example.Run();
  EXPECT_EQ(example.Get(Slot::kLse)[0], kInf);
  EXPECT_LT(example.Get(Slot::kLse)[1], 10);
}

// Two sequences of 2 keys and 1, after a key that they share.
TEST(Forward, APrefixStandsBeforeTheKeysOfEverySequence) {
  ProblemSpec problem_spec = OneHead(1, 2);
  problem_spec.rows = {1, 1};
  problem_spec.columns = {2, 1};
  problem_spec.prefix = 1;
  SmallCase example(Build(problem_spec));
  example.Set(Slot::kValuePrefix, {6});
  example.Set(Slot::kValue, {1, 2, 3});
  example.Run();
  ExpectNear(example, Slot::kOut, {3.0, 4.5}, 1e-6);
}

TEST(Forward, ScalesByRowMayBeThoseOfTheTensorsRows) {
  ProblemSpec problem_spec = OneHead(1, 2);
  problem_spec.rows = {1, 1};
  problem_spec.columns = {2, 1};
  problem_spec.keys.scales = ProblemSpec::Scales::kRow;
  AttentionProblem problem = Build(problem_spec);
  for (const Slot slot : {Slot::kKeyRowScale, Slot::kValueRowScale}) {
    problem[slot] = DenseSpec(DType::kF32, {2, 3, 1, 1});
    problem[slot].strides[0] = 0;
    problem[slot].placement = Placement::kTensorRows;
  }
  SmallCase example(problem);
  example.Set(Slot::kValue, {1, 2, 3});
  example.Set(Slot::kValueRowScale, {1, 10, 100});
  example.Run();
  ExpectNear(example, Slot::kOut, {10.5, 300.0}, 1e-4);
}

}  // namespace
}  // namespace flashacl
