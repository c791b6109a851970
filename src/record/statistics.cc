// SPDX-License-Identifier: Apache-2.0
#include "record/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/half.h"
#include "base/number.h"
#include "record/statistics_kernel.h"

namespace flashacl::record {
namespace {

// Elements that are looked at together.
constexpr int64_t kBlock = 1024;

struct Sums {
  Statistics& found;
  double& sum;

  void AddSpecials(int64_t nans, int64_t infinities) {
    found.count += nans + infinities;
    found.nans += nans;
    found.infinities += infinities;
  }

  // Takes in numbers none of which is NaN or infinite.
  void Add(int64_t count, double min, double max, double of_all) {
    if (count == 0) return;
    const bool first = found.count == found.nans + found.infinities;
    found.count += count;
    sum += of_all;
    found.min = (first ? min : std::min(found.min, min)) + 0.0;  // not -0
    found.max = (first ? max : std::max(found.max, max)) + 0.0;
  }
};

// One by one, whatever the numbers are.
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
  sums.AddSpecials(nans, infinities);
  sums.Add(count - nans - infinities, static_cast<double>(min),
           static_cast<double>(max), sum);
}

template <typename T>
void AddPlain(const std::byte* at, int64_t count, Sums sums) {
  AddRun<T>(
      at, count, [](T x) { return x; }, sums);
}

// The last numbers of a block are added one by one.
template <typename T, typename F>
void AddFloats(const std::byte* at, int64_t count, LookAtFloats look, F number,
               Sums sums) {
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t size = std::min(kBlock, count - first);
    const std::byte* const block = at + first * int64_t{sizeof(T)};
    const FloatBlock found = look(block, size);
    sums.AddSpecials(found.nans, found.infinities);
    sums.Add(found.count - found.nans - found.infinities,
             static_cast<double>(found.min), static_cast<double>(found.max),
             found.sum);
    AddRun<T>(block + found.count * int64_t{sizeof(T)}, size - found.count,
              number, sums);
  }
}

// Compilers make vectors of these loops.
template <typename T>
void AddBytes(const std::byte* at, int64_t count, Sums sums) {
  constexpr int64_t kSummed = 128;  // whose sum has 16 bits
  const auto* const elements = reinterpret_cast<const T*>(at);
  for (int64_t first = 0; first < count; first += kBlock) {
    const T* const x = elements + first;
    const int64_t size = std::min(kBlock, count - first);
    T min = x[0], max = x[0];
    for (int64_t n = 0; n < size; ++n) {
      const T one = x[n];  // the address of an element is no vector
      min = one < min ? one : min;
      max = one > max ? one : max;
    }
    int64_t sum = 0;
    for (int64_t part = 0; part < size; part += kSummed) {
      const int64_t end = std::min(part + kSummed, size);
      int16_t of_part = 0;
      for (int64_t n = part; n < end; ++n) {
        of_part = static_cast<int16_t>(of_part + x[n]);
      }
      sum += of_part;
    }
    sums.Add(size, min, max, static_cast<double>(sum));
  }
}

void AddNumbers(DType dtype, const std::byte* at, int64_t count, Sums sums) {
  switch (dtype) {
    case DType::kF32:
      return AddFloats<float>(
          at, count, Kernels().f32, [](float x) { return x; }, sums);
    case DType::kF16:
      return AddFloats<uint16_t>(
          at, count, Kernels().f16, [](uint16_t x) { return F32FromF16(x); },
          sums);
    case DType::kBf16:
      return AddFloats<uint16_t>(
          at, count, Kernels().bf16, [](uint16_t x) { return F32FromBf16(x); },
          sums);
    case DType::kI8:
      return AddBytes<int8_t>(at, count, sums);
    case DType::kU8:
    case DType::kBool:
      return AddBytes<uint8_t>(at, count, sums);
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
