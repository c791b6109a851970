// SPDX-License-Identifier: Apache-2.0
// Products for few rows of 8 bits as integers of 16, compiled for every
// instruction set that multiplies these two at a time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/decode/gemv_int16.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/decode/gemv_int16-inl.h"
#include "cpu/decode/gemv_int16_twos-inl.h"

namespace flashacl::cpu::HWY_NAMESPACE {

#if FLASHACL_HAS_INT16_DOTS
extern const GemvKernels kGemvInt16 = MakeInt16Kernels<OfInt16>();
extern const GemvKernels kGemvInt16AtOnce = MakeInt16Kernels<OfInt16AtOnce>();
#else
extern const GemvKernels kGemvInt16 = {};
extern const GemvKernels kGemvInt16AtOnce = {};
#endif

#if FLASHACL_HAS_INT16_TWOS
extern const GemvKernels kGemvInt16InTwos = MakeInt16KernelsInTwos();
#else
extern const GemvKernels kGemvInt16InTwos = {};
#endif

}  // namespace flashacl::cpu::HWY_NAMESPACE
