// SPDX-License-Identifier: Apache-2.0
// What later versions of the forward on packed sequences have: types of pse,
// starts, rope, sink and an order of max and sum; what they compute, and what
// they refuse of it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/call.h"
#include "tests/testing/refusal.h"
#include "tests/testing/training_call.h"
#include "tests/testing/training_oracle.h"

namespace flashacl::testing {
namespace {

using C = TrainingForward;
using Refusals = std::vector<Refusal<TrainingForward>>;

constexpr int kNewest = 5;

TrainingCase Plain() {
  return {.sizes = {.type = ACL_FLOAT,
                    .rows = {3, 2},
                    .columns = {4, 5},
                    .heads = 4,
                    .kv_heads = 2,
                    .dim = 6,
                    .v_dim = 5}};
}

void Expect(const TrainingCase& c) {
  SCOPED_TRACE(ToString(c));
  Random random(31);
  ExpectForward(c, random);
}

// The first version's features are in all, and others where they belong.
TEST(VarLenScoreVersions, HaveTheDocumentsFeatures) {
  TrainingCase c = Plain();
  for (int v = 1; v <= 5; ++v) EXPECT_TRUE(Has(v, c)) << v;
  c.pse_type = 0;
  EXPECT_FALSE(Has(4, c));
  EXPECT_TRUE(Has(2, c));
  c = Plain();
  c.same_as_input = true;
  EXPECT_TRUE(Has(4, c));
  EXPECT_FALSE(Has(3, c));
}

TEST(VarLenScoreVersions, TakeEveryTypeOfBias) {
  for (const int64_t pse_type : {0, 1}) {
    for (const PseForm form : {PseForm::kEvery, PseForm::kShared}) {
      TrainingCase c = Plain();
      c.sizes.type = ACL_BF16;
      c.pse = form;
      c.pse_type = pse_type;
      Expect(c);
    }
  }
}

TEST(VarLenScoreVersions, TakeSlopesAndStarts) {
  for (const int64_t pse_type : {2, 3}) {
    for (const PseForm form : {PseForm::kSlopes, PseForm::kSlopesEach}) {
      TrainingCase c = Plain();
      c.sizes.type = ACL_FLOAT16;
      c.pse = form;
      c.pse_type = pse_type;
      Expect(c);
      c.q_start = 3;
      Expect(c);
      c.kv_start = 1;
      Expect(c);
      c.q_start.reset();
      c.spread = true;
      Expect(c);
    }
  }
}

// In mode 8 the starts belong to the first sequence, the one that was cut.
TEST(VarLenScoreVersions, StartsOfACutSequenceAreItsOwn) {
  TrainingCase c = Plain();
  c.sizes.rows = {10, 14, 8};
  c.sizes.columns = {11, 14, 8};
  c.pse = PseForm::kSlopes;
  c.mask = MaskForm::kCompressed;
  c.mode = 8;
  c.pre = 11;
  c.next = 1;
  c.q_start = 2;
  c.kv_start = 1;
  for (const int64_t pse_type : {2, 3}) {
    c.pse_type = pse_type;
    Expect(c);
  }
  c.sizes.columns = c.sizes.rows;
  c.q_start.reset();
  c.kv_start.reset();
  Expect(c);
}

// Sequences without keys have no distances either.
TEST(VarLenScoreVersions, TakeSlopesOfNoKeys) {
  TrainingCase c = Plain();
  c.sizes.rows = {16, 2};
  c.sizes.columns = {0, 3};
  c.pse = PseForm::kSlopes;
  c.pse_type = 2;
  Expect(c);
}

TEST(VarLenScoreVersions, TakeRope) {
  for (const int64_t mode : {0, 1, 2, 3, 4, 7, 8}) {
    TrainingCase c = Plain();
    c.sizes.type = ACL_BF16;
    c.sizes.columns = {4, 2};
    c.rope_dim = 4;
    c.mask = mode < 2 ? MaskForm::kLongest : MaskForm::kCompressed;
    c.mode = mode;
    c.pre = 7;
    c.next = 0;
    c.spread = mode % 2 == 0;
    Expect(c);
  }
}

// An extra score per row: alone it hides nothing, and a row that sees nothing
// else is 0.
TEST(VarLenScoreVersions, TakeSink) {
  for (const aclDataType type : {ACL_FLOAT16, ACL_BF16, ACL_FLOAT}) {
    TrainingCase c = Plain();
    c.sizes.type = type;
    c.sizes.rows = {3, 2, 4};
    c.sizes.columns = {4, 0, 2};
    c.sizes.row_tail = 2;
    c.sink = true;
    c.dropout = true;
    c.keep = 0.5;
    Expect(c);
    c.mask = MaskForm::kLongest;
    c.mode = 1;
    c.spread = true;
    Expect(c);
  }
}

TEST(VarLenScoreVersions, WriteMaxAndSumInBothOrders) {
  for (const bool spread : {false, true}) {
    TrainingCase c = Plain();
    c.same_as_input = true;
    c.sizes.row_tail = 3;
    c.spread = spread;
    Expect(c);
  }
}

// The documents' order of m[b][n][i] for lengths 1 and 2 of two heads.
TEST(VarLenScoreVersions, OrderMaxAndSumAsTheDocumentSays) {
  const auto maxima = [](const char* layout) {
    C call({.type = ACL_FLOAT,
            .rows = {1, 2},
            .columns = {1, 1},
            .kv_heads = 2,
            .dim = 1,
            .v_dim = 1},
           4);
    call.scaleValue = 1;
    if (layout != nullptr) call.softmaxOutLayout = layout;
    TrainingFixture made(call);
    const auto& t = made.t;
    t.key->FillWith(1);
    // Sequence b, head n, row i: 100 b + 10 n + i.
    const double values[] = {0, 10, 100, 110, 101, 111};
    for (int64_t n = 0; n < 6; ++n) t.query->SetNth(n, values[n]);
    EXPECT_TRUE(made.Run());
    std::vector<double> lanes;
    for (int64_t n = 0; n < 6; ++n) lanes.push_back(t.softmaxMax->Nth(8 * n));
    return lanes;
  };
  const std::vector<double> blocks = {0, 10, 100, 101, 110, 111};
  EXPECT_EQ(maxima(""), blocks);
  EXPECT_EQ(maxima(nullptr), blocks);
  EXPECT_EQ(maxima("TND"), blocks);
  EXPECT_EQ(maxima("SAME_AS_INPUT"), blocks);
  EXPECT_EQ(maxima("same_as_input"),
            (std::vector<double>{0, 10, 100, 110, 101, 111}));
}

TEST(VarLenScoreVersions, RefuseTypesOfPse) {
  const auto slopes = [](int64_t type, Form form) {
    return [=](C& c) {
      c.pseType = type;
      c.realShift = form;
    };
  };
  const Form two{ACL_FLOAT, {2}};
  const Refusals refusals = {
      {kDeep, "pseTypeOptional: -1", Set(&C::pseType, -1)},
      {kDeep, "pseTypeOptional: 4, expected 0 to 3", Set(&C::pseType, 4)},
      {kInvalid, "realShiftOptional: none", Set(&C::pseType, 0)},
      {kInvalid, "realShiftOptional: none", Set(&C::pseType, 2)},
      {kInvalid, "realShiftOptional: none", Set(&C::pseType, 3)},
      {kInvalid, "realShiftOptional: data type FLOAT ",
       slopes(0, {ACL_FLOAT, {32}})},
      {kInvalid, "realShiftOptional: data type FLOAT16",
       slopes(2, {ACL_FLOAT16, {2}})},
      {kDeep, "realShiftOptional: shape [3]", slopes(2, {ACL_FLOAT, {3}})},
      {kDeep, "realShiftOptional: shape [1, 2]",
       slopes(3, {ACL_FLOAT, {1, 2}})},
      {kDeep, "sparseModeOptional 7",
       [&](C& c) {
         slopes(2, two)(c);
         c.attenMask = WithoutMemory(ACL_BOOL, {2048, 2048});
         c.sparseMode = 7;
         c.nextTokens = 0;
       }},
      {kDeep, "starts 0 apart",
       [&](C& c) {
         slopes(3, two)(c);
         c.attenMask = WithoutMemory(ACL_BOOL, {2048, 2048});
         c.sparseMode = 8;
       }},
      {kDeep, "qStartIdxOptional", [](C& c) { c.qStartIdx = {INT64_MAX}; }},
      {kDeep, "kvStartIdxOptional", [](C& c) { c.kvStartIdx = {INT64_MIN}; }},
  };
  ExpectRefused(refusals);
}

void GiveRope(C& c) {
  c.queryRope = c.query;
  c.queryRope->dims[2] = 4;
  c.keyRope = c.key;
  c.keyRope->dims[2] = 4;
  c.attenMask = Form{ACL_BOOL, {3, 4}};
}

TEST(VarLenScoreVersions, RefuseRopeWithoutItsCompanions) {
  const auto without = [](std::optional<Form> C::*form) {
    return [form](C& c) {
      GiveRope(c);
      (c.*form).reset();
    };
  };
  const Refusals refusals = {
      {kNull, "queryRope", without(&C::queryRope)},
      {kNull, "keyRope", without(&C::keyRope)},
      {kNull, "attenMaskOptional", without(&C::attenMask)},
  };
  ExpectRefused(refusals, {.type = ACL_BF16});
}

TEST(VarLenScoreVersions, RefuseRopeWithOtherThings) {
  const auto with = [](std::function<void(C&)> change) {
    return [change](C& c) {
      GiveRope(c);
      change(c);
    };
  };
  const Refusals refusals = {
      {kInvalid, "realShiftOptional: given", with([](C& c) {
         c.realShift = Form{ACL_BF16, {32}};
       })},
      {kInvalid, "dropMaskOptional: given", with([](C& c) {
         c.dropMask = Form{ACL_UINT8, {4}};
       })},
      {kInvalid, "keepProbOptional: 0.5", with([](C& c) { c.keepProb = 0.5; })},
      {kInvalid, "sparseModeOptional: 6", with([](C& c) { c.sparseMode = 6; })},
      {kInvalid, "realShiftOptional: none", with([](C& c) { c.pseType = 2; })},
      {kInvalid, "queryRope: head dim 9",
       with([](C& c) { c.queryRope->dims[2] = c.keyRope->dims[2] = 9; })},
      {kInvalid, "keyRope: head dim 3",
       with([](C& c) { c.keyRope->dims[2] = 3; })},
      {kInvalid, "queryRope: shape", with([](C& c) {
         c.queryRope->dims = {5, 8};
       })},
      {kInvalid, "keyRope: shape", with([](C& c) { c.keyRope->dims[0] = 7; })},
      {kInvalid, "queryRope: shape",
       with([](C& c) { c.queryRope->dims[1] = 1; })},
      {kInvalid, "keyRope: data type",
       with([](C& c) { c.keyRope->type = ACL_FLOAT16; })},
  };
  ExpectRefused(refusals, {.type = ACL_BF16});
  const Refusals of_float16 = {
      {kInvalid, "queryRope: data type FLOAT16", GiveRope},
  };
  ExpectRefused(of_float16);
}

TEST(VarLenScoreVersions, RefuseSinks) {
  const auto sink = [](aclDataType type, std::vector<int64_t> dims) {
    return [=](C& c) { c.sink = Form{type, dims}; };
  };
  const Refusals refusals = {
      {kInvalid, "sinkOptional: data type FLOAT16", sink(ACL_FLOAT16, {2})},
      {kDeep, "sinkOptional: shape [3], expected [2]", sink(ACL_FLOAT, {3})},
      {kDeep, "sinkOptional: shape [1, 2]", sink(ACL_FLOAT, {1, 2})},
  };
  ExpectRefused(refusals);
  C none({}, kNewest);
  none.sink = Form{ACL_FLOAT, {0}};
  EXPECT_TRUE(Runs(none));
}

// Addresses are counted as each version declares its tensors.
TEST(VarLenScoreVersions, AddressesCountTheTensorsOfTheVersion) {
  const int64_t value_index[] = {2, 2, 4, 2, 4};
  const int64_t mask_index[] = {6, 6, 8, 6, 8};
  for (const int version : {1, 2, 3, 4, 5}) {
    SCOPED_TRACE(version);
    C call({}, version);
    call.attenMask = Form{ACL_BOOL, {3, 4}};
    TrainingFixture made(call);
    const auto& t = made.t;
    DeviceTensor* other = made.caller.Input(*call.query);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(made.PhaseOne(&size, &executor), 0);
    // A stranger's handle: the index decides.
    const auto expect_at = [&](int64_t index, DeviceTensor* tensor) {
      EXPECT_EQ(aclSetInputTensorAddr(executor, static_cast<size_t>(index),
                                      other->handle(), other->data()),
                0);
      void* data = nullptr;
      EXPECT_EQ(aclGetRawTensorAddr(tensor->handle(), &data), 0);
      EXPECT_EQ(data, other->data());
    };
    expect_at(value_index[version - 1], t.value);
    expect_at(mask_index[version - 1], t.attenMask);
    EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
  }
}

}  // namespace
}  // namespace flashacl::testing
