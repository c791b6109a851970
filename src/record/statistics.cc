// SPDX-License-Identifier: Apache-2.0
#include "record/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/half.h"
#include "base/number.h"

namespace flashacl::record {
namespace {

struct Sums {
  Statistics& found;
  double& sum;
};

template <typename T, typename F>
void AddRun(const std::byte* at, int64_t count, F number, Sums sums) {
  using Number = decltype(number(T{}));
  Number min = std::numeric_limits<Number>::max();
  Number max = std::numeric_limits<Number>::lowest();
  double sum = 0;
  int64_t nans = 0;
  int64_t infinities = 0;
  for (int64_t n = 0; n < count; ++n) {
    const Number x = number(Load<T>(at + n * int64_t{sizeof(T)}));
    if constexpr (std::numeric_limits<Number>::has_infinity) {
      const bool nan = std::isnan(x);
      const bool infinite = std::isinf(x);
      nans += nan;
      infinities += infinite;
      if (nan || infinite) continue;
    }
    min = std::min(min, x);
    max = std::max(max, x);
    sum += static_cast<double>(x);
  }
  Statistics& found = sums.found;
  const bool first = found.count == found.nans + found.infinities;
  found.count += count;
  found.nans += nans;
  found.infinities += infinities;
  sums.sum += sum;
  if (nans + infinities == count) return;
  const auto low = static_cast<double>(min);
  const auto high = static_cast<double>(max);
  found.min = first ? low : std::min(found.min, low);
  found.max = first ? high : std::max(found.max, high);
}

template <typename T>
void AddPlain(const std::byte* at, int64_t count, Sums sums) {
  AddRun<T>(
      at, count, [](T x) { return x; }, sums);
}

void AddNumbers(DType dtype, const std::byte* at, int64_t count, Sums sums) {
  switch (dtype) {
    case DType::kF32:
      return AddPlain<float>(at, count, sums);
    case DType::kF16:
      return AddRun<uint16_t>(at, count, F32FromF16, sums);
    case DType::kBf16:
      return AddRun<uint16_t>(at, count, F32FromBf16, sums);
    case DType::kI8:
      return AddPlain<int8_t>(at, count, sums);
    case DType::kU8:
    case DType::kBool:
      return AddPlain<uint8_t>(at, count, sums);
    case DType::kI32:
      return AddPlain<int32_t>(at, count, sums);
    case DType::kI64:
      return AddPlain<int64_t>(at, count, sums);
    case DType::kU64:
      return AddPlain<uint64_t>(at, count, sums);
    case DType::kF64:
      return AddPlain<double>(at, count, sums);
    case DType::kI4x8:
    case DType::kNone:
      return;
  }
}

}  // namespace

bool IsDense(const Layout& layout) {
  int64_t rows = 0;
  ForRows(layout, [&](int64_t, int64_t) { ++rows; });
  return rows <= 1;
}

void StatisticsSum::Add(std::span<const std::byte> elements) {
  const int64_t size = SizeOf(dtype_);
  if (size == 0 || dtype_ == DType::kI4x8) return;
  AddNumbers(dtype_, elements.data(),
             static_cast<int64_t>(elements.size()) / size, {found_, sum_});
}

Statistics StatisticsSum::Get() const {
  Statistics found = found_;
  const int64_t finite = found.count - found.nans - found.infinities;
  if (finite > 0) found.mean = sum_ / static_cast<double>(finite);
  return found;
}

Statistics StatisticsOf(std::span<const std::byte> bytes,
                        const Layout& layout) {
  const int64_t size = SizeOf(layout.dtype);
  if (size == 0) return {};
  StatisticsSum sum(layout.dtype);
  ForRows(layout, [&](int64_t first, int64_t count) {
    sum.Add(bytes.subspan(static_cast<size_t>(first * size),
                          static_cast<size_t>(count * size)));
  });
  return sum.Get();
}

}  // namespace flashacl::record
