// SPDX-License-Identifier: Apache-2.0
// Walks two results element by element.
#include "verify/compare.h"

#include <algorithm>
#include <cmath>

#include "base/number.h"
#include "base/str.h"
#include "problem/tensor_checks.h"
#include "verify/fill.h"

namespace flashacl {
namespace {

constexpr double kRoundoff = 0x1p-24;  // of fp32

double Roundoff(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 0x1p-11;
    case DType::kBf16:
    case DType::kI8:  // of weights, beside 8-bit queries
      return 0x1p-8;
    default:
      return kRoundoff;
  }
}

// Half of the least distance of two numbers of the type.
double LeastRoundoff(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 0x1p-25;
    default:
      return 0x1p-134;  // bf16; more than f32's
  }
}

double Rounded(DType dtype, double value) {
  std::byte bytes[8];
  WriteNumber(dtype, bytes, value);
  return ReadNumber(dtype, bytes);
}

// i of compare.h.
double RoundoffOfQuery(const AttentionProblem& problem) {
  const bool list = problem.kv.rows == KvSource::Rows::kList;
  const TensorSpec& key = list && !problem.kv.key_list.empty()
                              ? problem.kv.key_list[0]
                              : problem[Slot::kKey];
  const bool may = problem.score.half_probs && key.dtype == DType::kI8 &&
                   problem.rope_dim == 0 && !problem.kv.gathers();
  return may ? 0x1p-15 : 0;
}

// A of compare.h.
double ScoreMagnitude(const AttentionProblem& problem, const Needs& needs) {
  const Score& score = problem.score;
  const auto dims = static_cast<double>(problem.qk_dim + problem.rope_dim);
  const double scale = std::fabs(static_cast<double>(score.scale));
  double magnitude = 6 + 6 * scale * std::sqrt(dims);
  const auto distance =
      static_cast<double>(std::max(needs.rows, needs.columns) +
                          std::abs(score.key_start - score.query_start));
  switch (score.bias) {
    case Score::Bias::kNone:
      return magnitude;
    case Score::Bias::kAfterScale:
      return magnitude + 3;
    case Score::Bias::kBeforeScale:
      return magnitude + 3 * scale;
    case Score::Bias::kAlibi:
      return magnitude + distance / 2;
    case Score::Bias::kAlibiSqrt:
      return magnitude + std::sqrt(distance) / 2;
  }
  return magnitude;
}

// The roundings of dP and delta, which cancel where a row sees one key, on
// their way into a gradient of `slot`.
double CancelledRoundings(const AttentionProblem& problem, const Needs& needs,
                          Slot slot) {
  const double v_dim = static_cast<double>(std::max<int64_t>(problem.v_dim, 1));
  const double of_score = kRoundoff * v_dim * 8 /
                          static_cast<double>(problem.score.keep_probability);
  const double scale = std::fabs(static_cast<double>(problem.score.scale));
  const auto rows =
      static_cast<double>(needs.sequences * needs.rows * problem.group());
  switch (slot) {
    case Slot::kGradQuery:
    case Slot::kGradQueryRope:
      return of_score * 3 * scale;
    case Slot::kGradKey:
    case Slot::kGradKeyRope:
      return of_score * 3 * scale * std::sqrt(rows + 1);
    case Slot::kGradBias: {
      const bool sums = IsAlibi(problem.score.bias);
      const auto terms = static_cast<double>(needs.rows + needs.columns) + rows;
      return of_score * (scale + 1) * (sums ? terms : std::sqrt(terms + 1));
    }
    case Slot::kGradSink:
      return of_score * std::sqrt(rows + 1);
    default:
      return 0;
  }
}

// One output while it is walked.
struct Walk {
  const AttentionProblem& problem;
  Slot slot;
  DType got_dtype;
  DType want_dtype;
  const std::byte* got;
  const std::byte* want;

  double Got(int64_t offset) const {
    return ReadNumber(got_dtype, got + offset * SizeOf(got_dtype));
  }
  double Want(int64_t offset) const {
    return ReadNumber(want_dtype, want + offset * SizeOf(want_dtype));
  }
};

// `count` elements, `stride` apart.
struct RowAt {
  int64_t offset, count, stride;
};

// Calls body(RowAt) for every row: along the last axis where the tensor is
// strided, else element by element.
template <typename Body>
void ForEachRow(const Walk& walk, Body body) {
  const TensorSpec& spec = walk.problem[walk.slot];
  const bool strided = spec.placement == Placement::kStrided;
  if (!strided || AxisCount(walk.problem, walk.slot) != 4) {
    const int64_t elements = ElementsOf(walk.problem, walk.slot);
    for (int64_t n = 0; n < elements; ++n) body(RowAt{n, 1, 1});
    return;
  }
  const int64_t planes = spec.strides[0] == 0 ? 1 : spec.dims[0];
  for (int64_t a = 0; a < planes; ++a) {
    for (int64_t b = 0; b < spec.dims[1]; ++b) {
      for (int64_t c = 0; c < spec.dims[2]; ++c) {
        body(RowAt{spec.At(a, b, c), spec.dims[3], spec.strides[3]});
      }
    }
  }
}

double GreatestOf(const Walk& walk, const RowAt& row) {
  double greatest = 0;
  for (int64_t n = 0; n < row.count; ++n) {
    const double want = std::fabs(walk.Want(row.offset + n * row.stride));
    if (std::isfinite(want)) greatest = std::max(greatest, want);
  }
  return greatest;
}

// True where both are NaN, or the same infinity once rounded; a result within
// its tolerance of the greatest number may have become infinite.
bool SameKind(const Walk& walk, double got, double want, double allowed) {
  const double rounded = Rounded(walk.got_dtype, want);
  if (std::isnan(got) || std::isnan(want)) {
    return std::isnan(got) && std::isnan(want);
  }
  if (!std::isinf(got) && !std::isinf(rounded)) return true;
  if (std::isinf(want)) return got == want;
  const double away = std::copysign(allowed, want);
  return std::isinf(Rounded(walk.got_dtype, want + away)) &&
         std::signbit(got) == std::signbit(want);
}

void CompareRow(const Walk& walk, const RowAt& row, const Tolerance& tolerance,
                Difference& difference) {
  const double greatest = GreatestOf(walk, row);
  bool want_zero = true;
  bool got_zero = true;
  for (int64_t n = 0; n < row.count; ++n) {
    const int64_t offset = row.offset + n * row.stride;
    const double got = walk.Got(offset);
    const double want = walk.Want(offset);
    const double allowed =
        tolerance.of_itself * std::fabs(want) + tolerance.absolute;
    want_zero = want_zero && want == 0;
    got_zero = got_zero && got == 0;
    ++difference.elements;
    if (!SameKind(walk, got, want, allowed)) ++difference.special;
    if (!std::isfinite(got) || !std::isfinite(want)) continue;
    const double error = std::fabs(got - want);
    const double share = error == 0 ? 0 : error / allowed;
    difference.max_error = std::max(difference.max_error, error);
    if (greatest > 0) {
      difference.max_row_error =
          std::max(difference.max_row_error, error / greatest);
    }
    if (share > 1) ++difference.wrong;
    if (share <= difference.max_share) continue;
    difference.max_share = share;
    difference.worst = offset;
    difference.worst_got = got;
    difference.worst_want = want;
  }
  // Quantised rows are compared by steps only.
  const bool exact = walk.slot == Slot::kOut && IsFloat(walk.got_dtype);
  if (exact && want_zero && !got_zero) ++difference.zero_rows;
}

}  // namespace

Tolerance ToleranceOf(const AttentionProblem& problem, Slot slot,
                      double greatest) {
  const Needs needs = NeedsOf(problem);
  const auto dims = static_cast<double>(problem.qk_dim + problem.rope_dim);
  const double of_scores =
      (kRoundoff * (std::sqrt(dims) + 8) + RoundoffOfQuery(problem)) *
      ScoreMagnitude(problem, needs);
  const double of_weights =
      of_scores +
      kRoundoff * (std::sqrt(static_cast<double>(needs.columns)) + 4);
  const DType dtype = problem[slot].dtype;
  // Nothing is stored as an i8 that has a scale by row.
  const bool by_row = problem.has(Slot::kQueryRowScale);
  const double stored =
      Roundoff(by_row ? DType::kF32 : problem[Slot::kQuery].dtype);
  switch (slot) {
    case Slot::kRowMax:
      return {kRoundoff, of_scores};
    case Slot::kRowSum:
      return {kRoundoff + 2 * of_weights, LeastRoundoff(dtype)};
    case Slot::kLse:
      // max + ln(sum): the sum's relative error is its logarithm's own.
      return {
          2 * kRoundoff,
          of_scores + 2 * of_weights + LeastRoundoff(dtype) +
              kRoundoff * (1 + std::log1p(static_cast<double>(needs.columns)))};
    case Slot::kOut:
      if (dtype == DType::kI8) return {0, 1};
      return {Roundoff(dtype),
              2 * (of_weights + stored) * greatest + LeastRoundoff(dtype)};
    default:
      return {Roundoff(dtype), 4 * (of_weights + stored) * greatest +
                                   LeastRoundoff(dtype) +
                                   CancelledRoundings(problem, needs, slot)};
  }
}

std::vector<Difference> Compare(const Sample& got, const Sample& truth) {
  return Compare(Outcome{got.problem(), got.bindings()},
                 Outcome{truth.problem(), truth.bindings()});
}

std::vector<Difference> Compare(const Outcome& got, const Outcome& truth) {
  std::vector<Difference> differences;
  const AttentionProblem& problem = got.problem;
  for (size_t index = 0; index < kSlots; ++index) {
    const auto slot = static_cast<Slot>(index);
    if (!problem.has(slot) || !IsOutput(problem.direction, slot)) continue;
    const Walk walk{problem,
                    slot,
                    problem[slot].dtype,
                    truth.problem[slot].dtype,
                    got.bindings[slot],
                    truth.bindings[slot]};
    Difference difference;
    difference.slot = slot;
    ForEachRow(walk, [&](const RowAt& row) {
      difference.greatest =
          std::max(difference.greatest, GreatestOf(walk, row));
    });
    const Tolerance tolerance = ToleranceOf(problem, slot, difference.greatest);
    ForEachRow(walk, [&](const RowAt& row) {
      CompareRow(walk, row, tolerance, difference);
    });
    differences.push_back(difference);
  }
  return differences;
}

bool AllOk(const std::vector<Difference>& differences) {
  return std::all_of(differences.begin(), differences.end(),
                     [](const Difference& one) { return one.ok(); });
}

std::string Describe(const Difference& difference) {
  std::string text =
      Str("{}: {} elements, error {:.2g}, {:.2g} of its row, {:.2g} of what is "
          "allowed",
          Name(difference.slot), difference.elements, difference.max_error,
          difference.max_row_error, difference.max_share);
  if (difference.wrong > 0) {
    text += Str("; {} are farther off, the worst at {}: {} is not {}",
                difference.wrong, difference.worst, difference.worst_got,
                difference.worst_want);
  }
  if (difference.special > 0) {
    text += Str("; {} are NaN or infinite where the truth is not, or else",
                difference.special);
  }
  if (difference.zero_rows > 0) {
    text += Str("; {} rows should be 0", difference.zero_rows);
  }
  return text;
}

}  // namespace flashacl
