// SPDX-License-Identifier: Apache-2.0
// Contexts: which one is current in which thread, and what ends with them.
#include "acl/context.h"

#include <gtest/gtest.h>

#include <thread>

#include "acl/acl.h"
#include "acl/stream.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Succeeds;

aclrtContext Current() {
  aclrtContext context = nullptr;
  EXPECT_TRUE(Succeeds(aclrtGetCurrentContext(&context)));
  return context;
}

TEST(Context, ChecksItsArguments) {
  int local = 0;
  aclrtContext context = nullptr;
  EXPECT_TRUE(FailsWith(100000, aclrtCreateContext(nullptr, 0)));
  EXPECT_TRUE(FailsWith(107001, aclrtCreateContext(&context, 1)));
  EXPECT_TRUE(FailsWith(107001, aclrtCreateContext(&context, -1)));
  EXPECT_EQ(context, nullptr);
  EXPECT_TRUE(FailsWith(100000, aclrtDestroyContext(nullptr)));
  EXPECT_TRUE(FailsWith(107000, aclrtDestroyContext(&local)));
  EXPECT_TRUE(FailsWith(100000, aclrtSetCurrentContext(nullptr)));
  EXPECT_TRUE(FailsWith(107000, aclrtSetCurrentContext(&local)));
  EXPECT_TRUE(FailsWith(100000, aclrtGetCurrentContext(nullptr)));
  EXPECT_TRUE(FailsWith(107002, aclrtGetCurrentContext(&context)));
  EXPECT_TRUE(FailsWith(100000, aclrtCtxGetCurrentDefaultStream(nullptr)));
  aclrtStream stream = nullptr;
  EXPECT_TRUE(FailsWith(107002, aclrtCtxGetCurrentDefaultStream(&stream)));
}

TEST(Context, IsCurrentWhenCreatedAndNoLongerWhenDestroyed) {
  aclrtContext a = nullptr, b = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateContext(&a, 0)));
  EXPECT_EQ(Current(), a);
  EXPECT_TRUE(Succeeds(aclrtCreateContext(&b, 0)));
  EXPECT_EQ(Current(), b);
  EXPECT_TRUE(Succeeds(aclrtSetCurrentContext(a)));
  EXPECT_EQ(Current(), a);
  EXPECT_TRUE(Succeeds(aclrtDestroyContext(b)));
  EXPECT_EQ(Current(), a);
  EXPECT_TRUE(Succeeds(aclrtDestroyContext(a)));
  aclrtContext none = nullptr;
  EXPECT_TRUE(FailsWith(107002, aclrtGetCurrentContext(&none)));
  EXPECT_TRUE(FailsWith(107000, aclrtDestroyContext(a)));
  EXPECT_TRUE(FailsWith(107000, aclrtSetCurrentContext(a)));
}

// The order of calls in the programs people have.
TEST(Context, ResetAfterDestroyWorks) {
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  aclrtContext context = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateContext(&context, 0)));
  EXPECT_TRUE(Succeeds(aclrtSetCurrentContext(context)));
  aclrtStream stream = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateStream(&stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(Succeeds(aclrtDestroyStream(stream)));
  EXPECT_TRUE(Succeeds(aclrtDestroyContext(context)));
  EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
}

TEST(Context, TheDefaultOneCannotBeDestroyed) {
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_TRUE(FailsWith(107002, aclrtDestroyContext(Current())));
  EXPECT_NE(Current(), nullptr);
  EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
}

TEST(Context, IsCurrentPerThread) {
  aclrtContext context = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateContext(&context, 0)));
  std::thread([context] {
    aclrtContext none = nullptr;
    EXPECT_TRUE(FailsWith(107002, aclrtGetCurrentContext(&none)));
    aclrtStream stream = nullptr;
    EXPECT_TRUE(FailsWith(107002, aclrtCreateStream(&stream)));
    aclrtEvent event = nullptr;
    EXPECT_TRUE(FailsWith(107002, aclrtCreateEvent(&event)));
    EXPECT_TRUE(FailsWith(107002, aclrtSynchronizeStream(nullptr)));
    EXPECT_TRUE(Succeeds(aclrtSetCurrentContext(context)));
    EXPECT_EQ(Current(), context);
    EXPECT_TRUE(Succeeds(aclrtCreateStream(&stream)));
    EXPECT_TRUE(Succeeds(aclrtDestroyContext(context)));
    EXPECT_TRUE(FailsWith(107000, aclrtDestroyStream(stream)));
  }).join();
  // Destroyed by the other thread: gone here too.
  aclrtContext none = nullptr;
  EXPECT_TRUE(FailsWith(107002, aclrtGetCurrentContext(&none)));
}

TEST(Context, HasADefaultStreamOfItsOwn) {
  aclrtContext a = nullptr, b = nullptr;
  aclrtStream of_a = nullptr, of_b = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateContext(&a, 0)));
  EXPECT_TRUE(Succeeds(aclrtCtxGetCurrentDefaultStream(&of_a)));
  EXPECT_TRUE(Succeeds(aclrtCreateContext(&b, 0)));
  EXPECT_TRUE(Succeeds(aclrtCtxGetCurrentDefaultStream(&of_b)));
  EXPECT_NE(of_a, of_b);
  EXPECT_TRUE(FailsWith(107000, aclrtDestroyStream(of_a)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(of_a)));
  EXPECT_TRUE(Succeeds(aclrtDestroyContext(a)));
  EXPECT_TRUE(FailsWith(107000, aclrtSynchronizeStream(of_a)));
  EXPECT_TRUE(Succeeds(aclrtDestroyContext(b)));
}

TEST(Context, DestroyingWaitsForTasks) {
  aclrtContext context = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateContext(&context, 0)));
  std::atomic<int> ran{0};
  aclrtStream streams[2] = {nullptr, nullptr};
  EXPECT_TRUE(Succeeds(aclrtCreateStream(&streams[1])));
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
        streams[i % 2],
        [](void* at) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          ++*static_cast<std::atomic<int>*>(at);
        },
        &ran)));
  }
  EXPECT_TRUE(Succeeds(aclrtDestroyContext(context)));
  EXPECT_EQ(ran, 20);
}

TEST(Context, SynchronizingCoversItsStreamsOnly) {
  const auto a = Context::Create(0, false);
  const auto b = Context::Create(0, false);
  Latch blocked;
  b->default_stream()->Push(
      [&] {
        b->default_stream()->WaitInTask(blocked, std::nullopt);
        return ACL_SUCCESS;
      },
      "test", TaskKind::kDevice);
  EXPECT_TRUE(Succeeds(SynchronizeContext(*a, std::nullopt, "test")));
  EXPECT_TRUE(
      FailsWith(507046, SynchronizeContext(*b, DeadlineIn(10), "test")));
  blocked.Open();
  EXPECT_TRUE(Succeeds(SynchronizeContext(*b, std::nullopt, "test")));
  // The first failure counts, whatever streams after it say.
  EXPECT_NE(a->CreateStream(0), nullptr);
  a->default_stream()->Push([] { return Fail(507015, Title::kRuntime, "bad"); },
                            "test", TaskKind::kDevice);
  EXPECT_TRUE(
      FailsWith(507015, SynchronizeContext(*a, std::nullopt, "test"), "bad"));
  EXPECT_TRUE(a->Destroy());
  EXPECT_FALSE(a->Destroy());
  EXPECT_TRUE(b->Destroy());
}

}  // namespace
}  // namespace flashacl::acl
