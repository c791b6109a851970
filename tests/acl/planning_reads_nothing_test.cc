// SPDX-License-Identifier: Apache-2.0
// Phase 1 of every operator with all of device memory inaccessible: planning
// reads no device data.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "tests/testing/operator_call.h"

namespace flashacl::testing {
namespace {

TEST(PlanningReadsNothing, WithDeviceMemoryThatNobodyMayTouch) {
  constexpr size_t kBytes = size_t{1} << 24;
  void* const memory =
      mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  for (OperatorCall& call : AllOperatorCalls()) {
    SCOPED_TRACE(call.name);
    for (TensorArgument& tensor : call.tensors) tensor.data = memory;
    uint64_t workspace_size = 0;
    aclOpExecutor* executor = nullptr;
    const aclnnStatus status = call.Prepare(&workspace_size, &executor);
    const char* const message = aclGetRecentErrMsg();
    EXPECT_EQ(status, 0) << (message == nullptr ? "" : message);
    if (status == 0) aclDestroyAclOpExecutor(executor);
  }
  munmap(memory, kBytes);
}

}  // namespace
}  // namespace flashacl::testing
