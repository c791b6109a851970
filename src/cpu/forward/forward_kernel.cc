// SPDX-License-Identifier: Apache-2.0
// The forward direction, compiled for every instruction set.
#include "cpu/forward/forward_kernel.h"

#include "hwy/cache_control.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/forward/forward_kernel.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/dispatch.h"
#include "cpu/forward/forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

ForwardKernels ForwardTable() {
  return {AttendTile, CombineSplits, hwy::FlushStream,
          FLASHACL_HAS_PAIR_DOTS != 0,
          FLASHACL_HAS_MATRICES != 0 ? MatrixCode::kInstructions
                                     : MatrixCode::kEmulated};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if FLASHACL_ONCE
namespace flashacl::cpu {
FLASHACL_EXPORT(ForwardKernels, ForwardTable);
ForwardKernels Forward() { return FLASHACL_DISPATCH(ForwardTable); }
}  // namespace flashacl::cpu
#endif
