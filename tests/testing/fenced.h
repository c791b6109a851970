// SPDX-License-Identifier: Apache-2.0
// Memory between two pages that nobody may touch: an access past its end, or
// before its start, ends the test where it happens, in any kind of build.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/range.h"

namespace flashacl::testing {

class FencedBytes {
 public:
  enum class Side : uint8_t { kEnd, kStart };  // which of its ends is exact

  // Filled with 0xFF: NaN in every float type.
  explicit FencedBytes(int64_t bytes, Side side = Side::kEnd) : bytes_(bytes) {
    const int64_t page = sysconf(_SC_PAGESIZE);
    const int64_t room = RoundUp(bytes > 0 ? bytes : 1, page);
    mapped_ = static_cast<size_t>(room + 2 * page);
    void* const at =
        mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
      ADD_FAILURE() << "no memory for " << bytes << " fenced bytes";
      return;
    }
    map_ = static_cast<std::byte*>(at);
    EXPECT_EQ(mprotect(map_ + page, static_cast<size_t>(room),
                       PROT_READ | PROT_WRITE),
              0);
    data_ = map_ + page + (side == Side::kEnd ? room - bytes : 0);
    for (std::byte& one : span()) one = std::byte{0xFF};
  }
  FencedBytes(FencedBytes&& other) noexcept { *this = std::move(other); }
  FencedBytes& operator=(FencedBytes&& other) noexcept {
    std::swap(map_, other.map_);
    std::swap(mapped_, other.mapped_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~FencedBytes() {
    if (map_ != nullptr) munmap(map_, mapped_);
  }

  std::byte* data() const { return data_; }
  std::span<std::byte> span() const {
    return {data_, static_cast<size_t>(bytes_)};
  }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* map_ = nullptr;
  size_t mapped_ = 0;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace flashacl::testing
