// SPDX-License-Identifier: Apache-2.0
// Bytes to a call of one of the operators that copy rows into and out of pages.
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
      PageOperatorCalls(),
      [name](const OperatorCall& call) { return call.name == name; });
}

// The other modes. Not Nct, whose numbers can be those of any memory.
OperatorCall RandomCall(uint64_t seed) {
  std::vector<OperatorCall> calls = PageOperatorCalls();
  OperatorCall& scatter = calls[0];
  OperatorCall& gather = calls[1];
  switch (seed % 4) {
    case 0:
      scatter.texts[1] = "NHSD";
      scatter.tensors[1].dims = {2, 2, 4, 16};
      scatter.tensors[4].dims = {2, 2, 4, 8};
      return scatter;
    case 1:
      scatter.texts[0] = "PA_NZ";
      scatter.tensors[1].dims = {2, 2, 4, 16};
      scatter.tensors[3].dims = {3, 2, 32};
      scatter.tensors[4].dims = {2, 2, 2, 4, 16};
      return scatter;
    case 2:
      gather.texts[0] = "PA_NZ";
      gather.tensors[0].dims = {4, 1, 4, 32};
      gather.tensors[1].dims = {4, 2, 4, 32};
      gather.tensors[4].dims = {7, 32};
      gather.tensors[5].dims = {7, 64};
      return gather;
    default:
      gather.integers[0] = 1;
      gather.tensors[3].dims = {4};
      return gather;
  }
}

}  // namespace
}  // namespace flashacl::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace flashacl::testing;  // NOLINT: one function
  static OperatorTarget target(Belongs, RandomCall);
  return target.Run(data, size);
}
