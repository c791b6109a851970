// SPDX-License-Identifier: Apache-2.0
// What tests of graphs that are built by hand share: persistent streams, words
// of device memory, labels.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/acl/graph/fixture.h"

namespace flashacl::testing {

constexpr uint32_t kHead = ACL_MODEL_STREAM_FLAG_HEAD;
constexpr uint32_t kDefault = ACL_MODEL_STREAM_FLAG_DEFAULT;

class BuildTest : public GraphTest {
 protected:
  aclrtStream Persistent() {
    aclrtStream stream = nullptr;
    EXPECT_TRUE(Succeeds(
        aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_PERSISTENT)));
    streams_.push_back(stream);
    return stream;
  }
  static aclmdlRI NewGraph() {
    aclmdlRI graph = nullptr;
    EXPECT_TRUE(Succeeds(aclmdlRIBuildBegin(&graph, 0)));
    return graph;
  }
  // A new stream that is bound to `graph`.
  aclrtStream Bound(aclmdlRI graph, uint32_t flag = kHead) {
    const aclrtStream stream = Persistent();
    EXPECT_TRUE(Succeeds(aclmdlRIBindStream(graph, stream, flag)));
    return stream;
  }
  static void Finish(aclmdlRI graph, aclrtStream last) {
    EXPECT_TRUE(Succeeds(aclmdlRIEndTask(graph, last)));
    EXPECT_TRUE(Succeeds(aclmdlRIBuildEnd(graph, nullptr)));
  }
  std::string Run(aclmdlRI graph) {
    EXPECT_TRUE(Succeeds(aclmdlRIExecute(graph, 20000)));
    return Log();
  }

  // Puts `what` on `stream`.
  void Do(aclrtStream stream, std::function<void()> what) {
    functions_.push_back(std::move(what));
    EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
        stream,
        [](void* function) {
          (*static_cast<std::function<void()>*>(function))();
        },
        &functions_.back())));
  }

  // Device memory with one number.
  template <typename T>
  T* Number(T value) {
    void* at = nullptr;
    EXPECT_TRUE(Succeeds(aclrtMalloc(&at, 64, ACL_MEM_MALLOC_HUGE_FIRST)));
    words_.push_back(at);
    *static_cast<T*>(at) = value;
    return static_cast<T*>(at);
  }

  std::vector<aclrtLabel> Labels(size_t count) {
    std::vector<aclrtLabel> labels(count);
    for (aclrtLabel& one : labels) {
      EXPECT_TRUE(Succeeds(aclrtCreateLabel(&one)));
    }
    labels_.insert(labels_.end(), labels.begin(), labels.end());
    return labels;
  }
  aclrtLabelList List(std::vector<aclrtLabel> labels) {
    aclrtLabelList list = nullptr;
    EXPECT_TRUE(
        Succeeds(aclrtCreateLabelList(labels.data(), labels.size(), &list)));
    lists_.push_back(list);
    return list;
  }
  static void Set(aclrtLabel label, aclrtStream stream) {
    EXPECT_TRUE(Succeeds(aclrtSetLabel(label, stream)));
  }
  // Goes on at the label of `labels` that *index says.
  void Switch(aclrtStream stream, uint32_t* index,
              const std::vector<aclrtLabel>& labels) {
    EXPECT_TRUE(Succeeds(aclrtSwitchLabelByIndex(
        index, static_cast<uint32_t>(labels.size()), List(labels), stream)));
  }
  // A graph of one stream that says "a" for ever; with `beside`, on a stream
  // that another one starts.
  aclmdlRI Endless(bool beside) {
    const aclmdlRI graph = NewGraph();
    aclrtStream stream = Bound(graph);
    if (beside) {
      const aclrtStream other = Bound(graph, kDefault);
      EXPECT_TRUE(Succeeds(aclrtActiveStream(other, stream)));
      stream = other;
    }
    const auto labels = Labels(1);
    Set(labels[0], stream);
    Do(stream, [this] { ++rounds_; });
    Switch(stream, Number<uint32_t>(0), labels);
    Finish(graph, stream);
    return graph;
  }
  void WaitForRounds() {
    rounds_ = 0;
    while (rounds_ < 10) std::this_thread::yield();
  }

  void TearDown() override {
    for (void* at : words_) EXPECT_TRUE(Succeeds(aclrtFree(at)));
    for (aclrtLabelList list : lists_) {
      EXPECT_TRUE(Succeeds(aclrtDestroyLabelList(list)));
    }
    for (aclrtLabel label : labels_) {
      EXPECT_TRUE(Succeeds(aclrtDestroyLabel(label)));
    }
    for (aclrtStream stream : streams_) {
      EXPECT_TRUE(Succeeds(aclrtDestroyStream(stream)));
    }
    GraphTest::TearDown();
  }

  std::atomic<int64_t> rounds_{0};

 private:
  std::vector<aclrtStream> streams_;
  std::vector<aclrtLabel> labels_;
  std::vector<aclrtLabelList> lists_;
  std::vector<void*> words_;
  std::deque<std::function<void()>> functions_;  // whose addresses stay
};

}  // namespace flashacl::testing
