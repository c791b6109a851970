// SPDX-License-Identifier: Apache-2.0
// From the caller's layout to the house's: a layout is nothing but the order of
// axes, and strides can say any order.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "acl/tensor.h"
#include "base/status.h"
#include "problem/tensor_spec.h"

namespace flashacl::ops {

// Which axis of the caller's tensor is which canonical one. kOne: the tensor
// has no such axis; it has one entry there, repeated if the problem has more.
inline constexpr int kOne = -1;

// Canonical axis n of [sequence, row, head, channel] is axis axes[n].
struct Layout {
  std::string_view name;
  int rank;
  std::array<int, 4> axes;
  bool folded_heads;  // the last axis is head * channel: BSH, SBH, SH
};

inline constexpr Layout kBsh{"BSH", 3, {0, 1, 2, 2}, true};
inline constexpr Layout kSbh{"SBH", 3, {1, 0, 2, 2}, true};
inline constexpr Layout kBsnd{"BSND", 4, {0, 1, 2, 3}, false};
inline constexpr Layout kBnsd{"BNSD", 4, {0, 2, 1, 3}, false};
inline constexpr Layout kNsd{"NSD", 3, {kOne, 1, 0, 2}, false};
inline constexpr Layout kTnd{"TND", 3, {kOne, 0, 1, 2}, false};
inline constexpr Layout kNtd{"NTD", 3, {kOne, 1, 0, 2}, false};
inline constexpr Layout kSh{"SH", 2, {kOne, 0, 1, 1}, true};

// Extents and strides of a tensor in canonical order. With folded heads the
// last axis is cut into `heads` parts, which must divide it. An axis that is
// kOne gets `sequences` entries at stride 0. The tensor's rank must be the
// layout's; check first.
TensorSpec Canonical(const acl::Tensor& tensor, const Layout& layout,
                     int64_t heads, int64_t sequences);

// A tensor of any rank as the canonical dims given by `axes` (kOne: extent
// `repeat[n]` at stride 0). For masks, biases and the like.
TensorSpec Strided(const acl::Tensor& tensor, const std::array<int, 4>& axes,
                   const std::array<int64_t, 4>& repeat);

// kInvalidArgument, with the argument's name, unless the rank is the layout's
// and folded heads divide the last axis.
Status CheckRank(std::string_view name, const acl::Tensor& tensor,
                 const Layout& layout, int64_t heads);

}  // namespace flashacl::ops
