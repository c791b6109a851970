// SPDX-License-Identifier: Apache-2.0
// Random captures of several streams, replayed and compared with a model that
// knows which order is allowed: a task that comes after another in the program,
// by a stream or by an event, never runs before it.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "acl/stream.h"
#include "tests/acl/graph/fixture.h"

namespace flashacl::testing {
namespace {

// Tasks that each note when they ran, and what must have run before.
class Program {
 public:
  static constexpr int kStreams = 4;
  static constexpr int kTasks = 60;

  Program(std::mt19937& random, bool with_waits) : random_(random) {
    seen_.assign(kStreams, std::vector<int>(kStreams, 0));
    joined_.assign(kStreams, false);
    joined_[0] = true;
    counts_.assign(kStreams, 0);
    ran_ = std::vector<std::atomic<int>>(kTasks);
    with_waits_ = with_waits;
  }

  aclmdlRI Capture() {
    EXPECT_TRUE(Succeeds(
        aclmdlRICaptureBegin(streams_[0], ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
    while (static_cast<int>(tasks_.size()) < kTasks) Step();
    for (int other = 1; other < kStreams; ++other) {
      if (joined_[static_cast<size_t>(other)]) Follow(0, other);
    }
    aclmdlRI graph = nullptr;
    EXPECT_TRUE(Succeeds(aclmdlRICaptureEnd(streams_[0], &graph)));
    return graph;
  }

  // Each task ran once since the last question, none before what it follows.
  void Check() {
    EXPECT_EQ(wrong_.exchange(-1), -1) << "ran before what it follows";
    for (size_t i = 0; i < ran_.size(); ++i) {
      ASSERT_EQ(ran_[i].exchange(0), 1) << "task " << i;
    }
  }

  aclrtStream stream(int number) {
    return streams_[static_cast<size_t>(number)];
  }

 private:
  struct Planned {
    int stream;
    int number;             // on its stream, from 1
    std::vector<int> seen;  // of each stream, how many come before
  };

  int Pick(int count) {
    return std::uniform_int_distribution<int>(0, count - 1)(random_);
  }

  void Step() {
    const int at = Pick(kStreams);
    if (Pick(3) == 0) {
      const int from = Pick(kStreams);
      if (from != at && joined_[static_cast<size_t>(from)]) Follow(at, from);
      return;
    }
    if (joined_[static_cast<size_t>(at)]) Add(at);
  }

  void Follow(int to, int from) {
    events_.push_back(std::make_unique<ScopedEvent>());
    EXPECT_TRUE(Succeeds(aclrtRecordEvent(*events_.back(), stream(from))));
    EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(stream(to), *events_.back())));
    joined_[static_cast<size_t>(to)] = true;
    auto& known = seen_[static_cast<size_t>(to)];
    const auto& theirs = seen_[static_cast<size_t>(from)];
    for (size_t i = 0; i < known.size(); ++i) {
      known[i] = std::max(known[i], theirs[i]);
    }
  }

  void Add(int at) {
    const int index = static_cast<int>(tasks_.size());
    auto& known = seen_[static_cast<size_t>(at)];
    const int number = ++counts_[static_cast<size_t>(at)];
    tasks_.push_back({at, number, known});
    known[static_cast<size_t>(at)] = number;
    // Waits make branches, whose tasks run on threads of their own.
    const auto kind = with_waits_ && Pick(4) == 0 ? acl::TaskKind::kWait
                                                  : acl::TaskKind::kDevice;
    EXPECT_TRUE(Succeeds(acl::Enqueue(
        stream(at), [this, index] { return Run(index); }, "test", kind)));
  }

  aclError Run(int index) {
    const Planned& self = tasks_[static_cast<size_t>(index)];
    for (int i = 0; i < kTasks; ++i) {
      const Planned& other = tasks_[static_cast<size_t>(i)];
      const bool before =
          other.number <= self.seen[static_cast<size_t>(other.stream)];
      if (before && ran_[static_cast<size_t>(i)].load() != 1) wrong_ = index;
    }
    ++ran_[static_cast<size_t>(index)];
    return ACL_SUCCESS;
  }

  std::mt19937& random_;
  bool with_waits_ = false;
  ScopedStream streams_[kStreams];
  std::vector<std::unique_ptr<ScopedEvent>> events_;
  std::vector<Planned> tasks_;  // constant once captured
  std::vector<std::vector<int>> seen_;
  std::vector<bool> joined_;
  std::vector<int> counts_;
  std::vector<std::atomic<int>> ran_;
  std::atomic<int> wrong_{-1};
};

class OrderTest : public GraphTest,
                  public ::testing::WithParamInterface<bool> {};

TEST_P(OrderTest, OfARandomCaptureIsKeptByEachReplay) {
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    Program program(random, GetParam());
    const aclmdlRI graph = program.Capture();
    for (int replay = 0; replay < 3; ++replay) {
      const aclrtStream stream = program.stream(replay % Program::kStreams);
      Replay(graph, stream);
      program.Check();
    }
    Destroy(graph);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Branches, OrderTest, ::testing::Bool());

}  // namespace
}  // namespace flashacl::testing
