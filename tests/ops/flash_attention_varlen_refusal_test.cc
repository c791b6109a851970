// SPDX-License-Identifier: Apache-2.0
// Every line of the forward's validation table, and the documents' accepted and
// refused examples, in all versions for packed sequences. What only later ones
// have is in flash_attention_varlen_versions_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/testing/call.h"
#include "tests/testing/training_call.h"
#include "tests/testing/training_refusal.h"

namespace flashacl::testing {
namespace {

using Refusals = std::vector<Refusal<TrainingForward>>;

TEST(VarLenScoreArguments, RefusesNull) {
  using C = TrainingForward;
  const Refusals refusals = {
      {"query", kNull, "query", [](C& c) { c.query.reset(); }},
      {"key", kNull, "key", [](C& c) { c.key.reset(); }},
      {"value", kNull, "value", [](C& c) { c.value.reset(); }},
      {"inputLayout", kNull, "inputLayout",
       [](C& c) { c.inputLayout.reset(); }},
      {"max", kNull, "softmaxMaxOut", [](C& c) { c.softmaxMax.reset(); }},
      {"sum", kNull, "softmaxSumOut", [](C& c) { c.softmaxSum.reset(); }},
      {"out", kNull, "attentionOutOut", [](C& c) { c.attentionOut.reset(); }},
      {"q lengths", kNull, "actualSeqQLenOptional",
       [](C& c) { c.actualSeqQLen.reset(); }},
      {"kv lengths", kNull, "actualSeqKvLenOptional",
       [](C& c) { c.actualSeqKvLen.reset(); }},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreArguments, RefusesLayoutsFormatsAndTypes) {
  using C = TrainingForward;
  const auto every_type = [](C& c, aclDataType type) {
    for (auto* form : {&c.query, &c.key, &c.value, &c.attentionOut}) {
      (*form)->type = type;
    }
  };
  const Refusals refusals = {
      {"layout BSH", kInvalid, "inputLayout: \"BSH\"",
       [](C& c) { c.inputLayout = "BSH"; }},
      {"layout BND", kInvalid, "inputLayout: \"BND\"",
       [](C& c) { c.inputLayout = "BND"; }},
      {"layout tnd", kInvalid, "inputLayout",
       [](C& c) { c.inputLayout = "tnd"; }},
      {"private format", kInvalid, "query: private format",
       [](C& c) { c.query->format = ACL_FORMAT_FRACTAL_NZ; }},
      {"key type", kInvalid, "key: data type",
       [](C& c) { c.key->type = ACL_BF16; }},
      {"value type", kInvalid, "value: data type",
       [](C& c) { c.value->type = ACL_FLOAT; }},
      {"int8", kInvalid, "query: data type",
       [&](C& c) { every_type(c, ACL_INT8); }},
      {"double", kInvalid, "query: data type",
       [&](C& c) { every_type(c, ACL_DOUBLE); }},
      {"pse type", kInvalid, "realShiftOptional",
       [](C& c) {
         c.realShift = Form{ACL_FLOAT, {2 * 16}};
       }},
      {"out type", kInvalid, "attentionOutOut",
       [](C& c) { c.attentionOut->type = ACL_FLOAT; }},
      {"max type", kInvalid, "softmaxMaxOut",
       [](C& c) { c.softmaxMax->type = ACL_FLOAT16; }},
      {"sum type", kInvalid, "softmaxSumOut",
       [](C& c) { c.softmaxSum->type = ACL_BF16; }},
      {"drop mask type", kInvalid, "dropMaskOptional",
       [](C& c) {
         c.dropMask = Form{ACL_BOOL, {4}};
       }},
      {"mask type", kInvalid, "attenMaskOptional",
       [](C& c) {
         c.attenMask = Form{ACL_FLOAT16, {3, 4}};
       }},
      {"mask int8", kInvalid, "attenMaskOptional",
       [](C& c) {
         c.attenMask = Form{ACL_INT8, {3, 4}};
       }},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreArguments, RefusesShapesAndHeads) {
  using C = TrainingForward;
  const Refusals refusals = {
      {"query rank", kInvalid, "query: shape [5, 16]",
       [](C& c) {
         c.query->dims = {5, 16};
       }},
      {"key rank", kInvalid, "key: shape",
       [](C& c) {
         c.key->dims = {6, 1, 8, 1};
       }},
      {"value rank", kInvalid, "value: shape",
       [](C& c) { c.value->dims = {48}; }},
      {"headNum 0", kInvalid, "headNum: 0", [](C& c) { c.headNum = 0; }},
      {"headNum -1", kInvalid, "headNum: -1", [](C& c) { c.headNum = -1; }},
      {"key dim", kInvalid, "key: head dim 9 does not match query head dim 8",
       [](C& c) { c.key->dims[2] = 9; }},
      {"value dim", kInvalid, "value: head dim 9",
       [](C& c) {
         c.value->dims[2] = 9;
         c.attentionOut->dims[2] = 9;
       }},
      {"D 896", kInvalid, "head dim 896", [](C&) {},
       TrainingSizes{.rows = {1}, .columns = {1}, .dim = 896, .v_dim = 896}},
      {"headNum 1000", kDeep, "headNum: 1000 does not match the 2 heads",
       [](C& c) { c.headNum = 1000; }},
      {"N 10, Nkv 9", kDeep, "9 heads do not divide the 10 heads", [](C&) {},
       TrainingSizes{.heads = 10, .kv_heads = 9}},
      {"Nkv above N", kDeep, "do not divide", [](C&) {},
       TrainingSizes{.heads = 2, .kv_heads = 4}},
      {"value heads", kDeep, "value: 2 heads",
       [](C& c) { c.value->dims[1] = 2; }},
      {"value rows", kDeep, "value: 7 rows",
       [](C& c) { c.value->dims[0] = 7; }},
      {"out rows", kInvalid, "attentionOutOut: shape [6, 2, 8]",
       [](C& c) { c.attentionOut->dims[0] = 6; }},
      {"out dim", kInvalid, "attentionOutOut: shape [5, 2, 16]",
       [](C& c) { c.attentionOut->dims[2] = 16; }},
      {"max elements", kInvalid, "softmaxMaxOut: shape [5, 2, 4]",
       [](C& c) { c.softmaxMax->dims[2] = 4; }},
      {"sum elements", kInvalid, "softmaxSumOut: shape [6, 2, 8]",
       [](C& c) { c.softmaxSum->dims[0] = 6; }},
      {"max strides", kInvalid, "softmaxMaxOut: strides",
       [](C& c) {
         c.softmaxMax->strides = {16, 8 * 5, 1};
       }},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreArguments, RefusesLengths) {
  using C = TrainingForward;
  const Refusals refusals = {
      {"empty", kInvalid, "actualSeqQLenOptional: no elements",
       [](C& c) { c.actualSeqQLen = {std::vector<int64_t>{}}; }},
      {"sizes", kDeep, "actualSeqKvLenOptional: 1 elements",
       [](C& c) { c.actualSeqKvLen = {{6}}; }},
      {"beyond T1", kDeep, "actualSeqQLenOptional: sequence 1 ends at 6",
       [](C& c) {
         c.actualSeqQLen = {{3, 6}};
       }},
      {"beyond T2", kDeep, "actualSeqKvLenOptional: sequence 1 ends at 7",
       [](C& c) {
         c.actualSeqKvLen = {{4, 7}};
       }},
      {"beyond everything", kDeep, "actualSeqQLenOptional",
       [](C& c) {
         c.actualSeqQLen = {{INT64_MAX, INT64_MAX}};
       }},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreArguments, RefusesDropout) {
  using C = TrainingForward;
  const Refusals refusals = {
      {"keepProb 0", kDeep, "keepProbOptional: 0",
       [](C& c) { c.keepProb = 0; }},
      {"keepProb 1.2", kDeep, "keepProbOptional: 1.2",
       [](C& c) { c.keepProb = 1.2; }},
      {"keepProb -1", kDeep, "keepProbOptional", [](C& c) { c.keepProb = -1; }},
      {"keepProb nan", kDeep, "keepProbOptional",
       [](C& c) { c.keepProb = std::nan(""); }},
      {"drop mask bytes", kDeep, "dropMaskOptional: 3 bytes",
       [](C& c) {
         c.dropMask = Form{ACL_UINT8, {3}};
       }},
      {"drop mask strides", kInvalid, "dropMaskOptional: strides",
       [](C& c) {
         c.dropMask = Form{ACL_UINT8, {8}, {2}};
       }},
  };
  ExpectRefused(refusals);
}

Form Pse(std::vector<int64_t> dims) {
  return WithoutMemory(ACL_FLOAT16, std::move(dims));
}

TEST(VarLenScoreArguments, RefusesShapesOfPse) {
  using C = TrainingForward;
  const Refusals refusals = {
      {"pse 1-D", kDeep, "realShiftOptional: shape [31]",
       [&](C& c) { c.realShift = Pse({31}); }},
      {"pse rank 2", kDeep, "realShiftOptional: shape",
       [&](C& c) {
         c.realShift = Pse({2, 2});
       }},
      {"pse [B, N, 1, S]", kDeep, "realShiftOptional: shape",
       [&](C& c) {
         c.realShift = Pse({2, 2, 1, 4});
       }},
      {"pse [B, N, 10, S]", kDeep, "realShiftOptional: shape",
       [&](C& c) {
         c.realShift = Pse({2, 2, 10, 4});
       }},
      {"pse strides", kInvalid, "realShiftOptional: stride",
       [](C& c) {
         c.realShift = Form{ACL_FLOAT16, {32}, {0}};
       }},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreArguments, RefusesPseWithMasksItDoesNotFit) {
  using C = TrainingForward;
  const TrainingSizes even{.rows = {4, 2}, .columns = {4, 2}};
  const TrainingSizes uneven{.rows = {2, 2}, .columns = {4, 2}};
  const TrainingSizes big{.rows = {1024, 1100},
                          .columns = {1024, 1100},
                          .heads = 1,
                          .dim = 1,
                          .v_dim = 1};
  const TrainingSizes small{
      .rows = {512}, .columns = {512}, .heads = 1, .dim = 1, .v_dim = 1};
  const auto compressed = [&](C& c, int64_t mode, int64_t columns) {
    c.realShift = Pse({1, 1, 1024, columns});
    c.attenMask = Form{ACL_BOOL, {2048, 2048}, {0, 0}};
    c.sparseMode = mode;
  };
  const auto split = [&](C& c, int64_t mode) {
    c.realShift = Form{ACL_FLOAT16, {2 * 20}};
    c.attenMask = Form{ACL_BOOL, {2048, 2048}, {0, 0}};
    c.sparseMode = mode;
    c.nextTokens = 0;
  };
  TrainingSizes unequal = big;
  unequal.columns = {1024, 1101};
  const Refusals refusals = {
      {"compressed without mask", kDeep, "causal mask",
       [&](C& c) {
         c.realShift = Pse({1, 1, 1024, 1100});
       },
       big},
      {"compressed, tokens 65535", kDeep, "causal mask",
       [&](C& c) {
         c.realShift = Pse({1, 1, 1024, 1100});
         c.attenMask = Form{ACL_BOOL, {1100, 1100}, {0, 0}};
         c.preTokens = c.nextTokens = 65535;
       },
       big},
      {"compressed, unequal lengths", kDeep, "sequence 1 has 1100 queries",
       [&](C& c) { compressed(c, 2, 1101); }, unequal},
      {"compressed, Sq 512", kDeep, "compressed to 1024 rows",
       [&](C& c) { compressed(c, 2, 512); }, small},
      {"compressed heads", kDeep, "realShiftOptional: shape",
       [&](C& c) {
         compressed(c, 2, 1100);
         c.realShift->dims[1] = 2;
       },
       big},
      {"mode 7 with pse", kDeep, "sparseModeOptional 7",
       [&](C& c) { split(c, 7); }, even},
      {"mode 8 with pse, unequal", kDeep, "sequence 0 has 2 queries",
       [&](C& c) {
         split(c, 8);
         c.realShift->dims = {2 * 12};
       },
       uneven},
  };
  ExpectRefused(refusals);
}

// A call with a compressed mask, or one of the longest sequences.
void Masked(TrainingForward& c, int64_t mode, int64_t pre, int64_t next) {
  c.sparseMode = mode;
  c.preTokens = pre;
  c.nextTokens = next;
  c.attenMask = Form{ACL_BOOL, {mode == 6 ? 3072 : 2048, 2048}, {0, 0}};
  if (mode > 1) return;
  int64_t rows = 0;
  int64_t columns = 0;
  for (size_t b = 0; b < c.actualSeqQLen->size(); ++b) {
    const auto at = [b](const std::vector<int64_t>& ends) {
      return ends[b] - (b == 0 ? 0 : ends[b - 1]);
    };
    rows = std::max(rows, at(*c.actualSeqQLen));
    columns = std::max(columns, at(*c.actualSeqKvLen));
  }
  c.attenMask->dims = {rows, columns};
}

TEST(VarLenScoreArguments, RefusesMasks) {
  using C = TrainingForward;
  const auto shape = [](int64_t mode, std::vector<int64_t> dims) {
    return [mode, dims](C& c) {
      c.sparseMode = mode;
      c.attenMask = Form{ACL_BOOL, dims, std::vector<int64_t>(dims.size(), 0)};
      c.prefix = {{4, 2}};
    };
  };
  const std::string name = "attenMaskOptional: shape";
  Refusals refusals = {
      {"mode 5", kDeep, "sparseModeOptional: 5", shape(5, {3, 4})},
      {"mode 9", kDeep, "sparseModeOptional: 9", shape(9, {3, 4})},
      {"mode -1", kDeep, "sparseModeOptional: -1", shape(-1, {3, 4})},
      {"mode 99", kDeep, "sparseModeOptional: 99", shape(99, {3, 4})},
      {"rank 1", kDeep, name, shape(0, {12})},
      {"rank 3", kDeep, name, shape(0, {2, 3, 4})},
      {"[1000, 1000]", kDeep, name, shape(0, {1000, 1000})},
      {"[2, 2, S, S]", kDeep, name, shape(0, {2, 1, 3, 5})},
      {"[1, N, S, S]", kDeep, name, shape(0, {1, 2, 3, 4})},
      {"[3, 1, S, S]", kDeep, name, shape(1, {3, 1, 3, 4})},
      {"mode 2, full mask", kDeep, name, shape(2, {3, 4})},
      {"mode 3, full mask", kDeep, name, shape(3, {3, 4})},
      {"mode 4, full mask", kDeep, name, shape(4, {3, 4})},
      {"mode 6, full mask", kDeep, name, shape(6, {3, 4})},
      {"mode 6, 2048", kDeep, name, shape(6, {2048, 2048})},
      {"mode 2, 3072", kDeep, name, shape(2, {3072, 2048})},
      {"mode 7, full mask", kDeep, name, shape(7, {3, 4})},
      {"mode 8, full mask", kDeep, name, shape(8, {3, 4})},
  };
  refusals.push_back({"[512, 1020]", kDeep, name, shape(0, {512, 1020}),
                      Thin({512, 300}, {1024, 1024})});
  ExpectRefused(refusals);
}

TEST(VarLenScoreArguments, RefusesPrefixes) {
  using C = TrainingForward;
  const auto prefix = [](std::optional<std::vector<int64_t>> values) {
    return [values](C& c) {
      Masked(c, 6, 0, 0);
      c.prefix = values;
    };
  };
  const TrainingSizes sizes{.rows = {4, 2}, .columns = {2, 5}};
  const Refusals refusals = {
      {"none", kDeep, "prefixOptional: 0 elements", prefix({}), sizes},
      {"B - 1", kDeep, "prefixOptional: 1 elements", prefix({{2}}), sizes},
      {"above Skv", kDeep, "prefixOptional: 3 for sequence 0", prefix({{3, 4}}),
       sizes},
      {"negative", kDeep, "prefixOptional: -1", prefix({{-1, 4}}), sizes},
      {"below Skv - Sq", kDeep, "prefixOptional: 2 for sequence 1",
       prefix({{1, 2}}), sizes},
      {"{1536, 128, 1536}", kDeep, "prefixOptional: 128",
       prefix({{1536, 128, 1536}}),
       Thin({1024, 1024, 1024}, {2048, 2048, 2048})},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreArguments, RefusesTokens) {
  const auto tokens = [](int64_t mode, int64_t pre, int64_t next) {
    return [=](TrainingForward& c) { Masked(c, mode, pre, next); };
  };
  const TrainingSizes square = Thin({2048, 1000}, {2048, 1000});
  const TrainingSizes tall = Thin({2048}, {1024});
  const std::string pre = "preTokensOptional";
  const std::string next = "nextTokensOptional";
  const Refusals refusals = {
      {"0: 65535, -512", kDeep, next, tokens(0, 65535, -512), square},
      {"0: -1024, 512", kDeep, pre, tokens(0, -1024, 512), square},
      {"0: -512, -512", kDeep, next, tokens(0, -512, -512), square},
      {"0: 512, 512, tall", kDeep, pre, tokens(0, 512, 512), tall},
      {"0: least", kDeep, pre, tokens(0, INT64_MIN, 5), square},
      {"3: tall", kDeep, "sparseModeOptional: 3", tokens(3, 0, 0), tall},
      {"4: -512", kDeep, pre, tokens(4, -512, 1024), square},
      {"4: 512, -1024", kDeep, next, tokens(4, 512, -1024), square},
      {"4: 512, 512, tall", kDeep, next, tokens(4, 512, 512), tall},
      {"7: pre 512", kDeep, pre, tokens(7, 512, 0), square},
      {"7: tall", kDeep, "sparseModeOptional: 7", tokens(7, 65536, 0), tall},
      {"7: next -2048", kDeep, next, tokens(7, 65536, -2048), square},
      {"7: next 1", kDeep, next, tokens(7, 65536, 1), square},
      {"8: pre 512", kDeep, pre, tokens(8, 512, 0), square},
      {"8: next -2048", kDeep, next, tokens(8, 65536, -2048), square},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreArguments, AcceptsTheDocumentsExamples) {
  const auto tokens = [](int64_t mode, int64_t pre, int64_t next) {
    return [=](TrainingForward& c) { Masked(c, mode, pre, next); };
  };
  const TrainingSizes wide = Thin({1600}, {2048});
  ExpectPlanned<TrainingForward>("0: 1, 100", wide, tokens(0, 1, 100));
  ExpectPlanned<TrainingForward>("0: 100, 1", wide, tokens(0, 100, 1));
  ExpectPlanned<TrainingForward>("0: -100, 256", wide, tokens(0, -100, 256));
  ExpectPlanned<TrainingForward>("7: 65536, -100",
                                 Thin({2048, 2048, 1904}, {2048, 2048, 2048}),
                                 tokens(7, 65536, -100));
  ExpectPlanned<TrainingForward>(
      "8: 65536, 128", Thin({1904, 2048}, {2048, 2048}), tokens(8, 65536, 128));
  ExpectPlanned<TrainingForward>(
      "6", Thin({2048, 1024, 928}, {1024, 1024, 2952}), [](TrainingForward& c) {
        Masked(c, 6, 0, 0);
        c.prefix = {{1000, 0, 2952}};
      });
  ExpectPlanned<TrainingForward>("[1, 1, 2048, 2048] in mode 2",
                                 Thin({2048}, {2048}), [](TrainingForward& c) {
                                   Masked(c, 2, 0, 0);
                                   c.attenMask->dims = {1, 1, 2048, 2048};
                                   c.attenMask->strides = {0, 0, 0, 0};
                                 });
}

}  // namespace
}  // namespace flashacl::testing
