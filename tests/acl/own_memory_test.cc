// SPDX-License-Identifier: Apache-2.0
#include "acl/own_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace flashacl::acl {
namespace {

using Reads = bool (*)(const std::byte* from, std::span<std::byte> to);

class OwnMemory : public ::testing::TestWithParam<Reads> {};

TEST_P(OwnMemory, IsCopied) {
  // More than a pipe holds, and no whole number of parts.
  std::vector<std::byte> from(300'001);
  for (size_t n = 0; n < from.size(); ++n) from[n] = std::byte(n * 7 / 3);
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4096}, from.size()}) {
    std::vector<std::byte> to(bytes + 1, std::byte{0xEE});
    EXPECT_TRUE(GetParam()(from.data(), std::span(to).first(bytes)));
    EXPECT_TRUE(std::equal(to.begin(), to.end() - 1, from.begin()));
    EXPECT_EQ(to.back(), std::byte{0xEE});
  }
}

TEST_P(OwnMemory, IsNotReadWhereItEnds) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const map = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(map, MAP_FAILED);
  auto* const first = static_cast<std::byte*>(map);
  ASSERT_EQ(munmap(first + page, page), 0);
  std::vector<std::byte> to(page);
  EXPECT_TRUE(GetParam()(first, to));
  EXPECT_FALSE(GetParam()(first + 1, to));
  EXPECT_FALSE(GetParam()(first + page, std::span(to).first(1)));
  EXPECT_FALSE(GetParam()(nullptr, std::span(to).first(1)));
  EXPECT_EQ(munmap(first, page), 0);
}

INSTANTIATE_TEST_SUITE_P(By, OwnMemory,
                         ::testing::Values(&ReadOwnMemory, &ReadThroughPipe),
                         [](const auto& info) {
                           return info.index == 0 ? "Any" : "Pipe";
                         });

}  // namespace
}  // namespace flashacl::acl
