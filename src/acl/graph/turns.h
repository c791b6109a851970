// SPDX-License-Identifier: Apache-2.0
// One replay of a graph at a time, in the order in which streams come to it.
#pragma once

#include <mutex>

#include "acl/latch.h"

namespace flashacl::acl {

class Stream;

class Turns {
 public:
  // For tasks. Waits until it is this replay's turn; false if the stream is
  // aborted first.
  bool Take(Stream& stream);
  void GiveBack();

 private:
  struct Waiting {
    Latch latch;
    Waiting* next = nullptr;
  };

  std::mutex mutex_;
  bool taken_ = false;
  Waiting* first_ = nullptr;  // the next one in turn
  Waiting* last_ = nullptr;
};

}  // namespace flashacl::acl
