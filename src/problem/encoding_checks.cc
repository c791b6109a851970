// SPDX-License-Identifier: Apache-2.0
// Element types that go together, and the scales of those of 8 and 4 bits.
#include "problem/encoding_checks.h"

#include <algorithm>
#include <string_view>

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

constexpr std::string_view kNotQuantised = "what it scales is not i8 or i4x8";

struct Encoded {
  Slot rows, scale, offset;
  int64_t heads, dim;
  bool by_row = false;  // scales are a row's, in slots of their own
};

// Quantised rows have a scale and may have an offset; others have neither.
Status CheckEncoding(const AttentionProblem& problem, const Encoded& encoded) {
  const bool quantised = IsQuantised(problem[encoded.rows].dtype);
  FLASHACL_RETURN_IF_ERROR(
      Required(problem, encoded.scale, quantised && !encoded.by_row));
  for (Slot slot : {encoded.scale, encoded.offset}) {
    FLASHACL_RETURN_IF_ERROR(
        Forbidden(problem, slot, !quantised, kNotQuantised));
    FLASHACL_RETURN_IF_ERROR(
        CheckFactor(problem, slot, encoded.heads, encoded.dim));
  }
  return {};
}

// Scales and offsets by row: [sequence or page, row, kv_head]; any may repeat.
Status CheckRowFactor(const AttentionProblem& problem, const Needs& needs,
                      Slot slot) {
  const TensorSpec& spec = problem[slot];
  FLASHACL_RETURN_IF_ERROR(CheckDType(slot, spec, {DType::kF32}));
  const bool tensor_rows = spec.placement == Placement::kTensorRows;
  const bool in_pages = problem.kv.row_scales_in_pages;
  if (!tensor_rows || in_pages) {
    FLASHACL_RETURN_IF_ERROR(CheckStrided(slot, spec));
  }
  const TensorSpec& key = problem[Slot::kKey];
  const int64_t outer = in_pages ? key.dims[0] : needs.sequences;
  // Padding may move keys to any row.
  const int64_t rows = in_pages       ? problem.kv.page_rows
                       : !tensor_rows ? needs.columns
                       : problem.has(Slot::kKeyPadding)
                           ? std::max(key.dims[1], needs.key_end)
                           : needs.key_end;
  FLASHACL_RETURN_IF_ERROR(Reaches(slot, spec, 0, outer));
  FLASHACL_RETURN_IF_ERROR(Reaches(slot, spec, 1, rows));
  return Reaches(slot, spec, 2, problem.kv_heads);
}

struct RowFactors {
  Slot rows, scale, offset, channel_scale, channel_offset;
};

// Of quantised keys or values: in place of scales by channel.
Status CheckRowFactors(const AttentionProblem& problem, const Needs& needs,
                       const RowFactors& factors) {
  const bool scaled = problem.has(factors.scale);
  FLASHACL_RETURN_IF_ERROR(
      Forbidden(problem, factors.offset, !scaled, "there is no scale by row"));
  if (!scaled) return {};
  FLASHACL_RETURN_IF_ERROR(Forbidden(problem, factors.scale,
                                     !IsQuantised(problem[factors.rows].dtype),
                                     kNotQuantised));
  FLASHACL_RETURN_IF_ERROR(Forbidden(problem, factors.scale,
                                     problem.has(Slot::kWeightScale),
                                     "the query is i8"));
  for (Slot slot : {factors.channel_scale, factors.channel_offset}) {
    FLASHACL_RETURN_IF_ERROR(
        Forbidden(problem, slot, true, "there are scales by row"));
  }
  for (Slot slot : {factors.scale, factors.offset}) {
    if (!problem.has(slot)) continue;
    FLASHACL_RETURN_IF_ERROR(CheckRowFactor(problem, needs, slot));
  }
  return {};
}

// An i8 query has scales by row, or a weight scale, which is [1].
Status CheckQueryScales(const AttentionProblem& problem) {
  const bool int8 = problem[Slot::kQuery].dtype == DType::kI8;
  const bool by_row = problem.has(Slot::kQueryRowScale);
  for (const Slot slot : {Slot::kQueryRowScale, Slot::kWeightScale}) {
    FLASHACL_RETURN_IF_ERROR(
        Forbidden(problem, slot, !int8, "the query is not i8"));
  }
  FLASHACL_RETURN_IF_ERROR(
      Required(problem, Slot::kWeightScale, int8 && !by_row));
  FLASHACL_RETURN_IF_ERROR(Forbidden(problem, Slot::kWeightScale, by_row,
                                     "the query has scales by row"));
  if (by_row) {
    return CheckDType(Slot::kQueryRowScale, problem[Slot::kQueryRowScale],
                      {DType::kF32});
  }
  const TensorSpec& spec = problem[Slot::kWeightScale];
  if (!spec.present()) return {};
  FLASHACL_RETURN_IF_ERROR(CheckFloat(Slot::kWeightScale, spec));
  return Reaches(Slot::kWeightScale, spec, 0, 1);
}

// As the query's; beside one with scales by row, of any type of floats.
Status CheckRopes(const AttentionProblem& problem) {
  const bool by_row = problem.has(Slot::kQueryRowScale);
  const Slot like = by_row ? Slot::kQueryRope : Slot::kQuery;
  for (Slot slot : {Slot::kQueryRope, Slot::kKeyRope}) {
    if (problem.has(slot) && problem[slot].dtype != problem[like].dtype) {
      return Invalid("{}: dtype {}, expected {} as the {}", Name(slot),
                     Name(problem[slot].dtype), Name(problem[like].dtype),
                     Name(like));
    }
  }
  return {};
}

}  // namespace

Status CheckDTypes(const AttentionProblem& problem) {
  FLASHACL_RETURN_IF_ERROR(CheckQueryScales(problem));
  const DType query = problem[Slot::kQuery].dtype;
  const DType key = problem[Slot::kKey].dtype;
  const bool int4 = key == DType::kI4x8 && query != DType::kI8;
  if (key != query && key != DType::kI8 && !int4) {
    return Invalid("key: dtype {}, expected {} as the query or i8{}", Name(key),
                   Name(query), query == DType::kI8 ? "" : ", or i4x8");
  }
  if (problem.has(Slot::kValue) && problem[Slot::kValue].dtype != key) {
    return Invalid("value: dtype {}, expected {} as the key",
                   Name(problem[Slot::kValue].dtype), Name(key));
  }
  FLASHACL_RETURN_IF_ERROR(CheckRopes(problem));
  FLASHACL_RETURN_IF_ERROR(CheckEncoding(
      problem, {Slot::kKey, Slot::kKeyScale, Slot::kKeyOffset, problem.kv_heads,
                problem.qk_dim, problem.has(Slot::kKeyRowScale)}));
  FLASHACL_RETURN_IF_ERROR(CheckEncoding(
      problem,
      {Slot::kValue, Slot::kValueScale, Slot::kValueOffset, problem.kv_heads,
       problem.v_dim, problem.has(Slot::kValueRowScale)}));
  return CheckEncoding(problem, {Slot::kOut, Slot::kOutScale, Slot::kOutOffset,
                                 problem.heads, problem.v_dim});
}

Status CheckRowScales(const AttentionProblem& problem, const Needs& needs) {
  if (problem.kv.row_scales_in_pages &&
      problem.kv.rows != KvSource::Rows::kPaged) {
    return Contradiction("row scales: in pages, but keys are not");
  }
  FLASHACL_RETURN_IF_ERROR(
      CheckRowFactors(problem, needs,
                      {Slot::kKey, Slot::kKeyRowScale, Slot::kKeyRowOffset,
                       Slot::kKeyScale, Slot::kKeyOffset}));
  return CheckRowFactors(
      problem, needs,
      {Slot::kValue, Slot::kValueRowScale, Slot::kValueRowOffset,
       Slot::kValueScale, Slot::kValueOffset});
}

}  // namespace flashacl
