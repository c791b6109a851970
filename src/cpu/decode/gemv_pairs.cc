// SPDX-License-Identifier: Apache-2.0
// Products for few rows of pairs of bf16, compiled for every instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/decode/gemv_pairs.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/decode/gemv-inl.h"
#include "cpu/tile/pairs-inl.h"

namespace flashacl::cpu::HWY_NAMESPACE {

template <class Product>
constexpr GemvKernels MakePairKernels() {
  return {MakeDotKernels<PairsOf<Product>>(),
          {nullptr, nullptr, nullptr, AddAll<KeyPairsOf<Product>, 4>}};
}

extern const GemvKernels kGemvPairs = MakePairKernels<OfPairs>();
extern const GemvKernels kGemvPairsAtOnce = MakePairKernels<OfPairsAtOnce>();

}  // namespace flashacl::cpu::HWY_NAMESPACE
