// SPDX-License-Identifier: Apache-2.0
// Forked children: that they are told what is their parent's, and that they can
// work none the less.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <functional>

#include "acl/acl.h"
#include "tests/testing/child.h"
#include "tests/testing/fork.h"
#include "tests/testing/runtime.h"
#include "tests/testing/tiny_operator.h"

namespace flashacl::testing {

// A program of its own, a child that the test of the same name starts.
#define FORKS(name)                                               \
  TEST(Fork, name) {                                              \
    const auto child = RunChild("ForkChild.DISABLED_" #name, {}); \
    EXPECT_TRUE(child.ok()) << child.signal << child.output;      \
  }                                                               \
  TEST(ForkChild, DISABLED_##name)

// An operator on `stream`, and whether it computed.
inline void ExpectOperatorRuns(aclrtStream stream) {
  TinyCall call(8, 64);
  call.SetValue(3.0f);
  ASSERT_TRUE(Succeeds(call.Prepare()));
  void* workspace = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMalloc(&workspace, call.workspace_size + 64,
                                   ACL_MEM_MALLOC_HUGE_FIRST)));
  EXPECT_TRUE(Succeeds(
      acl::Launch(workspace, call.workspace_size, call.executor, stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(call.out_data[call.elements() - 1], 3.0f);
  EXPECT_TRUE(Succeeds(aclrtFree(workspace)));
}

inline void ExpectGraphRuns(aclrtStream stream) {
  static std::atomic<int> runs;
  runs = 0;
  EXPECT_TRUE(
      Succeeds(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)));
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
      stream, [](void*) { ++runs; }, nullptr)));
  aclmdlRI graph = nullptr;
  EXPECT_TRUE(Succeeds(aclmdlRICaptureEnd(stream, &graph)));
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  EXPECT_TRUE(Succeeds(aclmdlRIExecute(graph, -1)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(Succeeds(aclmdlRIDestroy(graph)));
}

// One stream waits for the other by an event, and by a notify.
inline void ExpectStreamsMeet(aclrtStream one, aclrtStream other) {
  aclrtEvent event = nullptr;
  aclrtNotify notify = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC)));
  EXPECT_TRUE(Succeeds(aclrtCreateNotify(&notify, 0)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(one, event)));
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(notify, one, 0)));
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, other)));
  EXPECT_TRUE(Succeeds(aclrtRecordNotify(notify, other)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(one)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
  EXPECT_TRUE(Succeeds(aclrtDestroyNotify(notify)));
}

// What every process may do, from its first call to its last.
inline void ExpectOwnWork() {
  const aclError init = aclInit(nullptr);
  EXPECT_TRUE(init == ACL_SUCCESS || init == ACL_ERROR_REPEAT_INITIALIZE);
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  {
    ScopedStream one, other;
    ExpectOperatorRuns(one);
    ExpectGraphRuns(one);
    ExpectStreamsMeet(one, other);
  }
  EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
  EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
  EXPECT_TRUE(Succeeds(aclFinalize()));
}

[[noreturn]] inline void EndChild() {
  std::fflush(stdout);
  _exit(::testing::Test::HasFailure() ? 1 : 0);
}

inline void ExpectEndsWell(pid_t child) {
  ASSERT_GT(child, 0);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

inline constexpr unsigned kPatience = 20;  // seconds of a child

// Forks; the child runs `body` and then work of its own.
inline void InChild(const std::function<void()>& body) {
  std::fflush(stdout);
  const pid_t child = Fork();
  if (child != 0) return ExpectEndsWell(child);
  alarm(kPatience);
  body();
  ExpectOwnWork();
  EndChild();
}

inline void Start() {
  ASSERT_TRUE(Succeeds(aclInit(nullptr)));
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
}

// A call says that its object is the parent's, and what to do.
inline void ExpectRefused(aclError code) {
  EXPECT_TRUE(FailsWith(107000, code, "in the child"));
}

inline void ExpectStreamRefused(aclrtStream stream) {
  const auto nothing = [](void*) {};
  aclrtStreamStatus status;
  ExpectRefused(aclrtSynchronizeStream(stream));
  ExpectRefused(aclrtSynchronizeStreamWithTimeout(stream, 10));
  ExpectRefused(aclrtStreamQuery(stream, &status));
  ExpectRefused(aclrtStreamAbort(stream));
  ExpectRefused(aclrtLaunchHostFunc(stream, nothing, nullptr));
  ExpectRefused(aclrtDestroyStream(stream));
  ExpectRefused(aclrtDestroyStreamForce(stream));
  aclmdlRI graph = nullptr;
  EXPECT_TRUE(
      FailsWith(107002, aclmdlRICaptureEnd(stream, &graph), "aclrtSetDevice"));
}

}  // namespace flashacl::testing
