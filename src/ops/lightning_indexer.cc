// SPDX-License-Identifier: Apache-2.0
// The keys that every query row will attend to: aclnnLightningIndexer. Formula
// and limits are in docs/operators/lightning_indexer.md.
#include <array>
#include <string_view>

#include "acl/environment.h"
#include "aclnnop/aclnn_lightning_indexer.h"
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
  kWeights,
  kQueryLengths,
  kKeyLengths,
  kBlockTable,
  kIndices,
  kValues,
  kRowCount
};

constexpr std::array<Argument, kRowCount> kTable{{
    Required("query", acl::kHalves),
    Required("key", acl::kHalves),
    Required("weights", acl::kFloats),
    {.name = "actualSeqLengthsQueryOptional", .dtypes = acl::kIndices},
    {.name = "actualSeqLengthsKeyOptional", .dtypes = acl::kIndices},
    {.name = "blockTableOptional", .dtypes = acl::Bit(DType::kI32)},
    Output("sparseIndicesOut", acl::Bit(DType::kI32)),
    {.name = "sparseValuesOut", .dtypes = acl::kHalves, .output = true},
}};

struct Args {
  const char* layoutQuery;
  const char* layoutKey;
  int64_t sparseCount;
  int64_t sparseMode;
  int64_t preTokens;
  int64_t nextTokens;
  bool returnValues;
};

constexpr SparseTable kSparse{.query = kQuery,
                              .key = kKey,
                              .value = -1,
                              .indices = kIndices,
                              .query_lengths = kQueryLengths,
                              .key_lengths = kKeyLengths,
                              .query_rope = -1,
                              .key_rope = -1};

Status CheckOneType(const SparseCall& call, const Args& args, int row) {
  if (row == kValues && !args.returnValues) return {};
  const aclDataType type = call[row].acl_dtype;
  const bool may_be_float = row == kWeights && type == ACL_FLOAT;
  if (may_be_float || type == call.query().acl_dtype) return {};
  return Invalid("{}: data type {} does not match query's {}", call.name(row),
                 acl::TypeText(type), acl::TypeText(call.query().acl_dtype));
}

Status CheckScalars(const Args& args) {
  if (args.sparseCount < 1) {
    return Invalid("sparseCount: {}, expected at least 1", args.sparseCount);
  }
  if (args.sparseMode != 0 && args.sparseMode != 3) {
    return Invalid("sparseMode: {}, expected 0 or 3", args.sparseMode);
  }
  FLASHACL_RETURN_IF_ERROR(CheckTokens("preTokens", args.preTokens));
  return CheckTokens("nextTokens", args.nextTokens);
}

// What must be there because of something else, or must not.
Status CheckCompanions(const SparseCall& call, const Args& args) {
  FLASHACL_RETURN_IF_ERROR(CheckLengthsGiven(call));
  if (call.paged && !call.has(kBlockTable)) {
    return NullArgument(
        "The blockTableOptional cannot be nullptr in layout PA_BSND.");
  }
  if (args.returnValues && !call.given(kValues)) {
    return NullArgument(
        "The sparseValuesOut cannot be nullptr when returnValues is true.");
  }
  return {};
}

Status CheckLists(const SparseCall& call, const Args& args, int row) {
  const Tensor& lists = call[row];
  FLASHACL_RETURN_IF_ERROR(AsContradiction(CheckIndices(call)));
  const int64_t width = lists.dims[lists.rank - 1];
  if (width == args.sparseCount) return {};
  return Contradiction("{}: {} entries of a list, expected {} as sparseCount",
                       call.name(row), width, args.sparseCount);
}

Status CheckShapes(SparseCall& call, const Args& args) {
  FLASHACL_RETURN_IF_ERROR(CheckIndexerShapes(call, kWeights));
  FLASHACL_RETURN_IF_ERROR(CheckLists(call, args, kIndices));
  if (args.returnValues) {
    FLASHACL_RETURN_IF_ERROR(
        AsContradiction(CheckLike(call, kValues, kIndices)));
  }
  if (!call.paged && call.has(kBlockTable)) {
    return Contradiction(
        "blockTableOptional: given, but layoutKeyOptional is not PA_BSND");
  }
  FLASHACL_RETURN_IF_ERROR(AsContradiction(ReadColumns(kBlockTable, call)));
  if (call.columns <= std::numeric_limits<int32_t>::max()) return {};
  return Contradiction("key: {} keys of a sequence, expected less than 2^31",
                       call.columns);
}

// What the NPU refuses although it has a meaning. Strict mode only.
Status CheckHardwareLimits(const SparseCall& call, const Args& args) {
  if (!acl::TheEnvironment().strict) return {};
  const int64_t keys = args.sparseCount;
  FLASHACL_RETURN_IF_ERROR(CheckIndexerLimits(
      call, keys <= 2048 || (keys <= 8192 && keys % 1024 == 0), keys,
      "up to 2048, or multiples of 1024 up to 8192"));
  if (!call.paged) return {};
  if (args.returnValues) {
    return Invalid("returnValues: true, but keys are in pages");
  }
  const int64_t page = call.key_rows();
  return CheckLimits(std::to_array<SparseLimit>(
      {{page % 16 == 0 && page <= 1024, "key", page, "rows of a block",
        "multiples of 16 up to 1024"}}));
}

MadeComputation Lower(const Arguments& arguments, const Args& args) {
  SparseCall call{.arguments = arguments, .table = kSparse};
  FLASHACL_RETURN_IF_ERROR(arguments.CheckTypes());
  FLASHACL_RETURN_IF_ERROR(
      ReadLayouts({"layoutQueryOptional", args.layoutQuery},
                  {"layoutKeyOptional", args.layoutKey}, call));
  FLASHACL_RETURN_IF_ERROR(CheckScalars(args));
  FLASHACL_RETURN_IF_ERROR(CheckCompanions(call, args));
  for (const int row : {kKey, kWeights, kValues}) {
    FLASHACL_RETURN_IF_ERROR(CheckOneType(call, args, row));
  }
  FLASHACL_RETURN_IF_ERROR(CheckShapes(call, args));
  FLASHACL_RETURN_IF_ERROR(CheckHardwareLimits(call, args));
  if (call[kIndices].empty()) return std::shared_ptr<const Computation>();
  indexer::Selection selection;
  selection.rows = IndexerRows(call, kWeights, kBlockTable, args.sparseMode);
  selection.indices = QueryOperand(call, kIndices);
  if (args.returnValues) selection.values = QueryOperand(call, kValues);
  return indexer::MakeSelection(std::move(selection));
}

}  // namespace

const acl::Operator kLightningIndexer{"aclnnLightningIndexer", kTable, 561002};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnLightningIndexerGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* weights,
    const aclTensor* actualSeqLengthsQueryOptional,
    const aclTensor* actualSeqLengthsKeyOptional,
    const aclTensor* blockTableOptional, char* layoutQueryOptional,
    char* layoutKeyOptional, int64_t sparseCount, int64_t sparseMode,
    int64_t preTokens, int64_t nextTokens, bool returnValues,
    const aclTensor* sparseIndicesOut, const aclTensor* sparseValuesOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare(kLightningIndexer,
                 {query, key, weights, actualSeqLengthsQueryOptional,
                  actualSeqLengthsKeyOptional, blockTableOptional,
                  sparseIndicesOut, sparseValuesOut},
                 Args{layoutQueryOptional, layoutKeyOptional, sparseCount,
                      sparseMode, preTokens, nextTokens, returnValues},
                 Lower, {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnLightningIndexer)
