// SPDX-License-Identifier: Apache-2.0
// Products for few rows of 8-bit elements, compiled for every instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/decode/gemv_i8.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/decode/gemv-inl.h"

namespace flashacl::cpu::HWY_NAMESPACE {

extern const GemvKernels kGemvI8 = MakeGemvKernels<DType::kI8>();

}  // namespace flashacl::cpu::HWY_NAMESPACE
