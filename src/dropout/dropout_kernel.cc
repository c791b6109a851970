// SPDX-License-Identifier: Apache-2.0
// Dropout, compiled for every instruction set.
#include "dropout/dropout_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dropout/dropout_kernel.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "dropout/philox-inl.h"
#include "dropout/select-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::dropout::HWY_NAMESPACE {
DropoutKernels DropoutTable() { return {DrawUnits, Select, hwy::FlushStream}; }
}  // namespace flashacl::dropout::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flashacl::dropout {
HWY_EXPORT(DropoutTable);
DropoutKernels Kernels() { return HWY_DYNAMIC_DISPATCH(DropoutTable)(); }
}  // namespace flashacl::dropout
#endif
