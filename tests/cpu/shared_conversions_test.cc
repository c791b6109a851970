// SPDX-License-Identifier: Apache-2.0
// Where conversions are shared: on Intel's processors, in code that can.
#include "cpu/shared_conversions.h"

#include <gtest/gtest.h>

namespace flashacl::cpu {
namespace {

TEST(SharedConversions, AreThoseOfIntels) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  EXPECT_EQ(ChooseSharedConversions(true), !__builtin_cpu_is("amd"));
#else
  EXPECT_FALSE(ChooseSharedConversions(true));
#endif
  EXPECT_FALSE(ChooseSharedConversions(false));
}

TEST(SharedConversions, AreWhatTestsChoose) {
  const bool by_itself = ChooseSharedConversions(true);
  SetSharedConversionsForTest(true);
  EXPECT_TRUE(ChooseSharedConversions(true));
  EXPECT_FALSE(ChooseSharedConversions(false));
  SetSharedConversionsForTest(false);
  EXPECT_FALSE(ChooseSharedConversions(true));
  SetSharedConversionsForTest({});
  EXPECT_EQ(ChooseSharedConversions(true), by_itself);
}

}  // namespace
}  // namespace flashacl::cpu
