// SPDX-License-Identifier: Apache-2.0
// Bytes to a call of aclnnFlashAttentionScore or
// aclnnFlashAttentionVarLenScore, all versions.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/random.h"
#include "tests/fuzz/operator_target.h"
#include "tests/testing/training_oracle.h"
#include "tests/testing/training_random.h"

namespace flashacl::testing {
namespace {

constexpr const char* kLayouts[] = {"TND", "BSH", "SBH", "BSND", "BNSD"};

bool Belongs(std::string_view name) {
  return name.starts_with("aclnnFlashAttention") &&
         name.find("Grad") == name.npos;
}

OperatorCall RandomCall(uint64_t seed) {
  Random random(seed);
  const char* const layout = kLayouts[seed % 5];
  const TrainingCase c = ChooseCase(layout, Pass::kForward, random);
  int version = c.version;
  while (version == 0 || !Has(version, c)) {
    version = static_cast<int>(random.Within(1, VersionsOf(c.sizes.packed())));
  }
  OperatorCall call = TrainingFixture(ForwardCall(c, version)).AsData();
  // Planned for the longest that these shapes hold.
  if (call.name == std::string_view("aclnnFlashAttentionVarLenScoreV5")) {
    call.name = "aclnnFlashAttentionVarLenScoreV5Max";
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
