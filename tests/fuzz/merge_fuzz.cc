// SPDX-License-Identifier: Apache-2.0
// Bytes to a call of one of the operators that merge parts of attention.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tests/fuzz/operator_target.h"

namespace flashacl::testing {
namespace {

bool Belongs(std::string_view name) {
  return std::ranges::any_of(
      MergeOperatorCalls(),
      [name](const OperatorCall& call) { return call.name == name; });
}

OperatorCall RandomCall(uint64_t seed) {
  const std::vector<OperatorCall> calls = MergeOperatorCalls();
  return calls[seed % calls.size()];
}

}  // namespace
}  // namespace flashacl::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace flashacl::testing;  // NOLINT: one function
  static OperatorTarget target(Belongs, RandomCall);
  return target.Run(data, size);
}
