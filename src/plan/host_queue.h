// SPDX-License-Identifier: Apache-2.0
// The queue of a device that is the host: nothing ever waits in it.
#pragma once

#include "plan/backend.h"

namespace flashacl {

// Any number of threads may use it; owns nothing.
class HostQueue final : public Queue {
 public:
  explicit HostQueue(Workers& workers) : workers_(workers) {}

  Status OnHost(FunctionRef<Status(Workers&)> work) override {
    return work(workers_);
  }
  Status Wait() override { return {}; }

 private:
  Workers& workers_;
};

}  // namespace flashacl
