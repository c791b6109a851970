// SPDX-License-Identifier: Apache-2.0
// The example's numbers.
#include "tests/testing/training_worked.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/call.h"
#include "tests/testing/rounding.h"
#include "tests/testing/training_call.h"

namespace flashacl::testing {
namespace {

struct Worked {
  bool pse;
  int64_t pse_type;
  bool sink;
  bool dropout;
  double max[2], sum[2], out[2];
};

constexpr Worked kWorked[] = {
    {false,
     1,
     false,
     false,
     {1, 3},
     {1.606531, 1.503215},
     {6.602134, 69.061411}},
    {true,
     1,
     false,
     false,
     {1, 3},
     {1.606531, 2.367879},
     {6.602134, 44.207823}},
    {true,
     0,
     false,
     false,
     {1, 5},
     {1.606531, 1.185122},
     {6.602134, 12.683415}},
    {false,
     1,
     true,
     false,
     {1, 3},
     {2.606531, 1.638550},
     {4.069214, 63.357315}},
    {false,
     1,
     false,
     true,
     {1, 3},
     {1.606531, 1.503215},
     {13.204268, 133.228252}},
};

void Fill(DeviceTensor* tensor, const std::vector<double>& values) {
  if (tensor == nullptr) return;
  for (size_t n = 0; n < values.size(); ++n) {
    tensor->SetNth(static_cast<int64_t>(n), values[n]);
  }
}

void ExpectNumbers(const Worked& worked, TrainingForward call) {
  const Form pse{ACL_FLOAT, call.packed ? std::vector<int64_t>{6}
                                        : std::vector<int64_t>{1, 1, 2, 3}};
  call.attenMask = Form{ACL_BOOL, {2048, 2048}, {0, 0}};
  call.sparseMode = 3;
  call.pseType = worked.pse_type;
  if (worked.pse) call.realShift = pse;
  if (worked.dropout) call.dropMask = Form{ACL_UINT8, {1}};
  if (worked.dropout) call.keepProb = 0.5;
  if (worked.sink) call.sink = Form{ACL_FLOAT, {1}};
  TrainingFixture made(call);
  const auto& t = made.t;
  Fill(t.query, {1, 2});
  Fill(t.key, {1, 2, 3});
  Fill(t.value, {1, 10, 100});
  Fill(t.realShift, {0, 0, 4, 4, 0, 0});
  Fill(t.dropMask, {0x2B});
  Fill(t.sink, {1});
  ASSERT_TRUE(made.Run());
  // Scores are multiples of a half. Of a sum the document has six digits, and
  // three weights lose what an exp and its sum lose; of an output, that of its
  // products, too, and of the quotient.
  constexpr double kDigits = 5e-7;
  const double of_sum = ExpError(4) + 4 * kRoundoff;
  const double of_out = 2 * of_sum + 2 * kRoundoff;
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(t.softmaxMax->Nth(8 * i), worked.max[i]);
    EXPECT_NEAR(t.softmaxSum->Nth(8 * i + 7), worked.sum[i],
                kDigits + of_sum * worked.sum[i]);
    EXPECT_NEAR(t.attentionOut->Nth(i), worked.out[i],
                kDigits + of_out * worked.out[i]);
  }
}

}  // namespace

void ExpectWorkedExample(const std::string& layout) {
  const TrainingSizes sizes{.type = ACL_FLOAT,
                            .rows = {2},
                            .columns = {3},
                            .heads = 1,
                            .dim = 1,
                            .v_dim = 1,
                            .layout = layout};
  for (int v = 1; v <= VersionsOf(sizes.packed()); ++v) {
    const VersionFeatures has = FeaturesOf(sizes.packed(), v);
    for (const Worked& worked : kWorked) {
      if (worked.sink && !has.sink) continue;
      if (worked.pse_type != 1 && !has.pse_types) continue;
      SCOPED_TRACE(::testing::Message()
                   << layout << " version " << v << ": " << worked.out[1]);
      ExpectNumbers(worked, TrainingForward(sizes, v));
    }
  }
}

}  // namespace flashacl::testing
