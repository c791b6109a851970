// SPDX-License-Identifier: Apache-2.0
// Few heads over listed keys, beside the same keys side by side.
#include <gtest/gtest.h>

#include <numeric>
#include <utility>
#include <vector>

#include "base/str.h"
#include "cpu/implementations.h"
#include "cpu/topk/topk_forward_workspace.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/targets.h"
#include "tests/testing/random.h"
#include "tests/testing/small_case.h"

namespace flashacl::cpu {
namespace {

using testing::ProblemOf;
using testing::RunOn;

class TopKDecode : public ::testing::TestWithParam<testing::Setting> {
 protected:
  const testing::OnTarget target_{GetParam().target};
};

INSTANTIATE_TEST_SUITE_P(
    EveryTarget, TopKDecode,
    ::testing::ValuesIn(testing::Settings({&kCpuTopKDecode})),
    testing::SettingTestName);

constexpr int64_t kKeys = 200;    // of a sequence
constexpr int64_t kListed = 150;  // of them

// Row `to` of a tensor with one outer index and head becomes row `from` of
// another.
void CopyRow(const SmallCase& of, int64_t from, Slot slot, int64_t to,
             SmallCase& copy) {
  const TensorSpec& source = of.problem()[slot];
  const TensorSpec& spec = copy.problem()[slot];
  if (!spec.present()) return;
  for (int64_t d = 0; d < spec.dims[3]; ++d) {
    copy.Put(slot, spec.At(0, to, 0, d),
             of.Get(slot, source.At(0, from, 0, d)));
  }
}

// A position has the bits that cpu/decode gives it where its listed keys are
// all the keys that there are.
TEST_P(TopKDecode, HasTheBitsOfDecode) {
  Random random(11);
  for (const char* rest :
       {"bf16 h=16/1 d=512+64/512 q=1", "bf16 h=8/1 d=512+64/512 q=1 shared",
        "f16 h=5/1 d=96/64 q=1", "f32 h=1 d=48+8/40 q=1",
        "bf16 h=24/1 d=70/33 q=1", "f16 h=12/1 d=128 q=1 shared",
        "bf16 h=9/1 d=64 q=1 sink"}) {
    SCOPED_TRACE(rest);
    SmallCase listed(
        ProblemOf(Str("fwd {} k={} topk:{} stats", rest, kKeys, kListed)));
    listed.FillInputs(random);
    std::vector<int64_t> columns(kKeys);
    std::iota(columns.begin(), columns.end(), 0);
    for (size_t n = columns.size(); n > 1; --n) {
      std::swap(columns[n - 1], columns[static_cast<size_t>(random.Within(
                                    0, static_cast<int64_t>(n) - 1))]);
    }
    SmallCase dense(ProblemOf(Str("fwd {} k={} stats", rest, kListed)));
    dense.FillInputs(random);
    for (const Slot slot : {Slot::kQuery, Slot::kQueryRope, Slot::kSink}) {
      if (!dense.problem().has(slot)) continue;
      for (int64_t n = 0; n < dense.count(slot); ++n) {
        dense.Put(slot, n, listed.Get(slot, n));
      }
    }
    for (int64_t j = 0; j < kListed; ++j) {
      const int64_t column = columns[static_cast<size_t>(j)];
      listed.Put(Slot::kTopK, j, static_cast<double>(column));
      for (const Slot slot : {Slot::kKey, Slot::kKeyRope, Slot::kValue}) {
        CopyRow(listed, column, slot, j, dense);
      }
    }
    RunOn(kCpuTopKDecode, listed);
    RunOn(kCpuDecode, dense);
    EXPECT_EQ(listed.bytes(Slot::kOut), dense.bytes(Slot::kOut));
    EXPECT_EQ(listed.Get(Slot::kRowMax), dense.Get(Slot::kRowMax));
    EXPECT_EQ(listed.Get(Slot::kRowSum), dense.Get(Slot::kRowSum));
  }
}

// One row of all heads decides on what multiplies them; as many as a panel and
// more would be shared by workers if they were panels.
TEST_P(TopKDecode, BitsOfManyHeadsDoNotDependOnWorkers) {
  Random random(12);
  for (const char* line :
       {"fwd bf16 h=64/1 d=64 q=1 k=200 topk:150",
        "fwd bf16 h=64/1 d=64 q=3 k=200 topk:150 int8:channel probs:bf16"}) {
    SCOPED_TRACE(line);
    SmallCase alone(ProblemOf(line));
    alone.FillInputs(random);
    const TensorSpec& query = alone.problem()[Slot::kQuery];
    alone.Put(Slot::kQuery, query.At(0, 0, 40, 3), 0x1p-130);
    alone.Put(Slot::kQuery, query.At(0, 0, 41, 3), 1e30);
    SmallCase shared(alone.problem());
    shared.CopyInputs(alone);
    RunOn(kCpuTopKDecode, alone, 1);
    for (const int workers : {2, 3, 5}) {
      RunOn(kCpuTopKDecode, shared, workers);
      testing::ExpectSameBits(shared, alone);
    }
  }
}

// Lists of a position that are cut are put together again, whoever cuts.
TEST_P(TopKDecode, SplitsAreCombined) {
  for (const char* line :
       {"fwd bf16 h=8/1 d=64+16/48 q=2 k=5000 topk:4500 shared stats",
        "fwd f32 h=3/1 d=24 q=1,2 k=9000,700 topk:2048:4 causal stats",
        "fwd f16 h=4/2 d=40/16 q=3 k=6000 paged:16 topk:5000 stats"}) {
    const AttentionProblem problem = ProblemOf(line);
    EXPECT_GT(SplitsOfLists(problem, TopKDecodeShape(problem, {})), 1) << line;
    testing::ExpectRight(line, kCpuTopKDecode.name, 3);
  }
}

}  // namespace
}  // namespace flashacl::cpu
