// SPDX-License-Identifier: Apache-2.0
// Scores of few rows of fp16 as they are, compiled for every instruction set
// that multiplies them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/decode/gemv_halves.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/decode/gemv-inl.h"

namespace flashacl::cpu::HWY_NAMESPACE {

#if FLASHACL_HAS_HALF_DOTS
extern const DotKernels kDotHalves =
    MakeDotKernels<PairsOf<OfHalvesAtOnce, 2>>();
#else
extern const DotKernels kDotHalves = {};
#endif

}  // namespace flashacl::cpu::HWY_NAMESPACE
