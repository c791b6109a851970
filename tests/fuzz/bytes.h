// SPDX-License-Identifier: Apache-2.0
// A fuzzer's bytes as a stream of decisions; zeros when they run out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>

namespace flashacl::testing {

// Ends the run as a finding. In every build: tests of what must hold.
inline void Require(bool condition) {
  if (!condition) std::abort();
}

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool empty() const { return at_ >= size_; }

  uint8_t Next() { return at_ < size_ ? data_[at_++] : uint8_t{0}; }

  // In [0, count).
  size_t Below(size_t count) { return count == 0 ? 0 : Next() % count; }

  // Not when the bytes have run out, unless `count` is 1.
  bool OneIn(size_t count) { return Below(count) == count - 1; }

  // One of an array's elements.
  template <typename Array>
  auto& Pick(Array& of) {
    return of[Below(std::size(of))];
  }

  // Small numbers mostly; the edges of what can be said now and then.
  int64_t Number() {
    constexpr int64_t kEdges[] = {0,         1,           -1,
                                  2048,      1024,        2147483647,
                                  INT64_MAX, INT64_MIN,   int64_t{1} << 40,
                                  3072,      -2147483648, 16};
    const uint8_t choice = Next();
    if (choice >= 224) {
      return kEdges[static_cast<size_t>(choice) %
                    (sizeof(kEdges) / sizeof(kEdges[0]))];
    }
    return static_cast<int64_t>(choice % 64) - 8;
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

}  // namespace flashacl::testing
