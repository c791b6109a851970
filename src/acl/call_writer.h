// SPDX-License-Identifier: Apache-2.0
// Writes recorded calls on a thread of its own, one after the other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "acl/recording.h"
#include "record/call.h"

namespace flashacl::acl {

struct NewBytes {
  const record::ElementType* type = nullptr;
  std::string digest;
  std::vector<std::byte> bytes;
};

struct WrittenCall {
  std::shared_ptr<const Recording> recording;
  record::Call call;
  std::vector<NewBytes> tensors;
};

// Hands a call to the thread; waits until it has written all earlier ones, so
// that a crash loses no more than one. What cannot be written is said once.
void WriteCall(WrittenCall call);

// Whether these bytes were written already.
bool IsWritten(const std::shared_ptr<const Recording>& recording,
               const std::string& digest);

// Returns when all that was handed over is written.
void FinishWriting();

}  // namespace flashacl::acl
