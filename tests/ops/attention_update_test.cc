// SPDX-License-Identifier: Apache-2.0
// aclnnAttentionUpdate: by hand, random calls against fp64, refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/str.h"
#include "tests/testing/child.h"
#include "tests/testing/elementwise_call.h"
#include "tests/testing/random.h"
#include "tests/testing/random_tensors.h"
#include "tests/testing/refusal.h"

namespace flashacl::testing {
namespace {

using Values = std::vector<double>;
using AttentionUpdateTest = RuntimeTest;
constexpr double kInfinity = HUGE_VAL;

ElementwiseCall Call(TensorsOfList lse, TensorsOfList parts,
                     int64_t update_type, const ElementTensor* out,
                     const ElementTensor* lse_out) {
  return {.name = "aclnnAttentionUpdate",
          .tensors = {std::move(lse), std::move(parts), out, lse_out},
          .integers = {update_type}};
}

TEST_F(AttentionUpdateTest, TheDocumentsExample) {
  const ElementTensor a(ACL_FLOAT, {1}, {0}), b(ACL_FLOAT, {1}, {std::log(3)}),
      c(ACL_FLOAT, {1}, {kInfinity}), x(ACL_FLOAT, {1, 2}, {4, -4}),
      y(ACL_FLOAT, {1, 2}, {8, -8}), z(ACL_FLOAT, {1, 2}, {1e9, kInfinity}),
      out(ACL_FLOAT, {1, 2}), lse(ACL_FLOAT, {1});
  EXPECT_TRUE(Call({{&a, &b, &c}}, {{&x, &y, &z}}, 1, &out, &lse).Run());
  EXPECT_NEAR(out.Values()[0], 7, 1e-5);
  EXPECT_NEAR(out.Values()[1], -7, 1e-5);
  EXPECT_NEAR(lse.Values()[0], std::log(4), 1e-6);
}

TEST_F(AttentionUpdateTest, PartsWithoutKeysAreIdentities) {
  const double odd = 0.1f;
  const ElementTensor none(ACL_FLOAT, {2}, {kInfinity, -kInfinity}),
      some(ACL_FLOAT, {2}, {-87.25, 3e38}),
      garbage(ACL_FLOAT, {2, 2},
              {std::nan(""), kInfinity, -kInfinity, std::nan("")}),
      rows(ACL_FLOAT, {2, 2}, {odd, -0.0, 3e38, -odd}), out(ACL_FLOAT, {2, 2}),
      lse(ACL_FLOAT, {2});
  for (const bool first : {false, true}) {
    TensorsOfList lses{{&none, &some, &none}};
    TensorsOfList parts{{&garbage, &rows, &garbage}};
    if (first) {
      std::swap(lses.members[0], lses.members[1]);
      std::swap(parts.members[0], parts.members[1]);
    }
    EXPECT_TRUE(Call(lses, parts, 1, &out, &lse).Run());
    EXPECT_EQ(out.Values(), rows.Values());
    EXPECT_TRUE(std::signbit(out.Values()[1]));
    EXPECT_EQ(lse.Values(), some.Values());
  }
}

TEST_F(AttentionUpdateTest, NothingSeenIsZeroAndCanBeMergedAgain) {
  const ElementTensor none(ACL_FLOAT, {1}, {kInfinity}),
      garbage(ACL_FLOAT16, {1, 3}), out(ACL_FLOAT16, {1, 3}),
      lse(ACL_FLOAT, {1});
  EXPECT_TRUE(
      Call({{&none, &none}}, {{&garbage, &garbage}}, 1, &out, &lse).Run());
  EXPECT_EQ(out.Values(), (Values{0, 0, 0}));
  EXPECT_EQ(lse.Values(), (Values{kInfinity}));
}

TEST_F(AttentionUpdateTest, OutMayBeAPart) {
  const ElementTensor lse(ACL_FLOAT, {2}, {1, 1}),
      x(ACL_BF16, {2, 2}, {1, 2, 3, 4}), y(ACL_BF16, {2, 2}, {3, 2, 1, 8});
  EXPECT_TRUE(Call({{&lse, &lse}}, {{&x, &y}}, 0, &x, nullptr).Run());
  EXPECT_EQ(x.Values(), (Values{2, 2, 2, 6}));
}

TEST_F(AttentionUpdateTest, NoRowsAreNoWork) {
  const ElementTensor lse(ACL_FLOAT, {0}), rows(ACL_FLOAT, {0, 8});
  EXPECT_TRUE(Call({{&lse}}, {{&rows}}, 0, &rows, nullptr).Run());
  EXPECT_TRUE(Call({{&lse}}, {{&rows}}, 1, &rows, &lse).Run());
}

TEST_F(AttentionUpdateTest, NoChannelsHaveALse) {
  const ElementTensor lse(ACL_FLOAT, {2}, {1, 2}), rows(ACL_FLOAT, {2, 0}),
      merged(ACL_FLOAT, {2});
  EXPECT_TRUE(Call({{&lse}}, {{&rows}}, 1, &rows, &merged).Run());
  EXPECT_EQ(merged.Values(), (Values{1, 2}));
}

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

TEST_F(AttentionUpdateTest, NullsAreNamedAfterUpdateType) {
  const ElementTensor lse(ACL_FLOAT, {4}), rows(ACL_FLOAT16, {4, 8});
  const TensorsOfList two{{&lse, &lse}}, parts{{&rows, &rows}};
  ElementwiseCall no_lse = Call(two, parts, 0, &rows, nullptr);
  no_lse.tensors[0] = nullptr;
  ElementwiseCall no_parts = Call(two, parts, 0, &rows, nullptr);
  no_parts.tensors[1] = nullptr;
  ElementwiseCall wrong_and_null = Call(two, parts, 2, nullptr, nullptr);
  wrong_and_null.tensors[0] = nullptr;
  ExpectRefused({
      {no_lse, kNull, "The lse cannot be nullptr"},
      {no_parts, kNull, "The localOut cannot be nullptr"},
      {Call({{&lse, nullptr}}, parts, 0, &rows, nullptr), kNull,
       "The lse[1] cannot be nullptr"},
      {Call(two, {{nullptr, &rows}}, 0, &rows, nullptr), kNull,
       "The localOut[0] cannot be nullptr"},
      {Call(two, parts, 0, nullptr, nullptr), kNull,
       "The out cannot be nullptr"},
      {Call(two, parts, 2, &rows, nullptr), kInvalid,
       "updateType: 2, expected 0 or 1"},
      {wrong_and_null, kInvalid, "updateType: 2, expected 0 or 1"},
      {Call(two, parts, -1, &rows, &lse), kInvalid, "updateType: -1"},
      {Call(two, parts, 0, &rows, &lse), kInvalid,
       "lseOut: a tensor, expected null for updateType 0"},
      {Call(two, parts, 1, &rows, nullptr), kInvalid,
       "lseOut: null, expected a tensor for updateType 1"},
  });
}

TEST_F(AttentionUpdateTest, Refusals) {
  const ElementTensor lse(ACL_FLOAT, {4}), rows(ACL_FLOAT16, {4, 8}),
      bf16(ACL_BF16, {4, 8}), wide(ACL_FLOAT16, {4, 9}), tall(ACL_FLOAT, {5}),
      half(ACL_FLOAT16, {4}), whole(ACL_INT32, {4, 8}),
      cube(ACL_FLOAT16, {4, 8, 1}),
      nz(Form{ACL_FLOAT16, {4, 8}, {8, 1}, 0, ACL_FORMAT_FRACTAL_NZ}),
      repeats(Form{ACL_FLOAT16, {4, 8}, {0, 1}});
  const TensorsOfList two{{&lse, &lse}}, parts{{&rows, &rows}};
  ExpectRefused({
      {Call({{&lse, &half}}, parts, 0, &rows, nullptr), kInvalid,
       "lse: data type FLOAT16 (1), expected FLOAT"},
      {Call(two, {{&rows, &whole}}, 0, &rows, nullptr), kInvalid,
       "localOut: data type INT32 (3), expected FLOAT16, BFLOAT16, FLOAT"},
      {Call(two, {{&rows, &bf16}}, 0, &rows, nullptr), kInvalid,
       "localOut[1]: data type BFLOAT16, expected FLOAT16 as localOut[0]"},
      {Call(two, parts, 0, &whole, nullptr), kInvalid,
       "out: data type INT32 (3)"},
      {Call(two, parts, 1, &rows, &half), kInvalid,
       "lseOut: data type FLOAT16 (1)"},
      {Call({}, {}, 0, &rows, nullptr), kInvalid,
       "localOut: no members, expected some"},
      {Call({{&lse}}, parts, 0, &rows, nullptr), kInvalid,
       "lse: 1 members, expected 2 as localOut"},
      {Call(two, {{&cube, &cube}}, 0, &rows, nullptr), kInvalid,
       "localOut[0]: shape [4, 8, 1], expected 2 axes"},
      {Call(two, {{&rows, &wide}}, 0, &rows, nullptr), kInvalid,
       "localOut[1]: shape [4, 9], expected [4, 8] as localOut[0]"},
      {Call(two, parts, 0, &wide, nullptr), kInvalid,
       "out: shape [4, 9], expected [4, 8] as localOut[0]"},
      {Call({{&lse, &tall}}, parts, 0, &rows, nullptr), kInvalid,
       "lse[1]: shape [5], expected [4], the rows of localOut"},
      {Call(two, parts, 1, &rows, &tall), kInvalid,
       "lseOut: shape [5], expected [4], the rows of localOut"},
      {Call(two, {{&rows, &nz}}, 0, &rows, nullptr), kInvalid,
       "localOut: private format 29"},
      {Call(two, parts, 0, &repeats, nullptr), kInvalid,
       "out: stride 0 of axis 0"},
  });
}

// A child, which StrictModeRefusesWhatHardwareDoes starts.
TEST(AttentionUpdateChild, DISABLED_Strict) {
  const ElementTensor lse(ACL_FLOAT, {4}), rows(ACL_FLOAT16, {4, 8}),
      odd(ACL_FLOAT16, {4, 12}), wide(ACL_FLOAT16, {4, 520}),
      floats(ACL_FLOAT, {4, 8});
  const std::vector<const ElementTensor*> lses(129, &lse);
  const std::vector<const ElementTensor*> parts(129, &rows);
  EXPECT_TRUE(Call({lses}, {parts}, 0, &rows, nullptr)
                  .IsRefused(kInvalid, "129 members, expected at most 128"));
  EXPECT_TRUE(
      Call({{&lse}}, {{&odd}}, 0, &odd, nullptr)
          .IsRefused(kInvalid, "12 channels, expected multiples of 8 up to"));
  EXPECT_TRUE(Call({{&lse}}, {{&wide}}, 0, &wide, nullptr)
                  .IsRefused(kInvalid, "520 channels, expected"));
  EXPECT_TRUE(
      Call({{&lse}}, {{&rows}}, 0, &floats, nullptr)
          .IsRefused(kInvalid, "out: data type FLOAT, expected FLOAT16"));
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_TRUE(Succeeds(
      Call({{&lse}}, {{&rows}}, 0, &rows, nullptr).Prepare(&size, &executor)));
}

TEST_F(AttentionUpdateTest, StrictModeRefusesWhatHardwareDoes) {
  const auto child = RunChild("AttentionUpdateChild.DISABLED_Strict",
                              {{"FLASHACL_STRICT", "1"}});
  EXPECT_TRUE(child.ok()) << child.output;
}

// A random call, its tensors filled, and what it should write.
class RandomCall {
 public:
  explicit RandomCall(uint64_t seed) : random_(seed) {
    parts_ = static_cast<size_t>(random_.OneIn(8) ? random_.Within(15, 40)
                                                  : random_.Within(1, 6));
    const int64_t rows = random_.Within(1, 40);
    const int64_t channels =
        random_.OneIn(10) ? random_.Within(500, 1100) : random_.Within(1, 140);
    constexpr aclDataType kFloats[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
    const aclDataType type = kFloats[random_.Within(0, 2)];
    for (size_t n = 0; n < parts_; ++n) {
      lse_.push_back(tensors_.New({ACL_FLOAT, {rows}}, true));
      rows_.push_back(tensors_.New({type, {rows, channels}}, true));
    }
    const aclDataType out =
        random_.OneIn(3) ? kFloats[random_.Within(0, 2)] : type;
    out_ = tensors_.New({out, {rows, channels}}, false);
    if (random_.OneIn(2)) lse_out_ = tensors_.New({ACL_FLOAT, {rows}}, false);
    Fill();
  }

  std::string ToString() const {
    return Str("{} parts{}", parts_, tensors_.ToString());
  }

  void Check() {
    tensors_.BeforeCall();
    ElementwiseCall call =
        Call({{lse_.begin(), lse_.end()}}, {{rows_.begin(), rows_.end()}},
             lse_out_ != nullptr, out_, lse_out_);
    ASSERT_TRUE(call.Run());
    const int64_t rows = out_->form().dims[0];
    for (int64_t row = 0; row < rows; ++row) CheckRow(row);
    const ElementTensor* const results[] = {out_, lse_out_};
    tensors_.ExpectOnlyWritten(
        std::span(results).first(lse_out_ == nullptr ? 1 : 2));
  }

 private:
  void Fill() {
    const double spread = random_.OneIn(2) ? 4 : 200;
    const double middle = random_.OneIn(2) ? 0 : 1000;
    const int64_t rows = out_->form().dims[0];
    for (size_t part = 0; part < parts_; ++part) {
      for (int64_t n = 0; n < rows_[part]->count(); ++n) {
        rows_[part]->Set(n, random_.Fraction() * 2 - 1);
      }
      for (int64_t row = 0; row < rows; ++row) {
        const bool none = random_.OneIn(5);
        lse_[part]->Set(row, none ? random_.OneIn(4) ? -kInfinity : kInfinity
                                  : middle + spread * random_.Fraction());
      }
    }
    // Rows that no key was seen for may hold anything. Elements may be those of
    // several rows.
    const int64_t channels = out_->form().dims[1];
    for (size_t part = 0; part < parts_; ++part) {
      const auto& strides = rows_[part]->form().strides;
      if (strides[0] == 0 || lse_[part]->form().strides[0] == 0) continue;
      for (int64_t row = 0; row < rows; ++row) {
        if (!std::isinf(lse_[part]->Get(row).real) || random_.OneIn(2))
          continue;
        for (int64_t d = 0; d < channels; ++d) {
          rows_[part]->Set(row * channels + d, std::nan(""));
        }
      }
    }
  }

  // Of P parts, with u = 2^-24: a difference of log-sum-exps rounds by u, an
  // exponential by 2u, at most by x exp(-x) u < u together with it; a sum of P
  // of them by P u, a quotient by u. So weights are (P + 5) u off, which rows
  // meet, and each of P terms rounds by u. ln(sum) is as far off as the sum is,
  // relatively, and rounds by 2u ln(P).
  void CheckRow(int64_t row) {
    constexpr double kRounding = 0x1p-24;
    const double p = static_cast<double>(parts_);
    double top = -kInfinity;
    for (const ElementTensor* lse : lse_) {
      const double value = lse->Get(row).real;
      if (!std::isinf(value)) top = std::max(top, value);
    }
    double sum = 0;
    for (const ElementTensor* lse : lse_) {
      const double value = lse->Get(row).real;
      if (!std::isinf(value)) sum += std::exp(value - top);
    }
    const int64_t channels = out_->form().dims[1];
    for (int64_t d = 0; d < channels; ++d) {
      double expected = 0, size = 0;
      for (size_t part = 0; part < parts_; ++part) {
        const double lse = lse_[part]->Get(row).real;
        if (std::isinf(lse)) continue;
        const double value = rows_[part]->Get(row * channels + d).real;
        expected += std::exp(lse - top) / sum * value;
        size += std::fabs(value);
      }
      ExpectWithin(*out_, row * channels + d, expected,
                   (2 * p + 5) * size * kRounding);
    }
    if (lse_out_ == nullptr) return;
    const double lse = sum == 0 ? kInfinity : top + std::log(sum);
    const double slack = sum == 0 ? 0 : (p + 5 + 2 * std::log(p)) * kRounding;
    ExpectWithin(*lse_out_, row, lse, slack);
  }

  Random random_;
  size_t parts_ = 1;
  RandomTensors tensors_{random_};
  std::vector<ElementTensor*> lse_, rows_;
  ElementTensor* out_ = nullptr;
  ElementTensor* lse_out_ = nullptr;
};

TEST_F(AttentionUpdateTest, RandomCallsAreThoseOfFp64) {
  CheckRandomCalls<RandomCall>(500);
}

}  // namespace
}  // namespace flashacl::testing
