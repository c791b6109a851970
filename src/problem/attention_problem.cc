// SPDX-License-Identifier: Apache-2.0
// The laws of a problem, one function per concern. They run for every plan, so
// they walk lengths once and allocate nothing unless they have to complain.
#include "problem/attention_problem.h"

#include <algorithm>
#include <initializer_list>

#include "problem/encoding_checks.h"
#include "problem/source_checks.h"
#include "problem/tensor_checks.h"

namespace flashacl {
namespace {

using Device = Lengths::Device;
using Rows = KvSource::Rows;

Status CheckHeads(const AttentionProblem& problem) {
  if (problem.heads <= 0) {
    return Invalid("heads: {}, expected at least 1", problem.heads);
  }
  if (problem.kv_heads <= 0 || problem.heads % problem.kv_heads != 0) {
    return Invalid("heads: {} query heads cannot share {} kv heads evenly",
                   problem.heads, problem.kv_heads);
  }
  if (problem.qk_dim < 0 || problem.rope_dim < 0 || problem.v_dim < 0) {
    return Invalid("dims: qk {}, rope {}, v {}, expected none below 0",
                   problem.qk_dim, problem.rope_dim, problem.v_dim);
  }
  return {};
}

bool Inside(Range range) {
  return 0 <= range.first && range.first <= range.last &&
         range.last < Band::kOpen;
}

// Sequences that share a tensor axis must own rows of their own where rows are
// written. With ends on the device, the stream says where they are.
Status CheckLengths(const AttentionProblem& problem) {
  const bool backward = problem.direction == Direction::kBackward;
  const TensorSpec& written = problem[backward ? Slot::kGradQuery : Slot::kOut];
  const bool rows_apart = problem.lengths.queries != Device::kEnds &&
                          written.present() && written.strides[0] == 0;
  const bool keys_apart = problem.lengths.keys != Device::kEnds && backward &&
                          problem[Slot::kKey].strides[0] == 0;
  int64_t rows_end = 0;
  int64_t keys_end = 0;
  int64_t b = 0;
  for (const Sequence& sequence : problem.lengths.sequences) {
    if (!Inside(sequence.queries) || !Inside(sequence.keys)) {
      return Invalid(
          "lengths: sequence {} has queries [{}, {}) and keys [{}, {}), "
          "expected ascending ranges within [0, 2^40)",
          b, sequence.queries.first, sequence.queries.last, sequence.keys.first,
          sequence.keys.last);
    }
    if (rows_apart && sequence.rows() > 0) {
      if (sequence.queries.first < rows_end) {
        return Invalid("lengths: queries of sequence {} begin at {}, before {}",
                       b, sequence.queries.first, rows_end);
      }
      rows_end = sequence.queries.last;
    }
    if (keys_apart && sequence.columns() > 0) {
      if (sequence.keys.first < keys_end) {
        return Invalid("lengths: keys of sequence {} begin at {}, before {}", b,
                       sequence.keys.first, keys_end);
      }
      keys_end = sequence.keys.last;
    }
    ++b;
  }
  return {};
}

Status CheckAnySpec(const AttentionProblem& problem, Slot slot,
                    const TensorSpec& spec) {
  const bool keys = slot == Slot::kKey || slot == Slot::kKeyRope ||
                    slot == Slot::kValue || slot == Slot::kKeyPrefix ||
                    slot == Slot::kValuePrefix;
  FLASHACL_RETURN_IF_ERROR(
      CheckBlocksOfChannels(slot, spec,
                            keys && problem.kv.rows != Rows::kList &&
                                problem.direction == Direction::kForward));
  return CheckSpec(slot, spec);
}

Status CheckSpecs(const AttentionProblem& problem) {
  for (size_t index = 0; index < kSlots; ++index) {
    if (!problem.tensors[index].present()) continue;
    FLASHACL_RETURN_IF_ERROR(CheckAnySpec(problem, static_cast<Slot>(index),
                                          problem.tensors[index]));
  }
  for (const TensorSpec& spec : problem.kv.key_list) {
    FLASHACL_RETURN_IF_ERROR(CheckAnySpec(problem, Slot::kKey, spec));
  }
  for (const TensorSpec& spec : problem.kv.value_list) {
    FLASHACL_RETURN_IF_ERROR(CheckAnySpec(problem, Slot::kValue, spec));
  }
  return {};
}

Status CheckQueryLike(const AttentionProblem& problem, const Needs& needs,
                      Slot slot, int64_t dim) {
  const TensorSpec& spec = problem[slot];
  if (!spec.present()) return {};
  const bool int8 = slot == Slot::kQuery && spec.dtype == DType::kI8;
  if (slot != Slot::kOut && !int8) {
    FLASHACL_RETURN_IF_ERROR(CheckFloat(slot, spec));
  }
  return CheckRows(slot, spec,
                   {needs.sequences, needs.row_end, problem.heads, dim});
}

Status CheckKeyLike(const AttentionProblem& problem, const Needs& needs,
                    Slot slot, int64_t dim) {
  const TensorSpec& spec = problem[slot];
  if (!spec.present()) return {};
  RowsOf want{needs.sequences, needs.key_end, problem.kv_heads, dim};
  if (problem.kv.rows == Rows::kPaged) {
    want.sequences = 0;  // the first axis counts pages
    want.row_end = problem.kv.page_rows;
  } else if (problem.kv.rows == Rows::kList && slot != Slot::kKeyRope) {
    want.sequences = 0;
  }
  return CheckRows(slot, spec, want);
}

Status CheckList(const AttentionProblem& problem, Slot slot,
                 const std::vector<TensorSpec>& list) {
  const bool listed = problem.kv.rows == Rows::kList && problem[slot].present();
  const size_t expected = listed ? problem.lengths.sequences.size() : 0;
  if (list.size() != expected) {
    return Invalid("{}: {} tensors in the list, expected {}", Name(slot),
                   list.size(), expected);
  }
  for (size_t b = 0; b < list.size(); ++b) {
    if (list[b].dtype != problem[slot].dtype) {
      return Invalid("{}: tensor {} of the list is {}, the first is {}",
                     Name(slot), b, Name(list[b].dtype),
                     Name(problem[slot].dtype));
    }
    FLASHACL_RETURN_IF_ERROR(
        CheckRows(slot, list[b],
                  {1, problem.lengths.sequences[b].keys.last, problem.kv_heads,
                   problem[slot].channels()}));
  }
  return {};
}

Status CheckQueries(const AttentionProblem& problem, const Needs& needs) {
  FLASHACL_RETURN_IF_ERROR(Required(problem, Slot::kQuery, true));
  FLASHACL_RETURN_IF_ERROR(
      CheckQueryLike(problem, needs, Slot::kQuery, problem.qk_dim));
  const bool rope = problem.rope_dim > 0;
  FLASHACL_RETURN_IF_ERROR(Required(problem, Slot::kQueryRope, rope));
  FLASHACL_RETURN_IF_ERROR(Required(problem, Slot::kKeyRope, rope));
  for (Slot slot : {Slot::kQueryRope, Slot::kKeyRope, Slot::kGradQueryRope,
                    Slot::kGradKeyRope}) {
    FLASHACL_RETURN_IF_ERROR(
        Forbidden(problem, slot, !rope, "rope has no channels"));
  }
  FLASHACL_RETURN_IF_ERROR(
      CheckQueryLike(problem, needs, Slot::kQueryRowScale, 1));
  return CheckQueryLike(problem, needs, Slot::kQueryRope, problem.rope_dim);
}

Status CheckValueIsKey(const AttentionProblem& problem) {
  const bool shared = problem.kv.value_is_key;
  FLASHACL_RETURN_IF_ERROR(Required(problem, Slot::kValue, !shared));
  for (Slot slot :
       {Slot::kValue, Slot::kGradValue, Slot::kValueScale, Slot::kValueOffset,
        Slot::kValueRowScale, Slot::kValueRowOffset}) {
    FLASHACL_RETURN_IF_ERROR(Forbidden(problem, slot, shared, "value is key"));
  }
  if (shared && problem.v_dim > problem.qk_dim) {
    return Contradiction("value is key: {} channels of value in {} of key",
                         problem.v_dim, problem.qk_dim);
  }
  return {};
}

Status CheckKeys(const AttentionProblem& problem, const Needs& needs) {
  FLASHACL_RETURN_IF_ERROR(Required(problem, Slot::kKey, true));
  FLASHACL_RETURN_IF_ERROR(CheckValueIsKey(problem));
  FLASHACL_RETURN_IF_ERROR(
      CheckKeyLike(problem, needs, Slot::kKey, problem.qk_dim));
  FLASHACL_RETURN_IF_ERROR(
      CheckKeyLike(problem, needs, Slot::kKeyRope, problem.rope_dim));
  FLASHACL_RETURN_IF_ERROR(
      CheckKeyLike(problem, needs, Slot::kValue, problem.v_dim));
  FLASHACL_RETURN_IF_ERROR(CheckList(problem, Slot::kKey, problem.kv.key_list));
  return CheckList(problem, Slot::kValue, problem.kv.value_list);
}

Status CheckTopK(const AttentionProblem& problem, const Needs& needs) {
  const bool gathered = problem.kv.gathers();
  const TensorSpec& list = problem[Slot::kTopK];
  FLASHACL_RETURN_IF_ERROR(Required(problem, Slot::kTopK, gathered));
  FLASHACL_RETURN_IF_ERROR(
      Forbidden(problem, Slot::kTopK, !gathered, "keys are not gathered"));
  if (!gathered) return {};
  if (problem.kv.gather_rows <= 0 || problem.kv.gather_rows >= Band::kOpen) {
    return Invalid("gather rows: {}, expected at least 1",
                   problem.kv.gather_rows);
  }
  FLASHACL_RETURN_IF_ERROR(
      CheckDType(Slot::kTopK, list, {DType::kI32, DType::kI64}));
  FLASHACL_RETURN_IF_ERROR(CheckStrided(Slot::kTopK, list));
  FLASHACL_RETURN_IF_ERROR(Reaches(Slot::kTopK, list, 0, needs.sequences));
  FLASHACL_RETURN_IF_ERROR(Reaches(Slot::kTopK, list, 1, needs.row_end));
  return Reaches(Slot::kTopK, list, 2, problem.kv_heads);
}

Status CheckMask(const AttentionProblem& problem, const Needs& needs) {
  const std::vector<MaskRule>& rules = problem.mask.rules;
  const auto count = static_cast<int64_t>(rules.size());
  if (count > 1 && count != needs.sequences) {
    return Invalid("mask: {} rules for {} sequences, expected 0, 1 or {}",
                   count, needs.sequences, needs.sequences);
  }
  for (const MaskRule& rule : rules) {
    const Band& band = rule.band;
    const auto far = [](int64_t distance) {
      return distance < -Band::kOpen || distance > Band::kOpen;
    };
    if (far(band.lower) || far(band.upper) || far(band.prefix) ||
        band.prefix < 0) {
      return Invalid(
          "mask: band {} to {} with prefix {}, expected distances within 2^40 "
          "and a prefix of at least 0",
          band.lower, band.upper, band.prefix);
    }
  }
  if (!problem.has(Slot::kMask)) return {};
  FLASHACL_RETURN_IF_ERROR(CheckDType(Slot::kMask, problem[Slot::kMask],
                                      {DType::kBool, DType::kU8, DType::kI8}));
  return CheckScoreGrid(problem, needs, Slot::kMask);
}

// Biases are grids; slopes are [sequence, head].
Status CheckBiasLike(const AttentionProblem& problem, const Needs& needs,
                     Slot slot) {
  const TensorSpec& spec = problem[slot];
  if (!IsAlibi(problem.score.bias)) {
    FLASHACL_RETURN_IF_ERROR(CheckFloat(slot, spec));
    return CheckScoreGrid(problem, needs, slot);
  }
  FLASHACL_RETURN_IF_ERROR(CheckDType(slot, spec, {DType::kF32}));
  FLASHACL_RETURN_IF_ERROR(CheckStrided(slot, spec));
  FLASHACL_RETURN_IF_ERROR(Reaches(slot, spec, 0, needs.sequences));
  return Reaches(slot, spec, 1, problem.heads);
}

// [head].
Status CheckSinkLike(const AttentionProblem& problem, Slot slot) {
  const TensorSpec& spec = problem[slot];
  if (!spec.present()) return {};
  FLASHACL_RETURN_IF_ERROR(problem.direction == Direction::kForward
                               ? CheckFloat(slot, spec)
                               : CheckDType(slot, spec, {DType::kF32}));
  FLASHACL_RETURN_IF_ERROR(CheckStrided(slot, spec));
  return Reaches(slot, spec, 0, problem.heads);
}

Status CheckScore(const AttentionProblem& problem, const Needs& needs) {
  const Score& score = problem.score;
  const bool biased = score.bias != Score::Bias::kNone;
  FLASHACL_RETURN_IF_ERROR(Required(problem, Slot::kBias, biased));
  FLASHACL_RETURN_IF_ERROR(
      Forbidden(problem, Slot::kBias, !biased, "the score has no bias"));
  if (biased) {
    FLASHACL_RETURN_IF_ERROR(CheckBiasLike(problem, needs, Slot::kBias));
  }
  for (int64_t start : {score.query_start, score.key_start}) {
    if (start <= -Band::kOpen || start >= Band::kOpen) {
      return Invalid("alibi: start {}, expected one within 2^40", start);
    }
  }
  if (score.half_probs && !MayHaveHalfProbs(problem)) {
    return Contradiction(
        "probs: of 16 bits beside a query of {}, expected one of bf16, or of "
        "f16 beside keys with scales",
        Name(problem[Slot::kQuery].dtype));
  }
  FLASHACL_RETURN_IF_ERROR(CheckSinkLike(problem, Slot::kSink));
  if (!(score.keep_probability > 0.0f && score.keep_probability <= 1.0f)) {
    return Invalid("keep probability: {}, expected more than 0 and at most 1",
                   score.keep_probability);
  }
  if (!problem.has(Slot::kKeep)) {
    if (score.keep_probability == 1.0f) return {};
    return Contradiction("keep probability: {} without keep bits",
                         score.keep_probability);
  }
  FLASHACL_RETURN_IF_ERROR(
      CheckDType(Slot::kKeep, problem[Slot::kKeep], {DType::kU8}));
  return CheckScoreGrid(problem, needs, Slot::kKeep);
}

Status CheckLengthTensors(const AttentionProblem& problem, const Needs& needs) {
  for (const auto& [slot, device] :
       {std::pair{Slot::kQueryLengths, problem.lengths.queries},
        std::pair{Slot::kKeyLengths, problem.lengths.keys}}) {
    const bool host = device == Device::kNone;
    FLASHACL_RETURN_IF_ERROR(Required(problem, slot, !host));
    FLASHACL_RETURN_IF_ERROR(
        Forbidden(problem, slot, host, "lengths are known when planning"));
    if (!problem.has(slot)) continue;
    FLASHACL_RETURN_IF_ERROR(
        CheckDType(slot, problem[slot], {DType::kI32, DType::kI64}));
    FLASHACL_RETURN_IF_ERROR(CheckStrided(slot, problem[slot]));
    FLASHACL_RETURN_IF_ERROR(Reaches(slot, problem[slot], 0, needs.sequences));
  }
  if (problem.lengths.keys == Device::kEnds &&
      problem.kv.rows != Rows::kStrided) {
    return Contradiction(
        "key lengths: ends of keys that share no axis of rows");
  }
  FLASHACL_RETURN_IF_ERROR(Forbidden(problem, Slot::kKeyPadding,
                                     problem.kv.rows != Rows::kStrided,
                                     "keys are not rows of one tensor"));
  for (const Slot slot : {Slot::kQueryPadding, Slot::kKeyPadding}) {
    if (!problem.has(slot)) continue;
    FLASHACL_RETURN_IF_ERROR(CheckDType(slot, problem[slot], {DType::kI64}));
  }
  return {};
}

Status CheckOut(const AttentionProblem& problem, const Needs& needs) {
  FLASHACL_RETURN_IF_ERROR(Required(problem, Slot::kOut, true));
  FLASHACL_RETURN_IF_ERROR(
      CheckDType(Slot::kOut, problem[Slot::kOut],
                 {DType::kF32, DType::kF16, DType::kBf16, DType::kI8}));
  FLASHACL_RETURN_IF_ERROR(
      CheckQueryLike(problem, needs, Slot::kOut, problem.v_dim));
  for (Slot slot : {Slot::kRowMax, Slot::kRowSum, Slot::kLse}) {
    if (!problem.has(slot)) continue;
    FLASHACL_RETURN_IF_ERROR(CheckRowGrid(problem, needs, slot));
  }
  if (problem.direction == Direction::kBackward) return {};
  return CheckApart(Slot::kOut, problem[Slot::kOut]);
}

Status CheckForward(const AttentionProblem& problem) {
  for (Slot slot : {Slot::kGradOut, Slot::kGradQuery, Slot::kGradQueryRope,
                    Slot::kGradKey, Slot::kGradKeyRope, Slot::kGradValue,
                    Slot::kGradBias, Slot::kGradSink}) {
    FLASHACL_RETURN_IF_ERROR(
        Forbidden(problem, slot, true, "the direction is forward"));
  }
  return {};
}

Status CheckGradients(const AttentionProblem& problem, const Needs& needs) {
  FLASHACL_RETURN_IF_ERROR(
      CheckQueryLike(problem, needs, Slot::kGradQuery, problem.qk_dim));
  FLASHACL_RETURN_IF_ERROR(
      CheckQueryLike(problem, needs, Slot::kGradQueryRope, problem.rope_dim));
  FLASHACL_RETURN_IF_ERROR(
      CheckKeyLike(problem, needs, Slot::kGradKey, problem.qk_dim));
  FLASHACL_RETURN_IF_ERROR(
      CheckKeyLike(problem, needs, Slot::kGradKeyRope, problem.rope_dim));
  FLASHACL_RETURN_IF_ERROR(
      CheckKeyLike(problem, needs, Slot::kGradValue, problem.v_dim));
  for (Slot slot : {Slot::kGradQuery, Slot::kGradQueryRope, Slot::kGradKey,
                    Slot::kGradKeyRope, Slot::kGradValue}) {
    if (!problem.has(slot)) continue;
    FLASHACL_RETURN_IF_ERROR(CheckFloat(slot, problem[slot]));
    FLASHACL_RETURN_IF_ERROR(CheckApart(slot, problem[slot]));
  }
  FLASHACL_RETURN_IF_ERROR(Forbidden(
      problem, Slot::kGradSink, !problem.has(Slot::kSink), "there is no sink"));
  FLASHACL_RETURN_IF_ERROR(Forbidden(
      problem, Slot::kGradBias, !problem.has(Slot::kBias), "there is no bias"));
  FLASHACL_RETURN_IF_ERROR(CheckSinkLike(problem, Slot::kGradSink));
  if (!problem.has(Slot::kGradBias)) return {};
  return CheckBiasLike(problem, needs, Slot::kGradBias);
}

Status CheckBackward(const AttentionProblem& problem, const Needs& needs) {
  if (problem.kv.rows == Rows::kPaged || problem.kv.rows == Rows::kList) {
    return Invalid("keys: backward takes rows of one tensor only");
  }
  for (Slot slot : {Slot::kKey, Slot::kOut}) {
    const DType dtype = problem[slot].dtype;
    if (IsQuantised(dtype)) {
      return Invalid("{}: dtype {} has no gradient", Name(slot), Name(dtype));
    }
  }
  for (Slot slot : {Slot::kGradOut, Slot::kRowMax, Slot::kRowSum}) {
    FLASHACL_RETURN_IF_ERROR(Required(problem, slot, true));
  }
  for (Slot slot : {Slot::kLse, Slot::kQueryPadding}) {
    FLASHACL_RETURN_IF_ERROR(
        Forbidden(problem, slot, true, "the direction is backward"));
  }
  FLASHACL_RETURN_IF_ERROR(
      CheckQueryLike(problem, needs, Slot::kGradOut, problem.v_dim));
  return CheckGradients(problem, needs);
}

}  // namespace

TensorSpec BiasSpec(const AttentionProblem& problem, Slot slot) {
  TensorSpec spec = problem[slot];
  // A spec's dims count only as far as its slot has axes.
  if (IsAlibi(problem.score.bias)) spec.dims[2] = spec.dims[3] = 1;
  return spec;
}

int64_t RowBlockElements(const AttentionProblem& problem, Slot slot) {
  const TensorSpec& out = problem[Slot::kOut];
  const int64_t sequences = out.strides[0] == 0 ? 1 : out.dims[0];
  const int64_t count =
      sequences * out.dims[1] * problem.heads * problem[slot].dims[3];
  return count == 0 ? 0 : (count - 1) * problem[slot].block_step() + 1;
}

Status CheckProblem(const AttentionProblem& problem) {
  FLASHACL_RETURN_IF_ERROR(CheckHeads(problem));
  FLASHACL_RETURN_IF_ERROR(CheckSpecs(problem));
  FLASHACL_RETURN_IF_ERROR(CheckLengths(problem));
  const Needs needs = NeedsOf(problem);
  FLASHACL_RETURN_IF_ERROR(CheckQueries(problem, needs));
  FLASHACL_RETURN_IF_ERROR(CheckKeys(problem, needs));
  FLASHACL_RETURN_IF_ERROR(CheckPrefix(problem, needs));
  FLASHACL_RETURN_IF_ERROR(CheckPages(problem, needs));
  FLASHACL_RETURN_IF_ERROR(CheckTopK(problem, needs));
  FLASHACL_RETURN_IF_ERROR(CheckOut(problem, needs));
  FLASHACL_RETURN_IF_ERROR(CheckDTypes(problem));
  FLASHACL_RETURN_IF_ERROR(CheckRowScales(problem, needs));
  FLASHACL_RETURN_IF_ERROR(CheckMask(problem, needs));
  FLASHACL_RETURN_IF_ERROR(CheckScore(problem, needs));
  FLASHACL_RETURN_IF_ERROR(CheckLengthTensors(problem, needs));
  return problem.direction == Direction::kForward
             ? CheckForward(problem)
             : CheckBackward(problem, needs);
}

}  // namespace flashacl
