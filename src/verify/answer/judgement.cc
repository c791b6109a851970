// SPDX-License-Identifier: Apache-2.0
#include "verify/answer/judgement.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/number.h"

namespace flashacl {
namespace {

double RowError(const Part& exact, const Part& plain, size_t row) {
  double error = 0;
  for (size_t d = 0; d < static_cast<size_t>(exact.width); ++d) {
    const double off = std::fabs(exact.row(row)[d] - plain.row(row)[d]);
    if (std::isfinite(off)) error = std::max(error, off);
  }
  return error;
}

// Of one slot: the sum of (error / magnitude)^2, and over how many.
struct Squares {
  double sum = 0;
  double count = 0;
};

Squares SquaresOf(const Part& exact, const Part& plain) {
  Squares squares;
  for (size_t n = 0; n < exact.rows.size(); ++n) {
    const double magnitude = exact.magnitudes[n];
    if (!(magnitude > 0) || !std::isfinite(magnitude)) continue;
    for (size_t d = 0; d < static_cast<size_t>(exact.width); ++d) {
      const double off = (exact.row(n)[d] - plain.row(n)[d]) / magnitude;
      if (!std::isfinite(off)) continue;
      squares.sum += off * off;
      ++squares.count;
    }
  }
  return squares;
}

// True where both are NaN or the same infinity, once rounded.
bool SameSpecial(DType dtype, double got, double want) {
  if (std::isnan(got) || std::isnan(want)) {
    return std::isnan(got) && std::isnan(want);
  }
  std::byte bytes[8];
  WriteNumber(dtype, bytes, want);
  return got == want || got == ReadNumber(dtype, bytes);
}

RowJudgement JudgeRow(DType dtype, const Results& results, const Part& exact,
                      size_t n, double allowed_of_row) {
  RowJudgement judged;
  judged.row = exact.rows[n];
  judged.share = -1;
  const bool copies = IsRowResult(exact.slot);
  for (int64_t d = 0; d < results.Channels(exact); ++d) {
    const double want = exact.row(n)[copies ? 0 : static_cast<size_t>(d)];
    const double got = results.At(exact, n, d);
    const double error = std::fabs(got - want);
    double share = 0;
    if (!std::isfinite(got) || !std::isfinite(want)) {
      constexpr double kWrong = std::numeric_limits<double>::infinity();
      share = SameSpecial(dtype, got, want) ? 0 : kWrong;
    } else {
      judged.error = std::max(judged.error, error);
      share = error / (allowed_of_row + RoundingOf(dtype, want));
    }
    if (share <= judged.share) continue;
    judged.share = share;
    judged.channel = d;
    judged.got = got;
    judged.want = want;
  }
  judged.share = std::max(judged.share, 0.0);
  return judged;
}

}  // namespace

double RoundoffOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 0x1p-11;
    case DType::kBf16:
      return 0x1p-8;
    default:
      return 0x1p-24;
  }
}

double RoundingOf(DType dtype, double value) {
  // To a whole step, which was made in fp32: of numbers below 256, as an offset
  // may be as large as they are.
  if (dtype == DType::kI8) return 0.5 + 256 * 0x1p-22;
  // Numbers near 0 have a least distance.
  const double least = dtype == DType::kF16 ? 0x1p-25 : 0x1p-134;
  return RoundoffOf(dtype) * std::fabs(value) + least;
}

Allowance AllowanceOf(const AttentionProblem& problem,
                      std::span<const Part> exact,
                      std::span<const Part> plain) {
  std::map<Slot, Squares> by_slot;
  for (size_t n = 0; n < exact.size(); ++n) {
    const Squares squares = SquaresOf(exact[n], plain[n]);
    by_slot[exact[n].slot].sum += squares.sum;
    by_slot[exact[n].slot].count += squares.count;
  }
  Allowance allowance;
  for (const auto& [slot, squares] : by_slot) {
    const double least =
        IsOfScores(slot)
            ? std::max(0x1p-24, RoundoffOf(problem[Slot::kQuery].dtype) / 4)
            : 0.0;
    allowance.usual[slot] =
        std::max(least, std::sqrt(squares.sum / std::max(squares.count, 1.0)));
  }
  for (size_t n = 0; n < exact.size(); ++n) {
    const Part& part = exact[n];
    const double usual = allowance.usual[part.slot];
    double expected = 0;
    std::vector<double> rows;
    for (size_t row = 0; row < part.rows.size(); ++row) {
      const double plain_error = RowError(part, plain[n], row);
      const double magnitude = part.magnitudes[row];
      const double by_magnitude =
          std::isfinite(magnitude) ? 8 * usual * magnitude : 0;
      rows.push_back(std::max(2 * plain_error, by_magnitude));
      double greatest = 0;
      for (const double x : part.row(row)) {
        if (std::isfinite(x)) greatest = std::max(greatest, std::fabs(x));
      }
      expected = std::max(
          expected,
          plain_error + RoundingOf(problem[part.slot].dtype, greatest));
    }
    allowance.rows.push_back(std::move(rows));
    allowance.expected_errors.push_back(expected);
  }
  return allowance;
}

Results::Results(const TensorSet& tensors) : tensors_(tensors) {
  const AttentionProblem& problem = tensors.problem;
  const auto grid = [&](Slot slot) {
    return problem.has(slot) && tensors.bindings[slot] != nullptr
               ? Grid(problem[slot], problem.lengths.sequences)
               : Grid();
  };
  row_max_ = grid(Slot::kRowMax);
  row_sum_ = grid(Slot::kRowSum);
  lse_ = grid(Slot::kLse);
  if (problem.has(Slot::kGradBias)) {
    grad_bias_ =
        Grid(BiasSpec(problem, Slot::kGradBias), problem.lengths.sequences);
  }
}

int64_t Results::Channels(const Part& part) const {
  return IsRowResult(part.slot) ? tensors_.problem[part.slot].dims[3]
                                : part.width;
}

int64_t Results::Offset(const Part& part, size_t row, int64_t channel) const {
  const TensorSpec& spec = tensors_.problem[part.slot];
  const Sequence& sequence =
      tensors_.problem.lengths.sequences[static_cast<size_t>(part.sequence)];
  const auto in_grid = [&](const Grid& grid, int64_t column) {
    return grid.Plane(part.sequence, part.head).At(part.rows[row], column);
  };
  const int64_t copy = spec.ChannelAt(channel);
  switch (part.slot) {
    case Slot::kRowMax:
      return in_grid(row_max_, 0) + copy;
    case Slot::kRowSum:
      return in_grid(row_sum_, 0) + copy;
    case Slot::kLse:
      return in_grid(lse_, 0) + copy;
    case Slot::kGradBias:
      return in_grid(grad_bias_, channel);
    case Slot::kGradSink:
      return spec.At(part.head);
    case Slot::kGradKey:
    case Slot::kGradKeyRope:
    case Slot::kGradValue:
      return spec.At(part.sequence, sequence.keys.first + part.rows[row],
                     part.head, channel);
    default:
      return spec.At(part.sequence, sequence.queries.first + part.rows[row],
                     part.head, channel);
  }
}

double Results::At(const Part& part, size_t row, int64_t channel) const {
  const DType dtype = tensors_.problem[part.slot].dtype;
  return ReadNumber(dtype, tensors_.bindings[part.slot] +
                               Offset(part, row, channel) * SizeOf(dtype));
}

Judgement Judge(const TensorSet& tensors, std::span<const Part> exact,
                const Allowance& allowance) {
  const Results results(tensors);
  Judgement judgement;
  for (size_t n = 0; n < exact.size(); ++n) {
    const Part& part = exact[n];
    if (tensors.bindings[part.slot] == nullptr) continue;
    HeadJudgement head;
    head.slot = part.slot;
    head.sequence = part.sequence;
    head.head = part.head;
    head.expected_error = allowance.expected_errors[n];
    for (size_t row = 0; row < part.rows.size(); ++row) {
      head.rows.push_back(JudgeRow(tensors.problem[part.slot].dtype, results,
                                   part, row, allowance.rows[n][row]));
      const RowJudgement& judged = head.rows.back();
      head.wrong_rows += judged.wrong() ? 1 : 0;
      head.error = std::max(head.error, judged.error);
      head.share = std::max(head.share, judged.share);
    }
    judgement.rows += static_cast<int64_t>(head.rows.size());
    judgement.wrong_rows += head.wrong_rows;
    judgement.error = std::max(judgement.error, head.error);
    judgement.expected_error =
        std::max(judgement.expected_error, head.expected_error);
    judgement.share = std::max(judgement.share, head.share);
    judgement.heads.push_back(std::move(head));
  }
  return judgement;
}

}  // namespace flashacl
