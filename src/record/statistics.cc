// SPDX-License-Identifier: Apache-2.0
#include "record/statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "base/number.h"

namespace flashacl::record {
namespace {

// Elements that are looked at together: as floats they stay in a first cache.
constexpr int64_t kBlock = 1024;

struct Sums {
  Statistics& found;
  double& sum;

  // Takes in numbers none of which is NaN or infinite.
  void Add(int64_t count, double min, double max, double of_all) {
    const bool first = found.count == found.nans + found.infinities;
    found.count += count;
    sum += of_all;
    found.min = first ? min : std::min(found.min, min);
    found.max = first ? max : std::max(found.max, max);
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
  sums.found.count += nans + infinities;
  sums.found.nans += nans;
  sums.found.infinities += infinities;
  const int64_t finite = count - nans - infinities;
  if (finite == 0) return;
  sums.Add(finite, static_cast<double>(min), static_cast<double>(max), sum);
}

template <typename T>
void AddPlain(const std::byte* at, int64_t count, Sums sums) {
  AddRun<T>(
      at, count, [](T x) { return x; }, sums);
}

// The loops of what follows are such that compilers make vectors of them, with
// the instructions that every processor has: minima and maxima of integers, and
// four sums that do not wait for each other.
double SumOf(const float* x, int64_t count) {
  double a = 0, b = 0, c = 0, d = 0;
  int64_t n = 0;
  for (; n + 4 <= count; n += 4) {
    a += static_cast<double>(x[n]);
    b += static_cast<double>(x[n + 1]);
    c += static_cast<double>(x[n + 2]);
    d += static_cast<double>(x[n + 3]);
  }
  for (; n < count; ++n) a += static_cast<double>(x[n]);
  return (a + b) + (c + d);
}

// Of floats that were 16 bits, the greatest less than 2^126: four of them are
// added in fp32, whose roundings are far below those of such numbers.
double SumOfNarrow(const float* x, int64_t count) {
  double a = 0, b = 0, c = 0, d = 0;
  int64_t n = 0;
  for (; n + 16 <= count; n += 16) {
    float four[4];
    for (int64_t lane = 0; lane < 4; ++lane) {
      const float* const y = x + n + lane;
      four[lane] = (y[0] + y[4]) + (y[8] + y[12]);
    }
    a += static_cast<double>(four[0]);
    b += static_cast<double>(four[1]);
    c += static_cast<double>(four[2]);
    d += static_cast<double>(four[3]);
  }
  return (a + b) + (c + d) + SumOf(x + n, count - n);
}

// Bits of floats in the order of their values, and back.
template <typename I>
I Ordered(I bits) {
  constexpr I kSign = std::numeric_limits<I>::max();
  return static_cast<I>(bits ^ ((bits >> (8 * sizeof(I) - 1)) & kSign));
}

// The least and the greatest of floats' bits, in that order, and the greatest
// exponent.
template <typename I>
struct Extremes {
  Extremes(const I* bits, int64_t count, I mask) {
    for (int64_t n = 0; n < count; ++n) {
      const I ordered = Ordered(bits[n]);
      min = std::min(min, ordered);
      max = std::max(max, ordered);
      exponent = std::max(exponent, static_cast<I>(bits[n] & mask));
    }
  }

  I min = std::numeric_limits<I>::max();
  I max = std::numeric_limits<I>::lowest();
  I exponent = 0;
};

// F32FromF16 without branches.
float FloatOf(int16_t f16) {
  constexpr int32_t kLeastNormal = 1 << 23, kSpecial = 31 << 23;
  const int32_t magnitude = (f16 & 0x7FFF) << 13;
  // A subnormal is what it adds to 2^-14.
  const float subnormal =
      std::bit_cast<float>(magnitude + (113 << 23)) - 0x1p-14f;
  const int32_t normal = magnitude + (112 << 23);
  const int32_t finite =
      magnitude < kLeastNormal ? std::bit_cast<int32_t>(subnormal) : normal;
  const int32_t special = magnitude >= kSpecial ? 0x7F800000 : 0;
  const int32_t sign = f16 & std::numeric_limits<int32_t>::min();
  return std::bit_cast<float>(sign | special | finite);
}

// `number` is the float of an element's bits, `mask` those of its exponent.
// Blocks with a NaN or infinity are added one by one.
template <typename I, typename F>
void AddFloats(const std::byte* at, int64_t count, I mask, F number,
               Sums sums) {
  I bits[kBlock];
  float floats[kBlock];
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t size = std::min(kBlock, count - first);
    const std::byte* const block = at + first * int64_t{sizeof(I)};
    std::memcpy(bits, block, static_cast<size_t>(size) * sizeof(I));
    const Extremes<I> found(bits, size, mask);
    if (found.exponent == mask) {
      AddRun<I>(block, size, number, sums);
      continue;
    }
    for (int64_t n = 0; n < size; ++n) floats[n] = number(bits[n]);
    const auto value = [&](I ordered) {
      return static_cast<double>(number(Ordered(ordered))) + 0.0;  // not -0
    };
    const double min = value(found.min), max = value(found.max);
    const bool narrow = sizeof(I) == 2 && std::max(-min, max) < 0x1p126;
    sums.Add(size, min, max,
             narrow ? SumOfNarrow(floats, size) : SumOf(floats, size));
  }
}

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
    // Not addresses of functions, which a loop of vectors cannot call.
    case DType::kF32:
      return AddFloats<int32_t>(
          at, count, 0x7F800000,
          [](int32_t bits) { return std::bit_cast<float>(bits); }, sums);
    case DType::kF16:
      return AddFloats<int16_t>(
          at, count, 0x7C00, [](int16_t bits) { return FloatOf(bits); }, sums);
    case DType::kBf16:
      return AddFloats<int16_t>(
          at, count, 0x7F80,
          [](int16_t bits) { return F32FromBf16(static_cast<uint16_t>(bits)); },
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
