// SPDX-License-Identifier: Apache-2.0
// Every number once, for any number of workers, callers and nested loops.
#include "cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

#include "base/thread.h"

namespace flashacl::cpu {
namespace {

// Writes plain memory on purpose: a checker for data races then also checks
// that the loop orders the bodies against the caller.
int64_t SumOfSquares(Pool& pool, int64_t count) {
  std::vector<int64_t> squares(static_cast<size_t>(count), -1);
  pool.ForEach(
      count, [&](int64_t n) { squares[static_cast<size_t>(n)] += 1 + n * n; });
  return std::accumulate(squares.begin(), squares.end(), int64_t{0});
}

int64_t ExpectedSum(int64_t count) {
  return (count - 1) * count * (2 * count - 1) / 6;
}

TEST(Pool, CallsEveryNumberOnceForAnyNumberOfWorkers) {
  for (const int workers : {1, 2, 7, 64}) {
    Pool pool(workers);
    EXPECT_EQ(pool.count(), workers);
    for (const int64_t count : {0, 1, 2, 3, 63, 64, 65, 1000, 20000}) {
      EXPECT_EQ(SumOfSquares(pool, count), ExpectedSum(count))
          << workers << " workers, " << count << " numbers";
    }
  }
}

TEST(Pool, OneNumberRunsOnTheCaller) {
  Pool pool(4);
  std::thread::id ran_on;
  pool.ForEach(1, [&](int64_t) { ran_on = std::this_thread::get_id(); });
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(Pool, HandsOutNumbersInAscendingOrder) {
  Pool pool(1);
  std::vector<int64_t> order;
  pool.ForEach(100, [&](int64_t n) { order.push_back(n); });
  for (size_t n = 0; n < order.size(); ++n) {
    EXPECT_EQ(order[n], static_cast<int64_t>(n));
  }
}

TEST(Pool, UsesSeveralThreadsAtOnce) {
  Pool pool(3);
  // Three bodies that all wait for each other end only if they run together.
  std::atomic<int> arrived{0};
  pool.ForEach(3, [&](int64_t) {
    ++arrived;
    while (arrived.load() < 3) std::this_thread::yield();
  });
  EXPECT_EQ(arrived.load(), 3);
}

TEST(Pool, LoopsNest) {
  Pool pool(4);
  std::vector<int64_t> sums(40);
  pool.ForEach(40, [&](int64_t n) {
    sums[static_cast<size_t>(n)] = SumOfSquares(pool, 10 + n);
  });
  for (int64_t n = 0; n < 40; ++n) {
    EXPECT_EQ(sums[static_cast<size_t>(n)], ExpectedSum(10 + n));
  }
}

TEST(Pool, AWaitingBodyIsNotInterruptedByAnother) {
  Pool pool(4);
  thread_local int depth = 0;
  std::atomic<int> interrupted{0};
  pool.ForEach(200, [&](int64_t) {
    if (++depth != 1) ++interrupted;
    pool.ForEach(8, [](int64_t) { std::this_thread::yield(); });
    --depth;
  });
  EXPECT_EQ(interrupted.load(), 0);
}

TEST(Pool, ServesManyThreadsAtOnceWhileItsSizeChanges) {
  Pool pool(2);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t round = 0; round < 50; ++round) {
        const int64_t count = 1 + (round * 37 + t * 11) % 300;
        if (SumOfSquares(pool, count) != ExpectedSum(count)) ++wrong;
      }
    });
  }
  for (int round = 0; round < 20; ++round) pool.SetCount(1 + round % 5);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(Pool, HasMoreThreadsThanProcessorsWhenAsked) {
  const int64_t threads = AvailableProcessors() + 3;
  Pool pool(static_cast<int>(threads));
  std::atomic<int> arrived{0};
  pool.ForEach(threads, [&](int64_t) {
    ++arrived;
    while (arrived.load() < threads) std::this_thread::yield();
  });
  EXPECT_EQ(arrived.load(), threads);
}

// What a body throws stops its loop, reaches the caller once nobody works, and
// leaves the workers to the next loop.
TEST(Pool, ABodyThatThrowsEndsItsLoop) {
  Pool pool(4);
  for (int64_t thrower = 0; thrower < 50; ++thrower) {
    std::atomic<int> inside{0}, done{0};
    EXPECT_THROW(pool.ForEach(1000000,
                              [&](int64_t n) {
                                ++inside;
                                if (n == thrower) {
                                  --inside;
                                  throw std::bad_alloc();
                                }
                                std::this_thread::yield();
                                ++done;
                                --inside;
                              }),
                 std::bad_alloc);
    EXPECT_EQ(inside.load(), 0);
    EXPECT_LT(done.load(), 1000000);
  }
  EXPECT_EQ(SumOfSquares(pool, 1000), ExpectedSum(1000));
}

TEST(Pool, ZeroMeansAsManyAsTheMachineOffers) {
  Pool pool(3);
  pool.SetCount(0);
  EXPECT_EQ(pool.count(), AvailableProcessors());
  EXPECT_GE(pool.count(), 1);
}

}  // namespace
}  // namespace flashacl::cpu
