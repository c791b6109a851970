// SPDX-License-Identifier: Apache-2.0
// Bytes to a call of one of the operators that merge parts of attention.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/operator_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace flashacl::testing;  // NOLINT: one function
  static OperatorTarget target(MergeOperatorCalls());
  return target.Run(data, size);
}
