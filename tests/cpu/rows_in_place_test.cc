// SPDX-License-Identifier: Apache-2.0
// Which processors leave listed rows where they lie, and that tests may choose.
// What it does to results: topk/topk_laws_test.cc, topk/add_listed_test.cc.
#include "cpu/rows_in_place.h"

#include <gtest/gtest.h>

#include "cpu/processor_kind.h"

namespace flashacl::cpu {
namespace {

TEST(RowsStayInPlace, OnZen4AndIntelsUnlessATestChose) {
#if defined(__x86_64__)
  const bool stay_here = kIsZen4 || kProcessorKind == ProcessorKind::kOther;
#else
  const bool stay_here = false;
#endif
  EXPECT_EQ(RowsStayInPlace(), stay_here);
  for (const bool stay : {true, false}) {
    SetRowsInPlaceForTest(stay);
    EXPECT_EQ(RowsStayInPlace(), stay);
  }
  SetRowsInPlaceForTest({});
  EXPECT_EQ(RowsStayInPlace(), stay_here);
}

}  // namespace
}  // namespace flashacl::cpu
