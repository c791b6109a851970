// SPDX-License-Identifier: Apache-2.0
// A callable passed down without owning or allocating anything.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace flashacl {

template <typename Signature>
class FunctionRef;

// Refers to a callable that outlives the call it is passed to.
template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>) FunctionRef(
      F&& callable)  // NOLINT: implicit by design, like std::function
      : object_(const_cast<void*>(
            static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(
              std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const {
    return call_(object_, std::forward<Args>(args)...);
  }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

}  // namespace flashacl
