// SPDX-License-Identifier: Apache-2.0
// Bytes to a call of one of the elementwise operators.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/operator_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace flashacl::testing;  // NOLINT: one function
  static OperatorTarget target(ElementwiseOperatorCalls());
  return target.Run(data, size);
}
