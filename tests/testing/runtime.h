// SPDX-License-Identifier: Apache-2.0
// What tests of the C API say most often: a call succeeds, or it fails with a
// number and a message.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "acl/acl.h"

namespace flashacl::testing {

// The calling thread's messages, which are gone then; "" if there are none.
inline std::string Message() {
  const char* text = aclGetRecentErrMsg();
  return text == nullptr ? "" : text;
}

// The call answered `expected` and queued a message that contains `part`.
inline ::testing::AssertionResult FailsWith(int expected, int got,
                                            const std::string& part = "") {
  const std::string message = Message();
  if (got != expected) {
    return ::testing::AssertionFailure()
           << "got " << got << ", expected " << expected << ": " << message;
  }
  if (message.empty()) {
    return ::testing::AssertionFailure() << got << " without a message";
  }
  if (message.find(part) == std::string::npos) {
    return ::testing::AssertionFailure()
           << "'" << part << "' is not in: " << message;
  }
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult Succeeds(int got) {
  if (got == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << got << ": " << Message();
}

// Device 0 is open and its default context current.
class RuntimeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Message();
    ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  }
  void TearDown() override { EXPECT_TRUE(Succeeds(aclrtResetDeviceForce(0))); }
};

// A stream for the length of a scope.
class ScopedStream {
 public:
  ScopedStream() { EXPECT_TRUE(Succeeds(aclrtCreateStream(&stream_))); }
  ~ScopedStream() { EXPECT_TRUE(Succeeds(aclrtDestroyStream(stream_))); }
  ScopedStream(const ScopedStream&) = delete;
  ScopedStream& operator=(const ScopedStream&) = delete;

  operator aclrtStream() const { return stream_; }  // NOLINT: by design

 private:
  aclrtStream stream_ = nullptr;
};

}  // namespace flashacl::testing
