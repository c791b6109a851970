// SPDX-License-Identifier: Apache-2.0
// Lines past the caches, on every instruction set.
#include "pages/stream_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "tests/cpu/targets.h"

namespace flashacl::pages {
namespace {

class StreamKernel : public ::testing::TestWithParam<int64_t> {
 protected:
  StreamKernel() {
    for (size_t n = 0; n < sizeof(from_); ++n) {
      from_[n] = static_cast<std::byte>(n * 7 % 251);
    }
  }

  const testing::OnTarget target_{GetParam()};
  alignas(64) std::byte from_[1024];
  alignas(64) std::byte to_[1024]{};
};

TEST_P(StreamKernel, CopiesLinesFromAnywhere) {
  Kernels().copy(from_ + 5, 3 * kLine, to_ + kLine);
  Kernels().flush();
  EXPECT_EQ(0, std::memcmp(to_ + kLine, from_ + 5, 3 * kLine));
  EXPECT_EQ(std::count(to_, to_ + kLine, std::byte{}), kLine);
  EXPECT_EQ(to_[4 * kLine], std::byte{});
}

TEST_P(StreamKernel, JoinsHalvesOfTwoPlaces) {
  const std::vector<RowPair> rows = {{from_ + 1, to_},
                                     {from_ + 498, to_ + kHalfLine}};
  // Of two rows, and of one row.
  for (const bool two_rows : {false, true}) {
    std::ranges::fill(to_, std::byte{});
    NextRows next(rows, 300);  // longer than the copies
    Kernels().join(std::span(rows).first(two_rows ? 2 : 1), next,
                   {.from = 2,
                    .from_step = 40,
                    .two_rows = two_rows,
                    .second = 497,
                    .to = kLine,
                    .to_step = 2 * kLine,
                    .count = 5});
    Kernels().flush();
    EXPECT_EQ(std::count(to_, to_ + kLine, std::byte{}), kLine);
    for (int64_t n = 0; n < 5; ++n) {
      const std::byte* const line = to_ + kLine + 2 * kLine * n;
      EXPECT_EQ(0, std::memcmp(line, from_ + 3 + 40 * n, kHalfLine)) << n;
      EXPECT_EQ(0,
                std::memcmp(line + kHalfLine, from_ + 500 + 40 * n, kHalfLine))
          << n;
      EXPECT_EQ(std::count(line + kLine, line + 2 * kLine, std::byte{}), kLine);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, StreamKernel,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl::pages
