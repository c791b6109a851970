// SPDX-License-Identifier: Apache-2.0
// The lightning indexer, forward and backward: what both refuse, and where both
// have their tensors. Queries, keys and lengths are those of sparse attention;
// what does not fit is kContradiction here.
#pragma once

#include "indexer/indexer.h"
#include "ops/sparse.h"

namespace flashacl::ops {

// The same words, of arguments that do not fit together.
Status AsContradiction(Status status);

// Query, key, weights and lengths, which also are no larger than lists can
// name, and kernels count.
Status CheckIndexerShapes(const SparseCall& call, int weights);

// A tensor of query's rows: [.., row, 1, channel] or [.., row, channel].
indexer::Operand RowOperand(const SparseCall& call, int row);
// A tensor like query, or like key.
indexer::Operand QueryOperand(const SparseCall& call, int row);
indexer::Operand KeyOperand(const SparseCall& call, int row);

// `block_table` if keys are in pages.
indexer::Rows IndexerRows(const SparseCall& call, int weights, int block_table,
                          int64_t sparse_mode);

// Strict mode: lengths are INT32, there are as many heads and channels as the
// NPU takes, and as many keys in a list.
Status CheckIndexerLimits(const SparseCall& call, bool keys_fit, int64_t keys,
                          std::string_view takes);

}  // namespace flashacl::ops
