// SPDX-License-Identifier: Apache-2.0
// Random programs of several streams that wait for each other by events,
// notifies, counts and words. A model knows what each task must find done.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "base/random.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::Succeeds;

constexpr size_t kStreams = 5;

// For each stream, how many of its tasks come before something.
using Order = std::array<int, kStreams>;

class Program;

// A task that checks that all it must come after is done. The slots are plain
// integers: the order is all that keeps threads apart.
struct Step {
  Program* program;
  size_t stream;
  int number;
  Order after;
};

// Steps are made in an order in which they could run, so nothing can hang.
// `host_order` also uses events, whose waits must be submitted after records.
class Program {
 public:
  Program(uint64_t seed, bool host_order);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // The calls, in the order in which they were made, or by one thread for each
  // stream.
  void SubmitInOrder();
  void SubmitByThreads();
  void ExpectAllRan() const;

 private:
  using Call = std::function<int()>;

  static void Check(void* step);
  void AddTask();
  void AddEdge();
  void By(size_t stream, Call call) {
    calls_.push_back({stream, std::move(call)});
  }

  Random random_;
  const bool host_order_;
  std::array<aclrtStream, kStreams> streams_{};
  std::array<aclrtCntNotify, kStreams> counts_{};
  std::array<uint32_t, kStreams> counted_{};
  std::vector<aclrtNotify> notifies_;
  std::vector<aclrtEvent> events_;
  uint64_t* words_ = nullptr;  // one for each stream
  std::array<uint64_t, kStreams> written_{};

  std::array<Order, kStreams> before_{};  // the next step of each stream
  std::deque<Step> steps_;
  std::array<std::vector<int>, kStreams> slots_;  // 1 once a task has run
  std::vector<std::pair<size_t, Call>> calls_;
};

Program::Program(uint64_t seed, bool host_order)
    : random_(seed), host_order_(host_order) {
  void* block = nullptr;
  EXPECT_TRUE(Succeeds(aclrtMalloc(&block, kStreams * sizeof(uint64_t),
                                   ACL_MEM_MALLOC_HUGE_FIRST)));
  words_ = static_cast<uint64_t*>(block);
  EXPECT_TRUE(Succeeds(aclrtMemset(block, kStreams * sizeof(uint64_t), 0,
                                   kStreams * sizeof(uint64_t))));
  for (size_t i = 0; i < kStreams; ++i) {
    EXPECT_TRUE(Succeeds(aclrtCreateStream(&streams_[i])));
    EXPECT_TRUE(Succeeds(aclrtCntNotifyCreate(&counts_[i], 0)));
  }
  for (int i = 0; i < 120; ++i) {
    if (random_.OneIn(2)) {
      AddTask();
    } else {
      AddEdge();
    }
  }
  for (Step& step : steps_) step.program = this;
}

Program::~Program() {
  for (const auto stream : streams_) {
    EXPECT_TRUE(Succeeds(aclrtDestroyStream(stream)));
  }
  for (const auto count : counts_) {
    EXPECT_TRUE(Succeeds(aclrtCntNotifyDestroy(count)));
  }
  for (const auto notify : notifies_) {
    EXPECT_TRUE(Succeeds(aclrtDestroyNotify(notify)));
  }
  for (const auto event : events_) {
    EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
  }
  EXPECT_TRUE(Succeeds(aclrtFree(words_)));
}

void Program::Check(void* at) {
  const Step& step = *static_cast<Step*>(at);
  Program& program = *step.program;
  for (size_t s = 0; s < kStreams; ++s) {
    for (int n = 0; n < step.after[s]; ++n) {
      EXPECT_EQ(program.slots_[s][static_cast<size_t>(n)], 1)
          << "task " << step.number << " of stream " << step.stream
          << " ran before task " << n << " of stream " << s;
    }
  }
  program.slots_[step.stream][static_cast<size_t>(step.number)] = 1;
}

void Program::AddTask() {
  const auto stream = static_cast<size_t>(random_.Within(0, kStreams - 1));
  const int number = before_[stream][stream]++;
  Order after = before_[stream];
  --after[stream];
  slots_[stream].push_back(0);
  Step& step = steps_.emplace_back(Step{this, stream, number, after});
  By(stream, [this, stream, &step] {
    return aclrtLaunchHostFunc(streams_[stream], Check, &step);
  });
}

// What `from` has done comes before what `to` does next.
void Program::AddEdge() {
  const auto from = static_cast<size_t>(random_.Within(0, kStreams - 1));
  const auto to = static_cast<size_t>(random_.Within(0, kStreams - 1));
  switch (random_.Within(0, host_order_ ? 3 : 2)) {
    case 0: {
      aclrtNotify notify = nullptr;
      EXPECT_TRUE(Succeeds(aclrtCreateNotify(&notify, 0)));
      notifies_.push_back(notify);
      By(from, [=, this] { return aclrtRecordNotify(notify, streams_[from]); });
      By(to, [=, this] {
        return aclrtWaitAndResetNotify(notify, streams_[to], 0);
      });
      break;
    }
    case 1: {
      const uint32_t wanted = ++counted_[from];
      By(from, [=, this] {
        aclrtCntNotifyRecordInfo add = {ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, 1};
        return aclrtCntNotifyRecord(counts_[from], streams_[from], &add);
      });
      By(to, [=, this] {
        aclrtCntNotifyWaitInfo wait = {
            ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE, wanted, 0, 0, {}};
        return aclrtCntNotifyWaitWithTimeout(counts_[from], streams_[to],
                                             &wait);
      });
      break;
    }
    case 2: {
      const uint64_t wanted = ++written_[from];
      By(from, [=, this] {
        return aclrtValueWrite(words_ + from, wanted, 0, streams_[from]);
      });
      By(to, [=, this] {
        return aclrtValueWait(words_ + from, wanted, ACL_STREAM_WAIT_VALUE_GEQ,
                              streams_[to]);
      });
      break;
    }
    default: {
      aclrtEvent event = nullptr;
      EXPECT_TRUE(Succeeds(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC)));
      events_.push_back(event);
      By(from, [=, this] { return aclrtRecordEvent(event, streams_[from]); });
      By(to, [=, this] { return aclrtStreamWaitEvent(streams_[to], event); });
      break;
    }
  }
  for (size_t s = 0; s < kStreams; ++s) {
    before_[to][s] = std::max(before_[to][s], before_[from][s]);
  }
}

void Program::SubmitInOrder() {
  for (const auto& [stream, call] : calls_) EXPECT_TRUE(Succeeds(call()));
}

void Program::SubmitByThreads() {
  std::vector<std::thread> threads;
  for (size_t s = 0; s < kStreams; ++s) {
    threads.emplace_back([this, s] {
      EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
      for (const auto& [stream, call] : calls_) {
        EXPECT_TRUE(stream != s || Succeeds(call()));
      }
      EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void Program::ExpectAllRan() const {
  for (const auto& slots : slots_) {
    EXPECT_EQ(std::count(slots.begin(), slots.end(), 1),
              static_cast<int64_t>(slots.size()));
  }
}

class RandomProgram : public ::flashacl::testing::RuntimeTest {};

TEST_F(RandomProgram, RunsInOrder) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Program program(seed, true);
    program.SubmitInOrder();
    EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
    program.ExpectAllRan();
    if (HasFailure()) break;
  }
}

TEST_F(RandomProgram, RunsInOrderWhoeverSubmitsFirst) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Program program(seed, false);
    program.SubmitByThreads();
    EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
    program.ExpectAllRan();
    if (HasFailure()) break;
  }
}

// Wherever it is when its work is aborted, nothing hangs, and the next runs.
TEST_F(RandomProgram, MayBeAborted) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    {
      Program program(seed, true);
      program.SubmitInOrder();
      EXPECT_TRUE(Succeeds(aclrtDeviceTaskAbort(0, 0)));
      EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
    }
    Program program(seed, true);
    program.SubmitInOrder();
    EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
    program.ExpectAllRan();
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace flashacl::acl
