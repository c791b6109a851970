// SPDX-License-Identifier: Apache-2.0
// Pieces go to whoever is free first, and what is said of workers adds up.
#include "plan/balance.h"

#include <gtest/gtest.h>

#include "tests/testing/random.h"

namespace flashacl {
namespace {

using Worker = Rehearsal::Worker;

TEST(Balance, ThreeEqualPiecesOfTwoWorkersLeaveOneIdle) {
  Rehearsal rehearsal(2);
  for (int n = 0; n < 3; ++n) rehearsal.Take(10);
  const Balance balance = rehearsal.result();
  EXPECT_EQ(balance.pieces, 3);
  EXPECT_EQ(balance.work, 30);
  EXPECT_EQ(balance.busiest, 20);
  EXPECT_EQ(balance.elapsed, 20);
  EXPECT_EQ(balance.evenness(), 0.75);
  EXPECT_EQ(balance.busy(), 0.75);
}

TEST(Balance, TheNextPieceGoesToWhoIsFreeFirst) {
  Rehearsal rehearsal(2);
  for (const double cost : {7, 2, 3, 2}) rehearsal.Take(cost);
  EXPECT_EQ(rehearsal.result().elapsed, 7);  // 7 and 2 + 3 + 2
  EXPECT_EQ(rehearsal.result().evenness(), 1);
}

TEST(Balance, WaitsAreNoWork) {
  Rehearsal rehearsal(2);
  rehearsal.Take(4);
  rehearsal.TakeWith([](Worker& worker) {
    worker.Work(1);
    worker.WaitUntil(4);
    worker.WaitUntil(2);  // is over
    worker.Work(3);
  });
  const Balance balance = rehearsal.result();
  EXPECT_EQ(balance.elapsed, 7);
  EXPECT_EQ(balance.evenness(), 1);
  EXPECT_EQ(balance.busy(), 8.0 / 14);
}

TEST(Balance, AllWaitWhereTheyMeet) {
  Rehearsal rehearsal(3);
  for (const double cost : {9, 1, 1}) rehearsal.Take(cost);
  rehearsal.Meet();
  rehearsal.Combine(2);
  const Balance balance = rehearsal.result();
  EXPECT_EQ(balance.elapsed, 11);
  EXPECT_EQ(balance.combining, 2);
  EXPECT_EQ(balance.work, 13);
}

TEST(Balance, NothingToDoIsShared) {
  EXPECT_EQ(Rehearsal(4).result().evenness(), 1);
  EXPECT_EQ(Rehearsal(4).result().busy(), 1);
}

// Graham's bound on lists: nobody is ever free while a piece waits.
TEST(Balance, NoListTakesLongerThanItsShareAndItsLongestPiece) {
  Random random(7);
  for (int n = 0; n < 500; ++n) {
    const int64_t workers = random.Within(1, 20);
    Rehearsal rehearsal(workers);
    double longest = 0;
    for (int64_t count = random.Within(0, 60); count > 0; --count) {
      const auto cost = static_cast<double>(random.Within(1, 1000));
      longest = std::max(longest, cost);
      rehearsal.Take(cost);
    }
    const Balance balance = rehearsal.result();
    const auto share = balance.work / static_cast<double>(workers);
    EXPECT_GE(balance.elapsed, std::max(share, longest) * (1 - 1e-12));
    EXPECT_LE(balance.elapsed, share + longest);
    EXPECT_EQ(balance.elapsed, balance.busiest);
  }
}

}  // namespace
}  // namespace flashacl
