// SPDX-License-Identifier: Apache-2.0
// Products for few rows whose conversions are shared (shared_conversions.h),
// compiled for every instruction set that has them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/decode/gemv_shared.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/decode/gemv-inl.h"

namespace flashacl::cpu::HWY_NAMESPACE {

#if FLASHACL_HAS_SHARED_CONVERSIONS
// Of heads of more than four rows, whose first micro-tile has four.
template <DType kType>
constexpr GemvKernels MakeKernelsInTwos() {
  return {{{nullptr, nullptr, nullptr, DotAll<InTwos<kType>, 4>}},
          {nullptr, nullptr, nullptr, AddAll<InTwos<kType>, 4>}};
}

extern const GemvKernels kGemvPartedPairs = MakeGemvKernelsOf<PartedPairs>();
extern const GemvKernels kGemvBf16InTwos = MakeKernelsInTwos<DType::kBf16>();
extern const GemvKernels kGemvF16InTwos = MakeKernelsInTwos<DType::kF16>();
#else
extern const GemvKernels kGemvPartedPairs = {};
extern const GemvKernels kGemvBf16InTwos = {};
extern const GemvKernels kGemvF16InTwos = {};
#endif

}  // namespace flashacl::cpu::HWY_NAMESPACE
