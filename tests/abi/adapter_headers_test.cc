// SPDX-License-Identifier: Apache-2.0
//
// The numbers and layouts of single operators, data items, kernels and
// collectives that compiled programs have inside them.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "acl/acl.h"
#include "acl/acl_dump.h"
#include "acl/acl_op_compiler.h"
#include "acl/acl_tdt.h"
#include "hccl/hccl.h"

namespace {

TEST(AdapterHeaders, SingleOperators) {
  EXPECT_EQ(ACL_UNKNOWN_RANK, 0xFFFFFFFFFFFFFFFE);
  EXPECT_EQ(ACL_TENSOR_SHAPE_RANGE_NUM, 2);
  EXPECT_EQ(ACL_TENSOR_VALUE_RANGE_NUM, 2);
  EXPECT_EQ(ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT, 2);
  EXPECT_EQ(ACL_ENGINE_VECTOR, 2);
  EXPECT_EQ(ACL_COMPILE_UNREGISTERED, 1);
  EXPECT_EQ(ACL_OP_COMPILE_DEFAULT, 0);
  EXPECT_EQ(ACL_OP_COMPILE_FUZZ, 1);
  EXPECT_EQ(ACL_OP_JIT_COMPILE, 10);
  EXPECT_EQ(ACL_OP_DEBUG_OPTION, 16);
  EXPECT_EQ(ACL_OP_DUMP_OP_AICORE_ARGS, 1u);
  EXPECT_EQ(ACL_ERROR_OP_NOT_FOUND, 100024);
}

TEST(AdapterHeaders, DataItems) {
  EXPECT_EQ(ACL_TENSOR_DATA_UNDEFINED, -1);
  EXPECT_EQ(ACL_TENSOR_DATA_TENSOR, 0);
  EXPECT_EQ(ACL_TENSOR_DATA_END_OF_SEQUENCE, 1);
  EXPECT_EQ(ACL_TENSOR_DATA_ABNORMAL, 2);
  EXPECT_EQ(ACL_TENSOR_DATA_SLICE_TENSOR, 3);
  EXPECT_EQ(ACL_TENSOR_DATA_END_TENSOR, 4);
}

TEST(AdapterHeaders, Kernels) {
  EXPECT_EQ(ACL_RT_BINARY_LOAD_OPT_LAZY_LOAD, 1);
  EXPECT_EQ(ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE, 3);
  EXPECT_EQ(sizeof(aclrtBinaryLoadOptionValue), 16u);
  EXPECT_EQ(sizeof(aclrtBinaryLoadOption), 20u);
  EXPECT_EQ(offsetof(aclrtBinaryLoadOptions, numOpt), 8u);
}

TEST(AdapterHeaders, Collectives) {
  EXPECT_EQ(HCCL_E_NOT_SUPPORT, 5);
  EXPECT_EQ(HCCL_E_REMOTE, 21);
  EXPECT_EQ(HCCL_E_SUSPENDING, 22);
  EXPECT_EQ(HCCL_REDUCE_MIN, 3);
  EXPECT_EQ(HCCL_DATA_TYPE_FP16, 3);
  EXPECT_EQ(HCCL_DATA_TYPE_BFP16, 11);
  EXPECT_EQ(HCCL_RECV, 1);
  EXPECT_EQ(sizeof(HcclRootInfo), 4108u);
  EXPECT_EQ(sizeof(HcclConfigValue), 4u);
  EXPECT_EQ(offsetof(HcclCommConfig, hcclBufferSize), 24u);
  EXPECT_EQ(offsetof(HcclCommConfig, hcclCommName), 32u);
  EXPECT_EQ(offsetof(HcclCommConfig, hcclOpExpansionMode), 288u);
  EXPECT_EQ(offsetof(HcclSendRecvItem, remoteRank), 28u);
}

}  // namespace
