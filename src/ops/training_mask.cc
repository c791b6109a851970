// SPDX-License-Identifier: Apache-2.0
// Sparse modes as rules and grids. docs/operators/flash_attention_varlen.md
// has the table.
#include "ops/training_mask.h"

#include <algorithm>
#include <array>

#include "base/str.h"
#include "ops/canonical.h"
#include "ops/token_advice.h"

namespace flashacl::ops {
namespace {

constexpr std::string_view kMask = "attenMaskOptional";
constexpr std::string_view kPrefix = "prefixOptional";

constexpr int64_t kDefault = 0;
constexpr int64_t kAll = 1;
constexpr int64_t kLeftUpCausal = 2;
constexpr int64_t kRightDownCausal = 3;
constexpr int64_t kBand = 4;
constexpr int64_t kPrefixFull = 5;
constexpr int64_t kPrefixCompressed = 6;
constexpr int64_t kRightDownSplit = 7;
constexpr int64_t kLeftUpSplit = 8;

// Extents of a compressed mask; that of mode 6 has a second part below.
constexpr int64_t kCompressed = 2048;
constexpr int64_t kCompressedPrefix = 3072;

bool HasScores(const Sequence& sequence) {
  return sequence.rows() > 0 && sequence.columns() > 0;
}

// Calls check(b, rows, columns) for every sequence that has scores, until one
// fails.
template <typename Check>
Status ForSequences(const Training& training, const Check& check) {
  for (int64_t b = 0; b < training.batch.count(); ++b) {
    const Sequence& s = training.batch.sequences[static_cast<size_t>(b)];
    if (!HasScores(s)) continue;
    FLASHACL_RETURN_IF_ERROR(check(b, s.rows(), s.columns()));
  }
  return {};
}

// The sequence that modes 7 and 8 treat as a band: the last, the first one that
// has queries. -1 if none has.
int64_t BandSequence(const Training& training) {
  const auto& sequences = training.batch.sequences;
  int64_t found = -1;
  for (int64_t b = 0; b < training.batch.count(); ++b) {
    if (sequences[static_cast<size_t>(b)].rows() == 0) continue;
    found = b;
    if (training.sparse_mode == kLeftUpSplit) break;
  }
  return found;
}

Status CheckRightDown(const Training& training) {
  return ForSequences(
      training, [&](int64_t b, int64_t rows, int64_t columns) -> Status {
        if (rows <= columns) return {};
        return Contradiction(
            "{}: {} needs at least as many keys as queries, sequence {} has {} "
            "queries and {} keys",
            training.names->sparse_mode, training.sparse_mode, b, rows,
            columns);
      });
}

Status CheckForwardDefault(const Training& training) {
  const int64_t pre = training.pre_tokens;
  const int64_t next = training.next_tokens;
  const TrainingNames& names = *training.names;
  if (next < 0) {
    return Contradiction("{}: {}, expected at least 0 in sparse mode 0",
                         names.next_tokens, next);
  }
  if (pre < 0 && next < -pre) {
    return Contradiction("{}: {} with {} {}, the band is empty",
                         names.pre_tokens, pre, names.next_tokens, next);
  }
  return ForSequences(
      training, [&](int64_t b, int64_t rows, int64_t columns) -> Status {
        if (columns + pre >= rows) return {};
        return Contradiction(
            "{}: {} leaves the last of {} queries of sequence {} none of its "
            "{} keys",
            names.pre_tokens, pre, rows, b, columns);
      });
}

Status CheckForwardBand(const Training& training) {
  const int64_t pre = training.pre_tokens;
  const int64_t next = training.next_tokens;
  const TrainingNames& names = *training.names;
  if (pre < 0) {
    return Contradiction("{}: {}, expected at least 0 in sparse mode 4",
                         names.pre_tokens, pre);
  }
  if (next < 0 && pre + next < 0) {
    return Contradiction("{}: {} with {} {}, the band is empty",
                         names.next_tokens, next, names.pre_tokens, pre);
  }
  return ForSequences(
      training, [&](int64_t b, int64_t rows, int64_t columns) -> Status {
        if (rows - next <= columns) return {};
        return Contradiction(
            "{}: {} leaves the first of {} queries of sequence {} none of its "
            "{} keys",
            names.next_tokens, next, rows, b, columns);
      });
}

Status CheckForwardSplit(const Training& training) {
  const int64_t band = BandSequence(training);
  if (band < 0) return {};
  const TrainingNames& names = *training.names;
  const Sequence& s = training.batch.sequences[static_cast<size_t>(band)];
  if (!HasScores(s)) return {};
  const int64_t next = training.next_tokens;
  if (training.pre_tokens < s.columns()) {
    return Contradiction(
        "{}: {} is less than the {} keys of sequence {}, which sparse mode {} "
        "treats as a band",
        names.pre_tokens, training.pre_tokens, s.columns(), band,
        training.sparse_mode);
  }
  const bool above = training.sparse_mode == kRightDownSplit && next > 0;
  if (next < s.rows() - s.columns() || above) {
    return Contradiction(
        "{}: {} for sequence {} of {} queries and {} keys, expected at least "
        "{}{} in sparse mode {}",
        names.next_tokens, next, band, s.rows(), s.columns(),
        s.rows() - s.columns(), above ? " and at most 0" : "",
        training.sparse_mode);
  }
  return {};
}

// Dense forward: the band, counted from the top left, meets the score matrix,
// and not only beyond an end.
Status CheckForwardDense(const Training& training) {
  const Batch& batch = training.batch;
  const int64_t rows = batch.max_rows;
  const int64_t columns = batch.max_columns;
  const int64_t shift = training.sparse_mode == kBand ? columns - rows : 0;
  const int64_t pre = training.pre_tokens - shift;
  const int64_t next = training.next_tokens + shift;
  const bool left = pre < 0 && (next < -pre || -pre >= columns);
  const bool right = next < 0 && (pre < -next || -next >= rows);
  if (batch.scores == 0 || (!left && !right)) return {};
  const TrainingNames& names = *training.names;
  return Contradiction(
      "{}: {} with {} {} leaves nothing of {} queries and {} keys in sparse "
      "mode {}",
      left ? names.pre_tokens : names.next_tokens,
      left ? training.pre_tokens : training.next_tokens,
      left ? names.next_tokens : names.pre_tokens,
      left ? training.next_tokens : training.pre_tokens, rows, columns,
      training.sparse_mode);
}

// How many rows or columns the score matrix has before and after the corner a
// band is measured from.
struct Reach {
  int64_t before = 0;
  int64_t after = 0;
};

// The only thing backward asks of tokens: that the band meets the matrix.
Status CheckMeets(const Training& training, const Reach& reach, int64_t b) {
  const int64_t pre = training.pre_tokens;
  const int64_t next = training.next_tokens;
  const TrainingNames& names = *training.names;
  if (-pre > reach.before) {
    return Contradiction(
        "{}: {} is beyond the {} {} of sequence {}", names.pre_tokens, pre,
        reach.before, training.sparse_mode == kDefault ? "keys" : "queries", b);
  }
  if (-next > reach.after) {
    return Contradiction(
        "{}: {} is beyond the {} {} of sequence {}", names.next_tokens, next,
        reach.after, training.sparse_mode == kDefault ? "queries" : "keys", b);
  }
  const int64_t least = training.packed() ? 1 : 0;
  if (pre + next >= least) return {};
  return Contradiction("{}: {} with {} {}, expected a sum of at least {}",
                       names.pre_tokens, pre, names.next_tokens, next, least);
}

std::vector<MaskRule> SplitRules(const Training& training) {
  const bool right_down = training.sparse_mode == kRightDownSplit;
  std::vector<MaskRule> rules(training.batch.sequences.size(),
                              right_down ? Causal() : CausalTopLeft());
  const int64_t band = BandSequence(training);
  if (band >= 0) {
    rules[static_cast<size_t>(band)] =
        Window(training.pre_tokens, training.next_tokens);
  }
  return rules;
}

std::vector<MaskRule> PrefixRules(const Training& training) {
  std::vector<MaskRule> rules;
  rules.reserve(training.prefix.size());
  for (const int64_t prefix : training.prefix) {
    rules.push_back(Causal());
    rules.back().band.prefix = std::clamp<int64_t>(prefix, 0, Band::kOpen);
  }
  return rules;
}

Status BadShape(const Training& training, std::string_view expected) {
  return Contradiction("{}: shape {} in sparse mode {}, expected {}", kMask,
                       ShapeText(*training.atten_mask), training.sparse_mode,
                       expected);
}

// [2048, 2048], or [3072, 2048] for prefixes; never read.
Status CheckCompressed(const Training& training) {
  const acl::Tensor& mask = *training.atten_mask;
  const bool prefix = training.sparse_mode == kPrefixCompressed;
  const int64_t rows = prefix ? kCompressedPrefix : kCompressed;
  const size_t rank = mask.rank;
  const bool extents = rank >= 2 && mask.dims[rank - 2] == rows &&
                       mask.dims[rank - 1] == kCompressed;
  const bool whole = rank == 4 && !prefix &&
                     training.batch.max_rows == kCompressed &&
                     training.batch.max_columns == kCompressed;
  if (extents && (rank == 2 || whole)) return {};
  return BadShape(training, prefix ? "[3072, 2048]" : "[2048, 2048]");
}

// Whether every sequence with scores is as long as the longest: then padded and
// packed storage are the same.
bool EqualLengths(const Batch& batch) {
  return std::all_of(
      batch.sequences.begin(), batch.sequences.end(), [&](const Sequence& s) {
        return s.rows() == batch.max_rows && s.columns() == batch.max_columns;
      });
}

Result<TensorSpec> FourDimensional(const Training& training) {
  const acl::Tensor& mask = *training.atten_mask;
  const int64_t count = training.batch.count();
  const std::array<int64_t, 4> extents{count, training.head_num,
                                       training.batch.max_rows,
                                       training.batch.max_columns};
  const bool per_head =
      mask.dims[1] == training.head_num && mask.dims[0] == count;
  if ((mask.dims[0] != 1 && mask.dims[0] != count) ||
      (mask.dims[1] != 1 && !per_head) || mask.dims[2] != extents[2] ||
      mask.dims[3] != extents[3]) {
    return BadShape(training,
                    Str("[1, 1, {2}, {3}], [{0}, 1, {2}, {3}] or "
                        "[{0}, {1}, {2}, {3}]",
                        extents[0], extents[1], extents[2], extents[3]));
  }
  const bool packed =
      training.backward && mask.dims[0] > 1 && !EqualLengths(training.batch);
  if (!packed) return Strided(mask, {0, 1, 2, 3}, extents);
  const int64_t step = StepOf(mask);
  if (step == 0) {
    return Invalid(
        "{}: strides of shape {} with sequences of different lengths, expected "
        "elements evenly spaced: memory is one block per sequence",
        kMask, ShapeText(mask));
  }
  return TensorSpec{.dtype = mask.dtype(),
                    .placement = Placement::kBlocks,
                    .dims = {count, mask.dims[1], TensorSpec::kPerSequence,
                             TensorSpec::kPerSequence},
                    .strides = {0, 0, 0, step}};
}

}  // namespace

Status CheckSparseMode(const Training& training) {
  const int64_t mode = training.sparse_mode;
  const bool packed = training.packed();
  const int64_t last = packed ? kLeftUpSplit : kPrefixCompressed;
  const bool none = packed && mode == kPrefixFull;
  if (mode >= kDefault && mode <= last && !none) return {};
  return Contradiction(
      "{}: {}, expected {} with inputLayout {}", training.names->sparse_mode,
      mode, packed ? "0 to 4 or 6 to 8" : "0 to 6", training.layout->name);
}

Status CheckPrefix(const Training& training) {
  if (training.sparse_mode != kPrefixCompressed) return {};
  if (static_cast<int64_t>(training.prefix.size()) != training.batch.count()) {
    return Contradiction("{}: {} elements for {} sequences in sparse mode 6",
                         kPrefix, training.prefix.size(),
                         training.batch.count());
  }
  return ForSequences(
      training, [&](int64_t b, int64_t rows, int64_t columns) -> Status {
        const int64_t prefix = training.prefix[static_cast<size_t>(b)];
        const int64_t least = std::max<int64_t>(columns - rows, 0);
        if (least <= prefix && prefix <= columns) return {};
        return Contradiction(
            "{}: {} for sequence {} of {} queries and {} keys, expected {} to "
            "{}",
            kPrefix, prefix, b, rows, columns, least, columns);
      });
}

Status CheckForwardTokens(const Training& training) {
  const int64_t mode = training.sparse_mode;
  if (!training.packed()) {
    const bool band = mode == kDefault || mode == kBand;
    return band ? CheckForwardDense(training) : Status();
  }
  switch (mode) {
    case kDefault:
      return CheckForwardDefault(training);
    case kRightDownCausal:
      return CheckRightDown(training);
    case kBand:
      return CheckForwardBand(training);
    case kRightDownSplit:
      FLASHACL_RETURN_IF_ERROR(CheckRightDown(training));
      return CheckForwardSplit(training);
    case kLeftUpSplit:
      return CheckForwardSplit(training);
    default:
      return {};
  }
}

Status CheckBackwardTokens(const Training& training) {
  const int64_t mode = training.sparse_mode;
  const bool split = mode == kRightDownSplit || mode == kLeftUpSplit;
  if (mode != kDefault && mode != kBand && !split) return {};
  const int64_t only = split ? BandSequence(training) : -1;
  return ForSequences(
      training, [&](int64_t b, int64_t rows, int64_t columns) -> Status {
        if (split && b != only) return {};
        return CheckMeets(
            training,
            mode == kDefault ? Reach{columns, rows} : Reach{rows, columns}, b);
      });
}

Mask SparseRules(const Training& training) {
  const int64_t pre = training.pre_tokens;
  const int64_t next = training.next_tokens;
  switch (training.sparse_mode) {
    case kDefault:
      // Tokens that reach over the longest sequence hide nothing.
      if (pre >= training.batch.max_rows &&
          next >= training.batch.max_columns) {
        return {};
      }
      return {{TopLeftBand(-pre, next)}};
    case kLeftUpCausal:
      return {{CausalTopLeft()}};
    case kRightDownCausal:
      return {{Causal()}};
    case kBand:
      return {{Window(pre, next)}};
    case kPrefixCompressed:
      return {PrefixRules(training)};
    case kRightDownSplit:
    case kLeftUpSplit:
      return {SplitRules(training)};
    default:
      return {};
  }
}

// Without scores nobody looks at the tensor, whatever it is.
bool IsMaskCompressed(const Training& training) {
  return training.atten_mask != nullptr && training.batch.scores > 0 &&
         training.sparse_mode != kDefault && training.sparse_mode != kAll &&
         training.sparse_mode != kPrefixFull;
}

Result<TensorSpec> MaskGrid(const Training& training) {
  const acl::Tensor& mask = *training.atten_mask;
  const Batch& batch = training.batch;
  if (batch.scores == 0) return TensorSpec{};  // nothing to hide
  if (IsMaskCompressed(training)) {
    FLASHACL_RETURN_IF_ERROR(CheckCompressed(training));
    return TensorSpec{};
  }
  const bool per_sequence =
      training.sparse_mode == kPrefixFull && batch.count() > 1;
  if (per_sequence && (mask.rank != 4 || mask.dims[0] != batch.count())) {
    return BadShape(training, "one mask per sequence");
  }
  if (mask.rank == 4) return FourDimensional(training);
  const std::array<int64_t, 4> repeat{batch.count(), training.head_num, 0, 0};
  const auto is = [&](int64_t rows, int64_t columns) {
    return mask.rank == 2 && mask.dims[0] == rows && mask.dims[1] == columns;
  };
  if (is(batch.max_rows, batch.max_columns)) {
    return Strided(mask, {kOne, kOne, 0, 1}, repeat);
  }
  if (training.packed() && is(batch.rows, batch.columns)) {
    TensorSpec spec = Strided(mask, {kOne, kOne, 0, 1}, repeat);
    spec.placement = Placement::kTensorScores;
    return spec;
  }
  if (!training.packed()) {
    return BadShape(training, Str("[{0}, {1}], or [B, N, {0}, {1}] with B and "
                                  "N or 1",
                                  batch.max_rows, batch.max_columns));
  }
  return BadShape(
      training,
      Str("[{}, {}] (the longest sequences) or [{}, {}] (all of "
          "them)",
          batch.max_rows, batch.max_columns, batch.rows, batch.columns));
}

Status LowerMask(const Training& training, AttentionProblem& problem) {
  AdviseOnTokens({.pre_name = training.names->pre_tokens,
                  .next_name = training.names->next_tokens,
                  .pre = training.pre_tokens,
                  .next = training.next_tokens,
                  .sparse_mode = training.sparse_mode,
                  .has_mask = training.atten_mask != nullptr,
                  .longest = std::max(training.batch.max_rows,
                                      training.batch.max_columns)});
  if (training.atten_mask == nullptr) return {};
  FLASHACL_RETURN_IF_ERROR(CheckSparseMode(training));
  Result<TensorSpec> grid = MaskGrid(training);
  if (!grid.ok()) return grid.status();
  problem[Slot::kMask] = *grid;
  FLASHACL_RETURN_IF_ERROR(CheckPrefix(training));
  FLASHACL_RETURN_IF_ERROR(training.backward ? CheckBackwardTokens(training)
                                             : CheckForwardTokens(training));
  problem.mask = SparseRules(training);
  return {};
}

}  // namespace flashacl::ops
