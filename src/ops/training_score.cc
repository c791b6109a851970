// SPDX-License-Identifier: Apache-2.0
// Biases and dropout.
#include "ops/training_score.h"

#include <algorithm>
#include <array>

#include "acl/arguments.h"
#include "acl/environment.h"
#include "acl/meaning.h"
#include "base/str.h"
#include "ops/canonical.h"

namespace flashacl::ops {
namespace {

constexpr std::string_view kDropMask = "dropMaskOptional";

// Rows a compressed bias keeps of the full one.
constexpr int64_t kStoredRows = 1024;

constexpr int64_t kBitsPerByte = 8;

bool IsSlopes(const Training& training) { return training.pse_type >= 2; }

// Whether only the last rows are stored. As many as there are is all of them
// in the dense layouts; packed sequences store all in another form.
bool IsCompressed(const Training& training, const acl::Tensor& pse) {
  return !IsSlopes(training) && pse.rank == 4 &&
         (training.packed() || (pse.dims[2] == kStoredRows &&
                                training.batch.max_rows != kStoredRows));
}

Status BadShape(const Training& training, const acl::Tensor& tensor,
                std::string_view expected) {
  return Contradiction("{}: shape {}, expected {}", training.names->pse,
                       ShapeText(tensor), expected);
}

// [N] or [B, N].
Result<TensorSpec> Slopes(const Training& training, const acl::Tensor& tensor) {
  const int64_t count = training.batch.count();
  const int64_t heads = training.head_num;
  const std::array<int64_t, 4> repeat{count, heads, 1, 1};
  if (tensor.rank == 1 && tensor.dims[0] == heads) {
    return Strided(tensor, {kOne, 0, kOne, kOne}, repeat);
  }
  if (tensor.rank == 2 && tensor.dims[0] == count && tensor.dims[1] == heads) {
    return Strided(tensor, {0, 1, kOne, kOne}, repeat);
  }
  return BadShape(training, tensor,
                  Str("[{1}] or [{0}, {1}] slopes for pseType {2}", count,
                      heads, training.pse_type));
}

// [N * sum of rows * columns], or [N * sum of columns] for one row that all
// rows share.
Result<TensorSpec> Flat(const Training& training, const acl::Tensor& tensor) {
  const Batch& batch = training.batch;
  const int64_t heads = training.head_num;
  const int64_t all = Product(heads, batch.scores);
  const int64_t shared = Product(heads, batch.columns);
  if (tensor.dims[0] != all && tensor.dims[0] != shared) {
    return BadShape(training, tensor,
                    Str("[{}] (every score) or [{}] (one row)", all, shared));
  }
  const int64_t step = StepOf(tensor);
  if (step == 0) {
    return Invalid("{}: stride {}, expected elements of their own",
                   training.names->pse, tensor.strides[0]);
  }
  return TensorSpec{
      .dtype = tensor.dtype(),
      .placement = Placement::kBlocks,
      .dims = {batch.count(), heads,
               tensor.dims[0] == all ? TensorSpec::kPerSequence : 1,
               TensorSpec::kPerSequence},
      .strides = {0, 0, 0, step}};
}

// [B, N, 1024, maxSkv] or [1, N, 1024, maxSkv].
Result<TensorSpec> Compressed(const Training& training,
                              const acl::Tensor& tensor) {
  const int64_t count = training.batch.count();
  const int64_t heads = training.head_num;
  const int64_t columns = training.batch.max_columns;
  if ((tensor.dims[0] != 1 && tensor.dims[0] != count) ||
      tensor.dims[1] != heads || tensor.dims[2] != kStoredRows ||
      tensor.dims[3] != columns) {
    return BadShape(training, tensor,
                    Str("[1, {1}, 1024, {2}] or [{0}, {1}, 1024, {2}]", count,
                        heads, columns));
  }
  TensorSpec spec =
      Strided(tensor, {0, 1, 2, 3}, {count, heads, kStoredRows, columns});
  spec.placement = Placement::kDiagonal;
  return spec;
}

// Dense layouts: [B, N, Sq, Skv], or 1 instead of B, and instead of Sq for one
// row that all rows share.
Result<TensorSpec> Whole(const Training& training, const acl::Tensor& tensor) {
  const std::array<int64_t, 4> full{training.batch.count(), training.head_num,
                                    training.batch.max_rows,
                                    training.batch.max_columns};
  const auto& dims = tensor.dims;
  if (tensor.rank != 4 || (dims[0] != 1 && dims[0] != full[0]) ||
      dims[1] != full[1] || (dims[2] != 1 && dims[2] != full[2]) ||
      dims[3] != full[3]) {
    return BadShape(training, tensor,
                    Str("[{0} or 1, {1}, {2} or 1, {3}], or 1024 for {2}",
                        full[0], full[1], full[2], full[3]));
  }
  return Strided(tensor, {0, 1, 2, 3}, full);
}

// Whether the mask lets no row see beyond its own position.
bool IsCausal(const Training& training) {
  if (training.atten_mask == nullptr) return false;
  switch (training.sparse_mode) {
    case 0:
      return training.pre_tokens >= training.batch.max_rows &&
             training.next_tokens == 0;
    case 2:
    case 3:
      return true;
    default:
      return false;
  }
}

// Whether the stored rows have every element of a sequence's bias. Backward
// also takes short sequences whose queries and keys differ in number.
bool FitsStoredRows(const Training& training, const Sequence& s) {
  if (s.rows() == s.columns()) return true;
  return training.backward && s.rows() <= kStoredRows &&
         s.columns() - s.rows() < kStoredRows;
}

Status CheckCompressedPse(const Training& training) {
  const int64_t least = std::max(kStoredRows, training.batch.max_rows);
  if (training.batch.max_columns < least) {
    return Contradiction(
        "{}: compressed to 1024 rows, but the longest sequence has only {} "
        "keys, expected at least {}",
        training.names->pse, training.batch.max_columns, least);
  }
  if (!IsCausal(training)) {
    return Contradiction(
        "{}: compressed to 1024 rows, which needs a causal mask: an "
        "attenMaskOptional and {} 2, 3, or 0 with {} of at least {} and {} 0",
        training.names->pse, training.names->sparse_mode,
        training.names->pre_tokens, training.batch.max_rows,
        training.names->next_tokens);
  }
  for (int64_t b = 0; b < training.batch.count(); ++b) {
    const Sequence& s = training.batch.sequences[static_cast<size_t>(b)];
    if (FitsStoredRows(training, s)) continue;
    return Contradiction(
        "{}: compressed to 1024 rows, but sequence {} has {} queries and {} "
        "keys, expected as many",
        training.names->pse, b, s.rows(), s.columns());
  }
  return {};
}

// Modes 7 and 8 cut sequences in two, and a bias of the part is not that of the
// whole.
Status CheckSplit(const Training& training) {
  if (training.atten_mask == nullptr) return {};
  if (training.sparse_mode == 7) {
    return Contradiction("{}: given, but {} 7 takes none", training.names->pse,
                         training.names->sparse_mode);
  }
  if (training.sparse_mode != 8) return {};
  for (int64_t b = 0; b < training.batch.count(); ++b) {
    const Sequence& s = training.batch.sequences[static_cast<size_t>(b)];
    const bool shifted = b == 0 && IsSlopes(training);
    const int64_t start =
        shifted ? training.q_start_idx - training.kv_start_idx : 0;
    if (s.rows() - s.columns() + start == 0) continue;
    return Contradiction(
        "{}: given, but {} 8 takes one only if queries and keys of a sequence "
        "are as many; sequence {} has {} queries and {} keys{}",
        training.names->pse, training.names->sparse_mode, b, s.rows(),
        s.columns(),
        shifted ? Str(" and starts {} apart", start) : std::string());
  }
  return {};
}

// Dense forward: slopes are for square score matrices.
Status CheckSquare(const Training& training) {
  const Batch& batch = training.batch;
  if (training.packed() || training.backward || !IsSlopes(training) ||
      batch.max_rows == batch.max_columns) {
    return {};
  }
  return Contradiction(
      "{}: {} needs as many queries as keys with inputLayout {}, there are {} "
      "and {}",
      training.names->pse_type, training.pse_type, training.layout->name,
      batch.max_rows, batch.max_columns);
}

// Strict mode: nobody says what to drop.
void AdviseOnDropout(const Training& training) {
  if (!acl::TheEnvironment().strict) return;
  if (static_cast<float>(training.keep_prob) == 1.0f) return;
  const std::string_view name = training.names->keep_prob;
  acl::AdviseOnce(name, Str("{}: {} drops nothing: it is ignored without {}",
                            name, training.keep_prob, kDropMask));
}

}  // namespace

Status CheckPse(const Training& training, aclDataType query_type, bool empty) {
  const TrainingNames& names = *training.names;
  const int64_t type = training.pse_type;
  if (type < 0 || type > 3) {
    return Contradiction("{}: {}, expected 0 to 3", names.pse_type, type);
  }
  if (training.pse == nullptr) {
    // One without elements has none to enter scores, so its type is moot.
    if (type == 1 || (type == 0 && empty)) return {};
    return Invalid("{}: none, expected one with {} {}", names.pse,
                   names.pse_type, type);
  }
  const aclDataType expected = IsSlopes(training) ? ACL_FLOAT : query_type;
  if (training.pse->acl_dtype == expected) return {};
  return Invalid("{}: data type {} with {} {}, expected {}", names.pse,
                 acl::TypeText(training.pse->acl_dtype), names.pse_type, type,
                 acl::TypeText(expected));
}

Result<TensorSpec> PseGrid(const Training& training,
                           const acl::Tensor& tensor) {
  if (IsSlopes(training)) return Slopes(training, tensor);
  if (IsCompressed(training, tensor)) return Compressed(training, tensor);
  if (!training.packed()) return Whole(training, tensor);
  if (tensor.rank == 1) return Flat(training, tensor);
  return BadShape(training, tensor, "1 or 4 dimensions with inputLayout TND");
}

Status LowerPse(const Training& training, AttentionProblem& problem) {
  using Bias = Score::Bias;
  if (training.pse == nullptr) return {};
  Result<TensorSpec> grid = PseGrid(training, *training.pse);
  if (!grid.ok()) return grid.status();
  if (IsCompressed(training, *training.pse)) {
    FLASHACL_RETURN_IF_ERROR(CheckCompressedPse(training));
  }
  FLASHACL_RETURN_IF_ERROR(CheckSquare(training));
  FLASHACL_RETURN_IF_ERROR(CheckSplit(training));
  constexpr Bias kBiases[] = {Bias::kAfterScale, Bias::kBeforeScale,
                              Bias::kAlibi, Bias::kAlibiSqrt};
  problem[Slot::kBias] = *grid;
  problem.score.bias = kBiases[training.pse_type];
  if (!IsSlopes(training)) return {};
  problem.score.query_start = training.q_start_idx;
  problem.score.key_start = training.kv_start_idx;
  problem.score.starts_only_first =
      training.atten_mask != nullptr && training.sparse_mode == 8;
  return {};
}

Status CheckKeepProb(const Training& training) {
  const float keep = static_cast<float>(training.keep_prob);
  if (keep > 0.0f && keep <= 1.0f) return {};
  return Contradiction("{}: {}, expected more than 0 and at most 1",
                       training.names->keep_prob, training.keep_prob);
}

Status LowerDropMask(const Training& training, AttentionProblem& problem) {
  if (training.drop_mask == nullptr) {
    AdviseOnDropout(training);
    return {};
  }
  const acl::Tensor& mask = *training.drop_mask;
  const Batch& batch = training.batch;
  const int64_t bits = Product(training.head_num, batch.scores);
  const int64_t bytes =
      bits / kBitsPerByte + (bits % kBitsPerByte == 0 ? 0 : 1);
  if (mask.elements() < bytes) {
    return Contradiction(
        "{}: {} bytes hold fewer than the {} bits of all scores, expected at "
        "least {}",
        kDropMask, mask.elements(), bits, bytes);
  }
  if (StepOf(mask) != 1) {
    return Invalid("{}: strides of shape {}, expected contiguous bytes",
                   kDropMask, ShapeText(mask));
  }
  problem[Slot::kKeep] = {
      .dtype = DType::kU8,
      .placement = Placement::kBlocks,
      .dims = {batch.count(), training.head_num, TensorSpec::kPerSequence,
               TensorSpec::kPerSequence},
      .strides = {0, 0, 0, 1}};
  problem.score.keep_probability = static_cast<float>(training.keep_prob);
  return {};
}

}  // namespace flashacl::ops
