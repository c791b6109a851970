// SPDX-License-Identifier: Apache-2.0
// Sums and products of every type that is computed in, in place and not.
#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"
#include "elementwise/loops.h"
#include "tests/testing/element.h"

namespace flashacl::elementwise {
namespace {

using testing::AddElements;
using testing::ConvertElement;
using testing::IsElement;
using testing::MultiplyElements;
using testing::ReadElement;
using testing::WholeElement;
using testing::WriteElement;

struct Named {
  Type type;
  aclDataType number;
};
constexpr Named kComputedIn[] = {
    {Type::kF32, ACL_FLOAT}, {Type::kF64, ACL_DOUBLE}, {Type::kI8, ACL_INT8},
    {Type::kI16, ACL_INT16}, {Type::kI32, ACL_INT32},  {Type::kI64, ACL_INT64},
    {Type::kU8, ACL_UINT8},  {Type::kBool, ACL_BOOL},
};
constexpr int64_t kCount = 1003;

std::vector<std::byte> AnyBytes(Random& random) {
  std::vector<std::byte> bytes(static_cast<size_t>(kCount) * 8);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(random.OneIn(4) ? 0 : random.Within(0, 255));
  }
  return bytes;
}

TEST(ArithmeticLoops, AreExactForEveryType) {
  for (const Named& named : kComputedIn) {
    SCOPED_TRACE(Name(named.type));
    Random random(static_cast<uint64_t>(named.number) + 1);
    const auto a = AnyBytes(random);
    const auto b = AnyBytes(random);
    Alpha alpha{};
    const auto factor = ConvertElement(WholeElement(3), named.number);
    WriteElement(named.number, alpha.data(), factor);
    auto sum = a;  // in place
    AddLoopOf(named.type, true)(sum.data(), b.data(), alpha, sum.data(),
                                kCount);
    auto plain = b;
    AddLoopOf(named.type, false)(a.data(), plain.data(), alpha, plain.data(),
                                 kCount);
    std::vector<std::byte> product(a.size());
    MultiplyLoopOf(named.type)(a.data(), b.data(), alpha, product.data(),
                               kCount);
    for (int64_t n = 0; n < kCount; ++n) {
      const int64_t at = n * SizeOf(named.type);
      const auto one = ReadElement(named.number, a.data() + at);
      const auto two = ReadElement(named.number, b.data() + at);
      ASSERT_TRUE(IsElement(named.number, sum.data() + at,
                            AddElements(one, two, factor, named.number)));
      ASSERT_TRUE(
          IsElement(named.number, plain.data() + at,
                    AddElements(one, two, WholeElement(1), named.number)));
      ASSERT_TRUE(IsElement(named.number, product.data() + at,
                            MultiplyElements(one, two, named.number)));
    }
  }
}

TEST(ArithmeticLoops, OtherTypesHaveNone) {
  for (const Type type : {Type::kF16, Type::kBf16, Type::kU16, Type::kU32,
                          Type::kU64, Type::kC64, Type::kC128}) {
    EXPECT_EQ(AddLoopOf(type, true), nullptr);
    EXPECT_EQ(MultiplyLoopOf(type), nullptr);
  }
}

}  // namespace
}  // namespace flashacl::elementwise
