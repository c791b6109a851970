// SPDX-License-Identifier: Apache-2.0
// Views overlap if they share a byte, not if one begins inside of the other.
#include "acl/byte_view.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/random.h"

namespace flashacl::acl {
namespace {

ByteView View(const std::byte* data, std::vector<int64_t> dims,
              std::vector<int64_t> strides, int64_t offset) {
  Tensor tensor;
  tensor.acl_dtype = ACL_FLOAT16;
  tensor.rank = dims.size();
  tensor.offset = offset;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    tensor.dims[axis] = dims[axis];
    tensor.strides[axis] = strides[axis];
  }
  return ViewOf(tensor).At(data);
}

std::set<const std::byte*> BytesOf(const ByteView& view) {
  std::set<const std::byte*> bytes;
  EXPECT_TRUE(view.ForRuns([&](const std::byte* first, size_t count) {
    while (count-- > 0) bytes.insert(first++);
    return true;
  }));
  return bytes;
}

TEST(ByteView, HasTheBytesOfItsElements) {
  const std::vector<std::byte> memory(1000);
  const std::byte* const base = memory.data();
  const ByteView dense = View(base, {2, 3, 4}, {12, 4, 1}, 5);
  EXPECT_EQ(dense.rank, 0u);
  EXPECT_EQ(dense.first, base + 10);
  EXPECT_EQ(dense.bytes(), 48u);
  const ByteView rows = View(base, {2, 3, 4}, {100, 4, 1}, 0);
  EXPECT_EQ(rows.rank, 1u);
  EXPECT_EQ(rows.element, 24u);
  EXPECT_EQ(rows.bytes(), 224u);
  EXPECT_EQ(BytesOf(rows).size(), 48u);
  EXPECT_TRUE(View(base, {2, 0}, {1, 1}, 0).empty());
  EXPECT_TRUE(View(nullptr, {2}, {1}, 0).empty());
}

TEST(ByteView, OverlapsWhereItSharesAByte) {
  const std::vector<std::byte> memory(4096);
  Random random(5);
  int overlaps = 0;
  for (int n = 0; n < 2000; ++n) {
    const auto any = [&] {
      const int64_t inner = random.Within(1, 4);
      const int64_t rows = random.Within(1, 5);
      return View(
          memory.data(), {random.Within(1, 3), rows, inner},
          {random.Within(1, 90), random.Within(1, 20), random.Within(1, 2)},
          random.Within(0, 60));
    };
    const ByteView a = any();
    const ByteView b = any();
    bool shared = false;
    const auto of_a = BytesOf(a);
    for (const std::byte* byte : BytesOf(b)) shared |= of_a.count(byte) > 0;
    ASSERT_EQ(Overlap(a, b), shared) << n;
    overlaps += shared ? 1 : 0;
  }
  EXPECT_GT(overlaps, 200);
  EXPECT_LT(overlaps, 1800);
}

}  // namespace
}  // namespace flashacl::acl
