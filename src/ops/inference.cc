// SPDX-License-Identifier: Apache-2.0
// Heads, lengths and extents of inference.
#include "ops/inference.h"

#include <algorithm>

#include "acl/arguments.h"

namespace flashacl::ops {

bool StartsWith(const char* text, std::string_view prefix) {
  for (const char expected : prefix) {
    if (*text++ != expected) return false;
  }
  return true;
}

bool Equals(const char* text, std::string_view whole) {
  return StartsWith(text, whole) && text[whole.size()] == '\0';
}

Result<int64_t> KeyHeads(int64_t num_heads, int64_t num_key_value_heads) {
  const int64_t kv_heads =
      num_key_value_heads == 0 ? num_heads : num_key_value_heads;
  if (num_heads > kMostHeads) {
    return Contradiction("numHeads: {}, expected at most {}", num_heads,
                         kMostHeads);
  }
  if (kv_heads < 0 || num_heads % kv_heads != 0) {
    return Contradiction(
        "numKeyValueHeads: {} does not divide numHeads {} evenly", kv_heads,
        num_heads);
  }
  if (num_heads / kv_heads > kMostGroup) {
    return Contradiction(
        "numKeyValueHeads: {} query heads share {} key heads, expected at most "
        "{} to one",
        num_heads, kv_heads, kMostGroup);
  }
  return kv_heads;
}

Result<std::vector<int64_t>> ReadLengths(std::string_view name,
                                         const aclIntArray* array,
                                         int64_t sequences) {
  Result<std::vector<int64_t>> lengths = acl::ReadArray(name, array);
  if (!lengths.ok() || lengths->empty()) return lengths;
  const auto given = static_cast<int64_t>(lengths->size());
  if (given != 1 && given < sequences) {
    return Contradiction("{}: {} numbers for {} sequences, expected 1 or {}",
                         name, given, sequences, sequences);
  }
  lengths->resize(static_cast<size_t>(sequences), lengths->front());
  return lengths;
}

Status CheckExtents(std::string_view name, const TensorSpec& spec,
                    const Expected& expected) {
  struct Axis {
    std::string_view what;
    int64_t expected;
  };
  const Axis axes[] = {{"sequences", expected.sequences},
                       {"rows", expected.rows},
                       {"heads", expected.heads},
                       {"channels per head", expected.dim}};
  for (size_t axis = 0; axis < 4; ++axis) {
    const int64_t wanted = axes[axis].expected;
    if (wanted < 0 || spec.dims[axis] == wanted) continue;
    return Contradiction("{}: {} {}, expected {}", name, spec.dims[axis],
                         axes[axis].what, wanted);
  }
  return {};
}

bool SameShape(const acl::Tensor& a, const acl::Tensor& b) {
  return std::ranges::equal(a.shape(), b.shape());
}

}  // namespace flashacl::ops
