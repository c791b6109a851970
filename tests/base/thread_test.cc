// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <thread>

namespace flashacl {
namespace {

TEST(Thread, RunsWithoutTheProgramsSignals) {
  static std::atomic<int> state{0};
  const auto start = [](void* argument) -> void* {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    const bool all = sigismember(&blocked, SIGTERM) == 1 &&
                     sigismember(&blocked, SIGALRM) == 1;
    static_cast<std::atomic<int>*>(argument)->store(all ? 1 : 2);
    return nullptr;
  };
  ASSERT_EQ(StartDetached(start, &state), 0);
  while (state.load() == 0) std::this_thread::yield();
  EXPECT_EQ(state.load(), 1);
  // The caller's are as they were.
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 0);
}

TEST(Thread, ThereIsAProcessor) {
  EXPECT_GE(AvailableProcessors(), 1);
  EXPECT_LE(AvailableProcessors(),
            static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace flashacl
