// SPDX-License-Identifier: Apache-2.0
// Products for few rows of 8 bits in integers, compiled for every instruction
// set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/decode/gemv_bytes.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/decode/byte_matrices-inl.h"
#include "cpu/decode/byte_two_by_two-inl.h"
#include "cpu/decode/gemv_bytes-inl.h"

namespace flashacl::cpu::HWY_NAMESPACE {

extern const ByteKernels kByteProducts = MakeByteKernels<OfBytes>();
extern const ByteKernels kByteProductsAtOnce = MakeByteKernels<OfBytesAtOnce>();
extern const ByteKernels kByteProductsOnMatrices =
    MakeMatrixByteKernels<Matrices>();
#if FLASHACL_HAS_BYTE_TWO_BY_TWO
extern const ByteKernels kByteProductsTwoByTwo = MakeByteKernelsInTwos();
#endif

}  // namespace flashacl::cpu::HWY_NAMESPACE
