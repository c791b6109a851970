// SPDX-License-Identifier: Apache-2.0
// Writes recorded calls on a thread of its own, one after the other.
#pragma once

#include <string>
#include <vector>

#include "record/call.h"

namespace flashacl::acl {

struct NewBytes {
  const record::ElementType* type = nullptr;
  std::string digest;
  std::vector<std::byte> bytes;
};

struct WrittenCall {
  record::Call call;
  std::vector<NewBytes> tensors;
};

// Hands a call to the thread; waits until it has written all earlier ones, so
// that a crash loses no more than one. What cannot be written is said once.
void WriteCall(WrittenCall call);

// Whether these bytes were written already.
bool IsWritten(const std::string& digest);

// Whether the record has no room left, or cannot be written: nothing need be
// handed over any more.
bool RecordIsOver() noexcept;

}  // namespace flashacl::acl
