// SPDX-License-Identifier: Apache-2.0
// Where exceptions end: at the C API, and at the end of a thread's work.
#pragma once

#include <new>
#include <utility>

namespace flashacl {

// Runs `body`, and `failed` if an exception comes out of it, with whether that
// says there is no memory. The only catch in src/.
template <typename F, typename G>
auto Contain(F&& body, G&& failed) noexcept -> decltype(body()) {
  try {
    return std::forward<F>(body)();
  } catch (const std::bad_alloc&) {
    return failed(true);
  } catch (...) {
    return failed(false);
  }
}

}  // namespace flashacl
