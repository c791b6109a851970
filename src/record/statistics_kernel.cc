// SPDX-License-Identifier: Apache-2.0
// Statistics of floats, compiled for every instruction set.
#include "record/statistics_kernel.h"

#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "record/statistics_kernel.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "base/dtype.h"
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

// Whatever the numbers are, a vector at a time.
template <DType kType>
FloatBlock LookAtAny(const std::byte* first, int64_t count) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(kF));
  const Vector greatest = hn::Set(kF, std::numeric_limits<float>::max());
  Vector min = greatest;
  Vector max = hn::Neg(greatest);
  Doubles sum = hn::Zero(kDoubles);
  FloatBlock found;
  for (; found.count + lanes <= count; found.count += lanes) {
    const Vector x = FloatsAt<kType>(kF, first, found.count);
    const auto number = hn::Eq(x, x);
    const auto finite = hn::Le(hn::Abs(x), greatest);
    const auto numbers = static_cast<int64_t>(hn::CountTrue(kF, number));
    found.nans += lanes - numbers;
    found.infinities +=
        numbers - static_cast<int64_t>(hn::CountTrue(kF, finite));
    min = hn::Min(min, hn::IfThenElse(finite, x, greatest));
    max = hn::Max(max, hn::IfThenElse(finite, x, hn::Neg(greatest)));
    AddTo(sum, hn::IfThenElseZero(finite, x));
  }
  found.min = hn::GetLane(hn::MinOfLanes(kF, min));
  found.max = hn::GetLane(hn::MaxOfLanes(kF, max));
  found.sum = hn::GetLane(hn::SumOfLanes(kDoubles, sum));
  return found;
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
  const bool finite = hn::AllTrue(kF, hn::Eq(special, hn::Zero(kF)));
  const FloatBlock found{.count = n,
                         .min = hn::GetLane(hn::MinOfLanes(kF, min)),
                         .max = hn::GetLane(hn::MaxOfLanes(kF, max)),
                         .sum = hn::GetLane(hn::SumOfLanes(kDoubles, sum))};
  // Four of these would pass fp32's greatest.
  const bool great =
      kNarrow && !(found.min > -0x1p126f && found.max < 0x1p126f);
  return finite && !great ? found : LookAtAny<kType>(first, count);
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
