// SPDX-License-Identifier: Apache-2.0
// Giving tensors memory, and looking at it again.
#include "tests/fuzz/call_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/random.h"
#include "tests/testing/device_bytes.h"

namespace flashacl::testing {
namespace {

// More than tensors of small calls have, less than compressed masks.
constexpr int64_t kMaxBytes = 1 << 16;
constexpr int64_t kMaxMaskBytes = int64_t{3072} * 2048;

// What large inputs share: they are compressed masks, which nobody reads.
std::byte* SharedZeros(int64_t bytes) {
  static const FencedBytes zeros = [] {
    FencedBytes memory(kMaxMaskBytes);
    std::ranges::fill(memory.span(), std::byte{0});
    return memory;
  }();
  return zeros.data() + (kMaxMaskBytes - bytes);
}

std::vector<uint8_t> Anything(int64_t bytes, uint8_t value) {
  std::vector<uint8_t> contents(static_cast<size_t>(bytes));
  for (uint8_t& one : contents) {
    one = value;
    value = static_cast<uint8_t>(value * 5 + 1);
  }
  return contents;
}

// True for the bytes that are an element's.
std::vector<bool> ElementBytes(const TensorArgument& tensor, size_t extent) {
  std::vector<bool> is_element(extent);
  const auto size = static_cast<int64_t>(aclDataTypeSize(tensor.type));
  std::vector<int64_t> index(tensor.dims.size());
  for (;;) {
    int64_t at = tensor.offset;
    int64_t dense = 1;
    for (size_t axis = index.size(); axis-- > 0;) {
      at +=
          index[axis] * (tensor.strides.empty() ? dense : tensor.strides[axis]);
      dense *= tensor.dims[axis];
    }
    for (int64_t n = 0; n < size; ++n) {
      is_element[static_cast<size_t>(at * size + n)] = true;
    }
    size_t axis = index.size();
    while (axis > 0 && ++index[axis - 1] == tensor.dims[axis - 1]) {
      index[--axis] = 0;
    }
    if (axis == 0) return is_element;
  }
}

}  // namespace

CallMemory::CallMemory(Bytes& bytes, OperatorCall& call) : call_(call) {
  memory_.reserve(call.tensors.size());
  for (size_t n = 0; n < call.tensors.size(); ++n) {
    Give(bytes, call.tensors[n], call.IsOutput(n));
  }
  Remember();
}

void CallMemory::Give(Bytes& bytes, TensorArgument& tensor, bool output) {
  const int64_t extent = tensor.ExtentBytes();
  const bool empty = std::ranges::count(tensor.dims, 0) > 0;
  if (tensor.present && extent == 0 && !empty) complete_ = false;
  const bool large = extent > kMaxBytes;
  if (extent > kMaxMaskBytes || (large && output)) complete_ = false;
  const auto side = static_cast<FencedBytes::Side>(bytes.Below(2));
  memory_.emplace_back(complete_ && !large ? extent : 0, side);
  tensor.data = memory_.back().data();
  if (!complete_ || extent == 0) return;
  if (large) {
    tensor.data = SharedZeros(extent);
  } else if (!output) {
    const uint8_t seed = bytes.Next();
    Random random(seed);
    const std::vector<uint8_t> contents =
        seed % 4 == 3 ? Anything(extent, seed) : Contents(tensor, random);
    std::memcpy(tensor.data, contents.data(), contents.size());
  }
}

bool CallMemory::OutputsOverlap() const {
  for (size_t n = 0; n < memory_.size(); ++n) {
    const TensorArgument& tensor = call_.tensors[n];
    if (!call_.IsOutput(n) || memory_[n].span().empty()) continue;
    if (tensor.strides.empty()) continue;
    const auto is_element = ElementBytes(tensor, memory_[n].span().size());
    int64_t bytes = static_cast<int64_t>(aclDataTypeSize(tensor.type));
    for (const int64_t dim : tensor.dims) bytes *= dim;
    if (std::ranges::count(is_element, true) < bytes) return true;
  }
  return false;
}

void CallMemory::Remember() {
  before_.clear();
  for (const FencedBytes& memory : memory_) {
    before_.emplace_back(memory.span().begin(), memory.span().end());
  }
}

void CallMemory::RequireUntouched() const {
  for (size_t n = 0; n < memory_.size(); ++n) {
    Require(std::ranges::equal(memory_[n].span(), before_[n]));
  }
}

void CallMemory::RequireOnlyOutputsTouched() const {
  for (size_t n = 0; n < memory_.size(); ++n) {
    const auto now = memory_[n].span();
    if (std::ranges::equal(now, before_[n])) continue;
    Require(call_.IsOutput(n));
    const std::vector<bool> is_element =
        ElementBytes(call_.tensors[n], now.size());
    for (size_t at = 0; at < now.size(); ++at) {
      Require(is_element[at] || now[at] == before_[n][at]);
    }
  }
}

}  // namespace flashacl::testing
