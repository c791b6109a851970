// SPDX-License-Identifier: Apache-2.0
// A forked child finds locks free, data whole, and state of threads made anew.
#include "base/fork.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace flashacl {
namespace {

struct Pair {
  ProcessMutex mutex;
  int64_t one = 0, other = 0;  // equal whenever the mutex is free
};

Pair& ThePair() {
  static Pair& pair = *new Pair;
  return pair;
}

struct Counter {
  std::atomic<int> count{0};
};

PerProcess<Counter> counter;

// What a child answers: 0, or which law it found broken.
int Broken() {
  if (ForkGeneration() != 1) return 1;
  if ((*counter).count.load() != 0) return 2;
  const std::lock_guard lock(ThePair().mutex);
  return ThePair().one == ThePair().other ? 0 : 3;
}

TEST(Fork, AChildFindsLocksFreeAndDataWhole) {
  (*counter).count = 5;
  ThePair();  // made here: a child would wait for a thread that makes it
  std::atomic<bool> over{false};
  std::thread writer([&] {
    while (!over) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      const std::lock_guard lock(ThePair().mutex);
      ++ThePair().one;
      std::this_thread::yield();
      ++ThePair().other;
    }
  });
  for (int n = 0; n < 100; ++n) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(10);
      _exit(Broken());
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  over = true;
  writer.join();
  EXPECT_EQ(ForkGeneration(), 0u);
  EXPECT_EQ((*counter).count.load(), 5);
}

}  // namespace
}  // namespace flashacl
