// SPDX-License-Identifier: Apache-2.0
// The forward direction, compiled for every instruction set.
#include "cpu/forward/forward_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/forward/forward_kernel.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/forward/forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {
ForwardKernels ForwardTable() { return {AttendTile, CombineSplits}; }
}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flashacl::cpu {
HWY_EXPORT(ForwardTable);

ForwardKernels Forward() { return HWY_DYNAMIC_DISPATCH(ForwardTable)(); }

int64_t ForwardTargets() { return HWY_TARGETS; }

}  // namespace flashacl::cpu
#endif  // HWY_ONCE
