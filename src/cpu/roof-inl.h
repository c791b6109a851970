// SPDX-License-Identifier: Apache-2.0
// The two loops that nothing can overtake: multiply-adds without memory, and
// loads without arithmetic to speak of.
#if defined(FLASHACL_CPU_ROOF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_ROOF_INL_H_
#undef FLASHACL_CPU_ROOF_INL_H_
#else
#define FLASHACL_CPU_ROOF_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// One share of the arithmetic: `rounds` times one multiply-add on each of 12
// vectors; returns how many FLOP that was. Two multiply-adds per cycle that
// take 4 or 5 cycles each keep 8 to 10 in flight, and 12 sums and two factors
// fit the 16 registers of AVX2. The sum is a factor, so that no compiler takes
// the product out of the loop where it is an instruction of its own. `seed`
// keeps the compiler from knowing the answer, `sum` from thinking that nobody
// wants it.
inline int64_t MultiplyAdd(int64_t rounds, float seed,
                           float* HWY_RESTRICT sum) {
  const hn::ScalableTag<float> d;
  const auto a = hn::Set(d, seed);
  const auto b = hn::Set(d, seed * 0.5f);
  // Sums that began alike would be one sum to the compiler.
  auto s0 = a, s1 = hn::Add(s0, b), s2 = hn::Add(s1, b), s3 = hn::Add(s2, b);
  auto s4 = hn::Add(s3, b), s5 = hn::Add(s4, b), s6 = hn::Add(s5, b);
  auto s7 = hn::Add(s6, b), s8 = hn::Add(s7, b), s9 = hn::Add(s8, b);
  auto s10 = hn::Add(s9, b), s11 = hn::Add(s10, b);
  for (int64_t n = 0; n < rounds; ++n) {
    s0 = hn::MulAdd(s0, a, b);
    s1 = hn::MulAdd(s1, a, b);
    s2 = hn::MulAdd(s2, a, b);
    s3 = hn::MulAdd(s3, a, b);
    s4 = hn::MulAdd(s4, a, b);
    s5 = hn::MulAdd(s5, a, b);
    s6 = hn::MulAdd(s6, a, b);
    s7 = hn::MulAdd(s7, a, b);
    s8 = hn::MulAdd(s8, a, b);
    s9 = hn::MulAdd(s9, a, b);
    s10 = hn::MulAdd(s10, a, b);
    s11 = hn::MulAdd(s11, a, b);
  }
  s0 = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  s4 = hn::Add(hn::Add(s4, s5), hn::Add(s6, s7));
  s8 = hn::Add(hn::Add(s8, s9), hn::Add(s10, s11));
  *sum = hn::GetLane(hn::Add(s0, hn::Add(s4, s8)));
  return 2 * 12 * rounds * static_cast<int64_t>(hn::Lanes(d));
}

// Reads `count` words, a multiple of 8 vectors; `sum` as above.
inline void ReadAll(const uint64_t* HWY_RESTRICT words, size_t count,
                    uint64_t* HWY_RESTRICT sum) {
  const hn::ScalableTag<uint64_t> d;
  const size_t N = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  for (size_t n = 0; n < count; n += 8 * N) {
    s0 = hn::Xor(s0, hn::Load(d, words + n));
    s1 = hn::Xor(s1, hn::Load(d, words + n + N));
    s2 = hn::Xor(s2, hn::Load(d, words + n + 2 * N));
    s3 = hn::Xor(s3, hn::Load(d, words + n + 3 * N));
    s0 = hn::Xor(s0, hn::Load(d, words + n + 4 * N));
    s1 = hn::Xor(s1, hn::Load(d, words + n + 5 * N));
    s2 = hn::Xor(s2, hn::Load(d, words + n + 6 * N));
    s3 = hn::Xor(s3, hn::Load(d, words + n + 7 * N));
  }
  *sum = hn::GetLane(hn::Xor(hn::Xor(s0, s1), hn::Xor(s2, s3)));
}

}  // namespace HWY_NAMESPACE
}  // namespace flashacl::cpu
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_ROOF_INL_H_
