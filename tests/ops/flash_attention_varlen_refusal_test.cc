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
#include "tests/testing/refusal.h"
#include "tests/testing/training_call.h"

namespace flashacl::testing {
namespace {

using C = TrainingForward;
using Refusals = std::vector<Refusal<C>>;

TEST(VarLenScoreArguments, RefusesLayoutsAndTypes) {
  const Refusals refusals = {
      {kInvalid, "inputLayout: \"BSH\"", Set(&C::inputLayout, "BSH")},
      {kInvalid, "inputLayout: \"BND\"", Set(&C::inputLayout, "BND")},
      {kInvalid, "inputLayout", Set(&C::inputLayout, "tnd")},
      {kInvalid, "key: data type", Typed(&C::key, ACL_BF16)},
      {kInvalid, "value: data type", Typed(&C::value, ACL_FLOAT)},
      {kInvalid, "realShiftOptional",
       Formed(&C::realShift, {ACL_FLOAT, {2 * 16}})},
      {kInvalid, "attentionOutOut", Typed(&C::attentionOut, ACL_FLOAT)},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreArguments, RefusesShapesAndHeads) {
  const Refusals refusals = {
      {kInvalid, "query: shape [5, 16]", Shaped(&C::query, {5, 16})},
      {kInvalid, "key: shape", Shaped(&C::key, {6, 1, 8, 1})},
      {kInvalid, "value: shape", Shaped(&C::value, {48})},
      {kInvalid, "headNum: 0", Set(&C::headNum, 0)},
      {kInvalid, "headNum: -1", Set(&C::headNum, -1)},
      {kInvalid, "key: head dim 9 does not match query head dim 8",
       [](C& c) { c.key->dims[2] = 9; }},
      {kInvalid, "value: head dim 9",
       [](C& c) {
         c.value->dims[2] = 9;
         c.attentionOut->dims[2] = 9;
       }},
      {kInvalid, "head dim 896", [](C&) {},
       TrainingSizes{.rows = {1}, .columns = {1}, .dim = 896, .v_dim = 896}},
      {kDeep, "headNum: 1000 does not match the 2 heads",
       Set(&C::headNum, 1000)},
      {kDeep, "9 heads do not divide the 10 heads", [](C&) {},
       TrainingSizes{.heads = 10, .kv_heads = 9}},
      {kDeep, "do not divide", [](C&) {},
       TrainingSizes{.heads = 2, .kv_heads = 4}},
      {kDeep, "value: 2 heads", [](C& c) { c.value->dims[1] = 2; }},
      {kDeep, "value: 7 rows", [](C& c) { c.value->dims[0] = 7; }},
      {kInvalid, "attentionOutOut: shape [6, 2, 8]",
       [](C& c) { c.attentionOut->dims[0] = 6; }},
      {kInvalid, "attentionOutOut: shape [5, 2, 16]",
       [](C& c) { c.attentionOut->dims[2] = 16; }},
      {kInvalid, "softmaxMaxOut: shape [5, 2, 4]",
       [](C& c) { c.softmaxMax->dims[2] = 4; }},
      {kInvalid, "softmaxSumOut: shape [6, 2, 8]",
       [](C& c) { c.softmaxSum->dims[0] = 6; }},
      {kInvalid, "softmaxMaxOut: strides",
       [](C& c) {
         c.softmaxMax->strides = {16, 8 * 10, 1};
       }},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreArguments, RefusesLengths) {
  const Refusals refusals = {
      {kInvalid, "actualSeqQLenOptional: no elements",
       [](C& c) { c.actualSeqQLen = {std::vector<int64_t>{}}; }},
      {kDeep, "actualSeqKvLenOptional: 1 elements",
       Set(&C::actualSeqKvLen, {{6}})},
      {kDeep, "actualSeqQLenOptional: sequence 1 ends at 6",
       Set(&C::actualSeqQLen, {{3, 6}})},
      {kDeep, "actualSeqKvLenOptional: sequence 1 ends at 7",
       Set(&C::actualSeqKvLen, {{4, 7}})},
      {kDeep, "the tensors have 5 rows; it is 3 and 5 as INT32",
       Set(&C::actualSeqQLen, {{(int64_t{5} << 32) + 3, 5}})},
      {kDeep, "actualSeqQLenOptional",
       Set(&C::actualSeqQLen, {{INT64_MAX, INT64_MAX}})},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreArguments, RefusesDropout) {
  const Refusals refusals = {
      {kDeep, "keepProbOptional: 0", Set(&C::keepProb, 0)},
      {kDeep, "keepProbOptional: 1.2", Set(&C::keepProb, 1.2)},
      {kDeep, "keepProbOptional", Set(&C::keepProb, -1)},
      {kDeep, "keepProbOptional", Set(&C::keepProb, std::nan(""))},
      {kDeep, "dropMaskOptional: 3 bytes",
       Formed(&C::dropMask, {ACL_UINT8, {3}})},
      {kInvalid, "dropMaskOptional: strides",
       Formed(&C::dropMask, {ACL_UINT8, {8}, {2}})},
  };
  ExpectRefused(refusals);
}

Form Pse(std::vector<int64_t> dims) {
  return WithoutMemory(ACL_FLOAT16, std::move(dims));
}

TEST(VarLenScoreArguments, RefusesShapesOfPse) {
  const Refusals refusals = {
      {kDeep, "realShiftOptional: shape [31]",
       [&](C& c) { c.realShift = Pse({31}); }},
      {kDeep, "realShiftOptional: shape",
       [&](C& c) {
         c.realShift = Pse({2, 2});
       }},
      {kDeep, "realShiftOptional: shape",
       [&](C& c) {
         c.realShift = Pse({2, 2, 1, 4});
       }},
      {kDeep, "realShiftOptional: shape",
       [&](C& c) {
         c.realShift = Pse({2, 2, 10, 4});
       }},
      {kInvalid, "realShiftOptional: stride",
       Formed(&C::realShift, {ACL_FLOAT16, {32}, {0}})},
  };
  ExpectRefused(refusals);
}

TEST(VarLenScoreArguments, RefusesPseWithMasksItDoesNotFit) {
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
      {kDeep, "causal mask",
       [&](C& c) {
         c.realShift = Pse({1, 1, 1024, 1100});
       },
       big},
      {kDeep, "causal mask",
       [&](C& c) {
         c.realShift = Pse({1, 1, 1024, 1100});
         c.attenMask = Form{ACL_BOOL, {1100, 1100}, {0, 0}};
         c.preTokens = c.nextTokens = 65535;
       },
       big},
      {kDeep, "sequence 1 has 1100 queries",
       [&](C& c) { compressed(c, 2, 1101); }, unequal},
      {kDeep, "compressed to 1024 rows", [&](C& c) { compressed(c, 2, 512); },
       small},
      {kDeep, "realShiftOptional: shape",
       [&](C& c) {
         compressed(c, 2, 1100);
         c.realShift->dims[1] = 2;
       },
       big},
      {kDeep, "sparseModeOptional 7", [&](C& c) { split(c, 7); }, even},
      {kDeep, "sequence 0 has 2 queries",
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
  const auto shape = [](int64_t mode, std::vector<int64_t> dims) {
    return [mode, dims](C& c) {
      c.sparseMode = mode;
      c.attenMask = Form{ACL_BOOL, dims, std::vector<int64_t>(dims.size(), 0)};
      c.prefix = {{4, 2}};
    };
  };
  const std::string name = "attenMaskOptional: shape";
  Refusals refusals = {
      {kDeep, "sparseModeOptional: 5", shape(5, {3, 4})},
      {kDeep, "sparseModeOptional: 9", shape(9, {3, 4})},
      {kDeep, "sparseModeOptional: -1", shape(-1, {3, 4})},
      {kDeep, "sparseModeOptional: 99", shape(99, {3, 4})},
      {kDeep, name, shape(0, {12})},
      {kDeep, name, shape(0, {2, 3, 4})},
      {kDeep, name, shape(0, {1000, 1000})},
      {kDeep, name, shape(0, {2, 1, 3, 5})},
      {kDeep, name, shape(0, {1, 2, 3, 4})},
      {kDeep, name, shape(1, {3, 1, 3, 4})},
      {kDeep, name, shape(2, {3, 4})},
      {kDeep, name, shape(3, {3, 4})},
      {kDeep, name, shape(4, {3, 4})},
      {kDeep, name, shape(6, {3, 4})},
      {kDeep, name, shape(6, {2048, 2048})},
      {kDeep, name, shape(2, {3072, 2048})},
      {kDeep, name, shape(7, {3, 4})},
      {kDeep, name, shape(8, {3, 4})},
  };
  refusals.push_back(
      {kDeep, name, shape(0, {512, 1020}), Thin({512, 300}, {1024, 1024})});
  ExpectRefused(refusals);
}

TEST(VarLenScoreArguments, RefusesPrefixes) {
  const auto prefix = [](std::optional<std::vector<int64_t>> values) {
    return [values](C& c) {
      Masked(c, 6, 0, 0);
      c.prefix = values;
    };
  };
  const TrainingSizes sizes{.rows = {4, 2}, .columns = {2, 5}};
  const Refusals refusals = {
      {kDeep, "prefixOptional: 0 elements", prefix({}), sizes},
      {kDeep, "prefixOptional: 1 elements", prefix({{2}}), sizes},
      {kDeep, "prefixOptional: 3 for sequence 0", prefix({{3, 4}}), sizes},
      {kDeep, "prefixOptional: -1", prefix({{-1, 4}}), sizes},
      {kDeep, "prefixOptional: 2 for sequence 1", prefix({{1, 2}}), sizes},
      {kDeep, "prefixOptional: 128", prefix({{1536, 128, 1536}}),
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
      {kDeep, next, tokens(0, 65535, -512), square},
      {kDeep, pre, tokens(0, -1024, 512), square},
      {kDeep, next, tokens(0, -512, -512), square},
      {kDeep, pre, tokens(0, 512, 512), tall},
      {kDeep, pre, tokens(0, INT64_MIN, 5), square},
      {kDeep, "sparseModeOptional: 3", tokens(3, 0, 0), tall},
      {kDeep, pre, tokens(4, -512, 1024), square},
      {kDeep, next, tokens(4, 512, -1024), square},
      {kDeep, next, tokens(4, 512, 512), tall},
      {kDeep, pre, tokens(7, 512, 0), square},
      {kDeep, "sparseModeOptional: 7", tokens(7, 65536, 0), tall},
      {kDeep, next, tokens(7, 65536, -2048), square},
      {kDeep, next, tokens(7, 65536, 1), square},
      {kDeep, pre, tokens(8, 512, 0), square},
      {kDeep, next, tokens(8, 65536, -2048), square},
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
