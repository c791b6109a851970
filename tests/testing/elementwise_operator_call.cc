// SPDX-License-Identifier: Apache-2.0
// Calls of operators that are no attention.
#include "tests/testing/operator_call.h"

namespace flashacl::testing {

aclScalar* NewScalar(const ScalarArgument& of) {
  if (!of.present) return nullptr;
  switch (of.type) {
    case ACL_FLOAT: {
      auto value = static_cast<float>(of.value);
      return aclCreateScalar(&value, of.type);
    }
    case ACL_BOOL: {
      bool value = of.value != 0;
      return aclCreateScalar(&value, of.type);
    }
    case ACL_DOUBLE: {
      double value = of.value;
      return aclCreateScalar(&value, of.type);
    }
    default: {  // an integer, least byte first
      auto value = static_cast<int64_t>(of.value);
      return aclCreateScalar(&value, of.type);
    }
  }
}

std::vector<OperatorCall> ElementwiseOperatorCalls() {
  const TensorArgument self{{2, 3, 4}, ACL_FLOAT16};
  const TensorArgument other{{3, 1}, ACL_FLOAT};
  const TensorArgument out{{2, 3, 4}, ACL_FLOAT};
  const TensorArgument integers{{2, 3, 4}, ACL_INT32};
  const auto call = [](const char* name, std::vector<TensorArgument> tensors,
                       size_t first_output) {
    return OperatorCall{.name = name,
                        .tensors = std::move(tensors),
                        .arrays = {},
                        .reals = {},
                        .integers = {},
                        .texts = {},
                        .first_output = first_output};
  };
  std::vector<OperatorCall> calls{
      call("aclnnAdd", {self, other, out}, 2),
      call("aclnnInplaceAdd", {out, other}, 0),
      call("aclnnMul", {self, other, out}, 2),
      call("aclnnInplaceMul", {out, other}, 0),
      call("aclnnInplaceCopy", {out, integers}, 0),
      call("aclnnCast", {self, integers}, 1),
  };
  calls[0].scalars = {{ACL_FLOAT, 0.5}};
  calls[1].scalars = {{ACL_INT64, 2}};
  calls[5].integers = {ACL_INT32};
  return calls;
}

}  // namespace flashacl::testing
