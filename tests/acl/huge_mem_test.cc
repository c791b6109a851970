// SPDX-License-Identifier: Apache-2.0
// The three functions adapters look up by name: they are there, and succeed.
#include <gtest/gtest.h>

extern "C" {
int InitHugeMemThreadLocal(void*, bool);
void UnInitHugeMemThreadLocal(void*, bool);
void ReleaseHugeMem(void*, bool);
}

namespace {

TEST(HugeMem, MayBeCalledAroundOperators) {
  for (const bool flag : {false, true}) {
    EXPECT_EQ(InitHugeMemThreadLocal(nullptr, flag), 0);
    ReleaseHugeMem(nullptr, flag);
    UnInitHugeMemThreadLocal(nullptr, flag);
  }
}

}  // namespace
