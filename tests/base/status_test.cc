// SPDX-License-Identifier: Apache-2.0
// Success is free; a failure keeps its code and its words.
#include "base/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

namespace flashacl {
namespace {

TEST(Status, SuccessHasNoMessage) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), Code::kOk);
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(sizeof(Status), sizeof(std::shared_ptr<int>));
}

TEST(Status, FailureKeepsCodeAndWords) {
  const Status status = Invalid("{}: {} is not {}", "key", 3, "4");
  const Status copy = status;
  EXPECT_FALSE(copy.ok());
  EXPECT_EQ(copy.code(), Code::kInvalidArgument);
  EXPECT_EQ(copy.message(), "key: 3 is not 4");
  EXPECT_EQ(NullArgument("x").code(), Code::kNullArgument);
  EXPECT_EQ(Contradiction("x").code(), Code::kContradiction);
  EXPECT_EQ(Unsupported("x").code(), Code::kUnsupported);
  EXPECT_EQ(RuntimeFailure("x").code(), Code::kRuntime);
  EXPECT_EQ(Internal("x").code(), Code::kInternal);
}

TEST(Status, CodesHaveNames) {
  EXPECT_EQ(Name(Code::kOk), "ok");
  EXPECT_EQ(Name(Code::kOutOfMemory), "out of memory");
  EXPECT_EQ(Name(Code::kInternal), "internal error");
  EXPECT_EQ(Name(static_cast<Code>(200)), "unknown");
}

Status FailsIf(bool fails) {
  if (fails) return Invalid("failed");
  return {};
}

Result<int> TwiceUnless(bool fails, int value) {
  FLASHACL_RETURN_IF_ERROR(FailsIf(fails));
  return 2 * value;
}

TEST(Result, IsAValueOrWhyNot) {
  const Result<int> good = TwiceUnless(false, 21);
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(*good, 42);
  EXPECT_TRUE(good.status().ok());
  const Result<int> bad = TwiceUnless(true, 21);
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().message(), "failed");
}

TEST(Result, HoldsWhatCannotBeCopied) {
  Result<std::unique_ptr<std::string>> result(
      std::make_unique<std::string>("here"));
  ASSERT_TRUE(result.ok());
  const std::unique_ptr<std::string> taken = std::move(*result);
  EXPECT_EQ(*taken, "here");
}

}  // namespace
}  // namespace flashacl
