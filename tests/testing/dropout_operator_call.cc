// SPDX-License-Identifier: Apache-2.0
// Calls of operators of dropout.
#include "tests/testing/operator_call.h"

namespace flashacl::testing {

std::vector<OperatorCall> DropoutOperatorCalls() {
  const TensorArgument halves{{3, 50}, ACL_FLOAT16};
  const TensorArgument floats{{3, 50}, ACL_FLOAT};
  const TensorArgument mask{{32}, ACL_UINT8};
  const TensorArgument number{{1}, ACL_INT64};
  const auto call = [](const char* name, std::vector<TensorArgument> tensors,
                       size_t first_output, double prob) {
    return OperatorCall{.name = name,
                        .tensors = std::move(tensors),
                        .arrays = {},
                        .reals = {prob},
                        .integers = {},
                        .texts = {},
                        .first_output = first_output};
  };
  std::vector<OperatorCall> calls{
      call("aclnnDropoutGenMask", {mask}, 0, 0.1),
      call("aclnnDropoutGenMaskV2", {mask}, 0, 0.1),
      call("aclnnDropoutGenMaskV2Tensor", {number, number, mask}, 2, 0.1),
      call("aclnnDropoutDoMask", {halves, mask, floats}, 2, 0.25),
      call("aclnnDropout", {halves, halves, mask}, 1, 0.25),
      call("aclnnDropoutBackward", {halves, mask, halves}, 2, 1.25),
  };
  for (size_t n = 0; n < 3; ++n) calls[n].arrays = {{{3, 50}}};
  calls[0].integers = {2, 12};
  calls[1].integers = {2, 12, ACL_BF16};
  calls[2].integers = {12, ACL_FLOAT16};
  calls[4].integers = {true, 2, 12};
  return calls;
}

}  // namespace flashacl::testing
