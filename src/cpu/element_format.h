// SPDX-License-Identifier: Apache-2.0
// How the bytes of a row become numbers, and where rows are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "problem/tensor_spec.h"

namespace flashacl::cpu {

// The last axis of a tensor: elements `step` elements apart, of which each is a
// channel, or as many as NumbersOf says.
struct ElementFormat {
  DType dtype = DType::kNone;
  int64_t step = 1;
  int64_t element_bytes = 0;
  // Channels in blocks of so many, block_bytes apart; 0: none.
  int64_t channel_block = 0;
  int64_t block_bytes = 0;

  ElementFormat() = default;
  explicit ElementFormat(const TensorSpec& spec)
      : dtype(spec.dtype),
        step(spec.strides[3]),
        element_bytes(SizeOf(spec.dtype)),
        channel_block(spec.channel_block * NumbersOf(spec.dtype)),
        block_bytes(spec.block_stride * SizeOf(spec.dtype)) {}

  // Of so many channels that lie side by side.
  int64_t BytesOf(int64_t channels) const {
    const int64_t numbers = NumbersOf(dtype);
    // Not by a division of every row, of which most elements are one number.
    if (numbers == 1) return channels * element_bytes;
    return (channels + numbers - 1) / numbers * element_bytes;
  }

  bool operator==(const ElementFormat&) const = default;
};

// The rows of one sequence in a tensor.
struct TensorRows {
  ElementFormat format;
  std::byte* base = nullptr;  // of position 0 and head 0; null: no tensor
  int64_t row_bytes = 0;
  int64_t head_bytes = 0;

  // Null if there is no tensor.
  std::byte* At(int64_t position, int64_t head) const {
    return base == nullptr ? nullptr
                           : base + position * row_bytes + head * head_bytes;
  }
};

}  // namespace flashacl::cpu
