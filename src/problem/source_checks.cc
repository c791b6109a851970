// SPDX-License-Identifier: Apache-2.0
// Where keys are beside the tensors that hold them.
#include "problem/source_checks.h"

namespace flashacl {
namespace {

using Rows = KvSource::Rows;

// Keys or values of the prefix: of the type of the others.
Status CheckPrefixRows(const AttentionProblem& problem, const Needs& needs,
                       Slot slot, Slot own) {
  const TensorSpec& spec = problem[slot];
  if (!spec.present()) return {};
  if (spec.dtype != problem[own].dtype) {
    return Invalid("{}: dtype {}, expected {} as the {}", Name(slot),
                   Name(spec.dtype), Name(problem[own].dtype), Name(own));
  }
  return CheckRows(
      slot, spec, {1, needs.prefix, problem.kv_heads, problem[own].channels()});
}

Status CheckPrefixBeside(const AttentionProblem& problem) {
  if (problem.direction == Direction::kBackward) {
    return Contradiction("key prefix: given, but the direction is backward");
  }
  if (problem.kv.rows == Rows::kPaged) {
    return Contradiction("key prefix: given, but keys are in pages");
  }
  for (Slot slot : {Slot::kKeyRope, Slot::kKeyRowScale, Slot::kValueRowScale}) {
    FLASHACL_RETURN_IF_ERROR(
        Forbidden(problem, slot, true, "sequences have a prefix"));
  }
  return {};
}

}  // namespace

Status CheckPages(const AttentionProblem& problem, const Needs& needs) {
  const bool paged = problem.kv.rows == Rows::kPaged;
  const TensorSpec& table = problem[Slot::kBlockTable];
  FLASHACL_RETURN_IF_ERROR(Required(problem, Slot::kBlockTable, paged));
  FLASHACL_RETURN_IF_ERROR(
      Forbidden(problem, Slot::kBlockTable, !paged, "keys are not paged"));
  if (!paged) return {};
  if (problem.kv.page_rows <= 0 || problem.kv.page_rows >= Band::kOpen) {
    return Invalid("page rows: {}, expected at least 1", problem.kv.page_rows);
  }
  FLASHACL_RETURN_IF_ERROR(CheckDType(Slot::kBlockTable, table, {DType::kI32}));
  FLASHACL_RETURN_IF_ERROR(CheckStrided(Slot::kBlockTable, table));
  FLASHACL_RETURN_IF_ERROR(
      Reaches(Slot::kBlockTable, table, 0, needs.sequences));
  const int64_t pages = CeilDiv(needs.columns, problem.kv.page_rows);
  if (table.dims[1] < pages) {
    return Invalid(
        "block table: {} pages of {} rows per sequence, but {} keys need {}",
        table.dims[1], problem.kv.page_rows, needs.columns, pages);
  }
  return {};
}

Status CheckPrefix(const AttentionProblem& problem, const Needs& needs) {
  int64_t b = 0;
  for (const Sequence& sequence : problem.lengths.sequences) {
    const bool fits = 0 <= sequence.prefix && sequence.prefix < Band::kOpen;
    if (sequence.prefix != needs.prefix || !fits) {
      return Invalid(
          "lengths: sequence {} has a prefix of {} keys, expected "
          "{} as others, and 0 to 2^40",
          b, sequence.prefix, needs.prefix);
    }
    ++b;
  }
  const bool prefixed = needs.prefix > 0;
  const bool shared = problem.kv.value_is_key;
  FLASHACL_RETURN_IF_ERROR(Required(problem, Slot::kKeyPrefix, prefixed));
  FLASHACL_RETURN_IF_ERROR(
      Required(problem, Slot::kValuePrefix, prefixed && !shared));
  for (Slot slot : {Slot::kKeyPrefix, Slot::kValuePrefix}) {
    FLASHACL_RETURN_IF_ERROR(
        Forbidden(problem, slot, !prefixed, "sequences have no prefix"));
  }
  if (!prefixed) return {};
  FLASHACL_RETURN_IF_ERROR(
      Forbidden(problem, Slot::kValuePrefix, shared, "value is key"));
  FLASHACL_RETURN_IF_ERROR(CheckPrefixBeside(problem));
  FLASHACL_RETURN_IF_ERROR(
      CheckPrefixRows(problem, needs, Slot::kKeyPrefix, Slot::kKey));
  return CheckPrefixRows(problem, needs, Slot::kValuePrefix, Slot::kValue);
}

}  // namespace flashacl
