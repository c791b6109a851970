// SPDX-License-Identifier: Apache-2.0
// Enumerations arrive from C, where they may hold any number.
#pragma once

#include <cstring>
#include <type_traits>

namespace flashacl::acl {

// The number in `value`. Reading one that is no enumerator as the enumeration
// would be undefined; so it is read as what it is.
template <typename Enum>
int Raw(const Enum& value) {
  static_assert(std::is_enum_v<Enum> && sizeof(Enum) == sizeof(int));
  int number;
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

}  // namespace flashacl::acl
