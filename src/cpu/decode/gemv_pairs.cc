// SPDX-License-Identifier: Apache-2.0
// Scores of few rows of pairs of bf16, compiled for every instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/decode/gemv_pairs.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/decode/gemv-inl.h"
#include "cpu/tile/pairs-inl.h"

namespace flashacl::cpu::HWY_NAMESPACE {

extern const DotKernels kDotPairs = MakeDotKernels<PairsOf<OfPairs>>();
extern const DotKernels kDotPairsAtOnce =
    MakeDotKernels<PairsOf<OfPairsAtOnce>>();

}  // namespace flashacl::cpu::HWY_NAMESPACE
