// SPDX-License-Identifier: Apache-2.0
// Products for few rows of words of four bits, compiled for every instruction
// set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/decode/gemv_i4x8.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/decode/gemv-inl.h"

namespace flashacl::cpu::HWY_NAMESPACE {

extern const GemvKernels kGemvI4x8 = MakeGemvKernels<DType::kI4x8>();

}  // namespace flashacl::cpu::HWY_NAMESPACE
