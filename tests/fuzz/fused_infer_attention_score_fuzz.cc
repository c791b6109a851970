// SPDX-License-Identifier: Apache-2.0
// Bytes to a call of aclnnFusedInferAttentionScore, all versions.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/random.h"
#include "tests/fuzz/operator_target.h"
#include "tests/testing/fused_infer_call.h"

namespace flashacl::testing {
namespace {

bool Belongs(std::string_view name) { return name.starts_with("aclnnFused"); }

// Of every eighth call phase 1 is that of graph capture.
OperatorCall RandomCall(uint64_t seed) {
  Random random(seed);
  const FusedInferCase c = RandomFusedInferCase(random);
  OperatorCall call = FusedInferCall(c, seed).AsData();
  if (seed % 8 == 0) {
    call.name = EntryPointsOf(std::string(call.name) + "Max").name;
  }
  return call;
}

}  // namespace
}  // namespace flashacl::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace flashacl::testing;  // NOLINT: one function
  static OperatorTarget target(Belongs, RandomCall);
  return target.Run(data, size);
}
