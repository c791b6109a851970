// SPDX-License-Identifier: Apache-2.0
// Every line of the dense forward's validation table, and the documents'
// accepted and refused examples, in all versions.
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

using C = TrainingForward;
using Refusals = std::vector<Refusal<TrainingForward>>;

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

TEST(ScoreArguments, RefusesNull) {
  const Refusals refusals = {
      {"query", kNull, "query", [](C& c) { c.query.reset(); }},
      {"key", kNull, "key", [](C& c) { c.key.reset(); }},
      {"value", kNull, "value", [](C& c) { c.value.reset(); }},
      {"layout", kNull, "inputLayout", [](C& c) { c.inputLayout.reset(); }},
      {"max", kNull, "softmaxMaxOut", [](C& c) { c.softmaxMax.reset(); }},
      {"sum", kNull, "softmaxSumOut", [](C& c) { c.softmaxSum.reset(); }},
      {"out", kNull, "attentionOutOut", [](C& c) { c.attentionOut.reset(); }},
  };
  ExpectRefused(refusals, Two("BSND"));
}

TEST(ScoreArguments, RefusesLayoutsFormatsAndTypes) {
  const auto layout = [](const std::string& name) {
    return Refusal<C>{name, kInvalid, "expected \"BSH\", \"SBH\"",
                      [name](C& c) { c.inputLayout = name; }};
  };
  const Refusals refusals = {
      layout("BND"),
      layout("TND"),
      layout(""),
      layout("BNSD "),
      {"private format", kInvalid, "key: private format",
       [](C& c) { c.key->format = ACL_FORMAT_FRACTAL_NZ; }},
      {"key type", kInvalid, "key: data type",
       [](C& c) { c.key->type = ACL_BF16; }},
      {"value type", kInvalid, "value: data type",
       [](C& c) { c.value->type = ACL_FLOAT; }},
      {"out type", kInvalid, "attentionOutOut",
       [](C& c) { c.attentionOut->type = ACL_FLOAT; }},
      {"max type", kInvalid, "softmaxMaxOut",
       [](C& c) { c.softmaxMax->type = ACL_FLOAT16; }},
      {"pse type", kInvalid, "realShiftOptional: data type FLOAT ",
       [](C& c) {
         c.realShift = Form{ACL_FLOAT, {2, 2, 3, 4}};
       }},
      {"drop mask type", kInvalid, "dropMaskOptional",
       [](C& c) {
         c.dropMask = Form{ACL_BOOL, {6}};
       }},
      {"mask type", kInvalid, "attenMaskOptional",
       [](C& c) {
         c.attenMask = Form{ACL_FLOAT16, {3, 4}};
       }},
  };
  ExpectRefused(refusals, Two("BNSD"));
}

TEST(ScoreArguments, RefusesShapesAndHeads) {
  const Refusals refusals = {
      {"query rank", kInvalid, "query: shape [2, 2, 24]",
       [](C& c) {
         c.query->dims = {2, 2, 24};
       }},
      {"key rank", kInvalid, "key: shape", [](C& c) { c.key->dims = {64}; }},
      {"headNum 0", kInvalid, "headNum: 0", [](C& c) { c.headNum = 0; }},
      {"headNum", kDeep, "headNum: 3 does not match the 2 heads",
       [](C& c) { c.headNum = 3; }},
      {"D + 1", kInvalid, "key: head dim 9", [](C& c) { ++c.key->dims[3]; }},
      {"Dv", kInvalid, "value: head dim 9", [](C& c) { ++c.value->dims[3]; }},
      {"B + 1", kDeep, "key: 3 sequences do not match the 2 of query",
       [](C& c) { ++c.key->dims[0]; }},
      {"value B", kDeep, "value: 1 sequences",
       [](C& c) { c.value->dims[0] = 1; }},
      {"Skv", kDeep, "value: 5 rows", [](C& c) { ++c.value->dims[2]; }},
      {"Nkv", kDeep, "value: 2 heads", [](C& c) { ++c.value->dims[1]; }},
      {"N 10, Nkv 9", kDeep, "9 heads do not divide the 10 heads", [](C&) {},
       TrainingSizes{.rows = {3},
                     .columns = {4},
                     .heads = 10,
                     .kv_heads = 9,
                     .layout = "BNSD"}},
      {"D 896", kInvalid, "head dim 896", [](C&) {},
       TrainingSizes{.rows = {1},
                     .columns = {1},
                     .dim = 896,
                     .v_dim = 896,
                     .layout = "BNSD"}},
      {"out Sq", kInvalid, "attentionOutOut: shape [2, 2, 4, 8]",
       [](C& c) { ++c.attentionOut->dims[2]; }},
      {"out Dv", kInvalid, "attentionOutOut: shape",
       [](C& c) { ++c.attentionOut->dims[3]; }},
      {"max", kInvalid, "softmaxMaxOut: shape [2, 3, 2, 8]",
       [](C& c) {
         c.softmaxMax->dims = {2, 3, 2, 8};
       }},
      {"sum", kInvalid, "softmaxSumOut: shape [96]",
       [](C& c) { c.softmaxSum->dims = {96}; }},
  };
  ExpectRefused(refusals, Two("BNSD"));
}

TEST(ScoreArguments, RefusesHeadsThatAreFoldedUnevenly) {
  const Refusals refusals = {
      {"H 1280 of 1000 heads", kInvalid, "last axis 1280",
       [](C& c) { c.headNum = 1000; },
       TrainingSizes{.rows = {2},
                     .columns = {2},
                     .heads = 10,
                     .dim = 128,
                     .v_dim = 128,
                     .layout = "BSH"}},
      {"key", kInvalid, "key: last axis 9", [](C& c) { c.key->dims[2] = 9; }},
      {"value", kInvalid, "value: last axis 9",
       [](C& c) {
         c.key->dims[2] = 16;
         c.value->dims[2] = 9;
       }},
      {"heads", kDeep, "key: 3 heads do not divide",
       [](C& c) { c.key->dims[2] = c.value->dims[2] = 24; }},
      {"out", kInvalid, "attentionOutOut: shape [2, 3, 18]",
       [](C& c) { c.attentionOut->dims[2] = 18; }},
      {"D 0", kInvalid, "key: last axis 8", [](C& c) { c.query->dims[2] = 0; }},
  };
  ExpectRefused(refusals, Two("BSH"));
}

TEST(ScoreArguments, RefusesDropout) {
  const Refusals refusals = {
      {"0", kDeep, "keepProbOptional: 0", [](C& c) { c.keepProb = 0; }},
      {"1.2", kDeep, "keepProbOptional: 1.2", [](C& c) { c.keepProb = 1.2; }},
      {"nan", kDeep, "keepProbOptional",
       [](C& c) { c.keepProb = std::nan(""); }},
      {"bytes", kDeep, "dropMaskOptional: 5 bytes",
       [](C& c) {
         c.dropMask = Form{ACL_UINT8, {5}};
       }},
      {"strides", kInvalid, "dropMaskOptional: strides",
       [](C& c) {
         c.dropMask = Form{ACL_UINT8, {8}, {2}};
       }},
  };
  ExpectRefused(refusals, Two("SBH"));
}

TEST(ScoreArguments, RefusesShapesOfPse) {
  const auto shape = [](std::vector<int64_t> dims) {
    return [dims](C& c) { c.realShift = WithoutMemory(ACL_FLOAT16, dims); };
  };
  const std::string name = "realShiftOptional: shape";
  const Refusals refusals = {
      {"rank 1", kDeep, name, shape({48})},
      {"rank 3", kDeep, name, shape({2, 3, 4})},
      {"[B, N, 10, S]", kDeep, name, shape({2, 2, 10, 4})},
      {"[3, N, S, S]", kDeep, name, shape({3, 2, 3, 4})},
      {"[B, 1, S, S]", kDeep, name, shape({2, 1, 3, 4})},
      {"[B, N, S, 5]", kDeep, name, shape({2, 2, 3, 5})},
      {"compressed, Sq 3", kDeep, "compressed to 1024 rows",
       shape({2, 2, 1024, 4})},
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
      {"pre 1024 of 2048", kDeep, causal,
       [&](C& c) {
         compressed(0, 2048, 2048)(c);
         c.preTokens = 1024;
       },
       Long(1, 2048, 2048)},
      {"mode 1", kDeep, causal, compressed(1, 2048, 2048), Long(1, 2048, 2048)},
      {"mode 4", kDeep, causal, compressed(4, 2048, 2048), Long(1, 2048, 2048)},
      {"no mask", kDeep, causal,
       [&](C& c) {
         compressed(2, 2048, 2048)(c);
         c.attenMask.reset();
       },
       Long(1, 2048, 2048)},
      {"Sq 512", kDeep, "compressed to 1024 rows", compressed(2, 512, 512),
       Long(1, 512, 512)},
      {"Sq not Skv", kDeep, "has 1100 queries and 1101 keys",
       compressed(2, 1100, 1101), Long(1, 1100, 1101)},
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
      {"4", kDeep, "pseTypeOptional: 4", [](C& c) { c.pseType = 4; }},
      {"-1", kDeep, "pseTypeOptional: -1", [](C& c) { c.pseType = -1; }},
      {"0 without", kInvalid, "realShiftOptional: none",
       [](C& c) { c.pseType = 0; }},
      {"2 without", kInvalid, "realShiftOptional: none",
       [](C& c) { c.pseType = 2; }},
      {"2, not square", kDeep, "pseTypeOptional: 2 needs as many queries",
       slopes(2, ACL_FLOAT, {2}), Two("BNSD")},
      {"3 of BF16", kInvalid, "realShiftOptional: data type BFLOAT16",
       slopes(3, ACL_BF16, {2})},
      {"2 of [B]", kDeep, "realShiftOptional: shape [3]",
       slopes(2, ACL_FLOAT, {3})},
      {"2 of [N, B]", kDeep, "realShiftOptional: shape [1, 2]",
       slopes(2, ACL_FLOAT, {1, 2})},
  };
  ExpectRefused(refusals, square);
}

TEST(ScoreArguments, RefusesSinks) {
  const Refusals refusals = {
      {"type", kInvalid, "sinkOptional: data type BFLOAT16",
       [](C& c) {
         c.sink = Form{ACL_BF16, {2}};
       }},
      {"length", kDeep, "sinkOptional: shape [1]",
       [](C& c) {
         c.sink = Form{ACL_FLOAT, {1}};
       }},
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
      {"rank 1", kDeep, name, shape(0, {12})},
      {"[B, S, S]", kDeep, name, shape(0, {2, 3, 4})},
      {"[2, 2, S, S + 1]", kDeep, name, shape(0, {2, 2, 3, 5})},
      {"[1, N, S, S]", kDeep, name, shape(0, {1, 2, 3, 4})},
      {"[B, 3, S, S]", kDeep, name, shape(1, {2, 3, 3, 4})},
      {"[B S, B S]", kDeep, name, shape(0, {6, 8})},
      {"mode 5, [S, S]", kDeep, name, shape(5, {3, 4})},
      {"mode 5, [1, 1, S, S]", kDeep, name, shape(5, {1, 1, 3, 4})},
      {"mode 6, 2048", kDeep, name, shape(6, {2048, 2048})},
  };
  for (const int64_t mode : {2, 3, 4, 6}) {
    refusals.push_back({"full mask", kDeep, name, shape(mode, {3, 4})});
  }
  for (const int64_t mode : {-1, 7, 8, 9, 99}) {
    refusals.push_back({"mode", kDeep,
                        "sparseModeOptional: " + std::to_string(mode) +
                            ", expected 0 to 6 with inputLayout BNSD",
                        shape(mode, {3, 4})});
  }
  refusals.push_back({"[1000, 1000]", kDeep, name, shape(0, {1000, 1000}),
                      Long(1, 1024, 1024)});
  refusals.push_back(
      {"mode 5, B 3", kDeep, name, shape(5, {64, 64}), Long(3, 64, 64)});
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
      {"none", kDeep, "prefixOptional: 0 elements", prefix({})},
      {"B - 1", kDeep, "prefixOptional: 1 elements", prefix({{2}})},
      {"above Skv", kDeep, "prefixOptional: 5 for sequence 1",
       prefix({{4, 5}})},
      {"below Skv - Sq", kDeep, "prefixOptional: 0", prefix({{0, 4}})},
      {"{1536, 128, 1536}", kDeep, "prefixOptional: 128",
       prefix({{1536, 128, 1536}}), Long(3, 1024, 2048)},
  };
  ExpectRefused(refusals, Two("BNSD"));
}

TEST(ScoreArguments, RefusesTokens) {
  const TrainingSizes square = Long(1, 1024, 1024);
  const std::string pre = "preTokensOptional";
  const std::string next = "nextTokensOptional";
  const Refusals refusals = {
      {"0: -512, -512", kDeep, pre, Masked(0, -512, -512), square},
      {"0: -1024, 512", kDeep, pre, Masked(0, -1024, 512), square},
      {"0: -1024, 1024", kDeep, pre, Masked(0, -1024, 1024), square},
      {"0: 1024, -1024", kDeep, next, Masked(0, 1024, -1024), square},
      {"0: 512, -513", kDeep, next, Masked(0, 512, -513), square},
      {"0: least", kDeep, pre, Masked(0, INT64_MIN, INT64_MIN), square},
      {"4: 512, -1024", kDeep, next, Masked(4, 512, -1024), square},
      {"4: -128, 0", kDeep, pre, Masked(4, -128, 0), Long(1, 128, 1024)},
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
