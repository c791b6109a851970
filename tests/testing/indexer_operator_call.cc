// SPDX-License-Identifier: Apache-2.0
// Calls of the lightning indexer and of its gradient.
#include "tests/testing/operator_call.h"

namespace flashacl::testing {
namespace {

constexpr int64_t kAllTokens = 2147483647;

// Packed queries over keys in pages.
OperatorCall Selection() {
  return {
      .name = "aclnnLightningIndexer",
      .tensors =
          {
              {{6, 4, 8}, ACL_FLOAT16},      // query
              {{5, 16, 1, 8}, ACL_FLOAT16},  // key, in pages
              {{6, 4}, ACL_FLOAT},           // weights
              {{2}, ACL_INT32},              // actualSeqLengthsQuery
              {{2}, ACL_INT64},              // actualSeqLengthsKey
              {{2, 2}, ACL_INT32},           // blockTable
              {{6, 1, 7}, ACL_INT32},        // sparseIndicesOut
              {{6, 1, 7}, ACL_FLOAT16},      // sparseValuesOut
          },
      .arrays = {},
      .reals = {},
      .integers = {7, 3, kAllTokens, kAllTokens, 1},
      .texts = {"TND", "PA_BSND"},
      .first_output = 6,
  };
}

OperatorCall Gradient() {
  const TensorArgument query{{6, 4, 20}, ACL_BF16};
  const TensorArgument key{{9, 1, 20}, ACL_BF16};
  const TensorArgument weights{{6, 4}, ACL_BF16};
  return {
      .name = "aclnnLightningIndexerGrad",
      .tensors =
          {
              query,
              key,
              {{6, 1, 5}, ACL_BF16},   // dy
              {{6, 1, 5}, ACL_INT32},  // sparseIndices
              weights,
              {{2}, ACL_INT32},  // actualSeqLengthsQuery
              {{2}, ACL_INT32},  // actualSeqLengthsKey
              query,
              key,
              weights,
          },
      .arrays = {},
      .reals = {},
      .integers = {4, 3, kAllTokens, kAllTokens, 1},
      .texts = {"TND"},
      .first_output = 7,
  };
}

}  // namespace

std::vector<OperatorCall> IndexerOperatorCalls() {
  return {Selection(), Gradient()};
}

}  // namespace flashacl::testing
