// SPDX-License-Identifier: Apache-2.0
// Bytes to a call of the lightning indexer, or of its gradient.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/operator_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace flashacl::testing;  // NOLINT: one function
  static OperatorTarget target(IndexerOperatorCalls());
  return target.Run(data, size);
}
