// SPDX-License-Identifier: Apache-2.0
#include "acl/share/process_id.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

#include "tests/testing/fork.h"

namespace flashacl::acl {
namespace {

TEST(ProcessId, ThisOneIsAliveAndKnowsWhenItBegan) {
  const ProcessId self = ThisProcess();
  EXPECT_EQ(self.pid, getpid());
  EXPECT_NE(self.start, 0u);
  EXPECT_TRUE(IsAlive(self));
  EXPECT_EQ(self, ThisProcess());
}

// A number that the system gave to another process since.
TEST(ProcessId, AnotherWithTheSameNumberIsNotIt) {
  ProcessId other = ThisProcess();
  ++other.start;
  EXPECT_FALSE(IsAlive(other));
}

// Numbers of another namespace say nothing here.
TEST(ProcessId, OfAnotherNamespaceIsTakenForAlive) {
  ProcessId other = ThisProcess();
  ++other.start;
  ++other.space;
  EXPECT_TRUE(IsAlive(other));
}

TEST(ProcessId, EndsBeforeItsParentAsksForItsStatus) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = testing::Fork();
  if (child == 0) {
    prctl(PR_SET_NAME, "a) Z 1 1");  // stands before what is read
    const ProcessId self = ThisProcess();
    const bool sent = write(ends[1], &self, sizeof self) == sizeof self;
    pause();
    _exit(sent ? 0 : 1);
  }
  ProcessId id;
  ASSERT_EQ(read(ends[0], &id, sizeof id), ssize_t{sizeof id});
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(id.pid, child);
  EXPECT_NE(id.start, 0u);
  EXPECT_TRUE(IsAlive(id));
  kill(child, SIGKILL);
  for (int n = 0; n < 1000 && IsAlive(id); ++n) usleep(1000);
  EXPECT_FALSE(IsAlive(id));
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(IsAlive(id));
}

// What the first thread of a process does, as the system says.
char StateOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t at = text.rfind(") ");
  return at == std::string::npos ? '?' : text[at + 2];
}

TEST(ProcessId, LivesAsLongAsAnyOfItsThreads) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = testing::Fork();
  if (child == 0) {
    std::thread([&] {
      const ProcessId self = ThisProcess();
      _exit(write(ends[1], &self, sizeof self) == sizeof self ? pause() : 1);
    }).detach();
    syscall(SYS_exit, 0);
  }
  ProcessId id;
  ASSERT_EQ(read(ends[0], &id, sizeof id), ssize_t{sizeof id});
  close(ends[0]);
  close(ends[1]);
  for (int n = 0; n < 1000 && StateOf(child) != 'Z'; ++n) usleep(1000);
  EXPECT_EQ(StateOf(child), 'Z');
  EXPECT_TRUE(IsAlive(id));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(IsAlive(id));
}

}  // namespace
}  // namespace flashacl::acl
