// SPDX-License-Identifier: Apache-2.0
// Submitting by a handle: which stream it is, and waiting for one task.
#include <gtest/gtest.h>

#include "acl/acl.h"
#include "acl/stream.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::Succeeds;

class StreamSubmitTest : public ::flashacl::testing::RuntimeTest {};

TEST_F(StreamSubmitTest, WaitsForOneTask) {
  ScopedStream stream;
  int value = 0;
  EXPECT_TRUE(Succeeds(EnqueueAndWait(
      stream, [&] { return value = 7, 0; }, "test")));
  EXPECT_EQ(value, 7);
  // The failure is the stream's, not the waiting call's.
  EXPECT_TRUE(Succeeds(EnqueueAndWait(
      stream, [] { return Fail(507015, Title::kRuntime, "bad"); }, "test")));
  EXPECT_TRUE(FailsWith(507015, aclrtSynchronizeStream(stream)));
}

TEST_F(StreamSubmitTest, StaleAndForeignHandlesAreErrors) {
  int local = 0;
  aclError error = 0;
  EXPECT_EQ(FindStream(&local, "test", &error), nullptr);
  EXPECT_TRUE(FailsWith(107000, error));
  aclrtContext context = nullptr;
  EXPECT_TRUE(Succeeds(aclrtGetCurrentContext(&context)));
  EXPECT_EQ(FindStream(context, "test", &error), nullptr);
  EXPECT_TRUE(FailsWith(107000, error));
}

TEST_F(StreamSubmitTest, NoHandleIsTheDefaultStream) {
  aclError error = 0;
  const auto found = FindStream(nullptr, "test", &error);
  ASSERT_NE(found, nullptr);
  EXPECT_TRUE(found->is_default());
  const Stream* ran_on = nullptr;
  EXPECT_TRUE(Succeeds(EnqueueAndWait(
      nullptr, [&] { return ran_on = &ThisStream(), 0; }, "test")));
  EXPECT_EQ(ran_on, found.get());
}

}  // namespace
}  // namespace flashacl::acl
