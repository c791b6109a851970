// SPDX-License-Identifier: Apache-2.0
// Buffers of a scratch struct by their sizes; nobody touches them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>

namespace flashacl::testing {

class Buffers {
 public:
  // For ScratchLayout::Apart.
  std::byte* operator()(int64_t bytes) {
    next_ += uintptr_t{1} << 32;
    bytes_[next_] = bytes;
    return reinterpret_cast<std::byte*>(next_);
  }

  int64_t BytesOf(const void* buffer) const {
    const auto found = bytes_.find(reinterpret_cast<uintptr_t>(buffer));
    return found == bytes_.end() ? -1 : found->second;
  }

  template <typename T>
  void ExpectRoom(const char* name, const T* buffer, int64_t count) const {
    EXPECT_GE(BytesOf(buffer), count * static_cast<int64_t>(sizeof(T))) << name;
  }

 private:
  uintptr_t next_ = 0;
  std::map<uintptr_t, int64_t> bytes_;
};

}  // namespace flashacl::testing
