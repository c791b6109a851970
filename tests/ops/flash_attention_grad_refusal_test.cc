// SPDX-License-Identifier: Apache-2.0
// Every line of the dense backward's validation tables, in all versions.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/testing/call.h"
#include "tests/testing/training_call.h"
#include "tests/testing/training_refusal.h"

namespace flashacl::testing {
namespace {

using C = TrainingBackward;
using Refusals = std::vector<Refusal<TrainingBackward>>;

TrainingSizes Two(const std::string& layout) {
  return {.rows = {3, 3}, .columns = {4, 4}, .layout = layout};
}

TEST(ScoreGradArguments, RefusesNull) {
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
  ExpectRefused(refusals, Two("SBH"));
}

TEST(ScoreGradArguments, RefusesLayoutsFormatsAndTypes) {
  const auto layout = [](const std::string& name) {
    return Refusal<C>{name, kInvalid, "expected \"BSH\", \"SBH\"",
                      [name](C& c) { c.inputLayout = name; }};
  };
  const Refusals refusals = {
      layout("BND"),
      layout("TND"),
      layout("bnsd"),
      layout(""),
      {"format", kInvalid, "dy: private format",
       [](C& c) { c.dy->format = ACL_FORMAT_FRACTAL_NZ; }},
      {"key", kInvalid, "keyIn: data type",
       [](C& c) { c.keyIn->type = ACL_BF16; }},
      {"dy", kInvalid, "dy: data type", [](C& c) { c.dy->type = ACL_FLOAT; }},
      {"dk", kInvalid, "dkOut: data type",
       [](C& c) { c.dk->type = ACL_FLOAT; }},
      {"max", kInvalid, "softmaxMaxOptional: data type",
       [](C& c) { c.softmaxMax->type = ACL_FLOAT16; }},
      {"sink", kInvalid, "sinkInOptional: data type",
       [](C& c) {
         c.sinkIn = Form{ACL_FLOAT16, {2}};
       }},
      {"mask", kInvalid, "attenMaskOptional: data type",
       [](C& c) {
         c.attenMask = Form{ACL_FLOAT, {3, 4}};
       }},
  };
  ExpectRefused(refusals, Two("BNSD"));
}

TEST(ScoreGradArguments, RefusesShapesAndHeads) {
  const Refusals refusals = {
      {"headNum 0", kInvalid, "headNum: 0", [](C& c) { c.headNum = 0; }},
      {"headNum 100", kInvalid, "headNum: 100", [](C& c) { c.headNum = 100; }},
      {"query rank", kInvalid, "query: shape [2, 3]",
       [](C& c) {
         c.query->dims = {2, 3};
       }},
      {"value Skv", kInvalid, "value: shape", [](C& c) { ++c.value->dims[2]; }},
      {"dy Sq", kInvalid, "dy: shape", [](C& c) { ++c.dy->dims[2]; }},
      {"dy dim", kInvalid, "dy: head dim 4",
       [](C& c) { c.dy->dims[3] = c.attentionIn->dims[3] = 4; }},
      {"attentionIn", kInvalid, "attentionInOptional: shape",
       [](C& c) { c.attentionIn->dims[3] = 4; }},
      {"dq", kInvalid, "dqOut: shape", [](C& c) { c.dq->dims[3] = 4; }},
      {"dk", kInvalid, "dkOut: shape", [](C& c) { ++c.dk->dims[0]; }},
      {"dv", kInvalid, "dvOut: shape", [](C& c) { c.dv->dims = {64}; }},
      {"key dim", kInvalid, "keyIn: head dim 9",
       [](C& c) { c.keyIn->dims[3] = c.dk->dims[3] = 9; }},
      {"B", kInvalid, "keyIn: 3 sequences do not match the 2 of query",
       [](C& c) {
         for (auto* form : {&c.keyIn, &c.value, &c.dk, &c.dv}) {
           (*form)->dims[0] = 3;
         }
       }},
      {"value dim", kInvalid, "value: head dim 9", [](C&) {},
       TrainingSizes{
           .rows = {3}, .columns = {4}, .v_dim = 9, .layout = "BNSD"}},
      {"N % Nkv", kInvalid, "9 heads do not divide the 10 heads", [](C&) {},
       TrainingSizes{.rows = {3},
                     .columns = {4},
                     .heads = 10,
                     .kv_heads = 9,
                     .layout = "BNSD"}},
  };
  ExpectRefused(refusals, Two("BNSD"));
}

TEST(ScoreGradArguments, RefusesHeadsThatAreFoldedUnevenly) {
  const Refusals refusals = {
      {"query", kInvalid, "query: last axis 16 of layout BSH",
       [](C& c) { c.headNum = 3; }},
      {"key", kInvalid, "keyIn: last axis 9",
       [](C& c) { c.keyIn->dims[2] = c.dk->dims[2] = 9; }},
      {"value", kInvalid, "value: last axis 9",
       [](C& c) {
         c.keyIn->dims[2] = c.dk->dims[2] = 16;
         c.value->dims[2] = c.dv->dims[2] = 9;
       }},
  };
  ExpectRefused(refusals, Two("BSH"));
}

TEST(ScoreGradArguments, RefusesStatisticsAndSinks) {
  const Refusals refusals = {
      {"max order", kInvalid, "softmaxMaxOptional: shape [2, 3, 2, 8]",
       [](C& c) {
         c.softmaxMax->dims = {2, 3, 2, 8};
       }},
      {"sum rank", kInvalid, "softmaxSumOptional: shape [12, 8]",
       [](C& c) {
         c.softmaxSum->dims = {12, 8};
       }},
      {"sink", kInvalid, "sinkInOptional: shape [3]",
       [](C& c) {
         c.sinkIn = Form{ACL_FLOAT, {3}};
       }},
      {"dsink", kInvalid, "dsinkOut: shape [1]",
       [](C& c) {
         c.sinkIn = Form{ACL_FLOAT, {2}};
         c.dsink = Form{ACL_FLOAT, {1}};
       }},
      {"sink of FLOAT", kInvalid, "sinkInOptional: given",
       [](C& c) {
         c.sinkIn = Form{ACL_FLOAT, {2}};
       },
       TrainingSizes{.type = ACL_FLOAT,
                     .rows = {3, 3},
                     .columns = {4, 4},
                     .layout = "BSND"}},
  };
  ExpectRefused(refusals, Two("BSND"));
}

TEST(ScoreGradArguments, RefusesMasksAndPrefixes) {
  const auto shape = [](int64_t mode, std::vector<int64_t> dims) {
    return [mode, dims](C& c) {
      c.sparseMode = mode;
      c.attenMask = WithoutMemory(ACL_BOOL, dims);
    };
  };
  const std::string name = "attenMaskOptional: shape";
  Refusals refusals = {
      {"rank 3", kInvalid, name, shape(0, {2, 3, 4})},
      {"[B S, B S]", kInvalid, name, shape(1, {6, 8})},
      {"mode 5, [S, S]", kInvalid, name, shape(5, {3, 4})},
      {"mode 2, full", kInvalid, name, shape(2, {3, 4})},
      {"mode 6, 2048", kInvalid, name, shape(6, {2048, 2048})},
      {"no prefix", kInvalid, "prefixOptional: 0 elements",
       shape(6, {3072, 2048})},
  };
  for (const int64_t mode : {-1, 7, 8, 9}) {
    refusals.push_back(
        {"mode", kInvalid,
         "sparseMode: " + std::to_string(mode) + ", expected 0 to 6",
         shape(mode, {3, 4})});
  }
  ExpectRefused(refusals, Two("BSND"));
}

TEST(ScoreGradArguments, RefusesTokens) {
  const auto tokens = [](int64_t mode, int64_t pre, int64_t next) {
    return [=](C& c) {
      c.sparseMode = mode;
      c.preTokens = pre;
      c.nextTokens = next;
      c.attenMask = mode == 0 ? Form{ACL_BOOL, {3, 4}}
                              : WithoutMemory(ACL_BOOL, {2048, 2048});
    };
  };
  const Refusals refusals = {
      {"0: right of all", kInvalid, "preTokens: -5", tokens(0, -5, 9)},
      {"0: below all", kInvalid, "nextTokens: -4", tokens(0, 9, -4)},
      {"0: empty", kInvalid, "preTokens: 1", tokens(0, 1, -2)},
      {"4: right of all", kInvalid, "preTokens: -4", tokens(4, -4, 9)},
      {"4: left of all", kInvalid, "nextTokens: -5", tokens(4, 9, -5)},
      {"4: empty", kInvalid, "preTokens: -1", tokens(4, -1, 0)},
  };
  ExpectRefused(refusals, Two("BNSD"));
  // The diagonal alone is a band here, and so is one that only touches.
  const TrainingSizes sizes = Two("BNSD");
  ExpectPlanned<C>("0: diagonal", sizes, tokens(0, 0, 0));
  ExpectPlanned<C>("0: touches", sizes, tokens(0, -4, 9));
  ExpectPlanned<C>("4: touches", sizes, tokens(4, 9, -4));
}

TEST(ScoreGradArguments, RefusesPseAndDropout) {
  const auto typed = [](int64_t type, Form form) {
    return [=](C& c) {
      c.pseType = type;
      c.pseShift = form;
    };
  };
  const Refusals refusals = {
      {"type 4", kInvalid, "pseType: 4", typed(4, {ACL_FLOAT16, {48}})},
      {"type 0, none", kInvalid, "pseShiftOptional: none",
       [](C& c) { c.pseType = 0; }},
      {"type 3, none", kInvalid, "pseShiftOptional: none",
       [](C& c) { c.pseType = 3; }},
      {"type 1, fp32", kInvalid, "pseShiftOptional: data type",
       typed(1, {ACL_FLOAT, {2, 2, 3, 4}})},
      {"type 2, fp16", kInvalid, "pseShiftOptional: data type",
       typed(2, {ACL_FLOAT16, {2}})},
      {"slopes [3]", kInvalid, "pseShiftOptional: shape [3]",
       typed(2, {ACL_FLOAT, {3}})},
      {"flat", kInvalid, "pseShiftOptional: shape [48]",
       typed(1, {ACL_FLOAT16, {48}})},
      {"[B, N, 2, S]", kInvalid, "pseShiftOptional: shape",
       typed(1, {ACL_FLOAT16, {2, 2, 2, 4}})},
      {"compressed, short", kInvalid, "pseShiftOptional: compressed",
       typed(1, WithoutMemory(ACL_FLOAT16, {1, 2, 1024, 4}))},
      {"keepProb 0", kInvalid, "keepProb: 0", [](C& c) { c.keepProb = 0; }},
      {"keepProb nan", kInvalid, "keepProb",
       [](C& c) { c.keepProb = std::nan(""); }},
      {"drop mask bytes", kInvalid, "dropMaskOptional: 5 bytes",
       [](C& c) {
         c.keepProb = 0.5;
         c.dropMask = Form{ACL_UINT8, {5}};
       }},
  };
  ExpectRefused(refusals, Two("BNSD"));
}

}  // namespace
}  // namespace flashacl::testing
