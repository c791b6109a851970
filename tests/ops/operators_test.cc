// SPDX-License-Identifier: Apache-2.0
// The list of operators names each once, and every table row once.
#include "ops/operators.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace flashacl::ops {
namespace {

TEST(Operators, HaveDistinctNames) {
  std::set<std::string_view> names;
  for (const acl::Operator* op : AllOperators()) {
    EXPECT_TRUE(op->name.starts_with("aclnn")) << op->name;
    EXPECT_TRUE(names.insert(op->name).second) << op->name;
  }
  EXPECT_EQ(names.size(), AllOperators().size());
}

TEST(Operators, TablesNameEveryArgumentOnceInputsFirst) {
  for (const acl::Operator* op : AllOperators()) {
    std::set<std::string_view> names;
    bool outputs = false;
    for (const acl::Argument& argument : op->arguments) {
      SCOPED_TRACE(argument.name);
      EXPECT_TRUE(names.insert(argument.name).second);
      EXPECT_TRUE(argument.output || !outputs) << "an input after outputs";
      outputs = argument.output;
    }
    EXPECT_TRUE(outputs) << op->name << " writes nothing";
  }
}

TEST(Operators, AContradictionIsADocumentedStatus) {
  const std::set<aclnnStatus> documented{161001, 161002, 561002, 561103};
  for (const acl::Operator* op : AllOperators()) {
    EXPECT_TRUE(documented.contains(op->contradiction)) << op->name;
  }
}

}  // namespace
}  // namespace flashacl::ops
