// SPDX-License-Identifier: Apache-2.0
// Small calls of aclnnFusedInferAttentionScore whose answers are worked out by
// hand: equal scores and values 1, 2, 3 make means.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/testing/fused_infer_call.h"

namespace flashacl::testing {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kFar = 2147483647;

// One sequence of one head and one channel, unless the test says otherwise.
inline FusedInferCase Tiny(int64_t rows, int64_t columns) {
  return {.layout = "BNSD",
          .sequences = 1,
          .heads = 1,
          .kv_heads = 1,
          .rows = rows,
          .columns = columns,
          .dim = 1,
          .v_dim = 1,
          .scale = 1};
}

inline void Put(DeviceTensor* tensor, const std::vector<double>& numbers) {
  for (size_t n = 0; n < numbers.size(); ++n) {
    tensor->SetNth(static_cast<int64_t>(n), numbers[n]);
  }
}

// Equal scores, and values 1, 2, 3 and so on.
inline void Count(FusedInferCall& call) {
  call.query->FillWith(0);
  for (DeviceTensor* key : call.keys) key->FillWith(0);
  for (DeviceTensor* value : call.values) {
    for (int64_t n = 0; n < value->elements(); ++n) {
      value->SetNth(n, static_cast<double>(n + 1));
    }
  }
}

// The call and the oracle both answer these numbers, which have six digits.
inline void ExpectByHand(FusedInferCall& call, const std::vector<double>& out,
                         const std::vector<double>& lse = {}) {
  const FusedInferCall::Results oracle = call.Expected();
  ASSERT_EQ(oracle.out.size(), out.size());
  const bool ran = call.Run();
  EXPECT_TRUE(ran);
  const auto expect = [&](const char* name, const DeviceTensor& tensor,
                          const std::vector<Near>& computed,
                          const std::vector<double>& by_hand) {
    for (size_t n = 0; n < by_hand.size(); ++n) {
      SCOPED_TRACE(std::string(name) + " element " + std::to_string(n));
      const double want = by_hand[n];
      const bool exact = std::isinf(want) || want == 0;
      const double slack =
          exact ? 0 : computed[n].slack + 1e-5 * std::fabs(want);
      const auto near = [&](double got) {
        return got == want || std::fabs(got - want) <= slack;
      };
      EXPECT_TRUE(near(computed[n].value))
          << "by the oracle " << computed[n].value << ", by hand " << want;
      if (!ran) continue;
      const double got = tensor.Nth(static_cast<int64_t>(n));
      EXPECT_TRUE(near(got)) << got << ", by hand " << want;
    }
  };
  expect("attentionOut", *call.out, oracle.out, out);
  expect("softmaxLse", *call.lse, oracle.lse, lse);
}

inline FusedInferCase Moded(int64_t rows, int64_t columns, int64_t mode) {
  FusedInferCase c = Tiny(rows, columns);
  c.sparse_mode = mode;
  c.mask = mode < 2 ? FusedMask::kFull : FusedMask::kSquare;
  if (mode == 9) c.mask = FusedMask::kTree;
  return c;
}

inline void ExpectMeans(const FusedInferCase& c,
                        const std::vector<double>& out) {
  SCOPED_TRACE(ToString(c));
  FusedInferCall call(c);
  Count(call);
  if (c.mask == FusedMask::kFull) call.mask->FillWith(0);
  ExpectByHand(call, out);
}

}  // namespace flashacl::testing
