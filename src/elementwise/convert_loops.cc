// SPDX-License-Identifier: Apache-2.0
// All pairs of types, dense and with steps.
#include <array>
#include <cstring>
#include <utility>

#include "base/number.h"
#include "elementwise/convert.h"
#include "elementwise/loops.h"

namespace flashacl::elementwise {
namespace {

template <typename From, typename To>
void Dense(const std::byte* from, std::byte* to, int64_t count) {
  if constexpr (std::is_same_v<From, To> && !std::is_same_v<To, Bool>) {
    std::memmove(to, from, static_cast<size_t>(count) * sizeof(To));
  } else {
    constexpr auto kFrom = static_cast<int64_t>(sizeof(From));
    constexpr auto kTo = static_cast<int64_t>(sizeof(To));
    FLASHACL_INDEPENDENT
    for (int64_t i = 0; i < count; ++i) {
      Store(to + i * kTo, Converted<To>(Load<From>(from + i * kFrom)));
    }
  }
}

template <typename From, typename To>
void Loop(Elements from, Room to, int64_t count) {
  if (from.step == 1 && to.step == 1) {
    return Dense<From, To>(from.at, to.at, count);
  }
  const int64_t from_bytes = from.step * static_cast<int64_t>(sizeof(From));
  const int64_t to_bytes = to.step * static_cast<int64_t>(sizeof(To));
  for (int64_t i = 0; i < count; ++i) {
    Store(to.at + i * to_bytes,
          Converted<To>(Load<From>(from.at + i * from_bytes)));
  }
}

template <typename T>
constexpr bool kComplex = std::is_same_v<T, C64> || std::is_same_v<T, C128>;

constexpr ConvertLoop Pick(Type from, Type to) {
  return WithElement(from, [to]<typename From>(From) {
    return WithElement(to, []<typename To>(To) -> ConvertLoop {
      if constexpr ((kComplex<From> ||
                     kComplex<To>)&&!std::is_same_v<From, To>) {
        return nullptr;
      } else {
        return Loop<From, To>;
      }
    });
  });
}

}  // namespace

ConvertLoop ConvertLoopOf(Type from, Type to) { return Pick(from, to); }

}  // namespace flashacl::elementwise
