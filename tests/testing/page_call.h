// SPDX-License-Identifier: Apache-2.0
// Calls of aclnnScatterPaKvCache and aclnnGatherPaKvCache, and where a row's
// elements are in pages, written down a second time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "tests/testing/elementwise_call.h"
#include "tests/testing/random.h"

namespace flashacl::testing::page {

using Text = std::optional<std::string>;
using Numbers = std::optional<std::vector<int64_t>>;

struct ScatterCall {
  const ElementTensor* key = nullptr;
  const ElementTensor* key_cache = nullptr;
  const ElementTensor* slots = nullptr;
  const ElementTensor* value = nullptr;
  const ElementTensor* value_cache = nullptr;
  Text cache_mode = "Norm";
  Text scatter_mode = "None";
  Numbers strides = {};
  Numbers offsets = {};

  operator ElementwiseCall() const {  // NOLINT: that is what it is
    return {.name = "aclnnScatterPaKvCache",
            .tensors = {key, key_cache, slots, value, value_cache, nullptr,
                        nullptr, nullptr},
            .arrays = {strides, offsets},
            .texts = {cache_mode, scatter_mode}};
  }
  ::testing::AssertionResult Run() const {
    return ElementwiseCall(*this).Run();
  }
};

struct GatherCall {
  const ElementTensor* key_cache = nullptr;
  const ElementTensor* value_cache = nullptr;
  const ElementTensor* tables = nullptr;
  const ElementTensor* lengths = nullptr;
  const ElementTensor* key = nullptr;
  const ElementTensor* value = nullptr;
  const ElementTensor* offsets = nullptr;
  Text cache_mode = "Norm";
  bool cumulative = false;

  operator ElementwiseCall() const {  // NOLINT: that is what it is
    return {.name = "aclnnGatherPaKvCache",
            .tensors = {key_cache, value_cache, tables, lengths, key, value,
                        offsets},
            .integers = {cumulative ? 1 : 0},
            .texts = {cache_mode}};
  }
  ::testing::AssertionResult Run() const {
    return ElementwiseCall(*this).Run();
  }
};

// Rows of keys or of values, and their cache.
struct Pages {
  enum class Kind : uint8_t { kRows, kHeads, kNz, kNzByHeads };

  Kind kind = Kind::kRows;
  aclDataType type = ACL_FLOAT16;
  int64_t blocks = 1, block_rows = 1, heads = 1, channels = 1;

  bool nz() const { return kind == Kind::kNz || kind == Kind::kNzByHeads; }
  int64_t bytes() const { return static_cast<int64_t>(aclDataTypeSize(type)); }
  int64_t rows() const { return blocks * block_rows; }

  std::vector<int64_t> CacheDims() const {
    const int64_t u = 32 / bytes();
    switch (kind) {
      case Kind::kRows:
        return {blocks, block_rows, heads, channels};
      case Kind::kHeads:
        return {blocks, heads, block_rows, channels};
      case Kind::kNz:
        return {blocks, heads * channels / u, block_rows, u};
      default:
        return {blocks, heads, channels / u, block_rows, u};
    }
  }

  // Where channel c of head h of a row is, in order of the cache's shape.
  int64_t At(int64_t row, int64_t h, int64_t c) const {
    const int64_t block = row / block_rows, r = row % block_rows;
    if (kind == Kind::kRows) {
      return ((block * block_rows + r) * heads + h) * channels + c;
    }
    if (kind == Kind::kHeads) {
      return ((block * heads + h) * block_rows + r) * channels + c;
    }
    const int64_t u = 32 / bytes(), x = h * channels + c;
    return ((block * (heads * channels / u) + x / u) * block_rows + r) * u +
           x % u;
  }
};

inline void FillBits(const ElementTensor& tensor, Random& random) {
  const auto bytes = static_cast<int64_t>(aclDataTypeSize(tensor.form().type));
  for (int64_t n = 0; n < tensor.count(); ++n) {
    for (int64_t b = 0; b < bytes; ++b) {
      tensor.at(n)[b] = static_cast<std::byte>(random.Within(0, 255));
    }
  }
}

inline void SetInteger(const ElementTensor& tensor, int64_t n, int64_t value) {
  if (tensor.form().type == ACL_INT64) {
    std::memcpy(tensor.at(n), &value, sizeof(value));
  } else {
    const auto narrow = static_cast<int32_t>(value);
    std::memcpy(tensor.at(n), &narrow, sizeof(narrow));
  }
}

inline void SetIntegers(const ElementTensor& tensor,
                        const std::vector<int64_t>& values) {
  for (size_t n = 0; n < values.size(); ++n) {
    SetInteger(tensor, static_cast<int64_t>(n), values[n]);
  }
}

// What a tensor should hold after a call.
class Expected {
 public:
  explicit Expected(const ElementTensor& tensor)
      : tensor_(tensor), image_(tensor.Image()) {}

  // Element n of the tensor's becomes that at `from`.
  void Copy(int64_t n, const std::byte* from) {
    const auto bytes = aclDataTypeSize(tensor_.form().type);
    std::memcpy(image_.data() + (tensor_.at(n) - tensor_.data()), from, bytes);
  }
  bool Holds() const { return tensor_.Image() == image_; }

 private:
  const ElementTensor& tensor_;
  std::vector<std::byte> image_;
};

// Pages of one of the kinds that are a few elements large.
inline Pages RandomPages(Random& random,
                         std::initializer_list<Pages::Kind> kinds) {
  Pages pages;
  pages.kind = OneOf(random, kinds);
  pages.type =
      OneOf(random, {ACL_FLOAT16, ACL_BF16, ACL_INT8, ACL_UINT8, ACL_INT16,
                     ACL_UINT16, ACL_BOOL, ACL_FLOAT8_E4M3FN, ACL_HIFLOAT8});
  pages.blocks = random.Within(1, 6);
  pages.block_rows = random.OneIn(3) ? 16 : random.Within(1, 9);
  pages.heads = random.Within(1, 4);
  pages.channels = pages.nz() ? 32 / pages.bytes() * random.Within(1, 5)
                              : Sized(random, 1, 70);
  return pages;
}

// Values beside these keys: as many heads, other channels.
inline Pages ValuesBeside(const Pages& keys, Random& random) {
  Pages values = keys;
  if (keys.nz() && keys.type == ACL_INT8 && random.OneIn(2)) {
    values.type = OneOf(random, {ACL_FLOAT16, ACL_BF16});
  }
  values.channels = keys.nz() ? 32 / values.bytes() * random.Within(1, 5)
                              : Sized(random, 1, 70);
  return values;
}

}  // namespace flashacl::testing::page
