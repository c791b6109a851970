// SPDX-License-Identifier: Apache-2.0
// Where the buffers of a scratch struct lie in a workspace: one line names a
// buffer, says whose it is and how large, and reserves it. A run asks for the
// struct of one worker, with every pointer set.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <string_view>
#include <vector>

#include "base/range.h"
#include "plan/workspace.h"

namespace flashacl::cpu {

// `Scratch` is a struct of pointers. Its fields that are no buffers are copied
// from the struct given first.
template <typename Scratch>
class ScratchLayout {
 public:
  ScratchLayout() = default;
  // For `count` structs.
  ScratchLayout(const Scratch& sizes, int64_t count)
      : sizes_(sizes), count_(count) {}

  // Reserves buffers of `size` elements each, next to each other, for every
  // struct, or for every `shared_by` of them.
  template <typename T>
  void Add(std::string_view name, std::initializer_list<T * Scratch::*> buffers,
           int64_t size, WorkspaceLayout& layout, int64_t shared_by = 1) {
    // Whole lines, so that no two workers write to one.
    constexpr int64_t kLine = WorkspaceLayout::kAlignmentBytes;
    constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
    constexpr int64_t kUnit = kLine / std::gcd(kLine, kBytes);
    const auto count = static_cast<int64_t>(buffers.size());
    const int64_t step = RoundUp(count * size, kUnit);
    const Region<T> region = layout.Reserve<T>(name, count_ / shared_by * step);
    int64_t first = 0;
    for (T* Scratch::*const buffer : buffers) {
      rows_.push_back({&Assign<T>, std::bit_cast<ptrdiff_t>(buffer),
                       region.offset_bytes + first * kBytes, step * kBytes,
                       shared_by, size * kBytes});
      first += size;
    }
  }

  // The struct of number `n`; buffers are in `workspace`.
  Scratch At(std::byte* workspace, int64_t n) const {
    Scratch scratch = sizes_;
    for (const Row& row : rows_) {
      row.assign(scratch, row.field,
                 workspace + row.offset_bytes + n / row.shared_by * row.step);
    }
    return scratch;
  }

  // The same with every buffer where `allocate(bytes)` says.
  template <typename Allocate>
  Scratch Apart(Allocate allocate) const {
    Scratch scratch = sizes_;
    for (const Row& row : rows_) {
      row.assign(scratch, row.field, allocate(row.bytes));
    }
    return scratch;
  }

  int64_t count() const { return count_; }

 private:
  struct Row {
    void (*assign)(Scratch&, ptrdiff_t field, std::byte* at);
    ptrdiff_t field;  // a pointer to the member, of whatever type it is
    int64_t offset_bytes;
    int64_t step;  // bytes to the next owner's
    int64_t shared_by;
    int64_t bytes;
  };

  template <typename T>
  static void Assign(Scratch& scratch, ptrdiff_t field, std::byte* at) {
    scratch.*std::bit_cast<T * Scratch::*>(field) = reinterpret_cast<T*>(at);
  }

  Scratch sizes_{};
  int64_t count_ = 0;
  std::vector<Row> rows_;
};

}  // namespace flashacl::cpu
