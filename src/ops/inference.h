// SPDX-License-Identifier: Apache-2.0
// What prefill and decode are told alike, and the limits both documents set.
// Errors are kContradiction: one operator's 561103, the other's 561002.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "acl/tensor.h"
#include "aclnn/acl_meta.h"
#include "base/status.h"
#include "problem/tensor_spec.h"

namespace flashacl::ops {

inline constexpr int64_t kMostHeads = 256;
inline constexpr int64_t kMostGroup = 64;  // query heads that share a kv head
inline constexpr int64_t kMostDim = 512;
inline constexpr int64_t kMostSequences = 65536;

// Compare without reading behind the first difference: callers' layout strings
// are not always terminated.
bool StartsWith(const char* text, std::string_view prefix);
bool Equals(const char* text, std::string_view whole);

// How many kv heads there are; numKeyValueHeads 0 means one per query head.
// numHeads is positive.
Result<int64_t> KeyHeads(int64_t num_heads, int64_t num_key_value_heads);

// An array of lengths with one number per sequence: one is everybody's, more
// than there are sequences are ignored. Empty if the caller passed none.
Result<std::vector<int64_t>> ReadLengths(std::string_view name,
                                         const aclIntArray* array,
                                         int64_t sequences);

// The shape a tensor must have where it has `heads` heads of `dim` channels;
// -1 leaves the extent free. For tensors in canonical order.
struct Expected {
  int64_t sequences = -1;
  int64_t rows = -1;
  int64_t heads = -1;
  int64_t dim = -1;
};
Status CheckExtents(std::string_view name, const TensorSpec& spec,
                    const Expected& expected);

bool SameShape(const acl::Tensor& a, const acl::Tensor& b);

}  // namespace flashacl::ops
