// SPDX-License-Identifier: Apache-2.0
// Every line of the dense forward's validation table, and the documents'
// accepted and refused examples, in all versions.
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

using C = TrainingForward;
using Refusals = std::vector<Refusal<C>>;

TrainingSizes Two(const std::string& layout) {
  return {.rows = {3, 3}, .columns = {4, 4}, .layout = layout};
}

// `count` long sequences of one channel.
TrainingSizes Long(size_t count, int64_t rows, int64_t columns) {
  TrainingSizes sizes = Thin(std::vector<int64_t>(count, rows),
                             std::vector<int64_t>(count, columns));
  sizes.layout = "BNSD";
  return sizes;
}

TEST(ScoreArguments, RefusesLayoutsAndTypes) {
  const auto layout = [](const std::string& name) {
    return Refusal<C>{kInvalid, "expected \"BSH\", \"SBH\"",
                      Set(&C::inputLayout, name)};
  };
  const Refusals refusals = {
      layout("BND"),
      layout("TND"),
      layout(""),
      layout("BNSD "),
      {kInvalid, "key: data type", Typed(&C::key, ACL_BF16)},
      {kInvalid, "value: data type", Typed(&C::value, ACL_FLOAT)},
      {kInvalid, "attentionOutOut", Typed(&C::attentionOut, ACL_FLOAT)},
      {kInvalid, "realShiftOptional: data type FLOAT ",
       Formed(&C::realShift, {ACL_FLOAT, {2, 2, 3, 4}})},
  };
  ExpectRefused(refusals, Two("BNSD"));
}

TEST(ScoreArguments, RefusesShapesAndHeads) {
  const Refusals refusals = {
      {kInvalid, "query: shape [2, 2, 24]", Shaped(&C::query, {2, 2, 24})},
      {kInvalid, "key: shape", Shaped(&C::key, {64})},
      {kInvalid, "headNum: 0", Set(&C::headNum, 0)},
      {kDeep, "headNum: 3 does not match the 2 heads", Set(&C::headNum, 3)},
      {kInvalid, "key: head dim 9", [](C& c) { ++c.key->dims[3]; }},
      {kInvalid, "value: head dim 9", [](C& c) { ++c.value->dims[3]; }},
      {kDeep, "key: 3 sequences do not match the 2 of query",
       [](C& c) { ++c.key->dims[0]; }},
      {kDeep, "value: 1 sequences", [](C& c) { c.value->dims[0] = 1; }},
      {kDeep, "value: 5 rows", [](C& c) { ++c.value->dims[2]; }},
      {kDeep, "value: 2 heads", [](C& c) { ++c.value->dims[1]; }},
      {kDeep, "9 heads do not divide the 10 heads", [](C&) {},
       TrainingSizes{.rows = {3},
                     .columns = {4},
                     .heads = 10,
                     .kv_heads = 9,
                     .layout = "BNSD"}},
      {kInvalid, "head dim 896", [](C&) {},
       TrainingSizes{.rows = {1},
                     .columns = {1},
                     .dim = 896,
                     .v_dim = 896,
                     .layout = "BNSD"}},
      {kInvalid, "attentionOutOut: shape [2, 2, 4, 8]",
       [](C& c) { ++c.attentionOut->dims[2]; }},
      {kInvalid, "attentionOutOut: shape",
       [](C& c) { ++c.attentionOut->dims[3]; }},
      {kInvalid, "softmaxMaxOut: shape [2, 3, 2, 8]",
       Shaped(&C::softmaxMax, {2, 3, 2, 8})},
      {kInvalid, "softmaxSumOut: shape [96]", Shaped(&C::softmaxSum, {96})},
  };
  ExpectRefused(refusals, Two("BNSD"));
}

TEST(ScoreArguments, RefusesHeadsThatAreFoldedUnevenly) {
  const Refusals refusals = {
      {kInvalid, "last axis 1280", Set(&C::headNum, 1000),
       TrainingSizes{.rows = {2},
                     .columns = {2},
                     .heads = 10,
                     .dim = 128,
                     .v_dim = 128,
                     .layout = "BSH"}},
      {kInvalid, "key: last axis 9", [](C& c) { c.key->dims[2] = 9; }},
      {kInvalid, "value: last axis 9",
       [](C& c) {
         c.key->dims[2] = 16;
         c.value->dims[2] = 9;
       }},
      {kDeep, "key: 3 heads do not divide",
       [](C& c) { c.key->dims[2] = c.value->dims[2] = 24; }},
      {kInvalid, "attentionOutOut: shape [2, 3, 18]",
       [](C& c) { c.attentionOut->dims[2] = 18; }},
      {kInvalid, "key: last axis 8", [](C& c) { c.query->dims[2] = 0; }},
  };
  ExpectRefused(refusals, Two("BSH"));
}

TEST(ScoreArguments, RefusesDropout) {
  const Refusals refusals = {
      {kDeep, "keepProbOptional: 0", Set(&C::keepProb, 0)},
      {kDeep, "keepProbOptional: 1.2", Set(&C::keepProb, 1.2)},
      {kDeep, "keepProbOptional", Set(&C::keepProb, std::nan(""))},
      {kDeep, "dropMaskOptional: 5 bytes",
       Formed(&C::dropMask, {ACL_UINT8, {5}})},
      {kInvalid, "dropMaskOptional: strides",
       Formed(&C::dropMask, {ACL_UINT8, {8}, {2}})},
  };
  ExpectRefused(refusals, Two("SBH"));
}

TEST(ScoreArguments, RefusesShapesOfPse) {
  const auto shape = [](std::vector<int64_t> dims) {
    return [dims](C& c) { c.realShift = WithoutMemory(ACL_FLOAT16, dims); };
  };
  const std::string name = "realShiftOptional: shape";
  const Refusals refusals = {
      {kDeep, name, shape({48})},
      {kDeep, name, shape({2, 3, 4})},
      {kDeep, name, shape({2, 2, 10, 4})},
      {kDeep, name, shape({3, 2, 3, 4})},
      {kDeep, name, shape({2, 1, 3, 4})},
      {kDeep, name, shape({2, 2, 3, 5})},
      {kDeep, "compressed to 1024 rows", shape({2, 2, 1024, 4})},
  };
  ExpectRefused(refusals, Two("BNSD"));
}

TEST(ScoreArguments, RefusesPseWithMasksItDoesNotFit) {
  const auto compressed = [](int64_t mode, int64_t rows, int64_t columns) {
    return [=](C& c) {
      const bool small = mode > 1;
      c.realShift = WithoutMemory(ACL_FLOAT16, {1, 1, 1024, columns});
      c.attenMask = WithoutMemory(
          ACL_BOOL, {small ? 2048 : rows, small ? 2048 : columns});
      c.sparseMode = mode;
      c.nextTokens = 0;
    };
  };
  const std::string causal = "needs a causal mask";
  const Refusals refusals = {
      {kDeep, causal,
       [&](C& c) {
         compressed(0, 2048, 2048)(c);
         c.preTokens = 1024;
       },
       Long(1, 2048, 2048)},
      {kDeep, causal, compressed(1, 2048, 2048), Long(1, 2048, 2048)},
      {kDeep, causal, compressed(4, 2048, 2048), Long(1, 2048, 2048)},
      {kDeep, causal,
       [&](C& c) {
         compressed(2, 2048, 2048)(c);
         c.attenMask.reset();
       },
       Long(1, 2048, 2048)},
      {kDeep, "compressed to 1024 rows", compressed(2, 512, 512),
       Long(1, 512, 512)},
      {kDeep, "has 1100 queries and 1101 keys", compressed(2, 1100, 1101),
       Long(1, 1100, 1101)},
  };
  ExpectRefused(refusals, Two("BNSD"));
}

TEST(ScoreArguments, RefusesTypesOfPse) {
  const auto slopes = [](int64_t type, aclDataType of,
                         std::vector<int64_t> dims) {
    return [=](C& c) {
      c.pseType = type;
      c.realShift = Form{of, dims};
    };
  };
  TrainingSizes square = Two("BNSD");
  square.columns = square.rows;
  const Refusals refusals = {
      {kDeep, "pseTypeOptional: 4", Set(&C::pseType, 4)},
      {kDeep, "pseTypeOptional: -1", Set(&C::pseType, -1)},
      {kInvalid, "realShiftOptional: none", Set(&C::pseType, 0)},
      {kInvalid, "realShiftOptional: none", Set(&C::pseType, 2)},
      {kDeep, "pseTypeOptional: 2 needs as many queries",
       slopes(2, ACL_FLOAT, {2}), Two("BNSD")},
      {kInvalid, "realShiftOptional: data type BFLOAT16",
       slopes(3, ACL_BF16, {2})},
      {kDeep, "realShiftOptional: shape [3]", slopes(2, ACL_FLOAT, {3})},
      {kDeep, "realShiftOptional: shape [1, 2]", slopes(2, ACL_FLOAT, {1, 2})},
  };
  ExpectRefused(refusals, square);
}

TEST(ScoreArguments, RefusesSinks) {
  const Refusals refusals = {
      {kInvalid, "sinkOptional: data type BFLOAT16",
       Formed(&C::sink, {ACL_BF16, {2}})},
      {kDeep, "sinkOptional: shape [1]", Formed(&C::sink, {ACL_FLOAT, {1}})},
  };
  ExpectRefused(refusals, Two("SBH"));
}

// A call with a compressed mask, or one for all sequences.
std::function<void(C&)> Masked(int64_t mode, int64_t pre, int64_t next) {
  return [=](C& c) {
    c.sparseMode = mode;
    c.preTokens = pre;
    c.nextTokens = next;
    const auto& query = c.query->dims;
    c.attenMask = WithoutMemory(
        ACL_BOOL, mode > 1 ? std::vector<int64_t>{mode == 6 ? 3072 : 2048, 2048}
                           : std::vector<int64_t>{query[2], c.key->dims[2]});
  };
}

TEST(ScoreArguments, RefusesMasks) {
  const auto shape = [](int64_t mode, std::vector<int64_t> dims) {
    return [mode, dims](C& c) {
      c.sparseMode = mode;
      c.attenMask = WithoutMemory(ACL_BOOL, dims);
      c.prefix = {{4, 2}};
    };
  };
  const std::string name = "attenMaskOptional: shape";
  Refusals refusals = {
      {kDeep, name, shape(0, {12})},
      {kDeep, name, shape(0, {2, 3, 4})},
      {kDeep, name, shape(0, {2, 2, 3, 5})},
      {kDeep, name, shape(0, {1, 2, 3, 4})},
      {kDeep, name, shape(1, {2, 3, 3, 4})},
      {kDeep, name, shape(0, {6, 8})},
      {kDeep, name, shape(5, {3, 4})},
      {kDeep, name, shape(5, {1, 1, 3, 4})},
      {kDeep, name, shape(6, {2048, 2048})},
  };
  for (const int64_t mode : {2, 3, 4, 6}) {
    refusals.push_back({kDeep, name, shape(mode, {3, 4})});
  }
  for (const int64_t mode : {-1, 7, 8, 9, 99}) {
    refusals.push_back({kDeep,
                        "sparseModeOptional: " + std::to_string(mode) +
                            ", expected 0 to 6 with inputLayout BNSD",
                        shape(mode, {3, 4})});
  }
  refusals.push_back(
      {kDeep, name, shape(0, {1000, 1000}), Long(1, 1024, 1024)});
  refusals.push_back({kDeep, name, shape(5, {64, 64}), Long(3, 64, 64)});
  ExpectRefused(refusals, Two("BNSD"));
}

TEST(ScoreArguments, RefusesPrefixes) {
  const auto prefix = [](std::optional<std::vector<int64_t>> values) {
    return [values](C& c) {
      Masked(6, 0, 0)(c);
      c.prefix = values;
    };
  };
  const Refusals refusals = {
      {kDeep, "prefixOptional: 0 elements", prefix({})},
      {kDeep, "prefixOptional: 1 elements", prefix({{2}})},
      {kDeep, "prefixOptional: 5 for sequence 1", prefix({{4, 5}})},
      {kDeep, "prefixOptional: 0", prefix({{0, 4}})},
      {kDeep, "prefixOptional: 128", prefix({{1536, 128, 1536}}),
       Long(3, 1024, 2048)},
  };
  ExpectRefused(refusals, Two("BNSD"));
}

TEST(ScoreArguments, RefusesTokens) {
  const TrainingSizes square = Long(1, 1024, 1024);
  const std::string pre = "preTokensOptional";
  const std::string next = "nextTokensOptional";
  const Refusals refusals = {
      {kDeep, pre, Masked(0, -512, -512), square},
      {kDeep, pre, Masked(0, -1024, 512), square},
      {kDeep, pre, Masked(0, -1024, 1024), square},
      {kDeep, next, Masked(0, 1024, -1024), square},
      {kDeep, next, Masked(0, 512, -513), square},
      {kDeep, pre, Masked(0, INT64_MIN, INT64_MIN), square},
      {kDeep, next, Masked(4, 512, -1024), square},
      {kDeep, pre, Masked(4, -128, 0), Long(1, 128, 1024)},
  };
  ExpectRefused(refusals, Two("BNSD"));
}

TEST(ScoreArguments, AcceptsTheDocumentsExamples) {
  const TrainingSizes square = Long(1, 1024, 1024);
  ExpectPlanned<C>("0: 1024, -900", square, Masked(0, 1024, -900));
  ExpectPlanned<C>("0: -900, 1024", square, Masked(0, -900, 1024));
  ExpectPlanned<C>("4: 500, 300", Long(1, 128, 1024), Masked(4, 500, 300));
  ExpectPlanned<C>("3: tall", Long(2, 2048, 1024), Masked(3, 0, 0));
  ExpectPlanned<C>("5, short prefix", Long(3, 64, 64), [](C& c) {
    c.sparseMode = 5;
    c.attenMask = WithoutMemory(ACL_BOOL, {3, 1, 64, 64});
    c.prefix = {{1}};
  });
  ExpectPlanned<C>("[1, 1, 2048, 2048] in mode 2", Long(2, 2048, 2048),
                   [](C& c) {
                     Masked(2, 0, 0)(c);
                     c.attenMask = WithoutMemory(ACL_BOOL, {1, 1, 2048, 2048});
                   });
}

}  // namespace
}  // namespace flashacl::testing
