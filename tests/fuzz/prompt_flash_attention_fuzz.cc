// SPDX-License-Identifier: Apache-2.0
// Bytes to a call of aclnnPromptFlashAttention, all versions.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/random.h"
#include "tests/fuzz/operator_target.h"
#include "tests/testing/prompt_call.h"

namespace flashacl::testing {
namespace {

bool Belongs(std::string_view name) { return name.starts_with("aclnnPrompt"); }

OperatorCall RandomCall(uint64_t seed) {
  Random random(seed);
  const PromptCase c =
      seed % 4 == 0 ? RandomPromptCase(random) : RandomLaterPromptCase(random);
  return PromptCall(c, seed).AsData();
}

}  // namespace
}  // namespace flashacl::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace flashacl::testing;  // NOLINT: one function
  static OperatorTarget target(Belongs, RandomCall);
  return target.Run(data, size);
}
