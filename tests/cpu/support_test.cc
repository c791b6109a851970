// SPDX-License-Identifier: Apache-2.0
// Every refusal names what is too much, and nothing else is refused.
#include "cpu/support.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "problem/notation.h"

namespace flashacl::cpu {
namespace {

using Supports = Status (*)(const AttentionProblem&, Direction);

struct Case {
  const char* line;
  std::string_view said;  // empty: taken
};

void ExpectSaid(Supports supports, Direction direction, const Case& one) {
  SCOPED_TRACE(one.line);
  const Result<AttentionProblem> problem = Parse(one.line);
  ASSERT_TRUE(problem.ok()) << problem.status().message();
  const Status status = supports(*problem, direction);
  EXPECT_EQ(status.ok(), one.said.empty()) << status.message();
  EXPECT_NE(status.message().find(one.said), std::string::npos)
      << status.message();
  EXPECT_EQ(status.code(), one.said.empty() ? Code::kOk : Code::kUnsupported);
}

TEST(Refusals, OfTiles) {
  for (const Case& one : {
           Case{"fwd f32 h=2 d=4 q=2 k=9 mask bias keep:0.5 sink", ""},
           {"fwd f32 h=1 d=4000+96/4096 q=2 k=9", ""},
           {"bwd f32 h=1 d=4 q=2 k=9", "forward direction only"},
           {"fwd f32 h=1 d=4 q=2 k=9 topk:3", "listed for every row"},
           {"fwd f32 h=1 d=4000+97/4 q=2 k=9", "4000 + 97 query"},
           {"fwd f32 h=1 d=4/4097 q=2 k=9", "4097 value"},
       }) {
    ExpectSaid(SupportsTiles, Direction::kForward, one);
  }
  ExpectSaid(SupportsTiles, Direction::kBackward,
             {"fwd f32 h=1 d=4 q=2 k=9", "backward direction only"});
  ExpectSaid(SupportsTiles, Direction::kBackward,
             {"bwd f32 h=1 d=4 q=2 k=9 sink", ""});
}

TEST(Refusals, OfLists) {
  for (const Case& one : {
           Case{"fwd f32 h=1 d=4 q=2 k=9 topk:3 causal sink", ""},
           {"bwd f32 h=1 d=4 q=2 k=9 topk:3", "forward direction only"},
           {"fwd f32 h=1 d=4 q=2 k=9", "listed for every row only"},
           {"fwd f32 h=1 d=4 q=2 k=9 topk:3 mask", "mask"},
           {"fwd f32 h=1 d=4 q=2 k=9 topk:3 bias", "bias"},
           {"fwd f32 h=1 d=4 q=2 k=9 topk:3 keep:0.5", "keep"},
           {"fwd i8 h=1 d=4 q=2 k=9 topk:3 int8:tensor", "weight scale"},
           {"fwd f32 h=1 d=4097 q=2 k=9 topk:3", "4097"},
       }) {
    ExpectSaid(SupportsLists, Direction::kForward, one);
  }
  for (const Case& one :
       {Case{"bwd f32 h=1 d=4 q=2 k=9 topk:3", ""},
        {"bwd f32 h=1 d=4 q=2 k=9 topk:3 sink", "grad sink"}}) {
    ExpectSaid(SupportsLists, Direction::kBackward, one);
  }
}

}  // namespace
}  // namespace flashacl::cpu
