// SPDX-License-Identifier: Apache-2.0
// The words of a notify, and notifies in the order of streams.
#include "acl/notify.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "acl/acl.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::Succeeds;

constexpr auto IsOne = [](uint32_t word) { return word == 1; };
constexpr auto Never = [] { return false; };

TEST(NotifyWords, AreClearedByTheWaitThatSeesThem) {
  NotifyWords words;
  EXPECT_FALSE(words.Try(IsOne, true));
  words.Change([](uint32_t word) { return word + 1; });
  EXPECT_TRUE(words.Try(IsOne, false));
  EXPECT_TRUE(words.Try(IsOne, true));
  EXPECT_FALSE(words.Try(IsOne, true));
}

TEST(NotifyWords, WaitsTimeOutAndEndWhenStopped) {
  NotifyWords words;
  EXPECT_FALSE(words.Wait(IsOne, true, DeadlineIn(2), Never));
  std::atomic<bool> stop{false};
  std::thread waiter([&] {
    EXPECT_FALSE(
        words.Wait(IsOne, true, std::nullopt, [&] { return stop.load(); }));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  stop = true;
  words.Poke();
  waiter.join();
}

// Each record lets exactly one waiter through, whoever comes first.
TEST(NotifyWords, AreTakenByOneWaiterEach) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 500;
  NotifyWords words;
  std::atomic<int> passed{0};
  std::vector<std::thread> waiters;
  for (int t = 0; t < kThreads; ++t) {
    waiters.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        EXPECT_TRUE(words.Wait([](uint32_t word) { return word != 0; }, true,
                               std::nullopt, Never));
        ++passed;
      }
    });
  }
  for (int i = 0; i < kThreads * kRounds; ++i) {
    words.Change([](uint32_t) { return 1u; });
    while (passed.load() <= i) std::this_thread::yield();
    EXPECT_EQ(passed.load(), i + 1);
  }
  for (std::thread& waiter : waiters) waiter.join();
}

class NotifyTest : public ::flashacl::testing::RuntimeTest {
 protected:
  std::shared_ptr<Notify> Make(NotifyFamily family = NotifyFamily::kFlag) {
    return Notify::Create(0, family);
  }
};

TEST_F(NotifyTest, SharesTheWordsItIsGiven) {
  const auto one = Make();
  const auto other =
      Notify::Create(0, NotifyFamily::kFlag,
                     one->MoveTo(SharedObject::Create(ShareKind::kNotify)));
  ScopedStream stream;
  const auto at = Find<Stream>(stream);
  EXPECT_TRUE(Succeeds(one->Change(*at, NotifyChange::kSet, 1, "test")));
  EXPECT_TRUE(Succeeds(other->Wait(*at, {}, "test")));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(one->Destroy());
  EXPECT_FALSE(one->Destroy());
  EXPECT_TRUE(other->Destroy());
}

// A record is neither lost nor doubled, and a wait goes on where the words are.
TEST_F(NotifyTest, MovesUnderThoseWhoWait) {
  for (int n = 0; n < 100; ++n) {
    ScopedStream records, waits;
    const auto from = Find<Stream>(records);
    const auto to = Find<Stream>(waits);
    const auto notify = Make();
    EXPECT_TRUE(Succeeds(notify->Wait(*to, {}, "test")));
    std::thread mover([&] {
      const auto there = SharedObject::Create(ShareKind::kNotify);
      EXPECT_EQ(notify->MoveTo(there), there);
    });
    EXPECT_TRUE(Succeeds(notify->Change(*from, NotifyChange::kSet, 1, "test")));
    mover.join();
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(waits)));
    EXPECT_TRUE(Succeeds(notify->Wait(*to, {}, "test")));
    EXPECT_FALSE(to->Idle());
    EXPECT_TRUE(Succeeds(notify->Change(*from, NotifyChange::kSet, 1, "test")));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
    EXPECT_TRUE(notify->Destroy());
  }
}

TEST_F(NotifyTest, MovesUnderThoseWhoSleep) {
  ScopedStream records, waits;
  const auto notify = Make();
  EXPECT_TRUE(Succeeds(notify->Wait(*Find<Stream>(waits), {}, "test")));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(waits, 20)));
  const auto there = SharedObject::Create(ShareKind::kNotify);
  EXPECT_EQ(notify->MoveTo(there), there);
  EXPECT_TRUE(Succeeds(
      notify->Change(*Find<Stream>(records), NotifyChange::kSet, 1, "test")));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(waits)));
  EXPECT_TRUE(notify->Destroy());
}

// Whatever runs between, a wait lets its stream go on only after the record.
TEST_F(NotifyTest, ManyStreamsInARing) {
  constexpr int kStreams = 4;
  ScopedStream streams[kStreams];
  std::vector<std::shared_ptr<Notify>> notifies;
  for (int i = 0; i < kStreams; ++i) notifies.push_back(Make());
  int value = 0;  // each stream in turn adds one, ordered by notifies only
  for (int i = 0; i < 400; ++i) {
    const auto at = Find<Stream>(streams[i % kStreams]);
    const auto& before = notifies[static_cast<size_t>(i) % kStreams];
    const auto& after = notifies[static_cast<size_t>(i + 1) % kStreams];
    EXPECT_TRUE(i == 0 || Succeeds(before->Wait(*at, {}, "test")));
    EXPECT_TRUE(Succeeds(at->Push(
        [&value, i] {
          EXPECT_EQ(value, i);
          return ++value, 0;
        },
        "test", TaskKind::kDevice)));
    EXPECT_TRUE(Succeeds(after->Change(*at, NotifyChange::kSet, 1, "test")));
  }
  EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
  EXPECT_EQ(value, 400);
  for (const auto& notify : notifies) EXPECT_TRUE(notify->Destroy());
}

TEST_F(NotifyTest, DestroyingLeavesQueuedUsesAlone) {
  ScopedStream first, second;
  const auto one = Find<Stream>(first);
  const auto two = Find<Stream>(second);
  auto notify = Make();
  Latch gate;
  EXPECT_TRUE(Succeeds(notify->Wait(*two, {}, "test")));
  EXPECT_TRUE(Succeeds(one->Push(
      [&gate, at = one.get()] {
        at->WaitInTask(gate, std::nullopt);
        return 0;
      },
      "test", TaskKind::kWait)));
  EXPECT_TRUE(Succeeds(notify->Change(*one, NotifyChange::kSet, 1, "test")));
  EXPECT_TRUE(notify->Destroy());
  notify = nullptr;
  EXPECT_FALSE(two->Idle());
  gate.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
}

TEST_F(NotifyTest, ADeviceHas8192OfEach) {
  for (const NotifyFamily family :
       {NotifyFamily::kFlag, NotifyFamily::kCount}) {
    std::vector<std::shared_ptr<Notify>> all;
    for (int i = 0; i < 8192; ++i) all.push_back(Make(family));
    EXPECT_NE(all.back(), nullptr);
    EXPECT_EQ(Make(family), nullptr);
    EXPECT_TRUE(all.back()->Destroy());
    all.back() = Make(family);
    EXPECT_NE(all.back(), nullptr);
    for (const auto& notify : all) notify->Destroy();
  }
}

}  // namespace
}  // namespace flashacl::acl
