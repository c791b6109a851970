// SPDX-License-Identifier: Apache-2.0
// A latch opens once, for everyone, and waiting can end without that.
#include "acl/latch.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace flashacl::acl {
namespace {

TEST(Latch, OpensForAllAndStaysOpen) {
  Latch latch;
  int value = 0;
  std::atomic<int> seen{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&] {
      EXPECT_TRUE(latch.Wait(std::nullopt));
      seen += value;  // written before Open
    });
  }
  EXPECT_FALSE(latch.open());
  value = 7;
  latch.Open();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(seen, 28);
  EXPECT_TRUE(latch.open());
  EXPECT_TRUE(latch.Wait(DeadlineIn(0)));
}

TEST(Latch, GivesUpInTime) {
  Latch latch;
  const Clock::time_point start = Clock::now();
  EXPECT_FALSE(latch.Wait(DeadlineIn(20)));
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(20));
}

TEST(Latch, StopsWhenToldAndPoked) {
  Latch latch;
  std::atomic<bool> stop{false};
  std::thread waiter([&] { EXPECT_FALSE(latch.Wait(std::nullopt, &stop)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  stop = true;
  latch.Poke();
  waiter.join();
}

TEST(Latch, ManyHandovers) {
  for (int i = 0; i < 2000; ++i) {
    auto latch = std::make_shared<Latch>();
    std::thread opener([latch] { latch->Open(); });
    EXPECT_TRUE(latch->Wait(std::nullopt));
    opener.join();
  }
}

TEST(Deadline, NegativeIsForever) {
  EXPECT_FALSE(DeadlineIn(-1).has_value());
  EXPECT_TRUE(DeadlineIn(0).has_value());
}

}  // namespace
}  // namespace flashacl::acl
