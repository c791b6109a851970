// SPDX-License-Identifier: Apache-2.0
// One call of an operator with its memory, made again and again.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "acl/acl.h"
#include "backends.h"
#include "base/random.h"
#include "tests/testing/device_bytes.h"
#include "tests/testing/operator_call.h"
#include "tests/testing/runtime.h"

namespace flashacl::testing {

inline constexpr uint8_t kUntouched = 0xA5;  // in outputs before a call

class Subject {
 public:
  explicit Subject(const OperatorCall& call) : call_(call) {
    Random random(1);
    for (TensorArgument& tensor : call_.tensors) {
      contents_.push_back(Contents(tensor, random));
      memory_.push_back(std::make_unique<DeviceBytes>(contents_.back().size()));
      tensor.data = memory_.back()->data();
    }
    standing_ = std::make_unique<StandingCall>(call_);
    uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    EXPECT_TRUE(Succeeds(standing_->Prepare(&bytes, &executor)));
    EXPECT_TRUE(Succeeds(aclDestroyAclOpExecutor(executor)));
    workspace_ = std::make_unique<DeviceBytes>(bytes);
    EXPECT_EQ(Run(), Answer());
    expected_ = Outputs();
  }

  struct Answer {
    int planned = 0, launched = 0, synchronized = 0;
    bool said = false;  // whether there was a message
    bool operator==(const Answer&) const = default;
    bool failed() const {
      return planned != 0 || launched != 0 || synchronized != 0;
    }
  };

  // Runs on a stream and workers that have no threads yet.
  void TakeNewThreads(int workers) {
    stream_ = std::make_unique<ScopedStream>();
    SetWorkerCount(workers);
  }

  // Inputs as they were, outputs untouched.
  void Fill() {
    for (size_t n = 0; n < memory_.size(); ++n) {
      if (call_.IsOutput(n)) {
        contents_[n].assign(contents_[n].size(), kUntouched);
      }
      memory_[n]->Upload(contents_[n]);
    }
  }

  Answer Run() {
    Fill();
    return RunAsItIs();
  }

  // Allocates nothing itself.
  Answer RunAsItIs() {
    Answer answer;
    uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    answer.planned = standing_->Prepare(&bytes, &executor);
    if (answer.planned == 0) {
      answer.launched =
          call_.Launch(workspace_->data(), bytes, executor, *stream_);
    }
    answer.synchronized = aclrtSynchronizeStream(*stream_);
    answer.said = aclGetRecentErrMsg() != nullptr;
    return answer;
  }

  std::vector<std::vector<uint8_t>> Outputs() const {
    std::vector<std::vector<uint8_t>> outputs;
    for (size_t n = 0; n < memory_.size(); ++n) {
      if (!call_.IsOutput(n)) continue;
      outputs.push_back(memory_[n]->Download(contents_[n].size()));
    }
    return outputs;
  }

  bool IsRight() const { return Outputs() == expected_; }
  bool IsUntouched() const {
    for (const std::vector<uint8_t>& output : Outputs()) {
      for (const uint8_t byte : output) {
        if (byte != kUntouched) return false;
      }
    }
    return true;
  }

 private:
  OperatorCall call_;
  std::unique_ptr<ScopedStream> stream_ = std::make_unique<ScopedStream>();
  std::vector<std::vector<uint8_t>> contents_;
  std::vector<std::unique_ptr<DeviceBytes>> memory_;
  std::unique_ptr<DeviceBytes> workspace_;
  std::unique_ptr<StandingCall> standing_;
  std::vector<std::vector<uint8_t>> expected_;
};

}  // namespace flashacl::testing
