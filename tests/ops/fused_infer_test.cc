// SPDX-License-Identifier: Apache-2.0
// What aclnnFusedInferAttentionScore computes although an NPU would not, and
// refuses in strict mode.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/child.h"
#include "tests/testing/fused_infer_call.h"

namespace flashacl::testing {
namespace {

struct Limit {
  std::string words;
  FusedInferCase c;
};

FusedInferCase Paged(int64_t block_size) {
  return {.columns = 2 * block_size,
          .kv_lengths = {block_size + 1, 3},
          .keys = FusedKeys::kPagesOfRows,
          .block_size = block_size};
}

std::vector<Limit> Limits() {
  FusedInferCase surplus{.layout = "TND", .lengths = {2, 1}, .surplus_rows = 2};
  surplus.kv_lengths = {3, 2};
  return {
      {"innerPrecise: 4", {.inner_precise = 4}},
      {"blockSize: 24", Paged(24)},
      {"blockSize: 1040", Paged(1040)},
      {"actualSeqLengths: absent", {.query_padding = 1}},
      {"actualSeqLengthsKv: absent", {.kv_padding = 1}},
      {"the last sequence ends at 3", surplus},
  };
}

// A child, which Limits starts.
TEST(FusedInferChild, DISABLED_Strict) {
  for (const Limit& limit : Limits()) {
    SCOPED_TRACE(limit.words);
    FusedInferCall(limit.c).ExpectFailure(561002, limit.words);
  }
}

TEST(FusedInferStrict, Limits) {
  for (const Limit& limit : Limits()) {
    SCOPED_TRACE(limit.words);
    FusedInferCall(limit.c).ExpectAsDocumented();
  }
  const ChildResult child =
      RunChild("FusedInferChild.DISABLED_Strict", {{"FLASHACL_STRICT", "1"}});
  EXPECT_TRUE(child.ok()) << child.output;
}

}  // namespace
}  // namespace flashacl::testing
