// SPDX-License-Identifier: Apache-2.0
// Element types that go together, and the scales of those of 8 bits.
#include "problem/encoding_checks.h"

#include "problem/tensor_checks.h"

namespace flashacl {
namespace {

// A scale or an offset: [heads, channels], either of which may repeat. Where
// products are of integers, scales may be u64: an f32 in the hardware's dress.
Status CheckFactor(const AttentionProblem& problem, Slot slot, int64_t heads,
                   int64_t dim) {
  const TensorSpec& spec = problem[slot];
  if (!spec.present()) return {};
  const bool dressed = problem.has(Slot::kWeightScale) &&
                       (slot == Slot::kKeyScale || slot == Slot::kValueScale);
  if (!dressed || spec.dtype != DType::kU64) {
    FLASHACL_RETURN_IF_ERROR(CheckFloat(slot, spec));
  }
  FLASHACL_RETURN_IF_ERROR(CheckStrided(slot, spec));
  FLASHACL_RETURN_IF_ERROR(Reaches(slot, spec, 0, heads));
  return Reaches(slot, spec, 1, dim);
}

struct Encoded {
  Slot rows, scale, offset;
  int64_t heads, dim;
};

// 8-bit rows have a scale and may have an offset; others have neither.
Status CheckEncoding(const AttentionProblem& problem, const Encoded& encoded) {
  const bool int8 = problem[encoded.rows].dtype == DType::kI8;
  FLASHACL_RETURN_IF_ERROR(Required(problem, encoded.scale, int8));
  for (Slot slot : {encoded.scale, encoded.offset}) {
    FLASHACL_RETURN_IF_ERROR(
        Forbidden(problem, slot, !int8, "what it scales is not i8"));
    FLASHACL_RETURN_IF_ERROR(
        CheckFactor(problem, slot, encoded.heads, encoded.dim));
  }
  return {};
}

// [1]: there if and only if the query is i8.
Status CheckWeightScale(const AttentionProblem& problem) {
  const bool int8 = problem[Slot::kQuery].dtype == DType::kI8;
  const TensorSpec& spec = problem[Slot::kWeightScale];
  FLASHACL_RETURN_IF_ERROR(Required(problem, Slot::kWeightScale, int8));
  FLASHACL_RETURN_IF_ERROR(
      Forbidden(problem, Slot::kWeightScale, !int8, "the query is not i8"));
  if (!int8) return {};
  FLASHACL_RETURN_IF_ERROR(CheckFloat(Slot::kWeightScale, spec));
  return Reaches(Slot::kWeightScale, spec, 0, 1);
}

}  // namespace

Status CheckDTypes(const AttentionProblem& problem) {
  FLASHACL_RETURN_IF_ERROR(CheckWeightScale(problem));
  const DType query = problem[Slot::kQuery].dtype;
  const DType key = problem[Slot::kKey].dtype;
  if (key != query && key != DType::kI8) {
    return Invalid("key: dtype {}, expected {} as the query or i8", Name(key),
                   Name(query));
  }
  if (problem.has(Slot::kValue) && problem[Slot::kValue].dtype != key) {
    return Invalid("value: dtype {}, expected {} as the key",
                   Name(problem[Slot::kValue].dtype), Name(key));
  }
  for (Slot slot : {Slot::kQueryRope, Slot::kKeyRope}) {
    if (problem.has(slot) && problem[slot].dtype != query) {
      return Invalid("{}: dtype {}, expected {} as the query", Name(slot),
                     Name(problem[slot].dtype), Name(query));
    }
  }
  FLASHACL_RETURN_IF_ERROR(
      CheckEncoding(problem, {Slot::kKey, Slot::kKeyScale, Slot::kKeyOffset,
                              problem.kv_heads, problem.qk_dim}));
  FLASHACL_RETURN_IF_ERROR(CheckEncoding(
      problem, {Slot::kValue, Slot::kValueScale, Slot::kValueOffset,
                problem.kv_heads, problem.v_dim}));
  return CheckEncoding(problem, {Slot::kOut, Slot::kOutScale, Slot::kOutOffset,
                                 problem.heads, problem.v_dim});
}

}  // namespace flashacl
