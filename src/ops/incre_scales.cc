// SPDX-License-Identifier: Apache-2.0
// Antiquant tensors hold what is the keys' and what is the values'; quantScale2
// and its offset make the result one of 8 bits.
#include "ops/incre_scales.h"

#include "ops/inference_factors.h"

namespace flashacl::ops {
namespace {

using acl::Tensor;

Status CheckKeyScales(const Incre& incre) {
  const bool int8 = incre.key_type() == DType::kI8;
  FLASHACL_RETURN_IF_ERROR(CheckPair(incre.arguments, Incre::kAntiquantScale,
                                     Incre::kAntiquantOffset, false));
  if (int8 != incre.has(Incre::kAntiquantScale)) {
    return int8 ? Contradiction("antiquantScale: absent, but key is INT8")
                : Contradiction("antiquantScale: given, but key is not INT8");
  }
  if (!int8) return {};
  if (incre[Incre::kAntiquantScale].dtype() != incre[Incre::kQuery].dtype()) {
    return Contradiction("antiquantScale: data type {}, expected query's {}",
                         acl::TypeText(incre[Incre::kAntiquantScale].acl_dtype),
                         acl::TypeText(incre[Incre::kQuery].acl_dtype));
  }
  for (const int row : {Incre::kAntiquantScale, Incre::kAntiquantOffset}) {
    if (!incre.has(row) || incre[row].dims[0] == 2) continue;
    return Contradiction("{}: shape {}, expected a first axis of 2",
                         incre.name(row), ShapeText(incre[row]));
  }
  return {};
}

Status CheckQuantisation(const Incre& incre) {
  for (const int row :
       {Incre::kDequantScale1, Incre::kQuantScale1, Incre::kDequantScale2}) {
    if (!incre.has(row)) continue;
    return Contradiction("{}: given, but query is not INT8", incre.name(row));
  }
  return CheckOutScales(incre.arguments, {.scale = Incre::kQuantScale2,
                                          .offset = Incre::kQuantOffset2,
                                          .query = Incre::kQuery,
                                          .out = Incre::kOut});
}

// Where a factor's first element is in its tensor: index 0 of an antiquant
// tensor is the keys', index 1 the values'.
struct Factor {
  int row;
  Slot slot;
  int64_t index;  // -1: the tensor has no such axis
};

}  // namespace

Status CheckScales(const Incre& incre) {
  FLASHACL_RETURN_IF_ERROR(CheckKeyScales(incre));
  return CheckQuantisation(incre);
}

Status PlaceScales(const Incre& incre, acl::Lowered& lowered) {
  static constexpr Factor kFactors[] = {
      {Incre::kAntiquantScale, Slot::kKeyScale, 0},
      {Incre::kAntiquantScale, Slot::kValueScale, 1},
      {Incre::kAntiquantOffset, Slot::kKeyOffset, 0},
      {Incre::kAntiquantOffset, Slot::kValueOffset, 1},
      {Incre::kQuantScale2, Slot::kOutScale, -1},
      {Incre::kQuantOffset2, Slot::kOutOffset, -1},
  };
  for (const Factor& factor : kFactors) {
    if (!incre.has(factor.row)) continue;
    const Tensor& tensor = incre[factor.row];
    const bool of_keys = factor.index >= 0;
    Result<TensorSpec> spec =
        FactorSpec(incre.name(factor.row), tensor,
                   {.first_axis = of_keys ? size_t{1} : size_t{0},
                    .heads = of_keys ? incre.kv_heads : incre.args.numHeads,
                    .dim = incre.query.dims[3]});
    if (!spec.ok()) return spec.status();
    lowered.problem[factor.slot] = *spec;
    lowered.Bind(incre.arguments, factor.row, factor.slot,
                 of_keys ? factor.index * tensor.strides[0] : 0);
  }
  return {};
}

}  // namespace flashacl::ops
