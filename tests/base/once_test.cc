// SPDX-License-Identifier: Apache-2.0
// What the first use makes is made once, whoever uses it, and a forked child
// finds it whole or makes it itself.
#include "base/once.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/testing/fork.h"

namespace flashacl {
namespace {

using std::chrono::milliseconds;

TEST(Once, AllThreadsGetOneObject) {
  static std::atomic<int> made{0};
  static constinit MadeOnce<const std::vector<int>> object;
  std::atomic<const std::vector<int>*> got[8] = {};
  {
    std::vector<std::jthread> threads;
    for (auto& mine : got) {
      threads.emplace_back([&] {
        mine = &object.Get([] {
          ++made;
          std::this_thread::sleep_for(milliseconds(5));
          return std::vector<int>{1, 2, 3};
        });
      });
    }
  }
  EXPECT_EQ(made, 1);
  EXPECT_EQ(*object, (std::vector<int>{1, 2, 3}));
  for (const auto& mine : got) EXPECT_EQ(mine, &*object);
}

TEST(Once, WhatFailsIsTriedAgain) {
  static constinit Once once;
  int tries = 0;
  const auto fail = [&] {
    ++tries;
    throw std::runtime_error("no");
  };
  EXPECT_THROW(once.Do(fail), std::runtime_error);
  EXPECT_THROW(once.Do(fail), std::runtime_error);
  once.Do([&] { ++tries; });
  once.Do(fail);
  EXPECT_EQ(tries, 3);
}

// One is made while another is: an environment, say, by the first call.
TEST(Once, OneNeedsAnother) {
  static constinit MadeOnce<const int> inner, outer;
  EXPECT_EQ(outer.Get([] { return inner.Get([] { return 7; }) + 1; }), 8);
}

// Made by halves: a child finds both, or waits for nobody and makes it.
struct Halves {
  explicit Halves(std::atomic<bool>* begun) : one(5) {
    *begun = true;
    std::this_thread::sleep_for(milliseconds(50));
    other = 5;
  }
  int one, other = 0;
};

TEST(Once, AChildWaitsForNobody) {
  static std::atomic<bool> begun{false};
  static constinit MadeOnce<const Halves> halves;
  const auto use = []() -> const Halves& {
    return halves.Get([] { return Halves(&begun); });
  };
  std::atomic<bool> over{false};
  std::thread maker([&] {
    use();
    // A thread that ended, and nobody joined, is a leak of the child's.
    while (!over) std::this_thread::sleep_for(milliseconds(1));
  });
  while (!begun) std::this_thread::yield();
  const pid_t child = testing::Fork();
  if (child == 0) {
    alarm(10);
    _exit(use().one == 5 && use().other == 5 ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  over = true;
  maker.join();
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(use().other, 5);
}

}  // namespace
}  // namespace flashacl
