// SPDX-License-Identifier: Apache-2.0
// Bytes to a call of aclnnSparseFlashAttention, V2, or its gradient.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/random.h"
#include "tests/fuzz/operator_target.h"
#include "tests/testing/sparse_call.h"

namespace flashacl::testing {
namespace {

bool Belongs(std::string_view name) { return name.starts_with("aclnnSparse"); }

OperatorCall RandomCall(uint64_t seed) {
  Random random(seed);
  if (seed % 3 == 0) {
    return SparseBackwardCall(RandomSparseBackwardCase(random), seed).AsData();
  }
  return SparseForwardCall(RandomSparseForwardCase(random), seed).AsData();
}

}  // namespace
}  // namespace flashacl::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace flashacl::testing;  // NOLINT: one function
  static OperatorTarget target(Belongs, RandomCall);
  return target.Run(data, size);
}
