// SPDX-License-Identifier: Apache-2.0
#include "elementwise/type.h"

namespace flashacl::elementwise {

int64_t SizeOf(Type type) {
  return WithElement(type,
                     [](auto element) -> int64_t { return sizeof(element); });
}

std::string_view Name(Type type) {
  constexpr std::string_view kNames[kTypes] = {
      "f32", "f16", "bf16", "f64", "i8",   "i16", "i32", "i64",
      "u8",  "u16", "u32",  "u64", "bool", "c64", "c128"};
  return kNames[static_cast<int>(type)];
}

}  // namespace flashacl::elementwise
