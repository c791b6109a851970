// SPDX-License-Identifier: Apache-2.0
// A handle finds its object while it is live, and nothing ever after.
#include "acl/handle.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace flashacl::acl {
namespace {

constexpr HandleKind kKind = HandleKind::kPhysicalMemory;

TEST(Handle, IsLiveThenStale) {
  auto object = std::make_shared<int>(3);
  void* handle = NewHandle(kKind, object);
  ASSERT_NE(handle, nullptr);
  EXPECT_EQ(StateOf(kKind, handle), HandleState::kLive);
  EXPECT_EQ(FindHandle(kKind, handle), object);
  EXPECT_EQ(TakeHandle(kKind, handle), object);
  EXPECT_EQ(StateOf(kKind, handle), HandleState::kStale);
  EXPECT_EQ(FindHandle(kKind, handle), nullptr);
  EXPECT_EQ(TakeHandle(kKind, handle), nullptr);
  EXPECT_EQ(object.use_count(), 1);
}

TEST(Handle, OfAnotherKindIsForeign) {
  void* handle = NewHandle(kKind, std::make_shared<int>(3));
  EXPECT_EQ(FindHandle(HandleKind::kTensor, handle), nullptr);
  EXPECT_EQ(TakeHandle(HandleKind::kTensor, handle), nullptr);
  EXPECT_EQ(StateOf(HandleKind::kTensor, handle), HandleState::kForeign);
  EXPECT_NE(TakeHandle(kKind, handle), nullptr);
}

TEST(Handle, IsNeverGivenOutTwice) {
  std::set<void*> seen;
  for (int i = 0; i < 20000; ++i) {
    void* handle = NewHandle(kKind, std::make_shared<int>(i));
    EXPECT_TRUE(seen.insert(handle).second);
    TakeHandle(kKind, handle);
  }
  for (void* handle : seen) {
    EXPECT_EQ(StateOf(kKind, handle), HandleState::kStale);
  }
}

// As many handles as before need no more places in the table, which their low
// 24 bits say.
TEST(Handle, PlacesAreUsedAgain) {
  // More than other tests may have left free, so that none is in between.
  constexpr size_t kCount = 100000;
  const auto object = std::make_shared<int>(0);
  const auto places = [&] {
    std::vector<void*> handles(kCount);
    std::set<uintptr_t> found;
    for (void*& handle : handles) {
      handle = NewHandle(kKind, object);
      found.insert(reinterpret_cast<uintptr_t>(handle) & 0xFFFFFF);
    }
    for (void* handle : handles) TakeHandle(kKind, handle);
    return found;
  };
  const std::set<uintptr_t> before = places();
  EXPECT_EQ(before.size(), kCount);
  // The second time none is left at last, which the third may not lose.
  EXPECT_EQ(places(), before);
  EXPECT_EQ(places(), before);
}

TEST(Handle, AnyOtherBitsAreForeign) {
  std::mt19937_64 random(1);
  int local = 0;
  void* handle = NewHandle(kKind, std::make_shared<int>(0));
  const uint64_t bits = reinterpret_cast<uintptr_t>(handle);
  std::vector<uint64_t> candidates = {0, 1, ~uint64_t{0},
                                      reinterpret_cast<uintptr_t>(&local)};
  for (int i = 0; i < 100000; ++i) candidates.push_back(random());
  for (int bit = 0; bit < 64; ++bit) {
    candidates.push_back(bits ^ (uint64_t{1} << bit));
  }
  for (const uint64_t candidate : candidates) {
    const void* forged = reinterpret_cast<void*>(uintptr_t{candidate});
    EXPECT_EQ(FindHandle(kKind, forged), nullptr) << candidate;
    EXPECT_NE(StateOf(kKind, forged), HandleState::kLive) << candidate;
  }
  EXPECT_NE(TakeHandle(kKind, handle), nullptr);
}

TEST(Handle, LiveOnesAreCounted) {
  const auto count = [] { return LiveHandles()[static_cast<size_t>(kKind)]; };
  const int64_t before = count();
  void* a = NewHandle(kKind, std::make_shared<int>(0));
  void* b = NewHandle(kKind, std::make_shared<int>(0));
  EXPECT_EQ(count(), before + 2);
  TakeHandle(kKind, a);
  TakeHandle(kKind, a);
  EXPECT_EQ(count(), before + 1);
  TakeHandle(kKind, b);
  EXPECT_EQ(count(), before);
}

TEST(Handle, OneOfManyThreadsTakesIt) {
  for (int round = 0; round < 200; ++round) {
    void* handle = NewHandle(kKind, std::make_shared<int>(round));
    std::atomic<int> taken{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        if (auto found = FindHandle(kKind, handle)) {
          EXPECT_EQ(*std::static_pointer_cast<int>(found), round);
        }
        if (TakeHandle(kKind, handle) != nullptr) ++taken;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(taken, 1);
  }
}

TEST(Handle, EveryKindHasAName) {
  std::set<std::string_view> names;
  for (int kind = 0; kind < kHandleKinds; ++kind) {
    names.insert(Name(static_cast<HandleKind>(kind)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kHandleKinds));
  EXPECT_EQ(names.count(""), 0u);
}

}  // namespace
}  // namespace flashacl::acl
