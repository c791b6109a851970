// SPDX-License-Identifier: Apache-2.0
// Gradients of the scores of listed keys: aclnnLightningIndexerGrad. Formula
// and limits are in docs/operators/lightning_indexer_grad.md.
#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "aclnnop/aclnn_lightning_indexer_grad.h"
#include "ops/indexer.h"
#include "ops/operators.h"

namespace flashacl::ops {
namespace {

using acl::Argument;
using acl::Arguments;
using acl::Tensor;

enum Row {
  kQuery,
  kKey,
  kGradScore,
  kIndices,
  kWeights,
  kQueryLengths,
  kKeyLengths,
  kGradQuery,
  kGradKey,
  kGradWeights,
  kRowCount
};

constexpr std::array<Argument, kRowCount> kPacked{{
    Required("query", acl::kHalves),
    Required("key", acl::kHalves),
    Required("dy", acl::kHalves),
    Required("sparseIndices", acl::Bit(DType::kI32)),
    Required("weights", acl::kHalves),
    Required("actualSeqLengthsQuery", acl::kIndices),
    Required("actualSeqLengthsKey", acl::kIndices),
    Output("dQuery", acl::kHalves),
    Output("dKey", acl::kHalves),
    Output("dWeights", acl::kHalves),
}};

// Of sequences of one length nobody looks at lengths.
constexpr std::array<Argument, kRowCount> kDense =
    Ignoring(Ignoring(kPacked, kQueryLengths), kKeyLengths);

// The scalars of a call. headNum and tokens are not looked at, and
// `deterministic` has no effect: the result always is.
struct Args {
  std::string layout;
  int64_t sparseMode;

  bool packed() const { return layout == "TND"; }
};

constexpr SparseTable kSparse{.query = kQuery,
                              .key = kKey,
                              .value = -1,
                              .indices = kIndices,
                              .query_lengths = kQueryLengths,
                              .key_lengths = kKeyLengths,
                              .query_rope = -1,
                              .key_rope = -1};

Status CheckValues(const Args& args) {
  if (!args.packed() && args.layout != "BSND") {
    return Invalid("layout: \"{}\", expected BSND or TND", args.layout);
  }
  if (args.sparseMode == 0 || args.sparseMode == 3) return {};
  return Invalid("sparseMode: {}, expected 0 or 3", args.sparseMode);
}

// [.., row, K] or [.., row, 1, K]; of sparseIndices, which says what K is, and
// of dy with the same.
Status CheckLists(const SparseCall& call, int row) {
  const Tensor& tensor = call[row];
  const Tensor& indices = call[kIndices];
  const auto rows = call.query().shape().first(call.query().rank - 2);
  std::vector<int64_t> expected(rows.begin(), rows.end());
  if (tensor.rank == call.query().rank) expected.push_back(1);
  expected.push_back(indices.rank == 0 ? 0 : indices.dims[indices.rank - 1]);
  if (std::ranges::equal(tensor.shape(), expected)) return {};
  return Contradiction("{}: shape {}, expected query's rows {}, K",
                       call.name(row), ShapeText(tensor), Join(rows, ", "));
}

Status CheckShapes(const SparseCall& call) {
  FLASHACL_RETURN_IF_ERROR(CheckIndexerShapes(call, kWeights));
  FLASHACL_RETURN_IF_ERROR(CheckLists(call, kIndices));
  FLASHACL_RETURN_IF_ERROR(CheckLists(call, kGradScore));
  constexpr std::pair<Row, Row> kLike[] = {
      {kGradQuery, kQuery}, {kGradKey, kKey}, {kGradWeights, kWeights}};
  for (const auto& [row, like] : kLike) {
    FLASHACL_RETURN_IF_ERROR(AsContradiction(CheckLike(call, row, like)));
  }
  // What a row adds to keys is scratch memory.
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  const Tensor& indices = call[kIndices];
  const int64_t listed = indices.dims[indices.rank - 1];
  if (listed <= kMax / call.dim()) return {};
  return Contradiction(
      "sparseIndices: {} keys of {} channels, expected less than 2^31 numbers",
      listed, call.dim());
}

bool IsNothing(const SparseCall& call) {
  return call[kGradQuery].empty() && call[kGradKey].empty() &&
         call[kGradWeights].empty();
}

MadeComputation Lower(const Arguments& arguments, const Args& args) {
  SparseCall call{.arguments = arguments, .table = kSparse};
  FLASHACL_RETURN_IF_ERROR(arguments.CheckTypes());
  FLASHACL_RETURN_IF_ERROR(CheckValues(args));
  if (args.packed()) call.layout = call.key_layout = kTnd;
  FLASHACL_RETURN_IF_ERROR(CheckOneType(call));
  FLASHACL_RETURN_IF_ERROR(CheckShapes(call));
  const Tensor& indices = call[kIndices];
  const int64_t listed = indices.dims[indices.rank - 1];
  FLASHACL_RETURN_IF_ERROR(
      CheckIndexerLimits(call, listed <= 2048, listed, "up to 2048"));
  if (IsNothing(call)) return std::shared_ptr<const Computation>();
  call.columns = call.key_rows();
  indexer::Gradient gradient;
  gradient.rows = IndexerRows(call, kWeights, -1, args.sparseMode);
  gradient.indices = RowOperand(call, kIndices);
  gradient.grad_score = RowOperand(call, kGradScore);
  gradient.grad_query = QueryOperand(call, kGradQuery);
  gradient.grad_key = KeyOperand(call, kGradKey);
  gradient.grad_weights = RowOperand(call, kGradWeights);
  return indexer::MakeGradient(std::move(gradient));
}

constexpr aclnnStatus kContradiction = 561002;
const acl::Operator kDenseGrad{"aclnnLightningIndexerGrad", kDense,
                               kContradiction};

}  // namespace

const acl::Operator kLightningIndexerGrad{"aclnnLightningIndexerGrad", kPacked,
                                          kContradiction};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnLightningIndexerGradGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* dy,
    const aclTensor* sparseIndices, const aclTensor* weights,
    const aclTensor* actualSeqLengthsQuery,
    const aclTensor* actualSeqLengthsKey, int64_t /*headNum*/, char* layout,
    int64_t sparseMode, int64_t /*preTokens*/, int64_t /*nextTokens*/,
    bool /*deterministic*/, const aclTensor* dQuery, const aclTensor* dKey,
    const aclTensor* dWeights, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  const Args args{layout == nullptr ? "BSND" : flashacl::acl::ReadText(layout),
                  sparseMode};
  return Prepare(args.packed() ? kLightningIndexerGrad : kDenseGrad,
                 {query, key, dy, sparseIndices, weights, actualSeqLengthsQuery,
                  actualSeqLengthsKey, dQuery, dKey, dWeights},
                 args, Lower, {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnLightningIndexerGrad)
