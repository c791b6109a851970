// SPDX-License-Identifier: Apache-2.0
// Shapes and places of the lightning indexer.
#include "ops/indexer.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "acl/backend.h"
#include "acl/environment.h"

namespace flashacl::ops {
namespace {

using acl::Tensor;
using indexer::Operand;

// Keys that INT32 can name, and query channels of a row that can be scratch.
constexpr int64_t kMax = std::numeric_limits<int32_t>::max();

Operand OperandOf(const SparseCall& call, int row, const TensorSpec& spec) {
  return {.spec = spec,
          .argument = static_cast<size_t>(row),
          .offset_bytes = call[row].offset_bytes()};
}

}  // namespace

Status AsContradiction(Status status) {
  if (status.code() != Code::kInvalidArgument) return status;
  return {Code::kContradiction, status.message()};
}

Status CheckIndexerShapes(const SparseCall& call, int weights) {
  FLASHACL_RETURN_IF_ERROR(AsContradiction(CheckKey(call)));
  const Tensor& query = call.query();
  const int64_t heads = call.heads();
  const int64_t channels = call.dim();
  if (heads < 1 || channels < 1) {
    return Contradiction("query: shape {} has no heads or no channels",
                         ShapeText(query));
  }
  if (heads > kMax || channels > kMax / heads) {
    return Contradiction("query: shape {}, expected rows below 2^31 elements",
                         ShapeText(query));
  }
  const auto expected = query.shape().first(query.rank - 1);
  if (!std::ranges::equal(call[weights].shape(), expected)) {
    return Contradiction(
        "{}: shape {}, expected [{}] as query's rows and heads",
        call.name(weights), ShapeText(call[weights]), Join(expected, ", "));
  }
  return AsContradiction(CheckLengths(call));
}

Operand RowOperand(const SparseCall& call, int row) {
  const Tensor& tensor = call[row];
  if (tensor.rank == call.query().rank) return QueryOperand(call, row);
  if (!call.packed()) {
    return OperandOf(call, row, Strided(tensor, {0, 1, kOne, 2}, {0, 0, 1, 0}));
  }
  return OperandOf(
      call, row,
      Strided(tensor, {kOne, 0, kOne, 1}, {call.sequences(), 0, 1, 0}));
}

Operand QueryOperand(const SparseCall& call, int row) {
  return OperandOf(call, row,
                   Canonical(call[row], call.layout, 1, call.sequences()));
}

Operand KeyOperand(const SparseCall& call, int row) {
  return OperandOf(call, row,
                   Canonical(call[row], call.key_layout, 1, call.sequences()));
}

indexer::Rows IndexerRows(const SparseCall& call, int weights, int block_table,
                          int64_t sparse_mode) {
  acl::Lowered lowered;
  PlaceProblem(call, lowered);
  PlaceLikeQuery(call, {call.table.query, Slot::kQuery}, lowered);
  PlaceLikeKey(call, {call.table.key, Slot::kKey}, lowered);
  if (call.paged) PlacePages(call, block_table, lowered);
  indexer::Rows rows;
  rows.problem = std::move(lowered.problem);
  for (const acl::Use& use : lowered.uses) {
    rows.places.push_back({.slot = use.slot,
                           .argument = static_cast<size_t>(use.argument),
                           .offset_bytes = use.offset_bytes});
  }
  rows.weights = RowOperand(call, weights);
  rows.causal = sparse_mode == 3;
  rows.workers = acl::TheBackend().device.workers;
  return rows;
}

Status CheckIndexerLimits(const SparseCall& call, bool keys_fit, int64_t keys,
                          std::string_view takes) {
  if (!acl::TheEnvironment().strict) return {};
  for (const int row : {call.table.query_lengths, call.table.key_lengths}) {
    if (!call.has(row) || call[row].dtype() == DType::kI32) continue;
    return Invalid("{}: data type {}, the NPU takes INT32", call.name(row),
                   acl::TypeText(call[row].acl_dtype));
  }
  const std::string_view lists = call.name(call.table.indices);
  return CheckLimits(std::to_array<SparseLimit>({
      {call.heads() <= 64, "query", call.heads(), "heads", "up to 64"},
      {call.dim() == 128, "query", call.dim(), "channels", "128"},
      {keys_fit, lists, keys, "keys", takes},
  }));
}

}  // namespace flashacl::ops
