// SPDX-License-Identifier: Apache-2.0
// Where replays of built graphs go on.
#include "acl/graph/jump.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "acl/graph/label.h"
#include "tests/acl/graph/build_fixture.h"

namespace flashacl::testing {
namespace {

using JumpTest = BuildTest;

TEST_F(JumpTest, GoesOnAtTheLabelThatTheIndexSays) {
  const aclmdlRI graph = NewGraph();
  const aclrtStream stream = Bound(graph);
  auto* const index = Number<uint32_t>(0);
  const auto labels = Labels(4);
  Say(stream, "<");
  Switch(stream, index, {labels[0], labels[1], labels[2]});
  Say(stream, "never");
  for (const size_t n : {0u, 1u, 2u}) {
    Set(labels[n], stream);
    Say(stream, std::to_string(n));
  }
  Finish(graph, stream);
  EXPECT_EQ(Run(graph), "<012");
  *index = 1;
  EXPECT_EQ(Run(graph), "<12");
  for (const uint32_t last : {2u, 3u, ~0u}) {  // too large: the last one
    *index = last;
    EXPECT_EQ(Run(graph), "<2");
  }
  Destroy(graph);
}

TEST_F(JumpTest, FewerLabelsThanTheListHas) {
  const aclmdlRI graph = NewGraph();
  const aclrtStream stream = Bound(graph);
  const auto labels = Labels(3);  // the last one is not set
  EXPECT_TRUE(Succeeds(
      aclrtSwitchLabelByIndex(Number<uint32_t>(7), 2, List(labels), stream)));
  Set(labels[0], stream);
  Say(stream, "0");
  Set(labels[1], stream);
  Say(stream, "1");
  Finish(graph, stream);
  EXPECT_EQ(Run(graph), "1");
  Destroy(graph);
}

TEST_F(JumpTest, AThousandRoundsOfALoop) {
  const aclmdlRI graph = NewGraph();
  const aclrtStream stream = Bound(graph);
  auto* const next = Number<uint32_t>(0);
  auto* const rounds = Number<uint32_t>(0);
  const auto labels = Labels(2);
  Set(labels[0], stream);
  Do(stream, [=] { *next = ++*rounds % 1000 == 0 ? 1 : 0; });
  Switch(stream, next, labels);
  Say(stream, "never");
  Set(labels[1], stream);
  Say(stream, "end");
  Finish(graph, stream);
  EXPECT_EQ(Run(graph), "end");
  EXPECT_EQ(*rounds, 1000u);
  EXPECT_EQ(Run(graph), "end");
  EXPECT_EQ(*rounds, 2000u);
  Destroy(graph);
}

// Two streams that go on in each other; with `beside`, each on its own thread.
TEST_F(JumpTest, LabelsInAnotherStream) {
  for (const bool beside : {false, true}) {
    const aclmdlRI graph = NewGraph();
    const aclrtStream first = Bound(graph);
    const aclrtStream second = Bound(graph, kDefault);
    if (beside) Do(Bound(graph), [] {});
    auto* const next = Number<uint32_t>(0);
    auto* const rounds = Number<uint32_t>(0);
    const auto labels = Labels(3);
    Say(second, "never");
    Set(labels[0], second);
    Do(second, [=] { *next = ++*rounds == 500 ? 1 : 0; });
    Switch(second, next, {labels[1], labels[2]});
    Set(labels[1], first);
    Switch(first, Number<uint32_t>(0), {labels[0]});
    Say(first, "never");
    Set(labels[2], first);
    Say(first, "end");
    Finish(graph, first);
    EXPECT_EQ(Run(graph), "end");
    EXPECT_EQ(*rounds, 500u);
    Destroy(graph);
  }
}

template <typename T>
struct Compared {
  T left, right;
  std::string holds;  // for EQUAL, NOT_EQUAL, GREATER, ... in order
};

template <typename T>
std::vector<Compared<T>> Cases() {
  const auto big = static_cast<T>(~std::make_unsigned_t<T>{0} >> 1);
  return {{3, 3, "100101"},
          {-1, 1, "010011"},
          {1, -1, "011100"},
          {big, static_cast<T>(-big - 1), "011100"}};
}

TEST_F(JumpTest, SwitchesStreamsByTwoNumbers) {
  const auto check = [&]<typename T>(aclrtCompareDataType type, T) {
    for (int condition = 0; condition < 6; ++condition) {
      const aclmdlRI graph = NewGraph();
      const aclrtStream stream = Bound(graph);
      const aclrtStream other = Bound(graph, kDefault);
      T* const left = Number<T>(0);
      T* const right = Number<T>(0);
      Say(stream, "<");
      EXPECT_TRUE(Succeeds(
          aclrtSwitchStream(left, static_cast<aclrtCondition>(condition), right,
                            type, other, nullptr, stream)));
      Say(stream, "0");
      Say(other, "1");
      Finish(graph, stream);
      for (const Compared<T>& one : Cases<T>()) {
        *left = one.left;
        *right = one.right;
        EXPECT_EQ(Run(graph),
                  std::string("<") + one.holds[static_cast<size_t>(condition)])
            << condition << ' ' << one.left << ' ' << one.right;
      }
      Destroy(graph);
    }
  };
  check(ACL_RT_SWITCH_INT32, int32_t{});
  check(ACL_RT_SWITCH_INT64, int64_t{});
}

// Only the number counts, not what lies beside it.
TEST_F(JumpTest, ReadsFourBytesAnywhere) {
  auto* const word = Number<uint64_t>(0);
  auto* const halves = reinterpret_cast<uint32_t*>(word);
  const aclmdlRI graph = NewGraph();
  const aclrtStream stream = Bound(graph);
  const auto labels = Labels(2);
  Switch(stream, halves + 1, labels);
  Set(labels[0], stream);
  Say(stream, "0");
  Set(labels[1], stream);
  Say(stream, "1");
  Finish(graph, stream);
  halves[0] = 5;
  EXPECT_EQ(Run(graph), "01");
  halves[1] = 1;
  EXPECT_EQ(Run(graph), "1");
  Destroy(graph);
}

TEST_F(JumpTest, AStreamMayStartItselfAnew) {
  const aclmdlRI graph = NewGraph();
  const aclrtStream stream = Bound(graph);
  auto* const left = Number<int32_t>(3);
  Say(stream, "a");
  Do(stream, [=] { --*left; });
  EXPECT_TRUE(Succeeds(
      aclrtSwitchStream(left, ACL_RT_GREATER, Number<int32_t>(0),
                        ACL_RT_SWITCH_INT32, stream, nullptr, stream)));
  Say(stream, "b");
  Finish(graph, stream);
  EXPECT_EQ(Run(graph), "aaab");
  Destroy(graph);
}

TEST_F(JumpTest, AStartedStreamRunsBeside) {
  const aclmdlRI graph = NewGraph();
  const aclrtStream first = Bound(graph);
  const aclrtStream second = Bound(graph, kDefault);
  ScopedEvent event{ScopedEvent::External()};
  Say(first, "a");
  EXPECT_TRUE(Succeeds(aclrtActiveStream(second, first)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(first, event)));
  EXPECT_TRUE(Succeeds(aclrtResetEvent(event, first)));
  Say(first, "c");
  Say(second, "b");
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, second)));
  Finish(graph, first);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(Run(graph), "abc");
  Destroy(graph);
}

TEST_F(JumpTest, AStreamRunsAsOftenAsItIsStarted) {
  const aclmdlRI graph = NewGraph();
  const aclrtStream first = Bound(graph);
  const aclrtStream second = Bound(graph, kDefault);
  auto* const next = Number<uint32_t>(0);
  auto* const rounds = Number<uint32_t>(0);
  std::atomic<int> inside{0};
  std::atomic<int> runs{0};
  const auto labels = Labels(2);
  Set(labels[0], first);
  EXPECT_TRUE(Succeeds(aclrtActiveStream(second, first)));
  Do(first, [=] { *next = ++*rounds == 100 ? 1 : 0; });
  Switch(first, next, labels);
  Set(labels[1], first);
  Do(second, [&] {
    EXPECT_EQ(++inside, 1);  // one run after the other
    std::this_thread::yield();
    --inside;
    ++runs;
  });
  Finish(graph, first);
  Run(graph);
  EXPECT_EQ(runs, 100);
  Destroy(graph);
}

// A graph keeps what it knows of them; a label is free when its graph is gone.
TEST_F(JumpTest, LabelsMayGoBeforeTheGraph) {
  const aclmdlRI graph = NewGraph();
  const aclrtStream stream = Bound(graph);
  aclrtLabel label = nullptr;
  aclrtLabelList list = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateLabel(&label)));
  EXPECT_TRUE(Succeeds(aclrtCreateLabelList(&label, 1, &list)));
  EXPECT_TRUE(
      Succeeds(aclrtSwitchLabelByIndex(Number<uint32_t>(0), 1, list, stream)));
  Say(stream, "never");
  Set(label, stream);
  Say(stream, "a");
  EXPECT_TRUE(Succeeds(aclrtDestroyLabelList(list)));
  EXPECT_TRUE(Succeeds(aclrtDestroyLabel(label)));
  Finish(graph, stream);
  EXPECT_EQ(Run(graph), "a");
  Destroy(graph);
  const auto labels = Labels(1);
  for (int i = 0; i < 2; ++i) {
    const aclmdlRI next = NewGraph();
    Set(labels[0], Bound(next));
    Destroy(next);
  }
}

}  // namespace
}  // namespace flashacl::testing
