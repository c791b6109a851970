// SPDX-License-Identifier: Apache-2.0
// What aclnnRingAttentionUpdate and V2 refuse.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/str.h"
#include "tests/testing/child.h"
#include "tests/testing/elementwise_call.h"
#include "tests/testing/refusal.h"
#include "tests/testing/ring_attention_call.h"

namespace flashacl::testing {
namespace {

using namespace ring;  // NOLINT: names of its ten rows
constexpr aclnnStatus kMismatch = 561002;

struct Refused {
  ElementwiseCall call;
  aclnnStatus status;
  const char* words;
};

class RingAttentionRefusalTest : public RuntimeTest {
 protected:
  ElementwiseCall Batched(int row, const ElementTensor* instead) const {
    std::vector<GivenTensor> tensors{&rows_, &stat_,  &stat_, &rows_, &stat_,
                                     &stat_, nullptr, &rows_, &stat_, &stat_};
    tensors[static_cast<size_t>(row)] = instead;
    return Call(tensors, "SBH");
  }
  ElementwiseCall Packed(int row, const ElementTensor* instead) const {
    std::vector<GivenTensor> tensors{&tokens_, &eight_, &eight_, &tokens_,
                                     &eight_,  &eight_, &ends_,  &tokens_,
                                     &eight_,  &eight_};
    tensors[static_cast<size_t>(row)] = instead;
    return Call(tensors, "TND");
  }
  static ElementwiseCall With(ElementwiseCall call, const char* layout,
                              std::optional<const char*> softmax_layout = {}) {
    return Call(call.tensors, layout, softmax_layout);
  }

  const ElementTensor rows_{ACL_FLOAT16, {5, 2, 12}};
  const ElementTensor stat_{ACL_FLOAT, {2, 3, 5, 8}};
  const ElementTensor tokens_{ACL_BF16, {5, 3, 4}};
  const ElementTensor eight_{ACL_FLOAT, {5, 3, 8}};
  const ElementTensor ends_{ACL_INT64, {2}, {0, 5}};
};

TEST_F(RingAttentionRefusalTest, NullsAreNamed) {
  const struct {
    int row;
    const char* name;
  } kRows[] = {{kPrevOut, "prevAttnOut"},    {kPrevMax, "prevSoftmaxMax"},
               {kPrevSum, "prevSoftmaxSum"}, {kCurOut, "curAttnOut"},
               {kCurMax, "curSoftmaxMax"},   {kCurSum, "curSoftmaxSum"},
               {kOut, "attnOutOut"},         {kMaxOut, "softmaxMaxOut"},
               {kSumOut, "softmaxSumOut"}};
  for (const auto& [row, name] : kRows) {
    const std::string words = Str("The {} cannot be nullptr", name);
    EXPECT_TRUE(Batched(row, nullptr).IsRefused(kNull, words));
    EXPECT_TRUE(Packed(row, nullptr).IsRefused(kNull, words));
  }
  EXPECT_TRUE(
      Packed(kEnds, nullptr)
          .IsRefused(kNull, "The actualSeqQlenOptional cannot be nullptr"));
  // Of a batch they are not looked at.
  EXPECT_TRUE(Batched(kEnds, nullptr).Run());
  EXPECT_TRUE(Batched(kEnds, &rows_).Run());
  EXPECT_TRUE(Packed(kOut, &tokens_).Run());
}

void ExpectRefused(const std::vector<Refused>& cases) {
  for (const Refused& one : cases) {
    EXPECT_TRUE(one.call.IsRefused(one.status, one.words));
  }
}

TEST_F(RingAttentionRefusalTest, LayoutsAreNamed) {
  const ElementwiseCall good = Packed(kEnds, &ends_);
  ElementwiseCall null_layout = good;
  null_layout.texts = {std::nullopt};
  ExpectRefused({
      {With(good, "BSND"), kInvalid,
       "inputLayoutOptional: \"BSND\", expected \"SBH\" or \"TND\""},
      {With(good, ""), kInvalid, "inputLayoutOptional: \"\", expected"},
      {null_layout, kInvalid, "inputLayoutOptional: \"\", expected"},
      {With(good, "TND", "BSND"), kMismatch,
       "inputSoftmaxLayoutOptional: \"BSND\", expected \"\", \"SBH\" or "
       "\"TND\""},
  });
  EXPECT_TRUE(With(good, "TND", "TND").Run());
}

TEST_F(RingAttentionRefusalTest, WhatDoesNotFitIsNamed) {
  const ElementTensor floats(ACL_FLOAT, {5, 2, 12}),
      whole(ACL_INT32, {5, 2, 12}), flat(ACL_FLOAT16, {5, 24}),
      empty(ACL_FLOAT16, {0, 2, 12}), three(ACL_FLOAT, {2, 3, 5}),
      seven(ACL_FLOAT, {2, 3, 5, 7}), half(ACL_FLOAT16, {2, 3, 5, 8}),
      narrow(ACL_INT32, {2}), square(ACL_INT64, {1, 2}), none(ACL_INT64, {0}),
      four(ACL_FLOAT, {1, 5, 3, 8}),
      nz(Form{ACL_FLOAT16, {5, 2, 12}, {24, 12, 1}, 0, ACL_FORMAT_FRACTAL_NZ}),
      repeats(Form{ACL_FLOAT16, {5, 2, 12}, {0, 12, 1}});
  ExpectRefused({
      {Batched(kPrevOut, &whole), kInvalid,
       "prevAttnOut: data type INT32 (3), expected FLOAT16, BFLOAT16, FLOAT"},
      {Batched(kCurOut, &floats), kInvalid,
       "curAttnOut: data type FLOAT, expected FLOAT16 as prevAttnOut"},
      {Batched(kOut, &floats), kInvalid,
       "attnOutOut: data type FLOAT, expected FLOAT16 as prevAttnOut"},
      {Batched(kCurMax, &half), kInvalid,
       "curSoftmaxMax: data type FLOAT16 (1), expected FLOAT"},
      {Batched(kOut, &flat), kInvalid,
       "attnOutOut: shape [5, 24], expected 3 axes"},
      {Batched(kCurOut, &empty), kInvalid,
       "curAttnOut: shape [0, 2, 12] has no elements"},
      {Batched(kPrevMax, &three), kInvalid,
       "prevSoftmaxMax: shape [2, 3, 5], expected 4 axes"},
      {Packed(kSumOut, &four), kInvalid,
       "softmaxSumOut: shape [1, 5, 3, 8], expected 3 axes"},
      {Batched(kSumOut, &seven), kInvalid,
       "softmaxSumOut: shape [2, 3, 5, 7], expected a last axis of 8"},
      {Packed(kEnds, &narrow), kInvalid,
       "actualSeqQlenOptional: data type INT32 (3), expected INT64"},
      {Packed(kEnds, &square), kInvalid,
       "actualSeqQlenOptional: shape [1, 2], expected 1 axes"},
      {Packed(kEnds, &none), kInvalid,
       "actualSeqQlenOptional: shape [0] has no elements"},
      {Batched(kPrevOut, &nz), kInvalid, "prevAttnOut: private format 29"},
      {Batched(kOut, &repeats), kInvalid, "attnOutOut: stride 0 of axis 0"},
  });
}

TEST_F(RingAttentionRefusalTest, ShapesThatDoNotMatchAreNamed) {
  const ElementTensor longer(ACL_FLOAT16, {6, 2, 12}),
      fewer(ACL_FLOAT, {2, 2, 5, 8}), odd(ACL_FLOAT, {2, 5, 5, 8}),
      more(ACL_FLOAT, {5, 4, 8});
  ElementwiseCall odd_heads = Batched(kPrevMax, &odd);
  for (const int row : {kPrevSum, kCurMax, kCurSum, kMaxOut, kSumOut}) {
    odd_heads.tensors[static_cast<size_t>(row)] = &odd;
  }
  ExpectRefused({
      {Batched(kCurOut, &longer), kMismatch,
       "curAttnOut: shape [6, 2, 12], expected [5, 2, 12] as prevAttnOut"},
      {Batched(kCurSum, &fewer), kMismatch,
       "curSoftmaxSum: shape [2, 2, 5, 8], expected [2, 3, 5, 8] beside "
       "prevAttnOut"},
      {odd_heads, kMismatch,
       "prevAttnOut: shape [5, 2, 12], whose last axis is not a multiple of "
       "the 5 heads of prevSoftmaxMax"},
      {Packed(kPrevMax, &more), kMismatch,
       "prevSoftmaxMax: shape [5, 4, 8], expected [5, 3, 8] beside "
       "prevAttnOut"},
  });
}

// A child, which StrictModeRefusesWhatHardwareDoes starts.
TEST(RingAttentionUpdateChild, DISABLED_Strict) {
  const ElementTensor ends(ACL_INT64, {2}, {0, 2});
  const auto answer = [&](int64_t heads, int64_t channels, const char* layout) {
    const bool packed = layout[0] == 'T';
    const ElementTensor rows(
        ACL_FLOAT, packed
                       ? std::vector{int64_t{2}, heads, channels}
                       : std::vector{int64_t{2}, int64_t{1}, heads * channels});
    const ElementTensor eight(
        ACL_FLOAT,
        packed ? std::vector{int64_t{2}, heads, int64_t{8}}
               : std::vector{int64_t{1}, heads, int64_t{2}, int64_t{8}});
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    return Call({&rows, &eight, &eight, &rows, &eight, &eight, &ends, &rows,
                 &eight, &eight},
                layout)
        .Prepare(&size, &executor);
  };
  EXPECT_TRUE(Succeeds(answer(256, 64, "TND")));
  EXPECT_TRUE(Succeeds(answer(257, 20, "SBH")));
  EXPECT_TRUE(FailsWith(kInvalid, answer(257, 64, "TND"),
                        "prevAttnOut: 257 heads, expected at most 256"));
  EXPECT_TRUE(FailsWith(kInvalid, answer(2, 96, "TND"),
                        "prevAttnOut: 96 channels, expected multiples of 64"));
  EXPECT_TRUE(FailsWith(kInvalid, answer(2, 832, "TND"),
                        "prevAttnOut: 832 channels, expected"));
}

TEST_F(RingAttentionRefusalTest, StrictModeRefusesWhatHardwareDoes) {
  const auto child = RunChild("RingAttentionUpdateChild.DISABLED_Strict",
                              {{"FLASHACL_STRICT", "1"}});
  EXPECT_TRUE(child.ok()) << child.output;
}

}  // namespace
}  // namespace flashacl::testing
