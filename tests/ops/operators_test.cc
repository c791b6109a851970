// SPDX-License-Identifier: Apache-2.0
// The list of operators names each once, and every table row once.
#include "ops/operators.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>
#include <vector>

#include "tests/testing/operator_call.h"

namespace flashacl::ops {
namespace {

// Each has a call that tests of all operators make.
TEST(Operators, AreDistinctAndCalled) {
  std::set<std::string_view> names;
  for (const acl::Operator* op : AllOperators()) {
    EXPECT_TRUE(op->name.starts_with("aclnn")) << op->name;
    EXPECT_TRUE(names.insert(op->name).second) << op->name;
  }
  std::set<std::string_view> called;
  for (const testing::OperatorCall& call : testing::AllOperatorCalls()) {
    called.insert(call.name);
  }
  EXPECT_EQ(names, called);
}

TEST(Operators, TablesNameEveryArgumentOnceInputsFirst) {
  for (const acl::Operator* op : AllOperators()) {
    std::set<std::string_view> names;
    bool outputs = false;
    bool writes = false;
    for (const acl::Argument& argument : op->arguments) {
      if (argument.need == acl::Need::kAbsent) continue;
      SCOPED_TRACE(argument.name);
      EXPECT_TRUE(names.insert(argument.name).second);
      if (!argument.in_place) {
        EXPECT_TRUE(argument.output || !outputs) << "an input after outputs";
        outputs = argument.output;
      }
      writes |= argument.output;
    }
    EXPECT_TRUE(writes) << op->name << " writes nothing";
  }
}

TEST(Operators, AContradictionIsADocumentedStatus) {
  const std::set<aclnnStatus> documented{161001, 161002, 561002, 561103};
  for (const acl::Operator* op : AllOperators()) {
    EXPECT_TRUE(documented.contains(op->contradiction)) << op->name;
  }
}

TEST(Operators, NeedSomewhereToAnswer) {
  for (const testing::OperatorCall& call : testing::AllOperatorCalls()) {
    SCOPED_TRACE(call.name);
    uint64_t size = 7;
    aclOpExecutor* executor = nullptr;
    EXPECT_EQ(call.Prepare(nullptr, &executor), 161001);
    EXPECT_NE(std::string_view(aclGetRecentErrMsg()).find("workspaceSize"),
              std::string_view::npos);
    EXPECT_EQ(executor, nullptr);
    EXPECT_EQ(call.Prepare(&size, nullptr), 161001);
    EXPECT_NE(std::string_view(aclGetRecentErrMsg()).find("executor"),
              std::string_view::npos);
    EXPECT_EQ(size, 7u);
  }
}

TEST(Operators, NeedMemoryWhereThereAreElements) {
  ASSERT_EQ(aclrtSetDevice(0), 0);
  for (const testing::OperatorCall& call : testing::AllOperatorCalls()) {
    SCOPED_TRACE(call.name);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(call.Prepare(&size, &executor), 0);
    std::vector<std::byte> workspace(size);
    EXPECT_EQ(call.Launch(workspace.data(), size, executor, nullptr), 161001);
  }
  EXPECT_EQ(aclrtResetDevice(0), 0);
}

// What a version lacks counts neither as an argument nor as an index.
TEST(Operators, IndicesAreThoseOfTheVersionsTensors) {
  const int64_t one = 1;
  aclTensor* other = aclCreateTensor(&one, 1, ACL_FLOAT, nullptr, 0,
                                     ACL_FORMAT_ND, &one, 1, nullptr);
  for (const testing::OperatorCall& call : testing::AllOperatorCalls()) {
    SCOPED_TRACE(call.name);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(call.Prepare(&size, &executor), 0);
    float number = 0;
    // A list has as many as it has members.
    size_t count = 0;
    for (const testing::TensorArgument& tensor : call.tensors) {
      if (&tensor == &call.tensors[call.first_output]) {
        EXPECT_EQ(aclSetTensorAddr(executor, count, other, &number), 0);
      }
      count += tensor.list ? tensor.members : 1;
    }
    EXPECT_NE(aclSetTensorAddr(executor, count, other, &number), 0);
    EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
  }
  EXPECT_EQ(aclDestroyTensor(other), 0);
}

}  // namespace
}  // namespace flashacl::ops
