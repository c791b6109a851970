// SPDX-License-Identifier: Apache-2.0
// Sums and products. Integers wrap: they are computed with as unsigned ones, of
// at least 32 bits, as C++ would make signed ones of shorter ones.
#include <type_traits>

#include "base/number.h"
#include "elementwise/loops.h"

namespace flashacl::elementwise {
namespace {

template <typename T>
using Wrapping =
    std::conditional_t<sizeof(T) <= 4, uint32_t, std::make_unsigned_t<T>>;

template <typename T>
T Sum(T a, T b) {
  if constexpr (std::is_same_v<T, Bool>) {
    return {static_cast<uint8_t>((a.byte | b.byte) != 0)};
  } else if constexpr (std::is_integral_v<T>) {
    using U = Wrapping<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return a + b;
  }
}

template <typename T>
T Product(T a, T b) {
  if constexpr (std::is_same_v<T, Bool>) {
    return {static_cast<uint8_t>((a.byte != 0) & (b.byte != 0))};
  } else if constexpr (std::is_integral_v<T>) {
    using U = Wrapping<T>;
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  } else {
    return a * b;
  }
}

template <typename T, typename Combine>
void ForEach(const std::byte* a, const std::byte* b, std::byte* c,
             int64_t count, Combine combine) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  FLASHACL_INDEPENDENT
  for (int64_t i = 0; i < count; ++i) {
    Store(c + i * kBytes,
          combine(Load<T>(a + i * kBytes), Load<T>(b + i * kBytes)));
  }
}

template <typename T>
void Add(const std::byte* a, const std::byte* b, const Alpha&, std::byte* c,
         int64_t count) {
  ForEach<T>(a, b, c, count, Sum<T>);
}

template <typename T>
void AddScaled(const std::byte* a, const std::byte* b, const Alpha& alpha,
               std::byte* c, int64_t count) {
  const T factor = Load<T>(alpha.data());
  ForEach<T>(a, b, c, count, [factor](T one, T other) {
    return Sum<T>(one, Product<T>(factor, other));
  });
}

template <typename T>
void Multiply(const std::byte* a, const std::byte* b, const Alpha&,
              std::byte* c, int64_t count) {
  ForEach<T>(a, b, c, count, Product<T>);
}

// Calls body(T()) for the types that are computed in.
template <typename Body>
ArithmeticLoop WithArithmetic(Type type, Body&& body) {
  return WithElement(type, [&]<typename T>(T element) -> ArithmeticLoop {
    constexpr bool kComputedIn =
        std::is_floating_point_v<T> || std::is_same_v<T, Bool> ||
        (std::is_integral_v<T> && (std::is_signed_v<T> || sizeof(T) == 1));
    if constexpr (kComputedIn) {
      return body(element);
    } else {
      return nullptr;
    }
  });
}

}  // namespace

ArithmeticLoop AddLoopOf(Type type, bool scaled) {
  return WithArithmetic(
      type, [scaled]<typename T>(T) { return scaled ? AddScaled<T> : Add<T>; });
}

ArithmeticLoop MultiplyLoopOf(Type type) {
  return WithArithmetic(type, []<typename T>(T) { return Multiply<T>; });
}

}  // namespace flashacl::elementwise
