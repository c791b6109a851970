// SPDX-License-Identifier: Apache-2.0
// Sleeping on a word: not if it has changed, until it is woken, or in vain.
#include "acl/futex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace flashacl::acl {
namespace {

TEST(Futex, DoesNotSleepOnAWordThatHasChanged) {
  const std::atomic<uint32_t> word{1};
  FutexWait(word, 0, std::nullopt);
}

TEST(Futex, SleepsUntilTheTimeIsOver) {
  const std::atomic<uint32_t> word{0};
  const auto start = Clock::now();
  while (Clock::now() < start + std::chrono::milliseconds(5)) {
    FutexWait(word, 0, start + std::chrono::milliseconds(5));
  }
  FutexWait(word, 0, start);  // over already
}

TEST(Futex, IsWoken) {
  std::atomic<uint32_t> word{0};
  std::thread sleeper([&] {
    while (word.load() == 0) FutexWait(word, 0, std::nullopt);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  word.store(1);
  FutexWake(word);
  sleeper.join();
}

}  // namespace
}  // namespace flashacl::acl
