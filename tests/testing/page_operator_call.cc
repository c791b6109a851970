// SPDX-License-Identifier: Apache-2.0
// Calls of operators that copy rows into and out of pages.
#include "tests/testing/operator_call.h"

namespace flashacl::testing {

std::vector<OperatorCall> PageOperatorCalls() {
  const TensorArgument absent{{1}, ACL_INT32, false};
  const OperatorCall scatter{
      .name = "aclnnScatterPaKvCache",
      .tensors =
          {
              {{3, 2, 16}, ACL_FLOAT16},     // key
              {{2, 4, 2, 16}, ACL_FLOAT16},  // keyCacheRef
              {{3}, ACL_INT32},              // slotMapping
              {{3, 2, 8}, ACL_FLOAT16},      // value
              {{2, 4, 2, 8}, ACL_FLOAT16},   // valueCacheRef
              absent,
              absent,
              absent,
          },
      .arrays = {{{32, 16}}, {{0, 0}}},
      .reals = {},
      .integers = {},
      .texts = {"Norm", "None"},
      .first_output = 1,
      .scalars = {},
      .outputs = {1, 4},
  };
  const OperatorCall gather{
      .name = "aclnnGatherPaKvCache",
      .tensors =
          {
              {{4, 4, 2, 16}, ACL_INT8},  // keyCache
              {{4, 4, 2, 8}, ACL_INT8},   // valueCache
              {{3, 2}, ACL_INT32},        // blockTables
              {{3}, ACL_INT32},           // seqLens
              {{7, 2, 16}, ACL_INT8},     // keyRef
              {{7, 2, 8}, ACL_INT8},      // valueRef
              {{3}, ACL_INT32},           // seqOffsetOptional
          },
      .arrays = {},
      .reals = {},
      .integers = {0},
      .texts = {"Norm"},
      .first_output = 4,
      .scalars = {},
      .outputs = {4, 5},
  };
  return {scatter, gather};
}

}  // namespace flashacl::testing
