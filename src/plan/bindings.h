// SPDX-License-Identifier: Apache-2.0
// Addresses for one run.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "problem/slot.h"

namespace flashacl {

// By slot: the address of element 0 of the problem's TensorSpec. Null where
// the problem has no tensor. Owned by the caller of the plan; must stay valid
// until the run is over.
struct Bindings {
  std::array<std::byte*, kSlots> at{};
  // KvSource::Rows::kList: one address per sequence, else empty.
  std::vector<std::byte*> key_list;
  std::vector<std::byte*> value_list;

  std::byte*& operator[](Slot slot) { return at[static_cast<size_t>(slot)]; }
  std::byte* operator[](Slot slot) const {
    return at[static_cast<size_t>(slot)];
  }
};

}  // namespace flashacl
