// SPDX-License-Identifier: Apache-2.0
// However a process ends, it ends: with the code it asked for, soon, and
// without a crash. Each case runs in a child.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "acl/latch.h"
#include "acl/stream.h"
#include "tests/testing/child.h"
#include "tests/testing/fork.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Message;
using ::flashacl::testing::RunChild;
using ::flashacl::testing::Succeeds;

// The child must end by End, with the code only that gives, and soon.
#define EXITS(name)                                                 \
  TEST(Exit, name) {                                                \
    const auto start = Clock::now();                                \
    const auto child = RunChild("ExitChild.DISABLED_" #name, {});   \
    EXPECT_FALSE(child.timed_out);                                  \
    EXPECT_EQ(child.exit_code, 42) << child.signal << child.output; \
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));      \
  }                                                                 \
  TEST(ExitChild, DISABLED_##name)

[[noreturn]] void End() { std::exit(::testing::Test::HasFailure() ? 1 : 42); }

void Sleep(int64_t ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

aclrtStream Start() {
  aclrtStream stream = nullptr;
  EXPECT_TRUE(Succeeds(aclInit(nullptr)));
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_TRUE(Succeeds(aclrtCreateStream(&stream)));
  return stream;
}

void Queue(aclrtStream stream, int tasks, int64_t ms) {
  for (int i = 0; i < tasks; ++i) {
    EXPECT_TRUE(Succeeds(Enqueue(
        stream,
        [ms] {
          Sleep(ms);
          return 0;
        },
        "test")));
  }
}

EXITS(WithoutFinalize) {
  aclrtStream stream = Start();
  Queue(stream, 3, 1);
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  End();
}

EXITS(WithPendingWork) {
  Queue(Start(), 1000, 50);
  EXPECT_TRUE(Succeeds(aclFinalize()));
  End();
}

EXITS(WithATaskThatNeverEnds) {
  aclrtStream stream = Start();
  static Latch& never = *new Latch;
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
      stream, [](void*) { never.Wait(std::nullopt); }, nullptr)));
  Sleep(20);
  End();
}

EXITS(WithAStreamThatWaitsForNothing) {
  aclrtStream stream = Start();
  aclrtEvent event = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(stream, event)));
  End();
}

// Branches that wait for each other are no work that has to be waited for.
EXITS(AtOnceWhileBranchesOfAReplayWait) {
  // Registered first, so it runs when the library has ended.
  static Clock::time_point end;
  std::atexit([] {
    if (Clock::now() - end > std::chrono::milliseconds(700)) _exit(1);
  });
  aclrtStream stream = Start();
  aclrtStream side = nullptr;
  aclrtEvent fork = nullptr;
  aclrtEvent join = nullptr;
  aclrtEvent never = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateStream(&side)));
  EXPECT_TRUE(Succeeds(aclrtCreateEventExWithFlag(&fork, ACL_EVENT_SYNC)));
  EXPECT_TRUE(Succeeds(aclrtCreateEventExWithFlag(&join, ACL_EVENT_SYNC)));
  EXPECT_TRUE(Succeeds(aclrtCreateEventWithFlag(&never, ACL_EVENT_EXTERNAL)));
  EXPECT_TRUE(Succeeds(
      aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(fork, stream)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(side, fork)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(side, never)));
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(join, side)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(stream, join)));
  Queue(stream, 1, 1);
  aclmdlRI graph = nullptr;
  EXPECT_TRUE(Succeeds(aclmdlRICaptureEnd(stream, &graph)));
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  Sleep(50);
  end = Clock::now();
  End();
}

EXITS(FromAnotherThread) {
  Queue(Start(), 100, 5);
  std::thread([] { End(); }).join();
}

EXITS(FromAHostFunction) {
  aclrtStream stream = Start();
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
      stream, [](void*) { End(); }, nullptr)));
  aclrtSynchronizeStream(stream);
  Sleep(20000);
}

aclrtStream left_over = nullptr;

EXITS(AndFinalizesInAtExit) {
  // Registered before the library registers anything of its own, so it runs
  // after that.
  std::atexit([] {
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(left_over)));
    EXPECT_TRUE(Succeeds(aclrtDestroyStream(left_over)));
    EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
    EXPECT_TRUE(Succeeds(aclFinalize()));
    if (::testing::Test::HasFailure()) _exit(1);
  });
  left_over = Start();
  Queue(left_over, 20, 2);
  End();
}

// What programs with global objects do: their destructors release everything.
struct Owner {
  aclrtStream stream = nullptr;
  aclrtEvent event = nullptr;
  ~Owner() {
    if (stream == nullptr) return;
    if (aclrtRecordEvent(event, stream) != 0 ||
        aclrtSynchronizeEvent(event) != 0 || aclrtDestroyEvent(event) != 0 ||
        aclrtDestroyStreamForce(stream) != 0 || aclFinalize() != 0) {
      _exit(1);
    }
    aclrtSetDevice(-1);
    if (Message().empty()) _exit(1);
  }
};
Owner owner;

EXITS(AndReleasesInAGlobalDestructor) {
  owner.stream = Start();
  EXPECT_TRUE(Succeeds(aclrtCreateEvent(&owner.event)));
  Queue(owner.stream, 20, 2);
  End();
}

EXITS(WhileOtherThreadsCall) {
  Start();
  for (int i = 0; i < 3; ++i) {
    std::thread([] {
      aclrtSetDevice(0);
      for (;;) {
        aclrtStream stream = nullptr;
        if (aclrtCreateStream(&stream) == 0) {
          Enqueue(
              stream, [] { return 0; }, "test");
          aclrtSynchronizeStream(stream);
          aclrtDestroyStream(stream);
        }
        aclrtSetDevice(-1);
        Message();
      }
    }).detach();
  }
  Sleep(50);
  End();
}

// A fork before the runtime is used leaves both processes able to use it.
EXITS(AfterAForkBeforeInit) {
  const pid_t child = testing::Fork();
  aclrtStream stream = Start();
  Queue(stream, 3, 1);
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(Succeeds(aclrtDestroyStream(stream)));
  EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
  EXPECT_TRUE(Succeeds(aclFinalize()));
  if (child == 0) End();
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42);
  End();
}

// A child has none of its parent's streams: each call says so, and what to do;
// streams of its own run.
EXITS(AfterAForkWithWorkUnderWay) {
  aclrtStream stream = Start();
  Queue(stream, 3, 100);
  aclrtEvent event = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateEvent(&event)));
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, stream)));
  const pid_t child = testing::Fork();
  if (child != 0) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
    End();
  }
  EXPECT_TRUE(
      FailsWith(107000, aclrtSynchronizeStream(stream), "in the child"));
  EXPECT_TRUE(FailsWith(107000, aclrtSynchronizeEvent(event), "in the child"));
  EXPECT_TRUE(FailsWith(107002, aclrtSynchronizeDevice(), "aclrtSetDevice"));
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  aclrtStream own = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateStream(&own)));
  EXPECT_NE(own, stream);
  Queue(own, 3, 1);
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(own)));
  EXPECT_TRUE(Succeeds(aclrtDestroyStream(own)));
  EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
  EXPECT_TRUE(Succeeds(aclFinalize()));
  // Not by exit, where leak checkers miss what only the parent's threads knew.
  _exit(HasFailure() ? 1 : 42);
}

EXITS(AfterManyThreadsCameAndWent) {
  Start();
  for (int i = 0; i < 200; ++i) {
    std::thread([] {
      aclrtSetDevice(-1);
      Message();
      aclrtSetDevice(0);
      aclrtSynchronizeDevice();
    }).join();
  }
  End();
}

}  // namespace
}  // namespace flashacl::acl
