// SPDX-License-Identifier: Apache-2.0
// Bytes to a call of one of the operators that copy rows into and out of pages.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/fuzz/operator_target.h"

namespace flashacl::testing {
namespace {

// Of every mode but Nct, whose numbers can be those of any memory.
std::vector<OperatorCall> Calls() {
  std::vector<OperatorCall> calls = PageOperatorCalls();
  const OperatorCall scatter = calls[0];
  const OperatorCall gather = calls[1];
  OperatorCall& by_heads = calls.emplace_back(scatter);
  by_heads.texts[1] = "NHSD";
  by_heads.tensors[1].dims = {2, 2, 4, 16};
  by_heads.tensors[4].dims = {2, 2, 4, 8};
  OperatorCall& nz = calls.emplace_back(scatter);
  nz.texts[0] = "PA_NZ";
  nz.tensors[1].dims = {2, 2, 4, 16};
  nz.tensors[3].dims = {3, 2, 32};
  nz.tensors[4].dims = {2, 2, 2, 4, 16};
  OperatorCall& from_nz = calls.emplace_back(gather);
  from_nz.texts[0] = "PA_NZ";
  from_nz.tensors[0].dims = {4, 1, 4, 32};
  from_nz.tensors[1].dims = {4, 2, 4, 32};
  from_nz.tensors[4].dims = {7, 32};
  from_nz.tensors[5].dims = {7, 64};
  OperatorCall& ends = calls.emplace_back(gather);
  ends.integers[0] = 1;
  ends.tensors[3].dims = {4};
  return calls;
}

}  // namespace
}  // namespace flashacl::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace flashacl::testing;  // NOLINT: one function
  static OperatorTarget target(Calls());
  return target.Run(data, size);
}
