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
#include "tests/testing/training_call.h"
#include "tests/testing/training_refusal.h"

namespace flashacl::testing {
namespace {

using C = TrainingBackward;
using Change = std::function<void(C&)>;
using Refusals = std::vector<Refusal<TrainingBackward>>;

Form Shared(aclDataType type, std::vector<int64_t> dims) {
  return WithoutMemory(type, std::move(dims));
}

TrainingSizes Bf16() { return {.type = ACL_BF16}; }

TEST(VarLenScoreGradArguments, RefusesNull) {
  const Refusals refusals = {
      {"layout", kNull, "inputLayout", [](C& c) { c.inputLayout.reset(); }},
      {"query", kNull, "query", [](C& c) { c.query.reset(); }},
      {"keyIn", kNull, "keyIn", [](C& c) { c.keyIn.reset(); }},
      {"value", kNull, "value", [](C& c) { c.value.reset(); }},
      {"dy", kNull, "dy", [](C& c) { c.dy.reset(); }},
      {"attentionIn", kNull, "attentionInOptional",
       [](C& c) { c.attentionIn.reset(); }},
      {"dq", kNull, "dqOut", [](C& c) { c.dq.reset(); }},
      {"dk", kNull, "dkOut", [](C& c) { c.dk.reset(); }},
      {"dv", kNull, "dvOut", [](C& c) { c.dv.reset(); }},
      {"max", kNull, "softmaxMaxOptional", [](C& c) { c.softmaxMax.reset(); }},
      {"sum", kNull, "softmaxSumOptional", [](C& c) { c.softmaxSum.reset(); }},
      {"drop mask", kNull, "dropMaskOptional", [](C& c) { c.keepProb = 0.5; }},
  };
  ExpectRefused(refusals);
}

// The layout is looked at before nulls, nulls before values.
TEST(VarLenScoreGradArguments, ChecksInTheDocumentedOrder) {
  const Refusals refusals = {
      {"layout before null", kInvalid, "inputLayout: \"BSH\"",
       [](C& c) {
         c.inputLayout = "BSH";
         c.query.reset();
       }},
      {"null before headNum", kNull, "dvOut",
       [](C& c) {
         c.dv.reset();
         c.headNum = 0;
       }},
      {"headNum before types", kInvalid, "headNum: 0",
       [](C& c) {
         c.headNum = 0;
         c.value->type = ACL_FLOAT;
       }},
      {"one rope before its type", kNull, "keyInRope",
       [](C& c) {
         c.queryRope = Form{ACL_FLOAT16, {5, 2, 4}};
         c.sparseMode = 6;
       }},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreGradArguments, RefusesLayoutsFormatsAndTypes) {
  const auto every_type = [](C& c, aclDataType type) {
    for (auto* form : {&c.query, &c.keyIn, &c.value, &c.dy, &c.attentionIn,
                       &c.dq, &c.dk, &c.dv}) {
      (*form)->type = type;
    }
  };
  const Refusals refusals = {
      {"BSND", kInvalid, "inputLayout: \"BSND\"",
       [](C& c) { c.inputLayout = "BSND"; }},
      {"format", kInvalid, "keyIn: private format",
       [](C& c) { c.keyIn->format = ACL_FORMAT_FRACTAL_NZ; }},
      {"int8", kInvalid, "query: data type",
       [&](C& c) { every_type(c, ACL_INT8); }},
      {"key", kInvalid, "keyIn: data type",
       [](C& c) { c.keyIn->type = ACL_BF16; }},
      {"value", kInvalid, "value: data type",
       [](C& c) { c.value->type = ACL_FLOAT; }},
      {"dy", kInvalid, "dy: data type", [](C& c) { c.dy->type = ACL_FLOAT; }},
      {"attentionIn", kInvalid, "attentionInOptional: data type",
       [](C& c) { c.attentionIn->type = ACL_FLOAT; }},
      {"dq", kInvalid, "dqOut: data type",
       [](C& c) { c.dq->type = ACL_FLOAT; }},
      {"dk", kInvalid, "dkOut: data type",
       [](C& c) { c.dk->type = ACL_FLOAT; }},
      {"dv", kInvalid, "dvOut: data type",
       [](C& c) { c.dv->type = ACL_FLOAT; }},
      {"max", kInvalid, "softmaxMaxOptional: data type",
       [](C& c) { c.softmaxMax->type = ACL_FLOAT16; }},
      {"sum", kInvalid, "softmaxSumOptional: data type",
       [](C& c) { c.softmaxSum->type = ACL_FLOAT16; }},
      {"sink", kInvalid, "sinkInOptional: data type",
       [](C& c) {
         c.sinkIn = Form{ACL_FLOAT16, {2}};
       }},
      {"dsink", kInvalid, "dsinkOut: data type",
       [](C& c) {
         c.sinkIn = Form{ACL_FLOAT, {2}};
         c.dsink = Form{ACL_BF16, {2}};
       }},
      {"mask", kInvalid, "attenMaskOptional: data type",
       [](C& c) {
         c.attenMask = Form{ACL_FLOAT, {3, 4}};
       }},
      {"drop mask", kInvalid, "dropMaskOptional: data type",
       [](C& c) {
         c.dropMask = Form{ACL_BOOL, {16}};
         c.keepProb = 0.5;
       }},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreGradArguments, RefusesShapesAndHeads) {
  const Refusals refusals = {
      {"headNum -1", kInvalid, "headNum: -1", [](C& c) { c.headNum = -1; }},
      {"headNum 100", kInvalid, "headNum: 100", [](C& c) { c.headNum = 100; }},
      {"query rank", kInvalid, "query: shape [5]",
       [](C& c) { c.query->dims = {5}; }},
      {"dy rank", kInvalid, "dy: shape [5, 16]",
       [](C& c) {
         c.dy->dims = {5, 16};
       }},
      {"value rows", kInvalid, "value: shape [7, 1, 8]",
       [](C& c) { c.value->dims[0] = 7; }},
      {"value heads", kInvalid, "value: shape [6, 2, 8]",
       [](C& c) { c.value->dims[1] = 2; }},
      {"dy rows", kInvalid, "dy: shape", [](C& c) { c.dy->dims[0] = 6; }},
      {"dy dim", kInvalid, "dy: head dim 4",
       [](C& c) { c.dy->dims[2] = c.attentionIn->dims[2] = 4; }},
      {"attentionIn", kInvalid, "attentionInOptional: shape",
       [](C& c) { c.attentionIn->dims[2] = 4; }},
      {"dq", kInvalid, "dqOut: shape", [](C& c) { c.dq->dims[2] = 4; }},
      {"dk", kInvalid, "dkOut: shape", [](C& c) { c.dk->dims[0] = 7; }},
      {"dv", kInvalid, "dvOut: shape", [](C& c) { c.dv->dims = {48}; }},
      {"key dim", kInvalid, "keyIn: head dim 9",
       [](C& c) { c.keyIn->dims[2] = c.dk->dims[2] = 9; }},
      {"value dim", kInvalid, "value: head dim 9", [](C&) {},
       TrainingSizes{.v_dim = 9}},
      {"N % Nkv", kInvalid, "9 heads do not divide the 10 heads", [](C&) {},
       TrainingSizes{.heads = 10, .kv_heads = 9}},
  };
  ExpectRefused(refusals);
}

// Eight copies for each of them do not even count in int64_t.
TEST(VarLenScoreGradArguments, RefusesMoreHeadsThanThereIsMemory) {
  constexpr int64_t kHeads = int64_t{1} << 61;
  const Refusals refusals = {
      {"heads", kInvalid, "query: ",
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
      {"max shape", kInvalid, "softmaxMaxOptional: shape [80]",
       [](C& c) { c.softmaxMax->dims = {80}; }},
      {"sum shape", kInvalid, "softmaxSumOptional: shape [5, 8, 2]",
       [](C& c) {
         c.softmaxSum->dims = {5, 8, 2};
       }},
      {"max strides", kInvalid, "softmaxMaxOptional: strides",
       [](C& c) {
         c.softmaxMax->strides = {16, 80, 1};
       }},
      {"sink rank", kInvalid, "sinkInOptional: shape [1, 2]",
       [](C& c) {
         c.sinkIn = Form{ACL_FLOAT, {1, 2}};
       }},
      {"sink length", kInvalid, "sinkInOptional: shape [3]",
       [](C& c) {
         c.sinkIn = Form{ACL_FLOAT, {3}};
       }},
      {"dsink length", kInvalid, "dsinkOut: shape [3]",
       [](C& c) {
         c.sinkIn = Form{ACL_FLOAT, {2}};
         c.dsink = Form{ACL_FLOAT, {3}};
       }},
      {"sink with fp32", kInvalid, "sinkInOptional",
       [](C& c) {
         c.sinkIn = Form{ACL_FLOAT, {2}};
       },
       TrainingSizes{.type = ACL_FLOAT}},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreGradArguments, RefusesLengths) {
  const Refusals refusals = {
      {"q null", kInvalid, "actualSeqQLenOptional",
       [](C& c) { c.actualSeqQLen.reset(); }},
      {"kv null", kInvalid, "actualSeqKvLenOptional",
       [](C& c) { c.actualSeqKvLen.reset(); }},
      {"empty", kInvalid, "actualSeqKvLenOptional: no elements",
       [](C& c) { c.actualSeqKvLen = {std::vector<int64_t>{}}; }},
      {"sizes", kInvalid, "1 elements", [](C& c) { c.actualSeqKvLen = {{6}}; }},
      {"beyond T1", kInvalid, "actualSeqQLenOptional: sequence 1",
       [](C& c) {
         c.actualSeqQLen = {{3, 6}};
       }},
      {"beyond T2", kInvalid, "actualSeqKvLenOptional: sequence 0",
       [](C& c) {
         c.actualSeqKvLen = {{7, 8}};
       }},
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
      {"query rope alone", kNull, "keyInRope",
       WithRope([](C& c) { c.keyInRope.reset(); }), Bf16()},
      {"key rope alone", kNull, "queryRope",
       WithRope([](C& c) { c.queryRope.reset(); }), Bf16()},
      {"no mask", kNull, "attenMaskOptional",
       WithRope([](C& c) { c.attenMask.reset(); }), Bf16()},
      {"no dqRope", kNull, "dqRopeOut",
       WithRope([](C& c) { c.dqRope.reset(); }), Bf16()},
      {"no dkRope", kNull, "dkRopeOut",
       WithRope([](C& c) { c.dkRope.reset(); }), Bf16()},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreGradArguments, RefusesRopeWithOtherThings) {
  const Refusals refusals = {
      {"pse", kInvalid, "pseShiftOptional", WithRope([](C& c) {
         c.pseShift = Form{ACL_BF16, {32}};
       }),
       Bf16()},
      {"drop mask", kInvalid, "dropMaskOptional", WithRope([](C& c) {
         c.dropMask = Form{ACL_UINT8, {4}};
       }),
       Bf16()},
      {"keepProb", kInvalid, "keepProb: 0.5",
       WithRope([](C& c) { c.keepProb = 0.5; }), Bf16()},
      {"mode 6", kInvalid, "sparseMode: 6",
       WithRope([](C& c) { c.sparseMode = 6; }), Bf16()},
      {"fp16", kInvalid, "queryRope: data type", WithRope([](C& c) {
         c.queryRope->type = c.keyInRope->type = ACL_FLOAT16;
         c.dqRope->type = c.dkRope->type = ACL_FLOAT16;
       })},
      {"fp16 with bf16 rope", kInvalid, "queryRope: data type",
       WithRope([](C&) {})},
      {"wide", kInvalid, "queryRope: head dim 9", WithRope([](C& c) {
         for (auto* form : {&c.queryRope, &c.keyInRope, &c.dqRope, &c.dkRope}) {
           (*form)->dims[2] = 9;
         }
       }),
       Bf16()},
      {"rows", kInvalid, "queryRope: shape",
       WithRope([](C& c) { c.queryRope->dims[0] = 6; }), Bf16()},
      {"dims", kInvalid, "keyInRope: head dim 3",
       WithRope([](C& c) { c.keyInRope->dims[2] = 3; }), Bf16()},
      {"dqRope", kInvalid, "dqRopeOut: shape",
       WithRope([](C& c) { c.dqRope->dims[2] = 3; }), Bf16()},
      {"dkRope type", kInvalid, "dkRopeOut: data type",
       WithRope([](C& c) { c.dkRope->type = ACL_FLOAT16; }), Bf16()},
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
      {"mode 5", kInvalid, "sparseMode: 5", shape(5, {3, 4})},
      {"mode 9", kInvalid, "sparseMode: 9", shape(9, {3, 4})},
      {"mode -1", kInvalid, "sparseMode: -1", shape(-1, {3, 4})},
      {"rank 3", kInvalid, name, shape(0, {2, 3, 4})},
      {"too large", kInvalid, name, shape(1, {1000, 1000})},
      {"mode 2 full", kInvalid, name, shape(2, {3, 4})},
      {"mode 6, 2048", kInvalid, name, shape(6, {2048, 2048})},
      {"packed strides", kInvalid, "attenMaskOptional: strides",
       shape(0, {2, 1, 3, 4})},
      {"no prefix", kInvalid, "prefixOptional: 0 elements",
       shape(6, {3072, 2048})},
      {"prefix of one", kInvalid, "prefixOptional: 1 elements",
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
      {"0: left of all", kInvalid, "preTokens: -3", tokens(0, -3, 9)},
      {"0: below all", kInvalid, "nextTokens: -3", tokens(0, 9, -3)},
      {"0: diagonal", kInvalid, "preTokens: 0", tokens(0, 0, 0)},
      {"0: empty", kInvalid, "preTokens: 1", tokens(0, 1, -1)},
      {"4: right of all", kInvalid, "preTokens: -3", tokens(4, -3, 9)},
      {"4: left of all", kInvalid, "nextTokens: -3", tokens(4, 9, -3)},
      {"4: empty", kInvalid, "preTokens: -1", tokens(4, -1, 1)},
      {"7: last", kInvalid, "preTokens: -3", tokens(7, -3, 9)},
      {"8: first", kInvalid, "nextTokens: -5", tokens(8, 9, -5)},
      {"8: empty", kInvalid, "preTokens: 0", tokens(8, 0, 0)},
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
      {"type 4", kInvalid, "pseType: 4", typed(4, {ACL_FLOAT16, {32}})},
      {"type -1", kInvalid, "pseType: -1", typed(-1, {ACL_FLOAT16, {32}})},
      {"type 0, none", kInvalid, "pseShiftOptional: none",
       [](C& c) { c.pseType = 0; }},
      {"type 2, none", kInvalid, "pseShiftOptional: none",
       [](C& c) { c.pseType = 2; }},
      {"type 1, fp32", kInvalid, "pseShiftOptional: data type",
       typed(1, {ACL_FLOAT, {32}})},
      {"type 2, fp16", kInvalid, "pseShiftOptional: data type",
       typed(2, {ACL_FLOAT16, {2}})},
      {"slopes [3]", kInvalid, "pseShiftOptional: shape [3]",
       typed(2, {ACL_FLOAT, {3}})},
      {"slopes [1, 2]", kInvalid, "pseShiftOptional: shape [1, 2]",
       typed(3, {ACL_FLOAT, {1, 2}})},
      {"flat", kInvalid, "pseShiftOptional: shape [33]",
       typed(1, {ACL_FLOAT16, {33}})},
      {"[B, N, 3, S]", kInvalid, "pseShiftOptional: shape",
       typed(1, {ACL_FLOAT16, {2, 2, 3, 4}})},
      {"compressed, short", kInvalid, "pseShiftOptional: compressed",
       typed(1, Shared(ACL_FLOAT16, {1, 2, 1024, 4}))},
      {"mode 7", kInvalid, "sparseMode 7", split(7, 1), even},
      {"mode 7, slopes", kInvalid, "sparseMode 7", split(7, 2), even},
      {"mode 8, starts", kInvalid, "starts 1 apart",
       [&](C& c) {
         split(8, 2)(c);
         c.qStartIdx = {{1}};
       },
       even},
      {"start", kInvalid, "qStartIdxOptional",
       [](C& c) { c.qStartIdx = {{INT64_MAX}}; }},
      {"keepProb 0", kInvalid, "keepProb: 0", [](C& c) { c.keepProb = 0; }},
      {"keepProb 2", kInvalid, "keepProb: 2", [](C& c) { c.keepProb = 2; }},
      {"drop mask bytes", kInvalid, "dropMaskOptional: 3 bytes",
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
