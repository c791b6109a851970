// SPDX-License-Identifier: Apache-2.0
// Named regions of one workspace. Reserved when planning, found when running;
// size and addresses come from the same object and cannot disagree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/range.h"

namespace flashacl {

// `count` elements of T at a fixed place in the workspace.
template <typename T>
struct Region {
  int64_t offset_bytes = 0;
  int64_t count = 0;

  std::span<T> In(std::byte* workspace) const {
    return {reinterpret_cast<T*>(workspace + offset_bytes),
            static_cast<size_t>(count)};
  }
};

class WorkspaceLayout {
 public:
  static constexpr int64_t kAlignmentBytes = 64;  // of every region

  struct Entry {
    std::string_view name;  // a string literal
    int64_t offset_bytes;
    int64_t bytes;

    bool operator==(const Entry&) const = default;
  };

  template <typename T>
  Region<T> Reserve(std::string_view name, int64_t count) {
    const Region<T> region{bytes_, count};
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    if (count > 0) entries_.push_back({name, bytes_, bytes});
    bytes_ = RoundUp(bytes_ + bytes, kAlignmentBytes);
    return region;
  }

  int64_t bytes() const { return bytes_; }
  std::span<const Entry> entries() const { return entries_; }
  bool operator==(const WorkspaceLayout&) const = default;

 private:
  std::vector<Entry> entries_;
  int64_t bytes_ = 0;
};

}  // namespace flashacl
