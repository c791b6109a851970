// SPDX-License-Identifier: Apache-2.0
// Names of slots, and dense specs.
#include "problem/slot.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string_view>

#include "problem/tensor_spec.h"

namespace flashacl {
namespace {

TEST(Slot, NamesAreDifferent) {
  std::set<std::string_view> names;
  for (size_t index = 0; index < kSlots; ++index) {
    const std::string_view name = Name(static_cast<Slot>(index));
    EXPECT_FALSE(name.empty());
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(Name(Slot::kQuery), "query");
  EXPECT_EQ(Name(Slot::kGradSink), "grad sink");
}

TEST(DenseSpec, DimensionsFollowOneAnother) {
  const TensorSpec spec = DenseSpec(DType::kF16, {2, 3, 4, 5});
  EXPECT_EQ(spec.strides, (std::array<int64_t, 4>{60, 20, 5, 1}));
  EXPECT_EQ(spec.At(1, 2, 3, 4), 119);
  EXPECT_TRUE(spec.present());
  EXPECT_FALSE(TensorSpec().present());
}

// No stride of an empty tensor claims that it repeats.
TEST(DenseSpec, EmptyDimensionsDoNotRepeat) {
  EXPECT_EQ(DenseSpec(DType::kF16, {2, 0, 4, 0}).strides,
            (std::array<int64_t, 4>{4, 4, 1, 1}));
}

TEST(DenseSpec, TooManyElementsStayTooMany) {
  constexpr int64_t kLarge = int64_t{1} << 40;
  const TensorSpec spec = DenseSpec(DType::kF16, {2, kLarge, kLarge, 1});
  EXPECT_EQ(spec.strides[0], std::numeric_limits<int64_t>::max());
  EXPECT_EQ(spec.strides[1], kLarge);
}

}  // namespace
}  // namespace flashacl
