// SPDX-License-Identifier: Apache-2.0
// Every line of the backward's validation tables in every version for packed
// sequences: status, message, nothing written, and the next call works.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "tests/testing/call.h"
#include "tests/testing/refusal.h"
#include "tests/testing/training_call.h"

namespace flashacl::testing {
namespace {

using C = TrainingBackward;
using Change = std::function<void(C&)>;
using Refusals = std::vector<Refusal<C>>;

Form Shared(aclDataType type, std::vector<int64_t> dims) {
  return WithoutMemory(type, std::move(dims));
}

TrainingSizes Bf16() { return {.type = ACL_BF16}; }

// The layout is looked at before nulls, nulls before values.
TEST(VarLenScoreGradArguments, ChecksInTheDocumentedOrder) {
  const Refusals refusals = {
      {kInvalid, "inputLayout: \"BSH\"",
       [](C& c) {
         c.inputLayout = "BSH";
         c.query.reset();
       }},
      {kNull, "dvOut",
       [](C& c) {
         c.dv.reset();
         c.headNum = 0;
       }},
      {kInvalid, "headNum: 0",
       [](C& c) {
         c.headNum = 0;
         c.value->type = ACL_FLOAT;
       }},
      {kNull, "keyInRope",
       [](C& c) {
         c.queryRope = Form{ACL_FLOAT16, {5, 2, 4}};
         c.sparseMode = 6;
       }},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreGradArguments, RefusesLayoutsAndTypes) {
  const Refusals refusals = {
      {kInvalid, "inputLayout: \"BSND\"", Set(&C::inputLayout, "BSND")},
      {kInvalid, "keyIn: data type", Typed(&C::keyIn, ACL_BF16)},
      {kInvalid, "value: data type", Typed(&C::value, ACL_FLOAT)},
      {kInvalid, "dy: data type", Typed(&C::dy, ACL_FLOAT)},
      {kInvalid, "attentionInOptional: data type",
       Typed(&C::attentionIn, ACL_FLOAT)},
      {kInvalid, "dqOut: data type", Typed(&C::dq, ACL_FLOAT)},
      {kInvalid, "dkOut: data type", Typed(&C::dk, ACL_FLOAT)},
      {kInvalid, "dvOut: data type", Typed(&C::dv, ACL_FLOAT)},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreGradArguments, RefusesShapesAndHeads) {
  const Refusals refusals = {
      {kInvalid, "headNum: -1", Set(&C::headNum, -1)},
      {kInvalid, "headNum: 100", Set(&C::headNum, 100)},
      {kInvalid, "query: shape [5]", Shaped(&C::query, {5})},
      {kInvalid, "dy: shape [5, 16]", Shaped(&C::dy, {5, 16})},
      {kInvalid, "value: shape [7, 1, 8]", [](C& c) { c.value->dims[0] = 7; }},
      {kInvalid, "value: shape [6, 2, 8]", [](C& c) { c.value->dims[1] = 2; }},
      {kInvalid, "dy: shape", [](C& c) { c.dy->dims[0] = 6; }},
      {kInvalid, "dy: head dim 4",
       [](C& c) { c.dy->dims[2] = c.attentionIn->dims[2] = 4; }},
      {kInvalid, "attentionInOptional: shape",
       [](C& c) { c.attentionIn->dims[2] = 4; }},
      {kInvalid, "dqOut: shape", [](C& c) { c.dq->dims[2] = 4; }},
      {kInvalid, "dkOut: shape", [](C& c) { c.dk->dims[0] = 7; }},
      {kInvalid, "dvOut: shape", Shaped(&C::dv, {48})},
      {kInvalid, "keyIn: head dim 9",
       [](C& c) { c.keyIn->dims[2] = c.dk->dims[2] = 9; }},
      {kInvalid, "value: head dim 9", [](C&) {}, TrainingSizes{.v_dim = 9}},
      {kInvalid, "9 heads do not divide the 10 heads", [](C&) {},
       TrainingSizes{.heads = 10, .kv_heads = 9}},
  };
  ExpectRefused(refusals);
}

// Eight copies for each of them do not even count in int64_t.
TEST(VarLenScoreGradArguments, RefusesMoreHeadsThanThereIsMemory) {
  constexpr int64_t kHeads = int64_t{1} << 61;
  const Refusals refusals = {
      {kInvalid, "query: ",
       [](C& c) {
         c.headNum = kHeads;
         for (auto* form : {&c.query, &c.dy, &c.attentionIn, &c.dq,
                            &c.softmaxMax, &c.softmaxSum}) {
           (*form)->dims = {0, kHeads, 8};
           (*form)->strides = {8, 8, 1};
         }
         c.actualSeqQLen = {{0, 0}};
       }},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreGradArguments, RefusesStatisticsAndSinks) {
  const Refusals refusals = {
      {kInvalid, "softmaxMaxOptional: shape [80]",
       Shaped(&C::softmaxMax, {80})},
      {kInvalid, "softmaxSumOptional: shape [5, 8, 2]",
       Shaped(&C::softmaxSum, {5, 8, 2})},
      {kInvalid, "softmaxMaxOptional: strides",
       [](C& c) {
         c.softmaxMax->strides = {16, 80, 1};
       }},
      {kInvalid, "sinkInOptional: shape [1, 2]",
       Formed(&C::sinkIn, {ACL_FLOAT, {1, 2}})},
      {kInvalid, "sinkInOptional: shape [3]",
       Formed(&C::sinkIn, {ACL_FLOAT, {3}})},
      {kInvalid, "dsinkOut: shape [3]",
       All(Formed(&C::sinkIn, {ACL_FLOAT, {2}}),
           Formed(&C::dsink, {ACL_FLOAT, {3}}))},
      {kInvalid, "sinkInOptional", Formed(&C::sinkIn, {ACL_FLOAT, {2}}),
       TrainingSizes{.type = ACL_FLOAT}},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreGradArguments, RefusesLengths) {
  const Refusals refusals = {
      {kInvalid, "actualSeqQLenOptional", Without(&C::actualSeqQLen)},
      {kInvalid, "actualSeqKvLenOptional", Without(&C::actualSeqKvLen)},
      {kInvalid, "actualSeqKvLenOptional: no elements",
       [](C& c) { c.actualSeqKvLen = {std::vector<int64_t>{}}; }},
      {kInvalid, "1 elements", Set(&C::actualSeqKvLen, {{6}})},
      {kInvalid, "actualSeqQLenOptional: sequence 1",
       Set(&C::actualSeqQLen, {{3, 6}})},
      {kInvalid, "actualSeqKvLenOptional: sequence 0",
       Set(&C::actualSeqKvLen, {{7, 8}})},
  };
  ExpectRefused(refusals);
}

// Good with rope, before a test changes it.
void AddRope(C& c) {
  c.queryRope = c.dqRope = Form{ACL_BF16, {5, 2, 4}};
  c.keyInRope = c.dkRope = Form{ACL_BF16, {6, 1, 4}};
  c.attenMask = Shared(ACL_BOOL, {2048, 2048});
  c.sparseMode = 2;
}

Change WithRope(Change change) {
  return [change](C& c) {
    AddRope(c);
    change(c);
  };
}

TEST(VarLenScoreGradArguments, RefusesRopeWithoutItsCompanions) {
  const Refusals refusals = {
      {kNull, "keyInRope", WithRope(Without(&C::keyInRope)), Bf16()},
      {kNull, "queryRope", WithRope(Without(&C::queryRope)), Bf16()},
      {kNull, "attenMaskOptional", WithRope(Without(&C::attenMask)), Bf16()},
      {kNull, "dqRopeOut", WithRope(Without(&C::dqRope)), Bf16()},
      {kNull, "dkRopeOut", WithRope(Without(&C::dkRope)), Bf16()},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreGradArguments, RefusesRopeWithOtherThings) {
  const Refusals refusals = {
      {kInvalid, "pseShiftOptional",
       WithRope(Formed(&C::pseShift, {ACL_BF16, {32}})), Bf16()},
      {kInvalid, "dropMaskOptional",
       WithRope(Formed(&C::dropMask, {ACL_UINT8, {4}})), Bf16()},
      {kInvalid, "keepProb: 0.5", WithRope(Set(&C::keepProb, 0.5)), Bf16()},
      {kInvalid, "sparseMode: 6", WithRope(Set(&C::sparseMode, 6)), Bf16()},
      {kInvalid, "queryRope: data type", WithRope([](C& c) {
         c.queryRope->type = c.keyInRope->type = ACL_FLOAT16;
         c.dqRope->type = c.dkRope->type = ACL_FLOAT16;
       })},
      {kInvalid, "queryRope: data type", WithRope([](C&) {})},
      {kInvalid, "queryRope: head dim 9", WithRope([](C& c) {
         for (auto* form : {&c.queryRope, &c.keyInRope, &c.dqRope, &c.dkRope}) {
           (*form)->dims[2] = 9;
         }
       }),
       Bf16()},
      {kInvalid, "queryRope: shape",
       WithRope([](C& c) { c.queryRope->dims[0] = 6; }), Bf16()},
      {kInvalid, "keyInRope: head dim 3",
       WithRope([](C& c) { c.keyInRope->dims[2] = 3; }), Bf16()},
      {kInvalid, "dqRopeOut: shape",
       WithRope([](C& c) { c.dqRope->dims[2] = 3; }), Bf16()},
      {kInvalid, "dkRopeOut: data type",
       WithRope(Typed(&C::dkRope, ACL_FLOAT16)), Bf16()},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreGradArguments, RefusesMasks) {
  const auto shape = [](int64_t mode, std::vector<int64_t> dims) {
    return [mode, dims](C& c) {
      c.sparseMode = mode;
      c.attenMask = Shared(ACL_BOOL, dims);
    };
  };
  const std::string name = "attenMaskOptional: shape";
  const Refusals refusals = {
      {kInvalid, "sparseMode: 5", shape(5, {3, 4})},
      {kInvalid, "sparseMode: 9", shape(9, {3, 4})},
      {kInvalid, "sparseMode: -1", shape(-1, {3, 4})},
      {kInvalid, name, shape(0, {2, 3, 4})},
      {kInvalid, name, shape(1, {1000, 1000})},
      {kInvalid, name, shape(2, {3, 4})},
      {kInvalid, name, shape(6, {2048, 2048})},
      {kInvalid, "attenMaskOptional: strides", shape(0, {2, 1, 3, 4})},
      {kInvalid, "prefixOptional: 0 elements", shape(6, {3072, 2048})},
      {kInvalid, "prefixOptional: 1 elements",
       [](C& c) {
         c.sparseMode = 6;
         c.prefix = {{4}};
         c.attenMask = Shared(ACL_BOOL, {3072, 2048});
       }},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreGradArguments, RefusesTokens) {
  const auto tokens = [](int64_t mode, int64_t pre, int64_t next) {
    return [=](C& c) {
      c.sparseMode = mode;
      c.preTokens = pre;
      c.nextTokens = next;
      c.attenMask =
          mode == 0 ? Form{ACL_BOOL, {3, 4}} : Shared(ACL_BOOL, {2048, 2048});
    };
  };
  const Refusals refusals = {
      {kInvalid, "preTokens: -3", tokens(0, -3, 9)},
      {kInvalid, "nextTokens: -3", tokens(0, 9, -3)},
      {kInvalid, "preTokens: 0", tokens(0, 0, 0)},
      {kInvalid, "preTokens: 1", tokens(0, 1, -1)},
      {kInvalid, "preTokens: -3", tokens(4, -3, 9)},
      {kInvalid, "nextTokens: -3", tokens(4, 9, -3)},
      {kInvalid, "preTokens: -1", tokens(4, -1, 1)},
      {kInvalid, "preTokens: -3", tokens(7, -3, 9)},
      {kInvalid, "nextTokens: -5", tokens(8, 9, -5)},
      {kInvalid, "preTokens: 0", tokens(8, 0, 0)},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreGradArguments, RefusesPse) {
  const TrainingSizes even{.rows = {4, 2}, .columns = {4, 2}};
  const auto split = [](int64_t mode, int64_t type) {
    return [=](C& c) {
      c.sparseMode = mode;
      c.nextTokens = 0;
      c.attenMask = Shared(ACL_BOOL, {2048, 2048});
      c.pseType = type;
      c.pseShift =
          type < 2 ? Form{ACL_FLOAT16, {2 * 20}} : Form{ACL_FLOAT, {2}};
    };
  };
  const auto typed = [](int64_t type, Form form) {
    return [=](C& c) {
      c.pseType = type;
      c.pseShift = form;
    };
  };
  const Refusals refusals = {
      {kInvalid, "pseType: 4", typed(4, {ACL_FLOAT16, {32}})},
      {kInvalid, "pseType: -1", typed(-1, {ACL_FLOAT16, {32}})},
      {kInvalid, "pseShiftOptional: none", Set(&C::pseType, 0)},
      {kInvalid, "pseShiftOptional: none", Set(&C::pseType, 2)},
      {kInvalid, "pseShiftOptional: data type", typed(1, {ACL_FLOAT, {32}})},
      {kInvalid, "pseShiftOptional: data type", typed(2, {ACL_FLOAT16, {2}})},
      {kInvalid, "pseShiftOptional: shape [3]", typed(2, {ACL_FLOAT, {3}})},
      {kInvalid, "pseShiftOptional: shape [1, 2]",
       typed(3, {ACL_FLOAT, {1, 2}})},
      {kInvalid, "pseShiftOptional: shape [33]", typed(1, {ACL_FLOAT16, {33}})},
      {kInvalid, "pseShiftOptional: shape",
       typed(1, {ACL_FLOAT16, {2, 2, 3, 4}})},
      {kInvalid, "pseShiftOptional: compressed",
       typed(1, Shared(ACL_FLOAT16, {1, 2, 1024, 4}))},
      {kInvalid, "sparseMode 7", split(7, 1), even},
      {kInvalid, "sparseMode 7", split(7, 2), even},
      {kInvalid, "starts 1 apart",
       [&](C& c) {
         split(8, 2)(c);
         c.qStartIdx = {{1}};
       },
       even},
      {kInvalid, "qStartIdxOptional", Set(&C::qStartIdx, {{INT64_MAX}})},
      {kInvalid, "keepProb: 0", Set(&C::keepProb, 0)},
      {kInvalid, "keepProb: 2", Set(&C::keepProb, 2)},
      {kInvalid, "dropMaskOptional: 3 bytes",
       [](C& c) {
         c.keepProb = 0.5;
         c.dropMask = Form{ACL_UINT8, {3}};
       }},
  };
  ExpectRefused(refusals);
}

// V4 alone looks at the text; the others take any.
TEST(VarLenScoreGradArguments, OnlyV4RefusesUnknownOrders) {
  for (const char* text : {"TND", "SAME_AS_INPUT", "x"}) {
    for (const int version : {4, 5}) {
      SCOPED_TRACE(std::string(text) + std::to_string(version));
      C call({}, version);
      call.softmaxInLayout = text;
      if (version == 5) {
        EXPECT_TRUE(Runs(call));
      } else {
        TrainingFixture(call).ExpectFailure(kInvalid, "softmaxInLayout: \"");
        // Before anything else is looked at.
        call.query.reset();
        TrainingFixture(call).ExpectFailure(kInvalid, "softmaxInLayout: \"");
      }
    }
  }
  for (const char* text : {"", "same_as_input"}) {
    C call({}, 4);
    call.softmaxInLayout = text;
    EXPECT_TRUE(Runs(call)) << text;
  }
}

TEST(VarLenScoreGradArguments, MaxWorkspaceRefusesADropMask) {
  C call;
  call.dropMask = Form{ACL_UINT8, {4}};
  TrainingFixture(call, call.Name() + "Max")
      .ExpectFailure(kInvalid, "dropMaskOptional");
}

}  // namespace
}  // namespace flashacl::testing
