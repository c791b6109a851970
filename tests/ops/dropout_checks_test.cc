// SPDX-License-Identifier: Apache-2.0
// What aclnnDropoutDoMask, aclnnDropout and aclnnDropoutBackward share:
// refusals, and random calls of all of them against one element at a time.
#include "ops/dropout_checks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/str.h"
#include "tests/testing/elementwise_call.h"
#include "tests/testing/philox.h"
#include "tests/testing/random.h"
#include "tests/testing/random_tensors.h"
#include "tests/testing/refusal.h"

namespace flashacl::ops {
namespace {

using testing::Element;
using testing::ElementTensor;
using testing::ElementwiseCall;
using testing::Form;
using testing::kInvalid;
using testing::kNull;

class DropoutTest : public testing::RuntimeTest {};

ElementwiseCall DoMask(const ElementTensor* self, const ElementTensor* mask,
                       const ElementTensor* out, double prob) {
  return {.name = "aclnnDropoutDoMask",
          .tensors = {self, mask, out},
          .reals = {prob}};
}

ElementwiseCall Dropout(const ElementTensor* input, const ElementTensor* out,
                        const ElementTensor* mask, double p,
                        bool train = true) {
  return {.name = "aclnnDropout",
          .tensors = {input, out, mask},
          .integers = {train, 5, 6},
          .reals = {p}};
}

ElementwiseCall Backward(const ElementTensor* grad, const ElementTensor* mask,
                         const ElementTensor* out, double scale) {
  return {.name = "aclnnDropoutBackward",
          .tensors = {grad, mask, out},
          .reals = {scale}};
}

TEST_F(DropoutTest, NullArgumentsAreNamed) {
  const ElementTensor x(ACL_FLOAT, {2}), mask(ACL_UINT8, {16});
  const struct {
    ElementwiseCall call;
    const char* words;
  } kCases[] = {
      {DoMask(nullptr, &mask, &x, 0.5), "The self cannot be nullptr"},
      {DoMask(&x, nullptr, &x, 0.5), "The mask cannot be nullptr"},
      {DoMask(&x, &mask, nullptr, 0.5), "The out cannot be nullptr"},
      {Dropout(nullptr, &x, &mask, 0.5), "The input cannot be nullptr"},
      {Dropout(&x, nullptr, &mask, 0.5), "The out cannot be nullptr"},
      {Dropout(&x, &x, nullptr, 0.5), "The maskOut cannot be nullptr"},
      {Backward(nullptr, &mask, &x, 2), "The gradOutput cannot be nullptr"},
      {Backward(&x, nullptr, &x, 2), "The mask cannot be nullptr"},
      {Backward(&x, &mask, nullptr, 2), "The out cannot be nullptr"},
  };
  for (const auto& one_case : kCases) {
    EXPECT_TRUE(one_case.call.IsRefused(kNull, one_case.words));
  }
}

TEST_F(DropoutTest, WhatDoesNotFitIsNamed) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const ElementTensor x(ACL_FLOAT, {200}), mask(ACL_UINT8, {32}),
      other(ACL_FLOAT, {100, 2}), i(ACL_INT32, {200}), d(ACL_DOUBLE, {200}),
      bits(ACL_BOOL, {32}), small(ACL_UINT8, {31}), large(ACL_UINT8, {48}),
      none(ACL_UINT8, {0}), repeats(Form{ACL_FLOAT, {200}, {0}}),
      nz(Form{ACL_FLOAT, {200}, {1}, 0, ACL_FORMAT_FRACTAL_NZ});
  const struct {
    ElementwiseCall call;
    const char* words;
  } kCases[] = {
      {DoMask(&i, &mask, &x, 0.5),
       "self: data type INT32 (3), expected FLOAT16, BFLOAT16, FLOAT"},
      {DoMask(&d, &mask, &x, 0.5), "self: data type DOUBLE (11)"},
      {DoMask(&x, &bits, &x, 0.5), "mask: data type BOOL (12), expected UINT8"},
      {DoMask(&x, &mask, &i, 0.5),
       "out: data type INT32 (3), expected FLOAT16, BFLOAT16, FLOAT, DOUBLE"},
      {DoMask(&nz, &mask, &x, 0.5), "self: private format 29"},
      {DoMask(&x, &mask, &repeats, 0.5), "out: stride 0 of axis 0"},
      {DoMask(&x, &mask, &x, 1.5), "prob: 1.5, expected 0 to 1"},
      {DoMask(&x, &mask, &x, -1), "prob: -1, expected 0 to 1"},
      {DoMask(&x, &mask, &x, kNan), "prob: nan, expected 0 to 1"},
      {DoMask(&x, &mask, &other, 0.5),
       "out: shape [100, 2], expected [200] as self"},
      {DoMask(&x, &small, &x, 0.5),
       "mask: shape [31] has 31 elements, expected at least 32 for the 200 "
       "bits"},
      {DoMask(&x, &small, &x, 0), "mask: shape [31] has 31 elements"},
      {DoMask(&x, &none, &x, 0.5), "mask: shape [0] has 0 elements"},
      {Dropout(&i, &x, &mask, 0.5), "input: data type INT32 (3)"},
      {Dropout(&x, &i, &mask, 0.5), "out: data type INT32 (3)"},
      {Dropout(&x, &x, &bits, 0.5), "maskOut: data type BOOL (12)"},
      {Dropout(&x, &x, &mask, 2), "p: 2, expected 0 to 1"},
      {Dropout(&x, &x, &mask, kNan, false), "p: nan, expected 0 to 1"},
      {Dropout(&x, &other, &mask, 0.5),
       "out: shape [100, 2], expected [200] as input"},
      {Dropout(&x, &x, &large, 0.5),
       "maskOut: shape [48] has 48 elements, expected 32 for the 200 bits"},
      {Backward(&i, &mask, &x, 2), "gradOutput: data type INT32 (3)"},
      {Backward(&x, &bits, &x, 2), "mask: data type BOOL (12)"},
      {Backward(&x, &mask, &x, 0.5), "scale: 0.5, expected 0 or at least 1"},
      {Backward(&x, &mask, &x, -2), "scale: -2, expected 0 or at least 1"},
      {Backward(&x, &mask, &x, kNan), "scale: nan, expected 0 or at least 1"},
      {Backward(&x, &mask, &other, 2),
       "out: shape [100, 2], expected [200] as gradOutput"},
      {Backward(&x, &large, &x, 2),
       "mask: shape [48] has 48 elements, expected 32 for the 200 bits"},
  };
  for (const auto& one_case : kCases) {
    EXPECT_TRUE(one_case.call.IsRefused(kInvalid, one_case.words));
  }
}

TEST_F(DropoutTest, NoElementsAreNoWork) {
  const ElementTensor none(ACL_FLOAT, {0, 3}), whole(ACL_INT32, {0}),
      bytes(ACL_UINT8, {0}), mask(ACL_UINT8, {16});
  EXPECT_TRUE(DoMask(&none, &bytes, &none, 0.5).Run());
  EXPECT_TRUE(Dropout(&none, &none, &bytes, 0.5).Run());
  EXPECT_TRUE(Backward(&none, &bytes, &none, 2).Run());
  // Nothing else is looked at then.
  EXPECT_TRUE(DoMask(&whole, &mask, &none, 7).Run());
}

// A random call, its tensors filled, and what it should write.
class RandomCall {
 public:
  explicit RandomCall(uint64_t seed) : random_(seed) {
    const int64_t rank = random_.Within(0, 8);
    for (int64_t axis = 0; axis < rank; ++axis) {
      shape_.push_back(random_.Within(1, axis < 3 ? 4 : 2));
    }
    if (rank > 0 && random_.OneIn(4)) shape_.back() = random_.Within(500, 1100);
    constexpr double kProbs[] = {0, 1, 0.5, 0.1, 0.9, 1e-3};
    prob_ = kProbs[random_.Within(0, 5)];
    self_ = tensors_.New({kFloats[random_.Within(0, 2)], shape_}, true);
    out_ = tensors_.New({kFloats[random_.Within(0, 3)], shape_}, false);
    Random& r = random_;
    self_->Fill(r);
    const int64_t kind = random_.Within(0, 2);
    if (kind == 0) {
      bytes_ = Mask(random_.OneIn(2) ? random_.Within(0, 20) : 0, true);
      bytes_->Fill(r);
      call_ = DoMask(self_, bytes_, out_, prob_);
    } else if (kind == 1) {
      bytes_ = Mask(0, false);
      bytes_->Fill(r);
      train_ = !random_.OneIn(6);
      draws_ = train_ && prob_ > 0 && prob_ < 1;
      call_ = Dropout(self_, out_, bytes_, prob_, train_);
    } else {
      bytes_ = Mask(0, true);
      bytes_->Fill(r);
      scale_ = prob_ == 1 ? 0 : 1 / (1 - prob_);
      call_ = Backward(self_, bytes_, out_, scale_);
    }
  }

  std::string ToString() const {
    return Str("{} prob {} train {}{}", call_.name, prob_, train_,
               tensors_.ToString());
  }

  void Check() {
    tensors_.BeforeCall();
    ASSERT_TRUE(call_.Run());
    if (draws_) {
      const testing::PhiloxMask mask{5, 6, prob_};
      const auto expected = mask.Bytes(self_->count());
      for (int64_t n = 0; n < bytes_->count(); ++n) {
        EXPECT_EQ(static_cast<uint8_t>(*bytes_->at(n)),
                  expected[static_cast<size_t>(n)]);
      }
    }
    for (int64_t g = 0; g < self_->count(); ++g) {
      ASSERT_TRUE(testing::IsElement(out_->form().type, out_->at(g), Expect(g)))
          << "element " << g;
    }
    const ElementTensor* const results[] = {out_, bytes_};
    tensors_.ExpectOnlyWritten(std::span(results).first(draws_ ? 2 : 1));
  }

 private:
  static constexpr aclDataType kFloats[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16,
                                            ACL_DOUBLE};

  ElementTensor* Mask(int64_t more, bool input) {
    const int64_t bytes = (self_->count() + 127) / 128 * 16;
    if (more == 0 && random_.OneIn(3)) {
      return tensors_.New({ACL_UINT8, {bytes / 4, 4}}, input);
    }
    return tensors_.New({ACL_UINT8, {bytes + more}}, input);
  }

  Element Expect(int64_t g) const {
    const aclDataType type = out_->form().type;
    const Element self = self_->Get(g);
    const double prob = train_ ? prob_ : 0;
    if (prob == 0) return testing::ConvertElement(self, type);
    const auto byte = static_cast<uint32_t>(*bytes_->at(g / 8));
    const bool keeps = prob < 1 && (byte >> (g % 8) & 1) != 0;
    if (!keeps) return testing::RealElement(0);
    const auto value = static_cast<float>(self.real);
    const float kept = scale_ == 0 ? value / static_cast<float>(1 - prob)
                                   : value * static_cast<float>(scale_);
    return testing::ConvertElement(testing::RealElement(double{kept}), type);
  }

  Random random_;
  std::vector<int64_t> shape_;
  double prob_ = 0;
  double scale_ = 0;  // 0: divides
  bool train_ = true;
  bool draws_ = false;
  testing::RandomTensors tensors_{random_};
  ElementTensor* self_ = nullptr;
  ElementTensor* out_ = nullptr;
  ElementTensor* bytes_ = nullptr;
  ElementwiseCall call_;
};

TEST_F(DropoutTest, RandomCallsAreExact) {
  testing::CheckRandomCalls<RandomCall>(1500);
}

}  // namespace
}  // namespace flashacl::ops
