// SPDX-License-Identifier: Apache-2.0
// That a check of a wrong result names what made it so, first.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "tests/verify/causes/plain_attention.h"

namespace flashacl {

// Three shapes each: heads of their own, shared heads in sequences of several
// lengths, other channels. Backward the same.
using Lines = std::initializer_list<const char*>;

// What a check says of `wrong`, which has run; backward of each gradient alone,
// too, where it is wrong.
inline void ExpectCause(PlainAttention& wrong, std::string_view cause,
                        std::string_view layout = "") {
  const Result<TensorCheck> check = wrong.Check(layout);
  ASSERT_TRUE(check.ok()) << check.status().message();
  const CheckedResult& result = check->results[0];
  EXPECT_FALSE(result.judgement.right());
  ASSERT_FALSE(result.suspicions.empty()) << Describe(*check);
  EXPECT_EQ(result.suspicions[0].cause, cause) << Describe(*check);
  EXPECT_GE(result.suspicions[0].explained, 0.9) << Describe(*check);
  if (wrong.problem().direction == Direction::kForward) return;
  for (const std::string& name : wrong.ResultNames()) {
    SCOPED_TRACE(name + " alone");
    const Result<TensorCheck> one = wrong.Check(layout, name);
    ASSERT_TRUE(one.ok()) << one.status().message();
    if (one->right()) continue;
    ASSERT_FALSE(one->results[0].suspicions.empty()) << Describe(*one);
    EXPECT_EQ(one->results[0].suspicions[0].cause, cause) << Describe(*one);
  }
}

// Runs the plain computation with a change, on each line.
template <typename Change>
void ExpectCauses(Lines lines, std::string_view cause, Change change) {
  for (const char* line : lines) {
    SCOPED_TRACE(line);
    PlainAttention wrong(line);
    change(wrong);
    wrong.Run();
    ExpectCause(wrong, cause);
  }
}

inline Band BandOf(const PlainAttention& of, int64_t b) {
  return of.problem().mask.BandOf(b, of.rows(b), of.columns(b));
}

// Fewer queries than keys, so that corners differ; more keys than a block.
inline constexpr Lines kBackward = {
    "bwd bf16 h=2 d=32 q=20 k=33 causal",
    "bwd f16 h=4/2 d=64 q=9,30 k=20,40 window:6:2",
    "bwd f32 h=6/3 d=16 q=2x12 k=2x25 causal"};

}  // namespace flashacl
