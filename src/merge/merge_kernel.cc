// SPDX-License-Identifier: Apache-2.0
// Merges, compiled for every instruction set.
#include "merge/merge_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "merge/merge_kernel.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/dispatch.h"
#include "hwy/highway.h"
#include "merge/weighted_sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::merge::HWY_NAMESPACE {
MergeKernels MergeTable() {
  return {SumRows, StoreSums, MergeRows, FlushStreams};
}
}  // namespace flashacl::merge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if FLASHACL_ONCE
namespace flashacl::merge {
FLASHACL_EXPORT(MergeKernels, MergeTable);
MergeKernels Kernels() { return FLASHACL_DISPATCH(MergeTable); }
}  // namespace flashacl::merge
#endif
