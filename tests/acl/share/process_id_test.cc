// SPDX-License-Identifier: Apache-2.0
#include "acl/share/process_id.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

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
  EXPECT_TRUE(IsAlive(id));
  kill(child, SIGKILL);
  for (int n = 0; n < 1000 && IsAlive(id); ++n) usleep(1000);
  EXPECT_FALSE(IsAlive(id));
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(IsAlive(id));
}

}  // namespace
}  // namespace flashacl::acl
