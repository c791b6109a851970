// SPDX-License-Identifier: Apache-2.0
// Calls of operators that merge parts of attention.
#include "tests/testing/operator_call.h"

namespace flashacl::testing {
namespace {

TensorArgument List(TensorArgument of) {
  of.list = true;
  of.members = 2;
  return of;
}

OperatorCall AttentionUpdate() {
  const TensorArgument lse{{6}, ACL_FLOAT};
  const TensorArgument rows{{6, 20}, ACL_FLOAT16};
  return {.name = "aclnnAttentionUpdate",
          .tensors = {List(lse), List(rows), rows, lse},
          .arrays = {},
          .reals = {},
          .integers = {1},
          .texts = {},
          .first_output = 2};
}

OperatorCall RingAttentionUpdate(
    const char* name, const TensorArgument& rows,
    const TensorArgument& statistic,
    std::vector<std::optional<std::string>> texts) {
  const TensorArgument ends{{3}, ACL_INT64};
  return {.name = name,
          .tensors = {rows, statistic, statistic, rows, statistic, statistic,
                      ends, rows, statistic, statistic},
          .arrays = {},
          .reals = {},
          .integers = {},
          .texts = std::move(texts),
          .first_output = 7};
}

}  // namespace

std::vector<OperatorCall> MergeOperatorCalls() {
  const TensorArgument batched{{5, 2, 60}, ACL_FLOAT16};
  const TensorArgument packed{{5, 3, 20}, ACL_FLOAT};
  return {AttentionUpdate(),
          RingAttentionUpdate("aclnnRingAttentionUpdate", batched,
                              {{2, 3, 5, 8}, ACL_FLOAT}, {"SBH"}),
          RingAttentionUpdate("aclnnRingAttentionUpdateV2", packed,
                              {{5, 3, 8}, ACL_FLOAT}, {"TND", "SBH"})};
}

}  // namespace flashacl::testing
