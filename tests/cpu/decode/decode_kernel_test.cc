// SPDX-License-Identifier: Apache-2.0
// The products of few rows, whichever keys and rows they take together: each
// number has the bits that it has by itself. decode_test.cc has the whole.
#include "cpu/decode/decode_kernel.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/cpu/targets.h"

namespace flashacl::cpu {
namespace {

TEST(DecodeTargets, HaveCodeOfTheirOwn) {
  std::set<decltype(DecodeKernels::attend)> codes;
  const auto targets = testing::TargetsHere(DecodeTargets());
  for (const int64_t target : targets) {
    const testing::OnTarget on(target);
    codes.insert(Decode().attend);
    EXPECT_NE(Decode().combine, nullptr);
  }
  EXPECT_EQ(codes.size(), targets.size());
}

}  // namespace
}  // namespace flashacl::cpu
