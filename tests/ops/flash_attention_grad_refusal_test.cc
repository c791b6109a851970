// SPDX-License-Identifier: Apache-2.0
// Every line of the dense backward's validation tables, in all versions.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/testing/call.h"
#include "tests/testing/refusal.h"
#include "tests/testing/training_call.h"

namespace flashacl::testing {
namespace {

using C = TrainingBackward;
using Refusals = std::vector<Refusal<C>>;

TrainingSizes Two(const std::string& layout) {
  return {.rows = {3, 3}, .columns = {4, 4}, .layout = layout};
}

TEST(ScoreGradArguments, RefusesLayoutsAndTypes) {
  const auto layout = [](const std::string& name) {
    return Refusal<C>{kInvalid, "expected \"BSH\", \"SBH\"",
                      Set(&C::inputLayout, name)};
  };
  const Refusals refusals = {
      layout("BND"),
      layout("TND"),
      layout("bnsd"),
      layout(""),
      {kInvalid, "keyIn: data type", Typed(&C::keyIn, ACL_BF16)},
      {kInvalid, "dy: data type", Typed(&C::dy, ACL_FLOAT)},
      {kInvalid, "dkOut: data type", Typed(&C::dk, ACL_FLOAT)},
  };
  ExpectRefused(refusals, Two("BNSD"));
}

TEST(ScoreGradArguments, RefusesShapesAndHeads) {
  const Refusals refusals = {
      {kInvalid, "headNum: 0", Set(&C::headNum, 0)},
      {kInvalid, "headNum: 100", Set(&C::headNum, 100)},
      {kInvalid, "query: shape [2, 3]", Shaped(&C::query, {2, 3})},
      {kInvalid, "value: shape", [](C& c) { ++c.value->dims[2]; }},
      {kInvalid, "dy: shape", [](C& c) { ++c.dy->dims[2]; }},
      {kInvalid, "dy: head dim 4",
       [](C& c) { c.dy->dims[3] = c.attentionIn->dims[3] = 4; }},
      {kInvalid, "attentionInOptional: shape",
       [](C& c) { c.attentionIn->dims[3] = 4; }},
      {kInvalid, "dqOut: shape", [](C& c) { c.dq->dims[3] = 4; }},
      {kInvalid, "dkOut: shape", [](C& c) { ++c.dk->dims[0]; }},
      {kInvalid, "dvOut: shape", Shaped(&C::dv, {64})},
      {kInvalid, "keyIn: head dim 9",
       [](C& c) { c.keyIn->dims[3] = c.dk->dims[3] = 9; }},
      {kInvalid, "keyIn: 3 sequences do not match the 2 of query",
       [](C& c) {
         for (auto* form : {&c.keyIn, &c.value, &c.dk, &c.dv}) {
           (*form)->dims[0] = 3;
         }
       }},
      {kInvalid, "value: head dim 9", [](C&) {},
       TrainingSizes{
           .rows = {3}, .columns = {4}, .v_dim = 9, .layout = "BNSD"}},
      {kInvalid, "9 heads do not divide the 10 heads", [](C&) {},
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
      {kInvalid, "query: last axis 16 of layout BSH", Set(&C::headNum, 3)},
      {kInvalid, "keyIn: last axis 9",
       [](C& c) { c.keyIn->dims[2] = c.dk->dims[2] = 9; }},
      {kInvalid, "value: last axis 9",
       [](C& c) {
         c.keyIn->dims[2] = c.dk->dims[2] = 16;
         c.value->dims[2] = c.dv->dims[2] = 9;
       }},
  };
  ExpectRefused(refusals, Two("BSH"));
}

TEST(ScoreGradArguments, RefusesStatisticsAndSinks) {
  const Refusals refusals = {
      {kInvalid, "softmaxMaxOptional: shape [2, 3, 2, 8]",
       Shaped(&C::softmaxMax, {2, 3, 2, 8})},
      {kInvalid, "softmaxSumOptional: shape [12, 8]",
       Shaped(&C::softmaxSum, {12, 8})},
      {kInvalid, "sinkInOptional: shape [3]",
       Formed(&C::sinkIn, {ACL_FLOAT, {3}})},
      {kInvalid, "dsinkOut: shape [1]",
       All(Formed(&C::sinkIn, {ACL_FLOAT, {2}}),
           Formed(&C::dsink, {ACL_FLOAT, {1}}))},
      {kInvalid, "sinkInOptional: given", Formed(&C::sinkIn, {ACL_FLOAT, {2}}),
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
      {kInvalid, name, shape(0, {2, 3, 4})},
      {kInvalid, name, shape(1, {6, 8})},
      {kInvalid, name, shape(5, {3, 4})},
      {kInvalid, name, shape(2, {3, 4})},
      {kInvalid, name, shape(6, {2048, 2048})},
      {kInvalid, "prefixOptional: 0 elements", shape(6, {3072, 2048})},
  };
  for (const int64_t mode : {-1, 7, 8, 9}) {
    refusals.push_back(
        {kInvalid, "sparseMode: " + std::to_string(mode) + ", expected 0 to 6",
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
      {kInvalid, "preTokens: -5", tokens(0, -5, 9)},
      {kInvalid, "nextTokens: -4", tokens(0, 9, -4)},
      {kInvalid, "preTokens: 1", tokens(0, 1, -2)},
      {kInvalid, "preTokens: -4", tokens(4, -4, 9)},
      {kInvalid, "nextTokens: -5", tokens(4, 9, -5)},
      {kInvalid, "preTokens: -1", tokens(4, -1, 0)},
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
      {kInvalid, "pseType: 4", typed(4, {ACL_FLOAT16, {48}})},
      {kInvalid, "pseShiftOptional: none", Set(&C::pseType, 0)},
      {kInvalid, "pseShiftOptional: none", Set(&C::pseType, 3)},
      {kInvalid, "pseShiftOptional: data type",
       typed(1, {ACL_FLOAT, {2, 2, 3, 4}})},
      {kInvalid, "pseShiftOptional: data type", typed(2, {ACL_FLOAT16, {2}})},
      {kInvalid, "pseShiftOptional: shape [3]", typed(2, {ACL_FLOAT, {3}})},
      {kInvalid, "pseShiftOptional: shape [48]", typed(1, {ACL_FLOAT16, {48}})},
      {kInvalid, "pseShiftOptional: shape",
       typed(1, {ACL_FLOAT16, {2, 2, 2, 4}})},
      {kInvalid, "pseShiftOptional: compressed",
       typed(1, WithoutMemory(ACL_FLOAT16, {1, 2, 1024, 4}))},
      {kInvalid, "keepProb: 0", Set(&C::keepProb, 0)},
      {kInvalid, "keepProb", Set(&C::keepProb, std::nan(""))},
      {kInvalid, "dropMaskOptional: 5 bytes",
       [](C& c) {
         c.keepProb = 0.5;
         c.dropMask = Form{ACL_UINT8, {5}};
       }},
  };
  ExpectRefused(refusals, Two("BNSD"));
}

}  // namespace
}  // namespace flashacl::testing
