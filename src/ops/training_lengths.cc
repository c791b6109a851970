// SPDX-License-Identifier: Apache-2.0
// Sequences and their statistics.
#include "ops/training_lengths.h"

#include <algorithm>
#include <limits>

#include "acl/arguments.h"
#include "acl/environment.h"
#include "acl/meaning.h"
#include "base/str.h"
#include "ops/canonical.h"

namespace flashacl::ops {
namespace {

constexpr int64_t kLanes = 8;  // copies of each row's maximum and sum

constexpr std::string_view kQueryLengths = "actualSeqQLenOptional";
constexpr std::string_view kKeyLengths = "actualSeqKvLenOptional";

// The row ranges of one list, put into `range` of each sequence.
Status ReadEnds(std::string_view name, const std::vector<int64_t>& ends,
                int64_t total, std::vector<Sequence>& sequences,
                Range Sequence::*range) {
  int64_t before = 0;
  int64_t first = 0;
  for (size_t b = 0; b < ends.size(); ++b) {
    const int64_t end = std::max<int64_t>(ends[b], 0);
    const int64_t length = std::max<int64_t>(end - before, 0);
    if (length > total - first) {
      return Contradiction(
          "{}: sequence {} ends at {} after {} rows, but the tensors have {} "
          "rows{}",
          name, b, ends[b], first, total, acl::IfTwoOfInt32(ends[b], total));
    }
    sequences[b].*range = {first, first + length};
    first += length;
    before = end;
  }
  return {};
}

// Strict mode: a list that does not ascend, and whose sum is the tensors' rows,
// is likely to be one of lengths. Of lists that ascend the run tells, which
// also sees those in device memory.
void AdviseOnLengths(std::string_view name, const std::vector<int64_t>& ends,
                     int64_t total) {
  if (!acl::TheEnvironment().strict || std::ranges::is_sorted(ends)) return;
  int64_t sum = 0, first = 0, read = 0;
  std::vector<int64_t> rows, as_ends;
  for (const int64_t end : ends) {
    if (end < 0 || end > total - sum) return;
    as_ends.push_back(sum += end);
    rows.push_back(std::max<int64_t>(end - first, 0));
    read += rows.back();
    first = end;
  }
  // Where no row is left, lengths would mean the same.
  if (sum != total || read == total) return;
  acl::AdviseOnce(
      name,
      Str("{}: {} are read as ends of sequences, which then have {} of {} "
          "rows; as ends they would be {}",
          name, Join(ends, ", "), Join(rows, ", "), total,
          Join(as_ends, ", ")));
}

// a + b for numbers of at least 0, as Product.
int64_t Sum(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum)
             ? std::numeric_limits<int64_t>::max()
             : sum;
}

// Adds what follows from the sequences.
Batch Measured(std::vector<Sequence> sequences) {
  Batch batch{.sequences = std::move(sequences)};
  for (const Sequence& sequence : batch.sequences) {
    batch.rows = Sum(batch.rows, sequence.rows());
    batch.columns = Sum(batch.columns, sequence.columns());
    batch.max_rows = std::max(batch.max_rows, sequence.rows());
    batch.max_columns = std::max(batch.max_columns, sequence.columns());
    batch.scores =
        Sum(batch.scores, Product(sequence.rows(), sequence.columns()));
  }
  return batch;
}

}  // namespace

int64_t Product(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product)
             ? std::numeric_limits<int64_t>::max()
             : product;
}

Result<Batch> ReadPacked(const aclIntArray* queries, const aclIntArray* keys,
                         Totals totals) {
  const auto query_ends = acl::ReadArray(kQueryLengths, queries);
  if (!query_ends.ok()) return query_ends.status();
  const auto key_ends = acl::ReadArray(kKeyLengths, keys);
  if (!key_ends.ok()) return key_ends.status();
  if (query_ends->empty() || key_ends->empty()) {
    return Invalid("{}: no elements, expected one per sequence",
                   query_ends->empty() ? kQueryLengths : kKeyLengths);
  }
  if (query_ends->size() != key_ends->size()) {
    return Contradiction("{}: {} elements, but {} has {}", kKeyLengths,
                         key_ends->size(), kQueryLengths, query_ends->size());
  }
  std::vector<Sequence> sequences(query_ends->size());
  FLASHACL_RETURN_IF_ERROR(ReadEnds(kQueryLengths, *query_ends, totals.queries,
                                    sequences, &Sequence::queries));
  FLASHACL_RETURN_IF_ERROR(ReadEnds(kKeyLengths, *key_ends, totals.keys,
                                    sequences, &Sequence::keys));
  AdviseOnLengths(kQueryLengths, *query_ends, totals.queries);
  AdviseOnLengths(kKeyLengths, *key_ends, totals.keys);
  return Measured(std::move(sequences));
}

Batch DenseBatch(int64_t sequences, int64_t rows, int64_t columns) {
  return Measured(std::vector<Sequence>(static_cast<size_t>(sequences),
                                        {{0, rows}, {0, columns}}));
}

void ForgetKeys(Batch& batch) {
  for (Sequence& sequence : batch.sequences) sequence.keys = {};
  batch.columns = batch.max_columns = batch.scores = 0;
}

int64_t StepOf(const acl::Tensor& tensor) {
  if (tensor.empty()) return 1;
  int64_t step = 0;
  int64_t next = 0;  // the stride that continues the axes after this one
  for (size_t axis = tensor.rank; axis-- > 0;) {
    if (tensor.dims[axis] == 1) continue;
    if (step == 0) {
      step = tensor.strides[axis];
      if (step <= 0) return 0;
      next = step;
    } else if (tensor.strides[axis] != next) {
      return 0;
    }
    next = Product(next, tensor.dims[axis]);
  }
  return step == 0 ? 1 : step;
}

Result<TensorSpec> RowStatisticSpec(const RowStatistic& statistic) {
  const acl::Tensor& tensor = statistic.tensor;
  const int64_t heads = statistic.heads;
  const int64_t rows = tensor.elements() / Product(heads, kLanes);
  const int64_t step = StepOf(tensor);
  TensorSpec spec{.dtype = tensor.dtype()};
  if (statistic.same_as_input) {
    spec.placement = Placement::kTensorRows;
    spec.dims = {statistic.sequences, heads, rows, kLanes};
    spec.strides = {0, Product(kLanes, step),
                    Product(Product(heads, kLanes), step), step};
    const bool declared = tensor.rank == 3 && tensor.dims[0] == rows &&
                          tensor.dims[1] == heads && tensor.dims[2] == kLanes;
    if (declared) {
      spec.strides = {0, tensor.strides[1], tensor.strides[0],
                      tensor.strides[2]};
      return spec;
    }
  } else {
    spec.placement = Placement::kBlocks;
    spec.dims = {statistic.sequences, heads, TensorSpec::kPerSequence, kLanes};
    spec.strides = {0, 0, 0, step};
  }
  if (step > 0) return spec;
  return Invalid(
      "{}: strides of shape {}, expected elements evenly spaced: the order of "
      "its memory is not that of its shape",
      statistic.name, ShapeText(tensor));
}

Result<TensorSpec> DenseStatisticSpec(const RowStatistic& statistic,
                                      int64_t rows) {
  const acl::Tensor& tensor = statistic.tensor;
  const std::array<int64_t, 4> expected{statistic.sequences, statistic.heads,
                                        rows, kLanes};
  if (std::ranges::equal(tensor.shape(), expected)) {
    return Strided(tensor, {0, 1, 2, 3}, expected);
  }
  return Invalid("{}: shape {}, expected [{}, {}, {}, {}]", statistic.name,
                 ShapeText(tensor), expected[0], expected[1], expected[2],
                 expected[3]);
}

}  // namespace flashacl::ops
