// SPDX-License-Identifier: Apache-2.0
// The sequences of a training call: packed one after the other ("TND"), from
// cumulative lengths to row ranges, or all alike in the dense layouts; and the
// tensors whose memory follows the sequences.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "acl/tensor.h"
#include "aclnn/acl_meta.h"
#include "base/status.h"
#include "problem/lengths.h"
#include "problem/tensor_spec.h"

namespace flashacl::ops {

// The sequences of one call and the sizes other shapes are measured by.
struct Batch {
  std::vector<Sequence> sequences;
  int64_t rows = 0;     // of all sequences together; saturates
  int64_t columns = 0;  // the same
  int64_t max_rows = 0;
  int64_t max_columns = 0;
  int64_t scores = 0;  // sum of rows * columns; saturates

  int64_t count() const { return static_cast<int64_t>(sequences.size()); }
};

// a * b for numbers of at least 0; the greatest integer if that is too small.
int64_t Product(int64_t a, int64_t b);

// How many rows the packed tensors have: T of query and of key.
struct Totals {
  int64_t queries = 0;
  int64_t keys = 0;
};

// Element b of a list is where sequence b ends. An element that is not above
// the one before stands for an empty sequence, so lists may end in zeros.
// kInvalidArgument for an empty list, kContradiction if the lists differ in
// size or ask for more rows than there are. Null counts as empty.
Result<Batch> ReadPacked(const aclIntArray* queries, const aclIntArray* keys,
                         Totals totals);

// What the dense layouts have: `sequences` of the same size, whose rows are
// counted from the start of their own part of each tensor.
Batch DenseBatch(int64_t sequences, int64_t rows, int64_t columns);

// Makes all sequences empty of keys.
void ForgetKeys(Batch& batch);

// The distance between neighbours if the elements of `tensor`, read in order of
// its shape, are evenly spaced; else 0.
int64_t StepOf(const acl::Tensor& tensor);

// softmaxMax and softmaxSum of packed sequences. `same_as_input`: [T, N, 8] as
// the shape says, else memory holds one [N, rows, 8] block per sequence,
// whatever the shape says. The tensor must have T * N * 8 elements.
// kInvalidArgument if its strides cannot be followed.
struct RowStatistic {
  std::string_view name;
  const acl::Tensor& tensor;
  int64_t heads = 0;
  int64_t sequences = 0;
  bool same_as_input = false;
};
Result<TensorSpec> RowStatisticSpec(const RowStatistic& statistic);

// The same in the dense layouts: [B, N, Sq, 8], with any strides.
// kInvalidArgument if the shape is another.
Result<TensorSpec> DenseStatisticSpec(const RowStatistic& statistic,
                                      int64_t rows);

}  // namespace flashacl::ops
