// SPDX-License-Identifier: Apache-2.0
// What tests of graphs share: streams, events, a log that host functions write,
// and captures in few words.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "tests/testing/runtime.h"
#include "tests/testing/tiny_operator.h"

namespace flashacl::testing {

// An event of aclrtCreateEventExWithFlag, as captures take them for branches.
class ScopedEvent {
 public:
  ScopedEvent() {
    EXPECT_TRUE(Succeeds(aclrtCreateEventExWithFlag(&event_, ACL_EVENT_SYNC)));
  }
  struct External {};
  explicit ScopedEvent(External) {
    EXPECT_TRUE(
        Succeeds(aclrtCreateEventWithFlag(&event_, ACL_EVENT_EXTERNAL)));
  }
  ~ScopedEvent() { EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event_))); }
  ScopedEvent(const ScopedEvent&) = delete;
  ScopedEvent& operator=(const ScopedEvent&) = delete;

  operator aclrtEvent() const { return event_; }  // NOLINT: by design

 private:
  aclrtEvent event_ = nullptr;
};

class GraphTest : public RuntimeTest {
 protected:
  // Puts a function on `stream` that appends `text` to the log.
  void Say(aclrtStream stream, std::string text) {
    lines_.push_back({this, std::move(text)});
    EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
        stream,
        [](void* line) {
          auto& one = *static_cast<Line*>(line);
          std::lock_guard lock(one.test->mutex_);
          one.test->log_ += one.text;
        },
        &lines_.back())));
  }

  // What was said since the last question.
  std::string Log() {
    std::lock_guard lock(mutex_);
    return std::exchange(log_, {});
  }

  static void Begin(aclrtStream stream, aclmdlRICaptureMode mode =
                                            ACL_MODEL_RI_CAPTURE_MODE_RELAXED) {
    EXPECT_TRUE(Succeeds(aclmdlRICaptureBegin(stream, mode)));
  }
  static aclmdlRI End(aclrtStream stream) {
    aclmdlRI graph = nullptr;
    EXPECT_TRUE(Succeeds(aclmdlRICaptureEnd(stream, &graph)));
    EXPECT_NE(graph, nullptr);
    return graph;
  }
  static void Replay(aclmdlRI graph, aclrtStream stream) {
    EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  }
  static void Destroy(aclmdlRI graph) {
    EXPECT_TRUE(Succeeds(aclmdlRIDestroy(graph)));
  }
  // `to` waits for all that `from` did so far.
  static void Follow(aclrtStream to, aclrtStream from, aclrtEvent event) {
    EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, from)));
    EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(to, event)));
  }
  // Puts a launch of `call` on `stream`; its status.
  aclnnStatus Launch(TinyCall& call, aclrtStream stream) {
    EXPECT_TRUE(Succeeds(call.Prepare()));
    void* workspace = nullptr;
    EXPECT_TRUE(Succeeds(aclrtMalloc(&workspace, call.workspace_size + 64,
                                     ACL_MEM_MALLOC_HUGE_FIRST)));
    workspaces_.push_back(workspace);
    return acl::Launch(workspace, call.workspace_size, call.executor, stream);
  }

  void TearDown() override {
    for (void* workspace : workspaces_) {
      EXPECT_TRUE(Succeeds(aclrtFree(workspace)));
    }
    RuntimeTest::TearDown();
  }

  static aclmdlRICaptureStatus StatusOf(aclrtStream stream) {
    auto status = ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
    EXPECT_TRUE(Succeeds(aclmdlRICaptureGetInfo(stream, &status, nullptr)));
    return status;
  }

  // Whether the device has run something that failed.
  static bool DeviceHasFailed() {
    aclrtErrorInfo info{};
    EXPECT_TRUE(Succeeds(aclrtGetErrorVerbose(0, &info)));
    return info.errorType == ACL_RT_ERROR_OTHERS;
  }

  aclmdlRI failed_ = nullptr;  // of ends that are to fail

 private:
  struct Line {
    GraphTest* test;
    std::string text;
  };
  std::deque<Line> lines_;  // whose addresses stay
  std::vector<void*> workspaces_;
  std::mutex mutex_;
  std::string log_;
};

}  // namespace flashacl::testing
