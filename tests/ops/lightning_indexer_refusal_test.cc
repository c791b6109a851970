// SPDX-License-Identifier: Apache-2.0
// What aclnnLightningIndexer and aclnnLightningIndexerGrad refuse.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/str.h"
#include "tests/testing/child.h"
#include "tests/testing/elementwise_call.h"
#include "tests/testing/indexer_call.h"
#include "tests/testing/refusal.h"

namespace flashacl::testing {
namespace {

using namespace indexer;  // NOLINT: names of rows
constexpr aclnnStatus kMismatch = 561002;

struct Refused {
  ElementwiseCall call;
  aclnnStatus status;
  const char* words;
};

void ExpectRefused(const std::vector<Refused>& cases) {
  for (const Refused& one : cases) {
    EXPECT_TRUE(one.call.IsRefused(one.status, one.words));
  }
}

class LightningIndexerRefusalTest : public RuntimeTest {
 protected:
  SelectionCall Packed() const {
    return {.query = &query_,
            .key = &key_,
            .weights = &weights_,
            .query_lengths = &lengths_,
            .key_lengths = &lengths_,
            .indices = &lists_,
            .values = &scores_,
            .count = 3};
  }
  SelectionCall Paged() const {
    SelectionCall call = Packed();
    call.key = &pages_;
    call.table = &table_;
    call.key_layout = "PA_BSND";
    return call;
  }
  SelectionCall Dense() const {
    return {.query = &dense_query_,
            .key = &dense_key_,
            .weights = &dense_weights_,
            .indices = &dense_lists_,
            .count = 3,
            .layout = "BSND"};
  }
  static ElementwiseCall With(ElementwiseCall call, int row,
                              const ElementTensor* instead) {
    call.tensors[static_cast<size_t>(row)] = instead;
    return call;
  }
  ElementwiseCall Gradient(int row, const ElementTensor* instead) const {
    return With(GradientCall({&query_, &key_, &scores_, &lists_, &weights_,
                              &lengths_, &lengths_, &query_, &key_, &weights_}),
                row, instead);
  }
  ElementwiseCall DenseGradient(int row, const ElementTensor* instead) const {
    return With(GradientCall({&dense_query_, &dense_key_, &dense_scores_,
                              &dense_lists_, &dense_weights_, nullptr, nullptr,
                              &dense_query_, &dense_key_, &dense_weights_},
                             "BSND"),
                row, instead);
  }

  const ElementTensor query_{ACL_FLOAT16, {5, 2, 4}},
      key_{ACL_FLOAT16, {6, 1, 4}}, weights_{ACL_FLOAT16, {5, 2}},
      lengths_{ACL_INT32, {2}, {1, 5}}, lists_{ACL_INT32, {5, 1, 3}},
      scores_{ACL_FLOAT16, {5, 1, 3}}, pages_{ACL_FLOAT16, {3, 16, 1, 4}},
      table_{ACL_INT32, {2, 2}, {0, 1, 2, 0}};
  const ElementTensor dense_query_{ACL_BF16, {2, 5, 2, 4}},
      dense_key_{ACL_BF16, {2, 6, 1, 4}}, dense_weights_{ACL_BF16, {2, 5, 2}},
      dense_lists_{ACL_INT32, {2, 5, 1, 3}}, dense_scores_{ACL_BF16, {2, 5, 3}};
};

TEST_F(LightningIndexerRefusalTest, NullsAreNamed) {
  const std::pair<int, const char*> kRows[] = {{kQuery, "query"},
                                               {kKey, "key"},
                                               {kWeights, "weights"},
                                               {kIndices, "sparseIndicesOut"}};
  for (const auto& [row, name] : kRows) {
    const std::string words = Str("The {} cannot be nullptr", name);
    EXPECT_TRUE(With(Packed().Call(), row, nullptr).IsRefused(kNull, words));
    EXPECT_TRUE(With(Dense().Call(), row, nullptr).IsRefused(kNull, words));
  }
  SelectionCall values = Packed();
  values.values = nullptr;
  ElementwiseCall no_values = values.Call();
  no_values.integers[4] = 1;
  ExpectRefused({
      {no_values, kNull,
       "The sparseValuesOut cannot be nullptr when returnValues is true."},
      {With(Packed().Call(), kQueryLengths, nullptr), kNull,
       "The actualSeqLengthsQueryOptional cannot be nullptr in layout TND."},
      {With(Packed().Call(), kKeyLengths, nullptr), kNull,
       "The actualSeqLengthsKeyOptional cannot be nullptr in layouts TND and "
       "PA_BSND."},
      {With(Paged().Call(), kKeyLengths, nullptr), kNull,
       "The actualSeqLengthsKeyOptional cannot be nullptr in layouts TND and "
       "PA_BSND."},
      {With(Paged().Call(), kTable, nullptr), kNull,
       "The blockTableOptional cannot be nullptr in layout PA_BSND."},
  });
  EXPECT_TRUE(values.Call().Run());
  EXPECT_TRUE(Packed().Call().Run());
  EXPECT_TRUE(Paged().Call().Run());
  EXPECT_TRUE(Dense().Call().Run());
}

TEST_F(LightningIndexerRefusalTest, ValuesAreNamed) {
  const auto with = [&](auto change) {
    SelectionCall call = Packed();
    change(call);
    return call.Call();
  };
  ExpectRefused({
      {with([](SelectionCall& c) { c.layout = "BNSD"; }), kInvalid,
       "layoutQueryOptional: \"BNSD\", expected BSND or TND"},
      {with([](SelectionCall& c) { c.layout = "PA_BSND"; }), kInvalid,
       "layoutQueryOptional: \"PA_BSND\", expected BSND or TND"},
      {with([](SelectionCall& c) { c.key_layout = "BSND"; }), kInvalid,
       "layoutKeyOptional: \"BSND\", expected TND as layoutQueryOptional, or "
       "PA_BSND"},
      {with([](SelectionCall& c) { c.count = 0; }), kInvalid,
       "sparseCount: 0, expected at least 1"},
      {with([](SelectionCall& c) { c.mode = 1; }), kInvalid,
       "sparseMode: 1, expected 0 or 3"},
      {with([](SelectionCall& c) { c.pre_tokens = 5; }), kInvalid,
       "preTokens: 5, expected 9223372036854775807"},
      {with([](SelectionCall& c) { c.next_tokens = 0; }), kInvalid,
       "nextTokens: 0, expected 9223372036854775807"},
  });
  EXPECT_TRUE(with([](SelectionCall& c) {
                c.pre_tokens = c.next_tokens = 2147483647;
              }).Run());
}

TEST_F(LightningIndexerRefusalTest, TypesAreNamed) {
  const ElementTensor floats(ACL_FLOAT, {5, 2, 4}), other(ACL_BF16, {6, 1, 4}),
      other_weights(ACL_BF16, {5, 2}), other_scores(ACL_BF16, {5, 1, 3}),
      wide(ACL_INT64, {5, 1, 3}), wide_table(ACL_INT64, {2, 2}),
      nz(Form{ACL_FLOAT16, {5, 2, 4}, {8, 4, 1}, 0, ACL_FORMAT_FRACTAL_NZ}),
      repeats(Form{ACL_INT32, {5, 1, 3}, {0, 3, 1}}), whole(ACL_INT32, {5, 2}),
      float_weights(ACL_FLOAT, {5, 2});
  SelectionCall call = Packed();
  ExpectRefused({
      {With(call.Call(), kQuery, &floats), kInvalid,
       "query: data type FLOAT (0), expected FLOAT16, BFLOAT16"},
      {With(call.Call(), kKey, &other), kInvalid,
       "key: data type BFLOAT16 does not match query's FLOAT16"},
      {With(call.Call(), kWeights, &other_weights), kInvalid,
       "weights: data type BFLOAT16 does not match query's FLOAT16"},
      {With(call.Call(), kWeights, &whole), kInvalid,
       "weights: data type INT32 (3), expected"},
      {With(call.Call(), kValues, &other_scores), kInvalid,
       "sparseValuesOut: data type BFLOAT16 does not match query's FLOAT16"},
      {With(call.Call(), kIndices, &wide), kInvalid,
       "sparseIndicesOut: data type INT64 (9), expected INT32"},
      {With(Paged().Call(), kTable, &wide_table), kInvalid,
       "blockTableOptional: data type INT64 (9), expected INT32"},
      {With(call.Call(), kQuery, &nz), kInvalid, "query: private format 29"},
      {With(call.Call(), kIndices, &repeats), kInvalid,
       "sparseIndicesOut: stride 0 of axis 0"},
  });
  EXPECT_TRUE(With(call.Call(), kWeights, &float_weights).Run());
}

TEST_F(LightningIndexerRefusalTest, ShapesAreNamed) {
  const ElementTensor flat(ACL_FLOAT16, {5, 8}),
      no_heads(ACL_FLOAT16, {5, 0, 4}), no_channels(ACL_FLOAT16, {5, 2, 0}),
      thin(ACL_FLOAT16, {6, 1, 0}), two_heads(ACL_FLOAT16, {6, 2, 4}),
      narrow(ACL_FLOAT16, {6, 1, 3}), short_weights(ACL_FLOAT16, {4, 2}),
      three(ACL_INT32, {3}), no_one(ACL_INT32, {5, 3}),
      four(ACL_INT32, {5, 1, 4}), four_scores(ACL_FLOAT16, {5, 1, 4}),
      one_row(ACL_INT32, {1, 2}), cube(ACL_INT32, {2, 2, 1}),
      batch(ACL_BF16, {3, 6, 1, 4}), no_rows(ACL_FLOAT16, {3, 0, 1, 4});
  ExpectRefused({
      {With(Packed().Call(), kQuery, &flat), kMismatch,
       "query: shape [5, 8] has 2 dimensions, layout TND has 3"},
      {With(Packed().Call(), kQuery, &no_heads), kMismatch,
       "query: shape [5, 0, 4] has no heads or no channels"},
      {With(With(Packed().Call(), kQuery, &no_channels), kKey, &thin),
       kMismatch, "query: shape [5, 2, 0] has no heads or no channels"},
      {With(Packed().Call(), kKey, &two_heads), kMismatch,
       "key: 2 heads, expected 1: all query heads share one"},
      {With(Packed().Call(), kKey, &narrow), kMismatch,
       "key: head dim 3 does not match query head dim 4"},
      {With(Packed().Call(), kKey, &pages_), kMismatch,
       "key: shape [3, 16, 1, 4] has 4 dimensions, layout TND has 3"},
      {With(Dense().Call(), kKey, &batch), kMismatch,
       "key: batch size 3 does not match query's 2"},
      {With(Packed().Call(), kWeights, &short_weights), kMismatch,
       "weights: shape [4, 2], expected [5, 2] as query's rows and heads"},
      {With(Packed().Call(), kKeyLengths, &three), kMismatch,
       "actualSeqLengthsKeyOptional: shape [3], expected [2]"},
      {With(Dense().Call(), kQueryLengths, &three), kMismatch,
       "actualSeqLengthsQueryOptional: shape [3], expected [2]"},
      {With(Packed().Call(), kIndices, &no_one), kMismatch,
       "sparseIndicesOut: shape [5, 3], expected query's rows [5, 2, 4], 1, K"},
      {With(Packed().Call(), kIndices, &four), kMismatch,
       "sparseIndicesOut: 4 entries of a list, expected 3 as sparseCount"},
      {With(Packed().Call(), kValues, &four_scores), kMismatch,
       "sparseValuesOut: shape [5, 1, 4] does not match sparseIndicesOut's "
       "[5, 1, 3]"},
      {With(Packed().Call(), kTable, &table_), kMismatch,
       "blockTableOptional: given, but layoutKeyOptional is not PA_BSND"},
      {With(Paged().Call(), kTable, &one_row), kMismatch,
       "blockTableOptional: shape [1, 2], expected [2, blocks]"},
      {With(Paged().Call(), kTable, &cube), kMismatch,
       "blockTableOptional: shape [2, 2, 1], expected [2, blocks]"},
      {With(Paged().Call(), kKey, &no_rows), kMismatch,
       "key: shape [3, 0, 1, 4] has blocks of no rows"},
  });
}

// What nobody could list, or keep a row of.
TEST_F(LightningIndexerRefusalTest, SizesAreBounded) {
  const int64_t many = int64_t{1} << 31;
  const ElementTensor long_key(Form{ACL_FLOAT16, {many, 1, 4}, {0, 0, 1}}),
      large(Form{ACL_FLOAT16, {5, 2, many}, {0, 0, 0}}),
      large_key(Form{ACL_FLOAT16, {6, 1, many}, {0, 0, 0}});
  ElementwiseCall wide = With(Packed().Call(), kQuery, &large);
  ExpectRefused({
      {With(Packed().Call(), kKey, &long_key), kMismatch,
       "key: 2147483648 keys of a sequence, expected less than 2^31"},
      {With(wide, kKey, &large_key), kMismatch,
       "query: shape [5, 2, 2147483648], expected rows below 2^31 elements"},
  });
}

TEST_F(LightningIndexerRefusalTest, NullsOfTheGradientAreNamed) {
  const std::pair<int, const char*> kRows[] = {{kGradQueryIn, "query"},
                                               {kGradKeyIn, "key"},
                                               {kDy, "dy"},
                                               {kGradIndices, "sparseIndices"},
                                               {kGradWeightsIn, "weights"},
                                               {kDQuery, "dQuery"},
                                               {kDKey, "dKey"},
                                               {kDWeights, "dWeights"}};
  for (const auto& [row, name] : kRows) {
    const std::string words = Str("The {} cannot be nullptr", name);
    EXPECT_TRUE(Gradient(row, nullptr).IsRefused(kNull, words));
    EXPECT_TRUE(DenseGradient(row, nullptr).IsRefused(kNull, words));
  }
  ExpectRefused({
      {Gradient(kGradQueryLengths, nullptr), kNull,
       "The actualSeqLengthsQuery cannot be nullptr"},
      {Gradient(kGradKeyLengths, nullptr), kNull,
       "The actualSeqLengthsKey cannot be nullptr"},
  });
  // Of sequences of one length they are not looked at.
  EXPECT_TRUE(DenseGradient(kGradKeyLengths, &query_).Run());
}

TEST_F(LightningIndexerRefusalTest, WhatTheGradientDoesNotTakeIsNamed) {
  const ElementTensor bf16(ACL_BF16, {5, 2}), floats(ACL_FLOAT, {5, 2}),
      four(ACL_FLOAT16, {5, 1, 4}), like_query(ACL_FLOAT16, {5, 2, 4}),
      wide(ACL_INT64, {5, 1, 3}), rows(ACL_INT32, {4, 1, 3}),
      short_key(ACL_FLOAT16, {5, 1, 4}), three(ACL_INT32, {3}),
      long_lists(Form{ACL_INT32, {5, 1, int64_t{1} << 31}, {0, 0, 0}}),
      long_scores(Form{ACL_FLOAT16, {5, 1, int64_t{1} << 31}, {0, 0, 0}}),
      flat(ACL_INT32, {15});
  ElementwiseCall layout = Gradient(kDy, &scores_);
  layout.texts = {"PA_BSND"};
  ElementwiseCall mode = Gradient(kDy, &scores_);
  mode.integers[1] = 2;
  ElementwiseCall longest = Gradient(kDy, &long_scores);
  longest.tensors[kGradIndices] = &long_lists;
  ExpectRefused({
      {layout, kInvalid, "layout: \"PA_BSND\", expected BSND or TND"},
      {mode, kInvalid, "sparseMode: 2, expected 0 or 3"},
      {Gradient(kGradWeightsIn, &bf16), kInvalid,
       "weights: data type BFLOAT16 does not match query's FLOAT16"},
      {Gradient(kGradWeightsIn, &floats), kInvalid,
       "weights: data type FLOAT (0), expected FLOAT16, BFLOAT16"},
      {Gradient(kGradIndices, &wide), kInvalid,
       "sparseIndices: data type INT64 (9), expected INT32"},
      {Gradient(kDy, &four), kMismatch,
       "dy: shape [5, 1, 4], expected query's rows 5, K"},
      {Gradient(kDy, &like_query), kMismatch,
       "dy: shape [5, 2, 4], expected query's rows 5, K"},
      {Gradient(kGradIndices, &rows), kMismatch,
       "sparseIndices: shape [4, 1, 3], expected query's rows 5, K"},
      {Gradient(kGradIndices, &flat), kMismatch,
       "sparseIndices: shape [15], expected query's rows 5, K"},
      {Gradient(kDKey, &short_key), kMismatch,
       "dKey: shape [5, 1, 4] does not match key's [6, 1, 4]"},
      {Gradient(kDQuery, &scores_), kMismatch,
       "dQuery: shape [5, 1, 3] does not match query's [5, 2, 4]"},
      {Gradient(kDWeights, &scores_), kMismatch,
       "dWeights: shape [5, 1, 3] does not match weights's [5, 2]"},
      {Gradient(kGradKeyLengths, &three), kMismatch,
       "actualSeqLengthsKey: shape [3], expected [2]"},
      {longest, kMismatch,
       "sparseIndices: 2147483648 keys of 4 channels, expected less than 2^31 "
       "numbers"},
  });
  EXPECT_TRUE(DenseGradient(kDy, &dense_lists_).IsRefused(kInvalid, "dy: "));
  ElementwiseCall no_layout = DenseGradient(kDy, &dense_scores_);
  no_layout.texts = {std::nullopt};
  EXPECT_TRUE(no_layout.Run());
}

// A child, which StrictModeRefusesWhatHardwareDoes starts.
TEST(LightningIndexerChild, DISABLED_Strict) {
  const auto answer = [](int64_t heads, int64_t channels, int64_t count,
                         aclDataType lengths) {
    const ElementTensor query(ACL_BF16, {1, heads, channels}),
        key(ACL_BF16, {2, 1, channels}), weights(ACL_BF16, {1, heads}),
        rows(lengths, {1}, {1}), lists(ACL_INT32, {1, 1, count});
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    return SelectionCall{.query = &query,
                         .key = &key,
                         .weights = &weights,
                         .query_lengths = &rows,
                         .key_lengths = &rows,
                         .indices = &lists,
                         .count = count}
        .Call()
        .Prepare(&size, &executor);
  };
  EXPECT_TRUE(Succeeds(answer(64, 128, 2048, ACL_INT32)));
  EXPECT_TRUE(Succeeds(answer(1, 128, 5, ACL_INT32)));
  EXPECT_TRUE(Succeeds(answer(64, 128, 3072, ACL_INT32)));
  EXPECT_TRUE(FailsWith(kInvalid, answer(65, 128, 5, ACL_INT32),
                        "query: 65 heads, the NPU takes up to 64"));
  EXPECT_TRUE(FailsWith(kInvalid, answer(64, 64, 5, ACL_INT32),
                        "query: 64 channels, the NPU takes 128"));
  EXPECT_TRUE(FailsWith(kInvalid, answer(64, 128, 3000, ACL_INT32),
                        "sparseIndicesOut: 3000 keys, the NPU takes up to "));
  EXPECT_TRUE(FailsWith(kInvalid, answer(64, 128, 9216, ACL_INT32),
                        "sparseIndicesOut: 9216 keys"));
  EXPECT_TRUE(FailsWith(kInvalid, answer(64, 128, 5, ACL_INT64),
                        "actualSeqLengthsQueryOptional: data type INT64, the "
                        "NPU takes INT32"));
}

TEST(LightningIndexerChild, DISABLED_StrictPages) {
  const auto answer = [](int64_t page, bool values) {
    const ElementTensor query(ACL_BF16, {1, 8, 128}),
        key(ACL_BF16, {2, page, 1, 128}), weights(ACL_BF16, {1, 8}),
        rows(ACL_INT32, {1}, {1}), lists(ACL_INT32, {1, 1, 4}),
        scores(ACL_BF16, {1, 1, 4}), table(ACL_INT32, {1, 1}, {1});
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    return SelectionCall{.query = &query,
                         .key = &key,
                         .weights = &weights,
                         .query_lengths = &rows,
                         .key_lengths = &rows,
                         .table = &table,
                         .indices = &lists,
                         .values = &scores,
                         .count = 4,
                         .key_layout = "PA_BSND",
                         .return_values = values}
        .Call()
        .Prepare(&size, &executor);
  };
  EXPECT_TRUE(Succeeds(answer(16, false)));
  EXPECT_TRUE(Succeeds(answer(1024, false)));
  EXPECT_TRUE(FailsWith(kInvalid, answer(8, false),
                        "key: 8 rows of a block, the NPU takes multiples of "));
  EXPECT_TRUE(FailsWith(kInvalid, answer(1040, false), "key: 1040 rows"));
  EXPECT_TRUE(FailsWith(kInvalid, answer(16, true),
                        "returnValues: true, but keys are in pages"));
}

TEST(LightningIndexerChild, DISABLED_StrictGradient) {
  const ElementTensor query(ACL_BF16, {1, 8, 128}), key(ACL_BF16, {2, 1, 128}),
      weights(ACL_BF16, {1, 8}), rows(ACL_INT32, {1}, {1});
  for (const int64_t width : {2048, 2049}) {
    const ElementTensor lists(ACL_INT32, {1, width}), dy(ACL_BF16, {1, width});
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    const aclnnStatus answer =
        GradientCall({&query, &key, &dy, &lists, &weights, &rows, &rows, &query,
                      &key, &weights})
            .Prepare(&size, &executor);
    if (width == 2048) {
      EXPECT_TRUE(Succeeds(answer));
    } else {
      EXPECT_TRUE(FailsWith(kInvalid, answer,
                            "sparseIndices: 2049 keys, the NPU takes up to "));
    }
  }
}

TEST_F(LightningIndexerRefusalTest, StrictModeRefusesWhatHardwareDoes) {
  for (const char* const name : {"Strict", "StrictPages", "StrictGradient"}) {
    const auto child = RunChild(Str("LightningIndexerChild.DISABLED_{}", name),
                                {{"FLASHACL_STRICT", "1"}});
    EXPECT_TRUE(child.ok()) << child.output;
  }
}

}  // namespace
}  // namespace flashacl::testing
