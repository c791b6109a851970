// SPDX-License-Identifier: Apache-2.0
// Scales of fused inference: of quantised keys and values in one tensor
// (antiquantScale, keys first) or in tensors of their own, by channel, head,
// token or page; of INT8 results and of inputs that are all INT8.
#include <algorithm>
#include <array>
#include <string_view>

#include "ops/fused_infer.h"
#include "ops/inference_lengths.h"
#include "ops/inference_scales.h"

namespace flashacl::ops {
namespace {

using acl::Tensor;
using Call = FusedInferCall;

enum ScaleMode : int64_t {
  kChannel = 0,  // or everything
  kToken = 1,
  kHead = 2,
  kTokenAndHead = 3,
  kPagedToken = 4,
  kPagedTokenAndHead = 5,
};

// One side: keys or values, and which scales and offsets are theirs.
struct Side {
  int scale, offset;  // rows of the table
  int64_t mode;
  std::string_view mode_name;
  int64_t half;  // of a combined tensor, where its first axis is; -1: separate
  int64_t dim;
  Slot channel_scale, channel_offset, row_scale, row_offset;

  bool combined() const { return half >= 0; }
  // The axes of a combined tensor after the first are those of a separate one.
  size_t first_axis() const { return combined() ? 1 : 0; }
  bool by_row() const { return mode != kChannel && mode != kHead; }
};

bool IsSeparate(const Call& call) {
  return call.has(Call::kKeyAntiquantScale) ||
         call.has(Call::kValueAntiquantScale);
}

std::array<Side, 2> SidesOf(const Call& call) {
  const bool separate = IsSeparate(call);
  const FusedInferArgs& args = call.fused;
  const auto row = [separate](int own) {
    return separate ? own : int{Call::kAntiquantScale};
  };
  const auto offset = [separate](int own) {
    return separate ? own : int{Call::kAntiquantOffset};
  };
  return {
      {{row(Call::kKeyAntiquantScale), offset(Call::kKeyAntiquantOffset),
        separate ? args.keyAntiquantMode : args.antiquantMode,
        separate ? "keyAntiquantMode" : "antiquantMode", separate ? -1 : 0,
        call.query.dims[3], Slot::kKeyScale, Slot::kKeyOffset,
        Slot::kKeyRowScale, Slot::kKeyRowOffset},
       {row(Call::kValueAntiquantScale), offset(Call::kValueAntiquantOffset),
        separate ? args.valueAntiquantMode : args.antiquantMode,
        separate ? "valueAntiquantMode" : "antiquantMode", separate ? -1 : 1,
        call.v_dim(), Slot::kValueScale, Slot::kValueOffset,
        Slot::kValueRowScale, Slot::kValueRowOffset}}};
}

bool HasQuantisedKeys(const Call& call) {
  return !call.int8() && IsQuantised(call.cache.key.dtype);
}

// Of keys as they are there must not be any.
Status CheckUnquantised(const Call& call) {
  for (const int row :
       {Call::kAntiquantScale, Call::kAntiquantOffset, Call::kKeyAntiquantScale,
        Call::kKeyAntiquantOffset, Call::kValueAntiquantScale,
        Call::kValueAntiquantOffset}) {
    if (!call.has(row)) continue;
    return Contradiction("{}: given, but key is not quantised", call.name(row));
  }
  const FusedInferArgs& args = call.fused;
  for (const auto& [name, mode] :
       {std::pair<std::string_view, int64_t>{"antiquantMode",
                                             args.antiquantMode},
        {"keyAntiquantMode", args.keyAntiquantMode},
        {"valueAntiquantMode", args.valueAntiquantMode}}) {
    if (mode == 0) continue;
    return Contradiction("{}: {}, expected 0, for key is not quantised", name,
                         mode);
  }
  return {};
}

// Both scales; both offsets or neither, each like its scale.
Status CheckPresent(const Call& call, const std::array<Side, 2>& sides) {
  for (const Side& side : sides) {
    if (!call.has(side.scale)) {
      return Contradiction("{}: absent, but key is quantised",
                           call.name(side.scale));
    }
  }
  if (call.has(sides[0].offset) != call.has(sides[1].offset)) {
    const bool key = call.has(sides[0].offset);
    return Contradiction("{}: given without {}",
                         call.name(sides[key ? 0 : 1].offset),
                         call.name(sides[key ? 1 : 0].offset));
  }
  for (const Side& side : sides) {
    if (!call.has(side.offset)) continue;
    const Tensor& scale = call[side.scale];
    const Tensor& offset = call[side.offset];
    if (SameShape(scale, offset) && scale.dtype() == offset.dtype()) continue;
    return Contradiction("{}: {} of shape {} does not match {}: {} of shape {}",
                         call.name(side.offset),
                         acl::TypeText(offset.acl_dtype), ShapeText(offset),
                         call.name(side.scale), acl::TypeText(scale.acl_dtype),
                         ShapeText(scale));
  }
  return {};
}

Status CheckMode(const Call& call, const Side& side) {
  const int64_t most = side.combined() ? kToken : kPagedTokenAndHead;
  if (side.mode < kChannel || side.mode > most) {
    return Contradiction("{}: {}, expected 0 to {}", side.mode_name, side.mode,
                         most);
  }
  const bool in_pages = side.mode >= kPagedToken;
  if (in_pages && !call.paged()) {
    return Contradiction("{}: {}, but keys are not in pages", side.mode_name,
                         side.mode);
  }
  if (call.int4() && (side.mode == kHead || in_pages)) {
    return Contradiction("{}: {} does not go with INT4 keys", side.mode_name,
                         side.mode);
  }
  if (side.by_row() && call.has(Call::kKeyPrefix)) {
    return Contradiction("{}: {} does not go with a shared prefix",
                         side.mode_name, side.mode);
  }
  const Tensor& scale = call[side.scale];
  const DType type = side.by_row() ? DType::kF32 : call[Call::kQuery].dtype();
  if (scale.dtype() == type) return {};
  return Contradiction("{}: data type {}, expected {} with {} {}",
                       call.name(side.scale), acl::TypeText(scale.acl_dtype),
                       side.by_row() ? "FLOAT" : "query's", side.mode_name,
                       side.mode);
}

Status CheckModes(const Call& call, const std::array<Side, 2>& sides) {
  for (const Side& side : sides) {
    FLASHACL_RETURN_IF_ERROR(CheckMode(call, side));
  }
  const auto& [key, value] = sides;
  if (key.combined()) return {};
  if (key.mode == kChannel && value.mode == kToken) return {};
  if (key.mode != value.mode) {
    return Contradiction(
        "valueAntiquantMode: {}, expected keyAntiquantMode's {}, or 1 beside 0",
        value.mode, key.mode);
  }
  if (SameShape(call[key.scale], call[value.scale]) || key.dim != value.dim) {
    return {};
  }
  return Contradiction("{}: shape {} does not match {}'s {}",
                       call.name(value.scale), ShapeText(call[value.scale]),
                       call.name(key.scale), ShapeText(call[key.scale]));
}

// One number, or one per channel or per head.
Result<TensorSpec> ChannelSpec(const Call& call, const Side& side, int row) {
  const Tensor& tensor = call[row];
  if (side.mode != kHead) {
    if (call.int4() && !side.combined() && tensor.elements() == 1) {
      return Contradiction(
          "{}: shape {}, expected a number per channel with INT4 keys",
          call.name(row), ShapeText(tensor));
    }
    if (side.combined() && (tensor.rank < 1 || tensor.dims[0] != 2)) {
      return Contradiction("{}: shape {}, expected a first axis of 2",
                           call.name(row), ShapeText(tensor));
    }
    return FactorSpec(call.name(row), tensor,
                      {side.first_axis(), call.kv_heads, side.dim});
  }
  if (tensor.rank != 1 || tensor.dims[0] != call.kv_heads) {
    return Contradiction("{}: shape {}, expected [{}], one number per head",
                         call.name(row), ShapeText(tensor), call.kv_heads);
  }
  TensorSpec spec{.dtype = tensor.dtype(),
                  .dims = {call.kv_heads, side.dim, 1, 1}};
  spec.strides[0] = tensor.strides[0];
  return spec;
}

// What the axes of a tensor with a number per row are: at least so long, or
// just so long.
struct Axes {
  int64_t outer, heads, rows;  // heads 0: there is no such axis
  bool pages;
};

Axes RowAxes(const Call& call, const Side& side) {
  const bool heads =
      side.mode == kTokenAndHead || side.mode == kPagedTokenAndHead;
  if (side.mode >= kPagedToken) {
    return {call.cache.key.dims[0], heads ? call.kv_heads : 0,
            call.args.blockSize, true};
  }
  return {call.count(), heads ? call.kv_heads : 0, call.mask_columns(), false};
}

Result<TensorSpec> RowSpec(const Call& call, const Side& side, int row) {
  const Tensor& tensor = call[row];
  const Axes axes = RowAxes(call, side);
  const size_t rank = axes.heads > 0 ? 3 : 2;
  // A token's may come after an axis of 1.
  size_t first = side.first_axis();
  if (side.mode == kToken && !side.combined() && tensor.rank == 3 &&
      tensor.dims[0] == 1) {
    first = 1;
  }
  bool fits = tensor.rank == first + rank && tensor.dims[first] == axes.outer;
  fits = fits && (!side.combined() || tensor.dims[0] == 2);
  fits = fits && (axes.heads == 0 || tensor.dims[first + 1] == axes.heads);
  const size_t last = first + rank - 1;
  fits = fits && (axes.pages ? tensor.dims[last] == axes.rows
                             : tensor.dims[last] >= axes.rows);
  if (!fits) {
    const std::string heads =
        axes.heads > 0 ? Str("{}, ", axes.heads) : std::string();
    return Contradiction("{}: shape {}, expected [{}{}, {}{}{}]",
                         call.name(row), ShapeText(tensor),
                         side.combined() ? "2, " : "", axes.outer, heads,
                         axes.rows, axes.pages ? "" : " or more");
  }
  const int outer = static_cast<int>(first);
  TensorSpec spec = Strided(
      tensor,
      {outer, static_cast<int>(last), rank == 3 ? outer + 1 : kOne, kOne},
      {1, 1, call.kv_heads, 1});
  // Tokens of padded tensors count from their start, padding and all.
  const bool own_rows =
      call.cache.source.rows == KvSource::Rows::kStrided && !call.packed();
  if (own_rows) spec.placement = Placement::kTensorRows;
  return spec;
}

Status PlaceSide(const Call& call, const Side& side, acl::Lowered& lowered) {
  const Slot scale = side.by_row() ? side.row_scale : side.channel_scale;
  const Slot offset = side.by_row() ? side.row_offset : side.channel_offset;
  for (const auto& [row, slot] :
       {std::pair{side.scale, scale}, std::pair{side.offset, offset}}) {
    if (!call.has(row)) continue;
    const Result<TensorSpec> spec =
        side.by_row() ? RowSpec(call, side, row) : ChannelSpec(call, side, row);
    if (!spec.ok()) return spec.status();
    lowered.problem[slot] = *spec;
    lowered.Bind(call.arguments, row, slot,
                 side.combined() ? side.half * call[row].strides[0] : 0);
  }
  if (side.mode >= kPagedToken) lowered.problem.kv.row_scales_in_pages = true;
  return {};
}

Status LowerKeyScales(const Call& call, acl::Lowered& lowered) {
  if (!HasQuantisedKeys(call)) return CheckUnquantised(call);
  if (call.roped())
    return Contradiction("queryRope: given with quantised keys");
  const std::array<Side, 2> sides = SidesOf(call);
  FLASHACL_RETURN_IF_ERROR(CheckPresent(call, sides));
  FLASHACL_RETURN_IF_ERROR(CheckModes(call, sides));
  for (const Side& side : sides) {
    FLASHACL_RETURN_IF_ERROR(PlaceSide(call, side, lowered));
  }
  return {};
}

// Of an INT8 query of a prompt; nobody else has any.
Status LowerInputScales(const Call& call, acl::Lowered& lowered) {
  FLASHACL_RETURN_IF_ERROR(CheckInputScales(call));
  for (const auto& [row, slot] :
       {std::pair{Call::kDeqScale1, Slot::kKeyScale},
        std::pair{Call::kQuantScale1, Slot::kWeightScale},
        std::pair{Call::kDeqScale2, Slot::kValueScale}}) {
    if (!call.has(row)) continue;
    lowered.problem[slot] = {.dtype = call[row].dtype(), .dims = {1, 1, 1, 1}};
    lowered.Bind(call.arguments, row, slot);
  }
  if (call.has(Call::kDequantScaleQuery)) {
    return Contradiction("dequantScaleQuery: given, but query is not INT8");
  }
  if (call.fused.queryQuantMode == 0) return {};
  return Contradiction("queryQuantMode: {}, expected 0, for query is not INT8",
                       call.fused.queryQuantMode);
}

bool IsDense(const Tensor& tensor) {
  int64_t step = 1;
  for (size_t axis = tensor.rank; axis-- > 0;) {
    if (tensor.dims[axis] != 1 && tensor.strides[axis] != step) return false;
    step *= tensor.dims[axis];
  }
  return true;
}

// A number per channel of all query heads, however its axes are cut.
Result<TensorSpec> OutFactor(const Call& call, int row) {
  const Tensor& tensor = call[row];
  const int64_t heads = call.args.numHeads;
  if (tensor.elements() == 1) {
    return FactorSpec(call.name(row), tensor, {0, heads, call.v_dim()});
  }
  const bool any_axes =
      !call.packed() && !call.Is(kNsd) && call.has_plain_results();
  if (!any_axes && tensor.rank != 2) {
    return Contradiction("{}: shape {}, expected [{}, {}] or one number",
                         call.name(row), ShapeText(tensor), heads,
                         call.v_dim());
  }
  if (any_axes && IsDense(tensor) &&
      tensor.elements() == heads * call.v_dim()) {
    return TensorSpec{.dtype = tensor.dtype(),
                      .dims = {heads, call.v_dim(), 1, 1},
                      .strides = {call.v_dim(), 1, 0, 0}};
  }
  return FactorSpec(call.name(row), tensor, {0, heads, call.v_dim()});
}

Status LowerOutScales(const Call& call, acl::Lowered& lowered) {
  FLASHACL_RETURN_IF_ERROR(CheckOutScales(call));
  for (const auto& [row, slot] :
       {std::pair{Call::kQuantScale2, Slot::kOutScale},
        std::pair{Call::kQuantOffset2, Slot::kOutOffset}}) {
    if (!call.has(row)) continue;
    const Result<TensorSpec> spec = OutFactor(call, row);
    if (!spec.ok()) return spec.status();
    lowered.problem[slot] = *spec;
    lowered.Bind(call.arguments, row, slot);
  }
  return {};
}

}  // namespace

Status LowerFusedScales(const Call& call, acl::Lowered& lowered) {
  if (call.query_scaled_by_row()) {
    FLASHACL_RETURN_IF_ERROR(LowerScaledQuery(call, lowered));
    return LowerOutScales(call, lowered);
  }
  FLASHACL_RETURN_IF_ERROR(LowerKeyScales(call, lowered));
  FLASHACL_RETURN_IF_ERROR(LowerInputScales(call, lowered));
  return LowerOutScales(call, lowered);
}

}  // namespace flashacl::ops
