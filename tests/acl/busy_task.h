// SPDX-License-Identifier: Apache-2.0
// A task that runs on a stream until it is told to end.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "acl/latch.h"
#include "acl/stream.h"
#include "tests/testing/runtime.h"

namespace flashacl::testing {

class BusyTask {
 public:
  // Returns once the task runs.
  explicit BusyTask(aclrtStream stream) {
    const auto run = [state = state_] {
      state->running.Open();
      while (!state->ends) std::this_thread::yield();
      return 0;
    };
    EXPECT_TRUE(Succeeds(acl::Find<acl::Stream>(stream)->Push(
        run, "test", acl::TaskKind::kDevice)));
    state_->running.Wait(std::nullopt);
  }
  ~BusyTask() { End(); }
  BusyTask(const BusyTask&) = delete;
  BusyTask& operator=(const BusyTask&) = delete;

  void End() { state_->ends = true; }

 private:
  struct State {
    acl::Latch running;
    std::atomic<bool> ends{false};
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace flashacl::testing
