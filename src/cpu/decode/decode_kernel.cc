// SPDX-License-Identifier: Apache-2.0
// Tiles of few rows, compiled for every instruction set.
#include "cpu/decode/decode_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/decode/decode_kernel.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/decode/decode-inl.h"
#include "cpu/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

DecodeKernels DecodeTable() {
  return {AttendFew,
          CombineSplits,
          FLASHACL_HAS_PAIR_DOTS != 0,
          FLASHACL_HAS_BYTE_DOTS != 0,
          FLASHACL_HAS_HALF_DOTS != 0,
          FLASHACL_HAS_INT16_DOTS != 0,
          FLASHACL_HAS_SHARED_CONVERSIONS != 0,
          FLASHACL_HAS_MATRICES != 0 ? MatrixCode::kInstructions
                                     : MatrixCode::kEmulated};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if FLASHACL_ONCE
namespace flashacl::cpu {
FLASHACL_EXPORT(DecodeKernels, DecodeTable);
DecodeKernels Decode() { return FLASHACL_DISPATCH(DecodeTable); }
}  // namespace flashacl::cpu
#endif
