// SPDX-License-Identifier: Apache-2.0
// What aclnnFusedInferAttentionScore and its later versions take: one test per
// statement of their document, with answers worked out by hand. What is
// of queries, keys, lengths, masks and scales is in fused_infer_*_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/testing/fused_infer_by_hand.h"
#include "tests/testing/fused_infer_call.h"

namespace flashacl::testing {
namespace {

void PutExample(FusedInferCall& call) {
  Put(call.query, {1, 0});
  Put(call.keys[0], {1, 0, 0, 1, 1, 1});
  Put(call.values[0], {1, 0, 0, 1, 2, 2});
}

FusedInferCase Example() {
  FusedInferCase c = Tiny(1, 3);
  c.dim = c.v_dim = 2;
  return c;
}

TEST(FusedInfer, SoftmaxByHand) {
  FusedInferCall call(Example());
  PutExample(call);
  ExpectByHand(call, {1.26696, 1.0}, {1.861995});
  FusedInferCase c = Example();
  c.kv_lengths = {2};
  FusedInferCall shorter(c);
  PutExample(shorter);
  ExpectByHand(shorter, {.731059, .268941}, {1.313262});
  c.sink = ACL_FLOAT16;
  FusedInferCall sink(c);
  PutExample(sink);
  sink.sink->SetNth(0, 0.5);
  ExpectByHand(sink, {.506480, .186324}, {1.680270});
  c.kv_lengths = {0};
  FusedInferCall nothing(c);
  PutExample(nothing);
  nothing.sink->SetNth(0, 0.5);
  ExpectByHand(nothing, {0, 0}, {kInf});
}

TEST(FusedInfer, OneSequenceInThreeDimensions) {
  FusedInferCase c{.layout = "NSD", .sequences = 1};
  FusedInferCall call(c);
  EXPECT_EQ(call.lse->form().dims, (std::vector<int64_t>{1, 4, 3, 1}));
  call.ExpectAsDocumented();
}

TEST(FusedInfer, WithoutTheFlagTheLogSumIsNotLookedAt) {
  for (const int kind : {0, 1, 2, 3}) {
    FusedInferCall call({.lse = false});
    if (kind == 1) call.lse = nullptr;
    if (kind == 2) call.caller.Replace(call.lse, {ACL_FLOAT, {0}});
    if (kind == 3) call.caller.Replace(call.lse, {ACL_INT8, {3}});
    EXPECT_TRUE(call.Run());
  }
}

TEST(FusedInfer, EmptyOptionalTensorsAreAbsent) {
  FusedInferCall call({.version = 5});
  const auto empty = [&](DeviceTensor*& tensor, aclDataType type) {
    tensor = call.caller.Input({.type = type, .dims = {0}});
  };
  empty(call.pse, ACL_FLOAT16);
  empty(call.mask, ACL_BOOL);
  empty(call.quant_scale2, ACL_FLOAT);
  empty(call.antiquant_scale, ACL_FLOAT16);
  empty(call.block_table, ACL_INT32);
  empty(call.key_scale, ACL_FLOAT);
  empty(call.key_prefix, ACL_FLOAT16);
  empty(call.value_prefix, ACL_FLOAT16);
  empty(call.query_rope, ACL_FLOAT16);
  empty(call.key_rope, ACL_FLOAT16);
  empty(call.key_rope_scale, ACL_FLOAT16);
  empty(call.sink, ACL_BF16);
  empty(call.kv_padding, ACL_INT64);
  call.block_size = 128;  // without a table
  EXPECT_TRUE(call.Run());
  FusedInferCall without({.version = 5});
  EXPECT_TRUE(without.Run());
  EXPECT_EQ(call.out->ElementBytes(), without.out->ElementBytes());
}

// What lse is for: attention to parts of the keys merges to that of all.
TEST(FusedInfer, LogSumsMergeParts) {
  FusedInferCall all(Tiny(1, 5));
  ASSERT_TRUE(all.Run());
  double sum = 0;
  double out = 0;
  for (const bool first : {true, false}) {
    FusedInferCase c = Tiny(1, 5);
    c.kv_lengths = {first ? 2 : 3};
    if (first) c.kv_padding = 3;  // keys 0 and 1, then 2 to 4
    if (!first) c.kv_padding = 0;
    FusedInferCall part(c);
    Put(part.query, all.query->Values());
    Put(part.keys[0], all.keys[0]->Values());
    Put(part.values[0], all.values[0]->Values());
    ASSERT_TRUE(part.Run());
    const double weight = std::exp(part.lse->Nth(0) - all.lse->Nth(0));
    sum += weight;
    out += weight * part.out->Nth(0);
  }
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_NEAR(out, all.out->Nth(0), 0x1p-9 * 2);
}

// What GetMaxWorkspaceSize says.
uint64_t MaxSize(FusedInferCall& call) {
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(call.MaxPhaseOne(&size, &executor), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
  return size;
}

bool RunAsMaxPlanned(FusedInferCall& call) {
  return call.caller.Run([&](uint64_t* size, aclOpExecutor** executor) {
    return call.MaxPhaseOne(size, executor);
  });
}

// Of rows and keys that sequences share in any way.
TEST(FusedInfer, GreatestWorkspacesDoNotDependOnLengths) {
  const FusedInferCase c{
      .layout = "TND", .lengths = {64, 64}, .kv_lengths = {500, 500}};
  std::vector<uint64_t> sizes, bounds;
  for (const std::vector<int64_t>& ends :
       {std::vector<int64_t>{64, 128, 500}, {1, 2, 999}, {0, 1, 0}}) {
    FusedInferCall call(c);
    call.lengths = call.caller.Array({ends[0], ends[1]});
    call.kv_lengths = call.caller.Array({ends[2], 1000});
    bounds.push_back(MaxSize(call));
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(call.PhaseOne(&size, &executor), 0) << aclGetRecentErrMsg();
    sizes.push_back(size);
    EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
  }
  EXPECT_EQ(bounds, std::vector<uint64_t>(3, bounds[0]));
  EXPECT_GE(bounds[0], sizes[0]);
  EXPECT_GT(sizes[0], sizes[1]);  // or nothing was tried
}

TEST(FusedInfer, GreatestWorkspacesAreOfTheCallItself) {
  FusedInferCase c{.lengths = {2, 3}, .kv_lengths = {5, 1}};
  c.mask = FusedMask::kFull;
  c.pse_sequences = 2;
  FusedInferCall call(c);
  EXPECT_TRUE(RunAsMaxPlanned(call));
  FusedInferCall plain(c);
  EXPECT_TRUE(plain.Run());
  EXPECT_EQ(call.out->ElementBytes(), plain.out->ElementBytes());
  EXPECT_EQ(call.lse->ElementBytes(), plain.lse->ElementBytes());
}

// Lengths that cannot be are not an error there: the longest are planned for.
TEST(FusedInfer, GreatestWorkspacesOfImpossibleLengths) {
  FusedInferCase c{.lengths = {2, 3}, .kv_lengths = {5, 1}};
  c.mask = FusedMask::kFull;
  c.pse_sequences = 2;
  FusedInferCall call(c);
  call.kv_lengths = call.caller.Array({6, 1});
  call.ExpectFailure(561002, "actualSeqLengthsKv: 6 for sequence 0");
  EXPECT_TRUE(RunAsMaxPlanned(call));
}

// Nor need masks and biases have the columns of a prefix that nobody sees.
TEST(FusedInfer, GreatestWorkspacesOfPrefixesShorterThanTheirRoom) {
  FusedInferCase c{.prefix = 6, .prefix_length = 2};
  c.mask = FusedMask::kFull;
  c.pse_sequences = 2;
  FusedInferCall call(c);
  EXPECT_TRUE(RunAsMaxPlanned(call));
  FusedInferCall plain(c);
  EXPECT_TRUE(plain.Run());
  EXPECT_EQ(call.out->ElementBytes(), plain.out->ElementBytes());
}

// Some of what the conformance test has more of.
TEST(FusedInfer, RandomCallsAnswerTheFormula) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const FusedInferCase c = RandomFusedInferCase(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + ToString(c));
    FusedInferCall(c, seed).ExpectAsDocumented();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace flashacl::testing
