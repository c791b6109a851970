// SPDX-License-Identifier: Apache-2.0
// Layouts are ways to say one problem.
#include "ops/training_forward.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/testing/call.h"
#include "tests/testing/training_call.h"

namespace flashacl::ops::forward {
namespace {

using testing::DeviceTensor;
using testing::TrainingFixture;
using testing::TrainingForward;
using testing::TrainingSizes;

// Row r (counted over all sequences), head n, channel d of the packed tensor is
// where in a dense one.
int64_t InLayout(const std::string& layout, int64_t r, int64_t n, int64_t d,
                 const std::array<int64_t, 4>& shape) {
  const auto [count, length, heads, dim] = shape;
  const int64_t b = r / length, i = r % length;
  if (layout == "SBH") return ((i * count + b) * heads + n) * dim + d;
  if (layout == "BNSD") return ((b * heads + n) * length + i) * dim + d;
  return (r * heads + n) * dim + d;
}

struct Results {
  std::vector<double> out, max, sum;
};

// Numbers that depend on the place in the packed tensor alone.
void Fill(DeviceTensor* tensor, const std::string& layout,
          const std::array<int64_t, 4>& shape, double step) {
  const auto [count, length, heads, dim] = shape;
  for (int64_t r = 0; r < count * length; ++r) {
    for (int64_t n = 0; n < heads; ++n) {
      for (int64_t d = 0; d < dim; ++d) {
        const int64_t place = (r * heads + n) * dim + d;
        tensor->SetNth(InLayout(layout, r, n, d, shape),
                       static_cast<double>(place * 7 % 13) * step);
      }
    }
  }
}

Results Attend(const std::string& layout) {
  const TrainingSizes sizes{.type = ACL_FLOAT,
                            .rows = {3, 3},
                            .columns = {5, 5},
                            .heads = 4,
                            .kv_heads = 2,
                            .dim = 6,
                            .v_dim = 5,
                            .layout = layout};
  TrainingForward call(sizes);
  call.attenMask = testing::Form{ACL_BOOL, {2048, 2048}, {0, 0}};
  call.sparseMode = 3;
  TrainingFixture made(call);
  const auto& t = made.t;
  Fill(t.query, layout, {2, 3, 4, 6}, 0.25);
  Fill(t.key, layout, {2, 5, 2, 6}, -0.125);
  Fill(t.value, layout, {2, 5, 2, 5}, 0.5);
  EXPECT_TRUE(made.Run());
  Results results{{}, t.softmaxMax->Values(), t.softmaxSum->Values()};
  for (int64_t place = 0; place < 6 * 4 * 5; ++place) {
    results.out.push_back(t.attentionOut->Nth(
        InLayout(layout, place / 20, place / 5 % 4, place % 5, {2, 3, 4, 5})));
  }
  return results;
}

// Sequences of one length are the same attention, packed or dense.
TEST(Plan, LayoutsSayOneProblem) {
  const Results packed = Attend("TND");
  for (const char* layout : {"BSH", "SBH", "BSND", "BNSD"}) {
    SCOPED_TRACE(layout);
    const Results dense = Attend(layout);
    EXPECT_EQ(dense.out, packed.out);
    EXPECT_EQ(dense.max, packed.max);
    EXPECT_EQ(dense.sum, packed.sum);
  }
}

}  // namespace
}  // namespace flashacl::ops::forward
