// SPDX-License-Identifier: Apache-2.0
// deqScale1 brings q.k back to numbers, quantScale1 the weights to 8 bits,
// deqScale2 their product with v back. Antiquant tensors hold what is the keys'
// and what is the values'. quantScale2 and its offset make the result one of 8
// bits.
#include "ops/inference_scales.h"

#include <array>
#include <utility>

namespace flashacl::ops {
namespace {

using acl::Tensor;
using Call = InferenceCall;

// An offset needs a scale of its type and shape, or at least of as many
// elements.
Status CheckPair(const InferenceCall& call, int scale, int offset,
                 bool same_shape) {
  if (!call.has(offset)) return {};
  if (!call.has(scale)) {
    return Contradiction("{}: given without {}", call.name(offset),
                         call.name(scale));
  }
  const bool alike = same_shape
                         ? SameShape(call[scale], call[offset])
                         : call[scale].elements() == call[offset].elements();
  if (alike && call[scale].dtype() == call[offset].dtype()) return {};
  return Contradiction("{}: {} of shape {} does not match {}: {} of shape {}",
                       call.name(offset), acl::TypeText(call[offset].acl_dtype),
                       ShapeText(call[offset]), call.name(scale),
                       acl::TypeText(call[scale].acl_dtype),
                       ShapeText(call[scale]));
}

// Keys of 8 bits below queries of more.
Status CheckKeyScales(const InferenceCall& call) {
  const bool int8 =
      !call.int8() && call.arguments.list(Call::kKey)[0]->dtype() == DType::kI8;
  FLASHACL_RETURN_IF_ERROR(
      CheckPair(call, Call::kAntiquantScale, Call::kAntiquantOffset, false));
  if (int8 != call.has(Call::kAntiquantScale)) {
    return int8 ? Contradiction("antiquantScale: absent, but key is INT8")
                : Contradiction("antiquantScale: given, but key is not INT8");
  }
  if (!int8) return {};
  if (call[Call::kAntiquantScale].dtype() != call[Call::kQuery].dtype()) {
    return Contradiction("antiquantScale: data type {}, expected query's {}",
                         acl::TypeText(call[Call::kAntiquantScale].acl_dtype),
                         acl::TypeText(call[Call::kQuery].acl_dtype));
  }
  for (const int row : {Call::kAntiquantScale, Call::kAntiquantOffset}) {
    if (!call.has(row) || call[row].dims[0] == 2) continue;
    return Contradiction("{}: shape {}, expected a first axis of 2",
                         call.name(row), ShapeText(call[row]));
  }
  return {};
}

// A factor of every channel, and where its first element is in its tensor:
// index 0 of an antiquant tensor is the keys', index 1 the values'.
struct Factor {
  int row;
  Slot slot;
  int64_t index;  // -1: the tensor has no such axis
};

constexpr Factor kFactors[] = {
    {Call::kAntiquantScale, Slot::kKeyScale, 0},
    {Call::kAntiquantScale, Slot::kValueScale, 1},
    {Call::kAntiquantOffset, Slot::kKeyOffset, 0},
    {Call::kAntiquantOffset, Slot::kValueOffset, 1},
    {Call::kQuantScale2, Slot::kOutScale, -1},
    {Call::kQuantOffset2, Slot::kOutOffset, -1},
};

// One number for all, in a tensor of its own.
constexpr std::pair<int, Slot> kNumbers[] = {
    {Call::kDeqScale1, Slot::kKeyScale},
    {Call::kQuantScale1, Slot::kWeightScale},
    {Call::kDeqScale2, Slot::kValueScale},
};

}  // namespace

// Inputs of 8 bits.
Status CheckInputScales(const InferenceCall& call) {
  for (const int row :
       {Call::kDeqScale1, Call::kQuantScale1, Call::kDeqScale2}) {
    if (call.has(row) != call.int8()) {
      return call.int8() ? Contradiction("{}: absent, but query is INT8",
                                         call.name(row))
                         : Contradiction("{}: given, but query is not INT8",
                                         call.name(row));
    }
    if (!call.int8() || call[row].elements() == 1) continue;
    return Contradiction("{}: shape {}, expected one number", call.name(row),
                         ShapeText(call[row]));
  }
  if (!call.int8()) return {};
  if (call[Call::kDeqScale1].dtype() != call[Call::kDeqScale2].dtype()) {
    return Contradiction("{}: data type {} does not match {}'s {}",
                         call.name(Call::kDeqScale2),
                         acl::TypeText(call[Call::kDeqScale2].acl_dtype),
                         call.name(Call::kDeqScale1),
                         acl::TypeText(call[Call::kDeqScale1].acl_dtype));
  }
  if (call.cache.max_columns > 0) return {};
  return Contradiction("key: shape {} has no keys, expected some with INT8",
                       ShapeText(*call.arguments.given(Call::kKey)));
}

// There is a scale just where the output is INT8, of BFLOAT16 only beside such
// a query.
Status CheckOutScales(const InferenceCall& call) {
  FLASHACL_RETURN_IF_ERROR(
      CheckPair(call, Call::kQuantScale2, Call::kQuantOffset2, true));
  if (call.int8_out() != call.has(Call::kQuantScale2)) {
    return call.int8_out()
               ? Contradiction("quantScale2: absent, but attentionOut is INT8")
               : Contradiction(
                     "quantScale2: given, but attentionOut is not INT8");
  }
  if (call.int8_out() && call[Call::kQuantScale2].dtype() == DType::kBf16 &&
      call[Call::kQuery].dtype() != DType::kBf16) {
    return Contradiction("quantScale2: data type BFLOAT16, but query is {}",
                         acl::TypeText(call[Call::kQuery].acl_dtype));
  }
  return {};
}

Result<TensorSpec> FactorSpec(std::string_view name, const acl::Tensor& tensor,
                              const Channels& channels) {
  std::array<size_t, acl::kMaxRank> axes{};
  size_t count = 0;
  for (size_t axis = channels.first_axis; axis < tensor.rank; ++axis) {
    if (tensor.dims[axis] != 1) axes[count++] = axis;
  }
  TensorSpec spec{.dtype = tensor.dtype(),
                  .dims = {channels.heads, channels.dim, 1, 1}};
  if (count == 0) return spec;
  if (count == 1 && tensor.dims[axes[0]] == channels.heads * channels.dim) {
    const int64_t stride = tensor.strides[axes[0]];
    spec.strides = {channels.dim * stride, stride, 0, 0};
    return spec;
  }
  if (count == 2 && tensor.dims[axes[0]] == channels.heads &&
      tensor.dims[axes[1]] == channels.dim) {
    spec.strides = {tensor.strides[axes[0]], tensor.strides[axes[1]], 0, 0};
    return spec;
  }
  return Contradiction(
      "{}: shape {}, expected one number or one for each of {} heads of {} "
      "channels",
      name, ShapeText(tensor), channels.heads, channels.dim);
}

Status CheckScales(const InferenceCall& call) {
  FLASHACL_RETURN_IF_ERROR(CheckKeyScales(call));
  FLASHACL_RETURN_IF_ERROR(CheckInputScales(call));
  return CheckOutScales(call);
}

Status PlaceScales(const InferenceCall& call, acl::Lowered& lowered) {
  for (const auto& [row, slot] : kNumbers) {
    if (!call.has(row)) continue;
    lowered.problem[slot] = {.dtype = call[row].dtype(), .dims = {1, 1, 1, 1}};
    lowered.Bind(call.arguments, row, slot);
  }
  for (const auto& [row, slot, index] : kFactors) {
    if (!call.has(row)) continue;
    const bool of_keys = index >= 0;
    const Result<TensorSpec> spec =
        FactorSpec(call.name(row), call[row],
                   {.first_axis = of_keys ? size_t{1} : size_t{0},
                    .heads = of_keys ? call.kv_heads : call.args.numHeads,
                    .dim = call.v_dim()});
    if (!spec.ok()) return spec.status();
    lowered.problem[slot] = *spec;
    lowered.Bind(call.arguments, row, slot,
                 of_keys ? index * call[row].strides[0] : 0);
  }
  return {};
}

}  // namespace flashacl::ops
