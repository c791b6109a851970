// SPDX-License-Identifier: Apache-2.0
// Handles that no function may take: null, destroyed, of another kind, and the
// address of something.
#pragma once

#include <vector>

#include "acl/acl.h"

namespace flashacl::testing {

// `stale` is destroyed already; `other`, which is live and leaks no memory but
// its place, is an object of another kind.
template <typename Handle>
std::vector<Handle*> BadHandles(Handle* stale, void* other) {
  static int foreign = 0;
  return {nullptr, stale, static_cast<Handle*>(other),
          reinterpret_cast<Handle*>(&foreign)};
}

}  // namespace flashacl::testing
