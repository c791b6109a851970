// SPDX-License-Identifier: Apache-2.0
// Statistics of floats, compiled for every instruction set.
#include "record/statistics_kernel.h"

#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "record/statistics_kernel.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/tile/load-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::record::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using cpu::HWY_NAMESPACE::FloatsAt;
using cpu::HWY_NAMESPACE::kF;
using cpu::HWY_NAMESPACE::Vector;

inline constexpr hn::Repartition<double, decltype(kF)> kDoubles;
using Doubles = hn::Vec<decltype(kDoubles)>;

// Adds all lanes.
HWY_INLINE void AddTo(Doubles& sum, Vector x) {
  const hn::Half<decltype(kF)> half;
  const auto low = hn::PromoteTo(kDoubles, hn::LowerHalf(half, x));
  const auto high = hn::PromoteTo(kDoubles, hn::UpperHalf(half, x));
  sum = hn::Add(sum, hn::Add(low, high));
}

template <DType kType>
FloatBlock LookAt(const std::byte* first, int64_t count) {
  constexpr bool kNarrow = kType != DType::kF32;
  const auto lanes = static_cast<int64_t>(hn::Lanes(kF));
  const int64_t step = 4 * lanes;
  Vector min = hn::Set(kF, std::numeric_limits<float>::max());
  Vector max = hn::Neg(min);
  Vector special = hn::Zero(kF);  // 0 times what is finite
  Doubles sum = hn::Zero(kDoubles);
  int64_t n = 0;
  for (; n + step <= count; n += step) {
    const Vector a = FloatsAt<kType>(kF, first, n);
    const Vector b = FloatsAt<kType>(kF, first, n + lanes);
    const Vector c = FloatsAt<kType>(kF, first, n + 2 * lanes);
    const Vector d = FloatsAt<kType>(kF, first, n + 3 * lanes);
    min = hn::Min(min, hn::Min(hn::Min(a, b), hn::Min(c, d)));
    max = hn::Max(max, hn::Max(hn::Max(a, b), hn::Max(c, d)));
    for (const Vector x : {a, b, c, d}) {
      special = hn::MulAdd(x, hn::Zero(kF), special);
    }
    if constexpr (kNarrow) {
      AddTo(sum, hn::Add(hn::Add(a, b), hn::Add(c, d)));
    } else {
      for (const Vector x : {a, b, c, d}) AddTo(sum, x);
    }
  }
  FloatBlock found{n, hn::GetLane(hn::MinOfLanes(kF, min)),
                   hn::GetLane(hn::MaxOfLanes(kF, max)),
                   hn::GetLane(hn::SumOfLanes(kDoubles, sum))};
  const bool finite = hn::AllTrue(kF, hn::Eq(special, hn::Zero(kF)));
  const bool great =
      kNarrow && !(found.min > -0x1p126f && found.max < 0x1p126f);
  if (!finite || great) found.count = 0;
  return found;
}

StatisticsKernels StatisticsTable() {
  return {LookAt<DType::kF32>, LookAt<DType::kF16>, LookAt<DType::kBf16>};
}

}  // namespace flashacl::record::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flashacl::record {
HWY_EXPORT(StatisticsTable);
StatisticsKernels Kernels() { return HWY_DYNAMIC_DISPATCH(StatisticsTable)(); }
}  // namespace flashacl::record
#endif
