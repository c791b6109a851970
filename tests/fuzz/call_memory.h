// SPDX-License-Identifier: Apache-2.0
// Memory for the tensors of one call, each between pages that nobody may touch,
// and what was in it before the call.
#pragma once

#include <cstddef>
#include <vector>

#include "tests/fuzz/bytes.h"
#include "tests/testing/fenced.h"
#include "tests/testing/operator_call.h"

namespace flashacl::testing {

class CallMemory {
 public:
  // Sets `data` of every tensor that is present; inputs hold numbers or
  // anything, outputs 0xFF. Call and memory stay together.
  CallMemory(Bytes& bytes, OperatorCall& call);

  // Whether every tensor has all of the memory that it describes.
  bool complete() const { return complete_; }

  // Whether elements of an output share memory: the last one written stays.
  bool OutputsOverlap() const;

  // Takes what is there now for what was there before the call.
  void Remember();

  // Nothing was written since, or nothing but elements of outputs.
  void RequireUntouched() const;
  void RequireOnlyOutputsTouched() const;

 private:
  void Give(Bytes& bytes, TensorArgument& tensor, bool output);

  OperatorCall& call_;
  bool complete_ = true;
  std::vector<FencedBytes> memory_;  // by tensor; empty: none, or shared
  std::vector<std::vector<std::byte>> before_;
};

}  // namespace flashacl::testing
