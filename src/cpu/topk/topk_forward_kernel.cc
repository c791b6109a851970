// SPDX-License-Identifier: Apache-2.0
// The forward direction over listed keys, compiled for every instruction set.
#include "cpu/topk/topk_forward_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/topk/topk_forward_kernel.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/dispatch.h"
#include "cpu/topk/topk_forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

TopKForwardKernels TopKForwardTable() {
  return {AttendTopK, FLASHACL_HAS_PAIR_DOTS != 0,
          FLASHACL_HAS_MATRICES != 0 ? MatrixCode::kInstructions
                                     : MatrixCode::kEmulated};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if FLASHACL_ONCE
namespace flashacl::cpu {
FLASHACL_EXPORT(TopKForwardKernels, TopKForwardTable);
TopKForwardKernels TopKForward() { return FLASHACL_DISPATCH(TopKForwardTable); }
}  // namespace flashacl::cpu
#endif
