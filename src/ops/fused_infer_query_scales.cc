// SPDX-License-Identifier: Apache-2.0
// INT8 queries of latent decode, beside INT8 keys and values and a BFLOAT16
// rope that is not scaled:
//   s = scaleValue * (sq[row,head] * sk * (q . k) + qr . kr)
//   out = sv * sum p v / sum p
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/str.h"
#include "ops/fused_infer.h"

namespace flashacl::ops {
namespace {

using acl::Tensor;
using Call = FusedInferCall;

// What it has, and nothing else.
Status CheckPresent(const Call& call) {
  for (const int row : {Call::kDequantScaleQuery, Call::kKeyAntiquantScale,
                        Call::kValueAntiquantScale, Call::kQueryRope}) {
    if (call.has(row)) continue;
    return Contradiction("{}: absent, but needed with queryQuantMode 3",
                         call.name(row));
  }
  for (const int row :
       {Call::kKeyAntiquantOffset, Call::kValueAntiquantOffset,
        Call::kDeqScale1, Call::kQuantScale1, Call::kDeqScale2}) {
    if (!call.has(row)) continue;
    return Contradiction("{}: given with dequantScaleQuery", call.name(row));
  }
  return {};
}

Status CheckModes(const FusedInferArgs& args) {
  struct Mode {
    std::string_view name;
    int64_t given, expected;
  };
  const Mode modes[] = {
      {"queryQuantMode", args.queryQuantMode, 3},
      {"keyAntiquantMode", args.keyAntiquantMode, 0},
      {"valueAntiquantMode", args.valueAntiquantMode, 0},
  };
  for (const Mode& mode : modes) {
    if (mode.given == mode.expected) continue;
    return Contradiction("{}: {}, expected {} with dequantScaleQuery",
                         mode.name, mode.given, mode.expected);
  }
  return {};
}

// Query's axes but its channels; its heads are an axis of their own even where
// query's are folded.
Result<TensorSpec> RowScales(const Call& call) {
  constexpr int kRow = Call::kDequantScaleQuery;
  const Tensor& scale = call[kRow];
  const std::array<int, 4>& axes = call.layout.axes;
  // Channels are the last axis, or folded into it.
  const int rank = call.layout.rank - (call.layout.folded_heads ? 0 : 1);
  std::vector<int64_t> expected(static_cast<size_t>(rank));
  for (size_t axis = 0; axis < 3; ++axis) {
    if (axes[axis] == kOne) continue;
    expected[static_cast<size_t>(axes[axis])] = call.query.dims[axis];
  }
  if (!std::ranges::equal(scale.shape(), expected)) {
    return Contradiction("dequantScaleQuery: shape {}, expected [{}]",
                         ShapeText(scale), Join(expected, ", "));
  }
  return Strided(scale, {axes[0], axes[1], axes[2], kOne},
                 {call.query.dims[0], 1, 1, 1});
}

Status PlaceNumber(const Call& call, int row, Slot slot,
                   acl::Lowered& lowered) {
  const Tensor& scale = call[row];
  if (scale.dtype() != DType::kF32) {
    return Contradiction(
        "{}: data type {}, expected FLOAT with dequantScaleQuery",
        call.name(row), acl::TypeText(scale.acl_dtype));
  }
  if (scale.elements() != 1) {
    return Contradiction("{}: shape {}, expected one number", call.name(row),
                         ShapeText(scale));
  }
  lowered.problem[slot] = {.dtype = scale.dtype(), .dims = {1, 1, 1, 1}};
  lowered.Bind(call.arguments, row, slot);
  return {};
}

}  // namespace

Status LowerScaledQuery(const Call& call, acl::Lowered& lowered) {
  FLASHACL_RETURN_IF_ERROR(CheckPresent(call));
  FLASHACL_RETURN_IF_ERROR(CheckModes(call.fused));
  const Result<TensorSpec> scales = RowScales(call);
  if (!scales.ok()) return scales.status();
  lowered.problem[Slot::kQueryRowScale] = *scales;
  lowered.Bind(call.arguments, Call::kDequantScaleQuery, Slot::kQueryRowScale);
  FLASHACL_RETURN_IF_ERROR(
      PlaceNumber(call, Call::kKeyAntiquantScale, Slot::kKeyScale, lowered));
  return PlaceNumber(call, Call::kValueAntiquantScale, Slot::kValueScale,
                     lowered);
}

}  // namespace flashacl::ops
