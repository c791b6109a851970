// SPDX-License-Identifier: Apache-2.0
// aclDumpOpTensors while nothing is recorded: it checks what it is given. What
// it records: dump_test.cc.
#include <gtest/gtest.h>

#include <cstdint>

#include "acl/acl.h"
#include "acl/call_contents.h"
#include "aclnn/acl_meta.h"
#include "tests/testing/misuse.h"
#include "tests/testing/runtime.h"

namespace flashacl::testing {
namespace {

using DumpTensors = RuntimeTest;

TEST_F(DumpTensors, ChecksWhatItIsGiven) {
  ExpectRefusals({
      {"aclDumpOpTensors without a type",
       [](Scene& s) {
         return aclDumpOpTensors(nullptr, "own", nullptr, 0, 0, s.stream);
       },
       161001,
       {"aclDumpOpTensors", "opType"}},
      {"aclDumpOpTensors without a name",
       [](Scene& s) {
         return aclDumpOpTensors("Own", nullptr, nullptr, 0, 0, s.stream);
       },
       161001,
       {"aclDumpOpTensors", "opName"}},
      {"aclDumpOpTensors of -1 tensors",
       [](Scene& s) {
         aclTensor* tensor = nullptr;
         return aclDumpOpTensors("Own", "own", &tensor, SIZE_MAX, 0, s.stream);
       },
       161002,
       {"inputTensorNum", "18446744073709551615", "at most"}},
      {"aclDumpOpTensors of no tensor",
       [](Scene& s) {
         aclTensor* tensor = nullptr;
         return aclDumpOpTensors("Own", "own", &tensor, 0, 1, s.stream);
       },
       161002,
       {"tensors[0]", "expected a tensor"}},
      {"aclDumpOpTensors of nothing, which is fine",
       [](Scene& s) {
         return aclDumpOpTensors("Own", "own", nullptr, 0, 0, s.stream);
       },
       0,
       {}},
  });
}

TEST_F(DumpTensors, ARecordDescribesAView) {
  const int64_t dims[] = {2, 3};
  const int64_t strides[] = {8, 1};
  acl::Tensor tensor;
  tensor.acl_dtype = ACL_BF16;
  tensor.rank = 2;
  for (size_t axis = 0; axis < 2; ++axis) {
    tensor.dims[axis] = dims[axis];
    tensor.strides[axis] = strides[axis];
  }
  tensor.offset = 4;
  const record::Tensor said = acl::DescriptionOf(tensor);
  EXPECT_EQ(said.type, "BFLOAT16");
  EXPECT_EQ(said.strides, (std::vector<int64_t>{8, 1}));
  EXPECT_EQ(said.offset, 4);
  EXPECT_FALSE(said.has_data);
}

}  // namespace
}  // namespace flashacl::testing
