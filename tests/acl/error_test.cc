// SPDX-License-Identifier: Apache-2.0
// Messages: their layout, their order, whose they are, and how exceptions
// become numbers.
#include "acl/error.h"

#include <gtest/gtest.h>

#include <new>
#include <regex>
#include <stdexcept>
#include <string>
#include <thread>

namespace flashacl::acl {
namespace {

std::string Taken() {
  const char* text = TakeMessages();
  return text == nullptr ? "" : text;
}

bool Matches(const std::string& text, const std::string& pattern) {
  return std::regex_match(text, std::regex(pattern));
}

constexpr char kHead[] =
    R"(\[PID: \d+\] \d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3}\.\d{3} )";

class ErrorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SetProcessMessages(false);
    TakeMessages();
    TakeLastError();
  }
  void TearDown() override { SetUp(); }
};

TEST_F(ErrorTest, NoMessageIsNull) { EXPECT_EQ(TakeMessages(), nullptr); }

TEST_F(ErrorTest, OneMessageHasTheDocumentedLayout) {
  EXPECT_EQ(FailNull("aclrtMalloc", "devPtr"), 100000);
  EXPECT_TRUE(Matches(
      Taken(), std::string(kHead) +
                   R"(Invalid_Argument_Null_Pointer\(EH0008\): aclrtMalloc )"
                   "failed because devPtr cannot be a NULL pointer\\.\n"));
  EXPECT_EQ(TakeMessages(), nullptr);
}

TEST_F(ErrorTest, ValuesSayWhatWasExpected) {
  EXPECT_EQ(FailValue(107001, "aclrtSetDevice", "deviceId", "7", "[0, 1)"),
            107001);
  EXPECT_NE(Taken().find("Invalid_Argument(EH0007): aclrtSetDevice failed "
                         "because value 7 for parameter deviceId is invalid. "
                         "Expected value: [0, 1).\n"),
            std::string::npos);
}

TEST_F(ErrorTest, NewestComesFirstAndTheRestIsTraced) {
  Fail(107000, Title::kReason, "first");
  Fail(107000, Title::kReason, "second");
  Fail(161002, Title::kAclnnParameter, "third");
  EXPECT_TRUE(Matches(Taken(), std::string(kHead) +
                                   R"(AclNN_Parameter_Error\(EZ1001\): third)"
                                   "\nTraceBack \\(most recent call last\\):\n"
                                   "        second\n        first\n"));
}

TEST_F(ErrorTest, InternalErrorsHaveTheirOwnLayout) {
  Fail(561103, Title::kAclnnInner, "executor is null");
  EXPECT_TRUE(
      Matches(Taken(), "EZ9999: Internal error!\nEZ9999" + std::string(kHead) +
                           R"(AclNN_Inner_Error\(EZ9999\): executor is null)"
                           "\n"));
}

TEST_F(ErrorTest, KeepsTheLast64) {
  for (int i = 0; i < 100; ++i) Fail(107000, Title::kReason, Str("<{}>", i));
  const std::string all = Taken();
  EXPECT_NE(all.find("<99>"), std::string::npos);
  EXPECT_NE(all.find("<36>"), std::string::npos);
  EXPECT_EQ(all.find("<35>"), std::string::npos);
  EXPECT_EQ(all.find("<99>"), all.rfind("<99>"));
}

TEST_F(ErrorTest, MessagesBelongToTheirThread) {
  Fail(107000, Title::kReason, "here");
  std::thread([] {
    EXPECT_EQ(TakeMessages(), nullptr);
    EXPECT_EQ(TakeLastError(), 0);
    Fail(107001, Title::kReason, "there");
    EXPECT_NE(Taken().find("there"), std::string::npos);
  }).join();
  EXPECT_NE(Taken().find("here"), std::string::npos);
  EXPECT_EQ(TakeLastError(), 107000);
}

TEST_F(ErrorTest, ProcessMessagesAreEveryones) {
  SetProcessMessages(true);
  std::thread([] { Fail(107001, Title::kReason, "there"); }).join();
  EXPECT_NE(Taken().find("there"), std::string::npos);
  EXPECT_EQ(TakeMessages(), nullptr);
}

TEST_F(ErrorTest, AThreadMayKeepItsMessages) {
  SetProcessMessages(true);
  std::thread([] {
    KeepMessagesOnThisThread();
    Fail(507015, Title::kRuntime, "older");
    Fail(507015, Title::kTimeout, "kept");
    Failure failure;
    TakeFailure(507015, &failure);
    EXPECT_EQ(failure.code, 507015);
    EXPECT_EQ(failure.title, Title::kTimeout);
    EXPECT_EQ(failure.text, "kept");
    EXPECT_EQ(TakeMessages(), nullptr);
    TakeFailure(42, &failure);
    EXPECT_EQ(failure.code, 42);
    EXPECT_EQ(failure.Text(), "a task failed (code 42)");
  }).join();
  EXPECT_EQ(TakeMessages(), nullptr);
}

TEST_F(ErrorTest, LastErrorIsTheLastRuntimeCode) {
  EXPECT_EQ(PeekLastError(), 0);
  Fail(107000, Title::kReason, "a");
  Fail(207001, Title::kRuntime, "memory");
  EXPECT_EQ(PeekLastError(), 207001);
  Fail(507015, Title::kReason, "b");
  Fail(100000, Title::kReason, "not a runtime code");
  Fail(161002, Title::kAclnnParameter, "nor this");
  EXPECT_EQ(PeekLastError(), 507015);
  EXPECT_EQ(TakeLastError(), 507015);
  EXPECT_EQ(PeekLastError(), 0);
}

TEST_F(ErrorTest, StatusesBecomeTheDocumentedNumbers) {
  const struct {
    Status status;
    int32_t code;
    const char* title;
  } cases[] = {
      {NullArgument("a"), 161001, "EZ1001"},
      {Invalid("a"), 161002, "EZ1001"},
      {Unsupported("a"), 161002, "EZ1001"},
      {Contradiction("a"), 561002, "EZ1001"},
      {Status(Code::kOutOfMemory, "a"), 361001, "EZ9903"},
      {RuntimeFailure("a"), 361001, "EZ9903"},
      {Internal("a"), 561000, "EZ1001"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Guard(561002, [&] { return c.status; }), c.code);
    EXPECT_NE(Taken().find(c.title), std::string::npos) << c.code;
  }
  EXPECT_EQ(Guard(161002, [] { return Contradiction("a"); }), 161002);
  EXPECT_NE(Taken().find("EZ1001"), std::string::npos);
  EXPECT_EQ(Guard(561002, [] { return Status(); }), 0);
  EXPECT_EQ(TakeMessages(), nullptr);
}

aclError NoMemory() { throw std::bad_alloc(); }
aclError OutOfRange() { return static_cast<int>(std::string("a").at(7)); }

TEST_F(ErrorTest, ExceptionsBecomeNumbers) {
  EXPECT_EQ(GuardRuntime(NoMemory), 207001);
  EXPECT_NE(Taken().find("memory"), std::string::npos);
  EXPECT_EQ(GuardRuntime(OutOfRange), 500000);
  EXPECT_NE(Taken(), "");
  const auto status = [](aclError (*call)()) {
    return [call] {
      call();
      return Status();
    };
  };
  EXPECT_EQ(Guard(0, status(NoMemory)), 361001);
  EXPECT_NE(Taken(), "");
  EXPECT_EQ(Guard(0, status(OutOfRange)), 561000);
  EXPECT_NE(Taken(), "");
}

}  // namespace
}  // namespace flashacl::acl
