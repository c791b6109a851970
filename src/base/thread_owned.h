// SPDX-License-Identifier: Apache-2.0
// An object of each thread, deleted when the thread ends. A thread_local with a
// destructor will not do: where there is no memory to register it, the C
// library ends the process; and it goes before the program's own, which may
// still call us.
#pragma once

#include <pthread.h>

#include <new>

namespace flashacl {

// Static, never destroyed.
template <typename T>
class ThreadOwned {
 public:
  ThreadOwned()
      : has_key_(pthread_key_create(&key_, [](void* at) {
                   delete static_cast<T*>(at);
                 }) == 0) {}

  // The calling thread's, made by its first call. Null if there is no memory,
  // or if the process has used up its keys.
  T* Get() noexcept {
    if (!has_key_) return nullptr;
    if (void* const at = pthread_getspecific(key_); at != nullptr) {
      return static_cast<T*>(at);
    }
    T* const made = new (std::nothrow) T;
    if (made == nullptr || pthread_setspecific(key_, made) == 0) return made;
    delete made;
    return nullptr;
  }

 private:
  pthread_key_t key_{};
  const bool has_key_;
};

}  // namespace flashacl
