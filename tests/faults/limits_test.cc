// SPDX-License-Identifier: Apache-2.0
// Limits of real life: address space, threads, a full disk, signals. Each in a
// process of its own.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "base/str.h"
#include "tests/faults/subject.h"
#include "tests/testing/child.h"
#include "tests/testing/operator_call.h"
#include "tests/testing/runtime.h"

namespace flashacl::testing {
namespace {

// Bytes of addresses that the process uses now.
rlim_t AddressBytes() {
  unsigned long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  EXPECT_EQ(std::fscanf(file, "%lu", &pages), 1);
  std::fclose(file);
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

void Limit(__rlimit_resource what, rlim_t limit) {
  rlimit both{};
  EXPECT_EQ(getrlimit(what, &both), 0);
  both.rlim_cur = std::min(limit, both.rlim_max);
  EXPECT_EQ(setrlimit(what, &both), 0);
}

// An error with a message, or the right answer.
void ExpectHonest(Subject& subject) {
  const Subject::Answer answer = subject.Run();
  EXPECT_EQ(answer.said, answer.failed());
  EXPECT_TRUE(answer.failed() || subject.IsRight());
}

std::vector<std::unique_ptr<Subject>> AllSubjects() {
  std::vector<std::unique_ptr<Subject>> subjects;
  for (const OperatorCall& call : AllOperatorCalls()) {
    subjects.push_back(std::make_unique<Subject>(call));
  }
  return subjects;
}

// The program of one limit, as a test that only a child runs.
#define IN_A_CHILD(name, ...)                                    \
  TEST(Limits, name) {                                           \
    const ChildResult child =                                    \
        RunChild("LimitsChild.DISABLED_" #name, {__VA_ARGS__});  \
    EXPECT_TRUE(child.ok()) << "signal " << child.signal << "\n" \
                            << child.output;                     \
  }                                                              \
  TEST(LimitsChild, DISABLED_##name)

IN_A_CHILD(AddressSpace) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  auto subjects = AllSubjects();
  // Threads take 8 MB each, memory that is mapped 2 MB at least.
  for (const rlim_t more : {0, 1 << 16, 1 << 20, 4 << 20, 9 << 20, 64 << 20}) {
    for (const auto& subject : subjects) {
      subject->TakeNewThreads(3);
      Limit(RLIMIT_AS, AddressBytes() + more);
      ExpectHonest(*subject);
      void* block = nullptr;
      const aclError status =
          aclrtMalloc(&block, size_t{16} << 20, ACL_MEM_MALLOC_HUGE_FIRST);
      EXPECT_TRUE(status == 0 || !Message().empty());
      EXPECT_EQ(status == 0 ? aclrtFree(block) : 0, 0);
      Limit(RLIMIT_AS, RLIM_INFINITY);
    }
  }
  for (const auto& subject : subjects) {
    EXPECT_EQ(subject->Run(), Subject::Answer());
    EXPECT_TRUE(subject->IsRight());
  }
}

IN_A_CHILD(Threads) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  auto subjects = AllSubjects();
  // The superuser has no such limit; others count all their threads.
  Limit(RLIMIT_NPROC, 1);
  ASSERT_EQ(getuid() == 0 ? setuid(54321) : 0, 0);
  for (const auto& subject : subjects) {
    // Its stream has a thread already: the answer is computed by that alone.
    SetWorkerCount(4);
    EXPECT_EQ(subject->Run(), Subject::Answer());
    EXPECT_TRUE(subject->IsRight());
    // A new stream can't have one.
    subject->TakeNewThreads(4);
    const Subject::Answer answer = subject->Run();
    EXPECT_EQ(answer.launched, 361001);
    EXPECT_TRUE(answer.said && subject->IsUntouched());
  }
}

IN_A_CHILD(FullDisk, {"FLASHACL_TRACE", "/dev/full"}) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  for (const auto& subject : AllSubjects()) {
    EXPECT_EQ(subject->Run(), Subject::Answer());
    EXPECT_TRUE(subject->IsRight());
  }
}

// Calls of the system are interrupted a thousand times a second.
void RunUnderSignals(int flags) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  static std::atomic<int> signals{0};
  struct sigaction action = {};
  action.sa_handler = [](int) { ++signals; };
  action.sa_flags = flags;
  ASSERT_EQ(sigaction(SIGALRM, &action, nullptr), 0);
  const itimerval often{{0, 1000}, {0, 1000}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
  while (signals.load() < 500) {
    for (const auto& subject : AllSubjects()) {
      subject->TakeNewThreads(3);
      EXPECT_EQ(subject->Run(), Subject::Answer());
      EXPECT_TRUE(subject->IsRight());
    }
  }
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
}

IN_A_CHILD(SignalsThatRestart) { RunUnderSignals(SA_RESTART); }
IN_A_CHILD(SignalsThatInterrupt) { RunUnderSignals(0); }

}  // namespace
}  // namespace flashacl::testing
