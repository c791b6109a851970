// SPDX-License-Identifier: Apache-2.0
// One replay of a graph at a time, in the order in which streams come to it.
#pragma once

#include <mutex>

#include "acl/latch.h"

namespace flashacl::acl {

class Stream;

class ReplayQueue {
 public:
  // For tasks. Waits until all replays that came before have left; false if the
  // stream is aborted first.
  bool Enter(Stream& stream);
  void Leave();

 private:
  struct Waiting {
    Latch latch;
    Waiting* next = nullptr;
  };

  std::mutex mutex_;
  bool taken_ = false;
  Waiting* first_ = nullptr;  // the next to enter
  Waiting* last_ = nullptr;
};

}  // namespace flashacl::acl
