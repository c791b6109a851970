// SPDX-License-Identifier: Apache-2.0
// Bytes to a call of aclnnIncreFlashAttention, all versions.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/random.h"
#include "tests/fuzz/operator_target.h"
#include "tests/testing/decode_call.h"

namespace flashacl::testing {
namespace {

bool Belongs(std::string_view name) { return name.starts_with("aclnnIncre"); }

OperatorCall RandomCall(uint64_t seed) {
  Random random(seed);
  const DecodeCase c = seed % 3 == 0 ? RandomEarlierDecodeCase(random)
                                     : RandomDecodeCase(random);
  return DecodeCall(c, seed).AsData();
}

}  // namespace
}  // namespace flashacl::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace flashacl::testing;  // NOLINT: one function
  static OperatorTarget target(Belongs, RandomCall);
  return target.Run(data, size);
}
