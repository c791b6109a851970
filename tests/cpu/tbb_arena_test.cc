// SPDX-License-Identifier: Apache-2.0
// The threads under the pool.
#include "cpu/tbb_arena.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace flashacl::cpu {
namespace {

// Whoever attends leaves when all have come.
struct Meeting {
  const int expected;
  std::atomic<int> arrived{0};

  void Attend() {
    ++arrived;
    while (arrived.load() < expected) std::this_thread::yield();
  }
};

TEST(Arena, CallsEachShareOnce) {
  Arena arena(3);
  for (const int times : {1, 2, 3, 50}) {
    std::atomic<int> calls{0};
    arena.Run(
        times, [](void* at) { ++*static_cast<std::atomic<int>*>(at); }, &calls);
    EXPECT_EQ(calls.load(), times);
  }
}

TEST(Arena, OffersMoreThreadsThanProcessorsWhenAsked) {
  const int threads = Arena::DefaultThreads() + 3;
  Arena arena(threads);
  EXPECT_EQ(arena.threads(), threads);
  Meeting meeting{threads};
  // Ends only if all run together.
  arena.Run(
      threads, [](void* at) { static_cast<Meeting*>(at)->Attend(); }, &meeting);
  EXPECT_EQ(meeting.arrived.load(), threads);
}

TEST(Arena, HasAtLeastTheCaller) {
  EXPECT_EQ(Arena(0).threads(), 1);
  EXPECT_EQ(Arena(-5).threads(), 1);
  EXPECT_GE(Arena::DefaultThreads(), 1);
}

}  // namespace
}  // namespace flashacl::cpu
